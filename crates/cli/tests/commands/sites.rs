//! Server processes in three sites, which are lost one after the other, or hold the others up.

use std::time::{Duration, Instant};

use quorate_core::topology::shard_position;

use crate::servers::Servers;

#[test]
fn a_site_is_lost_and_everything_goes_on_and_without_two_what_is_there_is_served() {
    let directory = tempfile::tempdir().unwrap();
    let mut sites = Servers::start(directory.path(), &["a", "b", "c"]);
    let created = sites
        .shell("keyspace create before; put alice 1; keyspace create near --replicas 1 --sites c; put bob 2");
    assert_eq!(created.code, 0, "{}", created.err);

    // The one that leads the configuration service, at first.
    sites.kill(0);
    let during = sites.shell("keyspace create during; put carol 3; get carol; use before; get alice");
    assert_eq!(during.code, 0, "{}", during.err);
    assert!(during.out.ends_with("3\nusing before\n1\n"), "{}", during.out);
    let status = sites.run(&["cluster", "status", "--json"]);
    let json = status.json();
    assert_eq!((status.code, json["ok"].as_bool()), (1, Some(false)), "one is missing");
    let configuration = &json["configuration"];
    assert_eq!(configuration["verdict"], "served by a majority", "{json}");
    assert_eq!(configuration["members"].as_array().unwrap().len(), 3, "{json}");
    assert!(configuration["leader"].as_u64().is_some_and(|node| node != 0), "{json}");
    assert!(configuration["revision"].as_u64().is_some_and(|revision| revision >= 3), "{json}");
    let names =
        json["keyspaces"].as_array().unwrap().iter().map(|keyspace| keyspace["name"].as_str().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), ["before", "during", "near"]);
    assert_eq!(json["nodes"][0]["up_seconds"], serde_json::Value::Null);
    assert!(json["nodes"][2]["up_seconds"].as_f64().unwrap() > 0.0, "{json}");
    let text = sites.run(&["cluster", "status"]).out;
    for part in ["configuration service: served by a majority", "near", "epoch"] {
        assert!(text.contains(part), "{part}: {text}");
    }

    sites.kill(1);
    let begin = Instant::now();
    let refused = sites.run(&["keyspace", "create", "after"]);
    assert_eq!(refused.code, 1, "{}", refused.out);
    assert!(refused.err.contains("replica") || refused.err.contains("may or may not"), "{}", refused.err);
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    // Its only replica is here, and where that is everybody knows.
    let near = sites.shell("use near; get bob; put bob 4; get bob");
    assert_eq!((near.code, near.out.as_str()), (0, "using near\n2\nok\n4\n"), "{}", near.err);
    let status = sites.run(&["cluster", "status", "--json"]).json();
    assert_eq!(status["configuration"]["verdict"], "not served", "{status}");
    assert!(status["configuration"]["problem"].as_str().is_some(), "{status}");
}

/// The value of a metric about a site, if it is told.
fn metric(metrics: &str, name: &str, shard: u64, other: u64) -> Option<f64> {
    let head = format!("quorate_{name}{{keyspace=\"posts\",shard=\"{shard}\",other=\"{other}\"}} ");
    metrics.lines().find_map(|line| line.strip_prefix(&head)).map(|value| value.parse().unwrap())
}

#[test]
fn a_site_that_holds_visibility_up_is_named_until_it_is_back() {
    let directory = tempfile::tempdir().unwrap();
    let mut servers = Servers::start(directory.path(), &["a", "b", "c"]);
    let created = servers.shell("keyspace create posts --isolation parallel-snapshot --replicas 1");
    assert_eq!(created.code, 0, "{}", created.err);
    // The first site lets these keys in, at whichever site a client writes them.
    let keys =
        (0..).map(|number| format!("key{number}")).filter(|key| shard_position(key.as_bytes(), 3) == 0);
    let keys: Vec<String> = keys.take(5).collect();
    let put = |servers: &Servers| {
        let puts: Vec<String> = keys.iter().map(|key| format!("put {key} 1")).collect();
        let put = servers.shell(&format!("use posts; {}", puts.join("; ")));
        assert_eq!(put.code, 0, "{}{}", put.out, put.err);
    };
    let status = |servers: &Servers| servers.run(&["cluster", "status", "--json"]).json();
    put(&servers);
    servers.until("everything is visible", |servers| {
        let shards = status(servers)["shards"].clone();
        let lags =
            shards.as_array().unwrap().iter().flat_map(|shard| shard["lags"].as_array().unwrap().clone());
        let lags: Vec<_> = lags.collect();
        lags.len() == 6 && lags.iter().all(|lag| lag["uncommitted"] == 0 && lag["holds_up"] == false)
    });
    let healthy = status(&servers);
    assert!(healthy["ok"] == true && healthy["held_up"].as_array().unwrap().is_empty(), "{healthy}");

    servers.kill(2);
    put(&servers);
    servers.until("the site that is gone is named", |servers| {
        let held_up = status(servers)["held_up"].clone();
        held_up.as_array().unwrap().iter().any(|held_up| {
            held_up["keyspace"] == "posts"
                && held_up["by"].as_str().unwrap().starts_with("c (")
                && held_up["seconds"].as_f64().unwrap() >= 10.0
                && held_up["transactions"].as_u64().unwrap() >= 1
        })
    });
    let text = servers.run(&["cluster", "status"]);
    assert!(text.code == 1 && text.out.contains("holds up posts"), "{}", text.out);
    let shards = status(&servers)["shards"].clone();
    let of_a = shards.as_array().unwrap().iter().find(|shard| shard["keyspace"] == "posts").unwrap();
    let first = of_a["shard"].as_u64().unwrap();
    let other = first + 2;
    let metrics = servers.metrics(0) + &servers.metrics(1);
    // The client's transactions are those of the site that is nearest to it: one of the two.
    let is_held = |shard: &u64| metric(&metrics, "site_holds_up", *shard, other) == Some(1.0);
    let shard = [first, first + 1].into_iter().find(is_held).unwrap_or_else(|| panic!("{metrics}"));
    let neighbour = if shard == first { first + 1 } else { first };
    assert!(metric(&metrics, "site_unreceived_transactions", shard, other) >= Some(1.0), "{metrics}");
    assert!(metric(&metrics, "site_uncommitted_seconds", shard, other) >= Some(10.0), "{metrics}");
    assert_eq!(metric(&metrics, "site_holds_up", shard, neighbour), Some(0.0), "{metrics}");

    servers.start_again(2);
    servers.until("the site has everything", |servers| {
        let status = status(servers);
        status["ok"] == true && status["held_up"].as_array().unwrap().is_empty()
    });
    let metrics = servers.metrics(0) + &servers.metrics(1);
    assert_eq!(metric(&metrics, "site_uncommitted_transactions", shard, other), Some(0.0), "{metrics}");
}
