//! The logs of a node's replicas, and how the thread that syncs them reports.
//!
//! The event loop appends, and writes once per turn; the thread syncs, stores how far each log is durable now, and asks
//! for a turn, in which the loop looks it up. No message passes between the two.

use std::collections::{BTreeMap, VecDeque};
use std::iter::Enumerate;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use quorate_core::hash::FixedMap;
use quorate_core::replay::{Extent, SnapshotPart};
use quorate_core::{Epoch, ReplicaId, View};
use quorate_runtime::Mark;
use quorate_runtime::transport::TurnWaker;
use quorate_storage::{
    self as storage, Journal, Log, LogIdentity, LogOptions, Position, Records, Report, Scrubber, Syncer,
    Unsynced,
};
use quorate_wire::{DecodeError, Wire, decode_record, encode_record, record_alternative};

use super::status::LogStatus;
use crate::data::DataError;

#[cfg(test)]
mod tests;

/// Why a replica cannot be served, or not any longer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    /// The data directory.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The log itself.
    #[error(transparent)]
    Storage(#[from] storage::LogError),
    /// The log is sound, but holds something that this version does not understand.
    #[error(
        "record {number} of the log cannot be read: {source}; start the version that wrote it, or a later one"
    )]
    Record {
        /// Which record, from zero.
        number: usize,
        /// The fault in it.
        source: DecodeError,
    },
    /// The marker is older than the log.
    #[error(
        "record {number} of the log was written in membership {written}, and the marker beside the log knows only \
         {epoch}: it was restored from an older copy; bring back the newest one, or remove the directory of the \
         replica so that it learns everything from its group"
    )]
    Epoch {
        /// Which record, from zero.
        number: usize,
        /// Its membership.
        written: Epoch,
        /// The one that the marker names.
        epoch: Epoch,
    },
    /// It says that the replica is in a view that no group can have come to.
    #[error(
        "the log in {path} says that the replica is in view {view}, and no view may follow that: it was told a false number by \
         a replica or a version that did not refuse such; move the directory of the replica away, and start this node \
         once with --rejoin, so that it learns everything from its group"
    )]
    View {
        /// The log.
        path: String,
        /// The view.
        view: View,
    },
    /// A replica cannot go on above the view that is named.
    #[error(
        "no view follows {view}, so that the replica could not go on above it: name the view that the group is in"
    )]
    NoViewLeft {
        /// The view.
        view: View,
    },
    /// The shards of its keyspace are not known.
    #[error("which shards its keyspace has is not known, because their ids do not follow each other")]
    Shards,
    /// Its keyspace runs an application that this process is not linked with.
    #[error(
        "its keyspace runs the application {name:?}, and this server is linked with {linked}: start one that is linked with it"
    )]
    Application {
        /// The application.
        name: String,
        /// The applications that this process is linked with.
        linked: String,
    },
    /// A value that is not in memory cannot be read, and is in the log of the replica.
    #[error("a value in {path} cannot be read: {why}; everything in it is in the log of the replica")]
    Attic {
        /// The file.
        path: String,
        /// Why it cannot.
        why: String,
    },
    /// A value that is not in memory cannot be read, and the replica keeps no log.
    #[error(
        "a value in {path} cannot be read: {why}; the replica keeps no log: look at the disk and restart this node, so that it learns \
         everything from its group (at most f nodes of 2f + 1 at a time)"
    )]
    AtticAlone {
        /// The file.
        path: String,
        /// Why it cannot.
        why: String,
    },
    /// Its protocol has no way to go on without what is lost.
    #[error("the loss of its records cannot be accepted: drop its keyspace, and create it again")]
    LossNotAccepted,
}

/// The progress of one log, as the thread that syncs has reported it.
#[derive(Debug, Default)]
struct Progress {
    /// Which log, as [`Log::opening`] says.
    opening: u64,
    durable: AtomicU64,
    error: Mutex<Option<storage::LogError>>,
}

#[derive(Debug, Default)]
struct Shared {
    progress: Mutex<FixedMap<ReplicaId, Arc<Progress>>>,
    /// One for each log that is open.
    scrubbers: Mutex<BTreeMap<ReplicaId, Scrubber>>,
    /// The replicas whose logs are still to be read in the pass that is under way, the next one last.
    to_scrub: Mutex<Vec<ReplicaId>>,
    /// The faults that reading logs again has found in those that are open.
    findings: Mutex<Vec<Finding>>,
    counters: Counters,
}

/// A log cannot be used any longer, and nobody has noticed.
#[derive(Debug)]
struct Finding {
    replica: ReplicaId,
    /// Which log, as [`Log::opening`] says.
    opening: u64,
    error: storage::LogError,
}

#[derive(Debug, Default)]
struct Counters {
    writes: AtomicU64,
    records: AtomicU64,
    bytes: AtomicU64,
}

/// The contents of the log of a replica. They are read twice, one record after the other: all of them may be more than memory holds.
#[derive(Debug)]
pub(crate) struct Contents {
    records: Records,
    epoch: Epoch,
    is_empty: bool,
}

impl Contents {
    /// True if the log has no record.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Reads all of it, and says which records count.
    pub(crate) fn extent<R: Wire>(
        &self,
        part: impl Fn(&R) -> Option<SnapshotPart>,
    ) -> Result<Extent, LogError> {
        let mut reading = self.read();
        let mut known = FixedMap::default();
        let extent = Extent::of(std::iter::from_fn(|| reading.next_part(&mut known, &part)));
        reading.end().and(Ok(extent))
    }

    /// Reads it from the beginning on.
    pub(crate) fn read<R>(&self) -> Reading<R> {
        let records = self.records.clone().enumerate();
        Reading { records, epoch: self.epoch, fault: None, of: PhantomData }
    }
}

/// The records of a log, up to the first that cannot be read.
#[derive(Debug)]
pub(crate) struct Reading<R> {
    records: Enumerate<Records>,
    epoch: Epoch,
    fault: Option<LogError>,
    of: PhantomData<R>,
}

impl<R: Wire> Reading<R> {
    /// Says whether all records could be read.
    pub(crate) fn end(self) -> Result<(), LogError> {
        self.fault.map_or(Ok(()), Err)
    }

    /// The result of `take` for the bytes of the next record, which has this number; none at the end, and from a fault on.
    fn next_as<T>(&mut self, take: impl FnOnce(&Self, usize, &[u8]) -> Result<T, LogError>) -> Option<T> {
        if self.fault.is_some() {
            return None;
        }
        let (number, bytes) = self.records.next()?;
        let taken = bytes.map_err(LogError::from).and_then(|bytes| take(self, number, &bytes));
        taken.map_err(|fault| self.fault = Some(fault)).ok()
    }

    /// The part that the next record has in a snapshot. Of each alternative one record is decoded, and the part is known of the others
    /// ([`Machine::snapshot_part`](quorate_core::Machine::snapshot_part)).
    fn next_part(
        &mut self,
        known: &mut FixedMap<u32, Option<SnapshotPart>>,
        part: impl Fn(&R) -> Option<SnapshotPart>,
    ) -> Option<Option<SnapshotPart>> {
        self.next_as(|reading, number, bytes| {
            let alternative = record_alternative(bytes);
            let found = alternative.and_then(|alternative| known.get(&alternative).copied());
            if let Some(found) = found.filter(|_| !cfg!(debug_assertions)) {
                return Ok(found);
            }
            let decoded = part(&reading.decode(number, bytes)?);
            assert!(
                found.is_none_or(|found| found == decoded),
                "record {number} is {decoded:?} of a snapshot, and one before with alternative {alternative:?} is {found:?}"
            );
            known.extend(alternative.map(|alternative| (alternative, decoded)));
            Ok(decoded)
        })
    }

    fn decode(&self, number: usize, bytes: &[u8]) -> Result<R, LogError> {
        let (written, record) = decode_record(bytes).map_err(|source| LogError::Record { number, source })?;
        match written > self.epoch {
            true => Err(LogError::Epoch { number, written, epoch: self.epoch }),
            false => Ok(record),
        }
    }
}

impl<R: Wire> Iterator for Reading<R> {
    type Item = R;

    fn next(&mut self) -> Option<R> {
        self.next_as(Self::decode)
    }
}

/// All logs of an event loop. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Logs {
    cluster: u64,
    shared: Arc<Shared>,
    /// Of this event loop.
    syncer: Arc<Syncer>,
    /// Of all journals of the node: a log may have been used with another one in an earlier life, when the node had another number of event loops.
    syncers: Arc<[Arc<Syncer>]>,
}

impl Logs {
    /// Starts the threads that sync, without a journal. They ask for a turn through `waker`.
    #[cfg(test)]
    pub(crate) fn start(cluster: u64, waker: TurnWaker) -> std::io::Result<Self> {
        let (syncer, shared) = start_syncer(None, waker)?;
        Ok(Logs { cluster, shared, syncers: Arc::new([Arc::clone(&syncer)]), syncer })
    }

    /// Starts the threads that sync for each event loop, with a journal of its own. They ask for a turn through its waker. Journals that are left over are those of
    /// event loops that the node has had in an earlier life.
    pub(crate) fn start_all(
        cluster: u64,
        journals: Vec<Journal>,
        wakers: &[TurnWaker],
    ) -> std::io::Result<Vec<Self>> {
        assert!(journals.len() >= wakers.len(), "each event loop has a journal");
        let mut wakers = wakers.iter().cloned();
        // Nothing is written to one that is left over, so nothing is reported of it.
        let start = |journal| start_syncer(Some(journal), wakers.next().unwrap_or_default());
        let started = journals.into_iter().map(start).collect::<std::io::Result<Vec<_>>>()?;
        let syncers: Arc<[_]> = started.iter().map(|(syncer, _)| Arc::clone(syncer)).collect();
        let logs = |(syncer, shared)| Logs { cluster, shared, syncer, syncers: Arc::clone(&syncers) };
        Ok(started.into_iter().map(logs).collect())
    }

    /// Creates the log of a replica.
    pub(crate) fn create(&self, directory: &Path, replica: ReplicaId) -> Result<(), LogError> {
        let log = Log::create(directory, self.identity(replica), LogOptions::default())?;
        Ok(log.close()?)
    }

    /// Creates the log of a replica, and makes nothing of it durable.
    pub(crate) fn create_unsynced(&self, directory: &Path, replica: ReplicaId) -> Result<(), LogError> {
        Ok(Log::create_unsynced(directory, self.identity(replica), LogOptions::default())?)
    }

    /// Opens the log of a replica that belongs to this membership, to read what it holds.
    pub(crate) fn open(
        &self,
        directory: &Path,
        replica: ReplicaId,
        epoch: Epoch,
    ) -> Result<(ReplicaLog, Contents), LogError> {
        let identity = self.identity(replica);
        self.settle(directory, replica)?;
        let (log, records) = Log::open(directory, identity, LogOptions::default())?;
        let contents = Contents { records, epoch, is_empty: log.recovery().records == 0 };
        if log.recovery().torn_bytes > 0 {
            let torn = log.recovery().torn_bytes;
            tracing::info!(%replica, torn, "cut off what a crash had torn at the end of the log");
        }
        let progress = Arc::new(Progress { opening: log.opening(), ..Progress::default() });
        lock(&self.shared.progress).insert(replica, Arc::clone(&progress));
        lock(&self.shared.scrubbers).insert(replica, Scrubber::new(&log));
        let log = ReplicaLog {
            log,
            progress,
            shared: Arc::clone(&self.shared),
            syncer: Arc::clone(&self.syncer),
            epoch,
            scratch: BytesMut::new(),
            appended: 0,
            unwritten: (0, 0),
            in_flight: VecDeque::new(),
            lag_bytes: 0,
            released: 0,
        };
        Ok((log, contents))
    }

    /// Lets the log of a replica hold all that any journal of the node has for it, before it is opened.
    pub(crate) fn settle(&self, directory: &Path, replica: ReplicaId) -> Result<(), LogError> {
        let incarnation = Log::incarnation_at(directory, self.identity(replica))?;
        self.syncers.iter().try_for_each(|syncer| syncer.settle(replica, incarnation))?;
        Ok(())
    }

    /// Has made durable what was written to logs in one turn.
    pub(crate) fn submit(&self, unsynced: Vec<Unsynced>) {
        if !unsynced.is_empty() {
            self.syncer.submit_all(unsynced);
        }
    }

    /// Begins to read all logs again.
    pub(crate) fn begin_scrubbing(&self) {
        let replicas = lock(&self.shared.scrubbers).keys().rev().copied().collect();
        *lock(&self.shared.to_scrub) = replicas;
    }

    /// Reads some more of the logs; gives how much, in bytes, or none once all were read.
    pub(crate) fn scrub_some(&self) -> Option<u64> {
        let replica = *lock(&self.shared.to_scrub).last()?;
        let (step, opening) = match lock(&self.shared.scrubbers).get_mut(&replica) {
            Some(scrubber) => (scrubber.step(), scrubber.opening()),
            None => (None, 0),
        };
        let scrubbed = match step {
            Some(Ok(scrubbed)) if !scrubbed.is_complete => return Some(scrubbed.bytes),
            Some(Ok(scrubbed)) => scrubbed.bytes,
            Some(Err(error)) if error.shortage().is_some() => {
                tracing::warn!(%replica, %error, "a log cannot be read again now, and will be in the next pass");
                0
            }
            Some(Err(error)) => {
                lock(&self.shared.findings).push(Finding { replica, opening, error });
                0
            }
            // It is not used any more.
            None => 0,
        };
        lock(&self.shared.to_scrub).pop();
        Some(scrubbed)
    }

    /// True if reading logs again has found something.
    pub(crate) fn has_findings(&self) -> bool {
        !lock(&self.shared.findings).is_empty()
    }

    /// The faults that reading logs again has found since this was asked last, of logs that are in use.
    pub(crate) fn take_findings(&self) -> Vec<(ReplicaId, LogError)> {
        let findings = std::mem::take(&mut *lock(&self.shared.findings));
        let progress = lock(&self.shared.progress);
        let is_in_use = |found: &Finding| {
            progress.get(&found.replica).is_some_and(|known| known.opening == found.opening)
        };
        findings.into_iter().filter(is_in_use).map(|found| (found.replica, found.error.into())).collect()
    }

    /// The writes so far; how much lags behind is known to the replicas.
    pub(crate) fn status(&self, lag_bytes: u64) -> LogStatus {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { writes, records, bytes } = &self.shared.counters;
        LogStatus {
            syncs: self.syncer.syncs(),
            writes: read(writes),
            records: read(records),
            bytes: read(bytes),
            lag_bytes,
        }
    }

    fn identity(&self, replica: ReplicaId) -> LogIdentity {
        LogIdentity { cluster: self.cluster, replica }
    }
}

fn start_syncer(journal: Option<Journal>, waker: TurnWaker) -> std::io::Result<(Arc<Syncer>, Arc<Shared>)> {
    let shared = Arc::new(Shared::default());
    let syncer = Syncer::start_with(journal, {
        let shared = Arc::clone(&shared);
        move |reports| {
            shared.on_reports(reports);
            // Once for all of them: the turn that follows serves them together.
            waker.wake();
        }
    })?;
    Ok((Arc::new(syncer), shared))
}

impl Shared {
    /// Called by the thread that syncs.
    fn on_reports(&self, reports: Vec<Report>) {
        let known = lock(&self.progress);
        for report in reports {
            let Some(progress) = known.get(&report.replica) else { continue };
            // Of a log that was given up: its positions mean nothing in the one that is open now.
            if progress.opening != report.opening {
                continue;
            }
            match report.result {
                Ok(position) => {
                    progress.durable.fetch_max(position.as_u64(), Ordering::AcqRel);
                }
                Err(error) => *lock(&progress.error) = Some(error),
            }
        }
    }
}

/// The log of one replica, as its event loop uses it.
#[derive(Debug)]
pub(crate) struct ReplicaLog {
    log: Log,
    progress: Arc<Progress>,
    shared: Arc<Shared>,
    syncer: Arc<Syncer>,
    /// The membership under which records are written.
    epoch: Epoch,
    scratch: BytesMut,
    /// The position after the last record.
    appended: Mark,
    /// How many records and bytes were appended since the last write.
    unwritten: (u64, u64),
    /// The writes that are not durable: up to which mark, and how many bytes.
    in_flight: VecDeque<(Mark, u64)>,
    lag_bytes: u64,
    /// Up to where the machine has been told that its records are durable.
    released: Mark,
}

impl ReplicaLog {
    /// Appends a record.
    pub(crate) fn append(&mut self, record: &impl Wire) -> Mark {
        self.scratch.clear();
        encode_record(self.epoch, record, &mut self.scratch);
        self.appended = self.log.append(&self.scratch).as_u64();
        self.unwritten.0 += 1;
        self.unwritten.1 += self.scratch.len() as u64;
        self.lag_bytes += self.scratch.len() as u64;
        self.appended
    }

    /// Records are written under this membership from here on.
    pub(crate) fn set_epoch(&mut self, epoch: Epoch) {
        self.epoch = epoch;
    }

    /// The position after the last record, also of one from before a restart.
    pub(crate) fn end(&self) -> Mark {
        self.log.end().as_u64()
    }

    /// Gives up the records up to a mark that is durable.
    pub(crate) fn truncate(&mut self, up_to: Mark) {
        if let Some(truncation) = self.log.truncate(Position::from_u64(up_to)) {
            self.syncer.truncate(truncation);
        }
    }

    /// Gives what was appended, which has to be made durable.
    pub(crate) fn write(&mut self) -> Result<Option<Unsynced>, LogError> {
        let Some(unsynced) = self.log.write_later()? else { return Ok(None) };
        let (records, bytes) = std::mem::take(&mut self.unwritten);
        self.in_flight.push_back((self.appended, bytes));
        let counters = &self.shared.counters;
        counters.writes.fetch_add(1, Ordering::Relaxed);
        counters.records.fetch_add(records, Ordering::Relaxed);
        counters.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(Some(unsynced))
    }

    /// Up to where the log is durable, if that is further than when this was asked last.
    pub(crate) fn take_durable(&mut self) -> Result<Option<Mark>, LogError> {
        let durable = self.progress.durable.load(Ordering::Acquire);
        if durable > self.released {
            self.released = durable;
            while let Some((_, bytes)) = self.in_flight.pop_front_if(|(mark, _)| *mark <= durable) {
                self.lag_bytes -= bytes;
            }
            return Ok(Some(durable));
        }
        match lock(&self.progress.error).take() {
            Some(error) => Err(error.into()),
            None => Ok(None),
        }
    }

    /// How much was appended and is not durable, in bytes.
    pub(crate) fn lag_bytes(&self) -> u64 {
        self.lag_bytes
    }

    /// Makes everything durable and notes that it is.
    pub(crate) fn close(self) -> Result<(), LogError> {
        // Submitted records are written first.
        self.syncer.settle(self.log.identity().replica, self.log.incarnation())?;
        Ok(self.log.close()?)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
