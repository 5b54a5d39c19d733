//! The identity of a machine and how long it waits.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::attic::Attic;
use quorate_core::changes::Retention;
use quorate_core::hosted::{Boot, Shards};
use quorate_core::verify::Pace;
use quorate_core::{ClientId, GroupSize, Groups, ReplicaId};

use crate::rules::Rules;

/// So far ahead replicas persist that they promise reads, so that few reads wait for the disk. After a restart, writes may
/// have to lie above it.
pub(crate) const READ_PROMISE_AHEAD: Duration = Duration::from_millis(50);

/// No retry is further ahead of what was asked for, however often it was told: replicas cast no vote on what is too far
/// ahead of their clocks.
pub(crate) const RETRY_AHEAD_MAX: Duration = Duration::from_secs(10);

/// The parts beside its records that a replica is built from.
#[derive(Clone, Debug)]
pub struct ReplicaConfig {
    /// Which replica this is.
    pub replica: ReplicaId,
    /// The shards of its keyspace: no transaction takes part in any other. None as long as they are not known.
    pub shards: Option<Shards>,
    /// The groups of the keyspace, as far as its host knows; the groups in its records count if those are later.
    /// The replica answers no message under another epoch. A host that brings a replica back without its records gives it the latest.
    pub groups: Groups,
    /// How to begin without records.
    pub boot: Boot,
    /// The rules of validation: [`Rules::EXCLUSIVE`] outside tests.
    pub rules: Rules,
    /// A timestamp further ahead of the local clock than this gets no vote.
    pub timestamp_ahead_max: Duration,
    /// A further prepare of a transaction gets no vote if its timestamp is further above its first than this. The same at
    /// every replica of a keyspace, for so long the outcomes of recoveries are kept (see `replica::promises`).
    pub retry_span: Duration,
    /// How old a prepared entry becomes before the replica has its transaction recovered. Never zero.
    pub recovery_timeout: Duration,
    /// How long a view change may take before the next view is tried.
    pub view_change_timeout: Duration,
    /// Roughly how many bytes of record go into one message of a view change.
    pub page_bytes_max: usize,
    /// The most keys, live or deleted, in one reply to a scan.
    pub scan_page_max: usize,
    /// How often a new floor is looked for, below which records and old versions are collected.
    pub checkpoint_interval: Duration,
    /// How far the floor stays behind the clock: for so long outcomes are known and the past can be read at least,
    pub checkpoint_lag: Duration,
    /// as long as what has ended meanwhile has no more bytes than this. More of it would take more memory, and make the log longer, than what is stored.
    pub checkpoint_bytes_max: usize,
    /// The floor stays so far behind the clock in any case: prepares that take longer to arrive are told to try again later.
    pub checkpoint_lag_min: Duration,
    /// How far the floor stays behind the clock while a consumer of changes is there, if that is nearer: what has committed is told so much later.
    pub checkpoint_lag_followed: Duration,
    /// The most transactions in one page of what replicas compare when they look for a floor, and the most that one
    /// round of collection looks at.
    pub checkpoint_page_max: usize,
    /// A prepare whose timestamp is at most so far ahead of the local clock waits for its time before it is voted on.
    /// Zero: none waits. Half a recovery time-out at most counts: what waits for longer would be aborted meanwhile.
    pub deadline_ahead_max: Duration,
    /// How long a prepare whose time has come waits for the outcome of conflicting ones with lower timestamps before it
    /// is voted on. Zero: it does not wait.
    pub prepare_wait_max: Duration,
    /// The log is shortened after so many records at the earliest.
    pub snapshot_records_min: u64,
    /// How much of what has committed is retained for consumers of changes.
    pub retention: Retention,
    /// How much is looked at and told at a time when replicas are compared, or read for a backup.
    pub pace: Pace,
    /// Where it keeps values that do not fit into memory; none if everything stays in memory.
    pub attic: Option<Arc<dyn Attic>>,
}

impl ReplicaConfig {
    /// The configuration of `replica` in groups of one size, with the defaults that servers use.
    pub fn new(replica: ReplicaId, group: GroupSize, boot: Boot) -> Self {
        ReplicaConfig {
            replica,
            shards: None,
            groups: Groups::new(group),
            boot,
            rules: Rules::EXCLUSIVE,
            timestamp_ahead_max: Duration::from_secs(60),
            retry_span: RETRY_SPAN,
            recovery_timeout: Duration::from_secs(2),
            view_change_timeout: Duration::from_millis(1_000),
            page_bytes_max: 4 * 1024 * 1024,
            scan_page_max: 1_000,
            checkpoint_interval: Duration::from_secs(5),
            checkpoint_lag: Duration::from_secs(10),
            checkpoint_bytes_max: 32 * 1024 * 1024,
            checkpoint_lag_min: Duration::from_secs(1),
            checkpoint_lag_followed: Duration::from_secs(3),
            checkpoint_page_max: 4_096,
            deadline_ahead_max: Duration::from_millis(500),
            prepare_wait_max: Duration::from_millis(1_000),
            snapshot_records_min: 100_000,
            retention: Retention::default(),
            pace: Pace::DEFAULT,
            attic: None,
        }
    }
}

/// The parts that a coordinator is built from.
#[derive(Clone, Debug)]
pub struct CoordinatorConfig {
    /// The client incarnation: random, never used before.
    pub client: ClientId,
    /// The rules; only the simulator ever plants a bug here.
    pub rules: Rules,
    /// How far above what is asked for a transaction is prepared the first time that it is told RETRY, and then twice as far
    /// each time (the paper's retry-timestamp selection, section 6.5). Zero: just above. A timestamp further ahead has
    /// better chances and makes others retry; where clocks are bounded, the commit is reported when it has passed.
    pub retry_ahead: Duration,
    /// How long to wait for a reply to a read before another replica is asked.
    pub read_timeout: Duration,
    /// How long after the replies of a majority to wait for a fast quorum at most, before the slow path is taken. Where the
    /// majority took little time, less. Does not apply to replicas that are known to be unreachable or were silent the
    /// last time.
    pub fast_path_timeout: Duration,
    /// How long to wait before a proposal, a FINALIZE or a decision is sent again; doubles with each repetition.
    pub resend_timeout: Duration,
    /// How often a decision is repeated to a replica that does not confirm it, once a majority has.
    pub decision_resends_max: u32,
    /// True if replicas may acknowledge decisions of many transactions at once, a moment later. Clients of earlier versions do not know how to take that.
    pub acknowledged_together: bool,
    /// After the client has been told "unknown", how long the coordinator goes on trying by itself.
    pub abandon_after: Duration,
    /// How often a transaction is prepared again at a higher timestamp within one attempt; at least once.
    pub retries_max: u32,
    /// How far above its first timestamp: replicas give no vote beyond theirs.
    pub retry_span: Duration,
    /// The most keys in one page of a scan.
    pub scan_page_max: u32,
    /// After so many attempts, a strict read-only transaction is run as any other: reads first, then a prepare.
    pub read_only_attempts_max: u32,
    /// True if timestamps are deadlines: far enough ahead for a prepare to reach a fast quorum of every shard before its
    /// time, by measured delays. Only shards that are far away get them.
    pub deadlines: bool,
    /// True if reads of keys that others are about to write wait for their turn, in shards that are far away; and so do
    /// strict read-only transactions.
    pub reads_in_turn: bool,
    /// A shard is far away if the round trip to its fast quorum takes so long. Nearer by, conflicts are so short that it
    /// is not worth while to wait.
    pub far_round_trip: Duration,
}

impl CoordinatorConfig {
    /// The configuration of `client` with the defaults that the client library uses.
    pub fn new(client: ClientId) -> Self {
        CoordinatorConfig {
            client,
            rules: Rules::EXCLUSIVE,
            retry_ahead: Duration::ZERO,
            read_timeout: Duration::from_millis(500),
            fast_path_timeout: Duration::from_millis(500),
            resend_timeout: Duration::from_millis(1_000),
            decision_resends_max: 4,
            acknowledged_together: true,
            abandon_after: Duration::from_secs(10),
            retries_max: 10,
            retry_span: RETRY_SPAN,
            scan_page_max: 1_000,
            read_only_attempts_max: 3,
            deadlines: true,
            reads_in_turn: true,
            far_round_trip: Duration::from_millis(5),
        }
    }
}

/// By default the same at replicas and clients: far more than clocks differ, so that it is not met, and short enough for
/// outcomes to be kept for as long.
const RETRY_SPAN: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use quorate_core::{ReplicaIndex, ShardId};

    use super::*;

    /// Operators plan by them, and the two sides go by some of them together.
    #[test]
    fn defaults_change_knowingly() {
        let replica = ReplicaId { shard: ShardId(1), index: ReplicaIndex(0) };
        let config = ReplicaConfig::new(replica, GroupSize::new(3).unwrap(), Boot::Initialise);
        let millis = [
            (config.timestamp_ahead_max, 60_000),
            (config.retry_span, 120_000),
            (config.recovery_timeout, 2_000),
            (config.view_change_timeout, 1_000),
            (config.checkpoint_interval, 5_000),
            (config.checkpoint_lag, 10_000),
            (config.checkpoint_lag_min, 1_000),
            (config.checkpoint_lag_followed, 3_000),
            (config.deadline_ahead_max, 500),
            (config.prepare_wait_max, 1_000),
        ];
        assert_eq!(millis.map(|(time, _)| time.as_millis()), millis.map(|(_, millis)| millis));
        assert_eq!((config.page_bytes_max, config.checkpoint_bytes_max), (4 << 20, 32 << 20));
        assert_eq!((config.scan_page_max, config.checkpoint_page_max), (1_000, 4_096));
        assert_eq!(config.snapshot_records_min, 100_000);
        assert_eq!((config.retention.time.as_secs(), config.retention.bytes), (300, 64 << 20));
        let config = CoordinatorConfig::new(ClientId(1));
        let millis = [
            (config.retry_ahead, 0),
            (config.read_timeout, 500),
            (config.fast_path_timeout, 500),
            (config.resend_timeout, 1_000),
            (config.abandon_after, 10_000),
            (config.retry_span, 120_000),
            (config.far_round_trip, 5),
        ];
        assert_eq!(millis.map(|(time, _)| time.as_millis()), millis.map(|(_, millis)| millis));
        assert_eq!((config.decision_resends_max, config.retries_max, config.scan_page_max), (4, 10, 1_000));
        assert_eq!((config.read_only_attempts_max, config.deadlines, config.reads_in_turn), (3, true, true));
        assert_eq!((READ_PROMISE_AHEAD.as_millis(), RETRY_AHEAD_MAX.as_millis()), (50, 10_000));
    }
}
