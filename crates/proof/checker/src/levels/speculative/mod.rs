//! Speculative snapshot isolation: SPSI-1 to SPSI-4 of the STR paper, section 5.
//!
//! A transaction has one snapshot: a prefix of the final commits and, if it does not commit itself, local commits of its own
//! node (its site). A member of a snapshot brings its own snapshot along, so that every snapshot is that of a history under
//! snapshot isolation.
//!
//! | | what is judged | where |
//! |---|---|---|
//! | SI | the final commits are under snapshot isolation, and a `spec` line of a final commit shows its final reads | [`snapshots`], [`cast`] |
//! | SPSI-1 | what committed finally at a node, so that a client knew, before a transaction began there is in its snapshot as a final commit | [`site_order`] |
//! | SPSI-1 | what a node had only shown by then is in its snapshot too, unless it aborts: for one that commits, as a final commit if it touches a key that the other one wrote | [`site_order`] |
//! | SPSI-1 | what an aborted transaction observed, and what a `spec` line shows, is what one snapshot holds | [`views`], [`snapshots`] |
//! | SPSI-1 | what a transaction read, or a `spec` line shows, was not written by a transaction that was invoked after it had ended | [`ends`] |
//! | SPSI-3 | of two members of a snapshot that write one key, one is in the snapshot of the other | [`members`] |
//! | SPSI-4 | a final commit reads from final commits, and what it flow-depends on commits | [`cast`] |
//!
//! How: the reads of a transaction that does not commit are a *view*. Its local members are taken off, and
//! what remains is judged as the reads of a transaction that commits and writes nothing. A transaction has
//! committed locally if a `spec` line, or the server-side field `lc`, says so, or if it was lost or committed.
//!
//! Where the history leaves open which of two local commits saw the other, whether a transaction of unknown
//! outcome committed, or whose updates a count saw, all possibilities are tried, up to a bound.

mod cast;
mod ends;
mod members;
mod model;
mod possibilities;
mod shapes;
mod site_order;
mod snapshots;
mod views;

use crate::dependencies::Dependencies;
use crate::explain::Words;
use crate::history::{History, TxnId};
use crate::report::Anomalies;
use cast::Cast;
use possibilities::Possibilities;

/// So many combinations of possibilities are tried,
const ATTEMPTS_MAX: usize = 512;
/// of a large history only as many as look at so many transactions together,
const TXNS_TRIED_MAX: usize = 10_000_000;
/// but at least so many.
const ATTEMPTS_MIN: usize = 8;

/// Looks for violations and adds them to `anomalies`. Returns a reason if the question stays open.
pub(crate) fn judge(
    history: &History,
    dependencies: &Dependencies,
    anomalies: &mut Anomalies,
) -> Option<String> {
    let without_site = (0..).map(TxnId).zip(history.txns()).find(|(_, txn)| txn.site.is_none());
    if let Some((txn, _)) = without_site {
        let txn = Words::new(history).txn(txn);
        return Some(format!("{txn} names no site, and this level is about the nodes of transactions."));
    }
    if !anomalies.is_empty() {
        return None;
    }
    // A fault among transactions that surely committed is a fault whatever became of the others.
    let certain = Cast::certain(history);
    let open = snapshots::judge_commits(history, dependencies, &certain, anomalies);
    if !anomalies.is_empty() || open.is_some() {
        return open;
    }
    let attempts_max = (TXNS_TRIED_MAX / history.txn_count()).clamp(ATTEMPTS_MIN, ATTEMPTS_MAX);
    let mut first = None;
    let mut reason = None;
    let mut possibilities = Possibilities::default();
    for _ in 0..attempts_max {
        let mut found = Anomalies::default();
        let open = attempt(history, dependencies, &mut possibilities, &mut found);
        if found.is_empty() && open.is_none() {
            return None;
        }
        reason = reason.or(open.filter(|_| found.is_empty()));
        first.get_or_insert(found);
        if !possibilities.advance() {
            if reason.is_none() {
                *anomalies = first.unwrap_or_default();
            }
            return reason;
        }
    }
    Some(
        "There are too many ways in which local commits may have seen one another to try them all."
            .to_string(),
    )
}

/// Judges one combination of possibilities.
fn attempt(
    history: &History,
    dependencies: &Dependencies,
    possibilities: &mut Possibilities,
    anomalies: &mut Anomalies,
) -> Option<String> {
    let cast = Cast::decide(history, possibilities, anomalies);
    if !anomalies.is_empty() {
        return None;
    }
    if !cast.has_views(history) && !cast.departs_from(&dependencies.fates) {
        return snapshots::judge_commits(history, dependencies, &cast, anomalies);
    }
    let mut views = views::collect(history, &cast, anomalies);
    members::complete(history, &cast, &mut views, possibilities, anomalies);
    if let Some(reason) = views.settle_doubt(anomalies) {
        return Some(reason);
    }
    if !anomalies.is_empty() {
        return None;
    }
    snapshots::judge(history, &cast, &mut views, possibilities, anomalies)
}
