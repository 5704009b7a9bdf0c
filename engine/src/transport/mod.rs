//! What carries requests: connections by family, beneath the protocols.

pub mod grpc;
pub mod tcp;
pub mod tls;
