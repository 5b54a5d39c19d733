//! A cluster of processes: the program `quorate`, once per node, as `quorate server`.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use quorate_runtime::ports;
use rustix::process::{Pid, Signal, kill_process};

use super::Layout;
use crate::Failure;

/// How long a server may take to drain before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Server processes on this machine. They end with this process: at the end of their standard input, and where the
/// operating system knows how, also while they stand still.
#[derive(Debug)]
pub struct Processes {
    program: PathBuf,
    servers: Vec<Server>,
}

/// How the processes are started, beside their configuration.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program `quorate`.
    pub program: PathBuf,
    /// For each node: a command that runs the server as its last argument; none if it is run directly.
    pub wrappers: Vec<Vec<OsString>>,
    /// True if each node writes what it logs to a file in the directory of the layout, and not to standard error.
    pub log_to_files: bool,
}

impl Launch {
    /// Servers of this program that run directly and log to standard error.
    pub fn directly(program: &Path) -> Launch {
        Launch { program: program.to_owned(), wrappers: Vec::new(), log_to_files: false }
    }
}

/// How a server deals with its data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// It goes on with it.
    Again,
    /// It creates it: the node is new.
    New,
    /// It creates it: the node has lost its disk.
    Replace,
    /// It goes on with it, and its replicas that are missing learn everything from their groups.
    Rejoin,
}

/// One of the servers, running or not.
#[derive(Debug)]
struct Server {
    program: PathBuf,
    config: PathBuf,
    wrapper: Vec<OsString>,
    log: Option<PathBuf>,
    child: Option<Child>,
    /// True if it was asked to stop, so that its end is no surprise.
    is_stopping: bool,
}

impl Processes {
    /// Fills in the addresses of the layout with free ports, and starts every node, as a new one.
    ///
    /// # Errors
    /// If there are too few ports, or a process cannot be started.
    pub fn start(program: &Path, layout: &mut Layout) -> Result<Processes, Failure> {
        let addresses = free_addresses(layout.nodes.len())?;
        for ((_, address), free) in layout.nodes.iter_mut().zip(addresses) {
            *address = free;
        }
        let mut processes = Processes::prepare(layout, Launch::directly(program))?;
        for node in 0..processes.servers.len() {
            processes.start_node(node, Begin::New)?;
        }
        Ok(processes)
    }

    /// Writes the configuration of every node, and starts none.
    ///
    /// # Errors
    /// If a configuration cannot be written.
    pub fn prepare(layout: &Layout, launch: Launch) -> Result<Processes, Failure> {
        let mut servers = Vec::with_capacity(layout.nodes.len());
        for node in 0..layout.nodes.len() {
            let config = layout.directory.join(format!("node-{node}.toml"));
            std::fs::write(&config, layout.config_text(node)?)
                .map_err(|error| Failure::failed(format!("cannot write {}: {error}", config.display())))?;
            let log = launch.log_to_files.then(|| layout.directory.join(format!("node-{node}.log")));
            let wrapper = launch.wrappers.get(node).cloned().unwrap_or_default();
            let program = launch.program.clone();
            servers.push(Server { program, config, wrapper, log, child: None, is_stopping: false });
        }
        Ok(Processes { program: launch.program, servers })
    }

    /// The program that the servers are processes of.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Starts a node that does not run.
    ///
    /// # Errors
    /// If its log cannot be opened, or the process cannot be started.
    ///
    /// # Panics
    /// If the node runs.
    pub fn start_node(&mut self, node: usize, begin: Begin) -> Result<(), Failure> {
        let server = &mut self.servers[node];
        assert!(server.child.is_none(), "a node runs once at a time");
        let mut words = server.wrapper.iter().cloned().chain([server.program.clone().into_os_string()]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).arg("server").arg("--config").arg(&server.config);
        command.args(["--stop-with-input", "--die-with-parent"]);
        match begin {
            Begin::Again => &mut command,
            Begin::New => command.arg("--initialise"),
            Begin::Replace => command.arg("--initialise=replace"),
            Begin::Rejoin => command.arg("--rejoin"),
        };
        if std::env::var_os("RUST_LOG").is_none() {
            command.env("RUST_LOG", if server.log.is_some() { "info" } else { "warn" });
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        if let Some(log) = &server.log {
            let open = File::options().create(true).append(true).open(log);
            let failed = |error| Failure::failed(format!("cannot write {}: {error}", log.display()));
            command.stderr(open.map_err(failed)?);
        }
        let failed = |error| Failure::failed(format!("cannot start {}: {error}", server.program.display()));
        let spawned = command.spawn().map_err(failed)?;
        server.child = Some(spawned);
        server.is_stopping = false;
        Ok(())
    }

    /// From its next start on, a node runs this program.
    pub fn set_program(&mut self, node: usize, program: &Path) {
        self.servers[node].program = program.to_owned();
    }

    /// The text that a node has logged so far; empty if it does not log to a file.
    ///
    /// # Errors
    /// If its log cannot be read.
    pub fn logged(&self, node: usize) -> Result<String, Failure> {
        let Some(log) = &self.servers[node].log else { return Ok(String::new()) };
        let read = std::fs::read_to_string(log);
        read.map_err(|error| Failure::failed(format!("cannot read {}: {error}", log.display())))
    }

    /// From its next start on, a node is run by this command, as its last arguments.
    pub fn wrap_node(&mut self, node: usize, wrapper: Vec<OsString>) {
        self.servers[node].wrapper = wrapper;
    }

    /// The ids of the processes of the nodes that run.
    pub fn ids(&self) -> Vec<u32> {
        self.servers.iter().filter_map(|server| server.child.as_ref()).map(Child::id).collect()
    }

    /// Kills a node, as a power failure would; one that does not run stays as it is.
    ///
    /// # Errors
    /// If the operating system does not let it be killed.
    pub fn kill_node(&mut self, node: usize) -> Result<(), Failure> {
        let Some(mut child) = self.servers[node].child.take() else { return Ok(()) };
        child.kill().and_then(|()| child.wait()).map_err(Failure::failed)?;
        Ok(())
    }

    /// Lets a node stand still.
    ///
    /// # Errors
    /// If the process cannot be signalled.
    pub fn pause_node(&self, node: usize) -> Result<(), Failure> {
        self.signal(node, Signal::STOP)
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// If the process cannot be signalled.
    pub fn resume_node(&self, node: usize) -> Result<(), Failure> {
        self.signal(node, Signal::CONT)
    }

    /// Asks a node to stop in good order.
    ///
    /// # Errors
    /// If the process cannot be signalled.
    pub fn ask_node_to_stop(&mut self, node: usize) -> Result<(), Failure> {
        self.servers[node].is_stopping = true;
        self.signal(node, Signal::TERM)
    }

    /// The exit status of a node that was asked to stop, once it has ended.
    ///
    /// # Errors
    /// If the operating system does not tell.
    pub fn take_ended(&mut self, node: usize) -> Result<Option<ExitStatus>, Failure> {
        let Some(child) = &mut self.servers[node].child else { return Ok(None) };
        let ended = child.try_wait().map_err(Failure::failed)?;
        if ended.is_some() {
            self.servers[node].child = None;
        }
        Ok(ended)
    }

    fn signal(&self, node: usize, signal: Signal) -> Result<(), Failure> {
        let Some(child) = &self.servers[node].child else { return Ok(()) };
        kill_process(Pid::from_child(child), signal)
            .map_err(|error| Failure::failed(format!("cannot signal server {node}: {error}")))
    }

    /// A message about a server that has ended by itself, if one has.
    pub fn trouble(&mut self) -> Option<String> {
        let running = self.servers.iter_mut().enumerate().filter(|(_, server)| !server.is_stopping);
        let mut ended = running.filter_map(|(node, server)| {
            let status = server.child.as_mut()?.try_wait().ok().flatten()?;
            Some(format!("server {node} has ended by itself ({status})"))
        });
        ended.next()
    }

    /// Stops every server in good order. Names those that did not.
    pub fn stop(mut self) -> Vec<String> {
        for child in self.servers.iter_mut().filter_map(|server| server.child.as_mut()) {
            drop(child.stdin.take());
        }
        let deadline = Instant::now() + STOP_TIMEOUT;
        let mut trouble = Vec::new();
        for (node, server) in self.servers.iter_mut().enumerate() {
            let Some(child) = &mut server.child else { continue };
            loop {
                match child.try_wait() {
                    Ok(Some(status)) if status.success() => break,
                    Ok(Some(status)) => trouble.push(format!("server {node} has stopped with {status}")),
                    Ok(None) if Instant::now() < deadline => {
                        std::thread::sleep(Duration::from_millis(10));
                        continue;
                    }
                    Ok(None) => trouble.push(format!("server {node} does not stop within {STOP_TIMEOUT:?}")),
                    Err(error) => trouble.push(format!("server {node}: {error}")),
                }
                break;
            }
        }
        trouble
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for child in self.servers.iter_mut().filter_map(|server| server.child.as_mut()) {
            // One that has ended already cannot be killed, which is no matter.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The addresses of so many neighbouring ports that are free, and that were not given before. Another process could take one before a server does; the
/// server says so then.
///
/// # Errors
/// If there are not so many.
pub fn free_addresses(count: usize) -> Result<Vec<String>, Failure> {
    let count = u16::try_from(count).map_err(|_| Failure::failed(format!("there are no {count} ports")))?;
    ports::free_addresses(count)
        .map_err(|error| Failure::failed(format!("cannot listen on 127.0.0.1: {error}")))
}
