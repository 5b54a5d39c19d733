//! The time that the group goes by, and leaders whose clocks are off.
//!
//! ```text
//!   PREPARE-OK, DO-VIEW-CHANGE ── what a backup's clock reads ──► the leader compares
//!                                                                    │ its machine goes by the clock of the group
//!   a backup learns whether its own is off ◄── beats: what a majority reads ──┤
//!                                                                    │ its own is off at two beats in a row:
//!                                                                    ▼
//!                              it leaves its view for the next that a sound clock leads
//! ```
//!
//! The *clock of the group* is the leader's own, but no further from the clock of the majority than the bound. So even the leader of
//! which nobody knows yet that it is off drags no timestamp further than that. A machine does not hear that it leads
//! before f others have told what their clocks read, in the view change that made it lead or since: a clock of which it
//! heard in an earlier view may have been far off for that moment.
//!
//! A leader that is off leaves its view as one does that restarts: that ends what the backups have promised, so the next one
//! need not wait for its lease. If no other member takes part whose clock is known and sound, or too few take part for a view change,
//! it stays: it goes by the clock of the group anyway.

use quorate_core::{ClockTime, Instant, ReplicaIndex, View};

use super::{Host, Replica};
use crate::clocks::{Comparison, difference};
use crate::{Payload, Plant};

/// A leader hands over once its clock was off at so many beats in a row: one may meet messages that were late.
const BEATS_OFF: u32 = 2;

impl<P: Payload> Replica<P> {
    pub(super) fn compare_clocks(&self, own: ClockTime, now: Instant) -> Comparison {
        self.clocks.compare(self.membership(), self.me, own, now, self.timing.silence)
    }

    /// The clock of the group where the clock of this replica reads `own`: that, but within the bound of the clock of a majority. None if
    /// too few clocks have been known in this view.
    pub fn group_clock(&mut self, own: ClockTime, now: Instant) -> Option<ClockTime> {
        if self.rules.has(Plant::OwnClockCounts) {
            return Some(own);
        }
        let compared = self.compare_clocks(own, now);
        self.clocks.bounded(&compared, self.timing.clock_bound())
    }

    /// By how many microseconds the clock of this replica is ahead of those of a majority, negative if it is behind; none if it is not off,
    /// as far as is known here.
    pub fn clock_error_micros(&self) -> Option<i64> {
        self.clock_error
    }

    /// The reading of a majority of clocks that agree, which the leader tells backups with a beat.
    pub(super) fn clock_to_tell<H: Host<P>>(&self, host: &H) -> Option<ClockTime> {
        self.compare_clocks(host.clock(), host.now()).agreed(self.timing.clock_bound())
    }

    /// The leader tells what the clocks of a majority read.
    pub(super) fn note_told_clock<H: Host<P>>(&mut self, told: Option<ClockTime>, host: &mut H) {
        let Some(told) = told else { return };
        let error = difference(host.clock(), told);
        let is_off = u128::from(error.unsigned_abs()) > self.timing.clock_bound().as_micros();
        self.clock_error = is_off.then_some(error);
    }

    /// The view to which a leader hands over whose clock is off: the next that is led by a member that takes part and whose clock is
    /// not. None if it leads on, as it does if a view change would lack f others.
    pub(super) fn next_with_sound_clock<H: Host<P>>(&mut self, host: &mut H) -> Option<View> {
        let (bound, patience) = (self.timing.clock_bound(), self.timing.silence);
        let compared = self.compare_clocks(host.clock(), host.now());
        let error = compared.own_error(bound);
        let leading = self.leading.as_mut()?;
        leading.beats_off = if error.is_some() { leading.beats_off.saturating_add(1) } else { 0 };
        self.clock_error = error.filter(|_| leading.beats_off >= BEATS_OFF);
        if self.clock_error.is_none() || self.rules.has(Plant::OffClockLeads) {
            return None;
        }
        let leading = self.leading.as_ref()?;
        // Else replicas that come back would have to follow from view to view, and some would never arrive.
        let has_led_for_long = host.now() - leading.since >= patience;
        let answering = leading.answering(host.now(), patience);
        if !has_led_for_long || answering.len() < self.membership().group().others() {
            return None;
        }
        let sound: Vec<ReplicaIndex> =
            compared.sound(bound).filter(|member| answering.contains(member)).collect();
        self.next_led_by(&sound)
    }
}
