//! Which system a machine belongs to, who it is and how long it waits.

use std::time::Duration;

pub use quorate_core::comparison::System;
use quorate_core::hosted::Shards;
use quorate_core::{ClientId, GroupSize, Groups, ReplicaId, ShardId};

use crate::rules::Rules;

/// The configuration of a replica.
#[derive(Clone, Debug)]
pub struct ReplicaConfig {
    /// Which replica this is.
    pub replica: ReplicaId,
    /// The replicas of its group, and of every other group of the keyspace, as far as its host knew when it was built.
    pub groups: Groups,
    /// The first shard of its keyspace, and how many there are: no transaction takes part in any other.
    pub shards: Shards,
    /// The system.
    pub system: System,
    /// [`Rules::SOUND`] outside tests.
    pub rules: Rules,
    /// A question at a timestamp further ahead of the local clock than this is not answered.
    pub timestamp_ahead_max: Duration,
    /// How long a transaction stays prepared before the leader asks the other participants what became of it; and how long read
    /// locks keep younger writers off without a further one.
    pub recovery_timeout: Duration,
    /// A client that has not asked again for so long has died: its read locks are released, and what is coordinated for it is
    /// left to the participants. No client waits for so long.
    pub client_timeout: Duration,
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
    /// The configuration of `replica` with the defaults that servers use. All groups have this size, and have never changed.
    pub fn new(replica: ReplicaId, group: GroupSize, shards: Shards, system: System) -> Self {
        ReplicaConfig {
            replica,
            groups: Groups::new(group),
            shards,
            system,
            rules: Rules::SOUND,
            timestamp_ahead_max: Duration::from_secs(60),
            recovery_timeout: Duration::from_secs(2),
            client_timeout: Duration::from_secs(10),
            attention_interval: Duration::from_millis(500),
            floor_interval: Duration::from_secs(5),
            floor_lag: Duration::from_secs(10),
            refusal_span: Duration::from_secs(120),
            ceiling_ahead: Duration::from_millis(500),
            scan_page_max: 1_000,
            page_bytes_max: 1024 * 1024,
        }
    }

    /// True if `participants` may be those of a transaction of this replica's keyspace.
    pub(crate) fn are_shards(&self, participants: &[ShardId]) -> bool {
        participants.is_sorted_by(|one, other| one < other)
            && participants.iter().all(|shard| self.is_shard(*shard))
    }

    /// True if they may be, and this replica's shard is one of them.
    pub(crate) fn are_participants(&self, participants: &[ShardId]) -> bool {
        self.are_shards(participants) && participants.binary_search(&self.replica.shard).is_ok()
    }

    /// True if a shard belongs to this replica's keyspace, and is not the group that serves it.
    pub(crate) fn is_shard(&self, shard: ShardId) -> bool {
        self.shards.contains(shard)
    }

    /// True if this replica belongs to the group that coordinates.
    pub(crate) fn coordinates(&self) -> bool {
        self.system.has_coordinator() && !self.is_shard(self.replica.shard)
    }
}

/// The configuration of a coordinator.
#[derive(Clone, Debug)]
pub struct CoordinatorConfig {
    /// The client incarnation: random, never used before.
    pub client: ClientId,
    /// The system.
    pub system: System,
    /// The rules; only the simulator ever plants a bug here.
    pub rules: Rules,
    /// The group that is the timestamp server or the coordinator, where there is one.
    pub service: Option<(ShardId, GroupSize)>,
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
            service: None,
            read_timeout: Duration::from_millis(500),
            resend_timeout: Duration::from_millis(1_000),
            abandon_after: Duration::from_secs(10),
            scan_page_max: 1_000,
        }
    }
}
