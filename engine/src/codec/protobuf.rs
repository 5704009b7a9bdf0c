//! Protocol Buffers by hand: the few fields that are sent, and a reader that takes any bytes.

use crate::codec::DecodeError;

/// Append a varint.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Append an integer, enum or bool field. Negative numbers are cast to u64, as int64 is.
pub fn put_number(out: &mut Vec<u8>, field: u32, value: u64) {
    put_varint(out, u64::from(field) << 3);
    put_varint(out, value);
}

/// Append a string, bytes, message or packed field.
pub fn put_bytes(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    put_varint(out, u64::from(field) << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Append a message field that `write` fills.
pub fn put_message(out: &mut Vec<u8>, field: u32, write: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    write(&mut inner);
    put_bytes(out, field, &inner);
}

/// Append packed float32 (or the little-endian bytes of a vector).
pub fn put_floats(out: &mut Vec<u8>, field: u32, values: &[f32]) {
    put_varint(out, u64::from(field) << 3 | 2);
    put_varint(out, values.len() as u64 * 4);
    out.extend(values.iter().flat_map(|x| x.to_le_bytes()));
}

/// Append a float32 or fixed32 field by its four bytes.
pub fn put_fixed32(out: &mut Vec<u8>, field: u32, value: [u8; 4]) {
    put_varint(out, u64::from(field) << 3 | 5);
    out.extend_from_slice(&value);
}

/// Append a double or fixed64 field by its eight bytes.
pub fn put_fixed64(out: &mut Vec<u8>, field: u32, value: [u8; 8]) {
    put_varint(out, u64::from(field) << 3 | 1);
    out.extend_from_slice(&value);
}

/// Append packed varints.
pub fn put_packed(out: &mut Vec<u8>, field: u32, values: impl IntoIterator<Item = u64>) {
    put_message(out, field, |inner| {
        values
            .into_iter()
            .for_each(|value| put_varint(inner, value))
    });
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    Number(u64),
    Fixed64([u8; 8]),
    Bytes(&'a [u8]),
    Fixed32([u8; 4]),
}

impl<'a> Value<'a> {
    /// The bytes of a string, message or packed field; none where the wire says something else.
    pub fn bytes(self) -> Result<&'a [u8], DecodeError> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(DecodeError("a field has another wire type")),
        }
    }

    pub fn number(self) -> Result<u64, DecodeError> {
        match self {
            Value::Number(value) => Ok(value),
            _ => Err(DecodeError("a field has another wire type")),
        }
    }

    pub fn float(self) -> Result<f32, DecodeError> {
        match self {
            Value::Fixed32(bytes) => Ok(f32::from_le_bytes(bytes)),
            _ => Err(DecodeError("a field has another wire type")),
        }
    }
}

/// Reads the fields of a message one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next field, or None at the end.
    #[inline]
    pub fn field(&mut self) -> Result<Option<(u32, Value<'a>)>, DecodeError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Fixed64(self.array()?),
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Fixed32(self.array()?),
            _ => return Err(DecodeError("a field has a wire type that does not exist")),
        };
        let field =
            u32::try_from(tag >> 3).map_err(|_| DecodeError("a field's number is too great"))?;
        Ok(Some((field, value)))
    }

    #[inline]
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0;
        for (at, byte) in self.0.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7f) << (7 * at);
            if *byte < 0x80 {
                self.0 = &self.0[at + 1..];
                return Ok(value);
            }
        }
        Err(DecodeError("a number has no end"))
    }

    #[inline]
    fn take(&mut self, length: u64) -> Result<&'a [u8], DecodeError> {
        if length > self.0.len() as u64 {
            return Err(DecodeError("a field is longer than its message"));
        }
        let (taken, rest) = self.0.split_at(length as usize);
        self.0 = rest;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self
            .0
            .split_first_chunk()
            .ok_or(DecodeError("a field is longer than its message"))?;
        self.0 = rest;
        Ok(*taken)
    }
}

/// Read packed int64 varints.
pub fn packed_ints(bytes: &[u8], out: &mut Vec<i64>) -> Result<(), DecodeError> {
    let mut reader = Reader(bytes);
    while !reader.0.is_empty() {
        out.push(reader.varint()? as i64);
    }
    Ok(())
}

/// Read packed float32.
pub fn packed_floats(bytes: &[u8], out: &mut Vec<f32>) -> Result<(), DecodeError> {
    if !bytes.len().is_multiple_of(4) {
        return Err(DecodeError("packed floats end within a float"));
    }
    let floats = bytes.chunks_exact(4);
    out.extend(floats.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(number: u64, text: Vec<u8>, ints: Vec<i64>, floats: Vec<f32>) {
            let mut out = Vec::new();
            put_number(&mut out, 1, number);
            put_bytes(&mut out, 700, &text);
            put_packed(&mut out, 3, ints.iter().map(|i| *i as u64));
            put_floats(&mut out, 4, &floats);
            let mut reader = Reader(&out);
            prop_assert_eq!(reader.field(), Ok(Some((1, Value::Number(number)))));
            prop_assert_eq!(reader.field(), Ok(Some((700, Value::Bytes(&text)))));
            let (mut seen, mut near) = (vec![], vec![]);
            packed_ints(reader.field().unwrap().unwrap().1.bytes().unwrap(), &mut seen).unwrap();
            packed_floats(reader.field().unwrap().unwrap().1.bytes().unwrap(), &mut near).unwrap();
            prop_assert_eq!(seen, ints);
            prop_assert!(near.iter().zip(&floats).all(|(a, b)| a.to_bits() == b.to_bits()));
            prop_assert_eq!((near.len(), reader.field()), (floats.len(), Ok(None)));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let mut reader = Reader(&bytes);
            while let Ok(Some((_, value))) = reader.field() {
                if let Ok(inner) = value.bytes() {
                    let _ = packed_ints(inner, &mut vec![]);
                    let _ = packed_floats(inner, &mut vec![]);
                }
            }
        }
    }
}
