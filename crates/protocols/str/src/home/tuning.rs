//! How much a node speculates: what its variant allows, and its tuner finds worth while (section 6.7).

use quorate_core::Instant;
use quorate_core::hosted::Speculating;

use super::{Counts, Home};
use crate::config::Shows;
use crate::machine::{Out, ReplicaTimer};
use crate::tuner::{Degree, Ended, Tuner};

impl Home {
    /// Begins to tune, if this is configured.
    pub(super) fn start_tuning(&mut self, now: Instant, outbox: &mut Out) {
        let Some(config) = self.config.tuner.clone() else { return };
        match Tuner::new(config, now) {
            Ok(tuner) => {
                outbox.set_timer(ReplicaTimer::Tune, tuner.next_tick() - now);
                self.tuner = Some(Box::new(tuner));
            }
            Err(error) => unreachable!("configurations of tuners are validated before: {error}"),
        }
    }

    /// The window of the tuner ends.
    pub(crate) fn on_tune(&mut self, now: Instant, outbox: &mut Out) {
        let Some(tuner) = &mut self.tuner else { return };
        tuner.on_tick(now);
        outbox.set_timer(ReplicaTimer::Tune, tuner.next_tick() - now);
    }

    /// The degree that transactions which begin or commit now may go to.
    fn degree(&self) -> Degree {
        let tuned = self.tuner.as_ref().filter(|tuner| tuner.has_load());
        tuned.map_or(self.greatest_degree(), |tuner| tuner.degree())
    }

    /// The degree that the variant allows.
    fn greatest_degree(&self) -> Degree {
        let variant = self.config.variant;
        match variant.shows {
            Shows::Chain(length) => Degree::chains(length).unwrap_or(Degree::HIGHEST),
            _ if variant.reads_speculatively => Degree::READS,
            _ => Degree::NONE,
        }
    }

    /// True if transactions may read from others of this node that are not final.
    pub(super) fn reads_speculatively(&self) -> bool {
        self.config.variant.reads_speculatively && self.degree().reads_speculatively()
    }

    /// The results that clients may be shown.
    pub(super) fn shows(&self) -> Shows {
        match self.config.variant.shows {
            Shows::Chain(length) => match length.min(self.degree().chain_max()) {
                0 => Shows::Nothing,
                length => Shows::Chain(length),
            },
            fixed => fixed,
        }
    }

    /// A transaction has become final, or its client has given it up.
    pub(super) fn tell_tuner(&mut self, ended: Ended) {
        if let Some(tuner) = &mut self.tuner {
            tuner.on_ended(ended);
        }
    }

    /// The ends of the transactions of this node, and how much they speculate.
    pub(crate) fn speculating(&self) -> Speculating {
        let Counts { finals, aborts, apologies, shown, speculative_reads, cascades, mixed: _, passed } =
            self.counts;
        let tuning = self.tuner().map(|tuner| tuner.tuning(self.degree()));
        Speculating { finals, aborts, shown, apologies, speculative_reads, cascades, passed, tuning }
    }

    pub(crate) fn tuner(&self) -> Option<&Tuner> {
        self.tuner.as_deref()
    }
}
