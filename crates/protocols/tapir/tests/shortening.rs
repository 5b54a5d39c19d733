//! The log is shortened while the group goes on. After each step, a restart finds in what is left of the log all that the
//! replica has said, and stores what the replica stores.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_core::changes::{Answer, Page, Request};
use quorate_core::machine::{InputOf, OutboxOf};
use quorate_core::replay;
use quorate_core::transaction::KeyVersion;
use quorate_core::{
    Address, Ballot, ClientId, ClockTime, Context, Effect, Epoch, GroupSize, Input, Instant, Key, Machine,
    Outbox, Random, ReplicaId, ReplicaIndex, ShardId, Timestamp, Transaction, TransactionId, View, Write,
};
use quorate_ir::{Message as Ir, OperationId, Outline, Part, RecordPage};
use quorate_tapir::message::{Decision, Prepare, StatePage, Supplement};
use quorate_tapir::{Boot, Message, Record, Replica, ReplicaConfig, ReplicaTimer};

const CLIENT: ClientId = ClientId(7);

fn at(micros: u64) -> Timestamp {
    Timestamp { micros, client: CLIENT }
}

fn id(sequence: u64) -> TransactionId {
    TransactionId { client: CLIENT, sequence, attempt: 0 }
}

fn writes(key: &str, value: Option<&str>) -> Arc<Transaction> {
    let value = value.map(|value| Bytes::from(value.to_owned()));
    let write = Write { key: Key::from(key), value };
    Arc::new(Transaction { participants: vec![ShardId(1)], writes: vec![write], ..Transaction::default() })
}

fn member(index: u8) -> ReplicaId {
    ReplicaId { shard: ShardId(1), index: ReplicaIndex(index) }
}

/// A replica that shortens its log as soon as it may, and writes one key a page, or one transaction.
struct Shortening {
    config: ReplicaConfig,
    replica: Replica,
    now: Instant,
    log: Vec<Record>,
    anchor: Option<usize>,
    truncations: usize,
    /// From here on it has to tell consumers of changes the same after a restart.
    retained_from: u64,
    /// How much the state retains that it is given.
    given: Option<Timestamp>,
}

impl Shortening {
    fn new() -> Self {
        let config = ReplicaConfig {
            snapshot_records_min: 1,
            page_bytes_max: 1,
            checkpoint_page_max: 1,
            ..ReplicaConfig::new(member(0), GroupSize::new(3).unwrap(), Boot::Initialise)
        };
        let (replica, now) = (Replica::restore(config.clone(), []), Instant::START);
        let mut shortening = Shortening {
            config,
            replica,
            now,
            log: Vec::new(),
            anchor: None,
            truncations: 0,
            retained_from: 0,
            given: None,
        };
        shortening.step(Input::Start);
        shortening
    }

    fn step(&mut self, input: InputOf<Replica>) {
        let mut outbox: OutboxOf<Replica> = Outbox::new();
        let (clock, mut random) = (ClockTime::from_micros(1_000_000), Random::new(1));
        self.replica.step(&mut Context { now: self.now, clock, random: &mut random }, input, &mut outbox);
        for effect in outbox.drain() {
            match effect {
                Effect::Persist { record, .. } => self.log.push(record),
                Effect::Anchor => self.anchor = Some(self.log.len()),
                Effect::Truncate => {
                    self.log.drain(..self.anchor.take().expect("it truncates at an anchor"));
                    self.truncations += 1;
                }
                _ => {}
            }
        }
        let restarted = replay::rebuild::<Replica>(self.config.clone(), self.log.clone());
        let lost = self.replica.handover().lost_in(&restarted.handover());
        assert!(lost.is_empty(), "a restart would lose {lost:?}");
        assert_eq!(stored(&restarted), stored(&self.replica));
        assert_eq!(retained(&restarted, self.retained_from), retained(&self.replica, self.retained_from));
    }

    fn hears(&mut self, from: impl Into<Address>, message: Message) {
        self.step(Input::Message { from: from.into(), epoch: Epoch::FIRST, message });
    }

    fn commits(&mut self, sequence: u64, micros: u64, transaction: Arc<Transaction>) {
        let timestamp = at(micros);
        let operation = Decision::Commit { transaction, timestamp, last: timestamp };
        let id = OperationId { transaction: id(sequence), number: OperationId::INCONSISTENT };
        self.hears(CLIENT, Message::Ir(Ir::ProposeInconsistent { id, operation }));
    }

    fn prepares(&mut self, sequence: u64, micros: u64) {
        let id = OperationId { transaction: id(sequence), number: 1 };
        let (transaction, timestamp) = (writes(&format!("open{sequence}"), None), at(micros));
        let operation = Prepare { transaction, timestamp, first: None };
        self.hears(CLIENT, Message::Ir(Ir::ProposeConsensus { id, operation }));
    }

    /// So many more records.
    fn promises(&mut self, records: u32) {
        for ballot in 1..=records {
            let (transaction, ballot, timestamp) = (id(1_000), Ballot(ballot), at(1));
            self.hears(member(1), Message::CoordinatorChange { transaction, ballot, timestamp });
        }
    }

    /// The others have found a floor.
    fn floor_rises(&mut self, micros: u64) {
        let (view, below) = (self.replica.view(), at(micros));
        let from = (Timestamp::ZERO, TransactionId::default());
        self.hears(member(1), Message::Gather { view, floor: self.replica.floor(), below, from });
        self.hears(member(1), Message::Complete { view, below });
        self.hears(member(1), Message::RaiseFloor { floor: below });
        assert_eq!(self.replica.floor(), below);
    }

    /// A view starts in which everything below the floor is what `state` says.
    fn view_starts(&mut self, view: u64, floor: u64, state: &[(&str, u64)]) {
        let version = |(key, micros): &(&str, u64)| KeyVersion {
            key: Key::from(*key),
            version: at(*micros),
            value: Some(Bytes::from("new")),
        };
        let supplement = Supplement { refusal: at(floor), complete: at(floor), ..Supplement::default() };
        self.hears(
            member(1),
            Message::Ir(Ir::StartView {
                view: View(view),
                since: None,
                part: Part::WHOLE,
                page: RecordPage::default(),
                outline: Outline::default(),
                supplement,
                floor: Some(at(floor)),
                state: Some(StatePage {
                    versions: state.iter().map(version).collect(),
                    retained_from: self.given,
                }),
                state_to: None,
            }),
        );
        assert_eq!((self.replica.view(), self.replica.floor()), (View(view), at(floor)));
    }

    /// Of the state of another that says how much it retains, if it knows of that.
    fn view_starts_with(&mut self, view: u64, floor: u64, state: &[(&str, u64)], retained_from: Option<u64>) {
        self.given = retained_from.map(at);
        self.retained_from = retained_from.unwrap_or(floor);
        self.view_starts(view, floor, state);
    }

    /// Writes a page of the snapshot, or begins or ends it.
    fn sweeps(&mut self) {
        self.now = self.now + Duration::from_millis(1);
        self.step(Input::Timer(ReplicaTimer::Sweep));
    }

    fn writes_pages(&self) -> bool {
        matches!(self.log.last(), Some(Record::SnapshotPage { .. }))
    }

    fn sweeps_until_shortened(&mut self) {
        let before = self.truncations;
        for _ in 0..50 {
            self.sweeps();
            if self.truncations > before {
                return;
            }
        }
        panic!("the log is not shortened");
    }
}

/// The answer of the replica to a consumer of changes.
fn retained(replica: &Replica, from: u64) -> Answer {
    replica.changes(&Request::all(Some(at(from))))
}

/// The versions that can be read at or above its floor: the rest may be collected at any time.
fn stored(replica: &Replica) -> Vec<(Key, Timestamp, Option<Bytes>)> {
    let versions: Vec<_> = replica.versions().iter().collect();
    let is_readable = |at: usize| {
        let (key, version) = versions[at];
        let floor = replica.floor();
        let is_overwritten =
            versions.get(at + 1).is_some_and(|(next, later)| *next == key && later.timestamp < floor);
        version.timestamp >= floor || !version.is_deletion() && !is_overwritten
    };
    let readable = (0..versions.len()).filter(|at| is_readable(*at)).map(|at| versions[at]);
    readable.map(|(key, version)| (key.clone(), version.timestamp, version.value())).collect()
}

#[test]
fn what_is_open_is_waited_for() {
    let mut replica = Shortening::new();
    replica.commits(1, 10, writes("a", Some("x")));
    replica.prepares(2, 20);
    replica.promises(4);
    for _ in 0..10 {
        replica.sweeps();
    }
    assert_eq!(replica.truncations, 0, "its vote stands in what would go");
    replica.commits(2, 20, writes("open2", Some("y")));
    replica.sweeps_until_shortened();
    assert!(replica.replica.outcome(id(2)).is_some(), "it is carried over");
}

/// The state that the pages were written from is no more.
#[test]
fn a_view_that_brings_state_begins_the_snapshot_anew() {
    let mut replica = Shortening::new();
    for (sequence, key) in [(1, "a"), (2, "b"), (3, "c")] {
        replica.commits(sequence, 10 * sequence, writes(key, Some("old")));
    }
    replica.promises(12);
    while !replica.writes_pages() {
        replica.sweeps();
    }
    replica.view_starts(1, 100, &[("c", 90)]);
    replica.promises(12);
    replica.sweeps_until_shortened();
    let keys: Vec<Key> = stored(&replica.replica).into_iter().map(|(key, ..)| key).collect();
    assert_eq!(keys, [Key::from("c")]);
}

/// A write that came after the deletion above it, and went with it.
#[test]
fn what_a_restart_finds_below_the_floor_of_a_snapshot_goes() {
    let mut replica = Shortening::new();
    replica.commits(1, 50, writes("a", None));
    replica.commits(2, 60, writes("b", Some("x")));
    replica.promises(8);
    while replica.anchor.is_none() {
        replica.sweeps();
    }
    replica.commits(3, 40, writes("a", Some("late")));
    replica.floor_rises(100);
    replica.sweeps_until_shortened();
    let keys: Vec<Key> = stored(&replica.replica).into_iter().map(|(key, ..)| key).collect();
    assert_eq!(keys, [Key::from("b")]);
}

/// Between its promises and its records a replica is ahead, so that not every reader costs a record.
#[test]
fn readers_are_answered_while_the_log_is_shortened() {
    let mut replica = Shortening::new();
    let reads = |replica: &mut Shortening, micros| {
        let (transaction, keys) = (id(500), vec![Key::from("a")]);
        replica.hears(
            CLIENT,
            Message::QuorumRead { transaction, round: 1, timestamp: at(micros), keys, in_turn: false },
        );
    };
    replica.commits(1, 10, writes("a", Some("x")));
    reads(&mut replica, 1_000);
    replica.promises(4);
    replica.sweeps_until_shortened();
    let records = replica.log.len();
    reads(&mut replica, 2_000);
    assert_eq!(replica.log.len(), records, "the record of the first answer still covers this one");
}

#[test]
fn all_versions_of_a_key_stand_on_one_page() {
    let mut replica = Shortening::new();
    for (sequence, micros) in [(1, 10), (2, 20), (3, 30)] {
        replica.commits(sequence, micros, writes("a", Some("x")));
    }
    replica.commits(4, 40, writes("b", Some("x")));
    replica.promises(8);
    replica.sweeps_until_shortened();
    assert_eq!(stored(&replica.replica).len(), 4);
}

#[test]
fn every_outcome_that_is_still_remembered_is_carried_over() {
    let mut replica = Shortening::new();
    for sequence in 1..=3 {
        replica.commits(sequence, 10 * sequence, writes("a", Some("x")));
    }
    replica.promises(8);
    replica.sweeps_until_shortened();
    let restarted = replay::rebuild::<Replica>(replica.config.clone(), replica.log.clone());
    for sequence in 1..=3 {
        assert_eq!(restarted.outcome(id(sequence)), replica.replica.outcome(id(sequence)));
        assert!(restarted.outcome(id(sequence)).is_some(), "{sequence}");
    }
}

/// The timestamps of the changes that it tells.
fn told(replica: &Replica, from: u64) -> Vec<u64> {
    match retained(replica, from) {
        Answer::Page(Page { changes, .. }) => changes.iter().map(|change| change.timestamp.micros).collect(),
        other => panic!("{other:?}"),
    }
}

/// Each step compares what a restarted replica tells.
#[test]
fn what_is_retained_for_consumers_survives_shortening_and_restarts() {
    let mut replica = Shortening::new();
    for (sequence, key, value) in
        [(1, "a", Some("x")), (2, "a", Some("y")), (3, "b", Some("z")), (4, "b", None)]
    {
        replica.commits(sequence, 10 * sequence, writes(key, value));
    }
    replica.floor_rises(60);
    replica.sweeps_until_shortened();
    assert_eq!(
        told(&replica.replica, 0),
        [10, 20, 30, 40],
        "though two were overwritten, and one is a deletion"
    );
    replica.commits(5, 70, writes("a", Some("later")));
    replica.floor_rises(80);
    replica.sweeps_until_shortened();
    assert_eq!(told(&replica.replica, 20), [20, 30, 40, 70]);
    // A restarted one goes on.
    let restarted = replay::rebuild::<Replica>(replica.config.clone(), replica.log.clone());
    replica.replica = restarted;
    replica.step(Input::Start);
    assert_eq!(told(&replica.replica, 20), [20, 30, 40, 70]);
}

#[test]
fn a_replica_that_is_given_state_retains_as_much_as_its_giver() {
    let state = [("a", 10), ("a", 20), ("b", 30)];
    let mut replica = Shortening::new();
    replica.view_starts_with(1, 50, &state, Some(15));
    assert_eq!(told(&replica.replica, 15), [20, 30]);
    assert_eq!(retained(&replica.replica, 14), Answer::TooOld { retained_from: at(15) });
    // One that knows nothing of it may have collected anything below its floor.
    let mut replica = Shortening::new();
    replica.view_starts_with(1, 50, &state, None);
    assert_eq!(told(&replica.replica, 50), []);
    assert_eq!(retained(&replica.replica, 49), Answer::TooOld { retained_from: at(50) });
}
