//! One subscriber: leases are counted from the right end, and copies are whole and never go back.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::log::Position;
use quorate_core::machine::Effect;
use quorate_core::{
    ClientId, ClockTime, Context, Epoch, GroupSize, Input, Instant, Key, KeyRange, Machine, Outbox, Random,
    ReplicaId, ReplicaIndex, ShardId, TransactionId, Value,
};

use super::{Out, Subscriber, SubscriberCommand, SubscriberEvent, SubscriberTimer};
use crate::config::{ReplicaConfig, SubscriberConfig};
use crate::entry::{Change, KeyState, LeaseId, Revision, Stored};
use crate::message::{ConditionalWrite, Message, Refusal};
use crate::rules::{Plant, Rules};

const ME: ClientId = ClientId(7);

struct World {
    subscriber: Subscriber,
    now: Duration,
    /// To whom the last step has sent something.
    asked: Vec<ReplicaIndex>,
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

impl World {
    fn new(rules: Rules) -> Self {
        let group = (ShardId(0), GroupSize::new(3).unwrap().into());
        let config = SubscriberConfig { rules, ..SubscriberConfig::new(ME, group) };
        World { subscriber: Subscriber::restore(config, []), now: Duration::ZERO, asked: Vec::new() }
    }

    /// The messages and events of one step.
    fn step(
        &mut self,
        input: Input<Message, SubscriberTimer, SubscriberCommand>,
    ) -> (Vec<Message>, Vec<SubscriberEvent>) {
        let mut random = Random::new(1);
        let clock = ClockTime::from_micros(0);
        let mut context = Context { now: Instant::START + self.now, clock, random: &mut random };
        let mut outbox: Out = Outbox::new();
        self.subscriber.step(&mut context, input, &mut outbox);
        let (mut sent, mut told) = (Vec::new(), Vec::new());
        self.asked.clear();
        for effect in outbox.drain() {
            match effect {
                Effect::Send { to, message } => {
                    let quorate_core::Address::Replica(to) = to else { panic!("{to}") };
                    self.asked.push(to.index);
                    sent.push(message);
                }
                Effect::Emit(event) => told.push(event),
                _ => {}
            }
        }
        (sent, told)
    }

    fn command(&mut self, command: SubscriberCommand) -> Vec<Message> {
        self.step(Input::Command(command)).0
    }

    fn hear(&mut self, message: Message) -> (Vec<Message>, Vec<SubscriberEvent>) {
        self.hear_from(1, message)
    }

    fn hear_from(&mut self, from: u8, message: Message) -> (Vec<Message>, Vec<SubscriberEvent>) {
        let from = ReplicaId { shard: ShardId(0), index: ReplicaIndex(from) };
        self.step(Input::Message { from: from.into(), epoch: Epoch::FIRST, message })
    }

    /// Time passes.
    fn at(&mut self, at: f64) -> (Vec<Message>, Vec<SubscriberEvent>) {
        self.now = seconds(at);
        self.step(Input::Timer(SubscriberTimer::Attention))
    }

    fn hold(&mut self) -> u64 {
        let sent = self.command(SubscriberCommand::Hold { number: 1, duration: seconds(10.0) });
        assert!(matches!(sent[..], [Message::Grant { .. }]));
        sent[0].request()
    }

    fn renewed(&mut self, request: u64) -> Vec<SubscriberEvent> {
        let lease = LeaseId { client: ME, number: 1 };
        self.hear(Message::Renewed { request, lease }).1
    }
}

fn held(until: f64) -> SubscriberEvent {
    SubscriberEvent::Held { number: 1, until: Instant::START + seconds(until) }
}

fn lost() -> SubscriberEvent {
    SubscriberEvent::Lost { number: 1, refusal: None }
}

#[test]
fn a_lease_counts_from_when_it_was_asked_for() {
    for (rules, until) in [(Rules::SOUND, 9.9), (Rules::planted(Plant::LeaseFromAnswer), 14.9)] {
        let mut world = World::new(rules);
        let request = world.hold();
        world.now = seconds(5.0);
        assert_eq!(world.renewed(request), [held(until)]);
    }
    // And from when it was first asked for: it may have been granted then.
    let mut world = World::new(Rules::SOUND);
    world.hold();
    let (again, _) = world.at(2.0);
    world.now = seconds(3.0);
    assert_eq!(world.renewed(again[0].request()), [held(9.9)]);
    assert!(world.subscriber.holds(1, Instant::START + seconds(9.8)));
    assert!(!world.subscriber.holds(1, Instant::START + seconds(9.9)));
    assert!(!world.subscriber.holds(2, Instant::START), "nobody has asked for that");
}

#[test]
fn a_renewal_counts_from_when_that_was_asked_for() {
    let mut world = World::new(Rules::SOUND);
    let request = world.hold();
    world.renewed(request);
    let (first, _) = world.at(4.0);
    let (second, _) = world.at(6.0);
    assert!(matches!((&first[..], &second[..]), ([Message::Renew { .. }], [Message::Renew { .. }])));
    assert_eq!(world.renewed(first[0].request()), [held(13.9)]);
    assert_eq!(world.renewed(second[0].request()), [held(15.9)]);
    assert_eq!(world.renewed(first[0].request()), [], "that was answered before");
}

#[test]
fn what_is_over_is_never_taken_up_again() {
    let mut world = World::new(Rules::SOUND);
    let request = world.hold();
    world.renewed(request);
    let (renewal, _) = world.at(9.0);
    let (_, told) = world.at(9.9);
    assert_eq!(told, [lost()]);
    assert_eq!(world.renewed(renewal[0].request()), []);
    // An answer that comes too late is no lease at all.
    let mut world = World::new(Rules::SOUND);
    let request = world.hold();
    world.now = seconds(9.9);
    assert_eq!(world.renewed(request), [lost()]);
    // Nor is one that was given up.
    let mut world = World::new(Rules::SOUND);
    let request = world.hold();
    world.command(SubscriberCommand::Release { number: 1 });
    assert_eq!(world.renewed(request), []);
    assert!(!world.subscriber.holds(1, Instant::START));
}

/// The holder's watch may run slow and the leader's fast, each by a hundredth.
#[test]
fn a_holder_ends_before_the_leader_whatever_their_rates() {
    let lasts = seconds(9.9);
    let leader = ReplicaConfig::new(ReplicaId::default()).at_least(seconds(10.0));
    for (slow, fast) in [(0.99, 1.0), (1.0, 1.01), (0.995, 1.005), (0.99, 1.01)] {
        assert!(lasts.div_f64(slow) <= leader.div_f64(fast) + Duration::from_micros(1), "{slow} {fast}");
    }
}

const WATCH: u64 = 4;

fn stored(changed: u64) -> Stored {
    let changed = Revision(changed);
    Stored { value: Value::from_static(b"v"), created: changed, changed, lease: None }
}

fn page(request: u64, revision: u64, keys: &[(&str, u64)], next: Option<&str>) -> Message {
    let key = |name: &str| Key::copy_from_slice(name.as_bytes());
    Message::ScanReply {
        request,
        revision: Revision(revision),
        position: Position(revision),
        found: keys.iter().map(|(name, changed)| (key(name), stored(*changed))).collect(),
        next: next.map(key),
    }
}

fn change(revision: u64, key: &'static str, lives: bool) -> Arc<Change> {
    let state = KeyState { key: Key::from(key), stored: lives.then(|| stored(revision)) };
    Arc::new(Change { revision: Revision(revision), keys: vec![state] })
}

fn changes(request: u64, after: u64, until: u64, changes: Vec<Arc<Change>>) -> Message {
    Message::Changes { request, after: Revision(after), until: Revision(until), changes, has_more: false }
}

fn loaded(revision: u64) -> SubscriberEvent {
    SubscriberEvent::Loaded { watch: WATCH, revision: Revision(revision) }
}

/// A subscriber that watches everything and has read the map at a revision; and the name of its watch.
fn watching(revision: u64) -> (World, u64) {
    let mut world = World::new(Rules::SOUND);
    let range = KeyRange { from: Key::default(), to: None };
    let sent = world.command(SubscriberCommand::Watch { watch: WATCH, range });
    let (sent, told) = world.hear(page(sent[0].request(), revision, &[("a", 1)], None));
    assert_eq!(told, [loaded(revision)]);
    let [Message::Watch { request, after, .. }] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(*after, Revision(revision));
    (world, *request)
}

fn names(world: &World) -> Vec<String> {
    let keys = world.subscriber.watched(WATCH).and_then(|watched| watched.keys());
    keys.into_iter()
        .flatten()
        .map(|(key, stored)| format!("{}{}", key.escape_ascii(), stored.changed))
        .collect()
}

#[test]
fn changes_are_told_once_and_in_order_and_what_is_missing_is_asked_for() {
    let (mut world, watch) = watching(3);
    let told = |change: &Arc<Change>| SubscriberEvent::Changed { watch: WATCH, change: Arc::clone(change) };
    let (four, five, six) = (change(4, "b", true), change(5, "a", false), change(6, "b", true));
    assert_eq!(world.hear(changes(watch, 3, 3, Vec::new())), (vec![], vec![]));
    let (sent, events) = world.hear(changes(watch, 4, 5, vec![five.clone()]));
    assert!(events.is_empty(), "the fourth is missing");
    assert!(matches!(sent[..], [Message::Watch { after: Revision(3), .. }]), "{sent:?}");
    assert_eq!(world.hear(changes(watch, 5, 6, vec![six.clone()])), (vec![], vec![]), "that was asked for");
    let both = changes(watch, 3, 5, vec![four.clone(), five.clone()]);
    assert_eq!(world.hear(both.clone()).1, [told(&four), told(&five)]);
    assert_eq!(world.hear(both).1, [], "it comes twice");
    assert_eq!(world.hear(changes(watch, 3, 6, vec![four, five, six.clone()])).1, [told(&six)]);
    assert_eq!(names(&world), ["b@6"]);
}

#[test]
fn a_copy_of_a_message_asks_for_nothing() {
    let (mut world, request) = watching(3);
    let (after, until) = (Revision(3), Revision(4));
    let more =
        Message::Changes { request, after, until, changes: vec![change(4, "b", true)], has_more: true };
    let (sent, _) = world.hear(more.clone());
    assert!(matches!(sent[..], [Message::Watch { after: Revision(4), .. }]), "{sent:?}");
    assert_eq!(world.hear(more), (vec![], vec![]));
}

#[test]
fn a_copy_is_whole_once_its_pages_are_of_one_revision() {
    let mut world = World::new(Rules::SOUND);
    let range = KeyRange { from: Key::default(), to: None };
    let sent = world.command(SubscriberCommand::Watch { watch: WATCH, range });
    let (sent, told) = world.hear(page(sent[0].request(), 3, &[("a", 1), ("b", 2)], Some("c")));
    assert!(told.is_empty());
    // Meanwhile b is deleted by the fourth write, and d is written by the fifth and the sixth.
    let (sent, told) = world.hear(page(sent[0].request(), 6, &[("d", 6)], None));
    assert!(told.is_empty() && names(&world).is_empty());
    let Message::Watch { request, after: Revision(3), .. } = sent[0] else { panic!("{sent:?}") };
    let (_, told) = world.hear(changes(request, 3, 5, vec![change(4, "b", false), change(5, "d", true)]));
    assert!(told.is_empty(), "{told:?}");
    let seven = change(7, "e", true);
    let (_, told) = world.hear(changes(request, 5, 7, vec![change(6, "d", true), seven.clone()]));
    assert_eq!(told, [loaded(6), SubscriberEvent::Changed { watch: WATCH, change: seven }]);
    assert_eq!(names(&world), ["a@1", "d@6", "e@7"]);
}

#[test]
fn what_is_forgotten_is_read_anew_and_never_from_who_lags_behind() {
    let (mut world, watch) = watching(3);
    world.hear(changes(watch, 3, 5, vec![change(5, "b", true)]));
    let forgotten = |revision| Message::Forgotten { request: watch, forgotten: Revision(revision) };
    assert!(world.hear(forgotten(5)).0.is_empty(), "it knows what is forgotten");
    let (sent, _) = world.hear(forgotten(8));
    let [Message::Scan { request, .. }] = sent[..] else { panic!("{sent:?}") };
    let (sent, told) = world.hear(page(request, 4, &[("a", 1)], None));
    assert!(sent.is_empty() && told.is_empty(), "it was at the fifth already");
    let (sent, _) = world.at(1.3);
    let Some(Message::Scan { request, .. }) = sent.last() else { panic!("{sent:?}") };
    assert_eq!(world.hear(page(*request, 9, &[("b", 9)], None)).1, [loaded(9)]);
    assert_eq!(names(&world), ["b@9"]);
}

/// Replicas name each other as leaders while these change.
fn follows(world: &mut World, mut request: u64) -> u32 {
    for redirects in 0..100 {
        let from = world.asked[0].0;
        let leader = ReplicaIndex((from + 1) % 3);
        let (sent, told) = world.hear_from(from, Message::NotLeading { request, leader });
        assert_eq!(told, []);
        let [message] = &sent[..] else { return redirects };
        assert_eq!(world.asked, [leader]);
        request = message.request();
    }
    panic!("it follows for ever")
}

#[test]
fn who_leads_is_followed_a_few_times_and_asked_again_after_a_while() {
    let mut world = World::new(Rules::SOUND);
    let request = world.hold();
    assert_eq!(follows(&mut world, request), 4);
    let (sent, _) = world.at(1.5);
    assert!(matches!(sent[..], [Message::Grant { .. }]), "{sent:?}");
    assert_eq!(follows(&mut world, sent[0].request()), 4);

    let mut world = World::new(Rules::SOUND);
    let write = Arc::new(ConditionalWrite { compares: Vec::new(), puts: Vec::new() });
    let transaction = TransactionId { client: ME, sequence: 1, attempt: 0 };
    let patience = seconds(10.0);
    let sent = world.command(SubscriberCommand::Write { transaction, write, patience });
    assert_eq!(follows(&mut world, sent[0].request()), 4);
    let (sent, _) = world.at(1.5);
    assert!(matches!(sent[..], [Message::Write { .. }]), "{sent:?}");
}

#[test]
fn a_replica_that_was_not_taken_for_the_leader_changes_nothing_about_that() {
    let mut world = World::new(Rules::SOUND);
    let request = world.hold();
    let leader = world.asked[0];
    let other = ReplicaIndex((leader.0 + 1) % 3);
    let third = ReplicaIndex((leader.0 + 2) % 3);
    world.hear_from(other.0, Message::NotLeading { request, leader: third });
    assert_eq!(world.asked, [leader], "it is asked where it was asked before");
    // And one that names itself knows nothing.
    let request = world.command(SubscriberCommand::Hold { number: 2, duration: seconds(9.0) })[0].request();
    let (sent, _) = world.hear_from(leader.0, Message::NotLeading { request, leader });
    assert_eq!(sent, []);
}

#[test]
fn a_lease_that_is_refused_is_lost_and_one_that_is_given_up_is_not_told_of() {
    let mut world = World::new(Rules::SOUND);
    let request = world.hold();
    let refusal = Refusal::TooMany;
    let (_, told) = world.hear(Message::Refused { request, refusal });
    assert_eq!(told, [SubscriberEvent::Lost { number: 1, refusal: Some(refusal) }]);

    let mut world = World::new(Rules::SOUND);
    let request = world.hold();
    world.renewed(request);
    let sent = world.command(SubscriberCommand::Release { number: 1 });
    assert!(matches!(sent[..], [Message::Release { .. }]));
    let lease = LeaseId { client: ME, number: 1 };
    let (sent, told) = world.hear(Message::NoSuchLease { request: sent[0].request(), lease });
    assert_eq!((sent, told), (vec![], vec![]));
    assert_eq!(world.at(20.0), (vec![], vec![]), "nothing is left of it");
}
