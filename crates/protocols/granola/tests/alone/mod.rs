//! A replica by itself: each message that comes, and everything that it leads to, word by word.
//!
//! Scripts tell what a cluster does, where a question that is asked once too often is answered all the same. Here it is one line more.

mod client;
mod consumers;
mod held;
mod hub;
mod shard;
mod strangers;

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::hosted::Shards;
use quorate_core::log::{Confirmation, Log, LogMachine, Position};
use quorate_core::{
    Address, ClientId, ClockTime, Context, Effect, Epoch, GroupSize, Input, Instant, Outbox, Random,
    ReplicaId, ReplicaIndex, ShardId, TransactionId, Value, View,
};
use quorate_granola::{
    Answer, Begin, Class, Ending, Entry, Message, Outcome, Refusal, Replica, ReplicaConfig, ReplicaTimer,
    Reply, Request, Vote,
};

use crate::registers::Registers;
use crate::scripts::describe;

const NOTHING: [&str; 0] = [];

/// A log of one replica, which is stable at once when it is asked to be.
struct OwnLog {
    leads: Option<View>,
    lease_until: Option<Instant>,
    /// Entries that are not stable yet.
    waiting: Vec<Entry>,
    told: Vec<String>,
    position: u64,
    /// How many confirmations were asked for, and how many are there.
    asked: u64,
    confirmed: u64,
}

impl Log<Entry> for OwnLog {
    fn append(&mut self, entry: Entry) -> Option<Position> {
        self.leads?;
        self.position += 1;
        self.told.push(format!("appends {}", describe::entry(&entry)));
        self.waiting.push(entry);
        Some(Position(self.position))
    }

    fn leading(&self) -> Option<View> {
        self.leads
    }

    fn leader(&self) -> ReplicaIndex {
        ReplicaIndex(if self.leads.is_some() { 0 } else { 2 })
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

/// The first replica of a shard of three, and its log.
struct Alone {
    replica: Replica<Registers>,
    log: OwnLog,
    now: Instant,
    clock: u64,
}

fn txn(client: u64, sequence: u64) -> TransactionId {
    TransactionId { client: ClientId(client), sequence, attempt: 0 }
}

fn at(micros: u64) -> ClockTime {
    ClockTime::from_micros(micros)
}

/// `c1` or `2/r0`
fn address(name: &str) -> Address {
    match name.split_once("/r") {
        Some((shard, index)) => Address::Replica(ReplicaId {
            shard: ShardId(shard.parse().unwrap()),
            index: ReplicaIndex(index.parse().unwrap()),
        }),
        None => Address::Client(ClientId(name[1..].parse().unwrap())),
    }
}

fn name(address: Address) -> String {
    match address {
        Address::Replica(replica) => format!("{}/r{}", replica.shard.0, replica.index.0),
        Address::Client(client) => format!("c{}", client.0),
    }
}

fn shards(numbers: &[u32]) -> Vec<ShardId> {
    numbers.iter().copied().map(ShardId).collect()
}

fn done(word: &str) -> Answer {
    Answer::Done(Value::from(word.to_owned()))
}

impl Alone {
    /// A replica of a shard that leads, of four shards.
    fn leading(shard: u32, change: impl FnOnce(&mut ReplicaConfig)) -> Self {
        let mut replica = Alone::following(shard, change);
        replica.leads();
        replica
    }

    fn following(shard: u32, change: impl FnOnce(&mut ReplicaConfig)) -> Self {
        let id = ReplicaId { shard: ShardId(shard), index: ReplicaIndex(0) };
        let keyspace = Shards { first: ShardId(1), count: 4 };
        let mut config = ReplicaConfig::new(id, GroupSize::new(3).unwrap(), keyspace);
        (config.vote_timeout, config.attention_interval) =
            (Duration::from_secs(1), Duration::from_millis(500));
        change(&mut config);
        let (told, waiting) = (Vec::new(), Vec::new());
        let log =
            OwnLog { leads: None, lease_until: None, waiting, told, position: 0, asked: 0, confirmed: 0 };
        Alone { replica: Replica::new(config), log, now: Instant::START, clock: 1_000 }
    }

    /// Does something with the replica, and tells line by line what it leads to.
    fn step(
        &mut self,
        act: impl FnOnce(
            &mut Replica<Registers>,
            &mut Context<'_>,
            &mut OwnLog,
            &mut quorate_core::log::LogOutbox<Replica<Registers>>,
        ),
    ) -> Vec<String> {
        let mut outbox = Outbox::new();
        let (clock, mut random) = (at(self.clock), Random::new(1));
        let mut context = Context { now: self.now, clock, random: &mut random };
        act(&mut self.replica, &mut context, &mut self.log, &mut outbox);
        self.replica.assert_invariants();
        let mut told = std::mem::take(&mut self.log.told);
        told.extend(outbox.take_ignored().into_iter().map(|reason| format!("✗ {reason}")));
        for effect in outbox.drain() {
            match effect {
                Effect::Send { to, message } | Effect::SendUnordered { to, message } => {
                    told.push(format!("{} ← {}", name(to), describe::message(&message)));
                }
                Effect::Emit(event) => told.push(describe::replica_event(&event)),
                Effect::SetTimer { .. } | Effect::CancelTimer(_) => {}
                other => panic!("{other:?}"),
            }
        }
        told
    }

    fn leads(&mut self) -> Vec<String> {
        self.log.leads = Some(View(0));
        self.step(|replica, context, log, outbox| replica.on_leading(context, View(0), log, outbox))
    }

    fn is_deposed(&mut self) -> Vec<String> {
        self.log.leads = None;
        self.log.waiting.clear();
        self.step(|replica, context, _, outbox| replica.on_deposed(context, outbox))
    }

    /// The appended entries become stable.
    fn logs(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        let first = self.log.position - self.log.waiting.len() as u64 + 1;
        for (position, entry) in (first..).zip(std::mem::take(&mut self.log.waiting)) {
            told.extend(self.step(|replica, context, log, outbox| {
                replica.apply(context, Position(position), &entry, log, outbox);
            }));
        }
        told
    }

    /// The log has moved on.
    fn progresses(&mut self) -> Vec<String> {
        self.step(|replica, context, log, outbox| replica.on_progress(context, log, outbox))
    }

    fn hears(&mut self, from: &str, message: Message) -> Vec<String> {
        let input = Input::Message { from: address(from), epoch: Epoch::FIRST, message };
        self.step(|replica, context, log, outbox| replica.step(context, input, log, outbox))
    }

    /// Time passes, and the leader looks after what is old.
    fn attends(&mut self, milliseconds: u64) -> Vec<String> {
        self.now = self.now + Duration::from_millis(milliseconds);
        let input = Input::Timer(ReplicaTimer::Attention);
        self.step(|replica, context, log, outbox| replica.step(context, input, log, outbox))
    }
}
