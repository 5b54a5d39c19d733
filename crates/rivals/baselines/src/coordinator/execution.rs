//! The execution phase: reads at the nearest replica, writes buffered until commit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quorate_coordinator::Leaders;
use quorate_coordinator::{Buffer, Page, Scan, scan};
use quorate_core::command::{Event, Failure, Invalid, Routes};
use quorate_core::transaction::{KeyVersion, LimitExceeded, validate_key};
use quorate_core::{
    Context, Instant, Key, KeyRange, ReplicaId, ShardId, Timestamp, Transaction, TransactionId, Value, View,
};

use super::{Coordinator, Out, Phase, finish};
use crate::message::Message;
use crate::rules::{Plant, Rules};

/// The reads of a transaction, and the writes that it wants.
#[derive(Debug)]
pub(super) struct Execution {
    routes: Arc<Routes>,
    /// Which attempt at the transaction this is: later ones read at the leader, in case the nearest replica is stale.
    attempt: u32,
    buffer: Buffer,
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
    Key { key: Key, shard: usize },
    Range(Scan),
}

impl Pending {
    /// The shards, by position, that have not answered.
    fn shards(&self) -> Vec<usize> {
        match &self.wanted {
            Wanted::Key { shard, .. } => vec![*shard],
            Wanted::Range(scan) => scan.missing().collect(),
        }
    }
}

impl Execution {
    pub(super) fn new(routes: Arc<Routes>, attempt: u32, lock: Option<Timestamp>) -> Self {
        Execution {
            routes,
            attempt,
            buffer: Buffer::default(),
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

    /// The replicas of the keyspace have changed: from now on others are asked.
    pub(super) fn change_routes(&mut self, routes: &Arc<Routes>) {
        if self.routes.keyspace.id == routes.keyspace.id {
            self.routes = Arc::clone(routes);
        }
    }

    /// True if it has nothing to wait for.
    pub(super) fn has_read_all(&self) -> bool {
        self.pending.is_empty()
    }

    /// True if it writes something.
    pub(super) fn writes(&self) -> bool {
        self.buffer.writes()
    }

    /// The greatest version that was read.
    pub(super) fn greatest_version(&self) -> Timestamp {
        self.buffer.greatest_version()
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

    /// Divides the transaction by shard.
    pub(super) fn into_parts(mut self, rules: Rules) -> BTreeMap<ShardId, Arc<Transaction>> {
        if rules.has(Plant::UnvalidatedAbsence) {
            self.buffer.forget_absence();
        }
        self.buffer.into_parts(&self.routes.keyspace)
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
        if let Some(value) = execution.buffer.value(&key) {
            outbox.emit(Event::Got { transaction: id, key, value });
            return;
        }
        let shard = quorate_core::topology::shard_position(&key, execution.routes.keyspace.shards.len());
        self.want(id, Wanted::Key { key, shard }, context, outbox);
    }

    pub(super) fn on_put(&mut self, id: TransactionId, key: Key, value: Option<Value>, outbox: &mut Out) {
        let Some(execution) = self.execution_or_invalid(id, outbox) else { return };
        if let Err(limit) = execution.buffer.put(key, value) {
            self.fail_limit(id, limit, outbox);
        }
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
        if scan::answer_empty(outbox, id, &range, limit) {
            return;
        }
        let scan = Scan::new(&execution.routes.keyspace, range, limit);
        self.want(id, Wanted::Range(scan), context, outbox);
    }

    fn want(&mut self, id: TransactionId, wanted: Wanted, context: &Context<'_>, outbox: &mut Out) {
        let Some(execution) = self.execution(id) else { return };
        execution.requests += 1;
        let request = execution.requests;
        execution.pending.push(Pending { request, wanted, asked: 0, asked_at: context.now });
        self.ask_to_read(id, request, context.now, outbox);
        self.transactions.wake_at(id, context.now + self.config.read_timeout);
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
                Wanted::Range(scan) => {
                    let (range, limit, lock) = (scan.range.clone(), scan.limit, execution.lock);
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
        if !self.keeps_locks(from, id, locked_in, outbox) {
            return;
        }
        let Some(execution) = self.execution(id) else { return };
        let shards = &execution.routes.keyspace.shards;
        let answers = |pending: &Pending| match &pending.wanted {
            Wanted::Key { key: wanted, shard } => *wanted == key && shards[*shard].id == from.shard,
            Wanted::Range(_) => false,
        };
        let Some(at) = execution.pending.iter().position(answers) else { return };
        execution.pending.swap_remove(at);
        let value = match execution.buffer.read(&key, version, value) {
            Ok(value) => value,
            Err(limit) => return self.fail_limit(id, limit, outbox),
        };
        outbox.emit(Event::Got { transaction: id, key, value });
        self.commit_if_read(id, context, outbox);
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_scan_reply(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        request: u32,
        keys: Vec<KeyVersion>,
        next: Option<Key>,
        locked_in: Option<View>,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        if !self.keeps_locks(from, id, locked_in, outbox) {
            return;
        }
        let Some(execution) = self.execution(id) else { return };
        let Some(at) = execution.pending.iter().position(|pending| pending.request == request) else {
            return;
        };
        let shard = execution.routes.keyspace.shards.iter().position(|shard| shard.id == from.shard);
        let (Some(shard), Wanted::Range(scan)) = (shard, &mut execution.pending[at].wanted) else {
            return;
        };
        if !scan.take(shard, Page { keys, next }) {
            return;
        }
        let Wanted::Range(scan) = execution.pending.swap_remove(at).wanted else { return };
        let (entries, next) = match execution.buffer.scan(&execution.routes.keyspace, scan) {
            Ok(found) => found,
            Err(limit) => return self.fail_limit(id, limit, outbox),
        };
        outbox.emit(Event::Scanned { transaction: id, entries, next });
        self.commit_if_read(id, context, outbox);
    }

    /// Notes in which view a shard has locked something. False if that is another one than before: earlier locks are
    /// not held any more.
    fn keeps_locks(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        locked_in: Option<View>,
        outbox: &mut Out,
    ) -> bool {
        if locked_in.is_some() && !self.transactions.contains_key(&id) {
            // The read had to wait, and its transaction has ended meanwhile. Nobody else would give this lock up.
            outbox.send(from, Message::Release { transaction: id });
        }
        let Some(execution) = self.execution(id) else { return false };
        let Some(locked) = execution.locked.get_mut(&from.shard) else { return true };
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

    /// A replica that was asked to lock something does not lead.
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
