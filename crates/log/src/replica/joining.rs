//! Taking part in a view that has begun, or is about to: fetching what is lacking, and changing over in one step.

use quorate_core::{ReplicaIndex, View};

use super::normal::MESSAGE_BYTES_MAX;
use super::{Fact, Host, Replica, Status};
use crate::entries::{Entry, Position, Shape};
use crate::{Message, Payload};

/// A log that is being taken over.
#[derive(Debug)]
pub(super) struct Joining<P> {
    /// Who has it.
    from: ReplicaIndex,
    /// What it looks like.
    shape: Shape,
    /// Up to here it is that of this replica.
    kept: Position,
    /// What follows, as far as it has arrived.
    received: Vec<Entry<P>>,
    stable: Position,
}

impl<P> Joining<P> {
    /// Up to here everything is there.
    fn reached(&self) -> Position {
        Position(self.kept.0 + self.received.len() as u64)
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

    fn start_view(&self) -> Message<P> {
        Message::StartView { view: self.view, shape: self.entries.shape().clone(), stable: self.stable }
    }

    pub(super) fn on_start_view<H: Host<P>>(
        &mut self,
        from: ReplicaIndex,
        view: View,
        shape: Shape,
        stable: Position,
        host: &mut H,
    ) {
        if from != self.leader(view) || view < self.view || !shape.is_sound() || stable > shape.last {
            return;
        }
        if !self.may_join() {
            return;
        }
        if view > self.view {
            if self.status == Status::Recovering {
                (self.view, self.joining) = (view, None);
            } else {
                self.leave_for(view, host);
            }
        }
        if self.status != Status::Normal && self.joining.is_none() {
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
        let kept = self.entries.shape().common(&shape);
        self.joining = Some(Joining { from, shape, kept, received: Vec::new(), stable });
        self.go_on_joining(host);
    }

    fn go_on_joining<H: Host<P>>(&mut self, host: &mut H) {
        match &self.joining {
            Some(joining) if joining.reached() == joining.shape.last => self.change_over(host),
            Some(_) => self.fetch(host),
            None => {}
        }
    }

    pub(super) fn fetch<H: Host<P>>(&mut self, host: &mut H) {
        let Some(joining) = &self.joining else { return };
        let (view, after, upto) = (self.view, joining.reached(), joining.shape.last);
        host.send(joining.from, Message::Fetch { view, after, upto });
    }

    pub(super) fn on_fetch<H: Host<P>>(
        &mut self,
        from: ReplicaIndex,
        view: View,
        after: Position,
        upto: Position,
        host: &mut H,
    ) {
        // In this view the log only grows, so it is still the one that was told of.
        if view == self.view && upto <= self.entries.last() {
            let entries = self.entries.between(after, upto, MESSAGE_BYTES_MAX);
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
        if view != self.view || from != joining.from || after != joining.reached() || entries.is_empty() {
            return;
        }
        for entry in entries {
            let position = joining.reached().next();
            if joining.shape.view_at(position) != Some(entry.view) {
                return;
            }
            joining.received.push(entry);
        }
        self.changing.note_progress();
        self.go_on_joining(host);
    }

    /// Everything is there: from now on the replica takes part.
    fn change_over<H: Host<P>>(&mut self, host: &mut H) {
        let Some(Joining { shape, kept, received, stable, .. }) = self.joining.take() else { return };
        assert!(
            kept >= self.stable,
            "{} would lose entries after {kept}, and {} is stable",
            self.view,
            self.stable
        );
        let view = self.view;
        if !received.is_empty() {
            host.persist(Fact::ViewPage { view, after: kept, entries: received.clone() });
        }
        host.persist(Fact::ViewInstalled { view, kept, last: shape.last });
        self.entries.truncate(kept);
        for entry in received {
            self.entries.push(entry);
        }
        (self.status, self.last_normal) = (Status::Normal, view);
        (self.is_member, self.recovery) = (true, None);
        self.changing.forget_wishes();
        if self.leader(view) == self.me {
            self.lead(host);
            let message = self.start_view();
            self.tell_others(&message, host);
        } else {
            self.promise.renew(host.now(), &self.timing);
            self.listen(host);
            host.send(self.leader(view), Message::PrepareOk { view, upto: self.entries.last(), beat: 0 });
        }
        self.stabilise(stable, host);
    }
}
