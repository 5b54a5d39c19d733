//! How the machines of a `parallel-snapshot` keyspace are set up.

use std::time::Duration;

use quorate_core::changes::Retention;
use quorate_core::{ClientId, Random};
use quorate_log::member::Config;
use quorate_walter::{CoordinatorConfig, Moves, ReplicaConfig, Rules};

use crate::consumers::{draw_retention, has_consumers};
use crate::crash_points::Configuration;
use crate::system::parallel_snapshot::ParallelSnapshot;
use crate::system::{Sketch, on_log, shrink_to};

/// How the machines are set up.
pub(super) type Settings = crate::system::Settings<Config<ReplicaConfig>, CoordinatorConfig>;

/// Draws them.
pub(super) fn draw(sketch: &Sketch<'_>, random: &mut Random) -> Settings {
    let Sketch { options, group, round_trip, .. } = *sketch;
    let rules = Rules::with_id(options.plant_id());
    let log = on_log::draw(sketch, [200, 2_000, 1024 * 1024], random);
    let mut times = |low: f64, high: f64| {
        let factor = low + (high - low) * random.unit();
        Duration::from_millis(2) + round_trip.mul_f64(factor)
    };
    let (resend_timeout, vote_timeout, ask_again) = (times(1.2, 4.0), times(2.0, 8.0), times(1.5, 6.0));
    let initial = ReplicaConfig::new(Default::default(), group, Default::default());
    // Without a floor, or with one that transactions and late messages meet.
    let unhurried = random.chance(0.2);
    let floor_lag = match unhurried {
        true => Duration::from_secs(3_600),
        false => 8 * round_trip + Duration::from_millis(random.between(300, 6_000)),
    };
    let attention_interval = Duration::from_millis(random.between(10, 500));
    let lease = 4 * (round_trip + attention_interval) + Duration::from_millis(random.between(50, 1_000));
    let least = page_min(round_trip, floor_lag);
    let replica = ReplicaConfig {
        rules,
        lease: Some(lease),
        // Time passes up to a thousandth too fast or too slowly.
        lease_wait: lease.mul_f64(1.003) + Duration::from_millis(1),
        sites_lost_max: [0, 1, 1, 1, 2][random.index(5)],
        propagation_interval: Duration::from_millis([0, 1, 5, 50][random.index(4)]),
        batches_max: [1, 2, 64][random.index(3)],
        batch_bytes_max: [1, 2_000, 256 * 1024][random.index(3)],
        resend_timeout,
        vote_timeout,
        reservation_timeout: 2 * round_trip + Duration::from_millis(2),
        recovery_timeout: 4 * round_trip + Duration::from_millis(random.between(50, 2_000)),
        wait_timeout: 4 * round_trip + Duration::from_millis(random.between(500, 5_000)),
        attention_interval,
        floor_lag,
        scan_page_max: [1, 2, 1_000][random.index(3)].max(least),
        page_bytes_max: [200, 2_000, 1024 * 1024][random.index(3)].max(on_log::page_bytes_min(round_trip)),
        ..initial
    };
    let retention = match has_consumers::<ParallelSnapshot>(sketch.seed, options.plant_id()) {
        true => draw_retention(&mut Random::stream(sketch.seed, "retention")),
        false => Retention::NONE,
    };
    let replica = ReplicaConfig { retention, ..replica };
    let moves = Moves {
        window: 2 * round_trip + Duration::from_millis(random.between(100, 2_000)),
        writes_min: random.between(1, 4),
    };
    let replica = ReplicaConfig { moves: random.chance(0.5).then_some(moves), ..replica };
    let coordinator = CoordinatorConfig {
        rules,
        resend_timeout: Duration::from_millis(10) + ask_again,
        surely_remembered: floor_lag / 2,
        scan_page_max: [1, 3, 1_000][random.index(3)].max(least as u32),
        ..CoordinatorConfig::new(ClientId::default())
    };
    Settings { replica: log.with(replica), coordinator }
}

/// Those of a small cluster in which a crash is tried at every step.
pub(super) fn for_crashes(sketch: &Sketch<'_>, collects: bool) -> Settings {
    let rules = Rules::with_id(sketch.options.plant_id());
    let floor_lag = if collects { Duration::from_millis(100) } else { Duration::from_secs(3_600) };
    let replica = ReplicaConfig {
        rules,
        lease: Some(Duration::from_millis(400)),
        lease_wait: Duration::from_millis(402),
        sites_lost_max: 1,
        propagation_interval: Duration::from_millis(2),
        resend_timeout: Duration::from_millis(5),
        vote_timeout: Duration::from_millis(30),
        reservation_timeout: Duration::from_millis(4),
        recovery_timeout: Configuration::RECOVERY_TIMEOUT,
        wait_timeout: Duration::from_millis(500),
        attention_interval: Duration::from_millis(10),
        floor_lag,
        ..ReplicaConfig::new(Default::default(), sketch.group, Default::default())
    };
    let coordinator = CoordinatorConfig {
        rules,
        resend_timeout: Duration::from_millis(12),
        surely_remembered: floor_lag / 2,
        ..CoordinatorConfig::new(ClientId::default())
    };
    Settings { replica: on_log::for_crashes(sketch).with(replica), coordinator }
}

/// Shrinks limits and time-outs. A log gets the time that a view change takes.
pub(super) fn shrink(settings: &mut Settings, round_trip: Duration, mut shrinks: impl FnMut() -> bool) {
    let moment = |share: f64| round_trip.mul_f64(share) + Duration::from_millis(1);
    on_log::shrink(&mut settings.replica, round_trip, Duration::ZERO, &mut shrinks);
    shrink_to(&mut settings.coordinator.resend_timeout, moment(0.3), shrinks());
    let replica = &mut settings.replica.machine;
    shrink_to(&mut replica.recovery_timeout, moment(4.0) + Duration::from_millis(10), shrinks());
    shrink_to(&mut replica.attention_interval, moment(1.0), shrinks());
    shrink_to(&mut replica.resend_timeout, moment(1.1), shrinks());
    shrink_to(&mut replica.page_bytes_max, on_log::page_bytes_min(round_trip), shrinks());
    shrink_to(&mut replica.batches_max, 1, shrinks());
    // Sooner than this no transaction would end that reads before it writes.
    let lag = moment(12.0) + Duration::from_millis(300);
    if lag < replica.floor_lag && shrinks() {
        replica.floor_lag = lag;
        settings.coordinator.surely_remembered = lag / 2;
    }
    let least = page_min(round_trip, replica.floor_lag);
    shrink_to(&mut replica.scan_page_max, least, shrinks());
    shrink_to(&mut settings.coordinator.scan_page_max, least as u32, shrinks());
}

/// So many elements of a set are read at once at least, so that a set of some hundreds is read while its snapshot can be and its client has patience,
/// also from another site.
fn page_min(round_trip: Duration, floor_lag: Duration) -> usize {
    const PATIENCE: Duration = Duration::from_secs(5);
    (400.0 * round_trip.as_secs_f64() / floor_lag.min(PATIENCE).as_secs_f64()).ceil() as usize
}
