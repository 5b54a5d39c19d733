//! A replica that executes transactions in turn refuses a client with too many requests that wait there.

use std::time::SystemTime;

use quorate_core::command::Class;
use quorate_core::topology::{Durability, Isolation, Keyspace, Shard};
use quorate_core::{ClientId, ClockTime, KeyspaceId, NodeId, ShardId, TransactionId, Value};
use quorate_granola::Message;
use quorate_granola::message::Request;
use quorate_log::Part;
use quorate_server::Limits;
use quorate_wire::Packet;

use crate::cluster::{Cluster, until};
use crate::raw::{CLIENT, Raw, envelope};

/// Both shards of the keyspace; the first is led from node 0.
const SHARDS: [u32; 2] = [31, 32];

fn request(client: ClientId, sequence: u64, participants: &[u32], class: Class) -> Packet {
    let micros = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros() as u64;
    let request = Request {
        transaction: TransactionId { client, sequence, attempt: 0 },
        participants: participants.iter().copied().map(ShardId).collect(),
        operation: Value::new(),
        class,
        high: ClockTime::default(),
        first: ClockTime::from_micros(micros),
    };
    envelope(client, SHARDS[0], 0, Part::Own(Message::Request(request)))
}

#[tokio::test]
async fn a_client_with_too_much_waiting_is_refused_and_others_are_served() {
    let limits = Limits { client_prepared_high: 1, ..Limits::default() };
    let cluster = Cluster::start_with(Durability::Memory, limits);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    let nodes = [0, 1, 2].map(NodeId).to_vec();
    let shards = SHARDS.map(|id| Shard::new(ShardId(id), nodes.clone())).to_vec();
    let keyspace = Keyspace {
        isolation: Isolation::Serializable,
        ..Keyspace::new(KeyspaceId(31), "waits", cluster.system().isolation, Durability::Memory, shards)
    };
    client.write(cluster.system(), "keyspace/waits", Some(quorate_wire::encode(&keyspace))).await;
    cluster.healthy(3).await;
    let leads = || cluster.server(0).status().replicas.iter().any(|it| it.shard == SHARDS[0] && it.leads);
    until("the first shard has its leader", leads).await;

    let (alone, both) = (&SHARDS[..1], &SHARDS[..]);
    let mut raw = Raw::client(cluster.addresses()[0]);
    // Nobody asks the other shard, so these wait for its votes.
    let held: Vec<Packet> =
        (1..=4).map(|sequence| request(CLIENT, sequence, both, Class::Independent)).collect();
    raw.write(&held);
    assert!(
        matches!(raw.read(), Some(Packet::Busy { .. })),
        "three are within twice the mark, and the fourth is not"
    );
    let status = cluster.server(0).status();
    assert_eq!((status.refused_messages, status.refused_client_messages), (1, 1));
    raw.write(&[request(CLIENT, 5, alone, Class::ReadOnly)]);
    assert!(matches!(raw.read(), Some(Packet::Busy { .. })), "a read is not within the mark");
    // Another client is served.
    let other = ClientId(CLIENT.0 + 1);
    let mut others = Raw::of(other, cluster.addresses()[0]);
    others.write(&[request(other, 1, alone, Class::ReadOnly)]);
    assert!(matches!(others.read(), Some(Packet::Envelope(_))), "others have nothing waiting");
}
