//! Physical clocks: wrong from the start, fast or slow, jumping, standing still. And the time that drives timers, which passes a
//! little faster or slower.

use std::time::Duration;

use quorate_core::{ClockTime, Instant};

/// The reading of a perfect clock when a simulation starts, in microseconds since the Unix epoch.
pub const START_MICROS: i64 = 1_800_000_000_000_000;

/// The physical clock of one node.
#[derive(Clone, Debug, Default)]
pub struct PhysicalClock {
    /// How far ahead of a perfect clock it was at `since`.
    offset_micros: i64,
    /// How much it gains in a million microseconds.
    drift_ppm: i64,
    since: Instant,
    /// Its reading while it stands still.
    frozen_at: Option<ClockTime>,
}

impl PhysicalClock {
    /// A clock that starts so far ahead (or, if negative, behind) and gains so much.
    pub fn new(offset_micros: i64, drift_ppm: i64) -> Self {
        PhysicalClock { offset_micros, drift_ppm, since: Instant::START, frozen_at: None }
    }

    /// Its reading.
    pub fn reading(&self, now: Instant) -> ClockTime {
        self.frozen_at.unwrap_or_else(|| {
            let perfect = START_MICROS + (now.as_nanos() / 1_000) as i64;
            ClockTime::from_micros((perfect + self.error_micros(now)).max(0) as u64)
        })
    }

    /// How far it is ahead of a perfect clock, as long as it runs.
    pub fn error_micros(&self, now: Instant) -> i64 {
        let elapsed = ((now.as_nanos() - self.since.as_nanos()) / 1_000) as i64;
        self.offset_micros + elapsed / 1_000 * self.drift_ppm / 1_000
    }

    /// Moves it, forward or back.
    pub fn jump(&mut self, by_micros: i64) {
        self.offset_micros += by_micros;
    }

    /// Makes it gain so much from now on.
    pub fn set_drift(&mut self, now: Instant, drift_ppm: i64) {
        self.offset_micros = self.error_micros(now);
        self.since = now;
        self.drift_ppm = drift_ppm;
    }

    /// Makes it stand still.
    pub fn freeze(&mut self, now: Instant) {
        self.frozen_at = Some(self.reading(now));
    }

    /// Makes it run again and show what it would show had it never stood still.
    pub fn thaw(&mut self) {
        self.frozen_at = None;
    }
}

/// How fast time passes on a node: that which drives timers, and leases, and never jumps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// By how many millionths faster than it should.
    ppm: i32,
}

/// A million, of which the millionths are.
const MILLION: i128 = 1_000_000;

impl Pace {
    /// By so many millionths faster than it should, or slower.
    ///
    /// # Panics
    /// If it stood still, or went back.
    pub fn new(ppm: i32) -> Self {
        assert!(i128::from(ppm) > -MILLION, "time passes");
        Pace { ppm }
    }

    /// The time that it measures in a million nanoseconds.
    fn rate(self) -> i128 {
        MILLION + i128::from(self.ppm)
    }

    /// The instant on the node, when it is `now`.
    pub fn local(self, now: Instant) -> Instant {
        Instant::from_nanos((i128::from(now.as_nanos()) * self.rate() / MILLION) as u64)
    }

    /// When it is `local` on the node for the first time.
    pub fn global(self, local: Instant) -> Instant {
        Instant::from_nanos(
            (i128::from(local.as_nanos()) * MILLION + self.rate() - 1).div_euclid(self.rate()) as u64,
        )
    }

    /// How long it is from `now` until so much time has passed on the node.
    pub fn lasting(self, now: Instant, after: Duration) -> Duration {
        if self.ppm == 0 { after } else { self.global(self.local(now) + after) - now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn ahead(clock: &PhysicalClock, seconds: u64) -> i64 {
        clock.reading(at(seconds)).as_micros() as i64 - START_MICROS - seconds as i64 * 1_000_000
    }

    #[test]
    fn skew_drift_and_jumps_add_up() {
        let mut clock = PhysicalClock::new(-300, 100);
        assert_eq!(ahead(&clock, 0), -300);
        assert_eq!(ahead(&clock, 10), 700);
        clock.set_drift(at(10), -50);
        assert_eq!(ahead(&clock, 10), 700);
        assert_eq!(ahead(&clock, 20), 200);
        clock.jump(-5_000_000);
        assert_eq!(ahead(&clock, 20), -4_999_800);
    }

    #[test]
    fn a_timer_never_fires_before_its_time_has_passed() {
        for ppm in [-1_000, -7, 0, 3, 1_000] {
            let pace = Pace::new(ppm);
            for (now, after) in [(0, 1), (1, 999), (123_456_789_012, 1_000_003), (7, 3_600_000_000_000)] {
                let (now, after) = (Instant::from_nanos(now), Duration::from_nanos(after));
                let fires = now + pace.lasting(now, after);
                assert!(pace.local(fires) >= pace.local(now) + after, "{ppm} {now:?} {after:?}");
                let before = Instant::from_nanos(fires.as_nanos() - 1);
                assert!(
                    pace.local(before) < pace.local(now) + after,
                    "{ppm} {now:?} {after:?}: nor much later"
                );
            }
        }
        assert_eq!(Pace::new(1_000).local(at(1_000)), at(1_001));
        assert_eq!(Pace::new(-1_000).lasting(at(5), Duration::from_secs(999)), Duration::from_secs(1_000));
    }

    #[test]
    fn a_frozen_clock_stands_still_and_catches_up() {
        let mut clock = PhysicalClock::new(0, 0);
        clock.freeze(at(1));
        assert_eq!(ahead(&clock, 3), -2_000_000);
        clock.thaw();
        assert_eq!(ahead(&clock, 3), 0);
    }
}
