//! Modes of a whole seed: limits that are as small as they can be, and load that is more than there is room for.

use std::time::Duration;

use quorate_core::Random;
use quorate_workloads::{Popularity, WorkloadKind};

use crate::fault::Fault;
use crate::scenario::Scenario;

/// Changes a scenario into what its modes make of it.
pub(crate) fn apply(scenario: &mut Scenario, random: &mut Random) {
    if scenario.has(Fault::Buggify) {
        buggify(scenario, random);
    }
    if scenario.has(Fault::Overload) {
        overload(scenario, random);
    }
}

/// Shrinks limits and time-outs, each with even odds, so that what is rare elsewhere happens all the time: pages of one
/// entry, replies that come after their time-out, prepares and decisions that are given up at once, everything collected as
/// soon as it may be.
///
/// Two bounds stay. No timer runs out so often that nothing else happens: a time-out is no less than a share of a round
/// trip. And what others would undo gets the time that it takes: a view change, and a commit on the slow path. (Of a floor that
/// follows the clock at once a slow clock hears only when it has risen again.)
fn buggify(scenario: &mut Scenario, random: &mut Random) {
    let round_trip = scenario.round_trip();
    let moment = |share: f64| round_trip.mul_f64(share) + Duration::from_millis(1);
    let mut shrinks = || random.chance(0.5);
    let coordinator = &mut scenario.coordinator;
    shrink(&mut coordinator.read_timeout, moment(0.3), shrinks());
    shrink(&mut coordinator.fast_path_timeout, Duration::ZERO, shrinks());
    shrink(&mut coordinator.resend_timeout, moment(0.3), shrinks());
    shrink(&mut coordinator.decision_resends_max, 0, shrinks());
    shrink(&mut coordinator.abandon_after, Duration::ZERO, shrinks());
    shrink(&mut coordinator.retries_max, 0, shrinks());
    shrink(&mut coordinator.scan_page_max, 1, shrinks());
    shrink(&mut coordinator.read_only_attempts_max, 0, shrinks());
    shrink(&mut coordinator.far_round_trip, Duration::ZERO, shrinks());
    let replica = &mut scenario.replica;
    shrink(&mut replica.recovery_timeout, moment(4.0) + Duration::from_millis(10), shrinks());
    shrink(&mut replica.view_change_timeout, moment(2.0) + Duration::from_millis(10), shrinks());
    shrink(&mut replica.page_bytes_max, 1, shrinks());
    shrink(&mut replica.scan_page_max, 1, shrinks());
    shrink(&mut replica.checkpoint_page_max, 1, shrinks());
    let collects = shrinks();
    shrink(&mut replica.checkpoint_interval, moment(2.0) + Duration::from_millis(10), collects);
    // Of a seed that collected nothing so far the lag would be an hour.
    shrink(&mut replica.checkpoint_lag, Duration::from_secs(1), collects);
    shrink(&mut replica.checkpoint_lag, moment(4.0) + Duration::from_millis(10), shrinks());
    shrink(&mut replica.deadline_ahead_max, Duration::ZERO, shrinks());
    shrink(&mut replica.prepare_wait_max, Duration::ZERO, shrinks());
    shrink(&mut replica.snapshot_records_min, 1, shrinks());
}

fn shrink<T: PartialOrd>(limit: &mut T, to: T, shrinks: bool) {
    if shrinks && to < *limit {
        *limit = to;
    }
}

/// Many sessions at once, which do not think and want the same few keys, at servers that take their time for each message.
fn overload(scenario: &mut Scenario, random: &mut Random) {
    scenario.thinking = 0.0;
    scenario.sessions_per_client = random.between(6, 10) as usize;
    scenario.transactions += scenario.sessions() as u64;
    scenario.attempts_max = scenario.attempts_max.min(3);
    let workload = &mut scenario.workload;
    workload.popularity = Popularity::Zipf(1.4);
    if workload.kind == WorkloadKind::Rmw {
        workload.keys = 1;
    }
    scenario.service_time = Duration::from_micros(random.between(50, 250));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Faults, Options};

    fn derive(seed: u64, faults: &[Fault]) -> Scenario {
        Scenario::derive(seed, &Options { faults: Faults::Named(faults.to_vec()), ..Options::new(1..=1) })
    }

    /// Whatever limit is added to a configuration has to be shrunk here as well: the patterns name them all.
    #[test]
    fn every_limit_is_shrunk_by_some_seed() {
        let scenarios: Vec<Scenario> = (1..=60).map(|seed| derive(seed, &[Fault::Buggify])).collect();
        let any = |shrunk: &dyn Fn(&Scenario) -> bool| scenarios.iter().any(shrunk);
        let quorate_tapir::CoordinatorConfig {
            client: _,
            rules: _,
            // None, unless a seed draws some.
            retry_ahead: _,
            deadlines: _,
            reads_in_turn: _,
            read_timeout: _,
            fast_path_timeout: _,
            resend_timeout: _,
            decision_resends_max: _,
            abandon_after: _,
            retries_max: _,
            // One span for clients and replicas, and one that clocks exceed would keep slow ones out for good.
            retry_span: _,
            scan_page_max: _,
            read_only_attempts_max: _,
            far_round_trip: _,
        } = &scenarios[0].coordinator;
        let quorate_tapir::ReplicaConfig {
            replica: _,
            group: _,
            shards: _,
            epoch: _,
            boot: _,
            rules: _,
            // Further apart than clocks can be, or everything would be refused.
            timestamp_ahead_max: _,
            retry_span: _,
            recovery_timeout: _,
            view_change_timeout: _,
            page_bytes_max: _,
            scan_page_max: _,
            checkpoint_interval: _,
            checkpoint_lag: _,
            checkpoint_page_max: _,
            deadline_ahead_max: _,
            prepare_wait_max: _,
            snapshot_records_min: _,
        } = &scenarios[0].replica;
        assert!(any(&|s| s.coordinator.read_timeout < s.round_trip()));
        assert!(any(&|s| s.coordinator.fast_path_timeout.is_zero()));
        assert!(any(&|s| s.coordinator.resend_timeout < s.round_trip()));
        assert!(any(&|s| s.coordinator.decision_resends_max == 0));
        assert!(any(&|s| s.coordinator.abandon_after.is_zero()));
        assert!(any(&|s| s.coordinator.retries_max == 0 && s.coordinator.read_only_attempts_max == 0));
        assert!(any(&|s| s.coordinator.scan_page_max == 1 && s.coordinator.far_round_trip.is_zero()));
        assert!(any(&|s| s.replica.recovery_timeout < Duration::from_millis(20)));
        assert!(any(&|s| s.replica.view_change_timeout < Duration::from_millis(20)));
        assert!(any(&|s| s.replica.page_bytes_max == 1 && s.replica.scan_page_max == 1));
        assert!(any(
            &|s| s.replica.checkpoint_page_max == 1 && s.replica.checkpoint_lag < Duration::from_millis(100)
        ));
        assert!(any(&|s| s.replica.checkpoint_interval < Duration::from_millis(20)));
        assert!(any(&|s| s.replica.deadline_ahead_max.is_zero() && s.replica.prepare_wait_max.is_zero()));
        assert!(any(&|s| s.replica.snapshot_records_min == 1));
    }

    #[test]
    fn overload_crowds_a_few_keys() {
        let (calm, crowded) = (derive(5, &[]), derive(5, &[Fault::Overload]));
        assert!(crowded.sessions() >= 18 && crowded.sessions() > calm.sessions());
        assert!(crowded.service_time > Duration::ZERO && calm.service_time.is_zero());
        assert_eq!(crowded.workload.popularity, Popularity::Zipf(1.4));
    }
}
