//! How the machines of a strict keyspace are set up.

use std::time::Duration;

use quorate_core::topology::SerialOrder;
use quorate_core::{ClientId, GroupSize, Random};
use quorate_tapir::{Boot, CoordinatorConfig, ReplicaConfig, Retention, Rules};

use crate::backups::draw_pace;
use crate::consumers::{draw_retention, has_consumers};
use crate::crash_points::Configuration;
use crate::options::Options;
use crate::system::strict::Strict;
use crate::system::{Sketch, shrink_to};

/// How the machines are set up.
pub(super) type Settings = crate::system::Settings<ReplicaConfig, CoordinatorConfig>;

/// Scenarios with longer intervals are those without checkpoints.
const CHECKPOINT_INTERVAL_MAX: Duration = Duration::from_secs(60);

/// Draws them.
pub(super) fn draw(sketch: &Sketch<'_>, random: &mut Random) -> Settings {
    let Sketch { seed, options, group, round_trip } = *sketch;
    let rules = draw_rules(seed, options);
    let retry_ahead = draw_retry_ahead(seed, options, round_trip);
    let mut coordinator =
        CoordinatorConfig { retry_ahead, ..draw_coordinator_config(round_trip, rules, random) };
    coordinator.acknowledged_together = Random::stream(seed, "acknowledged together").chance(0.75);
    let mut replica = draw_replica_config(group, round_trip, rules, random);
    replica.pace = draw_pace(seed);
    if random.chance(0.5) {
        // Clocks that jump, and nodes that were away, come to it; the time from one attempt to the next does not, or a
        // client whose clock is slow would never get in.
        replica.retry_span = Duration::from_millis(random.between(20_000, 60_000));
        coordinator.retry_span = replica.retry_span;
    }
    if collects(&replica) {
        let mut random = Random::stream(seed, "bytes above a floor");
        replica.checkpoint_bytes_max = [1, 5_000, replica.checkpoint_bytes_max][random.index(3)];
        replica.checkpoint_lag_min = 4 * round_trip + Duration::from_millis(random.between(10, 2_000));
    }
    if has_consumers::<Strict>(seed, options.plant_id()) {
        let mut random = Random::stream(seed, "retention");
        replica.retention = draw_retention(&mut random);
        replica.checkpoint_lag_followed = Duration::from_millis(random.between(20, 3_000));
    }
    Settings { coordinator, replica }
}

/// True if floors are searched for while a seed runs.
pub(super) fn collects(replica: &ReplicaConfig) -> bool {
    replica.checkpoint_interval < CHECKPOINT_INTERVAL_MAX
}

/// Those of a small cluster in which a crash is tried at every step.
pub(super) fn for_crashes(sketch: &Sketch<'_>, collects: bool) -> Settings {
    let rules = Rules::with_id(sketch.options.plant_id());
    let checkpoint = if collects { Duration::from_millis(15) } else { Duration::from_secs(3_600) };
    Settings {
        coordinator: CoordinatorConfig {
            rules,
            read_timeout: Duration::from_millis(4),
            fast_path_timeout: Duration::from_millis(3),
            resend_timeout: Duration::from_millis(12),
            retries_max: 3,
            abandon_after: Duration::from_millis(500),
            ..CoordinatorConfig::new(ClientId::default())
        },
        replica: ReplicaConfig {
            rules,
            recovery_timeout: Configuration::RECOVERY_TIMEOUT,
            view_change_timeout: Duration::from_millis(30),
            checkpoint_interval: checkpoint,
            checkpoint_lag: checkpoint,
            retention: Retention::NONE,
            ..ReplicaConfig::new(Default::default(), sketch.group, Boot::Initialise)
        },
    }
}

/// Some seeds run the serializable variant, unless all of them are to have one order.
fn draw_rules(seed: u64, options: &Options) -> Rules {
    let rules = Rules::with_id(options.plant_id());
    if rules != Rules::EXCLUSIVE {
        return rules;
    }
    let is_drawn = || options.variants && Random::stream(seed, "serializable variant").chance(0.1);
    let drawn = || if is_drawn() { SerialOrder::Timestamps } else { SerialOrder::RealTime };
    Rules::of(options.order.unwrap_or_else(drawn))
}

/// Some seeds propose again further ahead than they are asked to.
fn draw_retry_ahead(seed: u64, options: &Options, round_trip: Duration) -> Duration {
    let mut random = Random::stream(seed, "retry ahead");
    if !options.variants || !random.chance(0.2) {
        return Duration::ZERO;
    }
    Duration::from_millis(1) + round_trip.mul_f64(2.0 * random.unit())
}

fn draw_coordinator_config(round_trip: Duration, rules: Rules, random: &mut Random) -> CoordinatorConfig {
    let mut times = |low: f64, high: f64| {
        let factor = low + (high - low) * random.unit();
        Duration::from_millis(2) + round_trip.mul_f64(factor)
    };
    let read_timeout = times(1.2, 4.0);
    let fast_path_timeout = times(0.2, 3.0);
    let resend_timeout = Duration::from_millis(10) + times(1.5, 6.0);
    CoordinatorConfig {
        rules,
        read_timeout,
        fast_path_timeout,
        resend_timeout,
        retries_max: random.between(0, 10) as u32,
        abandon_after: Duration::from_millis(random.between(500, 10_000)),
        decision_resends_max: random.between(1, 4) as u32,
        scan_page_max: [1, 3, 1_000][random.index(3)],
        deadlines: random.chance(0.5),
        reads_in_turn: random.chance(0.5),
        far_round_trip: Duration::from_millis([0, 5][random.index(2)]),
        ..CoordinatorConfig::new(ClientId::default())
    }
}

fn draw_replica_config(
    group: GroupSize,
    round_trip: Duration,
    rules: Rules,
    random: &mut Random,
) -> ReplicaConfig {
    let initial = ReplicaConfig::new(Default::default(), group, Boot::Initialise);
    // Without checkpoints, or with so many that clocks, late messages and recoveries meet the floor.
    let unhurried = random.chance(0.2);
    let mut checkpoint_time = |millis| {
        if unhurried { Duration::from_secs(3_600) } else { Duration::from_millis(random.between(50, millis)) }
    };
    ReplicaConfig {
        checkpoint_interval: checkpoint_time(3_000),
        checkpoint_lag: checkpoint_time(4_000),
        rules,
        recovery_timeout: 4 * round_trip + Duration::from_millis(random.between(50, 2_000)),
        view_change_timeout: 3 * round_trip + Duration::from_millis(random.between(20, 800)),
        page_bytes_max: [200, 2_000, 4 * 1024 * 1024][random.index(3)],
        scan_page_max: [1, 2, 1_000][random.index(3)],
        checkpoint_page_max: [1, 5, 4_096][random.index(3)],
        retention: Retention::NONE,
        prepare_wait_max: Duration::from_millis([0, 20, 1_000][random.index(3)]),
        snapshot_records_min: [20, 100, 200_000][random.index(3)],
        ..initial
    }
}

/// Shrinks limits and time-outs, so that prepares and decisions are given up at once. (Of a floor that follows the clock at once
/// a slow clock hears only when it has risen again.) A view change, and a commit on the slow path, get the time that they take.
pub(super) fn shrink(settings: &mut Settings, round_trip: Duration, mut shrinks: impl FnMut() -> bool) {
    let moment = |share: f64| round_trip.mul_f64(share) + Duration::from_millis(1);
    let coordinator = &mut settings.coordinator;
    shrink_to(&mut coordinator.read_timeout, moment(0.3), shrinks());
    shrink_to(&mut coordinator.fast_path_timeout, Duration::ZERO, shrinks());
    shrink_to(&mut coordinator.resend_timeout, moment(0.3), shrinks());
    shrink_to(&mut coordinator.decision_resends_max, 0, shrinks());
    shrink_to(&mut coordinator.abandon_after, Duration::ZERO, shrinks());
    shrink_to(&mut coordinator.retries_max, 0, shrinks());
    shrink_to(&mut coordinator.scan_page_max, 1, shrinks());
    shrink_to(&mut coordinator.read_only_attempts_max, 0, shrinks());
    shrink_to(&mut coordinator.far_round_trip, Duration::ZERO, shrinks());
    let replica = &mut settings.replica;
    shrink_to(&mut replica.recovery_timeout, moment(4.0) + Duration::from_millis(10), shrinks());
    shrink_to(&mut replica.view_change_timeout, moment(2.0) + Duration::from_millis(10), shrinks());
    shrink_to(&mut replica.page_bytes_max, 1, shrinks());
    shrink_to(&mut replica.scan_page_max, 1, shrinks());
    shrink_to(&mut replica.checkpoint_page_max, 1, shrinks());
    let collects = shrinks();
    shrink_to(&mut replica.checkpoint_interval, moment(2.0) + Duration::from_millis(10), collects);
    // Of a seed that collected nothing so far the lag would be an hour.
    shrink_to(&mut replica.checkpoint_lag, Duration::from_secs(1), collects);
    shrink_to(&mut replica.checkpoint_lag, moment(4.0) + Duration::from_millis(10), shrinks());
    shrink_to(&mut replica.deadline_ahead_max, Duration::ZERO, shrinks());
    shrink_to(&mut replica.prepare_wait_max, Duration::ZERO, shrinks());
    shrink_to(&mut replica.snapshot_records_min, 1, shrinks());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault;
    use crate::scenario::Scenario;
    use crate::system::named;
    use crate::system::strict::Strict;

    fn derive(seed: u64) -> Scenario<Strict> {
        Scenario::derive(seed, &Options { faults: named(&[Fault::Buggify]), ..Options::new(1..=1) })
    }

    /// A limit that is added to a configuration has to be shrunk here as well: the patterns name them all.
    #[test]
    fn every_limit_is_shrunk_by_some_seed() {
        let scenarios: Vec<Scenario<Strict>> = (1..=60).map(derive).collect();
        let any = |shrunk: &dyn Fn(&Scenario<Strict>) -> bool| scenarios.iter().any(shrunk);
        let CoordinatorConfig {
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
            // Both are drawn: there are clients of earlier versions.
            acknowledged_together: _,
            abandon_after: _,
            retries_max: _,
            // One span for clients and replicas, and one that clocks exceed would keep slow ones out for good.
            retry_span: _,
            scan_page_max: _,
            read_only_attempts_max: _,
            far_round_trip: _,
        } = &scenarios[0].settings.coordinator;
        let ReplicaConfig {
            replica: _,
            shards: _,
            groups: _,
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
            // Drawn as small as they can be.
            checkpoint_lag_min: _,
            checkpoint_lag_followed: _,
            checkpoint_bytes_max: _,
            checkpoint_page_max: _,
            deadline_ahead_max: _,
            prepare_wait_max: _,
            snapshot_records_min: _,
            retention: _,
            // Drawn as small as it can be.
            pace: _,
            // Of each replica its own: see `low-memory`.
            attic: _,
        } = &scenarios[0].settings.replica;
        assert!(any(&|s| s.settings.coordinator.read_timeout < s.round_trip()));
        assert!(any(&|s| s.settings.coordinator.fast_path_timeout.is_zero()));
        assert!(any(&|s| s.settings.coordinator.resend_timeout < s.round_trip()));
        assert!(any(&|s| s.settings.coordinator.decision_resends_max == 0));
        assert!(any(&|s| s.settings.coordinator.abandon_after.is_zero()));
        assert!(any(&|s| s.settings.coordinator.retries_max == 0
            && s.settings.coordinator.read_only_attempts_max == 0));
        assert!(any(
            &|s| s.settings.coordinator.scan_page_max == 1 && s.settings.coordinator.far_round_trip.is_zero()
        ));
        assert!(any(&|s| s.settings.replica.recovery_timeout < Duration::from_millis(20)));
        assert!(any(&|s| s.settings.replica.view_change_timeout < Duration::from_millis(20)));
        assert!(any(&|s| s.settings.replica.page_bytes_max == 1 && s.settings.replica.scan_page_max == 1));
        assert!(any(&|s| s.settings.replica.checkpoint_page_max == 1
            && s.settings.replica.checkpoint_lag < Duration::from_millis(100)));
        assert!(any(&|s| s.settings.replica.checkpoint_interval < Duration::from_millis(20)));
        assert!(any(&|s| s.settings.replica.deadline_ahead_max.is_zero()
            && s.settings.replica.prepare_wait_max.is_zero()));
        assert!(any(&|s| s.settings.replica.snapshot_records_min == 1));
    }
}
