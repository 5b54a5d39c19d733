//! Closed-loop clients: each session runs one transaction after the other and attempts it until it commits.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::command::{Command, Committed, Event, Failure, Freshness};
use quorate_core::hash::FixedMap;
use quorate_core::{ClientId, Instant, Random, TransactionId};
use quorate_simulator::cluster::{Alarm, Cluster, KEYSPACE};
use quorate_simulator::system::System;
use quorate_simulator::world::Happening;
use quorate_workloads::{Execution, Plan, Step, UniqueValues, Workload};

use crate::deployment::Deployment;

/// What is measured, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Transactions that end earlier do not count: queues and estimates have to settle.
    pub warm_up: Duration,
    /// How long transactions that end count.
    pub measured: Duration,
}

/// What was measured.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Transactions that committed.
    pub committed: u64,
    /// Of those, the ones that were prepared again at a later timestamp.
    pub retried: u64,
    /// Attempts that did not.
    pub aborted: u64,
    /// Attempts whose fate the client was not told in time.
    pub unknown: u64,
    /// How long each committed transaction that is timed took from its first attempt to its outcome.
    pub latencies: Vec<Duration>,
    /// How long the commit of each of them took, from the call to the outcome.
    pub commit_latencies: Vec<Duration>,
    /// How long the attempt that committed took before.
    pub read_latencies: Vec<Duration>,
    /// For how long the processor of each server worked, as far as work costs something.
    pub servers_worked: Vec<Duration>,
    /// For how long those of all clients did.
    pub clients_worked: Duration,
    /// Messages delivered, warm-up included.
    pub messages: u64,
    /// How many messages left together, as far as work costs something.
    pub messages_per_packet: f64,
    /// For how long was measured.
    pub seconds: f64,
}

impl Measured {
    /// Committed transactions a second.
    pub fn throughput(&self) -> f64 {
        self.committed as f64 / self.seconds
    }

    /// For how long the busiest server worked, as a share of the time.
    pub fn busiest_server(&self) -> f64 {
        let busiest = self.servers_worked.iter().max().copied().unwrap_or_default();
        busiest.as_secs_f64() / self.seconds
    }

    /// The share of committed transactions that were prepared again at a later timestamp.
    pub fn retry_rate(&self) -> f64 {
        self.retried as f64 / self.committed.max(1) as f64
    }

    /// Attempts that aborted ÷ attempts that ended.
    pub fn abort_rate(&self) -> f64 {
        self.aborted as f64 / ((self.committed + self.aborted).max(1)) as f64
    }

    /// The latency that this share of committed transactions stayed below, in milliseconds.
    pub fn latency_ms(&self, share: f64) -> f64 {
        quantile_ms(&self.latencies, share)
    }

    /// What this share of the attempts that committed took at most before the commit, in milliseconds.
    pub fn read_latency_ms(&self, share: f64) -> f64 {
        quantile_ms(&self.read_latencies, share)
    }

    /// The average latency of committed transactions, in milliseconds.
    pub fn mean_latency_ms(&self) -> f64 {
        let sum: Duration = self.latencies.iter().sum();
        sum.as_secs_f64() * 1_000.0 / self.latencies.len().max(1) as f64
    }

    /// The commit latency that this share of committed transactions stayed below, in milliseconds.
    pub fn commit_latency_ms(&self, share: f64) -> f64 {
        quantile_ms(&self.commit_latencies, share)
    }
}

fn quantile_ms(durations: &[Duration], share: f64) -> f64 {
    if durations.is_empty() {
        return 0.0;
    }
    let mut sorted = durations.to_vec();
    let at = ((sorted.len() - 1) as f64 * share).round() as usize;
    let (_, found, _) = sorted.select_nth_unstable(at);
    found.as_secs_f64() * 1_000.0
}

/// Runs a deployment in virtual time.
pub fn run<S: System>(deployment: &Deployment<S>, seed: u64, window: Window) -> Measured {
    let mut cluster = deployment.found(seed);
    let mut load = Load::new(&mut cluster, deployment, Random::new(seed ^ 0x10ad), window);
    load.run_until(Instant::START + window.warm_up, &mut cluster);
    let before = worked(&mut cluster);
    let (messages, packets) = (cluster.world.messages(), cluster.world.packets());
    load.run_until(Instant::START + window.warm_up + window.measured, &mut cluster);
    let mut measured = load.measured;
    let mut since = worked(&mut cluster).into_iter().zip(before).map(|(now, then)| now - then);
    measured.servers_worked = since.by_ref().take(cluster.scenario.server_nodes).collect();
    measured.clients_worked = since.sum();
    let packets = (cluster.world.packets() - packets).max(1);
    measured.messages_per_packet = (cluster.world.messages() - messages) as f64 / packets as f64;
    measured.messages = cluster.world.messages();
    measured
}

/// For how long the processor of each node has worked.
fn worked<S: System>(cluster: &mut Cluster<S>) -> Vec<Duration> {
    let nodes = cluster.scenario.server_nodes + cluster.scenario.clients;
    (0..nodes).map(|node| cluster.world.processor_time(node)).collect()
}

/// Sessions begin within so long, and so many round trips, so that they do not march in step.
const SPREAD: Duration = Duration::from_millis(500);
const SPREAD_ROUND_TRIPS: u32 = 50;

/// No client gives up earlier.
const PATIENCE: Duration = Duration::from_secs(60);

struct Load {
    sessions: Vec<Session>,
    by_transaction: FixedMap<TransactionId, usize>,
    workload: Workload,
    kind: Option<&'static str>,
    timed: Option<&'static str>,
    reads_at_once: bool,
    unique: UniqueValues,
    random: Random,
    measured_from: Instant,
    measured: Measured,
}

/// One transaction after the other.
struct Session {
    client: usize,
    id: ClientId,
    /// Tells the sessions of a client apart in the names of their transactions.
    place: u64,
    sequence: u64,
    attempt: u32,
    plan: Option<Arc<Plan>>,
    began: Instant,
    attempt_began: Instant,
    commit_began: Instant,
    execution: Option<Execution>,
}

impl Load {
    fn new<S: System>(
        cluster: &mut Cluster<S>,
        deployment: &Deployment<S>,
        random: Random,
        window: Window,
    ) -> Self {
        let mut load = Load {
            sessions: Vec::new(),
            by_transaction: FixedMap::default(),
            workload: Workload::new(deployment.workload.clone()),
            kind: deployment.kind,
            timed: deployment.timed,
            reads_at_once: deployment.reads_at_once,
            unique: UniqueValues::new(0),
            random,
            measured_from: Instant::START + window.warm_up,
            measured: Measured { seconds: window.measured.as_secs_f64(), ..Measured::default() },
        };
        let spread = SPREAD.min(SPREAD_ROUND_TRIPS * deployment.longest_round_trip());
        for slot in deployment.slots() {
            let (client, id) = cluster.start_client(slot);
            for place in 0..deployment.sessions_per_client as u64 {
                let session = load.sessions.len();
                load.sessions.push(Session {
                    client,
                    id,
                    place,
                    sequence: 0,
                    attempt: 0,
                    plan: None,
                    began: Instant::START,
                    attempt_began: Instant::START,
                    commit_began: Instant::START,
                    execution: None,
                });
                let after = spread.mul_f64(load.random.unit());
                cluster.world.set_alarm(after, Alarm::Session(session));
            }
        }
        load
    }

    fn run_until<S: System>(&mut self, end: Instant, cluster: &mut Cluster<S>) {
        while let Some(happening) = cluster.world.advance(end) {
            match happening {
                Happening::Client(_, event) => self.on_event(event, cluster),
                Happening::Alarm(Alarm::Session(session)) => self.begin_attempt(session, cluster),
                // No faults are injected, and replicas have nothing to tell here.
                Happening::Alarm(
                    Alarm::Trader(_) | Alarm::Strike(_) | Alarm::Membership(_) | Alarm::Poll,
                )
                | Happening::Server(..)
                | Happening::Stopped(_)
                | Happening::Fenced(..)
                | Happening::Crashed(..) => {}
            }
        }
    }

    /// The next transaction of the kind that is wanted.
    fn draw(&mut self) -> Plan {
        loop {
            let plan = self.workload.draw(&mut self.random);
            if self.kind.is_none_or(|kind| plan.kind == kind) {
                return plan;
            }
        }
    }

    fn id(&self, session: usize) -> TransactionId {
        let Session { id, place, sequence, attempt, .. } = self.sessions[session];
        TransactionId { client: id, sequence: (sequence << 16) + place, attempt }
    }

    /// Begins the next transaction, or the next attempt at the present one.
    fn begin_attempt<S: System>(&mut self, session: usize, cluster: &mut Cluster<S>) {
        let now = cluster.world.now();
        if self.sessions[session].plan.is_none() {
            let plan = Arc::new(self.draw());
            let session = &mut self.sessions[session];
            (session.plan, session.began, session.attempt) = (Some(plan), now, 0);
            session.sequence += 1;
        }
        let transaction = self.id(session);
        let state = &mut self.sessions[session];
        let Some(plan) = state.plan.clone() else { return };
        state.attempt_began = now;
        self.by_transaction.insert(transaction, session);
        let (keyspace, patience) = (KEYSPACE, PATIENCE);
        if let Some(keys) = plan.keys_read().filter(|_| self.reads_at_once) {
            state.commit_began = now;
            let freshness = Freshness::Strict;
            let read = Command::ReadOnly { transaction, keyspace, keys, freshness, patience };
            return cluster.world.command(state.client, read);
        }
        state.execution = Some(Execution::new(plan, &mut self.unique, 0));
        cluster.world.command(state.client, Command::Begin { transaction, keyspace, patience });
        self.step(session, cluster);
    }

    /// Does what can be done without waiting for an answer.
    fn step<S: System>(&mut self, session: usize, cluster: &mut Cluster<S>) {
        let transaction = self.id(session);
        let state = &mut self.sessions[session];
        let Some(execution) = &mut state.execution else { return };
        loop {
            let command = match execution.next_step() {
                Step::Put(key, value) => {
                    cluster.world.command(state.client, Command::Put { transaction, key, value });
                    continue;
                }
                Step::Get(key) => Command::Get { transaction, key },
                Step::Scan { range, limit } => Command::Scan { transaction, range, limit },
                Step::Commit => {
                    state.commit_began = cluster.world.now();
                    Command::Commit { transaction }
                }
            };
            cluster.world.command(state.client, command);
            return;
        }
    }

    fn on_event<S: System>(&mut self, event: Event, cluster: &mut Cluster<S>) {
        match event {
            Event::Got { transaction, value, .. } => {
                let Some(&session) = self.by_transaction.get(&transaction) else { return };
                let Some(execution) = &mut self.sessions[session].execution else { return };
                if let Err(error) = execution.got(value) {
                    unreachable!("only values of the workload are written: {error}");
                }
                self.step(session, cluster);
            }
            Event::Scanned { transaction, entries, next } => {
                let Some(&session) = self.by_transaction.get(&transaction) else { return };
                let Some(execution) = &mut self.sessions[session].execution else { return };
                execution.scanned(entries, next);
                self.step(session, cluster);
            }
            Event::Finished { transaction, result } => {
                let Some(session) = self.by_transaction.remove(&transaction) else { return };
                self.on_finished(session, result, cluster);
            }
            // Nothing else is asked for.
            _ => {}
        }
    }

    fn on_finished<S: System>(
        &mut self,
        session: usize,
        result: Result<Committed, Failure>,
        cluster: &mut Cluster<S>,
    ) {
        let now = cluster.world.now();
        let counts = now >= self.measured_from;
        let state = &mut self.sessions[session];
        state.execution = None;
        let pause = match result {
            Ok(committed) => {
                let kind = state.plan.take().map(|plan| plan.kind);
                if counts {
                    self.measured.committed += 1;
                    self.measured.retried += u64::from(committed.retries > 0);
                }
                if counts && self.timed.is_none_or(|timed| kind == Some(timed)) {
                    self.measured.latencies.push(now - state.began);
                    self.measured.commit_latencies.push(now - state.commit_began);
                    self.measured.read_latencies.push(state.commit_began - state.attempt_began);
                }
                Duration::ZERO
            }
            Err(Failure::Unknown { .. }) => {
                // Its name stays in use; nothing fails here, so this tells of an overload.
                state.plan = None;
                self.measured.unknown += u64::from(counts);
                Duration::ZERO
            }
            Err(_) => {
                state.attempt += 1;
                self.measured.aborted += u64::from(counts);
                back_off(now - state.attempt_began, state.attempt, &mut self.random)
            }
        };
        cluster.world.set_alarm(pause + Duration::from_nanos(1), Alarm::Session(session));
    }
}

/// The pause before the next attempt, as the client library draws it: evenly up to the duration of the attempt, doubled
/// with each further one.
fn back_off(attempt: Duration, attempts: u32, random: &mut Random) -> Duration {
    const PAUSE_MIN: Duration = Duration::from_micros(200);
    const PAUSE_MAX: Duration = Duration::from_secs(1);
    const DOUBLINGS_MAX: u32 = 6;
    let bound = attempt.max(PAUSE_MIN) * (1 << (attempts - 1).min(DOUBLINGS_MAX));
    bound.min(PAUSE_MAX).mul_f64(random.unit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_simulator::world::costs::{Batching, Costs, Operation};
    use quorate_workloads::{Parameters, WorkloadKind};

    const WINDOW: Window = Window { warm_up: Duration::from_millis(700), measured: Duration::from_secs(1) };

    /// Processors that are ten times as slow as they are, so that a second of virtual time does not take long, and one for
    /// each node.
    fn measured(clients: usize, sessions: usize, batching: Batching) -> Measured {
        let workload = Parameters { keys: 100_000, ..Parameters::new(WorkloadKind::Rmw) };
        let costs = Costs { batching, wake_ns: 0.0, ..quorate_simulator::calibrated::costs().times(10.0) };
        let deployment = Deployment {
            clients,
            cores: None,
            costs: Some(Arc::new(costs)),
            ..Deployment::on_one_machine(workload, sessions, Duration::from_micros(20), 1)
        };
        run(&deployment, 1, WINDOW)
    }

    /// The nearest server reads, prepares and commits for each transaction: three packets in.
    #[test]
    fn servers_saturate_at_what_a_transaction_costs_and_latency_rises_with_the_queue() {
        let none = Batching::None;
        let (alone, few, many) = (measured(1, 1, none), measured(16, 1, none), measured(64, 1, none));
        let costs = quorate_simulator::calibrated::costs().times(10.0);
        let per_packet = costs.read_ns + costs.received.base_ns;
        let prepare = costs.operations[Operation::Prepare as usize].base_ns;
        let bound = 1e9 / (3.0 * per_packet + prepare);
        assert!(alone.busiest_server() < 0.6, "{}", alone.busiest_server());
        for saturated in [&few, &many] {
            assert!(saturated.busiest_server() > 0.95, "{}", saturated.busiest_server());
            assert!(saturated.throughput() < bound, "{} ≥ {bound}", saturated.throughput());
            assert!(saturated.throughput() > bound / 4.0, "{} of {bound}", saturated.throughput());
        }
        assert!((many.throughput() / few.throughput() - 1.0).abs() < 0.1);
        assert!(few.throughput() > 1.5 * alone.throughput());
        assert!(many.latency_ms(0.5) > 3.0 * few.latency_ms(0.5));
    }

    #[test]
    fn batching_gets_more_out_of_a_processor() {
        let (apart, together) = (measured(1, 256, Batching::None), measured(1, 256, Batching::Turns));
        assert!(together.throughput() > 1.5 * apart.throughput());
    }
}
