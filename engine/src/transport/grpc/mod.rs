//! gRPC calls on `h2` itself: many in flight on one connection, no layers between. What a request
//! streams is prepared as a whole; what an answer streams is read message by message.

mod frames;
mod gather;
mod status;

use std::cell::Cell;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use h2::client::SendRequest;
use h2::RecvStream;
use http::Request;
use prost::Message;

use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Answer, Connection, Failure, Operation, Prepared, Target};
use crate::transport::tcp;
pub use frames::{framed, framed_bytes};
use frames::{message, messages, LONGEST};
use gather::Gathered;
use status::check;

/// Flow control never holds up answers of the sizes that searches have.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;

/// A handle on a connection.
#[derive(Clone)]
pub struct Grpc {
    send: SendRequest<Bytes>,
    closed: Rc<Cell<bool>>,
}

/// What a protocol over gRPC adds to the transport: how an answer's message is read.
pub trait Decode: 'static {
    /// Read ids and scores, or find the failure that a message tells of.
    fn decode(request: &Prepared, message: &[u8], answer: &mut Answer) -> Result<(), Failure>;
}

/// A connection of a protocol over gRPC.
pub struct Unary<D>(Grpc, PhantomData<D>);

impl<D: Decode> Unary<D> {
    pub async fn connect(target: &Target) -> Result<Self, Failure> {
        Ok(Self(connect(target).await?, PhantomData))
    }
}

impl<D: Decode> Connection for Unary<D> {
    fn share(&self) -> Option<Self> {
        Some(Self(self.0.clone(), PhantomData))
    }

    fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    fn room(&self) -> usize {
        self.0.send.current_max_send_streams()
    }

    async fn call(&mut self, request: &Prepared, answer: &mut Answer) -> Result<(), Failure> {
        let message = self.0.unary(request).await?;
        D::decode(request, &message, answer)
    }
}

/// What a protocol over gRPC adds whose answers are streams: how their messages are read. Each
/// handle on a connection has one, which begins anew with every answer.
pub trait Collect: Default + 'static {
    fn begin(&mut self);

    /// Read one message.
    fn message(
        &mut self,
        request: &Prepared,
        message: &[u8],
        answer: &mut Answer,
    ) -> Result<(), Failure>;

    /// All messages have come.
    fn end(&mut self, request: &Prepared, answer: &Answer) -> Result<(), Failure>;
}

/// A connection of a protocol over gRPC whose answers are streams.
pub struct Streaming<C>(Grpc, C);

impl<C: Collect> Streaming<C> {
    pub async fn connect(target: &Target) -> Result<Self, Failure> {
        Ok(Self(connect(target).await?, C::default()))
    }
}

impl<C: Collect> Connection for Streaming<C> {
    fn share(&self) -> Option<Self> {
        Some(Self(self.0.clone(), C::default()))
    }

    fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    fn room(&self) -> usize {
        self.0.send.current_max_send_streams()
    }

    async fn call(&mut self, request: &Prepared, answer: &mut Answer) -> Result<(), Failure> {
        let Self(connection, collect) = self;
        collect.begin();
        let take = |message: &[u8]| collect.message(request, message, answer);
        connection.stream(request, take).await?;
        collect.end(request, answer)
    }
}

/// The head of every call of one method: `path` is `/package.Service/Method`.
pub fn head(target: &Target, path: &str) -> Result<Arc<Request<()>>, InvalidArgument> {
    let mut builder = Request::post(format!("{}{path}", target.origin()))
        .version(http::Version::HTTP_2)
        .header("te", "trailers")
        .header("content-type", "application/grpc");
    for (name, value) in &target.headers {
        builder = builder.header(name.to_ascii_lowercase(), value);
    }
    let request = builder.body(());
    Ok(Arc::new(request.map_err(|error| {
        InvalidArgument(format!("a header or path cannot be sent: {error}"))
    })?))
}

/// A request of one message.
pub fn prepare(
    operation: Operation,
    head: &Arc<Request<()>>,
    rows: usize,
    message: &impl Message,
) -> Prepared {
    prepare_framed(operation, head, rows, framed(message))
}

/// A request whose messages are framed already.
pub fn prepare_framed(
    operation: Operation,
    head: &Arc<Request<()>>,
    rows: usize,
    body: Bytes,
) -> Prepared {
    Prepared {
        operation,
        head: head.clone(),
        body,
        rows: rows as u32,
    }
}

pub async fn connect(target: &Target) -> Result<Grpc, Failure> {
    let stream = Gathered::new(tcp::connect(target, &["h2"]).await?);
    let (send, connection) = h2::client::Builder::new()
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(1 << 20)
        .enable_push(false)
        .handshake(stream.share())
        .await?;
    let closed = Rc::new(Cell::new(false));
    let ended = closed.clone();
    tokio::task::spawn_local(async move {
        // Whatever ended it reaches the calls in flight as their own error.
        let _ = stream.drive(connection).await;
        ended.set(true);
    });
    Ok(Grpc { send, closed })
}

impl Grpc {
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Send a prepared request; the answer's message.
    pub async fn unary(&mut self, request: &Prepared) -> Result<Bytes, Failure> {
        let mut body = self.send(request).await?;
        let received = receive(&mut body).await?;
        finish(&mut body).await?;
        message(received)
    }

    /// Send a prepared request of one or several messages, and hand over each message of the
    /// answer as it comes.
    pub async fn stream(
        &mut self,
        request: &Prepared,
        mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut body = self.send(request).await?;
        // The begin of a message whose end has not come yet.
        let mut rest = BytesMut::new();
        while let Some(piece) = next(&mut body).await? {
            if rest.is_empty() {
                let used = messages(&piece, &mut take)?;
                rest.extend_from_slice(&piece[used..]);
            } else {
                rest.extend_from_slice(&piece);
                let used = messages(&rest, &mut take)?;
                rest.advance(used);
            }
        }
        finish(&mut body).await?;
        match rest.len() {
            0 => Ok(()),
            _ => Err(Failure::new(
                "truncated",
                "the answer ends within a message",
            )),
        }
    }

    /// Send a prepared request, and wait for the answer to begin.
    async fn send(&mut self, request: &Prepared) -> Result<RecvStream, Failure> {
        poll_fn(|cx| self.send.poll_ready(cx)).await?;
        let head = Request::clone(&request.head);
        let (response, mut stream) = self.send.send_request(head, false)?;
        stream.send_data(request.body.clone(), true)?;
        let (parts, body) = response.await?.into_parts();
        if parts.status != http::StatusCode::OK {
            let code = parts.status.as_u16();
            return Err(Failure::new(format!("http:{code}"), parts.status.as_str()));
        }
        check(&parts.headers)?;
        Ok(body)
    }
}

/// The next piece of an answer; its room is given back.
async fn next(body: &mut RecvStream) -> Result<Option<Bytes>, Failure> {
    let Some(piece) = body.data().await else {
        return Ok(None);
    };
    let piece = piece?;
    body.flow_control().release_capacity(piece.len())?;
    Ok(Some(piece))
}

/// The status, after all of an answer has come.
async fn finish(body: &mut RecvStream) -> Result<(), Failure> {
    let trailers = body.trailers().await?;
    trailers.map_or(Ok(()), |trailers| check(&trailers))
}

/// The whole body, without a copy where it came in one piece.
async fn receive(body: &mut RecvStream) -> Result<Bytes, Failure> {
    let mut first = Bytes::new();
    let mut more: Option<BytesMut> = None;
    while let Some(piece) = next(body).await? {
        match &mut more {
            None if first.is_empty() => first = piece,
            None => {
                let mut both = BytesMut::with_capacity((first.len() + piece.len()) * 2);
                both.extend_from_slice(&first);
                both.extend_from_slice(&piece);
                more = Some(both);
            }
            Some(all) => all.extend_from_slice(&piece),
        }
        if more.as_ref().map_or(0, BytesMut::len) > LONGEST {
            return Err(Failure::garbage("the answer is longer than 1 GiB"));
        }
    }
    Ok(more.map_or(first, BytesMut::freeze))
}

impl From<h2::Error> for Failure {
    fn from(error: h2::Error) -> Self {
        match error.get_io() {
            Some(io) => io.into(),
            None if error.is_reset() && error.is_remote() => {
                Failure::new("reset", error.to_string())
            }
            None if error.is_library() => Failure::broken("garbage", error.to_string()),
            None => Failure::broken("reset", error.to_string()),
        }
    }
}
