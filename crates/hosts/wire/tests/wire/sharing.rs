//! A transaction that is known several times over is written once.

use std::sync::Arc;

use bytes::Bytes;
use quorate_core::{
    Ballot, ClientId, Epoch, Key, ReadVersion, Timestamp, Transaction, TransactionId, View, Write,
};
use quorate_ir::{
    ConsensusEntry, InconsistentEntry, Message as Ir, OperationEntries, Outline, Part, RecordPage, State,
};
use quorate_tapir::message::{Decision, Prepare, RecordedVote, Supplement, Vote};
use quorate_tapir::{Message, Tapir};
use quorate_wire::{Envelope, FRAME_BYTES_MAX, FrameWriter, Packet, decode, encode};

/// As large as a transaction may be.
fn largest() -> Transaction {
    let write =
        |at| Write { key: Key::from(format!("{at:08}")), value: Some(Bytes::from(vec![at; 999_992])) };
    Transaction { writes: (0..10).map(write).collect(), ..Transaction::default() }
}

fn timestamp(micros: u64) -> Timestamp {
    Timestamp { micros, client: ClientId(1) }
}

fn prepares(transaction: &Arc<Transaction>) -> Vec<Prepare> {
    let prepare =
        |at| Prepare { transaction: Arc::clone(transaction), timestamp: timestamp(at), first: None };
    (0..3).map(prepare).collect()
}

#[test]
fn the_largest_transaction_passes_through_a_view_change() {
    let transaction = Arc::new(largest());
    // Equal, but not the same in memory, as after a restart.
    let again = Arc::new(largest());
    let consensus = prepares(&transaction).into_iter().enumerate().map(|(at, operation)| ConsensusEntry {
        number: at as u32,
        operation,
        verdict: Vote::Retry(timestamp(9)),
        state: State::Tentative,
    });
    let entries = OperationEntries::<Tapir> {
        inconsistent: Some(InconsistentEntry {
            operation: Decision::Commit { transaction: again, timestamp: timestamp(9), last: timestamp(9) },
            executed: false,
        }),
        consensus: consensus.collect(),
    };
    let message = Ir::StartView {
        view: View(1),
        since: None,
        part: Part::WHOLE,
        page: RecordPage { entries: vec![(TransactionId::default(), entries)] },
        outline: Outline::default(),
        supplement: Supplement::default(),
        floor: None,
        state: None,
        state_to: None,
    };
    let client = ClientId(1).into();
    let packet = Packet::Envelope(Envelope {
        from: client,
        to: client,
        epoch: Epoch::FIRST,
        message: Message::Ir(message).into(),
    });
    FrameWriter::new().push(&packet).expect("four copies are written as one");
    assert_eq!(decode::<Packet>(&encode(&packet)).unwrap(), packet);
}

#[test]
fn the_largest_transaction_can_be_recovered_and_is_shared_again_in_memory() {
    let transaction = Arc::new(largest());
    let votes = prepares(&transaction).into_iter().map(|prepare| RecordedVote {
        number: 1,
        prepare,
        vote: Vote::Ok,
        finalized: None,
        held: true,
    });
    let message = Message::CoordinatorChangeReply {
        transaction: TransactionId::default(),
        ballot: Ballot(1),
        view: View(0),
        outcome: None,
        votes: votes.collect(),
        committed: Some(transaction),
        accepted: None,
        settled: false,
    };
    let bytes = encode(&message);
    assert!(bytes.len() < FRAME_BYTES_MAX);
    let Message::CoordinatorChangeReply { committed: Some(committed), votes, .. } = decode(&bytes).unwrap()
    else {
        panic!("a message is read back as what it was");
    };
    assert!(votes.iter().all(|recorded| Arc::ptr_eq(&recorded.prepare.transaction, &committed)));
}

/// As large as it may be in bytes and in entries at once, a transaction fits into a frame as the one entry of a log that it
/// is: an entry cannot be divided.
#[test]
fn the_largest_transaction_passes_through_a_log() {
    use quorate_baselines::Replica;
    use quorate_baselines::entry::Prepared;
    use quorate_core::log::Position;
    use quorate_core::transaction::{TRANSACTION_BYTES_MAX, TRANSACTION_ENTRIES_MAX};
    use quorate_log::member::{Item, MessageOf};
    let writes = largest().writes.into_iter().take(9).collect::<Vec<_>>();
    let read = |at| ReadVersion {
        key: Key::from(format!("{at:010}")),
        version: timestamp(u64::MAX),
        deleted: false,
    };
    let reads = (0..TRANSACTION_ENTRIES_MAX - writes.len()).map(read).collect();
    let transaction = Transaction { reads, writes, ..Transaction::default() };
    assert!(
        transaction.bytes() <= TRANSACTION_BYTES_MAX && transaction.bytes() + 100 > TRANSACTION_BYTES_MAX
    );
    let prepared = Prepared {
        transaction: TransactionId::default(),
        part: Arc::new(transaction),
        proposed: timestamp(1),
        age: timestamp(1),
        timestamp: timestamp(1),
    };
    let payload = Item::Own(quorate_baselines::Entry::Prepared(prepared));
    let message = quorate_log::Message::Fetched {
        view: View(1),
        after: Position(1),
        entries: vec![quorate_log::Entry { view: View(1), payload }],
    };
    let client = ClientId(1).into();
    let packet = Packet::Envelope(Envelope {
        from: client,
        to: client,
        epoch: Epoch(u32::MAX),
        message: MessageOf::<Replica>::Log(message).into(),
    });
    FrameWriter::new().push(&packet).expect("it fits");
    assert_eq!(decode::<Packet>(&encode(&packet)).unwrap(), packet);
}
