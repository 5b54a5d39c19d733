//! Judges what clients saw: is a recorded history of transactions consistent with a level, and if not, why?
//!
//! The input is a [`History`], read from JSON lines ([`History::read`]) or recorded in memory ([`Recorder`]).
//! The output is a [`Report`]: a [`Verdict`], the anomalies behind it in words, and whether the history was
//! worth judging.
//!
//! | to | use |
//! |---|---|
//! | read a file | [`History::read`], which refuses malformed input with line and reason ([`ReadError`]) |
//! | record a workload | [`Recorder`]: `invoke`, `attempt`, `ok`, `fail`, `info`; then `into_history` or `write_json` |
//! | judge | [`check`]`(&history, `[`Level`]`)`, in time about linear in the size of the history unless much is left open |
//! | judge server-side facts | [`check_timestamps`], [`check_snapshots`], [`check_vectors`], [`check_speculation`], [`cross_check`], white-box |
//! | print | [`Report`] is `Display` for people and `Serialize` for machines |
//! | explain a verdict | [`explain`]: sentences, a picture, and the smallest part of a history that still fails |
//! | hear a second opinion | [`export`]: the formats of other checkers |
//! | judge tiny histories slowly | [`oracle`], straight from the definitions |
//!
//! How it works: the [`history`] module types the events; dependencies between transactions are derived from
//! values (who wrote what was read, in which order versions followed one another); a level is a statement
//! about cycles in them. All levels are judged. Where the history leaves something open, such as the order of
//! writes that nobody read, a search looks for a way to order it with which the level holds; beyond its bounds
//! the verdict is *unknown* with a reason, which is never a pass.
//!
//! Some levels are judged in another way than their definitions read, and some definitions leave a choice:
//!
//! | level | how it is judged |
//! |---|---|
//! | snapshot isolation | as the absence of a cycle over begins and commits, rather than over transactions |
//! | `psi`, `session-psi` | what satisfies snapshot isolation, or Walter's kind, satisfies these too; only what does not is judged by the definition |
//! | `walter-psi` | one graph per site and an order of the snapshots of each site, rather than a fixpoint over all sites; without sites it is unknown |
//! | `causal` | by the least visibility that explains the reads; lists of one key need not be prefixes of one another |
//! | `spsi` | a transaction has one snapshot, also if it does not commit: its *view*. The `spec` line of a view ends it, so that it holds nobody who was invoked later. A transaction that did not become final has committed locally if it has a `spec` line or the field `lc`, or was lost. Without sites it is unknown |
//!
//! The [`oracle`] takes the definitions as they are, and the tests compare the two.

mod dependencies;
pub mod explain;
pub mod export;
mod graph;
pub mod history;
mod level;
mod levels;
#[cfg(not(feature = "mutants"))]
mod mutants;
#[cfg(feature = "mutants")]
pub mod mutants;
pub mod oracle;
mod report;
mod vacuity;
mod whitebox;

pub use history::{History, Key, MicroOp, Observed, ReadError, RecordedTxn, Recorder, Timestamp};
pub use level::{Level, UnknownLevel};
pub use report::{Anomaly, AnomalyEdge, AnomalyKind, DependencyKind, Report, Vacuity, Verdict};
pub use whitebox::{check_snapshots, check_speculation, check_timestamps, check_vectors, cross_check};

use dependencies::Dependencies;
use report::Anomalies;

/// Judges a history at a level.
///
/// The report is deterministic. Its verdict is [`Verdict::Unknown`] with a reason if the level is about sites
/// and a transaction names none, or if what the history leaves open could not be decided within bounds.
pub fn check(history: &History, level: Level) -> Report {
    let mut anomalies = Anomalies::default();
    let mut of_orders = Anomalies::default();
    // One version order per key is not what causal consistency promises, so it derives its own dependencies.
    let of_level = if level == Level::Causal { &mut of_orders } else { &mut anomalies };
    let dependencies = Dependencies::derive(history, of_level);
    let reason = levels::judge(history, &dependencies, level, &mut anomalies);
    let evidence = vacuity::measure(history, &dependencies);
    Report::new(level.name(), history, anomalies, reason, evidence)
}
