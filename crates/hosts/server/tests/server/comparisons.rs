//! Replicas of comparison systems are hosted as all others are.

use std::time::Duration;

use quorate_baselines::Message;
use quorate_core::comparison::{Comparison, System};
use quorate_core::topology::{Durability, Keyspace, Shard};
use quorate_core::{KeyspaceId, NodeId, ShardId, Timestamp, TransactionId};
use quorate_log::Part;
use quorate_server::ReplicaStatus;
use quorate_wire::{Envelope, Packet, ProtocolMessage};

use crate::client::Client;
use crate::cluster::Cluster;
use crate::raw::{CLIENT, Raw, envelope, read};

const KEYS: u32 = 9;
const TIMESTAMPS: u32 = 10;

/// A keyspace that txn-occ runs: one shard, led from node 0, and a timestamp server, led from node 1.
async fn create(cluster: &Cluster, client: &mut Client, durability: Durability) -> Keyspace {
    let group = |id: u32, nodes: [u16; 3]| Shard::new(ShardId(id), nodes.map(NodeId).to_vec());
    let service = Some(group(TIMESTAMPS, [1, 2, 0]));
    let keyspace = Keyspace {
        id: KeyspaceId(9),
        name: "compared".to_owned(),
        durability,
        shards: vec![group(KEYS, [0, 1, 2])],
        comparison: Some(Comparison { rival: System::TxnOcc.into(), service }),
        ..cluster.system().clone()
    };
    client.write(cluster.system(), "keyspace/compared", Some(quorate_wire::encode(&keyspace))).await;
    cluster.healthy(3).await;
    keyspace
}

fn replica(cluster: &Cluster, node: usize, shard: u32) -> ReplicaStatus {
    let replicas = cluster.server(node).status().replicas;
    replicas.into_iter().find(|replica| replica.shard == shard).expect("it is hosted")
}

/// Waits until one of the nodes that run leads a shard, and says which.
async fn leader(cluster: &Cluster, shard: u32) -> usize {
    let running = || (0..3).filter(|node| cluster.servers[*node].is_some());
    for _ in 0..1_000 {
        let leading: Vec<_> = running().filter(|node| replica(cluster, *node, shard).leads).collect();
        if let [leader] = leading[..] {
            return leader;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nobody leads shard {shard}");
}

fn transaction(sequence: u64) -> TransactionId {
    TransactionId { client: CLIENT, sequence, attempt: 0 }
}

fn next_timestamp(sequence: u64) -> ProtocolMessage {
    let (transaction, above) = (transaction(sequence), Timestamp::ZERO);
    ProtocolMessage::Baseline(Part::Own(Message::NextTimestamp { transaction, above }))
}

/// Asks the timestamp server on a node, which leads it.
fn timestamp(cluster: &Cluster, node: usize, sequence: u64) -> Timestamp {
    let index = [2, 0, 1][node];
    let mut raw = Raw::client(cluster.addresses()[node]);
    raw.write(&[envelope(CLIENT, TIMESTAMPS, index, next_timestamp(sequence))]);
    let Some(Packet::Envelope(Envelope { message, .. })) = raw.read() else { panic!("not served") };
    match message {
        ProtocolMessage::Baseline(Part::Own(Message::NextTimestampReply { timestamp, .. })) => timestamp,
        message => panic!("{message:?}"),
    }
}

fn read_of_baseline(sequence: u64) -> ProtocolMessage {
    let read = Message::Read { transaction: transaction(sequence), key: "key".into(), lock: None };
    ProtocolMessage::Baseline(Part::Own(read))
}

#[tokio::test]
async fn status_says_what_runs_a_keyspace_and_who_leads() {
    let cluster = Cluster::start(Durability::Memory);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    create(&cluster, &mut client, Durability::Memory).await;
    assert_eq!((leader(&cluster, KEYS).await, leader(&cluster, TIMESTAMPS).await), (0, 1));
    for node in 0..3 {
        let protocols = [0, KEYS, TIMESTAMPS].map(|shard| replica(&cluster, node, shard).protocol);
        assert_eq!(protocols, ["configuration", "txn-occ", "txn-occ"]);
        assert_eq!(replica(&cluster, node, KEYS).state, "normal");
    }
    // That it is not in the catalogue any more, without a drop that says so, deletes nothing.
    client.write(cluster.system(), "keyspace/compared", None).await;
    let noticed = async {
        let is_told = |node| {
            let status = cluster.server(node).status();
            status.problems.iter().any(|problem| problem.contains("the catalogue knows no keyspace"))
        };
        while !(0..3).all(is_told) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), noticed).await.unwrap();
    assert!(cluster.replica_directory(0, KEYS).exists());
}

#[tokio::test]
async fn messages_of_another_protocol_are_swallowed() {
    let cluster = Cluster::start(Durability::Memory);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    create(&cluster, &mut client, Durability::Memory).await;
    leader(&cluster, TIMESTAMPS).await;
    let from_replica = ProtocolMessage::Baseline(Part::Log(quorate_log::Message::NewLife { life: 1 }));
    let mut raw = Raw::client(cluster.addresses()[0]);
    raw.write(&[
        envelope(CLIENT, 0, 0, read_of_baseline(1)),
        envelope(CLIENT, KEYS, 0, read(2)),
        envelope(CLIENT, KEYS, 0, from_replica),
        envelope(CLIENT, KEYS, 0, read_of_baseline(3)),
    ]);
    assert!(matches!(raw.read(), Some(Packet::Denied(_))), "a client is no replica");
    let Some(Packet::Envelope(Envelope { message, .. })) = raw.read() else { panic!("not served") };
    let ProtocolMessage::Baseline(Part::Own(Message::ReadReply { transaction: answered, .. })) = message
    else {
        panic!("{message:?}")
    };
    assert_eq!(answered, transaction(3));
    assert!(cluster.server(0).status().healthy);
}

#[tokio::test]
async fn a_leader_that_stops_in_good_order_is_followed_and_comes_back() {
    let mut cluster = Cluster::start(Durability::Sync);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    create(&cluster, &mut client, Durability::Sync).await;
    assert_eq!(leader(&cluster, TIMESTAMPS).await, 1);
    let first = timestamp(&cluster, 1, 1);
    let server = cluster.servers[1].take().unwrap();
    tokio::task::spawn_blocking(|| server.shutdown()).await.unwrap().unwrap();
    let next = leader(&cluster, TIMESTAMPS).await;
    assert_ne!(next, 1);
    cluster.restart(1);
    cluster.healthy(3).await;
    assert_eq!(replica(&cluster, 1, TIMESTAMPS).protocol, "txn-occ", "its directory says what it is");
    let leader = leader(&cluster, TIMESTAMPS).await;
    let given = timestamp(&cluster, leader, 2);
    assert!(given > first, "what was given away is not given again");
}
