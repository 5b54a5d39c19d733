//! Transactions that commit once. Attempts are run in Python; what is at the marker is read and written here.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error;
use crate::values::{Octets, Seconds, bytes};

/// Where a transaction that commits once leaves its answer: a key of the keyspace, the name of the request (another request with the same marker is refused), and for how long
/// the answer is remembered, a day if nothing else is said.
#[pyclass(frozen, module = "quorate")]
pub(crate) struct Marker(quorate::Marker);

#[pymethods]
impl Marker {
    #[new]
    #[pyo3(signature = (key, *, request = None, retention = None))]
    fn new(key: Octets, request: Option<Octets>, retention: Option<Seconds>) -> Self {
        let marker = quorate::Marker::new(key);
        let marker = request.into_iter().fold(marker, quorate::Marker::of_request);
        let retention = retention.map(|Seconds(retention)| retention);
        Marker(retention.into_iter().fold(marker, quorate::Marker::retained_for))
    }

    /// Its key.
    #[getter]
    fn key(&self, py: Python<'_>) -> Py<PyBytes> {
        bytes(py, self.0.key())
    }

    fn __repr__(&self) -> String {
        format!("<Marker at {}>", String::from_utf8_lossy(self.0.key()).escape_debug())
    }
}

/// The answer that is remembered where a transaction has found this; `None` if there is none any more.
#[pyfunction]
pub(crate) fn remembered(
    py: Python<'_>,
    marker: &Marker,
    held: Option<Octets>,
) -> PyResult<Option<Py<PyBytes>>> {
    let held = held.map(|held| quorate::Value::from(held.0));
    let answer = marker.0.remembered(held.as_ref()).map_err(|failure| error::exception(py, &failure))?;
    Ok(answer.map(|answer| bytes(py, &answer)))
}

/// The value that the same transaction writes at the marker, and the answer as bytes.
#[pyfunction]
pub(crate) fn remembering(py: Python<'_>, marker: &Marker, answer: Octets) -> (Py<PyBytes>, Py<PyBytes>) {
    (bytes(py, &marker.0.remembering(&answer.0)), bytes(py, &answer.0))
}

/// The outcome of a transaction that commits once.
#[pyclass(frozen, get_all, module = "quorate")]
pub(crate) struct Once {
    /// The answer: of this call, or of the one that has committed before.
    answer: Py<PyBytes>,
    /// True if a call before this one has committed, and nothing was done now.
    is_repeat: bool,
    /// The receipt; `None` of a repeat.
    receipt: Option<Py<PyAny>>,
}

#[pymethods]
impl Once {
    #[new]
    fn new(answer: Py<PyBytes>, is_repeat: bool, receipt: Option<Py<PyAny>>) -> Self {
        Once { answer, is_repeat, receipt }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let repeated = if self.is_repeat { ", a repeat" } else { "" };
        Ok(format!("<Once {}{repeated}>", self.answer.bind(py).repr()?))
    }
}
