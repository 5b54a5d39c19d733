//! Walter's parallel snapshot isolation: each site takes its snapshots from a log of its own.
//!
//! A history satisfies it if for every site its transactions can be put in an order, that of their
//! snapshots, such that at every site everything can happen in some order:
//!
//! - a transaction T has a node S(T, r), when all of its snapshot has committed at site r, and after it a
//!   node C(T, r), when T itself commits there; at its home S(T, home) is when the snapshot is taken;
//! - WR, WW, RTs from T' to T: T has T' in its snapshot, so C(T', r) → S(T, r) at every site r;
//! - RW from T to U: T does not have U in its snapshot, so S(T, home) → C(U, home), at the home of T alone;
//! - T completed before U was invoked: nobody sees what was invoked after it completed, so S(T, home) →
//!   C(U, home), at the home of T alone;
//! - a snapshot of a site holds the earlier ones of that site, so S(T, r) → S(U, r) at every site r if T and
//!   U ran at one site and T comes first in the order of their snapshots.
//!
//! *Such an order suffices:* let T see every transaction whose commit reaches S(T, home) at home. A path there consists of
//! edges that every site has, and of edges that leave the snapshots of transactions of that site, which the order of its
//! snapshots replaces elsewhere. So every transaction that is seen commits before T at every site. *It is needed:* put S(T,
//! r) where the last member of T's snapshot commits at r.
//!
//! Without the last rule each site is a graph like that of snapshot isolation, in which only its own
//! transactions have anti-dependencies. The order of snapshots is found site by site, by inserting them one
//! after another; and if that fails, by the search.

mod layers;

use crate::dependencies::{CountChoices, Dependencies, Edge, EdgeKind, OpenOrder};
use crate::explain::Words;
use crate::graph::{self, BY_SEVERITY, Graph, add_real_time_from, find_cycle};
use crate::history::{History, KeyId, Outcome, Site, Txn, TxnId};
use crate::level::Precedence;
use crate::levels::acyclic::{self, Known, Nodes};
use crate::levels::search::{self, Choice, Model, Resolution};
use crate::levels::walter::layers::Layers;
use crate::levels::{counts, parallel};
use crate::mutants::{self, Mutant};
use crate::report::Anomalies;

/// Looks for violations and adds them to `anomalies`. Returns a reason if the question stays open.
pub(crate) fn judge(
    history: &History,
    dependencies: &Dependencies,
    anomalies: &mut Anomalies,
) -> Option<String> {
    if let Some(txn) = without_site(history) {
        parallel::judge(history, dependencies, Precedence::None, anomalies);
        return Some(format!(
            "The level walter-psi is about sites, and {} names none.",
            Words::new(history).txn(txn)
        ));
    }
    let orders = acyclic::conflicting_orders(history, dependencies);
    let choices = match counts::open_choices(history, &dependencies.counts, Precedence::Site, anomalies) {
        Ok(choices) => choices,
        Err(reason) => return reason,
    };
    let walter = Walter {
        history,
        dependencies,
        known: Known::new(history, dependencies, Precedence::Site, Nodes::Split),
    };
    if anomalies.is_empty() && walter.fits_one_log(&orders, &choices) {
        return None;
    }
    walter.judge_sites(&orders, &choices, anomalies)
}

/// Whether the history is quickly seen to satisfy the level. That it is not says nothing.
pub(crate) fn is_satisfied(
    history: &History,
    dependencies: &Dependencies,
    orders: &[OpenOrder],
    choices: &CountChoices,
) -> bool {
    if without_site(history).is_some() {
        return false;
    }
    let known = Known::new(history, dependencies, Precedence::Site, Nodes::Split);
    let walter = Walter { history, dependencies, known };
    let Ok(layers) = Layers::new(&walter) else { return false };
    let mut model = layers.model();
    search::guess(&mut model, orders, choices) && model.order_snapshots()
}

/// A transaction that may have committed and has no site.
fn without_site(history: &History) -> Option<TxnId> {
    let mut txns = (0..).map(TxnId).zip(history.txns());
    txns.find(|(_, txn)| txn.outcome != Outcome::Aborted && txn.site.is_none()).map(|(id, _)| id)
}

struct Walter<'a> {
    history: &'a History,
    dependencies: &'a Dependencies,
    known: Known<'a>,
}

impl Walter<'_> {
    /// Whether one log for all sites explains the history, which is all that most histories need.
    fn fits_one_log(&self, orders: &[OpenOrder], choices: &CountChoices) -> bool {
        let mut barriers = Vec::new();
        let node_count = self.barriers(None, &mut barriers);
        let graph = Graph::gather(self.history.txn_count(), 2, node_count, |emit| {
            self.known.visit(&[], emit);
            barriers.iter().for_each(|&edge| emit(edge));
        });
        let model = self.known.model(&graph);
        model.is_some_and(|mut model| search::guess(&mut model, orders, choices))
    }

    /// Adds, for the transactions of a site or of all sites, that they do not see what was invoked after they
    /// completed. Returns the number of nodes afterwards.
    fn barriers(&self, site: Option<Site>, barriers: &mut Vec<Edge>) -> usize {
        if mutants::is_planted(Mutant::SeesTheFuture) {
            return self.known.node_count;
        }
        let from = barriers.len();
        let is_source = |txn: &Txn| site.is_none() || txn.site == site;
        let fates = &self.dependencies.fates;
        let node_count = add_real_time_from(self.history, fates, is_source, self.known.node_count, barriers);
        // They lead from a snapshot to the commits behind the barrier, as anti-dependencies do.
        for edge in &mut barriers[from..] {
            if edge.kind == EdgeKind::Onward && (edge.to as usize) < self.history.txn_count() {
                edge.to = self.known.layout.commit(edge.to);
            }
        }
        node_count
    }

    fn site_count(&self) -> usize {
        self.history
            .txns()
            .iter()
            .filter_map(|txn| txn.site)
            .map(|site| site.0 as usize + 1)
            .max()
            .unwrap_or(0)
    }

    fn home(&self, txn: u32) -> Option<Site> {
        self.history.txn(TxnId(txn)).site
    }

    /// Whether an edge between nodes is one that only one site has: it leaves a snapshot without ending at
    /// that transaction's own commit. Returns the site.
    fn local_site(&self, edge: &Edge) -> Option<Site> {
        let is_local = edge.kind == EdgeKind::AntiDependency && !mutants::is_planted(Mutant::KeepsOneLog);
        is_local.then(|| self.home(edge.from)).flatten()
    }

    /// Whether a reader saw an updater, as the servers say. It is a guess like any other: the history is judged by what clients were told.
    fn says_seen(&self, reader: TxnId, updater: TxnId) -> Option<bool> {
        let facts = |txn: TxnId| self.history.facts(self.history.txn(txn));
        let place = facts(updater)?.site_seq?;
        let snapshot = facts(reader)?.vts.as_ref()?;
        let site = self.home(updater.0)?;
        let seen = snapshot.iter().find(|(of, _)| *of == site).map_or(0, |(_, seen)| *seen);
        Some(seen >= place)
    }

    fn judge_sites(
        &self,
        orders: &[OpenOrder],
        choices: &CountChoices,
        anomalies: &mut Anomalies,
    ) -> Option<String> {
        let layers = match Layers::new(self) {
            Ok(layers) => layers,
            Err(site) => {
                let graph = self.graph_of(site, &[]);
                let components = graph.cyclic_components(graph::ALL);
                acyclic::describe(self.history, &graph, &components, &BY_SEVERITY, anomalies);
                return None;
            }
        };
        if !anomalies.is_empty() {
            return None;
        }
        let mut model = layers.model();
        let mark = model.mark();
        let by_vectors = || choices.guess_as(|pair| self.says_seen(pair.reader, pair.updater));
        let seen: [&dyn Fn() -> Option<Vec<bool>>; 2] = [&|| choices.guess(), &by_vectors];
        for seen in seen {
            if search::guess_seen(&mut model, orders, choices, seen) && model.order_snapshots() {
                return None;
            }
            model.undo(mark);
        }
        match search::resolve_with(&mut model, orders, choices, self.snapshot_pairs()) {
            Resolution::Settled => None,
            Resolution::GaveUp(reason) => Some(reason),
            Resolution::Contradiction(contradiction) => {
                let find = |edges: &[Edge]| self.find_cycle(edges);
                acyclic::describe_contradiction(
                    self.history,
                    self.dependencies,
                    &contradiction,
                    find,
                    anomalies,
                );
                None
            }
        }
    }

    /// For any two transactions of one site the question whose snapshot is the earlier one. The transaction that completed
    /// first is asked about first; too many pairs are for the search to refuse.
    fn snapshot_pairs(&self) -> Vec<Choice> {
        let mut txns: Vec<(Option<Site>, u32)> = (0..)
            .zip(&self.dependencies.fates)
            .filter(|(_, fate)| fate.is_effective())
            .map(|(txn, _)| (self.home(txn), txn))
            .collect();
        txns.sort_unstable();
        if mutants::is_planted(Mutant::LeavesSnapshotsApart) {
            return Vec::new();
        }
        let edge = |from, to| vec![Edge { from, to, key: KeyId(0), kind: EdgeKind::Snapshot }];
        let mut pairs = Vec::new();
        for of_site in txns.chunk_by(|one, other| one.0 == other.0) {
            for (at, &(_, one)) in of_site.iter().enumerate() {
                for &(_, other) in &of_site[at + 1..] {
                    pairs.push(Choice { key: KeyId(0), answers: [edge(one, other), edge(other, one)] });
                    if pairs.len() > search::ANSWER_EDGES_MAX {
                        return pairs;
                    }
                }
            }
        }
        pairs
    }

    /// The graph of one site, with further edges between transactions.
    fn graph_of(&self, site: Site, further: &[Edge]) -> Graph {
        let mut barriers = Vec::new();
        let node_count = self.barriers(Some(site), &mut barriers);
        let (snapshots, others): (Vec<Edge>, Vec<Edge>) =
            further.iter().partition(|edge| edge.kind == EdgeKind::Snapshot);
        Graph::gather(self.history.txn_count(), 2, node_count, |emit| {
            barriers.iter().chain(&snapshots).for_each(|&edge| emit(edge));
            self.known.visit(&others, &mut |edge| {
                if self.local_site(&edge).is_none_or(|local| local == site) {
                    emit(edge);
                }
            });
        })
    }

    /// A cycle at some site with further edges; empty if there is none.
    fn find_cycle(&self, further: &[Edge]) -> Vec<Edge> {
        for site in (0..self.site_count() as u32).map(Site) {
            let graph = self.graph_of(site, further);
            if let Some(first) = graph.cyclic_components(graph::ALL).first() {
                return find_cycle(&graph.restrict(first), &BY_SEVERITY);
            }
        }
        Vec::new()
    }
}
