//! A reader of Protocol Buffers that takes any bytes and allocates nothing. What is sent is encoded
//! by `prost`.

use crate::codec::DecodeError;

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    Number(u64),
    Fixed64([u8; 8]),
    Bytes(&'a [u8]),
    Fixed32([u8; 4]),
}

const WRONG_TYPE: DecodeError = DecodeError("a field has another wire type");

impl<'a> Value<'a> {
    /// The bytes of a string, message or packed field; none where the wire says something else.
    pub fn bytes(self) -> Result<&'a [u8], DecodeError> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(WRONG_TYPE),
        }
    }

    pub fn number(self) -> Result<u64, DecodeError> {
        match self {
            Value::Number(value) => Ok(value),
            _ => Err(WRONG_TYPE),
        }
    }

    pub fn float(self) -> Result<f32, DecodeError> {
        match self {
            Value::Fixed32(bytes) => Ok(f32::from_le_bytes(bytes)),
            _ => Err(WRONG_TYPE),
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
    use prost::Message;

    #[derive(Message)]
    struct Sample {
        #[prost(uint64, optional, tag = 1)]
        number: Option<u64>,
        #[prost(int64, repeated, tag = 3)]
        ints: Vec<i64>,
        #[prost(float, repeated, tag = 4)]
        floats: Vec<f32>,
        #[prost(bytes = "vec", optional, tag = 700)]
        text: Option<Vec<u8>>,
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(number: u64, text: Vec<u8>, ints: Vec<i64>, floats: Vec<f32>) {
            let sample = Sample {
                number: Some(number),
                ints: ints.clone(),
                floats: floats.clone(),
                text: Some(text.clone()),
            };
            let out = sample.encode_to_vec();
            let mut reader = Reader(&out);
            prop_assert_eq!(reader.field(), Ok(Some((1, Value::Number(number)))));
            let (mut seen, mut near) = (vec![], vec![]);
            if !ints.is_empty() {
                packed_ints(reader.field().unwrap().unwrap().1.bytes().unwrap(), &mut seen).unwrap();
            }
            if !floats.is_empty() {
                packed_floats(reader.field().unwrap().unwrap().1.bytes().unwrap(), &mut near).unwrap();
            }
            prop_assert_eq!(reader.field(), Ok(Some((700, Value::Bytes(&text)))));
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
