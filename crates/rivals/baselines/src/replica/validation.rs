//! Optimistic concurrency control: may a transaction commit as it has read?
//!
//! A transaction is let in if what it has read is still the newest, no prepared transaction is about to write it, and no
//! prepared transaction has read or is about to write what it writes. One that is let in keeps all that conflict out until it
//! has ended. So conflicting transactions are ordered by the instants at which all their participants held them, and these
//! lie between begin and outcome: that order is strict, whatever timestamps say. Timestamps follow it, because each is above
//! all that its shards have seen.

use quorate_core::{Key, KeyRange, Transaction, TransactionId};
use quorate_store::{PreparedSet, Versions};

use crate::rules::{Plant, Rules};

/// The state that a transaction is validated against.
pub(super) struct Validation<'a> {
    pub(super) versions: &'a Versions,
    /// The transactions that are prepared durably, and those that may become so.
    pub(super) prepared: [&'a PreparedSet; 2],
    /// The transactions that are certain to commit before anything that is appended from now on.
    pub(super) committing: &'a PreparedSet,
    pub(super) rules: Rules,
}

impl Validation<'_> {
    /// True if a transaction may be prepared.
    pub(super) fn admits(&self, id: TransactionId, part: &Transaction) -> bool {
        self.is_current(id, part)
            && !self.is_overtaken(id, part)
            && part.writes.iter().all(|write| self.may_write(id, &write.key))
    }

    /// True if something that a transaction has read is certain to be written before it could commit.
    fn is_overtaken(&self, id: TransactionId, part: &Transaction) -> bool {
        let overtakes = |key| self.committing.other_writers(key, id).next().is_some();
        let overtakes_in = |range| self.committing.other_writers_in(range, id).next().is_some();
        !self.rules.has(Plant::UnstableOverlooked)
            && (part.reads.iter().any(|read| overtakes(&read.key)) || part.ranges.iter().any(overtakes_in))
    }

    /// True if what a transaction has read is the newest, and stays so for now.
    pub(super) fn is_current(&self, id: TransactionId, part: &Transaction) -> bool {
        part.reads.iter().all(|read| {
            self.versions.newest_timestamp(&read.key) == read.version && !self.is_being_written(&read.key, id)
        }) && (self.rules.has(Plant::UnvalidatedAbsence)
            || part.ranges.iter().all(|range| self.is_as_scanned(id, part, range)))
    }

    /// True if somebody else is about to write a key.
    pub(super) fn is_being_written(&self, key: &Key, id: TransactionId) -> bool {
        !self.rules.has(Plant::PreparedOverlooked)
            && self.prepared.iter().any(|prepared| prepared.other_writers(key, id).next().is_some())
    }

    /// True if no key has come to life in a range since it was scanned, and none is about to.
    fn is_as_scanned(&self, id: TransactionId, part: &Transaction, range: &KeyRange) -> bool {
        let is_being_written = !self.rules.has(Plant::PreparedOverlooked)
            && self.prepared.iter().any(|prepared| prepared.other_writers_in(range, id).next().is_some());
        let mut live = self.versions.range(range).filter(|(_, version)| !version.is_deletion());
        !is_being_written && live.all(|(key, _)| part.version_read(key).is_some())
    }

    fn may_write(&self, id: TransactionId, key: &Key) -> bool {
        !self.is_being_written(key, id) && !self.is_read_held(key, id)
    }

    /// True if somebody else who is prepared has read a key.
    fn is_read_held(&self, key: &Key, id: TransactionId) -> bool {
        !self.rules.has(Plant::ReadsNotHeld)
            && !self.rules.has(Plant::PreparedOverlooked)
            && self.prepared.iter().any(|prepared| prepared.other_readers(key, id).next().is_some())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quorate_core::{ClientId, Instant, ReadVersion, Timestamp, Value, Write};
    use quorate_store::Prepared;

    use super::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp { micros, client: ClientId(1) }
    }

    fn id(sequence: u64) -> TransactionId {
        TransactionId { client: ClientId(1), sequence, attempt: 0 }
    }

    fn part(reads: &[(&str, u64)], writes: &[&str], ranges: &[(&str, &str)]) -> Transaction {
        let version = |micros| if micros == 0 { Timestamp::ZERO } else { at(micros) };
        Transaction {
            reads: reads
                .iter()
                .map(|(key, micros)| ReadVersion {
                    key: Key::from(*key),
                    version: version(*micros),
                    deleted: false,
                })
                .collect(),
            writes: writes.iter().map(|key| Write { key: Key::from(*key), value: None }).collect(),
            ranges: ranges
                .iter()
                .map(|(from, to)| KeyRange { from: Key::from(*from), to: Some(Key::from(*to)) })
                .collect(),
            ..Transaction::default()
        }
    }

    #[test]
    fn who_is_let_in_as_a_table() {
        let mut versions = Versions::new();
        versions.install(&Key::from("a"), at(10), Some(Value::new()));
        versions.install(&Key::from("dead"), at(10), None);
        let mut prepared = PreparedSet::new();
        let holds = part(&[("read", 0)], &["written"], &[("s", "t")]);
        let since = Instant::START;
        prepared.insert(id(1), Prepared { transaction: Arc::new(holds), timestamp: at(20), since });
        let none = PreparedSet::new();
        let table = [
            // A read is let in if it is of the newest version and nobody is about to write the key.
            (part(&[("a", 10)], &[], &[]), true),
            (part(&[("a", 9)], &[], &[]), false),
            (part(&[("a", 0)], &[], &[]), false),
            (part(&[("absent", 0)], &[], &[]), true),
            (part(&[("dead", 10)], &[], &[]), true),
            (part(&[("written", 0)], &[], &[]), false),
            (part(&[("read", 0)], &[], &[]), true),
            // A write is let in if nobody holds the key, by itself or in a range.
            (part(&[], &["a"], &[]), true),
            (part(&[], &["read"], &[]), false),
            (part(&[], &["written"], &[]), false),
            (part(&[], &["s1"], &[]), false),
            (part(&[], &["t"], &[]), true),
            // A range is let in if every key in it that lives was read and nobody is about to write another.
            (part(&[("a", 10)], &[], &[("a", "b")]), true),
            (part(&[], &[], &[("a", "b")]), false),
            (part(&[], &[], &[("b", "e")]), true),
            (part(&[], &[], &[("w", "x")]), false),
        ];
        for prepared in [[&prepared, &none], [&none, &prepared]] {
            let committing = &none;
            let validation = Validation { versions: &versions, prepared, committing, rules: Rules::SOUND };
            for (part, expected) in &table {
                assert_eq!(validation.admits(id(2), part), *expected, "{part:?}");
            }
            assert!(validation.admits(id(1), &part(&[], &["written", "read"], &[])), "not in its own way");
        }
        // A transaction that is certain to commit, and holds nothing, is in the way only of one that has read what it writes.
        let committing = &prepared;
        let validation =
            Validation { versions: &versions, prepared: [&none; 2], committing, rules: Rules::SOUND };
        let table = [
            (part(&[("written", 0)], &[], &[]), false),
            (part(&[("read", 0)], &[], &[]), true),
            (part(&[], &["written", "read", "s1"], &[]), true),
            (part(&[], &[], &[("w", "x")]), false),
            (part(&[], &[], &[("x", "y")]), true),
        ];
        for (part, expected) in &table {
            assert_eq!(validation.admits(id(2), part), *expected, "{part:?}");
            assert!(validation.is_current(id(2), part), "until it is stable: {part:?}");
        }
    }
}
