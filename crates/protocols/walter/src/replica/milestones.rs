//! Milestones of this site's transactions after their commit (sections 4.1 and 5.6): *disaster-safe durable*, and *globally visible*.
//!
//! ```text
//!   client: ASK-MILESTONE ─► reached ─────────────► MILESTONE-REPLY, nobody is missing
//!                         └► not yet ─► noted ────► MILESTONE-REPLY, these sites are missing
//!                                        └─ PROGRESS of the last of them ─► MILESTONE-REPLY, nobody is missing
//! ```
//!
//! The leader counts copies anyway; clients that ask are told this count. Clients that have been noted are lost with the leader, and a client
//! that hears nothing asks again: a new leader is told everything anew by the other sites. A transaction below the floor has committed everywhere.
//! A milestone is never taken back, so an answer is right whether or not the sender still leads.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quorate_core::command::Milestone;
use quorate_core::hash::FixedMap;
use quorate_core::log::Log;
use quorate_core::topology::container_of;
use quorate_core::{Address, ClientId, Context, Instant, Key, TransactionId};

use super::leader::Leader;
use super::{Out, Replica, WAITING_MAX};
use crate::entry::{Commit, Entry};
use crate::histories::Update;
use crate::message::Message;
use crate::reasons;
use crate::rules::Plant;
use crate::vector::{LocalSite, VersionNumber};

/// Clients that are told once a milestone is reached.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    /// When each asked last, in the order in which they are reached.
    asked: BTreeMap<(Milestone, u64, TransactionId), Instant>,
    of_client: FixedMap<ClientId, usize>,
}

impl Awaited {
    /// Notes a client that asks. One for which there is no room hears of it when it asks again.
    fn note(&mut self, milestone: Milestone, seqno: u64, id: TransactionId, now: Instant) {
        let key = (milestone, seqno, id);
        if let Some(asked) = self.asked.get_mut(&key) {
            *asked = now;
            return;
        }
        let of_client = self.of_client.entry(id.client).or_default();
        if self.asked.len() < WAITING_MAX / 10 && *of_client < WAITING_MAX / 100 {
            *of_client += 1;
            self.asked.insert(key, now);
        }
        let (asked, clients) = (self.asked.len(), self.of_client.len());
        assert!(asked <= WAITING_MAX / 10, "{asked} milestones are waited for");
        assert!(clients <= asked + 1, "{clients} clients wait for {asked} milestones");
    }

    /// Takes the first that has reached a milestone, which all have up to this number.
    fn take(&mut self, milestone: Milestone, reached: u64) -> Option<TransactionId> {
        let first = (milestone, 0, TransactionId::default());
        let (key, _) = self.asked.range(first..).next()?;
        let (of, seqno, id) = *key;
        if of != milestone || seqno > reached {
            return None;
        }
        self.forget((of, seqno, id));
        Some(id)
    }

    fn forget(&mut self, key: (Milestone, u64, TransactionId)) {
        self.asked.remove(&key);
        let client = key.2.client;
        if let Some(left) = self.of_client.get_mut(&client) {
            assert!(*left > 0, "{client:?} waits for something that was not counted");
            *left -= 1;
            if *left == 0 {
                self.of_client.remove(&client);
            }
        }
    }

    /// Forgets clients that have not asked for long.
    fn forget_silent(&mut self, now: Instant, timeout: Duration) {
        let is_silent = |asked: Instant| now - asked >= timeout;
        let silent: Vec<_> =
            self.asked.iter().filter(|(_, asked)| is_silent(**asked)).map(|(key, _)| *key).collect();
        silent.into_iter().for_each(|key| self.forget(key));
    }

    /// The number of the first transaction whose milestone is waited for.
    pub(super) fn first(&self, milestone: Milestone) -> Option<u64> {
        let first = (milestone, 0, TransactionId::default());
        self.asked
            .range(first..)
            .next()
            .filter(|((of, ..), _)| *of == milestone)
            .map(|((_, seqno, _), _)| *seqno)
    }
}

impl Replica {
    /// The containers of all that a transaction updates, each with the preferred site that it has by itself.
    pub fn preferred_sites(&self, commit: &Commit) -> Vec<(Key, LocalSite)> {
        let names = commit.updates.iter().map(|update| container_of(update.object()));
        names.map(|name| (Key::copy_from_slice(name), self.config.preferred(name))).collect()
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_ask_milestone(
        &mut self,
        from: Address,
        id: TransactionId,
        version: VersionNumber,
        milestone: Milestone,
        context: &Context<'_>,
        log: &impl Log<Entry>,
        outbox: &mut Out,
    ) {
        if from != Address::Client(id.client) {
            return outbox.ignored(reasons::FOREIGN);
        }
        if version.site != self.site || version.seqno == 0 {
            return outbox.ignored(reasons::MALFORMED);
        }
        if self.leader.is_none() {
            return self.send_not_leading(from, Some(id), log, outbox);
        }
        if self.state.commit(version).is_some_and(|commit| commit.transaction != id) {
            return outbox.ignored(reasons::NONSENSE);
        }
        self.count_copies(outbox);
        let missing: Vec<LocalSite> = self.missing(version, milestone).into_iter().collect();
        if let Some(leader) = self.leader.as_mut().filter(|_| !missing.is_empty()) {
            leader.awaited.note(milestone, version.seqno, id, context.now);
        }
        // By the names of groups: the client may not know yet of all sites that have joined.
        let missing = missing.into_iter().map(|site| self.config.shard_of(site)).collect();
        outbox.send(from, Message::MilestoneReply { transaction: id, milestone, missing });
    }

    /// True if a transaction has committed at every site, as far as they have told this leader. It stays so unless another
    /// site joins.
    pub(super) fn is_everywhere(&self, version: VersionNumber) -> bool {
        let everywhere = |leader: &Leader| leader.peers.values().all(|peer| peer.committed.includes(version));
        let has_committed = self.state.committed.includes(version);
        self.state.histories.floor().includes(version)
            || (has_committed && self.leader.as_ref().is_some_and(everywhere))
    }

    /// The sites that keep a transaction of this site from a milestone.
    pub(super) fn missing(&self, version: VersionNumber, milestone: Milestone) -> BTreeSet<LocalSite> {
        let Some(leader) = &self.leader else { return BTreeSet::from([self.site]) };
        if self.state.histories.floor().includes(version) {
            return BTreeSet::new();
        }
        if !self.state.committed.includes(version) {
            // This leader has not been told yet what its predecessor has told the client.
            return BTreeSet::from([self.site]);
        }
        match milestone {
            Milestone::Durable if version.seqno <= leader.durable => BTreeSet::new(),
            Milestone::Durable => {
                // It is durable once those before it are.
                let first = VersionNumber { seqno: leader.durable + 1, ..version };
                let both = [first, version].into_iter().filter_map(|version| self.state.commit(version));
                both.flat_map(|commit| self.lacking(commit)).collect()
            }
            Milestone::Visible => {
                let lacks = |peer: &super::leader::Peer| !peer.committed.includes(version);
                leader.peers.iter().filter(|(_, peer)| lacks(peer)).map(|(site, _)| *site).collect()
            }
        }
    }

    /// The sites without whose copy a transaction of this site is not durable: those of its preferred sites that have none; and all that are to have one
    /// and have none, as long as too few have one.
    fn lacking(&self, commit: &Commit) -> BTreeSet<LocalSite> {
        let has = |site: LocalSite| self.has_copy(site, commit.version.seqno);
        // As long as the end of a lost site is open, it is what is missing.
        let open = self.state.open_removals().collect::<Vec<_>>();
        let guardians =
            self.guardians_of(commit).flat_map(|site| site.map_or(open.clone(), |site| vec![site]));
        let guardians: Vec<LocalSite> = guardians.filter(|site| !has(*site)).collect();
        self.lacking_copies(commit).into_iter().chain(guardians).collect()
    }

    /// True if a site has this transaction of this site, durably, as far as this leader knows. Nothing counts that has come to a site which still
    /// joins: the others would not wait for it if this one were lost.
    pub(super) fn has_copy(&self, site: LocalSite, seqno: u64) -> bool {
        let peer = self.leader.as_ref().and_then(|leader| leader.peers.get(&site));
        site == self.site || (self.counts(site) && peer.is_some_and(|peer| peer.received >= seqno))
    }

    /// The preferred sites of all that a transaction updates: it is not durable before it has come to each of them. None where there is no such
    /// site for now.
    pub(super) fn guardians_of<'a>(
        &'a self,
        commit: &'a Commit,
    ) -> impl Iterator<Item = Option<LocalSite>> + 'a {
        let counts_sets = !self.config.rules.has(Plant::DurableWhenReceived);
        let objects =
            commit.updates.iter().filter(move |update| counts_sets || !matches!(update, Update::Add { .. }));
        objects.map(|update| self.guardian(update))
    }

    /// So many sites at least hold an object, and have a transaction that updates it before that is disaster-safe durable. A site that was taken out
    /// counts until its end is settled.
    pub(super) fn durable_at(&self) -> usize {
        (self.config.sites_lost_max + 1).min(self.sites_left().count())
    }

    /// Up to this number the transactions of this site are visible everywhere, as far as this leader knows. A site that joins is waited for: it is
    /// expected here before it takes the state of another one, which therefore has what was visible before, and it may be ready at any time.
    fn visible(&self) -> u64 {
        let own = self.state.committed.of(self.site);
        let Some(leader) = &self.leader else { return 0 };
        let of_peers = leader.peers.values().map(|peer| peer.committed.of(self.site));
        of_peers.min().unwrap_or(own).max(self.state.histories.floor().of(self.site))
    }

    /// Tells the clients whose transactions have reached what they wait for.
    pub(super) fn tell_milestones(&mut self, outbox: &mut Out) {
        let visible = self.visible();
        let (own, floor) = (self.state.committed.of(self.site), self.state.histories.floor().of(self.site));
        assert!(visible <= own.max(floor), "{visible} are visible everywhere, and {own} have committed");
        let Some(leader) = &mut self.leader else { return };
        for (milestone, reached) in [(Milestone::Durable, leader.durable), (Milestone::Visible, visible)] {
            while let Some(id) = leader.awaited.take(milestone, reached) {
                let message = Message::MilestoneReply { transaction: id, milestone, missing: Vec::new() };
                outbox.send(Address::Client(id.client), message);
            }
        }
    }

    /// Forgets clients that do not ask any more.
    pub(super) fn attend_milestones(&mut self, context: &Context<'_>) {
        let timeout = self.config.wait_timeout;
        if let Some(leader) = &mut self.leader {
            leader.awaited.forget_silent(context.now, timeout);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(client: u64, sequence: u64) -> TransactionId {
        TransactionId { client: ClientId(client), sequence, attempt: 0 }
    }

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    #[test]
    fn milestones_are_told_in_the_order_of_numbers_once_each() {
        let mut awaited = Awaited::default();
        for (milestone, seqno) in [
            (Milestone::Visible, 2),
            (Milestone::Durable, 3),
            (Milestone::Durable, 1),
            (Milestone::Durable, 1),
        ] {
            awaited.note(milestone, seqno, id(1, seqno), at(0));
        }
        assert_eq!(
            (awaited.first(Milestone::Durable), awaited.first(Milestone::Visible)),
            (Some(1), Some(2))
        );
        assert_eq!(awaited.take(Milestone::Durable, 2), Some(id(1, 1)));
        assert_eq!(awaited.take(Milestone::Durable, 2), None);
        assert_eq!(awaited.take(Milestone::Visible, 1), None);
        assert_eq!(awaited.take(Milestone::Visible, 2), Some(id(1, 2)));
        assert_eq!(awaited.take(Milestone::Durable, 9), Some(id(1, 3)));
        assert!(awaited.asked.is_empty() && awaited.of_client.is_empty());
    }

    #[test]
    fn so_many_milestones_are_waited_for() {
        let mut awaited = Awaited::default();
        for client in 1..=11 {
            for sequence in 1..=WAITING_MAX as u64 / 100 {
                awaited.note(Milestone::Visible, sequence, id(client, sequence), at(0));
            }
        }
        assert_eq!(awaited.asked.len(), WAITING_MAX / 10);
        assert!(awaited.asked.keys().all(|(_, _, id)| id.client <= ClientId(10)), "the last finds no room");
        assert_eq!(awaited.take(Milestone::Visible, 1), Some(id(1, 1)));
        awaited.note(Milestone::Visible, 9, id(11, 9), at(0));
        assert_eq!(awaited.asked.len(), WAITING_MAX / 10);
    }

    #[test]
    fn no_client_takes_all_the_room_and_the_silent_lose_theirs() {
        let mut awaited = Awaited::default();
        for sequence in 1..=2 * WAITING_MAX as u64 / 100 {
            awaited.note(Milestone::Durable, sequence, id(1, sequence), at(0));
        }
        assert_eq!(awaited.asked.len(), WAITING_MAX / 100);
        awaited.note(Milestone::Durable, 1, id(2, 1), at(700));
        awaited.note(Milestone::Durable, 1, id(1, 1), at(900));
        awaited.forget_silent(at(1_000), Duration::from_secs(1));
        assert_eq!(awaited.take(Milestone::Durable, u64::MAX), Some(id(1, 1)));
        assert_eq!(awaited.take(Milestone::Durable, u64::MAX), Some(id(2, 1)));
        assert!(awaited.asked.is_empty() && awaited.of_client.is_empty());
    }
}
