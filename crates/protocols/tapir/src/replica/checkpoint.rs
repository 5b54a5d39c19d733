//! Checkpoints: the part of TAPIR in the search for a floor ([`quorate_ir::member::search`]).
//!
//! ```text
//!   any replica   Recover → backup coordinators       of what is open below where the floor may come to lie
//!   leader        AreDecided → other participants     may these commits be forgotten here?
//! ```
//!
//! Commits over several shards are forgotten once every other participant holds them at f + 1 replicas. A recovery asks f + 1
//! replicas of each participant, so it finds the commit at any shard that has not forgotten it, and needs no answer of one that has.

use quorate_core::machine::OutboxOf;
use quorate_core::{Address, Context, Instant, Members, ReplicaId, ShardId, TransactionId, View};
use quorate_ir::{Cursor, Member, Status};

use super::Replica;
use crate::message::{Decision, Message};

/// Recoveries asked for at once, of transactions that hold a floor up.
const RECOVERIES_ASKED_MAX: usize = 64;

/// The confirmations of other participants, for the search that is under way.
#[derive(Debug, Default)]
pub(super) struct Confirmation {
    /// Below here all commits are known to f + 1 replicas of every participant.
    confirmed: Cursor,
    question: Option<Question>,
    /// Counts questions to other shards.
    nonce: u64,
}

impl Confirmation {
    /// A search begins here.
    pub(super) fn begin(&mut self, from: Cursor) {
        self.confirmed = from;
        self.question = None;
    }

    /// A commit has come late, at this place: what lies above is asked about once more.
    pub(super) fn step_back(&mut self, to: Cursor) {
        if self.confirmed > to {
            self.begin(to);
        }
    }
}

/// Commits whose other participants are asked.
#[derive(Debug)]
struct Question {
    nonce: u64,
    /// The commits, with their other participants.
    commits: Vec<(Cursor, Vec<ShardId>)>,
    /// Below here all commits are among those asked for.
    to: Cursor,
    /// The answers of each other participant.
    answers: Vec<Answers>,
}

/// The answers of the replicas of another participant.
#[derive(Debug)]
struct Answers {
    shard: ShardId,
    members: Members,
    /// Of each replica, by its place.
    given: Vec<Option<Answer>>,
}

/// The answer of one replica: its view and what it misses.
#[derive(Clone, Debug)]
struct Answer {
    view: View,
    missing: Vec<TransactionId>,
}

impl Question {
    /// The commits of which f + 1 replicas of every other participant, in one view, have not yet said that they know.
    fn unconfirmed(&self) -> impl Iterator<Item = &(Cursor, Vec<ShardId>)> + '_ {
        let knows = move |shard: &ShardId, transaction: TransactionId| {
            let Some(answers) = self.answers.iter().find(|other| other.shard == *shard) else {
                return false;
            };
            let (answers, majority) = (&answers.given, answers.members.majority());
            let in_view = |view: View| {
                let known = |answer: &&Answer| answer.view == view && !answer.missing.contains(&transaction);
                answers.iter().flatten().filter(known).count()
            };
            answers.iter().flatten().any(|answer| in_view(answer.view) >= majority)
        };
        self.commits.iter().filter(move |(cursor, shards)| !shards.iter().all(|shard| knows(shard, cursor.1)))
    }

    /// Asks every replica of every other participant that has not answered, or did not know all.
    fn send(&self, outbox: &mut OutboxOf<Replica>) {
        for Answers { shard, members, given } in &self.answers {
            let asked = |(_, shards): &&(Cursor, Vec<ShardId>)| shards.contains(shard);
            let transactions: Vec<Cursor> =
                self.commits.iter().filter(asked).map(|(cursor, _)| *cursor).collect();
            for (index, answer) in members.iter().zip(given) {
                if answer.as_ref().is_none_or(|answer| !answer.missing.is_empty()) {
                    let to = ReplicaId { shard: *shard, index };
                    let (nonce, transactions) = (self.nonce, transactions.clone());
                    outbox.send(to, Message::AreDecided { nonce, transactions });
                }
            }
        }
    }
}

impl Replica {
    /// Asks for the recovery of open transactions that are not held prepared: of those that are, the sweep takes care.
    pub(super) fn have_recovered(
        &self,
        open: impl Iterator<Item = TransactionId>,
        now: Instant,
        outbox: &mut OutboxOf<Self>,
    ) {
        let attempt = now.as_nanos() / (self.config.recovery_timeout.as_nanos().max(1) as u64);
        let unheld = open.filter(|id| self.participant.prepared.entry(*id).is_none());
        for transaction in unheld.take(RECOVERIES_ASKED_MAX) {
            let record = self.ir.record();
            let prepared = record.consensus_of(transaction).map(|entry| &entry.operation);
            let prepared = prepared.map(|prepare| (&prepare.transaction, prepare.first_timestamp()));
            let prepared = prepared.min_by_key(|(_, first)| *first);
            let decided = match self.decision(transaction) {
                Some(Decision::Commit { transaction, timestamp, .. }) => Some((transaction, *timestamp)),
                _ => None,
            };
            let Some((contents, timestamp)) = prepared.or(decided) else { continue };
            let participants = contents.participants.clone();
            if let Some(backup) = self.backup_replica(transaction, &participants, attempt) {
                outbox.send(backup, Message::Recover { transaction, participants, timestamp });
            }
        }
    }

    /// The place below which all commits are known to every other participant; asks about those up to `to`.
    pub(super) fn ask_participants(&mut self, to: Cursor, outbox: &mut OutboxOf<Self>) -> Cursor {
        let own = self.config.replica.shard;
        let confirmation = &mut self.confirmation;
        while confirmation.confirmed < to {
            if let Some(question) = &confirmation.question {
                let unconfirmed = question.unconfirmed().map(|(cursor, _)| *cursor).min();
                // An answer that comes late, or from a later view, may know of fewer than one before.
                confirmation.confirmed = unconfirmed.unwrap_or(question.to);
                if unconfirmed.is_some() {
                    break;
                }
                confirmation.question = None;
                continue;
            }
            let page = self.ir.record().summary(confirmation.confirmed, to, self.config.checkpoint_page_max);
            let others = |transaction: TransactionId| -> Vec<ShardId> {
                match self.ir.record().inconsistent(transaction).map(|known| &known.operation) {
                    Some(Decision::Commit { transaction, .. }) => {
                        transaction.participants.iter().copied().filter(|shard| *shard != own).collect()
                    }
                    _ => Vec::new(),
                }
            };
            let commits: Vec<(Cursor, Vec<ShardId>)> = page
                .executed
                .iter()
                .map(|cursor| (*cursor, others(cursor.1)))
                .filter(|(_, shards)| !shards.is_empty())
                .collect();
            let mut shards: Vec<ShardId> = commits.iter().flat_map(|(_, shards)| shards).copied().collect();
            shards.sort_unstable();
            shards.dedup();
            confirmation.nonce += 1;
            let unanswered = |shard| {
                let members = self.groups.members(shard);
                Answers { shard, members, given: vec![None; members.replicas()] }
            };
            let answers = shards.into_iter().map(unanswered).collect();
            let to = page.next.unwrap_or(to);
            assert!(to > confirmation.confirmed, "commits below {to:?} are asked about once more");
            confirmation.question = Some(Question { nonce: confirmation.nonce, commits, to, answers });
            confirmation.question.iter().for_each(|question| question.send(outbox));
        }
        confirmation.confirmed
    }

    /// Repeats the question to other shards, and has those commits recovered that they do not know.
    pub(super) fn ask_participants_again(&mut self, now: Instant, outbox: &mut OutboxOf<Self>) {
        let Some(question) = self.confirmation.question.as_ref().filter(|_| self.member.is_searching())
        else {
            return;
        };
        question.send(outbox);
        let attempt = now.as_nanos() / (self.config.recovery_timeout.as_nanos().max(1) as u64);
        let have_answered =
            |other: &Answers| other.given.iter().flatten().count() >= other.members.majority();
        let answered = question.answers.iter().any(have_answered);
        for ((timestamp, transaction), _) in
            question.unconfirmed().filter(|_| answered).take(RECOVERIES_ASKED_MAX)
        {
            let Some(Decision::Commit { transaction: contents, .. }) = self.decision(*transaction) else {
                continue;
            };
            let (transaction, timestamp) = (*transaction, *timestamp);
            let participants = contents.participants.clone();
            if let Some(backup) = self.backup_replica(transaction, &participants, attempt) {
                outbox.send(backup, Message::Recover { transaction, participants, timestamp });
            }
        }
    }

    /// A replica of another shard wants to forget commits in which this shard took part.
    pub(super) fn on_are_decided(
        &mut self,
        from: Address,
        nonce: u64,
        transactions: Vec<Cursor>,
        outbox: &mut OutboxOf<Self>,
    ) {
        if self.ir.status() != Status::Normal || !matches!(from, Address::Replica(_)) {
            return;
        }
        let is_missing = |(timestamp, transaction): &Cursor| {
            self.ir.record().inconsistent(*transaction).is_none()
                && !self.ir.is_settled(*transaction, *timestamp)
        };
        let missing =
            transactions.iter().filter(|cursor| is_missing(cursor)).map(|cursor| cursor.1).collect();
        outbox.send(from, Message::AreDecidedReply { nonce, view: self.ir.view(), missing });
    }

    pub(super) fn on_are_decided_reply(
        &mut self,
        from: ReplicaId,
        nonce: u64,
        view: View,
        missing: Vec<TransactionId>,
        context: &mut Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) {
        let is_asked = |question: &&mut Question| question.nonce == nonce && self.member.is_searching();
        let Some(question) = self.confirmation.question.as_mut().filter(is_asked) else { return };
        let Some(answers) = question.answers.iter_mut().find(|other| other.shard == from.shard) else {
            return;
        };
        if let Some(place) = answers.members.position(from.index) {
            answers.given[place] = Some(Answer { view, missing });
            self.advance_search(context, outbox);
        }
    }

    /// A transaction that this replica had asked to be recovered ended below the floor of every participant, its own
    /// shard included: if it is still held here, this replica has missed that.
    pub(super) fn on_forgotten(&mut self, transaction: TransactionId) {
        if self.participant.prepared.entry(transaction).is_some() {
            self.currency.note_behind();
        }
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::{ClientId, Timestamp};

    use super::*;

    fn place(micros: u64) -> Cursor {
        (Timestamp { micros, client: ClientId(1) }, TransactionId::default())
    }

    #[test]
    fn a_commit_that_comes_late_takes_back_what_was_confirmed_above_it_and_confirms_nothing() {
        for (confirmed, late, expected) in [(9, 5, 5), (5, 5, 5), (5, 9, 5), (0, 9, 0)] {
            let mut confirmation = Confirmation::default();
            confirmation.begin(place(confirmed));
            confirmation.step_back(place(late));
            assert_eq!(confirmation.confirmed, place(expected), "{confirmed} and {late}");
        }
    }
}
