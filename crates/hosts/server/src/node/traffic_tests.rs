//! Transactions as a replica of a strict shard sees them, message by message.

use std::sync::Arc;

use quorate_core::hosted::HostedReplica;
use quorate_core::transaction::Write;
use quorate_core::{ClientId, ShardId, Timestamp, Transaction, View};
use quorate_ir::{Message as Ir, OperationId};
use quorate_tapir::message::{Decision, Prepare, Vote};
use quorate_tapir::{Message, Replica};

use super::*;

const OWN: ShardId = ShardId(3);

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn id(sequence: u64) -> OperationId {
    let transaction = TransactionId { client: ClientId(7), sequence, attempt: 0 };
    OperationId { transaction, number: 1 }
}

/// A prepare of a transaction that writes these keys at these shards.
fn prepare(sequence: u64, keys: &[&str], participants: &[u32]) -> Message {
    let writes =
        keys.iter().map(|key| Write { key: Key::copy_from_slice(key.as_bytes()), value: None }).collect();
    let participants = participants.iter().copied().map(ShardId).collect();
    let transaction = Arc::new(Transaction { writes, participants, ..Transaction::default() });
    let operation = Prepare { transaction, timestamp: Timestamp::ZERO, first: None };
    Message::Ir(Ir::ProposeConsensus { id: id(sequence), operation })
}

fn finalize(sequence: u64) -> Message {
    let (verdict, view) = (Vote::Ok, View::default());
    Message::Ir(Ir::FinalizeConsensus { id: id(sequence), verdict, view, ballot: Default::default() })
}

fn vote(sequence: u64, verdict: Vote) -> Message {
    let view = View::default();
    Message::Ir(Ir::ConsensusReply { id: id(sequence), view, verdict, finalized: false })
}

fn commit(sequence: u64) -> Message {
    Message::CommitPrepared { id: id(sequence), timestamp: Timestamp::ZERO, together: false }
}

fn abort(sequence: u64) -> Message {
    let operation = Decision::Abort { last: Timestamp::ZERO };
    Message::Ir(Ir::ProposeInconsistent { id: id(sequence), operation })
}

fn receive(traffic: &mut Traffic, millis: u64, message: &Message) {
    traffic
        .on_received(at(millis), Replica::landmark_received(message, OWN), || Replica::keys_written(message));
}

/// The traffic of a replica that has received these messages, in milliseconds.
fn seen(messages: impl IntoIterator<Item = (u64, Message)>) -> Traffic {
    let mut traffic = Traffic::default();
    messages.into_iter().for_each(|(millis, message)| receive(&mut traffic, millis, &message));
    traffic
}

#[test]
fn a_replica_measures_from_the_first_prepare_to_the_decision() {
    let traffic = seen([
        (1_000, prepare(1, &["a"], &[3])),
        (1_050, prepare(1, &["a"], &[3])),
        (1_100, commit(1)),
        (1_200, commit(1)),
        (2_000, prepare(2, &["b"], &[3, 4])),
        (2_090, finalize(2)),
        (2_180, commit(2)),
        (3_000, prepare(3, &["b"], &[3])),
        (3_010, abort(3)),
    ]);
    let status = traffic.status(at(3_100)).unwrap();
    assert_eq!((status.commits, status.slow_commits, status.aborts), (2, 1, 1));
    let counted: Vec<u64> = status.recent_durations.iter().map(|(_, count)| *count).collect();
    assert_eq!(counted, [1, 1]);
    assert!((0.1..0.125).contains(&status.recent_p50_seconds.unwrap()), "{status:?}");
    assert!((0.18..0.225).contains(&status.recent_p99_seconds.unwrap()), "{status:?}");
    let later = traffic.status(at(60_000)).unwrap();
    assert_eq!((later.commits, later.recent_p50_seconds, later.hot_keys), (2, None, vec![]));
}

#[test]
fn a_transaction_counts_at_its_first_shard_alone_and_only_if_it_writes() {
    let traffic = seen([
        (0, prepare(1, &["a"], &[2, 3])),
        (1, commit(1)),
        (2, prepare(2, &[], &[3])),
        (3, commit(2)),
        (4, commit(3)),
    ]);
    assert_eq!(traffic.status(at(5)), None, "nothing was counted, and nothing is held");
}

#[test]
fn keys_in_whose_way_others_were_are_the_hottest() {
    let mut traffic = seen((0..8).map(|sequence| (0, prepare(sequence, &["calm"], &[3]))));
    for sequence in 10..13 {
        receive(&mut traffic, 1, &prepare(sequence, &["hot"], &[3]));
        traffic.on_sent(at(1), || Replica::landmark_sent(&vote(sequence, Vote::Abstain)));
        traffic.on_sent(at(1), || Replica::landmark_sent(&vote(sequence, Vote::Abstain)));
        traffic.on_sent(at(1), || Replica::landmark_sent(&vote(sequence - 10, Vote::Ok)));
    }
    let told: Vec<_> = traffic.status(at(2)).unwrap().hot_keys;
    let told: Vec<_> = told.iter().map(|hot| (hot.key.as_str(), hot.writers, hot.hindered)).collect();
    assert_eq!(told, [("hot", 3, 3), ("calm", 8, 0)]);
}

#[test]
fn a_key_that_everybody_wants_is_found_among_many() {
    let keys: Vec<String> =
        (0..1_500).map(|key| if key % 3 == 0 { "hot".to_owned() } else { format!("k{key}") }).collect();
    let traffic = seen(keys.iter().zip(0..).map(|(key, sequence)| (0, prepare(sequence, &[key], &[3]))));
    let status = traffic.status(at(1)).unwrap();
    assert_eq!((status.hot_keys[0].key.as_str(), status.hot_keys[0].writers), ("hot", 500));
    assert!(status.hot_keys.len() <= HOT_KEYS_MAX);
}

#[test]
fn a_transaction_that_took_much_longer_than_others_is_remembered() {
    let usual = (0..40).flat_map(|sequence| [(0, prepare(sequence, &["a"], &[3])), (3, commit(sequence))]);
    let slow =
        (100..120).flat_map(|sequence| [(10, prepare(sequence, &["b"], &[3])), (60, commit(sequence))]);
    let traffic = seen(usual.chain(slow));
    let told = traffic.status(at(1_060)).unwrap().slow_transactions;
    assert_eq!(told.len(), SLOW_MAX, "the latest");
    let last = told.last().unwrap();
    assert_eq!(
        (last.transaction.as_str(), last.committed, last.keys.as_slice()),
        ("c7.119.0", true, &["b".to_owned()][..])
    );
    assert!((last.seconds - 0.05).abs() < 1e-9 && (last.ended_seconds_ago - 1.0).abs() < 1e-9, "{last:?}");
}

#[test]
fn transactions_that_never_end_make_room_for_others() {
    let mut traffic = seen((0..FOLLOWED_MAX as u64).map(|sequence| (0, prepare(sequence, &["a"], &[3]))));
    let mut count = |from: u64, millis: u64| {
        receive(&mut traffic, millis, &prepare(from, &["a"], &[3]));
        receive(&mut traffic, millis + 1, &commit(from));
        traffic.status(at(millis + 2)).unwrap().commits
    };
    assert_eq!(count(100_000, 2_000), 0, "there is no room");
    assert_eq!(count(100_001, 61_000), 1);
}

#[test]
fn long_keys_and_bytes_are_shown_in_part() {
    assert_eq!(shown(&Key::copy_from_slice(b"plain")), "plain");
    assert_eq!(shown(&Key::copy_from_slice(b"\xffx")), "\u{fffd}x");
    assert_eq!(shown(&Key::from(vec![b'k'; 100])), format!("{}…", "k".repeat(64)));
}
