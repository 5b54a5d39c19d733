//! How a node stops without anybody noticing: what it leads it gives to others, clients are told to ask others, and what they
//! have sent before they heard it is served as ever; then what is under way ends.
//!
//! ```text
//!   serving ──drain──► giving way ──nothing is led here, or it has taken too long──► leaving ──a moment later, and nothing is under way──► drained
//! ```

use std::time::Duration;

use quorate_core::hosted::Urgency;
use quorate_core::{Instant, NodeId};
use quorate_runtime::{LinkId, Turn};
use quorate_wire::Packet;

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

/// The phases of a node that drains.
#[derive(Clone, Copy, Debug)]
pub(super) enum Draining {
    /// Its replicas give up what they lead.
    GivingWay {
        /// Since when.
        since: Instant,
    },
    /// Clients are told to ask others.
    Leaving {
        /// Since when.
        since: Instant,
    },
}

/// So long clients are left to find the new leaders before they are told, at most: others may not be there to lead.
const GIVING_WAY_MAX: Duration = Duration::from_secs(1);

/// So long what clients have sent before they heard it is still taken in. Then they count on others, and what they begin here all the same is dropped.
const LEAVING_MIN: Duration = Duration::from_millis(200);

impl Node {
    /// Has others lead what this node leads, so that clients and what is under way can end elsewhere.
    pub(crate) fn drain(&mut self, turn: &mut Turn<'_>) {
        if self.draining.is_some() {
            return;
        }
        self.draining = Some(Draining::GivingWay { since: turn.time.now });
        for id in self.replica_ids() {
            self.step(id, turn, |running, time, outgoing| running.give_way(time, outgoing));
        }
        for other in &self.others {
            other.with(|node, turn| node.drain(turn));
        }
    }

    /// True if a replica of this event loop leads what others could lead.
    fn has_the_lead(&mut self) -> bool {
        self.replicas.values_mut().filter_map(Hosted::running).any(|running| running.has_the_lead())
    }

    /// True if clients count on others by now: what one of them begins here all the same is dropped. A transaction that is open here alone goes on.
    pub(super) fn has_left(&self, urgency: Urgency, now: Instant) -> bool {
        let left = |since: Instant| urgency != Urgency::Always && now - since >= LEAVING_MIN;
        matches!(self.draining, Some(Draining::Leaving { since }) if left(since))
    }

    /// Tells a client that has just connected that it had better ask others.
    pub(super) fn tell_leaving(&self, link: LinkId, turn: &mut Turn<'_>) {
        if let Some(Draining::Leaving { .. }) = self.draining {
            turn.send(link, &Packet::Stopping);
        }
    }

    /// How far the node is from having nothing under way.
    pub(crate) fn drain_state(&mut self, turn: &mut Turn<'_>) -> DrainState {
        let now = turn.time.now;
        let has_left = match self.draining {
            None => false,
            Some(Draining::GivingWay { since }) => {
                let leads = self.has_the_lead()
                    || self.others.iter().any(|other| other.with(|node, _| node.has_the_lead()));
                if !leads || now - since >= GIVING_WAY_MAX {
                    turn.send_to_clients(&Packet::Stopping);
                    self.draining = Some(Draining::Leaving { since: now });
                    self.here.loops.hand_to_others(|| Handed::Leaving(now));
                }
                false
            }
            Some(Draining::Leaving { since }) => now - since >= LEAVING_MIN,
        };
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
