//! Transactions that may be forgotten, so that memory does not grow with the number of those that have ended.
//!
//! The *floor* of a shard stands in its log: a transaction that is proposed below is refused without a trace, and versions
//! below that are not the newest there are collected. It stays behind the clock, and below everything that is prepared.
//!
//! An outcome may be forgotten once nobody can need it: its transaction lies below the floor of *every* shard that took part,
//! so that it is prepared at none of them and never will be. Leaders ask each other for their floors.

use quorate_core::log::Log;
use quorate_core::{Address, ClientId, Context, ReplicaId, Timestamp};

use super::{Out, Replica};
use crate::entry::Entry;
use crate::message::Message;
use crate::rules::Plant;

impl Replica {
    /// Looks for a new floor from time to time.
    pub(super) fn attend_floor(
        &mut self,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(leader) = &mut self.leader else { return };
        if leader.next_floor.is_some() || context.now < leader.floor_due {
            return;
        }
        leader.floor_due = context.now + self.config.floor_interval;
        leader.floor_round += 1;
        for shard in leader.neighbours.keys().copied().filter(|shard| *shard != self.config.replica.shard) {
            let index = self.config.groups.members(shard).at(leader.floor_round);
            outbox.send(ReplicaId { shard, index }, Message::AskFloor);
        }
        let (floor, forgotten) = (self.next_floor(context), self.next_forgotten());
        let is_higher = floor > self.state.floor || forgotten > self.state.forgotten;
        if let Some(leader) = &mut self.leader
            && is_higher
        {
            leader.next_floor = log.append(Entry::Floor { floor, forgotten }).map(|_| floor);
        }
    }

    /// Behind the clock, and not above what is prepared or may become so.
    fn next_floor(&self, context: &Context<'_>) -> Timestamp {
        let lag = self.config.floor_lag.as_micros() as u64;
        let behind = Timestamp { micros: context.clock.as_micros().saturating_sub(lag), client: ClientId(0) };
        let in_flight = self
            .leader
            .iter()
            .flat_map(|leader| leader.in_flight_proposals.values().map(|(proposal, _)| proposal));
        let held = self.state.proposals.values().chain(in_flight).map(|proposal| proposal.proposed).min();
        held.map_or(behind, |held| behind.min(held)).max(self.state.floor)
    }

    /// Not above the floor of any shard that took part in what is remembered here.
    fn next_forgotten(&self) -> Timestamp {
        if self.config.rules.has(Plant::ForgottenTooEarly) {
            return self.state.floor;
        }
        let own = self.config.replica.shard;
        let floors = self.leader.iter().flat_map(|leader| &leader.neighbours);
        let floors = floors.filter(|(shard, _)| **shard != own).map(|(_, floor)| *floor);
        floors.fold(self.state.floor, Timestamp::min).max(self.state.forgotten)
    }

    pub(super) fn on_ask_floor_reply(&mut self, from: Address, floor: Timestamp) {
        let (Address::Replica(replica), Some(leader)) = (from, &mut self.leader) else { return };
        if let Some(known) = leader.neighbours.get_mut(&replica.shard) {
            *known = (*known).max(floor);
        }
    }

    /// FLOOR is stable, and has been followed.
    pub(super) fn on_floor(&mut self) {
        if let Some(leader) = &mut self.leader {
            leader.next_floor = None;
        }
    }
}
