//! The content of a replica, in 128 bits, and in 256 buckets of them.
//!
//! An *item* is one stored version of one key. Its hash is made of two XXH64, with the seeds 0 and 1, over
//!
//! ```text
//!   space (1 byte)  length of the key (4)  key  number of stamps (1)  stamps (8 each)  1, value | 0    little-endian
//! ```
//!
//! and a checksum is the sum of the hashes of all items, each half modulo 2⁶⁴: the order in which items come does not matter,
//! nor what came before and is gone. Which bucket an item belongs to follows from its key alone: from the XXH64 of space and
//! key with seed 2, whose bytes, the most significant first, are the *path* to the key. A digest counts the items whose path
//! begins as it was asked for, in buckets by the byte that follows. So what differs is found in few steps.

use bytes::Bytes;

use super::hash::xxh64;

/// How many buckets a digest has.
pub const BUCKETS: usize = 256;

/// The longest path that can be asked for.
pub const PATH_MAX: usize = 7;

/// A digest of a part of the items names each of them if there are no more than so many.
pub const LISTED_MAX: usize = 256;

/// The most stamps of a version.
const STAMPS_MAX: usize = 6;

/// So many bytes of a key are listed.
const KEY_LISTED_MAX: usize = 256;

/// One stored version of one key.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The kind of the item: [`Item::DATA`], or another number of the protocol's.
    pub space: u8,
    /// The key.
    pub key: &'a [u8],
    /// The name of the version: timestamps, revisions.
    pub stamps: &'a [u64],
    /// The value; none if the version is a deletion.
    pub value: Option<&'a [u8]>,
}

impl Item<'_> {
    /// The keys of users.
    pub const DATA: u8 = 0;
    /// The procedures of a keyspace.
    pub const PROCEDURE: u8 = 1;

    fn hash(&self) -> Checksum {
        let space = [self.space];
        let length = (self.key.len() as u32).to_le_bytes();
        let count = [self.stamps.len() as u8];
        let mut stamps = [0; 8 * STAMPS_MAX];
        assert!(self.stamps.len() <= STAMPS_MAX, "a version has at most {STAMPS_MAX} stamps");
        for (bytes, stamp) in stamps.chunks_exact_mut(8).zip(self.stamps) {
            bytes.copy_from_slice(&stamp.to_le_bytes());
        }
        let stamps = &stamps[..8 * self.stamps.len()];
        let is_live = [u8::from(self.value.is_some())];
        let value = self.value.unwrap_or_default();
        let parts: [&[u8]; 7] = [&space, &length, self.key, &count, stamps, &is_live, value];
        Checksum::of(&parts)
    }

    fn path(&self) -> [u8; 8] {
        xxh64(2, &[&[self.space], self.key]).to_be_bytes()
    }
}

/// The sum of the hashes of items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Checksum {
    /// Of the hashes with seed 0.
    pub low: u64,
    /// Of those with seed 1.
    pub high: u64,
}

impl Checksum {
    /// The hash of an item whose bytes are these, one part after the other.
    pub fn of(parts: &[&[u8]]) -> Checksum {
        Checksum { low: xxh64(0, parts), high: xxh64(1, parts) }
    }

    /// The sum without another that is part of it.
    pub fn minus(self, other: Checksum) -> Checksum {
        Checksum { low: self.low.wrapping_sub(other.low), high: self.high.wrapping_sub(other.high) }
    }

    /// The sum with another.
    pub fn plus(self, other: Checksum) -> Checksum {
        Checksum { low: self.low.wrapping_add(other.low), high: self.high.wrapping_add(other.high) }
    }
}

impl std::fmt::Display for Checksum {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:016x}{:016x}", self.high, self.low)
    }
}

/// An item that a digest names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// The kind of the item.
    pub space: u8,
    /// The key, or how it begins.
    pub key: Bytes,
    /// The name of the version.
    pub stamps: Vec<u64>,
    /// False if the version is a deletion.
    pub is_live: bool,
    /// The hash of the item.
    pub checksum: Checksum,
}

/// An item as an operator reads it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stored {
    /// The kind of the item.
    pub space: u8,
    /// The key.
    pub key: Bytes,
    /// The name of the version.
    pub stamps: Vec<u64>,
    /// The value; none if the version is a deletion.
    pub value: Option<Bytes>,
}

impl Stored {
    fn of(item: Item<'_>) -> Self {
        Stored {
            space: item.space,
            key: Bytes::copy_from_slice(item.key),
            stamps: item.stamps.to_vec(),
            value: item.value.map(Bytes::copy_from_slice),
        }
    }

    /// About so many bytes it takes in an answer.
    pub fn bytes(&self) -> usize {
        const ENTRY_BYTES: usize = 64;
        ENTRY_BYTES + self.key.len() + self.value.as_ref().map_or(0, Bytes::len)
    }
}

/// The items of a replica whose path begins in one way, summed up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// How the paths begin.
    pub path: Bytes,
    /// Sums of hashes, by the next byte of the path: [`BUCKETS`] of them.
    pub buckets: Vec<Checksum>,
    /// How many items there are.
    pub items: u64,
    /// How many bytes their keys and values have.
    pub bytes: u64,
    /// Each of them, if a path was asked for and there are few.
    pub listed: Vec<Listed>,
}

/// Makes a digest, item by item; or hands the items on, to an operator that reads them.
#[derive(Clone, Debug)]
pub struct Digester {
    digest: Digest,
    seen: Seen,
    /// The items themselves, if they are read.
    handed_on: Option<Vec<Stored>>,
}

/// How much a digester has looked at, whatever the paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Items, and keys without any.
    pub items: u64,
    /// The bytes of their keys and values.
    pub bytes: u64,
}

impl Digester {
    /// Nothing was looked at.
    pub fn new(path: &[u8]) -> Self {
        Digester { digest: Digest::new(path), seen: Seen::default(), handed_on: None }
    }

    /// Nothing was looked at, and items are handed on.
    pub fn reading() -> Self {
        Digester { handed_on: Some(Vec::new()), ..Digester::new(&[]) }
    }

    /// The items that were added since this was asked last; none of a digester that hands nothing on.
    pub fn take(&mut self) -> Vec<Stored> {
        self.handed_on.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Adds an item, if its path begins as that of the digest.
    pub fn add(&mut self, item: Item<'_>) {
        let bytes = (item.key.len() + item.value.map_or(0, <[u8]>::len)) as u64;
        self.seen.items += 1;
        self.seen.bytes += bytes;
        if let Some(handed_on) = &mut self.handed_on {
            return handed_on.push(Stored::of(item));
        }
        let digest = &mut self.digest;
        let path = item.path();
        let Some(rest) = path.strip_prefix(digest.path.as_ref()) else { return };
        let checksum = item.hash();
        let bucket = &mut digest.buckets[usize::from(rest[0])];
        *bucket = bucket.plus(checksum);
        digest.items += 1;
        digest.bytes += bytes;
        if digest.path.is_empty() {
            return;
        }
        if digest.items > LISTED_MAX as u64 {
            digest.listed = Vec::new();
            return;
        }
        digest.listed.push(Listed {
            space: item.space,
            key: Bytes::copy_from_slice(&item.key[..item.key.len().min(KEY_LISTED_MAX)]),
            stamps: item.stamps.to_vec(),
            is_live: item.value.is_some(),
            checksum,
        });
    }

    /// A key was looked at that holds nothing.
    pub fn skip(&mut self) {
        self.seen.items += 1;
    }

    /// How much was looked at.
    pub fn seen(&self) -> Seen {
        self.seen
    }

    /// The digest of what was added.
    pub fn finish(self) -> Digest {
        self.digest
    }
}

impl Digest {
    /// The digest of nothing.
    pub fn new(path: &[u8]) -> Self {
        let path = Bytes::copy_from_slice(&path[..path.len().min(PATH_MAX)]);
        Digest { path, buckets: vec![Checksum::default(); BUCKETS], items: 0, bytes: 0, listed: Vec::new() }
    }

    /// The checksum of all items.
    pub fn checksum(&self) -> Checksum {
        self.buckets.iter().fold(Checksum::default(), |sum, bucket| sum.plus(*bucket))
    }

    /// True if each item is listed.
    pub fn lists_all(&self) -> bool {
        self.listed.len() as u64 == self.items
    }

    /// True if both stand for the same items.
    pub fn agrees_with(&self, other: &Digest) -> bool {
        self.path == other.path && self.items == other.items && self.buckets == other.buckets
    }

    /// The first bucket in which two digests differ.
    pub fn first_difference(&self, other: &Digest) -> Option<u8> {
        let differs = |bucket: &usize| self.buckets.get(*bucket) != other.buckets.get(*bucket);
        (0..BUCKETS).find(differs).map(|bucket| bucket as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item<'a>(key: &'a str, stamps: &'a [u64], value: Option<&'a str>) -> Item<'a> {
        Item { space: Item::DATA, key: key.as_bytes(), stamps, value: value.map(str::as_bytes) }
    }

    fn digest(items: &[Item<'_>]) -> Digest {
        let mut digester = Digester::new(&[]);
        items.iter().for_each(|item| digester.add(*item));
        digester.finish()
    }

    #[test]
    fn the_order_of_items_does_not_matter() {
        let items = [item("a", &[1, 7], Some("x")), item("b", &[2, 7], Some("")), item("c", &[3, 7], None)];
        let backwards: Vec<_> = items.iter().rev().copied().collect();
        assert_eq!(digest(&items), digest(&backwards));
        assert_eq!((digest(&items).items, digest(&items).bytes), (3, 4));
    }

    #[test]
    fn every_kind_of_difference_is_seen() {
        let base = [item("a", &[1, 7], Some("x")), item("b", &[2, 7], Some("y"))];
        let others: [&[Item<'_>]; 9] = [
            &base[..1],
            &[base[0], item("b", &[1, 7], Some("y"))],
            &[base[0], item("b", &[2, 8], Some("y"))],
            &[base[0], item("b", &[2, 7], Some("z"))],
            &[base[0], item("b", &[2, 7], None)],
            &[base[0], item("c", &[2, 7], Some("y"))],
            &[base[0], base[1], item("c", &[1, 7], Some("z"))],
            // Values, and ends of values, that have changed places.
            &[item("a", &[1, 7], Some("y")), item("b", &[2, 7], Some("x"))],
            &[base[0], Item { space: Item::PROCEDURE, ..base[1] }],
        ];
        for other in others {
            assert!(!digest(&base).agrees_with(&digest(other)), "{other:?}");
            assert_ne!(digest(&base).checksum(), digest(other).checksum(), "{other:?}");
        }
        let (none, empty) = ([item("a", &[1], None)], [item("a", &[1], Some(""))]);
        assert_ne!(digest(&none).checksum(), digest(&empty).checksum(), "an empty value is a value");
    }

    #[test]
    fn a_path_leads_to_what_differs() {
        let keys: Vec<String> = (0..20_000).map(|number| format!("key-{number}")).collect();
        let whole = |changed: Option<&str>, path: &[u8]| {
            let mut digester = Digester::new(path);
            for key in &keys {
                let value = if Some(key.as_str()) == changed { "other" } else { "same" };
                digester.add(item(key, &[1, 2], Some(value)));
            }
            assert_eq!(digester.seen().items, 20_000);
            digester.finish()
        };
        let (ours, theirs) = (whole(None, &[]), whole(Some("key-777"), &[]));
        assert!(ours.listed.is_empty(), "all of them would be too many");
        let bucket = ours.first_difference(&theirs).unwrap();
        let (ours, theirs) = (whole(None, &[bucket]), whole(Some("key-777"), &[bucket]));
        assert!(ours.lists_all() && theirs.lists_all(), "{} items", ours.items);
        let differing: Vec<_> = ours.listed.iter().filter(|known| !theirs.listed.contains(known)).collect();
        assert!(matches!(&differing[..], [one] if one.key == "key-777"), "{differing:?}");
    }

    /// A change of the hash would make replicas of different versions differ.
    #[test]
    fn the_checksum_of_one_item_is_as_documented() {
        let sum = digest(&[item("account-1", &[1_700_000_000_000_000, 42], Some("100"))]).checksum();
        let bytes = [
            &[0_u8][..],
            &9_u32.to_le_bytes(),
            b"account-1",
            &[2],
            &1_700_000_000_000_000_u64.to_le_bytes(),
            &42_u64.to_le_bytes(),
            &[1],
            b"100",
        ]
        .concat();
        assert_eq!(sum, Checksum { low: xxh64(0, &[&bytes]), high: xxh64(1, &[&bytes]) });
    }
}
