//! Keeps workload transactions in flight, measures them, and records what they saw.
//!
//! A load is a closed loop: each of its clients runs one transaction at a time, to its end, and then the next. All
//! clients of a load share one connection per node, as the transactions of an application do.

mod client;
mod history;
mod meter;
mod samples;
mod tally;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quorate::Keyspace;
use quorate_workloads::Parameters;
use tokio::task::JoinHandle;

pub(crate) use history::HistoryLog;
pub(crate) use meter::{Costs, Reading};
pub(crate) use samples::Samples;
pub(crate) use tally::Tally;

/// What a load does.
#[derive(Clone)]
pub(crate) struct Load {
    /// Where.
    pub(crate) keyspace: Keyspace,
    /// What.
    pub(crate) parameters: Parameters,
    /// How many transactions are in flight.
    pub(crate) clients: u64,
    /// The number of the first client; different for every load that shares a history.
    pub(crate) first_client: u64,
    /// The site of the clients, for the history.
    pub(crate) site: String,
    /// The round trip to the farthest replica that a fast quorum needs, if delays are emulated.
    pub(crate) round_trip: Option<Duration>,
    /// Where to record, if what happens is to be judged.
    pub(crate) history: Option<HistoryLog>,
    /// What the clients draw their transactions from.
    pub(crate) seed: u64,
    /// How many generations of keys others have touched before: the clients begin with the last of them.
    pub(crate) generations: u64,
    /// Where to note when transactions commit, if somebody wants to know.
    pub(crate) commits: Option<Commits>,
    /// True if transactions that only read keys, which are known beforehand, read them all at once.
    pub(crate) reads_at_once: bool,
}

/// When transactions have committed, over all loads that note it here, ascending.
#[derive(Clone, Debug, Default)]
pub(crate) struct Commits(Arc<Mutex<Vec<Instant>>>);

impl Commits {
    fn note(&self) {
        let mut commits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Read with the lock held, so that they ascend.
        commits.push(Instant::now());
    }

    /// Looks at them.
    pub(crate) fn with<R>(&self, look: impl FnOnce(&[Instant]) -> R) -> R {
        look(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A load that runs.
pub(crate) struct Running {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
}

/// What the clients of a load share.
struct Shared {
    load: Load,
    stop: AtomicBool,
    /// How many generations of keys the clients have touched, if the workload has generations.
    generations: AtomicU64,
    tally: Mutex<Tally>,
}

impl Shared {
    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Load {
    /// Starts the clients, as tasks on this runtime.
    pub(crate) fn start(self) -> Running {
        let (clients, generations) = (self.clients, self.generations);
        let shared = Arc::new(Shared {
            load: self,
            stop: AtomicBool::new(false),
            generations: AtomicU64::new(generations),
            tally: Mutex::default(),
        });
        let clients =
            (0..clients).map(|number| tokio::spawn(client::run(Arc::clone(&shared), number))).collect();
        Running { shared, clients }
    }
}

impl Running {
    /// What happened since the start or the last call, and begins to count anew.
    pub(crate) fn take_tally(&self) -> Tally {
        std::mem::take(&mut self.shared.tally())
    }

    /// Looks at the counts.
    pub(crate) fn with_tally<R>(&self, look: impl FnOnce(&Tally) -> R) -> R {
        look(&self.shared.tally())
    }

    /// Lets every client end once its transaction has.
    pub(crate) fn begin_to_stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// Lets every client end its transaction and waits for that; then reads all keys of a judged history once more, if
    /// they are few, so that it says how each one ended.
    pub(crate) async fn stop(mut self) -> Tally {
        self.end().await;
        client::read_everything(&self.shared).await;
        std::mem::take(&mut self.shared.tally())
    }

    /// Lets every client end its transaction and waits for that.
    pub(crate) async fn end(&mut self) {
        self.begin_to_stop();
        for client in self.clients.drain(..) {
            // A client that panicked has said so already; its transactions stay unknown.
            let _ = client.await;
        }
    }

    /// How many generations of keys the clients have touched or may touch next.
    pub(crate) fn generations(&self) -> u64 {
        self.shared.generations.load(Ordering::Relaxed)
    }
}
