//! The field numbers of operations, answers and refusals, and of the state of a shard.
//!
//! Bytes come from outside. Those that no table takes are [`Malformed`], for every replica alike.

use quorate_codec::field::{
    Fixed64, KeyBytes, Nested, Optional, PlainBytes, Repeated, Text, ValueBytes, Varint, Via,
};
use quorate_codec::reader::{Reader, WireType};
use quorate_codec::{
    DecodeError, Fault, Through, alternatives, bytes_kind, choices, list, message, pair, through,
};
use quorate_core::transaction::{KEY_BYTES_MAX, TRANSACTION_ENTRIES_MAX, validate_key};
use quorate_core::{ClientId, ClockTime, Key, KeyRange, TransactionId, Value};
use quorate_granola::Place;

use crate::answer::{Answer, Found, FoundKey, Held, Inferred, Refusal, StepFault};
use crate::operation::{
    Batch, Call, Condition, Declared, Deploy, Freeze, Infer, Malformed, Operation, ReadFrozen, Remove,
    SCAN_KEYS_MAX, Step,
};
use crate::shard::{Page, Version, Written};

alternatives!(Operation, "procedures.Operation", fields {
    1 Batch: Nested,
    2 Call: Nested,
    3 Deploy: Nested,
    4 Remove: Nested,
    5 Infer: Nested,
    6 Freeze: Nested,
    7 ReadFrozen: Nested,
});

/// True if an encoded operation makes a procedure known, or unknown again. Of several alternatives the last one counts, as where it is decoded; bytes that are no
/// operation, which every shard refuses, are none of these.
pub fn changes_procedures(operation: &[u8]) -> bool {
    const CHANGES: [u32; 2] = [3, 4];
    let (mut reader, mut changes) = (Reader::new(operation), false);
    while let Ok(Some((number, wire_type))) = reader.tag() {
        if (1..=7).contains(&number) {
            changes = CHANGES.contains(&number);
        }
        if reader.skip(wire_type).is_err() {
            return changes;
        }
    }
    changes
}

/// How an operation begins that deploys a procedure.
pub(crate) const DEPLOY_TAG: u8 = 3 << 3 | WireType::Delimited as u8;

message!(Batch, "procedures.Batch", {
    1 conditions: Repeated<Nested, TRANSACTION_ENTRIES_MAX>,
    2 steps: Repeated<Nested, TRANSACTION_ENTRIES_MAX>,
});

bytes_kind!(
    /// The key of a condition or a step; empty if it is about a range.
    KeyOrNone: Key,
    default Some(Key::default()),
    lengths 0, Some(KEY_BYTES_MAX),
    check |bytes| if bytes.is_empty() { Ok(()) } else { validate_key(bytes) }
);

/// A [`Condition`] with its key beside what has to hold.
struct KeyedCondition {
    key: Key,
    holds: Holds,
}

enum Holds {
    Absent,
    Exists,
    Version(Place),
    Value(Value),
    AtLeast(i64),
    Unchanged { range: KeyRange, before: Place, keys: u64 },
}

message!(KeyedCondition, "procedures.Condition", { 1 key: KeyOrNone }, one of holds: Holds);

alternatives!(Holds, "procedures.Condition",
    messages {
        2 Absent {}
        3 Exists {}
        6 Unchanged { 1 range: Nested, 2 before: Via<PlaceInOne>, 3 keys: Varint }
    },
    fields {
        4 Version: Via<PlaceInOne>,
        5 Value: ValueBytes,
        7 AtLeast: Varint,
    }
);

through!(Condition, KeyedCondition);

impl Through<Condition> for KeyedCondition {
    fn of(condition: &Condition) -> Self {
        let (key, holds) = match condition.clone() {
            Condition::Absent { key } => (key, Holds::Absent),
            Condition::Exists { key } => (key, Holds::Exists),
            Condition::Version { key, version } => (key, Holds::Version(version)),
            Condition::Value { key, value } => (key, Holds::Value(value)),
            Condition::AtLeast { key, number } => (key, Holds::AtLeast(number)),
            Condition::Unchanged { range, before, keys } => {
                (Key::default(), Holds::Unchanged { range, before, keys })
            }
        };
        KeyedCondition { key, holds }
    }

    fn restore(self) -> Result<Condition, Fault> {
        let KeyedCondition { key, holds } = self;
        Ok(match holds {
            Holds::Absent => Condition::Absent { key },
            Holds::Exists => Condition::Exists { key },
            Holds::Version(version) => Condition::Version { key, version },
            Holds::Value(value) => Condition::Value { key, value },
            Holds::AtLeast(number) => Condition::AtLeast { key, number },
            Holds::Unchanged { range, before, keys } => Condition::Unchanged { range, before, keys },
        })
    }
}

/// A [`Step`] with its key beside what it does.
struct KeyedStep {
    key: Key,
    does: Does,
}

enum Does {
    Get,
    Put(Value),
    Delete,
    Increment(i64),
    Append(Value),
    Scan { range: KeyRange, limit: u32, descending: bool },
}

message!(KeyedStep, "procedures.Step", { 1 key: KeyOrNone }, one of does: Does);

alternatives!(Does, "procedures.Step",
    messages {
        2 Get {}
        4 Delete {}
        7 Scan { 1 range: Nested, 2 limit: Varint, 3 descending: Varint }
    },
    fields {
        3 Put: ValueBytes,
        5 Increment: Varint,
        6 Append: ValueBytes,
    }
);

through!(Step, KeyedStep);

impl Through<Step> for KeyedStep {
    fn of(step: &Step) -> Self {
        let (key, does) = match step.clone() {
            Step::Get { key } => (key, Does::Get),
            Step::Put { key, value } => (key, Does::Put(value)),
            Step::Delete { key } => (key, Does::Delete),
            Step::Increment { key, by } => (key, Does::Increment(by)),
            Step::Append { key, value } => (key, Does::Append(value)),
            Step::Scan { range, limit, descending } => {
                (Key::default(), Does::Scan { range, limit, descending })
            }
        };
        KeyedStep { key, does }
    }

    fn restore(self) -> Result<Step, Fault> {
        let KeyedStep { key, does } = self;
        Ok(match does {
            Does::Get => Step::Get { key },
            Does::Put(value) => Step::Put { key, value },
            Does::Delete => Step::Delete { key },
            Does::Increment(by) => Step::Increment { key, by },
            Does::Append(value) => Step::Append { key, value },
            Does::Scan { range, limit, descending } => Step::Scan { range, limit, descending },
        })
    }
}

message!(Call, "procedures.Call", {
    1 name: Text,
    2 version: Varint,
    3 arguments: PlainBytes,
    4 declared: Optional<Nested>,
});

message!(Declared, "procedures.Declared", {
    1 keys: Repeated<KeyBytes, TRANSACTION_ENTRIES_MAX>,
    2 ranges: Repeated<Nested, TRANSACTION_ENTRIES_MAX>,
});

message!(Deploy, "procedures.Deploy", {
    1 name: Text,
    2 version: Varint,
    3 code: ValueBytes,
});

message!(Remove, "procedures.Remove", {
    1 name: Text,
    2 version: Varint,
});

message!(Infer, "procedures.Infer", {
    1 name: Text,
    2 version: Varint,
    3 arguments: PlainBytes,
});

message!(Freeze, "procedures.Freeze", {
    1 reader: Fixed64,
});

message!(ReadFrozen, "procedures.ReadFrozen", {
    1 reader: Fixed64,
    2 at: Fixed64,
    3 procedures: Varint,
    4 after: KeyOrNone,
});

/// A [`Place`] whose transaction is no message of its own.
struct PlaceInOne {
    timestamp: ClockTime,
    client: ClientId,
    sequence: u64,
    attempt: u32,
}

message!(PlaceInOne, "procedures.Place", {
    1 timestamp: Fixed64,
    2 client: Fixed64,
    3 sequence: Varint,
    4 attempt: Varint,
});

impl Through<Place> for PlaceInOne {
    fn of(place: &Place) -> Self {
        let Place { timestamp, transaction: TransactionId { client, sequence, attempt } } = *place;
        PlaceInOne { timestamp, client, sequence, attempt }
    }

    fn restore(self) -> Result<Place, Fault> {
        let PlaceInOne { timestamp, client, sequence, attempt } = self;
        Ok(Place { timestamp, transaction: TransactionId { client, sequence, attempt } })
    }
}

list!(FoundList: Vec<Found>, "procedures.Answer.Batch", Repeated<Nested, TRANSACTION_ENTRIES_MAX>);

alternatives!(Answer, "procedures.Answer",
    messages {
        3 Changed {}
    },
    fields {
        1 Batch: FoundList,
        2 Call: PlainBytes,
        4 Inferred: Nested,
    }
);

alternatives!(Found, "procedures.Found",
    messages {
        2 Absent {}
        3 Done {}
        6 Keys { 1 keys: Repeated<Nested, { SCAN_KEYS_MAX as usize }>, 2 more: Varint }
    },
    fields {
        1 Held: Nested,
        4 Number: Varint,
        5 Length: Varint,
    }
);

message!(Held, "procedures.Held", {
    1 place: Optional<Via<PlaceInOne>>,
    2 value: ValueBytes,
});

message!(FoundKey, "procedures.FoundKey", {
    1 key: KeyBytes,
    2 held: Nested,
});

message!(Inferred, "procedures.Inferred", {
    1 version: Varint,
    2 touches: Optional<Nested>,
});

alternatives!(Refusal, "procedures.Refusal",
    messages {
        2 Condition { 1 condition: Varint, 2 found: Optional<Nested> }
        3 Step { 1 step: Varint, 2 fault: Varint }
        4 TooLarge {}
        5 ReadOnly {}
        6 NoSuchProcedure { 1 name: Text, 2 version: Varint }
        10 NotFrozen {}
    },
    fields {
        1 Malformed.text: Text,
        7 Procedure.reason: PlainBytes,
        8 Failed.text: Text,
        9 Deploy.text: Text,
    }
);

choices!(StepFault {
    1 "not a number" [StepFault::NotANumber],
    2 "overflow" [StepFault::Overflow],
    3 "too long" [StepFault::TooLong],
});

impl From<DecodeError> for Malformed {
    /// In the words of the codec: replicas of one version answer the same.
    fn from(error: DecodeError) -> Self {
        Malformed::of(error)
    }
}

message!(Version, "procedures.Version", {
    1 place: Nested,
    2 value: ValueBytes,
});

pair!(KeyVersion: (Key, Version), "procedures.Page.Key", 1 key: KeyBytes, 2 version: Nested);

list!(KeyVersions: Vec<(Key, Version)>, "procedures.Page.Procedures", Repeated<KeyVersion>);

message!(Written, "procedures.Page.Written", {
    1 place: Nested,
    2 writes: Repeated<Nested, TRANSACTION_ENTRIES_MAX>,
});

// Programs that know no history pass over it: to them a page of it is one without keys.
alternatives!(Page, "procedures.Page",
    messages {
        1 Keys { 1 entries: Repeated<KeyVersion>, 2 written: Repeated<Nested>, 3 retained_from: Optional<Fixed64> }
    },
    fields {
        2 Procedures: KeyVersions,
    }
);
