//! The search for an arbitration order and a visibility relation that satisfy the axioms of a level.

use std::collections::HashSet;

use foldhash::fast::FixedState;

use crate::history::{History, Outcome};
use crate::level::Level;

use super::axioms::{self, Axiom, Execution, Next};
use super::members::{Fate, members};
use super::{Set, VISIBILITY_TXNS_MAX, contains, each, single};

/// Looks for an execution; none if there are too many transactions, or one of them has no site although the
/// level is about sites.
pub(super) fn exists(history: &History, level: Level, fates: &[Fate]) -> Option<bool> {
    let axioms = axioms::of_level(level)?;
    let members = members(history, fates);
    let is_about_sites = level == Level::WalterPsi;
    let lacks_site = history.txns().iter().any(|txn| txn.outcome != Outcome::Aborted && txn.site.is_none());
    if members.len() > VISIBILITY_TXNS_MAX || is_about_sites && lacks_site {
        return None;
    }
    let visible = vec![0; members.len()];
    let execution = Execution { history, members, order: Vec::new(), visible };
    // Only the chain of snapshots of a site can ask somebody to see more than it needs.
    let snapshots_are_prefixes = matches!(level, Level::StrongSi | Level::SessionSi | Level::Si);
    let mut search = Search {
        execution,
        axioms,
        minimal: !is_about_sites,
        order_matters: snapshots_are_prefixes,
        refuted: HashSet::default(),
    };
    Some(search.extends(0))
}

struct Search<'a> {
    execution: Execution<'a>,
    axioms: &'static [Axiom],
    /// Try only the smallest sets that a transaction can see. If an execution satisfies SESSION, TRANSVIS, PREFIX,
    /// NOCONFLICT, INT and EXT, it still does so after a transaction's set was replaced by a smaller one that does: a
    /// transaction that sees it has less to see.
    minimal: bool,
    /// The arbitration order decides more than what reads return of a key: PREFIX speaks of all of it.
    order_matters: bool,
    /// Partial executions that cannot be completed.
    refuted: HashSet<Vec<u16>, FixedState>,
}

impl Search<'_> {
    /// Whether the members that are not placed yet can be placed after those that are.
    fn extends(&mut self, placed: Set) -> bool {
        let rest: Vec<usize> =
            (0..self.execution.members.len()).filter(|&at| !contains(placed, at)).collect();
        if rest.iter().all(|&at| self.execution.members[at].is_optional) {
            return true;
        }
        let state = self.state(placed);
        if self.refuted.contains(&state) {
            return false;
        }
        for member in rest {
            let mut smallest: Vec<Set> = Vec::new();
            for visible in subsets(placed) {
                let next = Next { member, visible };
                let is_larger = self.minimal && smallest.iter().any(|small| small & visible == *small);
                if is_larger || !self.axioms.iter().all(|axiom| axiom(&self.execution, next)) {
                    continue;
                }
                smallest.push(visible);
                self.execution.order.push(member);
                self.execution.visible[member] = visible;
                if self.extends(placed | single(member)) {
                    return true;
                }
                self.execution.visible[member] = 0;
                self.execution.order.pop();
            }
        }
        self.refuted.insert(state);
        false
    }

    /// The state of a partial execution, as far as later transactions can tell: which are placed, which saw which, and in
    /// which order the writers of each key stand; or the whole order where it matters.
    fn state(&self, placed: Set) -> Vec<u16> {
        if self.order_matters {
            return self.execution.order.iter().map(|&at| at as u16).collect();
        }
        let mut state = vec![placed];
        state.extend(each(placed).map(|at| self.execution.visible[at]));
        for (position, &one) in self.execution.order.iter().enumerate() {
            let writes = self.execution.members[one].writes;
            let later = self.execution.order[position + 1..].iter();
            let conflicting = later.filter(|&&at| self.execution.members[at].writes & writes != 0);
            let followers = conflicting.fold(0, |followers, &at| followers | single(at));
            if followers != 0 {
                state.extend([single(one), followers]);
            }
        }
        // The pairs stand in arbitration order; sorted, they do not depend on it.
        let pairs_start = 1 + placed.count_ones() as usize;
        let mut pairs: Vec<[u16; 2]> =
            state[pairs_start..].chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
        pairs.sort_unstable();
        state.truncate(pairs_start);
        state.extend(pairs.concat());
        state
    }
}

/// The subsets of a set, smaller ones first.
pub(super) fn subsets(set: Set) -> Vec<Set> {
    let mut subsets = vec![0];
    for at in each(set) {
        for with in 0..subsets.len() {
            subsets.push(subsets[with] | single(at));
        }
    }
    subsets.sort_by_key(|subset| subset.count_ones());
    subsets
}
