//! Server processes in three sites, which are lost one after the other.

use std::time::{Duration, Instant};

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
    assert!(begin.elapsed() < Duration::from_secs(25), "{:?}", begin.elapsed());
    // Its only replica is here, and where that is everybody knows.
    let near = sites.shell("use near; get bob; put bob 4; get bob");
    assert_eq!((near.code, near.out.as_str()), (0, "using near\n2\nok\n4\n"), "{}", near.err);
    let status = sites.run(&["cluster", "status", "--json"]).json();
    assert_eq!(status["configuration"]["verdict"], "not served", "{status}");
    assert!(status["configuration"]["problem"].as_str().is_some(), "{status}");
}
