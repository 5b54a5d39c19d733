//! `tapir-table1`: what wrong clocks do to TAPIR over three regions (TAPIR paper, sections 4.3.1 and 7.2).
//!
//! The table gives round trips and skews; this network and these clocks are made of them. They determine
//! how often a transaction has to be prepared again at a later timestamp, which the paper says is seldom.

use quorate_core::{Instant, Random};
use quorate_simulator::world::network::Network;
use quorate_workloads::WorkloadKind;

use crate::catalogue::{Experiment, Settings};
use crate::deadlines::{ALL, BY_TIMESTAMPS, PLAIN};
use crate::deployment::{Clocks, Deployment};
use crate::load::{Measured, Window, run};
use crate::report::{Found, Headline, Row, defined};

/// In the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: "tapir-table1",
    what: "Retries and latency over three regions, by how far clocks are apart on average (Retwis, Zipf 0.9)",
    x: Some("distance between two clocks on average, ms"),
    run: experiment,
};

/// Averages of the distance between two clocks, in milliseconds: none, those of the paper's Table 1 within and between regions,
/// the worst that it saw, and worse.
const APART_MS: [f64; 6] = [0.0, 0.3, 3.4, 10.0, 27.0, 100.0];

/// The one that the headline is about: the greatest average of the table.
const HEADLINE_MS: f64 = 3.4;

const REGIONS: [&str; 3] = ["US", "Europe", "Asia"];

/// The paper's round trips in milliseconds, by the region that measures and the one that answers.
const ROUND_TRIPS_MS: [[f64; 3]; 3] = [[1.2, 111.3, 166.5], [111.0, 0.8, 261.8], [166.7, 263.2, 10.8]];

/// The paper's skews in milliseconds, likewise.
const SKEWS_MS: [[f64; 3]; 3] = [[3.4, 1.3, 1.86], [2.1, 0.1, 1.9], [2.6, 1.8, 0.3]];

/// So many messages and clocks are drawn for each number of the table.
const DRAWN: usize = 1_000;

/// The table again: what this network and these clocks come to.
fn table(settings: &Settings<'_>) -> Vec<Row> {
    let deployment = PLAIN.deployment(WorkloadKind::Retwis, 0.9);
    let mut rows = Vec::new();
    for (from, name) in REGIONS.into_iter().enumerate() {
        for (to, other) in REGIONS.into_iter().enumerate() {
            let (mut trips, mut skews) = (Vec::new(), Vec::new());
            for seed in settings.seeds() {
                let mut random = Random::stream(seed, "table 1");
                let one_way = |one: usize, other: usize| deployment.round_trips[one % 3][other % 3] / 2;
                // Two nodes in each region.
                let mut network = Network::new(2 * REGIONS.len(), deployment.jitter, random.fork(), one_way);
                let mut arrives =
                    |one, other| network.route(one, other).first.unwrap_or_default().as_secs_f64();
                let there = to + REGIONS.len();
                let trip: f64 = (0..DRAWN).map(|_| arrives(from, there) + arrives(there, from)).sum();
                trips.push(trip / DRAWN as f64 * 1_000.0);
                let mut error = |site| deployment.clocks.draw(site, &mut random).error_micros(Instant::START);
                let skew: u64 = (0..DRAWN).map(|_| error(from).abs_diff(error(to))).sum();
                skews.push(skew as f64 / DRAWN as f64 / 1_000.0);
            }
            let row = |panel: &'static str, samples: &[f64], paper: [[f64; 3]; 3]| {
                let row = Row::new(format!("from {name}"), to as f64, "ms", samples);
                Row { paper: Some(paper[from][to]), ..row.in_panel(panel).at(other) }
            };
            rows.push(row("table: round trip", &trips, ROUND_TRIPS_MS));
            rows.push(row("table: skew", &skews, SKEWS_MS));
        }
    }
    rows
}

/// Runs it.
fn experiment(settings: &mut Settings<'_>) -> Found {
    let seconds = if settings.quick { 15 } else { 60 };
    let window = Window::millis(5_000, seconds * 1_000);
    let (mut rows, mut ours) = (table(settings), 0.0);
    for variant in [PLAIN, BY_TIMESTAMPS, ALL] {
        for apart_ms in APART_MS {
            settings.say(&format!("{}, clocks {apart_ms} ms apart", variant.name));
            let clocks = Clocks::apart(apart_ms * 1_000.0);
            let plain = variant.deployment(WorkloadKind::Retwis, 0.9);
            let deployment = Deployment { clocks, ..plain };
            let runs = settings.measure(|seed| run(&deployment, seed, window));
            let mut row = |panel: &'static str, unit, of: &dyn Fn(&Measured) -> f64| {
                rows.push(runs.row(variant.name, apart_ms, unit, of).in_panel(panel));
            };
            row("prepared again", "%", &|run| 100.0 * run.retry_rate());
            row("aborted", "% of attempts", &|run| 100.0 * run.abort_rate());
            row("median latency", "ms", &|run| run.latency_ms(0.5));
            row("commits", "1/s", &Measured::throughput);
            if variant == PLAIN && apart_ms == HEADLINE_MS {
                ours = runs.mean(|run| 100.0 * run.retry_rate());
            }
        }
    }
    let headline = Headline {
        what: format!(
            "transactions that were prepared again, clocks {HEADLINE_MS} ms apart on average, plain TAPIR"
        ),
        paper: None,
        paper_range: Some([0.0, 1.0]),
        ours: defined(ours),
        unit: "%".into(),
    };
    let deviations = vec![
        "The paper says \"well below 1%\" of retries at several milliseconds and high contention, without a figure.".to_owned(),
        "Conflicts are reported to the application as aborts, here and there; only RETRY counts as being prepared again.".to_owned(),
        "The rows of the table are the averages of a thousand draws each. Clocks are as wrong as makes two of one region differ by the table's diagonal; then two of different regions \
         differ by about as much as the worse of them is wrong, which is more than in the paper."
            .to_owned(),
        "Skew is that of single clocks, exponential, either way; it does not change during a run.".to_owned(),
    ];
    Found { headline, rows, deviations, bounds: Vec::new() }
}
