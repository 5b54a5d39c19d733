//! A journal and the logs that it serves, on disks that lose what was not synced, fail, and are away for a while: what was acknowledged is always
//! there, or missed.

use std::collections::VecDeque;
use std::path::PathBuf;

use bytes::Bytes;
use quorate_core::{Random, ReplicaId, ReplicaIndex, ShardId};
use quorate_storage::{
    Committed, Directory, Journal, JournalId, JournalOptions, Log, LogIdentity, LogOptions, Position,
    Settled, Settling, Truncation, Unsynced, Whereabouts, scrub,
};

use super::{Condition, OPTIONS, SimulatedDirectory};

const CLUSTER: u64 = 7;
const LOGS: u32 = 4;

/// Small, so that the journal needs many.
const JOURNAL: JournalOptions = JournalOptions {
    log: LogOptions { segment_bytes_first: 8 * 1024, segment_bytes_max: 8 * 1024 },
    logs_min: 2,
};

/// A log, and what it should hold.
struct Kept {
    identity: LogIdentity,
    directory: SimulatedDirectory,
    /// None if it has failed in this life of the node.
    log: Option<Log<SimulatedDirectory>>,
    /// The bytes that were written and not submitted.
    unsynced: Option<Unsynced<SimulatedDirectory>>,
    /// The records from the first segment that is kept on, with where each ends.
    records: VecDeque<(Position, Bytes)>,
    /// Up to here they were acknowledged.
    acknowledged: Position,
}

impl Kept {
    fn new(shard: u32, random: &mut Random) -> Kept {
        let replica = ReplicaId { shard: ShardId(shard), index: ReplicaIndex(0) };
        let identity = LogIdentity { cluster: CLUSTER, replica };
        let directory = SimulatedDirectory::new(PathBuf::from(format!("/{replica}")), random.fork());
        let (records, acknowledged) = (VecDeque::new(), Position::ZERO);
        let mut kept = Kept { identity, directory, log: None, unsynced: None, records, acknowledged };
        kept.begin_anew(random);
        kept
    }

    /// The replica loses its log, and begins with another one.
    fn begin_anew(&mut self, random: &mut Random) {
        self.directory.wipe();
        let (incarnation, directory) = (random.next_u64(), &self.directory);
        Log::create_in(directory, self.identity, OPTIONS, incarnation).and_then(Log::close).unwrap();
        self.records.clear();
        (self.acknowledged, self.log, self.unsynced) = (Position::ZERO, None, None);
    }

    /// Opens the log if the journal allows it, and finds in it a part of what was appended with all that was acknowledged.
    fn open(&mut self, journal: &mut Journal<SimulatedDirectory>) {
        let incarnation = Log::incarnation_in(&self.directory, self.identity).unwrap();
        if journal.release(self.identity.replica, incarnation).is_err() {
            return;
        }
        let name = self.identity.replica;
        let opened = Log::open_in(&self.directory, self.identity, OPTIONS);
        let (log, found) = opened.unwrap_or_else(|error| panic!("{name} is refused: {error}"));
        let found: Vec<Bytes> = found.collect::<Result<_, _>>().unwrap();
        let acknowledged = self.records.iter().filter(|(end, _)| *end <= self.acknowledged).count();
        assert!(found.len() >= acknowledged, "{name} holds {} of {acknowledged} records", found.len());
        assert!(found.len() <= self.records.len(), "{name} holds more than was appended");
        let alike = found.iter().zip(&self.records).all(|(found, (_, record))| found == record);
        assert!(alike, "{name} holds what was not appended");
        self.records.truncate(found.len());
        (self.acknowledged, self.log, self.unsynced) = (log.durable(), Some(log), None);
    }

    fn append(&mut self, random: &mut Random) {
        let Some(log) = &mut self.log else { return };
        for _ in 0..=random.index(3) {
            let length = if random.chance(0.02) { 3_000 } else { 1 + random.index(200) };
            let record = Bytes::from(vec![random.below(256) as u8; length]);
            self.records.push_back((log.append(&record), record));
        }
        // Half of them leave it to the journal to write to their files.
        let is_left = self.identity.replica.shard.0.is_multiple_of(2);
        let written = if is_left { log.write_later() } else { log.write() };
        let Ok(written) = written else { return self.log = None };
        let written = written.expect("something was appended");
        match &mut self.unsynced {
            Some(earlier) => earlier.merge(written),
            // One that is lost leaves a gap.
            None if !is_left && random.chance(0.05) => drop(written),
            None => self.unsynced = Some(written),
        }
    }

    fn truncate(&mut self, random: &mut Random) {
        let Some(log) = &mut self.log else { return };
        let durable = self.records.iter().filter(|(end, _)| *end <= self.acknowledged).count();
        if durable == 0 {
            return;
        }
        let up_to = self.records[random.index(durable)].0;
        self.directory.set_condition(Condition::Works);
        if let Some(truncation) = log.truncate(up_to) {
            if truncation.run().is_err() {
                // The log had failed.
                self.log = None;
                return;
            }
            while self.records.front().is_some_and(|(end, _)| end.segment() < up_to.segment()) {
                self.records.pop_front();
            }
        }
    }
}

/// The owner of these writes; nobody, if the log was given up.
fn of<'a>(logs: &'a mut [Kept], unsynced: &Unsynced<SimulatedDirectory>) -> Option<&'a mut Kept> {
    let is_its_own = |log: &Log<SimulatedDirectory>| log.opening() == unsynced.opening();
    logs.iter_mut().find(|kept| kept.log.as_ref().is_some_and(is_its_own))
}

fn acknowledge(logs: &mut [Kept], unsynced: &Unsynced<SimulatedDirectory>) {
    if let Some(kept) = of(logs, unsynced) {
        // A log that has failed acknowledges nothing.
        let durable = kept.log.as_ref().map_or(Position::ZERO, Log::durable);
        kept.acknowledged = kept.acknowledged.max(unsynced.through().min(durable));
    }
}

/// Submits what some of the logs have written. None if power is lost meanwhile; else how many logs the journal has served.
fn commit(
    journal: &mut Journal<SimulatedDirectory>,
    logs: &mut [Kept],
    random: &mut Random,
) -> Option<usize> {
    let some = logs.iter_mut().filter(|_| random.chance(0.8));
    let batch: Vec<_> = some.filter_map(|kept| kept.unsynced.take()).collect();
    let begun = journal.begin(batch);
    if random.chance(0.01) {
        return None;
    }
    let Committed { together, alone } = journal.end(begun);
    let shared = together.len();
    for unsynced in &together {
        acknowledge(logs, unsynced);
    }
    for unsynced in &alone {
        match unsynced.sync() {
            Ok(()) => acknowledge(logs, unsynced),
            Err(_) => drop(of(logs, unsynced).and_then(|kept| kept.log.take())),
        }
    }
    Some(shared)
}

/// The counts of a test, over all lives of a node.
#[derive(Debug, Default)]
struct Tally {
    /// How often a sync served several logs.
    shared: usize,
    /// How many writes were done once more, and how many were kept.
    again: u64,
    kept: u64,
    /// How often files were synced while logs were written to.
    settled: u64,
    /// How often a log was given what was kept of it when it was opened, beside others that were in use.
    given: u64,
    /// How often a log was refused, because something of it stood in the journal alone.
    refused: u64,
}

/// A node in one of its lives.
struct Life<'a> {
    journal: Journal<SimulatedDirectory>,
    logs: &'a mut [Kept],
    random: &'a mut Random,
    tally: &'a mut Tally,
    /// Files that are being synced, and those that were.
    settling: Option<Settling<SimulatedDirectory>>,
    settled: Option<Settled<SimulatedDirectory>>,
}

impl Life<'_> {
    /// Settles everything, as before a log is opened.
    fn settle(&mut self) {
        self.settling.take().into_iter().for_each(|settling| self.settled = Some(settling.run()));
        self.end_settling();
        drop(self.journal.settle());
    }

    fn end_settling(&mut self) {
        let truncation = self.settled.take().and_then(|settled| self.journal.end_settling(settled));
        let _ = truncation.map(Truncation::run);
    }

    /// Does something; false if power is lost.
    fn step(&mut self, directory: &SimulatedDirectory) -> bool {
        let one = self.random.index(self.logs.len());
        match self.random.below(46) {
            0 => self.settle(),
            1 => self.logs[one].truncate(self.random),
            2 if self.random.chance(0.3) => self.logs[one].directory.set_condition(Condition::FailsToSync),
            3 if self.random.chance(0.3) => {
                let conditions = [Condition::FailsToSync, Condition::Full, Condition::Works];
                directory.set_condition(conditions[self.random.index(conditions.len())]);
            }
            4 => {
                // It is given up and opened again.
                if self.logs[one].log.take().is_some() {
                    self.settle();
                    self.logs[one].directory.set_condition(Condition::Works);
                    reopen(&mut self.logs[one], &mut self.journal, directory, self.tally);
                }
            }
            5 => {
                for log in self.logs.iter().filter_map(|kept| kept.log.as_ref()) {
                    scrub(log).unwrap();
                }
            }
            6..10 => drop(self.journal.prepare()),
            10..30 => {
                for kept in self.logs.iter_mut() {
                    if self.random.chance(0.6) {
                        kept.append(self.random);
                    }
                }
            }
            40..42 if self.settling.is_none() && self.settled.is_none() => {
                self.settling = self.journal.begin_settling();
            }
            42..44 => {
                if let Some(settling) = self.settling.take() {
                    self.settled = Some(settling.run());
                    self.tally.settled += 1;
                }
            }
            44..46 => self.end_settling(),
            _ => match commit(&mut self.journal, self.logs, self.random) {
                Some(shared) => self.tally.shared += usize::from(shared > 0),
                None => return false,
            },
        }
        true
    }
}

/// Opens the journal of a node. One of the logs may be away.
fn open(
    directory: &SimulatedDirectory,
    id: &mut JournalId,
    logs: &[Kept],
    away: Option<usize>,
) -> (Journal<SimulatedDirectory>, quorate_storage::Replayed) {
    let place = |replica: ReplicaId| {
        let at = logs.iter().position(|kept| kept.identity.replica == replica).unwrap();
        let is_away = away == Some(at);
        let nothing = || SimulatedDirectory::new(PathBuf::from("/nothing"), Random::new(0));
        Whereabouts::Here(if is_away { nothing() } else { logs[at].directory.clone() })
    };
    let opened = Journal::open_in(directory, CLUSTER, JOURNAL, *id, place).unwrap();
    *id = opened.0.id();
    opened
}

/// Opens a log, and counts what became of what is kept of it.
fn reopen(
    kept: &mut Kept,
    journal: &mut Journal<SimulatedDirectory>,
    directory: &SimulatedDirectory,
    tally: &mut Tally,
) {
    let beginning = format!("shard-{}-", kept.identity.replica.shard.0);
    let is_kept = || {
        directory.list().unwrap().iter().any(|name| name.starts_with(&beginning) && name.ends_with(".kept"))
    };
    let was_kept = is_kept();
    kept.open(journal);
    tally.given += u64::from(was_kept && !is_kept() && kept.log.is_some());
    tally.refused += u64::from(kept.log.is_none());
}

/// Some lives of a node.
fn live(seed: u64, tally: &mut Tally) {
    let mut random = Random::new(seed);
    let mut logs: Vec<Kept> = (1..=LOGS).map(|shard| Kept::new(shard, &mut random)).collect();
    let directory = SimulatedDirectory::new(PathBuf::from("/journal"), random.fork());
    let mut id = Journal::create_in(&directory, CLUSTER, JOURNAL, random.next_u64()).unwrap().id();
    for _ in 0..8 {
        let away = random.chance(0.15).then(|| random.index(logs.len()));
        if random.chance(0.1) {
            logs[random.index(LOGS as usize)].directory.set_condition(Condition::FailsToSync);
        }
        if random.chance(0.1) {
            directory.set_condition(Condition::Full);
        }
        let (mut journal, mut replayed) = open(&directory, &mut id, &logs, away);
        directory.set_condition(Condition::Works);
        for _ in 0..random.index(3) {
            // Crashes while it begins.
            drop(journal);
            logs.iter().for_each(|kept| kept.directory.lose_power());
            directory.lose_power();
            (journal, replayed) = open(&directory, &mut id, &logs, away);
        }
        tally.again += replayed.writes;
        tally.kept += replayed.kept;
        for (at, kept) in logs.iter_mut().enumerate() {
            kept.directory.set_condition(Condition::Works);
            if away != Some(at) {
                reopen(kept, &mut journal, &directory, tally);
            }
        }
        let steps = random.index(60);
        let mut life =
            Life { journal, logs: &mut logs, random: &mut random, tally, settling: None, settled: None };
        let is_power_lost = !(0..steps).all(|_| life.step(&directory));
        drop(life);
        let is_power_lost = is_power_lost || random.chance(0.8);
        for kept in &mut logs {
            kept.log = None;
            kept.unsynced = None;
            kept.directory.set_condition(Condition::Works);
            if is_power_lost {
                kept.directory.lose_power();
            }
        }
        directory.set_condition(Condition::Works);
        if is_power_lost {
            directory.lose_power();
        }
        if random.chance(0.1) {
            let one = random.index(logs.len());
            logs[one].begin_anew(&mut random);
        }
    }
    // In the end nothing is away, and nothing fails.
    let (mut journal, _) = open(&directory, &mut id, &logs, None);
    for kept in &mut logs {
        kept.open(&mut journal);
        assert!(kept.log.is_some(), "{} waits for nothing", kept.identity.replica);
    }
}

#[test]
fn what_was_acknowledged_survives_with_a_journal() {
    let mut tally = Tally::default();
    for seed in 0..2_000 {
        live(seed, &mut tally);
    }
    println!("{tally:?}");
    let Tally { shared, again, kept, settled, given, refused } = &tally;
    assert!(*shared > 10_000 && *again > 10_000 && *kept > 1_000 && *settled > 1_000, "{tally:?}");
    assert!(*given > 100 && *refused > 10, "{tally:?}");
}
