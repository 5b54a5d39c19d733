//! The replicas of a node when those of their keyspace change: they are told, and deleted once nobody needs them.
//!
//! A membership is written down before any replica is told of it, because a replica writes in its log under which membership it is. From
//! then on a restart finds both. A replica that starts is told what was written down last. A replica that is no member any more is
//! deleted only once that is written down, also if another replica has told it.

use quorate_core::topology::Keyspace;
use quorate_core::{Epoch, KeyspaceId, ReplicaId};
use quorate_runtime::Turn;

use super::building::Origin;
use super::hosted::{Hosted, State};
use super::log::LogError;
use super::{Node, outgoing};
use crate::data::{Known, Placement};

/// The part that a node has in a keyspace.
#[derive(Clone, Copy, Debug)]
struct Here {
    /// A replica of it is here.
    hosts: bool,
    /// A replica of it is to be here.
    is_placed: bool,
    /// A replica of it is being built. It is told what was noted once it is built, and may be no member any more by then.
    builds: bool,
}

impl Here {
    /// True if the node has to know who the replicas of the keyspace are.
    fn is_concerned(self) -> bool {
        self.hosts || self.is_placed || self.builds
    }
}

impl Node {
    /// Takes note of the membership of a keyspace that has replicas here, or is to have, and tells them. False if that could not
    /// be written down: then nothing may be hosted in it.
    pub(super) fn enter_epoch(
        &mut self,
        keyspace: &Keyspace,
        is_placed_here: bool,
        turn: &mut Turn<'_>,
    ) -> bool {
        let hosted: Vec<ReplicaId> = self
            .replica_ids()
            .into_iter()
            .filter(|id| self.replicas[id].placement.keyspace == keyspace.id)
            .collect();
        let noted = self.memberships.get(&keyspace.id).map_or(Epoch::FIRST, |known| known.memberships.epoch);
        let here = Here {
            hosts: !hosted.is_empty(),
            is_placed: is_placed_here,
            builds: self.builder.is_building_for(keyspace.id),
        };
        if keyspace.epoch <= noted || !here.is_concerned() {
            return true;
        }
        let known = Known::of(keyspace);
        if let Err(error) = self.data.note_memberships(self.here.loops.own(), keyspace.id, &known) {
            tracing::error!(keyspace = keyspace.name, %error, "who its replicas are now cannot be written down");
            let error = LogError::from(error);
            hosted.into_iter().for_each(|id| self.refuse_replica(id, &error));
            return false;
        }
        tracing::info!(keyspace = keyspace.name, epoch = %keyspace.epoch, "the replicas have changed");
        self.memberships.insert(keyspace.id, known);
        for id in hosted {
            self.tell_memberships(id, turn);
        }
        self.tell_clients(quorate_wire::Packet::CatalogueChanged, turn);
        true
    }

    /// Tells a replica who those of its keyspace are, if they have ever changed.
    pub(super) fn tell_memberships(&mut self, id: ReplicaId, turn: &mut Turn<'_>) {
        let Some(Hosted { placement, state, .. }) = self.replicas.get_mut(&id) else { return };
        let Some(known) = self.memberships.get(&placement.keyspace) else { return };
        placement.set_known(known);
        let memberships = known.memberships.clone();
        let takes_part = placement.group.node_of(id.index).is_some();
        match state {
            State::Running(_) => self.step(id, turn, |running, time, outgoing| {
                running.change_groups(time, &memberships, outgoing)
            }),
            // It has nothing to hand over, and nobody asks it to.
            State::Refused(_) if !takes_part => self.retired.push(id),
            State::Refused(_) => {}
        }
    }

    /// Takes note of who holds the configuration service, and holds it if this node is to.
    pub(super) fn set_system(&mut self, system: Keyspace, turn: &mut Turn<'_>) {
        let is_news = system.id == self.system.id && system.epoch > self.system.epoch;
        if !is_news || self.peers.fence().is_some() {
            return;
        }
        self.routes.learn(&system);
        if !self.enter_epoch(&system, true, turn) {
            return;
        }
        let members = system.shards[0].succession().present.members;
        self.system = system;
        if let Some(catalogue) = &mut self.catalogue {
            catalogue.route(turn.time, members, &mut outgoing(&self.routes, &mut self.here, turn));
        }
        // A node that was replaced cannot know whether it has held this one before.
        let origin = if self.data.is_replacement() { Origin::OldGroup } else { Origin::NewGroup };
        for placement in Placement::on_node(&self.system, self.config.node) {
            let id = placement.replica;
            if !self.replicas.contains_key(&id) && !self.builder.is_building(id) {
                tracing::info!(replica = %id, "holding the configuration service");
                let order = self.order(placement, origin);
                self.builder.start(vec![order]);
            }
        }
    }

    /// Deletes replicas that nobody needs any more.
    pub(super) fn delete_retired(&mut self) {
        for id in std::mem::take(&mut self.retired) {
            // A log says by itself with whom it goes on. Until that is written down here as well, a replica that is gone would
            // look, after a restart or to an older copy of the catalogue, like one that has never begun: it would begin
            // again, and empty.
            let is_member = self.replicas.get(&id).is_some_and(|hosted| hosted.placement.is_member());
            if is_member || self.builder.is_building(id) {
                self.retired.push(id);
                continue;
            }
            self.note_neighbour(id);
            let Some(Hosted { placement, state, .. }) = self.replicas.remove(&id) else { continue };
            tracing::info!(replica = %id, keyspace = placement.keyspace_name, "deleting a replica that has retired");
            self.service_changed = true;
            if let State::Running(running) = state
                && let Err(error) = running.close()
            {
                // It holds nothing that counts, and is removed.
                tracing::warn!(replica = %id, %error, "the log of a retired replica could not be closed");
            }
            if let Err(error) = self.data.remove_replica(id) {
                tracing::error!(replica = %id, %error, "what is left of a retired replica cannot be removed");
            }
            self.forget_memberships(placement.keyspace);
        }
    }

    /// Forgets who the replicas of a keyspace are once none is here any more.
    pub(super) fn forget_memberships(&mut self, keyspace: KeyspaceId) {
        let is_hosted = self.replicas.values().any(|hosted| hosted.placement.keyspace == keyspace);
        // Every node has to know the members of the configuration service.
        if keyspace == self.system.id
            || is_hosted
            || self.builder.is_building_for(keyspace)
            || self.memberships.remove(&keyspace).is_none()
        {
            return;
        }
        if let Err(error) = self.data.forget_memberships(self.here.loops.own(), keyspace) {
            tracing::error!(%keyspace, %error, "what is left of a keyspace cannot be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_notes_the_members_of_what_it_hosts_is_to_host_or_builds() {
        let table = [
            (false, false, false, false),
            (true, false, false, true),
            (false, true, false, true),
            // The keyspace has left this node before its replica was ready.
            (false, false, true, true),
        ];
        for (hosts, is_placed, builds, is_concerned) in table {
            let here = Here { hosts, is_placed, builds };
            assert_eq!(here.is_concerned(), is_concerned, "{here:?}");
        }
    }
}
