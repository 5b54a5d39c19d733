//! How long nobody else can lead.
//!
//! A backup that hears the leader promises not to take part in a view change for the time of a lease, counted from when it
//! *hears*. The leader counts the same time from when it *spoke*, which was earlier. As long as f + 1 replicas, itself
//! among them, are bound by what it has said, no f + 1 can have gone on to another view: so nothing that it does not know
//! has become stable, and what it reads from its own state is current.
//!
//! No clocks are compared, but time must pass about equally fast everywhere: the promise is kept longer, and the lease
//! given up sooner, by the share by which that may be wrong. A promise is not durable; a replica that restarts takes itself
//! to have promised just before it went down. The leader itself may end its leases, by leaving its view.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::{Instant, ReplicaIndex};

use super::Timing;

/// The promise of a replica to the leader of its view.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Promise {
    until: Option<Instant>,
}

impl Promise {
    /// The leader has been heard.
    pub(super) fn renew(&mut self, now: Instant, timing: &Timing) {
        let until = now + timing.lease + rate_error(timing);
        self.until = Some(until);
    }

    /// The leader has given its leases up, or another leads.
    pub(super) fn end(&mut self) {
        self.until = None;
    }

    /// How long the promise binds still; none if it does not.
    pub(super) fn left(&self, now: Instant) -> Option<Duration> {
        self.until.filter(|until| *until > now).map(|until| until - now)
    }
}

/// When the leader has spoken, and what has been answered.
#[derive(Debug, Default)]
pub(super) struct Lease {
    /// The number of the last beat.
    pub(super) beat: u64,
    /// True if another is wanted soon.
    pub(super) is_wanted: bool,
    /// When each beat began that may still count.
    spoken: BTreeMap<u64, Instant>,
    /// The greatest beat that each of the others has answered.
    answered: BTreeMap<ReplicaIndex, u64>,
}

impl Lease {
    /// Begins anew in another view. Beats go on being counted, so that no answer is taken for one to a later beat.
    pub(super) fn reset(&mut self) {
        self.is_wanted = false;
        self.spoken.clear();
        self.answered.clear();
    }

    /// A beat begins.
    pub(super) fn speak(&mut self, now: Instant, timing: &Timing) {
        self.beat += 1;
        self.is_wanted = false;
        // A beat of so long ago holds no backup to its promise any more.
        while self.spoken.first_entry().is_some_and(|entry| *entry.get() + timing.lease < now) {
            self.spoken.pop_first();
        }
        let before = self.spoken.insert(self.beat, now);
        assert!(before.is_none(), "beat {} has begun at {before:?}", self.beat);
    }

    /// A beat is taken to have begun when its answer comes: a plant.
    pub(super) fn speak_late(&mut self, beat: u64, now: Instant) {
        if let Some(spoken) = self.spoken.get_mut(&beat) {
            *spoken = now;
        }
    }

    /// Somebody has heard a beat.
    pub(super) fn on_answer(&mut self, from: ReplicaIndex, beat: u64, others_needed: usize) {
        if beat > self.beat {
            return;
        }
        let known = self.answered.entry(from).or_default();
        *known = beat.max(*known);
        let counts = self.heard_by(others_needed);
        assert!(counts <= self.beat, "beat {counts} was heard, and {} was the last", self.beat);
        // Of what lies before, the latest says it all.
        self.spoken = self.spoken.split_off(&counts);
    }

    /// The greatest beat that so many of the others have heard; zero if there is none.
    pub(super) fn heard_by(&self, others: usize) -> u64 {
        let Some(last) = others.checked_sub(1) else { return self.beat };
        let mut answered: Vec<u64> = self.answered.values().copied().collect();
        answered.sort_unstable_by(|one, other| other.cmp(one));
        answered.get(last).copied().unwrap_or(0)
    }

    /// Until when nobody else can lead; none if that is not known.
    pub(super) fn until(&self, others_needed: usize, timing: &Timing) -> Option<Instant> {
        let heard = self.heard_by(others_needed);
        let spoken = self.spoken.get(&heard)?;
        let until = *spoken + timing.lease.saturating_sub(rate_error(timing));
        assert!(until <= *spoken + timing.lease, "a lease from {spoken:?} lasts until {until:?}");
        Some(until)
    }
}

/// By how much the time of a lease may be wrong.
fn rate_error(timing: &Timing) -> Duration {
    timing.lease * timing.rate_error_ppm / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 s at 1%: the promise is kept 100 ms longer, and the lease given up 100 ms sooner.
    const TIMING: Timing =
        Timing { lease: Duration::from_secs(10), rate_error_ppm: 10_000, ..Timing::DEFAULT };

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    #[test]
    fn a_promise_is_kept_longer_than_a_lease_lasts() {
        let mut promise = Promise::default();
        assert_eq!(promise.left(at(0)), None);
        promise.renew(at(1_000), &TIMING);
        assert_eq!(promise.left(at(11_099)), Some(Duration::from_millis(1)));
        assert_eq!(promise.left(at(11_100)), None);
    }

    #[test]
    fn a_lease_counts_from_the_beat_that_enough_others_have_heard() {
        let mut lease = Lease::default();
        for second in 1..=3 {
            lease.speak(at(1_000 * second), &TIMING);
        }
        assert_eq!(lease.until(2, &TIMING), None);
        lease.on_answer(ReplicaIndex(1), 3, 2);
        lease.on_answer(ReplicaIndex(2), 9, 2);
        assert_eq!(lease.until(2, &TIMING), None, "one has not answered, and says what it cannot know");
        lease.on_answer(ReplicaIndex(2), 2, 2);
        lease.on_answer(ReplicaIndex(2), 1, 2);
        assert_eq!(lease.until(2, &TIMING), Some(at(2_000 + 9_900)));
        lease.on_answer(ReplicaIndex(3), 3, 2);
        assert_eq!(lease.until(2, &TIMING), Some(at(3_000 + 9_900)));
        lease.reset();
        lease.on_answer(ReplicaIndex(1), 3, 2);
        lease.on_answer(ReplicaIndex(2), 3, 2);
        assert_eq!(lease.until(2, &TIMING), None, "that was said in another view");
    }

    #[test]
    fn who_needs_nobody_leads_as_long_as_it_speaks() {
        let mut lease = Lease::default();
        lease.speak(at(1_000), &TIMING);
        assert_eq!(lease.until(0, &TIMING), Some(at(10_900)));
        for second in 2..100 {
            lease.speak(at(1_000 * second), &TIMING);
        }
        assert_eq!(lease.until(0, &TIMING), Some(at(99_000 + 9_900)));
        assert!(lease.spoken.len() <= 11, "what is over is forgotten");
    }
}
