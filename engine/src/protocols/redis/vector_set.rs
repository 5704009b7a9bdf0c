//! Vector sets: one sorted by similarity under one key, with a name and attributes for each vector.
//!
//! Attributes are a JSON object with every column, null where a value is missing: an expression
//! that names what an object lacks is false as a whole. Since the strings of expressions know no
//! escapes, quotes, backslashes, control characters and percent signs in text are written `%22`,
//! `%5C`, …, `%25`.

use std::fmt::Write;

use serde_json::Value;

use super::common::{bytes, score, Replies, Words};
use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Answer, Cell, Column, Failure, Options, Task};
use crate::protocols::rows;
use crate::transport::resp::{put_command, refusal, Item, Reader};

/// What stands at the end of a `VADD`.
pub fn build(options: &Options) -> Result<Vec<Vec<u8>>, InvalidArgument> {
    let mut out: Vec<Vec<u8>> = vec![];
    match options.get("quantization") {
        None => {}
        Some(kind @ ("noquant" | "q8" | "bin")) => out.push(kind.to_uppercase().into()),
        Some(other) => {
            let what = format!("quantization is noquant, q8 or bin, not '{other}'");
            return Err(InvalidArgument(what));
        }
    }
    for (name, word) in [("ef_construction", "EF"), ("m", "M")] {
        if let Some(value) = options.parse::<u32>(name)? {
            out.extend([word.into(), value.to_string().into()]);
        }
    }
    Ok(out)
}

pub fn put_search(words: &Words, task: &Task, query: usize, out: &mut Vec<u8>) {
    let (k, vector) = (task.k.to_string(), bytes(task, query));
    let mut parts = vec![&b"VSIM"[..], words.collection, b"FP32", &vector];
    parts.push(b"WITHSCORES");
    if words.replies.attributes {
        parts.push(b"WITHATTRIBS");
    }
    parts.extend([&b"COUNT"[..], k.as_bytes()]);
    for (word, value) in [("EF", &words.ef), ("FILTER-EF", &words.filter_ef)] {
        if let Some(value) = value {
            parts.extend([word.as_bytes(), value.as_bytes()]);
        }
    }
    if let Some(filter) = task.filter(query) {
        parts.extend([&b"FILTER"[..], filter]);
    }
    if words.exact {
        parts.push(b"TRUTH");
    }
    put_command(out, &parts);
}

pub fn put_row(words: &Words, task: &Task, row: usize, name: &[u8], out: &mut Vec<u8>) {
    let vector = bytes(task, row);
    let mut parts = vec![&b"VADD"[..], words.collection, b"FP32", &vector, name];
    parts.extend(words.build.iter().map(|part| &part[..]));
    let attributes = attributes(&task.columns, row);
    if !task.columns.is_empty() {
        parts.extend([&b"SETATTR"[..], &attributes]);
    }
    put_command(out, &parts);
}

fn attributes(columns: &[Column], row: usize) -> Vec<u8> {
    let value = |column: &Column| match column.cell(row) {
        None => Value::Null,
        Some(Cell::Text(value)) => escaped(value).into(),
        Some(cell) => cell.into(),
    };
    let mut out = vec![];
    let all = columns.iter().map(|column| (&*column.name, value(column)));
    rows::put_object(&mut out, all);
    out
}

/// A text without what an expression cannot say.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '"' | '\\' | '%' | '\0'..='\x1f' => {
                let _ = write!(out, "%{:02X}", letter as u32);
            }
            _ => out.push(letter),
        }
    }
    out
}

/// `VSIM … WITHSCORES`: names and scores in turn, as an array or a map; `WITHATTRIBS` too: names,
/// scores and attributes in turn, or a map of names to arrays of both.
pub fn read(of: &Replies, replies: &mut Reader<'_>, answer: &mut Answer) -> Result<(), Failure> {
    let odd = || Failure::garbage("VSIM answers with something else");
    let each = if of.attributes { 3 } else { 2 };
    let (rows, nested) = match replies.item()? {
        Item::Map(pairs) => (pairs, of.attributes),
        Item::Array(items) if items % each == 0 => (items / each, false),
        Item::Error(error) => return Err(refusal(error)),
        _ => return Err(odd()),
    };
    for _ in 0..rows {
        let id = of.id(replies.item()?)?;
        if nested && !matches!(replies.item()?, Item::Array(2)) {
            return Err(odd());
        }
        answer.ids.push(id);
        // It is (1 + cosine) / 2.
        answer.scores.push(2.0 * score(replies.item()?)? - 1.0);
        if of.attributes {
            let attributes = replies.item()?;
            replies.skip_inner(attributes)?;
        }
    }
    Ok(())
}
