//! Weaviate's own gRPC service, `weaviate.v1.Weaviate`.
//!
//! Rows are known by uuid there. Ours are made of a fixed first half and the row's id, big-endian,
//! as the second: reading an id back is reading eight bytes.
//!
//! Options of a class: `collection`; `vector`, the name of a named vector; `tenant`; `consistency`
//! (`one`, `quorum` or `all`); of rows read or found, `properties` (names with commas between) and
//! `with_vector`.
//! Filters are serialised `weaviate.v1.Filters`. An insert and an upsert are the same call.

mod answer;
mod request;

use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Failure, Operation, Prepared, Protocol, Target, Task};
use crate::protocols::messages::{for_batches, for_queries};
use crate::transport::grpc::{self, Unary};
use request::{check_numbers, Collection};

/// First half of every row's uuid: "vectri", and version 8 (a layout of one's own, RFC 9562). It is
/// not zero: no row has the uuid that means none.
const UUID_PREFIX: u64 = 0x7665_6374_7269_8000;

/// Weaviate over gRPC.
pub struct Weaviate {
    target: Target,
}

impl Protocol for Weaviate {
    type Connection = Unary<Self>;
    const SHARED: bool = true;

    fn new(target: Target) -> Result<Self, InvalidArgument> {
        Ok(Self { target })
    }

    fn prepare(&self, task: &Task) -> Result<Vec<Prepared>, InvalidArgument> {
        let to = Collection::of(task)?;
        let head =
            |method: &str| grpc::head(&self.target, &format!("/weaviate.v1.Weaviate/{method}"));
        Ok(match task.operation {
            Operation::Search => for_queries(task, &head("Search")?, |out, query| {
                to.put_search(out, task, query);
            }),
            Operation::Get => for_batches(task, &head("Search")?, |out, rows| {
                to.put_get(out, task, rows);
            }),
            Operation::Insert | Operation::Upsert => {
                check_numbers(task)?;
                for_batches(task, &head("BatchObjects")?, |out, rows| {
                    to.put_objects(out, task, rows);
                })
            }
            Operation::Delete => for_batches(task, &head("BatchDelete")?, |out, rows| {
                to.put_delete(out, task, rows);
            }),
            Operation::Payload => {
                return Err(InvalidArgument(
                    "weaviate takes no payloads made elsewhere".into(),
                ))
            }
        })
    }

    async fn connect(&self) -> Result<Self::Connection, Failure> {
        Unary::connect(&self.target).await
    }
}

/// A row's uuid, as text.
pub fn uuid(id: i64) -> [u8; 36] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let whole = u128::from(UUID_PREFIX) << 64 | u128::from(id as u64);
    let mut text = [b'-'; 36];
    let mut digits = (0..32).map(|at| HEX[(whole >> (124 - 4 * at)) as usize & 15]);
    for at in (0..36).filter(|at| !matches!(at, 8 | 13 | 18 | 23)) {
        text[at] = digits.next().unwrap_or(b'0');
    }
    text
}
