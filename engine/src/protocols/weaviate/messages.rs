//! Messages of `weaviate.v1`, as far as they are sent, and those of the null server's answers.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub struct SearchRequest {
    #[prost(string, tag = 1)]
    pub collection: String,
    #[prost(string, tag = 10)]
    pub tenant: String,
    #[prost(int32, optional, tag = 11)]
    pub consistency_level: Option<i32>,
    /// Present and empty: no properties. Left out, it would mean all.
    #[prost(message, optional, tag = 20)]
    pub properties: Option<PropertiesRequest>,
    #[prost(message, optional, tag = 21)]
    pub metadata: Option<MetadataRequest>,
    #[prost(uint32, tag = 30)]
    pub limit: u32,
    /// A serialised `Filters`.
    #[prost(bytes = "bytes", optional, tag = 40)]
    pub filters: Option<Bytes>,
    #[prost(message, optional, tag = 43)]
    pub near_vector: Option<NearVector>,
    /// What the client understands: the answer's newer layout.
    #[prost(bool, tag = 102)]
    pub uses_127_api: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct PropertiesRequest {
    #[prost(string, repeated, tag = 1)]
    pub non_ref_properties: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct MetadataRequest {
    #[prost(bool, tag = 1)]
    pub uuid: bool,
    #[prost(bool, tag = 2)]
    pub vector: bool,
    #[prost(bool, tag = 5)]
    pub distance: bool,
    #[prost(string, repeated, tag = 10)]
    pub vectors: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NearVector {
    #[prost(bytes = "vec", tag = 4)]
    pub vector_bytes: Vec<u8>,
    #[prost(message, optional, tag = 6)]
    pub targets: Option<Targets>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Targets {
    #[prost(string, repeated, tag = 1)]
    pub target_vectors: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Filters {
    #[prost(int32, tag = 1)]
    pub operator: i32,
    #[prost(message, optional, tag = 9)]
    pub value_text_array: Option<TextArray>,
    #[prost(message, optional, tag = 20)]
    pub target: Option<FilterTarget>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TextArray {
    #[prost(string, repeated, tag = 1)]
    pub values: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct FilterTarget {
    #[prost(string, tag = 1)]
    pub property: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct BatchObjectsRequest {
    #[prost(message, repeated, tag = 1)]
    pub objects: Vec<BatchObject>,
    #[prost(int32, optional, tag = 2)]
    pub consistency_level: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct BatchObject {
    #[prost(string, tag = 1)]
    pub uuid: String,
    #[prost(message, optional, tag = 3)]
    pub properties: Option<Properties>,
    #[prost(string, tag = 4)]
    pub collection: String,
    #[prost(string, tag = 5)]
    pub tenant: String,
    #[prost(bytes = "vec", tag = 6)]
    pub vector_bytes: Vec<u8>,
    #[prost(message, repeated, tag = 23)]
    pub vectors: Vec<Vectors>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Properties {
    #[prost(message, optional, tag = 1)]
    pub non_ref_properties: Option<Struct>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Vectors {
    #[prost(string, tag = 1)]
    pub name: String,
    #[prost(bytes = "vec", tag = 3)]
    pub vector_bytes: Vec<u8>,
    #[prost(int32, tag = 4)]
    pub kind: i32,
}

/// `google.protobuf.Struct`.
#[derive(Clone, PartialEq, Message)]
pub struct Struct {
    #[prost(btree_map = "string, message", tag = 1)]
    pub fields: BTreeMap<String, Value>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Value {
    #[prost(oneof = "Kind", tags = "2, 3, 4")]
    pub kind: Option<Kind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Kind {
    #[prost(double, tag = 2)]
    Number(f64),
    #[prost(string, tag = 3)]
    Text(String),
    #[prost(bool, tag = 4)]
    Bool(bool),
}

#[derive(Clone, PartialEq, Message)]
pub struct BatchDeleteRequest {
    #[prost(string, tag = 1)]
    pub collection: String,
    #[prost(message, optional, tag = 2)]
    pub filters: Option<Filters>,
    #[prost(int32, optional, tag = 5)]
    pub consistency_level: Option<i32>,
    #[prost(string, optional, tag = 6)]
    pub tenant: Option<String>,
}

/// An answer to a search.
#[derive(Clone, PartialEq, Message)]
pub struct SearchReply {
    #[prost(float, tag = 1)]
    pub took: f32,
    #[prost(message, repeated, tag = 2)]
    pub results: Vec<SearchResult>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SearchResult {
    #[prost(message, optional, tag = 1)]
    pub properties: Option<PropertiesResult>,
    #[prost(message, optional, tag = 2)]
    pub metadata: Option<MetadataResult>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PropertiesResult {
    #[prost(string, tag = 3)]
    pub target_collection: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct MetadataResult {
    #[prost(string, tag = 1)]
    pub id: String,
    #[prost(float, tag = 7)]
    pub distance: f32,
    #[prost(bool, tag = 8)]
    pub distance_present: bool,
    #[prost(bytes = "vec", tag = 20)]
    pub id_as_bytes: Vec<u8>,
}
