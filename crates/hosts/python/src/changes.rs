//! Change feeds, page by page.

use std::sync::{Arc, Mutex as Lock, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use tokio::sync::Mutex;

use crate::answers::Timestamp;
use crate::context::Context;
use crate::handle::Handle;
use crate::values::{bytes, optional};

/// A page, and how far the consumer has come with it.
#[derive(Clone)]
struct Given {
    page: quorate::ChangePage,
    cursor: String,
    resolved: quorate::Timestamp,
}

/// A feed whose pages are given again until they were taken.
struct Following {
    changes: quorate::Changes,
    /// How many pages were given, and the last of them.
    given: u64,
    last: Option<Given>,
}

impl Following {
    /// The page after so many that were taken. A call that was given up may have had a page that nobody has seen.
    async fn after(&mut self, taken: u64) -> quorate::Result<Given> {
        if let Some(last) = self.last.as_ref().filter(|_| self.given > taken) {
            return Ok(last.clone());
        }
        let page = self.changes.next().await?;
        let (cursor, resolved) = (self.changes.cursor().to_string(), self.changes.resolved());
        let given = Given { page, cursor, resolved };
        self.given += 1;
        self.last = Some(given.clone());
        Ok(given)
    }
}

/// A change feed. Its iterators are written in Python.
#[pyclass(frozen, module = "quorate._native")]
pub(crate) struct Changes {
    handle: Handle<Arc<Mutex<Following>>>,
    /// Behind the pages that were taken.
    place: Lock<(String, quorate::Timestamp)>,
}

impl Changes {
    pub(crate) fn object(py: Python<'_>, changes: quorate::Changes, context: Context) -> PyResult<Py<PyAny>> {
        let place = Lock::new((changes.cursor().to_string(), changes.resolved()));
        let following = Following { changes, given: 0, last: None };
        let handle = Handle::new(Arc::new(Mutex::new(following)), context);
        Ok(Py::new(py, Changes { handle, place })?.into_any())
    }

    fn place(&self) -> (String, quorate::Timestamp) {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[pymethods]
impl Changes {
    /// The next page, after so many that were taken.
    fn next(&self, py: Python<'_>, taken: u64) -> PyResult<Py<PyAny>> {
        let (following, context) = self.handle.get()?;
        let following = Arc::clone(following);
        let work = async move { following.lock().await.after(taken).await };
        context.run(py, work, |py, given| ChangePage::object(py, &given))
    }

    /// A page was taken.
    fn take(&self, page: &ChangePage) {
        let place = (page.cursor.clone(), page.all_resolved);
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }

    #[getter]
    fn cursor(&self) -> String {
        self.place().0
    }

    #[getter]
    fn resolved(&self) -> Timestamp {
        Timestamp(self.place().1)
    }
}

/// The writes of one transaction at a shard.
#[pyclass(frozen, get_all, module = "quorate")]
pub(crate) struct Change {
    /// Names the transaction, at every shard that it has written to.
    timestamp: Timestamp,
    /// The keys with their values; `None` for a key that was deleted.
    writes: Py<PyList>,
}

#[pymethods]
impl Change {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<Change at {}: {}>", self.timestamp.0, self.writes.bind(py).repr()?))
    }
}

/// The changes of a shard in a stretch of positions.
#[pyclass(frozen, module = "quorate")]
pub(crate) struct ChangePage {
    /// The shard.
    #[pyo3(get)]
    shard: u32,
    /// The changes, in the order in which they have committed.
    #[pyo3(get)]
    changes: Py<PyList>,
    /// No change of this shard below comes later.
    #[pyo3(get)]
    resolved: Timestamp,
    /// A consumer that goes on from here gets everything that follows this page.
    #[pyo3(get)]
    cursor: String,
    /// No change of any shard below comes later.
    all_resolved: quorate::Timestamp,
}

impl ChangePage {
    fn object(py: Python<'_>, given: &Given) -> PyResult<Py<PyAny>> {
        type Written = (Py<PyBytes>, Option<Py<PyBytes>>);
        let change = |change: &quorate::Change| -> PyResult<Py<Change>> {
            let write = |write: &quorate::Write| -> Written {
                (bytes(py, &write.key), optional(py, write.value.as_ref()))
            };
            let writes = PyList::new(py, change.writes.iter().map(write))?.unbind();
            Py::new(py, Change { timestamp: Timestamp(change.timestamp), writes })
        };
        let Given { page, cursor, resolved } = given;
        let changes: Vec<Py<Change>> = page.changes.iter().map(change).collect::<PyResult<_>>()?;
        let page = ChangePage {
            shard: page.shard.0,
            changes: PyList::new(py, changes)?.unbind(),
            resolved: Timestamp(page.resolved),
            cursor: cursor.clone(),
            all_resolved: *resolved,
        };
        Ok(Py::new(py, page)?.into_any())
    }
}

#[pymethods]
impl ChangePage {
    fn __repr__(&self, py: Python<'_>) -> String {
        let (shard, count) = (self.shard, self.changes.bind(py).len());
        format!("<ChangePage of shard {shard}: {count} changes, resolved {}>", self.resolved.0)
    }
}
