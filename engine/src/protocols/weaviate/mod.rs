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
pub mod messages;
mod request;

use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Operation, Prepared};
use crate::protocols::unary::{Calls, Service};
use request::{check_numbers, Collection};

/// First half of every row's uuid: "vectri", and version 8 (a layout of one's own, RFC 9562). It is
/// not zero: no row has the uuid that means none.
const UUID_PREFIX: u64 = 0x7665_6374_7269_8000;

pub struct Weaviate;

impl Service for Weaviate {
    const NAME: &'static str = "weaviate.v1.Weaviate";

    fn prepare(calls: &Calls) -> Result<Vec<Prepared>, InvalidArgument> {
        let to = Collection::of(calls.task)?;
        match calls.task.operation {
            Operation::Search => calls.queries("Search", |query| to.search(query)),
            Operation::Get => calls.batches("Search", |rows| to.get(rows)),
            Operation::Insert | Operation::Upsert => {
                check_numbers(calls.task)?;
                calls.batches("BatchObjects", |rows| to.objects(rows))
            }
            Operation::Delete => calls.batches("BatchDelete", |rows| to.delete(rows)),
            Operation::Payload => Err(calls.no_payloads()),
        }
    }
}

/// The 16 bytes of a row's uuid, as a number.
pub fn uuid_number(id: i64) -> u128 {
    u128::from(UUID_PREFIX) << 64 | u128::from(id as u64)
}

/// A row's uuid, as text.
pub fn uuid(id: i64) -> String {
    let hex = format!("{:032x}", uuid_number(id));
    [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ]
    .join("-")
}
