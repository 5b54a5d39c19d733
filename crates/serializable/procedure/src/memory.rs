//! A shard in memory: to run procedures in tests and tools, where nothing stands in their way.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::store::{Direction, Pair, Stop, Store};

/// All keys of a shard, with their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The keys and values.
    pub pairs: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Memory {
    /// Makes these writes; none deletes.
    pub fn apply(&mut self, writes: impl IntoIterator<Item = (Vec<u8>, Option<Vec<u8>>)>) {
        for (key, value) in writes {
            match value {
                Some(value) => self.pairs.insert(key, value),
                None => self.pairs.remove(&key),
            };
        }
    }
}

impl Store for Memory {
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
        Ok(self.pairs.get(key).cloned())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Stop> {
        self.pairs.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Stop> {
        self.pairs.remove(key);
        Ok(())
    }

    fn scan(
        &mut self,
        from: &[u8],
        to: &[u8],
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<Pair>, Stop> {
        if from >= to {
            return Ok(Vec::new());
        }
        let range =
            self.pairs.range(from.to_vec()..to.to_vec()).map(|(key, value)| (key.clone(), value.clone()));
        Ok(match direction {
            Direction::Ascending => range.take(limit).collect(),
            Direction::Descending => range.rev().take(limit).collect(),
        })
    }
}
