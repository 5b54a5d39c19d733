//! Broken promises: now and then an application vouches for it that all shards decide alike on a batch, and one of them does not.
//!
//! Such a batch appends to a key that nobody else writes, and requires of a shard where it does nothing else that a key exists
//! which never does. So one shard appends, the other refuses, and what there is in the end is part of what was refused. Nothing is
//! promised about that but the alarm: the client is told that nobody knows, and never that nothing has changed. The history of a
//! client that believes the latter is not serializable.

use std::collections::BTreeSet;
use std::sync::Arc;

use quorate_core::command::Decided;
use quorate_core::topology::Keyspace;
use quorate_core::{Key, ShardId, TransactionId};
use quorate_serializable_shard::operation::Condition;
use quorate_workloads::key::slotted;
use quorate_workloads::{Operation, Plan};

use super::Clients;
use super::script::Manner;
use crate::cluster::Cluster;
use crate::system::System;

/// So often what a session does next is such a batch, where there are several shards.
const PROBABILITY: f64 = 0.02;

/// The beginning of its keys; those of workloads never begin so.
const KEYS: u8 = b'p';

/// Clients were told so often that shards had decided differently.
pub(super) const ALARM: &str = "alarm that shards had decided differently";

/// The consequences of broken promises.
#[derive(Debug, Default)]
pub struct Promises {
    /// The keys that were written, in vain or not.
    keys: Vec<Key>,
    /// The shard that refuses its part of a transaction, and so knows of another outcome than the others.
    refusing: BTreeSet<(TransactionId, ShardId)>,
    /// How often it was found out.
    alarms: u64,
}

impl Promises {
    /// False if a shard decides on this transaction by itself.
    pub fn bind(&self, transaction: TransactionId, shard: ShardId) -> bool {
        !self.refusing.contains(&(transaction, shard))
    }

    /// The keys that nobody reads until the end.
    pub(super) fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// This shard will refuse its part of a transaction, whatever others do.
    pub(super) fn note_refusing(&mut self, transaction: TransactionId, shard: ShardId) {
        self.refusing.insert((transaction, shard));
    }

    /// The error in an alarm about a transaction, in words: an operator must be told of broken promises alone, and which shard has
    /// broken them.
    pub(super) fn contradict(&self, transaction: TransactionId, decided: &[Decided]) -> Option<String> {
        let refused = || decided.iter().filter(|decided| decided.is_refused);
        let is_known = refused().any(|decided| self.refusing.contains(&(transaction, decided.shard)));
        let is_mixed = refused().count() < decided.len();
        let told =
            || format!("the alarm about {transaction} says {decided:?}, and its promise was not broken so");
        (!is_known || !is_mixed).then(told)
    }

    /// More alarms than that would be about promises that were kept, in words.
    pub fn nonsense(&self) -> Option<String> {
        let (alarms, broken) = (self.alarms, self.refusing.len());
        let told = format!("{alarms} transactions had different outcomes, and only {broken} may have had");
        (alarms > broken as u64).then_some(told)
    }
}

/// The requirement at a shard that has nothing else to do with a key: that another exists, which never does.
pub(super) fn refused_elsewhere(key: &Key, keyspace: &Keyspace) -> Option<Condition> {
    let own = keyspace.shard_of(key).id;
    let never = |slot| Key::from([key.as_slice(), &[slot]].concat());
    let key = (0..=u8::MAX).map(never).find(|key| keyspace.shard_of(key).id != own)?;
    Some(Condition::Exists { key })
}

impl Clients {
    /// Now and then a session breaks a promise.
    pub(super) fn draw_broken_promise<S: System>(
        &mut self,
        cluster: &Cluster<S>,
    ) -> Option<(Arc<Plan>, Manner)> {
        let can = S::RUNS_ONE_ROUND && cluster.scenario.shards > 1;
        if !can || !self.random.chance(PROBABILITY) {
            return None;
        }
        let key = slotted(KEYS, self.promises.keys.len() as u64, 0);
        self.promises.keys.push(key.clone());
        let plan = Plan { kind: "broken promise", operations: vec![Operation::Append(key)] };
        Some((Arc::new(plan), Manner { breaks_promise: true, ..Manner::default() }))
    }

    /// Counts the alarms of the client in a place.
    pub(super) fn count_alarms<S: System>(&mut self, slot: usize, cluster: &Cluster<S>) {
        let slot = &mut self.slots[slot];
        let raised = cluster.world.client(slot.client).map_or(slot.alarms, S::alarms);
        let since = raised - std::mem::replace(&mut slot.alarms, raised);
        if since > 0 {
            self.promises.alarms += since;
            *self.happened.entry(ALARM).or_default() += since;
        }
    }

    /// Counts the alarms of all clients.
    pub fn count_all_alarms<S: System>(&mut self, cluster: &Cluster<S>) {
        for slot in 0..self.slots.len() {
            self.count_alarms(slot, cluster);
        }
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::ClockTime;

    use super::*;

    #[test]
    fn more_alarms_than_broken_promises_make_no_sense() {
        let transaction = TransactionId { sequence: 3, ..TransactionId::default() };
        let mut promises = Promises::default();
        assert_eq!(promises.nonsense(), None);
        promises.alarms = 1;
        assert!(promises.nonsense().is_some());
        promises.refusing.insert((transaction, ShardId(2)));
        assert_eq!(promises.nonsense(), None);
        let decided = |shard, is_refused| Decided {
            shard: ShardId(shard),
            timestamp: ClockTime::from_micros(1),
            is_refused,
            digest: 0,
        };
        assert_eq!(promises.contradict(transaction, &[decided(1, false), decided(2, true)]), None);
        assert!(promises.contradict(transaction, &[decided(1, true), decided(2, false)]).is_some());
        assert!(promises.contradict(transaction, &[decided(1, true), decided(2, true)]).is_some());
        assert!(
            promises.contradict(TransactionId::default(), &[decided(1, false), decided(2, true)]).is_some()
        );
        assert!(promises.bind(transaction, ShardId(1)) && !promises.bind(transaction, ShardId(2)));
    }
}
