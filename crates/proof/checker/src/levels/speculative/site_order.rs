//! Edges from the transactions that a site has shown to its later ones (SPSI-1), in a linear number.
//!
//! | | the earlier transaction | the later one | what follows |
//! |---|---|---|---|
//! | final | was acknowledged (`ok`) before the later one was invoked | commits | the earlier one commits before the later one begins |
//! | shown | had a `spec` line, and no `ok`, by then | commits, and touches a key that the earlier one wrote | the same |
//! | shown | the same | commits, and touches no such key | nothing: its snapshot held the earlier one, maybe as a local commit |
//! | both | had either line by then | is a view | the earlier one begins before the view begins |
//!
//! There are chains of auxiliary nodes: one per site for what is final and one for views, and one per site and key
//! for what was shown. The last kind ends where all that has entered a chain has become final.

use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::FixedState;

use crate::dependencies::{Edge, EdgeKind};
use crate::history::{Action, History, KeyId, Op, Outcome, Site, Txn, TxnId};
use crate::levels::speculative::cast::Cast;
use crate::levels::speculative::views::Views;
use crate::mutants::{self, Mutant};

/// The line that acknowledged a final commit to its client.
fn acknowledged_at(txn: &Txn) -> Option<u32> {
    txn.completion.filter(|_| txn.outcome == Outcome::Committed)
}

/// The line that showed a final commit, locally or finally, to its client.
pub(super) fn shown_at(history: &History, txn: TxnId) -> Option<u32> {
    let txn = history.txn(txn);
    txn.speculation.map(|speculation| speculation.index).or(acknowledged_at(txn))
}

/// A line of a transaction that matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    Invoke,
    Spec,
    Ok,
}

/// Adds the edges. New nodes are numbered from `first_node`; returns the number after the last one.
pub(super) fn site_order(
    history: &History,
    cast: &Cast,
    views: &Views,
    first_node: usize,
    edges: &mut Vec<Edge>,
) -> usize {
    let is_view = |txn: TxnId| views.of.contains_key(&txn);
    let mut events: Vec<(u32, TxnId, Line)> = Vec::new();
    for (id, txn) in (0..).map(TxnId).zip(history.txns()) {
        if cast.is_effective(id) || is_view(id) {
            events.push((txn.invoke, id, Line::Invoke));
        }
        if cast.is_effective(id) {
            events.extend(txn.speculation.map(|speculation| (speculation.index, id, Line::Spec)));
            events.extend(acknowledged_at(txn).map(|ok| (ok, id, Line::Ok)));
        }
    }
    events.sort_unstable();
    let mut nodes = Nodes { next: first_node as u32, edges };
    let mut finals: Chains<Option<Site>> = Chains::new(EdgeKind::SiteOrder);
    let mut shown: Chains<(Option<Site>, KeyId)> = Chains::new(EdgeKind::Shown);
    // Of the transactions in each of these chains so many are not known to be final.
    let mut open: HashMap<(Option<Site>, KeyId), u32, FixedState> = HashMap::default();
    let mut locals: Chains<Option<Site>> = Chains::new(EdgeKind::LocalCommit);
    for (_, id, line) in events {
        let txn = history.txn(id);
        let (site, ops) = (txn.site, history.ops(txn));
        match line {
            Line::Invoke if is_view(id) => locals.lead_to(site, id, &mut nodes),
            Line::Invoke => {
                finals.lead_to(site, id, &mut nodes);
                if !shown.is_empty() {
                    for key in keys(ops, Op::is_certain) {
                        shown.lead_to((site, key), id, &mut nodes);
                    }
                }
            }
            Line::Spec => {
                locals.extend(site, id, KeyId(0), &mut nodes);
                if mutants::is_planted(Mutant::TakesShownForFinal) {
                    finals.extend(site, id, KeyId(0), &mut nodes);
                }
                for key in keys(ops, is_update) {
                    shown.extend((site, key), id, key, &mut nodes);
                    *open.entry((site, key)).or_default() += 1;
                }
            }
            Line::Ok => {
                finals.extend(site, id, KeyId(0), &mut nodes);
                if txn.speculation.is_none() {
                    locals.extend(site, id, KeyId(0), &mut nodes);
                    continue;
                }
                // A final commit does not need two ways to its successors.
                for group in keys(ops, is_update).into_iter().map(|key| (site, key)) {
                    let count = open.entry(group).or_default();
                    *count -= 1;
                    if *count == 0 {
                        open.remove(&group);
                        shown.end(&group);
                    }
                }
            }
        }
    }
    nodes.next as usize
}

fn is_update(op: &Op) -> bool {
    !matches!(op.action, Action::Read(_))
}

/// The keys of some of the operations, each once.
fn keys(ops: &[Op], is_meant: impl Fn(&Op) -> bool) -> Vec<KeyId> {
    let mut keys: Vec<KeyId> = ops.iter().filter(|op| is_meant(op)).map(|op| op.key).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// The auxiliary nodes that were made so far, and their edges.
struct Nodes<'a> {
    next: u32,
    edges: &'a mut Vec<Edge>,
}

/// Chains of auxiliary nodes, one per group. Every node that enters a chain leads to all that leave it later.
struct Chains<G> {
    kind: EdgeKind,
    /// The last node of each chain.
    last: HashMap<G, u32, FixedState>,
}

impl<G: Eq + Hash> Chains<G> {
    /// Empty chains that are entered by edges of this kind.
    fn new(kind: EdgeKind) -> Self {
        Chains { kind, last: HashMap::default() }
    }

    fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    /// A transaction enters a chain at its end.
    fn extend(&mut self, group: G, txn: TxnId, key: KeyId, nodes: &mut Nodes<'_>) {
        let node = nodes.next;
        nodes.next += 1;
        let before = self.last.insert(group, node);
        nodes.edges.extend(before.map(|before| onward(before, node)));
        nodes.edges.push(Edge { from: txn.0, to: node, key, kind: self.kind });
    }

    /// A chain leads to nobody any more; the next transaction of its group begins another one.
    fn end(&mut self, group: &G) {
        self.last.remove(group);
    }

    /// All that has entered a chain leads to a transaction.
    fn lead_to(&mut self, group: G, txn: TxnId, nodes: &mut Nodes<'_>) {
        nodes.edges.extend(self.last.get(&group).map(|&node| onward(node, txn.0)));
    }
}

fn onward(from: u32, to: u32) -> Edge {
    Edge { from, to, key: KeyId(0), kind: EdgeKind::Onward }
}
