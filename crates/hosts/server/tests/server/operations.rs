//! The status that operators see, and the actions that they take.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use quorate_core::command::Failure;
use quorate_core::topology::Durability;
use quorate_server::{Initialise, Limits, Server, StartError};
use quorate_wire::Packet;

use crate::cluster::{Cluster, ENTRY};

pub(crate) fn http(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[tokio::test]
async fn health_metrics_and_status_over_http() {
    let cluster = Cluster::start(Durability::Memory);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    client.put(cluster.system(), ENTRY, "value").await;
    let address = cluster.server(0).http_address().unwrap();
    assert_eq!(http(address, "/health"), (200, "ok\n".to_owned()));
    let (code, metrics) = http(address, "/metrics");
    assert_eq!(code, 200);
    for line in [
        "quorate_healthy 1",
        "quorate_replica_serving{keyspace=\"_system\",shard=\"0\",replica=\"0\"} 1",
        "# TYPE quorate_cpu_seconds_total counter",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}\n{metrics}");
    }
    // A replica hears of the decision after the client does.
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let (_, metrics) = http(address, "/metrics");
        let commits = "quorate_commits_total{keyspace=\"_system\",shard=\"0\",replica=\"0\"} ";
        let commits = metrics.lines().find_map(|line| line.strip_prefix(commits)).unwrap();
        if commits.parse::<u64>().unwrap() >= 1 {
            break;
        }
        assert!(Instant::now() < deadline, "{metrics}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (code, status) = http(address, "/status");
    assert_eq!(code, 200);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["cluster"], "example");
    assert_eq!(status["replicas"][0]["state"], "normal");
    assert!(status["transport"]["messages_sent"].as_u64().unwrap() > 0);
    assert!(status["cpu_seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(http(address, "/nothing").0, 404);
}

#[tokio::test]
async fn idle_http_connections_keep_nobody_out() {
    let limits = Limits { http_connections_max: 8, ..Limits::default() };
    let cluster = Cluster::start_with(Durability::Memory, limits);
    cluster.healthy(1).await;
    let address = cluster.server(0).http_address().unwrap();
    let mut idle: Vec<_> = (0..40).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert_eq!(http(address, "/health").0, 200);
    // The first have made room for the last.
    for closed in &mut idle[..30] {
        assert_eq!(closed.read(&mut [0; 1]).unwrap_or(0), 0);
    }
}

#[tokio::test]
async fn an_http_request_that_never_ends_is_closed() {
    let limits = Limits { http_timeout: Duration::from_millis(200), ..Limits::default() };
    let cluster = Cluster::start_with(Durability::Memory, limits);
    let mut slow = TcpStream::connect(cluster.server(0).http_address().unwrap()).unwrap();
    let begin = Instant::now();
    while slow.write_all(b"G").is_ok() {
        assert!(begin.elapsed() < Duration::from_secs(10), "it may dribble for ever");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(begin.elapsed() >= Duration::from_millis(200));
}

#[tokio::test]
async fn status_and_directory_over_the_wire() {
    let cluster = Cluster::start(Durability::Memory);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    client.send(2, &Packet::StatusRequest);
    // News of the node may come before an answer.
    let json = loop {
        if let Packet::Status { json } = client.packets.recv().await.expect("the client runs") {
            break json;
        }
    };
    let status: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(status["node"], 2);
    client.send(1, &Packet::DirectoryRequest);
    let directory = loop {
        if let Packet::Directory(directory) = client.packets.recv().await.expect("the client runs") {
            break directory;
        }
    };
    assert_eq!(directory.topology, cluster.configs[0].topology);
    assert_eq!(&directory.system, cluster.system());
}

#[tokio::test]
async fn a_replica_that_cannot_serve_makes_the_node_unhealthy() {
    let mut cluster = Cluster::start(Durability::Memory);
    cluster.healthy(1).await;
    // A majority that has forgotten everything: the group cannot recover by itself.
    cluster.crash(1);
    cluster.crash(2);
    for node in [1, 2] {
        cluster.restart(node);
    }
    let problem = loop {
        let status = cluster.server(1).status();
        if status.replicas[0].state == "lost" {
            break status.problems.join(" ");
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let (code, health) = http(cluster.server(1).http_address().unwrap(), "/health");
    assert_eq!(code, 503);
    assert!(health.contains("_system"), "{health}");
    assert!(problem.contains("bring back the disk") && problem.contains("accept-loss"), "{problem}");
}

#[tokio::test]
async fn a_stopping_node_refuses_new_work_and_stops_in_time() {
    let mut cluster = Cluster::start(Durability::Memory);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    client.put(cluster.system(), ENTRY, "value").await;
    let begin = Instant::now();
    let server = cluster.servers[0].take().unwrap();
    tokio::task::spawn_blocking(|| server.shutdown()).await.unwrap().unwrap();
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    client.connected(2).await;
    client.put(cluster.system(), ENTRY, "another").await;
}

#[tokio::test]
async fn without_a_majority_nothing_commits_and_the_client_knows() {
    let mut cluster = Cluster::start(Durability::Memory);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    cluster.crash(1);
    cluster.crash(2);
    let result = client.try_put(cluster.system(), ENTRY, "value").await;
    assert!(matches!(result, Err(Failure::Unavailable { .. } | Failure::Unknown { .. })), "{result:?}");
}

#[test]
fn a_node_needs_explicit_initialisation_and_a_free_address() {
    let mut cluster = Cluster::start(Durability::Memory);
    let mut config = cluster.configs[0].clone();
    assert!(matches!(Server::start(config.clone(), Initialise::No), Err(StartError::Data(_))), "in use");
    config.data_directory.push("elsewhere");
    assert!(matches!(Server::start(config.clone(), Initialise::No), Err(StartError::Data(_))), "missing");
    let error = Server::start(config, Initialise::New).unwrap_err();
    assert!(matches!(error, StartError::Listen { .. }), "{error}");
    cluster.crash(0);
}

/// A leader counts its lease by its own file, and the others promise by theirs.
#[tokio::test]
async fn nodes_whose_logs_go_by_other_times_say_so_as_long_as_they_are_there() {
    let mut cluster = Cluster::start(Durability::Memory);
    cluster.healthy(1).await;
    let right = cluster.configs[2].log;
    let told = |cluster: &Cluster, node: usize| cluster.server(node).status().problems.join("; ");
    cluster.configs[2].log.timing.lease = Duration::from_millis(700);
    cluster.crash(2);
    cluster.restart(2);
    let noticed = async {
        while !(0..3).all(|node| told(&cluster, node).contains("this has to be the same at all nodes")) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), noticed).await.expect("everybody says so");
    let expected = "node2 goes by log.lease_ms = 700, and this node by log.lease_ms = 800";
    assert!(told(&cluster, 0).contains(expected), "{}", told(&cluster, 0));
    assert!(!told(&cluster, 0).contains("node1"), "that one does not differ");
    cluster.configs[2].log = right;
    cluster.crash(2);
    cluster.restart(2);
    cluster.healthy(1).await;
}
