//! Hunting planted bugs: how many seeds it takes until one is noticed, and by which invariant.
//!
//! A plant that no seed catches means that a rule of the protocol is not guarded: the simulation would not notice if it
//! were broken. So every plant must be caught, by a violated invariant that knows nothing of plants.

use serde::Serialize;

use crate::options::Options;
use crate::report::{Report, SeedReport, Violation};
use crate::run::run_seed;
use crate::system::Planted;

/// The result of the hunt for a planted bug.
#[derive(Clone, Debug, Serialize)]
pub struct Hunt {
    /// The id of the plant.
    pub plant: &'static str,
    /// Its effect, in a sentence.
    pub what: &'static str,
    /// The faults that were injected.
    pub faults: String,
    /// How many seeds were run, up to the one that caught it.
    pub seeds: u64,
    /// How it was caught; none if it was not.
    pub caught: Option<Violation>,
}

/// Runs seeds with a planted bug until one violates an invariant that holds for it without the bug.
///
/// Every run with the bug happens inside `aside`, which returns what it runs: there a machine may well panic, which is one of
/// the ways to be caught, and the caller may not want to see more of that than what the report says.
pub fn hunt(
    plant: &Planted,
    options: &Options,
    aside: impl Fn(&dyn Fn() -> SeedReport) -> SeedReport,
) -> Hunt {
    let sound =
        Options { system: plant.system, plant: None, variants: false, repeat_every: 0, ..options.clone() };
    let options = Options { plant: Some(plant.clone()), ..sound.clone() };
    let faults = options.faults.to_string();
    let mut hunt = Hunt { plant: plant.id, what: plant.what, faults, seeds: 0, caught: None };
    for seed in options.seeds.clone() {
        hunt.seeds += 1;
        let caught = violation(&aside(&|| run_seed(seed, &options, None).report), &options);
        // A seed that fails without the plant as well says nothing about the plant.
        if caught.is_some() && violation(&run_seed(seed, &sound, None).report, &sound).is_none() {
            hunt.caught = caught;
            break;
        }
    }
    hunt
}

/// The first violated invariant of a seed. That a history cannot be judged is no such thing.
pub fn violation(seed: &SeedReport, options: &Options) -> Option<Violation> {
    let mut report = Report::new(options);
    report.add(seed, &options.repeat_arguments(seed.seed));
    report.violations.into_iter().find(|violation| violation.anomaly != "unknown")
}
