//! How the machines of a serializable keyspace are set up.

use std::time::Duration;

use quorate_core::{ClientId, Random};
use quorate_granola::{CoordinatorConfig, Locking, Plant, ReplicaConfig, Rules};
use quorate_log::{Limits, Timing};

use crate::system::{Sketch, on_log, shrink_to};

/// How logs, replicas and coordinators are set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The times that logs go by.
    pub timing: Timing,
    /// How much of what a replica of a log takes upon itself.
    pub limits: Limits,
    /// A snapshot begins after so many bytes of entries.
    pub snapshot_bytes: u64,
    /// The rules of the log, or a bug that is planted in it.
    pub log_rules: quorate_log::Rules,
    /// Time-outs of coordinators.
    pub coordinator: CoordinatorConfig,
    /// Time-outs of replicas.
    pub replica: ReplicaConfig,
}

/// Draws them.
pub(super) fn draw(sketch: &Sketch<'_>, random: &mut Random) -> Settings {
    let Sketch { options, group, round_trip, .. } = *sketch;
    let plant = options.plant.as_ref().map(|planted| planted.id);
    let of_log = quorate_log::Plant::ALL.into_iter().find(|known| Some(known.id()) == plant);
    let log_rules = of_log.map_or(quorate_log::Rules::CORRECT, quorate_log::Rules::planted);
    let plant = Plant::ALL.into_iter().find(|known| Some(known.id()) == plant);
    let rules = plant.map_or(Rules::SOUND, Rules::planted);
    let beat = Duration::from_millis(random.between(5, 100));
    let silence = 2 * round_trip + 3 * beat + Duration::from_millis(random.between(20, 800));
    let lease = silence.mul_f64(0.3 + 0.9 * random.unit());
    let clock_error_max = on_log::draw_clock_error_max(sketch.seed);
    let timing = Timing { beat, silence, lease, clock_error_max, ..Timing::DEFAULT };
    let limits = Limits {
        message_bytes: [200, 2_000, 1024 * 1024][random.index(3)].max(on_log::page_bytes_min(round_trip)),
        in_flight: [1, 8, 4_096][random.index(3)],
        kept: [0, 10, 4_096][random.index(3)],
    };
    let snapshot_bytes = [4_096, 65_536, 1 << 40][random.index(3)];
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
        ..ReplicaConfig::new(Default::default(), group, Default::default())
    };
    Settings { timing, limits, snapshot_bytes, log_rules, coordinator, replica }
}

/// Shrinks limits and time-outs. A log gets the time that a view change takes.
pub(super) fn shrink(settings: &mut Settings, round_trip: Duration, mut shrinks: impl FnMut() -> bool) {
    let moment = |share: f64| round_trip.mul_f64(share) + Duration::from_millis(1);
    let timing = &mut settings.timing;
    shrink_to(&mut timing.silence, moment(3.0) + 3 * timing.beat, shrinks());
    // A leader believes others that say that nobody executes what it has accepted only while it has a lease.
    shrink_to(&mut timing.lease, moment(2.0), shrinks());
    let limits = &mut settings.limits;
    shrink_to(&mut limits.in_flight, 1, shrinks());
    // One entry for each round trip is less than is asked for, so either messages are few or entries go alone.
    let message_bytes = if limits.in_flight < 8 { 2_000 } else { on_log::page_bytes_min(round_trip) };
    shrink_to(&mut limits.message_bytes, message_bytes, shrinks());
    shrink_to(&mut limits.kept, 0, shrinks());
    shrink_to(&mut settings.snapshot_bytes, 256, shrinks());
    let coordinator = &mut settings.coordinator;
    shrink_to(&mut coordinator.resend_timeout, moment(0.3), shrinks());
    shrink_to(&mut coordinator.back_off, Duration::from_millis(1), shrinks());
    let replica = &mut settings.replica;
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
