//! The status of a node that runs the transactions of a `snapshot` keyspace: how many have ended in which way, and the decisions of its tuner.

use quorate_core::hosted::{Speculating, Tuning, TuningDecision};
use serde::Serialize;

/// The ends of the transactions of a node since this process started.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SpeculatingStatus {
    /// Transactions that became final.
    pub finals: u64,
    /// Attempts that aborted.
    pub aborts: u64,
    /// Results that were shown to clients before they were final.
    pub shown: u64,
    /// Those of them that were taken back.
    pub apologies: u64,
    /// Reads from transactions that were not final.
    pub speculative_reads: u64,
    /// Attempts that aborted because of one that they depended on.
    pub cascades: u64,
    /// Commits that passed a replica which did not vote.
    pub passed: u64,
    /// The tuner; absent where the keyspace has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tuner: Option<TunerStatus>,
}

/// How much a tuner lets its node speculate, and what it knows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TunerStatus {
    /// The degree that transactions may go to now: 0 is none, 1 speculative reads, and 1 + n chains of n.
    pub degree: u8,
    /// The degree that it has settled on; none while it searches.
    pub settled: Option<u8>,
    /// `searching`, `settled`, `probing` or `fixed`.
    pub phase: &'static str,
    /// Final commits per second in the last window.
    pub commits_per_second: f64,
    /// How long a window is now.
    pub window_seconds: f64,
    /// The median time from the first activation of a transaction to its final commit, once it is known.
    pub final_latency_seconds: Option<f64>,
    /// How many windows were measured.
    pub windows: u64,
    /// How many searches have begun.
    pub searches: u64,
    /// How many probes have begun since it has settled.
    pub probes: u64,
    /// How many final commits these have cost.
    pub probe_cost: f64,
    /// How often something was decided, by the cause.
    pub decided: Vec<DecidedStatus>,
    /// The latest decisions, oldest first; sixteen at most.
    pub decisions: Vec<DecisionStatus>,
}

/// How often a tuner has decided something for one cause.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DecidedStatus {
    /// The cause.
    pub cause: &'static str,
    /// How often.
    pub count: u64,
}

/// A decision of a tuner.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DecisionStatus {
    /// How long the node had been running, in seconds.
    pub uptime_seconds: f64,
    /// Why.
    pub cause: &'static str,
    /// The degree until then.
    pub from: u8,
    /// The degree from then on.
    pub to: u8,
    /// Final commits per second in the window that ended then.
    pub commits_per_second: f64,
}

impl From<Speculating> for SpeculatingStatus {
    fn from(told: Speculating) -> Self {
        let Speculating { finals, aborts, shown, apologies, speculative_reads, cascades, passed, tuning } =
            told;
        let tuner = tuning.map(TunerStatus::from);
        SpeculatingStatus { finals, aborts, shown, apologies, speculative_reads, cascades, passed, tuner }
    }
}

impl From<Tuning> for TunerStatus {
    fn from(told: Tuning) -> Self {
        let decided = told.decided.into_iter().map(|(cause, count)| DecidedStatus { cause, count });
        TunerStatus {
            degree: told.degree,
            settled: told.settled,
            phase: told.phase,
            commits_per_second: told.commits_per_second,
            window_seconds: told.window.as_secs_f64(),
            final_latency_seconds: told.final_latency.map(|latency| latency.as_secs_f64()),
            windows: told.windows,
            searches: told.searches,
            probes: told.probes,
            probe_cost: told.probe_cost,
            decided: decided.collect(),
            decisions: told.latest.into_iter().map(DecisionStatus::from).collect(),
        }
    }
}

impl From<TuningDecision> for DecisionStatus {
    fn from(told: TuningDecision) -> Self {
        let TuningDecision { at, cause, from, to, commits_per_second } = told;
        DecisionStatus { uptime_seconds: at.as_nanos() as f64 / 1e9, cause, from, to, commits_per_second }
    }
}
