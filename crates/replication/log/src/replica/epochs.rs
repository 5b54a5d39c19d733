//! Going on with other replicas.
//!
//! ```text
//!   an entry names the next group, and ends the epoch: nothing is appended after it
//!   it is stable → a replica with all entries up to it goes on: member of the next group, at its first view, or RETIRED
//!                → EPOCH-BEGUN → all of both groups          repeated to members that have not answered
//!   one that lacks entries fetches them, or the state that they have led to, and then goes on
//!                → EPOCH-STARTED → the replica that told it  f + 1 of the next group: a retired one may be stopped
//! ```
//!
//! *Source*: "Viewstamped Replication Revisited", section 7.
//!
//! *Why nothing that is stable is lost.* Nobody takes part in an epoch before it has, durably, every entry of the epochs
//! before; so any f + 1 members of it that are heard in its view changes all have them. A replica that comes so late that it
//! is given a state from after that takes part in the view of the last entry behind the state: it has what that view began
//! with, and has said nothing in it.
//!
//! *Why leases hold.* Within a view the leader learns first that the entry is stable, and from then on gives none; the
//! leader of a later view has waited for them to end.
//!
//! Every message is said under an epoch, and counts in no other. Every replica that has gone on answers to an earlier one where
//! the group is now; a replica that hears of a later one asks for it. Lives are counted anew in each epoch.

use std::collections::BTreeSet;
use std::time::Duration;

use quorate_core::log::Position;
use quorate_core::{Epoch, ReplicaIndex, View};

use super::recovery::Recovery;
use super::{Beginning, Host, Replica, Status, Timer};
use crate::entries::Shape;
use crate::{Membership, Message, Payload, Plant};

impl<P: Payload> Replica<P> {
    /// The replicas of the group in the present epoch, as far as is known here.
    pub fn membership(&self) -> &Membership {
        &self.beginning.membership
    }

    /// The membership that the host wants, by its latest word; none if the group has it, or has gone on to a later one.
    pub fn wanted(&self) -> Option<&Membership> {
        self.wanted.as_ref().filter(|wanted| self.membership().precedes(wanted))
    }

    /// The host knows of a later epoch, perhaps.
    pub fn want<H: Host<P>>(&mut self, membership: Membership, host: &mut H) {
        if self.wanted.as_ref().is_none_or(|before| before.precedes(&membership)) {
            self.wanted = Some(membership);
        }
        // Else the timer for the next epoch is set.
        if self.next_epoch().is_none() {
            self.ask_for_wanted(host);
        }
    }

    /// Asks the wanted members whether they are members: a replica in a later epoch answers with that. Every member that this
    /// replica knows may be gone.
    fn ask_for_wanted<H: Host<P>>(&mut self, host: &mut H) {
        let Some(wanted) = self.wanted().filter(|_| !self.is_handed_over()) else { return };
        for member in wanted.members().iter().filter(|member| **member != self.me && self.leading.is_none()) {
            host.send(*member, Message::Join { view: self.view });
        }
        host.set_timer(Timer::Epoch, self.timing.silence);
    }

    /// True if this replica is new, and waits for an epoch of which it is a member.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.recovery, Some(Recovery::Awaiting))
    }

    /// True if the last entry ends the epoch, stable or not.
    pub(super) fn is_ending(&self) -> bool {
        let epoch = self.membership().epoch();
        let last = self.entries.get(self.entries.last());
        last.is_some_and(|last| last.payload.next_group().is_some() && last.view.is_of(epoch))
    }

    /// With what the next epoch begins, if this one has ended.
    pub(super) fn next_epoch(&self) -> Option<Beginning> {
        let base = self.entries.last();
        let is_stable = self.stable >= base || self.rules.has(Plant::EpochBeginsEarly);
        if !self.is_ending() || !is_stable {
            return None;
        }
        let entry = self.entries.get(base)?;
        assert!(
            self.stable >= base || self.rules.has(Plant::EpochBeginsEarly),
            "an epoch begins behind {base:?}, and {:?} is stable",
            self.stable
        );
        let membership = entry.payload.next_group()?.clone();
        Some(Beginning { membership, base, view: entry.view })
    }

    /// An entry has become stable that may end the epoch. The next begins in a step of its own: what is said in one step is
    /// said under one epoch.
    pub(super) fn note_end<H: Host<P>>(&mut self, host: &mut H) {
        if self.next_epoch().is_some() {
            host.set_timer(Timer::Epoch, Duration::ZERO);
        }
    }

    pub(super) fn on_epoch_timer<H: Host<P>>(&mut self, host: &mut H) {
        if let Some(beginning) = self.next_epoch() {
            let earlier = self.membership().clone();
            let shape = self.entries.shape().clone();
            self.go_on_to(beginning, self.me, shape, host);
            let message = self.epoch_begun();
            for other in earlier.members().iter().filter(|other| **other != self.me) {
                if !self.membership().contains(*other) {
                    host.send(*other, message.clone());
                }
            }
        }
        self.tell_epoch(host);
        self.ask_for_wanted(host);
    }

    /// Tells members of which it is not known that they have gone on.
    pub(super) fn tell_epoch<H: Host<P>>(&mut self, host: &mut H) {
        if self.cannot_give() || self.is_handed_over() {
            return;
        }
        let unheard: Vec<ReplicaIndex> =
            self.others().filter(|other| !self.started.contains(other)).collect();
        if !unheard.is_empty() {
            let message = self.epoch_begun();
            for other in unheard {
                host.send(other, message.clone());
            }
            host.set_timer(Timer::Epoch, self.timing.silence);
        }
    }

    /// True if this is the first epoch, or what lies before the present one is not here.
    fn cannot_give(&self) -> bool {
        self.beginning.base == Position::START || self.lacks_base() || self.status == Status::Recovering
    }

    /// True if this replica is no member any more, and enough of those that are have gone on; or if it has never had everything that
    /// they go on with, so that it is none of those from whom they have it.
    pub fn is_handed_over(&self) -> bool {
        let enough =
            if self.rules.has(Plant::HandedOverToOne) { 1 } else { self.membership().group().majority() };
        let have_gone_on = self.started.len() >= enough;
        self.status == Status::Retired && (have_gone_on || self.lacks_base())
    }

    /// True if what lies before the present epoch is not here.
    fn lacks_base(&self) -> bool {
        self.stable < self.beginning.base
    }

    fn epoch_begun(&self) -> Message<P> {
        let Beginning { membership, base, view } = self.beginning.clone();
        let mine = self.entries.shape();
        let mut shape = Shape::forgotten(base, view);
        if mine.base < base && mine.view_at(base) == Some(view) {
            shape = mine.clone();
            shape.truncate(base);
        }
        Message::EpochBegun { membership, shape }
    }

    /// A replica speaks under an earlier epoch. If this replica has not got everything itself, it cannot give it, but
    /// perhaps the sender has all that it needs, and does not know that the epoch has ended.
    pub(super) fn answer_earlier<H: Host<P>>(&mut self, from: ReplicaIndex, host: &mut H) {
        if self.beginning.base > Position::START {
            host.send(from, self.epoch_begun());
        }
    }

    pub(super) fn on_epoch_begun<H: Host<P>>(
        &mut self,
        from: ReplicaIndex,
        membership: Membership,
        shape: Shape,
        host: &mut H,
    ) {
        let base = shape.last;
        let Some(view) = shape.view_at(base).filter(|_| shape.is_sound()) else { return };
        let beginning = Beginning { membership, base, view };
        let (epoch, known) = (beginning.membership.epoch(), self.membership().epoch());
        let is_for_it = beginning.membership.contains(self.me) || self.waits_in_vain(epoch);
        let is_news = if self.is_waiting() { is_for_it } else { epoch > known };
        if is_news {
            self.go_on_to(beginning, from, shape, host);
        } else if epoch < known {
            // The sender may not have heard any more.
            if !self.is_waiting() {
                self.answer_earlier(from, host);
            }
        } else if epoch > known {
            // It is not for this replica, which waits for one of which it is a member, and its host knows of later ones.
        } else if !matches!(self.recovery, Some(Recovery::Arriving { .. })) {
            if self.status != Status::Recovering {
                host.send(from, Message::EpochStarted);
            }
        } else if self.may_arrive_through(from) {
            self.start_joining(from, shape, base, host);
        }
    }

    /// True if a replica that waits for an epoch of which it is a member need not wait any longer, because this one has begun
    /// without it. Epochs that its host knows may be later and name it, so the host's word is waited for as well. A replica that leaves
    /// its group never comes back to it: another index takes its place.
    fn waits_in_vain(&self, begun: Epoch) -> bool {
        let wanted = self.wanted.as_ref().map_or(Epoch::FIRST, Membership::epoch);
        begun >= wanted.max(self.membership().epoch()) && !self.rules.has(Plant::WaitsInVain)
    }

    /// True if a replica may be asked for what the epoch begins with: none is being asked, or the one that is has been
    /// silent. Then one gets a turn that has not been silent yet, because the first to speak may be a replica that hears
    /// nothing.
    fn may_arrive_through(&mut self, from: ReplicaIndex) -> bool {
        let Some(asked) = &self.joining else { return true };
        let Some(Recovery::Arriving { silent }) = &mut self.recovery else { return false };
        if !asked.is_stuck() {
            return false;
        }
        silent.insert(asked.from());
        if asked.is_given_up() {
            // Nobody else speaks.
            silent.clear();
        }
        !silent.contains(&from)
    }

    /// Leaves the present epoch. Some replica has everything that the next epoch needs.
    fn go_on_to<H: Host<P>>(&mut self, beginning: Beginning, from: ReplicaIndex, shape: Shape, host: &mut H) {
        let (epoch, next) = (self.membership().epoch(), beginning.membership.epoch());
        assert!(next > epoch || self.is_waiting(), "{epoch:?} goes on with {next:?}");
        self.stop_leading(host);
        self.clocks.forget();
        let base = beginning.base;
        self.view = beginning.membership.first_view();
        self.beginning = beginning;
        self.lives.clear();
        self.others_lost.clear();
        self.started.clear();
        self.forget_view();
        self.promise.end();
        if !self.membership().contains(self.me) {
            if self.entries.shape().common(&shape) == Some(base) {
                self.stabilise(base, host);
            }
            return self.retire(host);
        }
        if self.is_lost {
            return self.recover(host);
        }
        self.status = Status::Recovering;
        self.recovery = Some(Recovery::Arriving { silent: BTreeSet::new() });
        host.set_timer(Timer::Silence, self.timing.silence);
        if self.rules.has(Plant::NewMemberVotes) {
            let own = self.entries.shape().clone();
            return self.start_joining(from, own, self.stable, host);
        }
        self.start_joining(from, shape, base, host);
    }

    /// The group goes on without this replica. Members may still want its records.
    fn retire<H: Host<P>>(&mut self, host: &mut H) {
        let membership = self.membership();
        assert!(!membership.contains(self.me), "{:?} retires, and is one of {membership:?}", self.me);
        (self.status, self.recovery) = (Status::Retired, None);
        host.cancel_timer(Timer::Silence);
        let base = self.beginning.base;
        if self.lacks_base() {
            host.on_handed_over();
        } else {
            let fact = self.view_installed(base, base, None);
            host.persist(fact);
            self.is_member = true;
            self.tell_epoch(host);
        }
    }

    /// In which view this replica takes part once it has everything up to a position at which the entry is of some view: in
    /// that one, if the epoch has got so far. Then it is as if it had been there and heard no more.
    pub(super) fn view_of_arrival(&self, base: Position, base_view: View) -> View {
        if base > self.beginning.base { base_view } else { self.membership().first_view() }
    }

    /// This replica takes part in an epoch whose beginning it has.
    pub(super) fn note_begun(&mut self) {
        // A leader says nothing before its disk knows, or it could begin the same view once more.
        self.is_known_to_disk = false;
    }

    pub(super) fn on_epoch_started<H: Host<P>>(&mut self, from: ReplicaIndex, host: &mut H) {
        let was_handed_over = self.is_handed_over();
        self.started.insert(from);
        if self.is_handed_over() && !was_handed_over {
            host.on_handed_over();
        }
    }
}
