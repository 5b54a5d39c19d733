//! The table of who may say what, as people review it: `rights.txt` has a line for every message and every packet, and each way in which its content matters.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use quorate_access::Claim;
use quorate_core::caption::variant;
use quorate_core::{ClientId, ClockTime, ShardId, TransactionId, Value};
use quorate_log::Part;
use quorate_wire::rights::{
    Demand, PacketRow, Row, Speaker, has_hints, packet_row, row, transaction_of, without_hints,
};
use quorate_wire::{Envelope, Packet, ProtocolMessage, encode};

use crate::cases;
use crate::generate::{SCHEMA, of_type, packet};

/// The protocol of a message, and its name there.
fn name(message: &ProtocolMessage) -> String {
    fn part<L: std::fmt::Debug, O: std::fmt::Debug>(part: &Part<L, O>) -> String {
        match part {
            Part::Log(message) => format!("log {}", variant(message)),
            Part::Own(message) => variant(message),
        }
    }
    fn ir<O: quorate_ir::Operations>(message: &quorate_ir::Message<O>) -> String {
        format!("ir {}", variant(message))
    }
    let protocol = variant(message);
    let said = match message {
        ProtocolMessage::Tapir(quorate_tapir::Message::Ir(message)) => ir(message),
        ProtocolMessage::Tapir(message) => variant(message),
        ProtocolMessage::Granola(message) => part(message),
        ProtocolMessage::Walter(message) => part(message),
        ProtocolMessage::Str(message) => part(message),
        ProtocolMessage::Configuration(message) => part(message),
        ProtocolMessage::Baseline(message) => part(message),
        ProtocolMessage::QwStore(quorate_qwstore::Message::Ir(message)) => ir(message),
        ProtocolMessage::QwStore(message) => variant(message),
    };
    format!("{} {said}", protocol.to_lowercase())
}

fn told(row: Row) -> String {
    let demand = match row.demand {
        Demand::Nothing => "-".to_owned(),
        Demand::Claim(claim) => format!("{claim:?}").to_lowercase(),
        Demand::Own(_) => "read for its own, coordinate for others".to_owned(),
        Demand::Hint => "coordinate, else passed over".to_owned(),
        Demand::Entries => "what its entries demand".to_owned(),
    };
    format!("{:<12}{demand}", format!("{:?}", row.speaker).to_lowercase())
}

/// How many messages a protocol has, by its schema.
fn count_of_alternatives(name: &str) -> usize {
    SCHEMA.message(name).expect("it is described").alternatives.len()
}

#[test]
fn the_table_is_the_one_that_was_reviewed() {
    let found: RefCell<BTreeMap<String, BTreeSet<String>>> = RefCell::default();
    let note = |name: String, row: String| {
        found.borrow_mut().entry(name).or_default().insert(row);
    };
    cases(6_000, |random| {
        let message: ProtocolMessage = of_type(random);
        note(name(&message), told(row(&message)));
        let packet = packet(random);
        let line = format!("{:?}", packet_row(&packet));
        note(format!("packet {}", variant(&packet)), line);
    });
    let found = found.into_inner();
    let packets = found.keys().filter(|name| name.starts_with("packet ")).count();
    assert_eq!(packets, count_of_alternatives("Packet"), "every packet was drawn");
    let lines =
        found.iter().flat_map(|(name, rows)| rows.iter().map(move |row| format!("{name:<42}{row}\n")));
    let expected: String = lines.collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire/rights.txt");
    if std::env::var_os("QUORATE_BLESS").is_some() {
        std::fs::write(&path, &expected).expect("the table can be written");
    }
    let reviewed = std::fs::read_to_string(&path).expect("the table is there");
    let differs = expected.lines().zip(reviewed.lines()).find(|(expected, reviewed)| expected != reviewed);
    assert!(
        expected == reviewed,
        "{differs:?}: `QUORATE_BLESS=1 cargo test -p quorate-wire --test wire rights` writes the table anew; read it before you commit it"
    );
}

/// A message of a client is about a transaction, or about entries; or nothing waits for an answer.
#[test]
fn a_refusal_reaches_the_call_that_waits() {
    cases(2_000, |random| {
        let message: ProtocolMessage = of_type(random);
        let said = row(&message);
        let is_of_clients = matches!(said.speaker, Speaker::Client | Speaker::Coordinator);
        match said.demand {
            Demand::Claim(_) | Demand::Own(_) => {
                assert!(is_of_clients && transaction_of(&message).is_some(), "{message:?}");
            }
            Demand::Entries => assert!(matches!(message, ProtocolMessage::Configuration(Part::Own(_)))),
            Demand::Hint => assert!(is_of_clients),
            Demand::Nothing => {
                assert!(!is_of_clients || name(&message) == "configuration Unwatch", "{message:?}");
            }
        }
        if let Demand::Own(transaction) = said.demand {
            assert_eq!(transaction_of(&message), Some(transaction), "{message:?}");
        }
    });
}

#[test]
fn only_a_coordinator_is_believed_what_others_have_found() {
    let had = Cell::new(0);
    cases(6_000, |random| {
        let mut message: ProtocolMessage = of_type(random);
        had.set(had.get() + u32::from(has_hints(&message)));
        let before = message.clone();
        without_hints(&mut message);
        assert!(!has_hints(&message));
        assert_eq!(name(&message), name(&before));
        if !has_hints(&before) {
            assert_eq!(message, before, "nothing else is taken out");
        }
    });
    assert!(had.get() > 0);
}

/// An envelope is judged by its message, and nothing else that travels is.
#[test]
fn messages_travel_in_envelopes_alone() {
    cases(1_000, |random| {
        let packet = packet(random);
        let is_envelope = matches!(packet, Packet::Envelope(Envelope { .. }));
        assert_eq!(packet_row(&packet) == PacketRow::Message, is_envelope);
    });
}

/// A coordinator does not deploy by hiding that in something else: the last alternative is the one that a shard carries out.
#[test]
fn procedures_are_deployed_by_the_right_to_deploy_alone() {
    use quorate_granola::{Class, Message, Request};
    use quorate_serializable_shard::{Batch, Deploy, Operation, Remove};
    let deploy = encode(&Operation::Deploy(Deploy { name: "p".to_owned(), version: 1, code: Value::new() }));
    let remove = encode(&Operation::Remove(Remove { name: "p".to_owned(), version: 1 }));
    let batch = encode(&Operation::Batch(Batch::default()));
    let both = |one: &Value, other: &Value| Value::from([&one[..], &other[..]].concat());
    let table = [
        (deploy.clone(), Class::Coordinated, Claim::Deploy),
        (deploy.clone(), Class::ReadOnly, Claim::Deploy),
        (remove, Class::Independent, Claim::Deploy),
        (batch.clone(), Class::Independent, Claim::Coordinate),
        (batch.clone(), Class::ReadOnly, Claim::Read),
        (both(&batch, &deploy), Class::Independent, Claim::Deploy),
        (both(&deploy, &batch), Class::Independent, Claim::Coordinate),
        (Value::from_static(b"\xff"), Class::Independent, Claim::Coordinate),
    ];
    for (operation, class, claim) in table {
        let request = Request {
            transaction: TransactionId { client: ClientId(1), sequence: 1, attempt: 0 },
            participants: vec![ShardId(1)],
            operation,
            class,
            high: ClockTime::from_micros(0),
            first: ClockTime::from_micros(1),
        };
        let told = format!("{request:?}");
        let said = row(&ProtocolMessage::Granola(Part::Own(Message::Request(request))));
        assert_eq!(said, Row { speaker: Speaker::Client, demand: Demand::Claim(claim) }, "{told}");
    }
}
