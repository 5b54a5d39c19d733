//! How inconsistent replication sends and persists through the replica's machine.

use std::time::Duration;

use quorate_core::machine::OutboxOf;
use quorate_core::{Address, Random, ReplicaId, ReplicaIndex, ShardId, View};
use quorate_ir::{Fact, Host};

use super::store::Store;
use super::{Replica, ReplicaEvent, ReplicaTimer};
use crate::message::{Message, QwStore};
use crate::record::Record;
use crate::rules::{Plant, Rules};

/// What the replica lends to inconsistent replication for one call.
pub(super) struct Desk<'a> {
    pub(super) shard: ShardId,
    pub(super) rules: Rules,
    pub(super) store: &'a mut Store,
    pub(super) random: &'a mut Random,
    pub(super) outbox: &'a mut OutboxOf<Replica>,
}

impl Host<QwStore> for Desk<'_> {
    type Protocol = Store;

    fn protocol(&mut self) -> &mut Store {
        self.store
    }

    fn send(&mut self, to: Address, message: quorate_ir::Message<QwStore>) {
        let replies = matches!(message, quorate_ir::Message::InconsistentReply { .. });
        if replies && self.rules.has(Plant::ReplyBeforeSync) {
            self.outbox.send_unordered(to, Message::Ir(message));
        } else {
            self.outbox.send(to, Message::Ir(message));
        }
    }

    fn send_to_replica(&mut self, to: ReplicaIndex, message: quorate_ir::Message<QwStore>) {
        self.outbox.send(ReplicaId { shard: self.shard, index: to }, Message::Ir(message));
    }

    fn persist(&mut self, fact: Fact<QwStore>) {
        self.outbox.persist(match fact {
            Fact::ViewEntered(view) => Record::ViewEntered { view },
            Fact::LifeNoted { replica, life } => Record::LifeNoted { replica, life },
            Fact::ConsensusRecorded { operation, .. } => match operation {},
            Fact::ConsensusFinalized { verdict, .. } => match verdict {},
            Fact::InconsistentRecorded { transaction, operation, .. } => {
                Record::PutRecorded { put: transaction, operation }
            }
            Fact::InconsistentExecuted(put) => {
                unreachable!("{put} has taken effect when it was recorded, as every put does")
            }
            Fact::ViewPage { view, page } => Record::ViewPage { view, page },
            Fact::ViewState { view, state } => Record::ViewState { view, state },
            Fact::ViewInstalled { view, since, supplement, floor } => {
                Record::ViewInstalled { view, since, supplement, floor }
            }
            Fact::SnapshotBegun { view, lineage, floor, complete, lives } => {
                let supplement = quorate_ir::Upcalls::contribution(self.store);
                Record::SnapshotBegun { view, lineage, floor, complete, supplement, lives }
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

    fn on_installing(&mut self) {}

    fn on_normal(&mut self, view: View) {
        self.outbox.emit(ReplicaEvent::Normal { view });
    }

    fn on_view_changing(&mut self, view: View) {
        self.outbox.emit(ReplicaEvent::ViewChanging { view });
    }

    /// Its groups never change.
    fn on_retired(&mut self) {}

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
