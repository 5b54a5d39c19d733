//! Which experiments there are.

use std::ops::RangeInclusive;

use crate::load::Measured;
use crate::one_round::{coordination, trade};
use crate::report::{Found, Report, Runs};
use crate::speculation::{self, auction, clocks, degrees, synthetic};
use crate::walter::{commits, durability, retwis, social, throughput};
use crate::workers::Workers;
use crate::{contention, deadlines, environments, peaks, regions, skew, tuning};

/// An experiment that can be run by its name.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name: the paper and the number of the figure or table, or a name of our own.
    pub name: &'static str,
    /// Its subject, in a sentence.
    pub what: &'static str,
    /// The quantity of its x axis, with the unit; none where the places of the axis have names.
    pub x: Option<&'static str>,
    pub(crate) run: fn(&mut Settings<'_>) -> Found,
}

/// How an experiment is run.
pub struct Settings<'a> {
    /// True for a smaller run of the same shape.
    pub quick: bool,
    /// Told what is measured next, or has been.
    pub progress: &'a mut dyn FnMut(&str),
    /// Does the runs that do not depend on each other.
    pub workers: &'a dyn Workers,
}

impl Settings<'_> {
    /// The seeds that every point is measured with.
    pub fn seeds(&self) -> RangeInclusive<u64> {
        1..=if self.quick { 3 } else { 5 }
    }

    /// Measures a point.
    pub fn measure(&self, one: impl FnMut(u64) -> Measured) -> Runs {
        Runs::new(self.seeds(), one)
    }

    /// Measures points with the first so many seeds. Runs are done side by side, each where it was built, and a point is told whenever one of its runs has ended.
    pub(crate) fn measure_all<P: Sync>(
        &mut self,
        seeds: u64,
        points: &[P],
        name: impl Fn(&P) -> String,
        one: impl Fn(&P, u64) -> Measured + Sync,
    ) -> Vec<Runs> {
        let runs: Vec<(&P, u64)> =
            points.iter().flat_map(|point| (1..=seeds).map(move |seed| (point, seed))).collect();
        let run = |at: usize| one(runs[at].0, runs[at].1);
        let mut ended = |at: usize| (self.progress)(&format!("{}, seed {}", name(runs[at].0), runs[at].1));
        let mut all = self.workers.run(runs.len(), &run, &mut ended).into_iter();
        points.iter().map(|_| Runs::from(all.by_ref().take(seeds as usize).collect::<Vec<_>>())).collect()
    }

    pub(crate) fn say(&mut self, what: &str) {
        (self.progress)(what);
    }
}

impl Experiment {
    /// Every experiment.
    pub const ALL: [Experiment; 31] = [
        contention::EXPERIMENT,
        deadlines::EXPERIMENT,
        environments::EXPERIMENT,
        coordination::BASE,
        coordination::SCALABILITY,
        coordination::DISTRIBUTED,
        coordination::OVERHEAD,
        coordination::CONFLICTS,
        coordination::BENEATH,
        trade::SCALABILITY,
        trade::NEW_ORDERS,
        peaks::MICRO,
        peaks::LATENCY,
        peaks::RETWIS,
        regions::EXPERIMENT,
        skew::EXPERIMENT,
        synthetic::EXPERIMENT,
        degrees::EXPERIMENT,
        speculation::trade::EXPERIMENT,
        auction::EXPERIMENT,
        clocks::EXPERIMENT,
        tuning::EXPERIMENT,
        throughput::BASE,
        throughput::SITES_UP,
        commits::FAST,
        commits::SETS,
        durability::FAST,
        durability::SLOW,
        social::THROUGHPUT,
        social::LATENCY,
        retwis::EXPERIMENT,
    ];

    /// The experiment of this name.
    pub fn named(name: &str) -> Option<Experiment> {
        Experiment::ALL.into_iter().find(|experiment| experiment.name == name)
    }

    /// Runs it. The same settings give the same report.
    pub fn run(&self, settings: &mut Settings<'_>) -> Report {
        let found = (self.run)(settings);
        Report::new(self, found, *settings.seeds().start(), settings.quick)
    }
}
