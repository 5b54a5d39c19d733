//! Modes of a whole seed: limits that are as small as they can be, and load that is more than there is room for.

use std::time::Duration;

use quorate_core::Random;
use quorate_workloads::{Popularity, WorkloadKind};

use crate::fault::Fault;
use crate::scenario::Scenario;
use crate::system::System;

/// Changes a scenario into what its modes make of it.
pub(crate) fn apply<S: System>(scenario: &mut Scenario<S>, random: &mut Random) {
    if scenario.has(Fault::Buggify) {
        buggify(scenario, random);
    }
    if scenario.has(Fault::Overload) {
        overload(scenario, random);
    }
}

/// Shrinks limits and time-outs, each with even odds: pages of one entry, replies that come after their time-out, requests
/// that are given up at once, everything collected as soon as it may be.
fn buggify<S: System>(scenario: &mut Scenario<S>, random: &mut Random) {
    let round_trip = scenario.round_trip();
    S::shrink(&mut scenario.settings, round_trip, &mut || random.chance(0.5));
}

/// Many sessions at once, which do not think and want the same few keys, at servers that take their time for each message.
fn overload<S: System>(scenario: &mut Scenario<S>, random: &mut Random) {
    scenario.thinking = 0.0;
    scenario.sessions_per_client = random.between(6, 10) as usize;
    scenario.transactions += scenario.sessions() as u64;
    scenario.attempts_max = scenario.attempts_max.min(3);
    let workload = &mut scenario.workload;
    // If two users of a social network are concerned all the time, nobody can tell whose change of a count a reader has seen.
    if !workload.kind.needs_sets() {
        workload.popularity = Popularity::Zipf(1.4);
    }
    if workload.kind == WorkloadKind::Rmw {
        workload.keys = 1;
    }
    scenario.service_time = Duration::from_micros(random.between(50, 250));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Faults, Options};
    use crate::system::strict::Strict;

    fn derive(seed: u64, faults: &[Fault]) -> Scenario<Strict> {
        Scenario::derive(seed, &Options { faults: Faults::Named(faults.to_vec()), ..Options::new(1..=1) })
    }

    #[test]
    fn overload_crowds_a_few_keys() {
        let (calm, crowded) = (derive(5, &[]), derive(5, &[Fault::Overload]));
        assert!(crowded.sessions() >= 18 && crowded.sessions() > calm.sessions());
        assert!(crowded.service_time > Duration::ZERO && calm.service_time.is_zero());
        assert_eq!(crowded.workload.popularity, Popularity::Zipf(1.4));
    }
}
