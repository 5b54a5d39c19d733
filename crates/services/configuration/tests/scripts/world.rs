//! The configuration service on a stage.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use quorate_configuration::{
    ConditionalWrite, Coordinator, CoordinatorConfig, Entry, Message, Put, Replica, ReplicaConfig,
    ReplicaEvent, Rules, Subscriber, SubscriberCommand, SubscriberConfig, SubscriberEvent,
};
use quorate_core::command::{Command, Event, Routes};
use quorate_core::topology::{Durability, Isolation, Keyspace, Shard};
use quorate_core::{
    Address, ClientId, GroupSize, Groups, Input, Key, KeyRange, KeyspaceId, Machine, Members, NodeId,
    ReplicaId, ShardId, TransactionId, Value,
};
use quorate_testscripts::stage::{Play, Stage};

use super::alone::Alone;
use super::describe;

const SHARD: ShardId = ShardId(0);
const KEYSPACE: KeyspaceId = KeyspaceId(0);

/// How long clients wait for what they ask for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A machine that a client of a script can be.
trait Speaker: Machine<Message = Message, Record = Infallible> {
    fn create(client: ClientId, rules: Rules, members: Members) -> Self;

    /// Says who the replicas are.
    fn learn(definition: &Keyspace) -> Self::Command;

    /// The command that a line of a script gives to a client.
    fn command(client: ClientId, words: &[&str]) -> Self::Command;

    fn event(event: &Self::Event) -> String;
}

fn key(word: &str) -> Key {
    Key::from(word)
}

fn value(word: &str) -> Option<Value> {
    Some(Value::copy_from_slice(word.as_bytes()))
}

fn transaction(client: ClientId, word: &str) -> TransactionId {
    TransactionId { client, sequence: number(word), attempt: 0 }
}

fn number(word: &str) -> u64 {
    word.parse().unwrap_or_else(|_| panic!("{word} is no number"))
}

impl Speaker for Coordinator {
    fn create(client: ClientId, _: Rules, _: Members) -> Self {
        Coordinator::restore(CoordinatorConfig::new(client), [])
    }

    fn learn(definition: &Keyspace) -> Command {
        let nearest = definition.shards.iter().map(|shard| shard.members().map(|(index, _)| index).collect());
        Command::Route(Arc::new(Routes::new(definition.clone(), nearest.collect())))
    }

    fn command(client: ClientId, words: &[&str]) -> Command {
        let id = |word| transaction(client, word);
        match *words {
            ["begin", one] => Command::Begin { transaction: id(one), keyspace: KEYSPACE, patience: PATIENCE },
            ["get", one, word] => Command::Get { transaction: id(one), key: key(word) },
            ["put", one, word, what] => {
                Command::Put { transaction: id(one), key: key(word), value: value(what) }
            }
            ["commit", one] => Command::Commit { transaction: id(one) },
            _ => panic!("no such command: {words:?}"),
        }
    }

    fn event(event: &Event) -> String {
        describe::coordinator_event(event)
    }
}

impl Speaker for Subscriber {
    fn create(client: ClientId, rules: Rules, members: Members) -> Self {
        let config = SubscriberConfig { rules, ..SubscriberConfig::new(client, (SHARD, members)) };
        Subscriber::restore(config, [])
    }

    fn learn(definition: &Keyspace) -> SubscriberCommand {
        SubscriberCommand::Route(definition.shards[0].succession().present.members)
    }

    fn command(client: ClientId, words: &[&str]) -> SubscriberCommand {
        match *words {
            ["watch", watch, from, to] => {
                let range = KeyRange { from: key(from), to: Some(key(to)) };
                SubscriberCommand::Watch { watch: number(watch), range }
            }
            ["write", one, word, what] => {
                let put = Put { key: key(word), value: value(what), lease: None };
                let write = Arc::new(ConditionalWrite { compares: Vec::new(), puts: vec![put] });
                let transaction = transaction(client, one);
                SubscriberCommand::Write { transaction, write, patience: PATIENCE }
            }
            _ => panic!("no such command: {words:?}"),
        }
    }

    fn event(event: &SubscriberEvent) -> String {
        describe::subscriber_event(event)
    }
}

/// The machines of a script.
struct Service<C> {
    rules: Rules,
    clients: PhantomData<C>,
}

impl<C: Speaker> Play for Service<C> {
    type Replica = Replica;
    type Client = C;

    fn replica(&self, id: ReplicaId, _: &Groups) -> Replica {
        let mut config = ReplicaConfig { rules: self.rules, ..ReplicaConfig::new(id) };
        // So few that a script can have more.
        config.limits.changes_max = 2;
        quorate_core::log::LogMachine::new(config)
    }

    fn message(&self, message: &Message) -> String {
        describe::message(message)
    }

    fn entry(&self, entry: &Entry) -> String {
        describe::entry(entry)
    }

    fn replica_event(&self, event: &ReplicaEvent) -> String {
        match event {
            ReplicaEvent::Leading { view } => format!("leads {view}"),
            ReplicaEvent::Deposed => "is deposed".to_owned(),
        }
    }

    fn client_event(&self, event: &C::Event) -> String {
        C::event(event)
    }
}

/// A script under way.
struct Scene<C: Speaker> {
    stage: Stage<Service<C>>,
    /// Node and replica have the same number.
    definition: Keyspace,
}

impl<C: Speaker> Scene<C> {
    fn new(rules: Rules, told: &mut Vec<String>) -> Self {
        let definition = Keyspace::new(
            KEYSPACE,
            "_system",
            Isolation::Strict,
            Durability::Sync,
            vec![Shard::new(SHARD, (0..3).map(NodeId).collect())],
        );
        let groups = Groups::new(GroupSize::new(3).unwrap());
        let mut stage = Stage::new(Service { rules, clients: PhantomData }, groups);
        stage.create_group(SHARD, told);
        Scene { stage, definition }
    }

    fn command(&mut self, line: &str, told: &mut Vec<String>) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if self.stage.command(&words, told) {
            self.follow_group();
        } else {
            match words[..] {
                ["show", who] => self.show(who, told),
                ["learn", who] => {
                    let client = self.client(who, told);
                    let learn = C::learn(&self.definition);
                    self.stage.step_client(client, Input::Command(learn), told);
                }
                [verb, who, ref rest @ ..] => {
                    let client = self.client(who, told);
                    let command = C::command(client, &[&[verb], rest].concat());
                    self.stage.step_client(client, Input::Command(command), told);
                }
                _ => panic!("no such command: {line}"),
            }
        }
        self.stage.check_agreement();
    }

    /// Takes the group's present membership into the definition: a change of it has defined it.
    fn follow_group(&mut self) {
        let groups = self.stage.groups();
        if groups.epoch > self.definition.epoch {
            let nodes = groups.members(SHARD).iter().map(|index| NodeId(u16::from(index.0))).collect();
            let next = self.definition.next_epoch(&BTreeMap::from([(SHARD, nodes)]));
            self.definition = next.expect("the group is as it is");
            assert_eq!(self.definition.memberships().members(SHARD), groups.members(SHARD));
        }
    }

    /// The client of this name; the first thing that it does creates it.
    fn client(&mut self, who: &str, told: &mut Vec<String>) -> ClientId {
        let Address::Client(client) = self.stage.address(who) else { panic!("{who} is no client") };
        if !self.stage.has_client(client) {
            let members = self.stage.groups().members(SHARD);
            let machine = C::create(client, self.stage.play().rules, members);
            self.stage.create_client(client, machine, told);
            let learn = C::learn(&self.definition);
            self.stage.step_client(client, Input::Command(learn), told);
        }
        client
    }

    fn show(&self, who: &str, told: &mut Vec<String>) {
        let Some(replica) = self.stage.replicas().get(&self.stage.replica(who)) else {
            return told.push(format!("{who} is down"));
        };
        told.push(format!("{who} at {}", replica.revision()));
        told.extend(replica.keys().map(|(key, stored)| format!("  {}", describe::holds(key, Some(stored)))));
    }
}

/// Everything in a script's world.
pub(super) struct World {
    rules: Rules,
    script: Script,
}

enum Script {
    New,
    Coordinators(Scene<Coordinator>),
    Subscribers(Scene<Subscriber>),
    Alone(Alone),
}

impl World {
    /// A world whose machines follow these rules.
    pub(super) fn new(rules: Rules) -> Self {
        World { rules, script: Script::New }
    }

    /// Carries out one line of a script and tells what happened.
    pub(super) fn command(&mut self, line: &str) -> Vec<String> {
        let mut told = Vec::new();
        match (&mut self.script, line) {
            (Script::New, "cluster coordinators") => {
                self.script = Script::Coordinators(Scene::new(self.rules, &mut told));
            }
            (Script::New, "cluster subscribers") => {
                self.script = Script::Subscribers(Scene::new(self.rules, &mut told));
            }
            (Script::New, line) => match line.strip_prefix("alone ") {
                Some(kind) => {
                    let kind: Vec<&str> = kind.split_whitespace().collect();
                    self.script = Script::Alone(Alone::new(&kind));
                }
                None => panic!("a script begins with `cluster` or `alone`"),
            },
            (Script::Coordinators(scene), line) => scene.command(line, &mut told),
            (Script::Subscribers(scene), line) => scene.command(line, &mut told),
            (Script::Alone(alone), line) => alone.command(line, &mut told),
        }
        told
    }
}
