//! A machine by itself: each input that it is given, and everything that it leads to, line by line.
//!
//! Golden scripts tell what a cluster does, where a question that is asked once too often is answered all the same. Here it is one line more. A test
//! states what follows from each step, and so that nothing else does.
//!
//! | line | meaning |
//! |---|---|
//! | `appends …` | an entry goes into the log of a replica |
//! | `1/r0 ← …`, `c1 ← …` | a message to a replica, or to a client |
//! | `✗ …` | an input is dropped, for this reason |
//! | `500 ms: …` | it happens by itself, so long after the beginning of the wait |
//!
//! All else that is told are events.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use quorate_core::log::{Confirmation, Log, LogMachine, LogOutbox, Position};
use quorate_core::machine::{InputOf, OutboxOf};
use quorate_core::{
    Address, ClientId, ClockTime, Context, Effect, Epoch, Input, Instant, Machine, Outbox, Random, ReplicaId,
    ReplicaIndex, ShardId, View,
};

/// The participant of this name: `c1` or `2/r0`.
///
/// # Panics
/// If that is no name.
pub fn address(name: &str) -> Address {
    match name.split_once("/r") {
        Some(_) => Address::Replica(replica(name)),
        None => Address::Client(ClientId(name[1..].parse().expect("clients are numbered"))),
    }
}

/// The replica of this name.
///
/// # Panics
/// If that is not the name of a replica.
pub fn replica(name: &str) -> ReplicaId {
    let (shard, index) = name.split_once("/r").unwrap_or_else(|| panic!("{name} is no replica"));
    ReplicaId {
        shard: ShardId(shard.parse().expect("groups are numbered")),
        index: ReplicaIndex(index.parse().expect("replicas are numbered")),
    }
}

/// The name of a participant.
pub fn name(address: Address) -> String {
    match address {
        Address::Replica(ReplicaId { shard, index }) => format!("{}/r{}", shard.0, index.0),
        Address::Client(client) => format!("c{}", client.0),
    }
}

/// The log of a replica that stands alone: a test says when what was appended is stable.
#[derive(Debug)]
pub struct OwnLog<E> {
    /// The view that the replica leads; it appends nothing if it leads none.
    pub leads: Option<View>,
    /// The leader, if this replica is none.
    pub leader: ReplicaIndex,
    /// Until when nobody else can lead.
    pub lease_until: Option<Instant>,
    /// How many confirmations have come.
    pub confirmed: u64,
    asked: u64,
    position: u64,
    waiting: Vec<E>,
    appended: Vec<E>,
}

impl<E: Clone> Log<E> for OwnLog<E> {
    fn append(&mut self, entry: E) -> Option<Position> {
        self.leads?;
        self.position += 1;
        self.appended.push(entry.clone());
        self.waiting.push(entry);
        Some(Position(self.position))
    }

    fn leading(&self) -> Option<View> {
        self.leads
    }

    fn leader(&self) -> ReplicaIndex {
        self.leader
    }

    fn lease_until(&self) -> Option<Instant> {
        self.lease_until
    }

    fn confirm(&mut self) -> Option<Confirmation> {
        self.leads?;
        self.asked += 1;
        Some(Confirmation(self.asked))
    }

    fn has_confirmed(&self, Confirmation(number): Confirmation) -> bool {
        number <= self.confirmed
    }
}

/// How a protocol tells what happens, each thing in a few words; and what holds between any two steps of a replica.
pub struct Words<M: LogMachine> {
    /// A message.
    pub message: fn(&M::Message) -> String,
    /// An entry of the log.
    pub entry: fn(&M::Entry) -> String,
    /// Something that its host is told.
    pub event: fn(&M::Event) -> String,
    /// Asserts what holds.
    pub assert_invariants: fn(&M),
}

/// A replica that stands alone, with its log and its clock.
pub struct AloneReplica<M: LogMachine> {
    /// The replica.
    pub machine: M,
    /// Its log.
    pub log: OwnLog<M::Entry>,
    /// The instant.
    pub now: Instant,
    /// The reading of its clock, in microseconds. It runs with the time.
    pub clock: u64,
    /// All that it has said in the last step.
    pub said: Vec<M::Message>,
    words: Words<M>,
    timers: BTreeMap<M::Timer, Instant>,
    random: Random,
}

impl<M: LogMachine> AloneReplica<M> {
    /// A replica that follows the second one of its group.
    pub fn new(machine: M, words: Words<M>) -> Self {
        let log = OwnLog {
            leads: None,
            leader: ReplicaIndex(1),
            lease_until: None,
            confirmed: 0,
            asked: 0,
            position: 0,
            waiting: Vec::new(),
            appended: Vec::new(),
        };
        let (timers, random) = (BTreeMap::new(), Random::new(1));
        let said = Vec::new();
        AloneReplica { machine, log, now: Instant::START, clock: 1_000, said, words, timers, random }
    }

    /// Does something with the replica, and tells what it leads to.
    pub fn step(
        &mut self,
        act: impl FnOnce(&mut M, &mut Context<'_>, &mut OwnLog<M::Entry>, &mut LogOutbox<M>),
    ) -> Vec<String> {
        let mut outbox = Outbox::new();
        let clock = ClockTime::from_micros(self.clock);
        let mut context = Context { now: self.now, clock, random: &mut self.random };
        act(&mut self.machine, &mut context, &mut self.log, &mut outbox);
        (self.words.assert_invariants)(&self.machine);
        let appended = std::mem::take(&mut self.log.appended);
        let mut told: Vec<String> =
            appended.iter().map(|entry| format!("appends {}", (self.words.entry)(entry))).collect();
        told.extend(outbox.take_ignored().into_iter().map(|reason| format!("✗ {reason}")));
        self.said.clear();
        for effect in outbox.drain() {
            match effect {
                Effect::Send { to, message } | Effect::SendUnordered { to, message } => {
                    told.push(format!("{} ← {}", name(to), (self.words.message)(&message)));
                    self.said.push(message);
                }
                Effect::Emit(event) => told.push((self.words.event)(&event)),
                Effect::SetTimer { timer, after } => {
                    self.timers.insert(timer, self.now + after);
                }
                Effect::CancelTimer(timer) => {
                    self.timers.remove(&timer);
                }
                Effect::Persist { record, .. } => match record {},
                Effect::Anchor | Effect::Truncate => unreachable!("machines on a log keep no records"),
            }
        }
        told
    }

    /// A message comes.
    pub fn hears(&mut self, from: &str, message: M::Message) -> Vec<String> {
        self.hears_under(Epoch::FIRST, from, message)
    }

    /// A message comes that was sent under this membership.
    pub fn hears_under(&mut self, epoch: Epoch, from: &str, message: M::Message) -> Vec<String> {
        let input = Input::Message { from: address(from), epoch, message };
        self.step(|machine, context, log, outbox| machine.step(context, input, log, outbox))
    }

    /// Its host tells it something.
    pub fn does(&mut self, command: M::Command) -> Vec<String> {
        self.step(|machine, context, log, outbox| machine.step(context, Input::Command(command), log, outbox))
    }

    /// Its life begins.
    pub fn starts(&mut self) -> Vec<String> {
        self.step(|machine, context, log, outbox| machine.step(context, Input::Start, log, outbox))
    }

    /// It leads a view.
    pub fn leads(&mut self, view: u64) -> Vec<String> {
        self.log.leads = Some(View(view));
        self.step(|machine, context, log, outbox| machine.on_leading(context, View(view), log, outbox))
    }

    /// It leads no longer. An entry that is not stable never will be.
    pub fn is_deposed(&mut self) -> Vec<String> {
        self.log.leads = None;
        self.log.position -= self.log.waiting.len() as u64;
        self.log.waiting.clear();
        self.step(|machine, context, _, outbox| machine.on_deposed(context, outbox))
    }

    /// All that was appended until now becomes stable.
    pub fn logs(&mut self) -> Vec<String> {
        let first = self.log.position - self.log.waiting.len() as u64 + 1;
        let waiting = std::mem::take(&mut self.log.waiting);
        let positions = (first..).map(Position).zip(waiting);
        positions.flat_map(|(position, entry)| self.applies(position, &entry)).collect()
    }

    /// An entry that another leader has appended is stable.
    pub fn follows(&mut self, entry: &M::Entry) -> Vec<String> {
        self.log.position += 1;
        self.applies(Position(self.log.position), entry)
    }

    fn applies(&mut self, position: Position, entry: &M::Entry) -> Vec<String> {
        self.step(|machine, context, log, outbox| machine.apply(context, position, entry, log, outbox))
    }

    /// The lease or a confirmation has moved on.
    pub fn progresses(&mut self) -> Vec<String> {
        self.step(|machine, context, log, outbox| machine.on_progress(context, log, outbox))
    }

    /// Everything that happens by itself within these milliseconds.
    pub fn waits(&mut self, milliseconds: u64) -> Vec<String> {
        let (begin, end) = (self.now, self.now + Duration::from_millis(milliseconds));
        let mut told = Vec::new();
        while let Some((timer, at)) = first_until(&self.timers, end) {
            self.timers.remove(&timer);
            self.goes_on_until(at);
            let lines = self.step(|machine, context, log, outbox| {
                machine.step(context, Input::Timer(timer), log, outbox);
            });
            told.extend(lines.into_iter().map(|line| after(begin, at, &line)));
        }
        self.goes_on_until(end);
        told
    }

    fn goes_on_until(&mut self, at: Instant) {
        self.clock += (at - self.now).as_micros() as u64;
        self.now = at;
    }

    /// The state that its entries have led to, in pages.
    pub fn pages(&self) -> Vec<M::Page> {
        let mut frozen = self.machine.freeze();
        std::iter::from_fn(|| M::next_page(&mut frozen)).collect()
    }
}

/// A client that stands alone, with its clock.
pub struct AloneClient<M: Machine<Record = Infallible>> {
    /// The client.
    pub machine: M,
    /// The instant.
    pub now: Instant,
    /// The reading of its clock, in microseconds. It runs with the time.
    pub clock: u64,
    message: fn(&M::Message) -> String,
    event: fn(&M::Event) -> String,
    timers: BTreeMap<M::Timer, Instant>,
    random: Random,
}

impl<M: Machine<Record = Infallible>> AloneClient<M> {
    /// A client, and how its messages and events are told.
    pub fn new(machine: M, message: fn(&M::Message) -> String, event: fn(&M::Event) -> String) -> Self {
        let (timers, random) = (BTreeMap::new(), Random::new(1));
        AloneClient { machine, now: Instant::START, clock: 1_000, message, event, timers, random }
    }

    /// Gives the client an input, and tells what it leads to.
    pub fn step(&mut self, input: InputOf<M>) -> Vec<String> {
        let mut outbox: OutboxOf<M> = Outbox::new();
        let clock = ClockTime::from_micros(self.clock);
        let mut context = Context { now: self.now, clock, random: &mut self.random };
        self.machine.step(&mut context, input, &mut outbox);
        let mut told: Vec<String> =
            outbox.take_ignored().into_iter().map(|reason| format!("✗ {reason}")).collect();
        for effect in outbox.drain() {
            match effect {
                Effect::Send { to, message } | Effect::SendUnordered { to, message } => {
                    told.push(format!("{} ← {}", name(to), (self.message)(&message)));
                }
                Effect::Emit(event) => told.push((self.event)(&event)),
                Effect::SetTimer { timer, after } => {
                    self.timers.insert(timer, self.now + after);
                }
                Effect::CancelTimer(timer) => {
                    self.timers.remove(&timer);
                }
                Effect::Persist { record, .. } => match record {},
                Effect::Anchor | Effect::Truncate => unreachable!("clients keep no records"),
            }
        }
        told
    }

    /// Its host tells it something.
    pub fn does(&mut self, command: M::Command) -> Vec<String> {
        self.step(Input::Command(command))
    }

    /// A message comes.
    pub fn hears(&mut self, from: &str, message: M::Message) -> Vec<String> {
        self.hears_under(Epoch::FIRST, from, message)
    }

    /// A message comes that was sent under this membership.
    pub fn hears_under(&mut self, epoch: Epoch, from: &str, message: M::Message) -> Vec<String> {
        self.step(Input::Message { from: address(from), epoch, message })
    }

    /// Everything that happens by itself within these milliseconds.
    pub fn waits(&mut self, milliseconds: u64) -> Vec<String> {
        let (begin, end) = (self.now, self.now + Duration::from_millis(milliseconds));
        let mut told = Vec::new();
        while let Some((timer, at)) = first_until(&self.timers, end) {
            self.timers.remove(&timer);
            self.goes_on_until(at);
            let lines = self.step(Input::Timer(timer));
            told.extend(lines.into_iter().map(|line| after(begin, at, &line)));
        }
        self.goes_on_until(end);
        told
    }

    fn goes_on_until(&mut self, at: Instant) {
        self.clock += (at - self.now).as_micros() as u64;
        self.now = at;
    }
}

/// The timer that fires first, if it does by then.
fn first_until<T: Clone + Ord>(timers: &BTreeMap<T, Instant>, end: Instant) -> Option<(T, Instant)> {
    let first = timers.iter().min_by_key(|(_, at)| **at).filter(|(_, at)| **at <= end);
    first.map(|(timer, at)| (timer.clone(), *at))
}

fn after(begin: Instant, at: Instant, line: &str) -> String {
    format!("{} ms: {line}", (at - begin).as_micros() as f64 / 1_000.0)
}
