//! What a transaction writes beside its own writes, so that every index agrees with them.
//!
//! ```text
//!   write(key, value)          is held back: nobody has been asked what the key held
//!   unread()                   these keys have to be read, and the index lists of their shards
//!   settle(what they held)     ─► the writes of keys and of entries, and which entries of unique indexes have to be absent
//! ```
//!
//! A transaction may do that several times: before it scans, because a scan sees its own writes, and before it commits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quorate_core::transaction::{KEY_BYTES_MAX, readable};
use quorate_core::{Key, Value};

use crate::definition::{Definition, IndexList};
use crate::entry::Entries;

/// A write that an index does not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the index {index:?} on {on} does not allow the write: the value of key {key} {reason}")]
pub struct Unfit {
    /// The index.
    pub index: String,
    /// What it is on.
    pub on: String,
    /// The key, readable.
    pub key: String,
    /// What is wrong with its value.
    pub reason: String,
}

/// A value that belongs to another key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the index {index:?} is unique, and {key} would get a value that belongs to {owner}")]
pub struct NotUnique {
    /// The index.
    pub index: String,
    /// The key that was to get the value, readable.
    pub key: String,
    /// The key that has it, readable.
    pub owner: String,
}

/// The writes of one transaction, and what is kept of them in indexes.
#[derive(Clone, Debug)]
pub struct Keeper {
    list: Arc<IndexList>,
    /// Writes that are held back.
    held: BTreeMap<Key, Option<Value>>,
    /// The entries of the keys that were written before, as they are now.
    settled: BTreeMap<Key, Entries>,
}

/// The writes that a keeper lets go, and what has to hold for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// Keys of the user and entries, each once.
    pub writes: BTreeMap<Key, Option<Value>>,
    /// Entries of unique indexes that have to be absent, or to be of this key: the number of the index, and the key.
    pub unique: BTreeMap<Key, (u32, Key)>,
    /// Entries of unique indexes that this key gives up: another key may have one, where both held the value before there was an index.
    pub given_up: BTreeMap<Key, Key>,
}

impl Checks {
    /// The same with deletions beside them, of keys that give up what these take.
    #[must_use]
    pub fn beside(mut self, deletions: Checks) -> Self {
        for (key, write) in deletions.writes {
            self.writes.entry(key).or_insert(write);
        }
        self.given_up.extend(deletions.given_up);
        self
    }

    /// The entries that have to be read before the writes can go.
    pub fn unread(&self) -> BTreeSet<Key> {
        self.unique.keys().chain(self.given_up.keys()).cloned().collect()
    }

    /// The writes, given what these entries hold: an entry of another key stays as it is.
    ///
    /// # Errors
    /// An entry that would be written is of another key.
    pub fn judge(
        mut self,
        list: &IndexList,
        found: impl Fn(&Key) -> Option<Value>,
    ) -> Result<BTreeMap<Key, Option<Value>>, NotUnique> {
        for (entry, owner) in &self.unique {
            let holder = found(entry);
            let is_given_up =
                self.given_up.get(entry).is_some_and(|key| holder.as_deref() == Some(key.as_slice()));
            if !is_given_up {
                list.check_unique(owner, holder.as_ref())?;
            }
        }
        for (entry, key) in self.given_up.iter().filter(|(entry, _)| !self.unique.contains_key(*entry)) {
            let other = found(entry).filter(|holder| holder[..] != key[..]);
            if other.is_some() {
                // It is written as it is: where reads are not validated, the client that fills the index could otherwise give it to this key, as soon as the other one
                // has given it up, and neither would be in the way of the other.
                self.writes.insert(entry.clone(), other);
            }
        }
        Ok(self.writes)
    }
}

impl Keeper {
    /// Keeps the indexes of a list.
    pub fn new(list: Arc<IndexList>) -> Self {
        Keeper { list, held: BTreeMap::new(), settled: BTreeMap::new() }
    }

    /// The list by which it keeps them.
    pub fn list(&self) -> &Arc<IndexList> {
        &self.list
    }

    /// Takes a write; none deletes the key.
    ///
    /// # Errors
    /// The value does not parse, and the index does not leave it out.
    pub fn write(&mut self, key: Key, value: Option<Value>) -> Result<(), Unfit> {
        if let Some(value) = &value {
            for index in self.list.indexes.iter().filter(|index| index.is_kept()) {
                index.entries_to_write(&key, value)?;
            }
        }
        self.held.insert(key, value);
        Ok(())
    }

    /// The value that a key has by a write that is held back.
    pub fn own(&self, key: &Key) -> Option<&Option<Value>> {
        self.held.get(key)
    }

    /// True if writes are held back.
    pub fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// The keys whose values from before the transaction have to be known.
    pub fn unread(&self) -> Vec<Key> {
        self.held.keys().filter(|key| !self.settled.contains_key(*key)).cloned().collect()
    }

    /// Lets the writes go that are held back, given what the unread keys held.
    ///
    /// # Errors
    /// Two of the writes give one value of a unique index to two keys.
    pub fn settle(&mut self, before: &BTreeMap<Key, Option<Value>>) -> Result<Checks, NotUnique> {
        let list = Arc::clone(&self.list);
        let mut checks = Checks::default();
        let mut deleted: BTreeSet<Key> = BTreeSet::new();
        let mut given_up: BTreeMap<Key, Key> = BTreeMap::new();
        let mut put: BTreeMap<Key, (Value, &Definition, Key)> = BTreeMap::new();
        let mut settled = Vec::new();
        for (key, value) in &self.held {
            // Nobody kept what stood there before the index, so what does not parse there has no entries.
            let of = |value: &Option<Value>| entries(&list, key, value.as_ref());
            let old = match self.settled.get(key) {
                Some(entries) => entries.clone(),
                None => of(before.get(key).unwrap_or(&None)),
            };
            let mut now = Entries::new();
            for index in list.indexes.iter().filter(|index| index.is_kept()) {
                for (entry, held) in of_index(index, key, value.as_ref()) {
                    now.insert(entry.clone(), held.clone());
                    if old.get(&entry) == Some(&held) {
                        continue;
                    }
                    if let Some((_, _, other)) = put.insert(entry, (held, index, key.clone())) {
                        return Err(not_unique(index, key, &other));
                    }
                }
            }
            for (entry, held) in old {
                if now.contains_key(&entry) {
                    continue;
                }
                // Only entries of unique indexes hold something: their key.
                if !held.is_empty() {
                    given_up.insert(entry.clone(), key.clone());
                }
                deleted.insert(entry);
            }
            settled.push((key.clone(), now));
        }
        for (entry, (held, index, key)) in put {
            if index.unique {
                checks.unique.insert(entry.clone(), (index.id, key));
            }
            deleted.remove(&entry);
            checks.writes.insert(entry, Some(held));
        }
        checks.writes.extend(deleted.into_iter().map(|entry| (entry, None)));
        checks.given_up = given_up;
        self.settled.extend(settled);
        checks.writes.append(&mut self.held);
        Ok(checks)
    }
}

impl IndexList {
    /// Judges an entry of a unique index that was found.
    ///
    /// # Errors
    /// It is of another key.
    pub fn check_unique(&self, (index, key): &(u32, Key), found: Option<&Value>) -> Result<(), NotUnique> {
        match found {
            Some(owner) if owner[..] != key[..] => {
                let of = |one: &&Definition| one.id == *index;
                let index = self.indexes.iter().find(of).map_or_else(String::new, |one| one.name.clone());
                Err(NotUnique { index, key: readable(key), owner: readable(owner) })
            }
            _ => Ok(()),
        }
    }
}

fn unfit(index: &Definition, key: &Key, reason: String) -> Unfit {
    let (name, on) = (index.name.clone(), index.on.to_string());
    Unfit { index: name, on, key: readable(key), reason }
}

fn not_unique(index: &Definition, key: &Key, owner: &Key) -> NotUnique {
    NotUnique { index: index.name.clone(), key: readable(key), owner: readable(owner) }
}

/// The entries of a key in an index; none of a value that does not parse.
fn of_index(index: &Definition, key: &Key, value: Option<&Value>) -> Entries {
    value.and_then(|value| index.entries_of(key, value).ok()).unwrap_or_default()
}

fn entries(list: &IndexList, key: &Key, value: Option<&Value>) -> Entries {
    let kept = list.indexes.iter().filter(|index| index.is_kept());
    kept.flat_map(|index| of_index(index, key, value)).collect()
}

impl Definition {
    /// The entries of a key that is written, or was there before the index.
    ///
    /// # Errors
    /// The value does not parse, and the index does not leave it out; or an entry would be too long.
    pub fn entries_to_write(&self, key: &Key, value: &Value) -> Result<Entries, Unfit> {
        let entries = self.entries_of(key, value).map_err(|reason| unfit(self, key, reason))?;
        match entries.keys().map(|entry| entry.len()).find(|bytes| *bytes > KEY_BYTES_MAX) {
            Some(long) => Err(unfit(
                self,
                key,
                format!("and the key would make an entry of {long} bytes, and {KEY_BYTES_MAX} are the limit"),
            )),
            None => Ok(entries),
        }
    }

    /// The refusal of a key whose value belongs to another one.
    pub fn refuse_second(&self, key: &Key, owner: &[u8]) -> NotUnique {
        not_unique(self, key, &Key::copy_from_slice(owner))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::definition::Unparsable;

    fn list(unique: bool, unparsable: Unparsable) -> Arc<IndexList> {
        let mut list = IndexList::default();
        list.announce("by", &"json:/a".parse().unwrap(), unique, unparsable).unwrap();
        Arc::new(list)
    }

    fn key(name: &str) -> Key {
        Key::from(name.to_owned())
    }

    fn value(text: &str) -> Option<Value> {
        Some(Value::copy_from_slice(text.as_bytes()))
    }

    fn json(number: u8) -> Option<Value> {
        value(&format!("{{\"a\":{number}}}"))
    }

    #[test]
    fn a_write_that_does_not_parse_is_refused_in_words_or_left_out() {
        let mut keeper = Keeper::new(list(false, Unparsable::Refuse));
        let told = keeper.write(key("k"), value("x")).unwrap_err().to_string();
        assert!(
            told.contains("\"by\"")
                && told.contains("json:/a")
                && told.contains("\"k\"")
                && told.contains("no JSON"),
            "{told}"
        );
        assert!(!keeper.holds(), "what is refused is not held");
        let long = key(&"k".repeat(KEY_BYTES_MAX));
        assert!(keeper.write(long.clone(), json(1)).unwrap_err().to_string().contains("the limit"));
        keeper.write(long, value("{}")).unwrap();
        keeper.write(key("k"), None).unwrap();
        let mut lenient = Keeper::new(list(false, Unparsable::LeaveOut));
        lenient.write(key("k"), value("x")).unwrap();
        let checks = lenient.settle(&BTreeMap::from([(key("k"), json(1))])).unwrap();
        assert_eq!(checks.writes.len(), 2, "the entry from before is deleted: {checks:?}");
        assert!(checks.writes.contains(&(key("k"), value("x"))));
    }

    trait Contains {
        fn contains(&self, write: &(Key, Option<Value>)) -> bool;
    }

    impl Contains for BTreeMap<Key, Option<Value>> {
        fn contains(&self, (key, value): &(Key, Option<Value>)) -> bool {
            self.get(key) == Some(value)
        }
    }

    #[test]
    fn entries_that_stay_are_not_written() {
        let mut keeper = Keeper::new(list(false, Unparsable::Refuse));
        keeper.write(key("k"), value("{\"a\":1,\"b\":2}")).unwrap();
        let checks = keeper.settle(&BTreeMap::from([(key("k"), json(1))])).unwrap();
        assert_eq!(checks.writes.keys().collect::<Vec<_>>(), [&key("k")]);
    }

    #[test]
    fn a_unique_value_moves_within_a_transaction_and_is_given_once() {
        let before = BTreeMap::from([(key("k"), json(1)), (key("l"), None)]);
        let list = list(true, Unparsable::Refuse);
        let mut keeper = Keeper::new(Arc::clone(&list));
        keeper.write(key("l"), json(1)).unwrap();
        let checks = keeper.clone().settle(&before).unwrap();
        assert_eq!(checks.unique.values().collect::<Vec<_>>(), [&(1, key("l"))]);
        let (_, owner) = checks.unique.into_iter().next().unwrap();
        assert!(list.check_unique(&owner, None).is_ok());
        assert!(list.check_unique(&owner, Some(&Value::from_static(b"l"))).is_ok());
        let told = list.check_unique(&owner, Some(&Value::from_static(b"k"))).unwrap_err().to_string();
        assert!(told.contains("\"l\"") && told.contains("belongs to \"k\""), "{told}");
        keeper.write(key("k"), json(2)).unwrap();
        let moved = keeper.clone().settle(&before).unwrap();
        assert_eq!(moved.unique.values().collect::<Vec<_>>(), [&(1, key("l")), &(1, key("k"))]);
        let holds = |owner: &'static str| {
            let (one, two) = (moved.unread().into_iter().next().unwrap(), value(owner));
            moved.clone().judge(&list, move |entry| two.clone().filter(|_| *entry == one))
        };
        assert_eq!(holds("k"), Ok(moved.writes.clone()), "the value of l was k's own");
        assert!(holds("m").is_err());
        // A third key had the value before there was an index: its entry stays, and is written, so that the value is given to nobody meanwhile.
        let mut gives_up = Keeper::new(Arc::clone(&list));
        gives_up.write(key("k"), None).unwrap();
        let checks = gives_up.settle(&before).unwrap();
        let entry = checks.given_up.keys().next().unwrap().clone();
        for (owner, left) in [(None, None), (value("k"), None), (value("m"), value("m"))] {
            let writes = checks.clone().judge(&list, |_| owner.clone()).unwrap();
            assert_eq!(writes, BTreeMap::from([(key("k"), None), (entry.clone(), left)]));
        }
        assert_eq!(moved.writes.values().filter(|value| value.is_none()).count(), 0);
        keeper.write(key("k"), json(1)).unwrap();
        let clash = keeper.settle(&before).unwrap();
        assert!(clash.judge(&list, |_| value("k")).is_err(), "k keeps the value");
    }

    #[test]
    fn a_key_that_is_over_gives_up_what_another_one_takes() {
        let list = list(true, Unparsable::Refuse);
        let mut keeper = Keeper::new(Arc::clone(&list));
        keeper.write(key("new"), json(1)).unwrap();
        let checks = keeper.settle(&BTreeMap::new()).unwrap();
        let entry = checks.unique.keys().next().unwrap().clone();
        let holder = |of: &Key| (*of == entry).then(|| Value::from_static(b"old"));
        assert!(checks.clone().judge(&list, holder).is_err());
        let mut over = Keeper::new(Arc::clone(&list));
        over.write(key("old"), None).unwrap();
        let over = over.settle(&BTreeMap::from([(key("old"), json(1))])).unwrap();
        let writes = checks.beside(over).judge(&list, holder).unwrap();
        let expected =
            [(key("new"), json(1)), (key("old"), None), (entry.clone(), Some(Value::from_static(b"new")))];
        assert_eq!(writes, BTreeMap::from(expected));
    }

    proptest! {
        /// Whatever transactions write, in how many steps, the entries are those of the values.
        #[test]
        fn entries_are_those_of_the_values(
            transactions in prop::collection::vec(
                prop::collection::vec((0_u8..3, prop::option::of(0_u8..4), any::<bool>()), 1..5),
                1..6,
            ),
        ) {
            let list = list(false, Unparsable::Refuse);
            let mut store: BTreeMap<Key, Option<Value>> = BTreeMap::new();
            for transaction in transactions {
                let mut keeper = Keeper::new(Arc::clone(&list));
                let (before, mut buffered) = (store.clone(), BTreeMap::new());
                for (name, number, settles) in transaction {
                    keeper.write(key(&format!("k{name}")), number.and_then(json)).unwrap();
                    if settles {
                        buffered.extend(keeper.settle(&before).unwrap().writes);
                    }
                }
                buffered.extend(keeper.settle(&before).unwrap().writes);
                prop_assert!(!keeper.holds());
                store.extend(buffered);
            }
            let users = store.iter().filter(|(key, _)| !quorate_core::reserved::is_reserved(key));
            let expected: Entries =
                users.flat_map(|(key, value)| entries(&list, key, value.as_ref())).collect();
            let present = store.iter().filter(|(key, value)| quorate_core::reserved::is_reserved(key) && value.is_some());
            let present: Entries = present.map(|(key, value)| (key.clone(), value.clone().unwrap())).collect();
            prop_assert_eq!(present, expected);
        }
    }
}
