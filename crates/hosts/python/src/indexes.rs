//! Secondary indexes: what there are, and what they find.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyList};
use quorate::index::{Definition, IndexValue, Unparsable};
use quorate::{IndexOptions, Indexed};

use crate::error;
use crate::values::{Octets, bytes};

/// A value that keys are found by: a truth value, a number, or bytes or text.
#[derive(Clone, Debug)]
pub(crate) struct Sought(pub(crate) IndexValue);

impl<'py> FromPyObject<'_, 'py> for Sought {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        // A truth value is a number in Python, too.
        if object.is_instance_of::<PyBool>() {
            return Ok(Sought(IndexValue::Bool(object.extract()?)));
        }
        if object.is_instance_of::<PyFloat>() || object.is_instance_of::<PyInt>() {
            return Ok(Sought(IndexValue::Number(object.extract()?)));
        }
        Ok(Sought(IndexValue::Text(object.extract::<Octets>()?.0)))
    }
}

fn told(py: Python<'_>, value: &IndexValue) -> PyResult<Py<PyAny>> {
    match value {
        IndexValue::Bool(value) => value.into_py_any(py),
        IndexValue::Number(number) => number.into_py_any(py),
        IndexValue::Text(text) => bytes(py, text).into_py_any(py),
    }
}

/// The options of a new index.
pub(crate) fn options(py: Python<'_>, on: &str, unique: bool, unparsable: &str) -> PyResult<IndexOptions> {
    let on = on.parse().map_err(|invalid| error::invalid(py, format!("{invalid}")))?;
    let found = Unparsable::ALL.into_iter().find(|choice| choice.name() == unparsable);
    let Some(unparsable) = found else {
        let choices = Unparsable::ALL.map(Unparsable::name).join(" or ");
        return Err(error::invalid(
            py,
            format!("values that do not parse are {choices}, not {unparsable:?}"),
        ));
    };
    Ok(IndexOptions { unique, unparsable, ..IndexOptions::new(on) })
}

/// An index of a keyspace.
#[pyclass(frozen, get_all, module = "quorate")]
pub(crate) struct IndexInfo {
    /// Its name.
    name: String,
    /// The part of a value by which keys are found, as `json:/city`.
    on: String,
    /// True if a value belongs to one key only.
    unique: bool,
    /// The fate of values that do not parse: `refuse` or `leave-out`.
    unparsable: &'static str,
    /// How far it is: `ready` if it can be read.
    stage: &'static str,
}

impl IndexInfo {
    pub(crate) fn list(py: Python<'_>, indexes: &[Definition]) -> PyResult<Py<PyAny>> {
        let info = |index: &Definition| IndexInfo {
            name: index.name.clone(),
            on: index.on.to_string(),
            unique: index.unique,
            unparsable: index.unparsable.name(),
            stage: index.stage.name(),
        };
        let all: Vec<Py<IndexInfo>> =
            indexes.iter().map(|index| Py::new(py, info(index))).collect::<PyResult<_>>()?;
        Ok(PyList::new(py, all)?.into_any().unbind())
    }
}

#[pymethods]
impl IndexInfo {
    fn __repr__(&self) -> String {
        format!("<IndexInfo {} on {}, {}>", self.name, self.on, self.stage)
    }
}

/// A key that an index has found.
#[pyclass(frozen, get_all, module = "quorate")]
pub(crate) struct Found {
    /// The value by which it was found.
    by: Py<PyAny>,
    /// The key.
    key: Py<PyBytes>,
    /// The value of the key.
    value: Py<PyBytes>,
}

#[pymethods]
impl Found {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<Found {} by {}>", self.key.bind(py).repr()?, self.by.bind(py).repr()?))
    }
}

/// Keys that an index has found, in the order of the values by which they were.
#[pyclass(frozen, get_all, module = "quorate")]
pub(crate) struct IndexPage {
    /// The keys; one that is found by several values is there for each.
    entries: Py<PyList>,
    /// Where to go on if the limit was reached; `None` if there is no more.
    next: Option<Py<PyBytes>>,
}

impl IndexPage {
    pub(crate) fn object(py: Python<'_>, page: &quorate::IndexPage) -> PyResult<Py<PyAny>> {
        let found = |entry: &Indexed| -> PyResult<Py<Found>> {
            let (key, value) = (bytes(py, &entry.key), bytes(py, &entry.value));
            Py::new(py, Found { by: told(py, &entry.by)?, key, value })
        };
        let entries: Vec<Py<Found>> = page.entries.iter().map(found).collect::<PyResult<_>>()?;
        let page = IndexPage {
            entries: PyList::new(py, entries)?.unbind(),
            next: page.next.as_ref().map(|next| bytes(py, next)),
        };
        Ok(Py::new(py, page)?.into_any())
    }
}

#[pymethods]
impl IndexPage {
    fn __repr__(&self, py: Python<'_>) -> String {
        format!("<IndexPage of {} entries>", self.entries.bind(py).len())
    }
}

/// The values that are wanted.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// This one.
    Equal(IndexValue),
    /// From one to another one, which is not wanted itself.
    Between(Option<IndexValue>, Option<IndexValue>),
}

impl Wanted {
    pub(crate) fn between(from: Option<Sought>, to: Option<Sought>) -> Self {
        Wanted::Between(from.map(|Sought(value)| value), to.map(|Sought(value)| value))
    }

    /// Reads a page in a transaction.
    pub(crate) async fn find(
        self,
        txn: &quorate::Transaction,
        index: &str,
        limit: u32,
        after: Option<Octets>,
    ) -> quorate::Result<quorate::IndexPage> {
        let index = txn.index(index);
        let index = match after {
            Some(after) => index.resume(quorate::Key::from(after.0.as_slice())),
            None => index,
        };
        match self {
            Wanted::Equal(value) => index.get(value, limit).await,
            Wanted::Between(from, to) => index.range(from, to, limit).await,
        }
    }
}
