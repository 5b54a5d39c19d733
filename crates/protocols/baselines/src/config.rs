//! Which system a machine belongs to, who it is and how long it waits.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use quorate_core::topology::UnknownName;
use quorate_core::{ClientId, GroupSize, ReplicaId, ShardId};

use crate::rules::Rules;

/// A transactional system that the TAPIR paper compares itself with (section 7.1).
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
}

impl System {
    /// Every system.
    pub const ALL: [System; 4] = [System::TxnLock, System::TxnOcc, System::SpanLock, System::SpanOcc];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            System::TxnLock => "txn-lock",
            System::TxnOcc => "txn-occ",
            System::SpanLock => "span-lock",
            System::SpanOcc => "span-occ",
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
}

impl fmt::Display for System {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for System {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        System::ALL.into_iter().find(|system| system.name() == name).ok_or_else(|| UnknownName {
            what: "baseline",
            given: name.to_owned(),
            choices: System::ALL.map(System::name).join(", "),
        })
    }
}

/// What a replica is built from.
#[derive(Clone, Debug)]
pub struct ReplicaConfig {
    /// Which replica this is.
    pub replica: ReplicaId,
    /// The size of its group, and of every other group of the keyspace.
    pub group: GroupSize,
    /// The first shard of its keyspace, and how many there are: no transaction takes part in any other.
    pub shards: (ShardId, u32),
    /// The system.
    pub system: System,
    /// [`Rules::SOUND`] outside tests.
    pub rules: Rules,
    /// What is asked at a timestamp further ahead of the local clock than this is not answered.
    pub timestamp_ahead_max: Duration,
    /// How long a transaction stays prepared before the leader asks the other participants what became of it; and how long read
    /// locks keep younger writers off without a further one.
    pub recovery_timeout: Duration,
    /// After so long without a further one, the read locks of a transaction are released: its client has died. No client waits
    /// for so long.
    pub lock_timeout: Duration,
    /// How often the leader looks after what is old.
    pub attention_interval: Duration,
    /// How often a new floor is looked for.
    pub floor_interval: Duration,
    /// How far the floor stays behind the clock: for so long outcomes are known at least.
    pub floor_lag: Duration,
    /// For how long a refusal is remembered whose transaction's timestamp is not known.
    pub refusal_span: Duration,
    /// So far ahead of the clock a leader makes durable up to where it may hand out timestamps, or read snapshots.
    pub ceiling_ahead: Duration,
    /// The most keys, live or deleted, in one reply to a scan.
    pub scan_page_max: usize,
    /// Roughly how many bytes of state go into one page.
    pub page_bytes_max: usize,
}

impl ReplicaConfig {
    /// The configuration of `replica` with the defaults that servers use.
    pub fn new(replica: ReplicaId, group: GroupSize, shards: (ShardId, u32), system: System) -> Self {
        ReplicaConfig {
            replica,
            group,
            shards,
            system,
            rules: Rules::SOUND,
            timestamp_ahead_max: Duration::from_secs(60),
            recovery_timeout: Duration::from_secs(2),
            lock_timeout: Duration::from_secs(10),
            attention_interval: Duration::from_millis(500),
            floor_interval: Duration::from_secs(5),
            floor_lag: Duration::from_secs(10),
            refusal_span: Duration::from_secs(120),
            ceiling_ahead: Duration::from_millis(500),
            scan_page_max: 1_000,
            page_bytes_max: 1024 * 1024,
        }
    }

    /// True if `participants` may be those of a transaction in which this replica's shard takes part.
    pub(crate) fn are_participants(&self, participants: &[ShardId]) -> bool {
        let (first, count) = self.shards;
        participants.is_sorted_by(|one, other| one < other)
            && participants.binary_search(&self.replica.shard).is_ok()
            && participants.iter().all(|shard| shard.0.checked_sub(first.0).is_some_and(|at| at < count))
    }
}

/// What a coordinator is built from.
#[derive(Clone, Debug)]
pub struct CoordinatorConfig {
    /// The client incarnation: random, never used before.
    pub client: ClientId,
    /// The system.
    pub system: System,
    /// The rules; only the simulator ever plants a bug here.
    pub rules: Rules,
    /// The group that is the timestamp server, where there is one.
    pub timestamps: Option<(ShardId, GroupSize)>,
    /// How long to wait for a reply to a read before another replica is asked.
    pub read_timeout: Duration,
    /// How long to wait before anything else is sent again.
    pub resend_timeout: Duration,
    /// After the client has been told "unknown", how long the coordinator goes on trying by itself.
    pub abandon_after: Duration,
    /// The most keys in one page of a scan.
    pub scan_page_max: u32,
}

impl CoordinatorConfig {
    /// The configuration of `client` with the defaults that the client library uses.
    pub fn new(client: ClientId, system: System) -> Self {
        CoordinatorConfig {
            client,
            system,
            rules: Rules::SOUND,
            timestamps: None,
            read_timeout: Duration::from_millis(500),
            resend_timeout: Duration::from_millis(1_000),
            abandon_after: Duration::from_secs(10),
            scan_page_max: 1_000,
        }
    }
}
