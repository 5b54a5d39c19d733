//! A database: a connection to a cluster.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use quorate::topology::{Speculation, SpeculationVariant, Timestamping};
use quorate::{
    Certificates, Credential, DropOptions, Invalid, Isolation, KeyspaceOptions, Options, Outcome, Result,
    Retention, Token, UndropOptions, wan,
};

use crate::answers::{DroppedKeyspace, KeyspaceInfo, Timestamp};
use crate::context::Context;
use crate::error;
use crate::handle::Handle;
use crate::keyspace::Keyspace;
use crate::operations::Operations;
use crate::values::{Named, Seconds, duration};

/// A connection to a cluster, with a thread of its own.
#[pyclass(frozen, module = "quorate._native")]
pub(crate) struct Database(Handle<quorate::Database>);

/// One address, or several with commas between them, or a list of them.
pub(crate) struct Addresses(quorate::Addresses);

impl<'py> FromPyObject<'_, 'py> for Addresses {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = object.extract::<String>() {
            return Ok(Addresses(text.into()));
        }
        let list = object.extract::<Vec<String>>();
        list.map(|list| Addresses(list.into())).map_err(|_| {
            PyTypeError::new_err("addresses are text, with commas between several, or a list of texts")
        })
    }
}

/// The options of a connection.
fn options(py: Python<'_>, chosen: &Named<'_, '_>) -> PyResult<Options> {
    let usual = Options::default();
    let time = |name| chosen.get(name).map(duration);
    let delays = chosen.get::<String>("delays")?.as_deref().map(wan::Matrix::load).transpose();
    let file = |name| chosen.get::<PathBuf>(name);
    let certificates = match (file("ca")?, file("certificate")?, file("key")?) {
        (None, None, None) => None,
        (Some(ca), Some(certificate), Some(key)) => {
            let loaded = Certificates::load(ca, certificate, key);
            Some(loaded.map_err(|failed| error::invalid(py, failed.to_string()))?)
        }
        _ => {
            let advice = "a secured connection takes all of ca, certificate and key";
            return Err(error::invalid(py, advice.to_owned()));
        }
    };
    let text = |name| chosen.get::<String>(name);
    let credential = match (text("user")?, text("password")?, text("token")?) {
        (None, None, None) => None,
        (Some(user), Some(password), None) => Some(Credential::password(user, password)),
        (None, None, Some(token)) => Some(Credential::token(token)),
        _ => {
            let advice = "a user logs in with user and password, or with token alone";
            return Err(error::invalid(py, advice.to_owned()));
        }
    };
    Ok(Options {
        certificates,
        credential,
        site: chosen.get("site")?,
        connect_timeout: time("connect_timeout")?.unwrap_or(usual.connect_timeout),
        deadline: time("deadline")?.unwrap_or(usual.deadline),
        open_transactions_max: chosen.get("open_transactions_max")?.unwrap_or(usual.open_transactions_max),
        commits_in_flight_max: chosen.get("commits_in_flight_max")?.unwrap_or(usual.commits_in_flight_max),
        outcome_retention: time("outcome_retention")?.unwrap_or(usual.outcome_retention),
        delays: delays.map_err(|failed| error::invalid(py, failed.to_string()))?,
        ..usual
    })
}

/// Connects to the cluster that any of these addresses belongs to. With operations, answers are for their event loop.
#[pyfunction]
pub(crate) fn connect(
    py: Python<'_>,
    addresses: Addresses,
    chosen: &Bound<'_, PyDict>,
    operations: Option<Py<Operations>>,
) -> PyResult<Py<PyAny>> {
    let options = options(py, &Named(chosen))?;
    let context = Context::start(operations)?;
    let given = context.clone();
    context.run(py, quorate::connect_with(addresses.0, options), move |py, database| {
        Ok(Py::new(py, Database(Handle::new(database, given)))?.into_any())
    })
}

/// A choice that is told by its name.
fn named<T: FromStr<Err: std::fmt::Display>>(
    py: Python<'_>,
    wanted: &Named<'_, '_>,
    name: &str,
) -> PyResult<Option<T>> {
    let told: Option<String> = wanted.get(name)?;
    let read = told.as_deref().map(str::parse).transpose();
    read.map_err(|unknown: T::Err| error::invalid(py, unknown.to_string()))
}

/// The options of a new keyspace.
fn keyspace_options(py: Python<'_>, wanted: &Named<'_, '_>) -> PyResult<KeyspaceOptions> {
    let usual = KeyspaceOptions::new(named(py, wanted, "isolation")?.unwrap_or(Isolation::Strict));
    Ok(KeyspaceOptions {
        durability: named(py, wanted, "durability")?.unwrap_or(usual.durability),
        speculation: speculation(py, wanted)?,
        timestamping: timestamping(py, wanted)?,
        shards: wanted.get("shards")?.unwrap_or(usual.shards),
        replicas: wanted.get("replicas")?,
        sites: wanted.get("sites")?.unwrap_or_default(),
        clock_bound: duration(wanted.get("clock_bound")?),
        application: wanted.get("application")?,
        retention: retention(wanted)?,
        expiring: wanted.get("expiring")?.unwrap_or_default(),
        ..usual
    })
}

/// How its transactions speculate; none if nothing was said of it.
fn speculation(py: Python<'_>, wanted: &Named<'_, '_>) -> PyResult<Option<Speculation>> {
    let variant: Option<SpeculationVariant> = named(py, wanted, "variant")?;
    let (orders_sessions, tuner): (Option<bool>, Option<bool>) =
        (wanted.get("orders_sessions")?, wanted.get("tuner")?);
    let chain_max: Option<u8> = wanted.get("chain")?;
    let (decisions, grants) = (named(py, wanted, "decisions")?, named(py, wanted, "grants")?);
    let is_told = variant.is_some()
        || orders_sessions.is_some()
        || chain_max.is_some()
        || tuner.is_some()
        || decisions.is_some()
        || grants.is_some();
    Ok(is_told.then(|| Speculation {
        variant: variant.unwrap_or_default(),
        orders_sessions: orders_sessions.unwrap_or_default(),
        chain_max,
        untuned: tuner == Some(false),
        decisions: decisions.unwrap_or_default(),
        grants: grants.unwrap_or_default(),
    }))
}

/// How much is retained for consumers of changes; none if nothing was said of it.
fn retention(wanted: &Named<'_, '_>) -> PyResult<Option<Retention>> {
    let (time, bytes): (Option<Duration>, Option<u64>) =
        (duration(wanted.get("retain")?), wanted.get("retain_bytes")?);
    let usual = Retention::default();
    Ok((time.is_some() || bytes.is_some())
        .then(|| Retention { time: time.unwrap_or(usual.time), bytes: bytes.unwrap_or(usual.bytes) }))
}

/// How its timestamps are chosen; none if nothing was said of it.
fn timestamping(py: Python<'_>, wanted: &Named<'_, '_>) -> PyResult<Option<Timestamping>> {
    let (order, retry_ahead) = (named(py, wanted, "order")?, duration(wanted.get("retry_ahead")?));
    let is_told = order.is_some() || retry_ahead.is_some();
    Ok(is_told.then(|| Timestamping {
        order: order.unwrap_or_default(),
        retry_ahead: retry_ahead.unwrap_or_default(),
    }))
}

/// Creates a keyspace, or finds one that is as asked for, if that will do.
async fn create(
    database: &quorate::Database,
    name: &str,
    options: KeyspaceOptions,
    if_absent: bool,
    patience: Option<Duration>,
) -> Result<quorate::Keyspace> {
    if !if_absent {
        return database.create_keyspace_with(name, options, patience, |_| {}).await;
    }
    let ensured = database.create_keyspace_if_absent_with(name, options, patience, |_| {}).await?;
    Ok(ensured.keyspace)
}

#[pymethods]
impl Database {
    fn keyspace(&self, py: Python<'_>, name: String) -> PyResult<Py<PyAny>> {
        let (database, context) = self.0.get()?;
        let (database, given) = (database.clone(), context.clone());
        context.run(py, async move { database.keyspace(&name).await }, move |py, keyspace| {
            Keyspace::object(py, keyspace, given)
        })
    }

    fn create_keyspace(
        &self,
        py: Python<'_>,
        name: String,
        wanted: &Bound<'_, PyDict>,
        if_absent: bool,
        patience: Option<Seconds>,
    ) -> PyResult<Py<PyAny>> {
        let (database, context) = self.0.get()?;
        let (database, given, options) =
            (database.clone(), context.clone(), keyspace_options(py, &Named(wanted))?);
        let work = async move { create(&database, &name, options, if_absent, duration(patience)).await };
        context.run(py, work, move |py, keyspace| Keyspace::object(py, keyspace, given))
    }

    fn list(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (database, context) = self.0.get()?;
        let database = database.clone();
        context.run(py, async move { database.list().await }, |py, definitions| {
            definitions.iter().map(KeyspaceInfo::from).collect::<Vec<_>>().into_py_any(py)
        })
    }

    fn drop_keyspace(
        &self,
        py: Python<'_>,
        name: String,
        delete_after: Option<Seconds>,
    ) -> PyResult<Py<PyAny>> {
        let (database, context) = self.0.get()?;
        let database = database.clone();
        let usual = DropOptions::default();
        let options = DropOptions { delete_after: duration(delete_after).unwrap_or(usual.delete_after) };
        let work = async move { database.drop_keyspace_with(&name, options).await };
        context.run(py, work, |py, ()| Ok(py.None()))
    }

    fn undrop_keyspace(
        &self,
        py: Python<'_>,
        name: String,
        rename: Option<String>,
        id: Option<u32>,
    ) -> PyResult<Py<PyAny>> {
        let (database, context) = self.0.get()?;
        let database = database.clone();
        let work = async move { database.undrop_keyspace(&name, &UndropOptions { id, rename }).await };
        context.run(py, work, |py, _| Ok(py.None()))
    }

    fn dropped_keyspaces(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (database, context) = self.0.get()?;
        let database = database.clone();
        context.run(py, async move { database.dropped_keyspaces().await }, |py, dropped| {
            dropped.into_iter().map(DroppedKeyspace::from).collect::<Vec<_>>().into_py_any(py)
        })
    }

    /// The timestamp at which a transaction has committed; `None` if it did not and will not.
    fn outcome(&self, py: Python<'_>, token: &str) -> PyResult<Py<PyAny>> {
        let (database, context) = self.0.get()?;
        let database = database.clone();
        let token: Token =
            token.parse().map_err(|invalid| error::exception(py, &Invalid::Token(invalid).into()))?;
        context.run(py, async move { database.outcome(&token).await }, |py, outcome| match outcome {
            Outcome::Committed(timestamp) => Timestamp(timestamp).into_py_any(py),
            Outcome::Aborted => Ok(py.None()),
        })
    }

    fn seen(&self) -> PyResult<String> {
        Ok(self.0.get()?.0.seen().to_string())
    }

    fn observe(&self, py: Python<'_>, seen: &str) -> PyResult<Py<PyAny>> {
        let (database, context) = self.0.get()?;
        let database = database.clone();
        let seen = seen.parse().map_err(|invalid| error::exception(py, &Invalid::Seen(invalid).into()))?;
        context.run(py, async move { database.observe(&seen).await }, |py, ()| Ok(py.None()))
    }

    fn sites(&self) -> PyResult<Vec<String>> {
        Ok(self.0.get()?.0.topology().sites.clone())
    }

    /// Waits until the replicas have been told every outcome, for a second at most, and ends the thread.
    fn close(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (database, context) = self.0.get()?;
        let (database, ended) = (database.clone(), context.clone());
        let work = async move {
            database.close().await;
            Ok(())
        };
        context.run(py, work, move |py, ()| {
            ended.stop(py)?;
            Ok(py.None())
        })
    }
}
