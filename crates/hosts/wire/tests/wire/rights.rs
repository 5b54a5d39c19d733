//! The table of who may say what, as people review it: `rights.txt` has a line for every message and every packet, and each way in which its content matters.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use quorate_access::{Claim, Standing};
use quorate_core::caption::variant;
use quorate_core::command::{Event, Failure, NotExecuted};
use quorate_core::{Address, ClientId, ClockTime, ReplicaId, ReplicaIndex, ShardId, TransactionId, Value};
use quorate_log::Part;
use quorate_wire::catalogue::SYSTEM_SHARD;
use quorate_wire::rights::{
    Awaited, Demand, PacketRow, Row, Speaker, Taking, decide_client, has_hints, is_said_by_nodes, packet_row,
    row, transaction_of, without_hints,
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

/// Every message, said by a client of each standing: by the rule as a sentence, not by the code.
#[test]
fn a_message_is_taken_from_a_client_with_its_right_and_from_no_other() {
    let seen: RefCell<BTreeSet<String>> = RefCell::default();
    cases(6_000, |random| {
        let message: ProtocolMessage = of_type(random);
        let said = row(&message);
        let other = ClientId(u64::MAX);
        let client = transaction_of(&message).map_or(ClientId(7), |transaction| transaction.client);
        for claims in [&[][..], &[Claim::Read], &[Claim::Read, Claim::Coordinate], &Claim::ALL] {
            let standing = Standing::of(claims.iter().copied());
            let has = |claim| if standing.allows(claim) { Taking::Whole } else { Taking::Denied(claim) };
            for (client, is_own) in [(client, true), (other, client == other)] {
                let expected = match (said.speaker, said.demand) {
                    (Speaker::Group | Speaker::Keyspace, _) => Taking::Unsaid,
                    (_, Demand::Nothing) => Taking::Whole,
                    (_, Demand::Entries) => Taking::IfEntriesMay,
                    (_, Demand::Hint) if claims.contains(&Claim::Coordinate) => Taking::Whole,
                    (_, Demand::Hint) => Taking::PassedOver,
                    (_, Demand::Claim(Claim::Read)) if has_hints(&message) && claims == [Claim::Read] => {
                        Taking::WithoutHints
                    }
                    (_, Demand::Claim(claim)) => has(claim),
                    (_, Demand::Own(_)) if is_own => has(Claim::Read),
                    (_, Demand::Own(_)) => has(Claim::Coordinate),
                };
                let decided = decide_client(said, &message, client, standing);
                assert_eq!(decided, expected, "{claims:?} {message:?}");
                seen.borrow_mut().insert(variant(&decided));
            }
        }
    });
    assert_eq!(seen.into_inner().len(), 6, "every decision was made");
}

#[test]
fn a_node_says_what_its_replicas_and_coordinators_say_to_whom_they_say_it() {
    let replica = |shard| ReplicaId { shard: ShardId(shard), index: ReplicaIndex(0) }.into();
    let client: Address = ClientId(1).into();
    let said: RefCell<BTreeSet<(String, bool)>> = RefCell::default();
    cases(6_000, |random| {
        let message: ProtocolMessage = of_type(random);
        let speaker = row(&message).speaker;
        let within = |from, to, is_one| is_said_by_nodes(from, to, &message, |_, _| is_one);
        let group = within(replica(5), replica(5), false);
        let keyspace = within(replica(5), replica(6), true);
        let elsewhere = within(replica(5), replica(6), false);
        assert_eq!(group, speaker != Speaker::Client, "{message:?}");
        assert_eq!(keyspace, matches!(speaker, Speaker::Keyspace | Speaker::Coordinator), "{message:?}");
        assert!(!elsewhere && !within(client, client, true) && !within(client, replica(5), true));
        let is_of_catalogue = within(client, SYSTEM_SHARD_REPLICA.into(), true);
        assert!(!is_of_catalogue || matches!(message, ProtocolMessage::Configuration(Part::Own(_))));
        assert!(within(SYSTEM_SHARD_REPLICA.into(), client, false) && !within(replica(5), client, true));
        said.borrow_mut().insert((format!("{speaker:?}"), is_of_catalogue));
    });
    assert!(said.into_inner().contains(&("Client".to_owned(), true)), "a node writes to the catalogue");
}

const SYSTEM_SHARD_REPLICA: ReplicaId = ReplicaId { shard: SYSTEM_SHARD, index: ReplicaIndex(0) };

#[test]
fn a_denial_ends_what_waits_and_says_nothing_of_an_outcome() {
    let (id, shard) = (TransactionId { client: ClientId(1), sequence: 2, attempt: 0 }, ShardId(3));
    assert_eq!(Awaited::End.events(id), [Event::Finished { transaction: id, result: Err(Failure::Aborted) }]);
    let failed = Err(NotExecuted::Failed(Failure::Aborted));
    assert_eq!(Awaited::Result.events(id), [Event::Executed { transaction: id, result: failed }]);
    assert_eq!(Awaited::Outcome.events(id), [Event::Resolved { transaction: id, outcome: None }]);
    assert!(Awaited::Outcome.giving_up(id, shard).is_none());
    for awaited in [Awaited::End, Awaited::Result, Awaited::Milestones] {
        let told = awaited.giving_up(id, shard);
        assert!(matches!(told, Some(ProtocolMessage::Granola(Part::Own(_)))), "{awaited:?}");
    }
}
