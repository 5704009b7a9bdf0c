//! The null server over Arrow Flight: what its calls answer.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use bytes::Bytes;

use crate::codec::arrow;
use crate::null::grpc::{Hit, Method};
use crate::protocols::flight::messages::{FlightData, Ticket};
use crate::protocols::flight::{DO_ACTION, DO_GET};
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
fn got(hits: &[Hit]) -> Bytes {
    let [schema, rows] = arrow::encode(&batch(hits)).expect("plain columns are encoded");
    let messages = [
        FlightData::new(&schema.ipc_message, &[]),
        FlightData::new(&rows.ipc_message, &rows.arrow_data),
    ];
    messages.map(|message| framed(&message)).concat().into()
}

/// The same as a stream in Arrow's own framing, in one `Result`.
fn acted(hits: &[Hit]) -> Bytes {
    let stream = arrow::stream(&batch(hits)).expect("plain columns are encoded");
    framed(&Ticket::new(&stream))
}

fn batch(hits: &[Hit]) -> RecordBatch {
    let ids = hits.iter().map(|(id, _)| *id);
    let scores = hits.iter().map(|(_, score)| f64::from(*score));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
    let scores: ArrayRef = Arc::new(Float64Array::from_iter_values(scores));
    RecordBatch::try_from_iter([("id", ids), ("score", scores)]).expect("the columns are as long")
}
