//! Replaying reads: a reader must find exactly the versions that its snapshot holds, and its own writes.

use std::collections::BTreeMap;

use crate::dependencies::{Fate, SetUpdates};
use crate::explain::Words;
use crate::history::{Action, History, KeyId, KeyType, Op, Seen, TxnId, Value};
use crate::report::{Anomalies, AnomalyKind};
use crate::whitebox::effective;

/// The transactions that each one sees, as the servers say.
pub(super) trait Sight {
    /// The kind of anomaly for a broken rule of this check.
    const KIND: AnomalyKind;

    /// Whether the snapshot of a reader holds the writes of a committed transaction. Along the versions of a
    /// key this must change only once, from true to false.
    fn sees(&self, reader: TxnId, writer: TxnId) -> bool;

    /// The snapshot of a reader in words, such as "at timestamp 30".
    fn snapshot(&self, reader: TxnId) -> String;

    /// The commit of a writer in words, such as "at the earlier timestamp 20".
    fn commit(&self, writer: TxnId) -> String;

    /// That the snapshot of a reader holds no further version, in words.
    fn nothing_else(&self) -> &'static str;
}

/// A version of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) txn: TxnId,
    pub(super) value: Value,
}

/// The versions of all keys, and what reads must find of them.
pub(super) struct Replay<'a> {
    history: &'a History,
    /// Per key its versions in the order of the servers, those of one transaction in program order.
    versions: Vec<Vec<Version>>,
    updates: SetUpdates,
    /// Updates of counting sets whose transactions nobody placed: of unknown outcome, and without facts.
    unplaced: SetUpdates,
}

impl<'a> Replay<'a> {
    /// Orders the versions by the rank of their transactions.
    pub(super) fn new<R: Ord>(history: &'a History, fates: &[Fate], rank: impl Fn(TxnId) -> R) -> Self {
        let mut order: Vec<TxnId> = effective(history, fates).map(|(txn, _)| txn).collect();
        order.sort_by_cached_key(|&txn| (rank(txn), txn));
        let mut versions: Vec<Vec<Version>> = vec![Vec::new(); history.key_count()];
        for txn in order {
            for op in history.ops(history.txn(txn)) {
                if let Some(value) = op.action.written() {
                    versions[op.key.index()].push(Version { txn, value });
                }
            }
        }
        let updates = SetUpdates::new(history, |txn| fates[txn.index()].is_effective());
        let unplaced = SetUpdates::new(history, |txn| fates[txn.index()] == Fate::Dropped);
        Replay { history, versions, updates, unplaced }
    }

    /// The versions of a key.
    pub(super) fn versions(&self, key: KeyId) -> &[Version] {
        &self.versions[key.index()]
    }

    /// Pairs of transactions of which the second wrote the next version of a key after the first.
    pub(super) fn successors(&self) -> impl Iterator<Item = (KeyId, TxnId, TxnId)> {
        (0..).map(KeyId).zip(&self.versions).flat_map(|(key, versions)| {
            let pairs = versions.windows(2).filter(|pair| pair[0].txn != pair[1].txn);
            pairs.map(move |pair| (key, pair[0].txn, pair[1].txn))
        })
    }

    /// Replays the reads of all committed transactions. Returns a reason if a count stays open because a
    /// transaction that may have contributed is nowhere.
    pub(super) fn reads<S: Sight>(
        &self,
        fates: &[Fate],
        sight: &S,
        anomalies: &mut Anomalies,
    ) -> Option<String> {
        let mut reason = None;
        for (id, txn) in (0..).map(TxnId).zip(self.history.txns()) {
            if fates[id.index()] != Fate::Committed {
                continue;
            }
            let mut own = Own::default();
            for op in self.history.ops(txn) {
                let Action::Read(seen) = op.action else {
                    own.add(op);
                    continue;
                };
                let found = match self.history.key_type(op.key) {
                    None => None,
                    Some(KeyType::List) => self.list(sight, id, op.key, seen, &own),
                    Some(KeyType::Register) => self.register(sight, id, op.key, seen, &own),
                    Some(KeyType::CountingSet) => match self.set(sight, id, op.key, seen, &own) {
                        Err(why) => {
                            reason.get_or_insert(why);
                            None
                        }
                        Ok(found) => found,
                    },
                };
                if let Some(mismatch) = found {
                    anomalies.add(self.history, S::KIND, &mismatch.txns(id), || {
                        mismatch.describe(self.history, sight, id, op.key)
                    });
                }
            }
        }
        reason
    }

    /// The versions that a reader must find.
    fn due<S: Sight>(&self, sight: &S, reader: TxnId, key: KeyId) -> &[Version] {
        let versions = self.versions(key);
        &versions[..versions.partition_point(|version| sight.sees(reader, version.txn))]
    }

    fn list<S: Sight>(
        &self,
        sight: &S,
        reader: TxnId,
        key: KeyId,
        seen: Seen,
        own: &Own,
    ) -> Option<Mismatch> {
        let seen = match seen {
            Seen::List(list) => self.history.list(key, list),
            _ => &[],
        };
        let due = self.due(sight, reader, key);
        let own = own.written(key).iter().map(|&value| Version { txn: reader, value });
        let mut due = due.iter().copied().chain(own);
        let mut rest = seen.iter();
        loop {
            match (due.next(), rest.next()) {
                (None, None) => return None,
                (Some(due), Some(&seen)) if due.value == seen => {}
                (due, _) => return Some(Mismatch { seen: Words::list(seen), due }),
            }
        }
    }

    fn register<S: Sight>(
        &self,
        sight: &S,
        reader: TxnId,
        key: KeyId,
        seen: Seen,
        own: &Own,
    ) -> Option<Mismatch> {
        let seen = match seen {
            Seen::Register(value) => Some(value),
            _ => None,
        };
        let own = own.written(key).last().map(|&value| Version { txn: reader, value });
        let due = own.or_else(|| self.due(sight, reader, key).last().copied());
        let spell =
            |value: Option<Value>| value.map_or("the initial value".to_string(), |value| value.to_string());
        (seen != due.map(|due| due.value)).then(|| Mismatch { seen: spell(seen), due })
    }

    fn set<S: Sight>(
        &self,
        sight: &S,
        reader: TxnId,
        key: KeyId,
        seen: Seen,
        own: &Own,
    ) -> Result<Option<Mismatch>, String> {
        let seen: BTreeMap<Value, i64> = match seen {
            Seen::Set(set) => self.history.set(set).iter().copied().collect(),
            _ => BTreeMap::new(),
        };
        let mut due = own.counts(key);
        for (element, updates) in self.updates.elements(key) {
            let visible = updates.iter().filter(|update| sight.sees(reader, update.txn));
            *due.entry(element).or_default() += visible.map(|update| update.change).sum::<i64>();
        }
        due.retain(|_, count| *count != 0);
        let count = |counts: &BTreeMap<Value, i64>, element| counts.get(element).copied().unwrap_or(0);
        let mut elements = seen.keys().chain(due.keys());
        let Some(element) = elements.find(|element| count(&seen, element) != count(&due, element)) else {
            return Ok(None);
        };
        let name = self.history.key(key);
        if !self.unplaced.find(key, *element).is_empty() {
            return Err(format!(
                "A transaction of unknown outcome, about which the servers say nothing, updated {element} in {name}."
            ));
        }
        let seen = format!("the count {} for {element}", count(&seen, element));
        let due = Version { txn: reader, value: count(&due, element) };
        Ok(Some(Mismatch { seen, due: Some(due) }))
    }
}

/// The writes of a transaction so far.
#[derive(Debug, Default)]
struct Own {
    written: BTreeMap<KeyId, Vec<Value>>,
    counts: BTreeMap<KeyId, BTreeMap<Value, i64>>,
}

impl Own {
    fn add(&mut self, op: &Op) {
        let (element, change) = match op.action {
            Action::Append(value) | Action::Write(value) => {
                return self.written.entry(op.key).or_default().push(value);
            }
            Action::Add(element) => (element, 1),
            Action::Remove(element) => (element, -1),
            Action::Read(_) => return,
        };
        *self.counts.entry(op.key).or_default().entry(element).or_default() += change;
    }

    fn written(&self, key: KeyId) -> &[Value] {
        self.written.get(&key).map_or(&[], |values| values)
    }

    fn counts(&self, key: KeyId) -> BTreeMap<Value, i64> {
        self.counts.get(&key).cloned().unwrap_or_default()
    }
}

/// A read that found something else than it must.
struct Mismatch {
    /// The version that it found, in words.
    seen: String,
    /// The version that it should have found and did not, or the due count; none if it should have found
    /// less.
    due: Option<Version>,
}

impl Mismatch {
    fn txns(&self, reader: TxnId) -> Vec<TxnId> {
        let writer = self.due.map(|due| due.txn).filter(|&writer| writer != reader);
        std::iter::once(reader).chain(writer).collect()
    }

    fn describe(&self, history: &History, sight: &impl Sight, reader: TxnId, key: KeyId) -> String {
        let words = Words::new(history);
        let is_set = history.key_type(key) == Some(KeyType::CountingSet);
        let expected = match self.due {
            Some(due) if is_set => format!("the updates that it must see sum up to {}", due.value),
            Some(due) if due.txn == reader => format!("it wrote {} itself", due.value),
            Some(due) => format!("{} wrote {} {}", words.txn(due.txn), due.value, sight.commit(due.txn)),
            None => sight.nothing_else().to_string(),
        };
        let (place, key) = (sight.snapshot(reader), history.key(key));
        format!("{}, {place}, read {} of {key}, but {expected}.", words.txn(reader), self.seen)
    }
}
