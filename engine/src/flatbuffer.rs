//! FlatBuffers by hand: tables as Arrow's metadata has them, and a reader that takes any bytes.
//!
//! The format: <https://flatbuffers.dev/internals/>. Tables are written before what they refer
//! to, which the format allows, so that one pass forwards is enough.

use crate::protobuf::Broken;

/// Where a table, text or vector would begin or end outside the buffer.
const OUTSIDE: Broken = Broken("a FlatBuffer points outside itself");

/// The value of a field to write.
#[derive(Clone, Debug)]
pub enum Field {
    Byte(u8),
    Short(i16),
    Int(i32),
    Long(i64),
    Text(String),
    Table(Table),
    Tables(Vec<Table>),
    /// A vector of structs of two int64 each, which is what record batches have.
    Pairs(Vec<[i64; 2]>),
}

/// A table to write: its fields with their numbers.
pub type Table = Vec<(usize, Field)>;

impl Field {
    /// Bytes that it takes within its table.
    fn width(&self) -> usize {
        match self {
            Self::Byte(_) => 1,
            Self::Short(_) => 2,
            Self::Long(_) => 8,
            _ => 4,
        }
    }
}

/// The buffer whose root is this table.
pub fn write(root: &Table) -> Vec<u8> {
    let mut out = vec![0; 4];
    let at = put_table(&mut out, root);
    out[..4].copy_from_slice(&(at as u32).to_le_bytes());
    out.resize(out.len().next_multiple_of(8), 0);
    out
}

/// Append a table and all that it refers to; where it is.
fn put_table(out: &mut Vec<u8>, table: &Table) -> usize {
    let slots = table.iter().map(|(slot, _)| slot + 1).max().unwrap_or(0);
    let mut offsets = vec![0u16; slots];
    let mut size = 4usize;
    for (slot, field) in table {
        let width = field.width();
        size = size.next_multiple_of(width);
        offsets[*slot] = size as u16;
        size += width;
    }
    // The table begins at a multiple of 8, so that its fields are aligned, right after its vtable.
    let vtable = 4 + 2 * slots;
    let at = (out.len() + vtable).next_multiple_of(8);
    out.resize(at - vtable, 0);
    let head = [vtable as u16, size as u16];
    out.extend(head.iter().chain(&offsets).flat_map(|n| n.to_le_bytes()));
    out.extend((vtable as i32).to_le_bytes());
    out.resize(at + size, 0);
    for (slot, field) in table {
        let place = at + usize::from(offsets[*slot]);
        match field {
            Field::Byte(value) => out[place] = *value,
            Field::Short(value) => out[place..][..2].copy_from_slice(&value.to_le_bytes()),
            Field::Int(value) => out[place..][..4].copy_from_slice(&value.to_le_bytes()),
            Field::Long(value) => out[place..][..8].copy_from_slice(&value.to_le_bytes()),
            Field::Text(text) => {
                let child = begin(out, text.len(), 4);
                out.extend_from_slice(text.as_bytes());
                out.push(0);
                refer(out, place, child);
            }
            Field::Table(table) => {
                let child = put_table(out, table);
                refer(out, place, child);
            }
            Field::Tables(tables) => {
                let child = begin(out, tables.len(), 4);
                out.resize(child + 4 + 4 * tables.len(), 0);
                refer(out, place, child);
                for (number, table) in tables.iter().enumerate() {
                    let element = put_table(out, table);
                    refer(out, child + 4 + 4 * number, element);
                }
            }
            Field::Pairs(pairs) => {
                let child = begin(out, pairs.len(), 8);
                out.extend(pairs.iter().flatten().flat_map(|n| n.to_le_bytes()));
                refer(out, place, child);
            }
        }
    }
    at
}

/// Append the length of a vector whose elements are aligned; where it is.
fn begin(out: &mut Vec<u8>, length: usize, align: usize) -> usize {
    let at = (out.len() + 4).next_multiple_of(align) - 4;
    out.resize(at, 0);
    out.extend((length as u32).to_le_bytes());
    at
}

/// Make the field at `place` refer to what begins at `child`.
fn refer(out: &mut [u8], place: usize, child: usize) {
    out[place..place + 4].copy_from_slice(&((child - place) as u32).to_le_bytes());
}

/// A table that is read.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    bytes: &'a [u8],
    at: usize,
    vtable: &'a [u8],
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Broken> {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.copied().ok_or(OUTSIDE)
}

/// The position that a reference at `at` leads to, which is never before it.
fn follow(bytes: &[u8], at: usize) -> Result<usize, Broken> {
    Ok(at + u32::from_le_bytes(array(bytes, at)?) as usize)
}

impl<'a> View<'a> {
    /// The root of a buffer.
    pub fn root(bytes: &'a [u8]) -> Result<Self, Broken> {
        Self::at(bytes, follow(bytes, 0)?)
    }

    fn at(bytes: &'a [u8], at: usize) -> Result<Self, Broken> {
        let back = i64::from(i32::from_le_bytes(array(bytes, at)?));
        let start = usize::try_from(at as i64 - back).map_err(|_| OUTSIDE)?;
        let length = usize::from(u16::from_le_bytes(array(bytes, start)?));
        let vtable = bytes.get(start..start + length).ok_or(OUTSIDE)?;
        Ok(Self { bytes, at, vtable })
    }

    /// Where a field is, if it is there.
    fn place(&self, slot: usize) -> Option<usize> {
        let offset = u16::from_le_bytes(array(self.vtable, 4 + 2 * slot).ok()?);
        (offset != 0).then(|| self.at + usize::from(offset))
    }

    fn scalar<const N: usize>(&self, slot: usize) -> Result<[u8; N], Broken> {
        match self.place(slot) {
            Some(at) => array(self.bytes, at),
            None => Ok([0; N]),
        }
    }

    /// A byte, bool or the type of a union; 0 where it is left out.
    pub fn byte(&self, slot: usize) -> Result<u8, Broken> {
        Ok(self.scalar::<1>(slot)?[0])
    }

    pub fn short(&self, slot: usize) -> Result<i16, Broken> {
        self.scalar(slot).map(i16::from_le_bytes)
    }

    pub fn int(&self, slot: usize) -> Result<i32, Broken> {
        self.scalar(slot).map(i32::from_le_bytes)
    }

    pub fn long(&self, slot: usize) -> Result<i64, Broken> {
        self.scalar(slot).map(i64::from_le_bytes)
    }

    pub fn table(&self, slot: usize) -> Result<Option<Self>, Broken> {
        let Some(at) = self.place(slot) else {
            return Ok(None);
        };
        Self::at(self.bytes, follow(self.bytes, at)?).map(Some)
    }

    /// The bytes of a text; none where it is left out.
    pub fn text(&self, slot: usize) -> Result<&'a [u8], Broken> {
        Ok(self.vector(slot, 1)?.elements)
    }

    /// A vector whose elements take `width` bytes each; empty where it is left out.
    pub fn vector(&self, slot: usize, width: usize) -> Result<Elements<'a>, Broken> {
        let bytes = self.bytes;
        let Some(at) = self.place(slot) else {
            let elements = &[];
            return Ok(Elements {
                bytes,
                elements,
                at: 0,
                width,
            });
        };
        let at = follow(bytes, at)? + 4;
        let length = u32::from_le_bytes(array(bytes, at - 4)?) as usize;
        let elements = bytes.get(at..at + length * width).ok_or(OUTSIDE)?;
        Ok(Elements {
            bytes,
            elements,
            at,
            width,
        })
    }
}

/// The elements of a vector that is read.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a> {
    bytes: &'a [u8],
    elements: &'a [u8],
    at: usize,
    width: usize,
}

impl<'a> Elements<'a> {
    pub fn count(&self) -> usize {
        self.elements.len() / self.width
    }

    /// The tables of a vector of tables.
    pub fn tables(self) -> impl Iterator<Item = Result<View<'a>, Broken>> {
        (0..self.count())
            .map(move |number| View::at(self.bytes, follow(self.bytes, self.at + 4 * number)?))
    }

    /// One of the structs of two int64 each.
    pub fn pair(&self, number: usize) -> Result<[i64; 2], Broken> {
        let at = number.saturating_mul(16);
        let first = array(self.elements, at)?;
        let second = array(self.elements, at.saturating_add(8))?;
        Ok([i64::from_le_bytes(first), i64::from_le_bytes(second)])
    }
}

/// Everything that can be asked of a table.
#[cfg(any(test, feature = "fuzz"))]
pub fn ask(view: View<'_>, depth: usize) {
    for slot in 0..8 {
        let _ = (view.byte(slot), view.short(slot), view.int(slot));
        let _ = (view.long(slot), view.text(slot));
        let pairs = view.vector(slot, 16);
        let _ = pairs.map(|pairs| pairs.pair(pairs.count().wrapping_sub(1)));
        if depth == 0 {
            continue;
        }
        if let Ok(Some(table)) = view.table(slot) {
            ask(table, depth - 1);
        }
        let tables = view.vector(slot, 4).map(|vector| vector.tables().take(3));
        for table in tables.into_iter().flatten().flatten() {
            ask(table, depth - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_is_read() {
        let inner: Table = vec![(2, Field::Text("near".into()))];
        let table: Table = vec![
            (0, Field::Byte(7)),
            (1, Field::Long(-5)),
            (2, Field::Short(-2)),
            (4, Field::Int(1 << 20)),
            (5, Field::Tables(vec![inner.clone(), vec![], inner.clone()])),
            (6, Field::Pairs(vec![[1, 2], [3, -4]])),
            (7, Field::Table(inner)),
        ];
        let bytes = write(&table);
        let view = View::root(&bytes).unwrap();
        let numbers = (view.byte(0), view.long(1), view.short(2), view.int(4));
        assert_eq!(numbers, (Ok(7), Ok(-5), Ok(-2), Ok(1 << 20)));
        assert_eq!((view.int(3), view.long(90)), (Ok(0), Ok(0)), "left out");
        let texts = view.vector(5, 4).unwrap().tables();
        let texts: Vec<_> = texts.map(|t| t.unwrap().text(2).unwrap()).collect();
        assert_eq!(texts, [&b"near"[..], b"", b"near"]);
        let pairs = view.vector(6, 16).unwrap();
        assert_eq!((pairs.count(), pairs.pair(1)), (2, Ok([3, -4])));
        assert_eq!(pairs.pair(2), Err(OUTSIDE));
        assert_eq!(view.table(7).unwrap().unwrap().text(2), Ok(&b"near"[..]));
        assert!(view.table(8).unwrap().is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, changed in 0..200usize, to: u8) {
            if let Ok(view) = View::root(&bytes) {
                ask(view, 2);
            }
            let inner: Table = vec![(0, Field::Text("x".into())), (1, Field::Long(3))];
            let table = vec![(1, Field::Tables(vec![inner.clone(); 2])), (3, Field::Table(inner))];
            let mut whole = write(&table);
            let at = changed % whole.len();
            whole[at] = to;
            if let Ok(view) = View::root(&whole) {
                ask(view, 2);
            }
        }
    }
}
