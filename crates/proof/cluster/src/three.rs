//! Three nodes in three sites on threads of this process, for tests: their addresses are free ones, and their data goes with them.

use std::time::Duration;

use quorate::{Durability, Isolation, KeyspaceOptions};
use quorate_server::{EventLoops, Initialise, Server, Sockets};

use super::{Layout, Threads};
use crate::Failure;

/// How long a keyspace may take until it is there: the nodes have just started.
const CREATE_TIMEOUT: Duration = Duration::from_secs(60);

/// Three nodes, each running or not.
#[derive(Debug)]
pub struct ThreeNodes {
    // Before the directory, so that they end before it is removed.
    servers: Vec<Option<Server>>,
    layout: Layout,
    _directory: tempfile::TempDir,
}

impl ThreeNodes {
    /// Starts them.
    ///
    /// # Errors
    /// If there are no ports, no directory for their data, or a node cannot be started.
    pub fn start() -> Result<ThreeNodes, Failure> {
        ThreeNodes::start_in(["a", "b", "c"], None)
    }

    /// Starts them in these sites, as far apart as the matrix of this name says, if there is one.
    ///
    /// # Errors
    /// As [`ThreeNodes::start`], or if there is no such matrix.
    pub fn start_in(sites: [&str; 3], matrix: Option<&str>) -> Result<ThreeNodes, Failure> {
        let directory = tempfile::tempdir().map_err(Failure::failed)?;
        let sites: Vec<String> = sites.map(str::to_owned).to_vec();
        let mut layout = Layout {
            cluster: 99,
            nodes: sites.iter().map(|site| (site.clone(), String::new())).collect(),
            listen: Vec::new(),
            http: Vec::new(),
            sites,
            directory: directory.path().to_owned(),
            wan: matrix.map(str::to_owned),
            durability: Durability::Sync,
            log: Default::default(),
            limits: Default::default(),
            redis: None,
            tls: None,
            protocol_version: None,
            threads: EventLoops::default(),
        };
        let servers = Threads::start_anywhere(&mut layout)?.into_servers().into_iter().map(Some).collect();
        Ok(ThreeNodes { servers, layout, _directory: directory })
    }

    /// The addresses of the nodes.
    pub fn addresses(&self) -> Vec<String> {
        self.layout.addresses()
    }

    /// How the operator of the nodes connects: also once the cluster has users.
    ///
    /// # Errors
    /// If the token of the first node cannot be read.
    pub fn client(&self) -> Result<quorate::Options, Failure> {
        self.layout.client()
    }

    /// Creates keyspaces of these names and isolations, with so many shards each, and waits until they serve.
    ///
    /// # Errors
    /// If one cannot be created.
    pub fn create(&self, keyspaces: &[(&str, Isolation, usize)]) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(Failure::failed)?.block_on(async {
            let client = quorate::Options { deadline: CREATE_TIMEOUT, ..quorate::Options::default() };
            let db = quorate::connect_with(self.addresses(), client).await?;
            for (name, isolation, shards) in keyspaces {
                let options = KeyspaceOptions { shards: *shards, ..KeyspaceOptions::new(*isolation) };
                db.create_keyspace(name, options).await?;
            }
            db.close().await;
            Ok(())
        })
    }

    /// Takes a node that runs, to be stopped, crashed or dropped.
    pub fn take(&mut self, node: usize) -> Option<Server> {
        self.servers.get_mut(node)?.take()
    }

    /// Starts a node again that was taken, with the data that it has.
    ///
    /// # Errors
    /// If it cannot be started, as when it runs.
    pub fn restart(&mut self, node: usize) -> Result<(), Failure> {
        let config = self.layout.config(node)?;
        let server =
            Server::start_with(config, Initialise::No, Sockets::default()).map_err(Failure::failed)?;
        self.servers[node] = Some(server);
        Ok(())
    }
}
