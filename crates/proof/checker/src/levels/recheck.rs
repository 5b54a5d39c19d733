//! A model for levels that are more than the absence of a cycle.

use crate::dependencies::{Chain, Edge};
use crate::levels::search::Model;

/// A model that judges the whole history anew with every addition.
pub(crate) struct Recheck<F> {
    holds: F,
    edges: Vec<Edge>,
    steps: u64,
    steps_per_check: u64,
}

impl<F: Fn(&[Edge]) -> bool> Recheck<F> {
    /// `holds` says whether the level holds with further edges, in so many steps.
    pub(crate) fn new(steps_per_check: u64, holds: F) -> Self {
        Recheck { holds, edges: Vec::new(), steps: 0, steps_per_check }
    }
}

impl<F: Fn(&[Edge]) -> bool> Model for Recheck<F> {
    fn try_add(&mut self, edges: &[Edge]) -> bool {
        let mark = self.edges.len();
        self.steps += self.steps_per_check;
        self.edges.extend_from_slice(edges);
        let holds = (self.holds)(&self.edges);
        if !holds {
            self.edges.truncate(mark);
        }
        holds
    }

    fn mark(&self) -> usize {
        self.edges.len()
    }

    fn undo(&mut self, mark: usize) {
        self.edges.truncate(mark);
    }

    fn place(&self, chain: &Chain) -> u32 {
        chain.zone
    }

    fn steps(&self) -> u64 {
        self.steps
    }
}
