//! Swarm testing: a seed leaves most features out, and makes those frequent that are left.
//!
//! A seed under all faults has some of everything. Events that are rare in each of them are rarer still in their combinations, and features
//! get in each other's way: a cluster in which everything goes wrong decides little. So a seed under `swarm` draws a
//! *configuration* (Groce, Zhang, Eide, Chen, Regehr: Swarm testing, ISSTA 2012):
//!
//! - a few kinds of faults, each several times as frequent, with outages that are as much shorter;
//! - a few kinds of transactions, over as few as three keys of one shard, by few clients;
//! - limits and time-outs that are small together, or not;
//! - faults that wait for a node to be in the middle of something ([`Aim`]);
//! - a schedule of messages in which few links are starved for long, with few changes (after Burckhardt, Kothari, Musuvathi,
//!   Nagarakatte: A randomized scheduler with probabilistic guarantees of finding bugs, ASPLOS 2010) ([`Starvation`]).
//!
//! All of it is drawn from streams of its own, over what every seed draws.

use std::fmt;
use std::time::Duration;

use quorate_core::Random;
use quorate_workloads::lists::{KEYS_MIN, KINDS, Mix};
use quorate_workloads::{Popularity, WorkloadKind};

use crate::fault::Fault;
use crate::scenario::{Distance, Scenario};
use crate::system::{System, can_strike};

/// The state of a node that a fault waits for before it strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// Something that it has written is not durable yet.
    Writing,
    /// It holds a prepared transaction.
    Holding,
    /// It settles the transaction of a silent coordinator.
    Settling,
    /// It changes its view, or learns from others.
    Changing,
}

impl Aim {
    const ALL: [Aim; 4] = [Aim::Writing, Aim::Holding, Aim::Settling, Aim::Changing];

    const fn name(self) -> &'static str {
        match self {
            Aim::Writing => "nodes that write",
            Aim::Holding => "nodes that hold a transaction",
            Aim::Settling => "nodes that settle a transaction",
            Aim::Changing => "nodes that change views",
        }
    }
}

/// Which messages are starved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Starved {
    /// Those on so many links, each in one direction.
    Links(usize),
    /// Those that one node sends.
    Sender,
    /// Those that one node is sent.
    Receiver,
}

/// A few links that are slower than all others for a long time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Starvation {
    /// Which messages.
    pub starved: Starved,
    /// By how much later they arrive.
    pub extra: Duration,
    /// How often others are starved instead, at instants that are spread over the time of faults.
    pub changes: u32,
}

/// The configuration that a seed has drawn under `swarm`.
#[derive(Clone, Debug, PartialEq)]
pub struct Swarm {
    /// The faults, ascending, each with how many times as frequent as usual it is.
    pub faults: Vec<(Fault, f64)>,
    /// How long the time of faults is, as a share of the usual.
    pub density: f64,
    /// How long outages last, as a share of the usual.
    pub brevity: f64,
    /// The state that faults of nodes wait for, if they do.
    pub aim: Option<Aim>,
    /// Which messages are starved, if some are.
    pub starvation: Option<Starvation>,
    /// With what probability each limit and time-out is as small as it can be.
    pub smallness: f64,
    /// True if there is one shard, or one for each site where they stand in sites, with three keys.
    pub is_tiny: bool,
    /// How many clients there are, if few.
    pub clients: Option<usize>,
    /// The kinds of transactions of `lists`; all if none is named.
    pub kinds: Vec<&'static str>,
    /// True if a few keys are wanted by nearly all.
    pub is_hot: bool,
    /// How often what could be read at once is, if not as usual.
    pub read_only: Option<f64>,
    /// The probability that a client thinks before a step, if not as usual.
    pub thinking: Option<f64>,
}

/// So many kinds of faults a seed has.
const FAULTS: (u64, u64) = (2, 5);

/// The faults after which something is left half done, and those by which others do not hear of it. Half of what is drawn is among them.
const LIKELY: [Fault; 18] = [
    Fault::Loss,
    Fault::Duplication,
    Fault::Reordering,
    Fault::LateMessages,
    Fault::DelaySpikes,
    Fault::Partitions,
    Fault::OneWayPartitions,
    Fault::ClockSkew,
    Fault::ClockJumps,
    Fault::NodeCrashes,
    Fault::PowerLoss,
    Fault::EmptyDisks,
    Fault::ClientCrashes,
    Fault::RecoveryCrashes,
    Fault::RecoveryDuels,
    Fault::Pauses,
    Fault::LongPauses,
    Fault::ViewChanges,
];

/// The kinds of transactions that conflict with each other in a way that a history shows: a seed has one of these sets, and others
/// beside it.
const CONFLICTS: [&[&str]; 8] = [
    &["skew"],
    &["append", "read"],
    &["append", "skew"],
    &["count"],
    &["append", "scan"],
    &["blind", "skew"],
    &["own", "read"],
    &["transfer", "skew"],
];

/// Nothing strikes more often than this.
const INTERVAL_MIN: Duration = Duration::from_millis(4);

/// One in so many seeds is run in each mode.
const MODE_PROBABILITY: f64 = 0.05;

/// One in so many seeds has each of the faults of hosts.
const HOSTS_PROBABILITY: f64 = 0.08;

/// One in so many seeds has each of the faults after which an operator says that something is lost for good.
const LOSSES_PROBABILITY: f64 = 0.05;

/// No fault is more frequent than this beyond the usual that changes who the members are, or takes a site.
const SELDOM_MAX: f64 = 2.0;

impl Swarm {
    /// The configuration of a seed.
    pub(crate) fn draw<S: System>(seed: u64) -> Self {
        let stream = |name| Random::stream(seed, name);
        let mut pace = stream("swarm pace");
        let mut world = stream("swarm world");
        let mut load = stream("swarm load");
        let mut faults = draw_faults::<S>(&mut stream("swarm faults"));
        let mut hosts = stream("swarm hosts");
        faults.extend(
            Fault::HOSTS
                .into_iter()
                .filter(|_| hosts.chance(HOSTS_PROBABILITY))
                .filter(|fault| can_strike::<S>(*fault))
                .map(|fault| (fault, 1.0)),
        );
        let mut losses = stream("swarm losses");
        let possible = Fault::LOSSES.into_iter().filter(|fault| can_strike::<S>(*fault));
        faults.extend(possible.filter(|_| losses.chance(LOSSES_PROBABILITY)).map(|fault| (fault, 1.0)));
        faults.sort_unstable_by_key(|(fault, _)| *fault);
        Swarm {
            faults,
            density: [1.0, 0.5, 0.25, 0.15][pace.index(4)],
            brevity: 0.02_f64.powf(pace.unit()),
            aim: draw_aim(&mut stream("swarm aim")),
            starvation: draw_starvation(&mut stream("swarm starvation")),
            smallness: [0.0, 0.0, 0.1, 0.3, 0.7][world.index(5)],
            is_tiny: world.chance(0.4),
            clients: [None, None, Some(1), Some(2)][world.index(4)],
            kinds: draw_kinds(&mut stream("swarm kinds")),
            is_hot: load.chance(0.3),
            read_only: [None, None, Some(0.0), Some(1.0)][load.index(4)],
            thinking: [None, Some(0.0), Some(0.9)][load.index(3)],
        }
    }

    /// The faults, ascending.
    pub(crate) fn faults(&self) -> Vec<Fault> {
        self.faults.iter().map(|(fault, _)| *fault).collect()
    }

    /// How many times as frequent as usual a fault is.
    pub(crate) fn frequency(&self, fault: Fault) -> f64 {
        self.faults.iter().find(|(drawn, _)| *drawn == fault).map_or(1.0, |(_, times)| *times)
    }

    /// How long a fault waits until it strikes again that would wait so long as usual.
    pub(crate) fn interval(&self, fault: Fault, usual: Duration, round_trip: Duration) -> Duration {
        // Where replicas go on to a view before they have heard of the one before, each message of an earlier one is answered, and with
        // duplicates there are ever more of them.
        let least = if fault == Fault::ViewChanges { 2 * round_trip } else { Duration::ZERO };
        usual.div_f64(self.frequency(fault)).max(INTERVAL_MIN).max(least)
    }

    /// Changes a scenario into that of this configuration.
    pub(crate) fn apply<S: System>(&self, scenario: &mut Scenario<S>, random: &mut Random) {
        self.make_small(scenario);
        let round_trip = scenario.round_trip();
        // Late duplicates are waited for so long that timers that are as short as can be would take minutes to simulate.
        let smallness = if scenario.has(Fault::LateDuplicates) { 0.0 } else { self.smallness };
        S::shrink(&mut scenario.settings, round_trip, &mut || random.chance(smallness));
        self.make_frequent(scenario);
        let workload = &mut scenario.workload;
        // Some mixes are about something else, and social networks over sets need their users.
        if workload.kind == WorkloadKind::Lists && workload.mix != Mix::Relay {
            workload.only.clone_from(&self.kinds);
        }
        if self.is_hot && !workload.kind.needs_sets() {
            workload.popularity = Popularity::Zipf(1.4);
        }
        scenario.thinking = self.thinking.unwrap_or(scenario.thinking);
    }

    /// Few shards, keys and clients.
    fn make_small<S: System>(&self, scenario: &mut Scenario<S>) {
        let workload = &mut scenario.workload;
        // Sessions that are relayed need the world that was drawn for them.
        if workload.mix == Mix::Relay {
            return;
        }
        if self.is_tiny && !workload.kind.needs_sets() {
            workload.keys = KEYS_MIN;
            scenario.shards = if S::ISOLATION.stands_in_sites() { scenario.sites() } else { 1 };
        }
        if let Some(clients) = self.clients {
            scenario.clients = clients.min(scenario.clients);
        }
    }

    /// Everything that strikes does so more often, and for a shorter time.
    fn make_frequent<S: System>(&self, scenario: &mut Scenario<S>) {
        // Where sites are far apart, sessions could not begin what they are to begin.
        let density = if scenario.distance == Distance::Wide { 1.0 } else { self.density };
        scenario.safety_phase = scenario.safety_phase.mul_f64(density);
        scenario.strike_interval = scenario.strike_interval.mul_f64(density);
        let misfortunes = &mut scenario.misfortunes;
        for (fault, probability, most) in [
            (Fault::Loss, &mut misfortunes.loss, 0.4),
            (Fault::Duplication, &mut misfortunes.duplication, 0.5),
            (Fault::LateDuplicates, &mut misfortunes.late_duplicate, 0.3),
            (Fault::Reordering, &mut misfortunes.reordering, 0.9),
            (Fault::LateMessages, &mut misfortunes.late, 0.25),
            (Fault::CorruptedFrames, &mut misfortunes.corruption, 0.1),
        ] {
            *probability = (*probability * self.frequency(fault)).min(most);
        }
    }
}

/// True if a fault is drawn beside those that a configuration makes frequent.
fn is_drawn_apart(fault: &Fault) -> bool {
    [&Fault::MODES[..], &Fault::HOSTS, &Fault::LOSSES].iter().any(|apart| apart.contains(fault))
}

/// A few faults, mostly likely ones, each two to twelve times as frequent as usual; and seldom a mode.
fn draw_faults<S: System>(random: &mut Random) -> Vec<(Fault, f64)> {
    let mut modes: Vec<Fault> =
        Fault::MODES.into_iter().filter(|_| random.chance(MODE_PROBABILITY)).collect();
    let possible = |fault: &Fault| !is_drawn_apart(fault) && can_strike::<S>(*fault);
    let all: Vec<Fault> = Fault::ALL.into_iter().filter(possible).collect();
    let likely: Vec<Fault> = LIKELY.into_iter().filter(possible).collect();
    let mut faults = Vec::new();
    for _ in 0..random.between(FAULTS.0, FAULTS.1) {
        let among = if random.chance(0.5) { &likely } else { &all };
        faults.push(among[random.index(among.len())]);
    }
    faults.append(&mut modes);
    faults.sort_unstable();
    faults.dedup();
    let times = |fault: Fault| {
        let times = 2.0 * 6_f64.powf(random.unit());
        match fault {
            Fault::Membership | Fault::SiteLoss | Fault::Amnesia => times.min(SELDOM_MAX),
            _ if Fault::MODES.contains(&fault) => 1.0,
            _ => times,
        }
    };
    let times: Vec<f64> = faults.iter().copied().map(times).collect();
    faults.into_iter().zip(times).collect()
}

fn draw_aim(random: &mut Random) -> Option<Aim> {
    random.chance(0.5).then(|| Aim::ALL[random.index(Aim::ALL.len())])
}

fn draw_starvation(random: &mut Random) -> Option<Starvation> {
    if !random.chance(0.4) {
        return None;
    }
    let links = random.between(1, 3) as usize;
    let starved = [Starved::Links(links), Starved::Sender, Starved::Receiver][random.index(3)];
    // Each order of magnitude from two milliseconds to two seconds is equally likely.
    let extra = Duration::from_millis(2).mul_f64(1_000_f64.powf(random.unit()));
    Some(Starvation { starved, extra, changes: random.between(0, 4) as u32 })
}

/// Some seeds have all kinds of transactions.
fn draw_kinds(random: &mut Random) -> Vec<&'static str> {
    if random.chance(0.2) {
        return Vec::new();
    }
    let mut kinds = CONFLICTS[random.index(CONFLICTS.len())].to_vec();
    for _ in 0..random.below(3) {
        kinds.push(KINDS[random.index(KINDS.len())]);
    }
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

impl<S: System> Scenario<S> {
    /// The configuration that was drawn, in one line; none if none was.
    pub fn configuration(&self) -> Option<String> {
        let swarm = self.swarm.as_ref()?;
        let workload = &self.workload;
        let world = format!(
            "{} {}, {} replicas, {} {} of {} sessions, {} of {} keys",
            self.shards,
            if self.shards == 1 { "shard" } else { "shards" },
            self.group.replicas(),
            self.clients,
            if self.clients == 1 { "client" } else { "clients" },
            self.sessions_per_client,
            workload.kind,
            workload.keys,
        );
        let kinds =
            if workload.only.is_empty() { String::new() } else { format!(" ({})", workload.only.join(", ")) };
        Some(format!("{world}{kinds}; {swarm}; faults for {:.1} s", self.safety_phase.as_secs_f64()))
    }
}

impl fmt::Display for Swarm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: Vec<String> =
            self.faults.iter().map(|(fault, times)| format!("{fault} ×{times:.1}")).collect();
        write!(formatter, "{}; outages ×{:.2}", faults.join(", "), self.brevity)?;
        if let Some(aim) = self.aim {
            write!(formatter, "; aimed at {}", aim.name())?;
        }
        if let Some(Starvation { starved, extra, changes }) = self.starvation {
            let what = match starved {
                Starved::Links(1) => "one link".to_owned(),
                Starved::Links(links) => format!("{links} links"),
                Starved::Sender => "a sender".to_owned(),
                Starved::Receiver => "a receiver".to_owned(),
            };
            write!(formatter, "; {what} starved by {extra:.0?}, {changes} changes")?;
        }
        if self.smallness > 0.0 {
            write!(formatter, "; {:.0} % of limits small", self.smallness * 100.0)?;
        }
        if self.is_hot {
            formatter.write_str("; hot keys")?;
        }
        if let Some(share) = self.read_only {
            write!(formatter, "; {:.0} % of reads at once", share * 100.0)?;
        }
        if let Some(share) = self.thinking {
            write!(formatter, "; thinking {share:.1}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Faults, Options};
    use crate::system::parallel_snapshot::ParallelSnapshot;
    use crate::system::strict::Strict;

    fn derive<S: System>(seed: u64) -> Scenario<S> {
        Scenario::derive(seed, &Options { faults: Faults::Swarm, ..Options::new(1..=1) })
    }

    fn swarm(scenario: &Scenario<Strict>) -> &Swarm {
        scenario.swarm.as_ref().expect("a seed under swarm has a configuration")
    }

    #[test]
    fn a_seed_has_few_faults_that_are_frequent() {
        let scenarios: Vec<Scenario<Strict>> = (1..=500).map(derive).collect();
        for scenario in &scenarios {
            let swarm = swarm(scenario);
            let striking: Vec<Fault> =
                swarm.faults().into_iter().filter(|fault| !is_drawn_apart(fault)).collect();
            assert!((1..=5).contains(&striking.len()) && scenario.faults == swarm.faults(), "{swarm}");
            assert!(striking.iter().all(|fault| (2.0..=12.0).contains(&swarm.frequency(*fault))), "{swarm}");
        }
        for fault in Fault::ALL.into_iter().filter(|fault| can_strike::<Strict>(*fault)) {
            assert!(scenarios.iter().any(|scenario| scenario.has(fault)), "{fault}");
        }
    }

    #[test]
    fn every_choice_is_reached() {
        let scenarios: Vec<Scenario<Strict>> = (1..=300).map(derive).collect();
        let any = |is_so: &dyn Fn(&Swarm) -> bool| scenarios.iter().any(|scenario| is_so(swarm(scenario)));
        for aim in Aim::ALL {
            assert!(any(&|swarm| swarm.aim == Some(aim)), "{aim:?}");
        }
        for starved in [Starved::Links(1), Starved::Links(3), Starved::Sender, Starved::Receiver] {
            let starves = |starvation: Starvation| starvation.starved == starved;
            assert!(any(&|swarm| swarm.starvation.is_some_and(starves)), "{starved:?}");
        }
        for kind in KINDS {
            assert!(any(&|swarm| swarm.kinds.contains(&kind) && swarm.kinds.len() < 6), "{kind}");
        }
        assert!(any(&|swarm| swarm.aim.is_none() && swarm.starvation.is_none() && swarm.smallness == 0.0));
        let tiny =
            scenarios.iter().filter(|scenario| scenario.shards == 1 && scenario.workload.keys == KEYS_MIN);
        assert!((60..150).contains(&tiny.count()));
        assert!(scenarios.iter().any(|scenario| scenario.clients == 1));
    }

    #[test]
    fn the_configuration_is_told_in_one_line_and_only_where_there_is_one() {
        let line = derive::<Strict>(7).configuration().unwrap();
        assert!(line.contains(" ×") && line.contains("keys") && !line.contains('\n'), "{line}");
        assert_eq!(Scenario::<Strict>::derive(7, &Options::new(1..=1)).configuration(), None);
        assert_eq!(derive::<Strict>(7).configuration(), derive::<Strict>(7).configuration());
    }

    #[test]
    fn each_site_keeps_its_shard() {
        for seed in 1..=100 {
            let scenario = derive::<ParallelSnapshot>(seed);
            assert!(scenario.shards >= scenario.sites(), "seed {seed}");
        }
    }
}
