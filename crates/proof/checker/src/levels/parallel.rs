//! Parallel snapshot isolation (Cerone and Gotsman): (WR ∪ WW (∪ SO))⁺ ; RW? is irreflexive.
//!
//! That is two statements: the dependencies WR ∪ WW (∪ SO) have no cycle, and for an anti-dependency T → U no
//! path of dependencies leads from U to T. The second one is only asked inside of strongly connected
//! components of all edges together, since the anti-dependency closes such a path into a cycle.
//!
//! A history that satisfies snapshot isolation satisfies the parallel kind, and so does one that satisfies Walter's kind.
//! These are tried first: they need few passes over the edges and find an order of unread versions on the way.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use crate::dependencies::{CountChoices, Dependencies, Edge, EdgeKind, OpenOrder};
use crate::graph::{self, DEPENDENCIES, Graph, find_cycle};
use crate::history::{History, Session, Site};
use crate::level::Precedence;
use crate::levels::acyclic::{self, Known, Nodes};
use crate::levels::counts;
use crate::levels::recheck::Recheck;
use crate::levels::search::{self, Resolution};
use crate::levels::walter;
use crate::report::Anomalies;

/// All edges but anti-dependencies.
const DEPENDENCY: u16 = graph::ALL & !EdgeKind::AntiDependency.bit();

/// Looks for violations and adds them to `anomalies`. Returns a reason if the question stays open.
pub(crate) fn judge(
    history: &History,
    dependencies: &Dependencies,
    precedence: Precedence,
    anomalies: &mut Anomalies,
) -> Option<String> {
    let orders = acyclic::conflicting_orders(history, dependencies);
    let choices = match counts::open_choices(history, &dependencies.counts, precedence, anomalies) {
        Ok(choices) => choices,
        Err(reason) => return reason,
    };
    if anomalies.is_empty()
        && (satisfies_snapshot_isolation(history, dependencies, precedence, &orders, &choices)
            || satisfies_walter(history, dependencies, precedence, &orders, &choices))
    {
        return None;
    }
    let parallel = Parallel { known: Known::new(history, dependencies, precedence, Nodes::Parallel) };
    let graph = parallel.known.graph(&[]);
    let broken = parallel.broken_components(&graph, false);
    if !broken.is_empty() {
        acyclic::describe(history, &graph, &broken, &DEPENDENCIES, anomalies);
        return None;
    }
    if !anomalies.is_empty() || (orders.is_empty() && choices.pairs.is_empty()) {
        return None;
    }
    // One check of all orders together, since each check is of the whole history.
    if choices.pairs.is_empty() && parallel.holds(&search::edges_in_real_time(&orders)) {
        return None;
    }
    let edge_count = dependencies.edges.len() + history.txn_count();
    let mut model = Recheck::new(edge_count as u64, |edges: &[Edge]| parallel.holds(edges));
    match search::resolve(&mut model, &orders, &choices) {
        Resolution::Settled => None,
        Resolution::GaveUp(reason) => Some(reason),
        Resolution::Contradiction(contradiction) => {
            let find = |edges: &[Edge]| parallel.find(edges);
            acyclic::describe_contradiction(history, dependencies, &contradiction, find, anomalies);
            None
        }
    }
}

fn satisfies_snapshot_isolation(
    history: &History,
    dependencies: &Dependencies,
    precedence: Precedence,
    orders: &[OpenOrder],
    choices: &CountChoices,
) -> bool {
    let known = Known::new(history, dependencies, precedence, Nodes::Split);
    let graph = known.graph(&[]);
    known.model(&graph).is_some_and(|mut model| search::guess(&mut model, orders, choices))
}

/// Walter's kind orders what ran at one site by real time, and so holds the order of sessions that stay at one
/// site.
fn satisfies_walter(
    history: &History,
    dependencies: &Dependencies,
    precedence: Precedence,
    orders: &[OpenOrder],
    choices: &CountChoices,
) -> bool {
    (precedence == Precedence::None || sessions_stay(history))
        && walter::is_satisfied(history, dependencies, orders, choices)
}

/// Whether every session runs at one site.
fn sessions_stay(history: &History) -> bool {
    let mut sites: HashMap<Session, Option<Site>, FixedState> = HashMap::default();
    history.txns().iter().all(|txn| *sites.entry(txn.session).or_insert(txn.site) == txn.site)
}

struct Parallel<'a> {
    known: Known<'a>,
}

impl Parallel<'_> {
    /// Strongly connected components that break the level: of dependencies alone, or with a path of
    /// dependencies that an anti-dependency closes. With `one` set, only the first that is found.
    fn broken_components(&self, graph: &Graph, one: bool) -> Vec<Vec<u32>> {
        let mut broken = graph.cyclic_components(DEPENDENCY);
        if !broken.is_empty() {
            return broken;
        }
        for component in graph.cyclic_components(graph::ALL) {
            let part = graph.restrict(&component);
            let returns = part
                .edges()
                .filter(|edge| edge.kind == EdgeKind::AntiDependency)
                .map(|edge| (edge.to, edge.from));
            let priority = |node: u32| self.known.priority(component[node as usize]);
            if part.graph().has_any_path(DEPENDENCY, returns, priority) {
                broken.push(component);
                if one {
                    break;
                }
            }
        }
        broken
    }

    fn holds(&self, edges: &[Edge]) -> bool {
        self.broken_components(&self.known.graph(edges), true).is_empty()
    }

    /// The cycle that breaks the level with these further edges; empty if none does.
    fn find(&self, edges: &[Edge]) -> Vec<Edge> {
        let graph = self.known.graph(edges);
        let broken = self.broken_components(&graph, true);
        let first = broken.first();
        first.map(|first| find_cycle(&graph.restrict(first), &DEPENDENCIES)).unwrap_or_default()
    }
}
