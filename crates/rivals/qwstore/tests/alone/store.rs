//! A replica by itself: which puts it records, and what it answers.

use quorate_core::hosted::{Health, Holdings, HostedReplica, Status};
use quorate_core::machine::OutboxOf;
use quorate_core::{Address, Context, Effect, GroupSize, Input, Instant, Outbox, Random};
use quorate_qwstore::message::Put;
use quorate_qwstore::{Boot, Record, Replica, ReplicaConfig, ReplicaEvent};
use quorate_testscripts::alone::{address, name};

use super::*;

/// The first of three replicas, its disk and its clock.
struct Store {
    replica: Replica,
    disk: Vec<Record>,
    clock: u64,
    random: Random,
}

fn config(change: impl FnOnce(&mut ReplicaConfig)) -> ReplicaConfig {
    let mut config = ReplicaConfig::new(replica("1/r0"), GroupSize::new(3).unwrap(), Boot::Initialise);
    change(&mut config);
    config
}

impl Store {
    fn new(change: impl FnOnce(&mut ReplicaConfig)) -> Self {
        let replica = Replica::restore(config(change), []);
        let mut store = Store { replica, disk: Vec::new(), clock: 1_000, random: Random::new(1) };
        store.step(Input::Start);
        store
    }

    fn step(
        &mut self,
        input: Input<Message, quorate_qwstore::ReplicaTimer, std::convert::Infallible>,
    ) -> Vec<String> {
        let mut outbox: OutboxOf<Replica> = Outbox::new();
        let (now, clock) = (Instant::START, ClockTime::from_micros(self.clock));
        self.replica.step(&mut Context { now, clock, random: &mut self.random }, input, &mut outbox);
        let mut told: Vec<String> =
            outbox.take_ignored().into_iter().map(|reason| format!("✗ {reason}")).collect();
        for effect in outbox.drain() {
            match effect {
                Effect::Send { to, message } => {
                    told.push(format!("{} ← {}", name(to), describe::message(&message)))
                }
                Effect::SendUnordered { to, message } => {
                    told.push(format!("{} ⇠ {}", name(to), describe::message(&message)));
                }
                Effect::Persist { record, .. } => {
                    told.push("writes".to_owned());
                    self.disk.push(record);
                }
                Effect::Emit(ReplicaEvent::Outdated { epoch }) => told.push(format!("hears of {}", epoch.0)),
                Effect::Emit(_)
                | Effect::SetTimer { .. }
                | Effect::CancelTimer(_)
                | Effect::Anchor
                | Effect::Truncate => {}
            }
        }
        told
    }

    fn hears(&mut self, from: &str, message: Message) -> Vec<String> {
        self.hears_under(Epoch::FIRST, from, message)
    }

    fn hears_under(&mut self, epoch: Epoch, from: &str, message: Message) -> Vec<String> {
        let from: Address = address(from);
        self.step(Input::Message { from, epoch, message })
    }

    /// A put of the first client.
    fn is_put(&mut self, number: u64, key: &str, micros: u64) -> Vec<String> {
        self.hears("c1", put(number, key, micros))
    }
}

fn put(number: u64, key: &str, micros: u64) -> Message {
    let id = OperationId { transaction: txn(1, number), number: OperationId::INCONSISTENT };
    let KeyVersion { key, version: timestamp, value } = held(key, micros);
    Message::Ir(Ir::ProposeInconsistent { id, operation: Arc::new(Put { key, value, timestamp }) })
}

#[test]
fn a_put_is_recorded_and_takes_effect_before_it_is_answered() {
    let mut store = Store::new(|_| {});
    assert_eq!(store.is_put(0, "oak", 900), ["writes", "c1 ← recorded c1#0 in v0"], "once it is on the disk");
    assert_eq!(store.is_put(0, "oak", 900), ["c1 ← recorded c1#0 in v0"], "it is not written twice");
    assert_eq!(store.is_put(1, "oak", 700), ["writes", "c1 ← recorded c1#1 in v0"], "an earlier version");
    assert_eq!(
        store.hears("c2", Message::Read { transaction: txn(2, 1), key: Key::from("oak") }),
        ["c2 ⇠ c2.1 oak is 900 @900c1"]
    );
    assert_eq!(
        store.hears("c2", Message::Read { transaction: txn(2, 1), key: Key::from("elm") }),
        ["c2 ⇠ c2.1 elm is nothing @0"]
    );
    assert_eq!(
        (store.replica.record_len(), store.replica.holds(txn(1, 1)), store.replica.holds(txn(1, 2))),
        (2, true, false)
    );
    assert_eq!(store.replica.recorded(), 2);
    let Health { status, leads, record_len, prepared, recoveries, .. } = store.replica.health();
    assert_eq!((status, leads, record_len, prepared, recoveries), (Status::Normal, false, 2, 0, 0));
    assert_eq!(
        (store.replica.load(None), store.replica.is_idle(), store.replica.decided()),
        (0, true, (0, 0))
    );
    assert_eq!(HostedReplica::health(&store.replica).view, View(0));
    // A restart from its disk has all of it.
    let restarted = Replica::restore(config(|config| config.boot = Boot::Rejoin), store.disk.clone());
    assert_eq!(restarted.record_len(), 2);
    assert_eq!(Holdings::versions(&restarted), Holdings::versions(&store.replica));
    assert!(!Holdings::versions(&restarted).is_empty() && Holdings::outcomes(&restarted).is_empty());
}

/// Two puts with one id or one timestamp would be taken for one.
#[test]
fn nobody_puts_in_the_name_of_another() {
    let mut store = Store::new(|_| {});
    let other_id = OperationId { transaction: txn(2, 0), number: OperationId::INCONSISTENT };
    let other_number = OperationId { transaction: txn(1, 0), number: OperationId::INCONSISTENT + 1 };
    let own = OperationId { transaction: txn(1, 0), number: OperationId::INCONSISTENT };
    let put = |id, timestamp| {
        let operation = Arc::new(Put { key: Key::from("oak"), value: None, timestamp });
        Message::Ir(Ir::ProposeInconsistent { id, operation })
    };
    let foreign = Timestamp { micros: 900, client: ClientId(2) };
    for (from, message) in [
        ("c1", put(other_id, at(900))),
        ("c2", put(own, at(900))),
        ("c1", put(own, foreign)),
        ("1/r1", put(own, at(900))),
        ("c1", put(other_number, at(900))),
    ] {
        assert_eq!(store.hears(from, message.clone()), NOTHING, "{from}: {message:?}");
    }
    assert_eq!(store.hears("c1", put(own, at(900))).len(), 2);
}

#[test]
fn a_timestamp_that_is_far_ahead_is_not_recorded() {
    let mut store = Store::new(|config| config.timestamp_ahead_max = Duration::from_secs(10));
    assert_eq!(store.is_put(0, "oak", 10_001_001), ["c1 ⇠ c1#0 is 10000001 µs ahead"]);
    assert_eq!(store.is_put(1, "oak", 10_001_000), ["writes", "c1 ← recorded c1#1 in v0"]);
    // What is recorded is answered, whatever the clock shows since.
    store.clock = 1;
    assert_eq!(store.is_put(1, "oak", 10_001_000), ["c1 ← recorded c1#1 in v0"]);
}

#[test]
fn a_put_below_what_is_refused_is_late() {
    let mut store = Store::new(|_| {});
    store.is_put(0, "oak", 500);
    let gather = Message::Gather {
        view: View(0),
        floor: Timestamp::ZERO,
        below: Timestamp { micros: 800, client: ClientId(0) },
        from: Default::default(),
    };
    let told = store.hears("1/r1", gather);
    assert!(told.iter().any(|line| line.starts_with("1/r1 ← below 800 I hold [c1#0]")), "{told:?}");
    assert_eq!(store.is_put(1, "oak", 799), ["c1 ⇠ late c1#1: below 800, and it is 1000"]);
    assert_eq!(store.is_put(0, "oak", 500), ["c1 ← recorded c1#0 in v0"], "what is recorded is answered");
    assert_eq!(
        store.is_put(2, "oak", 800),
        ["writes", "c1 ← recorded c1#2 in v0"],
        "that is above, by the client"
    );
    let mut store = Store::new(|_| {});
    store.hears(
        "1/r1",
        Message::Gather { view: View(0), floor: Timestamp::ZERO, below: at(800), from: Default::default() },
    );
    assert_eq!(store.is_put(1, "oak", 800).len(), 2, "that is not below");
}

#[test]
fn a_scan_has_what_the_replica_holds() {
    let mut store = Store::new(|config| config.scan_page_max = 2);
    for (number, key) in [(0, "elm"), (1, "iris"), (2, "oak")] {
        store.is_put(number, key, 500 + number);
    }
    let scan = |limit| Message::Scan {
        transaction: txn(2, 1),
        request: 7,
        range: KeyRange { from: Key::from("a"), to: Some(Key::from("z")) },
        limit,
    };
    assert_eq!(store.hears("c2", scan(1)), ["c2 ⇠ c2.1 found [elm=500@500c1], next iris"]);
    assert_eq!(store.hears("c2", scan(9)), ["c2 ⇠ c2.1 found [elm=500@500c1 iris=501@501c1], next oak"]);
    for message in [
        Message::ReadReply { transaction: txn(2, 1), key: Key::from("oak"), version: at(5), value: None },
        Message::Late { put: txn(2, 1), refusal: at(5), clock: ClockTime::default() },
        Message::Outdated,
    ] {
        assert_eq!(store.hears("c2", message), NOTHING, "replicas are not told so");
    }
}

/// A replica that has lost its record promises nothing before it has learned everything.
#[test]
fn a_replica_that_has_lost_its_record_neither_records_nor_answers() {
    let mut store = Store::new(|config| config.boot = Boot::Rejoin);
    assert_eq!(store.replica.status(), Status::Recovering);
    assert_eq!(store.is_put(0, "oak", 900), NOTHING);
    assert_eq!(store.hears("c2", Message::Read { transaction: txn(2, 1), key: Key::from("oak") }), NOTHING);
    let scan = Message::Scan {
        transaction: txn(2, 1),
        request: 7,
        range: KeyRange { from: Key::from("a"), to: None },
        limit: 5,
    };
    assert_eq!(store.hears("c2", scan), NOTHING);
    assert_eq!(store.replica.record_len(), 0);
}

#[test]
fn a_replica_answers_nobody_of_another_membership() {
    let mut store = Store::new(|config| config.epoch = Epoch(2));
    let read = || Message::Read { transaction: txn(2, 1), key: Key::from("oak") };
    assert_eq!(store.hears_under(Epoch(1), "c2", read()), ["c2 ⇠ outdated"].map(str::to_owned));
    let told = store.hears_under(Epoch(3), "1/r1", read());
    assert_eq!(told, ["hears of 3"]);
    assert_eq!(store.hears_under(Epoch(2), "c2", read()).len(), 1);
    assert_eq!(store.replica.epoch(address("c2")), Epoch(2));
}
