//! A client by itself, and a replica by itself: each message that comes, and everything that it leads to, word by word.
//!
//! `oak`, `elm` and `iris` are keys of the first of two shards, `apple`, `pear` and `fig` of the second.

mod bounds;
mod client;
mod puts;
mod store;

use std::sync::Arc;
use std::time::Duration;

use quorate_core::command::{Command, Freshness, Routes};
use quorate_core::machine::Machine;
use quorate_core::topology::{Durability, Isolation, Keyspace, Shard};
use quorate_core::transaction::KeyVersion;
use quorate_core::{
    ClientId, ClockTime, Epoch, Key, KeyRange, KeyspaceId, NodeId, ReplicaIndex, ShardId, Timestamp,
    TransactionId, Value, View,
};
use quorate_ir::{Message as Ir, OperationId};
use quorate_qwstore::{Coordinator, CoordinatorConfig, Message};
use quorate_testscripts::alone::{AloneClient, replica};

use crate::scripts::describe;

const NOTHING: [&str; 0] = [];
const KEYSPACE: KeyspaceId = KeyspaceId(1);
const PATIENCE: Duration = Duration::from_secs(5);

fn txn(client: u64, sequence: u64) -> TransactionId {
    TransactionId { client: ClientId(client), sequence, attempt: 0 }
}

/// A timestamp of the client 1.
fn at(micros: u64) -> Timestamp {
    if micros == 0 { Timestamp::ZERO } else { Timestamp { micros, client: ClientId(1) } }
}

fn held(key: &str, micros: u64) -> KeyVersion {
    let value = (micros > 0).then(|| Value::from(micros.to_string()));
    KeyVersion { key: Key::from(key), version: at(micros), value }
}

/// A client, and the transaction that it is in.
struct Client {
    alone: AloneClient<Coordinator>,
    sequence: u64,
}

/// Two shards of three replicas each, the nearest first.
fn routes(epoch: Epoch) -> Arc<Routes> {
    let nodes: Vec<NodeId> = (0..3).map(NodeId).collect();
    let shards = (1..=2).map(|id| Shard::new(ShardId(id), nodes.clone())).collect();
    let keyspace =
        Keyspace { epoch, ..Keyspace::new(KEYSPACE, "k", Isolation::Strict, Durability::Sync, shards) };
    Arc::new(Routes::new(keyspace, vec![(0..3).map(ReplicaIndex).collect(); 2]))
}

impl Client {
    fn new() -> Self {
        Client::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut CoordinatorConfig)) -> Self {
        let mut config = CoordinatorConfig::new(ClientId(1));
        change(&mut config);
        let coordinator = Coordinator::restore(config, []);
        let alone = AloneClient::new(coordinator, describe::message, describe::event);
        let mut client = Client { alone, sequence: 0 };
        assert_eq!(client.does(Command::Route(routes(Epoch::FIRST))), NOTHING);
        client
    }

    fn does(&mut self, command: Command) -> Vec<String> {
        self.alone.does(command)
    }

    fn hears(&mut self, from: &str, message: Message) -> Vec<String> {
        self.alone.hears(from, message)
    }

    fn id(&self) -> TransactionId {
        txn(1, self.sequence)
    }

    fn begins(&mut self) {
        self.sequence += 1;
        let transaction = self.id();
        let told = self.does(Command::Begin { transaction, keyspace: KEYSPACE, patience: PATIENCE });
        assert_eq!(told, NOTHING);
    }

    fn gets(&mut self, key: &str) -> Vec<String> {
        let transaction = self.id();
        self.does(Command::Get { transaction, key: Key::from(key) })
    }

    fn scans(&mut self, from: &str, limit: u32) -> Vec<String> {
        let transaction = self.id();
        let range = KeyRange { from: Key::from(from), to: Some(Key::from("z")) };
        self.does(Command::Scan { transaction, range, limit })
    }

    /// Puts, and tells what is sent to the replicas of a shard only once.
    fn puts(&mut self, key: &str, value: &str) -> Vec<String> {
        let (transaction, key) = (self.id(), Key::from(key));
        let told = self.does(Command::Put { transaction, key, value: Some(Value::from(value.to_owned())) });
        of_all(told)
    }

    fn commits(&mut self) -> Vec<String> {
        let transaction = self.id();
        self.does(Command::Commit { transaction })
    }

    /// A replica has recorded the put of this number.
    fn is_recorded(&mut self, from: &str, put: u64, view: u64) -> Vec<String> {
        let id = OperationId { transaction: txn(1, put), number: OperationId::INCONSISTENT };
        self.hears(from, Message::Ir(Ir::InconsistentReply { id, view: View(view) }))
    }

    fn is_late(&mut self, from: &str, put: u64, refusal: u64, clock: u64) -> Vec<String> {
        let (put, clock) = (txn(1, put), ClockTime::from_micros(clock));
        of_all(self.hears(from, Message::Late { put, refusal: at(refusal), clock }))
    }

    fn is_told(&mut self, from: &str, key: &str, micros: u64) -> Vec<String> {
        let KeyVersion { key, version, value } = held(key, micros);
        let transaction = self.id();
        self.hears(from, Message::ReadReply { transaction, key, version, value })
    }
}

/// A message to all three replicas of a shard is told once, as `1/all ← …`.
fn of_all(told: Vec<String>) -> Vec<String> {
    let mut shortened: Vec<String> = Vec::new();
    for line in &told {
        let to_all = |line: &str| {
            line.replace("/r0 ←", "/all ←").replace("/r1 ←", "/all ←").replace("/r2 ←", "/all ←")
        };
        let same = told.iter().filter(|other| to_all(other) == to_all(line)).count();
        let line = if same == 3 { to_all(line) } else { line.clone() };
        if !shortened.contains(&line) {
            shortened.push(line);
        }
    }
    shortened
}

fn not_open(sequence: u64) -> String {
    let invalid = quorate_core::command::Invalid::NotOpen(txn(1, sequence));
    format!("c1.{sequence} INVALID: {invalid}")
}
