//! Strongly connected components: Tarjan's algorithm with an explicit stack, O(V + E).

use super::{ALL, Graph};

const UNVISITED: u32 = u32::MAX;

/// A node on the path of the depth-first search, with the position of its next edge.
struct Frame {
    node: u32,
    next_edge: usize,
}

impl Graph {
    /// The strongly connected components with more than one node, over edges whose kind is in `mask`. Each is
    /// sorted, and they come in the order of their smallest nodes.
    pub(crate) fn cyclic_components(&self, mask: u16) -> Vec<Vec<u32>> {
        let mut search = Search {
            graph: self,
            mask,
            order: vec![UNVISITED; self.node_count()],
            low: vec![0; self.node_count()],
            on_stack: vec![false; self.node_count()],
            visited: 0,
            stack: Vec::new(),
            components: Vec::new(),
        };
        for node in 0..self.node_count() as u32 {
            if search.order[node as usize] == UNVISITED {
                search.visit(node);
            }
        }
        search.components.sort_unstable();
        search.components
    }
}

struct Search<'a> {
    graph: &'a Graph,
    mask: u16,
    order: Vec<u32>,
    low: Vec<u32>,
    on_stack: Vec<bool>,
    visited: u32,
    stack: Vec<u32>,
    components: Vec<Vec<u32>>,
}

impl Search<'_> {
    fn visit(&mut self, root: u32) {
        let mut path = vec![self.enter(root)];
        while let Some(frame) = path.last_mut() {
            let node = frame.node;
            if frame.next_edge == self.graph.range(node).end {
                path.pop();
                self.leave(node);
                if let Some(parent) = path.last() {
                    let low = self.low[node as usize].min(self.low[parent.node as usize]);
                    self.low[parent.node as usize] = low;
                }
                continue;
            }
            let at = frame.next_edge;
            frame.next_edge += 1;
            if self.mask != ALL && self.graph.labels[at].kind().bit() & self.mask == 0 {
                continue;
            }
            let to = self.graph.targets[at];
            if self.order[to as usize] == UNVISITED {
                path.push(self.enter(to));
            } else if self.on_stack[to as usize] {
                self.low[node as usize] = self.low[node as usize].min(self.order[to as usize]);
            }
        }
    }

    fn enter(&mut self, node: u32) -> Frame {
        self.order[node as usize] = self.visited;
        self.low[node as usize] = self.visited;
        self.visited += 1;
        self.stack.push(node);
        self.on_stack[node as usize] = true;
        Frame { node, next_edge: self.graph.range(node).start }
    }

    /// Closes a component if `node` is the first of it that was visited.
    fn leave(&mut self, node: u32) {
        if self.low[node as usize] != self.order[node as usize] {
            return;
        }
        let start = self.stack.iter().rposition(|&other| other == node).unwrap_or(0);
        let mut component = self.stack.split_off(start);
        component.iter().for_each(|&node| self.on_stack[node as usize] = false);
        if component.len() > 1 {
            component.sort_unstable();
            self.components.push(component);
        }
    }
}
