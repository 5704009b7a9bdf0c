//! Answers of the null server.

use super::NullGrpc;
use crate::codec::protobuf::{self, Reader};
use crate::protocol::{Answer, Failure, Operation, Prepared};
use crate::transport::grpc::Decode;

impl Decode for NullGrpc {
    fn decode(request: &Prepared, message: &[u8], answer: &mut Answer) -> Result<(), Failure> {
        match request.operation {
            Operation::Search => read_found(message, answer),
            _ => Ok(()),
        }
    }
}

/// Ids and scores of an answer.
fn read_found(message: &[u8], answer: &mut Answer) -> Result<(), Failure> {
    const IDS: u32 = 1;
    const SCORES: u32 = 2;
    let mut reader = Reader(message);
    while let Some((field, value)) = reader.field()? {
        match field {
            IDS => protobuf::packed_ints(value.bytes()?, &mut answer.ids)?,
            SCORES => protobuf::packed_floats(value.bytes()?, &mut answer.scores)?,
            _ => {}
        }
    }
    if answer.ids.len() != answer.scores.len() {
        return Err(Failure::garbage("ids and scores differ in number"));
    }
    Ok(())
}
