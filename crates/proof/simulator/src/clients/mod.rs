//! Clients: sessions that run the workload through the coordinators, and the history of what they saw.

mod accepted_loss;
mod attempt;
mod audit;
mod backups;
mod beside;
mod busy;
mod confined;
mod denied;
mod deployments;
mod doom;
pub(crate) mod expiring;
mod facts;
mod frozen;
mod homes;
pub(crate) mod indexing;
mod leases;
mod losses;
mod lost_shard;
mod milestones;
mod moves;
mod one_round;
mod pipelines;
pub(crate) mod placing;
mod promise;
mod puts;
mod read_only;
mod reads;
pub mod script;
mod speculation;
mod tally;
mod trade;
mod written;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use quorate_checker::{MicroOp, Observed, RecordedTxn, Recorder};
use quorate_core::command::{
    Command, Committed, Event, Failure, Freshness, Invalid, Outcome, SetAnswer, SetCall,
};
use quorate_core::hash::FixedMap;
use quorate_core::{ClientId, Instant, Random, ShardId, Timestamp, TransactionId};
use quorate_workloads::{Execution, Plan, Step, UniqueValues, Workload};

use crate::cluster::{Alarm, Cluster, KEYSPACE};
use crate::injector::{Ending, Strike};
use crate::system::{Facts, System};
use accepted_loss::Begun;
use attempt::{Attempt, Undecided};
use beside::Beside;
use busy::Busy;
use denied::Denials;
pub use deployments::is_procedure;
use doom::Doom;
use expiring::Expiring;
use homes::parameters_at;
use indexing::Indexing;
use losses::Acknowledged;
use lost_shard::LostShard;
use milestones::Milestones;
pub use milestones::Told;
use moves::Moves;
use pipelines::Pipelines;
use placing::Placing;
use promise::Promises;
use puts::Puts;
use script::{Manner, Scripted};
use speculation::Speculation;
pub use tally::Tally;

/// Clients wait for so long at most, beyond the round trips that a transaction takes.
const PATIENCE_MAX: Duration = Duration::from_secs(6);

/// A session begins so many transactions one after the other.
const BURST: u64 = 5;

/// Beyond the planned ones, transactions are begun until so many have committed.
const COMMITS_MIN: u64 = 150;

/// The place of a client. One incarnation after the other fills it.
#[derive(Debug)]
struct Slot {
    /// Its number in the world.
    client: usize,
    id: ClientId,
    is_alive: bool,
    doom: Option<Doom>,
    sequence: u64,
    workload: Workload,
    /// How many of its alarms have been counted.
    alarms: u64,
}

/// One transaction after the other.
#[derive(Debug)]
struct Session {
    slot: usize,
    /// The process of the history. It is given up with a transaction whose fate is unknown.
    process: u64,
    /// Its name in histories. It becomes another session with a transaction whose fate is unknown.
    name: u64,
    /// How many transactions it has begun.
    begun: u64,
    /// The greatest timestamp of what it knows to be committed.
    seen: Timestamp,
    work: Work,
    /// The transaction that it is at, with the number of its next attempt.
    current: Option<(Arc<Plan>, u64, u32)>,
    /// How attempts at it go about it.
    manner: Manner,
    attempt: Option<Attempt>,
    /// The attempts that were shown and are not settled, in order.
    shown: Vec<Attempt>,
}

/// Where the transactions of a session come from.
#[derive(Debug)]
enum Work {
    /// The workload draws them.
    Drawn,
    /// A script says what is to be run, and when.
    Script(VecDeque<Scripted>),
    /// The auditor reads what there is.
    Audit(VecDeque<Arc<Plan>>),
}

impl Session {
    fn audits(&self) -> bool {
        matches!(self.work, Work::Audit(_))
    }

    fn is_idle(&self) -> bool {
        let nothing_queued = match &self.work {
            Work::Drawn => true,
            Work::Script(queue) => queue.is_empty(),
            Work::Audit(queue) => queue.is_empty(),
        };
        self.current.is_none() && self.attempt.is_none() && self.shown.is_empty() && nothing_queued
    }
}

/// All clients of a simulation.
pub struct Clients {
    slots: Vec<Slot>,
    sessions: Vec<Session>,
    by_transaction: FixedMap<TransactionId, usize>,
    undecided: Vec<Undecided>,
    placing: Placing,
    may_be_lost: Acknowledged,
    lost_shard: LostShard,
    begun: Begun,
    recorder: Recorder,
    /// Attempts that may have committed, and whose place among those of local sites their clients were not told.
    unplaced: Vec<(TransactionId, RecordedTxn)>,
    /// The transactions that read in the past, ascending: the strict level says nothing about them.
    past: Vec<RecordedTxn>,
    recorded_until: i64,
    unique: UniqueValues,
    processes: u64,
    /// The places whose clients may begin transactions, and how many there may be in all; none if there is no such limit.
    confined: Option<(Vec<usize>, u64)>,
    /// So many transactions are begun at most for want of commits, beyond those that were planned.
    begun_max: u64,
    random: Random,
    /// How it went.
    pub tally: Tally,
    /// Appends that were acknowledged: the key as the history spells it, and the element.
    pub acknowledged: Vec<(quorate_checker::Key, i64)>,
    /// The greatest timestamp of what is known to be committed, also to sessions that are no more.
    latest: Timestamp,
    /// The transactions that are known to have committed and to have written, by timestamp, with the shards at which they have. Where consumers of changes
    /// follow.
    pub written: BTreeMap<Timestamp, BTreeSet<ShardId>>,
    /// The fates of attempts that clients were told.
    pub told: Vec<(TransactionId, Outcome)>,
    /// Requests of clients that were answered and show how much the system was put to, and how often.
    pub happened: BTreeMap<&'static str, u64>,
    /// The milestones that clients wait for.
    milestones: Milestones,
    /// The sessions that are on their way to other clients.
    moves: Moves,
    /// The transactions that come after others of their clients.
    pipelines: Pipelines,
    speculation: Speculation,
    /// The effect of busy answers on clients.
    busy: Busy,
    /// The effect of denials.
    denials: Denials,
    /// Draws which attempts read several keys at once before anything else.
    reads_at_once: Random,
    /// The errands that run beside the workload.
    beside: Beside,
    /// The indexes that are kept beside the workload.
    indexing: Indexing,
    /// The values that expire beside the workload.
    expiring: Expiring,
    /// The consequences of broken promises.
    pub promises: Promises,
    /// The values that were put, of a system that promises histories nothing.
    pub puts: Puts,
    /// The value of each key that the auditor read last.
    pub audited: BTreeMap<quorate_checker::Key, Observed>,
    /// Breaches of the promises of the workload that committed transactions have read, in words.
    pub breaches: Vec<String>,
    /// Values that nobody wrote and answers that make no sense, in words.
    pub nonsense: Vec<String>,
}

impl Clients {
    /// Starts the clients of a scenario.
    pub fn new<S: System>(cluster: &mut Cluster<S>, random: Random) -> Self {
        let mut clients = Clients {
            slots: Vec::new(),
            sessions: Vec::new(),
            by_transaction: FixedMap::default(),
            undecided: Vec::new(),
            placing: Placing::new(&cluster.scenario),
            may_be_lost: Acknowledged::default(),
            lost_shard: LostShard::new(cluster.scenario.seed),
            begun: Begun::default(),
            recorder: Recorder::new(),
            unplaced: Vec::new(),
            past: Vec::new(),
            recorded_until: 0,
            unique: UniqueValues::new(0),
            processes: 0,
            confined: None,
            begun_max: 4 * cluster.scenario.transactions,
            random,
            tally: Tally::default(),
            acknowledged: Vec::new(),
            latest: Timestamp::ZERO,
            written: BTreeMap::new(),
            told: Vec::new(),
            happened: BTreeMap::new(),
            milestones: Milestones::new(cluster.scenario.seed),
            moves: Moves::new(cluster.scenario.seed),
            pipelines: Pipelines::new(cluster.scenario.seed),
            speculation: Speculation::new(cluster.scenario.seed),
            busy: Busy::default(),
            denials: Denials::default(),
            reads_at_once: reads::stream(cluster.scenario.seed),
            beside: Beside::default(),
            indexing: Indexing::new(
                cluster.scenario.seed,
                cluster.scenario.indexes.then(|| cluster.shards().len()),
            ),
            expiring: Expiring::new(cluster.scenario.seed, cluster.scenario.lifetimes),
            promises: Promises::default(),
            puts: Puts::new(cluster.scenario.level().is_none()),
            audited: BTreeMap::new(),
            breaches: Vec::new(),
            nonsense: Vec::new(),
        };
        for _ in 0..cluster.scenario.clients {
            let slot = clients.add_slot(cluster);
            for _ in 0..cluster.scenario.sessions_per_client {
                let script = cluster.scenario.script.get(clients.sessions.len());
                let work =
                    script.map_or(Work::Drawn, |script| Work::Script(script.iter().cloned().collect()));
                let session = clients.add_session(slot, work);
                clients.wake_for_next(session, cluster);
            }
        }
        clients.start_errands(cluster);
        clients.start_indexing(cluster);
        clients.start_expiring(cluster);
        clients
    }

    fn add_slot<S: System>(&mut self, cluster: &mut Cluster<S>) -> usize {
        let slot = self.slots.len();
        let (client, id) = cluster.start_client(slot);
        let workload = Workload::new(parameters_at(slot, cluster));
        self.slots.push(Slot { client, id, is_alive: true, doom: None, sequence: 0, workload, alarms: 0 });
        slot
    }

    fn add_session(&mut self, slot: usize, work: Work) -> usize {
        let process = self.next_process();
        let manner = Manner::default();
        let (begun, seen, current, attempt, shown) = (0, Timestamp::ZERO, None, None, Vec::new());
        let name = process;
        self.sessions.push(Session {
            slot,
            process,
            name,
            begun,
            seen,
            work,
            current,
            manner,
            attempt,
            shown,
        });
        self.sessions.len() - 1
    }

    /// A session goes on as another one.
    fn renew(&mut self, session: usize) {
        let process = self.next_process();
        (self.sessions[session].process, self.sessions[session].name) = (process, process);
    }

    fn next_process(&mut self) -> u64 {
        self.processes += 1;
        self.processes - 1
    }

    /// The history so far.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// The history without the transactions that read in the past: what must be strict.
    pub fn strict_recorder(&self) -> Recorder {
        self.recorder.without(|txn| self.past.binary_search(&txn).is_ok())
    }

    /// True if an attempt is under way.
    pub fn has_open(&self) -> bool {
        self.sessions.iter().any(|session| session.attempt.is_some() || !session.shown.is_empty())
    }

    /// True if every session has done its work.
    pub fn are_done<S: System>(&self, cluster: &Cluster<S>) -> bool {
        self.beside.is_done()
            && self.indexing.is_done()
            && self.expiring.is_done()
            && !self.want_more(cluster)
            && self.sessions.iter().all(Session::is_idle)
    }

    /// Lets sessions begin so many transactions more.
    pub fn extend<S: System>(&mut self, transactions: u64, cluster: &mut Cluster<S>) {
        cluster.scenario.transactions = self.tally.begun + transactions;
        for session in 0..self.sessions.len() {
            self.wake_for_next(session, cluster);
        }
    }

    /// True as long as transactions are begun: as many as were planned, and then until enough have committed.
    fn want_more<S: System>(&self, cluster: &Cluster<S>) -> bool {
        let planned = cluster.scenario.transactions;
        let Tally { begun, committed, .. } = self.tally;
        if let Some((_, begun_max)) = &self.confined {
            return begun < *begun_max;
        }
        if !cluster.scenario.script.is_empty() {
            return false;
        }
        begun < planned || (committed < COMMITS_MIN && begun < self.begun_max)
    }

    /// A client vanishes now; a new one will take its place.
    pub fn crash<S: System>(&mut self, slot: usize, cluster: &mut Cluster<S>) {
        if !self.slots[slot].is_alive {
            return;
        }
        // Worst is a decision that some have heard of.
        let silenced = [0.0, 0.5, 0.5, 1.0][self.random.index(4)];
        self.count_alarms(slot, cluster);
        cluster.crash_client(self.slots[slot].client, silenced);
        self.make_worse(cluster);
        let downtime = Duration::from_micros(self.random.below(500_000));
        cluster.world.set_alarm(downtime, Alarm::Strike(Strike::End(Ending::Client(slot))));
        self.bury(slot, cluster);
    }

    /// A client vanishes, and nobody takes its place for now.
    pub fn leave<S: System>(&mut self, slot: usize, cluster: &mut Cluster<S>) {
        self.count_alarms(slot, cluster);
        cluster.crash_client(self.slots[slot].client, 0.0);
        self.bury(slot, cluster);
    }

    /// A client is no more: what it was at is left to others.
    fn bury<S: System>(&mut self, slot: usize, cluster: &mut Cluster<S>) {
        self.slots[slot].is_alive = false;
        self.slots[slot].doom = None;
        self.milestones.bury(self.slots[slot].id);
        self.moves.bury(self.slots[slot].id);
        self.pipelines.bury(self.slots[slot].id);
        self.forget_begun(self.slots[slot].id);
        self.beside.bury(slot);
        self.indexing.bury(slot);
        self.expiring.bury(slot, cluster.world.now());
        for session in 0..self.sessions.len() {
            if self.sessions[session].slot != slot {
                continue;
            }
            self.sessions[session].current = None;
            if let Some(attempt) = self.sessions[session].attempt.take() {
                self.by_transaction.remove(&attempt.id);
                if attempt.commit_asked {
                    self.give_up(session, attempt, None, cluster);
                } else {
                    self.record_aborted(&attempt, cluster);
                }
            }
            for attempt in self.take_shown(session) {
                self.give_up(session, attempt, None, cluster);
            }
            // The timestamp that it had seen is lost with its coordinator: the client that takes its place begins another session.
            self.renew(session);
            self.sessions[session].seen = Timestamp::ZERO;
        }
    }

    /// A new incarnation takes the place of a client that has vanished.
    pub fn restart<S: System>(&mut self, slot: usize, cluster: &mut Cluster<S>) {
        if self.slots[slot].is_alive {
            return;
        }
        let (client, id) = cluster.start_client(slot);
        let place = &mut self.slots[slot];
        (place.client, place.id, place.is_alive, place.sequence, place.alarms) = (client, id, true, 0, 0);
        self.beside.wake(slot, cluster);
        self.wake_soon_for_index(slot, cluster);
        self.wake_soon_for_expiry(slot, cluster);
        for session in 0..self.sessions.len() {
            if self.sessions[session].slot == slot {
                self.wake_for_next(session, cluster);
            }
        }
    }

    /// Every place is filled again, and stays so.
    pub fn restart_all<S: System>(&mut self, cluster: &mut Cluster<S>) {
        self.milestones.calm();
        for slot in 0..self.slots.len() {
            self.slots[slot].doom = None;
            self.restart(slot, cluster);
        }
    }

    /// A session's alarm goes off.
    pub fn wake<S: System>(&mut self, session: usize, cluster: &mut Cluster<S>) {
        if let Some(attempt) = &mut self.sessions[session].attempt {
            if std::mem::take(&mut attempt.thinks) {
                self.step(session, cluster);
            }
            return;
        }
        let slot = self.sessions[session].slot;
        if !self.slots[slot].is_alive || self.moves.are_awaited_by(session) || self.waits(session, cluster) {
            return;
        }
        if self.sessions[session].current.is_none() {
            let Some((plan, manner)) = self.next_plan(session, cluster) else { return };
            let token = self.draw_change_of_site(session, cluster);
            let slot = self.draw_move(session, cluster).unwrap_or(self.sessions[session].slot);
            self.sessions[session].manner = manner;
            self.place_perhaps(slot, &plan, cluster);
            self.slots[slot].sequence += S::NUMBERS_APART;
            self.sessions[session].current = Some((plan, self.slots[slot].sequence, 0));
            self.sessions[session].begun += 1;
            self.tally.begun += 1;
            if let Some(seen) = token {
                return self.catch_up(session, seen, cluster);
            }
        }
        self.begin_attempt(session, cluster);
    }

    fn next_plan<S: System>(&mut self, session: usize, cluster: &Cluster<S>) -> Option<(Arc<Plan>, Manner)> {
        let plain = |plan| (plan, Manner::default());
        let slot = self.sessions[session].slot;
        let may = self.confined.as_ref().is_none_or(|(slots, _)| slots.contains(&slot));
        let wants_more = may && self.want_more(cluster);
        match &mut self.sessions[session].work {
            Work::Audit(queue) => queue.pop_front().map(plain),
            Work::Script(queue) => queue.pop_front().map(|scripted| (scripted.plan, scripted.manner)),
            Work::Drawn if wants_more => Some(self.draw_broken_promise(cluster).unwrap_or_else(|| {
                let plan = self.slots[slot].workload.draw(&mut self.random);
                plain(Arc::new(self.draw_what_is_left(slot, plan, cluster)))
            })),
            Work::Drawn => None,
        }
    }

    fn begin_attempt<S: System>(&mut self, session: usize, cluster: &mut Cluster<S>) {
        let Some((plan, sequence, attempt)) = self.sessions[session].current.clone() else { return };
        let slot = self.sessions[session].slot;
        let id = TransactionId { client: self.slots[slot].id, sequence, attempt };
        let began = Timestamp::new(cluster.client_clock(slot), ClientId(0));
        let operations = plan.operations.len() as u32;
        let execution = Execution::new(plan, &mut self.unique, 0);
        let time = self.time(cluster.world.now());
        let recorded = self.recorder.invoke(self.sessions[session].process, time);
        let site = cluster.site_in_history(slot);
        self.recorder.site(recorded, site.clone());
        self.note_attempt::<S>(session, id, recorded);
        for op in execution.announced() {
            self.recorder.attempt(recorded, op);
        }
        self.tally.attempts += 1;
        self.by_transaction.insert(id, session);
        // An attempt that reads all at once comes after no transaction that is not settled.
        let comes_after = !self.sessions[session].shown.is_empty();
        let read_only = self.draw_read_only(session, &execution, cluster).filter(|_| !comes_after);
        if read_only.as_ref().is_some_and(|read_only| !read_only.is_strict) {
            self.past.push(recorded);
        }
        let one_round = match read_only {
            None => self.draw_one_round(session, &execution, cluster).map(Box::new),
            Some(_) => None,
        };
        let manner = self.sessions[session].manner;
        let (commit_asked, resolving, thinks) = (false, false, false);
        let (puts, awaited) = (BTreeMap::new(), 0);
        let mut attempt = Attempt {
            id,
            began,
            execution,
            recorded,
            site,
            place: None,
            commit_asked,
            resolving,
            thinks,
            manner,
            read_only,
            one_round,
            puts,
            awaited,
        };
        self.begun.note(&attempt, cluster);
        cluster.note_transaction(id);
        if attempt.one_round.is_some() {
            self.sessions[session].attempt = Some(attempt);
            return self.begin_one_round(session, cluster);
        }
        let patience = self.draw_patience(operations, cluster);
        let client = self.slots[slot].client;
        if let Some(read_only) = &attempt.read_only {
            cluster.world.command(client, read_only.command(id, &mut attempt.execution, patience));
            self.sessions[session].attempt = Some(attempt);
            return;
        }
        self.sessions[session].attempt = Some(attempt);
        cluster.world.command(client, Command::Begin { transaction: id, keyspace: KEYSPACE, patience });
        self.follow_perhaps(session, cluster);
        self.follow_what_was_shown(session, cluster);
        if !self.read_at_once_perhaps(session, cluster) {
            self.drive(session, cluster);
        }
    }

    /// How long a client waits until so many operations, one after the other, have led to an answer. Of the round trips that it
    /// grants each of them, the second is for who is asked, who may have to hear from others first.
    fn draw_patience<S: System>(&mut self, operations: u32, cluster: &Cluster<S>) -> Duration {
        let share = self.random.unit() * self.random.unit();
        let trips = 8 + 2 * operations;
        trips * cluster.scenario.slow_round_trip() + Duration::from_millis(100) + PATIENCE_MAX.mul_f64(share)
    }

    /// Goes on at once, or after some thought: transactions that take their time overlap with others. Most of the
    /// thinking is done before the first step.
    fn drive<S: System>(&mut self, session: usize, cluster: &mut Cluster<S>) {
        let audits = self.sessions[session].audits();
        let Some(attempt) = &mut self.sessions[session].attempt else { return };
        let inclined = if attempt.execution.has_begun() { 0.4 } else { 1.0 };
        if audits || !self.random.chance(cluster.scenario.thinking * inclined) {
            return self.step(session, cluster);
        }
        attempt.thinks = true;
        let usual = 3 * cluster.scenario.round_trip() / 2 + Duration::from_micros(500);
        let longest = if self.random.chance(0.2) { 5 * usual } else { usual };
        cluster.world.set_alarm(longest.mul_f64(self.random.unit()), Alarm::Session(session));
    }

    /// Does what can be done without waiting for an answer.
    fn step<S: System>(&mut self, session: usize, cluster: &mut Cluster<S>) {
        let client = self.slots[self.sessions[session].slot].client;
        let is_drawn = matches!(self.sessions[session].work, Work::Drawn);
        let Some(attempt) = &mut self.sessions[session].attempt else { return };
        let transaction = attempt.id;
        loop {
            let command = match attempt.execution.next_step() {
                Step::Put(key, value) => {
                    self.puts.note(&key, value.as_ref(), &mut attempt.puts);
                    cluster.world.command(client, Command::Put { transaction, key, value });
                    continue;
                }
                Step::Change { set, element, by } => {
                    let call = SetCall::Add { set, element, by };
                    cluster.world.command(client, Command::Set { transaction, call });
                    continue;
                }
                Step::Elements { set, range, from, limit, enough: _ } => {
                    let call = SetCall::Elements { set, range, from, limit };
                    Command::Set { transaction, call }
                }
                Step::Members { set, range, from, limit } => {
                    let call = SetCall::Members { set, range, from, limit };
                    Command::Set { transaction, call }
                }
                // Only social networks read many keys, over sets, so their keyspaces read several at once.
                Step::GetMany(keys) => Command::GetMany { transaction, keys },
                Step::Get(key) => Command::Get { transaction, key },
                Step::Scan { range, limit } => Command::Scan { transaction, range, limit },
                Step::Commit if attempt.manner.pause > Duration::ZERO => {
                    let pause = std::mem::take(&mut attempt.manner.pause);
                    attempt.thinks = true;
                    cluster.world.set_alarm(pause, Alarm::Session(session));
                    return;
                }
                Step::Commit if attempt.manner.gives_up => Command::Abort { transaction },
                Step::Commit if is_drawn && self.random.chance(0.03) => Command::Abort { transaction },
                Step::Commit => {
                    attempt.commit_asked = true;
                    if attempt.has_written() {
                        cluster.note_writes(transaction);
                    }
                    match is_drawn {
                        true => self.speculation.draw_commit::<S>(transaction),
                        false => Command::Commit { transaction },
                    }
                }
            };
            cluster.world.command(client, command);
            return;
        }
    }

    /// A coordinator has answered.
    pub fn on_event<S: System>(&mut self, event: Event, cluster: &mut Cluster<S>) {
        let Some(event) = self.on_index_event(event, cluster) else { return };
        let Some(event) = self.on_expiry_event(event, cluster) else { return };
        match event {
            Event::Got { transaction, key, value } => self.on_got(transaction, key, value, cluster),
            Event::Marked { transaction, .. } => {
                self.nonsense.push(format!("{transaction} was told how far a key has come, unasked"));
            }
            Event::Scanned { transaction, entries, next } => {
                let Some(session) = self.session_of(transaction) else { return };
                for (key, value) in &entries {
                    self.nonsense.extend(self.puts.nonsense(transaction, key, Some(value)));
                }
                self.judge_answer(session, cluster);
                let Some(attempt) = &mut self.sessions[session].attempt else { return };
                if let Some(read_only) = &mut attempt.read_only {
                    read_only.scanned = Some((entries, next));
                    return;
                }
                attempt.execution.scanned(entries, next);
                self.drive(session, cluster);
            }
            Event::Set { transaction, answer: SetAnswer::Elements { counts, rest, .. } } => {
                let Some(session) = self.session_of(transaction) else { return };
                let Some(attempt) = &mut self.sessions[session].attempt else { return };
                attempt.execution.counted(counts, rest);
                for op in attempt.execution.discovered() {
                    self.recorder.attempt(attempt.recorded, op);
                }
                self.drive(session, cluster);
            }
            Event::Set { transaction, answer: SetAnswer::Members { members, rest, .. } } => {
                let Some(session) = self.session_of(transaction) else { return };
                let Some(attempt) = &mut self.sessions[session].attempt else { return };
                attempt.execution.counted_with_objects(members, rest);
                *self.happened.entry("set was read with the objects that it names").or_default() += 1;
                self.drive(session, cluster);
            }
            Event::Located { transaction, .. } => {
                if !self.placing.open.contains(&transaction) {
                    self.nonsense
                        .push(format!("{transaction} has found a container, and has looked for none"));
                }
            }
            Event::Set { transaction, answer: SetAnswer::Count { .. } } => {
                self.nonsense.push(format!("{transaction} was told a count, and had asked for none"));
            }
            Event::Begun { transaction, begun } => self.on_begun(transaction, begun),
            Event::Shown { transaction, shown } => self.on_shown(transaction, shown, cluster),
            Event::Finished { transaction, result } => self.on_finished(transaction, result, cluster),
            Event::Resolved { transaction, outcome } => self.on_resolved(transaction, outcome, cluster),
            Event::Milestone { transaction, milestone, result } => {
                self.on_milestone(transaction, milestone, result);
            }
            Event::Executed { transaction, result } => self.on_executed(transaction, result, cluster),
            Event::Disagreement { transaction, decided } => {
                // A shard that was declared lost while it ran may go on to decide by itself.
                let lost = cluster.shard_losses.lost().map(|lost| lost.shard);
                let is_void = self.is_void(transaction, cluster);
                if !is_void && decided.iter().all(|decided| Some(decided.shard) != lost) {
                    self.nonsense.extend(self.promises.contradict(transaction, &decided));
                }
            }
            Event::Outdated { keyspace } => {
                self.nonsense
                    .push(format!("the membership of {keyspace} has changed, and nobody changed it"));
            }
            Event::Forgotten { transaction } => {
                self.note_forgotten(transaction, cluster);
                match self.session_of(transaction) {
                    Some(session) => self.end_unknown(session, None, cluster),
                    None => self.on_undecided_forgotten(transaction),
                }
            }
        }
    }

    fn session_of(&self, transaction: TransactionId) -> Option<usize> {
        self.by_transaction.get(&transaction).copied()
    }

    fn on_finished<S: System>(
        &mut self,
        transaction: TransactionId,
        result: Result<Committed, Failure>,
        cluster: &mut Cluster<S>,
    ) {
        if self.placing.open.remove(&transaction) {
            if result.is_ok() {
                *self.happened.entry("containers were found or placed").or_default() += 1;
            }
            return;
        }
        if self.on_caught_up(transaction, &result, cluster) {
            return;
        }
        // Where commands wait for a processor, one may still have been on its way when the transaction ended.
        let waited = cluster.scenario.costs.is_some();
        let is_late = waited && matches!(result, Err(Failure::Invalid(Invalid::NotOpen(_))));
        let Some(session) = self.session_of(transaction) else {
            if !is_late && !self.busy.is_given_up(transaction) {
                self.nonsense.push(format!("{transaction} finished twice: {result:?}"));
            }
            return;
        };
        if is_late && self.sessions[session].attempt.as_ref().is_some_and(|attempt| attempt.resolving)
            || self.on_shown_finished(session, transaction, &result, cluster)
        {
            return;
        }
        if self.sessions[session].attempt.as_ref().is_some_and(|attempt| attempt.read_only.is_some()) {
            return self.on_read_only_finished(session, result, cluster);
        }
        match result {
            Ok(committed) => {
                self.tally.fast += u64::from(committed.fast);
                self.tally.retried += u64::from(committed.retries > 0);
                let slot = self.sessions[session].slot;
                let at_site = committed.at_site.as_ref();
                self.record_place(session, at_site, cluster);
                self.draw_milestones(session, (transaction, committed.timestamp), at_site, cluster);
                self.end_committed(session, committed.timestamp, cluster);
                self.meet_doom(slot, committed.retries > 0, cluster);
            }
            // A client that has not asked to commit may have asked for something else, to which an answer is on its way.
            Err(Failure::Unknown { participants })
                if self.random.chance(0.5) && self.wants_to_commit(session) =>
            {
                // The name of the transaction stays in use until it is resolved.
                let client = self.slots[self.sessions[session].slot].client;
                let patience = Duration::from_millis(self.random.between(50, 3_000));
                let timestamp = self.sessions[session].attempt.as_mut().map_or(Timestamp::ZERO, |attempt| {
                    attempt.resolving = true;
                    attempt.began
                });
                let resolve = Command::Resolve { transaction, participants, timestamp, patience };
                cluster.world.command(client, resolve);
            }
            Err(Failure::Unknown { participants }) => self.end_unknown(session, Some(participants), cluster),
            Err(Failure::Aborted) => {
                self.sessions[session].current = None;
                self.end_aborted(session, cluster);
            }
            Err(
                Failure::Conflict
                | Failure::BelowZero
                | Failure::Unavailable { .. }
                | Failure::HistoryAbandoned { .. }
                | Failure::TooOld { .. }
                | Failure::Invalid(_),
            ) => {
                self.end_aborted(session, cluster);
            }
        }
    }

    fn wants_to_commit(&self, session: usize) -> bool {
        self.sessions[session].attempt.as_ref().is_some_and(|attempt| attempt.commit_asked)
    }

    fn on_resolved<S: System>(
        &mut self,
        transaction: TransactionId,
        outcome: Option<Outcome>,
        cluster: &mut Cluster<S>,
    ) {
        let Some(session) = self.session_of(transaction) else {
            self.on_undecided_resolved(transaction, outcome, cluster);
            return;
        };
        match outcome {
            Some(Outcome::Committed(timestamp)) => {
                if let Some(attempt) = &self.sessions[session].attempt {
                    self.note_unplaced::<S>(attempt.id, attempt.recorded);
                }
                self.end_committed(session, timestamp, cluster);
            }
            Some(Outcome::Aborted) => self.end_aborted(session, cluster),
            None => self.end_unknown(session, None, cluster),
        }
    }

    fn end_committed<S: System>(&mut self, session: usize, timestamp: Timestamp, cluster: &mut Cluster<S>) {
        let Some(attempt) = self.take_attempt(session) else { return };
        self.sessions[session].current = None;
        self.sessions[session].seen = self.sessions[session].seen.max(timestamp);
        let audits = self.sessions[session].audits();
        self.record_committed(&attempt, timestamp, audits, cluster);
        self.wake_for_next(session, cluster);
    }

    fn end_aborted<S: System>(&mut self, session: usize, cluster: &mut Cluster<S>) {
        let Some(attempt) = self.take_attempt(session) else { return };
        // To replicas, a transaction that wrote nothing may have committed all the same.
        if attempt.read_only.is_none() {
            self.told.push((attempt.id, Outcome::Aborted));
        }
        self.record_aborted(&attempt, cluster);
        let audits = self.sessions[session].audits();
        if self.is_in_vain(session, cluster) {
            self.sessions[session].current = None;
        }
        if let Some((_, _, attempts)) = &mut self.sessions[session].current {
            *attempts += 1;
            if audits || *attempts < cluster.scenario.attempts_max {
                let longest =
                    cluster.scenario.round_trip() * (1 << (*attempts).min(6)) + Duration::from_millis(1);
                let after = longest.mul_f64(self.random.unit());
                cluster.world.set_alarm(after, Alarm::Session(session));
                return;
            }
        }
        self.sessions[session].current = None;
        self.wake_for_next(session, cluster);
    }

    fn end_unknown<S: System>(
        &mut self,
        session: usize,
        participants: Option<Vec<ShardId>>,
        cluster: &mut Cluster<S>,
    ) {
        let Some(attempt) = self.take_attempt(session) else { return };
        let current = self.sessions[session].current.take();
        if let (Work::Audit(queue), Some((plan, ..))) = (&mut self.sessions[session].work, current) {
            // The auditor is to read every key, whatever became of this attempt.
            queue.push_front(plan);
        }
        self.give_up(session, attempt, participants, cluster);
        self.wake_for_next(session, cluster);
    }

    fn take_attempt(&mut self, session: usize) -> Option<Attempt> {
        let attempt = self.sessions[session].attempt.take()?;
        self.by_transaction.remove(&attempt.id);
        Some(attempt)
    }

    fn record_committed<S: System>(
        &mut self,
        attempt: &Attempt,
        timestamp: Timestamp,
        audits: bool,
        cluster: &Cluster<S>,
    ) {
        let ops = match attempt.execution.observed() {
            Ok(ops) => ops,
            Err(error) => {
                self.nonsense.push(format!("{} read what nobody wrote: {error}", attempt.id));
                attempt.execution.announced()
            }
        };
        self.judge_right(attempt, "was acknowledged", cluster);
        let breaches = attempt.execution.violations();
        self.breaches.extend(breaches.into_iter().map(|breach| format!("{}: {breach}", attempt.id)));
        self.tally.committed += 1;
        self.latest = self.latest.max(timestamp);
        self.puts.acknowledge(&attempt.puts, timestamp);
        // Nobody keeps a record of what has only read a snapshot.
        let is_on_record =
            S::FACTS != Facts::Snapshots || ops.iter().any(|op| !matches!(op, MicroOp::Read(..)));
        if attempt.read_only.is_none() && is_on_record {
            self.told.push((attempt.id, Outcome::Committed(timestamp)));
        }
        self.note_written(timestamp, &ops, cluster);
        self.acknowledge(attempt, &ops, cluster);
        for op in &ops {
            if let MicroOp::Read(key, observed) = op
                && audits
            {
                self.audited.insert(key.clone(), observed.clone());
            }
        }
        let mut in_history = in_history::<S>(attempt.id, timestamp);
        if attempt
            .read_only
            .as_ref()
            .is_some_and(|read_only| !matches!(read_only.freshness, Freshness::Strict))
        {
            // A snapshot holds what was written at its very timestamp; a history knows only what was written below.
            in_history.client += 1;
        }
        self.record_timestamp::<S>(attempt.recorded, in_history);
        let time = self.time(cluster.world.now());
        self.recorder.ok(attempt.recorded, time, ops.clone());
        self.note_version(attempt, timestamp, ops, cluster);
    }

    /// Notes the timestamp at which a transaction committed, where those of all sites are of one order.
    fn record_timestamp<S: System>(&mut self, recorded: RecordedTxn, timestamp: quorate_checker::Timestamp) {
        if S::TIMESTAMPS_ORDER_WRITES {
            self.recorder.timestamp(recorded, timestamp);
        }
    }

    /// These appends and additions are known to be executed, and must survive. Elements that several transactions add are left to the checker.
    fn acknowledge<S: System>(&mut self, attempt: &Attempt, ops: &[MicroOp], cluster: &Cluster<S>) {
        self.note_acknowledged(attempt, ops, cluster);
        self.begun.acknowledge(attempt.id, ops);
        for op in ops {
            match op {
                MicroOp::Append(key, element) => self.acknowledged.push((key.clone(), *element)),
                MicroOp::Add(set, element) if *element >= UniqueValues::FIRST => {
                    self.acknowledged.push((set.clone(), *element));
                }
                _ => {}
            }
        }
    }

    /// The time of the next event of the history: no two are alike, so that their order is beyond doubt.
    fn time(&mut self, now: Instant) -> i64 {
        self.recorded_until = (self.recorded_until + 1).max(now.as_nanos() as i64);
        self.recorded_until
    }

    /// Wakes a session when its next transaction is due. Sessions work in bursts that begin at the same times, so that
    /// transactions meet however short they are.
    fn wake_for_next<S: System>(&mut self, session: usize, cluster: &mut Cluster<S>) {
        if let Work::Script(queue) = &self.sessions[session].work {
            return script::wake_for_next(queue, session, cluster);
        }
        let scenario = &cluster.scenario;
        let turns = scenario.transactions / scenario.sessions() as u64;
        let burst = self.sessions[session].begun / BURST * BURST;
        let due = scenario.safety_phase.mul_f64(burst as f64 / turns as f64);
        let wait = due.saturating_sub(cluster.world.now() - Instant::START);
        let spread = scenario.round_trip() / 2 + Duration::from_micros(200);
        let after = wait + spread.mul_f64(self.random.unit()) + Duration::from_nanos(1);
        cluster.world.set_alarm(after, Alarm::Session(session));
    }
}

/// Where a transaction stands that has committed at a timestamp.
fn in_history<S: System>(id: TransactionId, timestamp: Timestamp) -> quorate_checker::Timestamp {
    let client = timestamp.client.0 as i64;
    let client = match S::ORDERS_BY_NAME {
        // Clients have numbers of 52 bits, and those of few seeds come that far.
        true => client << 11 | (id.sequence % (1 << 11)) as i64,
        false => client,
    };
    quorate_checker::Timestamp { time: timestamp.micros as i64, client }
}
