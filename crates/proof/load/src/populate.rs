//! Carries out plans that are known beforehand, many at a time: what there is at the beginning of a measurement.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use quorate::{Error, Keyspace};
use quorate_workloads::unique::CLIENTS_MAX;
use quorate_workloads::{Execution, Plan, UniqueValues};
use tokio::task::JoinSet;

use crate::client::execute;

/// So many transactions are under way at a time.
const IN_FLIGHT: usize = 64;

/// Carries out the plan of each of these numbers, a transaction each. `part` tells apart what runs side by side, and lies below
/// [`PARTS_MAX`]. Gives a number that no value was drawn after: clients that begin there write later values.
///
/// # Errors
/// The first transaction that fails.
///
/// # Panics
/// If there are too many parts.
pub async fn populate(
    keyspace: &Keyspace,
    part: u64,
    numbers: Vec<u64>,
    plan: impl Fn(u64) -> Plan + Send + Sync + 'static,
    value_bytes_min: usize,
) -> quorate::Result<u64> {
    assert!(part < PARTS_MAX, "there are at most {PARTS_MAX} parts");
    let (plan, numbers) = (Arc::new(plan), Arc::new(numbers));
    let (next, drawn) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = JoinSet::new();
    for task in 0..IN_FLIGHT as u64 {
        // The numbers of other clients begin at zero.
        let mut unique = UniqueValues::new(CLIENTS_MAX - 1 - part * IN_FLIGHT as u64 - task);
        let (keyspace, plan, numbers) = (keyspace.clone(), Arc::clone(&plan), Arc::clone(&numbers));
        let (next, drawn) = (Arc::clone(&next), Arc::clone(&drawn));
        tasks.spawn(async move {
            while let Some(number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
                let execution = Execution::new(Arc::new(plan(*number)), &mut unique, value_bytes_min);
                keyspace.transact(async |txn| execute(&mut execution.clone(), &txn, |_| {}).await).await?;
            }
            drawn.fetch_max(unique.drawn(), Ordering::Relaxed);
            Ok::<(), Error>(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(Error::application)??;
    }
    Ok(drawn.load(Ordering::Relaxed))
}

/// So many calls of [`populate`] may run side by side.
pub const PARTS_MAX: u64 = 64;
