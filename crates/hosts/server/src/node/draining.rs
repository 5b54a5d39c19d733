//! How this node stops without anybody noticing, in the phases of [`Draining`]: what it leads it gives to others, clients are told to ask others, and
//! what is under way ends.

use quorate_core::NodeId;
use quorate_core::draining::Draining;
use quorate_core::hosted::Urgency;
use quorate_runtime::{LinkId, Turn};
use quorate_wire::{Envelope, Packet};

use super::Node;
use super::hosted::{Hosted, State};
use super::loops::Handed;

/// How far a draining node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DrainState {
    /// No replica holds a transaction prepared, clients have gone to others, and everything is durable.
    Drained,
    /// All transactions that are left are held by replicas that can reach no majority of their group: only a client that had decided before
    /// can still end them.
    Stuck,
    /// The transactions that are left will end.
    UnderWay,
}

impl Node {
    /// Has others lead what this node leads, so that clients and what is under way can end elsewhere.
    pub(crate) fn drain(&mut self, turn: &mut Turn<'_>) {
        if self.draining.is_some() {
            return;
        }
        self.draining = Some(Draining::give_way(turn.time.now));
        for id in self.replica_ids() {
            self.step(id, turn, |running, time, outgoing| running.give_way(time, outgoing));
        }
        for other in &self.others {
            other.with(|node, turn| node.drain(turn));
        }
    }

    /// True if a replica of this event loop leads what others could lead.
    fn has_the_lead(&mut self) -> bool {
        let mut shared =
            self.replicas.values_mut().filter(|hosted| hosted.placement.group.replicas.len() > 1);
        shared.any(|hosted| hosted.running().is_some_and(|running| running.has_the_lead()))
    }

    /// True if what a client says is passed over: it was told to go, and would begin here what is better begun elsewhere.
    pub(super) fn passes_over(&mut self, urgency: Urgency, envelope: &Envelope, turn: &Turn<'_>) -> bool {
        let Some(draining) = self.draining else { return false };
        draining.passes_over(urgency, || self.has_open(envelope), turn.time.now)
    }

    /// Tells a client that has just connected that it had better ask others.
    pub(super) fn tell_leaving(&self, link: LinkId, turn: &mut Turn<'_>) {
        if self.draining.is_some_and(|draining| draining.is_leaving()) {
            turn.send(link, &Packet::Stopping);
        }
    }

    /// How far the node is from having nothing under way.
    pub(crate) fn drain_state(&mut self, turn: &mut Turn<'_>) -> DrainState {
        let now = turn.time.now;
        let leads =
            self.has_the_lead() || self.others.iter().any(|other| other.with(|node, _| node.has_the_lead()));
        let Some(draining) = &mut self.draining else { return DrainState::UnderWay };
        let has_left = draining.has_left(now);
        if draining.is_to_leave(leads, now) {
            turn.send_to_clients(&Packet::Stopping);
            self.here.loops.hand_to_others(|| Handed::Leaving(now));
        }
        let is_connected = |node: NodeId| self.routes.is_connected(node);
        let mut state = self.work_left(is_connected);
        for other in &self.others {
            state = state.max(other.with(|node, _| node.work_left(is_connected)));
        }
        if has_left { state } else { DrainState::UnderWay }
    }

    /// How far this event loop is from having nothing under way, if these nodes are connected to the first one.
    fn work_left(&self, is_connected: impl Fn(NodeId) -> bool) -> DrainState {
        let Node { replicas, here, loader, .. } = self;
        let is_idle = here.queue.is_empty() && here.loops.is_idle() && loader.is_idle();
        let mut state = if is_idle { DrainState::Drained } else { DrainState::UnderWay };
        for Hosted { placement, state: replica, .. } in replicas.values() {
            let State::Running(running) = replica else { continue };
            if running.is_syncing() {
                state = DrainState::UnderWay;
            } else if !running.is_idle() {
                let nodes = &placement.group.replicas;
                let reachable = nodes.iter().filter(|node| is_connected(**node)).count();
                let has_majority = reachable * 2 > nodes.len();
                state = state.max(if has_majority { DrainState::UnderWay } else { DrainState::Stuck });
            }
        }
        state
    }
}
