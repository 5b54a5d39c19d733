//! Messages of participants that have no say, and messages that nobody sends.

use quorate_core::command::{End, Milestone};
use quorate_core::transaction::TRANSACTION_ENTRIES_MAX;
use quorate_core::{ReplicaIndex, Value};
use quorate_walter::{Container, Page, Replicas};

use super::*;

/// The messages of leaders of sites to each other.
fn of_leaders() -> Vec<Message> {
    let (transaction, vector) = (txn(1, 1), v(&[]));
    let frozen =
        quorate_walter::removal::Frozen { removals: 1, received: v(&[]), committed: v(&[]), seqno: 0 };
    vec![
        Message::Prepare { transaction, keys: vec![Key::from("oak")], snapshot: vector.clone() },
        Message::Vote { transaction, keys: vec![Key::from("oak")], agrees: true },
        Message::Release { transaction },
        Message::Propagate { commits: Vec::new(), durable: 0 },
        Message::Progress { received: 0, committed: vector.clone(), oldest: vector.clone() },
        Message::AskLast { question: 1 },
        Message::AskShare { counter: Key::from("\0stock"), wanted: 1 },
        Message::Last { question: 1, seqno: 0 },
        Message::Frozen { frozen, received: vector.clone() },
        Message::Relay { commits: Vec::new() },
        Message::Join {},
        Message::Expected { floor: vector },
        Message::Fetch { state: 1, number: 0 },
        Message::State { state: 1, number: 0, is_last: true, page: Page::Joined(Vec::new()) },
        Message::NotLeading { transaction: None, leader: ReplicaIndex(1) },
    ]
}

/// The messages to clients.
fn for_clients() -> Vec<Message> {
    let (transaction, vector, period) = (txn(1, 1), v(&[]), Period(1));
    let last = version(1, 1);
    vec![
        Message::ReadReply { transaction, request: 1, snapshot: vector.clone(), found: Vec::new(), period },
        Message::CopyReply { transaction, request: 1, included: 0, found: Vec::new() },
        Message::CommitReply { transaction, ending: Ending::Aborted, silent: Vec::new(), is_short: false },
        Message::TooOld { transaction, refused: None, committed: vector, period },
        Message::Abandoned { transaction, last },
        Message::NeverCommitted { transaction, last },
        Message::Forgotten { transaction },
        Message::MilestoneReply { transaction, milestone: Milestone::Durable, missing: Vec::new() },
    ]
}

#[test]
fn a_client_does_not_speak_for_a_site() {
    let mut site = site();
    for message in of_leaders() {
        let told = site.hears("c1", message.clone());
        assert_eq!(told, ["✗ said by a client"], "{message:?}");
    }
}

#[test]
fn a_site_is_told_nothing_that_is_for_clients() {
    let mut site = site();
    for (from, message) in
        for_clients().into_iter().flat_map(|message| [("c1", message.clone()), ("2/r0", message)])
    {
        assert_eq!(site.hears(from, message.clone()), ["✗ only clients are told so"], "{message:?}");
    }
}

/// Neither the replicas of its own group nor those of another keyspace are another site.
#[test]
fn a_site_listens_to_other_sites_of_its_keyspace() {
    let mut site = site();
    for from in ["1/r1", "4/r0", "0/r0"] {
        for message in of_leaders() {
            let told = site.hears(from, message.clone());
            assert_eq!(told, ["✗ the sender is no other local site"], "{from}: {message:?}");
        }
        let asks = Message::AskOutcome { transaction: txn(1, 1), period: Period(1), committed: 0 };
        assert_eq!(site.hears(from, asks), ["✗ the sender is no other local site"]);
    }
}

/// Each is told which replica leads, so that it asks that one; answers that nobody has asked for are dropped.
#[test]
fn a_backup_names_the_leader_and_does_nothing() {
    let mut site = backup(|_| {});
    let (transaction, period) = (txn(1, 1), Period(1));
    for message in [
        read_at(1, 1, Snapshot::New(v(&[])), vec![register("oak")]),
        Message::ReadCopy {
            transaction,
            request: 1,
            snapshot: v(&[]),
            home: LocalSite(1),
            wanted: vec![register("oak")],
        },
        commit_at(1, 1, Snapshot::New(v(&[])), vec![write("oak", "x")]),
        Message::AskOutcome { transaction, period, committed: 0 },
        Message::AskMilestone { transaction, version: version(0, 1), milestone: Milestone::Durable },
    ] {
        let told = site.hears("c1", message.clone());
        assert_eq!(told, ["c1 ← c1.1 NOT-LEADING, r1 does"], "{message:?}");
    }
    for message in of_leaders() {
        let expected = match &message {
            Message::Vote { .. } => "✗ no vote is waited for",
            Message::Last { .. }
            | Message::Frozen { .. }
            | Message::Relay { .. }
            | Message::NotLeading { .. } => "✗ this replica does not lead",
            Message::Expected { .. } | Message::State { .. } => "✗ nothing waits under this name",
            // It was founded with the keyspace.
            Message::Join {} => "✗ the sender cannot know that",
            _ => "2/r0 ← NOT-LEADING, r1 does",
        };
        assert_eq!(site.hears("2/r0", message.clone()), [expected], "{message:?}");
    }
    let asks = Message::AskOutcome { transaction, period, committed: 0 };
    assert_eq!(site.hears("2/r0", asks), ["2/r0 ← c1.1 NOT-LEADING, r1 does"]);
    assert_eq!(site.waits(60_000), NOTHING);
}

#[test]
fn a_client_speaks_in_its_own_name() {
    let mut site = site();
    let transaction = txn(2, 1);
    for message in [
        read_at(2, 1, Snapshot::New(v(&[])), vec![register("oak")]),
        Message::ReadCopy {
            transaction,
            request: 1,
            snapshot: v(&[]),
            home: LocalSite(1),
            wanted: vec![register("oak")],
        },
        commit_at(2, 1, Snapshot::New(v(&[])), vec![write("oak", "x")]),
        Message::AskMilestone { transaction, version: version(0, 1), milestone: Milestone::Durable },
    ] {
        for from in ["c1", "2/r0"] {
            let told = site.hears(from, message.clone());
            assert_eq!(told, ["✗ asked in the name of another client"], "{from}: {message:?}");
        }
    }
}

fn range() -> Wanted {
    Wanted::Range(all(), 10)
}

fn elements(from: End) -> Wanted {
    Wanted::Elements { set: Key::from("oak"), range: all(), from, limit: 10 }
}

fn members() -> Wanted {
    Wanted::Members { set: Key::from("oak"), range: all(), from: End::Least, limit: 10 }
}

/// Ranges and elements are read one at a time, so that no client keeps a site busy for long.
#[test]
fn a_read_asks_for_no_more_than_is_moderate() {
    let mut site = site();
    let many = |count: usize| vec![register("oak"); count];
    for (wanted, is_moderate) in [
        (vec![range()], true),
        (vec![elements(End::Least)], true),
        (vec![members()], true),
        (vec![range(), register("oak")], false),
        (vec![register("oak"), elements(End::Greatest)], false),
        (vec![members(), members()], false),
        (vec![register("oak"), register("elm")], true),
        (many(TRANSACTION_ENTRIES_MAX), true),
        (many(TRANSACTION_ENTRIES_MAX + 1), false),
        (vec![], true),
    ] {
        let told = site.hears("c1", read_at(1, 1, Snapshot::New(v(&[])), wanted.clone()));
        assert_eq!(told.len(), 1);
        assert_eq!(told[0] != "✗ no coordinator sends this", is_moderate, "{} of {wanted:?}", wanted.len());
    }
}

/// Elements are asked for without the registers that they name, and of what is in flight the client's own site knows.
#[test]
fn another_site_is_asked_for_objects_alone() {
    let mut site = site();
    for (home, wanted, is_formed) in [
        (1, vec![register("oak")], true),
        (1, vec![range()], true),
        (1, vec![elements(End::Least)], true),
        (1, vec![members()], false),
        (1, vec![Wanted::InFlight(Key::from("oak"))], false),
        (1, vec![register("oak"), range()], false),
        (2, vec![register("oak")], true),
        (3, vec![register("oak")], false),
    ] {
        let read = Message::ReadCopy {
            transaction: txn(1, 1),
            request: 1,
            snapshot: v(&[]),
            home: LocalSite(home),
            wanted: wanted.clone(),
        };
        let told = site.hears("c1", read);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0] != "✗ no coordinator sends this", is_formed, "s{home}: {wanted:?}");
    }
}

#[test]
fn a_transaction_comes_after_an_earlier_one_of_its_own_client() {
    let mut site = site();
    for (client, sequence, is_formed) in [(1, 1, true), (1, 2, false), (2, 1, false)] {
        let earlier = txn(client, sequence);
        let after = || Snapshot::After { seen: v(&[]), earlier, period: Period(1) };
        let expected = if is_formed { &[][..] } else { &["✗ no coordinator sends this"] };
        assert_eq!(site.hears("c1", read_at(1, 2, after(), vec![register("oak")])), expected);
        let told = site.hears("c1", commit_at(1, 2, after(), vec![write("oak", "x")]));
        assert_eq!(told, expected, "{earlier}");
    }
}

fn long(bytes: usize) -> String {
    "x".repeat(bytes)
}

#[test]
fn what_no_coordinator_sends_is_not_committed() {
    let mut site = site();
    let value = |key: &str, bytes: usize| Update::Write {
        key: Key::from(key),
        value: Some(Value::from(long(bytes))),
    };
    let many = |count: usize| (0..count).map(|at| add("oak", &format!("{at}"), 1)).collect::<Vec<_>>();
    let place = |name: &str, preferred: u16, sites: &[u16]| {
        let replicas = Replicas::of(sites.iter().copied().map(LocalSite));
        let container = Some(Container { preferred: LocalSite(preferred), replicas, stays: true });
        Update::Place { name: Key::from(name), container }
    };
    let counter = |element: &str, by| add("\0stock", element, by);
    let key_max = quorate_core::transaction::KEY_BYTES_MAX;
    let value_max = quorate_core::transaction::VALUE_BYTES_MAX;
    let whole = quorate_core::transaction::TRANSACTION_BYTES_MAX / value_max;
    let values =
        |count: usize| (0..count).map(|at| value(&format!("{{oak}}{at}"), value_max)).collect::<Vec<_>>();
    let exactly = |more: usize| {
        let mut updates = values(whole);
        let rest = quorate_core::transaction::TRANSACTION_BYTES_MAX - whole * (value_max + "{oak}0".len());
        updates.push(value("elm", rest - "elm".len() + more));
        updates
    };
    for (what, updates, is_formed) in [
        ("nothing", vec![], false),
        ("a write", vec![write("oak", "x")], true),
        ("a register twice", vec![write("oak", "x"), write("oak", "y")], false),
        ("two registers", vec![write("oak", "x"), write("elm", "y")], true),
        ("an empty key", vec![write("", "x")], false),
        ("a set without a name", vec![add("", "x", 1)], false),
        ("an element without a name", vec![add("oak", "", 1)], false),
        ("a key that is too long", vec![write(&long(key_max + 1), "x")], false),
        ("a value that is too long", vec![value("oak", value_max + 1)], false),
        ("too many bytes", values(whole + 1), false),
        ("as many bytes as may be", exactly(0), true),
        ("one byte more", exactly(1), false),
        ("as many updates as may be", many(TRANSACTION_ENTRIES_MAX), true),
        ("more updates", many(TRANSACTION_ENTRIES_MAX + 1), false),
        ("the greatest sum", vec![add("oak", "x", i32::MAX)], true),
        ("a sum that is too great", vec![add("oak", "x", i32::MAX), add("oak", "y", -1)], false),
        ("the value of a counter", vec![counter("value", 1)], true),
        ("a share of a counter", vec![counter("s1", 1)], false),
        ("a counter twice", vec![counter("value", 1), counter("value", 1)], false),
        ("what was written elsewhere", vec![Update::Noted { object: Key::from("oak"), writes: true }], false),
        ("a container", vec![place("oak", 1, &[])], true),
        ("no container", vec![Update::Place { name: Key::from("oak"), container: None }], true),
        ("a container and a write", vec![place("oak", 1, &[]), write("elm", "x")], false),
        ("no name of a container", vec![place("{oak}/x", 1, &[])], false),
        ("a container without a name", vec![place("", 1, &[])], false),
        ("a container at no site", vec![place("oak", 3, &[])], false),
        ("a container at the last site", vec![place("oak", 2, &[])], true),
        ("copies at no site", vec![place("oak", 1, &[1, 3])], false),
        ("copies at two sites", vec![place("oak", 1, &[1, 2])], true),
    ] {
        let mut told = site.is_asked(1, Snapshot::New(v(&[])), updates);
        told.truncate(1);
        let expected = if is_formed { "appends" } else { "✗ no coordinator sends this" };
        assert!(told[0].starts_with(expected), "{what}: {told:?}");
        site = super::site();
    }
}

#[test]
fn a_request_for_locks_names_registers_in_order_and_not_too_many() {
    let keys = |words: &[&str]| words.iter().map(|word| Key::from(*word)).collect::<Vec<_>>();
    let many = |count: usize| (0..count).map(|at| Key::from(format!("{{oak}}/{at:08}"))).collect::<Vec<_>>();
    for (keys, is_formed) in [
        (keys(&["elm", "oak"]), true),
        (keys(&["oak", "elm"]), false),
        (keys(&["oak", "oak"]), false),
        (keys(&[]), false),
        (many(TRANSACTION_ENTRIES_MAX), true),
        (many(TRANSACTION_ENTRIES_MAX + 1), false),
    ] {
        let told = site().hears("2/r0", Message::Prepare { transaction: txn(9, 1), keys, snapshot: v(&[]) });
        let expected = if is_formed { "appends LOCKED" } else { "✗ no coordinator sends this" };
        assert!(told[0].starts_with(expected), "{}", told[0].chars().take(60).collect::<String>());
    }
}

#[test]
fn a_site_says_nothing_of_transactions_that_it_cannot_know() {
    let mut site = site();
    site.commits(1, vec![write("oak", "x")]);
    let nonsense = ["✗ the sender cannot know that"];
    assert_eq!(site.is_told("2/r0", 2, &[1], &[]), nonsense, "one only has committed");
    assert_eq!(site.is_told("2/r0", 1, &[1], &[1, 1]), nonsense, "what is oldest has committed");
    assert_eq!(site.is_told("2/r0", 1, &[1, 1], &[1, 1]), NOTHING);
    let ask = |id, at| Message::AskMilestone { transaction: id, version: at, milestone: Milestone::Durable };
    assert_eq!(site.hears("c1", ask(txn(1, 2), version(0, 1))), nonsense, "another one has that name");
    let malformed = ["✗ no coordinator sends this"];
    assert_eq!(site.hears("c1", ask(txn(1, 1), version(1, 1))), malformed, "of another site");
    assert_eq!(site.hears("c1", ask(txn(1, 1), version(0, 0))), malformed, "none is the zeroth");
    assert_eq!(site.hears("c1", ask(txn(1, 1), version(0, 1))), ["c1 ← c1.1 is durable"]);
    let of_itself = foreign(1, 1, &[0, 1], vec![write("apple", "x")]);
    assert_eq!(site.is_sent("2/r0", vec![of_itself], 0), malformed);
    let of_another = foreign(2, 1, &[], vec![write("pear", "x")]);
    assert_eq!(site.is_sent("2/r0", vec![of_another], 0), malformed);
}
