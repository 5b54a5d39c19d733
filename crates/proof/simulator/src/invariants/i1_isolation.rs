//! I1: what clients saw satisfies the isolation level. And the run must have shown enough conflicts for that to mean
//! something.

use quorate_checker::Report;

use super::{BROKEN_MAX, Broken, Finding, Invariant, finding, judged};

/// The level that was promised holds on the history.
pub fn isolation_holds(report: &Report) -> Finding {
    judged(Invariant::Isolation, report)
}

/// Why a judgement says nothing, if too few transactions have met.
pub fn shows_too_little(report: &Report) -> Option<String> {
    let evidence = report.evidence;
    report.vacuous.then(|| {
        format!(
            "{} commits, {} conflict edges and {} overlapping conflicting pairs are too few to show anything",
            evidence.commits, evidence.conflict_edges, evidence.overlapping_pairs
        )
    })
}

/// The promises of the workload about its data hold in all that one transaction reads; `breaches` says where they do not, in words.
pub fn promises_of_the_workload_hold(breaches: &[String]) -> Finding {
    let broken = breaches.iter().take(BROKEN_MAX);
    finding(broken.map(|text| Broken::new(Invariant::Isolation, "workload", text.clone())).collect())
}

/// The conditions hold that stand beside a level: those of TPC-C, of indexes, and of values that expire. `violations` says which do not, in words.
pub fn conditions_hold(violations: &[String]) -> Finding {
    let broken = violations.iter().take(BROKEN_MAX);
    finding(broken.map(|text| Broken::new(Invariant::Isolation, "condition", text.clone())).collect())
}
