//! How the machines of a `snapshot` keyspace are set up.

use std::time::Duration;

use quorate_core::changes::Retention;
use quorate_core::topology::Grants;
use quorate_core::{ClientId, Random};
use quorate_log::member::Config;
use quorate_str::tuner::{Setting, TunerConfig};
use quorate_str::{CoordinatorConfig, ReplicaConfig, Rules, Variant};

use crate::consumers::{draw_retention, has_consumers};
use crate::crash_points::Configuration;
use crate::system::snapshot::Snapshot;
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
    let (resend_timeout, vote_timeout, ask_again) = (times(1.2, 4.0), times(1.0, 6.0), times(1.5, 6.0));
    let variants = [Variant::CLOCK_SI, Variant::PLANET, Variant::INTERNAL, Variant::EXTERNAL];
    let drawn = if random.chance(0.7) { Variant::EXTERNAL } else { variants[random.index(4)] };
    let variant = options.speculation.map_or(drawn, Variant::from);
    // Without a floor, or with one that transactions and late messages meet.
    let floor_lag = match random.chance(0.2) {
        true => Duration::from_secs(3_600),
        false => readable(round_trip) + Duration::from_millis(random.between(300, 6_000)),
    };
    let least = page_min(round_trip, floor_lag);
    let grant_length = 4 * round_trip + Duration::from_millis(random.between(20, 3_000));
    // A tuner changes how much is speculated while transactions run.
    let tuner = random.chance(0.3).then(|| TunerConfig {
        window_min: Duration::from_millis(random.between(20, 200)),
        window_max: Duration::from_millis(random.between(200, 2_000)),
        commits_per_window_min: 2,
        windows_max: 3,
        probe_gap_windows: 2,
        ..TunerConfig::new(Setting::External { chain_max: Variant::CHAIN_MAX })
    });
    let grants = match Random::stream(sketch.seed, "grants").chance(0.2) {
        true => Grants::Leader,
        false => Grants::All,
    };
    let (mut retention, mut follow_lag) = (Retention::NONE, Duration::ZERO);
    if has_consumers::<Snapshot>(sketch.seed, options.plant_id()) {
        let mut random = Random::stream(sketch.seed, "retention");
        retention = draw_retention(&mut random);
        follow_lag = Duration::from_millis([0, random.between(1, 1_000)][random.index(2)]);
    }
    let replica = ReplicaConfig {
        rules,
        journals: true,
        variant,
        tuner,
        orders_sessions: random.chance(0.3),
        grants,
        grant_length,
        vote_timeout,
        resend_timeout,
        recovery_timeout: 4 * round_trip + Duration::from_millis(random.between(50, 2_000)),
        certify_timeout: 20 * round_trip + Duration::from_millis(random.between(500, 5_000)),
        idle_timeout: Duration::from_secs(5),
        attention_interval: Duration::from_millis(random.between(5, 200)),
        floor_lag,
        retention,
        follow_lag,
        scan_page_max: [1, 2, 1_000][random.index(3)].max(least),
        page_bytes_max: [200, 2_000, 1024 * 1024][random.index(3)].max(on_log::page_bytes_min(round_trip)),
        ..ReplicaConfig::new(Default::default(), group, Default::default())
    };
    let coordinator = CoordinatorConfig {
        resend_timeout: Duration::from_millis(10) + ask_again,
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
        journals: true,
        grant_length: Duration::from_millis(100),
        vote_timeout: Duration::from_millis(10),
        resend_timeout: Duration::from_millis(5),
        recovery_timeout: Configuration::RECOVERY_TIMEOUT,
        certify_timeout: Duration::from_millis(500),
        attention_interval: Duration::from_millis(5),
        floor_lag,
        retention: Retention::NONE,
        ..ReplicaConfig::new(Default::default(), sketch.group, Default::default())
    };
    let coordinator = CoordinatorConfig {
        resend_timeout: Duration::from_millis(12),
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
    shrink_to(&mut replica.vote_timeout, moment(0.3), shrinks());
    shrink_to(&mut replica.attention_interval, moment(1.0), shrinks());
    shrink_to(&mut replica.resend_timeout, moment(1.1), shrinks());
    // A grant is worth something only if it outlasts the entry that says so.
    shrink_to(&mut replica.grant_length, moment(6.0) + Duration::from_millis(50), shrinks());
    shrink_to(&mut replica.page_bytes_max, on_log::page_bytes_min(round_trip), shrinks());
    let lag = readable(round_trip) + Duration::from_millis(300);
    if lag < replica.floor_lag && shrinks() {
        replica.floor_lag = lag;
    }
    let least = page_min(round_trip, replica.floor_lag);
    shrink_to(&mut replica.scan_page_max, least, shrinks());
    shrink_to(&mut settings.coordinator.scan_page_max, least as u32, shrinks());
}

/// For so long a snapshot can be read at least: an audit reads some dozens of keys one after the other, and where its node has no replica of them
/// each takes a round trip.
fn readable(round_trip: Duration) -> Duration {
    60 * round_trip
}

/// So many keys are read at once at least, so that some hundreds are read while their snapshot can be and their client has patience.
fn page_min(round_trip: Duration, floor_lag: Duration) -> usize {
    const PATIENCE: Duration = Duration::from_secs(5);
    (400.0 * round_trip.as_secs_f64() / floor_lag.min(PATIENCE).as_secs_f64()).ceil() as usize
}
