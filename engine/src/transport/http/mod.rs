//! HTTP/1.1, one request at a time on a connection that stays open.
//!
//! A request is one run of bytes, head and body, made before the clock starts; its answer is read
//! into a buffer that is used again, and decoded where it lies. There is no task beside the
//! client's, no map of headers, and nothing allocated per request. Heads are parsed by `httparse`.

mod framing;
mod inbox;

use std::io::Write;

use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Answer, Connection, Failure, Operation, Prepared, Target};
use crate::transport::tcp::{self, Stream};
use inbox::Inbox;

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
        self.inbox.clear();
        self.stream.write_all(&request.body).await?;
        self.stream.flush().await?;
        while !self.inbox.advance()? {
            self.inbox.reserve();
            if self.stream.read_buf(&mut self.inbox.bytes).await? == 0 {
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
