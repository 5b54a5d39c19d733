//! Snapshot keyspaces, as far as they are simulated: without faults.

use quorate_simulator::{Faults, Options, SystemKind, run};

#[test]
fn transactions_keep_their_promise_where_nothing_goes_wrong() {
    let options = Options { system: SystemKind::SNAPSHOT, faults: Faults::None, ..Options::new(8..=20) };
    let report = run(&options, |_| true);
    let describe = |violation: &quorate_simulator::Violation| {
        format!("quorate {}: {} {}", violation.repeat, violation.invariant, violation.explain)
    };
    let told: Vec<String> = report.violations.iter().map(describe).collect();
    assert_eq!(told, [""; 0]);
}
