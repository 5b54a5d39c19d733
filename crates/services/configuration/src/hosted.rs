//! How replicas of the configuration service are hosted.

use quorate_core::caption::Captioned;
use quorate_core::command::Outcome;
use quorate_core::hosted::{Admission, Holdings, HostedOnLog, Seat, StoredVersion, Urgency};
use quorate_core::{ClientId, Groups, Timestamp, TransactionId};

use crate::config::ReplicaConfig;
use crate::message::Message;
use crate::replica::Replica;

impl Captioned for Message {}

impl HostedOnLog for Replica {
    const NEEDS_SHARDS: bool = false;
    const ACCEPTS_LOSS: bool = true;

    fn seated(config: ReplicaConfig, seat: &Seat) -> ReplicaConfig {
        ReplicaConfig { replica: seat.replica, ..config }
    }

    /// A write is decided when it is stable: nothing is held for it.
    fn prepared(&self) -> usize {
        0
    }

    fn record_len(&self) -> usize {
        self.len()
    }

    /// Requests that wait are not counted by clients.
    fn load(&self, client: Option<ClientId>) -> usize {
        client.map_or_else(|| self.waiting(), |_| 0)
    }

    fn is_idle(&self, leads: bool) -> bool {
        !leads || self.waiting() == 0
    }

    /// Each successful write has a revision of its own. How many others there were is not kept.
    fn decided(&self) -> (u64, u64) {
        (self.revision().0, 0)
    }

    /// It has to do with no other group.
    fn change_groups(_: &Groups) -> Option<Self::Command> {
        None
    }

    /// A lease that is held has to be renewed, or its purpose ends.
    fn admission(message: &Message) -> Admission {
        Admission::of(match message {
            Message::Get { .. } | Message::Scan { .. } | Message::Watch { .. } => Urgency::Early,
            Message::Check { .. } | Message::Write { .. } | Message::Grant { .. } => Urgency::Prepare,
            _ => Urgency::Always,
        })
    }
}

impl Holdings for Replica {
    fn waiting(&self) -> usize {
        self.waiting()
    }

    fn outcomes(&self) -> Vec<(TransactionId, Outcome)> {
        self.outcomes()
    }

    /// Of each key there is the newest version only.
    fn floor(&self) -> Timestamp {
        Timestamp { micros: u64::MAX, client: ClientId(u64::MAX) }
    }

    /// The timestamp of a version is the revision that has written it.
    fn versions(&self) -> Vec<StoredVersion> {
        let version = |changed: u64| Timestamp { micros: changed, client: ClientId(0) };
        let keys = self.keys();
        keys.map(|(key, stored)| (key.clone(), version(stored.changed.0), Some(stored.value.clone())))
            .collect()
    }

    fn version_count(&self) -> usize {
        self.len()
    }

    fn recorded(&self) -> usize {
        self.outcomes().len()
    }

    fn state_bytes(&self) -> u64 {
        let keys: usize = self.keys().map(|(key, stored)| 128 + key.len() + stored.value.len()).sum();
        let changes: usize = self.changes().map(|change| 128 + 2 * change.bytes()).sum();
        (keys + changes + 64 * self.outcomes().len() + 64 * self.leases().count()) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use quorate_core::KeyRange;
    use quorate_core::log::Position;

    use super::*;
    use crate::{ConditionalWrite, Consistency, LeaseId, Revision};

    #[test]
    fn leases_are_kept_under_load_and_new_work_waits() {
        let (request, transaction, since) = (1, TransactionId::default(), Position::START);
        let (lease, after) = (LeaseId::default(), Revision::START);
        let range = KeyRange { from: "k".into(), to: None };
        let consistency = Consistency::Stale;
        let write = Arc::new(ConditionalWrite::default());
        let table = [
            (Message::Get { request, keys: vec![], consistency }, Urgency::Early),
            (Message::Scan { request, range: range.clone(), limit: 1, consistency }, Urgency::Early),
            (Message::Watch { request, range, after }, Urgency::Early),
            (Message::Check { request, compares: vec![] }, Urgency::Prepare),
            (Message::Write { request, transaction, since, write }, Urgency::Prepare),
            (Message::Grant { request, lease, duration: Duration::ZERO }, Urgency::Prepare),
            (Message::Settle { request, transaction, since }, Urgency::Always),
            (Message::Renew { request, lease }, Urgency::Always),
            (Message::Release { request, lease }, Urgency::Always),
            (Message::Unwatch { request }, Urgency::Always),
        ];
        for (message, urgency) in table {
            assert_eq!(Replica::admission(&message).urgency, urgency, "{message:?}");
        }
    }
}
