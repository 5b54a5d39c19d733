//! STR over the nine data centres of its paper (STR paper, section 8).
//!
//! Every node leads a shard, whose five other replicas stand in the data centres that come next, and has a client that stays beside it. The systems of the
//! paper are settings of one protocol: what differs is the clock, whether transactions read what is not final, and what clients are shown before it is
//! final. Groups are logs of six replicas.
//!
//! | file | role |
//! |---|---|
//! | [`sessions`] | clients in a closed loop, which go on from what they are shown |
//! | [`transactions`] | what they run: keys of a hotspot, or procedures over what was read |
//! | [`population`] | rows that are there before anybody has touched them, and where they stand |
//! | `climb` | systems with more and more clients, up to the peak of the fastest |
//! | [`synthetic`] | figure 3: keys of a hotspot |
//! | [`degrees`] | figure 4: the tuner and static settings |
//! | [`clocks`] | table 1: PreciseClock without speculation |
//! | [`trade`] | figure 5: TPC-C |
//! | [`auction`] | figure 6: RUBiS |

pub mod auction;
mod climb;
pub mod clocks;
pub mod degrees;
pub mod population;
pub mod sessions;
pub mod synthetic;
pub mod trade;
pub mod transactions;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::{ClientId, GroupSize};
use quorate_log::member::Config;
use quorate_log::{Limits, Rules, Timing};
use quorate_simulator::calibrated;
use quorate_simulator::system::Settings as Machines;
use quorate_simulator::system::snapshot::Snapshot;
use quorate_simulator::world::costs::Costs;
use quorate_str::tuner::TunerConfig;
use quorate_str::{CoordinatorConfig, ReplicaConfig, Variant};
use quorate_workloads::{Parameters, WorkloadKind};

use crate::deployment::{Clocks, Deployment, Nodes};
use crate::interactive::Transactions;
use crate::load::{Measured, Window};
use transactions::Application;

/// How many data centres there are.
pub const SITES: usize = 9;

/// How many replicas a shard has: the one that leads, and one in each of the next five data centres.
pub const REPLICAS: usize = 6;

/// Their names, in the order in which shards are replicated.
pub const NAMES: [&str; SITES] = ["IE", "SU", "SY", "OR", "SG", "CA", "FR", "TY", "VA"];

/// Round trips between them in milliseconds, as tables of round trips between EC2 regions had them in the years of the paper, rounded. The paper prints none.
const ROUND_TRIP_MS: [[u64; SITES]; SITES] = [
    [0, 240, 275, 130, 178, 140, 25, 215, 75],
    [240, 0, 140, 125, 92, 135, 250, 33, 180],
    [275, 140, 0, 145, 170, 145, 285, 108, 200],
    [130, 125, 145, 0, 165, 22, 155, 97, 72],
    [178, 92, 170, 165, 0, 175, 165, 70, 220],
    [140, 135, 145, 22, 175, 0, 148, 108, 62],
    [25, 250, 285, 155, 165, 148, 0, 235, 90],
    [215, 33, 108, 97, 70, 108, 235, 0, 155],
    [75, 180, 200, 72, 220, 62, 90, 155, 0],
];

/// The round trip between two nodes of a data centre, and between a node and its client, in microseconds.
const ROUND_TRIP_WITHIN_MICROS: u64 = 200;

/// A processor takes so many times as long as that of a server of ours: a local commit of TPC-C then takes a client about as long as the paper's did, four
/// milliseconds.
pub const SLOWER: f64 = 25.0;

/// Data centres are so many times as far from each other where the paper's latencies are compared: then clock-si takes about as long on TPC-C with few
/// clients as in the paper.
const STRETCH: f64 = 2.0;

/// Every point is measured with so many seeds, of which it gives the median.
const SEEDS: u64 = 3;

/// A system of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum System {
    /// Clock-SI with replication.
    ClockSi,
    /// The same, where one result is shown.
    Planet,
    /// Speculative reads alone.
    Internal,
    /// Speculative reads, and chains of results that are shown.
    External,
}

impl System {
    /// All four.
    pub const ALL: [System; 4] = [System::ClockSi, System::Planet, System::Internal, System::External];

    /// Its settings.
    pub fn variant(self) -> Variant {
        match self {
            System::ClockSi => Variant::CLOCK_SI,
            System::Planet => Variant::PLANET,
            System::Internal => Variant::INTERNAL,
            System::External => Variant::EXTERNAL,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            System::ClockSi => "clock-si",
            System::Planet => "planet",
            System::Internal => "str-internal",
            System::External => "str-external",
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// Nodes in the nine data centres, and what their clients run.
#[derive(Clone, Debug)]
pub struct Geography {
    /// Nodes in each data centre.
    pub nodes_per_site: usize,
    /// How much is speculated at most.
    pub variant: Variant,
    /// The tuner that chooses how much of that is worth while; none leaves it at the most.
    pub tuner: Option<TunerConfig>,
    /// Sessions of the client of each node.
    pub sessions: usize,
    /// Their application.
    pub application: Application,
    /// A processor takes so many times as long as that of a server of ours.
    pub slower: f64,
    /// Data centres are so many times as far from each other as they are.
    pub stretch: f64,
}

impl Geography {
    /// So many nodes in each data centre, and so many sessions at each node. Nothing is tuned.
    pub fn new(nodes_per_site: usize, sessions: usize, variant: Variant, application: Application) -> Self {
        Geography {
            nodes_per_site,
            variant,
            tuner: None,
            sessions,
            application,
            slower: SLOWER,
            stretch: 1.0,
        }
    }

    /// How many nodes there are, and shards, and clients.
    pub fn nodes(&self) -> usize {
        SITES * self.nodes_per_site
    }

    /// Runs it.
    pub fn run(&self, seed: u64, window: Window) -> Measured {
        sessions::run(self, seed, window)
    }

    /// Runs it until the tuners of all nodes have settled, or for so long at most, and measures for so long then.
    fn run_settled(&self, seed: u64, settle_max: Duration, measured: Duration) -> Measured {
        sessions::run_settled(self, seed, settle_max, measured)
    }

    fn costs(&self) -> Arc<Costs> {
        Arc::new(Costs { wake_ns: 0.0, ..calibrated::costs().times(self.slower) })
    }

    /// Where it runs.
    fn deployment(&self) -> Deployment<Snapshot> {
        let nodes = self.nodes();
        let round_trip = |one: usize, other: usize| match one == other {
            true => Duration::from_micros(ROUND_TRIP_WITHIN_MICROS),
            false => Duration::from_millis(ROUND_TRIP_MS[one][other]).mul_f64(self.stretch),
        };
        let row = |one| (0..SITES).map(|other| round_trip(one, other)).collect();
        // Sessions draw their own transactions.
        let work = Transactions::new(Parameters::new(WorkloadKind::Hotspot));
        Deployment {
            shards: nodes,
            replicas: REPLICAS,
            nodes: Nodes::PerSite(self.nodes_per_site),
            clients: nodes,
            sessions_per_client: self.sessions,
            costs: Some(self.costs()),
            round_trips: (0..SITES).map(row).collect(),
            clocks: Clocks::apart(CLOCKS_APART_MICROS),
            ..Deployment::over_regions(work, self.machines())
        }
    }

    /// How the machines are set up. Nothing fails here, and processors may be busy for long, so nobody is suspected for being silent.
    fn machines(&self) -> Machines<Config<ReplicaConfig>, CoordinatorConfig> {
        let replica = ReplicaConfig {
            variant: self.variant,
            tuner: self.tuner.clone(),
            vote_timeout: LONG,
            resend_timeout: LONG,
            recovery_timeout: 2 * LONG,
            certify_timeout: 4 * LONG,
            idle_timeout: 20 * LONG,
            floor_lag: LONG,
            ..ReplicaConfig::new(Default::default(), GroupSize::ONE, Default::default())
        };
        let timing = Timing { silence: 2 * LONG, clock_error_max: 4 * LONG, ..Timing::DEFAULT };
        Machines {
            coordinator: CoordinatorConfig {
                resend_timeout: LONG,
                ..CoordinatorConfig::new(ClientId::default())
            },
            replica: Config::unseated(timing, Limits::DEFAULT, u64::MAX, Rules::SOUND, replica),
        }
    }
}

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(30);

/// By how much two clocks differ on average, in microseconds.
const CLOCKS_APART_MICROS: f64 = 1_000.0;

/// The parameters that the paper does not print, in a sentence.
pub(crate) fn parameters(geography: &Geography) -> String {
    format!(
        "{} data centres ({}) with {} node(s) each, {} shards of {REPLICAS} replicas: the leader, and the data centres that come next. Round trips are those of \
         public tables between EC2 regions, from {} to {} ms, times {}; {} ms within one. Two clocks differ by {} ms on average. Work costs a processor {} times what it \
         costs a server of ours. Clients are sessions of one client at each node.",
        SITES,
        NAMES.join(", "),
        geography.nodes_per_site,
        geography.nodes(),
        ROUND_TRIP_MS.iter().flatten().filter(|ms| **ms > 0).min().copied().unwrap_or_default(),
        ROUND_TRIP_MS.iter().flatten().max().copied().unwrap_or_default(),
        geography.stretch,
        ROUND_TRIP_WITHIN_MICROS as f64 / 1_000.0,
        CLOCKS_APART_MICROS / 1_000.0,
        geography.slower,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_are_the_same_both_ways() {
        for (one, row) in ROUND_TRIP_MS.iter().enumerate() {
            for (other, millis) in row.iter().enumerate() {
                assert_eq!(*millis, ROUND_TRIP_MS[other][one], "{} and {}", NAMES[one], NAMES[other]);
                assert_eq!(*millis == 0, one == other);
            }
        }
    }
}
