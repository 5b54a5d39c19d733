//! A call over what was fetched comes to the same as a call over everything.

use alloc::vec;

use super::*;
use crate::Memory;

/// Numbers from a seed: SplitMix64.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn key(&mut self) -> Vec<u8> {
        vec![self.below(24) as u8]
    }
}

/// Does the steps that its arguments name, four bytes each, and answers with everything that it has read. It also writes all that it reads, so that
/// its effect depends on that.
struct Script;

impl Procedure for Script {
    fn call(&self, store: &mut dyn Store, arguments: &[u8]) -> Result<Answer, Stop> {
        let mut seen = Vec::new();
        for step in arguments.chunks_exact(4) {
            let (key, to, limit) = ([step[1]], [step[2]], usize::from(step[3]));
            match step[0] % 5 {
                0 => seen.extend(store.get(&key)?.unwrap_or(vec![255])),
                1 => store.put(&key, &[step[2], seen.len() as u8])?,
                2 => store.delete(&key)?,
                scan => {
                    let direction = if scan == 3 { Direction::Ascending } else { Direction::Descending };
                    for (key, value) in store.scan(&key, &to, limit, direction)? {
                        seen.extend(key);
                        seen.extend(value);
                    }
                }
            }
            if seen.len() > 40 {
                return Ok(Answer::Refused(seen));
            }
        }
        Ok(Answer::Done(seen))
    }

    /// Some keys, to be fetched beforehand: of every second argument.
    fn named(&self, arguments: &[u8]) -> Needs {
        let mut needs = Needs::default();
        for step in arguments.chunks_exact(8) {
            needs.key(&[step[1]]);
        }
        needs
    }
}

/// Fetches what is missed, until nothing is. Gives how often that was.
fn run(world: &Memory, arguments: &[u8], random: &mut Seeded) -> (Called, usize) {
    let mut attempt = Attempt::default();
    for rounds in 0.. {
        let needs = match attempt.next(&Script, arguments) {
            Called::Misses(needs) => needs,
            ended => return (ended, rounds),
        };
        assert!(rounds < 10_000, "what was fetched is missed again: {needs:?}");
        for key in needs.keys {
            let value = world.pairs.get(&key).cloned();
            attempt.found(key, value);
        }
        for NeededRange { from, to, limit, direction } in needs.ranges {
            let pairs = || world.pairs.range(from.clone()..to.clone());
            // A page may hold less than was asked for, and says how far it goes.
            let page = limit.min(1 + random.below(4) as usize);
            let found: Vec<Pair> = match direction {
                Direction::Ascending => pairs().take(page).map(|(k, v)| (k.clone(), v.clone())).collect(),
                Direction::Descending => pairs().map(|(k, v)| (k.clone(), v.clone())).collect(),
            };
            let is_cut = direction == Direction::Ascending && pairs().count() > page;
            let end = match found.last().filter(|_| is_cut) {
                Some((last, _)) => [last.as_slice(), &[0]].concat(),
                None => to.clone(),
            };
            attempt.found_range(from.clone(), end, found);
        }
    }
    unreachable!("rounds are counted without end")
}

#[test]
fn a_call_over_what_was_fetched_comes_to_the_same_as_over_everything() {
    let mut random = Seeded(1);
    let [mut misses, mut refusals, mut writes] = [0usize; 3];
    for _ in 0..4_000 {
        let mut world = Memory::default();
        for _ in 0..random.below(30) {
            world.pairs.insert(random.key(), random.key());
        }
        let arguments: Vec<u8> = (0..4 * random.below(12)).map(|_| random.below(25) as u8).collect();
        let mut after = world.clone();
        let (called, _) = over(&mut world, &Script, &arguments).unwrap();
        let expected = Script.call(&mut after, &arguments).unwrap();
        let (paged, rounds) = run(&world, &arguments, &mut random);
        assert_eq!(called, paged, "{arguments:?}: pages change nothing");
        misses += rounds;
        match (called, expected) {
            (Called::Done { answer, writes: written }, Answer::Done(expected)) => {
                assert_eq!(answer, expected, "{arguments:?}");
                writes += written.len();
                world.apply(written);
                assert_eq!(world, after, "{arguments:?}");
            }
            (Called::Refused(reason), Answer::Refused(expected)) => {
                assert_eq!(reason, expected, "{arguments:?}");
                refusals += 1;
            }
            (called, expected) => panic!("{arguments:?}: {called:?}, not {expected:?}"),
        }
    }
    assert!(misses > 4_000 && refusals > 20 && writes > 4_000, "{misses} {refusals} {writes}");
}

#[test]
fn ranges_that_touch_become_one_and_gaps_stay() {
    let mut fetched = Fetched::default();
    let bytes = |byte: u8| vec![byte];
    fetched.found_range(bytes(10), bytes(20), [(bytes(12), bytes(1))]);
    fetched.found_range(bytes(30), bytes(40), []);
    assert_eq!(fetched.ranges.len(), 2);
    assert_eq!(fetched.known(&[12]), Some(Some(&bytes(1))));
    assert_eq!((fetched.known(&[11]), fetched.known(&[20]), fetched.known(&[25])), (Some(None), None, None));
    fetched.found_range(bytes(20), bytes(30), []);
    assert_eq!(fetched.ranges, BTreeMap::from([(bytes(10), bytes(40))]));
    fetched.found_range(bytes(5), bytes(50), []);
    fetched.found_range(bytes(7), bytes(8), []);
    fetched.found_range(bytes(60), bytes(60), []);
    assert_eq!(fetched.ranges, BTreeMap::from([(bytes(5), bytes(50))]));
    assert_eq!(fetched.known(&[12]), Some(Some(&bytes(1))));
}

#[test]
fn what_was_found_first_stays() {
    let mut fetched = Fetched::default();
    fetched.found(vec![1], None);
    fetched.found(vec![1], Some(vec![9]));
    fetched.found_range(vec![0], vec![5], [(vec![1], vec![8]), (vec![2], vec![7])]);
    fetched.found(vec![3], Some(vec![6]));
    assert_eq!(fetched.known(&[1]), Some(None));
    assert_eq!(fetched.known(&[2]), Some(Some(&vec![7])));
    assert_eq!(fetched.known(&[3]), Some(None), "the range had been read without it");
}

#[test]
fn keys_that_are_asked_for_before_the_first_is_looked_at_are_missed_together() {
    struct Both;
    impl Procedure for Both {
        fn call(&self, store: &mut dyn Store, _: &[u8]) -> Result<Answer, Stop> {
            let (one, other) = (store.get(b"one"), store.get(b"other"));
            Ok(Answer::Done([one?.unwrap_or_default(), other?.unwrap_or_default()].concat()))
        }
    }
    let mut fetched = Fetched::default();
    let Called::Misses(needs) = call(&Both, b"", &fetched) else { panic!("nothing was fetched") };
    assert_eq!(needs.keys, [b"one".to_vec(), b"other".to_vec()]);
    fetched.found(b"one".to_vec(), Some(vec![1]));
    fetched.found(b"other".to_vec(), None);
    assert_eq!(call(&Both, b"", &fetched), Called::Done { answer: vec![1], writes: Vec::new() });
}
