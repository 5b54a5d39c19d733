//! `tapir-deadline`: what deadline ordering does under contention, and what it costs without.
//!
//! Plain TAPIR, with exclusive preparation, against the same replicas and clients with deadlines, waiting prepares and
//! reads that take turns; and with each of the three alone, to see what does it. The timelines of Retwis are read-only
//! transactions on both sides, as in `quorate bench`: their keys are known beforehand.

use std::time::Duration;

use quorate_core::topology::SerialOrder;
use quorate_simulator::system::strict::Strict;
use quorate_tapir::Rules;
use quorate_workloads::WorkloadKind;

use crate::catalogue::{Experiment, Settings};
use crate::deployment::Deployment;
use crate::interactive::zipf;
use crate::load::{Measured, Window, run};
use crate::report::{Found, Headline, Row, Runs, Shown, defined};

/// In the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: "tapir-deadline",
    what: "Deadline ordering against plain TAPIR in three regions, by the skew of popularity (Zipf)",
    x: Some("Zipf exponent"),
    run: experiment,
};

/// Which options are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    deadlines: bool,
    waits: bool,
    turns: bool,
    order: SerialOrder,
}

/// TAPIR as in the paper.
pub(crate) const PLAIN: Variant =
    Variant { name: "plain", deadlines: false, waits: false, turns: false, order: SerialOrder::RealTime };
/// The same where transactions are serialized in the order of timestamps alone (section 6.3).
pub(crate) const BY_TIMESTAMPS: Variant =
    Variant { name: "plain, in the order of timestamps", order: SerialOrder::Timestamps, ..PLAIN };
/// Timestamps lie ahead of clocks, and replicas wait for their turn.
pub(crate) const ALL: Variant =
    Variant { name: "deadline ordering", deadlines: true, waits: true, turns: true, ..PLAIN };
const PARTS: [Variant; 3] = [
    Variant { name: "deadlines alone", deadlines: true, ..PLAIN },
    Variant { name: "waiting prepares alone", waits: true, ..PLAIN },
    Variant { name: "reads in turn alone", turns: true, ..PLAIN },
];

/// How popular keys are: as in the paper's Retwis, and two kinds of high contention.
const EXPONENTS: [f64; 3] = [0.6, 0.9, 0.99];

const CLIENTS: usize = 60;

impl Variant {
    /// Three regions with many clients.
    pub(crate) fn deployment(self, kind: WorkloadKind, exponent: f64) -> Deployment<Strict> {
        let mut deployment = Deployment { clients: CLIENTS, ..Deployment::new(zipf(kind, exponent)) };
        deployment.settings.coordinator.deadlines = self.deadlines;
        deployment.settings.coordinator.reads_in_turn = self.turns;
        deployment.settings.replica.rules = Rules::of(self.order);
        if !self.deadlines {
            deployment.settings.replica.deadline_ahead_max = Duration::ZERO;
        }
        if !self.waits {
            deployment.settings.replica.prepare_wait_max = Duration::ZERO;
        }
        deployment
    }
}

fn rows(runs: &Runs, kind: WorkloadKind, variant: Variant, exponent: f64) -> [Row; 4] {
    let row = |unit, of: &dyn Fn(&Measured) -> f64| {
        runs.row(variant.name, exponent, unit, of).in_panel(kind.to_string())
    };
    [
        row("commits a second", &Measured::throughput),
        row("% aborted", &|run| 100.0 * run.abort_rate()),
        row("ms, median", &|run| run.latency_ms(0.5)),
        row("ms, 99th percentile", &|run| run.latency_ms(0.99)),
    ]
}

/// Runs it.
fn experiment(settings: &mut Settings<'_>) -> Found {
    let seconds = if settings.quick { 20 } else { 60 };
    let window = Window::millis(5_000, seconds * 1_000);
    let mut measure = |kind, variant: Variant, exponent| {
        settings.say(&format!("{kind}, {}, Zipf {exponent}", variant.name));
        let deployment = variant.deployment(kind, exponent);
        settings.measure(|seed| run(&deployment, seed, window))
    };
    let (mut found, mut deviations) = (Vec::new(), own());
    let mut ours = 0.0;
    for kind in [WorkloadKind::Rmw, WorkloadKind::Retwis] {
        for exponent in EXPONENTS {
            let (plain, all) = (measure(kind, PLAIN, exponent), measure(kind, ALL, exponent));
            found.extend(rows(&plain, kind, PLAIN, exponent));
            found.extend(rows(&all, kind, ALL, exponent));
            for part in PARTS.into_iter().filter(|_| kind == WorkloadKind::Rmw) {
                let alone = measure(kind, part, exponent);
                found.extend(rows(&alone, kind, part, exponent));
            }
            let commits = all.mean(Measured::throughput) / plain.mean(Measured::throughput);
            let aborts = all.mean(Measured::abort_rate) / plain.mean(Measured::abort_rate);
            if kind == WorkloadKind::Rmw && exponent == 0.99 {
                ours = commits;
            }
            if exponent >= 0.9 && (commits < 1.5 || aborts > 1.0 / 3.0) {
                deviations.push(format!(
                    "The goal of 1.5 times the commits at a third of the abort rate is missed by {kind} at Zipf \
                     {exponent}: {:.2} times the commits at {:.2} of the abort rate.",
                    Shown(commits),
                    Shown(aborts)
                ));
            }
        }
    }
    let headline = Headline {
        what: "committed rmw transactions at Zipf 0.99, deadline ordering ÷ plain".to_owned(),
        paper: None,
        paper_range: None,
        ours: defined(ours),
        unit: "×".into(),
    };
    Found { headline, rows: found, deviations, bounds: Vec::new() }
}

/// The deviations of the experiment as a whole.
fn own() -> Vec<String> {
    [
        "No paper has this figure: it compares Quorate with itself.",
        "Processors and disks take no time: only the network and waiting do.",
    ]
    .map(str::to_owned)
    .to_vec()
}
