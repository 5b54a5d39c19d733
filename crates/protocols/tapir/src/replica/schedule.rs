//! When keys are to be looked at.

use std::collections::BTreeSet;

use quorate_core::hash::FixedMap;
use quorate_core::{Instant, Key};

/// When each of some keys is to be looked at, the next first.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    order: BTreeSet<(Instant, Key)>,
    times: FixedMap<Key, Instant>,
}

impl Schedule {
    /// The key is to be looked at then and at no other time, or at none.
    pub(super) fn set(&mut self, key: &Key, at: Option<Instant>) {
        let before = self.times.get(key).copied();
        if before == at {
            return;
        }
        if let Some(before) = before {
            let was_there = self.order.remove(&(before, key.clone()));
            assert!(was_there, "{key:?} was to be looked at {before:?}, and was not in order");
            self.times.remove(key);
        }
        if let Some(at) = at {
            self.order.insert((at, key.clone()));
            self.times.insert(key.clone(), at);
        }
        self.assert_ordered();
    }

    /// Each key is looked at once.
    fn assert_ordered(&self) {
        let (times, keys) = (self.order.len(), self.times.len());
        assert!(times == keys, "{keys} keys are to be looked at, at {times} times");
    }

    /// When the first is to be looked at.
    pub(super) fn first(&self) -> Option<Instant> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Takes out the first, if its time has come.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Key> {
        if self.first()? > now {
            return None;
        }
        let (_, key) = self.order.pop_first()?;
        self.times.remove(&key);
        self.assert_ordered();
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use quorate_core::Random;

    use super::*;

    #[test]
    fn it_tells_what_a_look_at_every_key_would() {
        let mut random = Random::new(1);
        let (mut schedule, mut naive) = (Schedule::default(), BTreeMap::<Key, Instant>::new());
        let mut taken = 0;
        for _ in 0..10_000 {
            let key = Key::from(format!("k{}", random.below(10)));
            if random.chance(0.7) {
                let at = random.chance(0.8).then(|| Instant::from_nanos(random.below(50)));
                schedule.set(&key, at);
                naive.remove(&key);
                naive.extend(at.map(|at| (key, at)));
            } else {
                let now = Instant::from_nanos(random.below(50));
                let due = naive.iter().map(|(key, at)| (*at, key.clone())).min().filter(|(at, _)| *at <= now);
                let due = due.map(|(_, key)| key);
                assert_eq!(schedule.pop_due(now), due);
                taken += u32::from(due.is_some());
                if let Some(key) = due {
                    naive.remove(&key);
                }
            }
            assert_eq!(schedule.first(), naive.values().min().copied());
            assert_eq!(schedule.times.len(), schedule.order.len());
        }
        assert!(taken > 1_000, "{taken}");
    }

    #[test]
    fn a_key_that_is_out_of_order_is_noticed() {
        let out_of_order = || {
            let mut schedule = Schedule::default();
            schedule.set(&Key::from("a"), Some(Instant::from_nanos(1)));
            schedule.order.insert((Instant::from_nanos(9), Key::from("b")));
            schedule
        };
        let set = || out_of_order().set(&Key::from("c"), Some(Instant::from_nanos(2)));
        let pop = || drop(out_of_order().pop_due(Instant::from_nanos(5)));
        assert!(std::panic::catch_unwind(set).is_err() && std::panic::catch_unwind(pop).is_err());
    }
}
