//! Keyspaces come into being by the catalogue and end by it.

use std::time::Duration;

use quorate_core::topology::Durability;
use quorate_wire::Packet;

use crate::cluster::Cluster;

#[tokio::test]
async fn a_keyspace_in_the_catalogue_is_hosted_at_once_and_usable() {
    let cluster = Cluster::start(Durability::Memory);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    let begin = std::time::Instant::now();
    let keyspace = cluster.create(&mut client, "accounts", Durability::Memory).await;
    assert!(begin.elapsed() < Duration::from_secs(2), "the interval of the catalogue is five seconds");
    for number in 0..20 {
        client.put(&keyspace, &format!("key{number}"), &format!("value{number}")).await;
    }
    assert_eq!(client.get(&keyspace, "key7").await.as_deref(), Some(&b"value7"[..]));
    assert_eq!(client.get(&keyspace, "nothing").await, None);
    assert_eq!(client.scan(&keyspace).await.len(), 20);
    let replica = cluster.server(1).status().replicas.remove(1);
    assert_eq!((replica.keyspace.as_str(), replica.state), ("accounts", "normal"));
    assert!(replica.commits >= 20, "{replica:?}");
}

#[tokio::test]
async fn clients_are_told_of_changes() {
    let cluster = Cluster::start(Durability::Memory);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    cluster.create(&mut client, "accounts", Durability::Memory).await;
    let told = async { while client.packets.recv().await != Some(Packet::CatalogueChanged) {} };
    tokio::time::timeout(Duration::from_secs(5), told).await.unwrap();
}

#[tokio::test]
async fn a_dropped_keyspace_is_forgotten_with_its_data() {
    let cluster = Cluster::start(Durability::Memory);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    let keyspace = cluster.create(&mut client, "accounts", Durability::Memory).await;
    let directory = cluster.replica_directory(2, keyspace.shards[0].id.0);
    assert!(directory.exists());
    client.write(cluster.system(), "keyspace/accounts", None).await;
    let gone = async {
        while directory.exists() || (0..3).any(|node| cluster.server(node).status().replicas.len() > 1) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), gone).await.unwrap();
}

#[tokio::test]
async fn a_node_that_was_away_learns_of_keyspaces_when_it_is_back() {
    let mut cluster = Cluster::start(Durability::Memory);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    cluster.crash(2);
    let keyspace = cluster.create(&mut client, "accounts", Durability::Memory).await;
    client.put(&keyspace, "key", "value").await;
    cluster.restart(2);
    cluster.healthy(2).await;
}
