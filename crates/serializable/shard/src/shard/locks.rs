//! The locks of prepared transactions.
//!
//! A key or range is locked to be read, or to be written. Two locks conflict if both are on one key and one
//! of them is to write. A range is locked as a whole, with the keys in it that are not there.

use std::collections::BTreeMap;
use std::ops::Bound;

use quorate_core::{Key, KeyRange, TransactionId};

/// The purpose of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// To be read.
    Read,
    /// To be written.
    Write,
}

/// The keys and ranges that a transaction has touched, or may touch.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// Keys; what is written may have been read before.
    pub(crate) keys: BTreeMap<Key, Access>,
    /// Ranges.
    pub(crate) ranges: Vec<(KeyRange, Access)>,
    /// The purpose for which it needs to know which procedures there are.
    pub(crate) procedures: Option<Access>,
}

impl Touched {
    pub(crate) fn key(&mut self, key: &Key, access: Access) {
        match self.keys.get_mut(key.as_slice()) {
            Some(Access::Write) => {}
            Some(held) => *held = access,
            None => drop(self.keys.insert(key.clone(), access)),
        }
    }

    pub(crate) fn range(&mut self, range: KeyRange, access: Access) {
        if !range.is_empty() {
            self.ranges.push((range, access));
        }
    }

    /// Any key at all.
    pub(crate) fn everything(&mut self) {
        self.range(KeyRange { from: Key::default(), to: None }, Access::Write);
    }

    /// True if it has read or may write one of these keys.
    pub(crate) fn has_any(&self, keys: &[Key]) -> bool {
        let in_range = |key: &Key| self.ranges.iter().any(|(range, _)| range.contains(key));
        keys.iter().any(|key| self.keys.contains_key(key.as_slice()) || in_range(key))
    }
}

/// The transactions that have locked something: several to write it, if some were prepared in spite of the
/// others.
#[derive(Debug, Default, PartialEq, Eq)]
struct Holders {
    readers: u32,
    writer: Option<TransactionId>,
    /// Writers beside that one. There is none without it.
    further_writers: Vec<TransactionId>,
}

impl Holders {
    fn add(&mut self, transaction: TransactionId, access: Access) {
        match access {
            Access::Read => self.readers += 1,
            Access::Write if self.writer.is_none() => self.writer = Some(transaction),
            Access::Write => self.further_writers.push(transaction),
        }
    }

    /// One less holds this.
    fn release(&mut self, transaction: TransactionId, access: Access) {
        let further = self.further_writers.iter().position(|writer| *writer == transaction);
        match (access, further) {
            (Access::Read, _) => {
                assert!(self.readers > 0, "{transaction} gives back what it has not locked");
                self.readers -= 1;
            }
            (Access::Write, Some(further)) => drop(self.further_writers.swap_remove(further)),
            (Access::Write, None) => {
                assert!(self.writer == Some(transaction), "{transaction} gives back what it has not locked");
                self.writer = self.further_writers.pop();
            }
        }
    }

    fn are_against(&self, access: Access) -> bool {
        self.writer.is_some() || access == Access::Write && self.readers > 0
    }
}

/// The lock table of a shard.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    keys: BTreeMap<Key, Holders>,
    ranges: Vec<(TransactionId, KeyRange, Access)>,
    procedures: Holders,
    /// How many transactions have locked something, or nothing.
    transactions: usize,
}

impl Locks {
    /// True if nothing is locked.
    pub(crate) fn are_none(&self) -> bool {
        self.transactions == 0
    }

    /// Locks what a transaction has touched; true if no lock on any of its keys is against that.
    pub(crate) fn lock(&mut self, transaction: TransactionId, touched: &Touched) -> bool {
        let mut is_free = true;
        for (key, access) in &touched.keys {
            let holders = self.keys.entry(key.clone()).or_default();
            is_free &= !holders.are_against(*access);
            holders.add(transaction, *access);
        }
        let ranges = touched.ranges.iter();
        self.ranges.extend(ranges.map(|(range, access)| (transaction, range.clone(), *access)));
        if let Some(access) = touched.procedures {
            self.procedures.add(transaction, access);
        }
        self.transactions += 1;
        is_free
    }

    /// Unlocks it.
    pub(crate) fn unlock(&mut self, transaction: TransactionId, touched: &Touched) {
        for (key, access) in &touched.keys {
            let holders = self.keys.get_mut(key.as_slice()).expect("what is unlocked was locked");
            holders.release(transaction, *access);
            if *holders == Holders::default() {
                self.keys.remove(key.as_slice());
            }
        }
        if !touched.ranges.is_empty() {
            self.ranges.retain(|(holder, _, _)| *holder != transaction);
        }
        if let Some(access) = touched.procedures {
            self.procedures.release(transaction, access);
        }
        assert!(self.transactions > 0, "{transaction} gives back locks, and nobody has any");
        self.transactions -= 1;
        let is_any_left = !self.keys.is_empty() || !self.ranges.is_empty();
        assert!(self.transactions > 0 || !is_any_left, "{transaction} was the last, and something is locked");
    }

    /// True if an access to a key conflicts with a lock.
    pub(crate) fn has_key(&self, key: &[u8], access: Access) -> bool {
        if self.are_none() {
            return false;
        }
        let is_against = |range: &KeyRange, held: Access| conflict(held, access) && range.contains(key);
        self.keys.get(key).is_some_and(|holders| holders.are_against(access))
            || self.ranges.iter().any(|(_, range, held)| is_against(range, *held))
    }

    /// True if an access to a range conflicts with a lock.
    pub(crate) fn has_range(&self, range: &KeyRange, access: Access) -> bool {
        if self.are_none() || range.is_empty() {
            return false;
        }
        let to = range.to.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut keys = self.keys.range::<Key, _>((Bound::Included(&range.from), to));
        let is_against = |other: &KeyRange, held: Access| conflict(held, access) && other.overlaps(range);
        keys.any(|(_, holders)| holders.are_against(access))
            || self.ranges.iter().any(|(_, other, held)| is_against(other, *held))
    }

    /// True if a look at which procedures there are, or a change of that, conflicts with a lock.
    pub(crate) fn has_procedures(&self, access: Access) -> bool {
        self.procedures.are_against(access)
    }

    /// A transaction that may write a key.
    pub(crate) fn writer_of_key(&self, key: &[u8]) -> Option<TransactionId> {
        if self.are_none() {
            return None;
        }
        let of_range = || {
            let writes = |range: &KeyRange, held: Access| held == Access::Write && range.contains(key);
            self.ranges.iter().find(|(_, range, held)| writes(range, *held)).map(|(holder, _, _)| *holder)
        };
        self.keys.get(key).and_then(|holders| holders.writer).or_else(of_range)
    }

    /// A transaction that may write into a range.
    pub(crate) fn writer_of_range(&self, range: &KeyRange) -> Option<TransactionId> {
        if self.are_none() || range.is_empty() {
            return None;
        }
        let to = range.to.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut keys = self.keys.range::<Key, _>((Bound::Included(&range.from), to));
        let of_range = || {
            let writes = |other: &KeyRange, held: Access| held == Access::Write && other.overlaps(range);
            self.ranges.iter().find(|(_, other, held)| writes(other, *held)).map(|(holder, _, _)| *holder)
        };
        keys.find_map(|(_, holders)| holders.writer).or_else(of_range)
    }

    /// A transaction that may change which procedures there are.
    pub(crate) fn writer_of_procedures(&self) -> Option<TransactionId> {
        self.procedures.writer
    }

    /// True if an access to all this conflicts with a lock.
    pub(crate) fn has_any(&self, touched: &Touched) -> bool {
        touched.keys.iter().any(|(key, access)| self.has_key(key, *access))
            || touched.ranges.iter().any(|(range, access)| self.has_range(range, *access))
            || touched.procedures.is_some_and(|access| self.has_procedures(access))
    }
}

fn conflict(one: Access, other: Access) -> bool {
    one == Access::Write || other == Access::Write
}

#[cfg(test)]
mod tests {
    use quorate_core::ClientId;

    use super::Access::{Read, Write};
    use super::*;

    fn id(sequence: u64) -> TransactionId {
        TransactionId { client: ClientId(1), sequence, attempt: 0 }
    }

    fn range(from: &str, to: &str) -> KeyRange {
        KeyRange { from: Key::from(from), to: (!to.is_empty()).then(|| Key::from(to)) }
    }

    fn touched(keys: &[(&str, Access)], ranges: &[(&str, &str, Access)]) -> Touched {
        let mut touched = Touched::default();
        keys.iter().for_each(|(key, access)| touched.key(&Key::from(*key), *access));
        ranges.iter().for_each(|(from, to, access)| touched.range(range(from, to), *access));
        touched
    }

    #[test]
    fn what_conflicts_as_a_table() {
        let mut locks = Locks::default();
        let held = touched(&[("r", Read), ("w", Write)], &[("a", "c", Read), ("f", "h", Write)]);
        locks.lock(id(1), &held);
        let table = [
            ("r", false, true),
            ("w", true, true),
            ("a", false, true),
            ("b", false, true),
            ("c", false, false),
            ("f", true, true),
            ("h", false, false),
            ("x", false, false),
        ];
        for (key, read, write) in table {
            assert_eq!(locks.has_key(key.as_bytes(), Read), read, "{key} is read");
            assert_eq!(locks.has_key(key.as_bytes(), Write), write, "{key} is written");
            assert_eq!(locks.writer_of_key(key.as_bytes()), read.then_some(id(1)), "{key} has a writer");
        }
        let ranges =
            [("a", "c", false), ("q", "s", false), ("c", "g", true), ("v", "", true), ("w", "v", false)];
        for (from, to, expected) in ranges {
            let range = range(from, to);
            assert_eq!(locks.has_range(&range, Read), expected, "{from}..{to}");
            assert_eq!(locks.writer_of_range(&range), expected.then_some(id(1)), "{from}..{to}");
        }
        assert!(locks.has_range(&range("q", "s"), Write) && locks.has_range(&range("b", "bb"), Write));
        assert!(locks.has_any(&touched(&[("x", Write), ("a", Write)], &[])));
        assert!(!locks.has_any(&touched(&[("x", Write), ("a", Read)], &[("a", "e", Read)])));
        locks.unlock(id(1), &held);
        assert!(locks.are_none() && locks.keys.is_empty() && locks.ranges.is_empty());
    }

    #[test]
    fn of_several_who_have_locked_the_same_each_counts() {
        let mut locks = Locks::default();
        let (one, other) = (touched(&[("k", Write)], &[]), touched(&[("k", Write), ("k", Read)], &[]));
        locks.lock(id(1), &one);
        locks.lock(id(2), &other);
        locks.lock(id(3), &one);
        locks.unlock(id(1), &one);
        assert!(locks.has_key(b"k", Read), "what is written is not taken for read afterwards");
        assert_eq!(locks.writer_of_key(b"k"), Some(id(3)), "one that is left");
        locks.unlock(id(2), &other);
        assert_eq!(locks.writer_of_key(b"k"), Some(id(3)));
        locks.unlock(id(3), &one);
        assert!(!locks.has_key(b"k", Write) && locks.writer_of_key(b"k").is_none());
    }

    #[test]
    fn procedures_are_locked_together() {
        let mut locks = Locks::default();
        let touched = Touched { procedures: Some(Read), ..Touched::default() };
        locks.lock(id(1), &touched);
        assert!(locks.has_procedures(Write) && !locks.has_procedures(Read));
        assert_eq!(locks.writer_of_procedures(), None);
        let changed = Touched { procedures: Some(Write), ..Touched::default() };
        locks.lock(id(2), &changed);
        assert_eq!(locks.writer_of_procedures(), Some(id(2)));
        locks.unlock(id(1), &touched);
        locks.unlock(id(2), &changed);
        assert!(!locks.has_procedures(Write));
    }
}
