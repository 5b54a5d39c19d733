//! The bounds of pages, of requests that wait, and of what one message may ask for; and what is kept apart.

use quorate_core::transaction::{KEY_BYTES_MAX, TRANSACTION_BYTES_MAX, TRANSACTION_ENTRIES_MAX};

use super::*;

/// A leader whose pages and queues are small.
fn small() -> World {
    let mut world = World::with_config(|config| {
        (config.scan_page_max, config.page_bytes_max, config.waiting_max) = (3, 20, 2);
    });
    world.lead();
    world
}

/// The keys that a scan finds, and from where it goes on.
fn scan(world: &mut World, from: &'static str, to: Option<&str>, limit: u32) -> (String, Option<String>) {
    let range = KeyRange { from: Key::from(from), to: to.map(Key::from) };
    let scan = Message::Scan { request: 3, range, limit, consistency: Consistency::Stale };
    match &world.tell(scan)[..] {
        [Message::ScanReply { found, next, .. }] => {
            let name = |key: &Key| String::from_utf8_lossy(key.as_ref()).into_owned();
            (found.iter().map(|(key, _)| name(key)).collect(), next.as_ref().map(name))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_scan_ends_with_its_limit_or_its_page_and_says_where_it_goes_on() {
    let mut world = small();
    for (sequence, key) in (1..).zip(["a", "b", "c", "d", "e"]) {
        world.put(sequence, key, Some("1"));
    }
    let found = |keys: &str, next: Option<&str>| (keys.to_owned(), next.map(str::to_owned));
    assert_eq!(scan(&mut world, "a", None, 9), found("abc", Some("d")));
    assert_eq!(scan(&mut world, "a", None, 2), found("ab", Some("c")));
    assert_eq!(scan(&mut world, "a", Some("d"), 9), found("abc", None), "there is no more in this range");
    assert_eq!(scan(&mut world, "d", None, 9), found("de", None));
    // Two values of nine bytes, with their keys, fill a page.
    for (sequence, key) in (6..).zip(["a", "b", "c"]) {
        world.put(sequence, key, Some("123456789"));
    }
    assert_eq!(scan(&mut world, "a", None, 9), found("ab", Some("c")));
    world.put(9, "a", Some("12345678"));
    assert_eq!(scan(&mut world, "a", None, 9), found("abc", Some("d")));
}

#[test]
fn a_check_holds_if_every_condition_does() {
    let mut world = small();
    world.log.lease_until = Some(Instant::START + seconds(99.0));
    world.put(1, "a", Some("1"));
    let holds = |world: &mut World, changed: [Option<u64>; 2]| {
        let compare = |(key, changed): (&str, Option<u64>)| Compare::Key {
            key: Key::copy_from_slice(key.as_bytes()),
            changed: changed.map(Revision),
        };
        let compares = ["a", "b"].into_iter().zip(changed).map(compare).collect();
        match world.tell(Message::Check { request: 3, compares })[..] {
            [Message::CheckReply { holds, .. }] => holds,
            ref other => panic!("{other:?}"),
        }
    };
    assert!(holds(&mut world, [Some(1), None]));
    assert!(!holds(&mut world, [Some(1), Some(1)]) && !holds(&mut world, [None, None]));
}

#[test]
fn no_message_asks_for_or_writes_more_than_a_transaction_may() {
    let mut world = small();
    let refused = [Message::Refused { request: 3, refusal: Refusal::TooLarge }];
    let get = |keys: usize| Message::Get {
        request: 3,
        keys: vec![Key::from("a"); keys],
        consistency: Consistency::Stale,
    };
    assert_eq!(world.tell(get(TRANSACTION_ENTRIES_MAX + 1)), refused);
    assert_ne!(world.tell(get(TRANSACTION_ENTRIES_MAX)), refused);
    let check = |keys: usize| Message::Check {
        request: 3,
        compares: vec![Compare::Key { key: Key::from("a"), changed: None }; keys],
    };
    assert_eq!(world.tell(check(TRANSACTION_ENTRIES_MAX + 1)), refused);
    assert_ne!(world.tell(check(TRANSACTION_ENTRIES_MAX)), refused);
    let put = |puts: usize| {
        let put = |number| Put { key: Key::from(format!("{number:07}")), value: None, lease: None };
        let write = Arc::new(ConditionalWrite { compares: Vec::new(), puts: (0..puts).map(put).collect() });
        Message::Write { request: 3, transaction: id(1), since: Position::START, write }
    };
    assert_eq!(world.tell(put(TRANSACTION_ENTRIES_MAX + 1)), refused);
    assert_ne!(world.tell(put(TRANSACTION_ENTRIES_MAX)), refused);
    // The end of a range may be the key after the longest.
    for (length, is_refused) in [(KEY_BYTES_MAX + 1, false), (KEY_BYTES_MAX + 2, true)] {
        let long = Key::from("k".repeat(length));
        for (from, to) in [(long.clone(), None), (Key::default(), Some(long))] {
            let watch = Message::Watch { request: 3, range: KeyRange { from, to }, after: Revision::START };
            assert_eq!(world.tell(watch) == refused, is_refused, "{length}");
            world.tell(Message::Unwatch { request: 3 });
        }
    }
}

#[test]
fn few_requests_wait_and_they_are_answered_in_their_order() {
    let ask = |request| Message::Get { request, keys: Vec::new(), consistency: Consistency::Linearizable };
    let requests = |said: Vec<Message>| said.iter().map(Message::request).collect::<Vec<_>>();
    let mut world = small();
    assert_eq!(requests([world.tell(ask(1)), world.tell(ask(2))].concat()), []);
    assert_eq!(world.tell(ask(3)), [Message::Refused { request: 3, refusal: Refusal::TooMany }]);
    // The others have answered the first question, and not the second.
    let progress = |world: &mut World| {
        world.with(|replica, context, log, outbox| replica.on_progress(context, log, outbox));
        world.said()
    };
    assert_eq!(requests(progress(&mut world)), []);
    world.log.confirmed = 1;
    assert_eq!(requests(progress(&mut world)), [1]);
    world.log.confirmed = 2;
    assert_eq!(requests(progress(&mut world)), [2]);
    // The log has lost its lead, and this has not come here yet.
    world.log.leads = false;
    assert_eq!(world.tell(ask(4)), [Message::NotLeading { request: 4, leader: ReplicaIndex(2) }]);

    let mut world = small();
    let grant = |number| {
        let lease = LeaseId { number, ..LEASE };
        Message::Grant { request: number, lease, duration: seconds(10.0) }
    };
    assert_eq!([world.tell(grant(1)), world.tell(grant(2))].concat(), []);
    assert_eq!(world.tell(grant(3)), [Message::Refused { request: 3, refusal: Refusal::TooMany }]);
    assert_eq!(requests(world.settle()), [1, 2]);
    assert_eq!(world.tell(grant(3)), [], "there is room again");
}

/// A lease that is on its way into the log is not put there twice, and every client that asks is answered.
#[test]
fn a_lease_that_is_granted_or_released_twice_is_once() {
    let mut world = small();
    let ask = |request| Message::Grant { request, lease: LEASE, duration: seconds(10.0) };
    assert_eq!([world.tell(ask(1)), world.tell(ask(2))].concat(), []);
    let renewed = |request| Message::Renewed { request, lease: LEASE };
    assert_eq!(world.settle(), [renewed(1), renewed(2)]);
    let release = |request| Message::Release { request, lease: LEASE };
    assert_eq!([world.tell(release(3)), world.tell(release(4))].concat(), []);
    assert_eq!(world.log.appended.len(), 2);
    let gone = |request| Message::NoSuchLease { request, lease: LEASE };
    assert_eq!(world.settle(), [gone(3), gone(4)]);
    assert_eq!(world.look_after_leases(20.0), 0, "it does not end again");
}

/// Renewed late and early, and granted anew: nothing takes away what the holder counts on.
#[test]
fn a_lease_is_never_shortened() {
    let mut world = World::leading(Rules::SOUND);
    world.log.lease_until = Some(Instant::START + seconds(99.0));
    world.tell(grant(10.0));
    world.settle();
    world.now = seconds(5.0);
    assert_eq!(world.tell(renew()).len(), 1);
    // Asked for again it is not renewed: the holder counts from when it asked first.
    world.now = seconds(9.0);
    assert_eq!(world.tell(grant(10.0)).len(), 1);
    assert_eq!(world.look_after_leases(15.0), 0);
    assert_eq!(world.look_after_leases(15.2), 1);
    // While it is about to end it is not granted either, and ends all the same.
    world.settle();
    assert_eq!(world.replica.leases().count(), 0);
}

fn watch(request: u64, from: &'static str, to: &'static str, after: u64) -> Message {
    let range = KeyRange { from: Key::from(from), to: Some(Key::from(to)) };
    Message::Watch { request, range, after: Revision(after) }
}

#[test]
fn a_watch_is_told_of_its_keys_alone_and_in_pages() {
    let mut world = small();
    world.tell(watch(5, "b", "d", 0));
    let several = write(&[("a", Some("1")), ("b", Some("1")), ("c", Some("1")), ("d", Some("1"))]);
    world.tell(Message::Write { request: 1, transaction: id(1), since: Position::START, write: several });
    let keys = |said: &[Message]| -> Vec<(u64, bool, String)> {
        let told = |message: &Message| match message {
            Message::Changes { until, changes, has_more, .. } => {
                let keys = changes.iter().flat_map(|change| &change.keys);
                let keys = keys.map(|state| String::from_utf8_lossy(state.key.as_ref()).into_owned());
                Some((until.0, *has_more, keys.collect()))
            }
            _ => None,
        };
        said.iter().filter_map(told).collect()
    };
    assert_eq!(keys(&world.settle()), [(1, false, "bc".to_owned())]);
    // A page is full with what is in it, and the rest is asked for.
    world.put(2, "b", Some("123456789012345678901234567890"));
    world.put(3, "c", Some("2"));
    let page = world.tell(watch(6, "b", "d", 1));
    assert_eq!(keys(&page), [(2, true, "b".to_owned())]);
    let told = world.put(4, "b", Some("3"));
    assert_eq!(keys(&told).len(), 1, "only the other watch: this one has to ask first");
    world.put(5, "b", Some("123456789012345678901234567890"));
    assert_eq!(keys(&world.tell(watch(6, "b", "d", 2))), [(3, true, "c".to_owned())]);
    assert_eq!(keys(&world.tell(watch(6, "b", "d", 4))), [(5, false, "b".to_owned())]);
    assert_eq!(keys(&world.put(6, "b", Some("4"))).len(), 2, "now it has all");
}

#[test]
fn a_watch_that_ends_makes_room_for_another_and_one_that_is_not_there_does_not() {
    let mut world = World::new(Rules::SOUND);
    let timers = |world: &World| {
        let sets = |effect: &&_| matches!(effect, Effect::SetTimer { timer: ReplicaTimer::Watches, .. });
        world.outbox.effects().iter().filter(sets).count()
    };
    let begin = |world: &mut World, request| {
        let input = Input::Message {
            from: Address::Client(ME),
            epoch: Epoch::FIRST,
            message: watch(request, "a", "z", 0),
        };
        world.with(|replica, context, log, outbox| replica.step(context, input, log, outbox));
        (timers(world), world.said())
    };
    let refused = |request| vec![Message::Refused { request, refusal: Refusal::TooMany }];
    assert_eq!(begin(&mut world, 1).0, 1, "somebody has to see to it that it ends");
    assert_eq!(begin(&mut world, 2).0, 0, "and does already");
    world.tell(Message::Unwatch { request: 9 });
    assert_eq!(begin(&mut world, 3).1, refused(3));
    world.tell(Message::Unwatch { request: 1 });
    assert_ne!(begin(&mut world, 3).1, refused(3));
    assert_eq!(begin(&mut world, 4).1, refused(4), "two are still as many as it may have");
    // Nobody looks after watches that are not there.
    for request in [2, 3] {
        world.tell(Message::Unwatch { request });
    }
    let timer = Input::Timer(ReplicaTimer::Watches);
    world.with(|replica, context, log, outbox| replica.step(context, timer, log, outbox));
    assert_eq!(timers(&world), 0);
}

/// The change before the jump is not known any more, so nobody is told what comes after it.
#[test]
fn watches_ask_again_once_the_state_has_jumped() {
    let mut world = small();
    world.tell(watch(5, "a", "z", 0));
    world.put(1, "b", Some("1"));
    let mut other = small();
    (1..=3).for_each(|sequence| drop(other.put(sequence, "b", Some("2"))));
    let mut frozen = other.replica.freeze();
    let pages = std::iter::from_fn(|| Replica::next_page(&mut frozen)).collect();
    world.replica.replace_state(Position(3), pages);
    world.applied = 3;
    world.log.appended = other.log.appended.clone();
    let told = |said: &[Message]| said.iter().any(|message| matches!(message, Message::Changes { .. }));
    assert!(!told(&world.put(4, "b", Some("3"))));
    assert!(told(&world.tell(watch(5, "a", "z", 3))));
    assert!(told(&world.put(5, "b", Some("4"))));
}

#[test]
fn no_answer_and_no_write_has_more_bytes_than_a_transaction_may() {
    let mut world = World::new(Rules::SOUND);
    let refused = [Message::Refused { request: 3, refusal: Refusal::TooLarge }];
    let get = |name: &str, times: usize| {
        let keys = vec![Key::from(name); times];
        Message::Get { request: 3, keys, consistency: Consistency::Stale }
    };
    let hundred = "k".repeat(100);
    assert_ne!(world.tell(get(&hundred, TRANSACTION_BYTES_MAX / 100)), refused, "nothing is stored there");
    let value = "v".repeat(900).leak();
    world.log.appended.push(Entry::Write {
        transaction: id(1),
        since: Position::START,
        write: write(&[(&hundred, Some(value))]),
    });
    world.settle();
    assert_ne!(world.tell(get(&hundred, TRANSACTION_BYTES_MAX / 1_000)), refused);
    assert_eq!(world.tell(get(&hundred, TRANSACTION_BYTES_MAX / 1_000 + 1)), refused);
    // Of writes with what each part of them takes beside its bytes: twice as many.
    world.lead();
    let large = Value::from(vec![b'v'; 1_000_000]);
    let put = |number: usize| Put {
        key: Key::from(format!("{number:07}")),
        value: Some(large.clone()),
        lease: None,
    };
    let ask = |puts: usize| {
        let write = Arc::new(ConditionalWrite { compares: Vec::new(), puts: (0..puts).map(put).collect() });
        Message::Write { request: 3, transaction: id(2), since: Position::START, write }
    };
    assert_eq!(world.tell(ask(20)), refused);
    assert_eq!(world.tell(ask(19)), []);
}

#[test]
fn changes_fill_a_page_before_there_is_another() {
    for (page_bytes_max, told) in [(1, 1), (196, 2), (197, 3)] {
        let mut world = World::with_config(|config| config.page_bytes_max = page_bytes_max);
        world.lead();
        (1..=3).for_each(|sequence| drop(world.put(sequence, "b", Some("1"))));
        // Each takes 48 bytes, and as many for its key beside that and its value.
        match &world.tell(watch(5, "a", "z", 0))[..] {
            [Message::Changes { changes, has_more, .. }] => {
                assert_eq!((changes.len(), *has_more), (told, told < 3), "{page_bytes_max}");
            }
            other => panic!("{other:?}"),
        }
    }
}
