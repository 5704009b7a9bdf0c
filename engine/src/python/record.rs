//! Recorder, judge and histograms as Python classes and functions: conversions and nothing else.

use std::sync::Arc;

use numpy::{IntoPyArray, PyArray1, PyArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::record::recorder::{self, Kind};
use crate::record::windows::WindowRow;
use crate::record::{histogram, recall};

const NS_PER_US: f64 = 1e3;
const QUANTILES: [(&str, f64); 5] = [
    ("latency_p50", 0.5),
    ("latency_p90", 0.9),
    ("latency_p95", 0.95),
    ("latency_p99", 0.99),
    ("latency_p99_9", 0.999),
];

/// Microseconds of a time in ns, where there is one.
pub fn in_us(ns: Option<u64>) -> Option<f64> {
    ns.map(|ns| ns as f64 / NS_PER_US)
}

/// Call `then` with the int64 ids of a one-dimensional array.
fn with_ids<T>(ids: &Bound<'_, PyAny>, then: impl FnOnce(&[i64]) -> T) -> PyResult<T> {
    let Ok(array) = ids.cast::<PyArray1<i64>>() else {
        let kind = ids.get_type();
        let dtype = ids.getattr("dtype").map(|dtype| format!(" of {dtype}"));
        let dtype = dtype.unwrap_or_default();
        let kind = kind.name().map(|name| name.to_string()).unwrap_or_default();
        return Err(PyValueError::new_err(format!(
            "ids must be a one-dimensional array of int64, not a {kind}{dtype}"
        )));
    };
    // A copy of k ids is three times cheaper than the book-keeping of a borrow, and leaves no
    // reference into memory that Python owns.
    match array.to_vec() {
        Ok(ids) => Ok(then(&ids)),
        Err(_) => Ok(then(&array.to_owned_array().to_vec())),
    }
}

fn histogram_kind(name: &str) -> PyResult<Kind> {
    match name {
        "latency" => Ok(Kind::Latency),
        "service" => Ok(Kind::Service),
        "error" => Ok(Kind::Error),
        _ => Err(PyValueError::new_err(format!(
            "'{name}' is no histogram; one of latency, service, error"
        ))),
    }
}

fn vector(name: &str, array: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    with_ids(array, <[i64]>::to_vec)
        .map_err(|error| PyValueError::new_err(format!("{name}: {}", error.value(array.py()))))
}

fn index(query: i64) -> PyResult<usize> {
    usize::try_from(query)
        .map_err(|_| PyValueError::new_err(format!("query {query} does not exist")))
}

#[pyclass(frozen, module = "vectrial._engine")]
pub struct Judge(Arc<recall::Judge>);

impl Judge {
    pub fn shared(&self) -> Arc<recall::Judge> {
        self.0.clone()
    }
}

#[pymethods]
impl Judge {
    #[new]
    fn new(
        k: i64,
        accept_offsets: &Bound<'_, PyAny>,
        accept_ids: &Bound<'_, PyAny>,
        available: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let offsets = vector("accept_offsets", accept_offsets)?;
        let accept = vector("accept_ids", accept_ids)?;
        let available = vector("available", available)?;
        let k = usize::try_from(k).map_err(|_| PyValueError::new_err("k is at least 1"))?;
        Ok(Self(Arc::new(recall::Judge::new(
            k, &offsets, accept, &available,
        )?)))
    }

    fn recall(&self, query: i64, ids: &Bound<'_, PyAny>) -> PyResult<f64> {
        let query = index(query)?;
        let (part, whole) = with_ids(ids, |ids| {
            self.0
                .judge(query, ids, &mut Vec::new())
                .map(|verdict| verdict.fraction(ids.len()))
        })??;
        Ok(f64::from(part) / f64::from(whole))
    }
}

#[pyclass(module = "vectrial._engine")]
pub struct Recorder(recorder::Recorder);

impl Recorder {
    pub fn of(recorder: recorder::Recorder) -> Self {
        Self(recorder)
    }
}

#[pymethods]
impl Recorder {
    #[new]
    #[pyo3(signature = (judge=None, window_ns=1_000_000_000))]
    fn new(judge: Option<&Judge>, window_ns: i64) -> PyResult<Self> {
        let width = u64::try_from(window_ns)
            .map_err(|_| PyValueError::new_err("a window is at least 1 ns wide"))?;
        Ok(Self(recorder::Recorder::new(
            judge.map(|judge| judge.0.clone()),
            width,
        )?))
    }

    fn start(&mut self, at_ns: i64) -> PyResult<()> {
        Ok(self.0.start(at_ns)?)
    }

    fn answer(
        &mut self,
        query: i64,
        intended_ns: i64,
        sent_ns: i64,
        done_ns: i64,
        ids: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let query = index(query)?;
        with_ids(ids, |ids| {
            self.0.answer(query, intended_ns, sent_ns, done_ns, ids)
        })??;
        Ok(())
    }

    fn operation(&mut self, intended_ns: i64, sent_ns: i64, done_ns: i64) -> PyResult<()> {
        Ok(self.0.operation(intended_ns, sent_ns, done_ns)?)
    }

    fn error(
        &mut self,
        intended_ns: i64,
        sent_ns: i64,
        done_ns: i64,
        kind: &str,
        message: &str,
    ) -> PyResult<()> {
        Ok(self.0.error(intended_ns, sent_ns, done_ns, kind, message)?)
    }

    fn samples(&self) -> u64 {
        self.0.samples()
    }

    fn finish(&mut self, at_ns: i64) -> PyResult<()> {
        Ok(self.0.finish(at_ns)?)
    }

    fn started_ns(&self) -> Option<i64> {
        self.0.started()
    }

    fn shift(&mut self, by_ns: i64) {
        self.0.shift(by_ns);
    }

    fn merge(&mut self, other: &Bound<'_, Recorder>) -> PyResult<()> {
        let other = other
            .try_borrow()
            .map_err(|_| PyValueError::new_err("a recorder cannot be merged into itself"))?;
        Ok(self.0.merge(&other.0)?)
    }

    fn pack<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.pack())
    }

    #[staticmethod]
    #[pyo3(signature = (packed, judge=None))]
    fn unpack(packed: &[u8], judge: Option<&Judge>) -> PyResult<Self> {
        let judge = judge.map(|judge| judge.0.clone());
        Ok(Self(recorder::Recorder::unpack(packed, judge)?))
    }

    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (seen, out) = (self.0.summary(), PyDict::new(py));
        let latency = self.0.histogram(Kind::Latency);
        out.set_item("count", seen.count)?;
        out.set_item("errors", seen.errors)?;
        out.set_item("saturated", seen.saturated)?;
        out.set_item("incomplete_results", seen.incomplete_results)?;
        out.set_item("duplicate_answers", seen.duplicate_answers)?;
        out.set_item("qps", seen.qps)?;
        out.set_item(
            "latency_mean",
            seen.latency_mean_ns.map(|ns| ns / NS_PER_US),
        )?;
        out.set_item("latency_min", in_us(seen.latency_min_ns))?;
        for (name, quantile) in QUANTILES {
            out.set_item(name, in_us(latency.quantile_ns(quantile)))?;
        }
        out.set_item("latency_max", in_us(seen.latency_max_ns))?;
        out.set_item("recall_mean", seen.recall.map(|recall| recall.mean))?;
        out.set_item("recall_p05", seen.recall.map(|recall| recall.p05))?;
        out.set_item("recall_min", seen.recall.map(|recall| recall.min))?;
        Ok(out)
    }

    fn windows<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (rows, out) = (self.0.windows(), PyDict::new(py));
        let counts = |of: fn(&WindowRow) -> u64| rows.iter().map(of).collect::<Vec<_>>();
        let us = |of: fn(&WindowRow) -> Option<u64>| {
            let column = rows.iter().map(|row| in_us(of(row)));
            column.collect::<Vec<_>>()
        };
        let recall: Vec<_> = rows.iter().map(|row| row.recall).collect();
        out.set_item("second", counts(|row| row.second))?;
        out.set_item("count", counts(|row| row.count))?;
        out.set_item("errors", counts(|row| row.errors))?;
        out.set_item("p50_us", us(|row| row.p50_ns))?;
        out.set_item("p99_us", us(|row| row.p99_ns))?;
        out.set_item("max_us", us(|row| row.max_ns))?;
        out.set_item("recall", recall)?;
        Ok(out)
    }

    fn histogram<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyBytes>> {
        let kind = histogram_kind(name)?;
        Ok(PyBytes::new(py, &self.0.histogram(kind).encode()))
    }

    fn total_s(&self, name: &str) -> PyResult<f64> {
        let kind = histogram_kind(name)?;
        Ok(self.0.histogram(kind).sum_ns() as f64 / 1e9)
    }

    fn errors(&self) -> Vec<(&str, u64, Vec<&str>)> {
        self.0.failures().rows().collect()
    }

    #[allow(clippy::type_complexity)]
    fn query_recall<'py>(
        &self,
        py: Python<'py>,
    ) -> (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<i64>>) {
        let (sums, counts): (Vec<_>, Vec<_>) = self.0.query_recall().into_iter().unzip();
        let counts = counts.into_iter().map(|count| count as i64);
        (sums.into_pyarray(py), PyArray1::from_iter(py, counts))
    }
}

#[pyfunction]
fn histogram_merge<'py>(
    py: Python<'py>,
    parts: Vec<Bound<'py, PyBytes>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let merged = histogram::merge_encoded(parts.iter().map(|part| part.as_bytes()))?;
    Ok(PyBytes::new(py, &merged))
}

#[pyfunction]
fn histogram_quantiles(hdr: &[u8], quantiles: Vec<f64>) -> PyResult<Vec<f64>> {
    let hdr = histogram::decode(hdr)?;
    if hdr.is_empty() {
        return Err(PyValueError::new_err("the histogram is empty"));
    }
    if let Some(wrong) = quantiles.iter().find(|q| !(0.0..=1.0).contains(*q)) {
        return Err(PyValueError::new_err(format!(
            "{wrong} is no quantile in [0, 1]"
        )));
    }
    Ok(quantiles
        .iter()
        .map(|q| hdr.value_at_quantile(*q) as f64 / NS_PER_US)
        .collect())
}

#[pyfunction]
#[allow(clippy::type_complexity)]
fn histogram_buckets<'py>(
    py: Python<'py>,
    hdr: &[u8],
) -> PyResult<(Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<i64>>)> {
    let hdr = histogram::decode(hdr)?;
    let rows: Vec<_> = histogram::buckets(&hdr).collect();
    let bounds = PyArray1::from_iter(py, rows.iter().map(|row| row.0 as f64 / NS_PER_US));
    Ok((
        bounds,
        PyArray1::from_iter(py, rows.iter().map(|row| row.1 as i64)),
    ))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Judge>()?;
    module.add_class::<Recorder>()?;
    module.add_function(wrap_pyfunction!(histogram_merge, module)?)?;
    module.add_function(wrap_pyfunction!(histogram_quantiles, module)?)?;
    module.add_function(wrap_pyfunction!(histogram_buckets, module)?)?;
    Ok(())
}
