//! The Python boundary of the engine, and nothing else.

use pyo3::prelude::*;

pub mod failures;
pub mod histogram;
pub mod judge;
pub mod misuse;
pub mod recorder;
mod recording;
pub mod topk;
pub mod windows;

#[pymodule]
fn _engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<topk::python::TopK>()?;
    recording::register(module)?;
    Ok(())
}
