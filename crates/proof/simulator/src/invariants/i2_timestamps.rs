//! I2: replaying transactions in the order of their commit timestamps explains every read. Timestamps do not follow real
//! time, but they must be a serial order. And a clock that is far off must not drag them with it: what follows would have to wait
//! until the others have caught up.
//!
//! Where transactions have snapshots and places at local sites, replaying each site explains every read.

use std::time::Duration;

use quorate_checker::Report;
use quorate_core::ReplicaId;

use super::{BROKEN_MAX, Broken, Finding, Invariant, finding, judged};

/// Commit timestamps explain every read.
pub fn timestamps_explain_reads(report: &Report) -> Finding {
    judged(Invariant::Timestamps, report)
}

/// Snapshots and places at local sites explain every read. Of every transaction that has committed they are known, so that there is no
/// excuse for not knowing.
pub fn vectors_explain_reads(report: &Report) -> Finding {
    match judged(Invariant::Timestamps, report) {
        Finding::Unknown(reason) => finding(vec![Broken {
            level: report.level,
            ..Broken::new(Invariant::Timestamps, "unknown", reason)
        }]),
        known => known,
    }
}

/// Commit timestamps order appends as the lists do that clients read: both views of the version order agree.
pub fn timestamps_order_versions(report: &Report) -> Finding {
    judged(Invariant::Timestamps, report)
}

/// No group's timestamps have run ahead of right clocks further than clients and bounded clocks can drag them: `dragged` names replicas that
/// say otherwise, and by how much.
pub fn timestamps_follow_clocks(dragged: &[(ReplicaId, Duration)]) -> Finding {
    let broken = dragged.iter().take(BROKEN_MAX).map(|(replica, ahead)| {
        let explain = format!("the timestamps of {replica} are {ahead:?} ahead of all clocks that are right");
        Broken::new(Invariant::Timestamps, "dragged", explain)
    });
    finding(broken.collect())
}
