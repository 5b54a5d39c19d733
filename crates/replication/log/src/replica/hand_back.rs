//! How a group comes to be led by its *first* member again.
//!
//! Groups are placed so that each node is the first member of as many as any other. A node that restarts is followed by others in what it led,
//! and after a round of restarts one node might lead everything.
//!
//! ```text
//!   another member leads ──the first has kept up with it for long enough──► it enters the next view that the first leads
//! ```
//!
//! A leader hands back as one does that is about to stop: the first member need not wait for its lease. If the first member fails again and
//! again, leaders become ever more patient.

use std::time::Duration;

use quorate_core::{Instant, View};

use super::{Host, Replica, Timing};
use crate::Payload;

/// The patience doubles so many times at most.
const DOUBLINGS_MAX: u32 = 8;

/// It is as it was at first once so many times the patience have passed since the lead was handed back last.
const FORGOTTEN: u32 = 4;

/// How patient a replica is before it hands the lead back.
#[derive(Debug, Default)]
pub(super) struct HandBack {
    /// When it did so last, and how often the patience has doubled since then.
    last: Option<(Instant, u32)>,
}

impl HandBack {
    fn doublings(&self, now: Instant, timing: &Timing) -> u32 {
        let patience = |doublings| timing.hand_back.saturating_mul(2_u32.pow(doublings));
        let counts =
            |(at, doublings): &(Instant, u32)| now - *at < patience(*doublings).saturating_mul(FORGOTTEN);
        self.last.filter(counts).map_or(0, |(_, doublings)| doublings)
    }

    /// For how long the first member has to keep up.
    fn patience(&self, now: Instant, timing: &Timing) -> Duration {
        timing.hand_back.saturating_mul(2_u32.pow(self.doublings(now, timing)))
    }

    fn note(&mut self, now: Instant, timing: &Timing) {
        self.last = Some((now, (self.doublings(now, timing) + 1).min(DOUBLINGS_MAX)));
    }
}

impl<P: Payload> Replica<P> {
    /// The view in which a leader hands back to the first member of its group; none while the first leads, has not kept up for long
    /// enough, or its clock is off; nor if a view change would lack f others. To be asked at each beat.
    pub(super) fn next_led_by_first<H: Host<P>>(&mut self, host: &mut H) -> Option<View> {
        let (now, silence, stable) = (host.now(), self.timing.silence, self.stable);
        let first = self.leader(self.membership().first_view());
        let kept_up_since =
            self.leading.as_mut().and_then(|leading| leading.keeps_up(first, now, silence, stable));
        let patience = self.hand_back.patience(now, &self.timing);
        if !self.knows_all() || self.is_ending() || kept_up_since.is_none_or(|since| now - since < patience) {
            return None;
        }
        let answering = self.leading.as_ref().map(|leading| leading.answering(now, silence))?;
        let compared = self.compare_clocks(host.clock(), now);
        let is_sound = compared.sound(self.timing.clock_bound()).any(|member| member == first);
        if !is_sound || answering.len() < self.membership().group().others() {
            return None;
        }
        let next = self.next_led_by(&[first])?;
        self.hand_back.note(now, &self.timing);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_grows_more_patient_and_forgets_that_after_four_times_as_long() {
        let timing = Timing { hand_back: Duration::from_secs(1), ..Timing::DEFAULT };
        let at = |seconds| Instant::START + Duration::from_secs(seconds);
        let mut hand_back = HandBack::default();
        assert_eq!(hand_back.patience(at(0), &timing), Duration::from_secs(1));
        hand_back.note(at(0), &timing);
        assert_eq!(hand_back.patience(at(7), &timing), Duration::from_secs(2));
        assert_eq!(hand_back.patience(at(8), &timing), Duration::from_secs(1), "four times two seconds");
        for doublings in 2..=12_u32 {
            hand_back.note(at(7), &timing);
            let seconds = 1 << doublings.min(DOUBLINGS_MAX);
            assert_eq!(hand_back.patience(at(7), &timing), Duration::from_secs(seconds));
        }
    }
}
