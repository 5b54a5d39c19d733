//! Read-only transactions whose keys are known beforehand.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_core::command::{Event, Failure, Freshness, Invalid, Routes};
use quorate_core::transaction::KeyVersion;
use quorate_core::{
    Context, Instant, Key, KeyRange, KeyspaceId, ReplicaId, ShardId, Timestamp, TransactionId,
};

use super::asking::{Asking, Question};
use super::{Coordinator, Out};
use crate::message::Wanted;

impl Coordinator {
    /// Keys of one shard are read at its leader at once. Everything else is read as by any transaction, and validated.
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
        let Some(routes) = self.open(id, keyspace, deadline, context, outbox) else { return };
        let snapshot = match self.snapshot_timestamp(&routes, freshness, context.clock) {
            Ok(snapshot) => snapshot,
            Err(failure) => return self.fail(id, failure, outbox),
        };
        if snapshot.is_none()
            && let Err(failure) = serves(&routes, freshness, context)
        {
            return self.fail(id, failure, outbox);
        }
        let keys = match wanted {
            Wanted::Range(range, limit) if let Some((at, waits)) = snapshot => {
                let wanted = Wanted::Range(range, limit.min(self.config.scan_page_max));
                return self.read_at(id, &routes, wanted, at, waits, context, outbox);
            }
            Wanted::Keys(mut keys) => {
                keys.sort_unstable();
                keys.dedup();
                keys
            }
            Wanted::Range(range, limit) => {
                self.commits_when_read(id);
                return self.on_scan_read_only(id, range, limit, context, outbox);
            }
        };
        for key in &keys {
            if let Err(limit) = quorate_core::transaction::validate_key(key) {
                return self.fail(id, Failure::Invalid(Invalid::Limit(limit)), outbox);
            }
        }
        if let (Some((at, waits)), false) = (snapshot, keys.is_empty()) {
            return self.read_at(id, &routes, Wanted::Keys(keys), at, waits, context, outbox);
        }
        match shard_of_all(&routes, &keys) {
            Some(shard) => {
                let asking = Asking::new(Question::ReadCurrent { keys }, BTreeMap::new(), [shard]);
                self.ask(id, asking, context, outbox);
            }
            None if keys.is_empty() => self.on_commit(id, context, outbox),
            None => {
                self.commits_when_read(id);
                for key in keys {
                    self.on_get(id, key, context, outbox);
                }
            }
        }
    }

    fn commits_when_read(&mut self, id: TransactionId) {
        if let Some(execution) = self.execution(id) {
            execution.commits_when_read = true;
        }
    }

    fn on_scan_read_only(
        &mut self,
        id: TransactionId,
        range: KeyRange,
        limit: u32,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        self.on_scan(id, range, limit, context, outbox);
        // An empty range is answered without asking anybody.
        if self.execution(id).is_some_and(|execution| execution.has_read_all()) {
            self.on_commit(id, context, outbox);
        }
    }

    pub(super) fn on_read_current_reply(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        found: Vec<KeyVersion>,
        timestamp: Timestamp,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(asking) = self.asking(id) else { return };
        let Question::ReadCurrent { keys } = &asking.question else { return };
        if !asking.missing.contains(&from.shard) {
            return;
        }
        if !found.iter().map(|found| &found.key).eq(keys) {
            return;
        }
        let greatest = found.iter().map(|found| found.version).max().unwrap_or(Timestamp::ZERO);
        for KeyVersion { key, value, .. } in found {
            outbox.emit(Event::Got { transaction: id, key, value });
        }
        // A version that it has read may not have been reported yet.
        self.report(id, timestamp, greatest, Some(from.shard), Vec::new(), context, outbox);
    }
}

/// Whether a system without snapshots can read as fresh as this. The current values are fresh enough for all but the past.
fn serves(routes: &Arc<Routes>, freshness: Freshness, context: &Context<'_>) -> Result<(), Failure> {
    match freshness {
        Freshness::Strict | Freshness::Stale(_) => Ok(()),
        Freshness::ClockBound if routes.keyspace.clock_bound.is_some() => Ok(()),
        Freshness::ClockBound => Err(Failure::Invalid(Invalid::NoClockBound(routes.keyspace.id))),
        Freshness::At(timestamp) => {
            Err(Failure::TooOld { oldest: timestamp.successor(context.clock, timestamp.client) })
        }
    }
}

/// The shard that holds all of these keys, if one does.
fn shard_of_all(routes: &Routes, keys: &[Key]) -> Option<ShardId> {
    let mut shards = keys.iter().map(|key| routes.keyspace.shard_of(key).id);
    let first = shards.next()?;
    shards.all(|shard| shard == first).then_some(first)
}
