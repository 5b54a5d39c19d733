//! The invariants that hold between any two steps of a replica of a shard. Golden scripts and the simulator assert them after every step.
//!
//! | id | property | what relies on it |
//! |---|---|---|
//! | STR1 | what is prepared holds its keys, and whatever holds keys is said by somebody | readers wait for it, and for nothing that has ended (section 6.5) |
//! | STR2 | votes that wait are counted | they are looked at only if there are some |
//! | STR3 | requests that wait are counted, and wait for what has not ended | the bound of what may wait (I7), and that they go on (I6) |

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
            assert!(is_held, "STR1: {id} is prepared and holds nothing");
        }
        for (id, pending) in self.pendings.iter() {
            let is_said = pending.is_let_in() || pending.note.is_some();
            assert!(is_said, "STR1: {id} holds keys, and nobody says so");
            assert!(
                pending.note.is_none() || self.is_own_home(pending.home.into(), pending.life),
                "STR1: {id} is noted for another life than that of the home on this node"
            );
            assert!(
                pending.prepared.is_none() || self.state.prepared.contains_key(&id),
                "STR1: {id} is taken for prepared"
            );
        }
    }

    fn votes_are_counted(&self) {
        let held = self.pendings.iter().filter(|(_, pending)| pending.vote.is_some()).count();
        assert!(held == self.held_votes, "STR2: {held} votes wait, and {} are counted", self.held_votes);
    }

    fn waiters_are_counted(&self) {
        let waiting = self.waiting.values().map(Vec::len).sum::<usize>() + self.ungranted.len();
        assert!(waiting == self.waiters, "STR3: {waiting} requests wait, and {} are counted", self.waiters);
        let known: BTreeSet<_> = self.pendings.iter().map(|(id, _)| id).collect();
        let ended = self.waiting.keys().find(|id| !known.contains(id));
        assert!(ended.is_none() || self.is_replaced, "STR3: {ended:?} is waited for, and has ended");
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use quorate_core::hosted::Shards;
    use quorate_core::{
        ClientId, ClockTime, GroupSize, Instant, Key, ReplicaId, ReplicaIndex, ShardId, TransactionId, View,
    };

    use super::super::Waiter;
    use super::super::pending::{HeldVote, Pending};
    use super::*;
    use crate::config::ReplicaConfig;
    use crate::message::Life;

    const ID: TransactionId = TransactionId { client: ClientId(1), sequence: 1, attempt: 0 };

    fn shard() -> Shard {
        let replica = ReplicaId { shard: ShardId(1), index: ReplicaIndex(0) };
        let shards = Shards { first: ShardId(1), count: 1 };
        Shard::new(ReplicaConfig::new(replica, GroupSize::new(1).unwrap(), shards))
    }

    /// A transaction that the leader of a view has announced.
    fn announce(shard: &mut Shard) -> &mut Pending {
        let new = || {
            Pending::new(
                ReplicaId::default(),
                Life(1),
                ClockTime::from_micros(50),
                vec![Key::from("k")],
                Instant::START,
            )
        };
        let pending = shard.pendings.enter(ID, new);
        pending.announced = Some(View(0));
        pending
    }

    /// A thing to do to a replica.
    type Break = fn(&mut Shard);

    #[test]
    fn what_a_replica_breaks_is_noticed() {
        let mut sound = shard();
        announce(&mut sound);
        sound.assert_invariants();
        let broken: [(&str, Break); 9] = [
            ("STR1", |shard| announce(shard).announced = None),
            ("STR1", |shard| {
                let pending = announce(shard);
                (pending.announced, pending.outcome) = (None, Some(quorate_core::command::Outcome::Aborted));
            }),
            ("STR1", |shard| announce(shard).note = Some(Vec::new())),
            ("STR1", |shard| {
                announce(shard).note = Some(Vec::new());
                shard.home = Some((ReplicaId::default(), Some(Life(2))));
            }),
            ("STR1", |shard| {
                let pending = announce(shard);
                let prepared = crate::entry::Prepared {
                    transaction: ID,
                    home: pending.home,
                    life: pending.life,
                    snapshot: pending.snapshot,
                    proposal: pending.snapshot,
                    writes: Vec::new(),
                    view: View(0),
                    holders: Vec::new(),
                };
                pending.prepared = Some(std::sync::Arc::new(prepared));
            }),
            ("STR2", |shard| announce(shard).vote = Some(HeldVote::Leader)),
            ("STR2", |shard| shard.held_votes = 1),
            ("STR3", |shard| shard.waiters = 1),
            ("STR3", |shard| _ = shard.waiting.insert(ID, Vec::<Waiter>::new())),
        ];
        for (property, breaks) in broken {
            let mut shard = shard();
            breaks(&mut shard);
            let shard = crate::Replica::Shard(Box::new(shard));
            let panic = catch_unwind(AssertUnwindSafe(|| shard.assert_invariants())).expect_err(property);
            let told = panic.downcast_ref::<String>().expect("it says why");
            assert!(told.starts_with(property), "{property}: {told}");
        }
    }
}
