//! What commands need of the world: an async runtime, signals, logs.

use std::fs::File;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

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

/// Logs to standard error; RUST_LOG chooses how much.
pub(crate) fn log_to_stderr() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}

/// Logs to a file, behind what is in it; to standard error if RUST_LOG chooses how much, because somebody wants to look.
pub(crate) fn log_to_file(path: &Path) -> Result<(), Failure> {
    if std::env::var_os(EnvFilter::DEFAULT_ENV).is_some() {
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
