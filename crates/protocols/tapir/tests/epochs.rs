//! Nothing that is said under one membership counts under another.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::command::{Command, Event, Routes};
use quorate_core::machine::{InputOf, OutboxOf};
use quorate_core::topology::{Durability, Isolation, Keyspace, Shard};
use quorate_core::{
    Address, ClientId, ClockTime, Context, Effect, Epoch, GroupSize, Groups, Input, Instant, Key, KeyspaceId,
    Machine, NodeId, Outbox, Random, ReplicaId, ReplicaIndex, ShardId, Timestamp, TransactionId,
};
use quorate_tapir::{Boot, Coordinator, CoordinatorConfig, Message, Replica, ReplicaConfig, ReplicaEvent};

const CLIENT: ClientId = ClientId(7);
const TRANSACTION: TransactionId = TransactionId { client: CLIENT, sequence: 1, attempt: 0 };
const REPLICA: ReplicaId = ReplicaId { shard: ShardId(1), index: ReplicaIndex(0) };

fn step<M: Machine>(machine: &mut M, input: InputOf<M>) -> OutboxOf<M> {
    let mut outbox = Outbox::new();
    let clock = ClockTime::from_micros(1_000);
    let mut random = Random::new(1);
    machine.step(&mut Context { now: Instant::START, clock, random: &mut random }, input, &mut outbox);
    outbox
}

/// A replica of a new group, in this membership.
fn replica(epoch: Epoch) -> Replica {
    let group = GroupSize::new(3).unwrap();
    let groups = Groups { epoch, ..Groups::new(group) };
    let config = ReplicaConfig { groups, ..ReplicaConfig::new(REPLICA, group, Boot::Initialise) };
    let mut replica = Replica::restore(config, []);
    step(&mut replica, Input::Start);
    replica
}

fn read(epoch: Epoch) -> InputOf<Replica> {
    let message = Message::Read { transaction: TRANSACTION, key: Key::from("k") };
    Input::Message { from: CLIENT.into(), epoch, message }
}

#[test]
fn a_replica_answers_only_its_own_membership_and_says_which_that_is() {
    let mut replica = replica(Epoch(2));
    let answers = step(&mut replica, read(Epoch(2)));
    assert!(matches!(answers.effects(), [Effect::SendUnordered { message: Message::ReadReply { .. }, .. }]));
    assert_eq!(replica.epoch(CLIENT.into()), Epoch(2), "which is what the envelope says");

    let answers = step(&mut replica, read(Epoch(1)));
    let told = Effect::SendUnordered { to: Address::Client(CLIENT), message: Message::Outdated };
    assert_eq!(answers.effects(), [told]);
}

#[test]
fn a_replica_that_hears_of_a_later_membership_tells_its_host_once() {
    let mut replica = replica(Epoch(2));
    let heard = step(&mut replica, read(Epoch(5)));
    assert_eq!(heard.effects(), [Effect::Emit(ReplicaEvent::Outdated { epoch: Epoch(5) })]);
    assert!(step(&mut replica, read(Epoch(5))).is_empty());
    assert!(step(&mut replica, read(Epoch(4))).is_empty());
}

/// A client that knows a keyspace in this membership, and waits for a key.
fn reading_client(epoch: Epoch) -> Coordinator {
    let mut coordinator = Coordinator::restore(CoordinatorConfig::new(CLIENT), []);
    let nodes = [0, 1, 2].map(NodeId).to_vec();
    let keyspace = Keyspace {
        epoch,
        ..Keyspace::new(
            KeyspaceId(1),
            "k",
            Isolation::Strict,
            Durability::Sync,
            vec![Shard::new(ShardId(1), nodes)],
        )
    };
    let nearest = vec![[0, 1, 2].map(ReplicaIndex).to_vec()];
    let patience = Duration::from_secs(1);
    for command in [
        Command::Route(Arc::new(Routes::new(keyspace, nearest))),
        Command::Begin { transaction: TRANSACTION, keyspace: KeyspaceId(1), patience },
        Command::Get { transaction: TRANSACTION, key: Key::from("k") },
    ] {
        step(&mut coordinator, Input::Command(command));
    }
    coordinator
}

fn reply(epoch: Epoch) -> InputOf<Coordinator> {
    let message = Message::ReadReply {
        transaction: TRANSACTION,
        key: Key::from("k"),
        version: Timestamp::ZERO,
        value: None,
    };
    Input::Message { from: REPLICA.into(), epoch, message }
}

#[test]
fn a_coordinator_counts_no_answer_of_another_membership() {
    let mut coordinator = reading_client(Epoch(2));
    assert_eq!(coordinator.epoch(REPLICA.into()), Epoch(2));
    assert!(step(&mut coordinator, reply(Epoch(1))).is_empty(), "it is from before the change");

    let heard = step(&mut coordinator, reply(Epoch(3)));
    assert_eq!(heard.effects(), [Effect::Emit(Event::Outdated { keyspace: KeyspaceId(1) })]);
    assert!(step(&mut coordinator, reply(Epoch(3))).is_empty(), "it is told once");

    let answered = step(&mut coordinator, reply(Epoch(2)));
    assert!(answered.effects().iter().any(|effect| matches!(effect, Effect::Emit(Event::Got { .. }))));
}

/// Others need not wait for those before a change once members have taken part.
#[test]
fn a_member_has_arrived_with_the_record_of_a_view_of_its_epoch() {
    let group = GroupSize::new(3).unwrap();
    let first = Groups::new(group);
    let at = |index| ReplicaId { index: ReplicaIndex(index), ..REPLICA };
    let started = |index: u8, groups: Groups| {
        let config = ReplicaConfig { groups, ..ReplicaConfig::new(at(index), group, Boot::Initialise) };
        let mut replica = Replica::restore(config, []);
        step(&mut replica, Input::Start);
        replica
    };
    assert_eq!(started(0, first.clone()).arrived_since(), Some(Epoch::FIRST));
    let members = quorate_core::Members::new([1, 2, 3].map(ReplicaIndex).to_vec()).unwrap();
    let next = first.next([(REPLICA.shard, members)]);
    assert_eq!(started(3, next.clone()).arrived_since(), None, "it has no record yet");
    for index in [0, 1] {
        let mut replica = started(index, first.clone());
        step(&mut replica, Input::Command(quorate_tapir::ReplicaCommand::ChangeGroups(next.clone())));
        assert_eq!(replica.arrived_since(), None, "{index} is no member, or waits for the others");
    }
}
