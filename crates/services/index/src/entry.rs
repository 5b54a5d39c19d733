//! Where entries stand: above the keys of users, in the order of index values.
//!
//! ```text
//!   ff ff  entry  00000007  /  tag and value, escaped  00 01  k  {alice}/profile      a key that has a tag in braces
//!                                                             w  {bob}                one that has none: all of it is the tag
//!   ff ff  unique 00000008  /  tag and value, escaped  00 01                          its value is the key
//! ```
//!
//! The first braces in a key decide its shard, and a value has none once it is escaped. So an entry is at the shard of its key: a transaction of one shard stays one. (A key that has a closing brace and no tag may have its entry
//! elsewhere, which costs a participant.) The
//! entry of a unique index is named by its value alone: two transactions that give two keys one value write one entry, and every isolation lets only one of them commit.

use std::collections::BTreeMap;

use quorate_core::reserved::RESERVED;
use quorate_core::topology::container_of;
use quorate_core::{Key, KeyRange, Value};

use crate::definition::Definition;
use crate::source::IndexValue;

/// Entries by their keys, with what they hold.
pub type Entries = BTreeMap<Key, Value>;

const TAGGED: u8 = b'k';
const WHOLE: u8 = b'w';

/// The byte that escapes itself and the brace, which decides the places of keys.
const ESCAPE: u8 = b'z';
const BRACE: u8 = b'{';
const END: [u8; 2] = [0, 1];

/// An entry that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The value by which the key is found.
    pub value: IndexValue,
    /// The key.
    pub key: Key,
}

/// The index values that are asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum EntryRange {
    /// This value.
    Equal(IndexValue),
    /// From a value (included) to another one (excluded); no end is that of the index.
    Between(Option<IndexValue>, Option<IndexValue>),
}

fn stem(definition: &Definition) -> Vec<u8> {
    let kind: &[u8] = if definition.unique { b"unique" } else { b"entry" };
    [RESERVED, kind, format!("{:08x}/", definition.id).as_bytes()].concat()
}

/// The key under which the creation of an index notes how far it has come.
pub fn cursor_key(index: u32) -> Key {
    Key::from([RESERVED, format!("cursor{index:08x}").as_bytes()].concat())
}

/// Appends bytes so that their order stays, none of them is a brace, and they end.
fn escape(into: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        match *byte {
            0 => into.extend([0, 0xff]),
            ESCAPE => into.extend([ESCAPE, 1]),
            BRACE => into.extend([ESCAPE, 2]),
            other => into.push(other),
        }
    }
    into.extend(END);
}

/// Reads what [`escape`] has written, and gives what follows; none if it has not written it.
fn unescape(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (mut read, mut rest) = (Vec::new(), bytes);
    loop {
        let (byte, after) = rest.split_first()?;
        rest = after;
        let escaped = match *byte {
            0 | ESCAPE => {
                let (escaped, after) = rest.split_first()?;
                rest = after;
                Some(*escaped)
            }
            _ => None,
        };
        match (*byte, escaped) {
            (0, Some(0xff)) => read.push(0),
            (0, Some(1)) => return Some((read, rest)),
            (ESCAPE, Some(1)) => read.push(ESCAPE),
            (ESCAPE, Some(2)) => read.push(BRACE),
            (byte, None) => read.push(byte),
            _ => return None,
        }
    }
}

fn beginning(definition: &Definition, value: &IndexValue) -> Vec<u8> {
    let mut key = stem(definition);
    escape(&mut key, &value.ordered());
    key
}

/// The entry of a key by an index value.
pub(crate) fn entry_of(definition: &Definition, value: &IndexValue, key: &Key) -> (Key, Value) {
    let mut entry = beginning(definition, value);
    if definition.unique {
        return (Key::from(entry), Value::copy_from_slice(key));
    }
    if container_of(key).len() < key.len() {
        entry.push(TAGGED);
        entry.extend(key.as_slice());
    } else {
        entry.extend([WHOLE, BRACE]);
        entry.extend(key.as_slice());
        entry.push(b'}');
    }
    (Key::from(entry), Value::new())
}

impl Entry {
    /// Reads an entry of an index; none if it is none.
    pub fn read(definition: &Definition, entry: &Key, held: &Value) -> Option<Self> {
        let (ordered, rest) = unescape(entry.strip_prefix(stem(definition).as_slice())?)?;
        let value = IndexValue::of_ordered(&ordered)?;
        let key = match (definition.unique, rest) {
            (true, []) => Key::copy_from_slice(held),
            (false, [TAGGED, key @ ..]) => Key::copy_from_slice(key),
            (false, [WHOLE, BRACE, key @ .., b'}']) => Key::copy_from_slice(key),
            _ => return None,
        };
        Some(Entry { value, key })
    }
}

/// The range of the entries of all of an index, or of those that are asked for.
pub fn entry_range(definition: &Definition, asked: Option<&EntryRange>) -> KeyRange {
    let all = stem(definition);
    let end_of = |mut beginning: Vec<u8>| {
        // Neither a slash nor the end of a value is the greatest byte.
        if let Some(last) = beginning.last_mut() {
            *last += 1;
        }
        beginning
    };
    let (from, to) = match asked {
        None => (all.clone(), end_of(all)),
        Some(EntryRange::Equal(value)) => {
            let beginning = beginning(definition, value);
            (beginning.clone(), end_of(beginning))
        }
        Some(EntryRange::Between(from, to)) => {
            let bound = |value: &IndexValue| beginning(definition, value);
            let (first, last) = (from.as_ref().map(bound), to.as_ref().map(bound));
            (first.unwrap_or_else(|| all.clone()), last.unwrap_or_else(|| end_of(all)))
        }
    };
    KeyRange { from: Key::from(from), to: Some(Key::from(to)) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use quorate_core::reserved::is_reserved;
    use quorate_core::topology::shard_position;

    use super::*;

    fn definition(unique: bool) -> Definition {
        Definition { unique, ..Definition::new(7, "by", "json:/a".parse().unwrap()) }
    }

    fn text(text: &str) -> IndexValue {
        IndexValue::from(text)
    }

    #[test]
    fn an_entry_is_at_the_shard_of_its_key() {
        for key in ["alice", "{alice}/profile", "a{b", "user/{7}/z"] {
            let key = Key::from(key);
            let (entry, _) = entry_of(&definition(false), &text("with {braces} and z"), &key);
            for shards in [2, 7, 64] {
                assert_eq!(shard_position(&entry, shards), shard_position(&key, shards), "{key:?}");
            }
        }
    }

    #[test]
    fn ranges_hold_what_is_asked_for() {
        let definition = definition(false);
        let key = Key::from("k");
        let values = [
            IndexValue::Bool(true),
            IndexValue::Number(-1.0),
            IndexValue::Number(2.0),
            text(""),
            text("a"),
            text("a\0"),
            text("ab"),
            text("z"),
            text("{"),
            text("|"),
        ];
        let within = |asked: Option<EntryRange>| {
            let range = entry_range(&definition, asked.as_ref());
            let holds = |value: &&IndexValue| range.contains(&entry_of(&definition, value, &key).0);
            values.iter().filter(holds).cloned().collect::<Vec<_>>()
        };
        assert_eq!(within(None), values);
        for value in &values {
            assert_eq!(within(Some(EntryRange::Equal(value.clone()))), std::slice::from_ref(value));
        }
        assert_eq!(within(Some(EntryRange::Between(Some(text("a")), Some(text("z"))))), values[4..7]);
        assert_eq!(within(Some(EntryRange::Between(Some(IndexValue::Number(0.0)), None))), values[2..]);
        assert_eq!(within(Some(EntryRange::Between(None, Some(text("a"))))), values[..4]);
        let other = Definition { id: 8, ..definition.clone() };
        let range = entry_range(&other, None);
        assert!(!range.contains(&entry_of(&definition, &text("a"), &key).0));
    }

    proptest! {
        #[test]
        fn entries_are_read_back(value: Vec<u8>, key: Vec<u8>, unique: bool) {
            let (definition, key, value) = (definition(unique), Key::from(key), IndexValue::from(value));
            let (entry, held) = entry_of(&definition, &value, &key);
            prop_assert!(is_reserved(&entry));
            prop_assert_eq!(Entry::read(&definition, &entry, &held), Some(Entry { value, key }));
        }

        #[test]
        fn entries_are_in_the_order_of_their_values(one: Vec<u8>, other: Vec<u8>) {
            let definition = definition(true);
            let entry = |value: &Vec<u8>| entry_of(&definition, &IndexValue::from(value.clone()), &Key::from("k")).0;
            prop_assert_eq!(entry(&one).cmp(&entry(&other)), one.cmp(&other));
        }

        #[test]
        fn other_keys_are_no_entries(key: Vec<u8>, unique: bool) {
            let definition = definition(unique);
            let _ = Entry::read(&definition, &Key::from([stem(&definition), key.clone()].concat()), &Value::new());
            prop_assert_eq!(Entry::read(&definition, &Key::from(key), &Value::new()), None);
        }
    }
}
