//! Values that expire, outside open transactions: snapshots, and the tasks of a sweeper (ADR 0085).

use std::time::Duration;

use quorate_core::command::Freshness;
use quorate_core::expiry::{Envelope, Expiry, NoEnvelope};
use quorate_core::reserved::is_reserved;
use quorate_core::{Instant as MachineInstant, Key, Timestamp, Value};
use quorate_expiry::{Due, Ended, Sweeper, Task, at_timestamp};
use quorate_index::{Entry, EntryRange, IndexValue, entry_range};

use crate::error::{Error, Invalid, Result};
use crate::keyspace::{Keyspace, RangeSnapshot, Snapshot};
use crate::transaction::{Transaction, WithExpiry, clock_now, is_over_for_strict_readers, no_envelope};

/// A key and what it holds, if anything.
type Found = (Key, Option<Value>);

/// The same for a reader.
type Judged = (Key, Option<WithExpiry>);

impl Keyspace {
    /// Writes a key for a lifetime, in a transaction of its own; see [`Transaction::put_for`](crate::Transaction::put_for).
    ///
    /// # Errors
    /// As [`Transaction::put_for`](crate::Transaction::put_for) and [`Keyspace::transact`].
    pub async fn put_for(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        lifetime: Duration,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.transact(async |txn| txn.put_for(key, value, lifetime)).await
    }

    /// Reads a key and its expiry, in a transaction of its own.
    ///
    /// # Errors
    /// As [`Keyspace::transact`].
    pub async fn get_with_expiry(&self, key: impl AsRef<[u8]>) -> Result<Option<WithExpiry>> {
        let key = key.as_ref();
        self.transact(async |txn| txn.get_with_expiry(key).await).await
    }

    /// That its values have no lifetimes, and what would do.
    pub(crate) fn not_expiring(&self) -> Invalid {
        Invalid::NotExpiring { name: self.name().to_owned(), isolation: self.isolation() }
    }

    /// The values of a snapshot. None if it is to be strict and something in it is over: then its keys have to be deleted, in a transaction that reads and writes.
    pub(crate) fn judge_snapshot(
        &self,
        found: Vec<Found>,
        timestamp: Timestamp,
        freshness: Freshness,
    ) -> Result<Option<Vec<Judged>>> {
        let definition = self.definition();
        if freshness == Freshness::Strict && is_over_for_strict_readers(&definition, timestamp, &found)? {
            return Ok(None);
        }
        let judge = |(key, held): Found| {
            let Some(bytes) = held.as_ref().filter(|_| !is_reserved(&key)) else {
                return Ok((key, held.map(Envelope::lasting).map(WithExpiry::from)));
            };
            let read = match freshness {
                Freshness::Strict => Envelope::decode(bytes).map(Some),
                Freshness::At(_) | Freshness::Stale(_) | Freshness::ClockBound => {
                    at_timestamp(timestamp, bytes)
                }
            };
            let envelope = read.map_err(|NoEnvelope| no_envelope(&definition, &key))?;
            Ok((key, envelope.map(WithExpiry::from)))
        };
        found.into_iter().map(judge).collect::<Result<_>>().map(Some)
    }

    /// Reads keys in a transaction that deletes those whose values are over.
    pub(crate) async fn read_and_delete(&self, keys: &[Key]) -> Result<Snapshot> {
        let read = async |txn: Transaction| {
            let mut found = Vec::with_capacity(keys.len());
            // All of them are read at once.
            txn.get_many(keys).await?;
            for key in keys {
                found.push(txn.get_with_expiry(key).await?);
            }
            Ok(found)
        };
        let (found, receipt) = self.transact_with_receipt(read).await.map_err(not_unknown)?;
        Ok(Snapshot::of(found, receipt.timestamp, receipt.attempts))
    }

    /// The same of a range.
    pub(crate) async fn scan_and_delete(&self, from: &[u8], to: &[u8], limit: u32) -> Result<RangeSnapshot> {
        let read = self.transact_with_receipt(|txn| async move { txn.scan(from, to, limit).await }).await;
        let (page, receipt) = read.map_err(not_unknown)?;
        Ok(RangeSnapshot { page, timestamp: receipt.timestamp, attempts: receipt.attempts })
    }

    /// Does the next task of a sweeper, whose time is `now`. Gives until when there is nothing to do.
    ///
    /// A sweeper that is driven like this by any number of clients deletes each key once; see [`Sweeper`] for how they share the work.
    pub async fn sweep_step(&self, sweeper: &mut Sweeper, now: MachineInstant) -> Option<MachineInstant> {
        match sweeper.next(now, clock_now()) {
            Task::Wait { until } => return Some(until),
            Task::Look { until, limit } => match self.look_for_due(until, limit).await {
                Ok(found) => sweeper.on_found(found, clock_now()),
                Err(_) => sweeper.on_look_failed(),
            },
            Task::Sweep { keys } => {
                let ended = match self.sweep_due(&keys).await {
                    Ok(swept) => Ended::Swept(swept),
                    Err(Error::Conflict | Error::Unknown { .. }) => Ended::Conflict,
                    Err(_) => Ended::Failed,
                };
                sweeper.on_swept(ended);
            }
        }
        None
    }

    /// The entries of expiries at or below this one, the earliest first. A key may hold something else by then: the transaction that deletes it reads it.
    async fn look_for_due(&self, until: Expiry, limit: u32) -> Result<Vec<Due>> {
        let listed = self.known_indexes(tokio::time::Instant::now() + self.deadline()).await?;
        let Some(index) = listed.as_ref().and_then(|listed| listed.list.on_expiries()) else {
            return Ok(Vec::new());
        };
        let end = Expiry::from_micros(until.as_micros().saturating_add(1));
        let range = entry_range(index, Some(&EntryRange::Between(None, Some(IndexValue::from(end)))));
        let mut txn = self.beside_indexes().begin().await?;
        let page = txn.scan_reserved(range, limit).await;
        txn.abort().await?;
        let due = |(entry, held): &(Key, Value)| {
            let Entry { value, key } = Entry::read(index, entry, held)?;
            Some(Due { key, expiry: value.as_expiry()? })
        };
        Ok(page?.entries.iter().filter_map(due).collect())
    }

    /// Deletes those of these keys whose values are over, in one transaction that is not run again. Gives how many.
    async fn sweep_due(&self, due: &[Due]) -> Result<u64> {
        let mut txn = self.begin().await?;
        match txn.sweep(due).await {
            Ok(0) => txn.abort().await.map(|()| 0),
            Ok(swept) => txn.commit().await.map(|_| swept),
            Err(error) => {
                txn.abort().await?;
                Err(error)
            }
        }
    }

    /// The place of a node in the line of those that sweep the keyspace; none if it does not sweep it.
    pub fn sweeping_rank(&self, node: quorate_core::NodeId) -> Option<u32> {
        let definition = self.definition();
        let first = definition.shards.first().filter(|_| definition.expiring)?;
        let at = first.replicas.iter().position(|replica| *replica == node)?;
        u32::try_from(at).ok()
    }
}

impl Snapshot {
    pub(crate) fn of(found: Vec<Option<WithExpiry>>, timestamp: Timestamp, attempts: u32) -> Self {
        let expiry = |found: &Option<WithExpiry>| found.as_ref().and_then(|found| found.expires_at);
        let expiries = found.iter().map(expiry).collect();
        let values = found.into_iter().map(|found| found.map(|found| found.value)).collect();
        Snapshot { values, expiries, timestamp, attempts }
    }
}

/// A transaction that only reads, and deletes what is over, can be run again whatever has become of it.
fn not_unknown(error: Error) -> Error {
    match error {
        Error::Unknown { .. } => Error::Conflict,
        error => error,
    }
}
