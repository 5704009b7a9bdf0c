//! Requests, as `milvus.proto` has them.

use std::fmt::Write;
use std::ops::Range;

use bytes::Bytes;

use crate::codec::protobuf::{self, put_bytes, put_message, put_number};
use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Cell, Column, Options, Task, Values};
use crate::protocols::messages::{choice, names, put_option};

/// `SearchRequest`.
mod search {
    pub const DB: u32 = 2;
    pub const COLLECTION: u32 = 3;
    pub const PARTITIONS: u32 = 4;
    pub const EXPRESSION: u32 = 5;
    pub const PLACEHOLDERS: u32 = 6;
    pub const EXPRESSION_TYPE: u32 = 7;
    pub const BOOLEAN_EXPRESSION: u64 = 1;
    pub const OUTPUT_FIELDS: u32 = 8;
    pub const PARAMS: u32 = 9;
    pub const QUERIES: u32 = 12;
    pub const TERMS: super::Terms = super::Terms {
        timestamp: 11,
        level: 14,
        default: 15,
    };
}

/// `PlaceholderGroup`, as bytes within a search.
mod placeholder {
    pub const PLACEHOLDERS: u32 = 1;
    pub const TAG: u32 = 1;
    pub const TYPE: u32 = 2;
    pub const FLOAT_VECTOR: u64 = 101;
    pub const VALUES: u32 = 3;
}

/// `QueryRequest`.
mod query {
    pub const DB: u32 = 2;
    pub const COLLECTION: u32 = 3;
    pub const EXPRESSION: u32 = 4;
    pub const OUTPUT_FIELDS: u32 = 5;
    pub const PARTITIONS: u32 = 6;
    pub const TERMS: super::Terms = super::Terms {
        timestamp: 8,
        level: 11,
        default: 12,
    };
}

/// `InsertRequest`, `UpsertRequest` and `DeleteRequest`, which agree as far as they are written.
mod change {
    pub const DB: u32 = 2;
    pub const COLLECTION: u32 = 3;
    pub const PARTITION: u32 = 4;
    pub const FIELDS: u32 = 5;
    pub const ROWS: u32 = 7;
    /// Of a delete.
    pub const EXPRESSION: u32 = 5;
}

/// `FieldData` and the arrays in it.
pub mod field {
    pub const TYPE: u32 = 1;
    pub const NAME: u32 = 2;
    pub const SCALARS: u32 = 3;
    pub const VECTORS: u32 = 4;
    pub const VALID: u32 = 7;
    /// Of every array.
    pub const DATA: u32 = 1;
    pub const DIM: u32 = 1;
    pub const FLOAT_VECTOR: u32 = 2;
    /// Kinds of scalars: (number of the array in `ScalarField`, `DataType`).
    pub const BOOL: (u32, u64) = (1, 1);
    pub const INT64: (u32, u64) = (3, 5);
    pub const DOUBLE: (u32, u64) = (5, 11);
    pub const VARCHAR: (u32, u64) = (6, 21);
    pub const FLOAT_VECTOR_TYPE: u64 = 101;
}

/// Fields of a read that say how fresh it must be.
struct Terms {
    timestamp: u32,
    level: u32,
    default: u32,
}

/// Levels of consistency: (number, timestamp that a read waits for). The timestamps are not
/// instants: the server takes 0 for "now", 2 for "now, less the tolerance", 1 for "no waiting".
const LEVELS: [(&str, u64, u64); 3] = [("strong", 0, 0), ("bounded", 2, 2), ("eventually", 3, 1)];
const EVENTUALLY: u64 = 1;

/// Where a class of requests goes, and on which terms.
pub struct Collection<'a> {
    name: &'a [u8],
    pub id: &'a str,
    vector: &'a str,
    options: &'a Options,
    /// Level and timestamp; None for the collection's own.
    consistency: Option<(u64, u64)>,
}

impl<'a> Collection<'a> {
    pub fn of(options: &'a Options) -> Result<Self, InvalidArgument> {
        let level = choice(options, "consistency", &LEVELS.map(|(name, _, _)| name))?;
        Ok(Self {
            name: options.text("collection")?.as_bytes(),
            id: options.get("id").unwrap_or("id"),
            vector: options.get("vector").unwrap_or("vector"),
            options,
            consistency: level.map(|at| {
                let (_, level, timestamp) = LEVELS[at as usize];
                (level, timestamp)
            }),
        })
    }

    /// The parameters of a search, which is the same for every query.
    pub fn search_params(&self, k: usize) -> Vec<u8> {
        let k = k.to_string();
        let mut params = vec![
            ("anns_field", self.vector),
            ("topk", &k),
            ("params", self.options.get("params").unwrap_or("{}")),
            // Scores as they are.
            ("round_decimal", "-1"),
        ];
        params.extend(
            self.options
                .get("metric")
                .map(|metric| ("metric_type", metric)),
        );
        let mut out = vec![];
        for (key, value) in params {
            put_message(&mut out, search::PARAMS, |pair| {
                put_bytes(pair, 1, key.as_bytes());
                put_bytes(pair, 2, value.as_bytes());
            });
        }
        out
    }

    pub fn put_search(&self, out: &mut Vec<u8>, task: &Task, query: usize, params: &[u8]) {
        put_option(out, search::DB, self.options, "db");
        put_bytes(out, search::COLLECTION, self.name);
        put_option(out, search::PARTITIONS, self.options, "partition");
        if let Some(filter) = task.filter(query) {
            put_bytes(out, search::EXPRESSION, filter);
        }
        put_message(out, search::PLACEHOLDERS, |group| {
            put_message(group, placeholder::PLACEHOLDERS, |placeholder| {
                put_bytes(placeholder, placeholder::TAG, b"$0");
                put_number(placeholder, placeholder::TYPE, placeholder::FLOAT_VECTOR);
                // A list of vectors, each as bytes; here of one.
                protobuf::put_floats(placeholder, placeholder::VALUES, task.vectors.row(query));
            });
        });
        put_number(out, search::EXPRESSION_TYPE, search::BOOLEAN_EXPRESSION);
        for name in names(self.options, "output_fields") {
            put_bytes(out, search::OUTPUT_FIELDS, name.as_bytes());
        }
        out.extend_from_slice(params);
        put_number(out, search::QUERIES, 1);
        self.put_consistency(out, search::TERMS);
    }

    pub fn put_query(&self, out: &mut Vec<u8>, task: &Task, rows: Range<usize>) {
        put_option(out, query::DB, self.options, "db");
        put_bytes(out, query::COLLECTION, self.name);
        put_bytes(
            out,
            query::EXPRESSION,
            self.any_of(&task.ids[rows]).as_bytes(),
        );
        put_bytes(out, query::OUTPUT_FIELDS, self.id.as_bytes());
        for name in names(self.options, "output_fields").filter(|name| *name != self.id) {
            put_bytes(out, query::OUTPUT_FIELDS, name.as_bytes());
        }
        put_option(out, query::PARTITIONS, self.options, "partition");
        self.put_consistency(out, query::TERMS);
    }

    fn put_consistency(&self, out: &mut Vec<u8>, terms: Terms) {
        match self.consistency {
            Some((level, timestamp)) => {
                put_number(out, terms.timestamp, timestamp);
                put_number(out, terms.level, level);
            }
            None => {
                put_number(out, terms.timestamp, EVENTUALLY);
                put_number(out, terms.default, 1);
            }
        }
    }

    /// An expression that holds for the rows with these ids.
    fn any_of(&self, ids: &[i64]) -> String {
        let mut text = format!("{} in [", self.id);
        for (at, id) in ids.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            // Writing to a string does not fail.
            let _ = write!(text, "{comma}{id}");
        }
        text.push(']');
        text
    }

    pub fn put_rows(&self, out: &mut Vec<u8>, task: &Task, rows: Range<usize>) {
        put_option(out, change::DB, self.options, "db");
        put_bytes(out, change::COLLECTION, self.name);
        put_option(out, change::PARTITION, self.options, "partition");
        let dim = task.vectors.dim;
        let values = &task.vectors.values[rows.start * dim..rows.end * dim];
        put_message(out, change::FIELDS, |data| {
            put_scalars(data, self.id, field::INT64, |array| {
                let ids = task.ids[rows.clone()].iter();
                protobuf::put_packed(array, field::DATA, ids.map(|id| *id as u64));
            });
        });
        put_message(out, change::FIELDS, |data| {
            put_number(data, field::TYPE, field::FLOAT_VECTOR_TYPE);
            put_bytes(data, field::NAME, self.vector.as_bytes());
            put_message(data, field::VECTORS, |vectors| {
                put_number(vectors, field::DIM, dim as u64);
                put_message(vectors, field::FLOAT_VECTOR, |array| {
                    protobuf::put_floats(array, field::DATA, values);
                });
            });
        });
        for column in &task.columns {
            put_message(out, change::FIELDS, |data| {
                put_column(data, column, rows.clone());
            });
        }
        put_number(out, change::ROWS, rows.len() as u64);
    }

    pub fn put_delete(&self, out: &mut Vec<u8>, task: &Task, rows: Range<usize>) {
        put_option(out, change::DB, self.options, "db");
        put_bytes(out, change::COLLECTION, self.name);
        put_option(out, change::PARTITION, self.options, "partition");
        let expression = self.any_of(&task.ids[rows]);
        put_bytes(out, change::EXPRESSION, expression.as_bytes());
    }
}

/// Refuse filters that are no text.
pub fn check_filters(task: &Task) -> Result<(), InvalidArgument> {
    let text = |filter: &Bytes| std::str::from_utf8(filter).is_ok();
    match task.filters.iter().position(|filter| !text(filter)) {
        None => Ok(()),
        Some(at) => Err(InvalidArgument(format!(
            "filter {at} is no expression in UTF-8"
        ))),
    }
}

/// A column of scalars, whose array `write` fills.
pub fn put_scalars(
    data: &mut Vec<u8>,
    name: &str,
    (array, kind): (u32, u64),
    write: impl FnOnce(&mut Vec<u8>),
) {
    put_number(data, field::TYPE, kind);
    put_bytes(data, field::NAME, name.as_bytes());
    put_message(data, field::SCALARS, |scalars| {
        put_message(scalars, array, write)
    });
}

/// A metadata column: the values that are there, and which these are.
fn put_column(data: &mut Vec<u8>, column: &Column, rows: Range<usize>) {
    let kind = match column.values {
        Values::Int(_) => field::INT64,
        Values::Float(_) => field::DOUBLE,
        Values::Bool(_) => field::BOOL,
        Values::Text(_) => field::VARCHAR,
    };
    put_scalars(data, &column.name, kind, |array| {
        let cells = rows.clone().filter_map(|row| column.cell(row));
        if let Values::Text(_) = column.values {
            for cell in cells {
                if let Cell::Text(text) = cell {
                    put_bytes(array, field::DATA, text.as_bytes());
                }
            }
            return;
        }
        put_message(array, field::DATA, |packed| {
            for cell in cells {
                match cell {
                    Cell::Int(number) => protobuf::put_varint(packed, number as u64),
                    Cell::Float(number) => packed.extend(number.to_le_bytes()),
                    Cell::Bool(truth) => protobuf::put_varint(packed, truth.into()),
                    Cell::Text(_) => {}
                }
            }
        });
    });
    if !column.valid.is_empty() {
        let valid = column.valid[rows].iter();
        protobuf::put_packed(data, field::VALID, valid.map(|there| u64::from(*there)));
    }
}
