//! `str-fig3`: throughput, aborts and latencies over clients under levels of contention (STR paper, section 8.1).

use quorate_str::Variant;
use quorate_str::tuner::{Setting, TunerConfig};
use quorate_workloads::{Hotspot, Parameters, WorkloadKind};

use super::climb::rows_of;
use super::transactions::Application;
use super::{Geography, SEEDS, SLOWER, System, parameters};
use crate::catalogue::{Experiment, Settings};
use crate::load::{Measured, Window};
use crate::report::{Bound, Found, Headline, defined};

/// In the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: "str-fig3",
    what: "STR and its rivals over clients of each node, under four levels of contention: throughput, aborts, latencies",
    x: Some("clients of each node"),
    run: experiment,
};

/// The level at which speculation brings most, in the paper.
const FAVOURABLE: &str = "high-local";

/// Hot keys of a range with much contention: fewer than ten transactions that run side by side at each node meet often.
const FEW_HOT: u64 = 200;

/// A level of contention: its name, the mix of the workload, and hot keys of local and remote ranges, where those of the mix are not taken.
pub(super) fn work(level: &'static str) -> Parameters {
    let [local, remote] = match level {
        "low" => [None, None],
        "high-local" => [Some(FEW_HOT), None],
        "high-remote" => [None, Some(FEW_HOT)],
        _ => [Some(FEW_HOT), Some(FEW_HOT)],
    };
    let hotspot = Hotspot { local_hot: local, remote_hot: remote, ..Hotspot::default() };
    Parameters { hotspot, shares: level, ..Parameters::new(WorkloadKind::Hotspot) }
}

/// Nodes, clients and windows of a run.
struct Plan {
    nodes_per_site: usize,
    slower: f64,
    levels: &'static [&'static str],
    sessions: &'static [usize],
    window: Window,
    tunes: bool,
}

const QUICK: Plan = Plan {
    nodes_per_site: 1,
    slower: SLOWER,
    levels: &["low", "high-local", "high"],
    sessions: &[1, 8],
    window: Window::millis(1_500, 2_000),
    tunes: false,
};

const FULL: Plan = Plan {
    nodes_per_site: 1,
    // Fewer transactions saturate a processor, and the run is as much shorter.
    slower: 3.0 * SLOWER,
    levels: &["low", "high-local", "high", "high-remote"],
    sessions: &[2, 5, 10, 20, 40, 80],
    window: Window::millis(30_000, 8_000),
    tunes: true,
};

fn tuner(system: System) -> Option<TunerConfig> {
    match system {
        System::ClockSi | System::Planet => None,
        System::Internal => Some(TunerConfig::short(Setting::Internal)),
        System::External => Some(TunerConfig::short(Setting::External { chain_max: Variant::CHAIN_MAX })),
    }
}

fn geography(system: System, level: &'static str, sessions: usize, plan: &Plan) -> Geography {
    let application = Application::Hotspot(work(level));
    let untuned = Geography::new(plan.nodes_per_site, sessions, system.variant(), application);
    Geography { tuner: tuner(system).filter(|_| plan.tunes), slower: plan.slower, ..untuned }
}

/// Measures figure 3.
fn experiment(settings: &mut Settings<'_>) -> Found {
    let plan = if settings.quick { QUICK } else { FULL };
    let (mut rows, mut gain) = (Vec::new(), 0.0);
    let mut points = Vec::new();
    for level in plan.levels {
        for sessions in plan.sessions {
            points.extend(System::ALL.map(|system| (*level, *sessions, system)));
        }
    }
    let told =
        |(level, sessions, system): &(&str, usize, System)| format!("{level}, {sessions} clients, {system}");
    let all = settings.measure_all(SEEDS, &points, told, |(level, sessions, system), seed| {
        geography(*system, level, *sessions, &plan).run(seed, plan.window)
    });
    for (points, runs) in points.chunks(System::ALL.len()).zip(all.chunks(System::ALL.len())) {
        for ((level, sessions, system), runs) in points.iter().zip(runs) {
            rows.extend(rows_of(level, *system, *sessions, runs));
        }
        // The last one counts, which has the most clients.
        if points[0].0 == FAVOURABLE {
            let [plain, planet, internal, external] =
                [0, 1, 2, 3].map(|system| runs[system].median(Measured::throughput));
            gain = internal.max(external) / plain.max(planet);
        }
    }
    let most = plan.sessions.last().copied().unwrap_or_default();
    let what = format!("high local contention, {most} clients at each node, STR ÷ the better rival");
    let headline = Headline {
        what: what.clone(),
        paper: Some(1.5),
        paper_range: None,
        ours: defined(gain),
        unit: "×".into(),
    };
    let mut deviations = vec![
        parameters(&geography(System::External, FAVOURABLE, most, &plan)),
        format!(
            "The paper prints no sizes of hotspots. A range has a million keys, of which {} are hot where contention is low, and {FEW_HOT} where it is high; {}% of \
             the accesses go to remote ranges of other nodes. A transaction reads its ten keys at once, and an aborted one is tried again at once.",
            Hotspot::default().hot_keys("low").unwrap_or_default()[0],
            Hotspot::default().remote_percent,
        ),
        "The paper draws charts without numbers, over clients of each node; the ratio is in its text, for eighty. It draws three levels; high-remote is ours."
            .to_owned(),
    ];
    deviations.push(match plan.tunes {
        true => format!(
            "The tuners of nodes search from the beginning, for {} seconds before anything counts.",
            plan.window.warm_up.as_secs()
        ),
        false => "In the quick run nothing is tuned: str-internal always reads speculatively, and str-external always has chains of eight. It has fewer \
                  clients, and no high-remote."
            .to_owned(),
    });
    let bounds = vec![Bound::at_least(what, 1.5, gain, "×")];
    Found { headline, rows, bounds, deviations }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window::millis(1_000, 2_000);

    fn run(system: System, level: &'static str, sessions: usize) -> Measured {
        geography(system, level, sessions, &QUICK).run(1, WINDOW)
    }

    #[test]
    fn speculative_reads_pay_where_transactions_of_a_node_meet() {
        let [plain, internal] = [System::ClockSi, System::Internal].map(|system| run(system, FAVOURABLE, 8));
        assert!(
            internal.throughput() > 1.3 * plain.throughput(),
            "{} {}",
            internal.throughput(),
            plain.throughput()
        );
        assert_eq!((plain.passed, internal.passed), (0, 0), "every replica votes in time");
    }

    #[test]
    fn sessions_go_on_from_what_they_are_shown() {
        let [plain, planet, external] =
            [System::ClockSi, System::Planet, System::External].map(|system| run(system, "low", 1));
        assert!(
            external.throughput() > 3.0 * plain.throughput(),
            "{} {}",
            external.throughput(),
            plain.throughput()
        );
        assert!((planet.throughput() / plain.throughput() - 1.0).abs() < 0.15);
        assert!(planet.perceived_ms(0.5) < planet.latency_ms(0.5) / 2.0);
        assert_eq!(plain.misspeculated, 0);
    }
}
