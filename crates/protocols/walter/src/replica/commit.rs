//! Commits at the local site of the client: at once if every register that is written has its preferred site here (section 5.4, *fast
//! commit*), else after the preferred sites have locked what is written there (section 5.5, *slow commit*).
//!
//! ```text
//!   COMMIT ─► known already? ─► answer again
//!      │       period over for long, snapshot older than what is kept? ─► TOO-OLD
//!      ▼
//!   own registers unmodified since the snapshot, and free? ── no ─► append REFUSED ── stable ─► aborted
//!      │                                                                  ▲
//!      ├─ all of them are this site's ──────────────► append COMMIT       │ one is against it, or silent
//!      └─ PREPARE to the other preferred sites ──── all agree ───┘        │
//!                                     └────────────────────────────────────┘
//! ```
//!
//! A number is taken when COMMIT is appended, after all votes, so numbers have no gaps. A refusal is an entry, too: a message that comes late
//! must not commit what its client takes for aborted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quorate_core::hash::FixedSet;
use quorate_core::log::Log;
use quorate_core::topology::container_of;
use quorate_core::transaction::{
    TRANSACTION_BYTES_MAX, TRANSACTION_ENTRIES_MAX, validate_key, validate_write,
};
use quorate_core::{Address, Context, Instant, Key, ReplicaId, ShardId, TransactionId};

use super::containers::{Holder, awaited};
use super::leader::{Refusing, Slow, Unleased};
use super::reads::follows_its_own;
use super::shares::{Lack, are_open_to_clients};
use super::{Out, Replica};
use crate::container::Container;
use crate::entry::{Commit, Entry, registers};
use crate::histories::Update;
use crate::message::{Ending, Message, Period, Snapshot};
use crate::reasons;
use crate::rules::Plant;
use crate::vector::{LocalSite, Vector, VersionNumber};

/// A transaction that a client asks its local site to commit.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: TransactionId,
    pub(super) snapshot: Snapshot,
    pub(super) period: Period,
    pub(super) updates: Vec<Update>,
}

impl Request {
    /// The message that brought it, to be handled again later.
    fn message(self) -> Message {
        let Request { id, snapshot, period, updates } = self;
        Message::Commit { transaction: id, snapshot, period, updates }
    }
}

/// How a transaction commits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// The site decides alone.
    Fast,
    /// Other sites have locked what it writes.
    Slow {
        /// Its number, if it was taken before the votes.
        number: Option<u64>,
    },
}

/// The votes of the preferred sites on a slow commit.
#[derive(Debug)]
pub(super) enum Votes {
    /// All agree.
    Agreed,
    /// One does not.
    Refused,
    /// These are silent, or were taken out.
    Missing(BTreeSet<LocalSite>),
}

impl Replica {
    pub(super) fn on_commit(
        &mut self,
        from: Address,
        request: Request,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let id = request.id;
        if from != Address::Client(id.client) {
            return outbox.ignored(reasons::FOREIGN);
        }
        if !self.is_well_formed(&request.updates) || !follows_its_own(id, &request.snapshot) {
            return outbox.ignored(reasons::MALFORMED);
        }
        let Some(leader) = &mut self.leader else {
            return self.send_not_leading(from, Some(id), log, outbox);
        };
        if leader.is_under_way(id) {
            return outbox.ignored(reasons::UNDER_WAY);
        }
        if let Some(refusing) = leader.refusing.get_mut(&id) {
            refusing.clients.insert(from);
            return;
        }
        if self.state.ending(id).is_some() {
            return self.tell_ending(from, id, context.now, outbox);
        }
        if request.period <= self.state.forgotten {
            return self.send_too_old(from, id, Some(request.period), outbox);
        }
        if !self.holds_lease(context.now) && !self.config.rules.has(Plant::LeaseIgnored) {
            return self.wait_for_lease(from, Unleased::Request(request.message()), context.now, outbox);
        }
        if self.denies(from, id, request.snapshot.least(), context, log, outbox) {
            return;
        }
        if !self.has_committed(request.snapshot.least()) {
            let needs = request.snapshot.least().clone();
            return self.wait(from, request.message(), needs, context, outbox);
        }
        // The holder of each register that is written, in their order.
        let holders: Vec<Holder> = registers(&request.updates).map(|key| self.holder(key)).collect();
        if let Some(needs) = awaited(&holders) {
            let needs = needs.clone();
            return self.wait(from, request.message(), needs, context, outbox);
        }
        if holders.iter().any(|holder| matches!(holder, Holder::Lost(_))) && self.settles_soon(context.now) {
            return self.wait_for_ends(from, request.message(), context.now, outbox);
        }
        if holders.iter().all(|holder| *holder == Holder::Here)
            && let Some(until) = self.reserved_until(registers(&request.updates), context.now)
        {
            return self.wait_for_slow(from, request.message(), until, context.now, outbox);
        }
        // A commit that is appended here and not yet stable is in the snapshot of every one that is appended after it.
        let is_about_to = |(earlier, _): &(TransactionId, Period)| {
            holders.iter().all(|holder| *holder == Holder::Here)
                && self.leader.as_ref().is_some_and(|leader| leader.committing.contains_key(earlier))
        };
        let awaited = self.awaited_ending(&request.snapshot);
        if let Some((earlier, period)) = awaited.filter(|earlier| !is_about_to(earlier)) {
            if period <= self.state.forgotten {
                // If it is not one that comes late, it comes again with the period that the earlier one was sent with since.
                return outbox.ignored(reasons::EARLIER_FORGOTTEN);
            }
            return self.wait_for_ending(from, request.message(), earlier, context.now, outbox);
        }
        let snapshot = match &request.snapshot {
            // However many zeros its client has written.
            Snapshot::Taken(snapshot) => Vector::new(snapshot.numbers().to_vec()),
            // It has read nothing, so it may come after everything that is about to commit here; unless other sites are asked: they must
            // never hear of a transaction that is not stable.
            Snapshot::New(_) | Snapshot::After { .. }
                if holders.iter().any(|holder| *holder != Holder::Here) =>
            {
                self.state.committed.clone()
            }
            // All of it, and of the other sites, too: the snapshots of a site include each other.
            Snapshot::New(_) | Snapshot::After { .. } => self.newest(),
        };
        if !snapshot.includes_all(self.state.histories.floor()) {
            return self.send_too_old(from, id, Some(request.period), outbox);
        }
        let lack = self.lack(&request.updates, &snapshot);
        // The request does not wait for additions of other clients while another site has a share: there may be no end of them.
        let may_wait = awaited.is_some() || lack == Some(Lack::Nowhere);
        if lack.is_some() && may_wait && self.are_added_to(&request.updates) {
            let needs = self.newest();
            return self.wait(from, request.message(), needs, context, outbox);
        }
        let silent = match lack {
            None => {
                return self.begin_commit(
                    from,
                    id,
                    snapshot,
                    (request.updates, &holders),
                    context,
                    log,
                    outbox,
                );
            }
            Some(Lack::Elsewhere { counter, missing }) => {
                match self.ask_for_share((&counter, missing), context.now, log, outbox) {
                    Ok(()) => return self.wait_for_share(from, request.message(), context.now, outbox),
                    Err(silent) => silent,
                }
            }
            Some(Lack::Later) => None,
            Some(Lack::Nowhere) => {
                let told = Refusing { is_short: true, ..Refusing::told(from) };
                return self.refuse(id, told, log, outbox);
            }
        };
        let told = Refusing { silent: silent.into_iter().collect(), ..Refusing::told(from) };
        self.refuse(id, told, log, outbox);
    }

    /// All that has committed here, or is about to.
    pub(super) fn newest(&self) -> Vector {
        let mut newest = self.state.committed.clone();
        if let Some(leader) = &self.leader {
            newest.join(&leader.advancing);
            newest.include(VersionNumber { site: self.site, seqno: leader.appended });
        }
        newest
    }

    #[expect(clippy::too_many_arguments, reason = "a transaction, and the ports of a step")]
    fn begin_commit(
        &mut self,
        from: Address,
        id: TransactionId,
        snapshot: Vector,
        (updates, holders): (Vec<Update>, &[Holder]),
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let mut here: Vec<Key> = Vec::new();
        let mut elsewhere: BTreeMap<LocalSite, BTreeSet<Key>> = BTreeMap::new();
        for (key, holder) in registers(&updates).zip(holders) {
            match holder {
                Holder::Elsewhere(site) => {
                    elsewhere.entry(*site).or_default().insert(key.clone());
                }
                Holder::Here if self.is_free(key, id, &snapshot) => here.push(key.clone()),
                Holder::Lost(site) => {
                    let told = Refusing { silent: [*site].into(), ..Refusing::told(from) };
                    return self.refuse(id, told, log, outbox);
                }
                _ => return self.refuse(id, Refusing::told(from), log, outbox),
            }
        }
        if !self.have_replicas(&updates) {
            return self.refuse(id, Refusing::told(from), log, outbox);
        }
        if let [Update::Place { name, container }] = &updates[..]
            && !(self.can_hand_over(name) && self.can_limit(name, container.as_ref()))
        {
            return self.refuse(id, Refusing::told(from), log, outbox);
        }
        let updates = self.of_shares(updates);
        if elsewhere.is_empty() {
            _ = self.append_commit(Some(from), id, snapshot, updates, Way::Fast, log, outbox);
            return;
        }
        let takes_early = self.config.rules.has(Plant::NumberBeforeVotes);
        let Some(leader) = &mut self.leader else { return };
        leader.hold(id, &here);
        leader.shares.take(&updates);
        if takes_early {
            leader.appended += 1;
        }
        let slow = Slow {
            asker: from,
            snapshot,
            updates,
            participants: elsewhere.keys().copied().collect(),
            silent: elsewhere.into_iter().map(|(site, keys)| (site, keys.into_iter().collect())).collect(),
            began: context.now,
            asked: context.now,
            number: takes_early.then_some(leader.appended),
        };
        let before = leader.slow.insert(id, slow);
        assert!(before.is_none(), "{id} is prepared twice: {before:?}");
        self.send_prepares(id, outbox);
    }

    /// True if a transaction with this snapshot may write a register whose preferred site this is: its newest version is in the snapshot, and
    /// nobody has locked it or is about to write it (the paper's *unmodified* and *unlocked*).
    pub(super) fn is_free(&self, key: &Key, id: TransactionId, snapshot: &Vector) -> bool {
        let Some(leader) = &self.leader else { return false };
        let is_other = |holder: TransactionId| holder != id;
        let is_locked = (self.state.holder(key).is_some_and(is_other)
            || leader.holder(key).is_some_and(is_other))
            && !self.config.rules.has(Plant::LocksIgnored);
        let is_written = leader.writer(key).is_some_and(|seqno| seqno > snapshot.of(self.site));
        let is_unmodified = match self.state.histories.last(key) {
            Some(last) if self.config.rules.has(Plant::RemoteWritesIgnored) && last.site != self.site => true,
            _ => self.state.histories.is_unmodified(key, snapshot),
        };
        is_unmodified && !is_written && !is_locked
    }

    /// A transaction commits once it is stable that this leader has appended it; false if it could not.
    #[expect(clippy::too_many_arguments, reason = "a transaction, and the ports of a step")]
    pub(super) fn append_commit(
        &mut self,
        asker: Option<Address>,
        id: TransactionId,
        snapshot: Vector,
        updates: Vec<Update>,
        way: Way,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) -> bool {
        let newest = self.newest();
        assert!(
            newest.includes_all(&snapshot)
                // A snapshot may include transactions that were abandoned with a site.
                || !self.state.removals.is_empty()
                || self.config.rules.has(Plant::SessionForgotten),
            "{id} commits in {snapshot}, and {newest} has committed or is about to"
        );
        let Some(leader) = &mut self.leader else { return false };
        let (number, is_slow) = match way {
            Way::Fast => (None, false),
            Way::Slow { number } => (number, true),
        };
        let seqno = number.unwrap_or(leader.appended + 1);
        assert!(
            seqno == leader.appended + 1 || self.config.rules.has(Plant::NumberBeforeVotes),
            "{id} is number {seqno} of {}, after {}",
            self.site,
            leader.appended
        );
        let version = VersionNumber { site: self.site, seqno };
        assert!(
            !snapshot.includes(version),
            "a transaction is not in its own snapshot: {version} in {snapshot}"
        );
        assert!(
            self.state.ending(id).is_none() && !leader.committing.contains_key(&id),
            "{id} commits as {version}, and has ended or is about to"
        );
        let commit = Arc::new(Commit { transaction: id, version, snapshot, updates, is_slow });
        if log.append(Entry::Commit(Arc::clone(&commit))).is_none() {
            outbox.ignored(reasons::LOG_CLOSED);
            return false;
        }
        leader.note_appended(&commit, asker);
        true
    }

    /// COMMIT is stable: the transaction has committed, and everybody may know.
    pub(super) fn on_committed(&mut self, commit: &Commit, now: Instant, outbox: &mut Out) {
        let Some(leader) = &mut self.leader else { return };
        if let Some(asker) = leader.note_committed(commit) {
            self.tell_ending(asker, commit.transaction, now, outbox);
        }
        self.note_returned(commit);
        self.note_writer(commit);
        self.propagate_soon(outbox);
    }

    /// Tells how a transaction has ended: of a commit only as long as it is sure that this site was not taken out.
    pub(super) fn tell_ending(&mut self, to: Address, id: TransactionId, now: Instant, outbox: &mut Out) {
        let Some(ending) = self.state.ending(id) else { return };
        let is_sure = *ending == Ending::Aborted || self.holds_lease(now);
        if is_sure || self.config.rules.has(Plant::LeaseNotCheckedAgain) {
            let ending = ending.clone();
            let (silent, is_short) = (Vec::new(), false);
            return outbox.send(to, Message::CommitReply { transaction: id, ending, silent, is_short });
        }
        self.wait_for_lease(to, Unleased::Ending(id), now, outbox);
    }

    /// Makes it final that a transaction does not commit, and lets these know once it is.
    pub(super) fn refuse(
        &mut self,
        id: TransactionId,
        told: Refusing,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(leader) = &mut self.leader else { return };
        assert!(
            !leader.committing.contains_key(&id) && self.state.ending(id).is_none(),
            "{id} is refused, and has committed or is about to"
        );
        if self.config.rules.has(Plant::AbortsNotLogged) {
            return self.tell_refused(id, told, outbox);
        }
        match log.append(Entry::Refused(id)) {
            Some(_) => {
                let before = leader.refusing.insert(id, told);
                assert!(before.is_none(), "{id} is refused twice: {before:?}");
            }
            None => outbox.ignored(reasons::LOG_CLOSED),
        }
    }

    /// REFUSED is stable.
    pub(super) fn on_refused(&mut self, id: TransactionId, outbox: &mut Out) {
        let refusing = self.leader.as_mut().and_then(|leader| leader.refusing.remove(&id));
        if let Some(told) = refusing {
            self.tell_refused(id, told, outbox);
        }
    }

    fn tell_refused(&self, id: TransactionId, told: Refusing, outbox: &mut Out) {
        let silent: Vec<ShardId> = told.silent.iter().map(|site| self.config.shard_of(*site)).collect();
        for client in told.clients {
            let (ending, silent, is_short) = (Ending::Aborted, silent.clone(), told.is_short);
            outbox.send(client, Message::CommitReply { transaction: id, ending, silent, is_short });
        }
        for site in told.sites {
            outbox.send(self.leader_of(site), Message::Release { transaction: id });
        }
    }

    /// Asks the preferred sites that have not voted.
    fn send_prepares(&mut self, id: TransactionId, outbox: &mut Out) {
        let Some(leader) = &self.leader else { return };
        let Some(slow) = leader.slow.get(&id) else { return };
        assert!(!slow.silent.is_empty(), "{id} waits for nobody, and has not ended");
        for (site, keys) in &slow.silent {
            let (keys, snapshot) = (keys.clone(), slow.snapshot.clone());
            outbox.send(self.leader_of(*site), Message::Prepare { transaction: id, keys, snapshot });
        }
    }

    /// Asks a preferred site again for all votes that it owes: another replica leads it.
    pub(super) fn send_prepares_to(&self, site: LocalSite, outbox: &mut Out) {
        let Some(leader) = &self.leader else { return };
        for (id, slow) in &leader.slow {
            let Some(keys) = slow.silent.get(&site) else { continue };
            let (keys, snapshot) = (keys.clone(), slow.snapshot.clone());
            outbox.send(self.leader_of(site), Message::Prepare { transaction: *id, keys, snapshot });
        }
    }

    pub(super) fn on_vote(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        (keys, agrees): (&[Key], bool),
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(site) = self.other_site(from.shard) else { return outbox.ignored(reasons::NO_SITE) };
        let vouches = self.config.rules.has(Plant::OtherLocksVouch);
        let slow = self.leader.as_mut().and_then(|leader| leader.slow.get_mut(&id));
        let is_owed = |slow: &&mut Slow| slow.silent.get(&site).is_some_and(|asked| asked == keys || vouches);
        let counted = slow.filter(is_owed).map(|slow| {
            slow.silent.remove(&site);
            slow.silent.is_empty()
        });
        // It is not asked again for what it has just said.
        self.note_leader(site, from.index, context.now, outbox);
        let Some(is_last) = counted else { return outbox.ignored(reasons::NO_VOTE) };
        if !agrees || is_last {
            let votes = if agrees { Votes::Agreed } else { Votes::Refused };
            self.end_slow(id, votes, log, outbox);
        }
    }

    /// The votes are counted.
    pub(super) fn end_slow(
        &mut self,
        id: TransactionId,
        votes: Votes,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Some(leader) = &mut self.leader else { return };
        let Some(slow) = leader.slow.remove(&id) else { return };
        assert!(
            !matches!(votes, Votes::Agreed) || slow.silent.is_empty(),
            "{id} commits without the votes of {:?}",
            slow.silent.keys()
        );
        leader.let_go(id, registers(&slow.updates));
        leader.shares.settle(&slow.updates);
        let silent = match votes {
            Votes::Agreed => None,
            Votes::Refused => Some(BTreeSet::new()),
            Votes::Missing(silent) => Some(silent),
        };
        let Some(silent) = silent else {
            let Slow { asker, snapshot, updates, number, .. } = slow;
            let way = Way::Slow { number };
            _ = self.append_commit(Some(asker), id, snapshot, updates, way, log, outbox);
            return;
        };
        // They hear it when it is durable: a later leader may still count the votes that stand until then.
        let told = Refusing { sites: slow.participants, silent, ..Refusing::told(slow.asker) };
        self.refuse(id, told, log, outbox);
    }

    /// Asks again for votes, and gives up what has waited for them for long.
    pub(super) fn attend_slow(&mut self, context: &Context<'_>, log: &mut impl Log<Entry>, outbox: &mut Out) {
        let (now, config) = (context.now, &self.config);
        let (vote_timeout, resend_timeout) = (config.vote_timeout, config.resend_timeout);
        let Some(leader) = &mut self.leader else { return };
        let overdue = leader.slow.iter().filter(|(_, slow)| now - slow.began >= vote_timeout);
        let overdue: Vec<(TransactionId, BTreeSet<LocalSite>)> =
            overdue.map(|(id, slow)| (*id, slow.silent.keys().copied().collect())).collect();
        let mut silent = BTreeSet::new();
        let mut again = Vec::new();
        for (id, slow) in leader.slow.iter_mut().filter(|(_, slow)| now - slow.asked >= resend_timeout) {
            slow.asked = now;
            silent.extend(slow.silent.keys().copied());
            again.push(*id);
        }
        for (id, silent) in overdue {
            self.end_slow(id, Votes::Missing(silent), log, outbox);
        }
        for site in silent {
            self.suspect(site);
        }
        for id in again {
            self.send_prepares(id, outbox);
        }
    }
}

impl Replica {
    /// True if these are updates as coordinators make them.
    fn is_well_formed(&self, updates: &[Update]) -> bool {
        match updates {
            [Update::Place { name, container }] => {
                let sites = self.sites().count();
                let is_site = |container: &Container| {
                    usize::from(container.preferred.0) < sites && container.replicas.are_well_formed(sites)
                };
                validate_key(name).is_ok()
                    && container_of(name) == name.as_slice()
                    && container.as_ref().is_none_or(is_site)
            }
            _ => are_well_formed(updates),
        }
    }
}

/// True if these are updates of objects as coordinators make them.
fn are_well_formed(updates: &[Update]) -> bool {
    let bytes = |update: &Update| match update {
        Update::Write { key, value } => {
            let value = value.as_deref().unwrap_or_default();
            validate_write(key, value).is_ok().then_some(key.len() + value.len())
        }
        Update::Add { set, element, .. } => {
            (validate_key(set).is_ok() && validate_key(element).is_ok()).then_some(set.len() + element.len())
        }
        Update::Place { .. } | Update::Noted { .. } => None,
    };
    let Some(bytes) = updates.iter().map(bytes).sum::<Option<usize>>() else { return false };
    // The additions of a transaction to a count fit into an `i32`, whatever the order.
    let added = updates.iter().map(|update| match update {
        Update::Add { by, .. } => i64::from(by.unsigned_abs()),
        Update::Write { .. } | Update::Place { .. } | Update::Noted { .. } => 0,
    });
    let added: i64 = added.sum();
    let mut written: FixedSet<&Key> = FixedSet::default();
    let is_written_once = registers(updates).all(|key| written.insert(key));
    !updates.is_empty()
        && updates.len() <= TRANSACTION_ENTRIES_MAX
        && bytes <= TRANSACTION_BYTES_MAX
        && is_written_once
        && are_open_to_clients(updates)
        && added <= i64::from(i32::MAX)
}
