//! A machine by itself: each message that comes, and everything that it leads to, word by word.
//!
//! There are two shards, of three replicas each: `oak`, `elm` and `iris` are keys of the first one, `apple`, `pear` and `fig` of the second. The group 3 is the home of
//! the node on which the machine is, and 4 that of others.

mod client;
mod consumers;
mod decisions;
mod holding;
mod home;
mod hosting;
mod lenders;
mod replacing;
mod shard;

use std::time::Duration;

use quorate_core::ShardId;
use quorate_core::command::Outcome;
use quorate_core::hosted::{Holdings, HostedOnLog, Shards};
use quorate_core::log::LogMachine;
use quorate_core::{
    ClientId, ClockTime, GroupSize, Key, KeyRange, ReplicaIndex, Timestamp, TransactionId, Value, View, Write,
};
use quorate_str::message::{Found, Holder, Life, Message, Period, Session, Wanted};
use quorate_str::{Replica, ReplicaCommand, ReplicaConfig};
use quorate_testscripts::alone::{AloneReplica, Words, replica};

use crate::scripts::describe;

const NOTHING: [&str; 0] = [];

/// The life of each machine that is told of.
const LIFE: Life = Life(7);

/// A machine, alone.
type Alone = AloneReplica<Replica>;

fn txn(client: u64, sequence: u64) -> TransactionId {
    TransactionId { client: ClientId(client), sequence, attempt: 0 }
}

fn at(micros: u64) -> ClockTime {
    ClockTime::from_micros(micros)
}

fn key(word: &str) -> Wanted {
    Wanted::Key(Key::from(word))
}

fn range(from: &str, to: &str, limit: u32) -> Wanted {
    Wanted::Range { range: KeyRange { from: Key::from(from), to: Some(Key::from(to)) }, limit }
}

/// `oak=x elm=y`, ascending; a key without a value is deleted.
fn writes(words: &str) -> Vec<Write> {
    let write = |word: &str| {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let value = (!value.is_empty()).then(|| Value::from(value.to_owned()));
        Write { key: Key::from(key), value }
    };
    words.split_whitespace().map(write).collect()
}

fn committed(micros: u64) -> Outcome {
    Outcome::Committed(Timestamp { micros, client: ClientId(1) })
}

fn words() -> Words<Replica> {
    let (message, entry, event) = (describe::message, describe::entry, describe::replica_event);
    Words { message, entry, event, assert_invariants: Replica::assert_invariants as fn(&Replica) }
}

/// A machine of this name, which has begun its life and follows.
fn machine(name: &str, change: impl FnOnce(&mut ReplicaConfig)) -> Alone {
    let shards = Shards { first: ShardId(1), count: 2 };
    let mut config = ReplicaConfig::new(replica(name), GroupSize::new(3).unwrap(), shards);
    change(&mut config);
    AloneReplica::new(Replica::new(config), words())
}

/// The effects of a step that contain these words.
fn only(told: Vec<String>, what: &str) -> Vec<String> {
    told.into_iter().filter(|line| line.contains(what)).collect()
}

/// The life in which a machine is, as it has said in the last step.
fn life_of(machine: &Alone) -> Life {
    let life = |message: &Message| match message {
        Message::Hello { life, .. } | Message::AskTime { life } | Message::AskGrant { life, .. } => {
            Some(*life)
        }
        Message::ReadAt { life, .. } => Some(*life),
        _ => None,
    };
    machine.said.iter().find_map(life).expect("it has said so")
}
