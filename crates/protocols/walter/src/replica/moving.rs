//! Preferred sites move by themselves to where their containers are written. The paper has none of that: its applications say where containers are.
//!
//! ```text
//!   LOCKED for another site, stable ─► counted for that site
//!   COMMIT of this site, stable ─────► counted for this one, if others write the container, too
//!
//!   at the end of a window, if another site has written a container often, and four times as often as all others together:
//!      nobody writes it for a moment ─ no lock is left ─► append COMMIT, which hands it over     (or votes take too long: it stays)
//! ```
//!
//! A move costs a moment in which writes are refused, so it has to pay. The site that gets a container counts from the beginning: it keeps it for a
//! window at least, and a container that two sites write alike stays where it is. Containers move one after the other, and so many in a window at most.
//! One that a client has placed stays there. The counts are a guess, are lost with the leader, and nothing depends on them: a container is handed over as if a
//! client had placed it.

use std::collections::{BTreeMap, VecDeque};

use quorate_core::log::Log;
use quorate_core::topology::container_of;
use quorate_core::{Instant, Key};

use super::commit::Way;
use super::containers::Holder;
use super::{Out, Replica};
use crate::container::Container;
use crate::entry::{Commit, Entry};
use crate::histories::Update;
use crate::vector::LocalSite;

/// A site has to write a container so many times as often as all others together.
const DOMINANCE: u64 = 4;

/// The writes of so many containers are counted in a window.
const COUNTED_MAX: usize = 10_000;

/// So many containers move in a window at most.
const MOVES_MAX: usize = 16;

/// The names of the transactions that hand containers over count down from here. No client has such a name.
const FIRST_NAME: u64 = u64::MAX - 0x1_0000;

/// The writes of containers that other sites write, and those that are to move.
#[derive(Debug)]
pub(super) struct Writers {
    /// When the window began.
    began: Instant,
    counts: BTreeMap<Key, Counts>,
    /// The containers that are to move, each with the site that is to have it.
    next: VecDeque<(Key, LocalSite)>,
    moving: Option<Moving>,
}

/// How often a container was written in a window.
#[derive(Debug, Default)]
struct Counts {
    here: u64,
    others: BTreeMap<LocalSite, u64>,
}

/// A container that is about to move.
#[derive(Debug)]
struct Moving {
    name: Key,
    to: LocalSite,
    since: Instant,
    /// The transaction that hands it over is appended.
    is_appended: bool,
}

impl Counts {
    /// The site that has written it often, and much more often than all others.
    fn dominant(&self, writes_min: u64) -> Option<LocalSite> {
        let total = self.here + self.others.values().sum::<u64>();
        let (site, writes) =
            self.others.iter().max_by_key(|(site, writes)| (**writes, std::cmp::Reverse(**site)))?;
        (*writes >= writes_min && *writes >= DOMINANCE * (total - writes)).then_some(*site)
    }
}

impl Writers {
    pub(super) fn new(now: Instant) -> Self {
        Writers { began: now, counts: BTreeMap::new(), next: VecDeque::new(), moving: None }
    }

    /// True if a container waits for the end of the transactions that write it, to move then.
    pub(super) fn is_moving(&self, name: &[u8]) -> bool {
        self.moving.as_ref().is_some_and(|moving| moving.name.as_slice() == name)
    }

    /// Another site writes a container.
    fn note_other(&mut self, name: &[u8], site: LocalSite) {
        if self.counts.len() < COUNTED_MAX || self.counts.contains_key(name) {
            *self.counts.entry(Key::copy_from_slice(name)).or_default().others.entry(site).or_default() += 1;
        }
        assert!(
            self.counts.len() <= COUNTED_MAX,
            "the writes of {} containers are counted",
            self.counts.len()
        );
    }

    /// This site does.
    fn note_here(&mut self, name: &[u8]) {
        if let Some(counts) = self.counts.get_mut(name) {
            counts.here += 1;
        }
    }

    /// Begins the next window. The containers that the last one has shown to be written elsewhere move next.
    fn begin_window(&mut self, now: Instant, writes_min: u64) {
        self.began = now;
        let counted = std::mem::take(&mut self.counts).into_iter();
        let dominated = counted.filter_map(|(name, counts)| Some((name, counts.dominant(writes_min)?)));
        self.next = dominated.take(MOVES_MAX).collect();
        assert!(self.next.len() <= MOVES_MAX, "{} containers move in a window", self.next.len());
    }
}

impl Replica {
    /// How many containers this leader, or those before it in this life, have moved.
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// Another site has locked these, durably.
    pub(super) fn note_other_writer(&mut self, site: LocalSite, keys: &[Key]) {
        if let Some(leader) = self.leader.as_mut().filter(|_| self.config.moves.is_some()) {
            keys.iter().for_each(|key| leader.writers.note_other(container_of(key), site));
        }
    }

    /// A transaction of this site has committed: it may have moved a container.
    pub(super) fn note_writer(&mut self, commit: &Commit) {
        let Some(leader) = self.leader.as_mut().filter(|_| self.config.moves.is_some()) else { return };
        commit.registers().for_each(|key| leader.writers.note_here(container_of(key)));
        let has_moved = |moving: &mut Moving| matches!(&commit.updates[..], [Update::Place { name, .. }] if *name == moving.name);
        if leader.writers.moving.take_if(has_moved).is_some_and(|moving| moving.is_appended) {
            self.moved += 1;
        }
    }

    /// Looks which containers are to move, and goes on with them.
    pub(super) fn attend_moves(&mut self, now: Instant, log: &mut impl Log<Entry>, outbox: &mut Out) {
        let Some(moves) = self.config.moves.filter(|_| self.holds_lease(now)) else { return };
        let patience = self.config.vote_timeout;
        let Some(leader) = &mut self.leader else { return };
        let writers = &mut leader.writers;
        if now - writers.began >= moves.window {
            writers.begin_window(now, moves.writes_min);
        }
        // Clients have waited long enough.
        writers.moving.take_if(|moving| !moving.is_appended && now - moving.since >= patience);
        while let Some(leader) = &mut self.leader
            && leader.writers.moving.is_none()
            && let Some((name, to)) = leader.writers.next.pop_front()
        {
            if self.may_move(&name, to)
                && let Some(leader) = &mut self.leader
            {
                leader.writers.moving = Some(Moving { name, to, since: now, is_appended: false });
            }
        }
        self.go_on_moving(log, outbox);
    }

    /// True if a container is here, no client has placed it, and the site that is to have it can.
    fn may_move(&self, name: &Key, to: LocalSite) -> bool {
        let placed = self.state.histories.container(name, None).and_then(|placed| placed.value.as_ref());
        let stays = placed.is_some_and(|container| container.stays || !container.replicas.has(to));
        !stays && self.counts(to) && !self.is_frozen(to) && self.holder(name) == Holder::Here
    }

    /// Hands over the container that is about to move, if nothing is in its way.
    pub(super) fn go_on_moving(&mut self, log: &mut impl Log<Entry>, outbox: &mut Out) {
        let Some(leader) = &self.leader else { return };
        let Some(Moving { name, to, is_appended: false, .. }) = &leader.writers.moving else { return };
        let (name, to) = (name.clone(), *to);
        assert!(to != self.site, "{name:?} moves to {to}, where it is");
        let is_meant = |key: &Key| container_of(key) == name.as_slice();
        if leader.holds_any(is_meant) || self.state.locked().any(is_meant) {
            return;
        }
        if !self.counts(to) || self.is_frozen(to) {
            if let Some(leader) = &mut self.leader {
                leader.writers.moving = None;
            }
            return;
        }
        let placed = self.state.histories.container(&name, None).and_then(|placed| placed.value.as_ref());
        let replicas = placed.map(|container| container.replicas.clone()).unwrap_or_default();
        let container = Container { preferred: to, replicas, stays: false };
        let transaction = leader.next_name(FIRST_NAME - u64::from(self.site.0));
        let updates = vec![Update::Place { name, container: Some(container) }];
        let snapshot = self.newest();
        if self.append_commit(None, transaction, snapshot, updates, Way::Fast, log, outbox)
            && let Some(moving) = self.leader.as_mut().and_then(|leader| leader.writers.moving.as_mut())
        {
            moving.is_appended = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn writers(writes: &[(&str, u16, u64)]) -> Writers {
        let mut writers = Writers::new(Instant::START);
        for (name, site, times) in writes {
            for _ in 0..*times {
                match site {
                    0 => writers.note_here(name.as_bytes()),
                    site => writers.note_other(name.as_bytes(), LocalSite(*site)),
                }
            }
        }
        writers
    }

    #[test]
    fn a_container_moves_to_the_site_that_writes_it_much_more_often_than_all_others() {
        for (writes, expected) in [
            (&[("a", 1, 8), ("a", 0, 2)][..], Some(1)),
            (&[("a", 1, 8), ("a", 0, 3)], None),
            (&[("a", 2, 8), ("a", 1, 1), ("a", 0, 1)], Some(2)),
            (&[("a", 1, 7)], None),
            (&[("a", 1, 8), ("a", 2, 8)], None),
            (&[("a", 0, 90)], None),
        ] {
            let mut writers = writers(writes);
            writers.begin_window(Instant::START, 8);
            let next: Vec<u16> = writers.next.iter().map(|(_, site)| site.0).collect();
            assert_eq!(next, Vec::from_iter(expected), "{writes:?}");
        }
    }

    #[test]
    fn each_window_counts_from_the_beginning() {
        let mut writers = writers(&[("a", 1, 7)]);
        writers.begin_window(Instant::START + Duration::from_secs(1), 8);
        writers.note_other(b"a", LocalSite(1));
        writers.begin_window(Instant::START + Duration::from_secs(2), 8);
        assert!(writers.next.is_empty() && writers.counts.is_empty());
    }

    #[test]
    fn so_many_containers_move_in_a_window_and_of_so_many_writes_are_counted() {
        let mut writers = Writers::new(Instant::START);
        let name = |number: usize| format!("{number:05}");
        for number in 0..=COUNTED_MAX {
            writers.note_other(name(number).as_bytes(), LocalSite(1));
        }
        writers.note_other(name(0).as_bytes(), LocalSite(1));
        assert_eq!(writers.counts.len(), COUNTED_MAX);
        let writes = |number: usize| {
            writers.counts.get(name(number).as_bytes()).map(|counts| counts.others[&LocalSite(1)])
        };
        assert_eq!([0, 1, COUNTED_MAX].map(writes), [Some(2), Some(1), None]);
        let end = Instant::START + Duration::from_secs(1);
        writers.begin_window(end, 1);
        assert_eq!((writers.next.len(), writers.began), (MOVES_MAX, end));
    }
}
