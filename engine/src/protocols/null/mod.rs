//! The protocol of the null server, which answers at once: what is measured is the client.
//!
//! A search carries k and the vector as packed floats; its answer, ids and scores packed. Writes
//! carry ids and vectors and are answered with an empty message.

mod answer;
mod request;

use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Failure, Operation, Prepared, Protocol, Target, Task};
use crate::transport::grpc::{self, Unary};

pub use answer::{decode, ANSWER_IDS, ANSWER_SCORES};

/// The path of an operation.
pub fn path(operation: Operation) -> &'static str {
    match operation {
        Operation::Search => "/vectrial.Null/Search",
        Operation::Get => "/vectrial.Null/Get",
        Operation::Insert | Operation::Upsert => "/vectrial.Null/Write",
        Operation::Delete => "/vectrial.Null/Delete",
        Operation::Payload => "/vectrial.Null/Payload",
    }
}

/// Over gRPC.
pub struct NullGrpc {
    target: Target,
}

impl Protocol for NullGrpc {
    type Connection = Unary<Self>;
    const SHARED: bool = true;

    fn new(target: Target) -> Result<Self, InvalidArgument> {
        Ok(Self { target })
    }

    fn prepare(&self, task: &Task) -> Result<Vec<Prepared>, InvalidArgument> {
        let head = grpc::head(&self.target, path(task.operation))?;
        Ok(request::requests(task, &head))
    }

    async fn connect(&self) -> Result<Self::Connection, Failure> {
        Unary::connect(&self.target).await
    }
}
