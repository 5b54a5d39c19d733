//! How long a client goes on, and how much it reads at a time.

use super::*;

/// Each read is asked for again half a second after it was asked for, whichever others there are.
#[test]
fn each_read_has_its_own_time() {
    let mut client = Client::new();
    client.begins();
    client.gets("oak");
    client.alone.waits(300);
    client.gets("elm");
    assert_eq!(client.alone.waits(199), NOTHING);
    assert_eq!(client.alone.waits(1), ["1 ms: 1/r1 ← READ c1.1 oak"]);
    assert_eq!(client.alone.waits(299), NOTHING);
    assert_eq!(client.alone.waits(1), ["1 ms: 1/r1 ← READ c1.1 elm"]);
    assert_eq!(client.alone.waits(200), ["200 ms: 1/r2 ← READ c1.1 oak"]);
    assert_eq!(client.is_told("1/r1", "elm", 5), ["c1.1 got elm = 5"]);
    assert_eq!(client.alone.waits(500), ["500 ms: 1/r0 ← READ c1.1 oak"]);
}

/// It is told that nobody knows, and then forgotten after ten seconds.
#[test]
fn puts_are_sent_for_a_while_after_their_client_has_waited_long_enough() {
    let mut client = Client::new();
    client.begins();
    client.puts("oak", "x");
    client.commits();
    assert_eq!(client.alone.waits(4_999).len(), 6, "after one and three seconds, to each");
    assert_eq!(client.alone.waits(1), [format!("1 ms: c1.1 UNKNOWN: {:?}", [ShardId(1)])]);
    let told = of_all(client.alone.waits(9_999));
    assert_eq!(told, ["2000 ms: 1/all ← PUT c1#0 oak=x at 1000c1"]);
    assert_eq!(client.is_recorded("1/r0", 0, 0), NOTHING);
    client.alone.waits(1);
    // Its name is free.
    client.sequence = 0;
    client.begins();
    assert_eq!(client.commits().len(), 1);
    assert_eq!(client.alone.waits(60_000), NOTHING);
}

/// A put that f + 1 have recorded by the time is not sent again; and a replica that was not heard of is not expected to answer.
#[test]
fn the_puts_of_a_transaction_go_on_each_for_itself() {
    let mut client = Client::new();
    client.begins();
    client.puts("oak", "x");
    client.alone.waits(400);
    client.puts("apple", "y");
    client.commits();
    for from in ["1/r0", "1/r1"] {
        client.is_recorded(from, 0, 0);
    }
    client.is_recorded("2/r0", 1, 0);
    assert_eq!(client.alone.waits(599), NOTHING);
    assert_eq!(client.alone.waits(1), NOTHING, "the first is complete without the third replica");
    assert_eq!(client.alone.waits(399), NOTHING);
    let again = [1, 2].map(|index| format!("1 ms: 2/r{index} ← PUT c1#1 apple=y at 401000c1"));
    assert_eq!(client.alone.waits(1), again);
    let told = client.is_recorded("2/r1", 1, 0);
    assert_eq!(told.len(), 1, "the third one is not expected to answer any more");
    assert!(told[0].contains("c1.1 COMMITTED, not before 1000c1, without some replicas"), "{told:?}");
}

/// Whichever view that is; those of earlier ones are told of the latest.
#[test]
fn a_put_has_to_be_recorded_by_f_plus_one_of_one_view() {
    let mut client = Client::new();
    client.begins();
    client.puts("oak", "x");
    client.commits();
    assert_eq!(client.is_recorded("1/r0", 0, 0), NOTHING);
    assert_eq!(client.is_recorded("1/r1", 0, 2), NOTHING);
    assert_eq!(client.is_recorded("1/r2", 0, 1), NOTHING, "each is in another view");
    let told = client.alone.waits(1_000);
    let expected = [
        "1000 ms: 1/r0 ← higher view v2",
        "1000 ms: 1/r0 ← PUT c1#0 oak=x at 1000c1",
        "1000 ms: 1/r2 ← higher view v2",
        "1000 ms: 1/r2 ← PUT c1#0 oak=x at 1000c1",
    ];
    assert_eq!(told, expected);
    let told = client.is_recorded("1/r0", 0, 1);
    assert_eq!(told, ["c1.1 COMMITTED, not before 1000c1"], "the third one is in that view");
}

#[test]
fn a_transaction_that_asks_nothing_ends_with_its_patience() {
    let mut client = Client::new();
    client.begins();
    assert_eq!(client.alone.waits(4_999), NOTHING);
    let nobody: [quorate_core::ReplicaId; 0] = [];
    assert_eq!(client.alone.waits(1), [format!("1 ms: c1.1 UNAVAILABLE: {nobody:?}")]);
    assert_eq!(client.commits(), [not_open(1)]);
}

#[test]
fn several_keys_are_asked_for_each_by_itself() {
    let mut client = Client::new();
    client.begins();
    let keys = ["oak", "apple"].map(Key::from).to_vec();
    let told = client.does(Command::GetMany { transaction: txn(1, 1), keys });
    assert_eq!(told, ["1/r0 ← READ c1.1 oak", "2/r0 ← READ c1.1 apple"]);
}

/// Replicas of different shards have the same places in their groups.
#[test]
fn a_put_is_recorded_by_the_replicas_of_its_shard_alone() {
    let mut client = Client::new();
    client.begins();
    client.puts("oak", "x");
    client.commits();
    client.is_recorded("1/r0", 0, 0);
    client.is_recorded("1/r1", 0, 0);
    assert_eq!(client.is_recorded("2/r2", 0, 0), NOTHING);
    assert_eq!(client.is_recorded("1/r2", 0, 0), ["c1.1 COMMITTED, not before 1000c1"]);
}

/// Its clock may be right by then.
#[test]
fn a_replica_that_has_refused_a_put_is_asked_again_with_the_others() {
    let mut client = Client::new();
    client.begins();
    client.puts("oak", "x");
    client.commits();
    client.hears("1/r0", Message::ClockAhead { put: txn(1, 0), ahead_micros: 70, ahead_max_micros: 60 });
    client.is_recorded("1/r1", 0, 0);
    let again = [0, 2].map(|index| format!("1000 ms: 1/r{index} ← PUT c1#0 oak=x at 1000c1"));
    assert_eq!(client.alone.waits(1_000), again);
    client.is_told("1/r0", "elm", 0);
    assert_eq!(client.is_recorded("1/r2", 0, 0), NOTHING, "it was heard, and is expected to answer");
    assert_eq!(client.is_recorded("1/r0", 0, 0), ["c1.1 COMMITTED, not before 1000c1"]);
}

/// The replicas of all shards that have not answered are passed over with the one that cannot be reached.
#[test]
fn a_scan_goes_on_where_one_of_its_replicas_cannot_be_reached() {
    let mut client = Client::new();
    client.begins();
    assert_eq!(client.scans("a", 9).len(), 2);
    client.does(Command::Reachable { replica: replica("1/r0"), reachable: false });
    let told = client.alone.waits(0);
    let asked: Vec<&str> = told.iter().filter_map(|line| line.split(' ').nth(2)).collect();
    assert_eq!(asked, ["1/r1", "2/r1"], "{told:?}");
    assert_eq!(client.alone.waits(499), NOTHING);
    assert_eq!(client.alone.waits(1).len(), 2);
}

#[test]
fn a_key_is_read_at_the_shard_that_has_it() {
    let mut client = Client::new();
    client.begins();
    client.gets("apple");
    client.gets("oak");
    assert_eq!(client.is_told("1/r0", "apple", 5), NOTHING);
    assert_eq!(client.is_told("2/r0", "oak", 5), NOTHING);
    assert_eq!(client.is_told("2/r0", "apple", 5), ["c1.1 got apple = 5"]);
    assert_eq!(client.is_told("1/r0", "oak", 5), ["c1.1 got oak = 5"]);
}

/// Its client is told once.
#[test]
fn nothing_more_is_asked_for_a_transaction_that_has_ended() {
    let mut client = Client::new();
    let long = "a".repeat(quorate_core::transaction::KEY_BYTES_MAX + 1);
    let told = client.does(Command::ReadOnly {
        transaction: txn(1, 1),
        keyspace: KEYSPACE,
        keys: vec![Key::from("oak"), Key::from(long), Key::from("elm")],
        freshness: Freshness::Strict,
        patience: PATIENCE,
    });
    assert!(told.len() == 1 && told[0].starts_with("c1.1 INVALID"), "{told:?}");
    assert_eq!(client.alone.waits(60_000), NOTHING);
}
