//! Groups of which more replicas have lost their records than they survive.

use std::time::Duration;

use quorate_core::topology::Durability;
use quorate_core::{Epoch, ReplicaId, ReplicaIndex, ShardId, View};
use quorate_wire::Packet;

use crate::client::Client;
use crate::cluster::Cluster;

fn replica(shard: ShardId, index: u8) -> ReplicaId {
    ReplicaId { shard, index: ReplicaIndex(index) }
}

/// Waits until a replica is in this state; gives what is wrong with it.
async fn state(cluster: &Cluster, node: usize, shard: ShardId, state: &str) -> Option<String> {
    for _ in 0..1_000 {
        let status = cluster.server(node).status();
        let replicas = status.replicas.into_iter();
        let mut of_shard = replicas.filter(|replica| replica.shard == shard.0 && replica.state == state);
        if let Some(found) = of_shard.next() {
            return found.problem;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("replica {node} of {shard} is not {state}: {:?}", cluster.server(node).status().replicas);
}

/// Asks a node to accept a loss; gives why it does not, if it does not.
async fn accept(client: &mut Client, node: u8, shard: ShardId, view: u64) -> Option<(String, bool)> {
    client.send(usize::from(node), &Packet::AcceptLoss { replica: replica(shard, node), view: View(view) });
    loop {
        match client.packets.recv().await.expect("an answer") {
            Packet::AcceptLossReply { replica: asked, refused, passes } => {
                assert_eq!(asked, replica(shard, node));
                return refused.map(|refused| (refused, passes));
            }
            _ => continue,
        }
    }
}

/// Asks a node again until it has heard from the other replicas since it started, as operators are told to.
async fn accept_at_last(client: &mut Client, node: u8, shard: ShardId, view: u64) {
    let until = tokio::time::Instant::now() + Duration::from_secs(60);
    while let Some((refused, passes)) = accept(client, node, shard, view).await {
        assert!(passes, "{refused}");
        assert!(tokio::time::Instant::now() < until, "{refused}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_group_that_has_forgotten_everything_begins_again_only_if_it_is_told_to() {
    let mut cluster = Cluster::start(Durability::Sync);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    let keyspace = cluster.create(&mut client, "accounts", Durability::Memory).await;
    let shard = keyspace.shards[0].id;
    client.put(&keyspace, "key", "value").await;
    let (refused, _) = accept(&mut client, 1, shard, 100).await.expect("nothing is lost");
    assert!(refused.contains("nothing to accept"), "{refused}");

    // The client goes as well: a commit that it has not been thanked for, it would go on telling, and bring it back.
    drop(client);
    (0..3).for_each(|node| cluster.crash(node));
    (0..3).for_each(|node| cluster.restart(node));
    for node in 0..3 {
        let problem = state(&cluster, node, shard, "lost").await.expect("it says what to do");
        for part in ["of the 3 replicas", "accounts", "accept-loss", &format!("node-{node}")] {
            assert!(problem.contains(part), "{part}: {problem}");
        }
    }
    let mut client = cluster.client().await;
    client.route(&keyspace);
    let of_other_members = View::first_of(Epoch(1)).0 + 100;
    let (refused, passes) =
        accept(&mut client, 0, shard, of_other_members).await.expect("the group is as ever");
    assert!(refused.contains("has other members in its group") && !passes, "{refused}");
    // Two make a majority; the third learns from them that there is nothing.
    accept_at_last(&mut client, 0, shard, 100).await;
    accept_at_last(&mut client, 2, shard, 100).await;
    cluster.healthy(2).await;
    assert_eq!(client.get(&keyspace, "key").await, None, "it is lost, as was accepted");
    client.put(&keyspace, "key", "another").await;
    for (node, accepted) in [(0, 1), (1, 0), (2, 1)] {
        let replicas = cluster.server(node).status().replicas;
        let of_shard = replicas.iter().find(|replica| replica.shard == shard.0).unwrap();
        assert_eq!(of_shard.accepted_losses.len(), accepted, "node {node}");
        assert!(of_shard.view > 100, "in none of the views of its earlier life");
    }
}

#[tokio::test]
async fn the_survivor_brings_what_it_knows_and_clients_are_told_both_times() {
    let mut cluster = Cluster::start(Durability::Sync);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    let keyspace = cluster.create(&mut client, "accounts", Durability::Sync).await;
    let shard = keyspace.shards[0].id;
    for number in 0..20 {
        client.put(&keyspace, &format!("key{number}"), "value").await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    for node in [1, 2] {
        cluster.crash(node);
    }
    for node in [1, 2] {
        std::fs::remove_dir_all(cluster.replica_directory(node, shard.0).join("log")).unwrap();
        cluster.restart(node);
    }
    state(&cluster, 1, shard, "lost").await;
    state(&cluster, 2, shard, "lost").await;
    let mut client = cluster.client().await;
    client.route(&keyspace);
    let mut told = Vec::new();
    while told.len() < 2 {
        if let Packet::ReplicaService { replica, problem } = client.packets.recv().await.unwrap() {
            assert!(problem.expect("it is lost").contains("accept-loss"));
            told.push(replica.index.0);
        }
    }
    told.sort_unstable();
    assert_eq!(told, [1, 2]);

    accept_at_last(&mut client, 1, shard, 100).await;
    cluster.healthy(2).await;
    loop {
        if let Packet::ReplicaService { replica, problem: None } = client.packets.recv().await.unwrap() {
            assert!([1, 2].contains(&replica.index.0));
            break;
        }
    }
    assert_eq!(client.scan(&keyspace).await.len(), 20);

    // The state of each replica from now on is on its disk.
    (0..3).for_each(|node| cluster.crash(node));
    (0..3).for_each(|node| cluster.restart(node));
    cluster.healthy(2).await;
    let mut client = cluster.client().await;
    client.route(&keyspace);
    assert_eq!(client.scan(&keyspace).await.len(), 20);
}

#[tokio::test]
async fn a_catalogue_without_survivors_is_not_begun_again() {
    let mut cluster = Cluster::start(Durability::Memory);
    cluster.healthy(1).await;
    (0..3).for_each(|node| cluster.crash(node));
    (0..3).for_each(|node| cluster.restart(node));
    let shard = cluster.system().shards[0].id;
    state(&cluster, 1, shard, "lost").await;
    let mut client = cluster.client().await;
    // It hears of the two others one after the other.
    let refused = loop {
        let status = cluster.server(1).status();
        if status.replicas[0].problem.as_ref().is_some_and(|problem| problem.starts_with("3 of the 3")) {
            let refused = accept(&mut client, 1, shard, 100).await;
            if refused.as_ref().is_none_or(|(_, passes)| !passes) {
                break refused;
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let (refused, _) = refused.expect("all keyspaces would be dropped");
    assert!(refused.contains("catalogue"), "{refused}");
}
