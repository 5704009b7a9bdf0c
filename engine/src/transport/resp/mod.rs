//! RESP over one connection: one request at a time, or many in flight in a row.
//!
//! Replies have no numbers: they come in the order of the requests, and errors inside them leave
//! the connection as good as it was. A request may be several commands (a batch of writes): it is
//! answered when all of theirs are.

mod pipe;
mod wire;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::protocol::{Answer, Connection, Failure, Operation, Prepared, Target};
use crate::transport::tcp::{self, Stream};
pub use pipe::Pipelined;
pub use wire::{double, garbage, number, put_command, put_count, put_text, Item, Reader, Scan};

/// Replies longer than this are taken for garbage.
const LONGEST: usize = 1 << 30;
/// Room made for what is read next.
const READ: usize = 1 << 14;

/// What a protocol over RESP adds to the transport: how replies are read.
pub trait Decode: Clone + 'static {
    /// How many replies a request gets.
    fn replies(&self, operation: Operation, rows: usize) -> usize;

    /// Read the replies of one request, which have come as a whole.
    fn decode(
        &self,
        operation: Operation,
        rows: usize,
        replies: Reader<'_>,
        answer: &mut Answer,
    ) -> Result<(), Failure>;
}

/// A stream that was let in.
pub struct Opened {
    stream: Stream,
    inbox: BytesMut,
}

impl Opened {
    /// Connect, and send commands that must be answered without an error: passwords, a database.
    pub async fn new(target: &Target, greeting: &[Vec<u8>]) -> Result<Self, Failure> {
        let mut out = Self {
            stream: tcp::connect(target, &[]).await?,
            inbox: BytesMut::with_capacity(READ),
        };
        let length = out.exchange(&greeting.concat(), greeting.len()).await?;
        let mut replies = Reader(&out.inbox[..length]);
        for _ in greeting {
            let item = replies.item()?;
            if let Item::Error(error) = item {
                let failure = refusal(error);
                return Err(Failure::broken(failure.class, failure.message));
            }
            replies.skip_inner(item)?;
        }
        Ok(out)
    }

    /// Send, and read until so many replies are there; how long they are.
    async fn exchange(&mut self, request: &[u8], replies: usize) -> Result<usize, Failure> {
        self.inbox.clear();
        self.stream.write_all(request).await?;
        self.stream.flush().await?;
        let mut scan = Scan::new(replies);
        loop {
            match scan.advance(&self.inbox)? {
                Some(length) if length < self.inbox.len() => {
                    return Err(garbage("bytes follow the reply"));
                }
                Some(length) => return Ok(length),
                None => {}
            }
            make_room(&mut self.inbox)?;
            if self.stream.read_buf(&mut self.inbox).await? == 0 {
                return Err(ended(self.inbox.is_empty()));
            }
        }
    }
}

/// A connection on which replies are decoded.
pub trait Open<D>: Connection {
    /// Several requests may be in flight on it.
    const SHARED: bool;

    fn new(opened: Opened, decoder: D) -> Self;
}

/// A connection with one request at a time.
pub struct Single<D> {
    opened: Opened,
    decoder: D,
}

impl<D: Decode> Open<D> for Single<D> {
    const SHARED: bool = false;

    fn new(opened: Opened, decoder: D) -> Self {
        Self { opened, decoder }
    }
}

impl<D: Decode> Connection for Single<D> {
    fn is_closed(&self) -> bool {
        self.opened.stream.hung_up()
    }

    async fn call(&mut self, request: &Prepared, answer: &mut Answer) -> Result<(), Failure> {
        let (operation, rows) = (request.operation, request.rows as usize);
        let replies = self.decoder.replies(operation, rows);
        let length = self.opened.exchange(&request.body, replies).await?;
        let replies = Reader(&self.opened.inbox[..length]);
        self.decoder.decode(operation, rows, replies, answer)
    }
}

fn make_room(inbox: &mut BytesMut) -> Result<(), Failure> {
    if inbox.len() > LONGEST {
        return Err(garbage("replies longer than 1 GiB"));
    }
    inbox.reserve(READ);
    Ok(())
}

fn ended(before_any: bool) -> Failure {
    match before_any {
        true => Failure::broken("reset", "the server closed the connection"),
        false => Failure::broken("truncated", "the connection was closed within a reply"),
    }
}

/// An error reply: the class is its first word.
pub fn refusal(error: &[u8]) -> Failure {
    let text = String::from_utf8_lossy(error);
    let word = text.split(' ').next().unwrap_or_default();
    let known = (1..=32).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_uppercase());
    let class = if known {
        word.to_ascii_lowercase()
    } else {
        "err".into()
    };
    Failure::new(format!("status:{class}"), text)
}
