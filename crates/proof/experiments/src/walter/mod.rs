//! Walter over the four sites of its paper (Walter paper, section 8).
//!
//! Virginia, California, Ireland and Singapore have a server each, and clients that stay there. A server has one processor, which costs what
//! the paper's single accesses cost: 25 µs a request, 29 µs more for a commit that writes, 8 µs for each transaction of another site. Clients
//! cost nothing. The writes of a transaction wait in its client and go along with the commit, which the paper's clients sent one by one.
//!
//! | file | role |
//! |---|---|
//! | [`objects`] | transactions of single objects |
//! | [`throughput`] | figures 16 and 17: how many of them there are |
//! | [`commits`] | figure 18, and counting sets: how long fast commits take |
//! | [`durability`] | figures 19 and 20: slow commits, and how long it takes until all sites have a transaction |
//! | [`social`] | figures 21 and 22: a social network |
//! | [`retwis`] | figure 23: a Twitter clone at one site and two, beside Redis |

pub mod commits;
pub mod durability;
pub mod objects;
pub mod retwis;
pub mod social;
pub mod throughput;

use std::sync::Arc;
use std::time::Duration;

use quorate_core::topology::Durability;
use quorate_core::{ClientId, GroupSize};
use quorate_log::member::Config;
use quorate_log::{Limits, Rules, Timing};
use quorate_simulator::system::parallel_snapshot::ParallelSnapshot;
use quorate_simulator::system::{Settings as Machines, SettingsOf};
use quorate_simulator::world::costs::{Batching, Cost, Costs, Operation, SyncTime};
use quorate_walter::{CoordinatorConfig, ReplicaConfig};

use crate::deployment::{Clocks, Deployment, MOMENT, Nodes};
use crate::interactive::Transactions;

/// How many sites there are at most.
pub const SITES: usize = 4;

/// Round trips between Virginia, California, Ireland and Singapore, in microseconds (section 8.1).
const ROUND_TRIP_MICROS: [[u64; SITES]; SITES] = [
    [500, 82_000, 87_000, 261_000],
    [82_000, 300, 153_000, 190_000],
    [87_000, 153_000, 500, 277_000],
    [261_000, 190_000, 277_000, 300],
];

/// The round trip from Virginia to the farthest site, in milliseconds.
pub const ROUND_TRIP_MAX_MS: f64 = ROUND_TRIP_MICROS[0][3] as f64 / 1_000.0;

/// The name of a point of a distribution.
fn percentile(percent: f64) -> String {
    match percent {
        1.0 => "1st percentile".to_owned(),
        50.0 => "median".to_owned(),
        100.0 => "longest".to_owned(),
        _ => format!("{percent}th percentile"),
    }
}

/// A request, in microseconds.
pub const REQUEST: f64 = 25.0;
/// The additional cost of a commit that writes, in microseconds.
pub const COMMIT: f64 = 29.0;
/// A transaction of another site, in microseconds.
pub const REMOTE_APPLY: f64 = 8.0;

/// The processors of the paper's private cluster take this share of the time.
pub const PRIVATE: f64 = 0.55;

/// Between two sites, 22 Mbit a second.
pub const BANDWIDTH: u64 = 22_000_000 / 8;

/// A disk that caches what is written.
pub const CACHED: SyncTime = SyncTime::between(Duration::from_micros(10), Duration::from_micros(50));

/// A disk that does not, and turns 7,200 times a minute: it seeks for 4 ms, and turns once at most.
pub const UNCACHED: SyncTime = SyncTime::between(Duration::from_millis(4), Duration::from_micros(12_300));

/// So many sessions at each site keep a server busy.
pub const SESSIONS: usize = 64;

/// The costs of servers whose processors take this share of the time, where a transaction updates so many objects on average.
pub fn costs(share: f64, updates: f64) -> Arc<Costs> {
    let nothing = Cost::default();
    let micros = |micros: f64| Cost::new(micros * 1_000.0 * share, 0.0);
    let operation = |operation| match operation {
        Operation::Read => micros(REQUEST),
        // A transaction arrives as one commit message.
        Operation::Prepare => micros(REQUEST + COMMIT),
        // A batch costs by what it updates.
        Operation::Commit => Cost::new(0.0, REMOTE_APPLY * 1_000.0 * share / updates),
        _ => nothing,
    };
    Arc::new(Costs {
        batching: Batching::None,
        wake_ns: 0.0,
        read_ns: 0.0,
        write_ns: 0.0,
        received: nothing,
        sent: nothing,
        appended: nothing,
        sync_ns: 0.0,
        operations: Operation::ALL.map(operation),
    })
}

/// The first so many sites with a server and a client each, which runs so many sessions. Links carry whatever there is at once.
pub fn deployment(sites: usize, work: Transactions, costs: Arc<Costs>) -> Deployment<ParallelSnapshot> {
    let row = |row: &[u64; SITES]| row[..sites].iter().copied().map(Duration::from_micros).collect();
    Deployment {
        shards: sites,
        replicas: 1,
        nodes: Nodes::PerSite(1),
        clients: sites,
        sessions_per_client: work.sessions_per_client,
        think: MOMENT,
        costs: Some(costs),
        round_trips: ROUND_TRIP_MICROS[..sites].iter().map(row).collect(),
        clocks: Clocks::apart(0.0),
        durability: Durability::Sync,
        sync_time: CACHED,
        ..Deployment::over_regions(
            work,
            machines(ReplicaConfig::new(Default::default(), GroupSize::ONE, Default::default())),
        )
    }
}

/// The same, where links between sites carry 22 Mbit a second, and no message takes longer than the paper says.
pub fn deployment_on_links(
    sites: usize,
    work: Transactions,
    costs: Arc<Costs>,
) -> Deployment<ParallelSnapshot> {
    Deployment { bandwidth: Some(BANDWIDTH), jitter: 0.0, ..deployment(sites, work, costs) }
}

/// Walter as servers and clients set it up, but for its replicas.
pub fn machines(replica: ReplicaConfig) -> SettingsOf<ParallelSnapshot> {
    Machines {
        coordinator: CoordinatorConfig::new(ClientId::default()),
        replica: Config::unseated(Timing::DEFAULT, Limits::DEFAULT, u64::MAX, Rules::SOUND, replica),
    }
}
