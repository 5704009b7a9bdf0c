//! Requests, as `qdrant.Points` has them.

use std::ops::Range;

use crate::codec::protobuf::{self, put_bytes, put_message, put_number};
use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Cell, Options, Task};
use crate::protocols::messages::{choice, flag};

/// `qdrant.QueryPoints`.
mod query {
    pub const COLLECTION: u32 = 1;
    pub const QUERY: u32 = 3;
    pub const NEAREST: u32 = 1;
    pub const DENSE: u32 = 2;
    pub const DATA: u32 = 1;
    pub const USING: u32 = 4;
    pub const FILTER: u32 = 5;
    pub const PARAMS: u32 = 6;
    pub const PARAMS_EF: u32 = 1;
    pub const PARAMS_EXACT: u32 = 2;
    pub const PARAMS_QUANTIZATION: u32 = 3;
    pub const RESCORE: u32 = 2;
    pub const OVERSAMPLING: u32 = 3;
    pub const PARAMS_INDEXED_ONLY: u32 = 4;
    pub const LIMIT: u32 = 8;
    pub const WITH_VECTORS: u32 = 10;
    pub const WITH_PAYLOAD: u32 = 11;
    pub const CONSISTENCY: u32 = 12;
    pub const CONSISTENCY_TYPE: u32 = 1;
}

/// `qdrant.WithPayloadSelector` and `qdrant.WithVectorsSelector`.
mod selector {
    pub const ENABLE: u32 = 1;
}

/// `qdrant.GetPoints`.
mod get {
    pub const COLLECTION: u32 = 1;
    pub const IDS: u32 = 2;
    pub const WITH_PAYLOAD: u32 = 4;
    pub const WITH_VECTORS: u32 = 5;
    pub const CONSISTENCY: u32 = 6;
}

/// `qdrant.UpsertPoints` and `qdrant.DeletePoints`, whose first four fields agree.
mod update {
    pub const COLLECTION: u32 = 1;
    pub const WAIT: u32 = 2;
    pub const POINTS: u32 = 3;
    pub const ORDERING: u32 = 4;
    pub const ORDERING_TYPE: u32 = 1;
    /// Of the selection of points to delete.
    pub const SELECTED: u32 = 1;
    pub const SELECTED_IDS: u32 = 1;
}

/// `qdrant.PointStruct` and the messages in it.
mod point {
    pub const ID: u32 = 1;
    pub const ID_NUMBER: u32 = 1;
    pub const PAYLOAD: u32 = 3;
    pub const VECTORS: u32 = 4;
    pub const VECTORS_ONE: u32 = 1;
    pub const VECTORS_NAMED: u32 = 2;
    pub const NAMED_ENTRY: u32 = 1;
    pub const DENSE: u32 = 101;
    pub const DATA: u32 = 1;
    /// Of an entry of a map.
    pub const KEY: u32 = 1;
    pub const VALUE: u32 = 2;
    pub const DOUBLE: u32 = 2;
    pub const INTEGER: u32 = 3;
    pub const TEXT: u32 = 4;
    pub const BOOL: u32 = 5;
}

/// Where a class of requests goes, and on which terms.
pub struct Collection<'a> {
    name: &'a [u8],
    vector: Option<&'a str>,
    consistency: Option<u64>,
    ordering: Option<u64>,
    wait: bool,
    with_payload: bool,
    with_vector: bool,
}

impl<'a> Collection<'a> {
    pub fn of(options: &'a Options) -> Result<Self, InvalidArgument> {
        Ok(Self {
            name: options.text("collection")?.as_bytes(),
            vector: options.get("vector"),
            consistency: choice(options, "consistency", &["all", "majority", "quorum"])?,
            ordering: choice(options, "ordering", &["weak", "medium", "strong"])?,
            wait: flag(options, "wait")?.unwrap_or(true),
            with_payload: flag(options, "with_payload")?.unwrap_or(false),
            with_vector: flag(options, "with_vector")?.unwrap_or(false),
        })
    }

    pub fn put_query(&self, out: &mut Vec<u8>, task: &Task, at: usize, params: &[u8]) {
        put_bytes(out, query::COLLECTION, self.name);
        put_message(out, query::QUERY, |query| {
            put_message(query, query::NEAREST, |nearest| {
                put_message(nearest, query::DENSE, |dense| {
                    protobuf::put_floats(dense, query::DATA, task.vectors.row(at));
                });
            });
        });
        if let Some(name) = self.vector {
            put_bytes(out, query::USING, name.as_bytes());
        }
        if let Some(filter) = task.filter(at) {
            put_bytes(out, query::FILTER, filter);
        }
        if !params.is_empty() {
            put_bytes(out, query::PARAMS, params);
        }
        put_number(out, query::LIMIT, task.k as u64);
        for (field, wanted) in [
            (query::WITH_VECTORS, self.with_vector),
            (query::WITH_PAYLOAD, self.with_payload),
        ] {
            if wanted {
                put_selector(out, field, true);
            }
        }
        self.put_consistency(out, query::CONSISTENCY);
    }

    fn put_consistency(&self, out: &mut Vec<u8>, field: u32) {
        if let Some(level) = self.consistency {
            put_message(out, field, |consistency| {
                put_number(consistency, query::CONSISTENCY_TYPE, level);
            });
        }
    }

    pub fn put_get(&self, out: &mut Vec<u8>, task: &Task, rows: Range<usize>) {
        put_bytes(out, get::COLLECTION, self.name);
        put_ids(out, get::IDS, &task.ids[rows]);
        for (field, wanted) in [
            (get::WITH_PAYLOAD, self.with_payload),
            (get::WITH_VECTORS, self.with_vector),
        ] {
            put_selector(out, field, wanted);
        }
        self.put_consistency(out, get::CONSISTENCY);
    }

    /// What writes and deletes have in common.
    fn put_update(&self, out: &mut Vec<u8>) {
        put_bytes(out, update::COLLECTION, self.name);
        put_number(out, update::WAIT, self.wait.into());
        if let Some(ordering) = self.ordering {
            put_message(out, update::ORDERING, |message| {
                put_number(message, update::ORDERING_TYPE, ordering);
            });
        }
    }

    pub fn put_upsert(&self, out: &mut Vec<u8>, task: &Task, rows: Range<usize>) {
        self.put_update(out);
        for row in rows {
            put_message(out, update::POINTS, |point| {
                put_ids(point, point::ID, &task.ids[row..=row]);
                for column in &task.columns {
                    if let Some(cell) = column.cell(row) {
                        put_payload(point, &column.name, cell);
                    }
                }
                put_message(point, point::VECTORS, |vectors| {
                    self.put_vector(vectors, task.vectors.row(row));
                });
            });
        }
    }

    fn put_vector(&self, vectors: &mut Vec<u8>, row: &[f32]) {
        let dense = |vector: &mut Vec<u8>| {
            put_message(vector, point::DENSE, |dense| {
                protobuf::put_floats(dense, point::DATA, row);
            });
        };
        match self.vector {
            None => put_message(vectors, point::VECTORS_ONE, dense),
            Some(name) => put_message(vectors, point::VECTORS_NAMED, |named| {
                put_message(named, point::NAMED_ENTRY, |entry| {
                    put_bytes(entry, point::KEY, name.as_bytes());
                    put_message(entry, point::VALUE, dense);
                });
            }),
        }
    }

    pub fn put_delete(&self, out: &mut Vec<u8>, task: &Task, rows: Range<usize>) {
        self.put_update(out);
        put_message(out, update::POINTS, |selection| {
            put_message(selection, update::SELECTED, |selected| {
                put_ids(selected, update::SELECTED_IDS, &task.ids[rows]);
            });
        });
    }
}

/// Append whether an answer is to hold what `field` is about.
fn put_selector(out: &mut Vec<u8>, field: u32, wanted: bool) {
    put_message(out, field, |selector| {
        put_number(selector, selector::ENABLE, wanted.into());
    });
}

/// Append ids, each a message of its own.
pub fn put_ids(out: &mut Vec<u8>, field: u32, ids: &[i64]) {
    for id in ids {
        put_message(out, field, |point| {
            put_number(point, point::ID_NUMBER, *id as u64);
        });
    }
}

/// An entry of a point's payload.
fn put_payload(point: &mut Vec<u8>, name: &str, cell: Cell<'_>) {
    put_message(point, point::PAYLOAD, |entry| {
        put_bytes(entry, point::KEY, name.as_bytes());
        put_message(entry, point::VALUE, |value| match cell {
            Cell::Int(number) => put_number(value, point::INTEGER, number as u64),
            Cell::Float(number) => {
                protobuf::put_fixed64(value, point::DOUBLE, number.to_le_bytes());
            }
            Cell::Bool(truth) => put_number(value, point::BOOL, truth.into()),
            Cell::Text(text) => put_bytes(value, point::TEXT, text.as_bytes()),
        });
    });
}

/// A `qdrant.SearchParams`; empty where the server is to decide.
pub fn search_params(options: &Options) -> Result<Vec<u8>, InvalidArgument> {
    let mut params = vec![];
    if let Some(ef) = options.parse::<u64>("ef")? {
        put_number(&mut params, query::PARAMS_EF, ef);
    }
    for (field, name) in [
        (query::PARAMS_EXACT, "exact"),
        (query::PARAMS_INDEXED_ONLY, "indexed_only"),
    ] {
        if let Some(wanted) = flag(options, name)? {
            put_number(&mut params, field, wanted.into());
        }
    }
    let mut compressed = vec![];
    if let Some(wanted) = flag(options, "rescore")? {
        put_number(&mut compressed, query::RESCORE, wanted.into());
    }
    if let Some(times) = options.parse::<f64>("oversampling")? {
        protobuf::put_fixed64(&mut compressed, query::OVERSAMPLING, times.to_le_bytes());
    }
    if !compressed.is_empty() {
        put_bytes(&mut params, query::PARAMS_QUANTIZATION, &compressed);
    }
    Ok(params)
}
