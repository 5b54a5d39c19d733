//! The serializable family: WR ∪ WW ∪ RW, with session order or real time where the level asks for it, has no
//! cycle.

use crate::dependencies::{Dependencies, Edge, EdgeKind};
use crate::explain::Words;
use crate::graph::{self, Graph, add_precedence, find_cycle};
use crate::history::{History, TxnId};
use crate::level::Precedence;
use crate::levels::versions::{self, Resolution};
use crate::report::{Anomalies, AnomalyKind};

/// Cycles of at most so many strongly connected components are described.
const COMPONENTS_DESCRIBED_MAX: usize = 10;

/// Looks for cycles and adds them to `anomalies`. Returns a reason if the question stays open.
pub(crate) fn judge(
    history: &History,
    dependencies: &Dependencies,
    precedence: Precedence,
    anomalies: &mut Anomalies,
) -> Option<String> {
    let txn_count = history.txn_count();
    let mut edges = dependencies.edges.clone();
    let mut node_count = txn_count;
    for tail in &dependencies.tails {
        tail.add_edges(node_count as u32, &mut edges);
        node_count += 1;
    }
    node_count = add_precedence(history, &dependencies.fates, precedence, node_count, &mut edges);
    let graph = Graph::new(txn_count, node_count, &edges);
    let components = graph.cyclic_components(graph::ALL);
    if !components.is_empty() {
        describe(history, &graph, &components, anomalies);
        return None;
    }
    if dependencies.open.is_empty() || !anomalies.is_empty() {
        return None;
    }
    match versions::resolve(history, &graph, &dependencies.open) {
        Resolution::Ordered => None,
        Resolution::GaveUp(reason) => Some(reason),
        Resolution::Contradiction(contradiction) => {
            contradiction.describe(history, txn_count, node_count, &edges, anomalies);
            None
        }
    }
}

/// Adds one anomaly for each strongly connected component.
pub(crate) fn describe(history: &History, graph: &Graph, components: &[Vec<u32>], anomalies: &mut Anomalies) {
    for component in components.iter().take(COMPONENTS_DESCRIBED_MAX) {
        let cycle = find_cycle(&graph.restrict(component));
        let txns: Vec<TxnId> = cycle.iter().map(|edge| TxnId(edge.from)).collect();
        anomalies.add(history, classify(&cycle), &txns, || Words::new(history).cycle(&cycle));
    }
}

/// The usual name of a cycle.
pub(crate) fn classify(cycle: &[Edge]) -> AnomalyKind {
    let count = |kind| cycle.iter().filter(|edge| edge.kind == kind).count();
    let anti_dependencies = count(EdgeKind::AntiDependency);
    let in_pair = |kind| cycle.len() == 2 && count(kind) == 1;
    if count(EdgeKind::RealTime) > 0 {
        return match anti_dependencies {
            1 if in_pair(EdgeKind::AntiDependency) => AnomalyKind::StaleRead,
            0 if in_pair(EdgeKind::ReadsFrom) => AnomalyKind::FutureRead,
            _ => AnomalyKind::RealTimeViolation,
        };
    }
    if count(EdgeKind::SessionOrder) > 0 {
        return AnomalyKind::SessionViolation;
    }
    let on_one_key = cycle.iter().all(|edge| edge.key == cycle[0].key);
    match anti_dependencies {
        0 if count(EdgeKind::ReadsFrom) == 0 => AnomalyKind::WriteCycle,
        0 => AnomalyKind::CircularInformationFlow,
        1 if in_pair(EdgeKind::WriteOrder) && on_one_key => AnomalyKind::LostUpdate,
        1 if in_pair(EdgeKind::ReadsFrom) => AnomalyKind::FracturedRead,
        1 => AnomalyKind::SingleAntiDependency,
        2 if cycle.len() == 2 && on_one_key => AnomalyKind::LostUpdate,
        2 if cycle.len() == 2 => AnomalyKind::WriteSkew,
        _ => AnomalyKind::AntiDependencyCycle,
    }
}
