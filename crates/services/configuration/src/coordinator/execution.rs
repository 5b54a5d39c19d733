//! The execution phase: reads at the nearest replica, writes buffered until commit.

use std::sync::Arc;

use quorate_coordinator::{Buffer, Page, Scan};
use quorate_core::command::{Event, Failure, Invalid, Routes};
use quorate_core::transaction::{KeyVersion, validate_key};
use quorate_core::{
    ClientId, Context, Instant, Key, KeyRange, ReplicaId, Timestamp, Transaction, TransactionId, Value,
};

use super::asking::{OTHER_QUESTION, REDIRECTS_MAX, REQUESTS_MAX};
use super::group::Group;
use super::{Coordinator, Out, Phase, finish};
use crate::entry::{KeyState, Revision, Stored};
use crate::message::{Compare, ConditionalWrite, Consistency, Message, Put};
use crate::pauses::Pauses;

/// The reads of a transaction, and the writes that it wants.
#[derive(Debug)]
pub(super) struct Execution {
    routes: Arc<Routes>,
    /// Which attempt at the transaction this is: later ones read at the leader, in case the nearest replica is stale.
    attempt: u32,
    buffer: Buffer,
    pending: Vec<Pending>,
}

/// A read or scan that is not answered yet.
#[derive(Debug)]
struct Pending {
    /// The questions that may still be answered: late answers count, or a client that is less patient than the way is long
    /// would never hear one.
    requests: Vec<u64>,
    wanted: Wanted,
    /// How many replicas have been asked.
    asked: usize,
    /// The one that was asked last. Another one may be next by now, as replicas can be reached or not.
    asked_of: Option<ReplicaId>,
    /// When it is asked again unless it is answered.
    again_at: Instant,
    pauses: Pauses,
    redirects: u32,
}

#[derive(Debug)]
enum Wanted {
    Key(Key),
    Range(Scan),
}

/// From this attempt on a transaction reads at the leader.
const AT_LEADER_FROM: u32 = 2;

impl Pending {
    /// Nobody has been asked yet.
    fn new(wanted: Wanted) -> Self {
        Pending {
            requests: Vec::new(),
            wanted,
            asked: 0,
            asked_of: None,
            again_at: Instant::START,
            pauses: Pauses::default(),
            redirects: 0,
        }
    }
}

impl Execution {
    pub(super) fn new(routes: Arc<Routes>, attempt: u32) -> Self {
        Execution { routes, attempt, buffer: Buffer::default(), pending: Vec::new() }
    }

    /// The replicas have changed: from now on others are asked.
    pub(super) fn change_routes(&mut self, routes: &Arc<Routes>) {
        if self.routes.keyspace.id == routes.keyspace.id {
            self.routes = Arc::clone(routes);
        }
    }

    pub(super) fn requests(&self) -> Vec<u64> {
        self.pending.iter().flat_map(|pending| pending.requests.iter().copied()).collect()
    }

    /// How fresh reads are, and which replica is asked after so many others.
    fn replica(&self, asked: usize, group: &Group) -> (Consistency, ReplicaId) {
        if self.attempt >= AT_LEADER_FROM {
            return (Consistency::Linearizable, group.leader());
        }
        let nearest = &self.routes.nearest[0];
        let at = |rank: usize| nearest[rank % nearest.len()];
        let reachable = (asked..asked + nearest.len()).map(at).find(|index| group.is_reachable(*index));
        (Consistency::Stale, group.replica(reachable.unwrap_or_else(|| at(asked))))
    }

    /// The replicas that were asked last and have not answered.
    pub(super) fn unanswering(&self) -> Vec<ReplicaId> {
        let mut missing: Vec<ReplicaId> =
            self.pending.iter().filter_map(|pending| pending.asked_of).collect();
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    fn take_pending(&mut self, request: u64) -> Option<Pending> {
        let at = self.pending.iter().position(|pending| pending.requests.contains(&request))?;
        Some(self.pending.swap_remove(at))
    }
}

impl Coordinator {
    pub(super) fn execution(&mut self, id: TransactionId) -> Option<&mut Execution> {
        match &mut self.transactions.get_mut(&id)?.phase {
            Phase::Executing(execution) => Some(execution),
            Phase::Asking(_) => None,
        }
    }

    pub(super) fn on_get(
        &mut self,
        id: TransactionId,
        key: Key,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(execution) = self.execution(id) else {
            return finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id))));
        };
        if let Err(limit) = validate_key(&key) {
            return self.fail(id, Failure::Invalid(Invalid::Limit(limit)), outbox);
        }
        match execution.buffer.value(&key) {
            Some(value) => outbox.emit(Event::Got { transaction: id, key, value }),
            None => self.ask_wanted(id, Pending::new(Wanted::Key(key)), context, outbox),
        }
    }

    pub(super) fn on_scan(
        &mut self,
        id: TransactionId,
        range: KeyRange,
        limit: u32,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let limit = limit.min(self.config.scan_page_max);
        let Some(execution) = self.execution(id) else {
            return finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id))));
        };
        if range.is_empty() {
            return outbox.emit(Event::Scanned { transaction: id, entries: Vec::new(), next: None });
        }
        let scan = Scan::new(&execution.routes.keyspace, range, limit);
        self.ask_wanted(id, Pending::new(Wanted::Range(scan)), context, outbox);
    }

    pub(super) fn on_put(&mut self, id: TransactionId, key: Key, value: Option<Value>, outbox: &mut Out) {
        let Some(execution) = self.execution(id) else {
            return finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id))));
        };
        if let Err(limit) = execution.buffer.put(key, value) {
            self.fail(id, Failure::Invalid(Invalid::Limit(limit)), outbox);
        }
    }

    fn ask_wanted(
        &mut self,
        id: TransactionId,
        mut pending: Pending,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let request = self.next_request(id);
        let Some(open) = self.transactions.get_mut(&id) else { return };
        let Some(group) = self.groups.get(&open.shard) else { return };
        let Phase::Executing(execution) = &mut open.phase else { return };
        let (consistency, to) = execution.replica(pending.asked, group);
        let message = match &pending.wanted {
            Wanted::Key(key) => Message::Get { request, keys: vec![key.clone()], consistency },
            Wanted::Range(scan) => {
                let (range, limit) = (scan.range.clone(), scan.limit);
                Message::Scan { request, range, limit, consistency }
            }
        };
        pending.asked += 1;
        pending.asked_of = Some(to);
        let again_at = context.now + pending.pauses.draw(self.config.read_timeout, context.random);
        pending.again_at = again_at;
        pending.requests.push(request);
        if pending.requests.len() > REQUESTS_MAX {
            let oldest = pending.requests.remove(0);
            self.requests.remove(&oldest);
        }
        let asked = pending.requests.len();
        assert!(asked <= REQUESTS_MAX, "{id} has asked {asked} times, and each may be answered");
        assert!(pending.redirects <= REDIRECTS_MAX, "{id} was sent on {} times", pending.redirects);
        execution.pending.push(pending);
        // It is validated when it commits, whatever the receiver forgets; this client forgets it with the transaction.
        outbox.send_unordered(to, message);
        self.transactions.wake_at(id, again_at);
    }

    /// Takes what a transaction waits for with this question, if the answer is one to that, and forgets all questions about it.
    fn take_wanted(
        &mut self,
        request: u64,
        id: TransactionId,
        is_answered: impl Fn(&Wanted) -> bool,
    ) -> Option<Wanted> {
        let execution = self.execution(id)?;
        let asks = |pending: &Pending| pending.requests.contains(&request) && is_answered(&pending.wanted);
        let at = execution.pending.iter().position(asks)?;
        let pending = execution.pending.swap_remove(at);
        for asked in &pending.requests {
            self.requests.remove(asked);
        }
        Some(pending.wanted)
    }

    pub(super) fn on_key_found(
        &mut self,
        request: u64,
        id: TransactionId,
        found: Vec<KeyState>,
        outbox: &mut Out,
    ) {
        let is_key = |wanted: &Wanted| matches!(wanted, Wanted::Key(_));
        let Some(Wanted::Key(key)) = self.take_wanted(request, id, is_key) else {
            return outbox.ignored(OTHER_QUESTION);
        };
        let stored = found.into_iter().find(|found| found.key == key).and_then(|found| found.stored);
        let version = version_of(stored.as_ref());
        let value = stored.map(|stored| stored.value);
        let Some(execution) = self.execution(id) else { return };
        match execution.buffer.read(&key, version, value) {
            Ok(value) => outbox.emit(Event::Got { transaction: id, key, value }),
            Err(limit) => self.fail(id, Failure::Invalid(Invalid::Limit(limit)), outbox),
        }
    }

    pub(super) fn on_range_found(
        &mut self,
        request: u64,
        id: TransactionId,
        found: Vec<(Key, Stored)>,
        next: Option<Key>,
        outbox: &mut Out,
    ) {
        let is_range = |wanted: &Wanted| matches!(wanted, Wanted::Range(_));
        let Some(Wanted::Range(mut scan)) = self.take_wanted(request, id, is_range) else {
            return outbox.ignored(OTHER_QUESTION);
        };
        let version = |(key, stored): (Key, Stored)| KeyVersion {
            key,
            version: version_of(Some(&stored)),
            value: Some(stored.value),
        };
        scan.take(0, Page { keys: found.into_iter().map(version).collect(), next });
        let Some(execution) = self.execution(id) else { return };
        let routes = execution.routes.clone();
        match execution.buffer.scan(&routes.keyspace, scan) {
            Ok((entries, next)) => outbox.emit(Event::Scanned { transaction: id, entries, next }),
            Err(limit) => self.fail(id, Failure::Invalid(Invalid::Limit(limit)), outbox),
        }
    }

    /// Asks again what was asked of somebody who does not lead.
    pub(super) fn redirect_wanted(
        &mut self,
        request: u64,
        id: TransactionId,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(execution) = self.execution(id) else { return };
        let last = |pending: &&Pending| pending.requests.last() == Some(&request);
        if execution.pending.iter().find(last).is_none_or(|pending| pending.redirects >= REDIRECTS_MAX) {
            return outbox.ignored("it was asked elsewhere since, or redirected too often");
        }
        if let Some(mut pending) = execution.take_pending(request) {
            pending.redirects += 1;
            self.ask_wanted(id, pending, context, outbox);
        }
    }

    /// Asks other replicas what has not been answered in time; gives when to look again.
    pub(super) fn attend_execution(
        &mut self,
        id: TransactionId,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) -> Option<Instant> {
        let now = context.now;
        let open = self.transactions.get(&id)?;
        let (shard, deadline) = (open.shard, open.deadline);
        let Phase::Executing(execution) = &open.phase else { return None };
        let group = self.groups.get(&shard)?;
        let is_due = |pending: &&Pending| {
            let is_gone = pending.asked_of.is_some_and(|replica| !group.is_reachable(replica.index));
            now >= pending.again_at || is_gone
        };
        let due = execution.pending.iter().filter(is_due);
        let due: Vec<u64> = due.filter_map(|pending| pending.requests.last().copied()).collect();
        if !due.is_empty() && execution.attempt >= AT_LEADER_FROM {
            self.groups.get_mut(&shard)?.suspect();
        }
        for request in due {
            if let Some(mut pending) =
                self.execution(id).and_then(|execution| execution.take_pending(request))
            {
                pending.redirects = 0;
                // A connection that is down says nothing of how long the way is.
                if now >= pending.again_at {
                    pending.pauses.lengthen();
                }
                self.ask_wanted(id, pending, context, outbox);
            }
        }
        let again_at = self.execution(id)?.pending.iter().map(|pending| pending.again_at).min();
        Some(again_at.map_or(deadline, |again_at| again_at.min(deadline)))
    }

    pub(super) fn on_commit(&mut self, id: TransactionId, context: &mut Context<'_>, outbox: &mut Out) {
        let Some(execution) = self.execution(id) else {
            return finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id))));
        };
        // Answers to questions that are still open are not wanted any more.
        let unwanted = execution.requests();
        let (routes, buffer) = (execution.routes.clone(), std::mem::take(&mut execution.buffer));
        execution.pending.clear();
        for request in unwanted {
            self.requests.remove(&request);
        }
        match buffer.into_parts(&routes.keyspace).into_values().next() {
            None => self.commit(id, Timestamp::ZERO, outbox),
            Some(part) => {
                let write = as_write(&part);
                let question = match write.puts.is_empty() {
                    true => super::Question::Check { compares: write.compares },
                    false => super::Question::Write { write: Arc::new(write) },
                };
                self.ask(id, question, context, outbox);
            }
        }
    }
}

/// The version that a key has: its revision, or none if it is absent.
pub(super) fn version_of(stored: Option<&Stored>) -> Timestamp {
    stored.map_or(Timestamp::ZERO, |stored| Timestamp { micros: stored.changed.0, client: ClientId(0) })
}

/// The writes of a transaction, and its conditions: every key that it has read is as it was, and in every range there are as
/// many keys as there were. The keys of ranges are among those that were read, so none has gone and another come.
fn as_write(part: &Transaction) -> ConditionalWrite {
    let keys = part.reads.iter().map(|read| {
        let changed = (read.version > Timestamp::ZERO).then_some(Revision(read.version.micros));
        Compare::Key { key: read.key.clone(), changed }
    });
    let ranges = part.ranges.iter().map(|range| {
        let lives = part.reads.iter().filter(|read| read.version > Timestamp::ZERO);
        let keys = lives.filter(|read| range.contains(&read.key)).count() as u64;
        Compare::Range { range: range.clone(), after: Revision(u64::MAX), keys }
    });
    let put =
        |write: &quorate_core::Write| Put { key: write.key.clone(), value: write.value.clone(), lease: None };
    let puts: Vec<Put> = part.writes.iter().map(put).collect();
    // Replicas refuse others.
    assert!(puts.is_sorted_by(|one, next| one.key < next.key), "keys are written out of order");
    ConditionalWrite { compares: keys.chain(ranges).collect(), puts }
}
