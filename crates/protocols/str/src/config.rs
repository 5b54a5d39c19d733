//! The seat of a machine, its limits and the times that it waits.

use std::time::Duration;

use quorate_core::changes::Retention;
use quorate_core::hosted::Shards;
use quorate_core::topology::{Grants, SpeculationVariant};
use quorate_core::{ClientId, GroupSize, Groups, ReplicaId, ShardId};

use crate::rules::Rules;
use crate::tuner::TunerConfig;

/// The rule by which replicas propose timestamps (section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The physical clock, as Clock-SI does.
    Physical,
    /// One more than the latest snapshot that has read a key: the paper's PreciseClock.
    Precise,
}

/// The results that clients are told before they are final (section 6.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shows {
    /// None.
    Nothing,
    /// That of a transaction; the next one of its client begins once it is final.
    Result,
    /// Those of a chain: so many transactions of one client may be shown and not settled.
    Chain(u8),
}

/// The settings by which the systems of the paper's section 8 differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// How timestamps are proposed.
    pub clock: Clock,
    /// True if a transaction may read from one of its node that has committed locally.
    pub reads_speculatively: bool,
    /// The results that clients are told before they are final.
    pub shows: Shows,
}

impl Variant {
    /// No chain is longer.
    pub const CHAIN_MAX: u8 = 8;

    /// Clock-SI with replication: the base protocol (section 6.1).
    pub const CLOCK_SI: Variant =
        Variant { clock: Clock::Physical, reads_speculatively: false, shows: Shows::Nothing };

    /// PLANET on the base protocol: one result is shown.
    pub const PLANET: Variant =
        Variant { clock: Clock::Physical, reads_speculatively: false, shows: Shows::Result };

    /// Speculative reads alone.
    pub const INTERNAL: Variant =
        Variant { clock: Clock::Precise, reads_speculatively: true, shows: Shows::Nothing };

    /// Speculative reads, and chains of results that are shown.
    pub const EXTERNAL: Variant =
        Variant { clock: Clock::Precise, reads_speculatively: true, shows: Shows::Chain(Variant::CHAIN_MAX) };
}

impl From<SpeculationVariant> for Variant {
    fn from(named: SpeculationVariant) -> Self {
        match named {
            SpeculationVariant::ClockSi => Variant::CLOCK_SI,
            SpeculationVariant::Planet => Variant::PLANET,
            SpeculationVariant::StrInternal => Variant::INTERNAL,
            SpeculationVariant::StrExternal => Variant::EXTERNAL,
        }
    }
}

/// The configuration of a replica of a shard or of a home.
#[derive(Clone, Debug)]
pub struct ReplicaConfig {
    /// Which replica this is: of a shard of the keyspace, or of a home.
    pub replica: ReplicaId,
    /// The replicas of each group.
    pub groups: Groups,
    /// The shards of its keyspace. Every other group is a home.
    pub shards: Shards,
    /// [`Rules::SOUND`] outside tests.
    pub rules: Rules,
    /// True if homes tell their host of local and final commits, so that histories can be judged by them.
    pub journals: bool,
    /// How much is speculated at most.
    pub variant: Variant,
    /// The tuner of a machine of a home, which chooses how much of that brings the most final commits (section 6.7); none leaves it at the most.
    pub tuner: Option<TunerConfig>,
    /// True if a transaction is aborted whose client had been shown an earlier one that became final above its snapshot: then sessions are
    /// in order in every snapshot.
    pub orders_sessions: bool,
    /// Which replicas of a shard are granted snapshots.
    pub grants: Grants,
    /// A replica may serve snapshots up to so far ahead of its leader's clock.
    pub grant_length: Duration,
    /// So long a replica that was granted snapshots has to vote before the commit passes above its bound.
    pub vote_timeout: Duration,
    /// So long an answer is waited for before a message is sent again.
    pub resend_timeout: Duration,
    /// A transaction that is prepared for so long is asked after at its home.
    pub recovery_timeout: Duration,
    /// A transaction that has certified for so long is given up, unless its decision is on its way.
    pub certify_timeout: Duration,
    /// An open transaction whose client is silent for so long is forgotten.
    pub idle_timeout: Duration,
    /// How often a machine looks after what is old.
    pub attention_interval: Duration,
    /// Snapshots can be read for so long at least, and endings are remembered.
    pub floor_lag: Duration,
    /// How much of what has committed is retained for consumers of changes.
    pub retention: Retention,
    /// Consumers of changes are so far behind the clock at least: then they raise no timestamp of a transaction that is under way.
    pub follow_lag: Duration,
    /// A snapshot that was not granted is refused if it lies further ahead of the clock of the leader, and so is a session that has seen a
    /// timestamp further ahead.
    pub ahead_max: Duration,
    /// So many reads and prepares may wait at one replica.
    pub waiting_max: usize,
    /// The most keys in one reply to a scan.
    pub scan_page_max: usize,
    /// Roughly how many bytes of state go into one page.
    pub page_bytes_max: usize,
}

impl ReplicaConfig {
    /// The configuration of `replica` with the defaults that servers use. All groups have this size, and have never changed.
    pub fn new(replica: ReplicaId, group: GroupSize, shards: Shards) -> Self {
        ReplicaConfig {
            replica,
            groups: Groups::new(group),
            shards,
            rules: Rules::SOUND,
            journals: false,
            variant: Variant::EXTERNAL,
            tuner: None,
            orders_sessions: false,
            grants: Grants::All,
            grant_length: Duration::from_secs(2),
            vote_timeout: Duration::from_millis(500),
            resend_timeout: Duration::from_secs(1),
            recovery_timeout: Duration::from_secs(2),
            certify_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            attention_interval: Duration::from_millis(500),
            floor_lag: Duration::from_secs(10),
            retention: Retention::default(),
            follow_lag: Duration::from_secs(1),
            ahead_max: Duration::from_secs(30),
            waiting_max: 100_000,
            scan_page_max: 1_000,
            page_bytes_max: 1024 * 1024,
        }
    }

    /// True if this is a replica of a home, and not of a shard.
    pub(crate) fn is_home(&self) -> bool {
        !self.shards.contains(self.replica.shard)
    }

    /// The shard of a key.
    pub(crate) fn shard_of(&self, key: &[u8]) -> ShardId {
        self.shards.holding(key)
    }
}

/// The configuration of a coordinator.
#[derive(Clone, Debug)]
pub struct CoordinatorConfig {
    /// The client incarnation: random, never used before.
    pub client: ClientId,
    /// How long to wait before a message is sent again.
    pub resend_timeout: Duration,
    /// The most keys in one page of a scan.
    pub scan_page_max: u32,
}

impl CoordinatorConfig {
    /// The configuration of `client` with the defaults that the client library uses.
    pub fn new(client: ClientId) -> Self {
        CoordinatorConfig { client, resend_timeout: Duration::from_millis(500), scan_page_max: 1_000 }
    }
}
