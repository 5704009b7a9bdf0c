//! Messages of `qdrant.Points`, as far as they are sent, and those of the null server's answers.
//! A `oneof` with one member here is an optional field, which is the same on the wire.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub struct QueryPoints {
    #[prost(string, tag = 1)]
    pub collection_name: String,
    #[prost(message, optional, tag = 3)]
    pub query: Option<Query>,
    #[prost(string, optional, tag = 4)]
    pub using: Option<String>,
    /// A serialised `qdrant.Filter`.
    #[prost(bytes = "bytes", optional, tag = 5)]
    pub filter: Option<Bytes>,
    #[prost(message, optional, tag = 6)]
    pub params: Option<SearchParams>,
    #[prost(uint64, optional, tag = 8)]
    pub limit: Option<u64>,
    #[prost(message, optional, tag = 10)]
    pub with_vectors: Option<Selector>,
    #[prost(message, optional, tag = 11)]
    pub with_payload: Option<Selector>,
    #[prost(message, optional, tag = 12)]
    pub read_consistency: Option<Level>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Query {
    #[prost(message, optional, tag = 1)]
    pub nearest: Option<VectorInput>,
}

#[derive(Clone, PartialEq, Message)]
pub struct VectorInput {
    #[prost(message, optional, tag = 2)]
    pub dense: Option<DenseVector>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DenseVector {
    #[prost(float, repeated, tag = 1)]
    pub data: Vec<f32>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct SearchParams {
    #[prost(uint64, optional, tag = 1)]
    pub hnsw_ef: Option<u64>,
    #[prost(bool, optional, tag = 2)]
    pub exact: Option<bool>,
    #[prost(message, optional, tag = 3)]
    pub quantization: Option<QuantizationSearchParams>,
    #[prost(bool, optional, tag = 4)]
    pub indexed_only: Option<bool>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct QuantizationSearchParams {
    #[prost(bool, optional, tag = 2)]
    pub rescore: Option<bool>,
    #[prost(double, optional, tag = 3)]
    pub oversampling: Option<f64>,
}

/// `WithPayloadSelector` and `WithVectorsSelector`.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Selector {
    #[prost(bool, optional, tag = 1)]
    pub enable: Option<bool>,
}

/// `ReadConsistency` and `WriteOrdering`.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Level {
    #[prost(uint64, optional, tag = 1)]
    pub kind: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct PointId {
    #[prost(uint64, optional, tag = 1)]
    pub num: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct GetPoints {
    #[prost(string, tag = 1)]
    pub collection_name: String,
    #[prost(message, repeated, tag = 2)]
    pub ids: Vec<PointId>,
    #[prost(message, optional, tag = 4)]
    pub with_payload: Option<Selector>,
    #[prost(message, optional, tag = 5)]
    pub with_vectors: Option<Selector>,
    #[prost(message, optional, tag = 6)]
    pub read_consistency: Option<Level>,
}

#[derive(Clone, PartialEq, Message)]
pub struct UpsertPoints {
    #[prost(string, tag = 1)]
    pub collection_name: String,
    #[prost(bool, optional, tag = 2)]
    pub wait: Option<bool>,
    #[prost(message, repeated, tag = 3)]
    pub points: Vec<PointStruct>,
    #[prost(message, optional, tag = 4)]
    pub ordering: Option<Level>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PointStruct {
    #[prost(message, optional, tag = 1)]
    pub id: Option<PointId>,
    #[prost(btree_map = "string, message", tag = 3)]
    pub payload: BTreeMap<String, Value>,
    #[prost(message, optional, tag = 4)]
    pub vectors: Option<Vectors>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Value {
    #[prost(oneof = "Kind", tags = "2, 3, 4, 5")]
    pub kind: Option<Kind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Kind {
    #[prost(double, tag = 2)]
    Double(f64),
    #[prost(int64, tag = 3)]
    Integer(i64),
    #[prost(string, tag = 4)]
    Text(String),
    #[prost(bool, tag = 5)]
    Bool(bool),
}

/// One vector, or one with a name.
#[derive(Clone, PartialEq, Message)]
pub struct Vectors {
    #[prost(message, optional, tag = 1)]
    pub vector: Option<Vector>,
    #[prost(message, optional, tag = 2)]
    pub named: Option<NamedVectors>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NamedVectors {
    #[prost(btree_map = "string, message", tag = 1)]
    pub vectors: BTreeMap<String, Vector>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Vector {
    #[prost(message, optional, tag = 101)]
    pub dense: Option<DenseVector>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DeletePoints {
    #[prost(string, tag = 1)]
    pub collection_name: String,
    #[prost(bool, optional, tag = 2)]
    pub wait: Option<bool>,
    #[prost(message, optional, tag = 3)]
    pub points: Option<PointsSelector>,
    #[prost(message, optional, tag = 4)]
    pub ordering: Option<Level>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PointsSelector {
    #[prost(message, optional, tag = 1)]
    pub points: Option<PointsIdsList>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PointsIdsList {
    #[prost(message, repeated, tag = 1)]
    pub ids: Vec<PointId>,
}

/// An answer to a query.
#[derive(Clone, PartialEq, Message)]
pub struct QueryResponse {
    #[prost(message, repeated, tag = 1)]
    pub result: Vec<ScoredPoint>,
    #[prost(double, tag = 2)]
    pub time: f64,
}

#[derive(Clone, PartialEq, Message)]
pub struct ScoredPoint {
    #[prost(message, optional, tag = 1)]
    pub id: Option<PointId>,
    #[prost(float, tag = 3)]
    pub score: f32,
    #[prost(uint64, tag = 5)]
    pub version: u64,
}
