//! The attempts at a transaction that a function of the program runs.
//!
//! ```text
//!   program                       thread "quorate": Keyspace::transact_with_receipt
//!     begin ───────────────────►    an attempt is open
//!     the function reads, writes
//!     commit, or give_up ──────►    commits, settles, pauses: the next attempt, or the end
//! ```
//!
//! So whether and when a transaction is run again is decided where it is for programs in Rust.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use quorate::{Error, Result};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::answers::Receipt;
use crate::context::Context;
use crate::error;
use crate::handle::Handle;
use crate::transaction::Transaction;

/// News of a transaction. No more than one attempt, and the end, are told before the program takes them.
#[derive(Debug)]
enum Event {
    /// An attempt is open, and waits for the end of the function here.
    Attempt(quorate::Transaction, oneshot::Sender<Result<()>>),
    /// There are no further attempts.
    Ended(Result<quorate::Receipt>),
}

/// How far a transaction has come.
#[derive(Debug)]
struct Progress {
    events: tokio::sync::Mutex<UnboundedReceiver<Event>>,
    /// Tells the end of the function to the attempt that is open.
    verdict: Mutex<Option<oneshot::Sender<Result<()>>>>,
    receipt: Mutex<Option<quorate::Receipt>>,
}

/// The attempts at a transaction. If this is dropped, the attempt that is open is aborted.
#[pyclass(frozen, module = "quorate._native")]
pub(crate) struct Attempts(Handle<Arc<Progress>>);

impl Attempts {
    /// Begins a transaction.
    pub(crate) fn start(keyspace: quorate::Keyspace, context: Context) -> Self {
        let (sender, events) = unbounded_channel();
        // As a rule the first attempt is open when this returns.
        context.begin(run(keyspace, sender));
        let events = tokio::sync::Mutex::new(events);
        let progress = Progress { events, verdict: Mutex::default(), receipt: Mutex::default() };
        Attempts(Handle::new(Arc::new(progress), context))
    }

    /// Waits for the next attempt, and gives its transaction; `None` if there is none.
    ///
    /// # Errors
    /// That of the transaction, except where `is_own` says that the function has raised it, and knows more of it.
    fn next(
        &self,
        py: Python<'_>,
        is_own: impl FnOnce(&Error) -> bool + Send + 'static,
    ) -> PyResult<Py<PyAny>> {
        let (progress, context) = self.0.get()?;
        let (asked, kept, given) = (Arc::clone(progress), Arc::clone(progress), context.clone());
        let work = async move { asked.events.lock().await.recv().await.ok_or(Error::Closed) };
        context.run_at_once(py, work, move |py, event| match event {
            Event::Attempt(transaction, verdict) => {
                *kept.verdict.lock().unwrap_or_else(PoisonError::into_inner) = Some(verdict);
                Transaction::object(py, transaction, given)
            }
            Event::Ended(Ok(receipt)) => {
                *kept.receipt.lock().unwrap_or_else(PoisonError::into_inner) = Some(receipt);
                Ok(py.None())
            }
            Event::Ended(Err(failure)) if is_own(&failure) => Ok(py.None()),
            Event::Ended(Err(failure)) => Err(error::exception(py, &failure)),
        })
    }

    /// Tells the client the end of the function.
    fn tell(&self, verdict: Result<()>) -> PyResult<()> {
        let (progress, _) = self.0.get()?;
        let sender = progress.verdict.lock().unwrap_or_else(PoisonError::into_inner).take();
        let sender = sender.ok_or_else(|| error::taken("the next attempt"))?;
        // If nobody listens, the transaction has ended, and the next event says how.
        let _ = sender.send(verdict);
        Ok(())
    }
}

/// Runs a transaction whose attempts are handed out, and tells its end.
async fn run(keyspace: quorate::Keyspace, events: UnboundedSender<Event>) {
    let attempt = |transaction| {
        let (verdict, told) = oneshot::channel();
        // If nobody takes it, the verdict is dropped with it.
        let _ = events.send(Event::Attempt(transaction, verdict));
        async move {
            told.await.unwrap_or_else(|_| Err(Error::application("the program has left the transaction")))
        }
    };
    let ended = keyspace.transact_with_receipt(attempt).await;
    let _ = events.send(Event::Ended(ended.map(|((), receipt)| receipt)));
}

#[pymethods]
impl Attempts {
    /// The first attempt.
    fn begin(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.next(py, |_| false)
    }

    /// The function has returned: commits. Gives the next attempt, or `None` if this one has committed.
    fn commit(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.tell(Ok(()))?;
        self.next(py, |_| false)
    }

    /// The function has raised this. Gives the next attempt if another transaction was in the way, else `None`.
    fn give_up(&self, py: Python<'_>, raised: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let given_up = error::given_up(py, raised)?;
        let kind = std::mem::discriminant(&given_up);
        self.tell(Err(given_up))?;
        self.next(py, move |failure| std::mem::discriminant(failure) == kind)
    }

    /// Aborts the attempt that is open, and does not wait for it.
    fn abandon(&self) -> PyResult<()> {
        let (progress, _) = self.0.get()?;
        progress.verdict.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(())
    }

    /// The committed transaction; `None` if it has not committed.
    fn receipt(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let (progress, context) = self.0.get()?;
        let receipt = progress.receipt.lock().unwrap_or_else(PoisonError::into_inner).clone();
        receipt.map(|receipt| Receipt::object(py, receipt, context.clone())).transpose()
    }
}
