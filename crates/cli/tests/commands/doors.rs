//! The doors of server processes under faults, with a client library that people use.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use quorate_cluster::{Begin, Layout, Processes, RedisDoors, free_addresses};
use quorate_core::Random;

use crate::{quorate, run};

/// How long the clients work, and for how much of that faults strike.
const CLIENTS_SECONDS: u64 = 10;
const FAULTS_LAST: Duration = Duration::from_secs(7);

/// How long a command may take at a door: less than the clients wait.
const DOOR_DEADLINE: Duration = Duration::from_secs(2);

const SEED: u64 = 11;

/// The interpreter that has redis-py; none if it is not installed, which must not be where `QUORATE_CLIENTS` names the folder.
fn python() -> Option<PathBuf> {
    let named = std::env::var_os("QUORATE_CLIENTS").map(PathBuf::from);
    let usual = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/clients");
    let python = named.clone().unwrap_or_else(usual).join("python/bin/python");
    assert!(named.is_none() || python.exists(), "there is no {}", python.display());
    let has_it = Command::new(&python).args(["-c", "import redis"]).stderr(Stdio::null()).status();
    has_it.is_ok_and(|status| status.success()).then_some(python)
}

/// Three nodes in three sites, each with a door for Redis to the keyspace of this name.
fn layout(directory: &Path, keyspace: &str) -> Layout {
    let sites: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
    Layout {
        cluster: u64::from(std::process::id()),
        nodes: sites.iter().map(|site| (site.clone(), String::new())).collect(),
        listen: Vec::new(),
        http: Vec::new(),
        sites,
        directory: directory.to_owned(),
        wan: None,
        durability: quorate::Durability::Sync,
        log: Default::default(),
        limits: Default::default(),
        redis: Some(RedisDoors {
            listen: free_addresses(3).unwrap(),
            keyspace: keyspace.to_owned(),
            deadline: DOOR_DEADLINE,
        }),
        tls: None,
        protocol_version: None,
        threads: quorate_server::EventLoops::default(),
    }
}

/// Kills a node and starts it again, or has it stand still, one after the other.
fn strike(processes: &mut Processes, random: &mut Random) {
    let (node, lasts) = (random.index(3), Duration::from_millis(random.between(100, 900)));
    if random.chance(0.5) {
        processes.kill_node(node).unwrap();
        std::thread::sleep(lasts);
        processes.start_node(node, Begin::Again).unwrap();
    } else {
        processes.pause_node(node).unwrap();
        std::thread::sleep(lasts);
        processes.resume_node(node).unwrap();
    }
    std::thread::sleep(Duration::from_millis(random.between(100, 900)));
}

#[test]
fn redis_py_loses_no_acknowledged_write_while_nodes_are_killed_and_stand_still() {
    let Some(python) = python() else {
        eprintln!("redis-py is not tried: it is not installed");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let mut layout = layout(directory.path(), "redis");
    let mut processes = Processes::start(Path::new(env!("CARGO_BIN_EXE_quorate")), &mut layout).unwrap();
    let create = ["keyspace", "create", "redis", "--isolation", "serializable", "--shards", "2", "--connect"];
    let began = Instant::now();
    while run(&[&create[..], &[&layout.addresses()[0]]].concat()).code != 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "the keyspace cannot be created");
        std::thread::sleep(Duration::from_millis(200));
    }
    let history = directory.path().join("history.jsonl");
    let doors = layout.redis.as_ref().unwrap().listen.iter();
    let ports: Vec<&str> = doors.map(|address| address.rsplit_once(':').unwrap().1).collect();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../doors/redis/tests/clients/faults.py");
    let clients = Command::new(python)
        .arg(script)
        .args([SEED.to_string(), CLIENTS_SECONDS.to_string()])
        .arg(&history)
        .args(ports)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut random, began) = (Random::new(SEED).fork(), Instant::now());
    while began.elapsed() < FAULTS_LAST {
        strike(&mut processes, &mut random);
    }
    let said = crate::Run::from(clients.wait_with_output().unwrap());
    assert!(said.code == 0 && said.out.contains("works"), "{}{}", said.out, said.err);
    assert_eq!(processes.trouble(), None);
    let level = ["check", history.to_str().unwrap(), "--level", "session-serializable", "--json"];
    let judged: crate::Run = quorate().args(level).output().unwrap().into();
    assert_eq!(judged.code, 0, "{}{}", judged.out, judged.err);
    let verified = run(&["cluster", "verify", "--connect", &layout.addresses()[0]]);
    assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
}
