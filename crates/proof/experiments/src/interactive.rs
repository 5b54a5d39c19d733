//! Interactive transactions: a session reads and writes step by step, and then commits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::TransactionId;
use quorate_core::command::{Command, Committed, Event, Failure, Freshness, Milestone, SetAnswer, SetCall};
use quorate_core::{Machine, Random, ShardId};
use quorate_simulator::cluster::KEYSPACE;
use quorate_simulator::world::{Happening, Protocol};
use quorate_workloads::retwis_psi;
use quorate_workloads::social::Place;
use quorate_workloads::{
    Execution, Parameters, Plan, Popularity, Step, UniqueValues, Workload, WorkloadKind,
};

use crate::deployment::Founded;
use crate::load::{Driver, EventOf, PATIENCE, Progress, Say};
use crate::walter::objects::Objects;

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
    /// True if every object is read by a request of its own.
    pub reads_apart: bool,
    /// Which users the clients of each site serve, where they serve different ones; none if all serve all.
    pub places: Vec<Place>,
    /// True if users have followers and posts before anything begins, in a Twitter clone over counting sets.
    pub is_populated: bool,
    /// Transactions of single objects instead of those of the workload.
    pub objects: Option<Objects>,
    /// Once a transaction has committed at a local site, its client waits for its milestones, and goes on meanwhile.
    pub awaits_milestones: bool,
    /// How many sessions each client has. It matters where clients serve different users.
    pub sessions_per_client: usize,
}

impl Transactions {
    /// All transactions of a workload, of which those that only read are read-only ones.
    pub fn new(workload: Parameters) -> Self {
        Transactions {
            workload,
            kind: None,
            timed: None,
            reads_at_once: true,
            reads_apart: false,
            places: Vec::new(),
            is_populated: false,
            objects: None,
            awaits_milestones: false,
            sessions_per_client: 1,
        }
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

    fn prepare(&mut self, founded: &mut Founded<P>) {
        if self.work.is_populated {
            self.populate(founded);
        }
    }

    fn draw(&mut self, session: usize, random: &mut Random) -> Running {
        let client = session / self.work.sessions_per_client.max(1);
        if let Some(objects) = &mut self.work.objects {
            return Running { plan: Arc::new(objects.draw(client, random)), execution: None };
        }
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
        let value_bytes_min = self.work.objects.as_ref().map_or(0, |objects| objects.value_bytes);
        let execution = Execution::new(Arc::clone(&running.plan), &mut self.unique, value_bytes_min);
        let execution = if self.work.reads_apart { execution.reading_apart() } else { execution };
        running.execution = Some(execution);
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
            (
                Event::Set { transaction, answer: SetAnswer::Members { members, rest, .. } },
                Some(execution),
            ) => {
                execution.counted_with_objects(members, rest);
                running.step(transaction, say)
            }
            (Event::Finished { transaction, result }, execution) => {
                *execution = None;
                match result {
                    Ok(committed) if self.work.awaits_milestones => {
                        await_milestones(transaction, &committed, say);
                        Progress::Committed { again: committed.retries > 0 }
                    }
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

    fn awaits_milestones(&self) -> bool {
        self.work.awaits_milestones
    }

    fn milestone(event: &EventOf<P>) -> Option<(TransactionId, Milestone)> {
        match event {
            Event::Milestone { transaction, milestone, result: Ok(()) } => Some((*transaction, *milestone)),
            _ => None,
        }
    }
}

/// So many users are populated at a time.
const POPULATED_AT_ONCE: usize = 32;

/// So long after the last of them every site has all of them.
const POPULATION_SPREADS: Duration = Duration::from_secs(2);

impl Interactive {
    /// Gives every user followers and posts. Each client populates those that it serves.
    ///
    /// # Panics
    /// If one cannot be populated: nothing is in the way of that.
    fn populate<P>(&mut self, founded: &mut Founded<P>)
    where
        P: Protocol<Client: Machine<Command = Command, Event = Event>>,
    {
        let users = self.work.workload.keys;
        let serves = |at: usize, user: u64| {
            let places = &self.work.places;
            places.is_empty() || places[at % places.len()].here.contains(&places[0].homes.of(user))
        };
        let mut todo: Vec<Vec<u64>> = (0..founded.clients.len())
            .map(|at| (0..users).filter(|user| serves(at, *user)).collect())
            .collect();
        let mut open: BTreeMap<TransactionId, (usize, Running)> = BTreeMap::new();
        loop {
            for (at, todo) in todo.iter_mut().enumerate() {
                let (client, id) = founded.clients[at];
                while open.values().filter(|(of, _)| *of == at).count() < POPULATED_AT_ONCE
                    && let Some(user) = todo.pop()
                {
                    let plan = Arc::new(retwis_psi::population(user, users));
                    let mut running = Running { plan, execution: None };
                    // Sessions have lower places.
                    let sequence = <Self as Driver<P>>::sequence(u64::from(u16::MAX), user);
                    let transaction = TransactionId { client: id, sequence, attempt: 0 };
                    let say = &mut |command| founded.world.command(client, command);
                    <Self as Driver<P>>::begin(self, &mut running, transaction, say);
                    open.insert(transaction, (at, running));
                }
            }
            if open.is_empty() {
                break;
            }
            let limit = founded.world.now() + PATIENCE;
            let Some(happening) = founded.world.advance(limit) else {
                panic!("{} users cannot be populated", open.len())
            };
            let Happening::Client(_, event) = happening else { continue };
            let Some(transaction) = <Self as Driver<P>>::concerns(&event) else { continue };
            let Some((at, mut running)) = open.remove(&transaction) else { continue };
            let client = founded.clients[at].0;
            let say = &mut |command| founded.world.command(client, command);
            match <Self as Driver<P>>::on_event(self, &mut running, event, say) {
                Progress::Committed { .. } => {}
                Progress::Waits | Progress::Commits => {
                    open.insert(transaction, (at, running));
                }
                ended => panic!("a user cannot be populated: {ended:?}"),
            }
        }
        let spread = founded.world.now() + POPULATION_SPREADS;
        while founded.world.advance(spread).is_some() {}
    }
}

/// Waits until a transaction is durable, and until it is visible.
fn await_milestones(transaction: TransactionId, committed: &Committed, say: &mut dyn FnMut(Command)) {
    let Some(version) = committed.at_site.as_ref().and_then(|at| at.version) else { return };
    // The shards of the keyspace are numbered from one.
    let participants = vec![ShardId(1 + u32::from(version.site))];
    for milestone in Milestone::ALL {
        say(Command::Await {
            transaction,
            participants: participants.clone(),
            timestamp: committed.timestamp,
            milestone,
            patience: PATIENCE,
        });
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
                Step::Members { set, range, from, limit } => {
                    let call = SetCall::Members { set, range, from, limit };
                    (Command::Set { transaction, call }, Progress::Waits)
                }
                Step::GetMany(keys) if execution.reads_apart() => {
                    keys.into_iter().for_each(|key| say(Command::Get { transaction, key }));
                    return Progress::Waits;
                }
                // Only social networks read many keys, over sets, so their keyspaces read several at once.
                Step::GetMany(keys) => (Command::GetMany { transaction, keys }, Progress::Waits),
                Step::Get(key) => (Command::Get { transaction, key }, Progress::Waits),
                Step::Scan { range, limit } => (Command::Scan { transaction, range, limit }, Progress::Waits),
                Step::Commit => (Command::Commit { transaction }, Progress::Commits),
            };
            say(command);
            return progress;
        }
    }
}
