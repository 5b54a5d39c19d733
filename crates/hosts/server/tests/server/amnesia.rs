//! Nodes that have forgotten something, or were made to: they are not believed, and told so with the remedy.

use std::path::Path;
use std::time::Duration;

use quorate_core::topology::{Durability, Keyspace};
use quorate_server::{Initialise, Server, StartError, Status};

use crate::client::Client;
use crate::cluster::{Cluster, ENTRY};

/// A cluster with a keyspace in which a value stands.
async fn with_a_value() -> (Cluster, Client, Keyspace) {
    let cluster = Cluster::start(Durability::Sync);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    let keyspace = cluster.create(&mut client, "accounts", Durability::Sync).await;
    client.put(&keyspace, "key", "value").await;
    (cluster, client, keyspace)
}

fn start(cluster: &mut Cluster, node: usize, initialise: Initialise) {
    let config = cluster.configs[node].clone();
    cluster.servers[node] = Some(Server::start(config, initialise).unwrap());
}

/// Waits until a node says this of itself.
async fn says(cluster: &Cluster, node: usize, text: &str) -> Status {
    for _ in 0..500 {
        let status = cluster.server(node).status();
        if status.problems.iter().any(|problem| problem.contains(text)) {
            return status;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{:?} does not say {text:?}", cluster.server(node).status().problems);
}

/// A fenced node gives up everything, and its directory for good; with an empty one in its place it is taken back.
async fn is_fenced_until_it_is_replaced(mut cluster: Cluster, mut client: Client, keyspace: Keyspace) {
    let status = says(&cluster, 2, "fenced").await;
    assert!(!status.healthy && !status.replicas.is_empty());
    for replica in &status.replicas {
        let problem = replica.problem.as_deref().unwrap_or_default();
        assert!(replica.state == "refused" && problem.contains("--initialise=replace"), "{problem}");
    }
    client.put(&keyspace, "key", "other").await;
    client.write(cluster.system(), ENTRY, Some(bytes::Bytes::from_static(b"red"))).await;
    assert_eq!(cluster.server(0).status().fenced_nodes, [2]);
    let survivors = |cluster: &Cluster| cluster.server(0).status().replicas.len();
    let before = survivors(&cluster);

    cluster.crash(2);
    let config = cluster.configs[2].clone();
    let error = Server::start(config.clone(), Initialise::No).unwrap_err();
    assert!(
        matches!(error, StartError::Data(_)) && error.to_string().contains("must not be used"),
        "{error}"
    );
    std::fs::remove_dir_all(&config.data_directory).unwrap();
    start(&mut cluster, 2, Initialise::Replace);
    cluster.healthy(2).await;
    client.connected(3).await;
    assert_eq!(survivors(&cluster), before);
    assert_eq!(cluster.server(0).status().fenced_nodes, [0; 0]);
    cluster.crash(0);
    assert_eq!(client.get(&keyspace, "key").await.as_deref(), Some(&b"other"[..]));
}

#[tokio::test]
async fn a_node_that_is_initialised_anew_is_fenced() {
    let (mut cluster, client, keyspace) = with_a_value().await;
    cluster.crash(2);
    std::fs::remove_dir_all(&cluster.configs[2].data_directory).unwrap();
    start(&mut cluster, 2, Initialise::New);
    is_fenced_until_it_is_replaced(cluster, client, keyspace).await;
}

#[tokio::test]
async fn a_node_whose_disk_is_rolled_back_is_fenced() {
    let (mut cluster, mut client, keyspace) = with_a_value().await;
    let directory = cluster.configs[2].data_directory.clone();
    let copy = directory.with_extension("copy");
    cluster.crash(2);
    copy_all(&directory, &copy);
    cluster.restart(2);
    cluster.healthy(2).await;
    client.connected(3).await;
    client.put(&keyspace, "key", "later").await;
    cluster.crash(2);
    std::fs::remove_dir_all(&directory).unwrap();
    std::fs::rename(&copy, &directory).unwrap();
    start(&mut cluster, 2, Initialise::No);
    is_fenced_until_it_is_replaced(cluster, client, keyspace).await;
}

#[tokio::test]
async fn a_replica_whose_directory_is_gone_is_refused_until_it_is_given_up() {
    let (mut cluster, mut client, keyspace) = with_a_value().await;
    cluster.crash(2);
    std::fs::remove_dir_all(cluster.configs[2].data_directory.join("replicas")).unwrap();
    cluster.restart(2);
    let status = says(&cluster, 2, "--rejoin").await;
    assert_eq!(status.replicas.len(), 2);
    for replica in &status.replicas {
        let problem = replica.problem.as_deref().unwrap_or_default();
        assert!(replica.state == "refused" && problem.contains("is missing"), "{problem}");
    }
    client.put(&keyspace, "key", "other").await;

    cluster.crash(2);
    start(&mut cluster, 2, Initialise::Rejoin);
    cluster.healthy(2).await;
    client.connected(3).await;
    cluster.crash(0);
    assert_eq!(client.get(&keyspace, "key").await.as_deref(), Some(&b"other"[..]));
}

fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_all(&entry.path(), &target),
            false => _ = std::fs::copy(entry.path(), target).unwrap(),
        }
    }
}
