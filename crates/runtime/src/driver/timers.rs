//! The timers of one machine: one table, and the next deadline is a minimum.
//!
//! A coordinator sets and cancels several timers for every transaction, and hardly one of them ever fires, so cancelling
//! only forgets the timer; its entry in the queue is skipped when its turn comes, or swept out when such entries have
//! become the majority.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use quorate_core::Instant;

/// The queue is swept once it is longer than this and mostly stale.
const SWEEP_LEN_MIN: usize = 64;

/// The timers that are set, and when each is due.
#[derive(Debug)]
pub(crate) struct Timers<T> {
    /// The truth: when each timer is due.
    deadlines: BTreeMap<T, Instant>,
    /// At least one entry per timer, at or before its deadline; others are stale.
    queue: BinaryHeap<Reverse<(Instant, T)>>,
}

impl<T: Clone + Ord> Timers<T> {
    pub(crate) fn new() -> Self {
        Timers { deadlines: BTreeMap::new(), queue: BinaryHeap::new() }
    }

    /// Sets a timer, or moves it.
    pub(crate) fn set(&mut self, timer: T, deadline: Instant) {
        match self.deadlines.insert(timer.clone(), deadline) {
            // The entry that is in the queue already comes up earlier, and is put back then.
            Some(earlier) if earlier <= deadline => {}
            _ => self.queue.push(Reverse((deadline, timer))),
        }
    }

    /// Forgets a timer.
    pub(crate) fn cancel(&mut self, timer: &T) {
        self.deadlines.remove(timer);
        if self.queue.len() > SWEEP_LEN_MIN && self.queue.len() > 2 * self.deadlines.len() {
            self.queue =
                self.deadlines.iter().map(|(timer, deadline)| Reverse((*deadline, timer.clone()))).collect();
        }
    }

    /// When the next timer is due, if any is set.
    pub(crate) fn next_deadline(&mut self) -> Option<Instant> {
        while let Some(Reverse((queued, timer))) = self.queue.peek() {
            match self.deadlines.get(timer) {
                Some(deadline) if deadline <= queued => return Some(*queued),
                Some(deadline) => {
                    let moved = Reverse((*deadline, timer.clone()));
                    self.queue.pop();
                    self.queue.push(moved);
                }
                None => {
                    self.queue.pop();
                }
            }
        }
        None
    }

    /// Takes the timer that is due first, if one is due at `now`.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<T> {
        if self.next_deadline()? > now {
            return None;
        }
        let Reverse((_, timer)) = self.queue.pop()?;
        self.deadlines.remove(&timer);
        Some(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn timers_come_in_the_order_of_their_deadlines() {
        let mut timers = Timers::new();
        timers.set("late", at(30));
        timers.set("early", at(10));
        assert_eq!(timers.next_deadline(), Some(at(10)));
        assert_eq!(timers.take_due(at(9)), None);
        assert_eq!(timers.take_due(at(30)), Some("early"));
        assert_eq!(timers.take_due(at(30)), Some("late"));
        assert_eq!(timers.take_due(at(30)), None);
        assert_eq!(timers.next_deadline(), None);
    }

    #[test]
    fn setting_a_timer_again_moves_it_either_way() {
        let mut timers = Timers::new();
        timers.set("a", at(10));
        timers.set("a", at(50));
        assert_eq!(timers.next_deadline(), Some(at(50)));
        assert_eq!(timers.take_due(at(49)), None);
        timers.set("a", at(20));
        assert_eq!(timers.take_due(at(20)), Some("a"));
        assert_eq!(timers.take_due(at(100)), None, "a moved timer fires once");
    }

    #[test]
    fn a_cancelled_timer_never_fires_and_may_be_set_again() {
        let mut timers = Timers::new();
        timers.set("a", at(10));
        timers.cancel(&"a");
        assert_eq!(timers.take_due(at(100)), None);
        timers.set("a", at(20));
        timers.cancel(&"b");
        assert_eq!(timers.take_due(at(100)), Some("a"));
    }

    #[test]
    fn a_timer_set_again_after_cancel_fires_at_its_new_deadline_only() {
        let mut timers = Timers::new();
        timers.set("a", at(10));
        timers.cancel(&"a");
        timers.set("a", at(20));
        assert_eq!(timers.take_due(at(10)), None);
        assert_eq!(timers.take_due(at(20)), Some("a"));
        assert_eq!(timers.take_due(at(20)), None);
    }

    #[test]
    fn cancelled_timers_do_not_pile_up() {
        let mut timers = Timers::new();
        for timer in 0..100_000u64 {
            timers.set(timer, at(1_000_000 + timer));
            timers.cancel(&timer);
        }
        assert!(timers.queue.len() <= SWEEP_LEN_MIN + 1, "{}", timers.queue.len());
    }
}
