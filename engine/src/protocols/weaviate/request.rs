//! Requests to `weaviate.v1.Weaviate`.

use std::ops::Range;

use prost::Message;

use super::messages::{
    BatchDeleteRequest, BatchObject, BatchObjectsRequest, FilterTarget, Filters, Kind,
    MetadataRequest, NearVector, Properties, PropertiesRequest, SearchRequest, Struct, Targets,
    TextArray, Value, Vectors,
};
use super::uuid;
use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Cell, Task};
use crate::protocols::options::{choice, flag, names};

/// The filter target that stands for a row's uuid.
const UUID_PROPERTY: &str = "_id";
/// `Filters.Operator`.
const CONTAINS_ANY: i32 = 12;
/// `Vectors.VectorType`.
const SINGLE_FP32: i32 = 1;
/// Integers travel as doubles, exact up to here.
const EXACT: i64 = 1 << 53;

/// Where a class of requests goes, and on which terms.
pub struct Collection<'a> {
    task: &'a Task,
    name: &'a str,
    tenant: Option<&'a str>,
    vector: Option<&'a str>,
    consistency: Option<i32>,
    with_vector: bool,
}

impl<'a> Collection<'a> {
    pub fn of(task: &'a Task) -> Result<Self, InvalidArgument> {
        let options = &task.options;
        let level = choice(options, "consistency", &["one", "quorum", "all"])?;
        Ok(Self {
            task,
            name: options.text("collection")?,
            tenant: options.get("tenant"),
            vector: options.get("vector"),
            // Zero is no level.
            consistency: level.map(|at| at as i32 + 1),
            with_vector: flag(options, "with_vector")?.unwrap_or(false),
        })
    }

    pub fn search(&self, query: usize) -> SearchRequest {
        let target = |name: &str| Targets {
            target_vectors: vec![name.into()],
        };
        let mut request = self.read(self.task.k, true);
        request.filters = self.task.filter(query).cloned();
        request.near_vector = Some(NearVector {
            vector_bytes: self.task.vectors.row_bytes(query).collect(),
            targets: self.vector.map(target),
        });
        request
    }

    pub fn get(&self, rows: Range<usize>) -> SearchRequest {
        let mut request = self.read(rows.len(), false);
        request.filters = Some(self.any_of(rows).encode_to_vec().into());
        request
    }

    /// A request for `limit` rows: their uuids, and what the options ask for.
    fn read(&self, limit: usize, distance: bool) -> SearchRequest {
        let properties = names(&self.task.options, "properties").map(str::to_owned);
        let vector = self.vector.filter(|_| self.with_vector);
        SearchRequest {
            collection: self.name.into(),
            tenant: self.tenant.unwrap_or_default().into(),
            consistency_level: self.consistency,
            properties: Some(PropertiesRequest {
                non_ref_properties: properties.collect(),
            }),
            metadata: Some(MetadataRequest {
                uuid: true,
                vector: self.with_vector && vector.is_none(),
                distance,
                vectors: vector.map(str::to_owned).into_iter().collect(),
            }),
            limit: limit as u32,
            filters: None,
            near_vector: None,
            uses_127_api: true,
        }
    }

    pub fn objects(&self, rows: Range<usize>) -> BatchObjectsRequest {
        BatchObjectsRequest {
            objects: rows.map(|row| self.object(row)).collect(),
            consistency_level: self.consistency,
        }
    }

    fn object(&self, row: usize) -> BatchObject {
        let vector: Vec<u8> = self.task.vectors.row_bytes(row).collect();
        let (vector_bytes, vectors) = match self.vector {
            None => (vector, vec![]),
            Some(name) => (
                vec![],
                vec![Vectors {
                    name: name.into(),
                    vector_bytes: vector,
                    kind: SINGLE_FP32,
                }],
            ),
        };
        let property = |(name, cell): (&str, Cell<'_>)| (name.to_owned(), value(cell));
        let fields = self.task.cells(row).map(property).collect();
        BatchObject {
            uuid: uuid(self.task.ids[row]),
            properties: Some(Properties {
                non_ref_properties: Some(Struct { fields }),
            }),
            collection: self.name.into(),
            tenant: self.tenant.unwrap_or_default().into(),
            vector_bytes,
            vectors,
        }
    }

    pub fn delete(&self, rows: Range<usize>) -> BatchDeleteRequest {
        BatchDeleteRequest {
            collection: self.name.into(),
            filters: Some(self.any_of(rows)),
            consistency_level: self.consistency,
            tenant: self.tenant.map(str::to_owned),
        }
    }

    /// A filter that holds for the ids of these rows.
    fn any_of(&self, rows: Range<usize>) -> Filters {
        let values = self.task.ids[rows].iter().map(|id| uuid(*id)).collect();
        let property = UUID_PROPERTY.into();
        Filters {
            operator: CONTAINS_ANY,
            value_text_array: Some(TextArray { values }),
            target: Some(FilterTarget { property }),
        }
    }
}

fn value(cell: Cell<'_>) -> Value {
    let kind = match cell {
        Cell::Int(number) => Kind::Number(number as f64),
        Cell::Float(number) => Kind::Number(number),
        Cell::Bool(truth) => Kind::Bool(truth),
        Cell::Text(text) => Kind::Text(text.into()),
    };
    Value { kind: Some(kind) }
}

/// Refuse integers that a double cannot hold.
pub fn check_numbers(task: &Task) -> Result<(), InvalidArgument> {
    for column in &task.columns {
        let inexact = |cell: Option<Cell<'_>>| match cell {
            Some(Cell::Int(number)) => number.unsigned_abs() > EXACT as u64,
            _ => false,
        };
        if let Some(row) = (0..task.ids.len()).find(|row| inexact(column.cell(*row))) {
            return Err(InvalidArgument(format!(
                "column '{}' has an integer beyond 2^53 for id {}, and weaviate carries numbers as \
                 doubles",
                column.name, task.ids[row]
            )));
        }
    }
    Ok(())
}
