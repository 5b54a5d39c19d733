//! The two kinds of time, as two types that cannot be confused.
//!
//! An [`Instant`] is monotonic and drives timers. A [`ClockTime`] is a reading of a physical clock and forms transaction
//! timestamps. The simulator skews, drifts and jumps only the second; nothing that is about safety may depend on either
//! being accurate.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// A monotonic instant, in nanoseconds since the driver of the machine started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The instant at which the driver started.
    pub const START: Instant = Instant(0);

    /// The instant that lies `nanoseconds` after the start.
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Instant(nanoseconds)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`, zero if `earlier` is the later one.
    pub fn saturating_since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, duration: Duration) -> Instant {
        Instant(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.saturating_since(earlier)
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{:06}ms", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

/// A reading of a physical clock, in microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClockTime(u64);

impl ClockTime {
    /// The reading `microseconds` after the Unix epoch.
    pub const fn from_micros(microseconds: u64) -> Self {
        ClockTime(microseconds)
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// This reading plus `duration`, at most the greatest reading there is.
    pub fn saturating_add(self, duration: Duration) -> ClockTime {
        ClockTime(self.0.saturating_add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)))
    }
}
