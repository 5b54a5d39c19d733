//! `str-table1`: what PreciseClock brings without speculation, by the keys of a transaction, and what it costs to store (STR paper, section 8.1).

use quorate_procedure::Pair;
use quorate_str::{Clock, Variant};
use quorate_workloads::{Hotspot, Parameters, WorkloadKind};

use super::transactions::Application;
use super::{Geography, parameters, trade};
use crate::catalogue::{Experiment, Settings};
use crate::load::{Measured, Window};
use crate::report::{Bound, Found, Headline, Row};

/// In the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: "str-table1",
    what: "Throughput of Clock-SI with PreciseClock ÷ without, by the keys of a transaction, and its storage cost",
    run: experiment,
};

/// How many keys a transaction reads and updates, and how much PreciseClock brings in the paper.
const KEYS: [(usize, f64); 5] = [(10, 1.02), (20, 1.04), (40, 1.07), (100, 1.18), (200, 1.38)];

/// The paper's share of additional storage, in percent.
const STORAGE: f64 = 9.0;

/// The level of contention: few transactions meet at ten keys, and many at two hundred.
const LEVEL: &str = "low";

const SESSIONS: usize = 6;

/// PreciseClock, without speculation.
const PRECISE: Variant = Variant { clock: Clock::Precise, ..Variant::CLOCK_SI };

fn geography(variant: Variant, keys: usize, nodes_per_site: usize) -> Geography {
    let hotspot = Hotspot { accesses: keys, ..Hotspot::default() };
    let work = Parameters { hotspot, shares: LEVEL, ..Parameters::new(WorkloadKind::Hotspot) };
    Geography::new(nodes_per_site, SESSIONS, variant, Application::Hotspot(work))
}

/// Measures table 1.
fn experiment(settings: &mut Settings<'_>) -> Found {
    let quick = settings.quick;
    let nodes_per_site = if quick { 1 } else { 3 };
    let window = if quick { Window::millis(1_500, 6_000) } else { Window::millis(3_000, 20_000) };
    let (mut rows, mut speedups) = (Vec::new(), Vec::new());
    for (keys, paper) in KEYS {
        let mut runs_of = |what: &str, variant| {
            settings.say(&format!("{keys} keys, {what}"));
            let geography = geography(variant, keys, nodes_per_site);
            settings.measure(|seed| geography.run(seed, window))
        };
        let (plain, precise) =
            (runs_of("physical clocks", Variant::CLOCK_SI), runs_of("PreciseClock", PRECISE));
        let x = keys as f64;
        for (name, runs) in [("physical clocks", &plain), ("PreciseClock", &precise)] {
            rows.push(runs.row(format!("{name}, throughput"), x, "1/s", Measured::throughput));
            rows.push(runs.row(format!("{name}, aborts"), x, "%", |run| 100.0 * run.abort_rate()));
            rows.push(runs.row(format!("{name}, final latency"), x, "ms", |run| run.latency_ms(0.5)));
        }
        let ratios = precise.pairs(&plain, |run| run.throughput());
        let speedup = Row::new("speedup", x, "×", &ratios);
        speedups.push(speedup.ours);
        rows.push(Row { paper: Some(paper), ..speedup });
    }
    let stored = storage_percent(trade::rows());
    rows.push(Row { paper: Some(STORAGE), ..Row::new("storage, TPC-C", 0.0, "%", &[stored; 3]) });
    let ours = speedups.last().copied().unwrap_or_default();
    let headline = Headline {
        what: "throughput at 200 keys, PreciseClock ÷ physical clocks".to_owned(),
        paper: Some(KEYS[KEYS.len() - 1].1),
        ours,
        unit: "×",
    };
    let bounds =
        vec![Bound::at_least("throughput at 200 keys, PreciseClock ÷ physical clocks", 1.38, ours, "×")];
    let shape = Hotspot::default();
    let deviations = vec![
        parameters(&geography(PRECISE, 10, nodes_per_site)),
        format!(
            "The paper prints neither its contention nor its clients. Here each node has {SESSIONS} sessions, each range {:?} hot keys of a million, and {}% of the \
             accesses are remote. A transaction reads all its keys at once.",
            shape.hot_keys(LEVEL).unwrap_or_default(),
            shape.remote_percent,
        ),
        "The storage is that of a timestamp of eight bytes for each row of TPC-C, as a share of its key, its value and its version of sixteen bytes. Replicas \
         keep the timestamps of readers in memory, and forget those below the floor of snapshots."
            .to_owned(),
    ];
    Found { headline, rows, bounds, deviations }
}

/// The timestamps of readers, as a share of all else that is stored of these rows.
fn storage_percent(rows: impl IntoIterator<Item = Pair>) -> f64 {
    const TIMESTAMP: usize = 8;
    const VERSION: usize = 16;
    let (mut count, mut bytes) = (0, 0);
    for (key, value) in rows {
        count += 1;
        bytes += key.len() + value.len() + VERSION;
    }
    100.0 * (count * TIMESTAMP) as f64 / bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precise_clocks_let_in_more_of_those_that_meet() {
        let window = Window::millis(1_000, 3_000);
        let [plain, precise] =
            [Variant::CLOCK_SI, PRECISE].map(|variant| geography(variant, 100, 1).run(1, window));
        assert_eq!((plain.passed, precise.passed), (0, 0), "every replica votes in time");
        assert!(precise.throughput() > plain.throughput(), "{} {}", precise.throughput(), plain.throughput());
        assert!(precise.abort_rate() < plain.abort_rate(), "{} {}", precise.abort_rate(), plain.abort_rate());
    }

    #[test]
    fn a_timestamp_is_a_small_share_of_a_row() {
        let percent = storage_percent(trade::rows());
        assert!((2.0..12.0).contains(&percent), "{percent}");
        assert_eq!(storage_percent([(vec![0; 34], vec![0; 50])]), 8.0);
    }
}
