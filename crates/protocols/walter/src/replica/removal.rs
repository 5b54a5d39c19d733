//! A site that is lost is taken out, and the others go on without it (section 5.7, *aggressive*).
//!
//! ```text
//!   an operator: SITE is removed ─► configuration service ─► each site that is left, once the lease of the lost one has ended:
//!     FREEZE stable: nothing is taken from the lost site, nothing commits with its consent ─► FROZEN to the others: how far this site had come
//!     RELAY between them ─► all have what one of them had of it ─► its end and a barrier ─► configuration service, which settles them once
//!     REMOVED stable: what is kept is durable, the rest is abandoned, locks for it are free
//!   its successor, once it has committed all that the barrier names: lets in what the lost site let in
//! ```
//!
//! All of that concerns the lost site alone; transactions among the others commit meanwhile. A FROZEN says of its site the same as that site's log,
//! so that all of them propose the same. The end is what the site had received that had most, as far as its values are at sites that are left: where all
//! objects are at all sites nothing is abandoned that anybody else has, and nowhere anything that has committed at another site. A site whose lease has
//! ended tells no client of a commit.

use std::collections::BTreeSet;
use std::sync::Arc;

use quorate_core::hosted::Consultation;
use quorate_core::log::Log;
use quorate_core::topology::{self, Settled, Settlement, SiteChanges};
use quorate_core::{Address, Context, Instant, ReplicaId, ShardId};

use super::commit::Votes;
use super::leader::{Leasing, Unleased};
use super::survival::combined;
use super::{Out, Replica, ReplicaEvent, WAITING_MAX};
use crate::entry::{Commit, Entry};
use crate::message::Message;
use crate::reasons;
use crate::removal::{End, Frozen, Removal};
use crate::rules::Plant;
use crate::vector::{LocalSite, Vector, VersionNumber};

impl Replica {
    /// True if this site was taken out.
    pub(super) fn is_removed(&self) -> bool {
        self.known.iter().any(|removal| removal.site == self.site)
    }

    /// True if it is sure that this site was not taken out.
    pub(super) fn holds_lease(&self, now: Instant) -> bool {
        self.config.lease.is_none() || self.sites().count() == 1 || now < self.leased_until
    }

    /// True if this site goes on without another one, or is about to.
    pub(super) fn is_frozen(&self, site: LocalSite) -> bool {
        self.state.removal(site).is_some()
            || self.leader.as_ref().is_some_and(|leader| leader.freezing.contains(&site))
    }

    /// True if the ends that are open are about to be settled: all sites that are left are expected to agree on them by themselves. If they have not after a
    /// while, another one is silent.
    pub(super) fn settles_soon(&self, now: Instant) -> bool {
        let is_known = self.known.len() >= self.state.removals.len();
        !is_known || now - self.learned < self.config.lease_wait + self.config.wait_timeout
    }

    /// The local site of another replica of the keyspace, unless it was taken out.
    pub(super) fn other_site(&self, shard: ShardId) -> Option<LocalSite> {
        let heard = self.config.rules.has(Plant::LostSiteHeard);
        self.config.other_site(shard).filter(|site| heard || !self.is_frozen(*site))
    }

    /// The last transaction that is kept of a site that was taken out, if a snapshot includes later ones.
    pub(super) fn abandoned(&self, snapshot: &Vector) -> Option<VersionNumber> {
        if self.config.rules.has(Plant::AbandonedAwaited) {
            return None;
        }
        self.state.removals.iter().find_map(|removal| {
            let last = VersionNumber { site: removal.site, seqno: removal.end.as_ref()?.last };
            (snapshot.of(last.site) > last.seqno).then_some(last)
        })
    }

    /// A client waits until it is sure that this site was not taken out. One for which there is no room asks again.
    pub(super) fn wait_for_lease(&mut self, from: Address, waits: Unleased, now: Instant, outbox: &mut Out) {
        let Some(leader) = &mut self.leader else { return };
        let of_client = leader.unleased.iter().filter(|waiting| waiting.from == from).count();
        if leader.unleased.len() >= WAITING_MAX / 10 || of_client >= WAITING_MAX / 100 {
            return outbox.ignored(reasons::TOO_MANY);
        }
        leader.unleased.push_back(Leasing { from, since: now, waits });
        assert!(leader.unleased.len() <= WAITING_MAX / 10, "{} wait for the lease", leader.unleased.len());
    }

    /// Asks which sites were taken out.
    pub(super) fn consult(&mut self, now: Instant, outbox: &mut Out) {
        if self.config.lease.is_none() {
            return;
        }
        let settlement = self.settlement().or_else(|| self.readiness());
        if let Some(leader) = &mut self.leader {
            leader.consulted = Some(now);
            outbox.emit(ReplicaEvent::Consults(Consultation { asked: now, settlement }));
        }
    }

    /// The configuration service has answered.
    pub(super) fn on_answer(
        &mut self,
        asked: Instant,
        changes: &SiteChanges,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        if changes.version() < self.changed {
            return outbox.ignored(reasons::KNOWN);
        }
        let joined: Vec<ShardId> = changes.joins().iter().map(|join| join.shard).collect();
        if joined.len() > self.config.joined.len() {
            assert!(
                joined.starts_with(&self.config.joined),
                "{joined:?} have joined, and {:?} before",
                self.config.joined
            );
            self.config.joined = joined;
        }
        let known: Option<Vec<Removal>> =
            changes.removals().iter().map(|removal| self.removal(removal)).collect();
        let Some(known) = known else { return outbox.ignored(reasons::NO_SITE) };
        self.changed = changes.version();
        self.joins = changes.joins().to_vec();
        if known.len() > self.known.len() {
            self.learned = context.now;
        }
        self.known = known;
        if self.is_removed() {
            return;
        }
        if let Some(lease) = self.config.lease
            && self.serves()
        {
            assert!(asked <= context.now, "what was asked at {asked:?} is answered at {:?}", context.now);
            self.leased_until = self.leased_until.max(asked + lease);
        }
        if self.holds_lease(context.now) {
            let waiting = self.leader.as_mut().map(|leader| std::mem::take(&mut leader.unleased));
            for Leasing { from, waits, .. } in waiting.into_iter().flatten() {
                match waits {
                    Unleased::Request(message) => self.on_message(from, message, context, log, outbox),
                    Unleased::Ending(id) => self.tell_ending(from, id, context.now, outbox),
                }
            }
        }
        self.attend_sites(context, log, outbox);
    }

    /// A removal, by sites; none if it names others.
    fn removal(&self, removal: &topology::Removal) -> Option<Removal> {
        let end = removal
            .settled
            .as_ref()
            .map(|settled| End { last: settled.last, barrier: Vector::new(settled.barrier.clone()) });
        let (site, successor) =
            (self.config.site_at(removal.shard)?, self.config.site_at(removal.successor)?);
        Some(Removal { site, successor, end })
    }

    /// Goes on with what the configuration service has said.
    pub(super) fn attend_sites(
        &mut self,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let (now, wait_timeout) = (context.now, self.config.wait_timeout);
        self.attend_joins(context, log, outbox);
        let Some(leader) = &mut self.leader else { return };
        leader.unleased.retain(|waiting| now - waiting.since < wait_timeout);
        let interval = self.config.lease.unwrap_or_default() / 4;
        if leader.consulted.is_none_or(|at| now - at >= interval) {
            self.consult(now, outbox);
        }
        if self.is_removed() || !self.state.is_whole() {
            return;
        }
        let Some(leader) = &self.leader else { return };
        let frozen = self.state.removals.len().max(leader.freezing.len());
        if self.known.len() > frozen && now - self.learned >= self.config.lease_wait {
            self.go_on_without(log, outbox);
        }
        self.append_ends(log, outbox);
        self.send_frozen(outbox);
    }

    /// Takes nothing any more from the sites that were taken out.
    fn go_on_without(&mut self, log: &mut impl Log<Entry>, outbox: &mut Out) {
        let lost: Vec<LocalSite> = self.known.iter().map(|removal| removal.site).collect();
        assert!(
            lost.len() > self.state.removals.len() && !lost.contains(&self.site),
            "{} goes on without {lost:?}, and without {} sites before",
            self.site,
            self.state.removals.len()
        );
        let removals = self.known.iter().map(|removal| Removal { end: None, ..removal.clone() }).collect();
        if log.append(Entry::Freeze(removals)).is_none() {
            return outbox.ignored(reasons::LOG_CLOSED);
        }
        let Some(leader) = &mut self.leader else { return };
        leader.freezing.clone_from(&lost);
        leader.early.retain(|(site, _), _| !lost.contains(site));
        leader.frozen.clear();
        // A commit that has its consent and is not appended commits no more.
        let missing = |slow: &super::leader::Slow| -> BTreeSet<LocalSite> {
            slow.participants.iter().filter(|site| lost.contains(site)).copied().collect()
        };
        let slow = leader.slow.iter().map(|(id, slow)| (*id, missing(slow)));
        for (id, missing) in slow.filter(|(_, missing)| !missing.is_empty()).collect::<Vec<_>>() {
            self.end_slow(id, Votes::Missing(missing), log, outbox);
        }
    }

    /// FREEZE is stable.
    pub(super) fn on_freeze(&mut self, outbox: &mut Out) {
        self.send_frozen(outbox);
    }

    /// Tells the others how far this site had come, as long as an end is open here.
    fn send_frozen(&mut self, outbox: &mut Out) {
        let Some(frozen) = self.state.freeze.clone() else { return };
        // Of those, too, whose end is settled: others send what this site says to lack.
        let mut received = Vector::default();
        for Removal { site, .. } in &self.state.removals {
            received.include(VersionNumber { site: *site, seqno: self.state.histories.received().of(*site) });
        }
        let is_open = !self.state.are_settled();
        let Some(leader) = self.leader.as_ref().filter(|_| is_open) else { return };
        for site in leader.peers.keys().filter(|site| !self.is_frozen(**site)) {
            let (frozen, received) = (frozen.clone(), received.clone());
            outbox.send(self.leader_of(*site), Message::Frozen { frozen, received });
        }
    }

    pub(super) fn on_frozen(
        &mut self,
        from: ReplicaId,
        frozen: Frozen,
        received: Vector,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(site) = self.other_site(from.shard) else { return outbox.ignored(reasons::NO_SITE) };
        self.note_leader(site, from.index, context.now, outbox);
        if self.leader.is_none() {
            return outbox.ignored(reasons::NOT_LEADING);
        }
        self.relay(from, &received, outbox);
        if !self.counts(site) {
            // It is not waited for, so all of what the others agree on is theirs.
            return;
        }
        let Some(leader) = &mut self.leader else { return };
        let said = (frozen, received);
        // A site that says the same again is no reason to ask: the answer would be one to say the same to all others, and so on.
        let is_new = leader.frozen.get(&site) != Some(&said);
        leader.frozen.insert(site, said);
        if is_new && self.settlement().is_some() {
            self.consult(context.now, outbox);
        }
    }

    /// Sends a site what it lacks of those that were taken out: of each of them something, since what it lacks of one may be the cause of what it lacks
    /// of another.
    fn relay(&self, to: ReplicaId, received: &Vector, outbox: &mut Out) {
        let Some(receiver) = self.other_site(to.shard) else { return };
        let frozen = self.state.freeze.as_ref();
        let mut commits = Vec::new();
        for removal in &self.state.removals {
            let (site, mut bytes) = (removal.site, 0);
            let last = match &removal.end {
                Some(end) => end.last,
                None => frozen.map_or(0, |frozen| frozen.received.of(site)),
            };
            for seqno in received.of(site) + 1..=last {
                if bytes >= self.config.batch_bytes_max {
                    break;
                }
                // A transaction below the floor has committed everywhere.
                let Some(commit) = self.state.commit(VersionNumber { site, seqno }) else { break };
                let commit = self.for_site(commit, receiver);
                bytes += commit.bytes();
                commits.push(commit);
            }
        }
        if !commits.is_empty() {
            outbox.send(to, Message::Relay { commits });
        }
    }

    pub(super) fn on_relay(
        &mut self,
        from: ReplicaId,
        commits: Vec<Arc<Commit>>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        if self.other_site(from.shard).is_none() {
            return outbox.ignored(reasons::NO_SITE);
        }
        let lasts: Vec<(LocalSite, u64)> =
            self.state.removals.iter().map(|removal| (removal.site, self.last_known(removal.site))).collect();
        let Some(leader) = &mut self.leader else { return outbox.ignored(reasons::NOT_LEADING) };
        for commit in commits {
            let VersionNumber { site, seqno } = commit.version;
            if !lasts.iter().any(|(removed, last)| *removed == site && seqno <= *last)
                || commit.snapshot.includes(commit.version)
            {
                return outbox.ignored(reasons::NOT_FROZEN);
            }
            if seqno > leader.receiving.of(site) && leader.early.len() < WAITING_MAX {
                let known = leader.early.get(&(site, seqno));
                let known = known.map_or_else(|| Arc::clone(&commit), |known| combined(known, &commit));
                leader.early.insert((site, seqno), known);
            }
        }
        self.receive(log, outbox);
    }

    /// The last transaction that any site is known to have of one that was taken out.
    pub(super) fn last_known(&self, site: LocalSite) -> u64 {
        let settled = |removals: &[Removal]| {
            let removal = removals.iter().find(|removal| removal.site == site)?;
            removal.end.as_ref().map(|end| end.last)
        };
        if let Some(last) = settled(&self.state.removals).or_else(|| settled(&self.known)) {
            return last;
        }
        let removals = self.state.removals.len();
        let others = self.leader.iter().flat_map(|leader| leader.frozen.values());
        let others = others.map(|(frozen, _)| frozen).chain(&self.state.freeze);
        let alike = others.filter(|frozen| frozen.removals as usize == removals);
        alike.map(|frozen| frozen.received.of(site)).max().unwrap_or(0)
    }

    /// The ends that are open, if all sites that are left have said how far they had come, and have all of it by now.
    fn settlement(&self) -> Option<Settlement> {
        let leader = self.leader.as_ref()?;
        let own = self.state.freeze.as_ref()?;
        let removals = self.state.removals.len();
        let is_settled = |site: &LocalSite| {
            self.known.iter().any(|removal| removal.site == *site && removal.end.is_some())
        };
        let open: Vec<LocalSite> = self.state.open_removals().filter(|site| !is_settled(site)).collect();
        if open.is_empty()
            || !self.counts(self.site)
            || own.removals as usize != removals
            || self.known.len() != removals
        {
            return None;
        }
        let mut barrier = Vector::default();
        barrier.include(VersionNumber { site: self.site, seqno: own.seqno });
        let kept = self.ends()?;
        let is_left = |site: &LocalSite| {
            *site != self.site && self.state.removal(*site).is_none() && self.counts(*site)
        };
        let mut others = Vec::new();
        for site in self.sites().filter(is_left) {
            let (frozen, received) = leader.frozen.get(&site)?;
            barrier.include(VersionNumber { site, seqno: frozen.seqno });
            others.push(received);
        }
        let mut ends = Vec::new();
        for site in open {
            let last = *kept.get(&site)?;
            let has_all = |received: &Vector| received.of(site) >= last;
            if !has_all(self.state.histories.received()) || !others.iter().all(|received| has_all(received)) {
                return None;
            }
            let settled = Settled { last, barrier: barrier.numbers().to_vec() };
            ends.push((self.config.shard_of(site), settled));
        }
        Some(Settlement { removals, ends, ready: None })
    }

    /// Appends the ends that are settled, of sites of which everything is here that is kept.
    fn append_ends(&mut self, log: &mut impl Log<Entry>, outbox: &mut Out) {
        let has_abandoned = |removal: &Removal| {
            removal.end.as_ref().is_some_and(|end| self.state.committed.of(removal.site) > end.last)
        };
        if !self.counts(self.site) && self.known.iter().any(has_abandoned) {
            return self.begin_anew(log, outbox);
        }
        let Some(leader) = &mut self.leader else { return };
        for removal in &self.known {
            let Removal { site, end: Some(end), .. } = removal else { continue };
            let is_open = self.state.removal(*site).is_some_and(|known| known.end.is_none());
            let is_here = self.state.histories.received().of(*site) >= end.last;
            if !is_open || !is_here || leader.removing.contains(site) {
                continue;
            }
            match log.append(Entry::Removed { site: *site, end: end.clone() }) {
                Some(_) => assert!(leader.removing.insert(*site), "the end of {site} is appended twice"),
                None => outbox.ignored(reasons::LOG_CLOSED),
            }
        }
    }

    /// REMOVED is stable.
    pub(super) fn on_removed(&mut self, site: LocalSite, end: &End) {
        let Some(leader) = &mut self.leader else { return };
        leader.removing.remove(&site);
        leader.peers.remove(&site);
        leader.early.retain(|(of, _), _| *of != site);
        leader.receiving.exclude_above(VersionNumber { site, seqno: end.last });
    }
}
