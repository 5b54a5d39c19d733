//! Which transactions may have ended here and been collected: of these nothing but their effects is left.
//!
//! A coordinator that was away for long may propose a transaction again, above the floor, that a backup coordinator has
//! committed by an earlier prepare, below the floor. To whom nothing is left of it, it looks new; voted on, it would
//! commit twice, or be told to have met a conflict. But a client whose clock is slow also proposes first below the floor
//! and then above, and its transaction *is* new. What tells them apart is kept here: for each client the latest of its
//! transactions that was collected. f + 1 replicas have executed what has committed, so at least as many know their part
//! in it, by the record or by this, as are needed to keep any other prepare of it from succeeding.
//!
//! It errs on one side, for a client runs several transactions at once: so it may refuse a vote, or settle in a merge what
//! has not succeeded, and may never speak against a prepare that may have.
//!
//! None of this is durable: after a restart, and wherever state has come from another replica, everything below the floor
//! counts as collected.

use quorate_core::hash::FixedMap;
use quorate_core::{ClientId, Timestamp, TransactionId};

/// So many clients are told apart.
const CLIENTS_MAX: usize = 65_536;

/// What may have been collected.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    latest: FixedMap<ClientId, TransactionId>,
    /// Of transactions that were first proposed below this, nothing is known.
    unknown_below: Timestamp,
}

impl Collected {
    /// A transaction that has ended is dropped, under this floor.
    pub(crate) fn note(&mut self, transaction: TransactionId, floor: Timestamp) {
        if self.latest.len() >= CLIENTS_MAX && !self.latest.contains_key(&transaction.client) {
            self.forget(floor);
        }
        let latest = self.latest.entry(transaction.client).or_insert(transaction);
        *latest = transaction.max(*latest);
    }

    /// Anything may have been collected below this floor.
    pub(crate) fn forget(&mut self, floor: Timestamp) {
        self.latest.clear();
        self.unknown_below = self.unknown_below.max(floor);
    }

    /// True if a transaction may have been collected that was first proposed at this timestamp, below the floor.
    pub(crate) fn may_hold(&self, transaction: TransactionId, first: Timestamp) -> bool {
        first < self.unknown_below
            || self.latest.get(&transaction.client).is_some_and(|latest| *latest >= transaction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transaction(client: u64, sequence: u64) -> TransactionId {
        TransactionId { client: ClientId(client), sequence, attempt: 0 }
    }

    fn at(micros: u64) -> Timestamp {
        Timestamp { micros, client: ClientId(1) }
    }

    #[test]
    fn what_was_collected_and_what_is_new_are_told_apart() {
        let mut collected = Collected::default();
        collected.note(transaction(1, 5), at(100));
        collected.note(transaction(1, 4), at(100));
        let table = [(1, 4, true), (1, 5, true), (1, 6, false), (2, 1, false)];
        for (client, sequence, expected) in table {
            assert_eq!(collected.may_hold(transaction(client, sequence), at(50)), expected);
        }
        collected.forget(at(100));
        assert!(collected.may_hold(transaction(2, 1), at(99)));
        assert!(!collected.may_hold(transaction(2, 1), at(100)));
    }

    #[test]
    fn too_many_clients_are_not_told_apart() {
        let mut collected = Collected::default();
        for client in 0..CLIENTS_MAX as u64 {
            collected.note(transaction(client, 1), at(100));
        }
        collected.note(transaction(7, 2), at(100));
        assert!(!collected.may_hold(transaction(8, 2), at(50)));
        collected.note(transaction(CLIENTS_MAX as u64, 1), at(100));
        assert!(collected.may_hold(transaction(8, 2), at(50)), "the floor is all that is left");
        assert!(!collected.may_hold(transaction(8, 2), at(100)));
    }
}
