//! The transactions that a coordinator has not forgotten, and when each wants attention: one timer for all of them.

use std::time::Duration;

use quorate_core::hash::FixedMap;
use quorate_core::{Instant, TransactionId};

use crate::plans::Plans;

/// The state of each transaction, and when it is to be looked after.
///
/// A plan that is not the one noted for its transaction counts for nothing, so a plan is replaced by an earlier one without a
/// search.
#[derive(Debug)]
pub struct Transactions<T> {
    known: FixedMap<TransactionId, (T, Option<Instant>)>,
    /// The next first.
    plans: Plans<(Instant, TransactionId)>,
    /// When the timer fires that was set last.
    timer: Option<Instant>,
}

impl<T> Default for Transactions<T> {
    fn default() -> Self {
        Transactions { known: FixedMap::default(), plans: Plans::default(), timer: None }
    }
}

impl<T> Transactions<T> {
    /// Notes a transaction.
    pub fn insert(&mut self, id: TransactionId, transaction: T) {
        self.known.insert(id, (transaction, None));
    }

    /// Forgets a transaction.
    pub fn remove(&mut self, id: &TransactionId) -> Option<T> {
        self.known.remove(id).map(|(transaction, _)| transaction)
    }

    /// The state of a transaction.
    pub fn get(&self, id: &TransactionId) -> Option<&T> {
        self.known.get(id).map(|(transaction, _)| transaction)
    }

    /// The state of a transaction, to be changed.
    pub fn get_mut(&mut self, id: &TransactionId) -> Option<&mut T> {
        self.known.get_mut(id).map(|(transaction, _)| transaction)
    }

    /// True if a transaction is not forgotten.
    pub fn contains_key(&self, id: &TransactionId) -> bool {
        self.known.contains_key(id)
    }

    /// True if all are forgotten.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// All of them, in no order: only for changes in which no transaction depends on another.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.known.values_mut().map(|(transaction, _)| transaction)
    }

    /// Their names, ascending.
    pub fn ids(&self) -> Vec<TransactionId> {
        let mut ids: Vec<TransactionId> = self.known.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Makes sure that a transaction gets attention at `at`, or earlier.
    pub fn wake_at(&mut self, id: TransactionId, at: Instant) {
        let Some((_, noted)) = self.known.get_mut(&id) else { return };
        if noted.is_none_or(|planned| at < planned) {
            *noted = Some(at);
            self.plans.push((at, id));
        }
    }

    /// Makes sure that all of them get attention now.
    pub fn wake_all(&mut self, now: Instant) {
        for id in self.ids() {
            self.wake_at(id, now);
        }
    }

    /// The timer has fired.
    pub fn on_timer(&mut self) {
        self.timer = None;
    }

    /// Takes a transaction that wants attention now.
    pub fn pop_due(&mut self, now: Instant) -> Option<TransactionId> {
        loop {
            let (at, id) = *self.plans.peek()?;
            if at > now {
                return None;
            }
            self.plans.pop();
            if let Some((_, noted)) = self.known.get_mut(&id)
                && *noted == Some(at)
            {
                *noted = None;
                return Some(id);
            }
        }
    }

    /// After how long the timer is to fire, if it has to be set anew. `other` is when something else wants attention.
    pub fn set_timer(&mut self, other: Option<Instant>, now: Instant) -> Option<Duration> {
        let planned = self.plans.peek().map(|(next, _)| *next);
        let next = planned.into_iter().chain(other).min()?;
        if self.timer.is_some_and(|timer| timer <= next) {
            return None;
        }
        self.timer = Some(next);
        Some(next - now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::ClientId;

    fn id(sequence: u64) -> TransactionId {
        TransactionId { client: ClientId(1), sequence, attempt: 0 }
    }

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    fn transactions(sequences: impl IntoIterator<Item = u64>) -> Transactions<()> {
        let mut transactions = Transactions::default();
        sequences.into_iter().for_each(|sequence| transactions.insert(id(sequence), ()));
        transactions
    }

    #[test]
    fn the_timer_is_set_only_for_earlier_plans() {
        let mut transactions = transactions([1, 2]);
        assert_eq!(transactions.set_timer(None, at(0)), None);
        transactions.wake_at(id(1), at(20));
        assert_eq!(transactions.set_timer(None, at(5)), Some(Duration::from_millis(15)));
        assert_eq!(transactions.set_timer(None, at(6)), None);
        transactions.wake_at(id(2), at(30));
        assert_eq!(transactions.set_timer(None, at(6)), None);
        assert_eq!(transactions.set_timer(Some(at(10)), at(6)), Some(Duration::from_millis(4)));
        transactions.on_timer();
        assert_eq!(transactions.set_timer(None, at(6)), Some(Duration::from_millis(14)));
    }

    #[test]
    fn an_earlier_plan_replaces_a_later_one() {
        let mut transactions = transactions([1]);
        transactions.wake_at(id(1), at(20));
        transactions.wake_at(id(1), at(30));
        transactions.wake_at(id(1), at(10));
        assert_eq!(transactions.pop_due(at(9)), None);
        assert_eq!(transactions.pop_due(at(25)), Some(id(1)));
        assert_eq!(transactions.pop_due(at(40)), None, "each wakes once, although it was planned thrice");
        transactions.wake_at(id(1), at(20));
        assert_eq!(transactions.pop_due(at(40)), Some(id(1)));
    }

    #[test]
    fn transactions_that_are_forgotten_or_unknown_are_not_woken() {
        let mut transactions = transactions([2, 1]);
        transactions.wake_all(at(5));
        transactions.wake_at(id(3), at(1));
        transactions.remove(&id(1));
        assert_eq!(transactions.pop_due(at(5)), Some(id(2)));
        assert_eq!(transactions.pop_due(at(5)), None);
        transactions.insert(id(1), ());
        assert_eq!(
            transactions.pop_due(at(9)),
            None,
            "a name that is used again has no plans of its own yet"
        );
    }
}
