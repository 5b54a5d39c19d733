//! The identity of a machine, its limits and how long it waits.

use std::time::Duration;

use quorate_core::changes::Retention;
use quorate_core::hosted::Shards;
use quorate_core::topology::shard_position;
use quorate_core::{ClientId, GroupSize, Groups, ReplicaId, ShardId};

use crate::rules::Rules;
use crate::vector::LocalSite;

/// The parts that a replica is built from.
#[derive(Clone, Debug)]
pub struct ReplicaConfig {
    /// Which replica this is: its shard is its local site.
    pub replica: ReplicaId,
    /// The replicas of each local site.
    pub groups: Groups,
    /// The local sites that its keyspace was created with.
    pub shards: Shards,
    /// The local sites that have joined since, in this order, as far as is known here.
    pub joined: Vec<ShardId>,
    /// [`Rules::SOUND`] outside tests.
    pub rules: Rules,
    /// A transaction is disaster-safe durable once it survives the loss of so many local sites (the paper's *f*).
    pub sites_lost_max: usize,
    /// So long after a commit its transaction goes to the other sites, with all that has committed meanwhile.
    pub propagation_interval: Duration,
    /// So many batches may be under way to each site. One at a time is the paper's implementation.
    pub batches_max: usize,
    /// Roughly how many bytes go into one batch.
    pub batch_bytes_max: usize,
    /// So long a site may be silent before it is told again what it has not confirmed.
    pub resend_timeout: Duration,
    /// How long preferred sites have to vote before a slow commit is refused.
    pub vote_timeout: Duration,
    /// For so long fast commits wait for the next attempt at a slow commit that was refused, the first time: about a round trip between sites, and what a
    /// client needs between two attempts.
    pub reservation_timeout: Duration,
    /// How long a lock is held before its coordinator is asked what became of the transaction.
    pub recovery_timeout: Duration,
    /// So long a request may wait for what its snapshot has to include.
    pub wait_timeout: Duration,
    /// A site goes on for so long after it has asked whether it was taken out, by its own clock; none if sites are never taken out.
    pub lease: Option<Duration>,
    /// So long after it has heard that a site was taken out another site goes on without it: longer than the lease, however fast its clock
    /// is.
    pub lease_wait: Duration,
    /// When containers move by themselves to the site that writes them; none if they do not.
    pub moves: Option<Moves>,
    /// How often the leader looks after what is old.
    pub attention_interval: Duration,
    /// For so long at least a snapshot can be read, and endings are remembered.
    pub floor_lag: Duration,
    /// So much of what has committed is retained for consumers of changes, below the floor.
    pub retention: Retention,
    /// The most registers in one reply.
    pub scan_page_max: usize,
    /// Roughly how many bytes of state go into one page.
    pub page_bytes_max: usize,
}

/// When a container moves by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moves {
    /// For so long the writes of containers are counted before it is decided which move.
    pub window: Duration,
    /// A site has to write a container so often in that time.
    pub writes_min: u64,
}

impl ReplicaConfig {
    /// The configuration of `replica` with the defaults that servers use. All groups have this size, and have never changed.
    pub fn new(replica: ReplicaId, group: GroupSize, shards: Shards) -> Self {
        ReplicaConfig {
            replica,
            groups: Groups::new(group),
            shards,
            joined: Vec::new(),
            rules: Rules::SOUND,
            sites_lost_max: 1,
            propagation_interval: Duration::from_millis(5),
            batches_max: 64,
            batch_bytes_max: 256 * 1024,
            resend_timeout: Duration::from_secs(1),
            vote_timeout: Duration::from_secs(2),
            reservation_timeout: Duration::from_millis(300),
            recovery_timeout: Duration::from_secs(2),
            wait_timeout: Duration::from_secs(5),
            lease: None,
            lease_wait: Duration::from_secs(13),
            moves: None,
            attention_interval: Duration::from_millis(500),
            floor_lag: Duration::from_secs(10),
            retention: Retention::NONE,
            scan_page_max: 1_000,
            page_bytes_max: 1024 * 1024,
        }
    }

    /// The local site of this replica.
    pub(crate) fn site(&self) -> LocalSite {
        self.site_at(self.replica.shard).expect("a replica belongs to a local site of its keyspace")
    }

    /// True if the keyspace was created with this local site.
    pub(crate) fn is_founder(&self, site: LocalSite) -> bool {
        u32::from(site.0) < self.shards.count
    }

    /// The first so many local sites of the keyspace: those that it was created with, and so many that have joined.
    pub(crate) fn sites(&self, joined: usize) -> impl Iterator<Item = LocalSite> + use<> {
        (0..(self.shards.count as usize + joined) as u16).map(LocalSite)
    }

    /// The place of a local site among those that have joined.
    pub(crate) fn joined_at(&self, site: LocalSite) -> Option<usize> {
        usize::from(site.0).checked_sub(self.shards.count as usize)
    }

    /// The shard that is a local site.
    ///
    /// # Panics
    /// If it is not known which one has joined in that place.
    pub(crate) fn shard_of(&self, site: LocalSite) -> ShardId {
        match self.joined_at(site) {
            None => ShardId(self.shards.first.0 + u32::from(site.0)),
            Some(at) => self.joined[at],
        }
    }

    /// The local site that is a shard of the keyspace.
    pub(crate) fn site_at(&self, shard: ShardId) -> Option<LocalSite> {
        if self.shards.contains(shard) {
            return Some(LocalSite((shard.0 - self.shards.first.0) as u16));
        }
        let at = self.joined.iter().position(|known| *known == shard)?;
        u16::try_from(self.shards.count as usize + at).ok().map(LocalSite)
    }

    /// The local site of another replica of the keyspace.
    pub(crate) fn other_site(&self, shard: ShardId) -> Option<LocalSite> {
        self.site_at(shard).filter(|site| *site != self.site())
    }

    /// The preferred site of an object, as long as nobody has placed it, by the name that the site had at first.
    pub(crate) fn preferred(&self, key: &[u8]) -> LocalSite {
        LocalSite(shard_position(key, self.shards.count as usize) as u16)
    }
}

/// The parts that a coordinator is built from.
#[derive(Clone, Debug)]
pub struct CoordinatorConfig {
    /// The client incarnation: random, never used before.
    pub client: ClientId,
    /// The rules; only the simulator ever plants a bug here.
    pub rules: Rules,
    /// How long to wait before a message is sent again.
    pub resend_timeout: Duration,
    /// A message that is refused as too old within this time after it was first sent has surely never been accepted: no longer than half of
    /// [`ReplicaConfig::floor_lag`].
    pub surely_remembered: Duration,
    /// The most keys in one page of a scan.
    pub scan_page_max: u32,
}

impl CoordinatorConfig {
    /// The configuration of `client` with the defaults that the client library uses.
    pub fn new(client: ClientId) -> Self {
        CoordinatorConfig {
            client,
            rules: Rules::SOUND,
            resend_timeout: Duration::from_millis(500),
            surely_remembered: Duration::from_secs(5),
            scan_page_max: 1_000,
        }
    }
}
