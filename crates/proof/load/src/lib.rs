//! Keeps workload transactions in flight on a real cluster, measures them, and records what they saw.
//!
//! A load is a closed loop: each of its clients runs one transaction at a time, to its end, and then the next. Or it is an open
//! one: transactions begin at a rate. All clients of a load share one connection per node, as the transactions of an application do.
//!
//! | file | role |
//! |---|---|
//! | `chain` | one client that goes on from results which are shown and not final |
//! | `client` | one client: one transaction after the other |
//! | `door` | judged transactions through doors for Redis |
//! | `history` | what the clients saw, for the checker |
//! | `offered` | an open loop: transactions begin at a rate |
//! | `populate` | what there is before a measurement begins |
//! | `procedure` | procedures as interactive transactions, and the pairs that they work on |
//! | `redis` | the load of `retwis-psi` on a Redis, for comparison |
//! | `tally` | counts and latencies |
//! | `meter` | processor time, messages, bytes and syncs |

mod chain;
mod client;
mod door;
mod history;
mod meter;
mod offered;
mod populate;
mod procedure;
mod redis;
mod tally;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quorate::Keyspace;
use quorate_workloads::Parameters;
use tokio::task::JoinHandle;

pub use door::{DoorLoad, Ledger, RunningDoorLoad};
pub use history::HistoryLog;
pub use meter::{Costs, Reading, UnreadableStatus, cpu_time};
pub use offered::Offered;
pub use populate::{PARTS_MAX, populate};
pub use procedure::{Ended, Transacted, read_pairs, transact, write_pairs};
pub use redis::{Redis, RedisError, RedisLoad, RunningRedis};
pub use tally::Tally;

/// A load: transactions of a workload in a keyspace, a number of them at a time.
#[derive(Clone)]
pub struct Load {
    /// The keyspace.
    pub keyspace: Keyspace,
    /// The workload.
    pub parameters: Parameters,
    /// How many transactions are in flight.
    pub clients: u64,
    /// The number of the first client; different for every load that shares a history.
    pub first_client: u64,
    /// The site of the clients, for the history.
    pub site: String,
    /// The round trip to the farthest replica that a fast quorum needs, if delays are emulated.
    pub round_trip: Option<Duration>,
    /// The record of the transactions, if they are to be judged.
    pub history: Option<HistoryLog>,
    /// The seed of the transactions that the clients draw.
    pub seed: u64,
    /// So many values of each client were drawn before: see [`populate`].
    pub drawn: u64,
    /// How many generations of keys other clients have touched before: these clients begin with the last of them.
    pub generations: u64,
    /// The times of commits, if they are to be noted.
    pub commits: Option<Commits>,
    /// True if transactions that only read keys, which are known beforehand, and those of `hotspot` read them all at once.
    pub reads_at_once: bool,
    /// How far back transactions may read that only read keys, which are known beforehand; none if they are strict.
    pub stale: Option<Duration>,
    /// True if clients go on once a result is shown, before it is final, in a `snapshot` keyspace that shows results. Such loads have no history.
    pub speculates: bool,
}

/// The times at which transactions have committed, over all loads that note them here, ascending.
#[derive(Clone, Debug, Default)]
pub struct Commits(Arc<Mutex<Vec<Instant>>>);

impl Commits {
    fn note(&self) {
        let mut commits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Read with the lock held, so that they ascend.
        commits.push(Instant::now());
    }

    /// Looks at the times.
    pub fn with<R>(&self, look: impl FnOnce(&[Instant]) -> R) -> R {
        look(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A load that runs.
pub struct Running {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
}

/// The state that the clients of a load share.
struct Shared {
    load: Load,
    stop: AtomicBool,
    /// How many generations of keys the clients have touched, if the workload has generations.
    generations: AtomicU64,
    tally: Mutex<Tally>,
}

impl Shared {
    fn new(load: Load) -> Self {
        let generations = AtomicU64::new(load.generations);
        Shared { load, stop: AtomicBool::new(false), generations, tally: Mutex::default() }
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Load {
    /// Starts the clients, as tasks on this runtime.
    pub fn start(self) -> Running {
        let clients = self.clients;
        let shared = Arc::new(Shared::new(self));
        let start = |number| {
            let shared = Arc::clone(&shared);
            match shared.load.speculates {
                true => tokio::spawn(chain::run(shared, number)),
                false => tokio::spawn(client::run(shared, number)),
            }
        };
        let clients = (0..clients).map(start).collect();
        Running { shared, clients }
    }
}

impl Running {
    /// The counts since the start or the last call; counting begins anew.
    pub fn take_tally(&self) -> Tally {
        std::mem::take(&mut self.shared.tally())
    }

    /// Looks at the counts.
    pub fn with_tally<R>(&self, look: impl FnOnce(&Tally) -> R) -> R {
        look(&self.shared.tally())
    }

    /// Lets every client end once its transaction has.
    pub fn begin_to_stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// Lets every client end its transaction and waits for that; then reads all keys of a judged history once more, if
    /// they are few, so that it says how each one ended.
    pub async fn stop(mut self) -> Tally {
        self.end().await;
        client::read_everything(&self.shared).await;
        std::mem::take(&mut self.shared.tally())
    }

    /// How many transactions [`Running::stop`] reads all keys with once more.
    pub fn final_reads(&self) -> u64 {
        client::final_reads(&self.shared).len() as u64
    }

    /// Lets every client end its transaction and waits for that.
    pub async fn end(&mut self) {
        self.begin_to_stop();
        for client in self.clients.drain(..) {
            // A client that panicked has said so already; its transactions stay unknown.
            let _ = client.await;
        }
    }

    /// How many generations of keys the clients have touched or may touch next.
    pub fn generations(&self) -> u64 {
        self.shared.generations.load(Ordering::Relaxed)
    }
}
