//! Small clusters on which every crash can be tried: a few transactions that get into each other's way.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::hash::FixedMap;
use quorate_core::rules::Plants;
use quorate_core::topology::{Decisions, Durability, shard_position};
use quorate_core::{GroupSize, Key, KeyRange, Random};
use quorate_workloads::key::numbered;
use quorate_workloads::{Operation, Parameters, Plan, Popularity, Scan, WorkloadKind};

use crate::clients::script::{Manner, Scripted};
use crate::hosts::{HostPlant, Hosts};
use crate::options::{Faults, Options};
use crate::scenario::{Distance, SITES, Scenario};
use crate::system::{Planted, Sketch, System, SystemKind};
use crate::world::costs::SyncTime;
use crate::world::network::Misfortunes;

/// A small cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Its name, as users write it.
    pub name: &'static str,
    /// Its distinguishing feature, in a few words.
    pub what: &'static str,
    /// The system that runs on it.
    pub system: SystemKind,
    /// Shards of the keyspace. Where groups stand in sites, one in each.
    pub shards: usize,
    /// Replicas of each shard.
    pub replicas: usize,
    /// Sites. Where groups stand in sites, as many as shards.
    pub sites: usize,
    /// True if one node is down until everything is healed, so that nothing takes the fast path.
    pub lacks_node: bool,
    /// True if old records are collected all the time.
    pub collects: bool,
}

impl Configuration {
    /// Every configuration.
    pub const ALL: [Configuration; 9] = [
        Configuration {
            name: "one-shard",
            what: "everything in one shard, whose old records are collected all the time",
            system: SystemKind::STRICT,
            shards: 1,
            replicas: 3,
            sites: SITES,
            lacks_node: false,
            collects: true,
        },
        Configuration {
            name: "two-shards",
            what: "transactions over two shards",
            system: SystemKind::STRICT,
            shards: 2,
            replicas: 3,
            sites: SITES,
            lacks_node: false,
            collects: false,
        },
        Configuration {
            name: "slow-path",
            what: "transactions over two shards, of which each lacks a replica",
            system: SystemKind::STRICT,
            shards: 2,
            replicas: 3,
            sites: SITES,
            lacks_node: true,
            collects: false,
        },
        Configuration {
            name: "five-replicas",
            what: "one shard with five replicas",
            system: SystemKind::STRICT,
            shards: 1,
            replicas: 5,
            sites: SITES,
            lacks_node: false,
            collects: false,
        },
        Configuration {
            name: "serializable",
            what: "transactions over two shards, each on a replicated log",
            system: SystemKind::SERIALIZABLE,
            shards: 2,
            replicas: 3,
            sites: SITES,
            lacks_node: false,
            collects: false,
        },
        Configuration {
            name: "local-sites",
            what: "two local sites of one replica each, and transactions that write keys of both",
            system: SystemKind::PARALLEL_SNAPSHOT,
            shards: 2,
            replicas: 1,
            sites: 2,
            lacks_node: false,
            collects: true,
        },
        Configuration {
            name: "replicated-sites",
            what: "the same with three replicas in each local site",
            system: SystemKind::PARALLEL_SNAPSHOT,
            shards: 2,
            replicas: 3,
            sites: 2,
            lacks_node: false,
            collects: false,
        },
        Configuration {
            name: "homes-of-one",
            what: "nodes that speculate, each alone in its site, and transactions over two shards",
            system: SystemKind::SNAPSHOT,
            shards: 2,
            replicas: 3,
            sites: SITES,
            lacks_node: false,
            collects: false,
        },
        Configuration {
            name: "home-of-three",
            what: "the same nodes in one site, where they share a home",
            system: SystemKind::SNAPSHOT,
            shards: 2,
            replicas: 3,
            sites: 1,
            lacks_node: false,
            collects: false,
        },
    ];

    /// The configuration with this name.
    pub fn named(name: &str) -> Option<Configuration> {
        Configuration::ALL.into_iter().find(|configuration| configuration.name == name)
    }

    /// So many nodes, the first ones, are down until everything is healed.
    pub fn nodes_lacking(&self) -> usize {
        usize::from(self.lacks_node)
    }

    /// How old a prepared entry becomes before its transaction is recovered.
    pub const RECOVERY_TIMEOUT: Duration = Duration::from_millis(100);

    /// How far ahead the clock of the first client is: a client that comes after it has to choose a higher timestamp.
    pub const FAST_CLOCK_MICROS: i64 = 20_000;

    /// True if servers go on with what clients have left behind, each as a backup coordinator.
    pub fn has_backups(&self) -> bool {
        self.system == SystemKind::STRICT
    }

    /// Within so long after a crash, and after a server has come back, whatever a server holds is free again: two recovery time-outs; one more for each
    /// backup coordinator that is asked and cannot answer; and one for each node that is down, because without its vote it can take a view change to
    /// tell whether a transaction may have committed. On replicated logs the next leader comes first, and then its questions to other groups.
    pub fn free_within(&self, dead_backups: usize) -> Duration {
        let time_outs = match self.has_backups() {
            true => 2 + dead_backups + self.nodes_lacking(),
            false => 10,
        };
        Self::RECOVERY_TIMEOUT.saturating_mul(time_outs as u32)
    }

    /// The cluster, its clients and what they run. All that is drawn in it is drawn from a fixed seed.
    pub fn scenario<S: System>(&self, plant: Option<&Planted>) -> Scenario<S> {
        let group = match GroupSize::new(self.replicas) {
            Ok(group) => group,
            Err(error) => unreachable!("{error}"),
        };
        let script = self.script();
        let stands_in_sites = S::ISOLATION.stands_in_sites();
        let sites = self.sites;
        let site_delays = vec![vec![Duration::from_micros(300); sites]; sites];
        let workload = Parameters { keys: KEYS, judged: true, ..Parameters::new(WorkloadKind::Rmw) };
        let options = Options {
            system: self.system,
            faults: Faults::None,
            plant: plant.cloned(),
            variants: false,
            ..Options::new(1..=1)
        };
        let round_trip = 2 * site_delays[0][0];
        let sketch = Sketch { seed: 1, options: &options, group, round_trip };
        Scenario {
            seed: 1,
            shards: self.shards,
            group,
            server_nodes: if stands_in_sites { sites * self.replicas } else { self.replicas },
            clients: script.len(),
            sessions_per_client: 1,
            durability: Durability::Sync,
            distance: Distance::Local,
            site_delays,
            bandwidth: None,
            jitter: 0.0,
            length: 1,
            costs: None,
            sync_time: SyncTime::TYPICAL,
            safety_phase: Duration::from_secs(10),
            transactions: script.iter().map(|script| script.len() as u64).sum(),
            attempts_max: u32::MAX,
            thinking: 0.0,
            trades: false,
            consumers: false,
            backups: false,
            indexes: false,
            lifetimes: None,
            leases: false,
            deployments: false,
            one_round: 0.0,
            leaders_apart: false,
            decisions: Decisions::Site,
            coordinated: 0.0,
            moves: 0.0,
            workload: Parameters { popularity: Popularity::Uniform, value_bytes_min: 0, ..workload },
            script,
            faults: Vec::new(),
            misfortunes: Misfortunes::default(),
            strike_interval: Duration::from_secs(3_600),
            swarm: None,
            hints: false,
            service_time: Duration::ZERO,
            hosts: Hosts::default(),
            settings: S::settings_for_crashes(&sketch, self.collects),
            clock_bound: None,
            host_plant: options.plant_id().and_then(HostPlant::with_id),
            random: Random::new(1),
        }
    }

    /// The script of each client. Names of keys say in which shard they are; with one shard that is the only one.
    ///
    /// ```text
    ///   first (fast clock)    read D, append C   append A B   read A B, scan     append A
    ///   second                                   append A     read A, append C   append B, abort
    ///   third                 append D           append B C   read C D           append C D
    /// ```
    fn script(&self) -> Vec<Vec<Scripted>> {
        let keys = self.keys();
        let get = |name| Operation::Get(keys[&name].clone());
        let append = |name| Operation::Append(keys[&name].clone());
        let scan = || {
            let mut universe = ['A', 'B', 'C', 'D'].map(|name| keys[&name].clone()).to_vec();
            universe.sort_unstable();
            let range = KeyRange { from: universe[0].clone(), to: None };
            Operation::Scan(Scan { range, universe, page: 100, pages_max: 1 })
        };
        let pause = Manner { pause: Duration::from_millis(4), ..Manner::default() };
        let gives_up = Manner { gives_up: true, ..Manner::default() };
        let plain = Manner::default();
        let script = |list: Vec<(u64, Manner, Vec<Operation>)>| {
            let scripted = |(at, manner, operations)| Scripted {
                at: Duration::from_millis(at),
                plan: Arc::new(Plan { kind: "scripted", operations }),
                manner,
            };
            list.into_iter().map(scripted).collect()
        };
        vec![
            script(vec![
                (20, plain, vec![get('D'), append('C')]),
                (25, plain, vec![append('A'), append('B')]),
                (32, plain, vec![get('A'), get('B')]),
                // The next writes of the others have to lie above that.
                (35, plain, vec![scan()]),
                (38, plain, vec![append('A')]),
            ]),
            script(vec![
                (25, plain, vec![append('A')]),
                // The key that it reads changes while it thinks.
                (36, pause, vec![get('A'), append('C')]),
                (44, gives_up, vec![append('B')]),
            ]),
            script(vec![
                // The first client has read that, at a higher timestamp.
                (24, plain, vec![append('D')]),
                (29, plain, vec![append('B'), append('C')]),
                (35, plain, vec![get('C'), get('D')]),
                (46, plain, vec![append('C'), append('D')]),
            ]),
        ]
    }

    /// A and C are keys of the first shard, B and D of the last.
    fn keys(&self) -> FixedMap<char, Key> {
        let of_shard = |position: usize| {
            let belongs = move |key: &Key| shard_position(key, self.shards) == position;
            (0..KEYS).map(numbered).filter(belongs)
        };
        let mut keys = FixedMap::default();
        let names = [('A', 0), ('C', 0), ('B', self.shards - 1), ('D', self.shards - 1)];
        for (at, (name, position)) in names.into_iter().enumerate() {
            if let Some(key) = of_shard(position).nth(at) {
                keys.insert(name, key);
            }
        }
        keys
    }
}

/// So many keys suffice to find some for each shard.
const KEYS: u64 = 24;
