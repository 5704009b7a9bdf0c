//! Errors by class: how many, and the first few distinct messages.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Distinct messages kept of each class: the earliest.
pub const MESSAGES: usize = 5;
/// Characters kept of a message.
pub const MESSAGE_CHARS: usize = 300;
/// Classes kept by name; what comes after them is counted together.
pub const CLASSES: usize = 200;
const OTHERS: &str = "(other classes)";

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Class {
    count: u64,
    /// (when it was first seen, message), earliest first.
    messages: Vec<(i64, String)>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Failures {
    classes: BTreeMap<String, Class>,
}

impl Failures {
    pub fn record(&mut self, at_ns: i64, kind: &str, message: &str) {
        let class = self.class(kind);
        class.count += 1;
        class.saw(at_ns, message);
    }

    /// Move every instant by so many ns: to the clock of another machine.
    pub fn shift(&mut self, by_ns: i64) {
        for class in self.classes.values_mut() {
            for (at_ns, _) in &mut class.messages {
                *at_ns += by_ns;
            }
        }
    }

    /// Take in another client's: the earliest messages of both are the earliest of all.
    pub fn merge(&mut self, other: &Self) {
        for (kind, theirs) in &other.classes {
            let ours = self.class(kind);
            ours.count += theirs.count;
            for (at_ns, message) in &theirs.messages {
                ours.saw(*at_ns, message);
            }
        }
    }

    fn class(&mut self, kind: &str) -> &mut Class {
        let kind = clip(kind);
        let known = self.classes.contains_key(kind) || self.classes.len() < CLASSES;
        self.classes
            .entry(if known { kind } else { OTHERS }.to_owned())
            .or_default()
    }

    /// (kind, count, messages earliest first), ordered by kind.
    pub fn rows(&self) -> impl Iterator<Item = (&str, u64, Vec<&str>)> {
        self.classes.iter().map(|(kind, class)| {
            let messages = class
                .messages
                .iter()
                .map(|(_, text)| text.as_str())
                .collect();
            (kind.as_str(), class.count, messages)
        })
    }
}

impl Class {
    fn saw(&mut self, at_ns: i64, message: &str) {
        let message = clip(message);
        if let Some(known) = self.messages.iter_mut().find(|(_, text)| text == message) {
            known.0 = known.0.min(at_ns);
        } else if self.messages.len() < MESSAGES
            || self
                .messages
                .last()
                .is_some_and(|(at, text)| (at_ns, message) < (*at, text))
        {
            self.messages.push((at_ns, message.to_owned()));
        } else {
            return;
        }
        self.messages.sort_unstable();
        self.messages.truncate(MESSAGES);
    }
}

fn clip(text: &str) -> &str {
    match text.char_indices().nth(MESSAGE_CHARS) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_messages_are_bounded() {
        let mut all = Failures::default();
        for i in 0..1000 {
            all.record(i, &format!("kind {i}"), &"é".repeat(1000));
            all.record(i, "kind 0", &format!("message {i}"));
        }
        let rows: Vec<_> = all.rows().collect();
        assert_eq!(rows.len(), CLASSES + 1);
        assert_eq!(rows.iter().map(|(_, count, _)| count).sum::<u64>(), 2000);
        let (_, count, messages) = rows.iter().find(|(kind, ..)| *kind == "kind 0").unwrap();
        assert_eq!((*count, messages.len()), (1001, MESSAGES));
        assert!(messages
            .iter()
            .all(|text| text.chars().count() <= MESSAGE_CHARS));
        assert_eq!(messages[1], "é".repeat(MESSAGE_CHARS));
    }
}
