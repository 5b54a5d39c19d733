//! A node whose configuration is read again while it runs, and what it logs.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use quorate_cluster::free_addresses;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{Run, quorate, run};

/// A node that is alone in its cluster.
struct Alone {
    directory: tempfile::TempDir,
    addresses: Vec<String>,
    process: Child,
}

impl Alone {
    fn start(flags: &[&str], logging: &str) -> Alone {
        let directory = tempfile::tempdir().unwrap();
        let addresses = free_addresses(2).unwrap();
        let config = directory.path().join("node.toml");
        std::fs::write(&config, text(directory.path(), &addresses, logging)).unwrap();
        let log = File::create(directory.path().join("node.log")).unwrap();
        let mut command = quorate();
        command.arg("server").arg("--config").arg(&config).arg("--initialise").args(flags);
        let process = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let alone = Alone { directory, addresses, process };
        alone.until("the node is ready", |alone| alone.probe().code == 0);
        alone
    }

    fn config(&self) -> PathBuf {
        self.directory.path().join("node.toml")
    }

    /// Writes the file anew, and has it read.
    fn reload(&self, text: &str) {
        std::fs::write(self.config(), text).unwrap();
        kill_process(Pid::from_child(&self.process), Signal::HUP).unwrap();
    }

    fn text(&self, rest: &str) -> String {
        text(self.directory.path(), &self.addresses, rest)
    }

    fn probe(&self) -> Run {
        run(&["server", "--config", self.config().to_str().unwrap(), "--probe"])
    }

    fn problems(&self) -> Vec<String> {
        let status = run(&["cluster", "status", "--json", "--connect", &self.addresses[0]]).json();
        let problems = status["nodes"][0]["problems"].as_array().unwrap().iter();
        problems.map(|problem| problem.as_str().unwrap().to_owned()).collect()
    }

    fn log(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.directory.path().join("node.log")).unwrap();
        log.lines().map(str::to_owned).collect()
    }

    /// The line of the log that says this, as the object that it is; none if there is no such line yet.
    fn object(&self, message: &str) -> Option<Value> {
        let mut objects = self.log().into_iter().filter_map(|line| serde_json::from_str::<Value>(&line).ok());
        let says =
            |object: &Value| object["fields"]["message"].as_str().is_some_and(|said| said.contains(message));
        objects.rfind(says)
    }

    fn until(&self, what: &str, holds: impl Fn(&Alone) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !holds(self) {
            assert!(Instant::now() < deadline, "not in time: {what}; {:?}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        // One that has ended already cannot be killed, which is no matter.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn text(directory: &Path, addresses: &[String], rest: &str) -> String {
    format!(
        "node = 0\ndata_directory = {:?}\nhttp = {:?}\nsites = [\"us\"]\n[cluster]\nname = \"alone\"\nid = 7\n\
         [[nodes]]\nsite = \"us\"\naddress = {:?}\n{rest}",
        directory.join("data"),
        addresses[1],
        addresses[0]
    )
}

#[test]
fn a_hangup_takes_over_levels_and_limits_and_a_bad_file_changes_nothing() {
    let node = Alone::start(&[], "[logging]\nformat = \"json\"\nlevel = \"warn\"\n");
    assert!(node.log().is_empty(), "nothing is to be warned of: {:?}", node.log());
    let limits = "[limits]\nprepared_high = 7\nhttp_timeout_ms = 1000\n";
    node.reload(&node.text(&format!("{limits}[logging]\nformat = \"json\"\nlevel = \"info\"\n")));
    node.until("the file is read", |node| node.object("was read again").is_some());
    let said = node.object("was read again").unwrap();
    let named = |field: &str| said["fields"][field].as_str().unwrap().to_owned();
    assert_eq!(named("taken_over"), r#"["limits.prepared_high", "logging.level"]"#);
    assert_eq!(named("after_restart"), r#"["limits.http_timeout_ms"]"#);
    assert_eq!((said["level"].as_str(), node.problems().len()), (Some("INFO"), 0));

    for (wrong, why) in [
        ("[limits]\nprepared_high = 0\n", "prepared_high must not be 0"),
        ("[logging]\nlevel = \"quorate=loud\"\n", "logging.level"),
    ] {
        node.reload(&node.text(wrong));
        node.until("the file is refused", |node| {
            node.object("the one before stays in force").is_some_and(|said| said.to_string().contains(why))
        });
        let problems = node.problems();
        assert!(problems.len() == 1 && problems[0].contains(why), "{problems:?}");
    }
    node.reload(&node.text(limits));
    node.until("the file is taken", |node| node.problems().is_empty());
    assert_eq!(node.probe().code, 0);
    for line in node.log() {
        assert!(
            serde_json::from_str::<Value>(&line).is_ok_and(|line| line["timestamp"].is_string()),
            "{line}"
        );
    }
}

#[test]
fn the_form_of_the_log_on_the_command_line_comes_before_that_of_the_file() {
    let node = Alone::start(&["--log-format", "json"], "");
    let listening = node.object("listening").unwrap();
    assert_eq!(listening["fields"]["cluster"].as_str(), Some("alone"), "{listening}");
    node.reload(&node.text("[logging]\nlevel = \"debug\"\n"));
    node.until("the file is read", |node| node.object("was read again").is_some());
    let said = node.object("was read again").unwrap();
    assert_eq!(said["fields"]["after_restart"].as_str(), Some("[]"), "{said}");
    let plain = Alone::start(&[], "");
    assert!(plain.log().iter().any(|line| line.contains("listening")) && plain.object("listening").is_none());
}

#[test]
fn a_node_that_is_not_there_is_not_ready() {
    let mut node = Alone::start(&[], "");
    node.process.kill().unwrap();
    node.process.wait().unwrap();
    let probed = node.probe();
    assert!(probed.code == 1 && probed.err.contains("does not answer at"), "{}", probed.err);
    let example = node.directory.path().join("without.toml");
    let without =
        node.text("").lines().filter(|line| !line.starts_with("http")).collect::<Vec<_>>().join("\n");
    std::fs::write(&example, without).unwrap();
    let probed = run(&["server", "--config", example.to_str().unwrap(), "--probe"]);
    assert!(probed.code == 1 && probed.err.contains("`http`"), "{}", probed.err);
}
