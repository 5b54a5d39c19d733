//! Streams: `XADD`, `XREAD` and their kin.
//!
//! Behind the generation of a stream, its records begin with a letter:
//!
//! ```text
//!   e id                     → an entry: fields and values
//!   g name                   → a consumer group: how far it has read, how much is pending
//!   c group consumer         → a consumer of a group: when it was seen, how much is pending
//!   p group id               → a pending entry: whose it is, since when, how often delivered
//!   q group consumer id      → the same by consumer
//! ```
//!
//! Groups and consumers have numbers there, consumers in `c` their names. So entries, and what is pending of a group or of one of its consumers, are scanned in the order of ids, and
//! a command that touches one entry reads and writes O(1) records.
//!
//! | file | role |
//! |---|---|
//! | `ids` | ids and intervals of them |
//! | `entries` | `XADD`, `XRANGE`, `XDEL` and what else knows no groups |
//! | `trimming` | what `XADD` and `XTRIM` take away |
//! | `groups` | groups, consumers, what is pending |
//! | `reading` | `XREAD`, `XREADGROUP` |
//! | `administration` | `XGROUP`, `XACK`, `XPENDING` |
//! | `claims` | `XCLAIM`, `XAUTOCLAIM` |
//! | `info` | `XINFO` |
//! | `dumping` | a stream in a dump |

pub(crate) mod administration;
pub(crate) mod claims;
pub(crate) mod dumping;
pub(crate) mod entries;
mod groups;
mod ids;
pub(crate) mod info;
pub(crate) mod reading;
mod trimming;

#[cfg(test)]
mod tests;

use quorate_procedure::Direction;

use crate::bytes::{Reader, put_bytes};
use crate::database::Database;
use crate::layout::{Body, ELEMENT_BYTES_MAX, Header, Stream, behind, elements_prefix};
use crate::reply::{Fail, Reply, fail, text};
pub(crate) use groups::{Consumer, Group, Pending, Work};
pub(crate) use ids::Id;

/// So many entries are read at once: each may be long.
const READ_AT_ONCE: usize = 64;

/// The kinds of records.
mod kind {
    pub(super) const ENTRY: u8 = b'e';
    pub(super) const GROUP: u8 = b'g';
    pub(super) const CONSUMER: u8 = b'c';
    pub(super) const PENDING: u8 = b'p';
    pub(super) const PENDING_OF: u8 = b'q';
}

/// An entry: its id, and its fields and values as bytes.
pub(crate) type Entry = (Id, Vec<u8>);

/// A stream that is there, or a new one. [`save`](Self::save) writes its header; entries are written at once.
pub(crate) struct Opened<'k> {
    pub(crate) key: &'k [u8],
    header: Header,
    pub(crate) facts: Stream,
}

impl<'k> Opened<'k> {
    fn of(key: &'k [u8], found: Option<Header>) -> Result<Option<Self>, Fail> {
        match found {
            None => Ok(None),
            Some(Header { body: Body::Stream(facts), stamp, expiry, encoding }) => {
                let header = Header { body: Body::Stream(facts), stamp, expiry, encoding };
                Ok(Some(Opened { key, header, facts }))
            }
            Some(_) => fail(text::WRONG_TYPE),
        }
    }

    /// The stream of a key that is there.
    pub(crate) fn find(database: &mut Database<'_>, key: &'k [u8]) -> Result<Option<Self>, Fail> {
        let found = database.find(key)?;
        Opened::of(key, found)
    }

    /// The same for a command that is going to write.
    pub(crate) fn find_to_write(database: &mut Database<'_>, key: &'k [u8]) -> Result<Option<Self>, Fail> {
        let found = database.find_to_write(key)?;
        Opened::of(key, found)
    }

    /// A new stream of a key that is not there.
    pub(crate) fn create(database: &mut Database<'_>, key: &'k [u8]) -> Result<Self, Fail> {
        let generation = database.next_generation(key)?;
        let facts = Stream {
            generation,
            length: 0,
            last: Id::LEAST,
            deleted: Id::LEAST,
            added: 0,
            groups: 0,
            last_group: 0,
        };
        Ok(Opened { key, header: Header::new(Body::Stream(facts)), facts })
    }

    /// Sets when the key expires, in milliseconds since the Unix epoch.
    pub(crate) fn expire(&mut self, expiry: Option<u64>) {
        self.header.expiry = expiry;
    }

    /// Writes the header: any change of the stream, of a group or of what is pending can be told from before.
    pub(crate) fn save(mut self, database: &mut Database<'_>) -> Result<(), Fail> {
        self.header.body = Body::Stream(self.facts);
        database.save(self.key, &mut self.header)
    }

    /// The beginning of the records of a kind.
    fn prefix(&self, kind: u8) -> Vec<u8> {
        let mut prefix = elements_prefix(self.key, self.facts.generation);
        prefix.push(kind);
        prefix
    }

    fn entry_record(&self, id: Id) -> Vec<u8> {
        [self.prefix(kind::ENTRY).as_slice(), &id.to_bytes()].concat()
    }

    /// An entry that is there.
    pub(crate) fn entry(&self, database: &mut Database<'_>, id: Id) -> Result<Option<Entry>, Fail> {
        Ok(database.store.get(&self.entry_record(id))?.map(|fields| (id, fields)))
    }

    /// The entries from one id up to, and with, another: at most so many, from one end.
    pub(crate) fn entries(
        &self,
        database: &mut Database<'_>,
        (from, to): (Id, Id),
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<Entry>, Fail> {
        let prefix = self.prefix(kind::ENTRY);
        scan(database, &prefix, (from, to), limit, direction)
    }

    /// The id of the first entry.
    pub(crate) fn first(&self, database: &mut Database<'_>) -> Result<Option<Id>, Fail> {
        let all = (Id::LEAST, Id::GREATEST);
        Ok(self.entries(database, all, 1, Direction::Ascending)?.first().map(|(id, _)| *id))
    }

    /// Writes an entry behind all others.
    pub(crate) fn append(&mut self, database: &mut Database<'_>, id: Id, fields: &[u8]) -> Result<(), Fail> {
        database.store.put(&self.entry_record(id), fields)?;
        self.facts.length += 1;
        self.facts.added += 1;
        self.facts.last = id;
        Ok(())
    }

    /// Deletes an entry; false if it is not there.
    fn delete(&mut self, database: &mut Database<'_>, id: Id) -> Result<bool, Fail> {
        let record = self.entry_record(id);
        if database.store.get(&record)?.is_none() {
            return Ok(false);
        }
        database.store.delete(&record)?;
        self.facts.length = self.facts.length.saturating_sub(1);
        Ok(true)
    }
}

/// The records of ids from one up to, and with, another, behind a prefix: at most so many, from one end.
fn scan(
    database: &mut Database<'_>,
    prefix: &[u8],
    (from, to): (Id, Id),
    limit: usize,
    direction: Direction,
) -> Result<Vec<Entry>, Fail> {
    let mut found = Vec::new();
    if from > to {
        return Ok(found);
    }
    let mut first = [prefix, &from.to_bytes()].concat();
    let mut end = behind(&[prefix, &to.to_bytes()].concat());
    while found.len() < limit {
        let wanted = READ_AT_ONCE.min(limit - found.len());
        let records = database.store.scan(&first, &end, wanted, direction)?;
        let count = records.len();
        for (record, value) in records {
            let id = Id::of_bytes(record.get(prefix.len()..).ok_or(crate::Malformed)?)?;
            match direction {
                Direction::Ascending => first = [record.as_slice(), b"\0"].concat(),
                Direction::Descending => end = record,
            }
            found.push((id, value));
        }
        if count < wanted {
            break;
        }
    }
    Ok(found)
}

/// Fields and values as the bytes of an entry.
fn encode_fields(fields: &[&[u8]]) -> Result<Vec<u8>, Fail> {
    let mut bytes = Vec::new();
    fields.iter().for_each(|word| put_bytes(&mut bytes, word));
    check_entry(&bytes)?;
    Ok(bytes)
}

/// Refuses what is no entry, or is longer than a record.
pub(crate) fn check_entry(bytes: &[u8]) -> Result<(), Fail> {
    if bytes.len() > ELEMENT_BYTES_MAX {
        return fail("ERR Elements are too large to be stored");
    }
    let count = decode_fields(bytes)?.len();
    if count == 0 || !count.is_multiple_of(2) { Err(crate::Malformed.into()) } else { Ok(()) }
}

fn decode_fields(bytes: &[u8]) -> Result<Vec<&[u8]>, Fail> {
    let (mut reader, mut words) = (Reader::new(bytes), Vec::new());
    while !reader.is_empty() {
        words.push(reader.bytes()?);
    }
    Ok(words)
}

/// An entry as it is told: its id, and its fields and values in turn.
fn show((id, fields): &Entry) -> Result<Reply, Fail> {
    let words = decode_fields(fields)?.into_iter().map(Reply::bulk);
    Ok(Reply::Array(vec![id.reply(), Reply::Array(words.collect())]))
}

fn show_all(entries: &[Entry]) -> Result<Reply, Fail> {
    Ok(Reply::Array(entries.iter().map(show).collect::<Result<_, Fail>>()?))
}

/// A word as Redis puts it into an error.
fn named(word: &[u8]) -> String {
    String::from_utf8_lossy(crate::c_string(word)).into_owned()
}

/// A number of entries: a negative one stands for zero.
fn count_argument(word: &[u8]) -> Result<usize, Fail> {
    Ok(usize::try_from(crate::parse::integer_argument(word)?).unwrap_or(0))
}
