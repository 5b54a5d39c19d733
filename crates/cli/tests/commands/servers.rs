//! A cluster of server processes that commands are given to.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use quorate_cluster::free_addresses;
use rustix::process::{Pid, Signal, kill_process};

use crate::{Run, quorate, run};

/// A process for each node, whose data is removed by the test that started it.
pub(crate) struct Servers {
    configs: Vec<std::path::PathBuf>,
    processes: Vec<Child>,
    addresses: Vec<String>,
    /// Where each node serves HTTP.
    http: Vec<String>,
    cluster: u64,
}

impl Servers {
    /// Starts a new cluster with a node in each of these sites. The first three hold the configuration service.
    pub(crate) fn start(directory: &Path, sites: &[&str]) -> Servers {
        Servers::start_with(directory, sites, false).0
    }

    /// The same, with a door for HTTP at each node, and the delays between the sites of the matrix `tapir`; tells where the doors are.
    pub(crate) fn start_with_doors(directory: &Path, sites: &[&str]) -> (Servers, Vec<String>) {
        Servers::start_with(directory, sites, true)
    }

    fn start_with(directory: &Path, sites: &[&str], has_doors: bool) -> (Servers, Vec<String>) {
        let mut addresses = free_addresses(3 * sites.len()).unwrap();
        let doors = addresses.split_off(2 * sites.len());
        let http = addresses.split_off(sites.len());
        let cluster = addresses[0].rsplit_once(':').unwrap().1.parse().unwrap();
        let config = |node: usize| {
            let data = directory.join(format!("node-{node}"));
            let mut text = format!(
                "node = {node}\ndata_directory = {data:?}\nhttp = {:?}\nsites = {sites:?}\n[cluster]\nname = \"servers\"\nid = {}\n\
                 [system]\nreplicas = [0, 1, 2]\n",
                http[node], cluster
            );
            for (site, address) in sites.iter().zip(&addresses) {
                text.push_str(&format!("[[nodes]]\nsite = \"{site}\"\naddress = \"{address}\"\n"));
            }
            if has_doors {
                text.push_str(&format!(
                    "[wan]\nmatrix = \"tapir\"\n[doors.http]\nlisten = {:?}\n",
                    doors[node]
                ));
            }
            let config = directory.join(format!("node-{node}.toml"));
            std::fs::write(&config, text).unwrap();
            config
        };
        let configs: Vec<_> = (0..sites.len()).map(config).collect();
        let processes = configs.iter().map(|config| spawn(config, &["--initialise"])).collect();
        let servers = Servers { configs, processes, addresses, http, cluster };
        servers.until("the cluster starts", |servers| servers.run(&["cluster", "status"]).code == 0);
        (servers, doors)
    }

    /// The id of the cluster.
    pub(crate) fn cluster(&self) -> u64 {
        self.cluster
    }

    /// The metrics of a node, as Prometheus reads them.
    pub(crate) fn metrics(&self, node: usize) -> String {
        let mut stream = TcpStream::connect(&self.http[node]).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Kills a node.
    pub(crate) fn kill(&mut self, node: usize) {
        self.processes[node].kill().unwrap();
        self.processes[node].wait().unwrap();
    }

    /// Lets a node stand still, or go on.
    pub(crate) fn signal(&self, node: usize, signal: Signal) {
        kill_process(Pid::from_child(&self.processes[node]), signal).unwrap();
    }

    /// Starts a node again that was killed.
    pub(crate) fn start_again(&mut self, node: usize) {
        self.processes[node] = spawn(&self.configs[node], &[]);
    }

    /// Starts a node whose disk was lost.
    pub(crate) fn replace(&mut self, node: usize) {
        self.processes[node] = spawn(&self.configs[node], &["--initialise=replace"]);
    }

    /// The number of the node that is found at this address.
    pub(crate) fn node_at(&self, address: &str) -> usize {
        self.addresses.iter().position(|known| known == address).unwrap()
    }

    /// The addresses of all nodes, as commands take them.
    pub(crate) fn addresses(&self) -> String {
        self.addresses.join(",")
    }

    /// Runs a command with whichever node answers.
    pub(crate) fn run(&self, words: &[&str]) -> Run {
        run(&[words, &["--connect", &self.addresses.join(",")]].concat())
    }

    pub(crate) fn shell(&self, statements: &str) -> Run {
        self.run(&["shell", "-e", statements])
    }

    pub(crate) fn until(&self, what: &str, holds: impl Fn(&Servers) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(90);
        while !holds(self) {
            assert!(Instant::now() < deadline, "not in time: {what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Where a node of this configuration file logs.
fn log_of(config: &Path) -> PathBuf {
    config.with_extension("log")
}

fn spawn(config: &Path, flags: &[&str]) -> Child {
    let mut command = quorate();
    command.arg("server").arg("--config").arg(config).args(flags);
    let log = File::options().create(true).append(true).open(log_of(config)).unwrap();
    command.stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

impl Drop for Servers {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
        if std::thread::panicking() {
            for log in self.configs.iter().map(|config| log_of(config)) {
                eprintln!("{}:\n{}", log.display(), std::fs::read_to_string(&log).unwrap_or_default());
            }
        }
    }
}
