//! The durable memory of one machine: records become durable when a sync that began after them ends.

use std::collections::VecDeque;

use quorate_core::Random;
use quorate_core::machine::PersistToken;

/// Whether records outlive a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Records reach a disk with the next sync.
    Disk,
    /// Records are as good as durable at once, and a crash loses them all.
    Memory,
}

/// The records of one machine, durable and not yet durable.
#[derive(Debug)]
pub struct Disk<R> {
    medium: Medium,
    durable: Vec<R>,
    unsynced: VecDeque<(R, Option<PersistToken>)>,
    /// How many records were ever appended; names positions, so it never falls.
    appended: u64,
    /// Up to which position records are durable.
    synced: u64,
    /// Up to which position the sync that is under way reaches.
    syncing: Option<u64>,
}

impl<R: Clone> Disk<R> {
    /// An empty disk.
    pub fn new(medium: Medium) -> Self {
        Disk { medium, durable: Vec::new(), unsynced: VecDeque::new(), appended: 0, synced: 0, syncing: None }
    }

    /// Appends a record and returns its position. In memory it is durable at once.
    pub fn append(&mut self, record: R, notify: Option<PersistToken>) {
        self.appended += 1;
        self.unsynced.push_back((record, notify));
    }

    /// Up to which position records were appended.
    pub fn appended(&self) -> u64 {
        self.appended
    }

    /// Up to which position records are durable.
    pub fn synced(&self) -> u64 {
        self.synced
    }

    /// Where records go.
    pub fn medium(&self) -> Medium {
        self.medium
    }

    /// Begins a sync of everything appended so far; false if there is nothing to do or one is under way.
    pub fn begin_sync(&mut self) -> bool {
        let begins = self.syncing.is_none() && self.appended > self.synced;
        if begins {
            self.syncing = Some(self.appended);
        }
        begins
    }

    /// Ends the sync that is under way; the tokens of what became durable are added to `tokens`.
    pub fn end_sync(&mut self, tokens: &mut VecDeque<PersistToken>) {
        let Some(reached) = self.syncing.take() else { return };
        while self.synced < reached {
            let Some((record, notify)) = self.unsynced.pop_front() else { break };
            // Memory loses everything in a crash, so there is no point in keeping it.
            if self.medium == Medium::Disk {
                self.durable.push(record);
            }
            tokens.extend(notify);
            self.synced += 1;
        }
    }

    /// The records up to this position, which are durable, are not needed any more. As in a log that gives up whole
    /// files, some of them may stay for a while.
    pub fn truncate(&mut self, up_to: u64, random: &mut Random) {
        assert!(up_to <= self.synced, "what is truncated is durable");
        let first = self.synced - self.durable.len() as u64;
        let unneeded = up_to.saturating_sub(first) as usize;
        let kept = if random.chance(0.5) { random.index(unneeded + 1) } else { 0 };
        self.durable.drain(..unneeded - kept);
    }

    /// Power goes: what was durable stays, and of the rest at most a prefix that happened to reach the disk.
    pub fn crash(&mut self, random: &mut Random) {
        if self.medium == Medium::Disk && !self.unsynced.is_empty() && random.chance(0.5) {
            let lucky = random.index(self.unsynced.len() + 1);
            self.durable.extend(self.unsynced.drain(..lucky).map(|(record, _)| record));
        }
        self.unsynced.clear();
        self.syncing = None;
        self.synced = self.appended;
    }

    /// The disk is replaced by an empty one.
    pub fn wipe(&mut self) {
        self.durable.clear();
    }

    /// What a restarted machine finds.
    pub fn records(&self) -> &[R] {
        &self.durable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sync(disk: &mut Disk<u32>) -> Vec<u64> {
        let mut tokens = VecDeque::new();
        disk.end_sync(&mut tokens);
        tokens.into_iter().map(|token| token.0).collect()
    }

    #[test]
    fn a_sync_covers_what_was_appended_before_it_began() {
        let mut disk = Disk::new(Medium::Disk);
        assert!(!disk.begin_sync());
        disk.append(1, Some(PersistToken(10)));
        assert!(disk.begin_sync());
        disk.append(2, Some(PersistToken(20)));
        assert!(!disk.begin_sync(), "one at a time");
        assert_eq!(sync(&mut disk), [10]);
        assert_eq!((disk.synced(), disk.appended()), (1, 2));
        assert_eq!(disk.records(), [1]);
        assert!(disk.begin_sync());
        assert_eq!(sync(&mut disk), [20]);
    }

    #[test]
    fn a_crash_keeps_the_durable_and_at_most_a_prefix_of_the_rest() {
        let mut lengths = std::collections::BTreeSet::new();
        for seed in 0..100 {
            let mut disk = Disk::new(Medium::Disk);
            disk.append(0, None);
            disk.begin_sync();
            sync(&mut disk);
            disk.append(1, None);
            disk.append(2, None);
            disk.crash(&mut Random::new(seed));
            assert!([0, 1, 2].starts_with(disk.records()));
            lengths.insert(disk.records().len());
            assert!(!disk.begin_sync(), "nothing is left to sync");
        }
        assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn a_truncation_keeps_everything_after_it_and_perhaps_some_of_the_rest() {
        let mut firsts = std::collections::BTreeSet::new();
        for seed in 0..100 {
            let mut random = Random::new(seed);
            let mut disk = Disk::new(Medium::Disk);
            (1..=5).for_each(|record| disk.append(record, None));
            disk.begin_sync();
            sync(&mut disk);
            disk.append(6, None);
            disk.truncate(3, &mut random);
            assert!([1, 2, 3, 4, 5].ends_with(disk.records()) && disk.records().len() >= 2);
            firsts.insert(disk.records()[0]);
            disk.crash(&mut random);
            disk.append(7, None);
            disk.begin_sync();
            sync(&mut disk);
            disk.truncate(disk.synced() - 1, &mut random);
            assert_eq!(disk.records().last(), Some(&7));
        }
        assert_eq!(firsts.into_iter().collect::<Vec<_>>(), [1, 2, 3, 4]);
    }

    #[test]
    fn memory_and_a_wiped_disk_hold_nothing_after_a_crash() {
        for medium in [Medium::Disk, Medium::Memory] {
            let mut disk = Disk::new(medium);
            disk.append(1, None);
            disk.begin_sync();
            sync(&mut disk);
            disk.crash(&mut Random::new(1));
            disk.wipe();
            assert!(disk.records().is_empty());
        }
    }
}
