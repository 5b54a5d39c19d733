//! The search for a floor, one answer at a time: what holds it up, and who must have said what before it is raised. After
//! each step a restart would find all of it.

mod participants;

use std::sync::Arc;
use std::time::Duration;

use quorate_core::command::Outcome;
use quorate_core::machine::{InputOf, OutboxOf};
use quorate_core::replay;
use quorate_core::{
    Address, ClientId, ClockTime, Context, Effect, Epoch, GroupSize, Input, Instant, Key, Machine, Outbox,
    Random, ReplicaId, ReplicaIndex, ShardId, Timestamp, Transaction, TransactionId, View, Write,
};
use quorate_ir::{Message as Ir, OperationId};
use quorate_tapir::message::{Decision, Prepare};
use quorate_tapir::{Boot, Message, Record, Replica, ReplicaConfig, ReplicaTimer};

const CLIENT: ClientId = ClientId(7);
const CLOCK_MICROS: u64 = 1_000_000;

/// Where the floor may come to lie.
const BELOW: Timestamp = Timestamp { micros: CLOCK_MICROS, client: ClientId(0) };

fn id(sequence: u64) -> TransactionId {
    TransactionId { client: CLIENT, sequence, attempt: 0 }
}

/// Each transaction has a timestamp of its own.
fn cursor(sequence: u64) -> (Timestamp, TransactionId) {
    (Timestamp { micros: sequence, client: CLIENT }, id(sequence))
}

fn contents(participants: &[u32]) -> Arc<Transaction> {
    let write = Write { key: Key::from("a"), value: None };
    let participants = participants.iter().copied().map(ShardId).collect();
    Arc::new(Transaction { participants, writes: vec![write], ..Transaction::default() })
}

fn member(shard: u32, index: u8) -> ReplicaId {
    ReplicaId { shard: ShardId(shard), index: ReplicaIndex(index) }
}

/// Replica 0 of shard 1, which looks for floors as the leader of view 0.
struct Leader {
    config: ReplicaConfig,
    replica: Replica,
    now: Instant,
    clock_micros: u64,
    persisted: Vec<Record>,
}

impl Leader {
    fn new(replicas: usize) -> Self {
        Leader::with(replicas, |_| {})
    }

    /// A leader with another configuration.
    fn with(replicas: usize, change: impl FnOnce(&mut ReplicaConfig)) -> Self {
        let mut config = ReplicaConfig {
            checkpoint_interval: Duration::from_secs(1),
            checkpoint_lag: Duration::ZERO,
            ..ReplicaConfig::new(member(1, 0), GroupSize::new(replicas).unwrap(), Boot::Initialise)
        };
        change(&mut config);
        let replica = Replica::restore(config.clone(), []);
        let (now, clock_micros) = (Instant::START, CLOCK_MICROS);
        let mut leader = Leader { config, replica, now, clock_micros, persisted: Vec::new() };
        leader.step(Input::Start);
        leader
    }

    fn step(&mut self, input: InputOf<Replica>) -> Vec<(Address, Message)> {
        let mut outbox: OutboxOf<Replica> = Outbox::new();
        let (clock, mut random) = (ClockTime::from_micros(self.clock_micros), Random::new(1));
        self.replica.step(&mut Context { now: self.now, clock, random: &mut random }, input, &mut outbox);
        let mut said = Vec::new();
        for effect in outbox.drain() {
            match effect {
                Effect::Send { to, message } => said.push((to, message)),
                Effect::Persist { record, .. } => self.persisted.push(record),
                _ => {}
            }
        }
        let restarted = replay::rebuild::<Replica>(self.config.clone(), self.persisted.clone());
        let lost = self.replica.handover().lost_in(&restarted.handover());
        assert!(lost.is_empty(), "a restart would lose {lost:?}");
        said
    }

    fn hears(&mut self, from: impl Into<Address>, message: Message) -> Vec<(Address, Message)> {
        self.step(Input::Message { from: from.into(), epoch: Epoch::FIRST, message })
    }

    /// Begins to look for a floor.
    fn looks(&mut self) {
        for _ in 0..2 {
            self.now = self.now + Duration::from_secs(1);
            self.step(Input::Timer(ReplicaTimer::Sweep));
        }
    }

    fn commits(&mut self, sequence: u64, participants: &[u32]) {
        let id = OperationId { transaction: id(sequence), number: OperationId::INCONSISTENT };
        let (timestamp, _) = cursor(sequence);
        let operation = Decision::Commit { transaction: contents(participants), timestamp, last: timestamp };
        self.hears(CLIENT, Message::Ir(Ir::ProposeInconsistent { id, operation }));
    }

    fn prepares(&mut self, sequence: u64) {
        let id = OperationId { transaction: id(sequence), number: 1 };
        let (timestamp, _) = cursor(sequence);
        let operation = Prepare { transaction: contents(&[1]), timestamp, first: None };
        self.hears(CLIENT, Message::Ir(Ir::ProposeConsensus { id, operation }));
    }

    /// Another replica tells all that it has below.
    fn is_told(&mut self, index: u8, executed: &[u64], open: &[u64]) -> Vec<(Address, Message)> {
        let list = |sequences: &[u64]| sequences.iter().copied().map(cursor).collect();
        let reply = Message::GatherReply {
            view: View(0),
            below: BELOW,
            from: (Timestamp::ZERO, TransactionId::default()),
            executed: list(executed),
            open: list(open),
            next: None,
        };
        self.hears(member(1, index), reply)
    }

    fn is_answered(&mut self, index: u8, nonce: u64, view: u64) -> Vec<(Address, Message)> {
        let (view, missing) = (View(view), Vec::new());
        self.hears(member(2, index), Message::AreDecidedReply { nonce, view, missing })
    }

    fn refuses(&self) -> bool {
        self.persisted.iter().any(|record| matches!(record, Record::Refusing { below } if *below == BELOW))
    }
}

/// True if a replica has chosen a floor, and asks others to note that they are complete below it.
fn has_chosen(said: &[(Address, Message)]) -> bool {
    said.iter().any(|(_, message)| matches!(message, Message::Complete { below, .. } if *below == BELOW))
}

#[test]
fn a_floor_is_raised_when_a_majority_is_complete() {
    let mut leader = Leader::new(3);
    leader.looks();
    assert!(!leader.refuses(), "its own clock may be the wild one");
    assert!(!has_chosen(&leader.is_told(1, &[], &[])));
    assert!(leader.refuses());
    assert!(has_chosen(&leader.is_told(2, &[], &[])));
    assert_eq!(leader.replica.floor(), Timestamp::ZERO);
    leader.hears(member(1, 1), Message::CompleteReply { view: View(0), below: BELOW });
    assert_eq!(leader.replica.floor(), BELOW);
}

/// A leader that searches by itself only after an hour, for a floor an hour ago, unless much has ended.
fn leader_under_pressure(bytes_max: usize) -> Leader {
    let hour = Duration::from_secs(3_600);
    let mut leader = Leader::new(3);
    leader.config = ReplicaConfig {
        checkpoint_interval: hour,
        checkpoint_lag: hour,
        checkpoint_bytes_max: bytes_max,
        checkpoint_lag_min: Duration::from_micros(100),
        ..leader.config
    };
    leader.replica = Replica::restore(leader.config.clone(), []);
    leader.persisted.clear();
    leader.step(Input::Start);
    leader.commits(5, &[1]);
    leader
}

/// The floors that a leader asks the others about.
fn sought(leader: &mut Leader) -> Vec<u64> {
    leader.now = leader.now + Duration::from_secs(1);
    let said = leader.step(Input::Timer(ReplicaTimer::Sweep));
    let below = said.iter().filter_map(|(_, message)| match message {
        Message::Gather { below, .. } => Some(below.micros),
        _ => None,
    });
    below.collect()
}

#[test]
fn a_floor_is_sought_at_once_and_nearer_where_more_has_ended_than_is_to_be_remembered() {
    let mut leader = leader_under_pressure(1_000_000);
    assert_eq!(sought(&mut leader), [], "there is time");
    let mut leader = leader_under_pressure(1);
    // Of all that has ended nothing lies above the end of the eighth of a second in which the commit stands.
    assert_eq!(sought(&mut leader), [1 << 17; 2]);
    let mut leader = leader_under_pressure(1);
    leader.commits(CLOCK_MICROS - 50, &[1]);
    assert_eq!(sought(&mut leader), [CLOCK_MICROS - 100; 2], "no nearer than this");
}

#[test]
fn what_one_has_and_another_lacks_holds_a_floor_up() {
    let mut leader = Leader::new(3);
    leader.looks();
    leader.is_told(1, &[], &[]);
    let said = leader.is_told(2, &[5], &[]);
    assert!(!has_chosen(&said), "{said:?}");
    assert!(said.iter().any(|(_, message)| matches!(message, Message::FetchDecisions { .. })));
    let ((timestamp, transaction), contents) = (cursor(5), contents(&[1]));
    let decision = Decision::Commit { transaction: contents, timestamp, last: timestamp };
    leader.hears(member(1, 2), Message::Decisions { decisions: vec![(transaction, decision)] });
    assert_eq!(leader.replica.outcome(transaction), Some(Outcome::Committed(timestamp)));

    let mut leader = Leader::new(3);
    leader.commits(5, &[1]);
    leader.looks();
    leader.is_told(1, &[5], &[]);
    let said = leader.is_told(2, &[], &[]);
    assert!(!has_chosen(&said), "{said:?}");
    assert!(said.iter().any(|(_, message)| matches!(message, Message::Decisions { .. })));
}

#[test]
fn what_can_still_commit_anywhere_holds_a_floor_up() {
    let mut leader = Leader::new(3);
    leader.looks();
    leader.is_told(1, &[], &[]);
    assert!(!has_chosen(&leader.is_told(2, &[], &[5])));

    let mut leader = Leader::new(3);
    leader.prepares(5);
    leader.looks();
    leader.is_told(1, &[], &[]);
    assert!(!has_chosen(&leader.is_told(2, &[], &[])));
}

#[test]
fn what_commits_meanwhile_is_compared_once_more() {
    let mut leader = Leader::new(3);
    leader.looks();
    leader.is_told(1, &[], &[]);
    leader.commits(5, &[1]);
    assert!(!has_chosen(&leader.is_told(2, &[5], &[])), "replica 1 may not have it");
}

/// With f > 1 the answers of some come before it refuses anything itself.
#[test]
fn what_commits_before_it_refuses_is_compared_once_more() {
    let mut leader = Leader::new(5);
    leader.looks();
    leader.is_told(1, &[], &[]);
    assert!(!leader.refuses());
    leader.commits(5, &[1]);
    let id = OperationId { transaction: id(5), number: OperationId::INCONSISTENT };
    leader.hears(CLIENT, Message::Ir(Ir::FinalizeInconsistent { id }));
    for index in 2..5 {
        assert!(!has_chosen(&leader.is_told(index, &[5], &[])), "replica 1 may not have it");
    }
    assert!(leader.refuses());
}

#[test]
fn commits_are_forgotten_once_a_majority_of_every_participant_knows_them() {
    let mut leader = Leader::new(3);
    leader.commits(5, &[1, 2]);
    leader.looks();
    leader.is_told(1, &[5], &[]);
    let said = leader.is_told(2, &[5], &[]);
    assert!(!has_chosen(&said), "{said:?}");
    let asked = |(to, message): &(Address, Message)| match message {
        Message::AreDecided { nonce, .. } if *to == member(2, 0).into() => Some(*nonce),
        _ => None,
    };
    let nonce = said.iter().find_map(asked).expect("the other participant is asked");
    assert!(!has_chosen(&leader.is_answered(0, nonce, 0)));
    assert!(!has_chosen(&leader.is_answered(1, nonce, 1)), "two views are no majority");
    assert!(has_chosen(&leader.is_answered(2, nonce, 1)));
}

#[test]
fn a_floor_is_raised_only_where_this_replica_is_complete() {
    let mut follower = Leader::new(3);
    let complete = |view| Message::Complete { view: View(view), below: BELOW };
    for message in [Message::RaiseFloor { floor: BELOW }, complete(7), Message::RaiseFloor { floor: BELOW }] {
        follower.hears(member(1, 1), message);
        assert_eq!(follower.replica.floor(), Timestamp::ZERO, "another view has compared other records");
    }
    for message in [complete(0), Message::RaiseFloor { floor: BELOW }] {
        follower.hears(member(1, 1), message);
    }
    assert_eq!(follower.replica.floor(), BELOW);
}

/// With f > 1 it may be the only one that has recorded it.
#[test]
fn a_decision_that_has_not_run_is_passed_on_to_nobody() {
    let mut replica = Leader::new(5);
    replica.commits(5, &[1]);
    let fetch = || Message::FetchDecisions { transactions: vec![id(5)] };
    assert!(replica.hears(member(1, 1), fetch()).is_empty());
    let id = OperationId { transaction: id(5), number: OperationId::INCONSISTENT };
    replica.hears(CLIENT, Message::Ir(Ir::FinalizeInconsistent { id }));
    let said = replica.hears(member(1, 1), fetch());
    assert!(matches!(said[..], [(_, Message::Decisions { .. })]), "{said:?}");
}

fn gather(floor: Timestamp, below: Timestamp) -> Message {
    Message::Gather { view: View(0), floor, below, from: (floor, TransactionId::default()) }
}

fn answers(said: &[(Address, Message)]) -> bool {
    said.iter().any(|(_, message)| matches!(message, Message::GatherReply { .. }))
}

/// It would refuse everything for as long as that clock is ahead.
#[test]
fn a_clock_far_ahead_drags_nobody_along() {
    let mut follower = Leader::new(3);
    let half = (follower.config.timestamp_ahead_max / 2).as_micros() as u64;
    let at = |micros| Timestamp { micros, client: ClientId(0) };
    let said = follower.hears(member(1, 1), gather(Timestamp::ZERO, at(CLOCK_MICROS + half + 1)));
    assert!(said.is_empty() && follower.persisted.len() == 1, "{said:?}");
    assert!(answers(&follower.hears(member(1, 1), gather(Timestamp::ZERO, at(CLOCK_MICROS + half)))));
}

/// A transaction that it lacks below the floor of the replica that asks has been collected there, and would be compared with nothing.
#[test]
fn whoever_lacks_what_others_have_collected_is_compared_with_nobody() {
    let mut follower = Leader::new(3);
    let floor = Timestamp { micros: CLOCK_MICROS / 2, client: ClientId(0) };
    assert!(!answers(&follower.hears(member(1, 1), gather(floor, BELOW))));
    assert_eq!(follower.replica.floor(), Timestamp::ZERO);
    follower.hears(member(1, 1), Message::Complete { view: View(0), below: floor });
    assert!(answers(&follower.hears(member(1, 1), gather(floor, BELOW))));
    assert_eq!(follower.replica.floor(), floor, "it is complete, so it takes the floor over");
}

#[test]
fn an_answer_about_another_page_does_not_count() {
    let mut leader = Leader::new(3);
    leader.looks();
    leader.is_told(1, &[], &[]);
    let reply = Message::GatherReply {
        view: View(0),
        below: BELOW,
        from: cursor(7),
        executed: Vec::new(),
        open: Vec::new(),
        next: None,
    };
    assert!(!has_chosen(&leader.hears(member(1, 2), reply)), "nothing was told of what lies before");
    assert!(has_chosen(&leader.is_told(2, &[], &[])));
}

#[test]
fn a_floor_is_raised_to_what_was_chosen_and_to_nothing_else() {
    let mut leader = Leader::new(3);
    leader.looks();
    leader.is_told(1, &[], &[]);
    leader.is_told(2, &[], &[]);
    let other = Timestamp { micros: BELOW.micros - 1, ..BELOW };
    leader.hears(member(1, 1), Message::CompleteReply { view: View(0), below: other });
    leader.hears(member(1, 1), Message::CompleteReply { view: View(3), below: BELOW });
    assert_eq!(leader.replica.floor(), Timestamp::ZERO);
    leader.hears(member(1, 1), Message::CompleteReply { view: View(0), below: BELOW });
    assert_eq!(leader.replica.floor(), BELOW);
}

/// The replicas that are asked when the leader sweeps, and below which timestamp.
fn asked_at_sweep(leader: &mut Leader) -> Vec<(u8, u64)> {
    let said = leader.step(Input::Timer(ReplicaTimer::Sweep));
    let asked = |(to, message): &(Address, Message)| match (to, message) {
        (Address::Replica(to), Message::Gather { below, .. }) => Some((to.index.0, below.micros)),
        _ => None,
    };
    said.iter().filter_map(asked).collect()
}

/// One of another view has compared another record, and one that refuses below an earlier timestamp lets operations in that this floor
/// would pass.
#[test]
fn an_answer_counts_for_the_view_and_the_floor_that_were_asked_about() {
    let earlier = Timestamp { micros: BELOW.micros - 1, ..BELOW };
    let mut leader = Leader::new(3);
    leader.looks();
    leader.is_told(1, &[], &[]);
    for (view, below) in [(1, BELOW), (0, earlier)] {
        let reply = Message::GatherReply {
            view: View(view),
            below,
            from: (Timestamp::ZERO, TransactionId::default()),
            executed: Vec::new(),
            open: Vec::new(),
            next: None,
        };
        assert!(!has_chosen(&leader.hears(member(1, 2), reply)), "{view:?} {below:?}");
    }
    assert!(has_chosen(&leader.is_told(2, &[], &[])));
}

#[test]
fn a_replica_that_has_been_compared_to_the_end_is_not_asked_again_and_others_are() {
    let mut leader = Leader::new(3);
    leader.looks();
    assert_eq!(asked_at_sweep(&mut leader), [1, 2].map(|index| (index, BELOW.micros)));
    leader.is_told(1, &[], &[]);
    assert_eq!(asked_at_sweep(&mut leader), [(2, BELOW.micros)]);
    leader.is_told(2, &[], &[5]);
    assert_eq!(asked_at_sweep(&mut leader), [(2, BELOW.micros)], "what is open there may have ended by now");
    let mut leader = Leader::new(3);
    leader.looks();
    leader.is_told(1, &[], &[]);
    leader.is_told(2, &[], &[]);
    assert_eq!(asked_at_sweep(&mut leader), [], "the floor is chosen");
}

/// A search also tells a member that was away that it is behind.
#[test]
fn an_idle_leader_searches_until_every_member_is_complete_and_then_no_more() {
    let mut leader = Leader::new(3);
    leader.looks();
    leader.is_told(1, &[], &[]);
    leader.is_told(2, &[], &[]);
    leader.hears(member(1, 1), Message::CompleteReply { view: View(0), below: BELOW });
    assert_eq!(leader.replica.floor(), BELOW);
    let later = |leader: &mut Leader| {
        leader.clock_micros += 1_000_000;
        leader.now = leader.now + Duration::from_secs(2);
        asked_at_sweep(leader)
    };
    let below = Timestamp { micros: BELOW.micros - 1, ..BELOW };
    leader.hears(member(1, 2), Message::CompleteReply { view: View(0), below });
    let sought = later(&mut leader);
    assert!(sought.is_empty() || sought.len() == 2, "{sought:?}");
    assert_eq!(later(&mut leader).len(), 2, "replica 2 may be behind, whatever it was complete below before");

    let mut leader = Leader::new(3);
    leader.looks();
    leader.is_told(1, &[], &[]);
    leader.is_told(2, &[], &[]);
    for index in [1, 2] {
        leader.hears(member(1, index), Message::CompleteReply { view: View(0), below: BELOW });
    }
    for _ in 0..5 {
        assert_eq!(later(&mut leader), [], "there is nothing to be forgotten");
    }
    leader.commits(CLOCK_MICROS + 100, &[1]);
    later(&mut leader);
    assert_eq!(later(&mut leader).len(), 2);
}

#[test]
fn a_search_that_takes_too_long_is_begun_anew_with_a_later_floor() {
    let mut leader = Leader::new(3);
    leader.looks();
    leader.is_told(1, &[], &[]);
    leader.clock_micros += 500_000;
    assert_eq!(asked_at_sweep(&mut leader), [(2, BELOW.micros)], "it has its time");
    leader.now = leader.now + Duration::from_secs(3_600);
    let again = asked_at_sweep(&mut leader);
    assert_eq!(again, [1, 2].map(|index| (index, BELOW.micros + 500_000)));
}

/// The replicas of the other participant that are asked, and how many others are asked to recover something.
fn asked_elsewhere(said: &[(Address, Message)]) -> (Vec<u8>, usize) {
    let asked = |(to, message): &(Address, Message)| match (to, message) {
        (Address::Replica(to), Message::AreDecided { .. }) if to.shard == ShardId(2) => Some(to.index.0),
        _ => None,
    };
    let recovers = said.iter().filter(|(_, message)| matches!(message, Message::Recover { .. })).count();
    (said.iter().filter_map(asked).collect(), recovers)
}

fn nonce_of(said: &[(Address, Message)]) -> Option<u64> {
    said.iter().find_map(|(_, message)| match message {
        Message::AreDecided { nonce, .. } => Some(*nonce),
        _ => None,
    })
}

/// A leader that asks the other participant whether it knows a commit.
fn asking() -> (Leader, u64) {
    let mut leader = Leader::new(3);
    leader.commits(5, &[1, 2]);
    leader.looks();
    leader.is_told(1, &[5], &[]);
    let said = leader.is_told(2, &[5], &[]);
    assert_eq!(asked_elsewhere(&said).0, [0, 1, 2]);
    let nonce = nonce_of(&said).unwrap();
    (leader, nonce)
}

#[test]
fn another_participant_is_asked_again_as_far_as_it_has_not_answered_for_all() {
    let (mut leader, nonce) = asking();
    let sweep = |leader: &mut Leader| asked_elsewhere(&leader.step(Input::Timer(ReplicaTimer::Sweep)));
    assert_eq!(sweep(&mut leader), (vec![0, 1, 2], 0), "nobody has answered");
    leader.is_answered(0, nonce, 0);
    assert_eq!(sweep(&mut leader), (vec![1, 2], 0));
    let lacking = Message::AreDecidedReply { nonce, view: View(0), missing: vec![id(5)] };
    leader.hears(member(2, 1), lacking);
    assert_eq!(sweep(&mut leader), (vec![1, 2], 1), "a majority has answered, and does not know it");
    assert!(!has_chosen(&leader.is_answered(1, nonce + 1, 0)), "another question");
    assert!(!has_chosen(&leader.is_answered(7, nonce, 0)), "no member");
    assert!(has_chosen(&leader.is_answered(1, nonce, 0)), "now it does");
    assert_eq!(sweep(&mut leader), (vec![], 0));
}

/// The confirmations of the others stay; the commit that came late is asked about.
#[test]
fn a_commit_that_comes_late_is_asked_about_in_another_question() {
    let (mut leader, nonce) = asking();
    leader.commits(3, &[1, 2]);
    for index in [1, 2] {
        let reply = Message::GatherReply {
            view: View(0),
            below: BELOW,
            from: (cursor(3).0, TransactionId::default()),
            executed: vec![cursor(3), cursor(5)],
            open: Vec::new(),
            next: None,
        };
        leader.step(Input::Timer(ReplicaTimer::Sweep));
        let said = leader.hears(member(1, index), reply);
        assert!(!has_chosen(&said));
        if index == 2 {
            let later = nonce_of(&said).expect("the other participant is asked anew");
            assert!(later > nonce);
            assert!(!has_chosen(&leader.is_answered(0, nonce, 0)), "an answer to the question before");
            leader.is_answered(1, later, 0);
            assert!(has_chosen(&leader.is_answered(2, later, 0)));
        }
    }
}

/// It has missed how the transaction ended, and comes back current by a view change.
#[test]
fn a_replica_that_holds_what_everybody_has_forgotten_is_behind() {
    let leaves = |prepares: bool| {
        let mut replica = Leader::new(3);
        if prepares {
            replica.prepares(5);
        }
        replica.hears(member(1, 1), Message::Forgotten { transaction: id(5) });
        replica.now = replica.now + Duration::from_secs(100);
        let said = replica.step(Input::Timer(ReplicaTimer::Sweep));
        said.iter().any(|(_, message)| matches!(message, Message::Ir(Ir::StartViewChange { .. })))
    };
    assert_eq!([true, false].map(leaves), [true, false]);
}

/// A shard that forgets a commit asks whether the others have it recorded, or have forgotten it, too.
#[test]
fn other_participants_are_told_which_commits_are_missing() {
    let mut replica = Leader::new(3);
    let asks = |replica: &mut Leader, from: Address, sequences: &[u64]| {
        let transactions = sequences.iter().copied().map(cursor).collect();
        replica.hears(from, Message::AreDecided { nonce: 7, transactions })
    };
    let missing = |said: Vec<(Address, Message)>| match &said[..] {
        [(to, Message::AreDecidedReply { nonce: 7, view: View(0), missing })] => {
            assert_eq!(*to, Address::from(member(2, 1)));
            missing.iter().map(|id| id.sequence).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    let other = Address::from(member(2, 1));
    replica.commits(5, &[1, 2]);
    replica.prepares(6);
    assert_eq!(missing(asks(&mut replica, other, &[5, 6, 7])), [6, 7], "a vote is no outcome");
    assert!(asks(&mut replica, CLIENT.into(), &[5]).is_empty(), "only replicas ask");
    let floor = Timestamp { micros: 7, client: ClientId(0) };
    replica.commits(6, &[1]);
    replica.hears(member(1, 1), Message::Complete { view: View(0), below: floor });
    replica.hears(member(1, 1), Message::RaiseFloor { floor });
    replica.step(Input::Timer(ReplicaTimer::Sweep));
    assert_eq!(replica.replica.outcome(id(5)), None, "it is collected");
    assert_eq!(missing(asks(&mut replica, other, &[4, 5, 6, 7])), [7], "the floor has passed the others");
    replica.hears(member(1, 1), Message::Ir(Ir::StartViewChange { view: View(1) }));
    assert!(asks(&mut replica, other, &[5]).is_empty(), "it is silent");
}
