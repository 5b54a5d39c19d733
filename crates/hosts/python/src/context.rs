//! How a call is begun, and how its answer reaches the program.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{self, Poll, Waker};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use quorate::{Error, Result};

use crate::error;
use crate::operations::Operations;
use crate::runtime::Runtime;

/// How often a thread that waits looks for signals: Ctrl-C takes no longer to be heard.
const SIGNALS_EVERY: Duration = Duration::from_millis(50);

/// How answers reach the program.
#[derive(Clone, Debug)]
enum Answering {
    /// The thread of the call waits.
    Blocking,
    /// The call gives a future of an event loop.
    Asyncio(Arc<Py<Operations>>),
}

/// The way to the thread of a client, and back. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    runtime: Arc<Runtime>,
    answering: Answering,
}

impl Context {
    /// A new thread; answers reach the event loop of these operations, or the threads that wait for them if there are none.
    pub(crate) fn start(operations: Option<Py<Operations>>) -> PyResult<Self> {
        let answering = match operations {
            Some(operations) => Answering::Asyncio(Arc::new(operations)),
            None => Answering::Blocking,
        };
        Ok(Context { runtime: Runtime::start()?, answering })
    }

    /// The process that the thread belongs to.
    pub(crate) fn process(&self) -> u32 {
        self.runtime.process()
    }

    /// Does `work` in the thread of the client, and converts its answer in the thread of the program: waits for that, or gives a future of it.
    ///
    /// # Errors
    /// That of the work, or the exception of a signal that came while it was waited for; then the work is given up.
    pub(crate) fn run<T, C>(
        &self,
        py: Python<'_>,
        work: impl Future<Output = Result<T>> + Send + 'static,
        convert: C,
    ) -> PyResult<Py<PyAny>>
    where
        T: Send + 'static,
        C: FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    {
        match &self.answering {
            Answering::Blocking => match self.wait(py, work)? {
                Ok(answer) => convert(py, answer),
                Err(failure) => Err(error::exception(py, &failure)),
            },
            Answering::Asyncio(operations) => Operations::begin(operations, py, &self.runtime, work, convert),
        }
    }

    /// As [`Context::run`], for work that hardly ever has to wait: tries it at once, in the thread of the program.
    ///
    /// # Errors
    /// As [`Context::run`].
    pub(crate) fn run_at_once<T, C>(
        &self,
        py: Python<'_>,
        work: impl Future<Output = Result<T>> + Send + 'static,
        convert: C,
    ) -> PyResult<Py<PyAny>>
    where
        T: Send + 'static,
        C: FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    {
        let mut work = Box::pin(work);
        let answer = match self.try_once(work.as_mut()) {
            Poll::Ready(answer) => answer.map_err(|failure| error::exception(py, &failure)),
            Poll::Pending => return self.run(py, work, convert),
        };
        let object = answer.and_then(|answer| convert(py, answer));
        match &self.answering {
            Answering::Blocking => object,
            Answering::Asyncio(operations) => operations.get().answered(py, object),
        }
    }

    fn wait<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> PyResult<Result<T>> {
        let slot = Arc::new(Slot::default());
        let filler = Filler(Some(Arc::clone(&slot)));
        let task = self.runtime.spawn(async move { filler.fill(work.await) });
        loop {
            if let Some(answer) = py.detach(|| slot.wait(SIGNALS_EVERY)) {
                return Ok(answer);
            }
            if let Err(raised) = py.check_signals() {
                task.abort();
                return Err(raised);
            }
        }
    }

    /// Does `work` in the thread of the client, and tells nobody how it ends. It is begun at once, in the thread of the program.
    pub(crate) fn begin(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut work = Box::pin(work);
        if self.try_once(work.as_mut()).is_pending() {
            drop(self.runtime.spawn(work));
        }
    }

    /// Lets work come as far as it can without waiting.
    fn try_once<F: Future>(&self, work: Pin<&mut F>) -> Poll<F::Output> {
        if self.runtime.is_stopped() {
            // Where it is spawned it is dropped, and says that the database is closed.
            return Poll::Pending;
        }
        // It may set timers, which belong to the loop of the client.
        let _entered = self.runtime.enter();
        work.poll(&mut task::Context::from_waker(Waker::noop()))
    }

    /// Ends the thread. Calls that are under way end as `Closed`.
    pub(crate) fn stop(&self, py: Python<'_>) -> PyResult<()> {
        self.runtime.stop();
        match &self.answering {
            Answering::Blocking => Ok(()),
            Answering::Asyncio(operations) => operations.get().close(py),
        }
    }
}

/// Where a thread waits for an answer.
struct Slot<T> {
    answer: Mutex<Option<Result<T>>>,
    filled: Condvar,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Slot { answer: Mutex::new(None), filled: Condvar::new() }
    }
}

impl<T> Slot<T> {
    /// Waits so long; none if there is no answer by then.
    fn wait(&self, patience: Duration) -> Option<Result<T>> {
        let until = Instant::now() + patience;
        let mut answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if answer.is_some() || left.is_zero() {
                return answer.take();
            }
            answer = self.filled.wait_timeout(answer, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Fills a slot, even if the work is dropped before it has an answer.
struct Filler<T>(Option<Arc<Slot<T>>>);

impl<T> Filler<T> {
    fn fill(mut self, answer: Result<T>) {
        self.put(answer);
    }

    fn put(&mut self, answer: Result<T>) {
        if let Some(slot) = self.0.take() {
            *slot.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
            slot.filled.notify_one();
        }
    }
}

impl<T> Drop for Filler<T> {
    fn drop(&mut self) {
        self.put(Err(Error::Closed));
    }
}
