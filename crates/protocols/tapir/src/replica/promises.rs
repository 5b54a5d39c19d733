//! The promises of a replica to backup coordinators (TAPIR paper, section 5.2.2).
//!
//! A promise fences earlier coordinators off: this replica no longer votes for them and no longer lets them make a vote
//! final. Their COMMIT is still taken, because a commit is a fact. Promises are durable, travel through view changes and
//! end when the outcome is known; or, where nobody ever tells it, because this shard has forgotten it, has no part in the
//! transaction or has never heard of it, once the floor has passed every timestamp at which it may have been proposed.

use std::time::Duration;

use quorate_core::bound::reasons;
use quorate_core::command::Outcome;
use quorate_core::machine::OutboxOf;
use quorate_core::{Address, Ballot, ClientId, Context, ShardId, Timestamp, TransactionId};
use quorate_ir::{OperationId, State, Status};

use super::Replica;
use super::authority::are_participants;
use super::participant::{Participant, outcome_of};
use crate::message::{Decision, Message, Prepare, RecordedVote};
use crate::record::Record;
use crate::rules::Plant;

/// How many times in the span of retries it is looked which promises fence nobody off any more.
const COLLECTIONS_IN_SPAN: u32 = 16;

impl Replica {
    /// Gives no vote on a prepare, and says why: a backup coordinator has taken over, or has committed another prepare of
    /// the transaction, or the timestamp is too far in the future to be let in.
    pub(super) fn refuses_prepare(
        &mut self,
        from: Address,
        id: OperationId,
        prepare: &Prepare,
        context: &Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) -> bool {
        if !self.ir.is_answering() {
            return true;
        }
        let (transaction, timestamp) = (id.transaction, prepare.timestamp);
        if self.decision(transaction).is_some() {
            // Else the vote follows from the decision.
            return !self.participant.rules.has(Plant::PrepareAfterOutcome)
                && self.is_committed_otherwise(from, transaction, Some(timestamp), Ballot::ORIGINAL, outbox);
        }
        let promised = self.participant.promised(transaction);
        if promised > Ballot::ORIGINAL {
            self.send_superseded(from, transaction, promised, outbox);
            return true;
        }
        if self.comes_too_late(prepare) {
            // The fate of the transaction is for a recovery to find out.
            self.send_superseded(from, transaction, Ballot(1), outbox);
            return true;
        }
        // A vote that was given is given again, whatever the clock has done since. One on a further prepare of the same
        // transaction is a new one: the client's clock may have run away in between.
        self.ir.record().consensus(id).is_none()
            && self.refuses_timestamp(from, transaction, timestamp, context, outbox)
    }

    /// Makes no verdict final, and says why: a later backup coordinator has taken over, or another prepare has committed.
    pub(super) fn refuses_finalize(
        &mut self,
        from: Address,
        id: OperationId,
        ballot: Ballot,
        outbox: &mut OutboxOf<Self>,
    ) -> bool {
        let transaction = id.transaction;
        let promised = self.participant.promised(transaction);
        if ballot < promised {
            self.send_superseded(from, transaction, promised, outbox);
            return true;
        }
        if !promised.may_follow(ballot) {
            outbox.ignored(reasons::BALLOT);
            return true;
        }
        let prepare = self.ir.record().consensus(id).map(|known| &known.operation);
        let at = prepare.map(|prepare| prepare.timestamp);
        let is_late = prepare.is_some_and(|prepare| self.comes_too_late(prepare));
        if self.decision(transaction).is_none() && is_late && ballot == Ballot::ORIGINAL {
            self.send_superseded(from, transaction, Ballot(1), outbox);
            return true;
        }
        self.is_committed_otherwise(from, transaction, at, ballot, outbox)
    }

    /// True if the transaction may have ended by an earlier prepare, of which nothing is left here but what it has done.
    ///
    /// A coordinator that was away for long may propose a transaction again that a backup coordinator has settled since. To
    /// vote on it as on a new one would let it commit twice, or commit after it was told to have aborted. So no further
    /// prepare is let in far above the first, and what a backup coordinator has settled is kept until the floor has passed
    /// all that may be: a replica that does not remember the outcome has a floor above the prepare.
    fn comes_too_late(&self, prepare: &Prepare) -> bool {
        let span = self.config.retry_span.as_micros() as u64;
        let is_beyond = |first: Timestamp| prepare.timestamp.micros > first.micros.saturating_add(span);
        prepare.first.is_some_and(|first| is_beyond(first) || prepare.timestamp < self.ir.floor())
    }

    /// Says so if a timestamp is too far in the future to be let in.
    pub(super) fn refuses_timestamp(
        &self,
        from: Address,
        transaction: TransactionId,
        timestamp: Timestamp,
        context: &Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) -> bool {
        let ahead_max = self.config.timestamp_ahead_max;
        self.refuses_further_ahead(ahead_max, from, transaction, timestamp, context, outbox)
    }

    /// The same with a limit of its own.
    pub(super) fn refuses_further_ahead(
        &self,
        ahead_max: Duration,
        from: Address,
        transaction: TransactionId,
        timestamp: Timestamp,
        context: &Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) -> bool {
        if timestamp.micros > context.clock.saturating_add(ahead_max).as_micros() {
            let ahead_micros = timestamp.micros - context.clock.as_micros();
            let ahead_max_micros = ahead_max.as_micros() as u64;
            outbox.send(from, Message::ClockAhead { transaction, ahead_micros, ahead_max_micros });
            return true;
        }
        false
    }

    /// True, and says so, if a coordinator goes on with a transaction that another one has committed, and not by the
    /// prepare `at` this timestamp, or nothing is known of that prepare. No vote tells what has become of the transaction,
    /// and any vote could be taken for its outcome.
    fn is_committed_otherwise(
        &self,
        from: Address,
        transaction: TransactionId,
        at: Option<Timestamp>,
        ballot: Ballot,
        outbox: &mut OutboxOf<Self>,
    ) -> bool {
        let committed = match self.decision(transaction) {
            Some(Decision::Commit { timestamp, .. }) => Some(*timestamp),
            Some(Decision::Abort { .. }) | None => None,
        };
        let otherwise = committed.is_some() && committed != at;
        if otherwise {
            self.send_superseded(from, transaction, ballot.above(), outbox);
        }
        otherwise
    }

    pub(super) fn send_superseded(
        &self,
        to: Address,
        transaction: TransactionId,
        promised: Ballot,
        outbox: &mut OutboxOf<Self>,
    ) {
        assert!(promised > Ballot::ORIGINAL, "{transaction} is taken from its coordinator by itself");
        outbox.send(to, Message::Superseded { transaction, promised });
    }

    /// Somebody wants a transaction settled, and this replica belongs to its backup shard.
    pub(super) fn on_recover(
        &mut self,
        from: Address,
        transaction: TransactionId,
        participants: Vec<ShardId>,
        timestamp: Timestamp,
        context: &mut Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) {
        if self.ir.status() != Status::Normal {
            return;
        }
        if let Some(decision) = self.decision(transaction) {
            let outcome = outcome_of(decision);
            outbox.send(from, Message::RecoverReply { transaction, outcome });
            if matches!(from, Address::Client(_)) {
                return;
            }
        }
        if !are_participants(self.config.shards, &participants)
            || !participants.contains(&self.config.replica.shard)
        {
            return;
        }
        let promised = self.participant.promised(transaction);
        self.recoveries.begin(transaction, participants, timestamp, from, promised, context.now, outbox);
    }

    /// Holds the elections that this replica has called as a backup coordinator. A transaction that has ended here needs no promise:
    /// whatever comes of it, the outcome is what it is.
    pub(super) fn hold_elections(&mut self, outbox: &mut OutboxOf<Self>) {
        let (record, participant) = (self.ir.record(), &mut self.participant);
        let has_ended = |id| record.inconsistent(id).is_some_and(|known| known.executed);
        let promise = |transaction, ballot, outbox: &mut OutboxOf<Self>| {
            if !has_ended(transaction)
                && let Some(promise) = participant.promise(transaction, ballot)
            {
                outbox.persist(Record::Promised { transaction, promise });
            }
        };
        self.recoveries.hold_elections(promise, outbox);
    }

    /// True if a backup coordinator acts under a ballot that nothing promised here speaks against; else it is told so.
    fn follows(&self, from: Address, id: TransactionId, ballot: Ballot, outbox: &mut OutboxOf<Self>) -> bool {
        if self.ir.status() != Status::Normal || !matches!(from, Address::Replica(_)) {
            return false;
        }
        let promised = self.participant.promised(id);
        if ballot < promised {
            self.send_superseded(from, id, promised, outbox);
        } else if !promised.may_follow(ballot) {
            // Nobody could outbid it.
            outbox.ignored(reasons::BALLOT);
        }
        ballot >= promised && promised.may_follow(ballot)
    }

    /// A backup coordinator wants to take a transaction over.
    pub(super) fn on_coordinator_change(
        &mut self,
        from: Address,
        transaction: TransactionId,
        ballot: Ballot,
        timestamp: Timestamp,
        outbox: &mut OutboxOf<Self>,
    ) {
        if !self.follows(from, transaction, ballot, outbox) {
            return;
        }
        // The promise is given all the same: a prepare above the floor may still be under way.
        let is_settled = self.ir.is_settled(transaction, timestamp);
        let decision = self.decision(transaction);
        let outcome = decision.map(outcome_of);
        let committed = match decision {
            Some(Decision::Commit { transaction, .. }) => Some(transaction.clone()),
            Some(Decision::Abort { .. }) | None => None,
        };
        let settled = self.ir.record().inconsistent(transaction).is_some_and(|known| known.executed);
        if !settled && let Some(promise) = self.participant.promise(transaction, ballot) {
            outbox.persist(Record::Promised { transaction, promise });
        }
        let known = self.participant.promised(transaction);
        assert!(
            settled || known >= ballot,
            "{known} is promised to the coordinator {ballot} of {transaction}"
        );
        let votes = self.recorded_votes(transaction);
        let accepted = self.participant.promises.get(&transaction).and_then(|promise| promise.accepted);
        let view = self.ir.view();
        outbox.send(
            from,
            Message::CoordinatorChangeReply {
                transaction,
                ballot,
                view,
                outcome,
                committed,
                votes,
                accepted,
                settled: is_settled,
            },
        );
    }

    fn recorded_votes(&self, transaction: TransactionId) -> Vec<RecordedVote> {
        let held = self.participant.prepared.entry(transaction);
        self.ir
            .record()
            .consensus_of(transaction)
            .map(|entry| RecordedVote {
                number: entry.number,
                prepare: entry.operation.clone(),
                vote: entry.verdict,
                finalized: match entry.state {
                    State::Tentative => None,
                    State::Finalized(ballot) => Some(ballot),
                },
                held: held.is_some_and(|held| held.timestamp == entry.operation.timestamp),
            })
            .collect()
    }

    /// A backup coordinator records the outcome at its shard before it tells anybody.
    pub(super) fn on_record_outcome(
        &mut self,
        from: Address,
        transaction: TransactionId,
        ballot: Ballot,
        outcome: Outcome,
        outbox: &mut OutboxOf<Self>,
    ) {
        if !self.follows(from, transaction, ballot, outbox) {
            return;
        }
        if self.decision(transaction).is_some_and(|decision| outcome_of(decision) != outcome) {
            // A later backup coordinator has settled it otherwise, and the promise that fenced off this one has ended with
            // the outcome. To agree would make two outcomes of one; when it asks again it learns the right one.
            self.send_superseded(from, transaction, ballot.above(), outbox);
            return;
        }
        let settled = self.ir.record().inconsistent(transaction).is_some_and(|known| known.executed);
        if !settled {
            let promise = self.participant.promises.get_mut(&transaction);
            let Some(promise) = promise.filter(|promise| promise.ballot == ballot) else {
                // This replica has not promised anything to it, or has known the outcome since, whatever it was, and
                // collected it together with the promise. Elected once more, the coordinator learns which.
                return;
            };
            assert!(
                promise.accepted.is_none_or(|(earlier, other)| earlier < ballot || other == outcome),
                "{outcome:?} of {transaction} is accepted from {ballot} beside {:?}",
                promise.accepted
            );
            promise.accepted = Some((ballot, outcome));
            outbox.persist(Record::Promised { transaction, promise: *promise });
        }
        outbox.send(from, Message::RecordOutcomeReply { transaction, ballot, view: self.ir.view() });
    }

    /// Drops promises that no longer fence anybody off: the record tells nothing of the transaction, and whatever may have
    /// been proposed of it before the promise was seen here lies below the floor, where it is refused.
    ///
    /// All promises are looked at. A promise is kept for the span of retries at least, so a few times in that are enough.
    pub(super) fn collect_promises(&mut self, context: &Context<'_>) {
        if context.now < self.next_collection {
            return;
        }
        self.next_collection = context.now + self.config.retry_span / COLLECTIONS_IN_SPAN;
        let (floor, record) = (self.ir.floor(), self.ir.record());
        let span = self.config.retry_span.as_micros() as u64;
        let micros = self.timestamp_max(context.clock).saturating_add(span);
        let last = Timestamp { micros, client: ClientId(u64::MAX) };
        let Participant { promises, fading, .. } = &mut self.participant;
        promises.retain(|id, promise| match fading.get(id) {
            Some((ballot, last)) if *ballot == promise.ballot => *last >= floor || record.holds(*id),
            _ => {
                fading.insert(*id, (promise.ballot, last));
                true
            }
        });
        fading.retain(|id, _| promises.contains_key(id));
        assert!(fading.len() <= promises.len(), "{} of {} promises fade", fading.len(), promises.len());
    }
}
