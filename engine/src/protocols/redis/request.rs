//! Requests: commands, of either engine.

use super::common::{Engine, Replies, Words};
use super::{query_engine, vector_set};
use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Operation, Options, Task};
use crate::transport::resp::put_command;

/// The commands that come before the first request.
pub fn greeting(options: &Options) -> Result<Vec<Vec<u8>>, InvalidArgument> {
    let version = match options.get("resp").unwrap_or("2") {
        version @ ("2" | "3") => version,
        other => return Err(InvalidArgument(format!("resp is 2 or 3, not '{other}'"))),
    };
    let database = options.parse::<u32>("database")?;
    let (user, password) = (options.get("user"), options.get("password"));
    if user.is_some() && password.is_none() {
        return Err(InvalidArgument("there is a user and no password".into()));
    }
    let mut out: Vec<Vec<u8>> = vec![];
    let mut say = |parts: &[&str]| {
        let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
        let mut command = vec![];
        put_command(&mut command, &parts);
        out.push(command);
    };
    match (user, password) {
        (Some(user), Some(password)) => say(&["AUTH", user, password]),
        (None, Some(password)) => say(&["AUTH", password]),
        _ => {}
    }
    if version == "3" {
        say(&["HELLO", "3"]);
    }
    if let Some(database) = database {
        say(&["SELECT", &database.to_string()]);
    }
    Ok(out)
}

impl<'a> Words<'a> {
    pub fn new(replies: &'a Replies, options: &'a Options) -> Result<Self, InvalidArgument> {
        let number = |name| Ok(options.parse::<u64>(name)?.map(|value| value.to_string()));
        Ok(Self {
            replies,
            collection: options.text("collection")?.as_bytes(),
            vector: options.get("vector").unwrap_or("vector").as_bytes(),
            ef: number("ef")?,
            filter_ef: number("filter_ef")?,
            exact: options.parse("exact")?.unwrap_or(false),
            build: vector_set::build(options)?,
        })
    }

    pub fn search(&self, task: &Task, query: usize) -> Result<Vec<u8>, InvalidArgument> {
        let mut out = vec![];
        match self.replies.engine {
            Engine::VectorSet => vector_set::put_search(self, task, query, &mut out),
            Engine::Search => query_engine::put_search(self, task, query, &mut out)?,
        }
        out.shrink_to_fit();
        Ok(out)
    }

    /// The commands for one row of a write, get or delete.
    pub fn row(&self, task: &Task, row: usize, out: &mut Vec<u8>) {
        let name = self.name(task.ids[row]);
        match (task.operation, self.replies.engine) {
            (Operation::Get, Engine::VectorSet) => {
                put_command(out, &[b"VEMB", self.collection, &name]);
                put_command(out, &[b"VGETATTR", self.collection, &name]);
            }
            (Operation::Get, Engine::Search) => put_command(out, &[b"HGETALL", &name]),
            (Operation::Delete, Engine::VectorSet) => {
                put_command(out, &[b"VREM", self.collection, &name]);
            }
            (Operation::Delete, Engine::Search) => put_command(out, &[b"DEL", &name]),
            (_, Engine::VectorSet) => vector_set::put_row(self, task, row, &name, out),
            (_, Engine::Search) => query_engine::put_row(self, task, row, &name, out),
        }
    }
}
