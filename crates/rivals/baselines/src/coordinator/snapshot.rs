//! Read-only transactions at a timestamp: each shard is asked once, and nothing is locked or validated.

use std::collections::BTreeMap;

use quorate_core::command::{Event, Failure, Freshness, Invalid, Routes};
use quorate_core::transaction::KeyVersion;
use quorate_core::{ClientId, ClockTime, Context, Key, ReplicaId, ShardId, Timestamp, TransactionId, Value};

use super::asking::{Asking, Question};
use super::{Coordinator, Out};
use crate::message::Wanted;

/// A read at a timestamp, and the values that were found so far.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) at: Timestamp,
    /// The keys or the range that each shard is asked for.
    wanted: BTreeMap<ShardId, Wanted>,
    /// How many entries of a range are wanted, if one is read.
    limit: Option<u32>,
    found: Vec<KeyVersion>,
    /// The first key of the range that not all shards have covered.
    next: Option<Key>,
    /// True if it is to be reported only when its timestamp has passed.
    waits: bool,
}

impl Snapshot {
    pub(super) fn wanted_of(&self, shard: ShardId) -> Option<Wanted> {
        self.wanted.get(&shard).cloned()
    }
}

/// No snapshot that may be stale lies further back: that is far enough for everything to have ended that is under way.
const STALE_MAX: std::time::Duration = std::time::Duration::from_secs(1);

impl Coordinator {
    /// The timestamp at which to read as fresh as this, and whether to wait until it has passed; none if no timestamp is fresh
    /// enough by itself.
    pub(super) fn snapshot_timestamp(
        &self,
        routes: &Routes,
        freshness: Freshness,
        clock: ClockTime,
    ) -> Result<Option<(Timestamp, bool)>, Failure> {
        let all_of = |micros: u64| Timestamp { micros, client: ClientId(u64::MAX) };
        match freshness {
            _ if !self.config.system.has_snapshots() => Ok(None),
            Freshness::Strict => Ok(None),
            Freshness::At(timestamp) => Ok(Some((timestamp, false))),
            Freshness::Stale(back) => {
                let back = back.min(STALE_MAX).as_micros() as u64;
                Ok(Some((all_of(clock.as_micros().saturating_sub(back)), false)))
            }
            // Every transaction that was reported has a timestamp that has passed on this clock as well.
            Freshness::ClockBound if routes.keyspace.clock_bound.is_some() => {
                Ok(Some((all_of(clock.as_micros()), true)))
            }
            Freshness::ClockBound => Err(Failure::Invalid(Invalid::NoClockBound(routes.keyspace.id))),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one command")]
    pub(super) fn read_at(
        &mut self,
        id: TransactionId,
        routes: &Routes,
        wanted: Wanted,
        at: Timestamp,
        waits: bool,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let keyspace = &routes.keyspace;
        let mut shards: BTreeMap<ShardId, Wanted> = BTreeMap::new();
        let mut limit = None;
        match wanted {
            Wanted::Keys(keys) => {
                for key in keys {
                    let shard = keyspace.shard_of(&key).id;
                    let wanted = shards.entry(shard).or_insert_with(|| Wanted::Keys(Vec::new()));
                    if let Wanted::Keys(keys) = wanted {
                        keys.push(key);
                    }
                }
            }
            Wanted::Range(range, most) => {
                limit = Some(most);
                for shard in keyspace.shards_of_range(&range) {
                    shards.insert(shard.id, Wanted::Range(range.clone(), most));
                }
            }
        }
        let missing: Vec<ShardId> = shards.keys().copied().collect();
        let snapshot = Snapshot { at, wanted: shards, limit, found: Vec::new(), next: None, waits };
        let asking = Asking::new(Question::ReadAt(Box::new(snapshot)), BTreeMap::new(), missing);
        self.ask(id, asking, context, outbox);
    }

    pub(super) fn on_read_at_reply(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        found: Vec<KeyVersion>,
        next: Option<Key>,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(asking) = self.asking(id) else { return };
        let Question::ReadAt(snapshot) = &mut asking.question else { return };
        if !asking.missing.contains(&from.shard) {
            return;
        }
        if let Some(Wanted::Keys(keys)) = snapshot.wanted.get(&from.shard)
            && !found.iter().map(|found| &found.key).eq(keys)
        {
            return;
        }
        asking.missing.remove(&from.shard);
        snapshot.found.extend(found);
        snapshot.next = [snapshot.next.take(), next].into_iter().flatten().min();
        if asking.missing.is_empty() {
            self.finish_snapshot(id, context, outbox);
        }
    }

    fn finish_snapshot(&mut self, id: TransactionId, context: &Context<'_>, outbox: &mut Out) {
        let Some(asking) = self.asking(id) else { return };
        let Question::ReadAt(snapshot) = &mut asking.question else { return };
        let (at, waits) = (snapshot.at, snapshot.waits);
        let (found, limit, next) =
            (std::mem::take(&mut snapshot.found), snapshot.limit, snapshot.next.take());
        let shard = snapshot.wanted.keys().next().copied().filter(|_| waits);
        match limit {
            None => {
                for KeyVersion { key, value, .. } in found {
                    outbox.emit(Event::Got { transaction: id, key, value });
                }
            }
            Some(limit) => {
                let is_covered = |key: &Key| next.as_ref().is_none_or(|next| key < next);
                let live = found.into_iter().filter(|found| is_covered(&found.key));
                let mut entries: Vec<(Key, Value)> =
                    live.filter_map(|found| Some((found.key, found.value?))).collect();
                entries.sort_unstable();
                let next = entries.get(limit as usize).map(|(key, _)| key.clone()).or(next);
                entries.truncate(limit as usize);
                outbox.emit(Event::Scanned { transaction: id, entries, next });
            }
        }
        self.report(id, at, at, shard, Vec::new(), context, outbox);
    }

    pub(super) fn on_snapshot_too_old(&mut self, id: TransactionId, oldest: Timestamp, outbox: &mut Out) {
        let Some(asking) = self.asking(id) else { return };
        if matches!(asking.question, Question::ReadAt(_)) {
            self.fail(id, Failure::TooOld { oldest }, outbox);
        }
    }
}
