//! Records what the clients of one or more loads saw, in the order in which it happened.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use quorate_checker::{History, MicroOp, ReadError, RecordedTxn, Recorder};

/// A history that is being recorded. Clones record into the same one.
#[derive(Clone)]
pub struct HistoryLog {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    recorder: Recorder,
    start: Instant,
    next_process: u64,
}

impl Default for HistoryLog {
    fn default() -> Self {
        Self::new()
    }
}

impl HistoryLog {
    /// An empty history whose time begins now.
    pub fn new() -> Self {
        let inner = Inner { recorder: Recorder::new(), start: Instant::now(), next_process: 0 };
        HistoryLog { inner: Arc::new(Mutex::new(inner)) }
    }

    /// A process that nobody else is.
    pub(crate) fn process(&self) -> u64 {
        let mut inner = self.lock();
        inner.next_process += 1;
        inner.next_process - 1
    }

    /// An attempt begins, and will do this.
    pub(crate) fn invoke(&self, process: u64, site: &str, announced: Vec<MicroOp>) -> RecordedTxn {
        let mut inner = self.lock();
        let now = inner.now();
        let txn = inner.recorder.invoke(process, now);
        if !site.is_empty() {
            inner.recorder.site(txn, site);
        }
        for op in announced {
            inner.recorder.attempt(txn, op);
        }
        txn
    }

    /// A transaction is about to make these changes, too.
    pub(crate) fn announce(&self, txn: RecordedTxn, ops: Vec<MicroOp>) {
        let mut inner = self.lock();
        for op in ops {
            inner.recorder.attempt(txn, op);
        }
    }

    /// It committed, and did this.
    pub(crate) fn ok(&self, txn: RecordedTxn, ops: Vec<MicroOp>) {
        let mut inner = self.lock();
        let now = inner.now();
        inner.recorder.ok(txn, now, ops);
    }

    /// It surely did not commit.
    pub(crate) fn fail(&self, txn: RecordedTxn) {
        let mut inner = self.lock();
        let now = inner.now();
        inner.recorder.fail(txn, now);
    }

    /// Nobody knows. Its process must not be used again.
    pub(crate) fn info(&self, txn: RecordedTxn) {
        let mut inner = self.lock();
        let now = inner.now();
        inner.recorder.info(txn, now);
    }

    /// The history so far, to be judged.
    ///
    /// # Errors
    /// If it is not a history.
    pub fn to_history(&self) -> Result<History, ReadError> {
        self.lock().recorder.to_history()
    }

    /// Writes the history as JSON lines.
    ///
    /// # Errors
    /// If the output cannot be written to.
    pub fn write_json(&self, output: impl Write) -> io::Result<()> {
        self.lock().recorder.write_json(output)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Read with the lock held, so that times never go back in the order of events.
    fn now(&self) -> i64 {
        i64::try_from(self.start.elapsed().as_nanos()).unwrap_or(i64::MAX)
    }
}
