//! Coordinator recovery: any client may die at any step, and its transactions still end (TAPIR paper, section 5.2.2).
//!
//! Every transaction has a *backup shard*, chosen by its id from its participants; the replicas of that shard are its
//! backup coordinators. One of them, asked by a replica or client that misses the outcome,
//!
//! 1. takes over: promises its own ballot itself, durably, and sends CoordinatorChange under that to every replica of every participant. f + 1
//!    promises of a shard fence earlier coordinators off there;
//! 2. decides from what the replicas know ([`decide`]);
//! 3. to commit, makes the OK of every shard final at f + 1 replicas, so that no view change can turn it;
//! 4. records the outcome at f + 1 replicas of the backup shard, from where a later backup coordinator learns it;
//! 5. tells everybody, until f + 1 replicas of every shard have it.
//!
//! Ballots and promises make 1 and 4 a single-decree Paxos per transaction; within a shard, FINALIZE under a ballot is one
//! per vote. So two recoveries at once, and an old coordinator that comes back, are harmless. A backup coordinator that restarts, or enters
//! another epoch, forgets which recoveries it led, and not what it has promised: its next ballot is above its last, so it uses none twice.
//!
//! Records are collected, so a shard may have forgotten. It says so ("settled"), and then the transaction has not committed
//! unless every other participant still holds the COMMIT, or has collected it as well. Those others may have answered just
//! before the COMMIT reached them, so nothing is concluded from their answers before they have been asked once more.
//!
//! *Deviation*: the paper commits on f + 1 OK votes seen. Between seeing them and the COMMIT a view change may give
//! their hold to a conflicting transaction, so step 3 was added.

mod decide;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use quorate_core::command::Outcome;
use quorate_core::machine::OutboxOf;
use quorate_core::{
    Address, Ballot, ClientId, ClockTime, Groups, Instant, Members, Random, ReplicaId, ShardId, Timestamp,
    Transaction, TransactionId, View,
};
use quorate_ir::{InconsistentCall, OperationId};

use crate::message::{Decision, Message, Vote};
use crate::replica::Replica;
use crate::rules::Rules;
use decide::{Case, ElectionReply, Finding, ShardReplies, decide_recovery};

/// The most recoveries that one replica leads at a time; more are asked for again later.
const RECOVERIES_MAX: usize = 10_000;

/// The most who are told the outcome when it is known; others ask again.
const ASKERS_MAX: usize = 16;

/// After so many elections a recovery that only clients have asked for, and that has found no trace of the transaction,
/// ends: a replica that does hold it asks again.
const VAIN_ELECTIONS_MAX: u32 = 3;

/// After so many elections in vain, and again after each as many more, all waits are twice as long.
const ELECTIONS_PER_DOUBLING: u32 = 4;

/// So often at most.
const DOUBLINGS_MAX: u32 = 5;

/// A shard has so many replicas at most, all that it ever had together.
const REPLICAS_MAX: u32 = 256;

/// Repetitions of one phase before the election is held again.
const REPEATS_MAX: u32 = 3;

/// The most shards that a transaction can be recovered over.
const PARTICIPANTS_MAX: usize = 4_096;

/// The shard whose replicas are the backup coordinators of a transaction.
pub(crate) fn backup_shard(id: TransactionId, participants: &[ShardId]) -> Option<ShardId> {
    let spread = id.client.0 ^ id.sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    participants.get((spread % participants.len().max(1) as u64) as usize).copied()
}

/// The backup coordinator to ask at the `attempt`-th time.
pub(crate) fn backup_replica(
    id: TransactionId,
    participants: &[ShardId],
    members: impl FnOnce(ShardId) -> Members,
    attempt: u64,
) -> Option<ReplicaId> {
    let shard = backup_shard(id, participants)?;
    let members = members(shard);
    let place = id.sequence.wrapping_add(attempt) % members.replicas() as u64;
    Some(ReplicaId { shard, index: members.at(place as usize) })
}

/// True if this can be the list of a transaction's participants: sorted, without repetition, neither empty nor huge.
pub(crate) fn valid_participants(participants: &[ShardId]) -> bool {
    !participants.is_empty()
        && participants.len() <= PARTICIPANTS_MAX
        && participants.windows(2).all(|pair| pair[0] < pair[1])
}

/// The recoveries that a replica leads.
#[derive(Debug)]
pub(crate) struct Recoveries {
    me: ReplicaId,
    groups: Groups,
    timeout: Duration,
    /// No prepare is let in whose timestamp lies further ahead of the clock at which the transaction was proposed first.
    proposals_ahead_max: Duration,
    /// The clock at the present step.
    pub(crate) clock: ClockTime,
    rules: Rules,
    active: BTreeMap<TransactionId, Recovery>,
    /// The elections that are to be held, each once this replica has promised their ballots itself.
    called: BTreeSet<TransactionId>,
}

#[derive(Debug)]
struct Recovery {
    participants: Vec<ShardId>,
    timestamp: Timestamp,
    /// True once the replicas were asked again after one had said that the transaction is settled.
    asked_again: bool,
    backup: ShardId,
    ballot: Ballot,
    askers: BTreeSet<Address>,
    /// True if a replica has named the participants, which it has from the client that began the transaction.
    trusted: bool,
    phase: Phase,
    /// When the phase began, or its messages were last repeated.
    since: Instant,
    /// Repetitions of this phase without progress.
    repeats: u32,
    /// Elections held, the present one included.
    elections: u32,
}

#[derive(Debug)]
enum Phase {
    Electing {
        replies: BTreeMap<ShardId, ShardReplies>,
    },
    Finalizing {
        /// A replica that answers late may know the outcome, and refuse to make its vote final for that.
        replies: BTreeMap<ShardId, ShardReplies>,
        outcome: Outcome,
        shards: BTreeMap<ShardId, FinalizingShard>,
        contents: Contents,
    },
    Recording {
        outcome: Outcome,
        contents: Contents,
        accepted: Vec<Option<View>>,
    },
    Telling {
        outcome: Outcome,
        last: Timestamp,
        contents: Contents,
        calls: BTreeMap<ShardId, InconsistentCall>,
    },
}

type Contents = BTreeMap<ShardId, Arc<Transaction>>;

#[derive(Debug)]
struct FinalizingShard {
    group: Members,
    number: u32,
    view: View,
    /// Of each replica, by its place.
    confirmed: Vec<bool>,
}

impl Phase {
    /// The answers of replicas in the election, for as long as these may decide.
    fn replies(&mut self) -> Option<&mut BTreeMap<ShardId, ShardReplies>> {
        match self {
            Phase::Electing { replies } | Phase::Finalizing { replies, .. } => Some(replies),
            Phase::Recording { .. } | Phase::Telling { .. } => None,
        }
    }
}

impl Recovery {
    fn case(&self) -> Case<'_> {
        Case {
            participants: &self.participants,
            backup: self.backup,
            trusted: self.trusted,
            persists: self.elections >= VAIN_ELECTIONS_MAX,
        }
    }

    /// How long to wait for answers before the phase is repeated. Backup coordinators that overtake each other, because
    /// answers take longer than that, or that have so much to do because they do, must come to rest.
    fn patience(&self, timeout: Duration) -> Duration {
        (timeout / 2) * (1 << (self.elections / ELECTIONS_PER_DOUBLING).min(DOUBLINGS_MAX))
    }

    /// True if nobody who holds the transaction has asked for it, and nobody who has answered knows anything of it.
    fn is_vain(&self) -> bool {
        let Phase::Electing { replies } = &self.phase else { return false };
        self.elections >= VAIN_ELECTIONS_MAX
            && self.askers.iter().all(|asker| matches!(asker, Address::Client(_)))
            && replies.values().all(ShardReplies::know_nothing)
    }
}

type ReplicaOutbox = OutboxOf<Replica>;

impl Recoveries {
    pub(crate) fn new(
        me: ReplicaId,
        groups: Groups,
        timeout: Duration,
        proposals_ahead_max: Duration,
        rules: Rules,
    ) -> Self {
        let clock = ClockTime::from_micros(0);
        Recoveries {
            me,
            groups,
            timeout,
            proposals_ahead_max,
            clock,
            rules,
            active: BTreeMap::new(),
            called: BTreeSet::new(),
        }
    }

    /// The groups have changed. The recoveries that were under way are given up: they are asked for again.
    pub(crate) fn enter_epoch(&mut self, groups: Groups) {
        self.groups = groups;
        self.active.clear();
        self.called.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.active.len()
    }

    fn replicas(&self, shard: ShardId) -> impl Iterator<Item = ReplicaId> + use<> {
        self.groups.members(shard).iter().map(move |index| ReplicaId { shard, index })
    }

    /// The smallest ballot above `other` that belongs to this replica. In no group has another replica
    /// used it: promises outlive epochs.
    fn ballot_above(&self, other: Ballot) -> Ballot {
        let own = u32::from(self.me.index.0) + 1;
        let rounds = (other.0.saturating_add(REPLICAS_MAX)).saturating_sub(own) / REPLICAS_MAX;
        let ballot = Ballot(own.saturating_add(rounds.saturating_mul(REPLICAS_MAX)));
        assert!(ballot > other, "{ballot} is to outbid {other}");
        assert!(ballot.0 % REPLICAS_MAX == own % REPLICAS_MAX, "{ballot} is no ballot of replica {own}");
        ballot
    }

    /// Takes over a transaction, or notes one more who wants to know.
    #[expect(clippy::too_many_arguments, reason = "what is asked, by whom, and how it stands")]
    pub(crate) fn begin(
        &mut self,
        id: TransactionId,
        participants: Vec<ShardId>,
        timestamp: Timestamp,
        asker: Address,
        promised: Ballot,
        now: Instant,
        outbox: &mut ReplicaOutbox,
    ) {
        if let Some(known) = self.active.get_mut(&id) {
            if matches!(asker, Address::Replica(_)) && !known.trusted {
                // The word of a client on it counts no more, nor what was told because of it.
                let is_asked_otherwise =
                    known.timestamp != timestamp && matches!(known.phase, Phase::Electing { .. });
                known.timestamp = timestamp;
                if known.participants != participants || is_asked_otherwise {
                    return self.pass_on(id, participants, asker, now, outbox);
                }
                known.trusted = true;
            }
            if known.askers.len() < ASKERS_MAX {
                known.askers.insert(asker);
            }
            assert!(known.askers.len() <= ASKERS_MAX, "{} wait for {id} to end", known.askers.len());
            return;
        }
        let Some(backup) = backup_shard(id, &participants) else { return };
        // Replicas ask because something stands in the way of others, so clients must not take all the room.
        let most = if matches!(asker, Address::Client(_)) { RECOVERIES_MAX / 2 } else { RECOVERIES_MAX };
        if self.active.len() >= most || backup != self.me.shard {
            return;
        }
        let recovery = Recovery {
            participants,
            timestamp,
            asked_again: false,
            backup,
            ballot: self.ballot_above(promised),
            askers: BTreeSet::from([asker]),
            trusted: matches!(asker, Address::Replica(_)),
            phase: Phase::Electing { replies: BTreeMap::new() },
            since: now,
            repeats: 0,
            elections: 1,
        };
        self.active.insert(id, recovery);
        assert!(self.active.len() <= RECOVERIES_MAX, "{} recoveries are under way", self.active.len());
        self.called.insert(id);
    }

    /// Holds the elections that are called. `promise` makes this replica promise a ballot, durably before what is sent after that.
    pub(crate) fn hold_elections(
        &mut self,
        mut promise: impl FnMut(TransactionId, Ballot, &mut ReplicaOutbox),
        outbox: &mut ReplicaOutbox,
    ) {
        for id in std::mem::take(&mut self.called) {
            let Some(recovery) = self.active.get(&id) else { continue };
            promise(id, recovery.ballot, outbox);
            self.send_coordinator_change(id, outbox);
        }
    }

    fn send_coordinator_change(&self, id: TransactionId, outbox: &mut ReplicaOutbox) {
        let Some(recovery) = self.active.get(&id) else { return };
        for shard in &recovery.participants {
            for replica in self.replicas(*shard) {
                let Recovery { ballot, timestamp, .. } = *recovery;
                outbox.send(replica, Message::CoordinatorChange { transaction: id, ballot, timestamp });
            }
        }
    }

    /// Takes an answer from a replica.
    pub(crate) fn on_message(
        &mut self,
        from: ReplicaId,
        message: Message,
        now: Instant,
        outbox: &mut ReplicaOutbox,
    ) {
        if !self.groups.members(from.shard).contains(from.index) {
            return;
        }
        match message {
            Message::CoordinatorChangeReply {
                transaction,
                ballot,
                view,
                outcome,
                committed,
                votes,
                accepted,
                settled,
            } => {
                let reply = ElectionReply { view, outcome, committed, votes, accepted, settled };
                self.on_coordinator_change_reply(from, transaction, ballot, reply, now, outbox);
            }
            Message::RecordOutcomeReply { transaction, ballot, view } => {
                self.on_record_outcome_reply(from, transaction, ballot, view, now, outbox);
            }
            Message::Superseded { transaction, promised }
                if self.is_overtaken(from, transaction, promised) =>
            {
                self.stand_back(transaction, promised, now);
            }
            Message::Ir(quorate_ir::Message::Confirm { id, view, verdict, .. }) => {
                self.on_confirm(from, id, view, verdict, now, outbox);
            }
            Message::Ir(quorate_ir::Message::InconsistentReply { id, view }) => {
                self.on_inconsistent_reply(from, id, view, outbox);
            }
            _ => {}
        }
    }

    /// True if what a replica has promised is in the way of this recovery. Once a commit is being recorded nothing is wanted
    /// of other shards than the backup shard any more: a replica there may refuse to make a vote final because it has been
    /// told the outcome already, and nothing else is left of the vote.
    fn is_overtaken(&self, from: ReplicaId, id: TransactionId, promised: Ballot) -> bool {
        let overtaken = |known: &Recovery| {
            let matters = match known.phase {
                Phase::Telling { .. } => false,
                Phase::Recording { outcome: Outcome::Committed(_), .. } => from.shard == known.backup,
                _ => true,
            };
            // One that nobody can outbid is a lie.
            matters && known.ballot < promised && known.ballot.may_follow(promised)
        };
        self.active.get(&id).is_some_and(overtaken)
    }

    /// Another replica settles the transaction, or did so and is done: this one tries again in a while, above its ballot.
    /// It must not give up, because promises that are left behind in one shard outlive those of a shard that has
    /// executed the outcome, and then nobody else knows what to outbid.
    fn stand_back(&mut self, id: TransactionId, promised: Ballot, now: Instant) {
        let Some(recovery) = self.active.get_mut(&id) else { return };
        assert!(promised > recovery.ballot, "{} gives way to {promised} in {id}", recovery.ballot);
        recovery.ballot = promised;
        recovery.phase = Phase::Electing { replies: BTreeMap::new() };
        recovery.since = now;
        recovery.repeats = REPEATS_MAX;
    }

    fn on_coordinator_change_reply(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        ballot: Ballot,
        reply: ElectionReply,
        now: Instant,
        outbox: &mut ReplicaOutbox,
    ) {
        let (group, rules) = (self.groups.members(from.shard), self.rules);
        let Some(recovery) = self.active.get_mut(&id).filter(|recovery| recovery.ballot == ballot) else {
            return;
        };
        let Some(replies) = recovery.phase.replies() else { return };
        if !recovery.participants.contains(&from.shard) {
            return;
        }
        replies.entry(from.shard).or_insert_with(|| ShardReplies::new(group, rules)).add(from.index, reply);
        assert!(
            replies.len() <= recovery.participants.len(),
            "{} shards have answered in the election for {id}, and {} take part",
            replies.len(),
            recovery.participants.len()
        );
        self.decide(id, now, outbox);
    }

    /// Goes on as far as the replies to the election allow.
    fn decide(&mut self, id: TransactionId, now: Instant, outbox: &mut ReplicaOutbox) {
        let Some(recovery) = self.active.get_mut(&id) else { return };
        let (replies, is_electing) = match &recovery.phase {
            Phase::Electing { replies } => (replies, true),
            Phase::Finalizing { replies, .. } => (replies, false),
            Phase::Recording { .. } | Phase::Telling { .. } => return,
        };
        match decide_recovery(&recovery.case(), replies) {
            Finding::Follow { outcome, contents } => self.enter_telling(id, outcome, contents, now, outbox),
            // It is concluded already.
            _ if !is_electing => {}
            Finding::Wait | Finding::Uncertain(_) => {}
            Finding::Elsewhere(participants) => {
                self.pass_on(id, participants, self.me.into(), now, outbox);
            }
            Finding::Adopt { outcome, contents } => self.enter_recording(id, outcome, contents, now, outbox),
            Finding::Abort if !recovery.asked_again && replies.values().any(ShardReplies::is_settled) => {
                recovery.asked_again = true;
                recovery.since = now;
                self.call_new_election(id);
            }
            Finding::Abort => self.enter_recording(id, Outcome::Aborted, BTreeMap::new(), now, outbox),
            Finding::Forgotten => {
                let forgotten = self.active.remove(&id);
                for asker in forgotten.into_iter().flat_map(|recovery| recovery.askers) {
                    outbox.send(asker, Message::Forgotten { transaction: id });
                }
            }
            Finding::Commit { timestamp, numbers, contents } => {
                assert!(
                    numbers.keys().eq(&recovery.participants) && contents.keys().eq(&recovery.participants),
                    "{id} is to commit at {timestamp} because {:?} hold it, and {:?} take part",
                    numbers.keys(),
                    recovery.participants
                );
                let shards = numbers
                    .into_iter()
                    .map(|(shard, (number, view))| {
                        let group = self.groups.members(shard);
                        let confirmed = vec![false; group.replicas()];
                        (shard, FinalizingShard { group, number, view, confirmed })
                    })
                    .collect();
                let replies = recovery.phase.replies().map(std::mem::take).unwrap_or_default();
                let outcome = Outcome::Committed(timestamp);
                recovery.phase = Phase::Finalizing { replies, outcome, shards, contents };
                recovery.since = now;
                recovery.repeats = 0;
                self.send_finalize(id, outbox);
            }
        }
    }

    /// Starts over with the participants that the transaction has, here or at a backup coordinator of theirs. Clients that
    /// had asked with others are not told: they ask again.
    fn pass_on(
        &mut self,
        id: TransactionId,
        participants: Vec<ShardId>,
        asker: Address,
        now: Instant,
        outbox: &mut ReplicaOutbox,
    ) {
        let recovery = self.active.remove(&id).expect("it is what is passed on");
        if backup_shard(id, &participants) == Some(self.me.shard) {
            self.begin(id, participants, recovery.timestamp, asker, recovery.ballot, now, outbox);
        } else if let Some(backup) = backup_replica(id, &participants, |shard| self.groups.members(shard), 0)
        {
            let timestamp = recovery.timestamp;
            outbox.send(backup, Message::Recover { transaction: id, participants, timestamp });
        }
    }

    fn send_finalize(&self, id: TransactionId, outbox: &mut ReplicaOutbox) {
        let Some(recovery) = self.active.get(&id) else { return };
        let Phase::Finalizing { shards, .. } = &recovery.phase else { return };
        for (shard, finalizing) in shards {
            for replica in self.replicas(*shard) {
                let message = quorate_ir::Message::FinalizeConsensus {
                    id: OperationId { transaction: id, number: finalizing.number },
                    verdict: Vote::Ok,
                    view: finalizing.view,
                    ballot: recovery.ballot,
                };
                outbox.send(replica, Message::Ir(message));
            }
        }
    }

    fn on_confirm(
        &mut self,
        from: ReplicaId,
        id: OperationId,
        view: View,
        verdict: Option<Vote>,
        now: Instant,
        outbox: &mut ReplicaOutbox,
    ) {
        let Some(recovery) = self.active.get_mut(&id.transaction) else { return };
        let Phase::Finalizing { outcome, shards, contents, .. } = &mut recovery.phase else { return };
        let Some(shard) = shards.get_mut(&from.shard).filter(|shard| shard.number == id.number) else {
            return;
        };
        if view > shard.view {
            // The group has moved on to another view, where the votes are settled: look again.
            recovery.since = now;
            return self.call_new_election(id.transaction);
        }
        if shard.view != view || verdict != Some(Vote::Ok) {
            // It is late, or another verdict stands: the next sweep looks again.
            return;
        }
        let Some(place) = shard.group.position(from.index) else { return };
        shard.confirmed[place] = true;
        let is_final = |shard: &FinalizingShard| {
            shard.confirmed.iter().filter(|confirmed| **confirmed).count() >= shard.group.majority()
        };
        if shards.values().all(is_final) {
            assert!(
                shards.len() == recovery.participants.len(),
                "{} shards have made their votes on {} final, and {} take part",
                shards.len(),
                id.transaction,
                recovery.participants.len()
            );
            let (outcome, contents) = (*outcome, std::mem::take(contents));
            self.enter_recording(id.transaction, outcome, contents, now, outbox);
        }
    }

    fn enter_recording(
        &mut self,
        id: TransactionId,
        outcome: Outcome,
        contents: Contents,
        now: Instant,
        outbox: &mut ReplicaOutbox,
    ) {
        let Some(recovery) = self.active.get_mut(&id) else { return };
        assert!(
            outcome == Outcome::Aborted || contents.keys().eq(&recovery.participants),
            "{outcome:?} of {id} is to be told with the contents of {:?}, and {:?} take part",
            contents.keys(),
            recovery.participants
        );
        assert!(recovery.backup == self.me.shard, "{:?} settles {id} of {:?}", self.me, recovery.backup);
        let replicas = self.groups.members(recovery.backup).replicas();
        recovery.phase = Phase::Recording { outcome, contents, accepted: vec![None; replicas] };
        recovery.since = now;
        recovery.repeats = 0;
        self.send_record_outcome(id, outbox);
    }

    fn send_record_outcome(&self, id: TransactionId, outbox: &mut ReplicaOutbox) {
        let Some(recovery) = self.active.get(&id) else { return };
        let Phase::Recording { outcome, .. } = &recovery.phase else { return };
        for replica in self.replicas(recovery.backup) {
            let message =
                Message::RecordOutcome { transaction: id, ballot: recovery.ballot, outcome: *outcome };
            outbox.send(replica, message);
        }
    }

    fn on_record_outcome_reply(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        ballot: Ballot,
        view: View,
        now: Instant,
        outbox: &mut ReplicaOutbox,
    ) {
        let group = self.groups.members(from.shard);
        let (majority, place) = (group.majority(), group.position(from.index));
        let Some(recovery) = self.active.get_mut(&id).filter(|recovery| recovery.ballot == ballot) else {
            return;
        };
        let Phase::Recording { outcome, contents, accepted } = &mut recovery.phase else { return };
        if from.shard != recovery.backup {
            return;
        }
        let Some(slot) = place.map(|place| &mut accepted[place]) else { return };
        *slot = (*slot).max(Some(view));
        let in_view = |view: View| accepted.iter().filter(|accepted| **accepted == Some(view)).count();
        if accepted.iter().flatten().any(|view| in_view(*view) >= majority) {
            let (outcome, contents) = (*outcome, std::mem::take(contents));
            self.enter_telling(id, outcome, contents, now, outbox);
        }
    }

    fn enter_telling(
        &mut self,
        id: TransactionId,
        outcome: Outcome,
        contents: Contents,
        now: Instant,
        outbox: &mut ReplicaOutbox,
    ) {
        let Some(recovery) = self.active.get_mut(&id) else { return };
        for asker in std::mem::take(&mut recovery.askers) {
            outbox.send(asker, Message::RecoverReply { transaction: id, outcome });
        }
        // A shard that has collected the commit needs not hear of it.
        let told = |shard: &&ShardId| outcome == Outcome::Aborted || contents.contains_key(shard);
        let calls = recovery.participants.iter().filter(told);
        let calls = calls.map(|shard| (*shard, InconsistentCall::new(self.groups.members(*shard)))).collect();
        // All timestamps that its coordinator has proposed or may propose lie below this, or get no vote. A client that may have no
        // part in it must not have the outcome kept for ages.
        let first = recovery.trusted.then(|| ClockTime::from_micros(recovery.timestamp.micros));
        let latest = first.max(Some(self.clock)).unwrap_or_default();
        let last = latest.saturating_add(self.proposals_ahead_max);
        let last = Timestamp::new(last, ClientId(u64::MAX));
        assert!(
            !recovery.trusted || last >= recovery.timestamp,
            "{id} is remembered up to {last}, and was proposed at {}",
            recovery.timestamp
        );
        recovery.phase = Phase::Telling { outcome, last, contents, calls };
        recovery.since = now;
        recovery.repeats = 0;
        self.send_decision(id, outbox);
    }

    fn send_decision(&self, id: TransactionId, outbox: &mut ReplicaOutbox) {
        let Some(Recovery { phase, .. }) = self.active.get(&id) else { return };
        let Phase::Telling { outcome, last, contents, calls } = phase else { return };
        for (shard, call) in calls {
            let operation = match outcome {
                Outcome::Aborted => Decision::Abort { last: *last },
                Outcome::Committed(timestamp) => {
                    let transaction =
                        contents.get(shard).expect("a commit is told with its contents").clone();
                    Decision::Commit { transaction, timestamp: *timestamp, last: *last }
                }
            };
            for index in call.missing() {
                let id = OperationId { transaction: id, number: OperationId::INCONSISTENT };
                let message = quorate_ir::Message::ProposeInconsistent { id, operation: operation.clone() };
                outbox.send(ReplicaId { shard: *shard, index }, Message::Ir(message));
            }
        }
    }

    fn on_inconsistent_reply(
        &mut self,
        from: ReplicaId,
        id: OperationId,
        view: View,
        outbox: &mut ReplicaOutbox,
    ) {
        let Some(recovery) = self.active.get_mut(&id.transaction) else { return };
        let Phase::Telling { calls, .. } = &mut recovery.phase else { return };
        let Some(call) = calls.get_mut(&from.shard) else { return };
        call.on_reply(from.index, view);
        if !calls.values().all(InconsistentCall::is_successful) {
            return;
        }
        let recovery = self.active.remove(&id.transaction).expect("it was just looked at");
        for shard in recovery.participants {
            if self.groups.members(shard).failures() > 1 {
                for replica in self.replicas(shard) {
                    outbox.send(replica, Message::Ir(quorate_ir::Message::FinalizeInconsistent { id }));
                }
            }
        }
    }

    /// Repeats what has had no answer; after a while starts over under a greater ballot, and makes shards whose votes
    /// leave the outcome open change views, which settles the votes.
    pub(crate) fn sweep(&mut self, now: Instant, random: &mut Random, outbox: &mut ReplicaOutbox) {
        let due: Vec<TransactionId> = self
            .active
            .iter()
            .filter(|(_, recovery)| now - recovery.since >= recovery.patience(self.timeout))
            .map(|(id, _)| *id)
            .collect();
        for id in due {
            let recovery = self.active.get_mut(&id).expect("it was just listed");
            recovery.since = now;
            recovery.repeats += 1;
            let restart = recovery.repeats > REPEATS_MAX;
            match &recovery.phase {
                Phase::Telling { .. } => self.send_decision(id, outbox),
                Phase::Recording { .. } if !restart => self.send_record_outcome(id, outbox),
                Phase::Finalizing { .. } if recovery.repeats <= 1 => self.send_finalize(id, outbox),
                Phase::Electing { .. } if !restart => {
                    self.settle_uncertain(id, outbox);
                    self.send_coordinator_change(id, outbox);
                }
                _ if recovery.is_vain() => {
                    self.active.remove(&id);
                }
                _ => {
                    // Not always at once, lest two backup coordinators keep overtaking each other.
                    if random.chance(0.5) {
                        self.call_new_election(id);
                    }
                }
            }
        }
    }

    fn call_new_election(&mut self, id: TransactionId) {
        let ballot = self.ballot_above(self.active[&id].ballot);
        let recovery = self.active.get_mut(&id).expect("its ballot was just read");
        assert!(ballot > recovery.ballot, "the election of {} in {id} is held as {ballot}", recovery.ballot);
        recovery.ballot = ballot;
        recovery.phase = Phase::Electing { replies: BTreeMap::new() };
        recovery.repeats = 0;
        recovery.elections += 1;
        self.called.insert(id);
    }

    /// Every replica that can answer has had the time to, and the votes still leave the outcome open.
    fn settle_uncertain(&self, id: TransactionId, outbox: &mut ReplicaOutbox) {
        let recovery = &self.active[&id];
        let Phase::Electing { replies } = &recovery.phase else { return };
        if let Finding::Uncertain(shards) = decide_recovery(&recovery.case(), replies) {
            for (shard, view) in shards {
                let Some(view) = view.next() else { continue };
                for replica in self.replicas(shard) {
                    let message = quorate_ir::Message::HigherView { view };
                    outbox.send(replica, Message::Ir(message));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::{GroupSize, ReplicaIndex};

    use super::*;

    #[test]
    fn ballots_of_replicas_never_meet() {
        let group = GroupSize::new(3).unwrap();
        let mut seen = BTreeSet::new();
        for index in [0, 1, 2, 3, 254, 255] {
            let me = ReplicaId { shard: ShardId(1), index: ReplicaIndex(index) };
            let seconds = Duration::from_secs;
            let recoveries =
                Recoveries::new(me, Groups::new(group), seconds(1), seconds(60), Rules::EXCLUSIVE);
            let mut ballot = Ballot::ORIGINAL;
            for _ in 0..5 {
                let above = recoveries.ballot_above(ballot);
                assert!(
                    above > ballot && above.0 <= ballot.0 + REPLICAS_MAX,
                    "{above} is the next above {ballot}"
                );
                assert!(seen.insert(above), "{above} belongs to one replica");
                ballot = above;
            }
        }
    }

    #[test]
    fn elections_in_vain_are_held_ever_more_seldom() {
        let (me, second) = (ReplicaId { shard: ShardId(1), index: ReplicaIndex(0) }, Duration::from_secs(1));
        let group = GroupSize::new(3).unwrap();
        let mut recoveries = Recoveries::new(me, Groups::new(group), second, 60 * second, Rules::EXCLUSIVE);
        let (mut outbox, mut random) = (ReplicaOutbox::new(), Random::new(1));
        let id = TransactionId { client: ClientId(1), sequence: 1, attempt: 0 };
        let asker = ReplicaId { index: ReplicaIndex(1), ..me }.into();
        let (participants, timestamp) = (vec![ShardId(1)], Timestamp::ZERO);
        recoveries.begin(id, participants, timestamp, asker, Ballot::ORIGINAL, Instant::START, &mut outbox);
        recoveries.hold_elections(|_, _, _| {}, &mut outbox);
        let mut rounds = |from: u64, to: u64| {
            outbox.drain().for_each(drop);
            for tenths in 10 * from..10 * to {
                let now = Instant::START + Duration::from_millis(100 * tenths);
                recoveries.sweep(now, &mut random, &mut outbox);
                recoveries.hold_elections(|_, _, _| {}, &mut outbox);
            }
            outbox.drain().count() / group.replicas()
        };
        let early = rounds(0, 5);
        assert!((5..=9).contains(&early), "nearly every half timeout at first, and not {early} in 5");
        rounds(5, 500);
        let late = rounds(500, 1_000);
        assert!((15..=32).contains(&late), "one in sixteen timeouts in the end, and not {late} in 500");
    }

    #[test]
    fn lists_of_participants_are_checked() {
        assert!(valid_participants(&[ShardId(1), ShardId(3)]));
        assert!(!valid_participants(&[]));
        assert!(!valid_participants(&[ShardId(3), ShardId(1)]));
        assert!(!valid_participants(&[ShardId(1), ShardId(1)]));
    }
}
