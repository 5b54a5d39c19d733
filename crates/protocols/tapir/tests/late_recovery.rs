//! A backup coordinator that was cut off comes back when another has settled the transaction.

use std::sync::Arc;

use quorate_core::machine::OutboxOf;
use quorate_core::{
    Address, Ballot, ClientId, ClockTime, Context, Effect, Epoch, GroupSize, Input, Instant, Machine, Outbox,
    Random, ReplicaId, ReplicaIndex, ShardId, Timestamp, Transaction, TransactionId,
};
use quorate_ir::{Message as Ir, OperationId};
use quorate_tapir::message::Decision;
use quorate_tapir::{Boot, Message, Outcome, Replica, ReplicaConfig};

const TRANSACTION: TransactionId = TransactionId { client: ClientId(7), sequence: 1, attempt: 0 };
const TIMESTAMP: Timestamp = Timestamp { micros: 50, client: ClientId(7) };

fn member(index: u8) -> ReplicaId {
    ReplicaId { shard: ShardId(1), index: ReplicaIndex(index) }
}

fn hears(replica: &mut Replica, from: u8, message: Message) -> OutboxOf<Replica> {
    let mut outbox = Outbox::new();
    let (clock, mut random) = (ClockTime::from_micros(1_000), Random::new(1));
    let mut context = Context { now: Instant::START, clock, random: &mut random };
    let from = Address::Replica(member(from));
    replica.step(&mut context, Input::Message { from, epoch: Epoch::FIRST, message }, &mut outbox);
    outbox
}

#[test]
fn a_late_backup_coordinator_gets_no_agreement_on_another_outcome() {
    let group = GroupSize::new(3).expect("three is odd");
    let config = ReplicaConfig::new(member(0), group, Boot::Initialise);
    let mut replica = Replica::restore(config, []);
    let late =
        Message::CoordinatorChange { transaction: TRANSACTION, ballot: Ballot(3), timestamp: TIMESTAMP };
    hears(&mut replica, 2, late);
    let later =
        Message::CoordinatorChange { transaction: TRANSACTION, ballot: Ballot(4), timestamp: TIMESTAMP };
    hears(&mut replica, 1, later);
    let commit = Ir::ProposeInconsistent {
        id: OperationId { transaction: TRANSACTION, number: OperationId::INCONSISTENT },
        operation: Decision::Commit {
            transaction: Arc::new(Transaction::default()),
            timestamp: TIMESTAMP,
            last: TIMESTAMP,
        },
    };
    hears(&mut replica, 1, Message::Ir(commit));
    assert_eq!(replica.outcome(TRANSACTION), Some(Outcome::Committed(TIMESTAMP)));

    let record = |outcome| Message::RecordOutcome { transaction: TRANSACTION, ballot: Ballot(3), outcome };
    let answer = hears(&mut replica, 2, record(Outcome::Aborted));
    let refusal = Message::Superseded { transaction: TRANSACTION, promised: Ballot(4) };
    assert_eq!(answer.effects(), [Effect::Send { to: member(2).into(), message: refusal }]);

    let answer = hears(&mut replica, 2, record(Outcome::Committed(TIMESTAMP)));
    assert!(
        matches!(answer.effects(), [Effect::Send { message: Message::RecordOutcomeReply { .. }, .. }]),
        "with the right outcome there is nothing wrong"
    );
}
