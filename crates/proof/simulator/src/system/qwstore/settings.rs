//! How the machines of the quorum store are set up.

use std::time::Duration;

use quorate_core::{ClientId, Random};
use quorate_qwstore::{Boot, CoordinatorConfig, ReplicaConfig, Rules};

use crate::system::{Sketch, shrink_to};

/// How the machines are set up.
pub(super) type Settings = crate::system::Settings<ReplicaConfig, CoordinatorConfig>;

/// Draws them.
pub(super) fn draw(sketch: &Sketch<'_>, random: &mut Random) -> Settings {
    let Sketch { seed, options, group, round_trip } = *sketch;
    let rules = Rules::with_id(options.plant_id());
    let mut times = |low: f64, high: f64| {
        let factor = low + (high - low) * random.unit();
        Duration::from_millis(2) + round_trip.mul_f64(factor)
    };
    let (read_timeout, resend_timeout) = (times(1.2, 4.0), Duration::from_millis(10) + times(1.2, 5.0));
    let coordinator = CoordinatorConfig {
        rules,
        read_timeout,
        resend_timeout,
        abandon_after: Duration::from_millis(random.between(500, 10_000)),
        scan_page_max: [1, 3, 1_000][random.index(3)],
        puts_in_turn: random.chance(0.3),
        ..CoordinatorConfig::new(ClientId::default())
    };
    let initial = ReplicaConfig::new(Default::default(), group, Boot::Initialise);
    let replica = ReplicaConfig {
        rules,
        view_change_timeout: 3 * round_trip + Duration::from_millis(random.between(20, 800)),
        page_bytes_max: [200, 2_000, 4 * 1024 * 1024][random.index(3)],
        scan_page_max: [1, 2, 1_000][random.index(3)],
        sweep_interval: round_trip + Duration::from_millis(random.between(10, 500)),
        floor_interval: Duration::from_millis(random.between(50, 3_000)),
        floor_lag: Duration::from_millis(random.between(50, 4_000)),
        floor_patience: 4 * round_trip + Duration::from_millis(random.between(100, 4_000)),
        floor_page_max: [1, 5, 4_096][random.index(3)],
        snapshot_records_min: [20, 100, 200_000][random.index(3)],
        ..initial
    };
    let mut random = Random::stream(seed, "bytes of puts above a floor");
    let replica = ReplicaConfig {
        floor_bytes_max: [1, 1_000, replica.floor_bytes_max][random.index(3)],
        floor_lag_min: 4 * round_trip + Duration::from_millis(random.between(10, 2_000)),
        ..replica
    };
    Settings { coordinator, replica }
}

/// Shrinks limits and time-outs. A view change, and a put, get the time that they take.
pub(super) fn shrink(settings: &mut Settings, round_trip: Duration, mut shrinks: impl FnMut() -> bool) {
    let moment = |share: f64| round_trip.mul_f64(share) + Duration::from_millis(1);
    let coordinator = &mut settings.coordinator;
    shrink_to(&mut coordinator.read_timeout, moment(0.3), shrinks());
    shrink_to(&mut coordinator.resend_timeout, moment(0.3), shrinks());
    shrink_to(&mut coordinator.abandon_after, Duration::ZERO, shrinks());
    shrink_to(&mut coordinator.scan_page_max, 1, shrinks());
    let replica = &mut settings.replica;
    shrink_to(&mut replica.view_change_timeout, moment(2.0) + Duration::from_millis(10), shrinks());
    shrink_to(&mut replica.page_bytes_max, 1, shrinks());
    shrink_to(&mut replica.scan_page_max, 1, shrinks());
    shrink_to(&mut replica.sweep_interval, moment(1.0), shrinks());
    shrink_to(&mut replica.floor_interval, moment(2.0) + Duration::from_millis(10), shrinks());
    // A client whose puts take longer than this to arrive puts them anew, and the time for that must suffice.
    shrink_to(&mut replica.floor_lag, moment(4.0) + Duration::from_millis(10), shrinks());
    shrink_to(&mut replica.floor_patience, moment(4.0) + Duration::from_millis(10), shrinks());
    shrink_to(&mut replica.floor_page_max, 1, shrinks());
    shrink_to(&mut replica.snapshot_records_min, 1, shrinks());
}
