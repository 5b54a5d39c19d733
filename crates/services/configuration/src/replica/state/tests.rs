//! The state: conditions, what is done once, leases, limits, pages.

use quorate_access::{Grant, Right, User, user_key};
use quorate_core::Value;

use super::*;
use crate::message::Put;

const LIMITS: Limits = Limits {
    bytes_max: 40,
    leases_max: 3,
    leases_of_client_max: 2,
    changes_max: 3,
    changes_bytes_max: 10_000,
    results_max: 4,
    clients_max: 3,
};

struct World {
    state: State,
}

fn id(client: u64, sequence: u64, attempt: u32) -> TransactionId {
    TransactionId { client: ClientId(client), sequence, attempt }
}

fn lease(client: u64, number: u64) -> LeaseId {
    LeaseId { client: ClientId(client), number }
}

fn put(key: &str, value: Option<&'static str>) -> Put {
    let value = value.map(|value| Value::from_static(value.as_bytes()));
    Put { key: Key::from(key), value, lease: None }
}

fn bound(key: &str, lease: LeaseId) -> Put {
    Put { lease: Some(lease), ..put(key, Some("held")) }
}

fn is(key: &str, changed: Option<u64>) -> Compare {
    Compare::Key { key: Key::from(key), changed: changed.map(Revision) }
}

fn range(from: &str, to: &str, after: u64, keys: u64) -> Compare {
    let range = KeyRange { from: Key::from(from), to: Some(Key::from(to)) };
    Compare::Range { range, after: Revision(after), keys }
}

fn written(revision: u64) -> Option<WriteResult> {
    Some(WriteResult::Written { revision: Revision(revision) })
}

impl World {
    fn new(rules: Rules) -> Self {
        World { state: State::new(LIMITS, rules) }
    }

    fn apply(&mut self, entry: Entry) -> Applied {
        let position = self.state.position.next();
        self.state.apply(position, &entry)
    }

    fn write(&mut self, id: TransactionId, compares: Vec<Compare>, puts: Vec<Put>) -> Option<WriteResult> {
        let write = Arc::new(ConditionalWrite { compares, puts });
        match self.apply(Entry::Write { transaction: id, since: Position::START, write }) {
            Applied::Write(result) => result,
            other => panic!("{other:?}"),
        }
    }

    fn has(&self, key: &str) -> bool {
        self.state.get(&Key::from(key)).is_some()
    }
}

fn pages(state: &State, bytes_max: usize) -> Vec<Page> {
    let mut frozen = state.freeze(bytes_max);
    std::iter::from_fn(|| frozen.next_page()).collect()
}

#[test]
fn conditions_as_a_table() {
    let mut world = World::new(Rules::SOUND);
    world.write(id(1, 1, 0), vec![], vec![put("a", Some("1")), put("b", Some("1"))]);
    world.write(id(1, 2, 0), vec![], vec![put("c", Some("1"))]);
    world.write(id(1, 3, 0), vec![], vec![put("a", None), put("b", Some("2"))]);
    let table = [
        (is("a", None), true),
        (is("a", Some(1)), false),
        (is("b", Some(3)), true),
        (is("b", Some(1)), false),
        (is("b", None), false),
        (is("c", Some(2)), true),
        (range("a", "d", 3, 2), true),
        // One that was there has gone; one has changed; one has come.
        (range("a", "d", 3, 3), false),
        (range("a", "d", 2, 2), false),
        (range("a", "d", 3, 1), false),
        (range("c", "d", 2, 1), true),
        (range("x", "y", 0, 0), true),
        (range("d", "a", 0, 0), true),
    ];
    for (compare, expected) in table {
        assert_eq!(world.state.holds(&compare), expected, "{compare:?}");
    }
    assert_eq!(
        world.write(id(1, 4, 0), vec![is("b", Some(3)), is("c", None)], vec![put("z", Some("1"))]),
        Some(WriteResult::NotHeld { revision: Revision(3), compare: 1 })
    );
    assert!(!world.has("z") && world.state.revision == Revision(3));
}

#[test]
fn a_key_remembers_when_it_was_created() {
    let mut world = World::new(Rules::SOUND);
    for (sequence, value) in (1..).zip([Some("1"), Some("2"), None, Some("4")]) {
        assert_eq!(world.write(id(1, sequence, 0), vec![], vec![put("a", value)]), written(sequence));
        let stored = world.state.get(&Key::from("a"));
        let expected = [Some((1, 1)), Some((1, 2)), None, Some((4, 4))][sequence as usize - 1];
        assert_eq!(stored.map(|stored| (stored.created.0, stored.changed.0)), expected);
    }
}

#[test]
fn what_is_sent_twice_is_applied_once_and_answered_twice() {
    let mut world = World::new(Rules::SOUND);
    let absent = || vec![is("a", None)];
    assert_eq!(world.write(id(1, 1, 0), absent(), vec![put("a", Some("1"))]), written(1));
    assert_eq!(world.write(id(1, 1, 0), absent(), vec![put("a", Some("1"))]), written(1));
    // A condition that did not hold does not hold when it is asked again, though it would now.
    let not_held = Some(WriteResult::NotHeld { revision: Revision(1), compare: 0 });
    assert_eq!(world.write(id(1, 2, 0), absent(), vec![put("b", Some("1"))]), not_held);
    world.write(id(1, 3, 0), vec![], vec![put("a", None)]);
    assert_eq!(world.write(id(1, 2, 0), absent(), vec![put("b", Some("1"))]), not_held);
    assert_eq!(world.write(id(1, 2, 1), absent(), vec![put("b", Some("1"))]), written(3));
    assert_eq!(world.write(id(1, 2, 0), vec![], vec![]), Some(WriteResult::Settled), "it was given up");
    assert_eq!(world.state.revision, Revision(3));
}

#[test]
fn what_is_settled_before_it_comes_is_never_written() {
    let mut world = World::new(Rules::SOUND);
    let settle = |sequence| Entry::Settle { transaction: id(1, sequence, 0), since: Position::START };
    assert_eq!(world.apply(settle(1)), Applied::Write(Some(WriteResult::Settled)));
    assert_eq!(world.write(id(1, 1, 0), vec![], vec![put("a", Some("1"))]), Some(WriteResult::Settled));
    assert_eq!(world.write(id(1, 2, 0), vec![], vec![put("a", Some("1"))]), written(1));
    assert_eq!(world.apply(settle(2)), Applied::Write(written(1)));
    for sequence in 10..14 {
        world.write(id(1, sequence, 0), vec![], vec![]);
    }
    assert_eq!(world.apply(settle(2)), Applied::Write(None), "nobody knows any more");
}

/// Anybody may ask for that.
#[test]
fn to_settle_a_later_attempt_changes_nothing_of_what_is_written() {
    let mut world = World::new(Rules::SOUND);
    assert_eq!(world.write(id(1, 1, 0), vec![], vec![put("a", Some("1"))]), written(1));
    let settle = Entry::Settle { transaction: id(1, 1, 5), since: Position::START };
    assert_eq!(world.apply(settle), Applied::Write(Some(WriteResult::Settled)));
    assert_eq!(world.write(id(1, 1, 0), vec![], vec![put("a", Some("1"))]), written(1));
}

/// The same holds for every client that asks.
#[test]
fn to_settle_what_lies_far_ahead_takes_nothing_from_its_client() {
    let mut world = World::new(Rules::SOUND);
    assert_eq!(world.write(id(1, 1, 0), vec![], vec![put("a", Some("1"))]), written(1));
    let settle = |sequence| Entry::Settle { transaction: id(1, sequence, 0), since: Position::START };
    for sequence in [u64::MAX, 1_000, 1_001, 1_002] {
        assert_eq!(world.apply(settle(sequence)), Applied::Write(Some(WriteResult::Settled)));
    }
    assert_eq!(world.apply(settle(1_003)), Applied::Write(None), "no more are remembered");
    assert_eq!(world.write(id(1, 2, 0), vec![], vec![put("b", Some("1"))]), written(2));
    assert_eq!(
        world.write(id(1, u64::MAX, 0), vec![], vec![put("c", Some("1"))]),
        Some(WriteResult::Settled)
    );
    let copy = State::from_pages(world.state.position, pages(&world.state, 1), LIMITS, Rules::SOUND);
    assert_eq!(copy.clients, world.state.clients, "others begin with the same");
}

#[test]
fn keys_vanish_with_their_lease_unless_they_were_written_since() {
    for (rules, survives) in [(Rules::SOUND, true), (Rules::planted(Plant::LeaseTakesOthersKeys), false)] {
        let mut world = World::new(rules);
        let (mine, yours) = (lease(1, 1), lease(2, 1));
        let refused = Some(WriteResult::NoSuchLease { lease: mine });
        assert_eq!(world.write(id(1, 1, 0), vec![], vec![bound("a", mine)]), refused);
        for granted in [mine, yours] {
            let grant = Entry::Grant { lease: granted, duration: Duration::from_secs(1) };
            assert_eq!(world.apply(grant), Applied::Granted(true));
        }
        assert_eq!(world.write(id(2, 1, 0), vec![], vec![bound("a", mine)]), refused, "not its own");
        let both = vec![bound("a", mine), bound("b", mine)];
        assert_eq!(world.write(id(1, 2, 0), vec![], both), written(1));
        assert_eq!(world.write(id(2, 2, 0), vec![], vec![put("b", Some("2"))]), written(2));
        assert_eq!(world.apply(Entry::End { lease: mine }), Applied::Ended);
        assert_eq!(world.state.revision, Revision(3));
        assert_eq!((world.has("a"), world.has("b")), (false, survives));
        let last = world.state.history.changes().last().unwrap();
        assert_eq!(last.keys.iter().any(|change| change.key == "b"), !survives);
        // A lease that has ended does not end again.
        world.apply(Entry::End { lease: mine });
        world.apply(Entry::End { lease: yours });
        assert_eq!(world.state.revision, Revision(3));
        assert!(world.state.leases_of.is_empty() && world.state.leases().next().is_none());
    }
}

#[test]
fn limits_are_kept() {
    let mut world = World::new(Rules::SOUND);
    let mut grant = |client, number| {
        let grant = Entry::Grant { lease: lease(client, number), duration: Duration::from_secs(1) };
        world.apply(grant) == Applied::Granted(true)
    };
    let granted = [(1, 1), (1, 2), (1, 3), (1, 1), (2, 1), (3, 1)].map(|(c, n)| grant(c, n));
    assert_eq!(granted, [true, true, false, true, true, false]);
    assert!(!world.state.leases_of.contains_key(&ClientId(3)));
    let long = "0123456789012345678901234567890123456789";
    assert_eq!(world.write(id(1, 1, 0), vec![], vec![put("a", Some(long))]), Some(WriteResult::Full));
    assert_eq!(world.write(id(1, 2, 0), vec![], vec![put("a", Some(&long[..39]))]), written(1));
    assert_eq!(world.write(id(1, 3, 0), vec![], vec![put("b", None)]), written(2));
    assert_eq!(world.write(id(1, 4, 0), vec![], vec![put("a", Some("1"))]), written(3));
    assert_eq!(world.write(id(1, 5, 0), vec![], vec![put("b", Some(&long[..37]))]), written(4));
    assert_eq!(world.state.bytes, 40);
}

#[test]
fn pages_hold_all_of_the_state_and_are_alike_however_they_were_come_by() {
    let mut world = World::new(Rules::SOUND);
    for (client, lease) in [(1, lease(1, 1)), (2, lease(2, 7))] {
        world.apply(Entry::Grant { lease, duration: Duration::from_millis(client) });
        world.write(id(client, 1, 0), vec![], vec![bound(["x", "y", "z"][client as usize], lease)]);
    }
    for sequence in 2..6 {
        world.write(id(1, sequence, 0), vec![], vec![put("k", Some("v"))]);
    }
    world.write(id(1, 6, 0), vec![], vec![put("k", None)]);
    world.write(id(1, 7, 0), vec![is("y", None)], vec![]);
    let state = &world.state;
    let small = pages(state, 1);
    let names = small.iter().map(|page| match page {
        Page::Revisions { .. } => 'r',
        Page::Keys(_) => 'k',
        Page::Changes(_) => 'c',
        Page::Leases(_) => 'l',
        Page::Clients(_) => 't',
    });
    assert_eq!(names.collect::<String>(), "rkkccclt", "one page for each key and change");
    let copy = State::from_pages(state.position, small.clone(), LIMITS, Rules::SOUND);
    assert_eq!(pages(&copy, 1), small);
    assert_eq!(pages(&copy, 1 << 20), pages(state, 1 << 20));
    assert_eq!((copy.revision, copy.bytes, &copy.bound), (state.revision, state.bytes, &state.bound));
    assert_eq!(copy.leases_of, state.leases_of);
    assert!(copy.known(id(1, 7, 0), Position::START) == state.known(id(1, 7, 0), Position::START));
    assert_eq!(copy.history.forgotten(), Revision(4));
    // A frozen state stays as it was.
    let mut frozen = world.state.freeze(1);
    world.write(id(1, 8, 0), vec![], vec![put("x", None)]);
    assert_eq!(std::iter::from_fn(|| frozen.next_page()).collect::<Vec<_>>(), small);
    for (plant, differs) in [(Plant::SnapshotWithoutClients, true), (Plant::RevisionFromKeys, true)] {
        let planted =
            World { state: State::from_pages(copy.position, small.clone(), LIMITS, Rules::planted(plant)) };
        assert_eq!(pages(&planted.state, 1) != small, differs, "{}", plant.id());
    }
}

/// A deleted key is bound to nothing, whatever the client has written beside it.
#[test]
fn only_what_is_stored_is_bound_to_a_lease() {
    let mut world = World::new(Rules::SOUND);
    let (mine, yours) = (lease(1, 1), lease(2, 1));
    world.apply(Entry::Grant { lease: mine, duration: Duration::from_secs(1) });
    let delete = Put { lease: Some(yours), ..put("a", None) };
    assert_eq!(world.write(id(1, 1, 0), vec![], vec![delete]), written(1));
    world.write(id(1, 2, 0), vec![], vec![bound("a", mine), bound("b", mine)]);
    assert_eq!(world.state.bound[&mine].len(), 2);
    world.write(id(1, 3, 0), vec![], vec![put("a", Some("1"))]);
    assert_eq!(world.state.bound[&mine].len(), 1);
    world.write(id(1, 4, 0), vec![], vec![put("b", None)]);
    assert!(world.state.bound.is_empty(), "nothing is left of it");
}

#[test]
fn a_lease_that_ends_makes_room_for_another_of_its_client() {
    let mut world = World::new(Rules::SOUND);
    let grant = |world: &mut World, number| {
        let grant = Entry::Grant { lease: lease(1, number), duration: Duration::from_secs(1) };
        world.apply(grant) == Applied::Granted(true)
    };
    assert!(grant(&mut world, 1) && grant(&mut world, 2) && !grant(&mut world, 3));
    world.apply(Entry::End { lease: lease(1, 1) });
    assert!(grant(&mut world, 3) && !grant(&mut world, 4));
}

#[test]
fn a_page_holds_as_many_keys_as_there_is_room_for_and_each_once() {
    let limits = Limits { bytes_max: 10_000, ..LIMITS };
    let mut world = World { state: State::new(limits, Rules::SOUND) };
    let keys = ["0123456789a", "0123456789b", "0123456789c", "0123456789d", "0123456789e"];
    world.write(id(1, 1, 0), vec![], keys.map(|key| put(key, Some("1"))).into());
    world.apply(Entry::Grant { lease: lease(1, 1), duration: Duration::from_secs(1) });
    let of = |bytes_max| {
        let keys = |page: Page| match page {
            Page::Keys(keys) => Some(keys.len()),
            _ => None,
        };
        pages(&world.state, bytes_max).into_iter().filter_map(keys).collect::<Vec<_>>()
    };
    let one = 64 + 11 + 1;
    assert_eq!(of(2 * one), [2, 2, 1]);
    assert_eq!(of(2 * one + 1), [3, 2]);
    assert_eq!(of(1), [1, 1, 1, 1, 1]);
    let copy = State::from_pages(Position(7), pages(&world.state, 1), limits, Rules::SOUND);
    assert_eq!((copy.position, copy.keys()), (Position(7), 5));
    assert_eq!(copy.leases().collect::<Vec<_>>(), [(lease(1, 1), Duration::from_secs(1))]);
    // Where there are no leases there is no page of them, which would be the first and the last.
    world.apply(Entry::End { lease: lease(1, 1) });
    assert!(!pages(&world.state, 1).iter().any(|page| matches!(page, Page::Leases(_))));
}

#[test]
fn a_page_holds_as_many_changes_as_there_is_room_for() {
    let mut world = World::new(Rules::SOUND);
    for sequence in 1..=3 {
        world.write(id(1, sequence, 0), vec![], vec![put("k", Some("v"))]);
    }
    let of = |bytes_max| {
        let changes = |page: Page| match page {
            Page::Changes(changes) => Some(changes.len()),
            _ => None,
        };
        pages(&world.state, bytes_max).into_iter().filter_map(changes).collect::<Vec<_>>()
    };
    let one = world.state.history.last().unwrap().bytes();
    assert_eq!(of(2 * one), [2, 1]);
    assert_eq!(of(2 * one + 1), [3]);
}

#[test]
fn outcomes_of_many_clients_go_into_several_pages_and_each_is_known() {
    let clients = CLIENTS_IN_PAGE as u64 + 1;
    let limits = Limits { clients_max: 1_000, bytes_max: 10_000, ..LIMITS };
    let mut world = World { state: State::new(limits, Rules::SOUND) };
    for client in 1..=clients {
        assert_eq!(world.write(id(client, 1, 0), vec![], vec![put("k", Some("v"))]), written(client));
    }
    let known = world.state.outcomes();
    assert_eq!(known.len() as u64, clients);
    assert!(known.is_sorted_by_key(|(id, _)| *id));
    let of_clients = |page: &Page| match page {
        Page::Clients(page) => Some(page.clients.len()),
        _ => None,
    };
    let pages = pages(&world.state, 1 << 20);
    assert_eq!(pages.iter().filter_map(of_clients).collect::<Vec<_>>(), [CLIENTS_IN_PAGE, 1]);
    let copy = State::from_pages(world.state.position, pages, limits, Rules::SOUND);
    assert_eq!(copy.clients, world.state.clients);
}

/// As after an upgrade that has made the limit smaller.
#[test]
fn a_map_that_is_too_large_may_shrink_and_not_grow() {
    let large = Limits { bytes_max: 100, ..LIMITS };
    let mut world = World { state: State::new(large, Rules::SOUND) };
    let long = "0123456789012345678901234567890123456789";
    assert_eq!(
        world.write(id(1, 1, 0), vec![], vec![put("a", Some(long)), put("b", Some(long))]),
        written(1)
    );
    world.state.limits = LIMITS;
    assert_eq!(world.write(id(1, 2, 0), vec![], vec![put("a", Some(&long[1..]))]), written(2));
    assert_eq!(world.write(id(1, 3, 0), vec![], vec![put("a", Some(long))]), Some(WriteResult::Full));
    assert_eq!(world.write(id(1, 4, 0), vec![], vec![put("b", Some(long))]), written(3), "as long as it was");
}

#[test]
fn an_attempt_that_a_later_one_has_followed_is_given_up_however_that_has_ended() {
    let mut world = World::new(Rules::SOUND);
    let not_held = Some(WriteResult::NotHeld { revision: Revision::START, compare: 0 });
    assert_eq!(world.write(id(1, 1, 1), vec![is("a", Some(9))], vec![put("a", Some("1"))]), not_held);
    assert_eq!(world.write(id(1, 1, 0), vec![], vec![put("a", Some("1"))]), Some(WriteResult::Settled));
    assert!(!world.has("a"));
    assert_eq!(world.write(id(1, 1, 2), vec![], vec![put("a", Some("1"))]), written(1));
}

#[test]
fn a_write_of_nothing_changes_nothing_and_is_remembered() {
    let mut world = World::new(Rules::SOUND);
    assert_eq!(world.write(id(1, 1, 0), vec![], vec![put("a", Some("1"))]), written(1));
    assert_eq!(world.write(id(1, 2, 0), vec![is("a", Some(1))], vec![]), written(1));
    assert_eq!((world.state.revision, world.state.history.changes().count()), (Revision(1), 1));
    world.write(id(1, 3, 0), vec![], vec![put("a", Some("2"))]);
    assert_eq!(world.write(id(1, 2, 0), vec![is("a", Some(1))], vec![]), written(1), "it held then");
}

/// Users of the configuration, by name, each an administrator or not.
fn user(name: &str, is_administrator: bool) -> Put {
    let grants = is_administrator.then(|| Grant::new([Right::Administer], None));
    let user =
        User { certificates: vec![name.to_owned()], grants: grants.into_iter().collect(), ..User::new(name) };
    Put { key: user_key(name), value: Some(quorate_codec::encode(&user)), lease: None }
}

fn roomy(rules: Rules) -> World {
    World { state: State::new(Limits { bytes_max: 10_000, ..LIMITS }, rules) }
}

#[test]
fn the_last_administrator_is_not_removed_whoever_is_first() {
    let mut world = roomy(Rules::SOUND);
    let refused = Some(WriteResult::LastAdministrator);
    let removed = |name: &str| Put { value: None, ..user(name, true) };
    assert_eq!(world.write(id(1, 1, 0), vec![], vec![user("ada", false)]), refused, "the first one");
    assert_eq!(world.write(id(1, 2, 0), vec![], vec![user("bob", true), user("root", true)]), written(1));
    // Two clients that know of both, and that each remove one.
    assert_eq!(world.write(id(1, 3, 0), vec![], vec![removed("bob")]), written(2));
    assert_eq!(world.write(id(2, 1, 0), vec![], vec![removed("root")]), refused);
    assert!(world.has("user/root"));
    assert_eq!(world.write(id(2, 1, 0), vec![], vec![removed("root")]), refused, "asked for again");
    let empty = Put { value: Some(Value::new()), ..user("root", true) };
    assert_eq!(world.write(id(1, 4, 0), vec![], vec![empty]), refused, "what nobody can read is nobody");
    world.state.assert_administered();

    let mut world = roomy(Rules::planted(Plant::AdministratorsLost));
    assert_eq!(world.write(id(1, 1, 0), vec![], vec![user("root", true)]), written(1));
    assert_eq!(world.write(id(1, 2, 0), vec![], vec![removed("root")]), written(2), "planted");
}

#[test]
fn an_administrator_that_vanishes_with_a_lease_is_none() {
    let mut world = roomy(Rules::SOUND);
    assert_eq!(
        world.apply(Entry::Grant { lease: lease(1, 1), duration: Duration::from_secs(1) }),
        Applied::Granted(true)
    );
    let bound = |put: Put| Put { lease: Some(lease(1, 1)), ..put };
    let refused = Some(WriteResult::LastAdministrator);
    assert_eq!(world.write(id(1, 1, 0), vec![], vec![bound(user("root", true))]), refused);
    assert_eq!(world.write(id(1, 2, 0), vec![], vec![user("root", true)]), written(1));
    assert_eq!(world.write(id(1, 3, 0), vec![], vec![bound(user("bob", true))]), written(2));
    let removed = Put { value: None, ..user("root", true) };
    assert_eq!(world.write(id(1, 4, 0), vec![], vec![removed]), refused);
}
