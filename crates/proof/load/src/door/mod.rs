//! Judged transactions through doors for Redis, as a client in any language carries them out.
//!
//! A client has a connection to one door, and goes to the next door when that is gone. It draws the transactions of `lists`, and sends each of them in
//! one of the ways in which commands become one transaction:
//!
//! | form | what is sent |
//! |---|---|
//! | alone | one command: `RPUSH`, `LRANGE`, `SET`, `SET … GET`, `GET`, `INCR` |
//! | multi | `MULTI`, the commands, `EXEC` |
//! | watch | `WATCH` and the reads; then `MULTI`, the writes, `EXEC` |
//! | script | `EVAL` of a script that carries out the commands |
//!
//! The history records lists and registers. Beside it a [`Ledger`] counts what a history has no word for: increments, of which each is carried out once, or,
//! if its answer was lost, not at all or once; and *tallies*, lists whose length a counter in another slot tells, unless a transaction was torn.
//!
//! | file | role |
//! |---|---|
//! | `transaction` | what a transaction asks for, and what the replies mean |
//! | `link` | one connection, and how a transaction ends there |
//! | `client` | one client: one transaction after the other |
//! | `ledger` | what was acknowledged |

mod client;
mod ledger;
mod link;
mod transaction;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorate_workloads::Parameters;
use tokio::task::JoinHandle;

use crate::{Commits, HistoryLog, Tally};

pub use ledger::Ledger;

/// A load on doors: transactions of the workload `lists`, a number of them at a time.
#[derive(Clone)]
pub struct DoorLoad {
    /// The addresses of the doors, at least one.
    pub doors: Vec<String>,
    /// Which of them the clients connect to first.
    pub first_door: usize,
    /// The workload, which is `lists`.
    pub parameters: Parameters,
    /// How many transactions are in flight, each over a connection of its own.
    pub clients: u64,
    /// The number of the first client; different for every load that shares a history.
    pub first_client: u64,
    /// The site of the clients, for the history.
    pub site: String,
    /// The record of the transactions.
    pub history: HistoryLog,
    /// The acknowledged writes, beside the history.
    pub ledger: Ledger,
    /// The seed of the transactions that the clients draw.
    pub seed: u64,
    /// How many generations of keys other clients have touched before: these clients begin with the last of them.
    pub generations: u64,
    /// The times of commits.
    pub commits: Commits,
}

/// A load on doors that runs.
pub struct RunningDoorLoad {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
}

/// The state that the clients of a load share.
struct Shared {
    load: DoorLoad,
    stop: AtomicBool,
    /// How many generations of keys the clients have touched.
    generations: AtomicU64,
    tally: Mutex<Tally>,
}

impl Shared {
    fn new(load: DoorLoad) -> Self {
        let generations = AtomicU64::new(load.generations);
        Shared { load, stop: AtomicBool::new(false), generations, tally: Mutex::default() }
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DoorLoad {
    /// Starts the clients, as tasks on this runtime.
    pub fn start(self) -> RunningDoorLoad {
        let clients = self.clients;
        let shared = Arc::new(Shared::new(self));
        let clients =
            (0..clients).map(|number| tokio::spawn(client::run(Arc::clone(&shared), number))).collect();
        RunningDoorLoad { shared, clients }
    }

    /// Reads all that clients have touched once more, when no other client is under way any more, and looks whether all is there that was acknowledged: the
    /// [`Ledger`] knows then. Gives how many of these reads there were to be, and how many were done.
    pub async fn read_everything(self) -> (u64, u64) {
        client::read_everything(&Shared::new(self)).await
    }
}

impl RunningDoorLoad {
    /// The counts since the start or the last call; counting begins anew.
    pub fn take_tally(&self) -> Tally {
        std::mem::take(&mut self.shared.tally())
    }

    /// Lets every client end its transaction and waits for that.
    pub async fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
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
