//! The calls of an event loop: their futures, and the queue of their answers.
//!
//! The thread of the client must never wait for the interpreter, which the program may hold for milliseconds. So it puts answers into a queue, and wakes the
//! event loop through a socket that the loop watches, only if the queue was empty: one wake-up brings all answers that have come until the loop gets
//! round to it.

use std::collections::HashMap;
use std::future::Future;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use quorate::{Error, Result};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::error;
use crate::runtime::Runtime;

/// An answer that waits for its event loop: makes the object, or the exception.
type Answer = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// The calls of one database that an event loop waits for.
#[pyclass(frozen, module = "quorate._native")]
#[derive(Debug)]
pub(crate) struct Operations {
    event_loop: Py<PyAny>,
    /// `asyncio.get_running_loop`.
    running_loop: Py<PyAny>,
    /// Makes a future of the event loop, from these operations and a number.
    future_class: Py<PyAny>,
    next: AtomicU64,
    /// By number. Changed by the thread of the event loop alone.
    pending: Mutex<HashMap<u64, Pending>>,
    queue: Arc<Queue>,
    woken: UnixStream,
    /// True once the event loop is to watch the socket no longer than calls are pending.
    is_closing: AtomicBool,
}

/// A call that has not been answered.
#[derive(Debug)]
struct Pending {
    future: Py<PyAny>,
    task: AbortHandle,
}

/// Answers, in the order in which they came.
struct Queue {
    answers: Mutex<Vec<(u64, Answer)>>,
    waker: UnixStream,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Queue").finish_non_exhaustive()
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Vec<(u64, Answer)>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(self: Arc<Self>, number: u64, answer: Answer) {
        let mut answers = self.lock();
        let was_empty = answers.is_empty();
        answers.push((number, answer));
        drop(answers);
        if !was_empty {
            return;
        }
        let wake = Wake(self);
        if let Ok(runtime) = Handle::try_current() {
            // The calls whose answers have come with this one are ahead of it, so one wake-up is for all of them.
            drop(runtime.spawn(async move { drop(wake) }));
        }
    }
}

/// Wakes the event loop when it is dropped.
struct Wake(Arc<Queue>);

impl Drop for Wake {
    fn drop(&mut self) {
        // If the socket is full, the loop is going to be woken anyway; if it is closed, nobody waits.
        let _ = (&self.0.waker).write(&[1]);
    }
}

impl Operations {
    fn pending(&self) -> MutexGuard<'_, HashMap<u64, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a call, and gives the future of its answer.
    ///
    /// # Errors
    /// `RuntimeError` outside the event loop that the database belongs to.
    pub(crate) fn begin<T, C>(
        operations: &Py<Operations>,
        py: Python<'_>,
        runtime: &Runtime,
        work: impl Future<Output = Result<T>> + Send + 'static,
        convert: C,
    ) -> PyResult<Py<PyAny>>
    where
        T: Send + 'static,
        C: FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    {
        let this = operations.get();
        this.require_running(py)?;
        if this.is_closing.load(Ordering::Relaxed) {
            // The event loop may not look for answers any more.
            return this.answered(py, Err(error::exception(py, &Error::Closed)));
        }
        let number = this.next.fetch_add(1, Ordering::Relaxed);
        let future = this.future_class.call1(py, (&this.event_loop, operations, number))?;
        let completion = Completion { number, queue: Some(Arc::clone(&this.queue)) };
        let task = runtime.spawn(async move { completion.complete(work.await, convert) });
        // Only this thread takes answers from the queue, so the call is found there even if it has been answered by now.
        let pending = Pending { future: future.clone_ref(py), task: task.abort_handle() };
        this.pending().insert(number, pending);
        Ok(future)
    }

    /// A future that has its answer already.
    ///
    /// # Errors
    /// `RuntimeError` outside the event loop that the database belongs to.
    pub(crate) fn answered(&self, py: Python<'_>, answer: PyResult<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        self.require_running(py)?;
        let future = self.event_loop.call_method0(py, intern!(py, "create_future"))?;
        match answer {
            Ok(object) => future.call_method1(py, intern!(py, "set_result"), (object,))?,
            Err(raised) => future.call_method1(py, intern!(py, "set_exception"), (raised.into_value(py),))?,
        };
        Ok(future)
    }

    fn require_running(&self, py: Python<'_>) -> PyResult<()> {
        let running = self.running_loop.call0(py)?;
        if running.is(&self.event_loop) {
            return Ok(());
        }
        Err(PyRuntimeError::new_err(
            "this database belongs to another event loop: connect in the one that uses it",
        ))
    }

    /// Lets the event loop stop watching the socket once nothing is pending.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.is_closing.store(true, Ordering::Relaxed);
        self.unwatch(py)
    }

    fn unwatch(&self, py: Python<'_>) -> PyResult<()> {
        if !self.pending().is_empty()
            || self.event_loop.call_method0(py, intern!(py, "is_closed"))?.is_truthy(py)?
        {
            return Ok(());
        }
        self.event_loop.call_method1(py, intern!(py, "remove_reader"), (self.woken.as_raw_fd(),)).map(drop)
    }

    /// Forgets wake-ups.
    fn settle(&self) -> io::Result<()> {
        let mut bytes = [0; 64];
        match (&self.woken).read(&mut bytes) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }
}

#[pymethods]
impl Operations {
    /// Operations of this event loop. `future_class` makes a future of it from the loop, the operations and a number.
    #[new]
    fn new(py: Python<'_>, event_loop: Py<PyAny>, future_class: Py<PyAny>) -> PyResult<Self> {
        let (waker, woken) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        Ok(Operations {
            event_loop,
            running_loop: py.import("asyncio")?.getattr("get_running_loop")?.unbind(),
            future_class,
            next: AtomicU64::new(0),
            pending: Mutex::default(),
            queue: Arc::new(Queue { answers: Mutex::default(), waker }),
            woken,
            is_closing: AtomicBool::new(false),
        })
    }

    /// The socket that the event loop has to watch, to call `drain`.
    fn fileno(&self) -> i32 {
        self.woken.as_raw_fd()
    }

    /// Gives all answers that have come to their futures.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        // First, so that an answer which comes from here on wakes the loop again.
        self.settle()?;
        let answers = std::mem::take(&mut *self.queue.lock());
        for (number, answer) in answers {
            let Some(Pending { future, .. }) = self.pending().remove(&number) else { continue };
            let future = future.bind(py);
            if future.call_method0(intern!(py, "done"))?.is_truthy()? {
                continue;
            }
            match answer(py) {
                Ok(object) => future.call_method1(intern!(py, "set_result"), (object,))?,
                Err(raised) => future.call_method1(intern!(py, "set_exception"), (raised.into_value(py),))?,
            };
        }
        if self.is_closing.load(Ordering::Relaxed) {
            self.unwatch(py)?;
        }
        Ok(())
    }

    /// Gives a call up whose future was cancelled.
    fn forget(&self, number: u64) {
        let pending = self.pending().remove(&number);
        if let Some(Pending { task, .. }) = pending {
            task.abort();
        }
    }
}

/// Puts an answer into the queue, even if the work is dropped before it has one.
struct Completion {
    number: u64,
    queue: Option<Arc<Queue>>,
}

impl Completion {
    fn complete<T, C>(mut self, answer: Result<T>, convert: C)
    where
        T: Send + 'static,
        C: FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    {
        self.put(Box::new(move |py| match answer {
            Ok(answer) => convert(py, answer),
            Err(failure) => Err(error::exception(py, &failure)),
        }));
    }

    fn put(&mut self, answer: Answer) {
        if let Some(queue) = self.queue.take() {
            queue.push(self.number, answer);
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        self.put(Box::new(|py| Err(error::exception(py, &Error::Closed))));
    }
}
