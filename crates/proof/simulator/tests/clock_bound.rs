//! Snapshots at the clock's time, in keyspaces that state a bound of clocks.

use quorate_simulator::invariants::Invariant;
use quorate_simulator::options::{Faults, Options};
use quorate_simulator::run::run_scenario;
use quorate_simulator::scenario::Scenario;
use quorate_simulator::system::strict::Strict;

/// Runs scenarios that state a bound, with so much of it stated, until the history of one is not strict; gives how many were
/// run up to there, and whether there was one.
fn run(share: f64, seeds: u64) -> (u64, bool) {
    let options = Options { faults: Faults::None, ..Options::new(1..=seeds) };
    let mut stated = 0;
    for seed in 1..=seeds {
        let mut scenario = Scenario::<Strict>::derive(seed, &options);
        let Some(bound) = scenario.clock_bound else { continue };
        scenario.clock_bound = Some(bound.mul_f64(share));
        let report = run_scenario(scenario, None).report;
        stated += 1;
        let violates = |invariant| report.broken.iter().any(|broken| broken.invariant == invariant);
        assert!(!violates(Invariant::Timestamps), "seed {seed}: timestamps are a serial order in any case");
        if violates(Invariant::Isolation) {
            return (stated, true);
        }
    }
    (stated, false)
}

#[test]
fn within_the_bound_snapshots_at_the_clock_are_strict() {
    let (stated, violated) = run(1.0, 60);
    assert!(stated >= 10 && !violated, "{stated}");
}

/// The promise ends with the bound, and the checker sees it.
#[test]
fn clocks_that_are_further_apart_than_stated_are_caught() {
    let (stated, violated) = run(0.0, 400);
    assert!(violated, "{stated}");
}
