//! The promises of the driver, shown with a machine that does as it is told.

use std::time::Duration;

use quorate_core::machine::{Context, PersistToken};
use quorate_core::{Address, ClientId, ClockTime, Effect, Epoch, Input, Instant, Machine, Outbox, Random};

use super::{Alarm, Carrier, Driver, Kept, Setting, Time};

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
        context: &mut Context<'_>,
        input: Input<&'static str, &'static str, Vec<Scripted>>,
        outbox: &mut Outbox<&'static str, &'static str, &'static str, &'static str>,
    ) {
        match input {
            Input::Start => outbox.emit("started"),
            Input::Message { message: "ignore", .. } => outbox.ignored("a puppet ignores it"),
            Input::Message { message: "draw", .. } => _ = context.random.next_u64(),
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
    /// The machine crashes while it sends this.
    fatal: Option<&'static str>,
    has_ended: bool,
    /// The timers that the host schedules itself; none if the driver keeps them.
    scheduled: Option<Vec<(&'static str, Setting, Duration)>>,
}

impl Carrier<Puppet> for World {
    fn send(&mut self, _: Address, epoch: Epoch, message: &'static str) {
        assert_eq!(epoch, EPOCH, "the machine says under which membership it speaks");
        self.left.push(message);
        self.has_ended |= self.fatal == Some(message);
    }

    fn emit(&mut self, event: &'static str) {
        self.left.push(event);
    }

    fn ignored(&mut self, reason: &'static str) {
        self.left.push(reason);
    }

    fn persist(&mut self, _: &Puppet, record: &'static str) -> Kept {
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

    fn schedule(&mut self, timer: &&'static str, setting: Setting, after: Duration) -> Alarm {
        match &mut self.scheduled {
            Some(scheduled) => {
                scheduled.push((timer, setting, after));
                Alarm::Host
            }
            None => Alarm::Driver,
        }
    }

    fn has_ended(&self) -> bool {
        self.has_ended
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
    Driver::new(Puppet::restore((), []), Random::new(1))
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

fn set(timer: &'static str, millis: u64) -> Scripted {
    Effect::SetTimer { timer, after: Duration::from_millis(millis) }
}

#[test]
fn a_host_that_schedules_timers_itself_fires_current_settings_alone() {
    let (mut driver, mut world) = (driver(), World { scheduled: Some(Vec::new()), ..World::default() });
    let script = vec![set("a", 10), set("b", 20), set("a", 30), set("c", 40), Effect::CancelTimer("c")];
    driver.step(at(0), Input::Command(script), &mut world);
    assert_eq!(driver.next_deadline(), None, "the driver keeps no deadline of its own");
    let scheduled = world.scheduled.clone().unwrap_or_default();
    let afters: Vec<_> = scheduled.iter().map(|(timer, _, after)| (*timer, after.as_millis())).collect();
    assert_eq!(afters, [("a", 10), ("b", 20), ("a", 30), ("c", 40)]);
    for (timer, setting, _) in scheduled.iter().chain(&scheduled) {
        driver.fire_timer(at(50), timer, *setting, &mut world);
    }
    assert_eq!(world.left, ["b", "a"]);
}

#[test]
fn nothing_leaves_after_a_machine_has_crashed_within_an_effect() {
    let unordered = |message| Effect::SendUnordered { to: PEER, message };
    let notify = |token| Effect::Persist { record: "a", notify: Some(PersistToken(token)) };
    let table = [
        (vec![unordered("x"), unordered("later"), send("held")], vec!["x"], 0),
        (vec![unordered("x"), persist("a")], vec!["x"], 0),
        (vec![send("x"), Effect::Emit("later"), persist("a"), send("held")], vec!["x"], 1),
        (vec![notify(2), notify(3), send("first")], vec!["first", "token", "token"], 2),
        (vec![notify(2), notify(3), send("x")], vec!["x"], 2),
        (vec![notify(1), notify(2), send("first")], vec!["first", "token 1"], 2),
        (vec![notify(2), send("x"), Effect::Emit("later")], vec!["x"], 1),
    ];
    for (script, left, records) in table {
        let (mut driver, mut world) = (driver(), with_log());
        world.fatal = Some(if left.contains(&"token 1") { "token 1" } else { "x" });
        driver.step(at(0), Input::Command(script.clone()), &mut world);
        let appended = world.log.as_ref().map_or(0, Vec::len) as u64;
        assert_eq!(appended, records, "{script:?}");
        if !world.has_ended {
            driver.on_durable(at(1), appended, &mut world);
        }
        assert_eq!(world.left, left, "{script:?}");
    }
}

/// One ordered effect in flight, as the rule says: free once so many records are durable.
#[derive(Debug)]
struct Expected {
    free_at: u64,
    what: &'static str,
}

/// The rule of durability order, written down a second time without a queue: of what was ordered, the longest prefix has
/// left of which each element stands behind durable records alone, and notices follow in the order of their records.
#[test]
fn effects_leave_in_durability_order_whatever_the_schedule() {
    const NAMES: [&str; 8] = ["0", "1", "2", "3", "4", "5", "6", "7"];
    for seed in 0..2_000 {
        let mut random = Random::new(seed);
        let (mut driver, mut world) = (driver(), with_log());
        let mut ordered: Vec<Expected> = Vec::new();
        let (mut expected, mut truncated) = (Vec::new(), Vec::new());
        let (mut appended, mut durable, mut released) = (0, 0, 0);
        for _ in 0..20 {
            let mut script = Vec::new();
            let before = expected.len();
            for _ in 0..random.index(6) {
                let what = NAMES[random.index(NAMES.len())];
                match random.index(6) {
                    0 => {
                        script.push(send(what));
                        ordered.push(Expected { free_at: appended, what });
                    }
                    1 => {
                        script.push(Effect::Emit(what));
                        ordered.push(Expected { free_at: appended, what });
                    }
                    2 => {
                        script.push(Effect::SendUnordered { to: PEER, message: what });
                        expected.push(what);
                    }
                    3 => {
                        appended += 1;
                        script.push(persist(what));
                    }
                    4 => {
                        appended += 1;
                        script.push(Effect::Persist { record: what, notify: Some(PersistToken(1)) });
                        ordered.push(Expected { free_at: appended, what: "token 1" });
                    }
                    _ => {
                        script.extend([Effect::Anchor, Effect::Truncate]);
                        ordered.push(Expected { free_at: appended, what: "truncate" });
                        truncated.push(appended);
                    }
                }
            }
            driver.step(at(0), Input::Command(script), &mut world);
            release(&ordered, &mut released, durable, &mut expected);
            assert_eq!(world.left, expected, "seed {seed}");
            assert!(expected.len() >= before);
            if random.chance(0.5) {
                // Reports may come late, and again.
                let reported = random.between(durable.saturating_sub(2), appended);
                durable = durable.max(reported);
                driver.on_durable(at(0), reported, &mut world);
                release(&ordered, &mut released, durable, &mut expected);
                assert_eq!(world.left, expected, "seed {seed}");
            }
            let gone = ordered[..released].iter().filter(|element| element.what == "truncate").count();
            assert_eq!(world.truncated, truncated[..gone], "seed {seed}");
            assert_eq!(driver.held_len(), ordered.len() - released, "seed {seed}");
            assert_eq!(driver.marks(), (appended, durable), "seed {seed}");
        }
    }
}

/// Lets leave what is free in the model: notices are answered behind everything that is free with them.
fn release(ordered: &[Expected], released: &mut usize, durable: u64, expected: &mut Vec<&'static str>) {
    let free = ordered[*released..].iter().take_while(|element| element.free_at <= durable).count();
    let leaving = &ordered[*released..*released + free];
    *released += free;
    expected.extend(
        leaving.iter().map(|element| element.what).filter(|what| !["token 1", "truncate"].contains(what)),
    );
    expected.extend(leaving.iter().map(|element| element.what).filter(|what| *what == "token 1"));
}

#[test]
fn effects_of_a_step_leave_in_outbox_order_except_unordered_ones() {
    let (mut driver, mut world) = (driver(), World::default());
    let script = vec![
        send("one"),
        Effect::SendUnordered { to: PEER, message: "free" },
        Effect::Persist { record: "a", notify: Some(PersistToken(1)) },
        Effect::Emit("two"),
    ];
    driver.step(at(0), Input::Command(script), &mut world);
    assert_eq!(world.left, ["free", "one", "two", "token 1"]);
}

#[test]
fn an_ignored_input_is_told_with_its_reason() {
    let (mut driver, mut world) = (driver(), World::default());
    let message = Input::Message { from: PEER, epoch: EPOCH, message: "ignore" };
    driver.step(at(0), message, &mut world);
    assert_eq!(world.left, ["a puppet ignores it"]);
}

#[test]
fn the_next_incarnation_goes_on_with_the_generator() {
    let mut expected = Random::new(1);
    let mut driver = driver();
    for _ in 0..3 {
        driver.step(
            at(0),
            Input::Message { from: PEER, epoch: EPOCH, message: "draw" },
            &mut World::default(),
        );
        expected.next_u64();
    }
    assert_eq!(driver.end().0.next_u64(), expected.next_u64());
}
