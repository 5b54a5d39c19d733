//! Bytes that must never change: other versions and other languages have seen them, and logs hold them.

use quorate_core::{ClientId, ClockTime, Key, KeyRange, TransactionId, Value};
use quorate_granola::Place;
use quorate_serializable_shard::{
    Answer, Batch, Call, Condition, Declared, Deploy, Found, FoundKey, Held, Infer, Inferred, Operation,
    Refusal, Remove, Step, StepFault, code_of,
};

use crate::batches::{key, value};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Every part of it has more than one byte.
fn place() -> Place {
    let transaction = TransactionId { client: ClientId(0x1122_3344_5566_7788), sequence: 300, attempt: 1 };
    Place { timestamp: ClockTime::from_micros(0x0102), transaction }
}

fn range(to: Option<Key>) -> KeyRange {
    KeyRange { from: key("a"), to }
}

fn declared() -> Declared {
    Declared { keys: vec![key("a"), key("b")], ranges: vec![range(Some(Key::default())), range(None)] }
}

fn held(place: Option<Place>, text: &str) -> Held {
    Held { place, value: value(text) }
}

fn conditions() -> Vec<Condition> {
    vec![
        Condition::Absent { key: key("a") },
        Condition::Exists { key: key("b") },
        Condition::Version { key: key("c"), version: place() },
        Condition::Version { key: key("c"), version: Place::default() },
        Condition::Value { key: key("d"), value: value("x") },
        Condition::Value { key: key("d"), value: value("") },
        Condition::AtLeast { key: key("e"), number: 150 },
        Condition::AtLeast { key: key("e"), number: 0 },
        Condition::AtLeast { key: key("e"), number: i64::MIN },
        Condition::Unchanged { range: range(Some(key("z"))), before: place(), keys: 200 },
        Condition::Unchanged {
            range: KeyRange { from: Key::default(), to: None },
            before: Place::default(),
            keys: 0,
        },
    ]
}

fn steps() -> Vec<Step> {
    vec![
        Step::Get { key: key("a") },
        Step::Put { key: key("b"), value: value("x") },
        Step::Put { key: key("b"), value: value("") },
        Step::Delete { key: key("c") },
        Step::Increment { key: key("d"), by: 1 },
        Step::Increment { key: key("d"), by: -150 },
        Step::Increment { key: key("d"), by: 0 },
        Step::Increment { key: key("d"), by: i64::MIN },
        Step::Append { key: key("e"), value: value("y") },
        Step::Scan { range: range(None), limit: 300, descending: true },
        Step::Scan { range: range(Some(key("z"))), limit: 1, descending: false },
    ]
}

#[test]
fn operations_as_a_table() {
    let call = |name: &str, version, arguments, declared| {
        Operation::Call(Call { name: name.to_owned(), version, arguments: value(arguments), declared })
    };
    let batch = |conditions, steps| Operation::Batch(Batch { conditions, steps });
    let (name, code) = ("pé".to_owned(), value("code"));
    let table = [
        (batch(Vec::new(), Vec::new()), "0a00"),
        (
            batch(conditions(), Vec::new()),
            concat!(
                "0a9101",
                "0a050a01611200",
                "0a050a01621a00",
                "0a1c0a0163221709020100000000000011887766554433221118ac022001",
                "0a050a01632200",
                "0a060a01642a0178",
                "0a050a01642a00",
                "0a060a016538ac02",
                "0a050a01653800",
                "0a0e0a016538ffffffffffffffffff01",
                "0a2632240a060a016112017a121709020100000000000011887766554433221118ac02200118c801",
                "0a0632040a001200"
            ),
        ),
        (
            batch(Vec::new(), steps()),
            concat!(
                "0a67",
                "12050a01611200",
                "12060a01621a0178",
                "12050a01621a00",
                "12050a01632200",
                "12050a01642802",
                "12060a016428ab02",
                "12050a01642800",
                "120e0a016428ffffffffffffffffff01",
                "12060a0165320179",
                "120c3a0a0a030a016110ac021801",
                "120c3a0a0a060a016112017a1001"
            ),
        ),
        (call("p", 0, "", None), "12030a0170"),
        (
            call("p", 300, "x", Some(declared())),
            "121d0a017010ac021a017822120a01610a016212050a0161120012030a0161",
        ),
        (call("p", 0, "", Some(Declared::default())), "12050a01702200"),
        (
            Operation::Deploy(Deploy { name: name.clone(), version: 1, code }),
            "1a0d0a0370c3a910011a04636f6465",
        ),
        (Operation::Remove(Remove { name: name.clone(), version: 1 }), "22070a0370c3a91001"),
        (Operation::Infer(Infer { name, version: 0, arguments: value("x") }), "2a080a0370c3a91a0178"),
    ];
    for (operation, expected) in table {
        assert_eq!(hex(&operation.encode()), expected, "{operation:?}");
        let code = match &operation {
            Operation::Deploy(deploy) => Some(deploy.code.clone()),
            _ => None,
        };
        assert_eq!(code_of(&operation.encode()), code, "{operation:?}");
        assert_eq!(Operation::decode(&operation.encode()), Ok(operation));
    }
}

#[test]
fn answers_as_a_table() {
    let found_key = |name, held| FoundKey { key: key(name), held };
    let keys = vec![found_key("a", held(Some(place()), "x")), found_key("b", held(None, ""))];
    let table = [
        (Answer::Batch(Vec::new()), "0a00"),
        (
            Answer::Batch(vec![
                Found::Held(held(Some(place()), "x")),
                Found::Held(held(Some(Place::default()), "")),
                Found::Held(held(None, "")),
                Found::Absent,
                Found::Done,
                Found::Number(-150),
                Found::Number(0),
                Found::Length(300),
                Found::Length(0),
            ]),
            concat!(
                "0a44",
                "0a1e0a1c0a1709020100000000000011887766554433221118ac022001120178",
                "0a040a020a00",
                "0a020a00",
                "0a021200",
                "0a021a00",
                "0a0320ab02",
                "0a022000",
                "0a0328ac02",
                "0a022800"
            ),
        ),
        (
            Answer::Batch(vec![Found::Keys { keys, more: true }]),
            "0a300a2e322c0a210a0161121c0a1709020100000000000011887766554433221118ac0220011201780a050a016212001001",
        ),
        (Answer::Batch(vec![Found::Keys { keys: Vec::new(), more: false }]), "0a040a023200"),
        (Answer::Call(value("x")), "120178"),
        (Answer::Call(Value::new()), "1200"),
        (Answer::Changed, "1a00"),
        (
            Answer::Inferred(Inferred { version: 300, touches: Some(declared()) }),
            "221708ac0212120a01610a016212050a0161120012030a0161",
        ),
        (Answer::Inferred(Inferred::default()), "2200"),
    ];
    for (answer, expected) in table {
        assert_eq!(hex(&answer.encode()), expected, "{answer:?}");
        assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
    }
}

#[test]
fn refusals_as_a_table() {
    let text = || "why".to_owned();
    let table = [
        (Refusal::Malformed { text: text() }, "0a03776879"),
        (Refusal::Malformed { text: String::new() }, "0a00"),
        (
            Refusal::Condition { condition: 300, found: Some(held(Some(place()), "x")) },
            "122108ac02121c0a1709020100000000000011887766554433221118ac022001120178",
        ),
        (Refusal::Condition { condition: 0, found: None }, "1200"),
        (Refusal::Step { step: 0, fault: StepFault::NotANumber }, "1a021001"),
        (Refusal::Step { step: 1, fault: StepFault::Overflow }, "1a0408011002"),
        (Refusal::Step { step: 300, fault: StepFault::TooLong }, "1a0508ac021003"),
        (Refusal::TooLarge, "2200"),
        (Refusal::ReadOnly, "2a00"),
        (Refusal::NoSuchProcedure { name: "p".to_owned(), version: 0 }, "32030a0170"),
        (Refusal::NoSuchProcedure { name: "p".to_owned(), version: 300 }, "32060a017010ac02"),
        (Refusal::Procedure { reason: value("x") }, "3a0178"),
        (Refusal::Procedure { reason: Value::new() }, "3a00"),
        (Refusal::Failed { text: text() }, "4203776879"),
        (Refusal::Deploy { text: text() }, "4a03776879"),
        (Refusal::NotFrozen, "5200"),
    ];
    for (refusal, expected) in table {
        assert_eq!(hex(&refusal.encode()), expected, "{refusal:?}");
        assert_eq!(Refusal::decode(&refusal.encode()), Ok(refusal));
    }
}
