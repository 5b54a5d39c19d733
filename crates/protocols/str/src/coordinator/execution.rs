//! Reads at one snapshot, buffered writes, scans, limits.

use std::sync::Arc;

use quorate_coordinator::{Buffer, Page, Scan, finish, scan, tell_known};
use quorate_core::command::{Begun, Event, Failure, Invalid, Routes};
use quorate_core::transaction::{LimitExceeded, validate_key};
use quorate_core::{ClockTime, Context, Instant, Key, KeyRange, ReplicaId, TransactionId, Value};

use super::{Coordinator, Out, Phase};
use crate::message::{Found, Message, Session, Wanted};
use crate::reasons;

/// A transaction that reads and writes.
#[derive(Debug)]
pub(super) struct Execution {
    pub(super) routes: Arc<Routes>,
    pub(super) buffer: Buffer,
    /// Its snapshot, once the client knows it.
    pub(super) snapshot: Option<ClockTime>,
    /// The greatest timestamp that its session had seen when it was begun.
    pub(super) seen: ClockTime,
    /// The transaction of the client that it comes after.
    pub(super) after: Option<TransactionId>,
    pending: Vec<Pending>,
    /// Numbers the reads.
    requests: u32,
    /// True if it is a read-only transaction that commits by itself once everything is read.
    commits_when_read: bool,
}

/// A read that is not answered yet.
#[derive(Debug)]
struct Pending {
    request: u32,
    wanted: Vec<Wanted>,
    sent_at: Instant,
}

impl Execution {
    pub(super) fn new(routes: Arc<Routes>, seen: ClockTime) -> Self {
        Execution {
            routes,
            buffer: Buffer::default(),
            snapshot: None,
            seen,
            after: None,
            pending: Vec::new(),
            requests: 0,
            commits_when_read: false,
        }
    }

    /// Since when a read waits for an answer.
    pub(super) fn waits_since(&self) -> Option<Instant> {
        self.pending.iter().map(|pending| pending.sent_at).min()
    }

    /// True if a node may know of it.
    pub(super) fn is_known(&self) -> bool {
        self.requests > 0
    }

    /// True if reads are not answered.
    pub(super) fn is_reading(&self) -> bool {
        !self.pending.is_empty()
    }

    pub(super) fn session(&self) -> Session {
        Session { seen: self.seen, after: self.after }
    }
}

impl Coordinator {
    pub(super) fn execution(&mut self, id: TransactionId) -> Option<&mut Execution> {
        match &mut self.transactions.get_mut(&id)?.phase {
            Phase::Executing(execution) => Some(execution),
            Phase::Committing(_) | Phase::Inquiring(_) => None,
        }
    }

    fn execution_or_invalid(&mut self, id: TransactionId, outbox: &mut Out) -> Option<&mut Execution> {
        if self.execution(id).is_none() {
            finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id))));
        }
        self.execution(id)
    }

    /// Ends a transaction that has gone over a limit.
    fn fail_limit(&mut self, id: TransactionId, limit: LimitExceeded, outbox: &mut Out) {
        if let Some(open) = self.transactions.get(&id)
            && let Phase::Executing(execution) = &open.phase
            && execution.is_known()
        {
            outbox.send_unordered(open.home, Message::Abort { transaction: id });
        }
        self.fail(id, Failure::Invalid(Invalid::Limit(limit)), outbox);
    }

    /// A transaction comes after an earlier one of this client, which was asked to commit.
    pub(super) fn follow(&mut self, id: TransactionId, earlier: TransactionId, outbox: &mut Out) {
        if self.apologies.contains(&earlier) && self.execution(id).is_some() {
            return self.fail(id, Failure::Conflict, outbox);
        }
        let of_earlier = self.transactions.get(&earlier).map(|open| (open.keyspace, open.home));
        let Some(open) = self.transactions.get_mut(&id).filter(|_| id != earlier) else {
            return outbox.ignored(reasons::NOT_OPEN);
        };
        let Phase::Executing(execution) = &mut open.phase else { return outbox.ignored(reasons::NOT_OPEN) };
        if execution.is_known() {
            return outbox.ignored(reasons::NOT_OPEN);
        }
        // If the earlier one has committed, the session has seen it.
        if let Some((keyspace, home)) = of_earlier
            && keyspace == open.keyspace
        {
            (execution.after, open.home) = (Some(earlier), home);
        }
    }

    /// Reads keys in one request.
    pub(super) fn on_get(
        &mut self,
        id: TransactionId,
        keys: Vec<Key>,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(execution) = self.execution_or_invalid(id, outbox) else { return };
        if let Some(limit) = keys.iter().find_map(|key| validate_key(key).err()) {
            return self.fail_limit(id, limit, outbox);
        }
        let unknown = tell_known(outbox, id, &execution.buffer, keys);
        if !unknown.is_empty() {
            self.want(id, unknown.into_iter().map(Wanted::Key).collect(), context, outbox);
        }
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
        if self.execution_or_invalid(id, outbox).is_none() {
            return;
        }
        if scan::answer_empty(outbox, id, &range, limit) {
            return self.commit_if_read(id, context, outbox);
        }
        self.want(id, vec![Wanted::Range { range, limit }], context, outbox);
    }

    /// Reads keys at once, and commits.
    pub(super) fn read_only(
        &mut self,
        id: TransactionId,
        keys: Vec<Key>,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        if let Some(limit) = keys.iter().find_map(|key| validate_key(key).err()) {
            return self.fail_limit(id, limit, outbox);
        }
        if let Some(execution) = self.execution(id) {
            execution.commits_when_read = true;
        }
        if keys.is_empty() {
            return self.commit_if_read(id, context, outbox);
        }
        self.want(id, keys.into_iter().map(Wanted::Key).collect(), context, outbox);
    }

    /// Reads a range, and commits.
    pub(super) fn read_only_scan(
        &mut self,
        id: TransactionId,
        range: KeyRange,
        limit: u32,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        if let Some(execution) = self.execution(id) {
            execution.commits_when_read = true;
        }
        self.on_scan(id, range, limit, context, outbox);
    }

    fn want(&mut self, id: TransactionId, wanted: Vec<Wanted>, context: &Context<'_>, outbox: &mut Out) {
        let Some(execution) = self.execution(id) else { return };
        execution.requests += 1;
        let last = execution.pending.last().map(|pending| pending.request);
        assert!(last < Some(execution.requests), "{id} has sent {last:?} before {}", execution.requests);
        let pending = Pending { request: execution.requests, wanted, sent_at: context.now };
        execution.pending.push(pending);
        let last = execution.pending.len() - 1;
        self.send_read(id, last, context, outbox);
        self.transactions.wake_at(id, context.now + self.config.resend_timeout);
    }

    fn send_read(&mut self, id: TransactionId, at: usize, context: &Context<'_>, outbox: &mut Out) {
        let Some(open) = self.transactions.get_mut(&id) else { return };
        let home = open.home;
        let Phase::Executing(execution) = &mut open.phase else { return };
        let (session, snapshot) = (execution.session(), execution.snapshot);
        let Some(pending) = execution.pending.get_mut(at) else { return };
        pending.sent_at = context.now;
        let (request, wanted) = (pending.request, pending.wanted.clone());
        outbox.send_unordered(home, Message::Read { transaction: id, session, snapshot, request, wanted });
    }

    /// Sends every read that is not answered again.
    pub(super) fn send_reads(&mut self, id: TransactionId, context: &Context<'_>, outbox: &mut Out) {
        let pending = self.execution(id).map_or(0, |execution| execution.pending.len());
        for at in 0..pending {
            self.send_read(id, at, context, outbox);
        }
    }

    /// READ-REPLY.
    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_read_reply(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        request: u32,
        snapshot: ClockTime,
        found: Vec<Found>,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let open = self.transactions.get_mut(&id).filter(|open| open.home == from);
        let Some(open) = open else { return outbox.ignored(reasons::NOT_OPEN) };
        open.silent = 0;
        let Phase::Executing(execution) = &mut open.phase else { return outbox.ignored(reasons::ANSWERED) };
        let Some(at) = execution.pending.iter().position(|pending| pending.request == request) else {
            return outbox.ignored(reasons::ANSWERED);
        };
        if execution.snapshot.is_some_and(|known| known != snapshot) {
            // A late copy of an earlier read has begun it anew: this is another snapshot.
            return self.fail(id, Failure::Conflict, outbox);
        }
        let is_first = execution.snapshot.replace(snapshot).is_none();
        let pending = execution.pending.remove(at);
        if pending.wanted.len() != found.len() {
            outbox.ignored(reasons::MALFORMED);
            return self.fail(id, Failure::Conflict, outbox);
        }
        if is_first {
            let life = self.periods.get(&from).map_or(0, |period| period.life.0);
            outbox.emit(Event::Begun { transaction: id, begun: Begun { home: from, life, snapshot } });
        }
        for (wanted, found) in pending.wanted.into_iter().zip(found) {
            if let Err(limit) = self.take(id, wanted, found, outbox) {
                return self.fail_limit(id, limit, outbox);
            }
        }
        self.commit_if_read(id, context, outbox);
    }

    /// Tells the client the versions that were found.
    fn take(
        &mut self,
        id: TransactionId,
        wanted: Wanted,
        found: Found,
        outbox: &mut Out,
    ) -> Result<(), LimitExceeded> {
        let Some(execution) = self.execution(id) else { return Ok(()) };
        match (wanted, found) {
            (Wanted::Key(key), Found::Key(version)) if version.key == key => {
                let value = execution.buffer.read(&key, version.version, version.value)?;
                outbox.emit(Event::Got { transaction: id, key, value });
            }
            (Wanted::Range { range, limit }, Found::Range { keys, next }) => {
                let page = Page { keys, next };
                let scan = Scan::of_page(&execution.routes.keyspace, range, limit, page);
                let (entries, next) = execution.buffer.scan(&execution.routes.keyspace, scan)?;
                outbox.emit(Event::Scanned { transaction: id, entries, next });
            }
            _ => outbox.ignored(reasons::MALFORMED),
        }
        Ok(())
    }

    /// Commits a read-only transaction that has read everything.
    fn commit_if_read(&mut self, id: TransactionId, context: &Context<'_>, outbox: &mut Out) {
        let Some(execution) = self.execution(id) else { return };
        if execution.commits_when_read && !execution.is_reading() {
            self.on_commit(id, false, context, outbox);
        }
    }
}
