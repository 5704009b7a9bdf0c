//! Requests, as `weaviate.v1` has them.

use std::ops::Range;

use super::uuid;
use crate::codec::protobuf::{self, put_bytes, put_message, put_number};
use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Cell, Task};
use crate::protocols::messages::{choice, flag, names, put_option};

/// The filter target that stands for a row's uuid.
const UUID_PROPERTY: &[u8] = b"_id";
/// Integers travel as doubles, exact up to here.
const EXACT: i64 = 1 << 53;

/// Where a class of requests goes, and on which terms.
pub struct Collection<'a> {
    name: &'a [u8],
    vector: Option<&'a str>,
    consistency: Option<u64>,
    with_vector: bool,
}

/// `weaviate.v1.SearchRequest`.
mod search {
    pub const COLLECTION: u32 = 1;
    pub const TENANT: u32 = 10;
    pub const CONSISTENCY: u32 = 11;
    pub const PROPERTIES: u32 = 20;
    pub const PROPERTIES_NAMES: u32 = 1;
    pub const METADATA: u32 = 21;
    pub const METADATA_UUID: u32 = 1;
    pub const METADATA_VECTOR: u32 = 2;
    pub const METADATA_DISTANCE: u32 = 5;
    pub const METADATA_VECTORS: u32 = 10;
    pub const LIMIT: u32 = 30;
    pub const FILTERS: u32 = 40;
    pub const NEAR_VECTOR: u32 = 43;
    pub const NEAR_VECTOR_BYTES: u32 = 4;
    pub const NEAR_VECTOR_TARGETS: u32 = 6;
    pub const TARGETS_NAMES: u32 = 1;
    /// What the client understands: the answer's newer layout.
    pub const USES_127_API: u32 = 102;
}

/// `weaviate.v1.Filters`.
mod filters {
    pub const OPERATOR: u32 = 1;
    pub const CONTAINS_ANY: u64 = 12;
    pub const TEXTS: u32 = 9;
    pub const TEXTS_VALUES: u32 = 1;
    pub const TARGET: u32 = 20;
    pub const TARGET_PROPERTY: u32 = 1;
}

/// `weaviate.v1.BatchObjectsRequest`.
mod batch {
    pub const OBJECTS: u32 = 1;
    pub const CONSISTENCY: u32 = 2;
    pub const UUID: u32 = 1;
    pub const PROPERTIES: u32 = 3;
    pub const PROPERTIES_STRUCT: u32 = 1;
    pub const COLLECTION: u32 = 4;
    pub const TENANT: u32 = 5;
    pub const VECTOR_BYTES: u32 = 6;
    pub const VECTORS: u32 = 23;
    pub const VECTORS_NAME: u32 = 1;
    pub const VECTORS_BYTES: u32 = 3;
    pub const VECTORS_TYPE: u32 = 4;
    pub const SINGLE_FP32: u64 = 1;
}

/// `google.protobuf.Struct` and its values.
mod structure {
    pub const FIELDS: u32 = 1;
    pub const KEY: u32 = 1;
    pub const VALUE: u32 = 2;
    pub const NUMBER: u32 = 2;
    pub const TEXT: u32 = 3;
    pub const BOOL: u32 = 4;
}

/// `weaviate.v1.BatchDeleteRequest`.
mod delete {
    pub const COLLECTION: u32 = 1;
    pub const FILTERS: u32 = 2;
    pub const CONSISTENCY: u32 = 5;
    pub const TENANT: u32 = 6;
}

impl<'a> Collection<'a> {
    pub fn of(task: &'a Task) -> Result<Self, InvalidArgument> {
        let levels = choice(&task.options, "consistency", &["one", "quorum", "all"])?;
        Ok(Self {
            name: task.options.text("collection")?.as_bytes(),
            vector: task.options.get("vector"),
            // Zero is no level.
            consistency: levels.map(|at| at + 1),
            with_vector: flag(&task.options, "with_vector")?.unwrap_or(false),
        })
    }

    /// What every request to read begins with.
    fn put_read(&self, out: &mut Vec<u8>, task: &Task, limit: usize) {
        put_bytes(out, search::COLLECTION, self.name);
        put_option(out, search::TENANT, &task.options, "tenant");
        self.put_consistency(out, search::CONSISTENCY);
        put_number(out, search::LIMIT, limit as u64);
        put_number(out, search::USES_127_API, 1);
    }

    fn put_consistency(&self, out: &mut Vec<u8>, field: u32) {
        if let Some(level) = self.consistency {
            put_number(out, field, level);
        }
    }

    pub fn put_search(&self, out: &mut Vec<u8>, task: &Task, query: usize) {
        self.put_read(out, task, task.k);
        self.put_wanted(out, task, |metadata| {
            put_number(metadata, search::METADATA_DISTANCE, 1);
        });
        if let Some(filter) = task.filter(query) {
            put_bytes(out, search::FILTERS, filter);
        }
        put_message(out, search::NEAR_VECTOR, |near| {
            let vector = task.vectors.row(query);
            protobuf::put_floats(near, search::NEAR_VECTOR_BYTES, vector);
            if let Some(name) = self.vector {
                put_message(near, search::NEAR_VECTOR_TARGETS, |targets| {
                    put_bytes(targets, search::TARGETS_NAMES, name.as_bytes());
                });
            }
        });
    }

    pub fn put_get(&self, out: &mut Vec<u8>, task: &Task, rows: Range<usize>) {
        self.put_read(out, task, rows.len());
        self.put_wanted(out, task, |_| ());
        put_message(out, search::FILTERS, |filter| {
            put_any_of(filter, &task.ids[rows]);
        });
    }

    /// What is to come of each row: its uuid, and what the options and `more` ask for.
    fn put_wanted(&self, out: &mut Vec<u8>, task: &Task, more: impl Fn(&mut Vec<u8>)) {
        // Present and empty: no properties. Left out, it would mean all.
        put_message(out, search::PROPERTIES, |properties| {
            for name in names(&task.options, "properties") {
                put_bytes(properties, search::PROPERTIES_NAMES, name.as_bytes());
            }
        });
        put_message(out, search::METADATA, |metadata| {
            put_number(metadata, search::METADATA_UUID, 1);
            more(metadata);
            match self.vector {
                Some(name) if self.with_vector => {
                    put_bytes(metadata, search::METADATA_VECTORS, name.as_bytes());
                }
                _ if self.with_vector => put_number(metadata, search::METADATA_VECTOR, 1),
                _ => {}
            }
        });
    }

    pub fn put_objects(&self, out: &mut Vec<u8>, task: &Task, rows: Range<usize>) {
        self.put_consistency(out, batch::CONSISTENCY);
        for row in rows {
            put_message(out, batch::OBJECTS, |object| {
                self.put_object(object, task, row);
            });
        }
    }

    fn put_object(&self, object: &mut Vec<u8>, task: &Task, row: usize) {
        put_bytes(object, batch::UUID, &uuid(task.ids[row]));
        put_bytes(object, batch::COLLECTION, self.name);
        put_option(object, batch::TENANT, &task.options, "tenant");
        let vector = task.vectors.row(row);
        match self.vector {
            None => protobuf::put_floats(object, batch::VECTOR_BYTES, vector),
            Some(name) => put_message(object, batch::VECTORS, |vectors| {
                put_bytes(vectors, batch::VECTORS_NAME, name.as_bytes());
                protobuf::put_floats(vectors, batch::VECTORS_BYTES, vector);
                put_number(vectors, batch::VECTORS_TYPE, batch::SINGLE_FP32);
            }),
        }
        put_message(object, batch::PROPERTIES, |properties| {
            put_message(properties, batch::PROPERTIES_STRUCT, |fields| {
                for column in &task.columns {
                    if let Some(cell) = column.cell(row) {
                        put_property(fields, &column.name, cell);
                    }
                }
            });
        });
    }

    pub fn put_delete(&self, out: &mut Vec<u8>, task: &Task, rows: Range<usize>) {
        put_bytes(out, delete::COLLECTION, self.name);
        put_message(out, delete::FILTERS, |filter| {
            put_any_of(filter, &task.ids[rows]);
        });
        self.put_consistency(out, delete::CONSISTENCY);
        put_option(out, delete::TENANT, &task.options, "tenant");
    }
}

/// A filter that keeps the rows with these ids.
fn put_any_of(filter: &mut Vec<u8>, ids: &[i64]) {
    put_number(filter, filters::OPERATOR, filters::CONTAINS_ANY);
    put_message(filter, filters::TEXTS, |texts| {
        for id in ids {
            put_bytes(texts, filters::TEXTS_VALUES, &uuid(*id));
        }
    });
    put_message(filter, filters::TARGET, |target| {
        put_bytes(target, filters::TARGET_PROPERTY, UUID_PROPERTY);
    });
}

/// An entry of a `google.protobuf.Struct`.
fn put_property(fields: &mut Vec<u8>, name: &str, cell: Cell<'_>) {
    put_message(fields, structure::FIELDS, |entry| {
        put_bytes(entry, structure::KEY, name.as_bytes());
        put_message(entry, structure::VALUE, |value| match cell {
            Cell::Int(number) => put_double(value, number as f64),
            Cell::Float(number) => put_double(value, number),
            Cell::Bool(truth) => put_number(value, structure::BOOL, truth.into()),
            Cell::Text(text) => put_bytes(value, structure::TEXT, text.as_bytes()),
        });
    });
}

fn put_double(value: &mut Vec<u8>, number: f64) {
    protobuf::put_fixed64(value, structure::NUMBER, number.to_le_bytes());
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
