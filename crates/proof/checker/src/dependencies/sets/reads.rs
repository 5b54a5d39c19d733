//! The reads of counting sets by one transaction, with its own updates taken off.

use std::collections::BTreeMap;

use crate::dependencies::sets::is_set;
use crate::explain::Words;
use crate::history::{Action, History, KeyId, Op, Seen, TxnId, Value};

/// The counts of a set as others made them, at the reader's snapshot. Elements that are absent count zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SetRead {
    pub(crate) key: KeyId,
    pub(crate) counts: BTreeMap<Value, i64>,
}

/// Two reads of a set by one transaction that its own updates do not explain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BrokenCount {
    key: KeyId,
    element: Value,
    first: i64,
    then: i64,
}

impl BrokenCount {
    /// The contradiction in words.
    pub(crate) fn describe(&self, history: &History, txn: TxnId) -> String {
        let &BrokenCount { key, element, first, then } = self;
        let element = history.element(element);
        format!(
            "{} found others' updates of {element} in {} to sum up to {first} and later to {then}.",
            Words::new(history).txn(txn),
            history.key(key)
        )
    }
}

/// The counts of others that a transaction with these operations saw, set by set, in the order of its first reads.
///
/// # Errors
///
/// The first count that disagrees with an earlier read of the same transaction and its own updates.
pub(crate) fn external(history: &History, ops: &[Op]) -> Result<Vec<SetRead>, BrokenCount> {
    let mut reads: Vec<SetRead> = Vec::new();
    for read in each(history, ops) {
        match reads.iter().find(|first| first.key == read.key) {
            None => reads.push(read),
            Some(first) => agree(first, &read.counts)?,
        }
    }
    Ok(reads)
}

/// Each read of a set, without the own updates before it.
pub(crate) fn each(history: &History, ops: &[Op]) -> Vec<SetRead> {
    let mut own: BTreeMap<(KeyId, Value), i64> = BTreeMap::new();
    let mut reads: Vec<SetRead> = Vec::new();
    for op in ops {
        let seen = match op.action {
            Action::Add(element) => {
                *own.entry((op.key, element)).or_default() += 1;
                continue;
            }
            Action::Remove(element) => {
                *own.entry((op.key, element)).or_default() -= 1;
                continue;
            }
            Action::Read(Seen::Set(set)) => history.set(set),
            Action::Read(Seen::Initial) if is_set(history, op.key) => &[],
            _ => continue,
        };
        let mut counts: BTreeMap<Value, i64> = seen.iter().copied().collect();
        for (&(_, element), change) in own.range((op.key, Value::MIN)..=(op.key, Value::MAX)) {
            *counts.entry(element).or_default() -= change;
        }
        counts.retain(|_, count| *count != 0);
        reads.push(SetRead { key: op.key, counts });
    }
    reads
}

fn agree(first: &SetRead, then: &BTreeMap<Value, i64>) -> Result<(), BrokenCount> {
    let count = |counts: &BTreeMap<Value, i64>, element| counts.get(element).copied().unwrap_or(0);
    let mut elements = first.counts.keys().chain(then.keys());
    let broken = elements.find(|element| count(&first.counts, element) != count(then, element));
    match broken {
        None => Ok(()),
        Some(&element) => Err(BrokenCount {
            key: first.key,
            element,
            first: count(&first.counts, &element),
            then: count(then, &element),
        }),
    }
}
