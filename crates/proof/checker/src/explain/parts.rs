//! Parts of a history: some of its transactions, as if the others had never been.
//!
//! A value that a left-out operation wrote is left out of what the others read. So a part of a history that satisfies a
//! level satisfies it too, and every fault of a part is a fault of the whole:
//!
//! - A value of a list or register that a left-out operation wrote disappears from every list, and a read of
//!   such a register disappears. Values that nobody ever wrote stay.
//! - Which of several adders of one element a counting set shows cannot be told, so the element stays only while all
//!   operations on it do.
//! - Facts that servers told are left out, except commit timestamps.

use std::collections::{BTreeMap, BTreeSet};

use crate::dependencies::WriteIndex;
use crate::history::{
    Action, History, KeyId, MicroOp, Observed, Op, Outcome, RecordedTxn, Recorder, Seen, Session, TxnId,
    Value,
};

/// An operation: its transaction, and its position in it.
pub(super) type OpId = (TxnId, usize);

/// Which part of a history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Selection {
    /// Sorted.
    pub(super) txns: Vec<TxnId>,
    /// Operations of these transactions that are left out.
    pub(super) without: BTreeSet<OpId>,
}

/// A history of which parts are wanted.
pub(super) struct Whole<'a> {
    pub(super) history: &'a History,
    writes: WriteIndex,
    /// Per element of a counting set the operations on it.
    updates: BTreeMap<(KeyId, Value), Vec<OpId>>,
}

/// An event of the selected transactions, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    Invoke,
    Speculate,
    Complete,
    Lose,
}

impl<'a> Whole<'a> {
    pub(super) fn new(history: &'a History) -> Self {
        let mut updates: BTreeMap<_, Vec<OpId>> = BTreeMap::new();
        for (at, txn) in (0..).zip(history.txns()) {
            for (position, op) in history.ops(txn).iter().enumerate() {
                if let Action::Add(element) | Action::Remove(element) = op.action {
                    updates.entry((op.key, element)).or_default().push((TxnId(at), position));
                }
            }
        }
        Whole { history, writes: WriteIndex::new(history), updates }
    }

    /// The number of operations of a part, left-out ones included.
    pub(super) fn op_count(&self, selection: &Selection) -> usize {
        selection.txns.iter().map(|&txn| self.history.ops(self.history.txn(txn)).len()).sum()
    }

    /// A part as a recording, and per transaction in it, in the order of invocations, which one it was.
    pub(super) fn part(&self, selection: &Selection) -> (Recorder, Vec<TxnId>) {
        let present = self.present(selection);
        let mut moments = Vec::new();
        for &id in &selection.txns {
            let txn = self.history.txn(id);
            moments.push((txn.invoke, Moment::Invoke, id));
            moments.extend(txn.speculation.map(|speculation| (speculation.index, Moment::Speculate, id)));
            moments.extend(txn.completion.map(|completion| (completion, Moment::Complete, id)));
            moments.extend(txn.completion.filter(|_| txn.lost).map(|at| (at, Moment::Lose, id)));
        }
        moments.sort_unstable();
        let mut recorder = Recorder::spelling_like(self.history);
        let mut recorded: BTreeMap<TxnId, RecordedTxn> = BTreeMap::new();
        let mut time = i64::MIN;
        for (_, moment, id) in moments {
            let txn = self.history.txn(id);
            time = time.max(if moment == Moment::Invoke { txn.invoked_at } else { i64::MIN });
            time = time.max(if moment == Moment::Complete { txn.completed_at } else { i64::MIN });
            if moment == Moment::Invoke {
                recorded.insert(id, self.invoke(&mut recorder, selection, &present, id));
            }
            let Some(&part) = recorded.get(&id) else { continue };
            if txn.elsewhere {
                recorder.elsewhere(part);
            }
            match (moment, txn.outcome) {
                (Moment::Invoke, _) => {}
                (Moment::Speculate, _) => {
                    let ops = txn.speculation.map(|speculation| self.history.speculated_ops(&speculation));
                    let ops = self.ops(selection, &present, id, ops.unwrap_or_default());
                    recorder.speculate(part, time, ops);
                }
                (Moment::Complete, Outcome::Committed) => {
                    recorder.ok(part, time, self.ops(selection, &present, id, self.history.ops(txn)));
                }
                (Moment::Complete, Outcome::Aborted) if txn.observed => {
                    let ops = self.ops(selection, &present, id, self.history.ops(txn));
                    recorder.fail_observed(part, time, ops);
                }
                (Moment::Complete, Outcome::Aborted) => recorder.fail(part, time),
                (Moment::Complete, Outcome::Unknown) => recorder.info(part, time),
                (Moment::Lose, _) => recorder.lost(part, time),
            }
        }
        (recorder, selection.txns.clone())
    }

    fn invoke(
        &self,
        recorder: &mut Recorder,
        selection: &Selection,
        present: &Present,
        id: TxnId,
    ) -> RecordedTxn {
        let txn = self.history.txn(id);
        let part = recorder.invoke(txn.process, txn.invoked_at);
        if let Session::Named(_) = txn.session {
            recorder.session(part, self.history.session_name(txn.session));
        }
        if let Some(site) = txn.site {
            recorder.site(part, self.history.site_name(site));
        }
        if let Some(ts) = txn.ts {
            recorder.timestamp(part, ts);
        }
        for op in self.ops(selection, present, id, self.history.ops(txn)) {
            recorder.attempt(part, op);
        }
        part
    }

    /// The writes of the selected operations.
    fn present(&self, selection: &Selection) -> Present {
        let mut present = Present::default();
        let mut updates: BTreeMap<(KeyId, Value), usize> = BTreeMap::new();
        for &id in &selection.txns {
            for (position, op) in self.history.ops(self.history.txn(id)).iter().enumerate() {
                if selection.without.contains(&(id, position)) {
                    continue;
                }
                match op.action {
                    Action::Append(value) | Action::Write(value) => {
                        present.values.insert((op.key, value));
                    }
                    Action::Add(element) | Action::Remove(element) => {
                        *updates.entry((op.key, element)).or_default() += 1;
                    }
                    Action::Read(_) => {}
                }
            }
        }
        let whole = |(element, count): (_, usize)| {
            (self.updates.get(&element).map_or(0, Vec::len) == count).then_some(element)
        };
        present.elements = updates.into_iter().filter_map(whole).collect();
        present
    }

    /// The operations of a transaction that stay, with what stays of their results.
    fn ops(&self, selection: &Selection, present: &Present, id: TxnId, ops: &[Op]) -> Vec<MicroOp> {
        let txn = self.history.txn(id);
        let speculated = txn.speculation.map(|speculation| self.history.speculated_ops(&speculation));
        let stays = |position: usize| {
            // A position stays in all lines of a transaction or in none.
            let variants = [Some(self.history.ops(txn)), speculated];
            !selection.without.contains(&(id, position))
                && variants.into_iter().flatten().all(|ops| self.op(present, &ops[position]).is_some())
        };
        let ops = ops.iter().enumerate().filter(|(position, _)| stays(*position));
        ops.filter_map(|(_, op)| self.op(present, op)).collect()
    }

    /// The part of an operation that stays; none if nothing does.
    fn op(&self, present: &Present, op: &Op) -> Option<MicroOp> {
        let key = self.history.key(op.key).clone();
        let stays = |value: Value| {
            present.values.contains(&(op.key, value)) || self.writes.find(op.key, value).is_none()
        };
        let element_stays = |element: Value| {
            present.elements.contains(&(op.key, element)) || !self.updates.contains_key(&(op.key, element))
        };
        let observed = match op.action {
            Action::Append(value) => return Some(MicroOp::Append(key, value)),
            Action::Write(value) => return Some(MicroOp::Write(key, value)),
            Action::Add(element) => return element_stays(element).then_some(MicroOp::Add(key, element)),
            Action::Remove(element) => {
                return element_stays(element).then_some(MicroOp::Remove(key, element));
            }
            Action::Read(Seen::Nothing | Seen::Initial) => Observed::Null,
            Action::Read(Seen::Register(value)) => {
                if !stays(value) {
                    return None;
                }
                Observed::Register(value)
            }
            Action::Read(Seen::List(list)) => {
                let values = self.history.list(op.key, list).iter().copied();
                Observed::List(values.filter(|&value| stays(value)).collect())
            }
            Action::Read(Seen::Set(set)) => {
                let counts = self.history.set(set).iter().copied();
                Observed::Set(counts.filter(|&(element, _)| element_stays(element)).collect())
            }
        };
        Some(MicroOp::Read(key, observed))
    }
}

/// The writes of the operations of a part.
#[derive(Debug, Default)]
struct Present {
    values: BTreeSet<(KeyId, Value)>,
    /// Elements of counting sets with all operations on them.
    elements: BTreeSet<(KeyId, Value)>,
}
