//! The null server over Arrow Flight: what its calls answer.

use bytes::Bytes;

use crate::ipc::{self, Cells, Column};
use crate::null::grpc::Method;
use crate::protobuf;
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
    with_hits(k, id, |schema, batch, rows| {
        [
            flight_data(None, schema, &[]),
            flight_data(None, batch, rows),
        ]
        .concat()
        .into()
    })
}

/// The same as a stream in Arrow's own framing, in one `Result`.
fn acted(k: usize, id: fn(u64) -> u64) -> Bytes {
    with_hits(k, id, |schema, batch, rows| {
        framed(|out| protobuf::put_bytes(out, CONTENT, &stream(&[(schema, &[]), (batch, rows)])))
    })
}

/// Messages and their bodies in Arrow's own framing, with its end.
fn stream(messages: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut out = vec![];
    for (header, body) in messages {
        out.extend([0xff; 4]);
        out.extend((header.len() as u32).to_le_bytes());
        out.extend_from_slice(header);
        out.extend_from_slice(body);
    }
    out.extend([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    out
}

/// Call `then` with the message of a schema, that of a batch, and its body.
fn with_hits<T>(k: usize, id: fn(u64) -> u64, then: impl Fn(&[u8], &[u8], &[u8]) -> T) -> T {
    let ids: Vec<i64> = (0..k as u64).map(|i| id(i) as i64).collect();
    let scores: Vec<f64> = (0..k).map(|i| i as f64 / 64.0).collect();
    let column = |name, cells| Column {
        name,
        cells,
        valid: &[],
        nullable: false,
    };
    let columns = [
        column("id", Cells::Int(&ids)),
        column("score", Cells::Float(&scores)),
    ];
    let (batch, rows) = ipc::batch(&columns);
    then(&ipc::schema(&columns, &[]), &batch, &rows)
}
