//! The smallest world in which machines can meet: one queue of messages, delivered in order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_core::command::{Command, Freshness, Routes};
use quorate_core::replay;
use quorate_core::topology::{Durability, Isolation, Keyspace, Shard, shard_position};
use quorate_core::{
    Address, ClientId, ClockTime, Context, Effect, Epoch, GroupSize, Input, Instant, Key, KeyRange,
    KeyspaceId, Machine, NodeId, Outbox, Random, ReplicaId, ReplicaIndex, ShardId, Timestamp, TransactionId,
    Value,
};
use quorate_ir::Status;
use quorate_qwstore::{
    Boot, Coordinator, CoordinatorConfig, CoordinatorTimer, Message, Plant, Record, Replica, ReplicaConfig,
    ReplicaEvent, ReplicaTimer, Rules,
};
use quorate_testscripts::ignored::Ignored;

use super::describe;

/// Everything in a script's world.
pub(super) struct World {
    now: Instant,
    random: Random,
    rules: Rules,
    routes: Option<Arc<Routes>>,
    group: GroupSize,
    /// How often floors are looked for, and how far they stay behind; else they are not.
    floor: Option<Duration>,
    snapshot_records_min: Option<u64>,
    puts_in_turn: bool,
    clocks: BTreeMap<Address, u64>,
    replicas: BTreeMap<ReplicaId, Replica>,
    disks: BTreeMap<ReplicaId, Vec<Record>>,
    /// How many records a replica had kept when it set its latest anchor.
    anchors: BTreeMap<ReplicaId, usize>,
    clients: BTreeMap<ClientId, Coordinator>,
    replica_timers: BTreeMap<(ReplicaId, ReplicaTimer), Instant>,
    client_timers: BTreeMap<ClientId, Instant>,
    queue: VecDeque<Envelope>,
    /// Receivers whose messages are kept back; with a sender, only those from it.
    held: BTreeSet<(Option<Address>, Address)>,
    /// Links, from and to, on which everything is lost.
    cut: BTreeSet<(Address, Address)>,
    history: Vec<Envelope>,
    ignored: Ignored,
}

#[derive(Clone)]
struct Envelope {
    from: Address,
    to: Address,
    epoch: Epoch,
    message: Message,
}

/// `c1` or `1/r0`.
fn address(word: &str) -> Address {
    if let Some(client) = word.strip_prefix('c') {
        return Address::Client(ClientId(client.parse().unwrap()));
    }
    Address::Replica(replica(word))
}

fn replica(word: &str) -> ReplicaId {
    let (shard, index) = word.split_once("/r").unwrap_or_else(|| panic!("no such participant: {word}"));
    ReplicaId { shard: ShardId(shard.parse().unwrap()), index: ReplicaIndex(index.parse().unwrap()) }
}

fn name(address: Address) -> String {
    match address {
        Address::Client(client) => describe::client(client),
        Address::Replica(replica) => format!("{}/r{}", replica.shard.0, replica.index.0),
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

/// True for what a replica may say before its records are durable: nothing is promised of it, or it is no less right if the
/// replica forgets it.
fn may_be_forgotten(message: &Message) -> bool {
    matches!(
        message,
        Message::Outdated
            | Message::ReadReply { .. }
            | Message::ScanReply { .. }
            | Message::Late { .. }
            | Message::ClockAhead { .. }
    )
}

/// The keys that a replica holds, with what they hold since when.
fn contents(replica: &Replica) -> BTreeMap<Key, (Timestamp, Value)> {
    let versions = replica.versions();
    let newest = |key: &Key| {
        let version = versions.newest(key)?;
        Some((key.clone(), (version.timestamp, version.value()?)))
    };
    versions.iter().filter_map(|(key, _)| newest(key)).collect()
}

impl World {
    /// A world whose machines follow these rules.
    pub(super) fn new(rules: Rules) -> Self {
        World {
            now: Instant::START,
            random: Random::new(1),
            rules,
            routes: None,
            group: GroupSize::new(3).unwrap(),
            floor: None,
            snapshot_records_min: None,
            puts_in_turn: false,
            clocks: BTreeMap::new(),
            replicas: BTreeMap::new(),
            disks: BTreeMap::new(),
            anchors: BTreeMap::new(),
            clients: BTreeMap::new(),
            replica_timers: BTreeMap::new(),
            client_timers: BTreeMap::new(),
            queue: VecDeque::new(),
            held: BTreeSet::new(),
            cut: BTreeSet::new(),
            history: Vec::new(),
            ignored: Ignored::default(),
        }
    }

    /// Carries out one line of a script and tells what happened.
    pub(super) fn command(&mut self, line: &str) -> Vec<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut log = Vec::new();
        match words[..] {
            ["cluster", ref settings @ ..] => self.create(settings, &mut log),
            ["clock", who, micros] => {
                self.clocks.insert(address(who), micros.parse().unwrap());
            }
            ["deliver"] => self.deliver(&mut log),
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
            ["drop", who] => self.drop_messages(address(who), &mut log),
            ["repeat", who] => {
                let again: Vec<Envelope> =
                    self.history.iter().filter(|envelope| envelope.to == address(who)).cloned().collect();
                self.queue.extend(again);
                self.deliver(&mut log);
            }
            ["advance", milliseconds] => self.advance(milliseconds.parse().unwrap(), &mut log),
            ["quietly", milliseconds] => self.advance(milliseconds.parse().unwrap(), &mut Vec::new()),
            ["crash", who] => self.crash(address(who)),
            ["restart", who] => self.restart(replica(who), true, &mut log),
            ["lose", who] => self.restart(replica(who), false, &mut log),
            ["unreachable", who, replica] => self.set_reachable(who, replica, false, &mut log),
            ["reachable", who, replica] => self.set_reachable(who, replica, true, &mut log),
            ["show", who] => self.show(replica(who), &mut log),
            [verb, who, ref rest @ ..] => self.client_command(verb, who, rest, &mut log),
            _ => panic!("no such command: {line}"),
        }
        self.ignored.tell(&mut log);
        log
    }

    /// At any time, a restart of a replica that had written this down would find all that it has said.
    fn check_restart(&self, id: ReplicaId, records: Vec<Record>) {
        if self.rules != Rules::SOUND {
            return;
        }
        let restarted = replay::rebuild::<Replica>(self.replica_config(id, Boot::Rejoin), records);
        let replica = &self.replicas[&id];
        assert_eq!(contents(replica), contents(&restarted), "a restart of {id} would lose something");
        assert_eq!((replica.view(), replica.floor()), (restarted.view(), restarted.floor()), "of {id}");
    }

    fn replica_config(&self, id: ReplicaId, boot: Boot) -> ReplicaConfig {
        let config = ReplicaConfig::new(id, self.group, boot);
        let never = Duration::from_secs(1_000_000);
        ReplicaConfig {
            rules: self.rules,
            floor_interval: self.floor.unwrap_or(never),
            floor_lag: self.floor.unwrap_or(never),
            floor_patience: self.floor.map_or(never, |floor| 4 * floor),
            snapshot_records_min: self.snapshot_records_min.unwrap_or(config.snapshot_records_min),
            ..config
        }
    }

    fn create(&mut self, settings: &[&str], log: &mut Vec<String>) {
        let (mut shards, mut replicas) = (1, 3);
        for setting in settings {
            match setting.split_once('=') {
                Some(("shards", count)) => shards = count.parse().unwrap(),
                Some(("replicas", count)) => replicas = count.parse().unwrap(),
                Some(("floor", milliseconds)) => {
                    self.floor = Some(Duration::from_millis(milliseconds.parse().unwrap()));
                }
                Some(("snapshot", records)) => self.snapshot_records_min = Some(records.parse().unwrap()),
                _ if *setting == "in-turn" => self.puts_in_turn = true,
                _ => panic!("no such setting: {setting}"),
            }
        }
        self.group = GroupSize::new(replicas).unwrap();
        let nodes: Vec<NodeId> = (0..replicas as u16).map(NodeId).collect();
        let keyspace = Keyspace::new(
            KeyspaceId(1),
            "script",
            Isolation::Strict,
            Durability::Sync,
            (1..=shards).map(|id| Shard::new(ShardId(id), nodes.clone())).collect(),
        );
        let nearest = vec![(0..replicas as u8).map(ReplicaIndex).collect(); shards as usize];
        for shard in &keyspace.shards {
            for replica in shard.replica_ids() {
                self.build_replica(replica, Boot::Initialise, Vec::new(), &mut Vec::new());
            }
        }
        self.routes = Some(Arc::new(Routes::new(keyspace, nearest)));
        log.push(format!("{shards} shard(s) of {replicas} replicas"));
    }

    fn build_replica(&mut self, id: ReplicaId, boot: Boot, records: Vec<Record>, log: &mut Vec<String>) {
        let config = self.replica_config(id, boot);
        self.replicas.insert(id, replay::rebuild::<Replica>(config, records));
        self.step_replica(id, Input::Start, log);
    }

    fn clock(&self, who: Address) -> ClockTime {
        let elapsed = self.now.as_nanos() / 1_000;
        ClockTime::from_micros(self.clocks.get(&who).copied().unwrap_or(100) + elapsed)
    }

    fn step_replica(
        &mut self,
        id: ReplicaId,
        input: Input<Message, ReplicaTimer, std::convert::Infallible>,
        log: &mut Vec<String>,
    ) {
        let clock = self.clock(id.into());
        let Some(replica) = self.replicas.get_mut(&id) else { return };
        let mut outbox = Outbox::new();
        replica.step(&mut Context { now: self.now, clock, random: &mut self.random }, input, &mut outbox);
        let from = Address::Replica(id);
        self.ignored.note(outbox.take_ignored(), || name(from));
        for effect in outbox.drain() {
            match effect {
                Effect::Send { to, message } => {
                    let epoch = replica.epoch(to);
                    self.queue.push_back(Envelope { from, to, epoch, message });
                }
                Effect::SendUnordered { to, message } => {
                    let is_planted = self.rules == Rules::planted(Plant::ReplyBeforeSync);
                    assert!(
                        is_planted || may_be_forgotten(&message),
                        "{id} may forget what it says: {message:?}"
                    );
                    let epoch = replica.epoch(to);
                    self.queue.push_back(Envelope { from, to, epoch, message });
                }
                Effect::SetTimer { timer, after } => {
                    self.replica_timers.insert((id, timer), self.now + after);
                }
                Effect::CancelTimer(timer) => {
                    self.replica_timers.remove(&(id, timer));
                }
                Effect::Persist { record, .. } => self.disks.entry(id).or_default().push(record),
                Effect::Anchor => {
                    self.anchors.insert(id, self.disks.get(&id).map_or(0, Vec::len));
                }
                Effect::Truncate => {
                    let anchor = self.anchors.remove(&id).expect("a replica truncates at an anchor");
                    self.disks.entry(id).or_default().drain(..anchor);
                }
                Effect::Emit(ReplicaEvent::Normal { view }) => {
                    log.push(format!("{} is normal in {view}", name(from)));
                }
                Effect::Emit(ReplicaEvent::ViewChanging { view }) => {
                    log.push(format!("{} leaves for {view}", name(from)));
                }
                Effect::Emit(ReplicaEvent::Outdated { epoch }) => {
                    log.push(format!("{} hears of {epoch}", name(from)));
                }
                Effect::Emit(ReplicaEvent::Retired) => unreachable!("its groups never change"),
                Effect::Emit(ReplicaEvent::Lost { lost }) => {
                    log.push(format!("{} refuses: {lost} replicas have lost their records", name(from)));
                }
            }
        }
        self.check_restart(id, self.disks.get(&id).cloned().unwrap_or_default());
    }

    fn step_client(
        &mut self,
        id: ClientId,
        input: Input<Message, CoordinatorTimer, Command>,
        log: &mut Vec<String>,
    ) {
        let clock = self.clock(id.into());
        let Some(client) = self.clients.get_mut(&id) else { return };
        let mut outbox = Outbox::new();
        client.step(&mut Context { now: self.now, clock, random: &mut self.random }, input, &mut outbox);
        self.ignored.note(outbox.take_ignored(), || name(id.into()));
        for effect in outbox.drain() {
            match effect {
                Effect::Send { to, message } | Effect::SendUnordered { to, message } => {
                    let epoch = client.epoch(to);
                    self.queue.push_back(Envelope { from: id.into(), to, epoch, message });
                }
                Effect::SetTimer { after, .. } => {
                    self.client_timers.insert(id, self.now + after);
                }
                Effect::CancelTimer(_) => {
                    self.client_timers.remove(&id);
                }
                Effect::Persist { record, .. } => match record {},
                Effect::Emit(event) => log.push(format!("  {}", describe::event(&event))),
                Effect::Anchor | Effect::Truncate => unreachable!("coordinators keep no records"),
            }
        }
    }

    /// The client of this name; the first thing that it does creates it.
    fn client(&mut self, who: &str, log: &mut Vec<String>) -> ClientId {
        let Address::Client(client) = address(who) else { panic!("{who} is no client") };
        let routes = self.routes.clone().expect("a script begins with `cluster`");
        if !self.clients.contains_key(&client) {
            let config = CoordinatorConfig {
                rules: self.rules,
                puts_in_turn: self.puts_in_turn,
                ..CoordinatorConfig::new(client)
            };
            self.clients.insert(client, Coordinator::restore(config, []));
            self.step_client(client, Input::Start, log);
            self.step_client(client, Input::Command(Command::Route(routes)), log);
        }
        client
    }

    fn set_reachable(&mut self, who: &str, word: &str, reachable: bool, log: &mut Vec<String>) {
        let client = self.client(who, log);
        let replica = replica(word);
        self.step_client(client, Input::Command(Command::Reachable { replica, reachable }), log);
    }

    fn client_command(&mut self, verb: &str, who: &str, rest: &[&str], log: &mut Vec<String>) {
        let client = self.client(who, log);
        let routes = self.routes.clone().expect("a script begins with `cluster`");
        let shards = routes.keyspace.shards.len();
        let transaction = TransactionId { client, sequence: rest[0].parse().unwrap(), attempt: 0 };
        let (keyspace, patience) = (KeyspaceId(1), Duration::from_secs(5));
        let range = |from: &str, to: &str| KeyRange { from: Key::from(from), to: Some(Key::from(to)) };
        let keys = |words: &[&str]| words.iter().map(|word| key(word, shards)).collect();
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
            ("abort", []) => Command::Abort { transaction },
            ("read", words) => Command::ReadOnly {
                transaction,
                keyspace,
                keys: keys(words),
                freshness: Freshness::Strict,
                patience,
            },
            ("read-at", [micros, words @ ..]) => Command::ReadOnly {
                transaction,
                keyspace,
                keys: keys(words),
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
            ("resolve", []) => Command::Resolve {
                transaction,
                participants: routes.keyspace.shards.iter().map(|shard| shard.id).collect(),
                timestamp: Timestamp::ZERO,
                patience,
            },
            _ => panic!("no such command: {verb} {rest:?}"),
        };
        self.step_client(client, Input::Command(command), log);
    }

    fn is_held(&self, envelope: &Envelope) -> bool {
        [None, Some(envelope.from)].iter().any(|from| self.held.contains(&(*from, envelope.to)))
    }

    fn deliver(&mut self, log: &mut Vec<String>) {
        /// More messages than any story needs: a script that does not end is wrong.
        const MESSAGES_MAX: usize = 5_000;
        let mut kept = VecDeque::new();
        for _ in 0..MESSAGES_MAX {
            let Some(envelope) = self.queue.pop_front() else {
                self.queue = kept;
                return;
            };
            if self.is_held(&envelope) {
                kept.push_back(envelope);
            } else {
                self.deliver_one(envelope, log);
            }
        }
        panic!("messages do not end; the last were {:#?}", &log[log.len().saturating_sub(20)..]);
    }

    fn deliver_one(&mut self, envelope: Envelope, log: &mut Vec<String>) {
        let Envelope { from, to, epoch, message } = envelope.clone();
        let text = format!("{} → {}: {}", name(from), name(to), describe::message(&message));
        self.ignored.tell(log);
        let line = log.len();
        match to {
            _ if self.cut.contains(&(from, to)) => log.push(format!("✗ {text}")),
            Address::Replica(id) if self.replicas.contains_key(&id) => {
                log.push(text);
                self.history.push(envelope);
                self.step_replica(id, Input::Message { from, epoch, message }, log);
            }
            Address::Client(id) if self.clients.contains_key(&id) => {
                log.push(text);
                self.history.push(envelope);
                self.step_client(id, Input::Message { from, epoch, message }, log);
            }
            _ => log.push(format!("✗ {text}")),
        }
        self.ignored.strike_out(line, log);
    }

    fn drop_messages(&mut self, to: Address, log: &mut Vec<String>) {
        self.queue.retain(|envelope| {
            if envelope.to == to {
                let text = describe::message(&envelope.message);
                log.push(format!("✗ {} → {}: {text}", name(envelope.from), name(to)));
            }
            envelope.to != to
        });
    }

    fn advance(&mut self, milliseconds: u64, log: &mut Vec<String>) {
        let until = self.now + Duration::from_millis(milliseconds);
        loop {
            let replica = self.replica_timers.iter().map(|(who, at)| (*at, *who)).min();
            let client = self.client_timers.iter().map(|(who, at)| (*at, *who)).min();
            let next = replica.map(|(at, _)| at).into_iter().chain(client.map(|(at, _)| at)).min();
            let Some(next) = next.filter(|next| *next <= until) else { break };
            self.now = next;
            if let Some((at, (id, timer))) = replica
                && at == next
            {
                self.replica_timers.remove(&(id, timer));
                self.step_replica(id, Input::Timer(timer), log);
            } else if let Some((_, id)) = client {
                self.client_timers.remove(&id);
                self.step_client(id, Input::Timer(CoordinatorTimer::Attention), log);
            }
            self.deliver(log);
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
                self.replica_timers.retain(|(replica, _), _| *replica != id);
            }
        }
    }

    fn restart(&mut self, id: ReplicaId, with_disk: bool, log: &mut Vec<String>) {
        self.crash(id.into());
        if !with_disk {
            self.disks.remove(&id);
        }
        let records = self.disks.get(&id).cloned().unwrap_or_default();
        self.build_replica(id, Boot::Rejoin, records, log);
    }

    fn show(&mut self, id: ReplicaId, log: &mut Vec<String>) {
        let who = name(id.into());
        let Some(replica) = self.replicas.get(&id) else { return log.push(format!("{who} is down")) };
        let status = match replica.status() {
            Status::Normal => "normal",
            Status::ViewChanging => "changing views",
            Status::Recovering => "recovering",
            Status::Retired => unreachable!("its groups never change"),
        };
        let (recorded, records) = (replica.record_len(), self.disks.get(&id).map_or(0, Vec::len));
        log.push(format!("{who} {status} in {}: {recorded} puts, {records} records", replica.view()));
        for (key, version) in replica.versions().iter() {
            let value = describe::value(version.value().as_ref());
            let key = String::from_utf8_lossy(key);
            log.push(format!("  {key} = {value} @{}", describe::at(version.timestamp)));
        }
    }
}
