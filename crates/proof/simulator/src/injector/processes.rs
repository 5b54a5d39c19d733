//! The faults of processes: crashes, restarts, pauses, upgrades.

use std::time::Duration;

use quorate_core::Instant;
use quorate_core::topology::Durability;

use super::{Ending, Injector, Request, Step};
use crate::cluster::Cluster;
use crate::system::System;
use crate::world::disk::Crash;

/// How often it is looked whether a node that stops has anything left to wait for, at least.
const DRAIN_CHECK_MAX: Duration = Duration::from_millis(100);

impl<S: System> Injector<S> {
    /// True if a node may crash: what is kept in memory is lost with it.
    pub(super) fn may_crash(&self, cluster: &Cluster<S>, node: usize) -> bool {
        cluster.scenario.durability == Durability::Sync || cluster.may_lose(node)
    }

    pub(super) fn crash(&mut self, cluster: &mut Cluster<S>, node: usize, crash: Crash) -> bool {
        // That one restarts which is down already is arranged.
        if !cluster.is_up(node) || cluster.servers_of(node).is_empty() {
            return false;
        }
        cluster.crash_node(node, crash);
        self.end_after(cluster, 10, 3_000, Ending::Restart(node))
    }

    /// Crashes a node that is up, restarts it in a moment, and has it crash again a moment later.
    pub(super) fn storm(&mut self, cluster: &mut Cluster<S>, node: usize, left: u32) -> bool {
        let crashes = cluster.is_up(node) && self.may_crash(cluster, node);
        if crashes {
            cluster.crash_node(node, Crash::Power);
            self.end_after(cluster, 1, 50, Ending::Restart(node));
        }
        if left > 0 {
            let step = Step::Storm { node, left: left - 1 };
            self.next_after(cluster, Duration::from_millis(5), Duration::from_millis(300), step);
        }
        crashes
    }

    /// A node stops in good order, as in an upgrade, and then the one after it; nothing if there is none.
    pub(super) fn roll(&mut self, cluster: &mut Cluster<S>, node: usize) {
        if node < cluster.scenario.server_nodes {
            cluster.drain_node(node);
            // Operators have little patience, or some.
            let patience = [0, 300, 3_000][self.random.index(3)];
            let until = cluster.instant_after(Duration::from_millis(self.random.between(0, patience)));
            self.drain_soon(cluster, node, until);
        }
    }

    fn drain_soon(&mut self, cluster: &mut Cluster<S>, node: usize, until: Instant) {
        self.next_after(cluster, Duration::ZERO, DRAIN_CHECK_MAX, Step::Drain { node, until });
    }

    /// A node that stops in good order goes on with it, and is restarted if nothing is left to wait for or it has taken long enough; true if it is.
    pub(super) fn drain(&mut self, cluster: &mut Cluster<S>, node: usize, until: Instant) -> bool {
        let is_done = cluster.is_up(node) && cluster.go_on_draining(node);
        if cluster.is_up(node) && !is_done && cluster.world.now() < until {
            self.drain_soon(cluster, node, until);
            return false;
        }
        let stops = cluster.is_up(node) && self.may_crash(cluster, node);
        if stops {
            cluster.crash_node(node, Crash::Process);
            self.end_after(cluster, 10, 200, Ending::Restart(node));
        } else {
            cluster.serve_on(node);
        }
        self.next_after(cluster, Duration::from_millis(200), Duration::from_secs(1), Step::Roll(node + 1));
        stops
    }

    /// The next node that runs the earlier version is stopped and comes back with the later one, or a client is; false if it is not up.
    pub(super) fn upgrade_next(&mut self, cluster: &mut Cluster<S>) -> (bool, Option<Request>) {
        let (servers, clients) = (cluster.scenario.server_nodes, cluster.scenario.clients);
        let is_earlier =
            |node: &usize| cluster.world.versions().is_some_and(|versions| !versions.is_later(*node));
        let earlier: Vec<usize> = (0..servers + clients).filter(is_earlier).collect();
        if earlier.is_empty() {
            return (false, None);
        }
        let node = earlier[self.random.index(earlier.len())];
        if let Some(slot) = node.checked_sub(servers) {
            cluster.world.upgrade(node);
            return (true, Some(Request::CrashClient(slot)));
        }
        if !cluster.is_up(node) || cluster.servers_of(node).is_empty() || !self.may_crash(cluster, node) {
            return (false, None);
        }
        cluster.crash_node(node, Crash::Process);
        cluster.world.upgrade(node);
        self.end_after(cluster, 10, 200, Ending::Restart(node));
        (true, None)
    }

    pub(super) fn pause(
        &mut self,
        cluster: &mut Cluster<S>,
        node: usize,
        low: Duration,
        high: Duration,
    ) -> bool {
        let pause = self.duration(low, high);
        let until = cluster.instant_after(pause);
        cluster.world.pause(node, until);
        true
    }

    /// Every server takes its time for each message, until everything is healed.
    pub(super) fn crowd(&mut self, cluster: &mut Cluster<S>) {
        for node in 0..cluster.scenario.server_nodes {
            cluster.world.set_service_time(node, cluster.scenario.service_time);
        }
    }

    /// From ten to a thousand times as slow as a server that takes a few microseconds for a message.
    pub(super) fn slow_node(&mut self, cluster: &mut Cluster<S>, node: usize) -> bool {
        let service_time = Duration::from_micros(50).mul_f64(100_f64.powf(self.random.unit()));
        cluster.world.set_service_time(node, service_time);
        self.end_after(cluster, 100, 3_000, Ending::Processor(node))
    }
}
