//! An application for tests: registers that hold words. An operation is a line:
//!
//! | line | meaning |
//! |---|---|
//! | `put KEY WORD`, `append KEY WORD` | answers with what it has found |
//! | `swap KEY OLD NEW` | refused, with what it has found, unless that is OLD |
//! | `follow KEY WORD` | puts the word into the register whose name stands in KEY: what it writes depends on what it has found |
//! | `get KEY…` | only reads |
//! | `toil KEY WORK` | puts how much work that was into the register |
//! | `stamp KEY` | puts its timestamp into the register: what it writes depends on its place |

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use quorate_core::changes;
use quorate_core::verify::{Digester, Item};
use quorate_core::{ClientId, ClockTime, Timestamp, TransactionId, Value};
use quorate_granola::{Answer, Application, Place, Prepared, Read};

/// Registers, with what each has held since the point up to which everything is settled.
#[derive(Debug, Default)]
pub(crate) struct Registers {
    held: BTreeMap<String, BTreeMap<Place, String>>,
    prepared: BTreeMap<TransactionId, Locked>,
    /// How often something was written below what had been written there already, or where nothing changes any more: never, unless
    /// a bug is planted.
    pub(crate) disorders: usize,
    /// How often something was only read.
    pub(crate) reads: Cell<usize>,
    /// How much work operations have been.
    pub(crate) work: Cell<u64>,
    /// Up to here everything is settled, and the last place at which anything has run.
    settled: Place,
    last: Place,
}

/// The word that stands for the timestamp of the transaction that writes it.
const STAMP: &str = "(timestamp)";

/// One register.
pub(crate) type Page = (String, Place, String);

/// The reads, the write and the answer that an operation would come to.
#[derive(Debug)]
struct Plan {
    reads: BTreeSet<String>,
    write: Option<(String, String)>,
    answer: Answer,
}

/// The locks of a transaction.
#[derive(Debug)]
struct Locked {
    operation: Value,
    reads: BTreeSet<String>,
    writes: BTreeSet<String>,
    /// True if it has locked all registers.
    everything: bool,
    /// True if others may have locked the same.
    is_forced: bool,
}

impl Locked {
    fn stands_against_all(&self, other: &Locked) -> bool {
        other.everything
            || self.stands_against(&other.reads, None)
            || other.writes.iter().any(|key| self.stands_against(&BTreeSet::new(), Some(key)))
    }

    fn stands_against(&self, reads: &BTreeSet<String>, write: Option<&String>) -> bool {
        self.everything
            || reads.iter().any(|key| self.writes.contains(key))
            || write.is_some_and(|key| self.writes.contains(key) || self.reads.contains(key))
    }
}

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

    fn plan(&self, operation: &Value, before: Option<Place>) -> Plan {
        let line = String::from_utf8_lossy(operation).into_owned();
        let words: Vec<&str> = line.split(' ').collect();
        let reads = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
        let found = |key| self.get(key, before).map_or("nothing", |(_, word)| word).to_owned();
        let done = |key| Answer::Done(Value::from(found(key)));
        match words[..] {
            ["put", key, word] => {
                Plan { reads: reads(&[key]), write: Some((key.into(), word.into())), answer: done(key) }
            }
            ["append", key, word] => {
                let before = self.get(key, before).map(|(_, held)| format!("{held},")).unwrap_or_default();
                Plan { reads: reads(&[key]), write: Some((key.into(), before + word)), answer: done(key) }
            }
            ["swap", key, old, new] if found(key) == old => {
                Plan { reads: reads(&[key]), write: Some((key.into(), new.into())), answer: done(key) }
            }
            ["swap", key, ..] => {
                let answer = Answer::Refused(Value::from(found(key)));
                Plan { reads: reads(&[key]), write: None, answer }
            }
            ["follow", key, word] => {
                let to = found(key);
                let answer = Answer::Done(Value::from(found(&to)));
                Plan { reads: reads(&[key, &to]), write: Some((to, word.into())), answer }
            }
            ["toil", key, work] => {
                self.work.set(self.work.get() + work.parse::<u64>().unwrap_or_default());
                Plan { reads: reads(&[key]), write: Some((key.into(), work.into())), answer: done(key) }
            }
            ["stamp", key] => {
                Plan { reads: reads(&[key]), write: Some((key.into(), STAMP.into())), answer: done(key) }
            }
            ["get", ref keys @ ..] => {
                Plan { reads: reads(keys), write: None, answer: Answer::Done(self.found(keys, before)) }
            }
            _ => {
                let answer = Answer::Refused(Value::from("no such operation"));
                Plan { reads: BTreeSet::new(), write: None, answer }
            }
        }
    }

    fn is_locked(&self, reads: &BTreeSet<String>, write: Option<&String>) -> bool {
        self.locked_by(reads, write).is_some()
    }

    fn locked_by(&self, reads: &BTreeSet<String>, write: Option<&String>) -> Option<TransactionId> {
        let mut locked = self.prepared.iter();
        locked.find(|(_, locked)| locked.stands_against(reads, write)).map(|(id, _)| *id)
    }

    fn write(&mut self, place: Place, plan: Plan) -> Answer {
        self.last = self.last.max(place);
        if let Some((key, word)) = plan.write {
            let held = self.held.entry(key).or_default();
            let word = if word == STAMP { place.timestamp.as_micros().to_string() } else { word };
            let is_next = held.keys().next_back().is_none_or(|last| *last < place) && place >= self.settled;
            self.disorders += usize::from(!is_next);
            held.insert(place, word);
        }
        plan.answer
    }

    /// The values that all registers hold now, and since when.
    pub(crate) fn all(&self) -> impl Iterator<Item = Page> + '_ {
        let keys = self.held.keys();
        keys.filter_map(|key| self.get(key, None).map(|(place, word)| (key.clone(), place, word.to_owned())))
    }

    /// The prepared transactions, and whether others may have locked the same.
    pub(crate) fn prepared(&self) -> impl Iterator<Item = (TransactionId, bool)> + '_ {
        self.prepared.iter().map(|(id, locked)| (*id, locked.is_forced))
    }
}

impl Application for Registers {
    type Page = Page;
    type Frozen = Vec<Page>;
    type Canonical = Self;

    fn run(&mut self, place: Place, operation: &Value) -> Option<Answer> {
        let plan = self.plan(operation, None);
        let write = plan.write.as_ref().map(|(key, _)| key);
        (!self.is_locked(&plan.reads, write)).then(|| self.write(place, plan))
    }

    fn read(&self, before: Place, operation: &Value) -> Read {
        self.reads.set(self.reads.get() + 1);
        let plan = self.plan(operation, Some(before));
        let answer = match plan.write {
            Some(_) => Answer::Refused(Value::from("that is not a read")),
            None => plan.answer,
        };
        Read { answer, locked_by: self.locked_by(&plan.reads, None) }
    }

    fn prepare(&mut self, transaction: TransactionId, operation: &Value) -> Prepared {
        let Plan { reads, write, answer } = self.plan(operation, None);
        if self.is_locked(&reads, write.as_ref().map(|(key, _)| key)) {
            return Prepared::Conflict;
        }
        let asks_for_its_place = write.as_ref().is_some_and(|(_, word)| word == STAMP);
        let writes = write.into_iter().map(|(key, _)| key).collect();
        let operation = operation.clone();
        let locked = Locked { operation, reads, writes, everything: false, is_forced: false };
        self.prepared.insert(transaction, locked);
        match answer {
            Answer::Done(_) if asks_for_its_place => Prepared::Late(Value::from("it has no timestamp yet")),
            Answer::Done(_) => Prepared::Commit(answer),
            Answer::Refused(reason) => Prepared::Abort(reason),
        }
    }

    fn force_prepare(&mut self, transaction: TransactionId, operation: &Value) -> bool {
        let Plan { reads, .. } = self.plan(operation, None);
        let everything = operation.starts_with(b"follow");
        let writes = reads.clone();
        let operation = operation.clone();
        let locked = Locked { operation, reads, writes, everything, is_forced: true };
        let is_free = !self.prepared.values().any(|other| other.stands_against_all(&locked));
        self.prepared.insert(transaction, locked);
        is_free
    }

    fn commit(&mut self, place: Place) -> Answer {
        let locked = self.prepared.remove(&place.transaction).expect("what is committed was prepared");
        let plan = self.plan(&locked.operation, None);
        self.write(place, plan)
    }

    fn abort(&mut self, transaction: TransactionId) {
        self.prepared.remove(&transaction).expect("what is aborted was prepared");
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

    /// It retains nothing, and says what is certain.
    fn changes(&self, _: &changes::Request, certain: ClockTime) -> changes::Answer {
        let certain = Timestamp { micros: certain.as_micros(), client: ClientId(0) };
        changes::Answer::TooOld { retained_from: certain }
    }

    fn work(&self) -> u64 {
        self.work.get()
    }

    fn digest((key, place, word): &Page, digester: &mut Digester) {
        let stamps = [place.timestamp.as_micros(), place.transaction.client.0, place.transaction.sequence];
        digester.add(Item {
            space: Item::DATA,
            key: key.as_bytes(),
            stamps: &stamps,
            value: Some(word.as_bytes()),
        });
    }

    fn from_pages(pages: Vec<Page>) -> Self {
        let held = pages.into_iter().map(|(key, place, word)| (key, BTreeMap::from([(place, word)])));
        Registers { held: held.collect(), ..Registers::default() }
    }
}
