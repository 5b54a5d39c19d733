//! The thread that makes logs durable.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use quorate_core::ReplicaId;

use super::log::{Mark, Prepare, Shared, Truncation, Unsynced};
use super::{LogError, Position};

/// A log that nothing was written to for so long is marked durable, which costs no sync.
const MARK_AFTER: Duration = Duration::from_millis(20);

/// What became of what was submitted for one log.
#[derive(Debug)]
pub struct Report {
    /// Whose log.
    pub replica: ReplicaId,
    /// Which log, as [`Log::opening`](super::Log::opening) says: one that was given up may be reported after the next one of the
    /// same replica has been opened.
    pub opening: u64,
    /// Up to where the log is durable now; or why nothing more of this log will ever be.
    pub result: Result<Position, LogError>,
}

/// Makes written records durable, on a thread of its own, so that an event loop never waits for a disk.
///
/// While one sync runs, whatever is submitted waits and is then served by one sync a log. A second thread creates
/// segments ahead of time and removes old ones, which takes longer than a sync. When the syncer is dropped it first completes what was
/// submitted.
#[derive(Debug)]
pub struct Syncer {
    submissions: Option<Sender<Unsynced>>,
    chores: Option<Sender<Chore>>,
    threads: Vec<JoinHandle<()>>,
}

/// What may take longer than a sync.
#[derive(Debug)]
enum Chore {
    Prepare(Prepare),
    Truncate(Truncation),
}

impl Syncer {
    /// Starts the thread. It calls `report` after each sync of a log; `report` should only pass the news on.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub fn start(report: impl FnMut(Report) + Send + 'static) -> io::Result<Syncer> {
        let (submissions, inbox) = channel();
        let (chores, wanted) = channel();
        // In this order: a failure drops the sender, which ends the first thread.
        let keeper = thread::Builder::new().name("log-keeper".to_owned()).spawn(move || keep(&wanted))?;
        let syncer = thread::Builder::new().name("log-syncer".to_owned()).spawn({
            let chores = chores.clone();
            move || run(&inbox, &chores, report)
        })?;
        let threads = vec![syncer, keeper];
        Ok(Syncer { submissions: Some(submissions), chores: Some(chores), threads })
    }

    /// Has something that was written made durable. Returns at once.
    ///
    /// # Panics
    /// If the thread has ended because `report` panicked: nothing would be acknowledged any more.
    pub fn submit(&self, unsynced: Unsynced) {
        let submissions = self.submissions.as_ref().expect("the thread runs until the syncer is dropped");
        submissions.send(unsynced).expect("the thread that syncs logs has ended");
    }

    /// Has segments removed that are not needed any more. Returns at once.
    pub fn truncate(&self, truncation: Truncation) {
        let chores = self.chores.as_ref().expect("the thread runs until the syncer is dropped");
        if chores.send(Chore::Truncate(truncation)).is_err() {
            tracing::error!("the thread that creates and removes segments of logs has ended");
        }
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.submissions = None;
        self.chores = None;
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread that syncs logs has panicked");
            }
        }
    }
}

fn run(inbox: &Receiver<Unsynced>, chores: &Sender<Chore>, mut report: impl FnMut(Report)) {
    let mut idle = Vec::new();
    loop {
        let first = if idle.is_empty() {
            inbox.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            inbox.recv_timeout(MARK_AFTER)
        };
        match first {
            Ok(first) => {
                for mut unsynced in coalesce(first, inbox) {
                    if let Some(wanted) = unsynced.prepare.take()
                        && chores.send(Chore::Prepare(wanted)).is_err()
                    {
                        tracing::error!("the thread that creates and removes segments of logs has ended");
                    }
                    report(sync(unsynced, &mut idle));
                }
            }
            Err(reason) => {
                idle.drain(..).for_each(write_mark);
                if reason == RecvTimeoutError::Disconnected {
                    return;
                }
            }
        }
    }
}

/// Everything that waits, one for each log.
fn coalesce(first: Unsynced, inbox: &Receiver<Unsynced>) -> Vec<Unsynced> {
    let mut all = vec![first];
    while let Ok(later) = inbox.try_recv() {
        match all.iter_mut().find(|earlier| Arc::ptr_eq(&earlier.log, &later.log)) {
            Some(earlier) => earlier.merge(later),
            None => all.push(later),
        }
    }
    all
}

/// A log that is durable up to its end, as far as the syncer knows, and where to note it.
pub(super) struct Idle {
    log: Arc<Shared>,
    mark: Mark,
    durable: Position,
}

pub(super) fn sync(unsynced: Unsynced, idle: &mut Vec<Idle>) -> Report {
    let result = unsynced.sync().map(|()| unsynced.through());
    let through = unsynced.through();
    let Unsynced { log, mark, .. } = unsynced;
    let (replica, opening) = (log.identity.replica, log.opening);
    idle.retain(|known| !Arc::ptr_eq(&known.log, &log));
    if result.is_ok() {
        idle.push(Idle { log, mark, durable: through });
    }
    Report { replica, opening, result }
}

fn write_mark(Idle { log, mark, durable }: Idle) {
    if !log.has_failed()
        && let Err(error) = mark.write(durable)
    {
        // The mark only helps to notice decay later; records are as durable without it.
        tracing::warn!(replica = %log.identity.replica, %error, "cannot note how far the log is durable");
    }
}

fn keep(wanted: &Receiver<Chore>) {
    while let Ok(chore) = wanted.recv() {
        match chore {
            Chore::Prepare(wanted) => {
                if let Err(error) = wanted.run() {
                    // Not needed yet. When it is, creating it is tried again, and failing then counts.
                    tracing::warn!(%error, "cannot create a segment of a log ahead of time");
                }
            }
            Chore::Truncate(truncation) => {
                if let Err(error) = truncation.run() {
                    // Only disk space is lost, until the next truncation; or the log has failed and will say so.
                    tracing::warn!(%error, "cannot remove segments of a log that are not needed any more");
                }
            }
        }
    }
}
