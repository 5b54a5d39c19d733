//! Snapshot keyspaces, as they are simulated.

use std::ops::RangeInclusive;

use quorate_simulator::{Faults, Options, Report, SystemKind, run};

fn assert_kept(seeds: RangeInclusive<u64>, faults: Faults) -> Report {
    let options = Options { system: SystemKind::SNAPSHOT, faults, ..Options::new(seeds) };
    let report = run(&options, |_| true);
    let describe = |violation: &quorate_simulator::Violation| {
        format!("quorate {}: {} {}", violation.repeat, violation.invariant, violation.explain)
    };
    let told: Vec<String> = report.violations.iter().map(describe).collect();
    assert_eq!(told, [""; 0]);
    assert!(report.committed > 1_000, "{} committed", report.committed);
    report
}

#[test]
fn transactions_keep_their_promise_where_nothing_goes_wrong() {
    assert_kept(1..=20, Faults::None);
}

#[test]
fn transactions_keep_their_promise_under_all_faults() {
    assert_kept(1..=20, Faults::All);
}

/// In a quarter of the seeds consumers follow what commits.
#[test]
fn consumers_of_changes_are_told_what_has_committed() {
    let report = assert_kept(100..=120, Faults::All);
    let told = &report.happened["changes told to consumers"];
    assert!(told.seeds >= 3 && told.times > 200, "{told:?}");
}
