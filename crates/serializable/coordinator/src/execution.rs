//! The execution phase: what is read by one-round transactions of its own, and writes that are noted until commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_coordinator::{Buffer, Scan, tell_known};
use quorate_core::command::{Event, Failure, Invalid, Routes};
use quorate_core::transaction::{LimitExceeded, validate_key};
use quorate_core::{ClockTime, Context, Instant, Key, KeyRange, ShardId, Timestamp, TransactionId, Value};
use quorate_granola::{Class, Place};
use quorate_serializable_shard::answer::Found;

use crate::coordinator::{Asked, Interactive, OneRound, OneRoundResult, Out, finish, patience};
use crate::language;

/// Why an answer is dropped: its client has ended the transaction that it was for, or a limit has.
const OVER: &str = "the transaction is over";

/// A transaction that reads and notes what it will write.
#[derive(Debug)]
pub(crate) struct Execution {
    pub(crate) routes: Arc<Routes>,
    pub(crate) deadline: Instant,
    /// The clock when it began: nothing of it is sent as if it had been earlier.
    pub(crate) began: ClockTime,
    pub(crate) buffer: Buffer,
    /// Where each version stands that was read. The buffer knows them by less.
    pub(crate) places: BTreeMap<(Key, Timestamp), Place>,
    pub(crate) scanned: Vec<Scanned>,
    /// How often somebody was asked, and at which timestamp it was last.
    pub(crate) reads: u32,
    pub(crate) read_at: ClockTime,
    /// True if two versions that were read cannot be told apart any more.
    pub(crate) is_confused: bool,
}

/// A range as it was found at a shard.
#[derive(Debug)]
pub(crate) struct Scanned {
    pub(crate) shard: ShardId,
    pub(crate) range: KeyRange,
    /// It was read there.
    pub(crate) before: Place,
    /// How many keys the shard held of it.
    pub(crate) keys: u64,
}

/// Keys that are being read, by shard.
pub(crate) type KeysOfShards = BTreeMap<ShardId, Vec<Key>>;

/// A range that is being read.
#[derive(Debug)]
pub(crate) struct Scanning {
    scan: Scan,
}

impl Execution {
    pub(crate) fn new(routes: Arc<Routes>, deadline: Instant, began: ClockTime) -> Self {
        Execution {
            routes,
            deadline,
            began,
            buffer: Buffer::default(),
            places: BTreeMap::new(),
            scanned: Vec::new(),
            reads: 0,
            read_at: ClockTime::default(),
            is_confused: false,
        }
    }

    /// Notes where a version stands.
    fn note_place(&mut self, key: &Key, place: Place) {
        let known = self.places.insert((key.clone(), language::in_short(place)), place);
        self.is_confused |= known.is_some_and(|known| known != place);
    }

    /// Notes what a shard holds of a key; gives what the transaction is told of it.
    fn take(&mut self, key: &Key, found: Found) -> Result<Option<Value>, LimitExceeded> {
        let (short, value) = match language::held(found) {
            Some(held) => {
                let place = language::place_of(&held);
                self.note_place(key, place);
                (language::in_short(place), Some(held.value))
            }
            None => (language::ABSENT, None),
        };
        self.buffer.read(key, short, value)
    }

    /// Somebody was asked.
    fn note_read(&mut self, timestamp: ClockTime) {
        self.reads += 1;
        self.read_at = self.read_at.max(timestamp);
    }
}

impl Interactive {
    /// Reads keys at all of their shards, at one timestamp.
    pub(crate) fn on_get(
        &mut self,
        id: TransactionId,
        keys: Vec<Key>,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(execution) = self.executing.get(&id) else { return not_open(id, outbox) };
        if let Err(limit) = keys.iter().try_for_each(|key| validate_key(key)) {
            return self.exceed(id, limit, outbox);
        }
        let unknown = tell_known(outbox, id, &execution.buffer, keys);
        if unknown.is_empty() {
            return;
        }
        let mut keys = KeysOfShards::new();
        for key in unknown {
            keys.entry(execution.routes.keyspace.shard_of(&key).id).or_default().push(key);
        }
        let patience = patience(execution.deadline, context.now);
        let parts = keys.iter().map(|(shard, keys)| (*shard, language::gets(keys))).collect();
        let order = OneRound { parts, class: Class::ReadOnly, patience };
        let name = self.own_name();
        self.execute(name, Asked::Get(id, keys), order, context, outbox);
    }

    pub(crate) fn on_got(
        &mut self,
        id: TransactionId,
        keys: KeysOfShards,
        result: OneRoundResult,
        outbox: &mut Out,
    ) {
        let Some(execution) = self.executing.get_mut(&id) else { return outbox.ignored(OVER) };
        let executed = match result {
            Ok(executed) => executed,
            Err(refused) => {
                let shards: Vec<ShardId> = keys.keys().copied().collect();
                let failure = self.failure_of_read(refused, &shards);
                return self.fail(id, failure, outbox);
            }
        };
        execution.note_read(executed.timestamp);
        for (shard, keys) in keys {
            let found = executed.answers.get(&shard).map(|answer| language::found(answer, keys.len()));
            let found = match found {
                Some(Ok(found)) => found,
                Some(Err(failure)) => return self.fail(id, failure, outbox),
                None => return self.fail(id, Failure::Conflict, outbox),
            };
            for (key, found) in keys.into_iter().zip(found) {
                let Some(execution) = self.executing.get_mut(&id) else { return };
                match execution.take(&key, found) {
                    Ok(value) => outbox.emit(Event::Got { transaction: id, key, value }),
                    Err(limit) => return self.exceed(id, limit, outbox),
                }
            }
        }
    }

    /// Reads a range at all of its shards, at one timestamp.
    pub(crate) fn on_scan(
        &mut self,
        id: TransactionId,
        range: KeyRange,
        limit: u32,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(execution) = self.executing.get(&id) else { return not_open(id, outbox) };
        let keyspace = &execution.routes.keyspace;
        let scan = Scan::new(keyspace, range, limit);
        let operation = language::scan(&scan.range, limit);
        let parts = scan.missing().map(|shard| (keyspace.shards[shard].id, operation.clone())).collect();
        let patience = patience(execution.deadline, context.now);
        let order = OneRound { parts, class: Class::ReadOnly, patience };
        let name = self.own_name();
        self.execute(name, Asked::Scan(id, Box::new(Scanning { scan })), order, context, outbox);
    }

    pub(crate) fn on_scanned(
        &mut self,
        id: TransactionId,
        scanning: Scanning,
        result: OneRoundResult,
        outbox: &mut Out,
    ) {
        let Some(execution) = self.executing.get_mut(&id) else { return outbox.ignored(OVER) };
        let routes = Arc::clone(&execution.routes);
        let executed = match result {
            Ok(executed) => executed,
            Err(refused) => {
                let shards: Vec<ShardId> = routes.keyspace.shards.iter().map(|shard| shard.id).collect();
                let failure = self.failure_of_read(refused, &shards);
                return self.fail(id, failure, outbox);
            }
        };
        let Scanning { mut scan } = scanning;
        let mut keys_of: BTreeMap<ShardId, Vec<Key>> = BTreeMap::new();
        for position in scan.missing().collect::<Vec<_>>() {
            let shard = routes.keyspace.shards[position].id;
            let Some(answer) = executed.answers.get(&shard) else {
                return self.fail(id, Failure::Conflict, outbox);
            };
            let found = match language::found(answer, 1) {
                Ok(found) => found,
                Err(failure) => return self.fail(id, failure, outbox),
            };
            let (page, places) = found.into_iter().next().map(language::page_of).unwrap_or_default();
            for (found, place) in page.keys.iter().zip(places) {
                execution.note_place(&found.key, place);
            }
            keys_of.insert(shard, page.keys.iter().map(|found| found.key.clone()).collect());
            scan.take(position, page);
        }
        execution.note_read(executed.timestamp);
        let range = scan.range.clone();
        let (entries, next) = match execution.buffer.scan(&routes.keyspace, scan) {
            Ok(page) => page,
            Err(limit) => return self.exceed(id, limit, outbox),
        };
        let covered = KeyRange { from: range.from, to: next.clone().or(range.to) };
        for (shard, keys) in keys_of {
            let keys = keys.iter().filter(|key| covered.contains(key)).count() as u64;
            let before = Place::after(executed.timestamp);
            execution.scanned.push(Scanned { shard, range: covered.clone(), before, keys });
        }
        outbox.emit(Event::Scanned { transaction: id, entries, next });
    }

    pub(crate) fn on_put(&mut self, id: TransactionId, key: Key, value: Option<Value>, outbox: &mut Out) {
        let Some(execution) = self.executing.get_mut(&id) else { return not_open(id, outbox) };
        if let Err(limit) = execution.buffer.put(key, value) {
            self.exceed(id, limit, outbox);
        }
    }

    /// A limit would be exceeded.
    fn exceed(&mut self, id: TransactionId, limit: LimitExceeded, outbox: &mut Out) {
        self.fail(id, Failure::Invalid(Invalid::Limit(limit)), outbox);
    }
}

/// There is no such transaction.
fn not_open(id: TransactionId, outbox: &mut Out) {
    finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id))));
}
