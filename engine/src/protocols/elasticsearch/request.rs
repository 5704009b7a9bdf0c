//! Bodies of requests.

use std::ops::Range;

use serde::de::IgnoredAny;
use serde_json::json;

use super::Flavor;
use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Operation, Options, Task};
use crate::protocols::rows;

/// The body of a search.
pub fn search(flavor: Flavor, task: &Task, query: usize) -> Result<Vec<u8>, InvalidArgument> {
    let vector = numbers(task.vectors.row(query));
    let filter = task.filter(query).map(|filter| text(filter)).transpose()?;
    let asked = match flavor {
        Flavor::Elasticsearch => knn(task, &vector, filter)?,
        Flavor::OpenSearch => match task.options.get("exact") {
            Some(space) => scan(task, &vector, filter, space),
            None => knn_query(task, &vector, filter)?,
        },
    };
    let (k, returned) = (task.k, returned(&task.options)?);
    Ok(format!(r#"{{"size":{k},{returned},{asked}}}"#).into_bytes())
}

/// What is returned of each row, as members of a search.
fn returned(options: &Options) -> Result<String, InvalidArgument> {
    let names = |option| options.get(option).map(|all| all.split(',').collect());
    let (source, fields): (Option<Vec<&str>>, Option<Vec<&str>>) =
        (names("source"), names("fields"));
    if fields.as_ref().is_some_and(|names| !names.contains(&"id")) {
        return Err(InvalidArgument(
            "'id' is not among the option 'fields'".into(),
        ));
    }
    let mut out = match &source {
        Some(names) => format!(r#""_source":{}"#, json!(names)),
        None => r#""_source":false"#.into(),
    };
    if let Some(names) = &fields {
        if source.is_none() {
            out.push_str(r#","stored_fields":"_none_""#);
        }
        out.push_str(&format!(r#","docvalue_fields":{}"#, json!(names)));
    }
    Ok(out)
}

/// The name of the vectors' field, as JSON.
fn field(options: &Options) -> String {
    json!(options.get("vector").unwrap_or("vector")).to_string()
}

/// Elasticsearch's section of neighbours.
fn knn(task: &Task, vector: &str, filter: Option<&str>) -> Result<String, InvalidArgument> {
    let (k, options) = (task.k, &task.options);
    let field = field(options);
    let mut out = format!(r#""knn":{{"field":{field},"query_vector":{vector},"k":{k}"#);
    if let Some(count) = options.parse::<u32>("num_candidates")? {
        out.push_str(&format!(r#","num_candidates":{count}"#));
    }
    if let Some(factor) = options.parse::<f32>("oversample")? {
        let rescore = json!({ "oversample": factor });
        out.push_str(&format!(r#","rescore_vector":{rescore}"#));
    }
    if let Some(filter) = filter {
        out.push_str(&format!(r#","filter":{filter}"#));
    }
    out.push('}');
    Ok(out)
}

/// OpenSearch's query for neighbours.
fn knn_query(task: &Task, vector: &str, filter: Option<&str>) -> Result<String, InvalidArgument> {
    let (k, options) = (task.k, &task.options);
    let field = field(options);
    let mut out = format!(r#""query":{{"knn":{{{field}:{{"vector":{vector},"k":{k}"#);
    if let Some(ef) = options.parse::<u32>("ef")? {
        out.push_str(&format!(r#","method_parameters":{{"ef_search":{ef}}}"#));
    }
    if let Some(filter) = filter {
        out.push_str(&format!(r#","filter":{filter}"#));
    }
    out.push_str("}}}");
    Ok(out)
}

/// OpenSearch's query that compares with every row that the filter keeps.
fn scan(task: &Task, vector: &str, filter: Option<&str>, space: &str) -> String {
    let (field, space) = (field(&task.options), json!(space));
    let kept = filter.unwrap_or(r#"{"match_all":{}}"#);
    let asked = format!(r#"{{"field":{field},"query_value":{vector},"space_type":{space}}}"#);
    let script = format!(r#"{{"lang":"knn","source":"knn_score","params":{asked}}}"#);
    format!(r#""query":{{"script_score":{{"query":{kept},"script":{script}}}}}"#)
}

/// Lines of a `_bulk` request.
pub fn bulk(task: &Task, range: Range<usize>) -> Vec<u8> {
    let action = match task.operation {
        Operation::Insert => "create",
        Operation::Delete => "delete",
        _ => "index",
    };
    let name = field(&task.options);
    let id_field = task.options.get("id_field").map(|name| json!(name));
    let mut out = vec![];
    for row in range {
        let id = task.ids[row];
        out.extend_from_slice(format!("{{\"{action}\":{{\"_id\":\"{id}\"}}}}\n").as_bytes());
        if task.operation == Operation::Delete {
            continue;
        }
        let vector = numbers(task.vectors.row(row));
        out.extend_from_slice(format!("{{{name}:{vector}").as_bytes());
        if let Some(name) = &id_field {
            out.extend_from_slice(format!(",{name}:{id}").as_bytes());
        }
        if !task.columns.is_empty() {
            let before = out.len();
            out.push(b',');
            rows::put_members(&mut out, rows::values(task, row));
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
fn text(filter: &[u8]) -> Result<&str, InvalidArgument> {
    let wrong = |error: serde_json::Error| InvalidArgument(format!("a filter is no JSON: {error}"));
    serde_json::from_slice::<IgnoredAny>(filter).map_err(wrong)?;
    std::str::from_utf8(filter).map_err(|_| InvalidArgument("a filter is no text".into()))
}
