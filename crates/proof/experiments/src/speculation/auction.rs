//! `str-fig6`: RUBiS over clients (STR paper, section 8.2).

use quorate_core::Random;
use quorate_procedure::Pair;
use quorate_rubis::{Generator, Mix, Scale, population as first};

use super::climb::Climbs;
use super::population::{FIRST, Population};
use super::transactions::{Application, Auction};
use super::{Geography, SITES, SLOWER, STRETCH, System, parameters};
use crate::catalogue::{Experiment, Settings};
use crate::load::Window;
use crate::report::{Bound, Found, Headline, Shown, defined};

/// In the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: "str-fig6",
    what: "STR and its rivals on RUBiS over clients of each node: throughput, aborts, latencies",
    x: Some("clients of each node"),
    run: experiment,
};

/// The share of a node in the benchmark's population of a million users, 33,667 items and up to twenty bids each.
const SCALE: Scale = Scale { markets: 1, users: 37_000, items: 1_250, bids_max: 20 };

/// The seed of the population.
const SEED: u64 = 6;

/// How much more STR does in the paper than its rivals.
const GAIN: f64 = 1.43;

struct Plan {
    nodes_per_site: usize,
    slower: f64,
    /// Clients of each node, for each system.
    lists: &'static [(System, &'static [usize])],
    window: Window,
}

const QUICK: Plan = Plan {
    nodes_per_site: 1,
    // Fewer transactions saturate a processor, and the run is as much shorter.
    slower: 3.0 * SLOWER,
    lists: &[
        (System::ClockSi, &[50, 150, 200]),
        (System::Planet, &[50, 150, 200]),
        (System::External, &[50, 150, 200]),
    ],
    window: Window::millis(60_000, 8_000),
};

/// The sweep of every system, which leaves it once it has peaked.
const SWEEP: &[usize] = &[10, 50, 100, 150, 200, 250, 300];

const FULL: Plan = Plan {
    nodes_per_site: 1,
    slower: 3.0 * SLOWER,
    lists: &[
        (System::ClockSi, SWEEP),
        (System::Planet, SWEEP),
        (System::Internal, SWEEP),
        (System::External, SWEEP),
    ],
    window: Window::millis(150_000, 10_000),
};

/// The rows of the first market.
fn rows() -> Vec<Pair> {
    let mut random = Random::new(SEED);
    let mut rows = Vec::new();
    first::market(&SCALE, FIRST, 1, &mut || random.next_u64(), &mut |pair| rows.push(pair));
    rows
}

/// A market at each of so many nodes.
pub(super) fn auction(nodes: usize) -> Auction {
    let scale = Scale { markets: nodes as u32, ..SCALE };
    let generator = Generator::new(scale, Mix::default());
    Auction { generator, population: Population::new(nodes, 1, rows()) }
}

fn geography(system: System, auction: &Auction, sessions: usize, plan: &Plan) -> Geography {
    let application = Application::Auction(auction.clone());
    let as_far = Geography::new(plan.nodes_per_site, sessions, system.variant(), application);
    Geography { slower: plan.slower, stretch: STRETCH, ..as_far }
}

/// Measures figure 6.
fn experiment(settings: &mut Settings<'_>) -> Found {
    let plan = if settings.quick { QUICK } else { FULL };
    let auction = auction(SITES * plan.nodes_per_site);
    let mut rows = Vec::new();
    let climbs = Climbs::measure("RUBiS", plan.lists, &mut rows, settings, |system, sessions, seed| {
        geography(system, &auction, sessions, &plan).run(seed, plan.window)
    });
    let what = "RUBiS, peak throughput, STR ÷ the better rival";
    let bounds = vec![Bound::at_least(what, GAIN, climbs.gain_of_str(), "×")];
    let headline = Headline {
        what: what.to_owned(),
        paper: Some(GAIN),
        paper_range: None,
        ours: defined(climbs.gain_of_str()),
        unit: "×".into(),
    };
    let Mix { update_percent, remote_percent } = Mix::default();
    let mut deviations = vec![
        parameters(&geography(System::External, &auction, 1, &plan)),
        format!(
            "Peaks of str-internal and str-external ÷ that of the better rival: {:.2} and {:.2}. The paper stops at 5,000 clients, for want of memory, where STR \
             does {GAIN} times what its rivals do; here each system goes on until further clients bring little more. All run for {} seconds before {} count: most \
             interactions only read, and sessions pile up slowly at those that do not.",
            Shown(climbs.gain(System::Internal)),
            Shown(climbs.gain(System::External)),
            plan.window.warm_up.as_secs(),
            plan.window.measured.as_secs(),
        ),
        format!(
            "{update_percent}% of the interactions update, and {remote_percent}% of those with an item or another user are with one of another market; the latter is \
             not in the paper. A market has {} users and {} items, and counters of its own for new rows, as in the paper. All markets have the same rows at first. \
             Users think for as long as the benchmark's table says.",
            SCALE.users, SCALE.items
        ),
        "Median latencies are those of interactions that only read, which are the most.".to_owned(),
        "Nothing is tuned: str-internal always reads speculatively, and str-external always has chains of eight."
            .to_owned(),
    ];
    deviations.push(climbs.sentence("RUBiS"));
    if settings.quick {
        deviations.push("The quick run has no str-internal, fewer clients, and a shorter time before anything counts, in which fewer sessions pile up.".to_owned());
    }
    Found { headline, rows, bounds, deviations }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every bid of a market takes a number from one counter.
    #[test]
    fn bids_of_a_market_do_not_wait_for_the_last_one_to_be_final() {
        let auction = auction(SITES);
        let run = |system| geography(system, &auction, 200, &QUICK).run(1, Window::millis(3_000, 3_000));
        let [plain, external] = [System::ClockSi, System::External].map(run);
        assert_eq!((plain.passed, external.passed, external.unknown), (0, 0, 0));
        // Users think most of the time, so either system serves nearly all that they ask: the rival by trying again.
        assert!(external.throughput() > 0.95 * plain.throughput(), "{external:?}");
        assert!(external.aborted * 4 < plain.aborted, "{} {}", external.aborted, plain.aborted);
        // One interaction in seven updates.
        let (shown, slow) = (external.perceived_ms(0.9), plain.latency_ms(0.9));
        assert!(shown < slow / 2.0, "{shown} {slow}");
    }
}
