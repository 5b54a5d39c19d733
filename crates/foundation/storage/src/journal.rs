//! The journal of a node: what was written to several of its logs, made durable by one sync.
//!
//! ```text
//!   many logs ── written in one turn ──▶ their files        pages that the operating system writes when it likes
//!                        │
//!                        └── the same bytes ──▶ journal ── one sync ──▶ all of them are durable
//!
//!   now and then: each file is synced, and the journal says up to where it is not needed any more
//! ```
//!
//! To sync a file costs about as much however little of it has changed, so a node that writes to sixty logs in a turn would pay for sixty
//! syncs. With a journal it pays for one. The journal is a [`Log`] itself, with records of two kinds: *writes*, which are bytes with the
//! places in segments where they belong, and *settled*, by which all writes up to some number are durable in the files of their logs.
//!
//! # Why nothing that was acknowledged is lost
//! A log counts as durable up to a position once each byte before that was synced in its own file, or stands in a durable record of writes
//! that is not settled. Before any log of a node is opened, [`Journal::open_in`] writes all that is not settled to the segments where it
//! belongs once more and syncs these, so that the files hold then what the logs had counted as durable.
//!
//! * *Bytes are never put over others.* A place in a segment is written to once, until its log is opened again, which may cut off what is torn
//!   and write other records there. So a log is only opened while no write to it is unsettled: before the first one is opened in a process
//!   because of what opening the journal does, and later because [`Syncer::settle`](super::Syncer::settle) comes first.
//! * *A write belongs to one log.* It names the incarnation of the log. Where another log of the same replica, or none, has taken the place, it
//!   is passed over.
//! * *Settled is what was synced.* If the sync of a file fails, or has failed before, nothing is settled any more in this process, and each log
//!   is synced for itself from then on. The next process writes what is not settled once more.
//! * *Gaps are not journalled.* A log whose earlier writes are not durable, or that has written much, is synced for itself.
//! * *A segment that is missing is missed.* If a write belongs to a segment after the last one that is there, that one is marked as durable
//!   up to the write, so that the log is refused, as it is if a file had lost what was synced.
//!
//! A journal that is damaged, or lost, is refused: any log may lack what it held. What was not durable of it yet is cut off as in any log.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use quorate_core::{ReplicaId, ReplicaIndex, ShardId};

use super::directory::Directory;
use super::log::{Log, Prepare, Shared, Truncation, Unsynced, Write, random_incarnation};
use super::segment::{self, Segment};
use super::{Files, LogError, LogIdentity, LogOptions, Position};

/// From so many logs on, that are written to together, one sync of the journal costs less than those of the logs.
const LOGS_MIN: usize = 2;

/// Beside so many bytes for each log the syncs of the logs cost little.
const BYTES_PER_LOG_MAX: usize = 16 << 10;

/// So much of what belongs to the file of a log is gathered before it is handed to the operating system, in bytes.
const GATHERED_BYTES_MAX: usize = 16 << 10;

/// Records of the journal begin with one of these.
const WRITES: u8 = 1;
const SETTLED: u8 = 2;

/// What stands before the bytes of a write: shard, index, incarnation, segment, offset, length.
const WRITE_HEADER_BYTES: usize = 4 + 1 + 8 + 4 + 4 + 4;

/// What was written to several logs, until it is durable in their own files.
#[derive(Debug)]
pub struct Journal<D: Directory = Files> {
    log: Log<D>,
    /// The number of the next record of writes.
    next: u64,
    /// The logs with writes that are durable here only, by [`Log::opening`].
    owed: BTreeMap<u64, Owed<D>>,
    /// Where the log of the journal ended when their files were synced last.
    settled_at: Position,
    /// How much was written since then, in bytes.
    unsettled_bytes: usize,
    /// True while files are being synced.
    is_settling: bool,
    /// True once something has failed: nothing is written, and nothing settled.
    is_pinned: bool,
    /// A segment of the journal to create ahead of time.
    prepare: Option<Prepare<D>>,
    /// How many records in a row have found no room.
    without_room: u32,
}

/// A log that has writes which are durable in the journal only.
#[derive(Debug)]
struct Owed<D: Directory> {
    log: Arc<Shared<D>>,
    segments: Vec<Arc<Segment<D>>>,
    /// What was not handed to the operating system yet, in bytes and in order, and where it ends.
    gathered: Vec<Write<D>>,
    gathered_bytes: usize,
    through: Position,
    /// True if handing something to the operating system has failed.
    has_failed: bool,
}

impl<D: Directory> Owed<D> {
    /// Takes over writes that are durable in the journal.
    fn take_over(&mut self, unsynced: &mut Unsynced<D>) {
        for segment in &unsynced.segments {
            if !self.segments.iter().any(|known| Arc::ptr_eq(known, segment)) {
                self.segments.push(Arc::clone(segment));
            }
        }
        let writes = unsynced.writes.take().unwrap_or_default();
        self.gathered_bytes += writes.iter().map(|write| write.bytes.len()).sum::<usize>();
        self.gathered.extend(writes);
        self.through = unsynced.through();
        if self.gathered_bytes >= GATHERED_BYTES_MAX {
            self.write_out();
        }
    }

    /// Hands what was gathered to the operating system.
    fn write_out(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        let gathered = std::mem::take(&mut self.gathered);
        self.gathered_bytes = 0;
        if let Err(error) = self.log.write_out(gathered.iter(), self.through) {
            tracing::error!(replica = %self.log.identity.replica, %error, "what the journal holds cannot be settled");
            self.log.fail(&error);
            self.has_failed = true;
        }
    }
}

/// Files to sync, so that the journal is not needed for what was written to them.
#[derive(Debug)]
pub(super) struct Settling<D: Directory = Files> {
    owed: BTreeMap<u64, Owed<D>>,
    /// All writes up to this number are settled by that.
    through: u64,
    /// The journal up to here is not needed then.
    end: Position,
}

/// What opening a journal has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// How many writes were done once more.
    pub writes: u64,
    /// How many were passed over, because their logs are gone, or do not need them any more.
    pub passed_over: u64,
}

impl Journal {
    /// The journal in a directory, which is created if it is to be new. `place` says in which directory a replica has its log.
    ///
    /// # Errors
    /// There is no journal where one should be, or one where none should be; it cannot be read; or the operating system refuses. No log may
    /// be opened then.
    pub fn open(
        directory: &Path,
        cluster: u64,
        is_new: bool,
        place: impl Fn(ReplicaId) -> PathBuf,
    ) -> Result<(Journal, Replayed), LogError> {
        let files = Files::at(directory);
        let options = Journal::<Files>::OPTIONS;
        if is_new {
            let journal = Journal::create_in(&files, cluster, options, random_incarnation())?;
            return Ok((journal, Replayed::default()));
        }
        Journal::open_in(&files, cluster, options, |replica| Files::at(&place(replica)))
    }
}

impl<D: Directory> Journal<D> {
    /// From 1 MiB, so that a node is created at once, to 8 MiB, so that files are rarely synced.
    pub const OPTIONS: LogOptions = LogOptions { segment_bytes_first: 1 << 20, segment_bytes_max: 8 << 20 };

    /// A journal without records. No other log may ever have the same incarnation.
    ///
    /// # Errors
    /// As [`Log::create_in`].
    pub fn create_in(
        directory: &D,
        cluster: u64,
        options: LogOptions,
        incarnation: u64,
    ) -> Result<Self, LogError> {
        let log = Log::create_in(directory, identity(cluster), options, incarnation)?;
        Ok(Journal::around(log, 1))
    }

    /// Opens a journal, and lets the files of all logs hold what they had counted as durable. `place` says where a replica has its log.
    ///
    /// # Errors
    /// As [`Log::open_in`]; or a file cannot be written or synced.
    pub fn open_in(
        directory: &D,
        cluster: u64,
        options: LogOptions,
        place: impl Fn(ReplicaId) -> D,
    ) -> Result<(Self, Replayed), LogError> {
        let (log, records) = Log::open_in(directory, identity(cluster), options)?;
        let mut unsettled: Vec<(u64, Bytes)> = Vec::new();
        let mut last = 0;
        for record in records {
            let mut record = record?;
            let unreadable = || LogError::Corrupt {
                file: directory.path().to_owned(),
                offset: 0,
                what: "a record of the journal cannot be understood",
            };
            let kind = record.try_get_u8().map_err(|_| unreadable())?;
            let number = record.try_get_u64_le().map_err(|_| unreadable())?;
            match kind {
                WRITES => unsettled.push((number, record)),
                SETTLED => unsettled.retain(|(earlier, _)| *earlier > number),
                _ => return Err(unreadable()),
            }
            last = last.max(number);
        }
        let mut journal = Journal::around(log, last + 1);
        let mut replay = Replay { cluster, place, logs: BTreeMap::new(), replayed: Replayed::default() };
        for (_, record) in &unsettled {
            replay.replay(record.clone())?;
        }
        replay.sync()?;
        if !unsettled.is_empty() {
            let end = journal.log.end();
            if let Some(truncation) = journal.note_settled(last, end)? {
                truncation.run()?;
            }
        }
        Ok((journal, replay.replayed))
    }

    fn around(log: Log<D>, next: u64) -> Self {
        let settled_at = log.end();
        Journal {
            log,
            next,
            owed: BTreeMap::new(),
            settled_at,
            unsettled_bytes: 0,
            is_settling: false,
            is_pinned: false,
            prepare: None,
            without_room: 0,
        }
    }

    /// Makes what was written to several logs durable by one sync, as far as that is cheaper, and gives back what has to be synced for itself. The
    /// rest is durable.
    pub fn commit(&mut self, batch: Vec<Unsynced<D>>) -> Committed<D> {
        let (mut together, mut alone): (Vec<_>, Vec<_>) =
            batch.into_iter().partition(|unsynced| !self.is_pinned && is_journalled(unsynced));
        let bytes: usize = together.iter().map(bytes_of).sum();
        let contents = bytes + 16;
        // More than a part of a segment would find no room before the next one is asked for.
        let bytes_max = (together.len() * BYTES_PER_LOG_MAX).min(self.log.segment_bytes() as usize / 4);
        let is_worth_while = together.len() >= LOGS_MIN && bytes <= bytes_max;
        if !is_worth_while || !self.has_room_for(contents) || !self.write(&together, contents) {
            alone.append(&mut together);
        }
        for unsynced in &alone {
            // So that there is no gap before what follows.
            self.owed.get_mut(&unsynced.log.opening).into_iter().for_each(Owed::write_out);
        }
        if together.is_empty() {
            return Committed { together, alone };
        }
        self.unsettled_bytes += contents;
        for unsynced in &mut together {
            let log = Arc::clone(&unsynced.log);
            let owed = self.owed.entry(log.opening).or_insert_with(|| Owed {
                log: Arc::clone(&log),
                segments: Vec::new(),
                gathered: Vec::new(),
                gathered_bytes: 0,
                through: unsynced.from,
                has_failed: false,
            });
            owed.take_over(unsynced);
            // One that has failed acknowledges nothing more.
            if !log.has_failed() {
                log.durable.fetch_max(unsynced.through().as_u64(), Ordering::AcqRel);
            }
        }
        Committed { together, alone }
    }

    /// True if a record finds room. A journal never waits for room, and fails for none: each log is synced for itself meanwhile.
    fn has_room_for(&mut self, contents: usize) -> bool {
        /// There may have been no room for a segment when it was asked for.
        const ASK_AGAIN_EVERY: u32 = 256;

        if self.log.has_room_for(contents) {
            self.without_room = 0;
            return true;
        }
        self.without_room += 1;
        if self.without_room.is_multiple_of(ASK_AGAIN_EVERY) {
            self.prepare = Some(self.log.next_to_prepare());
        }
        false
    }

    /// Writes a record of writes, and makes it durable. False if that fails.
    fn write(&mut self, batch: &[Unsynced<D>], contents: usize) -> bool {
        let number = self.next;
        self.next += 1;
        self.log.append_with(|record| {
            record.reserve(contents);
            record.put_u8(WRITES);
            record.put_u64_le(number);
            batch.iter().for_each(|unsynced| put_writes(record, unsynced));
        });
        let result = self.sync();
        if let Err(error) = &result {
            self.pin(error);
        }
        result.is_ok()
    }

    fn sync(&mut self) -> Result<(), LogError> {
        let Some(mut unsynced) = self.log.write()? else { return Ok(()) };
        if let Some(wanted) = unsynced.prepare.take() {
            self.prepare = Some(wanted);
        }
        unsynced.sync()
    }

    /// A segment of the journal to create ahead of time.
    pub(super) fn take_prepare(&mut self) -> Option<Prepare<D>> {
        self.prepare.take()
    }

    /// Creates the segment that the journal needs next, if it will soon. For journals without threads.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn prepare(&mut self) -> Result<(), LogError> {
        self.take_prepare().map_or(Ok(()), Prepare::run)
    }

    /// True if some log has writes that are durable here only.
    pub(super) fn is_owed(&self) -> bool {
        !self.is_pinned && (self.is_settling || !self.owed.is_empty())
    }

    /// True if nothing is written down here that would be done once more if the node began again.
    pub(super) fn is_settled(&self) -> bool {
        !self.is_pinned && !self.is_settling && self.owed.is_empty()
    }

    /// True if writes to a log of this replica are durable here only, or would be done once more if the node began again.
    pub(super) fn holds(&self, replica: ReplicaId) -> bool {
        let holds = |owed: &Owed<D>| owed.log.identity.replica == replica;
        self.is_pinned || self.is_settling || self.owed.values().any(holds)
    }

    /// True if the journal has grown so much that it should be settled.
    pub(super) fn is_long(&self) -> bool {
        self.unsettled_bytes >= self.log.segment_bytes() as usize / 2
    }

    /// The files to sync so that what was written to them so far is settled; none if there are none, or some are being synced.
    pub(super) fn begin_settling(&mut self) -> Option<Settling<D>> {
        if self.is_pinned || self.is_settling || self.owed.is_empty() {
            return None;
        }
        self.is_settling = true;
        self.unsettled_bytes = 0;
        self.write_out();
        let owed = std::mem::take(&mut self.owed);
        Some(Settling { owed, through: self.next - 1, end: self.log.end() })
    }

    /// Files were synced, or could not be: gives what the journal does not need any more.
    pub(super) fn end_settling(&mut self, settled: Settled) -> Option<Truncation<D>> {
        self.is_settling = false;
        let noted = match settled {
            Settled { through: Some(through), end } => self.note_settled(through, end),
            // Which has said why.
            Settled { through: None, .. } => {
                self.is_pinned = true;
                self.write_out();
                return None;
            }
        };
        noted.unwrap_or_else(|error| {
            self.pin(&error);
            None
        })
    }

    /// Goes on without the journal.
    fn pin(&mut self, error: &LogError) {
        tracing::error!(%error, "the journal cannot be written, and each log is synced for itself from now on");
        self.is_pinned = true;
        self.write_out();
    }

    /// Hands all that was gathered to the operating system.
    pub(super) fn write_out(&mut self) {
        self.owed.values_mut().for_each(Owed::write_out);
    }

    /// Settles all that was written so far, and waits for that. False if it cannot be settled before the node begins again.
    ///
    /// # Errors
    /// What is not needed any more cannot be removed.
    pub fn settle(&mut self) -> Result<bool, LogError> {
        assert!(!self.is_settling, "files are synced elsewhere");
        if let Some(settling) = self.begin_settling() {
            let settled = settling.run();
            self.end_settling(settled).map_or(Ok(()), Truncation::run)?;
        }
        Ok(!self.is_pinned)
    }

    /// Notes durably that all writes up to a number are durable in their own files, and gives up what was written before `end`.
    fn note_settled(&mut self, through: u64, end: Position) -> Result<Option<Truncation<D>>, LogError> {
        self.log.append_with(|record| {
            record.put_u8(SETTLED);
            record.put_u64_le(through);
        });
        self.sync()?;
        self.settled_at = self.settled_at.max(end);
        Ok(self.log.truncate(self.settled_at))
    }
}

/// What became of writes to several logs.
#[derive(Debug)]
pub struct Committed<D: Directory = Files> {
    /// These are durable, unless their log had failed before.
    pub together: Vec<Unsynced<D>>,
    /// These have to be synced, each for itself.
    pub alone: Vec<Unsynced<D>>,
}

/// How syncing files has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settled {
    /// All writes up to here are settled; none if a sync has failed.
    through: Option<u64>,
    end: Position,
}

impl<D: Directory> Settling<D> {
    /// How many files there are.
    pub(super) fn files(&self) -> usize {
        self.owed.values().map(|owed| owed.segments.len()).sum()
    }

    /// Syncs the files. A log whose file cannot be synced is refused from then on.
    pub(super) fn run(self) -> Settled {
        let mut through = Some(self.through);
        for Owed { log, segments, has_failed, .. } in self.owed.values() {
            if *has_failed {
                through = None;
            }
            for segment in segments {
                if let Err(error) = segment.sync() {
                    tracing::error!(replica = %log.identity.replica, %error, "what the journal holds cannot be settled");
                    log.fail(&error);
                    through = None;
                }
            }
        }
        Settled { through, end: self.end }
    }
}

/// Who the journal is among the logs of a node.
fn identity(cluster: u64) -> LogIdentity {
    LogIdentity { cluster, replica: ReplicaId { shard: ShardId(u32::MAX), index: ReplicaIndex(u8::MAX) } }
}

/// True if what was written can stand in a journal: it is known, and all before it is durable.
fn is_journalled<D: Directory>(unsynced: &Unsynced<D>) -> bool {
    unsynced.is_little() && unsynced.from <= unsynced.log.durable()
}

/// What the writes to a log take in the journal, in bytes.
fn bytes_of<D: Directory>(unsynced: &Unsynced<D>) -> usize {
    unsynced.writes.iter().flatten().map(|write| WRITE_HEADER_BYTES + write.bytes.len()).sum()
}

fn put_writes<D: Directory>(record: &mut BytesMut, unsynced: &Unsynced<D>) {
    let (replica, incarnation) = (unsynced.log.identity.replica, unsynced.log.incarnation);
    for Write { segment, offset, bytes } in unsynced.writes.iter().flatten() {
        record.put_u32_le(replica.shard.0);
        record.put_u8(replica.index.0);
        record.put_u64_le(incarnation);
        record.put_u32_le(segment.header.number);
        record.put_u32_le(*offset);
        record.put_u32_le(bytes.len() as u32);
        record.put_slice(bytes);
    }
}

/// Writes being done once more.
struct Replay<D: Directory, P: Fn(ReplicaId) -> D> {
    cluster: u64,
    place: P,
    logs: BTreeMap<ReplicaId, Opened<D>>,
    replayed: Replayed,
}

/// Bytes that belong to a place in a segment, which is named by its number.
struct Place {
    segment: u32,
    offset: u32,
    bytes: Bytes,
}

/// A log to whose segments writes are done once more.
struct Opened<D: Directory> {
    directory: D,
    /// The numbers of the segments that are there.
    there: BTreeSet<u32>,
    segments: BTreeMap<u32, Segment<D>>,
}

impl<D: Directory, P: Fn(ReplicaId) -> D> Replay<D, P> {
    /// Does the writes of a record once more.
    fn replay(&mut self, mut record: Bytes) -> Result<(), LogError> {
        while record.len() >= WRITE_HEADER_BYTES {
            let shard = ShardId(record.get_u32_le());
            let replica = ReplicaId { shard, index: ReplicaIndex(record.get_u8()) };
            let incarnation = record.get_u64_le();
            let (segment, offset, length) = (record.get_u32_le(), record.get_u32_le(), record.get_u32_le());
            let bytes = record.split_to((length as usize).min(record.len()));
            let write = Place { segment, offset, bytes };
            match self.write(replica, incarnation, &write)? {
                true => self.replayed.writes += 1,
                false => self.replayed.passed_over += 1,
            }
        }
        Ok(())
    }

    /// Does a write once more; false if its log does not need it.
    fn write(&mut self, replica: ReplicaId, incarnation: u64, write: &Place) -> Result<bool, LogError> {
        let identity = LogIdentity { cluster: self.cluster, replica };
        if let std::collections::btree_map::Entry::Vacant(vacant) = self.logs.entry(replica) {
            let directory = (self.place)(replica);
            let there = segment::list(&directory)?.into_iter().collect();
            vacant.insert(Opened { directory, there, segments: BTreeMap::new() });
        }
        let Some(opened) = self.logs.get_mut(&replica) else { return Ok(false) };
        let Some(last) = opened.there.last().copied() else { return Ok(false) };
        if write.segment > last {
            let Some(segment) = opened.segment(last, identity, incarnation)? else { return Ok(false) };
            segment.mark(Position::new(write.segment, write.offset + write.bytes.len() as u32))?;
            return Ok(false);
        }
        if !opened.there.contains(&write.segment) {
            // It was given up; or it is missed when the log is opened.
            return Ok(false);
        }
        let Some(segment) = opened.segment(write.segment, identity, incarnation)? else { return Ok(false) };
        segment.write(&write.bytes, write.offset.into())?;
        Ok(true)
    }

    /// Makes the writes durable.
    fn sync(&self) -> Result<(), LogError> {
        let segments = self.logs.values().flat_map(|opened| opened.segments.values());
        segments.into_iter().try_for_each(Segment::sync)
    }
}

impl<D: Directory> Opened<D> {
    /// A segment of the log, if it is of this incarnation. What else is wrong with it is told when the log is opened.
    fn segment(
        &mut self,
        number: u32,
        identity: LogIdentity,
        incarnation: u64,
    ) -> Result<Option<&Segment<D>>, LogError> {
        if let std::collections::btree_map::Entry::Vacant(vacant) = self.segments.entry(number) {
            let header = match segment::peek(&self.directory, number, identity) {
                Ok((header, _)) => header,
                Err(error @ LogError::Io { .. }) => return Err(error),
                Err(_) => return Ok(None),
            };
            vacant.insert(Segment::open(&self.directory, header)?);
        }
        Ok(self.segments.get(&number).filter(|segment| segment.header.incarnation == incarnation))
    }
}
