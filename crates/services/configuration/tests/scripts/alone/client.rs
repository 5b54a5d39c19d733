//! A client whose replicas say what the script says: a coordinator of transactions, or a subscriber.
//!
//! | command | meaning |
//! |---|---|
//! | `r0 #1 got 9 40 a=x@4` | a replica answers: a revision, how far it knows the log, what it has found; `e2 r0 …` under the third membership |
//! | `r0 #^ got …`, `r0 #^2 …` | the same about the last question, or about the second before it |
//! | `wait 500` | time passes |
//! | `route 0 r1 r2 r0` | the client learns of a membership, and how near its replicas are |
//! | of a coordinator: | |
//! | `bounded 0 r1 r2 r0` | it learns that clocks have a bound |
//! | `route-other 9 r2 r1 r0` | it learns of another keyspace, with shards of its own |
//! | `begin 7`, `begin 7 500` | a transaction begins, with a minute or so many milliseconds |
//! | `get 7 a b`, `scan 7 a.. 3`, `put 7 a x`, `delete 7 a`, `commit 7`, `abort 7` | what it does |
//! | `read 7 a b`, `read 7 past a`, `read 7 bound a`, `scan-once 7 a.. 3` | a read by itself; of the past; by clocks |
//! | `resolve c8/5 500`, `resolve c8/5 500 1 2` | what became of a transaction of these shards, of the configuration's unless they are named |
//! | `down r1`, `up r1` | its connection is broken, or there again |
//! | `unsupported 7` | what the configuration does not do |
//! | of a subscriber: | |
//! | `watch 1 a..`, `unwatch 1` | a copy of a range |
//! | `hold 1 9000`, `release 1` | a lease |
//! | `write 5 a=x`, `write 5 500 a=x` | a conditional write, with a minute or so many milliseconds |
//! | `show` | its copies and leases |

use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use quorate_configuration::{
    Coordinator, CoordinatorConfig, Message, Subscriber, SubscriberCommand, SubscriberConfig,
};
use quorate_core::command::{Command, Freshness, Routes, SetCall};
use quorate_core::hosted::HostedCoordinator;
use quorate_core::machine::{InputOf, OutboxOf};
use quorate_core::topology::{Durability, Isolation, Keyspace, Shard};
use quorate_core::{
    Address, ClientId, ClockTime, Context, Effect, Epoch, GroupSize, Input, Instant, Key, KeyspaceId,
    Machine, NodeId, Outbox, Random, ReplicaId, ReplicaIndex, ShardId, Timestamp,
};

use super::super::describe;
use super::{since_start, words};

const ME: ClientId = ClientId(7);
const SHARD: ShardId = ShardId(0);
const KEYSPACE: KeyspaceId = KeyspaceId(5);
const PATIENCE: Duration = Duration::from_secs(60);

/// A machine that is alone.
pub(super) trait Single:
    Machine<Message = Message, Record = Infallible, Timer: Clone + Debug, Event: Debug>
{
    fn create() -> Self;

    /// The command in a line of a script.
    fn command(words: &[&str]) -> Self::Command;

    fn event(event: &Self::Event) -> String;

    /// Its state, as far as it can be seen from outside.
    fn shown(&self, now: Instant) -> Vec<String>;
}

/// A client, of which the timer fires when it is due.
pub(super) struct Alone<C: Single> {
    machine: C,
    now: Instant,
    timer: Option<(C::Timer, Instant)>,
    random: Random,
    /// The number of its last question.
    last: u64,
}

fn replica(index: ReplicaIndex) -> ReplicaId {
    ReplicaId { shard: SHARD, index }
}

impl<C: Single> Alone<C> {
    pub(super) fn new() -> Self {
        Alone { machine: C::create(), now: Instant::START, timer: None, random: Random::new(1), last: 0 }
    }

    fn step(&mut self, input: InputOf<C>, told: &mut Vec<String>) {
        let mut outbox: OutboxOf<C> = Outbox::new();
        let clock = ClockTime::from_micros(5_000);
        let mut context = Context { now: self.now, clock, random: &mut self.random };
        self.machine.step(&mut context, input, &mut outbox);
        told.extend(outbox.take_ignored().into_iter().map(|reason| format!("✗ {reason}")));
        for effect in outbox.drain() {
            match effect {
                Effect::Send { to, message } | Effect::SendUnordered { to, message } => {
                    let Address::Replica(to) = to else { panic!("{to} is no replica") };
                    self.last = self.last.max(message.request());
                    told.push(format!("{} ← {}", to.index, describe::in_full(&message)));
                }
                Effect::Emit(event) => told.push(C::event(&event)),
                Effect::SetTimer { timer, after } => {
                    told.push(format!("looks again in {} ms", after.as_millis()));
                    self.timer = Some((timer, self.now + after));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    pub(super) fn command(&mut self, words: &[&str], told: &mut Vec<String>) {
        match *words {
            ["wait", lasts] => self.wait(self.now + words::milliseconds(lasts), told),
            ["show"] => told.extend(self.machine.shown(self.now)),
            [epoch, from, ref said @ ..]
                if epoch.starts_with('e') && from.starts_with('r') && !said.is_empty() =>
            {
                self.hear(Epoch(words::number(&epoch[1..]) as u32), from, said, told);
            }
            [from, ref said @ ..] if said.first().is_some_and(|first| first.starts_with('#')) => {
                self.hear(Epoch::FIRST, from, said, told);
            }
            _ => self.step(Input::Command(C::command(words)), told),
        }
    }

    fn hear(&mut self, epoch: Epoch, from: &str, said: &[&str], told: &mut Vec<String>) {
        let number = match said[0].strip_prefix("#^") {
            Some("") => format!("#{}", self.last),
            Some(before) => format!("#{}", self.last - words::number(before)),
            None => said[0].to_owned(),
        };
        let message = words::question(ME, &[&[number.as_str()], &said[1..]].concat());
        let from: Address = match from {
            "stranger" => ReplicaId { shard: ShardId(9), index: ReplicaIndex(0) }.into(),
            "c8" => ClientId(8).into(),
            from => replica(words::replica(from)).into(),
        };
        self.step(Input::Message { from, epoch, message }, told);
    }

    fn wait(&mut self, until: Instant, told: &mut Vec<String>) {
        while let Some((timer, at)) = self.timer.take_if(|(_, at)| *at <= until) {
            self.now = at;
            let mut lines = Vec::new();
            self.step(Input::Timer(timer), &mut lines);
            if lines.is_empty() {
                lines.push("finds nothing to do".to_owned());
            }
            told.extend(lines.into_iter().map(|line| format!("{}: {line}", since_start(at))));
        }
        self.now = until;
    }
}

/// How a membership is told to a client.
fn routes(epoch: &str, nearest: &[&str]) -> Arc<Routes> {
    let nearest: Vec<ReplicaIndex> = nearest.iter().map(|word| words::replica(word)).collect();
    let shard = Shard::new(SHARD, (0..3).map(NodeId).collect());
    let keyspace = Keyspace::new(KEYSPACE, "_system", Isolation::Strict, Durability::Sync, vec![shard]);
    let keyspace = Keyspace { epoch: Epoch(words::number(epoch) as u32), ..keyspace };
    Arc::new(Routes::new(keyspace, vec![nearest]))
}

impl Single for Coordinator {
    fn create() -> Self {
        let config = CoordinatorConfig { scan_page_max: 5, ..CoordinatorConfig::new(ME) };
        Coordinator::restore(config, [])
    }

    fn command(words: &[&str]) -> Command {
        let id = |word| words::transaction(ME, word);
        let keys = |words: &[&str]| words.iter().map(|word| words::key(word)).collect::<Vec<_>>();
        let read = |transaction, keys, freshness| Command::ReadOnly {
            transaction,
            keyspace: KEYSPACE,
            keys,
            freshness,
            patience: PATIENCE,
        };
        let resolve = |of, patience, participants| Command::Resolve {
            transaction: id(of),
            participants,
            timestamp: Timestamp::ZERO,
            patience: words::milliseconds(patience),
        };
        match *words {
            ["route", epoch, ref nearest @ ..] => Command::Route(routes(epoch, nearest)),
            ["bounded", epoch, ref nearest @ ..] => {
                let mut routes = Routes::clone(&routes(epoch, nearest));
                routes.keyspace.clock_bound = Some(Duration::from_millis(10));
                Command::Route(Arc::new(routes))
            }
            ["route-other", other, ref nearest @ ..] => {
                let mut routes = Routes::clone(&routes("0", nearest));
                routes.keyspace.id = KeyspaceId(words::number(other) as u32);
                routes.keyspace.shards = vec![Shard::new(ShardId(7), (0..3).map(NodeId).collect())];
                Command::Route(Arc::new(routes))
            }
            ["down", of] => Command::Reachable { replica: replica(words::replica(of)), reachable: false },
            ["up", of] => Command::Reachable { replica: replica(words::replica(of)), reachable: true },
            ["begin", one] => Command::Begin { transaction: id(one), keyspace: KEYSPACE, patience: PATIENCE },
            ["begin", one, "elsewhere"] => {
                Command::Begin { transaction: id(one), keyspace: KeyspaceId(9), patience: PATIENCE }
            }
            ["begin", one, patience] => Command::Begin {
                transaction: id(one),
                keyspace: KEYSPACE,
                patience: words::milliseconds(patience),
            },
            ["get", one, key] => Command::Get { transaction: id(one), key: words::key(key) },
            ["get", one, ref several @ ..] => Command::GetMany { transaction: id(one), keys: keys(several) },
            ["scan", one, range, limit] => Command::Scan {
                transaction: id(one),
                range: words::range(range),
                limit: words::number(limit) as u32,
            },
            ["put", one, key, value] => {
                Command::Put { transaction: id(one), key: words::key(key), value: Some(words::value(value)) }
            }
            ["delete", one, key] => Command::Put { transaction: id(one), key: words::key(key), value: None },
            ["commit", one] => Command::Commit { transaction: id(one) },
            ["abort", one] => Command::Abort { transaction: id(one) },
            ["read", one, "past", ref several @ ..] => {
                let past = Timestamp { micros: 400, client: ClientId(8) };
                read(id(one), keys(several), Freshness::At(past))
            }
            ["read", one, "old", ref several @ ..] => {
                read(id(one), keys(several), Freshness::Stale(Duration::from_secs(1)))
            }
            ["read", one, "bound", ref several @ ..] => read(id(one), keys(several), Freshness::ClockBound),
            ["read", one, ref several @ ..] => read(id(one), keys(several), Freshness::Strict),
            ["scan-once", one, range, limit] => Command::ReadOnlyScan {
                transaction: id(one),
                keyspace: KEYSPACE,
                range: words::range(range),
                limit: words::number(limit) as u32,
                freshness: Freshness::Strict,
                patience: PATIENCE,
            },
            ["resolve", one, patience] => resolve(one, patience, vec![SHARD]),
            ["resolve", one, patience, ref shards @ ..] => {
                let shards = shards.iter().map(|word| ShardId(words::number(word) as u32));
                resolve(one, patience, shards.collect())
            }
            ["set", one] => {
                let call = SetCall::Count { set: Key::from("s"), element: Key::from("e") };
                Command::Set { transaction: id(one), call }
            }
            ["speculate", one] => Command::CommitSpeculatively { transaction: id(one) },
            _ => panic!("no such command: {words:?}"),
        }
    }

    fn event(event: &quorate_core::command::Event) -> String {
        describe::coordinator_event(event)
    }

    fn shown(&self, _: Instant) -> Vec<String> {
        let rests = if self.is_idle() { "nothing is open" } else { "something is open" };
        vec![format!("{rests}, it speaks under {}", self.epoch(replica(ReplicaIndex(0)).into()))]
    }
}

impl Single for Subscriber {
    fn create() -> Self {
        let members = GroupSize::new(3).expect("three are a group").into();
        let config = SubscriberConfig { scan_page_max: 3, ..SubscriberConfig::new(ME, (SHARD, members)) };
        Subscriber::restore(config, [])
    }

    fn command(words: &[&str]) -> SubscriberCommand {
        let write = |of, patience, what: &[&str]| SubscriberCommand::Write {
            transaction: words::transaction(ME, of),
            write: words::write(ME, what),
            patience,
        };
        match *words {
            ["route", epoch, ref nearest @ ..] => SubscriberCommand::Route(routes(epoch, nearest).members(0)),
            ["watch", watch, of] => {
                SubscriberCommand::Watch { watch: words::number(watch), range: words::range(of) }
            }
            ["unwatch", watch] => SubscriberCommand::Unwatch { watch: words::number(watch) },
            ["hold", number, lasts] => SubscriberCommand::Hold {
                number: words::number(number),
                duration: words::milliseconds(lasts),
            },
            ["release", number] => SubscriberCommand::Release { number: words::number(number) },
            ["write", of, patience, ref what @ ..] if patience.parse::<u64>().is_ok() => {
                write(of, words::milliseconds(patience), what)
            }
            ["write", of, ref what @ ..] => write(of, PATIENCE, what),
            _ => panic!("no such command: {words:?}"),
        }
    }

    fn event(event: &quorate_configuration::SubscriberEvent) -> String {
        describe::subscriber_event(event)
    }

    fn shown(&self, now: Instant) -> Vec<String> {
        let mut told = Vec::new();
        for (watch, copy) in (0..9).filter_map(|watch| Some((watch, self.watched(watch)?))) {
            let keys = copy.keys().map_or("not whole".to_owned(), |keys| {
                keys.iter()
                    .map(|(key, stored)| describe::holds(key, Some(stored)))
                    .collect::<Vec<_>>()
                    .join(", ")
            });
            told.push(format!("watch {watch} {:?} at {}: {keys}", copy.range(), copy.revision()));
        }
        for (number, holding) in (0..9).filter_map(|number| Some((number, self.holding(number)?))) {
            let is_held = if self.holds(number, now) { "is held" } else { "is not held" };
            told.push(format!("lease {number} {is_held}, until {:?}", holding.until()));
        }
        told
    }
}
