//! Gets and scans: at the nearest replica, and at the next one if that does not answer.

use std::collections::BTreeMap;

use quorate_coordinator::{Page, Scan, scan};
use quorate_core::command::{Event, Failure, Invalid};
use quorate_core::topology::shard_position;
use quorate_core::transaction::{KeyVersion, LimitExceeded, validate_key};
use quorate_core::{Context, Instant, Key, KeyRange, ReplicaId, Timestamp, TransactionId, Value};

use super::groups::Groups;
use super::{Coordinator, Open, Out};
use crate::message::Message;

/// A get or scan that is not answered yet.
#[derive(Debug)]
pub(super) struct Pending {
    request: u32,
    wanted: Wanted,
    /// How many replicas of each shard have been asked.
    asked: usize,
    /// Those that were asked last, by the positions of their shards.
    last: BTreeMap<usize, ReplicaId>,
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

    /// The replicas that were asked last and have not answered.
    fn unanswered(&self) -> impl Iterator<Item = ReplicaId> {
        self.shards().into_iter().filter_map(|shard| self.last.get(&shard).copied())
    }
}

impl Open {
    /// The replica of a shard that is asked after so many others.
    fn replica(&self, shard: usize, asked: usize, groups: &Groups) -> ReplicaId {
        let id = self.routes.keyspace.shards[shard].id;
        let nearest = &self.routes.nearest[shard];
        let at = |rank: usize| ReplicaId { shard: id, index: nearest[rank % nearest.len()] };
        let reachable = (asked..asked + nearest.len()).map(at).find(|replica| groups.is_reachable(*replica));
        reachable.unwrap_or_else(|| at(asked))
    }

    /// The replicas that were asked last and have not answered.
    pub(super) fn unanswered(&self) -> Vec<ReplicaId> {
        let mut missing: Vec<ReplicaId> = self.pending.iter().flat_map(Pending::unanswered).collect();
        missing.sort_unstable();
        missing.dedup();
        missing
    }
}

impl Coordinator {
    pub(super) fn on_get(&mut self, id: TransactionId, key: Key, context: &Context<'_>, outbox: &mut Out) {
        let Some(open) = self.running_or_invalid(id, outbox) else { return };
        if let Err(limit) = validate_key(&key) {
            return self.fail_limit(id, limit, outbox);
        }
        if let Some(value) = open.buffer.value(&key) {
            outbox.emit(Event::Got { transaction: id, key, value });
            return;
        }
        let shard = shard_position(&key, open.routes.keyspace.shards.len());
        self.want(id, Wanted::Key { key, shard }, context, outbox);
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
        let Some(open) = self.running_or_invalid(id, outbox) else { return };
        if scan::answer_empty(outbox, id, &range, limit) {
            return;
        }
        let scan = Scan::new(&open.routes.keyspace, range, limit);
        self.want(id, Wanted::Range(scan), context, outbox);
    }

    fn want(&mut self, id: TransactionId, wanted: Wanted, context: &Context<'_>, outbox: &mut Out) {
        let Some(open) = self.transactions.get_mut(&id) else { return };
        open.requests += 1;
        let request = open.requests;
        assert!(
            open.pending.iter().all(|pending| pending.request < request),
            "{id} has asked for {request} before"
        );
        let last = BTreeMap::new();
        open.pending.push(Pending { request, wanted, asked: 0, last, asked_at: context.now });
        self.ask_to_read(id, request, context.now, outbox);
        self.transactions.wake_at(id, context.now + self.config.read_timeout);
    }

    /// Asks the next replica of each shard that has not answered.
    fn ask_to_read(&mut self, id: TransactionId, request: u32, now: Instant, outbox: &mut Out) {
        let Some(open) = self.transactions.get_mut(&id) else { return };
        let Some(at) = open.pending.iter().position(|pending| pending.request == request) else { return };
        let pending = &open.pending[at];
        let mut last = BTreeMap::new();
        for shard in pending.shards() {
            let message = match &pending.wanted {
                Wanted::Key { key, .. } => Message::Read { transaction: id, key: key.clone() },
                Wanted::Range(Scan { range, limit, .. }) => {
                    Message::Scan { transaction: id, request, range: range.clone(), limit: *limit }
                }
            };
            let replica = open.replica(shard, pending.asked, &self.groups);
            last.insert(shard, replica);
            outbox.send(replica, message);
        }
        let pending = &mut open.pending[at];
        assert!(!pending.shards().is_empty(), "the read {request} of {id} is asked again, and was answered");
        pending.asked += 1;
        (pending.last, pending.asked_at) = (last, now);
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_read_reply(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        key: Key,
        version: Timestamp,
        value: Option<Value>,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(open) = self.transactions.get_mut(&id) else { return };
        let shards = &open.routes.keyspace.shards;
        let answers = |pending: &Pending| match &pending.wanted {
            Wanted::Key { key: wanted, shard } => *wanted == key && shards[*shard].id == from.shard,
            Wanted::Range(_) => false,
        };
        let Some(at) = open.pending.iter().position(answers) else { return };
        open.pending.swap_remove(at);
        match open.buffer.read(&key, version, value) {
            Ok(value) => outbox.emit(Event::Got { transaction: id, key, value }),
            Err(limit) => return self.fail_limit(id, limit, outbox),
        }
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
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(open) = self.transactions.get_mut(&id) else { return };
        let keyspace = &open.routes.keyspace;
        let Some(shard) = keyspace.shards.iter().position(|shard| shard.id == from.shard) else { return };
        let Some(at) = open.pending.iter().position(|pending| pending.request == request) else { return };
        let Wanted::Range(scan) = &mut open.pending[at].wanted else { return };
        if !scan.take(shard, Page { keys, next }) {
            return;
        }
        let Wanted::Range(scan) = open.pending.swap_remove(at).wanted else { return };
        match open.buffer.scan(keyspace, scan) {
            Ok((entries, next)) => outbox.emit(Event::Scanned { transaction: id, entries, next }),
            Err(limit) => return self.fail_limit(id, limit, outbox),
        }
        self.commit_if_read(id, context, outbox);
    }

    pub(super) fn fail_limit(&mut self, id: TransactionId, limit: LimitExceeded, outbox: &mut Out) {
        self.fail(id, Failure::Invalid(Invalid::Limit(limit)), outbox);
    }

    /// Asks other replicas for what the first have not answered; gives when to look again.
    pub(super) fn attend_reads(
        &mut self,
        id: TransactionId,
        now: Instant,
        outbox: &mut Out,
    ) -> Option<Instant> {
        let timeout = self.config.read_timeout;
        let open = self.transactions.get(&id)?;
        let is_overdue = |pending: &&Pending| {
            now - pending.asked_at >= timeout
                || pending.unanswered().any(|replica| !self.groups.is_reachable(replica))
        };
        let overdue: Vec<u32> =
            open.pending.iter().filter(is_overdue).map(|pending| pending.request).collect();
        for request in overdue {
            self.ask_to_read(id, request, now, outbox);
        }
        let open = self.transactions.get(&id)?;
        open.pending.iter().map(|pending| pending.asked_at + timeout).min()
    }
}
