//! The transactions below the floor that are retained for consumers of changes.
//!
//! No snapshot reads them any more, so they are kept apart from the histories: as they have committed, in the order of the numbers of each site. They are let go by
//! *stretches*, which are what the floor has risen by in a while; the *horizon* is where the last one ended that was let go. When the floor has risen is known to this replica
//! alone, by its own clock: how much is retained is no part of what replicas agree on.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use quorate_core::ClockTime;
use quorate_core::changes::Retention;

use crate::entry::{Commit, Stretch};
use crate::vector::{LocalSite, Vector, VersionNumber};

/// A stretch goes on for this part of the time and the bytes that are retained, so that there are few and little is let go at once.
const PART: u32 = 64;

/// The transactions that are retained.
#[derive(Debug)]
pub(super) struct Retained {
    retention: Retention,
    /// The clock of this replica, as far as it has gone forward.
    clock: ClockTime,
    /// All transactions that it does not include, and the floor does, are there.
    horizon: Vector,
    /// When the last stretch ended that was let go; zero if none was.
    let_go: ClockTime,
    commits: BTreeMap<LocalSite, VecDeque<Arc<Commit>>>,
    stretches: VecDeque<(Stretch, u64)>,
    bytes: u64,
}

impl Retained {
    pub(super) fn new(retention: Retention) -> Self {
        Retained {
            retention,
            clock: ClockTime::default(),
            horizon: Vector::default(),
            let_go: ClockTime::default(),
            commits: BTreeMap::new(),
            stretches: VecDeque::new(),
            bytes: 0,
        }
    }

    /// The transactions that a replica of the same site has retained, as far as it reaches up to the floor; nothing of a state without it.
    pub(super) fn restored(
        retention: Retention,
        floor: &Vector,
        from: Option<(Vector, Vec<Stretch>, Vec<Arc<Commit>>)>,
    ) -> Self {
        let mut retained = Retained { horizon: floor.clone(), ..Retained::new(retention) };
        let Some((horizon, stretches, commits)) = from else { return retained };
        let is_whole = stretches.last().map_or(&horizon, |last| &last.floor) == floor;
        if !is_whole || retention.time.is_zero() {
            return retained;
        }
        retained.horizon = horizon;
        for commit in commits {
            retained.commits.entry(commit.version.site).or_default().push_back(commit);
        }
        let mut before = retained.horizon.clone();
        for stretch in stretches {
            let bytes = retained.bytes_between(&before, &stretch.floor);
            before = stretch.floor.clone();
            retained.clock = retained.clock.max(stretch.until);
            retained.bytes += bytes;
            retained.stretches.push_back((stretch, bytes));
        }
        retained
    }

    pub(super) fn retention(&self) -> Retention {
        self.retention
    }

    /// The clock says this.
    pub(super) fn note_clock(&mut self, clock: ClockTime) {
        self.clock = self.clock.max(clock);
    }

    /// Every transaction that it does not include is retained, or above the floor.
    pub(super) fn horizon(&self) -> &Vector {
        &self.horizon
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn let_go(&self) -> ClockTime {
        self.let_go
    }

    pub(super) fn stretches(&self) -> impl Iterator<Item = &Stretch> {
        self.stretches.iter().map(|(stretch, _)| stretch)
    }

    pub(super) fn commits(&self) -> impl Iterator<Item = &Arc<Commit>> {
        self.commits.values().flatten()
    }

    /// A transaction that the horizon does not include and the floor does.
    pub(super) fn commit(&self, version: VersionNumber) -> Option<&Arc<Commit>> {
        let after = version.seqno.checked_sub(self.horizon.of(version.site) + 1)?;
        let commit = self.commits.get(&version.site)?.get(usize::try_from(after).ok()?)?;
        assert!(commit.version == version, "{} is retained where {version} is to be", commit.version);
        Some(commit)
    }

    /// The floor has risen, and includes these transactions: all between what it included before and what it includes now.
    pub(super) fn add(&mut self, floor: &Vector, commits: Vec<Arc<Commit>>) {
        if self.retention.time.is_zero() {
            self.horizon.clone_from(floor);
            return;
        }
        if commits.is_empty() {
            return self.retain();
        }
        let mut bytes = 0;
        for commit in commits {
            bytes += commit.bytes() as u64;
            let kept = self.commits.entry(commit.version.site).or_default();
            let next = self.horizon.of(commit.version.site) + kept.len() as u64 + 1;
            assert!(commit.version.seqno == next, "{} is retained after number {}", commit.version, next - 1);
            kept.push_back(commit);
        }
        self.bytes += bytes;
        let Retention { time, bytes: bytes_max } = self.retention;
        let (now, time_max, part_max) = (self.clock, time / PART, bytes_max / u64::from(PART));
        match self.stretches.back_mut() {
            Some((stretch, known))
                if now.as_micros()
                    < stretch.since.as_micros().saturating_add(time_max.as_micros() as u64)
                    && *known < part_max =>
            {
                (stretch.until, stretch.floor) = (now, floor.clone());
                *known += bytes;
            }
            _ => {
                let stretch = Stretch { since: now, until: now, floor: floor.clone() };
                self.stretches.push_back((stretch, bytes));
            }
        }
        self.retain();
    }

    /// Lets go what is retained for too long, or is too much.
    fn retain(&mut self) {
        let Retention { time, bytes } = self.retention;
        let oldest =
            self.clock.as_micros().saturating_sub(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        while let Some((stretch, _)) = self.stretches.front()
            && (stretch.until.as_micros() < oldest || self.bytes > bytes)
        {
            let Some((stretch, bytes)) = self.stretches.pop_front() else { return };
            for (site, commits) in &mut self.commits {
                commits.drain(..(stretch.floor.of(*site) - self.horizon.of(*site)) as usize);
            }
            self.commits.retain(|_, commits| !commits.is_empty());
            (self.horizon, self.let_go) = (stretch.floor, stretch.until);
            self.bytes -= bytes;
        }
        assert!(
            !self.stretches.is_empty() || (self.commits.is_empty() && self.bytes == 0),
            "{} bytes are retained above {} in no stretch",
            self.bytes,
            self.horizon
        );
    }

    /// About how many bytes the transactions have that one vector includes and another does not.
    fn bytes_between(&self, before: &Vector, floor: &Vector) -> u64 {
        let is_between =
            |commit: &&Arc<Commit>| floor.includes(commit.version) && !before.includes(commit.version);
        self.commits().filter(is_between).map(|commit| commit.bytes() as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use quorate_core::{Key, TransactionId};

    use super::*;
    use crate::histories::Update;

    fn v(numbers: &[u64]) -> Vector {
        Vector::new(numbers.to_vec())
    }

    fn commit(site: u16, seqno: u64) -> Arc<Commit> {
        let version = VersionNumber { site: LocalSite(site), seqno };
        let updates = vec![Update::Write { key: Key::from("k"), value: None }];
        let transaction = TransactionId::default();
        Arc::new(Commit { transaction, version, snapshot: Vector::default(), updates, is_slow: false })
    }

    fn retained(seconds: u64, commits: u64) -> Retained {
        let bytes = commits * commit(0, 1).bytes() as u64;
        Retained::new(Retention { time: Duration::from_secs(seconds), bytes })
    }

    /// The floor rises by a transaction of the first site.
    fn rises(retained: &mut Retained, seqno: u64, seconds: u64) {
        retained.note_clock(ClockTime::from_micros(seconds * 1_000_000));
        retained.add(&v(&[seqno]), vec![commit(0, seqno)]);
    }

    fn kept(retained: &Retained) -> Vec<u64> {
        retained.commits().map(|commit| commit.version.seqno).collect()
    }

    #[test]
    fn what_was_below_the_floor_for_too_long_is_let_go() {
        let mut retained = retained(100, 1_000);
        for seqno in 1..=5 {
            rises(&mut retained, seqno, 50 * seqno);
        }
        assert_eq!((kept(&retained), retained.horizon()), (vec![3, 4, 5], &v(&[2])));
        assert_eq!(retained.let_go(), ClockTime::from_micros(100_000_000));
        assert!(retained.commit(VersionNumber { site: LocalSite(0), seqno: 2 }).is_none());
        let third = retained.commit(VersionNumber { site: LocalSite(0), seqno: 3 });
        assert_eq!(third.map(|commit| commit.version.seqno), Some(3));
        retained.note_clock(ClockTime::from_micros(301_000_000));
        retained.add(&v(&[5]), vec![]);
        assert_eq!(kept(&retained), [5], "also where nothing is written");
        rises(&mut retained, 6, 10);
        assert_eq!(kept(&retained), [5, 6], "a clock that goes back lets nothing go");
    }

    #[test]
    fn no_more_bytes_are_retained_than_are_to_be() {
        let mut retained = retained(100, 3);
        for seqno in 1..=5 {
            rises(&mut retained, seqno, 1);
            assert!(retained.bytes() <= 3 * commit(0, 1).bytes() as u64);
        }
        assert_eq!((kept(&retained), retained.horizon()), (vec![3, 4, 5], &v(&[2])));
        let mut nothing = Retained::new(Retention::NONE);
        rises(&mut nothing, 1, 1);
        assert_eq!((kept(&nothing), nothing.horizon()), (vec![], &v(&[1])));
    }

    #[test]
    fn transactions_that_came_together_are_one_stretch() {
        let mut retained = retained(128, 1_000);
        for (seqno, seconds) in [(1, 1), (2, 2), (3, 3), (4, 4)] {
            rises(&mut retained, seqno, seconds);
        }
        let stretches: Vec<_> = retained.stretches().map(|stretch| stretch.floor.clone()).collect();
        assert_eq!(stretches, [v(&[2]), v(&[4])]);
    }

    #[test]
    fn what_was_retained_is_retained_by_the_next_process() {
        let mut first = retained(100, 1_000);
        first.add(&v(&[1, 1]), vec![commit(0, 1), commit(1, 1)]);
        for (seqno, seconds) in [(2, 50), (3, 120)] {
            first.note_clock(ClockTime::from_micros(seconds * 1_000_000));
            first.add(&v(&[seqno, 1]), vec![commit(0, seqno)]);
        }
        assert_eq!(first.horizon(), &v(&[1, 1]));
        let pages = || {
            let (stretches, commits) =
                (first.stretches().cloned().collect(), first.commits().cloned().collect());
            Some((first.horizon().clone(), stretches, commits))
        };
        let mut again = Retained::restored(first.retention(), &v(&[3, 1]), pages());
        assert_eq!((kept(&again), again.horizon(), again.bytes()), (vec![2, 3], &v(&[1, 1]), first.bytes()));
        again.note_clock(ClockTime::from_micros(160_000_000));
        again.add(&v(&[4, 1]), vec![commit(0, 4)]);
        assert_eq!(kept(&again), [3, 4], "since when it is retained is known");
        let gap = Retained::restored(first.retention(), &v(&[4, 1]), pages());
        assert_eq!((kept(&gap), gap.horizon()), (vec![], &v(&[4, 1])), "an earlier program raised the floor");
        let none = Retained::restored(first.retention(), &v(&[4, 1]), None);
        assert_eq!(none.horizon(), &v(&[4, 1]));
    }
}
