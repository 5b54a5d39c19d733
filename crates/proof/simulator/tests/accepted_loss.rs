//! Groups that have lost more than they survive, and operators who accept that, as they are simulated.

use quorate_simulator::{Faults, Options, Report, SystemKind, run};

fn told(report: &Report) -> Vec<String> {
    let describe = |violation: &quorate_simulator::Violation| {
        format!("quorate {}: {} {}", violation.repeat, violation.invariant, violation.explain)
    };
    report.violations.iter().map(describe).collect()
}

/// Seeds of a system in which groups lose more than they survive, beside other faults.
fn lossy(system: SystemKind, beside: &str, seeds: std::ops::RangeInclusive<u64>) -> Report {
    let faults: Faults = format!("accepted-loss,{beside}").parse().expect("there are such faults");
    run(&Options { system, faults, repeat_every: 0, ..Options::new(seeds) }, |_| true)
}

/// Under all other faults, a group goes on with what its survivors know, and nothing is lost of what begins later.
#[test]
fn groups_that_have_lost_more_than_they_survive_go_on_once_that_is_accepted() {
    let expected = [
        "replicas went on asleep",
        "all replicas served again after an accepted loss",
        "an operator that accepted a loss vanished",
    ];
    for system in [SystemKind::STRICT, SystemKind::SERIALIZABLE] {
        let report = lossy(system, "node-crashes,partitions", 1..=16);
        assert_eq!(told(&report), [""; 0]);
        let times = |what: &str| report.happened.get(what).map_or(0, |happened| happened.times);
        assert!(expected.iter().all(|what| times(what) > 0), "{:?}", report.happened);
    }
}
