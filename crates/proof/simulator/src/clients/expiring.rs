//! Values that expire beside the workload, in some seeds of systems that keep them: written for lifetimes, read, renewed, deleted, and swept.
//!
//! | client | does |
//! |---|---|
//! | any | reads keys, or all of them in a scan, judges them by its clock, and writes or deletes one of them |
//! | any | reads keys at once, strictly or at a timestamp |
//! | the first | sweeps, as the process of a node does |
//!
//! They go about it as the client library does ([`quorate_expiry`]); the values of the workload stay as they are.
//!
//! # How a checker judges it that knows nothing of lifetimes
//! Each value has a number of its own, and a register besides, its *end*. A transaction that has seen a value alive has read its end as not written. One that has found it over, or has deleted it, has read
//! that, too, and has written it. So the history says of each value that it ends once and for all, by one transaction, which is what a committed deletion means; a key that is gone and there again, or
//! gone twice, is a lost update or a stale read. Readers at a timestamp are judged by a rule of their own: whatever has seen a value alive commits below its expiry.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use quorate_checker::history::Key as Register;
use quorate_checker::{Level, MicroOp, Observed, RecordedTxn, Recorder, check};
use quorate_core::command::{Command, Committed, Event, Failure, Freshness};
use quorate_core::expiry::{Envelope, Expiry};
use quorate_core::hosted::StoredVersion;
use quorate_core::topology::Isolation;
use quorate_core::{ClockTime, Instant, Key, KeyRange, Random, Timestamp, TransactionId, Value};
use quorate_expiry::{
    Due, Ended, Judge, Mistake, Sweeper, SweeperConfig, Task, Verdict, at_timestamp, is_swept,
};
use quorate_index::{Definition, Entries, Entry, EntryRange, IndexList, IndexValue, Keeper, entry_range};

use super::indexing::disagreement;
use super::{Clients, in_history};
use crate::cluster::{Alarm, Cluster, KEYSPACE};
use crate::system::System;

/// So many seeds have values that expire.
const PROBABILITY: f64 = 0.2;

/// So many transactions are begun, however long the seed is: they meet at few keys.
const TRANSACTIONS: u64 = 300;

/// The keys lie above those of the workload.
const KEYS: u64 = 5;
const FIRST: &[u8] = b"\xfd";
const END: &[u8] = b"\xfe";

/// A transaction reads at once, in the systems that can, with this probability.
const SNAPSHOTS: f64 = 0.3;

/// It scans all keys, and does not name them, with this one.
const SCANS: f64 = 0.2;

/// The first client sweeps, if there is anything to do, with this one.
const SWEEPS: f64 = 0.6;

/// A read in the past lies back so far at most.
const PAST_MICROS_MAX: u64 = 2_000_000;

/// The sweeper of a seed: small pages and batches, so that it comes to all it can.
const SWEEPER: SweeperConfig = SweeperConfig {
    keys_per_second: 1_000,
    page: 4,
    batch: 3,
    pause: Duration::from_millis(200),
    lag: Duration::from_secs(1),
};

/// The bug that is planted into clients, if one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slip {
    /// Into what transactions and the sweeper do.
    Rule(Mistake),
    /// A strict read-only transaction that finds a value over tells so, and deletes nothing.
    SnapshotTold,
}

/// The rules of a seed in which values expire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetimes {
    slip: Option<Slip>,
}

/// The rules of a seed, if values expire in it. A bug of anything else is hunted as it always was.
pub(crate) fn draw_lifetimes<S: System>(seed: u64, plant: Option<&str>) -> Option<Lifetimes> {
    let slip = match plant {
        None => {
            let expire = S::EXPIRES && Random::stream(seed, "with lifetimes").chance(PROBABILITY);
            return expire.then(Lifetimes::default);
        }
        Some(id) if !S::EXPIRY_PLANTS.contains(&id) => return None,
        Some("T56" | "S29") => Some(Slip::Rule(Mistake::LeavesOver)),
        Some("T57" | "S30") => Some(Slip::SnapshotTold),
        Some("T58" | "S31") => Some(Slip::Rule(Mistake::SweepsUnread)),
        Some(_) => None,
    };
    Some(Lifetimes { slip })
}

/// The transactions of all clients.
#[derive(Debug)]
pub(super) struct Expiring {
    random: Random,
    rules: Option<Lifetimes>,
    /// How many transactions are still to be begun.
    left: u64,
    open: BTreeMap<TransactionId, Run>,
    /// All that ever began: answers about them may be late.
    begun: BTreeSet<TransactionId>,
    /// The list with the index on expiries, by which entries are kept. No shard has it: no client is to be refused here.
    list: Arc<IndexList>,
    sweeper: Sweeper,
    /// The keys that the client in a place reads next, because it has found one over that it could not delete.
    again: BTreeMap<usize, Vec<Key>>,
    recorder: Recorder,
    /// The transactions that have read in the past, ascending.
    past: Vec<RecordedTxn>,
    recorded_until: i64,
    /// The process of the client in each place.
    processes: BTreeMap<usize, u64>,
    last_process: u64,
    last_value: i64,
    /// The values that were put by what has committed, by key and timestamp.
    put: BTreeMap<Key, BTreeMap<Timestamp, i64>>,
    /// The values of transactions of which nobody knows what became of them.
    unknown: BTreeMap<Key, BTreeSet<i64>>,
    /// The values that a transaction has ended which may have committed.
    ended: BTreeSet<i64>,
    /// The breaches that transactions have seen, in words.
    breaches: Vec<String>,
}

/// A transaction.
#[derive(Debug)]
struct Run {
    slot: usize,
    recorded: RecordedTxn,
    role: Role,
    judge: Judge,
    clock: ClockTime,
    /// How many keys have not been told.
    awaited: usize,
    got: BTreeMap<Key, Option<Value>>,
    commit_asked: bool,
    ops: Vec<MicroOp>,
    /// The values that it has seen alive, with their expiries.
    alive: Vec<(i64, Expiry)>,
    put: Option<(Key, i64)>,
    ended: Vec<i64>,
    swept: u64,
}

#[derive(Clone, Debug)]
enum Role {
    /// Reads these keys, or all of them, and changes one of them.
    Touch { keys: Vec<Key>, scans: bool, change: Option<Change> },
    /// Reads these keys at once.
    Snapshot { keys: Vec<Key>, freshness: Freshness },
    /// Looks for keys whose values are over.
    Look { until: Expiry, limit: u32 },
    /// Deletes them.
    Sweep { due: Vec<Due> },
}

#[derive(Clone, Debug)]
enum Change {
    /// Puts a value into this key, for a lifetime or to stay.
    Put { key: Key, lifetime: Option<Duration> },
    /// Deletes this key if it is there.
    Delete { key: Key },
}

fn key(number: u64) -> Key {
    Key::from([FIRST, format!("{number}").as_bytes()].concat())
}

/// The name of a key in histories.
fn register(key: &Key) -> Register {
    Register::from(String::from_utf8_lossy(&key[FIRST.len()..]).as_ref())
}

/// The name of the end of a value in histories.
fn end_of(value: i64) -> Register {
    Register::from(format!("end of {value}").as_str())
}

fn number_in(envelope: &Envelope) -> Option<i64> {
    std::str::from_utf8(&envelope.value).ok()?.parse().ok()
}

impl Expiring {
    /// Values that expire, if the seed has some.
    pub(super) fn new(seed: u64, rules: Option<Lifetimes>) -> Self {
        let mut list = IndexList::default();
        list.keep_expiries();
        Expiring {
            random: Random::stream(seed, "expiring"),
            left: rules.map_or(0, |_| TRANSACTIONS),
            rules,
            open: BTreeMap::new(),
            begun: BTreeSet::new(),
            list: Arc::new(list),
            sweeper: Sweeper::new(SWEEPER, 0),
            again: BTreeMap::new(),
            recorder: Recorder::new(),
            past: Vec::new(),
            recorded_until: 0,
            processes: BTreeMap::new(),
            last_process: 0,
            last_value: 0,
            put: BTreeMap::new(),
            unknown: BTreeMap::new(),
            ended: BTreeSet::new(),
            breaches: Vec::new(),
        }
    }

    /// True if no transaction will begin any more, and none is open.
    pub(super) fn is_done(&self) -> bool {
        self.left == 0 && self.open.is_empty()
    }

    /// How many transactions are still to be begun.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// The transactions under way, in words.
    pub(super) fn unfinished(&self) -> impl Iterator<Item = String> + '_ {
        self.open.iter().map(|(id, run)| format!("transaction {id} (of values that expire) {:?}", run.role))
    }

    /// The client in this place is no more.
    pub(super) fn bury(&mut self, slot: usize, now: Instant) {
        let gone: Vec<TransactionId> =
            self.open.iter().filter(|(_, run)| run.slot == slot).map(|(id, _)| *id).collect();
        for id in gone {
            self.end(id, None, now);
        }
        self.again.remove(&slot);
        self.processes.remove(&slot);
    }

    fn mistake(&self) -> Option<Mistake> {
        match self.rules.and_then(|rules| rules.slip) {
            Some(Slip::Rule(mistake)) => Some(mistake),
            Some(Slip::SnapshotTold) | None => None,
        }
    }

    fn index(&self) -> &Definition {
        self.list.on_expiries().expect("the list was made with it")
    }

    fn time(&mut self, now: Instant) -> i64 {
        self.recorded_until = (self.recorded_until + 1).max(now.as_nanos() as i64);
        self.recorded_until
    }

    fn next_value(&mut self) -> i64 {
        self.last_value += 1;
        self.last_value
    }

    fn draw<S: System>(&mut self, slot: usize, now: Instant, clock: ClockTime) -> Role {
        if let Some(keys) = self.again.remove(&slot) {
            return Role::Touch { keys, scans: false, change: None };
        }
        if slot == 0 && self.random.chance(SWEEPS) {
            match self.sweeper.next(now, clock) {
                Task::Look { until, limit } => return Role::Look { until, limit },
                Task::Sweep { keys } => return Role::Sweep { due: keys },
                Task::Wait { .. } => {}
            }
        }
        let count = self.random.between(1, 2);
        let mut keys: Vec<Key> = (0..count).map(|_| key(self.random.below(KEYS))).collect();
        keys.sort_unstable();
        keys.dedup();
        if self.random.chance(SNAPSHOTS) {
            return Role::Snapshot { keys, freshness: self.draw_freshness::<S>(clock) };
        }
        let chosen = keys[self.random.index(keys.len())].clone();
        let change = match self.random.below(10) {
            0..5 => {
                let longest = [20, 200, 2_000][self.random.index(3)];
                let lifetime = Duration::from_millis(self.random.between(1, longest));
                Some(Change::Put { key: chosen, lifetime: Some(lifetime) })
            }
            5 => Some(Change::Put { key: chosen, lifetime: None }),
            6 => Some(Change::Delete { key: chosen }),
            _ => None,
        };
        Role::Touch { keys, scans: self.random.chance(SCANS), change }
    }

    fn draw_freshness<S: System>(&mut self, clock: ClockTime) -> Freshness {
        let back = self.random.below(PAST_MICROS_MAX);
        match self.random.below(4) {
            2 if S::READS_THE_PAST => Freshness::Stale(Duration::from_micros(back)),
            3 if S::READS_THE_PAST => {
                let micros = clock.as_micros().saturating_sub(back);
                Freshness::At(Timestamp { micros, ..Timestamp::ZERO })
            }
            _ => Freshness::Strict,
        }
    }

    /// Judges a key, and notes what the history is to say of it. Gives true if its key has to be deleted.
    fn note(&mut self, id: TransactionId, key: &Key, held: Option<&Value>) -> bool {
        let fresh = self.next_value();
        let Some(run) = self.open.get_mut(&id) else { return false };
        let Some(envelope) = held.map(Envelope::decode) else { return false };
        let number = envelope.as_ref().ok().and_then(number_in);
        let (Ok(envelope), Some(number)) = (envelope, number) else {
            self.breaches.push(format!("{id} has read what nobody wrote, under {key:?}"));
            return false;
        };
        let not_ended = MicroOp::Read(end_of(number), Observed::Null);
        match run.judge.judge(held) {
            Ok(Verdict::Alive(_)) => {
                run.ops.push(MicroOp::Read(register(key), Observed::Register(number)));
                run.ops.push(not_ended);
                run.alive.extend(envelope.expiry.map(|expiry| (number, expiry)));
                false
            }
            // With a planted bug what is over counts as absent, and no more.
            verdict => {
                run.ops.extend([not_ended, MicroOp::Write(end_of(number), fresh)]);
                run.ended.push(number);
                verdict == Ok(Verdict::Over)
            }
        }
    }

    /// Goes on once all is there that was asked for: the writes of the transaction; none if it is given up.
    fn writes(&mut self, id: TransactionId) -> Option<BTreeMap<Key, Option<Value>>> {
        let run = self.open.get(&id)?;
        let (role, got, clock) = (run.role.clone(), run.got.clone(), run.clock);
        let mut writes: BTreeMap<Key, Option<Value>> = BTreeMap::new();
        match role {
            Role::Touch { change, .. } => {
                for (key, held) in &got {
                    if self.note(id, key, held.as_ref()) {
                        writes.insert(key.clone(), None);
                    }
                }
                self.change(id, change, &mut writes);
            }
            Role::Sweep { due } => {
                for Due { key, .. } in &due {
                    let held = got.get(key).and_then(Option::as_ref);
                    if is_swept(held, clock, None) && self.note(id, key, held) {
                        writes.insert(key.clone(), None);
                    }
                }
                self.open.get_mut(&id)?.swept = writes.len() as u64;
                if writes.is_empty() {
                    return None;
                }
            }
            Role::Snapshot { .. } | Role::Look { .. } => return None,
        }
        let mut keeper = Keeper::new(Arc::clone(&self.list));
        for (key, value) in writes {
            keeper.write(key, value).ok()?;
        }
        // The index is not unique, so nothing else has to be read.
        keeper.settle(&got).ok().map(|checks| checks.writes)
    }

    fn change(
        &mut self,
        id: TransactionId,
        change: Option<Change>,
        writes: &mut BTreeMap<Key, Option<Value>>,
    ) {
        let value = self.next_value();
        let Some(run) = self.open.get_mut(&id) else { return };
        match change {
            None => {}
            Some(Change::Put { key, lifetime }) => {
                let expiry = lifetime.and_then(|lifetime| Expiry::after(run.clock, lifetime).ok());
                let envelope = Envelope { value: Value::from(value.to_string()), expiry };
                run.ops.push(MicroOp::Write(register(&key), value));
                run.put = Some((key.clone(), value));
                writes.insert(key, Some(envelope.encode()));
            }
            Some(Change::Delete { key }) => {
                let seen = run.ops.iter().find_map(|op| match op {
                    MicroOp::Read(read, Observed::Register(number)) if *read == register(&key) => {
                        Some(*number)
                    }
                    _ => None,
                });
                if let Some(number) = seen {
                    run.ops.push(MicroOp::Write(end_of(number), value));
                    run.ended.push(number);
                    writes.insert(key, None);
                }
            }
        }
    }

    /// Values that a transaction has read at once count: gives false if they have to be read again by one that deletes.
    fn judge_snapshot(&mut self, id: TransactionId, timestamp: Timestamp, clock: ClockTime) -> bool {
        let Some(run) = self.open.get(&id) else { return false };
        let Role::Snapshot { keys, freshness } = run.role.clone() else { return true };
        let (slot, got) = (run.slot, run.got.clone());
        let is_strict = freshness == Freshness::Strict;
        if is_strict {
            let now = clock.max(ClockTime::from_micros(timestamp.micros));
            let is_over = |held: &Value| {
                Envelope::expiry_in(held).ok().flatten().is_some_and(|expiry| expiry.has_passed_by(now))
            };
            let tells = self.rules.is_some_and(|rules| rules.slip == Some(Slip::SnapshotTold));
            if got.values().flatten().any(is_over) && !tells {
                self.again.insert(slot, keys);
                return false;
            }
            if let Some(run) = self.open.get_mut(&id) {
                run.judge = Judge::new(now);
            }
        }
        for (key, held) in &got {
            let Some(held) = held else { continue };
            if is_strict {
                self.note(id, key, Some(held));
                continue;
            }
            let read = at_timestamp(timestamp, held).ok().flatten();
            let number = read.as_ref().and_then(number_in);
            if let (Some(number), Some(run)) = (number, self.open.get_mut(&id)) {
                run.ops.push(MicroOp::Read(register(key), Observed::Register(number)));
                run.ops.push(MicroOp::Read(end_of(number), Observed::Null));
            }
        }
        true
    }

    /// A transaction has ended: at this timestamp, surely not, or nobody knows.
    fn end(
        &mut self,
        id: TransactionId,
        result: Option<Result<Timestamp, Failure>>,
        now: Instant,
    ) -> Option<Run> {
        let run = self.open.remove(&id)?;
        let time = self.time(now);
        let may_have_committed = match &result {
            None => run.commit_asked,
            Some(Err(Failure::Unknown { .. })) => true,
            Some(Ok(_) | Err(_)) => false,
        };
        match result {
            Some(Ok(timestamp)) => {
                if let Some((key, value)) = &run.put {
                    self.put.entry(key.clone()).or_default().insert(timestamp, *value);
                }
                self.ended.extend(&run.ended);
                self.recorder.ok(run.recorded, time, run.ops.clone());
            }
            _ if may_have_committed => {
                if let Some((key, value)) = &run.put {
                    self.unknown.entry(key.clone()).or_default().insert(*value);
                }
                self.ended.extend(&run.ended);
                self.recorder.info(run.recorded, time);
                self.processes.remove(&run.slot);
            }
            _ => self.recorder.fail(run.recorded, time),
        }
        match &run.role {
            Role::Look { .. } if !run.commit_asked => self.sweeper.on_look_failed(),
            Role::Sweep { .. } => {
                let ended = match (may_have_committed, result) {
                    (_, Some(Ok(_))) => Ended::Swept(run.swept),
                    (_, Some(Err(Failure::Aborted))) => Ended::Swept(0),
                    (true, _) | (_, Some(Err(Failure::Conflict))) => Ended::Conflict,
                    _ => Ended::Failed,
                };
                self.sweeper.on_swept(ended);
            }
            Role::Look { .. } | Role::Touch { .. } | Role::Snapshot { .. } => {}
        }
        Some(run)
    }

    /// The violations of the history and of what the shards hold at the end, in words.
    pub(super) fn violations(&self, held: &[&StoredVersion], level: Option<Level>) -> Vec<String> {
        let (Some(_), Some(level)) = (self.rules, level) else { return Vec::new() };
        let strict = self.recorder.without(|txn| self.past.binary_search(&txn).is_ok());
        let mut found = self.breaches.clone();
        found.extend(unfit(&strict, level));
        if !self.past.is_empty() {
            found.extend(unfit(&self.recorder, Level::Serializable));
        }
        found.extend(self.violations_at_the_end(held));
        found
    }

    fn violations_at_the_end(&self, held: &[&StoredVersion]) -> Vec<String> {
        let mut newest: BTreeMap<&Key, &StoredVersion> = BTreeMap::new();
        for version in held {
            let known = newest.entry(&version.0).or_insert(version);
            if known.1 < version.1 {
                *known = version;
            }
        }
        let mut found = Vec::new();
        for (key, put) in &self.put {
            let Some((at, value)) = put.last_key_value() else { continue };
            let unknown = self.unknown.get(key);
            let is_over = self.ended.contains(value)
                || unknown.is_some_and(|unknown| unknown.iter().any(|value| self.ended.contains(value)));
            match newest.get(key) {
                Some((_, version, Some(_))) if version < at => {
                    found.push(format!("{key:?} holds what was before {value}"));
                }
                Some((_, _, Some(_))) => {}
                Some((_, _, None)) | None if is_over => {}
                Some((_, _, None)) | None => {
                    found.push(format!("{key:?} was deleted, and nobody has found {value} over"));
                }
            }
        }
        let users = KeyRange { from: Key::from(FIRST), to: Some(Key::from(END)) };
        let range = entry_range(self.index(), None);
        let present = || newest.values().filter_map(|(key, _, value)| Some((key.clone(), value.clone()?)));
        let keys: Vec<(Key, Value)> = present().filter(|(key, _)| users.contains(key)).collect();
        let entries: Entries = present().filter(|(key, _)| range.contains(key)).collect();
        found.extend(disagreement(self.index(), &keys, &entries));
        found.into_iter().map(|text| format!("values that expire: {text}")).collect()
    }
}

/// The first thing in a history that its level does not allow, in words.
fn unfit(recorder: &Recorder, level: Level) -> Option<String> {
    let history = match recorder.to_history() {
        Ok(history) => history,
        Err(error) => return Some(format!("the history of values that expire: {error}")),
    };
    let report = check(&history, level);
    let anomaly = report.anomalies.first()?;
    Some(format!("values that expire, {level:?}: {anomaly:?}"))
}

impl Clients {
    /// Lets the clients begin with values that expire, if the seed has some.
    pub(super) fn start_expiring<S: System>(&mut self, cluster: &mut Cluster<S>) {
        (0..cluster.scenario.clients).for_each(|slot| self.wake_soon_for_expiry(slot, cluster));
    }

    pub(super) fn wake_soon_for_expiry<S: System>(&mut self, slot: usize, cluster: &mut Cluster<S>) {
        if self.expiring.rules.is_none() || slot >= cluster.scenario.clients {
            return;
        }
        let round_trip = cluster.scenario.round_trip() + Duration::from_millis(1);
        let after = (2 * round_trip).mul_f64(self.expiring.random.unit());
        cluster.world.set_alarm(after + Duration::from_nanos(1), Alarm::Expiry(slot));
    }

    /// A client begins its next transaction on values that expire.
    pub fn wake_for_expiry<S: System>(&mut self, slot: usize, cluster: &mut Cluster<S>) {
        let is_open = self.expiring.open.values().any(|run| run.slot == slot);
        if self.expiring.left == 0 || is_open {
            return;
        }
        let may = self.confined.as_ref().is_none_or(|(slots, _)| slots.contains(&slot));
        if !may || !self.slots[slot].is_alive {
            return self.wake_soon_for_expiry(slot, cluster);
        }
        self.expiring.left -= 1;
        self.slots[slot].sequence += S::NUMBERS_APART;
        let (id, sequence, client) =
            (self.slots[slot].id, self.slots[slot].sequence, self.slots[slot].client);
        let id = TransactionId { client: id, sequence, attempt: 0 };
        let (now, clock) = (cluster.world.now(), cluster.client_clock(slot));
        let expiring = &mut self.expiring;
        let role = expiring.draw::<S>(slot, now, clock);
        let (time, next) = (expiring.time(now), expiring.last_process + 1);
        let process = *expiring.processes.entry(slot).or_insert(next);
        expiring.last_process = expiring.last_process.max(process);
        let recorded = expiring.recorder.invoke(process, time);
        let judge = Judge::new(clock).with_mistake(expiring.mistake());
        let is_blind =
            matches!(role, Role::Sweep { .. }) && expiring.mistake() == Some(Mistake::SweepsUnread);
        let run = Run {
            slot,
            recorded,
            role: role.clone(),
            judge,
            clock,
            awaited: 0,
            got: BTreeMap::new(),
            commit_asked: false,
            ops: Vec::new(),
            alive: Vec::new(),
            put: None,
            ended: Vec::new(),
            swept: 0,
        };
        expiring.begun.insert(id);
        expiring.open.insert(id, run);
        let patience = 20 * cluster.scenario.slow_round_trip() + Duration::from_secs(2);
        if let Role::Snapshot { keys, freshness } = role {
            if freshness != Freshness::Strict {
                self.expiring.past.push(recorded);
            }
            let read = Command::ReadOnly { transaction: id, keyspace: KEYSPACE, keys, freshness, patience };
            return cluster.world.command(client, read);
        }
        cluster.world.command(client, Command::Begin { transaction: id, keyspace: KEYSPACE, patience });
        let asked = match role {
            Role::Touch { scans: true, .. } => {
                let range = KeyRange { from: Key::from(FIRST), to: Some(Key::from(END)) };
                Command::Scan { transaction: id, range, limit: 1_000 }
            }
            Role::Touch { keys, .. } => self.ask_for_expiring(id, keys),
            Role::Sweep { due } if is_blind => return self.sweep_blindly(id, &due, cluster),
            Role::Sweep { due } => self.ask_for_expiring(id, due.into_iter().map(|due| due.key).collect()),
            Role::Look { until, limit } => {
                let end = IndexValue::from(Expiry::from_micros(until.as_micros().saturating_add(1)));
                let range = entry_range(self.expiring.index(), Some(&EntryRange::Between(None, Some(end))));
                Command::Scan { transaction: id, range, limit }
            }
            Role::Snapshot { .. } => return,
        };
        cluster.world.command(client, asked);
    }

    fn ask_for_expiring(&mut self, id: TransactionId, keys: Vec<Key>) -> Command {
        if let Some(run) = self.expiring.open.get_mut(&id) {
            run.awaited = keys.len();
        }
        Command::GetMany { transaction: id, keys }
    }

    /// The planted sweeper deletes keys and entries without a look at what the keys hold.
    fn sweep_blindly<S: System>(&mut self, id: TransactionId, due: &[Due], cluster: &mut Cluster<S>) {
        let mut writes = BTreeMap::new();
        for Due { key, expiry } in due {
            let value = Envelope { value: Value::new(), expiry: Some(*expiry) }.encode();
            let entries = self.expiring.index().entries_of(key, &value).unwrap_or_default();
            writes.extend(entries.into_keys().map(|entry| (entry, None)));
            writes.insert(key.clone(), None);
        }
        self.finish_expiring(id, Some(writes), cluster);
    }

    /// A coordinator has answered. Gives the event back if it is about something else.
    pub(super) fn on_expiry_event<S: System>(
        &mut self,
        event: Event,
        cluster: &mut Cluster<S>,
    ) -> Option<Event> {
        let (Event::Got { transaction, .. }
        | Event::Scanned { transaction, .. }
        | Event::Finished { transaction, .. }
        | Event::Begun { transaction, .. }
        | Event::Shown { transaction, .. }
        | Event::Resolved { transaction, .. }
        | Event::Forgotten { transaction }) = &event
        else {
            return Some(event);
        };
        let id = *transaction;
        if !self.expiring.begun.contains(&id) {
            return Some(event);
        }
        match event {
            Event::Got { key, value, .. } => {
                let run = self.expiring.open.get_mut(&id)?;
                run.got.insert(key, value);
                let is_snapshot = matches!(run.role, Role::Snapshot { .. });
                run.awaited = run.awaited.saturating_sub(1);
                if run.awaited == 0 && !is_snapshot && !run.commit_asked {
                    let writes = self.expiring.writes(id);
                    self.finish_expiring(id, writes, cluster);
                }
            }
            Event::Scanned { entries, next, .. } => self.on_expiring_scanned(id, entries, next, cluster),
            Event::Finished { result, .. } => self.end_of_expiring(id, Some(result), cluster),
            Event::Forgotten { .. } => self.end_of_expiring(id, None, cluster),
            _ => {}
        }
        None
    }

    fn on_expiring_scanned<S: System>(
        &mut self,
        id: TransactionId,
        entries: Vec<(Key, Value)>,
        next: Option<Key>,
        cluster: &mut Cluster<S>,
    ) {
        let Some(run) = self.expiring.open.get(&id) else { return };
        if matches!(run.role, Role::Look { .. }) {
            let clock = cluster.client_clock(run.slot);
            let index = self.expiring.index();
            let due = |(entry, held): &(Key, Value)| {
                let Entry { value, key } = Entry::read(index, entry, held)?;
                Some(Due { key, expiry: value.as_expiry()? })
            };
            let found = entries.iter().filter_map(due).collect();
            self.expiring.sweeper.on_found(found, clock);
            if let Some(run) = self.expiring.open.get_mut(&id) {
                // Nothing more comes of it.
                run.commit_asked = true;
            }
            return self.finish_expiring(id, None, cluster);
        }
        if let Some(run) = self.expiring.open.get_mut(&id) {
            run.got.extend(entries.into_iter().map(|(key, value)| (key, Some(value))));
            if let Some(from) = next {
                // A key that is not read must not be written: nobody would know its entry.
                let range = KeyRange { from, to: Some(Key::from(END)) };
                let client = self.slots[run.slot].client;
                return cluster.world.command(client, Command::Scan { transaction: id, range, limit: 1_000 });
            }
        }
        let writes = self.expiring.writes(id);
        self.finish_expiring(id, writes, cluster);
    }

    /// Commits these writes, or drops the transaction.
    fn finish_expiring<S: System>(
        &mut self,
        id: TransactionId,
        writes: Option<BTreeMap<Key, Option<Value>>>,
        cluster: &mut Cluster<S>,
    ) {
        let Some(run) = self.expiring.open.get_mut(&id) else { return };
        let client = self.slots[run.slot].client;
        let Some(writes) = writes else {
            return cluster.world.command(client, Command::Abort { transaction: id });
        };
        run.commit_asked = true;
        for op in run.ops.iter().filter(|op| matches!(op, MicroOp::Write(..))) {
            self.expiring.recorder.attempt(run.recorded, op.clone());
        }
        for (key, value) in writes {
            cluster.world.command(client, Command::Put { transaction: id, key, value });
        }
        if S::ISOLATION == Isolation::Strict && !run.judge.is_unconfined() {
            let window = run.judge.window();
            cluster.world.command(client, Command::Confine { transaction: id, window });
        }
        cluster.world.command(client, Command::Commit { transaction: id });
    }

    fn end_of_expiring<S: System>(
        &mut self,
        id: TransactionId,
        result: Option<Result<Committed, Failure>>,
        cluster: &mut Cluster<S>,
    ) {
        let Some(run) = self.expiring.open.get(&id) else { return };
        let (slot, recorded) = (run.slot, run.recorded);
        let (now, clock) = (cluster.world.now(), cluster.client_clock(slot));
        let result = match result {
            Some(Ok(committed)) if !self.expiring.judge_snapshot(id, committed.timestamp, clock) => {
                Some(Err(Failure::Conflict))
            }
            Some(result) => Some(result.map(|committed| committed.timestamp)),
            None => None,
        };
        if let Some(Ok(timestamp)) = &result {
            let mut at = in_history::<S>(id, *timestamp);
            let is_past = self.expiring.past.binary_search(&recorded).is_ok();
            // A snapshot holds what was written at its very timestamp; a history knows only what was written below.
            at.client += i64::from(is_past);
            self.expiring.recorder.timestamp(recorded, at);
        }
        let committed = result.as_ref().and_then(|result| result.as_ref().ok()).copied();
        let Some(run) = self.expiring.end(id, result, now) else { return };
        if let Some(timestamp) = committed {
            self.count_expiring::<S>(id, &run, timestamp);
        }
        self.wake_soon_for_expiry(slot, cluster);
    }

    /// Counts what a committed transaction has done, and looks whether it may have committed where it did.
    fn count_expiring<S: System>(&mut self, id: TransactionId, run: &Run, timestamp: Timestamp) {
        let late = run.alive.iter().find(|(_, expiry)| expiry.has_passed_at(timestamp));
        if let Some((value, expiry)) = late
            && S::ISOLATION == Isolation::Strict
        {
            self.expiring.breaches.push(format!(
                "values that expire: {id} has seen {value}, which is over from {expiry} on, and has committed at {timestamp}"
            ));
        }
        let done = match (&run.role, run.ended.is_empty(), run.alive.is_empty()) {
            (Role::Sweep { .. }, ..) => "keys were swept",
            (Role::Snapshot { freshness: Freshness::Strict, .. }, ..) => {
                "values that expire were read at once"
            }
            (Role::Snapshot { .. }, ..) => "values that expire were read in the past",
            (_, false, _) => "value was over, and its key was deleted",
            (_, true, false) => "value was alive, and its expiry was waited for",
            (_, true, true) => "transaction met no value that expires",
        };
        *self.happened.entry(done).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_ends_twice_or_is_seen_after_its_end_is_found_out() {
        let run = |ops: &[Vec<MicroOp>]| {
            let mut recorder = Recorder::new();
            for (process, ops) in ops.iter().enumerate() {
                let time = 10 * process as i64;
                let txn = recorder.invoke(process as u64, time);
                recorder.ok(txn, time + 5, ops.clone());
            }
            unfit(&recorder, Level::StrictSerializable)
        };
        let put = vec![MicroOp::Write(register(&key(1)), 1)];
        let alive = vec![
            MicroOp::Read(register(&key(1)), Observed::Register(1)),
            MicroOp::Read(end_of(1), Observed::Null),
        ];
        let over = |by| vec![MicroOp::Read(end_of(1), Observed::Null), MicroOp::Write(end_of(1), by)];
        assert_eq!(run(&[put.clone(), alive.clone(), over(2)]), None);
        assert!(run(&[put.clone(), over(2), alive]).is_some(), "it was over, and is there again");
        assert!(run(&[put, over(2), over(3)]).is_some(), "it is over twice");
    }
}
