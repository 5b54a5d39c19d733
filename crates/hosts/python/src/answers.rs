//! The answers of calls.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use quorate::topology::Keyspace as Definition;
use quorate::{ClientId, Dropped, StepAnswer};

use crate::context::Context;
use crate::error;
use crate::handle::Handle;
use crate::values::{bytes, optional};

/// Names versions: microseconds since 1970, by the clock of the client that chose it, and that client. As text `MICROS@CLIENT`.
#[pyclass(frozen, eq, ord, hash, from_py_object, module = "quorate")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Timestamp(pub(crate) quorate::Timestamp);

#[pymethods]
impl Timestamp {
    /// Reads the text of a timestamp.
    #[new]
    fn new(py: Python<'_>, text: &str) -> PyResult<Self> {
        let read = || {
            let (micros, client) = text.split_once('@')?;
            let client = ClientId(u64::from_str_radix(client, 16).ok()?);
            Some(Timestamp(quorate::Timestamp { micros: micros.parse().ok()?, client }))
        };
        read().ok_or_else(|| {
            let shown: String = text.chars().take(80).collect();
            error::invalid(py, format!("{shown:?} is no timestamp, which is MICROSECONDS@CLIENT"))
        })
    }

    /// Microseconds since 1970, by the clock of the client that chose it.
    #[getter]
    fn micros(&self) -> u64 {
        self.0.micros
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("Timestamp('{}')", self.0)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyAny>, (String,)) {
        (slf.get_type().into_any(), (slf.get().0.to_string(),))
    }
}

/// A committed transaction.
#[pyclass(frozen, module = "quorate")]
pub(crate) struct Receipt {
    handle: Handle<quorate::Receipt>,
    /// Its name, by which `Database.outcome` finds its outcome.
    #[pyo3(get)]
    token: String,
    /// Names the versions that it wrote.
    #[pyo3(get)]
    timestamp: Timestamp,
    /// True if every shard decided within one round trip.
    #[pyo3(get)]
    fast: bool,
    /// How many attempts it took.
    #[pyo3(get)]
    attempts: u32,
}

impl Receipt {
    pub(crate) fn new(receipt: quorate::Receipt, context: Context) -> Self {
        Receipt {
            token: receipt.token.to_string(),
            timestamp: Timestamp(receipt.timestamp),
            fast: receipt.fast,
            attempts: receipt.attempts,
            handle: Handle::new(receipt, context),
        }
    }

    pub(crate) fn object(py: Python<'_>, receipt: quorate::Receipt, context: Context) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, Receipt::new(receipt, context))?.into_any())
    }
}

#[pymethods]
impl Receipt {
    /// Waits until the transaction survives the loss of a whole site. At once outside `parallel-snapshot` keyspaces.
    fn durable(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (receipt, context) = self.handle.get()?;
        let receipt = receipt.clone();
        context.run(py, async move { receipt.durable().await }, |py, ()| Ok(py.None()))
    }

    /// Waits until every transaction that begins from here on reads it, at every site. At once outside `parallel-snapshot` keyspaces.
    fn visible(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (receipt, context) = self.handle.get()?;
        let receipt = receipt.clone();
        context.run(py, async move { receipt.visible().await }, |py, ()| Ok(py.None()))
    }

    fn __repr__(&self) -> String {
        format!("<Receipt of {} at {}>", self.token, self.timestamp.0)
    }
}

/// The values of keys at a timestamp.
#[pyclass(frozen, get_all, module = "quorate")]
pub(crate) struct Snapshot {
    /// The values in the order of the keys; `None` for a key that is absent.
    values: Py<PyList>,
    /// The timestamp.
    timestamp: Timestamp,
    /// How many attempts it took.
    attempts: u32,
}

impl Snapshot {
    pub(crate) fn object(py: Python<'_>, snapshot: quorate::Snapshot) -> PyResult<Py<PyAny>> {
        let quorate::Snapshot { values: found, timestamp, attempts, .. } = snapshot;
        let values = values(py, &found)?;
        Ok(Py::new(py, Snapshot { values, timestamp: Timestamp(timestamp), attempts })?.into_any())
    }
}

#[pymethods]
impl Snapshot {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<Snapshot {} at {}>", self.values.bind(py).repr()?, self.timestamp.0))
    }
}

/// The values of several keys, `bytes` or `None`, in their order.
pub(crate) fn values(py: Python<'_>, found: &[Option<quorate::Value>]) -> PyResult<Py<PyList>> {
    Ok(PyList::new(py, found.iter().map(|value| optional(py, value.as_ref())))?.unbind())
}

/// A page of a range: entries, the key to go on from or `None`, and the timestamp if the page is a transaction of its own.
pub(crate) fn page(
    py: Python<'_>,
    page: &quorate::Page,
    timestamp: Option<quorate::Timestamp>,
) -> PyResult<Py<PyAny>> {
    let entries = page.entries.iter().map(|(key, value)| (bytes(py, key), bytes(py, value)));
    let entries = PyList::new(py, entries)?;
    let next = page.next.as_ref().map(|next| bytes(py, next));
    Ok((entries, next, timestamp.map(Timestamp)).into_pyobject(py)?.into_any().unbind())
}

/// The end of a batch. True if every condition held, so that every step was taken.
#[pyclass(frozen, get_all, module = "quorate")]
pub(crate) struct Applied {
    /// The answer of each step: of a read the value or `None`, of an increment the number, of an append the length, of a scan a list of keys and
    /// values, of others `None`. Empty if nothing was done.
    answers: Py<PyList>,
    /// The committed transaction; `None` if nothing was done.
    receipt: Option<Py<PyAny>>,
    /// The condition that did not hold, counted from zero; `None` if all held.
    condition: Option<usize>,
    /// The value of its key; `None` if it was absent.
    found: Option<Py<PyBytes>>,
}

impl Applied {
    pub(crate) fn object(py: Python<'_>, applied: quorate::Applied, context: Context) -> PyResult<Py<PyAny>> {
        let applied = match applied {
            quorate::Applied::Done { answers, receipt } => Applied {
                answers: PyList::new(
                    py,
                    answers.iter().map(|answer| step_answer(py, answer)).collect::<PyResult<Vec<_>>>()?,
                )?
                .unbind(),
                receipt: Some(Receipt::object(py, receipt, context)?),
                condition: None,
                found: None,
            },
            quorate::Applied::Unmet { condition, found } => Applied {
                answers: PyList::empty(py).unbind(),
                receipt: None,
                condition: Some(condition),
                found: optional(py, found.as_ref()),
            },
        };
        Ok(Py::new(py, applied)?.into_any())
    }
}

fn step_answer(py: Python<'_>, answer: &StepAnswer) -> PyResult<Py<PyAny>> {
    use pyo3::IntoPyObjectExt;
    match answer {
        StepAnswer::Value(value) => optional(py, value.as_ref()).into_py_any(py),
        StepAnswer::Done => Ok(py.None()),
        StepAnswer::Number(number) => number.into_py_any(py),
        StepAnswer::Length(length) => length.into_py_any(py),
        StepAnswer::Page(page) => {
            let entries = page.entries.iter().map(|(key, value)| (bytes(py, key), bytes(py, value)));
            entries.collect::<Vec<_>>().into_py_any(py)
        }
    }
}

#[pymethods]
impl Applied {
    fn __bool__(&self) -> bool {
        self.condition.is_none()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(match self.condition {
            None => format!("<Applied: done, {}>", self.answers.bind(py).repr()?),
            Some(condition) => format!("<Applied: condition {condition} does not hold>"),
        })
    }
}

/// The end of a call of a procedure.
#[pyclass(frozen, get_all, module = "quorate")]
pub(crate) struct Answers {
    /// The answer of each shard, in the order of the keys of the call.
    answers: Py<PyList>,
    /// The committed transaction.
    receipt: Py<PyAny>,
}

impl Answers {
    pub(crate) fn object(py: Python<'_>, answers: quorate::Answers, context: Context) -> PyResult<Py<PyAny>> {
        let told = PyList::new(py, answers.answers.iter().map(|answer| bytes(py, answer)))?.unbind();
        let receipt = Receipt::object(py, answers.receipt, context)?;
        Ok(Py::new(py, Answers { answers: told, receipt })?.into_any())
    }
}

/// A value, and whether its version is still on its way to other sites.
#[pyclass(frozen, get_all, module = "quorate")]
pub(crate) struct Marked {
    /// The value; `None` if the key is absent.
    value: Option<Py<PyBytes>>,
    /// False if the version is visible everywhere.
    is_in_flight: bool,
}

impl Marked {
    pub(crate) fn object(py: Python<'_>, marked: &quorate::Marked) -> PyResult<Py<PyAny>> {
        let value = optional(py, marked.value.as_ref());
        Ok(Py::new(py, Marked { value, is_in_flight: marked.is_in_flight })?.into_any())
    }
}

/// A member of a counting set of ids.
#[pyclass(frozen, get_all, module = "quorate")]
pub(crate) struct Member {
    /// The element: a key.
    element: Py<PyBytes>,
    /// Its count, which is not zero.
    count: i64,
    /// The value of the key; `None` if it is absent.
    value: Option<Py<PyBytes>>,
}

impl Member {
    pub(crate) fn new(py: Python<'_>, member: &quorate::Member) -> Self {
        let value = optional(py, member.value.as_ref());
        Member { element: bytes(py, &member.element), count: member.count, value }
    }
}

/// The system's knowledge of an open transaction.
#[pyclass(frozen, get_all, module = "quorate")]
pub(crate) struct Info {
    /// Its snapshot, once it has read something in a `snapshot` keyspace.
    snapshot: Option<Timestamp>,
    /// The probability with which transactions of its kind have become final lately.
    commit_probability: f64,
}

impl From<quorate::Info> for Info {
    fn from(info: quorate::Info) -> Self {
        Info { snapshot: info.snapshot.map(Timestamp), commit_probability: info.commit_probability }
    }
}

/// A version of a procedure that a keyspace has, or had.
#[pyclass(frozen, get_all, module = "quorate")]
pub(crate) struct ProcedureVersion {
    /// The name of the procedure.
    name: String,
    /// Its version.
    version: u32,
    /// `deploying`, `deployed`, `removing` or `removed`.
    stage: &'static str,
    /// The length of its code, in bytes.
    bytes: u64,
    /// The CRC-32 of its code.
    crc32: u32,
}

impl From<quorate::ProcedureVersion> for ProcedureVersion {
    fn from(known: quorate::ProcedureVersion) -> Self {
        let quorate::ProcedureVersion { name, version, stage, bytes, crc32, .. } = known;
        ProcedureVersion { name, version, stage: stage.name(), bytes, crc32 }
    }
}

#[pymethods]
impl ProcedureVersion {
    fn __repr__(&self) -> String {
        format!("<ProcedureVersion {} {}, {}>", self.name, self.version, self.stage)
    }
}

/// A keyspace of the cluster.
#[pyclass(frozen, get_all, module = "quorate")]
pub(crate) struct KeyspaceInfo {
    /// Its name.
    name: String,
    /// The promise to its transactions.
    isolation: String,
    /// The losses that its acknowledged writes survive.
    durability: String,
    /// Into how many shards its keys are divided.
    shards: usize,
    /// How many replicas each of them has.
    replicas: usize,
}

impl From<&Definition> for KeyspaceInfo {
    fn from(definition: &Definition) -> Self {
        KeyspaceInfo {
            name: definition.name.clone(),
            isolation: definition.isolation.to_string(),
            durability: definition.durability.to_string(),
            shards: definition.shards.len(),
            replicas: definition.shards.first().map_or(0, |shard| shard.replicas.len()),
        }
    }
}

#[pymethods]
impl KeyspaceInfo {
    fn __repr__(&self) -> String {
        format!("<KeyspaceInfo {}, {}>", self.name, self.isolation)
    }
}

/// A keyspace that was dropped, and can be brought back.
#[pyclass(frozen, get_all, module = "quorate")]
pub(crate) struct DroppedKeyspace {
    /// Its number, which tells it from others of its name.
    id: u32,
    /// Its name.
    name: String,
    /// For how many seconds after the drop it can be brought back.
    delete_after: f64,
}

impl From<Dropped> for DroppedKeyspace {
    fn from(dropped: Dropped) -> Self {
        DroppedKeyspace {
            id: dropped.id.0,
            name: dropped.name,
            delete_after: dropped.delete_after.as_secs_f64(),
        }
    }
}
