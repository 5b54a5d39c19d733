//! Which keys are swept, how many at a time, and when.
//!
//! ```text
//!            ┌────────────── nothing is due: wait ──────────────┐
//!            ▼                                                  │
//!   Look { passed before } ──► found ──► Sweep { keys } ──► ended ──► Sweep … ──► Look …
//!                                          ▲    │ conflict
//!                                          └────┘ half as many keys
//! ```
//!
//! A sweep is an ordinary transaction: it reads the keys, and deletes those whose values are over by then ([`is_swept`]). Two that sweep one key conflict like any two transactions, so any number of
//! nodes may sweep a keyspace at once. To spare the work they stand in line: the node with rank *r* takes what has been over for *r* times [`SweeperConfig::lag`], so the second one has nothing to do
//! as long as the first one does it.

use std::collections::BTreeSet;
use std::time::Duration;

use quorate_core::expiry::{Envelope, Expiry};
use quorate_core::{ClockTime, Instant, Key, Value};

use crate::Mistake;

/// The bounds of a sweeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweeperConfig {
    /// At most so many keys are swept in a second.
    pub keys_per_second: u32,
    /// At most so many keys are looked for at once.
    pub page: u32,
    /// At most so many keys are swept in one transaction.
    pub batch: u32,
    /// Between two looks that find less than a page.
    pub pause: Duration,
    /// A node leaves to each one that stands before it so much time.
    pub lag: Duration,
}

impl Default for SweeperConfig {
    fn default() -> Self {
        SweeperConfig {
            keys_per_second: 1_000,
            page: 256,
            batch: 32,
            pause: Duration::from_secs(1),
            lag: Duration::from_secs(5),
        }
    }
}

/// An entry of an expiry that has passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// The key.
    pub key: Key,
    /// The expiry of its value, when the entry was read.
    pub expiry: Expiry,
}

/// The next thing to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Look for entries of expiries at or below this one, the earliest first.
    Look {
        /// The latest of them.
        until: Expiry,
        /// At most so many.
        limit: u32,
    },
    /// Read these keys and delete those whose values are over, in one transaction.
    Sweep {
        /// The keys.
        keys: Vec<Due>,
    },
    /// Do nothing until then.
    Wait {
        /// When to ask again.
        until: Instant,
    },
}

/// How a sweep has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It has committed, and deleted so many keys.
    Swept(u64),
    /// Another transaction was in the way, or the outcome is not known.
    Conflict,
    /// The cluster cannot be asked at present.
    Failed,
}

/// The work of a sweeper so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// The keys that it has deleted.
    pub keys: u64,
    /// The transactions in which it has.
    pub transactions: u64,
    /// Those that came to nothing because of others.
    pub conflicts: u64,
    /// Looks and transactions that have failed.
    pub failures: u64,
    /// How long what it found last had been over; zero if it found nothing.
    pub behind: Duration,
}

/// Sweeps one keyspace.
#[derive(Clone, Debug)]
pub struct Sweeper {
    config: SweeperConfig,
    rank: u32,
    due: Vec<Due>,
    /// So many keys are swept in the next transaction.
    batch: u32,
    /// No transaction begins earlier.
    rests_until: Instant,
    /// The keys of the last transaction.
    taken: Vec<Due>,
    /// True if the last look has found all that is due.
    is_drained: bool,
    swept: Swept,
}

impl Sweeper {
    /// A sweeper with so many others before it.
    ///
    /// # Panics
    /// If one of the bounds is zero.
    pub fn new(config: SweeperConfig, rank: u32) -> Self {
        let bounds = [config.keys_per_second, config.page, config.batch];
        assert!(bounds.iter().all(|bound| *bound > 0), "a sweeper with {config:?} would do nothing");
        Sweeper {
            config,
            rank,
            due: Vec::new(),
            batch: config.batch,
            rests_until: Instant::START,
            taken: Vec::new(),
            is_drained: false,
            swept: Swept::default(),
        }
    }

    /// The work so far.
    pub fn swept(&self) -> Swept {
        self.swept
    }

    /// Stands behind so many others from now on.
    pub fn stand_behind(&mut self, rank: u32) {
        self.rank = rank;
    }

    /// The next thing to be done, once the one before has ended.
    pub fn next(&mut self, now: Instant, clock: ClockTime) -> Task {
        if now < self.rests_until {
            return Task::Wait { until: self.rests_until };
        }
        if !self.due.is_empty() {
            let count = self.due.len().min(self.batch as usize);
            self.taken = self.due.drain(..count).collect();
            // The next sweep is not due before as many keys may be swept again.
            self.rests_until = now + Duration::from_secs(count as u64) / self.config.keys_per_second;
            return Task::Sweep { keys: self.taken.clone() };
        }
        if std::mem::take(&mut self.is_drained) {
            self.rests_until = now + self.config.pause;
            return Task::Wait { until: self.rests_until };
        }
        let lag = self.config.lag.saturating_mul(self.rank);
        let until = clock.as_micros().saturating_sub(u64::try_from(lag.as_micros()).unwrap_or(u64::MAX));
        Task::Look { until: Expiry::from_micros(until), limit: self.config.page }
    }

    /// A look has found these.
    pub fn on_found(&mut self, found: Vec<Due>, clock: ClockTime) {
        self.is_drained = found.len() < self.config.page as usize;
        let behind = |due: &Due| clock.as_micros().saturating_sub(due.expiry.as_micros());
        self.swept.behind = Duration::from_micros(found.first().map_or(0, behind));
        // One key may have had entries of several expiries, if it was written while the page was read.
        let mut seen = BTreeSet::new();
        self.due = found.into_iter().filter(|due| seen.insert(due.key.clone())).collect();
    }

    /// A look has come to nothing.
    pub fn on_look_failed(&mut self) {
        self.swept.failures += 1;
        self.is_drained = true;
    }

    /// A sweep has ended.
    pub fn on_swept(&mut self, ended: Ended) {
        let taken = std::mem::take(&mut self.taken);
        match ended {
            Ended::Swept(keys) => {
                self.swept.keys += keys;
                self.swept.transactions += 1;
                self.batch = (self.batch * 2).min(self.config.batch);
            }
            Ended::Conflict if taken.len() > 1 => {
                self.swept.conflicts += 1;
                self.batch = (taken.len() as u32 / 2).max(1);
                self.due.splice(0..0, taken);
            }
            // A key that others are at is looked for again later, and keeps none of the others waiting.
            Ended::Conflict => self.swept.conflicts += 1,
            Ended::Failed => {
                self.swept.failures += 1;
                self.due.clear();
                self.is_drained = true;
            }
        }
        assert!(self.batch > 0 && self.batch <= self.config.batch, "{} keys at a time", self.batch);
    }
}

/// True if a key is to be deleted that held this when a sweep has read it, by the clock of that transaction.
pub fn is_swept(held: Option<&Value>, clock: ClockTime, mistake: Option<Mistake>) -> bool {
    if mistake == Some(Mistake::SweepsUnread) {
        return true;
    }
    let expiry = held.and_then(|held| Envelope::expiry_in(held).ok().flatten());
    expiry.is_some_and(|expiry| expiry.has_passed_by(clock))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK: ClockTime = ClockTime::from_micros(60_000_000);

    fn due(names: std::ops::Range<u64>) -> Vec<Due> {
        let one = |name| Due { key: Key::from(format!("k{name}")), expiry: Expiry::from_micros(name) };
        names.map(one).collect()
    }

    fn config() -> SweeperConfig {
        SweeperConfig { keys_per_second: 100, page: 10, batch: 4, ..SweeperConfig::default() }
    }

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    fn count(task: &Task) -> usize {
        match task {
            Task::Sweep { keys } => keys.len(),
            other => panic!("{other:?} sweeps nothing"),
        }
    }

    #[test]
    fn a_page_is_swept_in_batches_at_the_rate_that_is_allowed() {
        let mut sweeper = Sweeper::new(config(), 0);
        let look = Task::Look { until: Expiry::from_micros(60_000_000), limit: 10 };
        assert_eq!(sweeper.next(at(0), CLOCK), look);
        sweeper.on_found(due(1..11), CLOCK);
        assert_eq!(sweeper.swept().behind, Duration::from_micros(59_999_999));
        assert_eq!(count(&sweeper.next(at(0), CLOCK)), 4);
        sweeper.on_swept(Ended::Swept(4));
        assert_eq!(sweeper.next(at(0), CLOCK), Task::Wait { until: at(40) }, "four keys take 40 ms");
        assert_eq!(count(&sweeper.next(at(40), CLOCK)), 4);
        sweeper.on_swept(Ended::Swept(3));
        assert_eq!(count(&sweeper.next(at(80), CLOCK)), 2);
        sweeper.on_swept(Ended::Swept(2));
        assert_eq!(sweeper.next(at(100), CLOCK), look, "the page was full: there may be more");
        sweeper.on_found(Vec::new(), CLOCK);
        assert_eq!(sweeper.next(at(100), CLOCK), Task::Wait { until: at(1_100) });
        assert_eq!(sweeper.next(at(1_100), CLOCK), look);
        let expected = Swept { keys: 9, transactions: 3, ..Swept::default() };
        assert_eq!(sweeper.swept(), expected);
    }

    #[test]
    fn a_conflict_halves_the_batch_and_one_key_is_passed_over() {
        let mut sweeper = Sweeper::new(config(), 0);
        sweeper.on_found(due(0..4), CLOCK);
        let mut sizes = Vec::new();
        for millis in (0..).step_by(1_000).take(6) {
            let Task::Sweep { keys } = sweeper.next(at(millis), CLOCK) else { break };
            sizes.push(keys.len());
            // The first key is somebody else's.
            let meets = keys.iter().any(|due| due.key.as_slice() == b"k0");
            sweeper.on_swept(if meets { Ended::Conflict } else { Ended::Swept(keys.len() as u64) });
        }
        assert_eq!(sizes, [4, 2, 1, 1, 2]);
        let Swept { keys, conflicts, .. } = sweeper.swept();
        assert_eq!((keys, conflicts), (3, 3));
    }

    #[test]
    fn a_failure_lets_go_of_the_page_and_waits() {
        let mut sweeper = Sweeper::new(config(), 0);
        sweeper.on_found(due(0..10), CLOCK);
        assert_eq!(count(&sweeper.next(at(0), CLOCK)), 4);
        sweeper.on_swept(Ended::Failed);
        assert_eq!(sweeper.next(at(40), CLOCK), Task::Wait { until: at(1_040) });
        assert!(matches!(sweeper.next(at(1_040), CLOCK), Task::Look { .. }));
        sweeper.on_look_failed();
        assert_eq!(sweeper.next(at(1_040), CLOCK), Task::Wait { until: at(2_040) });
        assert_eq!(sweeper.swept().failures, 2);
    }

    #[test]
    fn a_node_leaves_time_to_those_before_it() {
        let mut sweeper = Sweeper::new(config(), 2);
        let look = |micros| Task::Look { until: Expiry::from_micros(micros), limit: 10 };
        assert_eq!(sweeper.next(at(0), CLOCK), look(50_000_000));
        sweeper.stand_behind(0);
        assert_eq!(sweeper.next(at(0), CLOCK), look(60_000_000));
        sweeper.stand_behind(u32::MAX);
        assert_eq!(sweeper.next(at(0), CLOCK), look(0));
    }

    #[test]
    fn a_key_is_swept_once_of_a_page() {
        let mut sweeper = Sweeper::new(config(), 0);
        let mut found = due(0..2);
        found.push(Due { key: Key::from("k0"), expiry: Expiry::from_micros(7) });
        sweeper.on_found(found, CLOCK);
        assert_eq!(count(&sweeper.next(at(0), CLOCK)), 2);
    }

    #[test]
    fn only_what_is_over_is_swept() {
        let held = |expiry: Option<u64>| {
            let expiry = expiry.map(Expiry::from_micros);
            Envelope { value: Value::from_static(b"v"), expiry }.encode()
        };
        let clock = ClockTime::from_micros(10);
        let table = [
            (None, false),
            (Some(held(None)), false),
            (Some(held(Some(11))), false),
            (Some(held(Some(10))), true),
            (Some(Value::from_static(b"no envelope")), false),
        ];
        for (held, expected) in table {
            assert_eq!(is_swept(held.as_ref(), clock, None), expected, "{held:?}");
            assert!(is_swept(held.as_ref(), clock, Some(Mistake::SweepsUnread)));
        }
    }
}
