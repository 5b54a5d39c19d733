//! Nodes that die and come back.

use std::time::Duration;

use quorate_core::topology::Durability;
use quorate_server::{Initialise, Server};

use crate::cluster::{Cluster, ENTRY};

#[tokio::test]
async fn a_restarted_memory_node_learns_everything_again() {
    let mut cluster = Cluster::start(Durability::Memory);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    let keyspace = cluster.create(&mut client, "accounts", Durability::Memory).await;
    for round in 0..3 {
        client.put(&keyspace, "key", &format!("value{round}")).await;
        cluster.crash(round);
        client.put(&keyspace, "other", &format!("value{round}")).await;
        cluster.restart(round);
        cluster.healthy(2).await;
        client.connected(3).await;
    }
    assert_eq!(client.get(&keyspace, "key").await.as_deref(), Some(&b"value2"[..]));
    assert_eq!(client.get(&keyspace, "other").await.as_deref(), Some(&b"value2"[..]));
}

#[tokio::test]
async fn all_nodes_die_at_once_and_nothing_acknowledged_is_lost() {
    let mut cluster = Cluster::start(Durability::Sync);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    let keyspace = cluster.create(&mut client, "accounts", Durability::Sync).await;
    for round in 0..3 {
        for number in 0..20 {
            client.put(&keyspace, &format!("key{round}.{number}"), "value").await;
        }
        (0..3).for_each(|node| cluster.crash(node));
        (0..3).for_each(|node| cluster.restart(node));
        cluster.healthy(2).await;
        client.connected(3).await;
        assert_eq!(client.scan(&keyspace).await.len(), 20 * (round + 1));
    }
    let status = cluster.server(0).status();
    assert!(status.log.syncs > 0 && status.log.records > 0, "{:?}", status.log);
}

#[tokio::test]
async fn a_synced_node_that_died_comes_back_current() {
    let mut cluster = Cluster::start(Durability::Sync);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    let keyspace = cluster.create(&mut client, "accounts", Durability::Sync).await;
    client.put(&keyspace, "before", "value").await;
    cluster.crash(2);
    client.put(&keyspace, "meanwhile", "value").await;
    cluster.restart(2);
    cluster.healthy(2).await;
    client.connected(3).await;
    // Without another node the restarted one is needed for every quorum.
    cluster.crash(0);
    client.put(&keyspace, "after", "value").await;
    for key in ["before", "meanwhile", "after"] {
        assert_eq!(client.get(&keyspace, key).await.as_deref(), Some(&b"value"[..]), "{key}");
    }
}

#[tokio::test]
async fn a_node_stopped_in_good_order_starts_again() {
    let mut cluster = Cluster::start(Durability::Sync);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    client.put(cluster.system(), ENTRY, "value").await;
    for node in 0..3 {
        let server = cluster.servers[node].take().unwrap();
        tokio::task::spawn_blocking(|| server.shutdown()).await.unwrap().unwrap();
    }
    (0..3).for_each(|node| cluster.restart(node));
    cluster.healthy(1).await;
    client.connected(3).await;
    assert_eq!(client.get(cluster.system(), ENTRY).await.as_deref(), Some(&b"value"[..]));
}

#[tokio::test]
async fn a_replica_with_a_lost_log_rejoins() {
    let mut cluster = Cluster::start(Durability::Sync);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    client.put(cluster.system(), ENTRY, "value").await;
    cluster.crash(1);
    std::fs::remove_dir_all(cluster.replica_directory(1, 0).join("log")).unwrap();
    cluster.restart(1);
    cluster.healthy(1).await;
    client.connected(3).await;
    cluster.crash(0);
    assert_eq!(client.get(cluster.system(), ENTRY).await.as_deref(), Some(&b"value"[..]));
}

#[tokio::test]
async fn no_replica_of_a_node_that_is_starting_counts_as_serving() {
    let mut cluster = Cluster::start(Durability::Memory);
    cluster.healthy(1).await;
    cluster.crash(1);
    cluster.restart(1);
    let mut starting = 0;
    loop {
        let status = cluster.server(1).status();
        if status.healthy {
            break;
        }
        if status.problems.iter().any(|problem| problem == "the node is starting") {
            starting += 1;
            assert!(
                status.replicas.iter().all(|replica| replica.state == "recovering"),
                "{:?}",
                status.replicas
            );
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(starting > 0, "the node was asked while it started");
}

#[tokio::test]
async fn a_corrupted_log_is_refused_with_advice_and_the_others_are_served() {
    let mut cluster = Cluster::start(Durability::Sync);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    let keyspace = cluster.create(&mut client, "accounts", Durability::Sync).await;
    for number in 0..20 {
        client.put(&keyspace, &format!("key{number}"), "value").await;
    }
    let server = cluster.servers[1].take().unwrap();
    tokio::task::spawn_blocking(|| server.shutdown()).await.unwrap().unwrap();

    let log = cluster.replica_directory(1, keyspace.shards[0].id.0).join("log");
    let segment = std::fs::read_dir(log).unwrap().map(|entry| entry.unwrap().path());
    let segment = segment.filter(|path| path.extension().is_some_and(|ext| ext == "log")).min().unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    let place = bytes.windows(5).position(|window| window == b"value").unwrap();
    bytes[place] ^= 1;
    std::fs::write(&segment, bytes).unwrap();

    cluster.restart(1);
    let status = loop {
        let status = cluster.server(1).status();
        if status.replicas[0].state == "normal" {
            break status;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let refused = &status.replicas[1];
    assert_eq!((refused.keyspace.as_str(), refused.state), ("accounts", "refused"));
    let problem = refused.problem.as_ref().unwrap();
    assert!(problem.contains("corrupt at byte") && problem.contains("rejoin"), "{problem}");
    assert!(!status.healthy);
    client.put(&keyspace, "another", "value").await;
}

#[tokio::test]
async fn a_replaced_node_learns_everything_before_it_counts() {
    let mut cluster = Cluster::start(Durability::Sync);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    let keyspace = cluster.create(&mut client, "accounts", Durability::Sync).await;
    client.put(&keyspace, "key", "value").await;
    cluster.crash(2);
    let config = cluster.configs[2].clone();
    std::fs::remove_dir_all(&config.data_directory).unwrap();
    assert!(
        Server::start(config.clone(), Initialise::No).is_err(),
        "an empty disk is not taken for a new one"
    );
    cluster.servers[2] = Some(Server::start(config, Initialise::Replace).unwrap());
    cluster.healthy(2).await;
    client.connected(3).await;
    cluster.crash(0);
    assert_eq!(client.get(&keyspace, "key").await.as_deref(), Some(&b"value"[..]));
}

#[tokio::test]
async fn a_node_that_cannot_start_says_why_within_a_runtime_too() {
    let mut cluster = Cluster::start(Durability::Sync);
    cluster.healthy(1).await;
    cluster.crash(0);
    let config = cluster.configs[0].clone();
    let file = config.data_directory.join("keyspaces/keyspace-0.toml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "no TOML").unwrap();
    let error = Server::start(config, Initialise::No).expect_err("the file is damaged").to_string();
    assert!(error.contains("keyspace-0.toml is damaged"), "{error}");
}
