//! Replicas that are compared by the command of an operator: all alike, and one whose log says something else than was written.

use std::path::Path;

use quorate_core::{ReplicaId, ReplicaIndex, ShardId};
use quorate_storage::{Log, LogIdentity, LogOptions};
use serde_json::{Value, json};

use crate::servers::Servers;

/// Writes the log of a replica anew, with `forged` wherever `honest` stood: a disk that returns something else than was written, and
/// whose checksums say that all is well.
fn forge(directory: &Path, identity: LogIdentity, honest: &[u8], forged: &[u8]) {
    let (log, records) = Log::open(directory, identity, LogOptions::default()).unwrap();
    let records: Vec<Vec<u8>> = records.map(|record| record.unwrap().to_vec()).collect();
    log.close().unwrap();
    std::fs::remove_dir_all(directory).unwrap();
    let mut log = Log::create(directory, identity, LogOptions::default()).unwrap();
    let mut found = 0;
    for mut record in records {
        let stands_at = |at: &usize| record[*at..].starts_with(honest);
        let at: Vec<usize> = (0..record.len()).filter(stands_at).collect();
        for at in at {
            record[at..at + honest.len()].copy_from_slice(forged);
            found += 1;
        }
        log.append(&record);
    }
    log.close().unwrap();
    assert!(found > 0, "nothing was forged");
}

fn verified(servers: &Servers, code: i32) -> Value {
    let verified = servers.run(&["cluster", "verify", "--json"]);
    assert_eq!(verified.code, code, "{}{}", verified.out, verified.err);
    let json = verified.json();
    assert_eq!(json["ok"], code == 0, "{json}");
    json
}

/// The first shard of a keyspace.
fn shard<'a>(verified: &'a Value, name: &str) -> &'a Value {
    let keyspaces = verified["keyspaces"].as_array().unwrap();
    let keyspace = keyspaces.iter().find(|keyspace| keyspace["keyspace"] == name);
    &keyspace.unwrap_or_else(|| panic!("{verified}"))["shards"][0]
}

#[test]
fn a_replica_whose_log_was_forged_is_named_and_learns_everything_anew() {
    let directory = tempfile::tempdir().unwrap();
    let mut servers = Servers::start(directory.path(), &["a", "b", "c"]);
    let created = servers.shell(
        "keyspace create orders --isolation serializable; put alice honest; put bob 2; put carol 3; delete carol",
    );
    assert_eq!(created.code, 0, "{}", created.err);
    let created = servers.shell("keyspace create accounts; put alice 1");
    assert_eq!(created.code, 0, "{}", created.err);
    servers.until("every replica is there", |servers| servers.run(&["cluster", "verify"]).code == 0);

    let all = verified(&servers, 0);
    let orders = shard(&all, "orders");
    assert_eq!((orders["keys"].as_u64(), &orders["differs"]), (Some(2), &json!([])), "{orders}");
    let checksums: Vec<&str> =
        orders["replicas"].as_array().unwrap().iter().map(|it| it["checksum"].as_str().unwrap()).collect();
    assert!(
        checksums.len() == 3 && checksums.iter().all(|it| *it == checksums[0] && it.len() == 32),
        "{orders}"
    );
    assert_eq!(shard(&all, "_system")["replicas"].as_array().unwrap().len(), 3, "{all}");
    assert!(shard(&all, "accounts")["compared_at"].is_string(), "{all}");

    servers.kill(2);
    let down = verified(&servers, 1);
    let state = shard(&down, "orders")["replicas"][2]["state"].as_str().unwrap().to_owned();
    assert!(state.starts_with("not compared: ") && state.contains("node2"), "{state}");
    let replica = ReplicaId { shard: ShardId(orders["id"].as_u64().unwrap() as u32), index: ReplicaIndex(2) };
    let log = directory.path().join(format!("node-2/replicas/shard-{}-r2/log", replica.shard.0));
    forge(&log, LogIdentity { cluster: servers.cluster(), replica }, b"honest", b"forged");
    servers.start_again(2);
    servers.until("the forged replica serves", |servers| servers.run(&["cluster", "status"]).code == 0);

    let differs = verified(&servers, 1);
    let orders = shard(&differs, "orders");
    let difference = &orders["differs"][0];
    assert_eq!(
        (&difference["nodes"], &difference["keys"][0]["key"]),
        (&json!([2]), &json!("alice")),
        "{orders}"
    );
    let states: Vec<&Value> = orders["replicas"].as_array().unwrap().iter().map(|it| &it["state"]).collect();
    assert_eq!(states, ["compared", "compared", "differs"]);
    let remedy = difference["remedy"].as_str().unwrap();
    let log_of = format!("replicas/shard-{}-r2/log", replica.shard.0);
    assert!(remedy.contains("stop node 2") && remedy.contains(&log_of), "{remedy}");
    let said = servers.run(&["cluster", "verify", "orders"]);
    let line = "differs: the replica on node 2 holds other data than the majority; for example key \"alice\"";
    assert!(said.code == 1 && said.out.contains(line), "{}{}", said.out, said.err);
    let unknown = servers.run(&["cluster", "verify", "nothing"]);
    assert!(
        unknown.code == 2 && unknown.err.contains("there are: accounts, orders, _system"),
        "{}",
        unknown.err
    );

    // The remedy.
    servers.kill(2);
    std::fs::rename(&log, directory.path().join("evidence")).unwrap();
    servers.start_again(2);
    servers.until("all are alike again", |servers| servers.run(&["cluster", "verify"]).code == 0);
    assert_eq!(servers.shell("use orders; get alice").out, "using orders\nhonest\n");
}
