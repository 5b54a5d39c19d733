//! The systems that Quorate is compared with, as far as a cluster has to name them.

use crate::topology::Shard;

/// A transactional system that the papers compare themselves with: TAPIR's (section 7.1), and Granola's (section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum System {
    /// Two-phase commit and strict two-phase locking over a replicated log.
    TxnLock,
    /// Two-phase commit and optimistic concurrency control over a replicated log, with a timestamp server.
    TxnOcc,
    /// As Spanner: locks at leaders, timestamps by bounded clocks, snapshots without locks.
    SpanLock,
    /// The same, with optimistic concurrency control in place of locks.
    SpanOcc,
    /// As Sinfonia: minitransactions, which compare what they have read and write, and a dedicated coordinator for those that
    /// more than one shard takes part in.
    Sinfonia,
}

impl System {
    /// Every system.
    pub const ALL: [System; 5] =
        [System::TxnLock, System::TxnOcc, System::SpanLock, System::SpanOcc, System::Sinfonia];

    /// Those that the TAPIR paper compares itself with.
    pub const OF_TAPIR: [System; 4] = [System::TxnLock, System::TxnOcc, System::SpanLock, System::SpanOcc];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            System::TxnLock => "txn-lock",
            System::TxnOcc => "txn-occ",
            System::SpanLock => "span-lock",
            System::SpanOcc => "span-occ",
            System::Sinfonia => "sinfonia",
        }
    }

    /// The system, in a few words.
    pub const fn what(self) -> &'static str {
        match self {
            System::TxnLock => "two-phase commit and strict two-phase locking, on replicated logs",
            System::TxnOcc => "two-phase commit and optimistic concurrency control, with a timestamp server",
            System::SpanLock => "as Spanner: locks at leaders, snapshots without locks, commit wait",
            System::SpanOcc => "as Spanner, with optimistic concurrency control in place of locks",
            System::Sinfonia => {
                "minitransactions, with a dedicated coordinator if they concern more than one shard"
            }
        }
    }

    /// True if a transaction locks what it reads, at the leader; else it is validated when it is prepared.
    pub const fn locks(self) -> bool {
        matches!(self, System::TxnLock | System::SpanLock)
    }

    /// True if timestamps are those of clocks whose error is bounded: the past can be read at any of them without locks, and a
    /// commit is reported when its timestamp has passed everywhere.
    pub const fn has_snapshots(self) -> bool {
        matches!(self, System::SpanLock | System::SpanOcc)
    }

    /// True if a transaction asks the timestamp server for its timestamp, and does not read the client's clock.
    pub const fn has_timestamp_server(self) -> bool {
        matches!(self, System::TxnOcc)
    }

    /// True if transactions that write at more than one shard are coordinated by a server that does nothing else, and not by
    /// their clients.
    pub const fn has_coordinator(self) -> bool {
        matches!(self, System::Sinfonia)
    }

    /// True if a transaction that one shard alone takes part in is committed with that shard's vote, and holds nothing.
    pub const fn commits_with_one_vote(self) -> bool {
        matches!(self, System::Sinfonia)
    }

    /// True if a group without keys belongs to each keyspace of the system: its timestamp server, or its coordinator.
    pub const fn has_service(self) -> bool {
        self.has_timestamp_server() || self.has_coordinator()
    }
}

crate::names!(System, "baseline");

/// A system that can run a keyspace to be compared with ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rival {
    /// A transactional system on replicated logs. It promises what the isolation of its keyspace promises.
    OnLog(System),
    /// The quorum store without transactions of the TAPIR paper (section 7.1). It promises nothing.
    QwStore,
}

impl Rival {
    /// Each of them.
    pub const ALL: [Rival; 6] = [
        Rival::OnLog(System::TxnLock),
        Rival::OnLog(System::TxnOcc),
        Rival::OnLog(System::SpanLock),
        Rival::OnLog(System::SpanOcc),
        Rival::OnLog(System::Sinfonia),
        Rival::QwStore,
    ];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Rival::OnLog(system) => system.name(),
            Rival::QwStore => "qwstore",
        }
    }

    /// The system, in a few words.
    pub const fn what(self) -> &'static str {
        match self {
            Rival::OnLog(system) => system.what(),
            Rival::QwStore => "reads anywhere, writes everywhere, and no transactions",
        }
    }

    /// The transactional system, if it is one.
    pub const fn on_log(self) -> Option<System> {
        match self {
            Rival::OnLog(system) => Some(system),
            Rival::QwStore => None,
        }
    }

    /// True if it has transactions, and keeps the promise of the isolation of its keyspace.
    pub const fn is_transactional(self) -> bool {
        matches!(self, Rival::OnLog(_))
    }

    /// True if the replicas of its groups can be replaced while it runs.
    pub const fn changes_groups(self) -> bool {
        matches!(self, Rival::OnLog(_))
    }

    /// True if it keeps enough to say at which point replicas must hold the same.
    pub const fn compares_replicas(self) -> bool {
        matches!(self, Rival::OnLog(_))
    }

    /// True if a group without keys belongs to each keyspace that it runs.
    pub const fn has_service(self) -> bool {
        matches!(self, Rival::OnLog(system) if system.has_service())
    }
}

impl From<System> for Rival {
    fn from(system: System) -> Self {
        Rival::OnLog(system)
    }
}

crate::names!(Rival, "baseline");

/// The system that runs a keyspace which is there to be measured, in place of the protocol of its isolation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The system that runs it.
    pub rival: Rival,
    /// The group that is the timestamp server or the coordinator, where the system has one. It holds no keys.
    pub service: Option<Shard>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rivals_are_named_once_and_found_by_name() {
        for rival in Rival::ALL {
            assert_eq!(rival.name().parse::<Rival>(), Ok(rival));
            assert_eq!(rival.on_log().map(Rival::from), Some(rival).filter(|rival| *rival != Rival::QwStore));
        }
        assert_eq!(Rival::ALL.iter().filter_map(|rival| rival.on_log()).collect::<Vec<_>>(), System::ALL);
        let error = "tapir".parse::<Rival>().unwrap_err();
        assert!(error.choices.contains("sinfonia") && error.choices.contains("qwstore"));
    }
}
