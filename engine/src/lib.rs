//! The Python boundary of the engine, and nothing else.

use pyo3::prelude::*;

pub mod arrival;
pub mod clock;
pub mod codec;
pub mod failures;
#[cfg(feature = "fuzz")]
pub mod fuzz;
pub mod histogram;
pub mod judge;
pub mod load;
mod load_python;
pub mod misuse;
pub mod null;
pub mod protocol;
pub mod protocols;
pub mod recorder;
mod recording;
#[cfg(feature = "truth")]
pub mod topk;
pub mod transport;
pub mod windows;

#[pymodule]
fn _engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    #[cfg(feature = "truth")]
    module.add_class::<topk::python::TopK>()?;
    recording::register(module)?;
    load_python::register(module)?;
    Ok(())
}
