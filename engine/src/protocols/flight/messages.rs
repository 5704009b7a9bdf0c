//! Messages of `arrow.flight.protocol`, as far as they are sent.

use bytes::Bytes;
use prost::Message;

/// `Ticket`, and `Result` of an action, which agree.
#[derive(Clone, PartialEq, Message)]
pub struct Ticket {
    #[prost(bytes = "bytes", tag = 1)]
    pub content: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub struct Action {
    #[prost(string, tag = 1)]
    pub kind: String,
    #[prost(bytes = "bytes", tag = 2)]
    pub body: Bytes,
}

/// Carries an Arrow message; the first of a put says where to.
#[derive(Clone, PartialEq, Message)]
pub struct FlightData {
    #[prost(message, optional, tag = 1)]
    pub descriptor: Option<FlightDescriptor>,
    #[prost(bytes = "bytes", tag = 2)]
    pub header: Bytes,
    #[prost(bytes = "bytes", tag = 1000)]
    pub body: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub struct FlightDescriptor {
    #[prost(int32, tag = 1)]
    pub kind: i32,
    #[prost(string, repeated, tag = 3)]
    pub path: Vec<String>,
}

impl Ticket {
    pub fn new(content: &[u8]) -> Self {
        let content = Bytes::copy_from_slice(content);
        Self { content }
    }
}

impl FlightData {
    pub fn new(header: &[u8], body: &[u8]) -> Self {
        Self {
            descriptor: None,
            header: Bytes::copy_from_slice(header),
            body: Bytes::copy_from_slice(body),
        }
    }

    /// The first message of a put.
    pub fn put_to(path: &str, header: &[u8], body: &[u8]) -> Self {
        const PATH: i32 = 1;
        Self {
            descriptor: Some(FlightDescriptor {
                kind: PATH,
                path: vec![path.into()],
            }),
            ..Self::new(header, body)
        }
    }
}
