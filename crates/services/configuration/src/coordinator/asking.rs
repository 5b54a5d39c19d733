//! The one question that decides a transaction, until it is answered.

use std::sync::Arc;

use quorate_coordinator::soon;
use quorate_core::command::{Event, Failure, Freshness, Outcome};
use quorate_core::log::Position;
use quorate_core::transaction::validate_key;
use quorate_core::{
    ClientId, Context, Instant, Key, KeyRange, KeyspaceId, ReplicaId, ShardId, Timestamp, TransactionId,
};

use super::{Coordinator, Open, Out, Phase, Wants};
use crate::entry::{KeyState, Revision, Stored};
use crate::message::{Compare, ConditionalWrite, Consistency, Message, WriteResult};
use crate::pauses::Pauses;

/// So often a question follows from one replica to the one that it names, before it waits for its time-out: while leaders
/// change, replicas may name each other.
pub(super) const REDIRECTS_MAX: u32 = 4;

/// Why an answer is dropped that its question does not want.
pub(super) const OTHER_QUESTION: &str = "another question was asked under this number";

/// So many questions of one transaction are remembered, for answers that are late.
pub(super) const REQUESTS_MAX: usize = 8;

/// A transaction that is being decided.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) question: Question,
    /// How far the log was known when it was first asked.
    since: Position,
    /// The questions that may still be answered, the last one last.
    pub(super) requests: Vec<u64>,
    /// When it is asked again unless it is answered.
    again_at: Instant,
    pauses: Pauses,
    redirects: u32,
    /// True if the replica that was asked is about to lead, and is asked again once it has had a moment.
    leads_soon: bool,
}

/// A question to the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// The values of these keys.
    Get { keys: Vec<Key> },
    /// The keys in this range, with their values.
    Scan { range: KeyRange, limit: u32 },
    /// Whether what was read still holds.
    Check { compares: Vec<Compare> },
    /// That this be written.
    Write { write: Arc<ConditionalWrite> },
    /// The outcome of the transaction.
    Settle,
}

impl Asking {
    /// Nobody has been asked yet.
    fn new(question: Question, since: Position, now: Instant) -> Self {
        Asking {
            question,
            since,
            requests: Vec::new(),
            again_at: now,
            pauses: Pauses::default(),
            redirects: 0,
            leads_soon: false,
        }
    }

    /// True if the transaction may have committed, whatever is heard.
    pub(super) fn may_commit(&self) -> bool {
        matches!(self.question, Question::Write { .. } | Question::Settle)
    }
}

impl Coordinator {
    fn asking(&mut self, id: TransactionId) -> Option<&mut Asking> {
        match &mut self.transactions.get_mut(&id)?.phase {
            Phase::Asking(asking) => Some(asking),
            Phase::Executing(_) => None,
        }
    }

    /// Begins to ask; the open transaction goes on with this.
    pub(super) fn ask(
        &mut self,
        id: TransactionId,
        question: Question,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(open) = self.transactions.get_mut(&id) else { return };
        let since = self.groups.get(&open.shard).map_or(Position::START, |group| group.position);
        // A client that settles a transaction does not know when it was sent.
        let since = if question == Question::Settle { Position::START } else { since };
        open.phase = Phase::Asking(Box::new(Asking::new(question, since, context.now)));
        self.send_question(id, context, outbox);
    }

    fn send_question(&mut self, id: TransactionId, context: &mut Context<'_>, outbox: &mut Out) {
        let request = self.next_request(id);
        let Some(open) = self.transactions.get_mut(&id) else { return };
        let Some(to) = self.groups.get(&open.shard).map(super::Group::leader) else { return };
        let Phase::Asking(asking) = &mut open.phase else { return };
        asking.requests.push(request);
        if asking.requests.len() > REQUESTS_MAX {
            let oldest = asking.requests.remove(0);
            self.requests.remove(&oldest);
        }
        let asked = asking.requests.len();
        assert!(asked <= REQUESTS_MAX, "{id} has asked {asked} times, and each may be answered");
        asking.again_at = context.now + asking.pauses.draw(self.config.resend_timeout, context.random);
        asking.leads_soon = false;
        let again_at = asking.again_at;
        let (transaction, since, consistency) = (id, asking.since, Consistency::Linearizable);
        let message = match &asking.question {
            Question::Get { keys } => Message::Get { request, keys: keys.clone(), consistency },
            Question::Scan { range, limit } => {
                Message::Scan { request, range: range.clone(), limit: *limit, consistency }
            }
            Question::Check { compares } => Message::Check { request, compares: compares.clone() },
            Question::Write { write } => {
                Message::Write { request, transaction, since, write: Arc::clone(write) }
            }
            Question::Settle => Message::Settle { request, transaction, since },
        };
        outbox.send(to, message);
        self.transactions.wake_at(id, again_at);
    }

    /// The replica that was asked does not lead.
    pub(super) fn ask_elsewhere(
        &mut self,
        request: u64,
        id: TransactionId,
        from: ReplicaId,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(open) = self.transactions.get_mut(&id) else { return };
        let names_itself = self.groups.get(&open.shard).is_none_or(|group| group.leader() == from);
        match &mut open.phase {
            Phase::Executing(_) if names_itself => outbox.ignored("it names itself as the leader"),
            Phase::Executing(_) => self.redirect_wanted(request, id, context, outbox),
            Phase::Asking(asking) if asking.requests.last() != Some(&request) => {
                outbox.ignored("it was asked elsewhere since");
            }
            Phase::Asking(asking) if names_itself || asking.redirects == REDIRECTS_MAX => {
                asking.leads_soon = true;
                asking.again_at = context.now + soon(self.config.resend_timeout);
                let again_at = asking.again_at;
                self.transactions.wake_at(id, again_at);
            }
            Phase::Asking(asking) => {
                asking.redirects += 1;
                assert!(asking.redirects <= REDIRECTS_MAX, "{id} was sent on {} times", asking.redirects);
                self.send_question(id, context, outbox);
            }
        }
    }

    /// Asks again if there was no answer in time; gives when to look again.
    pub(super) fn attend_asking(
        &mut self,
        id: TransactionId,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) -> Option<Instant> {
        let now = context.now;
        let open = self.transactions.get_mut(&id)?;
        let (shard, deadline) = (open.shard, open.deadline);
        let Phase::Asking(asking) = &mut open.phase else { return None };
        let group = self.groups.get_mut(&shard)?;
        let is_late = now >= asking.again_at;
        let is_gone = !group.is_reachable(group.leader().index);
        if is_late || is_gone {
            asking.redirects = 0;
            let is_silent = is_late && !asking.leads_soon;
            // A connection that is down says nothing of how long the way is.
            if is_silent {
                asking.pauses.lengthen();
            }
            if is_silent || is_gone {
                group.suspect();
            }
            self.send_question(id, context, outbox);
        }
        let again_at = self.asking(id)?.again_at;
        let ends_at = if now < deadline { deadline } else { deadline + self.config.abandon_after };
        Some(again_at.min(ends_at))
    }

    /// Reads at the leader, all at once: one answer is of one revision.
    #[expect(clippy::too_many_arguments, reason = "the fields of one command")]
    pub(super) fn on_read_only(
        &mut self,
        id: TransactionId,
        keyspace: KeyspaceId,
        question: Question,
        freshness: Freshness,
        deadline: Instant,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        if !self.open(id, keyspace, deadline, outbox) {
            return;
        }
        if let Some(failure) = self.unserved(keyspace, freshness, context) {
            return self.fail(id, failure, outbox);
        }
        let question = match question {
            Question::Get { mut keys } => {
                keys.sort_unstable();
                keys.dedup();
                if let Some(limit) = keys.iter().find_map(|key| validate_key(key).err()) {
                    return self.fail(id, Failure::Invalid(limit.into()), outbox);
                }
                Question::Get { keys }
            }
            other => other,
        };
        self.ask(id, question, context, outbox);
    }

    /// Why this is not read, if it is not. The current values are fresh enough for all but the past, of which nothing is kept.
    fn unserved(&self, keyspace: KeyspaceId, freshness: Freshness, context: &Context<'_>) -> Option<Failure> {
        use quorate_core::command::Invalid;
        let has_bound =
            self.keyspaces.get(&keyspace).is_some_and(|routes| routes.keyspace.clock_bound.is_some());
        match freshness {
            Freshness::Strict | Freshness::Stale(_) => None,
            Freshness::ClockBound if has_bound => None,
            Freshness::ClockBound => Some(Failure::Invalid(Invalid::NoClockBound(keyspace))),
            Freshness::At(timestamp) => {
                Some(Failure::TooOld { oldest: timestamp.successor(context.clock, timestamp.client) })
            }
        }
    }

    pub(super) fn on_get_reply(
        &mut self,
        request: u64,
        id: TransactionId,
        revision: Revision,
        found: Vec<KeyState>,
        outbox: &mut Out,
    ) {
        let Some(asking) = self.asking(id) else { return self.on_key_found(request, id, found, outbox) };
        let Question::Get { keys } = &asking.question else { return outbox.ignored(OTHER_QUESTION) };
        if !found.iter().map(|found| &found.key).eq(keys) {
            return outbox.ignored("these are not the keys");
        }
        for KeyState { key, stored } in found {
            let value = stored.map(|stored| stored.value);
            outbox.emit(Event::Got { transaction: id, key, value });
        }
        self.commit(id, read_at(revision), outbox);
    }

    pub(super) fn on_scan_reply(
        &mut self,
        request: u64,
        id: TransactionId,
        revision: Revision,
        found: Vec<(Key, Stored)>,
        next: Option<Key>,
        outbox: &mut Out,
    ) {
        let Some(asking) = self.asking(id) else {
            return self.on_range_found(request, id, found, next, outbox);
        };
        if !matches!(asking.question, Question::Scan { .. }) {
            return outbox.ignored(OTHER_QUESTION);
        }
        let entries = found.into_iter().map(|(key, stored)| (key, stored.value)).collect();
        outbox.emit(Event::Scanned { transaction: id, entries, next });
        self.commit(id, read_at(revision), outbox);
    }

    pub(super) fn on_check_reply(
        &mut self,
        id: TransactionId,
        revision: Revision,
        holds: bool,
        outbox: &mut Out,
    ) {
        if !self.asking(id).is_some_and(|asking| matches!(asking.question, Question::Check { .. })) {
            return outbox.ignored(OTHER_QUESTION);
        }
        match holds {
            true => self.commit(id, read_at(revision), outbox),
            false => self.fail(id, Failure::Conflict, outbox),
        }
    }

    /// It is known what became of a transaction.
    pub(super) fn on_write_reply(&mut self, id: TransactionId, result: WriteResult, outbox: &mut Out) {
        if !self.asking(id).is_some_and(|asking| asking.may_commit()) {
            return outbox.ignored(OTHER_QUESTION);
        }
        match (result.outcome(id), result) {
            (Outcome::Committed(timestamp), _) => self.commit(id, timestamp, outbox),
            (Outcome::Aborted, WriteResult::Full) => {
                self.fail(id, Failure::Unavailable { missing: Vec::new() }, outbox);
            }
            (Outcome::Aborted, _) => self.fail(id, Failure::Conflict, outbox),
        }
    }

    /// A transaction has committed.
    pub(super) fn commit(&mut self, id: TransactionId, timestamp: Timestamp, outbox: &mut Out) {
        self.end(id, Ok(timestamp), outbox);
    }

    pub(super) fn on_resolve(
        &mut self,
        id: TransactionId,
        participants: &[ShardId],
        deadline: Instant,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        if let Some(open) = self.transactions.get_mut(&id) {
            open.wants.resolve_wanted = true;
            open.deadline = open.deadline.max(deadline);
            return self.transactions.wake_at(id, deadline);
        }
        let [shard] = participants else {
            return outbox.emit(Event::Resolved { transaction: id, outcome: None });
        };
        if !self.groups.contains_key(shard) {
            return outbox.emit(Event::Resolved { transaction: id, outcome: None });
        }
        let asking = Asking::new(Question::Settle, Position::START, context.now);
        let phase = Phase::Asking(Box::new(asking));
        let open =
            Open { shard: *shard, phase, deadline, wants: Wants { answered: true, resolve_wanted: true } };
        self.transactions.insert(id, open);
        self.send_question(id, context, outbox);
        self.transactions.wake_at(id, deadline);
    }
}

/// The timestamp of what has read the map as it was after some write: after that one, and before the next. (Histories take
/// clients for signed numbers.)
fn read_at(revision: Revision) -> Timestamp {
    Timestamp { micros: revision.0, client: ClientId(1 << 62) }
}
