//! Properties that hold between any two steps of a replica, one function each. The simulator and golden scripts assert all of it after every
//! step of every replica. A server does not: it asserts what each handler relies on, and this looks at everything that waits.
//!
//! | property | what relies on it |
//! |---|---|
//! | what waits has one place, and one fate | I4, section 4.4 |
//! | bounds are in order | the next leader (section 5.2), and what may be forgotten (I7) |
//! | a leader knows what waits | I6: nobody else ends it |
//! | the queue is what writes, and it is known what lacks votes | the serial order (I1) |
//! | locks are held in locking mode, by everything that waits | section 4.5 |
//! | nothing ran above the ceiling | what was answered stays so (I1, section 5.2) |
//! | what only reads waits once | I6 |
//! | what waits is counted by client | the bound of what one client may have waiting |
//!
//! Properties that hold between shards are found out by a [`Witness`], to which each entry is shown that becomes stable anywhere:
//!
//! | id | property | Granola paper |
//! |---|---|---|
//! | GRA1 | a transaction ends alike in all its shards | 3.2 |
//! | GRA2 | it is executed only if all of them have voted for it | 3.2.1 |
//! | GRA3 | and at the greatest of the timestamps that they have proposed | 3.2.1 |
//! | GRA4 | a proposal that other shards vote on lies above all before it in the log of its shard | 3.2.1, 5.2 |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quorate_core::invariant::Violation;
use quorate_core::{ClientId, ClockTime, ShardId, TransactionId};

use super::Replica;
use super::leader::{Hold, Leader, Open};
use super::state::State;
use crate::application::Application;
use crate::config::Locking;
use crate::entry::{Body, Ending, Entry, Final, Vote, Voted};
use crate::place::Place;
use quorate_core::command::Class;

impl<A: Application> Replica<A> {
    /// Asserts all of them, unless a bug is planted: then clients and those that compare replicas have to notice.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn assert_invariants(&self) {
        if !self.config.is_sound() {
            return;
        }
        what_waits_has_one_place(&self.state);
        what_has_ended_waits_no_longer(&self.state);
        bounds_are_in_order(&self.state);
        let Some(leader) = &self.leader else { return };
        what_waits_is_known_to_the_leader(&self.state, leader);
        each_has_one_fate(&self.state, leader);
        the_queue_is_what_writes(leader);
        what_lacks_votes_is_known(leader);
        locks_are_for_locking_mode(leader);
        // Where nothing is ever waited for, nothing is promised.
        if self.config.locking != Locking::NeverNorWait {
            nothing_ran_above_the_ceiling(&self.state, leader);
        }
        what_only_reads_waits_once(leader);
        what_waits_is_counted_by_client(leader);
    }
}

fn what_waits_has_one_place<A>(state: &State<A>) {
    assert!(state.queue.len() == state.pending.len(), "there are as many places as wait");
    for (id, pending) in &state.pending {
        assert!(
            pending.place.transaction == *id && state.queue.contains(&pending.place),
            "{id} has no place"
        );
    }
}

fn what_has_ended_waits_no_longer<A>(state: &State<A>) {
    assert!(state.fading.len() == state.ended.len(), "what has ended fades");
    for id in state.pending.keys() {
        assert!(!state.ended.contains_key(id), "{id} has ended, and waits");
    }
}

fn bounds_are_in_order<A>(state: &State<A>) {
    assert!(state.forgotten <= state.floor, "what could begin anew is forgotten");
    for (id, pending) in &state.pending {
        assert!(pending.voted.proposed <= state.ceiling, "{id} was proposed above the ceiling");
        assert!(!pending.is_final || pending.place.timestamp <= state.ceiling, "{id} ran above the ceiling");
        // Other shards take the floor as a promise that nothing below waits here.
        let is_shared = pending.voted.participants.len() > 1;
        assert!(!is_shared || pending.voted.first >= state.floor, "{id} waits below the floor");
    }
}

/// A leader has accepted, executed or dropped all that waits as far as its log says.
fn what_waits_is_known_to_the_leader<A>(state: &State<A>, leader: &Leader) {
    for id in state.pending.keys() {
        let is_known =
            leader.open.contains_key(id) || leader.ahead.contains_key(id) || leader.dropped.contains_key(id);
        assert!(is_known, "{id} waits, and its leader does not know");
    }
}

fn each_has_one_fate<A>(state: &State<A>, leader: &Leader) {
    for id in leader.open.keys() {
        let has_ended = leader.ahead.contains_key(id)
            || leader.dropped.contains_key(id)
            || leader.strangers.contains_key(id)
            || state.ended.contains_key(id);
        assert!(!has_ended, "{id} is accepted, and is something else as well");
    }
    for id in leader.ahead.keys() {
        let is_dropped = leader.dropped.contains_key(id) || state.ended.contains_key(id);
        assert!(!is_dropped, "{id} is executed ahead of the log, and has ended");
    }
}

/// The open transactions that write, each with its place.
fn writing(leader: &Leader) -> impl Iterator<Item = (Place, &Open)> {
    let writes = leader.open.iter().filter(|(_, open)| open.class != Class::ReadOnly);
    writes.map(|(id, open)| (open.place(*id), open))
}

fn the_queue_is_what_writes(leader: &Leader) {
    assert!(writing(leader).count() == leader.queue.len(), "something stands in the way, and is not there");
    for (place, _) in writing(leader) {
        assert!(leader.queue.contains(&place), "{place} is in nobody's way");
    }
    let coordinated = writing(leader).filter(|(_, open)| open.class == Class::Coordinated).count();
    assert!(coordinated == leader.coordinated, "what needs locks is counted");
}

fn what_lacks_votes_is_known(leader: &Leader) {
    let lacking = || writing(leader).filter(|(_, open)| open.timestamp.is_none());
    assert!(lacking().count() == leader.undecided.len(), "something lacks votes, and has them");
    for (place, _) in lacking() {
        assert!(leader.undecided.contains(&place), "{place} lacks votes, and nobody knows");
    }
}

fn locks_are_for_locking_mode(leader: &Leader) {
    let dated = writing(leader).filter(|(_, open)| open.timestamp.is_some()).count();
    let expected = if leader.is_locking { dated } else { 0 };
    assert!(leader.dated.len() == expected, "what can be committed is known while it locks");
    assert!(leader.is_locking || !leader.is_forced, "nothing is prepared by force while nothing is locked");
    for (place, open) in writing(leader) {
        assert!(leader.is_locking == (open.hold != Hold::Nothing), "{place} holds {:?}", open.hold);
        let is_dated = open.timestamp.is_some() && leader.is_locking;
        assert!(leader.dated.contains(&place) == is_dated, "{place} has its timestamp, or not");
    }
}

fn nothing_ran_above_the_ceiling<A>(state: &State<A>, leader: &Leader) {
    assert!(state.ceiling <= leader.ceiling, "the ceiling to come is beneath the one that is stable");
    assert!(leader.executed <= leader.ceiling, "something ran or was read above every ceiling");
    for place in &leader.unlogged {
        assert!(leader.ahead.contains_key(&place.transaction), "{place} is not stable, and has not run");
        assert!(leader.voted.contains(place), "{place} is not stable, and is not on its way");
    }
    for (id, (timestamp, _)) in &leader.ahead {
        let place = Place { timestamp: *timestamp, transaction: *id };
        // The leader tells nobody of a transaction that runs before it is logged until its own entry has raised the ceiling.
        assert!(
            *timestamp <= state.ceiling || leader.unlogged.contains(&place),
            "{place} ran above the ceiling"
        );
    }
}

fn what_only_reads_waits_once(leader: &Leader) {
    leader.reads.assert_sound();
    for blocker in leader.reads.blockers() {
        // Else nothing would ever unblock what it blocks.
        assert!(leader.open.contains_key(&blocker), "{blocker} has ended, and blocks reads");
        assert!(leader.is_locking, "{blocker} blocks reads while nothing is locked");
    }
    let undated = leader.open.iter().filter(|(_, open)| open.class == Class::ReadOnly);
    assert!(undated.clone().count() == leader.undated.len(), "a read lacks votes, and has them");
    for (id, open) in undated {
        assert!(leader.undated.contains(&(open.proposed, *id)), "{id} lacks votes, and nobody knows");
        assert!(!leader.reads.contains(*id), "{id} waits for votes and to read");
    }
}

fn what_waits_is_counted_by_client(leader: &Leader) {
    let mut counted: BTreeMap<ClientId, usize> = BTreeMap::new();
    let reads = leader.reads.iter().map(|((_, id), _)| id);
    for id in leader.open.keys().copied().chain(reads) {
        *counted.entry(id.client).or_default() += 1;
    }
    assert!(leader.callers == counted, "{:?} wait, and {counted:?} are there", leader.callers);
}

/// The entries that have become stable in the logs of all shards of a keyspace.
#[derive(Debug, Default)]
pub struct Witness {
    votes: BTreeMap<(TransactionId, ShardId), Arc<Voted>>,
    endings: BTreeMap<TransactionId, (Ending, ShardId)>,
    /// The greatest proposal in the log of each shard.
    proposed: BTreeMap<ShardId, Place>,
    /// Shards that are lost for good: nobody waits for their votes.
    lost: BTreeSet<ShardId>,
}

impl Witness {
    /// An entry has become stable in the log of a shard, for the first time anywhere.
    pub fn see(&mut self, shard: ShardId, entry: &Entry, found: &mut Vec<Violation>) {
        match &entry.body {
            Body::Voted(voted) => self.votes_on(shard, voted, found),
            Body::Lost(lost) => _ = self.lost.insert(*lost),
            Body::Floor { .. } | Body::Nothing => {}
        }
        for known in &entry.finals {
            self.ends(shard, known, found);
        }
    }

    /// A shard goes on with what is left of its log, because it has lost more than it survives: what it has proposed since counts for nothing.
    pub fn begin_anew(&mut self, shard: ShardId) {
        self.proposed.remove(&shard);
    }

    fn votes_on(&mut self, shard: ShardId, voted: &Arc<Voted>, found: &mut Vec<Violation>) {
        let place = Place { timestamp: voted.proposed, transaction: voted.transaction };
        if voted.vote == Vote::Commit {
            let before = self.proposed.get(&shard).copied();
            // By timestamps, a transaction of one shard passes beneath those that lack votes.
            let may_pass = voted.participants.len() == 1;
            if !may_pass && before.is_some_and(|before| before.timestamp > place.timestamp) {
                let explain = format!("{place} is proposed in {shard} after {before:?}");
                found.push(Violation::new("GRA4", shard, explain).of(voted.transaction));
            }
            self.proposed.insert(shard, before.map_or(place, |before| before.max(place)));
        }
        self.votes.insert((voted.transaction, shard), Arc::clone(voted));
    }

    fn ends(&mut self, shard: ShardId, Final { transaction, ending }: &Final, found: &mut Vec<Violation>) {
        let id = *transaction;
        // A shard that is lost has ended, or goes on to end, what the others drop.
        if self.lost.contains(&shard) {
            return;
        }
        if self.endings.get(&id).is_some_and(|(_, first)| self.lost.contains(first)) {
            self.endings.remove(&id);
        }
        let first = self.endings.entry(id).or_insert_with(|| (ending.clone(), shard));
        if first.0 != *ending {
            let explain = format!("{id} ends as {ending:?} in {shard}, and as {:?} in {}", first.0, first.1);
            found.push(Violation::new("GRA1", shard, explain).of(id));
        }
        let (Ending::Commit(at), Some(own)) = (ending, self.votes.get(&(id, shard))) else { return };
        let is_lost = |participant: &ShardId| self.lost.contains(participant);
        let mut greatest = ClockTime::default();
        for participant in own.participants.iter().filter(|participant| !is_lost(participant)) {
            let vote = self.votes.get(&(id, *participant));
            if vote.is_none_or(|vote| vote.vote != Vote::Commit) {
                let told = vote.map(|vote| &vote.vote);
                let explain =
                    format!("{id} is executed at {at:?} in {shard}, and {participant} votes {told:?}");
                found.push(Violation::new("GRA2", shard, explain).of(id));
            }
            greatest = vote.map_or(greatest, |vote| greatest.max(vote.proposed));
        }
        if greatest > *at || greatest < *at && !own.participants.iter().any(is_lost) {
            let explain =
                format!("{id} is executed at {at:?} in {shard}, and {greatest:?} is what was proposed");
            found.push(Violation::new("GRA3", shard, explain).of(id));
        }
    }
}

#[cfg(test)]
mod tests;
