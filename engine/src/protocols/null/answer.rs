//! Answers of the null server.

use super::NullGrpc;
use crate::codec::protobuf::{self, Reader};
use crate::protocol::{Answer, Failure, Operation, Prepared};
use crate::transport::grpc::Decode;

/// Fields of the answer.
pub const ANSWER_IDS: u32 = 1;
pub const ANSWER_SCORES: u32 = 2;

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
