//! HTTP/1.1, one request at a time on a connection that is kept.
//!
//! A request is one run of bytes, head and body, made before the clock starts; its answer is read
//! into a buffer that is used again, and decoded where it lies. There is no task beside the
//! caller's, no map of headers, and nothing allocated per request. Heads are parsed by `httparse`.

use std::io::Write;

use bytes::BytesMut;
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue};
use httparse::Status;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Answer, Connection, Failure, Operation, Prepared, Target};
use crate::transport::tcp::{self, Stream};

/// A body longer than this is taken for garbage, and so is a head.
const LONGEST: usize = 1 << 30;
const LONGEST_HEAD: usize = 1 << 16;
const MOST_HEADERS: usize = 100;
/// Room made for what is read next.
const READ: usize = 1 << 14;

/// What a protocol over HTTP adds to the transport: how an answer's body is read.
pub trait Decode: Clone + 'static {
    /// Read ids and scores out of an answer with a status of success, or find the failure that it
    /// tells of.
    fn decode(&self, request: &Prepared, body: &[u8], answer: &mut Answer) -> Result<(), Failure>;

    /// What an answer with another status tells.
    fn refusal(&self, body: &[u8]) -> String;
}

/// A connection of a protocol over HTTP.
pub struct Http<D> {
    stream: Stream,
    inbox: Inbox,
    decoder: D,
}

impl<D: Decode> Http<D> {
    pub async fn connect(target: &Target, decoder: D) -> Result<Self, Failure> {
        Ok(Self {
            stream: tcp::connect(target, &["http/1.1"]).await?,
            inbox: Inbox::default(),
            decoder,
        })
    }
}

impl<D: Decode> Connection for Http<D> {
    fn is_closed(&self) -> bool {
        self.inbox.last || self.stream.hung_up()
    }

    async fn call(&mut self, request: &Prepared, answer: &mut Answer) -> Result<(), Failure> {
        let io = |error| Failure::io(&error);
        self.inbox.clear();
        self.stream.write_all(&request.body).await.map_err(io)?;
        self.stream.flush().await.map_err(io)?;
        while !self.inbox.advance()? {
            self.inbox.reserve();
            if self
                .stream
                .read_buf(&mut self.inbox.bytes)
                .await
                .map_err(io)?
                == 0
            {
                self.inbox.end()?;
                break;
            }
        }
        let (status, body) = (self.inbox.status, self.inbox.body());
        if (200..300).contains(&status) {
            return self.decoder.decode(request, body, answer);
        }
        let message = self.decoder.refusal(body);
        Err(Failure::new(format!("http:{status}"), message))
    }
}

/// Start line and headers of the requests of a class, all but the length of the body.
pub struct Head(Vec<u8>);

/// `path` has the query with it; `kind` is the body's content type.
pub fn post(target: &Target, path: &str, kind: &str) -> Result<Head, InvalidArgument> {
    let path = PathAndQuery::try_from(path)
        .map_err(|error| InvalidArgument(format!("'{path}' is no path of an address: {error}")))?;
    let mut out = format!("POST {path} HTTP/1.1\r\nhost: {}\r\n", target.authority()).into_bytes();
    let own = [("content-type", kind), ("accept", "application/json")];
    let given = target
        .headers
        .iter()
        .map(|(name, value)| (&name[..], &value[..]));
    for (name, value) in own.into_iter().chain(given) {
        let wrong =
            |what: String| InvalidArgument(format!("the header '{name}' cannot be sent: {what}"));
        let name = HeaderName::try_from(name).map_err(|error| wrong(error.to_string()))?;
        let value = HeaderValue::try_from(value).map_err(|error| wrong(error.to_string()))?;
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    Ok(Head(out))
}

impl Head {
    /// A request with that body.
    pub fn request(&self, operation: Operation, body: &[u8], rows: usize) -> Prepared {
        let mut out = Vec::with_capacity(self.0.len() + body.len() + 40);
        out.extend_from_slice(&self.0);
        // Writing to memory does not fail.
        let _ = write!(out, "content-length: {}\r\n\r\n", body.len());
        out.extend_from_slice(body);
        out.shrink_to_fit();
        Prepared::plain(operation, out.into(), rows)
    }
}

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
struct Inbox {
    bytes: BytesMut,
    stage: Stage,
    /// What lies before it was read.
    at: usize,
    status: u16,
    /// Where a body in one piece begins.
    from: usize,
    /// The chunks of a body that comes in such, and whether it does.
    chunks: Vec<u8>,
    chunked: bool,
    /// No answer follows on this connection.
    last: bool,
}

impl Inbox {
    /// Ready for the next answer, in the same memory.
    fn clear(&mut self) {
        self.bytes.clear();
        self.chunks.clear();
        (self.stage, self.at, self.chunked) = (Stage::Head, 0, false);
    }

    /// Room for what comes next.
    fn reserve(&mut self) {
        let known = match self.stage {
            Stage::Sized { until } => until - self.bytes.len(),
            _ => 0,
        };
        self.bytes.reserve(known.clamp(READ, 1 << 20));
    }

    fn body(&self) -> &[u8] {
        if self.chunked {
            &self.chunks
        } else {
            &self.bytes[self.from..]
        }
    }

    /// Read on; true when the answer is whole.
    fn advance(&mut self) -> Result<bool, Failure> {
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
    fn end(&mut self) -> Result<(), Failure> {
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

/// What headers say about where the answer ends, and whether another may follow.
#[derive(Debug, Default)]
struct Framing {
    length: Option<usize>,
    chunked: bool,
    close: bool,
}

impl Framing {
    /// `current`: HTTP/1.1, whose connections are kept where nothing else is said.
    fn of(headers: &[httparse::Header<'_>], current: bool) -> Result<Self, Failure> {
        let mut out = Self {
            close: !current,
            ..Self::default()
        };
        for header in headers {
            let (name, value) = (header.name, header.value.trim_ascii());
            if name.eq_ignore_ascii_case("content-length") {
                let length = length(value)?;
                if out
                    .length
                    .replace(length)
                    .is_some_and(|other| other != length)
                {
                    return Err(garbage("the answer has two lengths"));
                }
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                if out.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(garbage(
                        "the answer has a transfer encoding we never asked for",
                    ));
                }
                out.chunked = true;
            } else if name.eq_ignore_ascii_case("connection") {
                for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                    out.close |= option.eq_ignore_ascii_case(b"close");
                    out.close &= !option.eq_ignore_ascii_case(b"keep-alive");
                }
            } else if name.eq_ignore_ascii_case("content-encoding")
                && !value.eq_ignore_ascii_case(b"identity")
            {
                return Err(garbage(
                    "the answer is compressed, which we never asked for",
                ));
            }
        }
        Ok(out)
    }
}

fn length(value: &[u8]) -> Result<usize, Failure> {
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(value).ok().filter(|_| digits);
    match text.and_then(|text| text.parse::<usize>().ok()) {
        Some(length) if length <= LONGEST => Ok(length),
        Some(_) => Err(garbage("the answer is longer than 1 GiB")),
        None => Err(garbage("the answer's length is no number")),
    }
}

/// Where the next answer begins is not known any more.
fn garbage(what: &str) -> Failure {
    Failure::broken("garbage", what)
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
