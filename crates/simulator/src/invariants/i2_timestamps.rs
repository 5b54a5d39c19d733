//! I2: replaying transactions in the order of their commit timestamps explains every read. Timestamps do not follow real
//! time, but they must be a serial order.

use quorate_checker::Report;

use super::{Finding, Invariant, judged};

/// Commit timestamps explain every read.
pub fn timestamps_explain_reads(report: &Report) -> Finding {
    judged(Invariant::Timestamps, report)
}

/// Commit timestamps order appends as the lists do that clients read: both views of the version order agree.
pub fn timestamps_order_versions(report: &Report) -> Finding {
    judged(Invariant::Timestamps, report)
}
