//! A cluster of processes: this very program, once per node, as `quorate server`.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::Layout;
use crate::exit::Failure;

/// How long a server may take to drain before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Server processes on loopback. They end with the end of their standard input, so also if this process is killed.
#[derive(Debug)]
pub(crate) struct Processes {
    children: Vec<Child>,
}

impl Processes {
    /// Fills in the addresses of the layout with free ports, and starts every node, as a new one.
    pub(crate) fn start(layout: &mut Layout) -> Result<Processes, Failure> {
        choose_ports(layout)?;
        let program = std::env::current_exe().map_err(Failure::failed)?;
        let mut processes = Processes { children: Vec::with_capacity(layout.nodes.len()) };
        for node in 0..layout.nodes.len() {
            let config = layout.directory.join(format!("node-{node}.toml"));
            std::fs::write(&config, layout.config_text(node)?)
                .map_err(|error| Failure::failed(format!("cannot write {}: {error}", config.display())))?;
            processes.children.push(spawn(&program, &config)?);
        }
        Ok(processes)
    }

    /// A message about a server that has ended by itself, if one has.
    pub(crate) fn trouble(&mut self) -> Option<String> {
        let mut ended = self.children.iter_mut().enumerate().filter_map(|(node, child)| {
            let status = child.try_wait().ok().flatten()?;
            Some(format!("server {node} has ended by itself ({status})"))
        });
        ended.next()
    }

    /// Stops every server in good order.
    pub(crate) fn stop(mut self) {
        for child in &mut self.children {
            drop(child.stdin.take());
        }
        let deadline = Instant::now() + STOP_TIMEOUT;
        while Instant::now() < deadline
            && self.children.iter_mut().any(|child| matches!(child.try_wait(), Ok(None)))
        {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.children {
            // One that has ended already cannot be killed, which is no matter.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Ports that are free at the moment. Somebody else could take one before the server does; it says so then.
fn choose_ports(layout: &mut Layout) -> Result<(), Failure> {
    let failed = |error| Failure::failed(format!("cannot listen on 127.0.0.1: {error}"));
    let mut reserved = Vec::with_capacity(layout.nodes.len());
    for (_, address) in &mut layout.nodes {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        *address = listener.local_addr().map_err(failed)?.to_string();
        reserved.push(listener);
    }
    Ok(())
}

fn spawn(program: &Path, config: &Path) -> Result<Child, Failure> {
    let mut command = Command::new(program);
    command.arg("server").arg("--config").arg(config).args(["--initialise", "--stop-with-input"]);
    if std::env::var_os("RUST_LOG").is_none() {
        command.env("RUST_LOG", "warn");
    }
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    command.spawn().map_err(|error| Failure::failed(format!("cannot start {}: {error}", program.display())))
}
