//! Another implementation of protocol buffers reads what we write and writes what we read, to the byte.
//!
//! It drops fields that it does not know, and refuses those of another type; so equal bytes after its own round trip
//! mean that every field has the number and type of the oracle.

use proptest::prelude::*;
use prost::Message;
use quorate_wire::{FrameWriter, Packet, encode};

use crate::{cases, generate, oracle};

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn packets_are_protocol_buffers(packet in generate::packet()) {
        let ours = encode(&packet);
        let theirs = oracle::Packet::decode(ours.as_ref()).expect("prost reads what we write");
        prop_assert_eq!(theirs.encode_to_vec(), ours);
    }

    #[test]
    fn records_are_protocol_buffers(record in generate::record()) {
        let ours = encode(&record);
        let theirs = oracle::Record::decode(ours.as_ref()).expect("prost reads what we write");
        prop_assert_eq!(theirs.encode_to_vec(), ours);
    }

    #[test]
    fn records_on_a_log_are_protocol_buffers(fact in generate::baselines::fact()) {
        let ours = encode(&fact);
        let theirs = oracle::baselines::Fact::decode(ours.as_ref()).expect("prost reads what we write");
        prop_assert_eq!(theirs.encode_to_vec(), ours);
    }

    #[test]
    fn records_of_the_configuration_are_protocol_buffers(fact in generate::configuration::fact()) {
        let ours = encode(&fact);
        let theirs = oracle::configuration::Fact::decode(ours.as_ref()).expect("prost reads what we write");
        prop_assert_eq!(theirs.encode_to_vec(), ours);
    }

    #[test]
    fn records_of_granola_are_protocol_buffers(fact in generate::granola::fact()) {
        let ours = encode(&fact);
        let theirs = oracle::granola::Fact::decode(ours.as_ref()).expect("prost reads what we write");
        prop_assert_eq!(theirs.encode_to_vec(), ours);
    }

    #[test]
    fn records_of_the_quorum_store_are_protocol_buffers(record in generate::qwstore::record()) {
        let ours = encode(&record);
        let theirs = oracle::qwstore::Record::decode(ours.as_ref()).expect("prost reads what we write");
        prop_assert_eq!(theirs.encode_to_vec(), ours);
    }

    #[test]
    fn keyspaces_are_protocol_buffers(keyspace in generate::keyspace()) {
        let ours = encode(&keyspace);
        let theirs = oracle::Keyspace::decode(ours.as_ref()).expect("prost reads what we write");
        prop_assert_eq!(theirs.encode_to_vec(), ours);
    }

    #[test]
    fn deployments_are_protocol_buffers(deployment in generate::deployment()) {
        let ours = encode(&deployment);
        let theirs = oracle::Deployment::decode(ours.as_ref()).expect("prost reads what we write");
        prop_assert_eq!(theirs.encode_to_vec(), ours);
    }

    #[test]
    fn records_of_drops_are_protocol_buffers(dropped in generate::dropped()) {
        let ours = encode(&dropped);
        let theirs = oracle::Dropped::decode(ours.as_ref()).expect("prost reads what we write");
        prop_assert_eq!(theirs.encode_to_vec(), ours);
    }

    #[test]
    fn the_payload_of_a_frame_is_a_message_of_packets(packets in prop::collection::vec(generate::packet(), 1..5)) {
        let mut writer = FrameWriter::new();
        for packet in &packets {
            writer.push(packet).unwrap();
        }
        let frame = writer.take();
        let payload = oracle::Payload::decode(&frame[9..]).expect("prost reads what we write");
        prop_assert_eq!(payload.packets.len(), packets.len());
        prop_assert_eq!(payload.encode_to_vec(), &frame[9..]);
    }
}

#[test]
fn a_deployment_says_what_it_means() {
    use quorate_core::ClockTime;
    use quorate_wire::catalogue::{Deployment, Stage};
    let stages = [Stage::Deploying, Stage::Deployed, Stage::Removing, Stage::Removed];
    for (number, stage) in (1..).zip(stages) {
        let ours = Deployment { stage, bytes: 8, crc32: 1 << 31, deployed_at: ClockTime::from_micros(11) };
        let theirs = oracle::Deployment { stage: number, bytes: 8, crc32: 1 << 31, deployed_at: 11 };
        assert_eq!(oracle::Deployment::decode(encode(&ours)), Ok(theirs));
    }
}

/// The values are where the names say, not only somewhere.
#[test]
fn a_read_reply_says_what_it_means() {
    use quorate_core::{ClientId, Timestamp, TransactionId};
    let message = quorate_tapir::Message::ReadReply {
        transaction: TransactionId { client: ClientId(7), sequence: 8, attempt: 9 },
        key: "key".into(),
        version: Timestamp { micros: 10, client: ClientId(11) },
        value: Some("value".into()),
    };
    let theirs = oracle::Tapir::decode(encode(&message)).unwrap();
    let expected = oracle::ReadReply {
        transaction: Some(oracle::TransactionId { client: 7, sequence: 8, attempt: 9 }),
        key: b"key".to_vec(),
        version: Some(oracle::Timestamp { micros: 10, client: 11 }),
        value: Some(b"value".to_vec()),
    };
    assert_eq!(theirs.choice, Some(oracle::TapirChoice::ReadReply(expected)));
    let goodbye = Packet::Goodbye { reason: "maintenance".to_owned() };
    let theirs = oracle::Packet::decode(encode(&goodbye)).unwrap();
    let expected = oracle::Goodbye { reason: "maintenance".to_owned() };
    assert_eq!(theirs.choice, Some(oracle::PacketChoice::Goodbye(expected)));
}

fn micros(micros: u64) -> quorate_core::Timestamp {
    quorate_core::Timestamp { micros, client: quorate_core::ClientId(0) }
}

fn as_micros(micros: u64) -> Option<oracle::Timestamp> {
    Some(oracle::Timestamp { micros, client: 0 })
}

#[test]
fn a_put_says_what_it_means() {
    use oracle::qwstore as theirs;
    use quorate_core::{ClientId, TransactionId};
    use quorate_ir::OperationId;
    use quorate_qwstore::message::Put;
    let put = Put { key: "key".into(), value: Some("value".into()), timestamp: micros(3) };
    let transaction = TransactionId { client: ClientId(1), sequence: 2, attempt: 0 };
    let id = OperationId { transaction, number: OperationId::INCONSISTENT };
    let message = quorate_ir::Message::ProposeInconsistent { id, operation: put.into() };
    let read = theirs::QwStore::decode(encode(&quorate_qwstore::Message::Ir(message))).unwrap();
    let expected = theirs::ProposePut {
        id: Some(oracle::OperationId {
            transaction: Some(oracle::TransactionId { client: 1, sequence: 2, attempt: 0 }),
            number: 0,
        }),
        operation: Some(theirs::Put {
            key: b"key".to_vec(),
            value: Some(b"value".to_vec()),
            timestamp: as_micros(3),
        }),
    };
    let ir = theirs::Ir { choice: Some(theirs::IrChoice::ProposePut(expected)) };
    assert_eq!(read.choice, Some(theirs::QwStoreChoice::Ir(ir)));
}

#[test]
fn an_entry_on_its_way_to_a_log_says_what_it_means() {
    use oracle::baselines as theirs;
    use quorate_baselines::entry::Prepared;
    use quorate_core::log::Position;
    use quorate_core::{TransactionId, View};
    let prepared = Prepared {
        transaction: TransactionId::default(),
        part: Default::default(),
        proposed: micros(1),
        age: micros(2),
        timestamp: micros(3),
    };
    let item = quorate_log::member::Item::Own(quorate_baselines::Entry::Prepared(prepared));
    let message = quorate_log::Message::<generate::baselines::Item>::Prepare {
        view: View(4),
        after: Position(5),
        entries: vec![quorate_log::Entry { view: View(6), payload: item }],
        stable: Position(7),
        beat: 8,
        clock: Some(quorate_core::ClockTime::from_micros(9)),
    };
    let prepared = theirs::Prepared {
        transaction: Some(oracle::TransactionId::default()),
        part: Some(oracle::Transaction::default()),
        proposed: as_micros(1),
        age: as_micros(2),
        timestamp: as_micros(3),
    };
    let own = theirs::OwnEntry { choice: Some(theirs::OwnEntryChoice::Prepared(prepared)) };
    let payload = Some(theirs::Item { choice: Some(theirs::ItemChoice::Own(own)) });
    let expected = theirs::PrepareEntries {
        view: 4,
        after: 5,
        entries: vec![theirs::Entry { view: 6, payload }],
        stable: 7,
        beat: 8,
        clock: Some(9),
    };
    let read = theirs::Log::decode(encode(&message)).unwrap();
    assert_eq!(read.choice, Some(theirs::LogChoice::Prepare(expected)));
}

#[test]
fn a_snapshot_says_what_it_means() {
    use oracle::baselines as theirs;
    use quorate_core::log::Position;
    use quorate_core::{Epoch, ReplicaIndex, View};
    use quorate_log::{Beginning, Membership};
    let members = [2, 4, 6].map(ReplicaIndex).to_vec();
    let fact = generate::baselines::Fact::SnapshotBegun {
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
    let membership = Some(theirs::Membership { epoch: 6, members: vec![2, 4, 6] });
    let expected = theirs::SnapshotBegun {
        base: 1,
        base_view: 2,
        view: 3,
        last_normal: 4,
        changing: true,
        lives: [(2, 5), (0, 0)].into(),
        beginning: Some(theirs::Beginning { membership, base: 7, view: 8 }),
    };
    let read = theirs::Fact::decode(encode(&fact)).unwrap();
    assert_eq!(read.choice, Some(theirs::FactChoice::SnapshotBegun(expected)));
}
