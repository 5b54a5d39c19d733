//! Commits, and finding out how they ended.

use quorate_coordinator::{Wants, finish};
use quorate_core::command::{Committed, Event, Failure, Invalid, Outcome, Shown};
use quorate_core::reserved::is_index_list;
use quorate_core::{
    ClockTime, Context, Instant, ReplicaId, ReplicaIndex, ShardId, Timestamp, TransactionId, Write,
};

use super::{Coordinator, Open, Out, Phase};
use crate::message::{Ending, Message, Period, Session};
use crate::reasons;

/// A commit that its node was asked for.
#[derive(Debug)]
pub(super) struct Committing {
    writes: Vec<Write>,
    session: Session,
    snapshot: Option<ClockTime>,
    /// The period that it was sent with first.
    period: Period,
    /// True if the client wants to be shown the result before it is final.
    shows: bool,
    /// True if the transaction has read an index list.
    knows_indexes: bool,
    pub(super) asked_at: Instant,
}

/// An outcome that is asked for at the replicas of a home, one after the other.
#[derive(Debug)]
pub(super) struct Inquiring {
    asked: ReplicaIndex,
    pub(super) asked_at: Instant,
}

impl Coordinator {
    pub(super) fn on_commit(
        &mut self,
        id: TransactionId,
        shows: bool,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let period = self.transactions.get(&id).and_then(|open| self.periods.get(&open.home)).copied();
        let seen = self.seen;
        let Some(open) = self.transactions.get_mut(&id) else {
            return finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id))));
        };
        let Phase::Executing(execution) = &mut open.phase else {
            return finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id))));
        };
        let buffer = std::mem::take(&mut execution.buffer);
        let parts = buffer.into_parts(&execution.routes.keyspace);
        let knows_indexes = parts.values().flat_map(|part| &part.reads).any(|read| is_index_list(&read.key));
        let mut writes: Vec<Write> = parts.into_values().flat_map(|part| part.writes.clone()).collect();
        writes.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        if writes.is_empty() && !execution.is_known() && execution.after.is_none() {
            let timestamp = Timestamp { micros: seen.as_micros(), client: id.client };
            self.transactions.remove(&id);
            return finish(outbox, id, Ok(Committed::at(timestamp)));
        }
        let (session, snapshot) = (execution.session(), execution.snapshot);
        open.is_read_only = writes.is_empty();
        let period = period.unwrap_or_default();
        let asked_at = context.now;
        let committing = Committing { writes, session, snapshot, period, shows, knows_indexes, asked_at };
        (open.phase, open.silent) = (Phase::Committing(Box::new(committing)), 0);
        self.send_commit(id, context, outbox);
        self.transactions.wake_at(id, context.now + self.config.resend_timeout);
    }

    /// COMMIT.
    pub(super) fn send_commit(&mut self, id: TransactionId, context: &Context<'_>, outbox: &mut Out) {
        let Some(open) = self.transactions.get_mut(&id) else { return };
        let begun = open.begun;
        let Phase::Committing(committing) = &mut open.phase else { return };
        committing.asked_at = context.now;
        let message = Message::Commit {
            transaction: id,
            session: committing.session,
            snapshot: committing.snapshot,
            period: committing.period,
            begun,
            writes: committing.writes.clone(),
            shows: committing.shows,
            knows_indexes: committing.knows_indexes,
        };
        outbox.send_unordered(open.home, message);
    }

    /// SHOWN: the transaction has committed locally.
    pub(super) fn on_shown(&mut self, from: ReplicaId, id: TransactionId, shown: Shown, outbox: &mut Out) {
        let Some(open) = self.transactions.get_mut(&id).filter(|open| open.home == from) else {
            return outbox.ignored(reasons::ANSWERED);
        };
        open.silent = 0;
        let is_news = matches!(open.phase, Phase::Committing(_) | Phase::Inquiring(_)) && !open.is_shown;
        if !is_news || open.wants.answered {
            return outbox.ignored(reasons::KNOWN);
        }
        open.is_shown = true;
        outbox.emit(Event::Shown { transaction: id, shown });
    }

    /// UNDER-WAY: the node lives, and there will be an answer.
    pub(super) fn on_under_way(&mut self, from: ReplicaId, id: TransactionId, outbox: &mut Out) {
        match self.transactions.get_mut(&id).filter(|open| open.home == from) {
            Some(open) => open.silent = 0,
            None => outbox.ignored(reasons::ANSWERED),
        }
    }

    /// OTHER-PERIOD: the node does not know whether it has ever seen this commit.
    pub(super) fn on_other_period(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        period: Period,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(open) = self.transactions.get_mut(&id).filter(|open| open.home == from) else {
            return outbox.ignored(reasons::ANSWERED);
        };
        let Phase::Committing(committing) = &mut open.phase else { return outbox.ignored(reasons::ANSWERED) };
        if committing.period == period {
            return outbox.ignored(reasons::KNOWN);
        }
        if committing.period == Period::default() && committing.snapshot.is_none() {
            // No node takes a commit without a period, so this one was not taken.
            committing.period = period;
            return self.send_commit(id, context, outbox);
        }
        self.inquire(id, context, outbox);
    }

    /// INQUIRE at the next replica of the home.
    pub(super) fn inquire(&mut self, id: TransactionId, context: &Context<'_>, outbox: &mut Out) {
        let Some(open) = self.transactions.get(&id) else { return };
        let asked = match &open.phase {
            Phase::Inquiring(inquiring) => {
                let members: Vec<ReplicaIndex> =
                    self.leaders.replicas(open.home.shard).map(|replica| replica.index).collect();
                let next = members.iter().copied().find(|member| *member > inquiring.asked);
                next.or(members.first().copied()).unwrap_or(inquiring.asked)
            }
            Phase::Executing(_) | Phase::Committing(_) => open.home.index,
        };
        self.inquire_at(id, asked, context, outbox);
    }

    fn inquire_at(
        &mut self,
        id: TransactionId,
        asked: ReplicaIndex,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(open) = self.transactions.get_mut(&id) else { return };
        open.phase = Phase::Inquiring(Inquiring { asked, asked_at: context.now });
        let to = ReplicaId { shard: open.home.shard, index: asked };
        outbox.send_unordered(to, Message::Inquire { transaction: id, snapshot: open.begun });
        self.transactions.wake_at(id, context.now + self.config.resend_timeout);
    }

    /// The replica of the home that was asked does not lead its log.
    pub(super) fn on_not_leading(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        leader: ReplicaIndex,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        // It does not run it.
        self.behind.note_heard(from, id);
        let open = self.transactions.get(&id).filter(|open| open.home.shard == from.shard);
        let Some(Phase::Inquiring(inquiring)) = open.map(|open| &open.phase) else {
            return outbox.ignored(reasons::NOT_OPEN);
        };
        if inquiring.asked != from.index || leader == from.index {
            return outbox.ignored(reasons::KNOWN);
        }
        self.inquire_at(id, leader, context, outbox);
    }

    /// INQUIRE-REPLY.
    pub(super) fn on_inquire_reply(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        outcome: Option<Outcome>,
        outbox: &mut Out,
    ) {
        self.behind.note_heard(from, id);
        let open = self.transactions.get(&id).filter(|open| open.home.shard == from.shard);
        let Some(open) = open else { return outbox.ignored(reasons::ANSWERED) };
        if matches!(open.phase, Phase::Executing(_)) {
            return outbox.ignored(reasons::NOT_OPEN);
        }
        match outcome {
            Some(Outcome::Committed(timestamp)) => {
                let snapshot = ClockTime::from_micros(timestamp.micros);
                self.end(id, Ending::Committed { timestamp, snapshot }, outbox);
            }
            // A transaction that has only read and was shown may have committed before that was forgotten, and others after it.
            Some(Outcome::Aborted) if open.is_read_only && open.is_shown => self.give_up(id, outbox),
            Some(Outcome::Aborted) => {
                // Of one that was given up before it is not known which machine has run it.
                let may_run = |machine: &ReplicaId| open.wants.answered || *machine == open.home;
                let others = self.leaders.replicas(from.shard).filter(|machine| *machine != from);
                for machine in others.filter(may_run) {
                    self.behind.note(machine, id, open.begun);
                }
                self.end(id, Ending::Aborted(crate::message::Refusal::Conflict), outbox);
            }
            None => {
                let Some(mut open) = self.transactions.remove(&id) else { return };
                if open.wants.resolve_wanted {
                    open.wants.resolve_wanted = false;
                    outbox.emit(Event::Forgotten { transaction: id });
                }
                open.wants.give_up(id, vec![open.home.shard], outbox);
            }
        }
    }

    /// It is known how a transaction ended.
    pub(super) fn end(&mut self, id: TransactionId, ending: Ending, outbox: &mut Out) {
        let Some(open) = self.transactions.remove(&id) else { return };
        let (result, outcome) = match ending {
            Ending::Committed { timestamp, snapshot } => {
                self.seen = self.seen.max(ClockTime::from_micros(timestamp.micros)).max(snapshot);
                self.note_answer(open.keyspace);
                (Ok(Committed::at(timestamp)), Outcome::Committed(timestamp))
            }
            Ending::Aborted(refusal) => {
                self.note_apology(id, open.is_shown);
                (Err(self.failure(refusal)), Outcome::Aborted)
            }
        };
        if open.wants.resolve_wanted {
            outbox.emit(Event::Resolved { transaction: id, outcome: Some(outcome) });
        }
        if !open.wants.answered {
            finish(outbox, id, result);
        }
    }

    /// The client asks how a transaction ended.
    pub(super) fn on_resolve(
        &mut self,
        id: TransactionId,
        participants: &[ShardId],
        begun: ClockTime,
        deadline: Instant,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        if let Some(open) = self.transactions.get_mut(&id) {
            (open.wants.resolve_wanted, open.deadline) = (true, open.deadline.max(deadline));
            return;
        }
        let group = participants.first().and_then(|shard| Some((*shard, *self.leaders.group(*shard)?)));
        let keyspace = group.and_then(|(_, group)| group.keyspace);
        let (Some((shard, _)), Some(keyspace)) = (group, keyspace) else {
            return outbox.emit(Event::Resolved { transaction: id, outcome: None });
        };
        let Some(home) = self.leaders.replicas(shard).next() else {
            return outbox.emit(Event::Resolved { transaction: id, outcome: None });
        };
        let inquiring = Inquiring { asked: home.index, asked_at: context.now };
        let open = Open {
            keyspace,
            home,
            phase: Phase::Inquiring(inquiring),
            begun,
            deadline,
            wants: Wants { answered: true, resolve_wanted: true },
            silent: 0,
            is_shown: false,
            is_read_only: false,
        };
        self.transactions.insert(id, open);
        self.transactions.wake_at(id, deadline);
        self.inquire_at(id, home.index, context, outbox);
    }
}
