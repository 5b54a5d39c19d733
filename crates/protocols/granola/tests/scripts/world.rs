//! Granola on a stage.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::command::Routes;
use quorate_core::hosted::Shards;
use quorate_core::log::LogMachine;
use quorate_core::topology::{Durability, Isolation, Keyspace, Shard};
use quorate_core::{
    Address, ClientId, ClockTime, Epoch, GroupSize, Groups, Input, KeyspaceId, Machine, NodeId, ReplicaId,
    ReplicaIndex, ShardId, TransactionId, Value,
};
use quorate_granola::{
    Class, Command, Coordinator, CoordinatorConfig, Entry, Event, Locking, Message, Replica, ReplicaCommand,
    ReplicaConfig, ReplicaEvent, Request, Rules, Vote,
};
use quorate_testscripts::stage::{Play, Stage};

use super::describe;
use crate::registers::Registers;

/// Everything in a script's world.
pub(crate) struct World {
    rules: Rules,
    /// None before the script says which cluster there is.
    stage: Option<Stage<Cluster>>,
}

/// The machines of a script.
struct Cluster {
    rules: Rules,
    shards: u32,
    floor_lag: Duration,
    locking: Locking,
    hub: Option<ShardId>,
    vote_delay_max: Duration,
}

impl Play for Cluster {
    type Replica = Replica<Registers>;
    type Client = Coordinator;

    fn replica(&self, id: ReplicaId, groups: &Groups) -> Self::Replica {
        Replica::new(ReplicaConfig {
            rules: self.rules,
            groups: groups.clone(),
            floor_lag: self.floor_lag,
            locking: self.locking,
            hub: self.hub,
            vote_delay_max: self.vote_delay_max,
            vote_timeout: Duration::from_secs(1),
            attention_interval: Duration::from_millis(500),
            ..ReplicaConfig::new(id, groups.size, Shards { first: ShardId(1), count: self.shards })
        })
    }

    fn message(&self, message: &Message) -> String {
        describe::message(message)
    }

    fn entry(&self, entry: &Entry) -> String {
        describe::entry(entry)
    }

    fn assert_invariants(&self, replica: &Self::Replica) {
        replica.assert_invariants();
    }

    fn replica_event(&self, event: &ReplicaEvent) -> String {
        describe::replica_event(event)
    }

    fn client_event(&self, event: &Event) -> String {
        describe::event(event)
    }
}

/// `1,2`
fn participants(word: &str) -> Vec<ShardId> {
    word.split(',').map(|shard| ShardId(shard.parse().unwrap())).collect()
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
                ["waiting", who] => {
                    let waiting = self.replica(who).map_or(0, Replica::waiting);
                    told.push(format!("{waiting} transactions wait at {who}"));
                }
                ["reads", who] => {
                    let reads = self.reads(who);
                    told.push(format!("{who} has executed reads {reads} times"));
                }
                ["show", who] => self.show(who, &mut told),
                ["ask", from, to, id, shards, high, ref operation @ ..] => {
                    let message = Message::Request(Request {
                        transaction: self.transaction(id),
                        participants: participants(shards),
                        operation: Value::from(operation.join(" ")),
                        class: Class::Independent,
                        high: ClockTime::from_micros(high.parse().unwrap()),
                        first: ClockTime::from_micros(100),
                    });
                    self.say(from, to, message, &mut told);
                }
                ["vote", from, to, id, shards, vote, micros] => {
                    let message = Message::Vote {
                        transaction: self.transaction(id),
                        participants: participants(shards),
                        first: ClockTime::from_micros(100),
                        vote: if vote == "COMMIT" { Vote::Commit } else { Vote::Conflict },
                        proposed: ClockTime::from_micros(micros.parse().unwrap()),
                        class: Class::Independent,
                        wants: false,
                    };
                    self.say(from, to, message, &mut told);
                }
                ["declare-lost", who, shard] => {
                    let command = ReplicaCommand::DeclareLost(ShardId(shard.parse().unwrap()));
                    let stage = self.stage();
                    let id = stage.replica(who);
                    stage.step_replica(id, Input::Command(command), &mut told);
                }
                ["disconnect", who, from] => {
                    let client = self.client(who, &mut told);
                    let stage = self.stage();
                    let command = Command::Reachable { replica: stage.replica(from), reachable: false };
                    stage.step_client(client, Input::Command(command), &mut told);
                }
                ["observe", who, micros] => {
                    let client = self.client(who, &mut told);
                    let timestamp = ClockTime::from_micros(micros.parse().unwrap());
                    let command = Command::Observe { timestamp };
                    self.stage().step_client(client, Input::Command(command), &mut told);
                }
                [what @ ("inquire" | "recall"), who, id, shards, micros] => {
                    let client = self.client(who, &mut told);
                    let transaction = self.transaction(id);
                    let (participants, patience) = (participants(shards), Duration::from_secs(20));
                    let not_before = ClockTime::from_micros(micros.parse().unwrap());
                    let wants_answers = what == "recall";
                    let command =
                        Command::Inquire { transaction, participants, not_before, wants_answers, patience };
                    self.stage().step_client(client, Input::Command(command), &mut told);
                }
                ["run", who, number, ..] => {
                    self.execute(who, number, line, Class::Independent, &mut told);
                }
                ["agree", who, number, ..] => {
                    self.execute(who, number, line, Class::Coordinated, &mut told);
                }
                ["read", who, number, ..] => {
                    self.execute(who, number, line, Class::ReadOnly, &mut told);
                }
                _ => panic!("no such command: {line}"),
            }
        }
        // With a planted bug it is what replicas say that shows it.
        if self.rules == Rules::SOUND {
            self.stage().check_agreement();
            for (id, replica) in self.stage().replicas() {
                assert_eq!(replica.application().disorders, 0, "{id} executes in the order of places");
            }
        }
        told
    }

    fn stage(&mut self) -> &mut Stage<Cluster> {
        self.stage.as_mut().expect("a script begins with `cluster`")
    }

    /// Every replica that is up.
    pub(crate) fn replicas(&self) -> impl Iterator<Item = (ReplicaId, &Replica<Registers>)> {
        self.stage.iter().flat_map(Stage::replicas).map(|(id, replica)| (*id, replica))
    }

    /// A replica, if it is up.
    fn replica(&mut self, who: &str) -> Option<&Replica<Registers>> {
        let stage = self.stage();
        let id = stage.replica(who);
        stage.replicas().get(&id)
    }

    /// How often a replica has executed what only reads.
    pub(crate) fn reads(&mut self, who: &str) -> usize {
        self.replica(who).map_or(0, |replica| replica.application().reads.get())
    }

    fn create(&mut self, settings: &[&str], told: &mut Vec<String>) {
        let (mut shards, mut replicas, mut floor_lag) = (1, 3, Duration::from_secs(10));
        let mut locking = Locking::WhereNeeded;
        // As in the paper.
        let mut vote_delay_max = Duration::ZERO;
        let mut hub = None;
        for setting in settings {
            match setting.split_once('=') {
                Some(("shards", count)) => shards = count.parse().unwrap(),
                Some(("replicas", count)) => replicas = count.parse().unwrap(),
                Some(("lag", seconds)) => floor_lag = Duration::from_secs(seconds.parse().unwrap()),
                Some(("ahead", millis)) => vote_delay_max = Duration::from_millis(millis.parse().unwrap()),
                Some(("hub", shard)) => hub = Some(ShardId(shard.parse().unwrap())),
                Some(("locking", "always")) => locking = Locking::Always,
                Some(("locking", "never")) => locking = Locking::NeverNorWait,
                _ => panic!("no such setting: {setting}"),
            }
        }
        let cluster = Cluster { rules: self.rules, shards, floor_lag, locking, hub, vote_delay_max };
        let mut stage = Stage::new(cluster, Groups::new(GroupSize::new(replicas).unwrap()));
        for shard in (1..=shards).map(ShardId) {
            stage.create_group(shard, told);
        }
        self.stage = Some(stage);
        told.clear();
        told.push(format!("{shards} shard(s) of {replicas} replicas"));
    }

    /// Where everything is, by the latest definition.
    fn routes(&mut self) -> Arc<Routes> {
        let stage = self.stage();
        let groups = stage.groups().clone();
        let shards: Vec<ShardId> = (1..=stage.play().shards).map(ShardId).collect();
        let nodes: Vec<NodeId> = (0..groups.size.replicas() as u16).map(NodeId).collect();
        let nearest = |shard: &ShardId| groups.members(*shard).iter().collect::<Vec<ReplicaIndex>>();
        let keyspace = Keyspace {
            epoch: groups.epoch,
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
            let hub = stage.play().hub;
            let config = CoordinatorConfig { rules, hub, ..CoordinatorConfig::new(client) };
            stage.create_client(client, Coordinator::restore(config, []), told);
            stage.step_client(client, Input::Command(Command::Route(routes)), told);
        }
        client
    }

    /// `c1.7`
    fn transaction(&mut self, word: &str) -> TransactionId {
        let (client, sequence) = word.split_once('.').expect("a client and a number");
        let Address::Client(client) = self.stage().address(client) else {
            panic!("{word} is no transaction")
        };
        TransactionId { client, sequence: sequence.parse().unwrap(), attempt: 0 }
    }

    /// Gives a replica a message that nobody has sent.
    fn say(&mut self, from: &str, to: &str, message: Message, told: &mut Vec<String>) {
        let stage = self.stage();
        let (from, to) = (stage.address(from), stage.replica(to));
        stage.step_replica(to, Input::Message { from, epoch: Epoch::FIRST, message }, told);
    }

    fn execute(&mut self, who: &str, number: &str, line: &str, class: Class, told: &mut Vec<String>) {
        let client = self.client(who, told);
        let (_, parts) = line.split_once(&format!(" {number} ")).expect("what to do follows the number");
        let part = |part: &str| {
            let (shard, operation) = part.trim().split_once(' ').expect("a shard and an operation");
            (ShardId(shard.parse().unwrap()), Value::from(operation.to_owned()))
        };
        let parts: BTreeMap<ShardId, Value> = parts.split(',').map(part).collect();
        let transaction = TransactionId { client, sequence: number.parse().unwrap(), attempt: 0 };
        let patience = Duration::from_secs(20);
        let command = Command::Execute { transaction, parts, class, persists: true, patience };
        self.stage().step_client(client, Input::Command(command), told);
    }

    fn show(&mut self, who: &str, told: &mut Vec<String>) {
        let Some(replica) = self.replica(who) else { return told.push(format!("{who} is down")) };
        let locks = if replica.is_locking() { " and locks" } else { "" };
        let role = replica.leads().map_or("follows".to_owned(), |view| format!("leads {view}{locks}"));
        told.push(format!("{who} {role}, floor {}", replica.floor().as_micros()));
        told.extend(replica.lost().map(|shard| format!("  {} is lost", shard.0)));
        told.extend(replica.pending().map(|pending| format!("  {}", describe::pending(pending))));
        told.extend(replica.ended().map(|(id, ended)| format!("  {}", describe::ended(id, ended))));
        for (id, is_forced) in replica.application().prepared() {
            let shares = if is_forced { ", others may have locked the same" } else { "" };
            told.push(format!("  {} is prepared{shares}", describe::transaction(id)));
        }
        for (key, place, word) in replica.application().all() {
            told.push(format!("  {key} = {word} @{}", place.timestamp.as_micros()));
        }
    }
}
