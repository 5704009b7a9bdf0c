//! A stream of bytes to or from a server: TCP without delay of small writes, plain or under TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{client, server};

use crate::protocol::{Failure, Target};
use crate::tls::Tls;

/// Connect, under TLS where the target asks for it; `alpn` names the application protocol then.
pub async fn connect(target: &Target, alpn: &[&str]) -> Result<Stream, Failure> {
    #[cfg(feature = "fuzz")]
    if let Some(memory) = INSTEAD.take() {
        return Ok(Stream::Memory(memory));
    }
    let stream = open(target).await?;
    match &target.tls {
        Some(tls) => handshake(tls, stream, alpn).await,
        None => Ok(Stream::Plain(stream)),
    }
}

/// Start TLS on an open connection. `alpn`: the application protocol (`h2`), or none.
pub async fn handshake(tls: &Tls, stream: TcpStream, alpn: &[&str]) -> Result<Stream, Failure> {
    let (connector, name) = tls.connector(alpn);
    match connector.connect(name, stream).await {
        Ok(stream) => Ok(Stream::Client(Box::new(stream))),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(Failure::broken("tls", error.to_string()))
        }
        Err(error) => Err(error.into()),
    }
}

/// Connect without TLS, for protocols that turn to it later.
pub async fn open(target: &Target) -> Result<TcpStream, Failure> {
    let stream = TcpStream::connect(target.next_node()).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(feature = "fuzz")]
thread_local! {
    /// What the next connection of this thread is, in place of a socket.
    pub static INSTEAD: std::cell::Cell<Option<tokio::io::DuplexStream>> =
        const { std::cell::Cell::new(None) };
}

/// A connection's bytes.
pub enum Stream {
    Plain(TcpStream),
    Client(Box<client::TlsStream<TcpStream>>),
    Server(Box<server::TlsStream<TcpStream>>),
    #[cfg(feature = "fuzz")]
    Memory(tokio::io::DuplexStream),
}

impl Stream {
    /// Between two requests: the other side is known to be gone, or says something unasked. It
    /// costs no system call while nothing has come. Under TLS only the end of the connection
    /// itself counts, since the session's own records may come at any time.
    pub fn hung_up(&self) -> bool {
        let (stream, plain) = match self {
            Self::Plain(stream) => (stream, true),
            Self::Client(stream) => (stream.get_ref().0, false),
            Self::Server(stream) => (stream.get_ref().0, false),
            #[cfg(feature = "fuzz")]
            Self::Memory(_) => return false,
        };
        let mut first = [0];
        let mut cx = Context::from_waker(Waker::noop());
        match stream.poll_peek(&mut cx, &mut ReadBuf::new(&mut first)) {
            Poll::Ready(Ok(seen)) => plain || seen == 0,
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        }
    }
}

macro_rules! each {
    ($self:expr, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Plain($stream) => $call,
            Stream::Client($stream) => $call,
            Stream::Server($stream) => $call,
            #[cfg(feature = "fuzz")]
            Stream::Memory($stream) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(self, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self, stream => Pin::new(stream).poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Client(stream) => stream.is_write_vectored(),
            Self::Server(stream) => stream.is_write_vectored(),
            #[cfg(feature = "fuzz")]
            Self::Memory(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}
