//! STR on a stage.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::changes::Retention;
use quorate_core::command::{Command, Event, Freshness, Routes};
use quorate_core::hosted::{Holdings, Shards};
use quorate_core::log::LogMachine;
use quorate_core::topology::{Durability, Grants, Isolation, Keyspace, Shard, shard_position};
use quorate_core::{
    Address, ClientId, ClockTime, GroupSize, Groups, Input, Key, KeyRange, KeyspaceId, Machine, Members,
    NodeId, ReplicaId, ReplicaIndex, ShardId, Timestamp, Value,
};
use quorate_str::{
    Coordinator, CoordinatorConfig, Entry, Message, Replica, ReplicaCommand, ReplicaConfig, ReplicaEvent,
    Rules,
};
use quorate_testscripts::stage::{Play, Stage};

use super::describe;

/// Everything in a script's world.
pub(crate) struct World {
    rules: Rules,
    /// None before the script says which cluster there is.
    stage: Option<Stage<Cluster>>,
}

/// The machines of a script, and the nodes that they are on.
struct Cluster {
    rules: Rules,
    shards: u32,
    /// The nodes of the replicas of each group.
    nodes: BTreeMap<ShardId, Vec<u16>>,
    orders_sessions: bool,
    grants: Grants,
    /// Snapshots can be read for so long; none for as long as usual.
    lag: Option<Duration>,
    /// True if scripts tell what logs say.
    tells_logs: bool,
}

impl Play for Cluster {
    type Replica = Replica;
    type Client = Coordinator;

    fn replica(&self, id: ReplicaId, groups: &Groups) -> Replica {
        let shards = Shards { first: ShardId(1), count: self.shards };
        let usual = ReplicaConfig::new(id, groups.size, shards);
        Replica::new(ReplicaConfig {
            retention: Retention::NONE,
            rules: self.rules,
            groups: groups.clone(),
            orders_sessions: self.orders_sessions,
            grants: self.grants,
            floor_lag: self.lag.unwrap_or(usual.floor_lag),
            ..usual
        })
    }

    /// Shards are `A`, `B` and so on, and homes `N1`, `N2` and so on.
    fn shard(&self, word: &str) -> ShardId {
        match word.strip_prefix('N').and_then(|number| number.parse::<u32>().ok()) {
            Some(number) => ShardId(self.shards + number),
            None => ShardId(u32::from(word.as_bytes()[0] - b'A') + 1),
        }
    }

    fn shard_name(&self, shard: ShardId) -> String {
        match shard.0.checked_sub(self.shards).filter(|number| *number > 0) {
            Some(number) => format!("N{number}"),
            None => char::from(b'A' + shard.0 as u8 - 1).to_string(),
        }
    }

    fn message(&self, message: &Message) -> String {
        describe::message(message)
    }

    fn entry(&self, entry: &Entry) -> String {
        describe::entry(entry)
    }

    fn assert_invariants(&self, replica: &Replica) {
        replica.assert_invariants();
    }

    fn replica_event(&self, event: &ReplicaEvent) -> String {
        describe::replica_event(event)
    }

    fn client_event(&self, event: &Event) -> String {
        describe::event(event)
    }
}

impl Cluster {
    fn machines_on(&self, node: u16) -> Vec<ReplicaId> {
        let on_node = |(shard, nodes): (&ShardId, &Vec<u16>)| {
            let at = nodes.iter().position(|other| *other == node)?;
            Some(ReplicaId { shard: *shard, index: ReplicaIndex(at as u8) })
        };
        self.nodes.iter().filter_map(on_node).collect()
    }

    fn node_of(&self, machine: ReplicaId) -> u16 {
        self.nodes[&machine.shard][usize::from(machine.index.0)]
    }

    fn all_nodes(&self) -> Vec<u16> {
        let mut nodes: Vec<u16> = self.nodes.values().flatten().copied().collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}

/// The keys of a script are words, the first letter of which decides the shard: `a…` the first, `b…` the second. A tag takes them there.
fn key(word: &str, shards: u32) -> Key {
    let wanted = usize::from(word.as_bytes()[0] - b'a');
    let tagged = (0..).map(|salt: u32| format!("{{{salt}}}{word}"));
    let here = |key: &String| shard_position(key.as_bytes(), shards as usize) == wanted;
    tagged.into_iter().find(here).map(Key::from).unwrap()
}

/// The node of a client: `c2`, `c21` and so on are at the second.
fn node_of_client(client: ClientId) -> u16 {
    client.0.to_string().chars().next().and_then(|digit| digit.to_digit(10)).unwrap() as u16
}

/// Clocks show so much once everybody has grants, and what is there initially was written.
const BEGINNING: u64 = 1_000;

impl World {
    /// A world whose machines follow these rules.
    pub(crate) fn new(rules: Rules) -> Self {
        World { rules, stage: None }
    }

    /// Carries out one line of a script and tells what happened.
    pub(crate) fn command(&mut self, line: &str) -> Vec<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut told = Vec::new();
        self.carry_out(&words, &mut told);
        self.stage().check_agreement();
        if !self.stage().play().tells_logs {
            told.retain(|line| !line.contains(" ⇒ "));
        }
        // The answer to the first read says so as well.
        told.retain(|line| !line.contains(" begins @"));
        told
    }

    fn carry_out(&mut self, words: &[&str], told: &mut Vec<String>) {
        match *words {
            ["cluster", ref settings @ ..] => self.create(settings, told),
            ["initially", ref written @ ..] => self.write_initially(written),
            ["quietly", ref rest @ ..] => self.carry_out(rest, &mut Vec::new()),
            ["restart", who] => {
                let id = self.stage().replica(who);
                self.restart(id, told);
            }
            ["fail", node] => {
                for machine in self.machines_on(node) {
                    let name = self.stage().name(machine.into());
                    self.stage().command(&["crash", &name], told);
                }
            }
            ["revive", node] => {
                for machine in self.machines_on(node) {
                    self.restart(machine, told);
                }
            }
            ["members", group, ref indices @ ..] => self.change_members(group, indices, told),
            ["show", who] => self.show(who, told),
            _ if self.stage().command(words, told) => {}
            [verb, who, ref rest @ ..] => self.client_command(verb, who, rest, told),
            _ => panic!("no such command: {words:?}"),
        }
    }

    fn stage(&mut self) -> &mut Stage<Cluster> {
        self.stage.as_mut().expect("a script begins with `cluster`")
    }

    fn machines_on(&mut self, node: &str) -> Vec<ReplicaId> {
        self.stage().play().machines_on(node.parse().unwrap())
    }

    fn create(&mut self, settings: &[&str], told: &mut Vec<String>) {
        let mut shards: Vec<Vec<u16>> = Vec::new();
        let (mut orders_sessions, mut lag, mut shares_home, mut tells_logs, mut is_cold) =
            (false, None, false, false, false);
        let mut grants = Grants::All;
        for setting in settings {
            match setting.split_once('=') {
                Some(("sessions", "ordered")) => orders_sessions = true,
                Some(("lag", millis)) => lag = Some(Duration::from_millis(millis.parse().unwrap())),
                Some(("home", "shared")) => shares_home = true,
                Some(("logs", "told")) => tells_logs = true,
                Some(("grants", "none")) => is_cold = true,
                Some(("grants", "leader")) => grants = Grants::Leader,
                Some((_, nodes)) => shards.push(nodes.split(',').map(|node| node.parse().unwrap()).collect()),
                None => panic!("no such setting: {setting}"),
            }
        }
        let count = shards.len() as u32;
        let id = |number: usize| ShardId(number as u32 + 1);
        let mut nodes: BTreeMap<ShardId, Vec<u16>> =
            shards.into_iter().enumerate().map(|(place, nodes)| (id(place), nodes)).collect();
        let mut all: Vec<u16> = nodes.values().flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        let homes: Vec<Vec<u16>> =
            if shares_home { vec![all] } else { all.into_iter().map(|one| vec![one]).collect() };
        nodes.extend(homes.into_iter().enumerate().map(|(place, home)| (id(count as usize + place), home)));
        let size = |nodes: &Vec<u16>| GroupSize::new(nodes.len()).unwrap();
        let sizes: Vec<(ShardId, GroupSize)> = nodes.iter().map(|(id, nodes)| (*id, size(nodes))).collect();
        let groups = Groups::new(GroupSize::new(1).unwrap()).with_apart(sizes);
        let (rules, ids) = (self.rules, nodes.keys().copied().collect::<Vec<_>>());
        let cluster = Cluster { rules, shards: count, nodes, orders_sessions, grants, lag, tells_logs };
        let mut stage = Stage::new(cluster, groups);
        for id in ids {
            stage.create_group(id, told);
        }
        self.stage = Some(stage);
        for node in self.stage().play().all_nodes() {
            for machine in self.stage().play().machines_on(node) {
                self.introduce(machine, told);
            }
        }
        self.carry_out(&["deliver"], told);
        if !is_cold {
            self.grant(told);
        }
        told.clear();
    }

    /// Clients at every node read from every shard, so that every replica on their nodes is granted snapshots, and they know their node.
    fn grant(&mut self, told: &mut Vec<String>) {
        let shards = self.stage().play().shards;
        let read: Vec<String> = (0..shards).map(|at| format!("{}0", char::from(b'a' + at as u8))).collect();
        for node in self.stage().play().all_nodes() {
            for which in ["", "1", "2", "3"] {
                let client = format!("c{node}{which}");
                let words: Vec<&str> =
                    ["read", &client, "0"].into_iter().chain(read.iter().map(String::as_str)).collect();
                self.carry_out(&words, told);
                self.carry_out(&["deliver"], told);
            }
        }
        self.begin_clocks(told);
    }

    fn begin_clocks(&mut self, told: &mut Vec<String>) {
        let ids: Vec<ReplicaId> = self.stage().replicas().keys().copied().collect();
        for id in ids {
            let name = self.stage().name(id.into());
            self.stage().command(&["clock", &name, &BEGINNING.to_string()], told);
        }
    }

    /// A client at the first node writes this, and everybody comes to know.
    fn write_initially(&mut self, written: &[&str]) {
        let mut told = Vec::new();
        let stage = self.stage();
        let ids: Vec<ReplicaId> = stage.replicas().keys().copied().collect();
        for id in ids {
            let name = stage.name(id.into());
            stage.command(&["clock", &name, "500"], &mut told);
        }
        self.carry_out(&["begin", "c19", "0"], &mut told);
        for write in written {
            let (word, value) = write.split_once('=').unwrap();
            self.carry_out(&["put", "c19", "0", word, value], &mut told);
        }
        self.carry_out(&["commit", "c19", "0"], &mut told);
        self.carry_out(&["deliver"], &mut told);
        let is_written = told.iter().any(|line| line.starts_with("  c19.0 COMMITTED"));
        assert!(is_written, "nothing was written: {told:#?}");
        self.begin_clocks(&mut told);
    }

    /// Every machine learns that a group has these members.
    fn change_members(&mut self, group: &str, indices: &[&str], told: &mut Vec<String>) {
        let index = |word: &&str| ReplicaIndex(word.strip_prefix('r').unwrap().parse().unwrap());
        let members = Members::on_log(indices.iter().map(index)).unwrap();
        let stage = self.stage();
        let groups = stage.groups().next([(stage.play().shard(group), members)]);
        let ids: Vec<ReplicaId> = stage.replicas().keys().copied().collect();
        for id in ids {
            let command = ReplicaCommand::ChangeGroups(groups.clone());
            stage.step_replica(id, Input::Command(command), told);
        }
    }

    /// A machine learns which others are on its node.
    fn introduce(&mut self, machine: ReplicaId, told: &mut Vec<String>) {
        let stage = self.stage();
        let others = stage.play().machines_on(stage.play().node_of(machine));
        let others = others.into_iter().filter(|other| *other != machine).collect();
        stage.step_replica(machine, Input::Command(ReplicaCommand::Meet(others)), told);
    }

    fn restart(&mut self, machine: ReplicaId, told: &mut Vec<String>) {
        let name = self.stage().name(machine.into());
        self.stage().command(&["restart", &name], told);
        self.introduce(machine, told);
    }

    /// Where everything is, for a client at this node.
    fn routes(&mut self, node: u16) -> Arc<Routes> {
        let stage = self.stage();
        let (groups, cluster) = (stage.groups().clone(), stage.play());
        let shard = |(id, nodes): (&ShardId, &Vec<u16>)| {
            Shard::new(*id, nodes.iter().map(|node| NodeId(*node)).collect())
        };
        let (homes, shards): (Vec<_>, Vec<_>) =
            cluster.nodes.iter().partition(|(id, _)| id.0 > cluster.shards);
        let keyspace = Keyspace {
            homes: homes.into_iter().map(shard).collect(),
            ..Keyspace::new(
                KeyspaceId(1),
                "script",
                Isolation::Snapshot,
                Durability::Sync,
                shards.into_iter().map(shard).collect(),
            )
        };
        let nearest = keyspace.groups().map(|group| groups.members(group.id).iter().collect());
        let mut routes = Routes::new(keyspace.clone(), nearest.collect());
        routes.homes.sort_by_key(|machine| (cluster.node_of(*machine) != node, *machine));
        Arc::new(routes)
    }

    /// The client of this name; the first thing that it does creates it.
    fn client(&mut self, who: &str, told: &mut Vec<String>) -> ClientId {
        let Address::Client(client) = self.stage().address(who) else { panic!("{who} is no client") };
        let routes = self.routes(node_of_client(client));
        let stage = self.stage();
        if !stage.has_client(client) {
            let resend_timeout = Duration::from_secs(10);
            let config = CoordinatorConfig { resend_timeout, ..CoordinatorConfig::new(client) };
            stage.create_client(client, Coordinator::restore(config, []), told);
            stage.step_client(client, Input::Command(Command::Route(routes)), told);
        }
        client
    }

    fn client_command(&mut self, verb: &str, who: &str, rest: &[&str], told: &mut Vec<String>) {
        let client = self.client(who, told);
        let stage = self.stage();
        let shards = stage.play().shards;
        let transaction = stage.transaction(client, rest[0]);
        let (keyspace, patience) = (KeyspaceId(1), Duration::from_secs(20));
        let command = match (verb, &rest[1..]) {
            ("observe", []) => {
                Command::Observe { timestamp: ClockTime::from_micros(rest[0].parse().unwrap()) }
            }
            ("begin", []) => Command::Begin { transaction, keyspace, patience },
            ("begin", ["after", earlier]) => {
                let begin = Command::Begin { transaction, keyspace, patience };
                stage.step_client(client, Input::Command(begin), told);
                Command::After { transaction, earlier: stage.transaction(client, earlier) }
            }
            ("get", words) => {
                let keys = words.iter().map(|word| key(word, shards)).collect();
                Command::GetMany { transaction, keys }
            }
            ("scan", [word]) => {
                // All keys of the shard with this letter.
                let from = key(word, shards);
                let tag = from.as_slice().split(|byte| *byte == b'}').next().unwrap();
                let to = Some(Key::from([tag, b"~"].concat()));
                Command::Scan { transaction, range: KeyRange { from, to }, limit: 10 }
            }
            ("put", [word, value]) => Command::Put {
                transaction,
                key: key(word, shards),
                value: Some(Value::from((*value).to_owned())),
            },
            ("delete", [word]) => Command::Put { transaction, key: key(word, shards), value: None },
            ("commit", []) => Command::Commit { transaction },
            ("commit", ["shown"]) => Command::CommitSpeculatively { transaction },
            ("read", words) => {
                let keys = words.iter().map(|word| key(word, shards)).collect();
                Command::ReadOnly { transaction, keyspace, keys, freshness: Freshness::Strict, patience }
            }
            ("abort", []) => Command::Abort { transaction },
            ("resolve", [home]) => {
                let participants = vec![stage.play().shard(home)];
                Command::Resolve { transaction, participants, timestamp: Timestamp::ZERO, patience }
            }
            _ => panic!("no such command: {verb} {rest:?}"),
        };
        stage.step_client(client, Input::Command(command), told);
    }

    fn show(&mut self, who: &str, told: &mut Vec<String>) {
        let stage = self.stage();
        let id = stage.replica(who);
        let Some(replica) = stage.replicas().get(&id) else { return told.push(format!("{who} is down")) };
        for (key, at, value) in replica.versions() {
            let (key, value) = (describe::text(&key), describe::value(value.as_ref()));
            told.push(format!("  {who} holds {key} = {value} @{}", at.micros));
        }
        for held in replica.held() {
            told.push(format!("  {who} holds keys for {}", describe::transaction(held.id)));
        }
        if replica.waiting() > 0 {
            told.push(format!("  {} wait at {who}", replica.waiting()));
        }
    }
}
