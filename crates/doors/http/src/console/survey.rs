//! The statuses of all nodes, each asked for over its own connection, all at once.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quorate::topology::Topology;
use quorate::{Database, NodeId};
use quorate_gateway::Session;
use serde::Deserialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::rates::Rates;
use super::snapshot::{Snapshot, snapshot};

/// A node that has not answered for so long is said to be silent.
const PATIENCE: Duration = Duration::from_millis(800);

/// As much of the status of a node as the console shows. Nodes of earlier versions leave some of it out.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeStatus {
    pub(super) cluster: String,
    pub(super) version: String,
    pub(super) problems: Vec<String>,
    pub(super) clock_error_seconds: Option<f64>,
    pub(super) uptime_seconds: f64,
    pub(super) cpu_seconds: f64,
    pub(super) peers: Vec<Peer>,
    pub(super) transport: Transport,
    pub(super) log: Log,
    pub(super) disk: Disk,
    pub(super) replicas: Vec<Replica>,
}

/// The way from a node to another one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Peer {
    pub(super) node: u16,
    pub(super) connected: bool,
    pub(super) round_trip_seconds: Option<f64>,
}

/// The load of the connections of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Transport {
    pub(super) connections: u64,
    pub(super) messages_received: u64,
    pub(super) bytes_sent: u64,
    pub(super) bytes_received: u64,
}

/// The load of the logs of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Log {
    pub(super) bytes: u64,
    pub(super) lag_bytes: u64,
}

/// The disk of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Disk {
    pub(super) free_bytes: Option<u64>,
    pub(super) is_low: bool,
}

/// A replica, as its node tells it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Replica {
    pub(super) keyspace: String,
    pub(super) shard: u32,
    pub(super) index: u8,
    pub(super) members: Vec<u8>,
    pub(super) nodes: Vec<u16>,
    pub(super) epoch: u32,
    pub(super) durability: String,
    pub(super) protocol: String,
    pub(super) application: Option<String>,
    pub(super) leads: bool,
    pub(super) state: String,
    pub(super) catalogue: String,
    pub(super) view: u64,
    pub(super) prepared: u64,
    pub(super) log_lag_bytes: u64,
    pub(super) lags: Vec<Lag>,
    pub(super) traffic: Option<Traffic>,
}

/// How far another site is behind.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Lag {
    pub(super) shard: u32,
    pub(super) uncommitted: u64,
    pub(super) uncommitted_seconds: f64,
    pub(super) holds_up: bool,
}

/// The transactions that a replica has seen.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Traffic {
    pub(super) commits: u64,
    pub(super) slow_commits: u64,
    pub(super) aborts: u64,
    pub(super) recent_durations: Vec<(f64, u64)>,
    pub(super) hot_keys: Vec<HotKey>,
    pub(super) slow_transactions: Vec<Slow>,
}

/// A key that many transactions write.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct HotKey {
    pub(super) key: String,
    pub(super) writers: u64,
    pub(super) hindered: u64,
}

/// A transaction that took long.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Slow {
    pub(super) transaction: String,
    pub(super) ended_seconds_ago: f64,
    pub(super) seconds: f64,
    pub(super) committed: bool,
    pub(super) slow_path: bool,
    pub(super) hindered: bool,
    pub(super) keys: Vec<String>,
}

/// The answer of a node and the time that it took, or the reason why there is none.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    pub(super) node: u16,
    pub(super) said: Result<NodeStatus, String>,
    pub(super) took: Duration,
    pub(super) at: Instant,
}

/// Asks the nodes, again and again, and remembers what rates need.
#[derive(Debug, Default)]
pub(super) struct Surveyor {
    pub(super) of_nodes: Rates<u16>,
    pub(super) of_replicas: Rates<(u16, u32, u8)>,
}

impl Surveyor {
    /// The cluster as it is now.
    pub(super) async fn survey(&mut self, session: &Session) -> Snapshot {
        let connected = timeout(session.deadline(), session.database()).await;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_millis = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let db = match connected {
            Ok(Ok(db)) => db,
            Ok(Err(error)) => return Snapshot::unreachable(at_millis, error.to_string()),
            Err(_) => return Snapshot::unreachable(at_millis, "no node of the cluster answers".to_owned()),
        };
        let topology = db.topology();
        let answers = ask_all(db, &topology).await;
        let snapshot = snapshot(at_millis, &topology, &answers, self);
        let now = Instant::now();
        self.of_nodes.forget_old(now);
        self.of_replicas.forget_old(now);
        snapshot
    }
}

/// Asks every node at once, so that silent ones keep nobody waiting for longer than one does; in the order of their numbers.
async fn ask_all(db: &Database, topology: &Topology) -> Vec<Answered> {
    let mut asked = JoinSet::new();
    for node in topology.live_nodes() {
        let (db, node) = (db.clone(), node.id);
        asked.spawn_local(async move { ask(&db, node).await });
    }
    let mut answers = asked.join_all().await;
    answers.sort_by_key(|answer| answer.node);
    answers
}

async fn ask(db: &Database, node: NodeId) -> Answered {
    let begun = Instant::now();
    let said = match timeout(PATIENCE, db.status(node)).await {
        Ok(Ok(json)) => {
            serde_json::from_slice(&json).map_err(|error| format!("its status cannot be read: {error}"))
        }
        Ok(Err(quorate::Error::Connect { tried })) => {
            let reasons: Vec<String> = tried.into_iter().map(|(_, reason)| reason).collect();
            Err(reasons.join("; "))
        }
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("it is connected and has been silent for {} ms", PATIENCE.as_millis())),
    };
    let at = Instant::now();
    Answered { node: node.0, said, took: at - begun, at }
}
