//! Threads beside the event loop, for what it must not wait for.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use quorate_runtime::transport::TurnWaker;

/// Threads, and what they have made ready.
pub(crate) struct Workers<T> {
    /// The name of the threads.
    name: &'static str,
    waker: TurnWaker,
    ready: (Sender<T>, Receiver<T>),
    threads: Vec<JoinHandle<()>>,
    /// The function that starts a thread. Tests put another in its place.
    pub(crate) spawn: fn(&'static str, Work) -> io::Result<JoinHandle<()>>,
}

/// The work of a thread.
type Work = Box<dyn FnOnce() + Send>;

/// Where a thread puts what is ready.
pub(crate) struct Tray<T> {
    ready: Sender<T>,
    waker: TurnWaker,
}

impl<T> Tray<T> {
    /// Asks for a turn in which this is taken. False if nobody will take it, because the node has stopped.
    pub(crate) fn put(&self, ready: T) -> bool {
        let is_wanted = self.ready.send(ready).is_ok();
        if is_wanted {
            self.waker.wake();
        }
        is_wanted
    }
}

impl<T: Send + 'static> Workers<T> {
    pub(crate) fn new(name: &'static str, waker: TurnWaker) -> Self {
        Workers { name, waker, ready: channel(), threads: Vec::new(), spawn }
    }

    /// Starts a thread.
    ///
    /// # Errors
    /// There are no more threads to be had.
    pub(crate) fn start(&mut self, work: impl FnOnce(&Tray<T>) + Send + 'static) -> io::Result<()> {
        let tray = Tray { ready: self.ready.0.clone(), waker: self.waker.clone() };
        self.threads.push((self.spawn)(self.name, Box::new(move || work(&tray)))?);
        Ok(())
    }

    /// The results that have become ready.
    ///
    /// # Panics
    /// If a thread has panicked: its result must not be missing in silence.
    pub(crate) fn take_ready(&mut self) -> Vec<T> {
        for thread in self.threads.extract_if(.., |thread| thread.is_finished()) {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        self.ready.1.try_iter().collect()
    }

    /// Waits until no thread runs.
    pub(crate) fn close(&mut self) {
        join(self.name, &mut self.threads);
    }
}

impl<T> Drop for Workers<T> {
    /// Waits until no thread runs, and wants nothing more of them. A thread that went on would keep the data directory locked, and the
    /// node that begins there next would find it in use.
    fn drop(&mut self) {
        self.ready = channel();
        join(self.name, &mut self.threads);
    }
}

fn join(name: &str, threads: &mut Vec<JoinHandle<()>>) {
    for thread in threads.drain(..) {
        if thread.join().is_err() {
            tracing::error!("a thread has panicked: {name}");
        }
    }
}

fn spawn(name: &'static str, work: Work) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(work)
}

/// Takes until something is ready.
#[cfg(test)]
pub(crate) fn take_until_ready<T>(mut take: impl FnMut() -> Vec<T>) -> Vec<T> {
    use std::time::{Duration, Instant};

    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let ready = take();
        if !ready.is_empty() {
            return ready;
        }
        assert!(Instant::now() < deadline, "nothing becomes ready");
        thread::sleep(Duration::from_millis(1));
    }
}

/// No thread can be started.
#[cfg(test)]
pub(crate) fn no_threads(_: &'static str, _: Work) -> io::Result<JoinHandle<()>> {
    Err(io::Error::other("no more threads"))
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use super::*;

    fn workers() -> Workers<u32> {
        Workers::new("worker", TurnWaker::default())
    }

    #[test]
    fn what_threads_make_is_taken_once() {
        let mut workers = workers();
        workers.start(|tray| assert!(tray.put(1))).unwrap();
        assert_eq!(take_until_ready(|| workers.take_ready()), [1]);
        assert!(workers.take_ready().is_empty());
    }

    #[test]
    fn a_panic_is_not_swallowed() {
        let mut workers = workers();
        workers.start(|_| panic!("the disk lies")).unwrap();
        let panic = catch_unwind(AssertUnwindSafe(|| take_until_ready(|| workers.take_ready())))
            .expect_err("it goes on");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"the disk lies"));
    }

    #[test]
    fn whoever_closes_does_so_in_spite_of_a_panic() {
        let mut workers = workers();
        workers.start(|_| panic!("the disk lies")).unwrap();
        workers.close();
        assert!(workers.threads.is_empty());
    }

    #[test]
    fn threads_learn_that_nobody_waits_any_more_and_have_ended_when_workers_are_dropped() {
        let held = Arc::new(());
        let mut workers = workers();
        let inside = Arc::clone(&held);
        workers
            .start(move |tray| {
                while tray.put(1) {
                    thread::yield_now();
                }
                drop(inside);
            })
            .unwrap();
        drop(workers);
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn without_a_thread_whoever_wanted_one_is_told() {
        let mut workers = workers();
        workers.spawn = no_threads;
        assert!(workers.start(|_| {}).is_err());
        assert!(workers.take_ready().is_empty());
    }
}
