//! Elasticsearch and OpenSearch: JSON over HTTP.
//!
//! Of the target: `flavor` is "elasticsearch" (unless said) or "opensearch", which ask for
//! neighbours in different words; authentication is a header.
//!
//! Of a class: `collection` names the index, `vector` the field of the vectors ("vector" unless
//! said), `query` what follows `?` in the address (`filter_path=…`, `refresh=…`, `routing=…`). A
//! search takes `num_candidates` (Elasticsearch) or `ef` (OpenSearch), and `id_field`, an integer
//! field with the id where it is not `_id`; its filters are queries in JSON. Rows are written by
//! `_bulk`, vectors as lists of numbers beside the columns: an insert creates, and a row that is
//! there already is refused; an upsert replaces. Payloads are sent to the address `path`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::misuse::Misuse;
use crate::protocol::{Answer, Failure, Operation, Prepared, Protocol, Target, Task};
use crate::protocols::rows;
use crate::transport::http::{post, Decode, Http};

/// Characters of a refusal's body that are kept when it says no reason.
const REASON: usize = 300;

pub struct Elasticsearch {
    target: Target,
    flavor: Flavor,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Flavor {
    Elasticsearch,
    OpenSearch,
}

impl Protocol for Elasticsearch {
    type Connection = Http<Json>;
    const SHARED: bool = false;

    fn new(target: Target) -> Result<Self, Misuse> {
        let flavor = match target.options.get("flavor").unwrap_or("elasticsearch") {
            "elasticsearch" => Flavor::Elasticsearch,
            "opensearch" => Flavor::OpenSearch,
            other => {
                let what = format!("flavor is 'elasticsearch' or 'opensearch', not '{other}'");
                return Err(Misuse(what));
            }
        };
        Ok(Self { target, flavor })
    }

    fn prepare(&self, task: &Task) -> Result<Vec<Prepared>, Misuse> {
        if let Some(at) = task.vectors.values.iter().position(|x| !x.is_finite()) {
            let row = at / task.vectors.dim;
            return Err(Misuse(format!(
                "vector {row} has a value that JSON cannot carry: NaN or infinite"
            )));
        }
        let operation = task.operation;
        let (path, kind) = address(task)?;
        let head = post(&self.target, &path, kind)?;
        let one = |body: &[u8], rows| head.request(operation, body, rows);
        Ok(match operation {
            Operation::Payload => task.payloads.iter().map(|body| one(body, 1)).collect(),
            Operation::Search => {
                let search = |query| Ok(one(&self.search(task, query)?, 1));
                (0..task.vectors.rows())
                    .map(search)
                    .collect::<Result<_, Misuse>>()?
            }
            Operation::Get => {
                let get = |range: Range<usize>| {
                    let ids: Vec<_> = task.ids[range].iter().map(i64::to_string).collect();
                    let count = ids.len();
                    one(
                        serde_json::json!({ "ids": ids }).to_string().as_bytes(),
                        count,
                    )
                };
                task.batches().map(get).collect()
            }
            Operation::Insert | Operation::Upsert | Operation::Delete => {
                let field = task.options.get("vector").unwrap_or("vector");
                let batch =
                    |range: Range<usize>| one(&bulk(task, field, range.clone()), range.len());
                task.batches().map(batch).collect()
            }
        })
    }

    async fn connect(&self) -> Result<Self::Connection, Failure> {
        Http::connect(&self.target, Json).await
    }
}

impl Elasticsearch {
    fn search(&self, task: &Task, query: usize) -> Result<Vec<u8>, Misuse> {
        let (k, options) = (task.k, &task.options);
        let field = serde_json::json!(options.get("vector").unwrap_or("vector"));
        let vector = numbers(task.vectors.row(query));
        let filter = match task.filter(query) {
            Some(filter) => format!(r#","filter":{}"#, json(filter)?),
            None => String::new(),
        };
        let knn = match self.flavor {
            Flavor::Elasticsearch => {
                let candidates = options.parse::<u32>("num_candidates")?;
                let candidates = candidates.map_or(String::new(), |count| {
                    format!(r#","num_candidates":{count}"#)
                });
                format!(
                    r#""knn":{{"field":{field},"query_vector":{vector},"k":{k}{candidates}{filter}}}"#
                )
            }
            Flavor::OpenSearch => {
                let ef = options.parse::<u32>("ef")?.map_or(String::new(), |ef| {
                    format!(r#","method_parameters":{{"ef_search":{ef}}}"#)
                });
                format!(
                    r#""query":{{"knn":{{{field}:{{"vector":{vector},"k":{k}{ef}{filter}}}}}}}"#
                )
            }
        };
        let id = options.get("id_field").map_or(String::new(), |id| {
            let fields = serde_json::json!([id]);
            format!(r#","stored_fields":"_none_","docvalue_fields":{fields}"#)
        });
        Ok(format!(r#"{{"size":{k},"_source":false{id},{knn}}}"#).into_bytes())
    }
}

/// Path with query, and what the body is.
fn address(task: &Task) -> Result<(String, &'static str), Misuse> {
    let (verb, kind) = match task.operation {
        Operation::Search => ("_search", "application/json"),
        Operation::Get => ("_mget", "application/json"),
        Operation::Payload => ("", "application/json"),
        _ => ("_bulk", "application/x-ndjson"),
    };
    let mut path = match task.operation {
        Operation::Payload => task.options.text("path")?.to_owned(),
        _ => format!("/{}/{verb}", task.options.text("collection")?),
    };
    if let Some(query) = task.options.get("query") {
        path.push('?');
        path.push_str(query);
    }
    Ok((path, kind))
}

/// Lines of a `_bulk` request.
fn bulk(task: &Task, field: &str, range: Range<usize>) -> Vec<u8> {
    let action = match task.operation {
        Operation::Insert => "create",
        Operation::Delete => "delete",
        _ => "index",
    };
    let mut out = vec![];
    for row in range {
        let id = task.ids[row];
        out.extend_from_slice(format!("{{\"{action}\":{{\"_id\":\"{id}\"}}}}\n").as_bytes());
        if task.operation == Operation::Delete {
            continue;
        }
        let (name, vector) = (serde_json::json!(field), numbers(task.vectors.row(row)));
        out.extend_from_slice(format!("{{{name}:{vector}").as_bytes());
        if !task.columns.is_empty() {
            let before = out.len();
            out.push(b',');
            rows::put_members(&mut out, rows::values(&task.columns, row));
            if out.len() == before + 1 {
                out.truncate(before);
            }
        }
        out.extend_from_slice(b"}\n");
    }
    out
}

/// The shortest decimal numbers that are these float32.
fn numbers(values: &[f32]) -> String {
    serde_json::to_string(values).unwrap_or_default()
}

/// A filter, which must be JSON.
fn json(filter: &[u8]) -> Result<&str, Misuse> {
    let wrong = |error: serde_json::Error| Misuse(format!("a filter is no JSON: {error}"));
    serde_json::from_slice::<IgnoredAny>(filter).map_err(wrong)?;
    std::str::from_utf8(filter).map_err(|_| Misuse("a filter is no text".into()))
}

/// Reads answers: only what is needed of them.
#[derive(Clone, Copy, Debug)]
pub struct Json;

impl Decode for Json {
    fn decode(&self, request: &Prepared, body: &[u8], answer: &mut Answer) -> Result<(), Failure> {
        decode(request.operation, request.rows as usize, body, answer)
    }

    fn refusal(&self, body: &[u8]) -> String {
        match serde_json::from_slice::<Refused<'_>>(body) {
            Ok(Refused {
                error: Cause::Told { kind, reason },
            }) => format!("{kind}: {reason}"),
            Ok(Refused {
                error: Cause::Text(text),
            }) => text.into(),
            Err(_) => String::from_utf8_lossy(body).chars().take(REASON).collect(),
        }
    }
}

/// Ids and scores of an answer, or what went wrong within it.
pub fn decode(
    operation: Operation,
    rows: usize,
    body: &[u8],
    answer: &mut Answer,
) -> Result<(), Failure> {
    match operation {
        Operation::Search => hits(body, answer),
        Operation::Get => documents(body, rows),
        Operation::Payload => Ok(()),
        _ => written(body, rows),
    }
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Failure> {
    serde_json::from_slice(body).map_err(|error| Failure::garbage(format!("JSON: {error}")))
}

fn hits(body: &[u8], answer: &mut Answer) -> Result<(), Failure> {
    let found: Found<'_> = parse(body)?;
    if found.timed_out {
        return Err(Failure::new("incomplete", "the server's own time ran out"));
    }
    if found.shards.failed > 0 {
        let what = format!("{} shards failed", found.shards.failed);
        return Err(Failure::new("incomplete", what));
    }
    for hit in found.hits.hits {
        let id = match (hit.fields, hit.id) {
            (Some(First(id)), _) => id,
            (None, Some(id)) => id
                .parse()
                .map_err(|_| Failure::garbage(format!("_id '{id}' is no integer")))?,
            (None, None) => return Err(Failure::garbage("a hit has no id")),
        };
        answer.ids.push(id);
        answer.scores.push(hit.score.unwrap_or(f32::NAN));
    }
    Ok(())
}

fn written(body: &[u8], rows: usize) -> Result<(), Failure> {
    let seen: Written = parse(body)?;
    match seen.items {
        _ if seen.errors => {}
        Some(Count(items)) if items != rows => {
            let what = format!("{items} of {rows} rows were answered");
            return Err(Failure::new("incomplete", what));
        }
        _ => return Ok(()),
    }
    let told: Told<'_> = parse(body)?;
    let (mut count, mut first) = (0, None);
    for item in told.items.iter().flat_map(|item| item.values()) {
        if item.status >= 300 {
            count += 1;
            first.get_or_insert_with(|| {
                let message = item
                    .error
                    .as_ref()
                    .map_or(String::new(), |cause| match cause {
                        Cause::Told { kind, reason } => format!("{kind}: {reason}"),
                        Cause::Text(text) => text.to_string(),
                    });
                Failure::new(format!("http:{}", item.status), message)
            });
        }
    }
    let unknown = || Failure::new("incomplete", "there were errors, and it is not said which");
    rows::failed(count, rows, Some(first.unwrap_or_else(unknown)))
}

fn documents(body: &[u8], rows: usize) -> Result<(), Failure> {
    let seen: Documents<'_> = parse(body)?;
    let missing = rows.saturating_sub(seen.docs.iter().filter(|doc| doc.found).count());
    if missing == 0 {
        return Ok(());
    }
    let error = seen.docs.iter().find_map(|doc| doc.error.as_ref());
    let why = match error {
        Some(Cause::Told { kind, reason }) => format!("{kind}: {reason}"),
        Some(Cause::Text(text)) => text.to_string(),
        None => "no such row".into(),
    };
    rows::failed(missing, rows, Some(Failure::new("incomplete", why)))
}

#[derive(Deserialize)]
struct Found<'a> {
    #[serde(default)]
    timed_out: bool,
    #[serde(default, rename = "_shards")]
    shards: Shards,
    #[serde(borrow)]
    hits: Hits<'a>,
}

#[derive(Default, Deserialize)]
struct Shards {
    #[serde(default)]
    failed: u32,
}

#[derive(Deserialize)]
struct Hits<'a> {
    #[serde(borrow, default)]
    hits: Vec<Hit<'a>>,
}

#[derive(Deserialize)]
struct Hit<'a> {
    #[serde(borrow, rename = "_id")]
    id: Option<Cow<'a, str>>,
    #[serde(rename = "_score")]
    score: Option<f32>,
    fields: Option<First>,
}

#[derive(Deserialize)]
struct Written {
    errors: bool,
    items: Option<Count>,
}

#[derive(Deserialize)]
struct Told<'a> {
    #[serde(borrow, default)]
    items: Vec<BTreeMap<Cow<'a, str>, Status<'a>>>,
}

#[derive(Deserialize)]
struct Status<'a> {
    #[serde(default)]
    status: u16,
    #[serde(borrow)]
    error: Option<Cause<'a>>,
}

#[derive(Deserialize)]
struct Documents<'a> {
    #[serde(borrow)]
    docs: Vec<Document<'a>>,
}

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(default)]
    found: bool,
    #[serde(borrow)]
    error: Option<Cause<'a>>,
}

#[derive(Deserialize)]
struct Refused<'a> {
    #[serde(borrow)]
    error: Cause<'a>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Cause<'a> {
    Told {
        #[serde(borrow, rename = "type", default)]
        kind: Cow<'a, str>,
        #[serde(borrow, default)]
        reason: Cow<'a, str>,
    },
    Text(Cow<'a, str>),
}

/// The first value of the first field: `{"id": [7]}`.
struct First(i64);

impl<'de> Deserialize<'de> for First {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = First;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field with the id")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<First, A::Error> {
                let mut first = None;
                while let Some((IgnoredAny, [id])) = map.next_entry::<IgnoredAny, [i64; 1]>()? {
                    first.get_or_insert(First(id));
                }
                first.ok_or_else(|| serde::de::Error::custom("no field has the id"))
            }
        }
        from.deserialize_map(Fields)
    }
}

/// How many there are of whatever it is.
struct Count(usize);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Items;
        impl<'de> Visitor<'de> for Items {
            type Value = Count;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Count, A::Error> {
                let mut count = 0;
                while list.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Count(count))
            }
        }
        from.deserialize_seq(Items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn search(body: &str) -> Result<Answer, Failure> {
        let mut answer = Answer::default();
        decode(Operation::Search, 1, body.as_bytes(), &mut answer)?;
        Ok(answer)
    }

    const ANSWER: &str = r#"{"took":1,"timed_out":false,"_shards":{"total":1,"successful":1,"skipped":0,"failed":0},"hits":{"total":{"value":2,"relation":"eq"},"max_score":0.5,"hits":[{"_index":"x","_id":"7","_score":0.5},{"_index":"x","_id":"-1","_score":0.25,"_ignored":["a"]}]}}"#;

    #[test]
    fn hits_are_read_by_their_id_or_a_field() {
        let field = ANSWER
            .replace(r#""_id":"7","#, "")
            .replace(r#""_score":0.5}"#, r#""_score":0.5,"fields":{"id":[7]}}"#);
        for body in [
            ANSWER,
            &field,
            r#"{"hits":{"hits":[{"_id":"7","_score":0.5},{"_id":"-1","_score":0.25}]}}"#,
        ] {
            let answer = search(body).unwrap();
            assert_eq!((answer.ids, answer.scores), (vec![7, -1], vec![0.5, 0.25]));
        }
        assert!(
            search(r#"{"hits":{}}"#).unwrap().ids.is_empty(),
            "filter_path leaves that"
        );
        let class = |body: &str| search(body).unwrap_err().class;
        assert_eq!(class(r#"{"hits":{"hits":[{"_id":"a"}]}}"#), "garbage");
        assert_eq!(class("{}"), "garbage");
        assert_eq!(
            class(&ANSWER.replace(r#""timed_out":false"#, r#""timed_out":true"#)),
            "incomplete"
        );
        assert_eq!(
            class(&ANSWER.replace(r#""failed":0"#, r#""failed":1"#)),
            "incomplete"
        );
    }

    #[test]
    fn rows_that_fail_are_counted() {
        let write = |rows, body: &str| {
            decode(
                Operation::Upsert,
                rows,
                body.as_bytes(),
                &mut Answer::default(),
            )
        };
        let item = r#"{"index":{"_id":"1","status":201}}"#;
        let bad = r#"{"index":{"_id":"2","status":400,"error":{"type":"bad","reason":"dims"}}}"#;
        assert!(write(1, &format!(r#"{{"errors":false,"items":[{item}]}}"#)).is_ok());
        assert!(write(5, r#"{"errors":false}"#).is_ok());
        let short = write(2, &format!(r#"{{"errors":false,"items":[{item}]}}"#)).unwrap_err();
        assert_eq!(short.class, "incomplete");
        let some = write(2, &format!(r#"{{"errors":true,"items":[{item},{bad}]}}"#)).unwrap_err();
        assert_eq!(some.class, "incomplete");
        assert_eq!(
            some.message,
            "1 of 2 rows failed; the first with http:400: bad: dims"
        );
        let one = write(1, &format!(r#"{{"errors":true,"items":[{bad}]}}"#)).unwrap_err();
        assert_eq!((&*one.class, &*one.message), ("http:400", "bad: dims"));
    }

    #[test]
    fn documents_that_are_not_there_are_counted() {
        let get = |body: &str| decode(Operation::Get, 2, body.as_bytes(), &mut Answer::default());
        assert!(get(r#"{"docs":[{"_id":"1","found":true},{"_id":"2","found":true}]}"#).is_ok());
        let gone = get(r#"{"docs":[{"_id":"1","found":true},{"_id":"2","found":false}]}"#);
        assert_eq!(gone.unwrap_err().class, "incomplete");
    }

    #[test]
    fn a_refusal_gives_its_reason() {
        let told = |body: &str| Json.refusal(body.as_bytes());
        let body =
            r#"{"error":{"root_cause":[],"type":"parsing","reason":"no \"x\""},"status":400}"#;
        assert_eq!(told(body), r#"parsing: no "x""#);
        assert_eq!(told(r#"{"error":"no handler","status":405}"#), "no handler");
        assert_eq!(told("<html>"), "<html>");
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(
            bytes: Vec<u8>,
            at: proptest::sample::Index,
            cut: proptest::sample::Index,
            rows in 0usize..3,
        ) {
            let mut changed = ANSWER.as_bytes().to_vec();
            changed.truncate(cut.index(changed.len()) + 1);
            let at = at.index(changed.len());
            changed[at] = bytes.first().copied().unwrap_or(b'"');
            for body in [&bytes, &changed] {
                for operation in [Operation::Search, Operation::Get, Operation::Upsert] {
                    let _ = decode(operation, rows, body, &mut Answer::default());
                }
                let _ = Json.refusal(body);
            }
        }
    }
}
