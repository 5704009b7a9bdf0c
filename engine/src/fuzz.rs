//! What the targets in `fuzz/` call. Each takes any bytes for something that a server said, and must
//! come to an end without a panic: with an answer, or with a failure.
//!
//! `protobuf`, `arrow` and `resp` are the formats alone. Those named after a protocol
//! read a message or body, whose framing is left aside, as the answer to one of the protocol's
//! requests (the first byte says which). The others speak to a whole connection from its first byte
//! on, in pieces of a length of their own choosing.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use tokio::io::{copy, duplex, sink, split, AsyncWriteExt};
use tokio::runtime::{Builder, LocalOptions};

use crate::codec::arrow;
use crate::codec::protobuf::{packed_floats, packed_ints, Reader};
use crate::protocol::{
    Answer, Connection, Matrix, Operation, Options, Prepared, Protocol, Target, Task,
};
use crate::protocols::elasticsearch::{Elasticsearch, Json};
use crate::protocols::flight::{Flight, Hits};
use crate::protocols::milvus::Milvus;
use crate::protocols::null::NullGrpc;
use crate::protocols::postgres::Postgres;
use crate::protocols::qdrant::Qdrant;
use crate::protocols::redis::Redis;
use crate::protocols::unary::UnaryProtocol;
use crate::protocols::weaviate::Weaviate;
use crate::transport::grpc::{Collect, Decode};
use crate::transport::resp::{Pipelined, Single};
use crate::transport::{http, resp, tcp};

pub fn protobuf(bytes: &[u8]) {
    read_fields(bytes, 4);
}

fn read_fields(bytes: &[u8], depth: usize) {
    let mut reader = Reader(bytes);
    while let Ok(Some((_, value))) = reader.field() {
        let _ = (value.number(), value.float());
        if let Ok(inner) = value.bytes() {
            let _ = packed_ints(inner, &mut vec![]);
            let _ = packed_floats(inner, &mut vec![]);
            if depth > 0 {
                read_fields(inner, depth - 1);
            }
        }
    }
}

/// A stream in Arrow's own framing, read twice by the same reader, as answers are.
pub fn arrow(bytes: &[u8]) {
    let mut rows = arrow::Rows::default();
    let read = [(); 2].map(|()| {
        let (mut ids, mut scores) = (vec![], vec![]);
        rows.stream(bytes, &mut ids, &mut scores).map(|()| ids)
    });
    assert_eq!(read[0], read[1], "a stream is read as it was before");
}

/// Where replies end must not depend on how they come.
pub fn resp(bytes: &[u8]) {
    let [replies, width, said @ ..] = bytes else {
        return;
    };
    let (replies, width) = (usize::from(replies % 4) + 1, usize::from(*width) + 1);
    let whole = resp::Scan::new(replies).advance(said);
    let mut scan = resp::Scan::new(replies);
    let ends = (width..said.len()).step_by(width).chain([said.len()]);
    let in_pieces = ends
        .map(|end| scan.advance(&said[..end]))
        .find(|seen| !matches!(seen, Ok(None)));
    let in_pieces = in_pieces.unwrap_or(Ok(None));
    assert_eq!(whole.is_ok(), in_pieces.is_ok());
    if let (Ok(whole), Ok(in_pieces)) = (whole, in_pieces) {
        assert_eq!(whole, in_pieces);
        if let Some(length) = whole {
            let mut reader = resp::Reader(&said[..length]);
            assert!(reader.skip(replies).is_ok(), "they are there as a whole");
            assert!(reader.0.is_empty(), "and nothing else");
        }
    }
}

/// The requests of a protocol, encoded once for all inputs.
macro_rules! requests {
    ($requests:expr) => {{
        static REQUESTS: OnceLock<Vec<Prepared>> = OnceLock::new();
        REQUESTS.get_or_init(|| $requests)
    }};
}

pub fn milvus(bytes: &[u8]) {
    decode::<Milvus>(requests!(requests::<UnaryProtocol<Milvus>>(&[])), bytes);
}

pub fn weaviate(bytes: &[u8]) {
    decode::<Weaviate>(requests!(requests::<UnaryProtocol<Weaviate>>(&[])), bytes);
}

pub fn qdrant(bytes: &[u8]) {
    decode::<Qdrant>(requests!(requests::<UnaryProtocol<Qdrant>>(&[])), bytes);
}

/// A message whose protocol is over gRPC.
fn decode<D: Decode>(requests: &[Prepared], bytes: &[u8]) {
    if let Some((which, message)) = bytes.split_first() {
        let request = &requests[usize::from(*which) % requests.len()];
        let _ = D::decode(request, message, &mut Answer::default());
    }
}

/// Several messages, each after a byte of its length, and the end of the stream.
pub fn flight(bytes: &[u8]) {
    let all = requests!({
        let action = requests::<Flight>(&[("search", "action")]);
        [requests::<Flight>(&[]), action].concat()
    });
    let Some((which, mut rest)) = bytes.split_first() else {
        return;
    };
    let request = &all[usize::from(*which) % all.len()];
    let (mut hits, mut answer) = (Hits::default(), Answer::default());
    hits.begin();
    while let Some((length, after)) = rest.split_first() {
        // In steps of 16 bytes, up to the longest that a schema takes.
        let (message, after) = after.split_at(after.len().min(16 * usize::from(*length)));
        if hits.message(request, message, &mut answer).is_err() {
            return;
        }
        rest = after;
    }
    let _ = hits.end(request, &answer);
}

pub fn elasticsearch(bytes: &[u8]) {
    let all = requests!(requests::<Elasticsearch>(&[]));
    if let Some((which, body)) = bytes.split_first() {
        let request = &all[usize::from(*which) % all.len()];
        let _ = http::Decode::decode(&Json, request, body, &mut Answer::default());
        let _ = http::Decode::refusal(&Json, body);
    }
}

pub fn http(bytes: &[u8]) {
    let all = requests!(requests::<Elasticsearch>(&[]));
    speak::<Elasticsearch>(all, &[], bytes);
}

pub fn grpc(bytes: &[u8]) {
    let all = requests!(requests::<UnaryProtocol<NullGrpc>>(&[]));
    speak::<UnaryProtocol<NullGrpc>>(all, &[], bytes);
}

/// Answers that are streams of messages.
pub fn grpc_stream(bytes: &[u8]) {
    speak::<Flight>(requests!(requests::<Flight>(&[])), &[], bytes);
}

pub fn postgres(bytes: &[u8]) {
    let options = &[("password", "secret")];
    speak::<Postgres>(requests!(requests::<Postgres>(&[])), options, bytes);
}

/// Vector sets and the query engine, as the first byte is even or odd.
pub fn redis(bytes: &[u8]) {
    speak_redis::<Redis<Single<_>>>(bytes);
}

/// The same, where many requests share a connection.
pub fn redis_pipelined(bytes: &[u8]) {
    speak_redis::<Redis<Pipelined<_>>>(bytes);
}

fn speak_redis<P: Protocol>(bytes: &[u8]) {
    const ENGINES: [Pairs; 2] = [&[("engine", "vectorset")], &[("engine", "search")]];
    static REQUESTS: OnceLock<[Vec<Prepared>; 2]> = OnceLock::new();
    // They are the same whatever the connection is.
    let all = REQUESTS.get_or_init(|| ENGINES.map(requests::<P>));
    if let Some((engine, rest)) = bytes.split_first() {
        let engine = usize::from(engine % 2);
        speak::<P>(&all[engine], ENGINES[engine], rest);
    }
}

type Pairs = &'static [(&'static str, &'static str)];

/// One request of three rows of every operation that the protocol has, searches of one.
fn requests<P: Protocol>(options: Pairs) -> Vec<Prepared> {
    use Operation::{Delete, Get, Insert, Search, Upsert};
    let to = target(options);
    let protocol = P::new(to.clone()).expect("the options are known");
    let first = |operation| {
        let names = [("collection", "c"), ("dataset", "c"), ("table", "c")];
        let task = Task {
            operation,
            vectors: Matrix {
                values: vec![0.5; 6],
                dim: 2,
            },
            ids: vec![1, 2, 3],
            k: 3,
            batch: if matches!(operation, Delete | Get) {
                1
            } else {
                3
            },
            options: named(names.iter().chain(options)),
            ..Task::default()
        };
        protocol.prepare(&task).ok()?.into_iter().next()
    };
    let all: Vec<_> = [Search, Insert, Upsert, Get, Delete]
        .into_iter()
        .filter_map(first)
        .collect();
    assert_eq!(all.len(), 5, "every protocol has every operation");
    all
}

fn named<'a>(pairs: impl Iterator<Item = &'a (&'a str, &'a str)>) -> Options {
    let owned = pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Options(owned.collect::<BTreeMap<_, _>>())
}

fn target(options: Pairs) -> Target {
    Target {
        host: "memory".into(),
        options: named(options.iter()),
        ..Target::default()
    }
}

/// Two calls on one connection, on which the server says these bytes and closes it. The first byte
/// says which request, the second how much the connection holds.
fn speak<P: Protocol>(requests: &[Prepared], options: Pairs, bytes: &[u8]) {
    let [which, width, said @ ..] = bytes else {
        return;
    };
    let request = &requests[usize::from(*which) % requests.len()];
    let to = target(options);
    let protocol = P::new(to.clone()).expect("the options are known");
    let runtime = Builder::new_current_thread()
        .enable_time()
        .build_local(LocalOptions::default())
        .expect("a runtime without sockets can always be had");
    runtime.block_on(async {
        let (ours, theirs) = duplex(1 << (width % 16));
        tcp::INSTEAD.set(Some(ours));
        let (mut heard, mut say) = split(theirs);
        let client = async {
            let Ok(mut connection) = protocol.connect(&to).await else {
                return;
            };
            let mut answer = Answer::default();
            for _ in 0..2 {
                answer.clear();
                let outcome = connection.call(request, &mut answer).await;
                if outcome.is_err_and(|failure| failure.broken) || connection.is_closed() {
                    return;
                }
            }
        };
        let server = async {
            let _ = say.write_all(said).await;
            let _ = say.shutdown().await;
        };
        let mut nowhere = sink();
        let _ = tokio::join!(client, server, copy(&mut heard, &mut nowhere));
    });
}
