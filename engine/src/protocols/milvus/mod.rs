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
pub mod messages;
mod request;

use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Operation, Prepared};
use crate::protocols::unary::{Calls, Service};
use answer::Primary;
use request::{check_filters, Collection};

pub struct Milvus;

impl Service for Milvus {
    const NAME: &'static str = "milvus.proto.milvus.MilvusService";

    fn prepare(calls: &Calls) -> Result<Vec<Prepared>, InvalidArgument> {
        let to = Collection::of(calls.task)?;
        match calls.task.operation {
            Operation::Search => {
                check_filters(calls.task)?;
                calls.queries("Search", |query| to.search(query))
            }
            Operation::Get => {
                let head = Primary(to.id.to_owned().into()).noted_in(&calls.head("Query")?);
                Ok(calls.batches_of(&head, |rows| to.query(rows)))
            }
            Operation::Insert => calls.batches("Insert", |rows| to.insert(rows)),
            Operation::Upsert => calls.batches("Upsert", |rows| to.insert(rows)),
            Operation::Delete => calls.batches("Delete", |rows| to.delete(rows)),
            Operation::Payload => Err(calls.no_payloads()),
        }
    }
}
