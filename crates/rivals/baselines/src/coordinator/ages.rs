//! How old transactions are: the one that began first has precedence where locks are waited for.
//!
//! A transaction that is attempted again keeps the age of its first attempt, so that it is the oldest in the end.

use std::collections::BTreeMap;

use quorate_core::{Timestamp, TransactionId};

/// So many are remembered. Those whose client gave up are never asked for again.
const AGES_MAX: usize = 4_096;

/// The ages of transactions between two attempts.
#[derive(Debug, Default)]
pub(super) struct Ages {
    /// By the sequence of the transaction.
    ages: BTreeMap<u64, Timestamp>,
}

impl Ages {
    /// An attempt has come to nothing.
    pub(super) fn keep(&mut self, id: TransactionId, age: Timestamp) {
        self.ages.insert(id.sequence, age);
        while self.ages.len() > AGES_MAX {
            self.ages.pop_first();
        }
    }

    /// The age of a transaction that is attempted again, if it is known.
    pub(super) fn take(&mut self, id: TransactionId) -> Option<Timestamp> {
        self.ages.remove(&id.sequence)
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::ClientId;

    use super::*;

    fn id(sequence: u64, attempt: u32) -> TransactionId {
        TransactionId { client: ClientId(1), sequence, attempt }
    }

    #[test]
    fn a_further_attempt_is_as_old_as_the_first() {
        let mut ages = Ages::default();
        let age = Timestamp { micros: 5, client: ClientId(1) };
        ages.keep(id(1, 0), age);
        assert_eq!(ages.take(id(1, 1)), Some(age));
        assert_eq!(ages.take(id(1, 1)), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut ages = Ages::default();
        for sequence in 0..2 * AGES_MAX as u64 {
            ages.keep(id(sequence, 0), Timestamp::ZERO);
        }
        assert_eq!(ages.ages.len(), AGES_MAX);
    }
}
