//! Change feeds, page by page.

use std::sync::{Arc, Mutex as Lock, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
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
    resolved: quorate::Position,
}

/// How far everything was told: a timestamp, or the text of a position that has a number for each site.
pub(crate) fn resolved(py: Python<'_>, position: &quorate::Position) -> PyResult<Py<PyAny>> {
    match position {
        quorate::Position::Timestamp(timestamp) => Ok(Py::new(py, Timestamp(*timestamp))?.into_any()),
        quorate::Position::Sites(numbers) => Ok(PyTuple::new(py, numbers)?.unbind().into_any()),
    }
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
    place: Lock<(String, quorate::Position)>,
}

impl Changes {
    pub(crate) fn object(py: Python<'_>, changes: quorate::Changes, context: Context) -> PyResult<Py<PyAny>> {
        let place = Lock::new((changes.cursor().to_string(), changes.resolved()));
        let following = Following { changes, given: 0, last: None };
        let handle = Handle::new(Arc::new(Mutex::new(following)), context);
        Ok(Py::new(py, Changes { handle, place })?.into_any())
    }

    fn place(&self) -> (String, quorate::Position) {
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
        let place = (page.cursor.clone(), page.all_resolved.clone());
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }

    #[getter]
    fn cursor(&self) -> String {
        self.place().0
    }

    #[getter]
    fn resolved(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        resolved(py, &self.place().1)
    }

    /// True if the transaction of this name was told, or came before all that is.
    fn has_passed(&self, timestamp: Timestamp) -> bool {
        self.place().1.has_passed(timestamp.0)
    }
}

/// The writes of one transaction at a shard.
#[pyclass(frozen, get_all, module = "quorate")]
pub(crate) struct Change {
    /// Names the transaction, at every shard that it has written to.
    timestamp: Timestamp,
    /// The keys with their values; `None` for a key that was deleted.
    writes: Py<PyList>,
    /// The sets and counters that were changed: their names, an element or `None` of a counter, and by how much.
    additions: Py<PyList>,
}

#[pymethods]
impl Change {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let additions = self.additions.bind(py);
        let added = if additions.is_empty() { String::new() } else { format!(" {}", additions.repr()?) };
        Ok(format!("<Change at {}: {}{added}>", self.timestamp.0, self.writes.bind(py).repr()?))
    }
}

/// The changes of a shard in a stretch of positions.
#[pyclass(frozen, module = "quorate")]
pub(crate) struct ChangePage {
    /// The shard; `None` of a keyspace whose sites all have everything.
    #[pyo3(get)]
    shard: Option<u32>,
    /// The changes, in the order in which they have committed.
    #[pyo3(get)]
    changes: Py<PyList>,
    /// No change of this shard below comes later.
    #[pyo3(get)]
    resolved: Py<PyAny>,
    /// A consumer that goes on from here gets everything that follows this page.
    #[pyo3(get)]
    cursor: String,
    /// No change of any shard below comes later.
    all_resolved: quorate::Position,
    /// The same as `resolved`.
    position: quorate::Position,
}

impl ChangePage {
    fn object(py: Python<'_>, given: &Given) -> PyResult<Py<PyAny>> {
        type Written = (Py<PyBytes>, Option<Py<PyBytes>>);
        type Added = (Py<PyBytes>, Option<Py<PyBytes>>, i64);
        let change = |change: &quorate::Change| -> PyResult<Py<Change>> {
            let write = |write: &quorate::Write| -> Written {
                (bytes(py, &write.key), optional(py, write.value.as_ref()))
            };
            let writes = PyList::new(py, change.writes.iter().map(write))?.unbind();
            let added = |added: &quorate::Addition| -> Added {
                let element = added.element.as_ref().map(|element| bytes(py, element));
                (bytes(py, &added.object), element, added.by)
            };
            let additions = PyList::new(py, change.additions.iter().map(added))?.unbind();
            Py::new(py, Change { timestamp: Timestamp(change.timestamp), writes, additions })
        };
        let Given { page, cursor, resolved: all_resolved } = given;
        let changes: Vec<Py<Change>> = page.changes.iter().map(change).collect::<PyResult<_>>()?;
        let page = ChangePage {
            shard: page.shard.map(|shard| shard.0),
            changes: PyList::new(py, changes)?.unbind(),
            resolved: resolved(py, &page.resolved)?,
            cursor: cursor.clone(),
            all_resolved: all_resolved.clone(),
            position: page.resolved.clone(),
        };
        Ok(Py::new(py, page)?.into_any())
    }
}

#[pymethods]
impl ChangePage {
    /// True if the transaction of this timestamp was told by this page and those before it, as far as it has written at this shard.
    fn has_passed(&self, timestamp: Timestamp) -> bool {
        self.position.has_passed(timestamp.0)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let shard = self.shard.map_or_else(|| "all sites".to_owned(), |shard| format!("shard {shard}"));
        let (count, resolved) = (self.changes.bind(py).len(), self.resolved.bind(py).str()?);
        Ok(format!("<ChangePage of {shard}: {count} changes, resolved {resolved}>"))
    }
}
