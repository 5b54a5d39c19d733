//! The reads and writes of a transaction, until it is to commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_core::topology::Keyspace;
use quorate_core::transaction::{
    LimitExceeded, TRANSACTION_BYTES_MAX, TRANSACTION_ENTRIES_MAX, readable, validate_write,
};
use quorate_core::{Key, KeyRange, ReadVersion, ShardId, Timestamp, Transaction, Value, Write};

use crate::scan::{self, Entries, Scan};

/// The reads and writes of a transaction.
///
/// A transaction sees its own writes, and reads no key twice: a version that it has read once, or an absence that it has found in a range,
/// it is told again. If that is stale by then, it will not be let in.
#[derive(Debug, Default)]
pub struct Buffer {
    reads: BTreeMap<Key, (Timestamp, Option<Value>)>,
    writes: BTreeMap<Key, Option<Value>>,
    /// The ranges that were scanned, with each shard that was asked.
    ranges: Vec<(ShardId, KeyRange)>,
    /// How many other entries count against its limits.
    others: usize,
    /// How many bytes all of this has.
    bytes: usize,
}

impl Buffer {
    /// The value of a key that the transaction is told without anybody being asked; none if somebody has to be.
    pub fn value(&self, key: &Key) -> Option<Option<Value>> {
        let own = self.writes.get(key).cloned();
        own.or_else(|| self.known(key).map(|(_, value)| value))
    }

    /// True if the transaction writes something.
    pub fn writes(&self) -> bool {
        !self.writes.is_empty()
    }

    /// True if the transaction writes this key.
    pub fn writes_key(&self, key: &Key) -> bool {
        self.writes.contains_key(key)
    }

    /// The greatest version that was read.
    pub fn greatest_version(&self) -> Timestamp {
        self.reads.values().map(|(version, _)| *version).max().unwrap_or(Timestamp::ZERO)
    }

    /// Notes a write, or a delete.
    ///
    /// # Errors
    /// The key, the value or the transaction would be too large. Nothing is noted.
    pub fn put(&mut self, key: Key, value: Option<Value>) -> Result<(), LimitExceeded> {
        validate_write(&key, value.as_deref().unwrap_or_default())?;
        self.count(&key, key.len() + value.as_ref().map_or(0, Value::len))?;
        self.writes.insert(key, value);
        Ok(())
    }

    /// Notes what a replica holds of a key that somebody was asked for. Gives what the transaction is told of it: meanwhile
    /// it may have written the key, or scanned it.
    ///
    /// # Errors
    /// The transaction would be too large.
    pub fn read(
        &mut self,
        key: &Key,
        version: Timestamp,
        value: Option<Value>,
    ) -> Result<Option<Value>, LimitExceeded> {
        self.count(key, key.len() + value.as_ref().map_or(0, Value::len))?;
        let known = self.known(key).unwrap_or((version, value));
        let value = self.writes.get(key).cloned().unwrap_or_else(|| known.1.clone());
        self.reads.insert(key.clone(), known);
        Ok(value)
    }

    /// Merges the pages of a scan with what the transaction itself has read and written, and notes what was covered. Gives
    /// the entries, and the first key that was not covered.
    ///
    /// # Errors
    /// The transaction would be too large.
    pub fn scan(&mut self, keyspace: &Keyspace, scan: Scan) -> Result<(Entries, Option<Key>), LimitExceeded> {
        let (range, limit, bytes, end) = (scan.range.clone(), scan.limit, scan.bytes(), scan.end());
        let until = |next: &Option<Key>| next.clone().or_else(|| range.to.clone());
        let covered = KeyRange { from: range.from.clone(), to: until(&end) };
        let mut found: BTreeMap<Key, Option<Value>> = BTreeMap::new();
        let mut versions: BTreeMap<Key, (Timestamp, Option<Value>)> = BTreeMap::new();
        for read in scan.into_found().filter(|read| covered.contains(&read.key)) {
            let known = self.known(&read.key).unwrap_or((read.version, read.value));
            found.insert(read.key.clone(), known.1.clone());
            versions.insert(read.key, known);
        }
        for (key, value) in self.writes.iter().filter(|(key, _)| covered.contains(key)) {
            found.insert(key.clone(), value.clone());
        }
        let mut entries: Entries = found.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        let next = scan::cut(&mut entries, limit).or(end);
        let covered = KeyRange { from: range.from.clone(), to: until(&next) };
        for (key, known) in versions.into_iter().filter(|(key, _)| covered.contains(key)) {
            self.reads.entry(key).or_insert(known);
        }
        if !covered.is_empty() {
            let shards = keyspace.shards_of_range(&range).iter();
            self.ranges.extend(shards.map(|shard| (shard.id, covered.clone())));
        }
        self.count(&range.from, bytes)?;
        Ok((entries, next))
    }

    /// Counts an entry that is kept elsewhere against the limits of the transaction: so many bytes beside this key.
    ///
    /// # Errors
    /// The transaction would be too large. Nothing is counted.
    pub fn charge(&mut self, key: &Key, bytes: usize) -> Result<(), LimitExceeded> {
        self.count(key, key.len() + bytes)?;
        self.others += 1;
        Ok(())
    }

    /// Forgets the keys that were found to be absent, so that nobody will validate them. For planted bugs.
    pub fn forget_absence(&mut self) {
        self.reads.retain(|_, (version, _)| *version > Timestamp::ZERO);
        self.ranges.clear();
    }

    /// Divides the transaction by shard.
    pub fn into_parts(self, keyspace: &Keyspace) -> BTreeMap<ShardId, Arc<Transaction>> {
        let mut parts: BTreeMap<ShardId, Transaction> = BTreeMap::new();
        for (key, (version, value)) in self.reads {
            let part = parts.entry(keyspace.shard_of(&key).id).or_default();
            let deleted = value.is_none() && version > Timestamp::ZERO;
            part.reads.push(ReadVersion { key, version, deleted });
        }
        for (key, value) in self.writes {
            parts.entry(keyspace.shard_of(&key).id).or_default().writes.push(Write { key, value });
        }
        for (shard, range) in self.ranges {
            parts.entry(shard).or_default().ranges.push(range);
        }
        let participants: Vec<ShardId> = parts.keys().copied().collect();
        let finish = |(shard, mut part): (ShardId, Transaction)| {
            part.participants = participants.clone();
            (shard, Arc::new(part))
        };
        parts.into_iter().map(finish).collect()
    }

    /// The version that the transaction has read of a key, if it has: also that it was absent when a range around it was scanned.
    fn known(&self, key: &Key) -> Option<(Timestamp, Option<Value>)> {
        let scanned = || self.ranges.iter().any(|(_, range)| range.contains(key));
        self.reads.get(key).cloned().or_else(|| scanned().then_some((Timestamp::ZERO, None)))
    }

    fn count(&mut self, key: &Key, bytes: usize) -> Result<(), LimitExceeded> {
        let bytes = self.bytes + bytes;
        if bytes > TRANSACTION_BYTES_MAX {
            return Err(LimitExceeded::Transaction { key: readable(key), bytes });
        }
        let entries = self.reads.len() + self.writes.len() + self.ranges.len() + self.others + 1;
        if entries > TRANSACTION_ENTRIES_MAX {
            return Err(LimitExceeded::Entries { key: readable(key), entries });
        }
        self.bytes = bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::Page;
    use quorate_core::topology::{Durability, Isolation, Shard};
    use quorate_core::transaction::KeyVersion;
    use quorate_core::{ClientId, KeyspaceId, NodeId};

    fn keyspace() -> Keyspace {
        Keyspace::new(
            KeyspaceId(1),
            "test",
            Isolation::Strict,
            Durability::Sync,
            vec![Shard::new(ShardId(1), vec![NodeId(0)])],
        )
    }

    fn at(micros: u64) -> Timestamp {
        Timestamp { micros, client: ClientId(1) }
    }

    fn value(text: &str) -> Option<Value> {
        Some(Value::copy_from_slice(text.as_bytes()))
    }

    fn scan(limit: u32, found: &[(&str, u64, &str)], next: Option<&str>) -> Scan {
        let mut scan = Scan::new(&keyspace(), KeyRange { from: Key::from("a"), to: None }, limit);
        let key = |(key, micros, text): &(&str, u64, &str)| KeyVersion {
            key: Key::from(*key),
            version: at(*micros),
            value: value(text),
        };
        let page = Page { keys: found.iter().map(key).collect(), next: next.map(Key::from) };
        assert!(scan.take(0, page));
        scan
    }

    fn part(buffer: Buffer) -> Transaction {
        let parts: Vec<_> = buffer.into_parts(&keyspace()).into_values().collect();
        Transaction::clone(&parts[0])
    }

    #[test]
    fn a_scan_shows_what_the_transaction_writes_and_hides_what_it_deletes() {
        let mut buffer = Buffer::default();
        buffer.put(Key::from("b"), value("own")).unwrap();
        buffer.put(Key::from("c"), None).unwrap();
        let (entries, next) =
            buffer.scan(&keyspace(), scan(9, &[("a", 1, "1"), ("c", 2, "2")], None)).unwrap();
        assert_eq!(entries, [(Key::from("a"), "1".into()), (Key::from("b"), "own".into())]);
        assert_eq!(next, None);
    }

    /// Once a deletion is collected, nothing else tells it from a value that was overwritten.
    #[test]
    fn what_was_read_says_whether_it_was_a_deletion() {
        let mut buffer = Buffer::default();
        let found = [("a", at(1), None), ("b", at(2), value("2")), ("c", Timestamp::ZERO, None)];
        for (key, version, value) in found {
            buffer.read(&Key::from(key), version, value).unwrap();
        }
        let deleted: Vec<bool> = part(buffer).reads.iter().map(|read| read.deleted).collect();
        assert_eq!(deleted, [true, false, false]);
    }

    /// A key beyond the limit was not shown, so it is not validated either.
    #[test]
    fn only_what_a_scan_has_shown_counts_as_read() {
        let mut buffer = Buffer::default();
        let found = [("a", 1, "1"), ("b", 2, "2"), ("d", 3, "3")];
        let (entries, next) = buffer.scan(&keyspace(), scan(1, &found, Some("d"))).unwrap();
        assert_eq!((entries.len(), next), (1, Some(Key::from("b"))));
        assert_eq!(buffer.value(&Key::from("b")), None);
        let part = part(buffer);
        assert_eq!(part.reads, [ReadVersion { key: Key::from("a"), version: at(1), deleted: false }]);
        assert_eq!(part.ranges, [KeyRange { from: Key::from("a"), to: Some(Key::from("b")) }]);
    }

    #[test]
    fn what_was_absent_in_a_range_stays_absent() {
        let mut buffer = Buffer::default();
        buffer.scan(&keyspace(), scan(9, &[("a", 1, "1")], None)).unwrap();
        assert_eq!(buffer.value(&Key::from("b")), Some(None));
        // An answer that was on its way says otherwise.
        assert_eq!(buffer.read(&Key::from("b"), at(7), value("late")).unwrap(), None);
        assert_eq!(buffer.greatest_version(), at(1));
    }

    #[test]
    fn a_write_that_came_before_the_answer_is_what_is_read() {
        let mut buffer = Buffer::default();
        buffer.put(Key::from("a"), value("own")).unwrap();
        assert_eq!(buffer.read(&Key::from("a"), at(3), value("theirs")).unwrap(), value("own"));
        assert_eq!(part(buffer).reads, [ReadVersion { key: Key::from("a"), version: at(3), deleted: false }]);
    }

    #[test]
    fn a_transaction_has_limits() {
        let mut buffer = Buffer::default();
        let large = Some(Value::from(vec![0; 1_000_000]));
        for number in 0..9 {
            buffer.put(Key::from(format!("{number}")), large.clone()).unwrap();
        }
        let refused = buffer.read(&Key::from("9"), at(1), large.clone());
        assert!(matches!(refused, Err(LimitExceeded::Transaction { .. })), "{refused:?}");
        let refused = buffer.put(Key::from("9"), large);
        assert!(matches!(refused, Err(LimitExceeded::Transaction { .. })), "{refused:?}");
        // A write that was refused is not there and does not count.
        assert_eq!(buffer.value(&Key::from("9")), None);
        buffer.put(Key::from("9"), value("small")).unwrap();

        let mut buffer = Buffer::default();
        for number in 0..TRANSACTION_ENTRIES_MAX {
            buffer.read(&Key::from(format!("{number}")), at(1), None).unwrap();
        }
        let refused = buffer.put(Key::from("one more"), None);
        assert!(matches!(refused, Err(LimitExceeded::Entries { .. })), "{refused:?}");
    }

    #[test]
    fn what_is_kept_elsewhere_counts() {
        let mut buffer = Buffer::default();
        buffer.charge(&Key::from("set"), TRANSACTION_BYTES_MAX - 10).unwrap();
        let refused = buffer.put(Key::from("key"), value("too much"));
        assert!(matches!(refused, Err(LimitExceeded::Transaction { .. })), "{refused:?}");
        buffer.put(Key::from("key"), value("fits")).unwrap();
        let mut buffer = Buffer::default();
        for number in 0..TRANSACTION_ENTRIES_MAX {
            buffer.charge(&Key::from(format!("{number}")), 0).unwrap();
        }
        let refused = buffer.charge(&Key::from("one more"), 0);
        assert!(matches!(refused, Err(LimitExceeded::Entries { .. })), "{refused:?}");
    }

    #[test]
    fn absence_can_be_forgotten() {
        let mut buffer = Buffer::default();
        buffer.read(&Key::from("a"), Timestamp::ZERO, None).unwrap();
        buffer.read(&Key::from("b"), at(1), value("1")).unwrap();
        buffer.scan(&keyspace(), scan(9, &[], None)).unwrap();
        buffer.forget_absence();
        let part = part(buffer);
        assert_eq!(part.reads, [ReadVersion { key: Key::from("b"), version: at(1), deleted: false }]);
        assert!(part.ranges.is_empty());
    }
}
