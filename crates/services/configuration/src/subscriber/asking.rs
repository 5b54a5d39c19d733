//! Questions to the leader, until they are answered; and writes.

use std::sync::Arc;
use std::time::Duration;

use quorate_coordinator::soon;
use quorate_core::log::Position;
use quorate_core::{Context, Instant, ReplicaIndex, TransactionId};

use super::{About, Out, Subscriber, SubscriberEvent};
use crate::message::{ConditionalWrite, Message, Refusal, WriteResult};
use crate::pauses::Pauses;

/// A write that is under way.
#[derive(Debug)]
pub(super) struct Writing {
    write: Arc<ConditionalWrite>,
    /// How far the log was known when it was first sent.
    since: Position,
    request: u64,
    redirects: u32,
    /// True if the replica that was asked is about to lead, and is asked again once it has had a moment.
    leads_soon: bool,
    deadline: Instant,
    resend_at: Instant,
    pauses: Pauses,
}

impl Writing {
    pub(super) fn wakes_at(&self) -> Instant {
        self.resend_at.min(self.deadline)
    }
}

/// So often a question follows from one replica to the one that it names, before it waits for its time-out: while leaders
/// change, replicas may name each other.
pub(super) const REDIRECTS_MAX: u32 = 4;

impl Subscriber {
    pub(super) fn begin_write(
        &mut self,
        id: TransactionId,
        write: Arc<ConditionalWrite>,
        patience: Duration,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let now = context.now;
        let writing = Writing {
            write,
            since: self.position,
            request: 0,
            redirects: 0,
            leads_soon: false,
            deadline: now + patience,
            resend_at: now,
            pauses: Pauses::default(),
        };
        self.writing.insert(id, writing);
        self.send_write(id, context, outbox);
    }

    fn send_write(&mut self, id: TransactionId, context: &mut Context<'_>, outbox: &mut Out) {
        let request = self.next_request(Some(About::Write(id)));
        let to = self.replica(self.leader);
        let Some(writing) = self.writing.get_mut(&id) else { return };
        let before = std::mem::replace(&mut writing.request, request);
        writing.resend_at = context.now + writing.pauses.draw(self.config.resend_timeout, context.random);
        writing.leads_soon = false;
        let (since, write) = (writing.since, Arc::clone(&writing.write));
        self.questions.remove(&before);
        outbox.send(to, Message::Write { request, transaction: id, since, write });
    }

    pub(super) fn on_write_reply(&mut self, request: u64, result: WriteResult, outbox: &mut Out) {
        if let Some(About::Write(id)) = self.questions.remove(&request) {
            self.writing.remove(&id);
            outbox.emit(SubscriberEvent::Written { transaction: id, result: Ok(result) });
        }
    }

    pub(super) fn on_refused(&mut self, request: u64, refusal: Refusal, outbox: &mut Out) {
        match self.questions.remove(&request) {
            Some(About::Write(id)) => {
                // A late copy may have been applied before.
                let why = (refusal != Refusal::TooOld).then_some(refusal);
                // An overloaded replica may serve it a little later.
                if refusal != Refusal::TooMany {
                    self.writing.remove(&id);
                    outbox.emit(SubscriberEvent::Written { transaction: id, result: Err(why) });
                }
            }
            Some(About::Lease(number)) => self.on_lease_refused(number, refusal, outbox),
            // Asked again when its time-out is over.
            Some(About::Load(_)) | None => {}
        }
    }

    /// The replica that was asked does not lead.
    pub(super) fn on_not_leading(
        &mut self,
        from: ReplicaIndex,
        request: u64,
        leader: ReplicaIndex,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(about) = self.questions.get(&request).copied() else { return };
        if from == self.leader {
            self.leader = leader;
        }
        match about {
            About::Write(id) => {
                let Some(writing) = self.writing.get_mut(&id) else { return };
                writing.redirects += 1;
                if leader != from && writing.redirects <= REDIRECTS_MAX {
                    self.send_write(id, context, outbox);
                } else {
                    writing.leads_soon = true;
                    writing.resend_at = context.now + soon(self.config.resend_timeout);
                }
            }
            About::Lease(number) if leader != from => self.redirect_lease(number, context, outbox),
            About::Lease(_) | About::Load(_) => {}
        }
    }

    /// The replica that was asked has not answered in time.
    pub(super) fn suspect_leader(&mut self) {
        self.leader = self.members.after(self.leader);
    }

    pub(super) fn attend_writing(&mut self, context: &mut Context<'_>, outbox: &mut Out) {
        let due = self.writing.iter().filter(|(_, writing)| writing.wakes_at() <= context.now);
        let due: Vec<TransactionId> = due.map(|(id, _)| *id).collect();
        let mut is_suspected = false;
        for id in due {
            let Some(writing) = self.writing.get_mut(&id) else { continue };
            if writing.deadline <= context.now {
                let request = writing.request;
                self.questions.remove(&request);
                self.writing.remove(&id);
                outbox.emit(SubscriberEvent::Written { transaction: id, result: Err(None) });
                continue;
            }
            writing.redirects = 0;
            let is_silent = !writing.leads_soon;
            if is_silent {
                writing.pauses.lengthen();
            }
            if is_silent && !std::mem::replace(&mut is_suspected, true) {
                self.suspect_leader();
            }
            self.send_write(id, context, outbox);
        }
    }
}
