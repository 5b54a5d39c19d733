//! A topological order that is kept while edges are added: Marchetti-Spaccamela, Nanni and Rohnert.
//!
//! An edge that agrees with the order costs nothing. One that disagrees is searched for a cycle among the
//! nodes between its ends only, which are then put in order; so if the first order is close to the order in
//! which things happened, additions are cheap in a history of any size.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use foldhash::fast::FixedState;

use super::Graph;

/// A graph to be ordered: nodes and the nodes that their edges lead to, in two parts.
pub(crate) trait Successors {
    /// The number of nodes.
    fn node_count(&self) -> usize;

    /// Where the edges of a node lead.
    fn successors(&self, node: u32) -> [&[u32]; 2];
}

impl Successors for &Graph {
    fn node_count(&self) -> usize {
        Graph::node_count(self)
    }

    fn successors(&self, node: u32) -> [&[u32]; 2] {
        [self.targets_of(node), &[]]
    }
}

/// A graph without a cycle, with edges that were added later and can be taken back.
#[derive(Debug)]
pub(crate) struct TopologicalOrder<G> {
    graph: G,
    /// The nodes in order, and where each of them stands.
    nodes: Vec<u32>,
    positions: Vec<u32>,
    added: HashMap<u32, Vec<u32>, FixedState>,
    /// Where the added edges start, in the order of adding.
    trail: Vec<u32>,
    visited: Vec<u32>,
    round: u32,
    walked: u64,
}

impl<G: Successors> TopologicalOrder<G> {
    /// Orders the nodes; none if there is a cycle.
    ///
    /// Of two nodes that are free the one with the smaller priority comes first. But before all others come
    /// those that `second` says are no first part of a pair, and then first parts whose second parts wait for
    /// nothing else. So if the graph stays without a cycle when every pair is one node, the parts of all pairs
    /// stand together.
    pub(crate) fn new(
        graph: G,
        priority: impl Fn(u32) -> u32,
        second: impl Fn(u32) -> Option<u32>,
    ) -> Option<Self> {
        let node_count = graph.node_count();
        let mut incoming = vec![0_u32; node_count];
        let mut first = vec![u32::MAX; node_count];
        for node in 0..node_count as u32 {
            graph.successors(node).into_iter().flatten().for_each(|&to| incoming[to as usize] += 1);
            if let Some(second) = second(node) {
                first[second as usize] = node;
            }
        }
        let entry = |node: u32, incoming: &[u32]| {
            let class = match second(node) {
                None => 0,
                Some(second) if incoming[second as usize] == 1 => 1,
                Some(_) => 2,
            };
            Reverse((class, priority(node), node))
        };
        let free = (0..node_count as u32).filter(|&node| incoming[node as usize] == 0);
        let mut free: BinaryHeap<_> = free.map(|node| entry(node, &incoming)).collect();
        let mut nodes: Vec<u32> = Vec::with_capacity(node_count);
        let mut positions = vec![u32::MAX; node_count];
        while let Some(Reverse((_, _, node))) = free.pop() {
            if positions[node as usize] != u32::MAX {
                continue;
            }
            positions[node as usize] = nodes.len() as u32;
            nodes.push(node);
            for &to in graph.successors(node).into_iter().flatten() {
                incoming[to as usize] -= 1;
                let first = first[to as usize];
                if incoming[to as usize] == 0 {
                    free.push(entry(to, &incoming));
                } else if incoming[to as usize] == 1 && first != u32::MAX && incoming[first as usize] == 0 {
                    // It stands further back in the queue too, where it will be passed over.
                    free.push(entry(first, &incoming));
                }
            }
        }
        (nodes.len() == node_count).then(|| TopologicalOrder {
            graph,
            nodes,
            positions,
            added: HashMap::default(),
            trail: Vec::new(),
            visited: vec![0; node_count],
            round: 0,
            walked: 0,
        })
    }

    /// Where a node stands.
    pub(crate) fn position(&self, node: u32) -> u32 {
        self.positions[node as usize]
    }

    /// The number of edges and nodes that additions looked at.
    pub(crate) fn walked(&self) -> u64 {
        self.walked
    }

    /// The number of added edges.
    pub(crate) fn added(&self) -> usize {
        self.trail.len()
    }

    /// Adds an edge unless it closes a cycle.
    pub(crate) fn try_add(&mut self, from: u32, to: u32) -> bool {
        if from == to {
            return false;
        }
        if self.position(from) > self.position(to) && !self.reorder(from, to) {
            return false;
        }
        self.added.entry(from).or_default().push(to);
        self.trail.push(from);
        true
    }

    /// Takes back all edges but the first so many. The order stands: it fits fewer edges too.
    pub(crate) fn undo(&mut self, added: usize) {
        for from in self.trail.drain(added..).rev() {
            if let Some(targets) = self.added.get_mut(&from) {
                targets.pop();
            }
        }
    }

    /// Moves what follows from `to` behind `from`; false if that is `from` itself.
    fn reorder(&mut self, from: u32, to: u32) -> bool {
        let (start, end) = (self.position(to), self.position(from));
        self.round += 1;
        self.visited[to as usize] = self.round;
        let mut stack = vec![to];
        while let Some(node) = stack.pop() {
            let added = self.added.get(&node).map_or(&[][..], Vec::as_slice);
            for &next in self.graph.successors(node).into_iter().flatten().chain(added) {
                self.walked += 1;
                if next == from {
                    return false;
                }
                if self.positions[next as usize] < end && self.visited[next as usize] != self.round {
                    self.visited[next as usize] = self.round;
                    stack.push(next);
                }
            }
        }
        self.walked += u64::from(end - start);
        let (mut moved, mut next) = (Vec::new(), start);
        for position in start..=end {
            let node = self.nodes[position as usize];
            if self.visited[node as usize] == self.round {
                moved.push(node);
            } else {
                self.put(node, next);
                next += 1;
            }
        }
        for node in moved {
            self.put(node, next);
            next += 1;
        }
        true
    }

    fn put(&mut self, node: u32, position: u32) {
        self.nodes[position as usize] = node;
        self.positions[node as usize] = position;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dependencies::{Edge, EdgeKind};
    use crate::history::KeyId;

    fn graph(nodes: usize, edges: &[(u32, u32)]) -> Graph {
        Graph::gather(nodes, 1, nodes, |emit| {
            for &(from, to) in edges {
                emit(Edge { from, to, key: KeyId(0), kind: EdgeKind::WriteOrder });
            }
        })
    }

    #[test]
    fn free_nodes_come_by_priority() {
        let graph = graph(4, &[(3, 0)]);
        let order = TopologicalOrder::new(&graph, |node| 9 - node, |_| None).expect("no cycle");
        assert_eq!(order.nodes, [3, 2, 1, 0]);
    }

    /// Pairs 0-4, 1-5, 2-6, 3-7. As one node each they form no cycle, so the parts stand together, although the
    /// priorities would have all first parts come first.
    #[test]
    fn parts_of_a_pair_stand_together() {
        let graph = graph(8, &[(0, 4), (1, 5), (2, 6), (3, 7), (3, 4), (6, 3), (1, 6), (5, 2)]);
        let second = |node| (node < 4).then_some(node + 4);
        let order = TopologicalOrder::new(&graph, |node| node, second).expect("no cycle");
        assert_eq!(order.nodes, [1, 5, 2, 6, 3, 7, 0, 4]);
    }

    #[test]
    fn a_cycle_has_no_order() {
        assert!(TopologicalOrder::new(&graph(3, &[(0, 1), (1, 2), (2, 0)]), |_| 0, |_| None).is_none());
    }

    #[test]
    fn edges_are_added_until_they_close_a_cycle() {
        let graph = graph(5, &[(0, 1), (2, 3)]);
        let mut order = TopologicalOrder::new(&graph, |node| node, |_| None).expect("no cycle");
        assert!(order.try_add(3, 0), "against the order of the numbers");
        assert!(!order.try_add(1, 2), "0 1 2 3 again");
        assert!(!order.try_add(4, 4));
        let place = |node: u32| order.nodes.iter().position(|&other| other == node);
        assert!(place(2) < place(3) && place(3) < place(0) && place(0) < place(1));
        for node in 0..5 {
            assert_eq!(place(node), Some(order.position(node) as usize));
        }
    }

    #[test]
    fn what_is_taken_back_closes_no_cycle() {
        let graph = graph(3, &[]);
        let mut order = TopologicalOrder::new(&graph, |node| node, |_| None).expect("no cycle");
        assert!(order.try_add(2, 1));
        let mark = order.added();
        assert!(order.try_add(1, 0));
        assert!(!order.try_add(0, 2));
        order.undo(mark);
        assert!(order.try_add(0, 2));
        assert!(!order.try_add(1, 0), "2 comes before 1, and 0 before 2");
    }
}
