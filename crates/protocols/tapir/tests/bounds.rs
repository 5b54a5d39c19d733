//! The bounds of replicas that a coordinator believes, for all that it proposes afterwards (T49).

use std::sync::Arc;
use std::time::Duration;

use quorate_core::command::{Command, Routes};
use quorate_core::machine::{InputOf, OutboxOf};
use quorate_core::topology::{Durability, Isolation, Keyspace, Shard};
use quorate_core::{
    ClientId, ClockTime, Context, Effect, Epoch, Input, Instant, Key, KeyspaceId, Machine, NodeId, Outbox,
    Random, ReplicaId, ReplicaIndex, ShardId, Timestamp, TransactionId, View,
};
use quorate_ir::OperationId;
use quorate_tapir::message::Vote;
use quorate_tapir::{Coordinator, CoordinatorConfig, Message};

const CLIENT: ClientId = ClientId(7);
const KEYSPACE: KeyspaceId = KeyspaceId(1);
const CLOCK_MICROS: u64 = 1_000_000;
/// Further ahead than a transaction goes on retrying.
const FAR_MICROS: u64 = CLOCK_MICROS + 3_600_000_000;

fn step(coordinator: &mut Coordinator, input: InputOf<Coordinator>) -> OutboxOf<Coordinator> {
    let mut outbox = Outbox::new();
    let clock = ClockTime::from_micros(CLOCK_MICROS);
    let mut random = Random::new(1);
    coordinator.step(&mut Context { now: Instant::START, clock, random: &mut random }, input, &mut outbox);
    outbox
}

fn coordinator() -> Coordinator {
    let mut coordinator = Coordinator::restore(CoordinatorConfig::new(CLIENT), []);
    let keyspace = Keyspace::new(
        KEYSPACE,
        "k",
        Isolation::Strict,
        Durability::Sync,
        vec![Shard::new(ShardId(1), [0, 1, 2].map(NodeId).to_vec())],
    );
    let nearest = vec![[0, 1, 2].map(ReplicaIndex).to_vec()];
    step(&mut coordinator, Input::Command(Command::Route(Arc::new(Routes::new(keyspace, nearest)))));
    coordinator
}

/// A transaction begins that writes, and is proposed: gives the timestamp.
fn propose(coordinator: &mut Coordinator, sequence: u64) -> u64 {
    let transaction = TransactionId { client: CLIENT, sequence, attempt: 0 };
    let (key, value) = (Key::from(format!("k{sequence}")), Some("v".into()));
    for command in [
        Command::Begin { transaction, keyspace: KEYSPACE, patience: Duration::from_secs(1) },
        Command::Put { transaction, key, value },
    ] {
        step(coordinator, Input::Command(command));
    }
    let proposed = step(coordinator, Input::Command(Command::Commit { transaction }));
    let timestamp = |effect: &Effect<_, _, _, _>| match effect {
        Effect::Send {
            message: Message::Ir(quorate_ir::Message::ProposeConsensus { operation, .. }),
            ..
        } => Some(operation.timestamp.micros),
        _ => None,
    };
    proposed.effects().iter().find_map(timestamp).expect("it is proposed")
}

/// A replica votes for a higher timestamp.
fn retry(coordinator: &mut Coordinator, sequence: u64, replica: u8, above_micros: u64) {
    let transaction = TransactionId { client: CLIENT, sequence, attempt: 0 };
    let (id, view) = (OperationId { transaction, number: 1 }, View(0));
    let verdict = Vote::Retry(Timestamp { micros: above_micros, ..Timestamp::ZERO });
    let reply = quorate_ir::Message::ConsensusReply { id, view, verdict, finalized: false };
    let from = ReplicaId { shard: ShardId(1), index: ReplicaIndex(replica) };
    let message = Message::Ir(reply);
    step(coordinator, Input::Message { from: from.into(), epoch: Epoch::FIRST, message });
}

#[test]
fn one_replica_is_believed_about_a_bound_that_is_near() {
    let mut coordinator = coordinator();
    propose(&mut coordinator, 1);
    retry(&mut coordinator, 1, 0, CLOCK_MICROS + 5_000);
    assert_eq!(propose(&mut coordinator, 2), CLOCK_MICROS + 5_001);
}

#[test]
fn a_bound_far_ahead_is_believed_of_a_majority_only() {
    let mut coordinator = coordinator();
    propose(&mut coordinator, 1);
    retry(&mut coordinator, 1, 0, FAR_MICROS);
    assert!(propose(&mut coordinator, 2) < CLOCK_MICROS + 1_000, "the clock of that replica may be wild");
    retry(&mut coordinator, 1, 1, FAR_MICROS + 7);
    assert_eq!(propose(&mut coordinator, 3), FAR_MICROS + 1, "one of two is right");
}

/// Else a client whose timestamps are always too low would go on for ever.
#[test]
fn a_transaction_is_proposed_again_only_so_often() {
    let mut coordinator = coordinator();
    propose(&mut coordinator, 1);
    let transaction = TransactionId { client: CLIENT, sequence: 1, attempt: 0 };
    let mut proposals = 1;
    for number in 1..100 {
        let mut again = false;
        for replica in 0..3 {
            let (id, view) = (OperationId { transaction, number }, View(0));
            let verdict =
                Vote::Retry(Timestamp { micros: CLOCK_MICROS + 100 * u64::from(number), ..Timestamp::ZERO });
            let reply = quorate_ir::Message::ConsensusReply { id, view, verdict, finalized: false };
            let from = ReplicaId { shard: ShardId(1), index: ReplicaIndex(replica) };
            let message = Message::Ir(reply);
            let said =
                step(&mut coordinator, Input::Message { from: from.into(), epoch: Epoch::FIRST, message });
            again |= said.effects().iter().any(|effect| {
                let Effect::Send { message: Message::Ir(message), .. } = effect else { return false };
                matches!(message, quorate_ir::Message::ProposeConsensus { id, .. } if id.number == number + 1)
            });
        }
        if !again {
            break;
        }
        proposals += 1;
    }
    assert_eq!(proposals, 1 + CoordinatorConfig::new(CLIENT).retries_max);
}
