//! The coordinator before shards that execute whatever they are asked for, at once and in the order in which they are asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use quorate_core::command::{Command, Event, Executed, Failure, Freshness, NotExecuted, Routes};
use quorate_core::hosted::HostedCoordinator;
use quorate_core::machine::{Effect, OutboxOf};
use quorate_core::topology::{Durability, Isolation, Keyspace, Shard as Group};
use quorate_core::{
    Address, ClientId, ClockTime, Context, Epoch, Input, Instant, Key, KeyRange, KeyspaceId, Machine, NodeId,
    Random, ReplicaId, ReplicaIndex, ShardId, Timestamp, TransactionId, Value,
};
use quorate_granola::message::{Message, Reply, Request};
use quorate_granola::{
    Answer, Application, Class, CoordinatorConfig, CoordinatorTimer, Outcome, Place, Refusal,
};
use quorate_serializable_shard::Shard;

use crate::Interactive;

mod one_round;

const KEYSPACE: KeyspaceId = KeyspaceId(1);
const CLIENT: ClientId = ClientId(7);

type In = Input<Message, CoordinatorTimer, Command>;

fn shard_of(address: Address) -> ShardId {
    let Address::Replica(replica) = address else { panic!("clients are not asked") };
    replica.shard
}

/// A client and its shards.
struct Stage {
    client: Interactive,
    shards: BTreeMap<ShardId, Shard>,
    random: Random,
    clock: u64,
    /// The class of everything that was asked for, by name, and of how many shards.
    asked: Vec<(Class, usize)>,
    /// The answers that the client was given to transactions whose parts it has named.
    executed: Vec<Result<Executed, NotExecuted>>,
    now: Instant,
    /// The answers of these shards are lost.
    silent: BTreeSet<ShardId>,
    /// These shards are lost for good.
    lost: BTreeSet<ShardId>,
    /// Why the client has dropped a message.
    ignored: Vec<&'static str>,
    /// The answers that the shards remember, of transactions that have ended.
    ended: BTreeMap<(TransactionId, ShardId), Reply>,
}

impl Stage {
    fn new() -> Self {
        let groups = (1..=3).map(|id| Group::new(ShardId(id), vec![NodeId(0)])).collect();
        let keyspace = Keyspace::new(KEYSPACE, "orders", Isolation::Serializable, Durability::Sync, groups);
        let nearest = vec![vec![ReplicaIndex(0)]; 3];
        let shards = (1..=3).map(|id| (ShardId(id), Shard::from_pages(Vec::new()))).collect();
        let client = Interactive::restore(CoordinatorConfig::new(CLIENT), []);
        let mut stage = Stage {
            client,
            shards,
            random: Random::new(1),
            clock: 1_000,
            asked: Vec::new(),
            executed: Vec::new(),
            now: Instant::START,
            silent: BTreeSet::new(),
            lost: BTreeSet::new(),
            ignored: Vec::new(),
            ended: BTreeMap::new(),
        };
        stage.tell(Command::Route(Arc::new(Routes::new(keyspace, nearest))));
        stage
    }

    /// Gives a command, and everything that follows; gives what the client is told.
    fn tell(&mut self, command: impl Into<Command>) -> Vec<Event> {
        self.input(Input::Command(command.into()))
    }

    /// So much time passes.
    fn pass(&mut self, duration: Duration) {
        self.now = self.now + duration;
        let told = self.input(Input::Timer(CoordinatorTimer::Attention));
        assert_eq!(told, []);
    }

    fn input(&mut self, input: In) -> Vec<Event> {
        let (mut inputs, mut told) = (vec![input], Vec::new());
        while let Some(input) = inputs.pop() {
            let mut outbox = OutboxOf::<Interactive>::new();
            let clock = ClockTime::from_micros(self.clock);
            let mut context = Context { now: self.now, clock, random: &mut self.random };
            self.client.step(&mut context, input, &mut outbox);
            self.ignored.extend(outbox.take_ignored());
            let mut asked: BTreeMap<TransactionId, Vec<(Address, Request)>> = BTreeMap::new();
            for effect in outbox.drain() {
                match effect {
                    Effect::Send { to, message: Message::Request(request) } => {
                        asked.entry(request.transaction).or_default().push((to, request));
                    }
                    Effect::Send { to, message: Message::Inquire { transaction, .. } } => {
                        let reply = self.ended.entry((transaction, shard_of(to)));
                        let reply = reply.or_insert(Reply::Ended(Outcome::Conflict)).clone();
                        inputs.extend(self.reply(to, transaction, reply));
                    }
                    Effect::Emit(Event::Executed { result, .. }) => self.executed.push(result),
                    Effect::Emit(event) => told.push(event),
                    _ => {}
                }
            }
            inputs.extend(asked.into_values().flat_map(|requests| self.execute(requests)));
        }
        told
    }

    /// The reply of a shard, unless that is lost.
    fn reply(&self, from: Address, transaction: TransactionId, reply: Reply) -> Option<In> {
        let message = Message::Reply { transaction, reply };
        let is_heard = !self.silent.contains(&shard_of(from));
        is_heard.then_some(Input::Message { from, epoch: Epoch::FIRST, message })
    }

    /// Executes a transaction at all of its shards, or at none.
    fn execute(&mut self, requests: Vec<(Address, Request)>) -> Vec<In> {
        self.clock += 10;
        let timestamp = ClockTime::from_micros(self.clock);
        self.asked.push((requests[0].1.class, requests.len()));
        let place = Place { timestamp, transaction: requests[0].1.transaction };
        let id = requests[0].1.transaction;
        let lost = requests[0].1.participants.iter().copied().find(|shard| self.lost.contains(shard));
        let mut refused = None;
        for (to, request) in requests.iter().filter(|(_, request)| request.class == Class::Coordinated) {
            if let Answer::Refused(reason) = self.read(*to, timestamp, request) {
                let refusal = Refusal { shard: shard_of(*to), reason };
                refused.get_or_insert(Outcome::Aborted(refusal));
            }
        }
        let mut replies = Vec::new();
        for (to, request) in requests {
            let known = self.ended.get(&(id, shard_of(to))).cloned();
            let reply = if let Some(known) = known {
                known
            } else if let Some(shard) = lost {
                Reply::Lost { shard }
            } else if let Some(refused) = refused.clone() {
                Reply::Ended(refused)
            } else {
                let answer = match request.class {
                    Class::ReadOnly => self.read(to, timestamp, &request),
                    _ => self.shard(to).run(place, &request.operation).expect("nothing is locked"),
                };
                Reply::Ended(Outcome::Committed { timestamp, answer })
            };
            if request.class != Class::ReadOnly {
                self.ended.insert((id, shard_of(to)), reply.clone());
            }
            replies.extend(self.reply(to, id, reply));
        }
        replies
    }

    fn shard(&mut self, at: Address) -> &mut Shard {
        self.shards.get_mut(&shard_of(at)).expect("there is such a shard")
    }

    /// The answer of a shard; a part that writes is looked at as a copy of the shard runs it.
    fn read(&mut self, at: Address, timestamp: ClockTime, request: &Request) -> Answer {
        let shard = self.shard(at);
        if request.class == Class::ReadOnly {
            return shard.read(Place::after(timestamp), &request.operation).answer;
        }
        match shard.prepare(request.transaction, &request.operation) {
            quorate_granola::Prepared::Commit(_) | quorate_granola::Prepared::Late(_) => {
                shard.abort(request.transaction);
                Answer::Done(Value::new())
            }
            quorate_granola::Prepared::Abort(reason) => {
                shard.abort(request.transaction);
                Answer::Refused(reason)
            }
            quorate_granola::Prepared::Conflict => Answer::Refused(Value::new()),
        }
    }

    fn begin(&mut self, sequence: u64) -> TransactionId {
        let transaction = TransactionId { client: CLIENT, sequence, attempt: 0 };
        let patience = Duration::from_secs(1);
        assert_eq!(self.tell(Command::Begin { transaction, keyspace: KEYSPACE, patience }), []);
        transaction
    }

    fn get(&mut self, transaction: TransactionId, key: &str) -> Option<Value> {
        match self.tell(Command::Get { transaction, key: Key::from(key) }).pop() {
            Some(Event::Got { value, .. }) => value,
            other => panic!("{other:?} is no answer to a get"),
        }
    }

    fn put(&mut self, transaction: TransactionId, key: &str, value: &'static str) {
        let value = Some(Value::from(value));
        assert_eq!(self.tell(Command::Put { transaction, key: Key::from(key), value }), []);
    }

    fn commit(&mut self, transaction: TransactionId) -> Result<u64, Failure> {
        match self.tell(Command::Commit { transaction }).pop() {
            Some(Event::Finished { result, .. }) => result.map(|committed| committed.timestamp.micros),
            other => panic!("{other:?} is no answer to a commit"),
        }
    }

    /// Writes in a transaction of its own.
    fn write(&mut self, sequence: u64, keys: &[&str]) {
        let transaction = self.begin(sequence);
        keys.iter().for_each(|key| self.put(transaction, key, "other"));
        self.commit(transaction).expect("nobody is in the way");
    }
}

/// Keys of different shards.
const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

#[test]
fn what_is_sent_is_the_cheapest_that_will_do() {
    let mut stage = Stage::new();
    stage.write(1, &KEYS);
    assert_eq!(stage.asked, [(Class::Independent, 3)], "what has read nothing cannot be refused");
    stage.asked.clear();
    let one = stage.begin(2);
    assert_eq!(stage.get(one, "a"), Some(Value::from("other")));
    stage.commit(one).expect("it has read one key, at one time");
    assert_eq!(stage.asked, [(Class::ReadOnly, 1)], "nothing more is asked");
    stage.asked.clear();
    let several = stage.begin(3);
    KEYS.iter().for_each(|key| _ = stage.get(several, key));
    stage.commit(several).expect("nothing has changed");
    assert_eq!(stage.asked.pop(), Some((Class::ReadOnly, 3)), "it reads as it was, all at one time");
    let writes = stage.begin(4);
    KEYS.iter().for_each(|key| _ = stage.get(writes, key));
    stage.put(writes, "a", "mine");
    assert_eq!(stage.get(writes, "a"), Some(Value::from("mine")), "it sees what it has written");
    stage.commit(writes).expect("nothing has changed");
    assert_eq!(stage.asked.pop(), Some((Class::Coordinated, 3)));
    assert!(stage.client.is_idle() && stage.client.disagreements() == 0);
}

/// Of each shard at one timestamp, so that nothing has to be asked again of a transaction that reads nothing else.
#[test]
fn keys_that_are_named_together_are_read_in_one_round() {
    let mut stage = Stage::new();
    stage.write(1, &KEYS);
    stage.asked.clear();
    let transaction = stage.begin(2);
    let get_many = |keys: &[&str]| {
        let keys = keys.iter().map(|key| Key::from(*key)).collect();
        Command::GetMany { transaction, keys }
    };
    let told = stage.tell(get_many(&[&KEYS[..], &["absent", "a"]].concat()));
    let got = told.iter().filter(|event| matches!(event, Event::Got { value: Some(_), .. })).count();
    assert_eq!((told.len(), got), (KEYS.len() + 2, KEYS.len() + 1), "{told:?}");
    assert_eq!(stage.asked, [(Class::ReadOnly, 3)]);
    let told = stage.tell(get_many(&KEYS));
    assert_eq!((told.len(), stage.asked.len()), (KEYS.len(), 1), "that is known: {told:?}");
    stage.commit(transaction).expect("it has read at one time");
    assert_eq!(stage.asked.len(), 1, "nothing more is asked");
    let (changes, reads) = (stage.begin(3), KEYS.map(Key::from).to_vec());
    stage.tell(Command::GetMany { transaction: changes, keys: reads });
    stage.write(4, &KEYS[..1]);
    stage.put(changes, KEYS[5], "late");
    assert_eq!(stage.commit(changes), Err(Failure::Conflict));
}

#[test]
fn what_has_changed_since_it_was_read_is_a_conflict() {
    for (reads, writes) in [(&KEYS[..1], true), (&KEYS[..], true), (&KEYS[..], false)] {
        let mut stage = Stage::new();
        let transaction = stage.begin(1);
        // None of them is there.
        reads.iter().for_each(|key| assert_eq!(stage.get(transaction, key), None));
        stage.write(2, &KEYS[..1]);
        if writes {
            stage.put(transaction, KEYS[0], "late");
        }
        assert_eq!(stage.commit(transaction), Err(Failure::Conflict), "{reads:?}");
        let after = stage.begin(3);
        assert_eq!(stage.get(after, KEYS[0]), Some(Value::from("other")));
    }
}

#[test]
fn a_key_that_comes_into_a_range_is_a_conflict() {
    for (comes, is_in) in [("k5", true), ("q", false)] {
        let mut stage = Stage::new();
        stage.write(1, &["k1", "k2"]);
        let transaction = stage.begin(2);
        let range = KeyRange { from: Key::from("k"), to: Some(Key::from("l")) };
        let told = stage.tell(Command::Scan { transaction, range, limit: 10 });
        let Some(Event::Scanned { entries, next, .. }) = told.last() else { panic!("{told:?}") };
        assert_eq!((entries.len(), next), (2, &None));
        stage.write(3, &[comes]);
        stage.put(transaction, "z", "mine");
        assert_eq!(stage.commit(transaction).is_err(), is_in, "{comes}");
    }
}

#[test]
fn an_answer_that_nothing_waits_for_is_dropped_with_a_reason() {
    let mut stage = Stage::new();
    stage.write(1, &KEYS);
    assert_eq!(stage.ignored, [""; 0]);
    let from = Address::Replica(ReplicaId { shard: ShardId(1), index: ReplicaIndex(0) });
    let transaction = TransactionId { client: CLIENT, sequence: 1, attempt: 0 };
    let message = Message::Reply { transaction, reply: Reply::Ended(Outcome::Conflict) };
    assert_eq!(stage.input(Input::Message { from, epoch: Epoch::FIRST, message }), []);
    let message = Message::AskFloor;
    assert_eq!(stage.input(Input::Message { from, epoch: Epoch::FIRST, message }), []);
    assert_eq!(stage.ignored, ["nothing waits under this name", "only replicas are told so"]);
}

#[test]
fn what_is_read_at_once_is_a_snapshot_of_now() {
    let mut stage = Stage::new();
    stage.write(1, &KEYS);
    let read_only = |sequence, freshness| Command::ReadOnly {
        transaction: TransactionId { client: CLIENT, sequence, attempt: 0 },
        keyspace: KEYSPACE,
        keys: KEYS.map(Key::from).to_vec(),
        freshness,
        patience: Duration::from_secs(1),
    };
    let told = stage.tell(read_only(2, Freshness::Strict));
    let got = told.iter().filter(|event| matches!(event, Event::Got { value: Some(_), .. }));
    assert_eq!(got.count(), KEYS.len());
    assert!(matches!(told.last(), Some(Event::Finished { result: Ok(_), .. })), "{told:?}");
    let told = stage.tell(read_only(3, Freshness::At(Timestamp::ZERO)));
    assert!(matches!(told[..], [Event::Finished { result: Err(Failure::TooOld { .. }), .. }]), "{told:?}");
    let told = stage.tell(read_only(4, Freshness::ClockBound));
    assert!(matches!(told[..], [Event::Finished { result: Err(Failure::Invalid(_)), .. }]), "{told:?}");
}
