//! Walter on a stage.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_core::command::{Command, ContainerCall, End, Event, Freshness, Milestone, Routes, SetCall};
use quorate_core::counter::{VALUE, set_of};
use quorate_core::hosted::{Consultation, Shards};
use quorate_core::log::LogMachine;
use quorate_core::topology::{Durability, Isolation, Join, Keyspace, Shard, SiteChanges, shard_position};
use quorate_core::{
    Address, ClientId, GroupSize, Groups, Input, Key, KeyRange, KeyspaceId, Machine, NodeId, ReplicaId,
    ReplicaIndex, ShardId, Timestamp,
};
use quorate_testscripts::stage::{Play, Stage};
use quorate_walter::{
    Coordinator, CoordinatorConfig, Entry, LocalSite, Message, Moves, Replica, ReplicaCommand, ReplicaConfig,
    ReplicaEvent, Rules, VersionNumber,
};

use super::describe;

/// Everything in a script's world.
pub(crate) struct World {
    rules: Rules,
    /// None before the script says which cluster there is.
    stage: Option<Stage<Cluster>>,
    /// How the sites have changed, as the configuration service knows it.
    changes: SiteChanges,
}

/// The machines of a script.
struct Cluster {
    rules: Rules,
    sites: u32,
    batches_max: usize,
    /// A durable transaction survives the loss of so many sites.
    sites_lost_max: usize,
    /// How long a site goes on after it has asked whether it was taken out.
    lease: Option<Duration>,
    /// For how long snapshots can be read; none for as long as usual.
    lag: Option<Duration>,
    /// How often a site has to write a container in a second, so that it moves there; none if none moves.
    moves: Option<u64>,
    /// The sites that have joined.
    joined: RefCell<Vec<ShardId>>,
    /// The last question of a site.
    question: RefCell<Option<Consultation>>,
}

impl Play for Cluster {
    type Replica = Replica;
    type Client = Coordinator;

    fn replica(&self, id: ReplicaId, groups: &Groups) -> Replica {
        let shards = Shards { first: ShardId(1), count: self.sites };
        let usual = ReplicaConfig::new(id, groups.size, shards);
        Replica::new(ReplicaConfig {
            rules: self.rules,
            groups: groups.clone(),
            batches_max: self.batches_max,
            sites_lost_max: self.sites_lost_max,
            lease: self.lease,
            joined: self.joined.borrow().clone(),
            lease_wait: self.lease.unwrap_or_default() + Duration::from_millis(100),
            floor_lag: self.lag.unwrap_or(usual.floor_lag),
            moves: self.moves.map(|writes_min| Moves { window: Duration::from_secs(1), writes_min }),
            ..usual
        })
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
        match event {
            ReplicaEvent::Leading { view } => format!("leads {view}"),
            ReplicaEvent::Deposed => "is deposed".to_owned(),
            ReplicaEvent::Consults(question) => {
                *self.question.borrow_mut() = Some(question.clone());
                match &question.settlement {
                    Some(settlement) => format!("proposes {}", describe::settlement(settlement)),
                    None => "asks".to_owned(),
                }
            }
        }
    }

    fn client_event(&self, event: &Event) -> String {
        describe::event(event)
    }
}

/// The keys of a script are single words; the first letter decides the preferred site: `a…` the first, `b…` the second.
fn key(word: &str, sites: usize) -> Key {
    let wanted = usize::from(word.as_bytes()[0] - b'a') % sites;
    // Short keys do not fall to the wanted site by themselves, so they are given a suffix that does it.
    (0..)
        .map(|salt: u32| if salt == 0 { word.to_owned() } else { format!("{word}{salt}") })
        .find(|candidate| shard_position(candidate.as_bytes(), sites) == wanted)
        .map(Key::from)
        .unwrap()
}

/// The version `s0.3`.
fn version_named(word: &str) -> VersionNumber {
    let (site, seqno) = word[1..].split_once('.').unwrap();
    VersionNumber { site: LocalSite(site.parse().unwrap()), seqno: seqno.parse().unwrap() }
}

impl World {
    /// A world whose machines follow these rules.
    pub(crate) fn new(rules: Rules) -> Self {
        World { rules, stage: None, changes: SiteChanges::default() }
    }

    /// Carries out one line of a script and tells what happened.
    pub(crate) fn command(&mut self, line: &str) -> Vec<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut told = Vec::new();
        if let ["cluster", settings @ ..] = &words[..] {
            self.create(settings, &mut told);
        } else if !self.stage().command(&words, &mut told) {
            match words[..] {
                ["show", who] => self.show(who, &mut told),
                ["remove", site] => self.remove(site, &mut told),
                ["join", site, ref replaces @ ..] => self.join(site, replaces.first().copied(), &mut told),
                ["settle"] => self.settle(&mut told),
                ["answer", who] => self.answer(who, &mut told),
                [verb, who, ref rest @ ..] => self.client_command(verb, who, rest, &mut told),
                _ => panic!("no such command: {line}"),
            }
        }
        self.stage().check_agreement();
        told
    }

    /// The work that leaders still have, which should have ended once everything is well and enough time has passed.
    pub(crate) fn left(&mut self) -> Vec<String> {
        let leaders = self.stage().replicas().iter().filter(|(id, _)| id.index == ReplicaIndex(0));
        let left = |(id, replica): (&ReplicaId, &Replica)| {
            let what = [
                ("holds locks", replica.locks()),
                ("holds transactions", replica.load(None)),
                ("lets requests wait", replica.waiting()),
                ("has sites behind it", replica.behind()),
                ("settles transactions", replica.settling()),
            ];
            let left = what.into_iter().filter(|(_, count)| *count > 0);
            left.map(|(what, count)| format!("{id} {what}: {count}")).collect::<Vec<_>>()
        };
        leaders.flat_map(left).collect()
    }

    fn stage(&mut self) -> &mut Stage<Cluster> {
        self.stage.as_mut().expect("a script begins with `cluster`")
    }

    fn create(&mut self, settings: &[&str], told: &mut Vec<String>) {
        let (mut sites, mut replicas, mut batches_max, mut lost) = (2, 1, 64, 1);
        let (mut lease, mut lag, mut moves) = (None, None, None);
        for setting in settings {
            match setting.split_once('=') {
                Some(("sites", count)) => sites = count.parse().unwrap(),
                Some(("replicas", count)) => replicas = count.parse().unwrap(),
                Some(("batches", count)) => batches_max = count.parse().unwrap(),
                Some(("survives", count)) => lost = count.parse().unwrap(),
                Some(("lag", millis)) => lag = Some(Duration::from_millis(millis.parse().unwrap())),
                Some(("moves", writes)) => moves = Some(writes.parse().unwrap()),
                Some(("lease", millis)) => lease = Some(Duration::from_millis(millis.parse().unwrap())),
                _ => panic!("no such setting: {setting}"),
            }
        }
        let question = RefCell::default();
        let (rules, joined) = (self.rules, RefCell::default());
        let cluster =
            Cluster { rules, sites, batches_max, sites_lost_max: lost, lease, lag, moves, joined, question };
        let mut stage = Stage::new(cluster, Groups::new(GroupSize::new(replicas).unwrap()));
        for site in 1..=sites {
            stage.create_group(ShardId(site), told);
        }
        self.stage = Some(stage);
        told.clear();
        told.push(format!("{sites} local site(s) of {replicas} replica(s)"));
    }

    /// An operator takes a site out.
    fn remove(&mut self, site: &str, told: &mut Vec<String>) {
        let shards = self.shards();
        let removed = self.changes.remove(ShardId(site.parse().unwrap()), &shards);
        told.push(removed.map_or_else(|error| error.to_string(), |()| format!("site {site} is removed")));
    }

    /// An operator lets a site join.
    fn join(&mut self, site: &str, replaces: Option<&str>, told: &mut Vec<String>) {
        let shard = ShardId(site.parse().unwrap());
        if let Err(error) = self.changes.join(shard, replaces.map(|shard| ShardId(shard.parse().unwrap()))) {
            return told.push(error.to_string());
        }
        told.push(format!("site {site} joins"));
        let joined = self.changes.joins().iter().map(|join| join.shard).collect();
        *self.stage().play().joined.borrow_mut() = joined;
        self.stage().create_group(shard, told);
    }

    /// The shards of the keyspace: those that it was created with, and those that have joined.
    fn shards(&mut self) -> Vec<ShardId> {
        let cluster = self.stage().play();
        (1..=cluster.sites).map(ShardId).chain(cluster.joined.borrow().iter().copied()).collect()
    }

    /// The configuration service hears what was proposed last.
    fn settle(&mut self, told: &mut Vec<String>) {
        let question = self.stage().play().question.borrow().clone();
        let settlement = question.and_then(|question| question.settlement);
        let is_settled = settlement.is_some_and(|settlement| self.changes.settle(&settlement));
        told.push(if is_settled { "it is settled" } else { "nothing is settled" }.to_owned());
    }

    /// The configuration service answers a site, as if it had asked when somebody did last.
    fn answer(&mut self, who: &str, told: &mut Vec<String>) {
        let changes = self.changes.clone();
        let stage = self.stage();
        let asked = stage.play().question.borrow().as_ref().expect("somebody has asked").asked;
        let id = stage.replica(who);
        stage.step_replica(id, Input::Command(ReplicaCommand::Answer { asked, changes }), told);
    }

    /// Where everything is, for a client to which this site is the nearest.
    fn routes(&mut self, home: usize) -> Arc<Routes> {
        let shards = self.shards();
        let groups = self.stage().groups().clone();
        let nodes: Vec<NodeId> = (0..groups.size.replicas() as u16).map(NodeId).collect();
        let nearest = |shard: &ShardId| groups.members(*shard).iter().collect::<Vec<ReplicaIndex>>();
        let keyspace = Keyspace {
            epoch: groups.epoch,
            removals: self.changes.removals().to_vec(),
            joins: self.changes.joins().iter().map(|join| Join { is_ready: true, ..join.clone() }).collect(),
            ..Keyspace::new(
                KeyspaceId(1),
                "script",
                Isolation::ParallelSnapshot,
                Durability::Sync,
                shards.iter().map(|id| Shard::new(*id, nodes.clone())).collect(),
            )
        };
        let mut routes = Routes::new(keyspace, shards.iter().map(nearest).collect());
        routes.order.rotate_left(home % shards.len());
        Arc::new(routes)
    }

    /// The client of this name; the first thing that it does creates it. The first client is at the first site, and so on.
    fn client(&mut self, who: &str, told: &mut Vec<String>) -> ClientId {
        let rules = self.rules;
        let Address::Client(client) = self.stage().address(who) else { panic!("{who} is no client") };
        let routes = self.routes(client.0 as usize - 1);
        let stage = self.stage();
        if !stage.has_client(client) {
            let config = CoordinatorConfig { rules, ..CoordinatorConfig::new(client) };
            stage.create_client(client, Coordinator::restore(config, []), told);
            stage.step_client(client, Input::Command(Command::Route(routes)), told);
        }
        client
    }

    fn client_command(&mut self, verb: &str, who: &str, rest: &[&str], told: &mut Vec<String>) {
        let client = self.client(who, told);
        let stage = self.stage();
        let sites = stage.play().sites as usize;
        if let ("moves", [to]) = (verb, rest) {
            let home = to.parse::<usize>().unwrap() - 1;
            let routes = self.routes(home);
            return self.stage().step_client(client, Input::Command(Command::Route(routes)), told);
        }
        let transaction = stage.transaction(client, rest[0]);
        let (keyspace, patience) = (KeyspaceId(1), Duration::from_secs(20));
        let container =
            |transaction, name, call| Command::Container { transaction, keyspace, name, call, patience };
        let command = match (verb, &rest[1..]) {
            ("begin", []) => Command::Begin { transaction, keyspace, patience },
            ("begin", [millis]) => {
                let patience = Duration::from_millis(millis.parse().unwrap());
                Command::Begin { transaction, keyspace, patience }
            }
            ("get", words @ [_, _, ..]) => {
                let keys = words.iter().map(|word| key(word, sites)).collect();
                Command::GetMany { transaction, keys }
            }
            ("mark", [word]) => Command::GetMarked { transaction, key: key(word, sites) },
            ("get", [word]) => Command::Get { transaction, key: key(word, sites) },
            ("put", [word, value]) => Command::Put {
                transaction,
                key: key(word, sites),
                value: Some(Bytes::from((*value).to_owned())),
            },
            ("delete", [word]) => Command::Put { transaction, key: key(word, sites), value: None },
            ("scan", [from, to, limit @ ..]) => {
                let range = KeyRange { from: Key::from(*from), to: Some(Key::from(*to)) };
                let limit = limit.first().map_or(10, |limit| limit.parse().unwrap());
                Command::Scan { transaction, range, limit }
            }
            ("add" | "remove", [set, element]) => {
                let (set, element) = (key(set, sites), Key::from(*element));
                let by = if verb == "add" { 1 } else { -1 };
                Command::Set { transaction, call: SetCall::Add { set, element, by } }
            }
            ("gain" | "take", [counter, by]) => {
                let (set, by) = (set_of(&key(counter, sites)), by.parse::<i32>().unwrap());
                let (element, by) = (Key::copy_from_slice(VALUE), if verb == "gain" { by } else { -by });
                Command::Set { transaction, call: SetCall::Add { set, element, by } }
            }
            ("value", [counter]) => {
                let (set, element) = (set_of(&key(counter, sites)), Key::copy_from_slice(VALUE));
                Command::Set { transaction, call: SetCall::Count { set, element } }
            }
            ("count", [set, element]) => {
                let (set, element) = (key(set, sites), Key::from(*element));
                Command::Set { transaction, call: SetCall::Count { set, element } }
            }
            ("elements" | "backwards", [set, limit @ ..]) => {
                let (set, range) = (key(set, sites), KeyRange { from: Key::default(), to: None });
                let limit = limit.first().map_or(10, |limit| limit.parse().unwrap());
                let from = if verb == "elements" { End::Least } else { End::Greatest };
                Command::Set { transaction, call: SetCall::Elements { set, range, from, limit } }
            }
            ("name" | "unname", [set, word]) => {
                let (set, element) = (key(set, sites), key(word, sites));
                let by = if verb == "name" { 1 } else { -1 };
                Command::Set { transaction, call: SetCall::Add { set, element, by } }
            }
            ("members" | "newest", [set, limit @ ..]) => {
                let (set, range) = (key(set, sites), KeyRange { from: Key::default(), to: None });
                let limit = limit.first().map_or(10, |limit| limit.parse().unwrap());
                let from = if verb == "members" { End::Least } else { End::Greatest };
                Command::Set { transaction, call: SetCall::Members { set, range, from, limit } }
            }
            ("locate", [word]) => container(transaction, key(word, sites), ContainerCall::Locate),
            ("place", [word, site, copies @ ..]) => {
                let preferred = ShardId(site.parse().unwrap());
                let shard = |site: &&str| ShardId(site.parse().unwrap());
                let replicas = copies.split_first().map(|(_, sites)| sites.iter().map(shard).collect());
                container(transaction, key(word, sites), ContainerCall::Place { preferred, replicas })
            }
            ("destroy", [word]) => container(transaction, key(word, sites), ContainerCall::Destroy),
            ("commit", []) => Command::Commit { transaction },
            ("read", words) => {
                let keys = words.iter().map(|word| key(word, sites)).collect();
                Command::ReadOnly { transaction, keyspace, keys, freshness: Freshness::Strict, patience }
            }
            ("catch", numbers) => {
                let seen = numbers.iter().map(|number| number.parse().unwrap()).collect();
                Command::CatchUp { transaction, keyspace, seen, patience }
            }
            ("after", [earlier]) => {
                Command::After { transaction, earlier: stage.transaction(client, earlier) }
            }
            ("abort", []) => Command::Abort { transaction },
            ("await", [version, milestone, wait @ ..]) => {
                let version = version_named(version);
                let milestone = Milestone::ALL.into_iter().find(|known| known.name() == *milestone).unwrap();
                let patience = wait
                    .first()
                    .map_or(patience, |millis: &&str| Duration::from_millis(millis.parse().unwrap()));
                let participants = vec![ShardId(u32::from(version.site.0) + 1)];
                Command::Await {
                    transaction,
                    participants,
                    timestamp: version.timestamp(),
                    milestone,
                    patience,
                }
            }
            ("resolve", [site]) => {
                let participants = vec![ShardId(site.parse().unwrap())];
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
        let histories = replica.histories();
        told.push(format!(
            "{who} has committed {}, received {}, floor {}",
            replica.committed(),
            histories.received(),
            histories.floor()
        ));
        for (id, _) in replica.locked_for() {
            told.push(format!("  locked for {}", describe::transaction(id)));
        }
        for (id, ending) in replica.endings() {
            told.push(format!("  {} {}", describe::transaction(id), describe::ending(&ending)));
        }
        for (key, written) in histories.versions() {
            let none = if written.is_elsewhere { "elsewhere" } else { "nothing" };
            let value = written.value.as_ref().map_or(none.into(), |value| String::from_utf8_lossy(value));
            told.push(format!("  {} = {value} @{}", String::from_utf8_lossy(key), written.version));
        }
    }
}
