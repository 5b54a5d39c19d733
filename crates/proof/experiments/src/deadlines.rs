//! `tapir-deadline`: what deadline ordering does under contention, and what it costs without.
//!
//! Plain TAPIR, with exclusive preparation, against the same replicas and clients with deadlines, waiting prepares and
//! reads that take turns; and with each of the three alone, to see what does it. The timelines of Retwis are read-only
//! transactions on both sides, as in `quorate bench`: their keys are known beforehand.

use std::time::Duration;

use quorate_workloads::{Parameters, Popularity, WorkloadKind};

use crate::catalogue::Settings;
use crate::deployment::Deployment;
use crate::load::{Measured, Window, run};
use crate::report::{Headline, Report, Row};
use quorate_simulator::system::strict::Strict;

/// Its name.
pub const NAME: &str = "tapir-deadline";

/// What it shows.
pub const WHAT: &str =
    "Deadline ordering against plain TAPIR in three regions, by the skew of popularity (Zipf)";

/// Which options are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Variant {
    name: &'static str,
    deadlines: bool,
    waits: bool,
    turns: bool,
}

const PLAIN: Variant = Variant { name: "plain", deadlines: false, waits: false, turns: false };
const ALL: Variant = Variant { name: "deadline ordering", deadlines: true, waits: true, turns: true };
const PARTS: [Variant; 3] = [
    Variant { name: "deadlines alone", deadlines: true, ..PLAIN },
    Variant { name: "waiting prepares alone", waits: true, ..PLAIN },
    Variant { name: "reads in turn alone", turns: true, ..PLAIN },
];

/// How popular keys are: as in the paper's Retwis, and two kinds of high contention.
const EXPONENTS: [f64; 3] = [0.6, 0.9, 0.99];

const KEYS: u64 = 1_000_000;
const CLIENTS: usize = 60;

impl Variant {
    fn deployment(self, kind: WorkloadKind, exponent: f64) -> Deployment<Strict> {
        let popularity = Popularity::Zipf(exponent);
        let workload = Parameters { keys: KEYS, popularity, value_bytes_min: 0, ..Parameters::new(kind) };
        let mut deployment = Deployment { clients: CLIENTS, ..Deployment::new(workload) };
        deployment.settings.coordinator.deadlines = self.deadlines;
        deployment.settings.coordinator.reads_in_turn = self.turns;
        if !self.deadlines {
            deployment.settings.replica.deadline_ahead_max = Duration::ZERO;
        }
        if !self.waits {
            deployment.settings.replica.prepare_wait_max = Duration::ZERO;
        }
        deployment
    }
}

/// One point: a variant of a workload at one exponent, over all seeds.
struct Point {
    runs: Vec<Measured>,
}

impl Point {
    fn over_seeds(&self, of: impl Fn(&Measured) -> f64) -> Vec<f64> {
        self.runs.iter().map(of).collect()
    }

    fn mean(&self, of: impl Fn(&Measured) -> f64) -> f64 {
        self.over_seeds(of).iter().sum::<f64>() / self.runs.len() as f64
    }

    fn rows(&self, series: &str, exponent: f64) -> Vec<Row> {
        let row = |what: &str, unit, of: &dyn Fn(&Measured) -> f64| {
            Row::new(format!("{series}: {what}"), exponent, unit, &self.over_seeds(of))
        };
        vec![
            row("commits", "1/s", &Measured::throughput),
            row("abort rate", "%", &|run| 100.0 * run.abort_rate()),
            row("median", "ms", &|run| run.latency_ms(0.5)),
            row("99th percentile", "ms (tail)", &|run| run.latency_ms(0.99)),
        ]
    }
}

/// Runs it.
pub fn experiment(settings: &mut Settings<'_>) -> Report {
    let seconds = if settings.quick { 20 } else { 60 };
    let window = Window { warm_up: Duration::from_secs(5), measured: Duration::from_secs(seconds) };
    let mut measure = |kind, variant: Variant, exponent| {
        settings.say(&format!("{kind}, {}, Zipf {exponent}", variant.name));
        let deployment = variant.deployment(kind, exponent);
        let runs = settings.seeds().map(|seed| run(&deployment, seed, window)).collect();
        Point { runs }
    };
    let (mut rows, mut deviations) = (Vec::new(), own());
    let mut ours = 0.0;
    for kind in [WorkloadKind::Rmw, WorkloadKind::Retwis] {
        for exponent in EXPONENTS {
            let (plain, all) = (measure(kind, PLAIN, exponent), measure(kind, ALL, exponent));
            rows.extend(plain.rows(&format!("{kind}, {}", PLAIN.name), exponent));
            rows.extend(all.rows(&format!("{kind}, {}", ALL.name), exponent));
            for part in PARTS.into_iter().filter(|_| kind == WorkloadKind::Rmw) {
                let alone = measure(kind, part, exponent);
                rows.extend(alone.rows(&format!("{kind}, {}", part.name), exponent));
            }
            let commits = all.mean(Measured::throughput) / plain.mean(Measured::throughput);
            let aborts =
                all.mean(Measured::abort_rate) / plain.mean(Measured::abort_rate).max(f64::MIN_POSITIVE);
            if kind == WorkloadKind::Rmw && exponent == 0.99 {
                ours = commits;
            }
            if exponent >= 0.9 && (commits < 1.5 || aborts > 1.0 / 3.0) {
                deviations.push(format!(
                    "The goal of 1.5 times the commits at a third of the abort rate is missed by {kind} at Zipf \
                     {exponent}: {commits:.2} times the commits at {aborts:.2} of the abort rate."
                ));
            }
        }
    }
    let headline = Headline {
        what: "committed rmw transactions at Zipf 0.99, deadline ordering ÷ plain".to_owned(),
        paper: None,
        ours,
        unit: "×",
    };
    Report { name: NAME, what: WHAT, headline, rows, deviations, seed: settings.first_seed() }
}

/// What holds for the experiment as a whole.
fn own() -> Vec<String> {
    [
        "No paper has this figure: it compares Quorate with itself.",
        "Processors and disks take no time: only the network and waiting do.",
    ]
    .map(str::to_owned)
    .to_vec()
}
