//! Names in SQL, and what statements are made of.

use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Options, Task};
use crate::protocols::options::names;

/// The names that statements use, quoted.
pub struct Names {
    pub table: String,
    pub id: String,
    pub vector: String,
    pub operator: String,
    /// What is compared with a query, and the query, in SQL.
    pub searched: String,
    pub query: String,
    /// Further columns to return, each after a comma.
    pub fields: String,
}

impl Names {
    pub fn new(options: &Options) -> Result<Self, InvalidArgument> {
        let name = |option: &str, otherwise: &str| quoted(options.get(option).unwrap_or(otherwise));
        let operator = options.get("operator").unwrap_or("<->");
        if !["<->", "<=>", "<#>", "<+>"].contains(&operator) {
            let text = format!("the option 'operator' is <->, <=>, <#> or <+>, not '{operator}'");
            return Err(InvalidArgument(text));
        }
        let schema = options.get("schema").map(|name| quoted(name) + ".");
        Ok(Self {
            table: schema.unwrap_or_default() + &quoted(options.text("table")?),
            id: name("id", "id"),
            vector: name("vector", "vector"),
            operator: operator.to_owned(),
            searched: options
                .get("searched")
                .map_or_else(|| name("vector", "vector"), str::to_owned),
            query: options.get("query").unwrap_or("$1").to_owned(),
            fields: names(options, "fields")
                .map(|name| format!(", {}", quoted(name)))
                .collect(),
        })
    }

    /// The columns of a row to write.
    pub fn columns(&self, task: &Task) -> String {
        let further = task.columns.iter().map(|column| quoted(&column.name));
        let all = [self.id.clone(), self.vector.clone()]
            .into_iter()
            .chain(further);
        all.collect::<Vec<_>>().join(", ")
    }

    /// The command that takes rows in binary.
    pub fn copy(&self, task: &Task) -> String {
        let columns = self.columns(task);
        format!("COPY {} ({columns}) FROM STDIN (FORMAT binary)", self.table)
    }

    /// How a row that is there already is replaced.
    pub fn conflict(&self, task: &Task) -> String {
        let further = task.columns.iter().map(|column| quoted(&column.name));
        let set = std::iter::once(self.vector.clone()).chain(further);
        let set: Vec<_> = set
            .map(|name| format!("{name} = EXCLUDED.{name}"))
            .collect();
        format!(
            " ON CONFLICT ({}) DO UPDATE SET {}",
            self.id,
            set.join(", ")
        )
    }
}

/// A name as SQL takes it, whatever it is made of.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as SQL takes it.
pub fn text(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}
