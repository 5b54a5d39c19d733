//! The fate of each transaction, as far as committed levels care.
//!
//! An acknowledged transaction committed. One with an unknown outcome committed if a committed transaction
//! read a write of it; otherwise nobody can tell that it happened, so it is dropped. One that updated a
//! counting set is kept, because counts do not say whose updates they saw; coming after all others it binds
//! nobody who need not have seen it. A lost transaction, and what read from it at its site, is judged as
//! aborted.

use std::collections::BTreeMap;

use crate::dependencies::sets::{self, SetUpdates, Update};
use crate::dependencies::writes::WriteIndex;
use crate::history::{Action, History, KeyId, Op, Outcome, Seen, TxnId, Value};
use crate::mutants::{self, Mutant};

/// The fate of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It committed, and its reads are known.
    Committed,
    /// Its outcome was never reported, yet somebody read from it, or may have seen it in a count: it
    /// committed, and its reads are not known.
    Observed,
    /// Its outcome was never reported, and nobody can tell.
    Dropped,
    /// It aborted, or was lost.
    Aborted,
}

impl Fate {
    /// Whether its writes exist.
    pub(crate) fn is_effective(self) -> bool {
        matches!(self, Fate::Committed | Fate::Observed)
    }
}

/// Decides the fates of all transactions.
pub(crate) fn decide_fates(history: &History, writes: &WriteIndex) -> Vec<Fate> {
    let mut fates = decide_fates_by_values(history, writes);
    for (fate, txn) in fates.iter_mut().zip(history.txns()) {
        let updates_a_set = |op: &Op| matches!(op.action, Action::Add(_) | Action::Remove(_));
        if *fate == Fate::Dropped && history.ops(txn).iter().any(updates_a_set) {
            *fate = Fate::Observed;
        }
    }
    fates
}

/// Decides the fates by the values of lists and registers alone: a transaction of unknown outcome that can
/// only have been seen in counts is dropped.
pub(crate) fn decide_fates_by_values(history: &History, writes: &WriteIndex) -> Vec<Fate> {
    let mut fates: Vec<Fate> = history
        .txns()
        .iter()
        .map(|txn| match txn.outcome {
            Outcome::Committed if txn.lost && !mutants::is_planted(Mutant::IgnoresLoss) => Fate::Aborted,
            Outcome::Committed => Fate::Committed,
            Outcome::Aborted => Fate::Aborted,
            Outcome::Unknown if mutants::is_planted(Mutant::CommitsUnknownOutcomes) => Fate::Committed,
            Outcome::Unknown if mutants::is_planted(Mutant::AbortsUnknownOutcomes) => Fate::Aborted,
            Outcome::Unknown => Fate::Dropped,
        })
        .collect();
    spread_loss(history, writes, &mut fates);
    if !fates.contains(&Fate::Dropped) {
        return fates;
    }
    let mut longest_seen = vec![0_usize; history.key_count()];
    for at in 0..fates.len() {
        if fates[at] == Fate::Committed {
            for_each_value_read(history, TxnId(at as u32), Some(&mut longest_seen), |key, value| {
                if let Some(write) = writes.find(key, value) {
                    let writer = writes.write(write).txn.index();
                    if fates[writer] == Fate::Dropped {
                        fates[writer] = Fate::Observed;
                    }
                }
            });
        }
    }
    fates
}

/// Visits values that a transaction read. With `longest_seen`, elements that an earlier call visited in
/// another prefix of the same list are passed over, which keeps the walk over all prefixes of one list
/// linear.
fn for_each_value_read(
    history: &History,
    txn: TxnId,
    mut longest_seen: Option<&mut [usize]>,
    mut visit: impl FnMut(KeyId, Value),
) {
    for op in history.ops(history.txn(txn)) {
        match op.action {
            Action::Read(Seen::Register(value)) => visit(op.key, value),
            Action::Read(Seen::List(list)) => {
                let values = history.list(op.key, list);
                let mut from = 0;
                if let Some(longest_seen) = longest_seen.as_deref_mut().filter(|_| list.is_shared()) {
                    let longest = &mut longest_seen[op.key.index()];
                    from = values.len().min(*longest);
                    *longest = values.len().max(*longest);
                }
                values[from..].iter().for_each(|&value| visit(op.key, value));
            }
            _ => {}
        }
    }
}

/// A transaction that read from a lost one at its site is lost with it.
fn spread_loss(history: &History, writes: &WriteIndex, fates: &mut [Fate]) {
    let mut lost: Vec<bool> = history.txns().iter().map(|txn| txn.lost).collect();
    let is_contained = [Mutant::IgnoresLoss, Mutant::ContainsLoss].into_iter().any(mutants::is_planted);
    let mut spreading = lost.contains(&true) && !is_contained;
    while spreading {
        spreading = false;
        let updates =
            SetUpdates::new(history, |txn| lost[txn.index()] || fates[txn.index()] != Fate::Aborted);
        for at in 0..fates.len() {
            let reader = TxnId(at as u32);
            if fates[at] != Fate::Committed {
                continue;
            }
            let is_lost_here =
                |txn: TxnId| lost[txn.index()] && history.txn(txn).site == history.txn(reader).site;
            let mut reads_lost = counts_lost(history, &updates, reader, is_lost_here);
            for_each_value_read(history, reader, None, |key, value| {
                let writer = writes.find(key, value).map(|write| writes.write(write).txn);
                reads_lost |= writer.is_some_and(is_lost_here);
            });
            if reads_lost {
                (lost[at], fates[at], spreading) = (true, Fate::Aborted, true);
            }
        }
    }
}

/// Whether some count that a transaction read needs updates of the transactions that `is_lost` accepts.
fn counts_lost(
    history: &History,
    updates: &SetUpdates,
    reader: TxnId,
    is_lost: impl Fn(TxnId) -> bool,
) -> bool {
    let reads = sets::each(history, history.ops(history.txn(reader)));
    let needs_lost = |(value, of_element): (Value, &[Update]), counts: &BTreeMap<Value, i64>| {
        let count = counts.get(&value).copied().unwrap_or(0);
        let others = of_element.iter().filter(|update| update.txn != reader);
        let all = others.clone().map(|update| update.change);
        let kept = others.filter(|update| !is_lost(update.txn)).map(|update| update.change);
        !sets::is_reachable(kept, count) && sets::is_reachable(all, count)
    };
    reads.iter().any(|read| updates.elements(read.key).any(|element| needs_lost(element, &read.counts)))
}
