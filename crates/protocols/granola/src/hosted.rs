//! How a serializable keyspace's replicas are hosted.

use quorate_core::attic::Memory;
use quorate_core::changes::{self, Position};
use quorate_core::command::Outcome;
use quorate_core::hosted::{Admission, Held, Holdings, HostedOnLog, Seat, StoredVersion, Urgency};
use quorate_core::landmark::{FewKeys, Landmark};
use quorate_core::{ClientId, ClockTime, Groups, ShardId, Timestamp, TransactionId};

use crate::application::{Answer, Application, Keyed};
use crate::config::ReplicaConfig;
use crate::entry::{self, Ended, Pending};
use crate::landmarks;
use crate::message::Message;
use crate::replica::{Replica, ReplicaCommand};
use quorate_core::command::Class;

impl<A: Application> HostedOnLog for Replica<A> {
    const NEEDS_SHARDS: bool = true;
    const ACCEPTS_LOSS: bool = true;

    fn seated(config: ReplicaConfig, seat: &Seat) -> ReplicaConfig {
        let (replica, groups) = (seat.replica, seat.groups.clone());
        ReplicaConfig { replica, groups, shards: seat.known_shards(), ..config }
    }

    fn prepared(&self) -> usize {
        self.pending().len()
    }

    fn record_len(&self) -> usize {
        self.ended_len()
    }

    /// Requests that wait hold places, whether they hold locks or not.
    fn load(&self, client: Option<ClientId>) -> usize {
        client.map_or_else(|| self.pending().len().max(self.waiting()), |client| self.waiting_of(client))
    }

    fn is_idle(&self, leads: bool) -> bool {
        !leads || (self.pending().len() == 0 && self.waiting() == 0)
    }

    fn decided(&self) -> (u64, u64) {
        self.decided()
    }

    fn change_groups(groups: &Groups) -> Option<ReplicaCommand> {
        Some(ReplicaCommand::ChangeGroups(groups.clone()))
    }

    fn declare_lost(shard: ShardId) -> Option<ReplicaCommand> {
        Some(ReplicaCommand::DeclareLost(shard))
    }

    fn lost_shards(&self) -> Vec<ShardId> {
        self.lost().collect()
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

    fn admission(message: &Message) -> Admission {
        Admission::of(urgency_of(message))
    }

    /// Other participants have taken the transaction in, and hold a place for it until this shard votes. Where each of two shards refused
    /// what the other waits for, neither would come below its mark before it gives up waiting.
    fn is_awaited(&self, message: &Message) -> bool {
        matches!(message, Message::Request(request) if self.awaits(request.transaction))
    }

    fn adds(message: &Message) -> bool {
        match message {
            Message::Request(request) => A::adds(&request.operation),
            _ => true,
        }
    }

    fn memory(&self) -> Option<Memory> {
        self.application().memory()
    }

    fn landmark_received(message: &Message, own: ShardId) -> Option<Landmark> {
        landmarks::received(message, own)
    }

    fn landmark_sent(message: &Message) -> Option<Landmark> {
        landmarks::sent(message)
    }

    fn keys_written(message: &Message) -> FewKeys {
        match message {
            Message::Request(request) => A::keys_written(&request.operation),
            _ => FewKeys::default(),
        }
    }
}

/// How much a message may be refused. A transaction that writes may compare what it has read before.
fn urgency_of(message: &Message) -> Urgency {
    match message {
        Message::Request(request) if request.class == Class::ReadOnly => Urgency::Early,
        Message::Request(_) => Urgency::Prepare,
        _ => Urgency::Always,
    }
}

/// A timestamp of the group's clock, as one of a client.
fn at(clock: ClockTime, client: ClientId) -> Timestamp {
    Timestamp { micros: clock.as_micros(), client }
}

/// The outcome of a transaction, as its client is told: one that a shard has refused is not committed, although it has a place.
fn outcome_of(id: TransactionId, ended: &Ended) -> Outcome {
    match &ended.outcome {
        entry::Outcome::Committed { timestamp, answer: Answer::Done(_) } => {
            Outcome::Committed(at(*timestamp, id.client))
        }
        entry::Outcome::Committed { answer: Answer::Refused(_), .. }
        | entry::Outcome::Aborted(_)
        | entry::Outcome::Conflict => Outcome::Aborted,
    }
}

impl<A: Keyed> Holdings for Replica<A> {
    fn held(&self) -> Vec<Held> {
        let held = |pending: &Pending| {
            let (id, participants) = (pending.voted.transaction, pending.voted.participants.clone());
            let (timestamp, not_before) = (pending.place.timestamp, pending.voted.first);
            let (timestamp, not_before) = (at(timestamp, id.client), at(not_before, id.client));
            Held { id, participants, timestamp, not_before }
        };
        self.pending().map(held).collect()
    }

    fn waiting(&self) -> usize {
        self.waiting()
    }

    fn settles(&self) -> bool {
        self.lacking() > 0
    }

    fn outcomes(&self) -> Vec<(TransactionId, Outcome)> {
        self.ended().map(|(id, ended)| (id, outcome_of(id, ended))).collect()
    }

    fn floor(&self) -> Timestamp {
        at(self.floor(), ClientId(0))
    }

    /// A shard that remembers nothing leaves its floor where it is.
    fn has_collected(&self, ended: ClockTime) -> bool {
        self.floor() >= ended || self.ended_len() == 0
    }

    fn reached(&self) -> Option<ClockTime> {
        Some(self.ceiling())
    }

    fn versions(&self) -> Vec<StoredVersion> {
        let versions = self.application().versions().into_iter();
        versions
            .map(|(key, place, value)| (key, at(place.timestamp, place.transaction.client), Some(value)))
            .collect()
    }

    fn version_count(&self) -> usize {
        self.application().version_count()
    }

    fn left(&self) -> Vec<(&'static str, usize)> {
        let overdue = self.overdue();
        (overdue > 0).then_some(("outcomes", overdue)).into_iter().collect()
    }

    fn recorded(&self) -> usize {
        self.ended_len()
    }

    fn state_bytes(&self) -> u64 {
        let versions = self.application().versions().into_iter();
        let keys: u64 = versions.map(|(key, _, value)| 128 + (key.len() + value.len()) as u64).sum();
        keys + 256 * self.ended_len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Request;

    #[test]
    fn messages_that_end_transactions_are_never_refused() {
        let transaction = TransactionId::default();
        let request = |class| {
            let (participants, operation) = (vec![], Default::default());
            let (high, first) = Default::default();
            Message::Request(Request { transaction, participants, operation, class, high, first })
        };
        let inquire = Message::Inquire { transaction, participants: vec![], not_before: Default::default() };
        let table = [
            (request(Class::ReadOnly), Urgency::Early),
            (request(Class::Independent), Urgency::Prepare),
            (request(Class::Coordinated), Urgency::Prepare),
            (inquire, Urgency::Always),
            (Message::AskFloor, Urgency::Always),
        ];
        for (message, urgency) in table {
            assert_eq!(urgency_of(&message), urgency, "{message:?}");
        }
    }
}
