//! A client: which site it asks, when it asks again, and what it makes of the answers.
//!
//! It is at the first site, whose keys are `oak` and so on.

mod ending;
mod reading;
mod sessions;
mod timing;

use std::sync::Arc;

use quorate_core::command::{Command, ContainerCall, End, Freshness, Milestone, Routes, SetCall};
use quorate_core::hosted::HostedCoordinator;
use quorate_core::machine::Machine;
use quorate_core::seen::SeenPart;
use quorate_core::topology::{Durability, Isolation, Keyspace, Shard};
use quorate_core::{Epoch, KeyspaceId, NodeId, ReplicaIndex, Timestamp};
use quorate_testscripts::alone::AloneClient;
use quorate_walter::message::{Change, Found, Member};
use quorate_walter::{Container, Coordinator, CoordinatorConfig, Count, Read, Replicas};

use super::*;

const KEYSPACE: KeyspaceId = KeyspaceId(1);
const PATIENCE: Duration = Duration::from_secs(10);

/// A client, and the transaction that it is in.
struct Client {
    alone: AloneClient<Coordinator>,
    sequence: u64,
}

fn keyspace(id: KeyspaceId, first: u32, epoch: Epoch) -> Keyspace {
    let nodes: Vec<NodeId> = (0..3).map(NodeId).collect();
    let shards = (first..first + 3).map(|id| Shard::new(ShardId(id), nodes.clone())).collect();
    Keyspace { epoch, ..Keyspace::new(id, "k", Isolation::ParallelSnapshot, Durability::Sync, shards) }
}

/// Routes of a client to which these sites are near, the nearest first.
fn routes_of(keyspace: Keyspace, order: &[usize]) -> Arc<Routes> {
    let mut routes = Routes::new(keyspace, vec![(0..3).map(ReplicaIndex).collect(); 3]);
    routes.order = order.to_vec();
    Arc::new(routes)
}

fn routes(order: &[usize]) -> Arc<Routes> {
    routes_of(keyspace(KEYSPACE, 1, Epoch::FIRST), order)
}

fn found(value: &str, number: u64) -> Found {
    Found::Register { version: Some(version(0, number)), value: Some(Bytes::from(value.to_owned())) }
}

fn absent() -> Found {
    Found::Register { version: None, value: None }
}

fn count(element: &str, count: i64) -> Count {
    Count { set: Key::from("oak"), element: Key::from(element), count }
}

fn committed(number: u64, snapshot: &[u64], is_slow: bool) -> Ending {
    Ending::Committed { version: version(0, number), snapshot: v(snapshot), is_slow }
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
        assert_eq!(client.does(Command::Route(routes(&[0, 1, 2]))), NOTHING);
        client
    }

    fn does(&mut self, command: Command) -> Vec<String> {
        self.alone.does(command)
    }

    fn id(&self) -> TransactionId {
        txn(1, self.sequence)
    }

    fn begins(&mut self) -> Vec<String> {
        self.sequence += 1;
        let transaction = self.id();
        self.does(Command::Begin { transaction, keyspace: KEYSPACE, patience: PATIENCE })
    }

    fn gets(&mut self, keys: &[&str]) -> Vec<String> {
        let (transaction, keys) = (self.id(), keys.iter().map(|key| Key::from(*key)).collect());
        self.does(Command::GetMany { transaction, keys })
    }

    fn puts(&mut self, key: &str, value: &str) -> Vec<String> {
        let (transaction, key) = (self.id(), Key::from(key));
        self.does(Command::Put { transaction, key, value: Some(Bytes::from(value.to_owned())) })
    }

    fn of_set(&mut self, call: SetCall) -> Vec<String> {
        let transaction = self.id();
        self.does(Command::Set { transaction, call })
    }

    fn adds(&mut self, set: &str, element: &str, by: i32) -> Vec<String> {
        self.of_set(SetCall::Add { set: Key::from(set), element: Key::from(element), by })
    }

    fn reads(&mut self, keys: &[&str]) -> Vec<String> {
        self.sequence += 1;
        let (transaction, keys) = (self.id(), keys.iter().map(|key| Key::from(*key)).collect());
        let (keyspace, freshness, patience) = (KEYSPACE, Freshness::Strict, PATIENCE);
        self.does(Command::ReadOnly { transaction, keyspace, keys, freshness, patience })
    }

    fn commits(&mut self) -> Vec<String> {
        let transaction = self.id();
        self.does(Command::Commit { transaction })
    }

    fn hears(&mut self, from: &str, message: Message) -> Vec<String> {
        self.alone.hears(from, message)
    }

    /// The answer to a read, in period 1.
    fn is_told(&mut self, request: u32, snapshot: &[u64], found: Vec<Found>) -> Vec<String> {
        self.is_told_by("1/r0", request, snapshot, found)
    }

    fn is_told_by(&mut self, from: &str, request: u32, snapshot: &[u64], found: Vec<Found>) -> Vec<String> {
        let (transaction, snapshot, period) = (self.id(), v(snapshot), Period(1));
        self.hears(from, Message::ReadReply { transaction, request, snapshot, found, period })
    }

    fn is_lent(&mut self, from: &str, request: u32, included: u64, found: Vec<Found>) -> Vec<String> {
        let transaction = self.id();
        self.hears(from, Message::CopyReply { transaction, request, included, found })
    }

    fn ends(&mut self, ending: Ending) -> Vec<String> {
        let transaction = self.id();
        self.hears("1/r0", Message::CommitReply { transaction, ending, silent: Vec::new(), is_short: false })
    }

    fn is_too_old(&mut self, refused: Option<u64>, present: &[u64], period: u64) -> Vec<String> {
        let (transaction, refused) = (self.id(), refused.map(Period));
        let (committed, period) = (v(present), Period(period));
        self.hears("1/r0", Message::TooOld { transaction, refused, committed, period })
    }

    fn is_redirected(&mut self, from: &str, leader: u8) -> Vec<String> {
        let transaction = Some(self.id());
        self.hears(from, Message::NotLeading { transaction, leader: ReplicaIndex(leader) })
    }

    fn seen(&self) -> Vec<u64> {
        let seen = self.alone.machine.seen();
        seen.part(KEYSPACE).map(|SeenPart { numbers, .. }| numbers.clone()).unwrap_or_default()
    }
}

/// How a client is told that a transaction is not open.
fn told_not_open(sequence: u64) -> String {
    let id = txn(1, sequence);
    let failure = quorate_core::command::Failure::Invalid(quorate_core::command::Invalid::NotOpen(id));
    format!("c1.{sequence} {failure:?}")
}
