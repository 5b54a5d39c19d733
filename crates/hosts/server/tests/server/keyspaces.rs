//! Keyspaces come into being by the catalogue and end by it.

use std::time::Duration;

use quorate_core::topology::{Durability, Keyspace};
use quorate_wire::Packet;

use crate::cluster::{Cluster, until};

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
    tokio::time::timeout(Duration::from_secs(60), told).await.unwrap();
}

#[tokio::test]
async fn an_emptied_catalogue_deletes_nothing() {
    let mut cluster = Cluster::start(Durability::Sync);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    let keyspace = cluster.create(&mut client, "accounts", Durability::Sync).await;
    client.put(&keyspace, "key", "value").await;
    client.write(cluster.system(), "keyspace/accounts", None).await;
    let alarmed = |node: usize| cluster.server(node).status().problems.join("\n");
    until("the nodes say so", || (0..3).all(|node| alarmed(node).contains("knows no keyspace"))).await;
    assert!(alarmed(0).contains(&format!("quorate keyspace forget accounts --id {}", keyspace.id.0)));
    // A node that starts to the emptied catalogue deletes nothing either.
    cluster.crash(2);
    cluster.restart(2);
    let status = || cluster.server(2).status();
    until("it is back", || status().replicas.iter().all(|replica| replica.state == "normal")).await;
    until("it says so again", || status().problems.join("").contains("knows no keyspace")).await;
    assert!((0..3).all(|node| cluster.replica_directory(node, keyspace.shards[0].id.0).exists()));
    client.connected(3).await;
    assert_eq!(client.get(&keyspace, "key").await.as_deref(), Some(&b"value"[..]));
}

#[tokio::test]
async fn a_replica_of_another_keyspace_of_the_same_number_is_refused_and_kept() {
    let mut cluster = Cluster::start(Durability::Sync);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    let keyspace = cluster.create(&mut client, "accounts", Durability::Sync).await;
    client.put(&keyspace, "key", "value").await;
    // A catalogue that has lost its entries gives numbers again.
    let other = Keyspace { name: "other".to_owned(), ..keyspace.clone() };
    client.write(cluster.system(), "keyspace/accounts", None).await;
    client.write(cluster.system(), "keyspace/other", Some(quorate_wire::encode(&other))).await;
    let refused = |node: usize| {
        let replica = cluster.server(node).status().replicas.remove(1);
        replica.state == "refused" && replica.problem.is_some_and(|problem| problem.contains("it is named"))
    };
    until("it is refused", || (0..3).all(refused)).await;
    // With the entry back, and the node started again, everything is there.
    client.write(cluster.system(), "keyspace/other", None).await;
    client.write(cluster.system(), "keyspace/accounts", Some(quorate_wire::encode(&keyspace))).await;
    for node in 0..3 {
        cluster.crash(node);
        cluster.restart(node);
    }
    cluster.healthy(2).await;
    client.connected(3).await;
    assert_eq!(client.get(&keyspace, "key").await.as_deref(), Some(&b"value"[..]));
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
