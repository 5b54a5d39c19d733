//! Commit: if everything is as it was read, write.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_coordinator::clock_since;
use quorate_core::command::Failure;
use quorate_core::command::Invalid;
use quorate_core::{Context, ShardId, Transaction, TransactionId};
use quorate_granola::{Answer, Class, Failure as Refused};
use quorate_serializable_shard::operation::Condition;

use crate::coordinator::{Asked, Interactive, OneRound, OneRoundResult, Out, committed, finish, patience};
use crate::execution::{Execution, Scanned};
use crate::language;

impl Interactive {
    pub(crate) fn on_commit(&mut self, id: TransactionId, context: &mut Context<'_>, outbox: &mut Out) {
        let Some(execution) = self.executing.remove(&id) else {
            return finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id))));
        };
        let writes = execution.buffer.writes();
        if !writes && execution.reads < 2 {
            // A transaction that has read at once is complete by itself, and one that has read nothing can stand anywhere.
            let timestamp = execution.read_at.max(execution.began);
            return finish(outbox, id, Ok(committed(id, timestamp)));
        }
        let Some(clock) = clock_since(execution.began, context.clock).filter(|_| !execution.is_confused)
        else {
            return finish(outbox, id, Err(Failure::Conflict));
        };
        let patience = patience(execution.deadline, context.now);
        let (parts, has_conditions) = divide(execution);
        let shards: Vec<ShardId> = parts.keys().copied().collect();
        let (class, asked) = match (writes, has_conditions && parts.len() > 1) {
            (false, _) => (Class::ReadOnly, Asked::Validate(shards)),
            (true, false) => (Class::Independent, Asked::Write(shards)),
            (true, true) => (Class::Coordinated, Asked::Write(shards)),
        };
        let mut context = Context { now: context.now, clock, random: &mut *context.random };
        let order = OneRound { parts, class, patience };
        self.execute(id, asked, order, &mut context, outbox);
    }

    /// The comparisons and writes of a transaction are done, or not.
    pub(crate) fn on_written(
        &mut self,
        id: TransactionId,
        participants: Vec<ShardId>,
        result: OneRoundResult,
        outbox: &mut Out,
    ) {
        let is_refused = |answer: &Answer| matches!(answer, Answer::Refused(_));
        let result = match result {
            Ok(executed) if executed.answers.values().any(is_refused) => Err(Failure::Conflict),
            Ok(executed) => Ok(committed(id, executed.timestamp)),
            Err(refused) => Err(self.failure_of_write(id, participants, refused)),
        };
        finish(outbox, id, result);
    }

    /// Why what writes was not executed, as users are told.
    pub(crate) fn failure_of_write(
        &self,
        id: TransactionId,
        participants: Vec<ShardId>,
        refused: Refused,
    ) -> Failure {
        match refused {
            Refused::Conflict | Refused::Aborted(_) => Failure::Conflict,
            Refused::Lost { .. } => self.failure_of_read(refused, &participants),
            Refused::NoSuchShard(_) | Refused::InUse => Failure::Invalid(Invalid::NotOpen(id)),
            // Copies of the requests may be on their way. If shards have decided differently, an operator finds out.
            Refused::Unknown { .. }
            | Refused::Forgotten
            | Refused::ClockAhead { .. }
            | Refused::SeenAhead { .. }
            | Refused::Disagreement { .. } => Failure::Unknown { participants },
        }
    }

    /// The keys that a transaction has only read are as they were, all at one timestamp, or not.
    pub(crate) fn on_validated(
        &mut self,
        id: TransactionId,
        shards: &[ShardId],
        result: OneRoundResult,
        outbox: &mut Out,
    ) {
        let is_refused = |answer: &Answer| matches!(answer, Answer::Refused(_));
        let result = match result {
            Ok(executed) if executed.answers.values().any(is_refused) => Err(Failure::Conflict),
            Ok(executed) => Ok(committed(id, executed.timestamp)),
            Err(refused) => Err(self.failure_of_read(refused, shards)),
        };
        finish(outbox, id, result);
    }
}

/// Divides a transaction by shard. Says whether anything is compared.
fn divide(execution: Execution) -> (BTreeMap<ShardId, quorate_core::Value>, bool) {
    let Execution { routes, buffer, places, scanned, .. } = execution;
    let mut ranges: BTreeMap<ShardId, Vec<Condition>> = BTreeMap::new();
    for Scanned { shard, range, before, keys } in scanned {
        if !range.is_empty() {
            ranges.entry(shard).or_default().push(Condition::Unchanged { range, before, keys });
        }
    }
    let mut has_conditions = false;
    let mut part = |(shard, part): (ShardId, Arc<Transaction>)| {
        let Transaction { reads, writes, .. } = Arc::unwrap_or_clone(part);
        let mut conditions = ranges.remove(&shard).unwrap_or_default();
        for read in reads {
            conditions.push(match places.get(&(read.key.clone(), read.version)) {
                Some(version) => Condition::Version { key: read.key, version: *version },
                None => Condition::Absent { key: read.key },
            });
        }
        has_conditions |= !conditions.is_empty();
        (shard, language::compare_and_write(conditions, writes))
    };
    let parts = buffer.into_parts(&routes.keyspace).into_iter().map(&mut part).collect();
    (parts, has_conditions)
}
