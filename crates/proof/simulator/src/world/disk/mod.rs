//! The durable memory of one machine: the log that servers use, on a simulated disk.
//!
//! Beside the log stands the list of what was given to it. Each record that a restarted machine finds must be on the list, in
//! order and without a gap, and nothing may be missing that had become durable: a disk may be refused, but it must never
//! be believed when it is wrong. That is asserted here, whenever a log is opened.

mod directory;
mod journal;
#[cfg(test)]
mod journal_tests;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::path::PathBuf;

use bytes::Bytes;
use quorate_core::{Random, ReplicaId};
use quorate_driver::{Kept, Mark};
use quorate_storage::{JournalId, Log, LogError, LogIdentity, LogOptions, Position, Unsynced, scrub};

pub use directory::{Condition, SECTOR_BYTES, SimulatedDirectory, SimulatedFile};
pub use journal::NodeJournal;

/// The part of a machine that ends when it crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process: what was written is there, synced or not.
    Process,
    /// Power: what was not synced may be there, or not, or in part.
    Power,
}

/// How a disk changes what it holds by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decay {
    /// One bit flips.
    BitRot,
    /// A sector lies where another one was.
    Misdirected,
}

/// The records of one machine, durable and not yet durable.
#[derive(Debug)]
pub struct Disk {
    /// None for memory.
    store: Option<Store>,
}

/// A log, and what it should hold.
#[derive(Debug)]
struct Store {
    directory: SimulatedDirectory,
    identity: LogIdentity,
    /// That of the node, if it has one.
    journal: Option<NodeJournal>,
    /// None while the machine is down.
    log: Option<Log<SimulatedDirectory>>,
    /// Written records that wait for a sync to begin.
    written: Option<Unsynced<SimulatedDirectory>>,
    /// The sync that is under way.
    syncing: Option<Sync>,
    /// The records that the log should hold, from the first segment that it keeps on.
    ideal: VecDeque<Ideal>,
    /// How many of those are durable.
    durable: usize,
    /// How far durable records say that the log was durable before them.
    proven: Position,
    random: Random,
}

/// A sync of everything that was appended before it began.
#[derive(Debug)]
struct Sync {
    /// The bytes that are synced for themselves, if there are any.
    unsynced: Option<Unsynced<SimulatedDirectory>>,
    /// True if the journal of the node has what is synced.
    is_journalled: bool,
    /// How many records become durable.
    records: usize,
    /// The mark of the last of them.
    reaches: Mark,
}

/// The content of a disk at some instant, while its node was down.
#[derive(Debug)]
pub struct Image {
    /// None for memory.
    held: Option<Held>,
}

#[derive(Debug)]
struct Held {
    directory: SimulatedDirectory,
    journal: Option<(SimulatedDirectory, JournalId)>,
    ideal: VecDeque<Ideal>,
    durable: usize,
    proven: Position,
}

#[derive(Clone, Debug)]
struct Ideal {
    contents: Bytes,
    segment: u32,
    /// Up to where the log was known to be durable when it was appended.
    testimony: Position,
}

/// Segments are small, so that there are many.
const OPTIONS: LogOptions = LogOptions { segment_bytes_first: 4 * 1024, segment_bytes_max: 32 * 1024 };

impl Disk {
    /// No segment is larger.
    pub const SEGMENT_BYTES_MAX: u32 = OPTIONS.segment_bytes_max;

    /// Memory.
    pub fn memory() -> Self {
        Disk { store: None }
    }

    /// The disk of a replica with an empty log.
    pub fn new(cluster: u64, replica: ReplicaId, mut random: Random) -> Self {
        let path = PathBuf::from(format!("/{replica}"));
        let directory = SimulatedDirectory::new(path, random.fork());
        let mut store = Store {
            directory,
            identity: LogIdentity { cluster, replica },
            journal: None,
            log: None,
            written: None,
            syncing: None,
            ideal: VecDeque::new(),
            durable: 0,
            proven: Position::ZERO,
            random,
        };
        store.create();
        Disk { store: Some(store) }
    }

    /// The same disk on a node with a journal, which has the same cluster.
    pub fn with_journal(mut self, journal: &NodeJournal) -> Self {
        if let Some(store) = &mut self.store {
            journal.place(store.identity.replica, &store.directory);
            store.journal = Some(journal.clone());
        }
        self
    }

    /// True if records outlive a crash.
    pub fn is_kept(&self) -> bool {
        self.store.is_some()
    }

    /// Appends a record. In memory it is durable at once, and its contents do not matter.
    pub fn append(&mut self, contents: Bytes) -> Kept {
        self.store.as_mut().map_or(Kept::Now, |store| Kept::At(store.append(contents)))
    }

    /// How much of the records is not durable yet, in bytes; nothing in memory.
    pub fn lag_bytes(&self) -> u64 {
        let waiting = self.store.iter().flat_map(|store| store.ideal.iter().skip(store.durable));
        waiting.map(|record| record.contents.len() as u64).sum()
    }

    /// How much the records take that were not given up; nothing in memory.
    pub fn bytes(&self) -> u64 {
        let records = self.store.iter().flat_map(|store| &store.ideal);
        records.map(|record| record.contents.len() as u64).sum()
    }

    /// The mark of the last record; none in memory.
    pub fn end(&self) -> Kept {
        self.store.as_ref().map_or(Kept::Now, |store| Kept::At(store.running().end().as_u64()))
    }

    /// The records up to a mark are not needed any more; those after it are durable.
    pub fn truncate(&mut self, up_to: Mark) -> Result<(), LogError> {
        match &mut self.store {
            Some(store) => store.truncate(Position::from_u64(up_to)),
            None => Ok(()),
        }
    }

    /// Appends records to the log of a machine that is down, durably; in memory nothing.
    ///
    /// # Errors
    /// The log is refused, or does not take them.
    pub fn fill(&mut self, records: impl Iterator<Item = Bytes>) -> Result<(), LogError> {
        if self.store.is_none() {
            return Ok(());
        }
        let filled = self.append_durably(records);
        self.crash(Crash::Process);
        filled
    }

    fn append_durably(&mut self, records: impl Iterator<Item = Bytes>) -> Result<(), LogError> {
        self.open()?;
        records.for_each(|record| _ = self.append(record));
        self.write()?;
        if self.begin_sync() {
            self.end_sync()?;
        }
        Ok(())
    }

    /// Hands what was appended to the operating system.
    pub fn write(&mut self) -> Result<(), LogError> {
        match &mut self.store {
            Some(store) => store.write(),
            None => Ok(()),
        }
    }

    /// Begins a sync of everything appended so far; false if there is nothing to do or one is under way, as in memory.
    pub fn begin_sync(&mut self) -> bool {
        self.store.as_mut().is_some_and(Store::begin_sync)
    }

    /// Ends the sync that is under way, and returns the mark up to which records are durable.
    pub fn end_sync(&mut self) -> Result<Mark, LogError> {
        self.store.as_mut().expect("memory is not synced").end_sync()
    }

    /// The machine is gone.
    pub fn crash(&mut self, crash: Crash) {
        if let Some(store) = &mut self.store {
            store.close(crash);
            if crash == Crash::Power {
                store.directory.lose_power();
            }
        }
    }

    /// An empty disk takes the place of this one.
    pub fn wipe(&mut self) {
        if let Some(store) = &mut self.store {
            store.create();
        }
    }

    /// A copy of what the disk holds.
    pub fn image(&self) -> Image {
        let held = |store: &Store| Held {
            directory: store.directory.copy(),
            journal: store.journal.as_ref().map(NodeJournal::image),
            ideal: store.ideal.clone(),
            durable: store.durable,
            proven: store.proven,
        };
        Image { held: self.store.as_ref().map(held) }
    }

    /// A copy takes the place of what the disk holds, and of the journal of its node, which is down.
    pub fn restore(&mut self, Image { held }: Image) {
        if let (Some(store), Some(held)) = (&mut self.store, held) {
            store.close(Crash::Process);
            (store.directory, store.ideal) = (held.directory, held.ideal);
            (store.durable, store.proven) = (held.durable, held.proven);
            if let (Some(journal), Some(copy)) = (&store.journal, held.journal) {
                journal.restore(copy);
                journal.place(store.identity.replica, &store.directory);
            }
        }
    }

    /// Opens the log for a machine that restarts, and returns what it holds; nothing in memory.
    ///
    /// # Errors
    /// The log is refused.
    ///
    /// # Panics
    /// If the log is believed and holds something else than it should.
    pub fn open(&mut self) -> Result<Vec<Bytes>, LogError> {
        match &mut self.store {
            Some(store) => store.open(),
            None => Ok(Vec::new()),
        }
    }

    /// Reads again what the log of a machine that runs holds, as servers do in the background; nothing in memory.
    ///
    /// # Errors
    /// Something that had been durable cannot be read, or the disk does not answer.
    pub fn scrub(&self) -> Result<(), LogError> {
        match self.store.as_ref().and_then(|store| store.log.as_ref()) {
            Some(log) => scrub(log).map(drop),
            None => Ok(()),
        }
    }

    /// Tries to open the log of another machine in place of this one's, as if the wrong disk had been attached.
    pub fn open_wrong(&self, other: &Disk) -> Option<Result<(), LogError>> {
        let (ours, theirs) = self.store.as_ref().zip(other.store.as_ref())?;
        Some(Log::open_in(&theirs.directory.copy(), ours.identity, OPTIONS).map(drop))
    }

    /// Sets the condition of the disk from now on.
    pub fn set_condition(&self, condition: Condition) {
        if let Some(store) = &self.store {
            store.directory.set_condition(condition);
            store.journal.iter().for_each(|journal| journal.set_condition(condition));
        }
    }

    /// True if a loss of power could lose or tear something.
    pub fn is_dirty(&self) -> bool {
        let is_dirty = |store: &Store| {
            store.directory.is_dirty() || store.journal.as_ref().is_some_and(NodeJournal::is_dirty)
        };
        self.store.as_ref().is_some_and(is_dirty)
    }

    /// Lets the disk change something that it is known to hold; false if there is no such thing.
    ///
    /// Only what later records testify for: the newest ones cannot be told from what a crash has torn, by nobody who
    /// looks at one disk alone.
    pub fn decay(&mut self, decay: Decay) -> bool {
        self.store.as_mut().is_some_and(|store| store.decay(decay))
    }
}

impl Store {
    fn create(&mut self) {
        self.directory.wipe();
        self.directory.set_condition(Condition::Works);
        let incarnation = self.random.below(u64::MAX);
        let created = Log::create_in(&self.directory, self.identity, OPTIONS, incarnation);
        match created.and_then(Log::close) {
            Ok(()) => {}
            Err(error) => unreachable!("a disk that works refuses a new log: {error}"),
        }
        self.close(Crash::Process);
        self.ideal.clear();
        self.durable = 0;
        self.proven = Position::ZERO;
    }

    /// The log is not used any more.
    fn close(&mut self, crash: Crash) {
        (self.written, self.syncing) = (None, None);
        if self.log.take().is_some()
            && let Some(journal) = &self.journal
        {
            journal.on_closed(crash);
        }
    }

    fn running(&self) -> &Log<SimulatedDirectory> {
        self.log.as_ref().expect("only a machine that runs uses its disk")
    }

    fn append(&mut self, contents: Bytes) -> Mark {
        let log = self.log.as_mut().expect("only a machine that runs uses its disk");
        let testimony = log.durable();
        let position = log.append(&contents);
        self.ideal.push_back(Ideal { contents, segment: position.segment(), testimony });
        position.as_u64()
    }

    fn write(&mut self) -> Result<(), LogError> {
        let log = self.log.as_mut().expect("only a machine that runs uses its disk");
        // With a journal, the log is written to when the sync begins at the earliest.
        let written = if self.journal.is_some() { log.write_later()? } else { log.write()? };
        if let Some(later) = written {
            match &mut self.written {
                Some(earlier) => earlier.merge(later),
                None => self.written = Some(later),
            }
        }
        Ok(())
    }

    fn begin_sync(&mut self) -> bool {
        let records = self.ideal.len() - self.durable;
        let begins = self.syncing.is_none() && records > 0;
        if begins {
            let reaches = self.running().end().as_u64();
            let written = self.written.take();
            let is_written = written.is_some();
            let unsynced = match &self.journal {
                Some(journal) => written.and_then(|unsynced| journal.begin(unsynced)),
                None => written,
            };
            let is_journalled = is_written && unsynced.is_none();
            self.syncing = Some(Sync { unsynced, is_journalled, records, reaches });
        }
        begins
    }

    fn end_sync(&mut self) -> Result<Mark, LogError> {
        let Sync { unsynced, is_journalled, records, reaches } =
            self.syncing.take().expect("a sync is under way");
        if let Some(unsynced) = unsynced {
            unsynced.sync()?;
        }
        if let Some(journal) = self.journal.as_ref().filter(|_| is_journalled) {
            journal.end(self.running().opening())?;
        }
        let news = self.ideal.range(self.durable..self.durable + records);
        self.proven = news.map(|record| record.testimony).fold(self.proven, Position::max);
        self.durable += records;
        Ok(reaches)
    }

    fn truncate(&mut self, up_to: Position) -> Result<(), LogError> {
        let log = self.log.as_mut().expect("only a machine that runs uses its disk");
        let Some(truncation) = log.truncate(up_to) else { return Ok(()) };
        truncation.run()?;
        while self.ideal.front().is_some_and(|record| record.segment < up_to.segment()) {
            self.ideal.pop_front();
            self.durable -= 1;
        }
        Ok(())
    }

    fn open(&mut self) -> Result<Vec<Bytes>, LogError> {
        if let Some(journal) = &self.journal {
            journal.release(self.identity, &self.directory)?;
        }
        let (log, records) = Log::open_in(&self.directory, self.identity, OPTIONS)?;
        let records: Vec<Bytes> = records.collect::<Result<_, _>>()?;
        assert!(
            records.len() >= self.durable,
            "{} is believed with {} records, and {} of them had become durable",
            self.directory_name(),
            records.len(),
            self.durable
        );
        assert!(
            records.len() <= self.ideal.len()
                && records.iter().zip(&self.ideal).all(|(found, kept)| *found == kept.contents),
            "{} returns what was never written to it",
            self.directory_name()
        );
        self.ideal.truncate(records.len());
        self.durable = records.len();
        self.log = Some(log);
        self.journal.iter().for_each(NodeJournal::on_opened);
        Ok(records)
    }

    fn decay(&mut self, decay: Decay) -> bool {
        let proven = self.proven;
        let is_proven = |(name, sector): &(String, usize)| {
            let number = name.strip_suffix(".log").and_then(|number| number.parse().ok()).unwrap_or(u32::MAX);
            let end = ((sector + 1) * SECTOR_BYTES) as u64;
            match number.cmp(&proven.segment()) {
                // The second sector only holds marks, of which no copy needs to be right.
                _ if *sector == 1 => false,
                std::cmp::Ordering::Less => true,
                std::cmp::Ordering::Equal => end <= u64::from(proven.offset()),
                std::cmp::Ordering::Greater => false,
            }
        };
        let sectors: Vec<_> = self.directory.sectors().into_iter().filter(is_proven).collect();
        let mut draw = || (!sectors.is_empty()).then(|| &sectors[self.random.index(sectors.len())]);
        let (Some(target), Some(source)) = (draw(), draw()) else { return false };
        match decay {
            Decay::BitRot => self.directory.rot(target, &mut self.random),
            Decay::Misdirected if source == target => return false,
            Decay::Misdirected => self.directory.misdirect(target, source),
        }
        true
    }

    fn directory_name(&self) -> String {
        format!("the log of {}", self.identity.replica)
    }
}
