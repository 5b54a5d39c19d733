//! Faults that strike from time to time: crashes, partitions, pauses, clocks that jump.
//!
//! Misfortunes of single messages, skew and drift are set up once and last; what is here happens at instants, and most of
//! it ends by itself after a while.

use std::time::Duration;

use quorate_core::Random;
use quorate_core::topology::Durability;

use crate::cluster::{Alarm, Cluster};
use crate::fault::{Fault, FaultCounts};

/// Something that the injector does at an instant.
#[derive(Clone, Debug)]
pub enum Strike {
    /// A fault strikes.
    Hit(Fault),
    /// An effect of a fault ends.
    End(Ending),
}

/// How an effect of a fault ends.
#[derive(Clone, Debug)]
pub enum Ending {
    /// A node restarts.
    Restart(usize),
    /// Links carry messages again.
    Mend(Vec<(usize, usize)>),
    /// What a node sends takes its usual time again.
    Spike(usize),
    /// A clock runs again.
    Thaw(usize),
    /// Syncs take their usual time again.
    Disk(usize),
    /// A new incarnation of a client starts.
    Client(usize),
}

/// What the injector asks of whoever owns the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The client in this slot vanishes, sooner or later.
    DoomClient(usize),
    /// A new one starts in this slot.
    StartClient(usize),
}

/// Injects the faults of a scenario.
#[derive(Debug)]
pub struct Injector {
    random: Random,
    /// False once everything has been healed: from then on nothing strikes.
    active: bool,
    /// How often each fault struck.
    pub counts: FaultCounts,
    /// Which faults struck while a transaction was open.
    pub overlapped: [bool; Fault::ALL.len()],
}

/// No fault strikes before: every replica has begun its life by then.
const QUIET_START: Duration = Duration::from_millis(300);

impl Injector {
    /// Sets up what lasts, and the first strike of everything else.
    pub fn new(cluster: &mut Cluster, random: Random) -> Self {
        let mut injector = Injector {
            random,
            active: true,
            counts: FaultCounts::default(),
            overlapped: [false; Fault::ALL.len()],
        };
        cluster.world.network().misfortunes = cluster.scenario.misfortunes;
        for fault in cluster.scenario.faults.clone() {
            match fault {
                Fault::Loss
                | Fault::Duplication
                | Fault::LateDuplicates
                | Fault::Reordering
                | Fault::LateMessages => {}
                Fault::ClockSkew | Fault::ClockDrift => injector.counts.add(fault),
                _ => injector.schedule(cluster, fault, QUIET_START),
            }
        }
        injector
    }

    /// Nothing strikes any more; what was injected into single messages joins the counts.
    pub fn stop(&mut self) {
        self.active = false;
    }

    fn schedule(&mut self, cluster: &mut Cluster, fault: Fault, not_before: Duration) {
        // A client has many worst moments, and what it costs is soon made up for.
        let share = if fault == Fault::ClientCrashes { 0.3 } else { 1.0 };
        let interval = cluster.scenario.strike_interval.mul_f64(share * (0.1 + 1.9 * self.random.unit()));
        cluster.world.set_alarm(not_before + interval, Alarm::Strike(Strike::Hit(fault)));
    }

    /// Lets something strike, or end.
    pub fn strike(&mut self, strike: Strike, cluster: &mut Cluster, open: bool) -> Option<Request> {
        match strike {
            Strike::Hit(_) if !self.active => None,
            Strike::Hit(fault) => {
                self.schedule(cluster, fault, Duration::ZERO);
                let (struck, request) = self.hit(fault, cluster);
                if struck {
                    self.counts.add(fault);
                    self.overlapped[fault.index()] |= open;
                }
                request
            }
            Strike::End(ending) => end(ending, cluster),
        }
    }

    /// Lets a fault strike; false if it could not without going beyond what must be survived.
    fn hit(&mut self, fault: Fault, cluster: &mut Cluster) -> (bool, Option<Request>) {
        let servers = cluster.scenario.server_nodes;
        let clients = cluster.scenario.clients;
        let node = self.random.index(servers + clients);
        let server = self.random.index(servers);
        let mut request = None;
        let struck = match fault {
            Fault::DelaySpikes => self.spike(cluster, node),
            Fault::Partitions => self.partition(cluster, node),
            Fault::OneWayPartitions => self.partition_one_way(cluster, node, servers + clients),
            Fault::ClockJumps => {
                let max = Cluster::CLOCK_ERROR_MAX_MICROS;
                let target = self.random.between(0, max as u64) as i64 - max / 2;
                let now = cluster.world.now();
                let clock = cluster.world.clock(node);
                clock.jump(target - clock.error_micros(now));
                cluster.world.note(|| format!("the clock of node {node} jumps to an error of {target} µs"));
                true
            }
            Fault::FrozenClocks => {
                let now = cluster.world.now();
                cluster.world.clock(node).freeze(now);
                cluster.world.note(|| format!("the clock of node {node} stands still"));
                self.end_after(cluster, 100, 4_000, Ending::Thaw(node))
            }
            Fault::NodeCrashes => {
                let survivable = cluster.scenario.durability == Durability::Sync || cluster.may_lose(server);
                survivable && self.crash(cluster, server, false)
            }
            Fault::EmptyDisks => cluster.may_lose(server) && self.crash(cluster, server, true),
            Fault::PowerLoss => {
                for node in 0..servers {
                    self.crash(cluster, node, false);
                }
                true
            }
            Fault::ClientCrashes => {
                request = Some(Request::DoomClient(self.random.index(clients)));
                true
            }
            Fault::Pauses => {
                let pause = self.duration(20, 4_000);
                let until = cluster.instant_after(pause);
                cluster.world.pause(node, until);
                true
            }
            Fault::SlowDisks => {
                cluster.world.set_sync_time(server, Duration::from_millis(20), Duration::from_millis(900));
                cluster.world.note(|| format!("the disk of node {server} becomes slow"));
                self.end_after(cluster, 200, 3_000, Ending::Disk(server))
            }
            Fault::Loss
            | Fault::Duplication
            | Fault::LateDuplicates
            | Fault::Reordering
            | Fault::LateMessages
            | Fault::ClockSkew
            | Fault::ClockDrift => false,
        };
        (struck, request)
    }

    fn spike(&mut self, cluster: &mut Cluster, node: usize) -> bool {
        let extra = self.duration(20, 3_000);
        cluster.world.network().set_spike(node, extra);
        cluster.world.note(|| format!("what node {node} sends takes {extra:?} longer"));
        self.end_after(cluster, 100, 3_000, Ending::Spike(node))
    }

    fn partition(&mut self, cluster: &mut Cluster, node: usize) -> bool {
        let others = (0..cluster.world.network().nodes()).filter(|other| *other != node);
        let links = others.flat_map(|other| [(node, other), (other, node)]).collect();
        cluster.world.note(|| format!("node {node} is cut off"));
        self.cut(cluster, links)
    }

    /// Cuts one link, or everything that a node sends, or everything that it receives.
    fn partition_one_way(&mut self, cluster: &mut Cluster, node: usize, nodes: usize) -> bool {
        let others = (0..cluster.world.network().nodes()).filter(|other| *other != node);
        let links: Vec<(usize, usize)> = match self.random.below(3) {
            0 => vec![(node, (node + 1 + self.random.index(nodes - 1)) % nodes)],
            1 => others.map(|other| (node, other)).collect(),
            _ => others.map(|other| (other, node)).collect(),
        };
        cluster.world.note(|| format!("nothing passes over {links:?}"));
        self.cut(cluster, links)
    }

    fn cut(&mut self, cluster: &mut Cluster, links: Vec<(usize, usize)>) -> bool {
        for (from, to) in &links {
            cluster.world.network().cut(*from, *to);
        }
        self.end_after(cluster, 50, 4_000, Ending::Mend(links))
    }

    fn crash(&mut self, cluster: &mut Cluster, node: usize, wipe: bool) -> bool {
        let runs = cluster.is_up(node) && !cluster.servers_of(node).is_empty();
        // A node that is down already can still lose its disk; that it restarts is arranged already.
        if !runs && !wipe {
            return false;
        }
        cluster.crash_node(node, wipe);
        self.end_after(cluster, 10, 3_000, Ending::Restart(node))
    }

    fn duration(&mut self, low_millis: u64, high_millis: u64) -> Duration {
        // Short ones are likelier: they hit more different moments.
        let share = self.random.unit() * self.random.unit();
        Duration::from_micros(
            low_millis * 1_000 + ((high_millis - low_millis) as f64 * 1_000.0 * share) as u64,
        )
    }

    fn end_after(
        &mut self,
        cluster: &mut Cluster,
        low_millis: u64,
        high_millis: u64,
        ending: Ending,
    ) -> bool {
        let after = self.duration(low_millis, high_millis);
        cluster.world.set_alarm(after, Alarm::Strike(Strike::End(ending)));
        true
    }
}

fn end(ending: Ending, cluster: &mut Cluster) -> Option<Request> {
    match ending {
        Ending::Restart(node) => cluster.restart_node(node),
        Ending::Mend(links) => {
            for (from, to) in links {
                cluster.world.network().mend(from, to);
            }
        }
        Ending::Spike(node) => cluster.world.network().set_spike(node, Duration::ZERO),
        Ending::Thaw(node) => cluster.world.clock(node).thaw(),
        Ending::Disk(node) => {
            cluster.world.set_sync_time(node, Duration::from_micros(50), Duration::from_millis(2));
        }
        Ending::Client(slot) => return Some(Request::StartClient(slot)),
    }
    None
}
