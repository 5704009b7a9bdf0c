//! The null server as a Python function.

use std::collections::BTreeMap;

use bytes::Bytes;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::invalid_argument::InvalidArgument;
use crate::null;
use crate::null::faults::{Fault, Faults};

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct NullIn {
    family: String,
    host: String,
    port: u16,
    k: usize,
    replies: BTreeMap<String, Vec<u8>>,
    faults: Vec<(String, u64)>,
    late_s: f64,
    stall_s: Option<(f64, f64)>,
    identity: Option<(Vec<Vec<u8>>, Vec<u8>)>,
    room: u32,
}

impl NullIn {
    fn settings(&self) -> PyResult<null::Settings> {
        let rule = |(name, every): &(String, u64)| match every {
            0 => Err(InvalidArgument(
                "a fault happens every so many requests".into(),
            )),
            _ => Ok((name.parse::<Fault>()?, *every)),
        };
        let rules = self.faults.iter().map(rule).collect::<Result<_, _>>()?;
        let seconds = std::time::Duration::try_from_secs_f64;
        let wrong = |error| PyValueError::new_err(format!("a time in seconds: {error}"));
        let stall = match self.stall_s {
            None => None,
            Some((every, length)) => Some((
                seconds(every).map_err(wrong)?,
                seconds(length).map_err(wrong)?,
            )),
        };
        let reply = |(path, bytes): (&String, &Vec<u8>)| (path.clone(), Bytes::from(bytes.clone()));
        Ok(null::Settings {
            k: self.k,
            replies: self.replies.iter().map(reply).collect(),
            faults: Faults {
                rules,
                late: seconds(self.late_s).map_err(wrong)?,
                stall,
            },
            identity: self.identity.clone(),
            room: self.room,
        })
    }
}

#[pyfunction]
fn serve_null(py: Python<'_>, given: NullIn, ready: Py<PyAny>) -> PyResult<()> {
    let host = &given.host;
    let wrong = |_| PyValueError::new_err(format!("'{host}' is no IP address"));
    let address = std::net::SocketAddr::new(host.parse().map_err(wrong)?, given.port);
    let settings = given.settings()?;
    let tell = |at: std::net::SocketAddr| {
        Python::attach(|py| {
            if let Err(error) = ready.call1(py, (at.port(),)) {
                error.print(py);
            }
        });
    };
    py.detach(|| null::serve(&given.family, address, settings, tell))?;
    Ok(())
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(serve_null, module)?)
}
