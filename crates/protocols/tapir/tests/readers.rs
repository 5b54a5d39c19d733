//! The answers of a replica to readers, and when they come.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::machine::{InputOf, OutboxOf, PersistToken};
use quorate_core::{
    Address, ClientId, ClockTime, Context, Effect, Epoch, GroupSize, Input, Instant, Key, KeyRange, Machine,
    Outbox, Random, ReadVersion, ReplicaId, ReplicaIndex, ShardId, Timestamp, Transaction, TransactionId,
    View, Write,
};
use quorate_ir::{Message as Ir, OperationId};
use quorate_tapir::message::{Decision, Otherwise};
use quorate_tapir::{Boot, Message, Record, Replica, ReplicaConfig};

const CLIENT: ClientId = ClientId(7);
const TRANSACTION: TransactionId = TransactionId { client: CLIENT, sequence: 1, attempt: 0 };

type Effects = Vec<quorate_core::machine::EffectOf<Replica>>;

const CLOCK_MICROS: u64 = 1_000;

fn replica_config() -> ReplicaConfig {
    let id = ReplicaId { shard: ShardId(1), index: ReplicaIndex(0) };
    ReplicaConfig::new(id, GroupSize::new(3).unwrap(), Boot::Initialise)
}

fn replica() -> Replica {
    Replica::restore(replica_config(), [])
}

fn step(replica: &mut Replica, input: InputOf<Replica>) -> Effects {
    let mut outbox: OutboxOf<Replica> = Outbox::new();
    let (clock, mut random) = (ClockTime::from_micros(CLOCK_MICROS), Random::new(1));
    replica.step(&mut Context { now: Instant::START, clock, random: &mut random }, input, &mut outbox);
    outbox.drain().collect()
}

fn hears(replica: &mut Replica, message: Message) -> Effects {
    step(replica, Input::Message { from: Address::Client(CLIENT), epoch: Epoch::FIRST, message })
}

fn quorum_read(micros: u64) -> Message {
    let timestamp = Timestamp { micros, client: CLIENT };
    Message::QuorumRead {
        transaction: TRANSACTION,
        round: 1,
        timestamp,
        keys: vec![Key::from("a")],
        in_turn: false,
    }
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

fn read_validated(keys: Vec<Key>, otherwise: Option<Otherwise>) -> Message {
    Message::ReadValidated { transaction: TRANSACTION, keys, otherwise, validated: Vec::new() }
}

/// The versions that the replica says the key holds, and until when.
fn validated(replica: &mut Replica) -> Vec<(u64, u64)> {
    let keys = vec![Key::from("a")];
    let told = hears(replica, read_validated(keys, None));
    match &told[..] {
        [Effect::SendUnordered { message: Message::ReadValidatedReply { found, .. }, .. }] => {
            found.iter().map(|known| (known.found.version.micros, known.until.micros)).collect()
        }
        _ => panic!("{told:?}"),
    }
}

fn commits(replica: &mut Replica, micros: u64) {
    let write = Write { key: Key::from("a"), value: None };
    let (participants, writes) = (vec![ShardId(1)], vec![write]);
    let transaction = Arc::new(Transaction { participants, writes, ..Transaction::default() });
    let timestamp = Timestamp { micros, client: CLIENT };
    let id = TransactionId { sequence: micros, ..TRANSACTION };
    let id = OperationId { transaction: id, number: OperationId::INCONSISTENT };
    let operation = Decision::Commit { transaction, timestamp, last: timestamp };
    hears(replica, Message::Ir(Ir::ProposeInconsistent { id, operation }));
}

fn hears_validated(replica: &mut Replica, version: u64, until: u64) {
    let at = |micros| Timestamp { micros, client: CLIENT };
    let reads = vec![ReadVersion { key: Key::from("a"), version: at(version), deleted: false }];
    hears(replica, Message::Validated { timestamp: at(until), reads });
}

/// It is told that a version is the newest up to some timestamp, and has missed that version.
#[test]
fn a_version_that_was_missed_is_not_served_as_another() {
    let mut replica = replica();
    commits(&mut replica, 100);
    assert_eq!(validated(&mut replica), [(100, 100)]);
    hears_validated(&mut replica, 500, 900);
    assert_eq!(validated(&mut replica), [], "somebody else may have it");
    commits(&mut replica, 500);
    assert_eq!(validated(&mut replica), [(500, 900)]);
}

/// One message can name more than a replica can answer at once, in keys or in bytes.
#[test]
fn as_many_keys_are_answered_as_fit_into_a_reply() {
    let config = ReplicaConfig { scan_page_max: 8, ..replica_config() };
    let mut replica = Replica::restore(config, []);
    let key = |nth: usize| Key::from(format!("k{nth}"));
    let writes = (0..6).map(|nth| Write { key: key(nth), value: Some(vec![0; 1_000_000].into()) });
    let (participants, writes) = (vec![ShardId(1)], writes.collect());
    let transaction = Arc::new(Transaction { participants, writes, ..Transaction::default() });
    let timestamp = Timestamp { micros: 100, client: CLIENT };
    let id = OperationId { transaction: TRANSACTION, number: OperationId::INCONSISTENT };
    let operation = Decision::Commit { transaction, timestamp, last: timestamp };
    hears(&mut replica, Message::Ir(Ir::ProposeInconsistent { id, operation }));
    let mut answered = |keys: Vec<Key>| {
        let read = Message::ReadMany { transaction: TRANSACTION, request: 1, keys, in_turn: false };
        match &hears(&mut replica, read)[..] {
            [
                Effect::SendUnordered {
                    message: Message::ReadManyReply { request: 1, found, waiting, .. },
                    ..
                },
            ] if waiting.is_empty() => found.iter().map(|found| found.key.clone()).collect::<Vec<_>>(),
            told => panic!("{told:?}"),
        }
    };
    let keys = |range: std::ops::Range<usize>| range.map(key).collect::<Vec<Key>>();
    assert_eq!(answered(keys(0..6)), keys(0..5), "that is more than four MiB");
    assert_eq!(answered(keys(5..20)), keys(5..13));
    assert_eq!(answered(vec![key(9), key(9)]), [key(9), key(9)]);
    assert!(answered(vec![]).is_empty());
}

/// The answer is the first of a quorum then, and promises what any of them does.
#[test]
fn what_is_not_validated_recently_enough_is_read_as_by_a_quorum() {
    let mut replica = replica();
    commits(&mut replica, 100);
    hears_validated(&mut replica, 100, 500);
    let at = |micros| Timestamp { micros, client: CLIENT };
    let mut asked = |oldest| {
        let otherwise = Otherwise { oldest: at(oldest), round: 3, timestamp: at(900) };
        hears(&mut replica, read_validated(vec![Key::from("a")], Some(otherwise)))
    };
    let told = asked(500);
    assert!(
        matches!(&told[..], [Effect::SendUnordered { message: Message::ReadValidatedReply { .. }, .. }]),
        "{told:?}"
    );
    let told = asked(501);
    let [
        Effect::Persist { .. },
        Effect::Send { message: Message::QuorumReadReply { round: 3, found, .. }, .. },
    ] = &told[..]
    else {
        panic!("{told:?}");
    };
    assert_eq!((found[0].found.version, found[0].pending), (at(100), None));
}

/// A client that says so may be wrong about the time, or lie; a read far in the future would hold for ages.
#[test]
fn what_was_validated_far_ahead_of_the_clock_is_not_believed() {
    let mut replica = replica();
    commits(&mut replica, 100);
    let ahead = replica_config().timestamp_ahead_max.as_micros() as u64;
    hears_validated(&mut replica, 100, CLOCK_MICROS + ahead + 1);
    assert_eq!(validated(&mut replica), [(100, 100)]);
    hears_validated(&mut replica, 100, CLOCK_MICROS + ahead);
    assert_eq!(validated(&mut replica), [(100, CLOCK_MICROS + ahead)]);
}

/// A later view may let in what it does not know of.
#[test]
fn a_replica_that_changes_views_answers_no_reader() {
    let mut replica = replica();
    let range = KeyRange { from: Key::from("a"), to: None };
    let reads = [
        Message::Read { transaction: TRANSACTION, key: Key::from("a") },
        read_validated(vec![Key::from("a")], None),
        quorum_read(1_000),
        Message::Scan { transaction: TRANSACTION, request: 1, range, limit: 9 },
    ];
    for read in reads.clone() {
        assert!(!hears(&mut replica, read).is_empty());
    }
    let from = Address::Replica(ReplicaId { shard: ShardId(1), index: ReplicaIndex(1) });
    let change = Message::Ir(Ir::StartViewChange { view: View(2) });
    step(&mut replica, Input::Message { from, epoch: Epoch::FIRST, message: change });
    for read in reads {
        let told = hears(&mut replica, read);
        assert!(told.is_empty(), "{told:?}");
    }
}

/// Where clocks lag behind by more than that, what waits for its time would be aborted by those where it has arrived.
#[test]
fn nobody_waits_for_a_time_that_half_a_recovery_is_shorter_than() {
    let config = ReplicaConfig { recovery_timeout: Duration::from_millis(100), ..replica_config() };
    let mut replica = Replica::restore(config, []);
    hears(&mut replica, Message::ClockProbe { sent: ClockTime::from_micros(CLOCK_MICROS), deadlines: true });
    let mut waits = |client: ClientId, round: u32, ahead_millis: u64| {
        let timestamp = Timestamp { micros: CLOCK_MICROS + 1_000 * ahead_millis, client: CLIENT };
        let keys = vec![Key::from("a")];
        let read = Message::QuorumRead { transaction: TRANSACTION, round, timestamp, keys, in_turn: true };
        let answers = |effect: &quorate_core::machine::EffectOf<Replica>| {
            matches!(effect, Effect::Send { message: Message::QuorumReadReply { .. }, .. })
        };
        let input = Input::Message { from: Address::Client(client), epoch: Epoch::FIRST, message: read };
        !step(&mut replica, input).iter().any(answers)
    };
    assert!(!waits(CLIENT, 1, 51));
    waits(ClientId(8), 9, 50);
    assert!(!waits(CLIENT, 2, 51), "what another client says in its name is in nobody's way");
    assert!(waits(CLIENT, 3, 50));
}

/// Its answer would be a promise about keys that others hold.
#[test]
fn a_replica_reads_only_keys_of_its_own_shard() {
    let shards = quorate_core::hosted::Shards { first: ShardId(1), count: 2 };
    let mut replica = Replica::restore(ReplicaConfig { shards: Some(shards), ..replica_config() }, []);
    let of = |shard: u32| {
        let name = (0..100)
            .map(|number| format!("k{number}"))
            .find(|name| shards.holds(ShardId(shard), name.as_bytes()));
        Key::from(name.unwrap())
    };
    let reads = |keys: Vec<Key>| {
        let (transaction, in_turn) = (TRANSACTION, false);
        let timestamp = Timestamp { micros: 900, client: CLIENT };
        let (otherwise, told) = (None, Vec::new());
        let validated =
            Message::ReadValidated { transaction, keys: keys.clone(), otherwise, validated: told };
        [Message::QuorumRead { transaction, round: 1, timestamp, keys, in_turn }, validated]
    };
    for (keys, answers) in [
        (vec![of(1)], true),
        (vec![of(2)], false),
        (vec![of(1), of(2)], false),
        (vec![of(2), of(1)], false),
        (vec![of(1); quorate_core::transaction::TRANSACTION_ENTRIES_MAX], true),
        (vec![of(1); quorate_core::transaction::TRANSACTION_ENTRIES_MAX + 1], false),
    ] {
        for read in reads(keys.clone()) {
            let told = hears(&mut replica, read);
            assert_eq!(!told.is_empty(), answers, "{} keys: {told:?}", keys.len());
        }
    }
}

#[test]
fn a_reader_below_the_floor_is_told_where_that_is() {
    let mut replica = replica();
    let floor = Timestamp { micros: 500, client: CLIENT };
    let other = Address::Replica(ReplicaId { shard: ShardId(1), index: ReplicaIndex(1) });
    for message in [Message::Complete { view: View(0), below: floor }, Message::RaiseFloor { floor }] {
        step(&mut replica, Input::Message { from: other, epoch: Epoch::FIRST, message });
    }
    let told = hears(&mut replica, quorum_read(499));
    let [Effect::SendUnordered { message: Message::SnapshotTooOld { oldest, .. }, .. }] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(*oldest, floor);
    let told = hears(&mut replica, quorum_read(500));
    assert!(matches!(told[..], [Effect::Persist { .. }, Effect::Send { .. }]), "{told:?}");
}

/// Of several keys those alone wait that are about to be written, and only if the reader joins their lines.
#[test]
fn of_keys_that_are_read_together_those_wait_that_are_about_to_be_written() {
    let mut replica = replica();
    let write = Write { key: Key::from("a"), value: None };
    let (participants, writes) = (vec![ShardId(1)], vec![write]);
    let transaction = Arc::new(Transaction { participants, writes, ..Transaction::default() });
    let timestamp = Timestamp { micros: 900, client: CLIENT };
    let id = OperationId { transaction: TransactionId { sequence: 9, ..TRANSACTION }, number: 1 };
    let operation = quorate_tapir::message::Prepare { transaction, timestamp, first: None };
    hears(&mut replica, Message::Ir(Ir::ProposeConsensus { id, operation }));
    for (in_turn, expected) in [(false, (2, 0)), (true, (1, 1))] {
        let keys = vec![Key::from("a"), Key::from("b")];
        let told =
            hears(&mut replica, Message::ReadMany { transaction: TRANSACTION, request: 1, keys, in_turn });
        let answer = told.iter().find_map(|effect| match effect {
            Effect::SendUnordered { message: Message::ReadManyReply { found, waiting, .. }, .. } => {
                Some((found.len(), waiting.len()))
            }
            _ => None,
        });
        assert_eq!(answer, Some(expected), "in turn: {in_turn}");
    }
}

#[test]
fn every_key_has_to_be_validated_recently_or_a_quorum_is_read() {
    let at = |micros| Timestamp { micros, client: CLIENT };
    let keys = vec![Key::from("a"), Key::from("b")];
    let answer = |until: [u64; 2], oldest: u64| {
        let mut replica = replica();
        for (key, until) in keys.iter().zip(until) {
            let reads = vec![ReadVersion { key: key.clone(), version: Timestamp::ZERO, deleted: false }];
            hears(&mut replica, Message::Validated { timestamp: at(until), reads });
        }
        let otherwise = Some(Otherwise { oldest: at(oldest), round: 4, timestamp: at(950) });
        let told = hears(&mut replica, read_validated(keys.clone(), otherwise));
        told.iter().any(|effect| match effect {
            Effect::SendUnordered { message: Message::ReadValidatedReply { found, .. }, .. } => {
                found.len() == 2
            }
            _ => false,
        })
    };
    assert!(answer([900, 800], 800) && answer([800, 900], 800));
    assert!(!answer([900, 799], 800) && !answer([799, 900], 800) && !answer([799, 799], 800));
}

#[test]
fn a_promise_is_extended_when_half_of_it_is_used_up() {
    let written = |told: &Effects| {
        told.iter().find_map(|effect| match effect {
            Effect::Persist { record: Record::ReadsPromised { until }, .. } => Some(until.micros),
            _ => None,
        })
    };
    let first =
        |replica: &mut Replica| written(&hears(replica, quorum_read(1_000))).expect("it is the first");
    let ahead = first(&mut replica()) - 1_000;
    for (after, extends) in [(ahead / 2 - 1, false), (ahead / 2, false), (ahead / 2 + 1, true)] {
        let mut replica = replica();
        first(&mut replica);
        let told = hears(&mut replica, quorum_read(1_000 + after));
        assert_eq!(written(&told), extends.then_some(1_000 + after + ahead), "after {after}");
    }
}
