//! Requests of the null server.

use std::sync::Arc;

use http::Request;

use crate::codec::protobuf;
use crate::protocol::{Operation, Prepared, Task};
use crate::transport::grpc;

/// Fields of the request.
const K: u32 = 1;
const VECTOR: u32 = 2;
const IDS: u32 = 3;
const FILTER: u32 = 4;

/// The requests of a task.
pub fn requests(task: &Task, head: &Arc<Request<()>>) -> Vec<Prepared> {
    let operation = task.operation;
    let rows = |range: std::ops::Range<usize>, out: &mut Vec<u8>| {
        let ids = task.ids[range.clone()].iter();
        protobuf::put_packed(out, IDS, ids.map(|id| *id as u64));
        if matches!(operation, Operation::Insert | Operation::Upsert) {
            let dim = task.vectors.dim;
            let values = &task.vectors.values[range.start * dim..range.end * dim];
            protobuf::put_floats(out, VECTOR, values);
        }
    };
    match operation {
        Operation::Search => (0..task.vectors.rows())
            .map(|query| {
                grpc::prepare(operation, head, 1, |out| {
                    protobuf::put_number(out, K, task.k as u64);
                    protobuf::put_floats(out, VECTOR, task.vectors.row(query));
                    if let Some(filter) = task.filter(query) {
                        protobuf::put_bytes(out, FILTER, filter);
                    }
                })
            })
            .collect(),
        Operation::Payload => task
            .payloads
            .iter()
            .map(|bytes| grpc::prepare(operation, head, 1, |out| out.extend_from_slice(bytes)))
            .collect(),
        _ => task
            .batches()
            .map(|range| grpc::prepare(operation, head, range.len(), |out| rows(range, out)))
            .collect(),
    }
}
