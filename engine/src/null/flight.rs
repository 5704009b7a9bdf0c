//! The null server over Arrow Flight: what its calls answer.

use bytes::Bytes;

use crate::ipc::{self, Cells, Column};
use crate::null::grpc::Family;
use crate::protocols::flight::{flight_data, DO_GET};

/// Tickets are answered with hits; what other calls stream back is nothing that is read.
pub const FLIGHT: Family = Family {
    path: DO_GET,
    found,
};

/// A schema and one batch.
fn found(k: usize, id: fn(u64) -> u64) -> Bytes {
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
    let (header, body) = ipc::batch(&columns);
    let schema = flight_data(None, &ipc::schema(&columns, &[]), &[]);
    [schema, flight_data(None, &header, &body)].concat().into()
}
