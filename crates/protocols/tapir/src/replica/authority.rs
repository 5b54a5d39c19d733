//! The authority of clients: what a replica takes from one.
//!
//! A client that coordinates a transaction is trusted with that transaction: it can forge its outcome, so that untrusted clients
//! come through a gateway; and with what it says it has read, which may be served to others as a stale read. It is trusted
//! with nothing else. Only the client that began a transaction, and replicas that
//! settle it, may prepare or decide it or make a vote on it final; ballots above the first belong to replicas; and what is
//! prepared or committed must be such that the rest of the cluster can settle it and live with it: it belongs to this
//! shard, its participants exist, and its timestamp does not keep everybody else off its keys for ages.

use quorate_core::hosted::Shards;
use quorate_core::transaction::TRANSACTION_ENTRIES_MAX;
use quorate_core::{Ballot, ClientId, ClockTime, Key, ShardId, Timestamp, Transaction};
use quorate_ir::{Message as Ir, OperationId};

use super::Replica;
use crate::message::{Decision, Tapir};
use crate::recovery::valid_participants;

/// True if these can be the participants of a transaction of this keyspace, as far as that is known.
pub(super) fn are_participants(shards: Option<Shards>, participants: &[ShardId]) -> bool {
    valid_participants(participants)
        && shards.is_none_or(|shards| participants.iter().all(|shard| shards.contains(*shard)))
}

/// True if this can be the part of a transaction that concerns a shard.
fn is_part(shards: Option<Shards>, shard: ShardId, transaction: &Transaction) -> bool {
    let holds = |key: &[u8]| shards.is_none_or(|shards| shards.holds(shard, key));
    are_participants(shards, &transaction.participants)
        && transaction.participants.binary_search(&shard).is_ok()
        && transaction.reads.iter().all(|read| holds(&read.key))
        && transaction.writes.iter().all(|write| holds(&write.key))
}

impl Replica {
    /// True if a client may say this.
    pub(super) fn may_say(&self, client: ClientId, message: &Ir<Tapir>, clock: ClockTime) -> bool {
        let (shards, shard) = (self.config.shards, self.config.replica.shard);
        let owns = |id: &OperationId| id.transaction.client == client;
        match message {
            Ir::ProposeConsensus { id, operation } => {
                owns(id)
                    && id.number != OperationId::INCONSISTENT
                    && operation.timestamp.client == client
                    && is_part(shards, shard, &operation.transaction)
            }
            Ir::ProposeInconsistent { id, operation: Decision::Abort { last } } => {
                owns(id) && (last.micros <= self.timestamp_max(clock) || self.has_voted(id, *last))
            }
            Ir::ProposeInconsistent { id, operation: Decision::Commit { transaction, timestamp, last } } => {
                let last = *last.max(timestamp);
                owns(id)
                    && timestamp.client == client
                    && is_part(shards, shard, transaction)
                    && (last.micros <= self.timestamp_max(clock) || self.has_voted(id, last))
            }
            Ir::FinalizeInconsistent { id } => owns(id),
            Ir::FinalizeConsensus { id, ballot, .. } => owns(id) && *ballot == Ballot::ORIGINAL,
            // A hint, and taken as one.
            Ir::HigherView { .. } => true,
            // Messages of replicas alone; they are looked at nowhere.
            Ir::InconsistentReply { .. }
            | Ir::ConsensusReply { .. }
            | Ir::Confirm { .. }
            | Ir::StartViewChange { .. }
            | Ir::DoViewChange { .. }
            | Ir::StartView { .. }
            | Ir::PartsMissing { .. }
            | Ir::StateWanted { .. }
            | Ir::StatePage { .. }
            | Ir::Arrived
            | Ir::ViewQuery { .. }
            | Ir::ViewQueryReply { .. } => false,
        }
    }

    /// True if these are so many keys as a transaction can have at most, all of this shard.
    pub(super) fn are_own_keys<'a>(&self, keys: impl ExactSizeIterator<Item = &'a Key>) -> bool {
        let shard = self.config.replica.shard;
        keys.len() <= TRANSACTION_ENTRIES_MAX
            && self.config.shards.is_none_or(|shards| keys.into_iter().all(|key| shards.holds(shard, key)))
    }

    /// The greatest timestamp that is not too far ahead of this replica's clock.
    pub(super) fn timestamp_max(&self, clock: ClockTime) -> u64 {
        clock.saturating_add(self.config.timestamp_ahead_max).as_micros()
    }

    /// True if this replica has voted on the transaction at this timestamp, or knows its outcome: then its clock has been
    /// asked already, or does not matter any more.
    fn has_voted(&self, id: &OperationId, timestamp: Timestamp) -> bool {
        let record = self.ir.record();
        let mut votes = record.consensus_of(id.transaction);
        record.inconsistent(id.transaction).is_some()
            || votes.any(|entry| entry.operation.timestamp == timestamp)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quorate_core::hosted::Boot;
    use quorate_core::{
        Address, Context, Epoch, GroupSize, Input, Instant, Machine, Outbox, Random, ReadVersion, ReplicaId,
        ReplicaIndex, TransactionId, View, Write,
    };

    use super::*;
    use crate::ReplicaConfig;
    use crate::message::{Message, Prepare, Vote};

    const CLIENT: ClientId = ClientId(7);
    const CLOCK: ClockTime = ClockTime::from_micros(1_000);

    fn id(client: ClientId, number: u32) -> OperationId {
        OperationId { transaction: TransactionId { client, sequence: 1, attempt: 0 }, number }
    }

    fn at(client: ClientId, micros: u64) -> Timestamp {
        Timestamp { micros, client }
    }

    fn part_of(shard: u32) -> Arc<Transaction> {
        Arc::new(Transaction { participants: vec![ShardId(shard)], ..Transaction::default() })
    }

    fn prepare(id: OperationId, timestamp: Timestamp, shard: u32) -> Ir<Tapir> {
        let operation = Prepare { transaction: part_of(shard), timestamp, first: None };
        Ir::ProposeConsensus { id, operation }
    }

    fn commit(id: OperationId, timestamp: Timestamp, last: Timestamp, shard: u32) -> Ir<Tapir> {
        let operation = Decision::Commit { transaction: part_of(shard), timestamp, last };
        Ir::ProposeInconsistent { id, operation }
    }

    fn abort(id: OperationId, last: Timestamp) -> Ir<Tapir> {
        Ir::ProposeInconsistent { id, operation: Decision::Abort { last } }
    }

    fn replica() -> Replica {
        let id = ReplicaId { shard: ShardId(1), index: ReplicaIndex(0) };
        Replica::restore(ReplicaConfig::new(id, GroupSize::new(3).unwrap(), Boot::Initialise), [])
    }

    #[test]
    fn a_client_speaks_of_its_own_transactions_at_its_own_timestamps() {
        const OTHER: ClientId = ClientId(8);
        let (own, others, decided) = (id(CLIENT, 1), id(OTHER, 1), id(CLIENT, OperationId::INCONSISTENT));
        let (good, foreign) = (at(CLIENT, 900), at(OTHER, 900));
        let others_decided = id(OTHER, OperationId::INCONSISTENT);
        let finalize = |id, ballot| Ir::FinalizeConsensus { id, verdict: Vote::Ok, view: View(0), ballot };
        let table = [
            (prepare(own, good, 1), true),
            (prepare(others, good, 1), false),
            (prepare(decided, good, 1), false),
            (prepare(own, foreign, 1), false),
            (prepare(own, good, 2), false),
            (prepare(others, foreign, 1), false),
            (commit(decided, good, good, 1), true),
            (commit(others_decided, good, good, 1), false),
            (commit(decided, foreign, good, 1), false),
            (commit(decided, good, good, 2), false),
            (abort(decided, good), true),
            (abort(others_decided, good), false),
            (Ir::FinalizeInconsistent { id: decided }, true),
            (Ir::FinalizeInconsistent { id: others_decided }, false),
            (finalize(own, Ballot::ORIGINAL), true),
            (finalize(others, Ballot::ORIGINAL), false),
            (finalize(own, Ballot(3)), false),
            (Ir::Arrived, false),
        ];
        let replica = replica();
        for (message, expected) in table {
            assert_eq!(replica.may_say(CLIENT, &message, CLOCK), expected, "{message:?}");
        }
    }

    #[test]
    fn a_decision_far_ahead_of_the_clock_is_taken_where_this_replica_has_voted_so() {
        let mut replica = replica();
        let decided = id(CLIENT, OperationId::INCONSISTENT);
        let far = at(CLIENT, replica.timestamp_max(CLOCK) + 1);
        let near = at(CLIENT, replica.timestamp_max(CLOCK));
        let says = |replica: &Replica| {
            [
                abort(decided, near),
                abort(decided, far),
                commit(decided, far, near, 1),
                commit(decided, near, far, 1),
            ]
            .map(|message| replica.may_say(CLIENT, &message, CLOCK))
        };
        assert_eq!(says(&replica), [true, false, false, false]);
        // A vote on it at an earlier time of the clock, which has been turned back since.
        let (mut random, mut outbox) = (Random::new(1), Outbox::new());
        let clock = ClockTime::from_micros(far.micros);
        let mut context = Context { now: Instant::START, clock, random: &mut random };
        replica.step(&mut context, Input::Start, &mut outbox);
        let message = Message::Ir(prepare(id(CLIENT, 1), far, 1));
        let input = Input::Message { from: Address::Client(CLIENT), epoch: Epoch::FIRST, message };
        replica.step(&mut context, input, &mut outbox);
        assert_eq!(says(&replica), [true; 4]);
        let further = abort(decided, at(CLIENT, far.micros + 1));
        assert!(!replica.may_say(CLIENT, &further, CLOCK), "it has voted at another timestamp");
    }

    #[test]
    fn a_part_names_its_own_shard_and_only_shards_that_exist() {
        let shards = Some(Shards { first: ShardId(7), count: 2 });
        let part = |participants: &[u32]| Transaction {
            participants: participants.iter().map(|shard| ShardId(*shard)).collect(),
            ..Transaction::default()
        };
        let table: [(&[u32], bool); 8] = [
            (&[7], true),
            (&[7, 8], true),
            (&[8], false),
            (&[], false),
            (&[8, 7], false),
            (&[7, 7], false),
            (&[7, 9], false),
            (&[6, 7], false),
        ];
        for (participants, expected) in table {
            assert_eq!(is_part(shards, ShardId(7), &part(participants)), expected, "{participants:?}");
        }
        assert!(is_part(None, ShardId(7), &part(&[7, 900])), "nothing is known of other shards");
    }

    #[test]
    fn a_part_holds_only_keys_of_its_shard() {
        let shards = Shards { first: ShardId(7), count: 2 };
        for name in 0..20_u8 {
            let key = Key::copy_from_slice(&[name]);
            let transaction = Transaction {
                writes: vec![Write { key: key.clone(), value: None }],
                participants: vec![ShardId(7), ShardId(8)],
                ..Transaction::default()
            };
            let homes = [7, 8].map(|shard| is_part(Some(shards), ShardId(shard), &transaction));
            assert_ne!(homes[0], homes[1], "{key:?} belongs to one shard");
            let read = ReadVersion { key: key.clone(), version: Timestamp::ZERO, deleted: false };
            let reads = Transaction { reads: vec![read], writes: Vec::new(), ..transaction };
            let read_at = [7, 8].map(|shard| is_part(Some(shards), ShardId(shard), &reads));
            assert_eq!(read_at, homes, "{key:?} is read where it is written");
        }
    }
}
