//! One replica: what comes in, and the exact messages that come out.

mod bounds;

use std::sync::Arc;
use std::time::Duration;

use quorate_core::log::{Confirmation, Log, LogMachine, LogOutbox, Position};
use quorate_core::machine::Effect;
use quorate_core::verify::Digester;
use quorate_core::{
    Address, ClientId, ClockTime, Context, Epoch, Input, Instant, Key, KeyRange, Random, ReplicaId,
    ReplicaIndex, TransactionId, Value, View,
};

use super::{Replica, ReplicaTimer};
use crate::config::{Limits, ReplicaConfig};
use crate::entry::{Entry, LeaseId, Page, Revision, Stored};
use crate::message::{Compare, ConditionalWrite, Consistency, Message, Put, Refusal, WriteResult};
use crate::rules::{Plant, Rules};

/// A log that does what it is told.
#[derive(Debug, Default)]
struct FakeLog {
    leads: bool,
    lease_until: Option<Instant>,
    appended: Vec<Entry>,
    asked: u64,
    confirmed: u64,
}

impl Log<Entry> for FakeLog {
    fn append(&mut self, entry: Entry) -> Option<Position> {
        self.leads.then(|| self.appended.push(entry))?;
        Some(Position(self.appended.len() as u64))
    }

    fn leading(&self) -> Option<View> {
        self.leads.then_some(View(3))
    }

    fn leader(&self) -> ReplicaIndex {
        ReplicaIndex(2)
    }

    fn lease_until(&self) -> Option<Instant> {
        self.lease_until
    }

    fn confirm(&mut self) -> Option<Confirmation> {
        self.leads.then(|| {
            self.asked += 1;
            Confirmation(self.asked)
        })
    }

    fn has_confirmed(&self, confirmation: Confirmation) -> bool {
        confirmation.0 <= self.confirmed
    }
}

struct World {
    replica: Replica,
    log: FakeLog,
    outbox: LogOutbox<Replica>,
    applied: usize,
    now: Duration,
}

const ME: ClientId = ClientId(7);

const LEASE: LeaseId = LeaseId { client: ME, number: 1 };

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

impl World {
    fn new(rules: Rules) -> Self {
        World::with_config(|config| config.rules = rules)
    }

    fn with_config(change: impl FnOnce(&mut ReplicaConfig)) -> Self {
        let limits = Limits { changes_max: 3, ..Limits::DEFAULT };
        let mut config = ReplicaConfig {
            limits,
            watches_max: 3,
            watches_of_client_max: 2,
            ..ReplicaConfig::new(ReplicaId::default())
        };
        change(&mut config);
        World {
            replica: Replica::new(config),
            log: FakeLog::default(),
            outbox: LogOutbox::<Replica>::new(),
            applied: 0,
            now: Duration::ZERO,
        }
    }

    fn leading(rules: Rules) -> Self {
        let mut world = World::new(rules);
        world.lead();
        world
    }

    fn with<T>(
        &mut self,
        act: impl FnOnce(&mut Replica, &mut Context<'_>, &mut FakeLog, &mut LogOutbox<Replica>) -> T,
    ) -> T {
        let mut random = Random::new(1);
        let clock = ClockTime::from_micros(0);
        let mut context = Context { now: Instant::START + self.now, clock, random: &mut random };
        act(&mut self.replica, &mut context, &mut self.log, &mut self.outbox)
    }

    fn lead(&mut self) {
        self.log.leads = true;
        self.with(|replica, context, log, outbox| replica.on_leading(context, View(3), log, outbox));
        self.said();
    }

    /// The messages sent since the last time.
    fn said(&mut self) -> Vec<Message> {
        let said = |effect| match effect {
            Effect::Send { message, .. } => Some(message),
            _ => None,
        };
        self.outbox.drain().filter_map(said).collect()
    }

    fn tell_as(&mut self, client: ClientId, message: Message) -> Vec<Message> {
        let input = Input::Message { from: Address::Client(client), epoch: Epoch::FIRST, message };
        self.with(|replica, context, log, outbox| replica.step(context, input, log, outbox));
        self.said()
    }

    fn tell(&mut self, message: Message) -> Vec<Message> {
        self.tell_as(ME, message)
    }

    /// Everything that was appended becomes stable.
    fn settle(&mut self) -> Vec<Message> {
        while let Some(entry) = self.log.appended.get(self.applied).cloned() {
            self.applied += 1;
            let position = Position(self.applied as u64);
            self.with(|replica, context, log, outbox| {
                replica.apply(context, position, &entry, log, outbox);
            });
        }
        self.said()
    }

    /// Others say that this replica still leads.
    fn confirm(&mut self) -> Vec<Message> {
        self.log.confirmed = self.log.asked;
        self.with(|replica, context, log, outbox| replica.on_progress(context, log, outbox));
        self.said()
    }

    /// Looks for leases that have ended; gives how many are to end.
    fn look_after_leases(&mut self, at: f64) -> usize {
        self.now = seconds(at);
        let before = self.log.appended.len();
        let timer = Input::Timer(ReplicaTimer::Leases);
        self.with(|replica, context, log, outbox| replica.step(context, timer, log, outbox));
        self.said();
        self.log.appended.len() - before
    }

    /// Writes a key, or deletes it.
    fn put(&mut self, sequence: u64, key: &str, value: Option<&'static str>) -> Vec<Message> {
        let write = write(&[(key, value)]);
        let mut said = self.tell(Message::Write {
            request: 1,
            transaction: id(sequence),
            since: Position::START,
            write,
        });
        said.extend(self.settle());
        said
    }
}

fn id(sequence: u64) -> TransactionId {
    TransactionId { client: ME, sequence, attempt: 0 }
}

fn write(puts: &[(&str, Option<&'static str>)]) -> Arc<ConditionalWrite> {
    let put = |(key, value): &(&str, Option<&'static str>)| Put {
        key: Key::copy_from_slice(key.as_bytes()),
        value: value.map(|value| Value::from_static(value.as_bytes())),
        lease: None,
    };
    Arc::new(ConditionalWrite { compares: Vec::new(), puts: puts.iter().map(put).collect() })
}

fn grant(duration: f64) -> Message {
    Message::Grant { request: 1, lease: LEASE, duration: seconds(duration) }
}

fn everything() -> KeyRange {
    KeyRange { from: Key::default(), to: None }
}

fn renew() -> Message {
    Message::Renew { request: 2, lease: LEASE }
}

#[test]
fn what_must_be_certain_is_said_under_a_lease_or_once_it_is_confirmed() {
    let questions = [
        Message::Get { request: 2, keys: vec![Key::from("a")], consistency: Consistency::Linearizable },
        Message::Scan { request: 2, range: everything(), limit: 9, consistency: Consistency::Linearizable },
        Message::Check { request: 2, compares: Vec::new() },
        renew(),
        Message::Renew { request: 2, lease: LeaseId { number: 9, ..LEASE } },
        Message::Release { request: 2, lease: LeaseId { number: 9, ..LEASE } },
        grant(10.0),
    ];
    for question in questions {
        let mut world = World::leading(Rules::SOUND);
        world.tell(grant(10.0));
        assert_eq!(world.settle(), [Message::Renewed { request: 1, lease: LEASE }]);
        assert_eq!(world.tell(question.clone()), [], "{question:?}");
        let certain = world.confirm();
        assert_eq!(certain.len(), 1, "{question:?}");
        world.now = seconds(1.0);
        world.log.lease_until = Some(Instant::START + seconds(1.0));
        assert_eq!(world.tell(question.clone()), [], "the lease of the log has just ended");
        world.log.lease_until = Some(Instant::START + seconds(1.1));
        assert_eq!(world.tell(question), certain);
    }
}

#[test]
fn planted_leaders_are_too_sure() {
    let get = Message::Get { request: 2, keys: Vec::new(), consistency: Consistency::Linearizable };
    let mut world = World::leading(Rules::planted(Plant::LeaseNotChecked));
    assert_eq!(world.tell(get).len(), 1);
    let mut world = World::leading(Rules::planted(Plant::RenewalNotConfirmed));
    world.tell(grant(10.0));
    world.settle();
    assert_eq!(world.tell(renew()), [Message::Renewed { request: 2, lease: LEASE }]);
}

#[test]
fn who_does_not_lead_says_who_does_and_answers_what_may_be_stale() {
    let mut world = World::new(Rules::SOUND);
    let get = |consistency| Message::Get { request: 4, keys: Vec::new(), consistency };
    let elsewhere = [Message::NotLeading { request: 4, leader: ReplicaIndex(2) }];
    assert_eq!(world.tell(get(Consistency::Linearizable)), elsewhere);
    let reply = Message::GetReply {
        request: 4,
        revision: Revision::START,
        position: Position::START,
        found: Vec::new(),
    };
    assert_eq!(world.tell(get(Consistency::Stale)), [reply]);
    let (transaction, since, write) = (id(1), Position::START, write(&[]));
    assert_eq!(world.tell(Message::Write { request: 4, transaction, since, write }), elsewhere);
    assert_eq!(world.tell(Message::Release { request: 4, lease: LEASE }).len(), 1);
    assert!(world.log.appended.is_empty());
}

#[test]
fn a_write_that_is_repeated_is_appended_once_and_answered_each_time() {
    let mut world = World::leading(Rules::SOUND);
    let ask = |request| Message::Write {
        request,
        transaction: id(1),
        since: Position::START,
        write: write(&[("a", Some("1"))]),
    };
    assert_eq!(world.tell(ask(1)), []);
    assert_eq!(world.tell(ask(2)), []);
    let reply = |request| {
        let result = WriteResult::Written { revision: Revision(1) };
        Message::WriteReply { request, position: Position(1), result }
    };
    assert_eq!(world.settle(), [reply(1), reply(2)]);
    assert_eq!(world.tell(ask(3)), [reply(3)]);
    assert_eq!(world.log.appended.len(), 1);
    // A replica that leads no longer knows it as well.
    world.log.leads = false;
    world.with(|replica, context, _, outbox| replica.on_deposed(context, outbox));
    assert_eq!(world.tell(ask(4)), [reply(4)]);
}

/// Else it could have what is forgotten settled anew: as not written, though it was.
#[test]
fn nobody_says_since_when_another_knows_the_log() {
    let mut world = World::leading(Rules::SOUND);
    let settle = |since| Message::Settle { request: 1, transaction: id(1), since };
    world.tell_as(ClientId(8), settle(Position(u64::MAX)));
    let appended = Entry::Settle { transaction: id(1), since: Position::START };
    assert_eq!(world.log.appended.last(), Some(&appended));
}

#[test]
fn a_lease_lasts_its_length_and_a_little_from_when_it_was_heard() {
    let mut world = World::leading(Rules::SOUND);
    world.tell(grant(10.0));
    world.now = seconds(1.0);
    world.settle();
    assert_eq!(world.look_after_leases(11.09), 0, "one hundredth longer than ten seconds");
    world.tell(renew());
    world.confirm();
    assert_eq!(world.look_after_leases(11.1 + 10.0), 0);
    assert_eq!(world.look_after_leases(11.1 + 10.1), 1);
    assert_eq!(world.look_after_leases(11.1 + 10.2), 0, "it is about to end");
    // Meanwhile it is not renewed.
    world.log.lease_until = Some(Instant::START + seconds(99.0));
    assert_eq!(world.tell(renew()), []);
    assert_eq!(world.settle(), [Message::NoSuchLease { request: 2, lease: LEASE }]);
    assert_eq!(world.replica.leases().count(), 0);

    let mut world = World::leading(Rules::planted(Plant::RenewedWhileEnding));
    world.tell(grant(10.0));
    world.settle();
    assert_eq!(world.look_after_leases(10.2), 1);
    world.log.lease_until = Some(Instant::START + seconds(99.0));
    assert_eq!(world.tell(renew()), [Message::Renewed { request: 2, lease: LEASE }]);
}

#[test]
fn a_new_leader_lets_every_lease_last_its_whole_length_again() {
    for (rules, ends_early) in [(Rules::SOUND, 0), (Rules::planted(Plant::LeaseNotRestarted), 1)] {
        let mut world = World::new(rules);
        world.log.appended.push(Entry::Grant { lease: LEASE, duration: seconds(10.0) });
        world.settle();
        world.now = seconds(9.0);
        world.lead();
        assert_eq!(world.look_after_leases(10.2), ends_early, "it may have been renewed elsewhere");
        assert_eq!(world.look_after_leases(19.2), 1 - ends_early);
    }
}

#[test]
fn leases_are_nobody_elses_and_last_as_long_as_they_may() {
    let mut world = World::leading(Rules::SOUND);
    let refused = |request, refusal| [Message::Refused { request, refusal }];
    let other = ClientId(8);
    assert_eq!(world.tell_as(other, grant(10.0)), refused(1, Refusal::Malformed));
    assert_eq!(world.tell(grant(0.0)), refused(1, Refusal::Duration));
    assert_eq!(world.tell(grant(1e9)), refused(1, Refusal::Duration));
    world.tell(grant(10.0));
    world.settle();
    assert_eq!(world.tell_as(other, renew()), refused(2, Refusal::Malformed));
    let release = Message::Release { request: 2, lease: LEASE };
    assert_eq!(world.tell_as(other, release.clone()), refused(2, Refusal::Malformed));
    assert_eq!(world.tell(release), []);
    assert_eq!(world.settle(), [Message::NoSuchLease { request: 2, lease: LEASE }]);
}

#[test]
fn what_is_malformed_is_refused() {
    let mut world = World::leading(Rules::SOUND);
    let long = "k".repeat(5_000);
    let puts: [&[(&str, Option<&'static str>)]; 4] =
        [&[("b", None), ("a", None)], &[("a", None), ("a", None)], &[("", None)], &[(&long, None)]];
    let ask = |write| Message::Write { request: 1, transaction: id(1), since: Position::START, write };
    let refused = [Message::Refused { request: 1, refusal: Refusal::Malformed }];
    for puts in puts {
        assert_eq!(world.tell(ask(write(puts))), refused, "{puts:?}");
    }
    assert_eq!(world.tell_as(ClientId(8), ask(write(&[]))), refused, "in the name of another");
    let compares = vec![Compare::Key { key: Key::default(), changed: None }];
    assert_eq!(world.tell(Message::Check { request: 1, compares }), refused);
    let far = Message::Watch {
        request: 1,
        range: KeyRange { from: Key::from(long), to: None },
        after: Revision::START,
    };
    assert_eq!(world.tell(far), [Message::Refused { request: 1, refusal: Refusal::TooLarge }]);
    assert!(world.log.appended.is_empty() && world.replica.watches() == 0);
}

/// The content of messages to a watch: after which revision, up to which one, and which changes.
fn told(messages: Vec<Message>) -> Vec<(u64, u64, Vec<u64>)> {
    let told = |message| match message {
        Message::Changes { after, until, changes, has_more: false, .. } => {
            Some((after.0, until.0, changes.iter().map(|change| change.revision.0).collect()))
        }
        Message::WriteReply { .. } => None,
        other => panic!("{other:?}"),
    };
    messages.into_iter().filter_map(told).collect()
}

#[test]
fn a_watch_is_told_what_has_changed_and_what_changes() {
    let mut world = World::leading(Rules::SOUND);
    let watch = |after| Message::Watch {
        request: 5,
        range: KeyRange { from: Key::from("b"), to: Some(Key::from("d")) },
        after: Revision(after),
    };
    world.put(1, "b", Some("1"));
    assert_eq!(told(world.tell(watch(0))), [(0, 1, vec![1])]);
    assert_eq!(told(world.put(2, "a", Some("1"))), [], "that is not in its range");
    assert_eq!(told(world.put(3, "c", Some("1"))), [(1, 3, vec![3])], "and it has missed nothing");
    // A change that was lost on its way is asked for again.
    assert_eq!(told(world.tell(watch(1))), [(1, 3, vec![3])]);
    assert_eq!(told(world.tell(watch(9))), [(9, 9, vec![])], "who knows more waits for what it does not");
    assert_eq!(told(world.put(4, "b", None)), []);
    assert_eq!(world.tell(watch(0)), [Message::Forgotten { request: 5, forgotten: Revision(1) }]);
    assert_eq!(told(world.put(5, "b", Some("2"))), [], "nobody is told of what comes after a gap");
    assert_eq!(told(world.tell(watch(3))), [(3, 5, vec![4, 5])]);
    world.tell(Message::Unwatch { request: 5 });
    assert_eq!(told(world.put(6, "b", Some("3"))), []);

    let mut world = World::leading(Rules::planted(Plant::WatchGap));
    (1..=4).for_each(|sequence| drop(world.put(sequence, "b", Some("1"))));
    assert_eq!(told(world.tell(watch(0))), [(0, 4, vec![2, 3, 4])]);
}

#[test]
fn watches_are_few_and_end_when_nobody_renews_them() {
    let mut world = World::new(Rules::SOUND);
    let watch = |request| Message::Watch { request, range: everything(), after: Revision::START };
    let too_many = |request| [Message::Refused { request, refusal: Refusal::TooMany }];
    assert_eq!(told(world.tell(watch(1))).len(), 1);
    assert_eq!(told(world.tell(watch(2))).len(), 1);
    assert_eq!(world.tell(watch(3)), too_many(3), "of one client");
    assert_eq!(told(world.tell_as(ClientId(8), watch(1))).len(), 1);
    assert_eq!(world.tell_as(ClientId(9), watch(1)), too_many(1), "of all");
    world.now = seconds(20.0);
    assert_eq!(told(world.tell(watch(2))).len(), 1);
    world.now = seconds(30.0);
    let timer = Input::Timer(ReplicaTimer::Watches);
    world.with(|replica, context, log, outbox| replica.step(context, timer, log, outbox));
    assert_eq!(world.replica.watches(), 1, "the one that was renewed");
    assert!(world.outbox.effects().iter().any(|effect| matches!(effect, Effect::SetTimer { .. })));
}

/// Of one key or of none, whatever leases and clients there are.
#[test]
fn operators_compare_what_keys_hold_and_when_it_was_written() {
    let checksum = |page: Page| {
        let mut digester = Digester::new(&[]);
        Replica::digest(&page, &mut digester);
        digester.finish().checksum()
    };
    let page = |key: &str, value: &'static str, created: u64, changed: u64, lease: Option<LeaseId>| {
        let (created, changed) = (Revision(created), Revision(changed));
        let stored = Stored { value: Value::from_static(value.as_bytes()), created, changed, lease };
        Page::Keys(vec![(Key::from(key), stored)])
    };
    let other = |client, number| Some(LeaseId { client: ClientId(client), number });
    let pages = [
        page("a", "x", 1, 2, None),
        page("b", "x", 1, 2, None),
        page("a", "y", 1, 2, None),
        page("a", "x", 2, 2, None),
        page("a", "x", 1, 1, None),
        page("a", "x", 1, 2, other(1, 1)),
        page("a", "x", 1, 2, other(2, 1)),
        page("a", "x", 1, 2, other(1, 2)),
        Page::Leases(vec![(LEASE, seconds(1.0))]),
    ];
    let mut checksums: Vec<_> = pages.iter().cloned().map(checksum).collect();
    assert_eq!(checksums[8], checksum(Page::Keys(Vec::new())), "leases pass");
    assert_eq!(checksums[0], checksum(page("a", "x", 1, 2, other(0, 0))), "the lease that nobody has");
    checksums.sort_unstable();
    checksums.dedup();
    assert_eq!(checksums.len(), pages.len());
}
