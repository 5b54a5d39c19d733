//! Nodes whose replicas are spread over several event loops.

use std::time::Duration;

use quorate::{Durability, Isolation, KeyspaceOptions, VerifyOptions};
use tokio::time::Instant;

use crate::support::{Cluster, Load, accounts, count_up, until};

const SHARDS: usize = 6;

fn options(isolation: Isolation) -> KeyspaceOptions {
    KeyspaceOptions { shards: SHARDS, durability: Durability::Sync, ..KeyspaceOptions::new(isolation) }
}

#[tokio::test]
async fn replicas_are_spread_and_connections_lead_to_each_event_loop() {
    let cluster = Cluster::start_of(3);
    let db = cluster.connect().await;
    let accounts = db.create_keyspace("accounts", options(Isolation::Serializable)).await.unwrap();
    // The first messages may be handed over, until the connections are there.
    for round in 0..20 {
        for key in 0..20 {
            accounts.put(format!("key{key}"), round.to_string()).await.unwrap();
        }
    }
    for node in 0..3 {
        let status = cluster.status(node);
        assert_eq!(status.event_loops.len(), 3);
        let replicas: usize = status.event_loops.iter().map(|event_loop| event_loop.replicas).sum();
        assert_eq!((replicas, status.replicas.len()), (1 + SHARDS, 1 + SHARDS));
        for event_loop in &status.event_loops {
            assert!(event_loop.replicas > 0 && event_loop.turns > 0, "{event_loop:?}");
            // Each other node, and the client.
            assert!(event_loop.connections >= 3, "{event_loop:?}");
            assert!(event_loop.messages_received > 100, "{event_loop:?}");
            assert_eq!(event_loop.messages_lost, 0);
        }
        let received: u64 = status.event_loops.iter().map(|event_loop| event_loop.messages_received).sum();
        assert_eq!(received, status.transport.messages_received);
    }
    db.close().await;
}

/// The stored values do not depend on the number of event loops, nor does the content of the journals of a node that was killed.
#[tokio::test]
async fn a_node_restarts_with_another_number_of_event_loops_and_has_lost_nothing() {
    let mut cluster = Cluster::start_of(3);
    let db = cluster.connect().await;
    let accounts = db.create_keyspace("accounts", options(Isolation::Strict)).await.unwrap();
    let orders = db.create_keyspace("orders", options(Isolation::Serializable)).await.unwrap();
    for (written, threads) in [1, 3, 2, 1, 2].into_iter().enumerate() {
        for key in 0..12 {
            accounts.put(format!("key{key}"), written.to_string()).await.unwrap();
            orders.put(format!("key{key}"), written.to_string()).await.unwrap();
        }
        cluster.set_threads(threads);
        // All of them: nobody else knows what is written.
        (0..3).for_each(|node| cluster.crash(node));
        (0..3).for_each(|node| cluster.restart(node));
        until("all replicas serve", || {
            (0..3).all(|node| {
                let status = cluster.status(node);
                status.event_loops.len() == usize::from(threads)
                    && status.replicas.len() == 1 + 2 * SHARDS
                    && status.healthy
            })
        })
        .await;
        for key in 0..12 {
            let key = format!("key{key}");
            assert_eq!(accounts.get(&*key).await.unwrap().unwrap(), written.to_string(), "{threads} {key}");
            assert_eq!(orders.get(&*key).await.unwrap().unwrap(), written.to_string(), "{threads} {key}");
        }
    }
    db.close().await;
}

/// Nodes and clients that know of one event loop work with nodes of several.
#[tokio::test]
async fn nodes_of_different_numbers_of_event_loops_form_one_cluster() {
    let mut cluster = Cluster::start_of(1);
    let db = cluster.connect().await;
    let accounts = accounts(&db).await;
    let load = Load::start(&accounts);
    for (node, threads) in [(0, 3), (1, 2), (0, 1), (2, 4)] {
        cluster.stop(node);
        cluster.set_threads(threads);
        cluster.restart(node);
        cluster.all_serve().await;
        load.goes_on("a node with another number of event loops is back").await;
    }
    load.end().await;
    db.close().await;
}

#[tokio::test]
async fn a_node_of_several_event_loops_drains_and_is_not_missed() {
    let mut cluster = Cluster::start_of(2);
    let db = cluster.connect().await;
    let accounts = db.create_keyspace("accounts", options(Isolation::Serializable)).await.unwrap();
    for node in 0..3 {
        let counting = accounts.clone();
        let counted = tokio::spawn(async move {
            for counter in 0..60 {
                count_up(&counting, &format!("{node} {counter}")).await;
            }
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        cluster.stop(node);
        counted.await.unwrap();
        cluster.restart(node);
        cluster.all_serve().await;
    }
    for counter in 0..60 {
        for node in 0..3 {
            assert_eq!(accounts.get(format!("{node} {counter}")).await.unwrap().unwrap(), "1");
        }
    }
    db.close().await;
}

/// The question of an operator to a replica is asked where the replica lives.
#[tokio::test]
async fn replicas_of_all_event_loops_are_verified() {
    let cluster = Cluster::start_of(3);
    let db = cluster.connect().await;
    let accounts = db.create_keyspace("accounts", options(Isolation::Strict)).await.unwrap();
    for key in 0..30 {
        accounts.put(format!("key{key}"), "1").await.unwrap();
    }
    // A keyspace serves as soon as most of its replicas do: the last of them may come to its node later.
    let deadline = Instant::now() + Duration::from_secs(60);
    for shard in &accounts.definition().shards {
        loop {
            let verified = db.verify(shard, VerifyOptions::default(), |_| {}).await;
            if verified.replicas.iter().all(|replica| replica.held.is_ok()) {
                assert!(verified.is_ok() && verified.replicas.len() == 3, "{verified:?}");
                break;
            }
            assert!(Instant::now() < deadline, "{verified:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    db.close().await;
}
