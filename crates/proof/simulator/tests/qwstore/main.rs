//! The quorum store without transactions: it keeps what it promises, and what it does not promise is seen not to hold.

use quorate_simulator::options::baseline_named;
use quorate_simulator::{Faults, Options, Report, run};

fn simulate(faults: Faults, seeds: u64) -> Report {
    let system = baseline_named("qwstore").expect("there is this system");
    let report = run(&Options { system, faults, ..Options::new(1..=seeds) }, |_| true);
    assert_eq!(report.violations, []);
    report
}

#[test]
fn it_keeps_its_promises_under_all_faults() {
    let report = simulate(Faults::All, 20);
    assert!(report.committed >= 20 * 100 && report.faults.len() > 10, "{:?}", report.faults);
}

/// Without any fault the checker finds at every level what a store without transactions does not exclude.
#[test]
fn it_is_seen_to_promise_no_isolation() {
    let report = simulate(Faults::None, 8);
    let kinds = |level: &str| report.permitted[level].keys().map(String::as_str).collect::<Vec<_>>();
    for level in report.permitted.keys() {
        assert!(!kinds(level).contains(&"valid"), "some history is {level}");
        assert!(
            kinds(level).contains(&"G1a"),
            "what was aborted stays put: {level} finds {:?}",
            kinds(level)
        );
    }
    assert_eq!(report.permitted.len(), 6);
    assert!(kinds("si").contains(&"lost-update"), "{:?}", kinds("si"));
    let finds_sessions = |level| kinds(level).contains(&"session-violation");
    assert!(finds_sessions("causal") || finds_sessions("session-psi"), "{:?}", report.permitted);
    assert!(report.permitted.values().any(|kinds| kinds.contains_key("fractured-read")));
}
