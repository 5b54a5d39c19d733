//! The answers of a shard.

use std::fmt;

use quorate_core::{Key, Value};
use quorate_granola::Place;

use crate::operation::{Declared, Malformed};

/// The result of an operation that was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The results of the steps of a batch, in their order.
    Batch(Vec<Found>),
    /// The answer of a procedure.
    Call(Value),
    /// A procedure was deployed, or removed.
    Changed,
    /// The keys that a call would touch.
    Inferred(Inferred),
}

/// The keys that a call of a procedure would touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inferred {
    /// The version that was asked: the one that was named, or else the greatest; zero if the procedure is linked
    /// with the server.
    pub version: u32,
    /// The keys and ranges that it names; none if it may touch any key.
    pub touches: Option<Declared>,
}

/// The result of a step of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Of a get: what the key holds.
    Held(Held),
    /// Of a get: the key is not there.
    Absent,
    /// Of a put or a delete: it is done.
    Done,
    /// Of an increment: the number that it has led to.
    Number(i64),
    /// Of an append: how many bytes the value has now.
    Length(u64),
    /// Of a scan.
    Keys {
        /// The keys that it has found, in its direction.
        keys: Vec<FoundKey>,
        /// True if the range holds more.
        more: bool,
    },
}

/// The value of a key when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Where the transaction stands that wrote it; none if that is the one that has read it, which has no
    /// place before it ends.
    pub place: Option<Place>,
    /// Its value.
    pub value: Value,
}

/// A key that a scan has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundKey {
    /// The key.
    pub key: Key,
    /// Its version.
    pub held: Held,
}

/// Why an operation was not carried out. It has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The bytes are no operation, or go beyond a limit.
    Malformed {
        /// The mistake.
        text: String,
    },
    /// A condition does not hold.
    Condition {
        /// Which, counted from zero.
        condition: u32,
        /// The version that the key holds, of a condition on a key: none if it is absent.
        found: Option<Held>,
    },
    /// A step cannot be taken.
    Step {
        /// Which, counted from zero.
        step: u32,
        /// Why.
        fault: StepFault,
    },
    /// The keys that it has read, or has written, are too much for one transaction.
    TooLarge,
    /// It writes, and was to read only.
    ReadOnly,
    /// No such procedure, or no such version of it, is known at this place in the serial order.
    NoSuchProcedure {
        /// Its name.
        name: String,
        /// The version; zero if the greatest was asked for.
        version: u32,
    },
    /// A procedure has refused, for a reason of its own.
    Procedure {
        /// The reason, in its own encoding.
        reason: Value,
    },
    /// A procedure cannot go on.
    Failed {
        /// Why.
        text: String,
    },
    /// Nothing is frozen at this replica for the reader, or not any more: the group has another leader, nobody has read it for long, or the transaction is
    /// none that only reads.
    NotFrozen,
    /// A procedure cannot be deployed.
    Deploy {
        /// Why.
        text: String,
    },
}

/// Why a step cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepFault {
    /// The value is no number.
    NotANumber,
    /// The number would not fit into 64 bits.
    Overflow,
    /// The value would be too long.
    TooLong,
}

impl Answer {
    /// Its bytes, as they stand in [`quorate_granola::Answer::Done`].
    pub fn encode(&self) -> Value {
        quorate_codec::encode(self)
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// The bytes are no answer.
    pub fn decode(bytes: &Value) -> Result<Self, Malformed> {
        Ok(quorate_codec::decode(bytes)?)
    }
}

impl Refusal {
    /// Its bytes, as they stand in [`quorate_granola::Answer::Refused`] and in the reason of a vote against a
    /// transaction.
    pub fn encode(&self) -> Value {
        quorate_codec::encode(self)
    }

    /// Reads a refusal.
    ///
    /// # Errors
    /// The bytes are no refusal.
    pub fn decode(bytes: &Value) -> Result<Self, Malformed> {
        Ok(quorate_codec::decode(bytes)?)
    }
}

/// The answer or the refusal of a shard.
///
/// # Errors
/// The bytes are neither an answer nor a refusal.
pub fn read_answer(answer: &quorate_granola::Answer) -> Result<Result<Answer, Refusal>, Malformed> {
    match answer {
        quorate_granola::Answer::Done(bytes) => Answer::decode(bytes).map(Ok),
        quorate_granola::Answer::Refused(bytes) => Refusal::decode(bytes).map(Err),
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Malformed { text } => write!(formatter, "this is no operation: {text}"),
            Refusal::Condition { condition, found: Some(Held { place: Some(place), .. }) } => {
                write!(formatter, "condition {condition} does not hold: the key was written at {place}")
            }
            Refusal::Condition { condition, .. } => {
                write!(formatter, "condition {condition} does not hold")
            }
            Refusal::Step { step, fault } => write!(formatter, "step {step} cannot be taken: {fault}"),
            Refusal::TooLarge => {
                formatter.write_str("it reads or writes too much: divide it into smaller ones")
            }
            Refusal::ReadOnly => formatter.write_str("it writes, and was to read only"),
            Refusal::NoSuchProcedure { name, version: 0 } => {
                write!(formatter, "there is no procedure {name}: deploy it, or look at how it is spelled")
            }
            Refusal::NoSuchProcedure { name, version } => {
                write!(formatter, "there is no version {version} of a procedure {name}: deploy it")
            }
            Refusal::Procedure { reason } => {
                write!(formatter, "the procedure refuses: {}", reason.escape_ascii())
            }
            Refusal::Failed { text } => write!(formatter, "the procedure has failed: {text}"),
            Refusal::NotFrozen => formatter.write_str(
                "nothing is frozen there for this reader, or not any more: freeze in a transaction that only reads, and read from the beginning",
            ),
            Refusal::Deploy { text } => write!(formatter, "the procedure cannot be deployed: {text}"),
        }
    }
}

impl std::error::Error for Refusal {}

impl fmt::Display for StepFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            StepFault::NotANumber => "the value is no number",
            StepFault::Overflow => "the number would not fit into 64 bits",
            StepFault::TooLong => "the value would be too long",
        })
    }
}
