//! A fake coordinator for tests of the layers above it: keeps a map, commits at once, and fails as it is told to.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorate_core::command::{Command, Committed, Event, Failure, Outcome};
use quorate_core::topology::{Durability, Isolation, Keyspace, Node, Shard, Topology};
use quorate_core::{
    ClientId, Epoch, Key, KeyRange, KeyspaceId, NodeId, ShardId, SiteId, Timestamp, TransactionId, Value,
};
use tokio::time::Instant;

use crate::database::Shared;
use crate::options::Options;
use crate::places::Places;
use crate::session::{Port, Session};
use crate::waiters::Waiters;

/// The fake, shared between the session under test and the test.
#[derive(Clone, Default)]
pub(crate) struct Fake {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    waiters: Waiters,
    data: BTreeMap<Key, Value>,
    open: BTreeMap<TransactionId, BTreeMap<Key, Option<Value>>>,
    heard: Vec<Command>,
    ends: VecDeque<End>,
    outcomes: VecDeque<Option<Outcome>>,
    /// True if nobody hears what became of a transaction.
    forgets_who_asks: bool,
    clock: u64,
}

/// How the next commit ends.
#[derive(Clone, Debug)]
pub(crate) enum End {
    Commit,
    Fail(Failure),
    Never,
}

impl Fake {
    /// A handle on a keyspace of two shards that this fake stands behind.
    pub(crate) fn keyspace(&self, options: Options) -> crate::Keyspace {
        let shards = [1, 2].map(|id| Shard::new(ShardId(id), vec![NodeId(0)]));
        let definition = Keyspace {
            id: KeyspaceId(1),
            name: "accounts".to_owned(),
            isolation: Isolation::Strict,
            durability: Durability::Sync,
            shards: shards.to_vec(),
            epoch: Epoch::FIRST,
            clock_bound: None,
            comparison: None,
        };
        let node = Node { id: NodeId(0), site: SiteId(0), address: "host:1".to_owned() };
        let topology = Topology { sites: vec!["here".to_owned()], nodes: vec![node] };
        let session = Session::new(
            ClientId(7),
            options.open_transactions_max,
            options.commits_in_flight_max,
            self.clone(),
        );
        let places = Places::new((None, String::new()), topology, Arc::default());
        let shared = Arc::new(Shared { session, options, places });
        crate::Keyspace::new(shared, Arc::new(definition), true)
    }

    pub(crate) fn next_ends(&self, ends: impl IntoIterator<Item = End>) {
        self.state.lock().unwrap().ends.extend(ends);
    }

    pub(crate) fn next_outcomes(&self, outcomes: impl IntoIterator<Item = Option<Outcome>>) {
        self.state.lock().unwrap().outcomes.extend(outcomes);
    }

    pub(crate) fn forget_who_asks(&self) {
        self.state.lock().unwrap().forgets_who_asks = true;
    }

    pub(crate) fn busy_for(&self, duration: Duration) {
        self.state.lock().unwrap().waiters.set_busy(KeyspaceId(1), Instant::now() + duration);
    }

    /// What the coordinator was told, without the accesses.
    pub(crate) fn heard(&self) -> Vec<String> {
        let state = self.state.lock().unwrap();
        let told = state.heard.iter().filter_map(|command| match command {
            Command::Begin { transaction, .. } => Some(format!("begin {transaction}")),
            Command::Commit { transaction } => Some(format!("commit {transaction}")),
            Command::Abort { transaction } => Some(format!("abort {transaction}")),
            Command::Resolve { transaction, .. } => Some(format!("resolve {transaction}")),
            _ => None,
        });
        told.collect()
    }

    pub(crate) fn value(&self, key: &'static str) -> Option<Value> {
        self.state.lock().unwrap().data.get(key.as_bytes()).cloned()
    }

    pub(crate) fn open_count(&self) -> usize {
        self.state.lock().unwrap().waiters.open_count()
    }
}

impl Port for Fake {
    fn with(&self, call: &mut dyn FnMut(&mut Waiters, &mut Vec<Command>)) {
        let mut state = self.state.lock().unwrap();
        let mut commands = Vec::new();
        call(&mut state.waiters, &mut commands);
        for command in commands {
            state.heard.push(command.clone());
            if let Some(event) = state.on_command(command) {
                state.waiters.deliver(event);
            }
        }
    }

    fn shut(&self) {}
}

impl State {
    fn on_command(&mut self, command: Command) -> Option<Event> {
        match command {
            Command::Begin { transaction, .. } => {
                self.open.insert(transaction, BTreeMap::new());
                None
            }
            Command::Get { transaction, key } => {
                let own = self.open[&transaction].get(&key).cloned();
                let value = own.unwrap_or_else(|| self.data.get(&key).cloned());
                Some(Event::Got { transaction, key, value })
            }
            Command::Scan { transaction, range, limit } => Some(self.scan(transaction, &range, limit)),
            Command::Put { transaction, key, value } => {
                self.open.get_mut(&transaction).expect("puts follow a begin").insert(key, value);
                None
            }
            Command::Commit { transaction } => self.on_commit(transaction),
            Command::Abort { transaction } => {
                self.open.remove(&transaction);
                Some(Event::Finished { transaction, result: Err(Failure::Aborted) })
            }
            Command::Resolve { .. } if self.forgets_who_asks => None,
            Command::Resolve { transaction, .. } => {
                Some(Event::Resolved { transaction, outcome: self.outcomes.pop_front().flatten() })
            }
            Command::ReadOnly { transaction, keys, .. } => {
                for key in keys {
                    let value = self.data.get(&key).cloned();
                    self.waiters.deliver(Event::Got { transaction, key, value });
                }
                self.open.insert(transaction, BTreeMap::new());
                self.on_commit(transaction)
            }
            Command::ReadOnlyScan { transaction, range, limit, .. } => {
                let scanned = self.scan(transaction, &range, limit);
                self.waiters.deliver(scanned);
                self.open.insert(transaction, BTreeMap::new());
                self.on_commit(transaction)
            }
            Command::Route(_) | Command::Reachable { .. } => None,
        }
    }

    fn scan(&self, transaction: TransactionId, range: &KeyRange, limit: u32) -> Event {
        let mut found = self.data.iter().filter(|(key, _)| range.contains(key));
        let taken = found.by_ref().take(limit as usize);
        let entries = taken.map(|(key, value)| (key.clone(), value.clone())).collect();
        let next = found.next().map(|(key, _)| key.clone());
        Event::Scanned { transaction, entries, next }
    }

    fn on_commit(&mut self, transaction: TransactionId) -> Option<Event> {
        let writes = self.open.remove(&transaction).expect("a commit follows a begin");
        let result = match self.ends.pop_front().unwrap_or(End::Commit) {
            End::Commit => {
                for (key, value) in writes {
                    match value {
                        Some(value) => self.data.insert(key, value),
                        None => self.data.remove(&key),
                    };
                }
                self.clock += 1;
                let timestamp = Timestamp { micros: self.clock, client: transaction.client };
                Ok(Committed { timestamp, fast: true, retries: 0 })
            }
            End::Fail(failure) => Err(failure),
            End::Never => return None,
        };
        Some(Event::Finished { transaction, result })
    }
}
