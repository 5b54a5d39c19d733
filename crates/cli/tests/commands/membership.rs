//! Replicas and nodes that come and go, by the commands of an operator.

use serde_json::{Value, json};

use crate::servers::Servers;

/// The nodes of each shard of a keyspace, ascending by replica.
fn nodes(servers: &Servers, keyspace: &str) -> Vec<Vec<usize>> {
    let shown = servers.run(&["keyspace", "show", keyspace, "--json"]).json();
    let nodes = |shard: &Value| {
        let addresses = shard["replicas"].as_array().unwrap();
        addresses.iter().map(|address| servers.node_at(address.as_str().unwrap())).collect()
    };
    shown["shards"].as_array().unwrap().iter().map(nodes).collect()
}

/// The output of a command that changes replicas, for its keyspaces.
fn changed(servers: &Servers, words: &[&str]) -> Vec<Value> {
    let run = servers.run(&[words, &["--json"]].concat());
    assert_eq!(run.code, 0, "{words:?}: {}{}", run.out, run.err);
    let json = run.json();
    assert_eq!(json["ok"], true, "{json}");
    let changed = json["changed"].as_array().unwrap().clone();
    for changed in &changed {
        assert_eq!(changed["waits_for"], json!([]), "{changed}");
    }
    changed
}

fn is_refused(servers: &Servers, words: &[&str], code: i32, reason: &str) {
    for flags in [&[][..], &["--json"]] {
        let refused = servers.run(&[words, flags].concat());
        assert_eq!((refused.code, refused.out.as_str()), (code, ""), "{words:?}: {}", refused.err);
        let last = refused.err.lines().last().unwrap_or_default();
        assert!(last.starts_with("error: ") && last.contains(reason), "{words:?}: {}", refused.err);
    }
}

#[test]
fn what_an_operator_cannot_have_is_refused_with_the_reason_and_nothing_changes() {
    let directory = tempfile::tempdir().unwrap();
    let mut servers = Servers::start(directory.path(), &["a", "b", "c", "d"]);
    let created = servers.shell("keyspace create accounts --replicas 3 --sites a,b,c; put alice 1");
    assert_eq!(created.code, 0, "{}", created.err);
    let table = [
        ("cluster move accounts --from 0 --to 1", "node1 has a replica of shard"),
        ("cluster move accounts --from 3 --to 0", "node3 has no replica of it"),
        ("cluster move accounts --from 0 --to 9", "node9 is no node of this cluster"),
        ("cluster move accounts --from 9 --to 3", "node9 is no node of this cluster"),
        ("cluster move accounts --from 0 --to 3 --shard 77", "node0 has no replica of it"),
        ("cluster move nothing --from 0 --to 3", "there are: accounts, _system"),
        ("cluster drain", "name nodes, or a site"),
        ("cluster drain 9", "node9 is no node of this cluster"),
        ("cluster drain --site mars", "there are: a, b, c, d"),
        ("cluster drain 0 1", "no node is left for shard"),
        ("cluster forget 0", "node0 has replicas of \"accounts\""),
        ("cluster forget 9", "node9 is no node of this cluster"),
        ("keyspace resize accounts 2", "odd"),
        ("keyspace resize accounts 0", "odd"),
        ("keyspace resize accounts 5", "no node is left for shard"),
        ("keyspace resize accounts 1", "--confirm"),
        ("keyspace resize accounts 1 --confirm --sites mars", "no site \"mars\""),
        ("keyspace resize nothing 3", "there are: accounts, _system"),
    ];
    for (command, reason) in table {
        is_refused(&servers, &command.split(' ').collect::<Vec<_>>(), 2, reason);
    }
    // It may be up at any time, so that this is tried until patience is at its end.
    servers.kill(3);
    let hasty = ["cluster", "move", "accounts", "--from", "0", "--to", "3", "--patience", "1"];
    is_refused(&servers, &hasty, 1, "and nothing was: node3 does not answer, where a replica of shard");
    let shown = servers.run(&["keyspace", "show", "accounts", "--json"]).json();
    assert_eq!(
        (shown["epoch"].as_u64(), nodes(&servers, "accounts")),
        (Some(0), vec![vec![0, 1, 2]]),
        "{shown}"
    );
    assert_eq!(servers.shell("use accounts; get alice").out, "using accounts\n1\n");
}

#[test]
fn replicas_are_moved_and_resized_and_nodes_drained_and_forgotten_by_command() {
    let directory = tempfile::tempdir().unwrap();
    let mut servers = Servers::start(directory.path(), &["a", "b", "c", "d", "e"]);
    let created =
        servers.shell("keyspace create accounts --shards 2 --replicas 3 --sites a,b,c; put alice 1");
    assert_eq!(created.code, 0, "{}", created.err);

    let moved = servers.run(&["cluster", "move", "accounts", "--from", "0", "--to", "3"]);
    assert_eq!((moved.code, moved.out.as_str()), (0, "accounts: done, epoch 1\n"), "{}", moved.err);
    assert_eq!(nodes(&servers, "accounts"), [[1, 2, 3], [1, 2, 3]].map(|nodes| nodes.to_vec()));
    // The same again waits for what is left of it.
    let again = servers.run(&["cluster", "move", "accounts", "--from", "0", "--to", "3"]);
    let nothing = "accounts: nothing to change, all is done in epoch 1\n";
    assert_eq!((again.code, again.out.as_str()), (0, nothing), "{}", again.err);

    let resized = &changed(&servers, &["keyspace", "resize", "accounts", "5"])[0];
    assert_eq!(
        (&resized["keyspace"], &resized["epoch"], &resized["is_new"]),
        (&json!("accounts"), &json!(2), &json!(true))
    );
    assert_eq!(resized["shards"][1]["replicas"].as_array().unwrap().len(), 5, "{resized}");
    assert_eq!(resized["absent"], json!([]));
    let resized = &changed(&servers, &["keyspace", "resize", "accounts", "5"])[0];
    assert_eq!((&resized["epoch"], &resized["is_new"]), (&json!(2), &json!(false)));
    changed(&servers, &["keyspace", "resize", "accounts", "3"]);
    let refused = servers.run(&["keyspace", "resize", "accounts", "1"]);
    assert!(refused.code == 2 && refused.err.contains("--confirm"), "{}", refused.err);

    // One that is down is drained as well, of the configuration service too: what is there is deleted when it is back.
    changed(&servers, &["cluster", "move", "_system", "--from", "0", "--to", "4"]);
    servers.kill(1);
    let drained = changed(&servers, &["cluster", "drain", "1"]);
    let names: Vec<_> = drained.iter().map(|changed| changed["keyspace"].as_str().unwrap()).collect();
    assert_eq!(names, ["accounts", "_system"]);
    assert!(drained.iter().any(|changed| changed["absent"] != json!([])), "{drained:?}");
    assert!(nodes(&servers, "accounts").iter().all(|nodes| nodes.len() == 3 && !nodes.contains(&1)));
    let again = servers.run(&["cluster", "drain", "1"]);
    assert!(
        again.code == 0 && again.out.contains("nodes do not answer that have, or had, "),
        "{}",
        again.out
    );
    assert_eq!(servers.shell("use accounts; get alice").out, "using accounts\n1\n");
    servers.start_again(1);
    servers.until("nobody needs what it had", |servers| servers.run(&["cluster", "status"]).code == 0);

    let forgotten = servers.run(&["cluster", "forget", "1", "--json"]);
    assert_eq!(
        (forgotten.code, forgotten.json()),
        (0, json!({ "ok": true, "forgotten": 1 })),
        "{}",
        forgotten.err
    );
    is_refused(&servers, &["cluster", "forget", "1"], 2, "node1 is no node of this cluster");
    is_refused(
        &servers,
        &["cluster", "move", "accounts", "--from", "3", "--to", "1"],
        2,
        "node1 is no node of this cluster",
    );
    let status = servers.run(&["cluster", "status", "--json"]).json();
    let left: Vec<_> =
        status["nodes"].as_array().unwrap().iter().map(|node| node["node"].as_u64().unwrap()).collect();
    assert_eq!(left, [0, 2, 3, 4], "{status}");

    // A site as a whole, and what has nothing is not drained again.
    let drained = servers.run(&["cluster", "drain", "--site", "e"]);
    assert_eq!(drained.code, 0, "{}", drained.err);
    for keyspace in ["accounts", "_system"] {
        assert!(drained.out.contains(&format!("{keyspace}: ")), "{}", drained.out);
        assert!(nodes(&servers, keyspace).iter().all(|nodes| !nodes.contains(&4)), "{keyspace}");
    }
    let text = servers.run(&["cluster", "forget", "4"]);
    assert_eq!(
        (text.code, text.out.as_str()),
        (0, "node 4 is forgotten: stop it, and remove its data directory\n")
    );
    assert_eq!(
        servers.shell("use accounts; get alice; put alice 2; get alice").out,
        "using accounts\n1\nok\n2\n"
    );
}
