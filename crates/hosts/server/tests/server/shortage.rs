//! Disks without room, and disks that decay while they are used.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use quorate_core::topology::Durability;
use quorate_server::Limits;
use quorate_wire::Packet;

use crate::cluster::Cluster;

/// A file system in memory of a fixed size, which goes away with the test.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Puts what is in a directory onto a disk of so many mebibytes; none where this process may not mount.
    fn under(directory: &Path, mebibytes: u32) -> Option<SmallDisk> {
        let aside = directory.with_extension("aside");
        std::fs::rename(directory, &aside).unwrap();
        std::fs::create_dir(directory).unwrap();
        let mounted =
            run("mount", &["-t", "tmpfs", "-o", &format!("size={mebibytes}m"), "quorate-test"], directory);
        let contents = aside.join(".");
        assert!(run("cp", &["-a", contents.to_str().unwrap()], directory));
        mounted.then(|| SmallDisk(directory.to_owned()))
    }

    fn resize(&self, mebibytes: u32) {
        assert!(run("mount", &["-o", &format!("remount,size={mebibytes}m")], &self.0));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        run("umount", &["--lazy"], &self.0);
    }
}

fn run(program: &str, arguments: &[&str], path: &Path) -> bool {
    let output = Command::new(program).args(arguments).arg(path).output();
    output.is_ok_and(|output| output.status.success())
}

/// Waits until a replica on a node is refused; gives why.
async fn refused(cluster: &Cluster, node: usize, shard: u32) -> String {
    for _ in 0..2_000 {
        let status = cluster.server(node).status();
        let found = status.replicas.into_iter().find(|replica| replica.shard == shard);
        if let Some(problem) = found.filter(|found| found.state == "refused").and_then(|found| found.problem)
        {
            return problem;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it is not refused: {:?}", cluster.server(node).status().replicas);
}

#[tokio::test]
async fn a_replica_without_room_comes_back_by_itself_with_everything_acknowledged() {
    let limits = Limits { free_bytes_low: 0, ..Limits::default() };
    let mut cluster = Cluster::start_with(Durability::Sync, limits);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    let keyspace = cluster.create(&mut client, "accounts", Durability::Sync).await;
    let shard = keyspace.shards[0].id.0;
    cluster.crash(2);
    // Room for the first segments of two logs, and not for another one.
    let Some(disk) = SmallDisk::under(&cluster.configs[2].data_directory, 10) else {
        eprintln!("skipped: this process may not mount");
        return;
    };
    cluster.restart(2);
    cluster.healthy(2).await;
    client.connected(3).await;
    let value = "v".repeat(200_000);
    let mut written = 0;
    // It starts on a full disk as well.
    for restarts in [true, false] {
        while cluster.server(2).status().replicas.iter().all(|replica| replica.state != "refused") {
            assert!(written < 60, "the disk is never full");
            client.put(&keyspace, &format!("key{written:03}"), &value).await;
            written += 1;
        }
        let problem = refused(&cluster, 2, shard).await;
        assert!(
            problem.contains("cannot preallocate") && problem.contains("comes back by itself"),
            "{problem}"
        );
        if restarts {
            cluster.crash(2);
            cluster.restart(2);
        }
    }
    client.put(&keyspace, "meanwhile", &value).await;
    disk.resize(100);
    cluster.healthy(2).await;
    client.connected(3).await;
    cluster.crash(0);
    client.put(&keyspace, "after", "value").await;
    // One by one: together they are more than one answer holds.
    let written = (0..written).map(|number| format!("key{number:03}"));
    for key in written.chain(["meanwhile".to_owned(), "after".to_owned()]) {
        assert!(client.get(&keyspace, &key).await.is_some(), "{key} was acknowledged");
    }
}

#[tokio::test]
async fn writes_wait_while_too_few_disks_have_room_and_reads_do_not() {
    let mut cluster = Cluster::start(Durability::Sync);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    let keyspace = cluster.create(&mut client, "accounts", Durability::Sync).await;
    client.put(&keyspace, "key", "before").await;
    drop(client);
    // No disk is that large.
    for node in [1, 2] {
        cluster.crash(node);
        cluster.configs[node].limits.free_bytes_low = u64::MAX / 8;
    }
    cluster.restart(1);
    // The group can do without one of them.
    let mut client = cluster.client().await;
    client.route(&keyspace);
    client.put(&keyspace, "key", "with two").await;
    cluster.restart(2);
    client.connected(3).await;
    let mut told = 0;
    while told < 2 {
        if let Packet::Space { problem: Some(problem) } = client.packets.recv().await.unwrap() {
            assert!(problem.contains("is nearly full") && problem.contains("make room"), "{problem}");
            told += 1;
        }
    }
    for node in [1, 2] {
        let status = cluster.server(node).status();
        assert!(status.disk.is_low && !status.healthy, "{:?}", status.disk);
        assert!(
            status.problems.iter().any(|problem| problem.contains("free_bytes_low")),
            "{:?}",
            status.problems
        );
    }
    assert_eq!(client.get(&keyspace, "key").await.as_deref(), Some(&b"with two"[..]));
    let waits =
        tokio::time::timeout(Duration::from_millis(500), client.put(&keyspace, "key", "without room"));
    assert!(waits.await.is_err(), "the disks of a majority have no room");
    for node in [1, 2] {
        cluster.crash(node);
        cluster.configs[node].limits.free_bytes_low = 0;
        cluster.restart(node);
    }
    cluster.healthy(2).await;
    client.connected(3).await;
    client.put(&keyspace, "another", "after").await;
}

#[tokio::test]
async fn a_log_that_decays_is_found_while_it_is_used() {
    let limits = Limits { scrub_interval: Duration::from_millis(100), ..Limits::default() };
    let cluster = Cluster::start_with(Durability::Sync, limits);
    cluster.healthy(1).await;
    let mut client = cluster.client().await;
    let keyspace = cluster.create(&mut client, "accounts", Durability::Sync).await;
    for number in 0..10 {
        client.put(&keyspace, &format!("key{number}"), "value").await;
    }
    let shard = keyspace.shards[0].id.0;
    let file = cluster.replica_directory(1, shard).join("log/0000000001.log");
    let file = std::fs::OpenOptions::new().read(true).write(true).open(file).unwrap();
    // In the checksum of the first record.
    let mut byte = [0];
    file.read_exact_at(&mut byte, 1024 + 5).unwrap();
    file.write_all_at(&[byte[0] ^ 1], 1024 + 5).unwrap();
    let problem = refused(&cluster, 1, shard).await;
    for part in ["0000000001.log", "is corrupt at byte 1024", "remove"] {
        assert!(problem.contains(part), "{part}: {problem}");
    }
    client.put(&keyspace, "key", "the others go on").await;
    let disk = cluster.server(0).status().disk;
    assert!(disk.scrubbed_bytes > 0 && disk.scrub_passes > 0 && disk.last_scrub.is_some(), "{disk:?}");
}
