//! What commands need of the world: an async runtime, signals, logs.

use std::future::Future;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
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

/// The processor time that this process has used, over all its threads.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// How often this thread has gone to sleep until something would happen.
pub(crate) fn thread_sleeps() -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/thread-self/status").map_err(Failure::failed)?;
    let sleeps = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    let sleeps = sleeps.and_then(|count| count.trim().parse().ok());
    sleeps.ok_or_else(|| Failure::failed("this system does not tell how often a thread has slept"))
}

/// For how long the processors of this machine have worked, all together, for whomever.
pub(crate) fn machine_cpu_time() -> Result<Duration, Failure> {
    let stat = std::fs::read_to_string("/proc/stat").map_err(Failure::failed)?;
    // user, nice, system, idle, waiting for a disk, interrupts of both kinds, taken by other machines; in hundredths.
    let all = stat.lines().next().and_then(|line| line.strip_prefix("cpu "));
    let counts: Vec<u64> =
        all.unwrap_or_default().split_whitespace().map_while(|count| count.parse().ok()).collect();
    match counts[..] {
        [user, nice, system, _, _, hard, soft, stolen, ..] => {
            Ok(Duration::from_millis(10 * (user + nice + system + hard + soft + stolen)))
        }
        _ => Err(Failure::failed("this system does not tell how long its processors have worked")),
    }
}

/// The processor time that this thread has used.
pub(crate) fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
