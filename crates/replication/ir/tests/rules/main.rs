//! The rules of inconsistent replication, one at a time: each test says what one replica must do with what it is told, and fails
//! if the rule is left out. The protocol on top is the smallest that can tell: votes hold something, decisions leave
//! something behind, and a promise travels beside the record.

mod bare;
mod changes;
mod coming_back;
mod desk;
mod extremes;
mod logged;
mod outlines;
mod records;
mod timing;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quorate_core::{
    Address, Ballot, ClientId, GroupSize, Key, ReplicaId, ReplicaIndex, ShardId, Timestamp, TransactionId,
    View,
};
use quorate_ir::{
    Bounds, ConsensusEntry, CursorRange, Fact, Host, InconsistentEntry, Message, Mistake, OperationEntries,
    OperationId, Operations, Outline, Part, PartRange, Record, RecordPage, Replica, State, Status, Stretch,
    Upcalls,
};

use desk::{Desk, member};

/// Operations are the times at which they take effect, in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Times;

/// A decision: when it takes effect, and the last time at which its transaction may have been proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decided {
    at: u64,
    last: u64,
}

/// A decision at this time leaves nothing behind.
const NOTHING: u64 = 9;

/// A decision at this time runs where it arrives.
const AT_ONCE: u64 = 77;

fn at(micros: u64) -> Timestamp {
    Timestamp { micros, client: ClientId(0) }
}

impl Operations for Times {
    type Inconsistent = Decided;
    type Consensus = u64;
    type Verdict = bool;
    type Supplement = u64;
    type State = BTreeSet<u64>;

    fn consensus_timestamp(micros: &u64) -> Timestamp {
        at(*micros)
    }

    fn inconsistent_timestamp(decided: &Decided) -> Timestamp {
        at(decided.at)
    }

    fn last_timestamp(decided: &Decided) -> Timestamp {
        at(decided.last)
    }

    fn leaves_state(decided: &Decided) -> bool {
        decided.at != NOTHING
    }

    fn as_proposed(decided: &Decided, micros: &u64) -> Option<Timestamp> {
        (decided.at == *micros).then(|| at(decided.last))
    }

    fn of_proposed(micros: &u64, last: Timestamp) -> Decided {
        Decided { at: *micros, last: last.micros }
    }

    fn bytes(_: &Decided) -> usize {
        1
    }

    fn consensus_bytes(_: &u64) -> usize {
        1
    }

    fn state_bytes(stored: &BTreeSet<u64>) -> usize {
        stored.len()
    }

    fn runs_on_arrival(decided: &Decided) -> bool {
        decided.at == AT_ONCE
    }

    fn is_favourable(verdict: &bool) -> bool {
        *verdict
    }
}

#[derive(Debug, Default)]
struct Ledger {
    /// The timestamps that votes and view changes hold.
    held: BTreeSet<(TransactionId, u64)>,
    /// How often each transaction has run.
    runs: BTreeMap<TransactionId, u32>,
    /// The effects of decisions.
    stored: BTreeSet<u64>,
    promise: u64,
    bounds: Bounds,
}

impl Upcalls<Times> for Ledger {
    fn execute_consensus(&mut self, id: OperationId, micros: &u64) -> bool {
        self.held.insert((id.transaction, *micros))
    }

    fn verdict_after(&mut self, _: OperationId, _: &u64, _: &InconsistentEntry<Times>) -> Option<bool> {
        Some(true)
    }

    fn implied_verdict(_: &Decided) -> bool {
        true
    }

    fn superseded_verdict() -> bool {
        false
    }

    fn execute_inconsistent(&mut self, transaction: TransactionId, decided: &Decided) {
        self.held.retain(|(held, _)| *held != transaction);
        *self.runs.entry(transaction).or_default() += 1;
        self.stored.insert(decided.at);
    }

    fn finalize_consensus(&mut self, id: OperationId, micros: &u64, verdict: &bool, by_view_change: bool) {
        if !verdict {
            self.held.remove(&(id.transaction, *micros));
        } else if by_view_change {
            self.held.insert((id.transaction, *micros));
        }
    }

    fn forget_consensus(&mut self, id: OperationId, micros: &u64) {
        self.held.remove(&(id.transaction, *micros));
    }

    fn merge(
        &mut self,
        decided: &[(TransactionId, ConsensusEntry<Times>)],
        undecided: &[(TransactionId, ConsensusEntry<Times>)],
    ) -> Vec<bool> {
        for (id, entry) in decided.iter().chain(undecided) {
            self.held.remove(&(*id, entry.operation));
        }
        let keeps =
            |entry: &ConsensusEntry<Times>| entry.verdict && at(entry.operation) >= self.bounds.complete;
        let kept: Vec<bool> = decided.iter().map(|(_, entry)| keeps(entry)).collect();
        let holds = decided.iter().zip(&kept).filter(|(_, kept)| **kept);
        self.held.extend(holds.map(|((id, entry), _)| (*id, entry.operation)));
        kept.into_iter().chain(undecided.iter().map(|_| false)).collect()
    }

    fn contribution(&self) -> u64 {
        self.promise
    }

    fn supplement(&self) -> u64 {
        self.promise
    }

    fn adopt_supplement(&mut self, promise: &u64) {
        self.promise = self.promise.max(*promise);
    }

    fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    fn bounds_mut(&mut self) -> &mut Bounds {
        &mut self.bounds
    }

    fn state_after(&self, after: Option<&Key>, below: Timestamp, _: usize) -> (BTreeSet<u64>, Option<Key>) {
        assert_eq!(after, None, "there is one page");
        let is_wanted = |stored: &&u64| at(**stored) < below;
        (self.stored.iter().filter(is_wanted).copied().collect(), None)
    }

    fn forget_state_below(&mut self, floor: Timestamp) {
        self.stored.retain(|stored| at(*stored) >= floor);
    }

    fn install_state(&mut self, state: BTreeSet<u64>) {
        self.stored.extend(state);
    }

    fn entry_bytes(_: &OperationEntries<Times>) -> usize {
        600
    }
}

/// One replica of three, and its desk.
struct Member {
    replica: Replica<Times>,
    desk: Desk,
}

const CLIENT: Address = Address::Client(ClientId(9));

fn transaction(sequence: u64) -> TransactionId {
    TransactionId { client: ClientId(9), sequence, attempt: 0 }
}

fn operation(sequence: u64, number: u32) -> OperationId {
    OperationId { transaction: transaction(sequence), number }
}

fn vote(number: u32, micros: u64, verdict: bool, state: State) -> ConsensusEntry<Times> {
    ConsensusEntry { number, operation: micros, verdict, state }
}

/// A page with votes on one transaction.
fn votes(sequence: u64, consensus: Vec<ConsensusEntry<Times>>) -> RecordPage<Times> {
    RecordPage { entries: vec![(transaction(sequence), OperationEntries { inconsistent: None, consensus })] }
}

/// A page with the decision of one transaction.
fn decision(sequence: u64, micros: u64, executed: bool) -> RecordPage<Times> {
    let operation = Decided { at: micros, last: micros };
    let inconsistent = Some(InconsistentEntry { operation, executed });
    RecordPage {
        entries: vec![(transaction(sequence), OperationEntries { inconsistent, consensus: Vec::new() })],
    }
}

/// The contribution of another replica.
struct Contribution {
    from: u8,
    view: u64,
    last_normal: Option<u64>,
    page: RecordPage<Times>,
    promise: u64,
    floor: u64,
    complete: u64,
    lives: BTreeMap<ReplicaIndex, u64>,
}

impl Contribution {
    /// From a replica that was last normal in view 0 and has nothing to say.
    fn new(from: u8, view: u64) -> Self {
        Contribution {
            from,
            view,
            last_normal: Some(0),
            page: RecordPage::default(),
            promise: 0,
            floor: 0,
            complete: 0,
            lives: BTreeMap::new(),
        }
    }
}

/// The START-VIEW of a leader.
struct Start {
    view: u64,
    since: Option<u64>,
    page: RecordPage<Times>,
    floor: Option<u64>,
    state: Option<BTreeSet<u64>>,
}

impl Member {
    /// A replica of a new group, normal in view 0.
    fn new(index: u8) -> Self {
        Self::of(index, 3)
    }

    fn of(index: u8, replicas: usize) -> Self {
        let group = GroupSize::new(replicas).unwrap();
        let replica = Replica::initialise(group, ReplicaIndex(index), Duration::from_secs(1), 1 << 20);
        Member { replica, desk: Desk::default() }
    }

    /// The same replica, rebuilt from what it has kept; it has not begun yet.
    fn restarted(&self) -> Self {
        let mut again = Self::new(2);
        for fact in self.desk.facts.iter().cloned() {
            again.replica.restore(fact, &mut again.desk.ledger);
        }
        again.replica.finish_restore();
        again
    }

    /// One that sends everything in parts, each with one transaction.
    fn with_small_parts(index: u8) -> Self {
        let group = GroupSize::new(3).unwrap();
        let replica = Replica::initialise(group, ReplicaIndex(index), Duration::from_secs(1), 1);
        Member { replica, desk: Desk::default() }
    }

    /// A replica without its record, which has asked where the others are.
    fn lost(index: u8, replicas: usize) -> Self {
        let group = GroupSize::new(replicas).unwrap();
        let replica = Replica::lost(group, ReplicaIndex(index), Duration::from_secs(1), 1 << 20);
        let mut member = Member { replica, desk: Desk::default() };
        member.replica.start(&mut member.desk);
        member
    }

    fn proposes(&mut self, sequence: u64, number: u32, micros: u64) {
        self.replica.on_propose_consensus(CLIENT, operation(sequence, number), micros, &mut self.desk);
    }

    fn finalizes(&mut self, sequence: u64, verdict: bool, view: u64, ballot: u32) {
        let id = operation(sequence, 1);
        self.replica.on_finalize_consensus(CLIENT, id, verdict, View(view), Ballot(ballot), &mut self.desk);
    }

    fn decides(&mut self, sequence: u64, micros: u64) {
        let id = operation(sequence, OperationId::INCONSISTENT);
        let decided = Decided { at: micros, last: micros };
        self.replica.on_propose_inconsistent(CLIENT, id, decided, &mut self.desk);
    }

    /// Hears that somebody changes views.
    fn joins(&mut self, from: u8, view: u64) {
        self.replica.on_start_view_change(ReplicaIndex(from), View(view), &mut self.desk);
    }

    fn is_handed(&mut self, contribution: Contribution) {
        let Contribution { from, view, last_normal, page, promise, floor, complete, lives } = contribution;
        let lineage = last_normal.map(View).into_iter().collect();
        self.replica.on_do_view_change(
            ReplicaIndex(from),
            View(view),
            last_normal.map(View),
            lineage,
            Part::WHOLE,
            page,
            Outline::default(),
            promise,
            at(floor),
            at(complete),
            &lives,
            &mut self.desk,
        );
    }

    fn is_started(&mut self, start: Start) {
        let Start { view, since, page, floor, state } = start;
        let (view, since) = (View(view), since.map(View));
        self.replica.on_start_view(
            view,
            since,
            Part::WHOLE,
            page,
            Outline::default(),
            0,
            floor.map(at),
            state.map(|state| (state, None)),
            &mut self.desk,
        );
    }

    /// Hears an empty part of the START-VIEW of view 1.
    fn is_started_in(&mut self, part: Part) {
        let (view, since, page) = (View(1), Some(View(0)), RecordPage::default());
        let (outline, desk) = (Outline::default(), &mut self.desk);
        self.replica.on_start_view(view, since, part, page, outline, 0, None, None, desk);
    }

    /// Everything below has ended here, is collected and forgotten.
    fn collects(&mut self, floor: u64) {
        self.replica.complete_below(at(floor), &mut self.desk);
        self.replica.raise_floor(at(floor), &mut self.desk);
        while self.replica.collect(usize::MAX) {}
    }

    /// The parts of START-VIEW that it has sent: for which view, on which base, and which part of how many.
    fn started(&mut self) -> Vec<(View, Option<View>, u32, u32)> {
        let start = |(_, message)| match message {
            Message::StartView { view, since, part, .. } => Some((view, since, part.index, part.count)),
            _ => None,
        };
        self.desk.sent.drain(..).filter_map(start).collect()
    }

    fn verdict(&self, sequence: u64, number: u32) -> Option<bool> {
        self.replica.record().consensus(operation(sequence, number)).map(|entry| entry.verdict)
    }

    fn holds(&self, sequence: u64) -> bool {
        self.desk.ledger.held.iter().any(|(held, _)| *held == transaction(sequence))
    }

    fn runs(&self, sequence: u64) -> u32 {
        self.desk.ledger.runs.get(&transaction(sequence)).copied().unwrap_or(0)
    }

    fn is_normal_in(&self, view: u64) -> bool {
        self.replica.status() == Status::Normal && self.replica.view() == View(view)
    }
}

/// Replica 1, which has led view 1 with replica 0 alone and now leads view 4.
fn leader_that_others_missed() -> Member {
    let mut leader = Member::new(1);
    leader.is_handed(Contribution::new(0, 1));
    assert!(leader.is_normal_in(1));
    leader
}

// Operations

#[test]
fn a_verdict_that_was_decided_from_the_votes_of_another_view_is_not_made_final() {
    let mut member = Member::new(0);
    member.proposes(1, 1, 50);
    member.finalizes(1, false, 5, 0);
    assert_eq!(member.verdict(1, 1), Some(true));
    assert!(member.holds(1));
    member.finalizes(1, false, 0, 0);
    assert_eq!(member.verdict(1, 1), Some(false));
}

#[test]
fn only_a_greater_ballot_overrules_what_is_final() {
    let mut member = Member::new(0);
    member.proposes(1, 1, 50);
    member.finalizes(1, true, 0, 2);
    for ballot in 0..=2 {
        member.finalizes(1, false, 0, ballot);
        assert_eq!(member.verdict(1, 1), Some(true), "under ballot {ballot}");
    }
    member.finalizes(1, false, 0, 3);
    assert_eq!(member.verdict(1, 1), Some(false));
}

/// Everybody had the old verdict from the start of the view, so only the tail tells that it was overruled since.
#[test]
fn what_is_made_final_in_a_view_is_handed_over_at_its_end() {
    let mut member = Member::new(2);
    let page = votes(1, vec![vote(1, 50, true, State::Finalized(Ballot(0)))]);
    member.is_started(Start { view: 1, since: Some(0), page, floor: None, state: None });
    assert!(member.is_normal_in(1) && member.replica.record().tail().is_empty());
    member.finalizes(1, false, 1, 3);
    let overruled = votes(1, vec![vote(1, 50, false, State::Finalized(Ballot(3)))]);
    assert_eq!(member.replica.record().tail(), overruled);
}

/// A proposer that asks again must follow it.
#[test]
fn a_verdict_that_is_final_is_said_to_be() {
    let mut member = Member::new(0);
    let answer = |member: &mut Member| {
        member.proposes(1, 1, 50);
        match member.desk.sent.pop() {
            Some((_, Message::ConsensusReply { verdict, finalized, .. })) => (verdict, finalized),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(answer(&mut member), (true, false));
    member.finalizes(1, false, 0, 0);
    assert_eq!(answer(&mut member), (false, true));
}

#[test]
fn only_what_is_recorded_is_run_and_confirmed_and_only_in_a_view() {
    let mut member = Member::new(0);
    let id = operation(1, OperationId::INCONSISTENT);
    member.replica.on_finalize_inconsistent(CLIENT, id, &mut member.desk);
    assert!(member.desk.sent.is_empty() && member.runs(1) == 0, "silence makes the proposer send both");
    member.decides(1, 50);
    member.desk.sent.clear();
    member.replica.on_finalize_inconsistent(CLIENT, id, &mut member.desk);
    let [(_, Message::Confirm { .. })] = member.desk.sent[..] else { panic!("{:?}", member.desk.sent) };
    member.joins(1, 4);
    member.desk.sent.clear();
    member.replica.on_finalize_inconsistent(CLIENT, id, &mut member.desk);
    assert!(member.desk.sent.is_empty(), "what it would confirm has been handed over already");
    member.replica.learn(transaction(2), Decided { at: 60, last: 60 }, &mut member.desk);
    assert_eq!(member.runs(2), 0);
}

/// T48: a successor could succeed by the votes of two that have let go, which a majority without them outweighs.
#[test]
fn with_five_replicas_a_decision_lets_go_of_a_vote_only_once_a_majority_has_recorded_it() {
    let mut member = Member::of(0, 5);
    member.proposes(1, 1, NOTHING);
    member.decides(1, NOTHING);
    assert_eq!(member.runs(1), 0, "it holds its vote");
    let id = operation(1, OperationId::INCONSISTENT);
    member.replica.on_finalize_inconsistent(CLIENT, id, &mut member.desk);
    assert_eq!(member.runs(1), 1);
    member.decides(2, NOTHING);
    assert_eq!(member.runs(2), 1, "without a vote there is nothing to let go of, and nobody may ask again");
    member.decides(3, 50);
    assert_eq!(member.runs(3), 0, "a decision that leaves something behind waits in any case");
    member.proposes(4, 1, AT_ONCE);
    member.decides(4, AT_ONCE);
    assert_eq!(member.runs(4), 1, "but for one that the protocol lets run at once");
    member.desk.ledger.held.insert((transaction(5), NOTHING));
    member.proposes(5, 1, NOTHING);
    assert_eq!(member.verdict(5, 1), Some(false));
    member.decides(5, NOTHING);
    assert_eq!(member.runs(5), 1, "a vote against it holds nothing");
}

#[test]
fn a_decision_from_below_the_floor_is_not_taken_for_a_new_one() {
    let mut member = Member::new(0);
    member.decides(1, 5);
    member.collects(10);
    member.decides(1, 5);
    member.replica.learn(transaction(1), Decided { at: 5, last: 5 }, &mut member.desk);
    assert_eq!(member.runs(1), 1);
    assert!(!member.replica.record().holds(transaction(1)));
}

// Leading a view change

#[test]
fn a_replica_that_has_collected_less_than_others_does_not_lead() {
    let mut member = Member::new(1);
    member.is_handed(Contribution { floor: 5, complete: 5, ..Contribution::new(0, 1) });
    assert_eq!(member.replica.status(), Status::ViewChanging);
    assert_eq!(member.replica.view(), View(1), "the other one may have collected no more");
    member.replica.on_view_change_timeout(&mut member.desk);
    assert!(member.replica.view() > View(1), "somebody else is to lead");
}

/// Replica 1 of five, which was last normal in view 0, is to lead view 6. Those that have been normal since are ahead.
fn hears(ahead: &[u8], level: &[u8]) -> Member {
    let mut leader = Member::of(1, 5);
    let page = || votes(1, vec![vote(1, 50, true, State::Tentative)]);
    for from in ahead {
        let last_normal = Some(3);
        leader.is_handed(Contribution { last_normal, page: page(), ..Contribution::new(*from, 6) });
    }
    for from in level {
        leader.is_handed(Contribution::new(*from, 6));
    }
    leader
}

#[test]
fn who_is_ahead_is_not_needed_to_lead() {
    let leader = hears(&[0, 2], &[3, 4]);
    assert!(leader.is_normal_in(6), "what succeeded where two of five are, a third would know");
    assert!(!leader.replica.record().holds(transaction(1)), "and what they voted there is void");
    let sent_on = |to: u8| {
        leader.desk.sent.iter().any(|(other, message)| {
            *other == member(ReplicaIndex(to)) && matches!(message, Message::StartView { .. })
        })
    };
    assert!(sent_on(0) && sent_on(2), "they must come back to what the others have");
}

#[test]
fn while_others_may_come_that_are_not_ahead_a_leader_waits_for_them_but_not_for_long() {
    let mut leader = hears(&[0, 2], &[3]);
    assert_eq!(leader.replica.view(), View(6));
    leader.replica.on_view_change_timeout(&mut leader.desk);
    assert!(leader.replica.view() > View(6), "they have not come");
    let leader = hears(&[0, 2, 3], &[]);
    assert!(leader.replica.view() > View(6), "there are no such others");
    let mut leader = hears(&[0], &[]);
    leader.replica.on_view_change_timeout(&mut leader.desk);
    assert_eq!(leader.replica.view(), View(6), "two could not lead in any case");
    let mut leader = hears(&[], &[0]);
    leader.replica.on_view_change_timeout(&mut leader.desk);
    assert_eq!(leader.replica.view(), View(6), "nobody is ahead, so nobody else could lead sooner");
}

/// A transaction that it has collected is part of the base that the others share, and it cannot lead itself.
#[test]
fn a_replica_that_is_behind_does_not_keep_others_from_leading() {
    let mut leader = leader_that_others_missed();
    leader.is_handed(Contribution { floor: 5, complete: 5, ..Contribution::new(2, 4) });
    assert!(leader.is_normal_in(4));
}

/// A replica that had lost its record when it handed over nothing may have it back, and the other way round.
#[test]
fn of_what_a_replica_hands_over_the_last_counts() {
    let mut leader = Member::new(1);
    leader.is_handed(Contribution { last_normal: None, ..Contribution::new(0, 1) });
    assert!(!leader.is_normal_in(1));
    leader.is_handed(Contribution::new(0, 1));
    assert!(leader.is_normal_in(1));
}

#[test]
fn a_leader_says_so_if_too_many_have_lost_their_records() {
    let mut leader = Member::new(1);
    leader.is_handed(Contribution { last_normal: None, ..Contribution::new(0, 1) });
    assert!(leader.desk.lost.is_empty(), "one of three is not too many");
    leader.is_handed(Contribution { last_normal: None, ..Contribution::new(2, 1) });
    assert_eq!(leader.desk.lost, [2]);
    assert!(!leader.is_normal_in(1));
}

#[test]
fn promises_count_whichever_view_they_were_given_in() {
    let mut leader = leader_that_others_missed();
    leader.is_handed(Contribution { promise: 7, ..Contribution::new(2, 4) });
    assert!(leader.is_normal_in(4));
    assert_eq!(leader.desk.ledger.promise, 7);
}

#[test]
fn votes_of_earlier_views_do_not_count() {
    let mut leader = leader_that_others_missed();
    let page = votes(1, vec![vote(1, 50, true, State::Finalized(Ballot(0)))]);
    leader.is_handed(Contribution { page, ..Contribution::new(2, 4) });
    assert!(leader.is_normal_in(4));
    assert!(!leader.replica.record().holds(transaction(1)) && !leader.holds(1));
}

#[test]
fn what_was_handed_over_for_an_earlier_view_does_not_count() {
    let mut member = Member::new(1);
    member.joins(0, 4);
    member.is_handed(Contribution::new(0, 1));
    assert!(!member.is_normal_in(4), "replica 0 has said nothing of view 4 yet");
    member.is_handed(Contribution::new(0, 4));
    assert!(member.is_normal_in(4));
}

/// Two cuts of one record divide it otherwise: put together, parts of both may miss something that neither misses.
#[test]
fn parts_of_different_messages_are_not_put_together() {
    let mut leader = Member::new(1);
    let hand = |leader: &mut Member, series, index| {
        let part = Part { series, index, count: 2 };
        leader.replica.on_do_view_change(
            ReplicaIndex(0),
            View(1),
            Some(View(0)),
            vec![View(0)],
            part,
            RecordPage::default(),
            Outline::default(),
            0,
            at(0),
            at(0),
            &BTreeMap::new(),
            &mut leader.desk,
        );
    };
    hand(&mut leader, 1, 0);
    hand(&mut leader, 2, 1);
    assert!(!leader.is_normal_in(1));
    hand(&mut leader, 2, 0);
    assert!(leader.is_normal_in(1));

    let mut joiner = Member::new(2);
    let start = |joiner: &mut Member, series, index| {
        let part = Part { series, index, count: 2 };
        joiner.is_started_in(part);
    };
    start(&mut joiner, 1, 0);
    start(&mut joiner, 2, 1);
    assert!(!joiner.is_normal_in(1));
    start(&mut joiner, 2, 0);
    assert!(joiner.is_normal_in(1));
}

#[test]
fn a_vote_that_no_witness_bears_out_is_settled_anew() {
    let mut leader = Member::new(1);
    leader.proposes(1, 1, 50);
    assert!(leader.holds(1));
    leader.is_handed(Contribution::new(0, 1));
    assert!(leader.is_normal_in(1) && !leader.holds(1));
    assert_eq!(leader.verdict(1, 1), Some(false));
}

#[test]
fn what_has_run_needs_no_verdicts_any_more() {
    let mut leader = Member::new(1);
    leader.decides(1, 50);
    leader.is_handed(Contribution::new(0, 1));
    let page = votes(1, vec![vote(2, 60, true, State::Finalized(Ballot(0)))]);
    leader.is_handed(Contribution { page, last_normal: Some(1), ..Contribution::new(2, 4) });
    assert!(leader.is_normal_in(4) && !leader.holds(1));
    assert_eq!(leader.verdict(1, 2), None);
    assert_eq!(leader.runs(1), 1);
}

#[test]
fn what_ended_below_the_floor_is_not_merged_again() {
    let mut leader = Member::new(1);
    for sequence in 1..=2 {
        leader.decides(sequence, 5);
    }
    leader.collects(10);
    let mut page = decision(1, 5, true);
    page.entries.extend(votes(2, vec![vote(1, 5, true, State::Finalized(Ballot(0)))]).entries);
    leader.is_handed(Contribution { page, ..Contribution::new(0, 1) });
    assert!(leader.is_normal_in(1) && !leader.holds(2));
    assert_eq!((leader.runs(1), leader.runs(2)), (1, 1));
    assert!(leader.replica.record().is_empty());
}

#[test]
fn a_prepare_that_was_given_up_for_a_later_one_is_let_go() {
    let mut leader = Member::new(1);
    leader.proposes(1, 1, 50);
    let page = votes(1, vec![vote(2, 60, false, State::Tentative)]);
    leader.is_handed(Contribution { page, ..Contribution::new(0, 1) });
    assert!(leader.is_normal_in(1) && !leader.holds(1));
    assert_eq!(leader.verdict(1, 1), Some(false));
}

/// A coordinator that lies has proposed something else under the same number elsewhere.
#[test]
fn a_leader_lets_go_of_its_own_version_of_an_operation_that_has_several() {
    let mut leader = Member::new(1);
    leader.proposes(1, 1, 50);
    assert!(leader.holds(1));
    let page = votes(1, vec![vote(1, 60, false, State::Finalized(Ballot(0)))]);
    leader.is_handed(Contribution { page, ..Contribution::new(0, 1) });
    assert!(leader.is_normal_in(1) && !leader.holds(1));
    assert_eq!(leader.verdict(1, 1), Some(false));
}

/// It may have told somebody so. With the mistake the later operation counts, and the final one is let go.
#[test]
fn what_a_backup_coordinator_has_made_final_counts_and_not_a_later_prepare() {
    for mistake in [None, Some(Mistake::LatestOperationCounts)] {
        let mut leader = Member::new(1);
        leader.replica = leader.replica.with_mistake(mistake);
        leader.proposes(1, 1, 50);
        leader.finalizes(1, true, 0, 3);
        let page = votes(1, vec![vote(2, 60, false, State::Tentative)]);
        leader.is_handed(Contribution { page, ..Contribution::new(0, 1) });
        assert!(leader.is_normal_in(1));
        assert_eq!(leader.verdict(1, 1), Some(mistake.is_none()), "{mistake:?}");
    }
}

/// A replica that is behind may have made final what had not succeeded when others became complete.
#[test]
fn what_is_final_below_what_is_complete_is_asked_again_whether_it_may_have_succeeded() {
    let mut leader = Member::new(1);
    leader.desk.ledger.bounds.complete_below(at(10));
    let mut page = votes(1, vec![vote(1, 5, true, State::Finalized(Ballot(0)))]);
    page.entries.extend(votes(2, vec![vote(1, 15, true, State::Finalized(Ballot(0)))]).entries);
    leader.is_handed(Contribution { page, ..Contribution::new(0, 1) });
    assert_eq!((leader.verdict(1, 1), leader.verdict(2, 1)), (Some(false), Some(true)));
    assert!(!leader.holds(1) && leader.holds(2));
}

// Joining a view

#[test]
fn whoever_lacks_what_was_collected_is_given_state() {
    let mut leader = Member::new(1);
    leader.decides(1, 5);
    leader.decides(2, 15);
    leader.collects(10);
    leader.is_handed(Contribution { complete: 10, ..Contribution::new(0, 1) });
    leader.desk.sent.clear();
    leader.is_handed(Contribution { last_normal: Some(1), complete: 9, ..Contribution::new(2, 1) });
    leader.is_handed(Contribution { last_normal: Some(1), complete: 10, ..Contribution::new(0, 1) });
    let mut told = leader.desk.sent.iter().filter_map(|(to, message)| match message {
        Message::StartView { since, floor, state, page, .. } => Some((*to, *since, *floor, state, page)),
        _ => None,
    });
    let sent_to = |index| member(ReplicaIndex(index));
    let (to, since, floor, state, page) = told.next().expect("the one that is behind is answered");
    assert_eq!((to, since, floor), (sent_to(2), None, Some(at(10))), "and shares nothing any more");
    assert_eq!(state.as_ref(), Some(&BTreeSet::from([5])), "an operation above the floor is told as one");
    assert_eq!(page.entries.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [transaction(2)]);
    let all = told.by_ref().take_while(|(to, ..)| *to == sent_to(2)).count();
    assert!(all <= 1, "what lies above the floor follows");
}

/// Else it would be sent the beginning of something that it has no use for.
#[test]
fn what_was_made_for_a_receiver_is_sent_to_that_one_and_in_that_view() {
    let mut leader = Member::with_small_parts(1);
    leader.proposes(1, 1, 50);
    leader.proposes(2, 1, 60);
    leader.is_handed(Contribution::new(0, 1));
    assert!(leader.is_normal_in(1));
    leader.desk.sent.clear();
    let behind = |view| Contribution::new(2, view);
    let (view, since) = (View(1), Some(View(0)));
    leader.is_handed(behind(1));
    assert_eq!(leader.started(), [(view, since, 0, 2), (view, since, 1, 2)]);
    leader.is_handed(behind(1));
    assert_eq!(leader.started(), [(view, since, 0, 2)], "the rest is on its way, or will be asked for");
    leader.is_handed(Contribution { last_normal: None, ..behind(1) });
    assert_eq!(leader.started(), [(view, None, 0, 2), (view, None, 1, 2)], "it has lost its record");
    leader.is_handed(behind(1));
    leader.desk.sent.clear();

    leader.joins(0, 4);
    leader.is_handed(behind(4));
    assert!(leader.is_normal_in(4));
    let view = View(4);
    assert_eq!(leader.started(), [(view, since, 0, 2), (view, since, 1, 2)], "that was another view");
}

#[test]
fn what_has_arrived_in_part_is_asked_for_only_in_its_view() {
    let mut joiner = Member::new(2);
    let asks = |joiner: &mut Member| {
        joiner.desk.sent.clear();
        joiner.replica.on_view_change_timeout(&mut joiner.desk);
        joiner.desk.sent.iter().any(|(_, message)| matches!(message, Message::PartsMissing { .. }))
    };
    let part = Part { series: 7, index: 0, count: 2 };
    joiner.is_started_in(part);
    assert!(asks(&mut joiner));
    joiner.joins(0, 4);
    assert!(!asks(&mut joiner), "the leader of view 4 has sent nothing yet");
}

/// How often a replica that has been sent the first of so many parts looks in vain before it tries another view. The same part
/// comes again and again, so its sender is there; `new_after` looks the next one comes.
fn looks_in_vain(new_after: Option<usize>) -> usize {
    let mut joiner = Member::new(2);
    let part = |index| Part { series: 7, index, count: 3 };
    joiner.is_started_in(part(0));
    for looks in 1..100 {
        joiner.replica.on_view_change_timeout(&mut joiner.desk);
        if joiner.replica.view() > View(1) {
            return looks;
        }
        joiner.is_started_in(part(u32::from(new_after == Some(looks))));
    }
    panic!("it waits for ever");
}

#[test]
fn a_record_that_arrives_in_parts_is_waited_for_while_parts_arrive_that_are_new() {
    assert_eq!(looks_in_vain(None), 16, "four times as often as for a leader that is silent");
    assert_eq!(looks_in_vain(Some(10)), 26);
    let mut silent = Member::new(2);
    silent.is_started_in(Part { series: 7, index: 0, count: 3 });
    for _ in 0..4 {
        assert_eq!(silent.replica.view(), View(1));
        silent.replica.on_view_change_timeout(&mut silent.desk);
    }
    assert!(silent.replica.view() > View(1));
}

#[test]
fn a_record_that_builds_on_an_unknown_base_is_not_taken() {
    let mut member = Member::new(2);
    member.is_started(Start {
        view: 8,
        since: Some(7),
        page: RecordPage::default(),
        floor: None,
        state: None,
    });
    assert!(!member.is_normal_in(8));
    assert_eq!(member.desk.timer, Some(250), "it hands its record over again");
    member.is_started(Start {
        view: 8,
        since: Some(0),
        page: RecordPage::default(),
        floor: None,
        state: None,
    });
    assert!(member.is_normal_in(8));
}

#[test]
fn state_from_below_the_own_floor_is_not_taken() {
    let mut member = Member::new(2);
    member.collects(10);
    let start = |floor| Start {
        view: 1,
        since: None,
        page: RecordPage::default(),
        floor: Some(floor),
        state: Some(BTreeSet::new()),
    };
    member.is_started(start(9));
    assert!(!member.is_normal_in(1));
    member.is_started(start(10));
    assert!(member.is_normal_in(1));
}

#[test]
fn state_replaces_what_was_there_below_its_floor_and_nothing_above() {
    let mut member = Member::new(2);
    member.decides(1, 5);
    member.decides(2, 15);
    member.proposes(3, 1, 7);
    member.proposes(4, 1, 17);
    let state = Some(BTreeSet::from([4]));
    member.is_started(Start { view: 1, since: None, page: RecordPage::default(), floor: Some(10), state });
    assert!(member.is_normal_in(1));
    assert_eq!(member.desk.ledger.stored, BTreeSet::from([4, 15]));
    assert_eq!(member.desk.ledger.bounds.floor, at(10));
    let record = member.replica.record();
    assert!(!record.holds(transaction(1)) && record.holds(transaction(2)), "a fact above it stays one");
    assert!(!member.holds(3) && !member.holds(4), "the view says which votes stand");
}

#[test]
fn a_vote_that_a_view_drops_lets_go_of_what_it_held() {
    let mut member = Member::new(2);
    member.proposes(1, 1, 50);
    member.is_started(Start {
        view: 1,
        since: Some(0),
        page: RecordPage::default(),
        floor: None,
        state: None,
    });
    assert!(member.is_normal_in(1) && !member.holds(1));
    assert_eq!(member.verdict(1, 1), None);
}

#[test]
fn what_is_settled_here_is_not_taken_from_a_leader_that_has_not_collected_it() {
    let mut member = Member::new(2);
    member.decides(1, 5);
    member.collects(10);
    let mut page = decision(1, 5, true);
    page.entries.extend(votes(2, vec![vote(1, 6, true, State::Finalized(Ballot(0)))]).entries);
    member.is_started(Start { view: 1, since: Some(0), page, floor: None, state: None });
    assert!(member.is_normal_in(1) && !member.holds(2));
    assert_eq!(member.runs(1), 1);
    assert!(member.replica.record().is_empty());
}

#[test]
fn what_has_run_here_is_not_held_again() {
    let mut member = Member::new(2);
    member.decides(1, 50);
    let page = votes(1, vec![vote(1, 50, true, State::Finalized(Ballot(0)))]);
    member.is_started(Start { view: 1, since: Some(0), page, floor: None, state: None });
    assert!(member.is_normal_in(1) && !member.holds(1));
}

#[test]
fn whoever_is_given_everything_claims_no_ancestors() {
    let mut member = Member::new(2);
    member.is_started(Start { view: 1, since: None, page: RecordPage::default(), floor: None, state: None });
    assert_eq!(member.replica.record().lineage(), [View(1)]);
}

#[test]
fn a_view_that_is_started_twice_is_adopted_once() {
    let start = || Start { view: 1, since: Some(0), page: RecordPage::default(), floor: None, state: None };
    let mut member = Member::new(2);
    member.is_started(start());
    member.proposes(1, 1, 50);
    member.is_started(start());
    assert_eq!(member.verdict(1, 1), Some(true), "it was voted for in the view itself");
}
