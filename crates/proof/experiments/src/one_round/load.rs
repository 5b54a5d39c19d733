//! Closed-loop clients of one-round transactions: each session runs one after the other.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::hash::FixedMap;
use quorate_core::{ClientId, Instant, Random, ShardId, TransactionId, Value};
use quorate_granola::{Application as _, Class, Command, Event, Failure};
use quorate_procedure::Pair;
use quorate_serializable_shard::{Page, ShardWith};
use quorate_simulator::world::{Happening, World};

use super::deployment::Deployment;
use super::world::{Application, OneRound};
use crate::load::Window;

/// What sessions are woken by.
#[derive(Clone, Copy, Debug)]
pub struct Alarm(usize);

/// A one-round transaction.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// What each of its participants does.
    pub parts: BTreeMap<ShardId, Value>,
    /// What they have to agree on.
    pub class: Class,
    /// What kind it is.
    pub kind: &'static str,
}

/// Where transactions come from.
pub trait Source {
    /// The next one of a session.
    fn draw(&mut self, session: usize, random: &mut Random) -> Transaction;

    /// What is run before anything is measured, one after the other: what has to be there.
    fn population(&self) -> Vec<Transaction>;
}

/// What was measured.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Transactions that were executed, or refused by the application as they should be.
    pub committed: u64,
    /// Their parts: one for each participant.
    pub operations: u64,
    /// Attempts that met a lock, and were tried again.
    pub conflicts: u64,
    /// Transactions whose client gave up: there should be none.
    pub lost: u64,
    /// How long those of one participant took, and those of several.
    pub latencies: [Vec<Duration>; 2],
    /// For how long it was measured.
    pub seconds: f64,
    /// Which share of the time the busiest server worked.
    pub busiest: f64,
    /// What was there at the end, if somebody wanted to look at it.
    pub left: Vec<Pair>,
}

impl Measured {
    /// Transactions a second.
    pub fn throughput(&self) -> f64 {
        self.committed as f64 / self.seconds
    }

    /// Operations a second: one for each participant of a transaction.
    pub fn operations_per_second(&self) -> f64 {
        self.operations as f64 / self.seconds
    }

    /// How long transactions of one participant, or of several, took on average, in milliseconds.
    pub fn latency_ms(&self, are_shared: bool) -> f64 {
        let latencies = &self.latencies[usize::from(are_shared)];
        let sum: Duration = latencies.iter().sum();
        sum.as_secs_f64() * 1_000.0 / latencies.len().max(1) as f64
    }
}

/// No client gives up earlier.
const PATIENCE: Duration = Duration::from_secs(30);

/// For so long nobody asks for anything: the leaders hear the clocks of their backups meanwhile, and only then do they serve.
const QUIET: Duration = Duration::from_millis(500);

/// Sessions begin within so long.
const SPREAD: Duration = Duration::from_millis(5);

struct Session {
    client: usize,
    id: ClientId,
    sequence: u64,
    began: Instant,
    parts: usize,
}

/// Runs a deployment in virtual time; if somebody looks at it afterwards, until everything has ended.
pub fn run<A: Application>(
    deployment: &Deployment,
    source: &mut dyn Source,
    seed: u64,
    window: Window,
    looks: bool,
) -> Measured {
    let (world, clients) = deployment.found::<A>(seed);
    let random = Random::new(seed ^ 0x10ad);
    let open = FixedMap::default();
    let mut load = Load { world, sessions: Vec::new(), open, random, source, is_draining: false };
    load.run_until(load.world.now() + QUIET, &mut Measured::default());
    load.populate(&clients);
    let per_client = deployment.sessions_per_client;
    load.sessions = (0..clients.len() * per_client)
        .map(|at| {
            let (client, id) = clients[at / per_client];
            // Sessions of a client are told apart by their numbers.
            let sequence = ((at % per_client) as u64 + 1) << 32;
            Session { client, id, sequence, began: Instant::START, parts: 0 }
        })
        .collect();
    for session in 0..load.sessions.len() {
        let after = SPREAD.mul_f64(load.random.unit());
        load.world.set_alarm(after, Alarm(session));
    }
    let begin = load.world.now() + window.warm_up;
    load.run_until(begin, &mut Measured::default());
    let servers = 0..load.world.servers();
    let before: Vec<Duration> = servers.clone().map(|node| load.world.processor_time(node)).collect();
    let mut measured = Measured { seconds: window.measured.as_secs_f64(), ..Measured::default() };
    load.run_until(begin + window.measured, &mut measured);
    let worked = servers.map(|node| load.world.processor_time(node) - before[node]);
    measured.busiest = worked.max().unwrap_or_default().as_secs_f64() / measured.seconds;
    if looks {
        load.drain();
        measured.left = load.held();
    }
    measured
}

struct Load<'a, A: Application> {
    world: World<OneRound<A>, Alarm>,
    sessions: Vec<Session>,
    open: FixedMap<TransactionId, usize>,
    random: Random,
    source: &'a mut dyn Source,
    /// True once no session begins anything more.
    is_draining: bool,
}

impl<A: Application> Load<'_, A> {
    /// Writes what has to be there.
    fn populate(&mut self, clients: &[(usize, ClientId)]) {
        let (client, id) = clients[0];
        let population = self.source.population();
        let mut left = population.len();
        for (number, Transaction { parts, class, .. }) in population.into_iter().enumerate() {
            let transaction = TransactionId { client: id, sequence: 1 + number as u64, attempt: 0 };
            let patience = 20 * PATIENCE;
            let execute = Command::Execute { transaction, parts, class, persists: true, patience };
            self.world.command(client, execute);
        }
        let limit = self.world.now() + 20 * PATIENCE;
        while left > 0 {
            match self.world.advance(limit) {
                Some(Happening::Client(_, Event::Finished { result, .. })) => {
                    assert!(result.is_ok(), "the population is written: {result:?}");
                    left -= 1;
                }
                Some(_) => {}
                None => unreachable!("the population is written in time"),
            }
        }
    }

    fn run_until(&mut self, end: Instant, measured: &mut Measured) {
        while let Some(happening) = self.world.advance(end) {
            match happening {
                Happening::Alarm(Alarm(session)) => self.begin(session),
                Happening::Client(_, Event::Finished { transaction, result }) => {
                    let name = TransactionId { attempt: 0, ..transaction };
                    let Some(session) = self.open.remove(&name) else { continue };
                    let Session { began, parts, .. } = self.sessions[session];
                    let latency = self.world.now() - began;
                    measured.conflicts += u64::from(transaction.attempt);
                    match result {
                        // What the application refuses has ended as it should.
                        Ok(_) | Err(Failure::Aborted(_)) => {
                            measured.committed += 1;
                            measured.operations += parts as u64;
                            measured.latencies[usize::from(parts > 1)].push(latency);
                        }
                        Err(_) => measured.lost += 1,
                    }
                    self.begin(session);
                }
                // No faults are injected, and nothing else is told.
                Happening::Client(..)
                | Happening::Fenced(..)
                | Happening::Server(..)
                | Happening::Stopped(_)
                | Happening::Crashed(..) => {}
            }
        }
    }

    /// Waits until everything has ended, everywhere.
    fn drain(&mut self) {
        self.is_draining = true;
        let limit = self.world.now() + 2 * PATIENCE;
        while !self.open.is_empty() && self.world.now() < limit {
            let soon = self.world.now() + Duration::from_millis(10);
            self.run_until(soon, &mut Measured::default());
        }
        let settled = self.world.now() + Duration::from_secs(1);
        self.run_until(settled, &mut Measured::default());
    }

    /// What all repositories hold, by their leaders.
    fn held(&self) -> Vec<Pair> {
        let mut pairs = Vec::new();
        for server in (0..self.world.servers()).filter_map(|server| self.world.server(server)) {
            if server.machine().leads().is_none() {
                continue;
            }
            let mut frozen = server.machine().application().freeze(None);
            while let Some(page) = ShardWith::<A::Library>::next_page(&mut frozen, 1 << 20) {
                if let Page::Keys(keys) = page {
                    pairs.extend(keys.into_iter().map(|(key, held)| (key.to_vec(), held.value.to_vec())));
                }
            }
        }
        pairs
    }

    fn begin(&mut self, session: usize) {
        if self.is_draining {
            return;
        }
        let Transaction { parts, class, .. } = self.source.draw(session, &mut self.random);
        let now = self.world.now();
        let state = &mut self.sessions[session];
        state.sequence += 1;
        (state.began, state.parts) = (now, parts.len());
        let transaction = TransactionId { client: state.id, sequence: state.sequence, attempt: 0 };
        self.open.insert(transaction, session);
        let execute = Command::Execute { transaction, parts, class, persists: true, patience: PATIENCE };
        self.world.command(state.client, execute);
    }
}
