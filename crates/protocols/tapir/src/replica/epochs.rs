//! Going on with other replicas: epochs of the keyspace, and what becomes of what was under way when one ends.
//!
//! The handover of a group's knowledge is told in [`quorate_ir::replica`]. Beside it:
//!
//! * *A request that waits*, for the time of a prepare or for a turn to read, is forgotten as in any view change, and its sender asks again. The
//!   replicas of a shard that goes on as it is keep them waiting.
//! * *Recoveries* that this replica leads are given up: what it has been told of other shards was told by replicas that need not
//!   be members any more. The machine that asked asks again, and the ballot will be a greater one: those of different replicas never
//!   meet, in whatever epoch they were used.
//! * *Acknowledgements* that wait for others are never said, as in any view change.
//! * *A search for a floor* is given up. Its findings, and what it made replicas promise, are handed over: that they
//!   refuse new prepares, that they are complete, and their floors.
//! * *Promises* to backup coordinators and to readers are handed over with the record, by f + 1 of those before, and bind every
//!   member from its first view on.

use quorate_core::machine::OutboxOf;
use quorate_core::{Context, Epoch, Groups, ReplicaId, ShardId, TransactionId};
use quorate_ir::{Member, Postponed};

use super::Replica;
use crate::record::Record;
use crate::recovery::backup_replica;
use crate::rules::Plant;

impl Replica {
    /// The replicas of the keyspace, as far as is known here.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// The epoch since which the members of its group are as they are, if this replica is one of them and has taken part in a
    /// view of theirs.
    pub fn arrived_since(&self) -> Option<Epoch> {
        (self.ir.is_member() && self.ir.has_arrived()).then(|| self.ir.since())
    }

    /// The epoch has ended.
    pub(super) fn on_change_groups(
        &mut self,
        groups: Groups,
        context: &mut Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) {
        if groups.epoch <= self.groups.epoch {
            return;
        }
        self.groups = groups;
        self.write_epoch(outbox);
        self.recoveries.enter_epoch(self.groups.clone());
        self.member.give_up_search();
        self.asked.clear();
        // It was asked under the membership before.
        self.postponed = Postponed::default();
        self.acknowledgements.forget();
        let succession = self.groups.succession(self.config.replica.shard);
        if succession.present.since > self.ir.since() {
            self.with_desk(context.random, outbox, |ir, desk| ir.enter_epoch(succession, desk));
        }
        assert!(
            self.ir.since() == succession.present.since,
            "the group is as it is since {:?}, and to its replica since {:?}",
            succession.present.since,
            self.ir.since()
        );
        assert!(!self.member.is_searching(), "a floor is searched for that was begun in another epoch");
    }

    /// Before anything is said under the epoch: nothing that was said under an earlier one counts here any more.
    pub(super) fn write_epoch(&mut self, outbox: &mut OutboxOf<Self>) {
        if self.groups.epoch > Epoch::FIRST && !self.config.rules.has(Plant::EpochForgotten) {
            self.recorded_epoch = self.groups.epoch;
            outbox.persist(Record::EpochEntered { groups: self.groups.clone() });
        }
    }

    /// Takes back, while the machine is rebuilt, which epoch it had gone on to.
    pub(super) fn restore_epoch(&mut self, groups: Groups) {
        self.recorded_epoch = groups.epoch;
        if groups.epoch > self.groups.epoch {
            self.recoveries.enter_epoch(groups.clone());
            self.ir.set_succession(groups.succession(self.config.replica.shard));
            self.groups = groups;
        }
        assert!(
            self.recorded_epoch <= self.groups.epoch,
            "{:?} was entered, and the replica begins in {:?}",
            self.recorded_epoch,
            self.groups.epoch
        );
    }

    /// The backup coordinator to ask at the `attempt`-th time.
    pub(super) fn backup_replica(
        &self,
        id: TransactionId,
        participants: &[ShardId],
        attempt: u64,
    ) -> Option<ReplicaId> {
        backup_replica(id, participants, |shard| self.groups.members(shard), attempt)
    }
}
