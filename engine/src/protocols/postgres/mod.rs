//! PostgreSQL with pgvector.
//!
//! | operation | what is sent |
//! | --- | --- |
//! | search | `SELECT id, vector <-> $1 FROM table WHERE filter ORDER BY vector <-> $1 LIMIT k` |
//! | insert | binary `COPY`, or `INSERT` of several rows |
//! | upsert | `INSERT … ON CONFLICT (id) DO UPDATE` of several rows |
//! | get | `SELECT id, fields FROM table WHERE id = ANY ($1)` |
//! | delete | `DELETE FROM table WHERE id = ANY ($1)` |
//! | payload | SQL, as it is |
//!
//! Statements are prepared once per connection, before its first request; parameters and results
//! are binary.
//!
//! Options of the target: `user` (`postgres`), `password`, `database` (the user's name), and
//! `set.NAME` for settings of the connection, such as `set.hnsw.ef_search`.
//! Options of a class: `table`, `schema`; `id` and `vector`, the names of these columns;
//! `operator` (`<->`, `<=>`, `<#>` or `<+>`); `searched` and `query`, what is compared and with what
//! (the column, and `$1`), as SQL; `fields`, the further columns that come back, with
//! commas between (of a get: `vector` unless given); `write` (`copy` or `insert`); `sort` ("true"):
//! the rows that an index scan brings in a relaxed order are sorted.
//! `COPY` takes columns of bigint, double precision, boolean and text; `INSERT` also what these
//! can be assigned to.
//! A filter is an SQL expression, in which `$2`, `$3`, … stand for values that follow it as text,
//! with a zero byte before each: many filters then share one statement.

mod answer;
mod request;
mod sql;

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use bytes::BytesMut;
use postgres_protocol::message::frontend;

use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Failure, Operation, Prepared, Protocol, Target, Task, Values};
use crate::transport::postgres::{Login, Session};
use request::{cells, copies, execute, query, vector_bytes};
use sql::{text, Names};

/// Numbers of types, which are the same in every database; 0 lets the server find out.
const BOOL: u32 = 16;
const INT8: u32 = 20;
const TEXT: u32 = 25;
const FLOAT8: u32 = 701;
const INT8_ARRAY: u32 = 1016;
const UNKNOWN: u32 = 0;
/// Statements that a connection may have prepared.
const STATEMENTS: usize = 1000;
/// Parameters of a statement, as the wire counts them.
const PARAMETERS: usize = 65_535;

pub struct Postgres {
    login: Login,
    settings: Vec<(String, String)>,
    /// What every connection prepares; the n-th is called `s<n>`.
    statements: Mutex<Vec<Statement>>,
}

#[derive(Clone, PartialEq)]
struct Statement {
    sql: String,
    types: Vec<u32>,
}

impl Protocol for Postgres {
    type Connection = Session;
    const SHARED: bool = false;

    fn new(target: Target) -> Result<Self, InvalidArgument> {
        if !target.headers.is_empty() {
            let text = "PostgreSQL takes no headers: give 'user' and 'password' as options";
            return Err(InvalidArgument(text.into()));
        }
        let text = |name: &str| target.options.get(name).map(str::to_owned);
        let user = text("user").unwrap_or_else(|| "postgres".into());
        let setting = |(name, value): (&String, &String)| {
            let name = name.strip_prefix("set.")?;
            Some((name.to_owned(), value.clone()))
        };
        Ok(Self {
            login: Login {
                password: text("password"),
                database: text("database").unwrap_or_else(|| user.clone()),
                user,
            },
            settings: target.options.0.iter().filter_map(setting).collect(),
            statements: Mutex::default(),
        })
    }

    fn prepare(&self, task: &Task) -> Result<Vec<Prepared>, InvalidArgument> {
        if task.operation == Operation::Payload {
            return task.payloads.iter().map(|sql| query(sql)).collect();
        }
        let names = Names::new(&task.options)?;
        match task.operation {
            Operation::Search => self.searches(task, &names),
            Operation::Insert => match task.options.get("write").unwrap_or("copy") {
                "copy" => copies(task, &names.copy(task)),
                "insert" => self.inserts(task, &names, ""),
                other => Err(InvalidArgument(format!(
                    "the option 'write' is copy or insert, not '{other}'"
                ))),
            },
            Operation::Upsert => self.inserts(task, &names, &names.conflict(task)),
            Operation::Get => {
                let (id, table) = (&names.id, &names.table);
                let mut fields = names.fields.clone();
                if task.options.get("fields").is_none() {
                    fields = format!(", {}", names.vector);
                }
                self.by_ids(task, format!("SELECT {id}{fields} FROM {table} WHERE {id}"))
            }
            Operation::Delete | Operation::Payload => self.by_ids(
                task,
                format!("DELETE FROM {} WHERE {}", names.table, names.id),
            ),
        }
    }

    async fn connect(&self, to: &Target) -> Result<Session, Failure> {
        let mut session = Session::open(to, &self.login).await?;
        let mut out = BytesMut::new();
        if self.settings.iter().any(|(name, _)| name.contains('.')) {
            // An extension knows its settings once it is loaded; before, any value would do.
            frontend::query("SELECT '[1]'::vector", &mut out).map_err(odd)?;
            session.exchange(&out, |_, _| Ok(())).await.map_err(fatal)?;
        }
        for (name, value) in &self.settings {
            out.clear();
            let sql = format!("SELECT set_config({}, {}, false)", text(name), text(value));
            frontend::query(&sql, &mut out).map_err(odd)?;
            session.exchange(&out, |_, _| Ok(())).await.map_err(fatal)?;
        }
        out.clear();
        let statements = self.statements.lock();
        let statements = statements.unwrap_or_else(PoisonError::into_inner).clone();
        for (number, Statement { sql, types }) in statements.iter().enumerate() {
            let name = format!("s{number}");
            frontend::parse(&name, sql, types.iter().copied(), &mut out).map_err(odd)?;
        }
        frontend::sync(&mut out);
        session.exchange(&out, |_, _| Ok(())).await.map_err(fatal)?;
        Ok(session)
    }
}

/// What cannot be written in a message.
fn odd(error: std::io::Error) -> Failure {
    Failure::broken("unsendable", error.to_string())
}

/// Without it the connection is of no use.
fn fatal(failure: Failure) -> Failure {
    Failure {
        broken: true,
        ..failure
    }
}

impl Postgres {
    /// The name of a statement that every connection prepares.
    fn statement(&self, sql: String, types: Vec<u32>) -> Result<String, InvalidArgument> {
        let mut all = self
            .statements
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let wanted = Statement { sql, types };
        let number = all
            .iter()
            .position(|known| *known == wanted)
            .unwrap_or(all.len());
        if number == STATEMENTS {
            return Err(InvalidArgument(format!(
                "more than {STATEMENTS} statements: write the values of filters as parameters"
            )));
        }
        if number == all.len() {
            all.push(wanted);
        }
        Ok(format!("s{number}"))
    }

    fn searches(&self, task: &Task, names: &Names) -> Result<Vec<Prepared>, InvalidArgument> {
        let Names {
            table,
            id,
            operator,
            searched,
            query: asked,
            fields,
            ..
        } = names;
        let sort = task.options.parse("sort")?.unwrap_or(false);
        let search = |query: usize| {
            let filter = task.filter(query).map_or(&b""[..], |filter| filter);
            let mut parts = filter.split(|byte| *byte == 0);
            let condition = std::str::from_utf8(parts.next().unwrap_or_default())
                .map_err(|_| InvalidArgument("a filter is SQL in UTF-8".into()))?;
            let condition = match condition {
                "" => String::new(),
                condition => format!(" WHERE {condition}"),
            };
            let mut sql = format!(
                "SELECT {id}, {searched} {operator} {asked} AS score{fields} FROM {table}{condition} \
                 ORDER BY {searched} {operator} {asked} LIMIT {}",
                task.k
            );
            if sort {
                // Added to zero, a score is not taken for sorted already.
                sql = format!(
                    "WITH found AS MATERIALIZED ({sql}) SELECT * FROM found ORDER BY score + 0"
                );
            }
            let name = self.statement(sql, vec![])?;
            let values = parts.map(|value| (0, Some(value.to_vec())));
            let vector = (1, Some(vector_bytes(task.vectors.row(query))));
            execute(
                task,
                &name,
                std::iter::once(vector).chain(values).collect(),
                1,
            )
        };
        (0..task.vectors.rows()).map(search).collect()
    }

    /// One statement writes a batch: the last one, which may be shorter, has its own.
    fn inserts(
        &self,
        task: &Task,
        names: &Names,
        conflict: &str,
    ) -> Result<Vec<Prepared>, InvalidArgument> {
        let width = 2 + task.columns.len();
        let kinds = task.columns.iter().map(|column| match column.values {
            Values::Int(_) => INT8,
            Values::Float(_) => FLOAT8,
            Values::Bool(_) => BOOL,
            Values::Text(_) => TEXT,
        });
        let kinds: Vec<u32> = [INT8, UNKNOWN].into_iter().chain(kinds).collect();
        let write = |rows: Range<usize>| {
            let number = rows.len();
            if number * width > PARAMETERS {
                let most = PARAMETERS / width;
                let text = format!("an INSERT takes at most {most} rows here: batch is {number}");
                return Err(InvalidArgument(text));
            }
            let row = |at: usize| {
                let places = (1..=width).map(|column| format!("${}", at * width + column));
                format!("({})", places.collect::<Vec<_>>().join(", "))
            };
            let sql = format!(
                "INSERT INTO {} ({}) VALUES {}{conflict}",
                names.table,
                names.columns(task),
                (0..number).map(row).collect::<Vec<_>>().join(", ")
            );
            let name = self.statement(sql, kinds.repeat(number))?;
            let cells = rows.flat_map(|row| cells(task, row)).map(|cell| (1, cell));
            execute(task, &name, cells.collect(), number)
        };
        task.batches().map(write).collect()
    }

    /// A statement that ends before which ids it is about.
    fn by_ids(&self, task: &Task, begin: String) -> Result<Vec<Prepared>, InvalidArgument> {
        let name = self.statement(format!("{begin} = ANY ($1)"), vec![INT8_ARRAY])?;
        let one = |rows: Range<usize>| {
            let number = rows.len();
            let mut ids = vec![];
            // Dimensions, a flag that nothing is null, the elements' type, how many, from 1.
            let head = [1, 0, INT8, number as u32, 1];
            ids.extend(head.iter().flat_map(|n| n.to_be_bytes()));
            for id in &task.ids[rows] {
                ids.extend(8u32.to_be_bytes());
                ids.extend(id.to_be_bytes());
            }
            execute(task, &name, vec![(1, Some(ids))], number)
        };
        task.batches().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Column, Matrix, Options};

    fn protocol() -> Postgres {
        let target = Target {
            host: "localhost".into(),
            ..Target::default()
        };
        Postgres::new(target).unwrap()
    }

    fn task(operation: Operation, options: &[(&str, &str)]) -> Task {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Task {
            operation,
            vectors: Matrix {
                values: vec![0.5, -1.0, 1.5, 2.0],
                dim: 2,
            },
            ids: vec![7, 8],
            columns: vec![Column {
                name: "a \"b\"".into(),
                values: Values::Text(vec!["x".into(), String::new()]),
                valid: vec![true, false],
            }],
            k: 3,
            batch: 2,
            options: Options(options.iter().map(pair).collect()),
            ..Task::default()
        }
    }

    fn statements(of: &Postgres) -> Vec<String> {
        let all = of.statements.lock().unwrap();
        all.iter().map(|one| one.sql.clone()).collect()
    }

    #[test]
    fn searches_share_a_statement_whatever_their_values() {
        let protocol = protocol();
        let mut asked = task(Operation::Search, &[("table", "t"), ("operator", "<=>")]);
        asked.filters = vec![b"c < $2\x005"[..].into(), b"c < $2\x006"[..].into()];
        asked.filter_of = vec![0, 1];
        let requests = protocol.prepare(&asked).unwrap();
        let sql = r#"SELECT "id", "vector" <=> $1 AS score FROM "t" WHERE c < $2 ORDER BY "vector" <=> $1 LIMIT 3"#;
        assert_eq!(statements(&protocol), [sql]);
        // Bind: two formats, two values (a vector of two, the text 5), one format for results.
        let vector = b"\0\0\0\x0c\0\x02\0\0\x3f\0\0\0\xbf\x80\0\0";
        let mut bind = b"B\0\0\0\x29\0s0\0\0\x02\0\x01\0\0\0\x02".to_vec();
        bind.extend(vector);
        bind.extend(b"\0\0\0\x015\0\x01\0\x01E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04");
        assert_eq!(requests[0].body[..5], bind[..5]);
        assert_eq!(requests[0].body, bind);
    }

    #[test]
    fn rows_are_written_by_copy_or_insert() {
        let protocol = protocol();
        let asked = task(Operation::Insert, &[("table", "t"), ("schema", "s")]);
        let copy = protocol.prepare(&asked).unwrap().remove(0);
        let sql = br#"COPY "s"."t" ("id", "vector", "a ""b""") FROM STDIN (FORMAT binary)"#;
        assert_eq!(copy.body[5..5 + sql.len()], sql[..]);
        assert!(copy.body.ends_with(b"\xff\xff\xff\xff\xff\xffc\0\0\0\x04"));
        assert!(statements(&protocol).is_empty());
        let asked = task(Operation::Upsert, &[("table", "t")]);
        protocol.prepare(&asked).unwrap();
        let sql = concat!(
            r#"INSERT INTO "t" ("id", "vector", "a ""b""") VALUES ($1, $2, $3), ($4, $5, $6)"#,
            r#" ON CONFLICT ("id") DO UPDATE SET "vector" = EXCLUDED."vector","#,
            r#" "a ""b""" = EXCLUDED."a ""b""""#
        );
        assert_eq!(statements(&protocol), [sql]);
    }

    #[test]
    fn what_cannot_be_asked_is_refused() {
        let refusal = |operation, options: &[(&str, &str)]| {
            let refused = protocol().prepare(&task(operation, options));
            refused.unwrap_err().0
        };
        assert!(refusal(Operation::Search, &[]).contains("table"));
        let operator = [("table", "t"), ("operator", "; drop")];
        assert!(refusal(Operation::Search, &operator).contains("operator"));
        assert!(refusal(Operation::Insert, &[("table", "t"), ("write", "x")]).contains("write"));
    }
}
