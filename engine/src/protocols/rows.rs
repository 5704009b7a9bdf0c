//! What protocols that write rows one by one have in common.

use serde_json::Value;

use crate::protocol::{Cell, Column, Failure};

/// The columns of a row that have a value.
pub fn values(columns: &[Column], row: usize) -> impl Iterator<Item = (&str, Value)> {
    columns.iter().filter_map(move |column| {
        let value = match column.cell(row)? {
            Cell::Int(value) => value.into(),
            Cell::Float(value) => value.into(),
            Cell::Bool(value) => value.into(),
            Cell::Text(value) => value.into(),
        };
        Some((column.name.as_str(), value))
    })
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

/// What a request comes to whose rows have been answered one by one: the failure of its only row,
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
