//! How far other sites are behind, for operators: a transaction that one site does not get keeps all later ones of its site from being visible
//! (W13).
//!
//! The leader marks every now and then how many transactions have committed. A site that lacks one of a mark has lacked it since then at least.

use std::collections::{BTreeSet, VecDeque};

use quorate_core::Instant;
use quorate_core::command::Milestone;
use quorate_core::hosted::SiteLag;

use super::Replica;
use crate::vector::{LocalSite, VersionNumber};

/// The transactions that had committed at some instants: ascending.
#[derive(Debug, Default)]
pub(super) struct Marks(VecDeque<(Instant, u64)>);

/// No more marks are kept: then every second one goes, and the first stays.
const MARKS_MAX: usize = 256;

impl Marks {
    /// So many transactions have committed by now.
    fn note(&mut self, now: Instant, committed: u64) {
        if committed > self.0.back().map_or(0, |(_, last)| *last) {
            self.0.push_back((now, committed));
        }
        if self.0.len() > MARKS_MAX {
            let mut place = 0;
            self.0.retain(|_| {
                place += 1;
                place % 2 == 1
            });
        }
    }

    /// No site lacks any of the first so many transactions.
    fn forget(&mut self, reached: u64) {
        while self.0.front().is_some_and(|(_, committed)| *committed <= reached) {
            self.0.pop_front();
        }
    }

    /// The first mark at which more than so many had committed.
    fn since(&self, reached: u64) -> Option<Instant> {
        let after = self.0.partition_point(|(_, committed)| *committed <= reached);
        self.0.get(after).map(|(at, _)| *at)
    }
}

impl Replica {
    /// Marks what has committed, and forgets what has come everywhere.
    pub(super) fn attend_marks(&mut self, now: Instant) {
        let last = self.state.committed.of(self.site);
        let everywhere = self.lagging().map(|(_, _, committed)| committed).min().unwrap_or(last);
        if let Some(leader) = &mut self.leader {
            leader.marks.forget(everywhere);
            leader.marks.note(now, last);
        }
    }

    /// The other sites that were not taken out, each with how many transactions of this site it has received, and have committed there. All that the floor
    /// includes has committed everywhere.
    fn lagging(&self) -> impl Iterator<Item = (LocalSite, u64, u64)> {
        let floor = self.state.histories.floor().of(self.site);
        let peers = self.leader.iter().flat_map(|leader| &leader.peers);
        let peers = peers.filter(|(site, _)| !self.is_frozen(**site));
        peers.map(move |(site, peer)| {
            (*site, peer.received.max(floor), peer.committed.of(self.site).max(floor))
        })
    }

    /// The sites that keep transactions of this site from being visible at all sites. The first that is not durable keeps all later ones from it.
    fn held_up_by(&self) -> BTreeSet<LocalSite> {
        let Some(leader) = &self.leader else { return BTreeSet::new() };
        let last = self.state.committed.of(self.site);
        let durable = leader.durable.max(self.state.histories.floor().of(self.site));
        let version = |seqno| VersionNumber { site: self.site, seqno };
        if durable < last {
            return self.missing(version(durable + 1), Milestone::Durable);
        }
        self.missing(version(last), Milestone::Visible)
    }

    /// How far other sites are behind what has committed here, as far as this leader knows.
    pub fn lags(&self, now: Instant) -> Vec<SiteLag> {
        let Some(leader) = &self.leader else { return Vec::new() };
        let last = self.state.committed.of(self.site);
        let held_up_by = self.held_up_by();
        let lag = |(site, received, committed)| {
            let since = |reached| leader.marks.since(reached).map_or(Default::default(), |at| now - at);
            SiteLag {
                site: self.config.shard_of(site),
                unreceived: last.saturating_sub(received),
                unreceived_for: since(received),
                uncommitted: last.saturating_sub(committed),
                uncommitted_for: since(committed),
                holds_up: last > committed && held_up_by.contains(&site),
            }
        };
        self.lagging().map(lag).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    #[test]
    fn marks_tell_since_when_something_is_missing() {
        let mut marks = Marks::default();
        marks.note(at(0), 0);
        assert_eq!(marks.since(0), None, "nothing has committed");
        for (millis, committed) in [(500, 10), (1_000, 10), (1_500, 30), (2_000, 40)] {
            marks.note(at(millis), committed);
        }
        let table = [(0, Some(500)), (9, Some(500)), (10, Some(1_500)), (35, Some(2_000)), (40, None)];
        for (reached, expected) in table {
            assert_eq!(marks.since(reached), expected.map(at), "{reached}");
        }
        marks.forget(30);
        assert_eq!((marks.since(0), marks.since(30)), (Some(at(2_000)), Some(at(2_000))));
        marks.forget(40);
        assert!(marks.0.is_empty());
    }

    #[test]
    fn a_long_silence_is_remembered_from_its_beginning_in_little_room() {
        let mut marks = Marks::default();
        for second in 1..=100_000 {
            marks.note(at(1_000 * second), second);
        }
        assert!(marks.0.len() <= MARKS_MAX, "{}", marks.0.len());
        assert_eq!(marks.since(0), Some(at(1_000)));
        assert_eq!(marks.since(99_999), Some(at(100_000_000)));
    }

    /// Every second mark goes, and the first stays.
    #[test]
    fn marks_become_fewer_once_there_are_too_many() {
        let mut marks = Marks::default();
        for second in 1..=MARKS_MAX as u64 {
            marks.note(at(second), second);
        }
        assert_eq!(marks.0.len(), MARKS_MAX);
        marks.note(at(999), 999);
        let kept: Vec<u64> = marks.0.iter().map(|(_, committed)| *committed).collect();
        let odd = (1..=MARKS_MAX as u64).filter(|second| second % 2 == 1).chain([999]);
        assert_eq!(kept, odd.collect::<Vec<_>>());
    }
}
