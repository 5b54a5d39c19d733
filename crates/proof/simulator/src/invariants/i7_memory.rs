//! I7: what has ended is forgotten. Memory and disk do not grow with the number of transactions that have ended.
//!
//! Judged when the cluster has been at rest for a while, so that the bounds owe nothing to the load: once the floor of a
//! group has passed the instant at which the last transaction ended, its replicas keep the newest version of each key, and
//! nothing else below the floor; and a log is no longer than it may become before it is shortened.

use super::{BROKEN_MAX, Broken, Finding, Invariant, finding};

/// Nothing is left that should have been forgotten; `left` says what is, in words.
pub fn what_has_ended_is_forgotten(left: &[String]) -> Finding {
    let broken = left.iter().take(BROKEN_MAX);
    finding(broken.map(|left| Broken::new(Invariant::Sanity, "leak", left.clone())).collect())
}
