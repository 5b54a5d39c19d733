//! `str-table1`: what PreciseClock brings without speculation, by the keys of a transaction, and what it costs to store (STR paper, section 8.1).

use quorate_procedure::Pair;
use quorate_str::{Clock, Variant};
use quorate_workloads::{Hotspot, Parameters, WorkloadKind};

use super::transactions::Application;
use super::{Geography, SEEDS, parameters, trade};
use crate::catalogue::{Experiment, Settings};
use crate::load::{Measured, Window};
use crate::report::{Bound, Found, Headline, Row, defined};

/// In the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: "str-table1",
    what: "Throughput of Clock-SI with PreciseClock ÷ without, by the keys of a transaction, and its storage cost",
    x: Some("keys of a transaction"),
    run: experiment,
};

/// How many keys a transaction reads and updates, and how much PreciseClock brings in the paper.
const KEYS: [(usize, f64); 5] = [(10, 1.02), (20, 1.04), (40, 1.07), (100, 1.18), (200, 1.38)];

/// The paper's share of additional storage, in percent.
const STORAGE: f64 = 9.0;

/// A range has so many keys for each key that a transaction updates: the authors' technical report enlarges the key space with the transactions.
const KEYS_PER_UPDATE: u64 = 100_000;

/// So many of them are hot. With these, physical clocks abort about as many attempts with a hundred keys and more as in that report.
const HOT_PER_UPDATE: u64 = 50;

/// So many sessions of each node run transactions. More of them keep processors busier, and an attempt that aborts then costs less than the wait that it is
/// spared with PreciseClock.
const SESSIONS: usize = 2;

/// PreciseClock, without speculation.
const PRECISE: Variant = Variant { clock: Clock::Precise, ..Variant::CLOCK_SI };

/// The two systems, by name.
const CLOCKS: [(&str, Variant); 2] = [("physical clocks", Variant::CLOCK_SI), ("PreciseClock", PRECISE)];

struct Plan {
    nodes_per_site: usize,
    keys: &'static [(usize, f64)],
    window: Window,
}

const QUICK: Plan =
    Plan { nodes_per_site: 1, keys: &[KEYS[0], KEYS[3], KEYS[4]], window: Window::millis(10_000, 30_000) };

const FULL: Plan = Plan { nodes_per_site: 3, keys: &KEYS, window: Window::millis(10_000, 20_000) };

fn geography(variant: Variant, keys: usize, plan: &Plan) -> Geography {
    let hot = Some(HOT_PER_UPDATE * keys as u64);
    let hotspot = Hotspot { accesses: keys, local_hot: hot, remote_hot: hot, ..Hotspot::default() };
    let work =
        Parameters { hotspot, keys: KEYS_PER_UPDATE * keys as u64, ..Parameters::new(WorkloadKind::Hotspot) };
    let application = Application::Hotspot(work);
    Geography::new(plan.nodes_per_site, SESSIONS, variant, application)
}

/// Measures table 1.
fn experiment(settings: &mut Settings<'_>) -> Found {
    let plan = if settings.quick { QUICK } else { FULL };
    // The longest runs come first, so that no processor waits for one of them at the end.
    let points = plan.keys.iter().rev().flat_map(|(keys, _)| CLOCKS.map(|clock| (*keys, clock)));
    let points: Vec<(usize, (&str, Variant))> = points.collect();
    let told = |(keys, (name, _)): &(usize, (&str, Variant))| format!("{keys} keys, {name}");
    let all = settings.measure_all(SEEDS, &points, told, |(keys, (_, variant)), seed| {
        geography(*variant, *keys, &plan).run(seed, plan.window)
    });
    let (mut rows, mut ours) = (Vec::new(), 0.0);
    for ((keys, paper), of_keys) in plan.keys.iter().zip(all.chunks(CLOCKS.len()).rev()) {
        let x = *keys as f64;
        for ((name, _), runs) in CLOCKS.iter().zip(of_keys) {
            let mut row = |unit, of: &dyn Fn(&Measured) -> f64| {
                rows.push(runs.median_row(*name, x, unit, of));
            };
            row("1/s", &Measured::throughput);
            row("% aborted", &|run| 100.0 * run.abort_rate());
            row("ms, final latency", &|run| run.latency_ms(0.5));
            row("% of the time, busiest processor", &|run| 100.0 * run.busiest_server());
        }
        let ratios = of_keys[1].pairs(&of_keys[0], Measured::throughput);
        let speedup = Row::of_median("PreciseClock ÷ physical clocks", x, "×, throughput", &ratios);
        ours = speedup.ours;
        rows.push(Row { paper: Some(*paper), ..speedup });
    }
    let stored = storage_percent(trade::rows());
    let storage = Row::exact("PreciseClock", 0.0, "% more storage", stored).at("TPC-C");
    rows.push(Row { paper: Some(STORAGE), ..storage });
    let what = "throughput at 200 keys, PreciseClock ÷ physical clocks";
    let paper = KEYS[KEYS.len() - 1].1;
    let headline = Headline {
        what: what.to_owned(),
        paper: Some(paper),
        paper_range: None,
        ours: defined(ours),
        unit: "×".into(),
    };
    let bounds = vec![Bound::at_least(what, paper, ours, "×")];
    let deviations = vec![
        parameters(&geography(PRECISE, KEYS[0].0, &plan)),
        format!(
            "The paper prints neither its contention nor its clients. The technical report of its authors has an earlier table, up to 100 keys, and says two things \
             more: the key space grows with the keys of a transaction, and physical clocks abort 59 to 72% of the attempts, PreciseClock 38 to 48%. So each range has \
             {HOT_PER_UPDATE} hot keys for each key that a transaction updates, of {KEYS_PER_UPDATE}. Each node has {SESSIONS} sessions. {}% of the accesses are remote. A \
             transaction reads all its keys at once.",
            Hotspot::default().remote_percent,
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
        let [plain, precise] = CLOCKS.map(|(_, variant)| geography(variant, 100, &QUICK).run(1, window));
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
