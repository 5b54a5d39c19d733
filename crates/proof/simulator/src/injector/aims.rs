//! Which node a fault strikes that waits for a moment, and which links are starved: both under `swarm` alone.

use std::time::Duration;

use quorate_core::hosted::{Holdings, HostedReplica, Status};

use super::{Injector, Step};
use crate::cluster::Cluster;
use crate::fault::Fault;
use crate::swarm::{Aim, Starved};
use crate::system::System;

/// So often a node is looked for that is at what faults are aimed at. A fault that finds none strikes any node.
const LOOKS: u32 = 60;

impl<S: System> Injector<S> {
    /// True if a fault does not strike yet: it waits until some node is at what faults are aimed at.
    pub(super) fn waits_for_its_moment(&mut self, fault: Fault, cluster: &mut Cluster<S>) -> bool {
        let is_aimed = cluster.scenario.swarm.as_ref().is_some_and(|swarm| swarm.aim.is_some());
        is_aimed && strikes_nodes(fault) && !self.aims(fault, LOOKS, cluster)
    }

    /// True if a fault is to strike now: a node is at what faults are aimed at, or one was looked for long enough. Else it is looked for
    /// again in a moment.
    pub(super) fn aims(&mut self, fault: Fault, left: u32, cluster: &mut Cluster<S>) -> bool {
        if left == 0 || !at_it(cluster).is_empty() {
            return true;
        }
        let longest = Duration::from_micros(100) + cluster.scenario.round_trip() / 3;
        self.next_after(cluster, Duration::from_micros(10), longest, Step::Aim { fault, left: left - 1 });
        false
    }

    /// One of the nodes that are at what faults are aimed at; none if there is no such node, or faults are not aimed.
    pub(super) fn aimed_at(&mut self, cluster: &Cluster<S>) -> Option<usize> {
        let nodes = at_it(cluster);
        if nodes.is_empty() { None } else { Some(nodes[self.random.index(nodes.len())]) }
    }

    /// The first links are starved, if some are to be.
    pub(super) fn begin_to_starve(&mut self, cluster: &mut Cluster<S>) {
        if let Some(starvation) = cluster.scenario.swarm.as_ref().and_then(|swarm| swarm.starvation) {
            self.go_on_starving(cluster, starvation.changes);
        }
    }

    /// Other links are starved than before, until these give way to others.
    pub(super) fn go_on_starving(&mut self, cluster: &mut Cluster<S>, left: u32) {
        let Some(starvation) = cluster.scenario.swarm.as_ref().and_then(|swarm| swarm.starvation) else {
            return;
        };
        let (servers, nodes) =
            (cluster.scenario.server_nodes, cluster.scenario.server_nodes + cluster.scenario.clients);
        let one = self.random.index(servers);
        let others = || (0..nodes).filter(move |other| *other != one);
        let links: Vec<(usize, usize)> = match starvation.starved {
            Starved::Links(links) => (0..links).map(|_| self.draw_link(servers, nodes)).collect(),
            Starved::Sender => others().map(|other| (one, other)).collect(),
            Starved::Receiver => others().map(|other| (other, one)).collect(),
        };
        cluster.world.note(|| format!("links {links:?} take {:?} longer", starvation.extra));
        cluster.world.network().starve(links, starvation.extra);
        if left > 0 {
            let usual = 2 * cluster.scenario.safety_phase / (starvation.changes + 1);
            let after = usual.mul_f64(self.random.unit());
            self.next_after(cluster, after, after, Step::Starve { left: left - 1 });
        }
    }

    /// A link that begins or ends at a node with replicas.
    fn draw_link(&mut self, servers: usize, nodes: usize) -> (usize, usize) {
        let one = self.random.index(servers);
        let other = (one + 1 + self.random.index(nodes - 1)) % nodes;
        if self.random.chance(0.5) { (one, other) } else { (other, one) }
    }
}

/// The nodes that are at what faults are aimed at.
fn at_it<S: System>(cluster: &Cluster<S>) -> Vec<usize> {
    let Some(aim) = cluster.scenario.swarm.as_ref().and_then(|swarm| swarm.aim) else { return Vec::new() };
    let is_at_it = |server: &usize| {
        let Some(replica) = cluster.world.server(*server) else { return false };
        match aim {
            Aim::Writing => cluster.world.disk(*server).is_dirty(),
            Aim::Holding => replica.health().prepared > 0,
            Aim::Settling => replica.settles(),
            Aim::Changing => matches!(replica.health().status, Status::ViewChanging | Status::Recovering),
        }
    };
    let servers = (0..cluster.world.servers()).filter(is_at_it);
    let mut nodes: Vec<usize> = servers.map(|server| cluster.world.node_of_server(server)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// True if a fault strikes a node, and may as well strike another.
fn strikes_nodes(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::DelaySpikes
            | Fault::Partitions
            | Fault::OneWayPartitions
            | Fault::FlappingLinks
            | Fault::ClockJumps
            | Fault::FrozenClocks
            | Fault::NodeCrashes
            | Fault::RestartStorms
            | Fault::PowerLoss
            | Fault::EmptyDisks
            | Fault::Amnesia
            | Fault::Pauses
            | Fault::LongPauses
            | Fault::SlowNodes
            | Fault::SlowDisks
            | Fault::TornWrites
            | Fault::WrongDisks
            | Fault::FailingDisks
            | Fault::FailedSyncs
            | Fault::ViewChanges
    )
}
