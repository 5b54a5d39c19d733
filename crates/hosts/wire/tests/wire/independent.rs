//! The independent implementation reads the bytes of the codec, and both write the same.
//!
//! It refuses fields that `docs/wire-format.proto` does not declare and those of another type; so equal bytes after its
//! own round trip mean that every field has the number and type of the text.

use quorate_core::{ClientId, ClockTime, Timestamp, TransactionId};
use quorate_wire::catalogue::{Deployment, Stage};
use quorate_wire::{FrameWriter, Packet, Wire, encode};

use crate::generate::{FILE, SCHEMA};
use crate::{cases, generate, roots};

#[test]
fn what_the_codec_writes_are_protocol_buffers() {
    cases(1_000, |random| {
        for root in roots::all() {
            let message = generate::message(&root.name, random);
            let ours = (root.again)(&generate::write(&root.name, &message)).expect("it is sound");
            let theirs =
                generate::read(&root.name, &ours).unwrap_or_else(|error| panic!("{}: {error}", root.name));
            assert_eq!(theirs, message, "{}", root.name);
            assert_eq!(generate::write(&root.name, &theirs), ours, "{}", root.name);
        }
    });
}

#[test]
fn the_payload_of_a_frame_is_a_message_of_packets() {
    cases(1_000, |random| {
        let packets: Vec<Packet> = (0..random.between(1, 4)).map(|_| generate::packet(random)).collect();
        let mut writer = FrameWriter::new();
        for packet in &packets {
            writer.push(packet).unwrap();
        }
        let frame = writer.take();
        let payload = generate::read("Payload", &frame[9..]).unwrap();
        assert_eq!(payload.all(1).len(), packets.len());
        assert_eq!(generate::write("Payload", &payload), &frame[9..]);
    });
}

/// A message as the independent implementation reads it, and as the text format of protocol buffers shows it.
fn read<T: Wire>(message: &T) -> String {
    let theirs = generate::read(&T::name(), &encode(message)).expect("it is declared");
    FILE.print(&SCHEMA.identifier(&T::name()), &theirs)
}

#[test]
fn a_deployment_says_what_it_means() {
    let stages = [Stage::Deploying, Stage::Deployed, Stage::Removing, Stage::Removed];
    for (number, stage) in (1..).zip(stages) {
        let ours = Deployment { stage, bytes: 8, crc32: 1 << 31, deployed_at: ClockTime::from_micros(11) };
        assert_eq!(read(&ours), format!("stage: {number} bytes: 8 crc32: 2147483648 deployed_at: 11"));
    }
}

/// The values are where the names say, not only somewhere.
#[test]
fn a_read_reply_says_what_it_means() {
    let message = quorate_tapir::Message::ReadReply {
        transaction: TransactionId { client: ClientId(7), sequence: 8, attempt: 9 },
        key: "key".into(),
        version: Timestamp { micros: 10, client: ClientId(11) },
        value: Some("value".into()),
    };
    assert_eq!(
        read(&message),
        "read_reply { transaction { client: 7 sequence: 8 attempt: 9 } key: \"key\" \
         version { micros: 10 client: 11 } value: \"value\" }"
    );
    let goodbye = Packet::Goodbye { reason: "maintenance".to_owned() };
    assert_eq!(read(&goodbye), "goodbye { reason: \"maintenance\" }");
}

fn micros(micros: u64) -> Timestamp {
    Timestamp { micros, client: ClientId(0) }
}

#[test]
fn a_put_says_what_it_means() {
    use quorate_ir::OperationId;
    use quorate_qwstore::message::Put;
    let put = Put { key: "key".into(), value: Some("value".into()), timestamp: micros(3) };
    let transaction = TransactionId { client: ClientId(1), sequence: 2, attempt: 0 };
    let id = OperationId { transaction, number: OperationId::INCONSISTENT };
    let message = quorate_ir::Message::ProposeInconsistent { id, operation: put.into() };
    assert_eq!(
        read(&quorate_qwstore::Message::Ir(message)),
        "ir { propose_inconsistent { id { transaction { client: 1 sequence: 2 } } \
         operation { key: \"key\" value: \"value\" timestamp { micros: 3 } } } }"
    );
}

/// The key stands beside the alternatives, and the lowest bit of a number is its sign.
#[test]
fn a_batch_says_what_it_means() {
    use quorate_granola::Place;
    use quorate_serializable_shard::{Batch, Condition, Operation, Step};
    let transaction = TransactionId { client: ClientId(1), sequence: 2, attempt: 3 };
    let version = Place { timestamp: ClockTime::from_micros(4), transaction };
    let batch = Batch {
        conditions: vec![Condition::Version { key: "a".into(), version }],
        steps: vec![
            Step::Increment { key: "b".into(), by: -150 },
            Step::Increment { key: "c".into(), by: i64::MAX },
            Step::Delete { key: "d".into() },
        ],
    };
    assert_eq!(
        read(&Operation::Batch(batch)),
        "batch { conditions { key: \"a\" version { timestamp: 4 client: 1 sequence: 2 attempt: 3 } } \
         steps { key: \"b\" increment: -150 } steps { key: \"c\" increment: 9223372036854775807 } \
         steps { key: \"d\" delete {} } }"
    );
}

#[test]
fn an_entry_on_its_way_to_a_log_says_what_it_means() {
    use quorate_baselines::entry::Prepared;
    use quorate_core::View;
    use quorate_core::log::Position;
    let prepared = Prepared {
        transaction: TransactionId::default(),
        part: Default::default(),
        proposed: micros(1),
        age: micros(2),
        timestamp: micros(3),
    };
    let item = quorate_log::member::Item::<quorate_baselines::Replica>::Own(
        quorate_baselines::Entry::Prepared(prepared),
    );
    let message = quorate_log::Message::Prepare {
        view: View(4),
        after: Position(5),
        entries: vec![quorate_log::Entry { view: View(6), payload: item }],
        stable: Position(7),
        beat: 8,
        clock: Some(ClockTime::from_micros(9)),
    };
    assert_eq!(
        read(&message),
        "prepare { view: 4 after: 5 entries { view: 6 payload { own { prepared { transaction {} part {} \
         proposed { micros: 1 } timestamp { micros: 3 } age { micros: 2 } } } } } stable: 7 beat: 8 clock: 9 }"
    );
}

#[test]
fn a_snapshot_says_what_it_means() {
    use quorate_core::log::Position;
    use quorate_core::{Epoch, ReplicaIndex, View};
    use quorate_log::{Beginning, Membership};
    let members = [2, 4, 6].map(ReplicaIndex).to_vec();
    let fact = quorate_log::Fact::<quorate_log::member::Item<quorate_baselines::Replica>>::SnapshotBegun {
        base: Position(1),
        base_view: View(2),
        view: View(3),
        last_normal: View(4),
        changing: true,
        lives: [(ReplicaIndex(2), 5), (ReplicaIndex(0), 0)].into(),
        beginning: Beginning {
            membership: Membership::new(Epoch(6), members).unwrap(),
            base: Position(7),
            view: View(8),
        },
    };
    assert_eq!(
        read(&fact),
        "snapshot_begun { base: 1 base_view: 2 view: 3 last_normal: 4 changing: 1 lives { key: 0 value: 0 } \
         lives { key: 2 value: 5 } beginning { membership { epoch: 6 members: 2 members: 4 members: 6 } base: 7 view: 8 } }"
    );
}

/// A reader that took anything would prove nothing.
#[test]
fn the_independent_reader_refuses_what_is_not_declared() {
    let refusals: [(&[u8], &str); 7] = [
        (&[0x18, 1], "has no field 3"),
        (&[0x08, 1], "micros: the wire type is 0"),
        (&[0x09, 0, 0, 0], "micros: cut"),
        (&[0x09, 1, 0, 0, 0, 0, 0, 0, 0, 0x09, 1, 0, 0, 0, 0, 0, 0, 0], "micros: it is there twice"),
        (&[0x80], "cut"),
        (&[0xff; 11], "a number is too long"),
        (&[0x00], "has no field 0"),
    ];
    for (bytes, expected) in refusals {
        let error = generate::read("Timestamp", bytes).unwrap_err();
        assert!(error.contains(expected), "{error}: {expected}");
    }
    let error = generate::read("tapir.Vote", &[0x0a, 0, 0x12, 0]).unwrap_err();
    assert!(error.contains("two alternatives"), "{error}");
    let error = generate::read("Setting", &[0x0a, 1, 0xff]).unwrap_err();
    assert!(error.contains("not UTF-8"), "{error}");
    let error = generate::read("ReplicaId", &[0x08, 0xff, 0xff, 0xff, 0xff, 0x1f]).unwrap_err();
    assert!(error.contains("is more than 4294967295"), "{error}");
}
