//! How the machines of the configuration service are set up.

use std::time::Duration;

use quorate_configuration::{
    CoordinatorConfig, Limits as StateLimits, ReplicaConfig, Rules, SubscriberConfig,
};
use quorate_core::{ClientId, Instant, Random};

use quorate_log::member::Config;

use super::session::{REQUESTS_FROM, SessionConfig};
use crate::system::{Sketch, on_log, shrink_to};

/// How the machines are set up.
pub(super) type Settings = crate::system::Settings<Config<ReplicaConfig>, SessionConfig>;

/// Draws them.
pub(super) fn draw(sketch: &Sketch<'_>, random: &mut Random) -> Settings {
    let Sketch { options, group: _, round_trip, .. } = *sketch;
    let rules = Rules::with_id(options.plant_id());
    let log = on_log::draw(sketch, [1_000, 5_000, 1024 * 1024], random);
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
    Settings { replica: log.with(replica), coordinator: draw_session(sketch, rules, random) }
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
    on_log::shrink(&mut settings.replica, round_trip, Duration::ZERO, &mut shrinks);
    let replica = &mut settings.replica.machine;
    shrink_to(&mut replica.limits.changes_max, 1, shrinks());
    shrink_to(&mut replica.limits.changes_bytes_max, 1, shrinks());
    shrink_to(&mut replica.limits.results_max, 4, shrinks());
    shrink_to(&mut replica.attention_interval, moment(1.0), shrinks());
    shrink_to(&mut replica.watch_timeout, moment(2.0), shrinks());
    shrink_to(&mut replica.scan_page_max, 1, shrinks());
    shrink_to(&mut replica.page_bytes_max, on_log::page_bytes_min(round_trip), shrinks());
    let session = &mut settings.coordinator;
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
