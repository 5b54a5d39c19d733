//! What holds between any two steps of a replica of a shard.

use std::collections::BTreeSet;

use super::Shard;

impl Shard {
    /// Asserts all of it.
    pub(crate) fn assert_invariants(&self) {
        self.what_is_prepared_holds_its_keys();
        self.votes_are_counted();
        self.waiters_are_counted();
    }

    fn what_is_prepared_holds_its_keys(&self) {
        for id in self.state.prepared.keys() {
            let pending = self.pendings.get(*id);
            let is_held = pending.is_some_and(|pending| pending.prepared.is_some());
            assert!(is_held, "{id} is prepared and holds nothing");
        }
        for (id, pending) in self.pendings.iter() {
            let is_said = pending.is_let_in() || pending.note.is_some() || pending.outcome.is_some();
            assert!(is_said, "{id} holds keys, and nobody says so");
            assert!(
                pending.prepared.is_none() || self.state.prepared.contains_key(&id),
                "{id} is taken for prepared"
            );
        }
    }

    fn votes_are_counted(&self) {
        let held = self.pendings.iter().filter(|(_, pending)| pending.vote.is_some()).count();
        assert_eq!(held, self.held_votes, "votes that wait are counted");
    }

    fn waiters_are_counted(&self) {
        let waiting = self.waiting.values().map(Vec::len).sum::<usize>() + self.ungranted.len();
        assert_eq!(waiting, self.waiters, "requests that wait are counted");
        let known: BTreeSet<_> = self.pendings.iter().map(|(id, _)| id).collect();
        let is_known = |id| known.contains(id) || self.is_replaced;
        assert!(self.waiting.keys().all(is_known), "nothing is waited for that has ended");
    }
}
