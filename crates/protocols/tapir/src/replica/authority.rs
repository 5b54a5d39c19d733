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
    use quorate_core::{ReadVersion, Write};

    use super::*;

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
