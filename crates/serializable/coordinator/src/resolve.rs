//! The outcome of a transaction whose client was not told, or is gone: its participants are asked, and those that have not heard
//! of it see to it that it comes to nothing.

use std::time::Duration;

use quorate_core::command::{Event, Outcome};
use quorate_core::{ClockTime, Context, Input, ShardId, Timestamp, TransactionId};
use quorate_granola::coordinator::Command as Order;
use quorate_granola::{Answer, Failure as Refused};

use crate::coordinator::{Asked, Interactive, OneRoundResult, Out, committed};

impl Interactive {
    pub(crate) fn on_resolve(
        &mut self,
        id: TransactionId,
        participants: Vec<ShardId>,
        timestamp: Timestamp,
        patience: Duration,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        if self.is_open(id) {
            return outbox.emit(Event::Resolved { transaction: id, outcome: None });
        }
        let not_before = ClockTime::from_micros(timestamp.micros);
        let inquiry =
            Order::Inquire { transaction: id, participants, not_before, wants_answers: false, patience };
        self.ask(id, Asked::Resolve);
        self.order(Input::Command(inquiry), context, outbox);
    }
}

pub(crate) fn on_resolved(id: TransactionId, result: OneRoundResult, outbox: &mut Out) {
    let is_refused = |answer: &Answer| matches!(answer, Answer::Refused(_));
    let outcome = match result {
        Ok(executed) if executed.answers.values().any(is_refused) => Some(Outcome::Aborted),
        Ok(executed) => Some(Outcome::Committed(committed(id, executed.timestamp).timestamp)),
        Err(Refused::Conflict | Refused::Aborted(_) | Refused::Lost { .. }) => Some(Outcome::Aborted),
        Err(Refused::Forgotten) => return outbox.emit(Event::Forgotten { transaction: id }),
        Err(
            Refused::Unknown { .. }
            | Refused::ClockAhead { .. }
            | Refused::SeenAhead { .. }
            | Refused::Disagreement { .. }
            | Refused::NoSuchShard(_)
            | Refused::InUse,
        ) => None,
    };
    outbox.emit(Event::Resolved { transaction: id, outcome });
}
