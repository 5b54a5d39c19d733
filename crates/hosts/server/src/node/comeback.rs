//! Replicas that were given up for what passes, and come back by themselves.
//!
//! The state that a replica holds in memory goes with it. It is built again from its log as after a crash of the process: recovery reads and
//! checks the log, writes once more what is not known to be durable, and syncs that, so nothing is believed that a failed write
//! has left in the memory of the operating system. Only what never was written can be missing, and that nobody was told of.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::{Instant, ReplicaId};
use quorate_runtime::Turn;
use quorate_storage::{self as storage, Shortage};

use super::Node;
use super::building::Order;
use super::log::LogError;
use crate::data::DataError;

/// The first pause before a replica is built again. It doubles from one attempt to the next.
const PAUSE_MIN: Duration = Duration::from_millis(500);

/// The longest such pause: a log may be long, and each attempt reads all of it.
const PAUSE_MAX: Duration = Duration::from_secs(15);

/// Why a replica cannot be served for the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hindrance {
    /// Something ran short.
    Shortage(Shortage),
    /// A value that it had put into a file could not be read.
    Unread,
    /// Its log is still held by what is left of the replica itself, which may have a segment under way.
    Held,
}

impl Hindrance {
    /// The hindrance of a replica, if it passes by itself; none if an operator has to act.
    pub(super) fn of(error: &LogError) -> Option<Hindrance> {
        match error {
            LogError::Storage(storage::LogError::InUse { .. }) => Some(Hindrance::Held),
            LogError::Attic { .. } => Some(Hindrance::Unread),
            LogError::Storage(error) => error.shortage().map(Hindrance::Shortage),
            LogError::Data(DataError::Io { source, .. }) => Shortage::of(source).map(Hindrance::Shortage),
            _ => None,
        }
    }

    /// The steps that an operator can take, and what happens by itself.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Hindrance::Shortage(Shortage::Space) => {
                "make room on the disk of the data directory: the replica comes back by itself within seconds"
            }
            Hindrance::Shortage(Shortage::Descriptors) => {
                "raise the limit of open files, or end what holds them: the replica comes back by itself within seconds"
            }
            Hindrance::Unread => {
                "the replica comes back by itself within seconds, with an empty file; if that happens again, look at the disk"
            }
            Hindrance::Held => "the replica comes back by itself within seconds",
        }
    }
}

/// The replicas that come back, and when that is tried next.
#[derive(Debug, Default)]
pub(super) struct Comebacks(BTreeMap<ReplicaId, Waiting>);

#[derive(Debug)]
struct Waiting {
    attempts: u32,
    due: Instant,
}

impl Comebacks {
    /// When the next attempt is due.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.0.values().map(|waiting| waiting.due).min()
    }

    /// A replica is hindered: true if it is to be built now.
    fn is_due(&mut self, replica: ReplicaId, now: Instant) -> bool {
        let first = Waiting { attempts: 0, due: now + pause(0) };
        let waiting = self.0.entry(replica).or_insert(first);
        if now < waiting.due {
            return false;
        }
        waiting.attempts += 1;
        waiting.due = now + pause(waiting.attempts);
        true
    }
}

/// How long to wait after so many attempts.
fn pause(attempts: u32) -> Duration {
    PAUSE_MIN.saturating_mul(1 << attempts.min(16)).min(PAUSE_MAX)
}

impl Node {
    /// Has replicas built again that were hindered, when that is due.
    pub(super) fn bring_back(&mut self, turn: &Turn<'_>) {
        if self.hindered.is_empty() && self.comebacks.0.is_empty() {
            return;
        }
        // Nobody believes what is here any more, whether there is room or not.
        if self.peers.fence().is_some() {
            self.hindered.clear();
        }
        let Node { replicas, hindered, .. } = self;
        // One that is no member any more has nothing to hand over, and is deleted.
        let is_hindered = |id: &ReplicaId| {
            replicas
                .get(id)
                .is_some_and(|hosted| hosted.hindrance().is_some() && hosted.placement.is_member())
        };
        hindered.retain(is_hindered);
        self.comebacks.0.retain(|id, _| hindered.contains(id));
        let due: Vec<ReplicaId> = self
            .hindered
            .iter()
            .copied()
            .filter(|id| self.comebacks.is_due(*id, turn.time.now) && !self.builder.is_building(*id))
            .collect();
        let mut orders: Vec<Order> = Vec::new();
        for id in due {
            tracing::info!(replica = %id, "building a replica again");
            let hosted = &self.replicas[&id];
            let (placement, origin) = (hosted.placement.clone(), hosted.origin);
            orders.push(self.order(placement, origin));
        }
        self.builder.start(orders);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, ErrorKind};

    use quorate_core::Epoch;

    use super::*;

    #[test]
    fn what_passes_and_what_needs_an_operator_as_a_table() {
        let io =
            |action, source| LogError::Storage(storage::LogError::Io { action, path: "log".into(), source });
        let data = |source| LogError::Data(DataError::Io { path: "replica.toml".into(), source });
        let directory = std::path::PathBuf::from("log");
        let space = Some(Hindrance::Shortage(Shortage::Space));
        let descriptors = Some(Hindrance::Shortage(Shortage::Descriptors));
        let table = [
            (io("preallocate", ErrorKind::StorageFull.into()), space),
            (io("open", io::Error::from_raw_os_error(24)), descriptors),
            (data(io::Error::from_raw_os_error(28)), space),
            (data(io::Error::from_raw_os_error(24)), descriptors),
            (storage::LogError::InUse { directory: directory.clone() }.into(), Some(Hindrance::Held)),
            (LogError::Attic { path: "attic".into(), why: "a bit".into() }, Some(Hindrance::Unread)),
            (LogError::AtticAlone { path: "attic".into(), why: "a bit".into() }, None),
            (io("write to", io::Error::from_raw_os_error(5)), None),
            (io("sync", ErrorKind::StorageFull.into()), None),
            (data(ErrorKind::PermissionDenied.into()), None),
            (storage::LogError::Missing { directory }.into(), None),
            (LogError::Epoch { number: 0, written: Epoch(2), epoch: Epoch(1) }, None),
        ];
        for (error, expected) in table {
            assert_eq!(Hindrance::of(&error), expected, "{error}");
        }
    }

    #[test]
    fn attempts_become_rare() {
        let pauses: Vec<u64> =
            [0, 1, 2, 4, 5, 60].map(|attempts| pause(attempts).as_millis() as u64).to_vec();
        assert_eq!(pauses, [500, 1_000, 2_000, 8_000, 15_000, 15_000]);
    }

    #[test]
    fn a_replica_waits_before_each_attempt() {
        let mut comebacks = Comebacks::default();
        let replica = ReplicaId::default();
        let at = |millis| Instant::START + Duration::from_millis(millis);
        assert!(!comebacks.is_due(replica, at(0)));
        assert_eq!(comebacks.next_deadline(), Some(at(500)));
        assert!(!comebacks.is_due(replica, at(499)));
        assert!(comebacks.is_due(replica, at(500)));
        assert!(!comebacks.is_due(replica, at(1_499)));
        assert!(comebacks.is_due(replica, at(1_500)));
    }
}
