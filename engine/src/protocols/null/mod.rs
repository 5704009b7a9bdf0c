//! The protocol of the null server, which answers at once: what is measured is the client.
//!
//! A search carries k and the vector as packed floats; its answer, ids and scores packed. Writes
//! carry ids and vectors and are answered with an empty message.

mod answer;
pub mod messages;

use std::ops::Range;

use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Operation, Prepared};
use crate::protocols::unary::{Calls, Service};
use crate::transport::grpc;
use messages::{Rows, Search};

pub struct NullGrpc;

impl Service for NullGrpc {
    const NAME: &'static str = "vectrial.Null";

    fn prepare(calls: &Calls) -> Result<Vec<Prepared>, InvalidArgument> {
        let (task, dim) = (calls.task, calls.task.vectors.dim);
        let rows = |rows: Range<usize>| Rows {
            ids: task.ids[rows].to_vec(),
            vectors: vec![],
        };
        match task.operation {
            Operation::Search => calls.queries("Search", |query| Search {
                k: task.k as u64,
                vector: task.vectors.row(query).to_vec(),
                filter: task.filter(query).cloned(),
            }),
            Operation::Get => calls.batches("Get", rows),
            Operation::Delete => calls.batches("Delete", rows),
            Operation::Insert | Operation::Upsert => calls.batches("Write", |range| Rows {
                vectors: task.vectors.values[range.start * dim..range.end * dim].to_vec(),
                ..rows(range)
            }),
            Operation::Payload => {
                let head = calls.head("Payload")?;
                let request = |bytes: &bytes::Bytes| {
                    let body = grpc::framed_bytes(bytes);
                    grpc::prepare_framed(task.operation, &head, 1, body)
                };
                Ok(task.payloads.iter().map(request).collect())
            }
        }
    }
}
