//! Transactions are let in, announced to the other holders of grants, and voted on (section 6.5, algorithm 2, lines 15-25 and 31-36).

use std::collections::BTreeSet;
use std::sync::Arc;

use quorate_core::command::Outcome;
use quorate_core::log::Log;
use quorate_core::reserved::{index_lists, is_index_list};
use quorate_core::{ClockTime, Context, Instant, Key, ReplicaId, TransactionId, View, Write};

use super::pending::{HeldVote, Pending};
use super::{Shard, Waiter};
use crate::config::Clock;
use crate::entry::{Entry, Prepared};
use crate::machine::Out;
use crate::message::{Holder, Life, Message, Refusal, after};
use crate::reasons;
use crate::rules::Plant;

/// A transaction that wants to be let in.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) transaction: TransactionId,
    pub(super) home: ReplicaId,
    pub(super) life: Life,
    pub(super) snapshot: ClockTime,
    pub(super) writes: Vec<Write>,
    pub(super) after: Vec<TransactionId>,
    pub(super) is_local: bool,
    pub(super) knows_indexes: bool,
}

/// The result of certification.
enum Certified {
    /// Nothing is in the way.
    Clear,
    /// This one has to end first.
    Blocked(TransactionId),
    /// It is not let in.
    Refused(Refusal),
}

/// A transaction of which only the log is known here.
pub(super) fn pending_of(prepared: &Arc<Prepared>, since: Instant) -> Pending {
    let keys = prepared.writes.iter().map(|write| write.key.clone()).collect();
    Pending::new(prepared.home, prepared.life, prepared.snapshot, keys, since)
}

impl Shard {
    /// PREPARE: the local certification, or the global one.
    pub(super) fn on_prepare(
        &mut self,
        candidate: Candidate,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let (id, home) = (candidate.transaction, candidate.home);
        if candidate.is_local && !self.is_own_home(home.into(), candidate.life) {
            return outbox.ignored(reasons::OTHER_LIFE);
        }
        let is_ours = |write: &Write| self.config.shards.holds(self.shard(), &write.key);
        let is_formed = !candidate.writes.is_empty()
            && candidate.writes.is_sorted_by(|one, next| one.key < next.key)
            && candidate.writes.iter().all(is_ours);
        if !is_formed {
            return outbox.ignored(reasons::MALFORMED);
        }
        self.is_read = true;
        let refuse = |refusal, outbox: &mut Out| {
            outbox.send_unordered(home, Message::Refused { transaction: id, refusal });
        };
        match self.state.outcome(id) {
            Some(Outcome::Committed(_)) => {
                return outbox.send_unordered(home, Message::Applied { transaction: id });
            }
            Some(Outcome::Aborted) => return refuse(Refusal::Conflict, outbox),
            None => {}
        }
        if candidate.snapshot < self.state.floor {
            return refuse(Refusal::TooOld(self.state.floor), outbox);
        }
        if let Some(time) = self.is_behind(candidate.snapshot, context.clock) {
            return refuse(Refusal::Ahead(time), outbox);
        }
        if !candidate.is_local && self.leader.is_none() {
            let leader = log.leader();
            return outbox.send_unordered(home, Message::NotLeading { transaction: Some(id), leader });
        }
        let overtaken = self.leader.as_ref().is_some_and(|leader| leader.aborted.contains_key(&id));
        if overtaken && !self.has(Plant::OrphansKept) {
            return refuse(Refusal::Conflict, outbox);
        }
        if let Some(pending) = self.pendings.get(id) {
            if pending.prepared.is_some() && !candidate.is_local {
                return self.tell_prepared(id, outbox);
            }
            let is_under_way = candidate.is_local || pending.is_appended || pending.outcome.is_some();
            if is_under_way {
                return outbox.ignored(reasons::UNDER_WAY);
            }
        }
        let certified = match self.certify_indexes(&candidate) {
            Certified::Clear => self.certify(&candidate),
            other => other,
        };
        match certified {
            Certified::Clear => self.let_in(candidate, context, log, outbox),
            Certified::Refused(refusal) => refuse(refusal, outbox),
            Certified::Blocked(_) if self.waiters >= self.config.waiting_max => {
                refuse(Refusal::Overloaded, outbox);
            }
            Certified::Blocked(other) => {
                let queue = self.waiting.entry(other).or_default();
                let is_same = |waiter: &Waiter| {
                    matches!(waiter, Waiter::Candidate(one)
                        if one.transaction == id && one.is_local == candidate.is_local)
                };
                if queue.iter().any(is_same) {
                    return outbox.ignored(reasons::UNDER_WAY);
                }
                queue.push(Waiter::Candidate(candidate));
                self.one_more_waits();
            }
        }
    }

    /// True if a note has to give way to a transaction that the shard lets in.
    fn yields(note: &Pending, to: ReplicaId) -> bool {
        !note.is_let_in() && note.outcome.is_none() && note.home != to
    }

    /// Compares a candidate with the index list of the shard ([`quorate_core::reserved`]). A candidate that writes has to have read the list, as it is now.
    ///
    /// A list that is there is changed only when no transaction is pending that goes by an earlier one. Readers of snapshots meet no transaction that is prepared above
    /// them, so the client that fills an index would otherwise not see what such a transaction writes; and the change lies above whatever has committed here, so that a snapshot which
    /// holds it holds all of that. Only a list that is new is not waited for, or it would never come where a shard is never idle: it is announced first.
    fn certify_indexes(&self, candidate: &Candidate) -> Certified {
        let newest = self.state.versions.range(&index_lists()).map(|(_, newest)| newest);
        let newest = newest.max_by_key(|version| version.timestamp);
        let written = newest.map_or(0, |version| version.timestamp.micros);
        let written = ClockTime::from_micros(written);
        let overlooks = self.has(Plant::IndexListOverlooked);
        if written > candidate.snapshot && !overlooks {
            return Certified::Refused(Refusal::Overwritten(written));
        }
        let is_there = newest.is_some_and(|version| !version.is_deletion());
        let others = |key: &Key| {
            let other = |(id, pending): (TransactionId, &Pending)| {
                id != candidate.transaction && pending.outcome != Some(Outcome::Aborted)
            };
            self.pendings.of_key(key).any(other)
        };
        let is_near = || is_there || self.pendings.keys_in(&index_lists()).any(others);
        if !candidate.knows_indexes && !overlooks && is_near() {
            return Certified::Refused(Refusal::Conflict);
        }
        let is_change = candidate.writes.iter().any(|write| is_index_list(&write.key));
        if !is_change || !is_there || self.has(Plant::IndexListChangedBeside) {
            return Certified::Clear;
        }
        let goes_by_another = |(id, pending): &(TransactionId, &Pending)| {
            let knows = pending.knows_indexes && pending.snapshot >= written;
            *id != candidate.transaction && !knows && pending.outcome != Some(Outcome::Aborted)
        };
        match self.pendings.iter().find(goes_by_another) {
            None => Certified::Clear,
            // As below: no two wait for each other.
            Some((id, pending)) if pending.snapshot < candidate.snapshot => Certified::Blocked(id),
            Some(_) => Certified::Refused(Refusal::Conflict),
        }
    }

    /// Looks for conflicts (algorithm 2, line 16). A transaction may stand on top of those that its snapshot includes; it waits for others
    /// that may still commit below its snapshot, and so only for those with a lower one: no two wait for each other.
    fn certify(&self, candidate: &Candidate) -> Certified {
        let snapshot = candidate.snapshot;
        for write in &candidate.writes {
            let newest = ClockTime::from_micros(self.state.versions.newest_timestamp(&write.key).micros);
            if newest > snapshot {
                return Certified::Refused(Refusal::Overwritten(newest));
            }
            for (id, other) in self.pendings.of_key(&write.key) {
                match other.outcome {
                    _ if id == candidate.transaction => continue,
                    Some(Outcome::Aborted) => continue,
                    Some(Outcome::Committed(timestamp)) if timestamp.micros <= snapshot.as_micros() => {
                        continue;
                    }
                    Some(Outcome::Committed(timestamp)) => {
                        let at = ClockTime::from_micros(timestamp.micros);
                        return Certified::Refused(Refusal::Overwritten(at));
                    }
                    None => {}
                }
                let is_below = candidate.home == other.home
                    && candidate.life == other.life
                    && candidate.after.contains(&id);
                if is_below || Self::yields(other, candidate.home) {
                    continue;
                }
                if other.snapshot < snapshot {
                    return Certified::Blocked(id);
                }
                return Certified::Refused(Refusal::Conflict);
            }
        }
        Certified::Clear
    }

    /// The timestamp that this replica proposes (section 6.3): above the snapshot (P1), and above everybody who has read what is
    /// overwritten (P2).
    fn propose<'a>(
        &self,
        snapshot: ClockTime,
        keys: impl Iterator<Item = &'a Key>,
        clock: ClockTime,
    ) -> ClockTime {
        let of_key = |key: &Key| {
            let here = ClockTime::from_micros(self.readers.of(key).micros);
            here.max(self.state.reader_of(key))
        };
        let latest = keys.map(of_key).max().unwrap_or_default();
        let proposal = match self.has(Plant::SnapshotIgnored) {
            true => after(latest),
            false => after(latest.max(snapshot)),
        };
        let proposal = match self.config.variant.clock {
            Clock::Precise => proposal,
            // The clock of a leader is never far from those of a majority. Any other replica has served nothing above its bound, so that is
            // enough of a proposal.
            Clock::Physical if self.leader.is_some() => proposal.max(clock),
            Clock::Physical => proposal.max(clock.min(after(self.bound))),
        };
        assert!(proposal > latest, "{proposal:?} is proposed, and what it overwrites was read at {latest:?}");
        assert!(
            proposal > snapshot || self.has(Plant::SnapshotIgnored),
            "{proposal:?} is proposed for the snapshot {snapshot:?}"
        );
        proposal
    }

    /// The same as the holder of a grant. In an earlier life it may have served everything that it was granted then; and of which lives there were it has
    /// heard only once it has applied a grant of this one.
    fn propose_as(&self, holder: &Holder, snapshot: ClockTime, keys: &[Key], clock: ClockTime) -> ClockTime {
        let knows_its_readers = holder.life == self.life && self.bound > ClockTime::default();
        let proposal = self.propose(snapshot, keys.iter(), clock);
        match knows_its_readers || self.has(Plant::ReadersForgotten) {
            true => proposal,
            false => proposal.max(after(holder.until)),
        }
    }

    fn let_in(
        &mut self,
        candidate: Candidate,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Candidate { transaction: id, home, life, snapshot, writes, is_local, knows_indexes, .. } =
            candidate;
        let keys: Vec<Key> = writes.iter().map(|write| write.key.clone()).collect();
        let mut proposal = self.propose(snapshot, keys.iter(), context.clock);
        if keys.iter().any(|key| is_index_list(key)) && !self.has(Plant::IndexListChangedBeside) {
            proposal = proposal.max(after(self.state.greatest));
        }
        let pending =
            self.pendings.enter(id, || Pending::new(home, life, snapshot, keys.clone(), context.now));
        pending.knows_indexes |= knows_indexes;
        if is_local {
            pending.note = Some(writes.clone());
        }
        let leads = self.leader.is_some();
        let Some(leader) = &mut self.leader else {
            assert!(is_local, "only leaders let in what is not of their node");
            let vote = Message::LocalVote { transaction: id, life: self.life, proposal, leads };
            return outbox.send_unordered(home, vote);
        };
        let me = self.config.replica.index;
        if let Some(own) = leader.granted.get(&me)
            && own.life != self.life
            && !self.config.rules.has(Plant::ReadersForgotten)
        {
            // Its readers of earlier lives are not known any more.
            proposal = proposal.max(after(own.until));
        }
        let view = leader.view;
        let holders: Vec<Holder> = leader
            .granted
            .values()
            .filter(|holder| holder.replica != me && holder.until > snapshot)
            .copied()
            .collect();
        let prepared =
            Arc::new(Prepared { transaction: id, home, life, snapshot, proposal, writes, view, holders });
        if log.append(Entry::Prepared(Arc::clone(&prepared))).is_none() {
            if !is_local {
                self.forget_unless_held(id);
                return outbox.ignored(reasons::LOG_CLOSED);
            }
            // The home asks the leader again.
            let vote = Message::LocalVote { transaction: id, life: self.life, proposal, leads: false };
            return outbox.send_unordered(home, vote);
        }
        assert!(
            !pending.is_appended && pending.prepared.is_none(),
            "{id} is appended in {view}, and is in the log or on its way there"
        );
        pending.is_appended = true;
        if is_local {
            let vote = Message::LocalVote { transaction: id, life: self.life, proposal, leads };
            outbox.send_unordered(home, vote);
        }
        for holder in &prepared.holders {
            let replica = ReplicaId { shard: self.config.replica.shard, index: holder.replica };
            let (keys, holder) = (keys.clone(), *holder);
            let announcement =
                Message::Replicate { transaction: id, home, life, snapshot, keys, holder, view };
            outbox.send_unordered(replica, announcement);
        }
        self.make_way(id, outbox);
    }

    /// A transaction is not let in after all.
    fn forget_unless_held(&mut self, id: TransactionId) {
        let is_held =
            self.pendings.get(id).is_none_or(|pending| pending.is_let_in() || pending.note.is_some());
        if !is_held {
            self.forget(id);
        }
    }

    /// This replica led a view when it appended a transaction, and does not know whether that is stable: it is as if another leader had
    /// announced it.
    pub(super) fn hold_appended(&mut self, id: TransactionId, view: View) {
        if let Some(pending) = self.pendings.get_mut(id)
            && pending.prepared.is_none()
        {
            pending.announced = pending.announced.max(Some(view));
        }
    }

    /// REPLICATE: the leader appends a transaction, and this replica was granted snapshots.
    pub(super) fn on_replicate(
        &mut self,
        id: TransactionId,
        announced: Pending,
        holder: Holder,
        view: View,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        if holder.replica != self.config.replica.index {
            return outbox.ignored(reasons::NOT_ITS_PLACE);
        }
        if !announced.keys.is_sorted_by(|one, next| one < next) {
            return outbox.ignored(reasons::MALFORMED);
        }
        if self.state.outcome(id).is_some() || announced.snapshot < self.state.floor {
            return outbox.ignored(reasons::ENDED);
        }
        let (snapshot, keys) = (announced.snapshot, announced.keys.clone());
        let pending = self.pendings.enter(id, || announced);
        if pending.prepared.is_none() {
            pending.announced = pending.announced.max(Some(view));
        }
        let proposal = self.propose_as(&holder, snapshot, &keys, context.clock);
        self.vote(id, HeldVote::Holder(holder.life, view, proposal), outbox);
    }

    /// The log has a transaction.
    pub(super) fn on_prepared(
        &mut self,
        prepared: &Arc<Prepared>,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let id = prepared.transaction;
        assert!(
            prepared.proposal > prepared.snapshot || self.has(Plant::SnapshotIgnored),
            "{id} is let in at {:?}, and its snapshot is {:?}",
            prepared.proposal,
            prepared.snapshot
        );
        if !self.state.prepare(prepared) {
            return self.release(id, context, log, outbox);
        }
        let pending = self.pendings.enter(id, || pending_of(prepared, context.now));
        pending.prepared = Some(Arc::clone(prepared));
        (pending.announced, pending.is_appended) = (None, false);
        match self.leader.is_some() {
            true => self.vote(id, HeldVote::Leader, outbox),
            false => self.make_way(id, outbox),
        }
    }

    /// Votes for a transaction, once the notes in its way have given way.
    fn vote(&mut self, id: TransactionId, vote: HeldVote, outbox: &mut Out) {
        self.make_way(id, outbox);
        let Some(pending) = self.pendings.get_mut(id) else { return };
        if pending.in_the_way.is_empty() {
            self.send_vote(id, vote, outbox);
        } else if pending.vote.replace(vote).is_none() {
            self.held_votes += 1;
            assert!(
                self.held_votes <= self.pendings.len(),
                "{} votes wait, of {} transactions",
                self.held_votes,
                self.pendings.len()
            );
        }
    }

    fn send_vote(&mut self, id: TransactionId, vote: HeldVote, outbox: &mut Out) {
        match vote {
            HeldVote::Leader => self.tell_prepared(id, outbox),
            HeldVote::Holder(life, view, proposal) => {
                let Some(pending) = self.pendings.get(id) else { return };
                assert!(pending.in_the_way.is_empty(), "{id} is voted for beside {:?}", pending.in_the_way);
                outbox.send_unordered(pending.home, Message::Vote { transaction: id, life, view, proposal });
            }
        }
    }

    /// PREPARED: a transaction is in the log, durably.
    fn tell_prepared(&mut self, id: TransactionId, outbox: &mut Out) {
        let Some(pending) = self.pendings.get_mut(id) else { return };
        let Some(prepared) = &pending.prepared else { return };
        if !pending.in_the_way.is_empty() {
            if pending.vote.replace(HeldVote::Leader).is_none() {
                self.held_votes += 1;
            }
            return outbox.ignored(reasons::UNDER_WAY);
        }
        let (view, proposal, holders) = (prepared.view, prepared.proposal, prepared.holders.clone());
        outbox.send_unordered(pending.home, Message::Prepared { transaction: id, view, proposal, holders });
    }

    /// Asks the home of this node to abort what is in the way of a transaction that the shard lets in.
    pub(super) fn make_way(&mut self, id: TransactionId, outbox: &mut Out) {
        let (Some(pending), Some((own_home, _))) = (self.pendings.get(id), self.home) else { return };
        let home = pending.home;
        let mut in_the_way = BTreeSet::new();
        for key in &pending.keys {
            let notes =
                self.pendings.of_key(key).filter(|(other, note)| *other != id && Self::yields(note, home));
            in_the_way.extend(notes.map(|(other, _)| other));
        }
        for transaction in &in_the_way {
            outbox.send_unordered(own_home, Message::GiveWay { transaction: *transaction });
        }
        if let Some(pending) = self.pendings.get_mut(id) {
            self.gave_way += in_the_way.difference(&pending.in_the_way).count() as u64;
            pending.in_the_way = in_the_way;
        }
    }

    /// A note is in nobody's way any more.
    pub(super) fn give_way(&mut self, note: TransactionId, outbox: &mut Out) {
        if self.held_votes == 0 {
            return;
        }
        let mut cleared = Vec::new();
        for (id, pending) in self.pendings.iter_mut() {
            if pending.in_the_way.remove(&note)
                && pending.in_the_way.is_empty()
                && let Some(vote) = pending.vote.take()
            {
                cleared.push((id, vote));
            }
        }
        self.fewer_votes_wait(cleared.len());
        for (id, vote) in cleared {
            self.send_vote(id, vote, outbox);
        }
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::hosted::Shards;
    use quorate_core::{ClientId, GroupSize, ReplicaIndex, ShardId, Timestamp};

    use super::*;
    use crate::config::{ReplicaConfig, Variant};
    use crate::message::newest_of;

    const AT: fn(u64) -> ClockTime = ClockTime::from_micros;

    fn replica(shard: u32, index: u8) -> ReplicaId {
        ReplicaId { shard: ShardId(shard), index: ReplicaIndex(index) }
    }

    fn shard(variant: Variant) -> Shard {
        let shards = Shards { first: ShardId(1), count: 1 };
        let config = ReplicaConfig::new(replica(1, 0), GroupSize::new(1).unwrap(), shards);
        Shard::new(ReplicaConfig { variant, ..config })
    }

    fn id(sequence: u64) -> TransactionId {
        TransactionId { client: ClientId(1), sequence, attempt: 0 }
    }

    fn key() -> Key {
        Key::from("k")
    }

    /// Of the home at the first node, in its only life.
    fn candidate(snapshot: u64, after: Vec<TransactionId>) -> Candidate {
        let writes = vec![Write { key: key(), value: None }];
        let (home, life) = (replica(2, 0), Life(1));
        let (transaction, snapshot) = (id(1), AT(snapshot));
        Candidate { transaction, home, life, snapshot, writes, after, is_local: false, knows_indexes: false }
    }

    /// Section 6.3: above the snapshot, and above everybody who has read.
    #[test]
    fn proposals_are_above_snapshots_and_readers() {
        for (snapshot, read_here, scanned_here, read_at_node, granted_before, proposal) in [
            (100, 0, 0, 0, 0, 101),
            (100, 50, 0, 0, 0, 101),
            (100, 100, 0, 0, 0, 101),
            (100, 200, 0, 0, 0, 201),
            (100, 0, 300, 0, 0, 301),
            (100, 200, 0, 400, 0, 401),
            (100, 200, 0, 0, 500, 501),
            (600, 200, 300, 400, 500, 601),
        ] {
            let mut shard = shard(Variant::EXTERNAL);
            shard.readers.read_key(&key(), newest_of(AT(read_here)));
            let range = quorate_core::KeyRange { from: Key::from("a"), to: None };
            shard.readers.read_range(&range, newest_of(AT(scanned_here)));
            let readers = vec![(key(), AT(read_at_node))];
            shard.state.decide(&crate::entry::Decided {
                transaction: id(9),
                outcome: Outcome::Aborted,
                readers,
            });
            shard.forget_readers(AT(granted_before));
            let proposed = shard.propose(AT(snapshot), [key()].iter(), AT(7_000));
            assert_eq!(proposed, AT(proposal), "{snapshot} {read_here} {scanned_here} {read_at_node}");
        }
    }

    /// S4: a grant that is on its way to a replica says nothing of the readers of its earlier lives, whose grants stand before it in the log.
    #[test]
    fn a_holder_votes_above_its_grant_until_it_has_applied_one_of_this_life() {
        for (life, bound, proposal) in
            [(2, 500, 101), (2, 0, 501), (1, 500, 501), (1, 0, 501), (3, 500, 501), (3, 0, 501)]
        {
            let mut shard = shard(Variant::EXTERNAL);
            (shard.life, shard.bound) = (Life(2), AT(bound));
            let holder = Holder { replica: ReplicaIndex(0), life: Life(life), until: AT(500) };
            assert_eq!(
                shard.propose_as(&holder, AT(100), &[key()], AT(7_000)),
                AT(proposal),
                "{life} {bound}"
            );
        }
    }

    /// Another one that holds the key, and what certification says of a candidate at snapshot 100 that may stand on top of the transaction 2.
    #[test]
    fn candidates_are_certified_against_what_holds_their_keys() {
        #[derive(Debug, PartialEq)]
        enum Verdict {
            Clear,
            Blocked,
            Refused(Refusal),
        }
        let committed = |micros| Some(Outcome::Committed(Timestamp { micros, client: ClientId(1) }));
        let (own, other, old) =
            ((replica(2, 0), Life(1)), (replica(3, 0), Life(1)), (replica(2, 0), Life(7)));
        for (which, (home, life), snapshot, outcome, is_note, verdict) in [
            // Of the same home and beneath it.
            (2, own, 50, None, true, Verdict::Clear),
            // The same of an earlier life: that is gone, and what is left of it may still commit.
            (2, old, 50, None, true, Verdict::Blocked),
            (2, (replica(2, 0), Life(0)), 50, None, true, Verdict::Blocked),
            // Another home that has chosen the same name.
            (2, (replica(1, 0), Life(1)), 50, None, false, Verdict::Blocked),
            (2, (replica(3, 0), Life(1)), 50, None, false, Verdict::Blocked),
            // Of the same home, and not beneath it.
            (3, own, 50, None, true, Verdict::Blocked),
            (3, own, 100, None, true, Verdict::Refused(Refusal::Conflict)),
            (3, own, 150, None, true, Verdict::Refused(Refusal::Conflict)),
            // Noted for another home alone: it gives way.
            (3, other, 50, None, true, Verdict::Clear),
            (3, other, 150, None, true, Verdict::Clear),
            // Let in for another home. Only the lower one is waited for, so no two wait for each other.
            (3, other, 50, None, false, Verdict::Blocked),
            (3, other, 100, None, false, Verdict::Refused(Refusal::Conflict)),
            (3, other, 150, None, false, Verdict::Refused(Refusal::Conflict)),
            // It has ended, and the log does not say so yet.
            (3, other, 50, Some(Outcome::Aborted), false, Verdict::Clear),
            (3, other, 50, committed(100), false, Verdict::Clear),
            (3, other, 50, committed(101), false, Verdict::Refused(Refusal::Overwritten(AT(101)))),
            // Itself, once more.
            (1, own, 100, None, false, Verdict::Clear),
        ] {
            let mut shard = shard(Variant::EXTERNAL);
            let pending = shard
                .pendings
                .enter(id(which), || Pending::new(home, life, AT(snapshot), vec![key()], Instant::START));
            pending.outcome = outcome;
            match is_note {
                true => pending.note = Some(Vec::new()),
                false => pending.announced = Some(View(0)),
            }
            let told = match shard.certify(&candidate(100, vec![id(2)])) {
                Certified::Clear => Verdict::Clear,
                Certified::Blocked(by) => {
                    assert_eq!(by, id(which));
                    Verdict::Blocked
                }
                Certified::Refused(refusal) => Verdict::Refused(refusal),
            };
            assert_eq!(
                told, verdict,
                "{which} of {home} in {life:?}, {snapshot} {outcome:?}, note: {is_note}"
            );
        }
    }

    /// What certification says of a candidate at a snapshot, one that keeps the indexes of its snapshot or not, and one that changes the list.
    fn told_of_list(shard: &Shard, snapshot: u64) -> [&'static str; 3] {
        let list = quorate_core::reserved::index_list_keys(1).remove(0);
        let unaware = candidate(snapshot, Vec::new());
        let aware = Candidate { knows_indexes: true, ..unaware.clone() };
        let change = Candidate { writes: vec![Write { key: list, value: None }], ..aware.clone() };
        [unaware, aware, change].map(|candidate| match shard.certify_indexes(&candidate) {
            Certified::Clear => "clear",
            Certified::Blocked(_) => "blocked",
            Certified::Refused(Refusal::Conflict) => "conflict",
            Certified::Refused(Refusal::Overwritten(_)) => "overwritten",
            Certified::Refused(_) => "refused",
        })
    }

    #[test]
    fn candidates_have_to_know_the_index_list_of_their_snapshot() {
        let list = quorate_core::reserved::index_list_keys(1).remove(0);
        let mut shard = shard(Variant::EXTERNAL);
        let pending =
            |snapshot, keys| Pending::new(replica(3, 0), Life(1), AT(snapshot), keys, Instant::START);
        // Somebody writes, and nobody knows of a list.
        shard.pendings.enter(id(7), || pending(10, vec![Key::from("other")])).is_appended = true;
        assert_eq!(told_of_list(&shard, 100), ["clear", "clear", "clear"], "a new list waits for nobody");
        // A list is about to be written.
        shard.pendings.enter(id(8), || pending(20, vec![list.clone()])).is_appended = true;
        assert_eq!(told_of_list(&shard, 100)[..2], ["conflict", "clear"]);
        shard.pendings.remove(id(8));
        let value = Some(quorate_core::Value::from_static(b"[]"));
        shard.state.versions.install(&list, newest_of(AT(50)), value);
        assert_eq!(told_of_list(&shard, 49), ["overwritten"; 3]);
        // The one from before the list is under way.
        assert_eq!(told_of_list(&shard, 100), ["conflict", "clear", "blocked"]);
        shard.pendings.remove(id(7));
        assert_eq!(told_of_list(&shard, 100), ["conflict", "clear", "clear"]);
        for (snapshot, knows, told) in
            [(49, true, "blocked"), (60, false, "blocked"), (100, false, "conflict"), (60, true, "clear")]
        {
            let pending = || pending(snapshot, vec![Key::from("other")]);
            shard.pendings.enter(id(9), pending).knows_indexes = knows;
            assert_eq!(told_of_list(&shard, 100)[2], told, "{snapshot} {knows}");
            shard.pendings.get_mut(id(9)).unwrap().outcome = Some(Outcome::Aborted);
            assert_eq!(told_of_list(&shard, 100)[2], "clear", "it has aborted");
            shard.pendings.remove(id(9));
        }
        shard.config.rules = crate::rules::Rules::planted(Plant::IndexListOverlooked);
        assert_eq!(told_of_list(&shard, 100)[0], "clear");
    }

    /// A leader that was deposed has counted a vote for ever once, of a transaction that the state does not hold which it got from another replica.
    #[test]
    fn a_vote_waits_no_longer_than_its_transaction_holds_keys() {
        let mut shard = shard(Variant::EXTERNAL);
        let pending = Pending::new(replica(3, 0), Life(1), AT(50), vec![key()], Instant::START);
        shard.pendings.enter(id(1), || pending).vote = Some(HeldVote::Leader);
        shard.held_votes = 1;
        shard.replace_state(Vec::new());
        assert_eq!((shard.pendings.len(), shard.held_votes), (0, 0));
    }

    #[test]
    fn candidates_are_refused_below_what_is_committed() {
        for (version, is_clear) in [(99, true), (100, true), (101, false)] {
            let mut shard = shard(Variant::EXTERNAL);
            let at = Timestamp { micros: version, client: ClientId(u64::MAX) };
            shard.state.versions.install(&key(), at, None);
            let certified = shard.certify(&candidate(100, Vec::new()));
            let expected = match is_clear {
                true => matches!(certified, Certified::Clear),
                false => {
                    matches!(certified, Certified::Refused(Refusal::Overwritten(at)) if at == AT(version))
                }
            };
            assert!(expected, "{version}");
        }
    }
}
