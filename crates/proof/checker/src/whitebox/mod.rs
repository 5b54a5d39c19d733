//! White-box checks: what servers say about snapshots and commits must explain what clients saw.
//!
//! The black-box levels ask whether *some* order of transactions explains the reads. Servers know *the* order,
//! and with it a check needs no search and finds a wrong order even where no client could tell. Each function
//! here judges one kind of facts (see [`Facts`](crate::history::Facts) for the fields) and returns a report
//! whose verdict is unknown, with the reason, where a committed transaction lacks them.
//!
//! | check | facts | what it asserts |
//! |---|---|---|
//! | [`check_timestamps`] | `ts` | running one transaction after another in the order of timestamps explains every read |
//! | [`check_snapshots`] | `rs`, `ts` or `fc` | every read sees exactly the versions that were committed at or below its snapshot; no two writers of a key overlap |
//! | [`check_vectors`] | `vts`, `site_seq` | the same per site: every read sees exactly the commits that its vector counts |
//! | [`check_speculation`] | `rs`, `lc`, `fc` | the committed part passes [`check_snapshots`]; speculative views hold final commits and local ones of their own site; snapshots hold what their site has shown |
//! | [`cross_check`] | any | the version order that the servers tell is the one that the lists show |

mod cross;
mod replay;
mod snapshots;
mod speculation;
mod timestamps;
mod vectors;

pub use cross::cross_check;
pub use snapshots::check_snapshots;
pub use speculation::check_speculation;
pub use timestamps::check_timestamps;
pub use vectors::check_vectors;

use crate::dependencies::{Fate, WriteIndex, decide_fates_by_values};
use crate::explain::Words;
use crate::history::{History, Timestamp, Txn, TxnId};
use crate::report::{Anomalies, Report, Vacuity};

/// The name of a check that is not one of its level.
const NOT_OF_THE_FAMILY: &str = "Snapshots of this kind say nothing about the level";

/// As the values of lists and registers say; and what has a place in the sequence of its site, or a final commit, has committed, whether or not
/// its client has heard so.
fn fates(history: &History) -> Vec<Fate> {
    let mut fates = decide_fates_by_values(history, &WriteIndex::new(history));
    for (fate, txn) in fates.iter_mut().zip(history.txns()) {
        let has_place =
            || history.facts(txn).is_some_and(|facts| facts.site_seq.is_some() || facts.fc.is_some());
        if *fate == Fate::Dropped && has_place() {
            *fate = Fate::Observed;
        }
    }
    fates
}

/// The transactions whose effects exist.
fn effective<'a>(history: &'a History, fates: &'a [Fate]) -> impl Iterator<Item = (TxnId, &'a Txn)> {
    let all = (0..).map(TxnId).zip(history.txns()).zip(fates);
    all.filter(|(_, fate)| fate.is_effective()).map(|(txn, _)| txn)
}

/// Why the check cannot decide: the first effective transaction of which `fact` is not known.
fn missing_fact<T>(
    history: &History,
    fates: &[Fate],
    name: &str,
    fact: impl Fn(&Txn) -> Option<T>,
) -> Option<String> {
    let (txn, _) = effective(history, fates).find(|(_, txn)| fact(txn).is_none())?;
    Some(format!("{} committed without {name}.", Words::new(history).txn(txn)))
}

fn is_update(history: &History, txn: &Txn) -> bool {
    history.ops(txn).iter().any(|op| !matches!(op.action, crate::history::Action::Read(_)))
}

fn report(
    check: &'static str,
    history: &History,
    fates: &[Fate],
    anomalies: Anomalies,
    reason: Option<String>,
) -> Report {
    let commits = fates.iter().filter(|&&fate| fate == Fate::Committed).count() as u64;
    Report::new(check, history, anomalies, reason, Vacuity { commits, ..Vacuity::default() })
}

fn spell(ts: Timestamp) -> String {
    if ts.client == 0 { ts.time.to_string() } else { format!("[{}, {}]", ts.time, ts.client) }
}
