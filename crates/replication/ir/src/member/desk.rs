//! How the replica of a member sends and persists.

use std::time::Duration;

use quorate_core::machine::OutboxOf;
use quorate_core::{Address, Random, ReplicaId, ReplicaIndex, ShardId, View};

use super::shortening::Shortening;
use super::{Member, MemberEvent};
use crate::{Fact, Host, Message, Operations};

/// The parts that a member lends to its replica for one call.
pub struct Desk<'a, O: Operations, M: Member<O>> {
    pub(super) shard: ShardId,
    pub(super) protocol: &'a mut M::Protocol,
    pub(super) random: &'a mut Random,
    pub(super) outbox: &'a mut OutboxOf<M>,
    pub(super) shortening: &'a mut Shortening,
}

impl<O: Operations, M: Member<O>> Host<O> for Desk<'_, O, M> {
    type Protocol = M::Protocol;

    fn protocol(&mut self) -> &mut M::Protocol {
        self.protocol
    }

    fn send(&mut self, to: Address, message: Message<O>) {
        if M::overtakes_disk(self.protocol, &message) {
            self.outbox.send_unordered(to, message.into());
        } else {
            self.outbox.send(to, message.into());
        }
    }

    fn send_to_replica(&mut self, to: ReplicaIndex, message: Message<O>) {
        self.outbox.send(ReplicaId { shard: self.shard, index: to }, message.into());
    }

    fn persist(&mut self, fact: Fact<O>) {
        self.shortening.note_bytes(fact.bytes());
        self.outbox.persist(fact.into());
    }

    fn anchor(&mut self) {
        self.outbox.anchor();
    }

    fn set_view_change_timer(&mut self, after: Duration) {
        self.outbox.set_timer(M::VIEW_CHANGE, after);
    }

    fn cancel_view_change_timer(&mut self) {
        self.outbox.cancel_timer(M::VIEW_CHANGE);
    }

    fn on_installing(&mut self) {
        M::on_installing(self.protocol);
    }

    fn on_normal(&mut self, view: View) {
        self.outbox.emit(MemberEvent::Normal { view });
    }

    fn on_view_changing(&mut self, view: View) {
        self.outbox.emit(MemberEvent::ViewChanging { view });
    }

    fn on_retired(&mut self) {
        self.outbox.emit(MemberEvent::Retired);
    }

    fn on_lost(&mut self, lost: usize) {
        self.outbox.emit(MemberEvent::Lost { lost });
    }

    fn nonce(&mut self) -> u64 {
        self.random.next_u64()
    }

    fn ignored(&mut self, reason: &'static str) {
        self.outbox.ignored(reason);
    }
}
