//! The versions of a node's transactions that are not final everywhere, and their readers: the paper's *cache partition* (section 6.5),
//! for all keys alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_core::{ClockTime, Key, KeyRange, TransactionId, Value, Write};
use quorate_store::ReadTimestamps;

use crate::message::newest_of;

/// How far a transaction of the node has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its local certification is under way; it has this snapshot.
    Certifying(ClockTime),
    /// It has committed locally at this timestamp.
    Local(ClockTime),
    /// The same, and its decision is on its way.
    Deciding(ClockTime),
    /// It has committed locally at the first, and is final at the second.
    Final(ClockTime, ClockTime),
}

/// A version of a key.
#[derive(Clone, Debug)]
pub(super) struct Cached {
    pub(super) transaction: TransactionId,
    pub(super) stage: Stage,
    pub(super) value: Option<Value>,
}

/// A final transaction, and what it has written.
type Finished = (TransactionId, Arc<[Write]>);

/// The cache of a node.
#[derive(Debug, Default)]
pub(super) struct Cache {
    by_key: BTreeMap<Key, Vec<Cached>>,
    pub(super) readers: ReadTimestamps,
    /// Final transactions whose versions are still here, by when they became final.
    finals: BTreeMap<u64, Vec<Finished>>,
}

impl Cache {
    pub(super) fn of_key(&self, key: &[u8]) -> &[Cached] {
        self.by_key.get(key).map_or(&[], Vec::as_slice)
    }

    /// The keys of a range that were written, ascending.
    pub(super) fn keys_in(&self, range: &KeyRange) -> Vec<Key> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        if range.is_empty() {
            return Vec::new();
        }
        let to = range.to.as_ref().map_or(Unbounded, Excluded);
        self.by_key.range::<Key, _>((Included(&range.from), to)).map(|(key, _)| key.clone()).collect()
    }

    /// The latest snapshot that has read a key here.
    pub(super) fn reader_of(&self, key: &Key) -> ClockTime {
        ClockTime::from_micros(self.readers.of(key).micros)
    }

    pub(super) fn note_key(&mut self, key: &Key, snapshot: ClockTime) {
        self.readers.read_key(key, newest_of(snapshot));
    }

    pub(super) fn note_range(&mut self, range: &KeyRange, snapshot: ClockTime) {
        self.readers.read_range(range, newest_of(snapshot));
    }

    pub(super) fn insert(&mut self, transaction: TransactionId, snapshot: ClockTime, writes: &[Write]) {
        for write in writes {
            let cached =
                Cached { transaction, stage: Stage::Certifying(snapshot), value: write.value.clone() };
            let versions = self.by_key.entry(write.key.clone()).or_default();
            let is_open = |cached: &Cached| !matches!(cached.stage, Stage::Final(..));
            assert!(
                !versions.iter().any(|cached| cached.transaction == transaction && is_open(cached)),
                "{transaction} has a version of {:?} already, and is certified",
                write.key
            );
            versions.push(cached);
        }
    }

    pub(super) fn set_stage(&mut self, transaction: TransactionId, stage: Stage, writes: &[Write]) {
        for write in writes {
            let versions = self.by_key.get_mut(&write.key).into_iter().flatten();
            let mut is_cached = false;
            for cached in versions.filter(|cached| cached.transaction == transaction) {
                (cached.stage, is_cached) = (stage, true);
            }
            assert!(is_cached, "{transaction} is {stage:?}, and its version of {:?} is gone", write.key);
        }
    }

    pub(super) fn remove(&mut self, transaction: TransactionId, writes: &[Write]) {
        for write in writes {
            if let Some(versions) = self.by_key.get_mut(&write.key) {
                versions.retain(|cached| cached.transaction != transaction);
                if versions.is_empty() {
                    self.by_key.remove(&write.key);
                }
            }
        }
    }

    /// A transaction is final. Its versions stay until every transaction has ended that was open then.
    pub(super) fn finish(
        &mut self,
        transaction: TransactionId,
        stage: Stage,
        writes: &Arc<[Write]>,
        at: u64,
    ) {
        self.set_stage(transaction, stage, writes);
        let last = self.finals.last_key_value().map(|(last, _)| *last);
        assert!(last <= Some(at), "{transaction} is final when {at} have begun, and one was at {last:?}");
        self.finals.entry(at).or_default().push((transaction, Arc::clone(writes)));
    }

    /// Drops final versions that nobody can need who is open: `oldest` is the number of the oldest open transaction.
    pub(super) fn prune(&mut self, oldest: Option<u64>) {
        while let Some(entry) = self.finals.first_entry()
            && oldest.is_none_or(|oldest| *entry.key() < oldest)
        {
            for (transaction, writes) in entry.remove() {
                self.remove(transaction, &writes);
            }
        }
    }

    /// The transactions whose versions are here.
    pub(super) fn transactions(&self) -> impl Iterator<Item = (TransactionId, Stage)> + '_ {
        self.by_key.values().flatten().map(|cached| (cached.transaction, cached.stage))
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::ClientId;

    use super::*;

    /// Two that became final with no transaction begun between them were kept for ever once.
    #[test]
    fn final_versions_go_once_all_have_ended_that_were_open() {
        let mut cache = Cache::default();
        let writes: Arc<[Write]> = Arc::from([Write { key: Key::from("k"), value: None }]);
        let at = ClockTime::from_micros;
        for sequence in 1..=2 {
            let transaction = TransactionId { client: ClientId(1), sequence, attempt: 0 };
            cache.insert(transaction, at(1), &writes);
            cache.finish(transaction, Stage::Final(at(2), at(3)), &writes, 7);
        }
        cache.prune(Some(7));
        assert_eq!(cache.of_key(b"k").len(), 2, "a transaction that began then may have missed them");
        cache.prune(Some(8));
        assert!(cache.of_key(b"k").is_empty());
    }
}
