//! The news of a replica for its host, and the answers to operators that compare replicas and to consumers of changes.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::changes;
use quorate_core::changes::{Position, Retention};
use quorate_core::command::Outcome;
use quorate_core::hosted::{Boot, Held, Holdings, HostedReplica, News, Seat, Shards, Urgency};
use quorate_core::landmark::{End, Landmark};
use quorate_core::machine::{InputOf, OutboxOf};
use quorate_core::verify::{Digest, Point, Progress, Request};
use quorate_core::{
    Address, Ballot, ClientId, ClockTime, Context, Effect, Epoch, GroupSize, Groups, Input, Instant, Key,
    Machine, Outbox, Random, ReplicaId, ReplicaIndex, ShardId, Timestamp, Transaction, TransactionId, View,
    Write,
};
use quorate_ir::{Message as Ir, OperationId};
use quorate_tapir::message::{Decision, Prepare, Vote};
use quorate_tapir::{
    Message, Record, Replica, ReplicaCommand, ReplicaConfig, ReplicaEvent, ReplicaTimer, Status,
};

const CLIENT: ClientId = ClientId(7);

fn member(index: u8) -> ReplicaId {
    ReplicaId { shard: ShardId(1), index: ReplicaIndex(index) }
}

fn id(sequence: u64) -> TransactionId {
    TransactionId { client: CLIENT, sequence, attempt: 0 }
}

fn at(micros: u64) -> Timestamp {
    Timestamp { micros, client: CLIENT }
}

fn writes(key: &str, value: Option<&str>) -> Arc<Transaction> {
    let value = value.map(|value| value.to_owned().into());
    let write = Write { key: Key::from(key.to_owned()), value };
    Arc::new(Transaction { participants: vec![ShardId(1)], writes: vec![write], ..Transaction::default() })
}

/// Replica 1 of three, which follows floors that another finds.
struct Hosted {
    replica: Replica,
    now: Instant,
}

impl Hosted {
    fn new() -> Self {
        Hosted::retaining(Retention::NONE)
    }

    fn retaining(retention: Retention) -> Self {
        let config = ReplicaConfig::new(member(1), GroupSize::new(3).unwrap(), Boot::Initialise);
        let config = ReplicaConfig { retention, ..config };
        let mut hosted = Hosted { replica: Replica::restore(config, []), now: Instant::START };
        hosted.step(Input::Start);
        hosted
    }

    fn step(&mut self, input: InputOf<Replica>) -> OutboxOf<Replica> {
        let mut outbox: OutboxOf<Replica> = Outbox::new();
        let (clock, mut random) = (ClockTime::from_micros(1_000), Random::new(1));
        self.replica.step(&mut Context { now: self.now, clock, random: &mut random }, input, &mut outbox);
        outbox
    }

    fn hears(&mut self, from: impl Into<Address>, message: Message) {
        self.step(Input::Message { from: from.into(), epoch: Epoch::FIRST, message });
    }

    fn prepares(&mut self, client: ClientId, sequence: u64, key: &str, micros: u64) {
        let transaction = TransactionId { client, ..id(sequence) };
        let timestamp = Timestamp { client, ..at(micros) };
        let operation = Prepare { transaction: writes(key, None), timestamp, first: None };
        let id = OperationId { transaction, number: 1 };
        self.hears(client, Message::Ir(Ir::ProposeConsensus { id, operation }));
    }

    fn decides(&mut self, sequence: u64, operation: Decision) {
        let id = OperationId { transaction: id(sequence), number: OperationId::INCONSISTENT };
        self.hears(CLIENT, Message::Ir(Ir::ProposeInconsistent { id, operation }));
    }

    fn commits(&mut self, sequence: u64, key: &str, value: Option<&str>, micros: u64) {
        let (transaction, timestamp) = (writes(key, value), at(micros));
        self.decides(sequence, Decision::Commit { transaction, timestamp, last: timestamp });
    }

    /// The group has found a floor.
    fn raises(&mut self, micros: u64) {
        let (view, below) = (View(0), Timestamp { client: ClientId(0), ..at(micros) });
        let from = (Timestamp::ZERO, TransactionId::default());
        self.hears(member(0), Message::Gather { view, floor: Timestamp::ZERO, below, from });
        self.hears(member(0), Message::Complete { view, below });
        self.hears(member(0), Message::RaiseFloor { floor: below });
    }

    fn changes_views(&mut self) {
        self.hears(member(0), Message::Ir(Ir::StartViewChange { view: View(2) }));
    }

    /// An operator asks; gives how far the answer is.
    fn is_compared(&mut self, request: &Request) -> Progress {
        let command = Replica::verify(request.clone()).expect("replicas can be compared");
        self.step(Input::Command(command));
        HostedReplica::verified(&self.replica, request).progress
    }

    /// Time passes, and it reads on.
    fn walks(&mut self) -> bool {
        self.now = self.now + Duration::from_millis(1);
        let outbox = self.step(Input::Timer(ReplicaTimer::Verification));
        outbox
            .effects()
            .iter()
            .any(|effect| matches!(effect, Effect::SetTimer { timer: ReplicaTimer::Verification, .. }))
    }

    fn digest(&mut self, micros: u64) -> Digest {
        let request = below(micros);
        self.is_compared(&request);
        while self.walks() {}
        match self.is_compared(&request) {
            Progress::Done { digest } => digest,
            other => panic!("{other:?}"),
        }
    }
}

/// A question about the state below a floor.
fn below(micros: u64) -> Request {
    let floor = Timestamp { client: ClientId(0), ..at(micros) };
    Request { operator: 1, point: Some(Point::Below(floor)), path: Default::default(), page: None }
}

#[test]
fn what_is_prepared_is_held_and_is_a_load() {
    let mut replica = Hosted::new();
    assert!(HostedReplica::is_idle(&replica.replica) && replica.replica.held().is_empty());
    replica.prepares(CLIENT, 1, "a", 900);
    replica.prepares(CLIENT, 2, "b", 901);
    replica.prepares(ClientId(8), 1, "c", 902);
    let load = |client: Option<u64>| replica.replica.load(client.map(ClientId));
    assert_eq!([None, Some(7), Some(8), Some(9)].map(load), [3, 2, 1, 0]);
    assert!(!HostedReplica::is_idle(&replica.replica));
    let of_first =
        Held { id: id(1), participants: vec![ShardId(1)], timestamp: at(900), not_before: at(900) };
    assert_eq!(format!("{:?}", &replica.replica.held()[..1]), format!("{:?}", [of_first]));
    let health = HostedReplica::health(&replica.replica);
    assert_eq!((health.status, health.view, health.leads), (Status::Normal, View(0), false));
    assert_eq!((health.prepared, health.record_len, health.recoveries), (3, 3, 0));
    assert_eq!((Holdings::waiting(&replica.replica), replica.replica.settles()), (0, false));
    let (participants, timestamp) = (vec![ShardId(1)], at(900));
    replica.hears(member(0), Message::Recover { transaction: id(1), participants, timestamp });
    assert!(replica.replica.settles());
    assert_eq!(HostedReplica::health(&replica.replica).recoveries, 1);
}

#[test]
fn outcomes_and_versions_are_told_until_they_are_collected() {
    let mut replica = Hosted::new();
    replica.commits(1, "a", Some("x"), 500);
    replica.commits(2, "b", None, 501);
    replica.decides(3, Decision::Abort { last: at(502) });
    let known = [
        (id(1), Outcome::Committed(at(500))),
        (id(2), Outcome::Committed(at(501))),
        (id(3), Outcome::Aborted),
    ];
    assert_eq!(Holdings::outcomes(&replica.replica), known);
    assert_eq!(Holdings::outcome(&replica.replica, id(3)), Some(Outcome::Aborted));
    assert_eq!(Holdings::outcome(&replica.replica, id(4)), None);
    assert_eq!(HostedReplica::decided(&replica.replica), (2, 1));
    let versions = vec![(Key::from("a"), at(500), Some("x".into())), (Key::from("b"), at(501), None)];
    assert_eq!(Holdings::versions(&replica.replica), versions);
    assert_eq!((replica.replica.recorded(), replica.replica.left()), (3, vec![]));
    let collected = |replica: &Hosted, micros| replica.replica.has_collected(ClockTime::from_micros(micros));
    assert!(!collected(&replica, 600));
    replica.raises(600);
    assert_eq!(Holdings::floor(&replica.replica).micros, 600);
    assert!(collected(&replica, 600) && !collected(&replica, 601));
    replica.step(Input::Timer(ReplicaTimer::Sweep));
    assert_eq!((Holdings::outcomes(&replica.replica), replica.replica.left()), (vec![], vec![]));
    assert!(collected(&replica, 601), "it remembers nothing");
    assert_eq!(Holdings::versions(&replica.replica), versions[..1]);
}

#[test]
fn a_host_seats_a_replica_and_tells_it_of_other_groups() {
    let config = ReplicaConfig::new(member(0), GroupSize::new(3).unwrap(), Boot::Initialise);
    let groups = Groups { epoch: Epoch(3), ..Groups::new(GroupSize::new(5).unwrap()) };
    let shards = Some(Shards { first: ShardId(1), count: 2 });
    let joined = Vec::new();
    let seat =
        Seat { replica: member(4), groups: groups.clone(), shards, joined, boot: Boot::Rejoin, attic: None };
    let seated = <Replica as HostedReplica>::seated(config.clone(), &seat);
    assert_eq!((seated.replica, seated.boot, seated.shards), (member(4), Boot::Rejoin, shards));
    assert_eq!((seated.groups.epoch, seated.recovery_timeout), (Epoch(3), config.recovery_timeout));
    let commands = Replica::change_groups(&groups, ShardId(1));
    assert!(matches!(&commands[..], [ReplicaCommand::ChangeGroups(told)] if *told == groups));
    let asleep = Replica::asleep_since_creation(&seat, View(5), 3);
    let noted = Record::LifeNoted { replica: seat.replica.index, life: 3 };
    assert_eq!(asleep, Some(vec![Record::Initialised, Record::ViewEntered { view: View(5) }, noted]));
}

#[test]
fn a_prepare_that_may_be_refused_says_for_whom_and_whether_it_writes_and_adds_values() {
    let admission = |transaction: Arc<Transaction>| {
        let operation = Prepare { transaction, timestamp: at(5), first: None };
        let id = OperationId { transaction: id(1), number: 1 };
        let message = Message::Ir(Ir::ProposeConsensus { id, operation });
        let admission = Replica::admission(&message);
        assert_eq!((admission.urgency, admission.prepares_for), (Urgency::Prepare, Some(CLIENT)));
        (admission.writes, <Replica as HostedReplica>::adds(&message))
    };
    let of_two = |first: Option<&str>, second: Option<&str>| {
        let writes =
            [writes("a", first), writes("b", second)].iter().flat_map(|one| one.writes.clone()).collect();
        Arc::new(Transaction { writes, ..Transaction::default() })
    };
    assert_eq!(admission(Arc::new(Transaction::default())), (false, false), "it only reads");
    assert_eq!(admission(writes("a", None)), (true, false), "a deletion needs no room");
    assert_eq!(admission(writes("a", Some("x"))), (true, true));
    assert_eq!(admission(of_two(None, Some("x"))), (true, true));
    assert_eq!(admission(of_two(Some("x"), None)), (true, true));
    assert_eq!(admission(of_two(None, None)), (true, false));
}

#[test]
fn events_of_a_replica_are_news_to_its_host() {
    let table = [
        (ReplicaEvent::Normal { view: View(3) }, News::Normal(View(3))),
        (ReplicaEvent::ViewChanging { view: View(4) }, News::ViewChanging(View(4))),
        (ReplicaEvent::Outdated { epoch: Epoch(2) }, News::Outdated(Epoch(2))),
        (ReplicaEvent::Retired, News::Retired),
        (ReplicaEvent::Lost { lost: 2 }, News::Lost(2)),
    ];
    for (event, news) in table {
        assert_eq!(<Replica as HostedReplica>::news(&event), Some(news));
    }
}

#[test]
fn a_host_follows_a_transaction_by_the_messages_of_a_replica() {
    let (transaction, group) = (id(1), ShardId(1));
    let end = Message::CommitPrepared {
        id: OperationId { transaction, number: 1 },
        timestamp: at(5),
        together: true,
    };
    let ended = Landmark::Ended(transaction, End::Committed);
    assert_eq!(Replica::landmark_received(&end, group), Some(ended));
    let operation = Prepare { transaction: writes("a", None), timestamp: at(5), first: None };
    let prepare = Message::Ir(Ir::ProposeConsensus { id: OperationId { transaction, number: 1 }, operation });
    assert_eq!(Replica::landmark_received(&prepare, group), Some(Landmark::Asked(transaction)));
    assert_eq!(Replica::keys_written(&prepare)[..2], [Some(Key::from("a")), None]);
    assert_eq!(Replica::landmark_sent(&prepare), None);
    let reply = Ir::ConsensusReply {
        id: OperationId { transaction, number: 1 },
        view: View(0),
        verdict: Vote::Abort,
        finalized: false,
    };
    assert_eq!(Replica::landmark_sent(&Message::Ir(reply)), Some(Landmark::Hindered(transaction)));
}

#[test]
fn a_host_learns_in_which_epoch_and_life_a_replica_is_and_how_much_it_keeps() {
    let mut replica = Hosted::retaining(Retention::default());
    let health = HostedReplica::health(&replica.replica);
    assert_eq!((health.arrived, health.clock_error_micros), (Some(Epoch::FIRST), None));
    assert_eq!(replica.replica.next_life(), None, "it has not lost its records");
    let memory =
        |replica: &Hosted| HostedReplica::memory(&replica.replica).expect("it keeps versions in memory");
    let (before, value) = (memory(&replica), "x".repeat(5_000));
    replica.commits(1, "a", Some(&value), 510);
    replica.commits(2, "a", Some("y"), 520);
    assert!(memory(&replica).values >= before.values + 5_000, "{:?}", memory(&replica));
    assert!(!HostedReplica::exceeds_memory(&replica.replica), "it has all the room there is");
    replica.raises(600);
    replica.step(Input::Timer(ReplicaTimer::Sweep));
    let retained = HostedReplica::retained(&replica.replica);
    assert_eq!(retained, replica.replica.retained());
    assert!(retained.bytes >= 5_000, "what was overwritten is retained: {retained:?}");
    let config = ReplicaConfig::new(member(2), GroupSize::new(3).unwrap(), Boot::Rejoin);
    let mut lost = Hosted { replica: Replica::restore(config, []), now: Instant::START };
    lost.step(Input::Start);
    let health = HostedReplica::health(&lost.replica);
    assert_eq!((health.status, health.arrived), (Status::Recovering, None));
}

#[test]
fn replicas_with_different_histories_above_a_floor_hold_the_same_below() {
    let (mut one, mut other) = (Hosted::new(), Hosted::new());
    for (replica, sequences) in [(&mut one, [1, 2, 3]), (&mut other, [3, 1, 2])] {
        for sequence in sequences {
            let key = ["", "a", "b", "a"][sequence as usize];
            replica.commits(sequence, key, Some(&format!("v{sequence}")), 500 + sequence);
        }
        replica.raises(600);
    }
    other.commits(4, "a", Some("later"), 700);
    let of_one = one.digest(600);
    assert_eq!((of_one.items, &of_one), (2, &other.digest(600)));
    let mut third = Hosted::new();
    third.commits(1, "a", Some("v1"), 501);
    third.raises(600);
    assert_ne!(third.digest(600).buckets, of_one.buckets);
}

#[test]
fn a_floor_that_is_asked_about_is_waited_for_and_one_that_was_passed_is_not_known() {
    let mut replica = Hosted::new();
    replica.commits(1, "a", Some("x"), 500);
    assert_eq!(replica.is_compared(&below(600)), Progress::Waiting);
    assert!(replica.walks());
    assert_eq!(replica.is_compared(&below(600)), Progress::Waiting);
    replica.raises(600);
    assert!(!replica.walks());
    assert!(matches!(replica.is_compared(&below(600)), Progress::Done { .. }));
    // A version that is asked for is held as it is until it was read.
    replica.commits(2, "a", Some("y"), 700);
    assert!(matches!(replica.is_compared(&below(600)), Progress::Done { .. }));
    replica.raises(800);
    replica.step(Input::Timer(ReplicaTimer::Sweep));
    let earlier = Request { operator: 2, ..below(600) };
    assert_eq!(replica.is_compared(&earlier), Progress::Passed);
}

#[test]
fn an_operator_reads_what_lies_below_a_timestamp_however_far_the_floor_has_risen_meanwhile() {
    let mut replica = Hosted::new();
    replica.commits(1, "a", Some("old"), 500);
    replica.commits(2, "b", Some("gone"), 501);
    replica.commits(3, "b", None, 502);
    let reading = Request { page: Some(0), ..below(600) };
    assert_eq!(replica.is_compared(&reading), Progress::Waiting);
    replica.commits(4, "a", Some("new"), 700);
    replica.commits(5, "c", Some("late"), 701);
    // The floor jumps over the timestamp, and everything below is collected as far as it may be.
    replica.raises(800);
    replica.step(Input::Timer(ReplicaTimer::Sweep));
    replica.walks();
    let Progress::Page { items, is_last: true } = replica.is_compared(&reading) else { panic!() };
    let [item] = &items[..] else { panic!("{items:?}") };
    assert_eq!((&item.key[..], item.value.as_deref(), item.stamps[0]), (&b"a"[..], Some(&b"old"[..]), 500));
}

#[test]
fn a_replica_answers_nobody_who_reads_while_it_changes_views_and_can_be_compared() {
    let mut replica = Hosted::new();
    replica.commits(1, "a", Some("x"), 500);
    replica.raises(600);
    replica.changes_views();
    assert_eq!(HostedReplica::health(&replica.replica).status, Status::ViewChanging);
    assert_eq!(replica.digest(600).items, 1);
    let config = ReplicaConfig::new(member(2), GroupSize::new(3).unwrap(), Boot::Rejoin);
    let mut lost = Hosted { replica: Replica::restore(config, []), now: Instant::START };
    lost.step(Input::Start);
    assert!(matches!(lost.is_compared(&below(600)), Progress::Unable { .. }));
}

#[test]
fn a_promise_that_nobody_needs_any_more_is_known_to_be_left() {
    let mut replica = Hosted::new();
    let (transaction, ballot, timestamp) = (id(1), Ballot(3), at(500));
    replica.hears(member(0), Message::CoordinatorChange { transaction, ballot, timestamp });
    assert_eq!(replica.replica.left(), [("promises", 1)]);
    replica.step(Input::Timer(ReplicaTimer::Sweep));
    assert_eq!(
        replica.replica.left(),
        [],
        "of the transaction something may have been proposed above the floor"
    );
}

/// The answer to a consumer of changes from a timestamp on: the changes by timestamp, and what comes next.
fn told(replica: &Hosted, from: u64) -> (Vec<u64>, u64) {
    let from = Timestamp { client: ClientId(0), ..at(from) };
    match HostedReplica::changes(&replica.replica, &changes::Request::all(Some(from.into()))) {
        changes::Answer::Page(page) => {
            let Position::Timestamp(to) = page.to else { panic!("{page:?}") };
            (page.changes.iter().map(|change| change.timestamp.micros).collect(), to.micros)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_consumer_is_told_what_has_committed_below_the_floor_and_never_anything_above_it() {
    let mut replica = Hosted::retaining(Retention::default());
    replica.commits(2, "a", Some("second"), 520);
    replica.commits(1, "a", Some("first"), 510);
    replica.decides(3, Decision::Abort { last: at(515) });
    assert_eq!(told(&replica, 0), (vec![], 0), "something may still commit between them");
    replica.raises(515);
    assert_eq!(told(&replica, 0), (vec![510], 515));
    replica.raises(600);
    replica.step(Input::Timer(ReplicaTimer::Sweep));
    assert_eq!(told(&replica, 0), (vec![510, 520], 600), "the first is overwritten, and retained");
    assert_eq!(told(&replica, 515), (vec![520], 600));
    replica.changes_views();
    assert_eq!(told(&replica, 515), (vec![520], 600), "that it changes views changes nothing about the past");
    let config = ReplicaConfig::new(member(2), GroupSize::new(3).unwrap(), Boot::Rejoin);
    let lost = Replica::restore(config, []);
    let answer = HostedReplica::changes(&lost, &changes::Request::all(None));
    assert!(matches!(answer, changes::Answer::Unable { .. }), "{answer:?}");
}

#[test]
fn a_consumer_that_is_too_late_is_told_what_is_retained() {
    let retention = Retention { time: Duration::from_micros(100), bytes: u64::MAX };
    let mut replica = Hosted::retaining(retention);
    replica.commits(1, "a", Some("first"), 510);
    replica.raises(700);
    replica.step(Input::Timer(ReplicaTimer::Sweep));
    let request = changes::Request::all(Some(at(510).into()));
    let retained_from = Timestamp { client: ClientId(8), ..at(510) };
    let too_old = changes::Answer::TooOld { retained_from: retained_from.into() };
    assert_eq!(HostedReplica::changes(&replica.replica, &request), too_old);
    assert_eq!(told(&replica, 511), (vec![], 700));
    let of_sites = changes::Request::all(Some(Position::of_sites(vec![1])));
    let answer = HostedReplica::changes(&replica.replica, &of_sites);
    assert!(matches!(answer, changes::Answer::Unable { .. }), "{answer:?}");
}
