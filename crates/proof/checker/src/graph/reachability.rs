//! Many questions of the form *does a path lead from here to there?* about a graph without a cycle.
//!
//! The nodes are put in topological order, so a path only leads forward and a question is about the nodes
//! between its ends. Questions are answered [`SOURCES`] sources at a time: one pass over the nodes between
//! the first source and the last target carries a bit per source. Questions whose ends are about equally far
//! apart share a pass; in a history where what is missed is recent, the passes are short and their sum is
//! linear.

use super::{ALL, Graph};

/// So many words of bits are carried at once.
const WORDS: usize = 8;
/// So many sources share a pass.
const SOURCES: usize = WORDS * u64::BITS as usize;

/// The set of sources that reach a node.
type Row = [u64; WORDS];

/// A question, its ends given as positions in topological order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Question {
    /// The number of binary digits of the distance.
    scale: u32,
    from: u32,
    to: u32,
}

impl Graph {
    /// Whether for any of these pairs a path over edges in `mask` leads from the first node to the second.
    /// Such edges form no cycle. `priority` is the order to keep to where the edges leave it open.
    pub(crate) fn has_any_path(
        &self,
        mask: u16,
        pairs: impl Iterator<Item = (u32, u32)>,
        priority: impl Fn(u32) -> u32,
    ) -> bool {
        let (nodes, positions) = self.order_over(mask, priority);
        let mut questions: Vec<Question> = pairs
            .map(|(from, to)| (positions[from as usize], positions[to as usize]))
            .filter(|(from, to)| from <= to)
            .map(|(from, to)| Question { scale: (to - from).checked_ilog2().unwrap_or(0), from, to })
            .collect();
        questions.sort_unstable();
        questions.dedup();
        let mut rest = &questions[..];
        while let Some(first) = rest.first() {
            let (mut sources, mut len) = (vec![first.from], 0);
            for question in rest.iter().take_while(|question| question.scale == first.scale) {
                if sources.last() != Some(&question.from) {
                    if sources.len() == SOURCES {
                        break;
                    }
                    sources.push(question.from);
                }
                len += 1;
            }
            let (batch, others) = rest.split_at(len);
            if self.answer(mask, &nodes, &positions, &sources, batch) {
                return true;
            }
            rest = others;
        }
        false
    }

    /// One pass: whether any of the questions, which start at these sources, has a path.
    fn answer(
        &self,
        mask: u16,
        nodes: &[u32],
        positions: &[u32],
        sources: &[u32],
        questions: &[Question],
    ) -> bool {
        let start = sources[0];
        let end = questions.iter().map(|question| question.to).max().unwrap_or(start);
        let mut rows: Vec<Row> = vec![[0; WORDS]; (end - start) as usize + 1];
        for (bit, source) in sources.iter().enumerate() {
            rows[(source - start) as usize][bit / 64] |= 1 << (bit % 64);
        }
        for position in start..=end {
            let row = rows[(position - start) as usize];
            if row == [0; WORDS] {
                continue;
            }
            self.for_each_target(nodes[position as usize], mask, |to| {
                let to = positions[to as usize];
                if to <= end {
                    let target = &mut rows[(to - start) as usize];
                    target.iter_mut().zip(row).for_each(|(word, bits)| *word |= bits);
                }
            });
        }
        questions.iter().any(|question| {
            let bit = sources.partition_point(|&source| source < question.from);
            rows[(question.to - start) as usize][bit / 64] >> (bit % 64) & 1 == 1
        })
    }

    /// The nodes in topological order over edges in `mask`, and the position of each.
    fn order_over(&self, mask: u16, priority: impl Fn(u32) -> u32) -> (Vec<u32>, Vec<u32>) {
        use std::cmp::Reverse;
        use std::collections::BinaryHeap;

        let mut incoming = vec![0_u32; self.node_count()];
        for node in 0..self.node_count() as u32 {
            self.for_each_target(node, mask, |to| incoming[to as usize] += 1);
        }
        let free = (0..self.node_count() as u32).filter(|&node| incoming[node as usize] == 0);
        let mut free: BinaryHeap<_> = free.map(|node| Reverse((priority(node), node))).collect();
        let (mut nodes, mut positions) = (Vec::new(), vec![0; self.node_count()]);
        while let Some(Reverse((_, node))) = free.pop() {
            positions[node as usize] = nodes.len() as u32;
            nodes.push(node);
            self.for_each_target(node, mask, |to| {
                incoming[to as usize] -= 1;
                if incoming[to as usize] == 0 {
                    free.push(Reverse((priority(to), to)));
                }
            });
        }
        (nodes, positions)
    }

    fn for_each_target(&self, node: u32, mask: u16, mut visit: impl FnMut(u32)) {
        for at in self.range(node) {
            if mask == ALL || self.labels[at].kind().bit() & mask != 0 {
                visit(self.targets[at]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dependencies::{Edge, EdgeKind};
    use crate::history::KeyId;

    const WR: u16 = EdgeKind::ReadsFrom.bit();

    fn graph(nodes: usize, edges: &[(u32, u32, EdgeKind)]) -> Graph {
        Graph::gather(nodes, 1, nodes, |emit| {
            for &(from, to, kind) in edges {
                emit(Edge { from, to, key: KeyId(0), kind });
            }
        })
    }

    /// All pairs of a random graph, compared with one search per source.
    #[test]
    fn paths_are_those_that_a_plain_search_finds() {
        let nodes = 700;
        let mut state = 1_u64;
        let mut random = |bound: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % bound
        };
        let edges: Vec<(u32, u32, EdgeKind)> = (0..nodes * 2)
            .map(|_| {
                let from = random(nodes - 1);
                let to = (from + 1 + random(40)).min(nodes - 1);
                let kind = if random(4) == 0 { EdgeKind::AntiDependency } else { EdgeKind::ReadsFrom };
                (from as u32, to as u32, kind)
            })
            .collect();
        let graph = graph(nodes, &edges);
        let mut reached = vec![vec![false; nodes]; nodes];
        for from in (0..nodes).rev() {
            reached[from][from] = true;
            for edge in graph.edges_from(from as u32).filter(|edge| edge.kind == EdgeKind::ReadsFrom) {
                let (before, after) = reached.split_at_mut(from + 1);
                let further = &after[edge.to as usize - from - 1];
                before[from].iter_mut().zip(further).for_each(|(one, other)| *one |= other);
            }
        }
        let pair = |at: usize| (at / nodes, at % nodes);
        let unreached = || (0..nodes * nodes).map(pair).filter(|&(from, to)| !reached[from][to]);
        let number = |(from, to)| (from as u32, to as u32);
        assert!(!graph.has_any_path(WR, unreached().map(number), |node| node));
        for at in 0..60 {
            let (from, to) = (at * 7, (at * 7 + at % 60).min(nodes - 1));
            let with_one = unreached().step_by(31).chain([(from, to)]).map(number);
            assert_eq!(graph.has_any_path(WR, with_one, |node| node), reached[from][to], "{from} {to}");
        }
    }

    #[test]
    fn a_node_reaches_itself() {
        let graph = graph(2, &[(0, 1, EdgeKind::ReadsFrom)]);
        assert!(graph.has_any_path(WR, [(1, 1)].into_iter(), |node| node));
        assert!(!graph.has_any_path(WR, [(1, 0)].into_iter(), |node| node));
    }
}
