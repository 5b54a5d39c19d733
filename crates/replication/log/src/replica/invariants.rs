//! Invariants that hold between any two steps of a replica of a log, and between the replicas of a group. The simulator asserts them
//! after every step.
//!
//! | id | property | "Viewstamped Replication Revisited" |
//! |---|---|---|
//! | LOG1 | what is stable is in the log, and what is forgotten is stable | 4.1, 5.1 |
//! | LOG2 | a leader is normal, in a view whose turn it is | 4 |
//! | LOG3 | a replica is normal in the last view in which it took part | 4.2 |
//! | LOG4 | what has overtaken other entries reaches beyond the log | 4.1 |
//! | LOG5 | logs are offered to the leader of a view, and kept until the next | 4.2 |
//! | LOG6 | snapshots stand for stable entries | 5.1 |
//! | LOG7 | no two replicas give their machines different entries at one position | 4.1 |
//! | LOG8 | a view has one leader | 4 |
//! | LOG9 | a leader has everything that was stable before its view | 4.2 |
//! | LOG10 | no replica leads while another holds a lease | [`lease`](super::lease) |
//!
//! The first six are of one replica, and asserted; the others a [`Witness`] finds out, to which each replica of a group is shown after
//! each of its steps. It looks at what is new since the one before, so that a step costs as much as it has done.

use std::collections::BTreeMap;

use quorate_core::invariant::Violation;
use quorate_core::log::Position;
use quorate_core::{Instant, ReplicaIndex, ShardId, View};

use super::{Replica, Status};
use crate::{Entry, Payload};

impl<P: Payload> Replica<P> {
    /// LOG1 to LOG6.
    ///
    /// # Panics
    /// If one of them does not hold.
    pub fn assert_invariants(&self) {
        self.what_is_stable_is_in_the_log();
        self.a_leader_is_normal_and_has_its_turn();
        self.a_normal_replica_takes_part_in_its_view();
        self.what_came_early_reaches_beyond_the_log();
        self.offers_are_made_to_the_leader();
        self.snapshots_stand_for_stable_entries();
    }

    fn what_is_stable_is_in_the_log(&self) {
        let (stable, shape) = (self.stable(), self.entries.shape());
        assert!(
            shape.base <= stable && stable <= shape.last,
            "LOG1: {stable:?} is stable in a log of the entries after {:?} and up to {:?}",
            shape.base,
            shape.last
        );
    }

    fn a_leader_is_normal_and_has_its_turn(&self) {
        let is_so = self.status() == Status::Normal && self.leader(self.view()) == self.me;
        assert!(
            !self.is_leading() || is_so,
            "LOG2: {:?} leads {} and is {:?}",
            self.me,
            self.view(),
            self.status()
        );
    }

    fn a_normal_replica_takes_part_in_its_view(&self) {
        let (last, view) = (self.last_normal, self.view);
        assert!(
            self.status() != Status::Normal || last == view,
            "LOG3: a replica is normal in {view} and took part in {last}"
        );
    }

    fn what_came_early_reaches_beyond_the_log(&self) {
        let first = self.early.first_key_value();
        let reaches = first.map(|(after, entries)| (*after, Position(after.0 + entries.len() as u64)));
        assert!(
            reaches.is_none_or(|(_, upto)| upto > self.last()),
            "LOG4: entries after and up to {reaches:?} wait, and the log ends at {:?}",
            self.last()
        );
    }

    fn offers_are_made_to_the_leader(&self) {
        let leads = self.leader(self.view()) == self.me;
        assert!(
            self.changing.offers_len() == 0 || leads,
            "LOG5: {} logs are offered to {:?}, and {:?} is the leader of {}",
            self.changing.offers_len(),
            self.me,
            self.leader(self.view()),
            self.view()
        );
    }

    fn snapshots_stand_for_stable_entries(&self) {
        let (base, stable) = (self.snapshots.base, self.stable());
        assert!(
            self.entries.shape().base <= base && base <= stable,
            "LOG6: a snapshot stands for entries up to {base:?}, {:?} is forgotten, and {stable:?} is stable",
            self.entries.shape().base
        );
    }
}

/// So many entries are compared back from the last that is stable.
const COMPARED_MAX: usize = 100_000;

/// The steps of the replicas of one group, as far as they must agree.
#[derive(Debug)]
pub struct Witness<P> {
    shard: ShardId,
    /// The entries that were given to machines.
    stable: BTreeMap<Position, Entry<P>>,
    /// Up to where the log was known to be stable in each view.
    stable_in: BTreeMap<View, Position>,
    leaders: BTreeMap<View, ReplicaIndex>,
    seen: BTreeMap<ReplicaIndex, Seen>,
}

/// The state of one replica when it was last shown.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    stable: Position,
    leads: Option<View>,
    lease_until: Option<Instant>,
}

impl<P: Payload> Witness<P> {
    /// Nothing was shown of the group.
    pub fn new(shard: ShardId) -> Self {
        Witness {
            shard,
            stable: BTreeMap::new(),
            stable_in: BTreeMap::new(),
            leaders: BTreeMap::new(),
            seen: BTreeMap::new(),
        }
    }

    /// A replica has taken a step. `local_now` tells what time it is at another, unless that is down; `on_new` is given each entry that
    /// no replica had given to its machine before.
    pub fn see(
        &mut self,
        replica: &Replica<P>,
        local_now: impl Fn(ReplicaIndex) -> Option<Instant>,
        mut on_new: impl FnMut(Position, &P),
        found: &mut Vec<Violation>,
    ) {
        let (me, view, stable) = (replica.me, replica.view(), replica.stable());
        let before = self.seen.get(&me).copied().unwrap_or_default();
        if stable != before.stable {
            // After a restart a replica is given everything again.
            let first = if stable < before.stable { Position::START } else { before.stable };
            let first = first.max(replica.entries.shape().base);
            let mut at = first;
            while at < stable {
                at = at.next();
                let Some(entry) = replica.entry(at) else { continue };
                if self.stabilises(me, at, entry, found) {
                    on_new(at, &entry.payload);
                }
            }
            let known = self.stable_in.entry(view).or_default();
            *known = stable.max(*known);
        }
        let leads = replica.is_leading().then_some(view);
        if leads.is_some() && leads != before.leads {
            let holds = |at| replica.entry(at);
            self.begins_to_lead(me, view, replica.last(), holds, local_now, found);
        }
        let lease_until = replica.lease_until();
        self.seen.insert(me, Seen { stable, leads, lease_until });
    }

    /// A replica is down: whatever it held is gone with it.
    pub fn lose(&mut self, replica: ReplicaIndex) {
        self.seen.remove(&replica);
    }

    /// LOG7. True if the entry is news.
    fn stabilises(
        &mut self,
        me: ReplicaIndex,
        at: Position,
        entry: &Entry<P>,
        found: &mut Vec<Violation>,
    ) -> bool {
        let last = self.stable.last_key_value().map_or(Position::START, |(last, _)| *last);
        match self.stable.get(&at) {
            Some(known) if known != entry => {
                let explain = format!("{me:?} gives {entry:?} at {at:?}, where another has given {known:?}");
                found.push(Violation::new("LOG7", self.shard, explain));
                false
            }
            Some(_) => false,
            // It is no longer known what was there.
            None if at <= last => false,
            None => {
                self.stable.insert(at, entry.clone());
                if self.stable.len() > COMPARED_MAX {
                    self.stable.pop_first();
                }
                true
            }
        }
    }

    /// LOG8, LOG9 and LOG10.
    fn begins_to_lead<'a>(
        &mut self,
        me: ReplicaIndex,
        view: View,
        last: Position,
        entry: impl Fn(Position) -> Option<&'a Entry<P>>,
        local_now: impl Fn(ReplicaIndex) -> Option<Instant>,
        found: &mut Vec<Violation>,
    ) where
        P: 'a,
    {
        let leader = *self.leaders.entry(view).or_insert(me);
        if leader != me {
            let explain = format!("{view} is led by {me:?}, and was by {leader:?}");
            found.push(Violation::new("LOG8", self.shard, explain));
        }
        let bound = self.stable_in.range(..view).map(|(_, bound)| *bound).max().unwrap_or_default();
        let is_other = |known: &Entry<P>| entry(bound).is_some_and(|held| held != known);
        if last < bound || self.stable.get(&bound).is_some_and(is_other) {
            let explain = format!(
                "{me:?} leads {view} with a log up to {last:?}, and {bound:?} was stable: {:?} is held in place of {:?}",
                entry(bound),
                self.stable.get(&bound)
            );
            found.push(Violation::new("LOG9", self.shard, explain));
        }
        for (other, seen) in self.seen.iter().filter(|(other, _)| **other != me) {
            let (Some(leads), Some(until)) = (seen.leads, seen.lease_until) else { continue };
            if leads < view && local_now(*other).is_some_and(|now| now < until) {
                let explain = format!(
                    "{me:?} leads {view}, and {other:?} has a lease in {leads} until {until:?}, where it is {:?}",
                    local_now(*other)
                );
                found.push(Violation::new("LOG10", self.shard, explain));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    use quorate_core::GroupSize;

    use super::super::normal::Leading;
    use super::*;
    use crate::entries::Entries;
    use crate::{Limits, Membership, Timing};

    const SHARD: ShardId = ShardId(1);
    const ZERO: ReplicaIndex = ReplicaIndex(0);
    const ONE: ReplicaIndex = ReplicaIndex(1);
    const TWO: ReplicaIndex = ReplicaIndex(2);

    fn replica() -> Replica<u64> {
        let group = Membership::first(GroupSize::new(3).unwrap());
        Replica::new(group, ZERO, Timing::DEFAULT, Limits::DEFAULT)
    }

    /// One way to break a property of a replica.
    type Break = fn(&mut Replica<u64>);

    #[test]
    fn what_a_replica_breaks_is_noticed() {
        replica().assert_invariants();
        let broken: [(&str, Break); 9] = [
            ("LOG1", |replica| replica.stable = Position(1)),
            ("LOG2", |replica| {
                replica.leading = Some(Leading::new(Instant::START, Position::START, BTreeMap::new()));
                replica.me = ONE;
            }),
            ("LOG3", |replica| replica.last_normal = View(1)),
            ("LOG4", |replica| assert!(replica.early.insert(Position::START, Vec::new()).is_none())),
            ("LOG5", |replica| {
                replica.changing.take_offer(ONE);
                replica.me = ONE;
            }),
            ("LOG6", |replica| replica.snapshots.base = Position(1)),
            ("LOG2", |replica| {
                replica.leading = Some(Leading::new(Instant::START, Position::START, BTreeMap::new()));
                replica.status = Status::ViewChanging;
            }),
            ("LOG1", |replica| {
                replica.entries = Entries::forgotten(Position(1), View(0));
                replica.snapshots.base = Position(1);
            }),
            ("LOG6", |replica| {
                replica.entries = Entries::forgotten(Position(1), View(0));
                replica.stable = Position(1);
            }),
        ];
        for (property, breaks) in broken {
            let mut replica = replica();
            breaks(&mut replica);
            let panic = catch_unwind(AssertUnwindSafe(|| replica.assert_invariants()));
            let panic = panic.expect_err(property);
            let told = panic.downcast_ref::<String>().expect("it says why");
            assert!(told.starts_with(property), "{property}: {told}");
        }
    }

    fn entry(view: u64, payload: u64) -> Entry<u64> {
        Entry { view: View(view), payload }
    }

    /// A witness to which one replica has given two entries in view 0, the second of which is stable there.
    fn witness() -> Witness<u64> {
        let mut witness = Witness::new(SHARD);
        let mut found = Vec::new();
        for at in [1, 2] {
            assert!(witness.stabilises(ZERO, Position(at), &entry(0, at), &mut found));
        }
        witness.stable_in.insert(View(0), Position(2));
        witness.leaders.insert(View(0), ZERO);
        let lease_until = Some(Instant::START + Duration::from_secs(9));
        witness.seen.insert(ZERO, Seen { stable: Position(2), leads: Some(View(0)), lease_until });
        assert!(found.is_empty());
        witness
    }

    fn properties(found: &[Violation]) -> Vec<&'static str> {
        found.iter().map(|violation| violation.property).collect()
    }

    #[test]
    fn entries_that_differ_at_one_position_are_noticed() {
        let mut found = Vec::new();
        assert!(!witness().stabilises(ONE, Position(2), &entry(0, 2), &mut found));
        assert!(witness().stabilises(ONE, Position(3), &entry(1, 3), &mut found));
        assert!(found.is_empty());
        for other in [entry(0, 7), entry(1, 2)] {
            witness().stabilises(ONE, Position(2), &other, &mut found);
        }
        assert_eq!(properties(&found), ["LOG7", "LOG7"]);
    }

    /// A replica that begins to lead a view with such a log after so many seconds, and what is found.
    type Beginning<'a> = (&'a str, ReplicaIndex, u64, &'a [Entry<u64>], u64, &'a [&'a str]);

    #[test]
    fn leaders_that_must_not_lead_are_noticed() {
        let at = |seconds| Some(Instant::START + Duration::from_secs(seconds));
        let held = [entry(0, 1), entry(0, 2)];
        let other = [entry(0, 1), entry(0, 7)];
        let table: [Beginning<'_>; 7] = [
            ("the next", ONE, 1, &held, 10, &[]),
            ("the same again", ZERO, 0, &held, 1, &[]),
            ("in the view of another", TWO, 0, &held, 10, &["LOG8"]),
            ("without what was stable", ONE, 1, &held[..1], 10, &["LOG9"]),
            ("with something else in its place", ONE, 1, &other, 10, &["LOG9"]),
            ("while the other has a lease", ONE, 1, &held, 8, &["LOG10"]),
            ("too early and without anything", TWO, 2, &[], 8, &["LOG9", "LOG10"]),
        ];
        for (what, me, view, log, seconds, expected) in table {
            let mut found = Vec::new();
            let entry = |at: Position| log.get(at.0.checked_sub(1)? as usize);
            let last = Position(log.len() as u64);
            witness().begins_to_lead(me, View(view), last, entry, |_| at(seconds), &mut found);
            assert_eq!(properties(&found), expected, "{what}");
        }
        let mut found = Vec::new();
        witness().begins_to_lead(ONE, View(1), Position(2), |_| None, |_| None, &mut found);
        assert!(found.is_empty(), "who is down has no lease");
        // Entries that were stable in an earlier view are needed; those that are stable in its own or a later one are not yet.
        for (known, expected) in [(1, &["LOG9"][..]), (2, &[]), (3, &[])] {
            let (mut witness, mut found) = (witness(), Vec::new());
            witness.stable_in.insert(View(known), Position(5));
            witness.begins_to_lead(ONE, View(2), Position(2), |_| None, |_| None, &mut found);
            assert_eq!(properties(&found), expected, "{known}");
        }
        let mut witness = witness();
        witness.lose(ZERO);
        witness.begins_to_lead(ONE, View(1), Position(2), |_| None, |_| at(1), &mut found);
        assert!(found.is_empty(), "nor has who was");
    }

    #[test]
    fn what_a_longer_log_has_overtaken_waits_no_longer() {
        let mut replica = replica();
        for (after, payloads) in [(0, 1..=1), (1, 2..=3), (2, 3..=4), (5, 6..=6)] {
            replica.early.insert(Position(after), payloads.map(|payload| entry(0, payload)).collect());
        }
        for payload in 1..=3 {
            replica.entries.push(entry(0, payload));
        }
        replica.forget_overtaken();
        assert!(replica.early.keys().eq(&[Position(2), Position(5)]), "{:?}", replica.early);
        replica.assert_invariants();
    }

    #[test]
    fn a_replica_that_is_seen_to_lead_is_held_against_the_leader_of_its_view() {
        let leader = |me| {
            let mut leader = replica();
            leader.me = me;
            leader.leading = Some(Leading::new(Instant::START, Position::START, BTreeMap::new()));
            leader
        };
        let (mut witness, mut found) = (Witness::new(SHARD), Vec::new());
        let mut see = |replica: &Replica<u64>| {
            let mut found = Vec::new();
            witness.see(replica, |_| None, |_, _| {}, &mut found);
            properties(&found)
        };
        assert_eq!((see(&replica()), see(&leader(ZERO)), see(&leader(ZERO))), (vec![], vec![], vec![]));
        assert_eq!(see(&leader(ONE)), ["LOG8"]);
        assert_eq!(see(&leader(ONE)), Vec::<&str>::new(), "it is told once");
        witness.see(&leader(TWO), |_| None, |_, _| {}, &mut found);
        assert_eq!(found[0].property, "LOG8");
    }

    #[test]
    fn every_entry_is_told_once_however_often_it_is_given() {
        let mut leader = replica();
        for payload in 1..=3 {
            leader.entries.push(entry(0, payload));
        }
        let (mut witness, mut told, mut found) = (Witness::new(SHARD), Vec::new(), Vec::new());
        for stable in [2, 1, 3] {
            leader.stable = Position(stable);
            witness.see(&leader, |_| None, |at, _| told.push(at.0), &mut found);
        }
        assert_eq!((told, found), (vec![1, 2, 3], Vec::new()));
    }
}
