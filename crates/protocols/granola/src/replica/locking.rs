//! Locking mode (section 4.5): a transaction on which participants have to agree is prepared and holds locks until all have voted.
//!
//! ```text
//!                     a coordinated transaction comes; a shard does not vote for long
//!      ┌────────────┐ ──────────────────────────────────────────────────────────────► ┌─────────┐
//!      │ timestamps │                                                                 │  locks  │
//!      └────────────┘ ◄────────────────────────────────────────────────────────────── └─────────┘
//!                     no coordinated transaction is left, nor what waits for such a shard
//! ```
//!
//! While it locks, a leader executes what nobody else's locks stand against: transactions of one shard alone at once, before they are
//! logged, and all others as soon as all have voted. That is another order than that of timestamps, but only for transactions that do
//! not touch the same, so nobody can tell; and those that follow run in the order of timestamps.
//!
//! # The way there never fails
//! The paper prepares what is pending in the order of timestamps, and stays where it is if two of them conflict. So a single pair of
//! independent transactions would keep all coordinated ones out. Here it goes on as the paper does where a shard is lost (section
//! 5.4): everything that is pending is prepared *by force*. Such a transaction locks all that it may touch in any order, because its
//! effect depends on where it stands, and that is not certain before all have voted. One that conflicts with nothing that stands
//! before it is executed as soon as all have voted, since nothing ever moves forward.
//!
//! A leader that takes over coordinated transactions goes the same way. Some of what is pending may have been executed already, so
//! that others touch the same that came after; their timestamps say which came first.

use quorate_core::TransactionId;

use super::leader::{Hold, Leader};
use super::{Out, Replica};
use crate::application::{Answer, Application, Prepared};
use crate::config::Locking;
use crate::place::Place;
use crate::rules::Plant;
use quorate_core::command::Class;

/// So often the votes of a shard are asked for before it counts as one that does not vote for long.
pub(super) const ASKS_BEFORE_LOCKING: u32 = 2;

impl Leader {
    /// True if it has to lock.
    fn needs_locks(&self) -> bool {
        self.is_held_up || self.coordinated > 0
    }

    /// Looks whether a shard does not vote for long on something that writes.
    pub(super) fn look_for_silence(&mut self) {
        self.is_held_up = self.open.values().any(|open| {
            // Read-only transactions are given up before.
            open.asks >= ASKS_BEFORE_LOCKING && open.timestamp.is_none()
        });
    }
}

impl<A: Application> Replica<A> {
    /// Locks what everything that is pending touches, and executes what that lets go.
    pub(super) fn enter_locking(&mut self, outbox: &mut Out<A>) {
        let Some(leader) = &mut self.leader else { return };
        if leader.is_locking {
            return;
        }
        assert!(leader.dated.is_empty() && !leader.is_forced, "what was locked before is unlocked");
        let holds_nothing = leader.open.values().all(|open| open.hold == Hold::Nothing);
        assert!(holds_nothing, "nothing holds locks while everything goes by timestamps");
        (leader.is_locking, leader.has_moved) = (true, true);
        self.mode_changes.0 += 1;
        let place = |id: &TransactionId| {
            let open = &leader.open[id];
            (open.class != Class::ReadOnly && open.timestamp.is_some()).then(|| open.place(*id))
        };
        leader.dated = leader.open.keys().filter_map(place).collect();
        self.lock_anew();
        while self.execute_next(outbox) {}
    }

    /// Goes back to timestamps, once nothing needs locks; false if something does.
    pub(super) fn leave_locking(&mut self) -> bool {
        let Some(leader) = &mut self.leader else { return false };
        if !leader.is_locking || self.config.locking == Locking::Always || leader.needs_locks() {
            return false;
        }
        (leader.is_locking, leader.has_moved) = (false, true);
        self.mode_changes.1 += 1;
        leader.reads.unblock_all();
        // Section 4.5: a transaction on which participants have to agree needs locks until it has ended.
        assert!(leader.coordinated == 0, "locks are given back, and something coordinated is pending");
        leader.dated.clear();
        self.unlock_all();
        true
    }

    /// Gives back all locks.
    pub(super) fn unlock_all(&mut self) {
        let Some(leader) = &mut self.leader else { return };
        leader.is_forced = false;
        for (id, open) in &mut leader.open {
            if open.hold != Hold::Nothing {
                (open.hold, open.answer) = (Hold::Nothing, None);
                self.state.application.abort(*id);
            }
        }
    }

    /// Prepares everything that is pending; by force, if any of it touches the same.
    fn lock_anew(&mut self) {
        self.unlock_all();
        if let Some(leader) = &mut self.leader {
            leader.has_moved = true;
        }
        if !self.prepare_all() {
            self.unlock_all();
            self.force_all();
        }
        self.assert_locked();
    }

    /// Every pending transaction has locked what it touches, and the first of them in the serial order waits for no locks: so one goes
    /// on as soon as all have voted for it (section 5.4).
    fn assert_locked(&self) {
        let Some(leader) = self.leader.as_ref().filter(|_| self.config.is_sound()) else { return };
        let hold = |place: &Place| leader.open.get(&place.transaction).map(|open| open.hold);
        let is_locked = |place: &Place| hold(place).is_some_and(|hold| hold != Hold::Nothing);
        assert!(leader.queue.iter().all(is_locked), "something is pending, and has locked nothing");
        let first = leader.queue.first().and_then(hold);
        assert!(first.is_none_or(|hold| hold == Hold::Prepared), "what stands first is blocked");
    }

    /// Prepares everything that is pending; false, and some of it is not, if two of them conflict.
    fn prepare_all(&mut self) -> bool {
        let Some(leader) = &mut self.leader else { return false };
        for Place { transaction: id, .. } in &leader.queue {
            let Some(open) = leader.open.get_mut(id) else { continue };
            if self.config.rules.has(Plant::IncompleteNotLocked) && open.timestamp.is_none() {
                continue;
            }
            match self.state.application.prepare(*id, &open.operation) {
                Prepared::Commit(answer) => (open.hold, open.answer) = (Hold::Prepared, Some(answer)),
                Prepared::Abort(reason) => {
                    (open.hold, open.answer) = (Hold::Prepared, Some(Answer::Refused(reason)));
                }
                Prepared::Late(_) => (open.hold, open.answer) = (Hold::Prepared, None),
                Prepared::Conflict => return false,
            }
        }
        true
    }

    fn force_all(&mut self) {
        let Some(leader) = &mut self.leader else { return };
        leader.is_forced = true;
        for Place { transaction: id, .. } in &leader.queue {
            let Some(open) = leader.open.get_mut(id) else { continue };
            if self.config.rules.has(Plant::IncompleteNotLocked) && open.timestamp.is_none() {
                continue;
            }
            open.hold = match self.state.application.force_prepare(*id, &open.operation) {
                true => Hold::Prepared,
                false => Hold::Blocked,
            };
        }
    }

    /// Something has ended, or stands elsewhere: what was blocked may be so no longer.
    pub(super) fn look_after_blocked(&mut self) {
        if self.leader.as_ref().is_some_and(|leader| leader.is_forced) {
            self.lock_anew();
        }
    }

    /// A transaction with several participants knows its timestamp.
    pub(super) fn note_dated(&mut self, place: Place) {
        let Some(leader) = &mut self.leader else { return };
        if leader.is_locking {
            leader.dated.insert(place);
            self.look_after_blocked();
        }
    }

    /// The place of a transaction that can be committed, whatever stands before it.
    pub(super) fn next_to_commit(&self) -> Option<Place> {
        let leader = self.leader.as_ref()?;
        let can_commit = |place: &&Place| {
            let open = leader.open.get(&place.transaction);
            let is_ready =
                open.is_some_and(|open| open.is_stable() && open.hold == Hold::Prepared && !open.is_given_up);
            is_ready && place.timestamp <= self.state.ceiling
        };
        leader.dated.iter().find(can_commit).copied()
    }
}
