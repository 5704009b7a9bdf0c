//! Messages of `milvus.proto` and `schema.proto`, as far as they are sent, and those of the null
//! server's answers.

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub struct SearchRequest {
    #[prost(string, tag = 2)]
    pub db_name: String,
    #[prost(string, tag = 3)]
    pub collection_name: String,
    #[prost(string, repeated, tag = 4)]
    pub partition_names: Vec<String>,
    /// A filter expression.
    #[prost(string, tag = 5)]
    pub dsl: String,
    #[prost(message, optional, tag = 6)]
    pub placeholder_group: Option<PlaceholderGroup>,
    #[prost(int32, tag = 7)]
    pub dsl_type: i32,
    #[prost(string, repeated, tag = 8)]
    pub output_fields: Vec<String>,
    #[prost(message, repeated, tag = 9)]
    pub search_params: Vec<KeyValuePair>,
    #[prost(uint64, tag = 11)]
    pub guarantee_timestamp: u64,
    #[prost(int64, tag = 12)]
    pub nq: i64,
    #[prost(int32, tag = 14)]
    pub consistency_level: i32,
    #[prost(bool, tag = 15)]
    pub use_default_consistency: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct PlaceholderGroup {
    #[prost(message, repeated, tag = 1)]
    pub placeholders: Vec<PlaceholderValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PlaceholderValue {
    #[prost(string, tag = 1)]
    pub tag: String,
    #[prost(int32, tag = 2)]
    pub kind: i32,
    /// Vectors, each as its little-endian bytes.
    #[prost(bytes = "vec", repeated, tag = 3)]
    pub values: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct KeyValuePair {
    #[prost(string, tag = 1)]
    pub key: String,
    #[prost(string, tag = 2)]
    pub value: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct QueryRequest {
    #[prost(string, tag = 2)]
    pub db_name: String,
    #[prost(string, tag = 3)]
    pub collection_name: String,
    #[prost(string, tag = 4)]
    pub expr: String,
    #[prost(string, repeated, tag = 5)]
    pub output_fields: Vec<String>,
    #[prost(string, repeated, tag = 6)]
    pub partition_names: Vec<String>,
    #[prost(uint64, tag = 8)]
    pub guarantee_timestamp: u64,
    #[prost(int32, tag = 11)]
    pub consistency_level: i32,
    #[prost(bool, tag = 12)]
    pub use_default_consistency: bool,
}

/// `InsertRequest` and `UpsertRequest`, which agree as far as they are sent.
#[derive(Clone, PartialEq, Message)]
pub struct InsertRequest {
    #[prost(string, tag = 2)]
    pub db_name: String,
    #[prost(string, tag = 3)]
    pub collection_name: String,
    #[prost(string, tag = 4)]
    pub partition_name: String,
    #[prost(message, repeated, tag = 5)]
    pub fields_data: Vec<FieldData>,
    #[prost(uint32, tag = 7)]
    pub num_rows: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct DeleteRequest {
    #[prost(string, tag = 2)]
    pub db_name: String,
    #[prost(string, tag = 3)]
    pub collection_name: String,
    #[prost(string, tag = 4)]
    pub partition_name: String,
    #[prost(string, tag = 5)]
    pub expr: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct FieldData {
    /// A `DataType`.
    #[prost(int32, tag = 1)]
    pub kind: i32,
    #[prost(string, tag = 2)]
    pub field_name: String,
    #[prost(message, optional, tag = 3)]
    pub scalars: Option<ScalarField>,
    #[prost(message, optional, tag = 4)]
    pub vectors: Option<VectorField>,
    #[prost(bool, repeated, tag = 7)]
    pub valid_data: Vec<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ScalarField {
    #[prost(oneof = "Scalars", tags = "1, 3, 5, 6")]
    pub data: Option<Scalars>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Scalars {
    #[prost(message, tag = 1)]
    Bool(BoolArray),
    #[prost(message, tag = 3)]
    Long(LongArray),
    #[prost(message, tag = 5)]
    Double(DoubleArray),
    #[prost(message, tag = 6)]
    Text(StringArray),
}

#[derive(Clone, PartialEq, Message)]
pub struct BoolArray {
    #[prost(bool, repeated, tag = 1)]
    pub data: Vec<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub struct LongArray {
    #[prost(int64, repeated, tag = 1)]
    pub data: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DoubleArray {
    #[prost(double, repeated, tag = 1)]
    pub data: Vec<f64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct StringArray {
    #[prost(string, repeated, tag = 1)]
    pub data: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct VectorField {
    #[prost(int64, tag = 1)]
    pub dim: i64,
    #[prost(message, optional, tag = 2)]
    pub float_vector: Option<FloatArray>,
}

#[derive(Clone, PartialEq, Message)]
pub struct FloatArray {
    #[prost(float, repeated, tag = 1)]
    pub data: Vec<f32>,
}

/// An answer to a search.
#[derive(Clone, PartialEq, Message)]
pub struct SearchResults {
    #[prost(message, optional, tag = 1)]
    pub status: Option<Status>,
    #[prost(message, optional, tag = 2)]
    pub results: Option<SearchResultData>,
    #[prost(string, tag = 3)]
    pub collection_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Status {
    #[prost(int32, tag = 1)]
    pub error_code: i32,
    #[prost(string, tag = 2)]
    pub reason: String,
    #[prost(int32, tag = 3)]
    pub code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct SearchResultData {
    #[prost(int64, tag = 1)]
    pub num_queries: i64,
    #[prost(int64, tag = 2)]
    pub top_k: i64,
    #[prost(float, repeated, tag = 4)]
    pub scores: Vec<f32>,
    #[prost(message, optional, tag = 5)]
    pub ids: Option<Ids>,
    #[prost(int64, repeated, tag = 6)]
    pub topks: Vec<i64>,
    #[prost(string, tag = 13)]
    pub primary_field_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Ids {
    #[prost(message, optional, tag = 1)]
    pub int_id: Option<LongArray>,
}
