//! Real-time and session order in a linear number of edges.
//!
//! Pairwise, n transactions have up to n² such edges. Instead, a chain of barrier nodes follows the
//! completions: a completed transaction leads to the barrier that is open, an invocation closes it and hangs
//! from it, and each barrier leads to the next. One transaction then reaches another through the chain
//! exactly if it completed before the other was invoked. Sessions and sites have a chain each. A transaction of unknown
//! outcome has no completion: it may take effect at any later time.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use crate::dependencies::{Edge, EdgeKind, Fate};
use crate::history::{History, KeyId, Session, Site, Txn};
use crate::level::Precedence;
use crate::mutants::{self, Mutant};

/// A chain of barriers.
#[derive(Debug, Clone, Copy, Default)]
struct Chain {
    /// The barrier that gathers completions since the last invocation.
    open: Option<u32>,
    /// The barrier that later invocations hang from.
    closed: Option<u32>,
}

/// Transactions that have a chain together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Group {
    All,
    Session(Session),
    Site(Option<Site>),
}

/// Adds the edges of `precedence` between effective transactions. New nodes are numbered from `node_count`;
/// returns the number of nodes afterwards.
pub(crate) fn add_precedence(
    history: &History,
    fates: &[Fate],
    precedence: Precedence,
    node_count: usize,
    edges: &mut Vec<Edge>,
) -> usize {
    let (kind, group): (EdgeKind, fn(&Txn) -> Group) = match precedence {
        Precedence::None => return node_count,
        Precedence::Session if mutants::is_planted(Mutant::SessionsAreProcesses) => {
            (EdgeKind::SessionOrder, |txn| Group::Session(Session::Process(txn.process)))
        }
        Precedence::Session => (EdgeKind::SessionOrder, |txn| Group::Session(txn.session)),
        Precedence::Site => (EdgeKind::SiteOrder, |txn| Group::Site(txn.site)),
        Precedence::RealTime => (EdgeKind::RealTime, |_| Group::All),
    };
    let source = |txn: &Txn| Some(group(txn));
    add_barriers(history, fates, kind, node_count, source, group, edges)
}

/// Adds real time from the transactions that `is_source` accepts to all others, as [`add_precedence`].
pub(crate) fn add_real_time_from(
    history: &History,
    fates: &[Fate],
    is_source: impl Fn(&Txn) -> bool,
    node_count: usize,
    edges: &mut Vec<Edge>,
) -> usize {
    let source = |txn: &Txn| is_source(txn).then_some(Group::All);
    add_barriers(history, fates, EdgeKind::RealTime, node_count, source, |_| Group::All, edges)
}

fn add_barriers(
    history: &History,
    fates: &[Fate],
    kind: EdgeKind,
    node_count: usize,
    source: impl Fn(&Txn) -> Option<Group>,
    target: impl Fn(&Txn) -> Group,
    edges: &mut Vec<Edge>,
) -> usize {
    let mut chains: HashMap<Group, Chain, FixedState> = HashMap::default();
    let mut next_node = node_count as u32;
    let edge = |from, to, kind| Edge { from, to, key: KeyId(0), kind };
    for event in timeline(history, fates) {
        let txn = &history.txns()[event.txn as usize];
        if event.is_invocation {
            let chain = chains.entry(target(txn)).or_default();
            if let Some(open) = chain.open.take() {
                let linked = chain.closed.filter(|_| !mutants::is_planted(Mutant::ForgetsBarriers));
                edges.extend(linked.map(|closed| edge(closed, open, EdgeKind::Onward)));
                chain.closed = Some(open);
            }
            edges.extend(chain.closed.map(|closed| edge(closed, event.txn, EdgeKind::Onward)));
        } else if let Some(group) = source(txn) {
            let chain = chains.entry(group).or_default();
            let open = *chain.open.get_or_insert_with(|| {
                next_node += 1;
                next_node - 1
            });
            edges.push(edge(event.txn, open, kind));
        }
    }
    next_node as usize
}

#[derive(Debug, Clone, Copy)]
struct TimelineEvent {
    txn: u32,
    is_invocation: bool,
}

/// Invocations of effective transactions and completions of committed ones, in the order of the history.
fn timeline(history: &History, fates: &[Fate]) -> Vec<TimelineEvent> {
    const NONE: TimelineEvent = TimelineEvent { txn: u32::MAX, is_invocation: false };
    let mut events = vec![NONE; history.event_count() as usize];
    for ((txn, record), fate) in (0..).zip(history.txns()).zip(fates) {
        if fate.is_effective() {
            events[record.invoke as usize] = TimelineEvent { txn, is_invocation: true };
        }
        let has_completed = *fate == Fate::Committed
            || *fate == Fate::Observed && mutants::is_planted(Mutant::EndsUnknownOutcomes);
        if let (true, Some(completion)) = (has_completed, record.completion) {
            events[completion as usize] = TimelineEvent { txn, is_invocation: false };
        }
    }
    events.retain(|event| event.txn != u32::MAX);
    events
}
