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
        let attempt = self.recovery_timeouts_in(now - Instant::START);
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
        let attempt = self.recovery_timeouts_in(now - Instant::START);
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
    use std::sync::Arc;
    use std::time::Duration;

    use quorate_core::hosted::Boot;
    use quorate_core::{
        ClientId, ClockTime, Effect, Epoch, GroupSize, Input, Key, Machine, Outbox, Random, ReplicaIndex,
        Timestamp, Transaction, Write,
    };
    use quorate_ir::{Message as Ir, OperationId};

    use super::*;
    use crate::config::ReplicaConfig;
    use crate::message::Prepare;

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

    const CLIENT: ClientId = ClientId(7);
    const PARTICIPANTS: [ShardId; 2] = [ShardId(1), ShardId(2)];

    fn id(sequence: u64) -> TransactionId {
        TransactionId { client: CLIENT, sequence, attempt: 0 }
    }

    fn at(micros: u64) -> Timestamp {
        Timestamp { micros, client: CLIENT }
    }

    fn contents(key: &str) -> Arc<Transaction> {
        let writes = vec![Write { key: Key::from(key.to_owned()), value: None }];
        Arc::new(Transaction { participants: PARTICIPANTS.to_vec(), writes, ..Transaction::default() })
    }

    /// Replica 0 of shard 1.
    fn replica(replicas: usize) -> Replica {
        let me = ReplicaId { shard: ShardId(1), index: ReplicaIndex(0) };
        let config = ReplicaConfig::new(me, GroupSize::new(replicas).unwrap(), Boot::Initialise);
        let config = ReplicaConfig { prepare_wait_max: Duration::ZERO, ..config };
        let mut replica = Replica::restore(config, []);
        step(&mut replica, Input::Start);
        replica
    }

    fn step(replica: &mut Replica, input: quorate_core::machine::InputOf<Replica>) {
        let (clock, mut random, mut outbox) = (ClockTime::from_micros(1_000), Random::new(1), Outbox::new());
        let mut context = Context { now: Instant::START, clock, random: &mut random };
        replica.step(&mut context, input, &mut outbox);
    }

    fn hears(replica: &mut Replica, message: Ir<crate::Tapir>) {
        let (from, epoch, message) = (CLIENT.into(), Epoch::FIRST, Message::Ir(message));
        step(replica, Input::Message { from, epoch, message });
    }

    /// A prepare of this number and timestamp.
    fn prepares(
        replica: &mut Replica,
        sequence: u64,
        number: u32,
        key: &str,
        micros: u64,
        first: Option<u64>,
    ) {
        let id = OperationId { transaction: id(sequence), number };
        let operation = Prepare { transaction: contents(key), timestamp: at(micros), first: first.map(at) };
        hears(replica, Ir::ProposeConsensus { id, operation });
    }

    fn ends(replica: &mut Replica, sequence: u64, operation: Decision) {
        let id = OperationId { transaction: id(sequence), number: OperationId::INCONSISTENT };
        hears(replica, Ir::ProposeInconsistent { id, operation });
    }

    fn commit(key: &str, micros: u64) -> Decision {
        Decision::Commit { transaction: contents(key), timestamp: at(micros), last: at(micros) }
    }

    /// The recoveries that are asked for: of which transaction, by which replica, and from which timestamp on.
    fn asked(outbox: &mut OutboxOf<Replica>) -> Vec<(u64, Address, u64)> {
        let asked = |effect| match effect {
            Effect::Send { to, message: Message::Recover { transaction, participants, timestamp } } => {
                assert_eq!(participants, PARTICIPANTS);
                (transaction.sequence, to, timestamp.micros)
            }
            other => panic!("{other:?}"),
        };
        outbox.drain().map(asked).collect()
    }

    fn recoveries(replica: &Replica, open: &[u64], now: Instant) -> Vec<(u64, Address, u64)> {
        let mut outbox = Outbox::new();
        replica.have_recovered(open.iter().copied().map(id), now, &mut outbox);
        asked(&mut outbox)
    }

    #[test]
    fn of_what_is_open_that_is_recovered_of_which_something_is_known_and_nothing_is_held() {
        let mut replica = replica(5);
        prepares(&mut replica, 1, 1, "a", 910, None);
        prepares(&mut replica, 2, 1, "a", 920, None);
        prepares(&mut replica, 3, 2, "a", 940, Some(915));
        prepares(&mut replica, 3, 3, "a", 950, Some(915));
        ends(&mut replica, 4, commit("b", 960));
        ends(&mut replica, 5, Decision::Abort { last: at(965) });
        prepares(&mut replica, 6, 1, "a", 970, None);
        ends(&mut replica, 6, commit("a", 975));
        let told = recoveries(&replica, &[1, 2, 3, 4, 5, 6, 9], Instant::START);
        let told: Vec<(u64, u64)> = told.iter().map(|(sequence, _, first)| (*sequence, *first)).collect();
        // The sweep takes care of the first, which is held; of the fifth nothing could be asked, and the last is not known.
        assert_eq!(told, [(2, 920), (3, 915), (4, 960), (6, 970)]);
    }

    #[test]
    fn another_backup_coordinator_is_asked_after_each_timeout() {
        let mut replica = replica(5);
        prepares(&mut replica, 1, 1, "a", 910, None);
        prepares(&mut replica, 2, 1, "a", 920, None);
        let timeout = replica.config.recovery_timeout;
        let at_attempt =
            |attempt| Address::from(replica.backup_replica(id(2), &PARTICIPANTS, attempt).unwrap());
        assert_ne!(at_attempt(0), at_attempt(1));
        let nanosecond = Duration::from_nanos(1);
        for (now, attempt) in [
            (Duration::ZERO, 0),
            (timeout - nanosecond, 0),
            (timeout, 1),
            (2 * timeout - nanosecond, 1),
            (2 * timeout, 2),
            (7 * timeout + timeout / 2, 7),
        ] {
            let told = recoveries(&replica, &[2], Instant::START + now);
            assert_eq!(told, [(2, at_attempt(attempt), 920)], "after {now:?}");
        }
    }

    #[test]
    fn only_so_many_recoveries_are_asked_for_at_once_and_what_is_held_is_not_among_them() {
        let mut replica = replica(5);
        prepares(&mut replica, 0, 1, "a", 900, None);
        let all: Vec<u64> = (0..100).collect();
        for sequence in &all[1..] {
            prepares(&mut replica, *sequence, 1, "a", 900 + sequence, None);
        }
        let told = recoveries(&replica, &all, Instant::START);
        let expected = 1..=RECOVERIES_ASKED_MAX as u64;
        assert!(told.iter().map(|(sequence, ..)| *sequence).eq(expected));
    }

    fn answer(view: u64, missing: &[u64]) -> Option<Answer> {
        Some(Answer { view: View(view), missing: missing.iter().copied().map(id).collect() })
    }

    /// A question about commits 1 and 2, of which shard 2 takes part in both and shard 3 in the second; gives those that are not confirmed.
    fn unconfirmed(second: [Option<Answer>; 3], third: [Option<Answer>; 3]) -> Vec<u64> {
        let members = GroupSize::new(3).unwrap().into();
        let given = |(shard, given): (u32, [Option<Answer>; 3])| Answers {
            shard: ShardId(shard),
            members,
            given: given.to_vec(),
        };
        let commits =
            vec![((at(5), id(1)), vec![ShardId(2)]), ((at(6), id(2)), vec![ShardId(2), ShardId(3)])];
        let answers = [(2, second), (3, third)].into_iter().map(given).collect();
        let question = Question { nonce: 1, commits, to: (at(9), id(0)), answers };
        question.unconfirmed().map(|((_, transaction), _)| transaction.sequence).collect()
    }

    #[test]
    fn a_commit_is_confirmed_by_majorities_of_all_other_participants_each_of_one_view() {
        let none = || [None, None, None];
        let two = |one: Option<Answer>, other: Option<Answer>| [one, None, other];
        let all = || two(answer(3, &[]), answer(3, &[]));
        assert_eq!(unconfirmed(none(), none()), [1, 2]);
        assert_eq!(unconfirmed(all(), none()), [2], "of the second another participant has to know");
        assert_eq!(unconfirmed(none(), all()), [1, 2]);
        let nobody: [u64; 0] = [];
        assert_eq!(unconfirmed(all(), all()), nobody);
        let one = || [answer(3, &[]), None, None];
        assert_eq!(unconfirmed(one(), all()), [1, 2], "one is no majority");
        assert_eq!(unconfirmed(all(), one()), [2]);
        let of_two_views = || two(answer(3, &[]), answer(4, &[]));
        assert_eq!(
            unconfirmed(of_two_views(), all()),
            [1, 2],
            "a view may have lost what an earlier one knew"
        );
        let later = [answer(3, &[]), answer(4, &[]), answer(4, &[])];
        assert_eq!(unconfirmed(later, all()), nobody);
        let lacks = |missing: &[u64]| two(answer(3, missing), answer(3, &[]));
        assert_eq!(unconfirmed(lacks(&[1]), all()), [1]);
        assert_eq!(unconfirmed(lacks(&[2]), all()), [2]);
        assert_eq!(unconfirmed([answer(3, &[1]), answer(3, &[2]), answer(3, &[])], all()), nobody);
    }

    #[test]
    fn a_replica_is_asked_for_what_its_shard_takes_part_in_until_it_knows_all_of_that() {
        let members = GroupSize::new(3).unwrap().into();
        let of = |shard, given: [Option<Answer>; 3]| Answers {
            shard: ShardId(shard),
            members,
            given: given.to_vec(),
        };
        let commits =
            vec![((at(5), id(1)), vec![ShardId(2)]), ((at(6), id(2)), vec![ShardId(2), ShardId(3)])];
        let answers = vec![of(2, [None, answer(0, &[2]), answer(0, &[])]), of(3, [None, None, None])];
        let question = Question { nonce: 8, commits, to: (at(9), id(0)), answers };
        let mut outbox = Outbox::new();
        question.send(&mut outbox);
        let told = outbox.drain().map(|effect| match effect {
            Effect::Send {
                to: Address::Replica(to),
                message: Message::AreDecided { nonce: 8, transactions },
            } => {
                let transactions: Vec<u64> = transactions.iter().map(|(_, id)| id.sequence).collect();
                (to.shard.0, to.index.0, transactions)
            }
            other => panic!("{other:?}"),
        });
        let expected =
            [(2, 0, vec![1, 2]), (2, 1, vec![1, 2]), (3, 0, vec![2]), (3, 1, vec![2]), (3, 2, vec![2])];
        assert_eq!(told.collect::<Vec<_>>(), expected);
    }
}
