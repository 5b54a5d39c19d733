//! A data centre: three zones close to each other, where work counts more than distance (TAPIR paper, section 7.1).
//!
//! Each replica has a processor of its own, and so has each client. The cost of work was measured on a real server.

use std::time::Duration;

use quorate_simulator::system::strict::Strict;
use quorate_workloads::{Parameters, Popularity, WorkloadKind};

use crate::catalogue::Settings;
use crate::deployment::{Clocks, Deployment, Nodes, zones};
use crate::load::Window;

/// How many clients there are.
pub const CLIENTS: usize = 30;
const KEYS: u64 = 1_000_000;
const ROUND_TRIP: Duration = Duration::from_millis(1);
/// Two clocks differ by about as much as the paper has measured within a region.
const CLOCK_ERROR_MICROS: f64 = 200.0;

/// A benchmark in a data centre.
pub struct Bench {
    /// Where, and by whom.
    pub deployment: Deployment<Strict>,
    /// How many transactions each client runs side by side.
    pub sessions: Vec<usize>,
    /// For how long.
    pub window: Window,
}

impl Bench {
    fn new(workload: Parameters, shards: usize, settings: &Settings<'_>) -> Self {
        let mut deployment = Deployment {
            shards,
            clients: CLIENTS,
            nodes: Nodes::PerGroup,
            round_trips: zones(ROUND_TRIP),
            clocks: Clocks::Exponential(vec![CLOCK_ERROR_MICROS]),
            ..Deployment::new(Parameters { keys: KEYS, value_bytes_min: 0, ..workload })
        };
        deployment.work.timed =
            Some("follow").filter(|_| deployment.work.workload.kind == WorkloadKind::Retwis);
        // A second of Retwis is millions of messages.
        let sessions = if settings.quick { vec![16] } else { vec![3, 8, 24] };
        let (warm_up, measured) = if settings.quick { (60, 60) } else { (100, 150) };
        Bench { deployment, sessions, window: Window::millis(warm_up, measured) }
    }

    /// Read-modify-write on one shard (section 7.3).
    pub fn micro(settings: &Settings<'_>) -> Self {
        Bench::new(Parameters::new(WorkloadKind::Rmw), 1, settings)
    }

    /// Retwis on five shards (section 7.4.1).
    pub fn retwis(settings: &Settings<'_>) -> Self {
        let popularity = Popularity::Zipf(0.6);
        let workload = Parameters { popularity, ..Parameters::new(WorkloadKind::Retwis) };
        Bench::new(workload, if settings.quick { 2 } else { 5 }, settings)
    }
}
