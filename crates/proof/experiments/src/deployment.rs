//! The deployment of the paper's wide-area experiments: three regions, a replica of every shard and clients in each.
//!
//! *Source*: TAPIR paper, section 7.1, whose round trips and clock skews these are.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::hosted::Boot;
use quorate_core::topology::Durability;
use quorate_core::{ClientId, GroupSize, Random};
use quorate_log::member::Config;
use quorate_log::{Limits, Rules, Timing};
use quorate_simulator::cluster::Cluster;
use quorate_simulator::scenario::{Distance, SITES, Scenario};
use quorate_simulator::system::baselines::Baseline;
use quorate_simulator::system::qwstore::QwStore;
use quorate_simulator::system::strict::Strict;
use quorate_simulator::system::{Settings, SettingsOf, System};
use quorate_simulator::world::clock::PhysicalClock;
use quorate_simulator::world::costs::{Costs, SyncTime};
use quorate_simulator::world::network::Misfortunes;
use quorate_simulator::{Faults, Options};
use quorate_tapir::{CoordinatorConfig, ReplicaConfig};
use quorate_workloads::Parameters;

/// What is deployed and who uses it.
#[derive(Clone, Debug)]
pub struct Deployment<S: System> {
    /// Shards of the keyspace.
    pub shards: usize,
    /// Clients, a third of them in each region.
    pub clients: usize,
    /// How many transactions each client runs side by side.
    pub sessions_per_client: usize,
    /// Only the clients of this region are there, a third; those of all if none is named.
    pub region: Option<usize>,
    /// What they run.
    pub workload: Parameters,
    /// Only transactions of this kind; of every kind if none is named.
    pub kind: Option<&'static str>,
    /// Only transactions of this kind are timed; all of them if none is named.
    pub timed: Option<&'static str>,
    /// True if each replica has a node of its own; else there is one node in each region.
    pub apart: bool,
    /// True if a transaction that only reads, and knows its keys beforehand, is a read-only one.
    pub reads_at_once: bool,
    /// What the work of processors costs; none if it costs nothing.
    pub costs: Option<Arc<Costs>>,
    /// So many cores are shared by all nodes, as by processes on one machine, and a disk; none if each node has its own.
    pub cores: Option<usize>,
    /// Round trips between a node of one region and a node of another.
    pub round_trips: [[Duration; SITES]; SITES],
    /// By what share messages may take longer.
    pub jitter: f64,
    /// How wrong the clocks of each region are on average, in microseconds.
    pub clock_errors_micros: [f64; SITES],
    /// What survives a crash.
    pub durability: Durability,
    /// How long syncs take.
    pub sync_time: SyncTime,
    /// How its machines are set up.
    pub settings: SettingsOf<S>,
}

/// How far apart two clocks are on average ÷ how wrong each is: errors are exponential, either way.
pub const APART_PER_ERROR: f64 = 1.5;

/// United States, Europe, Asia: round trips between a node of one and a node of another, in microseconds.
const ROUND_TRIP_MICROS: [[u64; SITES]; SITES] =
    [[1_200, 111_000, 166_500], [111_000, 800, 262_000], [166_500, 262_000, 10_800]];

/// How wrong the clocks of each region are on average, in microseconds: two clocks of a region then differ by 3.4, 0.1 and
/// 0.3 ms, as in the paper.
const CLOCK_ERROR_MICROS: [f64; SITES] = [2_270.0, 70.0, 200.0];

/// By what share messages may take longer.
const JITTER: f64 = 0.05;

impl Deployment<Strict> {
    /// One shard of TAPIR with the configuration that servers and clients use by default.
    pub fn new(workload: Parameters) -> Self {
        Deployment::with(tapir(), workload)
    }

    /// Three servers and one client as processes on one machine, as `quorate bench --embedded` runs them: what is said
    /// arrives after `hop`, the clock is the same for all, and so are the cores. `sessions` transactions are in flight.
    pub fn on_one_machine(workload: Parameters, sessions: usize, hop: Duration, cores: usize) -> Self {
        Deployment {
            clients: 1,
            sessions_per_client: sessions,
            cores: Some(cores),
            round_trips: [[2 * hop; SITES]; SITES],
            clock_errors_micros: [0.0; SITES],
            ..Deployment::new(workload)
        }
    }
}

impl<S: System> Deployment<S> {
    fn with(settings: SettingsOf<S>, workload: Parameters) -> Self {
        Deployment {
            shards: 1,
            clients: 30,
            sessions_per_client: 1,
            region: None,
            workload,
            kind: None,
            timed: None,
            apart: false,
            reads_at_once: true,
            costs: None,
            cores: None,
            round_trips: ROUND_TRIP_MICROS.map(|row| row.map(Duration::from_micros)),
            jitter: JITTER,
            clock_errors_micros: CLOCK_ERROR_MICROS,
            durability: Durability::Memory,
            sync_time: SyncTime::TYPICAL,
            settings,
        }
    }

    /// The same deployment of another system, whose machines are set up like this.
    pub fn of<T: System>(&self, settings: SettingsOf<T>) -> Deployment<T> {
        Deployment {
            shards: self.shards,
            clients: self.clients,
            sessions_per_client: self.sessions_per_client,
            region: self.region,
            workload: self.workload.clone(),
            kind: self.kind,
            timed: self.timed,
            apart: self.apart,
            reads_at_once: self.reads_at_once,
            costs: self.costs.clone(),
            cores: self.cores,
            round_trips: self.round_trips,
            jitter: self.jitter,
            clock_errors_micros: self.clock_errors_micros,
            durability: self.durability,
            sync_time: self.sync_time,
            settings,
        }
    }

    /// How many nodes have replicas; as many in each region.
    fn server_nodes(&self) -> usize {
        let groups = if self.apart { self.shards + S::services(&self.settings) } else { 1 };
        SITES * groups
    }

    /// The longest of all round trips.
    pub fn longest_round_trip(&self) -> Duration {
        self.round_trips.iter().flatten().max().copied().unwrap_or_default()
    }

    /// The places of the clients.
    pub fn slots(&self) -> impl Iterator<Item = usize> + use<S> {
        let region = self.region;
        (0..self.clients).filter(move |slot| region.is_none_or(|region| site_of(SITES + slot) == region))
    }

    /// Founds the cluster in a world that the seed determines.
    pub fn found(&self, seed: u64) -> Cluster<S> {
        let system = S::kind(&self.settings);
        let healthy = Options { system, faults: Faults::None, ..Options::new(seed..=seed) };
        let mut random = Random::new(seed);
        let scenario = Scenario {
            shards: self.shards,
            group: group(),
            server_nodes: self.server_nodes(),
            clients: self.clients,
            sessions_per_client: self.sessions_per_client,
            durability: self.durability,
            distance: Distance::Wide,
            site_delays: self.round_trips.map(|row| row.map(|round_trip| round_trip / 2).to_vec()).to_vec(),
            jitter: self.jitter,
            sync_time: self.sync_time,
            costs: self.costs.clone(),
            workload: self.workload.clone(),
            misfortunes: Misfortunes::default(),
            hints: false,
            settings: self.settings.clone(),
            clock_bound: None,
            random: random.fork(),
            ..Scenario::derive(seed, &healthy)
        };
        let nodes = self.server_nodes() + self.clients;
        let mut cluster = Cluster::new(scenario, None, None);
        if let Some(cores) = self.cores {
            cluster.world.share_cores(0..nodes, cores);
            cluster.world.share_disk(0..self.server_nodes());
        }
        for node in 0..nodes {
            // Exponential, with a random sign: most clocks are good and few are bad.
            let error = -self.clock_errors_micros[site_of(node)] * (1.0 - random.unit()).ln();
            let signed = if random.chance(0.5) { error } else { -error };
            *cluster.world.clock(node) = PhysicalClock::new(signed as i64, 0);
        }
        cluster
    }
}

/// Round trips between three zones close to each other: a little less within a zone, so that clients read in their own.
pub fn zones(round_trip: Duration) -> [[Duration; SITES]; SITES] {
    let mut round_trips = [[round_trip; SITES]; SITES];
    for (zone, row) in round_trips.iter_mut().enumerate() {
        row[zone] = round_trip.mul_f64(0.9);
    }
    round_trips
}

/// TAPIR as servers and clients set it up.
pub fn tapir() -> SettingsOf<Strict> {
    Settings {
        coordinator: CoordinatorConfig::new(ClientId::default()),
        replica: ReplicaConfig::new(Default::default(), group(), Boot::Initialise),
    }
}

/// A system on replicated logs as servers and clients set it up.
pub fn on_log(system: quorate_baselines::System) -> SettingsOf<Baseline> {
    let (id, shards) = (Default::default(), Default::default());
    let replica = quorate_baselines::ReplicaConfig::new(id, group(), shards, system);
    Settings {
        coordinator: quorate_baselines::CoordinatorConfig::new(ClientId::default(), system),
        replica: Config::unseated(Timing::DEFAULT, Limits::DEFAULT, u64::MAX, Rules::SOUND, replica),
    }
}

/// The quorum store as the paper's clients use it: a put has been answered before the next is asked for.
pub fn quorum_store() -> SettingsOf<QwStore> {
    let coordinator = quorate_qwstore::CoordinatorConfig::new(ClientId::default());
    Settings {
        coordinator: quorate_qwstore::CoordinatorConfig { puts_in_turn: true, ..coordinator },
        replica: quorate_qwstore::ReplicaConfig::new(Default::default(), group(), Boot::Initialise),
    }
}

fn group() -> GroupSize {
    match GroupSize::new(SITES) {
        Ok(group) => group,
        Err(error) => unreachable!("three replicas are a group: {error}"),
    }
}

/// The site of a node.
fn site_of(node: usize) -> usize {
    node % SITES
}
