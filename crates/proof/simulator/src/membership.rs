//! Who the replicas are while a cluster runs: definitions of epochs, and who learns of them.
//!
//! The cluster plays the configuration service (which is not simulated beside other systems, and whose own replicas are told in the
//! same way) and the hosts that watch it. A definition is made in one place and at once; each
//! host learns of it after a while of its own, or because its machine has heard of the epoch from others. A host gives a replica
//! that is new, or has lost its records, the latest definition; one that comes back with its records it knows nothing of at first.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::command::Command;
use quorate_core::hosted::HostedReplica;
use quorate_core::topology::Durability;
use quorate_core::{Epoch, Members, Random, ReplicaId, ReplicaIndex, ShardId};

use crate::cluster::{Alarm, Cluster};
use crate::fault::Fault;
use crate::system::System;
use crate::world::disk::Crash;

/// A host learns of a definition within this time.
const WATCH_MAX: Duration = Duration::from_millis(1_500);

/// Who is retired is deleted within this time.
const DELETION_MAX: Duration = Duration::from_secs(3);

/// What becomes of a definition, one host after the other.
#[derive(Clone, Copy, Debug)]
pub enum MembershipStep {
    /// The host of a server learns who the replicas are.
    TellServer(usize),
    /// That of a client does.
    TellClient(usize),
    /// A replica that is retired is deleted.
    Delete(usize),
}

impl<S: System> Cluster<S> {
    /// Goes on with a change of membership.
    pub(crate) fn go_on_with(&mut self, step: MembershipStep) {
        match step {
            MembershipStep::TellServer(server) => self.tell_server(server),
            MembershipStep::TellClient(client) => self.tell_client(client),
            MembershipStep::Delete(server) => self.delete(server),
        }
    }

    /// True if the replicas have ever changed.
    pub fn has_changed(&self) -> bool {
        self.definition().epoch > Epoch::FIRST
    }

    /// The servers that are members of their groups, by the latest definition.
    pub fn members(&self) -> impl Iterator<Item = usize> {
        (0..self.world.servers()).filter(|server| self.is_member(*server))
    }

    /// True if a server is a member of its group.
    pub fn is_member(&self, server: usize) -> bool {
        let ReplicaId { shard, index } = self.replica(server);
        self.definition().members(shard).contains(index)
    }

    /// The groups whose majorities a shard needs: its own, and the one before as long as the change is not over.
    pub(crate) fn groups_in_charge(&self, shard: ShardId) -> Vec<Members> {
        let succession = self.definition().succession(shard);
        let previous = succession.previous.filter(|_| !self.has_arrived(shard));
        let previous = previous.map(|tenure| tenure.members);
        previous.into_iter().chain([succession.present.members]).collect()
    }

    /// True if a majority of a group has taken part in it, durably, since its members are as they are.
    fn has_arrived(&self, shard: ShardId) -> bool {
        let present = self.definition().succession(shard).present;
        let has_arrived = |server: &usize| {
            self.replica(*server).shard == shard && self.arrived_since(*server) >= Some(present.since)
        };
        self.members().filter(has_arrived).count() >= present.members.majority()
    }

    /// True if the next epoch may be defined: every group has arrived in this one.
    fn may_define(&self) -> bool {
        S::defines_epochs_early(&self.scenario.settings)
            || self.groups().into_iter().all(|shard| self.has_arrived(shard))
    }

    /// Replaces replicas of a group by new ones, or adds two, or takes two away; false if that cannot be now.
    pub(crate) fn change_membership(&mut self, random: &mut Random) -> bool {
        let groups = self.groups();
        let shard = groups[random.index(groups.len())];
        if !S::CHANGES_GROUPS || !self.may_define() {
            return false;
        }
        let mut members: Vec<usize> =
            self.members().filter(|server| self.replica(*server).shard == shard).collect();
        let failures = self.definition().members(shard).failures();
        let is_home = self.keyspace().is_home(shard);
        let (leave, join) = match random.below(4) {
            _ if is_home => (1, 1),
            0 if failures < 2 => (0, 2),
            0 | 1 if failures > 1 => (2, 0),
            2 if failures > 1 => (2, 2),
            _ => (1, 1),
        };
        // A group that stands in a site stays there.
        let stands_in = |server: &usize| self.site_of(self.world.node_of_server(*server));
        let stays = S::ISOLATION.stands_in_sites() || is_home;
        let site = members.first().map(stands_in).filter(|_| stays);
        // Who has lost its records counts for nobody, and the smaller group must be able to do without.
        let failures_after = failures + join / 2 - leave / 2;
        let left: Vec<usize> = (0..leave).map(|_| members.swap_remove(random.index(members.len()))).collect();
        let lost = members.iter().chain(&left).filter(|server| self.has_lost(**server)).count();
        if lost > failures.min(failures_after) {
            return false;
        }
        let first = self.replicas_ever(shard);
        let joining: Vec<ReplicaIndex> =
            (first..first + join).map(|index| ReplicaIndex(index as u8)).collect();
        let indices = members.iter().map(|server| self.replica(*server).index).chain(joining.iter().copied());
        let Ok(changed) = Members::on_log(indices) else { return false };
        // No node has the machines of two homes.
        let has_machine = |server: &usize| self.keyspace().is_home(self.replica(*server).shard);
        let hosting = if is_home { self.members().filter(has_machine).collect() } else { members };
        let Some(nodes) = self.nodes_to_join(&hosting, join, site, random) else { return false };
        let definition = self.definition().next([(shard, changed)]);
        self.world.note(|| format!("{}: {shard} has the replicas {changed:?}", definition.epoch));
        self.set_definition(definition);
        for (index, node) in joining.into_iter().zip(nodes) {
            self.create_replica(ReplicaId { shard, index }, node);
        }
        for server in 0..self.world.servers() {
            self.tell_later(MembershipStep::TellServer(server));
        }
        for client in self.live_clients().to_vec() {
            self.tell_later(MembershipStep::TellClient(client));
        }
        true
    }

    /// How many replicas a shard has ever had: none is named twice.
    fn replicas_ever(&self, shard: ShardId) -> usize {
        (0..self.world.servers()).filter(|server| self.replica(*server).shard == shard).count()
    }

    /// Nodes for new replicas, in a site if it has to be one: as far as there are enough, such as host none of these servers. Two of a
    /// group on one node would lose their records together where these are kept in memory, two clocks of a group would leap together, and
    /// a home speaks to one replica of each shard.
    fn nodes_to_join(
        &self,
        hosting: &[usize],
        count: usize,
        site: Option<usize>,
        random: &mut Random,
    ) -> Option<Vec<usize>> {
        let hosted = |node: &usize| hosting.iter().any(|server| self.world.node_of_server(*server) == *node);
        // A change is not begun before the nodes of new replicas answer, and one that is to be fenced never does.
        let is_place = |node: &usize| site.is_none_or(|site| self.site_of(*node) == site);
        let (taken, mut free): (Vec<usize>, Vec<usize>) = (0..self.scenario.server_nodes)
            .filter(|node| !self.is_to_be_fenced(*node) && is_place(node))
            .partition(|node| hosted(node));
        let needs_apart = S::ISOLATION.has_homes()
            || self.scenario.durability == Durability::Memory
            || self.scenario.faults.contains(&Fault::ClockLeaps)
            || taken.is_empty();
        if free.len() < count && needs_apart {
            return None;
        }
        let mut node = || match free.len() {
            0 => taken[random.index(taken.len())],
            many => free.swap_remove(random.index(many)),
        };
        Some((0..count).map(|_| node()).collect())
    }

    /// Lets somebody learn of the latest definition after a while.
    pub(crate) fn tell_later(&mut self, step: MembershipStep) {
        let after = self.within(WATCH_MAX);
        self.world.set_alarm(after, Alarm::Membership(step));
    }

    /// A server's host has learnt who the replicas are.
    pub(crate) fn tell_server(&mut self, server: usize) {
        if self.world.server(server).is_some() {
            for command in S::Server::change_groups(self.definition(), self.replica(server).shard) {
                self.world.command_server(server, command);
            }
        }
    }

    /// A client's host has.
    pub(crate) fn tell_client(&mut self, client: usize) {
        if self.live_clients().contains(&client) {
            self.give_routes(client);
        }
    }

    /// Tells a client where everything is.
    pub(crate) fn give_routes(&mut self, client: usize) {
        let node = self.world.node_of_client(client);
        let mut routes = self.routes(self.site_of(node));
        if self.scenario.leaders_apart && S::ISOLATION.has_homes() {
            // The machines of the site come first, and each client speaks to another one of them.
            let sites = self.scenario.sites();
            let machines = self.scenario.server_nodes / sites;
            routes.homes[..machines].rotate_left(node / sites % machines);
        }
        self.losses.note_home(node, routes.keyspace.shards[routes.order[0]].id);
        self.world.command(client, Command::Route(Arc::new(routes)));
    }

    /// Nobody needs a replica any more.
    pub(crate) fn on_retired(&mut self, server: usize) {
        let after = self.within(DELETION_MAX);
        self.world.set_alarm(after, Alarm::Membership(MembershipStep::Delete(server)));
    }

    /// Deletes a replica that is retired.
    fn delete(&mut self, server: usize) {
        if self.world.server(server).is_some() {
            self.world.crash_server(server, Crash::Process);
        }
        self.mark_deleted(server);
    }
}
