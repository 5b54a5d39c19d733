//! Counting sets: which updates each read saw.
//!
//! A count is the sum of the visible updates of its element, so a read says how many it saw and not which. Updates never
//! conflict: they have no order among themselves, only readers order them. Where the counts leave one possibility (a unique
//! element, or all updates of an element, or none of them) the updates that a read saw precede the reader (WR) and the
//! reader precedes the others (RW). Pairs that stay open go to the levels as [`OpenCounts`]: the order of reader and
//! updater, as far as a level knows it, decides most of them, and a bounded search the rest.
//!
//! A transaction adds and removes as one: of its updates of one element only their sum counts, and a reader that saw one
//! update of it saw all of them, over all elements and sets.

mod choices;
mod reads;

pub(crate) use choices::{CountChoices, CountPair, CountState, NoChoices};

use crate::dependencies::edges::Edge;
use crate::dependencies::fate::Fate;
use crate::explain::Words;
use crate::history::{Action, History, KeyId, KeyType, TxnId, Value};
use crate::mutants::{self, Mutant};
use crate::report::{Anomalies, AnomalyKind};
pub(crate) use reads::{SetRead, each, external};

/// The net change that one transaction makes to one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Update {
    pub(crate) txn: TxnId,
    pub(crate) change: i64,
}

/// An element of a counting set with its updates, as a range of [`SetUpdates::updates`].
#[derive(Debug, Clone, Copy)]
struct Element {
    key: KeyId,
    value: Value,
    start: u32,
    end: u32,
}

/// The updates of some transactions by set and element, those of one element in the order of transactions.
#[derive(Debug, Default)]
pub(crate) struct SetUpdates {
    elements: Vec<Element>,
    updates: Vec<Update>,
}

impl SetUpdates {
    /// The updates of the transactions that `counts` accepts. Updates that cancel out are left out.
    pub(crate) fn new(history: &History, counts: impl Fn(TxnId) -> bool) -> Self {
        let mut changes: Vec<(KeyId, Value, TxnId, i64)> = Vec::new();
        for (id, txn) in (0..).map(TxnId).zip(history.txns()).filter(|&(id, _)| counts(id)) {
            for op in history.ops(txn) {
                match op.action {
                    Action::Add(element) => changes.push((op.key, element, id, 1)),
                    Action::Remove(element) if mutants::is_planted(Mutant::TakesRemovalsForAdds) => {
                        changes.push((op.key, element, id, 1));
                    }
                    Action::Remove(element) => changes.push((op.key, element, id, -1)),
                    _ => {}
                }
            }
        }
        changes.sort_unstable();
        let mut all = SetUpdates::default();
        for of_txn in changes.chunk_by(|one, next| (one.0, one.1, one.2) == (next.0, next.1, next.2)) {
            let (key, value, txn, _) = of_txn[0];
            let change: i64 = of_txn.iter().map(|change| change.3).sum();
            if change == 0 {
                continue;
            }
            let start = all.updates.len() as u32;
            all.updates.push(Update { txn, change });
            match all.elements.last_mut() {
                Some(last) if (last.key, last.value) == (key, value) => last.end = start + 1,
                _ => all.elements.push(Element { key, value, start, end: start + 1 }),
            }
        }
        all
    }

    fn of_key(&self, key: KeyId) -> &[Element] {
        let start = self.elements.partition_point(|element| element.key < key);
        let end = self.elements.partition_point(|element| element.key <= key);
        &self.elements[start..end]
    }

    fn of_element(&self, element: &Element) -> &[Update] {
        &self.updates[element.start as usize..element.end as usize]
    }

    /// The updates of one element; empty if nobody updates it.
    pub(crate) fn find(&self, key: KeyId, value: Value) -> &[Update] {
        let found = self.elements.binary_search_by_key(&(key, value), |element| (element.key, element.value));
        found.map_or(&[], |at| self.of_element(&self.elements[at]))
    }

    /// The elements of a set that somebody updates, with their updates.
    pub(crate) fn elements(&self, key: KeyId) -> impl Iterator<Item = (Value, &[Update])> {
        self.of_key(key).iter().map(|element| (element.value, self.of_element(element)))
    }
}

/// A count whose updates are not known: those of `updates` that `reader` saw sum up to `count`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CountSum {
    pub(crate) reader: TxnId,
    pub(crate) key: KeyId,
    pub(crate) element: Value,
    /// The contribution of others to the count.
    pub(crate) count: i64,
}

/// The pairs of readers and updaters that the counts leave open.
#[derive(Debug, Default)]
pub(crate) struct OpenCounts {
    sums: Vec<CountSum>,
    updates: SetUpdates,
    /// Readers of open sums with updaters that another count of theirs settled, and whether they saw them;
    /// sorted.
    settled: Vec<(TxnId, TxnId, bool)>,
}

impl OpenCounts {
    pub(crate) fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    /// The sum at a position.
    pub(crate) fn sum(&self, at: u32) -> &CountSum {
        &self.sums[at as usize]
    }

    /// Whether another count of the reader says that it saw the updater, or that it did not.
    fn settled(&self, reader: TxnId, updater: TxnId) -> Option<bool> {
        let at =
            self.settled.binary_search_by_key(&(reader, updater), |&(reader, updater, _)| (reader, updater));
        at.ok().map(|at| self.settled[at].2)
    }

    /// The updates of a sum by others than its reader.
    pub(crate) fn terms(&self, sum: &CountSum) -> impl Iterator<Item = Update> {
        let reader = sum.reader;
        self.updates.find(sum.key, sum.element).iter().copied().filter(move |update| update.txn != reader)
    }
}

/// The least and the greatest sum of some of the updates.
pub(crate) fn bounds(updates: impl Iterator<Item = Update>) -> (i64, i64) {
    updates.fold((0, 0), |(low, high), update| (low + update.change.min(0), high + update.change.max(0)))
}

/// Adds the edges that counts settle, reports counts that no updates explain, and returns what stays open.
pub(crate) fn add_edges(
    history: &History,
    fates: &[Fate],
    edges: &mut Vec<Edge>,
    anomalies: &mut Anomalies,
) -> OpenCounts {
    let has_sets = (0..history.key_count() as u32).any(|key| is_set(history, KeyId(key)));
    if !has_sets {
        return OpenCounts::default();
    }
    let updates = SetUpdates::new(history, |txn| fates[txn.index()].is_effective());
    let mut judge = Judge {
        history,
        fates,
        edges,
        anomalies,
        settled: Vec::new(),
        open: Vec::new(),
        updates,
        unexplained_count: 0,
    };
    for (id, fate) in (0..).map(TxnId).zip(fates) {
        if *fate == Fate::Committed {
            let ops = history.ops(history.txn(id));
            match external(history, ops) {
                Ok(reads) => reads.iter().for_each(|read| judge.read(id, read)),
                Err(broken) => {
                    judge
                        .anomalies
                        .add(history, AnomalyKind::Internal, &[id], || broken.describe(history, id));
                }
            }
        }
    }
    let Judge { open, mut settled, updates, .. } = judge;
    settled.retain(|&(reader, ..)| open.binary_search_by_key(&reader, |sum| sum.reader).is_ok());
    settled.sort_unstable();
    settled.dedup_by_key(|&mut (reader, updater, _)| (reader, updater));
    OpenCounts { sums: open, updates, settled }
}

pub(crate) fn is_set(history: &History, key: KeyId) -> bool {
    history.key_type(key) == Some(KeyType::CountingSet)
}

/// For so many unexplained counts a culprit is looked for; further ones would not tell more.
const UNEXPLAINED_MAX: usize = 30;

struct Judge<'a> {
    history: &'a History,
    fates: &'a [Fate],
    edges: &'a mut Vec<Edge>,
    anomalies: &'a mut Anomalies,
    settled: Vec<(TxnId, TxnId, bool)>,
    /// In the order of readers.
    open: Vec<CountSum>,
    updates: SetUpdates,
    unexplained_count: usize,
}

impl Judge<'_> {
    fn read(&mut self, reader: TxnId, read: &SetRead) {
        let from = self.settled.len();
        for (&element, &count) in &read.counts {
            if self.updates.find(read.key, element).is_empty() && count != 0 {
                self.unexplained(&CountSum { reader, key: read.key, element, count });
            }
        }
        for at in 0..self.updates.of_key(read.key).len() {
            let element = self.updates.of_key(read.key)[at];
            let count = read.counts.get(&element.value).copied().unwrap_or(0);
            self.sum(CountSum { reader, key: read.key, element: element.value, count }, element);
        }
        let settled = &mut self.settled[from..];
        settled.sort_unstable();
        let mut before = None;
        for &(reader, updater, seen) in settled.iter().filter(|&&pair| before.replace(pair) != Some(pair)) {
            self.edges.push(CountPair { reader, updater, key: read.key }.edge(seen));
        }
    }

    fn sum(&mut self, sum: CountSum, element: Element) {
        let others = || self.updates.of_element(&element).iter().filter(|update| update.txn != sum.reader);
        let (low, high) = bounds(others().copied());
        if sum.count < low
            || sum.count > high
            || !is_reachable(others().map(|update| update.change), sum.count)
        {
            self.unexplained(&sum);
        } else if sum.count == high {
            self.settled.extend(others().map(|update| (sum.reader, update.txn, update.change > 0)));
        } else if sum.count == low {
            self.settled.extend(others().map(|update| (sum.reader, update.txn, update.change < 0)));
        } else {
            self.open.push(sum);
        }
    }

    /// Reports a count that no updates of committed transactions sum up to: the effects of an aborted
    /// transaction, a part of the effects of one, or neither.
    fn unexplained(&mut self, sum: &CountSum) {
        self.unexplained_count += 1;
        if self.unexplained_count > UNEXPLAINED_MAX {
            return;
        }
        let words = Words::new(self.history);
        let &CountSum { reader, key, element, count } = sum;
        let (kind, culprit) = self.culprit(sum);
        let txns: Vec<TxnId> = [Some(reader), culprit].into_iter().flatten().collect();
        self.anomalies.add(self.history, kind, &txns, || {
            let (reader, key) = (words.txn(reader), self.history.key(key));
            let element = self.history.element(element);
            let found = format!("{reader} found others' updates of {element} in {key} to sum up to {count}");
            match (kind, culprit.map(|culprit| words.txn(culprit))) {
                (AnomalyKind::AbortedRead, Some(culprit)) => {
                    format!("{found}, which no committed updates do; {culprit} updated it, but aborted.")
                }
                (_, Some(culprit)) => {
                    format!("{found}, which only a part of the updates of {culprit} explains.")
                }
                (_, None) => format!("{found}, which no updates of others do."),
            }
        });
    }

    fn culprit(&self, sum: &CountSum) -> (AnomalyKind, Option<TxnId>) {
        let committed: Vec<i64> = self
            .updates
            .find(sum.key, sum.element)
            .iter()
            .filter(|update| update.txn != sum.reader)
            .map(|update| update.change)
            .collect();
        let explains = |rest: i64| is_reachable(committed.iter().copied(), rest);
        let aborted = SetUpdates::new(self.history, |txn| self.fates[txn.index()] == Fate::Aborted);
        let aborted = aborted.find(sum.key, sum.element);
        let all = || committed.iter().copied().chain(aborted.iter().map(|update| update.change));
        let alone = aborted.iter().find(|update| explains(sum.count - update.change));
        let among = aborted.iter().find(|_| is_reachable(all(), sum.count));
        if let Some(update) = alone.or(among) {
            return (AnomalyKind::AbortedRead, Some(update.txn));
        }
        for (id, fate) in (0..).map(TxnId).zip(self.fates).filter(|&(id, _)| id != sum.reader) {
            let changes = self.partial_changes(id, sum.key, sum.element);
            if fate.is_effective() && changes.iter().any(|&change| explains(sum.count - change)) {
                return (AnomalyKind::IntermediateRead, Some(id));
            }
        }
        (AnomalyKind::UnwrittenRead, None)
    }

    /// By how much a prefix of a transaction's updates of an element differs from all of them.
    fn partial_changes(&self, txn: TxnId, key: KeyId, element: Value) -> Vec<i64> {
        let ops = self.history.ops(self.history.txn(txn)).iter().filter(|op| op.key == key);
        let changes = ops.filter_map(|op| match op.action {
            Action::Add(value) if value == element => Some(1),
            Action::Remove(value) if value == element => Some(-1),
            _ => None,
        });
        let sums: Vec<i64> = changes
            .scan(0, |sum, change| {
                *sum += change;
                Some(*sum)
            })
            .collect();
        let all = sums.last().copied().unwrap_or(0);
        sums.iter().flat_map(|&sum| [sum, sum - all]).filter(|&change| change != 0 && change != all).collect()
    }
}

/// Sums over more updates than this, or with a wider range, are only compared with their bounds.
const REACHABLE_STEPS_MAX: usize = 1 << 20;

/// Whether some of the changes sum up to `count`. Beyond the step bound a count between the least and the
/// greatest sum is taken to be reachable.
pub(crate) fn is_reachable(changes: impl Iterator<Item = i64> + Clone, count: i64) -> bool {
    let (low, high) = changes
        .clone()
        .fold((0_i64, 0_i64), |(low, high), change| (low + change.min(0), high + change.max(0)));
    if count < low || count > high {
        return false;
    }
    let big: Vec<i64> = changes.clone().filter(|change| change.abs() > 1).collect();
    let range = (high - low) as usize + 1;
    if big.is_empty() || range.saturating_mul(big.len()) > REACHABLE_STEPS_MAX {
        return true;
    }
    // The sums that the changes beyond one reach, from `low` on; the others then fill a range around each.
    let mut sums = vec![false; range];
    sums[(-low) as usize] = true;
    for change in big {
        let before = sums.clone();
        for (at, _) in before.iter().enumerate().filter(|(_, reached)| **reached) {
            sums[(at as i64 + change) as usize] = true;
        }
    }
    let (ones_low, ones_high) = changes
        .filter(|change| change.abs() == 1)
        .fold((0, 0), |(low, high), change| (low + change.min(0), high + change.max(0)));
    let sums = sums.iter().enumerate().filter(|(_, reached)| **reached);
    sums.map(|(at, _)| at as i64 + low).any(|sum| (sum + ones_low..=sum + ones_high).contains(&count))
}
