//! Closed-loop clients: each session runs one transaction after the other and attempts it until it commits.

use std::time::Duration;

use quorate_core::command::Milestone;
use quorate_core::hash::FixedMap;
use quorate_core::{ClientId, Instant, Machine, Random, TransactionId};
use quorate_simulator::cluster::Alarm;
use quorate_simulator::world::{Happening, Protocol, World};
use quorate_str::tuner::Degree;

use crate::deployment::{Deployed, Deployment, Founded, MOMENT};

/// The time that is measured, and the time before.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Transactions that end earlier do not count: queues and estimates have to settle.
    pub warm_up: Duration,
    /// How long transactions that end count.
    pub measured: Duration,
}

impl Window {
    /// So many milliseconds of either.
    pub const fn millis(warm_up: u64, measured: u64) -> Self {
        Window { warm_up: Duration::from_millis(warm_up), measured: Duration::from_millis(measured) }
    }
}

/// How long a transaction that has committed and is timed took.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// From its first attempt to its outcome.
    pub all: Duration,
    /// Its commit, from the call to the outcome.
    pub commit: Duration,
    /// The attempt that committed, until then.
    pub read: Duration,
    /// In how many parts it was asked for, each at another shard; an interactive one in one.
    pub parts: usize,
}

/// A milestone that a transaction which has committed has reached.
#[derive(Clone, Copy, Debug)]
pub struct Reached {
    /// The milestone.
    pub milestone: Milestone,
    /// How long after its client was told of the commit.
    pub after: Duration,
}

/// The numbers of a run.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Transactions that committed.
    pub committed: u64,
    /// Of those, the ones that their client had prepared again, at a later timestamp or because they had met a lock.
    pub retried: u64,
    /// Attempts that did not.
    pub aborted: u64,
    /// Of those, the ones whose result the client had been shown before.
    pub misspeculated: u64,
    /// Of those that did not commit, attempts of transactions that had failed ten times before.
    pub starved: u64,
    /// Attempts whose fate the client was not told in time.
    pub unknown: u64,
    /// How long it took until clients saw the results of committed transactions, where these are shown before they are final.
    pub perceived: Vec<Duration>,
    /// Votes that commits passed without.
    pub passed: u64,
    /// How long each committed transaction that is timed took.
    pub took: Vec<Took>,
    /// The milestones that transactions have reached, where clients wait for these.
    pub reached: Vec<Reached>,
    /// For how long the processor of each server worked, as far as work costs something.
    pub servers_worked: Vec<Duration>,
    /// For how long those of all clients did.
    pub clients_worked: Duration,
    /// How many messages left together, as far as work costs something.
    pub messages_per_packet: f64,
    /// For how long was measured.
    pub seconds: f64,
    /// How much each node speculated at the end, where its tuner chooses that.
    pub degrees: Vec<Degree>,
    /// Tuners that were still searching when the measurement began.
    pub searching: usize,
}

impl Measured {
    /// Committed transactions a second.
    pub fn throughput(&self) -> f64 {
        self.committed as f64 / self.seconds
    }

    /// Parts of timed transactions a second.
    pub fn parts_per_second(&self) -> f64 {
        self.took.iter().map(|took| took.parts as u64).sum::<u64>() as f64 / self.seconds
    }

    /// For how long the busiest server worked, as a share of the time.
    pub fn busiest_server(&self) -> f64 {
        let busiest = self.servers_worked.iter().max().copied().unwrap_or_default();
        busiest.as_secs_f64() / self.seconds
    }

    /// The share of committed transactions that were prepared again.
    pub fn retry_rate(&self) -> f64 {
        self.retried as f64 / self.committed.max(1) as f64
    }

    /// Attempts that aborted ÷ attempts that ended.
    pub fn abort_rate(&self) -> f64 {
        self.aborted as f64 / ((self.committed + self.aborted).max(1)) as f64
    }

    /// Attempts that aborted of transactions that had failed ten times before ÷ attempts that aborted.
    pub fn starved_rate(&self) -> f64 {
        self.starved as f64 / self.aborted.max(1) as f64
    }

    /// The latency that this share of committed transactions stayed below, in milliseconds.
    pub fn latency_ms(&self, share: f64) -> f64 {
        self.quantile_ms(share, |took| took.all)
    }

    /// The time that this share of the attempts that committed took at most before the commit, in milliseconds.
    pub fn read_latency_ms(&self, share: f64) -> f64 {
        self.quantile_ms(share, |took| took.read)
    }

    /// The commit latency that this share of committed transactions stayed below, in milliseconds.
    pub fn commit_latency_ms(&self, share: f64) -> f64 {
        self.quantile_ms(share, |took| took.commit)
    }

    /// The time that it took at most until clients saw the results of this share of committed transactions, in milliseconds.
    pub fn perceived_ms(&self, share: f64) -> f64 {
        quantile_ms(self.perceived.clone(), share)
    }

    /// Attempts that aborted after their result had been shown ÷ attempts that ended.
    pub fn misspeculation_rate(&self) -> f64 {
        self.misspeculated as f64 / ((self.committed + self.aborted).max(1)) as f64
    }

    /// The average latency of committed transactions, in milliseconds.
    pub fn mean_latency_ms(&self) -> f64 {
        self.mean_latency_of_ms(|_| true)
    }

    /// The average latency of some of them, in milliseconds; no number if there are none.
    pub fn mean_latency_of_ms(&self, counts: impl Fn(&Took) -> bool) -> f64 {
        let latencies: Vec<Duration> =
            self.took.iter().filter(|took| counts(took)).map(|took| took.all).collect();
        let sum: Duration = latencies.iter().sum();
        sum.as_secs_f64() * 1_000.0 / latencies.len() as f64
    }

    /// The time after its commit within which this share of transactions has reached a milestone, in milliseconds.
    pub fn milestone_ms(&self, milestone: Milestone, share: f64) -> f64 {
        let reached = self.reached.iter().filter(|reached| reached.milestone == milestone);
        quantile_ms(reached.map(|reached| reached.after).collect(), share)
    }

    fn quantile_ms(&self, share: f64, of: impl Fn(&Took) -> Duration) -> f64 {
        quantile_ms(self.took.iter().map(of).collect(), share)
    }
}

/// The duration that this share of all does not exceed, in milliseconds; no number if there are none.
fn quantile_ms(mut durations: Vec<Duration>, share: f64) -> f64 {
    if durations.is_empty() {
        return f64::NAN;
    }
    let at = ((durations.len() - 1) as f64 * share).round() as usize;
    let (_, found, _) = durations.select_nth_unstable(at);
    found.as_secs_f64() * 1_000.0
}

/// The events of a protocol's clients.
pub type EventOf<P> = <<P as Protocol>::Client as Machine>::Event;

/// Runs transactions, in the commands and events of a system's clients.
pub trait Driver<P: Protocol> {
    /// A transaction while it runs.
    type Running;

    /// Does what has to be done before any session begins.
    fn prepare(&mut self, founded: &mut Founded<P>) {
        let _ = founded;
    }

    /// The next transaction of a session.
    fn draw(&mut self, session: usize, random: &mut Random) -> Self::Running;

    /// The name of a client's transaction: that of so many of the session at this place.
    fn sequence(place: u64, number: u64) -> u64;

    /// Begins an attempt, by what it says to the client.
    fn begin(&mut self, running: &mut Self::Running, attempt: TransactionId, say: Say<'_, P>) -> Progress;

    /// The attempt that an event is about; none if no session waits for it.
    fn concerns(event: &EventOf<P>) -> Option<TransactionId>;

    /// Goes on with an attempt.
    fn on_event(&mut self, running: &mut Self::Running, event: EventOf<P>, say: Say<'_, P>) -> Progress;

    /// In how many parts a transaction was asked for, if it is timed.
    fn timed(&self, running: &Self::Running) -> Option<usize>;

    /// True if it asks for the milestones of transactions that commit.
    fn awaits_milestones(&self) -> bool {
        false
    }

    /// The milestone that a transaction has reached, if an event says so.
    fn milestone(_: &EventOf<P>) -> Option<(TransactionId, Milestone)> {
        None
    }
}

/// Gives the client of a session a command.
pub type Say<'a, P> = &'a mut dyn FnMut(<<P as Protocol>::Client as Machine>::Command);

/// How far an attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The session waits for its client.
    Waits,
    /// The session has asked for the outcome.
    Commits,
    /// The transaction has committed.
    Committed {
        /// True if it had been prepared before.
        again: bool,
    },
    /// The transaction is to be tried again.
    Aborted,
    /// The client was not told the outcome in time.
    Unknown,
}

/// Runs a deployment in virtual time.
pub fn run<S: Deployed>(deployment: &Deployment<S>, seed: u64, window: Window) -> Measured {
    Load::start(deployment, seed, window).measure(window)
}

/// The same, and the world that is left once all that was begun has ended everywhere.
pub fn run_to_rest<S: Deployed>(
    deployment: &Deployment<S>,
    seed: u64,
    window: Window,
) -> (Measured, World<S::Machines, Alarm>) {
    let mut load = Load::start(deployment, seed, window);
    let measured = load.measure(window);
    load.drain();
    (measured, load.world)
}

/// The same, and the world as it is when the window ends.
pub fn run_and_look<S: Deployed>(
    deployment: &Deployment<S>,
    seed: u64,
    window: Window,
) -> (Measured, World<S::Machines, Alarm>) {
    let mut load = Load::start(deployment, seed, window);
    let measured = load.measure(window);
    (measured, load.world)
}

/// Sessions begin within so many round trips, so that they do not march in step.
const SPREAD_ROUND_TRIPS: u32 = 50;

/// Milestones are reached within so long.
const MILESTONES_WITHIN: Duration = Duration::from_secs(2);

/// No client gives up earlier.
pub const PATIENCE: Duration = Duration::from_secs(60);

struct Load<P: Protocol, D: Driver<P>> {
    world: World<P, Alarm>,
    server_nodes: usize,
    nodes: usize,
    driver: D,
    sessions: Vec<Session<D::Running>>,
    /// The sessions of transactions that have begun, by the names of the first attempts.
    open: FixedMap<TransactionId, usize>,
    /// When transactions have committed whose milestones are waited for.
    awaited: FixedMap<TransactionId, Instant>,
    /// The milestones of later ones do not count: of these only the quickest are reached within the window.
    awaited_until: Instant,
    think: Duration,
    is_think_drawn: bool,
    random: Random,
    measured_from: Instant,
    measured: Measured,
    /// True once no session begins anything more.
    is_draining: bool,
}

/// One transaction after the other.
struct Session<R> {
    client: usize,
    id: ClientId,
    /// Tells the sessions of a client apart in the names of their transactions.
    place: u64,
    number: u64,
    attempt: u32,
    running: Option<R>,
    began: Instant,
    attempt_began: Instant,
    commit_began: Instant,
}

impl<P: Protocol, D: Driver<P>> Load<P, D> {
    fn start<S>(deployment: &Deployment<S>, seed: u64, window: Window) -> Self
    where
        S: Deployed<Machines = P, Driver = D>,
    {
        let mut founded = S::found(deployment, seed);
        let mut driver = S::driver(&deployment.work);
        driver.prepare(&mut founded);
        let Founded { mut world, server_nodes, clients } = founded;
        let mut random = Random::stream(seed, "sessions of a load");
        let mut sessions = Vec::new();
        let spread = S::SPREAD.min(SPREAD_ROUND_TRIPS * deployment.longest_round_trip());
        for (client, id) in clients {
            for place in 0..deployment.sessions_per_client as u64 {
                world.set_alarm(spread.mul_f64(random.unit()), Alarm::Session(sessions.len()));
                sessions.push(Session {
                    client,
                    id,
                    place,
                    number: 0,
                    attempt: 0,
                    running: None,
                    began: Instant::START,
                    attempt_began: Instant::START,
                    commit_began: Instant::START,
                });
            }
        }
        Load {
            measured_from: world.now() + window.warm_up,
            awaited_until: world.now() + window.warm_up + window.measured.saturating_sub(MILESTONES_WITHIN),
            world,
            server_nodes,
            nodes: server_nodes + deployment.clients,
            driver,
            sessions,
            open: FixedMap::default(),
            awaited: FixedMap::default(),
            think: deployment.think,
            is_think_drawn: deployment.is_think_drawn,
            random,
            measured: Measured { seconds: window.measured.as_secs_f64(), ..Measured::default() },
            is_draining: false,
        }
    }

    fn measure(&mut self, window: Window) -> Measured {
        self.run_until(self.measured_from);
        let before = self.worked();
        let (messages, packets) = (self.world.messages(), self.world.packets());
        self.run_until(self.measured_from + window.measured);
        let mut measured = std::mem::take(&mut self.measured);
        let mut since = self.worked().into_iter().zip(before).map(|(now, then)| now - then);
        measured.servers_worked = since.by_ref().take(self.server_nodes).collect();
        measured.clients_worked = since.sum();
        let packets = (self.world.packets() - packets).max(1);
        measured.messages_per_packet = (self.world.messages() - messages) as f64 / packets as f64;
        measured
    }

    /// For how long the processor of each node has worked.
    fn worked(&self) -> Vec<Duration> {
        (0..self.nodes).map(|node| self.world.processor_time(node)).collect()
    }

    fn run_until(&mut self, end: Instant) {
        while let Some(happening) = self.world.advance(end) {
            match happening {
                Happening::Client(_, event) => self.on_event(event),
                Happening::Alarm(Alarm::Session(session)) => self.begin(session),
                // No faults are injected, and replicas have nothing to tell here.
                _ => {}
            }
        }
    }

    /// Waits until everything has ended, everywhere.
    fn drain(&mut self) {
        self.is_draining = true;
        let limit = self.world.now() + PATIENCE;
        while !self.open.is_empty() && self.world.now() < limit {
            self.run_until(self.world.now() + Duration::from_millis(10));
        }
        self.run_until(self.world.now() + Duration::from_secs(1));
    }

    /// Begins the next transaction, or the next attempt at the present one.
    fn begin(&mut self, at: usize) {
        if self.is_draining {
            return;
        }
        let (now, state) = (self.world.now(), &mut self.sessions[at]);
        if state.running.is_none() {
            state.running = Some(self.driver.draw(at, &mut self.random));
            (state.began, state.attempt) = (now, 0);
            state.number += 1;
            self.open.insert(state.name::<P, D>(), at);
        }
        state.attempt_began = now;
        let attempt = TransactionId { attempt: state.attempt, ..state.name::<P, D>() };
        let Session { client, running: Some(running), .. } = state else { return };
        let progress =
            self.driver.begin(running, attempt, &mut |command| self.world.command(*client, command));
        self.on_progress(at, progress);
    }

    fn on_event(&mut self, event: EventOf<P>) {
        if let Some((transaction, milestone)) = D::milestone(&event) {
            return self.on_milestone(transaction, milestone);
        }
        let Some(attempt) = D::concerns(&event) else { return };
        let Some(&at) = self.open.get(&TransactionId { attempt: 0, ..attempt }) else { return };
        let state = &mut self.sessions[at];
        let now = state.attempt;
        let Session { client, running: Some(running), .. } = state else { return };
        if attempt.attempt < now {
            // An attempt that has ended has nothing more to say: a later one is under way. Clients that attempt again by
            // themselves are ahead of what was counted here.
            return;
        }
        let progress =
            self.driver.on_event(running, event, &mut |command| self.world.command(*client, command));
        if matches!(progress, Progress::Committed { .. }) && self.driver.awaits_milestones() {
            self.awaited.insert(attempt, self.world.now());
        }
        self.on_progress(at, progress);
    }

    fn on_milestone(&mut self, transaction: TransactionId, milestone: Milestone) {
        let now = self.world.now();
        let committed = match milestone {
            Milestone::Durable => self.awaited.get(&transaction).copied(),
            Milestone::Visible => self.awaited.remove(&transaction),
        };
        let counts =
            |committed: &Instant| *committed >= self.measured_from && *committed < self.awaited_until;
        if let Some(committed) = committed.filter(counts) {
            self.measured.reached.push(Reached { milestone, after: now - committed });
        }
    }

    fn on_progress(&mut self, at: usize, progress: Progress) {
        let (now, state, measured) = (self.world.now(), &mut self.sessions[at], &mut self.measured);
        let counts = now >= self.measured_from;
        match progress {
            Progress::Waits => return,
            Progress::Commits => {
                state.commit_began = now;
                return;
            }
            Progress::Aborted => {
                state.attempt += 1;
                measured.aborted += u64::from(counts);
                let pause = back_off(now - state.attempt_began, state.attempt, &mut self.random);
                return self.world.set_alarm(pause + MOMENT, Alarm::Session(at));
            }
            Progress::Committed { again } if counts => {
                measured.committed += 1;
                measured.retried += u64::from(again);
                let took = |parts| Took {
                    all: now - state.began,
                    commit: now - state.commit_began,
                    read: state.commit_began - state.attempt_began,
                    parts,
                };
                let timed = state.running.as_ref().and_then(|running| self.driver.timed(running));
                measured.took.extend(timed.map(took));
            }
            Progress::Committed { .. } => {}
            Progress::Unknown => measured.unknown += u64::from(counts),
        }
        state.running = None;
        self.open.remove(&state.name::<P, D>());
        if self.think.is_zero() {
            self.begin(at);
        } else {
            let times = if self.is_think_drawn { -(1.0 - self.random.unit()).ln() } else { 1.0 };
            self.world.set_alarm(self.think.mul_f64(times), Alarm::Session(at));
        }
    }
}

impl<R> Session<R> {
    /// The first attempt at the present transaction.
    fn name<P: Protocol, D: Driver<P, Running = R>>(&self) -> TransactionId {
        TransactionId { client: self.id, sequence: D::sequence(self.place, self.number), attempt: 0 }
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
    use std::sync::Arc;

    use super::*;
    use crate::deployment::Clocks;
    use crate::one_round::counters::Additions;
    use crate::one_round::deployment::Coordination;
    use quorate_simulator::world::costs::{Batching, Costs, Operation};
    use quorate_workloads::{Parameters, WorkloadKind};

    const WINDOW: Window = Window::millis(700, 1_000);

    /// Processors that are ten times as slow as they are, so that a second of virtual time does not take long, and one for
    /// each node.
    fn measured(clients: usize, sessions: usize, batching: Batching) -> Measured {
        let costs = Costs { batching, wake_ns: 0.0, ..quorate_simulator::calibrated::costs().times(10.0) };
        let deployment = Deployment {
            clients,
            cores: None,
            costs: Some(Arc::new(costs)),
            ..Deployment::on_one_machine(workload(), sessions, Duration::from_micros(20), 1)
        };
        run(&deployment, 1, WINDOW)
    }

    fn workload() -> Parameters {
        Parameters { keys: 100_000, ..Parameters::new(WorkloadKind::Rmw) }
    }

    /// A session that thinks begins a transaction for each latency and thought.
    fn each_session_thinks<S: Deployed>(deployment: &Deployment<S>) {
        for millis in [0, 100, 400] {
            let think = MOMENT + Duration::from_millis(millis);
            let measured = run(&Deployment { think, ..deployment.clone() }, 1, Window::millis(2_000, 20_000));
            let sessions = (deployment.clients * deployment.sessions_per_client) as f64;
            let expected = sessions * 1_000.0 / (measured.mean_latency_ms() + millis as f64);
            let ratio = measured.throughput() / expected;
            assert!((ratio - 1.0).abs() < 0.03, "{millis} ms: {} of {expected}", measured.throughput());
        }
    }

    #[test]
    fn a_thought_between_transactions_costs_the_throughput_that_arithmetic_says() {
        each_session_thinks(&Deployment {
            clients: 6,
            sessions_per_client: 2,
            ..Deployment::new(workload())
        });
        let additions = Additions { repositories: 2, distributed: 0.5, conflicting: 0.0 };
        let plain = Deployment::of_repositories(Coordination::Timestamps, 2, additions);
        let delay = Duration::from_millis(20);
        each_session_thinks(&Deployment { sessions_per_client: 2, ..plain.delayed(delay, delay) });
    }

    /// Sites on a line: four of five replicas make a fast quorum, and three of them a majority.
    #[test]
    fn a_commit_over_five_sites_takes_the_round_trip_to_the_fourth_nearest() {
        let round_trip = |one: u64, other: u64| Duration::from_millis(1 + 20 * one.abs_diff(other));
        let row = |one| (0..5).map(|other| round_trip(one, other)).collect();
        for (site, commit_ms) in [(0, 61.0), (1, 41.0), (2, 41.0), (4, 61.0)] {
            let deployment = Deployment {
                replicas: 5,
                clients: 10,
                region: Some(site),
                round_trips: (0..5).map(row).collect(),
                clocks: Clocks::apart(0.0),
                ..Deployment::new(workload())
            };
            let measured = run(&deployment, 1, Window::millis(2_000, 3_000));
            let (read, commit) = (measured.read_latency_ms(0.5), measured.commit_latency_ms(0.5));
            assert!((commit / commit_ms - 1.0).abs() < 0.06, "site {site}: {commit} ms");
            assert!((1.0..1.2).contains(&read), "site {site}: {read} ms");
        }
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
