//! Interactive transactions: a session reads and writes step by step, and then commits.

use std::sync::Arc;

use quorate_core::TransactionId;
use quorate_core::command::{Command, Event, Failure, Freshness, SetAnswer, SetCall};
use quorate_core::{Machine, Random};
use quorate_simulator::cluster::KEYSPACE;
use quorate_simulator::world::Protocol;
use quorate_workloads::social::Place;
use quorate_workloads::{
    Execution, Parameters, Plan, Popularity, Step, UniqueValues, Workload, WorkloadKind,
};

use crate::load::{Driver, PATIENCE, Progress, Say};

/// The transactions of a workload.
#[derive(Clone, Debug)]
pub struct Transactions {
    /// The workload.
    pub workload: Parameters,
    /// Only transactions of this kind; of every kind if none is named.
    pub kind: Option<&'static str>,
    /// Only transactions of this kind are timed; all of them if none is named.
    pub timed: Option<&'static str>,
    /// True if a transaction that only reads, and knows its keys beforehand, is a read-only one.
    pub reads_at_once: bool,
    /// Which users the clients of each site serve, where they serve different ones; none if all serve all.
    pub places: Vec<Place>,
    /// How many sessions each client has. It matters where clients serve different users.
    pub sessions_per_client: usize,
}

impl Transactions {
    /// All transactions of a workload, of which those that only read are read-only ones.
    pub fn new(workload: Parameters) -> Self {
        let (kind, timed, places) = (None, None, Vec::new());
        Transactions { workload, kind, timed, reads_at_once: true, places, sessions_per_client: 1 }
    }
}

/// Transactions over a million keys, as popular as the exponent says, whose values are as short as they can be.
pub fn zipf(kind: WorkloadKind, exponent: f64) -> Parameters {
    let popularity = Popularity::Zipf(exponent);
    Parameters { keys: 1_000_000, popularity, value_bytes_min: 0, ..Parameters::new(kind) }
}

/// Runs them.
pub struct Interactive {
    work: Transactions,
    /// The one of all sites, or that of each.
    workloads: Vec<Workload>,
    unique: UniqueValues,
}

/// A transaction while it runs.
pub struct Running {
    plan: Arc<Plan>,
    execution: Option<Execution>,
}

impl Interactive {
    /// A driver that has drawn nothing yet.
    pub fn new(work: Transactions) -> Self {
        let everywhere = [work.workload.place.clone()];
        let places = if work.places.is_empty() { &everywhere[..] } else { &work.places };
        let at = |place: &Place| Workload::new(Parameters { place: place.clone(), ..work.workload.clone() });
        let workloads = places.iter().map(at).collect();
        Interactive { workloads, unique: UniqueValues::new(0), work }
    }
}

impl<P: Protocol<Client: Machine<Command = Command, Event = Event>>> Driver<P> for Interactive {
    type Running = Running;

    fn draw(&mut self, session: usize, random: &mut Random) -> Running {
        let client = session / self.work.sessions_per_client.max(1);
        let site = client % self.workloads.len();
        loop {
            let plan = self.workloads[site].draw(random);
            if self.work.kind.is_none_or(|kind| plan.kind == kind) {
                return Running { plan: Arc::new(plan), execution: None };
            }
        }
    }

    fn sequence(place: u64, number: u64) -> u64 {
        (number << 16) + place
    }

    fn begin(&mut self, running: &mut Running, transaction: TransactionId, say: Say<'_, P>) -> Progress {
        let (keyspace, patience) = (KEYSPACE, PATIENCE);
        if let Some(keys) = running.plan.keys_read().filter(|_| self.work.reads_at_once) {
            let freshness = Freshness::Strict;
            say(Command::ReadOnly { transaction, keyspace, keys, freshness, patience });
            return Progress::Commits;
        }
        running.execution = Some(Execution::new(Arc::clone(&running.plan), &mut self.unique, 0));
        say(Command::Begin { transaction, keyspace, patience });
        running.step(transaction, say)
    }

    fn concerns(event: &Event) -> Option<TransactionId> {
        match event {
            Event::Got { transaction, .. }
            | Event::Scanned { transaction, .. }
            | Event::Set { transaction, .. }
            | Event::Finished { transaction, .. } => Some(*transaction),
            // Nothing else is asked for.
            _ => None,
        }
    }

    fn on_event(&mut self, running: &mut Running, event: Event, say: Say<'_, P>) -> Progress {
        match (event, &mut running.execution) {
            (Event::Got { transaction, key, value }, Some(execution)) if execution.reads_many() => {
                match execution.got_one(key, value) {
                    true => running.step(transaction, say),
                    false => Progress::Waits,
                }
            }
            (Event::Got { transaction, value, .. }, Some(execution)) => {
                if let Err(error) = execution.got(value) {
                    unreachable!("only values of the workload are written: {error}");
                }
                running.step(transaction, say)
            }
            (Event::Scanned { transaction, entries, next }, Some(execution)) => {
                execution.scanned(entries, next);
                running.step(transaction, say)
            }
            (
                Event::Set { transaction, answer: SetAnswer::Elements { counts, rest, .. } },
                Some(execution),
            ) => {
                execution.counted(counts, rest);
                running.step(transaction, say)
            }
            (Event::Finished { result, .. }, execution) => {
                *execution = None;
                match result {
                    Ok(committed) => Progress::Committed { again: committed.retries > 0 },
                    // Its name stays in use; nothing fails here, so this tells of an overload.
                    Err(Failure::Unknown { .. }) => Progress::Unknown,
                    Err(_) => Progress::Aborted,
                }
            }
            _ => Progress::Waits,
        }
    }

    fn timed(&self, running: &Running) -> Option<usize> {
        self.work.timed.is_none_or(|timed| running.plan.kind == timed).then_some(1)
    }
}

impl Running {
    /// Does what can be done without waiting for an answer.
    fn step(&mut self, transaction: TransactionId, say: &mut dyn FnMut(Command)) -> Progress {
        let Some(execution) = &mut self.execution else { return Progress::Waits };
        loop {
            let (command, progress) = match execution.next_step() {
                Step::Put(key, value) => {
                    say(Command::Put { transaction, key, value });
                    continue;
                }
                Step::Change { set, element, by } => {
                    say(Command::Set { transaction, call: SetCall::Add { set, element, by } });
                    continue;
                }
                Step::Elements { set, range, from, limit, enough: _ } => {
                    let call = SetCall::Elements { set, range, from, limit };
                    (Command::Set { transaction, call }, Progress::Waits)
                }
                Step::GetMany(keys) => {
                    keys.into_iter().for_each(|key| say(Command::Get { transaction, key }));
                    return Progress::Waits;
                }
                Step::Get(key) => (Command::Get { transaction, key }, Progress::Waits),
                Step::Scan { range, limit } => (Command::Scan { transaction, range, limit }, Progress::Waits),
                Step::Commit => (Command::Commit { transaction }, Progress::Commits),
            };
            say(command);
            return progress;
        }
    }
}
