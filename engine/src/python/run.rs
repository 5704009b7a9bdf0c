//! The load engine as Python functions: conversions and nothing else.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use bytes::Bytes;
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::invalid_argument::InvalidArgument;
use crate::protocol::{Column, Matrix, Nodes, Operation, Options, Target, Task, Values};
use crate::protocols;
use crate::python::record::{in_us, Judge, Recorder};
use crate::record::windows::WindowRow;
use crate::run::arrival::Arrival;
use crate::run::{self, Class, Limit, Outcome, Pace, Plan, Share, Source};
use crate::tls::Tls;

/// A run under way, seen and stopped from another thread.
#[pyclass(frozen, module = "vectrial._engine")]
#[derive(Default)]
pub struct LoadControl(Arc<run::Control>);

#[pymethods]
impl LoadControl {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn cancel(&self) {
        self.0.cancel();
    }

    fn hold(&self) {
        self.0.hold();
    }

    fn is_ready(&self) -> bool {
        self.0.is_ready()
    }

    fn begin(&self, at_ns: i64) {
        self.0.begin(at_ns);
    }

    fn in_turns(&self) {
        self.0.turns.want();
    }

    fn take_turn<'py>(
        &self,
        py: Python<'py>,
        begin_ns: i64,
        length_ns: i64,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let outcome = py.detach(|| self.0.turns.take(begin_ns, length_ns));
        outcome.map(|outcome| outcome_out(py, outcome)).transpose()
    }

    fn end_turns(&self) {
        self.0.turns.end();
    }

    fn began_ns(&self) -> i64 {
        self.0.began_ns.load(Relaxed)
    }

    fn last_second<'py>(
        &self,
        py: Python<'py>,
        classes: usize,
    ) -> PyResult<Vec<Option<Bound<'py, PyDict>>>> {
        let out = |row: WindowRow| {
            let out = PyDict::new(py);
            out.set_item("second", row.second)?;
            out.set_item("count", row.count)?;
            out.set_item("errors", row.errors)?;
            out.set_item("p50_us", in_us(row.p50_ns))?;
            out.set_item("p99_us", in_us(row.p99_ns))?;
            out.set_item("max_us", in_us(row.max_ns))?;
            out.set_item("recall", row.recall)?;
            Ok(out)
        };
        let rows = self.0.last_second(classes).into_iter();
        rows.map(|row| row.map(out).transpose()).collect()
    }

    fn progress(&self) -> (i64, u64, u64, u64) {
        let control = &self.0;
        (
            control.started_ns.load(Relaxed),
            control.issued.load(Relaxed),
            control.answered.load(Relaxed),
            control.errors.load(Relaxed),
        )
    }
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct TargetIn {
    protocol: String,
    host: String,
    port: u16,
    tls: Option<TlsIn>,
    headers: Vec<(String, String)>,
    options: BTreeMap<String, String>,
    nodes: Vec<(String, u16)>,
    primary: bool,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct TlsIn {
    roots: Vec<Vec<u8>>,
    name: String,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct ColumnIn<'py> {
    name: String,
    values: ValuesIn<'py>,
    valid: Option<PyReadonlyArray1<'py, bool>>,
}

#[derive(FromPyObject)]
enum ValuesIn<'py> {
    Int(PyReadonlyArray1<'py, i64>),
    Float(PyReadonlyArray1<'py, f64>),
    Bool(PyReadonlyArray1<'py, bool>),
    Text(Vec<String>),
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct ClassIn<'py> {
    name: String,
    operation: String,
    vectors: Option<PyReadonlyArray2<'py, f32>>,
    ids: Option<PyReadonlyArray1<'py, i64>>,
    columns: Vec<ColumnIn<'py>>,
    k: usize,
    batch: usize,
    filters: Vec<Bound<'py, PyBytes>>,
    filter_of: Option<PyReadonlyArray1<'py, u32>>,
    payloads: Vec<Bound<'py, PyBytes>>,
    options: BTreeMap<String, String>,
    judge: Option<Bound<'py, Judge>>,
    once: bool,
    keep: bool,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct SourceIn<'py> {
    arrival: String,
    clients: usize,
    rate: f64,
    offsets: Option<PyReadonlyArray1<'py, i64>>,
    in_flight: usize,
    mix: Vec<(usize, f64)>,
    count: Option<u64>,
    passes_s: Option<f64>,
    background: bool,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct PlanIn<'py> {
    classes: Vec<ClassIn<'py>>,
    sources: Vec<SourceIn<'py>>,
    duration_s: Option<f64>,
    warmup_s: Option<f64>,
    warmup_count: Option<u64>,
    threads: usize,
    machine: usize,
    machines: usize,
    cores: Vec<usize>,
    connections: Option<usize>,
    timeout_s: f64,
    drain_s: f64,
    seed: u64,
    dedicated: bool,
    window_ns: u64,
}

fn array<T: numpy::Element + Copy>(given: &Option<PyReadonlyArray1<'_, T>>) -> Vec<T> {
    given
        .as_ref()
        .map_or_else(Vec::new, |array| array.as_array().to_vec())
}

fn texts(given: &[Bound<'_, PyBytes>]) -> Vec<Bytes> {
    let copy = |bytes: &Bound<'_, PyBytes>| Bytes::copy_from_slice(bytes.as_bytes());
    given.iter().map(copy).collect()
}

fn nanoseconds(seconds: f64) -> i64 {
    (seconds * 1e9) as i64
}

fn operation(name: &str) -> PyResult<Operation> {
    Ok(match name {
        "search" => Operation::Search,
        "insert" => Operation::Insert,
        "upsert" => Operation::Upsert,
        "get" => Operation::Get,
        "delete" => Operation::Delete,
        "payload" => Operation::Payload,
        _ => return Err(PyValueError::new_err(format!("'{name}' is no operation"))),
    })
}

impl ColumnIn<'_> {
    fn column(&self) -> Column {
        let values = match &self.values {
            ValuesIn::Int(all) => Values::Int(all.as_array().to_vec()),
            ValuesIn::Float(all) => Values::Float(all.as_array().to_vec()),
            ValuesIn::Bool(all) => Values::Bool(all.as_array().to_vec()),
            ValuesIn::Text(all) => Values::Text(all.clone()),
        };
        Column {
            name: self.name.clone(),
            values,
            valid: array(&self.valid),
        }
    }
}

impl ClassIn<'_> {
    fn class(&self) -> PyResult<Class> {
        let vectors = self.vectors.as_ref().map(|given| {
            let all = given.as_array();
            Matrix {
                dim: all.ncols(),
                values: all.iter().copied().collect(),
            }
        });
        let task = Task {
            operation: operation(&self.operation)?,
            vectors: vectors.unwrap_or_default(),
            ids: array(&self.ids),
            columns: self.columns.iter().map(ColumnIn::column).collect(),
            k: self.k,
            batch: self.batch,
            filters: texts(&self.filters),
            filter_of: array(&self.filter_of),
            payloads: texts(&self.payloads),
            options: Options(self.options.clone()),
        };
        task.check()
            .map_err(|InvalidArgument(what)| InvalidArgument(format!("{}: {what}", self.name)))?;
        Ok(Class {
            name: self.name.clone(),
            task,
            judge: self.judge.as_ref().map(|judge| judge.get().shared()),
            once: self.once,
            keep: self.keep.then_some(self.k),
        })
    }
}

impl SourceIn<'_> {
    fn source(&self) -> PyResult<Source> {
        let (rate, in_flight) = (self.rate, self.in_flight);
        let arrival = match self.arrival.as_str() {
            "closed" => None,
            "constant" => Some(Arrival::Constant { rate }),
            "poisson" => Some(Arrival::Poisson { rate }),
            "trace" => Some(Arrival::Trace {
                offsets: array(&self.offsets).into(),
            }),
            name => {
                return Err(PyValueError::new_err(format!(
                    "'{name}' is no arrival; one of closed, constant, poisson, trace"
                )))
            }
        };
        let clients = self.clients;
        let pace = match arrival {
            None => Pace::Closed { clients },
            Some(arrival) => Pace::Open { arrival, in_flight },
        };
        Ok(Source {
            pace,
            mix: self.mix.clone(),
            count: self.count,
            passes_ns: self.passes_s.map(nanoseconds),
            background: self.background,
        })
    }
}

impl PlanIn<'_> {
    fn plan(&self) -> PyResult<Plan> {
        let classes = self.classes.iter().map(ClassIn::class);
        let sources = self.sources.iter().map(SourceIn::source);
        Ok(Plan {
            classes: classes.collect::<PyResult<_>>()?,
            sources: sources.collect::<PyResult<_>>()?,
            warmup: Limit {
                duration_ns: self.warmup_s.map(nanoseconds),
                count: self.warmup_count,
            },
            limit: Limit {
                duration_ns: self.duration_s.map(nanoseconds),
                count: None,
            },
            threads: self.threads,
            share: Share {
                machine: self.machine,
                machines: self.machines,
            },
            cores: self.cores.clone(),
            connections: self.connections,
            timeout_ns: nanoseconds(self.timeout_s),
            failover: false,
            drain_ns: nanoseconds(self.drain_s),
            seed: self.seed,
            dedicated: self.dedicated,
            window_ns: self.window_ns,
        })
    }
}

#[pyfunction]
fn run_load<'py>(
    py: Python<'py>,
    target: TargetIn,
    plan: &Bound<'py, PyAny>,
    control: &LoadControl,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let _over = Over(control.0.clone());
    let mut plan = plan.extract::<PlanIn<'_>>()?.plan()?;
    plan.failover = target.nodes.len() > 1;
    let tls = target.tls.map(|tls| Tls::new(&tls.roots, &tls.name));
    let to = Target {
        host: target.host,
        port: target.port,
        tls: tls.transpose()?,
        headers: target.headers,
        options: Options(target.options),
        nodes: Nodes::new(target.nodes),
        primary: target.primary,
    };
    let control = control.0.clone();
    let outcome = py.detach(|| protocols::drive(&target.protocol, to, plan, &control))?;
    outcome.map(|outcome| outcome_out(py, outcome)).transpose()
}

/// Tells whoever waits for a turn that there will be none, however the run ended.
struct Over(Arc<run::Control>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.turns.over();
    }
}

fn outcome_out(py: Python<'_>, outcome: Outcome) -> PyResult<Bound<'_, PyDict>> {
    let classes = PyList::empty(py);
    for class in outcome.classes {
        let out = PyDict::new(py);
        out.set_item("name", class.name)?;
        out.set_item("recorder", Bound::new(py, Recorder::of(class.recorder))?)?;
        out.set_item("warmup", Bound::new(py, Recorder::of(class.warmup))?)?;
        out.set_item("lag", PyBytes::new(py, &class.lag.encode()))?;
        out.set_item("issued", class.issued)?;
        out.set_item("in_flight", class.in_flight)?;
        out.set_item("rows", class.rows)?;
        out.set_item(
            "answers",
            class.answers.map(|log| answers(py, &log)).transpose()?,
        )?;
        out.set_item("requests", class.requests.map(|log| requests(py, &log)))?;
        classes.append(out)?;
    }
    let out = PyDict::new(py);
    out.set_item("classes", classes)?;
    out.set_item("started_ns", outcome.started)?;
    out.set_item("ended_ns", outcome.ended)?;
    out.set_item("busy_s", outcome.busy_ns as f64 / 1e9)?;
    out.set_item("cpu_ns", outcome.cpu_ns)?;
    out.set_item("unsent", outcome.unsent)?;
    out.set_item("in_flight_limit_hits", outcome.in_flight_limit_hits)?;
    out.set_item("peak_in_flight", outcome.peak_in_flight)?;
    out.set_item("in_flight_s", outcome.in_flight_ns as f64 / 1e9)?;
    out.set_item("reconnects", outcome.reconnects)?;
    out.set_item("cancelled", outcome.cancelled)?;
    out.set_item("duration_s", outcome.duration_ns.map(|ns| ns as f64 / 1e9))?;
    out.set_item("backlog", outcome.backlog.map(Vec::from))?;
    Ok(out)
}

/// (queries (n,), ids (n, k), scores (n, k))
type Answers<'py> = (
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray2<i64>>,
    Bound<'py, PyArray2<f32>>,
);

fn answers<'py>(py: Python<'py>, log: &run::AnswerLog) -> PyResult<Answers<'py>> {
    let queries = PyArray1::from_iter(py, log.queries());
    let shape = [queries.len()?, log.k()];
    let ids = PyArray1::from_iter(py, log.ids()).reshape(shape)?;
    let scores = PyArray1::from_iter(py, log.scores()).reshape(shape)?;
    Ok((queries, ids, scores))
}

/// (number (n,), sent (n,), done (n,), succeeded (n,)), in ns of the monotonic clock.
type Requests<'py> = (
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<bool>>,
);

fn requests<'py>(py: Python<'py>, log: &run::RequestLog) -> Requests<'py> {
    (
        PyArray1::from_iter(py, log.entries().map(|one| one.number)),
        PyArray1::from_iter(py, log.entries().map(|one| one.sent)),
        PyArray1::from_iter(py, log.entries().map(|one| one.done)),
        PyArray1::from_iter(py, log.entries().map(|one| one.succeeded)),
    )
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<LoadControl>()?;
    module.add_function(wrap_pyfunction!(run_load, module)?)?;
    Ok(())
}
