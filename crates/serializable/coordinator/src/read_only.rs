//! Transactions that read everything at once: a snapshot of all shards that they read at, in one round.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quorate_coordinator::{Buffer, Scan};
use quorate_core::command::{Event, Failure, Freshness, Invalid, Routes};
use quorate_core::transaction::validate_key;
use quorate_core::{Context, Key, KeyRange, KeyspaceId, ShardId, Timestamp, TransactionId, Value};
use quorate_granola::{Answer, Class, Executed};
use quorate_serializable_shard::answer::Found;

use crate::coordinator::{Asked, Interactive, OneRound, OneRoundResult, Out, committed, finish};
use crate::language;

/// The keys that a client wants to read at once.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// Keys.
    Keys(Vec<Key>),
    /// A range, and how many keys of it at most.
    Range(KeyRange, u32),
}

/// The reads of a transaction that reads at once.
#[derive(Debug)]
pub(crate) enum Reading {
    /// Keys, by shard.
    Keys(BTreeMap<ShardId, Vec<Key>>),
    /// A range of a keyspace.
    Range(Scan, Arc<Routes>),
}

impl Reading {
    /// How a client's wish is read.
    fn of(wanted: Wanted, routes: &Arc<Routes>) -> Result<Self, Failure> {
        let keys = match wanted {
            Wanted::Range(range, limit) => {
                let scan = Scan::new(&routes.keyspace, range, limit);
                return Ok(Reading::Range(scan, Arc::clone(routes)));
            }
            Wanted::Keys(keys) => keys,
        };
        let mut parts: BTreeMap<ShardId, Vec<Key>> = BTreeMap::new();
        for key in keys {
            validate_key(&key).map_err(|limit| Failure::Invalid(Invalid::Limit(limit)))?;
            let part = parts.entry(routes.keyspace.shard_of(&key).id).or_default();
            if !part.contains(&key) {
                part.push(key);
            }
        }
        Ok(Reading::Keys(parts))
    }

    /// The part of each shard.
    fn parts(&self) -> BTreeMap<ShardId, Value> {
        match self {
            Reading::Keys(parts) => {
                parts.iter().map(|(shard, keys)| (*shard, language::gets(keys))).collect()
            }
            Reading::Range(scan, routes) => {
                let operation = language::scan(&scan.range, scan.limit);
                let shards = scan.missing().map(|shard| routes.keyspace.shards[shard].id);
                shards.map(|shard| (shard, operation.clone())).collect()
            }
        }
    }

    /// The answers of the shards, as clients are told.
    fn read(self, id: TransactionId, executed: &Executed) -> Result<Vec<Event>, Failure> {
        let answer = |shard: &ShardId| executed.answers.get(shard).ok_or(Failure::Conflict);
        match self {
            Reading::Keys(parts) => {
                let mut got = Vec::new();
                for (shard, keys) in parts {
                    got.extend(got_keys(id, keys, answer(&shard)?)?);
                }
                Ok(got)
            }
            Reading::Range(mut scan, routes) => {
                for position in scan.missing().collect::<Vec<_>>() {
                    let found = language::found(answer(&routes.keyspace.shards[position].id)?, 1)?;
                    let (page, _) = found.into_iter().next().map(language::page_of).unwrap_or_default();
                    scan.take(position, page);
                }
                let merged = Buffer::default().scan(&routes.keyspace, scan);
                let (entries, next) = merged.map_err(|limit| Failure::Invalid(Invalid::Limit(limit)))?;
                Ok(vec![Event::Scanned { transaction: id, entries, next }])
            }
        }
    }
}

/// The values that a shard holds of some keys.
fn got_keys(id: TransactionId, keys: Vec<Key>, answer: &Answer) -> Result<Vec<Event>, Failure> {
    let found = language::found(answer, keys.len())?;
    let got = |(key, found): (Key, Found)| {
        let value = language::held(found).map(|held| held.value);
        Event::Got { transaction: id, key, value }
    };
    Ok(keys.into_iter().zip(found).map(got).collect())
}

impl Interactive {
    pub(crate) fn on_read_only(
        &mut self,
        id: TransactionId,
        keyspace: KeyspaceId,
        wanted: Wanted,
        (freshness, patience): (Freshness, Duration),
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let reading = match self.prepare_reading(id, keyspace, wanted, freshness, context) {
            Ok(reading) => reading,
            Err(failure) => return finish(outbox, id, Err(failure)),
        };
        let parts = reading.parts();
        if parts.is_empty() {
            return finish(outbox, id, Ok(committed(id, context.clock)));
        }
        let shards = parts.keys().copied().collect();
        let order = OneRound { parts, class: Class::ReadOnly, patience };
        self.execute(id, Asked::ReadOnly(Box::new(reading), shards), order, context, outbox);
    }

    fn prepare_reading(
        &self,
        id: TransactionId,
        keyspace: KeyspaceId,
        wanted: Wanted,
        freshness: Freshness,
        context: &Context<'_>,
    ) -> Result<Reading, Failure> {
        let unknown = Failure::Invalid(Invalid::UnknownKeyspace(keyspace));
        let routes = self.keyspaces.get(&keyspace).ok_or(unknown)?;
        if self.is_open(id) {
            return Err(Failure::Invalid(Invalid::NotOpen(id)));
        }
        match freshness {
            // It reads what there is now, which is fresh enough for everybody.
            Freshness::Strict | Freshness::Stale(_) => Reading::of(wanted, routes),
            // Nothing of the past is kept.
            Freshness::At(_) => {
                let oldest = Timestamp { micros: context.clock.as_micros(), client: id.client };
                Err(Failure::TooOld { oldest })
            }
            Freshness::ClockBound => Err(Failure::Invalid(Invalid::NoClockBound(keyspace))),
        }
    }

    pub(crate) fn on_read_at_once(
        &mut self,
        id: TransactionId,
        reading: Reading,
        shards: &[ShardId],
        result: OneRoundResult,
        outbox: &mut Out,
    ) {
        let executed = match result {
            Ok(executed) => executed,
            Err(refused) => {
                let failure = self.failure_of_read(refused, shards);
                return finish(outbox, id, Err(failure));
            }
        };
        let result = reading.read(id, &executed).map(|events| {
            events.into_iter().for_each(|event| outbox.emit(event));
            committed(id, executed.timestamp)
        });
        finish(outbox, id, result);
    }
}
