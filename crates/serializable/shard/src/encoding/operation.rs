//! The fields of operations.

use bytes::Bytes;
use prost::encoding::WireType;
use prost::{Message, Oneof};
use quorate_core::transaction::TRANSACTION_ENTRIES_MAX;
use quorate_core::{Key, Value};

use super::{Declared, KeyRange, Nothing, Place, present, reader};
use crate::operation as own;
use crate::operation::Malformed;

#[derive(Clone, PartialEq, Message)]
struct Operation {
    #[prost(oneof = "Kind", tags = "1, 2, 3, 4, 5")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Kind {
    #[prost(message, tag = 1)]
    Batch(Batch),
    #[prost(message, tag = 2)]
    Call(Call),
    #[prost(message, tag = 3)]
    Deploy(Deploy),
    #[prost(message, tag = 4)]
    Remove(Remove),
    #[prost(message, tag = 5)]
    Infer(Infer),
}

#[derive(Clone, PartialEq, Message)]
struct Batch {
    #[prost(message, repeated, tag = 1)]
    conditions: Vec<Condition>,
    #[prost(message, repeated, tag = 2)]
    steps: Vec<Step>,
}

#[derive(Clone, PartialEq, Message)]
struct Condition {
    #[prost(bytes = "bytes", tag = 1)]
    key: Bytes,
    #[prost(oneof = "Holds", tags = "2, 3, 4, 5, 6")]
    holds: Option<Holds>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Holds {
    #[prost(message, tag = 2)]
    Absent(Nothing),
    #[prost(message, tag = 3)]
    Exists(Nothing),
    #[prost(message, tag = 4)]
    Version(Place),
    #[prost(bytes = "bytes", tag = 5)]
    Value(Bytes),
    #[prost(message, tag = 6)]
    Unchanged(Unchanged),
}

#[derive(Clone, PartialEq, Message)]
struct Unchanged {
    #[prost(message, optional, tag = 1)]
    range: Option<KeyRange>,
    #[prost(message, optional, tag = 2)]
    before: Option<Place>,
    #[prost(uint64, tag = 3)]
    keys: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Step {
    #[prost(bytes = "bytes", tag = 1)]
    key: Bytes,
    #[prost(oneof = "Does", tags = "2, 3, 4, 5, 6, 7")]
    does: Option<Does>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Does {
    #[prost(message, tag = 2)]
    Get(Nothing),
    #[prost(bytes = "bytes", tag = 3)]
    Put(Bytes),
    #[prost(message, tag = 4)]
    Delete(Nothing),
    #[prost(sint64, tag = 5)]
    Increment(i64),
    #[prost(bytes = "bytes", tag = 6)]
    Append(Bytes),
    #[prost(message, tag = 7)]
    Scan(Scan),
}

#[derive(Clone, PartialEq, Message)]
struct Scan {
    #[prost(message, optional, tag = 1)]
    range: Option<KeyRange>,
    #[prost(uint32, tag = 2)]
    limit: u32,
    #[prost(bool, tag = 3)]
    descending: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Call {
    #[prost(string, tag = 1)]
    name: String,
    #[prost(uint32, tag = 2)]
    version: u32,
    #[prost(bytes = "bytes", tag = 3)]
    arguments: Bytes,
    #[prost(message, optional, tag = 4)]
    declared: Option<Declared>,
}

#[derive(Clone, PartialEq, Message)]
struct Deploy {
    #[prost(string, tag = 1)]
    name: String,
    #[prost(uint32, tag = 2)]
    version: u32,
    #[prost(bytes = "bytes", tag = 3)]
    code: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct Remove {
    #[prost(string, tag = 1)]
    name: String,
    #[prost(uint32, tag = 2)]
    version: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Infer {
    #[prost(string, tag = 1)]
    name: String,
    #[prost(uint32, tag = 2)]
    version: u32,
    #[prost(bytes = "bytes", tag = 3)]
    arguments: Bytes,
}

/// The bytes of an operation.
pub(crate) fn encode(operation: &own::Operation) -> Value {
    let kind = match operation.clone() {
        own::Operation::Batch(batch) => Kind::Batch(Batch {
            conditions: batch.conditions.into_iter().map(condition).collect(),
            steps: batch.steps.into_iter().map(step).collect(),
        }),
        own::Operation::Call(call) => Kind::Call(Call {
            name: call.name,
            version: call.version,
            arguments: call.arguments,
            declared: call.declared.map(Declared::from),
        }),
        own::Operation::Deploy(own::Deploy { name, version, code }) => {
            Kind::Deploy(Deploy { name, version, code })
        }
        own::Operation::Remove(own::Remove { name, version }) => Kind::Remove(Remove { name, version }),
        own::Operation::Infer(own::Infer { name, version, arguments }) => {
            Kind::Infer(Infer { name, version, arguments })
        }
    };
    Operation { kind: Some(kind) }.encode_to_vec().into()
}

fn condition(condition: own::Condition) -> Condition {
    let (key, holds) = match condition {
        own::Condition::Absent { key } => (key, Holds::Absent(Nothing {})),
        own::Condition::Exists { key } => (key, Holds::Exists(Nothing {})),
        own::Condition::Version { key, version } => (key, Holds::Version(version.into())),
        own::Condition::Value { key, value } => (key, Holds::Value(value)),
        own::Condition::Unchanged { range, before, keys } => {
            let (range, before) = (Some(range.into()), Some(before.into()));
            (Key::default(), Holds::Unchanged(Unchanged { range, before, keys }))
        }
    };
    Condition { key: key.into(), holds: Some(holds) }
}

fn step(step: own::Step) -> Step {
    let (key, does) = match step {
        own::Step::Get { key } => (key, Does::Get(Nothing {})),
        own::Step::Put { key, value } => (key, Does::Put(value)),
        own::Step::Delete { key } => (key, Does::Delete(Nothing {})),
        own::Step::Increment { key, by } => (key, Does::Increment(by)),
        own::Step::Append { key, value } => (key, Does::Append(value)),
        own::Step::Scan { range, limit, descending } => {
            (Key::default(), Does::Scan(Scan { range: Some(range.into()), limit, descending }))
        }
    };
    Step { key: key.into(), does: Some(does) }
}

/// True if an operation begins as those do that deploy a procedure.
pub(crate) fn may_deploy(bytes: &Value) -> bool {
    const KEY: u8 = 3 << 3 | WireType::LengthDelimited as u8;
    bytes.first() == Some(&KEY)
}

/// Reads an operation.
pub(crate) fn decode(bytes: &Value) -> Result<own::Operation, Malformed> {
    if let Some(batch) = reader::read_batch(bytes)? {
        return Ok(own::Operation::Batch(batch));
    }
    if reader::count_declared(bytes)? > TRANSACTION_ENTRIES_MAX {
        return Err(Malformed(format!("more than {TRANSACTION_ENTRIES_MAX} keys and ranges are declared")));
    }
    let operation = Operation::decode(bytes.clone())?;
    Ok(match present(operation.kind, "the operation")? {
        Kind::Batch(_) => return Err(Malformed::of("a batch that cannot be read")),
        Kind::Call(Call { name, version, arguments, declared }) => {
            let declared = declared.map(own::Declared::from);
            own::Operation::Call(own::Call { name, version, arguments, declared })
        }
        Kind::Deploy(Deploy { name, version, code }) => {
            own::Operation::Deploy(own::Deploy { name, version, code })
        }
        Kind::Remove(Remove { name, version }) => own::Operation::Remove(own::Remove { name, version }),
        Kind::Infer(Infer { name, version, arguments }) => {
            own::Operation::Infer(own::Infer { name, version, arguments })
        }
    })
}
