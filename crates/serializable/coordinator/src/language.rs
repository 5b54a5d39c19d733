//! The operations that shards are sent in the name of transactions, and their answers.

use quorate_coordinator::Page;
use quorate_core::command::{Failure, Invalid};
use quorate_core::transaction::{KeyVersion, LimitExceeded, TRANSACTION_BYTES_MAX};
use quorate_core::{ClientId, Key, KeyRange, Timestamp, Value};
use quorate_granola::{Answer, Place};
use quorate_serializable_shard::answer::{Found, FoundKey, Held, Refusal, read_answer};
use quorate_serializable_shard::operation::{Batch, Condition, Operation, SCAN_KEYS_MAX, Step};

/// Reads keys.
pub(crate) fn gets<'a>(keys: impl IntoIterator<Item = &'a Key>) -> Value {
    let steps = keys.into_iter().map(|key| Step::Get { key: key.clone() }).collect();
    Operation::Batch(Batch { conditions: Vec::new(), steps }).encode()
}

/// Reads a range, as much of it as may be asked for at once.
pub(crate) fn scan(range: &KeyRange, limit: u32) -> Value {
    let limit = limit.clamp(1, SCAN_KEYS_MAX);
    let step = Step::Scan { range: range.clone(), limit, descending: false };
    Operation::Batch(Batch { conditions: Vec::new(), steps: vec![step] }).encode()
}

/// Compares, and writes if everything is as it was.
pub(crate) fn compare_and_write(conditions: Vec<Condition>, writes: Vec<quorate_core::Write>) -> Value {
    let step = |write: quorate_core::Write| match write.value {
        Some(value) => Step::Put { key: write.key, value },
        None => Step::Delete { key: write.key },
    };
    let steps = writes.into_iter().map(step).collect();
    Operation::Batch(Batch { conditions, steps }).encode()
}

/// The result of each of so many steps.
pub(crate) fn found(answer: &Answer, steps: usize) -> Result<Vec<Found>, Failure> {
    match read_answer(answer) {
        Ok(Ok(quorate_serializable_shard::answer::Answer::Batch(found))) if found.len() == steps => Ok(found),
        Ok(Err(Refusal::TooLarge)) => {
            let limit = LimitExceeded::Transaction { key: String::new(), bytes: TRANSACTION_BYTES_MAX };
            Err(Failure::Invalid(Invalid::Limit(limit)))
        }
        // A condition does not hold; or it is no answer to what was asked, and counts for nothing.
        _ => Err(Failure::Conflict),
    }
}

/// The result of a get.
pub(crate) fn held(found: Found) -> Option<Held> {
    match found {
        Found::Held(held) => Some(held),
        _ => None,
    }
}

/// The result of a scan, and where each version stands.
pub(crate) fn page_of(found: Found) -> (Page, Vec<Place>) {
    let Found::Keys { keys, more } = found else { return Default::default() };
    let next = keys.last().filter(|_| more).map(|last| successor(&last.key));
    let places = keys.iter().map(|found| place_of(&found.held)).collect();
    let keys = keys.into_iter().map(|FoundKey { key, held }| KeyVersion {
        key,
        version: in_short(place_of(&held)),
        value: Some(held.value),
    });
    (Page { keys: keys.collect(), next }, places)
}

/// Where a version stands. A transaction that only reads has written none of them.
pub(crate) fn place_of(held: &Held) -> Place {
    held.place.unwrap_or_default()
}

/// The least key above another.
fn successor(key: &Key) -> Key {
    let mut next = key.to_vec();
    next.push(0);
    Key::from(next)
}

/// A version as other protocols name it, which two transactions of one client may share.
pub(crate) fn in_short(place: Place) -> Timestamp {
    Timestamp { micros: place.timestamp.as_micros(), client: place.transaction.client }
}

/// A version that stands for absence.
pub(crate) const ABSENT: Timestamp = Timestamp { micros: 0, client: ClientId(0) };
