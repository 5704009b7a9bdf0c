//! What the commands and replies of both engines are made of.

use crate::protocol::{Failure, Task};
use crate::transport::resp::{double, number, Item};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Engine {
    VectorSet,
    Search,
}

/// How replies are read.
#[derive(Clone, Debug)]
pub struct Replies {
    pub(super) engine: Engine,
    pub(super) prefix: Vec<u8>,
    /// What a search brings back beside ids and scores.
    pub(super) attributes: bool,
    pub(super) returning: Vec<String>,
}

impl Replies {
    pub fn id(&self, item: Item<'_>) -> Result<i64, Failure> {
        let Item::Text(name) = item else {
            return Err(Failure::garbage("a name is no text"));
        };
        let own = name.strip_prefix(&self.prefix[..]);
        own.and_then(number).ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            let prefix = String::from_utf8_lossy(&self.prefix);
            Failure::garbage(format!("'{name}' is no id after the prefix '{prefix}'"))
        })
    }
}

/// What the commands of a class have in common.
pub struct Words<'a> {
    pub replies: &'a Replies,
    pub collection: &'a [u8],
    pub vector: &'a [u8],
    /// Of a search.
    pub ef: Option<String>,
    pub filter_ef: Option<String>,
    pub exact: bool,
    /// What stands at the end of a `VADD`.
    pub build: Vec<Vec<u8>>,
}

impl Words<'_> {
    pub fn name(&self, id: i64) -> Vec<u8> {
        [&self.replies.prefix, id.to_string().as_bytes()].concat()
    }
}

pub fn bytes(task: &Task, row: usize) -> Vec<u8> {
    task.vectors.row_bytes(row).collect()
}

/// A score, however it is written.
pub fn score(item: Item<'_>) -> Result<f32, Failure> {
    match item {
        Item::Double(value) => Ok(value as f32),
        Item::Integer(value) => Ok(value as f32),
        Item::Text(text) => match double(text) {
            Ok(value) => Ok(value as f32),
            Err(_) => Err(Failure::garbage("a score is no number")),
        },
        _ => Err(Failure::garbage("a score is no number")),
    }
}
