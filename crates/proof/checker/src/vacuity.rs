//! How much a history could have shown: commits, conflicts, and conflicts that overlapped in time.

use crate::dependencies::{Dependencies, Edge, EdgeKind, Fate};
use crate::history::{History, Txn, TxnId};
use crate::report::Vacuity;

/// Of each side of a tail so many transactions are compared for overlap.
const TAIL_SAMPLE: usize = 8;

/// Counts over the dependencies between adjacent versions.
pub(crate) fn measure(history: &History, dependencies: &Dependencies) -> Vacuity {
    let commits = dependencies.fates.iter().filter(|&&fate| fate == Fate::Committed).count() as u64;
    let mut conflict_edges = dependencies.edges.iter().filter(|edge| is_conflict(edge)).count() as u64;
    let mut pairs = Vec::new();
    let mut add_pair = |one: TxnId, other: TxnId| {
        if one != other && overlap(history, one, other) {
            pairs.push((one.min(other), one.max(other)));
        }
    };
    for edge in &dependencies.edges {
        add_pair(TxnId(edge.from), TxnId(edge.to));
    }
    for tail in &dependencies.tails {
        let follows = |reader: &&TxnId| tail.targets.iter().any(|target| target != *reader);
        let readers = tail.readers.iter().filter(follows).count();
        let writers = if tail.last.is_some() { tail.targets.len() } else { 0 };
        conflict_edges += (readers + writers) as u64;
        for &source in tail.last.iter().chain(&tail.readers).take(TAIL_SAMPLE) {
            tail.targets.iter().take(TAIL_SAMPLE).for_each(|&target| add_pair(source, target));
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    Vacuity { commits, conflict_edges, overlapping_pairs: pairs.len() as u64 }
}

fn is_conflict(edge: &Edge) -> bool {
    matches!(edge.kind, EdgeKind::WriteOrder | EdgeKind::AntiDependency)
}

fn overlap(history: &History, one: TxnId, other: TxnId) -> bool {
    let (one, other) = (history.txn(one), history.txn(other));
    let end = |txn: &Txn| txn.known_completion().unwrap_or(u32::MAX);
    one.invoke < end(other) && other.invoke < end(one)
}
