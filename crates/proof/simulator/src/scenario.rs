//! The scenario of one seed: everything is derived from it here, before anything runs.

use std::sync::Arc;
use std::time::Duration;

use quorate_checker::Level;
use quorate_core::rules::Plants;
use quorate_core::topology::{Decisions, Durability, Isolation, SerialOrder};
use quorate_core::{GroupSize, Random};
use quorate_workloads::lists::Mix;
use quorate_workloads::workload::EVERYTHING;
use quorate_workloads::{Hotspot, Parameters, Popularity, WorkloadKind};

use crate::backups::has_backups;
use crate::calibrated;
use crate::clients::expiring::{Lifetimes, draw_lifetimes};
use crate::clients::indexing::has_indexes;
use crate::clients::script::Scripted;
use crate::consumers::has_consumers;
use crate::fault::Fault;
use crate::hosts::{HostPlant, Hosts};
use crate::modes;
use crate::options::{Faults, Options};
use crate::swarm::Swarm;
use crate::system::{SettingsOf, Sketch, System, can_strike};
use crate::world::costs::{Batching, Costs, SyncTime};
use crate::world::network::Misfortunes;

/// How far sites are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// One data centre.
    Local,
    /// One region.
    Region,
    /// Continents.
    Wide,
}

/// One simulation, fully determined.
#[derive(Clone, Debug)]
pub struct Scenario<S: System> {
    /// The seed.
    pub seed: u64,
    /// Shards of the keyspace.
    pub shards: usize,
    /// Replicas of each shard.
    pub group: GroupSize,
    /// Nodes that host replicas.
    pub server_nodes: usize,
    /// Clients, each with a coordinator and a node of its own.
    pub clients: usize,
    /// How many transactions each client runs side by side.
    pub sessions_per_client: usize,
    /// The state that survives a crash.
    pub durability: Durability,
    /// How far apart sites are.
    pub distance: Distance,
    /// One-way delays between sites.
    pub site_delays: Vec<Vec<Duration>>,
    /// How many bytes a second each link between two nodes carries; without bound if not stated.
    pub bandwidth: Option<u64>,
    /// True if shards are led from different sites at first, and so by different clocks; else all of them from one.
    pub leaders_apart: bool,
    /// Where decisions stand, in a system that has homes.
    pub decisions: Decisions,
    /// By what share messages may take longer.
    pub jitter: f64,
    /// How many times as long as usual it is.
    pub length: u64,
    /// The costs of the work of processors; none if it costs nothing.
    pub costs: Option<Arc<Costs>>,
    /// How long syncs take.
    pub sync_time: SyncTime,
    /// How long faults are injected.
    pub safety_phase: Duration,
    /// How many transactions are begun, not counting further attempts.
    pub transactions: u64,
    /// How often a transaction that met a conflict is attempted.
    pub attempts_max: u32,
    /// The probability that a client thinks before a step.
    pub thinking: f64,
    /// True if TPC-C runs beside the workload.
    pub trades: bool,
    /// True if leases are asked for beside the workload.
    pub leases: bool,
    /// True if procedures are deployed and removed beside the workload.
    pub deployments: bool,
    /// True if indexes are kept beside the workload.
    pub indexes: bool,
    /// The rules of values that expire beside the workload; none if there are none.
    pub lifetimes: Option<Lifetimes>,
    /// True if consumers follow what commits.
    pub consumers: bool,
    /// True if backups are taken.
    pub backups: bool,
    /// The share of what could be asked for in one round that is, where the system runs such transactions.
    pub one_round: f64,
    /// The share of what could be independent that is coordinated all the same, where it is asked for in one round. Of what is independent
    /// because its client vouches for it, two and a half times as much.
    pub coordinated: f64,
    /// How often a session goes on at another client, where clients can hand over what they have seen.
    pub moves: f64,
    /// The workload.
    pub workload: Parameters,
    /// The script of each session instead of the workload, if there is one.
    pub script: Vec<Vec<Scripted>>,
    /// The faults, ascending.
    pub faults: Vec<Fault>,
    /// The faults of single messages while faults are injected.
    pub misfortunes: Misfortunes,
    /// The mean time between two strikes of one fault.
    pub strike_interval: Duration,
    /// The configuration that makes few features frequent, if that is how the seed is run.
    pub swarm: Option<Swarm>,
    /// True if clients are told which replicas are down.
    pub hints: bool,
    /// How long a server takes for each message and timer.
    pub service_time: Duration,
    /// The settings of nodes beside their machines.
    pub hosts: Hosts,
    /// How the machines are set up.
    pub settings: SettingsOf<S>,
    /// The bound of clocks that the keyspace states. All clocks keep within it.
    pub clock_bound: Option<Duration>,
    /// The mistake that hosts make, if one is planted.
    pub host_plant: Option<HostPlant>,
    /// The stream from which everything that happens is drawn.
    pub random: Random,
}

/// Most simulations have so many sites.
pub const SITES: usize = 3;

/// How far off a clock is that a time service keeps right, beyond a few round trips.
pub const CLOCK_ERROR: Duration = Duration::from_millis(1);

/// Under these faults timestamps are further off than any bound: clocks are, or clients lie about theirs.
const OFF_CLOCKS: [Fault; 8] = [
    Fault::ClockSkew,
    Fault::ClockDrift,
    Fault::ClockJumps,
    Fault::ClockStrobes,
    Fault::FrozenClocks,
    Fault::FarClocks,
    Fault::ClockLeaps,
    Fault::HostileClients,
];

/// So often a seed is run in a certain mode.
const MODE_PROBABILITY: f64 = 0.1;

/// So often groups change beside whatever else strikes, where they can.
const MEMBERSHIP_PROBABILITY: f64 = 0.15;

/// In so many seeds sites are lost for good.
const SITE_LOSS_PROBABILITY: f64 = 0.25;

/// So often each of the faults of hosts is there beside whatever else strikes.
const HOSTS_PROBABILITY: f64 = 0.1;

/// So many seeds have each of the faults after which an operator says that something is lost for good.
const LOSSES_PROBABILITY: f64 = 0.1;

/// So often nodes forget beside whatever else strikes.
const AMNESIA_PROBABILITY: f64 = 0.15;

/// The fewest transactions that a seed begins.
pub const TRANSACTIONS_MIN: u64 = 200;

/// Every fourth seed with enough sites has homes across them.
fn draw_decisions(sites: usize, random: &mut Random) -> Decisions {
    match random.chance(0.25) && sites >= 3 {
        true => Decisions::AcrossSites,
        false => Decisions::Site,
    }
}

impl<S: System> Scenario<S> {
    /// The scenario of a seed.
    pub fn derive(seed: u64, options: &Options) -> Self {
        // Everything is drawn from a stream of its own, so that a new draw changes no older one.
        let stream = |name| Random::stream(seed, name);
        let group = match GroupSize::new(draw_group::<S>(&mut stream("group"))) {
            Ok(group) => group,
            Err(error) => unreachable!("{error}"),
        };
        let relays = S::RUNS_ONE_ROUND && draw_relay(seed, options);
        let (clients, sessions_per_client) = draw_clients(relays, &mut stream("clients"));
        let sites = draw_sites::<S>(group, relays, &mut stream("sites"));
        let shards = draw_shards::<S>(relays, sites, &mut stream("shards"));
        let server_nodes = draw_server_nodes::<S>(group, sites, &mut stream("nodes"));
        let distance = if relays { Distance::Wide } else { draw_distance(&mut stream("distance")) };
        let mut site_delays = draw_site_delays(distance, sites, &mut stream("delays"));
        if relays {
            set_apart(&mut site_delays);
        }
        let swarm = (options.faults == Faults::Swarm).then(|| Swarm::draw::<S>(seed));
        let faults = swarm.as_ref().map_or_else(|| draw_faults::<S>(seed, &options.faults), Swarm::faults);
        let has_spare = S::ISOLATION.has_homes() && faults.contains(&Fault::Membership);
        let server_nodes = server_nodes + if has_spare { sites } else { 0 };
        // The crash of the only replica loses its memory, and no keyspace promises otherwise.
        let durability = match group.replicas() {
            1 => Durability::Sync,
            _ => draw_durability(&options.faults, &faults, &mut stream("durability")),
        };
        let round_trip = 2 * site_delays.iter().flatten().max().copied().unwrap_or_default();
        let settings =
            S::draw_settings(&Sketch { seed, options, group, round_trip }, &mut stream("settings"));
        // A bound of clocks is stated only where the serial order is to follow real time.
        let follows_real_time =
            S::timestamping(&settings).is_none_or(|timestamping| timestamping.order == SerialOrder::RealTime);
        let misfortunes = draw_misfortunes(&faults, &mut stream("misfortunes"));
        let sessions = (clients * sessions_per_client) as u64;
        let mut load = stream("load");
        let mut scenario = Scenario {
            seed,
            shards,
            group,
            server_nodes,
            clients,
            sessions_per_client,
            durability,
            distance,
            site_delays,
            bandwidth: draw_bandwidth(&faults, &mut stream("bandwidth")),
            leaders_apart: S::RUNS_ONE_ROUND && stream("leaders apart").chance(0.5),
            decisions: draw_decisions(sites, &mut stream("decisions")),
            jitter: [0.05, 0.3, 1.0][stream("jitter").index(3)],
            length: options.length,
            safety_phase: options.length as u32 * Duration::from_millis(load.between(10_000, 14_000)),
            transactions: options.length * (TRANSACTIONS_MIN + sessions + load.below(60)),
            costs: draw_costs(&faults, &mut stream("costs")),
            sync_time: SyncTime::TYPICAL,
            thinking: 0.4 + 0.4 * load.unit(),
            attempts_max: load.between(2, 6) as u32,
            trades: S::RUNS_ONE_ROUND && draw_trades(options, &mut stream("trades")),
            leases: S::RUNS_ONE_ROUND && stream("with leases").chance(LEASES_PROBABILITY),
            deployments: S::RUNS_ONE_ROUND && stream("with deployments").chance(DEPLOYMENTS_PROBABILITY),
            // In a long seed each backup would read all that has ever been written.
            backups: S::BACKED_UP && options.length == 1 && has_backups::<S>(seed, options.plant_id()),
            indexes: has_indexes::<S>(seed, options.plant_id())
                && follows_real_time
                && !faults.contains(&Fault::AcceptedLoss),
            lifetimes: draw_lifetimes::<S>(seed, options.plant_id()).filter(|_| {
                let has_lists = has_indexes::<S>(seed, options.plant_id());
                options.length == 1
                    && follows_real_time
                    && !has_lists
                    && !faults.contains(&Fault::AcceptedLoss)
            }),
            consumers: S::TELLS_CHANGES && has_consumers::<S>(seed, options.plant_id()),
            one_round: [0.0, 0.3, 0.7, 0.7, 0.9, 1.0][stream("one round").index(6)],
            coordinated: 0.2,
            moves: 0.1,
            workload: Parameters {
                mix: draw_mix::<S>(&mut stream("mix")),
                ..draw_workload(options.workload, clients as u64, &mut stream("workload"))
            },
            script: Vec::new(),
            clock_bound: draw_clock_bound(distance, &faults, round_trip, &mut stream("clock bound"))
                .filter(|_| follows_real_time),
            faults,
            misfortunes,
            strike_interval: Duration::from_millis(stream("strikes").between(600, 4_000)),
            swarm: None,
            hints: stream("hints").chance(0.5),
            service_time: Duration::ZERO,
            hosts: Hosts::default(),
            settings,
            host_plant: options.plant_id().and_then(HostPlant::with_id),
            random: stream("execution"),
        };
        if relays {
            relay(&mut scenario);
        }
        // Under overload, when everything is concurrent, counts would leave too much open, those of counters above all.
        if scenario.has(Fault::Overload) && scenario.workload.mix == Mix::Counters {
            scenario.workload.mix = Mix::Sets;
        }
        let may_draw = !scenario.has(Fault::Overload) && options.workload.is_none();
        let is_asked = options.workload.is_some_and(WorkloadKind::needs_sets);
        if S::ISOLATION.stands_in_sites() && (may_draw || is_asked) {
            draw_network(options.workload, &mut scenario.workload, &mut stream("network"));
        }
        if let Some(swarm) = swarm {
            swarm.apply(&mut scenario, &mut stream("swarm limits"));
            scenario.swarm = Some(swarm);
        }
        modes::apply(&mut scenario, &mut stream("mode limits"));
        scenario.hosts = Hosts::draw(&scenario.faults, scenario.bandwidth, &mut stream("hosts"));
        // All that is called waits for a change, and nodes that admit next to nothing meanwhile would take hours for a seed.
        scenario.deployments &= !scenario.has(Fault::LowMarks);
        if scenario.has(Fault::Rights) {
            // The clients of these do not ask again what a denial leaves open. A backup only reads, and comes to nothing.
            (scenario.trades, scenario.leases, scenario.indexes) = (false, false, false);
            scenario.deployments = false;
            scenario.lifetimes = None;
        }
        scenario
    }

    /// The level that histories are promised; none if nothing is.
    pub fn level(&self) -> Option<Level> {
        S::level(&self.settings)
    }

    /// True if transactions beside the workload ask for several shards by their names.
    pub fn has_errands(&self) -> bool {
        self.trades || self.leases || self.deployments || self.freezes()
    }

    /// True if backups are taken of what a transaction freezes. Hostile clients may tell each shard different writes.
    pub fn freezes(&self) -> bool {
        self.backups && S::ISOLATION == Isolation::Serializable && !self.has(Fault::HostileClients)
    }

    /// True if this fault is injected.
    pub fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }

    /// How many sites there are.
    pub fn sites(&self) -> usize {
        self.site_delays.len()
    }

    /// True if a node has no machine of a home at first: where members change, each site has one such node.
    pub fn is_spare(&self, node: usize) -> bool {
        self.faults.contains(&Fault::Membership) && node + self.sites() >= self.server_nodes
    }

    /// How many transactions run side by side.
    pub fn sessions(&self) -> usize {
        self.clients * self.sessions_per_client
    }

    /// The longest way there and back, without jitter.
    pub fn round_trip(&self) -> Duration {
        2 * self.site_delays.iter().flatten().max().copied().unwrap_or_default()
    }

    /// The same with as much jitter as there may be.
    pub fn slow_round_trip(&self) -> Duration {
        self.round_trip().mul_f64(1.0 + self.jitter)
    }
}

/// How many replicas a group has.
fn draw_group<S: System>(random: &mut Random) -> usize {
    let is_large = random.chance(0.3);
    match S::ISOLATION.stands_in_sites() {
        true => [1, 1, 3, 3, 3, 5][random.index(6)],
        false if is_large => 5,
        false => 3,
    }
}

/// How many shards there are. Groups that stand in sites are one in each, or sometimes two.
fn draw_shards<S: System>(relays: bool, sites: usize, random: &mut Random) -> usize {
    match random.between(1, 3) as usize {
        _ if S::IS_SPREAD => 1,
        1 if S::ISOLATION.stands_in_sites() => 2 * sites,
        _ if S::ISOLATION.stands_in_sites() => sites,
        1 if relays => 3,
        shards => shards,
    }
}

/// How many clients there are, and how many sessions each has.
fn draw_clients(relays: bool, random: &mut Random) -> (usize, usize) {
    let clients = random.between(3, 5) as usize;
    (if relays { 2 * clients } else { clients }, random.between(2, 4) as usize)
}

/// How many sites there are: mostly one for each replica of the smallest group; sometimes a site holds several, or there are more sites
/// than a group needs.
fn draw_sites<S: System>(group: GroupSize, relays: bool, random: &mut Random) -> usize {
    if S::IS_SPREAD {
        return group.replicas();
    }
    let sites = [SITES, SITES, SITES, SITES, SITES, 2, 4, 5][random.index(8)];
    if relays { SITES } else { sites }
}

/// As many nodes as a group has replicas and as there are sites, so that a client of each site finds a node there; sometimes spare ones.
/// Where groups stand in sites, as many in each.
fn draw_server_nodes<S: System>(group: GroupSize, sites: usize, random: &mut Random) -> usize {
    if S::ISOLATION.stands_in_sites() {
        return sites * group.replicas();
    }
    let spare = if random.chance(0.3) { random.index(3) } else { 0 };
    group.replicas().max(sites) + spare
}

fn draw_distance(random: &mut Random) -> Distance {
    [Distance::Local, Distance::Region, Distance::Wide][random.index(3)]
}

/// Most seeds have links that carry whatever there is at once. In the others large messages take their time, and small ones wait behind
/// them. (Not where a healthy core has a limited time to do without the rest.)
fn draw_bandwidth(faults: &[Fault], random: &mut Random) -> Option<u64> {
    let is_narrow = random.chance(0.15) && !faults.contains(&Fault::HealthyCore);
    let bytes_per_second = random.between(500_000, 5_000_000);
    is_narrow.then_some(bytes_per_second)
}

/// Most seeds have processors that take no time. In the others they are slow, so that queues form, and speak in one of both
/// ways. (Not where a healthy core has a limited time to do without the rest.)
fn draw_costs(faults: &[Fault], random: &mut Random) -> Option<Arc<Costs>> {
    if !random.chance(0.2) || faults.contains(&Fault::HealthyCore) {
        return None;
    }
    let batching = if random.chance(0.5) { Batching::Turns } else { Batching::None };
    let factor = 10_f64.powf(random.unit());
    Some(Arc::new(Costs { batching, ..calibrated::costs().times(factor) }))
}

/// How far apart any two clocks are if all are right, in half of the seeds in which that is stated.
fn draw_clock_bound(
    distance: Distance,
    faults: &[Fault],
    round_trip: Duration,
    random: &mut Random,
) -> Option<Duration> {
    let can = distance != Distance::Wide && !faults.iter().any(|fault| OFF_CLOCKS.contains(fault));
    (random.chance(0.5) && can).then_some(2 * (CLOCK_ERROR + 2 * round_trip))
}

/// So many seeds ask for leases.
const LEASES_PROBABILITY: f64 = 0.1;

/// So many seeds deploy procedures.
const DEPLOYMENTS_PROBABILITY: f64 = 0.15;

/// Some seeds run TPC-C, or all.
fn draw_trades(options: &Options, random: &mut Random) -> bool {
    const PROBABILITY: f64 = 0.1;
    options.tpcc || random.chance(PROBABILITY)
}

/// How many keys sessions hop between. Two thirds of them are lists: enough for some that meet and some that do not at each shard.
const RELAY_KEYS: u64 = 12;

/// In some seeds sessions go on at other clients all the time.
fn draw_relay(seed: u64, options: &Options) -> bool {
    const PROBABILITY: f64 = 0.2;
    let can = options.workload.is_none_or(|kind| kind == WorkloadKind::Lists);
    can && Random::stream(seed, "relay").chance(PROBABILITY)
}

/// Sessions hop from client to client and from shard to shard, while others look at everything at once: that a step stands before
/// what its session has seen elsewhere shows only to a session that looks in between. Coordinated transactions come seldom enough for shards to
/// go by timestamps most of the time.
fn relay<S: System>(scenario: &mut Scenario<S>) {
    scenario.sessions_per_client = 2;
    scenario.transactions *= 3;
    scenario.leaders_apart = true;
    scenario.one_round = 1.0;
    scenario.coordinated = 0.1;
    scenario.moves = 0.6;
    scenario.workload = Parameters {
        kind: WorkloadKind::Lists,
        keys: RELAY_KEYS,
        popularity: Popularity::Uniform,
        mix: Mix::Relay,
        ..scenario.workload.clone()
    };
}

/// The site from which the second shard is led lies far away from the others, which are near to each other. So a step of a session is
/// durable there before the far one hears of a vote that was sent before.
fn set_apart(site_delays: &mut [Vec<Duration>]) {
    const FAR: usize = 1;
    let farthest = site_delays.iter().flatten().max().copied().unwrap_or_default();
    for (one, delays) in site_delays.iter_mut().enumerate() {
        for (other, delay) in delays.iter_mut().enumerate().filter(|(other, _)| *other != one) {
            *delay = if one == FAR || other == FAR { farthest } else { farthest / 20 };
        }
    }
}

fn draw_site_delays(distance: Distance, sites: usize, random: &mut Random) -> Vec<Vec<Duration>> {
    let (low, high) = match distance {
        Distance::Local => (60, 300),
        Distance::Region => (500, 4_000),
        Distance::Wide => (10_000, 80_000),
    };
    let mut delays = vec![vec![Duration::ZERO; sites]; sites];
    let mut set = |one: usize, other: usize, micros| {
        delays[one][other] = Duration::from_micros(micros);
        delays[other][one] = Duration::from_micros(micros);
    };
    for site in 0..sites {
        set(site, site, random.between(50, 300));
        for other in 0..site {
            set(site, other, random.between(low, high));
        }
    }
    delays
}

/// Few faults at a time leave each room to show, and many together reach what none reaches alone.
fn draw_faults<S: System>(seed: u64, choice: &Faults) -> Vec<Fault> {
    let mut faults = draw_strikes::<S>(choice, &mut Random::stream(seed, "faults"));
    if *choice == Faults::All {
        let strikes = |name, probability| Random::stream(seed, name).chance(probability);
        // A seed about anything else can be run in any mode.
        let mut modes = Random::stream(seed, "modes");
        faults.extend(Fault::MODES.into_iter().filter(|_| modes.chance(MODE_PROBABILITY)));
        faults.extend(strikes("amnesia", AMNESIA_PROBABILITY).then_some(Fault::Amnesia));
        let changes_groups = S::CHANGES_GROUPS && strikes("membership", MEMBERSHIP_PROBABILITY);
        faults.extend(changes_groups.then_some(Fault::Membership));
        let loses_sites = S::LOSES_SITES && strikes("site-loss", SITE_LOSS_PROBABILITY);
        faults.extend(loses_sites.then_some(Fault::SiteLoss));
        let hosts = Fault::HOSTS.into_iter().filter(|fault| can_strike::<S>(*fault));
        faults.extend(hosts.filter(|fault| strikes(fault.name(), HOSTS_PROBABILITY)));
        let losses = Fault::LOSSES.into_iter().filter(|fault| can_strike::<S>(*fault));
        faults.extend(losses.filter(|fault| strikes(fault.name(), LOSSES_PROBABILITY)));
        faults.sort_unstable();
    }
    faults
}

fn draw_strikes<S: System>(choice: &Faults, random: &mut Random) -> Vec<Fault> {
    let is_drawn = |fault: &Fault| {
        let is_drawn_apart = Fault::MODES.contains(fault)
            || Fault::HOSTS.contains(fault)
            || Fault::LOSSES.contains(fault)
            || matches!(fault, Fault::Membership | Fault::Amnesia | Fault::SiteLoss);
        !is_drawn_apart && can_strike::<S>(*fault)
    };
    let striking = || Fault::ALL.into_iter().filter(is_drawn);
    match choice {
        // A configuration names its own.
        Faults::None | Faults::Swarm => Vec::new(),
        Faults::Named(faults) => faults.clone(),
        Faults::All if random.chance(0.3) => draw_conspiracy(random),
        Faults::All if random.chance(0.5) => {
            let mut faults = draw_one_of_each(random);
            faults.retain(|fault| can_strike::<S>(*fault));
            faults
        }
        Faults::All => {
            let probability = if random.chance(0.5) { 0.1 } else { 0.3 };
            let mut faults: Vec<Fault> = striking().filter(|_| random.chance(probability)).collect();
            let one = random.index(striking().count());
            if faults.is_empty() {
                faults.extend(striking().nth(one));
            }
            faults
        }
    }
}

/// One fault of messages, one of clocks, one of processes or disks: most known mistakes need a late message, a wrong clock and a
/// coordinator that is no more. The likeliest of each stand twice.
fn draw_one_of_each(random: &mut Random) -> Vec<Fault> {
    const MESSAGES: [Fault; 15] = [
        Fault::Reordering,
        Fault::Reordering,
        Fault::LateMessages,
        Fault::LateMessages,
        Fault::Loss,
        Fault::Duplication,
        Fault::LateDuplicates,
        Fault::CorruptedFrames,
        Fault::DelaySpikes,
        Fault::Partitions,
        Fault::OneWayPartitions,
        Fault::PartialPartitions,
        Fault::RingPartitions,
        Fault::FlappingLinks,
        Fault::SiteOutages,
    ];
    const CLOCKS: [Fault; 9] = [
        Fault::ClockSkew,
        Fault::ClockSkew,
        Fault::ClockSkew,
        Fault::ClockJumps,
        Fault::ClockStrobes,
        Fault::ClockDrift,
        Fault::FrozenClocks,
        Fault::FarClocks,
        Fault::ClockLeaps,
    ];
    const PROCESSES: [Fault; 17] = [
        Fault::ClientCrashes,
        Fault::ClientCrashes,
        Fault::ClientCrashes,
        Fault::ClientCrashes,
        Fault::ClientCrashes,
        Fault::NodeCrashes,
        Fault::RestartStorms,
        Fault::RollingRestarts,
        Fault::PowerLoss,
        Fault::EmptyDisks,
        Fault::Pauses,
        Fault::LongPauses,
        Fault::SlowNodes,
        Fault::RecoveryCrashes,
        Fault::RecoveryDuels,
        Fault::HostileClients,
        Fault::ViewChanges,
    ];
    const DISKS: [Fault; 8] = [
        Fault::SlowDisks,
        Fault::TornWrites,
        Fault::BitRot,
        Fault::MisdirectedWrites,
        Fault::WrongDisks,
        Fault::FullDisks,
        Fault::FailingDisks,
        Fault::FailedSyncs,
    ];
    let of_processes: &[Fault] = if random.chance(0.2) { &DISKS } else { &PROCESSES };
    let mut faults = vec![
        MESSAGES[random.index(MESSAGES.len())],
        CLOCKS[random.index(CLOCKS.len())],
        of_processes[random.index(of_processes.len())],
    ];
    faults.sort_unstable();
    faults
}

/// Faults that are worst together: what one of them leaves half done, the others make somebody else decide.
fn draw_conspiracy(random: &mut Random) -> Vec<Fault> {
    const CONSPIRACIES: [&[Fault]; 9] = [
        // A retry, and the late prepare from before it.
        &[Fault::Reordering, Fault::ClockSkew, Fault::ClientCrashes],
        // A view change while decisions and votes are under way.
        &[Fault::LateMessages, Fault::NodeCrashes, Fault::ClientCrashes],
        &[Fault::DelaySpikes, Fault::PowerLoss, Fault::ClientCrashes],
        &[Fault::PowerLoss, Fault::ClientCrashes],
        // A majority that met without the one that comes back next.
        &[Fault::Partitions, Fault::NodeCrashes, Fault::ClientCrashes],
        &[Fault::Loss, Fault::Partitions, Fault::EmptyDisks],
        // Votes that are said, repeated and forgotten.
        &[Fault::Duplication, Fault::PowerLoss, Fault::SlowDisks],
        // A coordinator that comes back when others have settled its transactions.
        &[Fault::LateMessages, Fault::NodeCrashes, Fault::Pauses],
        &[Fault::Loss, Fault::DelaySpikes, Fault::OneWayPartitions, Fault::NodeCrashes],
    ];
    let mut faults = CONSPIRACIES[random.index(CONSPIRACIES.len())].to_vec();
    faults.sort_unstable();
    faults
}

/// Memory cannot survive a loss of power, and has no disk to which anything could happen.
fn draw_durability(choice: &Faults, faults: &[Fault], random: &mut Random) -> Durability {
    let needs_disks = |fault: &Fault| *fault == Fault::PowerLoss || fault.needs_disks();
    let disks_named = matches!(choice, Faults::Named(_)) && faults.contains(&Fault::EmptyDisks);
    let memory = random.chance(0.3) && !disks_named && !faults.iter().any(needs_disks);
    if memory { Durability::Memory } else { Durability::Sync }
}

fn draw_misfortunes(faults: &[Fault], random: &mut Random) -> Misfortunes {
    let mut draw = |fault: Fault, low: f64, high: f64| {
        let share = random.unit();
        if faults.contains(&fault) { low + (high - low) * share } else { 0.0 }
    };
    Misfortunes {
        loss: draw(Fault::Loss, 0.005, 0.15),
        duplication: draw(Fault::Duplication, 0.01, 0.3),
        late_duplicate: draw(Fault::LateDuplicates, 0.005, 0.05),
        reordering: draw(Fault::Reordering, 0.02, 0.5),
        late: draw(Fault::LateMessages, 0.005, 0.1),
        corruption: draw(Fault::CorruptedFrames, 0.001, 0.03),
    }
}

/// Where there are counting sets, most seeds use them.
fn draw_mix<S: System>(random: &mut Random) -> Mix {
    let has_sets = S::ISOLATION.stands_in_sites() && random.chance(0.7);
    if has_sets { Mix::Counters } else { Mix::Broad }
}

/// Some seeds run a social network over counting sets instead, with few users.
fn draw_network(choice: Option<WorkloadKind>, workload: &mut Parameters, random: &mut Random) {
    const PROBABILITY: f64 = 0.2;
    let is_one = random.chance(PROBABILITY);
    let drawn = [WorkloadKind::WaltSocial, WorkloadKind::RetwisPsi][random.index(2)];
    let kind = choice.unwrap_or(drawn);
    // Of changes of one count nobody can tell which of them a reader has seen, and where no register is written that another
    // transaction reads, nothing else tells: so few of them are about one pair of users.
    let users = match kind {
        WorkloadKind::RetwisPsi => random.between(14, 22),
        _ => random.between(8, 14),
    };
    if is_one || choice.is_some() {
        workload.kind = kind;
        workload.shares = EVERYTHING;
        workload.keys = users;
    }
}

fn draw_workload(choice: Option<WorkloadKind>, clients: u64, random: &mut Random) -> Parameters {
    let drawn = match random.below(10) {
        0 => WorkloadKind::Retwis,
        1 => WorkloadKind::Rmw,
        _ => WorkloadKind::Lists,
    };
    let kind = choice.unwrap_or(drawn);
    let keys = match kind {
        WorkloadKind::Rmw | WorkloadKind::Writes | WorkloadKind::YcsbT | WorkloadKind::Counters => {
            random.between(3, 8)
        }
        WorkloadKind::Retwis => random.between(10, 30),
        WorkloadKind::Lists => random.between(8, 15),
        WorkloadKind::WaltSocial | WorkloadKind::RetwisPsi => random.between(8, 14),
        WorkloadKind::Hotspot => random.between(10, 20),
    };
    let popularity = [Popularity::Uniform, Popularity::Zipf(0.6), Popularity::Zipf(1.1)][random.index(3)];
    let generations = random.between(1, 5);
    let mut hotspot = Hotspot::default();
    if kind == WorkloadKind::Hotspot {
        // Ten keys, read one by one over far links, are more than what is left of a seed has time for.
        hotspot = Hotspot { accesses: random.between(2, 5) as usize, remote_percent: 30, ..hotspot };
    }
    Parameters {
        hotspot,
        keys,
        popularity,
        value_bytes_min: 0,
        judged: true,
        // Each client draws about this many transactions.
        generation_transactions: (TRANSACTIONS_MIN / clients / generations).max(2),
        ..Parameters::new(kind)
    }
}

#[cfg(test)]
mod tests {
    use quorate_tapir::Plant;

    use super::*;
    use crate::SystemKind;
    use crate::system::parallel_snapshot::ParallelSnapshot;
    use crate::system::serializable::Serializable;
    use crate::system::strict::Strict;

    fn scenarios(options: &Options) -> Vec<Scenario<Strict>> {
        options.seeds.clone().map(|seed| Scenario::derive(seed, options)).collect()
    }

    #[test]
    fn every_seed_is_as_large_as_was_promised() {
        let scenarios = scenarios(&Options::new(1..=1_000));
        for scenario in &scenarios {
            assert!(
                scenario.clients >= 3 && scenario.transactions >= 200 && (1..=3).contains(&scenario.shards)
            );
            assert!(scenario.safety_phase >= Duration::from_secs(10) && !scenario.faults.is_empty());
            assert!(scenario.server_nodes >= scenario.group.replicas());
            assert!(scenario.faults.is_sorted());
            let crashes_everything = scenario.has(Fault::PowerLoss);
            assert!(!(crashes_everything && scenario.durability == Durability::Memory));
        }
        let with_five = scenarios.iter().filter(|scenario| scenario.group.replicas() == 5).count();
        assert!((250..350).contains(&with_five), "{with_five} of 1000 seeds have five replicas");
    }

    #[test]
    fn every_choice_is_reached() {
        let scenarios = scenarios(&Options::new(1..=300));
        for fault in Fault::ALL.into_iter().filter(|fault| SystemKind::STRICT.can_strike(*fault)) {
            assert!(scenarios.iter().any(|scenario| scenario.has(fault)), "{fault}");
        }
        // Nothing conflicts in `ycsb-t` that does not in `rmw`, so it is not drawn.
        for kind in [WorkloadKind::Rmw, WorkloadKind::Retwis, WorkloadKind::Lists] {
            assert!(scenarios.iter().any(|scenario| scenario.workload.kind == kind), "{kind}");
        }
        for distance in [Distance::Local, Distance::Region, Distance::Wide] {
            assert!(scenarios.iter().any(|scenario| scenario.distance == distance), "{distance:?}");
        }
        assert!(scenarios.iter().any(|scenario| scenario.durability == Durability::Memory));
        let serializable =
            scenarios.iter().filter(|scenario| scenario.level() == Some(Level::Serializable)).count();
        assert!((15..60).contains(&serializable), "{serializable} of 300 seeds run the variant");
        for batching in [Batching::None, Batching::Turns] {
            let batches = |costs: &Arc<Costs>| costs.batching == batching;
            assert!(scenarios.iter().any(|scenario| scenario.costs.as_ref().is_some_and(batches)));
        }
    }

    #[test]
    fn social_networks_run_in_some_seeds_of_systems_that_have_sets() {
        let options = Options { faults: Faults::None, ..Options::new(1..=300) };
        let needs_sets = |parameters: &Parameters| parameters.kind.needs_sets();
        assert!(!scenarios(&options).iter().any(|scenario| needs_sets(&scenario.workload)));
        let derive = |options: &Options| {
            let derive = |seed| Scenario::<ParallelSnapshot>::derive(seed, options).workload;
            options.seeds.clone().map(derive).collect::<Vec<_>>()
        };
        for kind in [WorkloadKind::WaltSocial, WorkloadKind::RetwisPsi] {
            let share = derive(&options).iter().filter(|workload| workload.kind == kind).count();
            assert!((15..50).contains(&share), "{share} of 300 seeds run {kind}");
            let asked = Options { workload: Some(kind), ..options.clone() };
            assert!(
                derive(&asked).iter().all(|workload| workload.kind == kind && workload.shares == EVERYTHING)
            );
        }
    }

    #[test]
    fn sessions_are_relayed_in_some_seeds_of_systems_that_can_hand_them_over() {
        let options = Options { faults: Faults::None, ..Options::new(1..=300) };
        let relays = |parameters: &Parameters| parameters.mix == Mix::Relay;
        assert!(
            !scenarios(&options).iter().any(|scenario| relays(&scenario.workload) || scenario.leaders_apart)
        );
        let serializable = options.seeds.clone().map(|seed| Scenario::<Serializable>::derive(seed, &options));
        let (relayed, others): (Vec<_>, Vec<_>) =
            serializable.partition(|scenario| relays(&scenario.workload));
        assert!((30..90).contains(&relayed.len()), "{} of 300 seeds", relayed.len());
        for scenario in &relayed {
            assert!(
                scenario.shards > 1 && scenario.leaders_apart && scenario.moves > 0.5,
                "{}",
                scenario.seed
            );
            let delays = &scenario.site_delays;
            assert!(delays[0][1] == delays[1][2] && delays[0][1] > 10 * delays[0][2], "{delays:?}");
        }
        assert!(others.iter().any(|scenario| scenario.leaders_apart));
        assert!(others.iter().any(|scenario| !scenario.leaders_apart));
        let of_retwis = Options { workload: Some(WorkloadKind::Retwis), ..options };
        let mut of_retwis =
            of_retwis.seeds.clone().map(|seed| Scenario::<Serializable>::derive(seed, &of_retwis));
        assert!(of_retwis.all(|scenario| scenario.workload.kind == WorkloadKind::Retwis));
    }

    #[test]
    fn named_faults_are_injected_and_no_others() {
        let faults = vec![Fault::Loss, Fault::ClockSkew];
        let options = Options { faults: Faults::Named(faults.clone()), ..Options::new(1..=50) };
        for scenario in scenarios(&options) {
            assert_eq!(scenario.faults, faults);
            assert!(scenario.misfortunes.loss > 0.0);
            assert_eq!(scenario.misfortunes.duplication, 0.0);
        }
        let options = Options { faults: Faults::None, ..Options::new(1..=50) };
        assert!(scenarios(&options).iter().all(|scenario| scenario.misfortunes == Misfortunes::default()));
    }

    #[test]
    fn a_plant_changes_the_rules_and_nothing_else() {
        let planted = Options {
            plant: Some(SystemKind::STRICT.planted(Plant::AbstainIsSuccess)),
            ..Options::new(1..=1)
        };
        let (planted, sound) = (scenarios(&planted).remove(0), scenarios(&Options::new(1..=1)).remove(0));
        assert_ne!(planted.settings.coordinator.rules, sound.settings.coordinator.rules);
        assert_eq!(planted.faults, sound.faults);
        assert_eq!(planted.transactions, sound.transactions);
    }
}
