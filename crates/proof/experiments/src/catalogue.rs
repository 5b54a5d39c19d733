//! Which experiments there are.

use std::ops::RangeInclusive;

use crate::one_round::{coordination, trade};
use crate::report::Report;
use crate::{contention, deadlines, environments, peaks, regions, skew, tuning};

/// An experiment that can be run by its name.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name: the paper and the number of the figure or table, or a name of our own.
    pub name: &'static str,
    /// What it shows.
    pub what: &'static str,
    run: fn(&mut Settings<'_>) -> Report,
}

/// How an experiment is run.
pub struct Settings<'a> {
    /// True for a smaller run of the same shape.
    pub quick: bool,
    /// Told what is measured next.
    pub progress: &'a mut dyn FnMut(&str),
}

impl Settings<'_> {
    /// The seeds that every point is measured with.
    pub fn seeds(&self) -> RangeInclusive<u64> {
        1..=if self.quick { 3 } else { 5 }
    }

    /// The first of them.
    pub fn first_seed(&self) -> u64 {
        *self.seeds().start()
    }

    pub(crate) fn say(&mut self, what: &str) {
        (self.progress)(what);
    }
}

impl Experiment {
    /// Every experiment.
    pub const ALL: [Experiment; 17] = [
        Experiment { name: contention::NAME, what: contention::WHAT, run: contention::experiment },
        Experiment { name: deadlines::NAME, what: deadlines::WHAT, run: deadlines::experiment },
        Experiment { name: environments::NAME, what: environments::WHAT, run: environments::experiment },
        Experiment { name: coordination::BASE, what: coordination::BASE_WHAT, run: coordination::base },
        Experiment {
            name: coordination::SCALABILITY,
            what: coordination::SCALABILITY_WHAT,
            run: coordination::scalability,
        },
        Experiment {
            name: coordination::DISTRIBUTED,
            what: coordination::DISTRIBUTED_WHAT,
            run: coordination::distributed,
        },
        Experiment {
            name: coordination::OVERHEAD,
            what: coordination::OVERHEAD_WHAT,
            run: coordination::overhead,
        },
        Experiment {
            name: coordination::CONFLICTS,
            what: coordination::CONFLICTS_WHAT,
            run: coordination::conflicts,
        },
        Experiment {
            name: coordination::BENEATH,
            what: coordination::BENEATH_WHAT,
            run: coordination::beneath,
        },
        Experiment { name: trade::SCALABILITY, what: trade::SCALABILITY_WHAT, run: trade::scalability },
        Experiment { name: trade::NEW_ORDERS, what: trade::NEW_ORDERS_WHAT, run: trade::new_orders },
        Experiment { name: peaks::MICRO, what: peaks::MICRO_WHAT, run: peaks::micro },
        Experiment { name: peaks::LATENCY, what: peaks::LATENCY_WHAT, run: peaks::latency },
        Experiment { name: peaks::RETWIS, what: peaks::RETWIS_WHAT, run: peaks::retwis },
        Experiment { name: regions::NAME, what: regions::WHAT, run: regions::experiment },
        Experiment { name: skew::NAME, what: skew::WHAT, run: skew::experiment },
        Experiment { name: tuning::NAME, what: tuning::WHAT, run: tuning::experiment },
    ];

    /// The experiment of this name.
    pub fn named(name: &str) -> Option<Experiment> {
        Experiment::ALL.into_iter().find(|experiment| experiment.name == name)
    }

    /// Runs it. The same settings give the same report.
    pub fn run(&self, settings: &mut Settings<'_>) -> Report {
        (self.run)(settings)
    }
}
