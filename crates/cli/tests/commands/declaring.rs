//! A shard of a serializable keyspace that is lost for good, by the commands of an operator.

use serde_json::{Value, json};

use crate::Run;
use crate::servers::Servers;

/// A keyspace of two shards, the second of which is moved to a node of its own; gives them in order, with a key of each.
fn orders(servers: &Servers) -> [(u32, String); 2] {
    let created =
        servers.shell("keyspace create orders --isolation serializable --shards 2 --replicas 1 --sites d");
    assert_eq!(created.code, 0, "{}", created.err);
    let shown = servers.run(&["keyspace", "show", "orders", "--json"]).json();
    let id = |shard: usize| shown["shards"][shard]["id"].as_u64().unwrap() as u32;
    let moved = id(1).to_string();
    let moved = servers.run(&["cluster", "move", "orders", "--from", "3", "--to", "4", "--shard", &moved]);
    assert_eq!(moved.code, 0, "{}{}", moved.out, moved.err);
    [id(0), id(1)].map(|shard| (shard, key_of(servers, shard)))
}

/// A key of a shard, as the token of a transaction that writes it says.
fn key_of(servers: &Servers, shard: u32) -> String {
    let is_there = |key: &String| {
        let put = servers.shell(&format!("use orders; put {key} 1; token"));
        put.code == 0 && put.out.trim_end().ends_with(&format!(".{shard}"))
    };
    (0..40).map(|number| format!("key{number}")).find(is_there).expect("each shard has keys")
}

/// The status of the replica of a shard, in its own words.
fn replica(status: &Value, shard: u32) -> &Value {
    let shards = status["shards"].as_array().unwrap();
    let shard = shards.iter().find(|known| known["shard"] == shard);
    &shard.unwrap_or_else(|| panic!("{status}"))["replicas"][0]
}

fn says(run: &Run, code: i32, reason: &str) {
    assert!(run.code == code && run.err.contains(reason), "{}: {}{}", run.code, run.out, run.err);
}

#[test]
fn what_waits_for_a_shard_that_is_declared_lost_ends_and_the_others_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let mut servers = Servers::start(directory.path(), &["a", "b", "c", "d", "e"]);
    let [(left, here), (lost, there)] = orders(&servers);
    let number = lost.to_string();
    let declare = |servers: &Servers, flags: &[&str]| {
        servers.run(&[&["cluster", "declare-lost", "orders", &number], flags].concat())
    };
    says(&declare(&servers, &["--confirm"]), 1, "replicas of it are up, on nodes 4");
    let unknown = servers.run(&["cluster", "declare-lost", "orders", "77", "--confirm"]);
    says(&unknown, 2, "has no shard 77");

    servers.kill(4);
    std::fs::remove_dir_all(directory.path().join("node-4")).unwrap();
    // It has the vote of one of its participants, and waits for the other's.
    let both = servers.shell(&format!("use orders; begin; put {here} 2; put {there} 2; commit"));
    says(&both, 1, "");
    says(&declare(&servers, &[]), 2, "nothing was done");
    let declared = declare(&servers, &["--confirm", "--json"]);
    assert_eq!(declared.code, 0, "{}", declared.err);
    assert!(declared.err.contains("ALL DATA OF THIS SHARD IS LOST"), "{}", declared.err);
    let told =
        json!({ "ok": true, "keyspace": "orders", "lost": lost, "known_by": [left], "not_known_by": [] });
    assert_eq!(declared.json(), told);
    assert_eq!(declare(&servers, &["--confirm"]).code, 0, "it can be said again");

    let one = servers.shell(&format!("use orders; put {here} 3; get {here}"));
    assert!(one.code == 0 && one.out.ends_with("\n3\n"), "{}{}", one.out, one.err);
    let both = servers.shell(&format!("use orders; begin; put {here} 4; put {there} 4; commit"));
    says(&both, 1, "of keyspace \"orders\" is lost for good");
    assert_eq!(servers.shell(&format!("use orders; get {here}")).out, "using orders\n3\n");
    let status = servers.run(&["cluster", "status", "--json"]);
    assert_eq!(status.json()["declared_lost"], json!([{ "keyspace": "orders", "shard": lost }]));
    assert_eq!(replica(&status.json(), left)["lost_shards"], json!([lost]));
    let status = servers.run(&["cluster", "status"]);
    let line = format!("shard {lost} of orders was declared lost");
    assert!(status.code == 1 && status.out.contains(&line), "{}", status.out);

    // It is remembered.
    servers.kill(3);
    servers.start_again(3);
    servers.until("the other shard serves again, and knows", |servers| {
        let status = servers.run(&["cluster", "status", "--json"]).json();
        status["declared_lost"] == json!([{ "keyspace": "orders", "shard": lost }])
    });
}
