//! The search space of counts: for each pair of reader and updater, whether the one saw the other.

use crate::dependencies::edges::{Edge, EdgeKind};
use crate::dependencies::sets::{CountSum, OpenCounts};
use crate::explain::Words;
use crate::history::{History, KeyId, TxnId};
use crate::mutants::{self, Mutant};
use crate::report::{Anomalies, AnomalyKind};

/// More open pairs than this are not searched.
const PAIRS_MAX: usize = 2_000_000;

/// A reader of a set and a transaction that updated what it read: it saw that transaction, or it did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CountPair {
    pub(crate) reader: TxnId,
    pub(crate) updater: TxnId,
    /// One set that both touch.
    pub(crate) key: KeyId,
}

impl CountPair {
    /// The edge between the two if the updater is seen, or if it is not.
    pub(crate) fn edge(&self, seen: bool) -> Edge {
        let &CountPair { reader, updater, key } = self;
        if seen {
            Edge { from: updater.0, to: reader.0, key, kind: EdgeKind::ReadsFrom }
        } else {
            Edge { from: reader.0, to: updater.0, key, kind: EdgeKind::AntiDependency }
        }
    }
}

/// A sum over pairs: the changes of those that are seen sum up to `count`.
#[derive(Debug, Clone, Copy)]
struct Equation {
    /// The position of the sum in [`OpenCounts`].
    sum: u32,
    count: i64,
    start: u32,
    end: u32,
}

/// The pairs that a level leaves open, and the sums that bind them.
#[derive(Debug, Default)]
pub(crate) struct CountChoices {
    /// By reader, then by the completion of the updater: the earlier ones are more likely seen.
    pub(crate) pairs: Vec<CountPair>,
    equations: Vec<Equation>,
    /// Pairs and their changes.
    terms: Vec<(u32, i64)>,
    /// Per pair where its equations start in `of_pair`.
    starts: Vec<u32>,
    of_pair: Vec<u32>,
}

/// Why counts could not be turned into choices.
#[derive(Debug)]
pub(crate) enum NoChoices {
    /// No updates that the reader can have seen sum up to this count.
    Contradiction(CountSum),
    /// There are too many.
    TooMany(String),
}

impl OpenCounts {
    /// The pairs that stay open where `decided` says of a reader and an updater that the one must have seen
    /// the other, or cannot have.
    pub(crate) fn choices(
        &self,
        history: &History,
        mut decided: impl FnMut(TxnId, TxnId) -> Option<bool>,
    ) -> Result<CountChoices, NoChoices> {
        let mut choices = CountChoices::default();
        for of_reader in
            (0..).zip(&self.sums).collect::<Vec<_>>().chunk_by(|one, next| one.1.reader == next.1.reader)
        {
            let reader = of_reader[0].1.reader;
            let mut updaters: Vec<(TxnId, KeyId)> = of_reader
                .iter()
                .flat_map(|(_, sum)| self.terms(sum).map(|update| (update.txn, sum.key)))
                .collect();
            updaters.sort_unstable();
            updaters.dedup_by_key(|&mut (updater, _)| updater);
            let mut known: Vec<(TxnId, Option<bool>)> = Vec::with_capacity(updaters.len());
            let first_pair = choices.pairs.len();
            for (updater, key) in updaters {
                let seen = self.settled(reader, updater).or_else(|| decided(reader, updater));
                known.push((updater, seen));
                if seen.is_none() {
                    choices.pairs.push(CountPair { reader, updater, key });
                }
            }
            if choices.pairs.len() > PAIRS_MAX {
                return Err(NoChoices::TooMany(format!(
                    "Reads of counting sets leave more than {PAIRS_MAX} pairs of reader and updater open; use unique \
                     elements, or a level with session order or real time."
                )));
            }
            let end = |pair: &CountPair| history.txn(pair.updater).known_completion().unwrap_or(u32::MAX);
            choices.pairs[first_pair..].sort_by_key(|pair| (end(pair), pair.updater));
            let mut places: Vec<(TxnId, u32)> = choices.pairs[first_pair..]
                .iter()
                .map(|pair| pair.updater)
                .zip(first_pair as u32..)
                .collect();
            places.sort_unstable();
            for &(at, sum) in of_reader {
                choices.add_equation(self, at, sum, &known, &places)?;
            }
        }
        choices.index();
        Ok(choices)
    }
}

impl CountChoices {
    fn add_equation(
        &mut self,
        open: &OpenCounts,
        at: u32,
        sum: &CountSum,
        known: &[(TxnId, Option<bool>)],
        places: &[(TxnId, u32)],
    ) -> Result<(), NoChoices> {
        let start = self.terms.len() as u32;
        let mut count = sum.count;
        let (mut low, mut high) = (0, 0);
        for update in open.terms(sum) {
            let seen =
                known.binary_search_by_key(&update.txn, |&(txn, _)| txn).ok().and_then(|at| known[at].1);
            match seen {
                Some(true) => count -= update.change,
                Some(false) => {}
                None => {
                    let place = places.partition_point(|&(txn, _)| txn < update.txn);
                    self.terms.push((places[place].1, update.change));
                    low += update.change.min(0);
                    high += update.change.max(0);
                }
            }
        }
        if count < low || count > high {
            return Err(NoChoices::Contradiction(*sum));
        }
        self.equations.push(Equation { sum: at, count, start, end: self.terms.len() as u32 });
        Ok(())
    }

    fn index(&mut self) {
        self.starts = vec![0; self.pairs.len() + 1];
        self.terms.iter().for_each(|&(pair, _)| self.starts[pair as usize + 1] += 1);
        for pair in 0..self.pairs.len() {
            self.starts[pair + 1] += self.starts[pair];
        }
        let mut next = self.starts.clone();
        self.of_pair = vec![0; self.terms.len()];
        for (at, equation) in (0..).zip(&self.equations) {
            for &(pair, _) in &self.terms[equation.start as usize..equation.end as usize] {
                self.of_pair[next[pair as usize] as usize] = at;
                next[pair as usize] += 1;
            }
        }
    }

    fn terms_of(&self, equation: u32) -> &[(u32, i64)] {
        let equation = &self.equations[equation as usize];
        &self.terms[equation.start as usize..equation.end as usize]
    }

    fn equations_of(&self, pair: usize) -> &[u32] {
        &self.of_pair[self.starts[pair] as usize..self.starts[pair + 1] as usize]
    }

    /// An assignment in which every sum holds, the earlier updates seen before the later ones; none if that
    /// rule finds none. Whether it agrees with everything else is for the caller to try.
    pub(crate) fn guess(&self) -> Option<Vec<bool>> {
        self.guess_as(|_| None)
    }

    /// As [`CountChoices::guess`], where something is said to have been seen, or not, for some of the pairs.
    pub(crate) fn guess_as(&self, said: impl Fn(&CountPair) -> Option<bool>) -> Option<Vec<bool>> {
        let mut state = CountState::new(self);
        state.settle_all().ok()?;
        for (pair, of) in self.pairs.iter().enumerate() {
            if let (None, Some(seen)) = (state.seen(pair), said(of)) {
                state.choose(pair, seen);
                state.settle(pair).ok()?;
            }
        }
        for pair in 0..self.pairs.len() {
            if state.seen(pair).is_none() {
                state.choose(pair, true);
                state.settle(pair).ok()?;
            }
        }
        (0..self.pairs.len()).map(|pair| state.seen(pair)).collect()
    }
}

/// A partial assignment of the pairs. Every change can be undone, in reverse.
#[derive(Debug, Clone)]
pub(crate) struct CountState<'a> {
    choices: &'a CountChoices,
    chosen: Vec<Option<bool>>,
    /// Per equation the least and the greatest sum that the open pairs allow.
    bounds: Vec<(i64, i64)>,
    /// The pairs that are chosen, in the order of choosing.
    trail: Vec<u32>,
}

impl<'a> CountState<'a> {
    pub(crate) fn new(choices: &'a CountChoices) -> Self {
        let bounds = (0..choices.equations.len() as u32).map(|equation| {
            choices
                .terms_of(equation)
                .iter()
                .fold((0, 0), |(low, high), &(_, change)| (low + change.min(0), high + change.max(0)))
        });
        let bounds = bounds.collect();
        CountState { choices, chosen: vec![None; choices.pairs.len()], bounds, trail: Vec::new() }
    }

    /// Whether the reader of a pair saw the updater, as far as that is chosen.
    pub(crate) fn seen(&self, pair: usize) -> Option<bool> {
        self.chosen[pair]
    }

    /// The pairs that are chosen, in the order of choosing.
    pub(crate) fn trail(&self) -> &[u32] {
        &self.trail
    }

    /// Chooses an open pair.
    pub(crate) fn choose(&mut self, pair: usize, seen: bool) {
        self.chosen[pair] = Some(seen);
        self.trail.push(pair as u32);
        self.shift(pair, seen, 1);
    }

    /// Takes choices back until the trail has this length.
    pub(crate) fn undo(&mut self, trail_len: usize) {
        while self.trail.len() > trail_len {
            let Some(pair) = self.trail.pop() else { return };
            if let Some(seen) = self.chosen[pair as usize].take() {
                self.shift(pair as usize, seen, -1);
            }
        }
    }

    fn shift(&mut self, pair: usize, seen: bool, sign: i64) {
        for &equation in self.choices.equations_of(pair) {
            let terms = self.choices.terms_of(equation).iter();
            let change: i64 = terms.filter(|term| term.0 as usize == pair).map(|term| term.1).sum();
            let (low, high) = &mut self.bounds[equation as usize];
            // An update that is seen counts in both bounds, one that is not in neither.
            if seen {
                *low += sign * change.max(0);
                *high += sign * change.min(0);
            } else {
                *low -= sign * change.min(0);
                *high -= sign * change.max(0);
            }
        }
    }

    /// Chooses what the sums force after a pair was chosen. Newly chosen pairs stand at the end of the trail.
    ///
    /// # Errors
    ///
    /// The position in [`OpenCounts`] of a sum that cannot hold any more.
    pub(crate) fn settle(&mut self, pair: usize) -> Result<(), u32> {
        let mut next = self.trail.len();
        self.settle_equations(self.choices.equations_of(pair))?;
        while let Some(&forced) = self.trail.get(next) {
            next += 1;
            self.settle_equations(self.choices.equations_of(forced as usize))?;
        }
        Ok(())
    }

    /// Chooses what the sums force from the start.
    ///
    /// # Errors
    ///
    /// As [`CountState::settle`].
    pub(crate) fn settle_all(&mut self) -> Result<(), u32> {
        let mut next = self.trail.len();
        let all: Vec<u32> = (0..self.choices.equations.len() as u32).collect();
        self.settle_equations(&all)?;
        while let Some(&forced) = self.trail.get(next) {
            next += 1;
            self.settle_equations(self.choices.equations_of(forced as usize))?;
        }
        Ok(())
    }

    fn settle_equations(&mut self, equations: &[u32]) -> Result<(), u32> {
        equations.iter().try_for_each(|&equation| self.settle_equation(equation))
    }

    fn settle_equation(&mut self, at: u32) -> Result<(), u32> {
        if mutants::is_planted(Mutant::SettlesSums) {
            return Ok(());
        }
        let Equation { sum, count, .. } = self.choices.equations[at as usize];
        loop {
            let chosen = self.trail.len();
            for &(pair, change) in self.choices.terms_of(at) {
                // Each choice narrows the bounds, so they are read anew.
                let (low, high) = self.bounds[at as usize];
                if count < low || count > high {
                    return Err(sum);
                }
                if self.chosen[pair as usize].is_some() {
                    continue;
                }
                let (below, above) = (count - low, high - count);
                // Seeing an addition raises the lower bound and missing it lowers the upper one; with a
                // removal it is the other way round.
                let seen_fits = change <= below && -change <= above;
                let missed_fits = change <= above && -change <= below;
                match (seen_fits, missed_fits) {
                    (true, true) => {}
                    (false, false) => return Err(sum),
                    (seen, _) => self.choose(pair as usize, seen),
                }
            }
            if self.trail.len() == chosen {
                return Ok(());
            }
        }
    }
}

impl CountSum {
    /// Adds the anomaly: no updates that the level lets the reader see sum up to what it read.
    pub(crate) fn describe(&self, history: &History, anomalies: &mut Anomalies) {
        let words = Words::new(history);
        anomalies.add(history, AnomalyKind::WrongCount, &[self.reader], || {
            format!(
                "{} found others' updates of {} in {} to sum up to {}, which those that it must have seen, with any \
                 of those that it may have seen, do not.",
                words.txn(self.reader),
                history.element(self.element),
                history.key(self.key),
                self.count
            )
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guess_follows_what_is_said_as_far_as_the_sums_let_it() {
        let pair = |updater| CountPair { reader: TxnId(0), updater: TxnId(updater), key: KeyId(0) };
        let mut choices = CountChoices { pairs: vec![pair(1), pair(2), pair(3)], ..Default::default() };
        choices.terms = vec![(0, 1), (1, 1), (2, 1)];
        choices.equations = vec![Equation { sum: 0, count: 1, start: 0, end: 3 }];
        choices.index();
        assert_eq!(choices.guess(), Some(vec![true, false, false]));
        let saw = |updater| move |pair: &CountPair| Some(pair.updater == TxnId(updater));
        assert_eq!(choices.guess_as(saw(3)), Some(vec![false, false, true]));
        assert_eq!(
            choices.guess_as(|pair| (pair.updater == TxnId(1)).then_some(false)),
            Some(vec![false, true, false])
        );
        assert_eq!(
            choices.guess_as(|_| Some(true)),
            Some(vec![true, false, false]),
            "the sum leaves no more"
        );
        assert_eq!(choices.guess_as(|_| Some(false)), Some(vec![false, false, true]), "nor less");
    }
}
