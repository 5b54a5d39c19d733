//! Rows that are there before anybody has touched them, and the shards that they stand at.
//!
//! A population is not written when a run begins: a row that nobody has written yet is read as what it is at first. Places (warehouses) are numbered from
//! one by what is run there. In keys they go by other numbers, whose hashes lie in the shards where the places are to be.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use quorate_core::topology::shard_position;
use quorate_procedure::Pair;

/// Where the number of a place stands in keys: between braces, at the beginning.
const NUMBER: std::ops::Range<usize> = 1..5;

/// The rows of all places at first, and the shards of these.
#[derive(Clone, Debug)]
pub struct Population {
    /// Those of the first place. All places have the same.
    rows: Arc<BTreeMap<Vec<u8>, Vec<u8>>>,
    /// The numbers of places in keys: at the first shard the first, at the second the second, and so on, over and over.
    tags: Arc<[u32]>,
    places: Arc<BTreeMap<u32, u32>>,
}

/// The first place.
pub(super) const FIRST: u32 = 1;

impl Population {
    /// So many places at each of so many shards, all of which have these rows at first, with keys of the first place.
    pub fn new(shards: usize, places_per_shard: usize, rows: impl IntoIterator<Item = Pair>) -> Self {
        let mut of_shards = vec![Vec::new(); shards];
        let mut missing = shards * places_per_shard;
        for tag in 1u32.. {
            if missing == 0 {
                break;
            }
            let [a, b, c, d] = tag.to_be_bytes();
            let of_shard = &mut of_shards[shard_position(&[b'{', a, b, c, d, b'}'], shards)];
            if of_shard.len() < places_per_shard {
                of_shard.push(tag);
                missing -= 1;
            }
        }
        let tags: Vec<u32> =
            (0..shards * places_per_shard).map(|place| of_shards[place % shards][place / shards]).collect();
        let places = tags.iter().zip(FIRST..).map(|(tag, place)| (*tag, place)).collect();
        Population { rows: Arc::new(rows.into_iter().collect()), tags: tags.into(), places: Arc::new(places) }
    }

    /// The number of the place at this shard that is the given one there, both from zero.
    pub fn place(&self, shard: usize, place: usize, shards: usize) -> u32 {
        FIRST + (place * shards + shard) as u32
    }

    /// A key as it is stored.
    pub fn stored(&self, key: &[u8]) -> Vec<u8> {
        numbered(key, |place| self.tags[(place - FIRST) as usize])
    }

    /// A stored key as it is known where it is used.
    pub fn known(&self, key: &[u8]) -> Vec<u8> {
        numbered(key, |tag| self.places[&tag])
    }

    /// The value of a key at first.
    pub fn value(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.rows.get(&numbered(key, |_| FIRST)).cloned()
    }

    /// The rows of a range at first. It lies in one place.
    pub fn range(&self, from: &[u8], to: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let place = number(from);
        let bounds = [from, to].map(|bound| numbered(bound, |_| FIRST));
        let [from, to] = &bounds;
        if from >= to {
            return BTreeMap::new();
        }
        let rows = self.rows.range::<Vec<u8>, _>((Bound::Included(from), Bound::Excluded(to)));
        rows.map(|(key, value)| (numbered(key, |_| place), value.clone())).collect()
    }
}

fn number(key: &[u8]) -> u32 {
    let [_, a, b, c, d, ..] = *key else {
        panic!("keys begin with the number of a place, in braces: {key:?}")
    };
    u32::from_be_bytes([a, b, c, d])
}

/// The same key of another place.
fn numbered(key: &[u8], other: impl FnOnce(u32) -> u32) -> Vec<u8> {
    let mut changed = key.to_vec();
    changed[NUMBER].copy_from_slice(&other(number(key)).to_be_bytes());
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_stand_at_their_shards_and_rows_are_those_of_each() {
        let rows = (0..10u8).map(|row| (vec![b'{', 0, 0, 0, 1, b'}', row], vec![row]));
        let population = Population::new(9, 3, rows);
        for shard in 0..9 {
            for place in 0..3 {
                let number = population.place(shard, place, 9);
                let [a, b, c, d] = number.to_be_bytes();
                let key = |row| vec![b'{', a, b, c, d, b'}', row];
                let stored = population.stored(&key(7));
                assert_eq!(shard_position(&stored, 9), shard);
                assert_eq!(population.known(&stored), key(7));
                assert_eq!((population.value(&key(7)), population.value(&key(10))), (Some(vec![7]), None));
                let range = population.range(&key(3), &key(5));
                assert_eq!(range, BTreeMap::from([(key(3), vec![3]), (key(4), vec![4])]));
            }
        }
    }
}
