//! A replica of the first shard whose state is replaced by a later one, and the pages of which that comes.

use std::sync::Arc;

use quorate_core::log::{FrozenAt, Position};
use quorate_core::transaction::KeyVersion;
use quorate_str::entry::{Decided, Ended, Granted, Prepared};
use quorate_str::{Entry, Page};

use super::*;

/// The second replica, whose node the home 3 is on. Gives the life in which it is.
fn backup(change: impl FnOnce(&mut ReplicaConfig)) -> (Alone, Life) {
    let mut backup = machine("1/r1", change);
    backup.starts();
    backup.does(ReplicaCommand::Meet(vec![replica("3/r0")]));
    let life = life_of(&backup);
    backup.hears("3/r0", Message::Hello { life: LIFE, wants: false });
    (backup, life)
}

/// The home on its node has it certified.
fn here(sequence: u64, snapshot: u64, words: &str) -> Message {
    let (transaction, snapshot, writes) = (txn(1, sequence), at(snapshot), writes(words));
    Message::Prepare {
        knows_indexes: false,
        transaction,
        life: LIFE,
        snapshot,
        writes,
        after: Vec::new(),
        is_local: true,
    }
}

fn read_at(request: u64, snapshot: u64, wanted: Vec<Wanted>) -> Message {
    Message::ReadAt { life: LIFE, request, snapshot: at(snapshot), wanted }
}

fn grant(life: Life, until: u64) -> Holder {
    Holder { replica: ReplicaIndex(1), life, until: at(until) }
}

fn granted(life: Life, until: u64) -> Entry {
    Entry::Granted(Granted { view: View(0), clock: at(1_000), holders: vec![grant(life, until)] })
}

fn prepared(sequence: u64, words: &str) -> Arc<Prepared> {
    Arc::new(Prepared {
        transaction: txn(1, sequence),
        home: replica("3/r0"),
        life: LIFE,
        snapshot: at(500),
        proposal: at(501),
        writes: writes(words),
        view: View(0),
        holders: Vec::new(),
    })
}

fn bounds(grants: Vec<Holder>) -> Page {
    Page::Bounds { floor: at(0), grants, readers: Vec::new(), retained_from: None }
}

fn is_replaced(shard: &mut Alone, pages: Vec<Page>) {
    shard.machine.replace_state(Position(9), pages);
    shard.machine.assert_invariants();
}

/// Its bound may be that of an earlier life, and then nobody knows its readers: the state does not tell from what this life was granted.
#[test]
fn a_replica_that_is_given_a_greater_bound_with_a_state_votes_above_it() {
    for (own, bound, other_life, until, votes, serves) in [
        ("it is granted more", 5_000, false, 9_000, 9_001, 9_000),
        ("it knows all that it was granted", 9_000, false, 9_000, 501, 9_000),
        ("an earlier life was granted more", 5_000, true, 9_000, 9_001, 5_000),
        ("a late question of an earlier life was answered", 9_000, true, 9_000, 9_001, 9_000),
    ] {
        let (mut shard, life) = backup(|_| {});
        shard.follows(&granted(life, bound));
        let of = if other_life { Life(1) } else { life };
        is_replaced(&mut shard, vec![bounds(vec![grant(of, until)])]);
        let told = shard.hears("3/r0", here(1, 500, "oak=x"));
        assert_eq!(told, [format!("3/r0 ← LOCAL-VOTE c1.1 @{votes}")], "{own}");
        let told = shard.hears("4/r0", read_at(1, serves, vec![key("elm")]));
        assert_eq!(told, ["4/r0 ← holds elm=nothing, number 1"], "{own}");
        assert_eq!(
            only(shard.hears("4/r0", read_at(2, serves + 1, vec![key("elm")])), "holds"),
            NOTHING,
            "{own}"
        );
    }
    // Another replica's grants are not its own.
    let (mut shard, life) = backup(|_| {});
    let other = Holder { replica: ReplicaIndex(2), life, until: at(9_000) };
    is_replaced(&mut shard, vec![bounds(vec![other])]);
    assert_eq!(shard.hears("3/r0", here(1, 500, "oak=x")), ["3/r0 ← LOCAL-VOTE c1.1 @501"]);
}

/// The transaction that a reader waits for may have ended in the state.
#[test]
fn requests_that_wait_are_looked_at_once_the_state_was_replaced() {
    let end = |shard: &mut Alone, by_entry: bool| match by_entry {
        true => shard.follows(&Entry::Floor(at(1))),
        false => shard.waits(500),
    };
    for by_entry in [true, false] {
        let (mut shard, life) = backup(|_| {});
        shard.follows(&granted(life, 5_000));
        shard.follows(&Entry::Prepared(prepared(1, "oak=x")));
        assert_eq!(shard.hears("4/r0", read_at(1, 2_000, vec![key("oak")])), NOTHING, "it waits for an end");
        shard.hears("4/r0", read_at(2, 9_000, vec![key("elm")]));
        assert_eq!(shard.machine.waiting(), 2, "the other one for a grant");
        let version = Timestamp { micros: 900, client: ClientId(1) };
        let value = Some(Value::from("x"));
        let pages = vec![
            Page::Versions(vec![KeyVersion { key: Key::from("oak"), version, value }]),
            Page::Ended(vec![Ended { transaction: txn(1, 1), outcome: committed(900), snapshot: at(500) }]),
            bounds(vec![grant(life, 9_000)]),
        ];
        is_replaced(&mut shard, pages);
        assert_eq!(shard.machine.waiting(), 2);
        let told = only(end(&mut shard, by_entry), "holds");
        let told: Vec<&str> = told.iter().map(|line| line.trim_start_matches("500 ms: ")).collect();
        assert_eq!(told, ["4/r0 ← holds oak=x@900, number 1", "4/r0 ← holds elm=nothing, number 2"]);
        assert_eq!(shard.machine.waiting(), 0);
        assert_eq!(only(end(&mut shard, by_entry), "holds"), NOTHING, "once");
    }
}

/// The log had said that it is prepared, and the state does not: it has been forgotten since that it ended. The note is that of the home.
#[test]
fn a_prepared_transaction_is_only_noted_once_the_state_has_forgotten_it() {
    let (mut shard, _) = backup(|_| {});
    shard.hears("3/r0", here(1, 500, "oak=x"));
    shard.follows(&Entry::Prepared(prepared(1, "oak=x")));
    shard.follows(&Entry::Prepared(prepared(2, "elm=x")));
    is_replaced(&mut shard, vec![bounds(Vec::new())]);
    assert_eq!((shard.machine.load(None), shard.machine.prepared()), (1, 0));
    // Its note ends with the word of the home.
    let decides = Message::Decide {
        transaction: txn(1, 1),
        outcome: Outcome::Aborted,
        readers: Vec::new(),
        is_forgotten: false,
    };
    shard.hears("3/r0", decides);
    assert_eq!(shard.machine.load(None), 0);
}

/// Such a transaction counts as known since the beginning: a leader asks for its end soon.
#[test]
fn a_transaction_that_comes_with_a_state_holds_its_keys() {
    let (mut shard, life) = backup(|_| {});
    shard.follows(&granted(life, 5_000));
    shard.waits(1_900);
    let pages = vec![Page::Prepared(vec![prepared(1, "oak=x")]), bounds(vec![grant(life, 5_000)])];
    is_replaced(&mut shard, pages);
    assert_eq!((shard.machine.load(None), shard.machine.prepared()), (1, 1));
    assert_eq!(shard.hears("4/r0", read_at(1, 2_000, vec![key("oak")])), NOTHING, "it may commit there");
    shard.leads(1);
    assert_eq!(only(shard.waits(100), "INQUIRE"), ["100 ms: 3/r0 ← INQUIRE c1.1 of @500"]);
}

/// A replica that holds a commit to three keys, with values of so many bytes, and one that is short.
fn with_values(bytes: [usize; 2], change: impl FnOnce(&mut ReplicaConfig)) -> Alone {
    let (mut shard, life) = backup(change);
    shard.follows(&granted(life, 5_000));
    let values = bytes.map(|bytes| "v".repeat(bytes));
    let words = format!("elm={} iri={} oak=x", values[0], values[1]);
    shard.follows(&Entry::Prepared(prepared(1, &words)));
    let outcome = committed(900);
    let decided = Decided { transaction: txn(1, 1), outcome, readers: Vec::new() };
    shard.follows(&Entry::Decided(Arc::new(decided)));
    shard
}

/// Replicas are compared page by page, and every one of them makes the same pages. Each element takes 64 bytes beside its key and its value.
#[test]
fn pages_that_are_compared_or_read_have_sixteen_kibibytes() {
    let sizes = |mut frozen: quorate_str::Frozen| {
        let size = |page: Page| match page {
            Page::Versions(all) => all.len(),
            other => panic!("there is nothing else: {other:?}"),
        };
        std::iter::from_fn(|| Replica::next_page(&mut frozen)).map(size).collect::<Vec<_>>()
    };
    // Two elements of eight kibibytes each, and a bit less.
    for (bytes, expected) in [([8_125, 8_125], vec![2, 1]), ([8_125, 8_124], vec![3])] {
        let mut shard = with_values(bytes, |config| config.page_bytes_max = 1);
        assert_eq!(shard.pages().len(), 5, "others are as short as they are configured");
        assert_eq!(sizes(shard.machine.freeze_data()), expected, "{bytes:?}");
        let FrozenAt::Frozen(frozen) =
            shard.machine.freeze_at(Timestamp { micros: 2_000, client: ClientId(0) })
        else {
            panic!("it is granted so much")
        };
        assert_eq!(sizes(frozen), expected, "{bytes:?}");
    }
}

/// Unless it is configured otherwise.
#[test]
fn pages_of_a_state_have_a_mebibyte() {
    // Two elements of half as much each, and a bit less.
    for (bytes, expected) in [([524_221, 524_221], [2, 1]), ([524_221, 524_220], [3, 0])] {
        let versions = |page: &Page| match page {
            Page::Versions(all) => all.len(),
            _ => 0,
        };
        let pages = with_values(bytes, |_| {}).pages();
        assert_eq!([versions(&pages[0]), versions(&pages[1])], expected, "{bytes:?}");
    }
}

#[test]
fn a_page_of_a_range_has_a_thousand_keys() {
    let (mut shard, life) = backup(|_| {});
    shard.follows(&granted(life, 5_000));
    let words: String = (0..1_001).map(|number| format!("key{number:04}=x ")).collect();
    shard.follows(&Entry::Prepared(prepared(1, &words)));
    let decided = Decided { transaction: txn(1, 1), outcome: committed(900), readers: Vec::new() };
    shard.follows(&Entry::Decided(Arc::new(decided)));
    shard.hears("4/r0", read_at(1, 2_000, vec![range("key", "kez", 5_000)]));
    let [Message::ReadAtReply { found, .. }] = &shard.said[..] else { panic!("{:?}", shard.said) };
    let [Found::Range { keys, next }] = &found[..] else { panic!("{found:?}") };
    assert_eq!((keys.len(), next.clone()), (1_000, Some(Key::from("key1000"))));
}

/// An operator reads what was there then.
#[test]
fn a_state_is_read_as_it_was_at_a_snapshot() {
    let (mut shard, life) = backup(|_| {});
    shard.follows(&granted(life, 5_000));
    for (sequence, words, micros) in [(1, "elm=old iri=x oak=x", 900), (2, "elm=new iri=", 1_000)] {
        shard.follows(&Entry::Prepared(prepared(sequence, words)));
        let outcome = committed(micros);
        let decided = Decided { transaction: txn(1, sequence), outcome, readers: Vec::new() };
        shard.follows(&Entry::Decided(Arc::new(decided)));
    }
    let mut read = |micros: u64| {
        let FrozenAt::Frozen(mut frozen) = shard.machine.freeze_at(Timestamp { micros, client: ClientId(0) })
        else {
            panic!("it is granted so much")
        };
        let page = Replica::next_page(&mut frozen);
        assert!(Replica::next_page(&mut frozen).is_none());
        let Some(Page::Versions(versions)) = page else { return Vec::new() };
        let text = |version: &KeyVersion| {
            describe::message(&Message::ReadAtReply {
                life: LIFE,
                request: 0,
                found: vec![Found::Key(version.clone())],
                floor: ClockTime::default(),
            })
        };
        versions.iter().map(|version| text(version).replace(", number 0", "")).collect::<Vec<_>>()
    };
    assert_eq!(read(900), Vec::<String>::new());
    assert_eq!(read(901), ["holds elm=old@900", "holds iri=x@900", "holds oak=x@900"]);
    assert_eq!(read(1_001), ["holds elm=new@1000", "holds oak=x@900"], "what is deleted is no key");
}

/// A range that ends before it begins has no keys.
#[test]
fn an_empty_range_has_no_keys() {
    let (mut shard, life) = backup(|_| {});
    shard.follows(&granted(life, 5_000));
    shard.hears("3/r0", here(1, 500, "elm=x"));
    for (from, to) in [("z", "a"), ("elm", "elm")] {
        let told = shard.hears("3/r0", read_at(1, 2_000, vec![range(from, to, 5)]));
        assert_eq!(told, ["3/r0 ← holds [], number 1"], "{from}..{to}");
    }
}

/// A replica may have been told of the machines beside it before its life began.
#[test]
fn a_replica_greets_the_home_beside_it_when_its_life_begins() {
    let mut shard = machine("1/r1", |_| {});
    shard.does(ReplicaCommand::Meet(vec![replica("3/r0")]));
    assert_eq!(shard.starts(), ["3/r0 ← HELLO, and who are you?"]);
}
