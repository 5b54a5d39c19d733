//! A session goes on at another client, maybe at another site: that one catches up with what the session has seen (section 4.1, W14).
//!
//! ```text
//!   CatchUp ─► READ nothing, of a new snapshot that includes it ─► the site has it: every later snapshot of this client includes it
//!                  ├─ ABANDONED ─► again with what is left, and the client is told
//!                  └─ NEVER-COMMITTED, or no answer in time ─► as if nobody had said anything
//! ```
//!
//! The vector is not taken over before the site has all of it: a client that serves many users is held up by none of them, whatever they claim.

use quorate_core::command::{Event, Failure, Invalid};
use quorate_core::hosted::HostedCoordinator;
use quorate_core::seen::{Seen, SeenPart};
use quorate_core::{Context, ReplicaId, ShardId, TransactionId};

use super::{Coordinator, Open, Out, Phase, Session};
use crate::message::Period;
use crate::reasons;
use crate::vector::{Vector, VersionNumber};

/// The vector that a client is to include in its snapshots.
#[derive(Debug)]
pub(super) struct CatchUp {
    /// The part of it that is not abandoned, as far as is known.
    pub(super) seen: Vector,
    /// A local site whose transactions were part of it and were abandoned.
    pub(super) abandoned: Option<ShardId>,
}

impl Session {
    /// All that its client has seen; none if that is nothing.
    fn part(&self) -> Option<SeenPart> {
        let numbers = self.seen.numbers().to_vec();
        let first = self.routes.keyspace.shards.first()?.id;
        (!numbers.is_empty()).then_some(SeenPart { first, numbers })
    }
}

impl HostedCoordinator for Coordinator {
    fn is_idle(&self) -> bool {
        self.transactions.is_empty()
    }

    fn seen(&self) -> Seen {
        let mut seen = Seen::default();
        for (keyspace, session) in &self.keyspaces {
            if let Some(part) = session.part() {
                seen.include(*keyspace, part);
            }
        }
        seen
    }
}

impl Coordinator {
    /// A transaction comes after an earlier one of this client, which was asked to commit at its local site.
    pub(super) fn follow(&mut self, id: TransactionId, earlier: TransactionId, outbox: &mut Out) {
        let of_earlier = self.transactions.get(&earlier).map(|open| open.keyspace);
        let has_begun = self
            .execution(id)
            .is_some_and(|execution| execution.snapshot.is_some() || !execution.pending.is_empty());
        let Some(open) = self.transactions.get_mut(&id).filter(|_| id != earlier && !has_begun) else {
            return outbox.ignored(reasons::NOT_OPEN);
        };
        // Each keyspace has snapshots of its own.
        if of_earlier.is_some_and(|keyspace| keyspace != open.keyspace) {
            return outbox.ignored(reasons::OTHER_KEYSPACE);
        }
        if let Phase::Executing(execution) = &mut open.phase {
            execution.after = Some(earlier);
        }
    }

    /// Ends a transaction that comes after one which another site was asked to commit, since the client has turned to this one meanwhile: it does not
    /// know how that one ends.
    pub(super) fn fails_to_follow(&mut self, id: TransactionId, outbox: &mut Out) -> bool {
        let after = self.execution(id).filter(|execution| execution.snapshot.is_none());
        let earlier = after.and_then(|execution| execution.after).and_then(|id| self.transactions.get(&id));
        let asked = earlier.map(|earlier| earlier.home);
        let home = self.transactions.get(&id).map(|open| open.home);
        let Some(asked) = asked.filter(|asked| home != Some(*asked)) else { return false };
        self.fail(id, Failure::Unavailable { missing: vec![self.leaders.leader(asked)] }, outbox);
        true
    }

    /// The period that a transaction was sent with whose ending the client was not told: what its session has seen need not include it. None if it was.
    pub(super) fn unheard(&self, id: TransactionId) -> Option<Period> {
        match self.transactions.get(&id) {
            Some(Open { phase: Phase::Asking(asking), .. }) => Some(asking.period),
            Some(Open { phase: Phase::Executing(_), keyspace, .. }) => {
                self.keyspaces.get(keyspace).map(|session| session.period)
            }
            None => self.unknown.get(&id).copied(),
        }
    }

    /// The transaction that another one comes after, which has no snapshot yet, and the period that it was sent with; none if its ending was heard of.
    pub(super) fn unheard_before(&mut self, id: TransactionId) -> Option<(TransactionId, Period)> {
        let execution = self.execution(id).filter(|execution| execution.snapshot.is_none())?;
        let earlier = execution.after?;
        Some((earlier, self.unheard(earlier)?))
    }

    pub(super) fn catch_up(
        &mut self,
        id: TransactionId,
        seen: Vector,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(execution) = self.execution(id) else { return };
        execution.commits_when_read = true;
        execution.catches_up = Some(CatchUp { seen, abandoned: None });
        self.want(id, Vec::new(), context, outbox);
    }

    /// The session has seen what was abandoned since. It is told once, and goes on without.
    pub(super) fn on_abandoned(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        last: VersionNumber,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        if !self.forget_above(from, id, last, outbox) {
            return;
        }
        let Some(shard) = self.shard_of(id, last) else { return outbox.ignored(reasons::MALFORMED) };
        if let Some(catch_up) = self.execution(id).and_then(|execution| execution.catches_up.as_mut()) {
            catch_up.seen.exclude_above(last);
            catch_up.abandoned = Some(shard);
            self.forget_sent(id);
            return self.send_reads(id, context.now, outbox);
        }
        self.fail(id, Failure::HistoryAbandoned { shard }, outbox);
    }

    /// The session has seen what was never there: its site has lost what it had promised to keep; or it was told so by others.
    pub(super) fn on_never_committed(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        last: VersionNumber,
        outbox: &mut Out,
    ) {
        if self.forget_above(from, id, last, outbox) {
            let invalid = Invalid::NeverCommitted { position: last.site.0 };
            self.fail(id, Failure::Invalid(invalid), outbox);
        }
    }

    /// The session has not seen anything of a site after this. True if a site says so about an open transaction that is asked for it.
    fn forget_above(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        last: VersionNumber,
        outbox: &mut Out,
    ) -> bool {
        if self.transactions.get(&id).is_none_or(|open| !open.asks(from.shard)) {
            outbox.ignored(reasons::NOT_OPEN);
            return false;
        }
        self.leaders.note_leading(from);
        if let Some(Open { phase: Phase::Asking(asking), .. }) = self.transactions.get(&id)
            && !asking.includes_above(last)
        {
            // It is the answer to an earlier read: what was sent to be committed since includes nothing of that, and may commit.
            outbox.ignored(reasons::KNOWN);
            return false;
        }
        if let Some(session) = self.session_of(id) {
            session.seen.exclude_above(last);
            assert!(
                session.seen.of(last.site) <= last.seqno,
                "{} is seen, and {last} is the last",
                session.seen
            );
        }
        true
    }

    /// The shard that is the local site of a version, in the keyspace of a transaction.
    fn shard_of(&mut self, id: TransactionId, version: VersionNumber) -> Option<ShardId> {
        let shards = &self.session_of(id)?.routes.keyspace.shards;
        shards.get(usize::from(version.site.0)).map(|shard| shard.id)
    }

    /// Ends a catch-up of which something was abandoned. False if nothing was.
    pub(super) fn tell_abandoned(&mut self, id: TransactionId, outbox: &mut Out) -> bool {
        let catch_up = self.execution(id).and_then(|execution| execution.catches_up.as_ref());
        let Some(shard) = catch_up.and_then(|catch_up| catch_up.abandoned) else { return false };
        self.transactions.remove(&id);
        outbox.emit(Event::Finished { transaction: id, result: Err(Failure::HistoryAbandoned { shard }) });
        true
    }
}
