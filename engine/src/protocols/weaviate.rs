//! Weaviate's own gRPC service, `weaviate.v1.Weaviate`.
//!
//! Rows are known by uuid there. Ours are made of a fixed first half and the row's id, big-endian,
//! as the second: reading an id back is reading eight bytes.
//!
//! Options of a class: `collection`; `vector`, the name of a named vector; `tenant`; `consistency`
//! (`one`, `quorum` or `all`); for get, `properties` (names with commas between) and `with_vector`.
//! Filters are serialised `weaviate.v1.Filters`. An insert and an upsert are the same call.

use std::ops::Range;

use crate::misuse::Misuse;
use crate::protobuf::{self, put_bytes, put_message, put_number, Broken, Reader};
use crate::protocol::{Answer, Cell, Failure, Operation, Prepared, Protocol, Target, Task};
use crate::protocols::messages::{for_batches, for_queries, incomplete, names, put_option};
use crate::transport::grpc::{self, Decode, Unary};

/// First half of every row's uuid: "vectri", and version 8 (a layout of one's own, RFC 9562). It is
/// not zero: no row has the uuid that means none.
const UUID_PREFIX: u64 = 0x7665_6374_7269_8000;
/// The filter target that stands for a row's uuid.
const UUID_PROPERTY: &[u8] = b"_id";
/// Integers travel as doubles, exact up to here.
const EXACT: i64 = 1 << 53;

/// Weaviate over gRPC.
pub struct Weaviate {
    target: Target,
}

impl Protocol for Weaviate {
    type Connection = Unary<Self>;
    const SHARED: bool = true;

    fn new(target: Target) -> Result<Self, Misuse> {
        Ok(Self { target })
    }

    fn prepare(&self, task: &Task) -> Result<Vec<Prepared>, Misuse> {
        let to = Collection::of(task)?;
        let head =
            |method: &str| grpc::head(&self.target, &format!("/weaviate.v1.Weaviate/{method}"));
        Ok(match task.operation {
            Operation::Search => for_queries(task, &head("Search")?, |out, query| {
                to.put_search(out, task, query);
            }),
            Operation::Get => for_batches(task, &head("Search")?, |out, rows| {
                to.put_get(out, task, rows);
            }),
            Operation::Insert | Operation::Upsert => {
                check_numbers(task)?;
                for_batches(task, &head("BatchObjects")?, |out, rows| {
                    to.put_objects(out, task, rows);
                })
            }
            Operation::Delete => for_batches(task, &head("BatchDelete")?, |out, rows| {
                to.put_delete(out, task, rows);
            }),
            Operation::Payload => {
                return Err(Misuse("weaviate takes no payloads made elsewhere".into()))
            }
        })
    }

    async fn connect(&self) -> Result<Self::Connection, Failure> {
        Unary::connect(&self.target).await
    }
}

impl Decode for Weaviate {
    fn decode(request: &Prepared, message: &[u8], answer: &mut Answer) -> Result<(), Failure> {
        match request.operation {
            Operation::Search => Ok(read_rows(message, answer)?),
            Operation::Get => {
                read_rows(message, answer)?;
                match answer.ids.len() == request.rows as usize {
                    true => Ok(()),
                    false => Err(incomplete(answer.ids.len(), request, " came")),
                }
            }
            Operation::Delete => read_deleted(request, message),
            _ => read_written(request, message),
        }
    }
}

/// Where a class of requests goes, and on which terms.
struct Collection<'a> {
    name: &'a [u8],
    vector: Option<&'a str>,
    consistency: Option<u64>,
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
    fn of(task: &'a Task) -> Result<Self, Misuse> {
        let consistency = match task.options.get("consistency") {
            None => None,
            Some("one") => Some(1),
            Some("quorum") => Some(2),
            Some("all") => Some(3),
            Some(other) => {
                return Err(Misuse(format!(
                    "consistency is one, quorum or all, not '{other}'"
                )))
            }
        };
        Ok(Self {
            name: task.options.text("collection")?.as_bytes(),
            vector: task.options.get("vector"),
            consistency,
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

    fn put_search(&self, out: &mut Vec<u8>, task: &Task, query: usize) {
        self.put_read(out, task, task.k);
        // Present and empty: no properties. Left out, it would mean all.
        put_bytes(out, search::PROPERTIES, b"");
        put_message(out, search::METADATA, |metadata| {
            put_number(metadata, search::METADATA_UUID, 1);
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

    fn put_get(&self, out: &mut Vec<u8>, task: &Task, rows: Range<usize>) {
        self.put_read(out, task, rows.len());
        put_message(out, search::PROPERTIES, |properties| {
            for name in names(&task.options, "properties") {
                put_bytes(properties, search::PROPERTIES_NAMES, name.as_bytes());
            }
        });
        let with_vector = task.options.get("with_vector") == Some("true");
        put_message(out, search::METADATA, |metadata| {
            put_number(metadata, search::METADATA_UUID, 1);
            match self.vector {
                Some(name) if with_vector => {
                    put_bytes(metadata, search::METADATA_VECTORS, name.as_bytes());
                }
                _ => put_number(metadata, search::METADATA_VECTOR, with_vector.into()),
            }
        });
        put_message(out, search::FILTERS, |filter| {
            put_any_of(filter, &task.ids[rows]);
        });
    }

    fn put_objects(&self, out: &mut Vec<u8>, task: &Task, rows: Range<usize>) {
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

    fn put_delete(&self, out: &mut Vec<u8>, task: &Task, rows: Range<usize>) {
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
fn check_numbers(task: &Task) -> Result<(), Misuse> {
    for column in &task.columns {
        let inexact = |cell: Option<Cell<'_>>| match cell {
            Some(Cell::Int(number)) => number.unsigned_abs() > EXACT as u64,
            _ => false,
        };
        if let Some(row) = (0..task.ids.len()).find(|row| inexact(column.cell(*row))) {
            return Err(Misuse(format!(
                "column '{}' has an integer beyond 2^53 for id {}, and weaviate carries numbers as \
                 doubles",
                column.name, task.ids[row]
            )));
        }
    }
    Ok(())
}

/// A row's uuid, as text.
fn uuid(id: i64) -> [u8; 36] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let whole = u128::from(UUID_PREFIX) << 64 | u128::from(id as u64);
    let mut text = [b'-'; 36];
    let mut digits = (0..32).map(|at| HEX[(whole >> (124 - 4 * at)) as usize & 15]);
    for at in (0..36).filter(|at| !matches!(at, 8 | 13 | 18 | 23)) {
        text[at] = digits.next().unwrap_or(b'0');
    }
    text
}

/// The id in a uuid of 16 bytes, whose leading zeros the server leaves out.
fn id_of_bytes(bytes: &[u8]) -> Result<i64, Broken> {
    if bytes.len() > 16 {
        return Err(Broken("a uuid is longer than 16 bytes"));
    }
    let half = &bytes[bytes.len().saturating_sub(8)..];
    let id = half
        .iter()
        .fold(0u64, |id, byte| id << 8 | u64::from(*byte));
    Ok(id as i64)
}

/// The id in a uuid as text.
fn id_of_text(text: &[u8]) -> Result<i64, Broken> {
    if text.len() != 36 {
        return Err(Broken("a uuid's text has not 36 characters"));
    }
    let mut digits = text[19..23].iter().chain(&text[24..]);
    digits
        .try_fold(0u64, |id, digit| {
            let value = char::from(*digit).to_digit(16)?;
            Some(id << 4 | u64::from(value))
        })
        .map(|id| id as i64)
        .ok_or(Broken("a uuid's text has other characters than digits"))
}

/// `weaviate.v1.SearchReply`, from the outside in.
mod reply {
    pub const RESULTS: u32 = 2;
    pub const METADATA: u32 = 2;
    pub const ID: u32 = 1;
    pub const DISTANCE: u32 = 7;
    pub const ID_AS_BYTES: u32 = 20;
}

/// Ids and distances of a `weaviate.v1.SearchReply`.
fn read_rows(message: &[u8], answer: &mut Answer) -> Result<(), Broken> {
    let mut reader = Reader(message);
    while let Some((field, value)) = reader.field()? {
        if field == reply::RESULTS {
            let (id, distance) = read_row(value.bytes()?)?;
            answer.ids.push(id);
            answer.scores.push(distance);
        }
    }
    Ok(())
}

fn read_row(result: &[u8]) -> Result<(i64, f32), Broken> {
    let (mut text, mut bytes, mut distance): (&[u8], &[u8], f32) = (b"", b"", 0.0);
    let mut result = Reader(result);
    while let Some((field, value)) = result.field()? {
        if field != reply::METADATA {
            continue;
        }
        let mut metadata = Reader(value.bytes()?);
        while let Some((field, value)) = metadata.field()? {
            match field {
                reply::ID => text = value.bytes()?,
                reply::ID_AS_BYTES => bytes = value.bytes()?,
                reply::DISTANCE => distance = value.float()?,
                _ => {}
            }
        }
    }
    let id = match bytes.is_empty() {
        false => id_of_bytes(bytes)?,
        true => id_of_text(text)?,
    };
    Ok((id, distance))
}

/// A `weaviate.v1.BatchObjectsReply`: the rows that were refused, each with the reason.
fn read_written(request: &Prepared, message: &[u8]) -> Result<(), Failure> {
    const ERRORS: u32 = 2;
    const ERROR: u32 = 2;
    let (mut refused, mut first): (usize, Option<&[u8]>) = (0, None);
    let mut reader = Reader(message);
    while let Some((field, value)) = reader.field()? {
        if field != ERRORS {
            continue;
        }
        refused += 1;
        let mut error = Reader(value.bytes()?);
        while let Some((field, value)) = error.field()? {
            if field == ERROR {
                first = first.or(Some(value.bytes()?));
            }
        }
    }
    if refused == 0 {
        return Ok(());
    }
    let done = (request.rows as usize).saturating_sub(refused);
    let why = String::from_utf8_lossy(first.unwrap_or_default());
    Err(incomplete(done, request, &format!(" written: {why}")))
}

/// A `weaviate.v1.BatchDeleteReply`. Rows that are not there are no failure.
fn read_deleted(request: &Prepared, message: &[u8]) -> Result<(), Failure> {
    const FAILED: u32 = 2;
    const SUCCESSFUL: u32 = 4;
    let (mut failed, mut done) = (0, 0);
    let mut reader = Reader(message);
    while let Some((field, value)) = reader.field()? {
        match field {
            FAILED => failed = value.number()?,
            SUCCESSFUL => done = value.number()?,
            _ => {}
        }
    }
    match failed {
        0 => Ok(()),
        _ => Err(incomplete(done as usize, request, " deleted")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use proptest::prelude::*;

    fn request(operation: Operation, rows: usize) -> Prepared {
        Prepared::plain(operation, Bytes::new(), rows)
    }

    /// An answer as the server writes it.
    fn answered(rows: &[(i64, f32)], as_bytes: bool) -> Vec<u8> {
        let mut out = vec![];
        for (id, distance) in rows {
            put_message(&mut out, reply::RESULTS, |result| {
                put_bytes(result, 1, b"properties are passed over");
                put_message(result, reply::METADATA, |metadata| {
                    put_bytes(metadata, reply::ID, &uuid(*id));
                    protobuf::put_fixed32(metadata, reply::DISTANCE, distance.to_le_bytes());
                    if as_bytes {
                        let whole = u128::from(UUID_PREFIX) << 64 | u128::from(*id as u64);
                        put_bytes(metadata, reply::ID_AS_BYTES, &whole.to_be_bytes());
                    }
                });
            });
        }
        out
    }

    #[test]
    fn a_uuid_is_the_prefix_and_the_id() {
        assert_eq!(&uuid(0), b"76656374-7269-8000-0000-000000000000");
        assert_eq!(&uuid(-2), b"76656374-7269-8000-ffff-fffffffffffe");
        assert_eq!(&uuid(0x123456), b"76656374-7269-8000-0000-000000123456");
    }

    #[test]
    fn refused_rows_fail_the_request_with_the_first_reason() {
        let mut message = vec![];
        for (row, why) in [(3u64, "no space"), (4, "nor here")] {
            put_message(&mut message, 2, |error| {
                put_number(error, 1, row);
                put_bytes(error, 2, why.as_bytes());
            });
        }
        let failed = read_written(&request(Operation::Insert, 10), &message).unwrap_err();
        assert_eq!(failed.class, "incomplete");
        assert_eq!(failed.message, "8 of 10 rows written: no space");
        assert!(read_written(&request(Operation::Insert, 10), b"").is_ok());
    }

    #[test]
    fn a_get_that_misses_rows_is_incomplete() {
        let message = answered(&[(7, 0.0), (9, 0.0)], true);
        let mut answer = Answer::default();
        let two = Weaviate::decode(&request(Operation::Get, 2), &message, &mut answer);
        assert!(two.is_ok() && answer.ids == [7, 9]);
        let three = Weaviate::decode(
            &request(Operation::Get, 3),
            &message,
            &mut Answer::default(),
        );
        assert_eq!(three.unwrap_err().message, "2 of 3 rows came");
    }

    #[test]
    fn rows_that_could_not_be_deleted_are_incomplete() {
        let mut message = vec![];
        put_number(&mut message, 3, 5);
        put_number(&mut message, 4, 5);
        assert!(read_deleted(&request(Operation::Delete, 6), &message).is_ok());
        put_number(&mut message, 2, 1);
        let failed = read_deleted(&request(Operation::Delete, 6), &message).unwrap_err();
        assert_eq!(failed.message, "5 of 6 rows deleted");
    }

    proptest! {
        #[test]
        fn ids_and_distances_come_back(rows: Vec<(i64, f32)>, as_bytes: bool) {
            let mut answer = Answer::default();
            let message = answered(&rows, as_bytes);
            Weaviate::decode(&request(Operation::Search, 1), &message, &mut answer).unwrap();
            let (ids, distances): (Vec<i64>, Vec<f32>) = rows.into_iter().unzip();
            prop_assert_eq!(answer.ids, ids);
            let same = answer.scores.iter().zip(&distances);
            prop_assert!(same.into_iter().all(|(a, b)| a.to_bits() == b.to_bits()));
        }

        #[test]
        fn a_uuid_without_its_leading_zeros_is_read(id: i64) {
            let whole = u128::from(id as u64).to_be_bytes();
            let start = whole.iter().position(|byte| *byte != 0).unwrap_or(16);
            prop_assert_eq!(id_of_bytes(&whole[start..]), Ok(id));
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>, text in "[0-9a-f-]{36}") {
            for operation in [Operation::Search, Operation::Get, Operation::Insert, Operation::Delete] {
                let _ = Weaviate::decode(&request(operation, 3), &bytes, &mut Answer::default());
            }
            let _ = (id_of_text(&bytes), id_of_text(text.as_bytes()), id_of_bytes(&bytes));
        }

        #[test]
        fn a_damaged_answer_is_decoded_or_refused(rows: Vec<(i64, f32)>, at: usize, byte: u8) {
            let mut message = answered(&rows, true);
            if !message.is_empty() {
                let at = at % message.len();
                message[at] = byte;
                let _ = read_rows(&message, &mut Answer::default());
                let _ = read_rows(&message[..at], &mut Answer::default());
            }
        }
    }
}
