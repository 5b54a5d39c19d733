//! `hotspot`: read ten keys and update them, most of them hot (STR paper, section 8.1).
//!
//! Each shard has two ranges of keys. The *local* one is accessed by transactions that are at home at the shard, and the *remote* one by all
//! others, so that contention within a home and among homes can be chosen apart:
//!
//! ```text
//!   shard 1:  local  [ hot | cold ........ ]  ◄── transactions at home at shard 1
//!             remote [ hot | cold ........ ]  ◄── transactions at home elsewhere
//! ```
//!
//! Of a hundred accesses to a range, 90 go to its hot keys, which are its first ones; the others go to its cold keys. The fewer the hot keys, the more
//! contention. All keys of a shard share a tag in braces, chosen so that its hash lies in the shard. Clients do not think.
//!
//! The paper prints neither the sizes of its hotspots nor how many of the accesses are remote. Here they are parameters:
//!
//! | mix | hot keys of a local range | of a remote range |
//! |---|---|---|
//! | `low` | 100,000 | 100,000 |
//! | `high-local` | 1,000 | 100,000 |
//! | `high-remote` | 100,000 | 1,000 |
//! | `high` | 1,000 | 1,000 |
//!
//! `high-remote` is measured by nobody in the paper, whose caption counts four levels of contention all the same.

use std::sync::Arc;

use quorate_core::topology::shard_position;
use quorate_core::{Key, Random};

use crate::operation::{Operation, Plan};
use crate::social::Place;

/// Of a hundred accesses to a range, so many go to its hot keys.
pub const HOT_PERCENT: u64 = 90;

/// The hot keys of a range with little contention.
const MANY_HOT: u64 = 100_000;

/// The hot keys of a range with much contention.
const FEW_HOT: u64 = 1_000;

/// The levels of contention, by name: the hot keys of local ranges and of remote ones. The one that is measured first is at the beginning.
const LEVELS: [(&str, [u64; 2]); 4] = [
    ("high-local", [FEW_HOT, MANY_HOT]),
    ("low", [MANY_HOT, MANY_HOT]),
    ("high-remote", [MANY_HOT, FEW_HOT]),
    ("high", [FEW_HOT, FEW_HOT]),
];

/// The names of the levels of contention.
pub fn mixes() -> Vec<&'static str> {
    LEVELS.map(|(name, _)| name).to_vec()
}

/// The shape of the workload; how many keys a range has is among the [parameters](crate::Parameters) of all workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hotspot {
    /// How many keys a transaction reads and updates.
    pub accesses: usize,
    /// Of a hundred accesses, so many go to remote ranges of other shards, if there are others.
    pub remote_percent: u64,
    /// How many hot keys a local range has; none takes those of the mix.
    pub local_hot: Option<u64>,
    /// How many hot keys a remote range has; none takes those of the mix.
    pub remote_hot: Option<u64>,
}

impl Default for Hotspot {
    fn default() -> Self {
        Hotspot { accesses: 10, remote_percent: 10, local_hot: None, remote_hot: None }
    }
}

impl Hotspot {
    /// The hot keys of a local and of a remote range under this mix; none if there is no such mix.
    pub fn hot_keys(&self, mix: &str) -> Option<[u64; 2]> {
        let [local, remote] = LEVELS.into_iter().find(|(name, _)| *name == mix)?.1;
        Some([self.local_hot.unwrap_or(local), self.remote_hot.unwrap_or(remote)])
    }
}

/// One of the two ranges of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Range {
    Local,
    Remote,
}

impl Range {
    const ALL: [Range; 2] = [Range::Local, Range::Remote];

    /// Its letter in the names of keys.
    const fn letter(self) -> char {
        match self {
            Range::Local => 'l',
            Range::Remote => 'r',
        }
    }
}

/// The keys of all shards, and how they are drawn.
#[derive(Clone, Debug)]
pub(crate) struct Spots {
    shape: Hotspot,
    /// For each shard a tag whose hash lies there.
    tags: Arc<[String]>,
    /// How many keys a range has.
    keys: u64,
    /// How many of them are hot, in local ranges and in remote ones.
    hot: [u64; 2],
}

impl Spots {
    /// Ranges of so many keys, in so many shards. Ranges that are too small are raised to what a transaction needs.
    ///
    /// # Panics
    /// If there is no such mix.
    pub(crate) fn new(shape: Hotspot, shards: usize, keys: u64, mix: &str) -> Self {
        let keys = keys.max(shape.accesses as u64).max(1);
        let hot = shape.hot_keys(mix).expect("a workload is asked for one of its mixes");
        Spots { shape, tags: tags(shards.max(1)), keys, hot: hot.map(|hot| hot.clamp(1, keys)) }
    }

    /// The next transaction of a client that stands here.
    pub(crate) fn draw(&self, place: &Place, random: &mut Random) -> Plan {
        let shards = self.tags.len();
        let home = place.draw_shard(shards, random);
        let mut drawn: Vec<(usize, Range, u64)> = Vec::with_capacity(self.shape.accesses);
        while drawn.len() < self.shape.accesses {
            let is_remote = shards > 1 && random.below(100) < self.shape.remote_percent;
            let (shard, range) = match is_remote {
                true => ((home + 1 + random.index(shards - 1)) % shards, Range::Remote),
                false => (home, Range::Local),
            };
            let mut number = self.number(range, random);
            // A hot key that was drawn before gives way to the next, and the last to the first, so that few keys cannot keep this loop going.
            while drawn.contains(&(shard, range, number)) {
                number = (number + 1) % self.keys;
            }
            drawn.push((shard, range, number));
        }
        let keys = drawn.into_iter().map(|(shard, range, number)| self.key(shard, range, number));
        Plan { kind: "hotspot", operations: keys.map(Operation::Update).collect() }
    }

    /// Every key, ascending.
    pub(crate) fn universe(&self) -> Vec<Key> {
        let of_range = |shard, range| (0..self.keys).map(move |number| self.key(shard, range, number));
        let of_shard = |shard| Range::ALL.into_iter().flat_map(move |range| of_range(shard, range));
        let mut keys: Vec<Key> = (0..self.tags.len()).flat_map(of_shard).collect();
        keys.sort_unstable();
        keys
    }

    /// The number of a key of a range: hot ones come first.
    fn number(&self, range: Range, random: &mut Random) -> u64 {
        let [local, remote] = self.hot;
        let hot = if range == Range::Local { local } else { remote };
        if hot == self.keys || random.below(100) < HOT_PERCENT {
            random.below(hot)
        } else {
            hot + random.below(self.keys - hot)
        }
    }

    fn key(&self, shard: usize, range: Range, number: u64) -> Key {
        Key::from(format!("{{{}}}{}{number:010}", self.tags[shard], range.letter()))
    }
}

/// For each of so many shards the first tag whose hash lies there.
fn tags(shards: usize) -> Arc<[String]> {
    let mut tags = vec![String::new(); shards];
    let mut missing = shards;
    for number in 0u64.. {
        if missing == 0 {
            break;
        }
        let tag = format!("h{number}");
        let found = &mut tags[shard_position(tag.as_bytes(), shards)];
        if found.is_empty() {
            *found = tag;
            missing -= 1;
        }
    }
    tags.into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::social::Homes;

    const SHARDS: usize = 6;

    /// The shard, the range and the number of each key of a transaction.
    fn accesses(plan: &Plan) -> Vec<(usize, char, u64)> {
        let access = |operation: &Operation| {
            let key = operation.key_written().unwrap();
            let text = std::str::from_utf8(key).unwrap();
            let (_, name) = text.split_once('}').unwrap();
            (shard_position(key, SHARDS), name.chars().next().unwrap(), name[1..].parse().unwrap())
        };
        plan.operations.iter().map(access).collect()
    }

    fn at(shard: usize) -> Place {
        Place { homes: Homes::Hashed(SHARDS), here: vec![shard], away: 0.0 }
    }

    #[test]
    fn accesses_are_as_local_and_as_hot_as_the_parameters_say() {
        let shape = Hotspot { remote_percent: 25, ..Hotspot::default() };
        let spots = Spots::new(shape, SHARDS, 1_000_000, "high-local");
        let (mut random, home) = (Random::new(3), 2);
        let mut remote_shards = BTreeSet::new();
        let [mut all, mut remote, mut hot] = [0usize; 3];
        for _ in 0..5_000 {
            let drawn = accesses(&spots.draw(&at(home), &mut random));
            assert_eq!(drawn.len(), 10);
            assert_eq!(drawn.iter().collect::<BTreeSet<_>>().len(), 10, "each key is another one");
            for (shard, letter, number) in drawn {
                let is_remote = shard != home;
                assert_eq!(letter, if is_remote { 'r' } else { 'l' });
                assert!(number < 1_000_000);
                all += 1;
                remote += usize::from(is_remote);
                hot += usize::from(number < if is_remote { MANY_HOT } else { FEW_HOT });
                remote_shards.extend(is_remote.then_some(shard));
            }
        }
        let percent = |count: usize| 100.0 * count as f64 / all as f64;
        assert!((24.0..26.0).contains(&percent(remote)), "{}", percent(remote));
        assert!((89.0..91.0).contains(&percent(hot)), "{}", percent(hot));
        assert_eq!(remote_shards.len(), SHARDS - 1, "all others are accessed");
    }

    #[test]
    fn transactions_of_two_homes_never_meet_in_a_local_range() {
        let spots = Spots::new(Hotspot { remote_percent: 60, ..Hotspot::default() }, SHARDS, 50, "high");
        let mut random = Random::new(9);
        let mut drawn_at = |shard| {
            (0..200)
                .flat_map(|_| accesses(&spots.draw(&at(shard), &mut random)))
                .filter(|(_, letter, _)| *letter == 'l')
                .map(|(shard, ..)| shard)
                .collect::<BTreeSet<_>>()
        };
        assert_eq!((drawn_at(0), drawn_at(5)), (BTreeSet::from([0]), BTreeSet::from([5])));
    }

    #[test]
    fn one_shard_has_no_remote_accesses_and_few_keys_are_enough() {
        let shape = Hotspot { accesses: 30, remote_percent: 100, local_hot: Some(2), ..Hotspot::default() };
        let spots = Spots::new(shape, 1, 0, "low");
        let mut random = Random::new(1);
        let plan = spots.draw(&Place::default(), &mut random);
        let keys: BTreeSet<&Key> = plan.operations.iter().filter_map(Operation::key_written).collect();
        assert_eq!(keys.len(), 30);
        let universe = spots.universe();
        assert_eq!(universe.len(), 60);
        assert!(universe.is_sorted() && keys.into_iter().all(|key| universe.contains(key)));
    }

    #[test]
    fn every_shard_has_a_tag_that_lies_there() {
        for shards in [1, 2, 27, 100] {
            let spots = Spots::new(Hotspot::default(), shards, 10, "low");
            for shard in 0..shards {
                assert_eq!(shard_position(&spots.key(shard, Range::Local, 3), shards), shard);
            }
        }
    }

    #[test]
    fn levels_of_contention_can_be_overridden() {
        let shape = Hotspot { remote_hot: Some(7), ..Hotspot::default() };
        assert_eq!(shape.hot_keys("high"), Some([FEW_HOT, 7]));
        assert_eq!(Hotspot::default().hot_keys("low"), Some([MANY_HOT, MANY_HOT]));
        assert_eq!(shape.hot_keys("mix1"), None);
        assert_eq!(mixes()[0], "high-local");
    }
}
