//! A batch over keys of several shards: its parts, the cheapest class that they can be executed in, and its
//! answer from theirs.
//!
//! | the batch | class |
//! |---|---|
//! | only reads | [`Class::ReadOnly`]: a snapshot, no entry in any log |
//! | lies on one shard | [`Class::Independent`]: one stable write |
//! | lies on several, and no part can refuse | [`Class::Independent`]: no locks, no aborts |
//! | lies on several, and one of them may refuse | [`Class::Coordinated`]: locks, and all have to agree |
//!
//! A shard can refuse conditions, increments, appends, and reads of more than an answer may hold.

use std::collections::BTreeMap;

use quorate_core::topology::Keyspace;
use quorate_core::transaction::{
    KEY_BYTES_MAX, TRANSACTION_BYTES_MAX, TRANSACTION_ENTRIES_MAX, VALUE_BYTES_MAX,
};
use quorate_core::{Key, KeyRange, ShardId, Value};
use quorate_granola::{Answer as Answered, Class};

use crate::answer::{Answer, Found, FoundKey, Refusal, read_answer};
use crate::operation::{Batch, Condition, Malformed, Operation, Step};
use crate::shard::{ENTRY_BYTES, SCAN_BYTES};

/// Where keys lie.
pub trait Placement {
    /// The shard that holds a key.
    fn shard(&self, key: &[u8]) -> ShardId;

    /// The shards that may hold keys of a range.
    fn shards(&self, range: &KeyRange) -> Vec<ShardId>;
}

impl Placement for Keyspace {
    fn shard(&self, key: &[u8]) -> ShardId {
        self.shard_of(key).id
    }

    fn shards(&self, range: &KeyRange) -> Vec<ShardId> {
        self.shards_of_range(range).iter().map(|shard| shard.id).collect()
    }
}

/// A batch in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Division {
    /// The part of each shard.
    pub parts: BTreeMap<ShardId, Batch>,
    /// How they have to agree.
    pub class: Class,
    /// The batch's condition that each condition of a part stands for.
    conditions: BTreeMap<ShardId, Vec<u32>>,
    /// The same for steps.
    steps: BTreeMap<ShardId, Vec<u32>>,
    /// The request of each step of the batch, as far as that matters for its answer.
    asked: Vec<Asked>,
}

/// The request of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    One,
    Keys { limit: usize, descending: bool },
}

/// Why there is no answer of a batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// A shard has refused its part: nothing was changed anywhere. Conditions and steps are counted in the
    /// batch.
    #[error("{shard} refuses: {refusal}")]
    Refused {
        /// The shard.
        shard: ShardId,
        /// Why.
        refusal: Refusal,
    },
    /// The bytes that a shard has answered with are no answer to its part.
    #[error("{shard} answers what cannot be understood: {malformed}")]
    Malformed {
        /// The shard.
        shard: ShardId,
        /// The mistake in it.
        malformed: Malformed,
    },
}

impl Division {
    /// Divides a batch.
    ///
    /// # Errors
    /// It does nothing, goes beyond a limit, or compares a range that lies on several shards.
    pub fn of(batch: Batch, placement: &impl Placement) -> Result<Self, Malformed> {
        let mut division = Division::empty();
        for (which, condition) in (0..).zip(batch.conditions) {
            let shard = match &condition {
                Condition::Absent { key }
                | Condition::Exists { key }
                | Condition::Version { key, .. }
                | Condition::Value { key, .. }
                | Condition::AtLeast { key, .. } => placement.shard(key),
                Condition::Unchanged { range, .. } => match placement.shards(range)[..] {
                    [shard] => shard,
                    _ => {
                        return Err(Malformed(format!(
                            "condition {which}: {range:?} lies on several shards"
                        )));
                    }
                },
            };
            division.require(shard, which, condition);
        }
        for (which, step) in (0..).zip(batch.steps) {
            division.add(which, step, placement);
        }
        division.finish()
    }

    fn empty() -> Self {
        Division {
            parts: BTreeMap::new(),
            class: Class::ReadOnly,
            conditions: BTreeMap::new(),
            steps: BTreeMap::new(),
            asked: Vec::new(),
        }
    }

    /// Adds a condition to the part of a shard, in the place of one of the batch.
    fn require(&mut self, shard: ShardId, which: u32, condition: Condition) {
        self.parts.entry(shard).or_default().conditions.push(condition);
        self.conditions.entry(shard).or_default().push(which);
    }

    /// Adds the next step to the parts of all shards that it concerns.
    fn add(&mut self, which: u32, step: Step, placement: &impl Placement) {
        let (shards, asked) = match &step {
            Step::Get { key }
            | Step::Put { key, .. }
            | Step::Delete { key }
            | Step::Increment { key, .. }
            | Step::Append { key, .. } => (vec![placement.shard(key)], Asked::One),
            Step::Scan { range, limit, descending } => {
                (placement.shards(range), Asked::Keys { limit: *limit as usize, descending: *descending })
            }
        };
        self.asked.push(asked);
        for shard in shards {
            self.parts.entry(shard).or_default().steps.push(step.clone());
            self.steps.entry(shard).or_default().push(which);
        }
    }

    /// Chooses the class.
    fn finish(mut self) -> Result<Self, Malformed> {
        if self.parts.is_empty() {
            return Err(Malformed::of("a batch that asks for nothing"));
        }
        for (shard, part) in &self.parts {
            part.validate()?;
            let bytes = Operation::Batch(part.clone()).encode().len();
            if bytes > TRANSACTION_BYTES_MAX {
                let text =
                    format!("{bytes} bytes for {shard}; the limit is {TRANSACTION_BYTES_MAX}: divide it");
                return Err(Malformed(text));
            }
        }
        self.class = if self.parts.values().all(Batch::reads_only) {
            Class::ReadOnly
        } else if self.parts.len() == 1 || !self.parts.values().any(may_refuse) {
            Class::Independent
        } else {
            Class::Coordinated
        };
        Ok(self)
    }

    /// The parts, as bytes.
    pub fn operations(&self) -> BTreeMap<ShardId, Value> {
        let encoded =
            self.parts.iter().map(|(shard, part)| (*shard, Operation::Batch(part.clone()).encode()));
        encoded.collect()
    }

    /// The results of the steps of the batch, from the answers of the shards.
    ///
    /// # Errors
    /// A shard has refused its part, or has not answered it.
    pub fn compose(&self, answers: &BTreeMap<ShardId, Answered>) -> Result<Vec<Found>, NoAnswer> {
        self.compose_from(|shard| answers.get(&shard).map(read_answer))
    }

    /// The same if no shard has refused its part.
    ///
    /// # Errors
    /// A shard has not answered it.
    pub fn compose_done(&self, answers: &BTreeMap<ShardId, Value>) -> Result<Vec<Found>, NoAnswer> {
        self.compose_from(|shard| answers.get(&shard).map(|answer| Answer::decode(answer).map(Ok)))
    }

    fn compose_from(
        &self,
        answer_of: impl Fn(ShardId) -> Option<Result<Result<Answer, Refusal>, Malformed>>,
    ) -> Result<Vec<Found>, NoAnswer> {
        let mut of_steps: Vec<Vec<Found>> = self.asked.iter().map(|_| Vec::new()).collect();
        for shard in self.parts.keys() {
            let shard = *shard;
            let malformed = |text: &str| NoAnswer::Malformed { shard, malformed: Malformed::of(text) };
            let answer = answer_of(shard).ok_or_else(|| malformed("there is none"))?;
            let answer = answer.map_err(|malformed| NoAnswer::Malformed { shard, malformed })?;
            let steps = self.steps.get(&shard).map(Vec::as_slice).unwrap_or_default();
            match answer {
                Err(refusal) => return Err(self.refused(shard, refusal)),
                Ok(Answer::Batch(found)) if found.len() == steps.len() => {
                    for (which, found) in steps.iter().zip(found) {
                        of_steps[*which as usize].push(found);
                    }
                }
                Ok(_) => return Err(malformed("it has another number of steps")),
            }
        }
        let joined = of_steps.into_iter().zip(&self.asked).map(|(found, asked)| join(found, *asked));
        Ok(joined.collect())
    }

    /// The refusal of a shard, by the vote that it has given against the transaction.
    pub fn refusal(&self, shard: ShardId, reason: &Value) -> NoAnswer {
        match Refusal::decode(reason) {
            Ok(refusal) => self.refused(shard, refusal),
            Err(malformed) => NoAnswer::Malformed { shard, malformed },
        }
    }

    fn refused(&self, shard: ShardId, refusal: Refusal) -> NoAnswer {
        let of_batch = |known: &BTreeMap<ShardId, Vec<u32>>, which: u32| {
            known.get(&shard).and_then(|of_shard| of_shard.get(which as usize)).copied().unwrap_or(which)
        };
        let refusal = match refusal {
            Refusal::Condition { condition, found } => {
                Refusal::Condition { condition: of_batch(&self.conditions, condition), found }
            }
            Refusal::Step { step, fault } => Refusal::Step { step: of_batch(&self.steps, step), fault },
            other => other,
        };
        NoAnswer::Refused { shard, refusal }
    }
}

/// True if a shard may refuse a part, whatever stands in its keys.
fn may_refuse(part: &Batch) -> bool {
    const GET_BYTES_MAX: usize = ENTRY_BYTES + KEY_BYTES_MAX + VALUE_BYTES_MAX;
    let bytes_max = |step: &Step| match step {
        Step::Get { .. } => GET_BYTES_MAX,
        Step::Scan { limit, .. } => {
            ENTRY_BYTES + (*limit as usize * GET_BYTES_MAX).min(SCAN_BYTES + GET_BYTES_MAX)
        }
        Step::Put { key, value } => ENTRY_BYTES + key.len() + value.len(),
        Step::Delete { key } => ENTRY_BYTES + key.len(),
        Step::Increment { .. } | Step::Append { .. } => 0,
    };
    let can_fail = |step: &Step| matches!(step, Step::Increment { .. } | Step::Append { .. });
    let entries_max: usize = part.steps.iter().map(keys_max).sum();
    !part.conditions.is_empty()
        || part.steps.iter().any(can_fail)
        || part.steps.iter().map(bytes_max).sum::<usize>() > TRANSACTION_BYTES_MAX
        || entries_max > TRANSACTION_ENTRIES_MAX
}

/// How many keys a step may count for: a scan looks at one more than it answers with.
fn keys_max(step: &Step) -> usize {
    match step {
        Step::Scan { limit, .. } => *limit as usize + 2,
        _ => 1,
    }
}

/// One answer from those of several shards.
fn join(mut found: Vec<Found>, asked: Asked) -> Found {
    let Asked::Keys { limit, descending } = asked else {
        return found.pop().unwrap_or(Found::Done);
    };
    let mut all: Vec<FoundKey> = Vec::new();
    let mut more = false;
    // A shard that has not given everything says nothing of what lies beyond its last key.
    let mut end: Option<Key> = None;
    let is_beyond = |key: &Key, end: &Key| if descending { key < end } else { key > end };
    for of_shard in found {
        let Found::Keys { keys, more: has_more } = of_shard else { continue };
        if has_more {
            more = true;
            let last = keys.last().map(|last| last.key.clone());
            end = match (end.take(), last) {
                (Some(end), Some(last)) => Some(if is_beyond(&end, &last) { last } else { end }),
                (end, last) => end.or(last),
            };
        }
        all.extend(keys);
    }
    all.sort_by(|one, other| one.key.cmp(&other.key));
    if descending {
        all.reverse();
    }
    if let Some(end) = end {
        all.retain(|found| !is_beyond(&found.key, &end));
    }
    more |= all.len() > limit;
    all.truncate(limit);
    Found::Keys { keys: all, more }
}
