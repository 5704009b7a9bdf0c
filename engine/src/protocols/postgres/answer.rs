//! Answers: rows, and how many a command was about.

use crate::protocol::{Answer, Connection, Failure, Operation, Prepared};
use crate::protocols::rows::incomplete;
use crate::transport::postgres::Session;

/// Kinds of messages that are read here.
const ROW: u8 = b'D';
const COMPLETE: u8 = b'C';
const EMPTY: u8 = b'I';

impl Connection for Session {
    async fn call(&mut self, request: &Prepared, answer: &mut Answer) -> Result<(), Failure> {
        let mut done = None;
        let take = |kind: u8, body: &[u8]| {
            match kind {
                ROW => read_row(request.operation, body, answer)?,
                COMPLETE => done = Some(rows_of(body)),
                EMPTY => done = Some(0),
                _ => {}
            }
            Ok(())
        };
        self.exchange(&request.body, take).await?;
        let Some(done) = done else {
            return Err(Failure::garbage(
                "the server is ready, but answered nothing",
            ));
        };
        let (verb, counts) = match request.operation {
            Operation::Insert | Operation::Upsert => (" written", true),
            Operation::Get => (" came", true),
            _ => ("", false),
        };
        match counts && done != u64::from(request.rows) {
            true => Err(incomplete(done as usize, request, verb)),
            false => Ok(()),
        }
    }
}

/// How many rows a command was about, from a tag such as `INSERT 0 5`.
fn rows_of(tag: &[u8]) -> u64 {
    let digits = tag.split(|byte| *byte == b' ' || *byte == 0);
    let mut numbers = digits.filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok());
    numbers.next_back().unwrap_or(0)
}

/// The id of a row, and in a search its score.
fn read_row(operation: Operation, body: &[u8], answer: &mut Answer) -> Result<(), Failure> {
    if operation == Operation::Payload {
        return Ok(());
    }
    let (_, mut rest) = body.split_first_chunk::<2>().ok_or_else(cut)?;
    let id = match value(&mut rest)? {
        [a, b] => i16::from_be_bytes([*a, *b]).into(),
        [a, b, c, d] => i32::from_be_bytes([*a, *b, *c, *d]).into(),
        bytes => match bytes.first_chunk() {
            Some(eight) if bytes.len() == 8 => i64::from_be_bytes(*eight),
            _ => return Err(Failure::garbage("the id of a row is no integer")),
        },
    };
    if operation == Operation::Search {
        let score = match value(&mut rest)? {
            [a, b, c, d] => f32::from_be_bytes([*a, *b, *c, *d]),
            bytes => match bytes.first_chunk() {
                Some(eight) if bytes.len() == 8 => f64::from_be_bytes(*eight) as f32,
                _ => return Err(Failure::garbage("the score of a row is no number")),
            },
        };
        answer.scores.push(score);
    }
    answer.ids.push(id);
    Ok(())
}

fn cut() -> Failure {
    Failure::garbage("a row ends early")
}

/// The next value of a row; a null is empty.
fn value<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Failure> {
    let (length, after) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
    let length = i32::from_be_bytes(*length).max(0) as usize;
    let (value, after) = after.split_at_checked(length).ok_or_else(cut)?;
    *rest = after;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tags_say_how_many_rows() {
        assert_eq!(rows_of(b"INSERT 0 5\0"), 5);
        assert_eq!(rows_of(b"COPY 12\0"), 12);
        assert_eq!(rows_of(b"CREATE TABLE\0"), 0);
    }

    proptest! {
        #[test]
        fn any_row_is_read_or_refused(bytes: Vec<u8>) {
            for operation in [Operation::Search, Operation::Get, Operation::Payload] {
                let _ = read_row(operation, &bytes, &mut Answer::default());
            }
            let _ = rows_of(&bytes);
        }

        #[test]
        fn a_row_is_read_as_it_was_written(id: i64, score: f64, null: bool) {
            let mut row = b"\0\x02\0\0\0\x08".to_vec();
            row.extend(id.to_be_bytes());
            row.extend(if null { (-1i32).to_be_bytes() } else { 8i32.to_be_bytes() });
            row.extend(if null { [0; 8] } else { score.to_be_bytes() });
            let mut answer = Answer::default();
            let read = read_row(Operation::Search, &row, &mut answer);
            prop_assert_eq!(read.is_err(), null);
            if !null {
                prop_assert_eq!(answer.ids, vec![id]);
                prop_assert_eq!(answer.scores[0].to_bits(), (score as f32).to_bits());
            }
        }
    }
}
