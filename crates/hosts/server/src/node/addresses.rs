//! Where nodes are found, as this node tells it to clients and to others.
//!
//! A registered address may be old: nodes that were moved all at once have found each other before any of them could write where it is
//! now. A node knows best where it is itself, and says so to each other node that it is connected to. So the address of a node is
//! the one that was learnt last: the one it has said, or the one that has been written in its entry since.

use std::collections::BTreeMap;

use quorate_core::NodeId;
use quorate_core::topology::Topology;

/// The addresses of nodes, as far as they are known.
#[derive(Debug)]
pub(crate) struct Addresses {
    /// This node, and where it is.
    own: (NodeId, String),
    /// The sites and nodes as they are registered; before that is known, as they were, or as the file says.
    registered: Topology,
    /// True once the registered nodes are known.
    is_registered: bool,
    /// Where other nodes have said that they are, since their entries have changed last.
    said: BTreeMap<NodeId, String>,
}

impl Addresses {
    /// The addresses at the start of this node, whose own address in the topology is right.
    pub(crate) fn new(me: NodeId, topology: Topology) -> Self {
        let address = topology.node(me).map_or_else(String::new, |node| node.address.clone());
        Addresses { own: (me, address), registered: topology, is_registered: false, said: BTreeMap::new() }
    }

    /// The registered nodes are these now.
    pub(crate) fn set_registered(&mut self, topology: Topology) {
        if self.is_registered {
            let address = |topology: &Topology, id: &NodeId| {
                topology.nodes.get(usize::from(id.0)).map(|node| node.address.clone())
            };
            self.said.retain(|id, _| address(&self.registered, id) == address(&topology, id));
        }
        (self.registered, self.is_registered) = (topology, true);
    }

    /// Another node has said where it is.
    pub(crate) fn set_said(&mut self, node: NodeId, address: &str) {
        if !address.is_empty() {
            self.said.insert(node, address.to_owned());
        }
    }

    /// The sites and nodes, each where it was heard of last.
    pub(crate) fn topology(&self) -> Topology {
        let mut topology = self.registered.clone();
        let (me, own) = &self.own;
        for (id, address) in self.said.iter().chain([(me, own)]) {
            // A node that was forgotten is found nowhere, also if it says where it is.
            if let Some(node) = topology.nodes.get_mut(usize::from(id.0)).filter(|node| !node.is_forgotten())
            {
                node.address.clone_from(address);
            }
        }
        topology
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::SiteId;
    use quorate_core::topology::Node;

    use super::*;

    fn topology(addresses: [&str; 3]) -> Topology {
        let node = |(id, address): (u16, &str)| Node {
            id: NodeId(id),
            site: SiteId(0),
            address: address.to_owned(),
        };
        Topology { sites: vec!["us".into()], nodes: (0..).zip(addresses).map(node).collect() }
    }

    fn told(addresses: &Addresses) -> Vec<String> {
        addresses.topology().nodes.into_iter().map(|node| node.address).collect()
    }

    #[test]
    fn what_was_registered_before_nodes_have_moved_does_not_count() {
        let mut addresses = Addresses::new(NodeId(0), topology(["a2", "b2", "c2"]));
        addresses.set_said(NodeId(1), "b2");
        addresses.set_registered(topology(["a1", "b1", "c1"]));
        assert_eq!(told(&addresses), ["a2", "b2", "c1"], "of the third nothing better is known");
        addresses.set_said(NodeId(2), "c2");
        assert_eq!(told(&addresses), ["a2", "b2", "c2"]);
        // Others write where they are, one after the other.
        addresses.set_registered(topology(["a1", "b1", "c2"]));
        assert_eq!(told(&addresses), ["a2", "b2", "c2"]);
    }

    #[test]
    fn what_a_node_has_said_counts_until_its_entry_changes() {
        let mut addresses = Addresses::new(NodeId(0), topology(["a1", "b1", "c1"]));
        addresses.set_registered(topology(["a1", "b1", "c1"]));
        addresses.set_said(NodeId(1), "b2");
        addresses.set_said(NodeId(2), "");
        addresses.set_registered(topology(["a1", "b1", "c3"]));
        assert_eq!(told(&addresses), ["a1", "b2", "c3"]);
        // It was moved again while nothing was heard of it.
        addresses.set_registered(topology(["a1", "b3", "c3"]));
        assert_eq!(told(&addresses), ["a1", "b3", "c3"]);
        addresses.set_said(NodeId(1), "b4");
        assert_eq!(told(&addresses), ["a1", "b4", "c3"]);
    }

    #[test]
    fn who_was_forgotten_is_found_nowhere() {
        let mut addresses = Addresses::new(NodeId(0), topology(["a1", "b1", "c1"]));
        addresses.set_registered(topology(["a1", "b1", "c1"]));
        addresses.set_registered(topology(["", "", "c1"]));
        addresses.set_said(NodeId(1), "b1");
        addresses.set_said(NodeId(7), "h1");
        assert_eq!(told(&addresses), ["", "", "c1"]);
    }
}
