//! `--populate`: every key has a value before the measurement begins.

use quorate_load::{Load, populate};
use quorate_workloads::{WorkloadKind, writes};

use super::Measured;
use crate::exit::Failure;
use crate::output::{Progress, thousands};

/// So many keys are written by a transaction.
const KEYS_OF_ONE: u64 = 100;

/// The workloads over numbered keys with plain values, at clients that stand anywhere.
pub(super) fn validate(workload: Measured, has_sites: bool) -> Result<(), Failure> {
    let is_meant = match workload {
        Measured::Workload(kind) => matches!(
            kind,
            WorkloadKind::Rmw | WorkloadKind::Writes | WorkloadKind::Retwis | WorkloadKind::YcsbT
        ),
        Measured::Tpcc | Measured::Rubis => false,
    };
    if is_meant && !has_sites {
        return Ok(());
    }
    Err(Failure::usage(
        "--populate is for rmw, writes, retwis and ycsb-t in one place; other workloads write what they begin with anyhow, or have no values",
    ))
}

/// Writes all keys of a workload. Gives a number after which no value was drawn.
///
/// # Errors
/// A transaction fails.
pub(super) async fn populate_keys(load: &Load, progress: &Progress) -> Result<u64, Failure> {
    let keys = load.parameters.keys;
    progress.say(format!("writing {} keys", thousands(keys)));
    let firsts = (0..keys).step_by(KEYS_OF_ONE as usize).collect();
    let plan = move |first: u64| writes::population(first..keys.min(first + KEYS_OF_ONE));
    Ok(populate(&load.keyspace, 0, firsts, plan, load.parameters.value_bytes_min).await?)
}
