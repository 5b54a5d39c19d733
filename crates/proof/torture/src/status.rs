//! The status of a node over HTTP, which no fault touches.

use std::time::Duration;

use quorate_cluster::Layout;
use quorate_server::fetch;
use serde::Deserialize;

/// How long a node may take to answer: one that stands still does not.
const TIMEOUT: Duration = Duration::from_millis(500);

/// How a node is.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct NodeStatus {
    /// True if every replica serves.
    pub(crate) healthy: bool,
    /// Why not.
    pub(crate) problems: Vec<String>,
    /// Its replicas.
    pub(crate) replicas: Vec<ReplicaStatus>,
    /// The protocol versions that its program knows. A program from before versions were counted does not say.
    #[serde(default)]
    pub(crate) protocol_versions: Versions,
}

/// The protocol versions that a node knows, and the one that is in force as far as it has heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Versions {
    /// The newest that its program knows.
    pub(crate) newest: u32,
    /// The one in force.
    pub(crate) in_force: u32,
}

impl Default for Versions {
    fn default() -> Self {
        Versions { newest: 1, in_force: 1 }
    }
}

/// How a replica is.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ReplicaStatus {
    /// The name of its keyspace.
    pub(crate) keyspace: String,
    /// True if it leads its group, in a protocol with leaders.
    pub(crate) leads: bool,
    /// Transactions that it holds prepared.
    pub(crate) prepared: u64,
    /// The problem that keeps it from serving until an operator acts.
    pub(crate) problem: Option<String>,
    /// How far other local sites are behind, if it leads one.
    pub(crate) lags: Vec<Lag>,
}

/// How far a local site is behind another one.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Lag {
    /// Transactions that have not committed there.
    pub(crate) uncommitted: u64,
}

impl NodeStatus {
    /// The problem that keeps a replica from serving until an operator acts, if there is one.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.replicas.iter().find_map(|replica| replica.problem.as_deref())
    }
}

/// Asks a node how it is; none if it does not answer.
pub(crate) async fn ask(layout: &Layout, node: usize) -> Option<NodeStatus> {
    let answer = fetch(&layout.config(node).ok()?, "/status", TIMEOUT).await.ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    serde_json::from_str(body).ok()
}
