//! The configuration of machines: their identities, and how long they wait.

use std::time::Duration;

use quorate_core::changes::Retention;
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
    /// [`Rules::SOUND`] outside tests.
    pub rules: Rules,
    /// Requests whose timestamps lie further ahead of the local clock than this are not accepted.
    pub timestamp_ahead_max: Duration,
    /// How long the leader waits for a vote before it asks for it again, unless the votes of that shard are later than a quarter of this.
    pub vote_timeout: Duration,
    /// How long votes on a transaction are kept that nobody has asked this shard to execute: then its client has died.
    pub request_timeout: Duration,
    /// How long something waits behind what cannot end, before its client is told to try again.
    pub wait_timeout: Duration,
    /// When it locks.
    pub locking: Locking,
    /// The group that coordinates what has several participants, if they do not do so themselves: as in Sinfonia, with which the
    /// paper compares itself. It has no data.
    pub hub: Option<ShardId>,
    /// How often the leader looks after what is old.
    pub attention_interval: Duration,
    /// How long the others wait at most for the timestamps of what the leader has executed, if nothing else is appended.
    pub finals_delay: Duration,
    /// Transactions of several participants are proposed so far ahead of the clock as their votes are late, but at most so far: so
    /// those of one shard alone pass beneath. Zero is as the paper has it: at the clock, and above all that was proposed.
    pub vote_delay_max: Duration,
    /// So far above what is proposed a leader makes durable up to where it may execute.
    pub ceiling_ahead: Duration,
    /// How often a new floor is looked for.
    pub floor_interval: Duration,
    /// How far the floor stays behind the clock: for so long outcomes are known at least.
    pub floor_lag: Duration,
    /// Votes are kept on so many transactions that nobody has asked this shard to execute.
    pub strangers_max: usize,
    /// Roughly how many bytes of state go into one page.
    pub page_bytes_max: usize,
    /// How much of what has been written is retained for consumers of changes.
    pub retention: Retention,
    /// The application that every host of a replica of the keyspace is linked with, if the keyspace names one.
    pub application: Option<String>,
    /// An operation is long that is more work than this, in units of the application.
    pub work_long: u64,
    /// Long operations of the whole keyspace may be so much work a second, in the long run. Clients whose operations are long take turns beyond that,
    /// and others go on.
    pub work_per_second: u64,
}

impl ReplicaConfig {
    /// The configuration of `replica` with the defaults that servers use. All groups have this size, and have never changed.
    pub fn new(replica: ReplicaId, group: GroupSize, shards: Shards) -> Self {
        ReplicaConfig {
            replica,
            groups: Groups::new(group),
            shards,
            rules: Rules::SOUND,
            timestamp_ahead_max: Duration::from_secs(60),
            vote_timeout: Duration::from_millis(300),
            request_timeout: Duration::from_secs(2),
            wait_timeout: Duration::from_secs(3),
            locking: Locking::WhereNeeded,
            hub: None,
            attention_interval: Duration::from_millis(500),
            finals_delay: Duration::from_millis(10),
            vote_delay_max: Duration::from_millis(250),
            ceiling_ahead: Duration::from_millis(500),
            floor_interval: Duration::from_secs(5),
            floor_lag: Duration::from_secs(10),
            strangers_max: 100_000,
            page_bytes_max: 1024 * 1024,
            retention: Retention::default(),
            application: None,
            work_long: 2_000_000,
            work_per_second: 20_000_000,
        }
    }

    /// The long operations that this shard may run in a second: shards of a keyspace that are led at one node share the node's bound.
    pub(crate) fn own_work_per_second(&self) -> u64 {
        self.work_per_second / (self.shards.ids().count() as u64).max(1)
    }

    /// True if no bug is planted. With one the clients have to notice what an assertion would hide from them.
    pub(crate) fn is_sound(&self) -> bool {
        self.rules == Rules::SOUND
    }

    /// True if this is a replica of the group that coordinates.
    pub(crate) fn is_hub(&self) -> bool {
        self.hub == Some(self.replica.shard)
    }

    /// True if `participants` may be those of a transaction of this replica's keyspace, and its shard is one of them.
    pub(crate) fn are_participants(&self, participants: &[ShardId]) -> bool {
        participants.is_sorted_by(|one, other| one < other)
            && participants.iter().all(|shard| self.shards.contains(*shard))
            && participants.binary_search(&self.replica.shard).is_ok()
    }
}

/// When a shard locks. The paper measures all three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locking {
    /// As long as there are coordinated transactions, and while it waits for a shard that is lost.
    WhereNeeded,
    /// Always.
    Always,
    /// Never, and it waits for no earlier timestamp either: that is not serializable, and shows what waiting costs.
    NeverNorWait,
}

/// The configuration of a coordinator.
#[derive(Clone, Debug)]
pub struct CoordinatorConfig {
    /// The client incarnation: random, never used before. So no name is ever used again, although nothing is kept on a disk
    /// (section 5.3).
    pub client: ClientId,
    /// The rules; only the simulator ever plants a bug here.
    pub rules: Rules,
    /// The group that coordinates what has several participants, if they do not do so themselves.
    pub hub: Option<ShardId>,
    /// How long to wait before a request is sent again.
    pub resend_timeout: Duration,
    /// A transaction that was refused once is tried again after this at most, and after twice as long each further time.
    pub back_off: Duration,
}

impl CoordinatorConfig {
    /// The configuration of `client` with the defaults that the client library uses.
    pub fn new(client: ClientId) -> Self {
        CoordinatorConfig {
            client,
            rules: Rules::SOUND,
            hub: None,
            resend_timeout: Duration::from_secs(1),
            back_off: Duration::from_millis(5),
        }
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::ReplicaIndex;

    use super::*;

    /// Operators plan by them.
    #[test]
    fn defaults_change_knowingly() {
        let replica = ReplicaId { shard: ShardId(1), index: ReplicaIndex(0) };
        let shards = Shards { first: ShardId(1), count: 4 };
        let config = ReplicaConfig::new(replica, GroupSize::new(3).unwrap(), shards);
        let millis = [
            (config.timestamp_ahead_max, 60_000),
            (config.vote_timeout, 300),
            (config.request_timeout, 2_000),
            (config.wait_timeout, 3_000),
            (config.attention_interval, 500),
            (config.finals_delay, 10),
            (config.vote_delay_max, 250),
            (config.ceiling_ahead, 500),
            (config.floor_interval, 5_000),
            (config.floor_lag, 10_000),
        ];
        assert_eq!(millis.map(|(time, _)| time.as_millis()), millis.map(|(_, millis)| millis));
        assert_eq!((config.strangers_max, config.page_bytes_max), (100_000, 1 << 20));
        assert_eq!((config.work_long, config.own_work_per_second()), (2_000_000, 5_000_000));
        assert_eq!((config.locking, config.is_hub(), config.is_sound()), (Locking::WhereNeeded, false, true));
        let config = CoordinatorConfig::new(ClientId(1));
        assert_eq!((config.resend_timeout.as_millis(), config.back_off.as_millis()), (1_000, 5));
    }

    #[test]
    fn participants_are_sorted_shards_of_the_keyspace_and_the_own_is_one_of_them() {
        let replica = ReplicaId { shard: ShardId(2), index: ReplicaIndex(0) };
        let shards = Shards { first: ShardId(1), count: 3 };
        let config = ReplicaConfig::new(replica, GroupSize::new(3).unwrap(), shards);
        let are = |numbers: &[u32]| {
            config.are_participants(&numbers.iter().copied().map(ShardId).collect::<Vec<_>>())
        };
        assert!(are(&[2]) && are(&[1, 2, 3]));
        for numbers in [&[][..], &[1], &[2, 1], &[2, 2], &[2, 4], &[0, 2]] {
            assert!(!are(numbers), "{numbers:?}");
        }
    }
}
