//! The null server over RESP: what Redis would say, with vector sets and the query engine.

use std::collections::BTreeMap;
use std::future::{poll_fn, Future};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::null::faults::Fault;
use crate::null::{Service, Settings};
use crate::transport::resp::{put_count, put_text, Item, Reader, Scan};
use crate::transport::tcp::Stream;

const REFUSAL: &[u8] = b"-BUSY told to fail\r\n";
/// A reply of a kind that does not exist.
const GARBAGE: &[u8] = b"?what\r\n";

/// What is said, made once.
pub struct Replies {
    similar: Vec<u8>,
    twice: Vec<u8>,
    found: Vec<u8>,
    embedding: Vec<u8>,
    others: BTreeMap<String, Vec<u8>>,
}

/// Names and scores in turn.
fn similar(k: usize, id: impl Fn(usize) -> usize) -> Vec<u8> {
    let mut out = vec![];
    put_count(&mut out, b'*', 2 * k);
    for at in 0..k {
        put_text(&mut out, id(at).to_string().as_bytes());
        put_text(&mut out, (1.0 - at as f64 / 64.0).to_string().as_bytes());
    }
    out
}

/// Keys and fields in turn.
fn found(k: usize) -> Vec<u8> {
    let mut out = vec![];
    put_count(&mut out, b'*', 2 * k + 1);
    put_count(&mut out, b':', k);
    for at in 0..k {
        put_text(&mut out, at.to_string().as_bytes());
        put_count(&mut out, b'*', 2);
        put_text(&mut out, b"score");
        put_text(&mut out, (at as f64 / 64.0).to_string().as_bytes());
    }
    out
}

impl Replies {
    pub fn new(settings: &Settings) -> Self {
        let mut embedding = vec![];
        put_count(&mut embedding, b'*', 2);
        (0..2).for_each(|_| put_text(&mut embedding, b"0.5"));
        let other = |(name, reply): (&String, &bytes::Bytes)| (name.clone(), reply.to_vec());
        Self {
            similar: similar(settings.k, |at| at),
            twice: similar(settings.k, |at| at / 2),
            found: found(settings.k),
            embedding,
            others: settings.replies.iter().map(other).collect(),
        }
    }

    fn of(&self, command: &[u8]) -> &[u8] {
        let known = std::str::from_utf8(command).ok();
        if let Some(reply) = known.and_then(|name| self.others.get(name)) {
            return reply;
        }
        match command {
            b"VSIM" => &self.similar,
            b"FT.SEARCH" => &self.found,
            b"VEMB" => &self.embedding,
            b"VADD" | b"VREM" | b"HSET" | b"DEL" => b":1\r\n",
            b"VGETATTR" => b"$2\r\n{}\r\n",
            b"HGETALL" => b"*2\r\n$1\r\na\r\n$1\r\nb\r\n",
            b"HELLO" => b"%1\r\n+proto\r\n:3\r\n",
            _ => b"+OK\r\n",
        }
    }
}

/// Answer the requests of one connection.
pub async fn connection(mut stream: Stream, service: Rc<Service<Replies>>) -> std::io::Result<()> {
    let mut inbox = BytesMut::with_capacity(1 << 16);
    let mut out = Vec::with_capacity(1 << 16);
    let mut scan = Scan::new(1);
    loop {
        let wrong = |_| std::io::Error::from(std::io::ErrorKind::InvalidData);
        let Some(length) = scan.advance(&inbox).map_err(wrong)? else {
            if !out.is_empty() {
                stream.write_all(&out).await?;
                stream.flush().await?;
                out.clear();
            }
            inbox.reserve(1 << 16);
            if stream.read_buf(&mut inbox).await? == 0 {
                return Ok(());
            }
            continue;
        };
        let mut command = Reader(&inbox[..length]);
        let mut reply = match (command.item(), command.item()) {
            (Ok(Item::Array(_)), Ok(Item::Text(name))) => service.replies.of(name),
            _ => return Ok(()),
        };
        inbox.advance(length);
        scan = Scan::new(1);
        match fault(&service, &mut stream, &mut out).await? {
            Some(Fault::Status) => reply = REFUSAL,
            // Both end the connection: RESP knows nothing less.
            Some(Fault::Reset | Fault::Break) => {
                stream.write_all(&out).await?;
                return Ok(());
            }
            Some(Fault::Truncate) => {
                out.extend_from_slice(&reply[..reply.len() - 1]);
                stream.write_all(&out).await?;
                return stream.shutdown().await;
            }
            Some(Fault::Garbage) => reply = GARBAGE,
            Some(Fault::Twice) => reply = &service.replies.twice,
            Some(Fault::Late | Fault::Never) | None => {}
        }
        out.extend_from_slice(reply);
    }
}

/// What goes wrong with the next command. What was said before it does not wait with it.
async fn fault(
    service: &Service<Replies>,
    stream: &mut Stream,
    out: &mut Vec<u8>,
) -> std::io::Result<Option<Fault>> {
    let mut next = pin!(service.injector.next());
    let now = poll_fn(|cx| match next.as_mut().poll(cx) {
        Poll::Ready(fault) => Poll::Ready(Some(fault)),
        Poll::Pending => Poll::Ready(None),
    });
    if let Some(fault) = now.await {
        return Ok(fault);
    }
    stream.write_all(out).await?;
    stream.flush().await?;
    out.clear();
    Ok(next.await)
}
