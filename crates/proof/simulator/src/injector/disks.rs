//! The faults of disks.

use std::time::Duration;

use super::{Ending, Injector};
use crate::cluster::Cluster;
use crate::system::System;
use crate::world::costs::SyncTime;
use crate::world::disk::{Condition, Crash, Decay};

impl<S: System> Injector<S> {
    /// The disk of a node becomes slow, or all disks do, because what they are connected to stalls.
    pub(super) fn slow_disks(&mut self, cluster: &mut Cluster<S>, node: usize) -> bool {
        let all = self.random.chance(0.4);
        for node in if all { 0..cluster.scenario.server_nodes } else { node..node + 1 } {
            let slow = SyncTime::between(Duration::from_millis(20), Duration::from_millis(900));
            cluster.world.set_sync_time(node, slow);
            cluster.world.note(|| format!("the disk of node {node} becomes slow"));
            self.end_after(cluster, 200, 3_000, Ending::Disk(node));
        }
        true
    }

    /// A server that is writing just now loses power.
    pub(super) fn tear(&mut self, cluster: &mut Cluster<S>, first: usize) -> bool {
        let nodes = cluster.scenario.server_nodes;
        let node = (first..nodes).chain(0..first).find(|node| cluster.has_unsynced(*node));
        node.is_some_and(|node| self.crash(cluster, node, Crash::Power))
    }

    /// A node crashes and loses its disk. One that is down already can still lose it.
    pub(super) fn lose_disk(&mut self, cluster: &mut Cluster<S>, node: usize) -> bool {
        cluster.crash_node(node, Crash::Power);
        cluster.replace_disk(node);
        self.end_after(cluster, 10, 3_000, Ending::Restart(node))
    }

    /// A disk changes what it holds, which is found out when its node restarts, at once or when something else makes it; or before,
    /// because what it holds is read again.
    pub(super) fn decay(&mut self, cluster: &mut Cluster<S>, node: usize, decay: Decay) -> bool {
        let decays = cluster.decay_disk(node, decay);
        if decays && self.random.chance(0.5) {
            self.crash(cluster, node, Crash::Power);
        } else if decays && self.random.chance(0.6) && cluster.scrub_disks(node) {
            self.crash(cluster, node, Crash::Process);
        }
        decays
    }

    /// A node crashes, and finds the disk of another replica when it restarts for the first time.
    pub(super) fn confuse_disks(&mut self, cluster: &mut Cluster<S>, node: usize) -> bool {
        self.crash(cluster, node, Crash::Process) && cluster.attach_wrong_disk(node)
    }

    pub(super) fn disturb_disk(
        &mut self,
        cluster: &mut Cluster<S>,
        node: usize,
        condition: Condition,
    ) -> bool {
        cluster.set_disk_condition(node, condition);
        self.end_after(cluster, 50, 3_000, Ending::Condition(node))
    }
}
