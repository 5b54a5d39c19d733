//! Whether one order of all transactions contains visibility, the order of every list, and the order of
//! writes that register reads tell.

use crate::dependencies::{Edge, EdgeKind};
use crate::graph::{self, BY_SEVERITY, Graph, add_precedence, find_cycle};
use crate::level::Precedence;
use crate::levels::causal::facts::Facts;
use crate::mutants::{self, Mutant};

/// Cycles of at most so many strongly connected components are described.
const COMPONENTS_DESCRIBED_MAX: usize = 10;

/// One short cycle of each strongly connected component. `registers` are the orders that register reads tell,
/// `further` are edges of counting sets beyond those that are known.
pub(super) fn cycles(facts: &Facts<'_>, registers: &[Edge], further: &[Edge]) -> Vec<Vec<Edge>> {
    if mutants::is_planted(Mutant::ForgetsArbitration) {
        return Vec::new();
    }
    let txn_count = facts.history.txn_count();
    let mut sessions = Vec::new();
    let node_count =
        add_precedence(facts.history, &facts.fates, Precedence::Session, txn_count, &mut sessions);
    let graph = Graph::gather(txn_count, 1, node_count, |emit| {
        sessions.iter().chain(registers).for_each(|&edge| emit(edge));
        let counted = facts.count_edges.iter().chain(further);
        counted.filter(|edge| edge.kind == EdgeKind::ReadsFrom).for_each(|&edge| emit(edge));
        facts.for_each_read_edge(&mut *emit);
        for (key, writers) in facts.ordered() {
            for pair in writers.windows(2).filter(|pair| pair[0] != pair[1]) {
                emit(Edge { from: pair[0].0, to: pair[1].0, key, kind: EdgeKind::WriteOrder });
            }
        }
    });
    let components = graph.cyclic_components(graph::ALL);
    let described = components.iter().take(COMPONENTS_DESCRIBED_MAX);
    described.map(|component| find_cycle(&graph.restrict(component), &BY_SEVERITY)).collect()
}
