//! The acts of a member's replica in one call.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use quorate_core::log::{LogMachine, Position};
use quorate_core::machine::{Context, OutboxOf, PersistToken};
use quorate_core::{ClockTime, Instant, ReplicaId, ReplicaIndex, View};

use super::{ItemOf, LogEvent, Member, Part, Told};
use crate::{Durable, Fact, Host, Message, Timer};

/// The notices that become durable with records of which the disk will tell.
#[derive(Debug, Default)]
pub(super) struct Notices {
    last: u64,
    awaited: BTreeMap<u64, Durable>,
}

impl Notices {
    fn await_durable(&mut self, durable: Durable) -> PersistToken {
        self.last += 1;
        let latest = self.awaited.last_key_value().map(|(_, latest)| *latest);
        assert!(latest <= Some(durable), "{durable:?} becomes durable behind {latest:?}");
        self.awaited.insert(self.last, durable);
        PersistToken(self.last)
    }

    /// The disk has told of a record.
    pub(super) fn take(&mut self, token: u64) -> Option<Durable> {
        self.awaited.remove(&token)
    }
}

/// The host of the replica, within one call.
pub(super) struct Acts<'a, 'b, M: LogMachine> {
    pub(super) context: &'a mut Context<'b>,
    pub(super) outbox: &'a mut OutboxOf<Member<M>>,
    /// The reading of the replica's own clock.
    pub(super) clock: ClockTime,
    pub(super) me: ReplicaId,
    pub(super) machine: &'a M,
    pub(super) told: &'a mut VecDeque<Told<M>>,
    pub(super) notices: &'a mut Notices,
}

impl<M: LogMachine> Acts<'_, '_, M> {
    fn address(&self, index: ReplicaIndex) -> ReplicaId {
        ReplicaId { shard: self.me.shard, index }
    }
}

impl<M: LogMachine> Host<ItemOf<M>> for Acts<'_, '_, M> {
    fn now(&self) -> Instant {
        self.context.now
    }

    fn clock(&self) -> ClockTime {
        self.clock
    }

    fn send(&mut self, to: ReplicaIndex, message: Message<ItemOf<M>>) {
        self.outbox.send(self.address(to), Part::Log(message));
    }

    fn send_unordered(&mut self, to: ReplicaIndex, message: Message<ItemOf<M>>) {
        self.outbox.send_unordered(self.address(to), Part::Log(message));
    }

    fn persist(&mut self, fact: Fact<ItemOf<M>>) {
        self.outbox.persist(fact);
    }

    fn persist_and_notify(&mut self, fact: Fact<ItemOf<M>>, durable: Durable) {
        let token = self.notices.await_durable(durable);
        self.outbox.persist_and_notify(fact, token);
    }

    fn anchor(&mut self) {
        self.outbox.anchor();
    }

    fn truncate(&mut self) {
        self.outbox.truncate();
    }

    fn set_timer(&mut self, timer: Timer, after: Duration) {
        self.outbox.set_timer(Part::Log(timer), after);
    }

    fn cancel_timer(&mut self, timer: Timer) {
        self.outbox.cancel_timer(Part::Log(timer));
    }

    fn on_stable(&mut self, position: Position, payload: &ItemOf<M>) {
        self.told.push_back(Told::Stable(position, payload.clone()));
    }

    fn freeze(&mut self) -> M::Frozen {
        // The log takes it for what everything that it has told has led to.
        assert!(self.told.is_empty(), "a state is frozen before the machine has been given all");
        self.machine.freeze()
    }

    fn next_page(&mut self, state: &mut M::Frozen) -> Option<M::Page> {
        M::next_page(state)
    }

    fn replace_state(&mut self, base: Position, pages: Vec<M::Page>) {
        self.told.push_back(Told::State(base, pages));
    }

    fn nonce(&mut self) -> u64 {
        self.context.random.next_u64()
    }

    fn ignored(&mut self, reason: &'static str) {
        self.outbox.ignored(reason);
    }

    fn on_leading(&mut self, view: View) {
        self.told.push_back(Told::Leading(view));
    }

    fn on_deposed(&mut self) {
        self.told.push_back(Told::Deposed);
    }

    fn on_handed_over(&mut self) {
        self.outbox.emit(Part::Log(LogEvent::HandedOver));
    }
}
