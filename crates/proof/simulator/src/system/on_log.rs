//! The common part of systems on replicated logs: how logs are set up, how replicas speak of views, and what [hostile clients](hostile) share.

pub(super) mod hostile;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use quorate_core::hosted::Holdings;
use quorate_core::invariant::Violation;
use quorate_core::log::LogMachine;
use quorate_core::verify::Pace;
use quorate_core::{Random, ReplicaId, ReplicaIndex, ShardId};
use quorate_log::member::{Config, Item, ItemOf, MessageOf};
use quorate_log::{Limits, Member, Part, Rules, Timing, Witness};

use super::{Far, Sketch, shrink_to};
use crate::backups::draw_pace;
use crate::world::disk::Disk;
use crate::world::first_word;
use crate::world::{Protocol, Sight};

/// An entry of the log of a machine.
type EntryOf<M> = <<M as LogMachine>::Canonical as LogMachine>::Entry;

/// The observations of the replicas of logs.
#[derive(Debug)]
pub struct Logs<M: LogMachine> {
    groups: BTreeMap<ShardId, Witness<ItemOf<M>>>,
}

impl<M: LogMachine> Default for Logs<M> {
    fn default() -> Self {
        Logs { groups: BTreeMap::new() }
    }
}

impl<M: LogMachine> Logs<M> {
    /// Shows it what a replica does; `on_new` is given each entry that no machine was given before.
    pub(super) fn show<P: Protocol<Server = Member<M>>>(
        &mut self,
        sight: &Sight<'_, P>,
        mut on_new: impl FnMut(&EntryOf<M>, &mut Vec<Violation>),
        found: &mut Vec<Violation>,
    ) {
        match sight {
            Sight::Stepped { replica: ReplicaId { shard, .. }, machine, local_now } => {
                let group = self.groups.entry(*shard).or_insert_with(|| Witness::new(*shard));
                let local_now = |index| local_now(ReplicaId { shard: *shard, index });
                let mut told = Vec::new();
                let tell = |_, item: &ItemOf<M>| {
                    if let Item::Own(entry) = item {
                        on_new(entry, &mut told);
                    }
                };
                group.see(machine.replica(), local_now, tell, found);
                found.extend(told);
            }
            Sight::Lost { replica } => {
                if let Some(group) = self.groups.get_mut(&replica.shard) {
                    group.lose(replica.index);
                }
            }
            // Entries that were agreed on without the survivors are gone: the log goes on with other entries.
            Sight::LossAccepted { replica, .. } => _ = self.groups.remove(&replica.shard),
            Sight::Says { .. } | Sight::Keeps { .. } => {}
        }
    }
}

/// The kind of a message, in a word.
pub(super) fn name<L: Debug, O: Debug>(message: &Part<L, O>) -> String {
    match message {
        Part::Log(message) => first_word(message),
        Part::Own(message) => first_word(message),
    }
}

/// A backup says that it has gone on to a later view. It could not come back, so that the leader has to follow; another backup
/// takes it for a wish. In the leader's own name it would be a lie that does harm: it would end what backups have promised to it.
pub(super) fn hint_view<M: LogMachine>(
    server: &Member<M>,
    from: ReplicaIndex,
    far: Far,
) -> Option<MessageOf<M>> {
    let replica = server.replica();
    let is_backup = from != replica.leader(replica.view());
    let view = far.from(replica.view())?;
    is_backup.then_some(Part::Log(quorate_log::Message::StartViewChange { view, entered: true }))
}

/// How many bytes of entries go into a message at least, or of a state into a page: a log is handed to a replica that has nothing
/// message by message, each a round trip after the one before, and where sites are far apart that must end all the same.
pub(super) fn page_bytes_min(round_trip: Duration) -> usize {
    if round_trip > Duration::from_millis(20) { 2_000 } else { 1 }
}

/// By how much clocks may differ from those of a majority. Where it is little,
/// clocks that are merely wrong make leaders hand over.
fn draw_clock_error_max(seed: u64) -> Duration {
    [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(30)]
        [Random::stream(seed, "clock error").index(4)]
}

/// How the log of a system is set up, but for the machine that stands on it.
pub(super) struct LogSettings {
    timing: Timing,
    limits: Limits,
    pace: Pace,
    snapshot_bytes: u64,
    rules: Rules,
}

impl LogSettings {
    /// The settings of members, at whatever seat.
    pub(super) fn with<C>(self, machine: C) -> Config<C> {
        let LogSettings { timing, limits, pace, snapshot_bytes, rules } = self;
        Config { pace, ..Config::unseated(timing, limits, snapshot_bytes, rules, machine) }
    }
}

/// Draws how the log of a system is set up; messages take one of these many bytes of entries.
pub(super) fn draw(sketch: &Sketch<'_>, message_bytes: [usize; 3], random: &mut Random) -> LogSettings {
    let Sketch { options, round_trip, seed, .. } = *sketch;
    let beat = Duration::from_millis(random.between(5, 100));
    let silence = 2 * round_trip + 3 * beat + Duration::from_millis(random.between(20, 800));
    let lease = silence.mul_f64(0.3 + 0.9 * random.unit());
    let clock_error_max = draw_clock_error_max(seed);
    let patience = [1, 4, 100, 100][Random::stream(seed, "hand-back").index(4)];
    let hand_back = patience * silence;
    LogSettings {
        rules: Rules::with_id(options.plant_id()),
        timing: Timing { beat, silence, lease, clock_error_max, hand_back, ..Timing::DEFAULT },
        limits: {
            let message_bytes = message_bytes[random.index(3)].max(page_bytes_min(round_trip));
            let in_flight = [1, 8, 4_096][random.index(3)];
            let kept = [0, 10, 4_096][random.index(3)];
            Limits { message_bytes, in_flight, in_flight_bytes: 8 * message_bytes, kept }
        },
        pace: draw_pace(seed),
        snapshot_bytes: [4_096, 65_536, 1 << 40][random.index(3)],
    }
}

/// The log in a small cluster in which a crash is tried at every step.
pub(super) fn for_crashes(sketch: &Sketch<'_>) -> LogSettings {
    LogSettings {
        rules: Rules::with_id(sketch.options.plant_id()),
        timing: Timing {
            beat: Duration::from_millis(20),
            silence: Duration::from_millis(80),
            lease: Duration::from_millis(60),
            ..Timing::DEFAULT
        },
        limits: Limits { in_flight: 4_096, kept: 10, ..Limits::DEFAULT },
        pace: Pace::DEFAULT,
        snapshot_bytes: 65_536,
    }
}

/// Shrinks limits and time-outs of the log, leases to no less than this. A log gets the time that a view change takes.
pub(super) fn shrink<C>(
    log: &mut Config<C>,
    round_trip: Duration,
    lease: Duration,
    shrinks: &mut dyn FnMut() -> bool,
) {
    let silence = round_trip.mul_f64(3.0) + Duration::from_millis(1);
    let timing = &mut log.timing;
    shrink_to(&mut timing.silence, silence + 3 * timing.beat, shrinks());
    shrink_to(&mut timing.lease, lease, shrinks());
    let limits = &mut log.limits;
    shrink_to(&mut limits.in_flight, 1, shrinks());
    // One entry for each round trip is less than is asked for, so either messages are few or entries go alone.
    let message_bytes = if limits.in_flight < 8 { 2_000 } else { page_bytes_min(round_trip) };
    shrink_to(&mut limits.message_bytes, message_bytes, shrinks());
    shrink_to(&mut limits.kept, 0, shrinks());
    shrink_to(&mut log.snapshot_bytes, 256, shrinks());
}

/// The time-outs of the log.
pub(super) fn timeouts<C>(log: &Config<C>) -> Vec<Duration> {
    vec![log.timing.silence, log.timing.beat, log.timing.lease]
}

/// How long a leader whose clock is off takes to notice, and to leave its view.
pub(super) fn hands_over_within<C>(log: &Config<C>) -> Duration {
    4 * log.timing.beat + log.timing.silence
}

/// The entries that make a snapshot worth it, twice, because they may have been appended while the last one was written;
/// the snapshot; and the segments at both ends.
pub(super) fn log_bytes_max<C>(log: &Config<C>, server: &impl Holdings) -> Option<u64> {
    let is_shortened = log.snapshot_bytes <= 1024 * 1024;
    let bytes = || 4 * log.snapshot_bytes + 4 * server.state_bytes();
    is_shortened.then(|| bytes() + 4 * u64::from(Disk::SEGMENT_BYTES_MAX))
}
