//! Going on to the next view.
//!
//! ```text
//!   silence → START-VIEW-CHANGE ⇄ all → f + 1 want to, and nobody's promise binds any more: VIEW ENTERED, durably
//!           → DO-VIEW-CHANGE → the next leader, which has heard f + 1: takes the log of the latest, longest
//!           → START-VIEW → all
//! ```
//!
//! *Why nothing that is stable is lost.* A stable entry is held by f + 1 replicas that took part in its view. Among the f + 1
//! that the next leader hears is one of them. The log that is taken is of a replica that took part in that view or a
//! later one; of the same view, the longest is at least as long as that one's; and who takes part in a later view holds,
//! by the same argument, everything that was stable before it began, because it takes part only once it has all that
//! the view began with.

use std::collections::BTreeMap;

use quorate_core::bound::{is_believable_life, reasons};
use quorate_core::{ClockTime, ReplicaIndex, View};

use super::{Fact, Host, Replica, Status, Timer};
use crate::message::Offer;
use crate::{Message, Payload, Plant};

/// After so many repetitions of a view change the next view is tried.
const REPETITIONS_MAX: u32 = 3;

/// A view change, as far as a replica knows of it.
#[derive(Debug, Default)]
pub(super) struct Changing {
    /// The greatest view that each replica, this one included, wants to go on to.
    wishes: BTreeMap<ReplicaIndex, View>,
    /// At the leader of the view that is being changed to: the logs that the others hold.
    offers: BTreeMap<ReplicaIndex, Offer>,
    repetitions: u32,
}

impl Changing {
    /// The leader is well.
    pub(super) fn forget_wishes(&mut self) {
        self.wishes.clear();
    }

    /// How many replicas have offered their logs.
    pub(super) fn offers_len(&self) -> usize {
        self.offers.len()
    }

    /// A replica offers a log in which there is nothing.
    #[cfg(test)]
    pub(super) fn take_offer(&mut self, from: ReplicaIndex) {
        let (shape, stable) = Default::default();
        self.offers.insert(from, Offer { last_normal: View(0), shape, stable, lives: BTreeMap::new() });
    }

    /// A step has been done.
    pub(super) fn note_progress(&mut self) {
        self.repetitions = 0;
    }
}

impl<P: Payload> Replica<P> {
    pub(super) fn on_silence<H: Host<P>>(&mut self, host: &mut H) {
        match self.status {
            Status::Normal => match self.promise.left(host.now()).filter(|_| self.is_bound(host)) {
                Some(left) => host.set_timer(Timer::Silence, left),
                None => self.wish_for_next(host),
            },
            Status::ViewChanging => {
                self.repeat_view_change(host);
                self.changing.repetitions += 1;
                if self.changing.repetitions > REPETITIONS_MAX {
                    self.wish_for_next(host);
                }
            }
            Status::Recovering => self.repeat_recovery(host),
            Status::Retired => {}
        }
    }

    /// Asks the others to go on to the next view, or to the greatest that f of them want, so that with this replica they are enough. Those
    /// that fewer want may all be led by replicas that do not work, over the heads of those that do. A wish binds nobody, so it does
    /// not wait for the disk, which may be why there is one.
    pub(super) fn wish_for_next<H: Host<P>>(&mut self, host: &mut H) {
        let own = self.me;
        let others = self.changing.wishes.iter().filter(|(replica, _)| **replica != own);
        let wanted = nth_greatest(others.map(|(_, wish)| *wish), self.membership().group().others());
        let Some(next) = self.view.next() else { return host.ignored(reasons::NO_VIEW_LEFT) };
        let view = wanted.unwrap_or_default().max(next);
        self.changing.wishes.insert(self.me, view);
        for other in self.others() {
            host.send_unordered(other, Message::StartViewChange { view, entered: false });
        }
        host.set_timer(Timer::Silence, self.timing.silence);
        self.count_wishes(host);
    }

    pub(super) fn on_start_view_change<H: Host<P>>(
        &mut self,
        from: ReplicaIndex,
        view: View,
        entered: bool,
        host: &mut H,
    ) {
        let votes = self.status == Status::Recovering && self.rules.has(Plant::RecoveringVotes);
        if votes && self.leader(view) != self.me {
            let clock = Some(host.clock());
            host.send(self.leader(view), Message::DoViewChange { view, offer: self.offer(), clock });
        }
        if view <= self.view || self.status == Status::Recovering {
            return;
        }
        if let Some(leading) = &self.leading {
            // A replica that has entered a later view cannot come back, so the others have to follow. The leader stays the
            // same. It gives its view some time, lest two of them, each in a view of its own, take the others from each other
            // for ever.
            if entered && host.now() - leading.since >= self.timing.silence {
                self.lead_from(view, host);
            }
            return;
        }
        // It has left its view for good. A mere wish of it may be from before it led.
        if from == self.leader(self.view) && entered {
            self.promise.end();
        }
        let wish = self.changing.wishes.entry(from).or_default();
        *wish = view.max(*wish);
        if self.is_bound(host) {
            return;
        }
        // The view that is being changed to is given its time as well: somebody whom the others do not hear, or who does not
        // hear them, may always wish for another. But who is to lead the next one, and has left this one, leads nowhere else.
        let is_patient = self.status == Status::ViewChanging && !(entered && from == self.leader(view));
        let mine = self.changing.wishes.get(&self.me).copied().unwrap_or_default();
        if mine < view && !is_patient {
            self.changing.wishes.insert(self.me, view);
            self.tell_others(&Message::StartViewChange { view, entered: false }, host);
        }
        self.count_wishes(host);
    }

    /// Goes on to the next view that this replica leads.
    pub(super) fn lead_anew<H: Host<P>>(&mut self, host: &mut H) {
        match self.view.next() {
            Some(next) => self.lead_from(next, host),
            None => host.ignored(reasons::NO_VIEW_LEFT),
        }
    }

    /// Goes on to a view that this replica leads, the next from here on; if there is one in the epoch.
    pub(super) fn lead_from<H: Host<P>>(&mut self, view: View, host: &mut H) {
        // Each leads in turn.
        let turns = std::iter::successors(Some(view), |view| view.next());
        let mine = turns.take(self.membership().members().len()).find(|view| self.leader(*view) == self.me);
        match mine {
            Some(mine) => self.enter(mine, host),
            None => host.ignored(reasons::NO_VIEW_LEFT),
        }
    }

    /// The next view that one of these other replicas leads.
    pub(super) fn next_led_by(&self, replicas: &[ReplicaIndex]) -> Option<View> {
        let others = self.membership().members().len().saturating_sub(1);
        let turns = std::iter::successors(self.view.next(), |view| view.next());
        turns.take(others).find(|view| replicas.contains(&self.leader(*view)))
    }

    /// The host is about to stop: if this replica leads, another one that takes part is to lead.
    pub fn give_way<H: Host<P>>(&mut self, host: &mut H) {
        let Some(leading) = &self.leading else { return };
        let answering = leading.answering(host.now(), self.timing.silence);
        match self.next_led_by(&answering) {
            Some(view) => self.enter(view, host),
            None => host.ignored("no other replica takes part"),
        }
    }

    /// Goes on to the greatest view that f + 1 replicas want to go on to, or to go beyond.
    fn count_wishes<H: Host<P>>(&mut self, host: &mut H) {
        let enough = self.membership().group().majority();
        if let Some(view) = nth_greatest(self.changing.wishes.values().copied(), enough)
            && view > self.view
        {
            self.enter(view, host);
        }
    }

    /// Leaves the present view, for good.
    pub(super) fn enter<H: Host<P>>(&mut self, view: View, host: &mut H) {
        self.leave_for(view, host);
        self.repeat_view_change(host);
    }

    /// The same without a word.
    pub(super) fn leave_for<H: Host<P>>(&mut self, view: View, host: &mut H) {
        assert!(view > self.view, "a replica leaves {} for {view}", self.view);
        self.stop_leading(host);
        self.clocks.forget();
        (self.status, self.view) = (Status::ViewChanging, view);
        self.forget_view();
        assert!(self.leading.is_none(), "a replica that leaves for {view} leads");
        assert!(self.last_normal < view, "a replica that took part in {} enters {view}", self.last_normal);
        host.persist(Fact::ViewEntered(view));
        host.set_timer(Timer::Silence, self.timing.silence);
    }

    /// Forgets what belonged to views before the present one.
    pub(super) fn forget_view(&mut self) {
        self.joining = None;
        self.early.clear();
        self.changing.offers.clear();
        self.changing.repetitions = 0;
        let view = self.view;
        self.changing.wishes.retain(|_, wish| *wish > view);
    }

    /// Says once more that this replica waits for the view to begin, and what it holds.
    pub(super) fn repeat_view_change<H: Host<P>>(&mut self, host: &mut H) {
        host.set_timer(Timer::Silence, self.timing.silence);
        if self.joining.is_some() {
            return self.fetch(host);
        }
        let view = self.view;
        self.tell_others(&Message::StartViewChange { view, entered: true }, host);
        let offer = self.offer();
        let leader = self.leader(view);
        if leader == self.me {
            self.changing.offers.insert(leader, offer);
            self.count_offers(host);
        } else {
            host.send(leader, Message::DoViewChange { view, offer, clock: Some(host.clock()) });
        }
    }

    /// True if a promise to the leader binds this replica.
    fn is_bound<H: Host<P>>(&self, host: &H) -> bool {
        self.promise.left(host.now()).is_some() && !self.rules.has(Plant::PromiseIgnored)
    }

    /// The log of this replica, as it would bring it into a view.
    fn offer(&self) -> Offer {
        let shape = self.entries.shape();
        assert!(shape.is_sound(), "a log is offered that cannot be: {shape:?}");
        assert!(
            self.stable <= shape.last && self.last_normal <= self.view,
            "a log up to {:?} is offered, of which {:?} is stable, of {} for {}",
            shape.last,
            self.stable,
            self.last_normal,
            self.view
        );
        Offer {
            last_normal: self.last_normal,
            shape: self.entries.shape().clone(),
            stable: self.stable,
            lives: self.lives.clone(),
        }
    }

    pub(super) fn on_do_view_change<H: Host<P>>(
        &mut self,
        from: ReplicaIndex,
        view: View,
        offer: Offer,
        clock: Option<ClockTime>,
        host: &mut H,
    ) {
        if view < self.view || self.status == Status::Normal && view == self.view {
            return self.on_join(from, view, host);
        }
        let is_sound = offer.shape.is_sound() && offer.last_normal < view;
        if self.leader(view) != self.me || self.status == Status::Recovering {
            return host.ignored("offer to another leader");
        }
        if !is_sound {
            return host.ignored("offer of a log that cannot be");
        }
        if !offer.lives.iter().all(|(replica, life)| is_believable_life(self.life_of(*replica), *life)) {
            return host.ignored(reasons::LIFE);
        }
        if view > self.view {
            if self.is_bound(host) {
                return;
            }
            self.enter(view, host);
        }
        for (replica, life) in &offer.lives {
            self.note_life(*replica, *life, host);
        }
        // Of no beat, so that answers to beats count from now on.
        self.clocks.note(from, 0, clock, host.now());
        self.changing.offers.insert(from, offer);
        self.count_offers(host);
    }

    /// Takes the log of the latest and longest of f + 1.
    fn count_offers<H: Host<P>>(&mut self, host: &mut H) {
        let lives = &self.lives;
        let is_of_this_life =
            |from: &ReplicaIndex, offer: &mut Offer| offer.lives.get(from) >= lives.get(from);
        self.changing.offers.retain(is_of_this_life);
        let (offers, members) = (self.changing.offers.len(), self.membership().members().len());
        assert!(offers <= members, "{offers} replicas offer their logs, of {members} members");
        assert!(self.leader(self.view) == self.me, "{:?} counts offers for {}", self.me, self.view);
        if self.joining.is_some() || self.changing.offers.len() < self.membership().group().majority() {
            return;
        }
        let offers = &self.changing.offers;
        let best = offers.iter().max_by_key(|(from, offer)| {
            // Of equals, its own: it need not be fetched.
            let is_own = **from == self.me;
            (is_own && self.rules.has(Plant::OwnLogBegins), offer.last_normal, offer.shape.last, is_own)
        });
        let (from, shape) =
            best.map(|(from, offer)| (*from, offer.shape.clone())).expect("there is a majority");
        let stable = offers.values().map(|offer| offer.stable).max().expect("there is a majority");
        self.start_joining(from, shape, stable, host);
    }
}

/// The view that so many of these reach.
fn nth_greatest(views: impl Iterator<Item = View>, count: usize) -> Option<View> {
    let mut views: Vec<View> = views.collect();
    views.sort_unstable_by(|one, other| other.cmp(one));
    views.get(count.checked_sub(1)?).copied()
}
