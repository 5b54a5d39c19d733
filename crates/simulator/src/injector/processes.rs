//! What goes wrong with processes: crashes, restarts, pauses, slow disks.

use std::time::Duration;

use quorate_core::topology::Durability;

use super::{Ending, Injector, Step};
use crate::cluster::Cluster;

impl Injector {
    /// True if a node may crash: what is kept in memory is lost with it.
    pub(super) fn may_crash(&self, cluster: &Cluster, node: usize) -> bool {
        cluster.scenario.durability == Durability::Sync || cluster.may_lose(node)
    }

    pub(super) fn crash(&mut self, cluster: &mut Cluster, node: usize, wipe: bool) -> bool {
        let runs = cluster.is_up(node) && !cluster.servers_of(node).is_empty();
        // A node that is down already can still lose its disk; that it restarts is arranged already.
        if !runs && !wipe {
            return false;
        }
        cluster.crash_node(node, wipe);
        self.end_after(cluster, 10, 3_000, Ending::Restart(node))
    }

    /// Crashes a node that is up, restarts it in a moment, and has it crash again a moment later.
    pub(super) fn storm(&mut self, cluster: &mut Cluster, node: usize, left: u32) -> bool {
        let crashes = cluster.is_up(node) && self.may_crash(cluster, node);
        if crashes {
            cluster.crash_node(node, false);
            self.end_after(cluster, 1, 50, Ending::Restart(node));
        }
        if left > 0 {
            let step = Step::Storm { node, left: left - 1 };
            self.next_after(cluster, Duration::from_millis(5), Duration::from_millis(300), step);
        }
        crashes
    }

    /// Restarts a node; when it has had some time to come back, it is the next one's turn.
    pub(super) fn roll(&mut self, cluster: &mut Cluster, node: usize) -> bool {
        if node >= cluster.scenario.server_nodes {
            return false;
        }
        let crashes = cluster.is_up(node) && self.may_crash(cluster, node);
        if crashes {
            cluster.crash_node(node, false);
            self.end_after(cluster, 10, 200, Ending::Restart(node));
        }
        self.next_after(cluster, Duration::from_millis(200), Duration::from_secs(1), Step::Roll(node + 1));
        crashes
    }

    pub(super) fn pause(
        &mut self,
        cluster: &mut Cluster,
        node: usize,
        low: Duration,
        high: Duration,
    ) -> bool {
        let pause = self.duration(low, high);
        let until = cluster.instant_after(pause);
        cluster.world.pause(node, until);
        true
    }

    pub(super) fn slow_disk(&mut self, cluster: &mut Cluster, node: usize) -> bool {
        cluster.world.set_sync_time(node, Duration::from_millis(20), Duration::from_millis(900));
        cluster.world.note(|| format!("the disk of node {node} becomes slow"));
        self.end_after(cluster, 200, 3_000, Ending::Disk(node))
    }
}
