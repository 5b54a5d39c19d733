//! Clients that place containers, where a system has some: now and then one of those that are written to next, wherever it is.

use quorate_core::command::{Command, ContainerCall};
use quorate_core::topology::container_of;
use quorate_core::{Key, TransactionId};
use quorate_workloads::{Operation, Plan};

use super::Clients;
use crate::cluster::{Cluster, KEYSPACE};
use crate::system::System;

/// With this probability a container is placed before a transaction writes to it.
const SHARE: f64 = 0.06;

impl Clients {
    /// Perhaps places a container that a transaction is about to write to.
    pub(super) fn place_perhaps<S: System>(&mut self, slot: usize, plan: &Plan, cluster: &mut Cluster<S>) {
        if !S::PLACES_CONTAINERS || !self.random.chance(SHARE) {
            return;
        }
        let Some(key) = plan.operations.iter().find_map(Operation::key_written) else { return };
        let name = Key::copy_from_slice(container_of(key));
        let shards = cluster.shards_that_serve();
        let call = match self.random.below(6) {
            0 => ContainerCall::Locate,
            1 => ContainerCall::Destroy,
            _ => ContainerCall::Place(shards[self.random.index(shards.len())]),
        };
        let place = &mut self.slots[slot];
        place.sequence += S::NUMBERS_APART;
        let transaction = TransactionId { client: place.id, sequence: place.sequence, attempt: 0 };
        let client = place.client;
        let patience = self.draw_patience(2, cluster);
        self.placing.insert(transaction);
        let command = Command::Container { transaction, keyspace: KEYSPACE, name, call, patience };
        cluster.world.command(client, command);
    }
}
