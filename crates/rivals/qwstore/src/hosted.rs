//! How replicas of the quorum store are hosted.

use quorate_core::caption::{Caption, Captioned};
use quorate_core::command::Outcome;
use quorate_core::hosted::{Admission, Health, Holdings, HostedReplica, News, Seat, StoredVersion, Urgency};
use quorate_core::verify::{Answer, Request};
use quorate_core::{ClientId, Groups, ShardId, Timestamp, TransactionId, View};

use crate::config::ReplicaConfig;
use crate::message::Message;
use crate::record::Record;
use crate::replica::{Replica, ReplicaEvent};

impl Captioned for Message {
    fn caption(&self) -> Option<Caption> {
        Some(match self {
            Message::Ir(operation) => Caption::of(operation),
            other => Caption::of(other),
        })
    }
}

impl HostedReplica for Replica {
    const NEEDS_SHARDS: bool = false;
    /// A keyspace that was only measured is dropped.
    const ACCEPTS_LOSS: bool = false;

    fn seated(config: ReplicaConfig, seat: &Seat) -> ReplicaConfig {
        let Seat { replica, boot, .. } = *seat;
        ReplicaConfig { replica, group: seat.groups.size, epoch: seat.groups.epoch, boot, ..config }
    }

    fn asleep_since_creation(_: &Seat, _: View, _: u64) -> Option<Vec<Record>> {
        None
    }

    fn next_life(&self) -> Option<u64> {
        None
    }

    fn health(&self) -> Health {
        Health {
            status: self.status(),
            view: self.view(),
            arrived: None,
            leads: false,
            prepared: 0,
            record_len: self.record_len(),
            recoveries: 0,
            clock_error_micros: None,
        }
    }

    /// No replica holds anything for anybody.
    fn load(&self, _: Option<ClientId>) -> usize {
        0
    }

    fn is_idle(&self) -> bool {
        true
    }

    /// It knows puts, and not which transaction they belong to.
    fn decided(&self) -> (u64, u64) {
        (0, 0)
    }

    fn change_groups(_: &Groups, _: ShardId) -> Vec<Self::Command> {
        Vec::new()
    }

    /// A put that was never acknowledged may be at one replica and, for as long as clients write, nowhere else.
    fn verify(_: Request) -> Option<Self::Command> {
        None
    }

    fn verified(&self, _: &Request) -> Answer {
        Answer::unable(
            "replicas of the quorum store are alike only some time after the last put, and nobody knows when that is",
        )
    }

    fn news(event: &ReplicaEvent) -> Option<News> {
        Some(event.news())
    }

    /// A put is all that a transaction wants of a replica: nothing is held for it that it could free.
    fn admission(message: &Message) -> Admission {
        Admission::of(match message {
            Message::Read { .. } | Message::Scan { .. } => Urgency::Early,
            Message::Ir(quorate_ir::Message::ProposeInconsistent { .. }) => Urgency::Prepare,
            _ => Urgency::Always,
        })
    }
}

impl Holdings for Replica {
    /// Replicas know puts, and not which transaction they belong to.
    fn outcomes(&self) -> Vec<(TransactionId, Outcome)> {
        Vec::new()
    }

    fn floor(&self) -> Timestamp {
        Replica::floor(self)
    }

    fn versions(&self) -> Vec<StoredVersion> {
        Replica::versions(self).stored()
    }

    fn left(&self) -> Vec<(&'static str, usize)> {
        self.remains().left().collect()
    }

    fn recorded(&self) -> usize {
        self.record_len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quorate_core::{Key, KeyRange};
    use quorate_ir::{Message as Ir, OperationId};

    use super::*;
    use crate::message::Put;

    #[test]
    fn new_work_waits() {
        let (transaction, key) = (TransactionId::default(), Key::from("k"));
        let range = KeyRange { from: "k".into(), to: None };
        let id = OperationId { transaction, number: OperationId::INCONSISTENT };
        let operation = Arc::new(Put { key: key.clone(), value: None, timestamp: Timestamp::ZERO });
        let table = [
            (Message::Read { transaction, key }, Urgency::Early),
            (Message::Scan { transaction, request: 1, range, limit: 1 }, Urgency::Early),
            (Message::Ir(Ir::ProposeInconsistent { id, operation }), Urgency::Prepare),
            (Message::Ir(Ir::HigherView { view: View(1) }), Urgency::Always),
        ];
        for (message, urgency) in table {
            assert_eq!(Replica::admission(&message).urgency, urgency, "{message:?}");
        }
    }
}
