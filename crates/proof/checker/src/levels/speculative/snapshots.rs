//! The snapshots of final commits and of views, as one question about cycles.
//!
//! As for snapshot isolation, a transaction is a begin and a commit. A transaction that a site has shown comes before the
//! begin of its later transactions, as [`site_order`](super::site_order) says: its commit before the begin of a final
//! commit, if it was final by then or touched, and its begin before the begin of a view, which may hold it as a local commit
//! and then holds all that it saw. A view is a transaction that wrote nothing; where it read from a final commit of its own
//! site, that too may have been a local commit still.

use std::collections::{BTreeMap, BTreeSet};

use crate::dependencies::{Dependencies, Edge, EdgeKind, NoChoices};
use crate::explain::Words;
use crate::graph::{self, BY_SEVERITY, find_cycle};
use crate::history::{History, KeyId, TxnId};
use crate::level::Precedence;
use crate::levels::acyclic::{self, Known, Nodes};
use crate::levels::search::{self, Cause, Choice, Contradiction, Resolution};
use crate::levels::speculative::cast::Cast;
use crate::levels::speculative::ends::{ends, impossible_reads};
use crate::levels::speculative::members::written_keys;
use crate::levels::speculative::model::AtSites;
use crate::levels::speculative::possibilities::Possibilities;
use crate::levels::speculative::shapes::{count_members, shapes};
use crate::levels::speculative::site_order::{shown_at, site_order};
use crate::levels::speculative::views::Views;
use crate::mutants::{self, Mutant};
use crate::report::{Anomalies, AnomalyKind};

/// More questions about the versions below local commits than this are not asked.
const QUESTIONS_MAX: usize = 5_000;

/// Judges final commits alone.
pub(super) fn judge_commits(
    history: &History,
    dependencies: &Dependencies,
    cast: &Cast,
    anomalies: &mut Anomalies,
) -> Option<String> {
    Snapshots::new(history, history, cast, &Views::default()).judge(dependencies, anomalies)
}

/// Judges final commits and views together.
pub(super) fn judge(
    history: &History,
    cast: &Cast,
    views: &mut Views,
    possibilities: &mut Possibilities,
    anomalies: &mut Anomalies,
) -> Option<String> {
    count_members(history, cast, views, possibilities);
    let shaped = history.reshape(shapes(history, cast, views));
    let mut dependencies = Dependencies::derive(&shaped, anomalies);
    if !anomalies.is_empty() {
        return None;
    }
    for edge in &mut dependencies.edges {
        let (from, to) = (TxnId(edge.from), TxnId(edge.to));
        if edge.kind == EdgeKind::ReadsFrom && is_view_of_mate(history, views, to, from) {
            edge.kind = EdgeKind::LocalCommit;
        }
    }
    let reason = Snapshots::new(history, &shaped, cast, views).judge(&dependencies, anomalies);
    views.settle_doubt(anomalies).or(reason)
}

pub(super) fn is_view_of_mate(history: &History, views: &Views, view: TxnId, txn: TxnId) -> bool {
    views.of.contains_key(&view) && history.txn(view).site == history.txn(txn).site
}

struct Snapshots<'a> {
    history: &'a History,
    /// The history in which views are transactions of their own.
    shaped: &'a History,
    cast: &'a Cast,
    views: &'a Views,
}

impl<'a> Snapshots<'a> {
    fn new(history: &'a History, shaped: &'a History, cast: &'a Cast, views: &'a Views) -> Self {
        Snapshots { history, shaped, cast, views }
    }

    fn judge(&self, dependencies: &Dependencies, anomalies: &mut Anomalies) -> Option<String> {
        let held = self.held(dependencies);
        self.check_own_site(dependencies, &held, anomalies);
        impossible_reads(self.history, &dependencies.edges, anomalies);
        if !anomalies.is_empty() {
            return None;
        }
        let mut known = Known::new(self.shaped, dependencies, Precedence::None, Nodes::Split);
        known.add_further(|first_node, edges| {
            site_order(self.history, self.cast, self.views, first_node, edges)
        });
        known.add_further(|first_node, edges| {
            ends(self.history, self.cast, self.views, self.shaped.txn_count(), first_node, edges)
        });
        let members = self.member_edges();
        let graph = known.graph(&members);
        let Some(model) = known.model(&graph) else {
            for component in graph.cyclic_components(graph::ALL).iter().take(1) {
                self.describe(&find_cycle(&graph.restrict(component), &BY_SEVERITY), anomalies);
            }
            return None;
        };
        let must = |reader: TxnId, updater: TxnId| self.must_hold(&held, reader, updater).then_some(true);
        let counts = match dependencies.counts.choices(self.shaped, must) {
            Ok(counts) => counts,
            Err(NoChoices::TooMany(reason)) => return Some(reason),
            Err(NoChoices::Contradiction(sum)) => {
                sum.describe(self.shaped, anomalies);
                return None;
            }
        };
        let questions = match self.questions(&held) {
            Ok(questions) => questions,
            Err(reason) => return Some(reason),
        };
        let orders = acyclic::conflicting_orders(self.shaped, dependencies);
        let mut model =
            AtSites::new(model, self.history, self.views, |view, txn| self.must_hold(&held, view, txn));
        model.miss(self.missed(dependencies).map(|(view, missed, _)| (view, missed)));
        match search::resolve_with(&mut model, &orders, &counts, questions) {
            Resolution::Settled => None,
            Resolution::GaveUp(reason) => Some(reason),
            Resolution::Contradiction(contradiction) => {
                let find = |edges: &[Edge]| {
                    let further = [&members[..], edges].concat();
                    let graph = known.graph(&further);
                    let components = graph.cyclic_components(graph::ALL);
                    let first = components.first();
                    first.map(|first| find_cycle(&graph.restrict(first), &BY_SEVERITY)).unwrap_or_default()
                };
                self.contradiction(dependencies, &contradiction, find, anomalies);
                None
            }
        }
    }

    fn is_view(&self, txn: TxnId) -> bool {
        self.views.of.contains_key(&txn)
    }

    fn describe(&self, cycle: &[Edge], anomalies: &mut Anomalies) {
        let has_view = cycle.iter().any(|edge| self.is_view(TxnId(edge.from)));
        let kind =
            if has_view { AnomalyKind::SpeculativeSnapshot } else { acyclic::classify(self.shaped, cycle) };
        anomalies.add_cycle(self.shaped, kind, cycle);
    }

    fn contradiction(
        &self,
        dependencies: &Dependencies,
        contradiction: &Contradiction,
        find: impl Fn(&[Edge]) -> Vec<Edge>,
        anomalies: &mut Anomalies,
    ) {
        if let Cause::Choice(Choice { answers, .. }) = &contradiction.cause {
            let views = answers.iter().flatten().flat_map(|edge| [TxnId(edge.from), TxnId(edge.to)]);
            if let Some(view) = views.into_iter().find(|&txn| self.is_view(txn)) {
                return anomalies.add(self.shaped, AnomalyKind::SpeculativeSnapshot, &[view], || {
                    let words = Words::new(self.shaped);
                    let cycles = answers.each_ref().map(|answer| {
                        let cycle = find(&[&contradiction.forced[..], answer].concat());
                        if cycle.is_empty() {
                            "this contradicts what else is known.".to_string()
                        } else {
                            words.cycle(&cycle)
                        }
                    });
                    format!(
                        "No snapshot of {} fits. Either: {} Or: {}",
                        words.txn(view),
                        cycles[0],
                        cycles[1]
                    )
                });
            }
        }
        acyclic::describe_contradiction(self.shaped, dependencies, contradiction, find, anomalies);
    }

    /// A snapshot that holds a local commit holds what that one saw.
    fn member_edges(&self) -> Vec<Edge> {
        let members = self
            .views
            .of
            .iter()
            .flat_map(|(&txn, view)| view.members.iter().map(move |&member| (member, txn)));
        let survivors = self.views.survivors.iter().map(|&(txn, local)| (local, txn));
        let edge = |(from, to): (TxnId, TxnId)| Edge {
            from: from.0,
            to: to.0,
            key: KeyId(0),
            kind: EdgeKind::LocalCommit,
        };
        members.chain(survivors).map(edge).collect()
    }

    /// Per view the final commits of its site that it is known to have read from.
    fn held(&self, dependencies: &Dependencies) -> BTreeMap<TxnId, BTreeSet<TxnId>> {
        let mut held: BTreeMap<TxnId, BTreeSet<TxnId>> = BTreeMap::new();
        for edge in dependencies.edges.iter().filter(|edge| edge.kind == EdgeKind::LocalCommit) {
            held.entry(TxnId(edge.to)).or_default().insert(TxnId(edge.from));
        }
        held
    }

    /// Whether a view must hold a final commit of its site: it, or a member of it, read from it or began when
    /// the site had shown it.
    fn must_hold(&self, held: &BTreeMap<TxnId, BTreeSet<TxnId>>, view: TxnId, txn: TxnId) -> bool {
        let Some(members) = self.views.of.get(&view).map(|view| &view.members) else { return false };
        if self.history.txn(txn).site != self.history.txn(view).site || !self.cast.is_effective(txn) {
            return false;
        }
        std::iter::once(&view).chain(members).any(|&holder| {
            shown_at(self.history, txn).is_some_and(|shown| shown < self.history.txn(holder).invoke)
                || held.get(&holder).is_some_and(|held| held.contains(&txn))
        })
    }

    /// Views with the final commits that a read of a key shows not to be in them.
    fn missed(&self, dependencies: &Dependencies) -> impl Iterator<Item = (TxnId, TxnId, KeyId)> {
        let by_edges = dependencies.edges.iter().filter(|edge| edge.kind == EdgeKind::AntiDependency);
        let by_edges = by_edges.map(|edge| (TxnId(edge.from), TxnId(edge.to), edge.key));
        let by_edges = by_edges.filter(|(view, _, _)| self.is_view(*view));
        let by_tails = dependencies.tails.iter().flat_map(|tail| {
            let views = tail.readers.iter().filter(|&&reader| self.is_view(reader));
            views.flat_map(move |&view| tail.targets.iter().map(move |&target| (view, target, tail.key)))
        });
        by_edges.chain(by_tails)
    }

    /// The commits that a view must hold of its own site show in its reads.
    fn check_own_site(
        &self,
        dependencies: &Dependencies,
        held: &BTreeMap<TxnId, BTreeSet<TxnId>>,
        anomalies: &mut Anomalies,
    ) {
        for (view, missed, key) in self.missed(dependencies) {
            if self.must_hold(held, view, missed) && !mutants::is_planted(Mutant::ForgetsOwnSite) {
                anomalies.add(self.history, AnomalyKind::SpeculativeSnapshot, &[view, missed], || {
                    let words = Words::new(self.history);
                    format!(
                        "The snapshot of {} must hold {}, which had committed at its site, but a read of {} does not show it.",
                        words.txn(view),
                        words.txn(missed),
                        self.history.key(key)
                    )
                });
            }
        }
    }

    /// Where nobody knows the final versions of a key below a local commit: a view that holds it holds only such final
    /// versions of the key as it does.
    fn questions(&self, held: &BTreeMap<TxnId, BTreeSet<TxnId>>) -> Result<Vec<Choice>, String> {
        let mut questions = Vec::new();
        for (&txn, view) in &self.views.of {
            for &member in &view.members {
                for key in
                    written_keys(self.history, member).into_iter().filter(|key| !view.bases.contains_key(key))
                {
                    let writers: BTreeSet<TxnId> =
                        self.cast.writes.of_key(key).iter().map(|write| write.txn).collect();
                    for writer in writers.into_iter().filter(|&writer| self.cast.is_effective(writer)) {
                        let is_survivor = self.views.survivors.contains(&(writer, member));
                        let is_last = view.shown.get(&key).is_some_and(|shown| shown[..] == [member]);
                        if is_survivor && is_last {
                            // It would stand above the local commit that was read.
                            let outside = vec![outside(txn, writer, key)];
                            questions.push(Choice { key, answers: [outside.clone(), outside] });
                        } else if !is_survivor {
                            questions.push(self.question(held, txn, member, writer, key));
                        }
                    }
                    if questions.len() > QUESTIONS_MAX {
                        return Err(format!(
                            "More than {QUESTIONS_MAX} final commits wrote keys of local commits that nobody read."
                        ));
                    }
                }
            }
        }
        Ok(questions)
    }

    fn question(
        &self,
        held: &BTreeMap<TxnId, BTreeSet<TxnId>>,
        txn: TxnId,
        member: TxnId,
        writer: TxnId,
        key: KeyId,
    ) -> Choice {
        let is_mate = is_view_of_mate(self.history, self.views, member, writer);
        let kind = if is_mate { EdgeKind::LocalCommit } else { EdgeKind::ReadsFrom };
        let below = vec![Edge { from: writer.0, to: member.0, key, kind }];
        let outside = vec![outside(txn, writer, key)];
        let early =
            shown_at(self.history, writer).is_some_and(|shown| shown < self.history.txn(member).invoke);
        let answers =
            if early || self.must_hold(held, txn, writer) { [below, outside] } else { [outside, below] };
        Choice { key, answers }
    }
}

/// The edge that says that a view does not hold a final commit.
fn outside(view: TxnId, writer: TxnId, key: KeyId) -> Edge {
    Edge { from: view.0, to: writer.0, key, kind: EdgeKind::AntiDependency }
}
