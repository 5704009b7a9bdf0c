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

mod answer;
mod request;

use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Failure, Operation, Prepared, Protocol, Target, Task};
use crate::protocols::messages::{for_batches, for_queries};
use crate::transport::grpc::{self, Unary};
use request::{search_params, Collection};

/// Qdrant over gRPC.
pub struct Qdrant {
    target: Target,
}

impl Protocol for Qdrant {
    type Connection = Unary<Self>;
    const SHARED: bool = true;

    fn new(target: Target) -> Result<Self, InvalidArgument> {
        Ok(Self { target })
    }

    fn prepare(&self, task: &Task) -> Result<Vec<Prepared>, InvalidArgument> {
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
                return Err(InvalidArgument(
                    "qdrant takes no payloads made elsewhere".into(),
                ))
            }
        })
    }

    async fn connect(&self) -> Result<Self::Connection, Failure> {
        Unary::connect(&self.target).await
    }
}
