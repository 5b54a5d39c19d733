//! The keys of a database, as a command sees them: what is expired is not there.

use quorate_procedure::{Direction, Pair, Stop, Store};

use crate::layout::{
    Body, CHUNK_BYTES, Collection, Header, INLINE_BYTES_MAX, KEY_BYTES_MAX, Kind, STRING_BYTES_MAX, behind,
    elements_prefix, hash_of, header_record, kind, slot_of, slot_prefix,
};
use crate::reply::{Fail, fail, text};
use crate::request::Mark;

/// A dropped collection with more elements is left to the sweeper: a command deletes so many at most.
const DROP_ELEMENTS_MAX: u64 = 256;

/// The keys during one transaction.
pub(crate) struct Database<'a> {
    pub(crate) store: &'a mut dyn Store,
    /// The timestamp of the transaction, in microseconds since the Unix epoch.
    now: u64,
    /// The clock of the door, in microseconds, where the timestamp is that of a snapshot; else zero.
    clock: u64,
    /// Something has expired between the two.
    pub(crate) is_in_doubt: bool,
    /// The state that the next draw comes from.
    random: u64,
}

impl<'a> Database<'a> {
    pub(crate) fn new(store: &'a mut dyn Store, now: u64, (clock, seed): (u64, u64)) -> Self {
        Database { store, now, clock, is_in_doubt: false, random: seed }
    }

    /// The time to reckon with in replies, in microseconds since the Unix epoch: nothing that is kept depends on it.
    pub(crate) fn told_micros(&self) -> u64 {
        self.now.max(self.clock)
    }

    /// The time, in milliseconds since the Unix epoch: what expiries are compared with.
    pub(crate) fn now(&self) -> u64 {
        self.now / 1_000
    }

    /// A number that follows from the request and from what was drawn before.
    pub(crate) fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn is_expired(&mut self, header: &Header) -> bool {
        let Some(expiry) = header.expiry else { return false };
        let is_expired = self.now() > expiry;
        self.is_in_doubt |= !is_expired && self.clock / 1_000 > expiry;
        is_expired
    }

    fn stored(&mut self, key: &[u8]) -> Result<Option<Header>, Fail> {
        if key.len() > KEY_BYTES_MAX {
            return fail(format!("ERR key is longer than {KEY_BYTES_MAX} bytes"));
        }
        let record = self.store.get(&header_record(key))?;
        Ok(record.map(|record| Header::decode(&record)).transpose()?)
    }

    /// The header of a key that is there.
    pub(crate) fn find(&mut self, key: &[u8]) -> Result<Option<Header>, Fail> {
        match self.stored(key)? {
            Some(header) if self.is_expired(&header) => Ok(None),
            found => Ok(found),
        }
    }

    /// The same for a command that is going to write: what is left of a key that is expired goes now.
    pub(crate) fn find_to_write(&mut self, key: &[u8]) -> Result<Option<Header>, Fail> {
        match self.stored(key)? {
            Some(expired) if self.is_expired(&expired) => {
                self.remove(key, &expired)?;
                Ok(None)
            }
            found => Ok(found),
        }
    }

    /// Tells what a key holds from what it has held at other times; zero if it is not there.
    pub(crate) fn mark(&mut self, key: &[u8]) -> Result<Mark, Fail> {
        let found = self.find(key)?;
        Ok(found.map_or(0, |header| hash_of(&header.encode()).max(1)))
    }

    /// Writes the header of a key. That this is a change can be told from any state that the key had before.
    pub(crate) fn save(&mut self, key: &[u8], header: &mut Header) -> Result<(), Fail> {
        header.stamp = self.now.max(header.stamp + 1);
        Ok(self.store.put(&header_record(key), &header.encode())?)
    }

    /// Removes a key that has this header.
    pub(crate) fn remove(&mut self, key: &[u8], header: &Header) -> Result<(), Fail> {
        self.store.delete(&header_record(key))?;
        self.drop_elements(key, header)
    }

    /// Lets go of the elements that belong to a header, which is replaced or gone.
    pub(crate) fn drop_elements(&mut self, key: &[u8], header: &Header) -> Result<(), Fail> {
        let (count, records) = match &header.body {
            Body::Inline(_) => return Ok(()),
            Body::Chunked { length, .. } => (length.div_ceil(CHUNK_BYTES as u64), 1),
            Body::Collection(of) => (of.count, if of.kind == Kind::SortedSet { 2 } else { 1 }),
            // How many records groups have is not counted.
            Body::Stream(of) => (if of.groups > 0 { u64::MAX } else { of.length }, 1),
        };
        let Some(generation) = header.generation() else { return Ok(()) };
        if count > DROP_ELEMENTS_MAX {
            let mut dropped = slot_prefix(kind::DROPPED, slot_of(key)).to_vec();
            dropped.extend_from_slice(&generation.to_be_bytes());
            return Ok(self.store.put(&dropped, b"")?);
        }
        if let Body::Chunked { .. } = header.body {
            // The bytes in them need not be read.
            for chunk in 0..count {
                self.store.delete(&chunk_record(key, generation, chunk))?;
            }
            return Ok(());
        }
        let prefix = elements_prefix(key, generation);
        let elements =
            self.store.scan(&prefix, &behind(&prefix), (count * records) as usize, Direction::Ascending)?;
        for (element, _) in elements {
            self.store.delete(&element)?;
        }
        Ok(())
    }

    /// A generation that the slot of this key has never had.
    pub(crate) fn next_generation(&mut self, key: &[u8]) -> Result<u64, Fail> {
        let record = slot_prefix(kind::GENERATION, slot_of(key));
        let last = match self.store.get(&record)? {
            Some(last) => u64::from_be_bytes(last.try_into().map_err(|_| Stop::Failed)?),
            None => 0,
        };
        let next = last + 1;
        self.store.put(&record, &next.to_be_bytes())?;
        Ok(next)
    }

    /// A new collection, which is written once it has elements.
    pub(crate) fn new_collection(&mut self, key: &[u8], of: Kind) -> Result<(Header, Collection), Fail> {
        let generation = self.next_generation(key)?;
        let collection = Collection { kind: of, generation, count: 0, first: 0 };
        Ok((Header::new(Body::Collection(collection)), collection))
    }

    /// Writes a collection with its header, or removes the key if nothing is left.
    pub(crate) fn save_collection(
        &mut self,
        key: &[u8],
        header: &mut Header,
        collection: Collection,
    ) -> Result<(), Fail> {
        header.body = Body::Collection(collection);
        if collection.count == 0 {
            return Ok(self.store.delete(&header_record(key))?);
        }
        self.save(key, header)
    }

    /// The collection of a key that is there.
    pub(crate) fn collection(&mut self, key: &[u8], of: Kind) -> Result<Option<(Header, Collection)>, Fail> {
        let found = self.find(key)?;
        as_collection(found, of)
    }

    /// The same for a command that is going to write.
    pub(crate) fn collection_to_write(
        &mut self,
        key: &[u8],
        of: Kind,
    ) -> Result<Option<(Header, Collection)>, Fail> {
        let found = self.find_to_write(key)?;
        as_collection(found, of)
    }

    /// The same, and a new one if there is none.
    pub(crate) fn collection_or_new(&mut self, key: &[u8], of: Kind) -> Result<(Header, Collection), Fail> {
        match self.collection_to_write(key, of)? {
            Some(found) => Ok(found),
            None => self.new_collection(key, of),
        }
    }

    /// The string of a key that is there.
    pub(crate) fn string(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Fail> {
        match self.find(key)? {
            Some(header) => self.string_of(key, &header).map(Some),
            None => Ok(None),
        }
    }

    /// The string that a header stands for.
    pub(crate) fn string_of(&mut self, key: &[u8], header: &Header) -> Result<Vec<u8>, Fail> {
        self.substring(key, header, 0, usize::MAX)
    }

    /// A part of the string that a header stands for: from a byte up to, and without, another.
    pub(crate) fn substring(
        &mut self,
        key: &[u8],
        header: &Header,
        from: usize,
        to: usize,
    ) -> Result<Vec<u8>, Fail> {
        match &header.body {
            Body::Inline(string) => {
                let to = to.min(string.len());
                Ok(string[from.min(to)..to].to_vec())
            }
            Body::Chunked { generation, length } => {
                let to = to.min(usize::try_from(*length).map_err(|_| Stop::Failed)?);
                let mut part = Vec::with_capacity(to.saturating_sub(from).min(STRING_BYTES_MAX));
                let mut at = from;
                while at < to {
                    let (chunk, offset) = (at / CHUNK_BYTES, at % CHUNK_BYTES);
                    let end = (to - at + offset).min(CHUNK_BYTES);
                    let mut bytes =
                        self.store.get(&chunk_record(key, *generation, chunk as u64))?.unwrap_or_default();
                    bytes.resize(CHUNK_BYTES, 0);
                    part.extend_from_slice(&bytes[offset..end]);
                    at += end - offset;
                }
                Ok(part)
            }
            Body::Collection(_) | Body::Stream(_) => fail(text::WRONG_TYPE),
        }
    }

    /// Replaces whatever a key holds by a string.
    pub(crate) fn set_string(
        &mut self,
        key: &[u8],
        before: Option<&Header>,
        string: &[u8],
        expiry: Option<u64>,
    ) -> Result<(), Fail> {
        self.set_encoded(key, before, string, (expiry, 0))
    }

    /// The same, with what `OBJECT ENCODING` is to remember.
    pub(crate) fn set_encoded(
        &mut self,
        key: &[u8],
        before: Option<&Header>,
        string: &[u8],
        (expiry, encoding): (Option<u64>, u8),
    ) -> Result<(), Fail> {
        check_length(string.len())?;
        if let Some(before) = before {
            self.drop_elements(key, before)?;
        }
        let body = if string.len() <= INLINE_BYTES_MAX {
            Body::Inline(string.to_vec())
        } else {
            let generation = self.next_generation(key)?;
            for (number, chunk) in string.chunks(CHUNK_BYTES).enumerate() {
                self.store.put(&chunk_record(key, generation, number as u64), chunk)?;
            }
            Body::Chunked { generation, length: string.len() as u64 }
        };
        let stamp = before.map_or(0, |before| before.stamp);
        self.save(key, &mut Header { stamp, expiry, encoding, body })
    }

    /// Writes a part of a string, which becomes longer where that reaches beyond its end. The bytes between are zeros.
    pub(crate) fn patch_string(
        &mut self,
        key: &[u8],
        header: &mut Header,
        offset: usize,
        bytes: &[u8],
    ) -> Result<usize, Fail> {
        check_length(offset + bytes.len())?;
        if let Body::Inline(string) = &mut header.body {
            let length = string.len().max(offset + bytes.len());
            if length <= INLINE_BYTES_MAX {
                string.resize(length, 0);
                string[offset..offset + bytes.len()].copy_from_slice(bytes);
                self.save(key, header)?;
                return Ok(length);
            }
            let (generation, first) = (self.next_generation(key)?, std::mem::take(string));
            self.store.put(&chunk_record(key, generation, 0), &first)?;
            header.body = Body::Chunked { generation, length: first.len() as u64 };
        }
        let Body::Chunked { generation, length } = &mut header.body else { return fail(text::WRONG_TYPE) };
        let (generation, mut at) = (*generation, offset);
        *length = (*length).max((offset + bytes.len()) as u64);
        let length = *length as usize;
        while at < offset + bytes.len() {
            let (number, from) = (at / CHUNK_BYTES, at % CHUNK_BYTES);
            let to = (offset + bytes.len() - at + from).min(CHUNK_BYTES);
            let record = chunk_record(key, generation, number as u64);
            let mut chunk = self.store.get(&record)?.unwrap_or_default();
            chunk.resize(chunk.len().max(to), 0);
            chunk[from..to].copy_from_slice(&bytes[at - offset..at - offset + to - from]);
            self.store.put(&record, &chunk)?;
            at += to - from;
        }
        self.save(key, header)?;
        Ok(length)
    }

    /// Records from one key up to, and without, another, as many as fit into a transaction beside others.
    pub(crate) fn records(&mut self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>, Fail> {
        Ok(self.store.scan(from, to, limit, Direction::Ascending)?)
    }
}

fn as_collection(found: Option<Header>, of: Kind) -> Result<Option<(Header, Collection)>, Fail> {
    match found {
        None => Ok(None),
        Some(header) => match header.body {
            Body::Collection(collection) if collection.kind == of => Ok(Some((header, collection))),
            _ => fail(text::WRONG_TYPE),
        },
    }
}

/// Refuses what is longer than a string may be.
pub(crate) fn check_length(length: usize) -> Result<(), Fail> {
    if length > STRING_BYTES_MAX { fail(text::TOO_LONG) } else { Ok(()) }
}

fn chunk_record(key: &[u8], generation: u64, number: u64) -> Vec<u8> {
    let mut record = elements_prefix(key, generation);
    record.extend_from_slice(&(number as u32).to_be_bytes());
    record
}
