//! The protocol of the null server, which answers at once: what is measured is the client.
//!
//! A search carries k and the vector as packed floats; its answer, ids and scores packed. Writes
//! carry ids and vectors and are answered with an empty message.

use crate::codec::protobuf::{self, Reader};
use crate::misuse::Misuse;
use crate::protocol::{Answer, Failure, Operation, Prepared, Protocol, Target, Task};
use crate::transport::grpc::{self, Decode, Unary};

/// Fields of the request.
const K: u32 = 1;
const VECTOR: u32 = 2;
const IDS: u32 = 3;
const FILTER: u32 = 4;
/// Fields of the answer.
pub const ANSWER_IDS: u32 = 1;
pub const ANSWER_SCORES: u32 = 2;

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

    fn new(target: Target) -> Result<Self, Misuse> {
        Ok(Self { target })
    }

    fn prepare(&self, task: &Task) -> Result<Vec<Prepared>, Misuse> {
        let operation = task.operation;
        let head = grpc::head(&self.target, path(operation))?;
        let rows = |range: std::ops::Range<usize>, out: &mut Vec<u8>| {
            let ids = task.ids[range.clone()].iter();
            protobuf::put_packed(out, IDS, ids.map(|id| *id as u64));
            if matches!(operation, Operation::Insert | Operation::Upsert) {
                let dim = task.vectors.dim;
                let values = &task.vectors.values[range.start * dim..range.end * dim];
                protobuf::put_floats(out, VECTOR, values);
            }
        };
        Ok(match operation {
            Operation::Search => (0..task.vectors.rows())
                .map(|query| {
                    grpc::prepare(operation, &head, 1, |out| {
                        protobuf::put_number(out, K, task.k as u64);
                        protobuf::put_floats(out, VECTOR, task.vectors.row(query));
                        if let Some(filter) = task.filter(query) {
                            protobuf::put_bytes(out, FILTER, filter);
                        }
                    })
                })
                .collect(),
            Operation::Payload => task
                .payloads
                .iter()
                .map(|bytes| grpc::prepare(operation, &head, 1, |out| out.extend_from_slice(bytes)))
                .collect(),
            _ => task
                .batches()
                .map(|range| grpc::prepare(operation, &head, range.len(), |out| rows(range, out)))
                .collect(),
        })
    }

    async fn connect(&self) -> Result<Self::Connection, Failure> {
        Unary::connect(&self.target).await
    }
}

impl Decode for NullGrpc {
    fn decode(request: &Prepared, message: &[u8], answer: &mut Answer) -> Result<(), Failure> {
        match request.operation {
            Operation::Search => decode(message, answer),
            _ => Ok(()),
        }
    }
}

/// Ids and scores of an answer.
pub fn decode(message: &[u8], answer: &mut Answer) -> Result<(), Failure> {
    let mut reader = Reader(message);
    while let Some((field, value)) = reader.field()? {
        match field {
            ANSWER_IDS => protobuf::packed_ints(value.bytes()?, &mut answer.ids)?,
            ANSWER_SCORES => protobuf::packed_floats(value.bytes()?, &mut answer.scores)?,
            _ => {}
        }
    }
    if answer.ids.len() != answer.scores.len() {
        return Err(Failure::garbage("ids and scores differ in number"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>) {
            let _ = decode(&bytes, &mut Answer::default());
        }
    }
}
