//! `walter-fig18` and `walter-csets`: how long fast commits take (Walter paper, sections 8.3 and 8.4).

use std::time::Duration;

use quorate_simulator::system::parallel_snapshot::ParallelSnapshot;
use quorate_simulator::world::costs::SyncTime;
use quorate_walter::LocalSite;

use super::objects::{Mix, Shape};
use super::throughput::{SESSIONS, THOUSANDS, long_window, thousands, window};
use super::{CACHED, PRIVATE, SITES, UNCACHED, costs, deployment, percentile};
use crate::catalogue::{Experiment, Settings};
use crate::deployment::Deployment;
use crate::load::{Measured, Window, run, run_and_look};
use crate::report::{Bound, Found, Headline, Row, Runs, defined};

/// In the catalogue.
pub const FAST: Experiment = Experiment {
    name: "walter-fig18",
    what: "Latency of fast commits of five writes at 70% load, by the disk",
    x: None,
    run: fast,
};

/// In the catalogue. The paper has no figure of it.
pub const SETS: Experiment = Experiment {
    name: "walter-csets",
    what: "Throughput and latency of two writes and a change of a counting set of another site",
    x: None,
    run: sets,
};

/// The share of what the processors can do.
const LOAD: f64 = 0.7;

/// So many sessions at each site that thoughts are long beside commits, and transactions come at random.
const THINKING: usize = 2_048;

/// The points of a distribution.
const SHARES: [(f64, f64); 6] =
    [(10.0, 0.1), (50.0, 0.5), (90.0, 0.9), (99.0, 0.99), (99.9, 0.999), (100.0, 1.0)];

/// The disks that commits wait for.
struct Place {
    name: &'static str,
    /// Processors take this share of the time.
    processors: f64,
    disk: SyncTime,
    /// The paper's 99th percentile, if it says so, in milliseconds.
    paper_99: Option<f64>,
    /// The paper's 99.9th percentile.
    paper_999: Option<f64>,
    /// The bound below which the paper says that it lies, where it says no more.
    paper_999_below: Option<f64>,
}

/// EC2, and the private cluster without a cache.
const PLACES: [Place; 2] = [
    Place {
        name: "write-cached",
        processors: 1.0,
        disk: CACHED,
        paper_99: Some(20.0),
        paper_999: Some(27.0),
        paper_999_below: None,
    },
    Place {
        name: "not cached",
        processors: PRIVATE,
        disk: UNCACHED,
        paper_99: None,
        paper_999: None,
        paper_999_below: Some(90.0),
    },
];

impl Place {
    /// Four sites at 70% of what their processors can do.
    fn deployment(&self, mix: &Mix, sessions: usize) -> Deployment<ParallelSnapshot> {
        let work = mix.transactions(SITES, sessions);
        let each = mix.expected(SITES) / self.processors * 1_000.0 * LOAD / (SITES * sessions) as f64;
        // By Little: sessions think, and commit, which takes a sync and the rest of one under way.
        let commits = self.disk.median().mul_f64(1.5);
        Deployment {
            think: Duration::from_secs_f64(1.0 / each).saturating_sub(commits),
            is_think_drawn: true,
            sync_time: self.disk,
            jitter: 0.0,
            ..deployment(SITES, work, costs(self.processors, mix.updates()))
        }
    }

    /// The percentiles of a distribution, and how busy processors were.
    fn rows(&self, runs: &Runs) -> Vec<Row> {
        let mut rows = Vec::new();
        for (percent, share) in SHARES {
            let row = runs.row(self.name, percent, "ms", |run| run.commit_latency_ms(share));
            let row = row.at(percentile(percent));
            let paper = match percent {
                99.0 => self.paper_99,
                99.9 => self.paper_999,
                _ => None,
            };
            let paper_range = self.paper_999_below.filter(|_| percent == 99.9).map(|below| [0.0, below]);
            rows.push(Row { paper, paper_range, ..row });
        }
        let place = PLACES.iter().position(|place| place.name == self.name).unwrap_or_default();
        let load = runs.row("all", place as f64, "% of the time, busiest server", busiest);
        rows.push(load.at(self.name));
        rows
    }
}

fn busiest(run: &Measured) -> f64 {
    100.0 * run.busiest_server()
}

/// How many transactions sites have of each other.
fn received(deployment: &Deployment<ParallelSnapshot>, seed: u64, window: Window) -> (Measured, u64) {
    let (measured, world) = run_and_look(deployment, seed, window);
    let machines = (0..SITES).filter_map(|site| world.server(site)).map(|server| server.machine());
    let of_others = machines.map(|machine| {
        let others = (0..SITES as u16).map(LocalSite).filter(|site| *site != machine.site());
        others.map(|site| machine.histories().received().of(site)).sum::<u64>()
    });
    (measured, of_others.sum())
}

/// The same where no message reaches another site: how many transactions commit, and how many of another site any site has.
fn cut_off(mix: &Mix, window: Window, settings: &Settings<'_>) -> (Vec<f64>, Vec<f64>) {
    let deployment = Deployment { is_cut: true, ..PLACES[0].deployment(mix, SESSIONS) };
    let (mut committed, mut of_others) = (Vec::new(), Vec::new());
    settings.measure(|seed| {
        let (measured, received) = received(&deployment, seed, window);
        committed.push(measured.committed as f64);
        of_others.push(received as f64);
        measured
    });
    (committed, of_others)
}

/// Measures figure 18.
fn fast(settings: &mut Settings<'_>) -> Found {
    let mix = Mix::of(Shape::Writes(5));
    let window = window(settings);
    let (mut rows, mut longest) = (Vec::new(), Vec::new());
    for place in PLACES {
        settings.say(place.name);
        let deployment = place.deployment(&mix, THINKING);
        let runs = settings.measure(|seed| run(&deployment, seed, window));
        rows.extend(place.rows(&runs));
        longest.push(runs.mean(|run| run.commit_latency_ms(0.999)));
    }
    settings.say("sites that are cut off from each other");
    let (committed, of_others) = cut_off(&mix, window, settings);
    let unit = "transactions while every link between sites is cut";
    rows.push(Row::new("all", 0.0, unit, &committed).at("committed"));
    rows.push(Row::new("all", 1.0, unit, &of_others).at("received from other sites"));
    let (committed, of_others) = (committed.iter().sum::<f64>(), of_others.iter().sum::<f64>());
    let headline = Headline {
        what: "the 99.9th percentile of a fast commit, write-cached".to_owned(),
        paper: Some(27.0),
        paper_range: None,
        ours: defined(longest[0]),
        unit: "ms".into(),
    };
    let bounds = vec![
        Bound::at_most("the 99.9th percentile, write-cached", 27.0, longest[0], "ms"),
        Bound::at_most("the 99.9th percentile, not cached", 90.0, longest[1], "ms"),
        Bound::at_least(
            "fast commits that return while every link between sites is cut",
            1_000.0,
            committed,
            "transactions",
        ),
        Bound::at_most(
            "transactions of another site that any site has received by then",
            0.0,
            of_others,
            "transactions",
        ),
    ];
    let deviations = vec![
        format!(
            "The load is {:.0}% of what processors can do by arithmetic: {:.1} thousand a second at four sites, where five writes are one request and a \
             commit. Transactions come at random: {THINKING} sessions at each site think for times that are drawn exponentially.",
            LOAD * 100.0,
            mix.expected(SITES) * LOAD
        ),
        "Links between sites carry whatever there is at once: 22 Mbit a second would carry less to each site than the load commits, and applying it is to \
             load the processors, too."
            .to_owned(),
        "A sync takes 10 to 50 µs where the disk caches what is written, and 4 to 12.3 ms where it does not: a disk that seeks and turns 7,200 times a \
         minute. Either is drawn evenly. Entries that come during a sync go together with the next one, so a commit waits for two at most."
            .to_owned(),
        "The paper's servers queue for a lock within the server and for what else shares the machine, which is not modelled: only the processor and the \
         disk are waited for."
            .to_owned(),
        "Whether a fast commit needs another site is not counted by messages but by their absence: every link between two sites is cut from the \
         beginning, and all commits return."
            .to_owned(),
        "The paper says of disks that do not cache that the 99.9th is below 90 ms.".to_owned(),
    ];
    Found { headline, rows, bounds, deviations }
}

/// Measures section 8.4.
fn sets(settings: &mut Settings<'_>) -> Found {
    let mix = Mix::of(Shape::WritesAndSet);
    let window = window(settings);
    settings.say("as fast as possible");
    let full = deployment(SITES, mix.transactions(SITES, SESSIONS), costs(1.0, mix.updates()));
    let long = long_window(settings);
    let runs = settings.measure(|seed| run(&full, seed, long));
    let peak = runs.row("all", 0.0, THOUSANDS, thousands).at("as fast as possible");
    let aborted = runs.mean(Measured::abort_rate);
    let ours = peak.ours;
    let mut rows = vec![Row { paper: Some(26.0), ..peak }];
    settings.say("at 70%");
    let place = Place { paper_99: Some(20.0), ..PLACES[0] };
    let moderate = place.deployment(&mix, THINKING);
    let runs = settings.measure(|seed| run(&moderate, seed, window));
    rows.extend(place.rows(&runs));
    settings.say("sites that are cut off from each other");
    let (committed, of_others) = cut_off(&mix, window, settings);
    let headline = Headline {
        what: "two writes and a change of a remote set, at four sites".to_owned(),
        paper: Some(26.0),
        paper_range: None,
        ours: defined(ours),
        unit: "thousands a second".into(),
    };
    let bounds = vec![
        Bound::at_most("the 99.9th percentile", 27.0, runs.mean(|run| run.commit_latency_ms(0.999)), "ms"),
        Bound::at_most("attempts that abort", 0.0, 100.0 * aborted, "%"),
        Bound::at_least(
            "commits while every link between sites is cut",
            1_000.0,
            committed.iter().sum(),
            "transactions",
        ),
        Bound::at_most(
            "transactions of another site received by then",
            0.0,
            of_others.iter().sum(),
            "transactions",
        ),
    ];
    let deviations = vec![
        format!(
            "By arithmetic {:.1} thousand a second: all updates go along with the commit, in one request. The paper's clients made four requests, which \
             allow {:.1}.",
            mix.expected(SITES),
            mix.expected_of_the_paper(SITES)
        ),
        "The paper has no figure of this section: it says that latencies are as in figure 18.".to_owned(),
    ];
    Found { headline, rows, bounds, deviations }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window::millis(600, 100);

    #[test]
    fn a_fast_commit_waits_for_a_processor_and_a_disk() {
        let mix = Mix::of(Shape::Writes(5));
        let [cached, uncached] = PLACES.map(|place| {
            let measured = run(&place.deployment(&mix, THINKING), 1, WINDOW);
            assert!((0.55..0.9).contains(&measured.busiest_server()), "{}", measured.busiest_server());
            [0.5, 0.999].map(|share| measured.commit_latency_ms(share))
        });
        assert!(cached[0] < 1.5 && cached[1] < 5.0, "{cached:?}");
        // A sync takes 4 to 12.3 ms, and the rest of the one before as long at most. That both are over is told in turn with requests.
        assert!(uncached[0] > 8.0 && uncached[1] < 50.0, "{uncached:?}");
    }

    #[test]
    fn fast_commits_need_no_other_site() {
        for shape in [Shape::Writes(5), Shape::WritesAndSet] {
            let deployment = PLACES[0].deployment(&Mix::of(shape), SESSIONS);
            let alone = received(&Deployment { is_cut: true, ..deployment.clone() }, 1, WINDOW);
            let connected = received(&deployment, 1, WINDOW);
            assert!(alone.0.committed > 1_000 && alone.1 == 0, "{shape:?}: {}", alone.1);
            assert!(connected.1 > 1_000, "{shape:?}: {}", connected.1);
            assert_eq!(alone.0.aborted, 0);
        }
    }
}
