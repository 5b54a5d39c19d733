//! The properties that must hold, one per file.
//!
//! | id | property | evidence |
//! |---|---|---|
//! | I1 | the isolation level holds on what clients saw | the history |
//! | I1 | the consistency conditions of TPC-C hold, where that runs beside the workload | what the replicas hold at the end |
//! | I1 | friendship is mutual, and every id in a set has its object (where the workload is a social network over sets) | what committed transactions read |
//! | I1 | no counter is below zero (where there are counters that may not) | what committed transactions read |
//! | I2 | commit timestamps explain every read, and order versions as lists do | the history with timestamps |
//! | I2 | snapshots and places at local sites explain every read (where transactions have them) | the history with both |
//! | I2 | the timestamps of no group run ahead of right clocks (where leaders choose them) | the replicas while it runs |
//! | I3 | acknowledged appends survive, exactly once | what the auditor read at the end |
//! | I3 | acknowledged puts survive, or later ones of the same keys (where histories are promised nothing) | what the replicas hold at the end |
//! | I4 | replicas agree on outcomes and on data | the replicas after a last view change |
//! | I4 | replicas run everything in one order (where a bug is planted; else it stops them) | the replicas while it runs |
//! | I4 | what one machine does fits what others have done (the witnesses of the protocols) | the replicas after each of their steps |
//! | I5 | what transactions saw that were shown, or aborted, is what one snapshot of their node held | the history, with and without local and final commits |
//! | I6 | once faults end, every transaction ends and nothing stays prepared | clients and replicas |
//! | I6 | a leader whose clock is off hands over (where nothing else goes wrong) | the replicas while it runs |
//! | I7 | no machine panics, and nothing is read that nobody wrote | the run itself |
//! | I7 | nothing of a client is taken once no node knows of its right (where clients need rights) | what clients are told and replicas hold |
//! | I7 | what has ended is forgotten | the replicas and their disks, after a rest |
//! | I8 | the same seed gives the same execution | the hash of a second run |
//! | I9 | consumers of changes are told what has committed, each transaction once and in order (where there are some) | what they were told, what replicas retain, and the history |

mod i1_isolation;
mod i2_timestamps;
mod i3_durability;
mod i4_agreement;
mod i5_speculation;
mod i6_liveness;
mod i7_memory;
mod i7_sanity;
mod i8_determinism;
mod i9_changes;
mod i9_changes_of_sites;

pub use i1_isolation::{conditions_hold, isolation_holds, promises_of_the_workload_hold, shows_too_little};
pub use i2_timestamps::{
    timestamps_explain_reads, timestamps_follow_clocks, timestamps_order_versions, vectors_explain_reads,
};
pub use i3_durability::{AcknowledgedPut, acknowledged_appends_survive, acknowledged_puts_survive};
pub use i4_agreement::{
    above_floor, digests_agree, everything_is_in_order, outcomes_agree, replicas_agree_on_data,
};
pub use i5_speculation::{snapshots_explain_reads, speculation_is_sound};
pub use i6_liveness::{everything_ends, leaders_have_sound_clocks};
pub use i7_memory::what_has_ended_is_forgotten;
pub use i7_sanity::{machine_panicked, nothing_makes_no_sense};
pub use i8_determinism::executions_are_equal;
pub use i9_changes::{Retold, changes_are_told_once};
pub use i9_changes_of_sites::changes_of_sites_are_told_once;

use std::fmt;

use quorate_checker::Report;

/// A property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// The isolation level holds.
    Isolation,
    /// Commit timestamps, or snapshots and places at local sites, explain every read.
    Timestamps,
    /// Acknowledged writes survive, exactly once.
    Durability,
    /// Replicas agree and converge.
    Agreement,
    /// Observations that were made before they were final, or by transactions that aborted, were sound.
    Speculation,
    /// Everything ends.
    Liveness,
    /// No panic, no nonsense, no leak.
    Sanity,
    /// The same seed gives the same execution.
    Determinism,
    /// Consumers of changes are told what has committed.
    Changes,
}

impl Invariant {
    /// Every invariant.
    pub const ALL: [Invariant; 9] = [
        Invariant::Isolation,
        Invariant::Timestamps,
        Invariant::Durability,
        Invariant::Agreement,
        Invariant::Speculation,
        Invariant::Liveness,
        Invariant::Sanity,
        Invariant::Determinism,
        Invariant::Changes,
    ];

    /// The id, as in reports.
    pub const fn id(self) -> &'static str {
        match self {
            Invariant::Isolation => "I1",
            Invariant::Timestamps => "I2",
            Invariant::Durability => "I3",
            Invariant::Agreement => "I4",
            Invariant::Speculation => "I5",
            Invariant::Liveness => "I6",
            Invariant::Sanity => "I7",
            Invariant::Determinism => "I8",
            Invariant::Changes => "I9",
        }
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.id())
    }
}

/// An invariant that does not hold, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which one.
    pub invariant: Invariant,
    /// The level that was judged, if one was.
    pub level: &'static str,
    /// The kind of the violation, in a word.
    pub anomaly: String,
    /// The violation, in sentences.
    pub explain: String,
}

impl Broken {
    pub(crate) fn new(invariant: Invariant, anomaly: &str, explain: String) -> Self {
        Broken { invariant, level: "", anomaly: anomaly.to_owned(), explain }
    }
}

/// The finding of an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It holds.
    Holds,
    /// It does not.
    Broken(Vec<Broken>),
    /// The evidence did not suffice to tell. Not a pass.
    Unknown(String),
}

/// How many violations of one invariant are reported per seed; more would not tell more.
const BROKEN_MAX: usize = 3;

fn finding(broken: Vec<Broken>) -> Finding {
    if broken.is_empty() { Finding::Holds } else { Finding::Broken(broken) }
}

/// The meaning of a judgement of the checker for an invariant.
fn judged(invariant: Invariant, report: &Report) -> Finding {
    if let Some(reason) = report.reason.as_ref().filter(|_| report.anomalies.is_empty()) {
        return Finding::Unknown(reason.clone());
    }
    let broken = |anomaly: &quorate_checker::Anomaly| Broken {
        invariant,
        level: report.level,
        anomaly: anomaly.kind.name().to_owned(),
        explain: anomaly.why.clone(),
    };
    finding(report.anomalies.iter().take(BROKEN_MAX).map(broken).collect())
}
