//! How replicas of STR are hosted.

use quorate_core::attic::Memory;
use quorate_core::changes::{self, Position};
use quorate_core::command::Outcome;
use quorate_core::hosted::{
    Admission, Held, Holdings, HostedOnLog, Seat, Speculating, StoredVersion, Urgency,
};
use quorate_core::landmark::{FewKeys, Landmark};
use quorate_core::{ClientId, ClockTime, Groups, ReplicaId, ShardId, Timestamp, TransactionId};

use crate::config::ReplicaConfig;
use crate::landmarks;
use crate::machine::{Replica, ReplicaCommand};
use crate::message::Message;

impl HostedOnLog for Replica {
    const NEEDS_SHARDS: bool = true;
    /// A shard that has lost more than it survives has lost commits; which, nobody knows.
    const ACCEPTS_LOSS: bool = false;

    fn seated(config: ReplicaConfig, seat: &Seat) -> ReplicaConfig {
        let (replica, groups) = (seat.replica, seat.groups.clone());
        ReplicaConfig { replica, groups, shards: seat.known_shards(), ..config }
    }

    fn prepared(&self) -> usize {
        match self {
            Replica::Shard(shard) => shard.prepared().len(),
            Replica::Home(home) => home.unsettled().len(),
        }
    }

    fn record_len(&self) -> usize {
        match self {
            Replica::Shard(shard) => shard.ended_len(),
            Replica::Home(home) => home.decisions_len(),
        }
    }

    fn recoveries(&self) -> usize {
        match self {
            Replica::Shard(shard) => shard.inquiries(),
            Replica::Home(_) => 0,
        }
    }

    fn load(&self, client: Option<ClientId>) -> usize {
        match self {
            Replica::Shard(shard) => shard.pendings(),
            Replica::Home(home) => home.load(client),
        }
    }

    fn is_idle(&self, leads: bool) -> bool {
        match self {
            // Homes on other nodes may read here as well.
            Replica::Shard(shard) => (!leads || shard.pendings() == 0) && shard.waiters() == 0,
            // It runs the transactions of its clients whether it leads the home's log or not.
            Replica::Home(home) => home.open_len() == 0 && home.undelivered() == 0,
        }
    }

    fn decided(&self) -> (u64, u64) {
        match self {
            Replica::Shard(shard) => shard.decided(),
            Replica::Home(home) => home.decided(),
        }
    }

    fn change_groups(groups: &Groups) -> Option<ReplicaCommand> {
        Some(ReplicaCommand::ChangeGroups(groups.clone()))
    }

    fn meet(neighbours: &[ReplicaId]) -> Option<ReplicaCommand> {
        Some(ReplicaCommand::Meet(neighbours.to_vec()))
    }

    fn speculating(&self) -> Option<Speculating> {
        match self {
            Replica::Shard(_) => None,
            Replica::Home(home) => Some(home.speculating()),
        }
    }

    fn follow() -> Option<ReplicaCommand> {
        Some(ReplicaCommand::Follow)
    }

    fn changes(&self, request: &changes::Request<Position>) -> changes::Answer<Position> {
        match self {
            Replica::Shard(shard) => request.answered_by(|request| shard.changes(request)),
            Replica::Home(_) => changes::Answer::unable("it belongs to a home, which holds no keys"),
        }
    }

    fn retained(&self) -> changes::Retained {
        match self {
            Replica::Shard(shard) => shard.retained(),
            Replica::Home(_) => changes::Retained::default(),
        }
    }

    fn admission(message: &Message) -> Admission {
        match message {
            Message::Read { .. } => Admission::of(Urgency::Early),
            Message::Commit { transaction, .. } => {
                Admission { prepares_for: Some(transaction.client), ..Admission::of(Urgency::Prepare) }
            }
            _ => Admission::of(Urgency::Always),
        }
    }

    fn adds(message: &Message) -> bool {
        match message {
            Message::Commit { writes, .. } => writes.iter().any(|write| write.value.is_some()),
            _ => true,
        }
    }

    /// A home holds no keys, and lets in what its clients write elsewhere.
    fn memory(&self) -> Option<Memory> {
        match self {
            Replica::Shard(shard) => Some(shard.versions().memory()),
            Replica::Home(_) => Some(Memory::default()),
        }
    }

    fn has_open(&self, message: &Message) -> bool {
        match (self, message) {
            (
                Replica::Home(home),
                Message::Read { transaction, .. } | Message::Commit { transaction, .. },
            ) => home.is_open(*transaction),
            _ => false,
        }
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
        let held = |id, snapshot: ClockTime, participants| {
            let at = Timestamp { micros: snapshot.as_micros(), client: ClientId::default() };
            Held { id, participants, timestamp: at, not_before: at }
        };
        match self {
            Replica::Shard(shard) => {
                let all = shard.prepared().values();
                all.map(|one| held(one.transaction, one.snapshot, vec![one.home.shard])).collect()
            }
            Replica::Home(home) => {
                home.unsettled().into_iter().map(|(id, snapshot, parts)| held(id, snapshot, parts)).collect()
            }
        }
    }

    fn waiting(&self) -> usize {
        match self {
            Replica::Shard(shard) => shard.waiters(),
            Replica::Home(home) => home.undelivered(),
        }
    }

    fn settles(&self) -> bool {
        self.recoveries() > 0
    }

    fn outcomes(&self) -> Vec<(TransactionId, Outcome)> {
        match self {
            Replica::Shard(shard) => shard.outcomes(),
            Replica::Home(home) => home.outcomes(),
        }
    }

    fn outcome(&self, transaction: TransactionId) -> Option<Outcome> {
        match self {
            Replica::Shard(shard) => shard.outcome(transaction),
            Replica::Home(home) => home.outcome(transaction),
        }
    }

    fn floor(&self) -> Timestamp {
        let floor = match self {
            Replica::Shard(shard) => shard.floor(),
            Replica::Home(home) => home.forgotten(),
        };
        Timestamp { micros: floor.as_micros(), client: ClientId::default() }
    }

    fn versions(&self) -> Vec<StoredVersion> {
        match self {
            Replica::Shard(shard) => shard.versions().stored(),
            Replica::Home(_) => Vec::new(),
        }
    }

    fn version_count(&self) -> usize {
        match self {
            Replica::Shard(shard) => shard.versions().count(),
            Replica::Home(_) => 0,
        }
    }

    fn left(&self) -> Vec<(&'static str, usize)> {
        let all = match self {
            Replica::Shard(shard) => {
                vec![("versions", shard.superfluous())]
            }
            Replica::Home(home) => vec![("transactions", home.open_len())],
        };
        all.into_iter().filter(|(_, number)| *number > 0).collect()
    }

    fn recorded(&self) -> usize {
        match self {
            Replica::Shard(shard) => shard.ended_len(),
            Replica::Home(home) => home.decisions_len(),
        }
    }
}
