//! What carries requests: connections by family, beneath the protocols.

pub mod grpc;
pub mod http;
pub mod postgres;
pub mod resp;
pub mod tcp;
