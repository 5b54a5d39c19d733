//! A journal and the logs that it serves, on disks that lose what was not synced: what was acknowledged is always there.

use std::collections::VecDeque;
use std::path::PathBuf;

use bytes::Bytes;
use quorate_core::{Random, ReplicaId, ReplicaIndex, ShardId};
use quorate_storage::{Committed, Journal, Log, LogIdentity, LogOptions, Position, Unsynced, scrub};

use super::{Condition, OPTIONS, SimulatedDirectory};

const CLUSTER: u64 = 7;
const LOGS: u32 = 4;

/// Small, so that the journal needs many.
const SEGMENTS: LogOptions = LogOptions { segment_bytes_first: 8 * 1024, segment_bytes_max: 8 * 1024 };

/// A log, and what it should hold.
struct Kept {
    identity: LogIdentity,
    directory: SimulatedDirectory,
    /// None if it has failed in this life of the node.
    log: Option<Log<SimulatedDirectory>>,
    /// What was written and not submitted.
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

    /// Opens the log, and finds in it a part of what was appended with all that was acknowledged.
    fn open(&mut self) {
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

/// Whose writes these are; nobody's, if the log was given up.
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

/// Submits what some of the logs have written.
fn commit(journal: &mut Journal<SimulatedDirectory>, logs: &mut [Kept], random: &mut Random) -> usize {
    let some = logs.iter_mut().filter(|_| random.chance(0.8));
    let batch: Vec<_> = some.filter_map(|kept| kept.unsynced.take()).collect();
    let Committed { together, alone } = journal.commit(batch);
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
    shared
}

/// Some lives of a node; gives how often a sync served several logs, and how many writes were done once more.
fn live(seed: u64) -> (usize, u64) {
    let mut random = Random::new(seed);
    let mut logs: Vec<Kept> = (1..=LOGS).map(|shard| Kept::new(shard, &mut random)).collect();
    let directory = SimulatedDirectory::new(PathBuf::from("/journal"), random.fork());
    drop(Journal::create_in(&directory, CLUSTER, SEGMENTS, random.next_u64()).unwrap());
    let (mut shared, mut again) = (0, 0);
    for _ in 0..8 {
        let place = |replica: ReplicaId| {
            logs.iter().find(|kept| kept.identity.replica == replica).unwrap().directory.clone()
        };
        let (mut journal, replayed) = Journal::open_in(&directory, CLUSTER, SEGMENTS, place).unwrap();
        again += replayed.writes;
        if random.chance(0.1) {
            // A crash while it begins.
            logs.iter().for_each(|kept| kept.directory.lose_power());
        }
        logs.iter_mut().for_each(Kept::open);
        for _ in 0..random.index(60) {
            let one = random.index(logs.len());
            match random.below(40) {
                0 => _ = journal.settle().unwrap_or(false),
                1 => logs[one].truncate(&mut random),
                2 if random.chance(0.3) => logs[one].directory.set_condition(Condition::FailsToSync),
                3 if random.chance(0.2) => directory.set_condition(Condition::FailsToSync),
                4 => {
                    // It is given up and opened again, which takes that nothing of it stands in the journal.
                    if logs[one].log.take().is_some() && journal.settle().unwrap_or(false) {
                        logs[one].directory.set_condition(Condition::Works);
                        logs[one].open();
                    }
                }
                5 => {
                    logs.iter().filter_map(|kept| kept.log.as_ref()).for_each(|log| drop(scrub(log).unwrap()))
                }
                6..10 => drop(journal.prepare()),
                10..30 => {
                    for kept in &mut logs {
                        if random.chance(0.6) {
                            kept.append(&mut random);
                        }
                    }
                }
                _ => shared += usize::from(commit(&mut journal, &mut logs, &mut random) > 0),
            }
        }
        drop(journal);
        let is_power_lost = random.chance(0.8);
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
    (shared, again)
}

#[test]
fn what_was_acknowledged_survives_with_a_journal() {
    let (mut shared, mut again) = (0, 0);
    for seed in 0..2_000 {
        let (more, writes) = live(seed);
        shared += more;
        again += writes;
    }
    assert!(shared > 10_000 && again > 10_000, "{shared} syncs were shared, {again} writes were done again");
}
