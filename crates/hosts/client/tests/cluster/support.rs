//! A cluster to test against.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use quorate::{Database, Durability, Isolation, Keyspace, KeyspaceOptions, Options};
use quorate_runtime::ports::free_listeners;
use quorate_server::{Config, Initialise, Server, Sockets, Status};
use tokio::task::JoinHandle;

/// Nodes in sites, with data in a temporary directory. The first three hold the catalogue.
pub(crate) struct Cluster {
    directory: tempfile::TempDir,
    sites: Vec<&'static str>,
    addresses: Vec<String>,
    servers: Vec<Option<Server>>,
    /// The further lines of their files.
    more: &'static str,
    /// How many event loops they have.
    threads: u16,
}

/// How many event loops nodes have in tests that do not say: `QUORATE_TEST_THREADS`, or one.
fn threads() -> u16 {
    std::env::var("QUORATE_TEST_THREADS").map_or(1, |threads| threads.parse().unwrap())
}

impl Cluster {
    /// The servers that run.
    pub(crate) fn running(&self) -> impl Iterator<Item = &Server> + Clone {
        self.servers.iter().flatten()
    }

    /// Starts a new cluster of three nodes in three sites.
    pub(crate) fn start() -> Cluster {
        Cluster::start_in(&["a", "b", "c"])
    }

    /// Starts a new cluster with a node in each of these sites, which may be named several times.
    pub(crate) fn start_in(sites: &[&'static str]) -> Cluster {
        Cluster::start_with(sites, "")
    }

    /// Starts a new cluster of three nodes, each with so many event loops.
    pub(crate) fn start_of(threads: u16) -> Cluster {
        Cluster::start_threaded(&["a", "b", "c"], "", threads)
    }

    /// Starts a cluster as [`Cluster::start_in`] does, with more sections in the files of the nodes.
    pub(crate) fn start_with(sites: &[&'static str], more: &'static str) -> Cluster {
        Cluster::start_threaded(sites, more, threads())
    }

    fn start_threaded(sites: &[&'static str], more: &'static str, threads: u16) -> Cluster {
        let listeners = free_listeners(sites.len() as u16).unwrap();
        let addresses = listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
        let directory = tempfile::tempdir().unwrap();
        let sites = sites.to_vec();
        let mut cluster = Cluster { directory, sites, addresses, servers: Vec::new(), more, threads };
        for (node, listener) in listeners.into_iter().enumerate() {
            let sockets = Sockets { node: Some(listener), http: None };
            let server = Server::start_with(cluster.config(node), Initialise::New, sockets).unwrap();
            cluster.servers.push(Some(server));
        }
        cluster
    }

    /// Has nodes that are started from here on have so many event loops.
    pub(crate) fn set_threads(&mut self, threads: u16) {
        self.threads = threads;
    }

    fn config(&self, node: usize) -> Config {
        let directory = self.directory.path().join(format!("node-{node}"));
        let mut sites = self.sites.clone();
        sites.sort_unstable();
        sites.dedup();
        let mut text = format!(
            "node = {node}\ndata_directory = {directory:?}\nsites = {sites:?}\nthreads = {}\n\
             [cluster]\nname = \"test\"\nid = 99\n[system]\nreplicas = [0, 1, 2]\n",
            self.threads
        );
        for (site, address) in self.sites.iter().zip(&self.addresses) {
            text.push_str(&format!("[[nodes]]\nsite = \"{site}\"\naddress = \"{address}\"\n"));
        }
        text.push_str(self.more);
        Config::parse(&text).unwrap()
    }

    /// Stops a node as a crash would.
    pub(crate) fn crash(&mut self, node: usize) {
        self.servers[node].take().unwrap().crash().unwrap();
    }

    /// Stops a node in good order.
    pub(crate) fn stop(&mut self, node: usize) {
        self.servers[node].take().unwrap().shutdown().unwrap();
    }

    /// Starts a node again, with what its disk holds.
    pub(crate) fn restart(&mut self, node: usize) {
        self.servers[node] = Some(Server::start(self.config(node), Initialise::No).unwrap());
    }

    /// How a node that runs is.
    pub(crate) fn status(&self, node: usize) -> Status {
        self.servers[node].as_ref().unwrap().status()
    }

    /// Waits until all replicas on all nodes serve.
    pub(crate) async fn all_serve(&self) {
        let serves = |node| self.status(node).replicas.iter().all(|replica| replica.state == "normal");
        until("replicas come back", || (0..self.servers.len()).all(serves)).await;
    }

    /// Starts a node anew that has lost its disk.
    pub(crate) fn replace(&mut self, node: usize) {
        std::fs::remove_dir_all(self.directory.path().join(format!("node-{node}"))).unwrap();
        self.servers[node] = Some(Server::start(self.config(node), Initialise::Replace).unwrap());
    }

    /// Removes the log of the replica of a shard on a node that does not run.
    pub(crate) fn lose_log(&self, node: usize, shard: u32) {
        let replicas = self.directory.path().join(format!("node-{node}/replicas"));
        let is_of_shard = |name: &str| name.starts_with(&format!("shard-{shard}-r"));
        let names = std::fs::read_dir(&replicas).unwrap().map(|entry| entry.unwrap().file_name());
        let lost: Vec<_> = names.filter(|name| is_of_shard(&name.to_string_lossy())).collect();
        assert_eq!(lost.len(), 1, "{lost:?}");
        std::fs::remove_dir_all(replicas.join(&lost[0]).join("log")).unwrap();
    }

    /// True if a replica keeps a log on the disk of a node.
    pub(crate) fn has_log(&self, node: usize, shard: u32, index: usize) -> bool {
        let replica = format!("node-{node}/replicas/shard-{shard}-r{index}/log");
        self.directory.path().join(replica).exists()
    }

    /// The token of the first node, for its operator.
    pub(crate) fn token(&self) -> quorate::Credential {
        quorate::Credential::token(self.servers[0].as_ref().unwrap().token())
    }

    /// The addresses of the nodes.
    pub(crate) fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// A connection with these options.
    pub(crate) async fn connect_with(&self, options: Options) -> Database {
        quorate::connect_with(self.addresses.as_slice(), options).await.unwrap()
    }

    /// A connection of a client that has patience with a slow machine: what is tested is how calls end, and not how soon.
    pub(crate) async fn connect(&self) -> Database {
        self.connect_with(Options { deadline: Duration::from_secs(30), ..Options::default() }).await
    }
}

/// A new keyspace of two shards.
pub(crate) async fn accounts(db: &Database) -> Keyspace {
    let options = KeyspaceOptions {
        shards: 2,
        durability: Durability::Sync,
        ..KeyspaceOptions::new(Isolation::Strict)
    };
    db.create_keyspace("accounts", options).await.unwrap()
}

/// Options with a short deadline.
pub(crate) fn impatient(deadline: Duration) -> Options {
    Options { deadline, ..Options::default() }
}

/// Adds one to a counter.
pub(crate) async fn increment(keyspace: &Keyspace, key: &str) -> quorate::Result<u64> {
    keyspace
        .transact(async |txn| {
            let before = txn.get(key).await?.map_or(0, |value| number(&value));
            txn.put(key, (before + 1).to_string())?;
            Ok(before + 1)
        })
        .await
}

/// Increments, with patience for leaders that change.
pub(crate) async fn count_up(keyspace: &Keyspace, key: &str) -> u64 {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        match increment(keyspace, key).await {
            Ok(count) => return count,
            Err(error) => assert!(tokio::time::Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The number in a counter.
pub(crate) fn number(value: &[u8]) -> u64 {
    std::str::from_utf8(value).unwrap().parse().unwrap()
}

/// Counters that are incremented all the time, each by one task.
pub(crate) struct Load {
    accounts: Keyspace,
    stop: Arc<AtomicBool>,
    /// How many increments of each counter were acknowledged.
    acknowledged: Arc<[AtomicU64; Load::COUNTERS]>,
    counting: Vec<JoinHandle<()>>,
}

impl Load {
    const COUNTERS: usize = 4;

    /// Begins to count.
    pub(crate) fn start(accounts: &Keyspace) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let acknowledged = Arc::new([const { AtomicU64::new(0) }; Load::COUNTERS]);
        let count = |counter: usize| {
            let (accounts, stop, acknowledged) =
                (accounts.clone(), Arc::clone(&stop), Arc::clone(&acknowledged));
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    if increment(&accounts, &format!("counter{counter}")).await.is_ok() {
                        acknowledged[counter].fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        };
        let counting = (0..Load::COUNTERS).map(count).collect();
        Load { accounts: accounts.clone(), stop, acknowledged, counting }
    }

    fn acknowledged(&self) -> [u64; Load::COUNTERS] {
        std::array::from_fn(|counter| self.acknowledged[counter].load(Ordering::Relaxed))
    }

    /// Waits until every counter has gone on from here. `after` says after what.
    pub(crate) async fn goes_on(&self, after: &str) {
        let before = self.acknowledged();
        let is_further = || self.acknowledged().iter().zip(before).all(|(now, before)| *now > before + 2);
        until(&format!("the load goes on after {after}"), is_further).await;
    }

    /// Ends, and finds everything there that was acknowledged.
    pub(crate) async fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for counting in std::mem::take(&mut self.counting) {
            counting.await.unwrap();
        }
        for (counter, acknowledged) in self.acknowledged().into_iter().enumerate() {
            let value = self.accounts.get(format!("counter{counter}")).await.unwrap();
            let counted = value.map_or(0, |value| number(&value));
            assert!(counted >= acknowledged, "{acknowledged} were acknowledged, {counted} are there");
        }
    }
}

/// Waits until something holds that is to come by itself; `what` says what for.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(tokio::time::Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
