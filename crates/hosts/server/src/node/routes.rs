//! Where messages go: to a replica on this node, to another node, to a client, or nowhere.

use quorate_core::hash::FixedMap;
use quorate_core::topology::{Keyspace, Shard};
use quorate_core::{Address, ClientId, Epoch, KeyspaceId, NodeId, ReplicaId, ShardId};
use quorate_runtime::{LinkId, Turn};
use quorate_wire::{Envelope, Packet, ProtocolMessage, event_loop_of};

use super::loops::{Handed, Here, Loops};
use crate::data::Placement;

/// Coordinators inside other nodes are remembered only as long as there are fewer clients than this.
const LEARNED_CLIENTS_MAX: usize = 4_096;

/// The ways to replicas, nodes and clients.
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
    /// Which event loop of this node sends, and how many it has.
    event_loop: u16,
    event_loops: u16,
    /// The event loops of shards that do not lie where their number says, because the machines of their keyspace stay together.
    together: FixedMap<ShardId, u16>,
}

/// The event loop, among so many, that hosts all machines of a keyspace which stay together: those that run on one node are neighbours, and rely on messages
/// that are lost only with one of them.
pub(crate) fn event_loop_of_keyspace(keyspace: KeyspaceId, event_loops: u16) -> u16 {
    event_loop_of(ShardId(keyspace.0), event_loops)
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
    /// A machine of this event loop.
    Here,
    /// A machine of another event loop of this node, or an address that only that one reaches.
    Loop(u16),
    Link(LinkId),
    /// Nobody knows, or the connection is down. Machines repeat what matters.
    Nowhere,
}

impl Routes {
    /// The routes from one of the event loops of a node.
    pub(crate) fn new(node: NodeId, client: ClientId, nodes: usize, loops: &Loops) -> Self {
        let (clients, shards) = (FixedMap::default(), FixedMap::default());
        let (nodes, keyspaces) = (vec![NodeLinks::default(); nodes], FixedMap::default());
        let (event_loop, event_loops, together) = (loops.own(), loops.count(), FixedMap::default());
        Routes { node, client, nodes, clients, shards, keyspaces, event_loop, event_loops, together }
    }

    /// The coordinator of this node.
    pub(crate) fn own_client(&self) -> ClientId {
        self.client
    }

    /// Learns where the shards of a keyspace are.
    pub(crate) fn learn(&mut self, keyspace: &Keyspace) {
        let together = (keyspace.comparison.is_none() && keyspace.isolation.has_homes())
            .then(|| event_loop_of_keyspace(keyspace.id, self.event_loops));
        for shard in keyspace.groups() {
            self.learn_shard(shard);
            self.keyspaces.insert(shard.id, keyspace.id);
            if let Some(event_loop) = together.filter(|_| self.event_loops > 1) {
                self.together.insert(shard.id, event_loop);
            }
        }
    }

    /// The event loop of this node on which the replica of a shard lives, if it is here.
    pub(crate) fn event_loop_of(&self, shard: ShardId) -> u16 {
        if self.event_loops <= 1 {
            return 0;
        }
        self.together.get(&shard).copied().unwrap_or_else(|| event_loop_of(shard, self.event_loops))
    }

    /// The other event loop of this node that is concerned with a message to this address; none if it is this one.
    pub(crate) fn elsewhere(&self, to: Address) -> Option<u16> {
        let event_loop = match to {
            Address::Replica(replica) => self.event_loop_of(replica.shard),
            // The first one speaks as a client.
            Address::Client(_) => 0,
        };
        (event_loop != self.event_loop).then_some(event_loop)
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

    /// Learns where the shard of a replica of this node is, before the catalogue was read.
    pub(crate) fn learn_placement(&mut self, placement: &Placement) {
        self.learn_shard(&placement.group);
        if self.event_loops > 1 && placement.has_neighbours() {
            self.together.insert(placement.group.id, placement.event_loop(self.event_loops));
        }
    }

    /// Forgets a shard that was dropped.
    pub(crate) fn forget_shard(&mut self, shard: ShardId) {
        self.shards.remove(&shard);
        self.keyspaces.remove(&shard);
        self.together.remove(&shard);
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
            Address::Client(client) if client == self.client => {
                return self.elsewhere(to).map_or(Route::Here, Route::Loop);
            }
            Address::Client(client) => self.clients.get(&client).copied(),
            Address::Replica(replica) => match self.node_of(replica) {
                Some(node) if node == self.node => {
                    return self.elsewhere(to).map_or(Route::Here, Route::Loop);
                }
                Some(node) => self.nodes.get(usize::from(node.0)).and_then(|links| links.any()),
                None => None,
            },
        };
        match link {
            Some(link) => Route::Link(link),
            // It has a connection to everything that can be reached.
            None if self.event_loop > 0 => Route::Loop(0),
            None => Route::Nowhere,
        }
    }

    fn node_of(&self, replica: ReplicaId) -> Option<NodeId> {
        self.shards.get(&replica.shard)?.get(usize::from(replica.index.0)).copied().flatten()
    }
}

/// Sends messages over the routes. Those for machines on this node are put aside until the turn ends.
pub(crate) struct Outgoing<'a, 't> {
    pub(crate) routes: &'a Routes,
    pub(crate) here: &'a mut Here,
    pub(crate) turn: &'a mut Turn<'t>,
}

impl Outgoing<'_, '_> {
    pub(crate) fn send(&mut self, from: Address, to: Address, epoch: Epoch, message: ProtocolMessage) {
        let route = self.routes.route(to);
        let envelope = Envelope { from, to, epoch, message };
        match route {
            Route::Here => self.here.queue.push_back(envelope),
            Route::Loop(event_loop) => self.here.loops.hand(event_loop, Handed::Message(envelope)),
            Route::Link(link) => self.turn.send(link, &Packet::Envelope(envelope)),
            Route::Nowhere => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::ReplicaIndex;
    use quorate_core::topology::{Durability, Isolation};
    use quorate_runtime::transport::TurnWaker;

    use super::*;

    const ME: NodeId = NodeId(0);

    fn routes(event_loops: usize) -> Vec<Routes> {
        let wakers = vec![TurnWaker::default(); event_loops];
        Loops::of(&wakers).iter().map(|loops| Routes::new(ME, ClientId(9), 3, loops)).collect()
    }

    fn keyspace(id: u32, isolation: Isolation, shards: std::ops::Range<u32>) -> Keyspace {
        let nodes = [0, 1, 2].map(NodeId);
        let shards = shards.map(|shard| Shard::new(ShardId(shard), nodes.to_vec())).collect();
        Keyspace::new(KeyspaceId(id), "accounts", isolation, Durability::Sync, shards)
    }

    fn replica(shard: u32, index: u8) -> Address {
        ReplicaId { shard: ShardId(shard), index: ReplicaIndex(index) }.into()
    }

    #[test]
    fn a_node_of_one_event_loop_hands_nothing_over() {
        let mut one = routes(1).remove(0);
        one.learn(&keyspace(1, Isolation::Strict, 1..9));
        assert!((1..9).all(|shard| one.elsewhere(replica(shard, 0)).is_none()));
        assert_eq!(one.route(replica(1, 0)), Route::Here);
        assert_eq!(one.route(replica(1, 1)), Route::Nowhere);
        assert_eq!(one.route(ClientId(9).into()), Route::Here);
        assert_eq!(one.route(ClientId(8).into()), Route::Nowhere);
    }

    #[test]
    fn each_replica_is_on_one_event_loop_and_all_agree_which() {
        let mut three = routes(3);
        let keyspace = keyspace(1, Isolation::Strict, 1..9);
        three.iter_mut().for_each(|routes| routes.learn(&keyspace));
        for shard in 1..9 {
            let own = usize::from(event_loop_of(ShardId(shard), 3));
            for (at, routes) in three.iter().enumerate() {
                let expected = if at == own { Route::Here } else { Route::Loop(own as u16) };
                assert_eq!(routes.route(replica(shard, 0)), expected);
            }
        }
    }

    #[test]
    fn what_an_event_loop_does_not_reach_goes_through_the_first() {
        let mut two = routes(2);
        two.iter_mut().for_each(|routes| routes.learn(&keyspace(1, Isolation::Strict, 1..2)));
        let [first, second] = &mut two[..] else { panic!("there are two") };
        for to in [replica(1, 1), ClientId(8).into(), ClientId(9).into(), replica(77, 0)] {
            assert_eq!(second.route(to), Route::Loop(0), "{to}");
        }
        assert_eq!(first.route(replica(1, 1)), Route::Nowhere, "and no further");
        assert_eq!(first.route(replica(77, 0)), Route::Nowhere);
    }

    /// Neighbours rely on messages that are lost only with one of them.
    #[test]
    fn the_replicas_of_a_keyspace_with_homes_stay_together() {
        for id in 1..9 {
            let keyspace = keyspace(id, Isolation::Snapshot, 1..9);
            let together = event_loop_of_keyspace(keyspace.id, 3);
            let placements = Placement::on_node(&keyspace, ME);
            for (at, routes) in routes(3).iter_mut().enumerate() {
                for placement in &placements {
                    assert_eq!(placement.event_loop(3), together);
                    routes.learn_placement(placement);
                }
                let elsewhere = (at != usize::from(together)).then_some(together);
                assert!((1..9).all(|shard| routes.elsewhere(replica(shard, 0)) == elsewhere), "a restart");
                routes.learn(&keyspace);
                assert!((1..9).all(|shard| routes.elsewhere(replica(shard, 0)) == elsewhere), "a reading");
            }
        }
    }
}
