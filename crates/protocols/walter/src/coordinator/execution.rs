//! Reads at one snapshot, buffered writes, scans, limits.

use std::sync::Arc;

use quorate_coordinator::{Buffer, Scan, finish, scan, tell_known};
use quorate_core::command::{ContainerCall, Event, Failure, Invalid, Routes};
use quorate_core::topology::Keyspace;
use quorate_core::transaction::{KeyVersion, LimitExceeded, validate_key};
use quorate_core::{Context, Instant, Key, KeyRange, ReplicaId, ShardId, Timestamp, TransactionId, Value};

use super::copies::Copies;
use super::members::{self, Assembly};
use super::sessions::CatchUp;
use super::sets::{OwnChanges, Page};
use super::{Coordinator, Out, Phase};
use crate::histories::{Read, Update};
use crate::message::{Found, Message, Period, Snapshot, Wanted};
use crate::reasons;
use crate::rules::Plant;
use crate::vector::{LocalSite, Vector};

/// A transaction that reads and writes.
#[derive(Debug)]
pub(super) struct Execution {
    routes: Arc<Routes>,
    pub(super) buffer: Buffer,
    pub(super) sets: OwnChanges,
    /// Its snapshot, once it has one.
    pub(super) snapshot: Option<Vector>,
    pub(super) pending: Vec<Pending>,
    /// Numbers the reads.
    pub(super) requests: u32,
    /// True if it is a read-only transaction that commits by itself once everything is read.
    pub(super) commits_when_read: bool,
    /// The call that changes a container once it is known where it is.
    pub(super) places: Option<ContainerCall>,
    /// The transactions that the client catches up with, if it does that.
    pub(super) catches_up: Option<CatchUp>,
    /// The earlier transaction of the client that its snapshot includes, if that one commits.
    pub(super) after: Option<TransactionId>,
}

/// A read that is not answered yet.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) request: u32,
    pub(super) wanted: Vec<Wanted>,
    /// When it was sent; none as long as another one takes the snapshot.
    sent_at: Option<Instant>,
    /// The questions to other sites, once the client's site has answered that they have the objects.
    pub(super) copies: Option<Copies>,
    /// The call that its registers complete, if the client has not asked for them.
    pub(super) completes: Option<Completes>,
}

/// A call that is answered once registers are here.
#[derive(Debug)]
pub(super) enum Completes {
    /// Members of a set.
    Members(Assembly),
    /// A register that is marked if it is in flight.
    Mark(Key),
}

/// A snapshot that is to be taken: after what its session has seen, and after an earlier transaction whose ending was not heard of yet.
pub(super) fn newest(seen: Vector, after: Option<(TransactionId, Period)>) -> Snapshot {
    match after {
        Some((earlier, period)) => Snapshot::After { seen, earlier, period },
        None => Snapshot::New(seen),
    }
}

impl Execution {
    pub(super) fn new(routes: Arc<Routes>) -> Self {
        Execution {
            routes,
            buffer: Buffer::default(),
            sets: OwnChanges::default(),
            snapshot: None,
            pending: Vec::new(),
            requests: 0,
            commits_when_read: false,
            places: None,
            catches_up: None,
            after: None,
        }
    }

    /// Its keyspace.
    pub(super) fn keyspace(&self) -> &Keyspace {
        &self.routes.keyspace
    }

    /// Since when a read waits for the client's site.
    pub(super) fn waits_since(&self) -> Option<Instant> {
        let at_home = self.pending.iter().filter(|pending| pending.copies.is_none());
        at_home.filter_map(|pending| pending.sent_at).min()
    }

    /// Those of some sites that were not taken out, the nearest first.
    pub(super) fn nearest(&self, sites: &[LocalSite]) -> Vec<ShardId> {
        let positions = self.routes.order.iter();
        let asked = positions.filter(|position| sites.iter().any(|site| usize::from(site.0) == **position));
        asked.map(|position| self.routes.keyspace.shards[*position].id).collect()
    }

    /// The updates of the transaction.
    pub(super) fn into_updates(self) -> Vec<Update> {
        let parts = self.buffer.into_parts(&self.routes.keyspace);
        let writes = parts.into_values().flat_map(|part| part.writes.clone());
        let writes = writes.map(|write| Update::Write { key: write.key, value: write.value });
        writes.chain(self.sets.into_updates()).collect()
    }
}

impl Coordinator {
    pub(super) fn execution(&mut self, id: TransactionId) -> Option<&mut Execution> {
        match &mut self.transactions.get_mut(&id)?.phase {
            Phase::Executing(execution) => Some(execution),
            Phase::Asking(_) => None,
        }
    }

    pub(super) fn execution_or_invalid(
        &mut self,
        id: TransactionId,
        outbox: &mut Out,
    ) -> Option<&mut Execution> {
        if self.execution(id).is_none() {
            finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id))));
        }
        self.execution(id)
    }

    fn fail_limit(&mut self, id: TransactionId, limit: LimitExceeded, outbox: &mut Out) {
        self.fail(id, Failure::Invalid(Invalid::Limit(limit)), outbox);
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
            self.want(id, unknown.into_iter().map(Wanted::Register).collect(), context, outbox);
        }
    }

    /// Reads a key, and whether its version may not be visible everywhere.
    pub(super) fn on_get_marked(
        &mut self,
        id: TransactionId,
        key: Key,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        if self.execution_or_invalid(id, outbox).is_none() {
            return;
        }
        if let Err(limit) = validate_key(&key) {
            return self.fail_limit(id, limit, outbox);
        }
        let wanted = vec![Wanted::Register(key.clone()), Wanted::InFlight(key.clone())];
        self.want_for(id, wanted, Some(Completes::Mark(key)), context, outbox);
    }

    /// A snapshot has this of a register. A write of the transaction itself is in flight.
    fn take_marked(
        &mut self,
        id: TransactionId,
        key: Key,
        answers: impl Iterator<Item = (Wanted, Found)>,
        outbox: &mut Out,
    ) -> Result<(), LimitExceeded> {
        let Some(execution) = self.execution(id) else { return Ok(()) };
        let answers: Vec<Found> = answers.map(|(_, found)| found).collect();
        let [Found::Register { version, value }, Found::InFlight(is_in_flight)] = &answers[..] else {
            outbox.ignored(reasons::MALFORMED);
            return Ok(());
        };
        let version = version.map_or(Timestamp::ZERO, |version| version.timestamp());
        let value = execution.buffer.read(&key, version, value.clone())?;
        let is_in_flight = *is_in_flight || execution.buffer.writes_key(&key);
        outbox.emit(Event::Marked { transaction: id, key, value, is_in_flight });
        Ok(())
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
        self.want(id, vec![Wanted::Range(range, limit)], context, outbox);
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
        self.want(id, keys.into_iter().map(Wanted::Register).collect(), context, outbox);
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

    pub(super) fn want(
        &mut self,
        id: TransactionId,
        wanted: Vec<Wanted>,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        self.want_for(id, wanted, None, context, outbox);
    }

    /// Asks for what the client has asked for; or for registers that complete something.
    pub(super) fn want_for(
        &mut self,
        id: TransactionId,
        wanted: Vec<Wanted>,
        completes: Option<Completes>,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(execution) = self.execution(id) else { return };
        execution.requests += 1;
        let request = execution.requests;
        assert!(
            execution.pending.iter().all(|pending| pending.request < request),
            "{id} has asked for {request} before"
        );
        execution.pending.push(Pending { request, wanted, sent_at: None, copies: None, completes });
        self.send_reads(id, context.now, outbox);
        self.transactions.wake_at(id, context.now + self.config.resend_timeout);
    }

    /// Sends what can be sent and was not: one read as long as there is no snapshot, which takes it.
    pub(super) fn send_reads(&mut self, id: TransactionId, now: Instant, outbox: &mut Out) {
        if self.fails_to_follow(id, outbox) {
            return;
        }
        let after = self.unheard_before(id);
        let Some(open) = self.transactions.get_mut(&id) else { return };
        let (keyspace, home) = (open.keyspace, open.home);
        let Phase::Executing(execution) = &mut open.phase else { return };
        let Some(session) = self.keyspaces.get(&keyspace) else { return };
        let is_taking = execution.snapshot.is_none() && execution.waits_since().is_some();
        if is_taking {
            return;
        }
        let count = if execution.snapshot.is_some() { usize::MAX } else { 1 };
        let unsent = execution.pending.iter_mut().filter(|pending| pending.sent_at.is_none());
        let leader = self.leaders.leader(home);
        open.directed.to = leader.index;
        for pending in unsent.take(count) {
            pending.sent_at = Some(now);
            let taken = execution.snapshot.clone().map(Snapshot::Taken);
            let message = Message::Read {
                transaction: id,
                request: pending.request,
                snapshot: taken.unwrap_or_else(|| {
                    let mut least = session.seen.clone();
                    if let Some(catch_up) = &execution.catches_up {
                        least.join(&catch_up.seen);
                    }
                    newest(least, after)
                }),
                wanted: pending.wanted.clone(),
            };
            outbox.send(leader, message);
        }
        let taking = execution.pending.iter().filter(|pending| pending.sent_at.is_some()).count();
        assert!(execution.snapshot.is_some() || taking <= 1, "{taking} reads of {id} take its snapshot");
    }

    /// All reads under way that the client's site has not answered are to be sent again.
    pub(super) fn forget_sent(&mut self, id: TransactionId) {
        let merges_stale = self.config.rules.has(Plant::StaleCopyMerged);
        if let Some(execution) = self.execution(id) {
            let unanswered = |pending: &&mut Pending| pending.copies.is_none() || merges_stale;
            execution.pending.iter_mut().filter(unanswered).for_each(|pending| pending.sent_at = None);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_read_reply(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        request: u32,
        snapshot: Vector,
        found: Vec<Found>,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let is_home = self.transactions.get(&id).is_some_and(|open| open.home == from.shard);
        let merges_stale = self.config.rules.has(Plant::StaleCopyMerged);
        let Some(execution) = self.execution(id).filter(|_| is_home) else {
            return outbox.ignored(reasons::NOT_OPEN);
        };
        let is_other = execution.snapshot.as_ref().is_some_and(|taken| *taken != snapshot);
        let at = execution.pending.iter().position(|pending| pending.request == request);
        // A read that was sent twice may have taken two snapshots: the one that was heard of first counts.
        let Some(at) = at.filter(|_| !is_other) else { return outbox.ignored(reasons::KNOWN) };
        if execution.pending[at].wanted.len() != found.len() {
            return outbox.ignored(reasons::MALFORMED);
        }
        if let Some(copies) = &mut execution.pending[at].copies {
            if merges_stale && matches!(found[..], [Found::Elsewhere { .. }]) {
                copies.found = found;
            }
            return outbox.ignored(reasons::KNOWN);
        }
        let taken = execution.snapshot.get_or_insert_with(|| snapshot.clone());
        assert!(*taken == snapshot, "{id} has the snapshot {taken}, and takes what was read in {snapshot}");
        if let Some(session) = self.session_of(id) {
            session.seen.join(&snapshot);
        }
        if !self.read_copies(id, request, &found, context, outbox) {
            let Some(execution) = self.execution(id) else { return };
            let Pending { wanted, completes, .. } = execution.pending.swap_remove(at);
            if !self.take_all(id, (wanted, completes), found, context, outbox) {
                return;
            }
        }
        self.send_reads(id, context.now, outbox);
        self.commit_if_read(id, context, outbox);
    }

    /// Takes all that was read at once. False if that was too much for the transaction.
    pub(super) fn take_all(
        &mut self,
        id: TransactionId,
        (wanted, completes): (Vec<Wanted>, Option<Completes>),
        found: Vec<Found>,
        context: &Context<'_>,
        outbox: &mut Out,
    ) -> bool {
        let mut answers = wanted.into_iter().zip(found);
        let taken = match completes {
            Some(Completes::Members(assembly)) => self.complete(id, assembly, answers, outbox),
            Some(Completes::Mark(key)) => self.take_marked(id, key, answers, outbox),
            None => answers.try_for_each(|(wanted, found)| self.take(id, wanted, found, context, outbox)),
        };
        if let Err(limit) = taken {
            self.fail_limit(id, limit, outbox);
            return false;
        }
        true
    }

    fn take(
        &mut self,
        id: TransactionId,
        wanted: Wanted,
        found: Found,
        context: &Context<'_>,
        outbox: &mut Out,
    ) -> Result<(), LimitExceeded> {
        let Some(execution) = self.execution(id) else { return Ok(()) };
        match (wanted, found) {
            (Wanted::Register(key), Found::Register { version, value }) => {
                let version = version.map_or(Timestamp::ZERO, |version| version.timestamp());
                let value = execution.buffer.read(&key, version, value)?;
                outbox.emit(Event::Got { transaction: id, key, value });
            }
            (Wanted::Range(range, limit), Found::Range { entries, next, .. }) => {
                let version = |read: Read| KeyVersion {
                    key: read.key,
                    version: read.version.timestamp(),
                    value: Some(read.value),
                };
                let page = scan::Page { keys: entries.into_iter().map(version).collect(), next };
                let scan = Scan::of_page(execution.keyspace(), range, limit, page);
                let (entries, next) = execution.buffer.scan(&execution.routes.keyspace, scan)?;
                outbox.emit(Event::Scanned { transaction: id, entries, next });
            }
            (Wanted::Count { set, element }, Found::Count(count)) => {
                self.take_count(id, set, element, count, outbox);
            }
            (Wanted::Elements { set, range, from, limit }, Found::Elements { counts, is_cut }) => {
                self.take_elements(id, set, Page { range, from, limit, counts, is_cut }, outbox);
            }
            (Wanted::Members { set, range, from, limit }, Found::Members { members, is_cut }) => {
                let (counts, registers) = members::divide(&set, members);
                let page = Page { range, from, limit, counts, is_cut };
                self.take_members(id, set, page, registers, context, outbox)?;
            }
            (Wanted::Container(name), Found::Container { container, copies_min }) => {
                self.take_container(id, name, &container, copies_min as usize, context, outbox);
            }
            _ => outbox.ignored(reasons::MALFORMED),
        }
        Ok(())
    }

    pub(super) fn commit_if_read(&mut self, id: TransactionId, context: &Context<'_>, outbox: &mut Out) {
        let Some(execution) = self.execution(id) else { return };
        if execution.commits_when_read && execution.pending.is_empty() && !self.tell_abandoned(id, outbox) {
            self.on_commit(id, context, outbox);
        }
    }
}
