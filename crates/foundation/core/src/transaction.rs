//! The reads and writes of a transaction, and the limits that are checked at the call.

use std::fmt;

use bytes::Bytes;

use crate::id::ShardId;
use crate::key::Key;
use crate::timestamp::Timestamp;

/// A value: any bytes, at most [`VALUE_BYTES_MAX`].
pub type Value = Bytes;

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 4 * 1024;

/// The longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 1024 * 1024;

/// The greatest sum, in bytes, of the keys and values that one transaction reads and writes.
pub const TRANSACTION_BYTES_MAX: usize = 10 * 1000 * 1000;

/// The most entries (reads, writes and ranges together) of one transaction.
pub const TRANSACTION_ENTRIES_MAX: usize = 100_000;

/// A limit that a call would exceed. Raised at the call, before anything is sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitExceeded {
    /// The key is empty.
    #[error("a key must not be empty")]
    EmptyKey,
    /// The key is too long.
    #[error("the key {key} has {bytes} bytes; the limit is {max}", max = KEY_BYTES_MAX)]
    Key {
        /// The beginning of the key, readable.
        key: String,
        /// Its length.
        bytes: usize,
    },
    /// The value is too long.
    #[error("the value for key {key} has {bytes} bytes; the limit is {max}", max = VALUE_BYTES_MAX)]
    Value {
        /// The key, readable.
        key: String,
        /// The length of the value.
        bytes: usize,
    },
    /// The transaction is too large.
    #[error(
        "key {key} would bring the transaction to {bytes} bytes; the limit is {max}: split it into smaller ones",
        max = TRANSACTION_BYTES_MAX
    )]
    Transaction {
        /// The key whose access went over the limit, readable.
        key: String,
        /// The size that the transaction would have.
        bytes: usize,
    },
    /// The transaction touches too many keys.
    #[error(
        "key {key} would be entry {entries} of the transaction; the limit is {max}: split it into smaller ones",
        max = TRANSACTION_ENTRIES_MAX
    )]
    Entries {
        /// The key whose access went over the limit, readable.
        key: String,
        /// How many entries there would be.
        entries: usize,
    },
    /// A container is named by the part of a key that decides its place.
    #[error(
        "a container is named by what stands in braces in the keys of its objects, or by a whole key that has none"
    )]
    ContainerName,
    /// A counting set is named as a counter is.
    #[error("the names of counting sets do not begin with a zero byte: that marks counters")]
    CounterName,
    /// The transaction adds too much to counts.
    #[error("the transaction would change counts by {added} in all; the limit is {max}", max = i32::MAX)]
    Added {
        /// By how much, additions and removals taken together.
        added: i64,
    },
}

/// Checks one key.
///
/// # Errors
/// The key is empty or longer than [`KEY_BYTES_MAX`].
pub fn validate_key(key: &[u8]) -> Result<(), LimitExceeded> {
    match key.len() {
        0 => Err(LimitExceeded::EmptyKey),
        length if length > KEY_BYTES_MAX => Err(LimitExceeded::Key { key: readable(key), bytes: length }),
        _ => Ok(()),
    }
}

/// Checks one key and the value that is to be written to it.
///
/// # Errors
/// As [`validate_key`], or the value is longer than [`VALUE_BYTES_MAX`].
pub fn validate_write(key: &[u8], value: &[u8]) -> Result<(), LimitExceeded> {
    validate_key(key)?;
    if value.len() > VALUE_BYTES_MAX {
        return Err(LimitExceeded::Value { key: readable(key), bytes: value.len() });
    }
    Ok(())
}

/// The beginning of a key or value for a message to a person: escaped, at most 40 bytes of it.
pub fn readable(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 40;
    let shown = bytes[..bytes.len().min(SHOWN_MAX)].escape_ascii().to_string();
    if bytes.len() > SHOWN_MAX { format!("\"{shown}…\"") } else { format!("\"{shown}\"") }
}

/// The value of a key since some timestamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyVersion {
    /// The key.
    pub key: Key,
    /// Since when: [`Timestamp::ZERO`] if it never held anything.
    pub version: Timestamp,
    /// Its value; none if it is absent, or that version deleted it.
    pub value: Option<Value>,
}

impl KeyVersion {
    /// Roughly how many bytes it has.
    pub fn bytes(&self) -> usize {
        const OVERHEAD: usize = 48;
        OVERHEAD + self.key.len() + self.value.as_ref().map_or(0, Bytes::len)
    }
}

/// A half-open range of keys, `from` included, `to` excluded; no `to` means "to the end".
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyRange {
    /// The first key of the range.
    pub from: Key,
    /// The first key after the range, if it ends.
    pub to: Option<Key>,
}

impl KeyRange {
    /// True if the key lies in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.from.as_slice() <= key && self.to.as_ref().is_none_or(|to| key < to.as_slice())
    }

    /// True if no key lies in the range.
    pub fn is_empty(&self) -> bool {
        self.to.as_ref().is_some_and(|to| *to <= self.from)
    }

    /// The part of the range that lies behind a key.
    #[must_use]
    pub fn after(&self, key: &Key) -> KeyRange {
        let successor = [key.as_slice(), &[0]].concat();
        KeyRange { from: Key::copy_from_slice(&successor), to: self.to.clone() }
    }

    /// The part of the range that lies before a key.
    #[must_use]
    pub fn before(&self, key: &Key) -> KeyRange {
        KeyRange { from: self.from.clone(), to: Some(key.clone()) }
    }

    /// True if some key lies in both ranges.
    pub fn overlaps(&self, other: &KeyRange) -> bool {
        !self.is_empty()
            && !other.is_empty()
            && self.to.as_ref().is_none_or(|to| other.from < *to)
            && other.to.as_ref().is_none_or(|to| self.from < *to)
    }
}

impl fmt::Debug for KeyRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.to {
            Some(to) => write!(formatter, "[{}, {})", readable(&self.from), readable(to)),
            None => write!(formatter, "[{}, end)", readable(&self.from)),
        }
    }
}

/// A key that a transaction has read, and which version of it: [`Timestamp::ZERO`] if nothing was known of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReadVersion {
    /// The key.
    pub key: Key,
    /// The timestamp of the transaction that wrote what was read.
    pub version: Timestamp,
    /// True if that transaction had deleted the key. A deletion is collected one day, and what had read it was not overwritten by that.
    pub deleted: bool,
}

/// A key that a transaction writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    /// The key.
    pub key: Key,
    /// The new value; none deletes the key.
    pub value: Option<Value>,
}

/// The part of a transaction that concerns one shard: all that is needed to validate and to install it there.
///
/// Reads and writes are sorted by key and name each key once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Transaction {
    /// Its reads here, absent keys included.
    pub reads: Vec<ReadVersion>,
    /// Its writes here.
    pub writes: Vec<Write>,
    /// The ranges that it scanned here: every key of the shard in them is in `reads`, or was absent.
    pub ranges: Vec<KeyRange>,
    /// Every shard that takes part in the transaction, sorted.
    pub participants: Vec<ShardId>,
    /// True if it reads whatever is newest where and when it is prepared, as strict read-only transactions do: then the
    /// versions in `reads` are blank, and there is nothing in them to validate.
    pub reads_when_prepared: bool,
}

impl Transaction {
    /// The version that this transaction read of `key`, if it read it.
    pub fn version_read(&self, key: &[u8]) -> Option<Timestamp> {
        self.reads.binary_search_by(|read| read.key.as_ref().cmp(key)).ok().map(|at| self.reads[at].version)
    }

    /// True if this transaction writes `key`.
    pub fn writes_key(&self, key: &[u8]) -> bool {
        self.writes.binary_search_by(|write| write.key.as_ref().cmp(key)).is_ok()
    }

    /// The sum of the lengths of all keys and values.
    pub fn bytes(&self) -> usize {
        let reads: usize = self.reads.iter().map(|read| read.key.len()).sum();
        let writes: usize = self
            .writes
            .iter()
            .map(|write| write.key.len() + write.value.as_ref().map_or(0, Bytes::len))
            .sum();
        let ranges: usize = self
            .ranges
            .iter()
            .map(|range| range.from.len() + range.to.as_ref().map_or(0, |to| to.len()))
            .sum();
        reads + writes + ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: &'static str, to: Option<&'static str>) -> KeyRange {
        KeyRange { from: Key::from(from), to: to.map(Key::from) }
    }

    #[test]
    fn a_range_goes_on_behind_a_key_and_before_it() {
        let range = range("b", Some("d"));
        let key = Key::from("c");
        let (after, before) = (range.after(&key), range.before(&key));
        assert!(!after.contains(b"c") && after.contains(b"c\0") && !after.contains(b"d"));
        assert!(before.contains(b"b~") && !before.contains(b"c") && !before.contains(b"a"));
    }

    #[test]
    fn ranges_are_half_open() {
        let range = range("b", Some("d"));
        assert!(!range.contains(b"a"));
        assert!(range.contains(b"b"));
        assert!(range.contains(b"c~"));
        assert!(!range.contains(b"d"));
    }

    #[test]
    fn overlap_as_a_table() {
        let table = [
            (range("a", Some("c")), range("b", Some("d")), true),
            (range("a", Some("b")), range("b", Some("c")), false),
            (range("a", None), range("z", None), true),
            (range("a", Some("a")), range("a", None), false),
            (range("m", Some("n")), range("a", None), true),
        ];
        for (one, other, expected) in table {
            assert_eq!(one.overlaps(&other), expected, "{one:?} {other:?}");
            assert_eq!(other.overlaps(&one), expected, "{other:?} {one:?}");
        }
    }

    #[test]
    fn limits_name_the_key() {
        let long = vec![b'k'; KEY_BYTES_MAX + 1];
        assert_eq!(validate_key(b""), Err(LimitExceeded::EmptyKey));
        assert!(validate_key(&long[1..]).is_ok());
        let error = validate_key(&long).unwrap_err().to_string();
        assert!(error.contains("kkkk…") && error.contains("4097") && error.contains("4096"), "{error}");
        let error = validate_write(b"photo", &vec![0; VALUE_BYTES_MAX + 1]).unwrap_err().to_string();
        assert!(error.contains("\"photo\"") && error.contains("1048577"), "{error}");
    }
}
