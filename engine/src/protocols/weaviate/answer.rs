//! Answers, as `weaviate.v1` has them.

use super::Weaviate;
use crate::codec::protobuf::Reader;
use crate::codec::DecodeError;
use crate::protocol::{Answer, Failure, Operation, Prepared};
use crate::protocols::messages::{check_came, incomplete};
use crate::transport::grpc::Decode;

impl Decode for Weaviate {
    fn decode(request: &Prepared, message: &[u8], answer: &mut Answer) -> Result<(), Failure> {
        match request.operation {
            Operation::Search => Ok(read_rows(message, answer)?),
            Operation::Get => {
                read_rows(message, answer)?;
                check_came(request, answer)
            }
            Operation::Delete => read_deleted(request, message),
            _ => read_written(request, message),
        }
    }
}

/// The id in a uuid of 16 bytes, whose leading zeros the server leaves out.
fn id_of_bytes(bytes: &[u8]) -> Result<i64, DecodeError> {
    if bytes.len() > 16 {
        return Err(DecodeError("a uuid is longer than 16 bytes"));
    }
    let half = &bytes[bytes.len().saturating_sub(8)..];
    let id = half
        .iter()
        .fold(0u64, |id, byte| id << 8 | u64::from(*byte));
    Ok(id as i64)
}

/// The id in a uuid as text.
fn id_of_text(text: &[u8]) -> Result<i64, DecodeError> {
    if text.len() != 36 {
        return Err(DecodeError("a uuid's text has not 36 characters"));
    }
    let mut digits = text[19..23].iter().chain(&text[24..]);
    digits
        .try_fold(0u64, |id, digit| {
            let value = char::from(*digit).to_digit(16)?;
            Some(id << 4 | u64::from(value))
        })
        .map(|id| id as i64)
        .ok_or(DecodeError(
            "a uuid's text has other characters than digits",
        ))
}

/// `weaviate.v1.SearchReply`, from the outside in.
mod reply {
    pub const RESULTS: u32 = 2;
    pub const METADATA: u32 = 2;
    pub const ID: u32 = 1;
    pub const DISTANCE: u32 = 7;
    pub const ID_AS_BYTES: u32 = 20;
}

/// Ids and distances of a `weaviate.v1.SearchReply`.
fn read_rows(message: &[u8], answer: &mut Answer) -> Result<(), DecodeError> {
    let mut reader = Reader(message);
    while let Some((field, value)) = reader.field()? {
        if field == reply::RESULTS {
            let (id, distance) = read_row(value.bytes()?)?;
            answer.ids.push(id);
            answer.scores.push(distance);
        }
    }
    Ok(())
}

fn read_row(result: &[u8]) -> Result<(i64, f32), DecodeError> {
    let (mut text, mut bytes, mut distance): (&[u8], &[u8], f32) = (b"", b"", 0.0);
    let mut result = Reader(result);
    while let Some((field, value)) = result.field()? {
        if field != reply::METADATA {
            continue;
        }
        let mut metadata = Reader(value.bytes()?);
        while let Some((field, value)) = metadata.field()? {
            match field {
                reply::ID => text = value.bytes()?,
                reply::ID_AS_BYTES => bytes = value.bytes()?,
                reply::DISTANCE => distance = value.float()?,
                _ => {}
            }
        }
    }
    let id = match bytes.is_empty() {
        false => id_of_bytes(bytes)?,
        true => id_of_text(text)?,
    };
    Ok((id, distance))
}

/// A `weaviate.v1.BatchObjectsReply`: the rows that were refused, each with the reason.
fn read_written(request: &Prepared, message: &[u8]) -> Result<(), Failure> {
    const ERRORS: u32 = 2;
    const ERROR: u32 = 2;
    let (mut refused, mut first): (usize, Option<&[u8]>) = (0, None);
    let mut reader = Reader(message);
    while let Some((field, value)) = reader.field()? {
        if field != ERRORS {
            continue;
        }
        refused += 1;
        let mut error = Reader(value.bytes()?);
        while let Some((field, value)) = error.field()? {
            if field == ERROR {
                first = first.or(Some(value.bytes()?));
            }
        }
    }
    if refused == 0 {
        return Ok(());
    }
    let done = (request.rows as usize).saturating_sub(refused);
    let why = String::from_utf8_lossy(first.unwrap_or_default());
    Err(incomplete(done, request, &format!(" written: {why}")))
}

/// A `weaviate.v1.BatchDeleteReply`. Rows that are not there are no failure.
fn read_deleted(request: &Prepared, message: &[u8]) -> Result<(), Failure> {
    const FAILED: u32 = 2;
    const SUCCESSFUL: u32 = 4;
    let (mut failed, mut done) = (0, 0);
    let mut reader = Reader(message);
    while let Some((field, value)) = reader.field()? {
        match field {
            FAILED => failed = value.number()?,
            SUCCESSFUL => done = value.number()?,
            _ => {}
        }
    }
    match failed {
        0 => Ok(()),
        _ => Err(incomplete(done as usize, request, " deleted")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{uuid, UUID_PREFIX};
    use super::*;
    use crate::codec::protobuf::{self, put_bytes, put_message, put_number};
    use bytes::Bytes;
    use proptest::prelude::*;

    fn request(operation: Operation, rows: usize) -> Prepared {
        Prepared::plain(operation, Bytes::new(), rows)
    }

    /// An answer as the server writes it.
    fn answered(rows: &[(i64, f32)], as_bytes: bool) -> Vec<u8> {
        let mut out = vec![];
        for (id, distance) in rows {
            put_message(&mut out, reply::RESULTS, |result| {
                put_bytes(result, 1, b"properties are passed over");
                put_message(result, reply::METADATA, |metadata| {
                    put_bytes(metadata, reply::ID, &uuid(*id));
                    protobuf::put_fixed32(metadata, reply::DISTANCE, distance.to_le_bytes());
                    if as_bytes {
                        let whole = u128::from(UUID_PREFIX) << 64 | u128::from(*id as u64);
                        put_bytes(metadata, reply::ID_AS_BYTES, &whole.to_be_bytes());
                    }
                });
            });
        }
        out
    }

    #[test]
    fn a_uuid_is_the_prefix_and_the_id() {
        assert_eq!(&uuid(0), b"76656374-7269-8000-0000-000000000000");
        assert_eq!(&uuid(-2), b"76656374-7269-8000-ffff-fffffffffffe");
        assert_eq!(&uuid(0x123456), b"76656374-7269-8000-0000-000000123456");
    }

    #[test]
    fn refused_rows_fail_the_request_with_the_first_reason() {
        let mut message = vec![];
        for (row, why) in [(3u64, "no space"), (4, "nor here")] {
            put_message(&mut message, 2, |error| {
                put_number(error, 1, row);
                put_bytes(error, 2, why.as_bytes());
            });
        }
        let failed = read_written(&request(Operation::Insert, 10), &message).unwrap_err();
        assert_eq!(failed.class, "incomplete");
        assert_eq!(failed.message, "8 of 10 rows written: no space");
        assert!(read_written(&request(Operation::Insert, 10), b"").is_ok());
    }

    #[test]
    fn a_get_that_misses_rows_is_incomplete() {
        let message = answered(&[(7, 0.0), (9, 0.0)], true);
        let mut answer = Answer::default();
        let two = Weaviate::decode(&request(Operation::Get, 2), &message, &mut answer);
        assert!(two.is_ok() && answer.ids == [7, 9]);
        let three = Weaviate::decode(
            &request(Operation::Get, 3),
            &message,
            &mut Answer::default(),
        );
        assert_eq!(three.unwrap_err().message, "2 of 3 rows came");
    }

    #[test]
    fn rows_that_could_not_be_deleted_are_incomplete() {
        let mut message = vec![];
        put_number(&mut message, 3, 5);
        put_number(&mut message, 4, 5);
        assert!(read_deleted(&request(Operation::Delete, 6), &message).is_ok());
        put_number(&mut message, 2, 1);
        let failed = read_deleted(&request(Operation::Delete, 6), &message).unwrap_err();
        assert_eq!(failed.message, "5 of 6 rows deleted");
    }

    proptest! {
        #[test]
        fn ids_and_distances_come_back(rows: Vec<(i64, f32)>, as_bytes: bool) {
            let mut answer = Answer::default();
            let message = answered(&rows, as_bytes);
            Weaviate::decode(&request(Operation::Search, 1), &message, &mut answer).unwrap();
            let (ids, distances): (Vec<i64>, Vec<f32>) = rows.into_iter().unzip();
            prop_assert_eq!(answer.ids, ids);
            let same = answer.scores.iter().zip(&distances);
            prop_assert!(same.into_iter().all(|(a, b)| a.to_bits() == b.to_bits()));
        }

        #[test]
        fn a_uuid_without_its_leading_zeros_is_read(id: i64) {
            let whole = u128::from(id as u64).to_be_bytes();
            let start = whole.iter().position(|byte| *byte != 0).unwrap_or(16);
            prop_assert_eq!(id_of_bytes(&whole[start..]), Ok(id));
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>, text in "[0-9a-f-]{36}") {
            for operation in [Operation::Search, Operation::Get, Operation::Insert, Operation::Delete] {
                let _ = Weaviate::decode(&request(operation, 3), &bytes, &mut Answer::default());
            }
            let _ = (id_of_text(&bytes), id_of_text(text.as_bytes()), id_of_bytes(&bytes));
        }

        #[test]
        fn a_damaged_answer_is_decoded_or_refused(rows: Vec<(i64, f32)>, at: usize, byte: u8) {
            let mut message = answered(&rows, true);
            if !message.is_empty() {
                let at = at % message.len();
                message[at] = byte;
                let _ = read_rows(&message, &mut Answer::default());
                let _ = read_rows(&message[..at], &mut Answer::default());
            }
        }
    }
}
