//! Which machines of a keyspace run on this node together, where transactions run at nodes (ADR 0050).
//!
//! The machine of the node and the replicas of shards beside it are told of each other when they start, and when one of them is given up or
//! removed. Messages between them go through the queue of the node: in the order in which they were sent, and lost only with a
//! machine that does not run, of which the others are told before the next message of a socket is looked at.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::{KeyspaceId, ReplicaId};
use quorate_runtime::Turn;

use super::Node;
use super::hosted::State;

/// The neighbours on this node that each machine was told of.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    /// The neighbours that each was told of last.
    told: BTreeMap<ReplicaId, Vec<ReplicaId>>,
    /// The keyspaces whose machines here may be others than before.
    changed: BTreeSet<KeyspaceId>,
}

impl Node {
    /// Notes that a replica has started, or does not run any more.
    pub(super) fn note_neighbour(&mut self, id: ReplicaId) {
        if let Some(hosted) = self.replicas.get(&id)
            && hosted.placement.has_neighbours()
        {
            // A machine that starts knows no neighbours.
            self.neighbours.told.remove(&id);
            self.neighbours.changed.insert(hosted.placement.keyspace);
        }
    }

    /// Tells the machines of keyspaces in which they have changed which they are: the machine of the node hears of all, the others of
    /// it alone.
    pub(super) fn introduce(&mut self, turn: &mut Turn<'_>) {
        for keyspace in std::mem::take(&mut self.neighbours.changed) {
            let runs = |id: &ReplicaId| {
                let hosted = &self.replicas[id];
                hosted.placement.keyspace == keyspace && matches!(hosted.state, State::Running(_))
            };
            let running: Vec<ReplicaId> = self.replica_ids().into_iter().filter(runs).collect();
            let is_home = |id: &ReplicaId| self.replicas[id].placement.is_home();
            let homes: Vec<ReplicaId> = running.iter().copied().filter(is_home).collect();
            for id in &running {
                let others = if homes.contains(id) { &running } else { &homes };
                if self.neighbours.told.get(id) != Some(others) {
                    self.neighbours.told.insert(*id, others.clone());
                    self.step(*id, turn, |running, time, outgoing| running.meet(time, others, outgoing));
                }
            }
        }
    }
}
