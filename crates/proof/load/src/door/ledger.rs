//! The acknowledged writes of doors, beside the history: those that must be there in the end, and how often at most.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorate_core::Key;
use quorate_core::transaction::readable;

use super::transaction::{Ask, Tally, Transaction, Understood};

/// So many breaches are kept, in words; more would say no more.
const BREACHES_MAX: usize = 20;

/// A ledger. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Mutex<Book>>);

#[derive(Debug, Default)]
struct Book {
    /// The values of each list whose append was acknowledged.
    appended: BTreeMap<Key, BTreeSet<i64>>,
    counters: BTreeMap<Key, Counter>,
    breaches: Vec<String>,
}

/// A counter that increments alone change.
#[derive(Debug, Default)]
struct Counter {
    /// How many increments may have been carried out: those that were begun and did not surely fail.
    begun: u64,
    /// The counts that acknowledged increments have told.
    told: BTreeSet<i64>,
}

impl Ledger {
    /// The promises that were broken, in words.
    pub fn breaches(&self) -> Vec<String> {
        self.book().breaches.clone()
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A promise was broken.
    pub(super) fn note(&self, breach: String) {
        self.book().note(breach);
    }

    /// A transaction begins: from here on it may be carried out.
    pub(super) fn begin(&self, transaction: &Transaction) {
        let mut book = self.book();
        for counter in counted(transaction) {
            book.counters.entry(counter.clone()).or_default().begun += 1;
        }
    }

    /// It surely was not carried out.
    pub(super) fn fail(&self, transaction: &Transaction) {
        let mut book = self.book();
        for counter in counted(transaction) {
            if let Some(counter) = book.counters.get_mut(counter) {
                counter.begun -= 1;
            }
        }
    }

    /// It was acknowledged, with this.
    pub(super) fn acknowledge(&self, transaction: &Transaction, understood: &Understood) {
        let mut book = self.book();
        understood.breaches.iter().for_each(|breach| book.note(breach.clone()));
        for ask in &transaction.asks {
            if let Ask::Append(list, value) | Ask::Tally(Tally { list, .. }, value) = ask {
                book.appended.entry(list.clone()).or_default().insert(*value);
            }
        }
        for (counter, told) in &understood.counts {
            if !book.counters.entry(counter.clone()).or_default().told.insert(*told) {
                book.note(format!("two increments of {} have both told {told}", readable(counter)));
            }
        }
    }

    /// A transaction has read this when no other one was under way any more. Gives how many acknowledged writes it lacks, and notes none of
    /// them: another read may be the wiser.
    pub(super) fn missing(&self, understood: &Understood) -> Vec<String> {
        let book = self.book();
        let mut missing = Vec::new();
        for (list, values) in &understood.lists {
            let there: BTreeSet<i64> = values.iter().copied().collect();
            let acknowledged = book.appended.get(list).into_iter().flatten();
            let lost = acknowledged.filter(|value| !there.contains(value));
            missing.extend(lost.map(|value| format!("{value} is not in {}", readable(list))));
        }
        for (counter, count) in &understood.counts {
            let Some(known) = book.counters.get(counter) else { continue };
            let least = known.told.last().copied().unwrap_or(0).max(known.told.len() as i64);
            if *count < least {
                missing.push(format!("{} is {count} after it was told to be {least}", readable(counter)));
            }
        }
        missing
    }

    /// The same transaction shows which increments were carried out more than once.
    pub(super) fn check_repeats(&self, understood: &Understood) {
        let mut book = self.book();
        for (counter, count) in &understood.counts {
            let begun = book.counters.get(counter).map_or(0, |counter| counter.begun);
            if u64::try_from(*count).is_ok_and(|count| count > begun) {
                book.note(format!("{} is {count} after {begun} increments", readable(counter)));
            }
        }
        understood.breaches.iter().for_each(|breach| book.note(breach.clone()));
    }
}

impl Book {
    fn note(&mut self, breach: String) {
        if self.breaches.len() < BREACHES_MAX {
            self.breaches.push(breach);
        }
    }
}

/// The counters that a transaction increments.
fn counted(transaction: &Transaction) -> impl Iterator<Item = &Key> {
    transaction.asks.iter().filter_map(|ask| match ask {
        Ask::Count(counter) => Some(counter),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::transaction::Form;
    use super::*;

    fn increment() -> Transaction {
        Transaction { form: Form::Alone, asks: vec![Ask::Count("n0".into())] }
    }

    fn told(count: i64) -> Understood {
        Understood { counts: vec![("n0".into(), count)], ..Understood::default() }
    }

    #[test]
    fn an_increment_without_an_answer_counts_as_none_or_one() {
        let ledger = Ledger::default();
        for _ in 0..3 {
            ledger.begin(&increment());
        }
        ledger.acknowledge(&increment(), &told(1));
        ledger.fail(&increment());
        // One is acknowledged, one has surely failed, and of one nothing is known.
        for count in [1, 2] {
            assert!(ledger.missing(&told(count)).is_empty(), "{count}");
            ledger.check_repeats(&told(count));
            assert!(ledger.breaches().is_empty(), "{count}");
        }
        assert_eq!(ledger.missing(&told(0)).len(), 1);
        ledger.check_repeats(&told(3));
        assert_eq!(ledger.breaches(), ["\"n0\" is 3 after 2 increments"]);
    }

    #[test]
    fn two_increments_never_tell_the_same() {
        let ledger = Ledger::default();
        for _ in 0..2 {
            ledger.begin(&increment());
            ledger.acknowledge(&increment(), &told(1));
        }
        assert_eq!(ledger.breaches().len(), 1);
    }

    #[test]
    fn an_acknowledged_append_has_to_be_there() {
        let ledger = Ledger::default();
        let append = Transaction { form: Form::Alone, asks: vec![Ask::Append("l0".into(), 7)] };
        ledger.acknowledge(&append, &Understood::default());
        let read = |values| Understood { lists: vec![("l0".into(), values)], ..Understood::default() };
        assert!(ledger.missing(&read(vec![5, 7])).is_empty());
        assert_eq!(ledger.missing(&read(vec![5])), ["7 is not in \"l0\""]);
    }
}
