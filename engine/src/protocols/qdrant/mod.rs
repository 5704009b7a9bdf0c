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
pub mod messages;
mod request;

use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Operation, Prepared};
use crate::protocols::unary::{Calls, Service};
use request::Collection;

pub struct Qdrant;

impl Service for Qdrant {
    const NAME: &'static str = "qdrant.Points";

    fn prepare(calls: &Calls) -> Result<Vec<Prepared>, InvalidArgument> {
        let to = Collection::of(calls.task)?;
        match calls.task.operation {
            Operation::Search => calls.queries("Query", |query| to.query(query)),
            Operation::Get => calls.batches("Get", |rows| to.get(rows)),
            Operation::Insert | Operation::Upsert => {
                calls.batches("Upsert", |rows| to.upsert(rows))
            }
            Operation::Delete => calls.batches("Delete", |rows| to.delete(rows)),
            Operation::Payload => Err(calls.no_payloads()),
        }
    }
}
