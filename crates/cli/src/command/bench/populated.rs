//! `--populate`: every key has a value before the measurement begins.

use quorate_load::{Load, populate};
use quorate_workloads::{WorkloadKind, writes};

use super::Measured;
use crate::exit::Failure;
use crate::output::{Progress, thousands};

/// So many bytes of values, about, are written by a transaction, and so many keys at most.
const BYTES_OF_ONE: u64 = 16 << 10;
const KEYS_OF_ONE_MAX: u64 = 100;

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
    let value_bytes = load.parameters.value_bytes_min.max(1) as u64;
    let keys_of_one = (BYTES_OF_ONE / value_bytes).clamp(1, KEYS_OF_ONE_MAX);
    let firsts = (0..keys).step_by(keys_of_one as usize).collect();
    let plan = move |first: u64| writes::population(first..keys.min(first + keys_of_one));
    Ok(populate(&load.keyspace, 0, firsts, plan, load.parameters.value_bytes_min).await?)
}
