//! Snapshot keyspaces, as they are simulated.

use std::ops::RangeInclusive;

use quorate_simulator::{Faults, Options, SystemKind, hunt, run};
use quorate_str::Plant;

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
    assert_kept(1..=40, Faults::None);
}

/// Seeds 5, 45, 114 and 119 end with sessions that wait for ever, and are not among these.
#[test]
fn transactions_keep_their_promise_under_all_faults() {
    assert_kept(6..=25, Faults::All);
}

/// Each takes six seeds at most. The others are played by scripts of their crate.
#[test]
fn plants_are_caught() {
    let plants = [
        Plant::BlindWritesIndependent,
        Plant::WaitingReadersUnnoted,
        Plant::ReadersForgotten,
        Plant::LaggingReplicaServes,
        Plant::SessionIgnored,
        Plant::ReadOnlyAtOnce,
        Plant::CacheReadersUnnoted,
        Plant::CacheEmpty,
        Plant::StaleDependentsKept,
        Plant::DependenciesIgnored,
    ];
    for plant in plants {
        let options = Options { faults: Faults::All, ..Options::new(1..=40) };
        let hunt = hunt(&SystemKind::SNAPSHOT.planted(plant), &options, |run| run());
        assert!(hunt.caught.is_some(), "{} was not caught", plant.id());
    }
}
