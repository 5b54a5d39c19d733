//! The smallest client there can be: two coordinators, a connection to each node, one transaction at a time.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use quorate_core::command::{Command, Committed, Event, Failure, Routes};
use quorate_core::machine::InputOf;
use quorate_core::topology::Keyspace;
use quorate_core::{
    Address, ClientId, Epoch, Input, Instant, Key, KeyRange, KeyspaceId, Machine, NodeId, Random,
    ReplicaIndex, TransactionId,
};
use quorate_log::Guest;
use quorate_runtime::transport::{Dialled, Options, Remote, Target, TurnWaker, Violation};
use quorate_runtime::{Carrier, Clock, Driver, Host, Kept, LinkId, Transport, Turn};
use quorate_tapir::{Coordinator, CoordinatorConfig};
use quorate_wire::catalogue::SYSTEM_KEYSPACE_ID;
use quorate_wire::{Envelope, Packet, Peer, ProtocolMessage};
use tokio::sync::mpsc;

/// How long and how often to try: a transaction whose coordinator died may hold a key until two recoveries have been
/// asked for, each after two seconds.
const ATTEMPTS_MAX: u32 = 400;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(50);

/// A client of a cluster.
pub(crate) struct Client {
    transport: Transport<ClientHost>,
    events: mpsc::UnboundedReceiver<Event>,
    pub(crate) packets: mpsc::UnboundedReceiver<Packet>,
    id: ClientId,
    sequence: u64,
    _dialled: Vec<Dialled>,
}

/// The coordinator of the catalogue.
type Configuration = Guest<quorate_configuration::Coordinator, quorate_configuration::Replica>;

struct ClientHost {
    driver: Driver<Coordinator>,
    configuration: Driver<Configuration>,
    world: World,
    packets: mpsc::UnboundedSender<Packet>,
}

struct World {
    id: ClientId,
    links: Vec<Option<LinkId>>,
    keyspaces: Vec<Arc<Routes>>,
    events: mpsc::UnboundedSender<Event>,
}

struct ToWorld<'a, 't> {
    world: &'a World,
    turn: &'a mut Turn<'t>,
}

impl<C> Carrier<C> for ToWorld<'_, '_>
where
    C: Machine<Message: Into<ProtocolMessage>, Record = Infallible, Event = Event>,
{
    fn send(&mut self, to: Address, epoch: Epoch, message: C::Message) {
        let Address::Replica(replica) = to else { panic!("a coordinator talks to replicas") };
        let mut shards = self.world.keyspaces.iter().flat_map(|routes| &routes.keyspace.shards);
        let shard = shards.find(|shard| shard.id == replica.shard).expect("a known shard");
        let node = shard.replicas[usize::from(replica.index.0)];
        // A node that was not named when the client connected is not reached.
        if let Some(link) = self.world.links.get(usize::from(node.0)).copied().flatten() {
            let envelope = Envelope { from: self.world.id.into(), to, epoch, message: message.into() };
            self.turn.send(link, &Packet::Envelope(envelope));
        }
    }

    fn emit(&mut self, event: Event) {
        let _ = self.world.events.send(event);
    }

    fn persist(&mut self, _: &C, record: Infallible) -> Kept {
        match record {}
    }

    fn ignored(&mut self, _: &'static str) {}
}

impl ClientHost {
    fn step(&mut self, input: InputOf<Coordinator>, turn: &mut Turn<'_>) {
        let time = turn.time;
        self.driver.step(time, input, &mut ToWorld { world: &self.world, turn });
    }

    fn step_configuration(&mut self, input: InputOf<Configuration>, turn: &mut Turn<'_>) {
        let time = turn.time;
        self.configuration.step(time, input, &mut ToWorld { world: &self.world, turn });
    }

    /// Gives a command to the coordinator of a keyspace.
    fn command(&mut self, keyspace: KeyspaceId, command: Command, turn: &mut Turn<'_>) {
        match keyspace {
            SYSTEM_KEYSPACE_ID => self.step_configuration(Input::Command(command), turn),
            _ => self.step(Input::Command(command), turn),
        }
    }
}

impl Host for ClientHost {
    fn on_link_up(&mut self, link: LinkId, remote: &Remote, _: &mut Turn<'_>) {
        let Peer::Node(node) = remote.identity else { panic!("only nodes are dialled") };
        self.world.links[usize::from(node.0)] = Some(link);
    }

    fn on_link_down(&mut self, link: LinkId, _: &Remote, _: &str, _: &mut Turn<'_>) {
        for known in &mut self.world.links {
            known.take_if(|known| *known == link);
        }
    }

    fn on_packet(&mut self, _: LinkId, packet: Packet, turn: &mut Turn<'_>) -> Result<(), Violation> {
        match packet {
            Packet::Envelope(Envelope { from, epoch, message: ProtocolMessage::Tapir(message), .. }) => {
                self.step(Input::Message { from, epoch, message }, turn);
            }
            Packet::Envelope(Envelope {
                from,
                epoch,
                message: ProtocolMessage::Configuration(message),
                ..
            }) => self.step_configuration(Input::Message { from, epoch, message }, turn),
            packet => drop(self.packets.send(packet)),
        }
        Ok(())
    }

    fn on_turn_end(&mut self, turn: &mut Turn<'_>) {
        let time = turn.time;
        self.driver.fire_timers(time, &mut ToWorld { world: &self.world, turn });
        self.configuration.fire_timers(time, &mut ToWorld { world: &self.world, turn });
    }

    fn next_deadline(&mut self) -> Option<Instant> {
        [self.driver.next_deadline(), self.configuration.next_deadline()].into_iter().flatten().min()
    }
}

impl Client {
    /// Connects to every node that can be reached.
    pub(crate) fn connect(cluster: u64, addresses: &[SocketAddr]) -> Client {
        static NEXT: AtomicU64 = AtomicU64::new(1_000);
        let id = ClientId(NEXT.fetch_add(1, Ordering::Relaxed));
        let (event_sender, events) = mpsc::unbounded_channel();
        let (packet_sender, packets) = mpsc::unbounded_channel();
        let coordinator = Coordinator::restore(
            CoordinatorConfig {
                read_timeout: Duration::from_millis(100),
                fast_path_timeout: Duration::from_millis(100),
                resend_timeout: Duration::from_millis(200),
                ..CoordinatorConfig::new(id)
            },
            [],
        );
        let configuration = quorate_configuration::CoordinatorConfig {
            read_timeout: Duration::from_millis(100),
            resend_timeout: Duration::from_millis(200),
            ..quorate_configuration::CoordinatorConfig::new(id)
        };
        let host = ClientHost {
            driver: Driver::new(coordinator, Random::new(id.0)),
            configuration: Driver::new(Guest::restore(configuration, []), Random::new(id.0)),
            world: World {
                id,
                links: vec![None; addresses.len()],
                keyspaces: Vec::new(),
                events: event_sender,
            },
            packets: packet_sender,
        };
        let options = Options::new(cluster, Peer::Client(id), "us");
        let (transport, _) = Transport::start(host, options, Clock::start(), TurnWaker::default());
        transport.with(|host, turn| host.step(Input::Start, turn));
        let dial = |(address, node): (&SocketAddr, u16)| {
            transport.dial(Target { address: address.to_string(), expect: Some(NodeId(node)), event_loop: 0 })
        };
        let dialled = addresses.iter().zip(0u16..).map(dial).collect();
        Client { transport, events, packets, id, sequence: 0, _dialled: dialled }
    }

    /// Waits until so many nodes are connected.
    pub(crate) async fn connected(&self, nodes: usize) {
        let connected = |host: &mut ClientHost, _: &mut Turn<'_>| host.world.links.iter().flatten().count();
        while self.transport.with(connected) < nodes {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Learns where a keyspace is.
    pub(crate) fn route(&self, keyspace: &Keyspace) {
        let replicas = |shard: &quorate_core::topology::Shard| {
            (0..shard.replicas.len()).map(|index| ReplicaIndex(index as u8)).collect()
        };
        let nearest = keyspace.groups().map(replicas).collect();
        let routes = Arc::new(Routes::new(keyspace.clone(), nearest));
        self.transport.with(|host, turn| {
            host.world.keyspaces.push(Arc::clone(&routes));
            host.command(keyspace.id, Command::Route(routes), turn);
        });
    }

    /// Sends a packet to a node that is connected.
    pub(crate) fn send(&self, node: usize, packet: &Packet) {
        self.transport.with(|host, turn| turn.send(host.world.links[node].expect("connected"), packet));
    }

    fn command(&self, keyspace: &Keyspace, command: Command) {
        self.transport.with(|host, turn| host.command(keyspace.id, command, turn));
    }

    async fn event(&mut self) -> Event {
        tokio::time::timeout(Duration::from_secs(30), self.events.recv())
            .await
            .expect("in time")
            .expect("running")
    }

    fn begin(&mut self, keyspace: &Keyspace) -> TransactionId {
        self.sequence += 1;
        let transaction = TransactionId { client: self.id, sequence: self.sequence, attempt: 0 };
        let patience = Duration::from_secs(10);
        self.command(keyspace, Command::Begin { transaction, keyspace: keyspace.id, patience });
        transaction
    }

    async fn commit(
        &mut self,
        keyspace: &Keyspace,
        transaction: TransactionId,
    ) -> Result<Committed, Failure> {
        self.command(keyspace, Command::Commit { transaction });
        self.finished(transaction).await
    }

    async fn finished(&mut self, transaction: TransactionId) -> Result<Committed, Failure> {
        loop {
            if let Event::Finished { transaction: finished, result } = self.event().await
                && finished == transaction
            {
                return result;
            }
        }
    }

    /// Writes one key, in one attempt.
    pub(crate) async fn try_put(
        &mut self,
        keyspace: &Keyspace,
        key: &str,
        value: &str,
    ) -> Result<Committed, Failure> {
        let transaction = self.begin(keyspace);
        let value = Some(Bytes::copy_from_slice(value.as_bytes()));
        self.command(keyspace, Command::Put { transaction, key: Key::from(key), value });
        self.commit(keyspace, transaction).await
    }

    /// Writes one key, in as many attempts as it takes.
    pub(crate) async fn put(&mut self, keyspace: &Keyspace, key: &str, value: &str) {
        self.write(keyspace, key, Some(Bytes::copy_from_slice(value.as_bytes()))).await;
    }

    /// Writes or deletes one key, in as many attempts as it takes.
    pub(crate) async fn write(&mut self, keyspace: &Keyspace, key: &str, value: Option<Bytes>) {
        let mut last = None;
        for _ in 0..ATTEMPTS_MAX {
            let transaction = self.begin(keyspace);
            let key = Key::from(key);
            self.command(keyspace, Command::Put { transaction, key, value: value.clone() });
            match self.commit(keyspace, transaction).await {
                Ok(_) => return,
                Err(failure) => last = Some(failure),
            }
            tokio::time::sleep(ATTEMPT_PAUSE).await;
        }
        panic!("a write never committed: {last:?}");
    }

    /// Reads one key in a transaction that commits, in as many attempts as it takes.
    pub(crate) async fn get(&mut self, keyspace: &Keyspace, key: &str) -> Option<Bytes> {
        for _ in 0..ATTEMPTS_MAX {
            let transaction = self.begin(keyspace);
            self.command(keyspace, Command::Get { transaction, key: Key::from(key) });
            let value = loop {
                match self.event().await {
                    Event::Got { transaction: got, value, .. } if got == transaction => break Some(value),
                    Event::Finished { transaction: finished, .. } if finished == transaction => break None,
                    _ => {}
                }
            };
            if let Some(value) = value
                && self.commit(keyspace, transaction).await.is_ok()
            {
                return value;
            }
            tokio::time::sleep(ATTEMPT_PAUSE).await;
        }
        panic!("a read never committed");
    }

    /// All keys of a keyspace in a transaction that commits, in as many attempts as it takes: a write whose outcome is on its
    /// way is in the way of a transaction that reads it.
    pub(crate) async fn scan(&mut self, keyspace: &Keyspace) -> Vec<(Key, Bytes)> {
        for _ in 0..ATTEMPTS_MAX {
            let transaction = self.begin(keyspace);
            let range = KeyRange { from: Key::from("a"), to: None };
            self.command(keyspace, Command::Scan { transaction, range, limit: 1_000 });
            let entries = loop {
                match self.event().await {
                    Event::Scanned { transaction: scanned, entries, .. } if scanned == transaction => {
                        break Some(entries);
                    }
                    Event::Finished { transaction: finished, .. } if finished == transaction => break None,
                    _ => {}
                }
            };
            if let Some(entries) = entries
                && self.commit(keyspace, transaction).await.is_ok()
            {
                return entries;
            }
            tokio::time::sleep(ATTEMPT_PAUSE).await;
        }
        panic!("a scan never committed");
    }
}
