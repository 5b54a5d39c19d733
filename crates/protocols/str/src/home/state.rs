//! The state that the entries of a home's log have led to: decisions, of which the first on each transaction counts.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use quorate_core::command::Outcome;
use quorate_core::log::divide;
use quorate_core::{ClockTime, TransactionId};

use crate::entry::{Decision, Frozen, Page, Remembered};

/// The replicated state of a home.
#[derive(Debug, Default)]
pub(super) struct State {
    decisions: BTreeMap<TransactionId, Remembered>,
    /// Settled decisions, by the time that the bound of what is forgotten must have passed.
    fading: BTreeSet<(ClockTime, TransactionId)>,
    pub(super) forgotten: ClockTime,
    pub(super) committed: u64,
    pub(super) aborted: u64,
}

impl State {
    pub(super) fn get(&self, id: TransactionId) -> Option<&Remembered> {
        self.decisions.get(&id)
    }

    pub(super) fn outcome(&self, id: TransactionId) -> Option<Outcome> {
        self.get(id).map(|known| known.decision.outcome)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Remembered> {
        self.decisions.values()
    }

    pub(super) fn len(&self) -> usize {
        self.decisions.len()
    }

    /// Takes a decision, unless there is one. Gives the one that counts.
    pub(super) fn record(&mut self, decision: &Arc<Decision>) -> Outcome {
        let id = decision.transaction;
        if let Some(known) = self.get(id) {
            return known.decision.outcome;
        }
        if decision.snapshot < self.forgotten {
            // An earlier one may be forgotten, and that can only have been an abort: commits are settled first.
            return Outcome::Aborted;
        }
        let is_settled = decision.outcome == Outcome::Aborted;
        match is_settled {
            true => self.aborted += 1,
            false => self.committed += 1,
        }
        self.enter(Remembered { decision: Arc::clone(decision), is_settled });
        assert!(
            self.fading.len() <= self.decisions.len(),
            "{} of {} decisions are settled, with that on {id}",
            self.fading.len(),
            self.decisions.len()
        );
        decision.outcome
    }

    fn enter(&mut self, remembered: Remembered) {
        let (id, until) = (remembered.decision.transaction, remembered.decision.remembered_until());
        if remembered.is_settled {
            self.fading.insert((until, id));
        }
        self.decisions.insert(id, remembered);
    }

    pub(super) fn settle(&mut self, transactions: &[TransactionId]) {
        for id in transactions {
            if let Some(known) = self.decisions.get_mut(id) {
                known.is_settled = true;
                self.fading.insert((known.decision.remembered_until(), *id));
            }
        }
    }

    pub(super) fn forget(&mut self, below: ClockTime) {
        self.forgotten = self.forgotten.max(below);
        while let Some((until, id)) = self.fading.first().copied()
            && until < self.forgotten
        {
            self.fading.pop_first();
            let known = self.decisions.remove(&id);
            assert!(known.is_some_and(|known| known.is_settled), "{id} fades, and is not settled");
        }
    }

    pub(super) fn freeze(&self, page_bytes_max: usize) -> Frozen {
        const ENTRY_BYTES: usize = 96;
        let sized = self.decisions.values().map(|known| {
            let readers = known.decision.readers.iter().map(|(key, _)| ENTRY_BYTES + key.len());
            (ENTRY_BYTES + readers.sum::<usize>(), known.clone())
        });
        let mut pages: VecDeque<Page> =
            divide(sized, page_bytes_max).into_iter().map(Page::Decisions).collect();
        pages.push_back(Page::HomeBounds { forgotten: self.forgotten });
        Frozen { pages }
    }

    pub(super) fn from_pages(pages: Vec<Page>) -> Self {
        let mut state = State::default();
        for page in pages {
            match page {
                Page::Decisions(decisions) => decisions.into_iter().for_each(|known| state.enter(known)),
                Page::HomeBounds { forgotten } => state.forgotten = forgotten,
                Page::Versions(_) | Page::Prepared(_) | Page::Ended(_) | Page::Bounds { .. } => {
                    unreachable!("the log of a home leads to no pages of a shard")
                }
            }
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::{ClientId, ReplicaIndex, Timestamp};

    use super::*;

    fn decision(sequence: u64, snapshot: u64, outcome: Outcome) -> Arc<Decision> {
        let transaction = TransactionId { client: ClientId(1), sequence, attempt: 0 };
        let snapshot = ClockTime::from_micros(snapshot);
        let by = ReplicaIndex(0);
        Arc::new(Decision {
            transaction,
            by,
            snapshot,
            begun: ClockTime::default(),
            participants: Vec::new(),
            outcome,
            readers: Vec::new(),
        })
    }

    fn committed(micros: u64) -> Outcome {
        Outcome::Committed(Timestamp { micros, client: ClientId(1) })
    }

    #[test]
    fn the_first_decision_on_a_transaction_counts() {
        let mut state = State::default();
        assert_eq!(state.record(&decision(1, 5, Outcome::Aborted)), Outcome::Aborted);
        assert_eq!(state.record(&decision(1, 5, committed(9))), Outcome::Aborted);
        assert_eq!(state.record(&decision(2, 5, committed(9))), committed(9));
        assert_eq!(state.record(&decision(2, 5, Outcome::Aborted)), committed(9));
    }

    #[test]
    fn a_commit_is_forgotten_once_it_is_settled_and_never_recorded_below_what_is_forgotten() {
        let mut state = State::default();
        let (one, other) = (decision(1, 5, committed(9)), decision(2, 5, committed(9)));
        state.record(&one);
        state.record(&other);
        state.settle(&[one.transaction]);
        state.forget(ClockTime::from_micros(6));
        assert_eq!(state.outcome(one.transaction), None);
        assert_eq!(state.outcome(other.transaction), Some(committed(9)), "a shard may not have applied it");
        assert_eq!(state.record(&decision(3, 5, committed(9))), Outcome::Aborted, "it may have been aborted");
        assert_eq!(state.record(&decision(4, 6, committed(9))), committed(9), "that would be remembered");
    }

    #[test]
    fn a_commit_is_remembered_for_as_long_as_its_client_may_ask_by_its_own_clock() {
        let mut state = State::default();
        let one =
            Decision { begun: ClockTime::from_micros(90), ..Decision::clone(&decision(1, 5, committed(9))) };
        state.record(&Arc::new(one.clone()));
        state.settle(&[one.transaction]);
        state.forget(ClockTime::from_micros(90));
        assert_eq!(state.outcome(one.transaction), Some(committed(9)));
        state.forget(ClockTime::from_micros(91));
        assert_eq!(state.outcome(one.transaction), None);
    }

    #[test]
    fn pages_hold_the_whole_state() {
        let mut state = State::default();
        state.record(&decision(1, 5, committed(9)));
        state.record(&decision(2, 7, Outcome::Aborted));
        state.forget(ClockTime::from_micros(4));
        let pages: Vec<Page> = state.freeze(1).pages.into_iter().collect();
        let copy = State::from_pages(pages.clone());
        assert_eq!(copy.freeze(1).pages.into_iter().collect::<Vec<_>>(), pages);
    }
}
