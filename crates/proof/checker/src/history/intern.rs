//! Keys, sessions and sites as small numbers: each name is stored once.

use std::collections::HashMap;
use std::fmt;

use foldhash::fast::FixedState;

use super::{KeyId, Malformed};

/// A key as the history spells it. The integer `1` and the string `"1"` are two keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// An integer key.
    Int(i64),
    /// A string key.
    Text(Box<str>),
}

impl From<i64> for Key {
    fn from(key: i64) -> Self {
        Key::Int(key)
    }
}

impl From<&str> for Key {
    fn from(key: &str) -> Self {
        Key::Text(key.into())
    }
}

impl From<String> for Key {
    fn from(key: String) -> Self {
        Key::Text(key.into())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Int(key) => write!(f, "{key}"),
            Key::Text(key) => write!(f, "{key}"),
        }
    }
}

/// The type of values that a key holds. A key has one type throughout a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyType {
    /// A list that transactions append to.
    List,
    /// A register that transactions overwrite.
    Register,
    /// A counting set: elements with a count that may be negative.
    CountingSet,
}

impl KeyType {
    /// The type in words.
    pub fn name(self) -> &'static str {
        match self {
            KeyType::List => "list",
            KeyType::Register => "register",
            KeyType::CountingSet => "counting set",
        }
    }
}

/// The keys of a history, numbered in the order of their first appearance.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyTable {
    names: Vec<Key>,
    types: Vec<Option<KeyType>>,
    ints: HashMap<i64, KeyId, FixedState>,
    texts: HashMap<Box<str>, KeyId, FixedState>,
}

impl KeyTable {
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Key> {
        self.names.iter()
    }

    pub(crate) fn clear(&mut self) {
        self.names.clear();
        self.types.clear();
        self.ints.clear();
        self.texts.clear();
    }

    pub(crate) fn intern_int(&mut self, key: i64) -> KeyId {
        if let Some(&id) = self.ints.get(&key) {
            return id;
        }
        let id = self.add(Key::Int(key));
        self.ints.insert(key, id);
        id
    }

    pub(crate) fn intern_text(&mut self, key: &str) -> KeyId {
        if let Some(&id) = self.texts.get(key) {
            return id;
        }
        let id = self.add(Key::Text(key.into()));
        self.texts.insert(key.into(), id);
        id
    }

    pub(crate) fn intern(&mut self, key: &Key) -> KeyId {
        match key {
            Key::Int(key) => self.intern_int(*key),
            Key::Text(key) => self.intern_text(key),
        }
    }

    fn add(&mut self, key: Key) -> KeyId {
        // Keys are fewer than operations, whose number the builder bounds.
        let id = KeyId(self.names.len() as u32);
        self.names.push(key);
        self.types.push(None);
        id
    }

    pub(crate) fn name(&self, key: KeyId) -> &Key {
        &self.names[key.index()]
    }

    pub(crate) fn key_type(&self, key: KeyId) -> Option<KeyType> {
        self.types[key.index()]
    }

    /// Fixes the type of a key at its first typed use, and refuses another one later.
    pub(crate) fn require_type(&mut self, key: KeyId, now: KeyType) -> Result<(), Malformed> {
        match self.types[key.index()] {
            None => self.types[key.index()] = Some(now),
            Some(before) if before == now => {}
            Some(before) => {
                let key = self.names[key.index()].to_string();
                return Err(Malformed::KeyOfTwoTypes { key, before: before.name(), now: now.name() });
            }
        }
        Ok(())
    }
}

/// Session or site names, numbered in the order of their first appearance.
#[derive(Debug, Clone, Default)]
pub(crate) struct NameTable {
    names: Vec<Box<str>>,
    ids: HashMap<Box<str>, u32, FixedState>,
}

impl NameTable {
    pub(crate) fn intern(&mut self, name: &str) -> u32 {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let id = self.names.len() as u32;
        self.names.push(name.into());
        self.ids.insert(name.into(), id);
        id
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    pub(crate) fn clear(&mut self) {
        self.names.clear();
        self.ids.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn name(&self, id: u32) -> &str {
        &self.names[id as usize]
    }
}
