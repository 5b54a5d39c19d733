//! Taking part in a view that has begun, or is about to: fetching what is lacking, and changing over in one step.

use quorate_core::bound::reasons;
use quorate_core::log::Position;
use quorate_core::{ReplicaIndex, View};

use super::recovery::Recovery;
use super::{Beginning, Fact, Host, Replica, Status};
use crate::entries::{Entries, Entry, Shape};
use crate::{Message, Payload};

/// After so many silences who wants a log asks somebody else.
const SILENCES_MAX: u32 = 3;

/// Why a log, or a state, is not taken over that is not what this replica knows to be stable.
const LACKS_STABLE: &str = "log without what is stable here";

/// A log that is being taken over.
#[derive(Debug)]
pub(super) struct Joining<P: Payload> {
    /// The replica that has it.
    from: ReplicaIndex,
    /// Its shape.
    shape: Shape,
    /// Up to here it is that of this replica, or what a state has led to that has come; none while that is on its way.
    kept: Option<Position>,
    /// The state, if there has to be one.
    state: Option<Arriving<P>>,
    /// The entries that follow, as far as they have arrived.
    received: Vec<Entry<P>>,
    stable: Position,
    /// True if nothing has come since the leader was last heard.
    is_idle: bool,
    /// How often nothing has come for the time of a silence, since something came.
    silences: u32,
}

/// A state that comes page by page.
#[derive(Debug)]
struct Arriving<P: Payload> {
    /// All entries up to here have led to it,
    base: Position,
    /// the last of which was appended in this view.
    base_view: View,
    pages: Vec<P::Page>,
}

impl<P: Payload> Joining<P> {
    /// True if the replica that has it does not answer.
    pub(super) fn is_stuck(&self) -> bool {
        self.silences >= SILENCES_MAX
    }

    /// True if the replica that has it has had twice that time.
    pub(super) fn is_given_up(&self) -> bool {
        self.silences >= 2 * SILENCES_MAX
    }

    /// The replica that has it.
    pub(super) fn from(&self) -> ReplicaIndex {
        self.from
    }

    /// Up to here everything is there.
    fn reached(&self) -> Option<Position> {
        Some(Position(self.kept?.0 + self.received.len() as u64))
    }
}

impl<P: Payload> Replica<P> {
    /// The leader of a greater view speaks, or of this one, whose beginning was not heard.
    pub(super) fn ask_to_join<H: Host<P>>(&mut self, leader: ReplicaIndex, view: View, host: &mut H) {
        if self.joining.is_none() || view > self.view {
            host.send(leader, Message::Join { view });
        }
    }

    /// Somebody is behind: it is told with what the view has begun.
    pub(super) fn on_join<H: Host<P>>(&mut self, from: ReplicaIndex, view: View, host: &mut H) {
        if self.leading.is_some() && view <= self.view {
            host.send(from, self.start_view());
        } else if self.leading.is_some() {
            // It has heard of this view from somebody who has forgotten it since, and must not go back.
            self.lead_from(view, host);
        } else if self.status == Status::ViewChanging && view < self.view {
            host.send(from, Message::StartViewChange { view: self.view, entered: true });
        }
    }

    pub(super) fn start_view(&self) -> Message<P> {
        let (shape, beginning) = (self.entries.shape().clone(), self.beginning.clone());
        Message::StartView { view: self.view, shape, stable: self.stable, beginning }
    }

    pub(super) fn on_start_view<H: Host<P>>(
        &mut self,
        from: ReplicaIndex,
        view: View,
        shape: Shape,
        stable: Position,
        beginning: Beginning,
        host: &mut H,
    ) {
        if beginning.membership != *self.membership() || beginning.base > shape.last {
            return;
        }
        if from != self.leader(view) || view < self.view || !shape.is_sound() || stable > shape.last {
            return;
        }
        if !self.may_join() {
            return;
        }
        // A replica that has lost its disk knows the group by its host only.
        self.beginning = beginning;
        if view > self.view {
            if self.status == Status::Recovering {
                (self.view, self.joining) = (view, None);
            } else {
                self.leave_for(view, host);
            }
        }
        // A replica that takes part, and lags so far behind that the entries it lacks are forgotten, joins once more.
        let lags = self.status == Status::Normal && shape.base > self.entries.last();
        if (self.status != Status::Normal || lags) && self.joining.is_none() {
            self.start_joining(from, shape, stable, host);
        }
    }

    /// Takes over the log of another replica, or its own if that is best.
    pub(super) fn start_joining<H: Host<P>>(
        &mut self,
        from: ReplicaIndex,
        shape: Shape,
        stable: Position,
        host: &mut H,
    ) {
        assert!(shape.is_sound(), "a log is taken over that cannot be: {shape:?}");
        let kept = self.entries.shape().common(&shape);
        if kept.is_some_and(|kept| kept < self.stable) {
            // One of the two has the log of another replica, or a disk that has forgotten.
            return host.ignored(LACKS_STABLE);
        }
        let received = Vec::new();
        self.joining =
            Some(Joining { from, shape, kept, state: None, received, stable, is_idle: false, silences: 0 });
        self.go_on_joining(host);
    }

    fn go_on_joining<H: Host<P>>(&mut self, host: &mut H) {
        match &self.joining {
            Some(joining) if joining.reached() == Some(joining.shape.last) => self.change_over(host),
            Some(_) => self.fetch(host),
            None => {}
        }
    }

    pub(super) fn fetch<H: Host<P>>(&mut self, host: &mut H) {
        let Some(joining) = &self.joining else { return };
        let (view, upto) = (self.view, joining.shape.last);
        let message = match (joining.reached(), &joining.state) {
            (Some(after), _) => Message::Fetch { view, after, upto },
            (None, Some(state)) => {
                Message::FetchState { view, base: state.base, page: state.pages.len() as u64 }
            }
            (None, None) => Message::Fetch { view, after: self.stable, upto },
        };
        host.send(joining.from, message);
    }

    /// The time of a silence has passed, in which something may have come.
    pub(super) fn note_silence(&mut self) {
        if let Some(joining) = &mut self.joining {
            joining.silences += 1;
        }
    }

    /// The leader has been heard by a replica that takes part in its view and is given the state meanwhile.
    pub(super) fn go_on_catching_up<H: Host<P>>(&mut self, host: &mut H) {
        let Some(joining) = &mut self.joining else { return };
        if std::mem::replace(&mut joining.is_idle, true) {
            self.fetch(host);
        }
    }

    /// Entries that had seemed to be forgotten have come from the leader after all, late: going on with a state that may be
    /// older would take entries back that are stable.
    pub(super) fn stop_catching_up(&mut self) {
        let last = self.entries.last();
        self.joining.take_if(|joining| joining.shape.base <= last);
    }

    pub(super) fn on_fetch<H: Host<P>>(
        &mut self,
        from: ReplicaIndex,
        view: View,
        after: Position,
        upto: Position,
        host: &mut H,
    ) {
        // In this view the log only grows, so it is still the one that was told of. Entries before the epoch stay.
        let stays = view == self.view || upto <= self.beginning.base;
        if !stays || upto > self.entries.last() || after > upto {
            return host.ignored("entries that are not here");
        }
        if after < self.entries.shape().base {
            self.begin_transfer(from, view, host);
        } else {
            let entries = self.entries.between(after, upto, self.limits.message_bytes);
            host.send(from, Message::Fetched { view, after, entries });
        }
    }

    pub(super) fn on_fetched<H: Host<P>>(
        &mut self,
        from: ReplicaIndex,
        view: View,
        after: Position,
        entries: Vec<Entry<P>>,
        host: &mut H,
    ) {
        let Some(joining) = &mut self.joining else { return };
        let Some(mut position) = joining.reached().filter(|reached| *reached == after) else { return };
        if view != self.view || from != joining.from || entries.is_empty() {
            return;
        }
        (joining.is_idle, joining.silences) = (false, 0);
        for entry in entries {
            position = position.next();
            if joining.shape.view_at(position) != Some(entry.view) {
                return;
            }
            joining.received.push(entry);
        }
        assert!(
            joining.reached() == Some(position) && position <= joining.shape.last,
            "entries up to {position:?} have come of a log up to {:?}",
            joining.shape.last
        );
        self.changing.note_progress();
        self.go_on_joining(host);
    }

    /// A page of a state has come, in place of entries that are forgotten.
    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_from_state<H: Host<P>>(
        &mut self,
        from: ReplicaIndex,
        view: View,
        base: Position,
        base_view: View,
        page: u64,
        state: Option<P::Page>,
        host: &mut H,
    ) {
        let Some(joining) = &self.joining else { return };
        let is_of_use = joining.reached().is_none_or(|reached| base > reached);
        if view != self.view || from != joining.from || !is_of_use {
            return host.ignored("state that is not wanted");
        }
        if !base.is_believable() {
            return host.ignored(reasons::POSITION);
        }
        if base < self.stable {
            return host.ignored(LACKS_STABLE);
        }
        if matches!(self.recovery, Some(Recovery::Arriving { .. })) {
            let arrival = self.view_of_arrival(base, base_view);
            let epoch = self.membership().epoch();
            if base < self.beginning.base || !arrival.is_of(epoch) || !self.view.may_go_to(arrival, epoch) {
                return host.ignored(reasons::VIEW);
            }
            if arrival == base_view && self.leader(arrival) == self.me {
                // It has led that view, and has forgotten.
                return self.recover(host);
            }
        }
        let Some(joining) = &mut self.joining else { return };
        if page == 0 {
            joining.kept = None;
            joining.received.clear();
            joining.state = Some(Arriving { base, base_view, pages: Vec::new() });
        }
        let Some(arriving) = &mut joining.state else { return };
        if arriving.base != base || arriving.pages.len() as u64 != page {
            return;
        }
        (joining.is_idle, joining.silences) = (false, 0);
        if let Some(state) = state {
            arriving.pages.push(state);
        } else {
            if base > joining.shape.last {
                // The view has gone on in the meantime.
                joining.shape = Shape::forgotten(base, base_view);
            }
            joining.kept = Some(base);
        }
        self.changing.note_progress();
        self.go_on_joining(host);
    }

    /// Everything is there: from now on the replica takes part.
    fn change_over<H: Host<P>>(&mut self, host: &mut H) {
        let Some(Joining { shape, kept, state, received, stable, .. }) = self.joining.take() else { return };
        let Some(kept) = kept else { return };
        assert!(
            kept >= self.stable,
            "{} would lose entries after {kept}, and {} is stable",
            self.view,
            self.stable
        );
        assert!(
            kept.0 + received.len() as u64 == shape.last.0,
            "{} begins with {} entries after {kept:?}, of a log up to {:?}",
            self.view,
            received.len(),
            shape.last
        );
        let begins = matches!(self.recovery, Some(Recovery::Arriving { .. }));
        if let Some(Arriving { base, base_view, .. }) = state.as_ref().filter(|_| begins) {
            self.view = self.view_of_arrival(*base, *base_view);
        }
        let view = self.view;
        assert!(view.is_of(self.membership().epoch()), "{view} begins in {:?}", self.membership().epoch());
        let pages = state.iter().flat_map(|arriving| &arriving.pages);
        for (page, state) in (0..).zip(pages) {
            host.persist(Fact::ViewState { view, page, state: state.clone() });
        }
        if !received.is_empty() {
            host.persist(Fact::ViewPage { view, after: kept, entries: received.clone() });
        }
        let from_state = state.as_ref().map(|state| state.base_view);
        self.install(kept, shape.last, from_state, host);
        if let Some(Arriving { base, base_view, pages }) = state {
            self.entries = Entries::forgotten(base, base_view);
            self.begin_anew_from(base, pages, host);
        } else {
            self.entries.truncate(kept);
        }
        for entry in received {
            self.entries.push(entry);
        }
        self.forget_overtaken();
        assert!(
            self.entries.last() == shape.last && (self.last_normal <= view || !self.is_member),
            "{view} begins with the log up to {:?}, after {}, and was told of one up to {:?}",
            self.entries.last(),
            self.last_normal,
            shape.last
        );
        (self.status, self.last_normal) = (Status::Normal, view);
        (self.is_member, self.is_lost, self.recovery) = (true, false, None);
        if begins {
            self.note_begun();
        }
        self.changing.forget_wishes();
        if self.leader(view) == self.me {
            self.lead(host);
            let message = self.start_view();
            self.tell_others(&message, host);
        } else {
            self.promise.renew(host.now(), &self.timing);
            self.listen(host);
            let clock = Some(host.clock());
            let upto = self.entries.last();
            host.send(self.leader(view), Message::PrepareOk { view, upto, beat: 0, clock });
        }
        self.stabilise(stable, host);
        if begins {
            self.tell_epoch(host);
        }
    }
}
