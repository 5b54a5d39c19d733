//! Real processes under faults: servers are killed, paused, cut off, restarted and robbed of their disks while judged
//! clients work, and in the end everything must serve and nothing that was acknowledged may be missing.
//!
//! ```text
//!   one at a time     a fault strikes, ends, and everything serves again: how long that takes is measured
//!   together          faults strike while others still last
//!   healed            everything must serve, every client must commit, every transaction must end
//!   visible           where local sites run transactions by themselves, each has come to all of them
//!   judged            every key is read once more, at each such site, and the checker judges the whole history
//!   compared          the replicas of each shard must hold the same
//! ```
//!
//! The faults are drawn from a seed. When exactly one strikes, and what the processes do meanwhile, is up to the machine:
//! the same seed gives the same faults in the same order, and not the same execution, which only the simulator does.
//!
//! | file | role |
//! |---|---|
//! | `fault`, `schedule` | what can strike, and what does |
//! | `network` | links that can be cut, by proxies or in namespaces |
//! | `arena` | the servers, and what is done to them |
//! | `clients` | the clients of each site |
//! | `door` | through which door clients come in, if through one |
//! | `operator` | changes where replicas are |
//! | `recovery` | how long there was no service |
//! | `status` | what nodes say of themselves |
//! | `upgrade` | rolling upgrades and downgrades between two programs |
//! | `attacks` | scripted attacks, each with servers of its own |

mod arena;
pub mod attacks;
mod clients;
mod consumer;
mod door;
mod fault;
mod fill;
mod network;
mod operator;
mod recovery;
mod schedule;
mod status;
mod upgrade;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use quorate::{Durability, Isolation, Keyspace, KeyspaceOptions, Rival, System, VerifyOptions};
use quorate_checker::{Report, check};
use quorate_cluster::verify::{HowFar, verify};
use quorate_cluster::{Failure, Launch, Layout, Processes, RedisDoors, free_addresses, make_certificates};
use quorate_core::GroupSize;
use quorate_core::topology::{Speculation, Timestamping};
use quorate_load::{HistoryLog, Ledger, Tally};
use quorate_server::EventLoops;
use quorate_workloads::{Parameters, WorkloadKind};

use arena::{Arena, Request, Struck};
use clients::{Clients, Doors, Task};
pub use consumer::Consumed;
use consumer::Consumer;
pub use door::Door;
pub use fault::{Fault, Faults};
pub use fill::Fill;
use network::{Namespaces, Network, Proxies, site_name};
use operator::{Operator, SPARE_NODES};
pub use recovery::{Recoveries, Spread};
use schedule::{Schedule, Strike};
pub use upgrade::Upgraded;

/// The name of the keyspace.
const KEYSPACE: &str = "torture";

/// How many transactions the clients of each site have in flight unless it is said otherwise.
pub const IN_FLIGHT: u64 = 4;

/// How many keys workloads use that have no generations: few enough to be read once more, and to be in dispute.
const KEYS: u64 = 500;

/// Where nodes serve HTTP, and where their doors for Redis are, if each has an address of its own.
const HTTP_PORT: u16 = 7500;
const REDIS_PORT: u16 = 6379;

/// How long a command may take at a door: less than its clients wait, so that they hear what the door knows.
const DOOR_DEADLINE: Duration = Duration::from_secs(2);

/// The most sites that have clients.
const CLIENT_SITES_MAX: usize = 3;

/// How long clients may take to commit once everything serves.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(30);

/// How many transactions must commit in all, so that the history shows something: clients go on until then.
const COMMITS_MIN: usize = 500;

/// Groups that stand in sites are in so many of them.
const LOCAL_SITES: usize = 2;

/// How long the transactions of a local site may take until they have committed at all others, once everything serves.
const VISIBLE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long transactions whose clients are gone may stay prepared: recovery is asked for after two seconds, and may
/// have to be asked for again.
const LEFTOVERS_TIMEOUT: Duration = Duration::from_secs(20);

/// How long replicas may take to move once nothing keeps them from it, and how often somebody who waits for that looks.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(60);
const CHANGE_POLL: Duration = Duration::from_millis(10);

/// How long replicas may take to come to a common point at which they are compared.
const VERIFY_TIMEOUT: Duration = Duration::from_secs(60);

/// After a run of so long everything that was written is compared in strict keyspaces, where what was written last is settled only after
/// some fifteen seconds; after a shorter one what is settled when it ends.
const FRESH_AFTER: Duration = Duration::from_secs(20);

/// How often nodes without their data are looked after while faults strike together.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// A run of torture.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program `quorate`, whose processes are tortured.
    pub program: PathBuf,
    /// The seed of the faults and of the transactions.
    pub seed: u64,
    /// How long faults strike.
    pub time: Duration,
    /// The faults that strike.
    pub faults: Faults,
    /// Instead of faults, so many rolling restarts: in each, one node after the other is stopped in good order and started again, the next once
    /// all serve. Then no transaction may be refused, nor its outcome unknown.
    pub rolling: Option<u64>,
    /// Instead of faults, rolling upgrades from this program to the other one, a downgrade between them, and the end of the upgrade. Then no transaction may be
    /// refused either.
    pub upgrade_from: Option<PathBuf>,
    /// The workload of the clients.
    pub workload: WorkloadKind,
    /// How many transactions the clients of each site have in flight.
    pub in_flight: u64,
    /// The records that the keyspace holds beside, from before anything strikes.
    pub fill: Option<Fill>,
    /// How many nodes, each of which holds a replica of every shard at first. Where groups stand in sites, so many in each of two sites.
    pub nodes: GroupSize,
    /// In how many sites the nodes stand: in so many as there are nodes, if nothing is said. Groups that stand in sites have their own number.
    pub sites: Option<usize>,
    /// How many shards the keyspace has. Where groups stand in sites, how many in each of these: histories tell the transactions of one from
    /// those of another by the name of the site, so one.
    pub shards: usize,
    /// The crashes that acknowledged writes survive.
    pub durability: Durability,
    /// The promise of the keyspace.
    pub isolation: Isolation,
    /// The comparison system that runs the keyspace, if one does.
    pub baseline: Option<System>,
    /// How transactions speculate, if that is said.
    pub speculation: Option<Speculation>,
    /// The options of timestamps, if they are said: they say at which level the history is judged.
    pub timestamping: Option<Timestamping>,
    /// The door of each node through which clients come in; none if they are native ones.
    pub door: Option<Door>,
    /// True for network namespaces, false for proxies.
    pub namespaces: bool,
    /// True if the nodes have certificates, made for the run. Proxies, which read who connects, cannot do with it.
    pub tls: bool,
    /// The file to write the history to.
    pub history: Option<PathBuf>,
    /// Over how many event loops each node spreads its replicas.
    pub threads: EventLoops,
}

/// A moment of a run, told to people that wait for its end.
#[derive(Clone, Copy, Debug)]
pub enum Moment<'a> {
    /// So many server processes have begun, with data and logs in this directory.
    Begins {
        /// How many processes.
        processes: usize,
        /// Their directory.
        directory: &'a Path,
    },
    /// Keys are written that clients do not use.
    Fills {
        /// So many.
        done: u64,
        /// Of so many.
        of: u64,
    },
    /// A fault strikes.
    Strikes {
        /// The fault.
        fault: Fault,
        /// How long it lasts.
        lasts: Duration,
        /// For how long faults go on to strike together; none while they strike one after the other.
        left: Option<Duration>,
    },
    /// A rolling restart has come so far.
    Rolls {
        /// The node that is stopped.
        node: usize,
        /// Which round it is, from 1 on.
        round: u64,
        /// How many rounds there are.
        rounds: u64,
    },
    /// An upgrade is finished: this protocol version is put in force.
    Finishes {
        /// The version.
        version: u32,
    },
    /// Every fault ends.
    Heals,
    /// The replicas of each shard are compared.
    Compares,
    /// The comparison has come so far.
    Compared(HowFar<'a>),
    /// The history of so many committed transactions is judged.
    Judges {
        /// How many transactions.
        committed: u64,
    },
}

/// A listener to the moments of a run.
pub type Tell<'a> = dyn Fn(Moment<'_>) + Sync + 'a;

/// The outcome of a run.
pub struct Tortured {
    /// The faults that could strike, and how often each did.
    pub strikes: BTreeMap<Fault, u64>,
    /// How long there was no service.
    pub recoveries: Recoveries,
    /// The counts of the clients.
    pub tally: Tally,
    /// The judgement of the checker.
    pub report: Report,
    /// Everything that is wrong beside what the checker says.
    pub troubles: Vec<String>,
    /// The directory of logs and data, if something is wrong.
    pub evidence: Option<PathBuf>,
    /// The outcome of the upgrade, if there was one.
    pub upgraded: Option<Upgraded>,
    /// The changes that a consumer was told, if one followed.
    pub consumed: Option<Consumed>,
}

impl Tortured {
    /// True if nothing is wrong.
    pub fn is_ok(&self) -> bool {
        self.troubles.is_empty() && self.report.is_valid()
    }
}

impl Options {
    /// The faults that were asked for and cannot be injected: namespaces neither delay nor break, groups that stand in sites stay as they
    /// are, and so do those of keyspaces with homes; a home of one node does not survive its disk.
    pub fn impossible(&self) -> Vec<Fault> {
        match &self.faults {
            Faults::These(faults) => {
                faults.iter().copied().filter(|fault| !self.is_possible(*fault)).collect()
            }
            Faults::All => Vec::new(),
        }
    }

    /// True if a consumer of changes follows the keyspace: it has a feed, and all nodes know of that.
    fn is_followed(&self) -> bool {
        self.baseline.is_none() && self.upgrade_from.is_none()
    }

    fn is_possible(&self, fault: Fault) -> bool {
        match fault {
            Fault::DelaySpikes | Fault::BrokenConnections => !self.namespaces,
            Fault::Membership => !self.isolation.stands_in_sites() && !self.has_homes(),
            // The home of a node that shares it with nobody is on its disk alone.
            Fault::EmptyDisks => !self.has_homes() || self.shares_homes(),
            _ => true,
        }
    }

    /// True if transactions run at nodes.
    fn has_homes(&self) -> bool {
        self.isolation.has_homes() && self.baseline.is_none()
    }

    /// True if each home is that of three nodes, and survives one of them.
    fn shares_homes(&self) -> bool {
        let (nodes, sites) = (self.nodes.replicas(), self.sites());
        nodes.is_multiple_of(sites) && (nodes / sites).is_multiple_of(3)
    }

    /// How many sites there are.
    fn sites(&self) -> usize {
        match self.isolation.stands_in_sites() {
            true => LOCAL_SITES,
            false => self.sites.unwrap_or(self.nodes.replicas()),
        }
    }

    fn faults(&self) -> Vec<Fault> {
        let is_survived_and_possible = |fault: &Fault| match fault {
            // A write that is only in memory does not survive this.
            Fault::PowerLoss => self.durability == Durability::Sync,
            fault => self.is_possible(*fault),
        };
        if self.is_orderly() {
            return vec![Fault::Restarts];
        }
        match &self.faults {
            Faults::All => Fault::ALL.into_iter().filter(is_survived_and_possible).collect(),
            Faults::These(faults) => faults.clone(),
        }
    }

    /// True if nodes are only stopped in good order, so that clients notice nothing.
    fn is_orderly(&self) -> bool {
        self.rolling.is_some() || self.upgrade_from.is_some()
    }

    /// How many server processes there are: if replicas are to move, some that have none at first.
    fn processes(&self) -> usize {
        if self.isolation.stands_in_sites() {
            return LOCAL_SITES * self.nodes.replicas();
        }
        let spare = if self.faults().contains(&Fault::Membership) { SPARE_NODES } else { 0 };
        self.nodes.replicas() + spare
    }

    fn parameters(&self, clients: u64) -> Parameters {
        let mut parameters = Parameters::new(self.workload).for_clients(clients);
        parameters.judged = true;
        if self.workload != WorkloadKind::Lists {
            parameters.keys = KEYS;
        }
        parameters
    }

    fn layout(&self, directory: PathBuf, network: &Network) -> Result<Layout, Failure> {
        let addresses = network.addresses();
        let own = |port: u16| match network {
            Network::Proxies(_) => free_addresses(addresses.len()),
            // Each node has all ports of an address of its own.
            Network::Namespaces(_) => {
                let host = |listen: &str| {
                    listen.rsplit_once(':').map_or(listen.to_owned(), |(host, _)| host.to_owned())
                };
                Ok(addresses.iter().map(|address| format!("{}:{port}", host(&address.listen))).collect())
            }
        };
        let first_version = self.upgrade_from.as_deref().map(upgrade::first_version).transpose()?.flatten();
        let (http, redis) = (own(HTTP_PORT)?, self.door.map(|Door::Redis| own(REDIS_PORT)).transpose()?);
        Ok(Layout {
            cluster: u64::from(std::process::id()),
            sites: (0..self.sites()).map(site_name).collect(),
            nodes: addresses
                .iter()
                .enumerate()
                .map(|(node, at)| (site_name(node % self.sites()), at.found.clone()))
                .collect(),
            listen: addresses.iter().map(|address| address.listen.clone()).collect(),
            http,
            tls: self.tls.then(|| directory.join("certificates")),
            directory,
            wan: None,
            durability: self.durability,
            log: BTreeMap::new(),
            limits: BTreeMap::new(),
            redis: redis.map(|listen| RedisDoors {
                listen,
                keyspace: KEYSPACE.to_owned(),
                deadline: DOOR_DEADLINE,
            }),
            protocol_version: first_version.map(|version| version.0),
            threads: self.threads,
        })
    }
}

/// Tortures server processes and judges what comes of it. `tell` hears how far the run is.
///
/// # Errors
/// If the processes or their network cannot be set up, or the history cannot be written or read. Trouble under torture is no error: it
/// is part of the outcome.
pub async fn run(options: &Options, tell: &Tell<'_>) -> Result<Tortured, Failure> {
    let directory = tempfile::tempdir().map_err(Failure::failed)?;
    let network = if options.namespaces {
        Network::Namespaces(Namespaces::start(options.processes())?)
    } else {
        Network::Proxies(Proxies::start(options.processes())?)
    };
    let layout = options.layout(directory.path().to_owned(), &network)?;
    if let Some(certificates) = &layout.tls {
        make_certificates(certificates, layout.nodes.len())?;
    }
    let client = layout.client()?;
    let doors =
        layout.redis.as_ref().map(|redis| Doors { listen: redis.listen.clone(), ledger: Ledger::default() });
    let program = options.upgrade_from.as_ref().unwrap_or(&options.program).clone();
    let launch = Launch { program, wrappers: network.wrappers(), log_to_files: true };
    let processes = Processes::prepare(&layout, launch)?;
    let addresses = layout.addresses();
    let mut arena = Arena::start(layout, processes, network, options.nodes)?;
    arena.serve().await?;
    let db = quorate::connect_with(addresses.clone(), client.clone()).await?;
    let keyspace_options = KeyspaceOptions {
        durability: options.durability,
        shards: options.shards,
        replicas: Some(options.nodes.replicas()),
        comparison: options.baseline.map(Rival::from),
        speculation: options.speculation,
        timestamping: options.timestamping,
        ..KeyspaceOptions::new(options.isolation)
    };
    tell(Moment::Begins { processes: options.processes(), directory: directory.path() });
    let keyspace = db.create_keyspace(KEYSPACE, keyspace_options).await?;
    arena.expect_replicas(operator::placed(&db).await?);
    arena.serve().await?;
    let consumer = if options.is_followed() { Some(Consumer::start(&db, KEYSPACE).await?) } else { None };
    if let Some(fill) = options.fill {
        fill.write(&keyspace, tell).await?;
    }

    let sites = options.sites().min(CLIENT_SITES_MAX);
    let parameters = options.parameters(sites as u64 * options.in_flight);
    let history = HistoryLog::new();
    let task = Task {
        addresses,
        client,
        keyspace: KEYSPACE.to_owned(),
        parameters,
        in_flight: options.in_flight,
        history: history.clone(),
        doors: doors.clone(),
        seed: options.seed,
    };
    let clients = Clients::start(task, sites)?;
    let schedule = Schedule::new(options.seed, options.faults(), options.processes(), sites);
    let operator = Operator::new(db.clone(), options.nodes.replicas());
    let recoveries = Recoveries::default();
    let is_local = options.isolation.stands_in_sites();
    let mut torture = Torture { arena, clients, operator, schedule, recoveries, is_local, tell };

    let (began, mut troubles) = (Instant::now(), Vec::new());
    let mut upgraded = None;
    let struck = match (&options.upgrade_from, options.rolling) {
        (Some(earlier), _) => {
            torture.upgrade(&db, earlier, &options.program).await.map(|done| upgraded = Some(done))
        }
        (None, Some(rounds)) => torture.roll(rounds).await,
        (None, None) => torture.strike_all(options.time).await,
    };
    if let Err(Failure::Failed(reason) | Failure::Usage(reason)) = struck {
        troubles.push(reason);
    } else {
        troubles.extend(torture.settle(keyspace.clone()).await);
        troubles.extend(compare_replicas(&db, began.elapsed(), tell).await?);
    }
    let Torture { mut arena, mut clients, recoveries, .. } = torture;
    if let Err(Failure::Failed(reason) | Failure::Usage(reason)) = clients.end() {
        troubles.push(reason);
    }
    let consumed = end_consumer(consumer, &db, &keyspace, &mut troubles).await;
    db.close().await;
    let strikes = options.faults().into_iter().map(|fault| (fault, arena.strikes(fault))).collect();
    troubles.extend(arena.trouble());
    troubles.extend(arena.stop());

    troubles.extend(doors.map(|doors| doors.ledger.breaches()).unwrap_or_default());
    let tally = clients.tally().clone();
    troubles.extend(options.is_orderly().then(|| noticed(&tally)).flatten());
    tell(Moment::Judges { committed: tally.committed });
    let order = options.timestamping.unwrap_or_default().order;
    let level = quorate_workloads::level_in(options.isolation, order);
    let report = check(&history.to_history().map_err(Failure::failed)?, level);
    if report.vacuous {
        troubles.push("the history has too few conflicts to show anything".to_owned());
    }
    if let Some(path) = &options.history {
        write_history(path, &history)?;
    }
    let mut tortured =
        Tortured { strikes, recoveries, tally, report, troubles, evidence: None, upgraded, consumed };
    if !tortured.is_ok() {
        write_history(&directory.path().join("history.jsonl"), &history)?;
        tortured.evidence = Some(directory.keep());
    }
    Ok(tortured)
}

/// Lets the consumer come to the end, if there is one, and adds what is wrong with what it was told.
async fn end_consumer(
    consumer: Option<Consumer>,
    db: &quorate::Database,
    keyspace: &Keyspace,
    troubles: &mut Vec<String>,
) -> Option<Consumed> {
    match consumer?.end(db, keyspace).await {
        Ok((consumed, found)) => {
            troubles.extend(found);
            Some(consumed)
        }
        Err(Failure::Failed(reason) | Failure::Usage(reason)) => {
            troubles.push(format!("what a consumer was told cannot be judged: {reason}"));
            None
        }
    }
}

/// Compares what the replicas of each shard hold, and tells which differ or could not be compared.
async fn compare_replicas(
    db: &quorate::Database,
    ran: Duration,
    tell: &Tell<'_>,
) -> Result<Vec<String>, Failure> {
    tell(Moment::Compares);
    let is_fresh = ran >= FRESH_AFTER;
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let not_below = if is_fresh { since_1970.as_micros() as u64 } else { 0 };
    let how = VerifyOptions { patience: VERIFY_TIMEOUT, not_below };
    let mut troubles = Vec::new();
    for definition in db.definitions().await? {
        // Its replicas are alike at no point that anybody could name.
        if definition.comparison.as_ref().is_none_or(|comparison| comparison.rival.compares_replicas()) {
            troubles
                .extend(verify(db, &definition, how, &|far| tell(Moment::Compared(far))).await.troubles());
        }
    }
    Ok(troubles)
}

fn write_history(path: &Path, history: &HistoryLog) -> Result<(), Failure> {
    let write = || history.write_json(std::fs::File::create(path)?);
    write().map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))
}

/// The trouble with a rolling restart, if clients have noticed any.
fn noticed(tally: &Tally) -> Option<String> {
    (tally.refused + tally.unknown > 0).then(|| {
        let latest = tally.trouble.as_deref().unwrap_or("nothing was said");
        let Tally { refused, unknown, .. } = tally;
        format!("{refused} transactions were refused and the outcomes of {unknown} are unknown: {latest}")
    })
}

/// The trouble with final reads, if not as many have committed as there were to be.
fn unread(wanted: u64, last: Tally) -> Option<String> {
    (last.committed < wanted).then(|| {
        let why = last.trouble.unwrap_or_else(|| "conflicts".to_owned());
        format!("only {} of {wanted} final reads committed: {why}", last.committed)
    })
}

/// A run under way.
struct Torture<'a> {
    arena: Arena,
    clients: Clients,
    operator: Operator,
    schedule: Schedule,
    recoveries: Recoveries,
    /// True if transactions run at the site of their client, and come to the others later.
    is_local: bool,
    tell: &'a Tell<'a>,
}

impl Torture<'_> {
    /// Lets faults strike, half of the time one after the other, but each at least once, and then together.
    async fn strike_all(&mut self, time: Duration) -> Result<(), Failure> {
        let begin = Instant::now();
        self.wait_for_commits(begin).await?;
        let mut struck = 0;
        while (begin.elapsed() < time / 2 || struck < self.schedule.round_len())
            && self.strike_alone().await?
        {
            struck += 1;
        }
        self.strike_together(begin + time).await
    }

    /// Lets one fault strike, and waits until everything serves again. False if there are no faults.
    async fn strike_alone(&mut self) -> Result<bool, Failure> {
        let Some(strike) = self.schedule.draw() else { return Ok(false) };
        let tell = self.tell;
        let moment = Moment::Strikes { fault: strike.fault, lasts: strike.lasts, left: None };
        self.strike_and_wait(&strike, &|| tell(moment)).await?;
        Ok(true)
    }

    /// Restarts one node after the other, in so many rounds.
    async fn roll(&mut self, rounds: u64) -> Result<(), Failure> {
        self.wait_for_commits(Instant::now()).await?;
        let tell = self.tell;
        for round in 1..=rounds {
            for node in 0..self.arena.nodes() {
                let strike = Strike::restart(node);
                self.strike_and_wait(&strike, &|| tell(Moment::Rolls { node, round, rounds })).await?;
            }
        }
        Ok(())
    }

    /// Lets a fault strike, if it can, and waits until everything serves again and every site commits.
    async fn strike_and_wait(&mut self, strike: &Strike, tell: &dyn Fn()) -> Result<(), Failure> {
        let began = Instant::now();
        let Struck::Yes(request) = self.arena.strike(strike)? else { return Ok(()) };
        tell();
        self.fulfil(request)?;
        while let Some(end) = self.arena.next_ending() {
            tokio::time::sleep_until(end.into()).await;
            self.end_what_is_due()?;
        }
        self.wait_for_operator().await?;
        for restart in self.arena.serve().await? {
            self.recoveries.add_restart(restart.fault, restart.took);
        }
        let recovered = Instant::now();
        self.wait_for_commits(recovered).await?;
        let gap = recovery::longest_gap(&self.clients.commits(), began, recovered);
        self.recoveries.add_gap(strike.fault, gap);
        Ok(())
    }

    /// Lets faults strike while others last.
    async fn strike_together(&mut self, end: Instant) -> Result<(), Failure> {
        let (mut next_strike, mut next_look) = (Instant::now(), Instant::now());
        while Instant::now() < end {
            let now = Instant::now();
            self.end_what_is_due()?;
            if now >= next_strike {
                let Some(strike) = self.schedule.draw() else {
                    next_strike = end;
                    continue;
                };
                next_strike = now + strike.pause;
                if let Struck::Yes(request) = self.arena.strike(&strike)? {
                    let left = Some(end.saturating_duration_since(now));
                    (self.tell)(Moment::Strikes { fault: strike.fault, lasts: strike.lasts, left });
                    self.fulfil(request)?;
                }
            }
            if now >= next_look {
                self.look_after_operator()?;
                self.arena.look_after_lost().await;
                next_look = Instant::now() + LOOK_INTERVAL;
            }
            if let Some(trouble) = self.arena.trouble() {
                return Err(Failure::failed(trouble));
            }
            let wake = [Some(next_strike), Some(next_look), Some(end), self.arena.next_ending()];
            if let Some(wake) = wake.into_iter().flatten().min() {
                tokio::time::sleep_until(wake.into()).await;
            }
        }
        Ok(())
    }

    /// Ends every fault; then everything must serve, every client must commit and every transaction must end. Tells what
    /// does not.
    async fn settle(&mut self, keyspace: Keyspace) -> Vec<String> {
        let mut troubles = Vec::new();
        (self.tell)(Moment::Heals);
        if let Err(Failure::Failed(reason) | Failure::Usage(reason)) = self.heal().await {
            troubles.push(reason);
            return troubles;
        }
        let finals = match self.is_local {
            true => self.read_everything_everywhere().await,
            false => Ok(vec![self.clients.read_everything(keyspace, String::new()).await]),
        };
        match finals {
            Err(Failure::Failed(reason) | Failure::Usage(reason)) => troubles.push(reason),
            Ok(finals) => {
                troubles.extend(finals.into_iter().filter_map(|(wanted, last)| unread(wanted, last)))
            }
        }
        let deadline = Instant::now() + LEFTOVERS_TIMEOUT;
        loop {
            let left = self.arena.prepared().await;
            if left == Some(0) {
                break;
            }
            if Instant::now() >= deadline {
                let left = left.map_or("an unknown number of".to_owned(), |left| left.to_string());
                troubles.push(format!(
                    "{left} prepares are still open {LEFTOVERS_TIMEOUT:?} after the last client"
                ));
                break;
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        troubles
    }

    /// Waits until what has committed at one site is seen at the others, and reads all keys once more at each.
    async fn read_everything_everywhere(&mut self) -> Result<Vec<(u64, Tally)>, Failure> {
        let deadline = Instant::now() + VISIBLE_TIMEOUT;
        loop {
            let left = self.arena.uncommitted_elsewhere().await;
            if left == Some(0) {
                break;
            }
            if Instant::now() >= deadline {
                let left = left.map_or("an unknown number of".to_owned(), |left| left.to_string());
                return Err(Failure::failed(format!(
                    "{left} transactions are not visible everywhere {VISIBLE_TIMEOUT:?} after the last client"
                )));
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        let mut finals = Vec::new();
        for site in 0..self.clients.sites() {
            let (db, keyspace) = self.clients.connect(site).await?;
            finals.push(self.clients.read_everything(keyspace, site_name(site)).await);
            db.close().await;
        }
        Ok(finals)
    }

    async fn heal(&mut self) -> Result<(), Failure> {
        self.arena.hurry();
        while let Some(end) = self.arena.next_ending() {
            tokio::time::sleep_until(end.into()).await;
            self.end_what_is_due()?;
        }
        self.wait_for_operator().await?;
        self.arena.serve().await?;
        let healed = Instant::now();
        self.wait_for_commits(healed).await?;
        while self.clients.commits().len() < COMMITS_MIN && healed.elapsed() < COMMIT_TIMEOUT {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        self.clients.end()
    }

    fn end_what_is_due(&mut self) -> Result<(), Failure> {
        for request in self.arena.end_what_is_due(Instant::now())? {
            self.fulfil(Some(request))?;
        }
        Ok(())
    }

    fn fulfil(&mut self, request: Option<Request>) -> Result<(), Failure> {
        match request {
            Some(Request::Vanish(site)) => self.clients.vanish(site).map(|_| ()),
            Some(Request::Start(site)) => self.clients.start_site(site),
            Some(Request::Change(wish)) => {
                self.operator.begin(wish);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Looks whether replicas have moved that were to.
    fn look_after_operator(&mut self) -> Result<(), Failure> {
        if let Some(replicas) = self.operator.take_fulfilled()? {
            self.arena.expect_replicas(replicas);
        }
        Ok(())
    }

    /// Waits until replicas have moved that are to.
    async fn wait_for_operator(&mut self) -> Result<(), Failure> {
        let deadline = Instant::now() + CHANGE_TIMEOUT;
        while self.operator.is_changing() {
            self.look_after_operator()?;
            if Instant::now() >= deadline {
                return Err(Failure::failed(format!("replicas do not move within {CHANGE_TIMEOUT:?}")));
            }
            if let Some(trouble) = self.arena.trouble() {
                return Err(Failure::failed(trouble));
            }
            tokio::time::sleep(CHANGE_POLL).await;
        }
        Ok(())
    }

    /// Waits until the clients of every site have committed something since then.
    async fn wait_for_commits(&mut self, since: Instant) -> Result<(), Failure> {
        let deadline = Instant::now() + COMMIT_TIMEOUT;
        loop {
            let committed = self.clients.have_committed_since(since);
            let Some(idle) = committed.iter().position(|has| !has) else { return Ok(()) };
            if Instant::now() >= deadline {
                let site = site_name(idle);
                return Err(Failure::failed(format!(
                    "the clients of {site} commit nothing for {COMMIT_TIMEOUT:?} although everything serves"
                )));
            }
            if let Some(trouble) = self.arena.trouble() {
                return Err(Failure::failed(trouble));
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}
