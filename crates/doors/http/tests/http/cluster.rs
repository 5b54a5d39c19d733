//! The door to a real cluster.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::time::Duration;

use quorate_gateway::Limits;
use serde_json::{Value, json};

use crate::support::{Cluster, open};
use crate::wire::{Answer, Client};

/// The worked example of procedures: moves an amount from one account to another, and refuses an overdraft.
const TRANSFER: &[u8] = include_bytes!("../../../../serializable/sandbox/tests/sandbox/transfer.wasm");

const ISOLATIONS: [&str; 4] = ["serializable", "strict", "snapshot", "parallel-snapshot"];

fn patient() -> Limits {
    Limits { deadline: Duration::from_secs(60), ..Limits::default() }
}

fn keys(keyspace: &str) -> String {
    format!("/v1/keyspaces/{keyspace}/keys")
}

fn assert_committed(answer: &Answer, status: u16) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert!(
        answer.header("quorate-token").is_some() && answer.header("quorate-timestamp").is_some(),
        "{answer:?}"
    );
}

#[test]
fn programs_use_keyspaces_of_a_cluster() {
    let cluster = Cluster::start(patient());
    keyspaces_come_and_go(&cluster);
    for isolation in ISOLATIONS {
        values_are_bytes(&cluster, isolation);
        writes_have_conditions(&cluster, isolation);
        pages_follow_each_other(&cluster, isolation);
        batches_are_transactions(&cluster, isolation);
        outcomes_are_told(&cluster, isolation);
        repeats_are_carried_out_once(&cluster, isolation);
        markers_hold_answers_at_every_door(&cluster, isolation);
    }
    changes_are_followed(&cluster);
    values_expire(&cluster);
    procedures_are_called(&cluster);
    counters_and_sets_are_changed(&cluster);
    what_is_wrong_is_said(&cluster);
}

fn keyspaces_come_and_go(cluster: &Cluster) {
    let mut client = Client::connect(cluster.door);
    let json = [("content-type", "application/json")];
    for isolation in ISOLATIONS {
        let body =
            json!({ "isolation": isolation, "shards": if isolation == "parallel-snapshot" { 1 } else { 2 } });
        let address = format!("/v1/keyspaces/{isolation}");
        let created = client.ask("PUT", &address, &json, body.to_string().as_bytes());
        assert_eq!(created.status, 201, "{created:?}");
        assert_eq!(created.json()["isolation"], isolation);
        let again = client.ask("PUT", &address, &json, body.to_string().as_bytes());
        assert_eq!((again.status, again.json()), (200, created.json()), "it is there, and as asked for");
        let other = json!({ "isolation": isolation, "shards": 3 }).to_string();
        let other = client.ask("PUT", &address, &json, other.as_bytes());
        assert_eq!(other.problem(), (409, "exists".to_owned(), "no".to_owned()));
        let detail = other.json()["detail"].to_string();
        assert!(detail.contains("shards") && detail.contains("not 3"), "{detail}");
        assert_eq!(client.get(&address).json(), created.json());
    }
    let listed = client.get("/v1/keyspaces").json();
    let names: Vec<&str> =
        listed["keyspaces"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["parallel-snapshot", "serializable", "snapshot", "strict"]);

    // A door that knows a keyspace finds the next one of its name.
    for round in 0..2 {
        let body = json!({ "isolation": "strict" }).to_string();
        assert_eq!(client.ask("PUT", "/v1/keyspaces/short", &json, body.as_bytes()).status, 201, "{round}");
        let key = keys("short") + "/k";
        assert_eq!(client.get(&key).problem().1, "not-found");
        assert_committed(&client.ask("PUT", &key, &[], b"lived"), 204);
        assert_eq!(client.ask("DELETE", "/v1/keyspaces/short", &[], b"").status, 204);
        let gone = client.get(&key);
        assert_eq!(gone.problem(), (404, "not-found".to_owned(), "no".to_owned()), "{}", gone.json());
        assert_eq!(gone.json()["of"], "keyspace");
    }
    for (name, body, status) in [
        ("7up", json!({ "isolation": "strict" }), 422),
        ("a", json!({ "isolation": "strong" }), 422),
        ("a", json!({ "isolation": "strict", "shards": 0 }), 422),
        ("a", json!({ "isolation": "strict", "sites": ["nowhere"] }), 422),
        ("_system", json!({ "isolation": "strict" }), 403),
        ("a", json!({ "shards": 1 }), 400),
    ] {
        let refused = client.ask("PUT", &format!("/v1/keyspaces/{name}"), &json, body.to_string().as_bytes());
        assert_eq!(refused.problem().0, status, "{body}: {refused:?}");
    }
}

fn values_expire(cluster: &Cluster) {
    let mut client = Client::connect(cluster.door);
    let json = [("content-type", "application/json")];
    for isolation in ["strict", "snapshot"] {
        let name = format!("expiring-{isolation}");
        let body = json!({ "isolation": isolation, "expiring": true }).to_string();
        let created = client.ask("PUT", &format!("/v1/keyspaces/{name}"), &json, body.as_bytes());
        assert_eq!((created.status, &created.json()["expiring"]), (201, &json!(true)), "{created:?}");
        let key = keys(&name) + "/session";
        assert_committed(&client.ask("PUT", &format!("{key}?ttl_ms=3600000"), &[], b"ada"), 204);
        let read = client.get(&key);
        assert_eq!((read.status, read.body.as_slice()), (200, &b"ada"[..]));
        let left: u64 = read.header("quorate-ttl-ms").unwrap().parse().unwrap();
        assert!(left > 3_000_000 && left <= 3_600_000, "{left}");
        let batch = json!({ "steps": [
            { "put": { "key": "session", "value": "bob", "ttl_ms": 50 } }, { "put": { "key": "stays", "value": "1" } },
        ] });
        assert_committed(&client.post(&format!("/v1/keyspaces/{name}/batch"), &batch), 200);
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(client.get(&key).problem().1, "not-found", "{isolation}");
        let stays = client.get(&(keys(&name) + "/stays"));
        assert_eq!((stays.body.as_slice(), stays.header("quorate-ttl-ms")), (&b"1"[..], None));
        for (ttl, status) in [("0", 400), ("-1", 400), ("soon", 400), ("3153600000001", 422)] {
            let refused = client.ask("PUT", &format!("{key}?ttl_ms={ttl}"), &[], b"ada");
            assert_eq!(refused.problem().0, status, "{ttl}: {refused:?}");
        }
    }
    for isolation in ISOLATIONS {
        let refused = client.ask("PUT", &format!("{}/k?ttl_ms=1000", keys(isolation)), &[], b"ada");
        assert_eq!(refused.problem().0, 422, "{isolation}: {refused:?}");
    }
    let body = json!({ "isolation": "serializable", "expiring": true }).to_string();
    assert_eq!(client.ask("PUT", "/v1/keyspaces/a", &json, body.as_bytes()).problem().0, 422);
}

fn values_are_bytes(cluster: &Cluster, keyspace: &str) {
    let mut client = Client::connect(cluster.door);
    let key = keys(keyspace) + "/a%2F%00%FF+";
    let bytes: Vec<u8> = (0..=255).collect();
    assert_committed(&client.ask("PUT", &key, &[("content-type", "application/octet-stream")], &bytes), 204);
    let read = client.get(&key);
    assert_eq!((read.status, read.body.as_slice()), (200, bytes.as_slice()));
    assert_eq!(read.header("content-type"), Some("application/octet-stream"));
    let (timestamp, head) =
        (read.header("quorate-timestamp").unwrap().to_owned(), client.ask("HEAD", &key, &[], b""));
    assert_eq!((head.status, head.header("content-length")), (200, Some("256")));
    assert_eq!(client.ask("GET", &key, &[("accept", "application/json")], b"").problem().0, 406);

    let json = [("content-type", "application/json")];
    assert_eq!(client.ask("PUT", &key, &json, b"{\"a\": }").problem().0, 400);
    assert_committed(&client.ask("PUT", &key, &json, b"{\"a\": [1]}"), 204);
    let read = client.ask("GET", &key, &[("accept", "application/json")], b"");
    assert_eq!((read.header("content-type"), read.json()), (Some("application/json"), json!({ "a": [1] })));
    if keyspace == "strict" {
        let before = client.get(&format!("{key}?at={timestamp}"));
        assert_eq!(before.body, bytes, "{before:?}");
    }
    assert_committed(&client.ask("DELETE", &key, &[], b""), 204);
    let absent = client.get(&key);
    assert_eq!((absent.problem().1.as_str(), &absent.json()["of"]), ("not-found", &json!("key")));
    assert_committed(&client.ask("DELETE", &key, &[], b""), 204);
}

fn writes_have_conditions(cluster: &Cluster, keyspace: &str) {
    let mut client = Client::connect(cluster.door);
    let key = keys(keyspace) + "/conditional";
    for (method, header, status) in [
        ("PUT", ("if-match", "*"), 412),
        ("PUT", ("if-none-match", "*"), 204),
        ("PUT", ("if-none-match", "*"), 412),
        ("PUT", ("if-match", "*"), 204),
        ("PUT", ("if-match", "\"tag\""), 400),
        ("DELETE", ("if-match", "*"), 204),
        ("DELETE", ("if-match", "*"), 412),
    ] {
        let answer = client.ask(method, &key, &[header], b"v".get(..usize::from(method == "PUT")).unwrap());
        assert_eq!(answer.status, status, "{method} {header:?}: {answer:?}");
        if status == 412 {
            assert_eq!(answer.problem(), (412, "condition-unmet".to_owned(), "no".to_owned()));
        }
    }
}

/// Pages that follow each other are one snapshot in `strict` keyspaces; elsewhere each shows what there is.
fn pages_follow_each_other(cluster: &Cluster, keyspace: &str) {
    let is_one_snapshot = keyspace == "strict";
    let (mut client, mut other) = (Client::connect(cluster.door), Client::connect(cluster.door));
    let steps: Vec<Value> = (0..25)
        .map(|number| json!({ "put": { "key": format!("page/{number:02}"), "value": "old" } }))
        .collect();
    let answer = client.post(&format!("/v1/keyspaces/{keyspace}/batch"), &json!({ "steps": steps }));
    assert_committed(&answer, 200);
    let mut next = Some(keys(keyspace) + "?prefix=page%2F&limit=10");
    let (mut found, mut pages) = (Vec::new(), 0);
    while let Some(address) = next {
        let page = client.get(&address);
        assert_eq!(page.status, 200, "{page:?}");
        let page = page.json();
        found.extend(page["entries"].as_array().unwrap().iter().cloned());
        next = page["next"].as_str().map(str::to_owned);
        pages += 1;
        // A write meanwhile is not seen in one snapshot.
        let key = keys(keyspace) + "/page%2F2" + &pages.to_string();
        assert_committed(&other.ask("PUT", &key, &[], b"new"), 204);
    }
    let value = |number: u32| if is_one_snapshot || !matches!(number, 21 | 22) { "old" } else { "new" };
    let expected: Vec<Value> =
        (0..25).map(|number| json!({ "key": format!("page/{number:02}"), "value": value(number) })).collect();
    assert_eq!((found, pages), (expected, 3), "{keyspace}");
    let lines = client.ask(
        "GET",
        &(keys(keyspace) + "?from=page%2F&after=page%2F22&to=page0"),
        &[("accept", "application/x-ndjson")],
        b"",
    );
    assert_eq!(
        String::from_utf8(lines.body).unwrap(),
        "{\"key\":\"page/23\",\"value\":\"new\"}\n{\"key\":\"page/24\",\"value\":\"old\"}\n"
    );
    for query in ["from=b&to=a", "from=a&to=a", "prefix=nothing"] {
        let nothing = client.get(&format!("{}?{query}", keys(keyspace)));
        assert_eq!((nothing.status, &nothing.json()["entries"]), (200, &json!([])), "{query}: {nothing:?}");
    }
    for query in ["limit=0", "limit=10001", "limit=x", "prefix=a&from=b", "at=soon", "form=a"] {
        assert_eq!(client.get(&format!("{}?{query}", keys(keyspace))).problem().0, 400, "{query}");
    }
}

fn batches_are_transactions(cluster: &Cluster, keyspace: &str) {
    let mut client = Client::connect(cluster.door);
    let address = format!("/v1/keyspaces/{keyspace}/batch");
    let order = json!({
        "conditions": [{ "expect_absent": { "key": "order" } }],
        "steps": [
            { "put": { "key": "order", "value": { "base64": "/w==" } } }, { "increment": { "key": "count", "by": 7 } },
            { "append": { "key": "log", "value": "abc" } }, { "read": { "key": "order" } }, { "delete": { "key": "gone" } },
            { "scan": { "prefix": "cou", "limit": 10 } },
        ],
    });
    let done = client.post(&address, &order);
    assert_committed(&done, 200);
    let expected = json!([
        { "done": true }, { "number": 7 }, { "length": 3 }, { "value": { "base64": "/w==" } }, { "done": true },
        { "entries": [{ "key": "count", "value": "7" }], "next": null },
    ]);
    assert_eq!(done.json()["answers"], expected);
    assert_eq!(done.json()["token"], done.header("quorate-token").unwrap());
    let unmet = client.post(&address, &order);
    assert_eq!(unmet.problem(), (412, "condition-unmet".to_owned(), "no".to_owned()));
    assert_eq!(
        (&unmet.json()["condition"], &unmet.json()["found"]),
        (&json!(0), &json!({ "base64": "/w==" }))
    );
    let wrong = client.post(
        &address,
        &json!({ "steps": [{ "read": { "key": "log" } }, { "increment": { "key": "log", "by": 1 } }] }),
    );
    assert_eq!((wrong.problem().0, &wrong.json()["step"]), (422, &json!(1)));
    assert_eq!(client.post(&address, &json!({ "steps": [{ "read": { "key": "" } }] })).problem().0, 422);
    let long = "k".repeat(5_000);
    assert_eq!(
        client.post(&address, &json!({ "steps": [{ "read": { "key": long } }] })).problem().1,
        "too-large"
    );
    assert_eq!(client.post(&address, &json!({ "stops": [] })).problem().1, "bad-request");
}

fn outcomes_are_told(cluster: &Cluster, keyspace: &str) {
    let mut client = Client::connect(cluster.door);
    let written = client.ask("PUT", &(keys(keyspace) + "/told"), &[], b"v");
    let (token, timestamp) =
        (written.header("quorate-token").unwrap(), written.header("quorate-timestamp").unwrap());
    let outcome = client.get(&format!("/v1/outcomes/{token}"));
    let expected = json!({ "token": token, "outcome": "committed", "timestamp": timestamp });
    assert_eq!((outcome.status, outcome.json()), (200, expected), "{keyspace}");
    assert_eq!(client.get("/v1/outcomes/nonsense").problem().0, 400);
    assert_eq!(
        client.get("/v1/outcomes/a.1.0.1.1").problem(),
        (410, "too-old".to_owned(), "unknown".to_owned())
    );
}

fn repeats_are_carried_out_once(cluster: &Cluster, keyspace: &str) {
    let address = format!("/v1/keyspaces/{keyspace}/batch");
    let body = json!({ "steps": [{ "increment": { "key": "sold", "by": 1 } }] }).to_string();
    let name = format!("sale-{keyspace}");
    let headers = [("content-type", "application/json"), ("idempotency-key", name.as_str())];
    // The connection breaks as soon as the request has left.
    let mut broken = Client::connect(cluster.door);
    let head = format!(
        "POST {address} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nidempotency-key: {name}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    broken.send(head.as_bytes());
    drop(broken);
    let mut client = Client::connect(cluster.door);
    let first = loop {
        let answer = client.ask("POST", &address, &headers, body.as_bytes());
        match answer.status {
            409 => assert_eq!(answer.problem().2, "unknown"),
            _ => break answer,
        }
    };
    assert_committed(&first, 200);
    assert_eq!(first.json()["answers"], json!([{ "number": 1 }]));
    let again = client.ask("POST", &address, &headers, body.as_bytes());
    assert_eq!((again.json(), again.header("quorate-repeated")), (first.json(), Some("true")));
    let other = json!({ "steps": [{ "increment": { "key": "sold", "by": 2 } }] }).to_string();
    assert_eq!(client.ask("POST", &address, &headers, other.as_bytes()).problem().1, "refused");
    let long = "k".repeat(300);
    let wrong = [("content-type", "application/json"), ("idempotency-key", long.as_str())];
    assert_eq!(client.ask("POST", &address, &wrong, body.as_bytes()).problem().0, 400);
}

fn markers_hold_answers_at_every_door(cluster: &Cluster, keyspace: &str) {
    let address = format!("/v1/keyspaces/{keyspace}/batch");
    let increment = |by: i64| {
        let steps = json!([{ "increment": { "key": "{pens}/left", "by": by } }]);
        json!({ "conditions": [{ "expect_absent": { "key": "{pens}/closed" } }], "steps": steps }).to_string()
    };
    let headers = [("content-type", "application/json"), ("idempotency-marker", "%7Bpens%7D%2Fsale-1")];
    let first = Client::connect(cluster.door).ask("POST", &address, &headers, increment(7).as_bytes());
    assert_committed(&first, 200);
    assert_eq!(first.json()["answers"], json!([{ "number": 7 }]));
    // Another door remembers nothing in its memory.
    let (_gateway, door) = open(cluster.nodes.addresses(), cluster.nodes.client().unwrap(), patient());
    let mut other = Client::connect(door);
    let again = other.ask("POST", &address, &headers, increment(7).as_bytes());
    assert_eq!((again.status, again.header("quorate-repeated")), (200, Some("true")), "{again:?}");
    assert_eq!(again.json(), json!({ "answers": [{ "number": 7 }] }));
    let refused = other.ask("POST", &address, &headers, increment(8).as_bytes());
    assert_eq!(refused.problem(), (422, "refused".to_owned(), "no".to_owned()));

    let put = |client: &mut Client, key: &str, headers: &[(&str, &str)]| {
        client.ask("PUT", &format!("{}/{key}", keys(keyspace)), headers, b"1")
    };
    let close = [("idempotency-marker", "%7Bpens%7D%2Fclose"), ("if-none-match", "*")];
    assert_committed(&put(&mut other, "%7Bpens%7D%2Fclosed", &close), 204);
    let repeated = put(&mut Client::connect(cluster.door), "%7Bpens%7D%2Fclosed", &close);
    assert_eq!((repeated.status, repeated.header("quorate-repeated")), (204, Some("true")), "{repeated:?}");
    // Nothing is remembered of a request whose condition does not hold.
    let third = [("content-type", "application/json"), ("idempotency-marker", "%7Bpens%7D%2Fsale-2")];
    for _ in 0..2 {
        let unmet = other.ask("POST", &address, &third, increment(1).as_bytes());
        assert_eq!(unmet.problem(), (412, "condition-unmet".to_owned(), "no".to_owned()), "{unmet:?}");
    }
    let left = other.get(&format!("{}/%7Bpens%7D%2Fleft", keys(keyspace)));
    assert_eq!(left.body, b"7");

    // Markers are keys of the client's own.
    let onto_a_value = put(&mut other, "a", &[("idempotency-marker", "%7Bpens%7D%2Fleft")]);
    assert_eq!(onto_a_value.problem().1, "refused", "{onto_a_value:?}");
    for (name, value) in [("idempotency-marker", ""), ("idempotency-marker", "%zz"), ("idempotency-key", "k")]
    {
        let both = [("idempotency-marker", "m"), (name, value)];
        let wrong = if name == "idempotency-key" { &both[..] } else { &both[1..] };
        assert_eq!(put(&mut other, "a", wrong).problem().0, 400, "{name}: {value}");
    }
    let read = other.ask("GET", &format!("{}/a", keys(keyspace)), &[("idempotency-marker", "m")], b"");
    assert_eq!(read.problem().0, 400, "a read has none: {read:?}");
}

fn procedures_are_called(cluster: &Cluster) {
    let mut client = Client::connect(cluster.door);
    procedures_are_deployed(&mut client);
    for (name, amount) in [("ada", 100u64), ("bob", 5)] {
        let address = format!("{}/{name}", keys("serializable"));
        assert_committed(&client.ask("PUT", &address, &[], &amount.to_le_bytes()), 204);
    }
    let address = "/v1/keyspaces/serializable/procedures/transfer/call";
    let transfer = |amount: u8| json!({ "arguments": format!("\u{3}ada\u{3}bob{}\0\0\0\0\0\0\0", char::from(amount)), "keys": ["ada", "bob"] });
    let done = client.post(address, &transfer(30));
    assert_committed(&done, 200);
    assert!(!done.json()["answers"].as_array().unwrap().is_empty());
    let held = client.get(&(keys("serializable") + "/bob"));
    assert_eq!(held.body, 35u64.to_le_bytes());
    let overdraft = client.post(address, &transfer(71));
    assert_eq!(overdraft.problem(), (422, "refused".to_owned(), "no".to_owned()));
    assert!(
        overdraft.json()["reason"].is_string() || overdraft.json()["reason"].is_object(),
        "{overdraft:?}"
    );
    let missing = client.post("/v1/keyspaces/serializable/procedures/none/call", &json!({ "at": ["a"] }));
    assert_eq!(missing.problem().1, "not-found");
    let elsewhere = client.post("/v1/keyspaces/strict/procedures/transfer/call", &transfer(1));
    assert_eq!(elsewhere.problem().0, 422);
}

/// Leaves version 1 of `transfer` behind.
fn procedures_are_deployed(client: &mut Client) {
    let module = [("content-type", "application/wasm")];
    let address = "/v1/keyspaces/serializable/procedures/transfer";
    let deployed = client.ask("PUT", address, &module, TRANSFER);
    let told = deployed.json();
    assert_eq!((deployed.status, &told["version"], &told["stage"]), (200, &json!(1), &json!("deployed")));
    assert_eq!(client.ask("PUT", address, &module, TRANSFER).json(), told, "the same again does no harm");
    let second = client.ask("PUT", &format!("{address}?version=2"), &module, TRANSFER);
    assert_eq!(second.json()["version"], 2, "{second:?}");
    assert_eq!(client.ask("DELETE", &format!("{address}?version=2"), &[], b"").status, 204);
    let listed = client.get("/v1/keyspaces/serializable/procedures").json();
    let stages: Vec<_> = listed["procedures"].as_array().unwrap().iter().map(|one| &one["stage"]).collect();
    assert_eq!(stages, ["deployed", "removed"]);
    for (method, query, body, expected) in [
        ("PUT", "?version=2", TRANSFER, (422, "refused")),
        ("PUT", "?version=3", b"no module", (422, "refused")),
        ("PUT", "?version=0", TRANSFER, (400, "bad-request")),
        ("DELETE", "", b"", (400, "bad-request")),
        ("DELETE", "?version=7", b"", (404, "not-found")),
    ] {
        let headers = if method == "PUT" { &module[..] } else { &[] };
        let (status, kind, committed) =
            client.ask(method, &format!("{address}{query}"), headers, body).problem();
        assert_eq!((status, kind.as_str(), committed.as_str()), (expected.0, expected.1, "no"), "{query}");
    }
    let elsewhere = client.ask("PUT", "/v1/keyspaces/strict/procedures/transfer", &module, TRANSFER);
    assert_eq!(elsewhere.problem().0, 422);
}

/// A consumer is told what was added to counters and sets.
fn additions_are_told(client: &mut Client, begins: &Value, timestamp: &Value) {
    let (mut told, mut next) = (Vec::new(), begins["next"].as_str().unwrap().to_owned());
    while told.is_empty() {
        let page = client.get(&next).json();
        told.extend(page["changes"].as_array().unwrap().iter().cloned());
        next = page["next"].as_str().unwrap().to_owned();
    }
    let expected = json!({
        "timestamp": timestamp, "writes": [{ "key": "name", "value": "tea" }],
        "additions": [
            { "counter": "stock", "by": 7 }, { "set": "tags", "element": "a/b", "by": 1 },
            { "set": "tags", "element": "gone", "by": -1 }, { "set": "tags", "element": { "base64": "/w==" }, "by": 1 },
        ],
    });
    assert_eq!(told, [expected]);
}

fn counters_and_sets_are_changed(cluster: &Cluster) {
    let mut client = Client::connect(cluster.door);
    let address = "/v1/keyspaces/parallel-snapshot";
    let changes = json!({ "changes": [
        { "counter_add": { "key": "stock", "by": 7 } }, { "set_add": { "key": "tags", "element": "a/b" } },
        { "set_add": { "key": "tags", "element": { "base64": "/w==" } } }, { "set_remove": { "key": "tags", "element": "gone" } },
        { "put": { "key": "name", "value": "tea" } },
    ] });
    let begins = client.get(&format!("{address}/changes")).json();
    let changed = client.post(&format!("{address}/changes"), &changes);
    assert_committed(&changed, 200);
    additions_are_told(&mut client, &begins, &changed.json()["timestamp"]);
    assert_eq!(changed.json()["token"], changed.header("quorate-token").unwrap());
    assert_eq!(client.get(&format!("{address}/counters/stock")).json(), json!({ "value": 7 }));
    assert_eq!(client.get(&format!("{address}/sets/tags/elements/a%2Fb")).json(), json!({ "count": 1 }));
    assert_eq!(client.get(&format!("{address}/sets/tags/elements/none")).json(), json!({ "count": 0 }));
    assert_eq!(client.get(&(keys("parallel-snapshot") + "/name")).body, b"tea");
    let (mut found, mut next) = (Vec::new(), Some(format!("{address}/sets/tags?limit=1")));
    while let Some(page) = next {
        let page = client.get(&page).json();
        found.extend(page["elements"].as_array().unwrap().iter().cloned());
        next = page["next"].as_str().map(str::to_owned);
    }
    let expected = json!([
        { "element": "a/b", "count": 1 }, { "element": "gone", "count": -1 }, { "element": { "base64": "/w==" }, "count": 1 },
    ]);
    assert_eq!(json!(found), expected);
    let too_much = json!({ "changes": [{ "counter_add": { "key": "stock", "by": -8 } }, { "put": { "key": "name", "value": "" } }] });
    let refused = client.post(&format!("{address}/changes"), &too_much);
    assert_eq!(refused.problem(), (409, "conflict".to_owned(), "no".to_owned()));
    assert_eq!(client.get(&(keys("parallel-snapshot") + "/name")).body, b"tea", "nothing was changed");
    let elsewhere = client.post("/v1/keyspaces/strict/changes", &changes);
    assert_eq!(elsewhere.problem().0, 422);
    assert_eq!(client.get("/v1/keyspaces/strict/counters/stock").problem().0, 422);
}

fn what_is_wrong_is_said(cluster: &Cluster) {
    let mut client = Client::connect(cluster.door);
    let missing = client.ask("PUT", &(keys("missing") + "/k"), &[], b"v");
    assert_eq!((missing.problem().1.as_str(), &missing.json()["of"]), ("not-found", &json!("keyspace")));
    let empty = client.ask("PUT", &(keys("strict") + "/"), &[], b"v");
    assert_eq!(empty.problem().0, 422, "a key is not empty");
    let key = keys("strict") + "/k";
    assert_eq!(client.ask("PUT", &key, &[("quorate-deadline-ms", "0")], b"v").problem().0, 400);
    assert_committed(&client.ask("PUT", &key, &[("quorate-deadline-ms", "60000")], b"v"), 204);
}

/// Nodes that are gone make a request end by its deadline, and say what is known.
#[test]
fn requests_end_by_their_deadline_when_nodes_are_gone() {
    let mut cluster = Cluster::start(patient());
    let mut client = Client::connect(cluster.door);
    let json = [("content-type", "application/json")];
    let body = json!({ "isolation": "strict" }).to_string();
    assert_eq!(client.ask("PUT", "/v1/keyspaces/strict", &json, body.as_bytes()).status, 201);
    let key = keys("strict") + "/k";
    assert_committed(&client.ask("PUT", &key, &[], b"v"), 204);
    for node in 1..3 {
        cluster.nodes.take(node).unwrap().shutdown().unwrap();
    }
    let began = std::time::Instant::now();
    let (status, _, committed) = client.ask("PUT", &key, &[("quorate-deadline-ms", "1500")], b"w").problem();
    assert!(
        matches!((status, committed.as_str()), (503, "no") | (504, "unknown") | (409, "no")),
        "{status} {committed}"
    );
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    drop(cluster);
    let (_gateway, nowhere) = open(vec!["127.0.0.1:1".to_owned()], quorate::Options::default(), patient());
    let mut client = Client::connect(nowhere);
    assert_eq!(client.get("/v1/keyspaces").problem(), (503, "unavailable".to_owned(), "no".to_owned()));
}

/// The next event of a stream, as its fields; those before the first one are the head of the answer.
fn next_event(client: &mut Client) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    loop {
        let mut line = String::new();
        assert!(
            client.stream.read_line(&mut line).unwrap() > 0,
            "the door has closed the connection: {fields:?}"
        );
        match line.trim_end().split_once(": ") {
            Some((name, value)) => _ = fields.insert(name.to_owned(), value.to_owned()),
            // An answer in chunks has their lengths on lines between.
            None if line.trim_end().is_empty() && fields.contains_key("event") => return fields,
            None => {}
        }
    }
}

/// The same changes as events. A client that was cut off goes on behind the last one that it has.
fn changes_are_events(cluster: &Cluster, begins: &Value) {
    let begins = begins.as_str().unwrap();
    let listen = |query: &str, last: Option<&str>| {
        let mut client = Client::connect(cluster.door);
        let last = last.map(|last| format!("last-event-id: {last}\r\n")).unwrap_or_default();
        let head = "accept: text/event-stream\r\nhost: localhost\r\n";
        let address = format!("/v1/keyspaces/strict/changes?prefix=fed%2F{query}");
        client.send(format!("GET {address} HTTP/1.1\r\n{head}{last}\r\n").as_bytes());
        client
    };
    let mut client = listen(&format!("&from={begins}"), None);
    let first = next_event(&mut client);
    assert_eq!(first.get("content-type").map(String::as_str), Some("text/event-stream"));
    assert_eq!((first["event"].as_str(), first["id"].as_str()), ("changes", begins), "{first:?}");
    let (mut told, mut last) = (Vec::new(), String::new());
    while told.is_empty() {
        let event = next_event(&mut client);
        let page: Value = serde_json::from_str(&event["data"]).unwrap();
        assert_eq!(page["cursor"].as_str(), Some(event["id"].as_str()));
        let changes = page["changes"].as_array().unwrap().iter();
        told.extend(changes.flat_map(|change| change["writes"].as_array().unwrap().iter().cloned()));
        last = event["id"].clone();
    }
    assert_eq!(told[0], json!({ "key": "fed/a", "value": "1" }));
    drop(client);
    // The cursor that the browser has kept counts, and not the address that it was given at first.
    assert_committed(
        &Client::connect(cluster.door).ask(
            "PUT",
            &format!("{}/fed%2Fb", keys("strict")),
            &[("content-type", "text/plain")],
            b"2",
        ),
        204,
    );
    let mut client = listen(&format!("&from={begins}"), Some(&last));
    assert_eq!(next_event(&mut client)["id"], last);
    let mut more = Vec::new();
    while more.last() != Some(&json!({ "key": "fed/b", "value": "2" })) {
        let page: Value = serde_json::from_str(&next_event(&mut client)["data"]).unwrap();
        let changes = page["changes"].as_array().unwrap().iter();
        more.extend(changes.flat_map(|change| change["writes"].as_array().unwrap().iter().cloned()));
    }
    assert!(!more.contains(&told[0]), "{more:?} after {told:?}");
    let wrong = listen("", Some("yesterday")).receive(false).unwrap();
    assert_eq!(wrong.status, 400, "{wrong:?}");
}

fn changes_are_followed(cluster: &Cluster) {
    let mut client = Client::connect(cluster.door);
    let address = "/v1/keyspaces/strict/changes";
    let begins = client.ask("GET", &format!("{address}?prefix=fed%2F"), &[], b"").json();
    assert_eq!(begins["changes"], json!([]));
    assert_committed(
        &client.ask("PUT", &format!("{}/fed%2Fa", keys("strict")), &[("content-type", "text/plain")], b"1"),
        204,
    );
    assert_committed(
        &client.ask("PUT", &format!("{}/other", keys("strict")), &[("content-type", "text/plain")], b"2"),
        204,
    );
    assert_committed(&client.ask("DELETE", &format!("{}/fed%2Fa", keys("strict")), &[], b""), 204);
    let (mut next, mut told) = (begins["next"].as_str().unwrap().to_owned(), Vec::new());
    while told.len() < 2 {
        let page = client.ask("GET", &next, &[], b"");
        assert_eq!(page.status, 200, "{page:?}");
        let page = page.json();
        for change in page["changes"].as_array().unwrap() {
            told.extend(change["writes"].as_array().unwrap().iter().cloned());
        }
        assert!(page["resolved"].is_string() && page["cursor"].is_string(), "{page}");
        next = page["next"].as_str().unwrap().to_owned();
    }
    assert_eq!(told, [json!({ "key": "fed/a", "value": "1" }), json!({ "key": "fed/a", "value": null })]);
    // Nothing more comes, and the request waits for it until its deadline is near.
    let idle = client.ask("GET", &next, &[("quorate-deadline-ms", "1500")], b"");
    assert_eq!((idle.status, &idle.json()["changes"]), (200, &json!([])), "{idle:?}");

    changes_are_events(cluster, &begins["cursor"]);
    let refused = |address: &str, expected: u16| {
        let answer = Client::connect(cluster.door).ask("GET", address, &[], b"");
        assert_eq!(answer.status, expected, "{answer:?}");
    };
    refused(&format!("{address}?from=nonsense"), 400);
    refused(&format!("{address}?key=a&prefix=b"), 400);
    let cursor = next.split("from=").nth(1).unwrap();
    refused(&format!("{address}?from=9.{}", &cursor[2..]), 400);
    refused(&format!("{address}?from=1.999999.{}", cursor.splitn(3, '.').nth(2).unwrap()), 422);
}
