//! Answers, as `qdrant.Points` has them.

use super::Qdrant;
use crate::codec::protobuf::Reader;
use crate::codec::DecodeError;
use crate::protocol::{Answer, Failure, Operation, Prepared};
use crate::protocols::messages::check_came;
use crate::transport::grpc::Decode;

impl Decode for Qdrant {
    fn decode(request: &Prepared, message: &[u8], answer: &mut Answer) -> Result<(), Failure> {
        match request.operation {
            Operation::Search => Ok(read_points(message, answer)?),
            Operation::Get => {
                read_points(message, answer)?;
                check_came(request, answer)
            }
            _ => read_updated(message),
        }
    }
}

/// Ids and scores of a `qdrant.QueryResponse`, or ids of a `qdrant.GetResponse`, whose fields agree
/// as far as they are read.
fn read_points(message: &[u8], answer: &mut Answer) -> Result<(), DecodeError> {
    const RESULT: u32 = 1;
    let mut reader = Reader(message);
    while let Some((field, value)) = reader.field()? {
        if field == RESULT {
            let (id, score) = read_point(value.bytes()?)?;
            answer.ids.push(id);
            answer.scores.push(score);
        }
    }
    Ok(())
}

fn read_point(message: &[u8]) -> Result<(i64, f32), DecodeError> {
    const ID: u32 = 1;
    const ID_NUMBER: u32 = 1;
    const SCORE: u32 = 3;
    let (mut id, mut score) = (None, 0.0);
    let mut point = Reader(message);
    while let Some((field, value)) = point.field()? {
        match field {
            ID => {
                let mut message = Reader(value.bytes()?);
                while let Some((field, value)) = message.field()? {
                    if field == ID_NUMBER {
                        id = Some(value.number()? as i64);
                    }
                }
            }
            SCORE => score = value.float()?,
            _ => {}
        }
    }
    Ok((id.ok_or(DecodeError("a point has no number"))?, score))
}

/// A `qdrant.PointsOperationResponse`: applied, or logged where that is what was asked for.
fn read_updated(message: &[u8]) -> Result<(), Failure> {
    const RESULT: u32 = 1;
    const STATUS: u32 = 2;
    /// By number; the second and third are successes.
    const NAMES: [&str; 5] = [
        "unknown_update_status",
        "",
        "",
        "clock_rejected",
        "wait_timeout",
    ];
    let mut status = 0;
    let mut reader = Reader(message);
    while let Some((field, value)) = reader.field()? {
        if field != RESULT {
            continue;
        }
        let mut result = Reader(value.bytes()?);
        while let Some((field, value)) = result.field()? {
            if field == STATUS {
                status = value.number()?;
            }
        }
    }
    if matches!(status, 1 | 2) {
        return Ok(());
    }
    let name = usize::try_from(status).ok().and_then(|at| NAMES.get(at));
    let name = name.map_or_else(|| status.to_string(), |name| (*name).to_owned());
    Err(Failure::new(
        format!("status:{name}"),
        "the update was not applied",
    ))
}

#[cfg(test)]
mod tests {
    use super::super::request::put_ids;
    use super::*;
    use crate::codec::protobuf::{self, put_bytes, put_message, put_number};
    use bytes::Bytes;
    use proptest::prelude::*;

    fn request(operation: Operation, rows: usize) -> Prepared {
        Prepared::plain(operation, Bytes::new(), rows)
    }

    /// An answer as the server writes it.
    fn answered(rows: &[(i64, f32)]) -> Vec<u8> {
        let mut out = vec![];
        for (id, score) in rows {
            put_message(&mut out, 1, |point| {
                put_ids(point, 1, &[*id]);
                put_bytes(point, 2, b"payload is passed over");
                protobuf::put_fixed32(point, 3, score.to_le_bytes());
                put_number(point, 5, 12);
            });
        }
        protobuf::put_fixed64(&mut out, 2, 0.25f64.to_le_bytes());
        out
    }

    fn updated(status: u64) -> Vec<u8> {
        let mut out = vec![];
        put_message(&mut out, 1, |result| {
            put_number(result, 1, 77);
            put_number(result, 2, status);
        });
        out
    }

    #[test]
    fn an_update_that_was_not_applied_is_a_failure() {
        let class = |message: &[u8]| read_updated(message).map_err(|failed| failed.class);
        assert_eq!(class(&updated(1)), Ok(()));
        assert_eq!(class(&updated(2)), Ok(()));
        assert_eq!(class(&updated(4)).unwrap_err(), "status:wait_timeout");
        assert_eq!(class(&updated(9)).unwrap_err(), "status:9");
        assert_eq!(class(b"").unwrap_err(), "status:unknown_update_status");
    }

    #[test]
    fn a_point_known_by_something_else_than_a_number_is_garbage() {
        let mut message = vec![];
        put_message(&mut message, 1, |point| {
            put_message(point, 1, |id| put_bytes(id, 2, b"a uuid"));
        });
        let failed = Qdrant::decode(
            &request(Operation::Search, 1),
            &message,
            &mut Answer::default(),
        );
        assert_eq!(failed.unwrap_err().class, "garbage");
    }

    #[test]
    fn a_get_that_misses_rows_is_incomplete() {
        let mut answer = Answer::default();
        let message = answered(&[(3, 0.0)]);
        let failed = Qdrant::decode(&request(Operation::Get, 2), &message, &mut answer);
        assert_eq!(failed.unwrap_err().message, "1 of 2 rows came");
    }

    proptest! {
        #[test]
        fn ids_and_scores_come_back(rows: Vec<(i64, f32)>) {
            let mut answer = Answer::default();
            let request = request(Operation::Search, 1);
            Qdrant::decode(&request, &answered(&rows), &mut answer).unwrap();
            let (ids, scores): (Vec<i64>, Vec<f32>) = rows.into_iter().unzip();
            prop_assert_eq!(answer.ids, ids);
            let mut same = answer.scores.iter().zip(&scores);
            prop_assert!(same.all(|(a, b)| a.to_bits() == b.to_bits()));
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>) {
            for operation in [Operation::Search, Operation::Get, Operation::Upsert] {
                let _ = Qdrant::decode(&request(operation, 3), &bytes, &mut Answer::default());
            }
        }

        #[test]
        fn a_damaged_answer_is_decoded_or_refused(rows: Vec<(i64, f32)>, at: usize, byte: u8) {
            let mut message = answered(&rows);
            let at = at % message.len();
            message[at] = byte;
            let _ = read_points(&message, &mut Answer::default());
            let _ = read_points(&message[..at], &mut Answer::default());
            let _ = read_updated(&message);
        }
    }
}
