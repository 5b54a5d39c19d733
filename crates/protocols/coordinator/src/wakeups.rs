//! When transactions want attention: one timer for all of them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use quorate_core::{Instant, TransactionId};

/// When transactions want attention, the next first.
///
/// Each transaction notes when it is to be looked after; an entry that is not what its transaction has noted counts for
/// nothing. So a plan is replaced by an earlier one without a search.
#[derive(Debug, Default)]
pub struct Wakeups {
    plans: BinaryHeap<Reverse<(Instant, TransactionId)>>,
    /// When the timer fires that was set last.
    timer: Option<Instant>,
}

impl Wakeups {
    /// Makes sure that a transaction gets attention at `at`, or earlier. `noted` is its own note of when it does.
    pub fn plan(&mut self, noted: &mut Option<Instant>, transaction: TransactionId, at: Instant) {
        if noted.is_none_or(|planned| at < planned) {
            *noted = Some(at);
            self.plans.push(Reverse((at, transaction)));
        }
    }

    /// The timer has fired.
    pub fn on_timer(&mut self) {
        self.timer = None;
    }

    /// Takes a transaction that may want attention now, and what it must have noted if it does.
    pub fn pop_due(&mut self, now: Instant) -> Option<(Instant, TransactionId)> {
        let Reverse((at, _)) = *self.plans.peek()?;
        if at > now {
            return None;
        }
        self.plans.pop().map(|Reverse(plan)| plan)
    }

    /// After how long the timer is to fire, if it has to be set anew. `other` is when something else wants attention.
    pub fn set_timer(&mut self, other: Option<Instant>, now: Instant) -> Option<Duration> {
        let planned = self.plans.peek().map(|Reverse((next, _))| *next);
        let next = planned.into_iter().chain(other).min()?;
        if self.timer.is_some_and(|timer| timer <= next) {
            return None;
        }
        self.timer = Some(next);
        Some(next - now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::ClientId;

    fn id(sequence: u64) -> TransactionId {
        TransactionId { client: ClientId(1), sequence, attempt: 0 }
    }

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    #[test]
    fn the_timer_is_set_only_for_what_comes_earlier() {
        let (mut wakeups, mut first, mut second) = (Wakeups::default(), None, None);
        assert_eq!(wakeups.set_timer(None, at(0)), None);
        wakeups.plan(&mut first, id(1), at(20));
        assert_eq!(wakeups.set_timer(None, at(5)), Some(Duration::from_millis(15)));
        assert_eq!(wakeups.set_timer(None, at(6)), None);
        wakeups.plan(&mut second, id(2), at(30));
        assert_eq!(wakeups.set_timer(None, at(6)), None);
        assert_eq!(wakeups.set_timer(Some(at(10)), at(6)), Some(Duration::from_millis(4)));
        wakeups.on_timer();
        assert_eq!(wakeups.set_timer(None, at(6)), Some(Duration::from_millis(14)));
    }

    #[test]
    fn an_earlier_plan_replaces_a_later_one() {
        let (mut wakeups, mut noted) = (Wakeups::default(), None);
        wakeups.plan(&mut noted, id(1), at(20));
        wakeups.plan(&mut noted, id(1), at(30));
        wakeups.plan(&mut noted, id(1), at(10));
        assert_eq!(noted, Some(at(10)));
        assert_eq!(wakeups.pop_due(at(9)), None);
        assert_eq!(wakeups.pop_due(at(25)), Some((at(10), id(1))));
        // Not what the transaction has noted: whoever takes it lets it go.
        assert_eq!(wakeups.pop_due(at(25)), Some((at(20), id(1))));
        assert_eq!(wakeups.pop_due(at(25)), None);
    }
}
