//! Requests to `qdrant.Points`.

use std::ops::Range;

use super::messages::{
    DeletePoints, DenseVector, GetPoints, Kind, Level, NamedVectors, PointId, PointStruct,
    PointsIdsList, PointsSelector, QuantizationSearchParams, Query, QueryPoints, SearchParams,
    Selector, UpsertPoints, Value, Vector, VectorInput, Vectors,
};
use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Cell, Options, Task};
use crate::protocols::options::{choice, flag};

/// Where a class of requests goes, and on which terms.
pub struct Collection<'a> {
    task: &'a Task,
    name: &'a str,
    vector: Option<&'a str>,
    params: Option<SearchParams>,
    consistency: Option<Level>,
    ordering: Option<Level>,
    wait: bool,
    with_payload: bool,
    with_vector: bool,
}

impl<'a> Collection<'a> {
    pub fn of(task: &'a Task) -> Result<Self, InvalidArgument> {
        let options = &task.options;
        let level = |name, words: &[&str]| {
            let kind = choice(options, name, words)?;
            Ok(kind.map(|kind| Level { kind: Some(kind) }))
        };
        Ok(Self {
            task,
            name: options.text("collection")?,
            vector: options.get("vector"),
            params: search_params(options)?,
            consistency: level("consistency", &["all", "majority", "quorum"])?,
            ordering: level("ordering", &["weak", "medium", "strong"])?,
            wait: flag(options, "wait")?.unwrap_or(true),
            with_payload: flag(options, "with_payload")?.unwrap_or(false),
            with_vector: flag(options, "with_vector")?.unwrap_or(false),
        })
    }

    pub fn query(&self, at: usize) -> QueryPoints {
        let dense = Some(self.task.vectors.row(at).into());
        let nearest = Some(VectorInput { dense });
        let enabled = |wanted: bool| wanted.then_some(Selector { enable: Some(true) });
        QueryPoints {
            collection_name: self.name.into(),
            query: Some(Query { nearest }),
            using: self.vector.map(Into::into),
            filter: self.task.filter(at).cloned(),
            params: self.params,
            limit: Some(self.task.k as u64),
            with_vectors: enabled(self.with_vector),
            with_payload: enabled(self.with_payload),
            read_consistency: self.consistency,
        }
    }

    pub fn get(&self, rows: Range<usize>) -> GetPoints {
        // Left out, they would have a default of the server's.
        let selector = |enable| {
            Some(Selector {
                enable: Some(enable),
            })
        };
        GetPoints {
            collection_name: self.name.into(),
            ids: self.ids(rows),
            with_payload: selector(self.with_payload),
            with_vectors: selector(self.with_vector),
            read_consistency: self.consistency,
        }
    }

    pub fn upsert(&self, rows: Range<usize>) -> UpsertPoints {
        UpsertPoints {
            collection_name: self.name.into(),
            wait: Some(self.wait),
            points: rows.map(|row| self.point(row)).collect(),
            ordering: self.ordering,
        }
    }

    fn point(&self, row: usize) -> PointStruct {
        let entry = |(name, cell): (&str, Cell<'_>)| (name.to_owned(), value(cell));
        PointStruct {
            id: Some(self.task.ids[row].into()),
            payload: self.task.cells(row).map(entry).collect(),
            vectors: Some(self.vectors(self.task.vectors.row(row))),
        }
    }

    fn vectors(&self, row: &[f32]) -> Vectors {
        let vector = Vector {
            dense: Some(row.into()),
        };
        match self.vector {
            None => Vectors {
                vector: Some(vector),
                named: None,
            },
            Some(name) => Vectors {
                vector: None,
                named: Some(NamedVectors {
                    vectors: [(name.to_owned(), vector)].into(),
                }),
            },
        }
    }

    pub fn delete(&self, rows: Range<usize>) -> DeletePoints {
        let ids = PointsIdsList {
            ids: self.ids(rows),
        };
        DeletePoints {
            collection_name: self.name.into(),
            wait: Some(self.wait),
            points: Some(PointsSelector { points: Some(ids) }),
            ordering: self.ordering,
        }
    }

    fn ids(&self, rows: Range<usize>) -> Vec<PointId> {
        self.task.ids[rows].iter().map(|id| (*id).into()).collect()
    }
}

/// Our id in two's complement.
impl From<i64> for PointId {
    fn from(id: i64) -> Self {
        let num = Some(id as u64);
        Self { num }
    }
}

impl From<&[f32]> for DenseVector {
    fn from(row: &[f32]) -> Self {
        Self { data: row.to_vec() }
    }
}

/// A value of a point's payload.
fn value(cell: Cell<'_>) -> Value {
    let kind = match cell {
        Cell::Int(number) => Kind::Integer(number),
        Cell::Float(number) => Kind::Double(number),
        Cell::Bool(truth) => Kind::Bool(truth),
        Cell::Text(text) => Kind::Text(text.into()),
    };
    Value { kind: Some(kind) }
}

/// None where the server is to decide everything.
fn search_params(options: &Options) -> Result<Option<SearchParams>, InvalidArgument> {
    let quantization = QuantizationSearchParams {
        rescore: flag(options, "rescore")?,
        oversampling: options.parse("oversampling")?,
    };
    let params = SearchParams {
        hnsw_ef: options.parse("ef")?,
        exact: flag(options, "exact")?,
        quantization: (quantization != QuantizationSearchParams::default()).then_some(quantization),
        indexed_only: flag(options, "indexed_only")?,
    };
    Ok((params != SearchParams::default()).then_some(params))
}
