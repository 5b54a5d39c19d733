//! How long the way to the other nodes and back takes.
//!
//! The status of a node tells it, and it is measured when the status is asked for: a node that nobody watches sends nothing. The question is one that
//! nodes ask each other anyway, so that a node of any version answers it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use quorate_core::{Instant, NodeId};
use quorate_runtime::Turn;
use quorate_wire::Packet;
use serde::Serialize;

use super::{Node, Place};

/// A node is asked no more often.
const PAUSE: Duration = Duration::from_millis(900);

/// A question without an answer is asked anew after so long.
const PATIENCE: Duration = Duration::from_secs(10);

/// The shortest of the last so many counts: in the others one of the nodes was busy.
const REMEMBERED: usize = 5;

/// The connection to another node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PeerStatus {
    /// The node.
    pub node: u16,
    /// Whether it is connected.
    pub connected: bool,
    /// How long a message and its answer take, in seconds; none before it was measured.
    pub round_trip_seconds: Option<f64>,
}

/// The measurements, by node.
#[derive(Debug, Default)]
pub(super) struct RoundTrips(BTreeMap<NodeId, Measured>);

#[derive(Debug, Default)]
struct Measured {
    asked: Option<Instant>,
    answered: Option<Instant>,
    latest: VecDeque<Duration>,
}

impl RoundTrips {
    /// True if a node is to be asked now.
    fn is_due(&self, node: NodeId, now: Instant) -> bool {
        let Some(measured) = self.0.get(&node) else { return true };
        match (measured.asked, measured.answered) {
            (Some(asked), _) => now.saturating_since(asked) >= PATIENCE,
            (None, Some(answered)) => now.saturating_since(answered) >= PAUSE,
            (None, None) => true,
        }
    }

    /// A node is asked.
    pub(super) fn on_asked(&mut self, node: NodeId, now: Instant) {
        self.0.entry(node).or_default().asked = Some(now);
    }

    /// It has answered.
    pub(super) fn on_answered(&mut self, node: NodeId, now: Instant) {
        let Some(measured) = self.0.get_mut(&node) else { return };
        let Some(asked) = measured.asked.take() else { return };
        measured.answered = Some(now);
        if measured.latest.len() == REMEMBERED {
            measured.latest.pop_front();
        }
        measured.latest.push_back(now.saturating_since(asked));
    }

    /// The node is not connected any more.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.0.remove(&node);
    }

    fn of(&self, node: NodeId) -> Option<Duration> {
        self.0.get(&node)?.latest.iter().min().copied()
    }
}

impl Node {
    /// Asks the other nodes, unless they were asked a moment ago. The next status tells their answers.
    pub(super) fn measure_round_trips(&mut self, turn: &mut Turn<'_>) {
        let now = turn.time.now;
        for (node, link) in self.routes.node_links() {
            if self.round_trips.is_due(node, now) {
                self.round_trips.on_asked(node, now);
                turn.send(link, &Packet::DirectoryRequest);
            }
        }
    }

    /// The other nodes, ascending.
    pub(super) fn peers(&self) -> Vec<PeerStatus> {
        let topology = self.topology.borrow();
        let others = topology.live_nodes().filter(|node| node.id != self.config.node);
        let peer = |node: &Place| PeerStatus {
            node: node.id.0,
            connected: self.routes.is_connected(node.id),
            round_trip_seconds: self.round_trips.of(node.id).map(|round_trip| round_trip.as_secs_f64()),
        };
        others.map(peer).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn the_shortest_of_the_latest_round_trips_counts() {
        let (mut measured, node) = (RoundTrips::default(), NodeId(7));
        assert!(measured.is_due(node, at(0)));
        for (asked, took) in [(0, 9), (1_000, 80), (2_000, 90), (3_000, 80), (4_000, 85), (5_000, 95)] {
            measured.on_asked(node, at(asked));
            assert!(!measured.is_due(node, at(asked + 1)), "one question at a time");
            measured.on_answered(node, at(asked + took));
            // An answer that nobody has asked for measures nothing.
            measured.on_answered(node, at(asked + took));
        }
        assert_eq!(measured.of(node), Some(Duration::from_millis(80)));
        assert!(!measured.is_due(node, at(5_900)) && measured.is_due(node, at(6_000)));
        measured.on_asked(node, at(6_000));
        assert!(!measured.is_due(node, at(15_999)) && measured.is_due(node, at(16_000)));
        measured.forget(node);
        assert_eq!(measured.of(node), None);
    }
}
