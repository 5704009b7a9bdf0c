//! Answers, as `milvus.proto` has them.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;

use super::request::field;
use super::Milvus;
use crate::codec::protobuf::{self, Reader};
use crate::codec::DecodeError;
use crate::protocol::{Answer, Failure, Operation, Prepared};
use crate::protocols::messages::{check_came, incomplete};
use crate::transport::grpc::Decode;

impl Decode for Milvus {
    fn decode(request: &Prepared, message: &[u8], answer: &mut Answer) -> Result<(), Failure> {
        match request.operation {
            Operation::Search => read_found(message, answer),
            Operation::Get => {
                let primary = request.head.extensions().get::<Primary>();
                let primary = primary.map_or(&b""[..], |Primary(name)| name);
                read_queried(message, primary, answer)?;
                check_came(request, answer)
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
        if field == field::DATA {
            protobuf::packed_ints(value.bytes()?, out)?;
        }
    }
    Ok(())
}

/// `QueryResults`: the values of the primary key.
fn read_queried(message: &[u8], primary: &[u8], answer: &mut Answer) -> Result<(), Failure> {
    const FIELDS: u32 = 2;
    let mut reader = Reader(message);
    while let Some((field, value)) = reader.field()? {
        match field {
            STATUS => check_status(value.bytes()?)?,
            FIELDS => {
                let (mut name, mut scalars): (&[u8], &[u8]) = (b"", b"");
                let mut data = Reader(value.bytes()?);
                while let Some((field, value)) = data.field()? {
                    match field {
                        field::NAME => name = value.bytes()?,
                        field::SCALARS => scalars = value.bytes()?,
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
    let (integers, _) = field::INT64;
    let mut scalars = Reader(message);
    while let Some((field, value)) = scalars.field()? {
        if field == integers {
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
    use super::super::request::put_scalars;
    use super::*;
    use crate::codec::protobuf::{put_bytes, put_message, put_number};
    use proptest::prelude::*;

    fn request(operation: Operation, rows: usize) -> Prepared {
        let head = Primary(Bytes::from_static(b"id")).noted_in(&Arc::default());
        Prepared {
            head,
            ..Prepared::plain(operation, Bytes::new(), rows)
        }
    }

    fn put_longs(out: &mut Vec<u8>, outer: u32, ids: &[i64]) {
        put_message(out, outer, |array| {
            protobuf::put_packed(array, field::DATA, ids.iter().map(|id| *id as u64));
        });
    }

    fn status(old: u64, code: u64, reason: &[u8]) -> Vec<u8> {
        let mut out = vec![];
        put_message(&mut out, STATUS, |status| {
            put_number(status, 1, old);
            put_bytes(status, 2, reason);
            put_number(status, 3, code);
        });
        out
    }

    /// An answer as the server writes it.
    fn found(rows: &[(i64, f32)]) -> Vec<u8> {
        let (ids, scores): (Vec<i64>, Vec<f32>) = rows.iter().copied().unzip();
        let mut out = status(0, 0, b"");
        put_message(&mut out, 2, |results| {
            put_number(results, 1, 1);
            put_number(results, 2, 10);
            protobuf::put_floats(results, 4, &scores);
            put_message(results, 5, |all| put_longs(all, 1, &ids));
            protobuf::put_packed(results, 6, [ids.len() as u64]);
        });
        put_bytes(&mut out, 3, b"Things");
        out
    }

    #[test]
    fn a_status_becomes_a_class_with_its_reason() {
        for operation in [Operation::Search, Operation::Get, Operation::Insert] {
            let fail = |message: &[u8]| {
                let request = request(operation, 1);
                Milvus::decode(&request, message, &mut Answer::default()).unwrap_err()
            };
            let failed = fail(&status(1, 65535, b"no such field"));
            assert_eq!(failed.class, "status:65535");
            assert_eq!(failed.message, "no such field");
            assert_eq!(fail(&status(4, 0, b"")).class, "status:4");
            assert_eq!(fail(&status(1, -2i64 as u64, b"")).class, "status:-2");
        }
    }

    #[test]
    fn a_get_reads_the_primary_key_among_other_fields() {
        let mut message = status(0, 0, b"");
        for (name, ids) in [("year", [1999, 2001]), ("id", [5, -6])] {
            put_message(&mut message, 2, |data| {
                put_scalars(data, name, field::INT64, |array| {
                    protobuf::put_packed(array, field::DATA, ids.map(|id: i64| id as u64));
                });
            });
        }
        let mut answer = Answer::default();
        Milvus::decode(&request(Operation::Get, 2), &message, &mut answer).unwrap();
        assert_eq!(answer.ids, [5, -6]);
        let failed = Milvus::decode(
            &request(Operation::Get, 3),
            &message,
            &mut Answer::default(),
        );
        assert_eq!(failed.unwrap_err().message, "2 of 3 rows came");
    }

    #[test]
    fn refused_rows_are_incomplete() {
        let mut message = status(0, 0, b"");
        protobuf::put_packed(&mut message, 4, [1, 3]);
        let failed = read_changed(&request(Operation::Upsert, 5), &message).unwrap_err();
        assert_eq!(
            (&*failed.class, &*failed.message),
            ("incomplete", "3 of 5 rows written")
        );
    }

    #[test]
    fn ids_of_text_are_garbage() {
        let mut message = vec![];
        put_message(&mut message, 2, |results| {
            protobuf::put_floats(results, 4, &[0.5]);
            put_message(results, 5, |ids| {
                put_message(ids, 2, |texts| put_bytes(texts, 1, b"a"));
            });
        });
        let failed = read_found(&message, &mut Answer::default()).unwrap_err();
        assert_eq!(failed.message, "0 integer ids and 1 scores");
    }

    proptest! {
        #[test]
        fn ids_and_scores_come_back(rows: Vec<(i64, f32)>) {
            let mut answer = Answer::default();
            let request = request(Operation::Search, 1);
            Milvus::decode(&request, &found(&rows), &mut answer).unwrap();
            let (ids, scores): (Vec<i64>, Vec<f32>) = rows.into_iter().unzip();
            prop_assert_eq!(answer.ids, ids);
            let mut same = answer.scores.iter().zip(&scores);
            prop_assert!(same.all(|(a, b)| a.to_bits() == b.to_bits()));
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>) {
            for operation in [Operation::Search, Operation::Get, Operation::Insert] {
                let _ = Milvus::decode(&request(operation, 3), &bytes, &mut Answer::default());
            }
            let _ = (check_status(&bytes), read_ids(&bytes, &mut vec![]));
            let _ = read_integers(&bytes, &mut vec![]);
        }

        #[test]
        fn a_damaged_answer_is_decoded_or_refused(rows: Vec<(i64, f32)>, at: usize, byte: u8) {
            let mut message = found(&rows);
            let at = at % message.len();
            message[at] = byte;
            for operation in [Operation::Search, Operation::Get, Operation::Insert] {
                let request = request(operation, rows.len());
                let _ = Milvus::decode(&request, &message, &mut Answer::default());
                let _ = Milvus::decode(&request, &message[..at], &mut Answer::default());
            }
        }
    }
}
