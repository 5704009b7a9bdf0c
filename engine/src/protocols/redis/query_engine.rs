//! The query engine: hashes, and an index over those whose keys begin alike.

use std::fmt::Write;

use serde_json::Value;

use super::common::{bytes, score, Replies, Words};
use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Answer, Failure, Operation, Task};
use crate::protocols::rows;
use crate::transport::resp::{put_command, refusal, Item, Reader};

/// The field of an answer in which the score stands.
const SCORE: &[u8] = b"score";

pub fn put_search(
    words: &Words,
    task: &Task,
    query: usize,
    out: &mut Vec<u8>,
) -> Result<(), InvalidArgument> {
    if words.exact {
        return Err(InvalidArgument(
            "the index itself says whether it is exact".into(),
        ));
    }
    let (k, vector) = (task.k.to_string(), bytes(task, query));
    let mut asked = b"(".to_vec();
    asked.extend_from_slice(task.filter(query).map_or(&b"*"[..], |filter| filter));
    asked.extend_from_slice(format!(")=>[KNN {k} @").as_bytes());
    asked.extend_from_slice(words.vector);
    asked.extend_from_slice(b" $vector");
    if let Some(ef) = &words.ef {
        asked.extend_from_slice(format!(" EF_RUNTIME {ef}").as_bytes());
    }
    asked.extend_from_slice(b" AS score]");
    let fields = &words.replies.returning;
    let number = (1 + fields.len()).to_string();
    let mut parts = vec![&b"FT.SEARCH"[..], words.collection, &asked];
    parts.extend([&b"PARAMS"[..], b"2", b"vector", &vector, b"SORTBY", SCORE]);
    parts.extend([&b"RETURN"[..], number.as_bytes(), SCORE]);
    parts.extend(fields.iter().map(|field| field.as_bytes()));
    parts.extend([&b"LIMIT"[..], b"0", k.as_bytes(), b"DIALECT", b"2"]);
    put_command(out, &parts);
    Ok(())
}

pub fn put_row(words: &Words, task: &Task, row: usize, name: &[u8], out: &mut Vec<u8>) {
    let vector = bytes(task, row);
    let fields: Vec<_> = rows::values(task, row)
        .map(|(name, value)| (name, plain(value)))
        .collect();
    if task.operation == Operation::Upsert {
        put_command(out, &[b"DEL", name]);
    }
    let mut parts = vec![&b"HSET"[..], name, words.vector, &vector];
    for (name, value) in &fields {
        parts.extend([name.as_bytes(), value.as_bytes()]);
    }
    put_command(out, &parts);
}

/// A value of a hash.
fn plain(value: Value) -> String {
    match value {
        Value::String(text) => tag(text),
        other => other.to_string(),
    }
}

/// A text without what no tag can have: spaces at an end, and control characters.
fn tag(text: String) -> String {
    let first = text.len() - text.trim_start_matches(' ').len();
    let last = text.trim_end_matches(' ').len();
    let unsaid = |(at, letter): (usize, char)| match letter {
        '%' | '\0'..='\x1f' | '\x7f' => true,
        ' ' => at < first || at >= last,
        _ => false,
    };
    if !text.char_indices().any(unsaid) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 8);
    for (at, letter) in text.char_indices() {
        if unsaid((at, letter)) {
            let _ = write!(out, "%{:02X}", letter as u32);
        } else {
            out.push(letter);
        }
    }
    out
}

/// `FT.SEARCH … RETURN … score`: with RESP2 the number of results, then keys and fields in
/// turn; with RESP3 a map whose `results` are maps with `id` and `extra_attributes`.
pub fn read(of: &Replies, replies: &mut Reader<'_>, answer: &mut Answer) -> Result<(), Failure> {
    let odd = || Failure::garbage("FT.SEARCH answers with something else");
    match replies.item()? {
        Item::Error(error) => Err(refusal(error)),
        Item::Array(items) if items % 2 == 1 => {
            let Item::Integer(_) = replies.item()? else {
                return Err(odd());
            };
            for _ in 0..items / 2 {
                let id = of.id(replies.item()?)?;
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
                            result(of, replies, answer)?;
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
fn result(of: &Replies, replies: &mut Reader<'_>, answer: &mut Answer) -> Result<(), Failure> {
    let Item::Map(pairs) = replies.item()? else {
        return Err(Failure::garbage("a result is no map"));
    };
    let (mut id, mut near) = (None, None);
    for _ in 0..pairs {
        match (replies.item()?, replies.item()?) {
            (Item::Text(b"id"), name) => id = Some(of.id(name)?),
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
    use super::tag;

    #[test]
    fn a_tag_keeps_what_would_be_trimmed_and_what_no_query_can_say() {
        for (text, stored) in [
            ("a  b", "a  b"),
            (" red ", "%20red%20"),
            ("  ", "%20%20"),
            ("50%\u{7f}ü\n", "50%25%7Fü%0A"),
        ] {
            assert_eq!(tag(text.into()), stored);
        }
    }
}
