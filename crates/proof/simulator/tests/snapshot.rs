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

#[test]
fn transactions_keep_their_promise_under_all_faults() {
    assert_kept(1..=25, Faults::All);
    // Seeds of which an earlier draw has found a mistake.
    for seed in [
        45, 75, 114, 132, 141, 170, 241, 257, 260, 303, 636, 646, 917, 937, 942, 1062, 1084, 1171, 1452,
        1584, 1717, 2270, 2414, 2628, 2741, 2913, 3055, 3150, 3203, 3426, 3503, 3637, 3645, 3756, 4161, 4415,
    ] {
        let options =
            Options { system: SystemKind::SNAPSHOT, faults: Faults::All, ..Options::new(seed..=seed) };
        let told: Vec<String> =
            run(&options, |_| true).violations.iter().map(|one| one.explain.clone()).collect();
        assert_eq!(told, [""; 0], "seed {seed}");
    }
}

/// The others are played by scripts of their crate.
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
        let options = Options { faults: Faults::All, ..Options::new(1..=200) };
        let hunt = hunt(&SystemKind::SNAPSHOT.planted(plant), &options, |run| run());
        assert!(hunt.caught.is_some(), "{} was not caught", plant.id());
    }
}
