//! The execution phase: reads at the nearest replica, writes buffered until commit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quorate_core::command::{Event, Failure, Invalid, Routes};
use quorate_core::transaction::{
    LimitExceeded, TRANSACTION_BYTES_MAX, TRANSACTION_ENTRIES_MAX, readable, validate_key, validate_write,
};
use quorate_core::{
    Context, Instant, Key, KeyRange, ReadVersion, ReplicaId, ShardId, Timestamp, Transaction, TransactionId,
    Value, View, Write,
};

use super::leaders::Leaders;
use super::{Coordinator, Out, Phase, finish};
use crate::message::{FoundKey, Message};
use crate::rules::{Plant, Rules};

/// What a transaction has read and wants to write.
#[derive(Debug)]
pub(super) struct Execution {
    routes: Arc<Routes>,
    /// Which attempt at the transaction this is: later ones read at the leader, in case the nearest replica is stale.
    attempt: u32,
    reads: BTreeMap<Key, (Timestamp, Option<Value>)>,
    writes: BTreeMap<Key, Option<Value>>,
    ranges: Vec<(ShardId, KeyRange)>,
    bytes: usize,
    pending: Vec<Pending>,
    requests: u32,
    /// How often it was told, since a time-out, that another replica leads.
    redirects: u32,
    /// How old it is, if it locks what it reads.
    lock: Option<Timestamp>,
    /// Where it has locks, or is about to; and the view in which, once it is known.
    locked: BTreeMap<ShardId, Option<View>>,
    /// True if it is a read-only transaction that commits by itself once everything is read.
    pub(super) commits_when_read: bool,
}

/// A read or scan that is not answered yet.
#[derive(Debug)]
struct Pending {
    request: u32,
    wanted: Wanted,
    /// How many replicas of each shard have been asked.
    asked: usize,
    asked_at: Instant,
}

#[derive(Debug)]
enum Wanted {
    Key {
        key: Key,
        shard: usize,
    },
    /// With one page for each shard, once it is there; an empty one for those that hold no key of the range.
    Range {
        range: KeyRange,
        limit: u32,
        pages: Vec<Option<Found>>,
    },
}

/// The page of one shard.
#[derive(Debug, Default)]
struct Found {
    keys: Vec<FoundKey>,
    next: Option<Key>,
}

impl Pending {
    /// The shards, by position, that have not answered.
    fn shards(&self) -> Vec<usize> {
        match &self.wanted {
            Wanted::Key { shard, .. } => vec![*shard],
            Wanted::Range { pages, .. } => (0..pages.len()).filter(|shard| pages[*shard].is_none()).collect(),
        }
    }
}

impl Execution {
    pub(super) fn new(routes: Arc<Routes>, attempt: u32, lock: Option<Timestamp>) -> Self {
        Execution {
            routes,
            attempt,
            reads: BTreeMap::new(),
            writes: BTreeMap::new(),
            ranges: Vec::new(),
            bytes: 0,
            pending: Vec::new(),
            requests: 0,
            redirects: 0,
            lock,
            locked: BTreeMap::new(),
            commits_when_read: false,
        }
    }

    /// The routes of the transaction's keyspace.
    pub(super) fn routes(&self) -> &Arc<Routes> {
        &self.routes
    }

    /// True if it has nothing to wait for.
    pub(super) fn has_read_all(&self) -> bool {
        self.pending.is_empty()
    }

    /// True if it writes something.
    pub(super) fn writes(&self) -> bool {
        !self.writes.is_empty()
    }

    /// The greatest version that was read.
    pub(super) fn greatest_version(&self) -> Timestamp {
        self.reads.values().map(|(version, _)| *version).max().unwrap_or(Timestamp::ZERO)
    }

    /// How old it is, where that counts.
    pub(super) fn age(&self) -> Option<Timestamp> {
        self.lock
    }

    /// Where it has locks, or may have some, and in which view.
    pub(super) fn locked(&self) -> &BTreeMap<ShardId, Option<View>> {
        &self.locked
    }

    /// The replica of a shard that is asked after so many others: the leader, if it is to lock. Else it is the first from the
    /// third attempt on: most conflicts are real, but the nearest replica may lag behind for long.
    fn replica(&self, shard: usize, asked: usize, leaders: &Leaders) -> ReplicaId {
        let id = self.routes.keyspace.shards[shard].id;
        if self.lock.is_some() || (self.attempt >= 2 && asked == 0) {
            return leaders.leader(id);
        }
        let nearest = &self.routes.nearest[shard];
        let at = |rank: usize| ReplicaId { shard: id, index: nearest[rank % nearest.len()] };
        let reachable = (asked..asked + nearest.len()).map(at).find(|replica| leaders.is_reachable(*replica));
        reachable.unwrap_or_else(|| at(asked))
    }

    /// The replicas that were asked last and have not answered.
    pub(super) fn unanswered(&self, leaders: &Leaders) -> Vec<ReplicaId> {
        let last = |pending: &Pending| {
            let asked = pending.asked.saturating_sub(1);
            let shards = pending.shards().into_iter();
            shards.map(|shard| self.replica(shard, asked, leaders)).collect::<Vec<_>>()
        };
        let mut missing: Vec<ReplicaId> = self.pending.iter().flat_map(last).collect();
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    fn count(&mut self, key: &Key, bytes: usize) -> Result<(), LimitExceeded> {
        self.bytes += bytes;
        if self.bytes > TRANSACTION_BYTES_MAX {
            return Err(LimitExceeded::Transaction { key: readable(key), bytes: self.bytes });
        }
        let entries = self.reads.len() + self.writes.len() + self.ranges.len() + 1;
        if entries > TRANSACTION_ENTRIES_MAX {
            return Err(LimitExceeded::Entries { key: readable(key), entries });
        }
        Ok(())
    }

    /// What the transaction has read of a key, if it has: also that it was absent when a range around it was scanned.
    fn known(&self, key: &Key) -> Option<(Timestamp, Option<Value>)> {
        let scanned = || self.ranges.iter().any(|(_, range)| range.contains(key));
        self.reads.get(key).cloned().or_else(|| scanned().then_some((Timestamp::ZERO, None)))
    }

    /// Divides the transaction by shard.
    pub(super) fn into_parts(self, rules: Rules) -> BTreeMap<ShardId, Arc<Transaction>> {
        let keyspace = &self.routes.keyspace;
        let mut parts: BTreeMap<ShardId, Transaction> = BTreeMap::new();
        let validates_absence = !rules.has(Plant::UnvalidatedAbsence);
        for (key, (version, _)) in self.reads {
            if version > Timestamp::ZERO || validates_absence {
                let part = parts.entry(keyspace.shard_of(&key).id).or_default();
                part.reads.push(ReadVersion { key, version });
            }
        }
        for (key, value) in self.writes {
            parts.entry(keyspace.shard_of(&key).id).or_default().writes.push(Write { key, value });
        }
        for (shard, range) in self.ranges {
            if validates_absence {
                parts.entry(shard).or_default().ranges.push(range);
            }
        }
        let participants: Vec<ShardId> = parts.keys().copied().collect();
        let finish = |(shard, mut part): (ShardId, Transaction)| {
            part.participants = participants.clone();
            (shard, Arc::new(part))
        };
        parts.into_iter().map(finish).collect()
    }

    /// Merges the pages of a scan, with what the transaction itself has read and written, and notes what was covered.
    fn finish_scan(
        &mut self,
        range: &KeyRange,
        limit: u32,
        pages: Vec<Option<Found>>,
    ) -> (Vec<(Key, Value)>, Option<Key>) {
        let until = |next: &Option<Key>| next.clone().or_else(|| range.to.clone());
        // The first key that not all pages cover.
        let next = pages.iter().flatten().filter_map(|page| page.next.clone()).min();
        let covered = KeyRange { from: range.from.clone(), to: until(&next) };
        let mut found: BTreeMap<Key, Option<Value>> = BTreeMap::new();
        let mut versions: BTreeMap<Key, (Timestamp, Option<Value>)> = BTreeMap::new();
        for FoundKey { read, value } in pages.into_iter().flatten().flat_map(|page| page.keys) {
            if covered.contains(&read.key) {
                // What the transaction has read before, it reads again; if that is stale, it will not be let in.
                let known = self.known(&read.key).unwrap_or((read.version, value));
                found.insert(read.key.clone(), known.1.clone());
                versions.insert(read.key, known);
            }
        }
        for (key, value) in self.writes.iter().filter(|(key, _)| covered.contains(key)) {
            found.insert(key.clone(), value.clone());
        }
        let mut entries: Vec<(Key, Value)> =
            found.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        let next = entries.get(limit as usize).map(|(key, _)| key.clone()).or(next);
        entries.truncate(limit as usize);
        let covered = KeyRange { from: range.from.clone(), to: until(&next) };
        for (key, known) in versions.into_iter().filter(|(key, _)| covered.contains(key)) {
            self.reads.entry(key).or_insert(known);
        }
        if !covered.is_empty() {
            for shard in self.routes.keyspace.shards_of_range(range) {
                self.ranges.push((shard.id, covered.clone()));
            }
        }
        (entries, next)
    }
}

impl Coordinator {
    pub(super) fn execution(&mut self, id: TransactionId) -> Option<&mut Execution> {
        match &mut self.transactions.get_mut(&id)?.phase {
            Phase::Executing(execution) => Some(execution),
            Phase::Asking(_) | Phase::Reporting(_) => None,
        }
    }

    fn execution_or_invalid(&mut self, id: TransactionId, outbox: &mut Out) -> Option<&mut Execution> {
        if self.execution(id).is_none() {
            finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id))));
        }
        self.execution(id)
    }

    fn fail_limit(&mut self, id: TransactionId, limit: LimitExceeded, outbox: &mut Out) {
        self.fail(id, Failure::Invalid(Invalid::Limit(limit)), outbox);
    }

    pub(super) fn on_get(&mut self, id: TransactionId, key: Key, context: &Context<'_>, outbox: &mut Out) {
        let Some(execution) = self.execution_or_invalid(id, outbox) else { return };
        if let Err(limit) = validate_key(&key) {
            return self.fail_limit(id, limit, outbox);
        }
        let own = execution.writes.get(&key).cloned();
        if let Some(value) = own.or_else(|| execution.known(&key).map(|(_, value)| value)) {
            outbox.emit(Event::Got { transaction: id, key, value });
            return;
        }
        let shard = quorate_core::topology::shard_position(&key, execution.routes.keyspace.shards.len());
        self.want(id, Wanted::Key { key, shard }, context, outbox);
    }

    pub(super) fn on_put(&mut self, id: TransactionId, key: Key, value: Option<Value>, outbox: &mut Out) {
        let Some(execution) = self.execution_or_invalid(id, outbox) else { return };
        let length = value.as_ref().map_or(0, |value| value.len());
        let checked = validate_write(&key, value.as_deref().unwrap_or_default());
        if let Err(limit) = checked.and_then(|()| execution.count(&key, key.len() + length)) {
            return self.fail_limit(id, limit, outbox);
        }
        execution.writes.insert(key, value);
    }

    pub(super) fn on_scan(
        &mut self,
        id: TransactionId,
        range: KeyRange,
        limit: u32,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let limit = limit.min(self.config.scan_page_max);
        let Some(execution) = self.execution_or_invalid(id, outbox) else { return };
        if range.is_empty() || limit == 0 {
            let next = if range.is_empty() { None } else { Some(range.from) };
            outbox.emit(Event::Scanned { transaction: id, entries: Vec::new(), next });
            return;
        }
        let keyspace = &execution.routes.keyspace;
        let asked: Vec<ShardId> = keyspace.shards_of_range(&range).iter().map(|shard| shard.id).collect();
        let page = |shard: &ShardId| (!asked.contains(shard)).then(Found::default);
        let pages = keyspace.shards.iter().map(|shard| page(&shard.id)).collect();
        self.want(id, Wanted::Range { range, limit, pages }, context, outbox);
    }

    fn want(&mut self, id: TransactionId, wanted: Wanted, context: &Context<'_>, outbox: &mut Out) {
        let Some(execution) = self.execution(id) else { return };
        execution.requests += 1;
        let request = execution.requests;
        execution.pending.push(Pending { request, wanted, asked: 0, asked_at: context.now });
        self.ask_to_read(id, request, context.now, outbox);
        self.wake_at(id, context.now + self.config.read_timeout);
    }

    /// Asks the next replica of each shard that has not answered.
    pub(super) fn ask_to_read(&mut self, id: TransactionId, request: u32, now: Instant, outbox: &mut Out) {
        let Some(open) = self.transactions.get_mut(&id) else { return };
        let Phase::Executing(execution) = &mut open.phase else { return };
        let Some(at) = execution.pending.iter().position(|pending| pending.request == request) else {
            return;
        };
        let pending = &execution.pending[at];
        for shard in pending.shards() {
            let message = match &pending.wanted {
                Wanted::Key { key, .. } => {
                    Message::Read { transaction: id, key: key.clone(), lock: execution.lock }
                }
                Wanted::Range { range, limit, .. } => {
                    let (range, limit, lock) = (range.clone(), *limit, execution.lock);
                    Message::Scan { transaction: id, request, range, limit, lock }
                }
            };
            let replica = execution.replica(shard, pending.asked, &self.leaders);
            if execution.lock.is_some() {
                execution.locked.entry(replica.shard).or_default();
            }
            outbox.send(replica, message);
        }
        let pending = &mut execution.pending[at];
        pending.asked += 1;
        pending.asked_at = now;
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_read_reply(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        key: Key,
        version: Timestamp,
        value: Option<Value>,
        locked_in: Option<View>,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        if !self.keeps_locks(from.shard, id, locked_in, outbox) {
            return;
        }
        let Some(execution) = self.execution(id) else { return };
        let shards = &execution.routes.keyspace.shards;
        let answers = |pending: &Pending| match &pending.wanted {
            Wanted::Key { key: wanted, shard } => *wanted == key && shards[*shard].id == from.shard,
            Wanted::Range { .. } => false,
        };
        let Some(at) = execution.pending.iter().position(answers) else { return };
        execution.pending.swap_remove(at);
        let bytes = key.len() + value.as_ref().map_or(0, |value| value.len());
        if let Err(limit) = execution.count(&key, bytes) {
            return self.fail_limit(id, limit, outbox);
        }
        // A write of this transaction may have come in between, and a scan may have read the key.
        let (version, value) = execution.known(&key).unwrap_or((version, value));
        execution.reads.insert(key.clone(), (version, value.clone()));
        let value = execution.writes.get(&key).cloned().unwrap_or(value);
        outbox.emit(Event::Got { transaction: id, key, value });
        self.commit_if_read(id, context, outbox);
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_scan_reply(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        request: u32,
        keys: Vec<FoundKey>,
        next: Option<Key>,
        locked_in: Option<View>,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        if !self.keeps_locks(from.shard, id, locked_in, outbox) {
            return;
        }
        let Some(execution) = self.execution(id) else { return };
        let Some(at) = execution.pending.iter().position(|pending| pending.request == request) else {
            return;
        };
        let shard = execution.routes.keyspace.shards.iter().position(|shard| shard.id == from.shard);
        let (Some(shard), Wanted::Range { pages, .. }) = (shard, &mut execution.pending[at].wanted) else {
            return;
        };
        pages[shard] = Some(Found { keys, next });
        if pages.iter().any(Option::is_none) {
            return;
        }
        let Wanted::Range { range, limit, pages } = execution.pending.swap_remove(at).wanted else { return };
        let size = |found: &FoundKey| found.read.key.len() + found.value.as_ref().map_or(0, Value::len);
        let bytes = pages.iter().flatten().flat_map(|page| &page.keys).map(size).sum();
        let (entries, next) = execution.finish_scan(&range, limit, pages);
        if let Err(limit) = execution.count(&range.from, bytes) {
            return self.fail_limit(id, limit, outbox);
        }
        outbox.emit(Event::Scanned { transaction: id, entries, next });
        self.commit_if_read(id, context, outbox);
    }

    /// Notes in which view a shard has locked something. False if that is another one than before: what was locked then is
    /// not locked any more.
    fn keeps_locks(
        &mut self,
        shard: ShardId,
        id: TransactionId,
        locked_in: Option<View>,
        outbox: &mut Out,
    ) -> bool {
        let Some(execution) = self.execution(id) else { return false };
        let Some(locked) = execution.locked.get_mut(&shard) else { return true };
        if locked.is_some() && *locked != locked_in {
            self.fail(id, Failure::Conflict, outbox);
            return false;
        }
        *locked = locked_in;
        true
    }

    /// A leader has taken the locks of a transaction away.
    pub(super) fn on_wounded(&mut self, id: TransactionId, outbox: &mut Out) {
        if self.execution(id).is_some() {
            self.fail(id, Failure::Conflict, outbox);
        }
    }

    /// Whoever was asked for something to be locked does not lead.
    pub(super) fn redirect_reads(
        &mut self,
        shard: ShardId,
        id: TransactionId,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(execution) = self.execution(id) else { return };
        if execution.redirects >= super::REDIRECTS_MAX {
            return;
        }
        execution.redirects += 1;
        let shards = &execution.routes.keyspace.shards;
        let waits = |pending: &&Pending| pending.shards().iter().any(|at| shards[*at].id == shard);
        let waiting: Vec<u32> =
            execution.pending.iter().filter(waits).map(|pending| pending.request).collect();
        for request in waiting {
            self.ask_to_read(id, request, context.now, outbox);
        }
    }

    fn commit_if_read(&mut self, id: TransactionId, context: &mut Context<'_>, outbox: &mut Out) {
        let Some(execution) = self.execution(id) else { return };
        if execution.commits_when_read && execution.has_read_all() {
            self.on_commit(id, context, outbox);
        }
    }

    /// Asks other replicas for what the first have not answered; gives when to look again.
    pub(super) fn attend_execution(
        &mut self,
        id: TransactionId,
        context: &Context<'_>,
        outbox: &mut Out,
    ) -> Option<Instant> {
        let (now, timeout) = (context.now, self.config.read_timeout);
        let open = self.transactions.get(&id)?;
        let Phase::Executing(execution) = &open.phase else { return None };
        let deadline = open.deadline;
        let is_overdue = |pending: &&Pending| {
            let last = pending.asked.saturating_sub(1);
            let replica = |shard: usize| execution.replica(shard, last, &self.leaders);
            now - pending.asked_at >= timeout
                || pending.shards().into_iter().any(|shard| !self.leaders.is_reachable(replica(shard)))
        };
        let overdue: Vec<u32> =
            execution.pending.iter().filter(is_overdue).map(|pending| pending.request).collect();
        let waits = !execution.has_read_all();
        let locks = execution.lock.is_some();
        let silent: BTreeSet<ShardId> = match locks && !overdue.is_empty() {
            true => execution.unanswered(&self.leaders).into_iter().map(|replica| replica.shard).collect(),
            false => BTreeSet::new(),
        };
        for shard in silent {
            self.leaders.suspect(shard);
        }
        if let Some(execution) = self.execution(id) {
            execution.redirects = 0;
        }
        for request in overdue {
            self.ask_to_read(id, request, now, outbox);
        }
        Some(if waits { deadline.min(now + timeout) } else { deadline })
    }
}
