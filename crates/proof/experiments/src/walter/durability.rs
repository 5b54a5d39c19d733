//! `walter-fig19` and `walter-fig20`: when other sites have what has committed, and how long slow commits take (Walter paper, sections 8.3 and
//! 8.5).
//!
//! In these runs a transaction is *durable* when all four sites have it (f = 3), and all of it begins in Virginia.

use std::time::Duration;

use quorate_core::GroupSize;
use quorate_core::command::Milestone;
use quorate_simulator::system::parallel_snapshot::ParallelSnapshot;
use quorate_walter::ReplicaConfig;

use super::objects::{Mix, Shape};
use super::{ROUND_TRIP_MAX_MS, SITES, costs, deployment_on_links, machines, percentile};
use crate::catalogue::{Experiment, Settings};
use crate::deployment::Deployment;
use crate::interactive::Transactions;
use crate::load::{Measured, Window, run};
use crate::report::{Bound, Found, Headline, Row, Runs, defined};

/// In the catalogue.
pub const FAST: Experiment = Experiment {
    name: "walter-fig19",
    what: "How long after a fast commit a transaction is durable at all four sites",
    x: None,
    run: fast,
};

/// In the catalogue.
pub const SLOW: Experiment = Experiment {
    name: "walter-fig20",
    what: "Latency of slow commits from Virginia, and how long after them a transaction is durable at all four sites",
    x: None,
    run: slow,
};

/// How batches of transactions go to other sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Batches {
    /// As in the paper: one, and the next one as soon as that is confirmed.
    OneAtATime,
    /// As servers set it up: one every five milliseconds while there is something to send.
    Several,
}

impl Batches {
    const ALL: [Batches; 2] = [Batches::OneAtATime, Batches::Several];

    fn name(self) -> &'static str {
        match self {
            Batches::OneAtATime => "one batch at a time",
            Batches::Several => "several batches",
        }
    }

    fn replica(self) -> ReplicaConfig {
        let replica = ReplicaConfig::new(Default::default(), GroupSize::ONE, Default::default());
        let replica = ReplicaConfig { sites_lost_max: SITES - 1, ..replica };
        match self {
            Batches::OneAtATime => {
                ReplicaConfig { batches_max: 1, propagation_interval: Duration::ZERO, ..replica }
            }
            Batches::Several => replica,
        }
    }
}

const SESSIONS: usize = 64;
/// Between two transactions of a session: then the two or three that go to another site within a round trip take its link no time to speak of.
const THINK: Duration = Duration::from_secs(8);

/// Clients in Virginia.
fn deployment(shape: Shape, batches: Batches) -> Deployment<ParallelSnapshot> {
    let mix = Mix::of(shape);
    let work = Transactions { awaits_milestones: true, ..mix.transactions(SITES, SESSIONS) };
    Deployment {
        region: Some(0),
        think: THINK,
        is_think_drawn: true,
        settings: machines(batches.replica()),
        ..deployment_on_links(SITES, work, costs(1.0, mix.updates()))
    }
}

fn window(settings: &Settings<'_>) -> Window {
    Window::millis(2_000, if settings.quick { 60_000 } else { 300_000 })
}

/// The points of a distribution.
const SHARES: [(f64, f64); 5] = [(1.0, 0.01), (10.0, 0.1), (50.0, 0.5), (90.0, 0.9), (99.0, 0.99)];

/// The distribution of a milestone, in a panel. In the paper it is about even from so many round trips to so many, and no percentile is printed.
fn rows(
    runs: &Runs,
    panel: &'static str,
    series: &str,
    milestone: Milestone,
    paper: Option<(f64, f64)>,
) -> Vec<Row> {
    let row = |(percent, share): (f64, f64)| {
        let row = runs.row(series, percent, "ms", |run| run.milestone_ms(milestone, share));
        let row = row.in_panel(panel).at(percentile(percent));
        let range = |(low, high): (f64, f64)| [low, high].map(|trips| ROUND_TRIP_MAX_MS * trips);
        Row { paper_range: paper.map(range), ..row }
    };
    SHARES.map(row).to_vec()
}

/// A point of the distribution of what is durable, in round trips to the farthest site.
fn round_trips(runs: &Runs, share: f64) -> f64 {
    runs.mean(|run| run.milestone_ms(Milestone::Durable, share)) / ROUND_TRIP_MAX_MS
}

/// The bounds of durability.
fn bounds(runs: &Runs, of: &str, batches: Batches) -> Vec<Bound> {
    const UNIT: &str = "round trips";
    let share = |share| round_trips(runs, share);
    match batches {
        Batches::OneAtATime => vec![
            Bound::at_least(
                format!("durable, {of}, {}, 1st percentile", batches.name()),
                1.0,
                share(0.01),
                UNIT,
            ),
            Bound::at_most(
                format!("durable, {of}, {}, 99th percentile", batches.name()),
                2.0,
                share(0.99),
                UNIT,
            ),
        ],
        Batches::Several => {
            vec![Bound::at_most(format!("durable, {of}, {}, median", batches.name()), 1.2, share(0.5), UNIT)]
        }
    }
}

fn deviations() -> Vec<String> {
    vec![
        "A round trip is that to Singapore, 261 ms.".to_owned(),
        format!(
            "{SESSIONS} clients in Virginia think for {} s on average between two transactions: {} a second, so that a batch takes a link of 22 Mbit a \
             second no time to speak of. That time comes on top: at 32 a second a batch takes 2 to 4 ms, and the 99th percentile of one batch at a time is \
             2.004 round trips. The paper does not state its load.",
            THINK.as_secs_f64(),
            SESSIONS as f64 / THINK.as_secs_f64()
        ),
        "As in the paper, a transaction is durable when all sites of the run have it; by default one more site than the first is enough. Disks cache what \
         is written."
            .to_owned(),
        "With one batch at a time the next leaves when the site has confirmed the one before, so a transaction waits for none to one round trip. With \
         several, a batch leaves five milliseconds after its first transaction, and is confirmed within five: 1.04 round trips by arithmetic."
            .to_owned(),
        "Slow commits write objects in turn. One that writes what another has just written waits until the site that lets it in has that one, which takes as \
         long as durability: with objects drawn among 50,000 as in the paper, that were four of a thousand."
            .to_owned(),
        "The paper's lines for what is durable are even between one and two round trips; for what is visible everywhere, one more.".to_owned(),
    ]
}

/// Measures figure 19.
fn fast(settings: &mut Settings<'_>) -> Found {
    let window = window(settings);
    let (mut found, mut demanded, mut median) = (Vec::new(), Vec::new(), 0.0);
    for batches in Batches::ALL {
        settings.say(batches.name());
        let deployment = deployment(Shape::Writes(5), batches);
        let runs = settings.measure(|seed| run(&deployment, seed, window));
        let is_as_in_the_paper = batches == Batches::OneAtATime;
        for (milestone, paper) in [(Milestone::Durable, (1.0, 2.0)), (Milestone::Visible, (2.0, 3.0))] {
            let paper = Some(paper).filter(|_| is_as_in_the_paper);
            found.extend(rows(&runs, batches.name(), &milestone.to_string(), milestone, paper));
        }
        demanded.extend(bounds(&runs, "fast commits", batches));
        if is_as_in_the_paper {
            median = runs.mean(|run| run.milestone_ms(Milestone::Durable, 0.5));
        }
    }
    let headline = Headline {
        what: "the median time until a transaction is durable at all sites, one batch at a time".to_owned(),
        paper: None,
        paper_range: Some([ROUND_TRIP_MAX_MS, 2.0 * ROUND_TRIP_MAX_MS]),
        ours: defined(median),
        unit: "ms".into(),
    };
    Found { headline, rows: found, bounds: demanded, deviations: deviations() }
}

/// How many objects a slow commit writes, at as many sites, and the round trip to the farthest in milliseconds: the paper's latency.
const SIZES: [(usize, f64); 3] = [(2, 82.0), (3, 87.0), (4, 261.0)];

/// A slow commit may take so much longer than its round trip, in milliseconds.
const SLACK_MS: f64 = 5.0;

/// Measures figure 20.
fn slow(settings: &mut Settings<'_>) -> Found {
    let window = window(settings);
    let (mut found, mut demanded, mut farthest) = (Vec::new(), Vec::new(), 0.0);
    for (objects, round_trip) in SIZES {
        for batches in Batches::ALL {
            settings.say(&format!("{objects} objects, {}", batches.name()));
            let deployment = deployment(Shape::Across(objects), batches);
            let runs = settings.measure(|seed| run(&deployment, seed, window));
            let series = format!("{objects} objects");
            let is_as_in_the_paper = batches == Batches::OneAtATime;
            if is_as_in_the_paper {
                for (percent, share) in [(50.0, 0.5), (99.0, 0.99), (100.0, 1.0)] {
                    let row = runs.row(&*series, percent, "ms", |run| run.commit_latency_ms(share));
                    let row = row.in_panel("commit").at(percentile(percent));
                    found.push(Row { paper: Some(round_trip), ..row });
                }
                let longest = runs.mean(|run| run.commit_latency_ms(1.0));
                let what = format!("the longest slow commit of {objects} objects");
                demanded.push(Bound::at_most(what, round_trip + SLACK_MS, longest, "ms"));
                farthest = runs.mean(|run| run.commit_latency_ms(0.5));
                let aborted = 100.0 * runs.mean(Measured::abort_rate);
                demanded.push(Bound::at_most(
                    format!("attempts that abort, {objects} objects"),
                    1.0,
                    aborted,
                    "%",
                ));
            }
            let panel = match batches {
                Batches::OneAtATime => "durable after the commit, one batch at a time",
                Batches::Several => "durable after the commit, several batches",
            };
            let paper = Some((1.0, 2.0)).filter(|_| is_as_in_the_paper);
            found.extend(rows(&runs, panel, &series, Milestone::Durable, paper));
            demanded.extend(bounds(&runs, &format!("{objects} objects"), batches));
        }
    }
    let headline = Headline {
        what: "a slow commit of four objects, one of each site, median".to_owned(),
        paper: Some(261.0),
        paper_range: None,
        ours: defined(farthest),
        unit: "ms".into(),
    };
    Found { headline, rows: found, bounds: demanded, deviations: deviations() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window::millis(1_000, 80_000);

    #[test]
    fn transactions_are_durable_within_the_round_trips_that_batches_take() {
        for batches in Batches::ALL {
            let measured = run(&deployment(Shape::Writes(5), batches), 1, WINDOW);
            let [low, middle, high] = [0.01, 0.5, 0.99]
                .map(|share| measured.milestone_ms(Milestone::Durable, share) / ROUND_TRIP_MAX_MS);
            assert!(low >= 1.0, "{batches:?}: {low}");
            let visible = measured.milestone_ms(Milestone::Visible, 0.5) / ROUND_TRIP_MAX_MS;
            match batches {
                Batches::OneAtATime => {
                    assert!(middle > 1.3 && high < 2.1 && visible > 2.0, "{middle} {high}")
                }
                Batches::Several => assert!(middle < 1.2 && high < 1.2, "{middle} {high}"),
            }
            assert!(measured.reached.len() > 500);
        }
    }

    #[test]
    fn a_slow_commit_takes_the_round_trip_to_the_farthest_site() {
        for (objects, round_trip) in SIZES {
            let measured = run(&deployment(Shape::Across(objects), Batches::Several), 1, WINDOW);
            let latency = measured.commit_latency_ms(1.0);
            assert!(
                (round_trip..round_trip + SLACK_MS).contains(&latency),
                "{objects} objects: {latency} ms"
            );
        }
    }
}
