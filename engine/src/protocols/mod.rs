//! The wire protocols, one file each, and the one place where they are known by name.

pub mod elasticsearch;
pub mod flight;
pub mod messages;
pub mod milvus;
pub mod null;
pub mod postgres;
pub mod qdrant;
pub mod redis;
mod rows;
pub mod weaviate;

use crate::load::{self, Control, Outcome, Plan};
use crate::misuse::Misuse;
use crate::protocol::Target;

/// Names of the protocols, as [`drive`] takes them.
pub const NAMES: &[&str] = &[
    "elasticsearch",
    "flight",
    "milvus",
    "null-grpc",
    "postgres",
    "qdrant",
    "redis",
    "redis-pipelined",
    "weaviate",
];

/// Run a plan over the protocol of that name.
pub fn drive(
    protocol: &str,
    target: Target,
    plan: Plan,
    control: &Control,
) -> Result<Outcome, Misuse> {
    match protocol {
        "elasticsearch" => load::run::<elasticsearch::Elasticsearch>(target, plan, control),
        "flight" => load::run::<flight::Flight>(target, plan, control),
        "milvus" => load::run::<milvus::Milvus>(target, plan, control),
        "null-grpc" => load::run::<null::NullGrpc>(target, plan, control),
        "postgres" => load::run::<postgres::Postgres>(target, plan, control),
        "qdrant" => load::run::<qdrant::Qdrant>(target, plan, control),
        "redis" => load::run::<redis::Redis<false>>(target, plan, control),
        "redis-pipelined" => load::run::<redis::Redis<true>>(target, plan, control),
        "weaviate" => load::run::<weaviate::Weaviate>(target, plan, control),
        _ => Err(Misuse(format!(
            "'{protocol}' is no protocol; there are {}",
            NAMES.join(", ")
        ))),
    }
}
