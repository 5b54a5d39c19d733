//! One coordinator: what it asks, and what it tells its client.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::command::{Command, Committed, Event, Failure, Freshness, Outcome, Routes};
use quorate_core::hosted::HostedCoordinator;
use quorate_core::log::Position;
use quorate_core::machine::Effect;
use quorate_core::topology::{Durability, Isolation, Keyspace, Shard};
use quorate_core::{
    ClientId, ClockTime, Context, Epoch, Input, Instant, Key, KeyRange, KeyspaceId, Machine, NodeId, Outbox,
    Random, ReplicaId, ReplicaIndex, ShardId, Timestamp, TransactionId, Value,
};

use super::{Coordinator, Out};
use crate::config::CoordinatorConfig;
use crate::entry::{KeyState, Revision, Stored};
use crate::message::{Compare, Consistency, Message, Refusal, WriteResult};
use quorate_coordinator::CoordinatorTimer;

const ME: ClientId = ClientId(7);
const SHARD: ShardId = ShardId(0);
const KEYSPACE: KeyspaceId = KeyspaceId(0);

struct World {
    coordinator: Coordinator,
    now: Duration,
    /// How long from the last step until it is looked at again, if it is.
    wakes_after: Option<Duration>,
    keyspace: Option<Keyspace>,
}

fn id(sequence: u64, attempt: u32) -> TransactionId {
    TransactionId { client: ME, sequence, attempt }
}

fn replica(index: u8) -> ReplicaId {
    ReplicaId { shard: SHARD, index: ReplicaIndex(index) }
}

type Said = (Vec<(ReplicaId, Message)>, Vec<Event>);

impl World {
    fn new() -> Self {
        let mut world = World {
            coordinator: Coordinator::restore(CoordinatorConfig::new(ME), []),
            now: Duration::ZERO,
            wakes_after: None,
            keyspace: None,
        };
        let shard = Shard::new(SHARD, vec![NodeId(0), NodeId(1), NodeId(2)]);
        let keyspace = Keyspace::new(KEYSPACE, "_system", Isolation::Strict, Durability::Sync, vec![shard]);
        world.keyspace = Some(keyspace);
        world.route([2, 1, 0]);
        world
    }

    /// The replicas are near in this order.
    fn route(&mut self, nearest: [u8; 3]) {
        let Some(keyspace) = self.keyspace.clone() else { return };
        let routes = Routes::new(keyspace, vec![nearest.map(ReplicaIndex).to_vec()]);
        self.command(Command::Route(Arc::new(routes)));
    }

    fn step(&mut self, input: Input<Message, CoordinatorTimer, Command>) -> Said {
        let mut random = Random::new(1);
        let clock = ClockTime::from_micros(0);
        let mut context = Context { now: Instant::START + self.now, clock, random: &mut random };
        let mut outbox: Out = Outbox::new();
        self.coordinator.step(&mut context, input, &mut outbox);
        let (mut sent, mut told) = (Vec::new(), Vec::new());
        self.wakes_after = None;
        for effect in outbox.drain() {
            match effect {
                Effect::Send { to, message } | Effect::SendUnordered { to, message } => {
                    let quorate_core::Address::Replica(to) = to else { panic!("{to}") };
                    sent.push((to, message));
                }
                Effect::Emit(event) => told.push(event),
                Effect::SetTimer { after, .. } => self.wakes_after = Some(after),
                _ => {}
            }
        }
        (sent, told)
    }

    fn command(&mut self, command: Command) -> Said {
        self.step(Input::Command(command))
    }

    fn hear(&mut self, from: u8, message: Message) -> Said {
        self.step(Input::Message { from: replica(from).into(), epoch: Epoch::FIRST, message })
    }

    fn at(&mut self, seconds: f64) -> Said {
        self.now = Duration::from_secs_f64(seconds);
        self.step(Input::Timer(CoordinatorTimer::Attention))
    }

    fn get(&mut self, transaction: TransactionId, key: &'static str) -> (ReplicaId, u64) {
        let (sent, told) = self.command(Command::Get { transaction, key: Key::from(key) });
        assert!(told.is_empty() && sent.len() == 1, "{sent:?} {told:?}");
        (sent[0].0, sent[0].1.request())
    }

    fn begin(&mut self, transaction: TransactionId) {
        let patience = Duration::from_secs(5);
        self.command(Command::Begin { transaction, keyspace: KEYSPACE, patience });
    }

    /// A transaction that has read a key at a revision, if it lives, and writes it.
    fn wrote(
        &mut self,
        transaction: TransactionId,
        key: &'static str,
        changed: Option<u64>,
    ) -> (ReplicaId, Message) {
        self.begin(transaction);
        let (sent, _) = self.command(Command::Get { transaction, key: Key::from(key) });
        self.hear(2, got(sent[0].1.request(), key, changed));
        self.command(Command::Put {
            transaction,
            key: Key::from(key),
            value: Some(Value::from_static(b"new")),
        });
        let (mut sent, told) = self.command(Command::Commit { transaction });
        assert!(told.is_empty() && sent.len() == 1);
        sent.remove(0)
    }
}

fn stored(changed: u64) -> Stored {
    let changed = Revision(changed);
    Stored { value: Value::from_static(b"old"), created: Revision(1), changed, lease: None }
}

fn got(request: u64, key: &'static str, changed: Option<u64>) -> Message {
    let found = vec![KeyState { key: Key::from(key), stored: changed.map(stored) }];
    Message::GetReply { request, revision: Revision(9), position: Position(40), found }
}

fn finished(transaction: TransactionId, result: Result<Timestamp, Failure>) -> Event {
    let committed = Committed::at;
    Event::Finished { transaction, result: result.map(committed) }
}

fn reply(request: u64, result: WriteResult) -> Message {
    Message::WriteReply { request, position: Position(41), result }
}

#[test]
fn reads_are_stale_and_commit_relies_on_what_they_found() {
    let mut world = World::new();
    let transaction = id(1, 0);
    world.begin(transaction);
    let (sent, _) = world.command(Command::Get { transaction, key: Key::from("a") });
    let request = sent[0].1.request();
    let get = Message::Get { request, keys: vec![Key::from("a")], consistency: Consistency::Stale };
    assert_eq!(sent, [(replica(2), get)], "the nearest");
    let (_, told) = world.hear(2, got(request, "a", Some(4)));
    assert!(matches!(&told[..], [Event::Got { value: Some(_), .. }]));
    let (sent, _) = world.command(Command::Get { transaction, key: Key::from("b") });
    world.hear(2, got(sent[0].1.request(), "b", None));
    let range = KeyRange { from: Key::from("m"), to: None };
    let (sent, _) = world.command(Command::Scan { transaction, range: range.clone(), limit: 9 });
    let found = vec![(Key::from("n"), stored(5)), (Key::from("o"), stored(6))];
    let (request, revision, position) = (sent[0].1.request(), Revision(9), Position(40));
    world.hear(2, Message::ScanReply { request, revision, position, found, next: None });
    world.command(Command::Put { transaction, key: Key::from("n"), value: None });
    let (sent, _) = world.command(Command::Commit { transaction });
    let [(to, Message::Write { request, transaction: written, since, write })] = &sent[..] else {
        panic!("{sent:?}")
    };
    assert_eq!((*to, *written, *since), (replica(0), transaction, Position(40)));
    let key = |key: &'static str, changed: Option<u64>| Compare::Key {
        key: Key::from(key),
        changed: changed.map(Revision),
    };
    let expected = [
        key("a", Some(4)),
        key("b", None),
        key("n", Some(5)),
        key("o", Some(6)),
        Compare::Range { range, after: Revision(u64::MAX), keys: 2 },
    ];
    assert_eq!(write.compares, expected);
    assert_eq!((write.puts.len(), &write.puts[0].value), (1, &None));
    let (_, told) = world.hear(0, reply(*request, WriteResult::Written { revision: Revision(10) }));
    assert_eq!(told, [finished(transaction, Ok(Timestamp { micros: 10, client: ME }))]);
    assert!(world.coordinator.is_idle() && world.coordinator.requests.is_empty());
}

#[test]
fn what_does_not_hold_is_a_conflict_and_a_late_attempt_reads_at_the_leader() {
    let mut world = World::new();
    let (_, write) = world.wrote(id(1, 0), "a", Some(4));
    let (_, told) =
        world.hear(0, reply(write.request(), WriteResult::NotHeld { revision: Revision(9), compare: 0 }));
    assert_eq!(told, [finished(id(1, 0), Err(Failure::Conflict))]);
    world.begin(id(1, 2));
    let (sent, _) = world.command(Command::Get { transaction: id(1, 2), key: Key::from("a") });
    let [(to, Message::Get { consistency: Consistency::Linearizable, .. })] = sent[..] else {
        panic!("{sent:?}")
    };
    assert_eq!(to, replica(0));
}

#[test]
fn what_writes_nothing_is_checked_and_belongs_behind_what_it_saw() {
    let mut world = World::new();
    for (holds, micros) in [(true, Some(9)), (false, None)] {
        let transaction = id(u64::from(holds), 0);
        world.begin(transaction);
        let (sent, _) = world.command(Command::Get { transaction, key: Key::from("a") });
        world.hear(2, got(sent[0].1.request(), "a", Some(4)));
        let (sent, _) = world.command(Command::Commit { transaction });
        let [(_, Message::Check { request, .. })] = sent[..] else { panic!("{sent:?}") };
        let (revision, position) = (Revision(9), Position(40));
        let (_, told) = world.hear(0, Message::CheckReply { request, revision, position, holds });
        let [Event::Finished { result, .. }] = &told[..] else { panic!("{told:?}") };
        assert_eq!(result.as_ref().ok().map(|committed| committed.timestamp.micros), micros);
    }
}

#[test]
fn a_question_follows_the_leader_and_is_asked_again_under_the_same_name() {
    let mut world = World::new();
    let (_, write) = world.wrote(id(1, 0), "a", None);
    let elsewhere = Message::NotLeading { request: write.request(), leader: ReplicaIndex(1) };
    let (sent, _) = world.hear(0, elsewhere);
    let [(to, Message::Write { transaction, since, .. })] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!((*to, *transaction, *since), (replica(1), id(1, 0), Position(40)));
    // The first copy was heard all the same, and its answer is as good.
    let (sent, _) = world.at(1.5);
    assert_eq!(sent[0].0, replica(2), "who is silent may be no leader");
    let (_, told) = world.hear(0, reply(write.request(), WriteResult::Written { revision: Revision(3) }));
    assert_eq!(told, [finished(id(1, 0), Ok(Timestamp { micros: 3, client: ME }))]);
}

#[test]
fn a_read_that_is_answered_late_is_answered() {
    let mut world = World::new();
    let transaction = id(1, 0);
    world.begin(transaction);
    let (first, _) = world.command(Command::Get { transaction, key: Key::from("a") });
    let (second, _) = world.at(0.7);
    assert_eq!((first[0].0, second[0].0), (replica(2), replica(1)));
    let (_, told) = world.hear(2, got(first[0].1.request(), "a", Some(4)));
    assert!(matches!(&told[..], [Event::Got { value: Some(_), .. }]), "{told:?}");
    assert_eq!(world.hear(1, got(second[0].1.request(), "a", Some(4))), (vec![], vec![]), "it has been told");
    assert!(world.coordinator.requests.is_empty());
}

#[test]
fn what_may_have_been_written_is_unknown_until_it_is_settled() {
    let mut world = World::new();
    let (_, write) = world.wrote(id(1, 0), "a", None);
    let (_, told) = world.at(5.0);
    assert_eq!(told, [finished(id(1, 0), Err(Failure::Unknown { participants: vec![SHARD] }))]);
    // It goes on by itself, and tells who asks.
    let resolve = |transaction| Command::Resolve {
        transaction,
        participants: vec![SHARD],
        timestamp: Timestamp::ZERO,
        patience: Duration::from_secs(5),
    };
    assert_eq!(world.command(resolve(id(1, 0))).1, []);
    let (_, told) = world.hear(0, reply(write.request(), WriteResult::Written { revision: Revision(3) }));
    let outcome = Some(Outcome::Committed(Timestamp { micros: 3, client: ME }));
    assert_eq!(told, [Event::Resolved { transaction: id(1, 0), outcome }]);
    // Of somebody else's it asks.
    let theirs = TransactionId { client: ClientId(8), sequence: 4, attempt: 1 };
    let (sent, _) = world.command(resolve(theirs));
    let [(_, Message::Settle { request, transaction, since: Position::START })] = sent[..] else {
        panic!("{sent:?}")
    };
    assert_eq!(transaction, theirs);
    let (_, told) = world.hear(0, reply(request, WriteResult::Settled));
    assert_eq!(told, [Event::Resolved { transaction: theirs, outcome: Some(Outcome::Aborted) }]);
    // And says so if nobody knows any more.
    let (sent, _) = world.command(resolve(theirs));
    let refused = Message::Refused { request: sent[0].1.request(), refusal: Refusal::TooOld };
    let (_, told) = world.hear(0, refused);
    assert_eq!(told[0], Event::Forgotten { transaction: theirs });
    assert!(world.coordinator.is_idle());
}

#[test]
fn keys_are_read_at_once_at_the_leader_and_the_past_is_not_kept() {
    let mut world = World::new();
    let read = |transaction, freshness| Command::ReadOnly {
        transaction,
        keyspace: KEYSPACE,
        keys: vec![Key::from("b"), Key::from("a"), Key::from("b")],
        freshness,
        patience: Duration::from_secs(5),
    };
    let (sent, _) = world.command(read(id(1, 0), Freshness::Strict));
    let [(to, Message::Get { request, keys, consistency: Consistency::Linearizable })] = &sent[..] else {
        panic!("{sent:?}")
    };
    assert_eq!((*to, &keys[..]), (replica(0), &[Key::from("a"), Key::from("b")][..]));
    let state = |key: &Key| KeyState { key: key.clone(), stored: None };
    let (found, revision, position) = (keys.iter().map(state).collect(), Revision(9), Position(40));
    let (_, told) = world.hear(0, Message::GetReply { request: *request, revision, position, found });
    assert!(matches!(
        &told[..],
        [Event::Got { .. }, Event::Got { .. }, Event::Finished { result: Ok(_), .. }]
    ));
    let (_, told) = world.command(read(id(2, 0), Freshness::At(Timestamp::ZERO)));
    assert!(matches!(&told[..], [Event::Finished { result: Err(Failure::TooOld { .. }), .. }]), "{told:?}");
}

#[test]
fn what_is_said_under_another_membership_is_as_true() {
    let mut world = World::new();
    let (_, write) = world.wrote(id(1, 0), "a", None);
    let message = reply(write.request(), WriteResult::Written { revision: Revision(3) });
    let later = |message| Input::Message { from: replica(0).into(), epoch: Epoch(1), message };
    let (_, told) = world.step(later(message.clone()));
    assert!(
        matches!(&told[..], [Event::Outdated { keyspace: KEYSPACE }, Event::Finished { result: Ok(_), .. }]),
        "{told:?}"
    );
    assert_eq!(world.step(later(message)).1, [], "both are said once");
}

#[test]
fn a_read_goes_on_at_once_if_its_replica_cannot_be_reached_any_more() {
    let mut world = World::new();
    world.begin(id(1, 0));
    assert_eq!(world.get(id(1, 0), "a").0, replica(2));
    world.command(Command::Reachable { replica: replica(2), reachable: false });
    assert_eq!(world.wakes_after, Some(Duration::ZERO), "nothing is waited for");
    let (sent, _) = world.at(0.0);
    assert_eq!(sent.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [replica(1)]);
    assert_eq!(world.get(id(1, 0), "b").0, replica(1), "and it is not asked again");
}

#[test]
fn what_is_open_asks_where_the_replicas_are_now() {
    let mut world = World::new();
    world.begin(id(1, 0));
    assert_eq!(world.get(id(1, 0), "a").0, replica(2));
    world.route([1, 0, 2]);
    assert_eq!(world.get(id(1, 0), "b").0, replica(1));
}

#[test]
fn a_replica_that_has_answered_nothing_is_named_once() {
    let mut world = World::new();
    world.begin(id(1, 0));
    let asked = [world.get(id(1, 0), "a").0, world.get(id(1, 0), "b").0];
    assert_eq!(asked, [replica(2), replica(2)]);
    let (_, told) = world.at(5.0);
    assert_eq!(told, [finished(id(1, 0), Err(Failure::Unavailable { missing: vec![replica(2)] }))]);
}

#[test]
fn a_read_at_the_leader_follows_a_few_names_and_then_waits() {
    let mut world = World::new();
    world.begin(id(1, 2));
    let (mut to, mut request) = world.get(id(1, 2), "a");
    assert_eq!(to, replica(0));
    for redirects in 0.. {
        let other = (to.index.0 + 1) % 3;
        let (sent, _) = world.hear(to.index.0, Message::NotLeading { request, leader: ReplicaIndex(other) });
        let [(next, message)] = &sent[..] else {
            assert_eq!((redirects, sent.len()), (4, 0));
            break;
        };
        assert_eq!(*next, replica(other));
        (to, request) = (*next, message.request());
    }
    // A leader that is silent may be none, and then names are followed again.
    let (sent, _) = world.at(0.7);
    let [(next, message)] = &sent[..] else { panic!("{sent:?}") };
    assert_ne!(*next, to);
    let leader = ReplicaIndex((next.index.0 + 1) % 3);
    let (sent, _) = world.hear(next.index.0, Message::NotLeading { request: message.request(), leader });
    assert_eq!(sent[0].0.index, leader);
}

#[test]
fn a_range_has_as_many_keys_as_live_in_it() {
    let mut world = World::new();
    let transaction = id(1, 0);
    world.begin(transaction);
    let (_, request) = world.get(transaction, "n");
    world.hear(2, got(request, "n", None));
    let range = KeyRange { from: Key::from("m"), to: None };
    let (sent, _) = world.command(Command::Scan { transaction, range: range.clone(), limit: 9 });
    let (request, revision, position) = (sent[0].1.request(), Revision(9), Position(40));
    let found = vec![(Key::from("o"), stored(6))];
    world.hear(2, Message::ScanReply { request, revision, position, found, next: None });
    let (sent, _) = world.command(Command::Commit { transaction });
    let [(_, Message::Check { compares, .. })] = &sent[..] else { panic!("{sent:?}") };
    let keys = Compare::Range { range, after: Revision(u64::MAX), keys: 1 };
    assert!(compares.contains(&keys), "{compares:?}");
}

#[test]
fn what_is_open_is_looked_at_again_before_it_is_late() {
    let mut world = World::new();
    let config = CoordinatorConfig::new(ME);
    world.begin(id(1, 0));
    assert_eq!(world.wakes_after, Some(Duration::from_secs(5)), "nothing was asked yet");
    world.get(id(1, 0), "a");
    let soon = config.read_timeout..=config.read_timeout.mul_f64(1.25);
    assert!(world.wakes_after.is_some_and(|after| soon.contains(&after)), "{:?}", world.wakes_after);
    let patience = Duration::from_millis(100);
    world.command(Command::Begin { transaction: id(2, 0), keyspace: KEYSPACE, patience });
    assert_eq!(world.wakes_after, Some(patience), "its deadline comes first");
    let mut world = World::new();
    world.wrote(id(1, 0), "a", None);
    let (sent, told) = world.at(0.7);
    assert_eq!((sent, told), (vec![], vec![]));
    let soon = Duration::from_millis(300)..=Duration::from_millis(550);
    assert!(world.wakes_after.is_some_and(|after| soon.contains(&after)), "{:?}", world.wakes_after);
}

#[test]
fn a_read_by_the_clock_needs_a_bound_of_clocks() {
    let mut world = World::new();
    let (sent, told) = world.command(Command::ReadOnly {
        transaction: id(1, 0),
        keyspace: KEYSPACE,
        keys: vec![Key::from("a")],
        freshness: Freshness::ClockBound,
        patience: Duration::from_secs(5),
    });
    let fault = Failure::Invalid(quorate_core::command::Invalid::NoClockBound(KEYSPACE));
    assert_eq!((sent, told), (vec![], vec![finished(id(1, 0), Err(fault))]));
}
