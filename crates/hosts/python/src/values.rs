//! Arguments, as programs give them.

use std::time::Duration;

use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use quorate::Value;

/// So many keys are taken in one call: as many as a transaction may read.
const KEYS_MAX: usize = 100_000;

/// No time that is waited for, or looked back, is longer: a year, in seconds.
const SECONDS_MAX: f64 = 31_536_000.0;

/// A key or a value: `bytes`, or `str`, which is encoded as UTF-8.
#[derive(Clone, Debug, Default)]
pub(crate) struct Octets(pub(crate) Vec<u8>);

impl AsRef<[u8]> for Octets {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl<'py> FromPyObject<'_, 'py> for Octets {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Octets(bytes.as_bytes().to_vec()));
        }
        match object.cast::<PyString>() {
            Ok(text) => Ok(Octets(text.to_str()?.as_bytes().to_vec())),
            Err(_) => Err(PyTypeError::new_err(format!(
                "keys and values are bytes, or str, which is encoded as UTF-8, and this is {}: encode it first",
                type_name(&object)
            ))),
        }
    }
}

/// Several keys: anything that can be iterated over, but not one key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys(pub(crate) Vec<Octets>);

impl<'py> FromPyObject<'_, 'py> for Keys {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<PyBytes>() || object.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err(format!(
                "several keys are wanted, as in a list, and this is one {}",
                type_name(&object)
            )));
        }
        let mut keys = Vec::new();
        for key in object.try_iter()? {
            if keys.len() == KEYS_MAX {
                return Err(PyValueError::new_err(format!("one call takes at most {KEYS_MAX} keys")));
            }
            keys.push(key?.extract::<Octets>()?);
        }
        Ok(Keys(keys))
    }
}

/// A time: seconds as a number, or a `datetime.timedelta`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seconds(pub(crate) Duration);

impl<'py> FromPyObject<'_, 'py> for Seconds {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let seconds = match object.getattr_opt(pyo3::intern!(object.py(), "total_seconds"))? {
            Some(total) => total.call0()?.extract::<f64>()?,
            None => object.extract::<f64>().map_err(|_| {
                PyTypeError::new_err(format!(
                    "a time is a number of seconds or a datetime.timedelta, and this is {}",
                    type_name(&object)
                ))
            })?,
        };
        let is_in_range = (0.0..=SECONDS_MAX).contains(&seconds);
        match Duration::try_from_secs_f64(seconds) {
            Ok(duration) if is_in_range => Ok(Seconds(duration)),
            _ => Err(PyValueError::new_err(format!(
                "a time is from 0 to {SECONDS_MAX} seconds (a year), and this is {seconds}"
            ))),
        }
    }
}

/// The duration of an optional time.
pub(crate) fn duration(seconds: Option<Seconds>) -> Option<Duration> {
    seconds.map(|Seconds(duration)| duration)
}

/// For how many seconds a key will hold what it holds; none if that is nothing.
pub(crate) fn ttl(held: Option<quorate::WithExpiry>) -> Option<f64> {
    held.map(|held| held.remaining().map_or(f64::INFINITY, |left| left.as_secs_f64()))
}

/// Named arguments of a method, which the Python part has collected. Those that were left out are not there, or `None`.
pub(crate) struct Named<'a, 'py>(pub(crate) &'a Bound<'py, PyDict>);

impl<'py> Named<'_, 'py> {
    /// The argument of this name, if there is one.
    ///
    /// # Errors
    /// If it is something else; a `TypeError` names it.
    pub(crate) fn get<T: FromPyObjectOwned<'py>>(&self, name: &str) -> PyResult<Option<T>> {
        let py = self.0.py();
        let Some(given) = self.0.get_item(name)?.filter(|given| !given.is_none()) else { return Ok(None) };
        let extracted = given.extract::<T>().map_err(|failed| -> PyErr { failed.into() });
        extracted.map(Some).map_err(|failed| match failed.is_instance_of::<PyTypeError>(py) {
            true => PyTypeError::new_err(format!("argument '{name}': {}", failed.value(py))),
            false => failed,
        })
    }
}

fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "something else".to_owned(), |name| name.to_string())
}

/// A key or value as `bytes`.
pub(crate) fn bytes(py: Python<'_>, value: &[u8]) -> Py<PyBytes> {
    PyBytes::new(py, value).unbind()
}

/// The value of a key: `bytes`, or `None`.
pub(crate) fn optional(py: Python<'_>, value: Option<&Value>) -> Option<Py<PyBytes>> {
    value.map(|value| bytes(py, value))
}

/// A key or value as the bytes that are sent.
#[pyfunction]
pub(crate) fn octets(py: Python<'_>, value: Octets) -> Py<PyBytes> {
    bytes(py, &value.0)
}

/// The least key above all that begin with these bytes; empty, which is the end, if there is none.
#[pyfunction]
pub(crate) fn end_of_prefix(py: Python<'_>, prefix: Octets) -> Py<PyBytes> {
    bytes(py, &quorate::end_of_prefix(&prefix.0))
}
