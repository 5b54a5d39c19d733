//! A replica by itself: which puts it records, and what it answers.

use quorate_core::hosted::{Health, Holdings, HostedReplica, Status};
use quorate_core::machine::OutboxOf;
use quorate_core::replay;
use quorate_core::{Address, Context, Effect, GroupSize, Input, Instant, Outbox, Random};
use quorate_qwstore::message::Put;
use quorate_qwstore::{Boot, Record, Replica, ReplicaConfig, ReplicaEvent};
use quorate_testscripts::alone::{address, name};

use super::*;

/// The first of three replicas, its disk and its clock.
struct Store {
    replica: Replica,
    disk: Vec<Record>,
    now: Instant,
    timers: Vec<(quorate_qwstore::ReplicaTimer, Instant)>,
    clock: u64,
    random: Random,
    /// The messages of the last step.
    said: Vec<Message>,
}

fn config(change: impl FnOnce(&mut ReplicaConfig)) -> ReplicaConfig {
    let mut config = ReplicaConfig::new(replica("1/r0"), GroupSize::new(3).unwrap(), Boot::Initialise);
    change(&mut config);
    config
}

impl Store {
    fn new(change: impl FnOnce(&mut ReplicaConfig)) -> Self {
        let replica = Replica::restore(config(change), []);
        let mut store = Store {
            replica,
            disk: Vec::new(),
            now: Instant::START,
            timers: Vec::new(),
            clock: 1_000,
            random: Random::new(1),
            said: Vec::new(),
        };
        store.step(Input::Start);
        store
    }

    fn step(
        &mut self,
        input: Input<Message, quorate_qwstore::ReplicaTimer, std::convert::Infallible>,
    ) -> Vec<String> {
        let mut outbox: OutboxOf<Replica> = Outbox::new();
        let (now, clock) = (self.now, ClockTime::from_micros(self.clock));
        self.replica.step(&mut Context { now, clock, random: &mut self.random }, input, &mut outbox);
        self.said.clear();
        let mut told: Vec<String> =
            outbox.take_ignored().into_iter().map(|reason| format!("✗ {reason}")).collect();
        for effect in outbox.drain() {
            match effect {
                Effect::Send { to, message } => {
                    told.push(format!("{} ← {}", name(to), describe::message(&message)));
                    self.said.push(message);
                }
                Effect::SendUnordered { to, message } => {
                    told.push(format!("{} ⇠ {}", name(to), describe::message(&message)));
                }
                Effect::Persist { record, .. } => {
                    told.push("writes".to_owned());
                    self.disk.push(record);
                }
                Effect::Emit(ReplicaEvent::Outdated { epoch }) => told.push(format!("hears of {}", epoch.0)),
                Effect::SetTimer { timer, after } => {
                    self.timers.retain(|(known, _)| *known != timer);
                    self.timers.push((timer, self.now + after));
                }
                Effect::CancelTimer(timer) => self.timers.retain(|(known, _)| *known != timer),
                Effect::Emit(_) | Effect::Anchor | Effect::Truncate => {}
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

    /// So many milliseconds pass, and its timers fire.
    fn waits(&mut self, millis: u64) -> Vec<String> {
        let mut told = Vec::new();
        let until = self.now + Duration::from_millis(millis);
        while let Some((timer, at)) =
            self.timers.iter().map(|(timer, at)| (*timer, *at)).min_by_key(|(_, at)| *at)
            && at <= until
        {
            self.timers.retain(|(known, _)| *known != timer);
            self.passes_to(at);
            told.extend(self.step(Input::Timer(timer)));
        }
        self.passes_to(until);
        told
    }

    fn passes_to(&mut self, at: Instant) {
        self.clock += (at - self.now).as_micros() as u64;
        self.now = at;
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
    let restarted =
        replay::rebuild::<Replica>(config(|config| config.boot = Boot::Rejoin), store.disk.clone());
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
    let mut store = Store::new(|_| {});
    assert_eq!(store.is_put(0, "oak", 60_001_001), ["c1 ⇠ c1#0 is 60000001 µs ahead"], "a minute");
    assert_eq!(store.is_put(1, "oak", 60_001_000), ["writes", "c1 ← recorded c1#1 in v0"]);
    // A put that is recorded is answered at any reading of the clock since.
    store.clock = 1;
    assert_eq!(store.is_put(1, "oak", 60_001_000), ["c1 ← recorded c1#1 in v0"]);
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
    assert_eq!(store.is_put(1, "oak", 900_000_000), NOTHING, "nor does it say what its clock shows");
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

/// By what servers go by: what is older than ten seconds is compared every five, and collected once f + 1 hold the same.
#[test]
fn a_floor_is_looked_for_below_which_all_hold_the_same() {
    let mut store = Store::new(|_| {});
    store.clock = 100_000_000;
    for (number, micros) in [(0, 94_000_000), (1, 95_000_000), (2, 95_500_000), (3, 99_000_000)] {
        store.is_put(number, "oak", micros);
    }
    assert_eq!(store.waits(5_499), NOTHING);
    let gather = ["1/r1 ← GATHER from 0 to 95500000", "1/r2 ← GATHER from 0 to 95500000"];
    assert_eq!(store.waits(1), gather.map(|line| line.to_owned()));
    assert_eq!(store.waits(500), gather.map(|line| line.to_owned()), "it may be lost");
    let Some(Message::Gather { view, below, from, .. }) = store.said.first().cloned() else {
        panic!("it gathers")
    };
    let held = vec![(at(94_000_000), txn(1, 0)), (at(95_000_000), txn(1, 1))];
    let reply = |next| Message::GatherReply { view, below, from, held: held.clone(), next };
    assert_eq!(store.hears("1/r1", reply(None)), ["writes"], "it refuses below, too");
    assert_eq!(store.waits(500), gather[1..], "the other one has not answered");
    let complete = ["writes", "1/r1 ← COMPLETE below 95500000", "1/r2 ← COMPLETE below 95500000"];
    assert_eq!(store.hears("1/r2", reply(None)), complete);
    assert_eq!(store.replica.floor(), Timestamp::ZERO);
    let done = || Message::CompleteReply { view, below };
    assert_eq!(store.hears("1/r1", done()), ["writes", "1/r1 ← RAISE-FLOOR 95500000"]);
    assert_eq!(store.replica.floor(), below);
    assert_eq!(store.hears("1/r2", done()), ["1/r2 ← RAISE-FLOOR 95500000"]);
    // The versions below are collected: the newest version there is what reads find, and stays.
    let left: Vec<_> = store.replica.remains().left().collect();
    assert_eq!((store.replica.record_len(), left), (4, vec![("recorded puts", 2), ("versions", 1)]));
    assert_eq!(store.waits(500), NOTHING);
    assert_eq!((store.replica.record_len(), store.replica.remains().left().count()), (2, 0));
    let versions: Vec<u64> =
        Holdings::versions(&store.replica).iter().map(|(_, version, _)| version.micros).collect();
    assert_eq!(versions, [95_000_000, 95_500_000, 99_000_000]);
    assert_eq!(store.is_put(4, "oak", 95_400_000), ["c1 ⇠ late c1#4: below 95500000, and it is 107000000"]);
    assert_eq!(only_gathers(store.waits(4_999)), NOTHING);
    let next = ["1/r1 ← GATHER from 95500000 to 102000000", "1/r2 ← GATHER from 95500000 to 102000000"];
    assert_eq!(only_gathers(store.waits(1)), next, "five seconds later");
}

fn only_gathers(told: Vec<String>) -> Vec<String> {
    told.into_iter().filter(|line| line.contains("GATHER")).collect()
}

#[test]
fn a_silent_replica_holds_up_no_floor_for_long() {
    let mut store = Store::new(|_| {});
    store.clock = 100_000_000;
    store.waits(5_500);
    let Some(Message::Gather { view, below, from, .. }) = store.said.first().cloned() else {
        panic!("it gathers")
    };
    store.hears("1/r2", Message::GatherReply { view, below, from, held: vec![], next: None });
    assert!(store.waits(7_999).iter().all(|line| line.starts_with("1/r1 ← GATHER")));
    let told = store.waits(1);
    assert!(told.contains(&"1/r2 ← COMPLETE below 95500000".to_owned()), "f + 1 are enough: {told:?}");
}

#[test]
fn what_a_replica_holds_is_told_in_pages() {
    let mut store = Store::new(|config| config.replica = replica("1/r1"));
    for number in 0..4_097 {
        store.is_put(number, "oak", 500);
    }
    let below = Timestamp { micros: 800, client: ClientId(0) };
    let gather = |from| Message::Gather { view: View(0), floor: Timestamp::ZERO, below, from };
    store.hears("1/r0", gather(Default::default()));
    let Some(Message::GatherReply { held, next: Some(next), .. }) = store.said.first().cloned() else {
        panic!("there is more: {:?}", store.said)
    };
    assert_eq!(held.len(), 4_096);
    store.hears("1/r0", gather(next));
    let Some(Message::GatherReply { held, next: None, .. }) = store.said.first() else {
        panic!("there is no more: {:?}", store.said)
    };
    assert_eq!(held.len(), 1);
}

#[test]
fn a_page_of_a_scan_has_a_thousand_keys() {
    let mut store = Store::new(|_| {});
    for number in 0..1_001 {
        store.is_put(number, &format!("oak{number:04}"), 500);
    }
    let range = KeyRange { from: Key::from("a"), to: Some(Key::from("z")) };
    let scan = Message::Scan { transaction: txn(2, 1), request: 7, range, limit: 5_000 };
    let told = store.hears("c2", scan);
    assert!(told[0].ends_with("oak0999=500@500c1], next oak1000"), "{told:?}");
    let mut client = Client::new();
    client.begins();
    assert!(client.scans("a", 5_000).iter().all(|line| line.ends_with("limit 1000")));
}

/// One that is complete learns nothing below: it holds all that was acknowledged, and what it lacks was not.
#[test]
fn a_replica_makes_it_durable_that_it_holds_the_same_and_then_takes_nothing_below() {
    let mut store = Store::new(|config| config.replica = replica("1/r1"));
    store.is_put(0, "oak", 500);
    let below = Timestamp { micros: 800, client: ClientId(0) };
    let gather = Message::Gather { view: View(0), floor: Timestamp::ZERO, below, from: Default::default() };
    assert_eq!(store.hears("1/r0", gather), ["writes", "1/r0 ← below 800 I hold [c1#0]"]);
    let take = |puts: &[(u64, u64)]| Message::Puts {
        puts: puts.iter().map(|(number, micros)| (txn(1, *number), put_of("elm", *micros))).collect(),
    };
    assert_eq!(store.hears("1/r0", take(&[(1, 600)])), ["writes"]);
    let complete = |view| Message::Complete { view: View(view), below };
    assert_eq!(store.hears("1/r0", complete(1)), NOTHING, "another view");
    assert_eq!(store.hears("1/r0", complete(0)), ["writes", "1/r0 ← complete below 800"]);
    assert_eq!(store.hears("1/r0", take(&[(2, 700)])), NOTHING);
    let above = Message::Puts { puts: vec![(txn(0, 3), at_bound(below))] };
    assert_eq!(store.hears("1/r0", above), ["writes"], "that is not below");
    assert_eq!(store.hears("1/r0", Message::RaiseFloor { floor: below }), ["writes"]);
    assert_eq!(store.replica.floor(), below);
    assert_eq!(store.waits(500), NOTHING, "it lacks nothing, and the view stays");
    let holds = [0, 1, 2].map(|number| store.replica.holds(txn(1, number)));
    assert_eq!((holds, store.replica.holds(txn(0, 3))), ([false; 3], true));
    let versions: Vec<u64> =
        Holdings::versions(&store.replica).iter().map(|(_, version, _)| version.micros).collect();
    assert_eq!(versions, [600, 500, 800], "of elm, oak and yew");
}

/// The others have collected what it lacks.
#[test]
fn a_replica_that_is_behind_the_floor_changes_the_view() {
    let mut store = Store::new(|config| config.replica = replica("1/r1"));
    let floor = Timestamp { micros: 800, client: ClientId(0) };
    assert_eq!(store.hears("1/r0", Message::RaiseFloor { floor }), NOTHING);
    assert_eq!(store.waits(499), NOTHING);
    let told = store.waits(1);
    assert_eq!(told[..2], ["writes", "1/r0 ← START-VIEW-CHANGE v2"], "one that another replica leads");
    assert_eq!(store.replica.view(), View(2));
    let views = |told: Vec<String>| -> Vec<String> {
        let started = told.into_iter().filter(|line| line.starts_with("1/r0 ← START"));
        started.map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect()
    };
    let told = views(store.waits(999));
    assert!(told.iter().all(|view| view == "v2") && told.len() > 1, "{told:?}");
    assert_eq!(views(store.waits(1)), ["v3"], "that one is silent for a second");
}

fn at_bound(timestamp: Timestamp) -> Arc<Put> {
    Arc::new(Put { key: Key::from("yew"), value: None, timestamp })
}

fn put_of(key: &str, micros: u64) -> Arc<Put> {
    let KeyVersion { key, version: timestamp, value } = held(key, micros);
    Arc::new(Put { key, value, timestamp })
}

/// A replica of the quorum store cannot be verified, and says why.
#[test]
fn a_host_is_told_that_replicas_cannot_be_compared() {
    let store = Store::new(|_| {});
    let groups = quorate_core::Groups::new(GroupSize::new(3).unwrap());
    assert_eq!(<Replica as HostedReplica>::change_groups(&groups, ShardId(1)).len(), 0);
    assert_eq!((Holdings::floor(&store.replica), Holdings::left(&store.replica).len()), (Timestamp::ZERO, 0));
    let seat = quorate_core::hosted::Seat {
        replica: replica("2/r1"),
        groups,
        shards: None,
        joined: vec![],
        boot: Boot::Rejoin,
        attic: None,
    };
    let seated = <Replica as HostedReplica>::seated(config(|_| {}), &seat);
    assert_eq!((seated.replica, seated.boot, seated.epoch), (replica("2/r1"), Boot::Rejoin, Epoch::FIRST));
    assert_eq!(
        <Replica as HostedReplica>::asleep_since_creation(&seat, View(0), 1).map(|records| records.len()),
        None
    );
}

/// It looks for one only after a while without; and it is told of each thing that is left.
#[test]
fn what_is_left_below_the_floor_is_told() {
    use quorate_qwstore::replica::Remains;
    let left = |recorded, versions| Remains { recorded, versions }.left().collect::<Vec<_>>();
    assert_eq!(left(0, 0), []);
    assert_eq!(left(2, 0), [("recorded puts", 2)]);
    assert_eq!(left(0, 1), [("versions", 1)]);
}

#[test]
fn a_host_hears_what_a_replica_has_heard() {
    let event = ReplicaEvent::Outdated { epoch: Epoch(3) };
    assert_eq!(<Replica as HostedReplica>::news(&event), Some(event.news()));
}
