//! The state of a member, compared with the others of its group: see [`quorate_core::verify`].
//!
//! At one position the machines of a group are alike, because what they hold follows from the entries up to it alone. So a member
//! freezes its state at exactly the position that an operator has named, and reads it page by page while more entries come.
//!
//! An operator that reads the items, and compares nothing, is content with that position or a later one. Where it names a timestamp,
//! because it reads several shards, the machine says when its state at that timestamp is certain.

use quorate_core::Instant;
use quorate_core::log::{FrozenAt, LogMachine, Position};
use quorate_core::machine::OutboxOf;
use quorate_core::verify::{Answer, Point, Request, Verification};

use super::{Member, Part};
use crate::{Status, Timer};

impl<M: LogMachine> Member<M> {
    /// The answer to an operator that compares what replicas hold.
    pub fn verified(&self, request: &Request) -> Answer {
        match self.replica.status() {
            Status::Recovering => Answer::unable("it learns from the others what it has lost"),
            Status::Retired => Answer::unable("it is no member of its group any more"),
            Status::Normal | Status::ViewChanging => {
                let asks_for_log = request.point.is_none() && request.page.is_some();
                let at = if asks_for_log { self.replica.last() } else { self.applied };
                self.verification.answer(request, Point::Position(at))
            }
        }
    }

    /// An operator asks.
    pub(super) fn on_verify(&mut self, request: &Request, now: Instant, outbox: &mut OutboxOf<Self>) {
        if self.verification.on_request(request, now) {
            self.note_applied(self.applied);
            outbox.set_timer(Part::Log(Timer::Verification), Verification::<M::Frozen>::PAUSE);
        }
    }

    /// The machine has been given everything up to a position, and nothing else.
    pub(super) fn note_applied(&mut self, position: Position) {
        self.applied = position;
        match self.verification.awaited() {
            None => {}
            Some(Point::Position(awaited)) if position < awaited => {}
            Some(Point::Position(_)) if self.verification.awaits_reading() => {
                match self.machine.freeze_to_read() {
                    Some(frozen) => self.verification.reach(frozen),
                    None => self.verification.pass(),
                }
            }
            Some(Point::Below(below)) if self.verification.awaits_reading() => {
                match self.machine.freeze_at(below) {
                    FrozenAt::Frozen(frozen) => self.verification.reach(frozen),
                    FrozenAt::NotYet => {}
                    FrozenAt::Passed => self.verification.pass(),
                }
            }
            Some(Point::Position(awaited)) if position == awaited => {
                self.verification.reach(self.machine.freeze_data());
            }
            // It lies behind, or is no point of this protocol.
            Some(_) => self.verification.pass(),
        }
    }

    /// Reads on in what was frozen.
    pub(super) fn walk(&mut self, now: Instant, outbox: &mut OutboxOf<Self>) {
        if self.verification.awaits_reading() {
            // Whether a timestamp is certain may change without an entry.
            self.note_applied(self.applied);
        }
        let goes_on = self.verification.walk(now, |frozen, digester| {
            let page = M::next_page(frozen);
            page.iter().for_each(|page| M::digest(page, digester));
            // A page that holds no data is something that was looked at.
            digester.skip();
            page.is_some()
        });
        if goes_on {
            outbox.set_timer(Part::Log(Timer::Verification), Verification::<M::Frozen>::PAUSE);
        }
    }
}
