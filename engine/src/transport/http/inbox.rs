//! An answer as it comes in pieces.

use bytes::BytesMut;
use httparse::Status;

use super::framing::{garbage, Framing, LONGEST};
use crate::protocol::Failure;

/// A head longer than this is taken for garbage.
const LONGEST_HEAD: usize = 1 << 16;
const MOST_HEADERS: usize = 100;
/// Room made for what is read next.
const READ: usize = 1 << 14;

/// How an answer's end is found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Stage {
    #[default]
    Head,
    /// The body ends there.
    Sized {
        until: usize,
    },
    Chunked,
    /// It ends with the connection.
    Open,
    Done,
}

/// Takes the pieces of an answer as they come.
#[derive(Debug, Default)]
pub struct Inbox {
    pub bytes: BytesMut,
    stage: Stage,
    /// What lies before it was read.
    at: usize,
    pub status: u16,
    /// Where a body in one piece begins.
    from: usize,
    /// The chunks of a body that comes in such, and whether it does.
    chunks: Vec<u8>,
    chunked: bool,
    /// No answer follows on this connection.
    pub last: bool,
}

impl Inbox {
    /// Ready for the next answer, in the same memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.chunks.clear();
        (self.stage, self.at, self.chunked) = (Stage::Head, 0, false);
    }

    /// Room for what comes next.
    pub fn reserve(&mut self) {
        let known = match self.stage {
            Stage::Sized { until } => until - self.bytes.len(),
            _ => 0,
        };
        self.bytes.reserve(known.clamp(READ, 1 << 20));
    }

    pub fn body(&self) -> &[u8] {
        if self.chunked {
            &self.chunks
        } else {
            &self.bytes[self.from..]
        }
    }

    /// Read on; true when the answer is whole.
    pub fn advance(&mut self) -> Result<bool, Failure> {
        loop {
            let more = match self.stage {
                Stage::Head => self.head()?,
                Stage::Sized { until } => self.sized(until),
                Stage::Chunked => self.chunk()?,
                Stage::Open if self.bytes.len() - self.from > LONGEST => {
                    return Err(garbage("the answer is longer than 1 GiB"));
                }
                Stage::Open => false,
                Stage::Done if self.bytes.len() > self.at => {
                    return Err(garbage("bytes follow the answer"));
                }
                Stage::Done => return Ok(true),
            };
            if !more {
                return Ok(false);
            }
        }
    }

    /// The server has closed the connection.
    pub fn end(&mut self) -> Result<(), Failure> {
        self.last = true;
        match self.stage {
            Stage::Open => Ok(()),
            Stage::Head if self.bytes.is_empty() => Err(Failure::broken(
                "reset",
                "the server closed the connection instead of answering",
            )),
            _ => Err(Failure::broken(
                "truncated",
                "the connection was closed before the answer's end",
            )),
        }
    }

    /// Status and framing.
    fn head(&mut self) -> Result<bool, Failure> {
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut head = httparse::Response::new(&mut headers);
        let length = match head.parse(&self.bytes[self.at..]) {
            Ok(Status::Complete(length)) => length,
            Ok(Status::Partial) if self.bytes.len() > LONGEST_HEAD => {
                return Err(garbage("the head of the answer does not end"));
            }
            Ok(Status::Partial) => return Ok(false),
            Err(error) => return Err(garbage(&format!("the answer is not HTTP/1.1: {error}"))),
        };
        self.status = head.code.unwrap_or_default();
        let framing = Framing::of(head.headers, head.version == Some(1))?;
        self.at += length;
        if self.status == 101 {
            return Err(garbage("the server turns to another protocol"));
        }
        if (100..200).contains(&self.status) {
            return Ok(true); // The answer proper follows.
        }
        self.last = framing.close;
        self.from = self.at;
        self.chunked = framing.chunked;
        self.stage = match framing.length {
            _ if matches!(self.status, 204 | 304) => Stage::Sized { until: self.at },
            _ if framing.chunked => Stage::Chunked,
            Some(length) => Stage::Sized {
                until: self.at + length,
            },
            None => {
                self.last = true;
                Stage::Open
            }
        };
        Ok(true)
    }

    fn sized(&mut self, until: usize) -> bool {
        let whole = self.bytes.len() >= until;
        if whole {
            (self.at, self.stage) = (until, Stage::Done);
        }
        whole
    }

    /// One chunk, when it is there as a whole.
    fn chunk(&mut self) -> Result<bool, Failure> {
        let rest = &self.bytes[self.at..];
        let (line, size) = match httparse::parse_chunk_size(rest) {
            Ok(Status::Complete(found)) => found,
            Ok(Status::Partial) if rest.len() > LONGEST_HEAD => {
                return Err(garbage("the size of a chunk does not end"));
            }
            Ok(Status::Partial) => return Ok(false),
            Err(_) => return Err(garbage("a chunk has no size")),
        };
        if size == 0 {
            return self.trailers(self.at + line);
        }
        if size > (LONGEST - self.chunks.len()) as u64 {
            return Err(garbage("the answer is longer than 1 GiB"));
        }
        let (size, rest) = (size as usize, &rest[line..]);
        if rest.len() < size + 2 {
            return Ok(false);
        }
        if &rest[size..size + 2] != b"\r\n" {
            return Err(garbage("a chunk is longer than it says"));
        }
        self.chunks.extend_from_slice(&rest[..size]);
        self.at += line + size + 2;
        Ok(true)
    }

    /// What may stand after the last chunk.
    fn trailers(&mut self, at: usize) -> Result<bool, Failure> {
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        match httparse::parse_headers(&self.bytes[at..], &mut headers) {
            Ok(Status::Complete((length, _))) => {
                (self.at, self.stage) = (at + length, Stage::Done);
                Ok(true)
            }
            Ok(Status::Partial) if self.bytes.len() - at > LONGEST_HEAD => {
                Err(garbage("the trailers of the answer do not end"))
            }
            Ok(Status::Partial) => Ok(false),
            Err(error) => Err(garbage(&format!("the answer's trailers: {error}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Status, body and whether the connection ends; or the class of the failure.
    type Seen = Result<(u16, Vec<u8>, bool), String>;

    /// What comes of bytes in pieces that end at `cuts`; None: more is waited for.
    fn read(bytes: &[u8], cuts: &[usize]) -> Option<Seen> {
        let mut inbox = Inbox::default();
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
        ends.push(bytes.len());
        ends.sort_unstable();
        let mut at = 0;
        let mut whole = false;
        for end in ends {
            inbox.bytes.extend_from_slice(&bytes[at..end]);
            at = end;
            match inbox.advance() {
                Ok(done) => whole = done,
                Err(failure) => {
                    assert!(failure.broken);
                    return Some(Err(failure.class.into()));
                }
            }
        }
        whole.then(|| Ok((inbox.status, inbox.body().to_vec(), inbox.last)))
    }

    fn chunked(pieces: &[Vec<u8>]) -> Vec<u8> {
        let mut out = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            out.extend(format!("{:x};name=value\r\n", piece.len()).bytes());
            out.extend_from_slice(piece);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"0\r\nx-trailer: 1\r\n\r\n");
        out
    }

    #[test]
    fn answers_end_where_they_say() {
        let ok = |text: &str| read(text.as_bytes(), &[]).unwrap().unwrap();
        assert_eq!(
            ok("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab"),
            (200, b"ab".to_vec(), false)
        );
        assert_eq!(
            ok("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"),
            (204, vec![], true)
        );
        assert!(!ok("HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 0\r\n\r\n").2);
        for wrong in [
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab",
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 1099511627776\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc\r\n",
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "SSH-2.0-OpenSSH_9.2\r\n",
        ] {
            let seen = read(wrong.as_bytes(), &[]);
            assert_eq!(seen, Some(Err("garbage".into())), "{wrong}");
        }
    }

    #[test]
    fn a_connection_that_closes_ends_an_answer_or_breaks_it() {
        let after = |bytes: &[u8]| {
            let mut inbox = Inbox::default();
            inbox.bytes.extend_from_slice(bytes);
            assert!(!inbox.advance().unwrap());
            inbox.end().map(|()| inbox.body().to_vec())
        };
        assert_eq!(after(b"").unwrap_err().class, "reset");
        assert_eq!(after(b"HTTP/1.1 200").unwrap_err().class, "truncated");
        let short = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab";
        assert_eq!(after(short).unwrap_err().class, "truncated");
        assert_eq!(after(b"HTTP/1.1 200 OK\r\n\r\nab").unwrap(), b"ab");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, cuts: Vec<usize>) {
            let _ = read(&bytes, &cuts);
            let after = [&b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"[..], &bytes].concat();
            let _ = read(&after, &cuts);
        }

        #[test]
        fn chunks_are_put_together_however_they_come(
            pieces: Vec<Vec<u8>>,
            cuts in proptest::collection::vec(any::<usize>(), 0..8),
        ) {
            let bytes = chunked(&pieces);
            prop_assert_eq!(read(&bytes, &cuts), Some(Ok((200, pieces.concat(), false))));
            prop_assert_eq!(read(&bytes[..bytes.len() - 1], &cuts), None);
        }

        #[test]
        fn a_changed_byte_gives_the_same_however_it_comes(
            pieces in proptest::collection::vec(any::<Vec<u8>>(), 0..3),
            at: proptest::sample::Index,
            byte: u8,
            cuts in proptest::collection::vec(any::<usize>(), 0..8),
        ) {
            let mut bytes = chunked(&pieces);
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let whole = read(&bytes, &[]);
            prop_assert_eq!(read(&bytes, &cuts), whole);
        }
    }
}
