//! The changes that a replica tells consumers: see [`quorate_core::changes`].
//!
//! The positions are timestamps, and changes are told in the serial order. All below a bound is *certain*: it has run here, as the log says, and
//! nothing else will run there at any replica. Each replica has a bound of its own:
//!
//! * *One that does not lead* executes in the serial order (I1), so nothing comes beneath what it has executed last. At that timestamp there may be more.
//! * *A leader* makes a promise, as if a read-only transaction of all keys was executed at that timestamp (section 4.4): it proposes nothing at or beneath. It promises nothing above
//!   its clock, above the ceiling that is stable, beneath which no later leader proposes either, and nothing at or above what is pending: that may still be executed there.
//!
//! The promise is in no log and needs no lease. A leader that was deposed and does not know has the log up to there: what others have appended
//! since was proposed above the ceiling.

use quorate_core::changes::{Answer, Request, Retained};
use quorate_core::log::Log;
use quorate_core::{ClockTime, Context};

use super::Replica;
use crate::application::Application;
use crate::entry::{Body, Entry};
use crate::rules::Plant;

impl<A: Application> Replica<A> {
    /// The answer to a consumer of changes.
    pub fn changes(&self, request: &Request) -> Answer {
        self.state.application.changes(request, self.certain())
    }

    /// The changes that it retains.
    pub fn retained(&self) -> Retained {
        self.state.application.retained()
    }

    /// A consumer asks: the leader promises as much as it can.
    pub(super) fn on_follow(&mut self, context: &Context<'_>, log: &mut impl Log<Entry>) {
        let before = |timestamp: ClockTime| ClockTime::from_micros(timestamp.as_micros().saturating_sub(1));
        let pending = self.horizon().map(|place| place.timestamp);
        let Some(leader) = &mut self.leader else { return };
        let pending = pending.into_iter().chain(leader.first_pending()).min();
        let pending = pending.filter(|_| !self.config.rules.has(Plant::PendingPassedOver));
        let possible = context.clock.min(pending.map_or(context.clock, before));
        let promised = possible.min(self.state.ceiling);
        if promised > leader.promised {
            leader.promised = promised;
            leader.executed = leader.executed.max(promised);
        }
        if possible > leader.ceiling {
            // Else consumers of a shard to which nobody writes would be told nothing of the others.
            self.append(Body::Nothing, possible, log);
        }
    }

    /// Everything below has run here, as the log says, and nothing else will.
    fn certain(&self) -> ClockTime {
        let Some(leader) = &self.leader else {
            return match self.config.rules.has(Plant::CeilingTold) {
                true => self.state.ceiling,
                false => self.state.executed().timestamp,
            };
        };
        let promised = leader.promised;
        let pending = self.horizon().map(|place| place.timestamp).into_iter().chain(leader.first_pending());
        let is_above = pending.min().is_none_or(|pending| pending > promised);
        assert!(
            is_above || !self.config.is_sound(),
            "something is pending beneath {promised:?}, up to which all was told"
        );
        ClockTime::from_micros(promised.as_micros().saturating_add(1))
    }
}
