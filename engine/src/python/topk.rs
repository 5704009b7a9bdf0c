//! `vectrial._engine.TopK`.

use numpy::{
    IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::topk::{Fault, Found, Hits, Metric, Plan, Search};

#[pyclass(module = "vectrial._engine")]
pub struct TopK {
    search: Option<Search>,
    shape: (usize, usize, usize),
}

type Answer<'py> = (
    Bound<'py, PyArray2<i64>>,
    Bound<'py, PyArray2<f64>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i64>>,
);

type HitArrays<'py> = (
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<f64>>,
);

#[pymethods]
impl TopK {
    #[new]
    #[pyo3(signature = (queries, metric, k, *, centre, scale, tie, noise, floor, most_held, filters=None))]
    #[allow(clippy::too_many_arguments)] // named on the Python side
    fn new(
        queries: PyReadonlyArray2<f32>,
        metric: &str,
        k: usize,
        centre: PyReadonlyArray1<f32>,
        scale: f64,
        tie: f64,
        noise: f64,
        floor: f64,
        most_held: usize,
        filters: Option<PyReadonlyArray1<i64>>,
    ) -> PyResult<Self> {
        let metric = match metric {
            "l2" => Metric::L2,
            "cosine" => Metric::Cosine,
            "ip" => Metric::Ip,
            other => return Err(PyValueError::new_err(format!("no metric '{other}'"))),
        };
        let [q, d] = [queries.shape()[0], queries.shape()[1]];
        let filters = match filters {
            Some(filters) => filters.to_vec()?,
            None => vec![-1; q],
        };
        let centre = centre.to_vec()?;
        let fits = k > 0 && d > 0 && d <= 1 << 20 && centre.len() == d && filters.len() == q;
        if !(fits && scale > 0.0 && scale.is_finite()) {
            return Err(PyValueError::new_err(
                "queries, k, centre, scale and filters do not fit",
            ));
        }
        let last = filters.iter().copied().max().unwrap_or(-1);
        let plan = Plan {
            metric,
            k,
            centre,
            scale,
            tie,
            noise,
            floor,
            most_held,
        };
        let search = Search::new(plan, queries.to_vec()?, &filters).map_err(raised)?;
        Ok(Self {
            search: Some(search),
            shape: (q, d, (last + 1) as usize),
        })
    }

    #[pyo3(signature = (vectors, ids, allowed=None))]
    fn scan(
        &mut self,
        py: Python<'_>,
        vectors: PyReadonlyArray2<f32>,
        ids: PyReadonlyArray1<i64>,
        allowed: Option<PyReadonlyArray2<bool>>,
    ) -> PyResult<()> {
        let (_, d, filters) = self.shape;
        let rows = ids.len();
        let masks = allowed
            .as_ref()
            .map_or([0, rows], |a| [a.shape()[0], a.shape()[1]]);
        if vectors.shape() != [rows, d] || masks[0] < filters || masks[1] != rows {
            return Err(PyValueError::new_err("vectors, ids and allowed do not fit"));
        }
        let search = self.search.as_mut().ok_or_else(spent)?;
        let (vectors, ids) = (vectors.as_slice()?, ids.as_slice()?);
        let allowed = allowed.as_ref().map(|a| a.as_slice()).transpose()?;
        py.detach(|| search.scan(vectors, ids, allowed))
            .map_err(raised)
    }

    fn hits<'py>(&self, py: Python<'py>) -> PyResult<HitArrays<'py>> {
        let hits = self.search.as_ref().ok_or_else(spent)?.hits();
        Ok((
            hits.offsets.into_pyarray(py),
            hits.ids.into_pyarray(py),
            hits.distances.into_pyarray(py),
            hits.least.into_pyarray(py),
        ))
    }

    fn merge(
        &mut self,
        offsets: PyReadonlyArray1<i64>,
        ids: PyReadonlyArray1<i64>,
        distances: PyReadonlyArray1<f64>,
        least: PyReadonlyArray1<f64>,
    ) -> PyResult<()> {
        let hits = Hits {
            offsets: offsets.to_vec()?,
            ids: ids.to_vec()?,
            distances: distances.to_vec()?,
            least: least.to_vec()?,
        };
        let n = hits.ids.len();
        let ordered = hits.offsets.first() == Some(&0) && hits.offsets.is_sorted();
        let fits = hits.offsets.len() == self.shape.0 + 1
            && hits.offsets.last() == Some(&(n as i64))
            && hits.distances.len() == n
            && hits.least.len() == n;
        if !(ordered && fits) {
            return Err(PyValueError::new_err(
                "offsets, ids and distances do not fit",
            ));
        }
        self.search
            .as_mut()
            .ok_or_else(spent)?
            .merge(&hits)
            .map_err(raised)
    }

    fn finish<'py>(&mut self, py: Python<'py>) -> PyResult<Answer<'py>> {
        let search = self.search.take().ok_or_else(spent)?;
        let shape = [self.shape.0, search.plan.k];
        let Found {
            ids,
            distances,
            available,
            offsets,
            accept,
        } = py.detach(|| search.finish());
        Ok((
            ids.into_pyarray(py).reshape(shape)?,
            distances.into_pyarray(py).reshape(shape)?,
            available.into_pyarray(py),
            offsets.into_pyarray(py),
            accept.into_pyarray(py),
        ))
    }
}

fn spent() -> PyErr {
    PyRuntimeError::new_err("finish was called already")
}

fn raised(fault: Fault) -> PyErr {
    match fault {
        Fault::ZeroVector(id) => PyValueError::new_err(("zero vector", id)),
        Fault::NotFinite(id) => PyValueError::new_err(("not finite", id)),
        Fault::TooManyTies(held) => PyMemoryError::new_err(held),
    }
}
