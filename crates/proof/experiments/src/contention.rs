//! `tapir-contention`: what is left of throughput where transactions meet on the same keys, within a data centre.
//!
//! Servers are not busy: what counts is how long a transaction is in the way of others, and what becomes of those.

use quorate_workloads::WorkloadKind;

use crate::catalogue::{Experiment, Settings};
use crate::contender::{Batches, Contender, ratio};
use crate::datacentre::{Bench, CLIENTS};
use crate::deployment::Deployment;
use crate::interactive::{Transactions, zipf};
use crate::load::{Measured, Window};
use crate::report::{Found, Headline, Shown, defined};

/// In the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: "tapir-contention",
    what: "Throughput within a data centre, by the skew of popularity (Zipf)",
    x: Some("Zipf exponent"),
    run: experiment,
};

/// How popular keys are.
const EXPONENTS: [f64; 4] = [0.6, 0.75, 0.9, 0.99];

/// So many transactions of each client are in flight.
const SESSIONS: usize = 8;

/// Where the headline is from.
const HEADLINE: (WorkloadKind, f64) = (WorkloadKind::Retwis, 0.9);

/// Runs it.
fn experiment(settings: &mut Settings<'_>) -> Found {
    let millis = if settings.quick { 400 } else { 1_000 };
    let window = Window::millis(millis, millis);
    let exponents = if settings.quick { &EXPONENTS[1..3] } else { &EXPONENTS[..] };
    let bench = Bench::micro(settings);
    let (mut rows, mut leads, mut ours) = (Vec::new(), Vec::new(), 0.0);
    for kind in [WorkloadKind::Rmw, WorkloadKind::Retwis] {
        for &exponent in exponents {
            let deployment = Deployment {
                sessions_per_client: SESSIONS,
                costs: Some(Batches::Everything.costs()),
                work: Transactions { workload: zipf(kind, exponent), ..bench.deployment.work.clone() },
                ..bench.deployment.clone()
            };
            let mut throughputs = Vec::new();
            for contender in Contender::all().filter(|contender| *contender != Contender::QuorumStore) {
                settings.say(&format!("{kind}, {contender}, Zipf {exponent}"));
                let one = |seed| contender.run(&deployment, Batches::Everything, seed, window);
                let runs = settings.measure(one);
                let mut row = |unit, of: &dyn Fn(&Measured) -> f64| {
                    let row = runs.row(contender.to_string(), exponent, unit, of);
                    rows.push(row.in_panel(kind.to_string()));
                };
                row("1/s", &Measured::throughput);
                row("% aborted", &|run| 100.0 * run.abort_rate());
                row("ms, 99th percentile", &|run| run.latency_ms(0.99));
                throughputs.push((contender, runs.mean(Measured::throughput)));
            }
            let lead = ratio(throughputs, f64::max);
            leads.push(format!("{:.2} ({kind}, {exponent})", Shown(lead)));
            if (kind, exponent) == HEADLINE {
                ours = lead;
            }
        }
    }
    let (kind, exponent) = HEADLINE;
    let headline = Headline {
        what: format!(
            "committed transactions of {kind} at Zipf {exponent}, TAPIR ÷ the best system with leaders"
        ),
        paper: None,
        paper_range: None,
        ours: defined(ours),
        unit: "×".into(),
    };
    let deviations = vec![
        "No paper has this figure: the paper's Retwis has an exponent of 0.6.".to_owned(),
        format!(
            "One shard, {} transactions in flight, with batches on both sides. TAPIR ÷ the best system with leaders: {}.",
            CLIENTS * SESSIONS,
            leads.join(", ")
        ),
    ];
    Found { headline, rows, deviations, bounds: Vec::new() }
}
