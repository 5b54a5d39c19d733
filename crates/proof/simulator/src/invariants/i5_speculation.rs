//! I5: speculative snapshot isolation, also for what aborted and for what was shown before it was final (STR, section 5).

use quorate_checker::{AnomalyKind, Report};

use super::{BROKEN_MAX, Broken, Finding, Invariant, finding, judged};

/// Snapshots, local and final commits explain every read. Homes tell of all of them, so that there is no excuse for not knowing.
pub fn snapshots_explain_reads(report: &Report) -> Finding {
    match judged(Invariant::Speculation, report) {
        Finding::Unknown(reason) => {
            let unknown = Broken::new(Invariant::Speculation, "unknown", reason);
            finding(vec![Broken { level: report.level, ..unknown }].into_iter().take(BROKEN_MAX).collect())
        }
        known => known,
    }
}

/// The observations of clients fit with speculative snapshot isolation, whatever servers say. Where there are too many ways in which they may have
/// come about, the servers' word is left. So it is for which snapshot a view had (SPSI-1): without timestamps the checker takes it that a snapshot
/// holds all that the transactions of its node before had read, and STR holds a snapshot together by what itself has read (section 6.2).
pub fn speculation_is_sound(report: &Report) -> Finding {
    match judged(Invariant::Speculation, report) {
        Finding::Unknown(_) => Finding::Holds,
        Finding::Broken(broken) => {
            let kept =
                broken.into_iter().filter(|one| one.anomaly != AnomalyKind::SpeculativeSnapshot.name());
            finding(kept.collect())
        }
        Finding::Holds => Finding::Holds,
    }
}
