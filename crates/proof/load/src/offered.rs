//! An open loop: transactions begin at a rate, whether those before them have ended or not.
//!
//! A closed loop slows down with the cluster that it measures, so it never offers more than that can take. Users do not: they come
//! when they come.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quorate_core::Random;
use quorate_workloads::Workload;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior};

use super::client::Client;
use super::{Load, Shared, Tally};

/// So often it is looked at how many transactions are due.
const TICK: Duration = Duration::from_millis(1);

/// After so many have begun those run that have: else all the time would go into beginning, once it is too little for all.
const BURST: u64 = 64;

/// Transactions that begin at a rate. Dropped, it ends like a process that is killed: nothing of what it has begun is ended in order.
pub struct Offered {
    shared: Arc<Shared>,
    begun: Arc<AtomicU64>,
    offering: AbortHandle,
}

impl Load {
    /// Begins so many transactions a second from now on, as tasks on this runtime, all of them as its first client. How many others it has does
    /// not matter, and values that are written at the same time may be the same.
    ///
    /// # Panics
    /// If the load has a history: the processes of that are closed loops.
    pub fn offer(self, per_second: f64) -> Offered {
        assert!(self.history.is_none(), "an open loop is not judged");
        let shared = Arc::new(Shared::new(self));
        let begun = Arc::new(AtomicU64::new(0));
        let offering = tokio::spawn(offer(Arc::clone(&shared), Arc::clone(&begun), per_second));
        Offered { shared, begun, offering: offering.abort_handle() }
    }
}

impl Offered {
    /// How many transactions have begun.
    pub fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// The counts since the start or the last call; counting begins anew.
    pub fn take_tally(&self) -> Tally {
        std::mem::take(&mut self.shared.tally())
    }
}

impl Drop for Offered {
    fn drop(&mut self) {
        // With the set of tasks, all transactions of that are dropped as well.
        self.offering.abort();
    }
}

/// Begins transactions as they become due. A transaction that could not begin in time begins late, and none is left out.
async fn offer(shared: Arc<Shared>, begun: Arc<AtomicU64>, per_second: f64) {
    let load = &shared.load;
    let mut random = Random::new(load.seed.wrapping_add(load.first_client)).fork();
    let mut workload = Workload::new(load.parameters.clone());
    let mut transactions = JoinSet::new();
    let (began, mut ticks) = (Instant::now(), tokio::time::interval(TICK));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let due = (began.elapsed().as_secs_f64() * per_second) as u64;
        while begun.load(Ordering::Relaxed) < due {
            if begun.fetch_add(1, Ordering::Relaxed).is_multiple_of(BURST) {
                tokio::task::yield_now().await;
                while transactions.try_join_next().is_some() {}
            }
            let (shared, plan) = (Arc::clone(&shared), Arc::new(workload.draw(&mut random)));
            transactions.spawn(async move {
                Client::new(&shared, shared.load.first_client).run(plan).await;
            });
        }
    }
}
