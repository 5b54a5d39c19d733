//! Runs that do not depend on each other.
//!
//! A run is deterministic and stays where it was built, so the order in which runs are done changes nothing. An experiment leaves that order to its driver, which
//! may have threads.

use crate::load::Measured;

/// Does runs that do not depend on each other.
pub trait Workers {
    /// Does so many runs, each by its number from zero, and gives the results in the order of the numbers. Each run that has ended is told.
    fn run(
        &self,
        runs: usize,
        run: &(dyn Fn(usize) -> Measured + Sync),
        ended: &mut dyn FnMut(usize),
    ) -> Vec<Measured>;
}

/// Does one run after the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct InOrder;

impl Workers for InOrder {
    fn run(
        &self,
        runs: usize,
        run: &(dyn Fn(usize) -> Measured + Sync),
        ended: &mut dyn FnMut(usize),
    ) -> Vec<Measured> {
        let one = |at| {
            let measured = run(at);
            ended(at);
            measured
        };
        (0..runs).map(one).collect()
    }
}
