//! The content of a replica, compared with the others of its group: see [`quorate_core::verify`].
//!
//! The points are floors. Below a floor everything has ended, and a replica has a floor only if it is complete below it: it has
//! executed all that can ever take effect there, or was given the state of one that had. So of each key the newest version below a
//! timestamp *t* follows from what has committed below *t* alone, at every replica
//!
//! 1. whose floor is *t* or later, so that nothing can come any more below *t*, and nothing that is to be there is missing; and
//! 2. that has collected nothing below a floor later than *t*, or what was the newest below *t* may be gone.
//!
//! The first may become true while a replica waits. The second is held as it is from the request on: until the walk has ended
//! versions are collected below *t* and no further, which costs memory and nothing else, because nobody relies on what lies below a
//! floor being collected. Commits meanwhile lie at or above *t*, and are passed over. A deletion counts as absence, as it
//! does wherever others may have collected it.

use quorate_core::machine::OutboxOf;
use quorate_core::verify::{Answer, Point, Request, Verification};
use quorate_core::{Instant, Timestamp};
use quorate_ir::Status;
use quorate_store::WalkBelow;

use super::{Replica, ReplicaTimer};
use crate::rules::Plant;

impl Replica {
    /// The answer to an operator that compares what replicas hold.
    pub fn verified(&self, request: &Request) -> Answer {
        match self.ir.status() {
            Status::Recovering => Answer::unable("it learns from the others what it has lost"),
            Status::Retired => Answer::unable("it is no member of its group any more"),
            Status::Normal | Status::ViewChanging => {
                self.verification.answer(request, Point::Below(self.participant.bounds.floor))
            }
        }
    }

    /// An operator asks.
    pub(super) fn on_verify(&mut self, request: &Request, now: Instant, outbox: &mut OutboxOf<Self>) {
        if self.verification.on_request(request, now) {
            self.begin_walk();
            outbox.set_timer(ReplicaTimer::Verification, Verification::<WalkBelow>::PAUSE);
        }
    }

    pub(super) fn on_verification_timeout(&mut self, now: Instant, outbox: &mut OutboxOf<Self>) {
        self.begin_walk();
        let versions = &self.participant.versions;
        if self.verification.walk(now, |walk, digester| walk.advance(versions, digester)) {
            outbox.set_timer(ReplicaTimer::Verification, Verification::<WalkBelow>::PAUSE);
        }
    }

    fn begin_walk(&mut self) {
        let (rules, versions) = (self.config.rules, &self.participant.versions);
        let floor = match self.verification.awaited() {
            Some(Point::Below(below)) if rules.has(Plant::ReadBeforeFloor) => below,
            _ => self.participant.bounds.floor,
        };
        let collected = match rules.has(Plant::ReadWhatIsCollected) {
            true => Timestamp::ZERO,
            false => versions.collected(),
        };
        WalkBelow::begin(&mut self.verification, collected, floor);
    }
}
