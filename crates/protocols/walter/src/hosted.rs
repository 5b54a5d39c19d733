//! How replicas of Walter are hosted.

use quorate_core::attic::Memory;
use quorate_core::changes::{self, Position};
use quorate_core::command::Outcome;
use quorate_core::hosted::{
    Admission, Consultation, HandedOver, Held, Holdings, HostedOnLog, Seat, SiteLag, StoredVersion, Urgency,
};
use quorate_core::landmark::{FewKeys, Landmark};
use quorate_core::topology::SiteChanges;
use quorate_core::{ClientId, ClockTime, Groups, Instant, ShardId, Timestamp, TransactionId};

use crate::config::ReplicaConfig;
use crate::histories::Update;
use crate::landmarks;
use crate::message::{Ending, Message};
use crate::replica::{Replica, ReplicaCommand, ReplicaEvent};

impl HostedOnLog for Replica {
    const NEEDS_SHARDS: bool = true;
    /// Transactions that a site has acknowledged and not propagated are lost with it. How a keyspace goes on without a site is for operators to say of the
    /// whole site.
    const ACCEPTS_LOSS: bool = false;

    fn seated(config: ReplicaConfig, seat: &Seat) -> ReplicaConfig {
        let (replica, groups) = (seat.replica, seat.groups.clone());
        ReplicaConfig { replica, groups, shards: seat.known_shards(), joined: seat.joined.clone(), ..config }
    }

    fn prepared(&self) -> usize {
        self.locks()
    }

    fn record_len(&self) -> usize {
        self.ended_len()
    }

    fn recoveries(&self) -> usize {
        self.settling()
    }

    fn load(&self, client: Option<ClientId>) -> usize {
        self.load(client)
    }

    fn is_idle(&self, leads: bool) -> bool {
        !leads || (self.locks() == 0 && self.waiting() == 0)
    }

    fn decided(&self) -> (u64, u64) {
        self.decided()
    }

    fn change_groups(groups: &Groups) -> Option<ReplicaCommand> {
        Some(ReplicaCommand::ChangeGroups(groups.clone()))
    }

    fn lags(&self, now: Instant) -> Vec<SiteLag> {
        self.lags(now)
    }

    fn handed_over(&self) -> Option<HandedOver> {
        Some(HandedOver { containers: self.moved(), shares: self.shares_given() })
    }

    fn consultation(event: &ReplicaEvent) -> Option<&Consultation> {
        match event {
            ReplicaEvent::Consults(consultation) => Some(consultation),
            ReplicaEvent::Leading { .. } | ReplicaEvent::Deposed => None,
        }
    }

    fn answer(asked: Instant, changes: &SiteChanges) -> Option<ReplicaCommand> {
        Some(ReplicaCommand::Answer { asked, changes: changes.clone() })
    }

    fn follow() -> Option<ReplicaCommand> {
        Some(ReplicaCommand::Follow)
    }

    fn retained(&self) -> changes::Retained {
        self.retained_changes()
    }

    fn changes(&self, request: &changes::Request<Position>) -> changes::Answer<Position> {
        Replica::changes(self, request)
    }

    fn admission(message: &Message) -> Admission {
        match message {
            Message::Read { .. } | Message::ReadCopy { .. } => Admission::of(Urgency::Early),
            // Nothing is held for a client for longer than votes take, so clients are not counted.
            Message::Commit { .. } => Admission::of(Urgency::Prepare),
            _ => Admission::of(Urgency::Always),
        }
    }

    /// A counting set takes room for whatever is done to it.
    fn adds(message: &Message) -> bool {
        match message {
            Message::Commit { updates, .. } => {
                updates.iter().any(|update| !matches!(update, Update::Write { value: None, .. }))
            }
            _ => true,
        }
    }

    fn memory(&self) -> Option<Memory> {
        Some(self.histories().memory())
    }

    fn landmark_received(message: &Message, _: ShardId) -> Option<Landmark> {
        landmarks::received(message)
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
        let held = |(id, coordinator)| Held {
            id,
            participants: vec![coordinator],
            timestamp: Timestamp::ZERO,
            not_before: Timestamp::ZERO,
        };
        self.locked_for().into_iter().map(held).collect()
    }

    fn waiting(&self) -> usize {
        self.waiting() + self.behind()
    }

    fn settles(&self) -> bool {
        self.settling() > 0
    }

    fn outcomes(&self) -> Vec<(TransactionId, Outcome)> {
        self.endings().into_iter().map(|(id, ending)| (id, outcome(&ending))).collect()
    }

    fn outcome(&self, transaction: TransactionId) -> Option<Outcome> {
        self.ending(transaction).map(outcome)
    }

    fn floor(&self) -> Timestamp {
        Timestamp::ZERO
    }

    /// Floors are vectors: everything that has committed is below.
    fn has_collected(&self, _: ClockTime) -> bool {
        self.histories().floor() == self.committed()
    }

    fn versions(&self) -> Vec<StoredVersion> {
        let versions = self.histories().versions().filter(|(_, known)| !known.is_elsewhere);
        versions.map(|(key, known)| (key.clone(), known.version.timestamp(), known.value.clone())).collect()
    }

    fn version_count(&self) -> usize {
        self.histories().size().0
    }

    fn left(&self) -> Vec<(&'static str, usize)> {
        let all = [("outcomes", self.overdue()), ("objects", self.histories().superfluous())];
        all.into_iter().filter(|(_, number)| *number > 0).collect()
    }

    fn recorded(&self) -> usize {
        self.ended_len()
    }

    fn state_bytes(&self) -> u64 {
        self.histories().size().1
    }
}

fn outcome(ending: &Ending) -> Outcome {
    match ending {
        Ending::Committed { version, .. } => Outcome::Committed(version.timestamp()),
        Ending::Aborted => Outcome::Aborted,
    }
}
