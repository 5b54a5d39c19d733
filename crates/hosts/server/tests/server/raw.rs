//! Clients that are made of a bare socket: what nodes take, refuse, and survive.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use quorate_configuration::Message as Configuration;
use quorate_configuration::message::{ConditionalWrite, Put};
use quorate_core::lives::{Incarnation, Life};
use quorate_core::log::Position;
use quorate_core::topology::Durability;
use quorate_core::{
    Address, ClientId, Epoch, NodeId, ReplicaId, ReplicaIndex, ShardId, Timestamp, Transaction,
    TransactionId, Write as KeyWrite,
};
use quorate_ir::OperationId;
use quorate_log::Part;
use quorate_log::member::MessageOf;
use quorate_server::{EventLoops, Limits};
use quorate_tapir::Message;
use quorate_tapir::message::Prepare;
use quorate_wire::catalogue::SYSTEM_SHARD;
use quorate_wire::version::{ProtocolVersion, Window};
use quorate_wire::{Envelope, FrameReader, FrameWriter, Hello, Packet, Peer, ProtocolMessage, Setting};

use crate::cluster::{Cluster, SHARD};

pub(crate) const CLIENT: ClientId = ClientId(77);

/// A prepare of a transaction that touches nothing but is held all the same, to the first replica of the keyspace.
fn prepare_nothing(sequence: u64) -> Packet {
    let transaction = Arc::new(Transaction { participants: vec![SHARD], ..Transaction::default() });
    let micros = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros() as u64;
    let operation = Prepare { transaction, timestamp: Timestamp { micros, client: CLIENT }, first: None };
    let id = OperationId { transaction: TransactionId { client: CLIENT, sequence, attempt: 0 }, number: 1 };
    envelope(CLIENT, SHARD.0, 0, Message::Ir(quorate_ir::Message::ProposeConsensus { id, operation }))
}

/// A connection to one node.
pub(crate) struct Raw {
    stream: TcpStream,
    frames: FrameReader,
    waiting: Vec<Packet>,
}

impl Raw {
    fn connect(address: SocketAddr, cluster: u64, peer: Peer) -> Raw {
        Raw::connect_to(address, cluster, peer, 0)
    }

    /// A connection to an event loop of a node.
    fn connect_to(address: SocketAddr, cluster: u64, peer: Peer, event_loop: u16) -> Raw {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut raw = Raw { stream, frames: FrameReader::new(), waiting: Vec::new() };
        raw.write(&[Packet::Hello(Hello {
            cluster,
            peer,
            site: String::new(),
            credential: None,
            event_loop,
        })]);
        raw
    }

    /// A connection that says it is that of another node.
    pub(crate) fn node(address: SocketAddr, cluster: u64, node: NodeId) -> Raw {
        Raw::connect(address, cluster, Peer::Node(node))
    }

    pub(crate) fn client(address: SocketAddr) -> Raw {
        Raw::of(CLIENT, address)
    }

    pub(crate) fn of(client: ClientId, address: SocketAddr) -> Raw {
        let mut raw = Raw::connect(address, 0, Peer::Client(client));
        assert!(matches!(raw.read(), Some(Packet::Welcome(_))));
        raw
    }

    pub(crate) fn write(&mut self, packets: &[Packet]) {
        let mut frames = FrameWriter::new();
        for packet in packets {
            frames.push(packet).unwrap();
        }
        self.stream.write_all(&frames.take()).unwrap();
    }

    /// The packet that comes within a moment, if one does.
    pub(crate) fn read_within(&mut self, patience: Duration) -> Option<Packet> {
        if self.waiting.is_empty() {
            self.stream.set_read_timeout(Some(patience)).unwrap();
            let is_there = self.stream.peek(&mut [0]).is_ok();
            self.stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            if !is_there {
                return None;
            }
        }
        self.read()
    }

    pub(crate) fn read(&mut self) -> Option<Packet> {
        while self.waiting.is_empty() {
            if let Some(packets) = self.frames.next_frame().unwrap() {
                self.waiting = packets.map(Result::unwrap).collect();
                self.waiting.reverse();
                continue;
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes).unwrap() {
                0 => return None,
                length => self.frames.feed(&bytes[..length]),
            }
        }
        self.waiting.pop()
    }
}

pub(crate) fn envelope(from: ClientId, shard: u32, index: u8, message: impl Into<ProtocolMessage>) -> Packet {
    let to = Address::Replica(ReplicaId { shard: ShardId(shard), index: ReplicaIndex(index) });
    Packet::Envelope(Envelope { from: from.into(), to, epoch: Epoch::FIRST, message: message.into() })
}

pub(crate) fn read(sequence: u64) -> Message {
    Message::Read { transaction: TransactionId { client: CLIENT, sequence, attempt: 0 }, key: "key".into() }
}

#[tokio::test]
async fn nobody_speaks_in_the_name_of_another_client() {
    let cluster = Cluster::start(Durability::Memory);
    cluster.healthy(1).await;
    let mut raw = Raw::client(cluster.addresses()[0]);
    raw.write(&[envelope(ClientId(78), SHARD.0, 0, read(1))]);
    let Some(Packet::Goodbye { reason }) = raw.read() else { panic!("served") };
    assert!(reason.contains("in the name of"), "{reason}");
    assert_eq!(cluster.server(0).status().transport.violations, 1);
}

#[tokio::test]
async fn what_nobody_could_read_is_not_written_into_the_catalogue() {
    let cluster = Cluster::start(Durability::Memory);
    cluster.healthy(1).await;
    let mut raw = Raw::client(cluster.addresses()[0]);
    let mut write = |sequence, key: &str, value: &'static [u8]| {
        let transaction = TransactionId { client: CLIENT, sequence, attempt: 0 };
        let put = Put { key: key.into(), value: Some(Bytes::from_static(value)), lease: None };
        let write = Arc::new(ConditionalWrite { compares: vec![], puts: vec![put] });
        let message = Configuration::Write { request: sequence, transaction, since: Position::START, write };
        let message: MessageOf<quorate_configuration::Replica> = Part::Own(message);
        raw.write(&[envelope(CLIENT, SYSTEM_SHARD.0, 0, message)]);
        // The name of a site is news for clients too, which may come before the answer.
        loop {
            match raw.read() {
                Some(Packet::CatalogueChanged) => {}
                said => return said,
            }
        }
    };
    assert!(matches!(write(1, "site/00000", b"moon"), Some(Packet::Envelope(_))), "this is an entry");
    let Some(Packet::Goodbye { reason }) = write(2, "keyspace/accounts", b"moon") else { panic!("written") };
    assert!(reason.contains("no entry of the catalogue"), "{reason}");
}

#[tokio::test]
async fn a_node_that_is_not_configured_is_sent_away() {
    let cluster = Cluster::start(Durability::Memory);
    let mut raw = Raw::connect(cluster.addresses()[0], cluster.configs[0].cluster, Peer::Node(NodeId(9)));
    assert!(matches!(raw.read(), Some(Packet::Welcome(_))));
    let Some(Packet::Goodbye { reason }) = raw.read() else { panic!("served") };
    assert!(reason.contains("node9"), "{reason}");
}

#[tokio::test]
async fn messages_for_unknown_shards_are_swallowed() {
    let (cluster, _, _) = Cluster::hosting(Limits::default()).await;
    let mut raw = Raw::client(cluster.addresses()[0]);
    raw.write(&[envelope(CLIENT, 999, 0, read(1)), envelope(CLIENT, SHARD.0, 0, read(2))]);
    let Some(Packet::Envelope(Envelope { message, .. })) = raw.read() else { panic!("not served") };
    assert!(matches!(message, ProtocolMessage::Tapir(Message::ReadReply { .. })));
}

#[tokio::test]
async fn an_overloaded_node_refuses_reads_and_says_busy_once_a_turn() {
    let limits =
        Limits { queued_bytes_high: 1, busy_retry_after: Duration::from_millis(7), ..Limits::default() };
    let (cluster, _, _) = Cluster::hosting(limits).await;
    let before = cluster.server(0).status().refused_messages;
    let mut raw = Raw::client(cluster.addresses()[0]);
    // The answer to the first waits to be sent when the others are looked at.
    raw.write(&[1, 2, 3].map(|sequence| envelope(CLIENT, SHARD.0, 0, read(sequence))));
    assert!(matches!(raw.read(), Some(Packet::Envelope(_))));
    assert_eq!(raw.read(), Some(Packet::Busy { retry_after: Duration::from_millis(7) }));
    raw.write(&[envelope(CLIENT, SHARD.0, 0, read(4))]);
    assert!(matches!(raw.read(), Some(Packet::Envelope(_))), "the load is gone");
    assert_eq!(cluster.server(0).status().refused_messages - before, 2);
}

#[tokio::test]
async fn a_client_that_finishes_nothing_is_refused_and_others_are_not() {
    let limits = Limits { client_prepared_high: 1, ..Limits::default() };
    let (cluster, keyspace, mut other) = Cluster::hosting(limits).await;
    let micros = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros() as u64;
    let prepare_of = |owner, sequence| {
        let transaction = Arc::new(Transaction { participants: vec![SHARD], ..Transaction::default() });
        let operation = Prepare { transaction, timestamp: Timestamp { micros, client: CLIENT }, first: None };
        let id =
            OperationId { transaction: TransactionId { client: owner, sequence, attempt: 0 }, number: 1 };
        envelope(CLIENT, SHARD.0, 0, Message::Ir(quorate_ir::Message::ProposeConsensus { id, operation }))
    };
    let prepare = |sequence| prepare_of(CLIENT, sequence);
    let mut raw = Raw::client(cluster.addresses()[0]);
    raw.write(&[prepare(1), prepare(2), envelope(CLIENT, SHARD.0, 0, read(9)), prepare(3), prepare(4)]);
    assert!(matches!(raw.read(), Some(Packet::Envelope(_))));
    assert!(matches!(raw.read(), Some(Packet::Envelope(_))), "two are within twice the mark");
    assert!(matches!(raw.read(), Some(Packet::Busy { .. })), "a read is not within it");
    assert!(matches!(raw.read(), Some(Packet::Envelope(_))), "the third prepare finds two");
    assert_eq!(cluster.server(0).status().refused_messages, 2, "and the fourth finds three");
    raw.write(&[prepare_of(ClientId(CLIENT.0 + 1), 5)]);
    let Some(Packet::Goodbye { reason }) = raw.read() else { panic!("filled another client's window") };
    assert!(reason.contains("prepares a transaction of"), "{reason}");
    other.put(&keyspace, "key", "value").await;
}

#[tokio::test]
async fn a_client_that_dies_with_a_transaction_prepared_wedges_nothing() {
    let (cluster, keyspace, mut client) = Cluster::hosting(Limits::default()).await;
    let transaction = Arc::new(Transaction {
        writes: vec![KeyWrite { key: "key".into(), value: Some(Bytes::from_static(b"half")) }],
        participants: vec![SHARD],
        ..Transaction::default()
    });
    let micros = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros() as u64;
    let timestamp = Timestamp { micros, client: CLIENT };
    let id =
        OperationId { transaction: TransactionId { client: CLIENT, sequence: 1, attempt: 0 }, number: 1 };
    // One of three: whatever recovery decides, it must decide.
    let prepare = Prepare { transaction, timestamp, first: None };
    let message = Message::Ir(quorate_ir::Message::ProposeConsensus { id, operation: prepare });
    let mut raw = Raw::client(cluster.addresses()[0]);
    raw.write(&[envelope(CLIENT, SHARD.0, 0, message)]);
    assert!(matches!(raw.read(), Some(Packet::Envelope(_))));
    drop(raw);
    assert!(cluster.server(0).status().replicas[1].prepared >= 1);
    while cluster.server(0).status().replicas[1].prepared > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    client.put(&keyspace, "key", "whole").await;
}

#[tokio::test]
async fn a_stopping_node_sends_clients_to_others_and_waits_for_what_it_holds_prepared_but_not_for_ever() {
    const DRAIN: Duration = Duration::from_millis(1_500);
    let limits = Limits { drain_timeout: DRAIN, ..Limits::default() };
    let (mut cluster, _, _) = Cluster::hosting(limits).await;
    let mut raw = Raw::client(cluster.addresses()[0]);
    raw.write(&[prepare_nothing(1)]);
    assert!(matches!(raw.read(), Some(Packet::Envelope(_))));
    let begin = std::time::Instant::now();
    let server = cluster.servers[0].take().unwrap();
    let stopping = tokio::task::spawn_blocking(|| server.shutdown());
    assert!(matches!(raw.read(), Some(Packet::Stopping)), "clients are to ask others");
    raw.write(&[envelope(CLIENT, SHARD.0, 0, read(2))]);
    assert!(matches!(raw.read(), Some(Packet::Envelope(_))), "it may have been sent before that was heard");
    tokio::time::sleep(Duration::from_millis(400)).await;
    raw.write(&[envelope(CLIENT, SHARD.0, 0, read(3))]);
    let Some(Packet::Goodbye { reason }) = raw.read() else { panic!("what begins now is dropped") };
    assert!(reason.contains("stopping"), "{reason}");
    stopping.await.unwrap().unwrap();
    let took = begin.elapsed();
    assert!(took >= DRAIN && took < 2 * DRAIN, "{took:?}");
}

#[tokio::test]
async fn a_stopping_node_does_not_wait_for_what_cannot_end() {
    let (mut cluster, _, _) = Cluster::hosting(Limits::default()).await;
    let mut raw = Raw::client(cluster.addresses()[0]);
    raw.write(&[prepare_nothing(1)]);
    assert!(matches!(raw.read(), Some(Packet::Envelope(_))));
    cluster.crash(1);
    cluster.crash(2);
    let begin = std::time::Instant::now();
    let server = cluster.servers[0].take().unwrap();
    assert!(server.status().replicas[1].prepared >= 1, "there is something to wait for");
    tokio::task::spawn_blocking(|| server.shutdown()).await.unwrap().unwrap();
    assert!(begin.elapsed() < Limits::default().drain_timeout / 2, "{:?}", begin.elapsed());
}

/// Waits until a node has dealt with all that was said before.
fn settle(raw: &mut Raw) {
    raw.write(&[Packet::DirectoryRequest]);
    while !matches!(raw.read(), Some(Packet::Directory(_))) {}
}

#[tokio::test]
async fn a_node_is_believed_in_its_own_group_and_its_coordinator_by_the_configuration_service_alone() {
    let (mut cluster, _, mut client) = Cluster::hosting(Limits::default()).await;
    let other = cluster.create(&mut client, "u", Durability::Memory).await.shards[0].id;
    cluster.crash(2);
    let mut raw = Raw::connect(cluster.addresses()[0], cluster.configs[0].cluster, Peer::Node(NodeId(2)));
    assert!(matches!(raw.read(), Some(Packet::Welcome(_))));
    let own = Life::first(Incarnation(999), true, 7);
    let settings = [("protocol.oldest", Window::OWN.oldest), ("protocol.newest", Window::OWN.newest)];
    let setting =
        |(name, version): (&str, ProtocolVersion)| Setting { name: name.to_owned(), value: version.0.into() };
    let settings = settings.map(setting).to_vec();
    raw.write(&[Packet::Lives { own, known: Vec::new() }, Packet::Settings { settings }]);
    let replica = |shard, index| Address::Replica(ReplicaId { shard, index: ReplicaIndex(index) });
    let said = |from: Address, to, message: ProtocolMessage| {
        Packet::Envelope(Envelope { from, to: replica(to, 0), epoch: Epoch::FIRST, message })
    };
    let raise = || ProtocolMessage::from(Message::RaiseFloor { floor: Timestamp::ZERO });
    let transaction = TransactionId { client: CLIENT, sequence: 1, attempt: 0 };
    let change = || {
        let ballot = quorate_core::Ballot::default();
        ProtocolMessage::from(Message::CoordinatorChange { transaction, ballot, timestamp: Timestamp::ZERO })
    };
    let user = Put { key: "user/eve".into(), value: None, lease: None };
    let write = |put: Put| {
        let write = Arc::new(ConditionalWrite { compares: vec![], puts: vec![put] });
        let transaction = TransactionId { client: ClientId(5), sequence: 1, attempt: 0 };
        let message = Configuration::Write { request: 1, transaction, since: Position::START, write };
        let message: MessageOf<quorate_configuration::Replica> = Part::Own(message);
        ProtocolMessage::from(message)
    };
    let site = Put { key: "site/00009".into(), value: None, lease: None };
    let node = Address::Client(ClientId(5));
    let table = [
        ("what is said within a group", said(replica(SHARD, 2), SHARD, raise()), true),
        ("the same from another group", said(replica(other, 2), SHARD, raise()), false),
        ("what is said within a keyspace", said(replica(SHARD, 2), SHARD, change()), true),
        ("the same from another keyspace", said(replica(other, 2), SHARD, change()), false),
        ("what clients say, by a replica", said(replica(SHARD, 2), SHARD, read(1).into()), false),
        ("what clients say, by the coordinator of a node", said(node, SHARD, read(1).into()), false),
        (
            "a write to the catalogue by the coordinator of a node",
            said(node, SYSTEM_SHARD, write(site)),
            true,
        ),
        ("a write to a user by the coordinator of a node", said(node, SYSTEM_SHARD, write(user)), false),
    ];
    for (what, packet, is_believed) in table {
        let before = cluster.server(0).status().unsaid_messages;
        raw.write(&[packet]);
        settle(&mut raw);
        let passed_over = cluster.server(0).status().unsaid_messages - before;
        assert_eq!(passed_over, u64::from(!is_believed), "{what}");
    }
    assert_eq!(cluster.server(0).status().transport.violations, 0);
}

#[tokio::test]
async fn a_client_is_not_taken_for_a_replica() {
    let (cluster, _, _) = Cluster::hosting(Limits::default()).await;
    let mut raw = Raw::client(cluster.addresses()[0]);
    let floor = Timestamp { micros: u64::MAX, client: CLIENT };
    raw.write(&[envelope(CLIENT, SHARD.0, 0, Message::RaiseFloor { floor })]);
    let Some(Packet::Denied(denial)) = raw.read() else { panic!("believed") };
    assert!(denial.reason.contains("said by replicas"), "{denial:?}");
    assert_eq!(denial.replica, Some(ReplicaId { shard: SHARD, index: ReplicaIndex(0) }));
    assert_eq!(cluster.server(0).status().unsaid_messages, 1);
    raw.write(&[Packet::Token { hash: Bytes::copy_from_slice(&[7; 32]) }]);
    settle(&mut raw);
}

#[tokio::test]
async fn an_event_loop_beside_the_first_takes_messages_and_nothing_else() {
    let cluster = Cluster::start_configured(|base| base.threads = EventLoops::Exactly(2));
    cluster.healthy(1).await;
    let address = cluster.addresses()[0];
    let connect = || {
        let mut raw = Raw::connect_to(address, 0, Peer::Client(CLIENT), 1);
        let Some(Packet::Welcome(welcome)) = raw.read() else { panic!("not welcome") };
        assert_eq!(welcome.further_event_loops, 1);
        raw
    };
    let mut raw = connect();
    raw.write(&[Packet::StatusRequest]);
    let Some(Packet::Goodbye { reason }) = raw.read() else { panic!("served") };
    assert!(reason.contains("says to event loop 1 what is said to the first one"), "{reason}");
    let mut raw = connect();
    raw.write(&[envelope(ClientId(78), SHARD.0, 0, read(1))]);
    let Some(Packet::Goodbye { reason }) = raw.read() else { panic!("served") };
    assert!(reason.contains("in the name of"), "{reason}");
    assert_eq!(cluster.server(0).status().transport.violations, 2, "those of all event loops are counted");
}

/// Whichever event loop a client says its message to, and wherever the replica lives: here on the second of four. An answer comes on the connection of that one,
/// or else on the first one; a refusal where the message was said.
#[tokio::test]
async fn messages_that_arrive_at_another_event_loop_are_answered_and_refused() {
    let limits = Limits { client_prepared_high: 1, ..Limits::default() };
    let cluster = Cluster::start_configured(|base| {
        (base.system.durability, base.limits) = (Durability::Memory, limits);
        base.threads = EventLoops::Exactly(4);
    });
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    cluster.create(&mut client, "t", Durability::Memory).await;
    let status = cluster.server(0).status();
    let replicas: Vec<usize> = status.event_loops.iter().map(|event_loop| event_loop.replicas).collect();
    assert_eq!(replicas, [1, 1, 0, 0]);
    let connect = |client, event_loop| {
        let mut raw = Raw::connect_to(cluster.addresses()[0], 0, Peer::Client(client), event_loop);
        assert!(matches!(raw.read(), Some(Packet::Welcome(_))));
        raw
    };
    for event_loop in 0..4 {
        let client = ClientId(200 + u64::from(event_loop));
        let mut first = connect(client, 0);
        let mut further = (event_loop > 0).then(|| connect(client, event_loop));
        further.as_mut().unwrap_or(&mut first).write(&[envelope(client, SHARD.0, 0, read(1))]);
        let answered = if event_loop == 1 { further.as_mut().unwrap() } else { &mut first };
        assert!(matches!(answered.read(), Some(Packet::Envelope(_))), "{event_loop}");
    }
    let mut first = connect(CLIENT, 0);
    for sequence in 1..=2 {
        first.write(&[prepare_nothing(sequence)]);
        assert!(matches!(first.read(), Some(Packet::Envelope(_))), "two are within twice the mark");
    }
    for event_loop in 0..4 {
        let mut further = (event_loop > 0).then(|| connect(CLIENT, event_loop));
        let said_on = further.as_mut().unwrap_or(&mut first);
        said_on.write(&[envelope(CLIENT, SHARD.0, 0, read(1))]);
        assert!(matches!(said_on.read(), Some(Packet::Busy { .. })), "{event_loop}");
    }
    let status = cluster.server(0).status();
    assert_eq!((status.refused_messages, status.refused_client_messages), (4, 4));
    assert!(status.event_loops[1].messages_handed >= 7, "{:?}", status.event_loops[1]);
}
