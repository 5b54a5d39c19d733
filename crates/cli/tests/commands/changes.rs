//! `quorate changes` against server processes, restarts of all of them included.

use serde_json::{Value, json};

use crate::servers::Servers;

fn shell(servers: &Servers, statements: &str) {
    let run = servers.shell(statements);
    assert_eq!(run.code, 0, "{statements}: {}", run.err);
}

/// The writes that are told from a cursor on, and the cursor behind them.
fn follow(servers: &Servers, more: &[&str]) -> (Vec<Value>, String) {
    let run = servers.run(&[&["changes", "accounts", "--once", "--json"], more].concat());
    assert_eq!(run.code, 0, "{}", run.err);
    let lines = run.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let (changes, resolved): (Vec<Value>, Vec<Value>) = lines.partition(|line| line["resolved"].is_null());
    let writes = changes.iter().flat_map(|change| change["writes"].as_array().unwrap().clone());
    let cursor = resolved.last().unwrap()["cursor"].as_str().unwrap().to_owned();
    (writes.collect(), cursor)
}

#[test]
fn changes_are_told_from_cursors_across_restarts() {
    let directory = tempfile::tempdir().unwrap();
    let mut servers = Servers::start(directory.path(), &["a", "b", "c"]);
    shell(
        &servers,
        "keyspace create accounts --shards 1; keyspace create others; keyspace create counted --isolation parallel-snapshot",
    );
    let (_, begins) = follow(&servers, &[]);
    shell(&servers, "use accounts; put ada 1; put bob 2; delete ada");
    let all = [
        json!({"key": "ada", "value": "1"}),
        json!({"key": "bob", "value": "2"}),
        json!({"key": "ada", "deleted": true}),
    ];
    let (told, cursor) = follow(&servers, &["--from", &begins]);
    assert_eq!(told, all);
    (0..3).for_each(|node| servers.kill(node));
    (0..3).for_each(|node| servers.start_again(node));
    servers.until("all have started again", |servers| servers.shell("use accounts; get bob").code == 0);
    shell(&servers, "use accounts; put carol 3");
    let (told, _) = follow(&servers, &["--from", &cursor]);
    assert_eq!(told, [json!({"key": "carol", "value": "3"})]);
    let (told, _) = follow(&servers, &["--from", &begins]);
    assert_eq!(told[..3], all, "what is retained survives restarts");

    let text = servers.run(&["changes", "accounts", "--once", "--from", &begins]);
    let lines: Vec<&str> = text.out.lines().collect();
    assert!(text.code == 0 && lines.len() == 4, "{}", text.out);
    assert!(lines[0].ends_with("put ada 1") && lines[2].ends_with("delete ada"), "{}", text.out);
    assert!(text.err.contains("go on with --from 1."), "{}", text.err);

    let foreign = servers.run(&["changes", "others", "--once", "--from", &begins]);
    assert!(foreign.code != 0 && foreign.err.contains("belongs to the keyspace numbered"), "{}", foreign.err);
    let malformed = servers.run(&["changes", "accounts", "--once", "--from", "1.7"]);
    assert!(malformed.code == 2 && malformed.err.contains("is no cursor"), "{}", malformed.err);
    let counted = servers.run(&["changes", "counted", "--once"]);
    assert!(counted.code == 0 && counted.err.contains("go on with --from 2."), "{}", counted.err);
}
