//! Answers, as `milvus.proto` has them.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;

use super::Milvus;
use crate::codec::protobuf::{self, Reader};
use crate::codec::DecodeError;
use crate::protocol::{Answer, Failure, Operation, Prepared};
use crate::protocols::rows::{check_complete, incomplete};
use crate::transport::grpc::Decode;

impl Decode for Milvus {
    fn decode(request: &Prepared, message: &[u8], answer: &mut Answer) -> Result<(), Failure> {
        match request.operation {
            Operation::Search => read_found(message, answer),
            Operation::Get => {
                let primary = request.head.extensions().get::<Primary>();
                let primary = primary.map_or(&b""[..], |Primary(name)| name);
                read_queried(message, primary, answer)?;
                check_complete(request, answer)
            }
            _ => read_changed(request, message),
        }
    }
}

/// The name of the primary key, which tells it from the other fields of a get's answer. It goes with
/// the request's head, where decoding finds it.
#[derive(Clone)]
pub struct Primary(pub Bytes);

impl Primary {
    pub fn noted_in(self, head: &Arc<Request<()>>) -> Arc<Request<()>> {
        let mut head = Request::clone(head);
        head.extensions_mut().insert(self);
        Arc::new(head)
    }
}

/// Field 1 of every answer.
const STATUS: u32 = 1;
/// Field of every array of values.
const DATA: u32 = 1;

/// A `Status` that is not success.
fn check_status(message: &[u8]) -> Result<(), Failure> {
    const OLD_CODE: u32 = 1;
    const REASON: u32 = 2;
    const CODE: u32 = 3;
    let (mut old, mut code, mut reason): (i32, i32, &[u8]) = (0, 0, b"");
    let mut status = Reader(message);
    while let Some((field, value)) = status.field()? {
        match field {
            OLD_CODE => old = value.number()? as i32,
            CODE => code = value.number()? as i32,
            REASON => reason = value.bytes()?,
            _ => {}
        }
    }
    if (old, code) == (0, 0) {
        return Ok(());
    }
    let number = if code == 0 { old } else { code };
    let reason = String::from_utf8_lossy(reason);
    Err(Failure::new(format!("status:{number}"), reason))
}

/// `SearchResults`: ids and scores of one query.
fn read_found(message: &[u8], answer: &mut Answer) -> Result<(), Failure> {
    const RESULTS: u32 = 2;
    const SCORES: u32 = 4;
    const IDS: u32 = 5;
    let mut reader = Reader(message);
    while let Some((field, value)) = reader.field()? {
        match field {
            STATUS => check_status(value.bytes()?)?,
            RESULTS => {
                let mut results = Reader(value.bytes()?);
                while let Some((field, value)) = results.field()? {
                    match field {
                        SCORES => protobuf::packed_floats(value.bytes()?, &mut answer.scores)?,
                        IDS => read_ids(value.bytes()?, &mut answer.ids)?,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    if answer.ids.len() != answer.scores.len() {
        let (ids, scores) = (answer.ids.len(), answer.scores.len());
        return Err(Failure::garbage(format!(
            "{ids} integer ids and {scores} scores"
        )));
    }
    Ok(())
}

/// `IDs` of integers.
fn read_ids(message: &[u8], out: &mut Vec<i64>) -> Result<(), DecodeError> {
    const INTEGERS: u32 = 1;
    let mut ids = Reader(message);
    while let Some((field, value)) = ids.field()? {
        if field == INTEGERS {
            read_longs(value.bytes()?, out)?;
        }
    }
    Ok(())
}

/// A `LongArray`.
fn read_longs(message: &[u8], out: &mut Vec<i64>) -> Result<(), DecodeError> {
    let mut array = Reader(message);
    while let Some((field, value)) = array.field()? {
        if field == DATA {
            protobuf::packed_ints(value.bytes()?, out)?;
        }
    }
    Ok(())
}

/// `QueryResults`: the values of the primary key.
fn read_queried(message: &[u8], primary: &[u8], answer: &mut Answer) -> Result<(), Failure> {
    const FIELDS: u32 = 2;
    const NAME: u32 = 2;
    const SCALARS: u32 = 3;
    let mut reader = Reader(message);
    while let Some((field, value)) = reader.field()? {
        match field {
            STATUS => check_status(value.bytes()?)?,
            FIELDS => {
                let (mut name, mut scalars): (&[u8], &[u8]) = (b"", b"");
                let mut data = Reader(value.bytes()?);
                while let Some((field, value)) = data.field()? {
                    match field {
                        NAME => name = value.bytes()?,
                        SCALARS => scalars = value.bytes()?,
                        _ => {}
                    }
                }
                if name == primary {
                    read_integers(scalars, &mut answer.ids)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The integers of a `ScalarField`.
fn read_integers(message: &[u8], out: &mut Vec<i64>) -> Result<(), DecodeError> {
    const INTEGERS: u32 = 3;
    let mut scalars = Reader(message);
    while let Some((field, value)) = scalars.field()? {
        if field == INTEGERS {
            read_longs(value.bytes()?, out)?;
        }
    }
    Ok(())
}

/// `MutationResult`: the rows that were refused.
fn read_changed(request: &Prepared, message: &[u8]) -> Result<(), Failure> {
    const REFUSED: u32 = 4;
    let mut refused = vec![];
    let mut reader = Reader(message);
    while let Some((field, value)) = reader.field()? {
        match field {
            STATUS => check_status(value.bytes()?)?,
            REFUSED => protobuf::packed_ints(value.bytes()?, &mut refused)?,
            _ => {}
        }
    }
    match refused.len() {
        0 => Ok(()),
        number => {
            let done = (request.rows as usize).saturating_sub(number);
            Err(incomplete(done, request, " written"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::messages::{
        FieldData, Ids, LongArray, ScalarField, Scalars, SearchResultData, SearchResults, Status,
    };
    use super::*;
    use prost::Message;

    #[derive(Message)]
    struct QueryResults {
        #[prost(message, repeated, tag = 2)]
        fields_data: Vec<FieldData>,
    }

    #[derive(Message)]
    struct MutationResult {
        #[prost(uint32, repeated, tag = 4)]
        err_index: Vec<u32>,
    }

    fn decode(
        operation: Operation,
        rows: usize,
        message: &impl Message,
    ) -> Result<Answer, Failure> {
        let request = Prepared {
            head: Primary(Bytes::from_static(b"id")).noted_in(&Arc::default()),
            ..Prepared::plain(operation, Bytes::new(), rows)
        };
        let mut answer = Answer::default();
        Milvus::decode(&request, &message.encode_to_vec(), &mut answer)?;
        Ok(answer)
    }

    #[test]
    fn a_status_becomes_a_class_with_its_reason() {
        for operation in [Operation::Search, Operation::Get, Operation::Insert] {
            let fail = |error_code, code| {
                let status = Some(Status {
                    error_code,
                    reason: "no such field".into(),
                    code,
                });
                let message = SearchResults {
                    status,
                    ..SearchResults::default()
                };
                decode(operation, 1, &message).unwrap_err()
            };
            assert_eq!(fail(1, 65535).class, "status:65535");
            assert_eq!(fail(1, 65535).message, "no such field");
            assert_eq!(fail(4, 0).class, "status:4");
            assert_eq!(fail(1, -2).class, "status:-2");
        }
    }

    #[test]
    fn a_get_reads_the_primary_key_among_other_fields() {
        let field = |(name, data): (&str, [i64; 2])| FieldData {
            field_name: name.into(),
            scalars: Some(ScalarField {
                data: Some(Scalars::Long(LongArray { data: data.into() })),
            }),
            ..FieldData::default()
        };
        let fields = [("year", [1999, 2001]), ("id", [5, -6])].map(field);
        let message = QueryResults {
            fields_data: fields.into(),
        };
        assert_eq!(decode(Operation::Get, 2, &message).unwrap().ids, [5, -6]);
        let failed = decode(Operation::Get, 3, &message).unwrap_err();
        assert_eq!(failed.message, "2 of 3 rows came");
    }

    #[test]
    fn refused_rows_are_incomplete() {
        let err_index = vec![1, 3];
        let failed = decode(Operation::Upsert, 5, &MutationResult { err_index }).unwrap_err();
        let seen = (&*failed.class, &*failed.message);
        assert_eq!(seen, ("incomplete", "3 of 5 rows written"));
    }

    #[test]
    fn ids_of_text_are_garbage() {
        let results = SearchResultData {
            scores: vec![0.5],
            ids: Some(Ids { int_id: None }),
            ..SearchResultData::default()
        };
        let message = SearchResults {
            results: Some(results),
            ..SearchResults::default()
        };
        let failed = decode(Operation::Search, 1, &message).unwrap_err();
        assert_eq!(failed.message, "0 integer ids and 1 scores");
    }
}
