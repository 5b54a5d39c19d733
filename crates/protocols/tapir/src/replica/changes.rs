//! The changes that a replica tells consumers: see [`quorate_core::changes`].
//!
//! The positions are timestamps, and what is certain lies below the floor. There everything has ended, and a replica that has this floor has
//! executed all that can ever take effect, or was given the state of one that had. So two replicas tell the same of the stretch below the
//! lesser of their floors, as far as both retain it (I9).
//!
//! Floors stay ten seconds behind clocks, for the sake of slow transactions. While a consumer is there, the replica that it asks searches
//! for a floor at every sweep, and comes nearer to its clock.

use quorate_core::changes::{Answer, Request, Retained};
use quorate_ir::Status;

use super::Replica;
use crate::rules::Plant;

impl Replica {
    /// The changes that it retains.
    pub fn retained(&self) -> Retained {
        let history = &self.participant.history;
        Retained { bytes: history.bytes() as u64, horizon: history.horizon() }
    }

    /// The answer to a consumer of changes.
    pub fn changes(&self, request: &Request) -> Answer {
        match self.ir.status() {
            Status::Recovering => Answer::unable("it learns from the others what it has lost"),
            Status::Retired => Answer::unable("it is no member of its group any more"),
            Status::Normal | Status::ViewChanging => {
                let participant = &self.participant;
                let certain = match self.config.rules.has(Plant::ChangesAboveFloor) {
                    false => participant.bounds.floor,
                    true => participant.bounds.refusal,
                };
                participant.history.answer(request, certain, &participant.versions)
            }
        }
    }
}
