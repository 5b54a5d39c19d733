//! The invariants that hold between any two steps of a replica. Golden scripts and the simulator assert them after every step.
//!
//! | id | property | Walter paper |
//! |---|---|---|
//! | WAL1 | what has committed here was received, and includes what is below the floor | 5.1, *GotVTS* and *CommittedVTS* |
//! | WAL2 | a journal has every transaction from the floor to the last that was received | 5.4 |
//! | WAL3 | registers are locked at their preferred sites, each for one transaction | 5.2, slow commit |
//! | WAL4 | a leader has appended no less than what is stable, and tells nobody of more | 5.4, 5.7 |

use quorate_core::command::Milestone;

use super::Replica;

impl Replica {
    /// # Panics
    /// If something does not hold.
    pub fn assert_invariants(&self) {
        self.assert_received_what_has_committed();
        self.assert_journals_are_whole();
        self.assert_locks_are_of_this_site();
        self.assert_leader_is_ahead();
    }

    /// Snapshots are made of what is in the histories, and can be read.
    fn assert_received_what_has_committed(&self) {
        let (histories, committed) = (&self.state.histories, &self.state.committed);
        assert!(
            histories.received().includes_all(committed) && committed.includes_all(histories.floor()),
            "WAL1: {} was received, {committed} has committed, {} is the floor",
            histories.received(),
            histories.floor()
        );
        assert!(
            histories.received().of(self.site) == committed.of(self.site),
            "WAL1: what commits at {} takes effect at once",
            self.site
        );
    }

    /// A journal has every transaction from the floor to the last that was received.
    fn assert_journals_are_whole(&self) {
        let histories = &self.state.histories;
        for site in self.sites() {
            let journal = self.state.journals.get(&site);
            let (first, last) = (histories.floor().of(site), histories.received().of(site));
            let kept = journal.map_or(0, |journal| journal.len() as u64);
            assert!(
                kept == last - first,
                "WAL2: the journal of {site} has {kept} transactions of {first} to {last}"
            );
        }
    }

    /// Registers are locked at their preferred sites, each for one transaction.
    fn assert_locks_are_of_this_site(&self) {
        for (id, (lock, _)) in &self.state.locks {
            for key in &lock.keys {
                assert!(self.state.holder(key) == Some(*id), "WAL3: {key:?} is locked for {id}");
                assert!(
                    self.preferred(key) == Some(self.site),
                    "WAL3: {key:?} is locked at its preferred site"
                );
            }
        }
    }

    /// A leader has appended no less than what is stable, and tells nobody of more.
    fn assert_leader_is_ahead(&self) {
        let Some(leader) = &self.leader else { return };
        let own = self.state.committed.of(self.site);
        assert!(leader.appended >= own, "WAL4: {} was appended, and {own} is stable", leader.appended);
        assert!(leader.durable <= own, "WAL4: {} is durable, and {own} is stable", leader.durable);
        let waits_for = leader.awaited.first(Milestone::Durable);
        assert!(
            waits_for.is_none_or(|seqno| seqno > leader.durable),
            "WAL4: a client waits until {waits_for:?} is durable, and {} is",
            leader.durable
        );
        for (site, peer) in &leader.peers {
            assert!(peer.received <= own, "WAL4: {site} has received {}, and {own} is stable", peer.received);
            assert!(
                peer.received <= peer.sent,
                "WAL4: {site} has received {}, and was sent {}",
                peer.received,
                peer.sent
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use quorate_core::hosted::Shards;
    use quorate_core::log::LogMachine;
    use quorate_core::{ClientId, GroupSize, Instant, Key, ReplicaId, ReplicaIndex, ShardId, TransactionId};

    use super::*;
    use crate::config::ReplicaConfig;
    use crate::entry::{Commit, Entry, Lock};
    use crate::vector::{LocalSite, Vector, VersionNumber};

    const ID: TransactionId = TransactionId { client: ClientId(1), sequence: 1, attempt: 0 };
    const HERE: LocalSite = LocalSite(0);
    const THERE: LocalSite = LocalSite(1);

    /// The leader of the first of two local sites.
    fn replica() -> Replica {
        let replica = ReplicaId { shard: ShardId(1), index: ReplicaIndex(0) };
        let shards = Shards { first: ShardId(1), count: 2 };
        let mut replica = Replica::new(ReplicaConfig::new(replica, GroupSize::new(1).unwrap(), shards));
        replica.leader = Some(replica.new_leader(Instant::START));
        replica
    }

    fn lock(replica: &mut Replica) {
        let lock = Lock { transaction: ID, origin: THERE, keys: vec![Key::from("k")] };
        replica.state.locks.insert(ID, (lock, Instant::START));
    }

    /// A transaction commits that this leader has not appended.
    fn commit(replica: &mut Replica) {
        let version = VersionNumber { site: HERE, seqno: 1 };
        let (transaction, snapshot) = (ID, Vector::default());
        let commit = Commit { transaction, version, snapshot, updates: Vec::new(), is_slow: false };
        replica.state.apply(&Entry::Commit(Arc::new(commit)), Instant::START);
    }

    /// A thing to do to a replica.
    type Break = fn(&mut Replica);

    #[test]
    fn what_a_replica_breaks_is_noticed() {
        replica().assert_invariants();
        let broken: [(&str, Break); 9] = [
            ("WAL1", |replica| replica.state.committed.include(VersionNumber { site: THERE, seqno: 1 })),
            ("WAL2", |replica| {
                replica.state.histories.break_received(VersionNumber { site: THERE, seqno: 1 })
            }),
            ("WAL3", lock),
            ("WAL3", |replica| {
                let theirs = |key: &Key| replica.config.preferred(key) == THERE;
                let key = (0..99).map(|number| Key::from(format!("k{number}"))).find(theirs);
                let keys = Vec::from_iter(key);
                replica.state.apply(&Entry::Locked { transaction: ID, origin: THERE, keys }, Instant::START);
            }),
            ("WAL4", commit),
            ("WAL4", |replica| {
                commit(replica);
                let leader = replica.leader.as_mut().expect("it leads");
                leader.appended = 1;
                leader.peers.get_mut(&THERE).expect("it is a peer").received = 1;
            }),
            ("WAL4", |replica| {
                let leader = replica.leader.as_mut().expect("it leads");
                leader.durable = 1;
            }),
            ("WAL4", |replica| {
                let leader = replica.leader.as_mut().expect("it leads");
                leader.peers.get_mut(&THERE).expect("it is a peer").received = 1;
            }),
            ("WAL1", |replica| {
                replica.state.histories.break_received(VersionNumber { site: HERE, seqno: 1 })
            }),
        ];
        for (property, breaks) in broken {
            let mut replica = replica();
            breaks(&mut replica);
            let panic = catch_unwind(AssertUnwindSafe(|| replica.assert_invariants())).expect_err(property);
            let told = panic.downcast_ref::<String>().expect("it says why");
            assert!(told.starts_with(property), "{property}: {told}");
        }
    }
}
