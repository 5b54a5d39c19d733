//! Interactive transactions, from one-round ones: each read is a transaction that only reads and tells
//! versions; the last one compares them all, and writes.
//!
//! What has changed in between fails a condition, and the transaction is run again. So it is as if everything
//! had been read where the last one stands.

use std::collections::BTreeMap;

use quorate_core::{ClockTime, Key, KeyRange, Value};
use quorate_granola::Place;

use crate::answer::{FoundKey, Held};
use crate::divide::{Division, Placement};
use crate::operation::{Condition, Malformed, Step};

/// What an interactive transaction has read and wants to write.
#[derive(Clone, Debug, Default)]
pub struct Interactive {
    /// Where what it has read was written; none if the key was absent.
    reads: BTreeMap<Key, Option<Place>>,
    scans: Vec<Scanned>,
    writes: BTreeMap<Key, Option<Value>>,
    /// The timestamps of its reads.
    first: Option<ClockTime>,
    last: Option<ClockTime>,
}

/// A range that was read.
#[derive(Clone, Debug)]
struct Scanned {
    range: KeyRange,
    at: ClockTime,
    keys: Vec<Key>,
}

/// A key was read twice, and was written in between: what was read first holds no longer, and the transaction
/// cannot be committed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key:?} was written after it was read: run the transaction again")]
pub struct Changed {
    /// The key.
    pub key: Key,
}

impl Interactive {
    /// A transaction that has read and written nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes what a key held at the timestamp of a transaction that only reads.
    ///
    /// # Errors
    /// The key was read before, and held something else.
    pub fn note_read(&mut self, key: Key, found: Option<&Held>, at: ClockTime) -> Result<(), Changed> {
        let place = found.and_then(|held| held.place);
        if self.reads.get(&key).is_some_and(|before| *before != place) {
            return Err(Changed { key });
        }
        self.reads.insert(key, place);
        self.note_timestamp(at);
        Ok(())
    }

    /// Notes what a part of a range held at the timestamp of a transaction that only reads: [`covered`] says
    /// which part.
    pub fn note_scan<'a>(
        &mut self,
        range: KeyRange,
        keys: impl IntoIterator<Item = &'a FoundKey>,
        at: ClockTime,
    ) {
        let keys = keys.into_iter().map(|found| found.key.clone()).collect();
        self.scans.push(Scanned { range, at, keys });
        self.note_timestamp(at);
    }

    fn note_timestamp(&mut self, at: ClockTime) {
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
        self.last = Some(self.last.map_or(at, |last| last.max(at)));
    }

    /// Sets a key when the transaction is committed; none removes it.
    pub fn write(&mut self, key: Key, value: Option<Value>) {
        self.writes.insert(key, value);
    }

    /// What it wants to write to a key, if it does: it sees that instead of what the shard holds.
    pub fn written(&self, key: &[u8]) -> Option<&Option<Value>> {
        self.writes.get(key)
    }

    /// What it wants to write to the keys of a range, in their order.
    pub fn written_in<'a>(
        &'a self,
        range: &'a KeyRange,
    ) -> impl DoubleEndedIterator<Item = (&'a Key, &'a Option<Value>)> {
        self.writes.iter().filter(|(key, _)| range.contains(key))
    }

    /// True if it need not be compared with anything: it writes nothing, and has read everything at one
    /// timestamp.
    pub fn is_snapshot(&self) -> bool {
        self.writes.is_empty() && self.first == self.last
    }

    /// The one-round transaction that commits it: it compares what was read, and writes. Of class
    /// [`ReadOnly`](quorate_granola::Class::ReadOnly) if it writes nothing.
    ///
    /// # Errors
    /// It has read and written nothing, or goes beyond a limit.
    pub fn commit(&self, placement: &impl Placement) -> Result<Division, Malformed> {
        let mut division = Division::empty();
        let mut next = 0..;
        let mut number = || next.next().unwrap_or(u32::MAX);
        for (key, place) in &self.reads {
            let key = key.clone();
            let (shard, which) = (placement.shard(&key), number());
            let condition = match place {
                Some(version) => Condition::Version { key, version: *version },
                None => Condition::Absent { key },
            };
            division.require(shard, which, condition);
        }
        for Scanned { range, at, keys } in &self.scans {
            let which = number();
            for shard in placement.shards(range) {
                let keys = keys.iter().filter(|key| placement.shard(key) == shard).count() as u64;
                let (range, before) = (range.clone(), Place::after(*at));
                division.require(shard, which, Condition::Unchanged { range, before, keys });
            }
        }
        for (which, (key, value)) in (0..).zip(&self.writes) {
            let key = key.clone();
            let step = match value.clone() {
                Some(value) => Step::Put { key, value },
                None => Step::Delete { key },
            };
            division.add(which, step, placement);
        }
        division.finish()
    }

    /// The keys and ranges that were read, in the order of the conditions of [`Interactive::commit`]: whoever
    /// is told that one does not hold finds it here.
    pub fn compared(&self) -> Vec<KeyRange> {
        let key = |key: &Key| {
            let after = Key::from([key.as_slice(), b"\0"].concat());
            KeyRange { from: key.clone(), to: Some(after) }
        };
        let scans = self.scans.iter().map(|scanned| scanned.range.clone());
        self.reads.keys().map(key).chain(scans).collect()
    }
}

/// The part of a range that the answer to a scan covers: all of it, unless there is more.
pub fn covered(range: &KeyRange, keys: &[FoundKey], more: bool, descending: bool) -> KeyRange {
    let last = keys.last().filter(|_| more);
    match last {
        None => range.clone(),
        Some(last) if descending => KeyRange { from: last.key.clone(), to: range.to.clone() },
        Some(last) => {
            let after = Key::from([last.key.as_slice(), b"\0"].concat());
            KeyRange { from: range.from.clone(), to: Some(after) }
        }
    }
}
