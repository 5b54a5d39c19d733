//! Keys that belong to the system: those that begin with two bytes `0xff`, above all keys of users.
//!
//! Clients refuse writes of users to them, and scans of users end before them. A client keeps two kinds of entries there
//! ([ADR 0084](https://github.com/quorate/quorate/blob/main/docs/adr/0084-secondary-indexes.md)): the entries of indexes, which to replicas are keys like any others, and one *index list* at
//! each shard, which says which indexes there are.
//!
//! # Why replicas know the index list
//! A transaction that writes has to keep every index of its keyspace. A client that has not heard of an index does not. So a shard that has an index list
//! refuses a transaction that writes there and has not read the list: whichever program asks, and however old the knowledge of its client is. The list that was read is
//! then compared as any other key is.
//!
//! A list is read by every transaction that writes, and written when an index is created or dropped. If each of them kept the other off, a list of a shard that is never
//! idle could not be changed. So a transaction that has only read a list keeps no writer of it off. A transaction that was let in before the list has changed may thus commit
//! afterwards, by the indexes that there were; it holds the keys that it writes until then, and the client that fills the new index meets it there.

use crate::key::Key;
use crate::topology::shard_position;
use crate::transaction::{KeyRange, Transaction};

/// The first key that is not of users: all that follow belong to the system.
pub const RESERVED: &[u8] = b"\xff\xff";

/// The beginning of the keys of index lists.
const INDEX_LIST_PREFIX: &[u8] = b"\xff\xfflist";

/// The first key behind them.
const INDEX_LISTS_END: &[u8] = b"\xff\xfflisu";

/// True if a key belongs to the system.
pub fn is_reserved(key: &[u8]) -> bool {
    key.starts_with(RESERVED)
}

/// True if a key is that of an index list.
pub fn is_index_list(key: &[u8]) -> bool {
    key.starts_with(INDEX_LIST_PREFIX)
}

/// The range of the keys of all index lists.
pub fn index_lists() -> KeyRange {
    KeyRange { from: Key::from(INDEX_LIST_PREFIX), to: Some(Key::from(INDEX_LISTS_END)) }
}

/// The keys of the index lists of a keyspace of so many shards, one for each, by the position of the shard.
pub fn index_list_keys(shards: usize) -> Vec<Key> {
    let mut keys: Vec<Option<Key>> = vec![None; shards];
    let mut missing = shards;
    // The place of a key is a checksum of the number in braces: each shard is met sooner or later.
    for number in 0_u64.. {
        if missing == 0 {
            break;
        }
        let key = [INDEX_LIST_PREFIX, format!("{{{number}}}").as_bytes()].concat();
        let slot = &mut keys[shard_position(&key, shards)];
        if slot.is_none() {
            *slot = Some(Key::from(key));
            missing -= 1;
        }
    }
    keys.into_iter().flatten().collect()
}

impl Transaction {
    /// True if its part at a shard writes, and has not read the index list of the shard: where there is one, it must not be let in.
    pub fn overlooks_index_list(&self) -> bool {
        !self.writes.is_empty() && !self.reads.iter().any(|read| is_index_list(&read.key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timestamp::Timestamp;
    use crate::transaction::{ReadVersion, Write};

    #[test]
    fn each_shard_has_an_index_list_of_its_own() {
        for shards in [1, 2, 3, 7, 64, 1_000] {
            let keys = index_list_keys(shards);
            assert_eq!(keys.len(), shards);
            for (position, key) in keys.iter().enumerate() {
                assert_eq!(shard_position(key, shards), position);
                assert!(is_index_list(key) && is_reserved(key) && index_lists().contains(key));
            }
        }
    }

    #[test]
    fn keys_of_users_are_not_reserved() {
        for key in [&b""[..], b"a", b"\xff", b"\xff\xfe\xff", b"\xfflist{0}"] {
            assert!(!is_reserved(key) && !is_index_list(key) && !index_lists().contains(key), "{key:?}");
        }
        for key in [&b"\xff\xff"[..], b"\xff\xffindex", b"\xff\xff\xff"] {
            assert!(is_reserved(key) && !is_index_list(key) && !index_lists().contains(key), "{key:?}");
        }
    }

    #[test]
    fn a_part_that_writes_has_to_have_read_the_index_list() {
        let write = || Write { key: Key::from("a"), value: None };
        let read = |key: Key| ReadVersion { key, version: Timestamp::ZERO, deleted: false };
        let list = index_list_keys(1)[0].clone();
        let table = [
            (vec![], vec![], false),
            (vec![read(Key::from("a"))], vec![], false),
            (vec![], vec![write()], true),
            (vec![read(Key::from("a"))], vec![write()], true),
            (vec![read(Key::from("a")), read(list)], vec![write()], false),
        ];
        for (reads, writes, expected) in table {
            let part = Transaction { reads, writes, ..Transaction::default() };
            assert_eq!(part.overlooks_index_list(), expected, "{part:?}");
        }
    }
}
