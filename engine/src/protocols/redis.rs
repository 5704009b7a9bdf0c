//! Redis: vector sets (`VADD`, `VSIM`, …), or the query engine (`HSET`, `FT.SEARCH`).
//!
//! Of the target: `engine` is "vectorset" (unless said) or "search"; `resp` is "2" (unless said)
//! or "3"; `user`, `password`, `database`; `prefix` stands before the id in every element or key.
//!
//! Of a class: `collection` is the key of the vector set, or the index. A search takes `ef`,
//! `filter_ef` and `exact` ("true"), and its filters are expressions of `VSIM … FILTER`, or of the
//! query before `=>`. A write takes `quantization` (noquant, q8, bin), `ef_construction` and `m`;
//! columns become attributes, or fields of the hash. With the query engine `vector` names the
//! field. One batch is one pipeline of commands; an insert replaces what is there, as Redis does.

use std::ops::Range;

use serde_json::Value;

use crate::misuse::Misuse;
use crate::protocol::{Answer, Failure, Operation, Options, Prepared, Protocol, Target, Task};
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
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Engine {
    VectorSet,
    Search,
}

/// The field of a query engine's answer in which the score stands.
const SCORE: &[u8] = b"score";

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
    engine: Engine,
    prefix: &'a [u8],
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
    fn new(decoder: &'a Replies, options: &'a Options) -> Result<Self, Misuse> {
        let number = |name| Ok(options.parse::<u32>(name)?.map(|value| value.to_string()));
        let mut build: Vec<Vec<u8>> = vec![];
        match options.get("quantization") {
            None => {}
            Some(kind @ ("noquant" | "q8" | "bin")) => build.push(kind.to_uppercase().into()),
            Some(other) => {
                let what = format!("quantization is noquant, q8 or bin, not '{other}'");
                return Err(Misuse(what));
            }
        }
        for (name, word) in [("ef_construction", "EF"), ("m", "M")] {
            if let Some(value) = number(name)? {
                build.extend([word.into(), value.into()]);
            }
        }
        Ok(Self {
            engine: decoder.engine,
            prefix: &decoder.prefix,
            collection: options.text("collection")?.as_bytes(),
            vector: options.get("vector").unwrap_or("vector").as_bytes(),
            ef: number("ef")?,
            filter_ef: number("filter_ef")?,
            exact: options.parse("exact")?.unwrap_or(false),
            build,
        })
    }

    fn name(&self, id: i64) -> Vec<u8> {
        [self.prefix, id.to_string().as_bytes()].concat()
    }

    fn search(&self, task: &Task, query: usize) -> Result<Vec<u8>, Misuse> {
        let (k, vector) = (task.k.to_string(), bytes(task, query));
        let filter = task.filter(query).map(|filter| &filter[..]);
        let mut out = vec![];
        match self.engine {
            Engine::VectorSet => {
                let mut parts = vec![&b"VSIM"[..], self.collection, b"FP32", &vector];
                parts.extend([&b"WITHSCORES"[..], b"COUNT", k.as_bytes()]);
                for (word, value) in [("EF", &self.ef), ("FILTER-EF", &self.filter_ef)] {
                    if let Some(value) = value {
                        parts.extend([word.as_bytes(), value.as_bytes()]);
                    }
                }
                if let Some(filter) = filter {
                    parts.extend([b"FILTER", filter]);
                }
                if self.exact {
                    parts.push(b"TRUTH");
                }
                put_command(&mut out, &parts);
            }
            Engine::Search => {
                if self.exact {
                    return Err(Misuse("the index itself says whether it is exact".into()));
                }
                let mut asked = b"(".to_vec();
                asked.extend_from_slice(filter.unwrap_or(b"*"));
                asked.extend_from_slice(format!(")=>[KNN {k} @").as_bytes());
                asked.extend_from_slice(self.vector);
                asked.extend_from_slice(b" $vector");
                if let Some(ef) = &self.ef {
                    asked.extend_from_slice(format!(" EF_RUNTIME {ef}").as_bytes());
                }
                asked.extend_from_slice(b" AS score]");
                let mut parts = vec![&b"FT.SEARCH"[..], self.collection, &asked];
                parts.extend([&b"PARAMS"[..], b"2", b"vector", &vector, b"SORTBY", SCORE]);
                parts.extend([&b"RETURN"[..], b"1", SCORE, b"LIMIT", b"0", k.as_bytes()]);
                parts.extend([&b"DIALECT"[..], b"2"]);
                put_command(&mut out, &parts);
            }
        }
        out.shrink_to_fit();
        Ok(out)
    }

    /// The commands for one row of a write, get or delete.
    fn row(&self, task: &Task, row: usize, out: &mut Vec<u8>) {
        let name = self.name(task.ids[row]);
        match (task.operation, self.engine) {
            (Operation::Get, Engine::VectorSet) => {
                put_command(out, &[b"VEMB", self.collection, &name]);
                put_command(out, &[b"VGETATTR", self.collection, &name]);
            }
            (Operation::Get, Engine::Search) => put_command(out, &[b"HGETALL", &name]),
            (Operation::Delete, Engine::VectorSet) => {
                put_command(out, &[b"VREM", self.collection, &name]);
            }
            (Operation::Delete, Engine::Search) => put_command(out, &[b"DEL", &name]),
            (_, Engine::VectorSet) => {
                let vector = bytes(task, row);
                let mut parts = vec![&b"VADD"[..], self.collection, b"FP32", &vector, &name];
                parts.extend(self.build.iter().map(|part| &part[..]));
                let mut attributes = vec![];
                if !task.columns.is_empty() {
                    rows::put_object(&mut attributes, rows::values(&task.columns, row));
                    parts.extend([&b"SETATTR"[..], &attributes]);
                }
                put_command(out, &parts);
            }
            (_, Engine::Search) => {
                let vector = bytes(task, row);
                let fields: Vec<_> = rows::values(&task.columns, row)
                    .map(|(name, value)| (name, plain(value)))
                    .collect();
                let mut parts = vec![&b"HSET"[..], &name, self.vector, &vector];
                for (name, value) in &fields {
                    parts.extend([name.as_bytes(), value.as_bytes()]);
                }
                put_command(out, &parts);
            }
        }
    }
}

fn bytes(task: &Task, row: usize) -> Vec<u8> {
    task.vectors.row_bytes(row).collect()
}

/// A value of a hash.
fn plain(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

impl Decode for Replies {
    fn replies(&self, operation: Operation, rows: usize) -> usize {
        match (operation, self.engine) {
            // Its vector, its attributes.
            (Operation::Get, Engine::VectorSet) => 2 * rows,
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
            (Operation::Search, Engine::VectorSet) => self.similar(&mut replies, answer),
            (Operation::Search, Engine::Search) => self.found(&mut replies, answer),
            _ => self.each(operation, rows, &mut replies),
        }
    }
}

impl Replies {
    /// `VSIM … WITHSCORES`: names and scores in turn, as an array or a map.
    fn similar(&self, replies: &mut Reader<'_>, answer: &mut Answer) -> Result<(), Failure> {
        let pairs = match replies.item()? {
            Item::Map(pairs) => pairs,
            Item::Array(items) if items % 2 == 0 => items / 2,
            Item::Error(error) => return Err(refusal(error)),
            _ => return Err(Failure::garbage("VSIM answers with something else")),
        };
        for _ in 0..pairs {
            let id = self.id(replies.item()?)?;
            answer.ids.push(id);
            answer.scores.push(score(replies.item()?)?);
        }
        Ok(())
    }

    /// `FT.SEARCH … RETURN 1 score`: with RESP2 the number of results, then keys and fields in
    /// turn; with RESP3 a map whose `results` are maps with `id` and `extra_attributes`.
    fn found(&self, replies: &mut Reader<'_>, answer: &mut Answer) -> Result<(), Failure> {
        let odd = || Failure::garbage("FT.SEARCH answers with something else");
        match replies.item()? {
            Item::Error(error) => Err(refusal(error)),
            Item::Array(items) if items % 2 == 1 => {
                let Item::Integer(_) = replies.item()? else {
                    return Err(odd());
                };
                for _ in 0..items / 2 {
                    let id = self.id(replies.item()?)?;
                    answer.ids.push(id);
                    let fields = replies.item()?;
                    answer.scores.push(score_field(fields, replies)?);
                }
                Ok(())
            }
            Item::Map(pairs) => {
                for _ in 0..pairs {
                    match (replies.item()?, replies.item()?) {
                        (Item::Text(b"results"), Item::Array(results)) => {
                            for _ in 0..results {
                                self.result(replies, answer)?;
                            }
                        }
                        (Item::Text(_), other) => replies.skip_inner(other)?,
                        _ => return Err(odd()),
                    }
                }
                Ok(())
            }
            _ => Err(odd()),
        }
    }

    /// One of the results of RESP3.
    fn result(&self, replies: &mut Reader<'_>, answer: &mut Answer) -> Result<(), Failure> {
        let Item::Map(pairs) = replies.item()? else {
            return Err(Failure::garbage("a result is no map"));
        };
        let (mut id, mut near) = (None, None);
        for _ in 0..pairs {
            match (replies.item()?, replies.item()?) {
                (Item::Text(b"id"), name) => id = Some(self.id(name)?),
                (Item::Text(b"extra_attributes"), fields) => {
                    near = Some(score_field(fields, replies)?);
                }
                (Item::Text(_), other) => replies.skip_inner(other)?,
                _ => return Err(Failure::garbage("a result is no map of names")),
            }
        }
        answer
            .ids
            .push(id.ok_or_else(|| Failure::garbage("a result has no id"))?);
        answer
            .scores
            .push(near.ok_or_else(|| Failure::garbage("a result has no score"))?);
        Ok(())
    }

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

/// The score among the fields of a result, which are names and values in turn.
fn score_field(fields: Item<'_>, replies: &mut Reader<'_>) -> Result<f32, Failure> {
    let pairs = match fields {
        Item::Map(pairs) => pairs,
        Item::Array(items) if items % 2 == 0 => items / 2,
        _ => {
            return Err(Failure::garbage(
                "the fields of a result are something else",
            ))
        }
    };
    let mut out = None;
    for _ in 0..pairs {
        match (replies.item()?, replies.item()?) {
            (Item::Text(SCORE), value) => out = Some(score(value)?),
            (Item::Text(_), value) => replies.skip_inner(value)?,
            _ => return Err(Failure::garbage("the name of a field is none")),
        }
    }
    out.ok_or_else(|| Failure::garbage("a result has no score"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn replies(engine: Engine) -> Replies {
        Replies {
            engine,
            prefix: b"doc:".to_vec(),
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
            assert_eq!((answer.ids, answer.scores), (vec![7, -1], vec![0.5, 0.25]));
        }
        assert!(search(Engine::VectorSet, b"*0\r\n").unwrap().ids.is_empty());
        let class = |bytes| search(Engine::VectorSet, bytes).unwrap_err().class;
        assert_eq!(class(b"-ERR no such thing\r\n"), "status:err");
        assert_eq!(class(b"-LOADING wait\r\n"), "status:loading");
        assert_eq!(class(b"*2\r\n$1\r\n7\r\n$3\r\n0.5\r\n"), "garbage");
        assert_eq!(class(b"$-1\r\n"), "garbage");
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
