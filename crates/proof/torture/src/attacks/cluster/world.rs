//! The surroundings of the servers: addresses, connections, clocks.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use quorate_cluster::Failure;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::net::TcpStream;

use super::Cluster;

/// Where systems keep the library that fakes a process's clock.
const FAKE_TIME_LIBRARIES: [&str; 5] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/faketime/libfaketime.so.1",
    "/usr/lib64/faketime/libfaketime.so.1",
    "/usr/local/lib/faketime/libfaketime.so.1",
];

impl Cluster {
    /// Listens where a node is to listen, which does not run, as long as this is not dropped.
    pub(in super::super) fn take_address(&mut self, node: usize) -> Result<TcpListener, Failure> {
        let address = &self.layout.nodes[node].1;
        let listener = TcpListener::bind(address)
            .map_err(|error| Failure::failed(format!("cannot listen on {address}: {error}")))?;
        self.note(format!("take the address of {node}"));
        Ok(listener)
    }

    /// Opens so many connections to the HTTP of each node, as far as the nodes take them, and says nothing on any.
    pub(in super::super) async fn connect_idly(&mut self, count: usize) -> Result<Vec<TcpStream>, Failure> {
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        setrlimit(Resource::Nofile, limit)
            .map_err(|error| Failure::failed(format!("this process gets no more descriptors: {error}")))?;
        let mut idle = Vec::new();
        for address in self.layout.http.clone() {
            for _ in 0..count {
                match TcpStream::connect(&address).await {
                    Ok(stream) => idle.push(stream),
                    // The node takes no more, which is its right.
                    Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => break,
                    Err(error) => return Err(Failure::failed(format!("{address}: {error}"))),
                }
            }
        }
        self.note(format!("{} idle connections to HTTP", idle.len()));
        Ok(idle)
    }

    /// The library that fakes the clock of a process, if it is installed.
    pub(in super::super) fn fake_time_library() -> Option<PathBuf> {
        FAKE_TIME_LIBRARIES.into_iter().map(PathBuf::from).find(|library| library.exists())
    }

    /// Sets how far the clock of a node is from that of this machine, as the library understands it.
    pub(in super::super) fn set_clock(&mut self, node: usize, offset: &str) -> Result<(), Failure> {
        self.note(format!("the clock of {node} is at {offset}"));
        let file = self.clock_file(node);
        let new = file.with_extension("new");
        // At once, so that the node never reads half of it.
        fs::write(&new, offset)
            .and_then(|()| fs::rename(&new, &file))
            .map_err(|error| Failure::failed(format!("{}: {error}", file.display())))
    }

    /// Starts a node that goes by the clock that was set.
    pub(in super::super) fn start_with_clock(&mut self, node: usize, library: &Path) -> Result<(), Failure> {
        let preload = format!("LD_PRELOAD={}", library.display());
        let file = format!("FAKETIME_TIMESTAMP_FILE={}", self.clock_file(node).display());
        let rest = ["FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"];
        self.start_within(node, &["env", &preload, &file, rest[0], rest[1]])
    }

    fn clock_file(&self, node: usize) -> PathBuf {
        self.layout.directory.join(format!("clock-{node}"))
    }
}
