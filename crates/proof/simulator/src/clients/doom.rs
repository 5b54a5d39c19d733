//! Clients that vanish at the worst moment.

use std::time::Duration;

use super::Clients;
use crate::cluster::{Alarm, Cluster};
use crate::fault::Fault;
use crate::injector::Strike;
use crate::system::System;

/// A moment at which a client is to vanish: when the decision may not have reached anybody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doom {
    /// Right after a commit has been acknowledged.
    Commit,
    /// Right after the commit of a transaction that was prepared more than once.
    RetriedCommit,
}

impl Clients {
    /// A client vanishes now, or at a worse moment to come.
    pub fn doom<S: System>(&mut self, slot: usize, cluster: &mut Cluster<S>) {
        match self.random.below(5) {
            0 => self.crash(slot, cluster),
            1 | 2 => self.slots[slot].doom = Some(Doom::Commit),
            _ => self.slots[slot].doom = Some(Doom::RetriedCommit),
        }
    }

    /// A transaction that a client leaves behind is in danger until a backup coordinator has settled it, so that is when replicas fail too.
    pub(super) fn make_worse<S: System>(&mut self, cluster: &mut Cluster<S>) {
        const WORSE: [Fault; 4] =
            [Fault::NodeCrashes, Fault::PowerLoss, Fault::EmptyDisks, Fault::Partitions];
        let drawn: Vec<Fault> = WORSE.into_iter().filter(|fault| cluster.scenario.has(*fault)).collect();
        if !drawn.is_empty() && self.random.chance(0.5) {
            let fault = drawn[self.random.index(drawn.len())];
            let after =
                (2 * cluster.scenario.round_trip() + Duration::from_millis(20)).mul_f64(self.random.unit());
            cluster.world.set_alarm(after, Alarm::Strike(Strike::Follow(fault)));
        }
    }

    /// A commit has been acknowledged, of a transaction that was prepared more than once or not: a client that was to vanish then
    /// does.
    pub(super) fn meet_doom<S: System>(&mut self, slot: usize, was_retried: bool, cluster: &mut Cluster<S>) {
        let is_doomed = match self.slots[slot].doom {
            Some(Doom::Commit) => true,
            Some(Doom::RetriedCommit) => was_retried,
            None => false,
        };
        if is_doomed {
            self.crash(slot, cluster);
        }
    }
}
