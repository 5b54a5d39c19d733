//! An ordered map whose copies share what has not changed since.
//!
//! Keys lie in chunks, in order. A copy takes one pointer for each chunk; a write copies the one chunk that it writes to, if
//! another map holds it too. So a state can be frozen at once, however large it is.

use std::ops::Bound;
use std::sync::Arc;

/// A chunk is split when it grows beyond this.
const CHUNK_MAX: usize = 64;

/// An ordered map.
#[derive(Clone, Debug)]
pub(crate) struct SharedMap<K, V> {
    /// None of them is empty.
    chunks: Vec<Arc<Vec<(K, V)>>>,
    len: usize,
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        SharedMap { chunks: Vec::new(), len: 0 }
    }
}

impl<K: Clone + Ord, V: Clone> SharedMap<K, V> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The chunk where a key is, or would be put.
    fn chunk_of(&self, key: &K) -> usize {
        let after = self.chunks.partition_point(|chunk| chunk[0].0 <= *key);
        after.saturating_sub(1)
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let chunk = self.chunks.get(self.chunk_of(key))?;
        let at = chunk.binary_search_by(|(other, _)| other.cmp(key)).ok()?;
        Some(&chunk[at].1)
    }

    /// Puts a value; gives the one that was there.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let at = self.chunk_of(&key);
        let Some(chunk) = self.chunks.get_mut(at) else {
            self.chunks.push(Arc::new(vec![(key, value)]));
            self.len += 1;
            return None;
        };
        let chunk = Arc::make_mut(chunk);
        match chunk.binary_search_by(|(other, _)| other.cmp(&key)) {
            Ok(place) => return Some(std::mem::replace(&mut chunk[place].1, value)),
            Err(place) => chunk.insert(place, (key, value)),
        }
        self.len += 1;
        if chunk.len() > CHUNK_MAX {
            let upper = chunk.split_off(chunk.len() / 2);
            assert!(
                chunk.last().map(|(key, _)| key) < upper.first().map(|(key, _)| key),
                "a chunk of {} keys goes on with one that is not above it",
                chunk.len()
            );
            self.chunks.insert(at + 1, Arc::new(upper));
        }
        assert!(self.len >= self.chunks.len(), "{} keys lie in {} chunks", self.len, self.chunks.len());
        None
    }

    /// Takes a key away; gives what it held.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.chunk_of(key);
        let chunk = self.chunks.get_mut(at)?;
        let place = chunk.binary_search_by(|(other, _)| other.cmp(key)).ok()?;
        let chunk = Arc::make_mut(chunk);
        let (_, value) = chunk.remove(place);
        self.len -= 1;
        if chunk.is_empty() {
            self.chunks.remove(at);
        }
        assert!(self.len >= self.chunks.len(), "{} keys lie in {} chunks", self.len, self.chunks.len());
        Some(value)
    }

    /// All keys, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.range(Bound::Unbounded)
    }

    /// The keys from this one on, ascending.
    pub(crate) fn all_from(&self, from: &K) -> impl Iterator<Item = (&K, &V)> + use<'_, K, V> {
        let first = self.chunk_of(from);
        let skip = self.chunks.get(first).map_or(0, |chunk| chunk.partition_point(|(key, _)| key < from));
        let rest = self.chunks.get(first..).unwrap_or_default();
        rest.iter().flat_map(|chunk| chunk.iter()).skip(skip).map(|(key, value)| (key, value))
    }

    /// The keys from a bound on, ascending.
    pub(crate) fn range(&self, from: Bound<&K>) -> impl Iterator<Item = (&K, &V)> {
        let first = match from {
            Bound::Included(key) | Bound::Excluded(key) => self.chunk_of(key),
            Bound::Unbounded => 0,
        };
        let is_before = move |key: &K| match from {
            Bound::Included(from) => key < from,
            Bound::Excluded(from) => key <= from,
            Bound::Unbounded => false,
        };
        let skip = self.chunks.get(first).map_or(0, |chunk| chunk.partition_point(|(key, _)| is_before(key)));
        let rest = self.chunks.get(first..).unwrap_or_default();
        rest.iter().flat_map(|chunk| chunk.iter()).skip(skip).map(|(key, value)| (key, value))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_map_is_one_and_its_copies_do_not_change(
            acts in prop::collection::vec((0..400_u32, any::<Option<u8>>()), 0..1_500),
            copy_at in 0..1_500_usize,
            from in 0..400_u32,
        ) {
            let (mut map, mut model) = (SharedMap::default(), BTreeMap::new());
            let mut copied = (map.clone(), model.clone());
            for (at, (key, value)) in acts.into_iter().enumerate() {
                if at == copy_at {
                    copied = (map.clone(), model.clone());
                }
                match value {
                    Some(value) => prop_assert_eq!(map.insert(key, value), model.insert(key, value)),
                    None => prop_assert_eq!(map.remove(&key), model.remove(&key)),
                }
                prop_assert_eq!(map.get(&from), model.get(&from));
            }
            for (map, model) in [(&map, &model), (&copied.0, &copied.1)] {
                prop_assert_eq!(map.len(), model.len());
                prop_assert!(map.iter().eq(model.iter()));
                prop_assert!(map.range(Bound::Included(&from)).eq(model.range(from..)));
                let after = (Bound::Excluded(&from), Bound::Unbounded);
                prop_assert!(map.range(Bound::Excluded(&from)).eq(model.range(after)));
                prop_assert!(map.chunks.iter().all(|chunk| (1..=CHUNK_MAX).contains(&chunk.len())));
            }
        }
    }

    #[test]
    fn a_chunk_is_halved_when_it_is_more_than_full() {
        let mut map = SharedMap::default();
        let lens =
            |map: &SharedMap<usize, ()>| map.chunks.iter().map(|chunk| chunk.len()).collect::<Vec<_>>();
        for key in 0..CHUNK_MAX {
            map.insert(key, ());
        }
        assert_eq!(lens(&map), [CHUNK_MAX]);
        map.insert(CHUNK_MAX, ());
        assert_eq!(lens(&map), [CHUNK_MAX / 2, CHUNK_MAX / 2 + 1]);
    }

    #[test]
    fn a_copy_shares_what_is_not_written_afterwards() {
        let mut map = SharedMap::default();
        for key in 0..1_000 {
            map.insert(key, ());
        }
        let copy = map.clone();
        map.remove(&500);
        let shared =
            map.chunks.iter().filter(|chunk| copy.chunks.iter().any(|other| Arc::ptr_eq(chunk, other)));
        assert_eq!(shared.count(), map.chunks.len() - 1);
    }
}
