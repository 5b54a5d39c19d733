//! Where systems are measured: sites with round trips between them, nodes with clocks and processors, and the clients there.
//!
//! *Source*: TAPIR paper, section 7.1, whose round trips and clock skews the defaults are.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::topology::{Decisions, Durability};
use quorate_core::{ClientId, GroupSize, Random};
use quorate_simulator::cluster::{Alarm, Cluster};
use quorate_simulator::scenario::{Distance, Scenario};
use quorate_simulator::system::strict::Strict;
use quorate_simulator::system::{SettingsOf, System};
use quorate_simulator::world::clock::PhysicalClock;
use quorate_simulator::world::costs::{Costs, SyncTime};
use quorate_simulator::world::network::Misfortunes;
use quorate_simulator::world::{Protocol, World};
use quorate_simulator::{Faults, Options};
use quorate_workloads::Parameters;

use crate::contender::tapir;
use crate::interactive::{Interactive, Transactions};
use crate::load::Driver;

/// A system that can be deployed. Every system of the simulator is one.
pub trait Deployed: Clone + Debug + 'static {
    /// Its machines.
    type Machines: Protocol;
    /// How they are set up.
    type Settings: Clone + Debug;
    /// The transactions that its clients can run.
    type Work: Clone + Debug;
    /// Runs them.
    type Driver: Driver<Self::Machines>;

    /// Sessions begin within so long at most.
    const SPREAD: Duration;

    /// Founds the system in a world that the seed determines.
    fn found(deployment: &Deployment<Self>, seed: u64) -> Founded<Self::Machines>;

    /// A driver that has run nothing yet.
    fn driver(work: &Self::Work) -> Self::Driver;
}

/// A system in its world.
pub struct Founded<P: Protocol> {
    /// The world.
    pub world: World<P, Alarm>,
    /// How many nodes have replicas: the first ones.
    pub server_nodes: usize,
    /// Its clients, as the world numbers them.
    pub clients: Vec<(usize, ClientId)>,
}

/// A system at sites, and its clients.
#[derive(Clone, Debug)]
pub struct Deployment<S: Deployed> {
    /// Shards of the keyspace.
    pub shards: usize,
    /// Replicas of each shard.
    pub replicas: usize,
    /// The nodes that have replicas.
    pub nodes: Nodes,
    /// Clients, as many at each site.
    pub clients: usize,
    /// How many transactions each client runs side by side.
    pub sessions_per_client: usize,
    /// How long a session thinks between two transactions.
    pub think: Duration,
    /// True if that is the average of thoughts that are drawn, exponentially, so that transactions come at random.
    pub is_think_drawn: bool,
    /// Only the clients of this site are there; those of all if none is named.
    pub region: Option<usize>,
    /// The transactions.
    pub work: S::Work,
    /// The costs of the work of processors; none if it costs nothing.
    pub costs: Option<Arc<Costs>>,
    /// So many cores are shared by all nodes, as by processes on one machine, and a disk; none if each node has its own.
    pub cores: Option<usize>,
    /// Round trips between a node of one site and a node of another; there are as many sites.
    pub round_trips: Vec<Vec<Duration>>,
    /// How many bytes a second a link between nodes of two sites carries, each way; without bound if not stated.
    pub bandwidth: Option<u64>,
    /// True if nothing that is sent to another site arrives.
    pub is_cut: bool,
    /// By what share messages may take longer.
    pub jitter: f64,
    /// How wrong clocks are.
    pub clocks: Clocks,
    /// The durability of the keyspace.
    pub durability: Durability,
    /// How long syncs take.
    pub sync_time: SyncTime,
    /// How its machines are set up.
    pub settings: S::Settings,
}

/// The nodes that have replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// So many at each site share all replicas there.
    PerSite(usize),
    /// At each site each group has one of its own.
    PerGroup,
}

/// How wrong clocks are.
#[derive(Clone, Debug, PartialEq)]
pub enum Clocks {
    /// Either way: most clocks are good and few are bad. The average error at each site, in microseconds.
    Exponential(Vec<f64>),
    /// Ahead by any time up to twice this, each alike.
    Ahead(Duration),
}

impl Clocks {
    /// Exponential errors, so that two clocks differ by so many microseconds on average wherever they are.
    pub fn apart(micros: f64) -> Self {
        Clocks::Exponential(vec![micros / APART_PER_ERROR])
    }

    /// The clock of a node at a site.
    pub fn draw(&self, site: usize, random: &mut Random) -> PhysicalClock {
        let offset = match self {
            Clocks::Exponential(errors) => {
                let error = -errors[site % errors.len()] * (1.0 - random.unit()).ln();
                (if random.chance(0.5) { error } else { -error }) as i64
            }
            Clocks::Ahead(error) => random.between(0, 2 * error.as_micros() as u64) as i64,
        };
        PhysicalClock::new(offset, 0)
    }
}

/// How far apart two clocks are on average ÷ how wrong each is: errors are exponential, either way.
const APART_PER_ERROR: f64 = 1.5;

/// The United States, Europe and Asia in the paper.
pub const REGIONS: usize = 3;

/// Round trips between a node of one region and a node of another, in microseconds.
const ROUND_TRIP_MICROS: [[u64; REGIONS]; REGIONS] =
    [[1_200, 111_000, 166_500], [111_000, 800, 262_000], [166_500, 262_000, 10_800]];

/// How wrong the clocks of each region are on average, in microseconds: two clocks of a region then differ by 3.4, 0.1 and
/// 0.3 ms, as in the paper.
const CLOCK_ERROR_MICROS: [f64; REGIONS] = [2_270.0, 70.0, 200.0];

/// All else that is ready at the same time comes before a session goes on.
pub const MOMENT: Duration = Duration::from_nanos(1);

impl Deployment<Strict> {
    /// One shard of TAPIR with the configuration that servers and clients use by default.
    pub fn new(workload: Parameters) -> Self {
        let work = Transactions::new(workload);
        Deployment::over_regions(work, tapir())
    }

    /// Three servers and one client as processes on one machine, as `quorate bench --embedded` runs them: what is said
    /// arrives after `hop`, the clock is the same for all, and so are the cores. `sessions` transactions are in flight.
    pub fn on_one_machine(workload: Parameters, sessions: usize, hop: Duration, cores: usize) -> Self {
        Deployment {
            clients: 1,
            sessions_per_client: sessions,
            cores: Some(cores),
            round_trips: vec![vec![2 * hop; REGIONS]; REGIONS],
            clocks: Clocks::apart(0.0),
            ..Deployment::new(workload)
        }
    }
}

impl<S: Deployed> Deployment<S> {
    /// One shard with a replica in each region of the paper.
    pub fn over_regions(work: S::Work, settings: S::Settings) -> Self {
        Deployment {
            shards: 1,
            replicas: REGIONS,
            nodes: Nodes::PerSite(1),
            clients: 30,
            sessions_per_client: 1,
            think: MOMENT,
            is_think_drawn: false,
            region: None,
            work,
            costs: None,
            cores: None,
            round_trips: ROUND_TRIP_MICROS.map(|row| row.map(Duration::from_micros).to_vec()).to_vec(),
            bandwidth: None,
            is_cut: false,
            jitter: 0.05,
            clocks: Clocks::Exponential(CLOCK_ERROR_MICROS.to_vec()),
            durability: Durability::Memory,
            sync_time: SyncTime::TYPICAL,
            settings,
        }
    }

    /// The same deployment of another system that runs such transactions, whose machines are set up like this.
    pub fn of<T: Deployed<Work = S::Work>>(&self, settings: T::Settings) -> Deployment<T> {
        let Deployment { shards, replicas, nodes, clients, sessions_per_client, think, region, .. } = *self;
        let Deployment { is_think_drawn, bandwidth, is_cut, cores, jitter, durability, sync_time, .. } =
            *self;
        let (work, costs, clocks) = (self.work.clone(), self.costs.clone(), self.clocks.clone());
        let round_trips = self.round_trips.clone();
        Deployment {
            shards,
            replicas,
            nodes,
            clients,
            sessions_per_client,
            think,
            is_think_drawn,
            region,
            work,
            costs,
            cores,
            round_trips,
            bandwidth,
            is_cut,
            jitter,
            clocks,
            durability,
            sync_time,
            settings,
        }
    }

    /// How many sites there are.
    pub fn sites(&self) -> usize {
        self.round_trips.len()
    }

    /// The longest of all round trips.
    pub fn longest_round_trip(&self) -> Duration {
        self.round_trips.iter().flatten().max().copied().unwrap_or_default()
    }

    /// # Panics
    /// If so many replicas are no group.
    pub(crate) fn group(&self, may_be_even: bool) -> GroupSize {
        let group = if may_be_even { GroupSize::on_log } else { GroupSize::new };
        match group(self.replicas) {
            Ok(group) => group,
            Err(error) => panic!("a deployment has groups of so many replicas: {error}"),
        }
    }
}

impl<S: System> Deployed for S {
    type Machines = S;
    type Settings = SettingsOf<S>;
    type Work = Transactions;
    type Driver = Interactive;

    const SPREAD: Duration = Duration::from_millis(500);

    fn found(deployment: &Deployment<S>, seed: u64) -> Founded<S> {
        let healthy = Options {
            system: S::kind(&deployment.settings),
            faults: Faults::None,
            ..Options::new(seed..=seed)
        };
        let mut random = Random::new(seed);
        let sites = deployment.sites();
        let derived = Scenario::derive(seed, &healthy);
        let server_nodes = sites
            * match deployment.nodes {
                Nodes::PerSite(nodes) => nodes,
                Nodes::PerGroup => deployment.shards + S::services(&deployment.settings),
            };
        let one_way = |row: &Vec<Duration>| row.iter().map(|round_trip| *round_trip / 2).collect();
        let scenario = Scenario {
            shards: deployment.shards,
            group: deployment.group(S::ISOLATION.has_homes()),
            // Each node leads a shard, and has a client that stays there.
            leaders_apart: S::ISOLATION.has_homes() || derived.leaders_apart,
            decisions: Decisions::Site,
            server_nodes,
            clients: deployment.clients,
            sessions_per_client: deployment.sessions_per_client,
            durability: deployment.durability,
            distance: Distance::Wide,
            site_delays: deployment.round_trips.iter().map(one_way).collect(),
            bandwidth: None,
            jitter: deployment.jitter,
            sync_time: deployment.sync_time,
            costs: deployment.costs.clone(),
            workload: deployment.work.workload.clone(),
            misfortunes: Misfortunes::default(),
            hints: false,
            settings: deployment.settings.clone(),
            clock_bound: None,
            random: random.fork(),
            ..derived
        };
        let mut cluster = Cluster::new(scenario, None, None);
        let nodes = 0..server_nodes + deployment.clients;
        if let Some(cores) = deployment.cores {
            cluster.world.share_cores(nodes.clone(), cores);
            cluster.world.share_disk(0..server_nodes);
        }
        for node in nodes.clone() {
            *cluster.world.clock(node) = deployment.clocks.draw(node % sites, &mut random);
        }
        let between_sites = |from: &usize, to: &usize| from % sites != to % sites;
        for from in nodes.clone() {
            for to in nodes.clone().filter(|to| between_sites(&from, to)) {
                if let Some(bandwidth) = deployment.bandwidth {
                    cluster.world.network().set_link_bandwidth(from, to, bandwidth);
                }
                if deployment.is_cut {
                    cluster.world.network().cut(from, to);
                }
            }
        }
        let is_there = |slot: &usize| deployment.region.is_none_or(|region| slot % sites == region);
        let slots = (0..deployment.clients).filter(is_there);
        let clients = slots.map(|slot| cluster.start_client(slot)).collect();
        Founded { world: cluster.world, server_nodes, clients }
    }

    fn driver(work: &Transactions) -> Interactive {
        Interactive::new(work.clone())
    }
}

/// Round trips between three zones close to each other: a little less within a zone, so that clients read in their own.
pub fn zones(round_trip: Duration) -> Vec<Vec<Duration>> {
    let within = |zone, other| if zone == other { round_trip.mul_f64(0.9) } else { round_trip };
    (0..REGIONS).map(|zone| (0..REGIONS).map(|other| within(zone, other)).collect()).collect()
}
