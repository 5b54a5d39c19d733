//! One client of a load whose transactions are shown before they are final: each begins after the last one that was shown, and is final when its time comes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use quorate::{Error, Speculated, SpeculativeCommit};
use quorate_core::Random;
use quorate_workloads::{Execution, Plan, UniqueValues, Workload};
use tokio::sync::mpsc;

use super::Shared;
use super::client::{REFUSED_PAUSE, execute};

/// Runs transactions until it is told to stop, and then until all of them are settled.
pub(super) async fn run(shared: Arc<Shared>, number: u64) {
    let load = &shared.load;
    let number = load.first_client + number;
    // The generators of neighbouring numbers are neighbours; those that they fork are not.
    let mut random = Random::new(load.seed.wrapping_add(number)).fork();
    let mut workload = Workload::new(load.parameters.clone());
    // A transaction that is shown holds one end of this until it is settled.
    let (unsettled, mut settled) = mpsc::channel::<()>(1);
    let unique = UniqueValues::after(number, load.drawn);
    let mut session = Session { shared: Arc::clone(&shared), unique, earlier: None, unsettled };
    while !shared.stop.load(Ordering::Relaxed) {
        let plan = Arc::new(workload.draw(&mut random));
        if let Some(pause) = session.run(&plan).await {
            tokio::time::sleep(pause).await;
        }
    }
    drop(session);
    // Nothing is ever sent: this waits until nobody could any more.
    let _ = settled.recv().await;
}

struct Session {
    shared: Arc<Shared>,
    unique: UniqueValues,
    /// The transaction that the next one comes after.
    earlier: Option<SpeculativeCommit>,
    unsettled: mpsc::Sender<()>,
}

impl Session {
    /// Runs one transaction until it is shown or final, and says how long to wait before the next, if at all.
    async fn run(&mut self, plan: &Arc<Plan>) -> Option<Duration> {
        let began = Instant::now();
        loop {
            let attempted = self.attempt(plan, began).await;
            let is_to_stop = self.shared.stop.load(Ordering::Relaxed);
            let mut tally = self.shared.tally();
            match attempted {
                Ok(Speculated::Shown(commit)) => {
                    tally.on_shown(began.elapsed());
                    self.earlier = Some(commit);
                    return None;
                }
                Ok(Speculated::Final(_)) => {
                    self.earlier = None;
                    return None;
                }
                Err(Error::Conflict) => {
                    // It may be the earlier one that has aborted, and all after it with it.
                    self.earlier = None;
                    tally.aborted += 1;
                    if is_to_stop {
                        return None;
                    }
                }
                Err(Error::Unknown { .. } | Error::AnswersLost { .. }) => {
                    self.earlier = None;
                    tally.unknown += 1;
                    return None;
                }
                Err(error) => {
                    self.earlier = None;
                    tally.refused += 1;
                    let pause = match &error {
                        Error::Overloaded { retry_after } => *retry_after,
                        _ => REFUSED_PAUSE,
                    };
                    tally.trouble = Some(error.to_string());
                    return Some(pause);
                }
            }
        }
    }

    /// Runs an attempt until it is shown or final.
    async fn attempt(&mut self, plan: &Arc<Plan>, began: Instant) -> quorate::Result<Speculated> {
        let load = &self.shared.load;
        let mut txn = match &self.earlier {
            Some(earlier) => load.keyspace.begin_after(earlier).await?,
            None => load.keyspace.begin().await?,
        };
        txn.set_kind(plan.kind)?;
        let mut execution =
            Execution::new(Arc::clone(plan), &mut self.unique, load.parameters.value_bytes_min);
        execute(&mut execution, &txn, drop).await?;
        let (shared, unsettled) = (Arc::clone(&self.shared), self.unsettled.clone());
        let asked = Instant::now();
        let settle = move |end: quorate::Result<quorate::Receipt>| {
            let mut tally = shared.tally();
            match end {
                Ok(receipt) => {
                    tally.on_commit(began.elapsed(), asked.elapsed(), shared.load.round_trip, receipt.fast);
                    if let Some(commits) = &shared.load.commits {
                        commits.note();
                    }
                }
                Err(Error::ApologyOwed { .. }) => {
                    tally.aborted += 1;
                    tally.apologies += 1;
                }
                Err(_) => tally.unknown += 1,
            }
            drop(unsettled);
        };
        txn.commit_speculatively(|_| true, |_| {}, settle).await
    }
}
