//! Requests to `milvus.proto.milvus.MilvusService`.

use std::ops::Range;

use bytes::Bytes;

use super::messages::{
    BoolArray, DeleteRequest, DoubleArray, FieldData, FloatArray, InsertRequest, KeyValuePair,
    LongArray, PlaceholderGroup, PlaceholderValue, QueryRequest, ScalarField, Scalars,
    SearchRequest, StringArray, VectorField,
};
use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Column, Options, Task, Values};
use crate::protocols::options::{choice, names};

/// `DslType`: an expression in text.
const BOOLEAN_EXPRESSION: i32 = 1;

/// `DataType`, and `PlaceholderType` of a vector.
mod kind {
    pub const BOOL: i32 = 1;
    pub const INT64: i32 = 5;
    pub const DOUBLE: i32 = 11;
    pub const VARCHAR: i32 = 21;
    pub const FLOAT_VECTOR: i32 = 101;
}

/// How fresh a read must be: a level, and the timestamp that it waits for. The timestamps are not
/// instants: the server takes 0 for "now", 2 for "now, less the tolerance", 1 for "no waiting".
#[derive(Clone, Copy)]
struct Consistency {
    level: i32,
    timestamp: u64,
    /// The collection's own level instead.
    by_default: bool,
}

impl Consistency {
    fn of(options: &Options) -> Result<Self, InvalidArgument> {
        let level = choice(options, "consistency", &["strong", "bounded", "eventually"])?;
        let (level, timestamp) = match level {
            Some(0) => (0, 0),
            Some(1) => (2, 2),
            Some(_) => (3, 1),
            None => (0, 1),
        };
        Ok(Self {
            level,
            timestamp,
            by_default: options.get("consistency").is_none(),
        })
    }
}

/// Where a class of requests goes, and on which terms.
pub struct Collection<'a> {
    task: &'a Task,
    name: &'a str,
    pub id: &'a str,
    vector: &'a str,
    db: &'a str,
    partition: Option<&'a str>,
    consistency: Consistency,
    params: Vec<KeyValuePair>,
}

impl<'a> Collection<'a> {
    pub fn of(task: &'a Task) -> Result<Self, InvalidArgument> {
        let options = &task.options;
        let vector = options.get("vector").unwrap_or("vector");
        Ok(Self {
            task,
            name: options.text("collection")?,
            id: options.get("id").unwrap_or("id"),
            vector,
            db: options.get("db").unwrap_or_default(),
            partition: options.get("partition"),
            consistency: Consistency::of(options)?,
            params: search_params(task, vector),
        })
    }

    fn partitions(&self) -> Vec<String> {
        self.partition.map(str::to_owned).into_iter().collect()
    }

    pub fn search(&self, query: usize) -> SearchRequest {
        let filter = self.task.filter(query).map_or(&[][..], |filter| filter);
        let placeholder = PlaceholderValue {
            tag: "$0".into(),
            kind: kind::FLOAT_VECTOR,
            values: vec![self.task.vectors.row_bytes(query).collect()],
        };
        SearchRequest {
            db_name: self.db.into(),
            collection_name: self.name.into(),
            partition_names: self.partitions(),
            dsl: String::from_utf8_lossy(filter).into_owned(),
            placeholder_group: Some(PlaceholderGroup {
                placeholders: vec![placeholder],
            }),
            dsl_type: BOOLEAN_EXPRESSION,
            output_fields: names(&self.task.options, "output_fields")
                .map(str::to_owned)
                .collect(),
            search_params: self.params.clone(),
            guarantee_timestamp: self.consistency.timestamp,
            nq: 1,
            consistency_level: self.consistency.level,
            use_default_consistency: self.consistency.by_default,
        }
    }

    pub fn query(&self, rows: Range<usize>) -> QueryRequest {
        let others = names(&self.task.options, "output_fields").filter(|name| *name != self.id);
        let output_fields = std::iter::once(self.id).chain(others);
        QueryRequest {
            db_name: self.db.into(),
            collection_name: self.name.into(),
            expr: self.any_of(rows),
            output_fields: output_fields.map(str::to_owned).collect(),
            partition_names: self.partitions(),
            guarantee_timestamp: self.consistency.timestamp,
            consistency_level: self.consistency.level,
            use_default_consistency: self.consistency.by_default,
        }
    }

    /// An expression that holds for the ids of these rows.
    fn any_of(&self, rows: Range<usize>) -> String {
        let ids: Vec<_> = self.task.ids[rows].iter().map(i64::to_string).collect();
        format!("{} in [{}]", self.id, ids.join(","))
    }

    pub fn insert(&self, rows: Range<usize>) -> InsertRequest {
        let data = self.task.ids[rows.clone()].to_vec();
        let ids = scalars(self.id, kind::INT64, Scalars::Long(LongArray { data }));
        let dim = self.task.vectors.dim;
        let data = self.task.vectors.values[rows.start * dim..rows.end * dim].to_vec();
        let vectors = FieldData {
            kind: kind::FLOAT_VECTOR,
            field_name: self.vector.into(),
            vectors: Some(VectorField {
                dim: dim as i64,
                float_vector: Some(FloatArray { data }),
            }),
            ..FieldData::default()
        };
        let columns = self.task.columns.iter();
        let columns = columns.map(|column| metadata(column, rows.clone()));
        InsertRequest {
            db_name: self.db.into(),
            collection_name: self.name.into(),
            partition_name: self.partition.unwrap_or_default().into(),
            fields_data: [ids, vectors].into_iter().chain(columns).collect(),
            num_rows: rows.len() as u32,
        }
    }

    pub fn delete(&self, rows: Range<usize>) -> DeleteRequest {
        DeleteRequest {
            db_name: self.db.into(),
            collection_name: self.name.into(),
            partition_name: self.partition.unwrap_or_default().into(),
            expr: self.any_of(rows),
        }
    }
}

/// The parameters of a search, which are the same for every query.
fn search_params(task: &Task, vector: &str) -> Vec<KeyValuePair> {
    let k = task.k.to_string();
    let params = [
        ("anns_field", Some(vector)),
        ("topk", Some(&*k)),
        ("params", task.options.get("params").or(Some("{}"))),
        // Scores as they are.
        ("round_decimal", Some("-1")),
        ("metric_type", task.options.get("metric")),
    ];
    let pair = |(key, value): (&str, Option<&str>)| {
        Some(KeyValuePair {
            key: key.into(),
            value: value?.into(),
        })
    };
    params.into_iter().filter_map(pair).collect()
}

/// Refuse filters that are no text.
pub fn check_filters(task: &Task) -> Result<(), InvalidArgument> {
    let is_binary = |filter: &Bytes| std::str::from_utf8(filter).is_err();
    match task.filters.iter().position(is_binary) {
        None => Ok(()),
        Some(at) => Err(InvalidArgument(format!(
            "filter {at} is no expression in UTF-8"
        ))),
    }
}

fn scalars(name: &str, kind: i32, data: Scalars) -> FieldData {
    FieldData {
        kind,
        field_name: name.into(),
        scalars: Some(ScalarField { data: Some(data) }),
        ..FieldData::default()
    }
}

/// A metadata column: the values that are there, and which these are.
fn metadata(column: &Column, rows: Range<usize>) -> FieldData {
    fn there<T: Clone>(all: &[T], column: &Column, rows: &Range<usize>) -> Vec<T> {
        let rows = rows.clone().filter(|row| column.has(*row));
        rows.map(|row| all[row].clone()).collect()
    }
    let (kind, data) = match &column.values {
        Values::Int(all) => {
            let data = there(all, column, &rows);
            (kind::INT64, Scalars::Long(LongArray { data }))
        }
        Values::Float(all) => {
            let data = there(all, column, &rows);
            (kind::DOUBLE, Scalars::Double(DoubleArray { data }))
        }
        Values::Bool(all) => {
            let data = there(all, column, &rows);
            (kind::BOOL, Scalars::Bool(BoolArray { data }))
        }
        Values::Text(all) => {
            let data = there(all, column, &rows);
            (kind::VARCHAR, Scalars::Text(StringArray { data }))
        }
    };
    FieldData {
        valid_data: column.valid.get(rows).unwrap_or_default().to_vec(),
        ..scalars(&column.name, kind, data)
    }
}
