//! One client of a load: one transaction after the other.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quorate::{Batch, Error, Key, Keyspace, StepAnswer, Transaction, Value};
use quorate_checker::{MicroOp, RecordedTxn};
use quorate_core::Random;
use quorate_core::command::End;
use quorate_workloads::execution::SeenAtOnce;
use quorate_workloads::{
    Content, Elements, Execution, Operation, Plan, Step, UniqueValues, Workload, WorkloadKind,
};

use super::{HistoryLog, Shared};

/// How long to wait before a cluster that refused is asked again.
pub(super) const REFUSED_PAUSE: Duration = Duration::from_millis(50);

/// Runs transactions until it is told to stop.
pub(super) async fn run(shared: Arc<Shared>, number: u64) {
    let load = &shared.load;
    let number = load.first_client + number;
    let mut client = Client::new(&shared, number);
    // The generators of neighbouring numbers are neighbours; those that they fork are not.
    let mut random = Random::new(load.seed.wrapping_add(number)).fork();
    let mut workload = Workload::new(load.parameters.clone());
    while workload.generations() < load.generations {
        drop(workload.draw(&mut random));
    }
    while !shared.stop.load(Ordering::Relaxed) {
        let plan = Arc::new(workload.draw(&mut random));
        shared.generations.fetch_max(workload.generations(), Ordering::Relaxed);
        if let Some(pause) = client.run(plan).await {
            tokio::time::sleep(pause).await;
        }
    }
}

/// If a generation has more keys, nothing is read at the end.
const FINAL_READ_KEYS_MAX: u64 = 1_000;

/// So many keys and sets are read in one transaction at the end. Each is asked for after the one before, and a social network has several sets for each user: in one transaction
/// all of them would take longer than a transaction may.
const FINAL_READ_OPERATIONS_MAX: usize = 100;

/// So many elements of a set are asked for at a time at the end.
const SET_PAGE: u32 = 1_000;

/// The transactions that read every key of every generation once more, if the history is judged and the keys are few, so that it says how each
/// one ended.
pub(super) fn final_reads(shared: &Shared) -> Vec<Plan> {
    let load = &shared.load;
    if load.history.is_none() || load.parameters.keys_in_all() > FINAL_READ_KEYS_MAX {
        return Vec::new();
    }
    let workload = Workload::new(load.parameters.clone());
    let mut plans = Vec::new();
    for generation in 0..shared.generations.load(Ordering::Relaxed) {
        let keys = workload.universe(generation).into_iter().map(Operation::Get);
        let objects = workload.objects_max();
        let elements = |set| Elements { objects, ..Elements::all(set, End::Least, SET_PAGE) };
        let sets = workload.sets(generation).into_iter().map(elements).map(Operation::Elements);
        let operations: Vec<Operation> = keys.chain(sets).collect();
        let plan = |operations: &[Operation]| Plan { kind: "final read", operations: operations.to_vec() };
        plans.extend(operations.chunks(FINAL_READ_OPERATIONS_MAX).map(plan));
    }
    plans
}

/// Runs them, one after the other.
pub(super) async fn read_everything(shared: &Shared) {
    let load = &shared.load;
    let mut client = Client::new(shared, load.first_client);
    client.ends_early = false;
    // The last word should not rest on what it judges.
    client.reads_at_once = false;
    for plan in final_reads(shared) {
        client.run(Arc::new(plan)).await;
    }
}

pub(super) struct Client<'a> {
    unique: UniqueValues,
    /// Which process this client is in the history. A process that does not know how its transaction ended is gone.
    process: u64,
    /// True if a transaction is not tried again once the load is to stop.
    ends_early: bool,
    /// True if transactions that only read keys which are known beforehand, and those of `hotspot`, read them all at once.
    reads_at_once: bool,
    shared: &'a Shared,
}

/// The attempts at one transaction.
struct Attempts<'a> {
    shared: &'a Shared,
    plan: Arc<Plan>,
    process: u64,
    /// Locked only between the awaits of the transaction, so nobody ever waits for it.
    state: Mutex<State>,
}

/// How far the attempts have come.
struct State {
    unique: UniqueValues,
    count: u64,
    recorded: Option<RecordedTxn>,
    /// The attempt that has done all its reads and writes, and when it was about to commit.
    done: Option<(Execution, Instant)>,
}

impl<'a> Client<'a> {
    pub(super) fn new(shared: &'a Shared, number: u64) -> Self {
        let process = shared.load.history.as_ref().map_or(0, HistoryLog::process);
        let reads_at_once = shared.load.reads_at_once;
        let unique = UniqueValues::after(number, shared.load.drawn);
        Client { unique, process, ends_early: true, reads_at_once, shared }
    }

    /// Runs one transaction to its end, and says how long to wait before the next, if at all.
    pub(super) async fn run(&mut self, plan: Arc<Plan>) -> Option<Duration> {
        if self.shared.load.parameters.kind == WorkloadKind::Counters && !plan.is_read_only() {
            return self.apply(plan).await;
        }
        if self.reads_at_once && (plan.keys_read().is_some() || plan.scan_read().is_some()) {
            return self.read_at_once(plan).await;
        }
        let state = State { unique: self.unique.clone(), count: 0, recorded: None, done: None };
        let attempts =
            Attempts { shared: self.shared, plan, process: self.process, state: Mutex::new(state) };
        let (shared, ends_early) = (self.shared, self.ends_early);
        let names_its_keys = self.reads_at_once && shared.load.parameters.kind == WorkloadKind::Hotspot;
        let is_to_stop = || ends_early && shared.stop.load(Ordering::Relaxed);
        let began = Instant::now();
        let result = shared
            .load
            .keyspace
            .transact_with_receipt(async |txn| {
                if is_to_stop() {
                    return Err(Error::application("the load is stopped"));
                }
                let mut execution = attempts.begin();
                if names_its_keys {
                    read_named(&mut execution, &txn).await?;
                }
                execute(&mut execution, &txn, |ops| attempts.announce(ops)).await?;
                attempts.state().done = Some((execution, Instant::now()));
                Ok(())
            })
            .await;
        let ended = Instant::now();
        let state = attempts.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let result = result.map(|((), receipt)| receipt.fast);
        self.record(&state, &result);
        self.unique = state.unique;
        if let (Ok(_), Some((execution, _))) = (&result, &state.done) {
            shared.tally().note_breaches(&execution.violations());
        }
        if result.is_err() && is_to_stop() {
            shared.tally().aborted += state.count;
            return None;
        }
        let commit = ended - state.done.map_or(began, |(_, commit_began)| commit_began);
        self.count(state.count, result, ended - began, commit)
    }

    /// Runs a transaction that only reads, and whose keys are known beforehand or that is one scan.
    async fn read_at_once(&mut self, plan: Arc<Plan>) -> Option<Duration> {
        let shared = self.shared;
        let state = State { unique: self.unique.clone(), count: 0, recorded: None, done: None };
        let attempts = Attempts { shared, plan, process: self.process, state: Mutex::new(state) };
        let mut execution = attempts.begin();
        let began = Instant::now();
        let read = read_all(&mut execution, &shared.load.keyspace, shared.load.stale).await;
        let took = began.elapsed();
        let mut state = attempts.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let result = read.map(|attempts| {
            state.count = u64::from(attempts);
            state.done = Some((execution, began));
            attempts == 1
        });
        self.record(&state, &result);
        self.unique = state.unique;
        self.count(state.count, result, took, took)
    }

    /// Runs a transaction as one batch.
    async fn apply(&mut self, plan: Arc<Plan>) -> Option<Duration> {
        let load = &self.shared.load;
        let mut execution = Execution::new(plan, &mut self.unique, load.parameters.value_bytes_min);
        let recorded = load
            .history
            .as_ref()
            .map(|history| (history, history.invoke(self.process, &load.site, execution.announced())));
        let began = Instant::now();
        let result = load.keyspace.apply(batch_of(&execution)).await;
        let took = began.elapsed();
        if let Some((history, recorded)) = recorded {
            match &result {
                Ok(applied) => {
                    let seen = seen(&execution, applied.answers());
                    execution.done_at_once(seen);
                    match execution.observed() {
                        Ok(ops) => history.ok(recorded, ops),
                        Err(_) => self.is_gone(history, recorded),
                    }
                }
                Err(Error::Unknown { .. } | Error::AnswersLost { .. } | Error::Closed) => {
                    self.is_gone(history, recorded);
                }
                Err(_) => history.fail(recorded),
            }
        }
        let attempts = match &result {
            Ok(applied) => applied.receipt().map_or(1, |receipt| u64::from(receipt.attempts)),
            Err(_) => 1,
        };
        self.count(attempts, result.map(|_| attempts == 1), took, took)
    }

    /// Nobody knows how a transaction has ended, or what it has seen.
    fn is_gone(&mut self, history: &HistoryLog, recorded: RecordedTxn) {
        history.info(recorded);
        self.process = history.process();
    }

    /// Counts a transaction, and whether it was decided within one round trip; gives how long to wait before the next.
    fn count(
        &self,
        attempts: u64,
        result: quorate::Result<bool>,
        latency: Duration,
        commit: Duration,
    ) -> Option<Duration> {
        let mut tally = self.shared.tally();
        tally.aborted += attempts.saturating_sub(1);
        match result {
            Ok(fast) => {
                tally.on_commit(latency, commit, self.shared.load.round_trip, fast);
                if let Some(commits) = &self.shared.load.commits {
                    commits.note();
                }
                None
            }
            Err(Error::Conflict) => {
                tally.aborted += 1;
                None
            }
            Err(Error::Unknown { .. } | Error::AnswersLost { .. }) => {
                tally.unknown += 1;
                None
            }
            Err(Error::Overloaded { retry_after }) => {
                tally.refused += 1;
                Some(retry_after)
            }
            Err(error) => {
                tally.refused += 1;
                tally.trouble = Some(error.to_string());
                Some(REFUSED_PAUSE)
            }
        }
    }

    /// Records how the last attempt ended.
    fn record(&mut self, state: &State, result: &quorate::Result<bool>) {
        let (Some(history), Some(recorded)) = (&self.shared.load.history, state.recorded) else { return };
        let observed = state.done.as_ref().map(|(execution, _)| execution.observed());
        match (result, observed) {
            (Ok(_), Some(Ok(ops))) => history.ok(recorded, ops),
            // It committed, but what it read is not what this workload writes: nothing can be said about it.
            (Ok(_), _) | (Err(Error::Unknown { .. } | Error::Closed), _) => self.is_gone(history, recorded),
            (Err(_), _) => history.fail(recorded),
        }
    }
}

impl Attempts<'_> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an attempt. The one before, if there was one, has surely not committed.
    fn begin(&self) -> Execution {
        let load = &self.shared.load;
        let mut state = self.state();
        let plan = Arc::clone(&self.plan);
        let execution = Execution::new(plan, &mut state.unique, load.parameters.value_bytes_min);
        state.count += 1;
        state.done = None;
        if let Some(history) = &load.history {
            if let Some(failed) = state.recorded.take() {
                history.fail(failed);
            }
            state.recorded = Some(history.invoke(self.process, &load.site, execution.announced()));
        }
        execution
    }

    /// The attempt that was begun last is about to make these changes.
    fn announce(&self, ops: Vec<MicroOp>) {
        if let (Some(history), Some(recorded)) = (&self.shared.load.history, self.state().recorded) {
            history.announce(recorded, ops);
        }
    }
}

/// Reads the keys that a plan names, or the first page of its scan, which is strict by itself; gives how many attempts it took.
async fn read_all(
    execution: &mut Execution,
    keyspace: &Keyspace,
    stale: Option<Duration>,
) -> quorate::Result<u32> {
    if let Some(keys) = execution.plan().keys_read() {
        let snapshot = match stale {
            Some(staleness) => keyspace.read_stale(staleness, &keys).await?,
            None => keyspace.read_only_with_snapshot(&keys).await?,
        };
        let values: BTreeMap<Key, Option<Value>> = keys.into_iter().zip(snapshot.values).collect();
        execution.got_all(&values).map_err(Error::application)?;
        return Ok(snapshot.attempts);
    }
    let Step::Scan { range, limit } = execution.next_step() else {
        return Err(Error::application("a plan that is read at once reads keys or is one scan"));
    };
    let to = range.to.as_deref().unwrap_or_default();
    let snapshot = keyspace.scan_with_snapshot(&range.from, to, limit).await?;
    execution.scanned(snapshot.page.entries, snapshot.page.next);
    Ok(snapshot.attempts)
}

/// Reads all keys that a plan names at once, and goes on until it is about to commit: for plans that do nothing else than to update them.
async fn read_named(execution: &mut Execution, txn: &Transaction) -> quorate::Result<()> {
    let keys = execution.plan().keys_named();
    let values = txn.get_many(&keys).await?;
    let mut read = keys.into_iter().zip(values);
    loop {
        match execution.next_step() {
            Step::Get(key) => match read.next() {
                Some((named, value)) if named == key => execution.got(value).map_err(Error::application)?,
                _ => {
                    return Err(Error::application(
                        "a plan reads its keys in the order in which it names them",
                    ));
                }
            },
            Step::Put(key, Some(value)) => txn.put(&key, &value)?,
            Step::Put(key, None) => txn.delete(&key)?,
            Step::Commit => return Ok(()),
            other => {
                return Err(Error::application(format!(
                    "a plan that is read at once only updates: {other:?}"
                )));
            }
        }
    }
}

/// A batch that does everything at once: for plans that only increment and append.
fn batch_of(execution: &Execution) -> Batch {
    execution.all_at_once().fold(Batch::new(), |batch, (operation, fresh)| match operation {
        Operation::Append(key) => batch.read(key).append(key, Content::appended(fresh)),
        Operation::Increment(key) => batch.increment(key, 1),
        other => unreachable!("counters are incremented, and nothing else is done: {other:?}"),
    })
}

/// The results of the operations of such a batch.
fn seen(execution: &Execution, answers: &[StepAnswer]) -> Vec<SeenAtOnce> {
    let mut read = answers.iter().filter_map(|answer| match answer {
        StepAnswer::Value(value) => Some(SeenAtOnce::Value(value.clone())),
        _ => None,
    });
    let seen = |(operation, _): (&Operation, i64)| match operation {
        Operation::Append(_) => read.next().unwrap_or(SeenAtOnce::Nothing),
        _ => SeenAtOnce::Nothing,
    };
    execution.all_at_once().map(seen).collect()
}

/// Does what the execution says, up to the commit. `announce` hears of changes before they are made that were not known at the beginning.
pub(crate) async fn execute(
    execution: &mut Execution,
    txn: &Transaction,
    announce: impl Fn(Vec<MicroOp>),
) -> quorate::Result<()> {
    loop {
        match execution.next_step() {
            Step::Get(key) => {
                let value = txn.get(&key).await?;
                execution.got(value).map_err(Error::application)?;
            }
            Step::Scan { range, limit } => {
                let page = txn.scan(&range.from, range.to.as_deref().unwrap_or_default(), limit).await?;
                execution.scanned(page.entries, page.next);
            }
            Step::Change { set, element, by } => {
                for _ in 0..by.unsigned_abs() {
                    match by > 0 {
                        true => txn.set_add(&set, &element)?,
                        false => txn.set_remove(&set, &element)?,
                    }
                }
            }
            Step::GetMany(keys) => {
                let values = txn.get_many(&keys).await?;
                for (key, value) in keys.into_iter().zip(values) {
                    execution.got_one(key, value);
                }
            }
            Step::Elements { set, range, from, limit: _, enough } => {
                // The library asks for pages by itself.
                let to = range.to.as_deref().unwrap_or_default();
                let elements = txn.set_iter(&set).between(&range.from, to);
                let elements = if from == End::Greatest { elements.from_greatest() } else { elements };
                let elements = enough.into_iter().fold(elements, |all, enough| all.limit(enough as usize));
                execution.counted(elements.collect().await?, None);
                announce(execution.discovered());
            }
            Step::Members { set, range, from, limit } => {
                let to = range.to.as_deref().unwrap_or_default();
                let members = txn.get_members(&set).between(&range.from, to).limit(limit as usize);
                let members = if from == End::Greatest { members.from_greatest() } else { members };
                let members = members.collect().await?;
                let last = members.last().filter(|_| members.len() == limit as usize);
                let rest = last.map(|last| match from {
                    End::Least => range.after(&last.element),
                    End::Greatest => range.before(&last.element),
                });
                execution.counted_with_objects(members, rest);
                announce(execution.discovered());
            }
            Step::Put(key, Some(value)) => txn.put(&key, &value)?,
            Step::Put(key, None) => txn.delete(&key)?,
            Step::Commit => return Ok(()),
        }
    }
}
