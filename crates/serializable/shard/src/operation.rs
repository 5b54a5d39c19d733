//! The operations of a client at one shard: its part of a one-round transaction.

use quorate_core::transaction::{
    KEY_BYTES_MAX, TRANSACTION_ENTRIES_MAX, VALUE_BYTES_MAX, validate_key, validate_write,
};
use quorate_core::{ClockTime, Key, KeyRange, Value};
use quorate_granola::Place;

use crate::wire::DEPLOY_TAG;

/// The longest name of a procedure, in bytes.
pub const NAME_BYTES_MAX: usize = 200;

/// The most keys that a scan may ask for.
pub const SCAN_KEYS_MAX: u32 = 10_000;

/// The operation that a client asks of one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Conditions, and steps that are taken if all of them hold.
    Batch(Batch),
    /// A call of a procedure.
    Call(Call),
    /// Makes a version of a procedure known.
    Deploy(Deploy),
    /// Makes a version of a procedure unknown again.
    Remove(Remove),
    /// Asks what a call of a procedure would touch.
    Infer(Infer),
    /// Freezes the state of a shard, in a transaction that only reads, so that it can be read page by page.
    Freeze(Freeze),
    /// Reads a page of what was frozen, in a transaction that only reads.
    ReadFrozen(ReadFrozen),
}

/// Freezes what a shard holds before the place of the transaction. In one transaction at all shards of a keyspace it gives one state of
/// all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freeze {
    /// The reader: a random number.
    pub reader: u64,
}

/// Reads a page of what was frozen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadFrozen {
    /// The reader for which it was frozen.
    pub reader: u64,
    /// The timestamp at which it was frozen, as the shard has told.
    pub at: ClockTime,
    /// True to read procedures, and not keys.
    pub procedures: bool,
    /// Behind which key the page begins; empty for the first.
    pub after: Key,
}

/// Steps that are taken one after the other, if all conditions hold: all of them or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The conditions that have to hold before the first step.
    pub conditions: Vec<Condition>,
    /// The steps, in this order. Each step sees the writes of those before it.
    pub steps: Vec<Step>,
}

/// A condition for a batch to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The key is not there.
    Absent {
        /// The key.
        key: Key,
    },
    /// The key is there.
    Exists {
        /// The key.
        key: Key,
    },
    /// The key has this version: nothing was written to it since it was read.
    Version {
        /// The key.
        key: Key,
        /// Where the transaction stands that wrote it.
        version: Place,
    },
    /// The key has this value, written by any transaction.
    Value {
        /// The key.
        key: Key,
        /// Its value.
        value: Value,
    },
    /// The key holds a number in decimal digits, of 64 bits, that is not less than this one. A key that is absent counts as zero.
    AtLeast {
        /// The key.
        key: Key,
        /// The least number that will do.
        number: i64,
    },
    /// No key of a range was written, or removed, since it was scanned. A removed key leaves no trace: so
    /// keys are counted.
    Unchanged {
        /// The range.
        range: KeyRange,
        /// Everything that it holds stands before this place: for a scan that only reads, [`Place::after`]
        /// its timestamp.
        before: Place,
        /// How many keys of this shard lie in it.
        keys: u64,
    },
}

/// One step of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Reads a key.
    Get {
        /// The key.
        key: Key,
    },
    /// Sets a key to a value.
    Put {
        /// The key.
        key: Key,
        /// The value.
        value: Value,
    },
    /// Removes a key, if it is there.
    Delete {
        /// The key.
        key: Key,
    },
    /// Adds to a number. It is written as decimal digits, and a key that is absent counts as zero. A value that is no
    /// such number, or would be none of 64 bits afterwards, is refused.
    Increment {
        /// The key.
        key: Key,
        /// The number that is added.
        by: i64,
    },
    /// Adds bytes to the end of a value; an absent one counts as empty. Refused if it would be too long.
    Append {
        /// The key.
        key: Key,
        /// The bytes that are added.
        value: Value,
    },
    /// Reads a range.
    Scan {
        /// The range.
        range: KeyRange,
        /// At most so many keys, from 1 to [`SCAN_KEYS_MAX`].
        limit: u32,
        /// True if the greatest keys come first.
        descending: bool,
    },
}

/// A call of a procedure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Which procedure.
    pub name: String,
    /// Which version of it; zero stands for the greatest that is deployed, and for one that is linked with
    /// the server.
    pub version: u32,
    /// The arguments.
    pub arguments: Value,
    /// The keys that it touches at this shard, if the caller knows: then it may touch no others, and is in the way
    /// of no others.
    pub declared: Option<Declared>,
}

/// The keys that a call touches at a shard, at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// Single keys.
    pub keys: Vec<Key>,
    /// Ranges.
    pub ranges: Vec<KeyRange>,
}

/// Makes a version of a procedure known, at a place in the serial order: what stands after it may call it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deploy {
    /// Its name.
    pub name: String,
    /// Its version, from one. The code that it stands for never changes.
    pub version: u32,
    /// A WebAssembly module.
    pub code: Value,
}

/// Makes a version of a procedure unknown again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remove {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: u32,
}

/// Asks what a call of a procedure would touch, at all shards together. That follows from its arguments alone, so any shard knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Infer {
    /// Which procedure.
    pub name: String,
    /// Which version of it, as in [`Call`].
    pub version: u32,
    /// The arguments of that call.
    pub arguments: Value,
}

/// Bytes that are no operation or no answer, or one that goes beyond a limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);

impl Malformed {
    pub(crate) fn of(what: impl ToString) -> Self {
        Malformed(what.to_string())
    }
}

impl Operation {
    /// Its bytes.
    pub fn encode(&self) -> Value {
        quorate_codec::encode(self)
    }

    /// Reads an operation, and checks it as [`Operation::validate`] does.
    ///
    /// # Errors
    /// The bytes are no operation, or one that goes beyond a limit.
    pub fn decode(bytes: &Value) -> Result<Self, Malformed> {
        let operation: Operation = quorate_codec::decode(bytes)?;
        operation.validate()?;
        Ok(operation)
    }

    /// Checks lengths and counts. The result is independent of the keys that a shard holds.
    ///
    /// # Errors
    /// A length or a count that goes beyond its limit.
    pub fn validate(&self) -> Result<(), Malformed> {
        match self {
            Operation::Batch(batch) => batch.validate(),
            Operation::Call(call) => call.validate(),
            Operation::Deploy(Deploy { name, version, code }) => {
                validate_name(name)?;
                validate_version(*version)?;
                if code.len() > VALUE_BYTES_MAX {
                    let length = code.len();
                    return Err(Malformed(format!("code of {length} bytes; the limit is {VALUE_BYTES_MAX}")));
                }
                Ok(())
            }
            Operation::Remove(Remove { name, version }) => {
                validate_name(name)?;
                validate_version(*version)
            }
            Operation::Infer(Infer { name, .. }) => validate_name(name),
            Operation::Freeze(_) | Operation::ReadFrozen(_) => Ok(()),
        }
    }

    /// True if it surely changes nothing. The writes of a procedure are not known here: the caller says.
    pub fn reads_only(&self) -> bool {
        match self {
            Operation::Batch(batch) => batch.reads_only(),
            Operation::Infer(_) | Operation::Freeze(_) | Operation::ReadFrozen(_) => true,
            Operation::Call(_) | Operation::Deploy(_) | Operation::Remove(_) => false,
        }
    }
}

impl Batch {
    /// True if no step writes.
    pub fn reads_only(&self) -> bool {
        self.steps.iter().all(Step::reads_only)
    }

    /// Checks keys, values and counts.
    ///
    /// # Errors
    /// A key, a value or a count that goes beyond its limit.
    pub fn validate(&self) -> Result<(), Malformed> {
        let entries = self.conditions.len() + self.steps.len();
        if entries > TRANSACTION_ENTRIES_MAX {
            let text = format!("{entries} conditions and steps; the limit is {TRANSACTION_ENTRIES_MAX}");
            return Err(Malformed(text));
        }
        self.conditions.iter().try_for_each(Condition::validate)?;
        self.steps.iter().try_for_each(Step::validate)
    }
}

impl Condition {
    fn validate(&self) -> Result<(), Malformed> {
        match self {
            Condition::Absent { key }
            | Condition::Exists { key }
            | Condition::Version { key, .. }
            | Condition::AtLeast { key, .. } => validate_key(key).map_err(Malformed::of),
            Condition::Value { key, value } => validate_write(key, value).map_err(Malformed::of),
            Condition::Unchanged { range, .. } => validate_range(range),
        }
    }
}

impl Step {
    /// True if it changes nothing.
    pub fn reads_only(&self) -> bool {
        matches!(self, Step::Get { .. } | Step::Scan { .. })
    }

    fn validate(&self) -> Result<(), Malformed> {
        match self {
            Step::Get { key } | Step::Delete { key } | Step::Increment { key, .. } => {
                validate_key(key).map_err(Malformed::of)
            }
            Step::Put { key, value } | Step::Append { key, value } => {
                validate_write(key, value).map_err(Malformed::of)
            }
            Step::Scan { limit, .. } if *limit == 0 || *limit > SCAN_KEYS_MAX => {
                Err(Malformed(format!("a scan asks for {limit} keys; it may ask for 1 to {SCAN_KEYS_MAX}")))
            }
            Step::Scan { range, .. } => validate_range(range),
        }
    }
}

impl Call {
    fn validate(&self) -> Result<(), Malformed> {
        validate_name(&self.name)?;
        self.declared.as_ref().map_or(Ok(()), Declared::validate)
    }
}

impl Declared {
    pub(crate) fn validate(&self) -> Result<(), Malformed> {
        let entries = self.keys.len() + self.ranges.len();
        if entries > TRANSACTION_ENTRIES_MAX {
            let text =
                format!("{entries} keys and ranges are declared; the limit is {TRANSACTION_ENTRIES_MAX}");
            return Err(Malformed(text));
        }
        self.keys.iter().try_for_each(|key| validate_key(key).map_err(Malformed::of))?;
        self.ranges.iter().try_for_each(validate_range)
    }
}

/// Ends of ranges may be empty, and one byte longer than keys: so that a range can begin after the longest
/// one.
fn validate_range(range: &KeyRange) -> Result<(), Malformed> {
    let longest = range.from.len().max(range.to.as_ref().map_or(0, |to| to.len()));
    if longest > KEY_BYTES_MAX + 1 {
        let text = format!("a range ends at {longest} bytes; a key has {KEY_BYTES_MAX} at most");
        return Err(Malformed(text));
    }
    Ok(())
}

fn validate_name(name: &str) -> Result<(), Malformed> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('\0') {
        let text =
            format!("the name of a procedure has 1 to {NAME_BYTES_MAX} bytes, and none of them is zero");
        return Err(Malformed(text));
    }
    Ok(())
}

/// The code that an operation brings, if it deploys a procedure. Of anything else it looks at one byte.
pub fn code_of(operation: &Value) -> Option<Value> {
    if operation.first() != Some(&DEPLOY_TAG) {
        return None;
    }
    match Operation::decode(operation) {
        Ok(Operation::Deploy(Deploy { code, .. })) => Some(code),
        _ => None,
    }
}

fn validate_version(version: u32) -> Result<(), Malformed> {
    match version {
        0 => Err(Malformed::of("versions of procedures are counted from one")),
        _ => Ok(()),
    }
}
