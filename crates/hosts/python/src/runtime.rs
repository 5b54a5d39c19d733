//! The thread that runs the client of a database.

use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::{Builder, EnterGuard, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A thread with a loop of its own, in which a client and all calls of it run. It needs nothing of the interpreter, so no call waits for the program to give
/// that up. It ends when it is stopped, or when the last handle is gone.
#[derive(Debug)]
pub(crate) struct Runtime {
    handle: Handle,
    /// Ends the thread when it is sent or dropped; none once it has been stopped.
    stop: Mutex<Option<oneshot::Sender<()>>>,
    /// The process that has started it. Threads are not there in a fork of it.
    process: u32,
}

impl Runtime {
    /// Starts the thread.
    pub(crate) fn start() -> io::Result<Arc<Self>> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        std::thread::Builder::new().name("quorate".to_owned()).spawn(move || {
            // Whether it is told or all handles are gone comes to the same.
            let _ = runtime.block_on(stopped);
            // Calls that are under way end with this, and say so.
            drop(runtime);
        })?;
        Ok(Arc::new(Runtime { handle, stop: Mutex::new(Some(stop)), process: std::process::id() }))
    }

    /// Begins something. If the thread was stopped, it is dropped at once.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.handle.spawn(work)
    }

    /// Lets this thread make timers and tasks of the loop.
    pub(crate) fn enter(&self) -> EnterGuard<'_> {
        self.handle.enter()
    }

    /// Ends the thread. To do so again does no harm.
    pub(crate) fn stop(&self) {
        let stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(stop) = stop {
            // It may have ended by itself.
            let _ = stop.send(());
        }
    }

    /// True once it was stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// The process that has started it.
    pub(crate) fn process(&self) -> u32 {
        self.process
    }
}
