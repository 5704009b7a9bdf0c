//! Answers: replies to the commands of either engine.

use super::common::{Engine, Replies};
use super::{query_engine, vector_set};
use crate::protocol::{Answer, Failure, Operation};
use crate::protocols::rows;
use crate::transport::resp::{refusal, Decode, Item, Reader};

impl Decode for Replies {
    fn replies(&self, operation: Operation, rows: usize) -> usize {
        match (operation, self.engine) {
            // Its vector, its attributes.
            (Operation::Get, Engine::VectorSet) => 2 * rows,
            // What is there goes, the row comes.
            (Operation::Upsert, Engine::Search) => 2 * rows,
            _ => rows,
        }
    }

    fn decode(
        &self,
        operation: Operation,
        rows: usize,
        mut replies: Reader<'_>,
        answer: &mut Answer,
    ) -> Result<(), Failure> {
        match (operation, self.engine) {
            (Operation::Search, Engine::VectorSet) => vector_set::read(self, &mut replies, answer),
            (Operation::Search, Engine::Search) => query_engine::read(self, &mut replies, answer),
            _ => self.each(operation, rows, &mut replies),
        }
    }
}

impl Replies {
    /// Writes, gets and deletes: a reply for each row, or two.
    fn each(
        &self,
        operation: Operation,
        rows: usize,
        replies: &mut Reader<'_>,
    ) -> Result<(), Failure> {
        let of_one = self.replies(operation, 1);
        let mut failed = 0;
        let mut first: Option<Failure> = None;
        for _ in 0..rows {
            let mut failure = None;
            for nth in 0..of_one {
                let item = replies.item()?;
                replies.skip_inner(item)?;
                let missing = nth == 0
                    && operation == Operation::Get
                    && matches!(item, Item::Null | Item::Array(0) | Item::Map(0));
                match item {
                    Item::Error(error) => failure = Some(refusal(error)),
                    _ if missing => failure = Some(Failure::new("incomplete", "no such row")),
                    _ => {}
                }
            }
            failed += usize::from(failure.is_some());
            first = first.or(failure);
        }
        rows::failed(failed, rows, first)
    }
}
