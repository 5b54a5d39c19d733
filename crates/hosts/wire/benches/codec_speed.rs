//! How long the messages of an everyday transaction take to encode and to decode.
//!
//! `cargo bench -p quorate-wire --bench codec_speed`

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use quorate_core::{
    Address, ClientId, Epoch, Key, ReadVersion, ReplicaId, ReplicaIndex, ShardId, Timestamp, Transaction,
    TransactionId, View, Write,
};
use quorate_ir::{Message as Ir, OperationId};
use quorate_tapir::Message;
use quorate_tapir::message::{Decision, Prepare, Vote};
use quorate_wire::{Envelope, FrameReader, FrameWriter, Packet, decode, encode};

const ROUNDS: u32 = 20_000;
const REPETITIONS: usize = 40;
const VALUE_BYTES: usize = 100;
const BATCH: usize = 64;

/// The best of several repetitions, because other programs on the machine only ever make it slower.
fn nanos_each(mut action: impl FnMut()) -> f64 {
    let repetition = || {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            action();
        }
        start.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
    };
    std::iter::repeat_with(repetition).take(REPETITIONS).fold(f64::INFINITY, f64::min)
}

fn messages() -> Vec<(&'static str, Message)> {
    let client = ClientId(0x1122_3344_5566_7788);
    let transaction = TransactionId { client, sequence: 123_456, attempt: 0 };
    let timestamp = Timestamp { micros: 1_795_000_000_000_000, client };
    let key = Key::from("account/0001234567");
    let value = Bytes::from(vec![7; VALUE_BYTES]);
    let contents = Arc::new(Transaction {
        reads: vec![ReadVersion { key: key.clone(), version: timestamp, deleted: false }],
        writes: vec![Write { key: key.clone(), value: Some(value.clone()) }],
        ranges: Vec::new(),
        participants: vec![ShardId(3)],
        ..Transaction::default()
    });
    let prepare_id = OperationId { transaction, number: 1 };
    let commit_id = OperationId { transaction, number: 0 };
    let view = View(3);
    vec![
        ("Read", Message::Read { transaction, key: key.clone() }),
        ("ReadReply", Message::ReadReply { transaction, key, version: timestamp, value: Some(value) }),
        (
            "Prepare",
            Message::Ir(Ir::ProposeConsensus {
                id: prepare_id,
                operation: Prepare { transaction: contents.clone(), timestamp, first: None },
            }),
        ),
        (
            "ConsensusReply",
            Message::Ir(Ir::ConsensusReply { id: prepare_id, view, verdict: Vote::Ok, finalized: false }),
        ),
        (
            "Commit",
            Message::Ir(Ir::ProposeInconsistent {
                id: commit_id,
                operation: Decision::Commit { transaction: contents, timestamp, last: timestamp },
            }),
        ),
        ("InconsistentReply", Message::Ir(Ir::InconsistentReply { id: commit_id, view })),
    ]
}

fn main() {
    println!("values of {VALUE_BYTES} bytes, frames of {BATCH} packets; nanoseconds a packet");
    println!(
        "{:<20}{:>8}{:>10}{:>10}{:>12}{:>12}",
        "message", "bytes", "encode", "decode", "to frame", "from frame"
    );
    let replica = Address::Replica(ReplicaId { shard: ShardId(3), index: ReplicaIndex(1) });
    for (name, message) in messages() {
        let client = Address::Client(ClientId(0x1122_3344_5566_7788));
        let packet = Packet::Envelope(Envelope {
            from: client,
            to: replica,
            epoch: Epoch::FIRST,
            message: message.into(),
        });
        let bytes = encode(&packet);
        let mut out = BytesMut::with_capacity(4096);
        let encoding = nanos_each(|| {
            out.clear();
            quorate_wire::Wire::encode(black_box(&packet), &mut out);
            black_box(&out);
        });
        let decoding = nanos_each(|| drop(black_box(decode::<Packet>(black_box(&bytes)))));
        let mut writer = FrameWriter::new();
        let mut pushed = 0;
        let framing = nanos_each(|| {
            writer.push(black_box(&packet)).expect("the packet is small");
            pushed += 1;
            if pushed % BATCH == 0 {
                writer.close();
                writer.advance(black_box(writer.ready()).len());
            }
        });
        writer.clear();
        for _ in 0..BATCH {
            writer.push(&packet).expect("the packet is small");
        }
        let frame = writer.take();
        let mut reader = FrameReader::new();
        let mut read = 0;
        let unframing = nanos_each(|| {
            if read % BATCH == 0 {
                reader.feed(&frame);
                let packets =
                    reader.next_frame().expect("the frame is valid").expect("the frame is complete");
                packets.for_each(|packet| drop(black_box(packet)));
            }
            read += 1;
        });
        println!(
            "{name:<20}{:>8}{encoding:>10.0}{decoding:>10.0}{framing:>12.0}{unframing:>12.0}",
            bytes.len()
        );
    }
}
