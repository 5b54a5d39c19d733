//! Directed graphs over transactions and auxiliary nodes: strongly connected components and short cycles.

mod components;
mod cycle;
mod precedence;

pub(crate) use cycle::find_cycle;
pub(crate) use precedence::add_precedence;

use crate::dependencies::{Edge, EdgeKind};

/// All kinds of edges.
pub(crate) const ALL: u8 = u8::MAX;

/// A graph whose edges are grouped by the node that they leave.
#[derive(Debug)]
pub(crate) struct Graph {
    starts: Vec<u32>,
    edges: Vec<Edge>,
    /// Nodes below this number are transactions.
    txn_count: usize,
}

impl Graph {
    /// Groups the edges by their first node, keeping their order within a group.
    pub(crate) fn new(txn_count: usize, node_count: usize, edges: &[Edge]) -> Self {
        let mut starts = vec![0_u32; node_count + 1];
        for edge in edges {
            starts[edge.from as usize + 1] += 1;
        }
        for node in 0..node_count {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut grouped = edges.to_vec();
        for &edge in edges {
            let slot = &mut next[edge.from as usize];
            grouped[*slot as usize] = edge;
            *slot += 1;
        }
        Graph { starts, edges: grouped, txn_count }
    }

    pub(crate) fn node_count(&self) -> usize {
        self.starts.len() - 1
    }

    fn is_txn(&self, node: u32) -> bool {
        (node as usize) < self.txn_count
    }

    /// The edges that leave a node.
    pub(crate) fn edges_from(&self, node: u32) -> &[Edge] {
        &self.edges[self.starts[node as usize] as usize..self.starts[node as usize + 1] as usize]
    }

    /// The part of the graph among `nodes`, which are sorted, so that transactions stay in front.
    pub(crate) fn restrict(&self, nodes: &[u32]) -> Subgraph {
        let local = |node: u32| nodes.binary_search(&node).ok().map(|at| at as u32);
        let mut edges = Vec::new();
        for (from, &node) in nodes.iter().enumerate() {
            for edge in self.edges_from(node) {
                edges.extend(local(edge.to).map(|to| Edge { from: from as u32, to, ..*edge }));
            }
        }
        let txn_count = nodes.iter().filter(|&&node| self.is_txn(node)).count();
        Subgraph { graph: Graph::new(txn_count, nodes.len(), &edges), nodes: nodes.to_vec() }
    }
}

/// A part of a graph, its nodes renumbered from 0.
#[derive(Debug)]
pub(crate) struct Subgraph {
    pub(crate) graph: Graph,
    /// The number of each node in the whole graph.
    nodes: Vec<u32>,
}

impl Subgraph {
    /// A path of the part as edges between transactions of the whole: auxiliary nodes are contracted, and the
    /// kind and key of the edge that entered them stand.
    fn contract(&self, path: &[Edge]) -> Vec<Edge> {
        let mut contracted: Vec<Edge> = Vec::new();
        for edge in path {
            let to = self.nodes[edge.to as usize];
            match contracted.last_mut() {
                Some(open) if edge.kind == EdgeKind::Onward => open.to = to,
                _ => contracted.push(Edge { from: self.nodes[edge.from as usize], to, ..*edge }),
            }
        }
        contracted
    }
}
