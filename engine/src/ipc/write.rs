//! A schema, and batches of rows.

use super::{
    kind, BATCH, BODY_LENGTH, CHILDREN, DOUBLE, HEADER, KIND, NAME, NULLABLE, SCHEMA, SINGLE, TYPE,
    TYPE_KIND, VERSION,
};
use crate::flatbuffer::{write, Field, Table};

/// Version 5 of the metadata, as every Arrow since 1.0 writes.
const V5: i16 = 4;
/// What every buffer of a body is padded to.
const ALIGN: usize = 8;
/// Values of a column to write.
#[derive(Clone, Copy, Debug)]
pub enum Cells<'a> {
    Int(&'a [i64]),
    Float(&'a [f64]),
    Bool(&'a [bool]),
    Text(&'a [String]),
    Vector { values: &'a [f32], dim: usize },
}

/// A column to write.
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    pub name: &'a str,
    pub cells: Cells<'a>,
    /// False where a value is missing; empty when all are there.
    pub valid: &'a [bool],
    pub nullable: bool,
}

impl Cells<'_> {
    fn rows(&self) -> usize {
        match self {
            Self::Int(all) => all.len(),
            Self::Float(all) => all.len(),
            Self::Bool(all) => all.len(),
            Self::Text(all) => all.len(),
            Self::Vector { values, dim } => values.len().checked_div(*dim).unwrap_or(0),
        }
    }

    /// The kind of its type, the type's own table, and the columns within.
    fn described(&self) -> (u8, Table, Vec<Table>) {
        match self {
            Self::Int(_) => (
                kind::INT,
                vec![(0, Field::Int(64)), (1, Field::Byte(1))],
                vec![],
            ),
            Self::Float(_) => (kind::FLOAT, vec![(0, Field::Short(DOUBLE))], vec![]),
            Self::Bool(_) => (kind::BOOL, vec![], vec![]),
            Self::Text(_) => (kind::TEXT, vec![], vec![]),
            Self::Vector { dim, .. } => {
                let float: Table = vec![(0, Field::Short(SINGLE))];
                let item = described("item", false, (kind::FLOAT, float, vec![]));
                let list = vec![(0, Field::Int(*dim as i32))];
                (kind::FIXED_LIST, list, vec![item])
            }
        }
    }
}

/// A column of a schema.
fn described(name: &str, nullable: bool, of: (u8, Table, Vec<Table>)) -> Table {
    let (kind, table, children) = of;
    vec![
        (NAME, Field::Text(name.to_owned())),
        (NULLABLE, Field::Byte(nullable.into())),
        (TYPE_KIND, Field::Byte(kind)),
        (TYPE, Field::Table(table)),
        (CHILDREN, Field::Tables(children)),
    ]
}

fn message(kind: u8, header: Table, body: usize) -> Vec<u8> {
    write(&vec![
        (VERSION, Field::Short(V5)),
        (KIND, Field::Byte(kind)),
        (HEADER, Field::Table(header)),
        (BODY_LENGTH, Field::Long(body as i64)),
    ])
}

/// The message that says what columns there are, with metadata of the schema.
pub fn schema(columns: &[Column<'_>], metadata: &[(&str, &str)]) -> Vec<u8> {
    let fields = columns
        .iter()
        .map(|column| described(column.name, column.nullable, column.cells.described()))
        .collect();
    let pairs = metadata.iter().map(|(key, value)| {
        vec![
            (0, Field::Text((*key).to_owned())),
            (1, Field::Text((*value).to_owned())),
        ]
    });
    let header = vec![
        (1, Field::Tables(fields)),
        (2, Field::Tables(pairs.collect())),
    ];
    message(SCHEMA, header, 0)
}

/// The message of a batch of rows, and its body. Every column has as many.
pub fn batch(columns: &[Column<'_>]) -> (Vec<u8>, Vec<u8>) {
    let rows = columns.first().map_or(0, |column| column.cells.rows());
    let mut body = Body::default();
    for column in columns {
        let missing = column.valid.iter().filter(|valid| !**valid).count();
        body.nodes.push([rows as i64, missing as i64]);
        match missing {
            0 => body.put(std::iter::empty()),
            _ => body.put(bits(column.valid)),
        }
        match column.cells {
            Cells::Int(all) => body.put(all.iter().flat_map(|x| x.to_le_bytes())),
            Cells::Float(all) => body.put(all.iter().flat_map(|x| x.to_le_bytes())),
            Cells::Bool(all) => body.put(bits(all)),
            Cells::Text(all) => {
                let mut end = 0i32;
                let mut after = |text: &String| {
                    end += text.len() as i32;
                    end
                };
                let ends = std::iter::once(0).chain(all.iter().map(&mut after));
                body.put(ends.flat_map(i32::to_le_bytes));
                body.put(all.iter().flat_map(|text| text.bytes()));
            }
            Cells::Vector { values, .. } => {
                body.nodes.push([values.len() as i64, 0]);
                body.put(std::iter::empty());
                body.put(values.iter().flat_map(|x| x.to_le_bytes()));
            }
        }
    }
    let header = vec![
        (0, Field::Long(rows as i64)),
        (1, Field::Pairs(body.nodes)),
        (2, Field::Pairs(body.buffers)),
    ];
    (message(BATCH, header, body.bytes.len()), body.bytes)
}

/// The body of a batch with what its header says of it.
#[derive(Default)]
struct Body {
    bytes: Vec<u8>,
    /// Rows of each column and how many are missing.
    nodes: Vec<[i64; 2]>,
    /// Where each buffer begins, and its length.
    buffers: Vec<[i64; 2]>,
}

impl Body {
    fn put(&mut self, buffer: impl Iterator<Item = u8>) {
        let start = self.bytes.len();
        self.bytes.extend(buffer);
        let length = self.bytes.len() - start;
        self.buffers.push([start as i64, length as i64]);
        let whole = self.bytes.len().next_multiple_of(ALIGN);
        self.bytes.resize(whole, 0);
    }
}

/// One bit for each, the first the lowest of the first byte.
fn bits(all: &[bool]) -> impl Iterator<Item = u8> + '_ {
    all.chunks(8)
        .map(|eight| (0..).zip(eight).map(|(at, bit)| u8::from(*bit) << at).sum())
}
