//! Transactions that may be forgotten, so that memory does not grow with the number of those that have ended.
//!
//! The *floor* of a shard stands in its log: a transaction that was first sent below is accepted no more. It stays behind
//! the clock, and below everything that has not ended there.
//!
//! How a transaction has ended may be forgotten once nobody can need it: it lies below the floor of *every* shard that took
//! part, so that it has ended at all of them and cannot begin anew. Leaders ask each other for their floors.
//!
//! A shard with nothing to forget leaves its floor where it is, unless another shard has asked for it lately: an idle shard writes nothing.

use quorate_core::log::Log;
use quorate_core::{Address, ClockTime, Context, ReplicaId};

use super::{Out, Replica};
use crate::application::Application;
use crate::entry::{Body, Entry};
use crate::message::Message;
use crate::reasons;

impl<A: Application> Replica<A> {
    /// Looks for a new floor from time to time.
    pub(super) fn attend_floor(
        &mut self,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out<A>,
    ) {
        let Some(leader) = &mut self.leader else { return };
        if leader.next_floor.is_some() || context.now < leader.floor_due {
            return;
        }
        leader.floor_due = context.now + self.config.floor_interval;
        let remembers = self.state.ended_len() > 0;
        let is_wanted = leader.floor_wanted_until.is_some_and(|until| context.now < until);
        if !remembers && !is_wanted {
            return;
        }
        leader.floor_round += 1;
        // Else two shards with nothing to forget would ask each other for ever.
        let asked = leader.neighbours.keys().copied().filter(|_| remembers);
        for shard in asked.filter(|shard| *shard != self.config.replica.shard) {
            let index = self.config.groups.members(shard).at(leader.floor_round);
            outbox.send(ReplicaId { shard, index }, Message::AskFloor);
        }
        let (floor, forgotten) = (self.next_floor(context.clock), self.next_forgotten());
        assert!(forgotten <= floor, "{forgotten:?} is forgotten, and could begin anew above {floor:?}");
        let is_higher = floor > self.state.floor || forgotten > self.state.forgotten;
        if is_higher
            && self.append(Body::Floor { floor, forgotten }, ClockTime::default(), log)
            && let Some(leader) = &mut self.leader
        {
            leader.next_floor = Some(floor);
        }
    }

    /// Behind the clock, and not above what has not ended.
    fn next_floor(&self, clock: ClockTime) -> ClockTime {
        let lag = self.config.floor_lag.as_micros() as u64;
        let behind = ClockTime::from_micros(clock.as_micros().saturating_sub(lag));
        let pending = self.state.pending().map(|pending| pending.voted.first);
        let open = self.leader.iter().flat_map(|leader| leader.open.values().map(|open| open.first));
        pending.chain(open).fold(behind, ClockTime::min).max(self.state.floor)
    }

    /// Not above the floor of any shard that took part in what is remembered here.
    fn next_forgotten(&self) -> ClockTime {
        let own = self.config.replica.shard;
        let floors = self.leader.iter().flat_map(|leader| &leader.neighbours);
        let floors = floors.filter(|(shard, _)| **shard != own).map(|(_, floor)| *floor);
        floors.fold(self.state.floor, ClockTime::min).max(self.state.forgotten)
    }

    pub(super) fn tell_floor(&mut self, from: Address, context: &Context<'_>, outbox: &mut Out<A>) {
        // The shard that asks has something to forget, and comes to ask this replica again once it has asked each.
        let members = self.config.groups.members(self.config.replica.shard).replicas();
        let round = self.config.floor_interval * members as u32;
        if let Some(leader) = &mut self.leader {
            leader.floor_wanted_until = Some(context.now + 2 * round);
        }
        let (floor, ceiling) = (self.state.floor, self.state.ceiling);
        outbox.send(from, Message::AskFloorReply { floor, ceiling });
    }

    pub(super) fn on_ask_floor_reply(
        &mut self,
        from: Address,
        floor: ClockTime,
        ceiling: ClockTime,
        outbox: &mut Out<A>,
    ) {
        let Address::Replica(replica) = from else { return outbox.ignored(reasons::CLIENT) };
        let Some(leader) = &mut self.leader else { return outbox.ignored(reasons::NOT_LEADING) };
        leader.elsewhere = leader.elsewhere.max(ceiling);
        if let Some(known) = leader.neighbours.get_mut(&replica.shard) {
            *known = (*known).max(floor);
        }
    }

    /// FLOOR is stable, and has been followed.
    pub(super) fn on_floor(&mut self) {
        if let Some(leader) = &mut self.leader {
            // A leader applies no other entries than its own, and one floor at a time is on its way.
            let floor = leader.next_floor.take();
            assert!(floor.is_some_and(|floor| floor <= self.state.floor), "another floor than {floor:?}");
        }
    }
}
