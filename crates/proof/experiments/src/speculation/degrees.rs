//! `str-fig4`: the tuner, and static settings of the speculation degree (STR paper, section 8.1).

use std::time::Duration;

use quorate_str::tuner::{Degree, Setting, TunerConfig};
use quorate_str::{Shows, Variant};

use super::synthetic::work;
use super::transactions::Application;
use super::{Geography, SLOWER, parameters};
use crate::catalogue::{Experiment, Settings};
use crate::load::{Measured, Window};
use crate::report::{Bound, Found, Headline, Row, Runs, Shown, defined};

/// In the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: "str-fig4",
    what: "Throughput of static speculation degrees (0: none, 1: speculative reads, 2 to 9: chains of 1 to 8), and of the tuner",
    x: Some("speculation degree"),
    run: experiment,
};

/// The tuner is judged by the worst of so many seeds.
const SEEDS: u64 = 5;

/// Loads: a level of contention, and clients of each node.
struct Plan {
    nodes_per_site: usize,
    slower: f64,
    loads: &'static [(&'static str, usize)],
    window: Window,
    /// None leaves tuners out: until they have settled they commit more than can be simulated in a minute.
    tuning: Option<Tuning>,
}

/// Tuners search for so long at most, and are measured for so long then.
#[derive(Clone, Copy)]
struct Tuning {
    settle_max: Duration,
    measured: Duration,
}

const QUICK: Plan = Plan {
    nodes_per_site: 1,
    slower: SLOWER,
    loads: &[("low", 2), ("high", 4)],
    window: Window::millis(1_000, 4_000),
    tuning: None,
};

const FULL: Plan = Plan {
    nodes_per_site: 1,
    // Fewer transactions saturate a processor, and the run is as much shorter.
    slower: 3.0 * SLOWER,
    loads: &[("low", 2), ("high", 4), ("high", 20)],
    window: Window::millis(5_000, 20_000),
    tuning: Some(Tuning { settle_max: Duration::from_secs(600), measured: Duration::from_secs(60) }),
};

/// A window of a tuner has so many commits, fewer than in servers: what is simulated costs as much as it commits.
const COMMITS_PER_WINDOW: u32 = 40;

/// Always this degree.
fn fixed(degree: Degree) -> Variant {
    let shows = match degree.chain_max() {
        0 => Shows::Nothing,
        length => Shows::Chain(length),
    };
    Variant { reads_speculatively: degree.reads_speculatively(), shows, ..Variant::EXTERNAL }
}

fn geography(variant: Variant, (level, sessions): (&'static str, usize), plan: &Plan) -> Geography {
    let as_fast = Geography::new(plan.nodes_per_site, sessions, variant, Application::Hotspot(work(level)));
    Geography { slower: plan.slower, ..as_fast }
}

fn tuned(load: (&'static str, usize), plan: &Plan) -> Geography {
    let short = TunerConfig::short(Setting::External { chain_max: Variant::CHAIN_MAX });
    let tuner = TunerConfig { commits_per_window_min: COMMITS_PER_WINDOW, ..short };
    Geography { tuner: Some(tuner), ..geography(Variant::EXTERNAL, load, plan) }
}

/// The numbers of a load.
struct Compared {
    /// The median throughput of each degree.
    fixed: Vec<f64>,
    /// Of the tuner, if there was one.
    tuned: Option<Tuned>,
    sentence: String,
}

/// The numbers of the tuner.
struct Tuned {
    /// Its throughput ÷ that of the best degree, both medians over the seeds.
    of_best: f64,
    /// The same ÷ that without speculation, of the seed for which it is least.
    of_none: f64,
}

/// One run in the search for the best degree.
#[derive(Clone, Copy)]
enum Chosen {
    /// Always this one.
    Always(Degree),
    /// By tuners.
    ByTuners(Tuning),
}

/// Compares the degrees of a load, and the tuner, whose runs come behind theirs if it was measured.
fn compare(load: (&str, usize), all: &[Runs], rows: &mut Vec<Row>) -> Compared {
    let name = format!("{}, {} clients", load.0, load.1);
    let (fixed, tuned) = all.split_at(Degree::HIGHEST.up_to().count());
    for (x, runs) in fixed.iter().enumerate() {
        let mut row = |unit, of: &dyn Fn(&Measured) -> f64| {
            rows.push(runs.median_row("static", x as f64, unit, of).in_panel(name.clone()));
        };
        row("1/s", &Measured::throughput);
        row("% aborted", &|run| 100.0 * run.abort_rate());
        row("% of the time, busiest processor", &|run| 100.0 * run.busiest_server());
    }
    let medians: Vec<f64> = fixed.iter().map(|runs| runs.median(Measured::throughput)).collect();
    let best = medians.iter().copied().fold(0.0, f64::max);
    let at = medians.iter().position(|median| *median == best).unwrap_or_default();
    let mut sentence = format!("{name}: best is {}.", Degree::HIGHEST.up_to().nth(at).unwrap_or_default());
    let tuned = tuned.first().map(|tuned| {
        let (found, told) = compare_tuned(&name, tuned, &fixed[0], best, rows);
        sentence += &told;
        found
    });
    Compared { fixed: medians, tuned, sentence }
}

/// Compares tuners with the best degree and with none.
fn compare_tuned(name: &str, tuned: &Runs, none: &Runs, best: f64, rows: &mut Vec<Row>) -> (Tuned, String) {
    let mut degrees: Vec<Degree> = tuned.iter().flat_map(|run| run.degrees.iter().copied()).collect();
    degrees.sort_unstable();
    let median = degrees.get(degrees.len() / 2).copied().unwrap_or_default();
    let x = Degree::HIGHEST.up_to().position(|degree| degree == median).unwrap_or_default();
    let row = tuned.median_row("tuned", x as f64, "1/s", Measured::throughput);
    rows.push(row.in_panel(name.to_owned()));
    let of_best = tuned.median(Measured::throughput) / best;
    let of_none = tuned.pairs(none, Measured::throughput).into_iter().fold(f64::INFINITY, f64::min);
    let [first, last] = [degrees.first(), degrees.last()].map(|degree| degree.copied().unwrap_or_default());
    let searching: usize = tuned.iter().map(|run| run.searching).sum();
    let told = format!(
        " Tuners were at {first} to {last}, the median at {median}; {of_best:.3} of the best, and {of_none:.3} of none at least; {searching} of {} tuners had not settled.",
        degrees.len(),
        of_best = Shown(of_best),
        of_none = Shown(of_none),
    );
    (Tuned { of_best, of_none }, told)
}

/// How far throughput falls between two degrees that are better, as a share of the lesser of these: none has to with one maximum.
fn greatest_dip(throughputs: &[f64]) -> f64 {
    let dip = |at: usize| {
        let (before, after) = (&throughputs[..at], &throughputs[at..]);
        let [before, after] = [before, after].map(|side| side.iter().copied().fold(0.0, f64::max));
        let shoulder = before.min(after);
        if shoulder > 0.0 { (1.0 - throughputs[at] / shoulder).max(0.0) } else { 0.0 }
    };
    (0..throughputs.len()).map(dip).fold(0.0, f64::max)
}

/// Measures figure 4.
fn experiment(settings: &mut Settings<'_>) -> Found {
    let plan = if settings.quick { QUICK } else { FULL };
    let mut rows = Vec::new();
    let degrees = Degree::HIGHEST.up_to().map(Chosen::Always);
    let of_load: Vec<Chosen> = degrees.chain(plan.tuning.map(Chosen::ByTuners)).collect();
    let points: Vec<((&str, usize), Chosen)> =
        plan.loads.iter().flat_map(|load| of_load.iter().map(|chosen| (*load, *chosen))).collect();
    let told = |((level, sessions), chosen): &((&str, usize), Chosen)| match chosen {
        Chosen::Always(degree) => format!("{level}, {sessions} clients, {degree}"),
        Chosen::ByTuners(_) => format!("{level}, {sessions} clients, tuned"),
    };
    let runs = settings.measure_all(SEEDS, &points, told, |(load, chosen), seed| match chosen {
        Chosen::Always(degree) => geography(fixed(*degree), *load, &plan).run(seed, plan.window),
        Chosen::ByTuners(tuning) => tuned(*load, &plan).run_settled(seed, tuning.settle_max, tuning.measured),
    });
    let of_loads = plan.loads.iter().zip(runs.chunks(of_load.len()));
    let all: Vec<Compared> = of_loads.map(|(load, runs)| compare(*load, runs, &mut rows)).collect();
    let least =
        |of: fn(&Tuned) -> f64| all.iter().filter_map(|load| load.tuned.as_ref().map(of)).reduce(f64::min);
    let dip = 100.0 * all.iter().map(|load| greatest_dip(&load.fixed)).fold(0.0, f64::max);
    let what_dips = "one maximum over degrees: how far throughput falls between two that are better";
    let mut headline = Headline {
        what: what_dips.to_owned(),
        paper: None,
        paper_range: None,
        ours: defined(dip),
        unit: "%".into(),
    };
    let mut bounds = vec![Bound::at_most(what_dips, 3.0, dip, "%")];
    if let (Some(of_best), Some(of_none)) = (least(|tuned| tuned.of_best), least(|tuned| tuned.of_none)) {
        let what = "throughput of the tuner, settled, ÷ that of the best static degree, of the load for which it is least";
        headline = Headline {
            what: what.to_owned(),
            paper: None,
            paper_range: None,
            ours: defined(of_best),
            unit: "×".into(),
        };
        bounds.push(Bound::at_least(what, 0.95, of_best, "×"));
        let what = "throughput of the tuner ÷ that of none, of the seed for which it is least";
        bounds.push(Bound::at_least(what, 0.97, of_none, "×"));
    }
    let mut deviations = vec![
        parameters(&geography(Variant::EXTERNAL, plan.loads[0], &plan)),
        "The paper draws a chart without numbers. All degrees have PreciseClock, none too.".to_owned(),
        format!("Static degrees are measured for {} s.", plan.window.measured.as_secs()),
    ];
    deviations.push(match plan.tuning {
        Some(Tuning { settle_max, measured }) => format!(
            "Each node has a tuner of its own, whose windows have {COMMITS_PER_WINDOW} commits at least. They search from none, for {} s at most, and {} s count then, probes of other \
             degrees included.",
            settle_max.as_secs(),
            measured.as_secs(),
        ),
        None => "The quick run has two loads, and leaves the tuner out: until all have settled they commit more than can be simulated in a minute.".to_owned(),
    });
    deviations.extend(all.into_iter().map(|load| load.sentence));
    Found { headline, rows, bounds, deviations }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dip_lies_between_two_that_are_better() {
        assert_eq!(greatest_dip(&[1.0, 2.0, 4.0, 3.0]), 0.0);
        assert_eq!(greatest_dip(&[4.0, 3.0, 3.0]), 0.0);
        assert_eq!(greatest_dip(&[2.0, 1.0, 4.0]), 0.5);
    }

    #[test]
    fn a_degree_is_a_variant() {
        assert_eq!(fixed(Degree::HIGHEST), Variant::EXTERNAL);
        assert_eq!(fixed(Degree::READS), Variant::INTERNAL);
        assert!(!fixed(Degree::NONE).reads_speculatively);
    }

    #[test]
    fn longer_chains_bring_more_where_few_transactions_meet() {
        let throughputs = [0, 2, 8].map(|length| {
            let degree = Degree::chains(length).unwrap();
            geography(fixed(degree), ("low", 1), &QUICK).run(1, Window::millis(1_000, 2_000)).throughput()
        });
        assert!(throughputs.is_sorted(), "{throughputs:?}");
        assert!(throughputs[2] > 3.0 * throughputs[0], "{throughputs:?}");
    }
}
