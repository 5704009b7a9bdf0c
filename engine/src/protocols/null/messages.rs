//! Messages of the null server.

use bytes::Bytes;
use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub struct Search {
    #[prost(uint64, tag = 1)]
    pub k: u64,
    #[prost(float, repeated, tag = 2)]
    pub vector: Vec<f32>,
    #[prost(bytes = "bytes", optional, tag = 4)]
    pub filter: Option<Bytes>,
}

/// Rows to write, get or delete.
#[derive(Clone, PartialEq, Message)]
pub struct Rows {
    /// One after the other.
    #[prost(float, repeated, tag = 2)]
    pub vectors: Vec<f32>,
    #[prost(int64, repeated, tag = 3)]
    pub ids: Vec<i64>,
}

/// An answer to a search.
#[derive(Clone, PartialEq, Message)]
pub struct Found {
    #[prost(int64, repeated, tag = 1)]
    pub ids: Vec<i64>,
    #[prost(float, repeated, tag = 2)]
    pub scores: Vec<f32>,
}
