//! RESP, versions 2 and 3: where replies end, and a reader of what they hold. Neither panics on
//! any bytes.

use crate::protocol::Failure;

/// Beyond these, a reply is taken for garbage.
const LONGEST_TEXT: i64 = 1 << 29;
const LONGEST_LINE: usize = 1 << 16;
const MOST_ITEMS: i64 = 1 << 26;

/// Append a command: its name and arguments, each as its bytes.
pub fn put_command(out: &mut Vec<u8>, parts: &[&[u8]]) {
    put_count(out, b'*', parts.len());
    for part in parts {
        put_text(out, part);
    }
}

/// Append a bulk string.
pub fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put_count(out, b'$', text.len());
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

/// Append the head of a bulk string or an aggregate.
pub fn put_count(out: &mut Vec<u8>, kind: u8, count: usize) {
    out.push(kind);
    out.extend_from_slice(count.to_string().as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// One item of a reply; an aggregate is its head, and its items follow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Item<'a> {
    /// A string of any kind.
    Text(&'a [u8]),
    Error(&'a [u8]),
    Integer(i64),
    Double(f64),
    Bool(bool),
    Null,
    /// An array or set of so many items.
    Array(usize),
    /// So many pairs of items.
    Map(usize),
    /// So many items beside the answer: attributes, and what the server says unasked.
    Aside(usize),
}

impl Item<'_> {
    /// 1 when it is one of those that are counted.
    fn own(self) -> usize {
        usize::from(!matches!(self, Item::Aside(_)))
    }

    /// Items that follow and belong to this one.
    fn inner(self) -> usize {
        match self {
            Item::Array(count) | Item::Aside(count) => count,
            Item::Map(pairs) => 2 * pairs,
            _ => 0,
        }
    }
}

/// Reads one item after the other.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next item; None when its bytes have not all come.
    #[inline]
    pub fn raw(&mut self) -> Result<Option<Item<'a>>, Failure> {
        let Some((&kind, rest)) = self.0.split_first() else {
            return Ok(None);
        };
        let Some((line, rest)) = line(rest)? else {
            return Ok(None);
        };
        let mut after = rest;
        let item = match kind {
            b'+' | b'(' => Item::Text(line),
            b'-' => Item::Error(line),
            b':' => Item::Integer(integer(line)?),
            b'$' | b'=' | b'!' => {
                let length = integer(line)?;
                if length == -1 {
                    Item::Null
                } else {
                    let Some((text, rest)) = text(rest, length)? else {
                        return Ok(None);
                    };
                    after = rest;
                    match kind {
                        b'!' => Item::Error(text),
                        // Verbatim: three letters of a format and a colon come first.
                        b'=' => Item::Text(text.get(4..).unwrap_or(text)),
                        _ => Item::Text(text),
                    }
                }
            }
            b',' => Item::Double(double(line)?),
            b'#' => Item::Bool(line == b"t"),
            b'_' => Item::Null,
            b'*' | b'~' => match integer(line)? {
                -1 => Item::Null,
                length => Item::Array(count(length)?),
            },
            b'%' => Item::Map(count(integer(line)?)?),
            b'|' => Item::Aside(2 * count(integer(line)?)?),
            b'>' => Item::Aside(count(integer(line)?)?),
            _ => return Err(garbage("an item of a kind that does not exist")),
        };
        self.0 = after;
        Ok(Some(item))
    }

    /// The next item of a reply that has come as a whole; what stands beside it is passed over.
    #[inline]
    pub fn item(&mut self) -> Result<Item<'a>, Failure> {
        loop {
            match self.whole()? {
                Item::Aside(count) => self.skip(count)?,
                item => return Ok(item),
            }
        }
    }

    fn whole(&mut self) -> Result<Item<'a>, Failure> {
        self.raw()?.ok_or_else(|| garbage("the reply is too short"))
    }

    /// Pass over so many items with all that is in them.
    pub fn skip(&mut self, count: usize) -> Result<(), Failure> {
        let mut left = count;
        while left > 0 {
            let item = self.whole()?;
            left = left - item.own() + item.inner();
        }
        Ok(())
    }

    /// Pass over what is in an item.
    pub fn skip_inner(&mut self, item: Item<'_>) -> Result<(), Failure> {
        self.skip(item.inner())
    }
}

/// Finds the end of replies that come in pieces, without reading anything twice.
#[derive(Clone, Copy, Debug)]
pub struct Scan {
    at: usize,
    /// Items still to come.
    left: usize,
}

impl Scan {
    /// For so many replies, one after the other.
    pub fn new(replies: usize) -> Self {
        Self {
            at: 0,
            left: replies,
        }
    }

    /// Their length, when they are all there. `bytes` begins where it began the last time.
    pub fn advance(&mut self, bytes: &[u8]) -> Result<Option<usize>, Failure> {
        let mut reader = Reader(bytes.get(self.at..).unwrap_or_default());
        while self.left > 0 {
            let Some(item) = reader.raw()? else {
                self.at = bytes.len() - reader.0.len();
                return Ok(None);
            };
            self.left = self.left - item.own() + item.inner();
            if self.left > MOST_ITEMS as usize {
                return Err(garbage("a reply of too many items"));
            }
        }
        self.at = bytes.len() - reader.0.len();
        Ok(Some(self.at))
    }
}

/// A piece and what comes after it; None when the piece has not all come.
type Split<'a> = Result<Option<(&'a [u8], &'a [u8])>, Failure>;

/// What comes before the next CR LF.
#[inline]
fn line(bytes: &[u8]) -> Split<'_> {
    match bytes.iter().position(|byte| *byte == b'\r') {
        Some(at) if at > LONGEST_LINE => Err(garbage("a line does not end")),
        Some(at) => match bytes.get(at + 1) {
            Some(b'\n') => Ok(Some((&bytes[..at], &bytes[at + 2..]))),
            Some(_) => Err(garbage("a line ends in the midst")),
            None => Ok(None),
        },
        None if bytes.len() > LONGEST_LINE => Err(garbage("a line does not end")),
        None => Ok(None),
    }
}

/// A text of that length, with the CR LF after it.
#[inline]
fn text(bytes: &[u8], length: i64) -> Split<'_> {
    if !(0..=LONGEST_TEXT).contains(&length) {
        return Err(garbage("a text of an impossible length"));
    }
    let length = length as usize;
    match bytes.get(length..length + 2) {
        Some(b"\r\n") => Ok(Some((&bytes[..length], &bytes[length + 2..]))),
        Some(_) => Err(garbage("a text is longer than it says")),
        None => Ok(None),
    }
}

fn count(length: i64) -> Result<usize, Failure> {
    match length {
        0..=MOST_ITEMS => Ok(length as usize),
        _ => Err(garbage("an aggregate of an impossible length")),
    }
}

#[inline]
fn integer(line: &[u8]) -> Result<i64, Failure> {
    number(line).ok_or_else(|| garbage("an integer that is none"))
}

/// A decimal number, and nothing else.
#[inline]
pub fn number(digits: &[u8]) -> Option<i64> {
    let (negative, rest) = match digits.split_first()? {
        (b'-', rest) => (true, rest),
        (b'+', rest) => (false, rest),
        _ => (false, digits),
    };
    if rest.is_empty() {
        return None;
    }
    let mut value: i64 = 0;
    for byte in rest {
        let digit = i64::from(byte.wrapping_sub(b'0'));
        if digit > 9 {
            return None;
        }
        // Towards the sign, so that the smallest number is read too.
        let digit = if negative { -digit } else { digit };
        value = value.checked_mul(10)?.checked_add(digit)?;
    }
    Some(value)
}

pub fn double(text: &[u8]) -> Result<f64, Failure> {
    let parsed = std::str::from_utf8(text).ok().and_then(|t| t.parse().ok());
    parsed.ok_or_else(|| garbage("a number that is none"))
}

/// Where the next reply begins is not known any more.
pub fn garbage(what: &str) -> Failure {
    Failure::broken("garbage", format!("RESP: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A reply with everything in it.
    fn reply() -> impl Strategy<Value = Vec<u8>> {
        let leaf = prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..9).prop_map(|text| {
                let mut out = vec![];
                put_text(&mut out, &text);
                out
            }),
            any::<i64>().prop_map(|value| format!(":{value}\r\n").into_bytes()),
            any::<f64>().prop_map(|value| format!(",{value}\r\n").into_bytes()),
            Just(b"+OK\r\n".to_vec()),
            Just(b"-ERR no\r\n".to_vec()),
            Just(b"$-1\r\n".to_vec()),
            Just(b"_\r\n".to_vec()),
            Just(b"#t\r\n".to_vec()),
            Just(b"=7\r\ntxt:abc\r\n".to_vec()),
            Just(b">1\r\n+aside\r\n:1\r\n".to_vec()),
            Just(b"|1\r\n+ttl\r\n:3\r\n+value\r\n".to_vec()),
        ];
        leaf.prop_recursive(3, 40, 6, |inner| {
            (proptest::collection::vec(inner, 0..6), any::<bool>()).prop_map(|(items, map)| {
                let mut out = vec![];
                let pairs = map && items.len() % 2 == 0;
                let (kind, count) = if pairs {
                    (b'%', items.len() / 2)
                } else {
                    (b'*', items.len())
                };
                put_count(&mut out, kind, count);
                out.extend(items.concat());
                out
            })
        })
    }

    fn end(bytes: &[u8], replies: usize, cuts: &[usize]) -> Result<Option<usize>, String> {
        let mut scan = Scan::new(replies);
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
        ends.sort_unstable();
        ends.push(bytes.len());
        for end in ends {
            let seen = scan
                .advance(&bytes[..end])
                .map_err(|failure| failure.message)?;
            if seen.is_some() {
                return Ok(seen);
            }
        }
        Ok(None)
    }

    proptest! {
        #[test]
        fn replies_end_where_they_end_however_they_come(
            replies in proptest::collection::vec(reply(), 1..5),
            rest: Vec<u8>,
            cuts in proptest::collection::vec(any::<usize>(), 0..8),
        ) {
            let whole = replies.concat();
            let bytes = [&whole[..], &rest].concat();
            prop_assert_eq!(end(&bytes, replies.len(), &cuts), Ok(Some(whole.len())));
            prop_assert_eq!(end(&whole[..whole.len() - 1], replies.len(), &cuts), Ok(None));
            let mut reader = Reader(&whole);
            reader.skip(replies.len()).unwrap();
            prop_assert!(reader.0.is_empty());
        }

        #[test]
        fn a_changed_byte_gives_the_same_however_it_comes(
            reply in reply(),
            at: proptest::sample::Index,
            byte: u8,
            cuts in proptest::collection::vec(any::<usize>(), 0..8),
        ) {
            let mut bytes = reply;
            let at = at.index(bytes.len());
            bytes[at] = byte;
            prop_assert_eq!(end(&bytes, 1, &cuts), end(&bytes, 1, &[]));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, cuts: Vec<usize>, replies in 0usize..9) {
            let _ = end(&bytes, replies, &cuts);
            let _ = Reader(&bytes).skip(replies);
        }

        #[test]
        fn integers_are_read(value: i64) {
            prop_assert_eq!(number(value.to_string().as_bytes()), Some(value));
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for wrong in [
            "$-2\r\n",
            "$99999999999\r\n",
            "*-5\r\n",
            "*99999999999\r\n",
            "%99999999\r\n",
            ":\r\n",
            ":1x\r\n",
            ":9223372036854775808\r\n",
            "$1\r\nabc\r\n",
            "+a\rb",
            "?\r\n",
            ",x\r\n",
        ] {
            assert!(Scan::new(1).advance(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
        assert!(Scan::new(1).advance(&[b'1'; LONGEST_LINE + 2]).is_err());
    }
}
