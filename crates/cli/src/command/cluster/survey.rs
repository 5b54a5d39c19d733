//! The status of all nodes of a cluster, put together by shard.

use std::collections::BTreeMap;

use quorate::{Database, NodeId};
use serde::{Deserialize, Serialize};

use crate::exit::Failure;

/// The state of a cluster, as far as it was found out.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Survey {
    pub(super) nodes: Vec<NodeView>,
    pub(super) shards: Vec<ShardView>,
}

/// A node.
#[derive(Clone, Debug, Serialize)]
pub(super) struct NodeView {
    pub(super) node: u16,
    pub(super) site: String,
    pub(super) address: String,
    /// Why it does not answer, if it does not.
    pub(super) unreachable: Option<String>,
    pub(super) data_directory: Option<String>,
    /// For how long its process has been running.
    pub(super) up_seconds: Option<f64>,
    /// Up to which revision it knows the catalogue.
    pub(super) catalogue_revision: Option<u64>,
    /// The other nodes, as it is connected to them, and the round trips; empty of a node of an earlier version.
    pub(super) peers: Vec<Peer>,
    pub(super) problems: Vec<String>,
    /// How its connections are secured; none of a node of an earlier version.
    pub(super) security: Option<Security>,
    /// The version of its program.
    pub(super) version: Option<String>,
    /// The protocol versions that its program knows, and the one in force; none if it does not answer.
    pub(super) protocol_versions: Option<Versions>,
}

impl NodeView {
    /// A node that has not answered.
    pub(super) fn silent(node: u16, site: &str, address: &str) -> Self {
        NodeView {
            node,
            site: site.to_owned(),
            address: address.to_owned(),
            unreachable: None,
            data_directory: None,
            up_seconds: None,
            catalogue_revision: None,
            peers: Vec::new(),
            problems: Vec::new(),
            security: None,
            version: None,
            protocol_versions: None,
        }
    }
}

/// The protocol versions that a node knows, and the one that is in force as far as it has heard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Versions {
    pub(super) oldest: u32,
    pub(super) newest: u32,
    pub(super) in_force: u32,
}

impl Default for Versions {
    /// Those of a program from before versions were counted.
    fn default() -> Self {
        let first = quorate::ProtocolVersion::FIRST.0;
        Versions { oldest: first, newest: first, in_force: first }
    }
}

/// How the connections of a node are secured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Security {
    /// `tls` or `plain text`.
    pub(super) transport: String,
    /// The addresses, other than loopback, at which plain text is served because the file of the node asks for it.
    pub(super) insecure_addresses: Vec<String>,
}

/// The connection of a node to another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Peer {
    pub(super) node: u16,
    pub(super) connected: bool,
    pub(super) round_trip_seconds: Option<f64>,
}

/// A shard, as its replicas see it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ShardView {
    pub(super) keyspace: String,
    pub(super) shard: u32,
    /// The latest membership that one of its replicas knows of.
    pub(super) epoch: u32,
    /// Since when its members are as they are, by that membership.
    #[serde(skip)]
    pub(super) since: u32,
    /// The members, ascending; none for a replica whose node does not answer or does not host it.
    pub(super) replicas: Vec<ReplicaView>,
    /// The replicas that are no members any more, and have not left yet.
    #[serde(skip)]
    pub(super) leaving: Vec<u8>,
    /// How far other local sites are behind this one, as its leader says; none where there are no local sites.
    pub(super) lags: Vec<Lag>,
}

/// How far another local site is behind what has committed at one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Lag {
    /// The shard that stands at the other site.
    pub(super) shard: u32,
    pub(super) unreceived: u64,
    pub(super) unreceived_seconds: f64,
    pub(super) uncommitted: u64,
    pub(super) uncommitted_seconds: f64,
    pub(super) holds_up: bool,
}

/// A site that keeps transactions from being visible everywhere for so long is an operator's concern: batches take a round trip or two.
const HELD_UP_SECONDS: f64 = 10.0;

/// A replica.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ReplicaView {
    pub(super) index: u8,
    pub(super) node: u16,
    /// As the node says, or `unreachable`, or `missing` if the node does not host it.
    pub(super) state: String,
    pub(super) problem: Option<String>,
    pub(super) view: u64,
    /// True if it leads its group, in a protocol with leaders.
    pub(super) leads: bool,
    /// True if it has taken part in a view of the members as they are now.
    #[serde(skip)]
    pub(super) has_arrived: bool,
    /// When operators accepted that its records were lost, in seconds since 1970.
    pub(super) accepted_losses: Vec<u64>,
    /// The shards that it knows to have been declared lost.
    pub(super) lost_shards: Vec<u32>,
    /// The transactions that it has seen, as its node tells them; none if it was asked for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) traffic: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct NodeStatus {
    version: String,
    #[serde(default)]
    protocol_versions: Versions,
    data_directory: String,
    uptime_seconds: f64,
    catalogue_revision: Option<u64>,
    problems: Vec<String>,
    /// Earlier versions do not say.
    #[serde(default)]
    peers: Vec<Peer>,
    replicas: Vec<ReplicaStatus>,
    #[serde(default)]
    security: Option<Security>,
}

#[derive(Clone, Deserialize)]
struct ReplicaStatus {
    keyspace: String,
    shard: u32,
    index: u8,
    /// The members of its group, and their nodes, in the same order.
    members: Vec<u8>,
    nodes: Vec<u16>,
    epoch: u32,
    state: String,
    problem: Option<String>,
    view: u64,
    /// Earlier versions have no protocol with leaders.
    #[serde(default)]
    leads: bool,
    /// Earlier versions do not say since when members are as they are, nor when a replica has taken part among them.
    #[serde(default)]
    since: Option<u32>,
    #[serde(default)]
    taken_part: Option<u32>,
    accepted_losses: Vec<u64>,
    /// Earlier versions know of none.
    #[serde(default)]
    lost_shards: Vec<u32>,
    /// Earlier versions do not say.
    #[serde(default)]
    lags: Vec<Lag>,
    /// Nor this.
    #[serde(default)]
    traffic: Option<serde_json::Value>,
}

impl ShardView {
    /// The sites that have kept transactions of this one from being visible everywhere for long.
    pub(super) fn held_up(&self) -> impl Iterator<Item = &Lag> {
        self.lags.iter().filter(|lag| lag.holds_up && lag.uncommitted_seconds >= HELD_UP_SECONDS)
    }

    /// How many replicas it can lose.
    pub(super) fn survives(&self) -> usize {
        (self.replicas.len() - 1) / 2
    }

    /// The replicas in one of these states.
    pub(super) fn in_state<'a>(&'a self, states: &'a [&str]) -> impl Iterator<Item = &'a ReplicaView> {
        self.replicas.iter().filter(|replica| states.contains(&replica.state.as_str()))
    }
}

impl Survey {
    /// The shards that some replica knows to have been declared lost, with their keyspaces, ascending.
    pub(super) fn declared_lost(&self) -> BTreeMap<u32, &str> {
        let named = |shard: &'_ ShardView| {
            shard.replicas.iter().flat_map(|replica| replica.lost_shards.clone()).collect()
        };
        let of = |shard| {
            let named: Vec<u32> = named(shard);
            named.into_iter().map(|lost| (lost, shard.keyspace.as_str()))
        };
        self.shards.iter().flat_map(of).collect()
    }
}

/// Asks every node.
pub(super) async fn survey(db: &Database) -> Result<Survey, Failure> {
    let topology = db.topology();
    let mut nodes = Vec::with_capacity(topology.nodes.len());
    let mut said: BTreeMap<u16, Vec<ReplicaStatus>> = BTreeMap::new();
    for node in topology.live_nodes() {
        let site = topology.sites.get(usize::from(node.site.0)).cloned().unwrap_or_default();
        let mut view = NodeView::silent(node.id.0, &site, &node.address);
        match status(db, node.id).await? {
            Ok(status) => {
                view.data_directory = Some(status.data_directory);
                view.up_seconds = Some(status.uptime_seconds);
                view.catalogue_revision = status.catalogue_revision;
                view.peers = status.peers;
                view.problems = status.problems;
                view.security = status.security;
                view.version = Some(status.version);
                view.protocol_versions = Some(status.protocol_versions);
                said.insert(node.id.0, status.replicas);
            }
            Err(reason) => view.unreachable = Some(reason),
        }
        nodes.push(view);
    }
    Ok(Survey { nodes, shards: shards(&said) })
}

/// The status of a node, or why there is none.
async fn status(db: &Database, node: NodeId) -> Result<Result<NodeStatus, String>, Failure> {
    let json = match db.status(node).await {
        Ok(json) => json,
        Err(error @ quorate::Error::Connect { .. }) => return Ok(Err(error.to_string())),
        Err(error) => return Err(error.into()),
    };
    let unreadable = |error| Failure::failed(format!("the status of {node} cannot be read: {error}"));
    serde_json::from_slice(&json).map(Ok).map_err(unreadable)
}

/// Puts together what the nodes that answered say of their replicas.
fn shards(said: &BTreeMap<u16, Vec<ReplicaStatus>>) -> Vec<ShardView> {
    let mut shards: BTreeMap<u32, ShardView> = BTreeMap::new();
    for replica in said.values().flatten() {
        let member = |(index, node): (&u8, &u16)| ReplicaView {
            index: *index,
            node: *node,
            state: if said.contains_key(node) { "missing" } else { "unreachable" }.to_owned(),
            problem: None,
            view: 0,
            leads: false,
            has_arrived: false,
            accepted_losses: Vec::new(),
            lost_shards: Vec::new(),
            traffic: None,
        };
        let shard = || ShardView {
            keyspace: replica.keyspace.clone(),
            shard: replica.shard,
            epoch: replica.epoch,
            since: replica.since.unwrap_or_default(),
            leaving: Vec::new(),
            replicas: replica.members.iter().zip(&replica.nodes).map(member).collect(),
            lags: Vec::new(),
        };
        let known = shards.entry(replica.shard).or_insert_with(shard);
        // A replica that knows of a later membership knows its members.
        if known.epoch < replica.epoch {
            *known = shard();
        }
    }
    for replica in said.values().flatten() {
        let Some(shard) = shards.get_mut(&replica.shard) else { continue };
        // Of two that take themselves for the leader, the one of the later view is.
        let is_leader = |other: &ReplicaView| !other.leads || other.view <= replica.view;
        if replica.leads && shard.replicas.iter().all(is_leader) {
            shard.lags.clone_from(&replica.lags);
        }
        if let Some(known) = shard.replicas.iter_mut().find(|known| known.index == replica.index) {
            known.state = replica.state.clone();
            known.problem = replica.problem.clone();
            known.view = replica.view;
            known.leads = replica.leads;
            // Of a node of an earlier version nothing else is known.
            known.has_arrived = replica.since.is_none() || replica.taken_part >= Some(shard.since);
            known.accepted_losses = replica.accepted_losses.clone();
            known.lost_shards = replica.lost_shards.clone();
            known.traffic.clone_from(&replica.traffic);
        } else if replica.state != "retired" {
            shard.leaving.push(replica.index);
        }
    }
    shards.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status of a node: of the first replica of a shard that has three.
    fn status() -> ReplicaStatus {
        ReplicaStatus {
            keyspace: "accounts".to_owned(),
            shard: 4,
            index: 0,
            members: vec![0, 1, 2],
            nodes: vec![5, 6, 7],
            epoch: 0,
            state: "normal".to_owned(),
            problem: None,
            view: 9,
            leads: false,
            since: Some(0),
            taken_part: Some(0),
            accepted_losses: vec![],
            lost_shards: vec![],
            lags: vec![],
            traffic: None,
        }
    }

    #[test]
    fn the_leader_of_the_latest_view_says_who_holds_visibility_up() {
        let lag = |shard, uncommitted_seconds| Lag {
            shard,
            unreceived: 3,
            unreceived_seconds: uncommitted_seconds,
            uncommitted: 3,
            uncommitted_seconds,
            holds_up: shard != 7,
        };
        let deposed = ReplicaStatus { leads: true, lags: vec![lag(5, 99.0)], ..status() };
        let lags = vec![lag(5, 1.5), lag(6, 12.0), lag(7, 12.0)];
        let leader = ReplicaStatus { index: 1, leads: true, view: 10, lags, ..status() };
        for said in [[(5, deposed.clone()), (6, leader.clone())], [(6, deposed), (5, leader)]] {
            let said = said.map(|(node, replica)| (node, vec![replica]));
            let shards = shards(&BTreeMap::from(said));
            let held_up: Vec<u32> = shards[0].held_up().map(|lag| lag.shard).collect();
            assert_eq!(held_up, [6], "{shards:?}");
        }
    }

    #[test]
    fn replicas_of_silent_nodes_are_unreachable_and_unknown_ones_missing() {
        let replica = ReplicaStatus { index: 2, leads: true, ..status() };
        let shards = shards(&BTreeMap::from([(6, vec![]), (7, vec![replica])]));
        let [shard] = &shards[..] else { panic!("{shards:?}") };
        let states: Vec<_> = shard.replicas.iter().map(|replica| replica.state.as_str()).collect();
        assert_eq!(states, ["unreachable", "missing", "normal"]);
        assert_eq!((shard.shard, shard.survives(), shard.replicas[2].view), (4, 1, 9));
        assert_eq!(
            shard.replicas.iter().map(|replica| replica.leads).collect::<Vec<_>>(),
            [false, false, true]
        );
    }

    #[test]
    fn who_knows_of_a_later_membership_knows_who_the_members_are() {
        let early = ReplicaStatus { epoch: 2, ..status() };
        let (members, nodes) = (vec![0, 2, 3], vec![5, 7, 8]);
        let late = ReplicaStatus { index: 3, members, nodes, epoch: 3, ..early.clone() };
        let leaving = ReplicaStatus { index: 1, state: "view-changing".to_owned(), ..early.clone() };
        let said = BTreeMap::from([(5, vec![early]), (6, vec![leaving]), (8, vec![late])]);
        let shards = shards(&said);
        let seats: Vec<_> =
            shards[0].replicas.iter().map(|seat| (seat.index, seat.node, &*seat.state)).collect();
        assert_eq!(seats, [(0, 5, "normal"), (2, 7, "unreachable"), (3, 8, "normal")]);
    }
}
