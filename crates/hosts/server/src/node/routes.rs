//! Where messages go: to a replica on this node, to another node, to a client, or nowhere.

use std::collections::VecDeque;

use quorate_core::hash::FixedMap;
use quorate_core::topology::{Keyspace, Shard};
use quorate_core::{Address, ClientId, Epoch, KeyspaceId, NodeId, ReplicaId, ShardId};
use quorate_runtime::{LinkId, Turn};
use quorate_wire::{Envelope, Packet, ProtocolMessage};

/// Coordinators inside other nodes are remembered only as long as there are fewer clients than this.
const LEARNED_CLIENTS_MAX: usize = 4_096;

/// Who is reached how.
#[derive(Debug)]
pub(crate) struct Routes {
    node: NodeId,
    /// The coordinator of this node itself.
    client: ClientId,
    /// The connections to each other node.
    nodes: Vec<NodeLinks>,
    /// The connection over which each client was heard of.
    clients: FixedMap<ClientId, LinkId>,
    /// The nodes of each shard, by replica index; also of replicas that were members once, as far as that is known here.
    shards: FixedMap<ShardId, Vec<Option<NodeId>>>,
    /// The keyspace of each shard, as far as the catalogue was read.
    keyspaces: FixedMap<ShardId, KeyspaceId>,
}

/// The connections to another node. Each dials the other, and either connection will do: when a node comes back, it has
/// dialled long before the others try again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct NodeLinks {
    dialled: Option<LinkId>,
    accepted: Option<LinkId>,
}

impl NodeLinks {
    fn any(self) -> Option<LinkId> {
        self.dialled.or(self.accepted)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    /// A machine on this node.
    Here,
    Link(LinkId),
    /// Nobody knows, or the connection is down. Machines repeat what matters.
    Nowhere,
}

impl Routes {
    pub(crate) fn new(node: NodeId, client: ClientId, nodes: usize) -> Self {
        let (clients, shards) = (FixedMap::default(), FixedMap::default());
        let (nodes, keyspaces) = (vec![NodeLinks::default(); nodes], FixedMap::default());
        Routes { node, client, nodes, clients, shards, keyspaces }
    }

    /// The coordinator of this node.
    pub(crate) fn own_client(&self) -> ClientId {
        self.client
    }

    /// Learns where the shards of a keyspace are.
    pub(crate) fn learn(&mut self, keyspace: &Keyspace) {
        for shard in keyspace.groups() {
            self.learn_shard(shard);
            self.keyspaces.insert(shard.id, keyspace.id);
        }
    }

    /// Learns where a shard is.
    pub(crate) fn learn_shard(&mut self, shard: &Shard) {
        let nodes = self.shards.entry(shard.id).or_default();
        for (index, node) in shard.previous().chain(shard.members()) {
            let index = usize::from(index.0);
            nodes.resize(nodes.len().max(index + 1), None);
            nodes[index] = Some(node);
        }
    }

    /// Forgets a shard that was dropped.
    pub(crate) fn forget_shard(&mut self, shard: ShardId) {
        self.shards.remove(&shard);
        self.keyspaces.remove(&shard);
    }

    /// The keyspace that a shard belongs to; none if that is not known here.
    pub(crate) fn keyspace_of(&self, shard: ShardId) -> Option<KeyspaceId> {
        self.keyspaces.get(&shard).copied()
    }

    /// There are so many nodes: never fewer than before.
    pub(crate) fn set_nodes(&mut self, nodes: usize) {
        self.nodes.resize(nodes.max(self.nodes.len()), NodeLinks::default());
    }

    /// A connection to another node is up.
    pub(crate) fn set_node(&mut self, node: NodeId, link: LinkId, was_dialled: bool) {
        if let Some(known) = self.nodes.get_mut(usize::from(node.0)) {
            *(if was_dialled { &mut known.dialled } else { &mut known.accepted }) = Some(link);
        }
    }

    /// True if a node can be reached; this one always can.
    pub(crate) fn is_connected(&self, node: NodeId) -> bool {
        node == self.node || self.nodes.get(usize::from(node.0)).is_some_and(|links| links.any().is_some())
    }

    /// The nodes that are connected, each with one of its connections.
    pub(crate) fn node_links(&self) -> Vec<(NodeId, LinkId)> {
        let nodes = self.nodes.iter().zip(0..);
        nodes.filter_map(|(links, node)| Some((NodeId(node), links.any()?))).collect()
    }

    /// A client has connected.
    pub(crate) fn set_client(&mut self, client: ClientId, link: LinkId) {
        self.clients.insert(client, link);
    }

    /// A coordinator inside another node has been heard of over the link of that node.
    pub(crate) fn learn_client(&mut self, client: ClientId, link: LinkId) {
        if self.clients.len() < LEARNED_CLIENTS_MAX || self.clients.contains_key(&client) {
            self.clients.insert(client, link);
        }
    }

    /// The link over which a client was heard of.
    pub(crate) fn link_of(&self, client: ClientId) -> Option<LinkId> {
        self.clients.get(&client).copied()
    }

    /// True if a replica is on this node, as far as is known: no other node ever has a replica of its name.
    pub(crate) fn hosts(&self, node: NodeId, replica: ReplicaId) -> bool {
        self.node_of(replica).is_none_or(|known| known == node)
    }

    /// A link is gone, and with it the clients behind it.
    pub(crate) fn forget_link(&mut self, link: LinkId) {
        self.clients.retain(|_, known| *known != link);
        for known in &mut self.nodes {
            known.dialled.take_if(|known| *known == link);
            known.accepted.take_if(|known| *known == link);
        }
    }

    fn route(&self, to: Address) -> Route {
        let link = match to {
            Address::Client(client) if client == self.client => return Route::Here,
            Address::Client(client) => self.clients.get(&client).copied(),
            Address::Replica(replica) => match self.node_of(replica) {
                Some(node) if node == self.node => return Route::Here,
                Some(node) => self.nodes.get(usize::from(node.0)).and_then(|links| links.any()),
                None => None,
            },
        };
        link.map_or(Route::Nowhere, Route::Link)
    }

    fn node_of(&self, replica: ReplicaId) -> Option<NodeId> {
        self.shards.get(&replica.shard)?.get(usize::from(replica.index.0)).copied().flatten()
    }
}

/// Sends messages over the routes. Those for machines on this node are put aside until the turn ends.
pub(crate) struct Outgoing<'a, 't> {
    pub(crate) routes: &'a Routes,
    pub(crate) here: &'a mut VecDeque<Envelope>,
    pub(crate) turn: &'a mut Turn<'t>,
}

impl Outgoing<'_, '_> {
    pub(crate) fn send(&mut self, from: Address, to: Address, epoch: Epoch, message: ProtocolMessage) {
        let route = self.routes.route(to);
        let envelope = Envelope { from, to, epoch, message };
        match route {
            Route::Here => self.here.push_back(envelope),
            Route::Link(link) => self.turn.send(link, &Packet::Envelope(envelope)),
            Route::Nowhere => {}
        }
    }
}
