//! Procedures on server processes, by command.

use std::path::Path;

use serde_json::{Value, json};

use crate::servers::Servers;

/// The worked example: moves an amount from one account to another, and refuses an overdraft.
const TRANSFER: &[u8] = include_bytes!("../../../serializable/sandbox/tests/sandbox/transfer.wasm");

/// The first balance of an account, in bytes that a shell can write: the least significant first.
const OPENED: &str = "00000000";

fn written(directory: &Path, name: &str, bytes: &[u8]) -> String {
    let path = directory.join(name);
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A call that moves an amount from one to the other, and what it prints.
fn transfer(servers: &Servers, (from, to): (&str, &str), amount: u64, flags: &[&str]) -> Value {
    transfer_in(servers, "accounts", (from, to), amount, &[&["--key", from, "--key", to], flags].concat())
}

/// The same in this keyspace, where nothing is said of keys unless flags do.
fn transfer_in(
    servers: &Servers,
    keyspace: &str,
    (from, to): (&str, &str),
    amount: u64,
    flags: &[&str],
) -> Value {
    let name = |name: &str| [&[name.len() as u8], name.as_bytes()].concat();
    let arguments = [name(from), name(to), amount.to_le_bytes().to_vec()].concat();
    let hex: String = arguments.iter().map(|byte| format!("{byte:02x}")).collect();
    let words = ["procedure", "call", keyspace, "transfer", "--json", "--arguments-hex", &hex];
    let run = servers.run(&[&words[..], flags].concat());
    assert!(run.code == 0 || run.code == 1 && !run.out.is_empty(), "{}{}", run.out, run.err);
    run.json()
}

/// The balance of an account after so many were taken from it.
fn left(taken: u64) -> Value {
    let opened = u64::from_le_bytes(OPENED.as_bytes().try_into().unwrap());
    let hex: String = (opened - taken).to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    json!([hex])
}

fn list(servers: &Servers) -> Vec<Value> {
    let listed = servers.run(&["procedure", "list", "accounts", "--json"]);
    assert_eq!(listed.code, 0, "{}", listed.err);
    listed.json()["procedures"].as_array().unwrap().clone()
}

#[test]
fn a_procedure_is_deployed_called_and_removed_while_servers_come_and_go() {
    let directory = tempfile::tempdir().unwrap();
    let mut servers = Servers::start(directory.path(), &["a", "b", "c", "d"]);
    let created = servers.shell(&format!(
        "keyspace create accounts --isolation serializable --replicas 3 --sites a,b,c; put ada {OPENED}; put bob {OPENED}"
    ));
    assert_eq!(created.code, 0, "{}", created.err);
    let file = written(directory.path(), "transfer.wasm", TRANSFER);
    let deploy = ["procedure", "deploy", "accounts", "transfer", &file];
    let deployed = servers.run(&deploy);
    assert_eq!(
        (deployed.code, deployed.out.as_str()),
        (0, "deployed transfer, version 1\n"),
        "{}",
        deployed.err
    );
    let again = servers.run(&[&deploy[..], &["--json"]].concat()).json();
    assert_eq!((&again["version"], &again["stage"]), (&json!(1), &json!("deployed")), "{again}");
    assert_eq!(again["bytes"], json!(TRANSFER.len()));

    assert_eq!(transfer(&servers, ("ada", "bob"), 1, &[])["answers_hex"], left(1));
    let refused = transfer(&servers, ("ada", "bob"), u64::MAX, &[]);
    assert!(refused["refused"].as_str().unwrap().contains("does not hold that much"), "{refused}");

    // A node that comes back, or is new, has the code as well.
    servers.kill(0);
    assert_eq!(transfer(&servers, ("ada", "bob"), 1, &["--version", "1"])["answers_hex"], left(2));
    servers.start_again(0);
    servers.until("it serves again", |servers| servers.run(&["cluster", "status"]).code == 0);
    for from in ["1", "2"] {
        let to = if from == "1" { "3" } else { "1" };
        let moved = servers.run(&["cluster", "move", "accounts", "--from", from, "--to", to]);
        assert_eq!(moved.code, 0, "{}", moved.err);
    }
    servers.kill(2);
    assert_eq!(transfer(&servers, ("ada", "bob"), 1, &[])["answers_hex"], left(3));
    servers.start_again(2);

    let other = written(directory.path(), "other.wasm", &[TRANSFER, b"\0\x05\x04note"].concat());
    let second = servers.run(&["procedure", "deploy", "accounts", "transfer", &other, "--json"]).json();
    assert_eq!(second["version"], json!(2), "{second}");
    let removed = servers.run(&["procedure", "remove", "accounts", "transfer", "2"]);
    assert_eq!((removed.code, removed.out.as_str()), (0, "removed transfer, version 2\n"), "{}", removed.err);
    assert_eq!(
        servers.run(&["procedure", "remove", "accounts", "transfer", "2"]).code,
        0,
        "it is gone already"
    );
    assert_eq!(
        transfer(&servers, ("ada", "bob"), 1, &[])["answers_hex"],
        left(4),
        "the first is the greatest"
    );
    let gone = transfer(&servers, ("ada", "bob"), 1, &["--version", "2"]);
    assert!(gone["refused"].as_str().unwrap().contains("no version 2 of a procedure transfer"), "{gone}");
    let stages: Vec<_> =
        list(&servers).iter().map(|known| (known["version"].clone(), known["stage"].clone())).collect();
    assert_eq!(stages, [(json!(1), json!("deployed")), (json!(2), json!("removed"))]);
    let reused = servers.run(&["procedure", "deploy", "accounts", "transfer", &other, "--version", "2"]);
    assert!(reused.code == 2 && reused.err.contains("deploy this as another version"), "{}", reused.err);
}

#[test]
fn what_cannot_be_deployed_or_called_is_refused_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let servers = Servers::start(directory.path(), &["a", "b", "c"]);
    let created = servers.shell(
        "keyspace create accounts --isolation serializable; keyspace create wide --isolation serializable --shards 3; \
         keyspace create strict",
    );
    assert_eq!(created.code, 0, "{}", created.err);
    let file = |name: &str, bytes: &[u8]| written(directory.path(), name, bytes);
    let good = file("good.wasm", TRANSFER);
    let text = file("text.wasm", b"(module)");
    let cut = file("cut.wasm", &TRANSFER[..TRANSFER.len() / 2]);
    let large = file("large.wasm", &vec![0; (1 << 20) + 1]);
    // A function that adds two floating-point numbers, and a memory.
    let floats = file(
        "floats.wasm",
        b"\0asm\x01\0\0\0\x01\x06\x01\x60\x01\x7f\x01\x7f\x03\x02\x01\0\x05\x03\x01\0\x01\x07\x11\x02\x06memory\x02\0\x04call\0\0\
          \x0a\x12\x01\x10\0\x43\0\0\0\0\x43\0\0\0\0\x92\x1a\x41\0\x0b",
    );
    // A function that returns zero, a memory, and no footprint.
    let secret = file(
        "secret.wasm",
        b"\0asm\x01\0\0\0\x01\x06\x01\x60\x01\x7f\x01\x7f\x03\x02\x01\0\x05\x03\x01\0\x01\x07\x11\x02\x06memory\x02\0\x04call\0\0\
          \x0a\x06\x01\x04\0\x41\0\x0b",
    );
    let deployed = servers.run(&["procedure", "deploy", "wide", "secret", &secret]);
    assert_eq!(deployed.code, 0, "{}", deployed.err);
    let long = "x".repeat(201);
    let table: [(&[&str], i32, &str); 18] = [
        (&["deploy", "accounts", "p", &text], 1, "not valid WebAssembly"),
        (&["deploy", "accounts", "p", &cut], 1, "not valid WebAssembly"),
        (&["deploy", "accounts", "p", &large], 2, "the limit is 1048576"),
        (&["deploy", "accounts", "p", "/nowhere/p.wasm"], 2, "cannot read /nowhere/p.wasm"),
        (&["deploy", "accounts", "p", &floats], 1, "calculate with integers"),
        (&["deploy", "accounts", "p", &good, "--version", "0"], 2, "whole numbers from 1"),
        (&["deploy", "accounts", &long, &good], 2, "1 to 200 bytes"),
        (&["deploy", "accounts", "tpcc/payment", &good], 1, "linked with the server"),
        (&["deploy", "strict", "p", &good], 2, "isolation serializable"),
        (&["deploy", "nowhere", "p", &good], 2, "there are: accounts"),
        (&["call", "accounts", "p"], 1, "there is no procedure p: deploy it"),
        (&["call", "accounts", "tpcc/payment"], 1, "no transaction of TPC-C"),
        (&["call", "wide", "p"], 1, "there is no procedure p: deploy it"),
        (&["call", "wide", "secret"], 2, "name the keys"),
        (&["call", "wide", "tpcc/payment"], 1, "no transaction of TPC-C"),
        (&["call", "strict", "p"], 2, "isolation serializable"),
        (&["call", "accounts", "p", "--arguments-hex", "0"], 2, "two hexadecimal digits"),
        (&["remove", "accounts", "p", "7"], 2, "never had a version 7"),
    ];
    let transferring = servers.run(&["procedure", "deploy", "wide", "transfer", &good]);
    assert_eq!(transferring.code, 0, "{}", transferring.err);
    let opened = servers.shell(&format!("use wide; put {{team}}ada {OPENED}; put {{team}}bob {OPENED}"));
    assert_eq!(opened.code, 0, "{}", opened.err);
    let moved = transfer_in(&servers, "wide", ("{team}ada", "{team}bob"), 1, &[]);
    assert_eq!(moved["answers_hex"], left(1), "the procedure says where it is to be called: {moved}");
    for (words, code, reason) in table {
        let refused = servers.run(&[&["procedure"], words].concat());
        assert_eq!((refused.code, refused.out.as_str()), (code, ""), "{words:?}: {}", refused.err);
        assert!(refused.err.contains(reason), "{words:?}: {}", refused.err);
    }
    assert_eq!(list(&servers), Vec::<Value>::new(), "what was refused leaves no version behind");
}

#[test]
fn tpcc_runs_on_server_processes_and_its_conditions_hold() {
    let bench =
        ["bench", "tpcc", "--embedded", "--warehouses", "2", "--shards", "2", "--durability", "memory"];
    let run = crate::run(&[&bench[..], &["--clients", "8", "--seconds", "2", "--json"]].concat());
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    let report = run.json();
    assert_eq!((&report["violations"], &report["procedures"]), (&json!([]), &json!("linked")), "{report}");
    let count = |name: &str| report[name].as_u64().unwrap();
    assert!(count("committed") > 100 && count("unknown") + count("refused") == 0, "{report}");
    assert_eq!(report["by_transaction"].as_object().unwrap().len(), 5, "{report}");
    for field in ["busiest_server_cpu_us_per_txn", "mean_batch"] {
        assert!(report[field].as_f64() > Some(0.0), "{field}: {report}");
    }
    assert!(report["syncs"].is_u64(), "{report}");
    // All that the contract promises of any workload.
    let promised = [
        "workload",
        "isolation",
        "clients",
        "seconds",
        "committed",
        "aborted",
        "abort_rate",
        "throughput_tps",
        "latency_us",
        "server_cpu_us_per_txn",
        "busiest_server_cpu_us_per_txn",
        "client_cpu_us_per_txn",
        "messages_per_txn",
        "bytes_per_txn",
        "syncs",
        "mean_batch",
        "durability",
        "shards",
        "replicas",
        "cores",
    ];
    let missing: Vec<&str> = promised.into_iter().filter(|field| report[field].is_null()).collect();
    assert_eq!(missing, Vec::<&str>::new(), "{report}");
    for percentile in ["p50", "p99", "p999"] {
        assert!(report["latency_us"][percentile].as_f64() > Some(0.0), "{percentile}: {report}");
    }

    for (flags, reason) in [
        (&["--procedures", "/nowhere/tpcc.wasm"][..], "rustup target add wasm32-unknown-unknown"),
        (&["--isolation", "strict", "--procedures", "/nowhere/tpcc.wasm"], "serializable keyspaces only"),
        (&["--baseline", "txn-occ"], "leave out --baseline"),
        (&["--mix", "D"], "standard, A, B and C"),
        (&["--mix", "50/50/1"], "a hundred together"),
        (&["--away", "10"], "begins at home"),
    ] {
        let refused = crate::run(&[&bench[..], flags].concat());
        assert!(refused.code == 2 && refused.err.contains(reason), "{flags:?}: {}", refused.err);
    }
    let pointless = crate::run(&["bench", "rmw", "--embedded", "--full-size"]);
    assert!(pointless.code == 2 && pointless.err.contains("options of tpcc"), "{}", pointless.err);
}
