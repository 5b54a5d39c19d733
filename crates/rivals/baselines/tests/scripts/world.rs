//! The comparison systems on a stage.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_baselines::{
    Coordinator, CoordinatorConfig, Entry, Message, Replica, ReplicaCommand, ReplicaConfig, ReplicaEvent,
    Rules, System,
};
use quorate_core::command::{Command, Event, Freshness, Routes};
use quorate_core::hosted::Shards;
use quorate_core::log::LogMachine;
use quorate_core::topology::{Durability, Isolation, Keyspace, Shard, shard_position};
use quorate_core::{
    Address, ClientId, GroupSize, Groups, Input, Key, KeyRange, KeyspaceId, Machine, NodeId, ReplicaId,
    ReplicaIndex, ShardId, Timestamp,
};
use quorate_testscripts::stage::{Play, Stage};

use super::describe;

/// The group that is the timestamp server.
const TIMESTAMPS: ShardId = ShardId(9);

/// The group that coordinates.
const COORDINATOR: ShardId = ShardId(10);

/// Everything in a script's world.
pub(crate) struct World {
    rules: Rules,
    /// None before the script says which cluster there is.
    stage: Option<Stage<Cluster>>,
}

/// The machines of a script.
struct Cluster {
    rules: Rules,
    system: System,
    shards: u32,
    clock_bound: Option<Duration>,
}

impl Play for Cluster {
    type Replica = Replica;
    type Client = Coordinator;

    fn replica(&self, id: ReplicaId, groups: &Groups) -> Replica {
        Replica::new(ReplicaConfig {
            rules: self.rules,
            groups: groups.clone(),
            ..ReplicaConfig::new(
                id,
                groups.size,
                Shards { first: ShardId(1), count: self.shards },
                self.system,
            )
        })
    }

    fn shard(&self, word: &str) -> ShardId {
        match word {
            "t" => TIMESTAMPS,
            "d" => COORDINATOR,
            number => ShardId(number.parse().unwrap()),
        }
    }

    fn shard_name(&self, shard: ShardId) -> String {
        match shard {
            TIMESTAMPS => "t".to_owned(),
            COORDINATOR => "d".to_owned(),
            ShardId(number) => number.to_string(),
        }
    }

    fn client_name(&self, client: ClientId) -> String {
        describe::client(client)
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

    fn client_event(&self, event: &Event) -> String {
        describe::event(event)
    }
}

/// The keys of a script are single words; the first letter decides the shard.
fn key(word: &str, shards: usize) -> Key {
    let wanted = if word.starts_with('b') { shards - 1 } else { 0 };
    // Short keys do not fall into the wanted shard by themselves, so they are given a suffix that does it.
    (0..)
        .map(|salt: u32| if salt == 0 { word.to_owned() } else { format!("{word}{salt}") })
        .find(|candidate| shard_position(candidate.as_bytes(), shards) == wanted)
        .map(Key::from)
        .unwrap()
}

impl Cluster {
    /// The group that serves the system, if one does.
    fn service(&self) -> Option<ShardId> {
        match (self.system.has_timestamp_server(), self.system.has_coordinator()) {
            (true, _) => Some(TIMESTAMPS),
            (false, coordinated) => coordinated.then_some(COORDINATOR),
        }
    }
}

impl World {
    /// A world whose machines follow these rules.
    pub(crate) fn new(rules: Rules) -> Self {
        World { rules, stage: None }
    }

    /// Carries out one line of a script and tells what happened.
    pub(crate) fn command(&mut self, line: &str) -> Vec<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut told = Vec::new();
        if let ["cluster", settings @ ..] = &words[..] {
            self.create(settings, &mut told);
        } else if !self.stage().command(&words, &mut told) {
            match words[..] {
                ["learn", who] => self.learn(who, &mut told),
                ["unreachable", who, replica] => self.set_reachable(who, replica, false, &mut told),
                ["reachable", who, replica] => self.set_reachable(who, replica, true, &mut told),
                ["locks", who] => {
                    let locks = self.replica(who).map_or(0, |replica| replica.remains().locks);
                    told.push(format!("{locks} transactions have locks at {who}"));
                }
                ["waiting", who] => {
                    let waiting = self.replica(who).map_or(0, Replica::waiting);
                    told.push(format!("{waiting} transactions wait at {who}"));
                }
                ["show", who] => self.show(who, &mut told),
                [verb, who, ref rest @ ..] => self.client_command(verb, who, rest, &mut told),
                _ => panic!("no such command: {line}"),
            }
        }
        self.stage().check_agreement();
        told
    }

    fn stage(&mut self) -> &mut Stage<Cluster> {
        self.stage.as_mut().expect("a script begins with `cluster`")
    }

    /// A replica, if it is up.
    fn replica(&mut self, who: &str) -> Option<&Replica> {
        let stage = self.stage();
        let id = stage.replica(who);
        stage.replicas().get(&id)
    }

    /// The remains that replicas hold or wait for although everything should have ended, in words.
    pub(crate) fn left(&self) -> Vec<String> {
        let held = |(id, replica): (&ReplicaId, &Replica)| {
            let (prepared, waiting) = (replica.prepared().len(), replica.waiting());
            (prepared + waiting > 0).then(|| format!("{id} holds {prepared} and lets {waiting} wait"))
        };
        self.stage.iter().flat_map(Stage::replicas).filter_map(held).collect()
    }

    fn create(&mut self, settings: &[&str], told: &mut Vec<String>) {
        let (mut shards, mut replicas, mut clock_bound) = (1, 3, None);
        let mut system = System::TxnOcc;
        for setting in settings {
            match setting.split_once('=') {
                Some(("shards", count)) => shards = count.parse().unwrap(),
                Some(("replicas", count)) => replicas = count.parse().unwrap(),
                Some(("bound", micros)) => {
                    clock_bound = Some(Duration::from_micros(micros.parse().unwrap()));
                }
                None => system = setting.parse().unwrap(),
                _ => panic!("no such setting: {setting}"),
            }
        }
        let cluster = Cluster { rules: self.rules, system, shards, clock_bound };
        let service = cluster.service();
        let mut stage = Stage::new(cluster, Groups::new(GroupSize::new(replicas).unwrap()));
        for shard in (1..=shards).map(ShardId).chain(service) {
            stage.create_group(shard, told);
        }
        self.stage = Some(stage);
        told.clear();
        told.push(format!("{system}: {shards} shard(s) of {replicas} replicas"));
    }

    /// Where everything is, by the latest definition.
    fn routes(&mut self) -> Arc<Routes> {
        let stage = self.stage();
        let groups = stage.groups().clone();
        let (shards, clock_bound) = (stage.play().shards, stage.play().clock_bound);
        let shards: Vec<ShardId> = (1..=shards).map(ShardId).collect();
        let nodes: Vec<NodeId> = (0..groups.size.replicas() as u16).map(NodeId).collect();
        // The nearest replica is not the leader.
        let nearest = |shard: &ShardId| groups.members(*shard).iter().rev().collect::<Vec<ReplicaIndex>>();
        let keyspace = Keyspace {
            epoch: groups.epoch,
            clock_bound,
            ..Keyspace::new(
                KeyspaceId(1),
                "script",
                Isolation::Strict,
                Durability::Sync,
                shards.iter().map(|id| Shard::new(*id, nodes.clone())).collect(),
            )
        };
        Arc::new(Routes::new(keyspace, shards.iter().map(nearest).collect()))
    }

    /// Somebody learns of the latest definition.
    fn learn(&mut self, who: &str, told: &mut Vec<String>) {
        let routes = self.routes();
        let stage = self.stage();
        match stage.address(who) {
            Address::Client(id) => stage.step_client(id, Input::Command(Command::Route(routes)), told),
            Address::Replica(id) => {
                let groups = stage.groups().clone();
                stage.step_replica(id, Input::Command(ReplicaCommand::ChangeGroups(groups)), told);
            }
        }
    }

    /// The client of this name; the first thing that it does creates it.
    fn client(&mut self, who: &str, told: &mut Vec<String>) -> ClientId {
        let (rules, routes) = (self.rules, self.routes());
        let stage = self.stage();
        let Address::Client(client) = stage.address(who) else { panic!("{who} is no client") };
        if !stage.has_client(client) {
            let size = stage.groups().size;
            let config = CoordinatorConfig {
                rules,
                service: stage.play().service().map(|shard| (shard, size)),
                ..CoordinatorConfig::new(client, stage.play().system)
            };
            stage.create_client(client, Coordinator::restore(config, []), told);
            stage.step_client(client, Input::Command(Command::Route(routes)), told);
        }
        client
    }

    fn set_reachable(&mut self, who: &str, word: &str, reachable: bool, told: &mut Vec<String>) {
        let client = self.client(who, told);
        let stage = self.stage();
        let replica = stage.replica(word);
        stage.step_client(client, Input::Command(Command::Reachable { replica, reachable }), told);
    }

    fn client_command(&mut self, verb: &str, who: &str, rest: &[&str], told: &mut Vec<String>) {
        let client = self.client(who, told);
        let stage = self.stage();
        let shards = stage.play().shards as usize;
        let transaction = stage.transaction(client, rest[0]);
        let (keyspace, patience) = (KeyspaceId(1), Duration::from_secs(5));
        let range = |from: &str, to: &str| KeyRange { from: Key::from(from), to: Some(Key::from(to)) };
        let command = match (verb, &rest[1..]) {
            ("begin", []) => Command::Begin { transaction, keyspace, patience },
            ("get", [word]) => Command::Get { transaction, key: key(word, shards) },
            ("put", [word, value]) => Command::Put {
                transaction,
                key: key(word, shards),
                value: Some(Bytes::from((*value).to_owned())),
            },
            ("delete", [word]) => Command::Put { transaction, key: key(word, shards), value: None },
            ("scan", [from, to]) => Command::Scan { transaction, range: range(from, to), limit: 10 },
            ("scan", [from, to, limit]) => {
                Command::Scan { transaction, range: range(from, to), limit: limit.parse().unwrap() }
            }
            ("commit", []) => Command::Commit { transaction },
            ("read" | "read-now" | "read-at" | "read-stale", words) => {
                let (freshness, words) = match (verb, words) {
                    ("read", words) => (Freshness::Strict, words),
                    ("read-now", words) => (Freshness::ClockBound, words),
                    ("read-stale", [micros, words @ ..]) => {
                        (Freshness::Stale(Duration::from_micros(micros.parse().unwrap())), words)
                    }
                    (_, [micros, words @ ..]) => {
                        (Freshness::At(Timestamp { micros: micros.parse().unwrap(), client }), words)
                    }
                    _ => panic!("{verb} needs a number"),
                };
                let keys = words.iter().map(|word| key(word, shards)).collect();
                Command::ReadOnly { transaction, keyspace, keys, freshness, patience }
            }
            ("scan-at", [micros, from, to, limit]) => Command::ReadOnlyScan {
                transaction,
                keyspace,
                range: range(from, to),
                limit: limit.parse().unwrap(),
                freshness: Freshness::At(Timestamp { micros: micros.parse().unwrap(), client }),
                patience,
            },
            ("scan-strict", [from, to]) => Command::ReadOnlyScan {
                transaction,
                keyspace,
                range: range(from, to),
                limit: 10,
                freshness: Freshness::Strict,
                patience,
            },
            ("abort", []) => Command::Abort { transaction },
            ("resolve" | "resolve-at", words) => {
                let participants = (1..=shards as u32).map(ShardId).collect();
                let micros = words.first().map_or(0, |micros| micros.parse().unwrap());
                let timestamp = Timestamp { micros, client: ClientId(0) };
                Command::Resolve { transaction, participants, timestamp, patience }
            }
            _ => panic!("no such command: {verb} {rest:?}"),
        };
        stage.step_client(client, Input::Command(command), told);
    }

    fn show(&mut self, who: &str, told: &mut Vec<String>) {
        let Some(replica) = self.replica(who) else { return told.push(format!("{who} is down")) };
        let role = replica.leads().map_or("follows".to_owned(), |view| format!("leads {view}"));
        told.push(format!("{who} {role}, floor {}", describe::at(replica.floor())));
        for id in replica.prepared().ids() {
            let held = replica.prepared().entry(id).unwrap();
            told.push(format!(
                "  prepared {} at {}",
                describe::transaction(id),
                describe::at(held.timestamp)
            ));
        }
        for (id, outcome) in replica.outcomes() {
            told.push(format!("  {} {}", describe::transaction(id), describe::outcome(outcome)));
        }
        for (key, version) in replica.versions().iter() {
            let value = version.bytes();
            let value = value.as_deref().map_or("nothing".into(), String::from_utf8_lossy);
            let key = String::from_utf8_lossy(key);
            told.push(format!("  {key} = {value} @{}", describe::at(version.timestamp)));
        }
    }
}
