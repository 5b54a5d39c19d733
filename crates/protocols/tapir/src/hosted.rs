//! How a strict keyspace's replicas are hosted.

use quorate_core::attic::Memory;
use quorate_core::changes::{self, Position};
use quorate_core::command::Outcome;
use quorate_core::hosted::{
    Admission, Health, Held, Holdings, HostedReplica, News, Seat, StoredVersion, Urgency,
};
use quorate_core::landmark::{FewKeys, Landmark};
use quorate_core::verify::{Answer, Request};
use quorate_core::{ClientId, ClockTime, Groups, ShardId, Timestamp, TransactionId, View};
use quorate_ir::{Member, Message as Ir};

use crate::config::ReplicaConfig;
use crate::landmarks;
use crate::message::Message;
use crate::record::Record;
use crate::replica::{Replica, ReplicaCommand, ReplicaEvent};

impl HostedReplica for Replica {
    const NEEDS_SHARDS: bool = false;
    const ACCEPTS_LOSS: bool = true;
    const KEEPS_VALUES_IN_ATTICS: bool = true;

    fn seated(config: ReplicaConfig, seat: &Seat) -> ReplicaConfig {
        let Seat { replica, shards, boot, .. } = *seat;
        let (groups, attic) = (seat.groups.clone(), seat.attic.clone());
        ReplicaConfig { replica, shards, groups, boot, attic, ..config }
    }

    fn asleep_since_creation(seat: &Seat, view: View, life: u64) -> Option<Vec<Record>> {
        let noted = Record::LifeNoted { replica: seat.replica.index, life };
        Some(vec![Record::Initialised, Record::ViewEntered { view }, noted])
    }

    fn next_life(&self) -> Option<u64> {
        self.ir().next_life()
    }

    fn health(&self) -> Health {
        Health {
            status: self.status(),
            view: self.view(),
            arrived: self.ir().arrived(),
            leads: false,
            prepared: self.prepared().len(),
            record_len: self.record_len(),
            recoveries: self.recoveries(),
            clock_error_micros: None,
        }
    }

    fn load(&self, client: Option<ClientId>) -> usize {
        client.map_or_else(|| self.prepared().len(), |client| self.prepared().len_of(client))
    }

    fn is_idle(&self) -> bool {
        self.prepared().is_empty()
    }

    fn adds(message: &Message) -> bool {
        match message {
            Message::Ir(Ir::ProposeConsensus { operation, .. }) => {
                operation.transaction.writes.iter().any(|write| write.value.is_some())
            }
            _ => true,
        }
    }

    fn memory(&self) -> Option<Memory> {
        Some(self.versions().memory())
    }

    fn exceeds_memory(&self) -> bool {
        self.versions().exceeds_memory()
    }

    fn decided(&self) -> (u64, u64) {
        (self.committed(), self.aborted())
    }

    fn change_groups(groups: &Groups, _: ShardId) -> Vec<ReplicaCommand> {
        vec![ReplicaCommand::ChangeGroups(groups.clone())]
    }

    fn verify(request: Request) -> Option<ReplicaCommand> {
        Some(ReplicaCommand::Verify(request))
    }

    fn verified(&self, request: &Request) -> Answer {
        Replica::verified(self, request)
    }

    fn follow() -> Option<ReplicaCommand> {
        Some(ReplicaCommand::Follow)
    }

    fn changes(&self, request: &changes::Request<Position>) -> changes::Answer<Position> {
        request.answered_by(|request| Replica::changes(self, request))
    }

    fn retained(&self) -> changes::Retained {
        Replica::retained(self)
    }

    fn news(event: &ReplicaEvent) -> Option<News> {
        Some(event.news())
    }

    fn admission(message: &Message) -> Admission {
        match message {
            Message::Read { .. }
            | Message::ReadMany { .. }
            | Message::ReadInTurn { .. }
            | Message::ReadValidated { .. }
            | Message::Scan { .. }
            | Message::QuorumRead { .. }
            | Message::QuorumScan { .. } => Admission::of(Urgency::Early),
            Message::Ir(Ir::ProposeConsensus { id, operation }) => Admission {
                urgency: Urgency::Prepare,
                prepares_for: Some(id.transaction.client),
                writes: !operation.transaction.writes.is_empty(),
            },
            _ => Admission::of(Urgency::Always),
        }
    }

    fn landmark_received(message: &Message, own: ShardId) -> Option<Landmark> {
        landmarks::received(message, own)
    }

    fn landmark_sent(message: &Message) -> Option<Landmark> {
        landmarks::sent(message)
    }

    fn keys_written(message: &Message) -> FewKeys {
        landmarks::keys_written(message)
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
        Replica::waiting(self)
    }

    fn settles(&self) -> bool {
        self.recoveries() > 0
    }

    fn outcomes(&self) -> Vec<(TransactionId, Outcome)> {
        Replica::outcomes(self)
    }

    fn outcome(&self, transaction: TransactionId) -> Option<Outcome> {
        Replica::outcome(self, transaction)
    }

    fn floor(&self) -> Timestamp {
        Replica::floor(self)
    }

    /// A group that remembers nothing leaves its floor where it is.
    fn has_collected(&self, ended: ClockTime) -> bool {
        Replica::floor(self).micros >= ended.as_micros() || !self.remembers()
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

    use quorate_core::{KeyRange, Transaction};
    use quorate_ir::OperationId;

    use super::*;
    use crate::message::{Decision, Prepare};

    #[test]
    fn messages_that_free_keys_are_never_refused() {
        let (transaction, timestamp) = (TransactionId::default(), Timestamp::ZERO);
        let range = KeyRange { from: "k".into(), to: None };
        let id = OperationId { transaction, number: 1 };
        let prepare = Prepare { transaction: Arc::new(Transaction::default()), timestamp, first: None };
        let table = [
            (Message::Read { transaction, key: "k".into() }, Urgency::Early),
            (Message::ReadInTurn { transaction, key: "k".into() }, Urgency::Early),
            (Message::ReadMany { transaction, request: 1, keys: vec![], in_turn: false }, Urgency::Early),
            (
                Message::ReadValidated { transaction, keys: vec![], otherwise: None, validated: vec![] },
                Urgency::Early,
            ),
            (Message::Scan { transaction, request: 1, range: range.clone(), limit: 1 }, Urgency::Early),
            (
                Message::QuorumRead { transaction, round: 1, timestamp, keys: vec![], in_turn: false },
                Urgency::Early,
            ),
            (Message::QuorumScan { transaction, round: 1, timestamp, range, limit: 1 }, Urgency::Early),
            (Message::Ir(Ir::ProposeConsensus { id, operation: prepare }), Urgency::Prepare),
            (
                Message::Ir(Ir::ProposeInconsistent { id, operation: Decision::Abort { last: timestamp } }),
                Urgency::Always,
            ),
            (Message::Ir(Ir::FinalizeInconsistent { id }), Urgency::Always),
            (Message::Recover { transaction, participants: vec![], timestamp }, Urgency::Always),
        ];
        for (message, urgency) in table {
            assert_eq!(Replica::admission(&message).urgency, urgency, "{message:?}");
        }
    }
}
