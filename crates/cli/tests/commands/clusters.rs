//! Whole clusters: demo, dev with a shell, bench with server processes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use ::quorate::{Isolation, Rival, System};
use quorate_cluster::free_addresses;

use crate::usage::without_reader;
use crate::{quorate, run, run_with_input};

/// A `quorate dev` that is stopped at the end.
struct Dev {
    child: Child,
    address: String,
}

impl Dev {
    fn start(directory: &std::path::Path) -> Dev {
        Dev::start_with(directory, &[])
    }

    fn start_with(directory: &std::path::Path, more: &[&str]) -> Dev {
        let address = free_addresses(3).unwrap().swap_remove(0);
        let child = quorate()
            .args(["dev", "--listen", &address, "--dir"])
            .arg(directory)
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while run(&["keyspace", "list", "--connect", &address]).code != 0 {
            assert!(Instant::now() < deadline, "the cluster does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        Dev { child, address }
    }

    fn shell(&self, statements: &str) -> crate::Run {
        run(&["shell", "--connect", &self.address, "-e", statements])
    }

    /// Asks it to stop, and gives its exit code.
    fn stop(mut self) -> Option<i32> {
        let id = self.child.id().to_string();
        assert!(std::process::Command::new("kill").arg(&id).status().unwrap().success());
        let deadline = Instant::now() + Duration::from_secs(60);
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends lines to a door for Redis, and gives the lines of its replies.
fn redis(address: &str, lines: &str, replies: usize) -> Vec<String> {
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut stream = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(error) => assert!(Instant::now() < deadline, "the door does not open: {error}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(lines.as_bytes()).unwrap();
    BufReader::new(stream).lines().take(replies).map(|line| line.unwrap()).collect()
}

#[test]
fn redis_clients_find_their_keys_again_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let door = free_addresses(1).unwrap().swap_remove(0);
    let dev = Dev::start_with(directory.path(), &["--redis", &door]);
    assert_eq!(redis(&door, "SET k v\r\nINCR n\r\nGET k\r\n", 4), ["+OK", ":1", "$1", "v"]);
    assert_eq!(dev.stop(), Some(0));
    let dev = Dev::start_with(directory.path(), &["--redis", &door]);
    assert_eq!(redis(&door, "GET k\r\nINCR n\r\n", 3), ["$1", "v", ":2"]);
    assert_eq!(dev.stop(), Some(0));
}

/// Starts a development cluster, and reads what it says until it is up.
fn start_and_read(directory: &std::path::Path, address: &str, more: &[&str]) -> (Dev, String) {
    let mut child = quorate()
        .args(["dev", "--listen", address, "--dir"])
        .arg(directory)
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let dev = Dev { child, address: address.to_owned() };
    let mut said = String::new();
    while !said.contains("Ctrl-C") {
        said.push_str(&lines.next().unwrap_or_else(|| panic!("it did not start: {said}")).unwrap());
        said.push('\n');
    }
    (dev, said)
}

#[test]
fn the_lines_that_a_development_cluster_prints_can_be_pasted_after_every_start() {
    let directory = tempfile::tempdir().unwrap();
    let door = free_addresses(1).unwrap().swap_remove(0);
    let address = free_addresses(3).unwrap().swap_remove(0);
    for _ in 0..2 {
        let (dev, said) = start_and_read(directory.path(), &address, &["--redis", &door]);
        assert!(said.contains("Redis, at the first node: redis-cli -p "), "{said}");
        assert!(said.contains("start with --http"), "{said}");
        let pasted: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("  quorate ")).collect();
        assert_eq!(pasted.len(), 2, "{said}");
        for line in pasted {
            let text = format!("\"$QUORATE\" {line}");
            let shell = std::process::Command::new("sh")
                .args(["-c", &text])
                .env("QUORATE", env!("CARGO_BIN_EXE_quorate"))
                .output()
                .unwrap();
            let ran = crate::Run::from(shell);
            assert_eq!(ran.code, 0, "{line}: {}", ran.err);
            assert!(ran.out.contains("accounts") || ran.out.ends_with("100\n"), "{line}: {}", ran.out);
        }
        assert_eq!(dev.stop(), Some(0));
    }
    let (_dev, said) = start_and_read(directory.path(), &address, &[]);
    assert!(said.contains("start with --redis") && said.contains("start with --http"), "{said}");
}

/// Asks over HTTP, and gives the whole answer.
fn http(address: &str, method: &str, path: &str, content_type: &str, body: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut stream = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(error) => assert!(Instant::now() < deadline, "the door does not open: {error}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_development_cluster_has_a_door_for_http_and_the_pages_of_its_first_node() {
    let directory = tempfile::tempdir().unwrap();
    // The nodes take the three ports after that of the door.
    let door = loop {
        let door = free_addresses(1).unwrap().swap_remove(0);
        let (host, port) = door.rsplit_once(':').unwrap();
        let port: u16 = port.parse().unwrap();
        let is_free = |more: u16| std::net::TcpListener::bind((host, port.saturating_add(more))).is_ok();
        if (1..=3).all(is_free) {
            break door;
        }
    };
    let dev = Dev::start_with(directory.path(), &["--http", &door]);
    let json = "application/json";
    let created = http(&door, "PUT", "/v1/keyspaces/accounts", json, "{\"isolation\": \"strict\"}");
    assert!(created.starts_with("HTTP/1.1 201 "), "{created}");
    assert!(
        http(&door, "PUT", "/v1/keyspaces/accounts/keys/alice", "text/plain", "100")
            .starts_with("HTTP/1.1 204 ")
    );
    assert_eq!(dev.shell("get alice").out, "100\n");
    assert!(http(&door, "GET", "/v1/keyspaces/accounts/keys/alice", json, "").ends_with("\r\n\r\n100"));
    let status = http(&door, "GET", "/status", json, "");
    assert!(status.starts_with("HTTP/1.1 200 ") && status.contains("\"site1\""), "{status}");
    let console = http(&door, "GET", "/", "", "");
    assert!(console.contains("<title>Quorate</title>"), "{console}");
    // A page that is open keeps no cluster from stopping.
    let mut page = TcpStream::connect(&door).unwrap();
    page.write_all(b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut told = vec![0; 4096];
    while !String::from_utf8_lossy(&told).contains("event: snapshot") {
        assert!(page.read(&mut told).unwrap() > 0, "the door has closed the connection");
    }
    assert_eq!(dev.stop(), Some(0));
}

fn statements_mean_the_same_within_a_transaction_and_bytes_come_back(dev: &Dev) {
    let within = dev.shell(
        "begin; increment sum 2; incr sum 3; append text 'a b'; append text c; read sum text; scan s t; commit; \
         get sum; get text; del sum; rm text",
    );
    assert_eq!(within.code, 0, "{}", within.err);
    let expected = "begun\n2\n5\n3 bytes\n4 bytes\nsum  5\ntext  'a bc'\nsum  5\ncommitted at ";
    assert!(
        within.out.starts_with(expected) && within.out.ends_with("\n5\na bc\nok\nok\n"),
        "{}",
        within.out
    );
    let wrong = dev.shell("begin; put sum many; increment sum");
    assert!(wrong.code == 1 && wrong.err.contains("holds no number"), "{}", wrong.err);

    let taken = "increment stock 5; increment stock -3 --at-least 3";
    let enough = dev.shell(&format!("{taken}; begin; increment stock -1 --at-least 2; commit"));
    assert!(enough.out.starts_with("5\n2\nbegun\n1\n"), "{} {}", enough.out, enough.err);
    for too_much in ["increment stock -3 --at-least 3", "begin; increment stock -3 --at-least 3"] {
        let refused = dev.shell(too_much);
        let is_told = refused.err.contains("the key holds 1, which is not at least 3");
        assert!(refused.code == 1 && is_told, "{}", refused.err);
    }
    assert_eq!(
        dev.shell("get stock; decr stock; decrement stock 2; begin; decr stock 2; abort").out,
        "1\n0\n-2\nbegun\n-4\naborted\n"
    );
    let least = dev.shell(&format!("decr stock {}", i64::MIN));
    assert!(least.code == 1 && least.err.contains("64 bits"), "{}", least.err);
    assert_eq!(dev.shell("get stock; del stock").out, "-2\nok\n");

    let bytes = dev.shell(
        "set \"k\\xff\" \"\\x00\\xfe\"; scan \"k\\xff\" l; read-stale 50ms \"k\\xff\"; del \"k\\xff\"",
    );
    assert!(
        bytes.out.starts_with("ok\n\"k\\xff\"  \"\\x00\\xfe\"\n\"k\\xff\"  \"\\x00\\xfe\"\nat "),
        "{}",
        bytes.out
    );
    assert!(bytes.out.ends_with("ok\n"), "{}", bytes.out);

    let json = [
        "shell",
        "--connect",
        &dev.address,
        "--json",
        "-e",
        "put doc '{\"n\":1}'; get doc; scan doc doe; del doc",
    ];
    let told = run(&json);
    let lines: Vec<serde_json::Value> =
        told.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0], serde_json::json!({ "statement": "put", "done": true }));
    assert_eq!(lines[1], serde_json::json!({ "statement": "get", "value": "{\"n\":1}" }));
    assert_eq!(lines[2]["values"], serde_json::json!([{ "key": "doc", "value": "{\"n\":1}" }]));
    assert_eq!(lines[3]["statement"], "delete");

    let about = "keyspace create told --if-absent; keyspace show told; keyspace index list told; help scan; keyspace drop told";
    let told = run(&["shell", "--connect", &dev.address, "--json", "-e", about]);
    let lines: Vec<serde_json::Value> =
        told.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((told.code, lines.len()), (0, 5), "{} {}", told.out, told.err);
    for described in &lines[..2] {
        assert_eq!((&described["statement"], &described["keyspace"]), (&"keyspace".into(), &"told".into()));
        assert_eq!(described["isolation"], "strict");
        assert_eq!(described["shards"][0]["replicas"].as_array().unwrap().len(), 3);
        assert!(described.get("text").is_none(), "{described}");
    }
    assert_eq!((&lines[0]["created"], lines[1].get("created")), (&true.into(), None));
    assert_eq!(lines[2]["indexes"], serde_json::json!([]));
    let help = lines[3]["text"].as_str().unwrap();
    assert!(lines[3]["statement"] == "help" && help.contains("--limit"), "{help}");
}

/// A transaction goes on in its keyspace while others come and go.
fn keyspaces_change_beside_an_open_transaction(dev: &Dev) {
    let changes = [
        "keyspace create aside",
        "keyspace index create aside by-x --on bytes:0..1",
        "keyspace index drop aside by-x",
        "keyspace drop aside",
        "keyspace undrop aside",
        "keyspace drop aside",
    ];
    let ran = dev.shell(&format!(
        "begin; put alice 8; use accounts; {}; keyspace list; keyspace show accounts; \
         keyspace index list accounts; get alice; abort; get alice",
        changes.join("; ")
    ));
    assert_eq!(ran.code, 0, "{} {}", ran.out, ran.err);
    let said = "this is done, and no part of the open transaction of accounts: `abort` does not undo it\n";
    assert_eq!(ran.out.matches(said).count(), changes.len(), "{}", ran.out);
    assert!(ran.out.ends_with("\n8\naborted\n60\n"), "{}", ran.out);

    let kept = dev.shell("begin; keyspace create aside; abort; get alice; use aside; keyspace drop aside");
    assert!(kept.code == 0 && kept.out.contains("aborted\n60\nusing aside\n"), "{} {}", kept.out, kept.err);
    let both = "keyspace create aside; begin; keyspace create beyond; keyspace drop beyond";
    let told = run(&[
        "shell",
        "--connect",
        &dev.address,
        "--json",
        "-e",
        &format!("{both}; abort; keyspace drop aside"),
    ]);
    let lines: Vec<serde_json::Value> =
        told.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((told.code, lines.len()), (0, 6), "{} {}", told.out, told.err);
    let beside: Vec<_> = lines.iter().map(|line| line.get("beside_transaction").is_some()).collect();
    assert_eq!(beside, [false, false, true, false, false, false], "{}", told.out);
}

/// Readers such as `head` leave before the end.
fn readers_may_leave(dev: &Dev) {
    for arguments in [
        &["shell", "-k", "accounts", "-e", "scan; scan"][..],
        &["shell", "-k", "accounts", "--json", "-e", "scan"],
        &["export", "accounts"],
        &["keyspace", "show", "accounts"],
    ] {
        let mut command = quorate();
        command.args(arguments).args(["--connect", &dev.address]).stdout(without_reader());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let is_silent = said.is_empty() || arguments[0] == "export" && said.starts_with("exporting");
        assert!(output.status.success() && is_silent, "{arguments:?}: {output:?}");
        let mut command = quorate();
        command.args(arguments).args(["--connect", &dev.address]);
        let status = command.stdout(without_reader()).stderr(without_reader()).status().unwrap();
        assert!(status.success(), "{arguments:?}: {status}");
    }
}

fn keyspaces_are_created_if_absent(dev: &Dev) {
    let create = |more: &[&str]| {
        let words = ["keyspace", "create", "kept", "--if-absent", "--connect", &dev.address];
        run(&[&words[..], more].concat())
    };
    for is_new in [true, false] {
        let created = create(&["--json"]);
        assert_eq!((created.code, created.json()["created"].as_bool()), (0, Some(is_new)), "{}", created.err);
    }
    let again = create(&[]);
    assert!(again.out.starts_with("kept is there already, with these options\nkept: "), "{}", again.out);
    let other = create(&["--shards", "2", "--durability", "memory"]);
    assert_ne!(other.code, 0);
    assert!(other.err.contains("durability sync, not memory; shards 1, not 2"), "{}", other.err);
    let within = dev.shell("keyspace create kept --if-absent; put a 1; get a; keyspace drop kept");
    assert!(within.code == 0 && within.out.contains("\n1\n"), "{} {}", within.out, within.err);
}

#[test]
fn a_development_cluster_is_talked_to_and_keeps_its_data() {
    let directory = tempfile::tempdir().unwrap();
    let dev = Dev::start(directory.path());
    let told = dev.shell(
        "keyspace create accounts --isolation strict --shards 2; put alice 100; \
         begin; put alice 60; put bob '4 0'; commit; get bob; scan '' ''; delete bob; get bob",
    );
    assert_eq!(told.code, 0, "{}", told.err);
    assert!(told.out.ends_with("4 0\nalice  60\nbob  '4 0'\nok\n(absent)\n"), "{}", told.out);

    let read = dev.shell("read bob alice; read-stale 60000 alice; begin; put alice 61; put bob 1; commit");
    assert!(read.out.starts_with("bob  (absent)\nalice  60\nalice  60\nat "), "{}", read.out);
    let timestamp = read.out.lines().last().unwrap().split([' ', ',']).nth(2).unwrap();
    let past = dev.shell(&format!("put alice 60; delete bob; read-at {timestamp} alice bob"));
    assert!(past.out.ends_with("ok\nalice  61\nbob  1\n"), "{}", past.out);
    let range =
        dev.shell(&format!("scan-at {timestamp} alice bob~; scan alice bob~; scan-stale 0 alice bob~"));
    assert!(range.out.starts_with("alice  61\nbob  1\nalice  60\nalice  60\nat "), "{}", range.out);
    let bounded =
        dev.shell("keyspace create bounded --clock-bound-ms 5; put a 1; read-now a b; scan-now a; keyspace drop bounded");
    assert!(bounded.out.contains("clocks within 5ms\n"), "{}", bounded.out);
    assert!(bounded.out.contains("a  1\nb  (absent)\nat "), "{}", bounded.out);
    assert_eq!(bounded.out.matches("a  1\n").count(), 2, "{}", bounded.out);

    let expiring = dev.shell(
        "keyspace create sessions --expiring; put s1 ada --ttl 1h; put s2 bob; ttl s2; ttl s3; begin; put s1 eve --ttl 30m; ttl s1; commit; \
         put s4 cyd --ttl 1ms; get s1; keyspace show sessions",
    );
    assert_eq!(expiring.code, 0, "{}", expiring.err);
    for expected in ["\nstays\n(absent)\n", "\neve\n", "(values may expire)"] {
        assert!(expiring.out.contains(expected), "{expected}: {}", expiring.out);
    }
    // The process sweeps what is over.
    let swept = || dev.shell("use sessions; get s4; ttl s1; keyspace drop sessions");
    assert!(swept().out.contains("(absent)\n"), "{}", expiring.out);

    keyspaces_are_created_if_absent(&dev);
    keyspaces_change_beside_an_open_transaction(&dev);
    readers_may_leave(&dev);
    let aborted = dev.shell("begin; put alice 0; abort; get alice");
    assert!(aborted.out.ends_with("aborted\n60\n"), "{}", aborted.out);
    let asked = dev.shell("put carol 1; token");
    let token = asked.out.lines().last().unwrap();
    assert!(dev.shell(&format!("outcome {token}")).out.starts_with("committed at"), "{token}");

    for (statements, expected) in [
        ("frobnicate", "frobnicate"),
        ("get", "<KEYS>"),
        ("put 'a", "not closed"),
        ("commit", "no transaction is open"),
        ("use nowhere", "accounts"),
        ("get ''", "must not be empty"),
        ("read-now alice", "read_only"),
        ("scan-now alice", "scan"),
        ("begin; begin", "a transaction is open"),
        ("begin; use other", "is one of accounts: `commit` or `abort` it before you use other"),
        ("begin; keyspace drop accounts", "is one of accounts: `commit` or `abort` it before you drop"),
        ("begin; keyspace index create accounts a --on bytes:0..1", "`commit` or `abort` it first"),
        ("begin; keyspace index drop accounts a", "could not commit once indexes change"),
        ("begin; put alice 7", "a transaction was open, and is dropped"),
        ("begin; put alice 7; exit", "a transaction was open, and is dropped"),
        ("timing", "at a terminal"),
        ("put alice 7 --ttl 1h", "--expiring"),
        ("put alice 7 --ttl 1", "its unit"),
        ("keyspace create no --isolation serializable --expiring", "strict or"),
    ] {
        let failed = dev.shell(statements);
        assert_eq!(failed.code, 1, "{statements}");
        assert!(failed.err.contains(expected), "{statements}: {}", failed.err);
    }
    for statements in
        ["begin; put alice 7; bogus", "begin; put alice 7; get ''", "begin; put alice many; increment alice"]
    {
        let failed = dev.shell(statements);
        assert_eq!(failed.code, 1, "{statements}");
        assert!(failed.err.starts_with("error: "), "{statements}: {}", failed.err);
        assert!(
            failed.err.ends_with("a transaction was open, and is dropped: nothing of it was committed\n"),
            "{}",
            failed.err
        );
    }
    assert!(!dev.shell("bogus").err.contains("dropped"), "no transaction was open");
    statements_mean_the_same_within_a_transaction_and_bytes_come_back(&dev);
    let piped = run_with_input(&["shell", "--connect", &dev.address], "get alice\nget carol\n");
    assert_eq!((piped.code, piped.out.as_str()), (0, "60\n1\n"));

    let status = run(&["cluster", "status", "--json", "--connect", &dev.address]);
    assert_eq!((status.code, status.json()["ok"].as_bool()), (0, Some(true)), "{}", status.out);
    let nothing = run(&["cluster", "accept-loss", "accounts", "--confirm", "--connect", &dev.address]);
    assert!(nothing.code == 1 && nothing.err.contains("nothing to accept"), "{}", nothing.err);

    let listed = run(&["keyspace", "list", "--json", "--connect", &dev.address]).json();
    assert_eq!(listed["keyspaces"][0]["name"], "accounts");
    assert_eq!(listed["keyspaces"][0]["shards"].as_array().unwrap().len(), 2);
    let unknown = run(&["keyspace", "show", "nowhere", "--connect", &dev.address]);
    assert_eq!(unknown.code, 2);

    // A marker whose time was over in 1970, and a key that is none.
    let over = format!("QRM1{}", "\\x00".repeat(10));
    assert_eq!(dev.shell(&format!("put once/1 \"{over}\"; put once/2 kept")).code, 0);
    let sweep = ["keyspace", "sweep", "accounts", "--prefix", "once/", "--json", "--connect", &dev.address];
    assert_eq!(run(&sweep).json()["deleted"], 1);
    let left = dev.shell("get once/1; get once/2; del once/2");
    assert_eq!(
        (left.out.contains("kept"), run(&sweep).json()["deleted"].as_i64()),
        (true, Some(0)),
        "{}",
        left.err
    );
    assert_eq!(dev.stop(), Some(0), "it stops in good order");

    // All nodes are found elsewhere each time.
    let dev = Dev::start(directory.path());
    assert_eq!(dev.shell("get alice").out, "60\n");
    assert_eq!(dev.stop(), Some(0));
    let dev = lose_and_accept(directory.path());
    assert_eq!(run(&["keyspace", "drop", "accounts", "--connect", &dev.address]).code, 0);
    assert_eq!(dev.stop(), Some(0));
}

/// Two of three nodes lose the logs of `accounts`; what the third knows comes back once an operator accepts that.
fn lose_and_accept(directory: &std::path::Path) -> Dev {
    for node in [1, 2] {
        for replica in std::fs::read_dir(directory.join(format!("node-{node}/replicas"))).unwrap() {
            let replica = replica.unwrap().path();
            if !replica.file_name().unwrap().to_str().unwrap().starts_with("shard-0-") {
                std::fs::remove_dir_all(replica.join("log")).unwrap();
            }
        }
    }
    let dev = Dev::start(directory);
    let connected = |words: &[&str]| run(&[words, &["--connect", &dev.address]].concat());
    let deadline = Instant::now() + Duration::from_secs(60);
    let lost = loop {
        let status = connected(&["cluster", "status", "--json"]);
        let json = status.json();
        let is_lost =
            |shard: &&serde_json::Value| shard["keyspace"] == "accounts" && shard["verdict"] == "lost";
        if json["shards"].as_array().unwrap().iter().filter(is_lost).count() == 2 {
            break status;
        }
        assert!(Instant::now() < deadline, "{json}");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(lost.code, 1);
    let refused = dev.shell("get alice");
    assert!(refused.code == 1 && refused.err.contains("accept-loss"), "{}", refused.err);
    let asked = connected(&["cluster", "accept-loss", "accounts"]);
    assert_eq!(asked.code, 2, "{}", asked.err);
    assert!(asked.err.contains("ARE LOST") && asked.err.contains("--confirm"), "{}", asked.err);
    let accepted = connected(&["cluster", "accept-loss", "accounts", "--confirm", "--json"]);
    assert_eq!((accepted.code, accepted.json()["ok"].as_bool()), (0, Some(true)), "{}", accepted.err);
    assert_eq!(dev.shell("get alice").out, "60\n", "the first node knew it");
    dev
}

#[test]
fn a_demo_judges_what_it_has_shown() {
    let run = run(&["demo", "--seconds", "6", "--json"]);
    let json = run.json();
    assert_eq!(json["sites"].as_array().unwrap().len(), 3);
    let row = &json["rows"][0];
    assert_eq!((row["isolation"].as_str(), row["protocol"].as_str()), (Some("strict"), Some("TAPIR")));
    assert_eq!(
        (row["level"].as_str(), row["verdict"].as_str()),
        (Some("strict-serializable"), Some("valid"))
    );
    assert!(row["committed"].as_u64().unwrap() > 100, "{row}");
    assert!(row["rtts_per_commit"].as_f64().unwrap() > 0.99, "{row}");
    let isolations = json["rows"].as_array().unwrap().iter().map(|row| row["isolation"].as_str().unwrap());
    assert!(isolations.eq(Isolation::ALL.map(Isolation::name)), "{json}");
    assert_eq!((run.code, json["ok"].as_bool()), (0, Some(true)), "{json}");
}

/// Runs a short benchmark whose history must be judged valid at this level, if one is promised.
fn measure(flags: &[&str], level: Option<&str>) -> serde_json::Value {
    let directory = tempfile::tempdir().unwrap();
    let history = directory.path().join("h.jsonl");
    let history = history.to_str().unwrap();
    let arguments =
        ["bench", "lists", "--embedded", "--clients", "8", "--seconds", "1", "--json", "--history", history];
    let measured = run(&[&arguments, flags].concat());
    assert_eq!(measured.code, 0, "{}", measured.err);
    let json = measured.json();
    for field in [
        "seconds",
        "committed",
        "throughput_tps",
        "server_cpu_us_per_txn",
        "busiest_server_cpu_us_per_txn",
        "client_cpu_us_per_txn",
        "messages_per_txn",
        "bytes_per_txn",
        "syncs",
        "mean_batch",
        "cores",
    ] {
        assert!(json[field].as_f64().unwrap() > 0.0, "{field}: {json}");
    }
    assert!(json["latency_us"]["p50"].as_u64() <= json["latency_us"]["p999"].as_u64());
    assert_eq!((json["durability"].as_str(), json["replicas"].as_u64()), (Some("sync"), Some(3)));
    if let Some(level) = level {
        let judged = run(&["check", history, "--level", level]);
        assert_eq!(judged.code, 0, "{}", judged.out);
    }
    json
}

#[test]
fn a_benchmark_starts_servers_measures_them_and_records_what_happened() {
    let json = measure(&[], Some("strict-serializable"));
    assert_eq!((json["isolation"].as_str(), json.get("baseline")), (Some("strict"), None));
}

#[test]
fn snapshot_keyspaces_are_measured_in_every_variant() {
    for variant in ["clock-si", "planet", "str-internal", "str-external"] {
        let json = measure(&["--isolation", "snapshot", "--variant", variant], Some("session-si"));
        assert_eq!((json["isolation"].as_str(), json.get("baseline")), (Some("snapshot"), None));
    }
    let refused = run(&["bench", "lists", "--embedded", "--seconds", "1", "--orders-sessions"]);
    assert!(
        refused.code == 2 && refused.err.contains("keyspaces that are snapshot, not strict"),
        "{}",
        refused.err
    );
}

#[test]
fn a_snapshot_keyspace_is_talked_to_and_keeps_its_data_and_options() {
    let directory = tempfile::tempdir().unwrap();
    let dev = Dev::start(directory.path());
    let told = dev.shell(
        "keyspace create shop --isolation snapshot --shards 2 --durability memory --variant planet --orders-sessions; \
         put apples 3; begin; get apples; put apples 2; put pears 1; commit; scan '' ''; delete pears; get pears",
    );
    assert_eq!(told.code, 0, "{}", told.err);
    assert!(
        told.out.contains("isolation snapshot (planet, sessions in order), durability memory"),
        "{}",
        told.out
    );
    assert!(told.out.ends_with("apples  2\npears  1\nok\n(absent)\n"), "{}", told.out);
    let asked = dev.shell("put figs 1; token");
    let token = asked.out.lines().last().unwrap();
    assert!(dev.shell(&format!("outcome {token}")).out.starts_with("committed at"), "{token}");
    // The snapshot of another client may be older than one write, or both: a commit past a replica that does not vote in time lies two seconds ahead
    // of clocks.
    let aborted = |_| dev.shell("begin; put apples 0; abort; get apples").out;
    let is_older = |out: &str| out.ends_with("aborted\n3\n") || out.ends_with("aborted\n(absent)\n");
    let told: Vec<String> = (0..50).map(aborted).take_while(|out| !out.ends_with("aborted\n2\n")).collect();
    assert!(told.len() < 50 && told.iter().all(|out| is_older(out)), "{told:?}");
    for (statements, expected) in [
        ("keyspace create a --isolation strict --variant planet", "not strict"),
        ("keyspace create a --isolation serializable --orders-sessions", "not serializable"),
        (
            "keyspace create a --isolation snapshot --variant fast",
            "clock-si, planet, str-internal, str-external",
        ),
        ("keyspace create a --isolation strict --replicas 2", "odd number"),
        ("keyspace create a --isolation snapshot --replicas 10", "between 1 and 9"),
        ("keyspace create a --isolation snapshot --replicas 0", "between 1 and 9"),
        ("keyspace create a --isolation snapshot --replicas 4", "4 replicas need 4 nodes"),
        ("keyspace create a --isolation snapshot --chain 9", "between 0 and 8 transactions, not 9"),
        ("keyspace create a --isolation snapshot --chain 256", "256 is not in 0..=255"),
        ("keyspace create a --isolation snapshot --chain -1", "-1"),
        ("keyspace create a --isolation snapshot --variant planet --chain 2", "not by planet"),
        ("keyspace create a --isolation strict --chain 2", "not strict"),
        ("keyspace create a --isolation strict --no-tuner", "not strict"),
        ("keyspace create a --isolation strict --decisions across-sites", "not strict"),
        ("keyspace create a --isolation snapshot --decisions region", "site, across-sites"),
        ("keyspace create a --isolation snapshot --grants some", "all, leader"),
        (
            "keyspace create a --isolation snapshot --replicas 2 --decisions across-sites",
            "in 3 sites, and they are in 2",
        ),
    ] {
        let failed = dev.shell(statements);
        assert!(failed.code != 0 && failed.err.contains(expected), "{statements}: {}", failed.err);
    }
    let create = |name| {
        let options = "--isolation snapshot --replicas 2 --chain 3 --no-tuner";
        dev.shell(&format!("keyspace create {name} {options}; put kept yes"))
    };
    let created = create("kept");
    assert!(
        created.code == 0 && created.out.contains("snapshot (str-external, chains of 3, no tuner)"),
        "{}{}",
        created.out,
        created.err
    );
    assert_eq!(dev.stop(), Some(0), "it stops in good order");
    let dev = Dev::start(directory.path());
    let listed = run(&["keyspace", "list", "--json", "--connect", &dev.address]).json();
    let [kept, shop] = [&listed["keyspaces"][0], &listed["keyspaces"][1]];
    assert_eq!(
        (kept["variant"].as_str(), kept["orders_sessions"].as_bool()),
        (Some("str-external"), Some(false))
    );
    assert_eq!((kept["chain_max"].as_u64(), kept["tuned"].as_bool()), (Some(3), Some(false)));
    assert_eq!(kept["shards"][0]["replicas"].as_array().unwrap().len(), 2);
    assert_eq!((shop["variant"].as_str(), shop["orders_sessions"].as_bool()), (Some("planet"), Some(true)));
    assert_eq!((shop["chain_max"].as_u64(), shop["tuned"].as_bool()), (None, Some(false)));
    assert_eq!(shop["homes"].as_array().unwrap().len(), 3);
    assert_eq!((shop["decisions"].as_str(), shop["grants"].as_str()), (Some("site"), Some("all")));
    assert_eq!(dev.shell("use kept; get kept").out.lines().last(), Some("yes"));
    assert_eq!(dev.stop(), Some(0));
}

#[test]
fn a_strict_keyspace_keeps_the_order_that_it_was_created_with() {
    let directory = tempfile::tempdir().unwrap();
    let dev = Dev::start(directory.path());
    let told = dev.shell(
        "keyspace create counts --isolation strict --order timestamps --retry-ahead-ms 2; put apples 3; get apples; \
         keyspace create plain --isolation strict",
    );
    assert_eq!(told.code, 0, "{}", told.err);
    let expected = "counts: isolation strict (in the order of timestamps: serializable, not strict, proposed again 2ms ahead)";
    assert!(told.out.contains(expected) && told.out.contains("plain: isolation strict, "), "{}", told.out);
    for (statements, expected) in [
        ("keyspace create a --isolation snapshot --order timestamps", "not snapshot"),
        ("keyspace create a --isolation serializable --retry-ahead-ms 1", "not serializable"),
        ("keyspace create a --isolation strict --order sessions", "real-time, timestamps"),
        ("keyspace create a --isolation strict --retry-ahead-ms 1001", "at most 1000 ms"),
        (
            "keyspace create a --isolation strict --order timestamps --clock-bound-ms 5",
            "leave one of the two out",
        ),
        ("keyspace create a --isolation strict --application bank", "not strict"),
        ("keyspace create a --isolation serializable --application bank", "it is linked with none"),
    ] {
        let failed = dev.shell(statements);
        assert!(failed.code != 0 && failed.err.contains(expected), "{statements}: {}", failed.err);
    }
    assert_eq!(dev.stop(), Some(0), "it stops in good order");
    let dev = Dev::start(directory.path());
    let listed = run(&["keyspace", "list", "--json", "--connect", &dev.address]).json();
    let [counts, plain] = [&listed["keyspaces"][0], &listed["keyspaces"][1]];
    assert_eq!(
        (counts["order"].as_str(), counts["retry_ahead_us"].as_u64()),
        (Some("timestamps"), Some(2_000))
    );
    assert_eq!((plain["order"].as_str(), plain["retry_ahead_us"].as_u64()), (Some("real-time"), Some(0)));
    assert_eq!(dev.shell("use counts; get apples").out.lines().last(), Some("3"));
    assert_eq!(dev.stop(), Some(0));
}

#[test]
fn comparison_systems_are_measured_in_the_same_way() {
    for rival in Rival::ALL {
        let level = rival.is_transactional().then_some("strict-serializable");
        let shards = if rival.on_log().is_some_and(System::has_snapshots) { "1" } else { "2" };
        let json = measure(&["--baseline", rival.name(), "--shards", shards], level);
        assert_eq!((json["baseline"].as_str(), json.get("isolation")), (Some(rival.name()), None));
    }
    let listed = run(&["bench", "--list"]);
    assert!(listed.code == 0 && listed.out.contains("span-occ"), "{}", listed.out);
}

#[test]
fn social_networks_are_measured_at_all_sites_and_keep_their_promises() {
    let directory = tempfile::tempdir().unwrap();
    let history = directory.path().join("h.jsonl");
    let common =
        ["--embedded", "--replicas", "1", "--sites", "2", "--clients", "8", "--seconds", "1", "--json"];
    for (workload, mix) in [("waltsocial", "mix2"), ("retwis-psi", "mixed")] {
        let users = ["bench", workload, "--users", "100", "--mix", mix];
        let measured = run(&[&users[..], &common].concat());
        assert_eq!(measured.code, 0, "{}", measured.err);
        let json = measured.json();
        let number = |field: &str| json[field].as_u64();
        assert_eq!([number("sites"), number("users"), number("breaches")], [Some(2), Some(100), Some(0)]);
        assert!(number("committed") > Some(0) && json["mix"] == mix, "{json}");
    }
    let judged = ["bench", "waltsocial", "--users", "200", "--history", history.to_str().unwrap()];
    let measured = run(&[&judged[..], &common].concat());
    assert_eq!(measured.code, 0, "{}", measured.err);
    let judged = run(&["check", history.to_str().unwrap(), "--level", "walter-psi"]);
    assert_eq!(judged.code, 0, "{}", judged.out);
}
