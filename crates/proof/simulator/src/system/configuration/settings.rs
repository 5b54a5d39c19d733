//! How the machines of the configuration service are set up.

use std::time::Duration;

use quorate_configuration::{
    CoordinatorConfig, Limits as StateLimits, Plant, ReplicaConfig, Rules, SubscriberConfig,
};
use quorate_core::{ClientId, GroupSize, Instant, Random};
use quorate_log::{Limits, Timing};

use super::session::{REQUESTS_FROM, SessionConfig};
use crate::system::{Sketch, on_log, shrink_to};

/// How logs, replicas and clients are set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The replicas.
    pub group: GroupSize,
    /// The times that the log goes by.
    pub timing: Timing,
    /// How much of what a replica of the log takes upon itself.
    pub limits: Limits,
    /// A snapshot begins after so many bytes of entries.
    pub snapshot_bytes: u64,
    /// The rules of the log, or a bug that is planted in it.
    pub log_rules: quorate_log::Rules,
    /// Time-outs and limits of replicas.
    pub replica: ReplicaConfig,
    /// Time-outs of clients, and what they do.
    pub session: SessionConfig,
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
        message_bytes: [1_000, 5_000, 1024 * 1024][random.index(3)].max(on_log::page_bytes_min(round_trip)),
        in_flight: [1, 8, 4_096][random.index(3)],
        kept: [0, 10, 4_096][random.index(3)],
    };
    let snapshot_bytes = [4_096, 65_536, 1 << 40][random.index(3)];
    let replica = ReplicaConfig {
        rules,
        limits: StateLimits {
            changes_max: [4, 40, 10_000][random.index(3)],
            clients_max: [10, 1_000][random.index(2)],
            // Some less than a client has on its way at a time, now and then.
            results_max: [8, 64, 100_000][random.index(3)],
            ..StateLimits::DEFAULT
        },
        lease_duration: (Duration::ZERO, Duration::from_secs(3_600)),
        attention_interval: Duration::from_millis(random.between(10, 300)),
        watch_timeout: Duration::from_millis(random.between(500, 20_000)),
        scan_page_max: [1, 3, 1_000][random.index(3)],
        page_bytes_max: [200, 2_000, 1024 * 1024][random.index(3)].max(on_log::page_bytes_min(round_trip)),
        ..ReplicaConfig::new(Default::default())
    };
    Settings {
        group,
        timing,
        limits,
        snapshot_bytes,
        log_rules,
        replica,
        session: draw_session(sketch, rules, random),
    }
}

fn draw_session(sketch: &Sketch<'_>, rules: Rules, random: &mut Random) -> SessionConfig {
    let Sketch { options, group, round_trip, .. } = *sketch;
    let mut times = |low: f64, high: f64| {
        let factor = low + (high - low) * random.unit();
        // As messages hold it.
        Duration::from_millis(2) + whole_micros(round_trip.mul_f64(factor))
    };
    let read_timeout = times(1.2, 4.0);
    let resend_timeout = Duration::from_millis(10) + times(1.5, 6.0);
    let lease = times(6.0, 20.0) + Duration::from_millis(20);
    let scan_page_max = [1, 3, 1_000][random.index(3)];
    let client = ClientId::default();
    SessionConfig {
        coordinator: CoordinatorConfig {
            read_timeout,
            resend_timeout,
            abandon_after: Duration::from_millis(random.between(500, 10_000)),
            scan_page_max,
            ..CoordinatorConfig::new(client)
        },
        subscriber: SubscriberConfig {
            rules,
            requests_from: REQUESTS_FROM,
            resend_timeout,
            watch_interval: Duration::from_millis(random.between(100, 3_000)),
            scan_page_max,
            ..SubscriberConfig::new(client, (Default::default(), group.into()))
        },
        containers: random.between(1, 3),
        lease: lease + Duration::from_millis(random.below(2_000)),
        act_interval: Duration::from_millis(random.between(100, 2_000)),
        acts_until: Instant::START + options.length as u32 * Duration::from_secs(20),
        reads_copied: [0.0, 0.3, 1.0][random.index(3)],
    }
}

/// Shrinks limits and time-outs. A log gets the time that a view change takes.
pub(super) fn shrink(settings: &mut Settings, round_trip: Duration, mut shrinks: impl FnMut() -> bool) {
    let moment = |share: f64| round_trip.mul_f64(share) + Duration::from_millis(1);
    let timing = &mut settings.timing;
    shrink_to(&mut timing.silence, moment(3.0) + 3 * timing.beat, shrinks());
    shrink_to(&mut timing.lease, Duration::ZERO, shrinks());
    let limits = &mut settings.limits;
    shrink_to(&mut limits.in_flight, 1, shrinks());
    // One entry for each round trip is less than is asked for, so either messages are few or entries go alone.
    let message_bytes = if limits.in_flight < 8 { 2_000 } else { on_log::page_bytes_min(round_trip) };
    shrink_to(&mut limits.message_bytes, message_bytes, shrinks());
    shrink_to(&mut limits.kept, 0, shrinks());
    shrink_to(&mut settings.snapshot_bytes, 256, shrinks());
    let replica = &mut settings.replica;
    shrink_to(&mut replica.limits.changes_max, 1, shrinks());
    shrink_to(&mut replica.limits.changes_bytes_max, 1, shrinks());
    shrink_to(&mut replica.limits.results_max, 4, shrinks());
    shrink_to(&mut replica.attention_interval, moment(1.0), shrinks());
    shrink_to(&mut replica.watch_timeout, moment(2.0), shrinks());
    shrink_to(&mut replica.scan_page_max, 1, shrinks());
    shrink_to(&mut replica.page_bytes_max, on_log::page_bytes_min(round_trip), shrinks());
    let session = &mut settings.session;
    shrink_to(&mut session.coordinator.read_timeout, moment(0.3), shrinks());
    shrink_to(&mut session.coordinator.resend_timeout, moment(0.3), shrinks());
    shrink_to(&mut session.coordinator.abandon_after, Duration::ZERO, shrinks());
    shrink_to(&mut session.coordinator.scan_page_max, 1, shrinks());
    shrink_to(&mut session.subscriber.resend_timeout, moment(0.5), shrinks());
    shrink_to(&mut session.subscriber.watch_interval, moment(1.0), shrinks());
    shrink_to(&mut session.lease, whole_micros(moment(4.0)), shrinks());
}

fn whole_micros(duration: Duration) -> Duration {
    Duration::from_micros(duration.as_micros() as u64)
}
