//! Snapshot keyspaces, as they are simulated.

use std::ops::RangeInclusive;

use quorate_simulator::{Faults, Options, SystemKind, run};

fn assert_kept(seeds: RangeInclusive<u64>, faults: Faults) {
    let options = Options { system: SystemKind::SNAPSHOT, faults, ..Options::new(seeds) };
    let report = run(&options, |_| true);
    let describe = |violation: &quorate_simulator::Violation| {
        format!("quorate {}: {} {}", violation.repeat, violation.invariant, violation.explain)
    };
    let told: Vec<String> = report.violations.iter().map(describe).collect();
    assert_eq!(told, [""; 0]);
    assert!(report.committed > 1_000, "{} committed", report.committed);
}

#[test]
fn transactions_keep_their_promise_where_nothing_goes_wrong() {
    assert_kept(1..=20, Faults::None);
}

#[test]
fn transactions_keep_their_promise_under_all_faults() {
    assert_kept(1..=20, Faults::All);
}
