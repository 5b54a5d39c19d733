//! The surroundings of commands: an async runtime, signals, logs.

use std::fs::File;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quorate_server::{LogFormat, Logging};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, reload};

use crate::exit::{Failure, Outcome};

/// Runs a command's future to its end, on this thread: one client needs no more than one.
pub(crate) fn block_on(command: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("the async runtime cannot start: {error}")))?;
    runtime.block_on(command)
}

/// Ends when somebody wants this process to stop: SIGTERM, or Ctrl-C.
pub(crate) async fn stop_signal() -> Result<(), Failure> {
    listen_for_stop()?.await;
    Ok(())
}

/// Takes SIGTERM and Ctrl-C over from here on; the future ends when one has come, also if that was before it is awaited.
pub(crate) fn listen_for_stop() -> Result<impl Future<Output = ()>, Failure> {
    let listen =
        |kind| signal(kind).map_err(|error| Failure::failed(format!("cannot listen to signals: {error}")));
    let (mut terminate, mut interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Takes SIGHUP over from here on: with it an operator has the configuration read again.
pub(crate) fn listen_for_hangups() -> Result<Signal, Failure> {
    signal(SignalKind::hangup())
        .map_err(|error| Failure::failed(format!("cannot listen to signals: {error}")))
}

/// Logs to standard error; RUST_LOG chooses how much.
pub(crate) fn log_to_stderr() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}

/// The log of a server, whose level can be changed while it runs.
#[derive(Debug)]
pub(crate) struct ServerLog {
    level: reload::Handle<EnvFilter, Registry>,
}

impl ServerLog {
    /// Logs to standard error, as a configuration says; RUST_LOG chooses how much where it is set.
    pub(crate) fn begin(logging: &Logging) -> Result<ServerLog, Failure> {
        let filter = match is_chosen_by_environment() {
            true => EnvFilter::try_from_default_env()
                .map_err(|error| Failure::usage(format!("RUST_LOG: {error}")))?,
            false => filter(&logging.level).map_err(Failure::usage)?,
        };
        let (filter, level) = reload::Layer::new(filter);
        let (registry, lines) =
            (tracing_subscriber::registry().with(filter), tracing_subscriber::fmt::layer());
        match logging.format {
            LogFormat::Text => registry.with(lines.with_writer(std::io::stderr)).init(),
            LogFormat::Json => registry.with(lines.json().with_writer(std::io::stderr)).init(),
        }
        Ok(ServerLog { level })
    }

    /// Logs so much from now on, unless RUST_LOG says how much.
    ///
    /// # Errors
    /// The level makes no sense. The one before stays in force.
    pub(crate) fn set_level(&self, level: &str) -> Result<(), String> {
        let filter = filter(level)?;
        match is_chosen_by_environment() {
            true => Ok(()),
            false => self.level.reload(filter).map_err(|error| error.to_string()),
        }
    }
}

/// True if the environment says how much is logged, whatever a configuration says.
fn is_chosen_by_environment() -> bool {
    std::env::var_os(EnvFilter::DEFAULT_ENV).is_some()
}

fn filter(level: &str) -> Result<EnvFilter, String> {
    let advice = "write a level like \"info\", or levels like \"info,quorate_runtime=debug\"";
    EnvFilter::try_new(level).map_err(|error| format!("logging.level = {level:?}: {error}; {advice}"))
}

/// Logs to a file, behind what is in it; to standard error if RUST_LOG chooses how much, because somebody wants to look.
pub(crate) fn log_to_file(path: &Path) -> Result<(), Failure> {
    if is_chosen_by_environment() {
        log_to_stderr();
        return Ok(());
    }
    let file = File::options().create(true).append(true).open(path);
    let file = file.map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
    let filter = EnvFilter::new("info");
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(Arc::new(file)).init();
    Ok(())
}

/// The program that runs in this process, from which it starts further processes.
pub(crate) fn program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(Failure::failed)
}
