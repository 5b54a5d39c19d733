//! A client by itself: which replicas it asks, in which order and after how long, and what it makes of what they say.
//!
//! Each step is told line by line, with everything that it leads to, so that a test states what happens and that nothing else does.

mod answers;
mod ending;
mod epochs;
mod execution;
mod expiring;
mod preparing;
mod quorum;
mod reporting;
mod timing;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_core::command::{Command, Committed, Event, Failure, Freshness, Routes};
use quorate_core::machine::{InputOf, OutboxOf};
use quorate_core::topology::{Durability, Isolation, Keyspace, Shard};
use quorate_core::{
    Address, ClientId, ClockTime, Context, Effect, Epoch, Input, Instant, Key, KeyRange, Machine, NodeId,
    Outbox, Random, ReplicaId, ReplicaIndex, ShardId, Timestamp, TransactionId, Value, View,
};
use quorate_ir::{Message as Ir, OperationId};
use quorate_tapir::message::{Decision, FoundPage, FoundVersion, SnapshotVersion, ValidatedVersion, Vote};
use quorate_tapir::{Coordinator, CoordinatorConfig, CoordinatorTimer, Message};

use crate::two_shards::{KEYSPACE, key};

const CLIENT: ClientId = ClientId(7);

/// Keys `a` and `b` are held by shard 1, and `x` and `y` by shard 2.
const KEYS: [(&str, u32, usize); 4] = [("a", 1, 0), ("b", 1, 1), ("x", 2, 0), ("y", 2, 1)];

fn named(name: &str) -> Key {
    let (_, shard, number) = KEYS.iter().find(|known| known.0 == name).expect("it has a name");
    key(*shard, *number)
}

fn name_of(wanted: &Key) -> &'static str {
    KEYS.iter().find(|(_, shard, number)| key(*shard, *number) == *wanted).map_or("?", |known| known.0)
}

fn names_of<'a>(keys: impl IntoIterator<Item = &'a Key>) -> String {
    keys.into_iter().map(name_of).collect::<Vec<_>>().join(" ")
}

fn at(micros: u64) -> Timestamp {
    if micros == 0 { Timestamp::ZERO } else { Timestamp { micros, client: CLIENT } }
}

fn value(micros: u64) -> Option<Value> {
    (micros > 0).then(|| Bytes::from(micros.to_string()))
}

/// `1/r0`
fn replica(name: &str) -> ReplicaId {
    let (shard, index) = name.split_once("/r").expect("a shard and a replica");
    ReplicaId { shard: ShardId(shard.parse().unwrap()), index: ReplicaIndex(index.parse().unwrap()) }
}

fn replica_name(replica: ReplicaId) -> String {
    format!("{}/r{}", replica.shard.0, replica.index.0)
}

/// The finding of a replica: the version, with `!` where a write is pending below it, and `+N` where N is the newest.
fn found(word: &str) -> SnapshotVersion {
    let (word, newest) = word.split_once('+').map_or((word, None), |(word, newest)| (word, Some(newest)));
    let micros: u64 = word.trim_end_matches('!').parse().unwrap();
    SnapshotVersion {
        found: FoundVersion { version: at(micros), value: value(micros), absent_below: None },
        newest: newest.map_or(at(micros), |newest| at(newest.parse().unwrap())),
        pending: word.ends_with('!').then(|| at(1)),
    }
}

fn vote(vote: &Vote) -> String {
    match vote {
        Vote::Retry(above) => format!("RETRY above {}", above.micros),
        vote => format!("{vote:?}").to_uppercase(),
    }
}

/// Replicas 0 and so on of each of two shards, of one epoch; the client has them the nearer the earlier they stand here.
fn routes(epoch: Epoch, nearest: &[u8], clock_bound: Option<Duration>) -> Arc<Routes> {
    let nodes: Vec<NodeId> = nearest.iter().map(|index| NodeId(u16::from(*index))).collect();
    let shards = [1, 2].map(|id| Shard::new(ShardId(id), nodes.clone())).to_vec();
    let keyspace = Keyspace {
        epoch,
        clock_bound,
        ..Keyspace::new(KEYSPACE, "k", Isolation::Strict, Durability::Sync, shards)
    };
    Arc::new(Routes::new(keyspace, vec![nearest.iter().copied().map(ReplicaIndex).collect(); 2]))
}

/// A client, and what it knows of the replies that it waits for.
struct Client {
    coordinator: Coordinator,
    clock: u64,
    now: Instant,
    timer: Option<Instant>,
    /// The transaction that it is in.
    transaction: TransactionId,
    epoch: Epoch,
    /// The round or the request that was asked last.
    round: u32,
    /// The view of the replicas that answer.
    view: u64,
    /// The reading of its clock in its last probe.
    probed: ClockTime,
}

impl Client {
    fn new(replicas: u8) -> Self {
        Client::with(replicas, |_| {})
    }

    /// A client with another configuration.
    fn with(replicas: u8, change: impl FnOnce(&mut CoordinatorConfig)) -> Self {
        let mut config = CoordinatorConfig {
            deadlines: false,
            reads_in_turn: false,
            far_round_trip: Duration::ZERO,
            ..CoordinatorConfig::new(CLIENT)
        };
        change(&mut config);
        let mut client = Client {
            coordinator: Coordinator::restore(config, []),
            clock: 1_000,
            now: Instant::START,
            timer: None,
            transaction: TransactionId { client: CLIENT, sequence: 0, attempt: 0 },
            epoch: Epoch::FIRST,
            round: 0,
            view: 0,
            probed: ClockTime::default(),
        };
        let nearest: Vec<u8> = (0..replicas).collect();
        client.learns_of(Epoch::FIRST, &nearest);
        client
    }

    fn step(&mut self, input: InputOf<Coordinator>) -> Vec<String> {
        let mut outbox: OutboxOf<Coordinator> = Outbox::new();
        let (clock, mut random) = (ClockTime::from_micros(self.clock), Random::new(1));
        self.coordinator.step(&mut Context { now: self.now, clock, random: &mut random }, input, &mut outbox);
        let mut told: Vec<(String, String)> = Vec::new();
        for effect in outbox.drain() {
            match effect {
                Effect::Emit(event) => told.push((String::new(), describe_event(&event))),
                Effect::Send { to, message } | Effect::SendUnordered { to, message } => {
                    let Address::Replica(to) = to else { panic!("{message:?} to {to}") };
                    let Some(line) = self.describe(&message) else { continue };
                    match told.last_mut() {
                        Some((to_all, last)) if !to_all.is_empty() && *last == line => {
                            to_all.push(' ');
                            to_all.push_str(&replica_name(to));
                        }
                        _ => told.push((replica_name(to), line)),
                    }
                }
                Effect::SetTimer { timer: CoordinatorTimer::Attention, after } => {
                    self.timer = Some(self.now + after);
                }
                other => panic!("{other:?}"),
            }
        }
        let line =
            |(to, line): (String, String)| if to.is_empty() { line } else { format!("{to} ← {line}") };
        told.into_iter().map(line).collect()
    }

    /// The question of a message; notes what the answers will have to name.
    fn describe(&mut self, message: &Message) -> Option<String> {
        Some(match message {
            Message::QuorumRead { round, timestamp, keys, in_turn, .. } => {
                self.round = *round;
                let in_turn = if *in_turn { " in turn" } else { "" };
                format!("quorum read {round} of {} at {}{in_turn}", names_of(keys), timestamp.micros)
            }
            Message::QuorumScan { round, timestamp, limit, .. } => {
                self.round = *round;
                format!("quorum scan {round} of {limit} at {}", timestamp.micros)
            }
            Message::ReadValidated { keys, validated, otherwise, .. } => {
                self.round = otherwise.as_ref().map_or(self.round, |otherwise| otherwise.round);
                let told = if validated.is_empty() { "" } else { ", and is told" };
                format!("read validated {}{told}", names_of(keys))
            }
            Message::Validated { timestamp, reads } => {
                let read = |read: &quorate_core::ReadVersion| {
                    format!(" {}@{}", name_of(&read.key), read.version.micros)
                };
                let reads: String = reads.iter().map(read).collect();
                format!("validated at {}:{reads}", timestamp.micros)
            }
            Message::ReadMany { request, keys, in_turn, .. } => {
                self.round = *request;
                let in_turn = if *in_turn { " in turn" } else { "" };
                format!("read {}{in_turn}", names_of(keys))
            }
            Message::Read { key, .. } => format!("read {}", name_of(key)),
            Message::ReadInTurn { key, .. } => format!("read {} in turn", name_of(key)),
            Message::Scan { request, limit, .. } => {
                self.round = *request;
                format!("scan {request} of {limit}")
            }
            Message::Ir(Ir::ProposeConsensus { id, operation }) => {
                self.round = id.number;
                let timestamp = operation.timestamp.micros;
                let keys = names_of(operation.transaction.reads.iter().map(|read| &read.key));
                let first =
                    operation.first.map_or(String::new(), |first| format!(", first {}", first.micros));
                format!("prepare {} of {keys} at {timestamp}{first}", id.number)
            }
            Message::Ir(Ir::FinalizeConsensus { id, verdict, view, .. }) => {
                format!("finalize {} as {} in {view}", id.number, vote(verdict))
            }
            Message::CommitPrepared { id, timestamp, .. } => {
                format!("commit {} at {}", id.number, timestamp.micros)
            }
            Message::Ir(Ir::ProposeInconsistent { operation, .. }) => match operation {
                Decision::Commit { timestamp, .. } => format!("commit all at {}", timestamp.micros),
                Decision::Abort { last } => format!("abort, last at {}", last.micros),
            },
            Message::Ir(Ir::FinalizeInconsistent { .. }) => "carry it out".to_owned(),
            Message::Recover { timestamp, .. } => format!("recover what was at {}", timestamp.micros),
            Message::Ir(Ir::HigherView { view }) => format!("higher view {}", view.0),
            Message::ClockProbe { sent, .. } => {
                self.probed = *sent;
                return None;
            }
            other => format!("{other:?}"),
        })
    }

    /// Everything that happens by itself within these milliseconds, and after how many.
    fn waits(&mut self, milliseconds: u64) -> Vec<String> {
        let (begin, end) = (self.now, self.now + Duration::from_millis(milliseconds));
        let mut told = Vec::new();
        while let Some(next) = self.timer.take_if(|timer| *timer <= end) {
            self.now = next;
            let after = (self.now - begin).as_micros() as f64 / 1_000.0;
            let lines = self.step(Input::Timer(CoordinatorTimer::Attention));
            told.extend(lines.into_iter().map(|line| format!("{after} ms: {line}")));
        }
        self.now = end;
        told
    }

    fn does(&mut self, command: Command) -> Vec<String> {
        self.step(Input::Command(command))
    }

    fn begins(&mut self) {
        self.transaction.sequence += 1;
        let (transaction, patience) = (self.transaction, Duration::from_secs(60));
        assert!(self.does(Command::Begin { transaction, keyspace: KEYSPACE, patience }).is_empty());
    }

    fn gets(&mut self, name: &str) -> Vec<String> {
        let (transaction, key) = (self.transaction, named(name));
        self.does(Command::Get { transaction, key })
    }

    /// Begins a transaction that writes these keys, and is asked to commit.
    fn writes(&mut self, names: &[&str]) -> Vec<String> {
        self.begins();
        let transaction = self.transaction;
        for name in names {
            let put = Command::Put { transaction, key: named(name), value: value(1) };
            assert!(self.does(put).is_empty());
        }
        self.does(Command::Commit { transaction })
    }

    /// A replica votes on the latest prepare.
    fn hears_vote(&mut self, from: &str, verdict: Vote) -> Vec<String> {
        let id = OperationId { transaction: self.transaction, number: self.round };
        let view = View(self.view);
        self.hears(from, Message::Ir(Ir::ConsensusReply { id, view, verdict, finalized: false }))
    }

    /// A replica has made a vote final.
    fn hears_confirmed(&mut self, from: &str, verdict: Vote) -> Vec<String> {
        let id = OperationId { transaction: self.transaction, number: self.round };
        let (view, verdict) = (View(self.view), Some(verdict));
        self.hears(from, Message::Ir(Ir::Confirm { id, view, verdict, finalized: true }))
    }

    /// A replica holds the outcome.
    fn hears_told(&mut self, from: &str) -> Vec<String> {
        let id = OperationId { transaction: self.transaction, number: OperationId::INCONSISTENT };
        self.hears(from, Message::Ir(Ir::InconsistentReply { id, view: View(self.view) }))
    }

    fn scans(&mut self, limit: u32) -> Vec<String> {
        let (transaction, range) = (self.transaction, KeyRange { from: Key::from("1"), to: None });
        self.does(Command::Scan { transaction, range, limit })
    }

    /// Begins a read-only transaction, which has a minute for it.
    fn reads(&mut self, names: &[&str], freshness: Freshness) -> Vec<String> {
        self.transaction.sequence += 1;
        self.does(Command::ReadOnly {
            transaction: self.transaction,
            keyspace: KEYSPACE,
            keys: names.iter().copied().map(named).collect(),
            freshness,
            patience: Duration::from_secs(60),
        })
    }

    /// The same of a range.
    fn reads_range(&mut self, from: &str, to: &str, freshness: Freshness) -> Vec<String> {
        self.transaction.sequence += 1;
        self.does(Command::ReadOnlyScan {
            transaction: self.transaction,
            keyspace: KEYSPACE,
            range: KeyRange { from: Key::from(from.to_owned()), to: Some(Key::from(to.to_owned())) },
            limit: 9,
            freshness,
            patience: Duration::from_secs(60),
        })
    }

    fn hears(&mut self, from: &str, message: Message) -> Vec<String> {
        let (from, epoch) = (Address::Replica(replica(from)), self.epoch);
        self.step(Input::Message { from, epoch, message })
    }

    /// A replica answers the latest round of a quorum read.
    fn is_told(&mut self, from: &str, words: &[&str]) -> Vec<String> {
        let (transaction, round, view) = (self.transaction, self.round, View(self.view));
        let found = words.iter().copied().map(found).collect();
        self.hears(from, Message::QuorumReadReply { transaction, round, view, found })
    }

    /// The same with the version of each key, and up to when it is the newest.
    fn is_told_validated(&mut self, from: &str, versions: &[(u64, u64)]) -> Vec<String> {
        let known = |(micros, until): &(u64, u64)| ValidatedVersion {
            found: FoundVersion { version: at(*micros), value: value(*micros), absent_below: None },
            until: at(*until),
        };
        let found = versions.iter().map(known).collect();
        self.hears(from, Message::ReadValidatedReply { transaction: self.transaction, found })
    }

    /// A replica has found a key of this version.
    fn is_answered(&mut self, from: &str, name: &str, version: u64) -> Vec<String> {
        let (transaction, key) = (self.transaction, named(name));
        let (version, value) = (at(version), value(version));
        self.hears(from, Message::ReadReply { transaction, key, version, value })
    }

    fn knows(&mut self, name: &str, reachable: bool) -> Vec<String> {
        self.does(Command::Reachable { replica: replica(name), reachable })
    }

    /// Learns of another epoch, and of what is nearest in it.
    fn learns_of(&mut self, epoch: Epoch, nearest: &[u8]) -> Vec<String> {
        self.epoch = epoch;
        self.does(Command::Route(routes(epoch, nearest, None)))
    }
}

fn describe_event(event: &Event) -> String {
    match event {
        Event::Got { key, value, .. } => {
            let value = value.as_ref().map_or("nothing".into(), |value| String::from_utf8_lossy(value));
            format!("{} = {value}", name_of(key))
        }
        Event::Scanned { entries, next, .. } => {
            let next = next.as_ref().map_or("", |_| " and more");
            format!("scanned {}{next}", names_of(entries.iter().map(|(key, _)| key)))
        }
        Event::Finished { result: Ok(Committed { timestamp, retries, fast, .. }), .. } => {
            let slowly = if *fast { "" } else { ", slowly" };
            format!("committed at {}, {retries} retries{slowly}", timestamp.micros)
        }
        Event::Resolved { outcome, .. } => format!("resolved: {outcome:?}"),
        Event::Forgotten { .. } => "forgotten".to_owned(),
        Event::Finished { result: Err(Failure::Unavailable { missing }), .. } => {
            let missing: Vec<String> = missing.iter().copied().map(replica_name).collect();
            format!("unavailable: {}", missing.join(" "))
        }
        Event::Finished { result: Err(Failure::TooOld { oldest }), .. } => {
            format!("too old: {}", oldest.micros)
        }
        Event::Finished { result: Err(failure), .. } => format!("{failure:?}"),
        other => format!("{other:?}"),
    }
}
