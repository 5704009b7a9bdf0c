//! The ids and scores of a stream of batches.

use super::{
    kind, BATCH, BODY_LENGTH, CHILDREN, DICTIONARY, DOUBLE, HEADER, KIND, NAME, SCHEMA, SINGLE,
    TYPE, TYPE_KIND,
};
use crate::flatbuffer::View;
use crate::protobuf::Broken;
use crate::protocol::Answer;

/// Columns within columns, at most.
const DEEPEST: usize = 32;
/// Columns of a schema, at most: one that refers to the same ones again and again has more than
/// anybody can count.
const MOST: usize = 10_000;

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
        let (mut buffers, mut left) = (0, MOST);
        for field in schema.vector(1, 4)?.tables() {
            let field = field?;
            // After the bits that say which values are there.
            let place = scalar(&field)?.map(|scalar| (buffers + 1, scalar));
            match field.text(NAME)? {
                b"id" => out.id = place,
                b"score" => out.score = place,
                _ => {}
            }
            buffers += count(&field, 0, &mut left)?;
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
fn count(field: &View<'_>, depth: usize, left: &mut usize) -> Result<usize, Broken> {
    if depth == DEEPEST {
        return Err(Broken("columns lie too deep within columns"));
    }
    *left = left
        .checked_sub(1)
        .ok_or(Broken("a schema has too many columns"))?;
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
        .map(|child| count(&child?, depth + 1, left))
        .sum::<Result<usize, _>>()
        .map(|all| all + own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_every_width_are_read() {
        assert_eq!(integer(&[0xfe], true), -2);
        assert_eq!(integer(&[0xfe], false), 254);
        assert_eq!(integer(&[1, 1], true), 257);
        assert_eq!(integer(&(-3i32).to_le_bytes(), true), -3);
        assert_eq!(integer(&u64::MAX.to_le_bytes(), false), -1);
    }

    /// A schema of one column whose children are the same table twice, and so on downwards: some
    /// hundred bytes a level, twice as many columns with each.
    fn doubling(levels: usize) -> Vec<u8> {
        // Each level: a vtable with the slots of type and children, a table, a vector of two.
        const VTABLE: usize = 4 + 2 * (CHILDREN + 1);
        const TABLE: usize = VTABLE;
        const WHOLE: usize = VTABLE + 12 + 12;
        let level = |last: bool| {
            let mut out = vec![0u8; WHOLE];
            let mut short = |at: usize, value: usize| {
                out[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
            };
            short(0, VTABLE);
            short(2, 12);
            short(4 + 2 * TYPE_KIND, 4);
            short(4 + 2 * CHILDREN, if last { 0 } else { 8 });
            let mut long = |at: usize, value: usize| {
                out[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes());
            };
            long(TABLE, VTABLE);
            long(TABLE + 8, 4);
            long(TABLE + 12, 2);
            for element in [TABLE + 16, TABLE + 20] {
                long(element, WHOLE + TABLE - element);
            }
            out[TABLE + 4] = kind::STRUCT;
            out
        };
        let mut out = ((4 + TABLE) as u32).to_le_bytes().to_vec();
        for number in 0..levels {
            out.extend(level(number + 1 == levels));
        }
        out
    }

    #[test]
    fn a_schema_that_refers_to_its_columns_again_and_again_is_refused() {
        let few = doubling(4);
        let counted = count(&View::root(&few).unwrap(), 0, &mut MOST.clone()).unwrap();
        assert_eq!(counted, 15);
        let many = doubling(DEEPEST);
        let refused = count(&View::root(&many).unwrap(), 0, &mut MOST.clone());
        assert_eq!(refused, Err(Broken("a schema has too many columns")));
    }
}
