//! The null server over Arrow Flight: what its calls answer.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use bytes::Bytes;

use crate::codec::{arrow, protobuf};
use crate::null::grpc::Method;
use crate::protocols::flight::{flight_data, CONTENT, DO_ACTION, DO_GET};
use crate::transport::grpc::framed;

/// Tickets and actions are answered with hits; what other calls stream back is nothing that is read.
pub const SEARCHES: &[Method] = &[
    Method {
        path: DO_GET,
        found: got,
    },
    Method {
        path: DO_ACTION,
        found: acted,
    },
];

/// A schema and one batch, each a `FlightData`.
fn got(k: usize, id: fn(u64) -> u64) -> Bytes {
    let [schema, rows] = arrow::encode(&hits(k, id)).expect("plain columns are encoded");
    [
        flight_data(None, &schema.ipc_message, &[]),
        flight_data(None, &rows.ipc_message, &rows.arrow_data),
    ]
    .concat()
    .into()
}

/// The same as a stream in Arrow's own framing, in one `Result`.
fn acted(k: usize, id: fn(u64) -> u64) -> Bytes {
    let stream = arrow::stream(&hits(k, id)).expect("plain columns are encoded");
    framed(|out| protobuf::put_bytes(out, CONTENT, &stream))
}

/// k ids and their scores.
fn hits(k: usize, id: fn(u64) -> u64) -> RecordBatch {
    let ids = (0..k as u64).map(|at| id(at) as i64);
    let scores = (0..k).map(|at| at as f64 / 64.0);
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
    let scores: ArrayRef = Arc::new(Float64Array::from_iter_values(scores));
    RecordBatch::try_from_iter([("id", ids), ("score", scores)]).expect("the columns are as long")
}
