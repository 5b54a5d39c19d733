//! A transaction reads nothing that was written by another one which was invoked after it had ended (SPSI-1).
//!
//! With skewed clocks, a transaction may get a final timestamp below a snapshot that was read before the transaction
//! began. That does no harm as long as no transaction read any of the written keys by that snapshot. So only those keys matter: there is a
//! chain of auxiliary nodes per key, which leads from the begins of the transactions that read the key to the commits of later ones that
//! write it. A view may have read a local commit of its own site, of which that says nothing; [`impossible_reads`] looks at such reads one
//! by one.

use std::collections::{BTreeSet, HashMap};

use foldhash::fast::FixedState;

use crate::dependencies::{Edge, EdgeKind};
use crate::explain::Words;
use crate::history::{Action, History, KeyId, Op, TxnId};
use crate::levels::speculative::cast::{Cast, began_later, end_of, external_reads, view_ops};
use crate::levels::speculative::views::Views;
use crate::mutants::{self, Mutant};
use crate::report::{Anomalies, AnomalyKind};

/// Whether a view would have read a key of a transaction that was invoked only after the view had ended.
pub(super) fn is_impossible_read(history: &History, view: TxnId, writer: TxnId, key: KeyId) -> bool {
    !mutants::is_planted(Mutant::ReadsTheFuture)
        && began_later(history, view, writer)
        && read_keys(history, view).contains(&key)
}

/// Adds the edges from views and final commits to the commits of later transactions that write keys which they read; the commit of
/// the first transaction is the node `first_commit`. New nodes are numbered from `first_node`; returns the number after
/// the last one.
pub(super) fn ends(
    history: &History,
    cast: &Cast,
    views: &Views,
    first_commit: usize,
    first_node: usize,
    edges: &mut Vec<Edge>,
) -> usize {
    if mutants::is_planted(Mutant::ReadsTheFuture) {
        return first_node;
    }
    let mut events: Vec<(u32, TxnId, Event)> = Vec::new();
    for id in (0..history.txn_count() as u32).map(TxnId) {
        let txn = history.txn(id);
        let is_effective = cast.is_effective(id);
        if is_effective {
            events.push((txn.invoke, id, Event::Invoke));
        }
        if is_effective || views.of.contains_key(&id) {
            events.extend(end_of(txn).map(|end| (end, id, Event::End)));
        }
    }
    events.sort_unstable();
    // The last node of the chain of each key.
    let mut last: HashMap<KeyId, u32, FixedState> = HashMap::default();
    let mut next_node = first_node as u32;
    for (_, id, event) in events {
        match event {
            Event::Invoke => {
                let commit = id.0 + first_commit as u32;
                let onward = |key| last.get(&chain_of(key)).map(|&node| onward(node, commit));
                edges.extend(changed_keys(history, id).into_iter().filter_map(onward));
            }
            Event::End => {
                for key in read_keys(history, id) {
                    let before = last.insert(chain_of(key), next_node);
                    edges.extend(before.map(|before| onward(before, next_node)));
                    edges.push(Edge { from: id.0, to: next_node, key, kind: EdgeKind::Ended });
                    next_node += 1;
                }
            }
        }
    }
    next_node as usize
}

/// A line of a transaction that matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Invoke,
    End,
}

/// The key that a chain is about.
fn chain_of(key: KeyId) -> KeyId {
    if mutants::is_planted(Mutant::EndsWholeSnapshots) { KeyId(0) } else { key }
}

fn onward(from: u32, to: u32) -> Edge {
    Edge { from, to, key: KeyId(0), kind: EdgeKind::Onward }
}

/// The keys of which a transaction, or its `spec` line, shows what others wrote.
fn read_keys(history: &History, view: TxnId) -> BTreeSet<KeyId> {
    view_ops(history, history.txn(view)).flat_map(external_reads).collect()
}

fn changed_keys(history: &History, txn: TxnId) -> BTreeSet<KeyId> {
    let is_update = |op: &&Op| !matches!(op.action, Action::Read(_));
    history.ops(history.txn(txn)).iter().filter(is_update).map(|op| op.key).collect()
}

/// Adds the views that are known to have read from a later transaction of their own site: the edges of local commits
/// lead from that one to the view.
pub(super) fn impossible_reads(history: &History, edges: &[Edge], anomalies: &mut Anomalies) {
    for edge in edges.iter().filter(|edge| edge.kind == EdgeKind::LocalCommit) {
        let (view, writer) = (TxnId(edge.to), TxnId(edge.from));
        if is_impossible_read(history, view, writer, edge.key) {
            anomalies.add(history, AnomalyKind::SpeculativeSnapshot, &[view, writer], || {
                let words = Words::new(history);
                let (view, writer, key) = (words.txn(view), words.txn(writer), history.key(edge.key));
                format!("{view} read {key} from {writer}, which was invoked after {view} had ended.")
            });
        }
    }
}
