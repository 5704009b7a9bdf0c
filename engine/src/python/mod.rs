//! The Python boundary: classes and functions of `vectrial._engine`, conversions and nothing else.

mod null;
mod record;
mod run;
#[cfg(feature = "truth")]
mod topk;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::invalid_argument::InvalidArgument;

impl From<InvalidArgument> for PyErr {
    fn from(error: InvalidArgument) -> Self {
        PyValueError::new_err(error.0)
    }
}

#[pymodule]
fn _engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    // Which sources these are: `scripts/engine.py` sets it, and looks for it in a wheel.
    module.add("SOURCES", option_env!("VECTRIAL_ENGINE_SOURCES"))?;
    #[cfg(feature = "truth")]
    module.add_class::<topk::TopK>()?;
    record::register(module)?;
    run::register(module)?;
    null::register(module)?;
    module.add_function(wrap_pyfunction!(spaced, module)?)
}

#[pyfunction]
fn spaced(texts: Vec<String>) -> Vec<String> {
    crate::words::spaced(texts)
}
