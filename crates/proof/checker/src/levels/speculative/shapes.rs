//! The history in which every view is a transaction of its own: what is left of its reads once its local
//! members are taken off.

use std::collections::BTreeSet;

use crate::dependencies::{Fate, SetRead, SetUpdates, Update, is_reachable};
use crate::history::{History, Op, Outcome, Reshaped, ReshapedOp, TxnId};
use crate::levels::speculative::cast::Cast;
use crate::levels::speculative::members::written_keys;
use crate::levels::speculative::possibilities::Possibilities;
use crate::levels::speculative::views::Views;

/// Of so many local commits that may have contributed to a count all combinations are tried.
const COMBINED_MAX: usize = 8;

/// Adds the local commits without which final ones do not explain a count.
pub(super) fn count_members(
    history: &History,
    cast: &Cast,
    views: &mut Views,
    possibilities: &mut Possibilities,
) {
    let updates = SetUpdates::new(history, |_| true);
    let mut found = Vec::new();
    for (&txn, view) in &views.of {
        let mut members = view.members.clone();
        for SetRead { key, counts } in &view.sets {
            for (element, of_element) in updates.elements(*key) {
                let others = || of_element.iter().filter(|update| update.txn != txn);
                let finals =
                    others().filter(|update| cast.is_effective(update.txn)).map(|update| update.change);
                let count = counts.get(&element).copied().unwrap_or(0);
                let count = count - contribution(of_element, &members);
                let open: Vec<Update> = others()
                    .filter(|update| !members.contains(&update.txn))
                    .filter(|update| cast.may_be_seen(history, txn, update.txn))
                    .copied()
                    .take(COMBINED_MAX)
                    .collect();
                let fitting: Vec<u32> = (0..1_u32 << open.len())
                    .filter(|set| {
                        let chosen = (0..).zip(&open).filter(|(at, _)| set >> at & 1 == 1);
                        is_reachable(
                            finals.clone(),
                            count - chosen.map(|(_, update)| update.change).sum::<i64>(),
                        )
                    })
                    .collect();
                let mut fitting = fitting.into_iter().peekable();
                let mut chosen = fitting.next().unwrap_or(0);
                while fitting.peek().is_some() && possibilities.ask() {
                    chosen = fitting.next().unwrap_or(chosen);
                }
                members.extend(
                    (0..).zip(&open).filter(|(at, _)| chosen >> at & 1 == 1).map(|(_, update)| update.txn),
                );
            }
        }
        found.push((txn, members));
    }
    for (txn, members) in found {
        let Some(view) = views.of.get_mut(&txn) else { continue };
        let mut added = members.difference(&view.members);
        views.is_doubtful |= added.any(|&member| may_have_survivor(history, cast, member));
        view.members = members;
    }
}

/// Whether a final commit may have written a key after a local commit that it had in its snapshot, and that aborts.
fn may_have_survivor(history: &History, cast: &Cast, local: TxnId) -> bool {
    let keys = written_keys(history, local);
    let mut writes = keys.into_iter().flat_map(|key| cast.writes.of_key(key));
    writes.any(|write| cast.may_survive(history, write.txn, local))
}

fn contribution(updates: &[Update], members: &BTreeSet<TxnId>) -> i64 {
    updates.iter().filter(|update| members.contains(&update.txn)).map(|update| update.change).sum()
}

/// The history in which every view is a transaction that committed and wrote nothing, and in which final commits of unknown
/// outcome have read what they showed. The writes of views come behind, aborted.
pub(super) fn shapes(history: &History, cast: &Cast, views: &Views) -> Vec<Reshaped> {
    let updates = SetUpdates::new(history, |_| true);
    let same = |ops: &[Op]| ops.iter().copied().map(ReshapedOp::Same).collect::<Vec<_>>();
    let mut shapes = Vec::new();
    for (id, txn) in (0..).map(TxnId).zip(history.txns()) {
        let (outcome, ops) = match (cast.fates[id.index()], views.of.get(&id)) {
            (Fate::Observed, _) if cast.counted_only[id.index()] => {
                (Outcome::Unknown, same(history.ops(txn)))
            }
            (Fate::Observed, _) => {
                let shown = txn.speculation.map(|speculation| history.speculated_ops(&speculation));
                (Outcome::Committed, same(shown.unwrap_or(history.ops(txn))))
            }
            (Fate::Committed, _) => (Outcome::Committed, same(history.ops(txn))),
            (_, Some(view)) => {
                let mut ops: Vec<ReshapedOp> =
                    view.bases.iter().map(|(&key, base)| base.as_read(key)).collect();
                for SetRead { key, counts } in &view.sets {
                    let mut counts = counts.clone();
                    for (element, of_element) in updates.elements(*key) {
                        *counts.entry(element).or_default() -= contribution(of_element, &view.members);
                    }
                    counts.retain(|_, count| *count != 0);
                    ops.push(ReshapedOp::Set(*key, counts));
                }
                (Outcome::Committed, ops)
            }
            (_, None) => (Outcome::Aborted, same(history.ops(txn))),
        };
        shapes.push(Reshaped { txn: id, outcome, ops });
    }
    for &txn in views.of.keys() {
        shapes.push(Reshaped { txn, outcome: Outcome::Aborted, ops: same(history.ops(history.txn(txn))) });
    }
    shapes
}
