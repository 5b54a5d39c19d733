//! How inconsistent replication sends and persists through the replica's machine.

use std::time::Duration;

use quorate_core::machine::OutboxOf;
use quorate_core::{Address, Random, ReplicaId, ReplicaIndex, ShardId, View};
use quorate_ir::{Fact, Host};

use super::participant::Participant;
use super::{Replica, ReplicaEvent, ReplicaTimer};
use crate::message::{Message, Tapir};
use crate::record::Record;
use crate::rules::Plant;

/// What the replica lends to inconsistent replication for one call.
pub(super) struct Desk<'a> {
    pub(super) shard: ShardId,
    pub(super) participant: &'a mut Participant,
    pub(super) random: &'a mut Random,
    pub(super) outbox: &'a mut OutboxOf<Replica>,
}

impl Host<Tapir> for Desk<'_> {
    type Protocol = Participant;

    fn protocol(&mut self) -> &mut Participant {
        self.participant
    }

    fn send(&mut self, to: Address, message: quorate_ir::Message<Tapir>) {
        let votes = matches!(message, quorate_ir::Message::ConsensusReply { .. });
        if votes && self.participant.rules.has(Plant::VoteBeforeSync) {
            self.outbox.send_unordered(to, Message::Ir(message));
        } else {
            self.outbox.send(to, Message::Ir(message));
        }
    }

    fn send_to_replica(&mut self, to: ReplicaIndex, message: quorate_ir::Message<Tapir>) {
        self.outbox.send(ReplicaId { shard: self.shard, index: to }, Message::Ir(message));
    }

    fn persist(&mut self, fact: Fact<Tapir>) {
        self.outbox.persist(match fact {
            Fact::ViewEntered(view) => Record::ViewEntered { view },
            Fact::LifeNoted { replica, life } => Record::LifeNoted { replica, life },
            Fact::ConsensusRecorded { id, operation, verdict } => {
                Record::Voted { id, prepare: operation, vote: verdict }
            }
            Fact::ConsensusFinalized { id, verdict, ballot } => {
                Record::VoteFinalized { id, vote: verdict, ballot }
            }
            Fact::InconsistentRecorded { transaction, operation, executed } => {
                Record::Decided { transaction, decision: operation, executed }
            }
            Fact::InconsistentExecuted(transaction) => Record::DecisionExecuted { transaction },
            Fact::ViewPage { view, page } => Record::ViewPage { view, page },
            Fact::ViewState { view, state } => Record::ViewState { view, state },
            Fact::ViewInstalled { view, since, supplement, floor } => {
                Record::ViewInstalled { view, since, supplement, floor }
            }
            Fact::SnapshotBegun { view, lineage, floor, complete, lives } => {
                Record::SnapshotBegun { view, lineage, floor, complete, lives }
            }
            Fact::SnapshotPage(state) => Record::SnapshotPage { state },
            Fact::SnapshotEnded { floor } => Record::SnapshotEnded { floor },
            Fact::Completed(below) => Record::Completed { below },
            Fact::FloorRaised(floor) => Record::FloorRaised { floor },
        });
    }

    fn anchor(&mut self) {
        self.outbox.anchor();
    }

    fn truncate(&mut self) {
        self.outbox.truncate();
    }

    fn set_view_change_timer(&mut self, after: Duration) {
        self.outbox.set_timer(ReplicaTimer::ViewChange, after);
    }

    fn cancel_view_change_timer(&mut self) {
        self.outbox.cancel_timer(ReplicaTimer::ViewChange);
    }

    fn on_installing(&mut self) {
        self.participant.enter_view();
    }

    fn on_normal(&mut self, view: View) {
        self.outbox.emit(ReplicaEvent::Normal { view });
    }

    fn on_view_changing(&mut self, view: View) {
        self.outbox.emit(ReplicaEvent::ViewChanging { view });
    }

    fn on_retired(&mut self) {
        self.outbox.emit(ReplicaEvent::Retired);
    }

    fn on_lost(&mut self, lost: usize) {
        self.outbox.emit(ReplicaEvent::Lost { lost });
    }

    fn nonce(&mut self) -> u64 {
        self.random.next_u64()
    }

    fn ignored(&mut self, reason: &'static str) {
        self.outbox.ignored(reason);
    }
}
