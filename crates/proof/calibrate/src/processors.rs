//! The work of processors, as the operating system counts it.

use std::time::Duration;

use quorate_cluster::Failure;
use rustix::time::{ClockId, clock_gettime};

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
