//! The tasks that a replica looks after by itself, and what it answers whatever it is doing.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::machine::{Effect, Input, InputOf, Machine, Outbox, OutboxOf};
use quorate_core::{
    Address, Ballot, ClientId, ClockTime, Context, Epoch, GroupSize, Instant, Key, Random, ReplicaId,
    ReplicaIndex, ShardId, Timestamp, Transaction, TransactionId, View, Write,
};
use quorate_ir::{Message as Ir, OperationId};
use quorate_tapir::message::Prepare;
use quorate_tapir::{Boot, Message, Record, Replica, ReplicaConfig, ReplicaTimer, Status};

const CLIENT: ClientId = ClientId(7);

fn replica_id(index: u8) -> ReplicaId {
    ReplicaId { shard: ShardId(1), index: ReplicaIndex(index) }
}

fn transaction(sequence: u64) -> TransactionId {
    TransactionId { client: CLIENT, sequence, attempt: 0 }
}

/// Replica 0 of three.
struct Sweeper {
    replica: Replica,
    now: Instant,
    timeout: Duration,
    random: Random,
}

impl Sweeper {
    fn new() -> Self {
        let config = ReplicaConfig::new(replica_id(0), GroupSize::new(3).unwrap(), Boot::Initialise);
        let timeout = config.recovery_timeout;
        let mut sweeper = Sweeper {
            replica: Replica::restore(config, []),
            now: Instant::START + 10 * timeout,
            timeout,
            random: Random::new(1),
        };
        sweeper.steps(Input::Start);
        sweeper
    }

    fn steps(&mut self, input: InputOf<Replica>) -> OutboxOf<Replica> {
        let mut outbox: OutboxOf<Replica> = Outbox::new();
        let mut context =
            Context { now: self.now, clock: ClockTime::from_micros(1_000), random: &mut self.random };
        self.replica.step(&mut context, input, &mut outbox);
        outbox
    }

    fn hears(&mut self, from: impl Into<Address>, message: Message) -> OutboxOf<Replica> {
        self.steps(Input::Message { from: from.into(), epoch: Epoch::FIRST, message })
    }

    /// Holds a transaction that writes a key of its own.
    fn prepares(&mut self, sequence: u64) {
        let write = Write { key: Key::from(format!("k{sequence}")), value: None };
        let contents =
            Transaction { participants: vec![ShardId(1)], writes: vec![write], ..Transaction::default() };
        let timestamp = Timestamp { micros: 1_000, client: CLIENT };
        let operation = Prepare { transaction: Arc::new(contents), timestamp, first: None };
        let id = OperationId { transaction: transaction(sequence), number: 1 };
        self.hears(CLIENT, Message::Ir(Ir::ProposeConsensus { id, operation }));
    }

    /// The transactions that it has others recover when it sweeps, with the backup coordinator that it asks.
    fn asks(&mut self) -> Vec<(u64, u8)> {
        let asked = |effect| match effect {
            Effect::Send { to: Address::Replica(to), message: Message::Recover { transaction, .. } } => {
                Some((transaction.sequence, to.index.0))
            }
            _ => None,
        };
        self.steps(Input::Timer(ReplicaTimer::Sweep)).drain().filter_map(asked).collect()
    }
}

#[test]
fn what_is_held_for_long_is_recovered_once_each_timeout_by_one_replica_after_the_other() {
    let mut sweeper = Sweeper::new();
    sweeper.prepares(1);
    sweeper.now = sweeper.now + sweeper.timeout / 2;
    assert_eq!(sweeper.asks(), [], "its coordinator is still there, perhaps");
    sweeper.now = sweeper.now + sweeper.timeout;
    let mut asked = Vec::new();
    for _ in 0..4 {
        let first = sweeper.asks();
        assert_eq!(first.len(), 1);
        assert_eq!(sweeper.asks(), [], "it has been asked for");
        asked.push(first[0].1);
        sweeper.now = sweeper.now + sweeper.timeout;
    }
    assert_eq!(asked[3], asked[0], "there are three");
    asked.truncate(3);
    asked.sort_unstable();
    assert_eq!(asked, [0, 1, 2]);
}

#[test]
fn only_so_many_recoveries_are_asked_for_at_once() {
    let mut sweeper = Sweeper::new();
    for sequence in 0..300 {
        sweeper.prepares(sequence);
    }
    sweeper.now = sweeper.now + sweeper.timeout + sweeper.timeout / 8;
    let counts: Vec<usize> = (0..3).map(|_| sweeper.asks().len()).collect();
    assert_eq!(counts, [256, 44, 0]);
}

#[test]
fn a_promise_to_a_backup_coordinator_is_written_once_and_given_as_often_as_asked() {
    let mut sweeper = Sweeper::new();
    let timestamp = Timestamp { micros: 1_000, client: CLIENT };
    let mut asks = |ballot| {
        let change =
            Message::CoordinatorChange { transaction: transaction(1), ballot: Ballot(ballot), timestamp };
        let mut outbox = sweeper.hears(replica_id(1), change);
        let (mut written, mut promised, mut superseded) = (0, 0, 0);
        for effect in outbox.drain() {
            match effect {
                Effect::Persist { record: Record::Promised { .. }, .. } => written += 1,
                Effect::Send { message: Message::CoordinatorChangeReply { .. }, .. } => promised += 1,
                Effect::Send { message: Message::Superseded { .. }, .. } => superseded += 1,
                _ => {}
            }
        }
        (written, promised, superseded)
    };
    assert_eq!(asks(3), (1, 1, 0));
    assert_eq!(asks(3), (0, 1, 0), "it was lost");
    assert_eq!(asks(2), (0, 0, 1));
    assert_eq!(asks(4), (1, 1, 0));
}

#[test]
fn only_requests_that_need_a_view_wait_for_one() {
    let mut sweeper = Sweeper::new();
    sweeper.hears(replica_id(1), Message::Ir(Ir::StartViewChange { view: View(1) }));
    assert_eq!(sweeper.replica.status(), Status::ViewChanging);
    let answers = |mut outbox: OutboxOf<Replica>| {
        let is_answer = |effect: &_| match effect {
            Effect::Send { to, .. } | Effect::SendUnordered { to, .. } => *to == Address::Client(CLIENT),
            _ => false,
        };
        outbox.drain().filter(is_answer).count()
    };
    let probe = Message::ClockProbe { sent: ClockTime::from_micros(1), deadlines: true };
    assert_eq!(answers(sweeper.hears(CLIENT, probe)), 1, "it is about the clock");
    let read = Message::Read { transaction: transaction(1), key: Key::from("k") };
    assert_eq!(answers(sweeper.hears(CLIENT, read)), 0, "it may have missed a write");
}

/// It was asked under the membership before, by a client that has asked others since.
#[test]
fn what_waits_for_a_view_is_forgotten_with_the_epoch() {
    let mut sweeper = Sweeper::new();
    sweeper.hears(replica_id(1), Message::Ir(Ir::StartViewChange { view: View(1) }));
    let read = Message::Read { transaction: transaction(1), key: Key::from("k") };
    sweeper.hears(CLIENT, read);
    assert_eq!(sweeper.replica.status(), Status::ViewChanging);
    let groups = quorate_core::Groups::new(GroupSize::new(3).unwrap());
    let other = quorate_core::Members::new([0, 1, 3].map(ReplicaIndex).to_vec()).unwrap();
    let next = groups.next([(ShardId(2), other)]);
    let epoch = next.epoch;
    sweeper.steps(Input::Command(quorate_tapir::ReplicaCommand::ChangeGroups(next)));
    let start = Ir::StartView {
        view: View(1),
        since: None,
        part: quorate_ir::Part::WHOLE,
        page: quorate_ir::RecordPage::default(),
        outline: quorate_ir::Outline::default(),
        supplement: Default::default(),
        floor: None,
        state: None,
        state_to: None,
    };
    let input = Input::Message { from: replica_id(1).into(), epoch, message: Message::Ir(start) };
    let mut outbox = sweeper.steps(input);
    assert_eq!(sweeper.replica.status(), Status::Normal);
    let answered = outbox.drain().any(|effect| match effect {
        Effect::Send { to, .. } | Effect::SendUnordered { to, .. } => to == Address::Client(CLIENT),
        _ => false,
    });
    assert!(!answered);
}
