//! May commits over several shards be forgotten here? Once every other participant holds them at f + 1 replicas.
//!
//! A recovery asks f + 1 replicas of each participant, so it finds the commit at any shard that has not forgotten it, and
//! needs no answer of one that has.

use quorate_core::machine::OutboxOf;
use quorate_core::{Address, Context, Instant, Members, ReplicaId, ShardId, TransactionId, View};
use quorate_ir::{Cursor, Status};

use super::RECOVERIES_ASKED_MAX;
use crate::message::{Decision, Message};
use crate::replica::Replica;

/// Commits whose other participants are asked.
#[derive(Debug)]
pub(super) struct Question {
    nonce: u64,
    /// The commits, with their other participants.
    commits: Vec<(Cursor, Vec<ShardId>)>,
    /// Below here all commits are among those asked for.
    to: Cursor,
    /// The answers of each other participant.
    answers: Vec<Answers>,
}

/// What the replicas of another participant have answered.
#[derive(Debug)]
struct Answers {
    shard: ShardId,
    members: Members,
    /// Of each replica, by its place.
    given: Vec<Option<Answer>>,
}

/// What one replica has answered: its view and what it misses.
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
    /// Asks the other participants of a page of commits whether these may be forgotten here.
    pub(super) fn ask_participants(&mut self, to: Cursor, outbox: &mut OutboxOf<Self>) {
        let own = self.config.replica.shard;
        let Some(run) = &mut self.checkpoints.run else { return };
        loop {
            if let Some(question) = &run.question {
                let unconfirmed = question.unconfirmed().map(|(cursor, _)| *cursor).min();
                run.confirmed = run.confirmed.max(unconfirmed.unwrap_or(question.to));
                if unconfirmed.is_some() {
                    return;
                }
                run.question = None;
            }
            if run.confirmed >= to {
                return;
            }
            let page = self.ir.record().summary(run.confirmed, to, self.config.checkpoint_page_max);
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
            self.checkpoints.nonce += 1;
            let unanswered = |shard| {
                let members = self.groups.members(shard);
                Answers { shard, members, given: vec![None; members.replicas()] }
            };
            let answers = shards.into_iter().map(unanswered).collect();
            let to = page.next.unwrap_or(to);
            run.question = Some(Question { nonce: self.checkpoints.nonce, commits, to, answers });
            run.question.iter().for_each(|question| question.send(outbox));
        }
    }

    /// Repeats the question to other shards, and has those commits recovered that they do not know.
    pub(super) fn ask_participants_again(&mut self, now: Instant, outbox: &mut OutboxOf<Self>) {
        let Some(run) = &self.checkpoints.run else { return };
        let Some(question) = &run.question else { return };
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
    pub(in crate::replica) fn on_are_decided(
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

    pub(in crate::replica) fn on_are_decided_reply(
        &mut self,
        from: ReplicaId,
        nonce: u64,
        view: View,
        missing: Vec<TransactionId>,
        context: &mut Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) {
        let Some(run) = &mut self.checkpoints.run else { return };
        let Some(question) = run.question.as_mut().filter(|question| question.nonce == nonce) else { return };
        let Some(answers) = question.answers.iter_mut().find(|other| other.shard == from.shard) else {
            return;
        };
        if let Some(place) = answers.members.position(from.index) {
            answers.given[place] = Some(Answer { view, missing });
            self.advance_checkpoint(context, outbox);
        }
    }
}
