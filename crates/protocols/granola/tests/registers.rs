//! An application for tests: registers that hold words. An operation is a line: `put KEY WORD`, `append KEY WORD` or `get KEY…`.
//! It answers with what it has found.

use std::collections::BTreeMap;

use quorate_core::Value;
use quorate_granola::{Application, Place};

/// Registers, with what each has held since the point up to which everything is settled.
#[derive(Debug, Default)]
pub(crate) struct Registers {
    held: BTreeMap<String, BTreeMap<Place, String>>,
    /// How often something was written below what had been written already, or where nothing changes any more: never, unless a
    /// bug is planted.
    pub(crate) disorders: usize,
    /// Up to here everything is settled, and what has run last.
    settled: Place,
    last: Place,
}

/// One register.
pub(crate) type Page = (String, Place, String);

impl Registers {
    fn get(&self, key: &str, before: Option<Place>) -> Option<(Place, &str)> {
        let held = self.held.get(key)?;
        let last = match before {
            Some(before) => held.range(..before).next_back(),
            None => held.last_key_value(),
        };
        last.map(|(place, word)| (*place, word.as_str()))
    }

    fn found(&self, keys: &[&str], before: Option<Place>) -> Value {
        let found = keys.iter().map(|key| self.get(key, before).map_or("nothing", |(_, word)| word));
        Value::from(found.collect::<Vec<_>>().join(" "))
    }

    /// What every register holds now, and since when.
    pub(crate) fn all(&self) -> impl Iterator<Item = Page> + '_ {
        let keys = self.held.keys();
        keys.filter_map(|key| self.get(key, None).map(|(place, word)| (key.clone(), place, word.to_owned())))
    }
}

impl Application for Registers {
    type Page = Page;
    type Frozen = Vec<Page>;

    fn run(&mut self, place: Place, operation: &Value) -> Value {
        let line = String::from_utf8_lossy(operation).into_owned();
        let words: Vec<&str> = line.split(' ').collect();
        let (key, word) = match words[..] {
            ["put", key, word] => (key, word.to_owned()),
            ["append", key, word] => {
                let before = self.get(key, None).map(|(_, held)| format!("{held},")).unwrap_or_default();
                (key, before + word)
            }
            ["get", ref keys @ ..] => return self.found(keys, None),
            _ => return Value::from("no such operation"),
        };
        let found = self.found(&[key], None);
        let held = self.held.entry(key.to_owned()).or_default();
        let is_next = held.keys().next_back().is_none_or(|last| *last < place) && place >= self.settled;
        self.disorders += usize::from(!is_next);
        self.last = place;
        held.insert(place, word);
        found
    }

    fn read(&self, before: Place, operation: &Value) -> Value {
        let line = String::from_utf8_lossy(operation).into_owned();
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["get", ref keys @ ..] => self.found(keys, Some(before)),
            _ => Value::from("that is not a read"),
        }
    }

    fn settle(&mut self, below: Option<Place>) {
        self.settled = self.settled.max(below.map_or(self.last, |below| below.min(self.last)));
        for held in self.held.values_mut() {
            let settled = match below {
                Some(below) => held.range(..below).next_back(),
                None => held.last_key_value(),
            };
            if let Some(settled) = settled.map(|(place, _)| *place) {
                *held = held.split_off(&settled);
            }
        }
    }

    fn rewind(&mut self, to: Place) {
        self.disorders += usize::from(to < self.settled);
        self.last = self.settled;
        for held in self.held.values_mut() {
            held.split_off(&to);
        }
        self.held.retain(|_, held| !held.is_empty());
    }

    fn freeze(&self, below: Option<Place>) -> Vec<Page> {
        let held = self.held.keys().rev();
        held.filter_map(|key| self.get(key, below).map(|(place, word)| (key.clone(), place, word.to_owned())))
            .collect()
    }

    fn next_page(frozen: &mut Vec<Page>, _: usize) -> Option<Page> {
        frozen.pop()
    }

    fn from_pages(pages: Vec<Page>) -> Self {
        let held = pages.into_iter().map(|(key, place, word)| (key, BTreeMap::from([(place, word)])));
        Registers { held: held.collect(), ..Registers::default() }
    }
}
