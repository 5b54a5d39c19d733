//! Clients of a shard that is lost for good: applications give up its keys, and the history says of transactions that touch it only as much as is promised.
//!
//! Until the loss everything is judged as ever. A transaction that touches the shard afterwards, or is acknowledged without that another shard has agreed on it before the shard is gone, may
//! or may not have happened on the other shards, as one transaction: its outcome is unknown to the history of these. Nothing is said of the keys of the shard.

use std::collections::BTreeSet;

use quorate_checker::{Key, MicroOp, RecordedTxn, Recorder};
use quorate_core::command::Outcome;
use quorate_core::{Random, ShardId, TransactionId};
use quorate_workloads::key::in_history;
use quorate_workloads::{Operation, Plan};

use super::attempt::Attempt;
use super::{Clients, Session, Work};
use crate::cluster::Cluster;
use crate::fault::Fault;
use crate::system::System;

/// So often an application still asks for what touches a shard that is lost, while faults strike.
const STUBBORN: f64 = 0.15;

/// How often another transaction is drawn that does not touch it.
const DRAWS_MAX: u32 = 50;

/// The acknowledged transactions, which may touch a shard that is lost later.
#[derive(Debug)]
pub(super) struct LostShard {
    random: Random,
    acknowledged: Vec<Acknowledgement>,
}

#[derive(Debug)]
struct Acknowledgement {
    id: TransactionId,
    recorded: RecordedTxn,
    shards: BTreeSet<ShardId>,
    ops: Vec<MicroOp>,
}

impl LostShard {
    pub(super) fn new(seed: u64) -> Self {
        LostShard { random: Random::stream(seed, "clients of a lost shard"), acknowledged: Vec::new() }
    }
}

/// The shards that a plan touches: all, if it reads a range.
fn shards_of<S: System>(plan: &Plan, cluster: &Cluster<S>) -> BTreeSet<ShardId> {
    let of_operation = |operation: &Operation| match operation {
        Operation::Scan(_) => cluster.shards(),
        Operation::Get(key) => vec![cluster.shard_of(key)],
        other => other.key_written().map(|key| cluster.shard_of(key)).into_iter().collect(),
    };
    plan.operations.iter().flat_map(of_operation).collect()
}

impl Attempt {
    /// The shards that it touches.
    pub(super) fn shards<S: System>(&self, cluster: &Cluster<S>) -> BTreeSet<ShardId> {
        let one_round = self.one_round.iter().flat_map(|one_round| one_round.participants());
        one_round.chain(shards_of(self.execution.plan(), cluster)).collect()
    }

    /// True if it touches a shard that is lost for good.
    pub(super) fn touches_lost<S: System>(&self, cluster: &Cluster<S>) -> bool {
        let lost = cluster.shard_losses.lost();
        lost.is_some_and(|lost| self.shards(cluster).contains(&lost.shard))
    }
}

impl Clients {
    /// An attempt was acknowledged, with these operations.
    pub(super) fn note_acknowledged<S: System>(
        &mut self,
        attempt: &Attempt,
        ops: &[MicroOp],
        cluster: &Cluster<S>,
    ) {
        if cluster.scenario.has(Fault::ShardLoss) {
            let (id, recorded, shards) = (attempt.id, attempt.recorded, attempt.shards(cluster));
            self.lost_shard.acknowledged.push(Acknowledgement { id, recorded, shards, ops: ops.to_vec() });
        }
    }

    /// True if an application does not ask for a plan, because it touches what is lost for good. Some do all the same, as long as faults strike.
    fn gives_up_on<S: System>(&mut self, plan: &Plan, cluster: &Cluster<S>) -> bool {
        let Some(lost) = cluster.shard_losses.lost() else { return false };
        let is_stubborn = !cluster.losses.is_steady && self.lost_shard.random.chance(STUBBORN);
        !is_stubborn && shards_of(plan, cluster).contains(&lost.shard)
    }

    /// A plan of the workload that does not touch what is lost, in place of one that does; that one, if none is found soon.
    pub(super) fn draw_what_is_left<S: System>(
        &mut self,
        slot: usize,
        plan: Plan,
        cluster: &Cluster<S>,
    ) -> Plan {
        let mut plan = plan;
        for _ in 0..DRAWS_MAX {
            if !self.gives_up_on(&plan, cluster) {
                break;
            }
            plan = self.slots[slot].workload.draw(&mut self.lost_shard.random);
        }
        plan
    }

    /// True if a session does not try again what it is at.
    pub(super) fn is_in_vain<S: System>(&self, session: usize, cluster: &Cluster<S>) -> bool {
        let Session { current, work, .. } = &self.sessions[session];
        let Some(lost) = cluster.shard_losses.lost() else { return false };
        let touches = |plan: &Plan| shards_of(plan, cluster).contains(&lost.shard);
        matches!(work, Work::Drawn) && current.as_ref().is_some_and(|(plan, ..)| touches(plan))
    }

    /// The transactions that were acknowledged and of which nobody promises that the other shards have executed them.
    fn without_promise<S: System>(&self, cluster: &Cluster<S>) -> Vec<&Acknowledgement> {
        let Some(lost) = cluster.shard_losses.lost() else { return Vec::new() };
        let is_promised =
            |known: &&Acknowledgement| known.shards.contains(&lost.shard) && !lost.kept.contains(&known.id);
        self.lost_shard.acknowledged.iter().filter(is_promised).collect()
    }

    /// Leaves out what nobody promises of the appends that must be there at the end, and of the outcomes that clients were told.
    pub(crate) fn forget_lost_shard<S: System>(&mut self, cluster: &Cluster<S>) {
        if cluster.shard_losses.lost().is_none() {
            return;
        }
        let open = self.without_promise(cluster);
        let ids: BTreeSet<TransactionId> = open.iter().map(|known| known.id).collect();
        let ops = open.iter().flat_map(|known| &known.ops);
        let appended: BTreeSet<(Key, i64)> = ops.filter_map(appended).collect();
        let is_lost = self.lost_keys(cluster);
        self.acknowledged.retain(|append| !appended.contains(append) && !is_lost.contains(&append.0));
        self.told.retain(|(id, outcome)| !(ids.contains(id) && matches!(outcome, Outcome::Committed(_))));
    }

    /// The keys of the shard that is lost, as histories spell them.
    fn lost_keys<S: System>(&self, cluster: &Cluster<S>) -> BTreeSet<Key> {
        let Some(lost) = cluster.shard_losses.lost() else { return BTreeSet::new() };
        let generations = self.slots.iter().map(|slot| slot.workload.generations()).max().unwrap_or(1);
        let keys = (0..generations).flat_map(|generation| self.slots[0].workload.universe(generation));
        let keys = keys.chain(self.promises.keys().iter().cloned());
        keys.filter(|key| cluster.shard_of(key) == lost.shard).map(|key| in_history(&key)).collect()
    }

    /// A history as far as something is promised of it: up to the loss of a shard, and of all other shards until the end. Nothing, if no shard is lost.
    pub(crate) fn promised<S: System>(
        &self,
        history: &Recorder,
        cluster: &Cluster<S>,
    ) -> Option<Vec<Recorder>> {
        if let Some(parts) = self.promised_after_acceptance(history, cluster) {
            return Some(parts);
        }
        let lost = cluster.shard_losses.lost()?;
        let keys = self.lost_keys(cluster);
        let open: BTreeSet<RecordedTxn> =
            self.without_promise(cluster).iter().map(|known| known.recorded).collect();
        let before = history.until(lost.since.as_nanos() as i64);
        let left = history.about(|key| !keys.contains(key), |txn| open.contains(&txn));
        // A shard may be lost before anything has begun.
        Some([before, left].into_iter().filter(|part| part.event_count() > 0).collect())
    }
}

fn appended(op: &MicroOp) -> Option<(Key, i64)> {
    match op {
        MicroOp::Append(key, element) | MicroOp::Add(key, element) => Some((key.clone(), *element)),
        MicroOp::Write(..) | MicroOp::Remove(..) | MicroOp::Read(..) => None,
    }
}
