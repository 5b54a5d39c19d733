//! Where the keys of Redis lie among the keys of a shard, and what their records hold.
//!
//! ```text
//!   k{slot} hash key                → header: type, last change, expiry, and a short string or where the elements are
//!   e{slot} generation element      → an element of a collection, or a chunk of a long string
//!   g{slot}                         → the generation that was given last
//!   d{slot} generation              → elements that nobody refers to any more, to be swept
//! ```
//!
//! The slot is that of Redis Cluster: CRC-16 of the hash tag, or of the whole key, of 16,384. It stands in braces, so that all records of a key share
//! a shard, and keys with one hash tag do. Headers lie in the order of slots, then of a hash of the key; so a cursor is a number, and a client that
//! follows one sees each key that is there all the time.
//!
//! A generation belongs to one life of a key. So a large collection is dropped by dropping its header: what comes after it has
//! another generation, and never sees its elements.

use crate::Malformed;
use crate::bytes::Reader;
use crate::streams::Id;

/// How many slots there are.
pub const SLOTS: u16 = 16_384;

/// The longest key, and the longest field or member, in bytes: what else stands in the key of a record has room beside it.
pub const KEY_BYTES_MAX: usize = 4_064;

/// The longest string, in bytes. One that is read and replaced fits twice into a transaction.
pub const STRING_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The longest field, member or element, in bytes: it is one record.
pub const ELEMENT_BYTES_MAX: usize = 1024 * 1024 - 64;

/// Strings up to here stand in the header, in bytes.
pub(crate) const INLINE_BYTES_MAX: usize = 1_024;

/// Longer ones are divided into chunks of so many bytes.
pub(crate) const CHUNK_BYTES: usize = 64 * 1024;

/// The part of a key that decides its slot: what stands between the first `{` and the next `}` if that is not empty, else all of it.
fn hash_tag(key: &[u8]) -> &[u8] {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        rest.iter().position(|byte| *byte == b'}').map(|close| &rest[..close])
    });
    tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// The slot of a key, as Redis Cluster has it.
pub fn slot_of(key: &[u8]) -> u16 {
    let mut crc: u16 = 0;
    for byte in hash_tag(key) {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
        }
    }
    crc % SLOTS
}

/// A hash of bytes, the same at every replica and for ever: records lie in its order.
pub(crate) fn hash_of(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^ hash >> 32
}

/// So many bits of its hash order the keys of a slot.
pub(crate) const HASH_BITS: u32 = 37;

/// The beginning of a record of a kind in a slot: `k{0a1}`.
pub(crate) fn slot_prefix(kind: u8, slot: u16) -> [u8; 6] {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
    let digit = |shift: u16| DIGITS[usize::from(slot >> shift & 31)];
    [kind, b'{', digit(10), digit(5), digit(0), b'}']
}

/// The slot that the key of a record names.
pub(crate) fn slot_in(record: &[u8]) -> Result<u16, Malformed> {
    let digits = record.get(2..5).ok_or(Malformed)?;
    digits.iter().try_fold(0, |slot: u16, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'v' => digit - b'a' + 10,
            _ => return Err(Malformed),
        };
        Ok(slot << 5 | u16::from(value))
    })
}

/// The kinds of records.
pub(crate) mod kind {
    pub(crate) const HEADER: u8 = b'k';
    pub(crate) const ELEMENT: u8 = b'e';
    pub(crate) const GENERATION: u8 = b'g';
    pub(crate) const DROPPED: u8 = b'd';
}

/// Where a key lies among the headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) slot: u16,
    /// [`HASH_BITS`] bits.
    pub(crate) hash: u64,
}

impl Position {
    pub(crate) fn of(key: &[u8]) -> Self {
        Position { slot: slot_of(key), hash: hash_of(key) >> (64 - HASH_BITS) }
    }

    /// The key of the first record at this position.
    pub(crate) fn record(self) -> Vec<u8> {
        let mut record = slot_prefix(kind::HEADER, self.slot).to_vec();
        record.extend_from_slice(&self.hash.to_be_bytes()[3..]);
        record
    }
}

/// The key of the header of a key.
pub(crate) fn header_record(key: &[u8]) -> Vec<u8> {
    let mut record = Position::of(key).record();
    record.extend_from_slice(key);
    record
}

/// How many bytes of the key of a header stand before the key.
const HEADER_PREFIX: usize = 11;

/// The key, and where it lies, that the key of a header stands for.
pub(crate) fn key_of_header(record: &[u8]) -> Result<(Position, &[u8]), Malformed> {
    let (prefix, key) = record.split_at_checked(HEADER_PREFIX).ok_or(Malformed)?;
    let mut hash = [0; 8];
    hash[3..].copy_from_slice(&prefix[6..]);
    Ok((Position { slot: slot_in(prefix)?, hash: u64::from_be_bytes(hash) }, key))
}

/// The first key behind all that begin like this.
pub(crate) fn behind(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    end
}

/// The value of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Bytes.
    String,
    /// Elements by position.
    List,
    /// Members.
    Set,
    /// Members by score.
    SortedSet,
    /// Fields with values.
    Hash,
    /// Entries by id.
    Stream,
}

impl Kind {
    const ALL: [Kind; 6] = [Kind::String, Kind::List, Kind::Set, Kind::SortedSet, Kind::Hash, Kind::Stream];

    /// As `TYPE` names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::SortedSet => "zset",
            Kind::Hash => "hash",
            Kind::Stream => "stream",
        }
    }

    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        Kind::ALL.into_iter().find(|kind| name.eq_ignore_ascii_case(kind.name().as_bytes()))
    }
}

/// The part of a header beside type, last change and expiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// A short string.
    Inline(Vec<u8>),
    /// Where the chunks of a long string are, and its length. A chunk that is not there is zeros.
    Chunked { generation: u64, length: u64 },
    /// Where the elements of a collection are, and how many.
    Collection(Collection),
    /// Where the entries of a stream are, and what is known of them.
    Stream(Stream),
}

/// A collection, as its header tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Collection {
    pub(crate) kind: Kind,
    pub(crate) generation: u64,
    /// How many elements there are; never zero in a record.
    pub(crate) count: u64,
    /// Of a list: the number of its first element.
    pub(crate) first: i64,
}

/// A stream, as its header tells of it. Unlike a collection it may be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) generation: u64,
    /// How many entries there are.
    pub(crate) length: u64,
    /// The last id that was given: entries only get later ones.
    pub(crate) last: Id,
    /// The greatest id of an entry that was deleted by name.
    pub(crate) deleted: Id,
    /// How many entries were ever added.
    pub(crate) added: u64,
    /// How many consumer groups there are.
    pub(crate) groups: u64,
    /// The number that was given to a group last.
    pub(crate) last_group: u64,
}

/// The form of a header that tells of a stream.
const STREAM_FORM: u8 = 2 + Kind::Stream as u8;

/// The record of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The timestamp of the last change, in microseconds; it only grows, and tells each change from those before.
    pub(crate) stamp: u64,
    /// From here on the key is gone, in milliseconds since the Unix epoch.
    pub(crate) expiry: Option<u64>,
    /// The encoding that `OBJECT ENCODING` tells: it grows with what was once in the key, and never shrinks.
    pub(crate) encoding: u8,
    pub(crate) body: Body,
}

const HAS_EXPIRY: u8 = 1;

impl Header {
    pub(crate) fn new(body: Body) -> Self {
        Header { stamp: 0, expiry: None, encoding: 0, body }
    }

    pub(crate) fn kind(&self) -> Kind {
        match &self.body {
            Body::Inline(_) | Body::Chunked { .. } => Kind::String,
            Body::Collection(collection) => collection.kind,
            Body::Stream(_) => Kind::Stream,
        }
    }

    /// Where its elements are, if it has any.
    pub(crate) fn generation(&self) -> Option<u64> {
        match &self.body {
            Body::Inline(_) => None,
            Body::Chunked { generation, .. } => Some(*generation),
            Body::Collection(collection) => Some(collection.generation),
            Body::Stream(stream) => Some(stream.generation),
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let form = match &self.body {
            Body::Inline(_) => 0,
            Body::Chunked { .. } => 1,
            Body::Collection(collection) => 2 + collection.kind as u8,
            Body::Stream(_) => STREAM_FORM,
        };
        let flags = if self.expiry.is_some() { HAS_EXPIRY } else { 0 };
        let mut bytes = vec![form, flags, self.encoding];
        bytes.extend_from_slice(&self.stamp.to_be_bytes());
        if let Some(expiry) = self.expiry {
            bytes.extend_from_slice(&expiry.to_be_bytes());
        }
        match &self.body {
            Body::Inline(string) => bytes.extend_from_slice(string),
            Body::Chunked { generation, length } => {
                bytes.extend_from_slice(&generation.to_be_bytes());
                bytes.extend_from_slice(&length.to_be_bytes());
            }
            Body::Collection(Collection { generation, count, first, .. }) => {
                bytes.extend_from_slice(&generation.to_be_bytes());
                bytes.extend_from_slice(&count.to_be_bytes());
                bytes.extend_from_slice(&first.to_be_bytes());
            }
            Body::Stream(Stream { generation, length, last, deleted, added, groups, last_group }) => {
                bytes.extend_from_slice(&generation.to_be_bytes());
                bytes.extend_from_slice(&length.to_be_bytes());
                bytes.extend_from_slice(&last.to_bytes());
                bytes.extend_from_slice(&deleted.to_bytes());
                [added, groups, last_group]
                    .iter()
                    .for_each(|count| bytes.extend_from_slice(&count.to_be_bytes()));
            }
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let (form, flags, encoding) = (reader.byte()?, reader.byte()?, reader.byte()?);
        let stamp = reader.u64()?;
        let expiry = if flags & HAS_EXPIRY == 0 { None } else { Some(reader.u64()?) };
        let body = match form {
            0 => Body::Inline(reader.rest().to_vec()),
            1 => Body::Chunked { generation: reader.u64()?, length: reader.u64()? },
            STREAM_FORM => Body::Stream(Stream {
                generation: reader.u64()?,
                length: reader.u64()?,
                last: Id::of_bytes(reader.take(16)?)?,
                deleted: Id::of_bytes(reader.take(16)?)?,
                added: reader.u64()?,
                groups: reader.u64()?,
                last_group: reader.u64()?,
            }),
            form => {
                let kind = Kind::ALL.into_iter().find(|kind| 2 + *kind as u8 == form).ok_or(Malformed)?;
                let (generation, count) = (reader.u64()?, reader.u64()?);
                let first = i64::from_be_bytes(reader.fixed()?);
                Body::Collection(Collection { kind, generation, count, first })
            }
        };
        Ok(Header { stamp, expiry, encoding, body })
    }
}

/// The beginning of the records of elements of one generation in the slot of a key.
pub(crate) fn elements_prefix(key: &[u8], generation: u64) -> Vec<u8> {
    elements_prefix_in(slot_of(key), generation)
}

/// The same in this slot.
pub(crate) fn elements_prefix_in(slot: u16, generation: u64) -> Vec<u8> {
    let mut prefix = slot_prefix(kind::ELEMENT, slot).to_vec();
    prefix.extend_from_slice(&generation.to_be_bytes());
    prefix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis_cluster() {
        for (key, slot) in [("foo", 12_182), ("bar", 5_061), ("{foo}x", 12_182), ("a{}b", slot_of(b"a{}b"))] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
        assert_eq!(slot_of(b"123456789"), 12_739);
    }

    #[test]
    fn a_record_names_its_slot_and_its_key() {
        for key in [b"".as_slice(), b"k", b"{}", b"}{", b"\xff\0"] {
            let record = header_record(key);
            assert_eq!(key_of_header(&record), Ok((Position::of(key), key)));
            let tag = [record[2], record[3], record[4]];
            assert!(!tag.contains(&b'}') && record[5] == b'}', "the slot stands in braces");
        }
        assert!(slot_prefix(kind::HEADER, 31) < slot_prefix(kind::HEADER, 32), "records follow the slots");
    }

    #[test]
    fn headers_come_back() {
        let collection = Collection { kind: Kind::Hash, generation: 3, count: 2, first: -1 };
        let (last, deleted) = (Id { time: 9, number: 1 }, Id { time: 8, number: 2 });
        let stream = Stream { generation: 4, length: 5, last, deleted, added: 6, groups: 7, last_group: 8 };
        for body in [
            Body::Inline(b"value".to_vec()),
            Body::Chunked { generation: 1, length: 5_000 },
            Body::Collection(collection),
            Body::Stream(stream),
        ] {
            for expiry in [None, Some(17)] {
                let header = Header { stamp: 5, expiry, encoding: 1, body: body.clone() };
                assert_eq!(Header::decode(&header.encode()), Ok(header));
            }
        }
        assert_eq!(Header::decode(&[9; 40]), Err(Malformed));
        assert_eq!(Header::decode(&[]), Err(Malformed));
    }

    #[test]
    fn what_lies_behind_a_prefix() {
        assert_eq!(behind(b"ab"), b"ac");
        assert_eq!(behind(b"a\xff"), b"b");
    }
}
