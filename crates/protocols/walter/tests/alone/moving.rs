//! Containers are handed over: by clients, and by themselves to the site that writes them.

use quorate_walter::{Container, Moves, Replicas};

use super::*;

fn new() -> Snapshot {
    Snapshot::New(v(&[]))
}

fn at(preferred: u16, copies: &[u16]) -> Option<Container> {
    let replicas = Replicas::of(copies.iter().copied().map(LocalSite));
    Some(Container { preferred: LocalSite(preferred), replicas, stays: true })
}

fn place(name: &str, container: Option<Container>) -> Vec<Update> {
    vec![Update::Place { name: Key::from(name), container }]
}

fn prepare(from: u64, sequence: u64, key: &str, snapshot: &[u64]) -> Message {
    Message::Prepare { transaction: txn(from, sequence), keys: vec![Key::from(key)], snapshot: v(snapshot) }
}

#[test]
fn a_container_is_handed_over_once_nothing_is_under_way_that_writes_it() {
    let mut site = site();
    site.is_asked(1, new(), vec![write("oak", "x"), write("apple", "a")]);
    assert_eq!(site.is_asked(2, new(), place("oak", at(1, &[]))), ["appends REFUSED c1.2"], "that is held");
    let vote = Message::Vote { transaction: txn(1, 1), keys: vec![Key::from("apple")], agrees: false };
    site.hears("2/r0", vote);
    site.logs();
    site.hears("2/r0", prepare(9, 1, "oak", &[]));
    assert_eq!(
        site.is_asked(3, new(), place("oak", at(1, &[]))),
        ["appends REFUSED c1.3"],
        "that is being locked"
    );
    site.logs();
    assert_eq!(site.is_asked(4, new(), place("oak", at(1, &[]))), ["appends REFUSED c1.4"], "that is locked");
    site.hears("2/r0", Message::Release { transaction: txn(9, 1) });
    site.logs();
    assert_eq!(
        site.is_asked(5, new(), place("apple", at(1, &[]))),
        ["appends REFUSED c1.5"],
        "another site has it"
    );
    let told = site.is_asked(6, new(), place("oak", at(1, &[])));
    assert_eq!(told, ["appends COMMIT s0.1 c1.6 at ⟨⟩ oak to s1"]);
    assert_eq!(site.is_asked(7, new(), vec![write("oak", "x")]), ["appends REFUSED c1.7"], "it is leaving");
    assert_eq!(site.hears("2/r0", prepare(9, 2, "oak", &[])), ["2/r0 ← VOTE c9.2 no"]);
    site.logs();
    assert_eq!(site.is_asked(8, new(), vec![write("oak", "x")]), ["2/r0 ← PREPARE c1.8 oak at ⟨1⟩"]);
    assert_eq!(
        site.hears("c1", read_at(1, 9, Snapshot::Taken(v(&[1])), vec![Wanted::Container(Key::from("oak"))])),
        ["c1 ← c1.9 reads it at s1 at ⟨1⟩, period 1"]
    );
    assert_eq!(
        site.hears("c1", read_at(1, 9, Snapshot::Taken(v(&[])), vec![Wanted::Container(Key::from("oak"))])),
        ["c1 ← c1.9 reads it at s0 at ⟨⟩, period 1"]
    );
}

#[test]
fn a_container_that_has_come_is_let_in_to_once_its_hand_over_has_committed_here() {
    let mut site = site();
    let handed = foreign(1, 1, &[], place("apple", at(0, &[])));
    site.is_sent("2/r0", vec![handed], 0);
    site.logs();
    assert_eq!(site.is_asked(1, new(), vec![write("apple", "x")]), NOTHING, "it waits for that");
    assert_eq!(site.hears("3/r0", prepare(9, 1, "apple", &[])), NOTHING);
    site.is_sent("2/r0", vec![], 1);
    let told = site.logs();
    assert_eq!(only(told, "appends"), ["appends COMMIT s0.1 c1.1 at ⟨0 1⟩ apple=x"]);
}

/// So many sites as a transaction is to survive the loss of, and one more, have the objects at least.
#[test]
fn copies_of_a_container_are_only_given_up() {
    for (next, is_possible) in [
        (at(0, &[0, 1]), true),
        (at(1, &[0, 1, 2]), true),
        (at(0, &[0]), false),
        (at(0, &[1, 2]), false),
        (None, true),
    ] {
        let told = site().is_asked(1, new(), place("oak", next.clone()));
        assert_eq!(told[0].starts_with("appends COMMIT"), is_possible, "{next:?}: {told:?}");
    }
    let limited = || {
        let mut site = site();
        site.commits(1, place("oak", at(0, &[0, 1])));
        site
    };
    for (next, is_possible) in [
        (at(0, &[0, 1]), true),
        (at(1, &[0, 1]), true),
        (at(0, &[0, 2]), false),
        (at(0, &[0, 1, 2]), false),
        (at(0, &[]), false),
        (None, false),
    ] {
        let told = limited().is_asked(2, new(), place("oak", next.clone()));
        assert_eq!(told[0].starts_with("appends COMMIT"), is_possible, "{next:?}: {told:?}");
    }
    // The third site is told that it was written, and not what.
    let mut site = limited();
    site.commits(
        2,
        vec![write("oak", "x"), write("elm", "e"), add("{oak}/set", "a", 1), add("{oak}/set", "b", 1)],
    );
    let told = only(site.waits(5), "PROPAGATE");
    assert!(told[0].contains("oak=x elm=e {oak}/set[a]+1 {oak}/set[b]+1"), "{told:?}");
    assert!(told[1].contains("oak=elsewhere elm=e {oak}/set[…] elsewhere, durable"), "{told:?}");
    assert!(site.is_told("3/r0", 2, &[], &[]).is_empty());
    let ask = Message::AskMilestone {
        transaction: txn(1, 2),
        version: version(0, 2),
        milestone: quorate_core::command::Milestone::Durable,
    };
    assert_eq!(
        site.hears("c1", ask.clone()),
        ["c1 ← c1.2 is not durable, missing shard2"],
        "the third has no copy of it"
    );
    site.is_told("2/r0", 2, &[], &[]);
    assert_eq!(site.hears("c1", ask), ["c1 ← c1.2 is durable"]);
}

fn moving(change: impl FnOnce(&mut ReplicaConfig)) -> Site {
    leader(|config| {
        config.moves = Some(Moves { window: Duration::from_secs(1), writes_min: 3 });
        change(config);
    })
}

/// The second site locks a register so many times, and commits what it writes.
fn writes(site: &mut Site, from: u16, first: u64, times: u64) {
    writes_to("oak", site, from, first, times);
}

fn writes_to(key: &str, site: &mut Site, from: u16, first: u64, times: u64) {
    for number in first..first + times {
        let name = format!("{}/r0", from + 1);
        let mut snapshot = site.machine.committed().clone();
        snapshot.include(version(from, number - 1));
        let told = site.hears(
            &name,
            Message::Prepare {
                transaction: txn(100 + u64::from(from), number),
                keys: vec![Key::from(key)],
                snapshot: snapshot.clone(),
            },
        );
        assert!(told[0].starts_with("appends LOCKED"), "{told:?}");
        site.logs();
        site.takes(&name, foreign(from, number, snapshot.numbers(), vec![write(key, "x")]));
    }
}

#[test]
fn a_container_moves_to_the_site_that_writes_it() {
    let mut site = moving(|_| {});
    writes(&mut site, 1, 1, 3);
    assert_eq!(only(site.waits(999), "appends"), NOTHING);
    let told = only(site.waits(1), "appends");
    assert_eq!(told, ["1 ms: appends COMMIT s0.1 c18446744073709486079.1 at ⟨0 3⟩ oak to s1"]);
    assert_eq!(site.is_asked(1, new(), vec![write("oak", "x")]), ["appends REFUSED c1.1"], "it is leaving");
    assert_eq!(site.machine.moved(), 0);
    site.logs();
    assert_eq!(site.machine.moved(), 1);
    assert_eq!(only(site.waits(3_000), "appends"), NOTHING, "once");
}

#[test]
fn a_container_stays_where_its_site_or_a_client_wants_it() {
    let mut site = moving(|_| {});
    writes(&mut site, 1, 1, 2);
    assert_eq!(only(site.waits(1_000), "appends"), NOTHING, "too few writes");
    writes(&mut site, 1, 3, 3);
    site.commits(1, vec![write("oak", "y")]);
    assert_eq!(only(site.waits(1_000), "appends"), NOTHING, "not four times as often as all others");
    let mut placed = moving(|_| {});
    placed.commits(1, place("oak", at(0, &[])));
    writes(&mut placed, 1, 1, 9);
    assert_eq!(only(placed.waits(1_000), "appends"), NOTHING, "a client has placed it");
    let mut without = site_without_moves();
    writes(&mut without, 1, 1, 9);
    assert_eq!(only(without.waits(20_000), "appends"), NOTHING);
    let mut limited = moving(|_| {});
    limited.commits(
        1,
        vec![Update::Place {
            name: Key::from("oak"),
            container: Some(Container {
                preferred: LocalSite(0),
                replicas: Replicas::of([LocalSite(0), LocalSite(2)]),
                stays: false,
            }),
        }],
    );
    writes(&mut limited, 1, 1, 9);
    assert_eq!(only(limited.waits(1_000), "appends"), NOTHING, "that site has no copy");
}

fn site_without_moves() -> Site {
    leader(|config| config.moves = None)
}

/// Writes are refused meanwhile, and for no longer than votes may take.
#[test]
fn a_container_moves_once_no_lock_is_left_or_not_at_all() {
    let mut site = moving(|config| config.floor_lag = Duration::from_secs(100));
    writes(&mut site, 1, 1, 5);
    site.waits(900);
    let committed = site.machine.committed().clone();
    site.hears(
        "3/r0",
        Message::Prepare {
            transaction: txn(9, 1),
            keys: vec![Key::from("oak")],
            snapshot: committed.clone(),
        },
    );
    site.logs();
    assert_eq!(only(site.waits(100), "appends"), NOTHING, "it is locked");
    assert_eq!(
        site.is_asked(1, new(), vec![write("oak", "x")]),
        ["appends REFUSED c1.1"],
        "it is about to move"
    );
    site.logs();
    assert_eq!(only(site.waits(1_000), "appends"), NOTHING, "it is locked still");
    site.hears("3/r0", Message::Release { transaction: txn(9, 1) });
    assert_eq!(
        only(site.logs(), "appends"),
        ["appends COMMIT s0.1 c18446744073709486079.1 at ⟨0 5⟩ oak to s1"]
    );

    let mut site = moving(|config| config.floor_lag = Duration::from_secs(100));
    writes(&mut site, 1, 1, 5);
    site.waits(900);
    site.hears(
        "3/r0",
        Message::Prepare { transaction: txn(9, 1), keys: vec![Key::from("oak")], snapshot: committed },
    );
    site.logs();
    site.waits(2_000);
    assert_eq!(site.is_asked(1, new(), vec![write("oak", "x")]), ["appends REFUSED c1.1"]);
    site.logs();
    site.hears("3/r0", Message::Release { transaction: txn(9, 1) });
    site.waits(100);
    assert_eq!(only(site.logs(), "oak to s1"), NOTHING, "votes have taken too long: it stays");
}

#[test]
fn a_container_moves_whatever_else_is_locked() {
    let mut site = moving(|_| {});
    writes_to("elm", &mut site, 1, 1, 3);
    for (sequence, key) in [(1, "oak"), (2, "iris"), (3, "{ash}/elm")] {
        let committed = site.machine.committed().clone();
        site.hears("3/r0", prepare(9, sequence, key, committed.numbers()));
    }
    site.logs();
    assert!(site.machine.locks() >= 2);
    assert_eq!(only(site.waits(1_000), "elm to s1").len(), 1);
}

/// Other registers of the container are not locked, and are written no more either.
#[test]
fn nothing_of_a_container_is_written_while_it_is_about_to_move() {
    let mut site = moving(|config| config.floor_lag = Duration::from_secs(100));
    writes(&mut site, 1, 1, 9);
    site.waits(900);
    let committed = site.machine.committed().clone();
    site.hears("3/r0", prepare(9, 1, "oak", committed.numbers()));
    site.logs();
    assert_eq!(site.is_asked(1, new(), vec![write("{oak}/y", "x")]).len(), 1);
    site.logs();
    site.waits(100);
    assert_eq!(site.is_asked(2, new(), vec![write("{oak}/y", "x")]), ["appends REFUSED c1.2"]);
    assert_eq!(site.hears("3/r0", prepare(9, 2, "{oak}/z", committed.numbers())), ["3/r0 ← VOTE c9.2 no"]);
    assert_eq!(only(site.is_asked(3, new(), vec![write("elm", "x")]), "COMMIT").len(), 1, "another goes on");
}

#[test]
fn the_transactions_that_move_containers_are_named_by_their_site() {
    let mut second = backup(|config| {
        config.replica = replica("2/r0");
        config.moves = Some(Moves { window: Duration::from_secs(1), writes_min: 3 });
    });
    second.log.lease_until = Some(second.now + Duration::from_secs(9_999));
    second.leads(0);
    writes_to("apple", &mut second, 2, 1, 3);
    let told = only(second.waits(1_000), "appends");
    assert_eq!(told, ["1000 ms: appends COMMIT s1.1 c18446744073709486078.1 at ⟨0 0 3⟩ apple to s2"]);
}
