//! `walter-fig16` and `walter-fig17`: how many transactions of single objects there are (Walter paper, sections 8.2 and 8.3).

use quorate_simulator::system::parallel_snapshot::ParallelSnapshot;

use super::objects::{Mix, Shape};
use super::{BANDWIDTH, PRIVATE, SITES, costs, deployment};
use crate::catalogue::{Experiment, Settings};
use crate::deployment::Deployment;
use crate::load::{Measured, Window, run, run_and_look};
use crate::report::{Bound, Found, Headline, Row, Shown, defined};

/// In the catalogue.
pub const BASE: Experiment = Experiment {
    name: "walter-fig16",
    what: "Throughput of transactions that read or write one object, at one site with an asynchronous replica",
    x: None,
    run: base,
};

/// In the catalogue.
pub const SITES_UP: Experiment = Experiment {
    name: "walter-fig17",
    what: "Throughput of transactions of one and of five objects, by the number of sites",
    x: Some("sites"),
    run: by_sites,
};

/// So many sessions at each site. All that wait for a sync are told at once, and come again a round trip later: with few of them a server would wait
/// for that.
pub(super) const SESSIONS: usize = 256;

/// Sessions begin within half a second.
pub(super) fn window(settings: &Settings<'_>) -> Window {
    Window::millis(700, if settings.quick { 100 } else { 400 })
}

/// All sessions of a site may end and begin together, and what is to be counted evenly takes many of their turns.
pub(super) fn long_window(settings: &Settings<'_>) -> Window {
    let Window { warm_up, measured } = window(settings);
    Window { warm_up, measured: 4 * measured }
}

pub(super) const THOUSANDS: &str = "thousands a second";

/// Transactions a second.
pub(super) fn thousands(run: &Measured) -> f64 {
    run.throughput() / 1_000.0
}

/// Clients of the first of two sites, with the processors of the paper's private cluster. All objects that they write are at home there.
fn at_one_of_two_sites(shape: Shape) -> Deployment<ParallelSnapshot> {
    let mix = Mix::of(shape);
    let work = mix.transactions(2, SESSIONS);
    let costs = costs(PRIVATE, mix.updates().max(1.0));
    Deployment { region: Some(0), ..deployment(2, work, costs) }
}

/// Measures figure 16.
fn base(settings: &mut Settings<'_>) -> Found {
    let window = long_window(settings);
    let mut rows = Vec::new();
    for (x, shape, name, paper, rival) in
        [(0.0, Shape::Reads(1), "read", 72.0, 80.0), (1.0, Shape::Writes(1), "write", 33.5, 32.0)]
    {
        settings.say(name);
        let deployment = at_one_of_two_sites(shape);
        let runs = settings.measure(|seed| run(&deployment, seed, window));
        let row = runs.row("Walter", x, THOUSANDS, thousands).at(name);
        let of_rival = row.ours / rival;
        rows.push(Row { paper: Some(paper), ..row });
        rows.push(Row::exact("Walter ÷ the paper's Berkeley DB", x, "×", of_rival).at(name));
    }
    let headline = Headline {
        what: "transactions that write one object".to_owned(),
        paper: Some(33.5),
        paper_range: None,
        ours: defined(rows[2].ours),
        unit: THOUSANDS.into(),
    };
    let deviations = vec![
        "The costs are fitted to this figure and to the next: 25 µs a request and 29 µs more for a commit that writes on EC2, and 0.55 of that on \
         the private cluster, which allows 72.7 and 33.7 thousand a second. The figure shows that nothing else is in the way."
            .to_owned(),
        "Berkeley DB is not measured: its numbers, 80 and 32 thousand a second, are the paper's.".to_owned(),
        "256 clients wait for one sync, are told together and come again half a millisecond later, which leaves a server idle for 7% of the time where it writes."
            .to_owned(),
        "Objects that are read were never written: what a request costs does not depend on what it finds."
            .to_owned(),
    ];
    Found { headline, rows, bounds: Vec::new(), deviations }
}

/// A line of figure 17.
struct Line {
    name: &'static str,
    mix: Mix,
    /// At four sites.
    paper: Option<f64>,
}

fn lines() -> [Line; 5] {
    let line = |name, shape, paper| Line { name, mix: Mix::of(shape), paper };
    let mixed = Mix::shares(&[(Shape::Reads(1), 9), (Shape::Writes(5), 1)]);
    [
        line("read 1", Shape::Reads(1), Some(157.0)),
        line("read 5", Shape::Reads(5), None),
        line("write 1", Shape::Writes(1), Some(52.0)),
        line("write 5", Shape::Writes(5), None),
        Line { name: "90% read 1, 10% write 5", mix: mixed, paper: Some(80.0) },
    ]
}

/// So many sites that run transactions of a mix.
fn at_sites(mix: &Mix, sites: usize) -> Deployment<ParallelSnapshot> {
    deployment(sites, mix.transactions(sites, SESSIONS), costs(1.0, mix.updates().max(1.0)))
}

/// How far the slowest site is behind at the end, in milliseconds of what the site commits of which it lacks most. Such a share of transactions
/// writes.
fn behind_ms(
    deployment: &Deployment<ParallelSnapshot>,
    writing: f64,
    seed: u64,
    window: Window,
) -> (Measured, f64) {
    let sites = deployment.sites();
    let (measured, world) = run_and_look(deployment, seed, window);
    let machine = |site: usize| world.server(site).map(|server| server.machine());
    let rate = (measured.throughput() * writing / sites as f64).max(1.0);
    let mut behind = 0.0_f64;
    for from in 0..sites {
        let Some(origin) = machine(from) else { continue };
        let committed = origin.committed().of(origin.site());
        for to in (0..sites).filter(|to| *to != from) {
            let received = machine(to).map_or(0, |there| there.histories().received().of(origin.site()));
            behind = behind.max((committed - received) as f64 / rate * 1_000.0);
        }
    }
    (measured, behind)
}

/// Measures figure 17.
fn by_sites(settings: &mut Settings<'_>) -> Found {
    let (short, long) = (window(settings), long_window(settings));
    let (mut rows, mut reads) = (Vec::new(), Vec::new());
    let (mut arithmetic, mut of_the_paper, mut lags) = (Vec::new(), Vec::new(), Vec::new());
    for Line { name, mix, paper } in lines() {
        for sites in 1..=SITES {
            settings.say(&format!("{name}, {sites} sites"));
            let deployment = at_sites(&mix, sites);
            let window = if name == "read 1" { short } else { long };
            let runs = settings.measure(|seed| run(&deployment, seed, window));
            let row = runs.row(name, sites as f64, THOUSANDS, thousands);
            if name == "read 1" {
                reads.push(row.ours);
            }
            rows.push(Row { paper: paper.filter(|_| sites == SITES), ..row });
        }
        if mix.updates() > 0.0 {
            settings.say(&format!("{name}, {SITES} sites, narrow links"));
            let narrow = Deployment { bandwidth: Some(BANDWIDTH), ..at_sites(&mix, SITES) };
            let mut behind = Vec::new();
            settings.measure(|seed| {
                let (measured, lag) = behind_ms(&narrow, mix.writing(), seed, long);
                behind.push(lag);
                measured
            });
            let unit = "ms that the slowest site is behind at the end, with links of 22 Mbit/s";
            let row = Row::new("four sites", lags.len() as f64, unit, &behind).at(name);
            lags.push(format!("{name} {:.0}", Shown(row.ours)));
            rows.push(row);
        }
        arithmetic.push(format!("{name} {:.1}", mix.expected(SITES)));
        of_the_paper.push(format!("{name} {:.1}", mix.expected_of_the_paper(SITES)));
    }
    let ours = reads[SITES - 1] / reads[0];
    let headline = Headline {
        what: "reads, four sites ÷ one".to_owned(),
        paper: Some(4.0),
        paper_range: None,
        ours: defined(ours),
        unit: "×".into(),
    };
    let bounds = vec![Bound::at_least("reads, four sites ÷ one", 3.8, ours, "×")];
    let deviations = vec![
        format!(
            "By the costs that fit the paper's single accesses, the processors of four sites do, in thousands a second: {}. Here what is written \
             goes along with the commit, in one request; a request for each update allows: {}. The paper prints a chart, and in its text the numbers \
             of one object and of the mix.",
            arithmetic.join(", "),
            of_the_paper.join(", ")
        ),
        format!(
            "Links carry whatever there is at once, so that what is counted is the work of processors, that for other sites included. With links of 22 Mbit a \
             second, at the end of the window the site that lacks most is behind by so many milliseconds of what another one has committed: {}. Half a round \
             trip and a batch are 144; where it is much more, processors commit more than 22 Mbit a second carry to each site, and the rest of it \
             arrives later and later. Commits do not wait for that.",
            lags.join(", ")
        ),
        "Reads of five objects ask for one after the other.".to_owned(),
        "Objects that are read in transactions that only read were mostly never written: what a request costs does not depend on what it finds."
            .to_owned(),
    ];
    Found { headline, rows, bounds, deviations }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window::millis(600, 60);

    /// A server that writes waits for half a millisecond of every eight, once all its clients were told of a sync.
    #[test]
    fn one_site_does_what_its_processor_allows() {
        for (shape, expected, missing) in [(Shape::Reads(1), 72.7, 0.03), (Shape::Writes(1), 33.7, 0.1)] {
            let measured = thousands(&run(&at_one_of_two_sites(shape), 1, Window::millis(600, 240)));
            let ratio = measured / expected;
            assert!(ratio > 1.0 - missing && ratio < 1.02, "{shape:?}: {measured}");
        }
    }

    #[test]
    fn sites_add_up_as_their_costs_allow() {
        for Line { name, mix, .. } in lines() {
            let measured = run(&at_sites(&mix, 2), 1, WINDOW);
            let (ours, expected) = (thousands(&measured), mix.expected(2));
            assert!((ours / expected - 1.0).abs() < 0.1, "{name}: {ours}, and {expected} by arithmetic");
            assert!(measured.abort_rate() < 0.01, "{name}: nobody is in the way of writes");
        }
    }

    #[test]
    fn other_sites_are_half_a_round_trip_behind() {
        let mix = Mix::of(Shape::Writes(1));
        let few = deployment(2, mix.transactions(2, 4), costs(1.0, mix.updates()));
        let (_, behind) = behind_ms(&few, 1.0, 1, Window::millis(600, 400));
        assert!((41.0..70.0).contains(&behind), "{behind} ms");
    }
}
