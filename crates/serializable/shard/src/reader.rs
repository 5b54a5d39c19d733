//! The reader's side of what is [frozen](Freeze): the operation that freezes all shards of a keyspace, and the pages of each.
//!
//! It is the same for a backup of a cluster and in the simulator.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::{ClockTime, Key, ShardId, Value};

use crate::answer::{Answer, Found, FoundKey, Refusal};
use crate::operation::{Freeze, Operation, ReadFrozen};

/// The answer of a shard that does not fit with what it was asked.
const SOMETHING_ELSE: &str = "it has answered something else";

/// The part of each shard of a transaction that freezes all of them, for this reader.
pub fn freezing(reader: u64, shards: impl IntoIterator<Item = ShardId>) -> BTreeMap<ShardId, Value> {
    let part = Operation::Freeze(Freeze { reader }).encode();
    shards.into_iter().map(|shard| (shard, part.clone())).collect()
}

/// The instant at which shards were frozen that have answered so.
///
/// # Errors
/// Why what they have frozen is not one state, for people.
pub fn frozen_at(answers: &BTreeMap<ShardId, Value>) -> Result<ClockTime, String> {
    let mut instants = BTreeSet::new();
    for (shard, answer) in answers {
        let found = batch(answer).map_err(|reason| format!("{shard}: {reason}"))?;
        let &[Found::Length(_), Found::Number(micros)] = &found[..] else {
            return Err(format!("{shard}: {SOMETHING_ELSE}"));
        };
        let micros = u64::try_from(micros).map_err(|_| format!("{shard}: {SOMETHING_ELSE}"))?;
        instants.insert(ClockTime::from_micros(micros));
    }
    match (instants.len(), instants.first()) {
        (1, Some(at)) => Ok(*at),
        _ => Err("its shards were not frozen at one instant".to_owned()),
    }
}

/// Why a shard has not done what a reader asks, for people.
pub fn not_frozen(reason: &Value) -> String {
    match Refusal::decode(reason) {
        Ok(Refusal::Malformed { text }) => {
            format!("it does not know how ({text}): is the version of its nodes older than this one?")
        }
        Ok(refusal) => refusal.to_string(),
        Err(malformed) => format!("it answers what cannot be understood: {malformed}"),
    }
}

/// Reads what one shard has frozen: procedures first, and then the keys that they work on.
#[derive(Clone, Debug)]
pub struct FrozenReader {
    reader: u64,
    at: ClockTime,
    after: Key,
    reads_procedures: bool,
    is_over: bool,
}

/// A page of what a shard has frozen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrozenPage {
    /// Procedures: the name of each, a byte zero and its version, with its code.
    Procedures(Vec<FoundKey>),
    /// Keys with their values.
    Keys(Vec<FoundKey>),
}

impl FrozenReader {
    /// Begins to read what was frozen for this reader at an instant.
    pub fn new(reader: u64, at: ClockTime) -> Self {
        FrozenReader { reader, at, after: Key::default(), reads_procedures: true, is_over: false }
    }

    /// The request for the next page, of a transaction that only reads.
    pub fn next(&self) -> Value {
        let FrozenReader { reader, at, ref after, reads_procedures: procedures, .. } = *self;
        Operation::ReadFrozen(ReadFrozen { reader, at, procedures, after: after.clone() }).encode()
    }

    /// Takes the answer to it.
    ///
    /// # Errors
    /// Why that is no page, for people.
    pub fn on_answer(&mut self, answer: &Value) -> Result<FrozenPage, String> {
        let Some(Found::Keys { keys, more }) = batch(answer)?.into_iter().next() else {
            return Err(SOMETHING_ELSE.to_owned());
        };
        let last = keys.last().filter(|_| more).map(|found| found.key.clone());
        if more && last.as_ref().is_none_or(|last| *last <= self.after) {
            return Err("it gives the same page again and again".to_owned());
        }
        self.is_over = !more && !self.reads_procedures;
        let page = if self.reads_procedures { FrozenPage::Procedures(keys) } else { FrozenPage::Keys(keys) };
        self.reads_procedures &= more;
        self.after = last.unwrap_or_default();
        Ok(page)
    }

    /// True once the last page was read.
    pub fn is_over(&self) -> bool {
        self.is_over
    }
}

fn batch(answer: &Value) -> Result<Vec<Found>, String> {
    match Answer::decode(answer) {
        Ok(Answer::Batch(found)) => Ok(found),
        Ok(_) => Err(SOMETHING_ELSE.to_owned()),
        Err(malformed) => Err(malformed.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Held;

    const AT: ClockTime = ClockTime::from_micros(70);

    fn frozen(micros: i64) -> Value {
        Answer::Batch(vec![Found::Length(3), Found::Number(micros)]).encode()
    }

    fn page(keys: &[&str], more: bool) -> Value {
        let keys = keys.iter().map(|key| FoundKey {
            key: Key::copy_from_slice(key.as_bytes()),
            held: Held { place: None, value: Value::from_static(b"1") },
        });
        Answer::Batch(vec![Found::Keys { keys: keys.collect(), more }]).encode()
    }

    #[test]
    fn shards_are_frozen_at_one_instant_or_not_at_all() {
        let answers = |instants: &[i64]| -> BTreeMap<ShardId, Value> {
            (1..).map(ShardId).zip(instants.iter().map(|micros| frozen(*micros))).collect()
        };
        assert_eq!(frozen_at(&answers(&[70, 70])), Ok(AT));
        assert!(frozen_at(&answers(&[70, 71])).is_err_and(|reason| reason.contains("one instant")));
        assert!(frozen_at(&answers(&[])).is_err_and(|reason| reason.contains("one instant")));
        assert!(frozen_at(&answers(&[-1])).is_err_and(|reason| reason.contains("something else")));
        let other = BTreeMap::from([(ShardId(1), page(&[], false))]);
        assert!(frozen_at(&other).is_err_and(|reason| reason.contains("something else")));
        let malformed = BTreeMap::from([(ShardId(1), Value::from_static(b"\xff"))]);
        assert!(frozen_at(&malformed).is_err());
    }

    #[test]
    fn procedures_are_read_before_keys_page_by_page() {
        let mut reader = FrozenReader::new(7, AT);
        let wants = |reader: &FrozenReader, procedures: bool, after: &str| {
            let after = Key::copy_from_slice(after.as_bytes());
            let wanted = ReadFrozen { reader: 7, at: AT, procedures, after };
            assert_eq!(Operation::decode(&reader.next()), Ok(Operation::ReadFrozen(wanted)));
            assert!(!reader.is_over());
        };
        wants(&reader, true, "");
        assert!(
            matches!(reader.on_answer(&page(&["p"], true)), Ok(FrozenPage::Procedures(found)) if found.len() == 1)
        );
        wants(&reader, true, "p");
        assert_eq!(reader.on_answer(&page(&[], false)), Ok(FrozenPage::Procedures(Vec::new())));
        wants(&reader, false, "");
        assert!(
            matches!(reader.on_answer(&page(&["a", "b"], true)), Ok(FrozenPage::Keys(found)) if found.len() == 2)
        );
        wants(&reader, false, "b");
        assert_eq!(reader.on_answer(&page(&[], false)), Ok(FrozenPage::Keys(Vec::new())));
        assert!(reader.is_over());
    }

    #[test]
    fn a_shard_that_would_be_read_for_ever_is_told_apart() {
        for (before, answer) in
            [(None, page(&[], true)), (Some("b"), page(&["a"], true)), (Some("b"), page(&["b"], true))]
        {
            let mut reader = FrozenReader::new(7, AT);
            before.iter().for_each(|key| assert!(reader.on_answer(&page(&[*key], true)).is_ok()));
            assert!(reader.on_answer(&answer).is_err_and(|reason| reason.contains("again and again")));
        }
        let mut reader = FrozenReader::new(7, AT);
        assert!(reader.on_answer(&frozen(70)).is_err_and(|reason| reason.contains("something else")));
    }
}
