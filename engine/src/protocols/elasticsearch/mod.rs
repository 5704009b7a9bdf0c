//! Elasticsearch and OpenSearch: JSON over HTTP.
//!
//! Of the target: `flavor` is "elasticsearch" (unless said) or "opensearch", which ask for
//! neighbours in different words; authentication is a header.
//!
//! Of a class: `collection` names the index, `vector` the field of the vectors ("vector" unless
//! said), `query` what follows `?` in the address (`filter_path=…`, `refresh=…`, `routing=…`).
//!
//! A search takes `num_candidates` and `oversample` (Elasticsearch), or `ef`, or `exact` with the
//! name of a space for a scan without an index (OpenSearch); its filters are queries in JSON. It
//! is answered with `_id`; with `fields`, names separated by commas and `id` among them, with the
//! values of these fields instead, read from their columns, and then the id is that of `id`;
//! `source` names those that are read from the document.
//!
//! Rows are written by `_bulk`, vectors as lists of numbers beside the columns, and the id in a
//! field as well where `id_field` names it: an insert creates, and a row that is there already is
//! refused; an upsert replaces. Payloads are sent to the address `path`.

mod answer;
mod request;

use std::ops::Range;

use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Failure, Operation, Prepared, Protocol, Target, Task};
use crate::transport::http::{post, Http};

pub use answer::Json;

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

    fn new(target: Target) -> Result<Self, InvalidArgument> {
        let flavor = match target.options.get("flavor").unwrap_or("elasticsearch") {
            "elasticsearch" => Flavor::Elasticsearch,
            "opensearch" => Flavor::OpenSearch,
            other => {
                let what = format!("flavor is 'elasticsearch' or 'opensearch', not '{other}'");
                return Err(InvalidArgument(what));
            }
        };
        Ok(Self { target, flavor })
    }

    fn prepare(&self, task: &Task) -> Result<Vec<Prepared>, InvalidArgument> {
        if let Some(at) = task.vectors.values.iter().position(|x| !x.is_finite()) {
            let row = at / task.vectors.dim;
            return Err(InvalidArgument(format!(
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
                let search = |query| Ok(one(&request::search(self.flavor, task, query)?, 1));
                (0..task.vectors.rows())
                    .map(search)
                    .collect::<Result<_, InvalidArgument>>()?
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
                let batch =
                    |range: Range<usize>| one(&request::bulk(task, range.clone()), range.len());
                task.batches().map(batch).collect()
            }
        })
    }

    async fn connect(&self, to: &Target) -> Result<Self::Connection, Failure> {
        Http::connect(to, Json).await
    }
}

/// Path with query, and what the body is.
fn address(task: &Task) -> Result<(String, &'static str), InvalidArgument> {
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
