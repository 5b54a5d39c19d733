//! The console, as a client without a browser sees it.

use std::io::BufRead;
use std::time::{Duration, Instant};

use quorate_gateway::Limits;
use serde_json::{Value, json};

use crate::support::{Cluster, open};
use crate::wire::Client;

/// The next snapshot that a page is told.
fn next_snapshot(client: &mut Client) -> Value {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(client.stream.read_line(&mut line).unwrap() > 0, "the door has closed the connection");
        if let Some(json) = line.strip_prefix("data: ") {
            return serde_json::from_str(json).unwrap();
        }
    }
}

/// Listens, up to the end of the head of the answer.
fn listen(client: &mut Client) -> Vec<String> {
    client.send(b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        client.stream.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            return lines;
        }
        lines.push(line.trim().to_ascii_lowercase());
    }
}

#[test]
fn a_listener_is_told_how_the_cluster_is() {
    let mut cluster = Cluster::start(Limits::default());
    let mut client = Client::connect(cluster.door);
    let created = client.ask(
        "PUT",
        "/v1/keyspaces/shop",
        &[("content-type", "application/json")],
        br#"{"isolation": "strict"}"#,
    );
    assert_eq!(created.status, 201, "{created:?}");
    let mut page = Client::connect(cluster.door);
    let head = listen(&mut page);
    assert!(
        head[0].contains("200") && head.contains(&"content-type: text/event-stream".to_owned()),
        "{head:?}"
    );
    let deadline = Instant::now() + Duration::from_secs(20);
    let snapshot = loop {
        assert_eq!(client.ask("PUT", "/v1/keyspaces/shop/keys/pens", &[], b"3").status, 204);
        let snapshot = next_snapshot(&mut page);
        let shop =
            snapshot["keyspaces"].as_array().unwrap().iter().find(|keyspace| keyspace["name"] == "shop");
        if shop.is_some_and(|shop| shop["commits_per_second"].as_f64().unwrap() > 0.0)
            && snapshot["sites"][0]["round_trips"][1].is_number()
        {
            break snapshot;
        }
        assert!(Instant::now() < deadline, "{snapshot:#}");
    };
    assert_eq!(snapshot["cluster"], "local");
    assert!(snapshot["nodes"].as_array().unwrap().iter().all(|node| node["up"] == true), "{snapshot:#}");

    drop(cluster.nodes.take(2));
    let gone = Instant::now();
    while next_snapshot(&mut page)["nodes"][2]["up"] == true {
        assert!(gone.elapsed() < Duration::from_secs(2), "a node that is gone is still up");
    }
}

#[test]
fn a_door_without_a_cluster_says_so_to_its_pages_and_only_so_many_may_listen() {
    let (_gateway, address) = open(Vec::new(), quorate::Options::default(), Limits::default());
    let mut pages: Vec<Client> = (0..32).map(|_| Client::connect(address)).collect();
    for page in &mut pages {
        assert!(listen(page)[0].contains("200"));
    }
    assert!(next_snapshot(&mut pages[0])["unreachable"].is_string());
    let refused = Client::connect(address).get("/v1/events");
    assert_eq!(refused.problem(), (429, "overloaded".to_owned(), "no".to_owned()));
    drop(pages);
    let deadline = Instant::now() + Duration::from_secs(10);
    while listen(&mut Client::connect(address))[0].contains("429") {
        assert!(Instant::now() < deadline, "places are not given back");
    }
}

#[test]
fn the_page_and_its_files_are_served_with_a_strict_policy() {
    let (_gateway, address) = open(Vec::new(), quorate::Options::default(), Limits::default());
    let mut client = Client::connect(address);
    let page = client.get("/");
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let policy = page.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self'") && !policy.contains("unsafe"),
        "{policy}"
    );
    for (path, content_type) in [
        ("/console/main.js", "text/javascript; charset=utf-8"),
        ("/console/style.css", "text/css; charset=utf-8"),
    ] {
        let file = client.get(path);
        assert_eq!((file.status, file.header("content-type")), (200, Some(content_type)));
        assert_eq!(file.header("x-content-type-options"), Some("nosniff"));
    }
    assert_eq!(client.get("/console").body, page.body);
    assert_eq!(client.ask("HEAD", "/", &[], b"").status, 200);
    assert_eq!(client.get("/console/../Cargo.toml").status, 404);
    assert_eq!(client.ask("POST", "/", &[], b"").status, 404);
    // A page of another host that lets its name stand for this machine gets nothing.
    let mut other = Client::connect(address);
    other.send(b"GET /v1/events HTTP/1.1\r\nhost: evil.example\r\n\r\n");
    assert_eq!(other.receive(false).unwrap().status, 421);
}

#[test]
fn a_batch_is_traced() {
    let cluster = Cluster::start(Limits::default());
    let mut client = Client::connect(cluster.door);
    for (isolation, said) in [("strict", "PREPARE"), ("serializable", "REQUEST")] {
        let body = json!({ "isolation": isolation }).to_string();
        let json_type = [("content-type", "application/json")];
        let created = client.ask("PUT", &format!("/v1/keyspaces/{isolation}"), &json_type, body.as_bytes());
        assert_eq!(created.status, 201, "{created:?}");
        let steps = json!({ "steps": [{ "put": { "key": "a", "value": "1" } }, { "read": { "key": "a" } }] });
        let traced = client.post(&format!("/v1/keyspaces/{isolation}/trace"), &steps);
        assert_eq!(traced.status, 200, "{traced:?}");
        let told = traced.json();
        assert_eq!(told["answers"][1]["value"], "1");
        let events = told["trace"]["events"].as_array().unwrap();
        assert!(events.iter().any(|event| event["name"] == said && event["kind"] == "sent"), "{told:#}");
        assert!(events.iter().any(|event| event["kind"] == "received"), "{told:#}");
        let times: Vec<f64> = events.iter().map(|event| event["at_seconds"].as_f64().unwrap()).collect();
        assert!(times.is_sorted(), "{times:?}");
    }
    let unmet = json!({ "conditions": [{ "expect_absent": { "key": "a" } }], "steps": [{ "delete": { "key": "a" } }] });
    assert_eq!(client.post("/v1/keyspaces/strict/trace", &unmet).problem().1, "condition-unmet");
}
