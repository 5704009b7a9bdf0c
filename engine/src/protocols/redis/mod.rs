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
//! `redis` has a connection for each worker and `redis-pipelined` shares them. A search of a vector
//! set runs in a thread of its own, and its connection waits for it: what comes behind it on the
//! same connection waits too, so that only connections make searches run side by side.

mod query_engine;
mod vector_set;

use std::ops::Range;

use crate::misuse::Misuse;
use crate::protocol::{Answer, Failure, Operation, Options, Prepared, Protocol, Target, Task};
use crate::protocols::messages::names;
use crate::protocols::rows;
use crate::transport::resp::{
    double, number, put_command, refusal, Decode, Item, Opened, Pipelined, Reader, Single,
};

/// Many requests share a connection (`PIPELINED`), or each worker has its own.
pub struct Redis<const PIPELINED: bool> {
    target: Target,
    greeting: Vec<Vec<u8>>,
    decoder: Replies,
}

/// How replies are read.
#[derive(Clone, Debug)]
pub struct Replies {
    engine: Engine,
    prefix: Vec<u8>,
    /// What a search brings back beside ids and scores.
    attributes: bool,
    returning: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Engine {
    VectorSet,
    Search,
}

impl<const PIPELINED: bool> Redis<PIPELINED> {
    fn make(target: Target) -> Result<Self, Misuse> {
        let engine = match target.options.get("engine").unwrap_or("vectorset") {
            "vectorset" => Engine::VectorSet,
            "search" => Engine::Search,
            other => {
                let what = format!("engine is 'vectorset' or 'search', not '{other}'");
                return Err(Misuse(what));
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
            target,
        })
    }

    fn encode(&self, task: &Task) -> Result<Vec<Prepared>, Misuse> {
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

    async fn open(&self) -> Result<Opened, Failure> {
        Opened::new(&self.target, &self.greeting).await
    }
}

impl Protocol for Redis<true> {
    type Connection = Pipelined<Replies>;
    const SHARED: bool = true;

    fn new(target: Target) -> Result<Self, Misuse> {
        Self::make(target)
    }

    fn prepare(&self, task: &Task) -> Result<Vec<Prepared>, Misuse> {
        self.encode(task)
    }

    async fn connect(&self) -> Result<Self::Connection, Failure> {
        Ok(Pipelined::new(self.open().await?, self.decoder.clone()))
    }
}

impl Protocol for Redis<false> {
    type Connection = Single<Replies>;
    const SHARED: bool = false;

    fn new(target: Target) -> Result<Self, Misuse> {
        Self::make(target)
    }

    fn prepare(&self, task: &Task) -> Result<Vec<Prepared>, Misuse> {
        self.encode(task)
    }

    async fn connect(&self) -> Result<Self::Connection, Failure> {
        Ok(Single::new(self.open().await?, self.decoder.clone()))
    }
}

/// The commands that come before the first request.
fn greeting(options: &Options) -> Result<Vec<Vec<u8>>, Misuse> {
    let version = match options.get("resp").unwrap_or("2") {
        version @ ("2" | "3") => version,
        other => return Err(Misuse(format!("resp is 2 or 3, not '{other}'"))),
    };
    let database = options.parse::<u32>("database")?;
    let (user, password) = (options.get("user"), options.get("password"));
    if user.is_some() && password.is_none() {
        return Err(Misuse("there is a user and no password".into()));
    }
    let mut out: Vec<Vec<u8>> = vec![];
    let mut say = |parts: &[&str]| {
        let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
        let mut command = vec![];
        put_command(&mut command, &parts);
        out.push(command);
    };
    match (user, password) {
        (Some(user), Some(password)) => say(&["AUTH", user, password]),
        (None, Some(password)) => say(&["AUTH", password]),
        _ => {}
    }
    if version == "3" {
        say(&["HELLO", "3"]);
    }
    if let Some(database) = database {
        say(&["SELECT", &database.to_string()]);
    }
    Ok(out)
}

/// What the commands of a class have in common.
struct Words<'a> {
    replies: &'a Replies,
    collection: &'a [u8],
    vector: &'a [u8],
    /// Of a search.
    ef: Option<String>,
    filter_ef: Option<String>,
    exact: bool,
    /// What stands at the end of a `VADD`.
    build: Vec<Vec<u8>>,
}

impl<'a> Words<'a> {
    fn new(replies: &'a Replies, options: &'a Options) -> Result<Self, Misuse> {
        let number = |name| Ok(options.parse::<u64>(name)?.map(|value| value.to_string()));
        Ok(Self {
            replies,
            collection: options.text("collection")?.as_bytes(),
            vector: options.get("vector").unwrap_or("vector").as_bytes(),
            ef: number("ef")?,
            filter_ef: number("filter_ef")?,
            exact: options.parse("exact")?.unwrap_or(false),
            build: vector_set::build(options)?,
        })
    }

    fn name(&self, id: i64) -> Vec<u8> {
        [&self.replies.prefix, id.to_string().as_bytes()].concat()
    }

    fn search(&self, task: &Task, query: usize) -> Result<Vec<u8>, Misuse> {
        let mut out = vec![];
        match self.replies.engine {
            Engine::VectorSet => vector_set::put_search(self, task, query, &mut out),
            Engine::Search => query_engine::put_search(self, task, query, &mut out)?,
        }
        out.shrink_to_fit();
        Ok(out)
    }

    /// The commands for one row of a write, get or delete.
    fn row(&self, task: &Task, row: usize, out: &mut Vec<u8>) {
        let name = self.name(task.ids[row]);
        match (task.operation, self.replies.engine) {
            (Operation::Get, Engine::VectorSet) => {
                put_command(out, &[b"VEMB", self.collection, &name]);
                put_command(out, &[b"VGETATTR", self.collection, &name]);
            }
            (Operation::Get, Engine::Search) => put_command(out, &[b"HGETALL", &name]),
            (Operation::Delete, Engine::VectorSet) => {
                put_command(out, &[b"VREM", self.collection, &name]);
            }
            (Operation::Delete, Engine::Search) => put_command(out, &[b"DEL", &name]),
            (_, Engine::VectorSet) => vector_set::put_row(self, task, row, &name, out),
            (_, Engine::Search) => query_engine::put_row(self, task, row, &name, out),
        }
    }
}

fn bytes(task: &Task, row: usize) -> Vec<u8> {
    task.vectors.row_bytes(row).collect()
}

impl Decode for Replies {
    fn replies(&self, operation: Operation, rows: usize) -> usize {
        match (operation, self.engine) {
            // Its vector, its attributes.
            (Operation::Get, Engine::VectorSet) => 2 * rows,
            // What is there goes, the row comes.
            (Operation::Upsert, Engine::Search) => 2 * rows,
            _ => rows,
        }
    }

    fn decode(
        &self,
        operation: Operation,
        rows: usize,
        mut replies: Reader<'_>,
        answer: &mut Answer,
    ) -> Result<(), Failure> {
        match (operation, self.engine) {
            (Operation::Search, Engine::VectorSet) => vector_set::read(self, &mut replies, answer),
            (Operation::Search, Engine::Search) => query_engine::read(self, &mut replies, answer),
            _ => self.each(operation, rows, &mut replies),
        }
    }
}

impl Replies {
    fn id(&self, item: Item<'_>) -> Result<i64, Failure> {
        let Item::Text(name) = item else {
            return Err(Failure::garbage("a name is no text"));
        };
        let own = name.strip_prefix(&self.prefix[..]);
        own.and_then(number).ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            let prefix = String::from_utf8_lossy(&self.prefix);
            Failure::garbage(format!("'{name}' is no id after the prefix '{prefix}'"))
        })
    }

    /// Writes, gets and deletes: a reply for each row, or two.
    fn each(
        &self,
        operation: Operation,
        rows: usize,
        replies: &mut Reader<'_>,
    ) -> Result<(), Failure> {
        let of_one = self.replies(operation, 1);
        let mut failed = 0;
        let mut first: Option<Failure> = None;
        for _ in 0..rows {
            let mut failure = None;
            for nth in 0..of_one {
                let item = replies.item()?;
                replies.skip_inner(item)?;
                let missing = nth == 0
                    && operation == Operation::Get
                    && matches!(item, Item::Null | Item::Array(0) | Item::Map(0));
                match item {
                    Item::Error(error) => failure = Some(refusal(error)),
                    _ if missing => failure = Some(Failure::new("incomplete", "no such row")),
                    _ => {}
                }
            }
            failed += usize::from(failure.is_some());
            first = first.or(failure);
        }
        rows::failed(failed, rows, first)
    }
}

fn score(item: Item<'_>) -> Result<f32, Failure> {
    match item {
        Item::Double(value) => Ok(value as f32),
        Item::Integer(value) => Ok(value as f32),
        Item::Text(text) => match double(text) {
            Ok(value) => Ok(value as f32),
            Err(_) => Err(Failure::garbage("a score is no number")),
        },
        _ => Err(Failure::garbage("a score is no number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Column, Matrix, Values};
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
