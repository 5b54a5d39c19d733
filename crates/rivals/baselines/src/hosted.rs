//! How replicas of the comparison systems are hosted.

use quorate_core::caption::Captioned;
use quorate_core::command::Outcome;
use quorate_core::hosted::{Admission, Held, Holdings, HostedOnLog, Seat, StoredVersion, Urgency};
use quorate_core::{ClientId, Groups, Timestamp, TransactionId};

use crate::config::ReplicaConfig;
use crate::message::Message;
use crate::replica::{Replica, ReplicaCommand};

impl Captioned for Message {}

impl HostedOnLog for Replica {
    const NEEDS_SHARDS: bool = true;
    /// A keyspace that was only measured is dropped.
    const ACCEPTS_LOSS: bool = false;

    fn seated(config: ReplicaConfig, seat: &Seat) -> ReplicaConfig {
        let (replica, groups) = (seat.replica, seat.groups.clone());
        ReplicaConfig { replica, groups, shards: seat.known_shards(), ..config }
    }

    fn prepared(&self) -> usize {
        self.prepared().len()
    }

    fn record_len(&self) -> usize {
        self.record_len()
    }

    fn recoveries(&self) -> usize {
        self.inquiries()
    }

    fn load(&self, client: Option<ClientId>) -> usize {
        self.load(client)
    }

    fn is_idle(&self, leads: bool) -> bool {
        !leads || (self.prepared().is_empty() && self.waiting() == 0)
    }

    fn decided(&self) -> (u64, u64) {
        self.decided()
    }

    fn change_groups(groups: &Groups) -> Option<ReplicaCommand> {
        Some(ReplicaCommand::ChangeGroups(groups.clone()))
    }

    /// A transaction that asks for a timestamp, or whether what it has read is still valid, has done its reading.
    fn admission(message: &Message) -> Admission {
        match message {
            Message::Read { .. }
            | Message::Scan { .. }
            | Message::ReadCurrent { .. }
            | Message::ReadAt { .. } => Admission::of(Urgency::Early),
            Message::NextTimestamp { .. } | Message::Validate { .. } => Admission::of(Urgency::Prepare),
            Message::Coordinate { transaction, .. } | Message::Prepare { transaction, .. } => {
                let prepares_for = Some(transaction.client);
                Admission { prepares_for, ..Admission::of(Urgency::Prepare) }
            }
            _ => Admission::of(Urgency::Always),
        }
    }
}

impl Holdings for Replica {
    fn held(&self) -> Vec<Held> {
        let prepared = self.prepared();
        let held = |id| {
            let entry = prepared.entry(id)?;
            let participants = entry.transaction.participants.clone();
            Some(Held { id, participants, timestamp: entry.timestamp, not_before: entry.timestamp })
        };
        prepared.ids().into_iter().filter_map(held).collect()
    }

    fn waiting(&self) -> usize {
        self.waiting()
    }

    fn settles(&self) -> bool {
        self.inquiries() > 0
    }

    fn outcomes(&self) -> Vec<(TransactionId, Outcome)> {
        self.outcomes()
    }

    fn floor(&self) -> Timestamp {
        self.floor()
    }

    fn versions(&self) -> Vec<StoredVersion> {
        self.versions().stored()
    }

    fn left(&self) -> Vec<(&'static str, usize)> {
        self.remains().left().collect()
    }

    fn recorded(&self) -> usize {
        self.outcomes().len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quorate_core::{KeyRange, Transaction};

    use super::*;
    use crate::message::{Age, Wanted};

    #[test]
    fn messages_that_free_keys_are_never_refused() {
        let transaction = TransactionId { client: ClientId(7), ..TransactionId::default() };
        let (age, part, keys) = (Timestamp::ZERO, Arc::new(Transaction::default()), vec!["k".into()]);
        let range = KeyRange { from: "k".into(), to: None };
        let prepare =
            Message::Prepare { transaction, part: part.clone(), proposed: age, age, locked_in: None };
        let table = [
            (Message::Read { transaction, key: "k".into(), lock: None }, Urgency::Early),
            (Message::Scan { transaction, request: 1, range, limit: 1, lock: None }, Urgency::Early),
            (Message::ReadCurrent { transaction, keys: keys.clone() }, Urgency::Early),
            (Message::ReadAt { transaction, wanted: Wanted::Keys(keys), at: age }, Urgency::Early),
            (Message::NextTimestamp { transaction, above: age }, Urgency::Prepare),
            (Message::Coordinate { transaction, parts: vec![part.clone()], proposed: age }, Urgency::Prepare),
            (Message::Validate { transaction, part, locked_in: None, at: None }, Urgency::Prepare),
            (prepare.clone(), Urgency::Prepare),
            (Message::Release { transaction }, Urgency::Always),
            (Message::Decide { transaction, outcome: Outcome::Aborted }, Urgency::Always),
            (
                Message::Inquire { transaction, participants: vec![], age: Age::NotBefore(age) },
                Urgency::Always,
            ),
        ];
        for (message, urgency) in table {
            assert_eq!(Replica::admission(&message).urgency, urgency, "{message:?}");
        }
        assert_eq!(Replica::admission(&prepare).prepares_for, Some(ClientId(7)));
    }
}
