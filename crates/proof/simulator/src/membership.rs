//! The replicas of a cluster while it runs: definitions of epochs, and the hosts that learn of them.
//!
//! Operators define epochs, see `definers`. Each host learns of a definition after a while of its own, or because its machine
//! has heard of the epoch from others. A host creates the replicas that the definition places on its node, if it runs. It gives a replica that is new, or has lost
//! its records, the latest definition; one that comes back with its records it knows nothing of at first.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::command::Command;
use quorate_core::hosted::HostedReplica;
use quorate_core::topology::Durability;
use quorate_core::{Epoch, Members, NodeId, Random, ReplicaId, ReplicaIndex, ShardId};

use crate::cluster::{Alarm, Cluster};
use crate::definers::DefinerStep;
use crate::fault::Fault;
use crate::system::System;
use crate::world::disk::Crash;

/// A host learns of a definition within this time.
const WATCH_MAX: Duration = Duration::from_millis(1_500);

/// A replica that is retired is deleted within this time.
const DELETION_MAX: Duration = Duration::from_secs(3);

/// The steps of a definition, one host after the other.
#[derive(Clone, Debug)]
pub enum MembershipStep {
    /// Something happens to the operator of this number, who changes who the replicas are.
    Definer(u64, DefinerStep),
    /// The host of a node learns that this replica is to be there, and creates it.
    Create(ReplicaId, NodeId),
    /// The host of a server learns who the replicas are.
    TellServer(usize),
    /// That of a client does.
    TellClient(usize),
    /// A replica that is retired is deleted.
    Delete(usize),
}

/// A group whose majority a shard needs.
pub(crate) struct InCharge {
    pub(crate) members: Members,
    /// True if a majority has taken part in it: a member that never has, or was never created, then holds nothing of what is kept.
    has_begun: bool,
}

impl<S: System> Cluster<S> {
    /// Goes on with a change of membership. True if an epoch was defined.
    pub(crate) fn go_on_with(&mut self, step: MembershipStep) -> bool {
        match step {
            MembershipStep::Definer(number, step) => return self.go_on_defining(number, step),
            MembershipStep::Create(replica, node) => self.create_member(replica, node),
            MembershipStep::TellServer(server) => self.tell_server(server),
            MembershipStep::TellClient(client) => self.tell_client(client),
            MembershipStep::Delete(server) => self.delete(server),
        }
        false
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

    /// The groups whose majorities a shard needs: its own, the one before as long as the change is not over, and those that operators want next.
    pub(crate) fn groups_in_charge(&self, shard: ShardId) -> Vec<InCharge> {
        let (succession, has_arrived) = (self.definition().succession(shard), self.has_arrived(shard));
        let previous = succession.previous.filter(|_| !has_arrived);
        let previous = previous.map(|tenure| InCharge { members: tenure.members, has_begun: true });
        let present = InCharge { members: succession.present.members, has_begun: has_arrived };
        let wanted = self.definers.wanted(shard).map(|members| InCharge { members, has_begun: false });
        previous.into_iter().chain([present]).chain(wanted).collect()
    }

    /// True if a majority of a group has its records, without what these servers have.
    pub(crate) fn survives_without(
        &self,
        shard: ShardId,
        group: &InCharge,
        is_left_out: impl Fn(usize) -> bool,
    ) -> bool {
        let has_records = |index: &ReplicaIndex| {
            let is_of_member = |server: &usize| self.replica(*server) == ReplicaId { shard, index: *index };
            match (0..self.world.servers()).find(is_of_member) {
                Some(server) => {
                    let is_empty = group.has_begun && !self.has_been_founded(server);
                    !self.has_lost(server) && !is_left_out(server) && !is_empty
                }
                None => !group.has_begun,
            }
        };
        group.members.iter().filter(has_records).count() >= group.members.majority()
    }

    /// True if a majority of a group has taken part in it, durably, since its members are as they are.
    fn has_arrived(&self, shard: ShardId) -> bool {
        let present = self.definition().succession(shard).present;
        let has_arrived = |server: &usize| {
            self.replica(*server).shard == shard && self.arrived_since(*server) >= Some(present.since)
        };
        self.members().filter(has_arrived).count() >= present.members.majority()
    }

    /// The catalogue has the next epoch, and everybody learns of it after a while.
    pub(crate) fn enter_definition(&mut self) {
        let definition = self.definers.defined().memberships();
        self.world.note(|| format!("{} is defined: {:?}", definition.epoch, definition.changed));
        self.set_definition(definition);
        for (replica, node) in self.to_be_created() {
            self.tell_later(MembershipStep::Create(replica, node));
        }
        for server in 0..self.world.servers() {
            self.tell_later(MembershipStep::TellServer(server));
        }
        for client in self.live_clients().to_vec() {
            self.tell_later(MembershipStep::TellClient(client));
        }
    }

    /// True if a replica has ever been there.
    fn is_created(&self, replica: ReplicaId) -> bool {
        (0..self.world.servers()).any(|server| self.replica(server) == replica)
    }

    /// The members that no host has created yet, and their nodes.
    pub(crate) fn to_be_created(&self) -> Vec<(ReplicaId, NodeId)> {
        let groups = self.definers.defined().groups().filter(|group| !self.losses.has_lost(group.id));
        let seats = groups.flat_map(|group| {
            group.members().map(|(index, node)| (ReplicaId { shard: group.id, index }, node))
        });
        seats.filter(|(replica, _)| !self.is_created(*replica)).collect()
    }

    /// The host of a node creates a replica, if it is a member still. A host that is down creates it when it is back.
    fn create_member(&mut self, replica: ReplicaId, node: NodeId) {
        if !self.to_be_created().contains(&(replica, node)) {
            return;
        }
        let node = usize::from(node.0);
        let is_up = self.servers_of(node).iter().any(|server| self.world.server(*server).is_some())
            || self.servers_of(node).is_empty();
        if !is_up || self.is_to_be_fenced(node) {
            return self.tell_later(MembershipStep::Create(replica, NodeId(node as u16)));
        }
        self.create_replica(replica, node);
    }

    /// All faults have ended: nobody changes anything any more, and every host has created its replicas.
    pub(crate) fn end_changes(&mut self) {
        self.definers.end();
        for (replica, node) in self.to_be_created() {
            self.create_replica(replica, usize::from(node.0));
        }
    }

    /// Nodes for new replicas, in a site if it has to be one: as far as there are enough, none of those that host others. Two of a
    /// group on one node would lose their records together where these are kept in memory, two clocks of a group would leap together, and
    /// a home speaks to one replica of each shard.
    pub(crate) fn nodes_to_join(
        &self,
        hosting: &[usize],
        count: usize,
        site: Option<usize>,
        random: &mut Random,
    ) -> Option<Vec<usize>> {
        let hosted = |node: &usize| hosting.contains(node);
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
