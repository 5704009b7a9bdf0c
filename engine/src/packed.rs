//! Records as bytes, to be merged in another process. Not a format to keep: both ends are the same
//! build.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::histogram;
use crate::misuse::Misuse;

/// Something that can be written to bytes and read back, whole and unchanged.
pub trait Packed: Sized {
    fn put(&self, out: &mut Vec<u8>);

    /// Read one, and leave what comes after it.
    fn take(bytes: &mut &[u8]) -> Result<Self, Misuse>;
}

fn broken() -> Misuse {
    Misuse("these bytes are not a packed record".into())
}

fn split<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8], Misuse> {
    let (first, rest) = bytes.split_at_checked(length).ok_or_else(broken)?;
    *bytes = rest;
    Ok(first)
}

macro_rules! numbers {
    ($($kind:ty),*) => {$(
        impl Packed for $kind {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend(self.to_le_bytes());
            }

            fn take(bytes: &mut &[u8]) -> Result<Self, Misuse> {
                let first = split(bytes, size_of::<$kind>())?;
                Ok(Self::from_le_bytes(first.try_into().map_err(|_| broken())?))
            }
        }
    )*};
}

numbers!(u8, u64, i64, u128);

/// A struct, field by field.
macro_rules! packed {
    ($kind:ty { $($field:ident),* }) => {
        impl $crate::packed::Packed for $kind {
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::packed::Packed::put(&self.$field, out);)*
            }

            fn take(bytes: &mut &[u8]) -> Result<Self, $crate::misuse::Misuse> {
                Ok(Self { $($field: $crate::packed::Packed::take(bytes)?),* })
            }
        }
    };
}
pub(crate) use packed;

impl<T: Packed> Packed for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_some()));
        if let Some(one) = self {
            one.put(out);
        }
    }

    fn take(bytes: &mut &[u8]) -> Result<Self, Misuse> {
        match u8::take(bytes)? {
            0 => Ok(None),
            1 => T::take(bytes).map(Some),
            _ => Err(broken()),
        }
    }
}

impl<T: Packed> Packed for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        self.iter().for_each(|one| one.put(out));
    }

    fn take(bytes: &mut &[u8]) -> Result<Self, Misuse> {
        let length = u64::take(bytes)?;
        // What is not there ends it: nothing is set aside for a length that may be a lie.
        (0..length).map(|_| T::take(bytes)).collect()
    }
}

impl<A: Packed, B: Packed> Packed for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(bytes: &mut &[u8]) -> Result<Self, Misuse> {
        Ok((A::take(bytes)?, B::take(bytes)?))
    }
}

impl Packed for String {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        out.extend(self.as_bytes());
    }

    fn take(bytes: &mut &[u8]) -> Result<Self, Misuse> {
        let length = usize::try_from(u64::take(bytes)?).map_err(|_| broken())?;
        String::from_utf8(split(bytes, length)?.to_vec()).map_err(|_| broken())
    }
}

impl<K: Packed + Ord, V: Packed> Packed for BTreeMap<K, V> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        for (key, value) in self {
            key.put(out);
            value.put(out);
        }
    }

    fn take(bytes: &mut &[u8]) -> Result<Self, Misuse> {
        let length = u64::take(bytes)?;
        (0..length).map(|_| <(K, V)>::take(bytes)).collect()
    }
}

impl Packed for Histogram<u64> {
    fn put(&self, out: &mut Vec<u8>) {
        histogram::encode(self).put(out);
    }

    /// One of the layout that all latencies have.
    fn take(bytes: &mut &[u8]) -> Result<Self, Misuse> {
        let read = histogram::decode(&Vec::<u8>::take(bytes)?)?;
        let mut out = histogram::empty(read.sigfig());
        if read.high() != out.high() {
            return Err(broken());
        }
        histogram::add(&mut out, &read);
        Ok(out)
    }
}
