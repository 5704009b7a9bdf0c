//! Answers, as `qdrant.Points` has them.

use super::Qdrant;
use crate::codec::protobuf::Reader;
use crate::codec::DecodeError;
use crate::protocol::{Answer, Failure, Operation, Prepared};
use crate::protocols::rows::check_complete;
use crate::transport::grpc::Decode;

impl Decode for Qdrant {
    fn decode(request: &Prepared, message: &[u8], answer: &mut Answer) -> Result<(), Failure> {
        match request.operation {
            Operation::Search => Ok(read_points(message, answer)?),
            Operation::Get => {
                read_points(message, answer)?;
                check_complete(request, answer)
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
    use super::super::messages::{PointId, QueryResponse, ScoredPoint};
    use super::*;
    use bytes::Bytes;
    use prost::Message;

    fn decode(operation: Operation, rows: usize, ids: &[PointId]) -> Result<(), Failure> {
        let point = |id: &PointId| ScoredPoint {
            id: Some(*id),
            ..ScoredPoint::default()
        };
        let message = QueryResponse {
            result: ids.iter().map(point).collect(),
            time: 0.25,
        };
        let request = Prepared::plain(operation, Bytes::new(), rows);
        Qdrant::decode(&request, &message.encode_to_vec(), &mut Answer::default())
    }

    #[test]
    fn an_update_that_was_not_applied_is_a_failure() {
        // In field 1, a result whose field 2 is the status.
        let updated =
            |status| read_updated(&[0x0a, 2, 0x10, status]).map_err(|failed| failed.class);
        assert_eq!(updated(1), Ok(()));
        assert_eq!(updated(2), Ok(()));
        assert_eq!(updated(4).unwrap_err(), "status:wait_timeout");
        assert_eq!(updated(9).unwrap_err(), "status:9");
        let failed = read_updated(b"").unwrap_err();
        assert_eq!(failed.class, "status:unknown_update_status");
    }

    #[test]
    fn a_point_known_by_something_else_than_a_number_is_garbage() {
        let failed = decode(Operation::Search, 1, &[PointId { num: None }]);
        assert_eq!(failed.unwrap_err().class, "garbage");
    }

    #[test]
    fn a_get_that_misses_rows_is_incomplete() {
        let failed = decode(Operation::Get, 2, &[3.into()]);
        assert_eq!(failed.unwrap_err().message, "1 of 2 rows came");
    }
}
