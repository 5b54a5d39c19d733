//! Transactions that run in one round as the client has named them: what they do is opaque here.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_coordinator::clock_since;
use quorate_core::command::{Failure, Invalid};
use quorate_core::{ClockTime, Context, Input, KeyspaceId, ShardId, TransactionId, Value};
use quorate_granola::coordinator::Command as Order;
use quorate_granola::{Answer, Class, Failure as Refused};

use crate::coordinator::{Asked, Interactive, OneRound, OneRoundResult, Out, committed};
use quorate_core::command::{Event, Executed, NotExecuted};

impl Interactive {
    pub(crate) fn on_execute(
        &mut self,
        id: TransactionId,
        keyspace: KeyspaceId,
        (parts, class): (BTreeMap<ShardId, Value>, Class),
        (not_before, patience): (ClockTime, Duration),
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let clock = match self.validate_parts(id, keyspace, &parts) {
            // A request that is as old as another attempt could be taken for one that came too late.
            Ok(()) => clock_since(not_before, context.clock).ok_or(Failure::Conflict.into()),
            Err(refused) => Err(refused),
        };
        let clock = match clock {
            Ok(clock) => clock,
            Err(refused) => return finish(outbox, id, Err(refused)),
        };
        let asked = Asked::Execute(parts.keys().copied().collect(), class);
        let mut context = Context { now: context.now, clock, random: &mut *context.random };
        self.execute(id, asked, OneRound { parts, class, patience }, &mut context, outbox);
    }

    /// Nothing is sent of what cannot be.
    fn validate_parts(
        &self,
        id: TransactionId,
        keyspace: KeyspaceId,
        parts: &BTreeMap<ShardId, Value>,
    ) -> Result<(), NotExecuted> {
        let unknown = Failure::Invalid(Invalid::UnknownKeyspace(keyspace));
        let routes = self.keyspaces.get(&keyspace).ok_or(unknown)?;
        if self.is_open(id) {
            return Err(Failure::Invalid(Invalid::NotOpen(id)).into());
        }
        let is_of_keyspace = |shard: &ShardId| routes.keyspace.shards.iter().any(|known| known.id == *shard);
        let stranger = parts.keys().copied().find(|shard| !is_of_keyspace(shard));
        if parts.is_empty() || stranger.is_some() {
            return Err(NotExecuted::NoSuchShard(stranger));
        }
        Ok(())
    }

    /// The parts of a transaction are carried out, or not.
    pub(crate) fn on_executed(
        &mut self,
        id: TransactionId,
        participants: Vec<ShardId>,
        class: Class,
        result: OneRoundResult,
        outbox: &mut Out,
    ) {
        let result = match result {
            Ok(executed) => answers_of(id, executed),
            Err(Refused::Aborted(refusal)) => {
                Err(NotExecuted::Refused { shard: refusal.shard, reason: refusal.reason })
            }
            Err(refused) if class == Class::ReadOnly => {
                Err(self.failure_of_read(refused, &participants).into())
            }
            Err(refused) => Err(self.failure_of_write(id, participants, refused).into()),
        };
        finish(outbox, id, result);
    }

    pub(crate) fn on_recall(
        &mut self,
        id: TransactionId,
        participants: Vec<ShardId>,
        not_before: ClockTime,
        patience: Duration,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        if self.is_open(id) {
            return finish(outbox, id, Err(Failure::Unknown { participants }.into()));
        }
        self.ask(id, Asked::Recall(participants.clone()));
        let inquiry =
            Order::Inquire { transaction: id, participants, not_before, wants_answers: true, patience };
        self.order(Input::Command(inquiry), context, outbox);
    }

    /// The outcome of a transaction is known, or not.
    pub(crate) fn on_recalled(
        &self,
        id: TransactionId,
        participants: Vec<ShardId>,
        result: OneRoundResult,
        outbox: &mut Out,
    ) {
        let result = match result {
            Ok(executed) => {
                let is_missing = |shard: &ShardId| !executed.answers.contains_key(shard);
                let missing: Vec<ShardId> = participants.into_iter().filter(is_missing).collect();
                let timestamp = committed(id, executed.timestamp).timestamp;
                match answers_of(id, executed) {
                    Ok(_) if !missing.is_empty() => Err(NotExecuted::AnswersLost { timestamp, missing }),
                    result => result,
                }
            }
            Err(Refused::Aborted(refusal)) => {
                Err(NotExecuted::Refused { shard: refusal.shard, reason: refusal.reason })
            }
            Err(Refused::Conflict) => Err(Failure::Conflict.into()),
            Err(Refused::Lost { shard }) => Err(Failure::Invalid(Invalid::ShardLost(shard)).into()),
            Err(Refused::Forgotten) => Err(NotExecuted::Forgotten),
            Err(Refused::NoSuchShard(shard)) => Err(NotExecuted::NoSuchShard(shard)),
            Err(
                Refused::Unknown { .. }
                | Refused::ClockAhead { .. }
                | Refused::SeenAhead { .. }
                | Refused::Disagreement { .. }
                | Refused::InUse,
            ) => Err(Failure::Unknown { participants }.into()),
        };
        finish(outbox, id, result);
    }
}

/// The answers of the shards, unless one has refused its part: then all have, or the transaction only reads.
fn answers_of(id: TransactionId, executed: quorate_granola::Executed) -> Result<Executed, NotExecuted> {
    let timestamp = committed(id, executed.timestamp).timestamp;
    let mut answers = BTreeMap::new();
    for (shard, answer) in executed.answers {
        match answer {
            Answer::Done(answer) => answers.insert(shard, answer),
            Answer::Refused(reason) => return Err(NotExecuted::Refused { shard, reason }),
        };
    }
    Ok(Executed { timestamp, answers })
}

fn finish(outbox: &mut Out, transaction: TransactionId, result: Result<Executed, NotExecuted>) {
    outbox.emit(Event::Executed { transaction, result });
}
