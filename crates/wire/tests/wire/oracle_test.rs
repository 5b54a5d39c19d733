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
    fn keyspaces_are_protocol_buffers(keyspace in generate::keyspace()) {
        let ours = encode(&keyspace);
        let theirs = oracle::Keyspace::decode(ours.as_ref()).expect("prost reads what we write");
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
