//! Formats of messages: how values become bytes and back, whoever sends them.

pub mod arrow;
pub mod protobuf;

/// Bytes that are not a message of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError(pub &'static str);
