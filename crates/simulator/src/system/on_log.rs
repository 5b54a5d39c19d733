//! What systems on replicated logs have in common.

use quorate_core::ReplicaIndex;
use quorate_core::log::LogMachine;
use quorate_log::member::MessageOf;
use quorate_log::{Member, Part};

/// A backup says that it has gone on to the next view. It could not come back, so that the leader has to follow; another backup
/// takes it for a wish. In the leader's own name it would be a lie that does harm: it would end what backups have promised to it.
pub(super) fn hint_next_view<M: LogMachine>(server: &Member<M>, from: ReplicaIndex) -> Option<MessageOf<M>> {
    let replica = server.replica();
    let is_backup = from != replica.leader(replica.view());
    let view = replica.view().next();
    is_backup.then_some(Part::Log(quorate_log::Message::StartViewChange { view, entered: true }))
}
