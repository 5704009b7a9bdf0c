//! Arrow's IPC messages by hand: a schema and batches of rows written, ids and scores read.
//!
//! The format: <https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc>.
//! Only what requests hold is written, and only the columns `id` and `score` are read, straight
//! from their buffers: a library for all of Arrow would cost more to compile than the rest of the
//! engine's wire protocols together, and more per answer.

use crate::flatbuffer::{write, Field, Table, View};
use crate::protobuf::Broken;
use crate::protocol::Answer;

/// Version 5 of the metadata, as every Arrow since 1.0 writes.
const V5: i16 = 4;
/// Kinds of messages.
const SCHEMA: u8 = 1;
const BATCH: u8 = 3;
/// Fields of `Message`.
const VERSION: usize = 0;
const KIND: usize = 1;
const HEADER: usize = 2;
const BODY_LENGTH: usize = 3;
/// Fields of `Field` that are read.
const NAME: usize = 0;
const NULLABLE: usize = 1;
const TYPE_KIND: usize = 2;
const TYPE: usize = 3;
const DICTIONARY: usize = 4;
const CHILDREN: usize = 5;
/// Kinds of types, as the union `Type` numbers them.
mod kind {
    pub const NULL: u8 = 1;
    pub const INT: u8 = 2;
    pub const FLOAT: u8 = 3;
    pub const BINARY: u8 = 4;
    pub const TEXT: u8 = 5;
    pub const BOOL: u8 = 6;
    pub const LIST: u8 = 12;
    pub const STRUCT: u8 = 13;
    pub const FIXED_BINARY: u8 = 15;
    pub const FIXED_LIST: u8 = 16;
    pub const MAP: u8 = 17;
    pub const LARGE_BINARY: u8 = 19;
    pub const LARGE_TEXT: u8 = 20;
    pub const LARGE_LIST: u8 = 21;
}
/// Values of the enum `Precision`.
const SINGLE: i16 = 1;
const DOUBLE: i16 = 2;
/// What every buffer of a body is padded to.
const ALIGN: usize = 8;
/// Columns within columns, at most.
const DEEPEST: usize = 32;

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

/// Reads the messages of a stream one after the other, a schema first.
#[derive(Debug, Default)]
pub struct Rows {
    layout: Layout,
    /// The schema's message as it came: the next answer's is mostly the same.
    schema: Vec<u8>,
    /// A schema has come in this stream.
    begun: bool,
}

/// Where the columns that are read have their values.
#[derive(Clone, Debug, Default)]
struct Layout {
    /// Which buffer of a batch, and of what.
    id: Option<(usize, Scalar)>,
    score: Option<(usize, Scalar)>,
}

#[derive(Clone, Copy, Debug)]
enum Scalar {
    /// Width in bytes and whether it has a sign.
    Int(usize, bool),
    Single,
    Double,
}

impl Rows {
    /// Forget the stream that has ended.
    pub fn begin(&mut self) {
        self.begun = false;
    }

    /// Read a message and its body.
    pub fn message(
        &mut self,
        header: &[u8],
        body: &[u8],
        answer: &mut Answer,
    ) -> Result<(), Broken> {
        if self.schema == header && !self.begun && !header.is_empty() {
            self.begun = true;
            return Ok(());
        }
        let view = View::root(header)?;
        let inner = view
            .table(HEADER)?
            .ok_or(Broken("an Arrow message has no header"))?;
        match view.byte(KIND)? {
            SCHEMA => {
                self.layout = Layout::of(&inner)?;
                self.schema.clear();
                self.schema.extend_from_slice(header);
                self.begun = true;
                Ok(())
            }
            BATCH if !self.begun => Err(Broken("rows come before their schema")),
            BATCH => self.layout.read(&inner, body, answer),
            // Dictionaries are of columns that nobody reads here.
            _ => Ok(()),
        }
    }

    /// The stream has a column that says which rows they are.
    pub fn has_ids(&self) -> bool {
        self.begun && matches!(self.layout.id, Some((_, Scalar::Int(..))))
    }

    /// Read the messages of a stream in Arrow's own framing.
    pub fn stream(&mut self, bytes: &[u8], answer: &mut Answer) -> Result<(), Broken> {
        self.begin();
        framed(bytes, |header, body| self.message(header, body, answer))
    }
}

/// Hand over each message of a stream in Arrow's own framing, and its body.
pub fn framed(
    bytes: &[u8],
    mut take: impl FnMut(&[u8], &[u8]) -> Result<(), Broken>,
) -> Result<(), Broken> {
    const SHORT: Broken = Broken("an Arrow stream ends within a message");
    let mut rest = bytes;
    while !rest.is_empty() {
        // Four bytes that continue the stream, then the length of the header: 0 at the end.
        let (mark, after) = rest.split_first_chunk::<4>().ok_or(SHORT)?;
        if *mark != [0xff; 4] {
            return Err(Broken("the bytes are no Arrow stream"));
        }
        let (length, after) = after.split_first_chunk::<4>().ok_or(SHORT)?;
        let length = u32::from_le_bytes(*length) as usize;
        if length == 0 {
            return Ok(());
        }
        let (header, after) = after.split_at_checked(length).ok_or(SHORT)?;
        let body = View::root(header)?.long(BODY_LENGTH)?;
        let body = usize::try_from(body).map_err(|_| SHORT)?;
        let (body, after) = after.split_at_checked(body).ok_or(SHORT)?;
        take(header, body)?;
        rest = after;
    }
    Ok(())
}

impl Layout {
    fn of(schema: &View<'_>) -> Result<Self, Broken> {
        let mut out = Self::default();
        let mut buffers = 0;
        for field in schema.vector(1, 4)?.tables() {
            let field = field?;
            // After the bits that say which values are there.
            let place = scalar(&field)?.map(|scalar| (buffers + 1, scalar));
            match field.text(NAME)? {
                b"id" => out.id = place,
                b"score" => out.score = place,
                _ => {}
            }
            buffers += count(&field, 0)?;
        }
        Ok(out)
    }

    fn read(&self, batch: &View<'_>, body: &[u8], answer: &mut Answer) -> Result<(), Broken> {
        if batch.table(3)?.is_some() {
            return Err(Broken("the rows are compressed"));
        }
        let rows = usize::try_from(batch.long(0)?).map_err(|_| Broken("fewer rows than none"))?;
        let buffers = batch.vector(2, 16)?;
        let column = |place: usize, width: usize| {
            let [start, length] = buffers.pair(place)?;
            let start = usize::try_from(start).ok();
            let length = usize::try_from(length).ok();
            let found = start.zip(length).and_then(|(start, length)| {
                let wanted = rows.checked_mul(width).filter(|wanted| *wanted <= length)?;
                body.get(start..start.checked_add(wanted)?)
            });
            found.ok_or(Broken("a column lies outside its batch"))
        };
        if let Some((place, Scalar::Int(width, signed))) = self.id {
            let bytes = column(place, width)?;
            let read = |value: &[u8]| integer(value, signed);
            answer.ids.extend(bytes.chunks_exact(width).map(read));
        }
        match self.score {
            Some((place, Scalar::Single)) => {
                let values = column(place, 4)?.as_chunks::<4>().0.iter();
                answer.scores.extend(values.map(|x| f32::from_le_bytes(*x)));
            }
            Some((place, Scalar::Double)) => {
                let values = column(place, 8)?.as_chunks::<8>().0.iter();
                let single = values.map(|x| f64::from_le_bytes(*x) as f32);
                answer.scores.extend(single);
            }
            _ => {}
        }
        Ok(())
    }
}

/// A little-endian integer of 1, 2, 4 or 8 bytes. One beyond int64 becomes negative, and so the
/// id of no row.
fn integer(bytes: &[u8], signed: bool) -> i64 {
    let mut whole = match bytes.last() {
        Some(last) if signed && *last >= 0x80 => [0xff; 8],
        _ => [0; 8],
    };
    whole[..bytes.len()].copy_from_slice(bytes);
    i64::from_le_bytes(whole)
}

/// The type of a column of plain numbers that can be read.
fn scalar(field: &View<'_>) -> Result<Option<Scalar>, Broken> {
    if field.table(DICTIONARY)?.is_some() {
        return Ok(None);
    }
    let Some(inner) = field.table(TYPE)? else {
        return Ok(None);
    };
    Ok(match field.byte(TYPE_KIND)? {
        kind::INT => match inner.int(0)? {
            bits @ (8 | 16 | 32 | 64) => Some(Scalar::Int(bits as usize / 8, inner.byte(1)? != 0)),
            _ => None,
        },
        kind::FLOAT => match inner.short(0)? {
            SINGLE => Some(Scalar::Single),
            DOUBLE => Some(Scalar::Double),
            _ => None,
        },
        _ => None,
    })
}

/// Buffers of a column in the body of a batch, those of the columns within too.
fn count(field: &View<'_>, depth: usize) -> Result<usize, Broken> {
    if depth == DEEPEST {
        return Err(Broken("columns lie too deep within columns"));
    }
    if field.table(DICTIONARY)?.is_some() {
        return Ok(2);
    }
    let own = match field.byte(TYPE_KIND)? {
        kind::NULL => 0,
        kind::STRUCT | kind::FIXED_LIST => 1,
        kind::BINARY | kind::TEXT | kind::LARGE_BINARY | kind::LARGE_TEXT => 3,
        kind::LIST | kind::MAP | kind::LARGE_LIST => 2,
        kind::INT..=11 | kind::FIXED_BINARY | 18 => 2,
        _ => return Err(Broken("a column has a type that is not read here")),
    };
    let within = field.vector(CHILDREN, 4)?.tables();
    within
        .map(|child| count(&child?, depth + 1))
        .sum::<Result<usize, _>>()
        .map(|all| all + own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn columns<'a>(ids: &'a [i64], scores: &'a [f64], texts: &'a [String]) -> Vec<Column<'a>> {
        let column = |name, cells| Column {
            name,
            cells,
            valid: &[],
            nullable: false,
        };
        vec![
            column("text", Cells::Text(texts)),
            column("id", Cells::Int(ids)),
            column(
                "vector",
                Cells::Vector {
                    values: &[],
                    dim: 3,
                },
            ),
            column("score", Cells::Float(scores)),
        ]
    }

    fn stream(columns: &[Column<'_>]) -> Vec<u8> {
        let (header, body) = batch(columns);
        let mut out = vec![];
        for (header, body) in [(schema(columns, &[("a", "b")]), vec![]), (header, body)] {
            out.extend([0xff; 4]);
            out.extend((header.len() as u32).to_le_bytes());
            out.extend(header);
            out.extend(body);
        }
        out
    }

    proptest! {
        #[test]
        fn ids_and_scores_are_read_wherever_they_stand(rows: Vec<(i64, f32, String)>) {
            let ids: Vec<i64> = rows.iter().map(|row| row.0).collect();
            let scores: Vec<f64> = rows.iter().map(|row| row.1.into()).collect();
            let texts: Vec<String> = rows.iter().map(|row| row.2.clone()).collect();
            let bytes = stream(&columns(&ids, &scores, &texts));
            let mut answer = Answer::default();
            let mut reader = Rows::default();
            reader.stream(&bytes, &mut answer).unwrap();
            prop_assert_eq!(&answer.ids, &ids);
            prop_assert!(answer.scores.iter().zip(&scores).all(|(a, b)| f64::from(*a) == *b || a.is_nan()));
            // The same schema once more is known, and what is cut off is refused.
            reader.stream(&bytes, &mut answer).unwrap();
            prop_assert_eq!(answer.ids.len(), 2 * ids.len());
            prop_assert!(reader.stream(&bytes[..bytes.len() - 1], &mut answer).is_err());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, changes: Vec<(u16, u8)>) {
            let mut reader = Rows::default();
            let _ = reader.stream(&bytes, &mut Answer::default());
            let _ = reader.message(&bytes, &bytes, &mut Answer::default());
            let mut whole = stream(&columns(&[1, 2], &[0.5, 0.25], &["a".into(), "b".into()]));
            for (at, to) in changes {
                let at = usize::from(at) % whole.len();
                whole[at] = to;
            }
            let _ = reader.stream(&whole, &mut Answer::default());
        }
    }

    #[test]
    fn integers_of_every_width_are_read() {
        assert_eq!(integer(&[0xfe], true), -2);
        assert_eq!(integer(&[0xfe], false), 254);
        assert_eq!(integer(&[1, 1], true), 257);
        assert_eq!(integer(&(-3i32).to_le_bytes(), true), -3);
        assert_eq!(integer(&u64::MAX.to_le_bytes(), false), -1);
    }
}
