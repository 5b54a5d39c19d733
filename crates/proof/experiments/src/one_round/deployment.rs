//! Where one-round transactions run: repositories (shards) of three replicas, each replica with a processor of its own, and as many
//! clients as it takes. A repository is a site, and so are the clients.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::command::Routes;
use quorate_core::hosted::{Boot, HostedReplica, Seat, Shards};
use quorate_core::topology::{Isolation, Keyspace, Shard};
use quorate_core::{
    Address, ClientId, GroupSize, Groups, Machine, NodeId, Random, ReplicaId, ReplicaIndex, ShardId,
};
use quorate_granola::{Command, CoordinatorConfig, Locking, ReplicaConfig};
use quorate_log::member::Config;
use quorate_log::{Guest, Rules, Timing};
use quorate_simulator::cluster::KEYSPACE;
use quorate_simulator::system::Settings;
use quorate_simulator::world::World;
use quorate_simulator::world::costs::{Cost, Costs, Operation};
use quorate_simulator::world::disk::Disk;
use quorate_simulator::world::network::Network;
use quorate_simulator::world::trace::Trace;

use super::rounds::Rounds;
use super::world::{Application, OneRound, Server};
use crate::contender::Batches;
use crate::deployment::{Clocks, Deployed, Deployment, Founded, Nodes};

/// Which system coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coordination {
    /// Granola, which locks only where it must.
    Timestamps,
    /// The same, where all is proposed at the clock: as in the paper.
    AtTheClock,
    /// Granola that always locks.
    Locking,
    /// As in Sinfonia: a dedicated group coordinates what has several participants, which lock for it.
    Sinfonia,
    /// Granola that waits for no earlier timestamp. It is not consistent, and shows what waiting costs.
    Unordered,
}

impl Coordination {
    /// The systems that lock, and the one that does not.
    pub const COMPARED: [Coordination; 3] =
        [Coordination::Timestamps, Coordination::Locking, Coordination::Sinfonia];

    /// Its name in figures.
    pub fn name(self) -> &'static str {
        match self {
            Coordination::Timestamps => "Granola (timestamps)",
            Coordination::AtTheClock => "Granola (timestamps), proposed at the clock",
            Coordination::Locking => "Granola (locking)",
            Coordination::Sinfonia => "Sinfonia",
            Coordination::Unordered => "no ordering",
        }
    }

    /// Its machines over so many repositories.
    fn settings(self, repositories: usize) -> Settings<Config<ReplicaConfig>, CoordinatorConfig> {
        let hub = (self == Coordination::Sinfonia).then_some(shard(repositories));
        let locking = match self {
            Coordination::Timestamps | Coordination::AtTheClock | Coordination::Sinfonia => {
                Locking::WhereNeeded
            }
            Coordination::Locking => Locking::Always,
            Coordination::Unordered => Locking::NeverNorWait,
        };
        let vote_delay_max = match self {
            Coordination::AtTheClock => Duration::ZERO,
            _ => VOTE_DELAY_MAX,
        };
        let replica = ReplicaConfig {
            locking,
            hub,
            vote_delay_max,
            ..ReplicaConfig::new(ReplicaId::default(), GroupSize::ONE, Shards::default())
        };
        let limits = Batches::Everything.limits();
        Settings {
            coordinator: CoordinatorConfig { hub, ..CoordinatorConfig::new(ClientId::default()) },
            replica: Config::unseated(Timing::DEFAULT, limits, u64::MAX, Rules::SOUND, replica),
        }
    }
}

/// The costs of the work of servers, as far as they are not as they were measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Labour {
    /// How much longer an operation takes whose participants lock for it: locks and what undoes it, as a share of running it.
    pub lock_overhead: f64,
    /// The same for an operation that runs at its only participant while something is locked there.
    pub single_overhead: f64,
    /// Operations take so many times as long as they were measured to.
    pub operation_scale: f64,
    /// Processors are so many times as slow as those that were measured.
    pub slowness: f64,
}

impl Labour {
    /// Locks cost as much as running does.
    pub const PLAIN: Labour =
        Labour { lock_overhead: 1.0, single_overhead: 1.0, operation_scale: 1.0, slowness: 1.0 };

    /// The costs of a server: of messages as on a real server, and of operations as they were measured.
    pub fn costs(self) -> Option<Arc<Costs>> {
        let mut costs = Costs::clone(&Batches::Everything.costs());
        let running = |overhead: f64| Cost::new(0.0, self.operation_scale * (1.0 + overhead));
        costs.operations[Operation::Read as usize] = running(0.0);
        costs.operations[Operation::Commit as usize] = running(0.0);
        costs.operations[Operation::Prepare as usize] = running(self.lock_overhead);
        costs.operations[Operation::Command as usize] = running(self.single_overhead);
        Some(Arc::new(costs.times(self.slowness)))
    }
}

/// A message takes half as long from one node to another as there and back in the paper's cluster.
pub const LAN_DELAY: Duration = Duration::from_micros(100);

/// Votes are never later where this is measured.
const VOTE_DELAY_MAX: Duration = Duration::from_secs(5);

/// Where it counts, in a sentence for reports.
pub(crate) const VOTES_AHEAD: &str = "What has several participants is proposed as far ahead of the clock as their votes are late (`vote_delay_max`, 5 s here), wherever Granola coordinates by \
     timestamps, unless a series says that it is proposed at the clock: the paper proposes at the clock. `granola-beneath` measures what that brings.";

/// How soon what was refused comes again, in a sentence for reports.
pub(crate) const BACK_OFF: &str = "What meets a lock is tried again after a pause that is drawn evenly up to the time that the attempt took, and up to twice that each further time, with all \
     systems alike: the network's round trip decides, not a constant.";

/// The coordinator of Sinfonia has sixteen cores of half the speed in the paper (section 6).
const HUB_SPEED: f64 = 8.0;

/// The shard of a repository, counted from zero.
pub fn shard(repository: usize) -> ShardId {
    ShardId(1 + repository as u32)
}

impl<A: Application> Deployment<OneRound<A>> {
    /// So many repositories in one data centre, as in the paper.
    pub fn of_repositories(coordination: Coordination, repositories: usize, work: A) -> Self {
        let plain = Deployment {
            shards: repositories,
            nodes: Nodes::PerGroup,
            clients: 4 * repositories,
            sessions_per_client: 16,
            think: Duration::ZERO,
            costs: Labour::PLAIN.costs(),
            clocks: Clocks::Ahead(LAN_DELAY),
            ..Deployment::over_regions(work, coordination.settings(repositories))
        };
        plain.delayed(LAN_DELAY, LAN_DELAY)
    }

    /// The same where a message takes so long between any two nodes, and between the replicas of a repository.
    #[must_use]
    pub fn delayed(mut self, delay: Duration, of_replicas: Duration) -> Self {
        let clients = self.groups();
        let between = |one, other| 2 * if one == other && one != clients { of_replicas } else { delay };
        let row = |one| (0..=clients).map(|other| between(one, other)).collect();
        self.round_trips = (0..=clients).map(row).collect();
        self
    }

    /// How many groups there are: those of repositories, and one that coordinates if there is one.
    fn groups(&self) -> usize {
        self.shards + usize::from(self.settings.coordinator.hub.is_some())
    }

    fn site_of(&self, node: usize) -> usize {
        (node / self.replicas).min(self.groups())
    }

    fn routes(&self) -> Routes {
        let node = |group: usize, at: usize| NodeId((group * self.replicas + at) as u16);
        let nodes = |group: usize| (0..self.replicas).map(|at| node(group, at)).collect();
        let shards = (0..self.groups()).map(|group| Shard::new(shard(group), nodes(group)));
        let keyspace =
            Keyspace::new(KEYSPACE, "measured", Isolation::Strict, self.durability, shards.collect());
        let nearest = (0..self.groups()).map(|_| (0..self.replicas as u8).map(ReplicaIndex).collect());
        Routes::new(keyspace, nearest.collect())
    }
}

impl<A: Application> Deployed for OneRound<A> {
    type Machines = OneRound<A>;
    type Settings = Settings<Config<ReplicaConfig>, CoordinatorConfig>;
    type Work = A;
    type Driver = Rounds<A>;

    const SPREAD: Duration = Duration::from_millis(5);

    /// A repository and its replicas are one site, and all clients another. The work of clients costs nothing: they have processors that
    /// never are too slow. A cluster of the simulator has neither, and speaks to clients that run interactive transactions as well.
    fn found(deployment: &Deployment<Self>, seed: u64) -> Founded<Self> {
        let mut random = Random::new(seed);
        let server_nodes = deployment.groups() * deployment.replicas;
        let nodes = server_nodes + deployment.clients;
        let site = |node| deployment.site_of(node);
        let delay = |from, to| deployment.round_trips[site(from)][site(to)] / 2;
        let network = Network::new(nodes, deployment.jitter, random.fork(), delay);
        let clocks = (0..nodes).map(|node| deployment.clocks.draw(site(node), &mut random)).collect();
        let mut world = World::new(network, clocks, random.fork(), Trace::new(None));
        for node in 0..server_nodes {
            let is_hub = site(node) == deployment.shards;
            if let Some(costs) = &deployment.costs {
                let of_hub = || Arc::new(costs.times(1.0 / HUB_SPEED));
                world.set_costs(node, if is_hub { of_hub() } else { Arc::clone(costs) });
            }
        }
        let shards = Some(Shards { first: shard(0), count: deployment.shards as u32 });
        for node in 0..server_nodes {
            let (group, index) = (node / deployment.replicas, node % deployment.replicas);
            let replica = ReplicaId { shard: shard(group), index: ReplicaIndex(index as u8) };
            let groups = Groups::new(deployment.group(false));
            let seat =
                Seat { replica, groups, shards, joined: Vec::new(), boot: Boot::Initialise, attic: None };
            let config = Server::<A>::seated(deployment.settings.replica.clone(), &seat);
            let server = world.add_server(Address::Replica(replica), node, Disk::memory());
            world.boot_server(server, Server::<A>::restore(config, Vec::new()));
        }
        let routes = Arc::new(deployment.routes());
        let clients = (0..deployment.clients).map(|at| {
            let id = ClientId(1 + at as u64);
            let config = CoordinatorConfig { client: id, ..deployment.settings.coordinator.clone() };
            let client = world.add_client(id.into(), server_nodes + at, Guest::restore(config, []));
            world.command(client, Command::Route(Arc::clone(&routes)));
            (client, id)
        });
        let clients = clients.collect();
        Founded { world, server_nodes, clients }
    }

    fn driver(work: &A) -> Rounds<A> {
        Rounds(work.clone())
    }
}
