//! The fate of a transaction that others settle: asked for by its token, or taken over by a backup coordinator.

use std::time::Duration;

use quorate_core::command::Outcome;
use quorate_core::{Context, Instant, ShardId, Timestamp, TransactionId};

use super::{Coordinator, Open, Out, Phase, Report, Wants};
use crate::message::Message;
use crate::recovery::{backup_replica, valid_participants};
use quorate_core::command::{Committed, Event, Failure, Invalid};

/// A transaction whose fate is being asked for.
#[derive(Debug)]
pub(super) struct Resolving {
    pub(super) participants: Vec<ShardId>,
    /// It has not been proposed at a lower timestamp.
    timestamp: Timestamp,
    /// The reason to tell the client if it turns out to be aborted, where that is more than a conflict.
    invalid: Option<Invalid>,
    /// True if it was to read when it was prepared: if it has committed, what it read is lost all the same.
    reads_lost: bool,
    attempts: u64,
    asked_at: Instant,
}

/// How long to wait for a backup coordinator before another is asked: a recovery takes three round trips and more.
const PATIENCE: Duration = Duration::from_millis(1_500);

impl Coordinator {
    pub(super) fn on_resolve(
        &mut self,
        id: TransactionId,
        participants: Vec<ShardId>,
        timestamp: Timestamp,
        deadline: Instant,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        if self.commit_waits.ask(id, deadline) {
            return;
        }
        if let Some(open) = self.transactions.get_mut(&id) {
            match &open.phase {
                Phase::Telling(telling) => match telling.outcome {
                    Outcome::Committed(timestamp) => {
                        let committed = Committed { fast: false, ..Committed::at(timestamp) };
                        let mut report = Report::new(committed, telling.participants(), deadline);
                        (report.resolves, report.finishes) = (true, false);
                        self.report(id, report, context, outbox);
                    }
                    Outcome::Aborted => {
                        let outcome = Some(Outcome::Aborted);
                        outbox.emit(Event::Resolved { transaction: id, outcome });
                    }
                },
                _ => {
                    open.wants.resolve_wanted = true;
                    open.deadline = open.deadline.max(deadline);
                }
            }
            return;
        }
        let known = valid_participants(&participants)
            && participants.iter().all(|shard| self.groups.contains_key(shard));
        if !known {
            outbox.emit(Event::Resolved { transaction: id, outcome: None });
            return;
        }
        let phase = Phase::Resolving(Box::new(self.resolving(participants, timestamp, None, context.now)));
        let open = Open {
            wants: Wants { answered: true, resolve_wanted: true },
            ..Open::new(phase, deadline, context.clock)
        };
        self.transactions.insert(id, open);
        self.ask_to_recover(id, context.now, outbox);
        self.transactions.wake_at(id, deadline.min(context.now + PATIENCE));
    }

    fn resolving(
        &self,
        participants: Vec<ShardId>,
        timestamp: Timestamp,
        invalid: Option<Invalid>,
        now: Instant,
    ) -> Resolving {
        Resolving { participants, timestamp, invalid, reads_lost: false, attempts: 0, asked_at: now }
    }

    /// A replica no longer follows this coordinator, or gives it no vote: somebody else must settle the transaction.
    pub(super) fn on_superseded(
        &mut self,
        id: TransactionId,
        invalid: Option<Invalid>,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(Open { phase: Phase::Preparing(preparing), .. }) = self.transactions.get(&id) else {
            return;
        };
        let (participants, timestamp) = (preparing.participants(), preparing.first_timestamp());
        let reads_lost = preparing.reads_when_prepared();
        let resolving =
            Resolving { reads_lost, ..self.resolving(participants, timestamp, invalid, context.now) };
        if let Some(open) = self.transactions.get_mut(&id) {
            open.phase = Phase::Resolving(Box::new(resolving));
        }
        self.ask_to_recover(id, context.now, outbox);
        self.transactions.wake_at(id, context.now + PATIENCE);
    }

    fn ask_to_recover(&mut self, id: TransactionId, now: Instant, outbox: &mut Out) {
        let Some(Open { phase: Phase::Resolving(resolving), .. }) = self.transactions.get_mut(&id) else {
            return;
        };
        resolving.asked_at = now;
        assert!(!resolving.participants.is_empty(), "nobody can tell what became of {id}");
        let members = |shard: ShardId| self.groups[&shard].members;
        let backup = backup_replica(id, &resolving.participants, members, resolving.attempts);
        resolving.attempts += 1;
        if let Some(backup) = backup {
            let (participants, timestamp) = (resolving.participants.clone(), resolving.timestamp);
            outbox.send(backup, Message::Recover { transaction: id, participants, timestamp });
        }
    }

    pub(super) fn on_recover_reply(
        &mut self,
        id: TransactionId,
        outcome: Outcome,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(open) = self.transactions.get_mut(&id) else { return };
        // Else the coordinator found out by itself in the meantime, or still can.
        let Phase::Resolving(resolving) = &mut open.phase else { return };
        let participants = std::mem::take(&mut resolving.participants);
        let result = match outcome {
            Outcome::Committed(_) if resolving.reads_lost => Err(Failure::Conflict),
            Outcome::Committed(timestamp) => Ok(Committed { fast: false, ..Committed::at(timestamp) }),
            Outcome::Aborted => Err(resolving.invalid.take().map_or(Failure::Conflict, Failure::Invalid)),
        };
        self.answer(id, participants, result, context, outbox);
        self.transactions.remove(&id);
    }

    /// Nobody knows any more what became of a transaction.
    pub(super) fn on_forgotten(&mut self, id: TransactionId, outbox: &mut Out) {
        let Some(open) = self.transactions.get_mut(&id) else { return };
        let Phase::Resolving(resolving) = &open.phase else { return };
        let participants = resolving.participants.clone();
        if open.wants.resolve_wanted {
            open.wants.resolve_wanted = false;
            outbox.emit(Event::Forgotten { transaction: id });
        }
        open.wants.give_up(id, participants, outbox);
        self.transactions.remove(&id);
    }

    pub(super) fn attend_resolving(
        &mut self,
        id: TransactionId,
        context: &Context<'_>,
        outbox: &mut Out,
    ) -> Option<Instant> {
        let open = self.transactions.get(&id)?;
        let Phase::Resolving(resolving) = &open.phase else { return None };
        if open.wants.answered && !open.wants.resolve_wanted {
            // Nobody waits any longer, and the replicas settle it by themselves.
            self.transactions.remove(&id);
            return None;
        }
        let deadline = open.deadline;
        if context.now - resolving.asked_at >= PATIENCE {
            self.ask_to_recover(id, context.now, outbox);
        }
        let next = context.now + PATIENCE;
        Some(if context.now < deadline { next.min(deadline) } else { next })
    }
}
