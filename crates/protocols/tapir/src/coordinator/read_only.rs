//! Read-only transactions over keys that are known beforehand, or over a range: which way each goes (TAPIR paper, section
//! 6.1).
//!
//! | wanted | where | way | round trips |
//! |---|---|---|---|
//! | strict | one shard | a quorum read that agrees, see `reading` | 1 |
//! | strict | several shards | a prepare that reads and holds, see `prepare` | 1 |
//! | at a timestamp | any | a quorum read | 1 |
//! | stale within a bound | any | what the nearest replicas have validated, else a quorum read that begins there | 1, or 2 |
//! | strict within a bound of clocks | any | a quorum read, reported after the bound | 1, or the bound |
//!
//! Ranges go the same ways, but for two. Over several shards a strict scan is run like any other transaction: holds would
//! have to name the range before anybody knows where the page ends, and keep writers off all of it. And no replica knows
//! for how long nothing has appeared in a range, so a stale one is a quorum read so long ago.
//!
//! # Strict within a bound of clocks
//! Where the keyspace states a bound, everything is reported only once its timestamp has passed on all clocks, so that
//! timestamps follow real time (see `commit_wait`). *A transaction reported before the read began lies below the clock of
//! that moment, which is where it reads, and one that begins after the read was reported lies above.* Nothing is held, and
//! only writes that are under way at lower timestamps are waited for.
//!
//! In shards that are far away, a strict one of keys waits for its turn among the prepares instead of meeting a conflict.
//!
//! A strict one that has met too many conflicts, or whose shard misses too many replicas for a quorum read, is run like any
//! other transaction: it reads at the nearest replicas and is validated by a prepare. So it makes the same progress as
//! those. The others have no such way: where replicas are known to be down they fail at once, and the client may want
//! something else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use quorate_coordinator::scan;
use quorate_core::command::{Committed, Failure, Freshness, Invalid, Routes};
use quorate_core::transaction::{LimitExceeded, TRANSACTION_ENTRIES_MAX, readable, validate_key};
use quorate_core::{
    ClockTime, Context, GroupSize, Instant, Key, KeyspaceId, ReadVersion, ShardId, Timestamp, Transaction,
    TransactionId,
};

use super::reading::{Reading, Scan, Snapshot};
use super::{Coordinator, Execution, Open, Out, Phase, finish};
use crate::rules::Plant;

/// The keys that a read-only transaction reads.
#[derive(Debug)]
pub(super) enum Wanted {
    /// These keys.
    Keys(BTreeSet<Key>),
    /// The keys of a range.
    Range(Scan),
}

impl Wanted {
    fn validate(&self) -> Result<(), LimitExceeded> {
        match self {
            Wanted::Keys(keys) => validate_keys(keys),
            Wanted::Range(_) => Ok(()),
        }
    }

    /// Says what there is if nothing need be asked for that.
    fn answer_at_once(&self, id: TransactionId, outbox: &mut Out) -> bool {
        match self {
            Wanted::Keys(keys) => keys.is_empty(),
            Wanted::Range(Scan { range, limit }) => scan::answer_empty(outbox, id, range, *limit),
        }
    }

    /// The shards that are asked, with the keys of each that are known.
    fn by_shard(&self, routes: &Routes) -> BTreeMap<ShardId, Vec<Key>> {
        match self {
            Wanted::Keys(keys) => by_shard(routes, keys),
            Wanted::Range(scan) => {
                let shards = routes.keyspace.shards_of_range(&scan.range);
                shards.iter().map(|shard| (shard.id, Vec::new())).collect()
            }
        }
    }

    /// Begins to read it in these shards, at a snapshot.
    fn reading(
        self,
        routes: &Arc<Routes>,
        shards: BTreeMap<ShardId, Vec<Key>>,
        snapshot: Snapshot,
    ) -> Reading {
        let scan = match self {
            Wanted::Keys(_) => None,
            Wanted::Range(scan) => Some(scan),
        };
        Reading::new(routes, shards, scan, snapshot)
    }
}

impl Coordinator {
    #[expect(clippy::too_many_arguments, reason = "the fields of one command")]
    pub(super) fn on_read_only(
        &mut self,
        id: TransactionId,
        keyspace: KeyspaceId,
        wanted: Wanted,
        freshness: Freshness,
        deadline: Instant,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(routes) = self.keyspaces.get(&keyspace).cloned() else {
            return finish(outbox, id, Err(Failure::Invalid(Invalid::UnknownKeyspace(keyspace))));
        };
        if self.is_in_use(id) {
            return finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id))));
        }
        if let Err(limit) = wanted.validate() {
            return finish(outbox, id, Err(Failure::Invalid(Invalid::Limit(limit))));
        }
        if wanted.answer_at_once(id, outbox) {
            let timestamp = self.next_timestamp(context.clock, Timestamp::ZERO);
            return finish(outbox, id, Ok(Committed::at(timestamp)));
        }
        let phase = Phase::Executing(Box::new(Execution::read_only(routes.clone(), id.attempt)));
        self.transactions.insert(id, Open::new(phase, deadline, context.clock));
        self.transactions.wake_at(id, deadline);
        let rules = self.config.rules;
        let shards = wanted.by_shard(&routes);
        let reading = match freshness {
            Freshness::Strict if rules.has(Plant::SnapshotTakenAsStrict) => {
                let timestamp = self.next_timestamp(context.clock, Timestamp::ZERO);
                wanted.reading(&routes, shards, Snapshot::At(timestamp))
            }
            Freshness::Strict if id.attempt >= self.config.read_only_attempts_max => {
                return self.read_as_any_other(id, wanted, context, outbox);
            }
            Freshness::Strict => {
                let is_apart = shards.len() > 1 && !rules.has(Plant::ShardsReadApart);
                match wanted {
                    Wanted::Keys(_) if is_apart => return self.prepare_reads(id, shards, context, outbox),
                    Wanted::Range(_) if is_apart => {
                        return self.read_as_any_other(id, wanted, context, outbox);
                    }
                    Wanted::Keys(_) | Wanted::Range(_) => {}
                }
                let is_of_keys = matches!(wanted, Wanted::Keys(_));
                let in_turn = is_of_keys && shards.keys().all(|shard| self.reads_in_turn(*shard));
                let asked = shards.keys().copied();
                let timestamp = self.next_read_timestamp(in_turn, asked, Timestamp::ZERO, context.clock);
                wanted.reading(&routes, shards, Snapshot::Newest(timestamp)).in_turn(in_turn)
            }
            Freshness::At(timestamp) => {
                // A timestamp ahead of the clock is waited for: a promise must not drive writers into the future.
                let ahead = timestamp.micros.saturating_sub(context.clock.as_micros());
                let reading = wanted.reading(&routes, shards, Snapshot::At(timestamp));
                reading.after(Duration::from_micros(ahead), context.now)
            }
            Freshness::Stale(bound) => {
                let micros = context.clock.as_micros().saturating_sub(bound.as_micros() as u64);
                let oldest = Timestamp { micros, ..Timestamp::ZERO };
                let snapshot = match wanted {
                    Wanted::Keys(_) => {
                        let otherwise = self.next_timestamp(context.clock, Timestamp::ZERO);
                        Snapshot::Validated { oldest, otherwise }
                    }
                    // No replica knows for how long nothing has appeared in a range.
                    Wanted::Range(_) => Snapshot::At(oldest),
                };
                wanted.reading(&routes, shards, snapshot)
            }
            Freshness::ClockBound if routes.keyspace.clock_bound.is_none() => {
                return self.fail(id, Failure::Invalid(Invalid::NoClockBound(keyspace)), outbox);
            }
            Freshness::ClockBound => {
                let timestamp = Timestamp::new(context.clock, self.config.client);
                wanted.reading(&routes, shards, Snapshot::Now(timestamp))
            }
        };
        self.start_reading(id, reading, context, outbox);
    }

    /// Reads at the nearest replicas; the last answer makes it commit.
    pub(super) fn read_as_any_other(
        &mut self,
        id: TransactionId,
        wanted: Wanted,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        match wanted {
            Wanted::Keys(keys) => self.on_get(id, keys.into_iter().collect(), context, outbox),
            Wanted::Range(Scan { range, limit }) => self.on_scan(id, range, limit, context, outbox),
        }
    }

    /// Where to read the newest versions at first. A reader that waits for a turn knows by a deadline when it is; an answer at
    /// once would promise what lies ahead.
    pub(super) fn next_read_timestamp(
        &mut self,
        in_turn: bool,
        shards: impl Iterator<Item = ShardId>,
        above: Timestamp,
        clock: ClockTime,
    ) -> Timestamp {
        if in_turn {
            self.next_deadline(clock, above, shards, GroupSize::snapshot_quorum)
        } else {
            self.next_timestamp(clock, above)
        }
    }

    /// Reads and holds in one message to every replica of every shard.
    fn prepare_reads(
        &mut self,
        id: TransactionId,
        shards: BTreeMap<ShardId, Vec<Key>>,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let participants: Vec<ShardId> = shards.keys().copied().collect();
        let asked = participants.iter().copied();
        let proposal = self.next_proposal(context.clock, Timestamp::ZERO, asked);
        let part = |(shard, keys): (ShardId, Vec<Key>)| {
            let blank = |key| ReadVersion { key, version: Timestamp::ZERO, deleted: false };
            let transaction = Transaction {
                reads: keys.into_iter().map(blank).collect(),
                participants: participants.clone(),
                reads_when_prepared: true,
                ..Transaction::default()
            };
            (shard, Arc::new(transaction))
        };
        let parts = shards.into_iter().map(part).collect();
        self.start_preparing(id, proposal, parts, context, outbox);
    }
}

fn validate_keys(keys: &BTreeSet<Key>) -> Result<(), LimitExceeded> {
    for (at, key) in keys.iter().enumerate() {
        validate_key(key)?;
        if at >= TRANSACTION_ENTRIES_MAX {
            return Err(LimitExceeded::Entries { key: readable(key), entries: keys.len() });
        }
    }
    Ok(())
}

/// Divides keys by shard; ascending, as they came.
fn by_shard(routes: &Routes, keys: &BTreeSet<Key>) -> BTreeMap<ShardId, Vec<Key>> {
    let mut shards: BTreeMap<ShardId, Vec<Key>> = BTreeMap::new();
    for key in keys {
        shards.entry(routes.keyspace.shard_of(key).id).or_default().push(key.clone());
    }
    shards
}
