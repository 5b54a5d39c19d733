//! Counters that never fall below zero, without asking anybody. The paper has none: its counting sets may become negative.
//!
//! Each site has a *share* of a counter, and the value is the sum of the shares (O'Neil's escrow, divided among sites). A site adds to its own
//! share, and takes from that alone, so no two sites take the same. A counter is a counting set whose elements are the shares; see
//! [`quorate_core::counter`] for what clients see of it.
//!
//! ```text
//!   COMMIT that takes from a counter
//!      ├─ this site's share in its snapshot is large enough ─► as any other transaction
//!      ├─ what its client adds is about to commit here ──────► waits for that; if all shares are too small, also for what others add
//!      ├─ the share is now, and was not in the snapshot ─────► refused: a new attempt has a new snapshot
//!      ├─ all shares together are too small ─────────────────► refused: below zero
//!      └─ other sites have it ─► ASK-SHARE to the one that has most ─► append COMMIT there, which takes from its share and adds to that of the asking site
//!                 waits ◄──────────────────────── as any other transaction ────────────────────────────────────┘
//! ```
//!
//! A transaction takes what its snapshot has, less what this site has taken since or is about to. So every snapshot that includes it includes what has
//! brought the share, and finds no share below zero. The successor of a site that was taken out gives away that site's share as its own.

use std::collections::BTreeMap;

use quorate_core::counter::{is_counter, validate_element};
use quorate_core::hash::FixedSet;
use quorate_core::log::Log;
use quorate_core::{Context, Instant, Key, ReplicaId};

use super::commit::Way;
use super::{Out, Replica};
use crate::container::role;
use crate::entry::Entry;
use crate::histories::Update;
use crate::message::Message;
use crate::reasons;
use crate::rules::Plant;
use crate::vector::{LocalSite, Vector};

/// The names of the transactions that give shares to other sites count down from here. No client has such a name.
const FIRST_NAME: u64 = u64::MAX - 0x2_0000;

/// Other sites are asked for shares of so many counters at a time at most.
const ASKED_MAX: usize = 10_000;

/// The element of a counter that is the share of a site.
pub(crate) fn share(site: LocalSite) -> Key {
    Key::from(format!("{site}"))
}

/// The site whose share an element of a counter is.
fn site_of(element: &[u8]) -> Option<LocalSite> {
    std::str::from_utf8(element).ok()?.strip_prefix('s')?.parse().ok().map(LocalSite)
}

/// The shares of counters that are on their way.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// How much is about to be taken from shares, by transactions that are not stable yet.
    taken: BTreeMap<(Key, Key), i64>,
    /// How many transactions have appended that they add to a counter, and are not stable yet.
    adding: BTreeMap<Key, usize>,
    /// The counters of which another site was asked for a share.
    asked: BTreeMap<Key, Asked>,
    /// How often a share has come that was asked for.
    pub(super) come: u64,
}

/// A question for a share.
#[derive(Debug)]
struct Asked {
    /// The site that was asked last.
    site: LocalSite,
    wanted: i64,
    /// This site's share.
    share: i64,
    since: Instant,
    asked: Instant,
}

impl Shares {
    /// Transactions are about to take from shares.
    pub(super) fn take(&mut self, updates: &[Update]) {
        for (set, element, by) in takings(updates) {
            assert!(by > 0, "{by} is taken of {set:?}");
            *self.taken.entry((set.clone(), element.clone())).or_default() += by;
        }
    }

    /// They have, or do not any more.
    pub(super) fn settle(&mut self, updates: &[Update]) {
        for (set, element, by) in takings(updates) {
            let key = (set.clone(), element.clone());
            let taken = self.taken.get_mut(&key).expect("what is settled was about to be taken");
            *taken -= by;
            assert!(*taken >= 0, "more is settled of {set:?} than was about to be taken");
            if *taken == 0 {
                self.taken.remove(&key);
            }
        }
    }

    /// A transaction that adds to counters is appended.
    pub(super) fn add(&mut self, updates: &[Update]) {
        for set in added(updates) {
            *self.adding.entry(set.clone()).or_default() += 1;
        }
    }

    /// It is stable.
    pub(super) fn added(&mut self, updates: &[Update]) {
        for set in added(updates) {
            let adding = self.adding.get_mut(set).expect("what is stable was appended");
            assert!(*adding > 0, "{set:?} was added to, and nothing was on its way");
            *adding -= 1;
            if *adding == 0 {
                self.adding.remove(set);
            }
        }
    }

    fn taken(&self, set: &Key, element: &Key) -> i64 {
        self.taken.get(&(set.clone(), element.clone())).copied().unwrap_or(0)
    }
}

/// How much updates take from shares of counters.
fn takings(updates: &[Update]) -> impl Iterator<Item = (&Key, &Key, i64)> {
    updates.iter().filter_map(|update| match update {
        Update::Add { set, element, by } if *by < 0 && is_counter(set) => {
            Some((set, element, i64::from(by.unsigned_abs())))
        }
        _ => None,
    })
}

/// The counters that updates add to.
fn added(updates: &[Update]) -> impl Iterator<Item = &Key> {
    updates.iter().filter_map(|update| match update {
        Update::Add { set, by, .. } if *by > 0 && is_counter(set) => Some(set),
        _ => None,
    })
}

/// True if updates of clients change only what clients may change of counters, each counter once.
pub(super) fn are_open_to_clients(updates: &[Update]) -> bool {
    let mut counters: FixedSet<&Key> = FixedSet::default();
    updates.iter().all(|update| match update {
        Update::Add { set, element, .. } if is_counter(set) => {
            counters.insert(set) && validate_element(set, Some(element)).is_ok()
        }
        _ => true,
    })
}

/// Why a transaction cannot take from a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    /// The share has come after its snapshot.
    Later,
    /// Other sites have a share; so much is missing here.
    Elsewhere {
        /// The counter.
        counter: Key,
        /// How much is missing.
        missing: i64,
    },
    /// No site has so much, as far as is known here.
    Nowhere,
}

impl Replica {
    /// How often this leader, or those before it in this life, have given another site a share of a counter.
    pub fn shares_given(&self) -> u64 {
        self.shares_given
    }

    /// The updates as they are committed here: what changes a counter changes this site's share of it.
    pub(super) fn of_shares(&self, mut updates: Vec<Update>) -> Vec<Update> {
        for update in &mut updates {
            if let Update::Add { set, element, .. } = update
                && is_counter(set)
            {
                *element = share(self.site);
            }
        }
        updates
    }

    /// Why this site cannot let a transaction of a client take from counters; nothing if it can.
    pub(super) fn lack(&self, updates: &[Update], snapshot: &Vector) -> Option<Lack> {
        if self.config.rules.has(Plant::SharesIgnored) {
            return None;
        }
        takings(updates).find_map(|(set, _, by)| self.lack_of(set, by, snapshot))
    }

    /// True if transactions that are about to commit here add to a counter from which updates take.
    pub(super) fn are_added_to(&self, updates: &[Update]) -> bool {
        let Some(leader) = &self.leader else { return false };
        takings(updates).any(|(set, _, _)| leader.shares.adding.contains_key(set))
    }

    fn lack_of(&self, set: &Key, by: i64, snapshot: &Vector) -> Option<Lack> {
        let own = share(self.site);
        if self.available(set, &own, snapshot) >= by {
            return None;
        }
        let present = self.available(set, &own, &self.state.committed);
        if present >= by {
            return (!self.config.rules.has(Plant::SharesTooEarly)).then_some(Lack::Later);
        }
        let others = self.shares(set).into_iter().filter(|(element, _)| *element != own);
        let others: i64 = others.map(|(_, count)| count.max(0)).sum();
        match present + others >= by {
            true => Some(Lack::Elsewhere { counter: set.clone(), missing: by - present }),
            false => Some(Lack::Nowhere),
        }
    }

    /// How much a transaction with this snapshot can take from a share.
    fn available(&self, set: &Key, element: &Key, snapshot: &Vector) -> i64 {
        let taken = self.leader.as_ref().map_or(0, |leader| leader.shares.taken(set, element));
        self.state.histories.untaken(set, element, snapshot) - taken
    }

    /// All shares of a counter that are not zero, as they are now.
    fn shares(&self, set: &Key) -> Vec<(Key, i64)> {
        self.state.histories.shares(set, &self.state.committed)
    }

    /// Asks another site for a share. Gives the site that was asked if that has not helped for long.
    pub(super) fn ask_for_share(
        &mut self,
        (counter, missing): (&Key, i64),
        now: Instant,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) -> Result<(), Option<LocalSite>> {
        let patience = self.config.vote_timeout;
        let Some(leader) = &mut self.leader else { return Ok(()) };
        let room = leader.shares.asked.len() < ASKED_MAX;
        if let Some(asked) = leader.shares.asked.get_mut(counter) {
            if now - asked.since >= patience {
                let site = asked.site;
                leader.shares.asked.remove(counter);
                return Err(Some(site));
            }
            asked.wanted = asked.wanted.max(missing);
            return Ok(());
        }
        let Some(site) = self.site_with_most(counter).filter(|_| room) else { return Err(None) };
        let share = self.state.histories.untaken(counter, &share(self.site), &self.state.committed);
        let Some(leader) = &mut self.leader else { return Ok(()) };
        let asked = Asked { site, wanted: missing, share, since: now, asked: now };
        leader.shares.asked.insert(counter.clone(), asked);
        let asked = leader.shares.asked.len();
        assert!(asked <= ASKED_MAX, "shares of {asked} counters are asked for");
        self.send_ask_share(counter, log, outbox);
        Ok(())
    }

    /// The site that has the greatest share of a counter which this one lacks; this one, if that is the share of a site that it succeeds.
    fn site_with_most(&self, counter: &Key) -> Option<LocalSite> {
        let mut held: BTreeMap<LocalSite, i64> = BTreeMap::new();
        let own = share(self.site);
        for (element, count) in self.shares(counter).into_iter().filter(|(element, _)| *element != own) {
            let successor = site_of(&element).and_then(|site| self.state.successor(site));
            if let Some((site, _)) = successor.filter(|(site, _)| !self.is_frozen(*site)) {
                *held.entry(site).or_default() += count;
            }
        }
        let most = held.into_iter().filter(|(_, count)| *count > 0);
        most.max_by_key(|(site, count)| (*count, std::cmp::Reverse(*site))).map(|(site, _)| site)
    }

    fn send_ask_share(&mut self, counter: &Key, log: &mut impl Log<Entry>, outbox: &mut Out) {
        let Some(asked) = self.leader.as_ref().and_then(|leader| leader.shares.asked.get(counter)) else {
            return;
        };
        let (site, wanted) = (asked.site, asked.wanted);
        match site == self.site {
            true => self.give_share(counter, self.site, wanted, log, outbox),
            false => outbox.send(self.leader_of(site), ask_share(counter, wanted)),
        }
    }

    /// Asks a site again for all shares that it was asked for: another replica leads it.
    pub(super) fn ask_for_shares_again(&self, site: LocalSite, outbox: &mut Out) {
        let Some(leader) = self.leader.as_ref().filter(|_| site != self.site) else { return };
        for (counter, asked) in leader.shares.asked.iter().filter(|(_, asked)| asked.site == site) {
            outbox.send(self.leader_of(site), ask_share(counter, asked.wanted));
        }
    }

    /// Another site lacks a share.
    pub(super) fn on_ask_share(
        &mut self,
        from: ReplicaId,
        counter: &Key,
        wanted: u64,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(site) = self.other_site(from.shard) else { return outbox.ignored(reasons::NO_SITE) };
        self.note_leader(site, from.index, context.now, outbox);
        let Some(leader) = &self.leader else {
            return self.send_not_leading(from.into(), None, log, outbox);
        };
        if !is_counter(counter) {
            return outbox.ignored(reasons::MALFORMED);
        }
        // Of two sites that lack a share the first gets it, so that they do not take it from each other in turn.
        if leader.shares.asked.contains_key(counter) && site > self.site {
            return outbox.ignored(reasons::LACKS_ITSELF);
        }
        if !self.holds_lease(context.now) {
            return outbox.ignored(reasons::NO_LEASE);
        }
        self.give_share(counter, site, i64::try_from(wanted).unwrap_or(i64::MAX), log, outbox);
    }

    /// Gives a site so much of a counter, or half of what is here if that is more; first of the shares of sites that this one succeeds.
    fn give_share(
        &mut self,
        counter: &Key,
        to: LocalSite,
        wanted: i64,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let snapshot = self.newest();
        let own = share(self.site);
        let spare: Vec<(Key, i64)> = self
            .shares(counter)
            .into_iter()
            .filter_map(|(element, _)| {
                let is_inherited =
                    element != own && site_of(&element).is_some_and(|site| self.has_inherited(site));
                let is_spare = is_inherited || (element == own && to != self.site);
                let spare = self.available(counter, &element, &snapshot);
                (is_spare && spare > 0).then_some((element, spare))
            })
            .collect();
        let (inherited, owned): (Vec<_>, Vec<_>) =
            spare.into_iter().partition(|(element, _)| *element != own);
        let all: i64 = inherited.iter().chain(&owned).map(|(_, spare)| *spare).sum();
        // One change of a count holds no more.
        let mut left = wanted.max(all - all / 2).min(all).min(i64::from(i32::MAX));
        let mut updates = Vec::new();
        let mut given = 0;
        for (element, spare) in inherited.into_iter().chain(owned) {
            let by = i32::try_from(spare.min(left)).expect("no more than fits into one change");
            if by > 0 {
                updates.push(Update::Add { set: counter.clone(), element, by: -by });
                (left, given) = (left - i64::from(by), given + by);
            }
        }
        if given == 0 {
            return outbox.ignored(reasons::NO_SHARE);
        }
        assert!(left >= 0 && i64::from(given) <= all, "{given} of {counter:?} are given, of {all}");
        updates.push(Update::Add { set: counter.clone(), element: share(to), by: given });
        let Some(leader) = &self.leader else { return };
        let transaction = leader.next_name(FIRST_NAME - u64::from(self.site.0));
        if self.append_commit(None, transaction, snapshot, updates, Way::Fast, log, outbox) && to != self.site
        {
            self.shares_given += 1;
        }
    }

    /// True if this site has what another one had that was taken out.
    fn has_inherited(&self, site: LocalSite) -> bool {
        let is_leaving = self.leader.as_ref().is_some_and(|leader| leader.is_leaving(&role(site)));
        let successor = self.state.successor(site);
        !is_leaving
            && !self.is_returning(site)
            && successor
                .is_some_and(|(to, needs)| to == self.site && self.state.committed.includes_all(&needs))
    }

    /// Something has committed here: shares may have come that were asked for.
    pub(super) fn note_shares(&mut self) {
        let Some(leader) = self.leader.as_mut().filter(|leader| !leader.shares.asked.is_empty()) else {
            return;
        };
        let (own, committed, histories) = (share(self.site), &self.state.committed, &self.state.histories);
        let before = leader.shares.asked.len();
        leader.shares.asked.retain(|counter, asked| {
            let present = histories.untaken(counter, &own, committed);
            let has_come = present > asked.share;
            asked.share = present;
            !has_come
        });
        if leader.shares.asked.len() < before {
            leader.shares.come += 1;
        }
    }

    /// Asks again where no share has come.
    pub(super) fn attend_shares(&mut self, now: Instant, log: &mut impl Log<Entry>, outbox: &mut Out) {
        let (resend_timeout, patience) = (self.config.resend_timeout, self.config.vote_timeout);
        let Some(leader) = &mut self.leader else { return };
        // Requests that come again are refused after that time; if there are none, nobody lacks it any more.
        leader.shares.asked.retain(|_, asked| now - asked.since < 2 * patience);
        let overdue = leader.shares.asked.iter().filter(|(_, asked)| now - asked.asked >= resend_timeout);
        for counter in overdue.map(|(counter, _)| counter.clone()).collect::<Vec<_>>() {
            let site = self.site_with_most(&counter);
            let Some(asked) = self.leader.as_mut().and_then(|leader| leader.shares.asked.get_mut(&counter))
            else {
                continue;
            };
            let silent = asked.site;
            asked.asked = now;
            asked.site = site.unwrap_or(silent);
            if asked.site == silent {
                self.suspect(silent);
            }
            self.send_ask_share(&counter, log, outbox);
        }
    }
}

fn ask_share(counter: &Key, wanted: i64) -> Message {
    Message::AskShare { counter: counter.clone(), wanted: wanted.unsigned_abs() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOCK: &str = "\0stock";

    fn add(set: &str, element: &str, by: i32) -> Update {
        Update::Add { set: Key::from(set), element: Key::from(element), by }
    }

    #[test]
    fn a_share_is_that_of_a_site() {
        assert_eq!(share(LocalSite(7)), Key::from("s7"));
        for (element, expected) in [
            ("s0", Some(0)),
            ("s12", Some(12)),
            ("t1", None),
            ("s", None),
            ("s-1", None),
            ("s65536", None),
            ("value", None),
        ] {
            assert_eq!(site_of(element.as_bytes()), expected.map(LocalSite), "{element}");
        }
    }

    /// Counting sets that are no counters have no shares.
    #[test]
    fn what_is_about_to_be_taken_is_settled_once_it_has_been() {
        let mut shares = Shares::default();
        let (first, second) = (
            vec![add(STOCK, "s0", -3), add("set", "s0", -9)],
            vec![add(STOCK, "s0", -2), add(STOCK, "s1", -1)],
        );
        shares.take(&first);
        shares.take(&second);
        shares.take(&[add(STOCK, "s0", 7)]);
        let taken =
            |shares: &Shares, set: &str, element: &str| shares.taken(&Key::from(set), &Key::from(element));
        assert_eq!(
            (taken(&shares, STOCK, "s0"), taken(&shares, STOCK, "s1"), taken(&shares, "set", "s0")),
            (5, 1, 0)
        );
        shares.settle(&second);
        assert_eq!((taken(&shares, STOCK, "s0"), taken(&shares, STOCK, "s1"), shares.taken.len()), (3, 0, 1));
        shares.settle(&first);
        assert!(shares.taken.is_empty());
    }

    #[test]
    fn what_is_added_is_on_its_way_until_all_of_it_is_stable() {
        let mut shares = Shares::default();
        let updates = vec![add(STOCK, "s0", 3), add("set", "s0", 9), add("\0other", "s0", -1)];
        shares.add(&updates);
        shares.add(&updates);
        assert_eq!(shares.adding, BTreeMap::from([(Key::from(STOCK), 2)]));
        shares.added(&updates);
        assert_eq!(shares.adding, BTreeMap::from([(Key::from(STOCK), 1)]));
        shares.added(&updates);
        assert!(shares.adding.is_empty());
    }

    #[test]
    fn clients_change_the_value_of_a_counter_once() {
        for (updates, is_open) in [
            (vec![add(STOCK, "value", 1)], true),
            (vec![add(STOCK, "value", 1), add("\0other", "value", -1)], true),
            (vec![add(STOCK, "s0", 1)], false),
            (vec![add(STOCK, "value", 1), add(STOCK, "value", 1)], false),
            (vec![add("set", "s0", 1), add("set", "s0", 1)], true),
        ] {
            assert_eq!(are_open_to_clients(&updates), is_open, "{updates:?}");
        }
    }
}
