//! A cluster in the world: the replicas of a keyspace on their nodes, and the coordinators of clients.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use quorate_core::command::Routes;
use quorate_core::comparison::Comparison;
use quorate_core::hosted::{Boot, Health, Holdings, HostedReplica, Seat, Shards, Status};
use quorate_core::inventory::Begin;
use quorate_core::machine::Machine;
use quorate_core::replay;
use quorate_core::topology::{Durability, Keyspace, Node, Shard, Topology};
use quorate_core::{
    ClientId, ClockTime, Epoch, Groups, Instant, KeyspaceId, NodeId, Random, ReplicaId, ReplicaIndex,
    ShardId, SiteId,
};
use quorate_storage::LogError;

use crate::accepted_loss::{AcceptanceStep, AcceptedLosses};
use crate::amnesia::Amnesia;
use crate::attic::Attics;
use crate::definers::Definers;
use crate::fault::Fault;
use crate::injector::{Ending, Strike};
use crate::membership::MembershipStep;
use crate::report::Sample;
use crate::scenario::{CLOCK_ERROR, Scenario};
use crate::shard_loss::{ShardLosses, ShardStep};
use crate::site_loss::{SiteLosses, SiteStep};
use crate::system::System;
use crate::users::{Heard, Users};
use crate::world::World;
use crate::world::clock::{Pace, PhysicalClock};
use crate::world::disk::{Condition, Crash, Decay, Disk, NodeJournal};
use crate::world::network::Network;
use crate::world::steps::Steps;
use crate::world::trace::{Trace, TraceText};

/// The reasons for which the simulation itself wants to be woken.
#[derive(Clone, Debug)]
pub enum Alarm {
    /// A session goes on with its work.
    Session(usize),
    /// The client in a place goes on with its errands of a kind.
    Errand {
        /// Which kind, counted from zero.
        of: usize,
        /// The place of the client.
        slot: usize,
    },
    /// The client in a place goes on with indexes.
    Index(usize),
    /// The client in a place goes on with values that expire.
    Expiry(usize),
    /// A fault strikes, or its effect ends.
    Strike(Strike),
    /// A change of membership goes on.
    Membership(MembershipStep),
    /// The aftermath of the loss of a site goes on.
    Site(SiteStep),
    /// The aftermath of the loss of a shard goes on.
    Shard(ShardStep),
    /// The aftermath of a loss that a group does not survive goes on.
    Acceptance(AcceptanceStep),
    /// A node hears of a change of users.
    Heard(Heard),
    /// Time to look whether a phase is over.
    Poll,
}

/// The keyspace that is simulated.
pub const KEYSPACE: KeyspaceId = KeyspaceId(1);

/// A clock is never further off than this, so that no timestamp is refused for being too far ahead.
pub const CLOCK_ERROR_MAX_MICROS: i64 = 20_000_000;

/// Replicas on nodes, in a world.
pub struct Cluster<S: System> {
    /// The world.
    pub world: World<S, Alarm>,
    /// The simulated scenario.
    pub scenario: Scenario<S>,
    keyspace: Keyspace,
    /// All groups of replicas: the shards of the keyspace, and what else the system needs.
    groups: Vec<Shard>,
    /// Per server: which replica it is.
    replicas: Vec<ReplicaId>,
    /// Per server: true from the loss of its records until it is normal again.
    lost: Vec<bool>,
    /// Per server: true from the decay of its disk until that is found out, or is found to be harmless.
    decayed: Vec<bool>,
    /// Per node with a disk.
    journals: BTreeMap<usize, NodeJournal>,
    /// Where replicas keep values that do not fit into memory.
    pub(crate) attics: Attics,
    /// Per server: true once it has been normal.
    founded: Vec<bool>,
    /// Per server: since when the members of its group were as they were when it took part last, durably.
    arrived: Vec<Option<Epoch>>,
    /// Per server: the same, as its node knows it since it has started: what it tells operators.
    served: Vec<Option<Epoch>>,
    /// Per server: true once it was deleted, because it is no member any more.
    deleted: Vec<bool>,
    /// The amnesia of nodes, past and to come.
    pub(crate) amnesia: Amnesia,
    /// The replicas of each group, by the latest definition.
    definition: Groups,
    /// The operators that define epochs.
    pub(crate) definers: Definers,
    /// The sites that are lost for good.
    pub(crate) losses: SiteLosses,
    /// The shard that is lost for good.
    pub(crate) shard_losses: ShardLosses,
    /// The groups that have lost more than they survive.
    pub(crate) accepted_losses: AcceptedLosses,
    /// Users with rights, if clients need some.
    pub(crate) users: Option<Users>,
    /// The clients that are alive, as the world numbers them.
    live_clients: Vec<usize>,
    /// How many nodes have stopped with nothing under way.
    pub(crate) stopped_idle: u64,
    random: Random,
}

impl<S: System> Cluster<S> {
    /// A freshly initialised cluster without clients; `steps` counts what its machines do from the very beginning.
    pub fn new(mut scenario: Scenario<S>, trace: Option<TraceText>, steps: Option<Steps>) -> Self {
        let mut random = scenario.random.fork();
        let nodes = scenario.server_nodes + scenario.clients + 1;
        let site_delays = scenario.site_delays.clone();
        let sites = scenario.sites();
        let delay = |from: usize, to: usize| {
            if from == to { Duration::from_micros(20) } else { site_delays[from % sites][to % sites] }
        };
        let mut network = Network::new(nodes, scenario.jitter, random.fork(), delay);
        if let Some(bytes_per_second) = scenario.bandwidth {
            network.set_bandwidth(bytes_per_second);
        }
        let (clocks, paces) = draw_clocks(&scenario, nodes, &mut random);
        let mut world = World::new(network, clocks, random.fork(), Trace::new(trace));
        for (node, pace) in paces.into_iter().enumerate() {
            world.set_pace(node, pace);
        }
        world.count_steps(steps);
        for node in 0..nodes {
            world.set_sync_time(node, scenario.sync_time);
            if let Some(costs) = &scenario.costs {
                world.set_costs(node, Arc::clone(costs));
            }
        }
        let mut groups = place(&scenario);
        let keyspace = keyspace(&scenario, &groups);
        groups.extend(keyspace.homes.iter().cloned());
        world.network().keep_order_within_nodes(S::ISOLATION.has_homes());
        let definers = Definers::new(scenario.seed, keyspace.clone());
        let mut cluster = Cluster {
            world,
            keyspace,
            groups,
            replicas: Vec::new(),
            lost: Vec::new(),
            decayed: Vec::new(),
            journals: BTreeMap::new(),
            attics: Attics::default(),
            founded: Vec::new(),
            arrived: Vec::new(),
            served: Vec::new(),
            deleted: Vec::new(),
            amnesia: Amnesia::default(),
            definition: Groups::new(scenario.group),
            definers,
            losses: SiteLosses::default(),
            shard_losses: ShardLosses::new(scenario.seed),
            accepted_losses: AcceptedLosses::new(scenario.seed),
            users: None,
            live_clients: Vec::new(),
            stopped_idle: 0,
            random,
            scenario,
        };
        cluster.definition = cluster.founding_groups();
        cluster.set_up_hosts();
        cluster.begin_lives();
        cluster.found();
        cluster
    }

    /// Boots every replica for the first time.
    fn found(&mut self) {
        for shard in self.groups.clone() {
            for (replica, node) in shard.replica_ids().zip(&shard.replicas) {
                self.create_replica(replica, usize::from(node.0));
            }
        }
    }

    /// Boots a replica for the first time.
    pub(crate) fn create_replica(&mut self, replica: ReplicaId, node: usize) {
        let is_alone = self.is_home_alone(replica.shard);
        let durability = if is_alone { Durability::Sync } else { self.scenario.durability };
        let disk = match durability {
            Durability::Sync => {
                let disk = Disk::new(self.scenario.seed, replica, self.random.fork());
                disk.with_journal(self.journal_of(node))
            }
            Durability::Memory => Disk::memory(),
        };
        let server = self.world.add_server(replica.into(), node, disk);
        self.replicas.push(replica);
        self.lost.push(false);
        self.decayed.push(false);
        self.founded.push(false);
        self.arrived.push(None);
        self.served.push(None);
        self.deleted.push(false);
        self.amnesia.add_server();
        self.boot_server(server);
    }

    /// The journal that the logs of a node share.
    fn journal_of(&mut self, node: usize) -> &NodeJournal {
        let seed = self.scenario.seed;
        let random = || Random::stream(seed, &format!("journal of node {node}"));
        self.journals.entry(node).or_insert_with(|| NodeJournal::new(seed, node, random()))
    }

    /// The node of a client slot. The slot behind the last belongs to the auditor.
    pub fn client_node(&self, slot: usize) -> usize {
        self.scenario.server_nodes + slot
    }

    /// The reading of the clock of a client's node.
    pub fn client_clock(&mut self, slot: usize) -> ClockTime {
        let (node, now) = (self.client_node(slot), self.world.now());
        self.world.clock(node).reading(now)
    }

    /// The site of a node.
    pub fn site_of(&self, node: usize) -> usize {
        node % self.scenario.sites()
    }

    /// The site at which a client's transactions run, as histories name it: where groups stand in sites, the nearest of them that the client
    /// knows.
    pub(crate) fn site_in_history(&self, slot: usize) -> String {
        let site = self.site_of(self.client_node(slot));
        match self.losses.home(self.client_node(slot)) {
            Some(shard) if S::ISOLATION.stands_in_sites() => {
                let position = self.keyspace.shards.iter().position(|known| known.id == shard);
                self.local_site(position.unwrap_or(usize::MAX))
            }
            _ => format!("site{site}"),
        }
    }

    /// The name of a local site in histories, by its position in the keyspace. The first that stands in a site goes by the name of that.
    pub fn local_site(&self, position: usize) -> String {
        let stands = |group: &Shard| group.replicas.first().map(|node| self.site_of(usize::from(node.0)));
        let Some(site) = self.keyspace.shards.get(position).and_then(stands) else {
            return format!("none.{position}");
        };
        let earlier = self.keyspace.shards[..position].iter().filter(|group| stands(group) == Some(site));
        match earlier.count() {
            0 => format!("site{site}"),
            earlier => format!("site{site}.{}", earlier + 1),
        }
    }

    /// The clients that are alive, as the world numbers them.
    pub fn live_clients(&self) -> &[usize] {
        &self.live_clients
    }

    /// Every shard of the keyspace, ascending.
    pub fn shards(&self) -> Vec<ShardId> {
        self.keyspace.shards.iter().map(|shard| shard.id).collect()
    }

    /// Every group of replicas, ascending, but for sites that are lost.
    pub fn groups(&self) -> Vec<ShardId> {
        self.groups.iter().map(|group| group.id).filter(|id| !self.losses.has_lost(*id)).collect()
    }

    fn numbered_shards(&self) -> Shards {
        let founders = self.keyspace.founders();
        Shards { first: founders[0].id, count: founders.len() as u32 }
    }

    /// Every shard of the keyspace that clients may use, ascending.
    pub fn shards_that_serve(&self) -> Vec<ShardId> {
        self.shards().into_iter().filter(|shard| self.losses.changes().serves(*shard)).collect()
    }

    /// Adds a group of replicas, each of which is new, in the place of a site that was taken out.
    pub(crate) fn add_group(&mut self, shard: Shard) {
        let (_, joins) = self.losses.changes().clone().into_lists();
        self.keyspace.joins = joins;
        self.keyspace.shards.push(shard.clone());
        self.definers.defined_mut().shards.push(shard.clone());
        self.note_site_changes();
        self.groups.push(shard.clone());
        for (replica, node) in shard.replica_ids().zip(&shard.replicas) {
            self.create_replica(replica, usize::from(node.0));
        }
    }

    /// The shard of a key.
    pub fn shard_of(&self, key: &[u8]) -> ShardId {
        self.keyspace.shard_of(key).id
    }

    /// The keyspace, as it was when it was created.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// Which replica a server is.
    pub fn replica(&self, server: usize) -> ReplicaId {
        self.replicas[server]
    }

    /// The servers of a node.
    pub fn servers_of(&self, node: usize) -> Vec<usize> {
        let is_there = |server: &usize| !self.deleted[*server] && self.world.node_of_server(*server) == node;
        (0..self.world.servers()).filter(is_there).collect()
    }

    /// True if the node is up. Nodes without replicas always are.
    pub fn is_up(&self, node: usize) -> bool {
        self.servers_of(node).into_iter().all(|server| self.world.server(server).is_some())
    }

    /// Starts a new incarnation of the client in a slot, and returns its number in the world and its id.
    pub fn start_client(&mut self, slot: usize) -> (usize, ClientId) {
        // Histories keep ids as signed numbers that every JSON tool reads, hence 52 bits.
        let incarnation = self.random.below((1 << 52) - 1);
        let reuses = S::reuses_client_ids(&self.scenario.settings);
        let id = ClientId(1 + if reuses { slot as u64 } else { incarnation });
        let node = self.client_node(slot);
        self.log_in(id, slot);
        let client = self.world.add_client(
            id.into(),
            node,
            S::client(&self.scenario.settings, id, self.numbered_shards()),
        );
        self.give_routes(client);
        self.live_clients.push(client);
        self.hint_at(client);
        (client, id)
    }

    /// A client vanishes, and with it this share of what it had said and nobody has heard yet.
    pub fn crash_client(&mut self, client: usize, silenced: f64) {
        self.world.crash_client(client, silenced);
        self.live_clients.retain(|live| *live != client);
    }

    pub(crate) fn routes(&self, site: usize) -> Routes {
        let delays = &self.scenario.site_delays[site];
        let by_delay = |shard: &Shard| {
            // The definition names a member whether or not its node has created it.
            let group = self.definers.defined().groups().find(|group| group.id == shard.id);
            let members = group.into_iter().flat_map(Shard::members);
            let delay = |node: NodeId| delays[self.site_of(usize::from(node.0))];
            let mut order: Vec<(Duration, ReplicaIndex)> =
                members.map(|(index, node)| (delay(node), index)).collect();
            order.sort_unstable();
            order
        };
        let nearest = |shard: &Shard| by_delay(shard).into_iter().map(|(_, index)| index).collect();
        let least =
            |position: &usize| by_delay(&self.keyspace.shards[*position]).first().map(|(delay, _)| *delay);
        let serves = |position: &usize| self.losses.changes().serves(self.keyspace.shards[*position].id);
        let mut order: Vec<usize> = (0..self.keyspace.shards.len()).filter(serves).collect();
        order.sort_by_key(least);
        let homes = self.keyspace.homes.iter().flat_map(|home| {
            let near = by_delay(home).into_iter();
            near.map(|(delay, index)| (delay, ReplicaId { shard: home.id, index }))
        });
        let mut homes: Vec<(Duration, ReplicaId)> = homes.collect();
        homes.sort_unstable();
        Routes {
            homes: homes.into_iter().map(|(_, home)| home).collect(),
            nearest: self.keyspace.groups().map(nearest).collect(),
            order,
            keyspace: Keyspace { epoch: self.definition.epoch, ..self.keyspace.clone() },
        }
    }

    /// Boots a replica from what its disk holds; false if that is refused and may not be given up yet.
    fn boot_server(&mut self, server: usize) -> bool {
        let replica = self.replicas[server];
        let begin = self.decide_begin(server);
        if let Begin::Refused(_) = begin {
            self.on_missing(server);
            return false;
        }
        let Some(records) = self.records(server) else { return false };
        // Initialisation is an explicit act that is repeated until it is durable; after that, missing records are lost
        // records.
        let begins_again = begin == Begin::Empty && self.founded[server];
        let is_new = begins_again || (!self.founded[server] && !self.lost[server]);
        // A server that is new or has lost its records is told; other servers are told by machines that know better.
        let is_told = is_new || (self.lost[server] && !self.is_rolled_back(server));
        let groups = if is_told { self.definition.clone() } else { self.founding_groups() };
        let boot = if is_new { Boot::Initialise } else { Boot::Rejoin };
        self.start(server, &self.seat(replica, groups, boot), records);
        if !is_told && self.definition.epoch > Epoch::FIRST {
            self.tell_later(MembershipStep::TellServer(server));
        }
        true
    }

    pub(crate) fn seat(&self, replica: ReplicaId, groups: Groups, boot: Boot) -> Seat {
        let joined = self.keyspace.joins.iter().map(|join| join.shard).collect();
        Seat { replica, groups, shards: Some(self.numbered_shards()), joined, boot, attic: None }
    }

    pub(crate) fn start(&mut self, server: usize, seat: &Seat, records: Vec<<S::Server as Machine>::Record>) {
        let seat = &self.with_attic(server, seat);
        let config = S::Server::seated(self.scenario.settings.replica.clone(), seat);
        let machine = replay::rebuild::<S::Server>(config, records);
        self.attics.note_built(server);
        self.note_begun(server);
        self.accepted_losses.note_start(server);
        self.served[server] = None;
        self.world.boot_server(server, machine);
        self.introduce(self.world.node_of_server(server));
        self.hint(seat.replica, true);
    }

    /// The groups that the keyspace was created with.
    fn founding_groups(&self) -> Groups {
        let homes = self.keyspace.homes.iter().map(|home| (home.id, home.group_size()));
        Groups::new(self.scenario.group).with_apart(homes)
    }

    /// Tells the machines of a node which they are.
    fn introduce(&mut self, node: usize) {
        let servers = self.servers_of(node);
        let there: Vec<ReplicaId> = servers.iter().map(|server| self.replicas[*server]).collect();
        for server in servers {
            if self.world.server(server).is_some()
                && let Some(command) = S::Server::meet(&there)
            {
                self.world.command_server(server, command);
            }
        }
    }

    /// The records on the disk of a server. If the disk says that it has lost something, somebody replaces it, as its error
    /// advises; unless too many of the group have lost their records already.
    fn records(&mut self, server: usize) -> Option<Vec<<S::Server as Machine>::Record>> {
        let error = match self.world.open_disk(server) {
            Ok(records) => {
                self.decayed[server] = false;
                return Some(records);
            }
            // It may answer later.
            Err(LogError::Io { .. }) => return None,
            // The journal of the node keeps something of it: the process has to begin anew, which gives it to the log.
            Err(LogError::Unsettled { .. }) if !self.decayed[server] => {
                self.crash_node(self.world.node_of_server(server), Crash::Process);
                return None;
            }
            Err(error) => error,
        };
        assert!(self.decayed[server], "a disk that has not decayed is refused: {error}");
        // Where more is lost than the group survives, an operator sees to each of its disks.
        if !self.may_lose_records(server) && !self.accepted_losses.concerns(self.replicas[server].shard) {
            return None;
        }
        self.world.replace_disk(server);
        self.decayed[server] = false;
        self.lose(server);
        // It works as long as nothing else happens to it.
        self.world.open_disk(server).ok()
    }

    /// Crashes every replica on a node. Those in memory lose their records, and the others at most what was not durable.
    pub fn crash_node(&mut self, node: usize, crash: Crash) {
        self.world.end_draining(node);
        for server in self.servers_of(node) {
            if self.world.server(server).is_some() {
                self.world.crash_server(server, crash);
                self.hint(self.replicas[server], false);
                self.forget_memory(server);
            }
        }
    }

    /// A server has crashed by itself: whatever else runs on its node goes with it, and all of it restarts after a while.
    pub fn on_crashed(&mut self, server: usize, crash: Crash, restarts_after: Duration) {
        let node = self.world.node_of_server(server);
        self.hint(self.replicas[server], false);
        self.forget_memory(server);
        self.crash_node(node, crash);
        self.world.set_alarm(restarts_after, Alarm::Strike(Strike::End(Ending::Restart(node))));
    }

    /// Replaces the disk of a node that is down by an empty one, as an operator does that is told of it.
    pub fn replace_disk(&mut self, node: usize) {
        self.replace_directory(node);
        for server in self.servers_of(node) {
            self.world.replace_disk(server);
            self.decayed[server] = false;
            self.lose(server);
        }
    }

    /// The directory of a replica on a node that is down is removed.
    pub(crate) fn remove_replica(&mut self, server: usize) {
        self.world.replace_disk(server);
        (self.decayed[server], self.amnesia.missing[server]) = (false, true);
        self.lose(server);
    }

    /// Lets a disk on a node change something that it is known to hold; false if there is none that does.
    pub fn decay_disk(&mut self, node: usize, decay: Decay) -> bool {
        let mut servers = self.servers_of(node);
        servers.retain(|server| !self.is_home_alone(self.replicas[*server].shard));
        if !self.may_lose_all(&servers) || servers.is_empty() {
            return false;
        }
        let server = servers[self.random.index(servers.len())];
        let decays = !self.decayed[server] && self.world.decay_disk(server, decay);
        self.decayed[server] |= decays;
        decays
    }

    /// Reads again what the disks of a node hold. True if something has decayed there: then it must not be used any more.
    pub fn scrub_disks(&mut self, node: usize) -> bool {
        let mut has_decayed = false;
        for server in self.servers_of(node) {
            let error = match self.world.disk(server).scrub() {
                // One that does not answer says nothing about what it holds.
                Ok(()) | Err(LogError::Io { .. }) => continue,
                Err(error) => error,
            };
            assert!(self.decayed[server], "what a disk holds that has not decayed cannot be read: {error}");
            self.world.note(|| format!("reading its log again has found: {error}"));
            has_decayed = true;
        }
        has_decayed
    }

    /// Sets the condition of every disk of a node from now on.
    pub fn set_disk_condition(&mut self, node: usize, condition: Condition) {
        for server in self.servers_of(node) {
            self.world.set_disk_condition(server, condition);
        }
    }

    /// True if a loss of power could lose or tear something on a node.
    pub fn has_unsynced(&self, node: usize) -> bool {
        self.servers_of(node).into_iter().any(|server| self.world.disk(server).is_dirty())
    }

    /// Attaches the disk of another replica to one on a node that is down. It must be refused, and stays as it was; false
    /// if there is no such disk.
    pub fn attach_wrong_disk(&mut self, node: usize) -> bool {
        let other = self.random.index(self.world.servers());
        if self.deleted[other] {
            return false;
        }
        let Some(&server) = self.servers_of(node).iter().find(|server| **server != other) else {
            return false;
        };
        match self.world.disk(server).open_wrong(self.world.disk(other)) {
            None => return false,
            // The other disk may have decayed as well.
            Some(Err(LogError::ForeignReplica { .. })) => {}
            Some(Err(error)) if self.decayed[other] => {
                self.world.note(|| format!("the wrong disk is refused, as it has decayed: {error}"));
            }
            Some(result) => panic!("the disk of another replica is not refused for what it is: {result:?}"),
        }
        let (ours, theirs) = (self.replicas[server], self.replicas[other]);
        self.world.note(|| format!("{ours} is given the disk of {theirs}, and refuses it"));
        true
    }

    /// Restarts every replica on a node that is down; those whose disk is refused try again later.
    pub fn restart_node(&mut self, node: usize) {
        let servers = self.servers_of(node);
        let is_down =
            !servers.is_empty() && servers.iter().all(|server| self.world.server(*server).is_none());
        if is_down && !self.begin_life(node) {
            return self.restart_later(node);
        }
        let mut is_up = true;
        for server in servers {
            is_up &= self.world.server(server).is_some() || self.boot_server(server);
        }
        if !is_up {
            self.restart_later(node);
        }
    }

    pub(crate) fn restart_later(&mut self, node: usize) {
        let after = Duration::from_millis(self.random.between(50, 1_000));
        self.restart_in(node, after);
    }

    pub(crate) fn restart_in(&mut self, node: usize, after: Duration) {
        self.world.set_alarm(after, Alarm::Strike(Strike::End(Ending::Restart(node))));
    }

    /// A server has ended because its disk failed: its supervisor starts it again.
    pub fn on_stopped(&mut self, server: usize) {
        self.hint(self.replicas[server], false);
        self.restart_later(self.world.node_of_server(server));
    }

    /// True if the replicas on a node may lose their records now: no group may miss more than f at a time.
    pub fn may_lose(&self, node: usize) -> bool {
        self.may_lose_all(&self.servers_of(node))
    }

    fn may_lose_all(&self, servers: &[usize]) -> bool {
        servers.iter().all(|server| self.may_lose_records(*server)) && self.may_lose_at_once(servers)
    }

    /// True if a group is the home of one node alone: nobody could mend its disk, and it has one in any case.
    pub(crate) fn is_home_alone(&self, group: ShardId) -> bool {
        self.keyspace.homes.iter().any(|home| home.id == group && home.replicas.len() == 1)
    }

    fn may_lose_records(&self, server: usize) -> bool {
        self.founded[server] && self.may_lose_at_once(&[server])
    }

    /// True if a majority of each group has its records still, if these lose theirs together.
    fn may_lose_at_once(&self, servers: &[usize]) -> bool {
        servers.iter().all(|server| {
            let shard = self.replicas[*server].shard;
            self.groups_in_charge(shard)
                .iter()
                .all(|group| self.survives_without(shard, group, |server| servers.contains(&server)))
        })
    }

    /// A replica has said that it is normal, in a group that has been as it is since this epoch.
    pub fn on_normal(&mut self, server: usize, since: Epoch) {
        self.lost[server] = false;
        self.accepted_losses.note_awake(server);
        self.founded[server] = true;
        self.arrived[server] = self.arrived[server].max(Some(since));
        self.served[server] = Some(since);
    }

    /// Ends every fault: from here on the network carries everything and all nodes run.
    pub fn heal(&mut self) {
        self.world.note(|| "all faults end".to_owned());
        self.world.network().heal();
        self.attics.work();
        self.give_all_rights();
        self.world.resume_all();
        self.end_losses();
        self.end_shard_losses();
        self.end_changes();
        for node in 0..self.scenario.server_nodes + self.scenario.clients + 1 {
            self.world.clock(node).thaw();
            self.world.set_sync_time(node, self.scenario.sync_time);
            self.world.set_service_time(node, Duration::ZERO);
            self.set_disk_condition(node, Condition::Works);
            self.world.end_draining(node);
            self.restart_node(node);
        }
        for server in 0..self.world.servers() {
            self.hint(self.replicas[server], true);
        }
    }

    /// True if every replica is normal and holds nothing prepared.
    pub fn is_quiet(&self) -> bool {
        self.is_quiet_on(|_| true)
    }

    /// True if every replica on these nodes is normal and holds nothing prepared.
    pub fn is_quiet_on(&self, looks_at: impl Fn(usize) -> bool) -> bool {
        self.unquiet_on(looks_at).next().is_none()
    }

    /// True if these nodes suffice to go on by themselves: they host f + 1 replicas of each shard that have their records.
    pub fn suffices(&self, nodes: &BTreeSet<usize>) -> bool {
        self.groups.iter().filter(|shard| !self.losses.has_lost(shard.id)).all(|shard| {
            let is_elsewhere = |server| !nodes.contains(&self.world.node_of_server(server));
            self.groups_in_charge(shard.id)
                .iter()
                .all(|group| self.survives_without(shard.id, group, is_elsewhere))
        })
    }

    /// The reasons that keep these nodes from being quiet, in words.
    pub fn unquiet_on(&self, looks_at: impl Fn(usize) -> bool) -> impl Iterator<Item = String> {
        let servers =
            (0..self.world.servers()).filter(move |server| looks_at(self.world.node_of_server(*server)));
        let missing =
            self.to_be_created().into_iter().map(|(replica, _)| format!("{replica} was not created"));
        let unquiet = servers.filter_map(|server| {
            let name = self.replicas[server];
            if self.deleted[server] {
                return None;
            }
            let Some(replica) = self.world.server(server) else { return Some(format!("{name} is down")) };
            if !self.is_member(server) {
                return Some(format!("{name} is no member and not retired: {:?}", ailment(replica.health())));
            }
            if let Some(ailment) = ailment(replica.health()) {
                return Some(format!("{name} is {ailment}"));
            }
            let held: Vec<String> = replica.held().iter().take(3).map(|held| held.id.to_string()).collect();
            let waiting = replica.waiting();
            if held.is_empty() && waiting > 0 {
                return Some(format!("{name} lets {waiting} requests wait"));
            }
            (!held.is_empty()).then(|| format!("{name} still holds {} prepared", held.join(", ")))
        });
        missing.chain(unquiet)
    }

    /// The replicas of each group, by the latest definition.
    pub(crate) fn definition(&self) -> &Groups {
        &self.definition
    }

    pub(crate) fn set_definition(&mut self, definition: Groups) {
        self.definition = definition;
    }

    /// Since when the members of its group were as they were when a server took part last, durably.
    pub(crate) fn arrived_since(&self, server: usize) -> Option<Epoch> {
        self.arrived[server]
    }

    /// Since when the members of its group were as they were when a server took part last since it has started.
    pub(crate) fn served_since(&self, server: usize) -> Option<Epoch> {
        self.served[server]
    }

    /// True if a server has lost its records, or may have.
    pub(crate) fn has_lost(&self, server: usize) -> bool {
        self.lost[server] || self.decayed[server]
    }

    /// A server has lost its records.
    fn lose(&mut self, server: usize) {
        self.lost[server] = true;
        self.accepted_losses.note_awake(server);
        self.arrived[server] = None;
    }

    /// A server has lost what it kept in memory.
    fn forget_memory(&mut self, server: usize) {
        if !self.world.disk(server).is_kept() {
            self.lose(server);
        }
    }

    /// True if a server has ever been normal.
    pub(crate) fn has_been_founded(&self, server: usize) -> bool {
        self.founded[server]
    }

    /// True if a server holds nothing: it has never taken part, or has lost its records.
    pub(crate) fn is_empty_handed(&self, server: usize) -> bool {
        (self.lost[server] && !self.accepted_losses.is_asleep(server)) || !self.founded[server]
    }

    pub(crate) fn mark_deleted(&mut self, server: usize) {
        self.deleted[server] = true;
    }

    /// True with this probability.
    pub(crate) fn random_chance(&mut self, probability: f64) -> bool {
        self.random.chance(probability)
    }

    /// A time no longer than this.
    pub(crate) fn within(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.random.unit())
    }

    /// True if replicas collect while the simulation lasts.
    pub fn collects(&self) -> bool {
        S::collects(&self.scenario.settings)
    }

    /// The reading of the slowest clock of a server.
    pub fn slowest_clock(&mut self) -> ClockTime {
        let now = self.world.now();
        let readings = (0..self.scenario.server_nodes).map(|node| self.world.clock(node).reading(now));
        readings.min().expect("there are servers")
    }

    /// The records that replicas keep although they ended before every clock said `ended`, in words.
    pub fn hoards(&self, ended: ClockTime) -> Vec<String> {
        let mut hoards = Vec::new();
        for server in self.members() {
            let name = self.replicas[server];
            let Some(replica) = self.world.server(server) else { continue };
            let floor = replica.floor();
            if !replica.has_collected(ended) {
                hoards
                    .push(format!("{name} has its floor at {floor}, and everything had ended at {ended:?}"));
            }
            for (what, number) in replica.left() {
                hoards.push(format!("{name}, with its floor at {floor}, keeps {number} {what}"));
            }
            let (bytes, bytes_max) =
                (self.world.disk(server).bytes(), S::log_bytes_max(&self.scenario.settings, replica));
            if bytes_max.is_some_and(|bytes_max| bytes > bytes_max) {
                hoards.push(format!("{name} has a log of {bytes} bytes, and {bytes_max:?} suffice"));
            }
        }
        hoards
    }

    /// The sizes of the largest replicas.
    pub fn sample(&self, committed: u64) -> Sample {
        let replicas = || self.members().filter_map(|server| self.world.server(server));
        let logs = self.members().map(|server| self.world.disk(server).bytes());
        Sample {
            committed,
            recorded: replicas().map(Holdings::recorded).max().unwrap_or_default(),
            versions: replicas().map(Holdings::version_count).max().unwrap_or_default(),
            log_bytes: logs.max().unwrap_or_default(),
        }
    }

    /// The instant this long from now.
    pub fn instant_after(&self, after: Duration) -> Instant {
        self.world.now() + after
    }
}

/// Places the groups on the server nodes, the shards of the keyspace first; node n stands in site n modulo the number of sites.
fn place<S: System>(scenario: &Scenario<S>) -> Vec<Shard> {
    let count = scenario.sites();
    let topology = topology(scenario);
    let sites: Vec<SiteId> = (0..count as u16).map(SiteId).collect();
    let groups = scenario.shards + S::services(&scenario.settings);
    let place = |shards, first, sites: &[SiteId]| match topology.place_for(
        S::ISOLATION,
        shards,
        scenario.group.replicas(),
        ShardId(first as u32),
        sites,
    ) {
        Ok(groups) => groups,
        Err(error) => unreachable!("scenarios have as many nodes as a group has replicas: {error}"),
    };
    if S::ISOLATION.stands_in_sites() {
        return place(groups / count, 1, &sites);
    }
    if !scenario.leaders_apart {
        return place(groups, 1, &sites);
    }
    if S::ISOLATION.has_homes() {
        return round_the_sites(scenario, groups);
    }
    // The first replica leads.
    let rotated = |first: usize| [&sites[(first - 1) % count..], &sites[..(first - 1) % count]].concat();
    (1..=groups).flat_map(|first| place(1, first, &rotated(first))).collect()
}

/// A group for each node that leads it, with a further replica in each of the sites that come next: each node has as many replicas.
fn round_the_sites<S: System>(scenario: &Scenario<S>, groups: usize) -> Vec<Shard> {
    let (sites, replicas) = (scenario.sites(), scenario.group.replicas());
    assert!(
        replicas <= sites && scenario.server_nodes.is_multiple_of(sites),
        "a site has one replica of a group"
    );
    let group = |number: usize| {
        let leading = number % scenario.server_nodes;
        let (row, site) = (leading / sites * sites, leading % sites);
        let nodes = (site..site + replicas).map(|next| NodeId((row + next % sites) as u16));
        Shard::new(ShardId(1 + number as u32), nodes.collect())
    };
    (0..groups).map(group).collect()
}

/// The nodes with replicas, and their sites.
fn topology<S: System>(scenario: &Scenario<S>) -> Topology {
    let count = scenario.sites();
    let node = |at: usize| {
        let (id, site) = (NodeId(at as u16), SiteId((at % count) as u16));
        Node { id, site, address: id.to_string() }
    };
    Topology {
        sites: (0..count).map(|site| format!("site{site}")).collect(),
        nodes: (0..scenario.server_nodes).map(node).collect(),
    }
}

fn keyspace<S: System>(scenario: &Scenario<S>, groups: &[Shard]) -> Keyspace {
    let next = ShardId(groups.iter().map(|group| group.id.0 + 1).max().unwrap_or(1));
    let homes = match S::ISOLATION.has_homes() {
        true => {
            let is_there = |node: NodeId| !scenario.is_spare(usize::from(node.0));
            let homes = topology(scenario).homes(next, scenario.decisions, is_there);
            homes.expect("decisions stand across sites only where there are enough")
        }
        false => Vec::new(),
    };
    let (shards, services) = groups.split_at(scenario.shards);
    let service = services.first().cloned();
    Keyspace {
        clock_bound: scenario.clock_bound,
        comparison: S::rival(&scenario.settings).map(|rival| Comparison { rival, service }),
        homes,
        timestamping: S::timestamping(&scenario.settings),
        ..Keyspace::new(KEYSPACE, "simulated", S::ISOLATION, scenario.durability, shards.to_vec())
    }
}

/// The clocks at the start: unless faults say otherwise they are as right as a time service makes them, which is within
/// a millisecond or within a few round trips. The auditor's is always right. Where clocks drift, time passes as much too fast or too
/// slowly for timers and leases as well.
fn draw_clocks<S: System>(
    scenario: &Scenario<S>,
    nodes: usize,
    random: &mut Random,
) -> (Vec<PhysicalClock>, Vec<Pace>) {
    let auditor = nodes - 1;
    let slack = if random.chance(0.5) { 2 * scenario.round_trip() } else { Duration::ZERO };
    let (mut clocks, mut paces) = (Vec::with_capacity(nodes), Vec::with_capacity(nodes));
    for node in 0..nodes {
        let (mut offset, mut drift) = (random.between(0, (CLOCK_ERROR + slack).as_micros() as u64), 0);
        if node != auditor && scenario.has(Fault::ClockSkew) && random.chance(0.7) {
            // Every order of magnitude from a millisecond upwards is equally likely.
            let magnitude = 1_000.0 * (CLOCK_ERROR_MAX_MICROS as f64 / 1_000.0).powf(random.unit());
            offset = magnitude as u64;
        }
        if node != auditor && scenario.has(Fault::ClockDrift) {
            drift = random.between(1, 1_000);
        }
        let mut signed =
            |magnitude: u64| if random.chance(0.5) { magnitude as i64 } else { -(magnitude as i64) };
        let (offset, drift) = (signed(offset), signed(drift));
        clocks.push(PhysicalClock::new(offset, drift));
        paces.push(Pace::new(drift as i32));
    }
    (clocks, paces)
}

/// The trouble that keeps a replica from taking part in its group, in a few words; none if it does take part.
fn ailment(Health { status, view, .. }: Health) -> Option<String> {
    (status != Status::Normal).then(|| format!("{status:?} in {view}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::options::Options;
    use crate::system::serializable::Serializable;

    #[test]
    fn shards_are_led_from_one_site_or_from_one_each() {
        for seed in 1..=50 {
            let derived = Scenario::<Serializable>::derive(seed, &Options::new(1..=1));
            for (leaders_apart, sites) in [(false, 1), (true, derived.sites().min(3))] {
                let scenario = Scenario { shards: 3, leaders_apart, ..derived.clone() };
                let groups = place(&scenario);
                let leaders: BTreeSet<usize> =
                    groups.iter().map(|group| usize::from(group.replicas[0].0) % scenario.sites()).collect();
                assert_eq!(leaders.len(), sites, "seed {seed}");
                assert!(groups.iter().all(|group| group.replicas.len() == scenario.group.replicas()));
                assert_eq!(groups.iter().map(|group| group.id.0).collect::<Vec<_>>(), [1, 2, 3]);
            }
        }
    }
}
