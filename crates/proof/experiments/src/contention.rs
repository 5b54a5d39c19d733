//! `tapir-contention`: what is left of throughput where transactions meet on the same keys, within a data centre.
//!
//! Servers are not busy: what counts is how long a transaction is in the way of others, and what becomes of those.

use std::time::Duration;

use quorate_workloads::{Parameters, Popularity, WorkloadKind};

use crate::catalogue::Settings;
use crate::contender::{Batches, Contender};
use crate::datacentre::{Bench, CLIENTS};
use crate::deployment::Deployment;
use crate::load::{Measured, Window};
use crate::report::{Headline, Report, Row};

/// Its name.
pub const NAME: &str = "tapir-contention";

/// What it shows.
pub const WHAT: &str = "Throughput within a data centre, by the skew of popularity (Zipf)";

/// How popular keys are.
const EXPONENTS: [f64; 4] = [0.6, 0.75, 0.9, 0.99];

/// So many transactions of each client are in flight.
const SESSIONS: usize = 8;

/// Where the headline is from.
const HEADLINE: (WorkloadKind, f64) = (WorkloadKind::Retwis, 0.9);

/// Runs it.
pub fn experiment(settings: &mut Settings<'_>) -> Report {
    let millis = if settings.quick { 400 } else { 1_000 };
    let window = Window { warm_up: Duration::from_millis(millis), measured: Duration::from_millis(millis) };
    let exponents = if settings.quick { &EXPONENTS[1..3] } else { &EXPONENTS[..] };
    let bench = Bench::micro(settings);
    let (mut rows, mut leads, mut ours) = (Vec::new(), Vec::new(), 0.0);
    for kind in [WorkloadKind::Rmw, WorkloadKind::Retwis] {
        for &exponent in exponents {
            let Parameters { keys, value_bytes_min, .. } = bench.deployment.workload;
            let popularity = Popularity::Zipf(exponent);
            let workload = Parameters { keys, value_bytes_min, popularity, ..Parameters::new(kind) };
            let deployment = Deployment {
                sessions_per_client: SESSIONS,
                costs: Some(Batches::Everything.costs()),
                workload,
                ..bench.deployment.clone()
            };
            let (mut tapir, mut rival) = (0.0, 0.0_f64);
            for contender in Contender::all().filter(|contender| *contender != Contender::QuorumStore) {
                settings.say(&format!("{kind}, {contender}, Zipf {exponent}"));
                let one = |seed| contender.run(&deployment, Batches::Everything, seed, window);
                let runs: Vec<Measured> = settings.seeds().map(one).collect();
                let throughput = Row::new(
                    format!("{kind}, {contender}"),
                    exponent,
                    "1/s",
                    &over(&runs, Measured::throughput),
                );
                if contender.has_leaders() {
                    rival = rival.max(throughput.ours);
                } else {
                    tapir = throughput.ours;
                }
                rows.push(throughput);
                rows.extend(others(&format!("{kind}, {contender}"), exponent, &runs));
            }
            leads.push(format!("{:.2} ({kind}, {exponent})", tapir / rival));
            if (kind, exponent) == HEADLINE {
                ours = tapir / rival;
            }
        }
    }
    let (kind, exponent) = HEADLINE;
    let headline = Headline {
        what: format!(
            "committed transactions of {kind} at Zipf {exponent}, TAPIR ÷ the best system with leaders"
        ),
        paper: None,
        ours,
        unit: "×",
    };
    let deviations = vec![
        "No paper has this figure: the paper's Retwis has an exponent of 0.6.".to_owned(),
        format!(
            "One shard, {} transactions in flight, with batches on both sides. TAPIR ÷ the best system with leaders: {}.",
            CLIENTS * SESSIONS,
            leads.join(", ")
        ),
    ];
    Report { name: NAME, what: WHAT, headline, rows, deviations, seed: settings.first_seed() }
}

/// What else there is to say of a point.
fn others(series: &str, exponent: f64, runs: &[Measured]) -> [Row; 2] {
    let row = |what: &str, unit, of: &dyn Fn(&Measured) -> f64| {
        Row::new(format!("{series}: {what}"), exponent, unit, &over(runs, of))
    };
    [
        row("abort rate", "%", &|run| 100.0 * run.abort_rate()),
        row("99th percentile", "ms (tail)", &|run| run.latency_ms(0.99)),
    ]
}

fn over(runs: &[Measured], of: impl Fn(&Measured) -> f64) -> Vec<f64> {
    runs.iter().map(of).collect()
}
