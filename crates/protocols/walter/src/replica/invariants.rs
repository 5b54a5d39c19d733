//! What holds between any two steps of a replica. Golden scripts and the simulator assert it after every step.

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
            "{} was received, {committed} has committed, {} is the floor",
            histories.received(),
            histories.floor()
        );
        assert!(
            histories.received().of(self.site) == committed.of(self.site),
            "what commits at {} takes effect at once",
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
                "the journal of {site} has {kept} transactions of {first} to {last}"
            );
        }
    }

    /// Registers are locked at their preferred sites, each for one transaction.
    fn assert_locks_are_of_this_site(&self) {
        for (id, (lock, _)) in &self.state.locks {
            for key in &lock.keys {
                assert!(self.state.holder(key) == Some(*id), "{key:?} is locked for {id}");
                assert!(self.preferred(key) == Some(self.site), "{key:?} is locked at its preferred site");
            }
        }
    }

    /// A leader has appended no less than what is stable, and tells nobody of more.
    fn assert_leader_is_ahead(&self) {
        let Some(leader) = &self.leader else { return };
        let own = self.state.committed.of(self.site);
        assert!(leader.appended >= own, "{} was appended, and {own} is stable", leader.appended);
        assert!(leader.durable <= own, "{} is durable, and {own} is stable", leader.durable);
        let waits_for = leader.awaited.first(Milestone::Durable);
        assert!(
            waits_for.is_none_or(|seqno| seqno > leader.durable),
            "a client waits until {waits_for:?} is durable, and {} is",
            leader.durable
        );
        for (site, peer) in &leader.peers {
            assert!(peer.received <= own, "{site} has received {}, and {own} is stable", peer.received);
            assert!(peer.received <= peer.sent.max(peer.received), "{site} was sent what it has received");
        }
    }
}
