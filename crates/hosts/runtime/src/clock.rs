//! The two kinds of time of a running process.

use std::time::{Duration, SystemTime};

use quorate_core::{ClockTime, Instant};

pub use quorate_driver::Time;

/// Where a process takes its time from: the monotonic instant since it was started, and the system clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: std::time::Instant,
}

impl Clock {
    /// A clock whose instants count from now.
    pub fn start() -> Self {
        Clock { start: std::time::Instant::now() }
    }

    /// Reads both kinds of time.
    pub fn read(&self) -> Time {
        // A system clock before 1970 reads as 1970: machines tolerate any reading.
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let micros = u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX);
        Time { now: self.instant(), clock: ClockTime::from_micros(micros) }
    }

    /// Reads the monotonic instant alone.
    pub fn instant(&self) -> Instant {
        let nanos = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Instant::from_nanos(nanos)
    }

    /// The instant as the operating system and the async runtime know it.
    pub fn to_system(&self, instant: Instant) -> std::time::Instant {
        self.start + Duration::from_nanos(instant.as_nanos())
    }
}
