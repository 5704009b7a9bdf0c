//! Qdrant's gRPC service, `qdrant.Points`.
//!
//! Rows are known by unsigned number there, which is our id in two's complement.
//!
//! Options of a class: `collection`; `vector`, the name of a named vector; for search, `ef`,
//! `exact`, `indexed_only`, and of compressed vectors `rescore` and `oversampling`; for reads,
//! `consistency` (`all`, `majority`, `quorum`), `with_payload` and `with_vector`; for writes and
//! deletes, `wait` (`true` unless given: an answer means applied, not only logged) and `ordering`
//! (`weak`, `medium`, `strong`). Filters are serialised `qdrant.Filter`. An insert and an upsert
//! are the same call.

use std::ops::Range;

use crate::codec::protobuf::{self, put_bytes, put_message, put_number, Reader};
use crate::codec::DecodeError;
use crate::misuse::Misuse;
use crate::protocol::{
    Answer, Cell, Failure, Operation, Options, Prepared, Protocol, Target, Task,
};
use crate::protocols::messages::{check_came, choice, flag, for_batches, for_queries};
use crate::transport::grpc::{self, Decode, Unary};

/// Qdrant over gRPC.
pub struct Qdrant {
    target: Target,
}

impl Protocol for Qdrant {
    type Connection = Unary<Self>;
    const SHARED: bool = true;

    fn new(target: Target) -> Result<Self, Misuse> {
        Ok(Self { target })
    }

    fn prepare(&self, task: &Task) -> Result<Vec<Prepared>, Misuse> {
        let to = Collection::of(&task.options)?;
        let head = |method: &str| grpc::head(&self.target, &format!("/qdrant.Points/{method}"));
        Ok(match task.operation {
            Operation::Search => {
                let params = search_params(&task.options)?;
                for_queries(task, &head("Query")?, |out, query| {
                    to.put_query(out, task, query, &params);
                })
            }
            Operation::Get => for_batches(task, &head("Get")?, |out, rows| {
                to.put_get(out, task, rows);
            }),
            Operation::Insert | Operation::Upsert => {
                for_batches(task, &head("Upsert")?, |out, rows| {
                    to.put_upsert(out, task, rows);
                })
            }
            Operation::Delete => for_batches(task, &head("Delete")?, |out, rows| {
                to.put_delete(out, task, rows);
            }),
            Operation::Payload => {
                return Err(Misuse("qdrant takes no payloads made elsewhere".into()))
            }
        })
    }

    async fn connect(&self) -> Result<Self::Connection, Failure> {
        Unary::connect(&self.target).await
    }
}

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

/// `qdrant.QueryPoints`.
mod query {
    pub const COLLECTION: u32 = 1;
    pub const QUERY: u32 = 3;
    pub const NEAREST: u32 = 1;
    pub const DENSE: u32 = 2;
    pub const DATA: u32 = 1;
    pub const USING: u32 = 4;
    pub const FILTER: u32 = 5;
    pub const PARAMS: u32 = 6;
    pub const PARAMS_EF: u32 = 1;
    pub const PARAMS_EXACT: u32 = 2;
    pub const PARAMS_QUANTIZATION: u32 = 3;
    pub const RESCORE: u32 = 2;
    pub const OVERSAMPLING: u32 = 3;
    pub const PARAMS_INDEXED_ONLY: u32 = 4;
    pub const LIMIT: u32 = 8;
    pub const WITH_VECTORS: u32 = 10;
    pub const WITH_PAYLOAD: u32 = 11;
    pub const CONSISTENCY: u32 = 12;
    pub const CONSISTENCY_TYPE: u32 = 1;
}

/// `qdrant.WithPayloadSelector` and `qdrant.WithVectorsSelector`.
mod selector {
    pub const ENABLE: u32 = 1;
}

/// `qdrant.GetPoints`.
mod get {
    pub const COLLECTION: u32 = 1;
    pub const IDS: u32 = 2;
    pub const WITH_PAYLOAD: u32 = 4;
    pub const WITH_VECTORS: u32 = 5;
    pub const CONSISTENCY: u32 = 6;
}

/// `qdrant.UpsertPoints` and `qdrant.DeletePoints`, whose first four fields agree.
mod update {
    pub const COLLECTION: u32 = 1;
    pub const WAIT: u32 = 2;
    pub const POINTS: u32 = 3;
    pub const ORDERING: u32 = 4;
    pub const ORDERING_TYPE: u32 = 1;
    /// Of the selection of points to delete.
    pub const SELECTED: u32 = 1;
    pub const SELECTED_IDS: u32 = 1;
}

/// `qdrant.PointStruct` and the messages in it.
mod point {
    pub const ID: u32 = 1;
    pub const ID_NUMBER: u32 = 1;
    pub const PAYLOAD: u32 = 3;
    pub const VECTORS: u32 = 4;
    pub const VECTORS_ONE: u32 = 1;
    pub const VECTORS_NAMED: u32 = 2;
    pub const NAMED_ENTRY: u32 = 1;
    pub const DENSE: u32 = 101;
    pub const DATA: u32 = 1;
    /// Of an entry of a map.
    pub const KEY: u32 = 1;
    pub const VALUE: u32 = 2;
    pub const DOUBLE: u32 = 2;
    pub const INTEGER: u32 = 3;
    pub const TEXT: u32 = 4;
    pub const BOOL: u32 = 5;
}

/// Where a class of requests goes, and on which terms.
struct Collection<'a> {
    name: &'a [u8],
    vector: Option<&'a str>,
    consistency: Option<u64>,
    ordering: Option<u64>,
    wait: bool,
    with_payload: bool,
    with_vector: bool,
}

impl<'a> Collection<'a> {
    fn of(options: &'a Options) -> Result<Self, Misuse> {
        Ok(Self {
            name: options.text("collection")?.as_bytes(),
            vector: options.get("vector"),
            consistency: choice(options, "consistency", &["all", "majority", "quorum"])?,
            ordering: choice(options, "ordering", &["weak", "medium", "strong"])?,
            wait: flag(options, "wait")?.unwrap_or(true),
            with_payload: flag(options, "with_payload")?.unwrap_or(false),
            with_vector: flag(options, "with_vector")?.unwrap_or(false),
        })
    }

    fn put_query(&self, out: &mut Vec<u8>, task: &Task, at: usize, params: &[u8]) {
        put_bytes(out, query::COLLECTION, self.name);
        put_message(out, query::QUERY, |query| {
            put_message(query, query::NEAREST, |nearest| {
                put_message(nearest, query::DENSE, |dense| {
                    protobuf::put_floats(dense, query::DATA, task.vectors.row(at));
                });
            });
        });
        if let Some(name) = self.vector {
            put_bytes(out, query::USING, name.as_bytes());
        }
        if let Some(filter) = task.filter(at) {
            put_bytes(out, query::FILTER, filter);
        }
        if !params.is_empty() {
            put_bytes(out, query::PARAMS, params);
        }
        put_number(out, query::LIMIT, task.k as u64);
        for (field, wanted) in [
            (query::WITH_VECTORS, self.with_vector),
            (query::WITH_PAYLOAD, self.with_payload),
        ] {
            if wanted {
                put_selector(out, field, true);
            }
        }
        self.put_consistency(out, query::CONSISTENCY);
    }

    fn put_consistency(&self, out: &mut Vec<u8>, field: u32) {
        if let Some(level) = self.consistency {
            put_message(out, field, |consistency| {
                put_number(consistency, query::CONSISTENCY_TYPE, level);
            });
        }
    }

    fn put_get(&self, out: &mut Vec<u8>, task: &Task, rows: Range<usize>) {
        put_bytes(out, get::COLLECTION, self.name);
        put_ids(out, get::IDS, &task.ids[rows]);
        for (field, wanted) in [
            (get::WITH_PAYLOAD, self.with_payload),
            (get::WITH_VECTORS, self.with_vector),
        ] {
            put_selector(out, field, wanted);
        }
        self.put_consistency(out, get::CONSISTENCY);
    }

    /// What writes and deletes have in common.
    fn put_update(&self, out: &mut Vec<u8>) {
        put_bytes(out, update::COLLECTION, self.name);
        put_number(out, update::WAIT, self.wait.into());
        if let Some(ordering) = self.ordering {
            put_message(out, update::ORDERING, |message| {
                put_number(message, update::ORDERING_TYPE, ordering);
            });
        }
    }

    fn put_upsert(&self, out: &mut Vec<u8>, task: &Task, rows: Range<usize>) {
        self.put_update(out);
        for row in rows {
            put_message(out, update::POINTS, |point| {
                put_ids(point, point::ID, &task.ids[row..=row]);
                for column in &task.columns {
                    if let Some(cell) = column.cell(row) {
                        put_payload(point, &column.name, cell);
                    }
                }
                put_message(point, point::VECTORS, |vectors| {
                    self.put_vector(vectors, task.vectors.row(row));
                });
            });
        }
    }

    fn put_vector(&self, vectors: &mut Vec<u8>, row: &[f32]) {
        let dense = |vector: &mut Vec<u8>| {
            put_message(vector, point::DENSE, |dense| {
                protobuf::put_floats(dense, point::DATA, row);
            });
        };
        match self.vector {
            None => put_message(vectors, point::VECTORS_ONE, dense),
            Some(name) => put_message(vectors, point::VECTORS_NAMED, |named| {
                put_message(named, point::NAMED_ENTRY, |entry| {
                    put_bytes(entry, point::KEY, name.as_bytes());
                    put_message(entry, point::VALUE, dense);
                });
            }),
        }
    }

    fn put_delete(&self, out: &mut Vec<u8>, task: &Task, rows: Range<usize>) {
        self.put_update(out);
        put_message(out, update::POINTS, |selection| {
            put_message(selection, update::SELECTED, |selected| {
                put_ids(selected, update::SELECTED_IDS, &task.ids[rows]);
            });
        });
    }
}

/// Append whether an answer is to hold what `field` is about.
fn put_selector(out: &mut Vec<u8>, field: u32, wanted: bool) {
    put_message(out, field, |selector| {
        put_number(selector, selector::ENABLE, wanted.into());
    });
}

/// Append ids, each a message of its own.
fn put_ids(out: &mut Vec<u8>, field: u32, ids: &[i64]) {
    for id in ids {
        put_message(out, field, |point| {
            put_number(point, point::ID_NUMBER, *id as u64);
        });
    }
}

/// An entry of a point's payload.
fn put_payload(point: &mut Vec<u8>, name: &str, cell: Cell<'_>) {
    put_message(point, point::PAYLOAD, |entry| {
        put_bytes(entry, point::KEY, name.as_bytes());
        put_message(entry, point::VALUE, |value| match cell {
            Cell::Int(number) => put_number(value, point::INTEGER, number as u64),
            Cell::Float(number) => {
                protobuf::put_fixed64(value, point::DOUBLE, number.to_le_bytes());
            }
            Cell::Bool(truth) => put_number(value, point::BOOL, truth.into()),
            Cell::Text(text) => put_bytes(value, point::TEXT, text.as_bytes()),
        });
    });
}

/// A `qdrant.SearchParams`; empty where the server is to decide.
fn search_params(options: &Options) -> Result<Vec<u8>, Misuse> {
    let mut params = vec![];
    if let Some(ef) = options.parse::<u64>("ef")? {
        put_number(&mut params, query::PARAMS_EF, ef);
    }
    for (field, name) in [
        (query::PARAMS_EXACT, "exact"),
        (query::PARAMS_INDEXED_ONLY, "indexed_only"),
    ] {
        if let Some(wanted) = flag(options, name)? {
            put_number(&mut params, field, wanted.into());
        }
    }
    let mut compressed = vec![];
    if let Some(wanted) = flag(options, "rescore")? {
        put_number(&mut compressed, query::RESCORE, wanted.into());
    }
    if let Some(times) = options.parse::<f64>("oversampling")? {
        protobuf::put_fixed64(&mut compressed, query::OVERSAMPLING, times.to_le_bytes());
    }
    if !compressed.is_empty() {
        put_bytes(&mut params, query::PARAMS_QUANTIZATION, &compressed);
    }
    Ok(params)
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
    use super::*;
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
