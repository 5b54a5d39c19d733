//! Directed graphs over transactions and auxiliary nodes: strongly connected components and short cycles.

mod components;
mod cycle;
mod order;
mod precedence;
mod reachability;

pub(crate) use cycle::{BY_SEVERITY, CycleShape, DEPENDENCIES, find_cycle};
pub(crate) use order::{Successors, TopologicalOrder};
pub(crate) use precedence::{add_precedence, add_real_time_from};

use crate::dependencies::{Edge, EdgeKind};
use crate::history::KeyId;
use crate::mutants;

/// All kinds of edges.
pub(crate) const ALL: u16 = u16::MAX;

/// A graph whose edges are grouped by the node that they leave.
///
/// The nodes come as so many *copies* of the transactions, one after another, and then auxiliary nodes. Where
/// a transaction is one node there is one copy; where it is a begin and a commit there are two.
#[derive(Debug)]
pub(crate) struct Graph {
    starts: Vec<u32>,
    targets: Vec<u32>,
    /// Per edge its key and kind.
    labels: Vec<Label>,
    txn_count: usize,
    copies: usize,
}

/// The key and the kind of an edge in four bytes.
#[derive(Debug, Clone, Copy)]
struct Label(u32);

impl Label {
    const KIND_BITS: u32 = 4;

    fn new(key: KeyId, kind: EdgeKind) -> Self {
        assert!(key.0 < 1 << (u32::BITS - Self::KIND_BITS), "a history has fewer keys");
        Label(key.0 << Self::KIND_BITS | kind as u32)
    }

    fn key(self) -> KeyId {
        KeyId(self.0 >> Self::KIND_BITS)
    }

    fn kind(self) -> EdgeKind {
        EdgeKind::ALL[(self.0 & ((1 << Self::KIND_BITS) - 1)) as usize]
    }
}

impl Graph {
    /// Groups the edges that `visit` yields by their first node, keeping their order within a group. It is
    /// called twice, so that no second list of all edges is needed.
    pub(crate) fn gather(
        txn_count: usize,
        copies: usize,
        node_count: usize,
        visit_all: impl Fn(&mut dyn FnMut(Edge)),
    ) -> Self {
        let visit = |emit: &mut dyn FnMut(Edge)| {
            visit_all(&mut |edge| {
                if !mutants::drops(edge.kind) {
                    emit(edge);
                }
            });
        };
        let mut starts = vec![0_u32; node_count + 1];
        visit(&mut |edge| starts[edge.from as usize + 1] += 1);
        for node in 0..node_count {
            starts[node + 1] += starts[node];
        }
        let count = starts[node_count] as usize;
        let (mut targets, mut labels) = (vec![0; count], vec![Label(0); count]);
        let mut next = starts.clone();
        visit(&mut |edge| {
            let slot = &mut next[edge.from as usize];
            targets[*slot as usize] = edge.to;
            labels[*slot as usize] = Label::new(edge.key, edge.kind);
            *slot += 1;
        });
        Graph { starts, targets, labels, txn_count, copies }
    }

    pub(crate) fn node_count(&self) -> usize {
        self.starts.len() - 1
    }

    /// The transaction that a node stands for; none for auxiliary nodes.
    fn txn_of(&self, node: u32) -> Option<u32> {
        let node = node as usize;
        (node < self.txn_count * self.copies).then(|| (node % self.txn_count) as u32)
    }

    fn range(&self, node: u32) -> std::ops::Range<usize> {
        self.starts[node as usize] as usize..self.starts[node as usize + 1] as usize
    }

    /// The nodes that edges from a node lead to.
    pub(crate) fn targets_of(&self, node: u32) -> &[u32] {
        &self.targets[self.range(node)]
    }

    /// The edges that leave a node.
    pub(crate) fn edges_from(&self, node: u32) -> impl Iterator<Item = Edge> + '_ {
        self.range(node).map(move |at| self.edge(node, at))
    }

    fn edge(&self, from: u32, at: usize) -> Edge {
        let label = self.labels[at];
        Edge { from, to: self.targets[at], key: label.key(), kind: label.kind() }
    }

    /// The part of the graph among `nodes`, which are sorted.
    pub(crate) fn restrict(&self, nodes: &[u32]) -> Subgraph<'_> {
        let local = |node: u32| nodes.binary_search(&node).ok().map(|at| at as u32);
        let mut edges = Vec::new();
        for (from, &node) in nodes.iter().enumerate() {
            for edge in self.edges_from(node) {
                edges.extend(local(edge.to).map(|to| Edge { from: from as u32, to, ..edge }));
            }
        }
        let graph = Graph::gather(0, 0, nodes.len(), |emit| edges.iter().for_each(|&edge| emit(edge)));
        Subgraph { graph, nodes: nodes.to_vec(), whole: self }
    }
}

/// A part of a graph, its nodes renumbered from 0.
#[derive(Debug)]
pub(crate) struct Subgraph<'a> {
    graph: Graph,
    /// The number of each node in the whole graph.
    nodes: Vec<u32>,
    whole: &'a Graph,
}

impl Subgraph<'_> {
    /// The part as a graph of its own: node 0 stands for the first of its nodes, and so on.
    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }

    /// All edges, between the new numbers.
    pub(crate) fn edges(&self) -> impl Iterator<Item = Edge> + '_ {
        (0..self.graph.node_count() as u32).flat_map(|node| self.graph.edges_from(node))
    }

    fn txn_of(&self, node: u32) -> Option<u32> {
        self.whole.txn_of(self.nodes[node as usize])
    }

    /// A cycle of the part as edges between transactions: edges onward are contracted into the one before,
    /// whose kind and key stand.
    fn contract(&self, cycle: &[Edge]) -> Vec<Edge> {
        let first = cycle.iter().position(|edge| edge.kind != EdgeKind::Onward).unwrap_or(0);
        let mut contracted: Vec<Edge> = Vec::new();
        for edge in cycle[first..].iter().chain(&cycle[..first]) {
            let to = self.txn_of(edge.to).unwrap_or(0);
            match contracted.last_mut() {
                Some(open) if edge.kind == EdgeKind::Onward => open.to = to,
                _ => contracted.push(Edge { from: self.txn_of(edge.from).unwrap_or(0), to, ..*edge }),
            }
        }
        contracted
    }
}
