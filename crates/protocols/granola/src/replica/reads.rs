//! Reads that know their timestamp and wait until nothing can change any more what they see.
//!
//! ```text
//!   waits for its turn ──► is looked at ──► answered
//!                              │   ▲
//!             a lock is in its │   │ the transaction that holds the lock
//!             way              ▼   │ has ended
//!                           blocked by that transaction
//! ```
//!
//! To look at a read is to execute it. While a shard locks, many reads may wait for few keys, and something happens with every message: so a
//! read that has met a lock is not looked at again before the transaction that holds the lock has ended. All in all reads are executed
//! about as often as they are asked for and locks are given back.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::{ClockTime, Instant, TransactionId, Value};

/// A read, by its timestamp.
pub(super) type Dated = (ClockTime, TransactionId);

/// A read, and since when it waits.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) operation: Value,
    /// It may as well be read earlier, down to this timestamp, which its client has seen; not, if others read at the same.
    pub(super) high: Option<ClockTime>,
    pub(super) since: Instant,
}

/// All reads that wait at a leader for their timestamps.
#[derive(Debug, Default)]
pub(super) struct Reads {
    waiting: BTreeMap<Dated, Waiting>,
    /// When each of them reads.
    timestamps: BTreeMap<TransactionId, ClockTime>,
    /// Those that are not blocked.
    unblocked: BTreeSet<Dated>,
    /// The others, by the transaction that blocks them.
    blocked: BTreeMap<TransactionId, BTreeSet<Dated>>,
    /// Those that may be read earlier, by what their clients have seen.
    seen: BTreeSet<(ClockTime, Dated)>,
}

#[derive(Debug)]
struct Waiting {
    reading: Reading,
    blocked_by: Option<TransactionId>,
}

impl Reads {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn contains(&self, id: TransactionId) -> bool {
        self.timestamps.contains_key(&id)
    }

    /// The one with the least timestamp.
    pub(super) fn first(&self) -> Option<Dated> {
        self.waiting.first_key_value().map(|(dated, _)| *dated)
    }

    /// The greatest timestamp.
    pub(super) fn last(&self) -> Option<ClockTime> {
        self.waiting.last_key_value().map(|((timestamp, _), _)| *timestamp)
    }

    /// The greatest timestamp beneath another.
    pub(super) fn last_beneath(&self, timestamp: ClockTime) -> Option<ClockTime> {
        let beneath = self.waiting.range(..(timestamp, TransactionId::default()));
        beneath.map(|((timestamp, _), _)| *timestamp).next_back()
    }

    pub(super) fn get(&self, dated: Dated) -> Option<&Reading> {
        self.waiting.get(&dated).map(|waiting| &waiting.reading)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Dated, &Reading)> {
        self.waiting.iter().map(|(dated, waiting)| (*dated, &waiting.reading))
    }

    /// A read begins to wait; it may be blocked already.
    pub(super) fn begin(
        &mut self,
        id: TransactionId,
        timestamp: ClockTime,
        reading: Reading,
        blocked_by: Option<TransactionId>,
    ) {
        let dated = (timestamp, id);
        assert!(self.timestamps.insert(id, timestamp).is_none(), "{id} waits to read twice");
        if let Some(high) = reading.high {
            self.seen.insert((high, dated));
        }
        let before = self.waiting.insert(dated, Waiting { reading, blocked_by: None });
        assert!(before.is_none(), "{id} waits to read twice");
        self.unblocked.insert(dated);
        if let Some(transaction) = blocked_by {
            self.block(dated, transaction);
        }
    }

    /// It waits no longer.
    pub(super) fn end(&mut self, id: TransactionId) {
        let Some(timestamp) = self.timestamps.remove(&id) else { panic!("{id} does not wait to read") };
        let dated = (timestamp, id);
        let Some(waiting) = self.waiting.remove(&dated) else {
            panic!("{id} waits to read without its place");
        };
        if let Some(high) = waiting.reading.high {
            self.seen.remove(&(high, dated));
        }
        self.unblocked.remove(&dated);
        if let Some(transaction) = waiting.blocked_by
            && let Some(blocked) = self.blocked.get_mut(&transaction)
        {
            blocked.remove(&dated);
            if blocked.is_empty() {
                self.blocked.remove(&transaction);
            }
        }
    }

    /// A read has met a lock of this transaction.
    pub(super) fn block(&mut self, dated: Dated, transaction: TransactionId) {
        let Some(waiting) = self.waiting.get_mut(&dated) else { return };
        assert!(waiting.blocked_by.is_none(), "{} is looked at, and blocked", dated.1);
        waiting.blocked_by = Some(transaction);
        self.unblocked.remove(&dated);
        self.blocked.entry(transaction).or_default().insert(dated);
    }

    /// A transaction has ended: reads that it has blocked are looked at again.
    pub(super) fn unblock(&mut self, transaction: TransactionId) {
        for dated in self.blocked.remove(&transaction).into_iter().flatten() {
            if let Some(waiting) = self.waiting.get_mut(&dated) {
                waiting.blocked_by = None;
            }
            self.unblocked.insert(dated);
        }
    }

    /// All locks are given back.
    pub(super) fn unblock_all(&mut self) {
        let transactions: Vec<TransactionId> = self.blocked.keys().copied().collect();
        transactions.into_iter().for_each(|transaction| self.unblock(transaction));
    }

    /// The first one that is not blocked.
    pub(super) fn first_unblocked(&self) -> Option<Dated> {
        self.unblocked.first().copied()
    }

    /// The first one that may be read beneath a timestamp, as its client has seen nothing from there on; of those at most at another.
    pub(super) fn first_seen_beneath(&self, timestamp: ClockTime, at_most: ClockTime) -> Option<Dated> {
        let seen = self.seen.range(..(timestamp, Dated::default()));
        seen.map(|(_, dated)| *dated).find(|(timestamp, _)| *timestamp <= at_most)
    }

    /// The transactions that block something.
    pub(super) fn blockers(&self) -> impl Iterator<Item = TransactionId> + '_ {
        self.blocked.keys().copied()
    }

    /// Asserts that each read waits once.
    ///
    /// # Panics
    /// If one does not.
    pub(super) fn assert_sound(&self) {
        assert!(self.waiting.len() == self.timestamps.len(), "each read waits for one timestamp");
        for (id, timestamp) in &self.timestamps {
            assert!(self.waiting.contains_key(&(*timestamp, *id)), "{id} waits to read without its place");
        }
        let blocked: usize = self.blocked.values().map(BTreeSet::len).sum();
        assert!(self.unblocked.len() + blocked == self.waiting.len(), "a read is blocked, or it is not");
        let mut earlier = 0;
        for (dated, Waiting { reading, blocked_by }) in &self.waiting {
            let is_blocked = |by| self.blocked.get(&by).is_some_and(|blocked| blocked.contains(dated));
            let is_known = blocked_by.map_or_else(|| self.unblocked.contains(dated), is_blocked);
            assert!(is_known, "{} is never looked at again", dated.1);
            earlier += usize::from(reading.high.is_some_and(|high| self.seen.contains(&(high, *dated))));
        }
        assert!(earlier == self.seen.len(), "what may be read earlier waits");
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::ClientId;

    use super::*;

    fn id(sequence: u64) -> TransactionId {
        TransactionId { client: ClientId(1), sequence, attempt: 0 }
    }

    fn at(micros: u64) -> ClockTime {
        ClockTime::from_micros(micros)
    }

    fn reading(high: Option<u64>) -> Reading {
        Reading { operation: Value::new(), high: high.map(at), since: Instant::START }
    }

    #[test]
    fn a_blocked_read_is_looked_at_once_its_blocker_has_ended() {
        let mut reads = Reads::default();
        reads.begin(id(1), at(5), reading(None), Some(id(9)));
        reads.begin(id(2), at(7), reading(None), None);
        reads.assert_sound();
        assert_eq!(reads.first(), Some((at(5), id(1))));
        assert_eq!(reads.first_unblocked(), Some((at(7), id(2))));
        reads.block((at(7), id(2)), id(8));
        assert_eq!(reads.first_unblocked(), None);
        reads.unblock(id(7));
        assert_eq!(reads.first_unblocked(), None, "another has ended");
        reads.unblock(id(9));
        reads.assert_sound();
        assert_eq!(reads.first_unblocked(), Some((at(5), id(1))));
        reads.end(id(1));
        reads.unblock_all();
        reads.assert_sound();
        assert_eq!((reads.first_unblocked(), reads.len()), (Some((at(7), id(2))), 1));
        reads.end(id(2));
        reads.assert_sound();
        assert_eq!((reads.len(), reads.first(), reads.last()), (0, None, None));
    }

    #[test]
    fn what_ends_while_it_is_blocked_leaves_nothing_behind() {
        let mut reads = Reads::default();
        reads.begin(id(1), at(5), reading(Some(3)), Some(id(9)));
        assert_eq!(reads.blockers().collect::<Vec<_>>(), [id(9)]);
        reads.end(id(1));
        reads.assert_sound();
        assert_eq!(reads.blockers().count(), 0);
    }

    #[test]
    fn reads_are_earlier_by_what_their_clients_have_seen() {
        let mut reads = Reads::default();
        reads.begin(id(1), at(9), reading(Some(2)), Some(id(9)));
        reads.begin(id(2), at(8), reading(Some(4)), None);
        reads.begin(id(3), at(7), reading(None), None);
        let table = [(2, 9, None), (3, 9, Some((at(9), id(1)))), (5, 8, Some((at(8), id(2)))), (5, 7, None)];
        for (beneath, at_most, expected) in table {
            assert_eq!(reads.first_seen_beneath(at(beneath), at(at_most)), expected, "{beneath}, {at_most}");
        }
        assert_eq!(
            [9, 8, 7].map(|timestamp| reads.last_beneath(at(timestamp))),
            [Some(at(8)), Some(at(7)), None]
        );
    }
}
