//! How batches are carried out: in one round where the keyspace can do that, else in a transaction that reads and then writes. Both
//! mean the same.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use quorate_core::command::Command;
use quorate_core::{Key, Value};
use quorate_serializable_shard::arithmetic::{appended, incremented, is_at_least};
use quorate_serializable_shard::{Condition, Division, Found, FoundKey, NoAnswer, Refusal, Step, StepFault};

use crate::batch::{Applied, Batch, StepAnswer, Taken, key_of_condition};
use crate::error::{Error, Invalid, Result};
use crate::keyspace::Keyspace;
use crate::one_round::Ended;
use crate::transaction::{Page, Transaction};

impl Keyspace {
    /// Carries out a batch: all of its steps at once if all of its conditions hold, else none.
    ///
    /// A serializable keyspace does this in one round trip, and most batches without locks and without conflicts. Others read what
    /// the batch is about, compute and commit, and do that again if another transaction was in the way.
    ///
    /// # Errors
    /// [`Error::Step`] if a step cannot be taken; [`Error::AnswersLost`] if it was carried out, and what it has answered cannot be had;
    /// else as [`Keyspace::transact`]. That a condition does not hold is no error, see [`Applied`].
    pub async fn apply(&self, batch: Batch) -> Result<Applied> {
        batch.validate()?;
        if !batch.lifetimes.is_empty() && !self.definition().expiring {
            return Err(self.not_expiring().into());
        }
        match self.runs_in_one_round() && !batch.is_empty() {
            true => self.apply_in_one_round(&batch).await,
            false => self.apply_by_reading(&batch).await,
        }
    }

    async fn apply_in_one_round(&self, batch: &Batch) -> Result<Applied> {
        let division = Division::of(batch.inner.clone(), &*self.definition())
            .map_err(|malformed| Invalid::Batch { reason: malformed.to_string() })?;
        match self.execute(division.operations(), division.class).await? {
            Ended::Done { answers, receipt } => match division.compose_done(&answers) {
                Ok(found) => {
                    Ok(Applied::Done { answers: found.into_iter().map(StepAnswer::from).collect(), receipt })
                }
                Err(_) => Err(Error::AnswersLost { token: receipt.token }),
            },
            Ended::AnswersLost { receipt } if batch.writes_blindly() => {
                Ok(Applied::Done { answers: vec![StepAnswer::Done; batch.inner.steps.len()], receipt })
            }
            Ended::AnswersLost { receipt } => Err(Error::AnswersLost { token: receipt.token }),
            Ended::Refused { shard, reason } => {
                let refusal = match division.refusal(shard, &reason) {
                    NoAnswer::Refused { refusal, .. } => refusal,
                    malformed @ NoAnswer::Malformed { .. } => {
                        return Err(Invalid::Batch { reason: malformed.to_string() }.into());
                    }
                };
                match refusal {
                    Refusal::Condition { condition, found } => {
                        // The session has seen what it was told, although no transaction says so.
                        if let Some(place) = found.as_ref().and_then(|held| held.place) {
                            self.session().tell([Command::Observe { timestamp: place.timestamp }]);
                        }
                        let found = found.map(|held| held.value);
                        Ok(Applied::Unmet { condition: condition as usize, found })
                    }
                    Refusal::Step { step, fault } => Err(batch.fault(step as usize, fault)),
                    other => Err(Invalid::Batch { reason: other.to_string() }.into()),
                }
            }
        }
    }

    async fn apply_by_reading(&self, batch: &Batch) -> Result<Applied> {
        let (carried_out, receipt) =
            self.transact_with_receipt(async |txn| batch.carry_out(&txn).await).await?;
        match carried_out {
            Ok(answers) => Ok(Applied::Done { answers, receipt }),
            Err(Refused::Condition { condition, found }) => Ok(Applied::Unmet { condition, found }),
            Err(Refused::Step { step, fault }) => Err(batch.fault(step, fault)),
        }
    }
}

impl Transaction {
    /// Takes the steps of a batch within this transaction, which sees its own writes and may do more before it commits. If a condition does not hold, no step is taken.
    ///
    /// # Errors
    /// [`Error::Step`] if a step cannot be taken, and then none is; else as [`Transaction::get`].
    pub async fn apply(&self, batch: &Batch) -> Result<Taken> {
        batch.validate()?;
        match batch.carry_out(self).await? {
            Ok(answers) => Ok(Taken::Done(answers)),
            Err(Refused::Condition { condition, found }) => Ok(Taken::Unmet { condition, found }),
            Err(Refused::Step { step, fault }) => Err(batch.fault(step, fault)),
        }
    }
}

/// Why a batch was not carried out, as far as its transaction has seen. It has written nothing, and counts once it has committed.
#[derive(Debug)]
enum Refused {
    Condition { condition: usize, found: Option<Value> },
    Step { step: usize, fault: StepFault },
}

impl Batch {
    fn fault(&self, step: usize, fault: StepFault) -> Error {
        Error::Step { step, key: self.key_of_step(step), fault }
    }

    /// Carries itself out in a transaction.
    async fn carry_out(&self, txn: &Transaction) -> Result<Result<Vec<StepAnswer>, Refused>> {
        let mut held = self.read_all(txn).await?;
        for (which, condition) in self.inner.conditions.iter().enumerate() {
            let found = key_of_condition(condition).and_then(|key| held.get(key).cloned().flatten());
            if !holds(condition, found.as_ref()) {
                return Ok(Err(Refused::Condition { condition: which, found }));
            }
        }
        // A step that cannot be done is found out before anything is written.
        let mut answers = Vec::with_capacity(self.inner.steps.len());
        let mut written = Vec::with_capacity(self.inner.steps.len());
        for (which, step) in self.inner.steps.iter().enumerate() {
            match take(step, &mut held) {
                Ok((answer, write)) => {
                    answers.push(answer);
                    written.push(write);
                }
                Err(fault) => return Ok(Err(Refused::Step { step: which, fault })),
            }
        }
        // Scans see what was written before them.
        for (which, ((step, write), answer)) in
            self.inner.steps.iter().zip(written).zip(&mut answers).enumerate()
        {
            match (step, write) {
                (Step::Scan { range, limit, .. }, _) => {
                    let to = range.to.as_deref().unwrap_or_default();
                    *answer = StepAnswer::Page(txn.scan(&range.from, to, *limit).await?);
                }
                (Step::Increment { .. } | Step::Append { .. }, Some((key, Some(value)))) => {
                    txn.put_keeping_expiry(&key, value).await?;
                }
                (_, Some((key, Some(value)))) => match self.lifetimes.get(&which) {
                    Some(lifetime) => txn.put_for(key, value, *lifetime)?,
                    None => txn.put(key, value)?,
                },
                (_, Some((key, None))) => txn.delete(key)?,
                (_, None) => {}
            }
        }
        Ok(Ok(answers))
    }

    /// Reads every key that a condition or a step wants to see, in one round trip.
    async fn read_all(&self, txn: &Transaction) -> Result<BTreeMap<Key, Option<Value>>> {
        let of_steps = self.inner.steps.iter().filter_map(|step| match step {
            Step::Get { key } | Step::Increment { key, .. } | Step::Append { key, .. } => Some(key),
            Step::Put { .. } | Step::Delete { .. } | Step::Scan { .. } => None,
        });
        let mut keys: Vec<&Key> =
            self.inner.conditions.iter().filter_map(key_of_condition).chain(of_steps).collect();
        keys.sort_unstable();
        keys.dedup();
        let values = txn.get_many(&keys).await?;
        Ok(keys.into_iter().cloned().zip(values).collect())
    }
}

/// A write of a step: a key, and its value unless it is deleted.
type Write = (Key, Option<Value>);

/// The answer and the write of a step, given what keys hold; scans come later.
fn take(
    step: &Step,
    held: &mut BTreeMap<Key, Option<Value>>,
) -> Result<(StepAnswer, Option<Write>), StepFault> {
    let mut write = |key: &Key, value: Option<Value>| {
        held.insert(key.clone(), value.clone());
        Some((key.clone(), value))
    };
    Ok(match step {
        Step::Get { key } => (StepAnswer::Value(held.get(key).cloned().flatten()), None),
        Step::Put { key, value } => (StepAnswer::Done, write(key, Some(value.clone()))),
        Step::Delete { key } => (StepAnswer::Done, write(key, None)),
        Step::Increment { key, by } => {
            let number = incremented(held.get(key).and_then(Option::as_deref), *by)?;
            let written = (key.clone(), Some(Value::from(number.to_string())));
            held.extend([written.clone()]);
            (StepAnswer::Number(number), Some(written))
        }
        Step::Append { key, value } => {
            let whole = appended(held.get(key).and_then(Option::as_deref), value)?;
            let length = whole.len() as u64;
            held.insert(key.clone(), Some(whole.clone()));
            (StepAnswer::Length(length), Some((key.clone(), Some(whole))))
        }
        Step::Scan { .. } => (StepAnswer::Done, None),
    })
}

fn holds(condition: &Condition, found: Option<&Value>) -> bool {
    match condition {
        Condition::Absent { .. } => found.is_none(),
        Condition::Exists { .. } => found.is_some(),
        Condition::Value { value, .. } => found == Some(value),
        Condition::AtLeast { number, .. } => is_at_least(found.map(|value| &value[..]), *number),
        // Versions and ranges are compared by coordinators only.
        Condition::Version { .. } | Condition::Unchanged { .. } => false,
    }
}

impl From<Found> for StepAnswer {
    fn from(found: Found) -> Self {
        match found {
            Found::Held(held) => StepAnswer::Value(Some(held.value)),
            Found::Absent => StepAnswer::Value(None),
            Found::Done => StepAnswer::Done,
            Found::Number(number) => StepAnswer::Number(number),
            Found::Length(length) => StepAnswer::Length(length),
            Found::Keys { keys, more } => StepAnswer::Page(page(keys, more)),
        }
    }
}

fn page(keys: Vec<FoundKey>, more: bool) -> Page {
    // The least key above the last one.
    let next = keys.last().filter(|_| more).map(|last| Key::from([&last.key[..], &[0]].concat()));
    let entries = keys.into_iter().map(|found| (found.key, found.held.value)).collect();
    Page { entries, next }
}
