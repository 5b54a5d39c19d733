//! Server processes in three sites, which are lost one after the other.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::clusters::three_free_ports;
use crate::{Run, quorate, run};

/// Three nodes, each in a site of its own.
struct Sites {
    processes: Vec<Child>,
    addresses: Vec<String>,
}

impl Sites {
    fn start(directory: &Path) -> Sites {
        let first = three_free_ports();
        let (host, port) = first.split_once(':').unwrap();
        let port: u16 = port.parse().unwrap();
        let addresses: Vec<_> = (port..port + 3).map(|port| format!("{host}:{port}")).collect();
        let start = |node: usize| {
            let data = directory.join(format!("node-{node}"));
            let mut text = format!(
                "node = {node}\ndata_directory = {data:?}\nsites = [\"a\", \"b\", \"c\"]\n[cluster]\nname = \"sites\"\nid = 7\n"
            );
            for (site, address) in ["a", "b", "c"].iter().zip(&addresses) {
                text.push_str(&format!("[[nodes]]\nsite = \"{site}\"\naddress = \"{address}\"\n"));
            }
            let config = directory.join(format!("node-{node}.toml"));
            std::fs::write(&config, text).unwrap();
            let mut command = quorate();
            command.arg("server").arg("--config").arg(config).arg("--initialise");
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        };
        let sites = Sites { processes: (0..3).map(start).collect(), addresses };
        sites.until("the cluster starts", |sites| sites.run(&["cluster", "status"]).code == 0);
        sites
    }

    /// Kills the node of a site.
    fn lose(&mut self, site: usize) {
        self.processes[site].kill().unwrap();
        self.processes[site].wait().unwrap();
    }

    /// Runs a command with the last node, which is never lost.
    fn run(&self, words: &[&str]) -> Run {
        run(&[words, &["--connect", &self.addresses[2]]].concat())
    }

    fn shell(&self, statements: &str) -> Run {
        self.run(&["shell", "-e", statements])
    }

    fn until(&self, what: &str, holds: impl Fn(&Sites) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !holds(self) {
            assert!(Instant::now() < deadline, "not in time: {what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Sites {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

#[test]
fn a_site_is_lost_and_everything_goes_on_and_without_two_what_is_there_is_served() {
    let directory = tempfile::tempdir().unwrap();
    let mut sites = Sites::start(directory.path());
    let created = sites
        .shell("keyspace create before; put alice 1; keyspace create near --replicas 1 --sites c; put bob 2");
    assert_eq!(created.code, 0, "{}", created.err);

    // The one that leads the configuration service, at first.
    sites.lose(0);
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

    sites.lose(1);
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
