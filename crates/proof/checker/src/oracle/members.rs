//! Which transactions an execution is made of.

use crate::history::{Action, History, KeyId, Op, Outcome, Seen, Txn, Value};

use super::{Keys, key_bit};

/// A possible fate of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It committed.
    Committed,
    /// It aborted, or was abandoned after its acknowledgement, which is judged alike.
    Aborted,
    /// It committed at some time, or never happened.
    Either,
}

/// One transaction that committed, or may have.
pub(super) struct Member<'a> {
    pub(super) txn: &'a Txn,
    pub(super) ops: &'a [Op],
    /// Its outcome is unknown: an execution may leave it out.
    pub(super) is_optional: bool,
    /// The keys of which two concurrent writers conflict: lists that it appends to and registers that it
    /// writes. Updates of counting sets never conflict.
    pub(super) writes: Keys,
}

impl<'a> Member<'a> {
    pub(super) fn new(history: &'a History, txn: &'a Txn, fate: Fate) -> Self {
        let ops = history.ops(txn);
        let written = ops.iter().filter(|op| op.action.written().is_some());
        let writes = written.fold(0, |keys, op| keys | key_bit(op.key));
        Member { txn, ops, is_optional: fate == Fate::Either, writes }
    }

    /// Whether this transaction was acknowledged before the other one was invoked. One of unknown outcome
    /// takes effect at any later time, so it is before nobody.
    pub(super) fn completed_before(&self, other: &Member<'_>) -> bool {
        !self.is_optional && self.txn.completion.is_some_and(|completion| completion < other.txn.invoke)
    }
}

/// The transactions that committed or may have, in the order of the history.
pub(super) fn members<'a>(history: &'a History, fates: &[Fate]) -> Vec<Member<'a>> {
    let txns = history.txns().iter().zip(fates).filter(|(_, fate)| **fate != Fate::Aborted);
    txns.map(|(txn, fate)| Member::new(history, txn, *fate)).collect()
}

/// The fates of all transactions. A lost transaction, and what read from it at its site, counts as aborted.
///
/// Returns none if a read of a counting set may or may not have read from a lost transaction.
pub(super) fn fates(history: &History) -> Option<Vec<Fate>> {
    let mut lost: Vec<bool> = history.txns().iter().map(|txn| txn.lost).collect();
    let mut is_spreading = lost.contains(&true);
    while is_spreading {
        is_spreading = false;
        for reader in 0..lost.len() {
            let txn = &history.txns()[reader];
            if !lost[reader] && txn.outcome == Outcome::Committed && reads_from(history, reader, &lost)? {
                (lost[reader], is_spreading) = (true, true);
            }
        }
    }
    let fate = |(txn, lost): (&Txn, bool)| match txn.outcome {
        Outcome::Committed if !lost => Fate::Committed,
        Outcome::Committed | Outcome::Aborted => Fate::Aborted,
        Outcome::Unknown => Fate::Either,
    };
    Some(history.txns().iter().zip(lost).map(fate).collect())
}

/// Whether a transaction read from one of the lost ones of its site, if that can be told.
fn reads_from(history: &History, reader: usize, lost: &[bool]) -> Option<bool> {
    let txn = &history.txns()[reader];
    let is_lost_here = |writer: usize| lost[writer] && history.txns()[writer].site == txn.site;
    let has_lost_writer = |key: KeyId, value: Value| {
        let mut writers = (0..lost.len()).filter(|&writer| is_lost_here(writer));
        writers.any(|writer| {
            let mut ops = history.ops(&history.txns()[writer]).iter();
            ops.any(|op| op.key == key && op.action.written() == Some(value))
        })
    };
    let mut found = false;
    for (position, op) in history.ops(txn).iter().enumerate() {
        match op.action {
            Action::Read(Seen::Register(value)) => found |= has_lost_writer(op.key, value),
            Action::Read(Seen::List(list)) => {
                found |= history.list(op.key, list).iter().any(|&value| has_lost_writer(op.key, value));
            }
            Action::Read(seen @ (Seen::Set(_) | Seen::Initial)) => {
                let own = &history.ops(txn)[..position];
                found |= set_reads_from(history, (reader, own), op.key, seen, &is_lost_here)?;
            }
            _ => {}
        }
    }
    Some(found)
}

/// The same for one read of a counting set: it read from a lost transaction if updates of lost ones make up a
/// count that it found. That can be told only if nobody else updated the element.
fn set_reads_from(
    history: &History,
    (reader, own): (usize, &[Op]),
    key: KeyId,
    seen: Seen,
    is_lost_here: &dyn Fn(usize) -> bool,
) -> Option<bool> {
    let net = |ops: &[Op], element: Value| -> Option<i64> {
        let changes = ops.iter().filter(|op| op.key == key).filter_map(|op| change(op.action));
        let mut of_element = changes.filter(|(changed, _)| *changed == element).map(|(_, by)| by).peekable();
        of_element.peek()?;
        Some(of_element.sum())
    };
    let others: Vec<usize> = (0..history.txn_count()).filter(|&other| other != reader).collect();
    let ops_of = |at: usize| history.ops(&history.txns()[at]);
    let lost_ops = others.iter().filter(|&&at| is_lost_here(at)).flat_map(|&at| ops_of(at));
    let mut elements: Vec<Value> =
        lost_ops.filter(|op| op.key == key).filter_map(|op| change(op.action)).map(|(of, _)| of).collect();
    elements.sort_unstable();
    elements.dedup();
    let mut found = false;
    for element in elements {
        let (lost, kept): (Vec<usize>, Vec<usize>) = others
            .iter()
            .filter(|&&at| net(ops_of(at), element).is_some())
            .partition(|&&at| is_lost_here(at));
        if !kept.is_empty() {
            return None;
        }
        let held = match seen {
            Seen::Set(set) => history.set(set).iter().find(|(held, _)| *held == element),
            _ => None,
        };
        let found_there = held.map_or(0, |&(_, count)| count) - net(own, element).unwrap_or(0);
        let mut sums = vec![0];
        for at in lost {
            let by = net(ops_of(at), element).unwrap_or(0);
            sums.extend(sums.clone().into_iter().map(|sum| sum + by));
        }
        found |= found_there != 0 && sums.contains(&found_there);
    }
    Some(found)
}

/// The change that an operation makes to the count of an element of a counting set.
pub(super) fn change(action: Action) -> Option<(Value, i64)> {
    match action {
        Action::Add(element) => Some((element, 1)),
        Action::Remove(element) => Some((element, -1)),
        _ => None,
    }
}
