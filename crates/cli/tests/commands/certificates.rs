//! Certificates as users make them, and a development cluster that has some.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use quorate_cluster::free_addresses;
use rustix::process::{Pid, Signal, kill_process};

use crate::{quorate, run};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn certificates_are_made_shown_and_not_replaced_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let dir = text(folder.path());
    let before = run(&["certificates", "create-node", "0", "--cluster", "shop", "--dir", dir]);
    assert_eq!(before.code, 2);
    assert!(before.err.contains("ca.crt") && before.err.contains("create-ca"), "{}", before.err);
    assert_eq!(run(&["certificates", "create-ca", "--dir", dir]).code, 0);
    let again = run(&["certificates", "create-ca", "--dir", dir]);
    assert_eq!(again.code, 2);
    assert!(again.err.contains("--force"), "{}", again.err);
    let made = run(&[
        "certificates",
        "create-node",
        "7",
        "--cluster",
        "my shop",
        "--host",
        "db7",
        "--dir",
        dir,
        "--json",
    ])
    .json();
    assert_eq!(made["identity"], "quorate://my%20shop/node/7");
    assert_eq!(made["hosts"], serde_json::json!(["localhost", "db7"]));
    let shown = run(&["certificates", "show", made["certificate"].as_str().unwrap(), "--json"]).json();
    assert_eq!(shown["certificates"][0]["serial"], made["serial"]);
    assert_eq!(
        run(&["certificates", "create-user", "alice", "--cluster", "shop", "--dir", dir, "--days", "30"])
            .code,
        0
    );
    let shown = run(&["certificates", "show", text(&folder.path().join("user-alice.crt"))]);
    assert!(
        shown.out.contains("user alice of cluster \"shop\"") && shown.out.contains("serial"),
        "{}",
        shown.out
    );
    for (arguments, reason) in [
        (&["create-user", "a b", "--cluster", "shop"][..], "no name of a user"),
        (&["create-node", "1", "--cluster", ""], "name of the cluster is empty"),
        (&["create-node", "1", "--cluster", "shop", "--host", "a b"], "no name or address of a host"),
        (&["create-node", "1", "--cluster", "shop", "--days", "0"], "choose 1 to 36500"),
    ] {
        let refused = run(&[&["certificates"], arguments, &["--dir", dir]].concat());
        assert_eq!(refused.code, 2, "{arguments:?}");
        assert!(refused.err.contains(reason), "{}", refused.err);
    }
    let none = run(&["certificates", "show", text(&folder.path().join("ca.key"))]);
    assert_eq!(none.code, 2);
    assert!(none.err.contains("no certificate"), "{}", none.err);
}

/// A development cluster, until this is dropped.
struct Dev(Child);

impl Drop for Dev {
    fn drop(&mut self) {
        let pid = Pid::from_child(&self.0);
        let _ = kill_process(pid, Signal::INT);
        let _ = self.0.wait();
    }
}

impl Dev {
    /// Starts one, and reads its welcome.
    fn start(arguments: &[&str]) -> (Dev, String) {
        let mut child = quorate()
            .arg("dev")
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut welcome = String::new();
        let dev = Dev(child);
        while !welcome.contains("Ctrl-C") {
            welcome.push_str(&lines.next().unwrap_or_else(|| panic!("it did not start: {welcome}")).unwrap());
            welcome.push('\n');
        }
        (dev, welcome)
    }
}

/// Speaks TLS by another library than that of the servers, as any program does: PING at the door for Redis, and a request at that for HTTP.
const PROGRAM: &str = r#"
import socket, ssl, sys, urllib.request
ca, redis, http = sys.argv[1:]
context = ssl.create_default_context(cafile=ca)
host, port = redis.rsplit(":", 1)
with context.wrap_socket(socket.create_connection((host, int(port)), 30), server_hostname=host) as talk:
    assert talk.version() == "TLSv1.3", talk.version()
    talk.sendall(b"*1\r\n$4\r\nPING\r\n" * 2000)
    answer = b""
    while len(answer) < 7 * 2000:
        part = talk.recv(65536)
        assert part, answer[-100:]
        answer += part
    assert answer == b"+PONG\r\n" * 2000, answer[:100]
with urllib.request.urlopen(f"https://{http}/v1/keyspaces", context=context, timeout=30) as answer:
    assert answer.status == 200
    assert b"redis" in answer.read()
try:
    urllib.request.urlopen(f"https://{http}/v1/keyspaces", timeout=30)
    sys.exit("any authority is believed")
except OSError as error:
    assert "CERTIFICATE_VERIFY_FAILED" in str(error), error
try:
    urllib.request.urlopen(f"http://{http}/v1/keyspaces", timeout=30)
    sys.exit("plain text is answered")
except urllib.error.HTTPError as error:
    assert error.code == 400 and b"TLS only" in error.read(), error
with socket.create_connection((host, int(port)), 30) as talk:
    talk.sendall(b"PING\r\n")
    answer = talk.recv(1000)
    assert answer.startswith(b"-ERR this door speaks TLS only"), answer
print("ok")
"#;

#[test]
fn a_development_cluster_with_certificates_serves_users_and_doors_by_tls() {
    let folder = tempfile::tempdir().unwrap();
    let (data, certificates) = (folder.path().join("data"), folder.path().join("certificates"));
    let addresses = free_addresses(8).unwrap();
    let (first, redis, http) = (&addresses[0], &addresses[3], &addresses[4]);
    let arguments = [
        "--dir",
        text(&data),
        "--tls",
        text(&certificates),
        "--listen",
        first,
        "--redis",
        redis,
        "--http",
        http,
    ];
    let (dev, welcome) = Dev::start(&arguments);
    assert!(welcome.contains("--certificate-key") && welcome.contains("https://"), "{welcome}");
    let file = |name: &str| certificates.join(name).display().to_string();
    let connect = |user: &str| {
        let (ca, certificate, key) =
            (file("ca.crt"), file(&format!("{user}.crt")), file(&format!("{user}.key")));
        move |words: &[&str]| {
            let tls =
                ["--connect", first, "--ca", &ca, "--certificate", &certificate, "--certificate-key", &key];
            run(&[words, &tls].concat())
        }
    };
    let admin = connect("user-admin");
    let shell =
        admin(&["shell", "-e", "keyspace create accounts --isolation strict; put alice 100; get alice"]);
    assert_eq!(shell.code, 0, "{}", shell.err);
    assert!(shell.out.contains("100"), "{}", shell.out);
    let status = admin(&["cluster", "status", "--json"]).json();
    assert_eq!(status["nodes"][0]["security"]["transport"], "tls");
    // A user that is none, and a connection without certificates.
    let node = connect("node-1")(&["shell", "-e", "get alice"]);
    assert_eq!(node.code, 2);
    assert!(node.err.contains("needs the certificate of a user"), "{}", node.err);
    let plain = run(&["shell", "--connect", first, "-e", "get alice"]);
    assert_eq!(plain.code, 1);
    assert!(plain.err.contains("speaks TLS only"), "{}", plain.err);

    let python = Command::new("python3").args(["-c", PROGRAM, &file("ca.crt"), redis, http]).output();
    match python {
        Ok(talked) => {
            let told = String::from_utf8_lossy(&talked.stderr);
            assert!(talked.status.success(), "{told}");
        }
        Err(error) => eprintln!("the doors are not tried: python3 cannot be run ({error})"),
    }
    drop(dev);
}

#[test]
fn a_server_that_would_speak_plain_text_to_other_machines_does_not_start_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let address = free_addresses(1).unwrap().remove(0);
    let port = address.rsplit_once(':').unwrap().1;
    let file = folder.path().join("node-0.toml");
    let write = |asks: &str| {
        let data = folder.path().join("data");
        let config = format!(
            "node = 0\ndata_directory = {data:?}\nlisten = \"0.0.0.0:{port}\"\n{asks}sites = [\"a\"]\n[cluster]\nname = \"shop\"\nid = 7\n[[nodes]]\nsite = \"a\"\naddress = \"{address}\"\n"
        );
        std::fs::write(&file, config).unwrap();
    };
    write("");
    let refused = run(&["server", "--config", text(&file), "--initialise"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("line 3") && refused.err.contains("insecure = true"), "{}", refused.err);
    write("insecure = true\n");
    let mut server = quorate();
    server.args(["server", "--config", text(&file), "--initialise", "--die-with-parent"]);
    let dev = Dev(server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let status = loop {
        let status = run(&["cluster", "status", "--connect", &address]);
        if status.out.contains("speaks plain text at 0.0.0.0") {
            break status;
        }
        assert!(std::time::Instant::now() < deadline, "{}{}", status.out, status.err);
        std::thread::sleep(std::time::Duration::from_millis(200));
    };
    assert!(status.out.contains("insecure = true"), "{}", status.out);
    drop(dev);
}
