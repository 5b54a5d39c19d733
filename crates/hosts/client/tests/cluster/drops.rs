//! Keyspaces that are dropped, come back, or are deleted.

use std::time::{Duration, Instant};

use quorate::{DropOptions, Durability, Invalid, Isolation, KeyspaceOptions, UndropOptions};

use crate::support::{Cluster, accounts, until};

fn soon(millis: u64) -> DropOptions {
    DropOptions { delete_after: Duration::from_millis(millis) }
}

/// How many replicas of keyspaces that were dropped, or are unknown, are on a node.
fn replicas(cluster: &Cluster, node: usize, catalogue: &str) -> usize {
    cluster.status(node).replicas.iter().filter(|replica| replica.catalogue == catalogue).count()
}

#[tokio::test]
async fn a_dropped_keyspace_serves_nobody_and_comes_back_with_its_data() {
    let mut cluster = Cluster::start();
    let db = cluster.connect().await;
    let before = accounts(&db).await;
    before.put("alice", "1").await.unwrap();
    db.drop_keyspace("accounts").await.unwrap();
    until("the nodes have heard of it", || (0..3).all(|node| replicas(&cluster, node, "dropped") == 2)).await;
    assert!((0..3).all(|node| cluster.status(node).healthy), "it is no alarm");

    let begun = Instant::now();
    let patient = before.with_deadline(Duration::from_secs(120));
    let error = patient.get("alice").await.unwrap_err().to_string();
    assert!(error.contains("`quorate keyspace undrop accounts --id 1`"), "{error}");
    assert!(
        begun.elapsed() < Duration::from_secs(60),
        "the client is told, and does not wait for its deadline"
    );
    let error = db.keyspace("accounts").await.unwrap_err();
    assert!(error.to_string().contains("undrop accounts --id 1"), "{error}");

    // The name is free at once.
    let other = db.create_keyspace("accounts", KeyspaceOptions::new(Isolation::Strict)).await.unwrap();
    assert_eq!(
        (other.definition().id.0, other.definition().shards[0].id.0),
        (2, 3),
        "no number is given twice"
    );
    other.put("alice", "2").await.unwrap();
    let taken = db.undrop_keyspace("accounts", &UndropOptions::default()).await.unwrap_err();
    assert!(matches!(taken, quorate::Error::Invalid(Invalid::KeyspaceExists { .. })), "{taken}");
    let rename = UndropOptions { rename: Some("old".to_owned()), ..UndropOptions::default() };
    let restored = db.undrop_keyspace("accounts", &rename).await.unwrap().unwrap();
    assert_eq!((restored.id.0, restored.name.as_str()), (1, "old"));
    let old = db.keyspace("old").await.unwrap();
    assert_eq!(old.get("alice").await.unwrap().unwrap(), "1");
    assert_eq!(db.dropped_keyspaces().await.unwrap(), []);

    // The marks of its replicas bear the former name, which the catalogue knows.
    for node in 0..3 {
        cluster.crash(node);
        cluster.restart(node);
    }
    until("all nodes are back", || (0..3).all(|node| replicas(&cluster, node, "listed") == 4)).await;
    assert_eq!(old.get("alice").await.unwrap().unwrap(), "1");
    assert_eq!(other.get("alice").await.unwrap().unwrap(), "2");
}

#[tokio::test]
async fn of_several_drops_the_last_one_comes_back_unless_one_is_named() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    for value in ["first", "second"] {
        let accounts = accounts(&db).await;
        accounts.put("alice", value).await.unwrap();
        let begin = Instant::now();
        db.drop_keyspace("accounts").await.unwrap();
        assert!(begin.elapsed() < Duration::from_millis(1_500), "nodes have heard of it");
        let error = accounts.get("alice").await.unwrap_err().to_string();
        assert!(error.contains("was dropped"), "it serves nobody from then on: {error}");
    }
    let dropped = db.dropped_keyspaces().await.unwrap();
    assert_eq!(dropped.iter().map(|dropped| dropped.id.0).collect::<Vec<_>>(), [1, 2]);
    let first = UndropOptions { id: Some(1), ..UndropOptions::default() };
    for (options, expected) in [(UndropOptions::default(), "second"), (first, "first")] {
        db.undrop_keyspace("accounts", &options).await.unwrap();
        let accounts = db.keyspace("accounts").await.unwrap();
        assert_eq!(accounts.get("alice").await.unwrap().unwrap(), expected);
        db.drop_keyspace("accounts").await.unwrap();
    }
}

#[tokio::test]
async fn replicas_of_a_dropped_keyspace_go_on_as_a_group() {
    let mut cluster = Cluster::start();
    let db = cluster.connect().await;
    let options =
        KeyspaceOptions { durability: Durability::Memory, ..KeyspaceOptions::new(Isolation::Serializable) };
    db.create_keyspace("accounts", options).await.unwrap().put("alice", "1").await.unwrap();
    db.drop_keyspace("accounts").await.unwrap();
    // One after the other loses what it has in memory, or all of its disk: it learns from the others meanwhile.
    let is_back = |cluster: &Cluster, node: usize| {
        let status = cluster.status(node);
        status.healthy && replicas(cluster, node, "dropped") == 1
    };
    for node in 0..3 {
        cluster.crash(node);
        if node == 1 {
            cluster.replace(node);
        } else {
            cluster.restart(node);
        }
        until("it has learnt from the others", || is_back(&cluster, node)).await;
    }
    db.undrop_keyspace("accounts", &UndropOptions::default()).await.unwrap();
    let accounts = db.keyspace("accounts").await.unwrap();
    assert_eq!(accounts.get("alice").await.unwrap().unwrap(), "1");
}

#[tokio::test]
async fn a_node_that_lost_its_disk_takes_no_keyspace_that_came_back_for_a_new_one() {
    let mut cluster = Cluster::start();
    let db = cluster.connect().await;
    accounts(&db).await.put("alice", "1").await.unwrap();
    db.drop_keyspace("accounts").await.unwrap();
    cluster.crash(2);
    db.undrop_keyspace("accounts", &UndropOptions::default()).await.unwrap();
    db.drop_keyspace("accounts").await.unwrap();
    cluster.replace(2);
    until("it hosts what was dropped", || replicas(&cluster, 2, "dropped") == 2).await;
    // Its entry is written after the node has started.
    db.undrop_keyspace("accounts", &UndropOptions::default()).await.unwrap();
    until("it has learnt everything", || cluster.status(2).healthy).await;
    cluster.crash(0);
    let accounts = db.keyspace("accounts").await.unwrap();
    assert_eq!(accounts.get("alice").await.unwrap().unwrap(), "1");
}

#[tokio::test]
async fn the_data_is_deleted_after_the_delay_also_on_a_node_that_was_away() {
    let mut cluster = Cluster::start();
    let db = cluster.connect().await;
    accounts(&db).await;
    cluster.crash(2);
    let begun = Instant::now();
    db.drop_keyspace_with("accounts", soon(1_500)).await.unwrap();
    until("the nodes have deleted it", || (0..2).all(|node| cluster.status(node).replicas.len() == 1)).await;
    assert!(begun.elapsed() >= Duration::from_millis(1_500), "not before");
    cluster.restart(2);
    until("so has the one that was away", || cluster.status(2).replicas.len() == 1).await;
    let error = db.undrop_keyspace("accounts", &UndropOptions::default()).await.unwrap_err();
    assert!(error.to_string().contains("its data is deleted"), "{error}");

    accounts(&db).await;
    db.drop_keyspace_with("accounts", DropOptions::at_once()).await.unwrap();
    until("it is gone at once", || (0..3).all(|node| cluster.status(node).replicas.len() == 1)).await;
}
