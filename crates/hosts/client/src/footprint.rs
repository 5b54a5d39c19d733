//! The footprint of a transaction so far, so that limits are raised at the call that would exceed them.

use quorate_core::hash::FixedMap;
use quorate_core::transaction::{
    LimitExceeded, TRANSACTION_BYTES_MAX, TRANSACTION_ENTRIES_MAX, readable, validate_key, validate_write,
};
use quorate_core::{Key, KeyRange, ShardId};

/// The keys and ranges of one transaction, and the shards that they lie in.
#[derive(Debug, Default)]
pub(crate) struct Footprint {
    keys: FixedMap<Key, Access>,
    bytes: usize,
    entries: usize,
    participants: Vec<ShardId>,
    writes: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Access {
    read: bool,
    written: Option<usize>,
}

impl Footprint {
    /// A key is about to be read.
    pub(crate) fn read(&mut self, key: &Key, shard: ShardId) -> Result<(), LimitExceeded> {
        validate_key(key)?;
        if self.keys.get(key).is_some_and(|access| access.read) {
            return Ok(());
        }
        self.grow(key, key.len(), 1)?;
        self.keys.entry(key.clone()).or_default().read = true;
        self.participate(shard);
        Ok(())
    }

    /// True if something may be written: a key is, or the count of an element was asked for or is changed.
    pub(crate) fn writes(&self) -> bool {
        self.writes
    }

    /// True if the transaction has written this key.
    pub(crate) fn has_written(&self, key: &Key) -> bool {
        self.keys.get(key).is_some_and(|access| access.written.is_some())
    }

    /// A key is about to be written, or deleted with an empty value. The last write of a key is the one that counts.
    pub(crate) fn write(&mut self, key: &Key, value: &[u8], shard: ShardId) -> Result<(), LimitExceeded> {
        validate_write(key, value)?;
        let before = self.keys.get(key).and_then(|access| access.written);
        match before {
            Some(bytes) => {
                self.grow(key, value.len().saturating_sub(bytes), 0)?;
                self.bytes -= bytes.saturating_sub(value.len());
            }
            None => self.grow(key, key.len() + value.len(), 1)?,
        }
        self.keys.entry(key.clone()).or_default().written = Some(value.len());
        self.writes = true;
        self.participate(shard);
        Ok(())
    }

    /// The count of an element of a set is about to be read or changed.
    pub(crate) fn count(&mut self, set: &Key, element: &Key, shard: ShardId) -> Result<(), LimitExceeded> {
        validate_key(set)?;
        validate_key(element)?;
        self.grow(set, set.len() + element.len(), 1)?;
        self.writes = true;
        self.participate(shard);
        Ok(())
    }

    /// A range of all `shards` is about to be read.
    pub(crate) fn scan(
        &mut self,
        range: &KeyRange,
        shards: impl Iterator<Item = ShardId>,
    ) -> Result<(), LimitExceeded> {
        let bounds = [Some(&range.from), range.to.as_ref()];
        for bound in bounds.into_iter().flatten().filter(|bound| !bound.is_empty()) {
            validate_key(bound)?;
        }
        self.grow(&range.from, range.from.len() + range.to.as_ref().map_or(0, |to| to.len()), 1)?;
        shards.for_each(|shard| self.participate(shard));
        Ok(())
    }

    /// Every shard that was touched, sorted.
    pub(crate) fn participants(&self) -> &[ShardId] {
        &self.participants
    }

    fn grow(&mut self, key: &Key, bytes: usize, entries: usize) -> Result<(), LimitExceeded> {
        let (bytes, entries) = (self.bytes + bytes, self.entries + entries);
        if bytes > TRANSACTION_BYTES_MAX {
            return Err(LimitExceeded::Transaction { key: readable(key), bytes });
        }
        if entries > TRANSACTION_ENTRIES_MAX {
            return Err(LimitExceeded::Entries { key: readable(key), entries });
        }
        (self.bytes, self.entries) = (bytes, entries);
        Ok(())
    }

    fn participate(&mut self, shard: ShardId) {
        if let Err(position) = self.participants.binary_search(&shard) {
            self.participants.insert(position, shard);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::transaction::VALUE_BYTES_MAX;

    const SHARD: ShardId = ShardId(1);

    fn key(number: usize) -> Key {
        Key::from(format!("key{number:04}"))
    }

    #[test]
    fn the_write_that_exceeds_the_limit_is_refused_and_named() {
        let mut footprint = Footprint::default();
        let value = vec![0; VALUE_BYTES_MAX];
        for number in 0..9 {
            footprint.write(&key(number), &value, SHARD).unwrap();
        }
        let error = footprint.write(&key(9), &value, SHARD).unwrap_err();
        assert!(matches!(&error, LimitExceeded::Transaction { key, .. } if key == "\"key0009\""), "{error}");
        footprint.write(&key(9), &value[..1_000], SHARD).unwrap();
    }

    #[test]
    fn writing_a_key_again_counts_once() {
        let mut footprint = Footprint::default();
        let value = vec![0; VALUE_BYTES_MAX];
        for _ in 0..100 {
            footprint.write(&key(1), &value, SHARD).unwrap();
            footprint.write(&key(1), b"", SHARD).unwrap();
        }
        assert_eq!((footprint.bytes, footprint.entries), (7, 1));
        footprint.read(&key(1), SHARD).unwrap();
        footprint.read(&key(1), SHARD).unwrap();
        assert_eq!((footprint.bytes, footprint.entries), (14, 2));
    }

    #[test]
    fn entries_are_bounded() {
        let mut footprint = Footprint { entries: TRANSACTION_ENTRIES_MAX - 1, ..Footprint::default() };
        footprint.read(&key(1), SHARD).unwrap();
        assert!(matches!(footprint.read(&key(2), SHARD), Err(LimitExceeded::Entries { .. })));
        let range = KeyRange { from: key(1), to: None };
        assert!(footprint.scan(&range, [SHARD].into_iter()).is_err());
    }

    #[test]
    fn participants_are_sorted_and_named_once() {
        let mut footprint = Footprint::default();
        footprint.read(&key(1), ShardId(7)).unwrap();
        footprint.write(&key(2), b"x", ShardId(3)).unwrap();
        footprint.write(&key(3), b"x", ShardId(7)).unwrap();
        assert_eq!(footprint.participants(), [ShardId(3), ShardId(7)]);
        let range = KeyRange { from: Key::default(), to: None };
        footprint.scan(&range, (3..6).map(ShardId)).unwrap();
        assert_eq!(footprint.participants(), [ShardId(3), ShardId(4), ShardId(5), ShardId(7)]);
    }

    #[test]
    fn bounds_of_a_range_may_be_empty_but_not_too_long() {
        let mut footprint = Footprint::default();
        let range = KeyRange { from: Key::default(), to: Some(Key::from(vec![b'k'; 5_000])) };
        assert!(matches!(footprint.scan(&range, [SHARD].into_iter()), Err(LimitExceeded::Key { .. })));
    }
}
