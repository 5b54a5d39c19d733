//! A priority queue for what comes almost in order.
//!
//! A coordinator plans to look after each of its transactions a fixed time from now, and there are few such times. So plans of one kind are made in
//! the order in which they are due: they stand in a lane of their own, where to add and to take one costs no comparison with the others. With a
//! heap alone, each plan of a second's transactions sinks through all of those, although hardly one of them is ever carried out.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// So many kinds of plans have a lane. A plan that fits into none goes to a heap.
const LANES: usize = 4;

/// Plans; the least comes first.
#[derive(Debug)]
pub(crate) struct Plans<T> {
    /// Each of them ascends.
    lanes: [VecDeque<T>; LANES],
    rest: BinaryHeap<Reverse<T>>,
}

impl<T: Ord> Default for Plans<T> {
    fn default() -> Self {
        Plans { lanes: std::array::from_fn(|_| VecDeque::new()), rest: BinaryHeap::new() }
    }
}

impl<T: Ord> Plans<T> {
    /// Adds a plan: to the first lane in which it is the last. So the kind that looks furthest ahead fills the first one, and each other the next.
    pub(crate) fn push(&mut self, plan: T) {
        match self.lanes.iter_mut().find(|lane| lane.back().is_none_or(|last| *last <= plan)) {
            Some(lane) => lane.push_back(plan),
            None => self.rest.push(Reverse(plan)),
        }
    }

    /// The least.
    pub(crate) fn peek(&self) -> Option<&T> {
        let fronts = self.lanes.iter().filter_map(VecDeque::front);
        fronts.chain(self.rest.peek().map(|Reverse(plan)| plan)).min()
    }

    /// Takes the least.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let rest = self.rest.peek().map(|Reverse(plan)| plan);
        let lanes = self.lanes.iter_mut().filter(|lane| !lane.is_empty());
        match lanes.min_by(|one, other| one.front().cmp(&other.front())) {
            Some(lane) if rest.is_none_or(|rest| lane.front() <= Some(rest)) => lane.pop_front(),
            _ => self.rest.pop().map(|Reverse(plan)| plan),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::Random;

    #[test]
    fn plans_of_few_kinds_stand_in_lanes() {
        let mut plans = Plans::default();
        for now in 0..1_000u64 {
            for ahead in [50, 500, 5_000] {
                plans.push(now + ahead);
            }
        }
        assert!(plans.rest.is_empty());
        assert_eq!((plans.peek().copied(), plans.pop(), plans.pop()), (Some(50), Some(50), Some(51)));
    }

    #[test]
    fn whatever_is_planned_comes_in_order() {
        let mut random = Random::new(7);
        let (mut plans, mut expected) = (Plans::default(), BinaryHeap::new());
        let mut beyond_lanes = 0;
        for _ in 0..10_000 {
            if random.below(3) > 0 {
                let plan = random.below(1_000);
                plans.push(plan);
                expected.push(Reverse(plan));
            } else {
                assert_eq!(plans.peek().copied(), expected.peek().map(|Reverse(plan)| *plan));
                assert_eq!(plans.pop(), expected.pop().map(|Reverse(plan)| plan));
            }
            beyond_lanes += plans.rest.len();
        }
        assert!(beyond_lanes > 0);
        let rest: Vec<u64> = std::iter::from_fn(|| plans.pop()).collect();
        assert!(rest.is_sorted() && rest.len() == expected.len());
    }
}
