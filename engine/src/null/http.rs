//! The null server over HTTP/1.1: what Elasticsearch would say.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::{Buf, BytesMut};
use httparse::Status;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::null::faults::Fault;
use crate::null::{Service, Settings};
use crate::transport::tcp::Stream;

/// A request longer than this is not read.
const LONGEST: usize = 1 << 30;

const HEADERS: &str = "X-elastic-product: Elasticsearch\r\ncontent-type: application/json\r\n";

/// Answers with their heads, made once.
pub struct Replies {
    search: Vec<u8>,
    twice: Vec<u8>,
    bulk: Vec<u8>,
    get: Vec<u8>,
    empty: Vec<u8>,
    refusal: Vec<u8>,
    garbage: Vec<u8>,
    others: BTreeMap<String, Vec<u8>>,
}

fn reply(status: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\n{HEADERS}content-length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// The answer of a search, in a chunk, as Elasticsearch sends it.
fn found(k: usize, id: impl Fn(usize) -> usize) -> Vec<u8> {
    let hit = |at: usize| {
        let (id, score) = (id(at), 1.0 - at as f64 / 64.0);
        format!(r#"{{"_index":"null","_id":"{id}","_score":{score}}}"#)
    };
    let hits: Vec<String> = (0..k).map(hit).collect();
    let body = format!(
        r#"{{"took":0,"timed_out":false,"_shards":{{"total":1,"successful":1,"skipped":0,"failed":0}},"hits":{{"total":{{"value":{k},"relation":"eq"}},"max_score":1.0,"hits":[{}]}}}}"#,
        hits.join(",")
    );
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\n{HEADERS}transfer-encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n").into()
}

impl Replies {
    pub fn new(settings: &Settings) -> Self {
        let ok = |body: &str| reply("200 OK", body.as_bytes());
        let other = |(path, body): (&String, &bytes::Bytes)| (path.clone(), reply("200 OK", body));
        Self {
            search: found(settings.k, |at| at),
            twice: found(settings.k, |at| at / 2),
            bulk: ok(r#"{"took":0,"errors":false}"#),
            get: ok(r#"{"docs":[{"_index":"null","_id":"0","found":true,"_source":{}}]}"#),
            empty: ok("{}"),
            refusal: reply(
                "429 Too Many Requests",
                br#"{"error":{"type":"rejected","reason":"told to fail"},"status":429}"#,
            ),
            garbage: ok(r#"{"hits":{"hits":[{"_id":"#),
            others: settings.replies.iter().map(other).collect(),
        }
    }

    fn of(&self, path: &str) -> &[u8] {
        let path = path.split('?').next().unwrap_or_default();
        if let Some(reply) = self.others.get(path) {
            return reply;
        }
        match path.rsplit('/').next() {
            Some("_search") => &self.search,
            Some("_bulk") => &self.bulk,
            Some("_mget") => &self.get,
            _ => &self.empty,
        }
    }
}

/// Answer the requests of one connection.
pub async fn connection(mut stream: Stream, service: Rc<Service<Replies>>) -> std::io::Result<()> {
    let mut inbox = BytesMut::with_capacity(1 << 16);
    loop {
        let replies = &service.replies;
        let Some((mut reply, length)) = request(&inbox, replies)? else {
            inbox.reserve(1 << 14);
            if stream.read_buf(&mut inbox).await? == 0 {
                return Ok(());
            }
            continue;
        };
        match service.injector.next().await {
            Some(Fault::Status) => reply = &replies.refusal,
            // Both end the connection: HTTP/1.1 knows nothing less.
            Some(Fault::Reset | Fault::Break) => return Ok(()),
            Some(Fault::Truncate) => {
                stream.write_all(&reply[..reply.len() - 1]).await?;
                return stream.shutdown().await;
            }
            Some(Fault::Garbage) => reply = &replies.garbage,
            Some(Fault::Twice) => reply = &replies.twice,
            Some(Fault::Late | Fault::Never) | None => {}
        }
        stream.write_all(reply).await?;
        stream.flush().await?;
        inbox.advance(length);
    }
}

/// The answer to the next request, and how long the request is; None when it has not all come.
fn request<'a>(bytes: &[u8], replies: &'a Replies) -> std::io::Result<Option<(&'a [u8], usize)>> {
    let wrong = || std::io::Error::from(std::io::ErrorKind::InvalidData);
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Request::new(&mut headers);
    let Status::Complete(body) = head.parse(bytes).map_err(|_| wrong())? else {
        return Ok(None);
    };
    let named = head
        .headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let length = match named {
        None => 0,
        Some(header) => std::str::from_utf8(header.value)
            .ok()
            .and_then(|text| text.parse().ok())
            .filter(|length| *length <= LONGEST)
            .ok_or_else(wrong)?,
    };
    if bytes.len() < body + length {
        return Ok(None);
    }
    let reply = replies.of(head.path.unwrap_or_default());
    Ok(Some((reply, body + length)))
}
