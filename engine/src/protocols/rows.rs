//! Rows as JSON, and answers that cover only some of the rows.

use serde_json::Value;

use crate::protocol::{Answer, Cell, Failure, Prepared, Task};

/// The columns of a row that have a value.
pub fn values(task: &Task, row: usize) -> impl Iterator<Item = (&str, Value)> {
    task.cells(row).map(|(name, cell)| (name, cell.into()))
}

impl From<Cell<'_>> for Value {
    fn from(cell: Cell<'_>) -> Self {
        match cell {
            Cell::Int(value) => value.into(),
            Cell::Float(value) => value.into(),
            Cell::Bool(value) => value.into(),
            Cell::Text(value) => value.into(),
        }
    }
}

/// Append a JSON object.
pub fn put_object<'a>(out: &mut Vec<u8>, values: impl Iterator<Item = (&'a str, Value)>) {
    out.push(b'{');
    put_members(out, values);
    out.push(b'}');
}

/// Append members of a JSON object, without its braces.
pub fn put_members<'a>(out: &mut Vec<u8>, values: impl Iterator<Item = (&'a str, Value)>) {
    for (at, (name, value)) in values.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(Value::from(name).to_string().as_bytes());
        out.push(b':');
        out.extend_from_slice(value.to_string().as_bytes());
    }
}

/// Refuse an answer to a get that lacks rows.
pub fn check_complete(request: &Prepared, answer: &Answer) -> Result<(), Failure> {
    match answer.ids.len() {
        came if came == request.rows as usize => Ok(()),
        came => Err(incomplete(came, request, " came")),
    }
}

/// The failure of a request of which only some rows came, or were written.
pub fn incomplete(done: usize, request: &Prepared, why: &str) -> Failure {
    Failure::new(
        "incomplete",
        format!("{done} of {} rows{why}", request.rows),
    )
}

/// The outcome of a request whose rows have been answered one by one: the failure of its only row,
/// or that some failed.
pub fn failed(failed: usize, rows: usize, first: Option<Failure>) -> Result<(), Failure> {
    match first {
        None => Ok(()),
        Some(failure) if rows == 1 => Err(failure),
        Some(Failure { class, message, .. }) => Err(Failure::new(
            "incomplete",
            format!("{failed} of {rows} rows failed; the first with {class}: {message}"),
        )),
    }
}
