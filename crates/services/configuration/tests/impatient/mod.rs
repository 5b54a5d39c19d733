//! Clients whose time-outs are shorter than the way to the leader and back: they hear an answer all the same.
//!
//! Of what was asked only the last few questions count. At an even pace each would be forgotten on its way.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use quorate_configuration::{
    ConditionalWrite, Coordinator, CoordinatorConfig, Message, Revision, Subscriber, SubscriberCommand,
    SubscriberConfig, SubscriberEvent, WriteResult,
};
use quorate_core::command::{Command, Event, Routes};
use quorate_core::log::Position;
use quorate_core::machine::{InputOf, OutboxOf};
use quorate_core::topology::{Durability, Isolation, Keyspace, Shard};
use quorate_core::{
    Address, ClientId, ClockTime, Context, Effect, Epoch, GroupSize, Input, Instant, Key, KeyRange,
    KeyspaceId, Machine, NodeId, Outbox, Random, ReplicaId, ReplicaIndex, ShardId, TransactionId, Value,
};

const ME: ClientId = ClientId(7);
const SHARD: ShardId = ShardId(0);
const LEADER: ReplicaIndex = ReplicaIndex(2);

/// To the replicas and back.
const ROUND_TRIP: Duration = Duration::from_secs(2);

/// A client, and what replicas that are far away have answered.
struct Far<C: Machine> {
    client: C,
    now: Instant,
    timer: Option<(C::Timer, Instant)>,
    random: Random,
    /// Answers on their way, by when they come and their number.
    answers: BTreeMap<(Instant, u64), (ReplicaId, Message)>,
    asked: u64,
}

/// The answer of a replica to a question.
fn answer(to: ReplicaId, question: &Message) -> Option<Message> {
    let (request, revision, position) = (question.request(), Revision(9), Position(40));
    match question {
        Message::Get { keys, .. } if to.index == LEADER => {
            let absent = |key: &Key| quorate_configuration::KeyState { key: key.clone(), stored: None };
            Some(Message::GetReply { request, revision, position, found: keys.iter().map(absent).collect() })
        }
        Message::Scan { .. } => {
            Some(Message::ScanReply { request, revision, position, found: vec![], next: None })
        }
        Message::Write { .. } if to.index == LEADER => {
            Some(Message::WriteReply { request, position, result: WriteResult::Written { revision } })
        }
        Message::Get { .. } | Message::Write { .. } => Some(Message::NotLeading { request, leader: LEADER }),
        _ => None,
    }
}

impl<C: Machine<Message = Message, Record = Infallible, Timer: Clone + Debug, Event: Debug>> Far<C> {
    fn new(client: C) -> Self {
        let (random, answers) = (Random::new(5), BTreeMap::new());
        Far { client, now: Instant::START, timer: None, random, answers, asked: 0 }
    }

    /// The events that the client tells its host.
    fn step(&mut self, input: InputOf<C>) -> Vec<C::Event> {
        let mut outbox: OutboxOf<C> = Outbox::new();
        let clock = ClockTime::from_micros(0);
        let mut context = Context { now: self.now, clock, random: &mut self.random };
        self.client.step(&mut context, input, &mut outbox);
        let mut told = Vec::new();
        for effect in outbox.drain() {
            match effect {
                Effect::Send { to: Address::Replica(to), message }
                | Effect::SendUnordered { to: Address::Replica(to), message } => {
                    self.asked += 1;
                    if let Some(answer) = answer(to, &message) {
                        self.answers.insert((self.now + ROUND_TRIP, self.asked), (to, answer));
                    }
                }
                Effect::Emit(event) => told.push(event),
                Effect::SetTimer { timer, after } => self.timer = Some((timer, self.now + after)),
                other => panic!("{other:?}"),
            }
        }
        told
    }

    fn does(&mut self, command: C::Command) -> Vec<C::Event> {
        self.step(Input::Command(command))
    }

    /// The next events of the client, if they come within half a minute.
    fn hears(&mut self) -> Vec<C::Event> {
        let until = self.now + Duration::from_secs(30);
        loop {
            let answer = self.answers.first_key_value().map(|((at, _), _)| *at);
            let timer = self.timer.as_ref().map(|(_, at)| *at);
            let next = answer.into_iter().chain(timer).min().filter(|at| *at <= until);
            self.now = next.expect("the client hears nothing for half a minute");
            let told = match self.answers.first_entry().filter(|first| first.key().0 == self.now) {
                Some(first) => {
                    let (from, message) = first.remove();
                    self.step(Input::Message { from: from.into(), epoch: Epoch::FIRST, message })
                }
                None => {
                    let (timer, _) = self.timer.take().expect("it is due");
                    self.step(Input::Timer(timer))
                }
            };
            if !told.is_empty() {
                return told;
            }
        }
    }
}

fn coordinator() -> Far<Coordinator> {
    let timeout = ROUND_TRIP / 20;
    let config =
        CoordinatorConfig { read_timeout: timeout, resend_timeout: timeout, ..CoordinatorConfig::new(ME) };
    let mut far = Far::new(Coordinator::restore(config, []));
    let shard = Shard::new(SHARD, (0..3).map(NodeId).collect());
    let keyspace = Keyspace::new(KeyspaceId(0), "_system", Isolation::Strict, Durability::Sync, vec![shard]);
    let nearest = vec![(0..3).map(ReplicaIndex).collect()];
    far.does(Command::Route(Arc::new(Routes::new(keyspace, nearest))));
    far
}

#[test]
fn a_transaction_commits_although_each_question_is_asked_again_long_before_it_is_answered() {
    let mut far = coordinator();
    // A late attempt, which reads at the leader.
    let transaction = TransactionId { client: ME, sequence: 1, attempt: 2 };
    let patience = Duration::from_secs(60);
    far.does(Command::Begin { transaction, keyspace: KeyspaceId(0), patience });
    far.does(Command::Get { transaction, key: Key::from("a") });
    assert!(matches!(far.hears()[..], [Event::Got { value: None, .. }]));
    far.does(Command::Put { transaction, key: Key::from("a"), value: Some(Value::from_static(b"x")) });
    far.does(Command::Commit { transaction });
    assert!(matches!(far.hears()[..], [Event::Finished { result: Ok(_), .. }]));
    assert!(far.asked < 30, "{} questions, and two would have been enough", far.asked);
}

fn subscriber() -> Far<Subscriber> {
    let members = GroupSize::new(3).unwrap().into();
    let config =
        SubscriberConfig { resend_timeout: ROUND_TRIP / 5, ..SubscriberConfig::new(ME, (SHARD, members)) };
    Far::new(Subscriber::restore(config, []))
}

#[test]
fn a_subscriber_writes_and_reads_its_range_although_only_its_last_question_counts() {
    let mut far = subscriber();
    let transaction = TransactionId { client: ME, sequence: 1, attempt: 0 };
    let (write, patience) = (Arc::new(ConditionalWrite::default()), Duration::from_secs(60));
    far.does(SubscriberCommand::Write { transaction, write, patience });
    assert!(matches!(far.hears()[..], [SubscriberEvent::Written { result: Ok(_), .. }]));
    assert!(far.asked < 20, "{} questions, and one would have been enough", far.asked);

    let mut far = subscriber();
    let range = KeyRange { from: Key::default(), to: None };
    far.does(SubscriberCommand::Watch { watch: 1, range });
    assert!(matches!(far.hears()[..], [SubscriberEvent::Loaded { revision: Revision(9), .. }]));
    assert!(far.asked < 20, "{} questions, and one would have been enough", far.asked);
}
