//! The doors of a node: how programs come in that are no clients of the cluster.

use std::path::PathBuf;
use std::time::Duration;

use super::KeyPair;

/// The options of the doors of a node. `quorate server --print-config` documents it with its defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doors {
    /// Where clients of Redis are served, as `host:port`; none if nowhere. Until there is an administrator, any client that reaches it may do everything.
    pub redis: Option<String>,
    /// The keyspace that each number of `SELECT` chooses, from zero; an empty name stands for none.
    pub redis_databases: Vec<String>,
    /// Whether scripts of Redis clients run at the shards of `serializable` keyspaces where they can. Servers of an earlier version cannot.
    pub redis_scripts_at_shards: bool,
    /// Where HTTP and JSON are served, as `host:port`; none if nowhere. Until there is an administrator, any client that reaches it may do everything.
    pub http: Option<String>,
    /// The certificate that doors show to their clients, where the node has certificates; that of the node if none is named.
    pub tls: Option<KeyPair>,
    /// The certificate of the user as which doors work with the cluster, where the node has certificates.
    pub user: Option<KeyPair>,
    /// The file that log-ins, refusals and administration are recorded in, as lines of JSON; none if they are not.
    pub audit_log: Option<PathBuf>,
    /// How many threads serve the doors, beside those of the node.
    pub threads: usize,
    /// Connections that are open at a time, over all doors.
    pub connections_max: usize,
    /// How many bytes of requests and replies one connection may hold.
    pub connection_bytes_max: usize,
    /// How many bytes all connections may hold together.
    pub bytes_max: usize,
    /// How long a request may take in all.
    pub deadline: Duration,
    /// How long a request may take to arrive, and a client to take some of what waits for it.
    pub stall_timeout: Duration,
}

impl Default for Doors {
    fn default() -> Self {
        Doors {
            redis: None,
            redis_databases: vec!["redis".to_owned()],
            redis_scripts_at_shards: true,
            http: None,
            tls: None,
            user: None,
            audit_log: None,
            threads: 1,
            connections_max: 10_000,
            connection_bytes_max: 64 * 1024 * 1024,
            bytes_max: 512 * 1024 * 1024,
            deadline: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(30),
        }
    }
}
