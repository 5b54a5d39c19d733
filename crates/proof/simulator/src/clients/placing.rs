//! Clients that place containers, where a system has some: now and then one of those that are written to next, wherever it is. In some seeds they say
//! which sites hold its objects, too.

use quorate_core::command::{Command, ContainerCall};
use quorate_core::hash::FixedSet;
use quorate_core::topology::container_of;
use quorate_core::{Key, Random, ShardId, TransactionId};
use quorate_workloads::{Operation, Plan};

use super::Clients;
use crate::cluster::{Cluster, KEYSPACE};
use crate::scenario::Scenario;
use crate::system::System;

/// With this probability a container is placed before a transaction writes to it; with four times as much where sites are limited.
const SHARE: f64 = 0.06;

/// In this share of the seeds clients limit the sites that hold the objects of containers.
const LIMITED: f64 = 0.4;

/// The draws of clients that limit the sites at which containers are; none in seeds where no client does.
pub(crate) fn limits<S: System>(scenario: &Scenario<S>) -> Option<Random> {
    S::copies_min(&scenario.settings)?;
    let mut random = Random::stream(scenario.seed, "replica sets");
    (scenario.shards > 1 && random.chance(LIMITED)).then_some(random)
}

/// The clients that place containers.
#[derive(Debug)]
pub(super) struct Placing {
    /// Transactions that find or place a container, and are not over.
    pub(super) open: FixedSet<TransactionId>,
    /// Draws the sites at which containers are; none where nobody limits them.
    limits: Option<Random>,
}

impl Placing {
    pub(super) fn new<S: System>(scenario: &Scenario<S>) -> Self {
        Placing { open: FixedSet::default(), limits: limits(scenario) }
    }
}

impl Clients {
    /// Perhaps places a container that a transaction is about to write to.
    pub(super) fn place_perhaps<S: System>(&mut self, slot: usize, plan: &Plan, cluster: &mut Cluster<S>) {
        let share = if self.placing.limits.is_some() { 4.0 * SHARE } else { SHARE };
        if !S::PLACES_CONTAINERS || !self.random.chance(share) {
            return;
        }
        let Some(key) = plan.operations.iter().find_map(Operation::key_written) else { return };
        let name = Key::copy_from_slice(container_of(key));
        let shards = cluster.shards_that_serve();
        let call = match self.random.below(6) {
            0 => ContainerCall::Locate,
            1 => ContainerCall::Destroy,
            _ => {
                let preferred = shards[self.random.index(shards.len())];
                let replicas = self.draw_replicas(preferred, &shards, cluster);
                ContainerCall::Place { preferred, replicas }
            }
        };
        let place = &mut self.slots[slot];
        place.sequence += S::NUMBERS_APART;
        let transaction = TransactionId { client: place.id, sequence: place.sequence, attempt: 0 };
        let client = place.client;
        let patience = self.draw_patience(2, cluster);
        self.placing.open.insert(transaction);
        let command = Command::Container { transaction, keyspace: KEYSPACE, name, call, patience };
        cluster.world.command(client, command);
    }

    /// Draws the sites that are to hold the objects of a container, now and then fewer than may.
    fn draw_replicas<S: System>(
        &mut self,
        preferred: ShardId,
        shards: &[ShardId],
        cluster: &Cluster<S>,
    ) -> Option<Vec<ShardId>> {
        let least = S::copies_min(&cluster.scenario.settings)?;
        let random = self.placing.limits.as_mut().filter(|_| shards.len() > 1)?;
        if random.chance(0.3) {
            return None;
        }
        let mut others: Vec<ShardId> = shards.iter().copied().filter(|shard| *shard != preferred).collect();
        random.shuffle(&mut others);
        // Of more than have to hold the objects one may lag behind what is durable.
        let more = random.between(least as u64 - 1, shards.len().max(least) as u64 - 1);
        let more = if random.chance(0.1) { 0 } else { more };
        others.truncate(more as usize);
        Some([vec![preferred], others].concat())
    }
}
