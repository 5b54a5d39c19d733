//! Invariants that hold between any two steps of a replica. The simulator asserts them after every step.
//!
//! | id | property | what relies on it |
//! |---|---|---|
//! | CONF1 | the changes that are kept are those up to the revision of the map, without a gap | watches tell every change once |
//! | CONF2 | a leader looks for the end of every lease that is held, and of no other | nobody else takes a lease for ended |
//! | CONF3 | what a leader is asked for waits once | an answer is given to each question |
//! | CONF4 | whatever a lease binds is in the map, and bound to it | keys vanish with their leases, and only they |
//! | CONF5 | keys and leases are counted as they are | limits |
//! | CONF6 | where there are users, one of them is an administrator | nobody is locked out |
//!
//! The invariants of the log come first: see `LOG1` to `LOG10`, in `quorate_log`. The first three are asserted after every step, the others after
//! every so many, because they look at the whole map.

use super::Replica;

impl Replica {
    /// CONF1 to CONF3.
    ///
    /// # Panics
    /// If one of them does not hold.
    pub fn assert_invariants(&self) {
        self.changes_lead_to_the_revision();
        self.leases_are_looked_after();
        self.what_ends_was_there();
    }

    /// CONF4 to CONF6. Looks at the whole map.
    ///
    /// # Panics
    /// If one of them does not hold.
    pub fn assert_whole(&self) {
        self.state.assert_bound();
        self.state.assert_counted();
        self.state.assert_administered();
    }

    fn changes_lead_to_the_revision(&self) {
        let (history, revision) = (&self.state.history, self.state.revision);
        let last = history.last().map_or(history.forgotten(), |last| last.revision);
        let kept = history.changes().len() as u64;
        assert!(
            history.forgotten().0 + kept == last.0 && last <= revision,
            "CONF1: {kept} changes follow {:?}, the last is {last:?}, and the map is at {revision:?}",
            history.forgotten()
        );
    }

    fn leases_are_looked_after(&self) {
        let Some(leader) = &self.leader else { return };
        let (held, known) = (self.state.leases_len(), leader.lasts_until.len());
        assert!(held == known, "CONF2: {held} leases are held, and the end of {known} is looked for");
    }

    fn what_ends_was_there(&self) {
        let Some(leader) = &self.leader else { return };
        for lease in leader.ending.keys() {
            assert!(!leader.granting.contains_key(lease), "CONF3: {lease:?} is to be granted, and to end");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    use quorate_core::log::LogMachine;
    use quorate_core::{ClientId, Instant, Key, ReplicaId, View};

    use super::super::leader::Leader;
    use super::*;
    use crate::config::ReplicaConfig;
    use crate::entry::{Change, LeaseId, Revision};

    const LEASE: LeaseId = LeaseId { client: ClientId(1), number: 1 };

    fn replica() -> Replica {
        let mut replica = Replica::new(ReplicaConfig::new(ReplicaId::default()));
        replica.leader = Some(Leader::new(View(1)));
        replica
    }

    fn leader(replica: &mut Replica) -> &mut Leader {
        replica.leader.as_mut().expect("it leads")
    }

    /// One way to break a property of a replica.
    type Break = fn(&mut Replica);

    #[test]
    fn what_a_replica_breaks_is_noticed() {
        replica().assert_invariants();
        replica().assert_whole();
        let broken: [(&str, Break); 9] = [
            ("CONF1", |replica| {
                let change = Change { revision: Revision(2), keys: Vec::new() };
                replica.state.history.restore(change.into());
            }),
            ("CONF1", |replica| {
                let change = Change { revision: Revision(1), keys: Vec::new() };
                replica.state.history.restore(change.into());
            }),
            ("CONF2", |replica| assert!(leader(replica).lasts_until.insert(LEASE, Instant::START).is_none())),
            ("CONF2", |replica| replica.state.break_lease(LEASE, Duration::from_secs(1))),
            ("CONF3", |replica| {
                leader(replica).ending.insert(LEASE, BTreeSet::new());
                leader(replica).granting.insert(LEASE, BTreeSet::new());
            }),
            ("CONF4", |replica| replica.state.break_bound(LEASE, Key::from("k"))),
            ("CONF4", |replica| replica.state.break_stored(LEASE, Key::from("k"))),
            ("CONF5", |replica| replica.state.break_bytes()),
            ("CONF5", |replica| {
                replica.leader = None;
                replica.state.break_lease(LEASE, Duration::from_secs(1));
            }),
        ];
        for (property, breaks) in broken {
            let mut replica = replica();
            breaks(&mut replica);
            let panic = catch_unwind(AssertUnwindSafe(|| {
                replica.assert_invariants();
                replica.assert_whole();
            }));
            let panic = panic.expect_err(property);
            let told = panic.downcast_ref::<String>().expect("it says why");
            assert!(told.starts_with(property), "{property}: {told}");
        }
    }
}
