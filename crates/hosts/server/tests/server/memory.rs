//! Values beyond the memory that a node may take.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use quorate_core::topology::{Durability, Keyspace};
use quorate_server::{Limits, MemoryStatus, ValuesInFileStatus};

use crate::client::Client;
use crate::cluster::Cluster;
use crate::operations::http;

/// So many values of 10 kB are ten times as much as fits into memory.
const VALUES: usize = 200;

async fn start() -> (Cluster, Keyspace, Client) {
    let limits = Limits { memory_bytes: 200_000, ..Limits::default() };
    let cluster = Cluster::start_with(Durability::Sync, limits);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    let keyspace = cluster.create(&mut client, "accounts", Durability::Sync).await;
    (cluster, keyspace, client)
}

fn pair(number: usize) -> (String, String) {
    (format!("key{number:03}"), format!("{number:05}").repeat(2_000))
}

async fn write_all(client: &mut Client, keyspace: &Keyspace) {
    for (key, value) in (0..VALUES).map(pair) {
        client.put(keyspace, &key, &value).await;
    }
}

async fn read_all(client: &mut Client, keyspace: &Keyspace) {
    for (key, value) in (0..VALUES).map(pair) {
        let found = client.get(keyspace, &key).await;
        assert!(found.as_deref() == Some(value.as_bytes()), "{key} was acknowledged");
    }
}

/// The memory of the replica of the keyspace on a node.
fn memory(cluster: &Cluster, node: usize) -> (MemoryStatus, ValuesInFileStatus) {
    let replicas = cluster.server(node).status().replicas;
    let memory = replicas.into_iter().find_map(|replica| replica.memory).unwrap();
    let file = memory.file.clone().unwrap();
    (memory, file)
}

fn file_of(cluster: &Cluster, node: usize, keyspace: &Keyspace) -> PathBuf {
    let name = format!("attic/shard-{}-r{node}.values", keyspace.shards[0].id.0);
    cluster.configs[node].data_directory.join(name)
}

#[tokio::test]
async fn values_beyond_the_memory_are_in_files_also_after_a_restart() {
    let (mut cluster, keyspace, mut client) = start().await;
    write_all(&mut client, &keyspace).await;
    read_all(&mut client, &keyspace).await;
    for node in 0..3 {
        let (memory, file) = memory(&cluster, node);
        assert_eq!(file.memory_bytes, 200_000);
        assert!(memory.index_bytes + memory.values_bytes <= 225_000, "{memory:?}");
        assert!(file.values as usize >= VALUES - 20 && file.problem.is_none(), "{file:?}");
        assert!(file.file_bytes >= file.bytes && file.bytes >= 10_000 * file.values, "{file:?}");
        // The last values are written together with the next ones.
        let length = std::fs::metadata(file_of(&cluster, node, &keyspace)).unwrap().len();
        assert!((file.file_bytes - 100_000..=file.file_bytes).contains(&length), "{length}: {file:?}");
    }
    let (_, metrics) = http(cluster.server(0).http_address().unwrap(), "/metrics");
    let number = |name: &str| {
        let labels =
            format!("{{keyspace=\"accounts\",shard=\"{}\",replica=\"0\"}} ", keyspace.shards[0].id.0);
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(&labels));
        line.and_then(|number| number.parse::<f64>().ok()).unwrap_or_else(|| panic!("{name}: {metrics}"))
    };
    let (memory_of_first, file) = memory(&cluster, 0);
    assert_eq!(number("quorate_replica_file_values"), file.values as f64);
    assert_eq!(number("quorate_replica_file_bytes"), file.bytes as f64);
    assert_eq!(number("quorate_replica_file_writes_total"), file.writes as f64);
    assert!(number("quorate_replica_file_reads_total") <= file.reads as f64);
    assert_eq!(number("quorate_replica_values_bytes"), memory_of_first.values_bytes as f64);
    assert_eq!(number("quorate_replica_index_bytes"), memory_of_first.index_bytes as f64);
    let reads: u64 = (0..3).map(|node| memory(&cluster, node).1.reads).sum();
    assert!(reads as usize >= VALUES - 20, "{reads}");
    for node in 0..3 {
        cluster.crash(node);
        cluster.restart(node);
        cluster.healthy(2).await;
    }
    client.connected(3).await;
    read_all(&mut client, &keyspace).await;
    assert!(memory(&cluster, 0).1.values as usize >= VALUES - 20);
}

#[tokio::test]
async fn a_value_that_cannot_be_read_costs_a_restart_of_its_replica() {
    let (cluster, keyspace, mut client) = start().await;
    write_all(&mut client, &keyspace).await;
    // Replicas go on to move values for a while.
    let writes = || (0..3).map(|node| memory(&cluster, node).1.writes).collect::<Vec<_>>();
    let mut before = Vec::new();
    while before != writes() {
        before = writes();
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
    let is_emptied = |node| {
        let bytes = std::fs::read(file_of(&cluster, node, &keyspace)).unwrap_or_default();
        bytes.iter().all(|byte| *byte == 0)
    };
    for node in 0..3 {
        let file = std::fs::OpenOptions::new().write(true).open(file_of(&cluster, node, &keyspace)).unwrap();
        let zeros = vec![0; file.metadata().unwrap().len() as usize];
        file.write_all_at(&zeros, 0).unwrap();
        assert!(is_emptied(node));
    }
    read_all(&mut client, &keyspace).await;
    cluster.healthy(2).await;
    assert!((0..3).any(|node| !is_emptied(node)), "a replica was built again from its log");
}

#[tokio::test]
async fn where_keys_alone_take_too_much_values_are_refused_and_deletions_are_not() {
    let limits = Limits { memory_bytes: 60_000, ..Limits::default() };
    let cluster = Cluster::start_with(Durability::Memory, limits);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    let keyspace = cluster.create(&mut client, "accounts", Durability::Memory).await;
    let key = |number: usize| format!("{number:0>100}");
    let mut written = 0;
    let short = std::time::Duration::from_millis(500);
    while tokio::time::timeout(short, client.put(&keyspace, &key(written), "value")).await.is_ok() {
        written += 1;
        assert!(written < 10_000, "there is always room");
    }
    assert!(written > 100, "{written}");
    let problems = cluster.server(0).status().problems;
    assert!(problems.iter().any(|problem| problem.contains("memory_bytes is raised")), "{problems:?}");
    assert!(client.get(&keyspace, &key(7)).await.is_some(), "reading goes on");
    client.write(&keyspace, &key(7), None).await;
    assert_eq!(client.get(&keyspace, &key(7)).await, None, "and so does deleting");
}
