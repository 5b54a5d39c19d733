//! How the machines of a comparison system are set up.

use std::time::Duration;

use quorate_baselines::{CoordinatorConfig, ReplicaConfig, Rules, System};
use quorate_core::comparison::Rival;
use quorate_core::{ClientId, Random};

use quorate_log::member::Config;

use crate::system::{Sketch, SystemKind, on_log, shrink_to};

/// How the machines are set up.
pub(super) type Settings = crate::system::Settings<Config<ReplicaConfig>, CoordinatorConfig>;

/// Draws them.
///
/// # Panics
/// If another system is asked for.
pub(super) fn draw(sketch: &Sketch<'_>, random: &mut Random) -> Settings {
    let Sketch { options, group, round_trip, .. } = *sketch;
    let SystemKind::Rival(Rival::OnLog(system)) = options.system else {
        unreachable!("{} is no comparison system", options.system)
    };
    let rules = Rules::with_id(options.plant_id());
    let log = on_log::draw(sketch, [200, 2_000, 1024 * 1024], random);
    let coordinator = draw_coordinator(system, rules, round_trip, random);
    let initial = ReplicaConfig::new(Default::default(), group, Default::default(), system);
    // Without a floor, or with so many that clocks, late messages and recoveries meet it.
    let unhurried = random.chance(0.2);
    let mut floor_time = |millis| {
        if unhurried { Duration::from_secs(3_600) } else { Duration::from_millis(random.between(50, millis)) }
    };
    let replica = ReplicaConfig {
        rules,
        floor_interval: floor_time(3_000),
        floor_lag: floor_time(4_000),
        recovery_timeout: 4 * round_trip + Duration::from_millis(random.between(50, 2_000)),
        attention_interval: Duration::from_millis(random.between(10, 500)),
        scan_page_max: [1, 2, 1_000][random.index(3)],
        page_bytes_max: [200, 2_000, 1024 * 1024][random.index(3)].max(on_log::page_bytes_min(round_trip)),
        ceiling_ahead: Duration::from_millis([1, 50, 500][random.index(3)]),
        ..initial
    };
    Settings { replica: log.with(replica), coordinator }
}

fn draw_coordinator(
    system: System,
    rules: Rules,
    round_trip: Duration,
    random: &mut Random,
) -> CoordinatorConfig {
    let mut times = |low: f64, high: f64| {
        let factor = low + (high - low) * random.unit();
        Duration::from_millis(2) + round_trip.mul_f64(factor)
    };
    let read_timeout = times(1.2, 4.0);
    let resend_timeout = Duration::from_millis(10) + times(1.5, 6.0);
    CoordinatorConfig {
        rules,
        read_timeout,
        resend_timeout,
        abandon_after: Duration::from_millis(random.between(500, 10_000)),
        scan_page_max: [1, 3, 1_000][random.index(3)],
        ..CoordinatorConfig::new(ClientId::default(), system)
    }
}

/// Shrinks limits and time-outs. A log gets the time that a view change takes.
pub(super) fn shrink(settings: &mut Settings, round_trip: Duration, mut shrinks: impl FnMut() -> bool) {
    let moment = |share: f64| round_trip.mul_f64(share) + Duration::from_millis(1);
    on_log::shrink(&mut settings.replica, round_trip, Duration::ZERO, &mut shrinks);
    let coordinator = &mut settings.coordinator;
    shrink_to(&mut coordinator.read_timeout, moment(0.3), shrinks());
    shrink_to(&mut coordinator.resend_timeout, moment(0.3), shrinks());
    shrink_to(&mut coordinator.abandon_after, Duration::ZERO, shrinks());
    shrink_to(&mut coordinator.scan_page_max, 1, shrinks());
    let replica = &mut settings.replica.machine;
    shrink_to(&mut replica.recovery_timeout, moment(4.0) + Duration::from_millis(10), shrinks());
    shrink_to(&mut replica.attention_interval, moment(1.0), shrinks());
    shrink_to(&mut replica.scan_page_max, 1, shrinks());
    shrink_to(&mut replica.page_bytes_max, on_log::page_bytes_min(round_trip), shrinks());
    shrink_to(&mut replica.ceiling_ahead, Duration::from_millis(1), shrinks());
    let collects = shrinks();
    // Each floor is an entry, and where one message is on its way at a time an entry takes a round trip and two disks.
    shrink_to(&mut replica.floor_interval, moment(8.0) + Duration::from_millis(20), collects);
    // Of a seed that collected nothing so far the lag would be an hour.
    shrink_to(&mut replica.floor_lag, Duration::from_secs(1), collects);
}
