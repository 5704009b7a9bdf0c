//! The wire protocols, one folder each, and the one place where they are known by name.

pub mod elasticsearch;
pub mod flight;
pub mod milvus;
pub mod null;
mod options;
pub mod postgres;
pub mod qdrant;
pub mod redis;
mod rows;
pub mod unary;
pub mod weaviate;

use crate::invalid_argument::InvalidArgument;
use crate::protocol::Target;
use crate::run::{self, Control, Outcome, Plan};
use crate::transport::resp::{Pipelined, Single};
use redis::Redis;
use unary::UnaryProtocol;

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
) -> Result<Option<Outcome>, InvalidArgument> {
    match protocol {
        "elasticsearch" => run::run::<elasticsearch::Elasticsearch>(target, plan, control),
        "flight" => run::run::<flight::Flight>(target, plan, control),
        "milvus" => run::run::<UnaryProtocol<milvus::Milvus>>(target, plan, control),
        "null-grpc" => run::run::<UnaryProtocol<null::NullGrpc>>(target, plan, control),
        "postgres" => run::run::<postgres::Postgres>(target, plan, control),
        "qdrant" => run::run::<UnaryProtocol<qdrant::Qdrant>>(target, plan, control),
        "redis" => run::run::<Redis<Single<_>>>(target, plan, control),
        "redis-pipelined" => run::run::<Redis<Pipelined<_>>>(target, plan, control),
        "weaviate" => run::run::<UnaryProtocol<weaviate::Weaviate>>(target, plan, control),
        _ => Err(InvalidArgument(format!(
            "'{protocol}' is no protocol; there are {}",
            NAMES.join(", ")
        ))),
    }
}
