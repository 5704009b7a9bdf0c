//! The ids and scores of a stream of batches.

use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::{root_as_message_with_opts, Message, RecordBatch};
use arrow_schema::DataType;
use flatbuffers::VerifierOptions;

use crate::codec::DecodeError;

/// Columns within columns, and tables of a message, at most: a schema that refers to the same
/// column again and again has more columns than anybody can count.
const LIMITS: VerifierOptions = VerifierOptions {
    max_depth: 64,
    max_tables: 30_000,
    max_apparent_size: 1 << 28,
    ignore_missing_null_terminator: true,
};

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
    id: Option<(usize, Integer)>,
    score: Option<(usize, Float)>,
}

/// Integers of so many bytes, with or without a sign.
#[derive(Clone, Copy, Debug)]
struct Integer {
    width: usize,
    signed: bool,
}

#[derive(Clone, Copy, Debug)]
enum Float {
    Single,
    Double,
}

/// A message, checked so that no field of it points outside.
fn message(bytes: &[u8]) -> Result<Message<'_>, DecodeError> {
    root_as_message_with_opts(&LIMITS, bytes)
        .map_err(|_| DecodeError("an Arrow message is no valid FlatBuffer"))
}

impl Rows {
    /// Forget the stream that has ended.
    pub fn begin(&mut self) {
        self.begun = false;
    }

    /// Read a message and its body, and append the ids and scores of its rows.
    pub fn message(
        &mut self,
        header: &[u8],
        body: &[u8],
        ids: &mut Vec<i64>,
        scores: &mut Vec<f32>,
    ) -> Result<(), DecodeError> {
        if self.schema == header && !self.begun && !header.is_empty() {
            self.begun = true;
            return Ok(());
        }
        let message = message(header)?;
        if let Some(schema) = message.header_as_schema() {
            self.layout = Layout::of(schema)?;
            self.schema.clear();
            self.schema.extend_from_slice(header);
            self.begun = true;
        } else if let Some(batch) = message.header_as_record_batch() {
            if !self.begun {
                return Err(DecodeError("rows come before their schema"));
            }
            self.layout.read(&batch, body, ids, scores)?;
        }
        // Anything else is a dictionary, of columns that nobody reads here.
        Ok(())
    }

    /// The stream has a column that says which rows they are.
    pub fn has_ids(&self) -> bool {
        self.begun && self.layout.id.is_some()
    }

    /// Read the messages of a stream in Arrow's own framing.
    pub fn stream(
        &mut self,
        bytes: &[u8],
        ids: &mut Vec<i64>,
        scores: &mut Vec<f32>,
    ) -> Result<(), DecodeError> {
        self.begin();
        framed(bytes, |header, body| {
            self.message(header, body, ids, scores)
        })
    }
}

/// Hand over each message of a stream in Arrow's own framing, and its body.
pub fn framed(
    bytes: &[u8],
    mut take: impl FnMut(&[u8], &[u8]) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    const SHORT: DecodeError = DecodeError("an Arrow stream ends within a message");
    let mut rest = bytes;
    while !rest.is_empty() {
        // Four bytes that continue the stream, then the length of the header: 0 at the end.
        let (mark, after) = rest.split_first_chunk::<4>().ok_or(SHORT)?;
        if *mark != [0xff; 4] {
            return Err(DecodeError("the bytes are no Arrow stream"));
        }
        let (length, after) = after.split_first_chunk::<4>().ok_or(SHORT)?;
        let length = u32::from_le_bytes(*length) as usize;
        if length == 0 {
            return Ok(());
        }
        let (header, after) = after.split_at_checked(length).ok_or(SHORT)?;
        let body = usize::try_from(message(header)?.bodyLength()).map_err(|_| SHORT)?;
        let (body, after) = after.split_at_checked(body).ok_or(SHORT)?;
        take(header, body)?;
        rest = after;
    }
    Ok(())
}

impl Layout {
    fn of(schema: arrow_ipc::Schema<'_>) -> Result<Self, DecodeError> {
        let schema = try_fb_to_schema(schema)
            .map_err(|_| DecodeError("an Arrow schema has a column of no known type"))?;
        let (mut out, mut buffers) = (Self::default(), 0);
        for field in schema.fields() {
            // The first buffer says which values are there.
            let (kind, values) = (field.data_type(), buffers + 1);
            match field.name().as_str() {
                "id" => out.id = integer_type(kind).map(|of| (values, of)),
                "score" => out.score = float_type(kind).map(|of| (values, of)),
                _ => {}
            }
            buffers += count_buffers(kind)?;
        }
        Ok(out)
    }

    fn read(
        &self,
        batch: &RecordBatch<'_>,
        body: &[u8],
        ids: &mut Vec<i64>,
        scores: &mut Vec<f32>,
    ) -> Result<(), DecodeError> {
        if batch.compression().is_some() {
            return Err(DecodeError("the rows are compressed"));
        }
        let rows =
            usize::try_from(batch.length()).map_err(|_| DecodeError("fewer rows than none"))?;
        let column = |place: usize, width: usize| {
            let buffers = batch.buffers().filter(|all| place < all.len());
            let found = buffers.and_then(|all| {
                let buffer = all.get(place);
                let start = usize::try_from(buffer.offset()).ok()?;
                let length = usize::try_from(buffer.length()).ok()?;
                let wanted = rows.checked_mul(width).filter(|wanted| *wanted <= length)?;
                body.get(start..start.checked_add(wanted)?)
            });
            found.ok_or(DecodeError("a column lies outside its batch"))
        };
        if let Some((place, Integer { width, signed })) = self.id {
            let bytes = column(place, width)?;
            let read = |value: &[u8]| integer(value, signed);
            ids.extend(bytes.chunks_exact(width).map(read));
        }
        match self.score {
            Some((place, Float::Single)) => {
                let values = column(place, 4)?.as_chunks::<4>().0.iter();
                scores.extend(values.map(|x| f32::from_le_bytes(*x)));
            }
            Some((place, Float::Double)) => {
                let values = column(place, 8)?.as_chunks::<8>().0.iter();
                scores.extend(values.map(|x| f64::from_le_bytes(*x) as f32));
            }
            None => {}
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

fn integer_type(kind: &DataType) -> Option<Integer> {
    let width = kind.is_integer().then(|| kind.primitive_width())??;
    let signed = kind.is_signed_integer();
    Some(Integer { width, signed })
}

fn float_type(kind: &DataType) -> Option<Float> {
    match kind {
        DataType::Float32 => Some(Float::Single),
        DataType::Float64 => Some(Float::Double),
        _ => None,
    }
}

/// Buffers of a column in the body of a batch, those of the columns within too.
fn count_buffers(kind: &DataType) -> Result<usize, DecodeError> {
    use DataType::{
        Binary, Boolean, Dictionary, FixedSizeBinary, FixedSizeList, LargeBinary, LargeList,
        LargeUtf8, List, Map, Null, Struct, Utf8,
    };
    Ok(match kind {
        Null => 0,
        Binary | LargeBinary | Utf8 | LargeUtf8 => 3,
        List(item) | LargeList(item) | Map(item, _) => 2 + count_buffers(item.data_type())?,
        FixedSizeList(item, _) => 1 + count_buffers(item.data_type())?,
        Struct(fields) => {
            let within = fields.iter().map(|field| count_buffers(field.data_type()));
            1 + within.sum::<Result<usize, _>>()?
        }
        Boolean | FixedSizeBinary(_) | Dictionary(..) => 2,
        primitive if primitive.is_primitive() => 2,
        _ => return Err(DecodeError("a column has a type that is not read here")),
    })
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
}
