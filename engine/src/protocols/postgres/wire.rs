//! Requests in bytes, and rows read from them.

use std::ops::Range;

use bytes::BytesMut;
use postgres_protocol::message::frontend;
use postgres_protocol::IsNull;

use crate::misuse::Misuse;
use crate::protocol::{Answer, Cell, Connection, Failure, Operation, Prepared, Task};
use crate::protocols::messages::incomplete;
use crate::transport::postgres::Session;

/// Kinds of messages that are read here.
const ROW: u8 = b'D';
const COMPLETE: u8 = b'C';
const EMPTY: u8 = b'I';
/// Bytes of one message of a COPY.
const PIECE: usize = 1 << 20;

/// A parameter: how it is written (0: text, 1: binary), and its bytes unless it is null.
pub type Parameter = (i16, Option<Vec<u8>>);

/// The values of a row, in binary.
pub fn cells(task: &Task, row: usize) -> impl Iterator<Item = Option<Vec<u8>>> + '_ {
    let fixed = [
        task.ids[row].to_be_bytes().to_vec(),
        vector_bytes(task.vectors.row(row)),
    ];
    let further = task.columns.iter().map(move |column| {
        Some(match column.cell(row)? {
            Cell::Int(value) => value.to_be_bytes().to_vec(),
            Cell::Float(value) => value.to_be_bytes().to_vec(),
            Cell::Bool(value) => vec![value.into()],
            Cell::Text(value) => value.as_bytes().to_vec(),
        })
    });
    fixed.into_iter().map(Some).chain(further)
}

/// pgvector's binary form: the number of dimensions, two bytes unused, big-endian floats.
pub fn vector_bytes(vector: &[f32]) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + 4 * vector.len());
    out.extend((vector.len() as u16).to_be_bytes());
    out.extend([0, 0]);
    out.extend(vector.iter().flat_map(|x| x.to_be_bytes()));
    out
}

/// Bind parameters to a prepared statement, run it, and ask to be told when all is done.
pub fn execute(
    task: &Task,
    statement: &str,
    parameters: Vec<Parameter>,
    rows: usize,
) -> Result<Prepared, Misuse> {
    let mut out = BytesMut::new();
    let formats: Vec<i16> = parameters.iter().map(|(format, _)| *format).collect();
    let write = |(_, value): Parameter, out: &mut BytesMut| {
        Ok(match value {
            Some(bytes) => {
                out.extend_from_slice(&bytes);
                IsNull::No
            }
            None => IsNull::Yes,
        })
    };
    // No portal's name; every column comes in binary.
    frontend::bind("", statement, formats, parameters, write, [1], &mut out)
        .map_err(|_| Misuse("a request is too long for PostgreSQL".into()))?;
    frontend::execute("", 0, &mut out).map_err(|error| Misuse(error.to_string()))?;
    frontend::sync(&mut out);
    Ok(Prepared::plain(task.operation, out.freeze(), rows))
}

/// SQL as a request of its own.
pub fn query(sql: &[u8]) -> Result<Prepared, Misuse> {
    let wrong = |error: &dyn std::fmt::Display| Misuse(format!("a payload is no SQL: {error}"));
    let sql = std::str::from_utf8(sql).map_err(|error| wrong(&error))?;
    let mut out = BytesMut::new();
    frontend::query(sql, &mut out).map_err(|error| wrong(&error))?;
    Ok(Prepared::plain(Operation::Payload, out.freeze(), 1))
}

/// A COPY for each batch, sent without waiting for the server to say that it listens: what comes
/// after a refused COPY, it ignores.
pub fn copies(task: &Task, sql: &str) -> Result<Vec<Prepared>, Misuse> {
    let wrong = |error: std::io::Error| Misuse(error.to_string());
    let copy = |rows: Range<usize>| {
        let number = rows.len();
        // The signature, then no flags and no extension of the header.
        let mut data = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
        for row in rows {
            data.extend((2 + task.columns.len() as u16).to_be_bytes());
            for cell in cells(task, row) {
                let length = cell.as_ref().map_or(-1, |bytes| bytes.len() as i32);
                data.extend(length.to_be_bytes());
                data.extend(cell.unwrap_or_default());
            }
        }
        data.extend((-1i16).to_be_bytes());
        let mut out = BytesMut::new();
        frontend::query(sql, &mut out).map_err(wrong)?;
        for piece in data.chunks(PIECE) {
            frontend::CopyData::new(piece)
                .map_err(wrong)?
                .write(&mut out);
        }
        frontend::copy_done(&mut out);
        Ok(Prepared::plain(task.operation, out.freeze(), number))
    };
    task.batches().map(copy).collect()
}

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
