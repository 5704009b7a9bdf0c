//! Answers, as `weaviate.v1` has them.

use super::Weaviate;
use crate::codec::protobuf::Reader;
use crate::codec::DecodeError;
use crate::protocol::{Answer, Failure, Operation, Prepared};
use crate::protocols::rows::{check_complete, incomplete};
use crate::transport::grpc::Decode;

impl Decode for Weaviate {
    fn decode(request: &Prepared, message: &[u8], answer: &mut Answer) -> Result<(), Failure> {
        match request.operation {
            Operation::Search => Ok(read_rows(message, answer)?),
            Operation::Get => {
                read_rows(message, answer)?;
                check_complete(request, answer)
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
    use super::super::messages::{MetadataResult, SearchReply, SearchResult};
    use super::super::{uuid, uuid_number};
    use super::*;
    use bytes::Bytes;
    use proptest::prelude::*;
    use prost::Message;

    #[derive(Message)]
    struct BatchObjectsReply {
        #[prost(message, repeated, tag = 2)]
        errors: Vec<BatchError>,
    }

    #[derive(Message)]
    struct BatchError {
        #[prost(int32, tag = 1)]
        index: i32,
        #[prost(string, tag = 2)]
        error: String,
    }

    #[derive(Message)]
    struct BatchDeleteReply {
        #[prost(int64, tag = 2)]
        failed: i64,
        #[prost(int64, tag = 3)]
        matches: i64,
        #[prost(int64, tag = 4)]
        successful: i64,
    }

    fn decode(
        operation: Operation,
        rows: usize,
        message: &impl Message,
    ) -> Result<Answer, Failure> {
        let request = Prepared::plain(operation, Bytes::new(), rows);
        let mut answer = Answer::default();
        Weaviate::decode(&request, &message.encode_to_vec(), &mut answer)?;
        Ok(answer)
    }

    fn reply(ids: &[i64], as_bytes: bool) -> SearchReply {
        let result = |id: &i64| {
            let whole = uuid_number(*id).to_be_bytes();
            let metadata = MetadataResult {
                id: uuid(*id),
                id_as_bytes: if as_bytes { whole.into() } else { vec![] },
                ..MetadataResult::default()
            };
            SearchResult {
                properties: None,
                metadata: Some(metadata),
            }
        };
        SearchReply {
            took: 0.0,
            results: ids.iter().map(result).collect(),
        }
    }

    #[test]
    fn a_uuid_is_the_prefix_and_the_id() {
        assert_eq!(uuid(0), "76656374-7269-8000-0000-000000000000");
        assert_eq!(uuid(-2), "76656374-7269-8000-ffff-fffffffffffe");
        assert_eq!(uuid(0x123456), "76656374-7269-8000-0000-000000123456");
    }

    #[test]
    fn refused_rows_fail_the_request_with_the_first_reason() {
        let error = |(index, why): (i32, &str)| BatchError {
            index,
            error: why.into(),
        };
        let errors = vec![error((3, "no space")), error((4, "nor here"))];
        let failed = decode(Operation::Insert, 10, &BatchObjectsReply { errors }).unwrap_err();
        assert_eq!(failed.class, "incomplete");
        assert_eq!(failed.message, "8 of 10 rows written: no space");
        let none = BatchObjectsReply { errors: vec![] };
        assert!(decode(Operation::Insert, 10, &none).is_ok());
    }

    #[test]
    fn a_get_that_misses_rows_is_incomplete() {
        let message = reply(&[7, 9], true);
        assert_eq!(decode(Operation::Get, 2, &message).unwrap().ids, [7, 9]);
        let failed = decode(Operation::Get, 3, &message).unwrap_err();
        assert_eq!(failed.message, "2 of 3 rows came");
    }

    #[test]
    fn rows_that_could_not_be_deleted_are_incomplete() {
        let deleted = |failed| BatchDeleteReply {
            failed,
            matches: 5,
            successful: 5,
        };
        assert!(decode(Operation::Delete, 6, &deleted(0)).is_ok());
        let failed = decode(Operation::Delete, 6, &deleted(1)).unwrap_err();
        assert_eq!(failed.message, "5 of 6 rows deleted");
    }

    proptest! {
        #[test]
        fn a_uuid_is_read_from_bytes_or_text(ids: Vec<i64>, as_bytes: bool) {
            let answer = decode(Operation::Search, 1, &reply(&ids, as_bytes)).unwrap();
            prop_assert_eq!(answer.ids, ids);
        }

        #[test]
        fn a_uuid_without_its_leading_zeros_is_read(id: i64) {
            let whole = u128::from(id as u64).to_be_bytes();
            let start = whole.iter().position(|byte| *byte != 0).unwrap_or(16);
            prop_assert_eq!(id_of_bytes(&whole[start..]), Ok(id));
        }

        #[test]
        fn any_uuid_is_read_or_refused(bytes: Vec<u8>, text in "[0-9a-f-]{36}") {
            let _ = (id_of_text(&bytes), id_of_text(text.as_bytes()), id_of_bytes(&bytes));
        }
    }
}
