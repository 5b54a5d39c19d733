//! A backup coordinator that was cut off comes back when another has settled the transaction.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::command::Outcome;
use quorate_core::machine::OutboxOf;
use quorate_core::{
    Address, Ballot, ClientId, ClockTime, Context, Effect, Epoch, GroupSize, Input, Instant, Key, Machine,
    Outbox, Random, ReplicaId, ReplicaIndex, ShardId, Timestamp, Transaction, TransactionId, View, Write,
};
use quorate_ir::{Message as Ir, OperationId, Outline, Part, RecordPage};
use quorate_tapir::message::{Decision, Prepare, Supplement, Vote};
use quorate_tapir::{Boot, Message, Replica, ReplicaConfig, ReplicaTimer};

const TRANSACTION: TransactionId = TransactionId { client: ClientId(7), sequence: 1, attempt: 0 };
const TIMESTAMP: Timestamp = Timestamp { micros: 50, client: ClientId(7) };

fn member(index: u8) -> ReplicaId {
    ReplicaId { shard: ShardId(1), index: ReplicaIndex(index) }
}

fn hears(replica: &mut Replica, from: u8, message: Message) -> OutboxOf<Replica> {
    hears_at(replica, from, message, 1_000)
}

fn hears_at(replica: &mut Replica, from: u8, message: Message, clock_micros: u64) -> OutboxOf<Replica> {
    steps(replica, Address::Replica(member(from)), message, clock_micros)
}

fn steps(replica: &mut Replica, from: Address, message: Message, clock_micros: u64) -> OutboxOf<Replica> {
    let mut outbox = Outbox::new();
    let (clock, mut random) = (ClockTime::from_micros(clock_micros), Random::new(1));
    let mut context = Context { now: Instant::START, clock, random: &mut random };
    replica.step(&mut context, Input::Message { from, epoch: Epoch::FIRST, message }, &mut outbox);
    outbox
}

/// The client that began the transaction speaks.
fn says(replica: &mut Replica, message: Message, clock_micros: u64) -> OutboxOf<Replica> {
    steps(replica, Address::Client(TRANSACTION.client), message, clock_micros)
}

#[test]
fn a_late_backup_coordinator_gets_no_agreement_on_another_outcome() {
    let group = GroupSize::new(3).expect("three is odd");
    let config = ReplicaConfig::new(member(0), group, Boot::Initialise);
    let mut replica = Replica::restore(config, []);
    let late =
        Message::CoordinatorChange { transaction: TRANSACTION, ballot: Ballot(3), timestamp: TIMESTAMP };
    hears(&mut replica, 2, late);
    let later =
        Message::CoordinatorChange { transaction: TRANSACTION, ballot: Ballot(4), timestamp: TIMESTAMP };
    hears(&mut replica, 1, later);
    let commit = Ir::ProposeInconsistent {
        id: OperationId { transaction: TRANSACTION, number: OperationId::INCONSISTENT },
        operation: Decision::Commit {
            transaction: Arc::new(Transaction::default()),
            timestamp: TIMESTAMP,
            last: TIMESTAMP,
        },
    };
    hears(&mut replica, 1, Message::Ir(commit));
    assert_eq!(replica.outcome(TRANSACTION), Some(Outcome::Committed(TIMESTAMP)));

    let record = |outcome| Message::RecordOutcome { transaction: TRANSACTION, ballot: Ballot(3), outcome };
    let answer = hears(&mut replica, 2, record(Outcome::Aborted));
    let refusal = Message::Superseded { transaction: TRANSACTION, promised: Ballot(4) };
    assert_eq!(answer.effects(), [Effect::Send { to: member(2).into(), message: refusal }]);

    let answer = hears(&mut replica, 2, record(Outcome::Committed(TIMESTAMP)));
    assert!(
        matches!(answer.effects(), [Effect::Send { message: Message::RecordOutcomeReply { .. }, .. }]),
        "with the right outcome there is nothing wrong"
    );
}

/// A replica that has promised ballot 3, then ballot 4, and has executed what the coordinator under 4 decided.
fn settled_otherwise() -> Replica {
    let group = GroupSize::new(3).expect("three is odd");
    let mut replica = Replica::restore(ReplicaConfig::new(member(0), group, Boot::Initialise), []);
    for (from, ballot) in [(2, 3), (1, 4)] {
        let ballot = Ballot(ballot);
        let change = Message::CoordinatorChange { transaction: TRANSACTION, ballot, timestamp: TIMESTAMP };
        hears(&mut replica, from, change);
    }
    let transaction = Arc::new(Transaction::default());
    let commit = Decision::Commit { transaction, timestamp: TIMESTAMP, last: TIMESTAMP };
    let id = OperationId { transaction: TRANSACTION, number: OperationId::INCONSISTENT };
    hears(&mut replica, 1, Message::Ir(Ir::ProposeInconsistent { id, operation: commit }));
    replica
}

/// Has the replica collect what lies below a floor.
fn collects_below(replica: &mut Replica, floor: Timestamp) {
    let (view, from) = (View(0), (Timestamp::ZERO, TransactionId::default()));
    hears(replica, 1, Message::Gather { view, floor: Timestamp::ZERO, below: floor, from });
    hears(replica, 1, Message::Complete { view, below: floor });
    hears(replica, 1, Message::RaiseFloor { floor });
    wakes(replica, 2_000);
    assert_eq!((replica.floor(), replica.outcome(TRANSACTION)), (floor, None), "it is collected");
}

fn wakes(replica: &mut Replica, clock_micros: u64) {
    let (clock, mut random) = (ClockTime::from_micros(clock_micros), Random::new(1));
    let now = Instant::START + Duration::from_micros(clock_micros);
    let mut context = Context { now, clock, random: &mut random };
    replica.step(&mut context, Input::Timer(ReplicaTimer::Sweep), &mut Outbox::new());
}

#[test]
fn what_was_collected_is_not_decided_again() {
    let mut replica = settled_otherwise();
    collects_below(&mut replica, Timestamp { micros: 900, client: ClientId(0) });
    for outcome in [Outcome::Aborted, Outcome::Committed(TIMESTAMP)] {
        let late = Message::RecordOutcome { transaction: TRANSACTION, ballot: Ballot(3), outcome };
        let answer = hears(&mut replica, 2, late);
        assert!(answer.is_empty(), "the promise has ended with the outcome: {answer:?}");
    }
    // Elected anew it learns that there is nothing left to decide here.
    let (ballot, timestamp) = (Ballot(6), TIMESTAMP);
    let answer =
        hears(&mut replica, 2, Message::CoordinatorChange { transaction: TRANSACTION, ballot, timestamp });
    let is_settled = |effect: &Effect<Message, _, _, _>| {
        matches!(
            effect,
            Effect::Send {
                message: Message::CoordinatorChangeReply { settled: true, outcome: None, .. },
                ..
            }
        )
    };
    assert!(answer.effects().iter().any(is_settled), "{answer:?}");
}

/// How far timestamps may lie ahead of clocks, and for how long a transaction is prepared again, in microseconds. Promises are looked at several times in the second.
fn spans() -> (u64, u64) {
    let config = ReplicaConfig::new(member(0), GroupSize::new(3).expect("three is odd"), Boot::Rejoin);
    (config.timestamp_ahead_max.as_micros() as u64, config.retry_span.as_micros() as u64)
}

#[test]
fn promises_end_when_the_floor_has_passed_all_that_may_have_been_proposed() {
    let mut replica = settled_otherwise();
    collects_below(&mut replica, Timestamp { micros: 900, client: ClientId(0) });
    let (ballot, timestamp) = (Ballot(6), TIMESTAMP);
    hears(&mut replica, 2, Message::CoordinatorChange { transaction: TRANSACTION, ballot, timestamp });
    assert_eq!(replica.promises(), 1);
    let (ahead, span) = spans();
    wakes(&mut replica, 2_000 + span);
    let last = 2_000 + span + ahead + span;
    for (floor, at, promises) in [(last, last, 1), (last + 1, last + span, 0)] {
        let floor = Timestamp { micros: floor, client: ClientId(u64::MAX) };
        hears_at(&mut replica, 1, Message::Complete { view: View(0), below: floor }, at);
        hears_at(&mut replica, 1, Message::RaiseFloor { floor }, at);
        wakes(&mut replica, at);
        assert_eq!(replica.floor(), floor);
        assert_eq!(replica.promises(), promises, "with its floor at {floor}");
    }
}

/// The second prepare of a transaction that was proposed first at [`TIMESTAMP`].
fn prepares_again(replica: &mut Replica, micros: u64) -> OutboxOf<Replica> {
    let timestamp = Timestamp { micros, client: TIMESTAMP.client };
    let write = Write { key: Key::from(b"a"), value: None };
    let transaction =
        Transaction { writes: vec![write], participants: vec![ShardId(1)], ..Transaction::default() };
    let operation = Prepare { transaction: Arc::new(transaction), timestamp, first: Some(TIMESTAMP) };
    let id = OperationId { transaction: TRANSACTION, number: 2 };
    says(replica, Message::Ir(Ir::ProposeConsensus { id, operation }), micros)
}

fn is_superseded(outbox: &OutboxOf<Replica>) -> bool {
    let superseded = |effect: &Effect<Message, _, _, _>| {
        matches!(effect, Effect::Send { message: Message::Superseded { .. }, .. })
    };
    outbox.effects().iter().any(superseded)
}

#[test]
fn no_further_prepare_is_let_in_far_above_the_first() {
    let config = ReplicaConfig::new(member(0), GroupSize::new(3).expect("three is odd"), Boot::Initialise);
    let last = TIMESTAMP.micros + config.retry_span.as_micros() as u64;
    for (micros, expected) in [(last, false), (last + 1, true)] {
        let mut replica = Replica::restore(config.clone(), []);
        let answer = prepares_again(&mut replica, micros);
        assert_eq!(is_superseded(&answer), expected, "{answer:?}");
    }
}

#[test]
fn a_refusal_is_not_made_final_once_the_transaction_may_have_been_collected() {
    let group = GroupSize::new(3).expect("three is odd");
    let finalize = Message::Ir(Ir::FinalizeConsensus {
        id: OperationId { transaction: TRANSACTION, number: 2 },
        verdict: Vote::Abort,
        view: View(0),
        ballot: Ballot::ORIGINAL,
    });
    let (below, from) =
        (Timestamp { micros: 900, client: ClientId(0) }, (Timestamp::ZERO, TransactionId::default()));
    for collects in [false, true] {
        let mut replica = Replica::restore(ReplicaConfig::new(member(0), group, Boot::Initialise), []);
        hears(&mut replica, 1, Message::Gather { view: View(0), floor: Timestamp::ZERO, below, from });
        assert!(!is_superseded(&prepares_again(&mut replica, 800)), "it is refused, with a vote");
        if collects {
            hears(&mut replica, 1, Message::Complete { view: View(0), below });
            hears(&mut replica, 1, Message::RaiseFloor { floor: below });
            assert_eq!(replica.floor(), below);
        }
        assert_eq!(is_superseded(&says(&mut replica, finalize.clone(), 1_000)), collects);
    }
}

/// Two have been elected since; what an earlier one goes on to say counts for nothing.
#[test]
fn whoever_was_elected_later_is_followed_and_nobody_else() {
    let group = GroupSize::new(3).expect("three is odd");
    let mut replica = Replica::restore(ReplicaConfig::new(member(0), group, Boot::Initialise), []);
    let change =
        |ballot| Message::CoordinatorChange { transaction: TRANSACTION, ballot, timestamp: TIMESTAMP };
    hears(&mut replica, 2, change(Ballot(3)));
    hears(&mut replica, 1, change(Ballot(5)));
    let outcome = Outcome::Aborted;
    let id = OperationId { transaction: TRANSACTION, number: 1 };
    let finalize = Ir::FinalizeConsensus { id, verdict: Vote::Ok, view: View(0), ballot: Ballot(3) };
    let earlier = [
        change(Ballot(3)),
        Message::Ir(finalize),
        Message::RecordOutcome { transaction: TRANSACTION, ballot: Ballot(3), outcome },
    ];
    let superseded = Message::Superseded { transaction: TRANSACTION, promised: Ballot(5) };
    for message in earlier {
        let answer = hears(&mut replica, 2, message);
        assert_eq!(answer.effects(), [Effect::Send { to: member(2).into(), message: superseded.clone() }]);
    }
    let unelected = Message::RecordOutcome { transaction: TRANSACTION, ballot: Ballot(7), outcome };
    assert!(hears(&mut replica, 2, unelected).is_empty(), "nothing was promised to it");
    let elected = Message::RecordOutcome { transaction: TRANSACTION, ballot: Ballot(5), outcome };
    let answer = hears(&mut replica, 1, elected);
    assert!(
        answer
            .effects()
            .iter()
            .any(|effect| matches!(effect, Effect::Send { message: Message::RecordOutcomeReply { .. }, .. })),
        "{answer:?}"
    );
}

/// With f > 1 it may be the only one that has recorded the outcome, and then a backup coordinator goes on.
#[test]
fn a_promise_outlives_an_outcome_that_has_not_run_and_the_view_in_which_it_was_given() {
    let group = GroupSize::new(5).expect("five is odd");
    let mut replica = Replica::restore(ReplicaConfig::new(member(0), group, Boot::Initialise), []);
    let ballot = Ballot(4);
    hears(
        &mut replica,
        1,
        Message::CoordinatorChange { transaction: TRANSACTION, ballot, timestamp: TIMESTAMP },
    );
    let transaction = Arc::new(Transaction::default());
    let commit = Decision::Commit { transaction, timestamp: TIMESTAMP, last: TIMESTAMP };
    let id = OperationId { transaction: TRANSACTION, number: OperationId::INCONSISTENT };
    hears(&mut replica, 1, Message::Ir(Ir::ProposeInconsistent { id, operation: commit }));
    let start = Ir::StartView {
        view: View(1),
        since: Some(View(0)),
        part: Part::WHOLE,
        page: RecordPage::default(),
        outline: Outline::default(),
        supplement: Supplement::default(),
        floor: None,
        state: None,
        state_to: None,
    };
    hears(&mut replica, 1, Message::Ir(Ir::StartViewChange { view: View(1) }));
    hears(&mut replica, 1, Message::Ir(start));
    assert_eq!((replica.view(), replica.committed(), replica.promises()), (View(1), 0, 1));
    let outcome = Outcome::Committed(TIMESTAMP);
    let record = Message::RecordOutcome { transaction: TRANSACTION, ballot, outcome };
    let answer = hears(&mut replica, 1, record);
    let accepts =
        |effect: &_| matches!(effect, Effect::Send { message: Message::RecordOutcomeReply { .. }, .. });
    assert!(answer.effects().iter().any(accepts), "{answer:?}");
    // Once it has run there is nothing left to promise.
    hears(&mut replica, 1, Message::Ir(Ir::FinalizeInconsistent { id }));
    assert_eq!((replica.committed(), replica.promises()), (1, 0));
}

/// The outcome of its first backup coordinator may be collected long before that of a later one.
#[test]
fn a_promise_that_was_renewed_lasts_as_long_as_a_new_one() {
    let mut replica = settled_otherwise();
    collects_below(&mut replica, Timestamp { micros: 900, client: ClientId(0) });
    let change = |ballot| {
        let (ballot, timestamp) = (Ballot(ballot), TIMESTAMP);
        Message::CoordinatorChange { transaction: TRANSACTION, ballot, timestamp }
    };
    hears(&mut replica, 2, change(6));
    let (ahead, span) = spans();
    wakes(&mut replica, 2_000 + span);
    let last = 2_000 + span + ahead + span;
    hears_at(&mut replica, 1, change(7), last);
    let floor = Timestamp { micros: last + 1, client: ClientId(u64::MAX) };
    hears_at(&mut replica, 1, Message::Complete { view: View(0), below: floor }, last);
    hears_at(&mut replica, 1, Message::RaiseFloor { floor }, last);
    wakes(&mut replica, last);
    assert_eq!((replica.floor(), replica.promises()), (floor, 1));
}

/// A coordinator counts on hearing the same whenever it asks.
#[test]
fn a_vote_is_given_again_whatever_the_clock_has_done_since() {
    let group = GroupSize::new(3).expect("three is odd");
    let config = ReplicaConfig::new(member(0), group, Boot::Initialise);
    let ahead = config.timestamp_ahead_max.as_micros() as u64;
    let mut replica = Replica::restore(config, []);
    let timestamp = Timestamp { micros: 1_000 + ahead, client: TIMESTAMP.client };
    let mut proposes = |number, clock_micros| {
        let write = Write { key: Key::from(b"a"), value: None };
        let transaction =
            Transaction { writes: vec![write], participants: vec![ShardId(1)], ..Transaction::default() };
        let operation = Prepare { transaction: Arc::new(transaction), timestamp, first: None };
        let id = OperationId { transaction: TRANSACTION, number };
        let said = says(&mut replica, Message::Ir(Ir::ProposeConsensus { id, operation }), clock_micros);
        match said.effects().last() {
            Some(Effect::Send { message: Message::Ir(Ir::ConsensusReply { verdict, .. }), .. }) => {
                Some(*verdict)
            }
            Some(Effect::Send { message: Message::ClockAhead { .. }, .. }) => None,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(proposes(1, 999), None, "it lies too far ahead");
    assert_eq!(proposes(1, 1_000), Some(Vote::Ok));
    assert_eq!(proposes(1, 0), Some(Vote::Ok));
    assert_eq!(proposes(2, 0), None, "that is another prepare");
}

#[test]
fn a_commit_without_contents_is_acknowledged_by_who_has_them_at_its_timestamp() {
    let group = GroupSize::new(3).expect("three is odd");
    let later = Timestamp { micros: 800, ..TIMESTAMP };
    for (timestamp, expected) in [(later, true), (TIMESTAMP, false)] {
        let mut replica = Replica::restore(ReplicaConfig::new(member(0), group, Boot::Initialise), []);
        let id = OperationId { transaction: TRANSACTION, number: 2 };
        let commit = Message::CommitPrepared { id, timestamp, together: false };
        assert!(says(&mut replica, commit.clone(), 1_000).is_empty(), "it has nothing to commit");
        prepares_again(&mut replica, later.micros);
        let answer = says(&mut replica, commit, 1_000);
        assert_eq!((!answer.is_empty(), replica.committed() == 1), (expected, expected), "{answer:?}");
    }
}

/// Else a transaction of which nothing is left at the first could look as if it had never been proposed there.
#[test]
fn a_recovery_is_asked_for_at_the_first_timestamp() {
    let group = GroupSize::new(3).expect("three is odd");
    let mut replica = Replica::restore(ReplicaConfig::new(member(0), group, Boot::Initialise), []);
    prepares_again(&mut replica, 800);
    let mut random = Random::new(1);
    let now = Instant::START + std::time::Duration::from_secs(10);
    let mut context = Context { now, clock: ClockTime::from_micros(900), random: &mut random };
    let mut outbox: OutboxOf<Replica> = Outbox::new();
    replica.step(&mut context, Input::Timer(ReplicaTimer::Sweep), &mut outbox);
    let asked = |effect: &Effect<Message, _, _, _>| match effect {
        Effect::Send { message: Message::Recover { timestamp, .. }, .. } => Some(*timestamp),
        _ => None,
    };
    assert_eq!(outbox.effects().iter().find_map(asked), Some(TIMESTAMP), "{outbox:?}");
}

#[test]
fn only_members_of_the_group_take_part_in_its_view_changes() {
    let group = GroupSize::new(3).expect("three is odd");
    let mut replica = Replica::restore(ReplicaConfig::new(member(0), group, Boot::Initialise), []);
    let elsewhere = ReplicaId { shard: ShardId(2), index: ReplicaIndex(1) };
    for from in
        [elsewhere, member(3), member(0)].map(Address::Replica).into_iter().chain([ClientId(7).into()])
    {
        let answer = steps(&mut replica, from, Message::Ir(Ir::StartViewChange { view: View(1) }), 1_000);
        assert!(answer.is_empty() && replica.view() == View(0), "{from:?}: {answer:?}");
    }
    hears(&mut replica, 1, Message::Ir(Ir::StartViewChange { view: View(1) }));
    assert_eq!(replica.view(), View(1));
}

/// The fate of its transaction is nobody's business but its client's and that of the replicas that settle it.
#[test]
fn a_client_is_believed_about_its_own_transactions_and_not_about_the_future() {
    let group = GroupSize::new(3).expect("three is odd");
    let config = ReplicaConfig::new(member(0), group, Boot::Initialise);
    let ahead = config.timestamp_ahead_max.as_micros() as u64;
    let at = |micros| Timestamp { micros, client: TIMESTAMP.client };
    let id = |number| OperationId { transaction: TRANSACTION, number };
    let contents = || Arc::new(Transaction { participants: vec![ShardId(1)], ..Transaction::default() });
    let commit = |timestamp, last| Ir::ProposeInconsistent {
        id: id(OperationId::INCONSISTENT),
        operation: Decision::Commit { transaction: contents(), timestamp, last },
    };
    let abort = |last| Ir::ProposeInconsistent {
        id: id(OperationId::INCONSISTENT),
        operation: Decision::Abort { last },
    };
    let finalize = |ballot| Ir::FinalizeConsensus { id: id(1), verdict: Vote::Abort, view: View(0), ballot };
    let far = at(1_000 + ahead + 1);
    let (own, stranger) = (Address::Client(TRANSACTION.client), Address::Client(ClientId(8)));
    let elses = Timestamp { client: ClientId(8), ..TIMESTAMP };
    let table = [
        (own, abort(at(1_000 + ahead)), true),
        (own, abort(far), false),
        (stranger, abort(TIMESTAMP), false),
        (own, commit(TIMESTAMP, TIMESTAMP), true),
        (own, commit(TIMESTAMP, at(1_000 + ahead)), true),
        (own, commit(far, far), false),
        (own, commit(TIMESTAMP, far), false),
        (own, commit(elses, elses), false),
        (stranger, commit(TIMESTAMP, TIMESTAMP), false),
        (own, finalize(Ballot::ORIGINAL), true),
        (own, finalize(Ballot(1)), false),
        (stranger, finalize(Ballot::ORIGINAL), false),
    ];
    for (from, message, expected) in table {
        let mut replica = Replica::restore(config.clone(), []);
        let answer = steps(&mut replica, from, Message::Ir(message.clone()), 1_000);
        assert_eq!(!answer.is_empty(), expected, "{from:?}: {message:?}");
    }
    let mut replica = Replica::restore(config, []);
    steps(&mut replica, own, Message::Ir(commit(TIMESTAMP, TIMESTAMP)), 1_000);
    for (from, expected) in [(stranger, false), (own, true)] {
        let id = id(OperationId::INCONSISTENT);
        let answer = steps(&mut replica, from, Message::Ir(Ir::FinalizeInconsistent { id }), 1_000);
        assert_eq!(!answer.is_empty(), expected, "{from:?}");
    }
}

/// No ballot could overrule it any more.
#[test]
fn a_vote_is_made_final_under_no_ballot_that_lies_too_far_ahead() {
    let group = GroupSize::new(3).expect("three is odd");
    let finalized = |ballot| {
        let mut replica = Replica::restore(ReplicaConfig::new(member(0), group, Boot::Initialise), []);
        let id = OperationId { transaction: TRANSACTION, number: 1 };
        let transaction = Arc::new(Transaction { participants: vec![ShardId(1)], ..Transaction::default() });
        let operation = Prepare { transaction, timestamp: TIMESTAMP, first: None };
        says(&mut replica, Message::Ir(Ir::ProposeConsensus { id, operation }), 1_000);
        let (verdict, view) = (Vote::Abort, View(0));
        let finalize = Ir::FinalizeConsensus { id, verdict, view, ballot: Ballot(ballot) };
        let told = hears(&mut replica, 1, Message::Ir(finalize));
        told.effects().iter().any(|effect| {
            matches!(effect, Effect::Send { message: Message::Ir(Ir::Confirm { finalized: true, .. }), .. })
        })
    };
    assert_eq!([1, 2, u32::MAX].map(finalized), [true, true, false]);
}
