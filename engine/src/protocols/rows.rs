//! What protocols that write rows one by one have in common.

use serde_json::Value;

use crate::protocol::{Column, Failure, Values};

/// The columns of a row that have a value.
pub fn values(columns: &[Column], row: usize) -> impl Iterator<Item = (&str, Value)> {
    let there = move |column: &&Column| column.valid.get(row).copied().unwrap_or(true);
    columns.iter().filter(there).map(move |column| {
        let value = match &column.values {
            Values::Int(all) => all[row].into(),
            Values::Float(all) => all[row].into(),
            Values::Bool(all) => all[row].into(),
            Values::Text(all) => all[row].as_str().into(),
        };
        (column.name.as_str(), value)
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
