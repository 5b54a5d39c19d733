//! The levels that are the absence of a cycle: the serializable family and snapshot isolation.
//!
//! Serializable: WR ∪ WW ∪ RW, with session order or real time where the level asks for it, has no cycle. A
//! transaction is one node.
//!
//! Snapshot isolation (Cerone and Gotsman): ((WR ∪ WW (∪ SO / RT)) ; RW?) has no cycle. A transaction is
//! split into its begin, when the snapshot is taken, and its commit, when its writes become visible: begin
//! before commit; WR, WW, SO and RT lead from commit to begin, since the second has the first in its
//! snapshot; RW leads from begin to commit, since the first does not have the second in its snapshot.
//!
//! Writers of one key must see each other at snapshot isolation, also where nobody reads what they wrote, so
//! the order of every two of them is a question for the search.

use crate::dependencies::{Chain, Dependencies, Edge, EdgeKind, OpenOrder};
use crate::explain::Words;
use crate::graph::{self, BY_SEVERITY, CycleShape, Graph, TopologicalOrder, add_precedence, find_cycle};
use crate::history::{History, KeyType, TxnId};
use crate::level::Precedence;
use crate::levels::counts;
use crate::levels::search::{self, Cause, Contradiction, Model, Resolution};
use crate::mutants::{self, Mutant};
use crate::report::{Anomalies, AnomalyKind};

/// Cycles of at most so many strongly connected components are described.
const COMPONENTS_DESCRIBED_MAX: usize = 10;

/// How transactions become nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nodes {
    /// Each is one node.
    Whole,
    /// Each is a begin and a commit.
    Split,
    /// Each is one node, and writers of one key must see each other.
    Parallel,
}

/// Transactions and their orders as a graph: the nodes of transactions first, then auxiliary ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    txn_count: u32,
    nodes: Nodes,
}

impl Layout {
    pub(crate) fn new(history: &History, nodes: Nodes) -> Self {
        Layout { txn_count: history.txn_count() as u32, nodes }
    }

    pub(crate) fn copies(self) -> usize {
        match self.nodes {
            Nodes::Whole | Nodes::Parallel => 1,
            Nodes::Split => 2,
        }
    }

    pub(crate) fn commit(self, txn: u32) -> u32 {
        match self.nodes {
            Nodes::Whole | Nodes::Parallel => txn,
            Nodes::Split => txn + self.txn_count,
        }
    }

    /// The commit that belongs to a begin.
    pub(crate) fn second(self, node: u32) -> Option<u32> {
        (self.nodes == Nodes::Split && node < self.txn_count).then_some(node + self.txn_count)
    }

    /// An edge between transactions, or between a transaction and an auxiliary node, as one between nodes.
    pub(crate) fn translate(self, edge: Edge) -> Edge {
        let is_txn = |node| node < self.txn_count;
        let from_begin =
            matches!(edge.kind, EdgeKind::AntiDependency | EdgeKind::LocalCommit | EdgeKind::Ended);
        let from_commit = !from_begin && is_txn(edge.from);
        let to_commit = edge.kind == EdgeKind::AntiDependency && is_txn(edge.to);
        let from = if from_commit { self.commit(edge.from) } else { edge.from };
        let to = if to_commit { self.commit(edge.to) } else { edge.to };
        Edge { from, to, ..edge }
    }
}

/// The edges that are known before anything is chosen.
pub(crate) struct Known<'a> {
    history: &'a History,
    dependencies: &'a Dependencies,
    pub(crate) layout: Layout,
    /// Orders in time, with their auxiliary nodes.
    precedence: Vec<Edge>,
    first_tail_node: u32,
    pub(crate) node_count: usize,
}

impl<'a> Known<'a> {
    pub(crate) fn new(
        history: &'a History,
        dependencies: &'a Dependencies,
        precedence: Precedence,
        nodes: Nodes,
    ) -> Self {
        let layout = Layout::new(history, nodes);
        let first_node = history.txn_count() * layout.copies();
        let mut edges = Vec::new();
        let first_tail = add_precedence(history, &dependencies.fates, precedence, first_node, &mut edges);
        let node_count = first_tail + dependencies.tails.len();
        Known {
            history,
            dependencies,
            layout,
            precedence: edges,
            first_tail_node: first_tail as u32,
            node_count,
        }
    }

    /// Adds edges with further auxiliary nodes: `add` gets the number of the first one, and returns the number
    /// after the last one.
    pub(crate) fn add_further(&mut self, add: impl FnOnce(usize, &mut Vec<Edge>) -> usize) {
        self.node_count = add(self.node_count, &mut self.precedence);
    }

    /// The graph of all that is known, with further edges between transactions.
    pub(crate) fn graph(&self, further: &[Edge]) -> Graph {
        Graph::gather(self.history.txn_count(), self.layout.copies(), self.node_count, |emit| {
            self.visit(further, emit);
        })
    }

    /// Yields all that is known, and further edges between transactions, as edges between nodes.
    pub(crate) fn visit(&self, further: &[Edge], emit: &mut dyn FnMut(Edge)) {
        let layout = self.layout;
        for &edge in self.dependencies.edges.iter().chain(&self.precedence).chain(further) {
            emit(layout.translate(edge));
        }
        self.visit_tails(emit);
        if layout.nodes == Nodes::Split {
            for (txn, fate) in (0..).zip(&self.dependencies.fates) {
                if fate.is_effective() {
                    emit(onward(txn, layout.commit(txn)));
                }
            }
        }
    }

    fn visit_tails(&self, emit: &mut dyn FnMut(Edge)) {
        for (node, tail) in (self.first_tail_node..).zip(&self.dependencies.tails) {
            if self.layout.nodes == Nodes::Whole {
                tail.for_each_edge(node, &mut *emit);
                continue;
            }
            for target in &tail.targets {
                if let Some(last) = tail.last {
                    let kind = EdgeKind::WriteOrder;
                    emit(self.layout.translate(Edge { from: last.0, to: target.0, key: tail.key, kind }));
                }
                emit(onward(node, self.layout.commit(target.0)));
            }
            for reader in &tail.readers {
                let kind = EdgeKind::AntiDependency;
                emit(Edge { from: reader.0, to: node, key: tail.key, kind });
            }
        }
    }

    /// Prefers what completed early and passes auxiliary nodes at once, so that they delay nobody.
    pub(crate) fn priority(&self, node: u32) -> u32 {
        let (txn, copy) = (node % self.layout.txn_count, node / self.layout.txn_count);
        if copy as usize >= self.layout.copies() {
            return 0;
        }
        let record = self.history.txn(TxnId(txn));
        let is_begin = self.layout.nodes == Nodes::Split && copy == 0;
        if is_begin { record.invoke } else { record.completion.unwrap_or(record.invoke) }
    }

    /// The known graph in order, to which choices can be added; none if it has a cycle.
    pub(crate) fn model<'g>(&self, graph: &'g Graph) -> Option<Acyclic<'g>> {
        let order =
            TopologicalOrder::new(graph, |node| self.priority(node), |node| self.layout.second(node))?;
        Some(Acyclic { order, layout: self.layout })
    }
}

fn onward(from: u32, to: u32) -> Edge {
    Edge { from, to, key: crate::history::KeyId(0), kind: EdgeKind::Onward }
}

/// A graph without a cycle and a level that asks for no more.
#[derive(Debug)]
pub(crate) struct Acyclic<'a> {
    order: TopologicalOrder<&'a Graph>,
    layout: Layout,
}

impl Model for Acyclic<'_> {
    fn try_add(&mut self, edges: &[Edge]) -> bool {
        let mark = self.order.added();
        let fits = edges.iter().all(|&edge| {
            let Edge { from, to, .. } = self.layout.translate(edge);
            self.order.try_add(from, to)
        });
        if !fits {
            self.order.undo(mark);
        }
        fits
    }

    fn mark(&self) -> usize {
        self.order.added()
    }

    fn undo(&mut self, mark: usize) {
        self.order.undo(mark);
    }

    fn place(&self, chain: &Chain) -> u32 {
        chain.first.map_or(0, |first| self.order.position(self.layout.commit(first.0)))
    }

    fn steps(&self) -> u64 {
        self.order.walked()
    }
}

/// Looks for cycles and adds them to `anomalies`. Returns a reason if the question stays open.
pub(crate) fn judge(
    history: &History,
    dependencies: &Dependencies,
    precedence: Precedence,
    nodes: Nodes,
    anomalies: &mut Anomalies,
) -> Option<String> {
    let known = Known::new(history, dependencies, precedence, nodes);
    let graph = known.graph(&[]);
    let Some(mut model) = known.model(&graph) else {
        describe(history, &graph, &graph.cyclic_components(graph::ALL), &BY_SEVERITY, anomalies);
        return None;
    };
    if !anomalies.is_empty() {
        return None;
    }
    let orders = match nodes {
        Nodes::Whole => dependencies.open.clone(),
        Nodes::Split | Nodes::Parallel => conflicting_orders(history, dependencies),
    };
    let choices = match counts::open_choices(history, &dependencies.counts, precedence, anomalies) {
        Ok(choices) => choices,
        Err(reason) => return reason,
    };
    match search::resolve(&mut model, &orders, &choices) {
        Resolution::Settled => None,
        Resolution::GaveUp(reason) => Some(reason),
        Resolution::Contradiction(contradiction) => {
            let find = |edges: &[Edge]| {
                let graph = known.graph(edges);
                let components = graph.cyclic_components(graph::ALL);
                let first = components.first();
                first.map(|first| find_cycle(&graph.restrict(first), &BY_SEVERITY)).unwrap_or_default()
            };
            describe_contradiction(history, dependencies, &contradiction, find, anomalies);
            None
        }
    }
}

/// The questions of version order where writers of a key must see each other: open chains, and versions
/// behind the last one that somebody read.
pub(crate) fn conflicting_orders(history: &History, dependencies: &Dependencies) -> Vec<OpenOrder> {
    let open = |key| dependencies.open.iter().any(|order| order.key == key);
    if mutants::is_planted(Mutant::IgnoresConflicts) {
        return dependencies.open.clone();
    }
    let of_lists = dependencies.tails.iter().filter(|tail| tail.targets.len() > 1 && !open(tail.key));
    let of_lists = of_lists.map(|tail| OpenOrder {
        key: tail.key,
        chains: tail.targets.iter().map(|&target| Chain::of_one(history, target)).collect(),
    });
    dependencies.open.iter().cloned().chain(of_lists).collect()
}

/// Adds one anomaly for each strongly connected component that has a cycle of one of the shapes.
pub(crate) fn describe(
    history: &History,
    graph: &Graph,
    components: &[Vec<u32>],
    shapes: &[CycleShape],
    anomalies: &mut Anomalies,
) {
    for component in components.iter().take(COMPONENTS_DESCRIBED_MAX) {
        let cycle = find_cycle(&graph.restrict(component), shapes);
        if !cycle.is_empty() {
            describe_cycle(history, &cycle, anomalies);
        }
    }
}

/// Adds a cycle as an anomaly.
pub(crate) fn describe_cycle(history: &History, cycle: &[Edge], anomalies: &mut Anomalies) {
    anomalies.add_cycle(history, classify(history, cycle), cycle);
}

/// Adds the anomaly that no answer fits: the cycle that `find` finds under each of the two answers.
pub(crate) fn describe_contradiction(
    history: &History,
    dependencies: &Dependencies,
    contradiction: &Contradiction,
    find: impl Fn(&[Edge]) -> Vec<Edge>,
    anomalies: &mut Anomalies,
) {
    let choice = match &contradiction.cause {
        Cause::Sum(sum) => return dependencies.counts.sum(*sum).describe(history, anomalies),
        Cause::Choice(choice) => choice,
    };
    let words = Words::new(history);
    let cycles = choice.answers.each_ref().map(|answer| find(&[&contradiction.forced[..], answer].concat()));
    let cycle = cycles.iter().find(|cycle| !cycle.is_empty()).map_or(&[][..], Vec::as_slice);
    let is_counted = history.key_type(choice.key) == Some(KeyType::CountingSet);
    let kind = match cycle {
        [] if is_counted => AnomalyKind::WrongCount,
        [] => AnomalyKind::LostUpdate,
        cycle => classify(history, cycle),
    };
    let mut txns: Vec<TxnId> = cycle.iter().map(|edge| TxnId(edge.from)).collect();
    if txns.is_empty() {
        txns = choice.answers.iter().flatten().map(|edge| TxnId(edge.from)).collect();
        txns.sort_unstable();
        txns.dedup();
    }
    let is_about_snapshots = choice.answers[0].iter().all(|edge| edge.kind == EdgeKind::Snapshot);
    let pair = choice.answers[0].first().map(|edge| [TxnId(edge.from), TxnId(edge.to)]);
    anomalies.add_with_edges(history, kind, &txns, cycle, || {
        let question = match pair.filter(|_| is_about_snapshots) {
            Some([one, other]) => {
                format!(
                    "the snapshots of {} and {}, which ran at one site,",
                    words.txn(one),
                    words.txn(other)
                )
            }
            None => format!("the writes to {}", history.key(choice.key)),
        };
        let described = cycles.each_ref().map(|cycle| {
            if cycle.is_empty() {
                "this contradicts what else is known.".to_string()
            } else {
                words.cycle(cycle)
            }
        });
        format!(
            "No order of {question} fits. One way round: {} The other way round: {}",
            described[0], described[1],
        )
    });
}

/// The usual name of a cycle.
pub(crate) fn classify(history: &History, cycle: &[Edge]) -> AnomalyKind {
    let count = |kind| cycle.iter().filter(|edge| edge.kind == kind).count();
    let anti_dependencies = count(EdgeKind::AntiDependency);
    let in_pair = |kind| cycle.len() == 2 && count(kind) == 1;
    let of_time = [EdgeKind::RealTime, EdgeKind::SiteOrder, EdgeKind::Shown, EdgeKind::Ended];
    if of_time.into_iter().any(|kind| count(kind) > 0) {
        return match anti_dependencies {
            1 if in_pair(EdgeKind::AntiDependency) => AnomalyKind::StaleRead,
            0 if in_pair(EdgeKind::ReadsFrom) => AnomalyKind::FutureRead,
            _ => AnomalyKind::RealTimeViolation,
        };
    }
    if count(EdgeKind::SessionOrder) > 0 {
        return AnomalyKind::SessionViolation;
    }
    // Updates of a counting set all count, so none of them is lost.
    let is_replaced = |key| history.key_type(key) != Some(KeyType::CountingSet);
    let replace_one_key = cycle.iter().all(|edge| edge.key == cycle[0].key && is_replaced(edge.key));
    match anti_dependencies {
        0 if count(EdgeKind::ReadsFrom) == 0 => AnomalyKind::WriteCycle,
        0 => AnomalyKind::CircularInformationFlow,
        1 if in_pair(EdgeKind::WriteOrder) && replace_one_key => AnomalyKind::LostUpdate,
        1 if in_pair(EdgeKind::ReadsFrom) => AnomalyKind::FracturedRead,
        1 => AnomalyKind::SingleAntiDependency,
        2 if cycle.len() == 2 && replace_one_key => AnomalyKind::LostUpdate,
        2 if cycle.len() == 2 => AnomalyKind::WriteSkew,
        _ if !has_adjacent_anti_dependencies(cycle) => AnomalyKind::LongFork,
        _ => AnomalyKind::AntiDependencyCycle,
    }
}

fn has_adjacent_anti_dependencies(cycle: &[Edge]) -> bool {
    let is_anti = |edge: &Edge| edge.kind == EdgeKind::AntiDependency;
    let next = cycle.iter().cycle().skip(1);
    cycle.iter().zip(next).any(|(one, next)| is_anti(one) && is_anti(next))
}
