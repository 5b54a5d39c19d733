//! The findings of holds that a read-only transaction over several shards may believe: nothing but what a majority of
//! each shard found in the view in which the hold was agreed on, under its last prepare.

use std::time::Duration;

use bytes::Bytes;
use quorate_core::command::{Command, Event, Failure, Freshness};
use quorate_core::machine::{InputOf, OutboxOf};
use quorate_core::{
    Address, ClientId, ClockTime, Context, Effect, Epoch, Input, Instant, Machine, Outbox, Random, ReplicaId,
    ReplicaIndex, ShardId, Timestamp, TransactionId, View,
};
use quorate_ir::{Message as Ir, OperationId};
use quorate_tapir::message::{FoundVersion, Vote};
use quorate_tapir::{Coordinator, CoordinatorConfig, CoordinatorTimer, Message};

use crate::two_shards::{KEYSPACE, key, routes};

const CLIENT: ClientId = ClientId(7);
const TRANSACTION: TransactionId = TransactionId { client: CLIENT, sequence: 1, attempt: 0 };

/// A client that reads a key of each of two shards at once.
struct Reader {
    coordinator: Coordinator,
    replicas: u8,
    now: Instant,
    /// The events that it has told the application.
    told: Vec<Event>,
    /// The number of its latest prepare.
    number: u32,
}

impl Reader {
    fn new(replicas: u8) -> Self {
        let config = CoordinatorConfig { deadlines: false, ..CoordinatorConfig::new(CLIENT) };
        let (coordinator, now) = (Coordinator::restore(config, []), Instant::START);
        let mut reader = Reader { coordinator, replicas, now, told: Vec::new(), number: 0 };
        reader.step(Input::Command(Command::Route(routes(replicas))));
        reader.step(Input::Command(Command::ReadOnly {
            transaction: TRANSACTION,
            keyspace: KEYSPACE,
            keys: vec![key(1, 0), key(2, 0)],
            freshness: Freshness::Strict,
            patience: Duration::from_secs(60),
        }));
        assert_eq!(reader.number, 1);
        reader
    }

    fn step(&mut self, input: InputOf<Coordinator>) {
        let mut outbox: OutboxOf<Coordinator> = Outbox::new();
        let (clock, mut random) = (ClockTime::from_micros(1_000), Random::new(1));
        self.coordinator.step(&mut Context { now: self.now, clock, random: &mut random }, input, &mut outbox);
        for effect in outbox.drain() {
            match effect {
                Effect::Emit(event) => self.told.push(event),
                Effect::Send { message: Message::Ir(Ir::ProposeConsensus { id, .. }), .. } => {
                    self.number = id.number;
                }
                _ => {}
            }
        }
    }

    fn hears(&mut self, shard: u32, index: u8, message: Message) {
        let from = Address::Replica(ReplicaId { shard: ShardId(shard), index: ReplicaIndex(index) });
        self.step(Input::Message { from, epoch: Epoch::FIRST, message });
    }

    /// A replica votes on the latest prepare, and tells the version that it has found if its hold began just now.
    fn votes(&mut self, shard: u32, index: u8, view: u64, vote: Vote, found: Option<u64>) {
        let id = OperationId { transaction: TRANSACTION, number: self.number };
        let version = |micros| FoundVersion {
            version: Timestamp { micros, client: CLIENT },
            value: Some(Bytes::from(micros.to_string())),
            absent_below: None,
        };
        let found = found.map(version).into_iter().collect();
        self.hears(shard, index, Message::HeldReads { id, view: View(view), vote, finalized: false, found });
    }

    fn confirms(&mut self, shard: u32, index: u8, view: u64) {
        let id = OperationId { transaction: TRANSACTION, number: self.number };
        let confirm = Ir::Confirm { id, view: View(view), verdict: Some(Vote::Ok), finalized: true };
        self.hears(shard, index, Message::Ir(confirm));
    }

    /// All replicas of the second shard hold its key, at version 1.
    fn second_shard_agrees(&mut self) {
        for index in 0..self.replicas {
            self.votes(2, index, 0, Vote::Ok, Some(1));
        }
    }

    /// Nothing more is waited for.
    fn fast_path_times_out(&mut self) {
        self.now = self.now + Duration::from_millis(600);
        self.step(Input::Timer(CoordinatorTimer::Attention));
    }

    /// The values of the keys that it was told, if they count.
    fn got(&self) -> Result<Vec<&[u8]>, &Failure> {
        fn value(event: &Event) -> Option<&[u8]> {
            match event {
                Event::Got { value, .. } => value.as_deref(),
                _ => None,
            }
        }
        match self.told.last() {
            Some(Event::Finished { result: Ok(_), .. }) => Ok(self.told.iter().filter_map(value).collect()),
            Some(Event::Finished { result: Err(failure), .. }) => Err(failure),
            other => panic!("it goes on: {other:?}"),
        }
    }
}

#[test]
fn the_newest_that_a_majority_found_counts() {
    let mut reader = Reader::new(5);
    reader.second_shard_agrees();
    for (index, found) in [(0, Some(5)), (1, None), (2, Some(9)), (3, Some(5))] {
        reader.votes(1, index, 0, Vote::Ok, found);
    }
    assert_eq!(reader.got(), Ok(vec![&b"9"[..], b"1"]));
}

/// Replicas that were asked again do not tell once more what they found, and f replicas may all lack the newest.
#[test]
fn what_less_than_a_majority_found_is_not_told() {
    for by_confirms in [false, true] {
        let mut reader = Reader::new(5);
        reader.second_shard_agrees();
        for (index, found) in [(0, Some(5)), (1, None), (2, Some(5))] {
            reader.votes(1, index, 0, Vote::Ok, found);
        }
        if by_confirms {
            reader.fast_path_times_out();
            (0..3).for_each(|index| reader.confirms(1, index, 0));
        } else {
            reader.votes(1, 3, 0, Vote::Ok, None);
        }
        assert_eq!(reader.got(), Err(&Failure::Conflict), "by confirmations: {by_confirms}");
    }
}

#[test]
fn versions_of_more_keys_than_were_asked_for_are_none() {
    let mut reader = Reader::new(3);
    reader.second_shard_agrees();
    let version = |micros| FoundVersion {
        version: Timestamp { micros, client: CLIENT },
        value: Some(Bytes::from(micros.to_string())),
        absent_below: None,
    };
    let id = OperationId { transaction: TRANSACTION, number: reader.number };
    let (view, vote, found) = (View(0), Vote::Ok, vec![version(50), version(60)]);
    reader.hears(1, 0, Message::HeldReads { id, view, vote, finalized: false, found });
    reader.votes(1, 1, 0, Vote::Ok, Some(5));
    reader.votes(1, 2, 0, Vote::Ok, Some(5));
    assert_eq!(reader.got(), Ok(vec![&b"5"[..], b"1"]));
}

/// A view change may have let something in since.
#[test]
fn what_was_found_in_an_earlier_view_does_not_count() {
    let mut reader = Reader::new(3);
    reader.second_shard_agrees();
    reader.votes(1, 0, 0, Vote::Ok, Some(5));
    reader.votes(1, 1, 0, Vote::Ok, Some(5));
    for index in [0, 1, 2] {
        // They held it already when the view began, and say no more what they found.
        let found = (index == 2).then_some(9);
        reader.votes(1, index, 1, Vote::Ok, found);
    }
    assert_eq!(reader.got(), Err(&Failure::Conflict));
}

/// Between two prepares of a transaction nobody need hold what it reads.
#[test]
fn what_was_found_under_an_earlier_prepare_does_not_count() {
    let above = Timestamp { micros: 2_000, client: CLIENT };
    let mut reader = Reader::new(3);
    reader.second_shard_agrees();
    reader.votes(1, 0, 0, Vote::Ok, Some(5));
    reader.votes(1, 1, 0, Vote::Retry(above), None);
    reader.votes(1, 2, 0, Vote::Retry(above), None);
    reader.fast_path_times_out();
    assert_eq!(reader.number, 2, "it is prepared again");
    reader.second_shard_agrees();
    reader.votes(1, 0, 0, Vote::Ok, None);
    reader.votes(1, 1, 0, Vote::Ok, Some(5));
    reader.votes(1, 2, 0, Vote::Ok, None);
    assert_eq!(reader.got(), Err(&Failure::Conflict));
}

#[test]
fn confirmations_of_an_earlier_prepare_do_not_count() {
    let above = Timestamp { micros: 2_000, client: CLIENT };
    let mut reader = Reader::new(3);
    reader.second_shard_agrees();
    for index in 0..2 {
        reader.votes(1, index, 0, Vote::Retry(above), None);
    }
    reader.fast_path_times_out();
    assert_eq!(reader.number, 2, "it is prepared again");
    reader.second_shard_agrees();
    for index in 0..2 {
        reader.votes(1, index, 0, Vote::Ok, Some(5));
    }
    reader.fast_path_times_out();
    reader.number = 1;
    (0..2).for_each(|index| reader.confirms(1, index, 0));
    assert!(!matches!(reader.told.last(), Some(Event::Finished { .. })), "{:?}", reader.told);
    reader.number = 2;
    (0..2).for_each(|index| reader.confirms(1, index, 0));
    assert_eq!(reader.got(), Ok(vec![&b"5"[..], b"1"]));
}

/// Its reads are of no use, and may have been overwritten before it could commit.
#[test]
fn what_was_found_is_not_told_of_a_transaction_that_does_not_commit() {
    let mut reader = Reader::new(3);
    reader.second_shard_agrees();
    for index in 0..2 {
        reader.votes(1, index, 0, Vote::Ok, Some(5));
    }
    reader.votes(1, 2, 0, Vote::Abort, None);
    for index in 0..2 {
        let id = OperationId { transaction: TRANSACTION, number: reader.number };
        let (view, verdict) = (View(0), Some(Vote::Abort));
        reader.hears(1, index, Message::Ir(Ir::Confirm { id, view, verdict, finalized: true }));
    }
    assert_eq!(reader.got(), Err(&Failure::Conflict));
    assert_eq!(reader.told.len(), 1, "{:?}", reader.told);
}
