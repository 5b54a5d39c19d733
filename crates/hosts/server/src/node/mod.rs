//! The host of a node: it has the replicas that the catalogue places there, and a copy of the catalogue.
//!
//! | file | role |
//! |---|---|
//! | `served` | what has to be known of a machine to host it: what differs from protocol to protocol |
//! | `hosted` | one replica: machine, log, health |
//! | `traffic`, `histogram` | the transactions of a replica, as its host sees them pass |
//! | `round_trips` | how long the way to other nodes and back takes |
//! | `building` | replicas that are not ready yet |
//! | `comeback` | replicas that were given up for what passes |
//! | `loading` | code that is loaded before replicas want it |
//! | `workers` | the threads that do both |
//! | `log` | its log, and how syncs are reported |
//! | `disk` | the thread that watches how much room there is and reads logs again |
//! | `resources` | what the node does when room or descriptors run short |
//! | `catalogue` | which keyspaces, sites and nodes there are |
//! | `fate` | what becomes of replicas by what the catalogue says |
//! | `memberships` | what becomes of replicas when those of their keyspace change |
//! | `loops` | the event loops of the node, and what they hand to each other |
//! | `handing` | what an event loop does with what it is handed |
//! | `neighbours` | which machines of a keyspace run on this node together |
//! | `lives` | which peers are believed, and whether this node is |
//! | `reloading` | what the node takes over from a configuration that was read again |
//! | `registry` | how sites and nodes are registered |
//! | `addresses` | where nodes are found, of which what is registered may be old |
//! | `rights` | which messages are taken of whom |
//! | `routes` | where messages go |
//! | `intake` | messages that arrive |
//! | `admission` | which messages of clients are refused whatever the load |
//! | `agreement` | what has to be set alike at all nodes |
//! | `versions` | which protocol version is in force, and which nodes know it |
//! | `announcements` | what clients tell each other through this node |
//! | `disagreements` | what clients say of shards that have decided differently |
//! | `speakers` | which peer may say what |
//! | `service` | replicas that do not serve before an operator acts |
//! | `status` | what operators are told |

mod addresses;
mod admission;
mod agreement;
mod announcements;
mod building;
mod catalogue;
mod comeback;
mod disagreements;
mod disk;
mod draining;
mod fate;
mod handing;
mod histogram;
mod hosted;
mod intake;
mod lives;
mod loading;
mod log;
mod loops;
mod memberships;
mod neighbours;
mod registry;
mod reloading;
mod resources;
mod rights;
mod round_trips;
mod routes;
mod served;
mod service;
mod speakers;
mod speculating;
mod status;
mod sweeping;
mod traffic;
mod versions;
mod workers;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use quorate_certificates::Trust;
use quorate_core::draining::Draining;
use quorate_core::hash::FixedMap;
use quorate_core::topology::{Join, Keyspace, Node as Place, Topology};
use quorate_core::{ClientId, Epoch, Instant, KeyspaceId, NodeId, Random, ReplicaId, ShardId};
use quorate_runtime::transport::{Remote, TurnWaker, Violation};
use quorate_runtime::{Host, LinkId, Time, Transport, Turn};
use quorate_wire::{Directory, Packet, Peer};
use tokio::sync::watch;

use crate::data::{DataDirectory, DataError, Known, Placement};
use crate::entrance::Security;
use crate::{Config, process};
use addresses::Addresses;
use agreement::Agreement;
use announcements::Announcements;
pub(crate) use building::build_all;
use building::{Builder, Order, Origin};
use catalogue::{Catalogue, Found, Question, Reading};
use comeback::Comebacks;
use disagreements::Disagreements;
pub(crate) use disk::Disk;
pub(crate) use disk::make_room;
pub(crate) use draining::DrainState;
use hosted::{Hosted, Runs, State, Stepped};
pub(crate) use lives::Peers;
use loading::Loader;
use log::LogError;
pub(crate) use log::Logs;
pub(crate) use loops::Loops;
use loops::{Handed, Here};
use neighbours::Neighbours;
use rights::Rights;
pub use round_trips::PeerStatus;
use round_trips::RoundTrips;
pub(crate) use routes::event_loop_of_keyspace;
use routes::{Outgoing, Routes};
use speakers::Misattributed;
pub use speculating::{DecidedStatus, DecisionStatus, SpeculatingStatus, TunerStatus};
pub use status::{
    ChangesStatus, DiskStatus, EventLoopStatus, HandedOverStatus, LagStatus, LogStatus, MemoryStatus,
    ReplicaStatus, SecurityStatus, Status, TransportStatus, ValuesInFileStatus,
};
pub use sweeping::{SweepingStatus, SweptHere};
pub use traffic::{HotKeyStatus, SlowStatus, TrafficStatus};
use versions::Versions;
pub use versions::VersionsStatus;

/// Messages between machines of one node that are delivered in one turn; what is left waits for the next.
const HERE_PER_TURN_MAX: usize = 10_000;

/// How often an event loop looks how much processor time it has taken.
const CPU_TIME_INTERVAL: Duration = Duration::from_millis(200);

/// The message of a node that has been taken out of the cluster.
const FORGOTTEN: &str =
    "this node was forgotten and is no node of the cluster any more: stop it, and remove its data directory";

/// The host of an event loop of a node, with the replicas that live there. The first one speaks for the node; of what is marked so below, the others have nothing.
pub(crate) struct Node {
    config: Arc<Config>,
    data: Arc<DataDirectory>,
    peers: Peers,
    logs: Logs,
    waker: TurnWaker,
    routes: Routes,
    /// Where nodes are, as far as that was heard of.
    addresses: Addresses,
    /// How long the way to the other nodes and back takes.
    round_trips: RoundTrips,
    /// The nodes that go by other times than this one.
    agreement: Agreement,
    /// Which protocol version is in force, and which nodes know it.
    versions: Versions,
    /// The clients that listen to others.
    announcements: Announcements,
    /// The reports of clients on shards that have decided differently.
    disagreements: Disagreements,
    /// The sites and nodes, each at its latest address.
    topology: watch::Sender<Arc<Topology>>,
    /// The configuration service, and who holds it.
    system: Keyspace,
    replicas: FixedMap<ReplicaId, Hosted>,
    builder: Builder,
    /// At the first event loop.
    disk: Option<Disk>,
    /// Whether others were told that there is too little room.
    told_low: bool,
    /// The other nodes that have too little room.
    without_space: BTreeSet<NodeId>,
    /// How many clients may connect.
    clients_max: usize,
    /// Replicas that were given up for what passes.
    hindered: BTreeSet<ReplicaId>,
    comebacks: Comebacks,
    loader: Loader,
    /// At the first event loop.
    catalogue: Option<Catalogue>,
    /// The keyspaces, as they were read there last.
    reading: Option<Reading>,
    /// Messages between machines of this event loop, and what goes to others.
    here: Here,
    /// At the first event loop: the others, in order.
    others: Vec<Transport<Node>>,
    /// At the first event loop: the replicas of the others that do not serve before an operator acts, and how many logs each has.
    others_problems: BTreeMap<u16, (BTreeMap<ReplicaId, String>, usize)>,
    /// The replicas whose logs have to be written at the end of this turn.
    dirty: Vec<ReplicaId>,
    /// The replicas that wait for a sync.
    syncing: Vec<ReplicaId>,
    /// The memberships of the keyspaces that are hosted here and whose replicas have ever changed.
    memberships: BTreeMap<KeyspaceId, Known>,
    /// Of a node that was replaced: the index of the replica that was to join each shard next when it was heard of first.
    joined_since: BTreeMap<ShardId, u16>,
    /// The neighbours on this node that each machine was told of.
    neighbours: Neighbours,
    /// Replicas that nobody needs any more.
    retired: Vec<ReplicaId>,
    /// When timers of replicas are due. An entry counts if it is the one that its replica has been told of last.
    due: BinaryHeap<Reverse<(Instant, ReplicaId)>>,
    /// The problems that clients were told of replicas that do not serve before an operator acts.
    problems: BTreeMap<ReplicaId, String>,
    /// True if that may have changed.
    service_changed: bool,
    /// Links that were told in this turn that the node is busy.
    told_busy: Vec<LinkId>,
    /// Messages that were refused, and those of them whose client had too much under way.
    refused: u64,
    refused_for_client: u64,
    is_started: bool,
    draining: Option<Draining>,
    /// True if this is no node of the cluster any more.
    is_forgotten: bool,
    /// Messages that nodes have sent in the name of others.
    misattributed: Misattributed,
    /// The rights of peers.
    rights: Rights,
    /// The certificates of this node; none if its connections are plain text.
    trust: Option<Arc<Trust>>,
    /// Why the configuration that was read again cannot be used, if it cannot.
    configuration_problem: Option<String>,
    /// How sweeping goes.
    sweeping: Vec<SweepingStatus>,
    /// Directories of replicas that belong to other data directories, with what to do about them.
    foreign: Vec<String>,
    seeds: Random,
    /// How many turns there were, the processor time of the thread as of a moment ago, and when that was.
    turns: u64,
    cpu_time: Duration,
    cpu_time_at: Instant,
    /// How many event loops other nodes have, as far as this one has dialled them.
    event_loops_of: BTreeMap<NodeId, u16>,
}

/// The settings and the data directory that all event loops of a node begin with.
#[derive(Clone)]
pub(crate) struct Origins {
    pub(crate) config: Arc<Config>,
    pub(crate) data: Arc<DataDirectory>,
    /// As which client the node speaks.
    pub(crate) client: ClientId,
    pub(crate) security: Security,
}

impl Node {
    /// An event loop of a node, and those of the replicas that its data directory and configuration name which live there: they are to be built, and to be
    /// [given to it](Self::begin_with). It draws from a seed.
    pub(crate) fn new(
        Origins { config, data, client, security: Security { trust, entrance } }: Origins,
        peers: Peers,
        (loops, waker): (Loops, TurnWaker),
        (logs, disk): (Logs, Option<Disk>),
        seed: u64,
    ) -> Result<(Self, Vec<Order>), DataError> {
        let mut seeds = Random::new(seed);
        let mut routes = Routes::new(config.node, client, config.topology.nodes.len(), &loops);
        let mut system = config.system.clone();
        if let Some(known) = data.memberships(system.id)? {
            known.overlay(&mut system);
        }
        if system.epoch > Epoch::FIRST && loops.is_first() {
            data.note_memberships(loops.own(), system.id, &Known::of(&system))?;
        }
        routes.learn(&system);
        let catalogue = loops
            .is_first()
            .then(|| Catalogue::new(client, Arc::clone(&config), &system.shards[0], seeds.next_u64()));
        let addresses = Addresses::new(config.node, config.topology.clone());
        let agreement = Agreement::new(&config.log);
        let versions = Versions::new(data.protocol_version()?);
        let topology = watch::Sender::new(Arc::new(config.topology.clone()));
        let builder = Builder::new(Arc::clone(&data), logs.clone(), waker.clone());
        let loader = Loader::new(waker.clone());
        let mut node = Node {
            config,
            data,
            peers,
            logs,
            waker,
            routes,
            addresses,
            round_trips: RoundTrips::default(),
            agreement,
            versions,
            announcements: Announcements::default(),
            disagreements: Disagreements::default(),
            topology,
            system,
            replicas: FixedMap::default(),
            builder,
            disk,
            told_low: false,
            without_space: BTreeSet::new(),
            clients_max: 0,
            hindered: BTreeSet::new(),
            comebacks: Comebacks::default(),
            loader,
            catalogue,
            reading: None,
            here: Here { queue: VecDeque::new(), loops },
            others: Vec::new(),
            others_problems: BTreeMap::new(),
            dirty: Vec::new(),
            syncing: Vec::new(),
            memberships: BTreeMap::new(),
            joined_since: BTreeMap::new(),
            neighbours: Neighbours::default(),
            retired: Vec::new(),
            due: BinaryHeap::new(),
            problems: BTreeMap::new(),
            service_changed: true,
            told_busy: Vec::new(),
            refused: 0,
            refused_for_client: 0,
            is_started: false,
            draining: None,
            is_forgotten: false,
            misattributed: Misattributed::default(),
            rights: Rights::new(entrance),
            trust,
            configuration_problem: None,
            sweeping: Vec::new(),
            foreign: Vec::new(),
            seeds,
            turns: 0,
            cpu_time: Duration::ZERO,
            cpu_time_at: Instant::START,
            event_loops_of: BTreeMap::new(),
        };
        let mut placements = node.data.replicas()?;
        // Replicas of all event loops send to each other, also if the catalogue cannot be read for long.
        placements.iter().for_each(|placement| node.routes.learn_placement(placement));
        placements.retain(|placement| node.is_own(placement));
        for keyspace in placements.iter().map(|placement| placement.keyspace).collect::<BTreeSet<_>>() {
            let known = node.data.rely_on_memberships(node.here.loops.own(), keyspace)?;
            node.memberships.extend(known.map(|known| (keyspace, known)));
        }
        for placement in Placement::on_node(&node.system, node.config.node) {
            let is_known = placements.iter().any(|known| known.replica == placement.replica);
            if node.is_own(&placement) && !is_known {
                placements.push(placement);
            }
        }
        let origin = if node.data.is_replacement() { Origin::OldGroup } else { Origin::NewGroup };
        let orders = placements.into_iter().map(|placement| node.order(placement, origin)).collect();
        Ok((node, orders))
    }

    /// Takes the replicas that were ordered when it was created. Call [`Node::start`] afterwards, within a turn.
    pub(crate) fn begin_with(&mut self, replicas: Vec<Hosted>) -> Result<(), DataError> {
        for hosted in replicas {
            self.hindered.extend(hosted.hindrance().map(|_| hosted.placement.replica));
            self.replicas.insert(hosted.placement.replica, hosted);
        }
        if self.is_first() {
            self.foreign = self.data.foreign_replicas()?.iter().map(DataError::to_string).collect();
        }
        if let Some(reason) = self.peers.fence().map(str::to_owned) {
            self.give_up(&reason);
        }
        Ok(())
    }

    /// Notes that a turn ends, and now and then how much processor time all turns have taken.
    fn note_turn(&mut self, now: Instant) {
        self.turns += 1;
        if now.saturating_since(self.cpu_time_at) >= CPU_TIME_INTERVAL {
            (self.cpu_time, self.cpu_time_at) = (process::cpu_time_of_thread(), now);
            self.note_memory();
        }
    }

    /// Notes how much memory replicas take, if it is bounded. Some are told by other replicas alone what to add, and hear no client.
    fn note_memory(&mut self) {
        if self.data.attics().is_some() {
            let running = self.replicas.values_mut().filter_map(Hosted::running);
            running.for_each(|running| _ = running.exceeds_memory());
        }
    }

    /// True if this event loop dials another node: the first one does, and each other one that has a counterpart there.
    pub(crate) fn dials(&self, node: NodeId) -> bool {
        self.is_first() || self.event_loops_of.get(&node).is_some_and(|count| *count > self.event_loop())
    }

    /// Takes note of how many event loops another node has.
    fn set_event_loops_of(&mut self, node: NodeId, count: u16) {
        if self.event_loops_of.insert(node, count) != Some(count) {
            self.here.loops.hand_to_others_if_first(|| Handed::EventLoops { node, count });
            // Those that dial look again.
            self.topology.send_modify(|_| {});
        }
    }

    /// True if this event loop speaks for the node.
    fn is_first(&self) -> bool {
        self.here.loops.is_first()
    }

    /// True if a replica lives on this event loop.
    fn is_own(&self, placement: &Placement) -> bool {
        let loops = &self.here.loops;
        placement.event_loop(loops.count()) == loops.own()
    }

    /// Which event loop this is, among those of the node.
    pub(crate) fn event_loop(&self) -> u16 {
        self.here.loops.own()
    }

    /// Which node this is.
    pub(crate) fn node(&self) -> NodeId {
        self.config.node
    }

    /// The other event loops of the node, in order. To be called on the first one before it starts.
    pub(crate) fn set_others(&mut self, others: Vec<Transport<Node>>) {
        assert!(self.is_first(), "the first event loop speaks for the node");
        self.others = others;
    }

    /// Sends a packet to all clients.
    fn tell_clients(&mut self, packet: Packet, turn: &mut Turn<'_>) {
        if self.is_first() {
            turn.send_to_clients(&packet);
        } else {
            self.here.loops.hand(0, Handed::ToClients(packet));
        }
    }

    /// The sites and nodes, now and whenever that changes.
    pub(crate) fn topology(&self) -> watch::Receiver<Arc<Topology>> {
        self.topology.subscribe()
    }

    /// Starts every machine. Before, whatever arrives is dropped.
    pub(crate) fn start(&mut self, turn: &mut Turn<'_>) {
        let time = turn.time;
        self.is_started = true;
        for other in &self.others {
            other.with(|node, turn| node.start(turn));
        }
        self.renew_clients_max(turn);
        for id in self.replica_ids() {
            self.start_replica(id, turn);
        }
        self.introduce(turn);
        if let Some(catalogue) = &mut self.catalogue {
            catalogue.start(time, &mut outgoing(&self.routes, &mut self.here, turn));
        }
    }

    /// Makes everything durable and stops every replica. There must be no turn after this one.
    pub(crate) fn close(&mut self) {
        for other in &self.others {
            other.with(|node, _| node.close());
        }
        self.builder.close();
        self.loader.close();
        for (id, hosted) in self.replicas.drain() {
            if let State::Running(running) = hosted.state
                && let Err(error) = running.close()
            {
                tracing::error!(replica = %id, %error, "a log could not be closed");
            }
        }
    }

    /// The order to build a replica.
    fn order(&mut self, placement: Placement, origin: Origin) -> Order {
        self.routes.learn_placement(&placement);
        Order {
            placement,
            origin,
            containers: self.config.containers,
            log: self.config.log,
            seed: self.seeds.next_u64(),
        }
    }

    /// Takes in the replicas that have become ready, of which the catalogue may say something else by now.
    fn take_in_ready(&mut self, turn: &mut Turn<'_>) {
        let ready = self.builder.take_ready();
        if ready.is_empty() {
            return;
        }
        self.service_changed = true;
        let ids: Vec<ReplicaId> = ready.iter().map(|hosted| hosted.placement.replica).collect();
        for mut hosted in ready {
            let id = hosted.placement.replica;
            if let Some(reason) = self.peers.fence() {
                hosted.state = State::Refused(reason.to_owned());
            }
            self.hindered.extend(hosted.hindrance().map(|_| id));
            self.replicas.insert(id, hosted);
            self.start_replica(id, turn);
        }
        self.introduce(turn);
        self.renew_clients_max(turn);
        // Once, and not for each of thousands.
        if self.builder.is_idle() {
            self.tell_clients(Packet::CatalogueChanged, turn);
        }
        self.judge(&ids, turn);
    }

    /// Starts a replica, and tells it what it may have missed.
    fn start_replica(&mut self, id: ReplicaId, turn: &mut Turn<'_>) {
        self.step(id, turn, |running, time, outgoing| running.start(time, outgoing));
        self.tell_memberships(id, turn);
        self.note_neighbour(id);
    }

    /// Gives a replica up, for this reason.
    fn refuse_replica(&mut self, id: ReplicaId, error: &LogError) {
        let Some(hosted) = self.replicas.get_mut(&id) else { return };
        hosted.refuse(error);
        self.service_changed = true;
        self.hindered.extend(hosted.hindrance().map(|_| id));
        self.note_neighbour(id);
    }

    /// Gives up the replicas whose logs have decayed, as reading them again has found.
    fn refuse_decayed(&mut self) {
        if self.logs.has_findings() {
            for (id, error) in self.logs.take_findings() {
                self.refuse_replica(id, &error);
            }
        }
    }

    /// The replicas of this node, ascending.
    fn replica_ids(&self) -> Vec<ReplicaId> {
        let mut ids: Vec<_> = self.replicas.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Lets a replica take a step.
    fn step(
        &mut self,
        id: ReplicaId,
        turn: &mut Turn<'_>,
        act: impl FnOnce(&mut dyn Runs, Time, Outgoing<'_, '_>) -> Stepped,
    ) {
        let time = turn.time;
        let Some(hosted) = self.replicas.get_mut(&id) else { return };
        let Some(running) = hosted.running() else { return };
        let stepped = act(running, time, outgoing(&self.routes, &mut self.here, turn));
        self.note_deadline(id);
        self.after_step(id, stepped);
    }

    /// Has a replica woken for its next timer, if that is due earlier than what it is to be woken for.
    fn note_deadline(&mut self, id: ReplicaId) {
        let Some(hosted) = self.replicas.get_mut(&id) else { return };
        let Some(deadline) = hosted.running().and_then(Runs::next_deadline) else { return };
        if hosted.due.is_none_or(|due| deadline < due) {
            hosted.due = Some(deadline);
            self.due.push(Reverse((deadline, id)));
        }
    }

    fn after_step(&mut self, id: ReplicaId, stepped: Stepped) {
        if stepped.consults
            && let Some(hosted) = self.replicas.get_mut(&id)
            && let keyspace = hosted.placement.keyspace
            && let Some(consultation) = hosted.running().and_then(Runs::take_consultation)
        {
            let question = Question { replica: id, keyspace, consultation };
            match &mut self.catalogue {
                Some(catalogue) => catalogue.consult(question),
                None => self.here.loops.hand(0, Handed::Question(question)),
            }
        }
        if stepped.became_dirty {
            self.dirty.push(id);
        }
        self.service_changed |= stepped.changes_state;
        if stepped.is_retired {
            self.retired.push(id);
        }
    }

    /// Lets go what waited for records that have become durable.
    fn release_durable(&mut self, turn: &mut Turn<'_>) {
        let time = turn.time;
        for id in std::mem::take(&mut self.syncing) {
            let Some(hosted) = self.replicas.get_mut(&id) else { continue };
            hosted.waits_for_sync = false;
            let Some(running) = hosted.running() else { continue };
            match running.release_durable(time, outgoing(&self.routes, &mut self.here, turn)) {
                Ok(stepped) => {
                    if running.is_syncing() && !stepped.became_dirty {
                        hosted.waits_for_sync = true;
                        self.syncing.push(id);
                    }
                    self.note_deadline(id);
                    self.after_step(id, stepped);
                }
                Err(error) => self.refuse_replica(id, &error),
            }
        }
    }

    fn fire_timers(&mut self, turn: &mut Turn<'_>) {
        let time = turn.time;
        // A timer that becomes due meanwhile is for the next turn.
        let mut due = Vec::new();
        while let Some(Reverse((at, id))) = self.due.peek().copied()
            && at <= time.now
        {
            self.due.pop();
            if let Some(hosted) = self.replicas.get_mut(&id)
                && hosted.due.take_if(|known| *known == at).is_some()
            {
                due.push(id);
            }
        }
        for id in due {
            let Some(running) = self.replicas.get_mut(&id).and_then(Hosted::running) else { continue };
            // Its timers may have been moved since.
            if running.next_deadline().is_some_and(|deadline| deadline <= time.now) {
                let stepped = running.fire_timers(time, outgoing(&self.routes, &mut self.here, turn));
                self.after_step(id, stepped);
            }
            self.note_deadline(id);
        }
    }

    fn deliver_here(&mut self, turn: &mut Turn<'_>) {
        for _ in 0..HERE_PER_TURN_MAX {
            let Some(envelope) = self.here.queue.pop_front() else { return };
            self.deliver(envelope, turn);
        }
    }

    fn write_logs(&mut self) {
        // At one go, so that they are synced together.
        let mut written = Vec::with_capacity(self.dirty.len());
        for id in std::mem::take(&mut self.dirty) {
            let Some(hosted) = self.replicas.get_mut(&id) else { continue };
            let Some(running) = hosted.running() else { continue };
            match running.write_log() {
                Ok(unsynced) => {
                    written.extend(unsynced);
                    if !std::mem::replace(&mut hosted.waits_for_sync, true) {
                        self.syncing.push(id);
                    }
                }
                Err(error) => self.refuse_replica(id, &error),
            }
        }
        self.logs.submit(written);
    }

    /// Hosts what the catalogue places here, and deletes what it says may go. Replicas of keyspaces that it does not name are kept.
    fn apply(&mut self, reading: Reading, turn: &mut Turn<'_>) {
        self.here.loops.hand_to_others_if_first(|| Handed::Reading(Box::new(reading.clone())));
        if self.peers.fence().is_some() {
            return;
        }
        let mut orders = Vec::new();
        for Found { keyspace, created, .. } in &reading.keyspaces {
            self.routes.learn(keyspace);
            let known = self.reading.as_ref().and_then(|known| known.listed(keyspace.id));
            let sites_have_changed =
                known.is_some_and(|known| known.site_changes() != keyspace.site_changes());
            if sites_have_changed {
                let (removed, joined) = (keyspace.removals.len(), keyspace.joins.len());
                tracing::info!(
                    keyspace = keyspace.name,
                    removed,
                    joined,
                    "the sites of the keyspace have changed"
                );
            }
            let is_joined = |shard: &&Join| {
                known.is_some_and(|known| known.shards.iter().all(|known| known.id != shard.shard))
            };
            let joined: Vec<ShardId> =
                keyspace.joins.iter().filter(is_joined).map(|join| join.shard).collect();
            if sites_have_changed {
                self.tell_clients(Packet::CatalogueChanged, turn);
            }
            let mut placements = Placement::on_node(keyspace, self.config.node);
            placements.retain(|placement| self.is_own(placement));
            if !self.enter_epoch(keyspace, !placements.is_empty(), turn) {
                continue;
            }
            for placement in placements {
                let id = placement.replica;
                // A group that joined while this node ran is as new as a keyspace that was created then.
                let is_new_here = *created > reading.started || joined.contains(&id.shard);
                let first_new = match is_new_here || !self.data.is_replacement() {
                    true => 0,
                    false => *self.joined_since.entry(id.shard).or_insert(placement.group.next_index()),
                };
                if !self.replicas.contains_key(&id) && !self.builder.is_building(id) {
                    tracing::info!(replica = %id, keyspace = placement.keyspace_name, "hosting a replica");
                    let is_new = u16::from(id.index.0) >= first_new;
                    let origin = if is_new { Origin::NewGroup } else { Origin::OldGroup };
                    orders.push(self.order(placement, origin));
                }
            }
        }
        self.builder.start(orders);
        self.reading = Some(reading);
        self.judge(&self.replica_ids(), turn);
    }

    /// Takes in what was heard of nodes, and tells clients if they are others than before, or elsewhere.
    fn renew_topology(&mut self, turn: &mut Turn<'_>) {
        let topology = self.addresses.topology();
        if **self.topology.borrow() == topology {
            return;
        }
        self.tell_clients(Packet::CatalogueChanged, turn);
        tracing::info!(
            sites = topology.sites.len(),
            nodes = topology.nodes.len(),
            "the nodes of the cluster have changed"
        );
        self.routes.set_nodes(topology.nodes.len());
        self.is_forgotten = topology.node(self.config.node).is_none();
        if self.is_forgotten {
            tracing::error!("{FORGOTTEN}");
        }
        if let Err(error) = self.data.remember(&topology, &self.config.system) {
            tracing::error!(%error, "where the other nodes are cannot be remembered; after a restart the file counts");
        }
        let topology = Arc::new(topology);
        self.here.loops.hand_to_others(|| Handed::Topology(Arc::clone(&topology)));
        self.topology.send_replace(topology);
    }

    /// Learns from another node where it is, and who holds the configuration service: this node may have slept while that moved,
    /// and know nobody any more who does.
    fn on_directory(&mut self, node: NodeId, directory: Directory, turn: &mut Turn<'_>) {
        if let Some(place) = directory.topology.node(node) {
            self.addresses.set_said(node, &place.address);
            self.renew_topology(turn);
        }
        self.set_system(directory.system, turn);
    }
}

impl Host for Node {
    fn on_link_up(&mut self, link: LinkId, remote: &Remote, turn: &mut Turn<'_>) {
        match remote.identity {
            // One that has just joined tries again.
            Peer::Node(node)
                if self.topology.borrow().nodes.get(usize::from(node.0)).is_none_or(Place::is_forgotten) =>
            {
                turn.close(link, format!("{node} is not known to be a node of this cluster"));
            }
            Peer::Node(node) => {
                let was_connected = self.routes.is_connected(node);
                self.peers.greet(link, node, turn);
                self.routes.set_node(node, link, remote.dial.is_some());
                if remote.dial.is_some() && self.is_first() {
                    self.set_event_loops_of(node, remote.event_loops);
                }
                if !self.is_first() {
                    let settings = self.versions.settings().to_vec();
                    turn.send(link, &Packet::Settings { settings });
                    return;
                }
                self.round_trips.on_asked(node, turn.time.now);
                turn.send(link, &Packet::DirectoryRequest);
                let settings = [self.agreement.own(), &self.versions.settings()].concat();
                turn.send(link, &Packet::Settings { settings });
                let hash = self.rights.entrance().own_token();
                turn.send(link, &Packet::Token { hash: bytes::Bytes::copy_from_slice(&hash) });
                self.tell_space_to(link, turn);
                if !was_connected {
                    tracing::info!(%node, "connected");
                }
            }
            Peer::Client(client) => {
                self.routes.set_client(client, link);
                if !self.is_first() {
                    return;
                }
                self.tell_problems(link, turn);
                self.tell_leaving(link, turn);
                self.tell_space_to(link, turn);
            }
        }
    }

    fn on_link_down(&mut self, link: LinkId, remote: &Remote, reason: &str, _: &mut Turn<'_>) {
        self.routes.forget_link(link);
        self.peers.forget_link(link);
        self.versions.forget_link(link);
        self.announcements.forget_link(link);
        self.rights.forget_link(link);
        if let Peer::Node(node) = remote.identity
            && self.is_first()
            && !self.routes.is_connected(node)
        {
            tracing::info!(%node, reason, "disconnected");
            self.agreement.forget(node);
            self.round_trips.forget(node);
            self.on_space(node, true);
        }
    }

    fn on_packet(&mut self, link: LinkId, packet: Packet, turn: &mut Turn<'_>) -> Result<(), Violation> {
        if let Some(remote) = turn.remote(link) {
            speakers::validate(remote, &packet)?;
            if !self.is_first() {
                return self.on_packet_beside(link, remote.identity, packet, turn);
            }
        }
        if !self.may_ask(link, &packet, turn) {
            return Ok(());
        }
        match packet {
            Packet::Envelope(envelope) => self.on_envelope(link, envelope, turn)?,
            Packet::DirectoryRequest => {
                let (topology, system) = (Topology::clone(&self.topology.borrow()), self.system.clone());
                turn.send(link, &Packet::Directory(Directory { topology, system }));
            }
            Packet::StatusRequest => {
                let json = self.status(turn).to_json().into();
                turn.send(link, &Packet::Status { json });
            }
            Packet::ReplicasRequest => {
                let (replicas, room) = (self.all_reports(), crate::process::room_for_replicas());
                let knows_keyspaces = self.reading.is_some();
                let applications = quorate_serializable_library::applications();
                let applications = applications.into_iter().map(str::to_owned).collect();
                turn.send(link, &Packet::Replicas { replicas, room, knows_keyspaces, applications });
            }
            Packet::AcceptLoss { replica, view } => {
                self.note_administration(link, "accept the loss of records", &replica.to_string(), turn);
                let accepted = self.where_it_lives(replica, turn, |node, _| node.accept_loss(replica, view));
                turn.send(link, &service::answer_acceptance(replica, accepted));
            }
            Packet::DeclareLost { replica, shard } => {
                self.note_administration(link, "declare a shard lost", &shard.to_string(), turn);
                let declare = |node: &mut Node, turn: &mut Turn<'_>| node.declare_lost(replica, shard, turn);
                let refused = self.where_it_lives(replica, turn, declare).err();
                turn.send(link, &Packet::DeclareLostReply { replica, refused });
            }
            Packet::Verify { replica, request } => {
                let verify = |node: &mut Node, turn: &mut Turn<'_>| node.verify(replica, &request, turn);
                let answer = self.where_it_lives(replica, turn, verify);
                turn.send(link, &Packet::VerifyReply { replica, request, answer });
            }
            Packet::Changes { replica, request } => {
                let changes = |node: &mut Node, turn: &mut Turn<'_>| node.changes(replica, &request, turn);
                let answer = self.where_it_lives(replica, turn, changes);
                turn.send(link, &Packet::ChangesReply { replica, request, answer });
            }
            Packet::Listen { topics } => self.listen(link, topics, turn)?,
            packet @ Packet::Announce { .. } => self.pass_on(link, &packet, turn)?,
            Packet::Disagreement { transaction, decided } => {
                self.hear_disagreement(link, transaction, &decided, turn)?;
            }
            Packet::Join { site, address } => self.on_join(link, site, address, turn),
            Packet::Lives { own, known } => {
                if let Some(Peer::Node(node)) = turn.remote(link).map(|remote| remote.identity) {
                    self.on_lives(link, node, &own, &known);
                }
            }
            Packet::Directory(directory) => {
                if let Some(Peer::Node(node)) = turn.remote(link).map(|remote| remote.identity)
                    && self.peers.believes(link)
                {
                    self.round_trips.on_answered(node, turn.time.now);
                    self.on_directory(node, directory, turn);
                }
            }
            Packet::Settings { settings } => {
                if let Some(Peer::Node(node)) = turn.remote(link).map(|remote| remote.identity) {
                    if let Some(problem) = self.agreement.compare(node, &settings) {
                        tracing::error!("{problem}");
                    }
                    if let Some(reason) = self.versions.hear(link, node, &settings) {
                        turn.close(link, reason);
                    }
                }
            }
            Packet::Token { hash } => {
                if let Some(Peer::Node(node)) = turn.remote(link).map(|remote| remote.identity)
                    && self.peers.believes(link)
                {
                    self.hear_token(node, &hash);
                }
            }
            Packet::Space { problem } => {
                if let Some(Peer::Node(node)) = turn.remote(link).map(|remote| remote.identity) {
                    self.on_space(node, problem.is_none());
                }
            }
            // Said by servers to clients; between servers they mean nothing.
            Packet::Busy { .. }
            | Packet::CatalogueChanged
            | Packet::Status { .. }
            | Packet::Replicas { .. }
            | Packet::ReplicaService { .. }
            | Packet::Stopping
            | Packet::AcceptLossReply { .. }
            | Packet::DeclareLostReply { .. }
            | Packet::VerifyReply { .. }
            | Packet::ChangesReply { .. }
            | Packet::Denied(_)
            | Packet::JoinReply { .. } => {}
            // The transport deals with these.
            Packet::Hello(_) | Packet::Welcome(_) | Packet::Goodbye { .. } | Packet::Unsupported { .. } => {}
        }
        Ok(())
    }

    fn on_turn_end(&mut self, turn: &mut Turn<'_>) {
        if !self.is_started {
            return;
        }
        self.take_in_ready(turn);
        self.take_in_handed(turn);
        for envelope in self.loader.take_ready() {
            self.deliver(envelope, turn);
        }
        self.release_durable(turn);
        self.fire_timers(turn);
        self.deliver_here(turn);
        self.end_turn_of_catalogue(turn);
        self.delete_retired();
        self.write_logs();
        self.refuse_decayed();
        self.introduce(turn);
        self.bring_back(turn);
        self.tell_space(turn);
        self.tell_service(turn);
        self.told_busy.clear();
        self.note_turn(turn.time.now);
        self.here.loops.end_turn();
        if !self.here.queue.is_empty() {
            self.waker.wake();
        }
    }

    fn next_deadline(&mut self) -> Option<Instant> {
        if !self.is_started {
            return None;
        }
        let deadline = self.due.peek().map(|Reverse((at, _))| *at);
        let catalogue = self.catalogue.as_mut().and_then(Catalogue::next_deadline);
        [deadline, catalogue, self.comebacks.next_deadline()].into_iter().flatten().min()
    }
}

fn outgoing<'a, 't>(routes: &'a Routes, here: &'a mut Here, turn: &'a mut Turn<'t>) -> Outgoing<'a, 't> {
    Outgoing { routes, here, turn }
}
