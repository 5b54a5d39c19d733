//! The standing wishes of an event loop to be connected to the other nodes, where they are found.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quorate_core::NodeId;
use quorate_core::topology::{Node as Place, Topology};
use quorate_runtime::Transport;
use quorate_runtime::transport::{Dialled, Target};
use tokio::sync::watch;

use crate::node::Node;

/// The connections that an event loop of a node makes to other nodes.
pub(crate) struct Dials {
    me: NodeId,
    /// Where they may be found besides, whatever is registered: they may all have moved before anybody could say so.
    hints: Vec<Place>,
    dialled: BTreeMap<(NodeId, String), Dialled>,
    topology: watch::Receiver<Arc<Topology>>,
}

impl Dials {
    /// Begins to dial the nodes that are known. To be called within the runtime of the transport.
    pub(crate) fn new(transport: &Transport<Node>, me: NodeId, hints: Vec<Place>) -> Self {
        let topology = transport.with(|node, _| node.topology());
        let mut dials = Dials { me, hints, dialled: BTreeMap::new(), topology };
        dials.renew(transport);
        dials
    }

    /// Dials whatever node is registered, as long as this one lives.
    pub(crate) async fn follow(&mut self, transport: &Transport<Node>) {
        while self.topology.changed().await.is_ok() {
            self.renew(transport);
        }
    }

    /// Dials nodes that are new or are found elsewhere now, and hangs up where they were.
    fn renew(&mut self, transport: &Transport<Node>) {
        let topology = Arc::clone(&self.topology.borrow_and_update());
        let others = |node: &&Place| node.id != self.me && !node.address.is_empty();
        let places: Vec<&Place> = topology.nodes.iter().chain(&self.hints).filter(others).collect();
        let (event_loop, wanted) = transport.with(|node, _| {
            let wanted = places.iter().filter(|place| node.dials(place.id));
            let wanted: BTreeSet<_> = wanted.map(|place| (place.id, place.address.clone())).collect();
            (node.event_loop(), wanted)
        });
        self.dialled.retain(|known, _| wanted.contains(known));
        for (id, address) in wanted {
            let target = Target { address: address.clone(), expect: Some(id), event_loop };
            self.dialled.entry((id, address)).or_insert_with(|| transport.dial(target));
        }
    }
}
