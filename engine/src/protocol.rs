//! The narrow waist: what a wire protocol is to the load engine.
//!
//! A protocol turns a [`Task`] (what is asked, in plain data) into [`Prepared`] requests before
//! the clock starts, opens connections, and makes one call on a connection at a time: send the
//! prepared bytes, read the answer's ids and scores into a reused [`Answer`], or say in which
//! class of [`Failure`] it failed. Loops, schedules, timing, judging and recording are written
//! once above it, generic over it, so that a request is dispatched without a virtual call.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use bytes::Bytes;

use crate::codec::DecodeError;
use crate::invalid_argument::InvalidArgument;
use crate::tls::Tls;

/// What a class of requests does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Operation {
    #[default]
    Search,
    Insert,
    Upsert,
    Get,
    Delete,
    /// Bytes made by the caller, sent as the protocol says.
    Payload,
}

/// Where a server is and how to be let in.
#[derive(Clone, Debug, Default)]
pub struct Target {
    pub host: String,
    pub port: u16,
    pub tls: Option<Tls>,
    /// Headers sent with every request: API key, basic or bearer authentication.
    pub headers: Vec<(String, String)>,
    /// What only this protocol asks for: user, password, database, ….
    pub options: Options,
    /// Of a cluster: every node that takes connections, this one too. Empty: this one alone.
    pub nodes: Nodes,
    /// Of its nodes this one alone takes writes.
    pub primary: bool,
}

/// Host and port of each node of a cluster. Connections take turns; so does one that is opened
/// again, so that a node that is gone does not keep its connections. Copies share the turns.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    all: Arc<[(String, u16)]>,
    turn: Arc<AtomicUsize>,
}

impl Nodes {
    pub fn new(all: Vec<(String, u16)>) -> Self {
        Self {
            all: all.into(),
            turn: Arc::default(),
        }
    }

    /// The node whose turn it is; `None` where there are no nodes.
    fn next(&self) -> Option<(&str, u16)> {
        if self.all.is_empty() {
            return None;
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let (host, port) = &self.all[turn % self.all.len()];
        Some((host, *port))
    }
}

impl Operation {
    /// It changes what is stored.
    pub fn writes(self) -> bool {
        matches!(self, Self::Insert | Self::Upsert | Self::Delete)
    }
}

impl Target {
    /// The first node, as if it were alone.
    pub fn alone(&self) -> Self {
        Self {
            nodes: Nodes::default(),
            ..self.clone()
        }
    }

    /// Where the next connection goes.
    pub fn next_node(&self) -> (&str, u16) {
        self.nodes.next().unwrap_or((&self.host, self.port))
    }

    /// `http://host:port`, or `https` under TLS.
    pub fn origin(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.authority())
    }

    /// `host:port`, with brackets around an IPv6 address.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Named settings in text, read by the protocol that knows them.
#[derive(Clone, Debug, Default)]
pub struct Options(pub BTreeMap<String, String>);

impl Options {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A setting that must be there.
    pub fn text(&self, name: &str) -> Result<&str, InvalidArgument> {
        self.get(name)
            .ok_or_else(|| InvalidArgument(format!("the option '{name}' is missing")))
    }

    /// A setting as another type, where it is given.
    pub fn parse<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, InvalidArgument> {
        let parse = |text: &str| {
            let wrong = |_| InvalidArgument(format!("the option '{name}' cannot be '{text}'"));
            text.parse().map_err(wrong)
        };
        self.get(name).map(parse).transpose()
    }
}

/// Rows of `dim` float32 each, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Matrix {
    pub values: Vec<f32>,
    pub dim: usize,
}

impl Matrix {
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.dim).unwrap_or(0)
    }

    pub fn row(&self, index: usize) -> &[f32] {
        &self.values[index * self.dim..(index + 1) * self.dim]
    }

    /// The row as little-endian bytes, which is what most wires carry.
    pub fn row_bytes(&self, index: usize) -> impl Iterator<Item = u8> + '_ {
        self.row(index).iter().flat_map(|x| x.to_le_bytes())
    }
}

/// The values of a metadata column.
#[derive(Clone, Debug)]
pub enum Values {
    Int(Vec<i64>),
    Float(Vec<f64>),
    Bool(Vec<bool>),
    Text(Vec<String>),
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Self::Int(all) => all.len(),
            Self::Float(all) => all.len(),
            Self::Bool(all) => all.len(),
            Self::Text(all) => all.len(),
        }
    }
}

/// A metadata column of the rows to be written.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub values: Values,
    /// False where a value is missing; empty when all are there.
    pub valid: Vec<bool>,
}

/// One value of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    Int(i64),
    Float(f64),
    Bool(bool),
    Text(&'a str),
}

impl Column {
    /// A value is there in this row.
    pub fn has(&self, row: usize) -> bool {
        self.valid.get(row).copied().unwrap_or(true)
    }

    /// The value in a row; None where it is missing.
    pub fn cell(&self, row: usize) -> Option<Cell<'_>> {
        self.has(row).then(|| match &self.values {
            Values::Int(all) => Cell::Int(all[row]),
            // Zero for minus zero: equal, but not to every store (Lucene, Weaviate).
            Values::Float(all) => Cell::Float(all[row] + 0.0),
            Values::Bool(all) => Cell::Bool(all[row]),
            Values::Text(all) => Cell::Text(&all[row]),
        })
    }
}

/// What a class of requests asks, in plain data; fields that an operation does not need are empty.
#[derive(Clone, Debug, Default)]
pub struct Task {
    pub operation: Operation,
    /// Queries of a search, or the vectors of rows to write.
    pub vectors: Matrix,
    /// Rows to write, get or delete.
    pub ids: Vec<i64>,
    pub columns: Vec<Column>,
    /// Neighbours asked for.
    pub k: usize,
    /// Rows of one write, get or delete.
    pub batch: usize,
    /// Distinct filters, each in the protocol's own words (an expression, JSON, a message), and
    /// which of them holds for query i; without `filter_of` there is one for all, or none.
    pub filters: Vec<Bytes>,
    pub filter_of: Vec<u32>,
    pub payloads: Vec<Bytes>,
    /// Collection, names of fields, search parameters, consistency, ….
    pub options: Options,
}

impl Task {
    /// Refuse a task whose parts do not fit together, so that no protocol has to.
    pub fn check(&self) -> Result<(), InvalidArgument> {
        let fault = |what: String| Err(InvalidArgument(what));
        let (rows, ids) = (self.vectors.rows(), self.ids.len());
        match self.operation {
            Operation::Search if self.k == 0 => return fault("k is at least 1".into()),
            Operation::Insert | Operation::Upsert if rows != ids => {
                return fault(format!("there are {rows} vectors and {ids} ids"));
            }
            _ => {}
        }
        for column in &self.columns {
            let length = column.values.len();
            if length != ids || !(column.valid.is_empty() || column.valid.len() == ids) {
                let name = &column.name;
                return fault(format!(
                    "column '{name}' has {length} values for {ids} rows"
                ));
            }
        }
        let known = |which: &u32| (*which as usize) < self.filters.len();
        if !self.filter_of.is_empty() && self.filter_of.len() != rows {
            return fault(format!(
                "{} queries say which filter is theirs, of {rows}",
                self.filter_of.len()
            ));
        }
        if !self.filter_of.iter().all(known) {
            return fault("a query has a filter that does not exist".into());
        }
        Ok(())
    }

    /// The columns that have a value in a row, by name.
    pub fn cells(&self, row: usize) -> impl Iterator<Item = (&str, Cell<'_>)> {
        self.columns
            .iter()
            .filter_map(move |column| Some((&*column.name, column.cell(row)?)))
    }

    /// The filter of a query.
    pub fn filter(&self, query: usize) -> Option<&Bytes> {
        let which = self.filter_of.get(query).map_or(0, |at| *at as usize);
        self.filters.get(which)
    }

    /// The rows of each batch, as ranges.
    pub fn batches(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let (rows, batch) = (self.ids.len(), self.batch.max(1));
        (0..rows)
            .step_by(batch)
            .map(move |at| at..(at + batch).min(rows))
    }
}

/// One request, encoded. Request i of a search is query i.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub operation: Operation,
    /// Method, address and headers, shared by the requests of a class; unused where the protocol
    /// is not HTTP.
    pub head: Arc<http::Request<()>>,
    pub body: Bytes,
    /// Rows written or read.
    pub rows: u32,
}

impl Prepared {
    /// A request of a protocol that is not HTTP.
    pub fn plain(operation: Operation, body: Bytes, rows: usize) -> Self {
        Self {
            operation,
            head: Arc::default(),
            body,
            rows: rows as u32,
        }
    }
}

/// What came back, reused from call to call.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Best first.
    pub ids: Vec<i64>,
    pub scores: Vec<f32>,
}

impl Answer {
    pub fn clear(&mut self) {
        self.ids.clear();
        self.scores.clear();
    }
}

/// Why a call failed, by class: `refused`, `reset`, `timeout`, `truncated`, `garbage`,
/// `status:<name>`, `http:<code>`, `incomplete`, ….
#[derive(Clone, Debug)]
pub struct Failure {
    pub class: Cow<'static, str>,
    pub message: String,
    /// The connection cannot be used any more.
    pub broken: bool,
}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        Self::garbage(error.0)
    }
}

impl Failure {
    pub fn new(class: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        let (class, message) = (class.into(), message.into());
        Self {
            class,
            message,
            broken: false,
        }
    }

    /// The connection is gone, or cannot be trusted any more.
    pub fn broken(class: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self {
            broken: true,
            ..Self::new(class, message)
        }
    }

    /// An answer whose bytes make no sense, on a connection that still does.
    pub fn garbage(message: impl Into<String>) -> Self {
        Self::new("garbage", message)
    }
}

/// A failed read, write or connect.
impl From<&io::Error> for Failure {
    fn from(error: &io::Error) -> Self {
        use io::ErrorKind::*;
        let class = match error.kind() {
            ConnectionRefused => "refused",
            UnexpectedEof => "truncated",
            ConnectionReset | ConnectionAborted | BrokenPipe | NotConnected => "reset",
            TimedOut => "timeout",
            InvalidData => "garbage",
            _ => "io",
        };
        Self::broken(class, error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::from(&error)
    }
}

/// A wire protocol.
pub trait Protocol: Sized + Send + Sync + 'static {
    type Connection: Connection;
    /// Several requests may be in flight on one connection ([`Connection::share`] gives handles).
    const SHARED: bool;

    fn new(target: Target) -> Result<Self, InvalidArgument>;

    /// Encode every request of a class.
    fn prepare(&self, task: &Task) -> Result<Vec<Prepared>, InvalidArgument>;

    /// Connect, authenticate, and whatever else comes before the first request. `to` is the target
    /// that it was made of, or a node of it.
    fn connect(&self, to: &Target) -> impl Future<Output = Result<Self::Connection, Failure>>;
}

/// A connection, or a handle on one that is shared. It stays on the thread that opened it.
pub trait Connection: Sized + 'static {
    /// Another handle on the same connection; None where it carries one request at a time.
    fn share(&self) -> Option<Self> {
        None
    }

    /// It is known to be gone: the next call would fail for no fault of that request.
    fn is_closed(&self) -> bool {
        false
    }

    /// How many requests the server lets be in flight on this connection at once.
    fn room(&self) -> usize {
        usize::MAX
    }

    /// Send a request and read its answer. The answer comes empty. When this future is dropped
    /// (the time ran out), other requests of a shared connection must not suffer; a connection
    /// that is not shared is thrown away.
    fn call(
        &mut self,
        request: &Prepared,
        answer: &mut Answer,
    ) -> impl Future<Output = Result<(), Failure>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minus_zero_is_written_as_zero() {
        let column = Column {
            name: "price".into(),
            values: Values::Float(vec![-0.0]),
            valid: vec![],
        };
        assert!(matches!(column.cell(0), Some(Cell::Float(price)) if price.is_sign_positive()));
    }
}
