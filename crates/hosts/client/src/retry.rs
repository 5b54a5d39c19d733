//! When to run a transaction again, and for how long at most.

use std::time::Duration;

use quorate_core::Random;
use tokio::time::Instant;

use crate::{Error, MissingReplica};

/// The first pause is drawn from up to this, if the attempt was even shorter.
const PAUSE_MIN: Duration = Duration::from_micros(200);

/// No pause is longer.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The bound doubles with each attempt, this many times at most.
const DOUBLINGS_MAX: u32 = 6;

/// The part of the whole deadline that is kept for finding out what became of an attempt, as a divisor.
const RESERVE_DIVISOR: u32 = 4;

/// For so long a transaction is begun again once an attempt has found too few replicas, and for this part of the time that was left then at most, as a
/// divisor. Connections to a node that has restarted are back within that, also on a busy machine; in a rolling restart the next node may be gone before they are. The time that
/// the attempt took does not count: it may have waited for a leader that is back by now.
const OUTAGE_MAX: Duration = Duration::from_secs(3);
const OUTAGE_DIVISOR: u32 = 4;

/// How long to wait before it is looked again whether enough can be reached.
const OUTAGE_PAUSE: Duration = Duration::from_millis(20);

/// The pauses between the attempts at one transaction.
///
/// A pause is drawn evenly from zero up to the duration of the attempt, doubled with each further attempt: two
/// transactions that met once are apart by as much as they take, on a local network as over an ocean, without a
/// constant that fits neither.
#[derive(Debug)]
pub(crate) struct Retries {
    deadline: Instant,
    reserve: Duration,
    attempts: u32,
    attempt_began: Instant,
    /// Up to when too few replicas may be reached, once that was so.
    outage_until: Option<Instant>,
    random: Random,
}

impl Retries {
    /// Attempts that must all have ended within `deadline` from now.
    pub(crate) fn new(deadline: Duration, seed: u64) -> Self {
        let now = Instant::now();
        Retries {
            deadline: now + deadline,
            reserve: deadline / RESERVE_DIVISOR,
            attempts: 0,
            attempt_began: now,
            outage_until: None,
            random: Random::new(seed),
        }
    }

    /// Begins an attempt: its number, and how long it may take.
    pub(crate) fn begin(&mut self) -> (u32, Duration) {
        self.attempt_began = Instant::now();
        let attempt = self.attempts;
        self.attempts += 1;
        (attempt, self.remaining().saturating_sub(self.reserve))
    }

    /// How many attempts were begun.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// How long there is until the deadline.
    pub(crate) fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Waits before the next attempt; false if there is not ample time for one: an attempt that
    /// ends for want of time would seem to say that replicas are missing.
    pub(crate) async fn pause(&mut self) -> bool {
        // Enough have answered.
        self.outage_until = None;
        let attempt_took = self.attempt_began.elapsed();
        let pause = self.draw(attempt_took);
        if self.remaining() <= pause + attempt_took * 2 + self.reserve {
            return false;
        }
        tokio::time::sleep(pause).await;
        true
    }

    /// True, after a pause, if an attempt has failed because too few replicas could be reached, and no operator has to act
    /// before they are back.
    pub(crate) async fn outlasts(&mut self, error: &Error) -> bool {
        let may_end = |missing: &[MissingReplica]| missing.iter().all(|replica| replica.problem.is_none());
        if !matches!(error, Error::Unavailable { missing } if may_end(missing)) {
            return false;
        }
        let (now, left) = (Instant::now(), self.remaining());
        let until = *self.outage_until.get_or_insert_with(|| now + OUTAGE_MAX.min(left / OUTAGE_DIVISOR));
        if now + OUTAGE_PAUSE >= until || left <= self.reserve + OUTAGE_PAUSE {
            return false;
        }
        tokio::time::sleep(OUTAGE_PAUSE.mul_f64(0.5 + 0.5 * self.random.unit())).await;
        true
    }

    fn draw(&mut self, attempt_took: Duration) -> Duration {
        let doublings = self.attempts.saturating_sub(1).min(DOUBLINGS_MAX);
        let bound = attempt_took.max(PAUSE_MIN).saturating_mul(1 << doublings).min(PAUSE_MAX);
        bound.mul_f64(self.random.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_with_the_attempts_up_to_their_bound() {
        let mut retries = Retries::new(Duration::from_secs(3600), 1);
        let mut bounds = Vec::new();
        for _ in 0..12 {
            retries.begin();
            let longest = (0..400).map(|_| retries.draw(Duration::from_millis(10))).max().unwrap();
            bounds.push(longest.as_secs_f64());
        }
        assert!(bounds[0] <= 0.010 && bounds[0] > 0.009, "{bounds:?}");
        assert!(bounds[3] <= 0.080 && bounds[3] > 0.070, "{bounds:?}");
        assert!(bounds[11] <= 0.640 && bounds[11] > 0.600, "{bounds:?}");
        assert!(retries.draw(Duration::from_secs(60)) <= PAUSE_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_are_jittered() {
        let mut retries = Retries::new(Duration::from_secs(60), 2);
        retries.begin();
        let drawn: Vec<Duration> = (0..100).map(|_| retries.draw(Duration::from_millis(8))).collect();
        assert!(drawn.iter().any(|pause| *pause < Duration::from_millis(2)));
        assert!(drawn.iter().any(|pause| *pause > Duration::from_millis(6)));
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_end_before_the_deadline_and_leave_time_to_resolve() {
        let mut retries = Retries::new(Duration::from_secs(8), 3);
        let (attempt, patience) = retries.begin();
        assert_eq!((attempt, patience), (0, Duration::from_secs(6)));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(retries.begin(), (1, Duration::from_secs(1)));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!retries.pause().await, "no time is left for a third attempt");
        assert_eq!(retries.attempts(), 2);
        assert_eq!(retries.remaining(), Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_could_not_end_is_not_begun() {
        let mut retries = Retries::new(Duration::from_secs(8), 4);
        retries.begin();
        tokio::time::advance(Duration::from_secs(3)).await;
        assert!(!retries.pause().await, "three more seconds and the reserve are all that is left");
    }

    #[tokio::test(start_paused = true)]
    async fn too_few_replicas_are_waited_for_a_moment() {
        let gone = Error::Unavailable { missing: Vec::new() };
        let outage = async |deadline: Duration| {
            let mut retries = Retries::new(deadline, 5);
            let began = Instant::now();
            retries.begin();
            while retries.outlasts(&gone).await {
                retries.begin();
            }
            began.elapsed()
        };
        let ample = outage(Duration::from_secs(60)).await;
        assert!(ample <= OUTAGE_MAX && ample > OUTAGE_MAX - 2 * OUTAGE_PAUSE, "{ample:?}");
        let short = outage(Duration::from_secs(2)).await;
        assert!(short <= Duration::from_millis(500) && short > Duration::from_millis(450), "{short:?}");
        let mut retries = Retries::new(Duration::from_secs(60), 6);
        retries.begin();
        assert!(!retries.outlasts(&Error::Conflict).await, "that is something else");
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(retries.outlasts(&gone).await, "that it took so long says nothing of the next attempt");
        retries.begin();
        tokio::time::advance(OUTAGE_MAX).await;
        assert!(!retries.outlasts(&gone).await, "two attempts are apart by more than that");
        retries.pause().await;
        retries.begin();
        assert!(retries.outlasts(&gone).await, "enough had answered in between");
        let mut retries = Retries::new(Duration::from_secs(8), 7);
        retries.begin();
        tokio::time::advance(Duration::from_secs(6)).await;
        assert!(!retries.outlasts(&gone).await, "the reserve is all that is left");
    }
}
