//! The deterministic world: machines, the network between them, their clocks and disks, and virtual time.
//!
//! ```text
//!    the owner of the simulation
//!      │ command, crash, restart, pause, alarm        ▲ Happening: what a machine emitted, or an alarm
//!      ▼                                              │
//!    World ── queue of events, ordered by (time, order of scheduling) ── now
//!      ├── host: a machine, its timers, what waits for its disk
//!      ├── disk: the log that servers use, on sectors that are lost, torn and changed
//!      ├── processors: one per node, which may take its time for what happens to its machines
//!      ├── network: delay, loss, duplication, reordering, cuts
//!      └── clocks: one per node, skewed, drifting, jumping
//! ```
//!
//! Nothing in here knows a protocol. Everything is derived from the seeds that the parts were built with, so the same
//! calls give the same execution, which the hash of the [`Trace`] names.

pub mod admission;
mod clients;
pub mod clock;
mod connections;
pub mod costs;
pub mod disk;
mod draining;
mod host;
pub mod links;
pub mod lives;
mod losses;
pub mod network;
mod processor;
pub mod queue;
pub mod rights;
pub mod steps;
mod surroundings;
#[cfg(test)]
mod tests;
pub mod trace;
mod turns;
pub mod versions;

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use quorate_core::attic::Attic;
use quorate_core::draining::Draining;
use quorate_core::hash::FixedMap;
use quorate_core::hosted::{Admission, Urgency};
use quorate_core::invariant::Violation;
use quorate_core::{
    Address, ClientId, ClockTime, Epoch, Input, Instant, Machine, Random, ReplicaId, TransactionId,
};
use quorate_storage::LogError;
use quorate_wire::ProtocolMessage;

use admission::{Gate, RefusedCounts};
use clock::{Pace, PhysicalClock};
use costs::{Costs, SyncTime, Work};
use disk::{Condition, Crash, Decay, Disk, Image};
pub use host::Envelope;
use host::{Host, HostEvent, HostEventKind};
use links::Departure;
use lives::{LifeNumber, NodeLives, Passage};
use network::Network;
use processor::{Cores, Processor};
use queue::EventQueue;
use rights::{Denied, Rights};
use steps::{Party, Steps};
use surroundings::{ClientSide, ServerSide};
use trace::{Trace, TraceHash};
use versions::Versions;

/// How often a turn that a pause holds up is looked after: the pause may be ended before its time.
const PAUSED_TURN_CHECK: Duration = Duration::from_millis(10);

/// The machines that a protocol consists of.
pub trait Protocol: Sized {
    /// The messages between them.
    type Message: Clone + Debug;
    /// The machine that keeps data.
    type Server: Machine<Message = Self::Message, Timer: Debug, Record: Debug, Event: Debug, Command: Debug>;
    /// The machine inside a client.
    type Client: Machine<Message = Self::Message, Timer: Debug, Record: Debug, Event: Debug, Command: Debug>;

    /// The contradictions between servers, if there are any.
    type Witness: Default;

    /// The state that is needed to say messages as a later version would.
    type Later: Default;

    /// Asserts what holds between any two steps of a server's machine. Called after each.
    fn assert_invariants(server: &Self::Server) {
        let _ = server;
    }

    /// Asserts the same of all that the machine holds, which takes long. Called after every so many steps.
    fn assert_whole(server: &Self::Server) {
        let _ = server;
    }

    /// Shows a witness what a server does; it adds what contradicts what it has seen.
    fn show(witness: &mut Self::Witness, sight: &Sight<'_, Self>, found: &mut Vec<Violation>) {
        let _ = (witness, sight, found);
    }

    /// The kind of the message, in a word.
    fn name(message: &Self::Message) -> String;

    /// True if it is a coordinator that says this, be it a client's or a server that has taken over from one.
    fn coordinates(message: &Self::Message) -> bool;

    /// Folds a message into the hash of an execution, so that two executions that differ in it differ in their hash.
    fn digest(message: &Self::Message, hash: &mut TraceHash);

    /// How much it may be refused, if a client says it. A protocol that says nothing of that has every message taken.
    fn admission(message: &Self::Message) -> Admission {
        let _ = message;
        Admission::of(Urgency::Always)
    }

    /// True if other shards hold something until a server has taken in a message of a client.
    fn is_awaited(server: &Self::Server, message: &Self::Message) -> bool {
        let _ = (server, message);
        false
    }

    /// True if a message goes on with a transaction that is open at a server and nowhere else.
    fn has_open(server: &Self::Server, message: &Self::Message) -> bool {
        let _ = (server, message);
        false
    }

    /// How many transactions a server holds prepared; those of one client only, if one is named.
    fn load(server: &Self::Server, client: Option<ClientId>) -> usize {
        let _ = (server, client);
        0
    }

    /// Sends a message through the bytes of a connection that works, and returns what comes out.
    fn carry(envelope: Envelope<Self::Message>) -> Envelope<Self::Message>;

    /// Sends a message of a node of a later version through the bytes of a connection, among what this version does not know, and returns
    /// what comes out.
    fn carry_from_later(
        envelope: Envelope<Self::Message>,
        later: &Self::Later,
        random: &mut Random,
    ) -> Envelope<Self::Message> {
        let _ = (later, random);
        envelope
    }

    /// True if the version before this one does not know such a message, and everything ends without it.
    fn is_new(message: &Self::Message) -> bool {
        let _ = message;
        false
    }

    /// A message as connections carry it; none where nobody asks for the right to say it.
    fn to_wire(message: &Self::Message) -> Option<ProtocolMessage> {
        let _ = message;
        None
    }

    /// The same from there; none for a message of another protocol.
    fn from_wire(message: ProtocolMessage) -> Option<Self::Message> {
        let _ = message;
        None
    }

    /// Damages the bytes of a message and sees to it that this is noticed.
    fn damage(envelope: &Envelope<Self::Message>, random: &mut Random);

    /// Appends the bytes of what a server persists under a membership; never none.
    fn encode_record(epoch: Epoch, record: &<Self::Server as Machine>::Record, out: &mut BytesMut);

    /// How many bytes a message takes on a connection.
    fn size(envelope: &Envelope<Self::Message>) -> usize;

    /// The work of its receiver for a message; if that is a server that is up, it can be asked what it holds.
    fn work(receiver: Option<&Self::Server>, message: &Self::Message) -> Work;

    /// The work of a client for a command.
    fn command_work(command: &<Self::Client as Machine>::Command) -> Work;

    /// Reads back what [`Protocol::encode_record`] has written.
    fn decode_record(bytes: &[u8]) -> <Self::Server as Machine>::Record;
}

/// The acts of a server, as an observer sees them that sees everything.
pub enum Sight<'a, P: Protocol> {
    /// It has taken a step.
    Stepped {
        /// Which replica.
        replica: ReplicaId,
        /// As it is now.
        machine: &'a P::Server,
        /// The time at another, by its monotonic clock; none if that is down.
        local_now: &'a dyn Fn(ReplicaId) -> Option<Instant>,
    },
    /// It says something; what it has kept before is durable.
    Says {
        /// Which replica.
        replica: ReplicaId,
        /// The message.
        message: &'a P::Message,
    },
    /// It keeps something.
    Keeps {
        /// Which replica.
        replica: ReplicaId,
        /// The record.
        record: &'a <P::Server as Machine>::Record,
    },
    /// It is down.
    Lost {
        /// Which replica.
        replica: ReplicaId,
    },
    /// Its group has lost more than it survives, and it goes on as if it had slept since the group was created.
    LossAccepted {
        /// Which replica.
        replica: ReplicaId,
        /// Transactions that have begun before, of which nothing is promised.
        void: &'a BTreeSet<TransactionId>,
    },
}

/// After so many steps of servers all that one holds is looked at: often enough to be near what has broken it, and so seldom that it costs
/// little.
const STEPS_PER_WHOLE: u64 = 509;

/// The events that the owner of the simulation is told.
#[derive(Debug)]
pub enum Happening<P: Protocol, A> {
    /// A server emitted an event.
    Server(usize, <P::Server as Machine>::Event),
    /// A server emitted an event, and crashed before anybody could hear it: only judges may.
    Unheard(usize, <P::Server as Machine>::Event),
    /// A client emitted an event.
    Client(usize, <P::Client as Machine>::Event),
    /// A server has ended because its disk failed.
    Stopped(usize),
    /// A node hears that it is not believed, in the life that it is in.
    Fenced(usize, LifeNumber),
    /// A client hears that a node has refused what it has said.
    Busy(usize),
    /// A client hears that it has not the right to what it has said.
    Denied(Denied),
    /// A machine has met the crash that was to meet it at one of its steps.
    Crashed(Party, Crash),
    /// An alarm goes off.
    Alarm(A),
}

enum Event<P: Protocol, A> {
    /// A message arrives.
    Deliver(Envelope<P::Message>, Sent),
    Server(HostEvent<<P::Server as Machine>::Timer>),
    Client(HostEvent<<P::Client as Machine>::Timer>),
    /// A command for a client that takes its time.
    Command(usize, <P::Client as Machine>::Command),
    /// A client hears that a node is busy.
    Busy(usize),
    /// A client hears that it has not the right to something.
    Denied(Denied),
    Alarm(A),
    /// The processor of a node has taken its time for what its turn serves.
    Turn(usize),
    /// It has written what its machines had to say.
    TurnEnded(usize),
}

/// How a message was sent.
#[derive(Clone, Copy)]
struct Sent {
    /// In which life of its sender's node.
    life: Option<LifeNumber>,
    /// Over which connection; none where connections are never lost.
    departure: Option<Departure>,
}

#[derive(Clone, Copy)]
enum Endpoint {
    Server(usize),
    Client(usize),
}

/// The kinds of event, as the hash of a trace tells them apart.
mod kind {
    pub(super) const DELIVERED: u64 = 1;
    pub(super) const SERVER: u64 = 2;
    pub(super) const CLIENT: u64 = 3;
    pub(super) const ALARM: u64 = 4;
    pub(super) const SERVER_EMITTED: u64 = 5;
    pub(super) const CLIENT_EMITTED: u64 = 6;
    pub(super) const CRASHED: u64 = 7;
    pub(super) const BOOTED: u64 = 8;
    pub(super) const STOPPED: u64 = 9;
    pub(super) const REFUSED: u64 = 10;
    pub(super) const BUSY: u64 = 11;
    pub(super) const DENIED: u64 = 12;
}

/// The state that hosts share.
struct Fabric<P: Protocol, A> {
    now: Instant,
    queue: EventQueue<Event<P, A>>,
    network: Network,
    lives: NodeLives,
    /// The work that nodes admit; everything if nothing is said.
    gate: Option<Gate>,
    /// The rights of clients; every client may say everything if nothing is said.
    rights: Option<Rights>,
    /// The nodes that stop in good order.
    draining: FixedMap<usize, Draining>,
    /// How many messages of clients they have passed over.
    passed_over: u64,
    /// The versions of nodes, where they mix.
    versions: Option<Versions<P>>,
    /// True if nodes connect again after too much has waited for a connection.
    dials_again: bool,
    refused: RefusedCounts,
    clocks: Vec<PhysicalClock>,
    /// Per node, how fast the time passes by which its machines go.
    paces: Vec<Pace>,
    /// Per node, how long a sync takes.
    sync_times: Vec<SyncTime>,
    /// Per node, which disk it shares with others, if it does.
    disks_of: Vec<Option<usize>>,
    /// Disks that nodes share.
    disks: Vec<SharedDisk>,
    /// Of each node that of its event loop, and after all of these that of the thread which has its disks synced.
    processors: Vec<Processor<Event<P, A>>>,
    /// Cores that processors share.
    cores: Vec<Cores>,
    /// The messages that were said on a node whose processor has to write them first.
    outgoing: Vec<Envelope<P::Message>>,
    /// How many packets such processors have written.
    packets: u64,
    endpoints: FixedMap<Address, (Endpoint, usize)>,
    /// Connections that were lost, from a node to another, and until when nothing is sent over them.
    resets: FixedMap<(usize, usize), Instant>,
    /// The senders whose messages are lost on their way, because they vanished together; each with this probability.
    silenced: FixedMap<Address, f64>,
    random: Random,
    happenings: VecDeque<Happening<P, A>>,
    trace: Trace,
    messages: u64,
    /// None as long as nobody wants machines to crash at certain steps.
    steps: Option<Steps>,
    /// The observer of all that servers do, on which node each was seen last, what does not fit together, and how many steps they have taken.
    witness: P::Witness,
    seen_on: FixedMap<ReplicaId, usize>,
    found: Vec<Violation>,
    server_steps: u64,
}

/// A disk that several nodes sync.
#[derive(Clone, Copy, Debug)]
struct SharedDisk {
    /// Than what share of all syncs those take longer that begin now.
    share: f64,
    /// Until when.
    until: Instant,
}

/// A deterministic world of machines.
pub struct World<P: Protocol, A> {
    fabric: Fabric<P, A>,
    servers: Vec<Host<P::Server>>,
    clients: Vec<Host<P::Client>>,
    paused_until: Vec<Instant>,
}

impl<P: Protocol, A> World<P, A> {
    /// A world of as many nodes as there are clocks and the network has, and without machines.
    pub fn new(network: Network, clocks: Vec<PhysicalClock>, random: Random, trace: Trace) -> Self {
        assert_eq!(network.nodes(), clocks.len(), "every node has a clock");
        let nodes = clocks.len();
        World {
            fabric: Fabric {
                now: Instant::START,
                queue: EventQueue::default(),
                network,
                lives: NodeLives::default(),
                gate: None,
                rights: None,
                draining: FixedMap::default(),
                passed_over: 0,
                versions: None,
                dials_again: true,
                refused: RefusedCounts::default(),
                clocks,
                paces: vec![Pace::default(); nodes],
                sync_times: vec![SyncTime::TYPICAL; nodes],
                disks_of: vec![None; nodes],
                disks: Vec::new(),
                processors: (0..2 * nodes).map(|_| Processor::default()).collect(),
                cores: Vec::new(),
                outgoing: Vec::new(),
                packets: 0,
                endpoints: FixedMap::default(),
                resets: FixedMap::default(),
                silenced: FixedMap::default(),
                random,
                happenings: VecDeque::new(),
                trace,
                messages: 0,
                steps: None,
                witness: P::Witness::default(),
                seen_on: FixedMap::default(),
                found: Vec::new(),
                server_steps: 0,
            },
            servers: Vec::new(),
            clients: Vec::new(),
            paused_until: vec![Instant::START; nodes],
        }
    }

    /// The monotonic instant, which is also the global clock of histories.
    pub fn now(&self) -> Instant {
        self.fabric.now
    }

    /// The acts of servers that do not fit together since this was last asked.
    pub fn take_found(&mut self) -> Vec<Violation> {
        std::mem::take(&mut self.fabric.found)
    }

    /// The network.
    pub fn network(&mut self) -> &mut Network {
        &mut self.fabric.network
    }

    /// The lives of the nodes that hold replicas. Nodes of which none was begun believe each other.
    pub fn lives(&mut self) -> &mut NodeLives {
        &mut self.fabric.lives
    }

    /// The physical clock of a node.
    pub fn clock(&mut self, node: usize) -> &mut PhysicalClock {
        &mut self.fabric.clocks[node]
    }

    /// How fast time passes on a node. To be set before it hosts anything.
    pub fn set_pace(&mut self, node: usize, pace: Pace) {
        self.fabric.paces[node] = pace;
    }

    /// How fast time passes on a node.
    pub fn pace(&self, node: usize) -> Pace {
        self.fabric.paces[node]
    }

    /// How long a sync of a node takes from now on.
    pub fn set_sync_time(&mut self, node: usize, sync_time: SyncTime) {
        self.fabric.sync_times[node] = sync_time;
    }

    /// How long the processor of a node takes from now on for each message, timer and sync, beside what its work costs. At
    /// first that is no time.
    pub fn set_service_time(&mut self, node: usize, service_time: Duration) {
        self.note(|| format!("node {node} takes {service_time:?} for each input"));
        self.fabric.processors[node].drag = service_time;
    }

    /// Sets the costs of the work of a node's processor. At first that is nothing.
    pub fn set_costs(&mut self, node: usize, costs: Arc<Costs>) {
        let syncer = self.fabric.syncer(node);
        self.fabric.processors[syncer].costs = Some(Arc::clone(&costs));
        self.fabric.processors[node].costs = Some(costs);
    }

    /// Lets the processors of these nodes share so many cores. At first each has one of its own.
    pub fn share_cores(&mut self, nodes: impl IntoIterator<Item = usize>, cores: usize) {
        let place = self.fabric.cores.len();
        self.fabric.cores.push(Cores::new(cores));
        for node in nodes {
            let syncer = self.fabric.syncer(node);
            for at in [node, syncer] {
                self.fabric.processors[at].cores = Some(place);
            }
        }
    }

    /// Lets these nodes share a disk, as processes on one machine do: while one is synced, the others take as long, because
    /// whatever keeps the disk keeps it from all of them. At first each has one of its own.
    pub fn share_disk(&mut self, nodes: impl IntoIterator<Item = usize>) {
        let place = self.fabric.disks.len();
        self.fabric.disks.push(SharedDisk { share: 0.0, until: Instant::START });
        for node in nodes {
            self.fabric.disks_of[node] = Some(place);
        }
    }

    /// For how long the processor of a node has worked, as far as work costs something.
    pub fn processor_time(&self, node: usize) -> Duration {
        self.fabric.processors[node].worked + self.fabric.processors[self.fabric.syncer(node)].worked
    }

    /// How many packets were written by processors whose work costs something.
    pub fn packets(&self) -> u64 {
        self.fabric.packets
    }

    /// How many messages were delivered.
    pub fn messages(&self) -> u64 {
        self.fabric.messages
    }

    /// Counts the steps of machines from now on, or does not any more; gives what has counted them until now.
    pub fn count_steps(&mut self, steps: Option<Steps>) -> Option<Steps> {
        std::mem::replace(&mut self.fabric.steps, steps)
    }

    /// The hash of everything that happened so far.
    pub fn trace_hash(&self) -> TraceHash {
        self.fabric.trace.hash()
    }

    /// Adds a line to the readable trace, if one is kept.
    pub fn note(&mut self, line: impl FnOnce() -> String) {
        self.fabric.trace.line(self.fabric.now, line);
    }

    /// Runs until a machine or an alarm has something to tell, or until `limit` is reached without that.
    pub fn advance(&mut self, limit: Instant) -> Option<Happening<P, A>> {
        loop {
            if let Some(happening) = self.fabric.happenings.pop_front() {
                return Some(happening);
            }
            match self.fabric.queue.next_at() {
                Some(at) if at <= limit => {}
                _ => {
                    self.fabric.now = self.fabric.now.max(limit);
                    return None;
                }
            }
            if let Some((at, event)) = self.fabric.queue.pop() {
                self.fabric.now = at;
                self.happen(event);
            }
        }
    }

    /// Sets an alarm.
    pub fn set_alarm(&mut self, after: Duration, alarm: A) {
        self.fabric.queue.push(self.fabric.now + after, Event::Alarm(alarm));
    }

    /// Sends a message from a node in the name of `from`, true or not, under the membership that its receiver knows now.
    pub fn inject(&mut self, node: usize, from: Address, to: Address, message: P::Message) {
        let receiver = match self.fabric.endpoints.get(&to) {
            Some((Endpoint::Server(server), _)) => self.server(*server),
            Some((Endpoint::Client(_), _)) | None => None,
        };
        let epoch = receiver.map_or(Epoch::FIRST, |machine| machine.epoch(from));
        self.fabric.convey(node, Envelope { from, to, epoch, message }, Duration::ZERO);
    }

    /// The node, or a client's machine, does nothing until `until`; what should happen to it happens then.
    pub fn pause(&mut self, node: usize, until: Instant) {
        self.paused_until[node] = self.paused_until[node].max(until);
        self.note(|| format!("node {node} pauses until {until}"));
    }

    /// True if the node does nothing now.
    pub fn is_paused(&self, node: usize) -> bool {
        self.paused_until[node] > self.fabric.now
    }

    /// Ends every pause.
    pub fn resume_all(&mut self) {
        self.paused_until.fill(Instant::START);
    }

    /// The node that something happens to; none for alarms.
    fn node_of(&self, event: &Event<P, A>) -> Option<usize> {
        match event {
            Event::Deliver(envelope, _) => self.fabric.endpoints.get(&envelope.to).map(|(_, node)| *node),
            Event::Server(event) => Some(self.servers[event.host].node),
            Event::Client(event) => Some(self.clients[event.host].node),
            Event::Command(client, _) | Event::Busy(client) | Event::Denied(Denied { client, .. }) => {
                Some(self.clients[*client].node)
            }
            Event::Turn(at) | Event::TurnEnded(at) => Some(self.fabric.node_of_processor(*at)),
            Event::Alarm(_) => None,
        }
    }

    /// False for what concerned a machine that is gone, or that has set its timer again.
    fn is_current(&self, event: &Event<P, A>) -> bool {
        match event {
            Event::Server(event) => self.servers[event.host].concerns(event),
            Event::Client(event) => self.clients[event.host].concerns(event),
            _ => true,
        }
    }

    fn happen(&mut self, event: Event<P, A>) {
        let node = self.node_of(&event);
        if let Some(until) = node.map(|node| self.paused_until[node]).filter(|until| *until > self.fabric.now)
        {
            // A pause may be ended before its time, and nobody begins a turn for a processor that is in one.
            let is_turn = matches!(event, Event::Turn(_) | Event::TurnEnded(_));
            let again = if is_turn { until.min(self.fabric.now + PAUSED_TURN_CHECK) } else { until };
            self.fabric.queue.push(again, event);
            return;
        }
        match (event, node) {
            (Event::Turn(at), _) => self.serve(at),
            (Event::TurnEnded(at), _) => self.end_turn(at),
            (event, Some(node)) if self.fabric.processors[node].takes_turns() => {
                if self.is_current(&event) {
                    let is_synced =
                        matches!(&event, Event::Server(HostEvent { what: HostEventKind::Synced, .. }));
                    let syncs = is_synced && self.fabric.processors[node].writes();
                    let at = if syncs { self.fabric.syncer(node) } else { node };
                    self.take_in(at, event);
                }
            }
            (event, _) => {
                self.perform(event);
                self.settle(node);
            }
        }
    }

    /// Lets every server of a node write what it has persisted.
    fn settle(&mut self, node: Option<usize>) {
        for host in self.servers.iter_mut().filter(|host| Some(host.node) == node) {
            host.settle(&mut ServerSide(&mut self.fabric));
        }
    }

    fn perform(&mut self, event: Event<P, A>) {
        let now = self.fabric.now;
        match event {
            Event::Deliver(envelope, sent) => self.deliver(envelope, sent),
            Event::Server(event) if self.servers[event.host].concerns(&event) => {
                self.fabric.trace.event(now, kind::SERVER, event.host as u64, 0);
                let host = &mut self.servers[event.host];
                self.fabric.trace.line(now, || format!("{} {:?}", host.address, event.what));
                host.happen(event.what, &mut ServerSide(&mut self.fabric));
            }
            Event::Client(event) if self.clients[event.host].concerns(&event) => {
                self.fabric.trace.event(now, kind::CLIENT, event.host as u64, 0);
                let host = &mut self.clients[event.host];
                self.fabric.trace.line(now, || format!("{} {:?}", host.address, event.what));
                host.happen(event.what, &mut ClientSide(&mut self.fabric));
            }
            Event::Command(client, command) => self.obey(client, command),
            // The machine that this concerned has set its timer again or is gone.
            Event::Server(_) | Event::Client(_) => {}
            Event::Busy(client) => {
                if self.clients[client].machine().is_some() {
                    self.fabric.trace.event(now, kind::BUSY, client as u64, 0);
                    self.fabric.happenings.push_back(Happening::Busy(client));
                }
            }
            Event::Denied(denied) => self.hear_denial(denied),
            Event::Alarm(alarm) => {
                self.fabric.trace.event(now, kind::ALARM, 0, 0);
                self.fabric.happenings.push_back(Happening::Alarm(alarm));
            }
            Event::Turn(_) | Event::TurnEnded(_) => unreachable!("turns are not served in turns"),
        }
    }

    fn obey(&mut self, client: usize, command: <P::Client as Machine>::Command) {
        let host = &mut self.clients[client];
        self.fabric.trace.line(self.fabric.now, || format!("{} ⇐ {command:?}", host.address));
        host.step(Input::Command(command), &mut ClientSide(&mut self.fabric));
    }

    fn deliver(
        &mut self,
        Envelope { from, to, epoch, message }: Envelope<P::Message>,
        Sent { life, departure }: Sent,
    ) {
        let now = self.fabric.now;
        if departure.is_some_and(|departure| !self.fabric.network.links.has_left(departure)) {
            self.fabric.trace.line(now, || format!("{from} → {to} ✗ lost with its connection  {message:?}"));
            return;
        }
        let endpoint = self.fabric.endpoints.get(&to).map(|(endpoint, _)| *endpoint);
        let is_up = match endpoint {
            Some(Endpoint::Server(at)) => self.servers[at].machine().is_some(),
            Some(Endpoint::Client(at)) => self.clients[at].machine().is_some(),
            None => false,
        };
        let silenced = self.fabric.silenced.get(&from).copied().unwrap_or(0.0);
        if !is_up || (silenced > 0.0 && self.fabric.random.chance(silenced)) {
            let why = if is_up { "vanished with its sender" } else { "nobody there" };
            self.fabric.trace.line(now, || format!("{from} → {to} ✗ {why}  {message:?}"));
            return;
        }
        if let Some(Endpoint::Server(at)) = endpoint {
            let passage = self.fabric.lives.passage(self.servers[at].node, life);
            if passage != Passage::Passes {
                self.fabric
                    .trace
                    .line(now, || format!("{from} → {to} ✗ its life is not believed  {message:?}"));
                if let (Passage::Fences(node), Some(life)) = (passage, life) {
                    self.fabric.happenings.push_back(Happening::Fenced(node, life));
                }
                return;
            }
        }
        let mut message = message;
        if let Some(Endpoint::Server(at)) = endpoint {
            message = match self.take(at, from, to, message) {
                Some(message)
                    if !self.passes_over(at, from, &message) && !self.refuses(at, from, &message) =>
                {
                    message
                }
                _ => return,
            };
        }
        self.fabric.messages += 1;
        let mut digest = TraceHash::default();
        P::digest(&message, &mut digest);
        self.fabric.trace.line(now, || format!("{from} → {to}  {message:?}"));
        match endpoint {
            Some(Endpoint::Server(at)) => {
                self.fabric.trace.event(now, kind::DELIVERED, at as u64, digest.value());
                let input = Input::Message { from, epoch, message };
                self.servers[at].step(input, &mut ServerSide(&mut self.fabric));
            }
            Some(Endpoint::Client(at)) => {
                self.fabric.trace.event(now, kind::DELIVERED, (1 << 32) + at as u64, digest.value());
                let input = Input::Message { from, epoch, message };
                self.clients[at].step(input, &mut ClientSide(&mut self.fabric));
            }
            None => {}
        }
    }
}

/// Servers.
impl<P: Protocol, A> World<P, A> {
    /// Adds a server that is down, and returns its number.
    pub fn add_server(&mut self, address: Address, node: usize, disk: Disk) -> usize {
        let id = self.servers.len();
        let random = self.fabric.random.fork();
        self.servers.push(Host::new(id, address, node, disk, P::encode_record, random));
        self.fabric.endpoints.insert(address, (Endpoint::Server(id), node));
        id
    }

    /// How many servers there are.
    pub fn servers(&self) -> usize {
        self.servers.len()
    }

    /// The machine of a server, unless it is down.
    pub fn server(&self, server: usize) -> Option<&P::Server> {
        self.servers[server].machine()
    }

    /// The node of a server.
    pub fn node_of_server(&self, server: usize) -> usize {
        self.servers[server].node
    }

    /// The address of a server.
    pub fn address_of_server(&self, server: usize) -> Address {
        self.servers[server].address
    }

    /// Opens the disk of a server that is to restart, and returns what it holds.
    ///
    /// # Errors
    /// The log is refused.
    pub fn open_disk(&mut self, server: usize) -> Result<Vec<<P::Server as Machine>::Record>, LogError> {
        let host = &mut self.servers[server];
        let opened = host.disk.open();
        self.fabric.trace.line(self.fabric.now, || match &opened {
            Ok(records) => format!("{} finds {} records", host.address, records.len()),
            Err(error) => format!("{} ✗ {error}", host.address),
        });
        Ok(opened?.iter().map(|bytes| P::decode_record(bytes)).collect())
    }

    /// The disk of a server, to be looked at.
    pub fn disk(&self, server: usize) -> &Disk {
        &self.servers[server].disk
    }

    /// Sets the condition of the disk of a server from now on.
    pub fn set_disk_condition(&mut self, server: usize, condition: Condition) {
        let host = &self.servers[server];
        self.fabric.trace.line(self.fabric.now, || format!("the disk of {}: {condition:?}", host.address));
        host.disk.set_condition(condition);
    }

    /// Lets the disk of a server change something that it is known to hold; false if there is no such thing.
    pub fn decay_disk(&mut self, server: usize, decay: Decay) -> bool {
        let host = &mut self.servers[server];
        self.fabric.trace.line(self.fabric.now, || format!("the disk of {}: {decay:?}", host.address));
        host.disk.decay(decay)
    }

    /// An empty disk takes the place of that of a server, which is down.
    pub fn replace_disk(&mut self, server: usize) {
        let host = &mut self.servers[server];
        assert!(host.machine().is_none(), "disks are replaced while nobody uses them");
        self.fabric.trace.line(self.fabric.now, || format!("{} gets an empty disk", host.address));
        host.disk.wipe();
    }

    /// A copy of the disk of a server, which is down, takes its place again.
    pub fn restore_disk(&mut self, server: usize, image: Image) {
        let host = &mut self.servers[server];
        assert!(host.machine().is_none(), "disks are replaced while nobody uses them");
        self.fabric
            .trace
            .line(self.fabric.now, || format!("{} gets an older copy of its disk", host.address));
        host.disk.restore(image);
    }

    /// Counts the machines that have run at a server, one after the other.
    pub fn incarnation(&self, server: usize) -> u32 {
        self.servers[server].incarnation()
    }

    /// Boots a machine that was restored from the server's records.
    pub fn boot_server(&mut self, server: usize, machine: P::Server) {
        self.fabric.trace.event(self.fabric.now, kind::BOOTED, server as u64, 0);
        let host = &mut self.servers[server];
        self.fabric.trace.line(self.fabric.now, || format!("{} boots", host.address));
        let node = host.node;
        host.boot(machine, &mut ServerSide(&mut self.fabric));
        host.settle(&mut ServerSide(&mut self.fabric));
        self.fabric.depart(node);
    }

    /// The attic of the machine that a server boots next, as far as its node looks at it.
    pub fn set_attic(&mut self, server: usize, attic: Option<Arc<dyn Attic>>) {
        self.servers[server].set_attic(attic);
    }

    /// Ends a server that could not read a value when it was looked at: nothing that it has said then may be believed. True if it does.
    pub fn ends_unread(&mut self, server: usize) -> bool {
        self.servers[server].ends_unread(&mut ServerSide(&mut self.fabric))
    }

    /// Gives a command to a server's machine; nothing happens if it is down.
    pub fn command_server(&mut self, server: usize, command: <P::Server as Machine>::Command)
    where
        <P::Server as Machine>::Command: std::fmt::Debug,
    {
        let host = &mut self.servers[server];
        self.fabric.trace.line(self.fabric.now, || format!("{} ⇐ {command:?}", host.address));
        let node = host.node;
        host.step(Input::Command(command), &mut ServerSide(&mut self.fabric));
        host.settle(&mut ServerSide(&mut self.fabric));
        self.fabric.depart(node);
    }

    /// Crashes a server: what it had not made durable is lost, or at least what it had not written.
    pub fn crash_server(&mut self, server: usize, crash: Crash) {
        self.fabric.trace.event(self.fabric.now, kind::CRASHED, server as u64, crash as u64);
        let host = &mut self.servers[server];
        self.fabric.trace.line(self.fabric.now, || format!("{} crashes: {crash:?}", host.address));
        host.crash(crash, &mut ServerSide(&mut self.fabric));
        for happening in &mut self.fabric.happenings {
            *happening = match std::mem::replace(happening, Happening::Stopped(server)) {
                Happening::Server(one, event) if one == server => Happening::Unheard(one, event),
                told => told,
            };
        }
    }
}

impl<P: Protocol, A> Fabric<P, A> {
    /// Sends what a machine has said, or keeps it until the processor writes it.
    fn transmit(&mut self, node: usize, envelope: Envelope<P::Message>) {
        if let Address::Replica(replica) = envelope.from {
            let sight = Sight::Says { replica, message: &envelope.message };
            P::show(&mut self.witness, &sight, &mut self.found);
        }
        let encodes = self.network.misfortunes.corruption > 0.0;
        let envelope = if encodes { P::carry(envelope) } else { envelope };
        if self.processors[node].writes() {
            self.outgoing.push(envelope);
        } else {
            self.convey(node, envelope, Duration::ZERO);
        }
    }

    /// Sends a message after some time, which may be one that no machine says.
    fn convey(&mut self, node: usize, envelope: Envelope<P::Message>, leaves_after: Duration) {
        // An address that is not known here is an incarnation of a client that never was.
        let Some(&(_, receiver)) = self.endpoints.get(&envelope.to) else { return };
        if self.resets.get(&(node, receiver)).is_some_and(|until| *until > self.now) {
            let Envelope { from, to, message, .. } = &envelope;
            self.trace.line(self.now, || format!("{from} → {to} ✗ not connected  {message:?}"));
            return;
        }
        let Some(envelope) = self.between_versions(node, receiver, envelope) else { return };
        let arrivals = self.network.route(node, receiver);
        if arrivals.damaged {
            P::damage(&envelope, &mut self.random);
            // The sender learns of it when its receiver has, and connects again.
            let round_trip = self.network.delay(node, receiver) + self.network.delay(receiver, node);
            self.resets.insert((node, receiver), self.now + round_trip);
            let Envelope { from, to, message, .. } = &envelope;
            self.trace.line(self.now, || format!("{from} → {to} ✗ damaged  {message:?}"));
            return;
        }
        if arrivals.first.is_none() {
            let Envelope { from, to, message, .. } = &envelope;
            self.trace.line(self.now, || format!("{from} → {to} ✗ lost  {message:?}"));
        }
        let at = self.now + leaves_after;
        let leaves = at + self.network.occupy(node, receiver, at, || P::size(&envelope));
        let Ok(departure) = self.take_up(node, receiver, (at, leaves), &envelope) else { return };
        let sent = Sent { life: self.lives.now(node), departure };
        if let Some(after) = arrivals.second {
            self.queue.push(leaves + after, Event::Deliver(envelope.clone(), sent));
        }
        if let Some(after) = arrivals.first {
            self.queue.push(leaves + after, Event::Deliver(envelope, sent));
        }
    }

    fn appended(&mut self, node: usize, bytes: usize) {
        let processor = &mut self.processors[node];
        if let Some(costs) = &processor.costs {
            processor.owed_ns += costs.appended.of(bytes);
        }
    }

    /// How long the sync of so many bytes takes that begins now.
    fn sync_time(&mut self, node: usize, bytes: usize) -> Duration {
        let time = self.sync_times[node];
        let Some(disk) = self.disks_of[node] else { return time.at(self.random.unit(), bytes) };
        let disk = &mut self.disks[disk];
        if disk.until <= self.now {
            disk.share = self.random.unit();
            disk.until = self.now + time.at(disk.share, bytes);
        }
        time.at(disk.share, bytes)
    }

    fn clock(&self, node: usize) -> ClockTime {
        self.clocks[node].reading(self.now)
    }

    /// A server has taken a step.
    fn witness_step(&mut self, address: Address, node: usize, machine: &P::Server) {
        P::assert_invariants(machine);
        self.server_steps += 1;
        if self.server_steps.is_multiple_of(STEPS_PER_WHOLE) {
            P::assert_whole(machine);
        }
        let Address::Replica(replica) = address else { return };
        self.seen_on.insert(replica, node);
        let Fabric { witness, found, paces, seen_on, now, .. } = self;
        let local_now = |other: ReplicaId| seen_on.get(&other).map(|node| paces[*node].local(*now));
        P::show(witness, &Sight::Stepped { replica, machine, local_now: &local_now }, found);
    }

    fn witness_record(&mut self, address: Address, record: &<P::Server as Machine>::Record) {
        if let Address::Replica(replica) = address {
            P::show(&mut self.witness, &Sight::Keeps { replica, record }, &mut self.found);
        }
    }

    fn witness_loss(&mut self, address: Address) {
        if let Address::Replica(replica) = address {
            self.seen_on.remove(&replica);
            P::show(&mut self.witness, &Sight::Lost { replica }, &mut self.found);
        }
    }
}

/// The variant of an enum, in a readable form.
pub(crate) fn first_word(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    text.split(|char: char| !char.is_alphanumeric()).next().unwrap_or_default().to_owned()
}
