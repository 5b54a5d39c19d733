//! Real processes under faults: what is survived, what is noticed, and that nothing is left behind.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{quorate, run};

#[test]
fn a_tortured_cluster_serves_again_and_has_lost_nothing() {
    let faults = ["node-crashes", "pauses", "partitions", "empty-disks"];
    let tortured =
        run(&["torture", "--seconds", "10", "--seed", "5", "--faults", &faults.join(","), "--json"]);
    let json = tortured.json();
    assert_eq!(tortured.code, 0, "{json}");
    assert_eq!((json["ok"].as_bool(), json["verdict"].as_str()), (Some(true), Some("valid")), "{json}");
    for fault in faults {
        let measured = &json["faults"][fault];
        assert!(measured["strikes"].as_u64().unwrap() > 0 && measured["gap"].is_object(), "{fault}: {json}");
    }
    assert!(json["faults"]["node-crashes"]["restart"].is_object(), "{json}");
    assert!(json["committed"].as_u64().unwrap() > 100, "{json}");
}

#[test]
fn a_tortured_comparison_system_has_lost_nothing_either() {
    let faults = ["node-crashes", "restarts", "empty-disks", "power-loss"];
    let tortured = run(&[
        "torture",
        "--baseline",
        "txn-occ",
        "--seconds",
        "10",
        "--seed",
        "5",
        "--faults",
        &faults.join(","),
        "--json",
    ]);
    let json = tortured.json();
    assert_eq!(tortured.code, 0, "{json}");
    assert_eq!((json["ok"].as_bool(), json["verdict"].as_str()), (Some(true), Some("valid")), "{json}");
    assert_eq!(json["baseline"], "txn-occ");
    for fault in faults {
        assert!(json["faults"][fault]["strikes"].as_u64().unwrap() > 0, "{fault}: {json}");
    }
    assert!(json["committed"].as_u64().unwrap() > 100, "{json}");
}

#[test]
fn tortured_local_sites_have_lost_nothing_and_catch_up() {
    let faults = ["node-crashes", "partitions", "empty-disks", "power-loss"];
    let local = ["torture", "--isolation", "parallel-snapshot", "--seconds", "10", "--seed", "5", "--json"];
    let tortured = run(&[&local[..], &["--faults", &faults.join(",")]].concat());
    let json = tortured.json();
    assert_eq!(tortured.code, 0, "{json}");
    assert_eq!((json["ok"].as_bool(), json["verdict"].as_str()), (Some(true), Some("valid")), "{json}");
    assert_eq!((json["level"].as_str(), json["shards"].as_u64()), (Some("walter-psi"), Some(1)), "{json}");
    for fault in faults {
        assert!(json["faults"][fault]["strikes"].as_u64().unwrap() > 0, "{fault}: {json}");
    }
    assert!(json["committed"].as_u64().unwrap() > 100, "{json}");
    assert_eq!(run(&["torture", "--isolation", "parallel-snapshot", "--faults", "membership"]).code, 2);
    assert_eq!(run(&["torture", "--isolation", "parallel-snapshot", "--shards", "2"]).code, 2);
}

#[test]
fn tortured_nodes_that_run_transactions_have_lost_nothing() {
    let faults = ["node-crashes", "partitions", "pauses", "power-loss"];
    let snapshot = ["torture", "--isolation", "snapshot", "--seconds", "10", "--seed", "5", "--json"];
    let tortured = run(&[&snapshot[..], &["--faults", &faults.join(",")]].concat());
    let json = tortured.json();
    assert_eq!(tortured.code, 0, "{json}");
    assert_eq!((json["ok"].as_bool(), json["verdict"].as_str()), (Some(true), Some("valid")), "{json}");
    assert_eq!((json["level"].as_str(), json["shards"].as_u64()), (Some("session-si"), Some(2)), "{json}");
    for fault in faults {
        assert!(json["faults"][fault]["strikes"].as_u64().unwrap() > 0, "{fault}: {json}");
    }
    assert!(json["committed"].as_u64().unwrap() > 100, "{json}");
    let together = [
        "--sites",
        "1",
        "--variant",
        "str-internal",
        "--orders-sessions",
        "--faults",
        "empty-disks,node-crashes",
    ];
    let tortured = run(&[&snapshot[..], &together].concat());
    let json = tortured.json();
    assert_eq!(
        (tortured.code, json["ok"].as_bool(), json["sites"].as_u64()),
        (0, Some(true), Some(1)),
        "{json}"
    );
    assert!(json["faults"]["empty-disks"]["strikes"].as_u64().unwrap() > 0, "{json}");
    for impossible in ["membership", "empty-disks"] {
        let refused = run(&["torture", "--isolation", "snapshot", "--faults", impossible]);
        assert!(refused.code == 2 && refused.err.contains("cannot be injected"), "{}", refused.err);
    }
}

#[test]
fn a_client_of_redis_loses_no_acknowledged_write_and_counts_no_increment_twice() {
    let faults = ["node-crashes", "pauses", "restarts", "partitions", "client-crashes"];
    let door = ["torture", "--isolation", "serializable", "--door", "redis", "--seconds", "8", "--seed", "3"];
    let tortured = run(&[&door[..], &["--json", "--faults", &faults.join(",")]].concat());
    let json = tortured.json();
    assert_eq!(tortured.code, 0, "{json}");
    assert_eq!((json["ok"].as_bool(), json["verdict"].as_str()), (Some(true), Some("valid")), "{json}");
    assert_eq!(
        (json["door"].as_str(), json["level"].as_str()),
        (Some("redis"), Some("session-serializable"))
    );
    for fault in faults {
        assert!(json["faults"][fault]["strikes"].as_u64().unwrap() > 0, "{fault}: {json}");
    }
    assert!(json["committed"].as_u64().unwrap() > 100, "{json}");
    for refused in [["--isolation", "parallel-snapshot"], ["--workload", "rmw"], ["--baseline", "txn-occ"]] {
        let refused = run(&[&["torture", "--door", "redis"][..], &refused].concat());
        assert!(refused.code == 2 && refused.err.contains("clients of a door"), "{}", refused.err);
    }
}

#[test]
fn what_does_not_come_back_is_noticed_and_the_evidence_kept() {
    let arguments = ["--durability", "memory", "--faults", "power-loss"];
    let tortured = run(&[&["torture", "--seconds", "2", "--json"], &arguments[..]].concat());
    let json = tortured.json();
    assert_eq!((tortured.code, json["ok"].as_bool()), (1, Some(false)), "{json}");
    assert!(json["troubles"][0].as_str().unwrap().contains("have lost their records"), "{json}");
    let evidence = PathBuf::from(json["evidence"].as_str().unwrap());
    for file in ["history.jsonl", "node-0.log", "node-2.toml"] {
        assert!(evidence.join(file).is_file(), "{file}");
    }
    std::fs::remove_dir_all(evidence).unwrap();
}

/// With certificates: a check runs it without.
#[test]
fn namespaces_are_used_where_they_can_be_and_removed() {
    let mut command = quorate();
    command.args(["torture", "--seconds", "4", "--namespaces", "--tls", "--json"]);
    command.args(["--faults", "partitions,one-way-partitions,node-crashes"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let own_names = format!("quorate{}", child.id());
    let tortured = crate::Run::from(child.wait_with_output().unwrap());
    if tortured.err.contains("network namespaces cannot be used here") {
        assert!(tortured.code == 1 && tortured.err.contains("run as root"), "{}", tortured.err);
        return;
    }
    let json = tortured.json();
    assert_eq!((tortured.code, json["network"].as_str()), (0, Some("namespaces")), "{json}");
    for fault in ["partitions", "one-way-partitions", "node-crashes"] {
        assert!(json["faults"][fault]["strikes"].as_u64().unwrap() > 0, "{fault}: {json}");
    }
    for listing in [&["netns", "list"][..], &["-brief", "link"]] {
        let listed = Command::new("ip").args(listing).output().unwrap();
        assert!(!String::from_utf8(listed.stdout).unwrap().contains(&own_names), "{listing:?}");
    }
}

#[test]
fn the_faults_are_listed() {
    let listed = run(&["torture", "--list-faults", "--json"]).json();
    assert!(listed.as_array().unwrap().iter().any(|fault| fault["id"] == "one-way-partitions"), "{listed}");
    assert_eq!(run(&["torture", "--faults", "earthquake"]).code, 2);
    assert_eq!(run(&["torture", "--nodes", "4"]).code, 2);
    assert_eq!(run(&["torture", "--namespaces", "--faults", "delay-spikes"]).code, 2);
}

#[test]
fn the_attacks_are_listed_and_others_are_refused() {
    let listed = run(&["torture", "--list-attacks", "--json"]).json();
    let attacks = listed.as_array().unwrap();
    assert!(
        attacks.iter().any(|attack| attack["id"] == "rolled-back-disk" && attack["item"] == 4),
        "{listed}"
    );
    let refused = run(&["torture", "--attack", "early-error,earthquake"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("lost-replica, swapped-replicas"), "{}", refused.err);
    assert_eq!(run(&["torture", "--attack", "all", "--faults", "pauses"]).code, 2);
    assert_eq!(run(&["torture", "--keep"]).code, 2);
}

/// A run that is under way.
struct Tortures {
    child: Child,
    directory: PathBuf,
}

impl Tortures {
    fn start() -> Tortures {
        let mut child = quorate()
            .args(["torture", "--seconds", "60", "--faults", "pauses"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        told.read_line(&mut line).unwrap();
        let (_, directory) = line.trim_end().rsplit_once(' ').unwrap();
        let directory = PathBuf::from(directory);
        assert!(directory.is_dir(), "{line}");
        // Later output must not block it.
        std::thread::spawn(move || told.read_to_end(&mut Vec::new()));
        Tortures { child, directory }
    }

    fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }
}

/// The processes whose command line names this directory.
fn processes_in(directory: &Path) -> usize {
    let directory = directory.to_str().unwrap();
    let names = |entry: std::io::Result<std::fs::DirEntry>| {
        let command = std::fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        String::from_utf8_lossy(&command).contains(directory).then_some(())
    };
    std::fs::read_dir("/proc").unwrap().filter_map(names).count()
}

fn ends_without_a_trace(directory: &Path) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while processes_in(directory) > 0 {
        assert!(Instant::now() < deadline, "servers are left");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn whoever_is_interrupted_leaves_nothing_behind() {
    let mut tortures = Tortures::start();
    assert_eq!(processes_in(&tortures.directory), 3);
    std::thread::sleep(Duration::from_millis(700));
    tortures.signal("-INT");
    assert_eq!(tortures.child.wait().unwrap().code(), Some(1));
    ends_without_a_trace(&tortures.directory);
    assert!(!tortures.directory.exists(), "its data is removed");
}

#[test]
#[cfg(target_os = "linux")]
fn servers_do_not_outlive_whoever_tortures_them() {
    let mut tortures = Tortures::start();
    std::thread::sleep(Duration::from_millis(700));
    tortures.signal("-KILL");
    tortures.child.wait().unwrap();
    ends_without_a_trace(&tortures.directory);
    std::fs::remove_dir_all(&tortures.directory).unwrap();
}

/// Runs a command again that has failed: on a machine that is busy with other tests a client may lose its patience once.
fn run_twice(arguments: &[&str]) -> crate::Run {
    let first = run(arguments);
    if first.code == 0 { first } else { run(arguments) }
}

#[test]
fn nobody_notices_a_rolling_restart() {
    let rolled = run_twice(&["torture", "--rolling", "1", "--in-flight", "8", "--json"]);
    let json = rolled.json();
    assert_eq!(rolled.code, 0, "{json}");
    assert_eq!(
        (&json["refused"], &json["unknown"], &json["verdict"]),
        (&0.into(), &0.into(), &"valid".into())
    );
    assert_eq!(json["faults"]["restarts"]["strikes"], 3, "each node once");
    assert!(json["faults"].as_object().is_some_and(|faults| faults.len() == 1), "{json}");
}

#[test]
fn nobody_notices_an_upgrade_and_a_downgrade_and_the_end_of_the_upgrade() {
    // The same program: what differs between programs takes another build, and `cargo xtask upgrade`.
    let earlier = env!("CARGO_BIN_EXE_quorate");
    let upgraded = run_twice(&["torture", "--upgrade-from", earlier, "--shards", "1", "--json"]);
    let json = upgraded.json();
    assert_eq!(upgraded.code, 0, "{json}");
    assert_eq!(
        (&json["refused"], &json["unknown"], &json["verdict"]),
        (&0.into(), &0.into(), &"valid".into())
    );
    assert_eq!(json["faults"]["restarts"]["strikes"], 9, "each node three times");
    let (before, after) =
        (&json["upgraded"]["protocol_version_before"], &json["upgraded"]["protocol_version"]);
    assert!(before.as_u64().unwrap() < after.as_u64().unwrap(), "{json}");
    assert_eq!(run(&["torture", "--upgrade-from", earlier, "--rolling", "1"]).code, 2);
    assert_eq!(run(&["torture", "--upgrade-from", "/nowhere/quorate"]).code, 2);
}
