//! What the operating system says about this process.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The processor time that this process has used, over all its threads.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
