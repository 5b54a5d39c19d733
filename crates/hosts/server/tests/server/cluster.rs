//! Three nodes in this process, on ports of the system's choice.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use quorate_core::topology::{Durability, Keyspace, Shard};
use quorate_core::{KeyspaceId, NodeId, ShardId};
use quorate_runtime::ports::free_listeners;
use quorate_server::{Config, DataError, Initialise, Limits, Server, Sockets, StartError, print_config};

use crate::client::Client;

/// An entry of the catalogue that nodes do not care for.
pub(crate) const ENTRY: &str = "option/0000000007/colour";

/// The shard of the keyspace that [`Cluster::hosting`] creates.
pub(crate) const SHARD: ShardId = ShardId(1 + b't' as u32);

/// Three nodes, and the directory that their data is in.
pub(crate) struct Cluster {
    pub(crate) servers: Vec<Option<Server>>,
    pub(crate) configs: Vec<Config>,
    directory: tempfile::TempDir,
}

impl Cluster {
    /// Starts a new cluster.
    pub(crate) fn start(system: Durability) -> Cluster {
        Cluster::start_with(system, Limits::default())
    }

    pub(crate) fn start_with(system: Durability, limits: Limits) -> Cluster {
        Cluster::start_configured(|base| (base.system.durability, base.limits) = (system, limits))
    }

    /// Starts a new cluster of nodes whose files have these changes.
    pub(crate) fn start_configured(change: impl FnOnce(&mut Config)) -> Cluster {
        let directory = tempfile::tempdir().unwrap();
        let listeners = free_listeners(3).unwrap();
        let mut base = Config::parse(print_config()).unwrap();
        if let Ok(threads) = std::env::var("QUORATE_TEST_THREADS") {
            base.threads = threads.parse().unwrap();
        }
        change(&mut base);
        for (node, listener) in base.topology.nodes.iter_mut().zip(&listeners) {
            node.address = listener.local_addr().unwrap().to_string();
        }
        let configs: Vec<_> = (0..3)
            .map(|node| Config {
                node: NodeId(node),
                data_directory: directory.path().join(format!("node-{node}")),
                http: None,
                ..base.clone()
            })
            .collect();
        let servers = configs.iter().zip(listeners).map(|(config, listener)| {
            let http = Some(TcpListener::bind("127.0.0.1:0").unwrap());
            let sockets = Sockets { node: Some(listener), http };
            Some(Server::start_with(config.clone(), Initialise::New, sockets).unwrap())
        });
        Cluster { servers: servers.collect(), configs, directory }
    }

    /// Starts a new cluster with a keyspace of one shard, [`SHARD`], and a client that knows it.
    pub(crate) async fn hosting(limits: Limits) -> (Cluster, Keyspace, Client) {
        let cluster = Cluster::start_with(Durability::Memory, limits);
        cluster.healthy(1).await;
        let mut client = cluster.client().await;
        let keyspace = cluster.create(&mut client, "t", Durability::Memory).await;
        (cluster, keyspace, client)
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let addresses = self.configs[0].topology.nodes.iter().map(|node| node.address.parse().unwrap());
        addresses.collect()
    }

    pub(crate) fn system(&self) -> &Keyspace {
        &self.configs[0].system
    }

    pub(crate) fn server(&self, node: usize) -> &Server {
        self.servers[node].as_ref().expect("it runs")
    }

    /// A client that is connected to every node that runs, and knows the built-in keyspace.
    pub(crate) async fn client(&self) -> Client {
        let client = Client::connect(self.configs[0].cluster, &self.addresses());
        client.connected(self.servers.iter().flatten().count()).await;
        client.route(self.system());
        client
    }

    /// Stops a node as `kill -9` would.
    pub(crate) fn crash(&mut self, node: usize) {
        self.servers[node].take().expect("it runs").crash().unwrap();
    }

    /// Starts a node again where it was.
    pub(crate) fn restart(&mut self, node: usize) {
        // A program that another test starts holds the locks of this process for a moment, until it is loaded.
        let patience = Instant::now() + Duration::from_secs(10);
        self.servers[node] = loop {
            let sockets = Sockets { node: None, http: Some(TcpListener::bind("127.0.0.1:0").unwrap()) };
            match Server::start_with(self.configs[node].clone(), Initialise::No, sockets) {
                Err(StartError::Data(DataError::InUse { .. })) if Instant::now() < patience => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                started => break Some(started.unwrap()),
            }
        };
    }

    pub(crate) fn replica_directory(&self, node: usize, shard: u32) -> PathBuf {
        self.directory.path().join(format!("node-{node}/replicas/shard-{shard}-r{node}"))
    }

    /// Waits until every replica of every node that runs is normal, and there are at least so many of them on each.
    pub(crate) async fn healthy(&self, replicas: usize) {
        for _ in 0..1_000 {
            let is_well = |server: &Server| {
                let status = server.status();
                status.healthy && status.replicas.len() >= replicas
            };
            if self.servers.iter().flatten().all(is_well) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let statuses: Vec<_> = self.servers.iter().flatten().map(|server| server.status().problems).collect();
        panic!("the cluster is not well: {statuses:?}");
    }

    /// Writes a keyspace into the catalogue and waits until every node hosts it.
    pub(crate) async fn create(&self, client: &mut Client, name: &str, durability: Durability) -> Keyspace {
        let number = 1 + name.bytes().map(u32::from).sum::<u32>();
        let shards = vec![Shard::new(ShardId(number), vec![NodeId(0), NodeId(1), NodeId(2)])];
        let keyspace = Keyspace::new(KeyspaceId(number), name, self.system().isolation, durability, shards);
        let key = format!("keyspace/{name}");
        client.write(self.system(), &key, Some(quorate_wire::encode(&keyspace))).await;
        let hosts = |server: &Server| server.status().replicas.iter().any(|replica| replica.keyspace == name);
        until("every node hosts it", || self.servers.iter().flatten().all(hosts)).await;
        self.healthy(2).await;
        client.route(&keyspace);
        keyspace
    }
}

/// Waits until something holds that is to come by itself; `what` says what for.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(tokio::time::Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
