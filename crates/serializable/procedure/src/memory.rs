//! A shard in memory: to run procedures in tests and tools, where nothing stands in their way.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::store::{Direction, Pair, Stop, Store};
use crate::{Answer, Procedure};

/// All keys of a shard, with their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The keys and values.
    pub pairs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The timestamp of transactions, as [`Store::timestamp`].
    pub timestamp: Option<u64>,
}

impl Memory {
    /// Calls a procedure as a shard does: one that is called to read only cannot write.
    ///
    /// # Errors
    /// The procedure was stopped. Its writes until then are kept.
    ///
    /// # Panics
    /// If it refuses although it has written.
    pub fn call(
        &mut self,
        procedure: &dyn Procedure,
        arguments: &[u8],
        is_read_only: bool,
    ) -> Result<Answer, Stop> {
        let mut watched = Watched { memory: self, is_read_only, writes: 0 };
        let answer = procedure.call(&mut watched, arguments)?;
        let has_refused = matches!(answer, Answer::Refused(_));
        assert!(!has_refused || watched.writes == 0, "a refused call has written");
        Ok(answer)
    }

    /// Makes these writes; `None` deletes.
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
        match self.pairs.get_mut(key) {
            Some(place) => value.clone_into(place),
            None => drop(self.pairs.insert(key.to_vec(), value.to_vec())),
        }
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

    fn timestamp(&self) -> Option<u64> {
        self.timestamp
    }
}

/// The keys during a call, the writes of which are counted.
struct Watched<'a> {
    memory: &'a mut Memory,
    is_read_only: bool,
    writes: usize,
}

impl Watched<'_> {
    /// The keys, to be written.
    fn written(&mut self) -> Result<&mut Memory, Stop> {
        if self.is_read_only {
            return Err(Stop::ReadOnly);
        }
        self.writes += 1;
        Ok(self.memory)
    }
}

impl Store for Watched<'_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
        self.memory.get(key)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Stop> {
        self.written()?.put(key, value)
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Stop> {
        self.written()?.delete(key)
    }

    fn scan(
        &mut self,
        from: &[u8],
        to: &[u8],
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<Pair>, Stop> {
        self.memory.scan(from, to, limit, direction)
    }

    fn timestamp(&self) -> Option<u64> {
        self.memory.timestamp
    }
}
