//! Turns of clients whose operations are long.
//!
//! A shard executes one operation at a time, and so does a node. An operation that does not end is stopped by the application after so
//! much work, which is the time of hundreds of others. So what a long operation is counts as a debt of its client, and all debts of a
//! shard are paid off at a rate. Until its debt is paid a client is told to try again later as long as debts are high, or another long
//! operation may be on its way: long ones run one at a time, and between them runs what waits.
//!
//! Only the leader keeps debts, and the next leader begins without any.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::ClientId;

/// The debts of clients to a shard.
#[derive(Debug, Default)]
pub(super) struct Debts {
    owed: BTreeMap<ClientId, u64>,
}

impl Debts {
    /// An operation of this client was so much work.
    pub(super) fn charge(&mut self, client: ClientId, work: u64) {
        *self.owed.entry(client).or_default() += work;
    }

    /// True if a client has anything to pay off.
    pub(super) fn has(&self, client: ClientId) -> bool {
        self.owed.contains_key(&client)
    }

    /// The clients that owe anything.
    pub(super) fn debtors(&self) -> impl Iterator<Item = ClientId> + '_ {
        self.owed.keys().copied()
    }

    /// The debts of all of them together.
    pub(super) fn total(&self) -> u64 {
        self.owed.values().sum()
    }

    /// So much time has gone by: what is paid off in it is the same for all.
    pub(super) fn pay(&mut self, per_second: u64, passed: Duration) {
        let paid = (per_second as f64 * passed.as_secs_f64()) as u64;
        let share = paid / (self.owed.len() as u64).max(1);
        self.owed.retain(|_, owed| {
            *owed = owed.saturating_sub(share);
            *owed > 0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debts_are_paid_off_together() {
        let mut debts = Debts::default();
        debts.charge(ClientId(1), 30);
        debts.charge(ClientId(2), 10);
        debts.charge(ClientId(1), 20);
        assert_eq!((debts.total(), debts.has(ClientId(2)), debts.has(ClientId(3))), (60, true, false));
        debts.pay(40, Duration::from_millis(500));
        assert_eq!((debts.total(), debts.has(ClientId(2))), (40, false), "ten each");
        debts.pay(39, Duration::from_secs(1));
        assert_eq!((debts.total(), debts.debtors().count()), (1, 1), "the least debt is one");
        debts.pay(40, Duration::from_secs(1));
        assert_eq!(debts.debtors().count(), 0, "one pays alone");
        debts.pay(40, Duration::from_secs(1));
    }
}
