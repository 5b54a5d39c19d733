//! A cluster under attack: server processes on this machine, and the words that an attack is told in.
//!
//! ```text
//!   cluster.write(200).await?;          every keyspace acknowledges 200 writes more
//!   cluster.kill(C)?;
//!   let copy = cluster.copy(A)?;        what its disk holds
//!   …
//!   cluster.roll_back(A, &copy)?;       its disk holds that again
//!   cluster.start(A)?;
//!   cluster.expect_refused(A, &["--initialise=replace"]).await?;
//! ```
//!
//! When the attack is told, [`Cluster::end`] judges: every node serves, every keyspace takes writes, everything that was acknowledged is
//! read at every site, and no server has ended by itself or panicked.
//!
//! | file | role |
//! |---|---|
//! | `disk` | what becomes of the data directories |
//! | `expect` | what nodes have to say |
//! | `end` | the judgement |
//! | `moves` | replicas that move while something else happens |
//! | `peer` | a connection that says it is a node, and says anything |
//! | `tool` | commands that an operator gives |
//! | `world` | addresses, connections, clocks |

mod disk;
mod end;
mod expect;
mod moves;
mod peer;
mod tool;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use quorate::{Changed, Database, Durability, Error, Isolation, Keyspace, KeyspaceOptions, Options};
use quorate_cluster::{Begin, Failure, Launch, Layout, Processes, free_addresses};
use quorate_core::Random;
use quorate_server::EventLoops;
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::ledger::{Counts, Ledger};
use crate::operator::placed;
use crate::status::{NodeStatus, ask};

pub(super) use peer::{fixed, nested, number};

/// The first three nodes.
pub(super) const A: usize = 0;
pub(super) const B: usize = 1;
pub(super) const C: usize = 2;

/// The keyspaces of a cluster, each by the name of what it promises.
pub(super) const STRICT: &str = "strict";
pub(super) const SERIALIZABLE: &str = "serializable";
const KEYSPACES: [(&str, Isolation); 2] =
    [(STRICT, Isolation::Strict), (SERIALIZABLE, Isolation::Serializable)];

/// How long servers may take to serve once nothing keeps them from it.
const SERVE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a server may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(12);

/// How often somebody looks who waits.
const POLL: Duration = Duration::from_millis(20);

/// How long a transaction may take, with all its attempts.
const DEADLINE: Duration = Duration::from_secs(5);

/// Below how much room nodes refuse writes: disks that are to be filled are small.
const FREE_BYTES_LOW: u64 = 8 << 20;

/// The shape of a cluster at first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    /// How many nodes, each in a site of its own.
    pub(super) nodes: usize,
    /// How many replicas every shard has.
    pub(super) replicas: usize,
}

/// Three nodes, each of which has a replica of everything.
pub(super) const THREE: Setup = Setup { nodes: 3, replicas: 3 };

/// A cluster under attack.
pub(super) struct Cluster {
    processes: Processes,
    layout: Layout,
    setup: Setup,
    random: Random,
    /// The nodes that run.
    running: BTreeSet<usize>,
    /// Where in the log of each node its last start begins.
    log_starts: Vec<u64>,
    /// How many replicas each node is to have.
    replicas: Vec<usize>,
    db: Option<Database>,
    ledgers: Vec<Ledger>,
    /// Changes of replicas that are under way.
    changing: JoinSet<Result<Changed, quorate::Error>>,
    /// The steps that were taken, and when.
    steps: Vec<String>,
    began: Instant,
    /// True if the evidence is kept in any case.
    keep: bool,
    /// Why the attack cannot be carried out on this machine.
    skipped: Option<String>,
    // After the processes, so that they end before what they use is removed.
    mounts: Vec<disk::Mount>,
    directory: TempDir,
}

impl Cluster {
    /// Prepares servers of this program, and starts none.
    pub(super) fn prepare(program: &Path, setup: Setup, seed: u64, keep: bool) -> Result<Cluster, Failure> {
        let directory = tempfile::tempdir().map_err(Failure::failed)?;
        let sites: Vec<String> = (1..=setup.nodes).map(|number| format!("site{number}")).collect();
        let found = free_addresses(2 * setup.nodes)?;
        let (addresses, http) = found.split_at(setup.nodes);
        let mut random = Random::new(seed);
        let layout = Layout {
            cluster: random.next_u64() >> 1,
            nodes: sites.iter().cloned().zip(addresses.iter().cloned()).collect(),
            sites,
            listen: Vec::new(),
            http: http.to_vec(),
            directory: directory.path().to_owned(),
            wan: None,
            durability: Durability::Sync,
            log: BTreeMap::new(),
            limits: BTreeMap::from([("free_bytes_low".to_owned(), FREE_BYTES_LOW)]),
            redis: None,
            tls: None,
            protocol_version: None,
            threads: EventLoops::default(),
        };
        let launch = Launch { log_to_files: true, ..Launch::directly(program) };
        Ok(Cluster {
            processes: Processes::prepare(&layout, launch)?,
            layout,
            setup,
            random,
            running: BTreeSet::new(),
            log_starts: vec![0; setup.nodes],
            replicas: vec![0; setup.nodes],
            db: None,
            ledgers: Vec::new(),
            changing: JoinSet::new(),
            mounts: Vec::new(),
            steps: Vec::new(),
            began: Instant::now(),
            keep,
            skipped: None,
            directory,
        })
    }

    /// Starts every node as a new one, creates a keyspace of each isolation, and waits until all serve.
    pub(super) async fn begin(&mut self) -> Result<(), Failure> {
        for node in 0..self.setup.nodes {
            self.start_as(node, Begin::New)?;
        }
        self.serve().await?;
        let db = self.connect(None).await?;
        // Creating shares the processors with the starts of other scenes.
        let patient = quorate::connect(self.layout.addresses()).await?;
        for (name, isolation) in KEYSPACES {
            let options =
                KeyspaceOptions { replicas: Some(self.setup.replicas), ..KeyspaceOptions::new(isolation) };
            patient.create_keyspace(name, options).await?;
            self.ledgers.push(Ledger::new(Cluster::find(&db, name).await?));
        }
        patient.close().await;
        self.db = Some(db);
        self.look_where_replicas_are().await?;
        self.serve().await
    }

    /// Connects as a client in a site.
    async fn connect(&self, site: Option<&str>) -> Result<Database, Failure> {
        let options = Options { site: site.map(str::to_owned), deadline: DEADLINE, ..Options::default() };
        Ok(quorate::connect_with(self.layout.addresses(), options).await?)
    }

    /// The client.
    pub(super) fn db(&self) -> Result<&Database, Failure> {
        self.db.as_ref().ok_or_else(|| Failure::failed("the cluster has not begun"))
    }

    /// A number below a bound, drawn from the seed.
    pub(super) fn draw(&mut self, bound: usize) -> usize {
        self.random.index(bound)
    }

    /// The attack cannot be carried out on this machine.
    pub(super) fn skip(&mut self, why: impl Into<String>) {
        self.skipped = Some(why.into());
    }

    /// Notes what is done, for the evidence.
    fn note(&mut self, step: impl AsRef<str>) {
        self.steps.push(format!("{:6.2} s  {}", self.began.elapsed().as_secs_f64(), step.as_ref()));
    }

    /// Kills a node, as a power failure would.
    pub(super) fn kill(&mut self, node: usize) -> Result<(), Failure> {
        self.note(format!("kill {node}"));
        self.running.remove(&node);
        self.processes.kill_node(node)
    }

    /// Kills every node.
    pub(super) fn kill_all(&mut self) -> Result<(), Failure> {
        (0..self.setup.nodes).try_for_each(|node| self.kill(node))
    }

    /// Stops a node in good order.
    pub(super) async fn stop(&mut self, node: usize) -> Result<(), Failure> {
        self.note(format!("stop {node}"));
        self.running.remove(&node);
        self.processes.ask_node_to_stop(node)?;
        let deadline = Instant::now() + STOP_TIMEOUT;
        loop {
            match self.processes.take_ended(node)? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => {
                    return Err(Failure::failed(format!("server {node} has stopped with {status}")));
                }
                None if Instant::now() >= deadline => {
                    return Err(Failure::failed(format!(
                        "server {node} does not stop within {STOP_TIMEOUT:?}"
                    )));
                }
                None => tokio::time::sleep(POLL).await,
            }
        }
    }

    /// Starts a node as always.
    pub(super) fn start(&mut self, node: usize) -> Result<(), Failure> {
        self.start_as(node, Begin::Again)
    }

    /// Starts a node in some way.
    pub(super) fn start_as(&mut self, node: usize, begin: Begin) -> Result<(), Failure> {
        self.note(format!("start {node}: {begin:?}"));
        self.log_starts[node] = std::fs::metadata(self.log_path(node)).map_or(0, |log| log.len());
        self.processes.start_node(node, begin)?;
        self.running.insert(node);
        Ok(())
    }

    /// Starts a node by way of a command, which gets the server and its arguments as its last words.
    pub(super) fn start_within(&mut self, node: usize, wrapper: &[&str]) -> Result<(), Failure> {
        self.processes.wrap_node(node, wrapper.iter().map(OsString::from).collect());
        let started = self.start(node);
        self.processes.wrap_node(node, Vec::new());
        started
    }

    /// Kills every node, and starts it as always.
    pub(super) async fn restart_all(&mut self) -> Result<(), Failure> {
        self.kill_all()?;
        (0..self.setup.nodes).try_for_each(|node| self.start(node))?;
        self.serve().await
    }

    /// Every keyspace acknowledges so many writes more.
    pub(super) async fn write(&mut self, count: u64) -> Result<(), Failure> {
        self.note(format!("write {count}"));
        for ledger in &mut self.ledgers {
            ledger.write(count).await?;
        }
        Ok(())
    }

    /// From now on every value has so many bytes more.
    pub(super) fn fatten(&mut self, bytes: usize) {
        self.ledgers.iter_mut().for_each(|ledger| ledger.fatten(bytes));
    }

    /// Tries to write and to read while the cluster may refuse both. A write that it acknowledges counts, and its answers must be true. Tells how
    /// many writes were acknowledged.
    pub(super) async fn tempt(&mut self) -> Result<u64, Failure> {
        // Both keyspaces at once, because each may take all the time that it is given.
        let mut tempting = JoinSet::new();
        for (index, mut ledger) in std::mem::take(&mut self.ledgers).into_iter().enumerate() {
            tempting.spawn(async move {
                let acknowledged = ledger.try_write().await;
                let read = ledger.try_read().await;
                (index, ledger, acknowledged, read)
            });
        }
        let mut outcome = Ok(0);
        let mut back = BTreeMap::new();
        while let Some(tempted) = tempting.join_next().await {
            let (index, ledger, acknowledged, read) =
                tempted.map_err(|_| Failure::failed("the task of a ledger has panicked"))?;
            self.note(format!("tempt {}: {acknowledged:?} writes acknowledged", ledger.keyspace()));
            outcome = outcome.and_then(|before| read.and(acknowledged.map(|now| before + now)));
            back.insert(index, ledger);
        }
        self.ledgers = back.into_values().collect();
        outcome
    }

    /// The counts of the outcomes of all writes.
    pub(super) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.ledgers.iter().for_each(|ledger| counts.add(ledger.counts()));
        counts
    }

    /// Each node has to have the replicas that the catalogue gives it now.
    async fn look_where_replicas_are(&mut self) -> Result<(), Failure> {
        let deadline = Instant::now() + SERVE_TIMEOUT;
        loop {
            // Right after restarts, nodes that register themselves may be in the way of a reading of the catalogue.
            match placed(self.db()?).await {
                Ok(replicas) => self.replicas = replicas,
                Err(_) if Instant::now() < deadline => {
                    tokio::time::sleep(POLL).await;
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            return Ok(());
        }
    }

    /// A keyspace, as a client finds it that may have to try for a while.
    pub(super) async fn find(db: &Database, name: &str) -> Result<Keyspace, Failure> {
        let deadline = Instant::now() + SERVE_TIMEOUT;
        loop {
            match db.keyspace(name).await {
                Ok(keyspace) => return Ok(keyspace),
                Err(Error::Conflict | Error::Unavailable { .. }) if Instant::now() < deadline => {
                    tokio::time::sleep(POLL).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until every node that runs serves all its replicas.
    pub(super) async fn serve(&mut self) -> Result<(), Failure> {
        let nodes: Vec<usize> = self.running.iter().copied().collect();
        self.serve_at(&nodes).await
    }

    /// Waits until these nodes serve all their replicas.
    pub(super) async fn serve_at(&mut self, nodes: &[usize]) -> Result<(), Failure> {
        let deadline = Instant::now() + SERVE_TIMEOUT;
        let mut waiting = nodes.to_vec();
        loop {
            let mut missing = Vec::new();
            for node in std::mem::take(&mut waiting) {
                let status = self.status(node).await;
                let serves =
                    |status: &NodeStatus| status.healthy && status.replicas.len() >= self.replicas[node];
                if !status.as_ref().is_some_and(serves) {
                    let why = status.map(|status| {
                        format!(
                            "{} of {} replicas; {}",
                            status.replicas.len(),
                            self.replicas[node],
                            status.problems.join("; ")
                        )
                    });
                    let why = why.unwrap_or_else(|| "it does not answer".to_owned());
                    missing.push(format!("node {node} does not serve within {SERVE_TIMEOUT:?}: {why}"));
                    waiting.push(node);
                }
            }
            if waiting.is_empty() {
                self.note(format!("{nodes:?} serve"));
                return Ok(());
            }
            self.check_that_all_run()?;
            if Instant::now() >= deadline {
                return Err(Failure::failed(missing.join("; ")));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits a while.
    pub(super) async fn wait(&mut self, while_: Duration) {
        self.note(format!("wait for {while_:?}"));
        tokio::time::sleep(while_).await;
    }

    /// How a node says that it is; none if it does not answer.
    async fn status(&self, node: usize) -> Option<NodeStatus> {
        ask(&self.layout, node).await
    }

    /// Waits until a keyspace has a leader, and tells which node that is.
    pub(super) async fn leader(&mut self, keyspace: &str) -> Result<usize, Failure> {
        let deadline = Instant::now() + SERVE_TIMEOUT;
        loop {
            for node in self.running.clone() {
                let replicas = self.status(node).await.map_or(Vec::new(), |status| status.replicas);
                if replicas.iter().any(|replica| replica.keyspace == keyspace && replica.leads) {
                    return Ok(node);
                }
            }
            if Instant::now() >= deadline {
                return Err(Failure::failed(format!("{keyspace} has no leader for {SERVE_TIMEOUT:?}")));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn log_path(&self, node: usize) -> PathBuf {
        self.layout.directory.join(format!("node-{node}.log"))
    }
}
