//! A keyspace: where transactions happen.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use quorate::{Call, Cursor, Error, Invalid, RangeSnapshot};

use crate::answers::{Answers, Applied, ProcedureVersion, Receipt, Snapshot, Timestamp, page, values};
use crate::attempts::Attempts;
use crate::batch::Batch;
use crate::changes::Changes;
use crate::commits::Earlier;
use crate::container::Container;
use crate::context::Context;
use crate::error;
use crate::handle::Handle;
use crate::indexes::{self, IndexInfo, IndexPage, Sought, Wanted};
use crate::transaction::Transaction;
use crate::values::{Keys, Named, Octets, Seconds, bytes, duration, optional, ttl};

/// A handle on one keyspace.
#[pyclass(frozen, module = "quorate._native")]
pub(crate) struct Keyspace(Handle<quorate::Keyspace>);

impl Keyspace {
    pub(crate) fn object(
        py: Python<'_>,
        keyspace: quorate::Keyspace,
        context: Context,
    ) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, Keyspace(Handle::new(keyspace, context)))?.into_any())
    }

    /// A page of an index, in a transaction of its own.
    fn find_wanted(
        &self,
        py: Python<'_>,
        index: String,
        wanted: Wanted,
        limit: u32,
        after: Option<Octets>,
    ) -> PyResult<Py<PyAny>> {
        let (keyspace, context) = self.cloned()?;
        let work = async move {
            let (index, wanted, after) = (&index, &wanted, &after);
            let find = |txn: quorate::Transaction| async move {
                wanted.clone().find(&txn, index, limit, after.clone()).await
            };
            keyspace.transact(find).await
        };
        context.run(py, work, |py, page| IndexPage::object(py, &page))
    }

    fn cloned(&self) -> PyResult<(quorate::Keyspace, &Context)> {
        let (keyspace, context) = self.0.get()?;
        Ok((keyspace.clone(), context))
    }
}

/// A page that is a transaction of its own.
fn own_page(py: Python<'_>, snapshot: &RangeSnapshot) -> PyResult<Py<PyAny>> {
    page(py, &snapshot.page, Some(snapshot.timestamp))
}

/// The place of a consumer, from the text that was kept.
fn cursor_of(py: Python<'_>, text: Option<String>) -> PyResult<Option<Cursor>> {
    let read = text.map(|text| text.parse::<Cursor>()).transpose();
    read.map_err(|error| error::exception(py, &Error::from(Invalid::from(error))))
}

/// A call with its places, its version and how its shards agree.
fn call_of(mut call: Call, more: &Named<'_, '_>) -> PyResult<Call> {
    call = call.keys(more.get::<Keys>("keys")?.unwrap_or_default().0);
    call = call.ranges(more.get::<Vec<(Octets, Octets)>>("ranges")?.unwrap_or_default());
    for (key, own) in more.get::<Vec<(Octets, Option<Octets>)>>("at")?.unwrap_or_default() {
        call = match own {
            Some(own) => call.at_with(key, own),
            None => call.at([key]),
        };
    }
    if let Some(version) = more.get("version")? {
        call = call.version(version);
    }
    if more.get("read_only")?.unwrap_or(false) {
        call = call.read_only();
    }
    if more.get("independent")?.unwrap_or(false) {
        call = call.independent();
    }
    Ok(call)
}

#[pymethods]
impl Keyspace {
    #[getter]
    fn name(&self) -> PyResult<String> {
        Ok(self.0.get()?.0.name().to_owned())
    }

    #[getter]
    fn isolation(&self) -> PyResult<String> {
        Ok(self.0.get()?.0.isolation().to_string())
    }

    #[getter]
    fn durability(&self) -> PyResult<String> {
        Ok(self.0.get()?.0.durability().to_string())
    }

    #[getter]
    fn shards(&self) -> PyResult<usize> {
        Ok(self.0.get()?.0.definition().shards.len())
    }

    /// True if all pages of a range can be read at one timestamp.
    #[getter]
    fn has_snapshots(&self) -> PyResult<bool> {
        let definition = self.0.get()?.0.definition();
        Ok(definition.isolation == quorate::Isolation::Strict && definition.comparison.is_none())
    }

    fn with_deadline(&self, py: Python<'_>, deadline: Seconds) -> PyResult<Py<PyAny>> {
        let (keyspace, context) = self.cloned()?;
        Keyspace::object(py, keyspace.with_deadline(deadline.0), context.clone())
    }

    fn get(&self, py: Python<'_>, key: Octets) -> PyResult<Py<PyAny>> {
        let (keyspace, context) = self.cloned()?;
        let work = async move { keyspace.get(key).await };
        context.run(py, work, |py, value| optional(py, value.as_ref()).into_py_any(py))
    }

    #[pyo3(signature = (key, value, ttl=None))]
    fn put(&self, py: Python<'_>, key: Octets, value: Octets, ttl: Option<Seconds>) -> PyResult<Py<PyAny>> {
        let (keyspace, context) = self.cloned()?;
        let (given, lifetime) = (context.clone(), duration(ttl));
        let put = move |txn: quorate::Transaction| {
            let written = match lifetime {
                Some(lifetime) => txn.put_for(&key, &value, lifetime),
                None => txn.put(&key, &value),
            };
            std::future::ready(written)
        };
        let work = async move { keyspace.transact_with_receipt(put).await };
        context.run(py, work, move |py, ((), receipt)| Receipt::object(py, receipt, given))
    }

    fn ttl(&self, py: Python<'_>, key: Octets) -> PyResult<Py<PyAny>> {
        let (keyspace, context) = self.cloned()?;
        let work = async move { keyspace.get_with_expiry(key).await };
        context.run(py, work, |py, held| ttl(held).into_py_any(py))
    }

    fn delete(&self, py: Python<'_>, key: Octets) -> PyResult<Py<PyAny>> {
        let (keyspace, context) = self.cloned()?;
        let given = context.clone();
        let work = async move { keyspace.transact_with_receipt(async |txn| txn.delete(&key)).await };
        context.run(py, work, move |py, ((), receipt)| Receipt::object(py, receipt, given))
    }

    fn read_only(&self, py: Python<'_>, keys: Keys) -> PyResult<Py<PyAny>> {
        let (keyspace, context) = self.cloned()?;
        context.run(py, async move { keyspace.read_only_with_snapshot(keys.0).await }, Snapshot::object)
    }

    fn read_at(&self, py: Python<'_>, timestamp: Timestamp, keys: Keys) -> PyResult<Py<PyAny>> {
        let (keyspace, context) = self.cloned()?;
        let work = async move { keyspace.read_at(timestamp.0, keys.0).await };
        context.run(py, work, |py, found| Ok(values(py, &found)?.into_any()))
    }

    fn read_stale(&self, py: Python<'_>, staleness: Seconds, keys: Keys) -> PyResult<Py<PyAny>> {
        let (keyspace, context) = self.cloned()?;
        context.run(py, async move { keyspace.read_stale(staleness.0, keys.0).await }, Snapshot::object)
    }

    fn read_now(&self, py: Python<'_>, keys: Keys) -> PyResult<Py<PyAny>> {
        let (keyspace, context) = self.cloned()?;
        context.run(py, async move { keyspace.read_now(keys.0).await }, Snapshot::object)
    }

    fn page(&self, py: Python<'_>, start: Octets, end: Octets, limit: u32) -> PyResult<Py<PyAny>> {
        let (keyspace, context) = self.cloned()?;
        let work = async move { keyspace.scan_with_snapshot(start, end, limit).await };
        context.run(py, work, |py, found| own_page(py, &found))
    }

    fn page_at(
        &self,
        py: Python<'_>,
        timestamp: Timestamp,
        start: Octets,
        end: Octets,
        limit: u32,
    ) -> PyResult<Py<PyAny>> {
        let (keyspace, context) = self.cloned()?;
        let work = async move { keyspace.scan_at(timestamp.0, start, end, limit).await };
        context.run(py, work, move |py, found| page(py, &found, Some(timestamp.0)))
    }

    fn page_stale(
        &self,
        py: Python<'_>,
        staleness: Seconds,
        start: Octets,
        end: Octets,
        limit: u32,
    ) -> PyResult<Py<PyAny>> {
        let (keyspace, context) = self.cloned()?;
        let work = async move { keyspace.scan_stale(staleness.0, start, end, limit).await };
        context.run(py, work, |py, found| own_page(py, &found))
    }

    fn page_now(&self, py: Python<'_>, start: Octets, end: Octets, limit: u32) -> PyResult<Py<PyAny>> {
        let (keyspace, context) = self.cloned()?;
        let work = async move { keyspace.scan_now(start, end, limit).await };
        context.run(py, work, |py, found| own_page(py, &found))
    }

    fn indexes(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (keyspace, context) = self.cloned()?;
        context.run(py, async move { keyspace.indexes().await }, |py, all| IndexInfo::list(py, &all))
    }

    fn create_index(
        &self,
        py: Python<'_>,
        name: String,
        on: &str,
        unique: bool,
        unparsable: &str,
    ) -> PyResult<Py<PyAny>> {
        let (keyspace, context) = self.cloned()?;
        let options = indexes::options(py, on, unique, unparsable)?;
        let work = async move { keyspace.create_index(&name, &options, |_| {}).await };
        context.run(py, work, |py, ()| Ok(py.None()))
    }

    fn drop_index(&self, py: Python<'_>, name: String) -> PyResult<Py<PyAny>> {
        let (keyspace, context) = self.cloned()?;
        let work = async move { keyspace.drop_index(&name, |_| {}).await };
        context.run(py, work, |py, ()| Ok(py.None()))
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

    fn sweep_markers(&self, py: Python<'_>, start: Octets, end: Octets) -> PyResult<Py<PyAny>> {
        let (keyspace, context) = self.cloned()?;
        let work = async move { keyspace.sweep_markers(start, end).await };
        context.run(py, work, |py, swept| {
            (swept.deleted, swept.next.map(|next| bytes(py, &next))).into_py_any(py)
        })
    }

    fn changes(&self, py: Python<'_>, cursor: Option<String>) -> PyResult<Py<PyAny>> {
        let (keyspace, context) = self.cloned()?;
        let (given, from) = (context.clone(), cursor_of(py, cursor)?);
        let work = async move { keyspace.changes(from.as_ref()).await };
        context.run(py, work, move |py, changes| Changes::object(py, changes, given))
    }

    fn watch(&self, py: Python<'_>, key: Octets, cursor: Option<String>) -> PyResult<Py<PyAny>> {
        let (keyspace, context) = self.cloned()?;
        let (given, from) = (context.clone(), cursor_of(py, cursor)?);
        let work = async move { keyspace.watch(key, from.as_ref()).await };
        context.run(py, work, move |py, changes| Changes::object(py, changes, given))
    }

    fn watch_prefix(&self, py: Python<'_>, prefix: Octets, cursor: Option<String>) -> PyResult<Py<PyAny>> {
        let (keyspace, context) = self.cloned()?;
        let (given, from) = (context.clone(), cursor_of(py, cursor)?);
        let work = async move { keyspace.watch_prefix(prefix, from.as_ref()).await };
        context.run(py, work, move |py, changes| Changes::object(py, changes, given))
    }

    fn begin(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (keyspace, context) = self.cloned()?;
        let given = context.clone();
        context.run_at_once(py, async move { keyspace.begin().await }, move |py, open| {
            Transaction::object(py, open, given)
        })
    }

    fn begin_after(&self, py: Python<'_>, earlier: Earlier) -> PyResult<Py<PyAny>> {
        let (keyspace, context) = self.cloned()?;
        let given = context.clone();
        context.run_at_once(py, async move { earlier.begin(&keyspace).await }, move |py, open| {
            Transaction::object(py, open, given)
        })
    }

    fn attempts(&self) -> PyResult<Attempts> {
        let (keyspace, context) = self.cloned()?;
        Ok(Attempts::start(keyspace, context.clone()))
    }

    fn apply(&self, py: Python<'_>, batch: &Batch) -> PyResult<Py<PyAny>> {
        let (keyspace, context) = self.cloned()?;
        let (batch, given) = (batch.copy(), context.clone());
        context.run(py, async move { keyspace.apply(batch).await }, move |py, applied| {
            Applied::object(py, applied, given)
        })
    }

    fn call(
        &self,
        py: Python<'_>,
        name: String,
        arguments: Octets,
        more: &Bound<'_, PyDict>,
    ) -> PyResult<Py<PyAny>> {
        let (keyspace, context) = self.cloned()?;
        let given = context.clone();
        let call = call_of(Call::new(name).arguments(arguments), &Named(more))?;
        context.run(py, async move { keyspace.call(call).await }, move |py, answers| {
            Answers::object(py, answers, given)
        })
    }

    fn deploy(
        &self,
        py: Python<'_>,
        name: String,
        code: Octets,
        version: Option<u32>,
    ) -> PyResult<Py<PyAny>> {
        let (keyspace, context) = self.cloned()?;
        let work = async move { keyspace.deploy(&name, version, &code.0).await };
        context.run(py, work, |py, deployed| ProcedureVersion::from(deployed).into_py_any(py))
    }

    fn procedures(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (keyspace, context) = self.cloned()?;
        context.run(py, async move { keyspace.procedures().await }, |py, known| {
            known.into_iter().map(ProcedureVersion::from).collect::<Vec<_>>().into_py_any(py)
        })
    }

    fn remove(&self, py: Python<'_>, name: String, version: u32) -> PyResult<Py<PyAny>> {
        let (keyspace, context) = self.cloned()?;
        context.run(py, async move { keyspace.remove(&name, version).await }, |py, ()| Ok(py.None()))
    }

    fn container(&self, tag: Octets) -> PyResult<Container> {
        let (keyspace, context) = self.cloned()?;
        Ok(Container::new(keyspace.container(tag), context.clone()))
    }
}
