//! One attempt at one transaction.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyList;
use quorate::{Invalid, Result, Token};
use tokio::sync::{RwLock, watch};

use crate::answers::{Info, Marked, Member, Receipt, page, values};
use crate::commits::{Committing, EndSender, Speculated};
use crate::context::Context;
use crate::error;
use crate::handle::Handle;
use crate::indexes::{IndexPage, Sought, Wanted};
use crate::values::{Keys, Octets, Seconds, bytes, duration, optional, ttl};

/// An open transaction. Reads go on beside each other; a commit waits for them.
type Open = Arc<RwLock<quorate::Transaction>>;

/// A transaction. Dropping it aborts it.
#[pyclass(frozen, module = "quorate._native")]
pub(crate) struct Transaction {
    handle: Handle<Open>,
    /// Its name as it was when it was asked to commit; none before.
    asked: Mutex<Option<Token>>,
}

impl Transaction {
    pub(crate) fn object(
        py: Python<'_>,
        transaction: quorate::Transaction,
        context: Context,
    ) -> PyResult<Py<PyAny>> {
        let handle = Handle::new(Arc::new(RwLock::new(transaction)), context);
        Ok(Py::new(py, Transaction { handle, asked: Mutex::default() })?.into_any())
    }

    fn get_open(&self) -> PyResult<(Open, &Context)> {
        let (open, context) = self.handle.get()?;
        Ok((Arc::clone(open), context))
    }

    /// Does something at once that asks nobody.
    fn now<T>(&self, py: Python<'_>, act: impl FnOnce(&quorate::Transaction) -> Result<T>) -> PyResult<T> {
        let (open, _) = self.handle.get()?;
        let done = match open.try_read() {
            Ok(transaction) => act(&transaction),
            // It is being committed or aborted.
            Err(_) => Err(Invalid::TransactionOver.into()),
        };
        done.map_err(|failure| error::exception(py, &failure))
    }

    fn find_wanted(
        &self,
        py: Python<'_>,
        index: String,
        wanted: Wanted,
        limit: u32,
        after: Option<Octets>,
    ) -> PyResult<Py<PyAny>> {
        let (open, context) = self.get_open()?;
        let work = async move {
            let open = open.read().await;
            wanted.find(&open, &index, limit, after).await
        };
        context.run(py, work, |py, page| IndexPage::object(py, &page))
    }

    /// Notes its name, by which its outcome can be asked for should the answer to the commit not be waited for.
    fn note_token(&self) -> PyResult<()> {
        let (open, _) = self.handle.get()?;
        if let Ok(transaction) = open.try_read() {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.get_or_insert_with(|| transaction.token());
        }
        Ok(())
    }
}

#[pymethods]
impl Transaction {
    /// The name of this attempt, as far as it has come.
    #[getter]
    fn token(&self) -> PyResult<String> {
        let noted = self.asked.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(Token::to_string);
        match noted {
            Some(token) => Ok(token),
            None => {
                let (open, _) = self.handle.get()?;
                // It has been noted before anything writes to it.
                open.try_read().map(|open| open.token().to_string()).map_err(|_| error::taken("the commit"))
            }
        }
    }

    fn get(&self, py: Python<'_>, key: Octets) -> PyResult<Py<PyAny>> {
        let (open, context) = self.get_open()?;
        let work = async move { open.read().await.get(key).await };
        context.run(py, work, |py, value| optional(py, value.as_ref()).into_py_any(py))
    }

    fn get_marked(&self, py: Python<'_>, key: Octets) -> PyResult<Py<PyAny>> {
        let (open, context) = self.get_open()?;
        let work = async move { open.read().await.get_marked(key).await };
        context.run(py, work, |py, marked| Marked::object(py, &marked))
    }

    fn get_many(&self, py: Python<'_>, keys: Keys) -> PyResult<Py<PyAny>> {
        let (open, context) = self.get_open()?;
        let work = async move { open.read().await.get_many(keys.0).await };
        context.run(py, work, |py, found| Ok(values(py, &found)?.into_any()))
    }

    fn find(
        &self,
        py: Python<'_>,
        index: String,
        value: Sought,
        limit: u32,
        after: Option<Octets>,
    ) -> PyResult<Py<PyAny>> {
        self.find_wanted(py, index, Wanted::Equal(value.0), limit, after)
    }

    fn find_range(
        &self,
        py: Python<'_>,
        index: String,
        start: Option<Sought>,
        end: Option<Sought>,
        limit: u32,
        after: Option<Octets>,
    ) -> PyResult<Py<PyAny>> {
        self.find_wanted(py, index, Wanted::between(start, end), limit, after)
    }

    fn page(&self, py: Python<'_>, start: Octets, end: Octets, limit: u32) -> PyResult<Py<PyAny>> {
        let (open, context) = self.get_open()?;
        let work = async move { open.read().await.scan(start, end, limit).await };
        context.run(py, work, |py, found| page(py, &found, None))
    }

    #[pyo3(signature = (key, value, ttl=None))]
    fn put(&self, py: Python<'_>, key: Octets, value: Octets, ttl: Option<Seconds>) -> PyResult<()> {
        self.now(py, |open| match duration(ttl) {
            Some(lifetime) => open.put_for(key, value, lifetime),
            None => open.put(key, value),
        })
    }

    fn ttl(&self, py: Python<'_>, key: Octets) -> PyResult<Py<PyAny>> {
        let (open, context) = self.get_open()?;
        let work = async move { open.read().await.get_with_expiry(key).await };
        context.run(py, work, |py, held| ttl(held).into_py_any(py))
    }

    fn delete(&self, py: Python<'_>, key: Octets) -> PyResult<()> {
        self.now(py, |open| open.delete(key))
    }

    fn set_add(&self, py: Python<'_>, set: Octets, element: Octets) -> PyResult<()> {
        self.now(py, |open| open.set_add(set, element))
    }

    fn set_remove(&self, py: Python<'_>, set: Octets, element: Octets) -> PyResult<()> {
        self.now(py, |open| open.set_remove(set, element))
    }

    fn set_count(&self, py: Python<'_>, set: Octets, element: Octets) -> PyResult<Py<PyAny>> {
        let (open, context) = self.get_open()?;
        let work = async move { open.read().await.set_count(set, element).await };
        context.run(py, work, |py, count| count.into_py_any(py))
    }

    fn set_contains(&self, py: Python<'_>, set: Octets, element: Octets) -> PyResult<Py<PyAny>> {
        let (open, context) = self.get_open()?;
        let work = async move { open.read().await.set_contains(set, element).await };
        context.run(py, work, |py, is_in| is_in.into_py_any(py))
    }

    fn set_insert(&self, py: Python<'_>, set: Octets, element: Octets) -> PyResult<Py<PyAny>> {
        let (open, context) = self.get_open()?;
        let work = async move { open.read().await.set_insert(set, element).await };
        context.run(py, work, |py, is_new| is_new.into_py_any(py))
    }

    fn set_discard(&self, py: Python<'_>, set: Octets, element: Octets) -> PyResult<Py<PyAny>> {
        let (open, context) = self.get_open()?;
        let work = async move { open.read().await.set_discard(set, element).await };
        context.run(py, work, |py, was_in| was_in.into_py_any(py))
    }

    /// Up to `limit` elements of a counting set from `start` (included) to `end` (excluded), with their counts.
    fn elements(
        &self,
        py: Python<'_>,
        set: Octets,
        start: Octets,
        end: Octets,
        limit: usize,
        from_greatest: bool,
    ) -> PyResult<Py<PyAny>> {
        let (open, context) = self.get_open()?;
        let work = async move {
            let open = open.read().await;
            let elements = open.set_iter(set).between(start, end).limit(limit);
            if from_greatest { elements.from_greatest() } else { elements }.collect().await
        };
        context.run(py, work, |py, elements| {
            let elements = elements.iter().map(|(element, count)| (bytes(py, element), *count));
            Ok(PyList::new(py, elements)?.into_any().unbind())
        })
    }

    /// The same with the values of the keys that the elements are.
    fn members(
        &self,
        py: Python<'_>,
        set: Octets,
        start: Octets,
        end: Octets,
        limit: usize,
        from_greatest: bool,
    ) -> PyResult<Py<PyAny>> {
        let (open, context) = self.get_open()?;
        let work = async move {
            let open = open.read().await;
            let members = open.get_members(set).between(start, end).limit(limit);
            if from_greatest { members.from_greatest() } else { members }.collect().await
        };
        context.run(py, work, |py, members| {
            Ok(PyList::new(py, members.iter().map(|member| Member::new(py, member)))?.into_any().unbind())
        })
    }

    fn counter_add(&self, py: Python<'_>, counter: Octets, by: i32) -> PyResult<()> {
        self.now(py, |open| open.counter_add(counter, by))
    }

    fn counter_get(&self, py: Python<'_>, counter: Octets) -> PyResult<Py<PyAny>> {
        let (open, context) = self.get_open()?;
        let work = async move { open.read().await.counter_get(counter).await };
        context.run(py, work, |py, value| value.into_py_any(py))
    }

    fn set_kind(&self, py: Python<'_>, kind: String) -> PyResult<()> {
        self.now(py, |open| open.set_kind(kind))
    }

    fn info(&self, py: Python<'_>) -> PyResult<Info> {
        self.now(py, |open| Ok(Info::from(open.info())))
    }

    fn commit(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.note_token()?;
        let (open, context) = self.get_open()?;
        let given = context.clone();
        let work = async move { open.write().await.commit().await };
        context.run(py, work, move |py, receipt| Receipt::object(py, receipt, given))
    }

    fn abort(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.note_token()?;
        let (open, context) = self.get_open()?;
        context.run(py, async move { open.write().await.abort().await }, |py, ()| Ok(py.None()))
    }

    /// Aborts it, and waits for nothing.
    fn abandon(&self) -> PyResult<()> {
        let (open, context) = self.get_open()?;
        context.begin(async move {
            // If it is over, there is nothing to abort.
            let _ = open.write().await.abort().await;
        });
        Ok(())
    }

    fn commit_soon(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.note_token()?;
        let (open, context) = self.get_open()?;
        let given = context.clone();
        let work = async move { open.write().await.commit_soon().await };
        context.run(py, work, move |py, committing| Committing::object(py, committing, given))
    }

    fn commit_speculatively(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.note_token()?;
        let (open, context) = self.get_open()?;
        let given = context.clone();
        let (sender, end) = watch::channel(None);
        let tell = move |ended, sender: EndSender| drop(sender.send(Some(Arc::new(ended))));
        let work = async move {
            let mut open = open.write().await;
            open.commit_speculatively(|_| true, |_| {}, move |ended| tell(ended, sender)).await
        };
        context.run(py, work, move |py, speculated| Speculated::object(py, speculated, end, given))
    }
}
