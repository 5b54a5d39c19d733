//! The transactions of a replica as its host sees them pass: how many end how, how long they take, which keys they want.
//!
//! In `strict` keyspaces a replica measures from the first prepare to the decision. Both travel the same way, so that every replica, however far
//! away, measures what the coordinator has waited. In the others the replica that is asked measures until it answers; the way to the client is not in it.
//!
//! Memory is bounded: so many transactions are followed at a time, so many keys and slow transactions are remembered. A replica that is asked for
//! nothing takes none.

use std::collections::VecDeque;
use std::time::Duration;

use quorate_core::hash::FixedMap;
use quorate_core::landmark::{End, FewKeys, Landmark};
use quorate_core::{Instant, Key, TransactionId};
use serde::Serialize;

use super::histogram::Histogram;

/// Transactions that are followed at a time; further ones are not counted.
const FOLLOWED_MAX: usize = 16_384;

/// So long a transaction is followed if others want its place.
const FOLLOWED_FOR: Duration = Duration::from_secs(60);

/// The length of a period: recent transactions are those of the present period and of the one before.
const PERIOD: Duration = Duration::from_secs(10);

/// The keys of which it is counted how much they are wanted.
const WANTED_KEYS_MAX: usize = 32;

/// Transactions of a period whose keys are looked at, the first ones.
const LOOKED_AT_MAX: u32 = 2_000;

/// The hot keys that the status tells.
const HOT_KEYS_MAX: usize = 8;

/// The slow transactions that are remembered.
const SLOW_MAX: usize = 16;

/// A slow transaction takes so many times the median of recent ones,
const SLOW_FACTOR: u32 = 4;

/// and at least so long,
const SLOW_MIN: Duration = Duration::from_millis(10);

/// of which so many have to be known, and which is looked at anew after as many;
const SLOW_OF: u64 = 32;

/// and one that takes so long is slow in any case.
const SLOW_ALWAYS: Duration = Duration::from_secs(1);

/// The longest part of a key that the status shows, in bytes.
const SHOWN_KEY_BYTES_MAX: usize = 64;

/// The transactions that a replica has seen.
#[derive(Debug, Default)]
pub(super) struct Traffic(Option<Box<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    open: FixedMap<TransactionId, Open>,
    swept: Instant,
    commits: u64,
    slow_commits: u64,
    aborts: u64,
    durations: Histogram,
    /// Those of the present period and of the one before.
    periods: [Histogram; 2],
    period_began: Instant,
    looked_at: u32,
    /// The median of a while ago, once there were enough to have one.
    usual: Option<Duration>,
    wanted: Vec<Wanted>,
    slow: VecDeque<Slow>,
}

/// A transaction that has not ended.
#[derive(Debug)]
struct Open {
    since: Instant,
    keys: FewKeys,
    is_slow_path: bool,
    is_hindered: bool,
}

/// A key, and how much it is wanted.
#[derive(Debug)]
struct Wanted {
    key: Key,
    /// Transactions that write it, of those that are looked at; halved with each period.
    writers: u32,
    /// Those of them that found another one in their way.
    hindered: u32,
}

#[derive(Debug)]
struct Slow {
    transaction: TransactionId,
    ended: Instant,
    took: Duration,
    keys: FewKeys,
    has_committed: bool,
    is_slow_path: bool,
    is_hindered: bool,
}

impl Traffic {
    /// A message arrives which is this landmark, of a transaction that writes these keys.
    pub(super) fn on_received(
        &mut self,
        now: Instant,
        landmark: Option<Landmark>,
        keys: impl FnOnce() -> FewKeys,
    ) {
        match landmark {
            None => {}
            Some(Landmark::Asked(transaction)) => {
                self.0.get_or_insert_default().on_asked(now, transaction, keys);
            }
            Some(landmark) => self.on_landmark(now, landmark),
        }
    }

    /// A message leaves.
    pub(super) fn on_sent(&mut self, now: Instant, landmark: impl FnOnce() -> Option<Landmark>) {
        // Where nothing was asked there is nothing to end.
        if self.0.is_some()
            && let Some(landmark) = landmark()
        {
            self.on_landmark(now, landmark);
        }
    }

    fn on_landmark(&mut self, now: Instant, landmark: Landmark) {
        let Some(seen) = &mut self.0 else { return };
        match landmark {
            Landmark::Asked(_) => {}
            Landmark::Slow(transaction) => {
                if let Some(open) = seen.open.get_mut(&transaction) {
                    open.is_slow_path = true;
                }
            }
            Landmark::Hindered(transaction) => seen.on_hindered(transaction),
            Landmark::Ended(transaction, end) => seen.on_ended(now, transaction, end),
            Landmark::Passed(transaction) => _ = seen.open.remove(&transaction),
        }
    }

    /// The part of the status for operators; none of a replica that was asked for nothing.
    pub(super) fn status(&self, now: Instant) -> Option<TrafficStatus> {
        self.0.as_ref().map(|seen| seen.status(now))
    }
}

impl Seen {
    fn on_asked(&mut self, now: Instant, transaction: TransactionId, keys: impl FnOnce() -> FewKeys) {
        self.turn_period(now);
        // It is asked again until it answers.
        if self.open.contains_key(&transaction) || !self.has_room(now) {
            return;
        }
        let mut open = Open { since: now, keys: FewKeys::default(), is_slow_path: false, is_hindered: false };
        if self.looked_at < LOOKED_AT_MAX {
            self.looked_at += 1;
            open.keys = keys();
            open.keys.iter().flatten().for_each(|key| self.want(key));
        }
        self.open.insert(transaction, open);
    }

    fn has_room(&mut self, now: Instant) -> bool {
        const SWEEP: Duration = Duration::from_secs(1);
        if self.open.len() >= FOLLOWED_MAX && now.saturating_since(self.swept) >= SWEEP {
            self.swept = now;
            self.open.retain(|_, open| now.saturating_since(open.since) < FOLLOWED_FOR);
        }
        self.open.len() < FOLLOWED_MAX
    }

    /// Counts a writer of a key. The key that is wanted least makes room, and leaves its count behind, as in *space saving* (Metwally et al.).
    fn want(&mut self, key: &Key) {
        if let Some(known) = self.wanted.iter_mut().find(|known| known.key == *key) {
            known.writers += 1;
        } else if self.wanted.len() < WANTED_KEYS_MAX {
            self.wanted.push(Wanted { key: key.clone(), writers: 1, hindered: 0 });
        } else if let Some(least) = self.wanted.iter_mut().min_by_key(|known| known.writers) {
            *least = Wanted { key: key.clone(), writers: least.writers + 1, hindered: 0 };
        }
    }

    fn on_hindered(&mut self, transaction: TransactionId) {
        let Some(open) = self.open.get_mut(&transaction) else { return };
        if std::mem::replace(&mut open.is_hindered, true) {
            return;
        }
        for key in open.keys.iter().flatten() {
            if let Some(known) = self.wanted.iter_mut().find(|known| known.key == *key) {
                known.hindered += 1;
            }
        }
    }

    fn on_ended(&mut self, now: Instant, transaction: TransactionId, end: End) {
        let Some(open) = self.open.remove(&transaction) else { return };
        self.turn_period(now);
        let took = now.saturating_since(open.since);
        let is_slow_path = open.is_slow_path || end == End::CommittedSlowly;
        match end {
            End::Aborted => self.aborts += 1,
            End::Committed | End::CommittedSlowly => {
                self.commits += 1;
                self.slow_commits += u64::from(is_slow_path);
                self.durations.record(took);
                self.periods[0].record(took);
                if self.durations.total().is_multiple_of(SLOW_OF) {
                    self.usual = self.recent().quantile(0.5);
                }
            }
        }
        if self.is_slow(took) {
            if self.slow.len() == SLOW_MAX {
                self.slow.pop_front();
            }
            self.slow.push_back(Slow {
                transaction,
                ended: now,
                took,
                keys: open.keys,
                has_committed: end != End::Aborted,
                is_slow_path,
                is_hindered: open.is_hindered,
            });
        }
    }

    fn is_slow(&self, took: Duration) -> bool {
        let is_unusual = self.usual.is_some_and(|usual| took >= SLOW_MIN.max(usual * SLOW_FACTOR));
        is_unusual || took >= SLOW_ALWAYS
    }

    fn recent(&self) -> Histogram {
        let mut recent = self.periods[0].clone();
        recent.add(&self.periods[1]);
        recent
    }

    fn turn_period(&mut self, now: Instant) {
        let elapsed = now.saturating_since(self.period_began);
        if elapsed < PERIOD {
            return;
        }
        let ended = std::mem::take(&mut self.periods[0]);
        self.periods[1] = if elapsed < 2 * PERIOD { ended } else { Histogram::default() };
        (self.period_began, self.looked_at) = (now, 0);
        for known in &mut self.wanted {
            (known.writers, known.hindered) = (known.writers / 2, known.hindered / 2);
        }
        self.wanted.retain(|known| known.writers > 0);
    }

    fn status(&self, now: Instant) -> TrafficStatus {
        // A period that has not turned since is old.
        let is_quiet = now.saturating_since(self.period_began) >= 2 * PERIOD;
        let recent = if is_quiet { Histogram::default() } else { self.recent() };
        let seconds = |share| recent.quantile(share).map(|took| took.as_secs_f64());
        let mut hot: Vec<&Wanted> = if is_quiet {
            Vec::new()
        } else {
            self.wanted.iter().filter(|known| known.writers > 1).collect()
        };
        hot.sort_by(|one, other| {
            (other.hindered, other.writers, &one.key).cmp(&(one.hindered, one.writers, &other.key))
        });
        TrafficStatus {
            commits: self.commits,
            slow_commits: self.slow_commits,
            aborts: self.aborts,
            recent_p50_seconds: seconds(0.5),
            recent_p99_seconds: seconds(0.99),
            recent_durations: recent.buckets(),
            hot_keys: hot
                .into_iter()
                .take(HOT_KEYS_MAX)
                .map(|Wanted { key, writers, hindered }| HotKeyStatus {
                    key: shown(key),
                    writers: *writers,
                    hindered: *hindered,
                })
                .collect(),
            slow_transactions: self.slow.iter().map(|slow| slow.status(now)).collect(),
            durations: self.durations.buckets(),
            durations_sum_seconds: self.durations.sum_seconds(),
        }
    }
}

impl Slow {
    fn status(&self, now: Instant) -> SlowStatus {
        SlowStatus {
            transaction: self.transaction.to_string(),
            ended_seconds_ago: now.saturating_since(self.ended).as_secs_f64(),
            seconds: self.took.as_secs_f64(),
            committed: self.has_committed,
            slow_path: self.is_slow_path,
            hindered: self.is_hindered,
            keys: self.keys.iter().flatten().map(shown).collect(),
        }
    }
}

/// A key for people: bytes that are no text are replaced, and a long one is cut.
fn shown(key: &Key) -> String {
    let part = &key[..key.len().min(SHOWN_KEY_BYTES_MAX)];
    let cut = if part.len() < key.len() { "…" } else { "" };
    format!("{}{cut}", String::from_utf8_lossy(part))
}

/// The transactions that write and whose first shard is the replica's, as it has seen them since this process started. Where a leader is asked,
/// the leader alone sees them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrafficStatus {
    /// Transactions that committed.
    pub commits: u64,
    /// Those of them that took the slow path.
    pub slow_commits: u64,
    /// Attempts that aborted.
    pub aborts: u64,
    /// The median time of commits in the last ten to twenty seconds, in seconds; none if there were none.
    pub recent_p50_seconds: Option<f64>,
    /// The time that one of a hundred of them exceeds.
    pub recent_p99_seconds: Option<f64>,
    /// How many took how long: the ends of buckets in seconds, ascending, and the count of each.
    pub recent_durations: Vec<(f64, u64)>,
    /// The keys that recent transactions have written most; those first on which transactions were in each other's way.
    pub hot_keys: Vec<HotKeyStatus>,
    /// The latest transactions that took much longer than others, oldest first.
    pub slow_transactions: Vec<SlowStatus>,
    /// How many commits took how long since this process started, as in `recent_durations`.
    #[serde(skip)]
    pub durations: Vec<(f64, u64)>,
    /// The sum of these times, in seconds.
    #[serde(skip)]
    pub durations_sum_seconds: f64,
}

/// A key that many transactions write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HotKeyStatus {
    /// The beginning of the key, as text.
    pub key: String,
    /// Recent transactions that wrote it, of those that were looked at.
    pub writers: u32,
    /// Those of them in whose way the replica found another one.
    pub hindered: u32,
}

/// A transaction that took much longer than others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SlowStatus {
    /// Its name: client, sequence, attempt.
    pub transaction: String,
    /// How long ago it ended, in seconds.
    pub ended_seconds_ago: f64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Whether it committed.
    pub committed: bool,
    /// True if it took the slow path.
    pub slow_path: bool,
    /// True if the replica found another one in its way.
    pub hindered: bool,
    /// The beginnings of the first keys that it writes here, as text, if it was looked at.
    pub keys: Vec<String>,
}

#[cfg(test)]
#[path = "traffic_tests.rs"]
mod tests;
