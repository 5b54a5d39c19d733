//! Clients say what their sessions have seen, and are believed as far as that can be waited for.
//!
//! A session that has changed site may have seen transactions that have not come here yet: it waits. A transaction that its site never had never
//! comes, so that is found out: the sites of which a waiting client claims to have seen more than has come are asked how much they have had by now.
//! All that a session can have seen was stable at its site before the client spoke here. So a site whose last transaction, at a time after that, is
//! an earlier one never had it.
//!
//! ```text
//!   client: READ or COMMIT, after ⟨0 9⟩ ─► waits ─ ASK-LAST ─► the second site
//!           NEVER-COMMITTED, all after s1.4 ◄────── LAST, 4 ──┘
//! ```

use quorate_core::log::Log;
use quorate_core::{Address, Context, Instant, ReplicaId, TransactionId};

use super::leader::Waiting;
use super::{Out, Replica};
use crate::entry::Entry;
use crate::message::Message;
use crate::reasons;
use crate::rules::Plant;
use crate::vector::{LocalSite, Vector, VersionNumber};

impl Replica {
    /// True if a session claims to have seen what was abandoned, or what this site never had: its client is told.
    pub(super) fn denies(
        &mut self,
        from: Address,
        transaction: TransactionId,
        claimed: &Vector,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) -> bool {
        if let Some(last) = self.abandoned(claimed) {
            outbox.send(from, Message::Abandoned { transaction, last });
            return true;
        }
        let Some(last) = self.never_committed(claimed) else { return false };
        let reply = Message::NeverCommitted { transaction, last };
        self.send_if_leading(from, reply, context, log, outbox);
        true
    }

    /// The last transaction of this site, or of one that does not exist, if a session claims to have seen later ones. True only if this replica
    /// leads: it has all that its predecessors have told clients.
    fn never_committed(&self, claimed: &Vector) -> Option<VersionNumber> {
        if self.config.rules.has(Plant::ClaimsBelieved) {
            return None;
        }
        // No site joins before all others know it by their logs.
        let count = self.sites().count().max(self.config.sites(self.joins.len()).count());
        if claimed.numbers().len() > count {
            let site = u16::try_from(count).unwrap_or(u16::MAX);
            return Some(VersionNumber { site: LocalSite(site), seqno: 0 });
        }
        let last = VersionNumber { site: self.site, seqno: self.state.committed.of(self.site) };
        (claimed.of(self.site) > last.seqno).then_some(last)
    }

    /// Asks the sites of which clients that wait claim to have seen more than has come.
    pub(super) fn attend_claims(&mut self, context: &mut Context<'_>, outbox: &mut Out) {
        if self.config.rules.has(Plant::ClaimsBelieved) {
            return;
        }
        let received = self.state.histories.received();
        let others: Vec<LocalSite> =
            self.sites().filter(|site| *site != self.site && !self.is_frozen(*site)).collect();
        let Some(leader) = &mut self.leader else { return };
        let of_clients =
            || leader.waiting.iter().filter(|waiting| matches!(waiting.from, Address::Client(_)));
        let is_doubted =
            |site: &LocalSite| of_clients().any(|waiting| waiting.needs.of(*site) > received.of(*site));
        let doubted: Vec<LocalSite> = others.into_iter().filter(is_doubted).collect();
        if doubted.is_empty() {
            return;
        }
        // Answers to questions of an earlier leader, or of an earlier life of this one, may be on their way.
        let question = leader.question.map_or_else(|| context.random.below(u64::MAX / 2), |last| last + 1);
        assert!(leader.question < Some(question), "{question} is asked after {:?}", leader.question);
        leader.question = Some(question);
        for waiting in &mut leader.waiting {
            waiting.question.get_or_insert(question);
        }
        for site in doubted {
            outbox.send(self.leader_of(site), Message::AskLast { question });
        }
    }

    pub(super) fn on_ask_last(
        &mut self,
        from: ReplicaId,
        question: u64,
        context: &Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        if self.other_site(from.shard).is_none() {
            return outbox.ignored(reasons::NO_SITE);
        }
        if self.leader.is_none() {
            return self.send_not_leading(from.into(), None, log, outbox);
        }
        let reply = Message::Last { question, seqno: self.state.committed.of(self.site) };
        self.send_if_leading(from.into(), reply, context, log, outbox);
    }

    /// Another site has had so many transactions since a question was asked.
    pub(super) fn on_last(
        &mut self,
        from: ReplicaId,
        question: u64,
        seqno: u64,
        now: Instant,
        outbox: &mut Out,
    ) {
        let Some(site) = self.other_site(from.shard) else { return outbox.ignored(reasons::NO_SITE) };
        let Some(leader) = &mut self.leader else { return outbox.ignored(reasons::NOT_LEADING) };
        if leader.question.is_none_or(|last| question > last) {
            return outbox.ignored(reasons::UNASKED);
        }
        let last = VersionNumber { site, seqno };
        let is_refuted = |waiting: &mut Waiting| {
            let was_asked = waiting.question.is_some_and(|first| first <= question);
            was_asked && waiting.needs.of(site) > seqno && matches!(waiting.from, Address::Client(_))
        };
        let refuted: Vec<Waiting> = leader.waiting.extract_if(.., is_refuted).collect();
        for Waiting { from, message, .. } in refuted {
            if let Message::Read { transaction, .. }
            | Message::ReadCopy { transaction, .. }
            | Message::Commit { transaction, .. } = message
            {
                outbox.send(from, Message::NeverCommitted { transaction, last });
            }
        }
        self.note_leader(site, from.index, now, outbox);
    }
}
