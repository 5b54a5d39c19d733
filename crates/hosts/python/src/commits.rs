//! Commits that go on while the session does something else: pipelined ones, and those that are shown before they are final.

use std::sync::Arc;

use pyo3::prelude::*;
use quorate::{Error, Keyspace, Result, SpeculativeCommit, Token};
use tokio::sync::{RwLock, watch};

use crate::answers::{Receipt, Timestamp};
use crate::context::Context;
use crate::error;
use crate::handle::Handle;

/// A commit that was asked for, and is not waited for.
#[pyclass(frozen, module = "quorate")]
pub(crate) struct Committing {
    /// None inside once its end is waited for.
    handle: Handle<Arc<RwLock<Option<quorate::Committing>>>>,
    token: Token,
}

impl Committing {
    pub(crate) fn object(
        py: Python<'_>,
        committing: quorate::Committing,
        context: Context,
    ) -> PyResult<Py<PyAny>> {
        let token = committing.token();
        let handle = Handle::new(Arc::new(RwLock::new(Some(committing))), context);
        Ok(Py::new(py, Committing { handle, token })?.into_any())
    }
}

#[pymethods]
impl Committing {
    /// The name of the transaction.
    #[getter]
    fn token(&self) -> String {
        self.token.to_string()
    }

    /// Waits for the end of the transaction. Can be asked for once.
    fn receipt(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (committing, context) = self.handle.get()?;
        let (committing, given) = (Arc::clone(committing), context.clone());
        let work = async move {
            let taken = committing.write().await.take();
            match taken {
                Some(committing) => committing.receipt().await.map(Some),
                None => Ok(None),
            }
        };
        context.run(py, work, move |py, receipt| match receipt {
            Some(receipt) => Receipt::object(py, receipt, given),
            None => Err(error::taken("the receipt")),
        })
    }
}

/// The end of a transaction that was shown; none until it is there.
type Ended = Option<Arc<Result<quorate::Receipt>>>;

/// Tells the end of a transaction that was shown.
pub(crate) type EndSender = watch::Sender<Ended>;

/// A commit that may have been shown before it was final.
#[pyclass(frozen, module = "quorate")]
pub(crate) struct Speculated(Handle<Spoken>);

struct Spoken {
    end: watch::Receiver<Ended>,
    /// None if it was final at once.
    shown: Option<SpeculativeCommit>,
    token: Token,
}

impl Speculated {
    pub(crate) fn object(
        py: Python<'_>,
        speculated: quorate::Speculated,
        end: watch::Receiver<Ended>,
        context: Context,
    ) -> PyResult<Py<PyAny>> {
        let (shown, token) = match speculated {
            quorate::Speculated::Shown(commit) => {
                let token = commit.token();
                (Some(commit), token)
            }
            quorate::Speculated::Final(receipt) => (None, receipt.token),
        };
        let handle = Handle::new(Spoken { end, shown, token }, context);
        Ok(Py::new(py, Speculated(handle))?.into_any())
    }

    fn shown(&self) -> PyResult<Option<&SpeculativeCommit>> {
        Ok(self.0.get()?.0.shown.as_ref())
    }
}

#[pymethods]
impl Speculated {
    /// True if it may be shown, and was not final when the call returned; false if it was.
    #[getter]
    fn is_shown(&self) -> PyResult<bool> {
        Ok(self.shown()?.is_some())
    }

    /// The name of the transaction.
    #[getter]
    fn token(&self) -> PyResult<String> {
        Ok(self.0.get()?.0.token.to_string())
    }

    /// The timestamp with which it has committed at its node; `None` if it was final at once.
    #[getter]
    fn local_timestamp(&self) -> PyResult<Option<Timestamp>> {
        Ok(self.shown()?.map(|shown| Timestamp(shown.local_timestamp())))
    }

    /// So many transactions of the session were not settled, up to this one.
    #[getter]
    fn chain(&self) -> PyResult<u8> {
        Ok(self.shown()?.map_or(0, SpeculativeCommit::chain))
    }

    /// Waits until the transaction is final, and gives its receipt. May be asked again.
    fn receipt(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (Spoken { end, token, .. }, context) = self.0.get()?;
        let (mut end, token, given) = (end.clone(), token.clone(), context.clone());
        let work = async move {
            let ended = end.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone());
            // Nobody tells the end any more.
            ended.ok_or(Error::Unknown { token })
        };
        context.run(py, work, move |py, ended| match &*ended {
            Ok(receipt) => Receipt::object(py, receipt.clone(), given),
            Err(failure) => Err(error::exception(py, failure)),
        })
    }
}

/// A commit that another transaction may come after.
pub(crate) enum Earlier {
    Committing(Arc<RwLock<Option<quorate::Committing>>>),
    Speculated(Option<SpeculativeCommit>),
}

impl<'py> FromPyObject<'_, 'py> for Earlier {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(speculated) = object.cast::<Speculated>() {
            return Ok(Earlier::Speculated(speculated.get().shown()?.cloned()));
        }
        let committing = object.cast::<Committing>()?;
        Ok(Earlier::Committing(Arc::clone(committing.get().handle.get()?.0)))
    }
}

impl Earlier {
    /// Begins a transaction after it. One that has ended is a part of the session, as all transactions of it.
    pub(crate) async fn begin(self, keyspace: &Keyspace) -> Result<quorate::Transaction> {
        match self {
            Earlier::Speculated(Some(commit)) => keyspace.begin_after(&commit).await,
            Earlier::Committing(committing) => match &*committing.read().await {
                Some(committing) => keyspace.begin_after(committing).await,
                None => keyspace.begin().await,
            },
            Earlier::Speculated(None) => keyspace.begin().await,
        }
    }
}
