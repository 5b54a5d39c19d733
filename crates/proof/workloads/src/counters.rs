//! `counters`: increments, each transaction one batch that is known beforehand (Granola paper, section 6).
//!
//! | transaction | share | operations |
//! |---|---|---|
//! | `one` | the rest | increment a counter |
//! | `two` | as asked for | increment two counters, which lie on different shards as often as chance has it |
//!
//! Numbers that are incremented by one say nothing of the order in which that happened. Where the history is to be judged, each
//! counter is a list instead, and each increment appends a fresh element to it and says what was there before.

use quorate_core::Random;

use crate::key::numbered;
use crate::operation::{Operation, Plan};
use crate::zipf::Distribution;

/// The fewest keys that a transaction may need to tell apart.
pub const KEYS_MIN: u64 = 2;

/// The next transaction: in so many of a hundred cases two counters. `judged` keeps lists.
pub fn draw(keys: &Distribution, two_percent: u64, judged: bool, random: &mut Random) -> Plan {
    let count = |number| {
        if judged { Operation::Append(numbered(number)) } else { Operation::Increment(numbered(number)) }
    };
    if random.below(100) < two_percent {
        let numbers = keys.draw_distinct(random, 2);
        return Plan { kind: "two", operations: numbers.into_iter().map(count).collect() };
    }
    Plan { kind: "one", operations: vec![count(keys.draw(random))] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zipf::Popularity;

    #[test]
    fn as_many_are_about_two_counters_as_is_asked_for() {
        let keys = Distribution::new(KEYS_MIN, Popularity::Uniform);
        let mut random = Random::new(3);
        for percent in [0, 25, 100] {
            let plans: Vec<Plan> = (0..10_000).map(|_| draw(&keys, percent, false, &mut random)).collect();
            let two = plans.iter().filter(|plan| plan.kind == "two").count() as u64;
            assert!(two.abs_diff(100 * percent) < 200, "{two} of {percent} %");
            let is_right = |plan: &Plan| match plan.operations.as_slice() {
                [_] => plan.kind == "one",
                [one, other] => plan.kind == "two" && one.key_written() != other.key_written(),
                _ => false,
            };
            assert!(plans.iter().all(is_right));
        }
    }
}
