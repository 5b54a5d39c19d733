//! Prepared transactions, and which of them have come or gone lately.
//!
//! A request that waits at a replica waits for such a change. If all requests that wait were looked at after every message, that would
//! cost more than the messages do; so only what a change concerns is.

use std::ops::Deref;
use std::sync::Arc;

use quorate_core::{Transaction, TransactionId};
use quorate_store::{Prepared, PreparedSet};

/// A set of prepared transactions that tells what has changed in it.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    set: PreparedSet,
    changed: Vec<Change>,
}

/// A transaction that holds its keys since this was last asked, or holds them no longer.
pub(crate) type Change = (TransactionId, Arc<Transaction>);

impl Watched {
    /// Adds a transaction, or replaces it.
    pub(crate) fn insert(&mut self, id: TransactionId, prepared: Prepared) {
        if let Some(replaced) = self.set.entry(id) {
            self.changed.push((id, replaced.transaction.clone()));
        }
        self.changed.push((id, prepared.transaction.clone()));
        self.set.insert(id, prepared);
    }

    /// Removes a transaction, if it is there.
    pub(crate) fn remove(&mut self, id: TransactionId) {
        if let Some(removed) = self.set.remove(id) {
            self.changed.push((id, removed.transaction));
        }
    }

    /// Removes them all.
    pub(crate) fn clear(&mut self) {
        for id in self.set.ids() {
            self.remove(id);
        }
        assert!(self.set.is_empty(), "{} transactions hold their keys all the same", self.set.len());
    }

    /// The changes since this was last asked, in order.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changed)
    }
}

impl Deref for Watched {
    type Target = PreparedSet;

    fn deref(&self) -> &PreparedSet {
        &self.set
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::{ClientId, Instant, Key, Timestamp, Write};

    use super::*;

    fn id(sequence: u64) -> TransactionId {
        TransactionId { client: ClientId(1), sequence, attempt: 0 }
    }

    fn prepared(key: &'static str) -> Prepared {
        let writes = vec![Write { key: Key::from(key), value: None }];
        let transaction = Arc::new(Transaction { writes, ..Transaction::default() });
        Prepared { transaction, timestamp: Timestamp::ZERO, since: Instant::START }
    }

    /// Each change: the transaction, and the key that it holds or held.
    fn changes(set: &mut Watched) -> Vec<(u64, Key)> {
        let key = |transaction: &Transaction| transaction.writes[0].key.clone();
        set.take_changes().iter().map(|(id, contents)| (id.sequence, key(contents))).collect()
    }

    #[test]
    fn every_change_is_told_once() {
        let mut set = Watched::default();
        set.insert(id(1), prepared("a"));
        set.insert(id(2), prepared("b"));
        assert_eq!(changes(&mut set), [(1, Key::from("a")), (2, Key::from("b"))]);
        assert!(changes(&mut set).is_empty());
        set.insert(id(1), prepared("c"));
        assert_eq!(
            changes(&mut set),
            [(1, Key::from("a")), (1, Key::from("c"))],
            "what it held is free again"
        );
        set.remove(id(1));
        set.remove(id(1));
        assert_eq!(changes(&mut set), [(1, Key::from("c"))]);
        set.insert(id(3), prepared("d"));
        set.clear();
        assert!(set.is_empty());
        let told = [(3, Key::from("d")), (2, Key::from("b")), (3, Key::from("d"))];
        assert_eq!(changes(&mut set), told);
    }
}
