//! What is read of answers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::IgnoredAny;
use serde::Deserialize;

use crate::protocol::{Answer, Failure, Operation, Prepared};
use crate::protocols::rows;
use crate::transport::http::Decode;

/// Characters of a refusal's body that are kept when it says no reason.
const REASON: usize = 300;

/// Reads answers: only what is needed of them.
#[derive(Clone, Copy, Debug)]
pub struct Json;

impl Decode for Json {
    fn decode(&self, request: &Prepared, body: &[u8], answer: &mut Answer) -> Result<(), Failure> {
        decode(request.operation, request.rows as usize, body, answer)
    }

    fn refusal(&self, body: &[u8]) -> String {
        match serde_json::from_slice::<Refused<'_>>(body) {
            Ok(refused) => refused.error.to_string(),
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
            (Some(Fields { id: [id] }), _) => id,
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
        Some(items) if items.len() != rows => {
            let what = format!("{} of {rows} rows were answered", items.len());
            return Err(Failure::new("incomplete", what));
        }
        _ => return Ok(()),
    }
    let outcomes: Outcomes<'_> = parse(body)?;
    let (mut count, mut first) = (0, None);
    for item in outcomes.items.iter().flat_map(|item| item.values()) {
        // A row that was to be deleted, and is not there, has this status and no error.
        if item.error.is_some() || (item.status >= 300 && item.status != 404) {
            count += 1;
            first.get_or_insert_with(|| {
                let message = item.error.as_ref().map(Cause::to_string);
                Failure::new(format!("http:{}", item.status), message.unwrap_or_default())
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
    let why = error.map_or("no such row".into(), Cause::to_string);
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
    fields: Option<Fields>,
}

/// Those that are returned, each as a list: `{"id": [7], "colour": ["red"]}`.
#[derive(Deserialize)]
struct Fields {
    id: [i64; 1],
}

#[derive(Deserialize)]
struct Written {
    errors: bool,
    /// Their number is all that matters, and a list of these takes no memory.
    items: Option<Vec<IgnoredAny>>,
}

#[derive(Deserialize)]
struct Outcomes<'a> {
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
    Reason {
        #[serde(borrow, rename = "type", default)]
        kind: Cow<'a, str>,
        #[serde(borrow, default)]
        reason: Cow<'a, str>,
    },
    Text(Cow<'a, str>),
}

impl fmt::Display for Cause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Reason { kind, reason } => write!(f, "{kind}: {reason}"),
            Cause::Text(text) => f.write_str(text),
        }
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
        let field = ANSWER.replace(r#""_id":"7","#, "").replace(
            r#""_score":0.5}"#,
            r#""_score":0.5,"fields":{"f0":["a"],"id":[7],"v":[[0.5,1]]}}"#,
        );
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
        let gone = r#"{"delete":{"_id":"3","status":404,"result":"not_found"}}"#;
        let both = write(2, &format!(r#"{{"errors":true,"items":[{gone},{bad}]}}"#)).unwrap_err();
        assert!(both.message.starts_with("1 of 2 rows failed"));
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
        let refusal = |body: &str| Json.refusal(body.as_bytes());
        let body =
            r#"{"error":{"root_cause":[],"type":"parsing","reason":"no \"x\""},"status":400}"#;
        assert_eq!(refusal(body), r#"parsing: no "x""#);
        assert_eq!(
            refusal(r#"{"error":"no handler","status":405}"#),
            "no handler"
        );
        assert_eq!(refusal("<html>"), "<html>");
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
