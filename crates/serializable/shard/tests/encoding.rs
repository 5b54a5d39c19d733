//! Operations and answers as bytes: they come back as they were, and bytes from outside do no harm.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use quorate_core::{ClientId, ClockTime, Key, KeyRange, TransactionId, Value};
use quorate_granola::{Application, Place};
use quorate_serializable_shard::{
    Answer, Batch, Call, Condition, Declared, Deploy, Found, FoundKey, Held, Infer, Inferred, Operation,
    Refusal, Remove, Shard, Step, StepFault, code_of, read_answer,
};

fn key() -> impl Strategy<Value = Key> {
    vec(any::<u8>(), 1..40).prop_map(Key::from)
}

fn value() -> impl Strategy<Value = Value> {
    vec(any::<u8>(), 0..40).prop_map(Value::from)
}

fn range() -> impl Strategy<Value = KeyRange> {
    let to = option::of(vec(any::<u8>(), 0..40).prop_map(Key::from));
    (vec(any::<u8>(), 0..40).prop_map(Key::from), to).prop_map(|(from, to)| KeyRange { from, to })
}

fn place() -> impl Strategy<Value = Place> {
    any::<(u64, u64, u64, u32)>().prop_map(|(timestamp, client, sequence, attempt)| Place {
        timestamp: ClockTime::from_micros(timestamp),
        transaction: TransactionId { client: ClientId(client), sequence, attempt },
    })
}

fn held() -> impl Strategy<Value = Held> {
    (option::of(place()), value()).prop_map(|(place, value)| Held { place, value })
}

fn condition() -> impl Strategy<Value = Condition> {
    prop_oneof![
        key().prop_map(|key| Condition::Absent { key }),
        key().prop_map(|key| Condition::Exists { key }),
        (key(), place()).prop_map(|(key, version)| Condition::Version { key, version }),
        (key(), value()).prop_map(|(key, value)| Condition::Value { key, value }),
        (range(), place(), any::<u64>()).prop_map(|(range, before, keys)| Condition::Unchanged {
            range,
            before,
            keys
        }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        key().prop_map(|key| Step::Get { key }),
        (key(), value()).prop_map(|(key, value)| Step::Put { key, value }),
        key().prop_map(|key| Step::Delete { key }),
        (key(), any::<i64>()).prop_map(|(key, by)| Step::Increment { key, by }),
        (key(), value()).prop_map(|(key, value)| Step::Append { key, value }),
        (range(), 1u32..10_000, any::<bool>()).prop_map(|(range, limit, descending)| Step::Scan {
            range,
            limit,
            descending
        }),
    ]
}

fn declared() -> impl Strategy<Value = Option<Declared>> {
    let declared = (vec(key(), 0..3), vec(range(), 0..3));
    option::of(declared.prop_map(|(keys, ranges)| Declared { keys, ranges }))
}

fn operation() -> impl Strategy<Value = Operation> {
    let name = "[a-zé]{1,10}";
    prop_oneof![
        4 => (vec(condition(), 0..4), vec(step(), 0..6))
            .prop_map(|(conditions, steps)| Operation::Batch(Batch { conditions, steps })),
        1 => (name, any::<u32>(), value(), declared()).prop_map(|(name, version, arguments, declared)| {
            Operation::Call(Call { name, version, arguments, declared })
        }),
        1 => (name, 1u32.., value()).prop_map(|(name, version, code)| Operation::Deploy(Deploy {
            name,
            version,
            code
        })),
        1 => (name, 1u32..).prop_map(|(name, version)| Operation::Remove(Remove { name, version })),
        1 => (name, any::<u32>(), value())
            .prop_map(|(name, version, arguments)| Operation::Infer(Infer { name, version, arguments })),
    ]
}

fn found() -> impl Strategy<Value = Found> {
    let found_key = (key(), held()).prop_map(|(key, held)| FoundKey { key, held });
    prop_oneof![
        option::of(held()).prop_map(Found::Value),
        Just(Found::Done),
        any::<i64>().prop_map(Found::Number),
        any::<u64>().prop_map(Found::Length),
        (vec(found_key, 0..4), any::<bool>()).prop_map(|(keys, more)| Found::Keys { keys, more }),
    ]
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        vec(found(), 0..5).prop_map(Answer::Batch),
        value().prop_map(Answer::Call),
        Just(Answer::Changed),
        (any::<u32>(), declared())
            .prop_map(|(version, touches)| Answer::Inferred(Inferred { version, touches })),
    ]
}

fn refusal() -> impl Strategy<Value = Refusal> {
    let fault = prop_oneof![Just(StepFault::NotANumber), Just(StepFault::Overflow), Just(StepFault::TooLong)];
    prop_oneof![
        ".{0,20}".prop_map(|text| Refusal::Malformed { text }),
        (any::<u32>(), option::of(held()))
            .prop_map(|(condition, found)| Refusal::Condition { condition, found }),
        (any::<u32>(), fault).prop_map(|(step, fault)| Refusal::Step { step, fault }),
        Just(Refusal::TooLarge),
        Just(Refusal::ReadOnly),
        ("[a-z]{1,5}", any::<u32>()).prop_map(|(name, version)| Refusal::NoSuchProcedure { name, version }),
        value().prop_map(|reason| Refusal::Procedure { reason }),
        ".{0,20}".prop_map(|text| Refusal::Failed { text }),
        ".{0,20}".prop_map(|text| Refusal::Deploy { text }),
    ]
}

proptest! {
    #[test]
    fn operations_come_back_as_they_were(operation in operation()) {
        prop_assert_eq!(Operation::decode(&operation.encode()), Ok(operation));
    }

    #[test]
    fn what_deploys_is_told_from_the_rest(operation in operation()) {
        let code = match &operation {
            Operation::Deploy(deploy) => Some(deploy.code.clone()),
            _ => None,
        };
        prop_assert_eq!(code_of(&operation.encode()), code);
    }

    #[test]
    fn answers_come_back_as_they_were(answer in answer()) {
        prop_assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
    }

    #[test]
    fn refusals_come_back_as_they_were(refusal in refusal()) {
        prop_assert_eq!(Refusal::decode(&refusal.encode()), Ok(refusal.clone()));
        prop_assert!(!refusal.to_string().is_empty());
    }

    #[test]
    fn damaged_operations_do_no_harm(
        operation in operation(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in option::of(any::<prop::sample::Index>()),
        noise in vec(any::<u8>(), 0..30),
    ) {
        let mut bytes = operation.encode().to_vec();
        bytes.extend(noise);
        for (at, byte) in damage {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len() + 1));
        }
        let bytes = Value::from(bytes);
        let at = |timestamp| Place {
            timestamp: ClockTime::from_micros(timestamp),
            transaction: TransactionId { client: ClientId(1), sequence: timestamp, attempt: 0 },
        };
        let mut shard = Shard::default();
        let answer = shard.run(at(1), &bytes).expect("nothing is locked");
        let answer = read_answer(&answer).expect("what it answers can be read");
        prop_assert_eq!(Operation::decode(&bytes).is_err(), matches!(answer, Err(Refusal::Malformed { .. })));
        shard.prepare(at(2).transaction, &bytes);
        shard.force_prepare(at(3).transaction, &bytes);
        shard.read(at(9), &bytes);
        shard.abort(at(3).transaction);
        shard.commit(at(2));
        // What can be read can be read again: fields that are not known are left out.
        if let Ok(operation) = Operation::decode(&bytes) {
            prop_assert_eq!(Operation::decode(&operation.encode()), Ok(operation));
        }
        drop((Answer::decode(&bytes), Refusal::decode(&bytes)));
    }
}
