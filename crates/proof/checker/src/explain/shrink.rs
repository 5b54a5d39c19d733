//! The smallest part of a history that still fails: delta debugging over transactions, then over operations
//! (Zeller, Hildebrandt: Simplifying and isolating failure-inducing input, 2002).

use std::collections::BTreeSet;

use super::parts::{Selection, Whole};
use crate::history::{Action, History, Recorder, Seen, TxnId};
use crate::level::Level;
use crate::report::{Anomaly, Report, Verdict};

/// Parts with so many operations in all may be judged: a few seconds, and the same on every machine.
const OPS_JUDGED_MAX: usize = 4_000_000;
/// Judging even the smallest part costs as much as judging so many operations.
const OPS_PER_CHECK: usize = 50;
/// A history with more operations than this is not searched as a whole when the transactions around its
/// anomaly do not fail by themselves.
const OPS_OF_WHOLE_MAX: usize = 400_000;

/// A part of a history that fails, and from which nothing can be left out.
#[derive(Debug)]
pub struct Shrunk {
    /// The part. Its transactions are numbered anew.
    pub recorder: Recorder,
    /// The part as a history.
    pub history: History,
    /// The report on it.
    pub report: Report,
    /// Per transaction of the part the `invoke` index that it has there, and the one that it has in the whole.
    pub names: Vec<(u32, u32)>,
    /// Whether every single transaction and operation was tried to be left out. Otherwise the search ended
    /// because it had taken long enough.
    pub is_minimal: bool,
}

/// Shrinks a history that fails at a level, to a part from which no transaction and no operation can be left
/// out. None if the level does not find the history invalid, or if no small enough part was found to begin
/// with.
///
/// A left-out write is also left out of what the others read, so that a part of a history that satisfies the level satisfies
/// it too. The result is the same every time.
pub fn shrink(history: &History, level: Level, report: &Report) -> Option<Shrunk> {
    if report.verdict != Verdict::Invalid {
        return None;
    }
    let mut search = Search { whole: Whole::new(history), level, left: OPS_JUDGED_MAX };
    let start = search.start(&report.anomalies)?;
    let fewer_txns = search.without_txns(start);
    let fewer_ops = search.without_ops(fewer_txns);
    let smallest = search.without_txns(fewer_ops);
    let is_minimal = search.left > 0;
    let (recorder, names) = search.whole.part(&smallest);
    let history = recorder.to_history().ok()?;
    let report = crate::check(&history, level);
    let original = names.iter().map(|&txn| search.whole.history.txn(txn).invoke);
    let names = history.txns().iter().map(|txn| txn.invoke).zip(original).collect();
    Some(Shrunk { recorder, history, report, names, is_minimal })
}

struct Search<'a> {
    whole: Whole<'a>,
    level: Level,
    /// So many operations may still be judged.
    left: usize,
}

impl Search<'_> {
    /// Whether a part fails. Never, once the search has taken long enough.
    fn fails(&mut self, selection: &Selection) -> bool {
        let cost = self.whole.op_count(selection) + OPS_PER_CHECK;
        if cost > self.left || selection.txns.is_empty() {
            self.left = if selection.txns.is_empty() { self.left } else { 0 };
            return false;
        }
        self.left -= cost;
        let (recorder, _) = self.whole.part(selection);
        recorder
            .into_history()
            .is_ok_and(|history| crate::check(&history, self.level).verdict == Verdict::Invalid)
    }

    /// A part that fails, to begin with: the transactions of an anomaly, these and the longest lists that were
    /// read of their keys, these and all that touched their keys, or the whole.
    fn start(&mut self, anomalies: &[Anomaly]) -> Option<Selection> {
        let history = self.whole.history;
        for anomaly in anomalies {
            let core = named(history, &anomaly.txns);
            let keys: BTreeSet<_> =
                core.iter().flat_map(|&txn| history.ops(history.txn(txn))).map(|op| op.key).collect();
            let touching =
                |txn: &TxnId| history.ops(history.txn(*txn)).iter().any(|op| keys.contains(&op.key));
            let around = || all(history).filter(touching).collect::<Vec<_>>();
            for txns in [core.clone(), with_longest_lists(history, &core), around()] {
                let selection = Selection { txns, without: BTreeSet::new() };
                if self.whole.op_count(&selection) <= OPS_OF_WHOLE_MAX && self.fails(&selection) {
                    return Some(selection);
                }
            }
        }
        let whole = Selection { txns: all(history).collect(), without: BTreeSet::new() };
        (self.whole.op_count(&whole) <= OPS_OF_WHOLE_MAX && self.fails(&whole)).then_some(whole)
    }

    /// Leaves out transactions: halves of them, quarters, and so on down to single ones.
    fn without_txns(&mut self, mut selection: Selection) -> Selection {
        let mut pieces = 2;
        while selection.txns.len() > 1 && self.left > 0 {
            let size = selection.txns.len().div_ceil(pieces);
            let smaller = (0..selection.txns.len()).step_by(size).find_map(|from| {
                let to = (from + size).min(selection.txns.len());
                let txns = [&selection.txns[..from], &selection.txns[to..]].concat();
                let smaller = Selection { txns, without: selection.without.clone() };
                self.fails(&smaller).then_some(smaller)
            });
            match smaller {
                Some(smaller) => {
                    selection = smaller;
                    pieces = (pieces - 1).max(2);
                }
                None if size == 1 => break,
                None => pieces = (pieces * 2).min(selection.txns.len()),
            }
        }
        selection
    }

    /// Leaves out single operations, until none can be spared.
    fn without_ops(&mut self, mut selection: Selection) -> Selection {
        let history = self.whole.history;
        let all: Vec<_> = selection
            .txns
            .iter()
            .flat_map(|&txn| (0..history.ops(history.txn(txn)).len()).map(move |position| (txn, position)))
            .collect();
        let mut shrinking = true;
        while shrinking && self.left > 0 {
            shrinking = false;
            for op in &all {
                if selection.without.contains(op) {
                    continue;
                }
                let mut smaller = selection.clone();
                smaller.without.insert(*op);
                if self.fails(&smaller) {
                    (selection, shrinking) = (smaller, true);
                }
            }
        }
        selection
    }
}

fn all(history: &History) -> impl Iterator<Item = TxnId> {
    (0..history.txn_count() as u32).map(TxnId)
}

/// Transactions by the indices of their `invoke` lines.
fn named(history: &History, invokes: &[u32]) -> Vec<TxnId> {
    let position = |invoke: &u32| history.txns().binary_search_by_key(invoke, |txn| txn.invoke).ok();
    let txns: BTreeSet<TxnId> = invokes.iter().filter_map(position).map(|at| TxnId(at as u32)).collect();
    txns.into_iter().collect()
}

/// Adds, for each list that the transactions touch, the first one that read the longest list: it shows the
/// order of the versions.
fn with_longest_lists(history: &History, core: &[TxnId]) -> Vec<TxnId> {
    let touched = core.iter().flat_map(|&txn| history.ops(history.txn(txn))).map(|op| op.key);
    let touched: BTreeSet<_> = touched.collect();
    let mut longest = vec![(0, None); history.key_count()];
    for txn in all(history) {
        for op in history.ops(history.txn(txn)) {
            if let Action::Read(Seen::List(list)) = op.action
                && touched.contains(&op.key)
            {
                let len = history.list(op.key, list).len();
                let longest = &mut longest[op.key.index()];
                if len > longest.0 {
                    *longest = (len, Some(txn));
                }
            }
        }
    }
    let readers = longest.into_iter().filter_map(|(_, reader)| reader);
    let txns: BTreeSet<TxnId> = core.iter().copied().chain(readers).collect();
    txns.into_iter().collect()
}
