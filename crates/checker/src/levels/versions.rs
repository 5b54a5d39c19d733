//! The order of blind register writes, when nothing recorded it: a bounded search over a polygraph.
//!
//! For any two chains of versions of a key, either the first one ends (its last writer and all readers of
//! that version) before the second one begins, or the other way round. The search first guesses: the order in
//! real time, then one that follows the known dependencies. A guess without a cycle settles it. Otherwise it
//! propagates: where one alternative closes a cycle the other one holds. Only then it decides and backtracks.
//! A budget bounds it all, and running out of it is said.

use crate::dependencies::{Chain, Edge, EdgeKind, OpenOrder};
use crate::explain::Words;
use crate::graph::{self, Graph, find_cycle};
use crate::history::{History, KeyId, TxnId};
use crate::levels::serializable::classify;
use crate::report::Anomalies;

/// If the alternatives have more edges than this together, they are not searched.
const ALTERNATIVE_EDGES_MAX: usize = 100_000;
/// So many edges may be walked in one search.
const EDGES_WALKED_MAX: u64 = 300_000_000;

/// What the search found.
pub(crate) enum Resolution {
    /// There is an order without a cycle.
    Ordered,
    /// There is none.
    Contradiction(Contradiction),
    /// The search ended before it knew.
    GaveUp(String),
}

/// Two chains of which neither can come first.
pub(crate) struct Contradiction {
    key: KeyId,
    alternatives: [Vec<Edge>; 2],
    /// Edges that hold because their alternatives were ruled out before.
    forced: Vec<Edge>,
}

impl Contradiction {
    /// Adds the anomaly: the cycle under each of the two alternatives.
    pub(crate) fn describe(
        &self,
        history: &History,
        txn_count: usize,
        node_count: usize,
        known: &[Edge],
        anomalies: &mut Anomalies,
    ) {
        let words = Words::new(history);
        let cycles = self.alternatives.each_ref().map(|alternative| {
            let edges = [known, &self.forced, alternative].concat();
            let graph = Graph::new(txn_count, node_count, &edges);
            let components = graph.cyclic_components(graph::ALL);
            components.first().map(|component| find_cycle(&graph.restrict(component))).unwrap_or_default()
        });
        let txns: Vec<TxnId> = cycles[0].iter().map(|edge| TxnId(edge.from)).collect();
        anomalies.add(history, classify(&cycles[0]), &txns, || {
            format!(
                "No order of the writes to {} fits. One way round: {} The other way round: {}",
                history.key(self.key),
                words.cycle(&cycles[0]),
                words.cycle(&cycles[1]),
            )
        });
    }
}

/// Looks for version orders of the open keys that leave `graph`, which has no cycle, without one.
pub(crate) fn resolve(history: &History, graph: &Graph, open: &[OpenOrder]) -> Resolution {
    let by_zone = |chain: &Chain| chain.zone;
    if guess_fits(history, graph, open, by_zone) {
        return Resolution::Ordered;
    }
    let ranks = ranks(history, graph);
    let by_rank = |chain: &Chain| chain.first.map_or(0, |first| ranks[first.index()]);
    if guess_fits(history, graph, open, by_rank) {
        return Resolution::Ordered;
    }
    let edges: usize = open.iter().map(alternative_edges).sum();
    if edges > ALTERNATIVE_EDGES_MAX {
        return Resolution::GaveUp(format!(
            "The order of {} blind register writes is not known, and they are too many to search; record commit \
             timestamps, or use lists or read-modify-writes.",
            open.iter().map(|order| order.chains.len()).sum::<usize>()
        ));
    }
    Search::new(graph, open, by_zone).run()
}

/// The number of edges in all alternatives of a key.
fn alternative_edges(order: &OpenOrder) -> usize {
    let sources: usize = order.chains.iter().map(|chain| chain.readers.len() + 1).sum();
    sources * (order.chains.len() - 1)
}

/// Edges that hold if `one` comes before `other`.
fn before(key: KeyId, one: &Chain, other: &Chain) -> Vec<Edge> {
    let Some(to) = other.first else { return Vec::new() };
    let edge = |from: &TxnId, kind| Edge { from: from.0, to: to.0, key, kind };
    let last = one.last.iter().map(|last| edge(last, EdgeKind::WriteOrder));
    last.chain(one.readers.iter().map(|reader| edge(reader, EdgeKind::AntiDependency))).collect()
}

/// A topological order of the graph that prefers early completions, as the rank of each node.
fn ranks(history: &History, graph: &Graph) -> Vec<u32> {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    let mut incoming = vec![0_u32; graph.node_count()];
    for node in 0..graph.node_count() as u32 {
        graph.edges_from(node).iter().for_each(|edge| incoming[edge.to as usize] += 1);
    }
    // Auxiliary nodes are passed at once, so that they delay nobody.
    let priority = |node: u32| match history.txns().get(node as usize) {
        Some(txn) => Reverse((txn.completion.unwrap_or(txn.invoke), node)),
        None => Reverse((0, node)),
    };
    let ready = (0..graph.node_count() as u32).filter(|&node| incoming[node as usize] == 0);
    let mut ready: BinaryHeap<_> = ready.map(priority).collect();
    let mut ranks = vec![0; graph.node_count()];
    let mut next_rank = 0;
    while let Some(Reverse((_, node))) = ready.pop() {
        ranks[node as usize] = next_rank;
        next_rank += 1;
        for edge in graph.edges_from(node) {
            incoming[edge.to as usize] -= 1;
            if incoming[edge.to as usize] == 0 {
                ready.push(priority(edge.to));
            }
        }
    }
    ranks
}

/// Whether the chains of each key fit in the order of `place`.
fn guess_fits(history: &History, graph: &Graph, open: &[OpenOrder], place: impl Fn(&Chain) -> u32) -> bool {
    let mut edges: Vec<Edge> =
        (0..graph.node_count() as u32).flat_map(|node| graph.edges_from(node)).copied().collect();
    for order in open {
        let mut chains: Vec<&Chain> = order.chains.iter().collect();
        chains.sort_by_key(|chain| place(chain));
        for pair in chains.windows(2) {
            edges.extend(before(order.key, pair[0], pair[1]));
        }
    }
    Graph::new(history.txn_count(), graph.node_count(), &edges).cyclic_components(graph::ALL).is_empty()
}

/// Two chains of one key whose order is to be found.
struct Pair {
    key: KeyId,
    /// The edges of each way round; the more likely one first.
    alternatives: [Vec<Edge>; 2],
    chosen: Option<usize>,
}

struct Search<'a> {
    graph: &'a Graph,
    pairs: Vec<Pair>,
    /// Edges of the chosen alternatives, by the node that they leave.
    chosen_edges: Vec<Vec<u32>>,
    /// The pairs whose alternatives are chosen, in the order of choosing.
    trail: Vec<usize>,
    /// Choices that were made freely: the length of the trail before, and the pair.
    decisions: Vec<(usize, usize)>,
    visited: Vec<u32>,
    round: u32,
    walked: u64,
}

impl<'a> Search<'a> {
    fn new(graph: &'a Graph, open: &[OpenOrder], place: impl Fn(&Chain) -> u32) -> Self {
        let mut pairs = Vec::new();
        for OpenOrder { key, chains } in open {
            for (at, one) in chains.iter().enumerate() {
                for other in &chains[at + 1..] {
                    let mut alternatives = [before(*key, one, other), before(*key, other, one)];
                    if place(one) > place(other) {
                        alternatives.swap(0, 1);
                    }
                    pairs.push(Pair { key: *key, alternatives, chosen: None });
                }
            }
        }
        Search {
            graph,
            pairs,
            chosen_edges: vec![Vec::new(); graph.node_count()],
            trail: Vec::new(),
            decisions: Vec::new(),
            visited: vec![0; graph.node_count()],
            round: 0,
            walked: 0,
        }
    }

    /// Invariant: the graph with the chosen edges has no cycle, because an alternative is chosen only if it
    /// closes none.
    fn run(mut self) -> Resolution {
        loop {
            let conflict = self.propagate();
            if self.walked > EDGES_WALKED_MAX {
                return Resolution::GaveUp(
                    "The search for an order of blind register writes took too long; record commit timestamps, or use \
                     lists or read-modify-writes."
                        .to_string(),
                );
            }
            if let Some(pair) = conflict {
                let Some((trail_len, decided)) = self.decisions.pop() else {
                    return Resolution::Contradiction(self.contradiction(pair));
                };
                self.undo(trail_len);
                self.choose(decided, 1);
            } else if let Some(pair) = self.pairs.iter().position(|pair| pair.chosen.is_none()) {
                self.decisions.push((self.trail.len(), pair));
                self.choose(pair, 0);
            } else {
                return Resolution::Ordered;
            }
        }
    }

    /// Chooses what is forced, until nothing more is. Returns a pair of which neither alternative fits, if
    /// there is one.
    fn propagate(&mut self) -> Option<usize> {
        let mut changed = true;
        while changed && self.walked <= EDGES_WALKED_MAX {
            changed = false;
            for pair in 0..self.pairs.len() {
                if self.pairs[pair].chosen.is_some() {
                    continue;
                }
                match [0, 1].map(|alternative| self.fits(pair, alternative)) {
                    [true, true] => {}
                    [false, false] => return Some(pair),
                    [first, _] => {
                        self.choose(pair, usize::from(!first));
                        changed = true;
                    }
                }
            }
        }
        None
    }

    /// Whether an alternative closes no cycle. Its edges all lead to one node, so no cycle needs two of them,
    /// and one depth-first search from that node finds whether it reaches where any of them starts.
    fn fits(&mut self, pair: usize, alternative: usize) -> bool {
        let edges = &self.pairs[pair].alternatives[alternative];
        let Some(start) = edges.first().map(|edge| edge.to) else { return true };
        self.round += 1;
        self.visited[start as usize] = self.round;
        let mut stack = vec![start];
        while let Some(node) = stack.pop() {
            let known = self.graph.edges_from(node).iter().map(|edge| edge.to);
            for to in known.chain(self.chosen_edges[node as usize].iter().copied()) {
                self.walked += 1;
                if self.visited[to as usize] != self.round {
                    self.visited[to as usize] = self.round;
                    stack.push(to);
                }
            }
        }
        edges.iter().all(|edge| self.visited[edge.from as usize] != self.round)
    }

    fn choose(&mut self, pair: usize, alternative: usize) {
        self.pairs[pair].chosen = Some(alternative);
        self.trail.push(pair);
        for edge in &self.pairs[pair].alternatives[alternative] {
            self.chosen_edges[edge.from as usize].push(edge.to);
        }
    }

    fn undo(&mut self, trail_len: usize) {
        for pair in self.trail.drain(trail_len..).rev() {
            let Some(alternative) = self.pairs[pair].chosen.take() else { continue };
            for edge in &self.pairs[pair].alternatives[alternative] {
                self.chosen_edges[edge.from as usize].pop();
            }
        }
    }

    fn contradiction(&self, pair: usize) -> Contradiction {
        let chosen = |pair: &usize| Some(&self.pairs[*pair].alternatives[self.pairs[*pair].chosen?]);
        let forced = self.trail.iter().filter_map(chosen).flatten().copied().collect();
        let Pair { key, alternatives, .. } = &self.pairs[pair];
        Contradiction { key: *key, alternatives: alternatives.clone(), forced }
    }
}
