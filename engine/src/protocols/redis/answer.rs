//! Answers: replies to the commands of either engine.

use super::{query_engine, vector_set, Engine};
use crate::protocol::{Answer, Failure, Operation};
use crate::protocols::rows;
use crate::transport::resp::{double, number, refusal, Decode, Item, Reader};

/// How replies are read.
#[derive(Clone, Debug)]
pub struct Replies {
    pub(super) engine: Engine,
    pub(super) prefix: Vec<u8>,
    /// What a search brings back beside ids and scores.
    pub(super) attributes: bool,
    pub(super) returning: Vec<String>,
}

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
    pub fn id(&self, item: Item<'_>) -> Result<i64, Failure> {
        let Item::Text(name) = item else {
            return Err(Failure::garbage("a name is no text"));
        };
        let own = name.strip_prefix(&self.prefix[..]);
        own.and_then(number).ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            let prefix = String::from_utf8_lossy(&self.prefix);
            Failure::garbage(format!("'{name}' is no id after the prefix '{prefix}'"))
        })
    }

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

/// A score, however it is written.
pub fn score(item: Item<'_>) -> Result<f32, Failure> {
    match item {
        Item::Double(value) => Ok(value as f32),
        Item::Integer(value) => Ok(value as f32),
        Item::Text(text) => match double(text) {
            Ok(value) => Ok(value as f32),
            Err(_) => Err(Failure::garbage("a score is no number")),
        },
        _ => Err(Failure::garbage("a score is no number")),
    }
}
