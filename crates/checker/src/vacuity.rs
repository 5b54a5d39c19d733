//! How much a history could have shown: commits, conflicts, and conflicts that overlapped in time.

use crate::dependencies::{Dependencies, Edge, EdgeKind, Fate};
use crate::history::{History, TxnId};
use crate::report::Vacuity;

/// Of each side of a tail so many transactions are compared for overlap.
const TAIL_SAMPLE: usize = 8;

/// Counts over the dependencies between adjacent versions.
pub(crate) fn measure(history: &History, dependencies: &Dependencies) -> Vacuity {
    let commits = dependencies.fates.iter().filter(|&&fate| fate == Fate::Committed).count() as u64;
    let mut conflict_edges = 0;
    let mut overlapping_pairs = 0;
    // Edges of one reader or one key stand together, so most repeated pairs are neighbours.
    let mut before: Option<(u32, u32)> = None;
    for edge in &dependencies.edges {
        conflict_edges += u64::from(is_conflict(edge));
        let pair = (edge.from.min(edge.to), edge.from.max(edge.to));
        if before != Some(pair) && overlap(history, TxnId(pair.0), TxnId(pair.1)) {
            overlapping_pairs += 1;
        }
        before = Some(pair);
    }
    for tail in &dependencies.tails {
        let sources = tail.readers.iter().chain(&tail.last).take(TAIL_SAMPLE);
        let has_sources = tail.last.is_some() || !tail.readers.is_empty();
        conflict_edges += if has_sources { (tail.readers.len() + tail.targets.len()) as u64 } else { 0 };
        for source in sources {
            let targets = tail.targets.iter().take(TAIL_SAMPLE).filter(|&target| target != source);
            overlapping_pairs += targets.filter(|&&target| overlap(history, *source, target)).count() as u64;
        }
    }
    Vacuity { commits, conflict_edges, overlapping_pairs }
}

fn is_conflict(edge: &Edge) -> bool {
    matches!(edge.kind, EdgeKind::WriteOrder | EdgeKind::AntiDependency)
}

fn overlap(history: &History, one: TxnId, other: TxnId) -> bool {
    let (one, other) = (history.txn(one), history.txn(other));
    let end = |completion: Option<u32>| completion.unwrap_or(u32::MAX);
    one.invoke < end(other.completion) && other.invoke < end(one.completion)
}
