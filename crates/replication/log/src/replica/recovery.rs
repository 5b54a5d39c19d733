//! Coming back without a disk.
//!
//! ```text
//!   which life is this? → all     f + 1 know of earlier lives: this is the next
//!   this is my life     → all     f + 1 have noted it, durably
//!   JOIN                → leader  START-VIEW: from here on as anybody else who joins
//! ```
//!
//! *Why lives are counted.* The replica has forgotten what it has said. It may have left its view and offered its log to
//! the next leader; that offer may still be on its way. If it now took part in the old view, entries could become stable that
//! the offer lacks, and the next leader, taking the offer for the word of this replica, would lose them. (The published
//! recovery has this hole.) So each replica has a number of its life, and an offer counts only if nobody among the f + 1
//! that a leader hears knows of a later life of who made it. Of the f + 1 who have noted this life one is among them.
//!
//! Until it has joined it neither wishes for views nor offers anything. While more than f replicas are in this state nobody
//! can help them: their entries are lost. Each counts those that ask as it does, so that an operator hears of it.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::bound::{is_believable_life, reasons};
use quorate_core::{ReplicaIndex, View};

use super::{Fact, Host, Replica, Status, Timer};
use crate::{Message, Payload, Plant};

/// How far a replica has come that has lost its disk.
#[derive(Debug)]
pub(super) enum Recovery {
    /// It asks for its earlier lives: the replicas that have answered, and with which.
    Asking { nonce: u64, known: BTreeMap<ReplicaIndex, u64> },
    /// It has those note this life: those that have, and the view in which each is.
    Announcing { noted: BTreeMap<ReplicaIndex, View> },
    /// It waits to be let in.
    Joining,
    /// It has nothing to come back to: it takes over the log with which an epoch begins. Some have been asked for it, and
    /// have not answered.
    Arriving { silent: BTreeSet<ReplicaIndex> },
    /// It holds nothing, and waits for an epoch of which it is a member; or for one that shows that none will come.
    Awaiting,
}

impl<P: Payload> Replica<P> {
    /// Begins to come back without a disk.
    pub(super) fn recover<H: Host<P>>(&mut self, host: &mut H) {
        assert!(self.leading.is_none(), "a replica that has lost its disk leads {}", self.view);
        (self.status, self.is_lost) = (Status::Recovering, true);
        self.recovery = Some(Recovery::Asking { nonce: host.nonce(), known: BTreeMap::new() });
        self.repeat_recovery(host);
    }

    /// Begins to wait for an epoch of which it is a member.
    pub(super) fn await_epoch<H: Host<P>>(&mut self, host: &mut H) {
        if !self.is_awaiting {
            host.persist(Fact::Awaiting);
            self.is_awaiting = true;
        }
        self.wait(host);
    }

    /// Waits for an epoch of which this replica is a member, or for one that shows that none will come.
    pub(super) fn wait<H: Host<P>>(&mut self, host: &mut H) {
        (self.status, self.recovery) = (Status::Recovering, Some(Recovery::Awaiting));
        self.repeat_recovery(host);
    }

    /// Says once more what has not been answered by enough.
    pub(super) fn repeat_recovery<H: Host<P>>(&mut self, host: &mut H) {
        host.set_timer(Timer::Silence, self.timing.silence);
        let message = match &self.recovery {
            Some(Recovery::Asking { nonce, .. }) => Message::WhichLife { nonce: *nonce },
            Some(Recovery::Announcing { .. }) => Message::NewLife { life: self.life_of(self.me) },
            Some(Recovery::Joining) => {
                // For the present leader: the others pass over it.
                let message = Message::Join { view: self.view };
                self.fetch(host);
                message
            }
            Some(Recovery::Arriving { .. }) => {
                self.note_silence();
                return self.fetch(host);
            }
            // A replica in a later epoch answers with that.
            Some(Recovery::Awaiting) => Message::Join { view: self.view },
            None => return,
        };
        self.tell_others(&message, host);
    }

    /// The latest life of a replica that is known here.
    pub(super) fn life_of(&self, replica: ReplicaIndex) -> u64 {
        self.lives.get(&replica).copied().unwrap_or(0)
    }

    pub(super) fn on_which_life<H: Host<P>>(&mut self, from: ReplicaIndex, nonce: u64, host: &mut H) {
        if self.status != Status::Recovering {
            host.send(from, Message::KnownLife { nonce, life: self.life_of(from) });
        } else {
            self.others_lost.insert(from);
        }
    }

    /// The life that follows those of which the other members know; none if some of them have not been heard, or if it has not lost its disk.
    pub fn next_life(&self) -> Option<u64> {
        let own = self.life_of(self.me);
        match &self.recovery {
            Some(Recovery::Asking { known, .. }) => {
                let is_heard = |member: &ReplicaIndex| {
                    *member == self.me || known.contains_key(member) || self.others_lost.contains(member)
                };
                let latest = known.values().copied().fold(own, u64::max);
                self.membership().members().iter().all(is_heard).then_some(latest + 1)
            }
            // Those that have noted this one know of no later life.
            Some(Recovery::Announcing { .. } | Recovery::Joining) => Some(own + 1),
            Some(Recovery::Arriving { .. } | Recovery::Awaiting) | None => None,
        }
    }

    /// How many replicas have lost their disks and have not come back, this one among them, as far as it has heard; zero if
    /// it is not one of them.
    pub fn lost(&self) -> usize {
        match &self.recovery {
            Some(Recovery::Asking { .. }) => 1 + self.others_lost.len(),
            _ => 0,
        }
    }

    pub(super) fn on_known_life<H: Host<P>>(
        &mut self,
        from: ReplicaIndex,
        nonce: u64,
        life: u64,
        host: &mut H,
    ) {
        let Some(Recovery::Asking { nonce: asked, known }) = &mut self.recovery else { return };
        if nonce != *asked {
            return host.ignored("answer to an earlier question");
        }
        if !is_believable_life(self.lives.get(&self.me).copied().unwrap_or(0), life) {
            return host.ignored(reasons::LIFE);
        }
        known.insert(from, life);
        let members = self.beginning.membership.members().len();
        assert!(known.len() < members, "{} others of {members} members know of lives", known.len());
        if known.len() < self.beginning.membership.group().majority() {
            return;
        }
        let latest = known.values().max().copied().unwrap_or(0);
        self.note_life(self.me, latest + 1, host);
        let life = self.life_of(self.me);
        assert!(life > latest, "life {life} begins, and {latest} was known");
        self.recovery = Some(Recovery::Announcing { noted: BTreeMap::new() });
        self.repeat_recovery(host);
    }

    pub(super) fn on_new_life<H: Host<P>>(&mut self, from: ReplicaIndex, life: u64, host: &mut H) {
        if self.status == Status::Recovering {
            return host.ignored("recovering, so that it notes no life");
        }
        if !is_believable_life(self.life_of(from), life) {
            return host.ignored(reasons::LIFE);
        }
        self.note_life(from, life, host);
        let known = self.life_of(from);
        assert!(
            known >= life || self.rules.has(Plant::LivesForgotten),
            "life {life} of {from:?} is said to be noted, and {known} is the latest known"
        );
        host.send(from, Message::LifeNoted { life, view: self.view });
    }

    /// Notes, durably, that earlier lives of a replica are over.
    pub(super) fn note_life<H: Host<P>>(&mut self, replica: ReplicaIndex, life: u64, host: &mut H) {
        let forgets = replica != self.me && self.rules.has(Plant::LivesForgotten);
        if life > self.life_of(replica) && !forgets {
            self.lives.insert(replica, life);
            host.persist(Fact::LifeNoted { replica, life });
        }
    }

    pub(super) fn on_life_noted<H: Host<P>>(
        &mut self,
        from: ReplicaIndex,
        life: u64,
        view: View,
        host: &mut H,
    ) {
        let is_this = life == self.life_of(self.me);
        let Some(Recovery::Announcing { noted }) = &mut self.recovery else { return };
        if !is_this {
            return;
        }
        noted.insert(from, view);
        let members = self.beginning.membership.members().len();
        assert!(noted.len() < members, "{} others of {members} members have noted a life", noted.len());
        if noted.len() >= self.beginning.membership.group().majority() {
            // One of them has taken part in whatever this replica has, or has left what it must not go back to.
            self.view = noted.values().max().copied().unwrap_or_default();
            self.recovery = Some(Recovery::Joining);
            self.repeat_recovery(host);
        }
    }

    /// True if the replica may be let into a view.
    pub(super) fn may_join(&self) -> bool {
        matches!(self.recovery, None | Some(Recovery::Joining))
    }
}
