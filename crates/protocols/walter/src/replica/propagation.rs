//! Transactions reach the other sites, become durable and commit there (section 5.6).
//!
//! ```text
//!   here: COMMIT stable ─► PROPAGATE ─► there: RECEIVED stable, in the histories ─► PROGRESS ─► f + 1 sites have it: durable
//!   there, once it is durable, all that its snapshot includes has committed and so has the one before it:
//!     ADVANCE stable ─► snapshots include it, its locks go ─► PROGRESS
//! ```
//!
//! Batches go in the order of numbers, several of them at a time. Those that are not confirmed in time are sent again from there on. All that a
//! leader knows of other sites it is told again: PROGRESS says all of it.

use std::sync::Arc;

use quorate_core::log::Log;
use quorate_core::{Context, ReplicaId};

use super::{Out, Replica, ReplicaTimer, WAITING_MAX};
use crate::entry::{Commit, Entry};
use crate::message::Message;
use crate::reasons;
use crate::rules::Plant;
use crate::vector::{LocalSite, Vector, VersionNumber};

impl Replica {
    /// All that is new goes to the other sites after a moment, with all that is new by then.
    pub(super) fn propagate_soon(&mut self, outbox: &mut Out) {
        let Some(leader) = &mut self.leader else { return };
        if !leader.propagates && !leader.peers.is_empty() {
            leader.propagates = true;
            outbox.set_timer(ReplicaTimer::Propagate, self.config.propagation_interval);
        }
    }

    pub(super) fn on_propagate_timeout(&mut self, outbox: &mut Out) {
        let is_whole = self.state.is_whole();
        let Some(leader) = &mut self.leader else { return };
        leader.propagates = false;
        if !is_whole {
            return;
        }
        let sites: Vec<LocalSite> = leader.peers.keys().copied().collect();
        for site in sites.into_iter().filter(|site| !self.is_frozen(*site)).collect::<Vec<_>>() {
            self.propagate(site, outbox);
            self.tell_progress(site, outbox);
        }
    }

    /// Sends a site what it has not been sent, as far as so many batches may be under way; and how far all of it is durable.
    fn propagate(&mut self, to: LocalSite, outbox: &mut Out) {
        let receiver = self.leader_of(to);
        let (last, floor) = (self.state.committed.of(self.site), self.state.histories.floor().of(self.site));
        let Some(leader) = &self.leader else { return };
        let durable = leader.durable;
        let Some(peer) = leader.peers.get(&to) else { return };
        if peer.oldest.is_none() && !self.config.is_founder(to) {
            // A site that joins takes nothing before it has adopted the state of another one, and says so then.
            return;
        }
        let (mut sent, mut room) =
            (peer.sent.max(floor), self.config.batches_max.saturating_sub(peer.batches.len()));
        let mut batches = Vec::new();
        while sent < last && room > 0 {
            let (mut commits, mut bytes) = (Vec::new(), 0);
            while sent < last && bytes < self.config.batch_bytes_max {
                let version = VersionNumber { site: self.site, seqno: sent + 1 };
                let commit = self.state.commit(version).expect("it is above the floor, and has committed");
                let commit = self.for_site(commit, to);
                bytes += commit.bytes();
                commits.push(commit);
                sent += 1;
            }
            room -= 1;
            batches.push(sent);
            outbox.send(receiver, Message::Propagate { commits, durable });
        }
        let Some(peer) = self.leader.as_mut().and_then(|leader| leader.peers.get_mut(&to)) else { return };
        assert!(sent >= peer.sent, "{to} is sent {sent}, and was sent {}", peer.sent);
        peer.sent = sent;
        if !batches.is_empty() {
            peer.told_durable = durable;
            peer.batches.extend(batches);
        }
        if peer.told_durable < durable {
            peer.told_durable = durable;
            outbox.send(receiver, Message::Propagate { commits: Vec::new(), durable });
        }
    }

    pub(super) fn on_propagate(
        &mut self,
        from: ReplicaId,
        commits: Vec<Arc<Commit>>,
        durable: u64,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(site) = self.other_site(from.shard) else { return outbox.ignored(reasons::NO_SITE) };
        if self.leader.is_none() {
            return self.send_not_leading(from.into(), None, log, outbox);
        }
        self.note_leader(site, from.index, context.now, outbox);
        let Some(leader) = &mut self.leader else { return };
        let Some(peer) = leader.peers.get_mut(&site) else { return };
        peer.durable = peer.durable.max(durable);
        if commits.iter().any(|commit| commit.version.seqno <= leader.receiving.of(site)) {
            // It has not heard so.
            peer.is_owed = true;
            outbox.ignored(reasons::KNOWN);
        }
        for commit in commits {
            if commit.version.site != site || commit.snapshot.includes(commit.version) {
                return outbox.ignored(reasons::MALFORMED);
            }
            // There is always room for the next one: the others may wait for it.
            let next = leader.receiving.of(site) + 1;
            let has_room = leader.early.len() < WAITING_MAX || commit.version.seqno == next;
            if commit.version.seqno >= next && has_room {
                leader.early.insert((site, commit.version.seqno), commit);
            }
        }
        self.receive(log, outbox);
        self.advance(log, outbox);
        self.propagate_soon(outbox);
    }

    /// Appends all that has come and whose causes have.
    pub(super) fn receive(&mut self, log: &mut impl Log<Entry>, outbox: &mut Out) {
        let own = VersionNumber { site: self.site, seqno: self.state.committed.of(self.site) };
        let effects_first = self.config.rules.has(Plant::EffectsFirst);
        let all = self.sites();
        let Some(leader) = &self.leader else { return };
        let mut receiving = leader.receiving.clone();
        receiving.include(own);
        let sites: Vec<LocalSite> = all.filter(|site| *site != self.site).collect();
        let mut ready: Vec<Arc<Commit>> = Vec::new();
        loop {
            let before = ready.len();
            for site in &sites {
                // Of a site that was taken out values come from several others.
                let may_lack = self.is_frozen(*site);
                while let Some(commit) = leader.early.get(&(*site, receiving.of(*site) + 1))
                    && (receiving.includes_all(&commit.snapshot) || effects_first)
                    && (!may_lack || self.is_whole(commit))
                {
                    ready.push(Arc::clone(commit));
                    receiving.include(commit.version);
                }
            }
            if ready.len() == before {
                break;
            }
        }
        if ready.is_empty() {
            return;
        }
        let Some(leader) = &mut self.leader else { return };
        for commit in &ready {
            leader.early.remove(&(commit.version.site, commit.version.seqno));
        }
        match log.append(Entry::Received(ready)) {
            Some(_) => {
                leader.receiving.join(&receiving);
                let received = self.state.histories.received();
                assert!(
                    leader.receiving.includes_all(received),
                    "{} is on its way into the log, and {received} was received",
                    leader.receiving
                );
            }
            None => outbox.ignored(reasons::LOG_CLOSED),
        }
    }

    /// RECEIVED is stable.
    pub(super) fn on_received(&mut self, log: &mut impl Log<Entry>, outbox: &mut Out) {
        let Some(leader) = &mut self.leader else { return };
        leader.peers.values_mut().for_each(|peer| peer.is_owed = true);
        // The containers that it places tell which values are still missing of others.
        self.receive(log, outbox);
        self.advance(log, outbox);
        self.propagate_soon(outbox);
    }

    /// Commits here what is durable and was received, each with all that its snapshot includes.
    pub(super) fn advance(&mut self, log: &mut impl Log<Entry>, outbox: &mut Out) {
        let by_one = self.config.rules.has(Plant::AdvancesByOne);
        let sources = self.durable_elsewhere();
        let Some(leader) = &mut self.leader else { return };
        let mut advancing = leader.advancing.clone();
        advancing.include(VersionNumber { site: self.site, seqno: self.state.committed.of(self.site) });
        let before = advancing.clone();
        loop {
            let last = advancing.clone();
            for (site, durable) in &sources {
                let next = |advancing: &Vector| VersionNumber { site: *site, seqno: advancing.of(*site) + 1 };
                while next(&advancing).seqno <= *durable
                    && let Some(commit) = self.state.commit(next(&advancing))
                    && (advancing.includes_all(&commit.snapshot) || by_one)
                {
                    advancing.include(commit.version);
                }
            }
            if advancing == last {
                break;
            }
        }
        if advancing == before {
            return;
        }
        let received = self.state.histories.received();
        assert!(received.includes_all(&advancing), "{advancing} is to commit, and {received} was received");
        match log.append(Entry::Advance(advancing.clone())) {
            Some(_) => leader.advancing = advancing,
            None => outbox.ignored(reasons::LOG_CLOSED),
        }
    }

    /// Up to where the transactions of each other site are durable. Of a site that was taken out nothing is before its end is settled, and all that
    /// is kept from then on.
    fn durable_elsewhere(&self) -> Vec<(LocalSite, u64)> {
        let heard = self.config.rules.has(Plant::LostSiteHeard);
        let peers = self.leader.iter().flat_map(|leader| &leader.peers);
        let peers = peers.filter(|(site, _)| heard || !self.is_frozen(**site));
        let ended = self.state.removals.iter();
        let ended = ended.filter_map(|removal| Some((removal.site, removal.end.as_ref()?.last)));
        peers.map(|(site, peer)| (*site, peer.durable)).chain(ended).collect()
    }

    /// ADVANCE is stable.
    pub(super) fn on_advanced(&mut self, log: &mut impl Log<Entry>, outbox: &mut Out) {
        if let Some(leader) = &mut self.leader {
            leader.peers.values_mut().for_each(|peer| peer.is_owed = true);
        }
        self.advance(log, outbox);
        self.propagate_soon(outbox);
    }

    /// Tells a site how far this one is, if it is not known there.
    fn tell_progress(&mut self, to: LocalSite, outbox: &mut Out) {
        let receiver = self.leader_of(to);
        let oldest = self.oldest();
        let received = self.state.histories.received().of(to);
        let committed = self.state.committed.clone();
        let Some(peer) = self.leader.as_mut().and_then(|leader| leader.peers.get_mut(&to)) else { return };
        assert!(committed.includes_all(&oldest), "{oldest} is needed, and {committed} has committed");
        if std::mem::take(&mut peer.is_owed) {
            outbox.send(receiver, Message::Progress { received, committed, oldest });
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_progress_of(
        &mut self,
        from: ReplicaId,
        received: u64,
        committed: &Vector,
        oldest: &Vector,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(site) = self.other_site(from.shard) else { return outbox.ignored(reasons::NO_SITE) };
        if self.leader.is_none() {
            return self.send_not_leading(from.into(), None, log, outbox);
        }
        if received > self.state.committed.of(self.site) || !committed.includes_all(oldest) {
            return outbox.ignored(reasons::NONSENSE);
        }
        self.note_leader(site, from.index, context.now, outbox);
        let Some(leader) = &mut self.leader else { return };
        let Some(peer) = leader.peers.get_mut(&site) else { return };
        if received > peer.received {
            peer.received = received;
            peer.confirmed = context.now;
        }
        peer.sent = peer.sent.max(received);
        let own = self.state.committed.of(self.site);
        assert!(
            peer.received <= peer.sent && peer.received <= own,
            "{site} has received {}, was sent {}, and {own} have committed",
            peer.received,
            peer.sent
        );
        while peer.batches.front().is_some_and(|last| *last <= received) {
            peer.batches.pop_front();
        }
        peer.committed.join(committed);
        peer.oldest.get_or_insert_default().join(oldest);
        self.count_copies(outbox);
        self.propagate_soon(outbox);
    }

    /// Finds out which transactions of this site are disaster-safe durable: of the sites that hold what they update f + 1 have them, and so have the
    /// preferred sites; and so it is with those before them.
    /// Clients that wait for that are told.
    pub(super) fn count_copies(&mut self, outbox: &mut Out) {
        let floor = self.state.histories.floor().of(self.site);
        let last = self.state.committed.of(self.site);
        let Some(leader) = &self.leader else { return };
        let mut durable = leader.durable.max(floor);
        while durable < last {
            let version = VersionNumber { site: self.site, seqno: durable + 1 };
            let has = |site: LocalSite| self.has_copy(site, version.seqno);
            let commit = self.state.commit(version).expect("it is above the floor, and has committed");
            if !self.is_copied(commit) || !self.guardians_of(commit).all(|site| site.is_some_and(has)) {
                break;
            }
            durable = version.seqno;
        }
        if let Some(leader) = &mut self.leader {
            assert!(
                leader.durable <= durable && durable <= last.max(floor),
                "{durable} are durable, {} were, and {last} have committed",
                leader.durable
            );
            leader.durable = durable;
        }
        self.tell_milestones(outbox);
    }

    /// Sends again what a site has not confirmed for long, and tells each how far this one is.
    pub(super) fn attend_peers(&mut self, context: &Context<'_>, outbox: &mut Out) {
        let never_again = self.config.rules.has(Plant::NothingPropagatedAgain);
        let (timeout, last) = (self.config.resend_timeout, self.state.committed.of(self.site));
        // Every site speaks once in an interval.
        let silence = timeout + 2 * self.config.attention_interval;
        let Some(leader) = &mut self.leader else { return };
        let mut silent = Vec::new();
        for (site, peer) in &mut leader.peers {
            peer.is_owed = true;
            peer.redirects = 0;
            if peer.committed.of(self.site) < leader.durable {
                peer.told_durable = 0;
            }
            if peer.received == last {
                peer.confirmed = context.now;
            } else if context.now - peer.confirmed >= timeout && !never_again {
                peer.confirmed = context.now;
                peer.sent = peer.received;
                peer.batches.clear();
            }
            if context.now - peer.heard >= silence {
                peer.heard = context.now;
                silent.push(*site);
            }
        }
        self.count_copies(outbox);
        for site in silent {
            self.suspect(site);
        }
        self.on_propagate_timeout(outbox);
    }
}
