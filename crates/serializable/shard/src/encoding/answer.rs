//! The fields of answers and refusals.

use bytes::Bytes;
use prost::{Message, Oneof};
use quorate_core::{Key, Value};

use super::{Declared, Nothing, Place, present};
use crate::answer as own;
use crate::operation::Malformed;

#[derive(Clone, PartialEq, Message)]
struct Answer {
    #[prost(oneof = "Kind", tags = "1, 2, 3, 4")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Kind {
    #[prost(message, tag = 1)]
    Batch(Batch),
    #[prost(bytes = "bytes", tag = 2)]
    Call(Bytes),
    #[prost(message, tag = 3)]
    Changed(Nothing),
    #[prost(message, tag = 4)]
    Inferred(Inferred),
}

#[derive(Clone, PartialEq, Message)]
struct Inferred {
    #[prost(uint32, tag = 1)]
    version: u32,
    #[prost(message, optional, tag = 2)]
    touches: Option<Declared>,
}

#[derive(Clone, PartialEq, Message)]
struct Batch {
    #[prost(message, repeated, tag = 1)]
    found: Vec<Found>,
}

#[derive(Clone, PartialEq, Message)]
struct Found {
    #[prost(oneof = "OfStep", tags = "1, 2, 3, 4, 5, 6")]
    of_step: Option<OfStep>,
}

#[derive(Clone, PartialEq, Oneof)]
enum OfStep {
    #[prost(message, tag = 1)]
    Held(Held),
    #[prost(message, tag = 2)]
    Absent(Nothing),
    #[prost(message, tag = 3)]
    Done(Nothing),
    #[prost(sint64, tag = 4)]
    Number(i64),
    #[prost(uint64, tag = 5)]
    Length(u64),
    #[prost(message, tag = 6)]
    Keys(Keys),
}

#[derive(Clone, PartialEq, Message)]
struct Held {
    #[prost(message, optional, tag = 1)]
    place: Option<Place>,
    #[prost(bytes = "bytes", tag = 2)]
    value: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct Keys {
    #[prost(message, repeated, tag = 1)]
    keys: Vec<FoundKey>,
    #[prost(bool, tag = 2)]
    more: bool,
}

#[derive(Clone, PartialEq, Message)]
struct FoundKey {
    #[prost(bytes = "bytes", tag = 1)]
    key: Bytes,
    #[prost(message, optional, tag = 2)]
    held: Option<Held>,
}

#[derive(Clone, PartialEq, Message)]
struct Refusal {
    #[prost(oneof = "Why", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9")]
    why: Option<Why>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Why {
    #[prost(string, tag = 1)]
    Malformed(String),
    #[prost(message, tag = 2)]
    Condition(Condition),
    #[prost(message, tag = 3)]
    Step(Step),
    #[prost(message, tag = 4)]
    TooLarge(Nothing),
    #[prost(message, tag = 5)]
    ReadOnly(Nothing),
    #[prost(message, tag = 6)]
    NoSuchProcedure(NoSuchProcedure),
    #[prost(bytes = "bytes", tag = 7)]
    Procedure(Bytes),
    #[prost(string, tag = 8)]
    Failed(String),
    #[prost(string, tag = 9)]
    Deploy(String),
}

#[derive(Clone, PartialEq, Message)]
struct Condition {
    #[prost(uint32, tag = 1)]
    condition: u32,
    #[prost(message, optional, tag = 2)]
    found: Option<Held>,
}

#[derive(Clone, PartialEq, Message)]
struct Step {
    #[prost(uint32, tag = 1)]
    step: u32,
    #[prost(uint32, tag = 2)]
    fault: u32,
}

#[derive(Clone, PartialEq, Message)]
struct NoSuchProcedure {
    #[prost(string, tag = 1)]
    name: String,
    #[prost(uint32, tag = 2)]
    version: u32,
}

/// Step faults, by their numbers.
const FAULTS: [(u32, own::StepFault); 3] =
    [(1, own::StepFault::NotANumber), (2, own::StepFault::Overflow), (3, own::StepFault::TooLong)];

/// The bytes of an answer.
pub(crate) fn encode_answer(answer: &own::Answer) -> Value {
    let kind = match answer {
        own::Answer::Batch(found) => Kind::Batch(Batch { found: found.iter().map(write_found).collect() }),
        own::Answer::Call(answer) => Kind::Call(answer.clone()),
        own::Answer::Changed => Kind::Changed(Nothing {}),
        own::Answer::Inferred(own::Inferred { version, touches }) => {
            let touches = touches.clone().map(Declared::from);
            Kind::Inferred(Inferred { version: *version, touches })
        }
    };
    Answer { kind: Some(kind) }.encode_to_vec().into()
}

fn write_found(found: &own::Found) -> Found {
    let of_step = match found {
        own::Found::Value(Some(held)) => OfStep::Held(held.clone().into()),
        own::Found::Value(None) => OfStep::Absent(Nothing {}),
        own::Found::Done => OfStep::Done(Nothing {}),
        own::Found::Number(number) => OfStep::Number(*number),
        own::Found::Length(length) => OfStep::Length(*length),
        own::Found::Keys { keys, more } => {
            let key = |found: &own::FoundKey| FoundKey {
                key: found.key.clone().into(),
                held: Some(found.held.clone().into()),
            };
            OfStep::Keys(Keys { keys: keys.iter().map(key).collect(), more: *more })
        }
    };
    Found { of_step: Some(of_step) }
}

/// Reads an answer.
pub(crate) fn decode_answer(bytes: &Value) -> Result<own::Answer, Malformed> {
    Ok(match present(Answer::decode(bytes.clone())?.kind, "the answer")? {
        Kind::Batch(Batch { found }) => {
            own::Answer::Batch(found.into_iter().map(read_found).collect::<Result<_, _>>()?)
        }
        Kind::Call(answer) => own::Answer::Call(answer),
        Kind::Changed(_) => own::Answer::Changed,
        Kind::Inferred(Inferred { version, touches }) => {
            own::Answer::Inferred(own::Inferred { version, touches: touches.map(From::from) })
        }
    })
}

fn read_found(found: Found) -> Result<own::Found, Malformed> {
    Ok(match present(found.of_step, "what a step has come to")? {
        OfStep::Held(held) => own::Found::Value(Some(held.into())),
        OfStep::Absent(_) => own::Found::Value(None),
        OfStep::Done(_) => own::Found::Done,
        OfStep::Number(number) => own::Found::Number(number),
        OfStep::Length(length) => own::Found::Length(length),
        OfStep::Keys(Keys { keys, more }) => {
            let key = |found: FoundKey| {
                let held = present(found.held, "what a key held")?.into();
                Ok(own::FoundKey { key: Key::from(found.key), held })
            };
            let keys = keys.into_iter().map(key).collect::<Result<_, Malformed>>()?;
            own::Found::Keys { keys, more }
        }
    })
}

impl From<own::Held> for Held {
    fn from(held: own::Held) -> Self {
        Held { place: held.place.map(Place::from), value: held.value }
    }
}

impl From<Held> for own::Held {
    fn from(held: Held) -> Self {
        own::Held { place: held.place.map(quorate_granola::Place::from), value: held.value }
    }
}

/// The bytes of a refusal.
pub(crate) fn encode_refusal(refusal: &own::Refusal) -> Value {
    let why = match refusal.clone() {
        own::Refusal::Malformed { text } => Why::Malformed(text),
        own::Refusal::Condition { condition, found } => {
            Why::Condition(Condition { condition, found: found.map(Held::from) })
        }
        own::Refusal::Step { step, fault } => {
            let number = FAULTS.iter().find(|(_, known)| *known == fault).map_or(0, |(number, _)| *number);
            Why::Step(Step { step, fault: number })
        }
        own::Refusal::TooLarge => Why::TooLarge(Nothing {}),
        own::Refusal::ReadOnly => Why::ReadOnly(Nothing {}),
        own::Refusal::NoSuchProcedure { name, version } => {
            Why::NoSuchProcedure(NoSuchProcedure { name, version })
        }
        own::Refusal::Procedure { reason } => Why::Procedure(reason),
        own::Refusal::Failed { text } => Why::Failed(text),
        own::Refusal::Deploy { text } => Why::Deploy(text),
    };
    Refusal { why: Some(why) }.encode_to_vec().into()
}

/// Reads a refusal.
pub(crate) fn decode_refusal(bytes: &Value) -> Result<own::Refusal, Malformed> {
    Ok(match present(Refusal::decode(bytes.clone())?.why, "the reason")? {
        Why::Malformed(text) => own::Refusal::Malformed { text },
        Why::Condition(Condition { condition, found }) => {
            own::Refusal::Condition { condition, found: found.map(own::Held::from) }
        }
        Why::Step(Step { step, fault }) => {
            let known = FAULTS.iter().find(|(number, _)| *number == fault).map(|(_, fault)| *fault);
            own::Refusal::Step { step, fault: present(known, "the fault of a step")? }
        }
        Why::TooLarge(_) => own::Refusal::TooLarge,
        Why::ReadOnly(_) => own::Refusal::ReadOnly,
        Why::NoSuchProcedure(NoSuchProcedure { name, version }) => {
            own::Refusal::NoSuchProcedure { name, version }
        }
        Why::Procedure(reason) => own::Refusal::Procedure { reason },
        Why::Failed(text) => own::Refusal::Failed { text },
        Why::Deploy(text) => own::Refusal::Deploy { text },
    })
}
