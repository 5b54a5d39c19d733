//! What a replica tells readers, and when.

use quorate_core::machine::{OutboxOf, PersistToken};
use quorate_core::{
    Address, ClientId, ClockTime, Context, Effect, Epoch, GroupSize, Input, Instant, Key, Machine, Outbox,
    Random, ReadVersion, ReplicaId, ReplicaIndex, ShardId, Timestamp, TransactionId,
};
use quorate_tapir::{Boot, Message, Record, Replica, ReplicaConfig, ReplicaTimer};

const CLIENT: ClientId = ClientId(7);
const TRANSACTION: TransactionId = TransactionId { client: CLIENT, sequence: 1, attempt: 0 };

type Effects = Vec<quorate_core::machine::EffectOf<Replica>>;

fn replica() -> Replica {
    let id = ReplicaId { shard: ShardId(1), index: ReplicaIndex(0) };
    let config = ReplicaConfig::new(id, GroupSize::new(3).unwrap(), Boot::Initialise);
    Replica::restore(config, [])
}

fn step(replica: &mut Replica, input: Input<Message, ReplicaTimer, std::convert::Infallible>) -> Effects {
    let mut outbox: OutboxOf<Replica> = Outbox::new();
    let (clock, mut random) = (ClockTime::from_micros(1_000), Random::new(1));
    replica.step(&mut Context { now: Instant::START, clock, random: &mut random }, input, &mut outbox);
    outbox.drain().collect()
}

fn hears(replica: &mut Replica, message: Message) -> Effects {
    step(replica, Input::Message { from: Address::Client(CLIENT), epoch: Epoch::FIRST, message })
}

fn quorum_read(micros: u64) -> Message {
    let timestamp = Timestamp { micros, client: CLIENT };
    Message::QuorumRead { transaction: TRANSACTION, round: 1, timestamp, keys: vec![Key::from("a")] }
}

/// Else a replica that loses power could let in below a reader what the reader has not seen.
#[test]
fn an_answer_waits_for_the_record_of_its_promise_and_later_ones_for_nothing() {
    let mut replica = replica();
    let told = hears(&mut replica, quorum_read(1_000));
    let [
        Effect::Persist { record: Record::ReadsPromised { until }, notify: Some(token) },
        Effect::Send { message: Message::QuorumReadReply { .. }, .. },
    ] = &told[..]
    else {
        panic!("{told:?}");
    };
    assert!(until.micros > 1_000, "the next ones need no record");
    let waits = |told: &Effects| match &told[..] {
        [Effect::Send { message: Message::QuorumReadReply { .. }, .. }] => true,
        [Effect::SendUnordered { message: Message::QuorumReadReply { .. }, .. }] => false,
        _ => panic!("{told:?}"),
    };
    assert!(waits(&hears(&mut replica, quorum_read(1_001))), "the record may not be durable yet");
    step(&mut replica, Input::Persisted(PersistToken(token.0 + 1)));
    assert!(waits(&hears(&mut replica, quorum_read(1_002))), "that was another record");
    step(&mut replica, Input::Persisted(*token));
    assert!(!waits(&hears(&mut replica, quorum_read(1_003))));
}

/// It is told that a version is the newest up to some timestamp, and has missed that version.
#[test]
fn a_version_that_was_missed_is_not_served_as_another() {
    let mut replica = replica();
    let reads =
        |micros| vec![ReadVersion { key: Key::from("a"), version: Timestamp { micros, client: CLIENT } }];
    let timestamp = Timestamp { micros: 900, client: CLIENT };
    let found = |replica: &mut Replica| {
        let told =
            hears(replica, Message::ReadValidated { transaction: TRANSACTION, keys: vec![Key::from("a")] });
        match &told[..] {
            [Effect::SendUnordered { message: Message::ReadValidatedReply { found, .. }, .. }] => {
                found.clone()
            }
            _ => panic!("{told:?}"),
        }
    };
    assert!(matches!(&found(&mut replica)[..], [absent] if absent.found.version == Timestamp::ZERO));
    hears(&mut replica, Message::Validated { timestamp, reads: reads(500) });
    assert!(found(&mut replica).is_empty(), "somebody else may have it");
}
