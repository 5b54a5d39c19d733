//! What systems on replicated logs have in common.

use std::time::Duration;

use quorate_core::log::LogMachine;
use quorate_core::{Epoch, Groups, Random, ReplicaIndex, ShardId};
use quorate_log::member::MessageOf;
use quorate_log::{Boot, LogCommand, LogEvent, Member, Membership, Part, Status, Timing};

use super::{Far, News, Seat};

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

/// How many bytes of entries go into a message at least, or of a state into a page: a log is handed to who has nothing message by
/// message, each a round trip after the one before, and where sites are far apart that must end all the same.
pub(super) fn page_bytes_min(round_trip: Duration) -> usize {
    if round_trip > Duration::from_millis(20) { 2_000 } else { 1 }
}

/// Who the replicas of a group are, as its log has it: counted by the epoch since which they are that.
pub(super) fn membership(groups: &Groups, shard: ShardId) -> Membership {
    let present = groups.succession(shard).present;
    match Membership::new(present.since, present.members.iter().collect()) {
        Ok(membership) => membership,
        Err(error) => unreachable!("they are a group: {error}"),
    }
}

/// How a replica begins.
pub(super) fn boot(seat: &Seat) -> Boot {
    let has_changed = seat.groups.succession(seat.replica.shard).present.since > Epoch::FIRST;
    match (seat.is_new, has_changed) {
        (true, false) => Boot::Initialise,
        // Who has not begun by then has said nothing in the first group either.
        (true, true) => Boot::Join,
        (false, _) => Boot::Recover,
    }
}

/// What a log is told when the replicas of groups change, if its own are others than at first.
pub(super) fn change_group<C>(groups: &Groups, shard: ShardId) -> Option<Part<LogCommand, C>> {
    let membership = membership(groups, shard);
    (membership.epoch() > Epoch::FIRST).then_some(Part::Log(LogCommand::ChangeGroup(membership)))
}

/// What a log tells of itself.
pub(super) fn news(event: LogEvent) -> News {
    match event {
        LogEvent::Normal { view } => News::Serves(view.epoch()),
        LogEvent::HandedOver => News::Retired,
        // Who has lost its records counts those that ask as it does, and may not hear at once that one of them is back.
        LogEvent::Lost { .. }
        | LogEvent::ViewChanging { .. }
        | LogEvent::Recovering
        | LogEvent::Leading { .. }
        | LogEvent::Deposed
        | LogEvent::Clock { .. }
        | LogEvent::Retired { .. } => News::Other,
    }
}

/// By how much clocks may differ from those of a majority; drawn apart from everything else, which stays what it was. Where it is little,
/// clocks that are merely wrong make leaders hand over.
pub(super) fn draw_clock_error_max(seed: u64) -> Duration {
    [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(30)]
        [Random::new(seed ^ 0x636c_6f63).index(4)]
}

/// How long a leader whose clock is off takes to notice, and to leave its view.
pub(super) fn hands_over_within(timing: &Timing) -> Duration {
    4 * timing.beat + timing.silence
}

/// What keeps a log from taking part in its group, in a few words; nothing, if it does take part.
pub(super) fn ailment<M: LogMachine>(server: &Member<M>) -> Option<String> {
    let (status, view) = (server.replica().status(), server.replica().view());
    (status != Status::Normal).then(|| format!("{status:?} in {view}"))
}
