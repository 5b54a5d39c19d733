//! The smallest world in which machines can meet: one queue of messages, delivered in order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_baselines::{
    Coordinator, CoordinatorConfig, CoordinatorTimer, Entry, Message, Page, Replica, ReplicaCommand,
    ReplicaConfig, ReplicaEvent, ReplicaTimer, Rules, System,
};
use quorate_core::command::{Command, Freshness, Routes};
use quorate_core::log::{LogMachine, LogOutbox, Position};
use quorate_core::topology::{Durability, Isolation, Keyspace, Shard, shard_position};
use quorate_core::{
    Address, ClientId, ClockTime, Context, Effect, Epoch, GroupSize, Groups, Input, Instant, Key, KeyRange,
    KeyspaceId, Machine, Members, NodeId, Outbox, Random, ReplicaId, ReplicaIndex, ShardId, Timestamp,
    TransactionId, View,
};

use super::describe;
use super::log::{LogMessage, ReplicaLog};

/// The group that is the timestamp server.
const TIMESTAMPS: ShardId = ShardId(9);

/// The group that coordinates.
const COORDINATOR: ShardId = ShardId(10);

/// Everything in a script's world.
pub(crate) struct World {
    now: Instant,
    random: Random,
    rules: Rules,
    system: System,
    routes: Option<Arc<Routes>>,
    /// Who the replicas are, by the latest definition; whoever is created learns that.
    groups: Groups,
    clocks: BTreeMap<Address, u64>,
    replicas: BTreeMap<ReplicaId, Replica>,
    logs: BTreeMap<ReplicaId, ReplicaLog>,
    clients: BTreeMap<ClientId, Coordinator>,
    replica_timers: BTreeMap<ReplicaId, Instant>,
    client_timers: BTreeMap<ClientId, Instant>,
    queue: VecDeque<Envelope>,
    /// Receivers whose messages are kept back; with a sender, only those from it.
    held: BTreeSet<(Option<Address>, Address)>,
    /// Links, from and to, on which everything is lost.
    cut: BTreeSet<(Address, Address)>,
    history: Vec<Envelope>,
}

#[derive(Clone)]
struct Envelope {
    from: Address,
    to: Address,
    said: Said,
    /// True if it comes once more.
    is_repeated: bool,
}

#[derive(Clone)]
enum Said {
    Protocol(Message),
    Log(LogMessage),
}

/// `c1`, `1/r0`, or `t/r0` for the timestamp server and `d/r0` for the dedicated coordinator.
fn address(word: &str) -> Address {
    if let Some(client) = word.strip_prefix('c') {
        return Address::Client(ClientId(client.parse().unwrap()));
    }
    let (shard, index) = word.split_once("/r").unwrap_or_else(|| panic!("no such participant: {word}"));
    let shard = match shard {
        "t" => TIMESTAMPS,
        "d" => COORDINATOR,
        number => ShardId(number.parse().unwrap()),
    };
    Address::Replica(ReplicaId { shard, index: ReplicaIndex(index.parse().unwrap()) })
}

fn replica(word: &str) -> ReplicaId {
    let Address::Replica(id) = address(word) else { panic!("{word} is no replica") };
    id
}

fn name(address: Address) -> String {
    match address {
        Address::Client(client) => describe::client(client),
        Address::Replica(ReplicaId { shard, index }) => match shard {
            TIMESTAMPS => format!("t/r{}", index.0),
            COORDINATOR => format!("d/r{}", index.0),
            ShardId(number) => format!("{number}/r{}", index.0),
        },
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

impl World {
    /// A world whose machines follow these rules.
    pub(crate) fn new(rules: Rules) -> Self {
        World {
            now: Instant::START,
            random: Random::new(1),
            rules,
            system: System::TxnOcc,
            routes: None,
            groups: Groups::new(GroupSize::new(3).unwrap()),
            clocks: BTreeMap::new(),
            replicas: BTreeMap::new(),
            logs: BTreeMap::new(),
            clients: BTreeMap::new(),
            replica_timers: BTreeMap::new(),
            client_timers: BTreeMap::new(),
            queue: VecDeque::new(),
            held: BTreeSet::new(),
            cut: BTreeSet::new(),
            history: Vec::new(),
        }
    }

    /// Carries out one line of a script and tells what happened.
    pub(crate) fn command(&mut self, line: &str) -> Vec<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut told = Vec::new();
        match words[..] {
            ["cluster", ref settings @ ..] => self.create(settings, &mut told),
            ["clock", who, micros] => {
                self.clocks.insert(address(who), micros.parse().unwrap());
            }
            ["deliver"] => self.deliver(&mut told),
            ["deliver", count] => self.deliver_some(count.parse().unwrap(), &mut told),
            ["hold", who] => {
                self.held.insert((None, address(who)));
            }
            ["hold", from, to] => {
                self.held.insert((Some(address(from)), address(to)));
            }
            ["release", who] => {
                self.held.remove(&(None, address(who)));
            }
            ["release", from, to] => {
                self.held.remove(&(Some(address(from)), address(to)));
            }
            ["cut", from, to] => {
                self.cut.insert((address(from), address(to)));
            }
            ["mend", from, to] => {
                self.cut.remove(&(address(from), address(to)));
            }
            ["drop", who] => self.drop_messages(address(who), &mut told),
            ["repeat", who] => {
                let again = |envelope: &&Envelope| {
                    envelope.to == address(who) && matches!(envelope.said, Said::Protocol(_))
                };
                let again: Vec<Envelope> = self.history.iter().filter(again).cloned().collect();
                let again = again.into_iter().map(|envelope| Envelope { is_repeated: true, ..envelope });
                self.queue.extend(again);
                self.deliver(&mut told);
            }
            ["advance", milliseconds] => self.advance(milliseconds.parse().unwrap(), &mut told),
            ["crash", who] => self.crash(address(who)),
            ["restart", who] => self.restart(replica(who), &mut told),
            ["lead", who] => self.lead(replica(who), true, &mut told),
            ["usurp", who] => self.lead(replica(who), false, &mut told),
            ["group", shard, ref members @ ..] => self.change_group(shard, members, &mut told),
            ["learn", who] => self.learn(address(who), &mut told),
            ["lease", who, "none"] => {
                self.logs.get_mut(&replica(who)).expect("every replica has a log").lease = None;
            }
            ["confirm", who] => self.confirm(replica(who), &mut told),
            ["unreachable", who, replica] => self.set_reachable(who, replica, false, &mut told),
            ["reachable", who, replica] => self.set_reachable(who, replica, true, &mut told),
            ["locks", who] => {
                let locks = self.replicas[&replica(who)].remains().locks;
                told.push(format!("{locks} transactions have locks at {who}"));
            }
            ["waiting", who] => {
                let waiting = self.replicas[&replica(who)].waiting();
                told.push(format!("{waiting} transactions wait at {who}"));
            }
            ["show", who] => self.show(replica(who), &mut told),
            [verb, who, ref rest @ ..] => self.client_command(verb, who, rest, &mut told),
            _ => panic!("no such command: {line}"),
        }
        self.check_agreement();
        told
    }

    /// What replicas hold or wait for although everything should have ended, in words.
    pub(crate) fn left(&self) -> Vec<String> {
        let held = |(id, replica): (&ReplicaId, &Replica)| {
            let (prepared, waiting) = (replica.prepared().len(), replica.waiting());
            (prepared + waiting > 0).then(|| format!("{id} holds {prepared} and lets {waiting} wait"))
        };
        self.replicas.iter().filter_map(held).collect()
    }

    /// Replicas that have applied as many entries have the same state, and restoring it changes nothing.
    fn check_agreement(&self) {
        let mut states: BTreeMap<(ShardId, usize), (ReplicaId, Vec<Page>)> = BTreeMap::new();
        for (id, replica) in &self.replicas {
            let pages = pages(replica);
            let mut copy = Replica::new(self.replica_config(*id));
            copy.replace_state(Position::START, pages.clone());
            assert_eq!(pages, self::pages(&copy), "the pages of {id} hold all of its state");
            let (other, theirs) =
                states.entry((id.shard, self.logs[id].applied)).or_insert_with(|| (*id, pages.clone()));
            assert_eq!(*theirs, pages, "{other} and {id} have applied the same");
        }
    }

    fn replica_config(&self, id: ReplicaId) -> ReplicaConfig {
        let shards = self.routes.as_ref().map_or(1, |routes| routes.keyspace.shards.len() as u32);
        ReplicaConfig {
            rules: self.rules,
            groups: self.groups.clone(),
            ..ReplicaConfig::new(id, self.groups.size, (ShardId(1), shards), self.system)
        }
    }

    fn create(&mut self, settings: &[&str], told: &mut Vec<String>) {
        let (mut shards, mut replicas, mut clock_bound) = (1, 3, None);
        for setting in settings {
            match setting.split_once('=') {
                Some(("shards", count)) => shards = count.parse().unwrap(),
                Some(("replicas", count)) => replicas = count.parse().unwrap(),
                Some(("bound", micros)) => {
                    clock_bound = Some(Duration::from_micros(micros.parse().unwrap()));
                }
                None => self.system = setting.parse().unwrap(),
                _ => panic!("no such setting: {setting}"),
            }
        }
        self.groups = Groups::new(GroupSize::new(replicas).unwrap());
        let nodes: Vec<NodeId> = (0..replicas as u16).map(NodeId).collect();
        let keyspace = Keyspace {
            id: KeyspaceId(1),
            name: "script".to_owned(),
            isolation: Isolation::Strict,
            durability: Durability::Sync,
            shards: (1..=shards).map(|id| Shard::new(ShardId(id), nodes.clone())).collect(),
            epoch: Epoch::FIRST,
            clock_bound,
            comparison: None,
        };
        // The nearest replica is not the leader.
        let nearest: Vec<_> = (0..replicas as u8).rev().map(ReplicaIndex).collect();
        let nearest = vec![nearest; shards as usize];
        self.routes = Some(Arc::new(Routes { keyspace, nearest }));
        for shard in (1..=shards).map(ShardId).chain(self.service()) {
            for index in (0..replicas as u8).map(ReplicaIndex) {
                let id = ReplicaId { shard, index };
                self.logs.insert(id, ReplicaLog::new(index.0 == 0));
                self.replicas.insert(id, Replica::new(self.replica_config(id)));
                self.step_replica(id, Input::Start, told);
                if index.0 == 0 {
                    self.tell(id, told, |replica, context, log, outbox| {
                        replica.on_leading(context, View(0), log, outbox);
                    });
                }
            }
        }
        told.clear();
        told.push(format!("{}: {shards} shard(s) of {replicas} replicas", self.system));
    }

    /// The group of a shard goes on with these replicas, the first of which leads. They know, and so do those before them; whoever
    /// speaks with them does not.
    fn change_group(&mut self, shard: &str, members: &[&str], told: &mut Vec<String>) {
        let index = |word: &&str| ReplicaIndex(word.strip_prefix('r').expect("a replica").parse().unwrap());
        let members: Vec<ReplicaIndex> = members.iter().map(index).collect();
        let ReplicaId { shard, .. } = replica(&format!("{shard}/r0"));
        let entries = self.longest_log(shard, true).expect("a majority is up");
        self.groups = self.groups.next([(shard, Members::new(members.iter().copied()).unwrap())]);
        let view = View::first_of(self.groups.epoch);
        for id in members.iter().map(|index| ReplicaId { shard, index: *index }) {
            if self.logs.contains_key(&id) {
                continue;
            }
            self.logs.insert(id, ReplicaLog::new(false));
            self.replicas.insert(id, Replica::new(self.replica_config(id)));
            self.step_replica(id, Input::Start, told);
        }
        let mut routes = Routes::clone(self.routes.as_ref().expect("a script begins with `cluster`"));
        routes.keyspace.epoch = self.groups.epoch;
        if let Some(position) = routes.keyspace.shards.iter().position(|known| known.id == shard) {
            routes.nearest[position] = members.iter().rev().copied().collect();
        }
        self.routes = Some(Arc::new(routes));
        self.begin_view(ReplicaId { shard, index: members[0] }, view, &entries, true, told);
    }

    /// Somebody learns of the latest definition.
    fn learn(&mut self, who: Address, told: &mut Vec<String>) {
        match who {
            Address::Client(id) => {
                let routes = self.routes.clone().expect("a script begins with `cluster`");
                self.step_client(id, Input::Command(Command::Route(routes)), told);
            }
            Address::Replica(id) => {
                let groups = self.groups.clone();
                self.step_replica(id, Input::Command(ReplicaCommand::ChangeGroups(groups)), told);
            }
        }
    }

    /// The group that serves the system, if one does.
    fn service(&self) -> Option<ShardId> {
        match (self.system.has_timestamp_server(), self.system.has_coordinator()) {
            (true, _) => Some(TIMESTAMPS),
            (false, coordinated) => coordinated.then_some(COORDINATOR),
        }
    }

    fn clock(&self, who: Address) -> ClockTime {
        let elapsed = self.now.as_nanos() / 1_000;
        ClockTime::from_micros(self.clocks.get(&who).copied().unwrap_or(100) + elapsed)
    }

    fn step_replica(
        &mut self,
        id: ReplicaId,
        input: Input<Message, ReplicaTimer, ReplicaCommand>,
        told: &mut Vec<String>,
    ) {
        self.tell(id, told, |replica, context, log, outbox| replica.step(context, input, log, outbox));
    }

    /// Lets a replica do something, and then whatever follows from it at once.
    fn tell(
        &mut self,
        id: ReplicaId,
        told: &mut Vec<String>,
        act: impl FnOnce(&mut Replica, &mut Context<'_>, &mut ReplicaLog, &mut LogOutbox<Replica>),
    ) {
        let clock = self.clock(id.into());
        let (Some(replica), Some(log)) = (self.replicas.get_mut(&id), self.logs.get_mut(&id)) else { return };
        let mut context = Context { now: self.now, clock, random: &mut self.random };
        let mut outbox = Outbox::new();
        act(replica, &mut context, log, &mut outbox);
        loop {
            if log.leads {
                log.advance(self.groups.members(id.shard).majority());
            }
            if log.applied == log.stable {
                break;
            }
            let entry = log.entries[log.applied].clone();
            log.applied += 1;
            let position = Position(log.applied as u64);
            replica.apply(&mut context, position, &entry, log, &mut outbox);
        }
        let from = Address::Replica(id);
        for effect in outbox.drain() {
            match effect {
                Effect::Send { to, message } | Effect::SendUnordered { to, message } => {
                    self.queue.push_back(Envelope {
                        from,
                        to,
                        said: Said::Protocol(message),
                        is_repeated: false,
                    });
                }
                Effect::SetTimer { timer: ReplicaTimer::Attention, after } => {
                    self.replica_timers.insert(id, self.now + after);
                }
                Effect::CancelTimer(ReplicaTimer::Attention) => {
                    self.replica_timers.remove(&id);
                }
                Effect::Emit(ReplicaEvent::Leading { view }) => {
                    told.push(format!("{} leads {view}", name(from)));
                }
                Effect::Emit(ReplicaEvent::Deposed) => told.push(format!("{} is deposed", name(from))),
                Effect::Persist { record, .. } => match record {},
                Effect::Anchor | Effect::Truncate => unreachable!("machines on a log keep no records"),
            }
        }
        self.send_log(id);
    }

    /// Sends what the log of a leader has to say to its backups.
    fn send_log(&mut self, id: ReplicaId) {
        let Some(log) = self.logs.get_mut(&id).filter(|log| log.leads) else { return };
        let (view, stable) = (log.view, log.stable);
        let mut messages: Vec<LogMessage> = std::mem::take(&mut log.unsent)
            .into_iter()
            .map(|position| {
                let entry = log.entries[position - 1].clone();
                LogMessage::Append { view, position, entry }
            })
            .collect();
        if log.told_stable < stable {
            log.told_stable = stable;
            messages.push(LogMessage::Stable { view, position: stable });
        }
        for message in messages {
            for index in self.groups.members(id.shard).iter().filter(|index| *index != id.index) {
                let to = ReplicaId { shard: id.shard, index }.into();
                self.queue.push_back(Envelope {
                    from: id.into(),
                    to,
                    said: Said::Log(message.clone()),
                    is_repeated: false,
                });
            }
        }
    }

    fn on_log_message(
        &mut self,
        from: ReplicaId,
        id: ReplicaId,
        message: LogMessage,
        told: &mut Vec<String>,
    ) {
        let Some(log) = self.logs.get_mut(&id) else { return };
        match message {
            LogMessage::Append { view, position, entry } => {
                if view != log.view || position > log.entries.len() + 1 {
                    return;
                }
                if position == log.entries.len() + 1 {
                    log.entries.push(entry);
                }
                let said = Said::Log(LogMessage::Holds { view, position: log.entries.len() });
                self.queue.push_back(Envelope { from: id.into(), to: from.into(), said, is_repeated: false });
            }
            LogMessage::Holds { view, position } => {
                if view == log.view && log.leads {
                    let held = log.held.entry(from.index).or_default();
                    *held = position.max(*held);
                    self.tell(id, told, |_, _, _, _| {});
                }
            }
            LogMessage::Stable { view, position } => {
                if view == log.view {
                    log.stable = log.stable.max(position.min(log.entries.len()));
                    self.tell(id, told, |_, _, _, _| {});
                }
            }
        }
    }

    /// A replica leads the next view, with the longest log of those that are up. Whoever led before knows, or not.
    fn lead(&mut self, id: ReplicaId, is_known: bool, told: &mut Vec<String>) {
        let view = self.latest_view(id.shard).next();
        match self.longest_log(id.shard, is_known) {
            Some(entries) => self.begin_view(id, view, &entries, is_known, told),
            None => told.push(format!("{} has no majority", name(id.into()))),
        }
    }

    /// The longest log of those members that are up; none if they are no majority.
    fn longest_log(&self, shard: ShardId, counts_leader: bool) -> Option<Vec<Entry>> {
        // Who was not told of the latest view has no part in what is stable.
        let (members, latest) = (self.groups.members(shard), self.latest_view(shard));
        let members = || members.iter().map(|index| ReplicaId { shard, index });
        let takes_part = |other: &ReplicaId| {
            let log = &self.logs[other];
            self.replicas.contains_key(other) && log.view == latest && (counts_leader || !log.leads)
        };
        let able: Vec<ReplicaId> = members().filter(takes_part).collect();
        let longest = able.iter().max_by_key(|other| self.logs[*other].entries.len())?;
        (able.len() >= self.groups.members(shard).majority()).then(|| self.logs[longest].entries.clone())
    }

    /// A replica begins to lead a view with these entries. Whoever led before knows, or not.
    fn begin_view(
        &mut self,
        id: ReplicaId,
        view: View,
        entries: &[Entry],
        is_known: bool,
        told: &mut Vec<String>,
    ) {
        let group: Vec<ReplicaId> =
            self.logs.keys().copied().filter(|other| other.shard == id.shard).collect();
        for other in group {
            let log = self.logs.get_mut(&other).expect("every replica has a log");
            if log.leads && other != id {
                log.lease = None;
                if !is_known {
                    continue;
                }
                log.leads = false;
                self.tell(other, told, |replica, context, _, outbox| replica.on_deposed(context, outbox));
            }
            let log = self.logs.get_mut(&other).expect("every replica has a log");
            log.entries = entries.to_vec();
            log.unsent.clear();
            log.held.clear();
            (log.view, log.leader, log.stable) = (view, id.index, entries.len());
            self.tell(other, told, |_, _, _, _| {});
        }
        let log = self.logs.get_mut(&id).expect("every replica has a log");
        if log.leads {
            self.tell(id, told, |replica, context, _, outbox| replica.on_deposed(context, outbox));
        }
        let log = self.logs.get_mut(&id).expect("every replica has a log");
        (log.leads, log.told_stable) = (true, log.stable);
        log.lease = ReplicaLog::new(true).lease;
        self.tell(id, told, |replica, context, log, outbox| replica.on_leading(context, view, log, outbox));
    }

    fn latest_view(&self, shard: ShardId) -> View {
        let views = self.logs.iter().filter(|(id, _)| id.shard == shard).map(|(_, log)| log.view);
        views.max().expect("a group has replicas")
    }

    /// The others have told a leader that it leads, as often as it has asked; if it does.
    fn confirm(&mut self, id: ReplicaId, told: &mut Vec<String>) {
        let latest = self.latest_view(id.shard);
        let log = self.logs.get_mut(&id).expect("every replica has a log");
        if log.view != latest {
            return;
        }
        log.confirmed = log.asked;
        self.tell(id, told, |replica, context, log, outbox| replica.on_progress(context, log, outbox));
    }

    fn step_client(
        &mut self,
        id: ClientId,
        input: Input<Message, CoordinatorTimer, Command>,
        told: &mut Vec<String>,
    ) {
        let clock = self.clock(id.into());
        let Some(client) = self.clients.get_mut(&id) else { return };
        let mut outbox = Outbox::new();
        client.step(&mut Context { now: self.now, clock, random: &mut self.random }, input, &mut outbox);
        for effect in outbox.drain() {
            match effect {
                Effect::Send { to, message } | Effect::SendUnordered { to, message } => {
                    self.queue.push_back(Envelope {
                        from: id.into(),
                        to,
                        said: Said::Protocol(message),
                        is_repeated: false,
                    });
                }
                Effect::SetTimer { after, .. } => {
                    self.client_timers.insert(id, self.now + after);
                }
                Effect::CancelTimer(_) => {
                    self.client_timers.remove(&id);
                }
                Effect::Persist { record, .. } => match record {},
                Effect::Emit(event) => told.push(format!("  {}", describe::event(&event))),
                Effect::Anchor | Effect::Truncate => unreachable!("coordinators keep no records"),
            }
        }
    }

    /// The client of this name; the first thing that it does creates it.
    fn client(&mut self, who: &str, told: &mut Vec<String>) -> ClientId {
        let Address::Client(client) = address(who) else { panic!("{who} is no client") };
        let routes = self.routes.clone().expect("a script begins with `cluster`");
        if !self.clients.contains_key(&client) {
            let config = CoordinatorConfig {
                rules: self.rules,
                service: self.service().map(|shard| (shard, self.groups.size)),
                ..CoordinatorConfig::new(client, self.system)
            };
            self.clients.insert(client, Coordinator::restore(config, []));
            self.step_client(client, Input::Start, told);
            self.step_client(client, Input::Command(Command::Route(routes)), told);
        }
        client
    }

    fn set_reachable(&mut self, who: &str, word: &str, reachable: bool, told: &mut Vec<String>) {
        let client = self.client(who, told);
        let replica = replica(word);
        self.step_client(client, Input::Command(Command::Reachable { replica, reachable }), told);
    }

    fn client_command(&mut self, verb: &str, who: &str, rest: &[&str], told: &mut Vec<String>) {
        let client = self.client(who, told);
        let routes = self.routes.clone().expect("a script begins with `cluster`");
        let shards = routes.keyspace.shards.len();
        let id = |word: &str| {
            let (client, word) = match word.split_once('.') {
                Some((other, word)) => {
                    let Address::Client(other) = address(other) else { panic!("{word} is no transaction") };
                    (other, word)
                }
                None => (client, word),
            };
            let (sequence, attempt) = word.split_once('/').unwrap_or((word, "0"));
            TransactionId { client, sequence: sequence.parse().unwrap(), attempt: attempt.parse().unwrap() }
        };
        let transaction = id(rest[0]);
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
                let participants = routes.keyspace.shards.iter().map(|shard| shard.id).collect();
                let micros = words.first().map_or(0, |micros| micros.parse().unwrap());
                let timestamp = Timestamp { micros, client: ClientId(0) };
                Command::Resolve { transaction, participants, timestamp, patience }
            }
            _ => panic!("no such command: {verb} {rest:?}"),
        };
        self.step_client(client, Input::Command(command), told);
    }

    fn deliver(&mut self, told: &mut Vec<String>) {
        /// More messages than any story needs: a script that does not end is wrong.
        const MESSAGES_MAX: usize = 5_000;
        self.deliver_some(MESSAGES_MAX, told);
        let moves = |envelope: &Envelope| !self.is_held(envelope);
        assert!(
            !self.queue.iter().any(moves),
            "messages do not end; the last were {:#?}",
            &told[told.len() - 20..]
        );
    }

    fn is_held(&self, envelope: &Envelope) -> bool {
        [None, Some(envelope.from)].iter().any(|from| self.held.contains(&(*from, envelope.to)))
    }

    /// Delivers so many messages; those that are lost count too.
    fn deliver_some(&mut self, count: usize, told: &mut Vec<String>) {
        let mut kept = VecDeque::new();
        let mut delivered = 0;
        while delivered < count {
            let Some(envelope) = self.queue.pop_front() else { break };
            if self.is_held(&envelope) {
                kept.push_back(envelope);
            } else {
                delivered += 1;
                self.deliver_one(envelope, told);
            }
        }
        // What was passed over stands before what has not been looked at.
        kept.append(&mut self.queue);
        self.queue = kept;
    }

    fn text(envelope: &Envelope) -> String {
        let Envelope { from, to, said, .. } = envelope;
        match said {
            Said::Protocol(message) => {
                format!("{} → {}: {}", name(*from), name(*to), describe::message(message))
            }
            Said::Log(message) => {
                format!("{} ⇒ {}: {}", name(*from), name(*to), describe::log_message(message))
            }
        }
    }

    fn deliver_one(&mut self, envelope: Envelope, told: &mut Vec<String>) {
        let text = Self::text(&envelope);
        let Envelope { from, to, said, is_repeated } = envelope.clone();
        let is_up = match to {
            Address::Replica(id) => self.replicas.contains_key(&id),
            Address::Client(id) => self.clients.contains_key(&id),
        };
        if !is_up || self.cut.contains(&(from, to)) {
            return told.push(format!("✗ {text}"));
        }
        told.push(text);
        if !is_repeated {
            self.history.push(envelope);
        }
        let epoch = match from {
            Address::Replica(id) => self.logs[&id].view.epoch(),
            Address::Client(_) => Epoch::FIRST,
        };
        match (to, said) {
            (Address::Replica(id), Said::Protocol(message)) => {
                self.step_replica(id, Input::Message { from, epoch, message }, told);
            }
            (Address::Client(id), Said::Protocol(message)) => {
                self.step_client(id, Input::Message { from, epoch, message }, told);
            }
            (Address::Replica(id), Said::Log(message)) => {
                let Address::Replica(from) = from else { panic!("clients have no log") };
                self.on_log_message(from, id, message, told);
            }
            (Address::Client(_), Said::Log(_)) => panic!("clients have no log"),
        }
    }

    fn drop_messages(&mut self, to: Address, told: &mut Vec<String>) {
        self.queue.retain(|envelope| {
            if envelope.to == to {
                told.push(format!("✗ {}", Self::text(envelope)));
            }
            envelope.to != to
        });
    }

    fn advance(&mut self, milliseconds: u64, told: &mut Vec<String>) {
        let until = self.now + Duration::from_millis(milliseconds);
        loop {
            let replica = self.replica_timers.iter().map(|(who, at)| (*at, *who)).min();
            let client = self.client_timers.iter().map(|(who, at)| (*at, *who)).min();
            let next = replica.map(|(at, _)| at).into_iter().chain(client.map(|(at, _)| at)).min();
            let Some(next) = next.filter(|next| *next <= until) else { break };
            self.now = next;
            if let Some((at, id)) = replica
                && at == next
            {
                self.replica_timers.remove(&id);
                self.step_replica(id, Input::Timer(ReplicaTimer::Attention), told);
            } else if let Some((_, id)) = client {
                self.client_timers.remove(&id);
                self.step_client(id, Input::Timer(CoordinatorTimer::Attention), told);
            }
            self.deliver(told);
        }
        self.now = until;
    }

    fn crash(&mut self, who: Address) {
        match who {
            Address::Client(id) => {
                self.clients.remove(&id);
                self.client_timers.remove(&id);
            }
            Address::Replica(id) => {
                self.replicas.remove(&id);
                self.replica_timers.remove(&id);
                let log = self.logs.get_mut(&id).expect("every replica has a log");
                (log.leads, log.applied) = (false, 0);
            }
        }
    }

    fn restart(&mut self, id: ReplicaId, told: &mut Vec<String>) {
        self.crash(id.into());
        self.replicas.insert(id, Replica::new(self.replica_config(id)));
        self.step_replica(id, Input::Start, told);
    }

    fn show(&mut self, id: ReplicaId, told: &mut Vec<String>) {
        let who = name(id.into());
        let Some(replica) = self.replicas.get(&id) else { return told.push(format!("{who} is down")) };
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
            let value =
                version.value.as_ref().map_or("nothing".into(), |value| String::from_utf8_lossy(value));
            let key = String::from_utf8_lossy(key);
            told.push(format!("  {key} = {value} @{}", describe::at(version.timestamp)));
        }
    }
}

fn pages(replica: &Replica) -> Vec<Page> {
    let mut frozen = replica.freeze();
    std::iter::from_fn(|| Replica::next_page(&mut frozen)).collect()
}
