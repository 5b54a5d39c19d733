//! Transactions that are prepared and not yet decided, and the keys that they hold.
//!
//! Lookups answer "who else?": a transaction never stands in its own way.

use std::collections::{BTreeMap, btree_map, hash_map};
use std::ops::Bound;
use std::sync::Arc;

use quorate_core::hash::FixedMap;
use quorate_core::{ClientId, Instant, Key, KeyRange, Timestamp, Transaction, TransactionId};
use smallvec::SmallVec;

/// A prepared transaction.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Its part at this shard.
    pub transaction: Arc<Transaction>,
    /// The timestamp at which it is prepared.
    pub timestamp: Timestamp,
    /// When it was prepared here, for finding those whose coordinator has died.
    pub since: Instant,
}

/// A transaction that holds a key, and the timestamp at which it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The transaction.
    pub transaction: TransactionId,
    /// Where it is prepared.
    pub timestamp: Timestamp,
}

/// The transactions that hold one key: nearly always one.
type Holders = SmallVec<[Holder; 1]>;

/// The prepared transactions of a shard.
#[derive(Debug, Default)]
pub struct PreparedSet {
    transactions: FixedMap<TransactionId, Prepared>,
    readers: FixedMap<Key, Holders>,
    /// Ordered, because scans ask for the writers within a range.
    writers: BTreeMap<Key, Holders>,
    scanners: Vec<(Holder, KeyRange)>,
    /// How many each client has; none is not listed.
    clients: FixedMap<ClientId, usize>,
}

impl PreparedSet {
    /// Nothing is prepared.
    pub fn new() -> Self {
        Self::default()
    }

    /// The prepared entry of a transaction.
    pub fn entry(&self, transaction: TransactionId) -> Option<&Prepared> {
        self.transactions.get(&transaction)
    }

    /// How many transactions are prepared.
    pub fn len(&self) -> usize {
        self.transactions.len()
    }

    /// How many transactions of one client are prepared.
    pub fn len_of(&self, client: ClientId) -> usize {
        self.clients.get(&client).copied().unwrap_or(0)
    }

    /// True if none is.
    pub fn is_empty(&self) -> bool {
        self.transactions.is_empty()
    }

    /// Adds a transaction; replaces an entry of the same transaction, which then keeps its age.
    pub fn insert(&mut self, id: TransactionId, mut prepared: Prepared) {
        if let Some(previous) = self.remove(id) {
            prepared.since = previous.since.min(prepared.since);
        }
        let holder = Holder { transaction: id, timestamp: prepared.timestamp };
        for read in &prepared.transaction.reads {
            self.readers.entry(read.key.clone()).or_default().push(holder);
        }
        for write in &prepared.transaction.writes {
            self.writers.entry(write.key.clone()).or_default().push(holder);
        }
        for range in &prepared.transaction.ranges {
            self.scanners.push((holder, range.clone()));
        }
        self.transactions.insert(id, prepared);
        *self.clients.entry(id.client).or_default() += 1;
    }

    /// Removes a transaction, if it is prepared, and gives up what it held.
    pub fn remove(&mut self, id: TransactionId) -> Option<Prepared> {
        let prepared = self.transactions.remove(&id)?;
        let of_client = self.clients.get_mut(&id.client).expect("every prepared transaction is counted");
        *of_client -= 1;
        if *of_client == 0 {
            self.clients.remove(&id.client);
        }
        for read in &prepared.transaction.reads {
            let hash_map::Entry::Occupied(mut holders) = self.readers.entry(read.key.clone()) else {
                unreachable!("a prepared read is indexed");
            };
            holders.get_mut().retain(|holder| holder.transaction != id);
            if holders.get().is_empty() {
                holders.remove();
            }
        }
        for write in &prepared.transaction.writes {
            let btree_map::Entry::Occupied(mut holders) = self.writers.entry(write.key.clone()) else {
                unreachable!("a prepared write is indexed");
            };
            holders.get_mut().retain(|holder| holder.transaction != id);
            if holders.get().is_empty() {
                holders.remove();
            }
        }
        if !prepared.transaction.ranges.is_empty() {
            self.scanners.retain(|(holder, _)| holder.transaction != id);
        }
        Some(prepared)
    }

    /// The other transactions that are about to write `key`.
    pub fn other_writers(&self, key: &[u8], id: TransactionId) -> impl Iterator<Item = Holder> + '_ {
        others(self.writers.get(key), id)
    }

    /// The other transactions that have read `key` by itself or in a scan.
    pub fn other_readers<'a>(
        &'a self,
        key: &'a [u8],
        id: TransactionId,
    ) -> impl Iterator<Item = Holder> + 'a {
        let scanners = self
            .scanners
            .iter()
            .filter(move |(holder, range)| holder.transaction != id && range.contains(key))
            .map(|(holder, _)| *holder);
        others(self.readers.get(key), id).chain(scanners)
    }

    /// The other transactions that are about to write a key in `range`.
    pub fn other_writers_in(&self, range: &KeyRange, id: TransactionId) -> impl Iterator<Item = Holder> + '_ {
        self.writers_in(range).flat_map(move |(_, holders)| others(Some(holders), id))
    }

    /// The keys in `range` that some transaction is about to write, ascending.
    pub fn keys_written_in(&self, range: &KeyRange) -> impl Iterator<Item = &Key> + '_ {
        self.writers_in(range).map(|(key, _)| key)
    }

    fn writers_in(&self, range: &KeyRange) -> impl Iterator<Item = (&Key, &Holders)> + '_ {
        let to = range.to.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        // As for versions: what is asked most often is whether an index list, above all keys of users, is about to be written.
        let is_above_all = self.writers.last_key_value().is_none_or(|(last, _)| *last < range.from);
        // The index would not take the bounds of a range that ends before it starts.
        let writers = (!range.is_empty() && !is_above_all)
            .then(|| self.writers.range::<Key, _>((Bound::Included(&range.from), to)));
        writers.into_iter().flatten()
    }

    /// The transactions that were prepared no later than `cutoff`, ascending.
    pub fn older_than(&self, cutoff: Instant) -> Vec<TransactionId> {
        let mut old: Vec<TransactionId> = self
            .transactions
            .iter()
            .filter(|(_, prepared)| prepared.since <= cutoff)
            .map(|(id, _)| *id)
            .collect();
        old.sort_unstable();
        old
    }

    /// Every prepared transaction, ascending.
    pub fn ids(&self) -> Vec<TransactionId> {
        let mut ids: Vec<TransactionId> = self.transactions.keys().copied().collect();
        ids.sort_unstable();
        ids
    }
}

fn others(holders: Option<&Holders>, id: TransactionId) -> impl Iterator<Item = Holder> + '_ {
    holders.into_iter().flatten().copied().filter(move |holder| holder.transaction != id)
}

#[cfg(test)]
mod tests {
    use quorate_core::{ClientId, ReadVersion, Write};

    use super::*;

    fn id(sequence: u64) -> TransactionId {
        TransactionId { client: ClientId(1), sequence, attempt: 0 }
    }

    fn at(micros: u64) -> Timestamp {
        Timestamp { micros, client: ClientId(1) }
    }

    fn key(name: &'static str) -> Key {
        Key::from(name.as_bytes())
    }

    fn prepared(
        reads: &[&'static str],
        writes: &[&'static str],
        ranges: &[(&'static str, &'static str)],
    ) -> Prepared {
        let transaction = Transaction {
            reads: reads
                .iter()
                .map(|name| ReadVersion { key: key(name), version: Timestamp::ZERO, deleted: false })
                .collect(),
            writes: writes.iter().map(|name| Write { key: key(name), value: None }).collect(),
            ranges: ranges.iter().map(|(from, to)| KeyRange { from: key(from), to: Some(key(to)) }).collect(),
            ..Transaction::default()
        };
        Prepared { transaction: Arc::new(transaction), timestamp: at(5), since: Instant::from_nanos(9) }
    }

    #[test]
    fn a_transaction_never_stands_in_its_own_way() {
        let mut set = PreparedSet::new();
        set.insert(id(1), prepared(&["a"], &["a"], &[("a", "c")]));
        assert_eq!(set.other_writers(b"a", id(1)).count(), 0);
        assert_eq!(set.other_readers(b"a", id(1)).count(), 0);
        assert_eq!(set.other_writers(b"a", id(2)).count(), 1);
        assert_eq!(set.other_readers(b"a", id(2)).count(), 2);
        assert_eq!(set.other_readers(b"b", id(2)).count(), 1);
    }

    #[test]
    fn writers_in_a_range_are_found() {
        let mut set = PreparedSet::new();
        set.insert(id(1), prepared(&[], &["b", "d"], &[]));
        let range = |from, to| KeyRange { from: key(from), to: Some(key(to)) };
        assert_eq!(set.other_writers_in(&range("a", "c"), id(2)).count(), 1);
        assert_eq!(set.other_writers_in(&range("c", "d"), id(2)).count(), 0);
        assert_eq!(set.other_writers_in(&range("d", "a"), id(2)).count(), 0);
        assert_eq!(set.other_writers_in(&KeyRange { from: key("a"), to: None }, id(2)).count(), 2);
    }

    #[test]
    fn the_keys_that_are_written_in_a_range_are_listed_once_each() {
        let mut set = PreparedSet::new();
        set.insert(id(1), prepared(&["b"], &["c", "a"], &[]));
        set.insert(id(2), prepared(&[], &["a", "d"], &[]));
        let written = |from: &'static str, to: Option<&'static str>| {
            let range = KeyRange { from: key(from), to: to.map(key) };
            set.keys_written_in(&range).cloned().collect::<Vec<_>>()
        };
        assert_eq!(written("a", None), [key("a"), key("c"), key("d")]);
        assert_eq!(written("a", Some("d")), [key("a"), key("c")]);
        assert!(written("d", Some("a")).is_empty());
    }

    #[test]
    fn removal_gives_up_everything() {
        let mut set = PreparedSet::new();
        set.insert(id(1), prepared(&["a"], &["b"], &[("a", "c")]));
        set.insert(id(2), prepared(&["a"], &["b"], &[("a", "c")]));
        set.insert(id(2), prepared(&["a"], &["b"], &[("a", "c")]));
        assert_eq!((set.len_of(ClientId(1)), set.len_of(ClientId(2))), (2, 0));
        assert!(set.remove(id(1)).is_some());
        assert!(set.remove(id(1)).is_none());
        assert_eq!(set.len_of(ClientId(1)), 1);
        set.remove(id(2));
        assert!(set.readers.is_empty() && set.writers.is_empty() && set.scanners.is_empty());
        assert!(set.is_empty() && set.clients.is_empty());
    }

    #[test]
    fn a_replaced_entry_keeps_its_age() {
        let mut set = PreparedSet::new();
        set.insert(id(1), prepared(&["a"], &[], &[]));
        set.insert(
            id(1),
            Prepared { since: Instant::from_nanos(20), timestamp: at(7), ..prepared(&["b"], &[], &[]) },
        );
        assert_eq!(set.entry(id(1)).unwrap().since, Instant::from_nanos(9));
        assert_eq!(set.entry(id(1)).unwrap().timestamp, at(7));
        assert_eq!(set.other_readers(b"a", id(2)).count(), 0);
        assert_eq!(set.older_than(Instant::from_nanos(8)), []);
        assert_eq!(set.older_than(Instant::from_nanos(9)), [id(1)]);
    }
}
