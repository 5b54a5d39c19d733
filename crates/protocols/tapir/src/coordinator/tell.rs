//! Telling the replicas what was decided: COMMIT or ABORT, until f + 1 of every shard hold it, and for a while longer to
//! those that have not answered, so that they are current (TAPIR paper, section 5.1.3).

use std::sync::Arc;
use std::time::Duration;

use quorate_core::command::Outcome;
use quorate_core::{
    Context, Instant, Members, ReplicaId, ReplicaIndex, ShardId, Timestamp, Transaction, TransactionId, View,
};
use quorate_ir::{InconsistentCall, OperationId};

use super::{Coordinator, Ir, Out, Phase, replicas};
use crate::message::{Decision, Message};

/// A decided transaction whose outcome is on its way.
#[derive(Debug)]
pub(super) struct Telling {
    pub(super) outcome: Outcome,
    /// The last timestamp at which the transaction was proposed.
    last: Timestamp,
    shards: Vec<Told>,
    sent_at: Instant,
    resend_after: Duration,
    resends: u32,
    /// True once every shard holds the decision, where it takes effect only then.
    finalizing: bool,
}

/// A shard and what its replicas are to be told about.
#[derive(Debug)]
pub(super) struct Share {
    pub(super) shard: ShardId,
    pub(super) transaction: Arc<Transaction>,
    /// The replicas that voted OK on the last prepare, and so have its contents.
    pub(super) prepared: Vec<ReplicaIndex>,
}

#[derive(Debug)]
struct Told {
    shard: ShardId,
    group: Members,
    transaction: Arc<Transaction>,
    recorded: InconsistentCall,
    executed: InconsistentCall,
}

impl Telling {
    /// The replicas that have not answered the last thing that they were told.
    fn missing(&self) -> impl Iterator<Item = ReplicaId> + '_ {
        self.shards.iter().flat_map(move |told| {
            let call = if self.finalizing { &told.executed } else { &told.recorded };
            call.missing().map(|index| ReplicaId { shard: told.shard, index })
        })
    }

    /// Every shard that takes part, sorted.
    pub(super) fn participants(&self) -> Vec<ShardId> {
        self.shards.iter().map(|told| told.shard).collect()
    }

    /// Sends again what has had no answer.
    fn repeat(&self, id: TransactionId, outbox: &mut Out) {
        for told in &self.shards {
            for index in told.recorded.missing() {
                let message = decision_message(id, self.outcome, self.last, &told.transaction);
                outbox.send(ReplicaId { shard: told.shard, index }, message);
            }
        }
        if self.finalizing {
            for replica in self.missing() {
                outbox.send(replica, Message::Ir(Ir::FinalizeInconsistent { id: operation_id(id) }));
            }
        }
    }

    fn is_recorded(&self) -> bool {
        self.shards.iter().all(|told| told.recorded.is_successful())
    }
}

/// COMMIT or ABORT with everything that a replica needs that has never heard of the transaction.
fn decision_message(
    id: TransactionId,
    outcome: Outcome,
    last: Timestamp,
    transaction: &Arc<Transaction>,
) -> Message {
    let operation = match outcome {
        Outcome::Aborted => Decision::Abort { last },
        Outcome::Committed(timestamp) => {
            Decision::Commit { transaction: transaction.clone(), timestamp, last: Timestamp::ZERO }
        }
    };
    Message::Ir(Ir::ProposeInconsistent { id: operation_id(id), operation })
}

fn operation_id(transaction: TransactionId) -> OperationId {
    OperationId { transaction, number: OperationId::INCONSISTENT }
}

impl Coordinator {
    pub(super) fn start_telling(
        &mut self,
        prepare: OperationId,
        outcome: Outcome,
        last: Timestamp,
        shares: Vec<Share>,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let id = prepare.transaction;
        assert!(!shares.is_empty(), "nobody is told that {id} has ended as {outcome:?}");
        let mut shards = Vec::with_capacity(shares.len());
        for Share { shard, transaction, prepared } in shares {
            // The present members, not the replicas that have voted, if there are others since.
            let group = self.groups[&shard].members;
            // Nothing waits for the answers, unless it takes effect only once they are there.
            let together = self.config.acknowledged_together && group.failures() <= 1;
            for replica in replicas(shard, group) {
                outbox.send(
                    replica,
                    match outcome {
                        Outcome::Committed(timestamp) if prepared.contains(&replica.index) => {
                            Message::CommitPrepared { id: prepare, timestamp, together }
                        }
                        _ => decision_message(id, outcome, last, &transaction),
                    },
                );
            }
            let (recorded, executed) = (InconsistentCall::new(group), InconsistentCall::new(group));
            shards.push(Told { shard, group, transaction, recorded, executed });
        }
        let telling = Telling {
            outcome,
            last,
            shards,
            sent_at: context.now,
            resend_after: self.config.resend_timeout,
            resends: 0,
            finalizing: false,
        };
        let Some(open) = self.transactions.get_mut(&id) else { return };
        open.phase = Phase::Telling(Box::new(telling));
        self.transactions.wake_at(id, context.now + self.config.resend_timeout);
    }

    fn telling(&mut self, id: TransactionId) -> Option<&mut Telling> {
        match &mut self.transactions.get_mut(&id)?.phase {
            Phase::Telling(telling) => Some(telling),
            _ => None,
        }
    }

    pub(super) fn on_decision_reply(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        view: View,
        outbox: &mut Out,
    ) {
        let Some(telling) = self.telling(id) else { return };
        let Some(told) = telling.shards.iter_mut().find(|told| told.shard == from.shard) else { return };
        told.recorded.on_reply(from.index, view);
        if telling.finalizing || !telling.is_recorded() {
            return self.forget_if_told(id);
        }
        // With f > 1 a decision takes effect only when f + 1 replicas are known to hold it.
        if telling.shards.iter().any(|told| told.group.failures() > 1) {
            telling.finalizing = true;
            for told in &telling.shards {
                for replica in replicas(told.shard, told.group) {
                    outbox.send(replica, Message::Ir(Ir::FinalizeInconsistent { id: operation_id(id) }));
                }
            }
        }
        self.forget_if_told(id);
    }

    /// Others have to know from now on.
    pub(super) fn tell_others(&mut self, id: TransactionId, outbox: &mut Out) {
        let groups = &self.groups;
        let Some(Phase::Telling(telling)) = self.transactions.get_mut(&id).map(|open| &mut open.phase) else {
            return;
        };
        for told in &mut telling.shards {
            let group = groups[&told.shard].members;
            if told.group != group {
                let (recorded, executed) = (InconsistentCall::new(group), InconsistentCall::new(group));
                (told.group, told.recorded, told.executed) = (group, recorded, executed);
                telling.finalizing = false;
            }
        }
        telling.repeat(id, outbox);
    }

    pub(super) fn on_decision_confirm(&mut self, from: ReplicaId, id: TransactionId, view: View) {
        let Some(telling) = self.telling(id) else { return };
        let Some(told) = telling.shards.iter_mut().find(|told| told.shard == from.shard) else { return };
        told.executed.on_reply(from.index, view);
        self.forget_if_told(id);
    }

    /// Forgets a transaction that all who can be expected to answer have heard of. A replica that is down learns of it
    /// when it comes back.
    fn forget_if_told(&mut self, id: TransactionId) {
        let Some(open) = self.transactions.get(&id) else { return };
        let Phase::Telling(telling) = &open.phase else { return };
        if telling.is_recorded() && !telling.missing().any(|replica| self.is_expected(replica)) {
            self.transactions.remove(&id);
        }
    }

    pub(super) fn attend_telling(
        &mut self,
        id: TransactionId,
        context: &Context<'_>,
        outbox: &mut Out,
    ) -> Option<Instant> {
        self.forget_if_told(id);
        let (resends_max, resend_timeout) = (self.config.decision_resends_max, self.config.resend_timeout);
        let abandon_at = self.transactions.get(&id)?.deadline + self.config.abandon_after;
        let telling = self.telling(id)?;
        if context.now - telling.sent_at >= telling.resend_after {
            if telling.is_recorded() && telling.resends >= resends_max {
                self.transactions.remove(&id);
                return None;
            }
            telling.resends += 1;
            assert!(
                !telling.is_recorded() || telling.resends <= resends_max,
                "the outcome of {id} is told for the {}th time, and f + 1 know it",
                telling.resends
            );
            telling.sent_at = context.now;
            telling.resend_after = (telling.resend_after * 2).min(resend_timeout * 8);
            telling.repeat(id, outbox);
        }
        Some((telling.sent_at + telling.resend_after).min(abandon_at))
    }
}
