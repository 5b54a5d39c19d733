//! I1: what clients saw satisfies the isolation level. And the run must have shown enough conflicts for that to mean
//! something.

use quorate_checker::Report;

use super::{Broken, Finding, Invariant, finding, judged};

/// The level that was promised holds on the history.
pub fn isolation_holds(report: &Report) -> (Finding, Finding) {
    let evidence = report.evidence;
    let vacuous = report.vacuous.then(|| {
        let explain = format!(
            "{} commits, {} conflict edges and {} overlapping conflicting pairs are too few to show anything",
            evidence.commits, evidence.conflict_edges, evidence.overlapping_pairs
        );
        Broken { level: report.level, ..Broken::new(Invariant::Evidence, "vacuous", explain) }
    });
    (judged(Invariant::Isolation, report), finding(vacuous.into_iter().collect()))
}
