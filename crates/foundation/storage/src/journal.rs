//! The journal of a node: the writes to several of its logs, made durable by one sync.
//!
//! ```text
//!   many logs ── written in one turn ──▶ their files        pages that the operating system writes when it likes
//!                        │
//!                        └── the same bytes ──▶ journal ── one sync ──▶ all of them are durable
//!
//!   every few seconds: each file is synced, and the journal says up to where it is not needed any more
//! ```
//!
//! To sync a file costs about as much however little of it has changed, so a node that writes to sixty logs in a turn would pay for sixty
//! syncs. With a journal it pays for one. The journal is a [`Log`] itself, with records of two kinds: *writes*, which are bytes with the
//! places in segments where they belong, and *settled*, by which all writes up to some number are durable in the files of their logs, or kept
//! in a file beside the journal, which is named then. `kept` says how these look, `settling` how files are synced, and `replay` how the journal
//! is opened.
//!
//! # Why nothing that was acknowledged is lost
//! A log counts as durable up to a position once each byte before that was synced in its own file, or stands in a durable record of writes
//! that is not settled, or is kept. Before any log of a node is opened, [`Journal::open_in`] writes all that is not settled to the segments where
//! it belongs once more and syncs these, so that the files hold then what the logs had counted as durable.
//!
//! * *Bytes are never put over others.* A place in a segment is written to once, until its log is opened again, which may cut off what is torn
//!   and write other records there. So a log is only opened once its files hold all its writes: before the first one is opened in a process
//!   because of what opening the journal does, and later because [`Syncer::settle`](super::Syncer::settle) comes first. From then on its writes are
//!   never cut off, as the log holds what stands before them too. So it harms nothing to do them once more, even if settling them was not noted.
//! * *A write belongs to one log.* It names the incarnation of the log. Where another log of the same replica has taken the place, or the node has
//!   given the replica up, no log needs it.
//! * *Writes to a log that is away are kept.* The same holds for a log that cannot be read, written to or synced. Nothing of such a log is acknowledged
//!   any more, and it is only opened once it has been given them. Files that keep writes are missed if they are lost. All other logs go on.
//! * *Settled is what was synced.* Of two syncs of one file that fail the operating system tells one, so syncs of a segment take turns, and none
//!   succeeds after one that has failed. If neither a file can be synced nor its writes be kept, nothing is settled any more in this process.
//! * *Gaps are not journalled.* A log whose earlier writes are not durable, or that has written much, is synced for itself.
//! * *A journal belongs to a node.* The node remembers its incarnation and how often it was opened, so the journal of another node, or an older copy
//!   of this one, is refused.
//!
//! A journal that is damaged, or lost, is refused: any log may lack what it held. Records that were not durable yet are cut off as in any log.

mod kept;
mod replay;
mod settling;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Buf, BufMut, Bytes};
use quorate_core::{ReplicaId, ReplicaIndex, ShardId};

use self::kept::{KeptName, WRITE_HEADER_BYTES, Whose};
pub use self::replay::Replayed;
use self::replay::{Done, Replay};
use self::settling::{Held, Owed};
pub use self::settling::{Settled, Settling};
use super::directory::Directory;
use super::log::{Log, Prepare, Truncation, Unsynced, random_incarnation};
use super::recovery::Records;
use super::{Files, LogError, LogIdentity, LogOptions, Position};

/// Beside so many bytes for each log the syncs of the logs cost little.
const BYTES_PER_LOG_MAX: usize = 16 << 10;

/// Records of the journal begin with one of these.
const WRITES: u8 = 1;
const SETTLED: u8 = 2;

/// How a journal goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalOptions {
    /// How it divides itself into files.
    pub log: LogOptions,
    /// From so many logs on, that are written to together, one sync of the journal takes the place of those of the logs.
    pub logs_min: usize,
}

impl Default for JournalOptions {
    /// Segments from 1 MiB, so that a node is created at once, to 8 MiB, so that files are rarely synced. One log alone is synced as cheaply
    /// without a journal.
    fn default() -> Self {
        let log = LogOptions { segment_bytes_first: 1 << 20, segment_bytes_max: 8 << 20 };
        JournalOptions { log, logs_min: 2 }
    }
}

/// By what a node knows its journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalId {
    /// No other journal, and no log, has the same.
    pub incarnation: u64,
    /// How often it was opened, and the node noted that.
    pub opened: u64,
}

/// Where a replica has its log, as far as its node knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts<D> {
    /// In this directory, if it is there.
    Here(D),
    /// In this directory, where something stands that is not, or may not be, of this node. It says nothing of the log.
    Hidden(D),
    /// Nowhere: the node has given the replica up.
    GivenUp,
}

impl<D> Whereabouts<D> {
    fn map<E>(self, of: impl FnOnce(D) -> E) -> Whereabouts<E> {
        match self {
            Whereabouts::Here(directory) => Whereabouts::Here(of(directory)),
            Whereabouts::Hidden(directory) => Whereabouts::Hidden(of(directory)),
            Whereabouts::GivenUp => Whereabouts::GivenUp,
        }
    }
}

/// The journal of a node: it holds the writes of several logs until they are durable in their own files.
#[derive(Debug)]
pub struct Journal<D: Directory = Files> {
    directory: D,
    log: Log<D>,
    logs_min: usize,
    /// How often it was opened.
    opened: u64,
    /// The number of the next record of writes.
    next: u64,
    /// The logs with writes that are durable here only, by [`Log::opening`].
    owed: BTreeMap<u64, Owed<D>>,
    /// The replicas whose files are being synced; none while no files are.
    settling: Option<BTreeSet<ReplicaId>>,
    /// The logs that lack writes.
    held: BTreeMap<Whose, Held<D>>,
    /// The number of the next file that keeps writes.
    next_file: u64,
    /// All writes up to this number are settled.
    settled_through: u64,
    /// Where the log of the journal ended when their files were synced last.
    settled_at: Position,
    /// How much was written since then, in bytes.
    unsettled_bytes: usize,
    /// How much will be settled once the files are synced that are being synced, in bytes.
    settling_bytes: usize,
    /// True while records are written and not durable.
    is_begun: bool,
    /// True once the journal itself has failed: nothing is written, and nothing settled.
    is_pinned: bool,
    /// A segment of the journal to create ahead of time.
    prepare: Option<Prepare<D>>,
    /// How many records in a row have found no room.
    without_room: u32,
}

impl Journal {
    /// Creates a journal in a directory.
    ///
    /// # Errors
    /// As [`Log::create`].
    pub fn create(directory: &Path, cluster: u64) -> Result<Journal, LogError> {
        let options = JournalOptions::default();
        Journal::create_in(&Files::at(directory), cluster, options, random_incarnation())
    }

    /// Opens the journal in a directory. `place` says in which directory a replica has its log.
    ///
    /// # Errors
    /// As [`Journal::open_in`].
    pub fn open(
        directory: &Path,
        cluster: u64,
        id: JournalId,
        place: impl Fn(ReplicaId) -> Whereabouts<PathBuf>,
    ) -> Result<(Journal, Replayed), LogError> {
        let place = |replica| place(replica).map(|path| Files::at(&path));
        Journal::open_in(&Files::at(directory), cluster, JournalOptions::default(), id, place)
    }

    /// True if a directory has a journal, whatever its incarnation, with something that logs have acknowledged and may lack.
    ///
    /// # Errors
    /// The journal cannot be read, is in use, or is of another cluster.
    pub fn is_needed(directory: &Path, cluster: u64) -> Result<bool, LogError> {
        let directory = Files::at(directory);
        if !kept::list(&directory)?.is_empty() {
            return Ok(true);
        }
        match Log::open_in(&directory, identity(cluster), JournalOptions::default().log) {
            Ok((_lock, records)) => {
                let Contents { unsettled, noted, .. } = Contents::read(&directory, records)?;
                Ok(!unsettled.is_empty() || !noted.is_empty())
            }
            Err(LogError::Missing { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl<D: Directory> Journal<D> {
    /// A journal without records. No other log may ever have the same incarnation.
    ///
    /// # Errors
    /// As [`Log::create_in`].
    pub fn create_in(
        directory: &D,
        cluster: u64,
        options: JournalOptions,
        incarnation: u64,
    ) -> Result<Self, LogError> {
        let log = Log::create_in(directory, identity(cluster), options.log, incarnation)?;
        Ok(Journal::around(directory, log, options))
    }

    /// Opens a journal, and lets the files of all logs hold what they had counted as durable. `place` says where a replica has its log.
    /// `id` is what [`Journal::id`] said when the journal was opened last, or created.
    ///
    /// # Errors
    /// As [`Log::open_in`]; or it is another journal, or an older copy. No log may be opened then.
    pub fn open_in(
        directory: &D,
        cluster: u64,
        options: JournalOptions,
        id: JournalId,
        place: impl Fn(ReplicaId) -> Whereabouts<D>,
    ) -> Result<(Self, Replayed), LogError> {
        let (log, records) = Log::open_in(directory, identity(cluster), options.log)?;
        let Contents { unsettled, last, opened, noted } = Contents::read(directory, records)?;
        // The node may have ended before it had noted that it was opened, as often as may be: so the count goes on from the node's.
        let is_it =
            log.shared().incarnation == id.incarnation && (opened == id.opened || opened == id.opened + 1);
        if !is_it {
            return Err(LogError::ForeignJournal { directory: directory.path().to_owned() });
        }
        let mut journal = Journal::around(directory, log, options);
        (journal.next, journal.opened) = (last + 1, id.opened + 1);
        let mut replay = Replay::begin(directory, noted)?;
        for (_, record) in unsettled {
            if !replay.add(record) {
                return Err(unreadable(directory));
            }
        }
        let Done { replayed, held, unneeded, failure, next_file } = replay.run(directory, cluster, place);
        journal.next_file = next_file;
        journal.held = held.into_iter().collect();
        match failure {
            None => journal.note_opened(last, &unneeded),
            Some(error) => journal.pin(&error),
        }
        Ok((journal, replayed))
    }

    /// Notes that all that was written before it was opened is settled.
    fn note_opened(&mut self, last: u64, unneeded: &[KeptName]) {
        let end = self.log.end();
        match self.note_settled(last, end) {
            Ok(truncation) => {
                let removed = truncation.map_or(Ok(()), Truncation::run);
                if let Err(error) = removed.and_then(|()| kept::remove(&self.directory, unneeded)) {
                    tracing::warn!(%error, "cannot remove what is not needed any more of the journal");
                }
            }
            // For want of room, say. The next process does the same once more.
            Err(error) => self.pin(&error),
        }
    }

    fn around(directory: &D, log: Log<D>, options: JournalOptions) -> Self {
        let settled_at = log.end();
        Journal {
            directory: directory.clone(),
            log,
            logs_min: options.logs_min,
            opened: 0,
            next: 1,
            owed: BTreeMap::new(),
            settling: None,
            held: BTreeMap::new(),
            next_file: 0,
            settled_through: 0,
            settled_at,
            unsettled_bytes: 0,
            settling_bytes: 0,
            is_begun: false,
            is_pinned: false,
            prepare: None,
            without_room: 0,
        }
    }

    /// By what the node has to know it when it opens it next.
    pub fn id(&self) -> JournalId {
        // One that cannot be written to may have noted that it was opened, or not.
        let opened = if self.is_pinned { self.opened.saturating_sub(1) } else { self.opened };
        JournalId { incarnation: self.log.shared().incarnation, opened }
    }

    /// Makes what was written to several logs durable by one sync, as far as that is cheaper, and gives back what has to be synced for itself. The
    /// rest is durable.
    pub fn commit(&mut self, batch: Vec<Unsynced<D>>) -> Committed<D> {
        let begun = self.begin(batch);
        self.end(begun)
    }

    /// The first half of [`Journal::commit`]: hands records to the operating system. Until the second half nothing can be settled, and nothing
    /// else begins.
    pub fn begin(&mut self, batch: Vec<Unsynced<D>>) -> Begun<D> {
        assert!(!self.is_begun, "one batch at a time");
        let is_pinned = self.is_pinned;
        // More than a part of a segment would find no room before the next one is asked for.
        let record_bytes_max = self.log.segment_bytes() as usize / 4;
        let is_served = |unsynced: &Unsynced<D>| {
            !is_pinned && is_journalled(unsynced) && bytes_of(unsynced) <= record_bytes_max
        };
        let (mut together, mut alone): (Vec<_>, Vec<_>) = batch.into_iter().partition(is_served);
        let bytes: usize = together.iter().map(bytes_of).sum();
        let mut records = Vec::new();
        if bytes <= together.len() * BYTES_PER_LOG_MAX {
            records = divide(&together, record_bytes_max);
            records.truncate(self.room_for(&records));
        }
        let mut served: usize = records.iter().map(|record| record.logs).sum();
        if served < self.logs_min {
            (records, served) = (Vec::new(), 0);
        }
        alone.extend(together.drain(served..));
        alone.iter().for_each(|unsynced| self.write_out_before(unsynced));
        self.is_begun = !records.is_empty();
        let contents = records.iter().map(|record| record.contents).sum();
        let record = self.is_begun.then(|| self.write(&together, &records));
        Begun { together, alone, contents, record }
    }

    /// Lets the journal out of it: hands something to the operating system that is to be synced for itself.
    pub fn pass(&mut self, unsynced: &mut Unsynced<D>) {
        self.write_out_before(unsynced);
        // If that fails the log is refused, and then nothing of it is synced.
        let _ = unsynced.write();
    }

    /// Hands what the journal holds of a log to the operating system, so that there is no gap before what is synced for itself.
    fn write_out_before(&mut self, unsynced: &Unsynced<D>) {
        self.owed.get_mut(&unsynced.log.opening).into_iter().for_each(Owed::write_out);
    }

    /// The second half of [`Journal::commit`]: waits until the records are durable.
    pub fn end(&mut self, begun: Begun<D>) -> Committed<D> {
        let Begun { mut together, mut alone, contents, record } = begun;
        self.is_begun = false;
        let result = record.map_or(Ok(()), |written| written.and_then(|unsynced| unsynced.sync()));
        if let Err(error) = &result {
            self.pin(error);
            for unsynced in &together {
                // The record may be durable all the same, and be done once more: so they have to be written and synced before their logs are
                // opened again. A log that has found no room meanwhile has not written them, and comes back in this process.
                let log = &unsynced.log;
                let owed = self.owed.entry(log.opening).or_insert_with(|| Owed::new(log, unsynced.from));
                owed.remember(unsynced);
            }
            alone.append(&mut together);
        }
        if together.is_empty() {
            return Committed { together, alone };
        }
        self.unsettled_bytes += contents;
        for unsynced in &mut together {
            let log = Arc::clone(&unsynced.log);
            self.owed
                .entry(log.opening)
                .or_insert_with(|| Owed::new(&log, unsynced.from))
                .take_over(unsynced);
            // One that has failed acknowledges nothing more.
            if !log.has_failed() {
                log.durable.fetch_max(unsynced.through().as_u64(), Ordering::AcqRel);
            }
        }
        Committed { together, alone }
    }

    /// How many records find room. A journal never waits for room, and fails for none: each log is synced for itself meanwhile. The same holds
    /// while so much is not settled that it would take long to do it once more.
    fn room_for(&mut self, records: &[Record]) -> usize {
        /// Room for what notes that nothing is kept.
        const RESERVE: usize = 256;
        /// There may have been no room for a segment when it was asked for.
        const ASK_AGAIN_EVERY: u32 = 256;

        let unsettled_max = 2 * self.log.segment_bytes() as usize;
        let mut unsettled = self.unsettled_bytes + self.settling_bytes;
        let few = records.iter().map(|record| record.contents).take_while(|contents| {
            unsettled += contents;
            unsettled <= unsettled_max
        });
        let mut few = few.peekable();
        if few.peek().is_none() {
            return 0;
        }
        // Each log with something to be settled may fail, and its writes be kept. The journal may note twice how far it is settled before the next record.
        let logs = records.iter().map(|record| record.logs).sum::<usize>() + self.owed.len();
        let logs = logs + self.settling.as_ref().map_or(0, BTreeSet::len);
        let reserve = RESERVE + 2 * self.settled_record_bytes(logs);
        let found = self.log.room_for(few, reserve);
        if found > 0 {
            self.without_room = 0;
            return found;
        }
        self.without_room += 1;
        if self.without_room.is_multiple_of(ASK_AGAIN_EVERY) {
            self.prepare = Some(self.log.next_to_prepare());
        }
        0
    }

    /// Writes records of writes, which are to be synced.
    fn write(&mut self, batch: &[Unsynced<D>], records: &[Record]) -> Result<Unsynced<D>, LogError> {
        let mut rest = batch.iter();
        for Record { logs, contents } in records {
            let number = self.next;
            self.next += 1;
            self.log.append_with(|record| {
                record.reserve(*contents);
                record.put_u8(WRITES);
                record.put_u64_le(number);
                for unsynced in rest.by_ref().take(*logs) {
                    kept::put_writes(record, &unsynced.log, unsynced.writes.iter().flatten());
                }
            });
        }
        self.write_log()
    }

    /// Writes what was appended, which is to be synced.
    fn write_log(&mut self) -> Result<Unsynced<D>, LogError> {
        let written = self.log.write()?;
        let Some(mut unsynced) = written else { unreachable!("something was appended") };
        if let Some(wanted) = unsynced.prepare.take() {
            self.prepare = Some(wanted);
        }
        Ok(unsynced)
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

    /// True if some log has writes that are to be settled.
    pub(super) fn is_owed(&self) -> bool {
        self.settling.is_some() || !self.owed.is_empty()
    }

    /// True while files are being synced.
    pub(super) fn is_settling(&self) -> bool {
        self.settling.is_some()
    }

    /// True if nothing is written down here that would be done once more if the node began again.
    #[cfg(test)]
    pub(super) fn is_settled(&self) -> bool {
        !self.is_pinned && !self.is_settling() && self.owed.is_empty()
    }

    /// Puts another file under the journal, for tests of what failing disks do.
    #[cfg(test)]
    pub(super) fn replace_segment(
        &mut self,
        replace: impl FnOnce(&super::segment::Segment<D>) -> super::segment::Segment<D>,
    ) {
        self.log.replace_segment(replace);
    }

    /// True if writes to a log of this replica are durable here only.
    pub(super) fn holds(&self, replica: ReplicaId) -> bool {
        let is_settling = self.settling.as_ref().is_some_and(|settling| settling.contains(&replica));
        is_settling || self.owed.values().any(|owed| owed.log.identity.replica == replica)
    }

    /// True if the journal has grown so much that it should be settled.
    pub(super) fn is_long(&self) -> bool {
        self.unsettled_bytes >= self.log.segment_bytes() as usize / 2
    }

    /// The files to sync so that what was written to them so far is settled; none if there are none, or some are being synced. A journal that has
    /// failed does not note that, but lets them go.
    pub fn begin_settling(&mut self) -> Option<Settling<D>> {
        assert!(!self.is_begun, "what is not durable yet cannot be settled");
        if self.is_settling() || self.owed.is_empty() {
            return None;
        }
        self.settling_bytes = std::mem::take(&mut self.unsettled_bytes);
        self.write_out();
        let owed = std::mem::take(&mut self.owed);
        self.settling = Some(owed.values().map(|owed| owed.log.identity.replica).collect());
        let next_file = self.next_file;
        self.next_file += owed.len() as u64;
        let (directory, through, end) = (self.directory.clone(), self.next - 1, self.log.end());
        Some(Settling { directory, owed, next_file, through, end })
    }

    /// Files were synced, or could not be: gives what the journal does not need any more.
    pub fn end_settling(&mut self, settled: Settled<D>) -> Option<Truncation<D>> {
        let Settled { through, end, held, failure } = settled;
        (self.settling, self.settling_bytes) = (None, 0);
        held.into_iter().for_each(|(whose, held)| self.hold(whose, held));
        let noted = match failure {
            _ if self.is_pinned => return None,
            None => self.note_settled(through, end),
            Some(failure) => Err(failure),
        };
        noted.unwrap_or_else(|error| {
            self.pin(&error);
            None
        })
    }

    /// Goes on without the journal.
    fn pin(&mut self, error: &LogError) {
        if !self.is_pinned {
            tracing::error!(
                %error, journal = %self.directory.path().display(),
                "the journal cannot be written, so each log is synced for itself until this node is started again"
            );
        }
        self.is_pinned = true;
        self.write_out();
    }

    /// Hands all that was gathered to the operating system.
    pub(super) fn write_out(&mut self) {
        self.owed.values_mut().for_each(Owed::write_out);
    }

    /// Settles all that was written so far, and waits for that.
    ///
    /// # Errors
    /// A segment that is not needed any more cannot be removed.
    pub fn settle(&mut self) -> Result<(), LogError> {
        assert!(!self.is_settling(), "files are synced elsewhere");
        match self.begin_settling() {
            Some(settling) => {
                let settled = settling.run();
                self.end_settling(settled).map_or(Ok(()), Truncation::run)
            }
            None => Ok(()),
        }
    }

    /// Whether a log of a replica may be opened, once all that could be settled is. If it lacks writes that are kept, it is given them.
    ///
    /// # Errors
    /// Its files lack writes that it has acknowledged. If that is because something ran short, or it is in use, the error says so.
    pub fn release(&mut self, replica: ReplicaId, incarnation: u64) -> Result<(), LogError> {
        let directory = self.directory.clone();
        let unsettled =
            |is_loss| LogError::Unsettled { replica, journal: directory.path().to_owned(), is_loss };
        if self.is_settling() && self.holds(replica) {
            return Err(unsettled(false));
        }
        // Only a journal that has failed itself is owed something now. A synced write is as good as settled.
        let is_its_own = |_: &u64, owed: &mut Owed<D>| owed.log.identity.replica == replica;
        let owed: Vec<Owed<D>> = self.owed.extract_if(.., is_its_own).map(|(_, owed)| owed).collect();
        for mut owed in owed {
            if owed.sync().is_err() {
                self.hold(Whose::of(&owed.log), Held { files: Vec::new(), place: None, is_loss: false });
            }
        }
        let whose = Whose { replica, incarnation };
        let Some(held) = self.held.get(&whose) else { return Ok(()) };
        let Some(place) = &held.place else { return Err(unsettled(held.is_loss)) };
        // The log may have been in use, or there may have been no room, no descriptor, no disk, for that moment.
        let cluster = self.log.identity().cluster;
        replay::again(&self.directory, cluster, whose, &held.files, place).map_err(|error| {
            tracing::warn!(%replica, %error, "a log cannot be given yet what the journal keeps of it");
            if is_passing(&error) { error } else { unsettled(error.is_loss()) }
        })?;
        let Held { files, .. } = self.held.remove(&whose).unwrap_or_else(|| unreachable!("it was found"));
        if let Err(error) = self.let_go_of(&files) {
            // They are done once more by the next process, which changes nothing.
            tracing::warn!(%replica, %error, "cannot remove what is not kept any more of a log");
        }
        Ok(())
    }

    /// Removes files that no log needs any more. First it is noted that they are not missed.
    fn let_go_of(&mut self, files: &[KeptName]) -> Result<(), LogError> {
        if self.is_pinned || self.log.room_for([self.settled_record_bytes(0)].into_iter(), 0) == 0 {
            return Ok(());
        }
        if let Err(error) = self.note_settled(self.settled_through, self.settled_at) {
            self.pin(&error);
            return Err(error);
        }
        kept::remove(&self.directory, files)
    }

    /// A log lacks writes.
    fn hold(&mut self, whose: Whose, held: Held<D>) {
        match self.held.entry(whose) {
            Entry::Vacant(vacant) => _ = vacant.insert(held),
            Entry::Occupied(earlier) => {
                let earlier = earlier.into_mut();
                earlier.files.extend(held.files);
                // All of it, or nothing.
                earlier.place = earlier.place.take().and(held.place);
            }
        }
    }

    /// Notes durably that all writes up to a number are durable in their own files, or kept, and gives up what was written before `end`. The files
    /// that keep some are named, so that they are missed if they are lost.
    fn note_settled(&mut self, through: u64, end: Position) -> Result<Option<Truncation<D>>, LogError> {
        let (opened, held) = (self.opened, &self.held);
        self.log.append_with(|record| {
            record.put_u8(SETTLED);
            record.put_u64_le(through);
            record.put_u64_le(opened);
            for name in held.values().flat_map(|held| &held.files) {
                kept::put_name(record, *name);
            }
        });
        self.write_log()?.sync()?;
        self.settled_through = through;
        self.settled_at = self.settled_at.max(end);
        Ok(self.log.truncate(self.settled_at))
    }

    /// How long a record is that notes what is settled if so many more files keep writes, in bytes.
    fn settled_record_bytes(&self, files: usize) -> usize {
        let known: usize = self.held.values().map(|held| held.files.len()).sum();
        1 + 8 + 8 + (known + files) * kept::NAME_BYTES
    }
}

/// The writes that are being made durable.
#[derive(Debug)]
#[must_use = "nothing of it is durable"]
pub struct Begun<D: Directory = Files> {
    together: Vec<Unsynced<D>>,
    alone: Vec<Unsynced<D>>,
    /// How long the records are, in bytes.
    contents: usize,
    /// The records, if there are any.
    record: Option<Result<Unsynced<D>, LogError>>,
}

/// A record of writes, before it is written.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// It has the writes to so many logs,
    logs: usize,
    /// and is so long, in bytes.
    contents: usize,
}

/// The result of writes to several logs.
#[derive(Debug)]
pub struct Committed<D: Directory = Files> {
    /// These are durable, unless their log had failed before.
    pub together: Vec<Unsynced<D>>,
    /// These have to be synced, each for itself.
    pub alone: Vec<Unsynced<D>>,
}

/// The contents of a journal that is opened.
struct Contents {
    /// The records of writes that are not settled, with their numbers.
    unsettled: Vec<(u64, Bytes)>,
    /// The number of the last record of writes.
    last: u64,
    /// How often it was opened.
    opened: u64,
    /// The files beside it that have to be there.
    noted: Vec<KeptName>,
}

impl Contents {
    fn read<D: Directory>(directory: &D, records: Records<D>) -> Result<Contents, LogError> {
        let mut contents = Contents { unsettled: Vec::new(), last: 0, opened: 0, noted: Vec::new() };
        for record in records {
            let mut record = record?;
            let kind = record.try_get_u8().map_err(|_| unreadable(directory))?;
            let number = record.try_get_u64_le().map_err(|_| unreadable(directory))?;
            match kind {
                WRITES => contents.unsettled.push((number, record)),
                SETTLED => {
                    contents.unsettled.retain(|(earlier, _)| *earlier > number);
                    contents.opened = record.try_get_u64_le().map_err(|_| unreadable(directory))?;
                    contents.noted = kept::take_names(record).ok_or_else(|| unreadable(directory))?;
                }
                _ => return Err(unreadable(directory)),
            }
            contents.last = contents.last.max(number);
        }
        Ok(contents)
    }
}

/// The identity of the journal among the logs of a node.
fn identity(cluster: u64) -> LogIdentity {
    LogIdentity { cluster, replica: ReplicaId { shard: ShardId(u32::MAX), index: ReplicaIndex(u8::MAX) } }
}

/// True if what hinders a log may pass by itself.
fn is_passing(error: &LogError) -> bool {
    error.shortage().is_some() || matches!(error, LogError::InUse { .. })
}

fn unreadable(directory: &impl Directory) -> LogError {
    let what = "a record of the journal cannot be understood";
    LogError::Corrupt { file: directory.path().to_owned(), offset: 0, what }
}

/// True if what was written can stand in a journal: it is known, all before it is durable, and its log acknowledges it.
fn is_journalled<D: Directory>(unsynced: &Unsynced<D>) -> bool {
    unsynced.is_little() && unsynced.from <= unsynced.log.durable() && !unsynced.log.has_failed()
}

/// Divides writes to logs into records with so many bytes of writes at most, in their order.
fn divide<D: Directory>(batch: &[Unsynced<D>], bytes_max: usize) -> Vec<Record> {
    /// The bytes before the writes, and some to spare.
    const HEAD_BYTES: usize = 16;

    let mut records: Vec<Record> = Vec::new();
    for unsynced in batch {
        let bytes = bytes_of(unsynced);
        match records.last_mut() {
            Some(last) if last.contents + bytes <= HEAD_BYTES + bytes_max => {
                last.logs += 1;
                last.contents += bytes;
            }
            _ => records.push(Record { logs: 1, contents: HEAD_BYTES + bytes }),
        }
    }
    records
}

/// The length of the writes to a log in the journal, in bytes.
fn bytes_of<D: Directory>(unsynced: &Unsynced<D>) -> usize {
    unsynced.writes.iter().flatten().map(|write| WRITE_HEADER_BYTES + write.bytes.len()).sum()
}
