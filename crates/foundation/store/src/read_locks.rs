//! Shared locks on keys and ranges, for protocols that lock what they read.
//!
//! Nothing waits here and nothing is granted: a protocol asks who holds what, and decides. Writers are kept elsewhere, as
//! [`PreparedSet`](crate::PreparedSet).

use std::collections::{BTreeMap, BTreeSet, hash_map};

use quorate_core::hash::FixedMap;
use quorate_core::{Instant, Key, KeyRange, Timestamp, Transaction, TransactionId};

/// The read locks of a shard.
#[derive(Debug, Default)]
pub struct ReadLocks {
    transactions: BTreeMap<TransactionId, Locks>,
    keys: FixedMap<Key, BTreeSet<TransactionId>>,
    /// Those that have locked a range.
    scanners: BTreeSet<TransactionId>,
}

/// The keys and ranges that one transaction has locked.
#[derive(Debug)]
struct Locks {
    age: Timestamp,
    since: Instant,
    keys: BTreeSet<Key>,
    ranges: Vec<KeyRange>,
}

impl ReadLocks {
    /// Nothing is locked.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many transactions hold locks.
    pub fn len(&self) -> usize {
        self.transactions.len()
    }

    /// True if none does.
    pub fn is_empty(&self) -> bool {
        self.transactions.is_empty()
    }

    fn locks(&mut self, id: TransactionId, age: Timestamp, now: Instant) -> &mut Locks {
        let locks = self.transactions.entry(id).or_insert_with(|| Locks {
            age,
            since: now,
            keys: BTreeSet::new(),
            ranges: Vec::new(),
        });
        locks.since = now;
        locks
    }

    /// A transaction of this age locks a key.
    pub fn lock_key(&mut self, id: TransactionId, age: Timestamp, key: &Key, now: Instant) {
        self.locks(id, age, now).keys.insert(key.clone());
        self.keys.entry(key.clone()).or_default().insert(id);
    }

    /// A transaction of this age locks a range.
    pub fn lock_range(&mut self, id: TransactionId, age: Timestamp, range: &KeyRange, now: Instant) {
        let locks = self.locks(id, age, now);
        if !locks.ranges.contains(range) {
            locks.ranges.push(range.clone());
        }
        self.scanners.insert(id);
    }

    /// Gives up everything that a transaction has locked. True if that is something.
    pub fn release(&mut self, id: TransactionId) -> bool {
        let Some(locks) = self.transactions.remove(&id) else { return false };
        self.scanners.remove(&id);
        for key in locks.keys {
            let hash_map::Entry::Occupied(mut holders) = self.keys.entry(key) else {
                unreachable!("a locked key is indexed");
            };
            holders.get_mut().remove(&id);
            if holders.get().is_empty() {
                holders.remove();
            }
        }
        true
    }

    /// The other transactions that have locked a key, by itself or in a range: their ages, and when they locked something last.
    pub fn others<'a>(
        &'a self,
        key: &'a Key,
        id: TransactionId,
    ) -> impl Iterator<Item = (TransactionId, Timestamp, Instant)> + 'a {
        let holds_range =
            |other: &&TransactionId| self.transactions[*other].ranges.iter().any(|range| range.contains(key));
        let scanners = self.scanners.iter().filter(holds_range);
        let holders = self.keys.get(key).into_iter().flatten();
        let others = holders.chain(scanners).filter(move |other| **other != id);
        others.map(|other| (*other, self.transactions[other].age, self.transactions[other].since))
    }

    /// True if a transaction has locked everything that it has read.
    pub fn cover(&self, id: TransactionId, part: &Transaction) -> bool {
        let Some(locks) = self.transactions.get(&id) else {
            return part.reads.is_empty() && part.ranges.is_empty();
        };
        let has_key =
            |key: &Key| locks.keys.contains(key) || locks.ranges.iter().any(|range| range.contains(key));
        part.reads.iter().all(|read| has_key(&read.key))
            && part.ranges.iter().all(|range| locks.ranges.iter().any(|locked| covers(locked, range)))
    }

    /// The transactions that have locked nothing new since `cutoff`, ascending.
    pub fn idle_since(&self, cutoff: Instant) -> Vec<TransactionId> {
        self.transactions.iter().filter(|(_, locks)| locks.since <= cutoff).map(|(id, _)| *id).collect()
    }
}

/// True if every key of `inner` lies in `outer`.
fn covers(outer: &KeyRange, inner: &KeyRange) -> bool {
    outer.from <= inner.from
        && match (&outer.to, &inner.to) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(outer), Some(inner)) => inner <= outer,
        }
}

#[cfg(test)]
mod tests {
    use quorate_core::{ClientId, ReadVersion};

    use super::*;

    fn id(sequence: u64) -> TransactionId {
        TransactionId { client: ClientId(1), sequence, attempt: 0 }
    }

    fn at(micros: u64) -> Timestamp {
        Timestamp { micros, client: ClientId(1) }
    }

    fn range(from: &str, to: &str) -> KeyRange {
        KeyRange { from: Key::from(from), to: (!to.is_empty()).then(|| Key::from(to)) }
    }

    fn part(reads: &[&str], ranges: &[KeyRange]) -> Transaction {
        let read =
            |key: &&str| ReadVersion { key: Key::from(*key), version: Timestamp::ZERO, deleted: false };
        Transaction {
            reads: reads.iter().map(read).collect(),
            ranges: ranges.to_vec(),
            ..Transaction::default()
        }
    }

    #[test]
    fn locks_are_found_by_key_and_by_range_and_are_given_up_together() {
        let mut locks = ReadLocks::new();
        locks.lock_key(id(1), at(10), &Key::from("k"), Instant::START);
        locks.lock_range(id(2), at(20), &range("a", "m"), Instant::START);
        locks.lock_key(id(2), at(20), &Key::from("z"), Instant::START);
        let others = |locks: &ReadLocks, key: &str, of: u64| {
            locks
                .others(&Key::from(key), id(of))
                .map(|(other, age, _)| (other.sequence, age.micros))
                .collect()
        };
        let held: Vec<(u64, u64)> = others(&locks, "k", 3);
        assert_eq!(held, [(1, 10), (2, 20)]);
        let held: Vec<(u64, u64)> = others(&locks, "k", 1);
        assert_eq!(held, [(2, 20)], "nobody stands in its own way");
        assert!(locks.release(id(2)) && !locks.release(id(2)));
        let held: Vec<(u64, u64)> = others(&locks, "b", 3);
        assert_eq!(held, []);
        assert!(locks.release(id(1)));
        assert!(locks.is_empty() && locks.keys.is_empty() && locks.scanners.is_empty());
    }

    #[test]
    fn what_is_covered_as_a_table() {
        let mut locks = ReadLocks::new();
        locks.lock_key(id(1), at(10), &Key::from("k"), Instant::START);
        locks.lock_range(id(1), at(10), &range("a", "c"), Instant::START);
        let table = [
            (1, part(&["k"], &[]), true),
            (1, part(&["b", "k"], &[]), true),
            (1, part(&["c"], &[]), false),
            (1, part(&[], &[range("a", "c")]), true),
            (1, part(&[], &[range("b", "bb")]), true),
            (1, part(&[], &[range("a", "d")]), false),
            (1, part(&[], &[range("a", "")]), false),
            (2, part(&["k"], &[]), false),
            (2, part(&[], &[]), true),
        ];
        for (of, part, expected) in table {
            assert_eq!(locks.cover(id(of), &part), expected, "{of} {part:?}");
        }
    }

    #[test]
    fn a_further_lock_shows_that_a_transaction_lives() {
        let mut locks = ReadLocks::new();
        locks.lock_key(id(1), at(10), &Key::from("k"), Instant::from_nanos(5));
        locks.lock_key(id(2), at(10), &Key::from("k"), Instant::from_nanos(5));
        locks.lock_key(id(2), at(10), &Key::from("l"), Instant::from_nanos(9));
        assert_eq!(locks.idle_since(Instant::from_nanos(5)), [id(1)]);
        assert_eq!(locks.idle_since(Instant::from_nanos(4)), []);
    }
}
