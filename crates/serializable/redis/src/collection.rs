//! A hash, a list, a set or a sorted set while a command works on it: the header of its key, and how many elements it has.

use std::marker::PhantomData;

use crate::database::Database;
use crate::layout::{Collection, Header, Kind};
use crate::reply::Fail;

/// A kind of collection, as a type: each has its own way to keep elements.
pub(crate) trait Keeps {
    const KIND: Kind;
}

/// A collection that is there, or a new one. [`save`](Self::save) writes its header; elements are written at once.
pub(crate) struct Opened<'k, K> {
    pub(crate) key: &'k [u8],
    pub(crate) header: Header,
    pub(crate) collection: Collection,
    kind: PhantomData<K>,
}

impl<'k, K: Keeps> Opened<'k, K> {
    fn new(key: &'k [u8], (header, collection): (Header, Collection)) -> Self {
        Opened { key, header, collection, kind: PhantomData }
    }

    /// The collection of a key, to write; a new one if the key is not there.
    pub(crate) fn open(database: &mut Database<'_>, key: &'k [u8]) -> Result<Self, Fail> {
        Ok(Self::new(key, database.collection_or_new(key, K::KIND)?))
    }

    /// The collection of a key that is there.
    pub(crate) fn find(database: &mut Database<'_>, key: &'k [u8]) -> Result<Option<Self>, Fail> {
        Ok(database.collection(key, K::KIND)?.map(|found| Self::new(key, found)))
    }

    /// The same for a command that is going to write.
    pub(crate) fn find_to_write(database: &mut Database<'_>, key: &'k [u8]) -> Result<Option<Self>, Fail> {
        Ok(database.collection_to_write(key, K::KIND)?.map(|found| Self::new(key, found)))
    }

    /// How many elements there are.
    pub(crate) fn len(&self) -> usize {
        self.collection.count as usize
    }

    /// Sets when the key expires, in milliseconds since the Unix epoch.
    pub(crate) fn expire(&mut self, expiry: Option<u64>) {
        self.header.expiry = expiry;
    }

    /// Removes the record of an element that is one record; true if it was there.
    pub(crate) fn remove_record(&mut self, database: &mut Database<'_>, record: &[u8]) -> Result<bool, Fail> {
        if database.store.get(record)?.is_none() {
            return Ok(false);
        }
        database.store.delete(record)?;
        self.note_removed();
        Ok(true)
    }

    /// There is one element less.
    pub(crate) fn note_removed(&mut self) {
        self.collection.count = self.collection.count.saturating_sub(1);
    }

    /// Writes the header, or removes the key if it has no elements any more.
    pub(crate) fn save(mut self, database: &mut Database<'_>) -> Result<(), Fail> {
        database.save_collection(self.key, &mut self.header, self.collection)
    }
}
