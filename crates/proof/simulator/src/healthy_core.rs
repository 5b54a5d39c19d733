//! The liveness phase with a healthy core: not everything is healed, and what is must suffice.
//!
//! The core is f + 1 replicas of each shard and some of the clients. Everything between them works. Each other node is broken
//! in a way of its own and stays so: down, cut off, heard or hearing only, slow to sync, standing still. The transactions of
//! the core's clients must end, and some commit; and nothing may stay prepared at the core's replicas, whichever client had begun it.

use std::collections::BTreeSet;
use std::time::Duration;

use quorate_core::Random;

use crate::clients::Clients;
use crate::cluster::Cluster;
use crate::fault::Fault;
use crate::injector::Ending;
use crate::invariants::{self, Invariant};
use crate::run::{HEALING_MAX, Simulation, note};
use crate::system::System;
use crate::world::costs::SyncTime;
use crate::world::disk::Crash;

/// The nodes that keep working while the rest does not.
#[derive(Debug)]
pub(crate) struct HealthyCore {
    /// The nodes of the core, those of its clients included.
    nodes: BTreeSet<usize>,
    /// The places of its clients.
    slots: Vec<usize>,
}

/// How a node outside the core stays.
#[derive(Clone, Copy, Debug)]
enum Broken {
    Down,
    CutOff,
    /// The others hear it, and it does not hear them.
    Deaf,
    /// It hears the others, and they do not hear it.
    Mute,
    SlowDisk,
    Standing,
}

const WAYS: [Broken; 6] =
    [Broken::Down, Broken::CutOff, Broken::Deaf, Broken::Mute, Broken::SlowDisk, Broken::Standing];

/// As good as for ever.
const FOR_EVER: Duration = Duration::from_secs(3_600);

impl HealthyCore {
    /// Chooses a core as small as can be.
    fn choose<S: System>(cluster: &Cluster<S>, clients: &Clients, random: &mut Random) -> Self {
        let servers = cluster.scenario.server_nodes;
        let mut nodes: BTreeSet<usize> = (0..servers).collect();
        let mut candidates: Vec<usize> = (0..servers).collect();
        while !candidates.is_empty() {
            let node = candidates.swap_remove(random.index(candidates.len()));
            nodes.remove(&node);
            if !cluster.suffices(&nodes) {
                nodes.insert(node);
            }
        }
        // Sessions may have moved: where none is, nothing would be begun.
        let used = clients.slots_in_use();
        let healthy = used[random.index(used.len())];
        let slots = (0..cluster.scenario.clients).filter(|slot| *slot == healthy || random.chance(0.5));
        let slots: Vec<usize> = slots.collect();
        nodes.extend(slots.iter().map(|slot| cluster.client_node(*slot)));
        HealthyCore { nodes, slots }
    }

    /// True if a node belongs to the core.
    fn has(&self, node: usize) -> bool {
        self.nodes.contains(&node)
    }

    /// False if the end of an earlier fault would mend what is to stay broken. All else has been mended already.
    pub(crate) fn allows(&self, ending: &Ending) -> bool {
        match ending {
            Ending::Restart(node) => self.has(*node),
            Ending::Client(slot) => self.slots.contains(slot),
            _ => false,
        }
    }

    /// Breaks every other node for good. The cluster has just been healed.
    fn break_the_rest<S: System>(
        &self,
        cluster: &mut Cluster<S>,
        clients: &mut Clients,
        random: &mut Random,
    ) {
        let servers = cluster.scenario.server_nodes;
        for node in (0..servers + cluster.scenario.clients).filter(|node| !self.has(*node)) {
            let way = WAYS[random.index(WAYS.len())];
            cluster.world.note(|| format!("node {node} stays broken: {way:?}"));
            match (way, node.checked_sub(servers)) {
                (Broken::Down, Some(slot)) => clients.leave(slot, cluster),
                (Broken::Down, None) => cluster.crash_node(node, Crash::Process),
                (Broken::Standing, _) => {
                    let until = cluster.instant_after(FOR_EVER);
                    cluster.world.pause(node, until);
                }
                (Broken::SlowDisk, None) => {
                    cluster.world.set_sync_time(node, SyncTime::between(FOR_EVER / 100, FOR_EVER));
                }
                // A client that is heard, and hears nobody, would go on to hold keys for as long as it lives.
                (Broken::CutOff | Broken::Deaf | Broken::SlowDisk, Some(_)) | (Broken::CutOff, None) => {
                    self.cut(node, [true, true], cluster);
                }
                (Broken::Deaf, None) => self.cut(node, [false, true], cluster),
                (Broken::Mute, _) => self.cut(node, [true, false], cluster),
            }
        }
    }

    /// Takes down the machines that are broken, so that they can be started again.
    fn clear_away<S: System>(&self, cluster: &mut Cluster<S>, clients: &mut Clients) {
        let servers = cluster.scenario.server_nodes;
        for node in (0..servers + cluster.scenario.clients).filter(|node| !self.has(*node)) {
            match node.checked_sub(servers) {
                Some(slot) => clients.leave(slot, cluster),
                None => cluster.crash_node(node, Crash::Process),
            }
        }
    }

    /// Cuts what a node sends to the core, and what the core sends to it.
    fn cut<S: System>(&self, node: usize, [from, to]: [bool; 2], cluster: &mut Cluster<S>) {
        for &healthy in &self.nodes {
            if from {
                cluster.world.network().cut(node, healthy);
            }
            if to {
                cluster.world.network().cut(healthy, node);
            }
        }
    }
}

impl<S: System> Simulation<S> {
    /// Heals a core, and sees to it that it gets along without the rest (I6).
    pub(crate) fn live_in_core(&mut self, random: &mut Random) {
        /// So many transactions are begun at least once the rest has broken down; and again if none of them commits: the
        /// first may all have met what the dead had prepared, or have run out of patience before a leader that hears nothing was
        /// replaced.
        const TRANSACTIONS: u64 = 20;
        const TIMES: u64 = 5;

        let open = self.clients.has_open();
        self.injector.note(Fault::HealthyCore, open);
        self.heal();
        // A group that waits for an operator does not get along by itself.
        let limit = self.cluster.instant_after(HEALING_MAX);
        self.until(limit, |simulation| simulation.cluster.accepted_losses.are_over());
        let core = HealthyCore::choose(&self.cluster, &self.clients, random);
        core.break_the_rest(&mut self.cluster, &mut self.clients, random);
        let committed = self.clients.tally.committed;
        let slots = core.slots.clone();
        self.core = Some(core);
        let limit = self.cluster.instant_after(HEALING_MAX);
        let mut left = Vec::new();
        for _ in 0..TIMES {
            self.clients.confine(slots.clone(), TRANSACTIONS, &mut self.cluster);
            if !self.until(limit, |simulation| simulation.left_in_core().is_empty()) {
                left = self.left_in_core();
                break;
            }
            if self.clients.tally.committed > committed {
                break;
            }
        }
        if self.clients.tally.committed == committed {
            left.push(format!("none of {TRANSACTIONS} transactions has committed, {TIMES} times"));
        }
        let finding = invariants::everything_ends("in the healthy core", &left);
        note(&mut self.report, Invariant::Liveness, finding);
        if let Some(core) = self.core.take() {
            core.clear_away(&mut self.cluster, &mut self.clients);
        }
        self.clients.release(&mut self.cluster);
    }

    /// The transactions that have not ended in the core, in words.
    fn left_in_core(&self) -> Vec<String> {
        let Some(core) = &self.core else { return Vec::new() };
        let mut left = self.clients.unfinished_at(&core.slots, &self.cluster);
        left.extend(self.cluster.unquiet_on(|node| core.has(node)));
        left
    }
}
