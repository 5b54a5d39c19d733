//! Running seeds: faults first, then healing, then a last view change and an audit.
//!
//! ```text
//!    safety     faults strike while sessions run transactions
//!    core       in some seeds: all faults end in a core that must suffice, and nothing works outside it
//!    healing    all faults end; every transaction must end, nothing may stay prepared
//!    late       messages that were held back for minutes arrive; nothing may stay prepared again
//!    audit      undecided transactions are resolved, every key is read
//!    agreement  each group changes view once more; its replicas must hold the same; every key is read again
//!    rest       nothing happens any more; what has ended must be forgotten
//! ```

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use quorate_checker::{
    Level, Recorder, Verdict, check, check_speculation, check_timestamps, check_vectors, cross_check,
};
use quorate_core::command::Event;
use quorate_core::hosted::{Holdings, HostedReplica, News, StoredVersion};
use quorate_core::invariant::Violation;
use quorate_core::{Instant, Machine, ReplicaId, Timestamp};

use crate::backups::Backups;
use crate::clients::{Clients, is_procedure};
use crate::clock_watch::ClockWatch;
use crate::cluster::{Alarm, Cluster};
use crate::consumers::{CATCHING_UP_MAX, Consumers};
use crate::crash_points::{Ordeal, Watch};
use crate::fault::Fault;
use crate::healthy_core::HealthyCore;
use crate::injector::{Injector, Request, Strike};
use crate::invariants::{self, Broken, Finding, Invariant};
use crate::operator::Operator;
use crate::options::Options;
use crate::report::{Report, SeedReport};
use crate::scenario::Scenario;
use crate::system::{Facts, ForSystem, Hostile, System, is_hostile_key};
use crate::world::Happening;
use crate::world::disk::Crash;
use crate::world::network::Network;
use crate::world::steps::Steps;
use crate::world::trace::{TraceHash, TraceText};

/// One seed, with what can be written to files.
#[derive(Debug)]
pub struct SeedRun {
    /// The result.
    pub report: SeedReport,
    /// The history that clients saw.
    pub history: Recorder,
}

/// Runs every seed in order; `progress` is told of each, and ends the run by returning false.
pub fn run(options: &Options, mut progress: impl FnMut(&SeedReport) -> bool) -> Report {
    let mut report = Report::new(options);
    for seed in options.seeds.clone() {
        let run = run_seed(seed, options, None);
        report.add(&run.report, &options.repeat_arguments(seed));
        if !progress(&run.report) {
            break;
        }
    }
    report
}

/// Runs one seed. The readable trace goes to `trace`, also if a machine panics.
pub fn run_seed(seed: u64, options: &Options, trace: Option<TraceText>) -> SeedRun {
    let mut run = run_once(seed, options, trace);
    let offset = seed.wrapping_sub(*options.seeds.start());
    if options.repeat_every > 0 && offset.is_multiple_of(options.repeat_every) {
        let again = run_once(seed, options, None);
        let finding = invariants::executions_are_equal(run.report.trace_hash, again.report.trace_hash);
        note(&mut run.report, Invariant::Determinism, finding);
    }
    run
}

fn run_once(seed: u64, options: &Options, trace: Option<TraceText>) -> SeedRun {
    struct RunOnce<'a>(u64, &'a Options, Option<TraceText>);
    impl ForSystem for RunOnce<'_> {
        type Output = SeedRun;

        fn run<S: System>(self) -> SeedRun {
            let RunOnce(seed, options, trace) = self;
            run_scenario(Scenario::<S>::derive(seed, options), trace)
        }
    }
    options.system.visit(RunOnce(seed, options, trace))
}

/// Runs a scenario that may be like that of no seed.
pub fn run_scenario<S: System>(scenario: Scenario<S>, trace: Option<TraceText>) -> SeedRun {
    let seed = scenario.seed;
    let configuration = scenario.configuration();
    let mut run = match catch_unwind(AssertUnwindSafe(|| Simulation::new(scenario, trace, None).run())) {
        Ok(run) => run,
        Err(panic) => {
            let message = panic_message(panic.as_ref());
            let mut report = empty_report(seed);
            note(&mut report, Invariant::Sanity, invariants::machine_panicked(&message));
            SeedRun { report, history: Recorder::new() }
        }
    };
    run.report.configuration = configuration;
    run
}

/// The message with which a machine panicked.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "a machine panicked without a message".to_owned())
}

pub(crate) fn empty_report(seed: u64) -> SeedReport {
    SeedReport {
        seed,
        configuration: None,
        broken: Vec::new(),
        vacuous: None,
        evaluated: Vec::new(),
        simulated_seconds: 0.0,
        committed: 0,
        aborted: 0,
        attempted: 0,
        fast: 0,
        retried: 0,
        unknown: 0,
        messages: 0,
        faults: Default::default(),
        overlapped: [false; Fault::ALL.len()],
        permitted: BTreeMap::new(),
        happened: Vec::new(),
        samples: Vec::new(),
        trace_hash: TraceHash::default(),
    }
}

/// Adds a finding to a report.
pub(crate) fn note(report: &mut SeedReport, invariant: Invariant, finding: Finding) {
    let broken = match finding {
        Finding::Holds => Vec::new(),
        Finding::Broken(broken) => broken,
        // Without all timestamps I2 says nothing, which is no violation; the level itself must be judged.
        Finding::Unknown(_) if invariant == Invariant::Timestamps => return,
        Finding::Unknown(reason) => {
            vec![Broken { invariant, level: "", anomaly: "unknown".to_owned(), explain: reason }]
        }
    };
    report.broken.extend(broken);
    if !report.evaluated.contains(&invariant) {
        report.evaluated.push(invariant);
    }
}

/// So long healing may take in a seed of the usual length, where a session has so many transactions as [`PER_SESSION`] says or fewer.
pub(crate) const HEALING_MAX: Duration = Duration::from_secs(120);

/// A session that has more transactions has as much longer for them, and so has a client that writes indexes or values that expire. Few clients have all of
/// them, one after the other, and where clocks are far apart each waits.
const PER_SESSION: u64 = 60;

/// An ended transaction must be forgotten within this time: a floor lags by some seconds, and it takes two floors to forget what
/// was read.
const REST_MAX: Duration = Duration::from_secs(600);

/// If a history shows too little, so many transactions are added, so often.
const EXTENSION: u64 = 60;
const EXTENSIONS_MAX: u32 = 20;

/// Of what is seen while a seed runs no more is reported than this; more would not tell more.
const BROKEN_MAX: usize = 3;

/// How often it is looked whether a phase is over.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How often it is noted what replicas keep, if it is.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) struct Simulation<S: System> {
    pub(crate) cluster: Cluster<S>,
    pub(crate) clients: Clients,
    pub(crate) injector: Injector<S>,
    pub(crate) report: SeedReport,
    /// The nodes that keep working while all else stays broken, in the phase in which that is so.
    pub(crate) core: Option<HealthyCore>,
    /// The crashes at certain steps that are to come, if it is such a simulation.
    pub(crate) ordeal: Option<Ordeal>,
    inspector: S::Inspector,
    /// Compares replicas; absent where crashes at certain steps are enumerated.
    operator: Option<Operator>,
    /// Consumers of changes, if the seed has some.
    consumers: Option<Consumers>,
    /// Backups, if the seed has some.
    backups: Option<Backups>,
    clock_watch: ClockWatch,
    /// When to note next what replicas keep; never in a seed of the usual length.
    next_sample: Option<Instant>,
    /// After healing, everything must have ended within this time; that includes what faults have kept from being begun.
    healing_max: Duration,
}

impl<S: System> Simulation<S> {
    pub(crate) fn new(mut scenario: Scenario<S>, trace: Option<TraceText>, steps: Option<Steps>) -> Self {
        let (workload, faults) = (scenario.random.fork(), scenario.random.fork());
        let report = empty_report(scenario.seed);
        let operator = steps.is_none().then(Operator::default);
        let mut cluster = Cluster::new(scenario, trace, steps);
        let summary = format!("{:?}", cluster.scenario);
        cluster.world.note(|| summary);
        let length = cluster.scenario.length;
        let next_sample = (length > 1).then_some(Instant::START);
        let Scenario { transactions, .. } = cluster.scenario;
        let consumers = Consumers::new(&cluster);
        let backups = Backups::new(&cluster);
        let clients = Clients::new(&mut cluster, workload);
        let in_a_row = transactions.div_ceil(length * cluster.scenario.sessions() as u64);
        let turns = in_a_row.max(clients.indexing_in_a_row()).div_ceil(PER_SESSION);
        let healing_max = HEALING_MAX * (length * turns.max(1)) as u32;
        let injector = Injector::new(&mut cluster, faults);
        cluster.world.set_alarm(POLL_INTERVAL, Alarm::Poll);
        Simulation {
            cluster,
            clients,
            injector,
            report,
            core: None,
            ordeal: None,
            inspector: S::Inspector::default(),
            operator,
            consumers,
            backups,
            clock_watch: ClockWatch::default(),
            next_sample,
            healing_max,
        }
    }

    fn run(mut self) -> SeedRun {
        let safety = Instant::START + self.cluster.scenario.safety_phase;
        self.until(safety, |_| false);
        // Under load, that is.
        self.inspect();
        self.clients.count_all_alarms(&self.cluster);
        self.report.happened = S::happened(&self.inspector);
        let compared =
            self.operator.as_ref().map(|operator| ("replicas of a shard compared", operator.compared()));
        self.report.happened.extend(compared);
        let told = self.consumers.as_ref().map(|consumers| ("changes told to consumers", consumers.told()));
        self.report.happened.extend(told);
        self.report.happened.extend(self.backups.iter().flat_map(Backups::happened));
        let is_low = self.cluster.scenario.has(Fault::LowMemory);
        self.report.happened.extend(self.cluster.attics.happened().into_iter().filter(|_| is_low));
        self.report.happened.extend(self.cluster.untaken());
        self.report.happened.extend(self.cluster.stopped());
        let happened = self.clients.happened.iter().chain(&self.cluster.definers.happened);
        let happened = happened.chain(&self.cluster.shard_losses.happened);
        let happened = happened.chain(&self.cluster.accepted_losses.happened);
        self.report.happened.extend(happened.map(|(what, times)| (*what, *times)));
        if self.cluster.scenario.has(Fault::HealthyCore) {
            let mut random = self.injector.fork();
            self.live_in_core(&mut random);
        }
        self.heal();
        self.await_end("after all faults had ended");
        // Of an overloaded cluster nobody asks for more, and not that transactions overlap which commit.
        if !self.cluster.scenario.has(Fault::Overload) {
            self.await_evidence();
        }
        self.await_late_messages();
        self.conclude()
    }

    /// The audit and the agreement.
    pub(crate) fn conclude(mut self) -> SeedRun {
        let auditor = self.clients.start_auditor(&mut self.cluster);
        self.audit(auditor, true);
        self.change_views();
        let audited = self.audit(auditor, false);
        self.judge(audited)
    }

    /// Handles what happens until `limit`, or until a look at the simulation says that it is enough; true then.
    pub(crate) fn until(&mut self, limit: Instant, enough: impl Fn(&Simulation<S>) -> bool) -> bool {
        while let Some(happening) = self.cluster.world.advance(limit) {
            self.note_violations();
            match happening {
                Happening::Server(server, event) => {
                    if let Some(consultation) = S::Server::consultation(&event) {
                        self.cluster.on_consultation(server, consultation);
                    }
                    self.note_journal(server, &event);
                    self.on_news(server, &event);
                }
                Happening::Unheard(server, event) => self.note_journal(server, &event),
                Happening::Crashed(party, crash) => self.on_crashed(party, crash),
                Happening::Stopped(server) => self.cluster.on_stopped(server),
                Happening::Fenced(node, life) => self.cluster.hear_fence(node, life),
                Happening::Busy(client) => self.clients.on_busy(client, &mut self.cluster),
                Happening::Denied(denied) => self.clients.on_denied(denied, &mut self.cluster),
                // It has given the transaction up.
                Happening::Client(client, event) if self.clients.is_done_with(client, &event) => {}
                Happening::Client(client, Event::Outdated { .. }) if self.cluster.has_changed() => {
                    self.cluster.tell_client(client);
                }
                Happening::Client(_, event) => {
                    self.clients.on_event(event, &mut self.cluster);
                    self.judge_milestones();
                }
                Happening::Alarm(Alarm::Session(session)) => self.clients.wake(session, &mut self.cluster),
                Happening::Alarm(Alarm::Errand { of, slot }) => {
                    self.clients.wake_for_errand(of, slot, &mut self.cluster);
                }
                Happening::Alarm(Alarm::Index(slot)) => self.clients.wake_for_index(slot, &mut self.cluster),
                Happening::Alarm(Alarm::Expiry(slot)) => {
                    self.clients.wake_for_expiry(slot, &mut self.cluster)
                }
                Happening::Alarm(Alarm::Strike(strike)) => self.strike(strike),
                Happening::Alarm(Alarm::Membership(step)) => {
                    if self.cluster.go_on_with(step) {
                        let open = self.clients.has_open();
                        self.injector.note(Fault::Membership, open);
                    }
                }
                Happening::Alarm(Alarm::Site(step)) => self.cluster.go_on_with_site(step),
                Happening::Alarm(Alarm::Shard(step)) => self.cluster.go_on_with_shard(step),
                Happening::Alarm(Alarm::Acceptance(step)) => {
                    if let Some(replica) = self.cluster.go_on_with_acceptance(step) {
                        self.begin_anew(replica);
                    }
                }
                Happening::Alarm(Alarm::Heard(heard)) => self.cluster.hear_of_users(heard),
                Happening::Alarm(Alarm::Poll) => {
                    self.on_poll();
                    if enough(self) {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Reports acts of servers that do not fit together. A hostile client answers itself for what it has broken.
    fn note_violations(&mut self) {
        let hostile = self.injector.hostile();
        for Violation { property, shard, transaction, explain } in self.cluster.world.take_found() {
            let counts = transaction.is_none_or(|transaction| {
                hostile.leaves_alone(transaction, shard)
                    && self.clients.promises.bind(transaction, shard)
                    && !self.clients.is_void(transaction, &self.cluster)
            });
            if counts && self.report.broken.len() < BROKEN_MAX {
                let broken = vec![Broken::new(Invariant::Agreement, property, explain)];
                note(&mut self.report, Invariant::Agreement, Finding::Broken(broken));
            }
        }
    }

    /// A replica goes on although its group has lost more than it survives: nothing is promised of what has begun, nor is it held against others.
    fn begin_anew(&mut self, replica: ReplicaId) {
        let void = self.clients.begun();
        self.cluster.world.void(replica, &void);
        if let Some(operator) = &mut self.operator {
            operator.begin_anew();
        }
    }

    fn note_journal(&mut self, server: usize, event: &<S::Server as Machine>::Event) {
        if let Some(word) = S::journal(event) {
            self.clients.note_journal::<S>(self.cluster.replica(server), word);
        }
    }

    fn on_news(&mut self, server: usize, event: &<S::Server as Machine>::Event) {
        let name = self.cluster.replica(server);
        let Some(news) = S::Server::news(event) else { return };
        match news {
            News::Normal(view) => self.cluster.on_normal(server, view.epoch()),
            // Seldom more than f records of a group are lost at a time, so no operator should be called else. A replica of a log that has lost
            // its records counts those that ask as it does, and may not hear at once that one of them is back.
            News::Lost(lost) => {
                let has_reason = self.cluster.accepted_losses.note_helpless(server, name.shard);
                if !S::STANDS_ON_LOG && !has_reason {
                    let told = format!("{name} says that {lost} replicas have lost their records");
                    self.clients.nonsense.push(told);
                }
            }
            News::Outdated(_) if self.cluster.has_changed() => self.cluster.tell_server(server),
            News::Retired if !self.cluster.is_member(server) => self.cluster.on_retired(server),
            News::Outdated(_) | News::Retired => self.clients.nonsense.push(format!("{name} says {event:?}")),
            News::ViewChanging(_) | News::Recovering | News::Leading(_) | News::Clock(_) => {}
        }
    }

    fn on_poll(&mut self) {
        let interval = match &mut self.ordeal {
            Some(ordeal) => {
                ordeal.look(&self.cluster);
                Watch::INTERVAL
            }
            None => POLL_INTERVAL,
        };
        self.cluster.world.set_alarm(interval, Alarm::Poll);
        self.cluster.meet_all();
        self.sample();
        self.inspect();
    }

    /// Looks for what no history shows.
    fn inspect(&mut self) {
        self.clients.abandon_lost(&self.cluster);
        self.clients.nonsense.extend(self.cluster.usurped());
        let mut broken = S::inspect(&mut self.inspector, &self.cluster);
        let compared = self.operator.as_mut().map(|operator| operator.go_on(&mut self.cluster));
        if let Some(Finding::Broken(differences)) = compared {
            broken.extend(differences);
        }
        if let Some(consumers) = &mut self.consumers {
            consumers.go_on(&mut self.cluster);
        }
        if let Some(backups) = &mut self.backups {
            backups.go_on(&mut self.cluster, &mut self.clients);
        }
        if !broken.is_empty() && self.report.broken.len() < BROKEN_MAX {
            note(&mut self.report, Invariant::Agreement, Finding::Broken(broken));
        }
        let [timestamps, leaders] = self.clock_watch.look(&self.cluster, &self.injector);
        for (invariant, finding) in [(Invariant::Timestamps, timestamps), (Invariant::Liveness, leaders)] {
            if finding != Finding::Holds && self.report.broken.len() < BROKEN_MAX {
                note(&mut self.report, invariant, finding);
            }
        }
    }

    /// Judges what clients were told of transactions beyond their commit.
    fn judge_milestones(&mut self) {
        for told in self.clients.take_milestones() {
            let Some(explain) = S::contradict(&mut self.inspector, &self.cluster, &told) else { continue };
            if self.report.broken.len() < BROKEN_MAX {
                let anomaly = format!("not-{}", told.milestone);
                let broken = vec![Broken::new(Invariant::Durability, &anomaly, explain)];
                note(&mut self.report, Invariant::Durability, Finding::Broken(broken));
            }
        }
    }

    /// Notes what replicas keep, if it is time to.
    fn sample(&mut self) {
        let now = self.cluster.world.now();
        if self.next_sample.is_some_and(|at| at <= now) {
            self.next_sample = Some(now + SAMPLE_INTERVAL);
            let committed = self.clients.tally.committed;
            self.report.samples.push(self.cluster.sample(committed));
        }
    }

    fn strike(&mut self, strike: Strike) {
        if let (Some(core), Strike::End(ending)) = (&self.core, &strike)
            && !core.allows(ending)
        {
            return;
        }
        let open = self.clients.has_open();
        match self.injector.strike(strike, &mut self.cluster, open) {
            Some(Request::DoomClient(slot)) => self.clients.doom(slot, &mut self.cluster),
            Some(Request::CrashClient(slot)) => self.clients.crash(slot, &mut self.cluster),
            Some(Request::StartClient(slot)) => self.clients.restart(slot, &mut self.cluster),
            None => {}
        }
    }

    pub(crate) fn heal(&mut self) {
        for slot in self.injector.stop(&mut self.cluster) {
            self.clients.crash(slot, &mut self.cluster);
        }
        self.cluster.heal();
        self.clients.restart_all(&mut self.cluster);
    }

    /// Waits until every session is done and the cluster quiet, and notes what is not (I6).
    pub(crate) fn await_end(&mut self, when: &str) -> bool {
        let limit = self.cluster.instant_after(self.healing_max);
        let ended = self.until(limit, |simulation| {
            simulation.clients.are_done(&simulation.cluster) && simulation.cluster.is_quiet()
        });
        let mut left = Vec::new();
        if !ended {
            left = self.clients.unfinished();
            left.extend(self.cluster.unquiet_on(|_| true));
            if left.is_empty() {
                left.push("sessions have not begun all their transactions".to_owned());
            }
        }
        note(&mut self.report, Invariant::Liveness, invariants::everything_ends(when, &left));
        ended
    }

    /// Few conflicts would mean little evidence. It is rare that the planned transactions do not suffice; then there are
    /// more.
    fn await_evidence(&mut self) {
        // In each level, evidence is that transactions met.
        let level = self.cluster.scenario.level().unwrap_or(Level::StrictSerializable);
        for _ in 0..EXTENSIONS_MAX {
            let strict = self.clients.strict_recorder();
            // Of a loss that is accepted the last part of the history tells what came of it.
            let parts = self.clients.promised(&strict, &self.cluster).unwrap_or_default();
            let history = parts.last().unwrap_or(&strict).to_history();
            if history.is_ok_and(|history| !check(&history, level).vacuous) {
                return;
            }
            self.clients.extend(EXTENSION, &mut self.cluster);
            self.await_end("after more transactions had begun");
        }
    }

    fn await_late_messages(&mut self) {
        let wait = if self.cluster.scenario.has(Fault::LateDuplicates) {
            // They are to arrive across a restart and a view change.
            self.change_views();
            Network::LATE_DUPLICATE_MAX
        } else if self.cluster.scenario.has(Fault::LateMessages) {
            Network::LATE_MAX
        } else {
            return;
        };
        let limit = self.cluster.instant_after(wait);
        self.until(limit, |_| false);
        self.await_end("after late messages had arrived");
    }

    /// Reads every key, and on `resolve` first finds out what became of undecided transactions. False if that took too
    /// long.
    fn audit(&mut self, auditor: usize, resolve: bool) -> bool {
        if resolve {
            let hostile = self.injector.hostile();
            let counts = |transaction, shard| hostile.leaves_alone(transaction, shard);
            self.clients.resolve_undecided(auditor, counts, &mut self.cluster);
            let limit = self.cluster.instant_after(self.healing_max);
            self.until(limit, |simulation| simulation.clients.is_everything_resolved());
            let left = self.clients.unresolved(&mut self.cluster);
            note(&mut self.report, Invariant::Liveness, invariants::everything_ends("at the end", &left));
        }
        self.clients.audit(auditor, &mut self.cluster);
        self.await_end("after every key was to be read")
    }

    /// Makes each group change its view, by restarting one of its replicas.
    fn change_views(&mut self) {
        let mut shards = self.cluster.groups();
        while let Some(shard) = shards.pop() {
            let mut servers = self.cluster.members();
            let Some(server) = servers.find(|server| self.cluster.replica(*server).shard == shard) else {
                continue;
            };
            drop(servers);
            let node = self.cluster.world.node_of_server(server);
            self.cluster.crash_node(node, Crash::Process);
            self.cluster.restart_node(node);
            let hosted: Vec<_> = self.cluster.servers_of(node);
            shards.retain(|shard| !hosted.iter().any(|server| self.cluster.replica(*server).shard == *shard));
            self.await_end("after a last view change");
        }
    }

    /// The versions that the replicas hold, above what some of their group may have collected.
    fn stored(&self) -> Vec<(ReplicaId, Vec<StoredVersion>)> {
        let servers = self.cluster.members();
        let machines: Vec<_> = servers
            .filter_map(|server| Some((self.cluster.replica(server), self.cluster.world.server(server)?)))
            .collect();
        let floor = |shard| {
            let floors =
                machines.iter().filter(|(id, _)| id.shard == shard).map(|(_, replica)| replica.floor());
            floors.max().unwrap_or_default()
        };
        let above_floor = |(id, replica): &(ReplicaId, &S::Server)| {
            let mut versions = replica.versions();
            versions.retain(|(key, ..)| !is_hostile_key(key));
            (*id, invariants::above_floor(versions, floor(id.shard)))
        };
        machines.iter().map(above_floor).collect()
    }

    /// Lets those catch up that lag behind, and says what the replicas hold then.
    fn await_agreement(&mut self) -> Vec<(ReplicaId, Vec<StoredVersion>)> {
        let agree = |stored: &[_]| invariants::replicas_agree_on_data(stored) == Finding::Holds;
        let stored = self.stored();
        if agree(&stored) {
            return stored;
        }
        let limit = self.cluster.instant_after(self.healing_max);
        self.until(limit, |simulation| agree(&simulation.stored()));
        self.stored()
    }

    fn judge(mut self, audited: bool) -> SeedRun {
        let stored = self.await_agreement();
        self.judge_changes(&stored);
        self.clients.settle_denied(&mut self.cluster);
        if let Some(backups) = &mut self.backups {
            backups.end(&self.cluster, &mut self.clients);
        }
        self.note_violations();
        let servers = || self.cluster.members();
        let machines = || {
            servers()
                .filter_map(|server| Some((self.cluster.replica(server), self.cluster.world.server(server)?)))
        };
        let hostile = self.injector.hostile();
        let outcomes: Vec<_> = machines()
            .map(|(id, replica)| {
                let mut known = replica.outcomes();
                known.retain(|(transaction, _)| {
                    hostile.leaves_alone(*transaction, id.shard)
                        && self.clients.promises.bind(*transaction, id.shard)
                        && !self.clients.is_void(*transaction, &self.cluster)
                });
                (id, known)
            })
            .collect();
        self.rest();
        self.clients.count_all_alarms(&self.cluster);
        self.clients.forget_lost_shard(&self.cluster);
        self.clients.forget_accepted_loss(&self.cluster);
        if self.cluster.shard_losses.lost().is_none() && self.cluster.accepted_losses.loss().is_none() {
            let baseless = self.clients.promises.nonsense();
            self.clients.nonsense.extend(baseless);
        }
        let unanswered = self.clients.unanswered_milestones(self.cluster.world.now());
        self.clients.nonsense.extend(unanswered);
        let report = &mut self.report;
        note(report, Invariant::Agreement, invariants::outcomes_agree(&self.clients.told, &outcomes));
        note(report, Invariant::Agreement, invariants::replicas_agree_on_data(&stored));
        let mut one_of_each: BTreeMap<_, _> = stored.iter().map(|(id, held)| (id.shard, held)).collect();
        let held: Vec<_> = one_of_each.values_mut().flat_map(|held| held.iter()).collect();
        let violations = self.clients.errand_violations(&held, self.cluster.scenario.level());
        note(report, Invariant::Isolation, invariants::conditions_hold(&violations));
        let promises = invariants::promises_of_the_workload_hold(&self.clients.breaches);
        note(report, Invariant::Isolation, promises);
        let level = self.cluster.scenario.level();
        if level.is_none() {
            let shard_of = |key: &[u8]| self.cluster.shard_of(key);
            let survive =
                invariants::acknowledged_puts_survive(&self.clients.puts.acknowledged, &stored, shard_of);
            note(report, Invariant::Durability, survive);
        } else if audited {
            // A write that could not be read is not known to be lost.
            let Clients { acknowledged, audited, .. } = &self.clients;
            note(
                report,
                Invariant::Durability,
                invariants::acknowledged_appends_survive(acknowledged, audited),
            );
        }
        note(report, Invariant::Sanity, invariants::nothing_makes_no_sense(&self.clients.nonsense));
        self.clients.record_late_places::<S>(&self.inspector, &self.cluster);
        self.clients.record_late_facts::<S>(&self.cluster);
        let strict = self.clients.strict_recorder();
        match level {
            Some(level) => match self.clients.promised(&strict, &self.cluster) {
                None => judge_history(report, level, &strict, self.clients.recorder()),
                Some(parts) => parts.iter().for_each(|part| judge_history(report, level, part, part)),
            },
            None => note_what_is_permitted(report, self.clients.recorder()),
        }
        match (S::FACTS, level) {
            (Facts::Timestamps, _) => judge_timestamps(report, &self.clients.stamped(&self.cluster)),
            (Facts::Vectors, Some(level)) => judge_vectors(report, level, &strict),
            (Facts::Snapshots, Some(_)) => judge_speculation(report, &strict),
            (Facts::Vectors | Facts::Snapshots, None) | (Facts::Nothing, _) => {}
        }
        if report.broken.is_empty() {
            note(report, Invariant::Agreement, S::conclude(&self.inspector));
        }
        if self.cluster.scenario.has(Fault::Overload) {
            // Nobody asks of it that transactions overlap which commit.
            report.vacuous = None;
        }
        self.summarise()
    }

    /// Lets consumers of changes come to the end, and judges what they were told (I9).
    fn judge_changes(&mut self, stored: &[(ReplicaId, Vec<StoredVersion>)]) {
        if self.consumers.is_none() {
            return;
        }
        // Transactions that were lost with their site are told to nobody.
        let ends = self.cluster.ends_of_sites();
        let is_kept = |name: &&Timestamp| ends.get(&name.client.0).is_none_or(|last| name.micros <= *last);
        let last: Vec<Timestamp> = match S::ISOLATION.stands_in_sites() {
            true => self.clients.written.keys().filter(is_kept).copied().collect(),
            false => vec![self.clients.latest()],
        };
        if let Some(consumers) = &mut self.consumers {
            consumers.give_up_lost(&self.cluster);
        }
        let limit = self.cluster.instant_after(CATCHING_UP_MAX);
        self.until(limit, |simulation| {
            simulation.consumers.as_ref().is_none_or(|consumers| consumers.have_come_to(&last))
        });
        let Some(mut consumers) = self.consumers.take() else { return };
        consumers.end();
        let behind = consumers.behind(&last);
        note(
            &mut self.report,
            Invariant::Liveness,
            invariants::everything_ends("when changes were to be told", &behind),
        );
        // Of procedures nobody is told.
        let keys = |held: &[StoredVersion]| {
            held.iter().filter(|(key, ..)| !is_procedure(key)).cloned().collect::<Vec<_>>()
        };
        let stored: Vec<_> = stored.iter().map(|(id, held)| (id.shard, keys(held))).collect();
        let finding = consumers.judge(&self.cluster, &self.clients.written, &stored, &ends);
        note(&mut self.report, Invariant::Changes, finding);
    }

    /// Lets the cluster be until it has forgotten what has ended (I7).
    fn rest(&mut self) {
        if !self.cluster.collects() {
            return;
        }
        let ended = self.cluster.slowest_clock();
        let limit = self.cluster.instant_after(REST_MAX);
        self.until(limit, |simulation| simulation.cluster.hoards(ended).is_empty());
        let left = self.cluster.hoards(ended);
        note(&mut self.report, Invariant::Sanity, invariants::what_has_ended_is_forgotten(&left));
    }

    fn summarise(mut self) -> SeedRun {
        let network = self.cluster.world.network().injected;
        let tally = self.clients.tally;
        let report = &mut self.report;
        report.simulated_seconds = self.cluster.world.now().as_nanos() as f64 / 1e9;
        report.committed = tally.committed;
        report.aborted = tally.aborted;
        report.attempted = tally.attempts;
        report.fast = tally.fast;
        report.retried = tally.retried;
        report.unknown = tally.unknown;
        report.messages = self.cluster.world.messages();
        report.trace_hash = self.cluster.world.trace_hash();
        report.faults = self.injector.counts;
        report.overlapped = self.injector.overlapped;
        for fault in Fault::ALL {
            for _ in 0..network.of(fault) {
                report.faults.add(fault);
            }
            // Messages flow because transactions are open, and clocks are wrong all the time.
            let lasting = network.of(fault) > 0
                || matches!(fault, Fault::ClockSkew | Fault::ClockDrift | Fault::Overload);
            report.overlapped[fault.index()] |= lasting && report.faults.of(fault) > 0;
        }
        SeedRun { report: self.report, history: self.clients.strict_recorder() }
    }
}

/// Judges what must be strict, or what this scenario promises instead, and with it everything that was read in the past: that
/// is serializable, at its timestamp.
fn judge_history(report: &mut SeedReport, level: Level, strict: &Recorder, all: &Recorder) {
    let (history, all) = match (strict.to_history(), all.to_history()) {
        (Ok(history), Ok(all)) => (history, all),
        (Err(error), _) | (_, Err(error)) => {
            let told = format!("the history is malformed: {error}");
            note(report, Invariant::Sanity, invariants::nothing_makes_no_sense(&[told]));
            return;
        }
    };
    let judgement = check(&history, level);
    note(report, Invariant::Isolation, invariants::isolation_holds(&judgement));
    report.vacuous = invariants::shows_too_little(&judgement);
    if all.txn_count() > history.txn_count() {
        let isolation = invariants::isolation_holds(&check(&all, Level::Serializable));
        note(report, Invariant::Isolation, isolation);
    }
    let orders = invariants::timestamps_order_versions(&cross_check(&all));
    note(report, Invariant::Timestamps, orders);
}

/// Notes what each level finds in a history that is promised nothing. That transactions met must be seen all the same.
fn note_what_is_permitted(report: &mut SeedReport, all: &Recorder) {
    let history = match all.to_history() {
        Ok(history) => history,
        Err(error) => {
            let told = format!("the history is malformed: {error}");
            return note(report, Invariant::Sanity, invariants::nothing_makes_no_sense(&[told]));
        }
    };
    for level in PERMITTED_LEVELS {
        let judgement = check(&history, level);
        let mut kinds: BTreeSet<&'static str> =
            judgement.anomalies.iter().map(|anomaly| anomaly.kind.name()).collect();
        if kinds.is_empty() && judgement.verdict != Verdict::Valid {
            kinds.insert(judgement.verdict.name());
        }
        report.permitted.insert(judgement.level, kinds);
        if level == Level::StrictSerializable {
            report.vacuous = invariants::shows_too_little(&judgement);
        }
    }
}

/// The levels by which histories are looked at that are promised nothing: those that a system without transactions can be asked
/// about, the strongest first.
const PERMITTED_LEVELS: [Level; 6] =
    [Level::StrictSerializable, Level::Serializable, Level::Si, Level::Psi, Level::SessionPsi, Level::Causal];

/// Judges whether snapshots and places at local sites explain what was read.
fn judge_vectors(report: &mut SeedReport, level: Level, strict: &Recorder) {
    // A malformed history has been told of.
    if let Ok(history) = strict.to_history() {
        let vectors = invariants::vectors_explain_reads(&check_vectors(&history, level));
        note(report, Invariant::Timestamps, vectors);
    }
}

/// Judges what transactions saw that did not commit, or were shown before they did.
fn judge_speculation(report: &mut SeedReport, history: &Recorder) {
    // A malformed history has been told of.
    if let Ok(history) = history.to_history() {
        let snapshots = invariants::snapshots_explain_reads(&check_speculation(&history));
        note(report, Invariant::Speculation, snapshots);
        note(report, Invariant::Speculation, invariants::speculation_is_sound(&check(&history, Level::Spsi)));
    }
}

/// Judges whether commit timestamps explain what was read.
fn judge_timestamps(report: &mut SeedReport, all: &Recorder) {
    // A malformed history has been told.
    if let Ok(all) = all.to_history() {
        let timestamps = invariants::timestamps_explain_reads(&check_timestamps(&all));
        note(report, Invariant::Timestamps, timestamps);
    }
}
