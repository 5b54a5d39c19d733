//! `retwis`: a social network as a transactional workload (TAPIR paper, section 7.4).
//!
//! Retwis is a Twitter clone over Redis. The paper treats each of its functions as a transaction over keys that are drawn
//! from one popularity distribution; its later versions give the mix and the numbers of reads and writes:
//!
//! | transaction | share | operations |
//! |---|---|---|
//! | `add_user` | 5% | read the name; write the name, the profile and the list of users |
//! | `follow` | 15% | read and write whom the one follows; read and write who follows the other |
//! | `post` | 30% | read and write the user's post count, own posts and own timeline; write the post and the global timeline |
//! | `timeline` | 50% | read between one and ten posts, uniformly; write nothing |
//!
//! Blind writes of registers cannot be ordered by what was read. Where the history is to be judged, every written key is
//! therefore read first: `add_user` then has three reads instead of one, and `post` five instead of three.

use quorate_core::Random;

use crate::key::numbered;
use crate::operation::{Operation, Plan};
use crate::zipf::Distribution;

/// The fewest keys that a transaction may need to tell apart.
pub const KEYS_MIN: u64 = 10;

/// The next transaction; `judged` reads before every write.
pub fn draw(keys: &Distribution, judged: bool, random: &mut Random) -> Plan {
    let put =
        |number| if judged { Operation::Update(numbered(number)) } else { Operation::Put(numbered(number)) };
    let update = |number| Operation::Update(numbered(number));
    match random.below(100) {
        0..5 => {
            let numbers = keys.draw_distinct(random, 3);
            let operations = vec![update(numbers[0]), put(numbers[1]), put(numbers[2])];
            Plan { kind: "add_user", operations }
        }
        5..20 => {
            let numbers = keys.draw_distinct(random, 2);
            Plan { kind: "follow", operations: numbers.into_iter().map(update).collect() }
        }
        20..50 => {
            let numbers = keys.draw_distinct(random, 5);
            let (read, blind) = numbers.split_at(3);
            let operations = read.iter().copied().map(update).chain(blind.iter().copied().map(put)).collect();
            Plan { kind: "post", operations }
        }
        _ => {
            let reads = random.between(1, 10) as usize;
            let numbers = keys.draw_distinct(random, reads);
            let operations = numbers.into_iter().map(|number| Operation::Get(numbered(number))).collect();
            Plan { kind: "timeline", operations }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zipf::Popularity;
    use std::collections::BTreeMap;

    fn reads_and_writes(plan: &Plan) -> (usize, usize) {
        let reads = plan.operations.iter().filter(|op| !matches!(op, Operation::Put(_))).count();
        let writes = plan.operations.iter().filter(|op| op.key_written().is_some()).count();
        (reads, writes)
    }

    #[test]
    fn the_mix_and_the_operations_are_those_of_the_paper() {
        let keys = Distribution::new(1_000_000, Popularity::Zipf(0.6));
        let mut random = Random::new(11);
        let mut shares: BTreeMap<&str, u32> = BTreeMap::new();
        for _ in 0..10_000 {
            let plan = draw(&keys, false, &mut random);
            *shares.entry(plan.kind).or_default() += 1;
            match (plan.kind, reads_and_writes(&plan)) {
                ("add_user", counts) => assert_eq!(counts, (1, 3)),
                ("follow", counts) => assert_eq!(counts, (2, 2)),
                ("post", counts) => assert_eq!(counts, (3, 5)),
                ("timeline", (reads, writes)) => assert!((1..=10).contains(&reads) && writes == 0),
                (other, _) => panic!("{other}"),
            }
        }
        for (kind, percent) in [("add_user", 5), ("follow", 15), ("post", 30), ("timeline", 50)] {
            assert!(shares[kind].abs_diff(percent * 100) < 200, "{kind}: {}", shares[kind]);
        }
    }

    #[test]
    fn where_histories_are_judged_every_write_reads_first() {
        let keys = Distribution::new(KEYS_MIN, Popularity::Uniform);
        let mut random = Random::new(12);
        for _ in 0..1_000 {
            let plan = draw(&keys, true, &mut random);
            assert!(plan.operations.iter().all(|op| !matches!(op, Operation::Put(_))), "{plan:?}");
        }
    }
}
