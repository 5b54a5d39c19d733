//! The runs of an experiment, on all processors.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use quorate_experiments::Workers;
use quorate_experiments::load::Measured;

/// So many threads, each of which does one run after the other.
pub(super) struct Threads(pub(super) usize);

impl Threads {
    /// One for each processor.
    pub(super) fn of_processors() -> Self {
        Threads(thread::available_parallelism().map_or(1, NonZeroUsize::get))
    }
}

impl Workers for Threads {
    fn run(
        &self,
        runs: usize,
        run: &(dyn Fn(usize) -> Measured + Sync),
        ended: &mut dyn FnMut(usize),
    ) -> Vec<Measured> {
        let mut results: Vec<Option<Measured>> = vec![None; runs];
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            for _ in 0..self.0.min(runs) {
                let (sender, next) = (sender.clone(), &next);
                scope.spawn(move || {
                    // Nothing but the number itself is shared through it.
                    let numbers = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
                    for at in numbers.take_while(|at| *at < runs) {
                        // The receiver goes only once all senders have gone.
                        let _ = sender.send((at, run(at)));
                    }
                });
            }
            // The loop ends once the last thread has dropped its own.
            drop(sender);
            for (at, measured) in receiver {
                results[at] = Some(measured);
                ended(at);
            }
        });
        let results: Vec<Measured> = results.into_iter().flatten().collect();
        assert_eq!(
            results.len(),
            runs,
            "the scope panics where a thread has, and all others have done their runs"
        );
        results
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_their_numbers_on_any_number_of_threads() {
        let run = |at: usize| Measured { committed: at as u64, ..Measured::default() };
        for threads in [1, 2, 7, 100] {
            for runs in [0, 1, 50] {
                let mut told = Vec::new();
                let results = Threads(threads).run(runs, &run, &mut |at| told.push(at));
                let numbers: Vec<u64> = results.iter().map(|result| result.committed).collect();
                assert_eq!(numbers, (0..runs as u64).collect::<Vec<u64>>());
                told.sort_unstable();
                assert_eq!(told, (0..runs).collect::<Vec<usize>>());
            }
        }
    }
}
