//! The timers of one machine: one table, and the next deadline is a minimum.
//!
//! Each setting of a timer has a number. An entry of the queue is stale unless the table has the number of its setting.
//! A coordinator sets and cancels several timers for every transaction, and hardly one of them ever fires, so cancelling
//! and setting again only change the table; a stale entry is skipped when its turn comes, or swept out when such entries
//! have become the majority. Timers that are due at one instant fire in the order in which they were set, as they do in the
//! simulator, whose queue of events takes the place of this one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use quorate_core::Instant;

/// The queue is swept once it is longer than this and mostly stale.
const SWEEP_LEN_MIN: usize = 64;

/// Names one setting of a timer, among all settings of one machine's timers. Numbers ascend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Setting(u64);

/// The timers that are set, and when each is due.
#[derive(Debug)]
pub struct Timers<T> {
    /// The number of the latest setting.
    latest: Setting,
    /// The truth: the timers that are set.
    set: BTreeMap<T, Setting>,
    /// When settings are due. Some of them are stale.
    queue: BinaryHeap<Reverse<(Instant, Setting, T)>>,
}

impl<T: Clone + Ord> Timers<T> {
    /// No timer is set.
    pub fn new() -> Self {
        Timers { latest: Setting(0), set: BTreeMap::new(), queue: BinaryHeap::new() }
    }

    /// A number for a setting that comes next.
    pub fn next_setting(&mut self) -> Setting {
        self.latest.0 += 1;
        self.latest
    }

    /// Sets a timer, or moves it.
    pub fn set(&mut self, timer: T, setting: Setting, deadline: Instant) {
        self.queue.push(Reverse((deadline, setting, timer.clone())));
        self.set_elsewhere(timer, setting);
        self.sweep();
    }

    /// Sets a timer, or moves it, that another queue knows the deadline of.
    pub fn set_elsewhere(&mut self, timer: T, setting: Setting) {
        let earlier = self.set.insert(timer, setting);
        assert!(earlier.is_none_or(|earlier| earlier < setting), "settings ascend");
    }

    /// Forgets a timer.
    pub fn cancel(&mut self, timer: &T) {
        self.set.remove(timer);
        self.sweep();
    }

    /// True unless the timer was set again since this setting, or cancelled, or taken.
    pub fn is_set(&self, timer: &T, setting: Setting) -> bool {
        self.set.get(timer) == Some(&setting)
    }

    /// When the next timer is due, if any is set.
    pub fn next_deadline(&mut self) -> Option<Instant> {
        while let Some(Reverse((deadline, setting, timer))) = self.queue.peek() {
            if self.is_set(timer, *setting) {
                return Some(*deadline);
            }
            self.queue.pop();
        }
        None
    }

    /// Takes the timer that is due first, if one is due at `now`.
    pub fn take_due(&mut self, now: Instant) -> Option<T> {
        if self.next_deadline()? > now {
            return None;
        }
        let Reverse((_, _, timer)) = self.queue.pop()?;
        self.set.remove(&timer);
        Some(timer)
    }

    fn sweep(&mut self) {
        if self.queue.len() > SWEEP_LEN_MIN && self.queue.len() > 2 * self.set.len() {
            let set = &self.set;
            self.queue.retain(|Reverse((_, setting, timer))| set.get(timer) == Some(setting));
        }
    }
}

impl<T: Clone + Ord> Default for Timers<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn set<T: Clone + Ord>(timers: &mut Timers<T>, timer: T, deadline: u64) -> Setting {
        let setting = timers.next_setting();
        timers.set(timer, setting, at(deadline));
        setting
    }

    #[test]
    fn timers_come_in_the_order_of_their_deadlines() {
        let mut timers = Timers::new();
        set(&mut timers, "late", 30);
        set(&mut timers, "early", 10);
        assert_eq!(timers.next_deadline(), Some(at(10)));
        assert_eq!(timers.take_due(at(9)), None);
        assert_eq!(timers.take_due(at(30)), Some("early"));
        assert_eq!(timers.take_due(at(30)), Some("late"));
        assert_eq!(timers.take_due(at(30)), None);
        assert_eq!(timers.next_deadline(), None);
    }

    #[test]
    fn timers_of_one_instant_come_in_the_order_of_their_settings() {
        let mut timers = Timers::new();
        for timer in ["b", "c", "a", "b"] {
            set(&mut timers, timer, 10);
        }
        let due: Vec<_> = std::iter::from_fn(|| timers.take_due(at(10))).collect();
        assert_eq!(due, ["c", "a", "b"]);
    }

    #[test]
    fn setting_a_timer_again_moves_it_either_way() {
        let mut timers = Timers::new();
        set(&mut timers, "a", 10);
        set(&mut timers, "a", 50);
        assert_eq!(timers.next_deadline(), Some(at(50)));
        assert_eq!(timers.take_due(at(49)), None);
        set(&mut timers, "a", 20);
        assert_eq!(timers.take_due(at(20)), Some("a"));
        assert_eq!(timers.take_due(at(100)), None, "a moved timer fires once");
    }

    #[test]
    fn a_cancelled_timer_never_fires_and_may_be_set_again() {
        let mut timers = Timers::new();
        set(&mut timers, "a", 10);
        timers.cancel(&"a");
        assert_eq!(timers.take_due(at(100)), None);
        set(&mut timers, "a", 20);
        timers.cancel(&"b");
        assert_eq!(timers.take_due(at(100)), Some("a"));
    }

    #[test]
    fn a_timer_set_again_after_cancel_fires_at_its_new_deadline_only() {
        let mut timers = Timers::new();
        set(&mut timers, "a", 10);
        timers.cancel(&"a");
        set(&mut timers, "a", 20);
        assert_eq!(timers.take_due(at(10)), None);
        assert_eq!(timers.take_due(at(20)), Some("a"));
        assert_eq!(timers.take_due(at(20)), None);
    }

    #[test]
    fn a_setting_is_stale_once_its_timer_is_set_again_cancelled_or_taken() {
        let mut timers = Timers::new();
        let first = set(&mut timers, "a", 10);
        assert!(timers.is_set(&"a", first) && !timers.is_set(&"b", first));
        let second = set(&mut timers, "a", 10);
        assert!(!timers.is_set(&"a", first) && timers.is_set(&"a", second));
        timers.cancel(&"a");
        assert!(!timers.is_set(&"a", second));
        let third = set(&mut timers, "a", 10);
        assert_eq!(timers.take_due(at(10)), Some("a"));
        assert!(!timers.is_set(&"a", third));
    }

    #[test]
    fn stale_settings_do_not_pile_up() {
        let (mut cancelled, mut moved) = (Timers::new(), Timers::new());
        for timer in 0..100_000u64 {
            set(&mut cancelled, timer, 1_000_000 + timer);
            cancelled.cancel(&timer);
            set(&mut moved, 1, 1_000_000 + timer);
        }
        assert!(cancelled.queue.len() <= SWEEP_LEN_MIN + 1, "{}", cancelled.queue.len());
        assert!(moved.queue.len() <= SWEEP_LEN_MIN + 1, "{}", moved.queue.len());
        assert_eq!(moved.take_due(at(u64::MAX)), Some(1));
    }
}
