//! The threads that make logs durable.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use quorate_core::ReplicaId;

use super::journal::{Committed, Journal, Settled, Settling};
use super::log::{Mark, Prepare, Shared, Truncation, Unsynced};
use super::{LogError, Position};

/// A log that nothing was written to for so long is marked durable, which costs no sync.
const MARK_AFTER: Duration = Duration::from_millis(20);

/// When nothing was written for so long, what the journal holds is settled.
const SETTLE_AFTER: Duration = Duration::from_secs(1);

/// The content of the journal is settled as often as this at least, so that a restart has little to do once more.
const SETTLE_EVERY: Duration = Duration::from_secs(2);

/// The result of the writes that were submitted for one log.
#[derive(Debug)]
pub struct Report {
    /// The replica of the log.
    pub replica: ReplicaId,
    /// Which log, as [`Log::opening`](super::Log::opening) says: one that was given up may be reported after the next one of the
    /// same replica has been opened.
    pub opening: u64,
    /// Up to where the log is durable now; or why nothing more of this log will ever be.
    pub result: Result<Position, LogError>,
}

/// Makes written records durable, on a thread of its own, so that an event loop never waits for a disk.
///
/// While one sync runs, all that is submitted waits and is then served together: by one sync a log, or by one of a [`Journal`] for all logs.
/// A second thread creates segments ahead of time and removes old ones, and a third settles the journal, which take longer than a sync. When
/// the syncer is dropped it first completes what was submitted, and settles the journal.
#[derive(Debug)]
pub struct Syncer {
    orders: Option<Sender<Order>>,
    chores: Option<Sender<Chore>>,
    threads: Vec<JoinHandle<()>>,
    /// How many syncs there were.
    syncs: Arc<AtomicU64>,
}

/// An order to the thread that syncs.
#[derive(Debug)]
enum Order {
    /// One for each log.
    Sync(Vec<Unsynced>),
    /// Nothing of this replica may stand in the journal. The answer says if a log of this incarnation may be opened then.
    Settle(ReplicaId, u64, Sender<Result<(), LogError>>),
}

/// A chore that may take longer than a sync.
#[derive(Debug)]
enum Chore {
    Prepare(Prepare),
    Truncate(Truncation),
}

impl Syncer {
    /// Starts the threads, without a journal. They call `report` after each sync of a log; `report` should only pass the news on.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub fn start(mut report: impl FnMut(Report) + Send + 'static) -> io::Result<Syncer> {
        Syncer::start_with(None, move |reports| reports.into_iter().for_each(&mut report))
    }

    /// Starts the threads, with a journal if there is one. They call `report` after each sync, of one log or of many.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub fn start_with(
        journal: Option<Journal>,
        report: impl FnMut(Vec<Report>) + Send + 'static,
    ) -> io::Result<Syncer> {
        let (orders, inbox) = channel();
        let (chores, wanted) = channel();
        let (settlings, to_settle) = channel();
        let (settled, outcomes) = channel();
        let syncs = Arc::<AtomicU64>::default();
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            thread::Builder::new().name(name.to_owned()).spawn(work)
        };
        // In this order: a failure drops the senders, which ends the threads before.
        let keeper = spawn("log-keeper", Box::new(move || keep(&wanted)))?;
        let settler = spawn("log-settler", Box::new(move || settle(&to_settle, &settled)))?;
        let mut desk = Desk {
            journal,
            unsettled_since: None,
            idle: BTreeMap::new(),
            chores: chores.clone(),
            settlings,
            outcomes,
            syncs: Arc::clone(&syncs),
            report,
        };
        let syncer = spawn("log-syncer", Box::new(move || desk.run(&inbox)))?;
        let threads = vec![syncer, settler, keeper];
        Ok(Syncer { orders: Some(orders), chores: Some(chores), threads, syncs })
    }

    /// Has something that was written made durable. Returns at once.
    ///
    /// # Panics
    /// If the thread has ended because `report` panicked: nothing would be acknowledged any more.
    pub fn submit(&self, unsynced: Unsynced) {
        self.submit_all(vec![unsynced]);
    }

    /// As [`Syncer::submit`], for what was written to several logs in one turn: so they are served together.
    ///
    /// # Panics
    /// As [`Syncer::submit`].
    pub fn submit_all(&self, unsynced: Vec<Unsynced>) {
        let orders = self.orders.as_ref().expect("the thread runs until the syncer is dropped");
        orders.send(Order::Sync(unsynced)).expect("the thread that syncs logs has ended");
    }

    /// Lets nothing of a replica stand in the journal, before its log of this [incarnation](super::Log::incarnation) is opened while others are in use.
    /// Waits for syncs.
    ///
    /// # Errors
    /// The log lacks what it has acknowledged, and must not be opened in this process.
    ///
    /// # Panics
    /// As [`Syncer::submit`].
    pub fn settle(&self, replica: ReplicaId, incarnation: u64) -> Result<(), LogError> {
        let (answer, answered) = channel();
        let orders = self.orders.as_ref().expect("the thread runs until the syncer is dropped");
        orders
            .send(Order::Settle(replica, incarnation, answer))
            .expect("the thread that syncs logs has ended");
        answered.recv().expect("the thread that syncs logs has ended")
    }

    /// Has segments removed that are not needed any more. Returns at once.
    pub fn truncate(&self, truncation: Truncation) {
        let chores = self.chores.as_ref().expect("the thread runs until the syncer is dropped");
        do_later(chores, Chore::Truncate(truncation));
    }

    /// How many syncs there were, of logs and of the journal.
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.orders = None;
        self.chores = None;
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread that syncs logs has panicked");
            }
        }
    }
}

fn do_later(chores: &Sender<Chore>, chore: Chore) {
    if chores.send(chore).is_err() {
        tracing::error!("the thread that creates and removes segments of logs has ended");
    }
}

/// The state of the thread that syncs.
pub(super) struct Desk<R> {
    journal: Option<Journal>,
    /// Since when something stands in the journal that is not being settled.
    unsettled_since: Option<Instant>,
    /// The logs that wait to be marked, by [`Log::opening`](super::Log::opening).
    idle: BTreeMap<u64, Idle>,
    chores: Sender<Chore>,
    settlings: Sender<Settling>,
    outcomes: Receiver<(Settled, u64)>,
    syncs: Arc<AtomicU64>,
    report: R,
}

impl<R: FnMut(Vec<Report>)> Desk<R> {
    fn run(&mut self, inbox: &Receiver<Order>) {
        loop {
            let is_owed = self.journal.as_ref().is_some_and(Journal::is_owed);
            let first = match (self.idle.is_empty(), is_owed) {
                (false, _) => inbox.recv_timeout(MARK_AFTER),
                (true, true) => inbox.recv_timeout(SETTLE_AFTER),
                (true, false) => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match first {
                Ok(first) => self.serve(first, inbox),
                Err(RecvTimeoutError::Timeout) if self.idle.is_empty() => {
                    self.hear_outcomes();
                    self.begin_settling();
                }
                Err(reason) => {
                    std::mem::take(&mut self.idle).into_values().for_each(write_mark);
                    if reason == RecvTimeoutError::Disconnected {
                        self.settle_all();
                        return;
                    }
                }
            }
        }
    }

    /// Serves everything that waits.
    fn serve(&mut self, first: Order, inbox: &Receiver<Order>) {
        let mut batch = Vec::new();
        let mut next = Some(first);
        while let Some(order) = next.take() {
            match order {
                Order::Sync(all) => all.into_iter().for_each(|unsynced| gather(&mut batch, unsynced)),
                // Writes that were submitted before may be of that replica.
                Order::Settle(replica, incarnation, answer) => {
                    self.commit(std::mem::take(&mut batch));
                    let settled = self.settle_for(replica, incarnation);
                    // The thread that asked may be gone.
                    let _ = answer.send(settled);
                }
            }
            next = inbox.try_recv().ok();
        }
        self.commit(batch);
        self.hear_outcomes();
        let is_old = self.unsettled_since.is_some_and(|since| since.elapsed() >= SETTLE_EVERY);
        if is_old || self.journal.as_ref().is_some_and(Journal::is_long) {
            self.begin_settling();
        }
    }

    pub(super) fn commit(&mut self, mut batch: Vec<Unsynced>) {
        for unsynced in &mut batch {
            if let Some(wanted) = unsynced.prepare.take() {
                do_later(&self.chores, Chore::Prepare(wanted));
            }
        }
        let Committed { together, alone } = match &mut self.journal {
            Some(journal) => journal.commit(batch),
            None => Committed { together: Vec::new(), alone: batch },
        };
        if let Some(wanted) = self.journal.as_mut().and_then(Journal::take_prepare) {
            do_later(&self.chores, Chore::Prepare(wanted));
        }
        if !together.is_empty() {
            self.unsettled_since.get_or_insert_with(Instant::now);
            self.syncs.fetch_add(1, Ordering::Relaxed);
            let reports = together.into_iter().map(|unsynced| noted(unsynced, Ok(()), &mut self.idle));
            let reports = reports.collect();
            (self.report)(reports);
        }
        for unsynced in alone {
            self.syncs.fetch_add(unsynced.segments.len() as u64, Ordering::Relaxed);
            let report = sync(unsynced, &mut self.idle);
            (self.report)(vec![report]);
        }
    }

    pub(super) fn begin_settling(&mut self) {
        if let Some(settling) = self.journal.as_mut().and_then(Journal::begin_settling) {
            self.unsettled_since = None;
            if self.settlings.send(settling).is_err() {
                tracing::error!("the thread that settles the journal has ended");
            }
        }
    }

    /// Looks whether files were synced meanwhile.
    fn hear_outcomes(&mut self) {
        while let Ok(outcome) = self.outcomes.try_recv() {
            self.end_settling(outcome);
        }
    }

    fn end_settling(&mut self, (settled, syncs): (Settled, u64)) {
        self.syncs.fetch_add(syncs + 1, Ordering::Relaxed);
        if let Some(truncation) = self.journal.as_mut().and_then(|journal| journal.end_settling(settled)) {
            do_later(&self.chores, Chore::Truncate(truncation));
        }
    }

    /// Settles everything, if something of this replica stands in the journal.
    fn settle_for(&mut self, replica: ReplicaId, incarnation: u64) -> Result<(), LogError> {
        if self.journal.as_ref().is_some_and(|journal| journal.holds(replica)) {
            self.settle_all();
        }
        self.journal.as_mut().map_or(Ok(()), |journal| journal.release(replica, incarnation))
    }

    /// Settles everything, as far as that can be done, and waits for that.
    pub(super) fn settle_all(&mut self) {
        loop {
            // First what is under way, and then what was written since.
            self.hear_outcomes();
            self.begin_settling();
            if !self.journal.as_ref().is_some_and(Journal::is_settling) {
                return;
            }
            match self.outcomes.recv() {
                Ok(outcome) => self.end_settling(outcome),
                // The thread that settles has ended.
                Err(_) => return,
            }
        }
    }
}

/// A desk without threads, for tests of what they do one after the other.
#[cfg(test)]
pub(super) struct Bench<R> {
    pub(super) desk: Desk<R>,
    to_settle: Option<Receiver<Settling>>,
    settled: Sender<(Settled, u64)>,
}

#[cfg(test)]
impl<R: FnMut(Vec<Report>)> Desk<R> {
    pub(super) fn around(journal: Journal, report: R) -> Bench<R> {
        let (settlings, to_settle) = channel();
        let (settled, outcomes) = channel();
        let desk = Desk {
            journal: Some(journal),
            unsettled_since: None,
            idle: BTreeMap::new(),
            chores: channel().0,
            settlings,
            outcomes,
            syncs: Arc::default(),
            report,
        };
        Bench { desk, to_settle: Some(to_settle), settled }
    }
}

#[cfg(test)]
impl<R: FnMut(Vec<Report>)> Bench<R> {
    /// Syncs the files that wait to be synced.
    pub(super) fn settle_one(&self) {
        let settling = self.to_settle.as_ref().and_then(|waiting| waiting.recv().ok()).unwrap();
        self.settled.send((settling.run(), 0)).unwrap();
    }

    /// Serves something, so much later; true if files wait to be synced after that.
    pub(super) fn settles_after(&mut self, time: Duration) -> bool {
        let earlier = self.desk.unsettled_since.and_then(|since| since.checked_sub(time));
        self.desk.unsettled_since = earlier;
        self.desk.serve(Order::Sync(Vec::new()), &channel().1);
        self.to_settle.as_ref().is_some_and(|waiting| waiting.try_recv().is_ok())
    }

    /// Syncs files from now on, in another thread.
    pub(super) fn settle_in_background(&mut self) -> JoinHandle<()> {
        let (to_settle, settled) = (self.to_settle.take().unwrap(), self.settled.clone());
        thread::spawn(move || settle(&to_settle, &settled))
    }
}

/// Adds what was written to a log to a batch, in which there is one of each log.
fn gather(batch: &mut Vec<Unsynced>, later: Unsynced) {
    match batch.iter_mut().find(|earlier| Arc::ptr_eq(&earlier.log, &later.log)) {
        Some(earlier) => earlier.merge(later),
        None => batch.push(later),
    }
}

/// Syncs what settles the journal; gives with each outcome how many syncs there were.
fn settle(to_settle: &Receiver<Settling>, settled: &Sender<(Settled, u64)>) {
    while let Ok(settling) = to_settle.recv() {
        let syncs = settling.files() as u64;
        if settled.send((settling.run(), syncs)).is_err() {
            return;
        }
    }
}

/// A log that is durable up to its end, as far as the syncer knows, and where to note it.
pub(super) struct Idle {
    log: Arc<Shared>,
    mark: Mark,
    durable: Position,
}

pub(super) fn sync(unsynced: Unsynced, idle: &mut BTreeMap<u64, Idle>) -> Report {
    let result = unsynced.sync();
    noted(unsynced, result, idle)
}

/// The report on a log whose writes have become durable, or have not.
fn noted(unsynced: Unsynced, result: Result<(), LogError>, idle: &mut BTreeMap<u64, Idle>) -> Report {
    let through = unsynced.through();
    let result = result.and_then(|()| unsynced.outcome().map(drop));
    let Unsynced { log, mark, .. } = unsynced;
    let (replica, opening) = (log.identity.replica, log.opening);
    match result.is_ok() {
        true => drop(idle.insert(opening, Idle { log, mark, durable: through })),
        false => drop(idle.remove(&opening)),
    }
    Report { replica, opening, result: result.map(|()| through) }
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
