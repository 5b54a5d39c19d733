//! Where one-round transactions run: repositories (shards) of three replicas, each replica with a processor of its own, and as many
//! clients as it takes.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::command::Routes;
use quorate_core::hosted::Shards;
use quorate_core::topology::{Durability, Isolation, Keyspace, Shard};
use quorate_core::{
    Address, ClientId, Epoch, GroupSize, KeyspaceId, Machine, NodeId, Random, ReplicaId, ReplicaIndex,
    ShardId,
};
use quorate_granola::{Command, CoordinatorConfig, Locking, ReplicaConfig};
use quorate_log::member::Config;
use quorate_log::{Boot, Guest, Limits, Member, Membership, Timing};
use quorate_simulator::calibrated;
use quorate_simulator::world::World;
use quorate_simulator::world::clock::PhysicalClock;
use quorate_simulator::world::costs::{Batching, Cost, Costs, Operation};
use quorate_simulator::world::disk::Disk;
use quorate_simulator::world::network::Network;
use quorate_simulator::world::trace::Trace;

use super::load::Alarm;
use super::world::{Application, OneRound};

/// Which system coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coordination {
    /// Granola, which locks only where it must.
    Timestamps,
    /// Granola that always locks.
    Locking,
    /// As in Sinfonia: a dedicated group coordinates what has several participants, which lock for it.
    Sinfonia,
    /// Granola that waits for no earlier timestamp. It is not consistent, and shows what waiting costs.
    Unordered,
}

impl Coordination {
    /// What it is called in figures.
    pub fn name(self) -> &'static str {
        match self {
            Coordination::Timestamps => "Granola (timestamps)",
            Coordination::Locking => "Granola (locking)",
            Coordination::Sinfonia => "Sinfonia",
            Coordination::Unordered => "no ordering",
        }
    }
}

/// A world, and its clients as it numbers them.
pub(super) type Founded<A> = (World<OneRound<A>, Alarm>, Vec<(usize, ClientId)>);

/// What is deployed and who uses it.
#[derive(Clone, Debug)]
pub struct Deployment {
    /// Who coordinates.
    pub coordination: Coordination,
    /// How many repositories there are.
    pub repositories: usize,
    /// Clients, which have processors that never are too slow.
    pub clients: usize,
    /// How many transactions each client runs side by side.
    pub sessions_per_client: usize,
    /// How long a message takes between any two nodes, one way.
    pub delay: Duration,
    /// How long it takes between the replicas of a repository.
    pub delay_of_replicas: Duration,
    /// How far ahead of the clock a transaction of several participants is proposed at most, while votes are late.
    pub vote_delay_max: Duration,
    /// How wrong clocks are at most.
    pub clock_error: Duration,
    /// How much longer an operation takes whose participants lock for it: locks and what undoes it, as a share of running it.
    pub lock_overhead: f64,
    /// The same for an operation that runs at its only participant while something is locked there.
    pub single_overhead: f64,
    /// Operations take so many times as long as they were measured to.
    pub operation_scale: f64,
    /// Processors are so many times as slow as those that were measured.
    pub slowness: f64,
}

/// A message takes half as long from one node to another as there and back in the paper's cluster.
const LAN_DELAY: Duration = Duration::from_micros(100);

/// Votes are never later where this is measured.
const VOTE_DELAY_MAX: Duration = Duration::from_secs(5);

/// The coordinator of Sinfonia has sixteen cores of half the speed in the paper (section 6).
const HUB_SPEED: f64 = 8.0;

/// Of each group.
const REPLICAS: usize = 3;

impl Deployment {
    /// So many repositories in one data centre, as in the paper.
    pub fn new(coordination: Coordination, repositories: usize) -> Self {
        Deployment {
            coordination,
            repositories,
            clients: 4 * repositories,
            sessions_per_client: 16,
            delay: LAN_DELAY,
            delay_of_replicas: LAN_DELAY,
            vote_delay_max: VOTE_DELAY_MAX,
            clock_error: Duration::from_micros(100),
            lock_overhead: 1.0,
            single_overhead: 1.0,
            operation_scale: 1.0,
            slowness: 1.0,
        }
    }

    /// How many groups there are: those of repositories, and one that coordinates if there is one.
    fn groups(&self) -> usize {
        self.repositories + usize::from(self.coordination == Coordination::Sinfonia)
    }

    fn nodes(&self) -> usize {
        self.groups() * REPLICAS + self.clients
    }

    fn hub(&self) -> Option<ShardId> {
        (self.coordination == Coordination::Sinfonia).then_some(ShardId(1 + self.repositories as u32))
    }

    /// The shard of a repository, counted from zero.
    pub fn shard(repository: usize) -> ShardId {
        ShardId(1 + repository as u32)
    }

    /// What the work of a server costs: messages what they cost on a real server, and operations what they were measured to take.
    pub fn costs(&self) -> Costs {
        let mut costs = Costs { batching: Batching::Turns, wake_ns: 0.0, ..calibrated::costs() };
        let running = self.operation_scale;
        costs.operations[Operation::Read as usize] = Cost::new(0.0, running);
        costs.operations[Operation::Commit as usize] = Cost::new(0.0, running);
        costs.operations[Operation::Prepare as usize] = Cost::new(0.0, running * (1.0 + self.lock_overhead));
        costs.operations[Operation::Command as usize] =
            Cost::new(0.0, running * (1.0 + self.single_overhead));
        costs.times(self.slowness)
    }

    /// The world with all servers, and the clients as it numbers them.
    pub(super) fn found<A: Application>(&self, seed: u64) -> Founded<A> {
        let mut random = Random::new(seed);
        let group_of = |node: usize| (node < self.groups() * REPLICAS).then_some(node / REPLICAS);
        let (delay, of_replicas) = (self.delay, self.delay_of_replicas);
        let delay = |from: usize, to: usize| match (group_of(from), group_of(to)) {
            (Some(one), Some(other)) if one == other => of_replicas,
            _ => delay,
        };
        let network = Network::new(self.nodes(), 0.05, random.fork(), delay);
        let error = self.clock_error.as_micros() as u64;
        let clocks = (0..self.nodes()).map(|_| PhysicalClock::new(random.between(0, 2 * error) as i64, 0));
        let clocks = clocks.collect();
        let mut world = World::new(network, clocks, random.fork(), Trace::new(None));
        let (costs, hub_costs) = (Arc::new(self.costs()), Arc::new(self.costs().times(1.0 / HUB_SPEED)));
        for node in 0..self.groups() * REPLICAS {
            let is_hub = node / REPLICAS == self.repositories;
            world.set_costs(node, Arc::clone(if is_hub { &hub_costs } else { &costs }));
        }
        for group in 0..self.groups() {
            for replica in 0..REPLICAS {
                self.boot(&mut world, group, replica);
            }
        }
        let routes = Arc::new(self.routes());
        let clients = (0..self.clients).map(|at| {
            let id = ClientId(1 + at as u64);
            let config = CoordinatorConfig { hub: self.hub(), ..CoordinatorConfig::new(id) };
            let node = self.groups() * REPLICAS + at;
            let client = world.add_client(id.into(), node, Guest::restore(config, []));
            world.command(client, Command::Route(Arc::clone(&routes)));
            (client, id)
        });
        let clients = clients.collect();
        (world, clients)
    }

    fn boot<A: Application>(&self, world: &mut World<OneRound<A>, Alarm>, group: usize, replica: usize) {
        let id = ReplicaId { shard: Self::shard(group), index: ReplicaIndex(replica as u8) };
        let members = (0..REPLICAS as u8).map(ReplicaIndex).collect();
        let membership = match Membership::new(Epoch::FIRST, members) {
            Ok(membership) => membership,
            Err(error) => unreachable!("three replicas are a group: {error}"),
        };
        let shards = Shards { first: Self::shard(0), count: self.repositories as u32 };
        let locking = match self.coordination {
            Coordination::Timestamps | Coordination::Sinfonia => Locking::WhereNeeded,
            Coordination::Locking => Locking::Always,
            Coordination::Unordered => Locking::NeverNorWait,
        };
        let machine = ReplicaConfig {
            locking,
            hub: self.hub(),
            vote_delay_max: self.vote_delay_max,
            ..ReplicaConfig::new(id, group_size(), shards)
        };
        let config = Config {
            me: id,
            membership,
            boot: Boot::Initialise,
            timing: Timing::DEFAULT,
            // Of the settings that were tried for logs in the model this is the best.
            limits: Limits { in_flight: 1_024, ..Limits::DEFAULT },
            snapshot_bytes: u64::MAX,
            rules: quorate_log::Rules::SOUND,
            machine,
        };
        let server = world.add_server(Address::Replica(id), group * REPLICAS + replica, Disk::memory());
        world.boot_server(server, Member::restore(config, Vec::new()));
    }

    fn routes(&self) -> Routes {
        let nodes = |group: usize| (0..REPLICAS).map(|at| NodeId((group * REPLICAS + at) as u16)).collect();
        let shards = (0..self.groups()).map(|group| Shard::new(Self::shard(group), nodes(group)));
        let keyspace = Keyspace {
            id: KeyspaceId(1),
            name: "measured".to_owned(),
            isolation: Isolation::Strict,
            durability: Durability::Memory,
            shards: shards.collect(),
            epoch: Epoch::FIRST,
            clock_bound: None,
            comparison: None,
        };
        let nearest = (0..self.groups()).map(|_| (0..REPLICAS as u8).map(ReplicaIndex).collect());
        Routes { nearest: nearest.collect(), keyspace }
    }
}

fn group_size() -> GroupSize {
    match GroupSize::new(REPLICAS) {
        Ok(group) => group,
        Err(error) => unreachable!("three replicas are a group: {error}"),
    }
}
