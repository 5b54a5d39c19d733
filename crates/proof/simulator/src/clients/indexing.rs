//! Indexes beside the workload, in some seeds of systems that keep them: created, filled, read, dropped, and created again, while clients write that know of them and others
//! that do not.
//!
//! | client | does |
//! |---|---|
//! | the first | changes the index lists and fills indexes page by page, as the client library does |
//! | any | writes a key: by the lists that it reads, or, as long as it has heard of none, without reading any |
//! | any | reads keys and an index in one transaction |
//!
//! If such a reader commits, the index and the data that it has read must agree; and so must those that the shards hold at the end. All transactions of the workload read the
//! lists of all shards before anything else, as a client does that knows of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use quorate_core::command::{Command, Committed, Event, Failure};
use quorate_core::hosted::StoredVersion;
use quorate_core::reserved::{index_list_keys, is_index_list};
use quorate_core::{Key, KeyRange, Random, TransactionId, Value};
use quorate_index::{
    Checks, Definition, Entries, IndexList, Keeper, Stage, Unparsable, cursor_key, entry_range,
};

use super::Clients;
use crate::cluster::{Alarm, Cluster, KEYSPACE};
use crate::system::System;

/// So many seeds have indexes.
const PROBABILITY: f64 = 0.2;

/// So many transactions are begun, however long the seed is: they meet at few keys.
const TRANSACTIONS: u64 = 400;

/// The keys that are indexed lie above those of the workload.
const KEYS: u64 = 8;
const FIRST: &[u8] = b"\xfe";
const END: &[u8] = b"\xff";

/// So many different values there are.
const VALUES: u64 = 4;

/// A page that is filled or cleared has so many keys.
const PAGE: u32 = 3;

/// An index that is ready is dropped with this probability, each time that somebody could.
const DROPS: f64 = 0.1;

/// A client that was refused, and knows of no list, looks for one with this probability.
const LEARNS: f64 = 0.3;

/// With this probability the client that changes lists is at that, and not one of the others.
const CHANGES: f64 = 0.7;

/// With this probability a client reads an index, and does not write.
const READS: f64 = 0.3;

/// True if a seed has indexes. A bug of anything else is hunted as it always was.
pub(crate) fn has_indexes<S: System>(seed: u64, plant: Option<&str>) -> bool {
    match plant {
        None => S::KEEPS_INDEXES && Random::stream(seed, "with indexes").chance(PROBABILITY),
        Some(id) => S::INDEX_PLANTS.contains(&id),
    }
}

/// The transactions of all clients.
#[derive(Debug)]
pub(super) struct Indexing {
    random: Random,
    /// The keys of the lists; none if the seed has no indexes.
    lists: Vec<Key>,
    /// How many transactions are still to be begun.
    left: u64,
    open: BTreeMap<TransactionId, Run>,
    /// All that ever began: answers about them may be late.
    begun: BTreeSet<TransactionId>,
    /// The clients that know of lists.
    aware: BTreeSet<usize>,
}

/// A transaction.
#[derive(Debug)]
struct Run {
    slot: usize,
    role: Role,
    phase: Phase,
    /// How many keys have not been told.
    awaited: usize,
    got: BTreeMap<Key, Option<Value>>,
    list: IndexList,
    keys: Vec<(Key, Value)>,
    found: Entries,
    /// What is counted if it commits.
    done: &'static str,
}

#[derive(Clone, Debug)]
enum Role {
    Write { key: Key, value: Option<Value> },
    Blind { key: Key, value: Option<Value> },
    Change,
    Read,
}

#[derive(Clone, Debug)]
enum Phase {
    /// Lists and keys are read.
    Reads,
    /// The entries of unique indexes are, before these writes.
    Checks(Checks),
    /// How far an index is filled is read.
    Cursor(Definition),
    /// A page of keys is read that an index lacks.
    Fills(Definition),
    /// A page of entries is read that are to be deleted.
    Clears(Definition),
    /// The keys are read, and then the entries of an index.
    ReadsKeys(Definition),
    ReadsEntries(Definition),
    /// It was asked to commit; a reader has found this, if it disagrees.
    Commits(Option<String>),
}

/// The next command of a transaction.
enum Next {
    Ask(Command),
    Finish(BTreeMap<Key, Option<Value>>),
    GiveUp,
}

impl Indexing {
    /// Indexes in a cluster of so many shards, if the seed has some.
    pub(super) fn new(seed: u64, shards: Option<usize>) -> Self {
        Indexing {
            random: Random::stream(seed, "indexing"),
            lists: shards.map(index_list_keys).unwrap_or_default(),
            left: shards.map_or(0, |_| TRANSACTIONS),
            open: BTreeMap::new(),
            begun: BTreeSet::new(),
            aware: BTreeSet::new(),
        }
    }

    /// The lists that every transaction of the workload reads.
    pub(super) fn lists(&self) -> &[Key] {
        &self.lists
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
        self.open.iter().map(|(id, run)| format!("transaction {id} (of indexes) {:?}", run.role))
    }

    /// The client in this place is no more.
    pub(super) fn bury(&mut self, slot: usize) {
        self.open.retain(|_, run| run.slot != slot);
        self.aware.remove(&slot);
    }

    fn draw(&mut self, slot: usize) -> Role {
        if slot == 0 && self.random.chance(CHANGES) {
            return Role::Change;
        }
        if self.random.chance(READS) {
            return Role::Read;
        }
        let key = Key::from([FIRST, format!("{}", self.random.below(KEYS)).as_bytes()].concat());
        let value = self.random.chance(0.8).then(|| {
            let (number, same) = (self.random.below(VALUES), self.random.below(2));
            Value::from(format!("{{\"a\":{number},\"b\":{same}}}"))
        });
        match self.aware.contains(&slot) {
            true => Role::Write { key, value },
            false => Role::Blind { key, value },
        }
    }

    /// Goes on once all is there that was asked for.
    fn go_on(&mut self, id: TransactionId) -> Next {
        let Some(run) = self.open.get_mut(&id) else { return Next::GiveUp };
        match run.phase.clone() {
            Phase::Reads => {
                let mut lists = self.lists.iter().map(|key| run.got.get(key).cloned().flatten());
                let first = lists.next().flatten();
                // It cannot commit, if they are not alike.
                if lists.any(|list| list != first) {
                    return Next::GiveUp;
                }
                let Ok(list) = IndexList::decode(first.as_deref()) else { return Next::GiveUp };
                run.list = list;
                if first.is_some() {
                    self.aware.insert(run.slot);
                }
                match run.role.clone() {
                    Role::Write { key, value } => run.keep(key, value),
                    Role::Blind { .. } => Next::GiveUp,
                    Role::Change => self.change(id),
                    Role::Read => run.read(id),
                }
            }
            Phase::Checks(checks) => {
                let found = |entry: &Key| run.got.get(entry).cloned().flatten();
                match checks.judge(&run.list, found) {
                    Ok(writes) => Next::Finish(writes),
                    Err(_) => Next::GiveUp,
                }
            }
            Phase::Cursor(index) => match run.got.get(&cursor_key(index.id)).cloned().flatten().as_deref() {
                Some([]) => {
                    run.done = "index became ready";
                    self.write_list(id, |list| set_stage(list, index.id, Stage::Ready))
                }
                cursor => {
                    let from = cursor.map_or(FIRST, |cursor| &cursor[1..]);
                    let range = KeyRange { from: Key::copy_from_slice(from), to: Some(Key::from(END)) };
                    run.phase = Phase::Fills(index);
                    Next::Ask(Command::Scan { transaction: id, range, limit: PAGE })
                }
            },
            // They go on with a page.
            Phase::Fills(_) | Phase::Clears(_) | Phase::ReadsKeys(_) | Phase::ReadsEntries(_) => Next::GiveUp,
            Phase::Commits(_) => Next::GiveUp,
        }
    }

    /// The next change of the lists, or the next page.
    fn change(&mut self, id: TransactionId) -> Next {
        let Some(run) = self.open.get_mut(&id) else { return Next::GiveUp };
        let Some(index) = run.list.indexes.first().cloned() else {
            let unique = self.random.chance(0.3);
            run.done = "index was announced";
            return self.write_list(id, |list| {
                let on = quorate_index::Source::Json("/a".to_owned());
                list.announce("by", &on, unique, Unparsable::Refuse).expect("it is the only one");
            });
        };
        match index.stage {
            Stage::Announced => {
                run.done = "index is being built";
                self.write_list(id, |list| set_stage(list, index.id, Stage::Building))
            }
            Stage::Building => {
                let keys = vec![cursor_key(index.id)];
                (run.awaited, run.phase) = (1, Phase::Cursor(index));
                Next::Ask(Command::GetMany { transaction: id, keys })
            }
            Stage::Ready if self.random.chance(DROPS) => {
                run.done = "index is being dropped";
                self.write_list(id, |list| set_stage(list, index.id, Stage::Dropping))
            }
            Stage::Ready => Next::GiveUp,
            Stage::Dropping => {
                let range = entry_range(&index, None);
                run.phase = Phase::Clears(index);
                Next::Ask(Command::Scan { transaction: id, range, limit: PAGE })
            }
        }
    }

    fn write_list(&mut self, id: TransactionId, change: impl FnOnce(&mut IndexList)) -> Next {
        let Some(run) = self.open.get_mut(&id) else { return Next::GiveUp };
        change(&mut run.list);
        let value = run.list.encode();
        Next::Finish(self.lists.iter().map(|key| (key.clone(), Some(value.clone()))).collect())
    }

    /// A page was read.
    fn on_page(&mut self, id: TransactionId, entries: Vec<(Key, Value)>, next: Option<Key>) -> Next {
        let Some(run) = self.open.get_mut(&id) else { return Next::GiveUp };
        match run.phase.clone() {
            Phase::Fills(index) => {
                let mut writes = BTreeMap::new();
                for (key, value) in &entries {
                    for (entry, held) in index.entries_of(key, value).unwrap_or_default() {
                        let other = writes.insert(entry, Some(held.clone()));
                        if other.flatten().is_some_and(|other: Value| other != held) {
                            return self.refuse(id, index.id);
                        }
                    }
                }
                // A cursor begins with one byte, so that the last one is told from the others.
                let place = next.map_or_else(Vec::new, |next| [b">", next.as_slice()].concat());
                let unique: Vec<Key> = writes.keys().filter(|_| index.unique).cloned().collect();
                writes.insert(cursor_key(index.id), Some(Value::from(place)));
                run.done = "page of an index was filled";
                if unique.is_empty() {
                    return Next::Finish(writes);
                }
                let owner = |entry: &Key| writes.get(entry).cloned().flatten().unwrap_or_default();
                let owners = unique
                    .iter()
                    .map(|entry| (entry.clone(), (index.id, Key::copy_from_slice(&owner(entry)))));
                let checks = Checks { unique: owners.collect(), writes, ..Checks::default() };
                (run.awaited, run.phase) = (unique.len(), Phase::Checks(checks));
                Next::Ask(Command::GetMany { transaction: id, keys: unique })
            }
            Phase::Clears(index) => {
                let mut writes: BTreeMap<Key, Option<Value>> =
                    entries.into_iter().map(|(entry, _)| (entry, None)).collect();
                if next.is_some() {
                    return Next::Finish(writes);
                }
                writes.insert(cursor_key(index.id), None);
                run.done = "index was dropped";
                match self.write_list(id, |list| list.indexes.retain(|other| other.id != index.id)) {
                    Next::Finish(lists) => Next::Finish(writes.into_iter().chain(lists).collect()),
                    other => other,
                }
            }
            Phase::ReadsKeys(index) => {
                run.keys.extend(entries);
                let range = match next {
                    Some(from) => KeyRange { from, to: Some(Key::from(END)) },
                    None => {
                        run.phase = Phase::ReadsEntries(index.clone());
                        entry_range(&index, None)
                    }
                };
                Next::Ask(Command::Scan { transaction: id, range, limit: 1_000 })
            }
            Phase::ReadsEntries(index) => {
                run.found.extend(entries);
                if let Some(from) = next {
                    let range = KeyRange { from, ..entry_range(&index, None) };
                    return Next::Ask(Command::Scan { transaction: id, range, limit: 1_000 });
                }
                let breach = disagreement(&index, &run.keys, &run.found);
                run.done = "index was read with its keys";
                run.phase = Phase::Commits(breach);
                Next::Finish(BTreeMap::new())
            }
            Phase::Reads | Phase::Checks(_) | Phase::Cursor(_) | Phase::Commits(_) => Next::GiveUp,
        }
    }

    /// Two keys have one value of a unique index: it is dropped again.
    fn refuse(&mut self, id: TransactionId, index: u32) -> Next {
        if let Some(run) = self.open.get_mut(&id) {
            run.done = "index was refused";
        }
        self.write_list(id, |list| set_stage(list, index, Stage::Dropping))
    }

    /// What the shards hold at the end, if it disagrees, in words.
    pub(super) fn violations(&self, held: &[&StoredVersion]) -> Vec<String> {
        let mut newest: BTreeMap<&Key, &StoredVersion> = BTreeMap::new();
        for version in held {
            let known = newest.entry(&version.0).or_insert(version);
            if known.1 < version.1 {
                *known = version;
            }
        }
        let present = || newest.values().filter_map(|(key, _, value)| Some((key, value.as_ref()?)));
        let mut lists = present().filter(|(key, _)| is_index_list(key)).map(|(_, value)| value);
        let Some(first) = lists.next() else { return Vec::new() };
        if lists.any(|list| list != first) {
            return vec!["index lists: they differ from shard to shard".to_owned()];
        }
        let list = match IndexList::decode(Some(first)) {
            Ok(list) => list,
            Err(error) => return vec![format!("index lists: {error}")],
        };
        let users = KeyRange { from: Key::from(FIRST), to: Some(Key::from(END)) };
        let keys: Vec<(Key, Value)> = present()
            .filter(|(key, _)| users.contains(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let ready = list.indexes.iter().filter(|index| index.stage == Stage::Ready);
        let judged = ready.filter_map(|index| {
            let range = entry_range(index, None);
            let entries = present().filter(|(key, _)| range.contains(key));
            let entries: Entries = entries.map(|(key, value)| (key.clone(), value.clone())).collect();
            disagreement(index, &keys, &entries)
        });
        judged.map(|text| format!("indexes at the end: {text}")).collect()
    }
}

impl Run {
    fn keep(&mut self, key: Key, value: Option<Value>) -> Next {
        self.done = "key was written by an index list";
        let mut keeper = Keeper::new(Arc::new(self.list.clone()));
        let before = BTreeMap::from([(key.clone(), self.got.get(&key).cloned().flatten())]);
        if keeper.write(key, value).is_err() {
            return Next::GiveUp;
        }
        match keeper.settle(&before) {
            Ok(checks) if checks.unread().is_empty() => Next::Finish(checks.writes),
            Ok(checks) => {
                let keys: Vec<Key> = checks.unread().into_iter().collect();
                (self.awaited, self.phase) = (keys.len(), Phase::Checks(checks));
                Next::Ask(Command::GetMany { transaction: TransactionId::default(), keys })
            }
            Err(_) => Next::GiveUp,
        }
    }

    fn read(&mut self, id: TransactionId) -> Next {
        let Some(index) = self.list.indexes.iter().find(|index| index.stage == Stage::Ready).cloned() else {
            return Next::GiveUp;
        };
        let range = KeyRange { from: Key::from(FIRST), to: Some(Key::from(END)) };
        self.phase = Phase::ReadsKeys(index);
        Next::Ask(Command::Scan { transaction: id, range, limit: 1_000 })
    }
}

fn set_stage(list: &mut IndexList, index: u32, stage: Stage) {
    for known in list.indexes.iter_mut().filter(|known| known.id == index) {
        known.stage = stage;
    }
}

/// What is wrong with the entries of keys, in words.
pub(super) fn disagreement(index: &Definition, keys: &[(Key, Value)], found: &Entries) -> Option<String> {
    let of_key = |(key, value): &(Key, Value)| index.entries_of(key, value).unwrap_or_default();
    let expected: Entries = keys.iter().flat_map(of_key).collect();
    let missing = expected.iter().find(|(entry, held)| found.get(*entry) != Some(held));
    let vain = found.keys().find(|entry| !expected.contains_key(*entry));
    let id = index.id;
    match (missing, vain) {
        (Some((entry, _)), _) => Some(format!("index {id} lacks the entry {entry:?} of a key that is there")),
        (None, Some(entry)) => Some(format!("index {id} has the entry {entry:?} of a key that is not there")),
        (None, None) => None,
    }
}

impl Clients {
    /// Lets the clients begin with indexes, if the seed has some.
    pub(super) fn start_indexing<S: System>(&mut self, cluster: &mut Cluster<S>) {
        if !self.indexing.lists.is_empty() {
            (0..cluster.scenario.clients).for_each(|slot| self.wake_soon_for_index(slot, cluster));
        }
    }

    pub(super) fn wake_soon_for_index<S: System>(&mut self, slot: usize, cluster: &mut Cluster<S>) {
        if self.indexing.lists.is_empty() || slot >= cluster.scenario.clients {
            return;
        }
        let round_trip = cluster.scenario.round_trip() + Duration::from_millis(1);
        let after = (2 * round_trip).mul_f64(self.indexing.random.unit());
        cluster.world.set_alarm(after + Duration::from_nanos(1), Alarm::Index(slot));
    }

    /// A client begins its next transaction about indexes.
    pub fn wake_for_index<S: System>(&mut self, slot: usize, cluster: &mut Cluster<S>) {
        let is_open = self.indexing.open.values().any(|run| run.slot == slot);
        if self.indexing.left == 0 || is_open {
            return;
        }
        let may = self.confined.as_ref().is_none_or(|(slots, _)| slots.contains(&slot));
        if !may || !self.slots[slot].is_alive {
            return self.wake_soon_for_index(slot, cluster);
        }
        self.indexing.left -= 1;
        self.slots[slot].sequence += S::NUMBERS_APART;
        let (client, sequence) = (self.slots[slot].id, self.slots[slot].sequence);
        let id = TransactionId { client, sequence, attempt: 0 };
        let role = self.indexing.draw(slot);
        let patience = 20 * cluster.scenario.slow_round_trip() + Duration::from_secs(2);
        let client = self.slots[slot].client;
        cluster.world.command(client, Command::Begin { transaction: id, keyspace: KEYSPACE, patience });
        self.indexing.begun.insert(id);
        let mut run = Run {
            slot,
            role: role.clone(),
            phase: Phase::Reads,
            awaited: 0,
            got: BTreeMap::new(),
            list: IndexList::default(),
            keys: Vec::new(),
            found: Entries::new(),
            done: "key was written without knowing of a list",
        };
        let mut keys = self.indexing.lists.clone();
        match role {
            Role::Blind { key, value } => {
                run.phase = Phase::Commits(None);
                self.indexing.open.insert(id, run);
                cluster.world.command(client, Command::Put { transaction: id, key, value });
                cluster.world.command(client, Command::Commit { transaction: id });
                return;
            }
            Role::Write { key, .. } => keys.push(key),
            Role::Change | Role::Read => {}
        }
        run.awaited = keys.len();
        self.indexing.open.insert(id, run);
        cluster.world.command(client, Command::GetMany { transaction: id, keys });
    }

    /// A coordinator has answered. Gives the event back if it is about something else.
    pub(super) fn on_index_event<S: System>(
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
        if !self.indexing.begun.contains(&id) {
            return Some(event);
        }
        let next = match event {
            Event::Got { key, value, .. } => {
                let run = self.indexing.open.get_mut(&id)?;
                run.got.insert(key, value);
                run.awaited = run.awaited.saturating_sub(1);
                if run.awaited > 0 || matches!(run.phase, Phase::Commits(_)) {
                    return None;
                }
                self.indexing.go_on(id)
            }
            Event::Scanned { entries, next, .. } => self.indexing.on_page(id, entries, next),
            Event::Finished { result, .. } => {
                self.end_of_index(id, result, cluster);
                return None;
            }
            Event::Forgotten { .. } => {
                if let Some(run) = self.indexing.open.remove(&id) {
                    self.wake_soon_for_index(run.slot, cluster);
                }
                return None;
            }
            _ => return None,
        };
        self.go_on_with_index(id, next, cluster);
        None
    }

    fn go_on_with_index<S: System>(&mut self, id: TransactionId, next: Next, cluster: &mut Cluster<S>) {
        let Some(run) = self.indexing.open.get_mut(&id) else { return };
        let client = self.slots[run.slot].client;
        match next {
            Next::Ask(Command::GetMany { keys, .. }) => {
                cluster.world.command(client, Command::GetMany { transaction: id, keys });
            }
            Next::Ask(command) => cluster.world.command(client, command),
            Next::Finish(writes) => {
                if !matches!(run.phase, Phase::Commits(_)) {
                    run.phase = Phase::Commits(None);
                }
                for (key, value) in writes {
                    cluster.world.command(client, Command::Put { transaction: id, key, value });
                }
                cluster.world.command(client, Command::Commit { transaction: id });
            }
            Next::GiveUp => cluster.world.command(client, Command::Abort { transaction: id }),
        }
    }

    fn end_of_index<S: System>(
        &mut self,
        id: TransactionId,
        result: Result<Committed, Failure>,
        cluster: &mut Cluster<S>,
    ) {
        let Some(run) = self.indexing.open.remove(&id) else { return };
        let Run { slot, role, phase, done, .. } = run;
        match (result, phase) {
            (Ok(_), Phase::Commits(breach)) => {
                *self.happened.entry(done).or_default() += 1;
                self.breaches.extend(breach.map(|text| format!("{id}: {text}")));
            }
            (Err(Failure::Conflict), Phase::Commits(_)) if matches!(role, Role::Blind { .. }) => {
                *self.happened.entry("write that knew of no list was refused").or_default() += 1;
                if self.indexing.random.chance(LEARNS) {
                    self.indexing.aware.insert(slot);
                }
            }
            _ => {}
        }
        self.wake_soon_for_index(slot, cluster);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_disagree_with_keys_are_found_out() {
        let index = Definition::new(1, "by", quorate_index::Source::Json("/a".to_owned()));
        let keys = vec![(Key::from("k"), Value::from_static(b"{\"a\":1}"))];
        let entries = index.entries_of(&keys[0].0, &keys[0].1).unwrap();
        assert_eq!(disagreement(&index, &keys, &entries), None);
        assert!(disagreement(&index, &keys, &Entries::new()).unwrap().contains("lacks"));
        assert!(disagreement(&index, &[], &entries).unwrap().contains("not there"));
    }
}
