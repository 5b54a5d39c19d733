//! The edges that choices add for the final commits that views hold of their own site.
//!
//! Such a commit may have been a local one still, so a view that holds it began after it began, not after it
//! committed. That leaves a gap between *holds it* and *does not hold it*, in which the graph has no cycle.
//! This model closes the gap: it remembers who holds and who misses what.

use std::collections::{BTreeMap, HashSet};

use foldhash::fast::FixedState;

use crate::dependencies::{Chain, Edge, EdgeKind};
use crate::history::{History, TxnId};
use crate::levels::search::Model;
use crate::levels::speculative::ends::is_impossible_read;
use crate::levels::speculative::snapshots::is_view_of_mate;
use crate::levels::speculative::views::Views;
use crate::mutants::{self, Mutant};

/// A view, and a final commit of its site.
type Pair = (TxnId, TxnId);

/// Pairs, of which the latest can be taken back.
#[derive(Debug, Default)]
struct Pairs {
    all: HashSet<Pair, FixedState>,
    /// Those that can be taken back, in the order in which they came.
    added: Vec<Pair>,
}

impl Pairs {
    fn contains(&self, view: TxnId, txn: TxnId) -> bool {
        self.all.contains(&(view, txn))
    }

    fn add(&mut self, view: TxnId, txn: TxnId) {
        if self.all.insert((view, txn)) {
            self.added.push((view, txn));
        }
    }

    fn truncate(&mut self, len: usize) {
        for pair in self.added.drain(len..) {
            self.all.remove(&pair);
        }
    }
}

/// A model that knows of local commits: what a view read from its own site may have been one, and what it must
/// hold of its own site it does hold.
pub(super) struct AtSites<'a, M, H> {
    inner: M,
    history: &'a History,
    views: &'a Views,
    /// Whether a view must hold a final commit of its site, by what is known.
    must_hold: H,
    /// Of each member the views that hold it.
    holders: BTreeMap<TxnId, Vec<TxnId>>,
    /// The view was chosen to hold the final commit.
    held: Pairs,
    /// The view is known, or was chosen, not to hold the final commit.
    missed: Pairs,
    /// The state before each addition: the mark of the inner model, and the pairs held and missed.
    additions: Vec<(usize, usize, usize)>,
}

impl<'a, M: Model, H: Fn(TxnId, TxnId) -> bool> AtSites<'a, M, H> {
    pub(super) fn new(inner: M, history: &'a History, views: &'a Views, must_hold: H) -> Self {
        let mut holders: BTreeMap<TxnId, Vec<TxnId>> = BTreeMap::new();
        for (&txn, view) in &views.of {
            for &member in &view.members {
                holders.entry(member).or_default().push(txn);
            }
        }
        AtSites {
            inner,
            history,
            views,
            must_hold,
            holders,
            held: Pairs::default(),
            missed: Pairs::default(),
            additions: Vec::new(),
        }
    }

    /// Takes note of the final commits that views are known not to hold.
    pub(super) fn miss(&mut self, pairs: impl Iterator<Item = Pair>) {
        self.missed.all.extend(pairs);
    }

    /// Whether a view may hold a final commit as a local one: neither it nor a view that holds it misses that
    /// commit.
    fn may_hold(&self, view: TxnId, txn: TxnId) -> bool {
        let mut holders = self.holders.get(&view).into_iter().flatten();
        !self.missed.contains(view, txn) && !holders.any(|&holder| self.missed.contains(holder, txn))
    }

    /// Whether a view may miss a final commit: neither it nor a member of it holds that commit.
    fn may_miss(&self, view: TxnId, txn: TxnId) -> bool {
        let mut members = self.views.of.get(&view).into_iter().flat_map(|view| &view.members);
        !(self.must_hold)(view, txn)
            && !self.held.contains(view, txn)
            && !members.any(|&member| self.held.contains(member, txn))
    }

    /// Notes who holds and who misses what by an edge; false if that cannot be.
    fn note(&mut self, edge: &Edge) -> bool {
        let (from, to) = (TxnId(edge.from), TxnId(edge.to));
        match edge.kind {
            EdgeKind::AntiDependency if self.views.of.contains_key(&from) => {
                self.missed.add(from, to);
                self.may_miss(from, to)
            }
            EdgeKind::LocalCommit => {
                self.held.add(to, from);
                mutants::is_planted(Mutant::ForgetsHeld) || self.may_hold(to, from)
            }
            _ => true,
        }
    }

    fn forget(&mut self, held: usize, missed: usize) {
        self.held.truncate(held);
        self.missed.truncate(missed);
    }
}

impl<M: Model, H: Fn(TxnId, TxnId) -> bool> Model for AtSites<'_, M, H> {
    fn try_add(&mut self, edges: &[Edge]) -> bool {
        let before = (self.inner.mark(), self.held.added.len(), self.missed.added.len());
        let weaken = |edge: &Edge| match edge.kind {
            EdgeKind::ReadsFrom
                if is_view_of_mate(self.history, self.views, TxnId(edge.to), TxnId(edge.from)) =>
            {
                Edge { kind: EdgeKind::LocalCommit, ..*edge }
            }
            _ => *edge,
        };
        let weakened: Vec<Edge> = edges.iter().map(weaken).collect();
        // Of the site of the view, the edge to its end does not tell: the later transaction may be a local commit.
        let is_impossible = |edge: &Edge| {
            let (writer, view) = (TxnId(edge.from), TxnId(edge.to));
            edge.kind == EdgeKind::LocalCommit && is_impossible_read(self.history, view, writer, edge.key)
        };
        let fits = !weakened.iter().any(is_impossible)
            && weakened.iter().all(|edge| self.note(edge))
            && self.inner.try_add(&weakened);
        if fits {
            self.additions.push(before);
        } else {
            self.forget(before.1, before.2);
        }
        fits
    }

    fn mark(&self) -> usize {
        self.additions.len()
    }

    fn undo(&mut self, mark: usize) {
        if let Some(&(inner, held, missed)) = self.additions.get(mark) {
            self.inner.undo(inner);
            self.forget(held, missed);
            self.additions.truncate(mark);
        }
    }

    fn place(&self, chain: &Chain) -> u32 {
        self.inner.place(chain)
    }

    fn steps(&self) -> u64 {
        self.inner.steps()
    }
}
