//! Answers: the ids and scores of Arrow messages.

use super::{DO_ACTION, DO_GET};
use crate::codec::arrow::Rows;
use crate::codec::protobuf::Reader;
use crate::protocol::{Answer, Failure, Operation, Prepared};
use crate::protocols::rows::incomplete;
use crate::transport::grpc::Collect;

/// Reads the messages of an answer.
#[derive(Debug, Default)]
pub struct Hits(Rows);

impl Collect for Hits {
    fn begin(&mut self) {
        self.0.begin();
    }

    fn message(
        &mut self,
        request: &Prepared,
        message: &[u8],
        answer: &mut Answer,
    ) -> Result<(), Failure> {
        match request.head.uri().path() {
            DO_GET => self.data(message, answer),
            DO_ACTION if request.operation == Operation::Search => self.result(message, answer),
            _ => Ok(()),
        }
    }

    fn end(&mut self, request: &Prepared, answer: &Answer) -> Result<(), Failure> {
        match request.operation {
            Operation::Get if answer.ids.is_empty() => Err(incomplete(0, request, " came")),
            Operation::Search if !self.0.has_ids() => {
                Err(Failure::garbage("the answer has no integer column 'id'"))
            }
            _ => Ok(()),
        }
    }
}

impl Hits {
    /// A message of a DoGet.
    fn data(&mut self, message: &[u8], answer: &mut Answer) -> Result<(), Failure> {
        const HEADER: u32 = 2;
        const BODY: u32 = 1000;
        let (mut header, mut body) = (&[][..], &[][..]);
        let mut reader = Reader(message);
        while let Some((field, value)) = reader.field()? {
            match field {
                HEADER => header = value.bytes()?,
                BODY => body = value.bytes()?,
                _ => {}
            }
        }
        // Without a header it is metadata of the application's own.
        if !header.is_empty() {
            let Answer { ids, scores, .. } = answer;
            self.0.message(header, body, ids, scores)?;
        }
        Ok(())
    }

    /// A result of the action that searches: a stream in Arrow's own framing.
    fn result(&mut self, message: &[u8], answer: &mut Answer) -> Result<(), Failure> {
        const BODY: u32 = 1;
        let mut reader = Reader(message);
        while let Some((field, value)) = reader.field()? {
            if field == BODY {
                let Answer { ids, scores, .. } = &mut *answer;
                self.0.stream(value.bytes()?, ids, scores)?;
            }
        }
        Ok(())
    }
}
