//! Snapshots and commits that servers tell of must explain what clients saw.

mod facts;
mod snapshots;
mod speculation;
mod vectors;

use quorate_checker::Report;

/// The only anomaly, in words.
fn complaint(report: &Report) -> String {
    assert_eq!(report.verdict.name(), "invalid", "{report}");
    assert_eq!(report.anomalies.len(), 1, "{report}");
    report.anomalies[0].why.clone()
}

/// Why the verdict is unknown.
fn doubt(report: &Report) -> String {
    assert_eq!(report.verdict.name(), "unknown", "{report}");
    report.reason.clone().unwrap_or_default()
}
