//! A fake coordinator for tests of the layers above it: keeps a map, commits at once, and fails as it is told to.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorate_core::changes::{self, Position};
use quorate_core::command::{Command, Committed, Event, Executed, Failure, NotExecuted, Outcome};
use quorate_core::topology::{Durability, Isolation, Keyspace, Node, Shard, Topology};
use quorate_core::{
    ClientId, ClockTime, Key, KeyRange, KeyspaceId, NodeId, ReplicaId, ReplicaIndex, ShardId, SiteId,
    Timestamp, TransactionId, Value,
};
use quorate_granola::{Answer, Application, Place};
use quorate_procedure::{Answer as Done, Footprint, Procedure, Stop, Store};
use quorate_serializable_shard::{Library, Operation, ShardWith};
use tokio::time::Instant;

use crate::database::Shared;
use crate::options::Options;
use crate::places::Places;
use crate::seen::Kept;
use crate::session::{ChangesReceiver, Port, Session};
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
    /// How often the coordinator was visited.
    visits: usize,
    ends: VecDeque<End>,
    outcomes: VecDeque<Option<Outcome>>,
    /// The state of the shards of a serializable keyspace.
    shards: BTreeMap<ShardId, ShardWith<Tested>>,
    /// The transactions that were executed there.
    executed: BTreeMap<TransactionId, Result<Executed, NotExecuted>>,
    /// The answers to the next one-round transactions and recalls, in place of what they come to.
    one_rounds: VecDeque<NotExecuted>,
    /// The operation that somebody else has all shards do before each of the next one-round transactions.
    meanwhile: VecDeque<Option<Operation>>,
    /// If no read is answered any more: why, which its nodes say when it is under way.
    lost: Option<String>,
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

/// The procedures of the fake: what is deployed is `KEYS`, the keys that a call touches; `ARGUMENTS` stands for what it is called with,
/// and `*` for any key. A call answers with both.
#[derive(Debug)]
pub(crate) enum Tested {}

/// Such a procedure.
#[derive(Debug)]
pub(crate) struct Touches(String);

impl Library for Tested {
    type Module = Touches;

    fn find(_: &str) -> Option<&'static (dyn Procedure + Sync)> {
        None
    }

    fn compile(code: &[u8]) -> Result<Touches, String> {
        String::from_utf8(code.to_vec()).map(Touches).map_err(|error| error.to_string())
    }

    fn failure(_: &Touches) -> Option<String> {
        None
    }
}

impl Procedure for Touches {
    fn call(&self, _: &mut dyn Store, arguments: &[u8]) -> Result<Done, Stop> {
        Ok(Done::Done([self.0.as_bytes(), b" ", arguments].concat()))
    }

    fn footprint(&self, arguments: &[u8]) -> Footprint {
        let arguments = String::from_utf8_lossy(arguments);
        match self.0.replace("ARGUMENTS", &arguments).as_str() {
            "*" => Footprint::Everything,
            keys => Footprint::Keys {
                keys: keys.split_whitespace().map(|key| key.as_bytes().to_vec()).collect(),
                ranges: Vec::new(),
            },
        }
    }
}

impl Fake {
    /// A handle on a keyspace of two shards that this fake stands behind.
    pub(crate) fn keyspace(&self, options: Options) -> crate::Keyspace {
        self.keyspace_of(Isolation::Strict, options)
    }

    /// The same, of this isolation.
    pub(crate) fn keyspace_of(&self, isolation: Isolation, options: Options) -> crate::Keyspace {
        let shards = [1, 2].map(|id| Shard::new(ShardId(id), vec![NodeId(0)]));
        let definition =
            Keyspace::new(KeyspaceId(1), "accounts", isolation, Durability::Sync, shards.to_vec());
        let node = Node { id: NodeId(0), site: SiteId(0), address: "host:1".to_owned() };
        let topology = Topology { sites: vec!["here".to_owned()], nodes: vec![node] };
        let session = Session::new(
            ClientId(7),
            options.open_transactions_max,
            options.commits_in_flight_max,
            self.clone(),
        );
        let places = Places::new((None, String::new()), topology, Arc::default());
        let definition = Arc::new(definition);
        let shared = Arc::new(Shared {
            session,
            options,
            places,
            indexes: Default::default(),
            probabilities: Default::default(),
            kept: Kept::default(),
            system: Arc::clone(&definition),
        });
        crate::Keyspace::new(shared, definition, true)
    }

    pub(crate) fn next_ends(&self, ends: impl IntoIterator<Item = End>) {
        self.state.lock().unwrap().ends.extend(ends);
    }

    /// Sets the answers to the next one-round transactions and recalls, in place of what they come to. Those that have not surely failed
    /// are executed all the same.
    pub(crate) fn next_one_rounds(&self, ends: impl IntoIterator<Item = NotExecuted>) {
        self.state.lock().unwrap().one_rounds.extend(ends);
    }

    /// Sets the operations that somebody else has all shards do before each of the next one-round transactions.
    pub(crate) fn meanwhile(&self, operations: impl IntoIterator<Item = Option<Operation>>) {
        self.state.lock().unwrap().meanwhile.extend(operations);
    }

    pub(crate) fn next_outcomes(&self, outcomes: impl IntoIterator<Item = Option<Outcome>>) {
        self.state.lock().unwrap().outcomes.extend(outcomes);
    }

    pub(crate) fn forget_who_asks(&self) {
        self.state.lock().unwrap().forgets_who_asks = true;
    }

    /// Reads are not answered any more. This is why, which the nodes say when the first of them is under way.
    pub(crate) fn lose(&self, problem: &str) {
        self.state.lock().unwrap().lost = Some(problem.to_owned());
    }

    pub(crate) fn busy_for(&self, duration: Duration) {
        self.state.lock().unwrap().waiters.set_busy(KeyspaceId(1), Instant::now() + duration);
    }

    /// The commands that the coordinator was told, without the accesses.
    pub(crate) fn heard(&self) -> Vec<String> {
        let state = self.state.lock().unwrap();
        let told = state.heard.iter().filter_map(|command| match command {
            Command::Begin { transaction, .. } => Some(format!("begin {transaction}")),
            Command::Commit { transaction } => Some(format!("commit {transaction}")),
            Command::Abort { transaction } => Some(format!("abort {transaction}")),
            Command::Resolve { transaction, .. } => Some(format!("resolve {transaction}")),
            Command::Execute { transaction, class, .. } => Some(format!("execute {transaction} {class:?}")),
            Command::Recall { transaction, .. } => Some(format!("recall {transaction}")),
            Command::Observe { timestamp } => Some(format!("observe {}", timestamp.as_micros())),
            _ => None,
        });
        told.collect()
    }

    /// How often the coordinator was visited.
    pub(crate) fn visits(&self) -> usize {
        self.state.lock().unwrap().visits
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
        state.visits += 1;
        let mut commands = Vec::new();
        call(&mut state.waiters, &mut commands);
        for command in commands {
            state.heard.push(command.clone());
            let told = match command {
                Command::Execute { .. } | Command::Recall { .. } | Command::Observe { .. } => {
                    state.on_one_round(command)
                }
                command => state.on_command(command),
            };
            if let Some(event) = told {
                state.waiters.deliver(event);
            }
        }
    }

    fn home_of(&self, _: TransactionId) -> Option<ShardId> {
        None
    }

    fn ask_changes(&self, _: NodeId, _: ReplicaId, _: changes::Request<Position>) -> Option<ChangesReceiver> {
        None
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
            Command::Get { .. } if self.lost.is_some() => {
                for shard in [1, 2].map(ShardId) {
                    let replica = ReplicaId { shard, index: ReplicaIndex(0) };
                    self.waiters.set_problem(NodeId(0), replica, self.lost.clone());
                }
                None
            }
            Command::Get { transaction, key } => {
                let own = self.open[&transaction].get(&key).cloned();
                let value = own.unwrap_or_else(|| self.data.get(&key).cloned());
                Some(Event::Got { transaction, key, value })
            }
            Command::GetMany { transaction, keys } => {
                for key in keys {
                    let got = self.on_command(Command::Get { transaction, key });
                    if let Some(got) = got {
                        self.waiters.deliver(got);
                    }
                }
                None
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
            _ => None,
        }
    }

    /// The result of a one-round transaction. Each is executed once, at all of its shards or at none.
    fn on_one_round(&mut self, command: Command) -> Option<Event> {
        let (transaction, result) = match command {
            Command::Execute { transaction, parts, .. } => match self.one_rounds.pop_front() {
                Some(NotExecuted::Failed(failure)) if !matches!(failure, Failure::Unknown { .. }) => {
                    (transaction, Err(failure.into()))
                }
                told => {
                    if let Some(operation) = self.meanwhile.pop_front().flatten() {
                        let other = TransactionId { client: ClientId(8), sequence: self.clock, attempt: 0 };
                        let parts = [1, 2].map(|shard| (ShardId(shard), operation.encode()));
                        self.execute(other, &BTreeMap::from(parts)).expect("what others do is done");
                    }
                    let executed = self.execute(transaction, &parts);
                    self.executed.insert(transaction, executed.clone());
                    (transaction, told.map_or(executed, Err))
                }
            },
            Command::Recall { transaction, .. } => {
                let executed = self.executed.get(&transaction).cloned();
                let never = Err(NotExecuted::Failed(Failure::Conflict));
                (transaction, self.one_rounds.pop_front().map_or(executed.unwrap_or(never), Err))
            }
            _ => return None,
        };
        Some(Event::Executed { transaction, result })
    }

    /// Executes a transaction, if no shard refuses its part.
    fn execute(
        &mut self,
        transaction: TransactionId,
        parts: &BTreeMap<ShardId, Value>,
    ) -> Result<Executed, NotExecuted> {
        self.clock += 1;
        let timestamp = ClockTime::from_micros(self.clock);
        let place = Place { timestamp, transaction };
        let mut answers = BTreeMap::new();
        for (shard, operation) in parts {
            let state = self.shards.entry(*shard).or_insert_with(|| Application::from_pages(Vec::new()));
            match state.run(place, operation).expect("nothing is locked") {
                Answer::Done(answer) => _ = answers.insert(*shard, answer),
                Answer::Refused(reason) => {
                    self.shards.values_mut().for_each(|state| state.rewind(place));
                    return Err(NotExecuted::Refused { shard: *shard, reason });
                }
            }
        }
        let timestamp = Timestamp { micros: self.clock, client: transaction.client };
        Ok(Executed { timestamp, answers })
    }

    fn scan(&self, transaction: TransactionId, range: &KeyRange, limit: u32) -> Event {
        let mut data = self.data.clone();
        for (key, value) in self.open.get(&transaction).into_iter().flatten() {
            match value {
                Some(value) => _ = data.insert(key.clone(), value.clone()),
                None => _ = data.remove(key),
            }
        }
        let mut found = data.iter().filter(|(key, _)| range.contains(key));
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
                Ok(Committed::at(timestamp))
            }
            End::Fail(failure) => Err(failure),
            End::Never => return None,
        };
        Some(Event::Finished { transaction, result })
    }
}
