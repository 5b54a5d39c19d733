//! The model: two maps, and a line for everything that can be done to them.

use std::collections::BTreeMap;

use quorate_core::{KeyRange, Value};
use quorate_granola::Place;
use quorate_serializable_shard::{
    Answer, Batch, Call, Condition, Declared, Found, FoundKey, Held, Inferred, Operation, Refusal, Step,
    StepFault, Version,
};

pub(crate) type Result = std::result::Result<Answer, Refusal>;

/// The versions of keys and procedures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) keys: BTreeMap<Vec<u8>, Version>,
    pub(crate) procedures: BTreeMap<Vec<u8>, Version>,
}

impl State {
    /// Executes an operation; what refuses changes nothing.
    pub(crate) fn run(&mut self, place: Place, operation: &Operation) -> Result {
        let mut after = self.clone();
        let result = after.execute(place, operation);
        if result.is_ok() {
            *self = after;
        }
        result
    }

    /// Executes an operation that must not write.
    pub(crate) fn read(&self, operation: &Operation) -> Result {
        let first_write = match operation {
            Operation::Batch(batch) => batch.steps.iter().position(|step| !step.reads_only()),
            Operation::Call(_) => Some(0),
            Operation::Deploy(_) | Operation::Remove(_) => return Err(Refusal::ReadOnly),
            Operation::Infer(_) => None,
            Operation::Freeze(_) | Operation::ReadFrozen(_) => unreachable!("the model freezes nothing"),
        };
        let result = self.clone().execute(Place::default(), operation);
        match (operation, first_write, result) {
            (_, None, result) => result,
            (Operation::Batch(_), _, Err(Refusal::Condition { condition, found })) => {
                Err(Refusal::Condition { condition, found })
            }
            // An increment that refuses has not written yet.
            (_, Some(first), Err(Refusal::Step { step, fault })) if step as usize == first => {
                Err(Refusal::Step { step, fault })
            }
            (_, _, Err(refusal @ (Refusal::NoSuchProcedure { .. } | Refusal::Failed { .. })))
                if !refusal.to_string().contains("overfull") =>
            {
                Err(refusal)
            }
            _ => Err(Refusal::ReadOnly),
        }
    }

    pub(crate) fn count(&self, range: &KeyRange) -> u64 {
        self.keys.keys().filter(|key| range.contains(key)).count() as u64
    }

    fn execute(&mut self, place: Place, operation: &Operation) -> Result {
        match operation {
            Operation::Batch(batch) => self.batch(place, batch),
            Operation::Call(call) => self.call(place, call),
            Operation::Deploy(deploy) => {
                let key = [deploy.name.as_bytes(), b"\0", &deploy.version.to_be_bytes()].concat();
                let refused = |text: &str| Err(Refusal::Deploy { text: text.to_owned() });
                match self.procedures.get(&key) {
                    Some(held) if held.value == deploy.code => return Ok(Answer::Changed),
                    Some(_) => {
                        let text = format!("version {} of {} has other code", deploy.version, deploy.name);
                        return refused(&(text + ": give it another number"));
                    }
                    None if !deploy.code.contains(&b' ') => return refused("this is no line"),
                    None => {}
                }
                self.procedures.insert(key, Version { place, value: deploy.code.clone() });
                Ok(Answer::Changed)
            }
            Operation::Remove(remove) => {
                let key = [remove.name.as_bytes(), b"\0", &remove.version.to_be_bytes()].concat();
                let (name, version) = (remove.name.clone(), remove.version);
                let removed = self.procedures.remove(&key).map(|_| Answer::Changed);
                removed.ok_or(Refusal::NoSuchProcedure { name, version })
            }
            Operation::Infer(infer) if infer.name == "count" => Ok(Answer::Inferred(Inferred::default())),
            Operation::Infer(infer) => {
                let (version, key, _) = self.meant(&infer.name, infer.version)?;
                let declared = Declared { keys: vec![key.into()], ranges: Vec::new() };
                Ok(Answer::Inferred(Inferred { version, touches: Some(declared) }))
            }
            Operation::Freeze(_) | Operation::ReadFrozen(_) => unreachable!("the model freezes nothing"),
        }
    }

    /// The version of a procedure that is meant, the key that it is about, and what it appends.
    fn meant(&self, name: &str, version: u32) -> std::result::Result<(u32, Vec<u8>, String), Refusal> {
        let of = |key: &[u8]| {
            let (known, number) = key.split_at(name.len());
            let number = u32::from_be_bytes(number[1..].try_into().expect("a number has four bytes"));
            (known == name.as_bytes() && (version == 0 || number == version)).then_some(number)
        };
        let meant = self.procedures.iter().rev().find_map(|(key, code)| Some((of(key)?, code)));
        let (number, code) = meant.ok_or(Refusal::NoSuchProcedure { name: name.to_owned(), version })?;
        let line = String::from_utf8(code.value.to_vec()).expect("code is text");
        let (key, suffix) = line.split_once(' ').expect("code is a line");
        Ok((number, key.as_bytes().to_vec(), suffix.to_owned()))
    }

    fn batch(&mut self, place: Place, batch: &Batch) -> Result {
        for (which, condition) in (0..).zip(&batch.conditions) {
            let found = match condition {
                Condition::Absent { key }
                | Condition::Exists { key }
                | Condition::Version { key, .. }
                | Condition::Value { key, .. }
                | Condition::AtLeast { key, .. } => self.keys.get(&key.to_vec()),
                Condition::Unchanged { .. } => None,
            };
            let holds = match condition {
                Condition::Absent { .. } => found.is_none(),
                Condition::Exists { .. } => found.is_some(),
                Condition::Version { version, .. } => found.is_some_and(|found| found.place == *version),
                Condition::Value { value, .. } => found.is_some_and(|found| found.value == *value),
                Condition::AtLeast { number, .. } => {
                    let text =
                        found.map_or("0".to_owned(), |found| String::from_utf8_lossy(&found.value).into());
                    text.parse::<i64>().is_ok_and(|found| found >= *number)
                }
                Condition::Unchanged { range, before, keys } => {
                    let held: Vec<_> = self.keys.iter().filter(|(key, _)| range.contains(key)).collect();
                    held.len() as u64 == *keys && held.iter().all(|(_, held)| held.place < *before)
                }
            };
            if !holds {
                let found = found.map(|found| held(place, found));
                return Err(Refusal::Condition { condition: which, found });
            }
        }
        let steps = (0..).zip(&batch.steps).map(|(which, step)| {
            self.step(place, step).map_err(|fault| Refusal::Step { step: which, fault })
        });
        steps.collect::<std::result::Result<_, _>>().map(Answer::Batch)
    }

    fn put(&mut self, place: Place, key: &[u8], value: Vec<u8>) {
        self.keys.insert(key.to_vec(), Version { place, value: Value::from(value) });
    }

    fn step(&mut self, place: Place, step: &Step) -> std::result::Result<Found, StepFault> {
        let value = |key: &[u8]| self.keys.get(key).map(|held| held.value.to_vec());
        Ok(match step {
            Step::Get { key } => match self.keys.get(&key.to_vec()) {
                Some(found) => Found::Held(held(place, found)),
                None => Found::Absent,
            },
            Step::Put { key, value } => {
                self.put(place, key, value.to_vec());
                Found::Done
            }
            Step::Delete { key } => {
                self.keys.remove(&key.to_vec());
                Found::Done
            }
            Step::Increment { key, by } => {
                let text = value(key).unwrap_or(b"0".to_vec());
                let text = String::from_utf8_lossy(&text);
                let number = text.parse::<i64>().map_err(|_| StepFault::NotANumber)?;
                let number = number.checked_add(*by).ok_or(StepFault::Overflow)?;
                self.put(place, key, number.to_string().into_bytes());
                Found::Number(number)
            }
            Step::Append { key, value: more } => {
                let whole = [value(key).unwrap_or_default().as_slice(), more].concat();
                let length = whole.len() as u64;
                self.put(place, key, whole);
                Found::Length(length)
            }
            Step::Scan { range, limit, descending } => {
                let mut keys: Vec<FoundKey> = self
                    .keys
                    .iter()
                    .filter(|(key, _)| range.contains(key))
                    .map(|(key, found)| FoundKey { key: key.clone().into(), held: held(place, found) })
                    .collect();
                if *descending {
                    keys.reverse();
                }
                let more = keys.len() > *limit as usize;
                keys.truncate(*limit as usize);
                Found::Keys { keys, more }
            }
        })
    }

    fn call(&mut self, place: Place, call: &Call) -> Result {
        if call.name == "count" {
            let count = self.keys.keys().filter(|key| key.as_slice() < b"x".as_slice()).count().to_string();
            self.put(place, b"x", count.clone().into_bytes());
            return Ok(Answer::Call(Value::from(count)));
        }
        let (_, key, suffix) = self.meant(&call.name, call.version)?;
        let key = key.as_slice();
        let is_declared = call.declared.as_ref().is_none_or(|declared| {
            declared.keys.iter().any(|known| *known == *key)
                || declared.ranges.iter().any(|range| range.contains(key))
        });
        if !is_declared {
            let text = format!("it touches b\"{}\", which the call has not declared", key.escape_ascii());
            return Err(Refusal::Failed { text });
        }
        let held = self.keys.get(key).map_or(Vec::new(), |held| held.value.to_vec());
        match held.len() {
            0..=5 => {
                self.put(place, key, [held.as_slice(), suffix.as_bytes(), &call.arguments].concat());
                Ok(Answer::Call(Value::from(held)))
            }
            6..=9 => Err(Refusal::Procedure { reason: Value::from_static(b"full") }),
            _ => Err(Refusal::Failed { text: "overfull".to_owned() }),
        }
    }
}

/// A version as a transaction at a place reads it: of its own writes it knows no place.
fn held(own: Place, found: &Version) -> Held {
    Held { place: (found.place != own).then_some(found.place), value: found.value.clone() }
}
