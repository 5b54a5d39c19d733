//! Nodes are registered, join, and are found elsewhere.

use std::net::TcpListener;
use std::time::Duration;

use quorate_core::topology::{Durability, Node, Topology};
use quorate_core::{NodeId, SiteId};
use quorate_runtime::ports::free_listeners;
use quorate_server::{Config, Initialise, Limits, Server, Sockets, StartError};
use quorate_wire::Packet;

use crate::client::Client;
use crate::cluster::Cluster;

/// A free port of this machine, and what is bound to it.
fn listener() -> (TcpListener, String) {
    let listener = free_listeners(1).unwrap().remove(0);
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// Waits until a node says that the cluster is this.
async fn until_told(client: &mut Client, node: usize, holds: impl Fn(&Topology) -> bool) -> Topology {
    let told = async {
        loop {
            client.send(node, &Packet::DirectoryRequest);
            while let Some(packet) = client.packets.recv().await {
                match packet {
                    Packet::Directory(directory) if holds(&directory.topology) => return directory.topology,
                    Packet::Directory(_) => break,
                    _ => {}
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), told).await.expect("in time")
}

/// The configuration of a node that is to join a cluster, and the sockets that it listens on.
fn newcomer(cluster: &Cluster, site: &str, join: Vec<String>) -> (Config, Sockets) {
    let (listener, address) = listener();
    let node = Node { id: NodeId(0), site: SiteId(0), address };
    let config = Config {
        topology: Topology { sites: vec![site.to_owned()], nodes: vec![node] },
        data_directory: cluster.configs[0].data_directory.with_file_name("newcomer"),
        join,
        ..cluster.configs[0].clone()
    };
    (config, Sockets { node: Some(listener), http: None })
}

#[tokio::test]
async fn a_new_node_joins_is_known_to_all_and_hosts_what_is_placed_on_it() {
    let (mut cluster, _, mut client) = Cluster::hosting(Limits::default()).await;
    let addresses: Vec<_> = cluster.addresses().iter().map(ToString::to_string).collect();
    // One of them does not answer.
    let (silent, nowhere) = listener();
    drop(silent);
    let (config, sockets) = newcomer(&cluster, "mars", vec![nowhere, addresses[1].clone()]);
    let own_address = config.topology.nodes[0].address.clone();
    let missing = Server::start(config.clone(), Initialise::No).unwrap_err();
    assert!(matches!(missing, StartError::Data(_)), "{missing}");
    let server = Server::start_with(config.clone(), Initialise::New, sockets).unwrap();
    assert_eq!((server.status().node, server.status().site.as_str()), (3, "mars"));
    for node in 0..3 {
        let topology = until_told(&mut client, node, |topology| topology.nodes.len() == 4).await;
        assert_eq!(
            (topology.nodes[3].address.as_str(), topology.sites[3].as_str()),
            (own_address.as_str(), "mars")
        );
    }

    // A keyspace on two of the old ones and on the new one; the client needs two of them.
    let mut keyspace = cluster.system().clone();
    (keyspace.id.0, keyspace.name) = (500, "far".to_owned());
    keyspace.shards[0].id.0 = 500;
    keyspace.shards[0].replicas = vec![NodeId(0), NodeId(1), NodeId(3)];
    client.write(cluster.system(), "keyspace/far", Some(quorate_wire::encode(&keyspace))).await;
    let hosts = |server: &Server| {
        let status = server.status();
        status.replicas.iter().any(|replica| replica.keyspace == "far" && replica.state == "normal")
    };
    let hosted = async {
        while !(hosts(&server) && hosts(cluster.server(0)) && hosts(cluster.server(1))) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), hosted).await.expect("in time");
    let all: Vec<_> =
        addresses.iter().chain([&own_address]).map(|address| address.parse().unwrap()).collect();
    let mut client = Client::connect(config.cluster, &all);
    client.connected(4).await;
    client.route(&keyspace);
    client.put(&keyspace, "key", "value").await;

    // It remembers who it is and where the others are: none of those that it is told of has to answer.
    server.crash().unwrap();
    let nobody = Config { join: vec!["127.0.0.1:1".to_owned()], ..config.clone() };
    let server = Server::start(nobody, Initialise::No).unwrap();
    assert_eq!(server.status().node, 3);
    let back = async {
        while !hosts(&server) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), back).await.expect("in time");

    // Its disk is lost: it is the same node all the same, and begins with nothing of its own.
    server.crash().unwrap();
    std::fs::remove_dir_all(&config.data_directory).unwrap();
    let server = Server::start(config, Initialise::New).unwrap();
    assert_eq!(server.status().node, 3);
    let back = async {
        while !hosts(&server) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), back).await.expect("in time");
    cluster.crash(1);
    client.connected(3).await;
    assert_eq!(client.get(&keyspace, "key").await.as_deref(), Some(&b"value"[..]));
}

#[tokio::test]
async fn nobody_joins_without_a_majority_or_at_the_address_of_another() {
    let mut cluster = Cluster::start(Durability::Memory);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    until_told(&mut client, 0, |topology| topology.nodes.len() == 3).await;
    let address = cluster.addresses()[0].to_string();
    let (mut config, _) = newcomer(&cluster, "mars", vec![address.clone()]);
    config.topology.nodes[0].address.clone_from(&address);
    let error = Server::start(config, Initialise::New).unwrap_err().to_string();
    assert!(error.contains(&address) && error.contains("node0 is found at"), "{error}");
    let (config, sockets) = newcomer(&cluster, "us", vec![address]);
    cluster.crash(1);
    cluster.crash(2);
    let error = Server::start_with(config, Initialise::New, sockets).unwrap_err();
    assert!(matches!(error, StartError::Join(_)), "{error}");
}

#[tokio::test]
async fn a_node_that_is_found_elsewhere_is_found_there() {
    let (mut cluster, keyspace, mut client) = Cluster::hosting(Limits::default()).await;
    until_told(&mut client, 0, |topology| topology.nodes.len() == 3).await;
    cluster.crash(2);
    let (socket, address) = listener();
    let mut config = cluster.configs[2].clone();
    config.topology.nodes[2].address.clone_from(&address);
    // Where the others are it remembers, whatever its file says of them.
    config.topology.nodes[0].address = "127.0.0.1:1".to_owned();
    let sockets = Sockets { node: Some(socket), http: None };
    cluster.servers[2] = Some(Server::start_with(config, Initialise::No, sockets).unwrap());
    for node in [0, 1] {
        until_told(&mut client, node, |topology| topology.nodes[2].address == address).await;
    }
    // The others dial it there: without the second node the third is needed.
    cluster.healthy(2).await;
    let mut addresses = cluster.addresses();
    addresses[2] = address.parse().unwrap();
    let mut client = Client::connect(cluster.configs[0].cluster, &addresses);
    client.connected(3).await;
    client.route(&keyspace);
    cluster.crash(1);
    client.put(&keyspace, "key", "value").await;
}

/// Clients that connect meanwhile find them: no node tells where they were, although that is registered for a while.
#[tokio::test]
async fn nodes_that_are_all_moved_at_once_never_tell_where_they_were() {
    let mut cluster = Cluster::start(Durability::Sync);
    cluster.healthy(1).await;
    for _ in 0..3 {
        let mut client = cluster.client().await;
        for node in 0..3 {
            let registered = cluster.configs[0].topology.clone();
            until_told(&mut client, node, |topology| *topology == registered).await;
        }
        let (sockets, addresses): (Vec<_>, Vec<_>) = (0..3).map(|_| listener()).unzip();
        (0..3).for_each(|node| cluster.crash(node));
        for config in &mut cluster.configs {
            for (node, address) in config.topology.nodes.iter_mut().zip(&addresses) {
                node.address.clone_from(address);
            }
        }
        for (node, socket) in sockets.into_iter().enumerate() {
            let sockets = Sockets { node: Some(socket), http: None };
            let server = Server::start_with(cluster.configs[node].clone(), Initialise::No, sockets);
            cluster.servers[node] = Some(server.unwrap());
        }
        let mut client = Client::connect(cluster.configs[0].cluster, &cluster.addresses());
        client.connected(3).await;
        // Each dials both others, and is dialled by them.
        let met = async {
            while cluster.servers.iter().flatten().any(|server| server.status().transport.connections < 5) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), met).await.expect("they find each other");
        let begin = std::time::Instant::now();
        while begin.elapsed() < Duration::from_millis(1_500) {
            for node in 0..3 {
                let told = until_told(&mut client, node, |_| true).await;
                let told: Vec<_> = told.nodes.into_iter().map(|node| node.address).collect();
                assert_eq!(told, addresses, "node{node} after {:?}", begin.elapsed());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
