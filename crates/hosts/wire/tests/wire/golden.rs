//! Bytes that must never change: other versions and other languages have seen them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_core::{
    ClientId, Epoch, Key, NodeId, ReadVersion, ReplicaId, ReplicaIndex, ShardId, Timestamp, Transaction,
    TransactionId, Write,
};
use quorate_ir::OperationId;
use quorate_tapir::message::{Prepare, Vote};
use quorate_tapir::{Message, Record};
use quorate_wire::{Envelope, FrameWriter, Hello, Packet, Peer, encode};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn transaction() -> TransactionId {
    TransactionId { client: ClientId(0x1122_3344_5566_7788), sequence: 300, attempt: 1 }
}

#[test]
fn a_read_in_a_frame() {
    let replica = ReplicaId { shard: ShardId(3), index: ReplicaIndex(1) };
    let packet = Packet::Envelope(Envelope {
        from: transaction().client.into(),
        to: replica.into(),
        epoch: Epoch::FIRST,
        message: Message::Read { transaction: transaction(), key: Key::from(b"alice") }.into(),
    });
    let mut writer = FrameWriter::new();
    writer.push(&packet).unwrap();
    let expected = concat!(
        "35000000",
        "b5086803",
        "01", // length, CRC, version
        "0a32",
        "0a30", // packet, envelope
        "0a09",
        "118877665544332211", // from client
        "1206",
        "0a04",
        "0803",
        "1001", // to replica 1 of shard 3
        "1a1b",
        "0a19",
        "0a17", // message, tapir, read
        "0a0e",
        "098877665544332211",
        "10ac02",
        "1801", // transaction
        "1205",
        "616c696365", // key
    );
    let bytes = hex(&writer.take());
    assert_eq!(bytes, expected);
}

#[test]
fn a_vote_in_a_log() {
    let contents = Transaction {
        reads: vec![ReadVersion { key: Key::from(b"a"), version: Timestamp::ZERO, deleted: false }],
        writes: vec![
            Write { key: Key::from(b"a"), value: Some(Bytes::from("1")) },
            Write { key: Key::from(b"b"), value: None },
        ],
        ranges: Vec::new(),
        participants: vec![ShardId(3), ShardId(200)],
        ..Transaction::default()
    };
    let record = Record::Voted {
        id: OperationId { transaction: transaction(), number: 2 },
        prepare: Prepare {
            transaction: Arc::new(contents),
            timestamp: Timestamp { micros: 0x0102, client: ClientId(5) },
            first: None,
        },
        vote: Vote::Ok,
    };
    let expected = concat!(
        "1a49", // voted
        "0a12",
        "0a0e",
        "098877665544332211",
        "10ac02",
        "1801",
        "1002", // operation 2 of the transaction
        "122f", // prepare
        "0a19", // contents
        "0a05",
        "0a0161",
        "1200", // read of an absent key
        "1206",
        "0a0161",
        "120131", // write
        "1203",
        "0a0162", // deletion
        "2203",
        "03c801", // participants
        "1212",
        "090201000000000000",
        "110500000000000000", // timestamp
        "1a02",
        "0a00", // vote
    );
    assert_eq!(hex(&encode(&record)), expected);
}

#[test]
fn a_handshake() {
    let hello = Packet::Hello(Hello {
        cluster: 1,
        peer: Peer::Node(NodeId(0)),
        site: "eu".to_owned(),
        credential: None,
        event_loop: 0,
    });
    assert_eq!(hex(&encode(&hello)), concat!("1211", "090100000000000000", "1202", "0800", "1a026575"));
    let busy = Packet::Busy { retry_after: Duration::from_millis(1) };
    assert_eq!(hex(&encode(&busy)), concat!("2203", "08e807"));
    assert_eq!(hex(&encode(&Packet::CatalogueChanged)), "2a00");
}
