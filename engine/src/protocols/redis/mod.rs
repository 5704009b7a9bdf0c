//! Redis: vector sets (`VADD`, `VSIM`, …), or the query engine (`HSET`, `FT.SEARCH`).
//!
//! Of the target: `engine` is "vectorset" (unless said) or "search"; `resp` is "2" (unless said)
//! or "3"; `user`, `password`, `database`; `prefix` stands before the id in every element or key.
//! With `attributes` ("true") a search of a vector set brings back the attributes of what it
//! finds, and with `returning`, names with commas between, one of the query engine these fields.
//!
//! Of a class: `collection` is the key of the vector set, or the index. A search takes `ef`,
//! `filter_ef` and `exact` ("true"), and its filters are expressions of `VSIM … FILTER`, or of the
//! query before `=>`. A write takes `quantization` (noquant, q8, bin), `ef_construction` and `m`;
//! columns become attributes (see [`vector_set`]), or fields of the hash. With the query engine
//! `vector` names the field. One batch is one pipeline of commands; an insert replaces what is
//! there, as Redis does, and an upsert leaves no field of it behind.
//!
//! Scores are cosine similarities of vector sets, and what the index says of the query engine.
//!
//! `redis` has a connection for each client and `redis-pipelined` shares them. A search of a vector
//! set runs in a thread of its own, and its connection waits for it: what comes behind it on the
//! same connection waits too, so that only connections make searches run side by side.

mod answer;
mod common;
mod query_engine;
mod request;
mod vector_set;

use std::marker::PhantomData;
use std::ops::Range;

use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Failure, Operation, Prepared, Protocol, Target, Task};
use crate::protocols::options::names;
use crate::transport::resp::{self, Opened};
pub use common::Replies;
use common::{Engine, Words};
use request::greeting;

/// Over connections of one kind.
pub struct Redis<C> {
    greeting: Vec<Vec<u8>>,
    decoder: Replies,
    connection: PhantomData<fn() -> C>,
}

impl<C: resp::Open<Replies>> Protocol for Redis<C> {
    type Connection = C;
    const SHARED: bool = C::SHARED;

    fn new(target: Target) -> Result<Self, InvalidArgument> {
        let engine = match target.options.get("engine").unwrap_or("vectorset") {
            "vectorset" => Engine::VectorSet,
            "search" => Engine::Search,
            other => {
                let what = format!("engine is 'vectorset' or 'search', not '{other}'");
                return Err(InvalidArgument(what));
            }
        };
        Ok(Self {
            greeting: greeting(&target.options)?,
            decoder: Replies {
                engine,
                prefix: target.options.get("prefix").unwrap_or("").into(),
                attributes: target.options.parse("attributes")?.unwrap_or(false),
                returning: names(&target.options, "returning")
                    .map(str::to_owned)
                    .collect(),
            },
            connection: PhantomData,
        })
    }

    fn prepare(&self, task: &Task) -> Result<Vec<Prepared>, InvalidArgument> {
        let (operation, options) = (task.operation, &task.options);
        let one = |body: Vec<u8>, rows| Prepared::plain(operation, body.into(), rows);
        if operation == Operation::Payload {
            return Ok(task
                .payloads
                .iter()
                .map(|body| one(body.to_vec(), 1))
                .collect());
        }
        let words = Words::new(&self.decoder, options)?;
        if operation == Operation::Search {
            let search = |query| Ok(one(words.search(task, query)?, 1));
            return (0..task.vectors.rows()).map(search).collect();
        }
        let batch = |range: Range<usize>| {
            let mut body = vec![];
            for row in range.clone() {
                words.row(task, row, &mut body);
            }
            body.shrink_to_fit();
            one(body, range.len())
        };
        Ok(task.batches().map(batch).collect())
    }

    async fn connect(&self, to: &Target) -> Result<C, Failure> {
        let opened = Opened::new(to, &self.greeting).await?;
        Ok(C::new(opened, self.decoder.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Answer, Column, Matrix, Options, Values};
    use crate::transport::resp::{Decode, Reader};
    use proptest::prelude::*;

    fn replies(engine: Engine) -> Replies {
        Replies {
            engine,
            prefix: b"doc:".to_vec(),
            attributes: false,
            returning: vec![],
        }
    }

    fn search(engine: Engine, bytes: &[u8]) -> Result<Answer, Failure> {
        let mut answer = Answer::default();
        let reader = Reader(bytes);
        replies(engine).decode(Operation::Search, 1, reader, &mut answer)?;
        Ok(answer)
    }

    #[test]
    fn a_vector_set_answers_with_names_and_scores() {
        let two = b"*4\r\n$5\r\ndoc:7\r\n$3\r\n0.5\r\n$6\r\ndoc:-1\r\n$4\r\n0.25\r\n";
        let three = b"%2\r\n$5\r\ndoc:7\r\n,0.5\r\n$6\r\ndoc:-1\r\n,0.25\r\n";
        for reply in [&two[..], three] {
            let answer = search(Engine::VectorSet, reply).unwrap();
            assert_eq!((answer.ids, answer.scores), (vec![7, -1], vec![0.0, -0.5]));
        }
        assert!(search(Engine::VectorSet, b"*0\r\n").unwrap().ids.is_empty());
        let class = |bytes| search(Engine::VectorSet, bytes).unwrap_err().class;
        assert_eq!(class(b"-ERR no such thing\r\n"), "status:err");
        assert_eq!(class(b"-LOADING wait\r\n"), "status:loading");
        assert_eq!(class(b"*2\r\n$1\r\n7\r\n$3\r\n0.5\r\n"), "garbage");
        assert_eq!(class(b"$-1\r\n"), "garbage");
    }

    #[test]
    fn attributes_may_come_with_them() {
        let of = Replies {
            attributes: true,
            ..replies(Engine::VectorSet)
        };
        let read = |bytes: &[u8]| {
            let mut answer = Answer::default();
            of.decode(Operation::Search, 1, Reader(bytes), &mut answer)?;
            Ok::<_, Failure>((answer.ids, answer.scores))
        };
        let two =
            b"*6\r\n$5\r\ndoc:7\r\n$1\r\n1\r\n$2\r\n{}\r\n$5\r\ndoc:8\r\n$3\r\n0.5\r\n$-1\r\n";
        let three =
            b"%2\r\n$5\r\ndoc:7\r\n*2\r\n,1\r\n$2\r\n{}\r\n$5\r\ndoc:8\r\n*2\r\n,0.5\r\n_\r\n";
        for reply in [&two[..], three] {
            assert_eq!(read(reply).unwrap(), (vec![7, 8], vec![1.0, 0.0]));
        }
        let pairs = b"*2\r\n$5\r\ndoc:7\r\n$1\r\n1\r\n";
        assert_eq!(read(pairs).unwrap_err().class, "garbage");
    }

    #[test]
    fn rows_are_written_as_expressions_can_read_them() {
        let column = |name: &str, values| Column {
            name: name.into(),
            values,
            valid: vec![true, false],
        };
        let texts = vec!["5% \"off\"\n\\ü".to_owned(), String::new()];
        let task = Task {
            operation: Operation::Upsert,
            vectors: Matrix {
                values: vec![0.0; 2],
                dim: 1,
            },
            ids: vec![7, 8],
            batch: 2,
            columns: vec![
                column("f0", Values::Text(texts)),
                column("f1", Values::Int(vec![-5, 0])),
            ],
            options: Options([("collection".to_owned(), "c".to_owned())].into()),
            ..Task::default()
        };
        let of = replies(Engine::VectorSet);
        let words = Words::new(&of, &task.options).unwrap();
        let written = |row| {
            let mut out = vec![];
            words.row(&task, row, &mut out);
            String::from_utf8(out).unwrap()
        };
        let first = r#"{"f0":"5%25 %22off%22%0A%5Cü","f1":-5}"#;
        assert!(written(0).contains(first), "{}", written(0));
        assert!(written(1).contains(r#"{"f0":null,"f1":null}"#));
        let of = replies(Engine::Search);
        let words = Words::new(&of, &task.options).unwrap();
        let mut out = vec![];
        words.row(&task, 1, &mut out);
        assert!(out.starts_with(b"*2\r\n$3\r\nDEL\r\n$5\r\ndoc:8\r\n*4\r\n$4\r\nHSET\r\n"));
        assert_eq!(of.replies(Operation::Upsert, 1), 2);
    }

    #[test]
    fn the_query_engine_answers_with_keys_and_fields() {
        let two = b"*5\r\n:2\r\n$5\r\ndoc:7\r\n*2\r\n$5\r\nscore\r\n$3\r\n0.5\r\n\
                    $5\r\ndoc:8\r\n*4\r\n$1\r\nx\r\n$1\r\ny\r\n$5\r\nscore\r\n$1\r\n1\r\n";
        let three = b"%3\r\n+attributes\r\n*0\r\n+results\r\n*2\r\n\
                      %3\r\n+id\r\n$5\r\ndoc:7\r\n+extra_attributes\r\n%1\r\n$5\r\nscore\r\n$3\r\n0.5\r\n+values\r\n*0\r\n\
                      %2\r\n+extra_attributes\r\n%1\r\n$5\r\nscore\r\n$1\r\n1\r\n+id\r\n$5\r\ndoc:8\r\n\
                      +total_results\r\n:2\r\n";
        for reply in [&two[..], three] {
            let answer = search(Engine::Search, reply).unwrap();
            assert_eq!((answer.ids, answer.scores), (vec![7, 8], vec![0.5, 1.0]));
        }
        assert!(search(Engine::Search, b"*1\r\n:0\r\n")
            .unwrap()
            .ids
            .is_empty());
    }

    #[test]
    fn rows_that_fail_are_counted() {
        let each = |operation, rows, bytes: &[u8]| {
            let decoder = replies(Engine::VectorSet);
            decoder.decode(operation, rows, Reader(bytes), &mut Answer::default())
        };
        assert!(each(Operation::Upsert, 2, b":1\r\n:0\r\n").is_ok());
        let failed = each(Operation::Upsert, 2, b":1\r\n-ERR dim\r\n").unwrap_err();
        assert_eq!(failed.class, "incomplete");
        assert!(failed.message.contains("1 of 2 rows"), "{}", failed.message);
        assert!(failed.message.contains("status:err: ERR dim"));
        let one = each(Operation::Insert, 1, b"-ERR dim\r\n").unwrap_err();
        assert_eq!(one.class, "status:err");
        assert!(each(Operation::Get, 1, b"*1\r\n$1\r\n1\r\n$-1\r\n").is_ok());
        let gone = each(Operation::Get, 1, b"$-1\r\n$-1\r\n").unwrap_err();
        assert_eq!(gone.class, "incomplete");
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>, rows in 0usize..5) {
            for engine in [Engine::VectorSet, Engine::Search] {
                let _ = search(engine, &bytes);
                for operation in [Operation::Get, Operation::Insert, Operation::Delete] {
                    let reader = Reader(&bytes);
                    let _ = replies(engine).decode(operation, rows, reader, &mut Answer::default());
                }
            }
        }

        #[test]
        fn a_changed_byte_is_decoded_or_refused(at: proptest::sample::Index, byte: u8) {
            let mut bytes = b"%1\r\n+results\r\n*1\r\n%2\r\n+id\r\n$5\r\ndoc:7\r\n+extra_attributes\r\n*2\r\n$5\r\nscore\r\n,1\r\n".to_vec();
            prop_assert!(search(Engine::Search, &bytes).is_ok());
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _ = search(Engine::Search, &bytes);
            let _ = search(Engine::VectorSet, &bytes);
        }
    }
}
