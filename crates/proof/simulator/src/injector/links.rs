//! The faults between nodes: everything here cuts links, in one direction or both, and mends them later.

use std::time::Duration;

use super::{Ending, Injector, Step, Strike};
use crate::cluster::{Alarm, Cluster};
use crate::system::System;

/// A link, from one node to another.
type Link = (usize, usize);

/// The links between two nodes.
fn both(one: usize, other: usize) -> [Link; 2] {
    [(one, other), (other, one)]
}

/// All links of a node, or every link between two groups, and so on: those of the pairs of nodes for which `is_cut` says
/// so.
fn links_where(nodes: usize, is_cut: impl Fn(usize, usize) -> bool) -> Vec<Link> {
    let pairs = (0..nodes).flat_map(|one| (0..one).map(move |other| (one, other)));
    pairs.filter(|(one, other)| is_cut(*one, *other)).flat_map(|(one, other)| both(one, other)).collect()
}

impl<S: System> Injector<S> {
    pub(super) fn spike(&mut self, cluster: &mut Cluster<S>, node: usize) -> bool {
        let extra = self.duration(Duration::from_millis(20), Duration::from_secs(3));
        cluster.world.network().set_spike(node, extra);
        cluster.world.note(|| format!("what node {node} sends takes {extra:?} longer"));
        self.end_after(cluster, 100, 3_000, Ending::Spike(node))
    }

    pub(super) fn partition(&mut self, cluster: &mut Cluster<S>, node: usize) -> bool {
        let nodes = cluster.world.network().nodes();
        cluster.world.note(|| format!("node {node} is cut off"));
        self.cut(cluster, links_where(nodes, |one, other| one == node || other == node))
    }

    /// Cuts one link, or everything that a node sends, or everything that it receives.
    pub(super) fn partition_one_way(&mut self, cluster: &mut Cluster<S>, node: usize, nodes: usize) -> bool {
        let others = (0..cluster.world.network().nodes()).filter(|other| *other != node);
        let links: Vec<Link> = match self.random.below(3) {
            0 => vec![(node, (node + 1 + self.random.index(nodes - 1)) % nodes)],
            1 => others.map(|other| (node, other)).collect(),
            _ => others.map(|other| (other, node)).collect(),
        };
        cluster.world.note(|| format!("nothing passes over {links:?}"));
        self.cut(cluster, links)
    }

    /// Two groups do not hear each other; a node that is in neither hears everybody.
    pub(super) fn partition_partially(&mut self, cluster: &mut Cluster<S>) -> bool {
        let nodes = cluster.world.network().nodes();
        let mut groups: Vec<u64> = (0..nodes).map(|_| self.random.below(3)).collect();
        let (one, other) = (self.random.index(nodes), self.random.index(nodes - 1));
        groups[one] = 0;
        groups[if other < one { other } else { other + 1 }] = 1;
        cluster.world.note(|| format!("groups 0 and 1 do not hear each other: {groups:?}"));
        self.cut(cluster, links_where(nodes, |one, other| groups[one] + groups[other] == 1))
    }

    /// The server nodes stand in a ring and hear as many of their neighbours as make a majority of them, to one side only;
    /// clients hear a majority that begins anywhere in the ring.
    pub(super) fn partition_into_ring(&mut self, cluster: &mut Cluster<S>) -> bool {
        let servers = cluster.scenario.server_nodes;
        let clients = cluster.scenario.clients;
        let turn = self.random.index(servers);
        let heard = servers / 2;
        // How far ahead in the ring the sender stands.
        let ahead = |from: usize, to: usize| (from + servers - to) % servers;
        let mut links: Vec<Link> = (0..servers)
            .flat_map(|to| (0..servers).map(move |from| (from, to)))
            .filter(|(from, to)| from != to && ahead(*from, *to) > heard)
            .collect();
        for client in 0..clients {
            for server in (0..servers).filter(|server| ahead(*server, (turn + client) % servers) > heard) {
                links.extend(both(server, servers + client));
            }
        }
        cluster.world.note(|| format!("nobody hears more than the next {heard} in the ring"));
        self.cut(cluster, links)
    }

    /// The links of a node, or one of them, fail and come back as often as a time-out runs out.
    pub(super) fn flap(&mut self, cluster: &mut Cluster<S>, node: usize) -> bool {
        let nodes = cluster.scenario.server_nodes + cluster.scenario.clients;
        let links = if self.random.chance(0.5) {
            links_where(nodes, |one, other| one == node || other == node)
        } else {
            both(node, (node + 1 + self.random.index(nodes - 1)) % nodes).to_vec()
        };
        let timeouts = S::timeouts(&cluster.scenario.settings);
        let period = timeouts[self.random.index(timeouts.len())];
        let left = 2 + 2 * self.random.below(8) as u32;
        cluster.world.note(|| format!("links of node {node} flap every {period:?}"));
        self.go_on_flapping(cluster, links, false, period, left);
        true
    }

    pub(super) fn go_on_flapping(
        &mut self,
        cluster: &mut Cluster<S>,
        links: Vec<Link>,
        cut: bool,
        period: Duration,
        left: u32,
    ) {
        for (from, to) in &links {
            let network = cluster.world.network();
            if cut { network.mend(*from, *to) } else { network.cut(*from, *to) }
        }
        if left > 0 || !cut {
            let step = Step::Flap { links, cut: !cut, period, left: left.saturating_sub(1) };
            cluster.world.set_alarm(period, Alarm::Strike(Strike::Next(step)));
        }
    }

    /// Fewer than half of the sites are cut off, each from all others. Later their links come back, one pair of nodes after the other, in any order.
    pub(super) fn cut_site_off(&mut self, cluster: &mut Cluster<S>) -> bool {
        let nodes = cluster.world.network().nodes();
        let sites = cluster.scenario.sites();
        let mut lost = vec![self.random.index(sites)];
        if (sites - 1) / 2 > 1 && self.random.chance(0.5) {
            lost.push((lost[0] + 1 + self.random.index(sites - 1)) % sites);
        }
        let site_of = |node| cluster.site_of(node);
        let crosses = |one, other| {
            let (one, other) = (site_of(one), site_of(other));
            one != other && (lost.contains(&one) || lost.contains(&other))
        };
        let mut links = links_where(nodes, crosses);
        cluster.world.note(|| format!("sites {lost:?} are cut off"));
        for (from, to) in &links {
            cluster.world.network().cut(*from, *to);
        }
        let mut after = self.duration(Duration::from_millis(100), Duration::from_secs(3));
        let step = Duration::from_millis(self.random.between(1, 2 * 2_000 / links.len() as u64));
        while !links.is_empty() {
            let link = links.swap_remove(self.random.index(links.len()));
            cluster.world.set_alarm(after, Alarm::Strike(Strike::End(Ending::Mend(vec![link]))));
            after += step.mul_f64(self.random.unit());
        }
        true
    }

    /// Links take nothing for a while: one of them, or all to a node that does not read, or all from one whose way out is stuck. It
    /// is counted once that has cost a connection.
    pub(super) fn stall(&mut self, cluster: &mut Cluster<S>, node: usize) -> bool {
        let nodes = cluster.world.network().nodes();
        let others = (0..nodes).filter(|other| *other != node);
        let links: Vec<Link> = match self.random.below(3) {
            0 => vec![(node, (node + 1 + self.random.index(nodes - 1)) % nodes)],
            1 => others.map(|other| (other, node)).collect(),
            _ => others.map(|other| (node, other)).collect(),
        };
        let lasting = self.duration(Duration::from_millis(100), Duration::from_secs(4)).mul_f64(self.brevity);
        cluster.world.note(|| format!("nothing is taken for {lasting:?} by {links:?}"));
        for (from, to) in links {
            cluster.world.stall_link(from, to, lasting);
        }
        false
    }

    fn cut(&mut self, cluster: &mut Cluster<S>, links: Vec<Link>) -> bool {
        for (from, to) in &links {
            cluster.world.network().cut(*from, *to);
        }
        self.end_after(cluster, 50, 4_000, Ending::Mend(links))
    }
}
