//! The smallest world in which machines can meet: one queue of messages, delivered in order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_core::changes::Retention;
use quorate_core::command::{Command, Freshness, Routes};
use quorate_core::machine::InputOf;
use quorate_core::replay;
use quorate_core::topology::{Durability, Isolation, Keyspace, Shard, Timestamping, shard_position};
use quorate_core::{
    Address, ClientId, ClockTime, Context, Effect, Epoch, GroupSize, Groups, Input, Instant, Key, KeyRange,
    KeyspaceId, Machine, Members, NodeId, Outbox, Random, ReplicaId, ReplicaIndex, ShardId, Timestamp,
    TransactionId,
};
use quorate_tapir::{
    Boot, Coordinator, CoordinatorConfig, CoordinatorTimer, Message, Plant, Record, Replica, ReplicaCommand,
    ReplicaConfig, ReplicaEvent, ReplicaTimer, Rules, Status,
};
use quorate_testscripts::ignored::Ignored;

use super::describe;

/// Everything in a script's world.
pub(super) struct World {
    now: Instant,
    random: Random,
    rules: Rules,
    routes: Option<Arc<Routes>>,
    /// The replicas at first, and by the latest definition.
    groups: [Groups; 2],
    /// Options that the scripts about them switch on.
    options: Options,
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

#[derive(Default)]
struct Options {
    deadlines: bool,
    reads_in_turn: bool,
    acknowledged_together: bool,
    retry_ahead: Duration,
    far_round_trip: Duration,
    deadline_ahead_max: Duration,
    prepare_wait_max: Duration,
    snapshot_records_min: Option<u64>,
    /// How large a part of a view change may be, if not as ever.
    page_bytes_max: Option<usize>,
}

#[derive(Clone)]
struct Envelope {
    from: Address,
    to: Address,
    epoch: Epoch,
    message: Message,
}

impl Default for World {
    fn default() -> Self {
        World {
            now: Instant::START,
            random: Random::new(1),
            rules: Rules::EXCLUSIVE,
            routes: None,
            groups: [three(), three()],
            options: Options::default(),
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
}

fn three() -> Groups {
    Groups::new(GroupSize::new(3).unwrap())
}

/// `c1` or `1/r0`.
fn address(word: &str) -> Address {
    if let Some(client) = word.strip_prefix('c') {
        return Address::Client(ClientId(client.parse().unwrap()));
    }
    let (shard, index) = word.split_once("/r").unwrap_or_else(|| panic!("no such participant: {word}"));
    let (shard, index) = (ShardId(shard.parse().unwrap()), ReplicaIndex(index.parse().unwrap()));
    Address::Replica(ReplicaId { shard, index })
}

fn name(address: Address) -> String {
    match address {
        Address::Client(client) => describe::client(client),
        Address::Replica(replica) => format!("{}/r{}", replica.shard.0, replica.index.0),
    }
}

/// The keys of a script are single words; a tag before them decides the shard.
fn key(word: &str, shards: usize) -> Key {
    let wanted = if word.starts_with('b') { shards - 1 } else { 0 };
    // Short keys do not fall into the wanted shard by themselves, so they are given a suffix that does it.
    (0..)
        .map(|salt: u32| if salt == 0 { word.to_owned() } else { format!("{word}{salt}") })
        .find(|candidate| shard_position(candidate.as_bytes(), shards) == wanted)
        .map(Key::from)
        .unwrap()
}

/// True for what a replica may say before its records are durable: it is no less right if the replica forgets it.
fn may_be_forgotten(message: &Message) -> bool {
    matches!(
        message,
        Message::Outdated
            | Message::ClockProbeReply { .. }
            | Message::ReadReply { .. }
            | Message::ReadManyReply { .. }
            | Message::ReadWaits { .. }
            | Message::ScanReply { .. }
            | Message::SnapshotTooOld { .. }
            | Message::ReadValidatedReply { .. }
    )
}

impl World {
    /// A world whose machines follow these rules.
    pub(super) fn new(rules: Rules) -> Self {
        World { rules, ..World::default() }
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
            ["deliver", count] => self.deliver_some(count.parse().unwrap(), &mut log),
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
            ["define", shard, ref members @ ..] => self.define(shard, members),
            ["go-on", who] => self.go_on(who, &mut log),
            ["reverse", who] => self.reverse(address(who)),
            ["drop", who] => self.drop_messages(address(who), &mut log),
            ["repeat", who] => {
                let again: Vec<Envelope> =
                    self.history.iter().filter(|envelope| envelope.to == address(who)).cloned().collect();
                self.queue.extend(again);
                self.deliver(&mut log);
            }
            ["advance", milliseconds] => self.advance(milliseconds.parse().unwrap(), &mut log),
            ["crash", who] => self.crash(address(who)),
            ["restart", who] => self.restart(address(who), true, &mut log),
            ["lose", who] => self.restart(address(who), false, &mut log),
            ["unreachable", who, replica] => self.set_reachable(who, replica, false, &mut log),
            ["reachable", who, replica] => self.set_reachable(who, replica, true, &mut log),
            ["show", who] => self.show(address(who), &mut log),
            [verb, who, ref rest @ ..] => self.client_command(verb, who, rest, &mut log),
            _ => panic!("no such command: {line}"),
        }
        self.ignored.tell(&mut log);
        log
    }

    /// At any moment, a restart of a replica that had written this down would find all that it has said.
    fn check_restart(&self, id: ReplicaId, records: Vec<Record>) {
        if ![Rules::EXCLUSIVE, Rules::SERIALIZABLE].contains(&self.rules) {
            return;
        }
        let restarted = replay::rebuild::<Replica>(self.replica_config(id, Boot::Rejoin), records);
        let lost = self.replicas[&id].handover().lost_in(&restarted.handover());
        assert!(lost.is_empty(), "a restart of {id} would lose {lost:?}");
    }

    fn replica_config(&self, id: ReplicaId, boot: Boot) -> ReplicaConfig {
        let [first, latest] = &self.groups;
        let config = ReplicaConfig::new(id, first.size, boot);
        // A replica that has its records need not be told which epoch it is in.
        let is_told = boot == Boot::Initialise || self.disks.get(&id).is_none_or(Vec::is_empty);
        ReplicaConfig {
            groups: if is_told { latest.clone() } else { first.clone() },
            rules: self.rules,
            deadline_ahead_max: self.options.deadline_ahead_max,
            prepare_wait_max: self.options.prepare_wait_max,
            page_bytes_max: self.options.page_bytes_max.unwrap_or(config.page_bytes_max),
            snapshot_records_min: self.options.snapshot_records_min.unwrap_or(config.snapshot_records_min),
            // The scripts show which versions are collected.
            retention: Retention::NONE,
            ..config
        }
    }

    fn create(&mut self, settings: &[&str], log: &mut Vec<String>) {
        let (mut shards, mut replicas, mut clock_bound) = (1, 3, None);
        for setting in settings {
            match setting.split_once('=') {
                Some(("shards", count)) => shards = count.parse().unwrap(),
                Some(("replicas", count)) => replicas = count.parse().unwrap(),
                Some(("ahead", milliseconds)) => {
                    self.options.deadline_ahead_max = Duration::from_millis(milliseconds.parse().unwrap());
                }
                Some(("wait", milliseconds)) => {
                    self.options.prepare_wait_max = Duration::from_millis(milliseconds.parse().unwrap());
                }
                Some(("page", bytes)) => self.options.page_bytes_max = Some(bytes.parse().unwrap()),
                Some(("snapshot", records)) => {
                    self.options.snapshot_records_min = Some(records.parse().unwrap());
                }
                Some(("bound", micros)) => {
                    clock_bound = Some(Duration::from_micros(micros.parse().unwrap()));
                }
                Some(("retry", micros)) => {
                    self.options.retry_ahead = Duration::from_micros(micros.parse().unwrap());
                }
                _ if *setting == "serializable" => {
                    assert_eq!(self.rules, Rules::EXCLUSIVE, "nothing is planted in the variant");
                    self.rules = Rules::SERIALIZABLE;
                }
                _ if *setting == "deadlines" => self.options.deadlines = true,
                _ if *setting == "together" => self.options.acknowledged_together = true,
                _ if *setting == "turns" => self.options.reads_in_turn = true,
                _ if *setting == "published" => self.rules = Rules::PUBLISHED,
                _ => panic!("no such setting: {setting}"),
            }
        }
        let groups = Groups::new(GroupSize::new(replicas).unwrap());
        self.groups = [groups.clone(), groups];
        let nodes: Vec<NodeId> = (0..replicas as u16).map(NodeId).collect();
        let retry_ahead = self.options.retry_ahead;
        let keyspace = Keyspace {
            timestamping: Some(Timestamping { retry_ahead, ..Timestamping::default() }),
            clock_bound,
            ..Keyspace::new(
                KeyspaceId(1),
                "script",
                Isolation::Strict,
                Durability::Sync,
                (1..=shards).map(|id| Shard::new(ShardId(id), nodes.clone())).collect(),
            )
        };
        let nearest = vec![(0..replicas as u8).map(ReplicaIndex).collect(); shards as usize];
        for shard in &keyspace.shards {
            for replica in shard.replica_ids() {
                self.build_replica(replica, Boot::Initialise, Vec::new(), &mut Vec::new());
            }
        }
        self.routes = Some(Arc::new(Routes::new(keyspace, nearest)));
        log.push(format!("{shards} shard(s) of {replicas} replicas"));
    }

    /// Defines an epoch in which the replicas of a shard are these.
    fn define(&mut self, shard: &str, members: &[&str]) {
        let index = |word: &&str| ReplicaIndex(word[1..].parse().unwrap());
        let members = Members::new(members.iter().map(index)).unwrap();
        let shard = ShardId(shard.parse().unwrap());
        self.groups[1] = self.groups[1].next([(shard, members)]);
        let mut routes = Routes::clone(self.routes.as_ref().expect("a script begins with `cluster`"));
        routes.keyspace.epoch = self.groups[1].epoch;
        let position = routes.keyspace.shards.iter().position(|known| known.id == shard).unwrap();
        routes.nearest[position] = members.iter().collect();
        self.routes = Some(Arc::new(routes));
    }

    /// Somebody learns of the latest definition; a replica that does not exist yet is created by it.
    fn go_on(&mut self, who: &str, log: &mut Vec<String>) {
        match address(who) {
            Address::Client(_) => {
                let client = self.client(who, log);
                let routes = self.routes.clone().expect("a script begins with `cluster`");
                self.step_client(client, Input::Command(Command::Route(routes)), log);
            }
            Address::Replica(id) if !self.disks.contains_key(&id) => {
                self.build_replica(id, Boot::Initialise, Vec::new(), log);
            }
            Address::Replica(id) => {
                let groups = self.groups[1].clone();
                self.step_replica(id, Input::Command(ReplicaCommand::ChangeGroups(groups)), log);
            }
        }
    }

    fn build_replica(&mut self, id: ReplicaId, boot: Boot, records: Vec<Record>, log: &mut Vec<String>) {
        let config = self.replica_config(id, boot);
        self.replicas.insert(id, replay::rebuild::<Replica>(config, records));
        self.step_replica(id, Input::Start, log);
    }

    fn clock(&self, who: Address) -> ClockTime {
        ClockTime::from_micros(self.clocks.get(&who).copied().unwrap_or(100))
    }

    fn step_replica(&mut self, id: ReplicaId, input: InputOf<Replica>, log: &mut Vec<String>) {
        let clock = self.clock(id.into());
        let Some(replica) = self.replicas.get_mut(&id) else { return };
        let mut outbox = Outbox::new();
        replica.step(&mut Context { now: self.now, clock, random: &mut self.random }, input, &mut outbox);
        let from = Address::Replica(id);
        self.ignored.note(outbox.take_ignored(), || name(from));
        // The records that had been written down when it last said something that waits for them.
        let mut written_when_said = None;
        for effect in outbox.drain() {
            match effect {
                Effect::Send { to, message } => {
                    written_when_said = Some(self.disks.get(&id).cloned().unwrap_or_default());
                    let epoch = replica.epoch(to);
                    self.queue.push_back(Envelope { from, to, epoch, message });
                }
                Effect::SendUnordered { to, message } => {
                    let is_planted = self.rules == Rules::planted(Plant::VoteBeforeSync);
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
                    log.push(format!("{} is normal in {view}", name(from)))
                }
                Effect::Emit(ReplicaEvent::ViewChanging { view }) => {
                    log.push(format!("{} leaves for {view}", name(from)));
                }
                Effect::Emit(ReplicaEvent::Retired) => log.push(format!("{} is retired", name(from))),
                Effect::Emit(ReplicaEvent::Outdated { epoch }) => {
                    log.push(format!("{} hears of {epoch}", name(from)));
                }
                Effect::Emit(ReplicaEvent::Lost { lost }) => {
                    log.push(format!("{} refuses: {lost} replicas have lost their records", name(from)));
                }
            }
        }
        self.check_restart(id, self.disks.get(&id).cloned().unwrap_or_default());
        if let Some(written) = written_when_said {
            self.check_restart(id, written);
        }
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
                deadlines: self.options.deadlines,
                reads_in_turn: self.options.reads_in_turn,
                acknowledged_together: self.options.acknowledged_together,
                far_round_trip: self.options.far_round_trip,
                ..CoordinatorConfig::new(client)
            };
            self.clients.insert(client, Coordinator::restore(config, []));
            self.step_client(client, Input::Start, log);
            self.step_client(client, Input::Command(Command::Route(routes)), log);
        }
        client
    }

    fn set_reachable(&mut self, who: &str, replica: &str, reachable: bool, log: &mut Vec<String>) {
        let client = self.client(who, log);
        let Address::Replica(replica) = address(replica) else { panic!("{replica} is no replica") };
        self.step_client(client, Input::Command(Command::Reachable { replica, reachable }), log);
    }

    fn client_command(&mut self, verb: &str, who: &str, rest: &[&str], log: &mut Vec<String>) {
        let client = self.client(who, log);
        let routes = self.routes.clone().expect("a script begins with `cluster`");
        let shards = routes.keyspace.shards.len();
        let id = |word: &str| match word.split_once('.') {
            Some((client, sequence)) => {
                let Address::Client(client) = address(client) else { panic!("{word} is no transaction") };
                TransactionId { client, sequence: sequence.parse().unwrap(), attempt: 0 }
            }
            None => TransactionId { client, sequence: word.parse().unwrap(), attempt: 0 },
        };
        let transaction = id(rest[0]);
        let command = match (verb, &rest[1..]) {
            ("begin", []) => {
                Command::Begin { transaction, keyspace: KeyspaceId(1), patience: Duration::from_secs(5) }
            }
            ("get", [word]) => Command::Get { transaction, key: key(word, shards) },
            ("get", words) => {
                Command::GetMany { transaction, keys: words.iter().map(|word| key(word, shards)).collect() }
            }
            ("put", [word, value]) => Command::Put {
                transaction,
                key: key(word, shards),
                value: Some(Bytes::from((*value).to_owned())),
            },
            ("delete", [word]) => Command::Put { transaction, key: key(word, shards), value: None },
            ("scan", [from, to]) => {
                let (from, to) = (Key::from(*from), Some(Key::from(*to)));
                Command::Scan { transaction, range: KeyRange { from, to }, limit: 10 }
            }
            ("commit", []) => Command::Commit { transaction },
            ("read" | "read-at" | "read-stale" | "read-now", words) => {
                let number = |word: &str| word.parse().unwrap();
                let (freshness, words) = match (verb, words) {
                    ("read", words) => (Freshness::Strict, words),
                    ("read-now", words) => (Freshness::ClockBound, words),
                    ("read-at", [micros, words @ ..]) => {
                        (Freshness::At(Timestamp { micros: number(micros), client }), words)
                    }
                    (_, [micros, words @ ..]) => {
                        (Freshness::Stale(Duration::from_micros(number(micros))), words)
                    }
                    _ => panic!("{verb} needs a number"),
                };
                let keys = words.iter().map(|word| key(word, shards)).collect();
                let (keyspace, patience) = (KeyspaceId(1), Duration::from_secs(5));
                Command::ReadOnly { transaction, keyspace, keys, freshness, patience }
            }
            ("scan-strict" | "scan-at" | "scan-stale" | "scan-now", words) => {
                let number = |word: &str| word.parse().unwrap();
                let (freshness, words) = match (verb, words) {
                    ("scan-strict", words) => (Freshness::Strict, words),
                    ("scan-now", words) => (Freshness::ClockBound, words),
                    ("scan-at", [micros, words @ ..]) => {
                        (Freshness::At(Timestamp { micros: number(micros), client }), words)
                    }
                    (_, [micros, words @ ..]) => {
                        (Freshness::Stale(Duration::from_micros(number(micros))), words)
                    }
                    _ => panic!("{verb} needs a number"),
                };
                let (from, to, limit) = match words {
                    [from, to] => (from, to, 10),
                    [from, to, limit] => (from, to, limit.parse().unwrap()),
                    _ => panic!("{verb} needs a range, and perhaps a limit"),
                };
                let range = KeyRange { from: Key::from(*from), to: Some(Key::from(*to)) };
                let (keyspace, patience) = (KeyspaceId(1), Duration::from_secs(5));
                Command::ReadOnlyScan { transaction, keyspace, range, limit, freshness, patience }
            }
            ("abort", []) => Command::Abort { transaction },
            ("resolve", []) => {
                let participants = routes.keyspace.shards.iter().map(|shard| shard.id).collect();
                Command::Resolve {
                    transaction,
                    participants,
                    timestamp: Timestamp::ZERO,
                    patience: Duration::from_secs(5),
                }
            }
            _ => panic!("no such command: {verb} {rest:?}"),
        };
        self.step_client(client, Input::Command(command), log);
    }

    fn deliver(&mut self, log: &mut Vec<String>) {
        /// More messages than any story needs: a script that does not end is wrong.
        const MESSAGES_MAX: usize = 5_000;
        self.deliver_some(MESSAGES_MAX, log);
        let moves = |envelope: &Envelope| !self.is_held(envelope);
        assert!(
            !self.queue.iter().any(moves),
            "messages do not end; the last were {:#?}",
            &log[log.len() - 20..]
        );
    }

    fn is_held(&self, envelope: &Envelope) -> bool {
        [None, Some(envelope.from)].iter().any(|from| self.held.contains(&(*from, envelope.to)))
    }

    /// Delivers so many messages; those that are lost count too.
    fn deliver_some(&mut self, count: usize, log: &mut Vec<String>) {
        let mut kept = VecDeque::new();
        let mut delivered = 0;
        while delivered < count {
            let Some(envelope) = self.queue.pop_front() else { break };
            if self.is_held(&envelope) {
                kept.push_back(envelope);
            } else {
                delivered += 1;
                self.deliver_one(envelope, log);
            }
        }
        // Messages that were passed over stand before those that have not been looked at.
        kept.append(&mut self.queue);
        self.queue = kept;
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

    /// Lets the messages to somebody that are on their way or held back overtake each other.
    fn reverse(&mut self, to: Address) {
        let at: Vec<usize> = (0..self.queue.len()).filter(|at| self.queue[*at].to == to).collect();
        for (one, other) in at.iter().zip(at.iter().rev()).take(at.len() / 2) {
            self.queue.swap(*one, *other);
        }
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

    fn restart(&mut self, who: Address, with_disk: bool, log: &mut Vec<String>) {
        let Address::Replica(id) = who else { panic!("clients do not come back under their old name") };
        self.crash(who);
        if !with_disk {
            self.disks.remove(&id);
        }
        let records = self.disks.get(&id).cloned().unwrap_or_default();
        self.build_replica(id, Boot::Rejoin, records, log);
    }

    fn show(&mut self, who: Address, log: &mut Vec<String>) {
        let Address::Replica(id) = who else { panic!("{} keeps nothing", name(who)) };
        let Some(replica) = self.replicas.get(&id) else {
            log.push(format!("{} is down", name(who)));
            return;
        };
        let status = match replica.status() {
            Status::Normal => "normal",
            Status::ViewChanging => "changing views",
            Status::Recovering => "recovering",
            Status::Retired => "retired",
        };
        log.push(format!("{} {status} in {}", name(who), replica.view()));
        for id in replica.prepared().ids() {
            let held = replica.prepared().entry(id).unwrap();
            log.push(format!("  prepared {} at {}", describe::transaction(id), describe::at(held.timestamp)));
        }
        for (key, version) in replica.versions().iter() {
            let value = version.bytes();
            let value = value.as_deref().map_or("nothing".into(), String::from_utf8_lossy);
            let key = String::from_utf8_lossy(key);
            log.push(format!("  {key} = {value} @{}", describe::at(version.timestamp)));
        }
    }
}
