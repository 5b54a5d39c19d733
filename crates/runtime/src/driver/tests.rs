//! What the driver promises, shown with a machine that does as it is told.

use std::time::Duration;

use quorate_core::machine::{Context, PersistToken};
use quorate_core::{Address, ClientId, ClockTime, Effect, Epoch, Input, Instant, Machine, Outbox};

use super::{Carrier, Driver, Kept};
use crate::clock::Time;

type Scripted = Effect<&'static str, &'static str, &'static str, &'static str>;

/// Emits the effects that it is commanded to, and reports every other input as an event.
struct Puppet;

impl Machine for Puppet {
    type Message = &'static str;
    type Timer = &'static str;
    type Record = &'static str;
    type Command = Vec<Scripted>;
    type Event = &'static str;
    type Config = ();

    fn restore((): (), _: impl IntoIterator<Item = &'static str>) -> Self {
        Puppet
    }

    fn epoch(&self, _: Address) -> Epoch {
        EPOCH
    }

    fn step(
        &mut self,
        _: &mut Context<'_>,
        input: Input<&'static str, &'static str, Vec<Scripted>>,
        outbox: &mut Outbox<&'static str, &'static str, &'static str, &'static str>,
    ) {
        match input {
            Input::Start => outbox.emit("started"),
            Input::Message { message, .. } => outbox.emit(message),
            Input::Timer(timer) => outbox.send_unordered(PEER, timer),
            Input::Persisted(PersistToken(token)) => {
                outbox.send_unordered(PEER, if token == 1 { "token 1" } else { "token" });
            }
            Input::Command(effects) => {
                for effect in effects {
                    match effect {
                        Effect::Send { to, message } => outbox.send(to, message),
                        Effect::SendUnordered { to, message } => outbox.send_unordered(to, message),
                        Effect::SetTimer { timer, after } => outbox.set_timer(timer, after),
                        Effect::CancelTimer(timer) => outbox.cancel_timer(timer),
                        Effect::Persist { record, notify: None } => outbox.persist(record),
                        Effect::Persist { record, notify: Some(token) } => {
                            outbox.persist_and_notify(record, token);
                        }
                        Effect::Emit(event) => outbox.emit(event),
                        Effect::Anchor => outbox.anchor(),
                        Effect::Truncate => outbox.truncate(),
                    }
                }
            }
        }
    }
}

const PEER: Address = Address::Client(ClientId(1));
const EPOCH: Epoch = Epoch(3);

/// Writes down what leaves, and keeps records in a log whose marks count them, or in none.
#[derive(Default)]
struct World {
    left: Vec<&'static str>,
    log: Option<Vec<&'static str>>,
    /// Up to where records were given up.
    truncated: Vec<u64>,
}

impl Carrier<Puppet> for World {
    fn send(&mut self, _: Address, epoch: Epoch, message: &'static str) {
        assert_eq!(epoch, EPOCH, "the machine says under which membership it speaks");
        self.left.push(message);
    }

    fn emit(&mut self, event: &'static str) {
        self.left.push(event);
    }

    fn persist(&mut self, record: &'static str) -> Kept {
        match &mut self.log {
            None => Kept::Now,
            Some(log) => {
                log.push(record);
                Kept::At(log.len() as u64)
            }
        }
    }

    fn log_end(&self) -> Kept {
        self.log.as_ref().map_or(Kept::Now, |log| Kept::At(log.len() as u64))
    }

    fn truncate(&mut self, up_to: u64) {
        self.truncated.push(up_to);
    }
}

fn at(millis: u64) -> Time {
    Time { now: Instant::from_nanos(millis * 1_000_000), clock: ClockTime::from_micros(0) }
}

fn send(message: &'static str) -> Scripted {
    Effect::Send { to: PEER, message }
}

fn persist(record: &'static str) -> Scripted {
    Effect::Persist { record, notify: None }
}

fn driver() -> Driver<Puppet> {
    Driver::new(Puppet::restore((), []), 1)
}

fn with_log() -> World {
    World { log: Some(Vec::new()), ..World::default() }
}

fn truncate_around(records: &[&'static str]) -> Vec<Scripted> {
    let records = records.iter().map(|record| persist(record));
    [Effect::Anchor].into_iter().chain(records).chain([Effect::Truncate]).collect()
}

#[test]
fn without_a_log_everything_leaves_at_once_in_order() {
    let (mut driver, mut world) = (driver(), World::default());
    let script = vec![send("one"), persist("a"), send("two"), Effect::Emit("three")];
    driver.step(at(0), Input::Command(script), &mut world);
    assert_eq!(world.left, ["one", "two", "three"]);
    assert_eq!(driver.held_len(), 0);
}

#[test]
fn a_send_waits_for_every_record_persisted_before_it() {
    let (mut driver, mut world) = (driver(), with_log());
    let script =
        vec![send("zero"), persist("a"), send("one"), persist("b"), send("two"), Effect::Emit("three")];
    driver.step(at(0), Input::Command(script), &mut world);
    assert_eq!(world.left, ["zero"]);
    driver.on_durable(at(1), 1, &mut world);
    assert_eq!(world.left, ["zero", "one"]);
    driver.on_durable(at(2), 2, &mut world);
    assert_eq!(world.left, ["zero", "one", "two", "three"]);
}

#[test]
fn a_send_of_a_later_step_waits_as_well() {
    let (mut driver, mut world) = (driver(), with_log());
    driver.step(at(0), Input::Command(vec![persist("a")]), &mut world);
    driver.step(at(0), Input::Command(vec![send("later")]), &mut world);
    assert_eq!(world.left, [""; 0]);
    driver.on_durable(at(1), 1, &mut world);
    driver.step(at(1), Input::Command(vec![send("free")]), &mut world);
    assert_eq!(world.left, ["later", "free"]);
}

#[test]
fn an_unordered_send_overtakes_the_log() {
    let (mut driver, mut world) = (driver(), with_log());
    let script = vec![persist("a"), send("held"), Effect::SendUnordered { to: PEER, message: "free" }];
    driver.step(at(0), Input::Command(script), &mut world);
    assert_eq!(world.left, ["free"]);
}

#[test]
fn a_durability_notice_comes_once_the_record_is_durable() {
    let notify = || vec![Effect::Persist { record: "a", notify: Some(PersistToken(1)) }];
    let (mut driver1, mut world) = (driver(), with_log());
    driver1.step(at(0), Input::Command(notify()), &mut world);
    assert_eq!(world.left, [""; 0]);
    driver1.on_durable(at(1), 1, &mut world);
    assert_eq!(world.left, ["token 1"]);

    let (mut driver2, mut world) = (driver(), World::default());
    driver2.step(at(0), Input::Command(notify()), &mut world);
    assert_eq!(world.left, ["token 1"], "without a log it comes with the step");
}

#[test]
fn timers_fire_once_due_and_not_when_cancelled() {
    let (mut driver, mut world) = (driver(), World::default());
    let set = |timer, millis| Effect::SetTimer { timer, after: Duration::from_millis(millis) };
    driver.step(at(0), Input::Command(vec![set("a", 10), set("b", 20), set("c", 30)]), &mut world);
    driver.step(at(0), Input::Command(vec![Effect::CancelTimer("b")]), &mut world);
    assert_eq!(driver.next_deadline(), Some(at(10).now));
    driver.fire_timers(at(9), &mut world);
    assert_eq!(world.left, [""; 0]);
    driver.fire_timers(at(40), &mut world);
    assert_eq!(world.left, ["a", "c"]);
    assert_eq!(driver.next_deadline(), None);
}

#[test]
#[should_panic(expected = "before it was appended")]
fn a_log_cannot_be_ahead_of_its_machine() {
    driver().on_durable(at(0), 1, &mut with_log());
}

#[test]
fn records_before_the_anchor_go_once_those_after_it_are_durable() {
    let (mut driver, mut world) = (driver(), with_log());
    driver.step(at(0), Input::Command(vec![persist("old"), persist("older")]), &mut world);
    driver.step(at(0), Input::Command(truncate_around(&["all", "of it"])), &mut world);
    driver.on_durable(at(1), 3, &mut world);
    assert_eq!(world.truncated, [0; 0]);
    driver.on_durable(at(2), 4, &mut world);
    assert_eq!(world.truncated, [2]);
}

#[test]
fn a_later_anchor_replaces_an_earlier_one() {
    let (mut driver, mut world) = (driver(), with_log());
    driver.step(at(0), Input::Command(vec![Effect::Anchor, persist("given up")]), &mut world);
    driver.step(at(0), Input::Command(truncate_around(&["again"])), &mut world);
    driver.on_durable(at(1), 2, &mut world);
    assert_eq!(world.truncated, [1]);
    driver.step(at(1), Input::Command(truncate_around(&[])), &mut world);
    assert_eq!(world.truncated, [1, 2], "nothing is waited for where everything is durable");
}

#[test]
fn records_from_before_a_restart_go_too() {
    let (mut driver, mut world) = (driver(), World { log: Some(vec!["from before"]), ..World::default() });
    driver.step(at(0), Input::Command(truncate_around(&["new"])), &mut world);
    driver.on_durable(at(1), 2, &mut world);
    assert_eq!(world.truncated, [1]);
}

#[test]
fn without_a_log_there_is_nothing_to_truncate() {
    let (mut driver, mut world) = (driver(), World::default());
    driver.step(at(0), Input::Command(truncate_around(&["nowhere"])), &mut world);
    assert_eq!(world.truncated, [0; 0]);
}

#[test]
#[should_panic(expected = "truncates at an anchor")]
fn an_anchor_serves_one_truncation() {
    let script = [truncate_around(&["a"]), vec![Effect::Truncate]].concat();
    driver().step(at(0), Input::Command(script), &mut with_log());
}
