//! Short cycles inside of a strongly connected component, the most telling class first.

use std::collections::VecDeque;

use super::{ALL, Graph, Subgraph};
use crate::dependencies::{Edge, EdgeKind};

/// So many edges may be walked in the search for the shortest cycle; after that the best one so far stands.
const EDGES_WALKED_MAX: usize = 20_000_000;

/// Which edges a class of cycles may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CycleShape {
    /// Kinds that may occur any number of times.
    mask: u16,
    /// A kind that must occur, and does so exactly once unless the mask holds it too.
    once: Option<EdgeKind>,
}

const ORDER: u16 = EdgeKind::SessionOrder.bit()
    | EdgeKind::RealTime.bit()
    | EdgeKind::SiteOrder.bit()
    | EdgeKind::Shown.bit();
const WW: u16 = EdgeKind::WriteOrder.bit();
const WR: u16 = EdgeKind::ReadsFrom.bit();
const RW: u16 = EdgeKind::AntiDependency.bit();
const ONWARD: u16 = EdgeKind::Onward.bit();

/// Cycles by severity: first those that data alone closes, and among them those that weaker levels forbid
/// too.
pub(crate) const BY_SEVERITY: [CycleShape; 7] = [
    CycleShape { mask: WW, once: None },
    CycleShape { mask: WW | WR, once: None },
    CycleShape { mask: WW | WR, once: Some(EdgeKind::AntiDependency) },
    CycleShape { mask: WW | WR | RW, once: None },
    CycleShape { mask: WW | WR | ORDER, once: None },
    CycleShape { mask: WW | WR | ORDER, once: Some(EdgeKind::AntiDependency) },
    CycleShape { mask: ALL, once: None },
];

/// Cycles of dependencies with at most one anti-dependency, by severity.
pub(crate) const DEPENDENCIES: [CycleShape; 5] =
    [BY_SEVERITY[0], BY_SEVERITY[1], BY_SEVERITY[2], BY_SEVERITY[4], BY_SEVERITY[5]];

/// The shortest cycle of the first of these shapes that a part of a graph has, as edges between transactions,
/// from the earliest of them on.
pub(crate) fn find_cycle(part: &Subgraph<'_>, shapes: &[CycleShape]) -> Vec<Edge> {
    for shape in shapes {
        let path = match shape.once {
            None => shortest_cycle(part, shape.mask | ONWARD),
            Some(kind) => part.graph.shortest_cycle_with_one(kind, shape.mask | ONWARD),
        };
        if !path.is_empty() {
            let mut cycle = part.contract(&path);
            let earliest = (0..cycle.len()).min_by_key(|&at| cycle[at].from).unwrap_or(0);
            cycle.rotate_left(earliest);
            return cycle;
        }
    }
    Vec::new()
}

/// The shortest cycle over edges in `mask`, counted in transactions; empty if there is none.
fn shortest_cycle(part: &Subgraph<'_>, mask: u16) -> Vec<Edge> {
    let mut walk = Walk::new(&part.graph, mask);
    let mut best: Option<Vec<Edge>> = None;
    for component in part.graph.cyclic_components(mask) {
        for &start in component.iter().filter(|&&node| part.txn_of(node).is_some()) {
            let bound = best.as_ref().map_or(usize::MAX, |best| txn_edges(best));
            if let Some(path) = walk.path(start, start, bound) {
                best = Some(path);
            }
            if walk.is_exhausted() && best.is_some() {
                return best.unwrap_or_default();
            }
        }
    }
    best.unwrap_or_default()
}

impl Graph {
    /// The shortest cycle with exactly one edge of `kind`, the rest of it over edges in `mask`; empty if
    /// there is none.
    fn shortest_cycle_with_one(&self, kind: EdgeKind, mask: u16) -> Vec<Edge> {
        let mut walk = Walk::new(self, mask);
        let mut best: Option<Vec<Edge>> = None;
        for node in 0..self.node_count() as u32 {
            for edge in self.edges_from(node).filter(|edge| edge.kind == kind) {
                let bound = best.as_ref().map_or(usize::MAX, |best| txn_edges(best));
                if let Some(path) = walk.path(edge.to, edge.from, bound.saturating_sub(1)) {
                    best = Some(std::iter::once(edge).chain(path).collect());
                }
                if walk.is_exhausted() {
                    return best.unwrap_or_default();
                }
            }
        }
        best.unwrap_or_default()
    }
}

/// The length of a path in transactions: edges onward from auxiliary nodes are free.
fn txn_edges(path: &[Edge]) -> usize {
    path.iter().filter(|edge| edge.kind != EdgeKind::Onward).count()
}

/// Breadth-first searches that share their buffers and their budget.
struct Walk<'a> {
    graph: &'a Graph,
    mask: u16,
    walked: usize,
    /// Per node the edge by which the current search first came, with the number of that search.
    reached: Vec<Option<(u32, Edge)>>,
    distance: Vec<usize>,
    round: u32,
}

impl<'a> Walk<'a> {
    fn new(graph: &'a Graph, mask: u16) -> Self {
        let nodes = graph.node_count();
        Walk { graph, mask, walked: 0, reached: vec![None; nodes], distance: vec![0; nodes], round: 0 }
    }

    fn is_exhausted(&self) -> bool {
        self.walked > EDGES_WALKED_MAX
    }

    /// A shortest path of at least one edge and of fewer than `bound` transaction edges.
    fn path(&mut self, from: u32, to: u32, bound: usize) -> Option<Vec<Edge>> {
        self.round += 1;
        let mut queue = VecDeque::from([(from, 0)]);
        while let Some((node, length)) = queue.pop_front() {
            let is_outdated = self.edge_into(node).is_some() && self.distance[node as usize] < length;
            if is_outdated && node != from {
                continue;
            }
            if node == to && length > 0 {
                return (length < bound).then(|| self.trace(from, to));
            }
            if length >= bound {
                return None;
            }
            for edge in self.graph.edges_from(node).filter(|edge| edge.kind.bit() & self.mask != 0) {
                self.walked += 1;
                let free = edge.kind == EdgeKind::Onward;
                let next = length + usize::from(!free);
                if self.edge_into(edge.to).is_some() && self.distance[edge.to as usize] <= next {
                    continue;
                }
                self.reached[edge.to as usize] = Some((self.round, edge));
                self.distance[edge.to as usize] = next;
                if free {
                    queue.push_front((edge.to, next));
                } else {
                    queue.push_back((edge.to, next));
                }
            }
        }
        None
    }

    fn edge_into(&self, node: u32) -> Option<Edge> {
        self.reached[node as usize].filter(|&(round, _)| round == self.round).map(|(_, edge)| edge)
    }

    fn trace(&self, from: u32, to: u32) -> Vec<Edge> {
        let mut path = Vec::new();
        let mut node = to;
        while let Some(edge) = self.edge_into(node) {
            path.push(edge);
            node = edge.from;
            if node == from {
                break;
            }
        }
        path.reverse();
        path
    }
}
