//! Clients that people use, unmodified: redis-py, ioredis, redis-cli, redis-benchmark, go-redis and Jedis.
//!
//! `.ci/run` installs the first two into `target/clients`. Those that are not there are not tried, of which each says so; where
//! `QUORATE_CLIENTS` names the folder they have to be there. Those for Go and Java are fetched and compiled each time, so they run only where that is asked
//! for (`-- --ignored`).

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

/// A program of these tests.
fn script(name: &str) -> String {
    format!("{}/tests/clients/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Runs a program in a folder, with this input, and gives what it prints; none if it is not installed.
fn run(program: &Path, arguments: &[&str], folder: &Path, input: Stdio) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments).env("NODE_PATH", folder.join("node_modules")).stdin(input);
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

/// True if a client has said something; else it is not installed, which must not be where clients have to be there.
fn is_tried(client: &str, said: &Option<String>, must_be_there: bool) -> bool {
    assert!(said.is_some() || !must_be_there, "{client} is not there");
    if said.is_none() {
        eprintln!("{client} is not tried: it is not installed");
    }
    said.is_some()
}

#[test]
fn unmodified_clients_work() {
    let cluster = Cluster::start();
    let port = cluster.door.port().to_string();
    let (folder, must_be_there) = folder();
    let (python, node) = (script("smoke.py"), script("smoke.cjs"));
    let redis_py = run(&folder.join("python/bin/python"), &[&python, &port], &folder, Stdio::null());
    if is_tried("redis-py", &redis_py, must_be_there) {
        assert!(redis_py.unwrap_or_default().contains("works"));
    }
    let has_ioredis = folder.join("node_modules/ioredis").is_dir();
    let ioredis =
        has_ioredis.then(|| run(Path::new("node"), &[&node, &port], &folder, Stdio::null())).flatten();
    if is_tried("ioredis", &ioredis, must_be_there) {
        assert!(ioredis.unwrap_or_default().contains("works"));
    }
    the_command_line_works(&port, &folder);
    the_benchmark_works(&port, &folder);
}

/// Commands of redis-cli, one run for each: the arguments and what it prints.
const LINES: [(&[&str], &str); 7] = [
    (&["--no-raw", "incr", "by-hand"], "(integer) 1\n"),
    (&["-3", "--no-raw", "hset", "of-cli", "f", "v"], "(integer) 1\n"),
    (&["-3", "--no-raw", "hgetall", "of-cli"], "1# \"f\" => \"v\"\n"),
    (
        &["--no-raw", "eval", "return {KEYS[1], redis.call('get', KEYS[1])}", "1", "by-hand"],
        "1) \"by-hand\"\n2) \"1\"\n",
    ),
    (&["--no-raw", "blpop", "none", "0.05"], "(nil)\n"),
    (&["--scan", "--pattern", "of-c*"], "of-cli\n"),
    (&["-r", "3", "-i", "0", "incrby", "by-hand", "2"], "3\n5\n7\n"),
];

fn the_command_line_works(port: &str, folder: &Path) {
    let cli = Path::new("redis-cli");
    for (arguments, expected) in LINES {
        let said = run(cli, &[&["-p", port], arguments].concat(), folder, Stdio::null());
        if !is_tried("redis-cli", &said, false) {
            return;
        }
        assert_eq!(said.as_deref(), Some(expected), "{arguments:?}");
    }
    // Lines of one connection, and a million bytes for `--pipe`.
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        Stdio::from(std::fs::File::open(path).unwrap())
    };
    let lines = file("lines", b"watch by-hand\nmulti\nincr by-hand\nget of-cli\nexec\n");
    let said = run(cli, &["-p", port, "--no-raw"], folder, lines).unwrap();
    assert!(
        said.ends_with(
            "1) (integer) 8\n2) (error) WRONGTYPE Operation against a key holding the wrong kind of value\n"
        ),
        "{said}"
    );
    let set = |number: usize| {
        crate::wire::encode(&["set".into(), format!("pipe:{number}").into(), vec![b'x'; 1_000]])
    };
    let pipe = file("pipe", &(0..1_000).flat_map(set).collect::<Vec<_>>());
    let said = run(cli, &["-p", port, "--pipe"], folder, pipe).unwrap();
    assert!(said.contains("errors: 0, replies: 1000"), "{said}");
}

/// All that it measures, with pipelines and without, over both versions of the protocol.
fn the_benchmark_works(port: &str, folder: &Path) {
    for options in [
        &["-n", "200", "-c", "5"][..],
        &["-n", "800", "-c", "5", "-P", "16", "-r", "50"],
        &["-n", "200", "-3", "-t", "set,get"],
    ] {
        let arguments = [&["-p", port, "-q"], options].concat();
        let said = run(Path::new("redis-benchmark"), &arguments, folder, Stdio::null());
        if !is_tried("redis-benchmark", &said, false) {
            return;
        }
        let said = said.unwrap_or_default();
        assert!(said.contains("GET") && !said.contains("rror"), "{options:?}: {said}");
    }
}

#[test]
#[ignore = "fetches go-redis and compiles it"]
fn go_redis_works() {
    let cluster = Cluster::start();
    let (port, go) = (cluster.door.port().to_string(), script("go"));
    let said = run(Path::new("go"), &["-C", &go, "run", ".", &port], Path::new(&go), Stdio::null());
    assert!(said.is_some_and(|said| said.contains("works")), "go is not installed");
}

#[test]
#[ignore = "fetches Jedis and compiles a class"]
fn jedis_works() {
    let cluster = Cluster::start();
    let (port, project) = (cluster.door.port().to_string(), script("java/pom.xml"));
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (classes, output) = (path("classes"), format!("-DoutputDirectory={}", path("classes")));
    let fetch = ["-q", "-B", "-f", &project, "dependency:copy-dependencies", &output];
    assert!(run(Path::new("mvn"), &fetch, directory.path(), Stdio::null()).is_some(), "mvn is not installed");
    let classpath = format!("{classes}/*");
    let java = ["-cp", &classpath, &script("java/Smoke.java"), &port];
    let said = run(Path::new("java"), &java, directory.path(), Stdio::null());
    assert!(said.is_some_and(|said| said.contains("works")), "java is not installed");
}
