//! How the machines of a serializable keyspace are set up.

use std::time::Duration;

use quorate_core::changes::Retention;
use quorate_core::{ClientId, Random};
use quorate_granola::{CoordinatorConfig, Locking, ReplicaConfig, Rules};

use quorate_log::member::Config;

use crate::consumers::{draw_retention, has_consumers};
use crate::system::serializable::Serializable;
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
    let coordinator = CoordinatorConfig {
        rules,
        resend_timeout: Duration::from_millis(10) + times(1.5, 6.0),
        back_off: times(0.1, 1.0),
        ..CoordinatorConfig::new(ClientId::default())
    };
    let (vote_timeout, request_timeout) = (times(2.0, 8.0), times(3.0, 12.0));
    let wait_timeout = Duration::from_millis(10) + times(4.0, 16.0);
    // Most change between both modes as transactions come.
    let locking = if random.chance(0.15) { Locking::Always } else { Locking::WhereNeeded };
    // Without a floor, or with so many that clocks, late messages and recoveries meet it.
    let unhurried = random.chance(0.2);
    let mut floor_time = |millis| {
        if unhurried { Duration::from_secs(3_600) } else { Duration::from_millis(random.between(50, millis)) }
    };
    let replica = ReplicaConfig {
        rules,
        vote_timeout,
        request_timeout,
        wait_timeout,
        locking,
        floor_interval: floor_time(3_000),
        floor_lag: floor_time(4_000),
        attention_interval: Duration::from_millis(random.between(10, 500)),
        finals_delay: Duration::from_millis(random.between(1, 50)),
        page_bytes_max: [200, 2_000, 1024 * 1024][random.index(3)].max(on_log::page_bytes_min(round_trip)),
        ceiling_ahead: Duration::from_millis([1, 50, 500][random.index(3)]),
        strangers_max: [100, 100_000][random.index(2)],
        vote_delay_max: Duration::from_millis([0, 0, 20, 250][random.index(4)]),
        retention: match has_consumers::<Serializable>(sketch.seed, options.plant_id()) {
            true => draw_retention(&mut Random::stream(sketch.seed, "retention")),
            false => Retention::NONE,
        },
        ..ReplicaConfig::new(Default::default(), group, Default::default())
    };
    Settings { replica: log.with(replica), coordinator }
}

/// Those of a small cluster in which a crash is tried at every step.
pub(super) fn for_crashes(sketch: &Sketch<'_>, collects: bool) -> Settings {
    let rules = Rules::with_id(sketch.options.plant_id());
    let floor = if collects { Duration::from_millis(50) } else { Duration::from_secs(3_600) };
    let coordinator = CoordinatorConfig {
        rules,
        resend_timeout: Duration::from_millis(12),
        back_off: Duration::from_millis(1),
        ..CoordinatorConfig::new(ClientId::default())
    };
    let replica = ReplicaConfig {
        rules,
        vote_timeout: Duration::from_millis(5),
        request_timeout: Duration::from_millis(12),
        wait_timeout: Duration::from_millis(20),
        floor_interval: floor,
        floor_lag: floor,
        attention_interval: Duration::from_millis(10),
        finals_delay: Duration::from_millis(2),
        retention: Retention::NONE,
        ..ReplicaConfig::new(Default::default(), sketch.group, Default::default())
    };
    Settings { replica: on_log::for_crashes(sketch).with(replica), coordinator }
}

/// Shrinks limits and time-outs. A log gets the time that a view change takes.
pub(super) fn shrink(settings: &mut Settings, round_trip: Duration, mut shrinks: impl FnMut() -> bool) {
    let moment = |share: f64| round_trip.mul_f64(share) + Duration::from_millis(1);
    // A leader believes others that say that nobody executes what it has accepted only while it has a lease.
    on_log::shrink(&mut settings.replica, round_trip, moment(2.0), &mut shrinks);
    let coordinator = &mut settings.coordinator;
    shrink_to(&mut coordinator.resend_timeout, moment(0.3), shrinks());
    shrink_to(&mut coordinator.back_off, Duration::from_millis(1), shrinks());
    let replica = &mut settings.replica.machine;
    shrink_to(&mut replica.vote_timeout, moment(1.0), shrinks());
    shrink_to(&mut replica.request_timeout, moment(2.0) + Duration::from_millis(10), shrinks());
    shrink_to(&mut replica.wait_timeout, moment(4.0) + Duration::from_millis(10), shrinks());
    shrink_to(&mut replica.attention_interval, moment(1.0), shrinks());
    shrink_to(&mut replica.finals_delay, Duration::from_millis(1), shrinks());
    shrink_to(&mut replica.page_bytes_max, on_log::page_bytes_min(round_trip), shrinks());
    shrink_to(&mut replica.ceiling_ahead, Duration::from_millis(1), shrinks());
    shrink_to(&mut replica.strangers_max, 4, shrinks());
    let collects = shrinks();
    // Each floor is an entry, and where one message is on its way at a time an entry takes a round trip and two disks.
    shrink_to(&mut replica.floor_interval, moment(8.0) + Duration::from_millis(20), collects);
    // Of a seed that collected nothing so far the lag would be an hour.
    shrink_to(&mut replica.floor_lag, Duration::from_secs(1), collects);
}
