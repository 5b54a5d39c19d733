//! Gets and scans, and what ends a transaction.

use super::*;

#[test]
fn a_get_asks_the_nearest_replica_and_then_the_next() {
    let mut client = Client::new();
    client.begins();
    assert_eq!(client.gets("oak"), ["1/r0 ← READ c1.1 oak"]);
    assert_eq!(client.gets("apple"), ["2/r0 ← READ c1.1 apple"]);
    assert_eq!(client.is_told("2/r0", "oak", 5), NOTHING, "that is no key of this shard");
    assert_eq!(client.is_told("1/r0", "elm", 5), NOTHING, "it was not asked for");
    assert_eq!(client.is_told("1/r2", "oak", 5), ["c1.1 got oak = 5"], "whichever answers");
    assert_eq!(client.is_told("1/r0", "oak", 7), NOTHING);
    assert_eq!(client.gets("oak"), ["c1.1 got oak = 5"], "no key is read twice");
    assert_eq!(client.alone.waits(499), NOTHING);
    assert_eq!(client.alone.waits(1), ["1 ms: 2/r1 ← READ c1.1 apple"]);
    assert_eq!(client.alone.waits(500), ["500 ms: 2/r2 ← READ c1.1 apple"]);
    assert_eq!(client.alone.waits(500), ["500 ms: 2/r0 ← READ c1.1 apple"]);
    assert_eq!(client.is_told("2/r1", "apple", 0), ["c1.1 got apple = nothing"]);
    assert_eq!(client.commits(), ["c1.1 COMMITTED, not before 1501000c1"], "by its clock");
    assert_eq!(client.commits(), [not_open(1)]);
    assert_eq!(client.gets("oak"), [not_open(1)]);
}

#[test]
fn a_replica_that_cannot_be_reached_is_passed_over() {
    let mut client = Client::new();
    let reachable = |name: &str, reachable| Command::Reachable { replica: replica(name), reachable };
    client.does(reachable("1/r0", false));
    client.begins();
    assert_eq!(client.gets("oak"), ["1/r1 ← READ c1.1 oak"]);
    assert_eq!(client.does(reachable("1/r1", false)), NOTHING);
    assert_eq!(client.alone.waits(0), ["0 ms: 1/r2 ← READ c1.1 oak"], "nobody waits for it");
    assert_eq!(client.does(reachable("1/r1", false)), NOTHING, "that is no news");
    client.does(reachable("1/r2", false));
    let told = client.alone.waits(100);
    assert!(!told.is_empty(), "if none can be reached, one of them is asked all the same");
    client.does(reachable("1/r0", true));
    assert_eq!(
        client.alone.waits(0),
        NOTHING,
        "who is asked has its time, whoever else can be reached again"
    );
    client.begins();
    assert_eq!(client.gets("oak"), ["1/r0 ← READ c1.2 oak"]);
}

#[test]
fn a_scan_asks_a_replica_of_each_shard_and_sees_its_own_puts() {
    let mut client = Client::with(|config| config.scan_page_max = 3);
    client.begins();
    client.puts("iris", "own");
    let asked = client.scans("a", 9);
    let said = |shard: u32, index: u8| {
        let range = KeyRange { from: Key::from("a"), to: Some(Key::from("z")) };
        format!("{shard}/r{index} ← SCAN c1.1 {range:?} limit 3")
    };
    assert_eq!(asked, [said(1, 0), said(2, 0)]);
    let reply = |request, keys: &[(&str, u64)], next: Option<&str>| Message::ScanReply {
        transaction: txn(1, 1),
        request,
        keys: keys.iter().map(|(key, micros)| held(key, *micros)).collect(),
        next: next.map(Key::from),
    };
    assert_eq!(client.hears("1/r0", reply(1, &[("elm", 5), ("oak", 0)], Some("yew"))), NOTHING);
    assert_eq!(
        client.hears("1/r0", reply(1, &[("elm", 5), ("oak", 0)], Some("yew"))),
        NOTHING,
        "the same again"
    );
    assert_eq!(client.hears("2/r0", reply(2, &[("fig", 5)], None)), NOTHING, "that was not asked");
    assert_eq!(client.hears("9/r0", reply(1, &[("fig", 5)], None)).len(), 1);
    let told = client.alone.waits(500);
    assert_eq!(told, [format!("500 ms: {}", said(2, 1))], "only the silent one");
    let told = client.hears("2/r1", reply(1, &[("apple", 5), ("fig", 6)], None));
    assert_eq!(told, ["c1.1 scanned [apple=5 elm=5 fig=6], next iris"]);
    assert_eq!(client.scans("z", 9), ["c1.1 scanned []"]);
    assert_eq!(client.scans("a", 0), ["c1.1 scanned [], next a"]);
}

#[test]
fn a_transaction_that_reads_all_at_once_ends_by_itself() {
    let mut client = Client::new();
    let read = |sequence, keys: &[&str], freshness| Command::ReadOnly {
        transaction: txn(1, sequence),
        keyspace: KEYSPACE,
        keys: keys.iter().map(|key| Key::from(*key)).collect(),
        freshness,
        patience: PATIENCE,
    };
    client.sequence = 1;
    let told = client.does(read(1, &["oak", "elm", "oak"], Freshness::Strict));
    assert_eq!(told, ["1/r0 ← READ c1.1 elm", "1/r0 ← READ c1.1 oak"], "each once");
    assert_eq!(client.is_told("1/r0", "oak", 5), ["c1.1 got oak = 5"]);
    assert_eq!(client.is_told("1/r0", "elm", 5), ["c1.1 got elm = 5", "c1.1 COMMITTED, not before 1000c1"]);
    assert_eq!(client.does(read(2, &[], Freshness::Strict)), ["c1.2 COMMITTED, not before 1000c1"]);
    assert_eq!(client.does(read(3, &["oak"], Freshness::At(at(5)))), ["c1.3 TOO OLD"], "nobody can tell");
    let scan = |sequence, from: &str| Command::ReadOnlyScan {
        transaction: txn(1, sequence),
        keyspace: KEYSPACE,
        range: KeyRange { from: Key::from(from), to: Some(Key::from("z")) },
        limit: 5,
        freshness: Freshness::Strict,
        patience: PATIENCE,
    };
    assert_eq!(client.does(scan(4, "z")), ["c1.4 scanned []", "c1.4 COMMITTED, not before 1000c1"]);
    assert_eq!(client.does(scan(5, "a")).len(), 2);
    let reply = || Message::ScanReply { transaction: txn(1, 5), request: 1, keys: vec![], next: None };
    assert_eq!(client.hears("1/r0", reply()), NOTHING);
    assert_eq!(client.hears("2/r0", reply()), ["c1.5 scanned []", "c1.5 COMMITTED, not before 1000c1"]);
    let long = "x".repeat(quorate_core::transaction::KEY_BYTES_MAX + 1);
    let told = client.does(read(6, &["oak", &long], Freshness::Strict));
    assert!(told.last().unwrap().starts_with("c1.6 INVALID"), "{told:?}");
}

#[test]
fn a_transaction_that_is_not_answered_is_unavailable_and_names_who_was_asked() {
    let mut client = Client::new();
    client.begins();
    client.gets("oak");
    client.gets("elm");
    let told = client.alone.waits(5_000);
    let missing = [replica("1/r0")];
    assert_eq!(told.last().unwrap(), &format!("5000 ms: c1.1 UNAVAILABLE: {missing:?}"));
    client.begins();
    client.gets("oak");
    client.gets("apple");
    client.gets("elm");
    let told = client.alone.waits(5_000);
    let missing = [replica("1/r0"), replica("2/r0")];
    let expected = format!("5000 ms: c1.2 UNAVAILABLE: {missing:?}");
    assert_eq!(told.last().unwrap(), &expected, "each once, in order");
    assert_eq!(client.alone.waits(60_000), NOTHING);
}

#[test]
fn a_client_is_told_what_it_cannot_do() {
    let mut client = Client::new();
    let begins =
        |keyspace, sequence| Command::Begin { transaction: txn(1, sequence), keyspace, patience: PATIENCE };
    assert!(client.does(begins(KeyspaceId(9), 1))[0].contains("INVALID"));
    client.begins();
    assert_eq!(client.does(begins(KEYSPACE, 1)), [not_open(1)]);
    assert_eq!(client.does(Command::Abort { transaction: txn(1, 1) }), ["c1.1 ABORTED"]);
    assert_eq!(client.does(Command::Abort { transaction: txn(1, 1) }), [not_open(1)]);
    client.begins();
    let set = Command::Set {
        transaction: txn(1, 2),
        call: quorate_core::command::SetCall::Count { set: Key::from("s"), element: Key::from("e") },
    };
    assert!(client.does(set)[0].starts_with("c1.2 INVALID"));
    assert_eq!(client.commits(), [not_open(2)]);
    let resolve = Command::Resolve {
        transaction: txn(1, 2),
        participants: vec![],
        timestamp: at(0),
        patience: PATIENCE,
    };
    assert_eq!(client.does(resolve), ["c1.2 is not known"]);
    let speculates = Command::CommitSpeculatively { transaction: txn(1, 2) };
    assert!(client.does(speculates)[0].contains("INVALID"));
    let long = "x".repeat(quorate_core::transaction::KEY_BYTES_MAX + 1);
    client.begins();
    assert!(client.gets(&long)[0].starts_with("c1.3 INVALID"));
    client.begins();
    assert!(client.puts(&long, "x")[0].starts_with("c1.4 INVALID"));
    client.begins();
    client.puts("oak", "x");
    client.commits();
    assert_eq!(client.does(Command::Abort { transaction: txn(1, 5) }), [not_open(5)], "it commits");
    assert_eq!(client.puts("oak", "y"), [not_open(5)]);
    assert_eq!(client.scans("a", 1), [not_open(5)]);
}

#[test]
fn answers_under_another_membership_are_dropped_and_a_later_one_is_told_once() {
    let mut client = Client::new();
    client.begins();
    client.gets("oak");
    let reply =
        || Message::ReadReply { transaction: txn(1, 1), key: Key::from("oak"), version: at(5), value: None };
    let other = "✗ another membership than the coordinator's";
    let told = client.alone.hears_under(Epoch(3), "1/r0", reply());
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0] == other && told[1].ends_with("has changed"), "{told:?}");
    assert_eq!(client.alone.hears_under(Epoch(3), "1/r0", reply()), [other]);
    assert_eq!(client.alone.hears_under(Epoch(3), "9/r0", reply()), [other]);
    assert_eq!(client.alone.machine.epoch(replica("1/r0").into()), Epoch::FIRST);
    assert_eq!(client.does(Command::Route(routes(Epoch(3)))), NOTHING);
    assert_eq!(client.alone.machine.epoch(replica("1/r0").into()), Epoch(3));
    assert_eq!(client.alone.hears_under(Epoch::FIRST, "1/r0", reply()), [other]);
    assert_eq!(client.alone.hears_under(Epoch(3), "1/r0", reply()), ["c1.1 got oak = nothing"]);
    for message in [Message::Outdated, Message::RaiseFloor { floor: at(5) }] {
        assert_eq!(client.alone.hears_under(Epoch(3), "1/r0", message), NOTHING);
    }
}
