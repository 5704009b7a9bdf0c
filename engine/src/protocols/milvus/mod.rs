//! Milvus' gRPC service, `milvus.proto.milvus.MilvusService`.
//!
//! Rows are known by an int64 primary key, which is our id.
//!
//! Options of a class: `collection`; `db`; `partition`; `id` and `vector`, names of the primary
//! key and of the vector field (so called unless given); `consistency` (`strong`, `bounded` or
//! `eventually`; the collection's own unless given); for search, `metric` (`L2`, `IP`, `COSINE`)
//! and `params`, JSON text such as `{"ef": 64}` or `{"nprobe": 16}`; for search and get,
//! `output_fields`, what comes back of each row (names with commas between). Filters are expressions
//! in text. A target's `authorization` header is the base64 of `user:password`, or of a key.

mod answer;
mod request;

use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Failure, Operation, Prepared, Protocol, Target, Task};
use crate::protocols::messages::{for_batches, for_queries};
use crate::transport::grpc::{self, Unary};
use answer::Primary;
use request::{check_filters, Collection};

/// Milvus over gRPC.
pub struct Milvus {
    target: Target,
}

impl Protocol for Milvus {
    type Connection = Unary<Self>;
    const SHARED: bool = true;

    fn new(target: Target) -> Result<Self, InvalidArgument> {
        Ok(Self { target })
    }

    fn prepare(&self, task: &Task) -> Result<Vec<Prepared>, InvalidArgument> {
        let to = Collection::of(&task.options)?;
        let head = |method: &str| {
            let path = format!("/milvus.proto.milvus.MilvusService/{method}");
            grpc::head(&self.target, &path)
        };
        Ok(match task.operation {
            Operation::Search => {
                check_filters(task)?;
                let params = to.search_params(task.k);
                for_queries(task, &head("Search")?, |out, query| {
                    to.put_search(out, task, query, &params);
                })
            }
            Operation::Get => {
                let head = Primary(to.id.to_owned().into()).noted_in(&head("Query")?);
                for_batches(task, &head, |out, rows| to.put_query(out, task, rows))
            }
            Operation::Insert => for_batches(task, &head("Insert")?, |out, rows| {
                to.put_rows(out, task, rows);
            }),
            Operation::Upsert => for_batches(task, &head("Upsert")?, |out, rows| {
                to.put_rows(out, task, rows);
            }),
            Operation::Delete => for_batches(task, &head("Delete")?, |out, rows| {
                to.put_delete(out, task, rows);
            }),
            Operation::Payload => {
                return Err(InvalidArgument(
                    "milvus takes no payloads made elsewhere".into(),
                ))
            }
        })
    }

    async fn connect(&self) -> Result<Self::Connection, Failure> {
        Unary::connect(&self.target).await
    }
}
