//! The answers of the operating system about this process, and the requests to it.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::fs::statvfs;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;

/// The processor time that this process has used, over all its threads.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The processor time that this thread has used.
pub(crate) fn cpu_time_of_thread() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Descriptors that a replica may need: the lock of its log, the segment that it writes to, and the one before.
const DESCRIPTORS_OF_A_REPLICA: u64 = 3;

/// Descriptors that are left for connections and for what comes and goes.
const DESCRIPTORS_KEPT: u64 = 256;

/// For how many further replicas this process may open files; none if the operating system does not say.
pub(crate) fn room_for_replicas() -> Option<u64> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current?;
    let open = std::fs::read_dir("/proc/self/fd").ok()?.count() as u64;
    Some(limit.saturating_sub(open + DESCRIPTORS_KEPT) / DESCRIPTORS_OF_A_REPLICA)
}

/// Has the operating system give this process its memory in small pages.
///
/// The memory that transactions leave behind is given up seconds later, bit by bit, and taken again. With huge pages each bit
/// that is taken clears two mebibytes.
pub fn use_small_pages() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::warn!(%error, "the system does not let this process do without huge pages, so it will be slower");
    }
}

/// Raises the limit of open files of this process as far as the system allows.
///
/// The soft limit is low for programs that cannot deal with large numbers; this one can.
pub fn raise_descriptors_max() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
    {
        tracing::warn!(%error, "the limit of open files cannot be raised");
    }
}

/// How many files and connections this process may have open.
pub(crate) fn descriptors_max() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// How much room there is where this directory is, in bytes; none if the operating system does not say.
pub(crate) fn free_bytes(directory: &Path) -> Option<u64> {
    let found = statvfs(directory).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Takes so much room for a file.
pub(crate) fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
    rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes)?;
    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
    io::Write::write_all(&mut &*file, &vec![0; bytes as usize])?;
    Ok(())
}

/// A runtime that ends in the background, wherever its owner is dropped. A plain one panics if that is within another
/// runtime, where waiting is forbidden, and hides the error because of which it was dropped.
#[derive(Debug)]
pub(crate) struct BackgroundRuntime(Option<Runtime>);

impl BackgroundRuntime {
    /// Owns a runtime.
    pub(crate) fn new(runtime: Runtime) -> Self {
        BackgroundRuntime(Some(runtime))
    }
}

impl std::ops::Deref for BackgroundRuntime {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for BackgroundRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
