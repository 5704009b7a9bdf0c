//! The null server over PostgreSQL's protocol: it lets everyone in, and answers searches.
//!
//! Rows come in binary, an int8 and a float8, as pgvector's distances do. Statements that do not
//! begin with SELECT are answered as done, with no rows.

use std::rc::Rc;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::null::faults::Fault;
use crate::null::{Service, Settings};
use crate::transport::tcp::Stream;

/// A message longer than this is not read.
const LONGEST: usize = 1 << 30;
/// The columns of a search's rows, an int8 and a float8, both in binary.
const COLUMNS: &[u8] = b"\0\x02\
    id\0\0\0\0\0\0\0\0\0\0\x14\0\x08\xff\xff\xff\xff\0\x01\
    score\0\0\0\0\0\0\0\0\0\x02\xbd\0\x08\xff\xff\xff\xff\0\x01";
/// What is asked in place of a version by a client that would like TLS.
const SSL_REQUEST: u32 = 80_877_103;

/// Answers, made once.
pub struct Replies {
    search: Vec<u8>,
    twice: Vec<u8>,
    refusal: Vec<u8>,
    garbage: Vec<u8>,
}

fn put(out: &mut Vec<u8>, kind: u8, body: &[u8]) {
    out.push(kind);
    out.extend((body.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(body);
}

fn found(k: usize, id: fn(u64) -> u64) -> Vec<u8> {
    let mut out = vec![];
    for at in 0..k as u64 {
        let mut row = vec![0, 2, 0, 0, 0, 8];
        row.extend(id(at).to_be_bytes());
        row.extend([0, 0, 0, 8]);
        row.extend((at as f64 / 64.0).to_be_bytes());
        put(&mut out, b'D', &row);
    }
    put(&mut out, b'C', format!("SELECT {k}\0").as_bytes());
    out
}

impl Replies {
    pub fn new(settings: &Settings) -> Self {
        let (mut refusal, mut garbage) = (vec![], vec![]);
        let told = b"SERROR\0VERROR\0C53200\0Mtold to fail\0\0";
        put(&mut refusal, b'E', told);
        put(&mut garbage, b'D', b"\0\x02\0\0\0\x03abc");
        put(&mut garbage, b'C', b"SELECT 1\0");
        Self {
            search: found(settings.k, |at| at),
            twice: found(settings.k, |at| at / 2),
            refusal,
            garbage,
        }
    }
}

/// Answer the statements of one connection.
pub async fn connection(stream: Stream, service: Rc<Service<Replies>>) -> std::io::Result<()> {
    let session = Session {
        stream,
        inbox: BytesMut::with_capacity(1 << 14),
        selects: vec![],
    };
    session.run(&service).await
}

struct Session {
    stream: Stream,
    inbox: BytesMut,
    /// The prepared statements that begin with SELECT, by name.
    selects: Vec<Vec<u8>>,
}

impl Session {
    async fn run(mut self, service: &Service<Replies>) -> std::io::Result<()> {
        while self.word().await? == SSL_REQUEST {
            self.stream.write_all(b"N").await?;
        }
        let mut out = vec![];
        put(&mut out, b'R', &[0; 4]);
        put(&mut out, b'Z', b"I");
        // Whether the statement that is bound, or that is copied into, is a search.
        let mut search = false;
        loop {
            let (kind, body) = self.message(&mut out).await?;
            match kind {
                b'P' => {
                    self.parse(&body);
                    put(&mut out, b'1', &[]);
                }
                b'B' => {
                    let mut names = body[..].split(|byte| *byte == 0);
                    let statement = names.nth(1).unwrap_or_default();
                    search = self.selects.iter().any(|name| name == statement);
                    put(&mut out, b'2', &[]);
                }
                b'D' if search && body.first() == Some(&b'P') => put(&mut out, b'T', COLUMNS),
                b'D' => put(&mut out, b'n', &[]),
                b'E' if search => self.answer(service, &mut out).await?,
                b'E' => put(&mut out, b'C', b"OK\0"),
                b'Q' if starts(&body, b"COPY") => put(&mut out, b'G', &[1, 0, 0]),
                b'Q' if starts(&body, b"SELECT") => {
                    put(&mut out, b'C', b"SELECT 0\0");
                    put(&mut out, b'Z', b"I");
                }
                b'Q' | b'c' => {
                    put(&mut out, b'C', b"OK\0");
                    put(&mut out, b'Z', b"I");
                }
                b'S' => put(&mut out, b'Z', b"I"),
                b'X' => return Ok(()),
                _ => {}
            }
        }
    }

    /// The answer of a search, or what goes wrong with it; an error where the connection ends.
    async fn answer(
        &mut self,
        service: &Service<Replies>,
        out: &mut Vec<u8>,
    ) -> std::io::Result<()> {
        let replies = &service.replies;
        let reply = match service.injector.next().await {
            Some(Fault::Status) => &replies.refusal,
            // Both end the connection: nothing less is known here.
            Some(Fault::Reset | Fault::Break) => return Err(ended()),
            Some(Fault::Truncate) => {
                out.extend_from_slice(&replies.search[..replies.search.len() - 1]);
                self.stream.write_all(out).await?;
                self.stream.shutdown().await?;
                return Err(ended());
            }
            Some(Fault::Garbage) => &replies.garbage,
            Some(Fault::Twice) => &replies.twice,
            Some(Fault::Late | Fault::Never) | None => &replies.search,
        };
        out.extend_from_slice(reply);
        Ok(())
    }

    fn parse(&mut self, body: &[u8]) {
        let mut parts = body.splitn(3, |byte| *byte == 0);
        let (name, sql) = (
            parts.next().unwrap_or_default(),
            parts.next().unwrap_or_default(),
        );
        if starts(sql, b"SELECT") {
            self.selects.push(name.to_vec());
        }
    }

    /// The first word of what a client says before it is let in.
    async fn word(&mut self) -> std::io::Result<u32> {
        while self.inbox.len() < 4 {
            self.more().await?;
        }
        let length = length(self.inbox.get_u32())?;
        while self.inbox.len() < length.max(4) {
            self.more().await?;
        }
        let mut body = self.inbox.split_to(length);
        Ok(if body.len() < 4 { 0 } else { body.get_u32() })
    }

    /// The next message; before it is waited for, what is owed is sent.
    async fn message(&mut self, owed: &mut Vec<u8>) -> std::io::Result<(u8, BytesMut)> {
        loop {
            if let Some((kind, size)) = self.inbox.split_first_chunk::<5>().map(|(head, _)| {
                let [kind, size @ ..] = *head;
                (kind, u32::from_be_bytes(size))
            }) {
                let length = length(size)?;
                if self.inbox.len() >= 5 + length {
                    self.inbox.advance(5);
                    return Ok((kind, self.inbox.split_to(length)));
                }
            }
            if !owed.is_empty() {
                self.stream.write_all(owed).await?;
                self.stream.flush().await?;
                owed.clear();
            }
            self.more().await?;
        }
    }

    async fn more(&mut self) -> std::io::Result<()> {
        self.inbox.reserve(1 << 14);
        match self.stream.read_buf(&mut self.inbox).await? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

fn ended() -> std::io::Error {
    std::io::ErrorKind::ConnectionAborted.into()
}

/// The length of a message without itself.
fn length(size: u32) -> std::io::Result<usize> {
    (size as usize)
        .checked_sub(4)
        .filter(|length| *length <= LONGEST)
        .ok_or_else(|| std::io::ErrorKind::InvalidData.into())
}

fn starts(sql: &[u8], verb: &[u8]) -> bool {
    let begin = sql.trim_ascii_start().get(..verb.len());
    begin.is_some_and(|begin| begin.eq_ignore_ascii_case(verb))
}
