//! The disk of the data directory, as a thread beside the event loop watches it: how much room there is, and whether logs decay.
//!
//! Room that runs out takes a replica with it, and the room that is left is what a node mends itself with. So there is a mark: below
//! it the node says so, and shards that would have no majority without such nodes take no writes. A file beside the logs holds a
//! little room in hand besides, for when something else fills the disk: what has to be written even then is small.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use quorate_runtime::transport::TurnWaker;

use super::hosted::unix_seconds;
use super::log::Logs;
use crate::data::{Attics, DataDirectory};
use crate::{Limits, process};

/// How often the thread looks.
const TICK: Duration = Duration::from_millis(100);

/// How often it looks at the room.
const SPACE_INTERVAL: Duration = Duration::from_secs(1);

/// The size of the reserve, at most.
const RESERVE_BYTES_MAX: u64 = 8 << 20;

/// With less room than this the reserve is given up.
const RESERVE_RELEASED_BELOW: u64 = 1 << 20;

/// The name of the file that holds it.
const RESERVE: &str = "reserve";

/// Watches the disk until it is dropped.
#[derive(Debug)]
pub(crate) struct Disk {
    seen: Arc<Seen>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The observations of the thread.
#[derive(Debug)]
struct Seen {
    /// All ones if that is not known.
    free_bytes: AtomicU64,
    is_low: AtomicBool,
    scrubbed_bytes: AtomicU64,
    passes: AtomicU64,
    /// In seconds since 1970.
    last_pass: AtomicU64,
}

impl Disk {
    /// Starts the thread, for the logs of these event loops, each with what asks for a turn there when something has changed.
    pub(crate) fn watch(
        data: &DataDirectory,
        limits: &Limits,
        logs: Vec<(Logs, TurnWaker)>,
    ) -> io::Result<Disk> {
        let directory = data.path();
        let seen = Arc::new(Seen {
            free_bytes: AtomicU64::new(u64::MAX),
            is_low: AtomicBool::new(false),
            scrubbed_bytes: AtomicU64::new(0),
            passes: AtomicU64::new(0),
            last_pass: AtomicU64::new(0),
        });
        let mut watch = Watch {
            reserve: directory.join(RESERVE),
            directory: directory.to_owned(),
            low: limits.free_bytes_low,
            scrub_bytes_per_second: limits.scrub_bytes_per_second,
            scrub_interval: limits.scrub_interval,
            pass_began: None,
            is_passing: false,
            credit: 0,
            logs,
            attics: data.attics().cloned(),
            seen: Arc::clone(&seen),
        };
        watch.look_at_space();
        let (stop, stopped) = channel::<()>();
        let thread = thread::Builder::new().name("disk-watch".to_owned()).spawn(move || {
            let mut space_seen = Instant::now();
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                if space_seen.elapsed() >= SPACE_INTERVAL {
                    space_seen = Instant::now();
                    watch.look_at_space();
                }
                watch.scrub();
            }
        })?;
        Ok(Disk { seen, stop: Some(stop), thread: Some(thread) })
    }

    /// How much room there is, in bytes; none if the operating system does not say.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        Some(self.seen.free_bytes.load(Ordering::Relaxed)).filter(|free| *free != u64::MAX)
    }

    /// True if there is less room than there should be.
    pub(crate) fn is_low(&self) -> bool {
        self.seen.is_low.load(Ordering::Relaxed)
    }

    /// How much of logs was read again, in bytes; how often all of them were; and when that was last, in seconds since 1970.
    pub(crate) fn scrubbed(&self) -> (u64, u64, Option<u64>) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let last = Some(read(&self.seen.last_pass)).filter(|seconds| *seconds > 0);
        (read(&self.seen.scrubbed_bytes), read(&self.seen.passes), last)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that watches the disk has panicked");
        }
    }
}

/// The thread's own.
struct Watch {
    directory: PathBuf,
    reserve: PathBuf,
    low: u64,
    scrub_bytes_per_second: u64,
    scrub_interval: Duration,
    /// When the latest pass over all logs began.
    pass_began: Option<Instant>,
    is_passing: bool,
    /// How much may be read now; below nothing if a step has read more than it might.
    credit: i64,
    logs: Vec<(Logs, TurnWaker)>,
    /// What takes room that logs need more.
    attics: Option<Attics>,
    seen: Arc<Seen>,
}

impl Watch {
    fn look_at_space(&mut self) {
        let free = process::free_bytes(&self.directory);
        self.seen.free_bytes.store(free.unwrap_or(u64::MAX), Ordering::Relaxed);
        let Some(free) = free.filter(|_| self.low > 0) else { return };
        let was_low = self.seen.is_low.load(Ordering::Relaxed);
        let is_low = is_low(free, self.low, was_low);
        if is_low != was_low {
            self.seen.is_low.store(is_low, Ordering::Relaxed);
            self.attics.iter().for_each(|attics| attics.set_full(is_low));
            self.logs.iter().for_each(|(_, waker)| waker.wake());
        }
        let bytes = reserve_bytes(self.low);
        let done = match what_of_reserve(free, self.low, self.reserve.exists()) {
            Reserve::Stays => Ok(()),
            Reserve::IsReleased => fs::remove_file(&self.reserve),
            Reserve::IsTaken => take(&self.reserve, bytes),
        };
        if let Err(error) = done {
            tracing::warn!(path = %self.reserve.display(), %error, "the reserve of room cannot be taken or given up");
        }
    }

    /// Reads some more of the logs, as much as time allows.
    fn scrub(&mut self) {
        let is_due = self.pass_began.is_none_or(|began| began.elapsed() >= self.scrub_interval);
        if self.scrub_bytes_per_second == 0 || !(self.is_passing || is_due) {
            return;
        }
        if !self.is_passing {
            (self.is_passing, self.pass_began, self.credit) = (true, Some(Instant::now()), 0);
            self.logs.iter().for_each(|(logs, _)| logs.begin_scrubbing());
        }
        let earned = u128::from(self.scrub_bytes_per_second) * TICK.as_millis() / 1_000;
        self.credit = self.credit.min(0).saturating_add(i64::try_from(earned).unwrap_or(i64::MAX));
        while self.credit > 0 {
            let Some(scrubbed) = self.logs.iter().find_map(|(logs, _)| logs.scrub_some()) else {
                self.is_passing = false;
                self.seen.passes.fetch_add(1, Ordering::Relaxed);
                self.seen.last_pass.store(unix_seconds(), Ordering::Relaxed);
                break;
            };
            self.seen.scrubbed_bytes.fetch_add(scrubbed, Ordering::Relaxed);
            self.credit -= scrubbed as i64;
        }
        for (logs, waker) in &self.logs {
            if logs.has_findings() {
                waker.wake();
            }
        }
    }
}

/// True if there is too little room. Once that is so, it takes a quarter more than the mark to end it, so that it does not
/// come and go with every segment.
fn is_low(free: u64, low: u64, was_low: bool) -> bool {
    free < if was_low { low.saturating_add(low / 4) } else { low }
}

/// How much is held in reserve.
fn reserve_bytes(low: u64) -> u64 {
    (low / 2).min(RESERVE_BYTES_MAX)
}

/// The fate of the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reserve {
    Stays,
    IsReleased,
    IsTaken,
}

fn what_of_reserve(free: u64, low: u64, is_there: bool) -> Reserve {
    match is_there {
        true if free < RESERVE_RELEASED_BELOW => Reserve::IsReleased,
        false if free >= low.saturating_add(2 * reserve_bytes(low)) => Reserve::IsTaken,
        _ => Reserve::Stays,
    }
}

fn take(path: &Path, bytes: u64) -> io::Result<()> {
    let taken = File::create(path).and_then(|file| process::allocate(&file, bytes));
    if taken.is_err() {
        fs::remove_file(path)?;
    }
    taken
}

/// Gives up the reserve of a node that starts on a full disk, so that it can write what it has to.
pub(crate) fn make_room(directory: &Path) {
    let reserve = directory.join(RESERVE);
    let free = process::free_bytes(directory);
    if free.is_some_and(|free| free < RESERVE_RELEASED_BELOW) && reserve.exists() {
        tracing::warn!(?free, path = %reserve.display(), "the disk is full: the node gives up its reserve of room to start");
        if let Err(error) = fs::remove_file(&reserve) {
            tracing::warn!(%error, "the reserve of room cannot be given up");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_as_a_table() {
        // free, was low, is low
        let table = [
            (1_000, false, false),
            (999, false, true),
            (0, false, true),
            (1_000, true, true),
            (1_249, true, true),
            (1_250, true, false),
        ];
        for (free, was_low, expected) in table {
            assert_eq!(is_low(free, 1_000, was_low), expected, "{free} {was_low}");
        }
    }

    #[test]
    fn the_reserve_as_a_table() {
        let (low, mebibyte) = (64 << 20, 1 << 20);
        assert_eq!(reserve_bytes(low), 8 << 20);
        assert_eq!(reserve_bytes(mebibyte), 1 << 19);
        // free, is there
        let table = [
            (0, true, Reserve::IsReleased),
            (mebibyte - 1, true, Reserve::IsReleased),
            (mebibyte, true, Reserve::Stays),
            (0, false, Reserve::Stays),
            (low, false, Reserve::Stays),
            (low + (16 << 20), false, Reserve::IsTaken),
            (low + (16 << 20), true, Reserve::Stays),
        ];
        for (free, is_there, expected) in table {
            assert_eq!(what_of_reserve(free, low, is_there), expected, "{free} {is_there}");
        }
    }

    #[test]
    fn a_reserve_takes_room_and_a_directory_says_how_much_there_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(RESERVE);
        take(&path, 4_096).unwrap();
        assert_eq!(path.metadata().unwrap().len(), 4_096);
        assert!(process::free_bytes(directory.path()).unwrap() > 0);
        assert_eq!(process::free_bytes(Path::new("/no/such/place")), None);
    }
}
