//! What the protocols over gRPC share: a request for each query, or for each batch of rows.

use std::ops::Range;
use std::sync::Arc;

use http::Request;

use crate::codec::protobuf;
use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Answer, Failure, Options, Prepared, Task};
use crate::transport::grpc;

/// A request for each query, whose message `write` fills.
pub fn for_queries(
    task: &Task,
    head: &Arc<Request<()>>,
    write: impl Fn(&mut Vec<u8>, usize),
) -> Vec<Prepared> {
    (0..task.vectors.rows())
        .map(|query| grpc::prepare(task.operation, head, 1, |out| write(out, query)))
        .collect()
}

/// A request for each batch of rows, whose message `write` fills.
pub fn for_batches(
    task: &Task,
    head: &Arc<Request<()>>,
    write: impl Fn(&mut Vec<u8>, Range<usize>),
) -> Vec<Prepared> {
    task.batches()
        .map(|rows| {
            let number = rows.len();
            grpc::prepare(task.operation, head, number, |out| write(out, rows))
        })
        .collect()
}

/// Append a string field, unless the setting is not given.
pub fn put_option(out: &mut Vec<u8>, field: u32, options: &Options, name: &str) {
    if let Some(text) = options.get(name) {
        protobuf::put_bytes(out, field, text.as_bytes());
    }
}

/// The names in a setting such as `a,b,c`.
pub fn names<'a>(options: &'a Options, name: &str) -> impl Iterator<Item = &'a str> {
    let all = options.get(name).unwrap_or_default().split(',');
    all.map(str::trim).filter(|name| !name.is_empty())
}

/// A get is answered by every row it asks for.
pub fn check_came(request: &Prepared, answer: &Answer) -> Result<(), Failure> {
    match answer.ids.len() {
        came if came == request.rows as usize => Ok(()),
        came => Err(incomplete(came, request, " came")),
    }
}

/// Fewer rows came, or were written, than the request has.
pub fn incomplete(done: usize, request: &Prepared, why: &str) -> Failure {
    Failure::new(
        "incomplete",
        format!("{done} of {} rows{why}", request.rows),
    )
}

/// A setting that is one of these words, as its place among them.
pub fn choice(
    options: &Options,
    name: &str,
    words: &[&str],
) -> Result<Option<u64>, InvalidArgument> {
    let place = |given: &str| match words.iter().position(|word| *word == given) {
        Some(at) => Ok(at as u64),
        None => Err(InvalidArgument(format!(
            "the option '{name}' is one of {}, not '{given}'",
            words.join(", ")
        ))),
    };
    options.get(name).map(place).transpose()
}

/// A setting that is `true` or `false`.
pub fn flag(options: &Options, name: &str) -> Result<Option<bool>, InvalidArgument> {
    Ok(choice(options, name, &["false", "true"])?.map(|at| at == 1))
}
