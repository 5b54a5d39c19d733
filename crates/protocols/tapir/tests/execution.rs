//! The view of a transaction on itself while it runs, and what of it is prepared.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_core::command::{Command, Event, Failure, Freshness, Invalid, Outcome};
use quorate_core::machine::{InputOf, OutboxOf};
use quorate_core::transaction::KeyVersion;
use quorate_core::{
    Address, ClientId, ClockTime, Context, Effect, Epoch, Input, Instant, Key, KeyRange, Machine, Outbox,
    Random, ReplicaId, ReplicaIndex, ShardId, Timestamp, Transaction, TransactionId, View,
};
use quorate_ir::Message as Ir;
use quorate_tapir::message::Vote;
use quorate_tapir::{Coordinator, CoordinatorConfig, Message};

use crate::two_shards::{KEYSPACE, key, routes};

const CLIENT: ClientId = ClientId(7);
const TRANSACTION: TransactionId = TransactionId { client: CLIENT, sequence: 1, attempt: 0 };

/// A client with one transaction in a keyspace of two shards.
struct Client {
    coordinator: Coordinator,
    now: Instant,
    timers: BTreeMap<<Coordinator as Machine>::Timer, Instant>,
    told: Vec<Event>,
    /// The transactions proposed to the replicas, by shard.
    prepared: BTreeMap<ShardId, Arc<Transaction>>,
    requests: u32,
    /// The requests for several keys that were sent: to which shard, with which number, for which keys.
    asked: Vec<(u32, u32, Vec<Key>)>,
}

fn version(micros: u64) -> Timestamp {
    if micros == 0 { Timestamp::ZERO } else { Timestamp { micros, client: CLIENT } }
}

fn value(text: &str) -> Option<Bytes> {
    Some(Bytes::from(text.to_owned()))
}

impl Client {
    fn new() -> Self {
        let config = CoordinatorConfig { deadlines: false, ..CoordinatorConfig::new(CLIENT) };
        let coordinator = Coordinator::restore(config, []);
        let (told, prepared) = (Vec::new(), BTreeMap::new());
        let (now, timers) = (Instant::START, BTreeMap::new());
        let asked = Vec::new();
        let mut client = Client { coordinator, now, timers, told, prepared, requests: 0, asked };
        let patience = Duration::from_secs(60);
        client.does(Command::Route(routes(3)));
        client.does(Command::Begin { transaction: TRANSACTION, keyspace: KEYSPACE, patience });
        client
    }

    fn step(&mut self, input: InputOf<Coordinator>) {
        let mut outbox: OutboxOf<Coordinator> = Outbox::new();
        let (now, clock, mut random) = (self.now, ClockTime::from_micros(1_000), Random::new(1));
        self.coordinator.step(&mut Context { now, clock, random: &mut random }, input, &mut outbox);
        for effect in outbox.drain() {
            match effect {
                Effect::Emit(event) => self.told.push(event),
                Effect::Send {
                    to: Address::Replica(to),
                    message: Message::Ir(Ir::ProposeConsensus { operation, .. }),
                } => {
                    self.prepared.insert(to.shard, operation.transaction);
                }
                Effect::SetTimer { timer, after } => drop(self.timers.insert(timer, self.now + after)),
                Effect::CancelTimer(timer) => drop(self.timers.remove(&timer)),
                Effect::Send {
                    to: Address::Replica(to),
                    message: Message::ReadMany { request, keys, .. },
                } => self.asked.push((to.shard.0, request, keys)),
                _ => {}
            }
        }
    }

    /// So much time passes.
    fn passes(&mut self, time: Duration) {
        self.now = self.now + time;
        let due: Vec<_> =
            self.timers.iter().filter(|(_, at)| **at <= self.now).map(|(timer, _)| *timer).collect();
        for timer in due {
            self.timers.remove(&timer);
            self.step(Input::Timer(timer));
        }
    }

    fn failure(&self) -> Option<&Failure> {
        match self.told.last()? {
            Event::Finished { result: Err(failure), .. } => Some(failure),
            _ => None,
        }
    }

    fn does(&mut self, command: Command) {
        self.step(Input::Command(command));
    }

    fn gets(&mut self, key: &Key) {
        self.does(Command::Get { transaction: TRANSACTION, key: key.clone() });
    }

    fn puts(&mut self, key: &Key, text: &str) {
        self.does(Command::Put { transaction: TRANSACTION, key: key.clone(), value: value(text) });
    }

    fn scans(&mut self) {
        self.requests += 1;
        let range = KeyRange { from: Key::from("1"), to: None };
        self.does(Command::Scan { transaction: TRANSACTION, range, limit: 100 });
    }

    fn hears(&mut self, shard: u32, index: u8, message: Message) {
        let from = Address::Replica(ReplicaId { shard: ShardId(shard), index: ReplicaIndex(index) });
        self.step(Input::Message { from, epoch: Epoch::FIRST, message });
    }

    fn is_answered(&mut self, shard: u32, key: &Key, micros: u64, text: &str) {
        let (key, version, value) = (key.clone(), version(micros), value(text));
        self.hears(shard, 0, Message::ReadReply { transaction: TRANSACTION, key, version, value });
    }

    /// The latest scan has found this in a shard.
    fn finds(&mut self, shard: u32, found: &[(&Key, u64, &str)]) {
        let scanned = |(key, micros, text): &(&Key, u64, &str)| KeyVersion {
            key: (*key).clone(),
            version: version(*micros),
            value: value(text),
        };
        let keys = found.iter().map(scanned).collect();
        let request = self.requests;
        self.hears(shard, 0, Message::ScanReply { transaction: TRANSACTION, request, keys, next: None });
    }

    fn scanned(&self) -> Vec<(Key, &str)> {
        match self.told.last() {
            Some(Event::Scanned { entries, .. }) => entries
                .iter()
                .map(|(key, value)| (key.clone(), std::str::from_utf8(value).unwrap()))
                .collect(),
            other => panic!("{other:?}"),
        }
    }

    fn got(&self) -> Vec<&[u8]> {
        let got = |event| match event {
            &Event::Got { value: Some(ref value), .. } => Some(&**value),
            _ => None,
        };
        self.told.iter().filter_map(got).collect()
    }

    /// The versions of the reads that were prepared in a shard.
    fn reads(&self, shard: u32) -> Vec<(Key, u64)> {
        let reads = &self.prepared[&ShardId(shard)].reads;
        reads.iter().map(|read| (read.key.clone(), read.version.micros)).collect()
    }
}

/// A reply has room for so much, and no more.
#[test]
fn keys_that_a_reply_leaves_out_are_asked_for_at_once() {
    let mut client = Client::new();
    let mut keys: Vec<Key> = (0..3).map(|nth| key(1, nth)).collect();
    keys.sort();
    client.does(Command::GetMany { transaction: TRANSACTION, keys: keys.clone() });
    assert_eq!(client.asked, [(1, 1, keys.clone())]);
    let reply = |request, found: &[&Key], waiting: &[&Key]| {
        let found = found.iter().map(|key| KeyVersion {
            key: Key::clone(key),
            version: version(5),
            value: value("x"),
        });
        let waiting = waiting.iter().copied().cloned().collect();
        Message::ReadManyReply { transaction: TRANSACTION, request, found: found.collect(), waiting }
    };
    client.hears(1, 0, reply(1, &[], &[]));
    client.hears(2, 0, reply(1, &[&keys[0]], &[]));
    client.hears(1, 1, reply(1, &[], &[&key(2, 0)]));
    assert_eq!((client.asked.len(), client.got().len()), (1, 0), "nothing of that answers anything");
    client.hears(1, 0, reply(1, &[&keys[0]], &[]));
    assert_eq!(client.asked[1..], [(1, 2, keys[1..].to_vec())]);
    client.hears(1, 0, reply(1, &[&keys[0]], &[]));
    client.hears(1, 0, reply(2, &[&keys[2]], &[&keys[1]]));
    assert_eq!((client.asked.len(), client.got().len()), (2, 2), "the last one waits for its turn");
    client.is_answered(1, &keys[1], 6, "y");
    assert_eq!(client.got(), [b"x", b"x", b"y"]);
}

#[test]
fn a_key_that_is_named_twice_is_told_twice_and_asked_for_once() {
    let (mut client, a, b) = (Client::new(), key(1, 0), key(1, 1));
    let keys = vec![a.clone(), b.clone(), a.clone()];
    client.does(Command::GetMany { transaction: TRANSACTION, keys });
    assert_eq!(client.asked, [(1, 1, vec![a.clone(), b.clone()])]);
    client.gets(&b);
    client.is_answered(1, &a, 5, "x");
    client.is_answered(1, &b, 5, "y");
    assert_eq!(client.got(), [b"x", b"x", b"y", b"y"]);
}

/// Else it could see one key at two times, and be validated for one of them.
#[test]
fn what_was_read_stays_as_it_was_read() {
    let (mut client, a) = (Client::new(), key(1, 0));
    client.gets(&a);
    client.gets(&a);
    client.is_answered(1, &a, 5, "first");
    client.is_answered(1, &a, 9, "later");
    assert_eq!(client.got(), [b"first", b"first"]);
    client.scans();
    client.finds(1, &[(&a, 9, "later")]);
    client.finds(2, &[]);
    assert_eq!(client.scanned(), [(a.clone(), "first")]);
    client.does(Command::Commit { transaction: TRANSACTION });
    assert_eq!(client.reads(1), [(a, 5)]);
}

#[test]
fn a_range_is_validated_in_every_shard_also_where_nothing_was_found() {
    let (mut client, a) = (Client::new(), key(1, 0));
    client.scans();
    client.finds(1, &[(&a, 5, "x")]);
    client.finds(2, &[]);
    client.does(Command::Commit { transaction: TRANSACTION });
    let ranges = |shard| client.prepared[&ShardId(shard)].ranges.len();
    assert_eq!((ranges(1), ranges(2)), (1, 1));
    assert_eq!(client.prepared[&ShardId(2)].participants, [ShardId(1), ShardId(2)]);
}

#[test]
fn a_transaction_reads_what_it_has_written_itself() {
    let (mut client, own, other) = (Client::new(), key(1, 0), key(2, 0));
    client.puts(&own, "first");
    client.puts(&own, "second");
    client.gets(&own);
    assert_eq!(client.got(), [b"second".as_slice()], "without asking anybody");
    client.gets(&other);
    assert_eq!(client.got().len(), 1, "that one is not its own");
}

#[test]
fn a_scan_sees_what_the_transaction_has_written() {
    let (mut client, a, b) = (Client::new(), key(1, 0), key(2, 0));
    client.puts(&a, "own");
    client.puts(&b, "new");
    client.scans();
    client.finds(1, &[(&a, 5, "old")]);
    client.finds(2, &[]);
    let mut expected = vec![(a, "own"), (b, "new")];
    expected.sort();
    assert_eq!(client.scanned(), expected);
}

/// The application asks what became of it while the replicas are still being told.
#[test]
fn an_outcome_that_is_known_is_told_to_who_asks() {
    for (vote, expected) in [(Vote::Ok, true), (Vote::Abort, false)] {
        let (mut client, a) = (Client::new(), key(1, 0));
        client.puts(&a, "x");
        client.does(Command::Commit { transaction: TRANSACTION });
        let id = quorate_ir::OperationId { transaction: TRANSACTION, number: 1 };
        for index in 0..3 {
            let (view, verdict) = (View(0), vote);
            client.hears(1, index, Message::Ir(Ir::ConsensusReply { id, view, verdict, finalized: false }));
        }
        client.does(Command::Resolve {
            transaction: TRANSACTION,
            participants: vec![ShardId(1)],
            timestamp: Timestamp::ZERO,
            patience: Duration::from_secs(5),
        });
        let Some(Event::Resolved { outcome: Some(outcome), .. }) = client.told.last() else {
            panic!("{:?}", client.told);
        };
        assert_eq!(matches!(outcome, Outcome::Committed(_)), expected);
    }
}

#[test]
fn only_the_answer_to_a_question_is_one() {
    let (mut client, a, b, other) = (Client::new(), key(1, 0), key(1, 1), key(2, 0));
    client.gets(&a);
    client.is_answered(2, &a, 5, "elsewhere");
    client.is_answered(1, &b, 5, "another key");
    assert_eq!(client.got(), [] as [&[u8]; 0]);
    client.gets(&other);
    client.is_answered(1, &other, 5, "elsewhere");
    client.is_answered(2, &other, 5, "two");
    client.is_answered(1, &a, 5, "one");
    assert_eq!(client.got(), [b"two", b"one"]);
}

/// Why a read-only transaction was refused, if it was.
fn refused(keys: Vec<Key>, freshness: Freshness) -> Option<Failure> {
    let mut client = Client::new();
    let transaction = TransactionId { sequence: 2, ..TRANSACTION };
    let patience = Duration::from_secs(60);
    client.does(Command::ReadOnly { transaction, keyspace: KEYSPACE, keys, freshness, patience });
    client.told.into_iter().find_map(|event| match event {
        Event::Finished { result: Err(failure), .. } => Some(failure),
        _ => None,
    })
}

/// Nobody would ever answer, or the answer would promise what the keyspace does not.
#[test]
fn what_cannot_be_read_is_refused_at_once() {
    assert_eq!(refused(vec![key(1, 0)], Freshness::Strict), None);
    let failure = refused(vec![Key::from(vec![b'k'; 5_000])], Freshness::Strict);
    assert!(matches!(failure, Some(Failure::Invalid(Invalid::Limit(_)))), "{failure:?}");
    let failure = refused(vec![key(1, 0)], Freshness::ClockBound);
    assert!(matches!(failure, Some(Failure::Invalid(Invalid::NoClockBound(KEYSPACE)))), "{failure:?}");
}

/// It is told who does not answer only if nobody does.
#[test]
fn a_read_that_waits_for_its_turn_until_the_end_has_met_a_conflict() {
    for waits in [false, true] {
        let (mut client, a) = (Client::new(), key(1, 0));
        client.gets(&a);
        client.passes(Duration::from_secs(59));
        assert_eq!(client.failure(), None);
        if waits {
            client.hears(1, 0, Message::ReadWaits { transaction: TRANSACTION, key: a });
        }
        client.passes(Duration::from_secs(1));
        match client.failure() {
            Some(Failure::Conflict) => assert!(waits),
            Some(Failure::Unavailable { missing }) => assert!(!waits && !missing.is_empty()),
            other => panic!("{other:?}"),
        }
    }
}
