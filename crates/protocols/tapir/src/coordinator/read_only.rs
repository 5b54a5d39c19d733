//! Read-only transactions over keys that are known beforehand: which way each goes (TAPIR paper, section 6.1).
//!
//! | wanted | where | way | round trips |
//! |---|---|---|---|
//! | strict | one shard | a quorum read that agrees, see `reading` | 1 |
//! | strict | several shards | a prepare that reads and holds, see `prepare` | 1 |
//! | at a timestamp | any | a quorum read | 1 |
//! | stale within a bound | any | what the nearest replicas have validated, else a quorum read | 1, or 2 |
//! | strict within a bound of clocks | any | a quorum read, reported after the bound | 1, or the bound |
//!
//! # Strict within a bound of clocks
//! Where the keyspace states a bound, everything is reported only once its timestamp has passed on all clocks, so that
//! timestamps follow real time (see `commit_wait`). *Whatever was reported before the read began lies below the clock of
//! that moment, which is where it reads, and whatever begins after the read was reported lies above.* Nothing is held, and
//! only writes that are under way at lower timestamps are waited for.
//!
//! A strict one that has met too many conflicts, or whose shard misses too many replicas for a quorum read, is run like
//! any other transaction: it reads at the nearest replicas and is validated by a prepare. So it makes the same progress as
//! those. The others have no such way: where replicas are known to be down they fail at once, and the client may want
//! something else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use quorate_core::transaction::{LimitExceeded, TRANSACTION_ENTRIES_MAX, readable, validate_key};
use quorate_core::{
    Context, Instant, Key, KeyspaceId, ReadVersion, ShardId, Timestamp, Transaction, TransactionId,
};

use super::reading::{Reading, Snapshot};
use super::{Coordinator, Execution, Open, Out, Phase, finish};
use crate::command::{Committed, Failure, Freshness, Invalid, Routes};
use crate::rules::Plant;

impl Coordinator {
    #[expect(clippy::too_many_arguments, reason = "the fields of one command")]
    pub(super) fn on_read_only(
        &mut self,
        id: TransactionId,
        keyspace: KeyspaceId,
        keys: Vec<Key>,
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
        let keys: BTreeSet<Key> = keys.into_iter().collect();
        if let Err(limit) = validate_keys(&keys) {
            return finish(outbox, id, Err(Failure::Invalid(Invalid::Limit(limit))));
        }
        if keys.is_empty() {
            let timestamp = self.next_timestamp(context.clock, Timestamp::ZERO);
            return finish(outbox, id, Ok(Committed { timestamp, fast: true, retries: 0 }));
        }
        let phase = Phase::Executing(Box::new(Execution::read_only(routes.clone(), id.attempt)));
        self.transactions
            .insert(id, Open { phase, deadline, answered: false, resolve_wanted: false, wake_at: None });
        self.wake_at(id, deadline);
        let shards = by_shard(&routes, &keys);
        match freshness {
            Freshness::Strict if self.config.rules.has(Plant::SnapshotTakenAsStrict) => {
                let timestamp = self.next_timestamp(context.clock, Timestamp::ZERO);
                self.start_reading(
                    id,
                    Reading::new(&routes, shards, Snapshot::At(timestamp)),
                    context,
                    outbox,
                );
            }
            Freshness::Strict if id.attempt >= self.config.read_only_attempts_max => {
                self.read_as_any_other(id, keys, context, outbox);
            }
            Freshness::Strict if shards.len() > 1 && !self.config.rules.has(Plant::ShardsReadApart) => {
                self.prepare_reads(id, shards, context, outbox);
            }
            Freshness::Strict => {
                let timestamp = self.next_timestamp(context.clock, Timestamp::ZERO);
                self.start_reading(
                    id,
                    Reading::new(&routes, shards, Snapshot::Newest(timestamp)),
                    context,
                    outbox,
                );
            }
            Freshness::At(timestamp) => {
                // What lies ahead of the clock is waited for: a promise must not drive writers into the future.
                let ahead = timestamp.micros.saturating_sub(context.clock.as_micros());
                let reading = Reading::new(&routes, shards, Snapshot::At(timestamp));
                self.start_reading(
                    id,
                    reading.after(Duration::from_micros(ahead), context.now),
                    context,
                    outbox,
                );
            }
            Freshness::Stale(bound) => {
                let micros = context.clock.as_micros().saturating_sub(bound.as_micros() as u64);
                let oldest = Timestamp { micros, ..Timestamp::ZERO };
                let snapshot = Snapshot::Validated { oldest };
                self.start_reading(id, Reading::new(&routes, shards, snapshot), context, outbox);
            }
            Freshness::ClockBound if routes.keyspace.clock_bound.is_none() => {
                self.fail(id, Failure::Invalid(Invalid::NoClockBound(keyspace)), outbox);
            }
            Freshness::ClockBound => {
                let timestamp = Timestamp::new(context.clock, self.config.client);
                let reading = Reading::new(&routes, shards, Snapshot::Now(timestamp));
                self.start_reading(id, reading, context, outbox);
            }
        }
    }

    /// Reads the keys at the nearest replicas; the last answer makes it commit.
    pub(super) fn read_as_any_other(
        &mut self,
        id: TransactionId,
        keys: BTreeSet<Key>,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        for key in keys {
            self.on_get(id, key, context, outbox);
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
        let timestamp = self.next_timestamp(context.clock, Timestamp::ZERO);
        let participants: Vec<ShardId> = shards.keys().copied().collect();
        let part = |(shard, keys): (ShardId, Vec<Key>)| {
            let blank = |key| ReadVersion { key, version: Timestamp::ZERO };
            let transaction = Transaction {
                reads: keys.into_iter().map(blank).collect(),
                participants: participants.clone(),
                reads_when_prepared: true,
                ..Transaction::default()
            };
            (shard, Arc::new(transaction))
        };
        let parts = shards.into_iter().map(part).collect();
        self.start_preparing(id, timestamp, parts, context, outbox);
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
