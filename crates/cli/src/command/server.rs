//! `quorate server`: one node of a cluster.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use quorate_server::{
    Config, Initialise, LogFormat, Reloaded, Server, print_config, probe, raise_descriptors_max,
    use_small_pages,
};
use tokio::sync::oneshot;

use super::doors;
use super::sweeping::sweep;
use crate::exit::{Failure, Outcome, Verdict};
use crate::runtime::{ServerLog, block_on, listen_for_hangups, listen_for_stop};

/// Run one node of a cluster.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate server --print-config > node-0.toml      a commented example to edit
  quorate server --config node-0.toml --initialise the very first start: creates the data directory
  quorate server --config node-0.toml              every later start
  quorate server --config node-0.toml --initialise=replace
                                                   this node had been part of the cluster and has lost its disk
  quorate server --config node-0.toml --rejoin     replicas whose directories are lost learn everything from others
  quorate server --config node-0.toml --probe      is the node ready that runs by this configuration?

SIGTERM and Ctrl-C drain the node within 10 seconds, sync it and end it with exit code 0. SIGHUP has the configuration read again: the level of the
log and most limits are taken over, and the log names what waits for a restart. Logs go to standard error, as [logging] of the
configuration has it; RUST_LOG comes first where it is set, for example RUST_LOG=debug.")]
pub(crate) struct ServerArguments {
    /// The configuration of this node.
    #[arg(long, value_name = "FILE", required_unless_present = "print_config")]
    config: Option<PathBuf>,
    /// Create the data directory: `new` for a new node, `replace` for one that has lost its disk.
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "new")]
    initialise: Option<How>,
    /// Replicas whose directories are lost for good learn everything from their groups: at most f of 2f + 1 at a time.
    #[arg(long, conflicts_with = "initialise")]
    rejoin: bool,
    /// Ask the node of this configuration, which runs on this machine, whether it is ready: exit code 0 if it is, and 1 with the reason if not.
    #[arg(long, requires = "config", conflicts_with_all = ["initialise", "rejoin", "print_config"])]
    probe: bool,
    /// The form of the lines of the log, whatever the configuration says.
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<Format>,
    /// Print a commented example of a configuration.
    #[arg(long, conflicts_with_all = ["config", "initialise", "rejoin"])]
    print_config: bool,
    /// Also stop when standard input ends: the program that started this server is gone then.
    #[arg(long, hide = true)]
    stop_with_input: bool,
    /// Be killed when the program that started this server ends, also while this process stands still.
    #[arg(long, hide = true)]
    die_with_parent: bool,
}

/// The form of the lines of a log.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Text for people.
    Text,
    /// One JSON object in each line.
    Json,
}

impl From<Format> for LogFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Text => LogFormat::Text,
            Format::Json => LogFormat::Json,
        }
    }
}

/// How a data directory is created.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum How {
    /// The node has never been part of the cluster.
    New,
    /// The node has lost its disk.
    Replace,
}

impl ServerArguments {
    pub(crate) fn run(self) -> Outcome {
        let Some(path) = self.config else {
            out!("{}", print_config());
            return Ok(Verdict::Good);
        };
        use_small_pages();
        raise_descriptors_max();
        if self.die_with_parent {
            die_with_parent().map_err(Failure::failed)?;
        }
        let mut config = read(&path).map_err(Failure::usage)?;
        if self.probe {
            return block_on(async {
                probe(&config).await.map_err(Failure::failed)?;
                outln!("ok");
                Ok(Verdict::Good)
            });
        }
        config.logging.format = self.log_format.map_or(config.logging.format, LogFormat::from);
        let log = ServerLog::begin(&config.logging)?;
        let initialise = match self.initialise {
            None if self.rejoin => Initialise::Rejoin,
            None => Initialise::No,
            Some(How::New) => Initialise::New,
            Some(How::Replace) => Initialise::Replace,
        };
        let log_format = config.logging.format;
        block_on(async {
            // First, because replaying the logs takes time, and a node that is stopped meanwhile stops as any other.
            let stop = listen_for_stop()?;
            let mut hangups = listen_for_hangups()?;
            let mut in_force = config.clone();
            let (told, others) = (config.doors.clone(), config.topology.nodes.clone());
            let (access, certificates) = doors::certificates(&config)?;
            let client = quorate::Options {
                certificates,
                site: Some(config.own_site().to_owned()),
                delays: config.wan.as_deref().cloned(),
                ..quorate::Options::default()
            };
            let server = Server::start(config, initialise).map_err(Failure::failed)?;
            let others = others.into_iter().map(|node| node.address).filter(|address| !address.is_empty());
            let addresses: Vec<String> =
                std::iter::once(server.address().to_string()).chain(others).collect();
            let credential = Some(quorate::Credential::token(server.token()));
            let client = quorate::Options { credential, ..client };
            let mut sweeping = Box::pin(sweep(
                Vec::clone(&addresses),
                client.clone(),
                || server.swept_here(),
                |status| server.set_sweeping(status),
            ));
            let gateway = doors::open(&told, addresses, client, access, (None, server.audit()))?;
            let input_ended = input_end(self.stop_with_input);
            tokio::pin!(stop, input_ended);
            loop {
                tokio::select! {
                    () = &mut stop => break,
                    () = &mut input_ended => break,
                    () = server.stopped() => break,
                    never = &mut sweeping => match never {},
                    Some(()) = hangups.recv() => {
                        let file = read(&path).map(|mut file| {
                            // The command line comes before the file.
                            file.logging.format = self.log_format.map_or(file.logging.format, |_| log_format);
                            file
                        });
                        reload(file, &mut in_force, &server, &log);
                    }
                }
            }
            drop(sweeping);
            // First, because doors are clients: nobody is to come in while the node drains.
            drop(gateway);
            server.shutdown().map_err(Failure::failed)?;
            Ok(Verdict::Good)
        })
    }
}

/// Reads a configuration; gives what is wrong with it, for people.
fn read(path: &Path) -> Result<Config, String> {
    Config::load(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Takes over what may change while the node runs, from a file that was read again. One that cannot be used changes nothing.
fn reload(file: Result<Config, String>, in_force: &mut Config, server: &Server, log: &ServerLog) {
    let usable = file.and_then(|file| log.set_level(&file.logging.level).map(|()| file));
    let problem = match usable {
        Ok(file) => {
            let Reloaded { taken_over, after_restart } = in_force.take_over(&file);
            server.set_limits(&in_force.limits);
            tracing::info!(?taken_over, ?after_restart, "the configuration was read again");
            None
        }
        Err(reason) => {
            let problem =
                format!("the configuration cannot be used, and the one before stays in force: {reason}");
            tracing::error!("{problem}");
            Some(problem)
        }
    };
    server.set_configuration_problem(problem);
}

/// Ends when standard input does; never if it is not looked at.
async fn input_end(is_looked_at: bool) {
    if !is_looked_at {
        return std::future::pending().await;
    }
    let (ended, input_ended) = oneshot::channel();
    // A thread of its own and not one of the runtime's: it must not keep the process from ending.
    std::thread::spawn(move || {
        let mut buffer = [0; 256];
        while matches!(std::io::stdin().read(&mut buffer), Ok(1..)) {}
        // Nobody listens any more if the server has been stopped by a signal.
        let _ = ended.send(());
    });
    // An error would mean that the thread has failed: stop as well.
    let _ = input_ended.await;
}

/// Asks the operating system to kill this process when its parent ends, where it can be asked.
fn die_with_parent() -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    Ok(())
}
