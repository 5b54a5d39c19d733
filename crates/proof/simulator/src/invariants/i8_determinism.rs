//! I8: the same seed gives the same execution.

use super::{Broken, Finding, Invariant, finding};
use crate::world::trace::TraceHash;

/// Two runs of one seed have the same trace.
pub fn executions_are_equal(one: TraceHash, other: TraceHash) -> Finding {
    let differ = (one != other).then(|| {
        let explain = format!("one run has the trace hash {one}, the next {other}");
        Broken::new(Invariant::Determinism, "nondeterministic", explain)
    });
    finding(differ.into_iter().collect())
}
