//! Batches: conditions, and steps.

use quorate_core::{Key, KeyRange, Value};
use quorate_granola::Place;

use super::End;
use super::locks::{Access, Touched};
use super::versions::Seen;
use super::work::{ENTRY_BYTES, Work};
use crate::answer::{Answer, Found, FoundKey, Held, Refusal};
use crate::arithmetic::{appended, incremented, is_at_least};
use crate::operation::{Batch, Condition, Step};

/// A scan ends once it has found about so much.
pub(crate) const SCAN_BYTES: usize = 1024 * 1024;

/// Carries a batch out, and gives the bytes of its answer.
pub(super) fn execute(work: &mut Work<'_>, batch: Batch) -> Result<Value, End> {
    for (which, condition) in (0..).zip(&batch.conditions) {
        check(work, which, condition)?;
    }
    let steps = (0..).zip(batch.steps);
    let found = steps.map(|(which, step)| take(work, which, step)).collect::<Result<_, End>>()?;
    Ok(Answer::Batch(found).encode())
}

/// All keys that a batch may touch, in any state of the shard.
pub(super) fn footprint(batch: &Batch) -> Touched {
    let mut touched = Touched::default();
    for condition in &batch.conditions {
        match condition {
            Condition::Absent { key }
            | Condition::Exists { key }
            | Condition::Version { key, .. }
            | Condition::Value { key, .. }
            | Condition::AtLeast { key, .. } => touched.key(key, Access::Read),
            Condition::Unchanged { range, .. } => touched.range(range.clone(), Access::Read),
        }
    }
    for step in &batch.steps {
        match step {
            Step::Get { key } => touched.key(key, Access::Read),
            Step::Put { key, .. }
            | Step::Delete { key }
            | Step::Increment { key, .. }
            | Step::Append { key, .. } => touched.key(key, Access::Write),
            Step::Scan { range, .. } => touched.range(range.clone(), Access::Read),
        }
    }
    touched
}

fn check(work: &mut Work<'_>, which: u32, condition: &Condition) -> Result<(), End> {
    let key = match condition {
        Condition::Absent { key }
        | Condition::Exists { key }
        | Condition::Version { key, .. }
        | Condition::Value { key, .. }
        | Condition::AtLeast { key, .. } => key,
        Condition::Unchanged { range, before, keys } => {
            return check_range(work, which, range, *before, *keys);
        }
    };
    let seen = work.read(key)?;
    let holds = match condition {
        Condition::Absent { .. } => seen.is_none(),
        Condition::Exists { .. } => seen.is_some(),
        Condition::Version { version, .. } => seen.is_some_and(|seen| seen.place == Some(*version)),
        Condition::Value { value, .. } => seen.is_some_and(|seen| seen.value == value),
        Condition::AtLeast { number, .. } => is_at_least(seen.as_ref().map(|seen| &seen.value[..]), *number),
        Condition::Unchanged { .. } => true,
    };
    if holds {
        return Ok(());
    }
    let found = seen.map(held);
    Err(End::Refused(Refusal::Condition { condition: which, found }))
}

/// Nothing of a range stands at this place or above, and nothing is missing.
fn check_range(
    work: &mut Work<'_>,
    which: u32,
    range: &KeyRange,
    before: Place,
    expected: u64,
) -> Result<(), End> {
    let mut count = 0;
    let has_changed = work.scan(range, false, |_, seen| {
        count += 1;
        count <= expected && seen.place.is_some_and(|place| place < before)
    })?;
    if has_changed || count != expected {
        return Err(End::Refused(Refusal::Condition { condition: which, found: None }));
    }
    Ok(())
}

fn take(work: &mut Work<'_>, which: u32, step: Step) -> Result<Found, End> {
    let fault = |fault| End::Refused(Refusal::Step { step: which, fault });
    Ok(match step {
        Step::Get { key } => work.read(&key)?.map_or(Found::Absent, |seen| Found::Held(held(seen))),
        Step::Put { key, value } => {
            work.write(key, Some(value))?;
            Found::Done
        }
        Step::Delete { key } => {
            work.write(key, None)?;
            Found::Done
        }
        Step::Increment { key, by } => {
            let seen = work.read(&key)?;
            let number = incremented(seen.map(|seen| seen.value.as_ref()), by).map_err(fault)?;
            work.write(key, Some(Value::from(number.to_string())))?;
            Found::Number(number)
        }
        Step::Append { key, value } => {
            let seen = work.read(&key)?;
            let whole = appended(seen.map(|seen| seen.value.as_ref()), &value).map_err(fault)?;
            let length = whole.len();
            work.write(key, Some(whole))?;
            Found::Length(length as u64)
        }
        Step::Scan { range, limit, descending } => scan(work, &range, limit, descending)?,
    })
}

fn scan(work: &mut Work<'_>, range: &KeyRange, limit: u32, descending: bool) -> Result<Found, End> {
    let (mut keys, mut bytes) = (Vec::new(), 0);
    let more = work.scan(range, descending, |key: &Key, seen| {
        if keys.len() >= limit as usize || bytes >= SCAN_BYTES {
            return false;
        }
        bytes += ENTRY_BYTES + key.len() + seen.value.len();
        keys.push(FoundKey { key: key.clone(), held: held(seen) });
        true
    })?;
    Ok(Found::Keys { keys, more })
}

fn held(seen: Seen<'_>) -> Held {
    Held { place: seen.place, value: seen.value.clone() }
}
