//! Clients that people use, unmodified: redis-py, ioredis, redis-cli and redis-benchmark.
//!
//! `.ci/run` installs the first two into `target/clients`. Those that are not there are not tried, of which each says so; where
//! `QUORATE_CLIENTS` names the folder they have to be there.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cluster::Cluster;

/// The folder that clients are installed in, and whether they must be there.
fn folder() -> (PathBuf, bool) {
    match std::env::var_os("QUORATE_CLIENTS") {
        Some(folder) => (PathBuf::from(folder), true),
        None => (Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/clients"), false),
    }
}

/// Runs a program, and gives what it prints; none if it is not installed.
fn run(program: &Path, arguments: &[&str], folder: &Path) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments).env("NODE_PATH", folder.join("node_modules")).stdin(Stdio::null());
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => panic!("{}: {error}", program.display()),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{} {arguments:?}: {}{}",
        program.display(),
        text(&output.stdout),
        text(&output.stderr)
    );
    Some(text(&output.stdout))
}

#[test]
fn unmodified_clients_work() {
    let cluster = Cluster::start();
    let port = cluster.door.port().to_string();
    let (folder, must_be_there) = folder();
    let script = |name: &str| format!("{}/tests/clients/{name}", env!("CARGO_MANIFEST_DIR"));
    let (python, node) = (script("smoke.py"), script("smoke.cjs"));
    let has_ioredis = folder.join("node_modules/ioredis").is_dir();
    let tried = [
        ("redis-py", run(&folder.join("python/bin/python"), &[&python, &port], &folder), must_be_there),
        (
            "ioredis",
            has_ioredis.then(|| run(Path::new("node"), &[&node, &port], &folder)).flatten(),
            must_be_there,
        ),
        (
            "redis-cli",
            run(Path::new("redis-cli"), &["-p", &port, "--no-raw", "incr", "by-hand"], &folder),
            false,
        ),
        (
            "redis-benchmark",
            run(
                Path::new("redis-benchmark"),
                &["-p", &port, "-t", "set,get,incr", "-n", "500", "-q"],
                &folder,
            ),
            false,
        ),
    ];
    for (client, said, must_be_there) in tried {
        match said {
            Some(said) if client == "redis-cli" => assert_eq!(said, "(integer) 1\n"),
            Some(said) if client == "redis-benchmark" => assert!(said.contains("INCR"), "{said}"),
            Some(said) => assert!(said.contains("works"), "{client}: {said}"),
            None => {
                assert!(!must_be_there, "{client} is not in {}", folder.display());
                eprintln!("{client} is not tried: it is not installed");
            }
        }
    }
}
