//! The changes that a replica tells consumers: see [`quorate_core::changes`].
//!
//! The positions are final timestamps. A consumer is a reader of all keys as any other (see `reads`): a replica promises that it has read everything at a snapshot for which it was
//! granted a bound. Then everything that commits later commits above, and what is pending here may still commit below: beneath both nothing is missing (P2, ADR 0050).
//!
//! Promises stay a moment behind the clock, so that they are below the snapshots of transactions that are under way, and raise no timestamp.

use quorate_core::changes::{Answer, Request, Retained};
use quorate_core::command::Outcome;
use quorate_core::log::Log;
use quorate_core::{ClientId, ClockTime, Context, Key, KeyRange, Timestamp};

use super::Shard;
use crate::entry::Entry;
use crate::machine::Out;
use crate::message::{after, newest_of};
use crate::rules::Plant;

impl Shard {
    /// A consumer asks: the replica promises as much as it can.
    pub(crate) fn on_follow(&mut self, context: &Context<'_>, log: &mut impl Log<Entry>, outbox: &mut Out) {
        // Grants are renewed while somebody reads.
        self.is_read = true;
        self.attend_grants(context, log, outbox);
        let lag = self.config.follow_lag.as_micros() as u64;
        let wanted = ClockTime::from_micros(context.clock.as_micros().saturating_sub(lag));
        let promised = wanted.min(self.bound);
        if promised <= self.promised {
            return;
        }
        self.promised = promised;
        if !self.has(Plant::ConsumersUnnoted) {
            let all = KeyRange { from: Key::default(), to: None };
            self.readers.read_range(&all, newest_of(promised));
        }
    }

    /// The answer to a consumer of changes.
    pub(crate) fn changes(&self, request: &Request) -> Answer {
        if request.from.is_none() && self.promised == ClockTime::default() {
            return Answer::unable("it was granted no snapshots yet in which a consumer could begin");
        }
        let certain = Timestamp { micros: self.certain().as_micros(), client: ClientId(0) };
        self.state.history.answer(request, certain, &self.state.versions)
    }

    /// The changes that it retains.
    pub(crate) fn retained(&self) -> Retained {
        let history = &self.state.history;
        Retained { bytes: history.bytes() as u64, horizon: history.horizon() }
    }

    /// Everything below that ever commits is in the log, as far as it was applied here.
    fn certain(&self) -> ClockTime {
        let promised = after(self.promised);
        if self.has(Plant::PendingPassedOver) {
            return promised;
        }
        let lowest = self.pendings.iter().filter_map(|(_, pending)| match pending.outcome {
            None => Some(after(pending.snapshot)),
            Some(Outcome::Committed(timestamp)) => Some(ClockTime::from_micros(timestamp.micros)),
            Some(Outcome::Aborted) => None,
        });
        lowest.fold(promised, ClockTime::min)
    }
}
