//! Clients of a group that has lost more than it survives, and goes on with what is left: what histories are promised then.
//!
//! Up to the loss everything is judged as ever. Of what touches the group and has begun before an operator has accepted the loss, nothing is promised as a whole: each
//! of its writes may or may not have happened, at any time after it was asked for. All else is judged as ever: what has begun later, and what touches other groups
//! alone. And what the survivors knew to be committed is not lost.

use std::collections::BTreeSet;

use quorate_checker::{Key, MicroOp, RecordedTxn, Recorder};
use quorate_core::{Instant, ShardId, TransactionId};

use super::Clients;
use super::attempt::Attempt;
use crate::accepted_loss::Loss;
use crate::cluster::Cluster;
use crate::fault::Fault;
use crate::system::System;

/// The attempts that have begun, where a loss may be accepted.
#[derive(Debug, Default)]
pub(super) struct Begun(Vec<Beginning>);

#[derive(Debug)]
struct Beginning {
    id: TransactionId,
    recorded: RecordedTxn,
    shards: BTreeSet<ShardId>,
    at: Instant,
    /// The values that it has appended, once that was acknowledged.
    appended: Vec<(Key, i64)>,
}

impl Beginning {
    /// True if nothing is promised of it.
    fn is_void(&self, loss: &Loss) -> bool {
        let is_touched = !self.shards.is_disjoint(&loss.groups);
        is_touched && loss.accepted.is_none_or(|accepted| self.at <= accepted)
    }

    /// True if survivors of each group that it touches and that has lost too much knew that it is committed.
    fn is_kept(&self, loss: &Loss) -> bool {
        let knows = |shard: &ShardId| loss.kept.get(shard).is_some_and(|kept| kept.contains(&self.id));
        self.shards.intersection(&loss.groups).all(knows)
    }
}

impl Begun {
    /// An attempt begins.
    pub(super) fn note<S: System>(&mut self, attempt: &Attempt, cluster: &Cluster<S>) {
        if cluster.scenario.has(Fault::AcceptedLoss) {
            let (id, recorded, shards) = (attempt.id, attempt.recorded, attempt.shards(cluster));
            self.0.push(Beginning { id, recorded, shards, at: cluster.world.now(), appended: Vec::new() });
        }
    }

    /// An attempt was acknowledged, with these operations.
    pub(super) fn acknowledge(&mut self, id: TransactionId, ops: &[MicroOp]) {
        if let Some(beginning) = self.0.iter_mut().find(|beginning| beginning.id == id) {
            beginning.appended = ops
                .iter()
                .filter_map(|op| match op {
                    MicroOp::Append(key, element) => Some((key.clone(), *element)),
                    _ => None,
                })
                .collect();
        }
    }
}

impl Clients {
    /// The transactions that have begun, where a loss may be accepted.
    pub(crate) fn begun(&self) -> BTreeSet<TransactionId> {
        self.begun.0.iter().map(|beginning| beginning.id).collect()
    }

    fn void<'a>(&'a self, loss: &'a Loss) -> impl Iterator<Item = &'a Beginning> {
        self.begun.0.iter().filter(|beginning| beginning.is_void(loss))
    }

    /// True if nothing is promised of a transaction, because a group that it touches has lost more than it survives.
    pub(crate) fn is_void<S: System>(&self, id: TransactionId, cluster: &Cluster<S>) -> bool {
        let loss = cluster.accepted_losses.loss();
        loss.is_some_and(|loss| self.void(loss).any(|beginning| beginning.id == id))
    }

    /// Leaves out what nobody promises of the appends that must be there at the end, and of the outcomes that clients were told.
    pub(crate) fn forget_accepted_loss<S: System>(&mut self, cluster: &Cluster<S>) {
        let Some(loss) = cluster.accepted_losses.loss() else { return };
        let lost: BTreeSet<(Key, i64)> = self
            .void(loss)
            .filter(|beginning| !beginning.is_kept(loss))
            .flat_map(|beginning| beginning.appended.iter().cloned())
            .collect();
        let void: BTreeSet<TransactionId> = self.void(loss).map(|beginning| beginning.id).collect();
        self.acknowledged.retain(|append| !lost.contains(append));
        self.told.retain(|(id, _)| !void.contains(id));
    }

    /// A history as far as something is promised of it: up to a loss that was accepted, and all of it with what is void in pieces. Nothing, if there was
    /// no such loss.
    pub(super) fn promised_after_acceptance<S: System>(
        &self,
        history: &Recorder,
        cluster: &Cluster<S>,
    ) -> Option<Vec<Recorder>> {
        let loss = cluster.accepted_losses.loss()?;
        let void: BTreeSet<RecordedTxn> = self.void(loss).map(|beginning| beginning.recorded).collect();
        let before = history.until(loss.since.as_nanos() as i64);
        let whole = history.in_pieces(|txn| void.contains(&txn));
        // A group may lose its disks before anything has begun.
        Some([before, whole].into_iter().filter(|part| part.event_count() > 0).collect())
    }

    /// The history as far as each commit in it has a timestamp.
    pub(crate) fn stamped<S: System>(&self, cluster: &Cluster<S>) -> Recorder {
        match cluster.accepted_losses.loss() {
            Some(loss) => self.recorder.until(loss.since.as_nanos() as i64),
            None => self.recorder.clone(),
        }
    }
}
