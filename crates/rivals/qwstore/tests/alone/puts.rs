//! Puts, until they are complete.

use super::*;

#[test]
fn a_put_is_complete_once_all_replicas_have_recorded_it() {
    let mut client = Client::new();
    client.begins();
    assert_eq!(client.puts("oak", "x"), ["1/all ← PUT c1#0 oak=x at 1000c1"], "as soon as it is asked for");
    assert_eq!(
        client.puts("apple", "y"),
        ["2/all ← PUT c1#1 apple=y at 1001c1"],
        "later than every earlier one"
    );
    assert_eq!(client.gets("oak"), ["c1.1 got oak = x"]);
    assert_eq!(client.commits(), NOTHING, "it waits for both");
    assert_eq!(client.is_recorded("1/r0", 0, 0), NOTHING);
    assert_eq!(client.is_recorded("1/r0", 0, 0), NOTHING);
    assert_eq!(client.is_recorded("1/r1", 0, 0), NOTHING, "the third one is expected to answer");
    assert_eq!(client.is_recorded("2/r2", 0, 0), NOTHING, "of another shard");
    assert_eq!(client.is_recorded("1/r2", 7, 0), NOTHING, "there is no such put");
    assert_eq!(client.is_recorded("1/r2", 0, 0), NOTHING);
    for from in ["2/r0", "2/r1"] {
        assert_eq!(client.is_recorded(from, 1, 0), NOTHING);
    }
    assert_eq!(client.is_recorded("2/r2", 1, 0), ["c1.1 COMMITTED, not before 1000c1"], "the earliest");
    assert_eq!(client.alone.waits(60_000), NOTHING);
    client.alone.clock = 500;
    client.begins();
    assert_eq!(client.puts("oak", "z"), ["1/all ← PUT c1#2 oak=z at 1002c1"], "whatever the clock shows");
}

/// Once f + 1 have recorded a put it cannot be lost.
#[test]
fn a_put_goes_on_without_replicas_that_are_silent() {
    let mut client = Client::new();
    client.begins();
    client.puts("oak", "x");
    client.commits();
    client.is_recorded("1/r0", 0, 0);
    client.is_recorded("1/r1", 0, 0);
    assert_eq!(client.alone.waits(999), NOTHING);
    assert_eq!(client.alone.waits(1), ["1 ms: c1.1 COMMITTED, not before 1000c1, without some replicas"]);
    // It is not expected to answer from here on, until it is heard.
    client.begins();
    client.puts("oak", "y");
    client.commits();
    client.is_recorded("1/r0", 1, 0);
    let told = client.is_recorded("1/r1", 1, 0);
    assert_eq!(told, ["c1.2 COMMITTED, not before 1001000c1, without some replicas"]);
    client.is_recorded("1/r2", 0, 0);
    client.begins();
    client.puts("oak", "z");
    client.commits();
    client.is_recorded("1/r0", 2, 0);
    assert_eq!(client.is_recorded("1/r1", 2, 0), NOTHING, "it was heard");
    // One that cannot be reached is not waited for either.
    client.does(Command::Reachable { replica: replica("1/r2"), reachable: false });
    assert_eq!(client.alone.waits(0), ["0 ms: c1.3 COMMITTED, not before 1001001c1, without some replicas"]);
}

#[test]
fn a_put_that_too_few_have_recorded_is_sent_again_to_the_others() {
    let mut client = Client::new();
    client.begins();
    client.puts("oak", "x");
    client.is_recorded("1/r1", 0, 0);
    assert_eq!(client.alone.waits(999), NOTHING);
    let again = |after: u64, index: u8| format!("{after} ms: 1/r{index} ← PUT c1#0 oak=x at 1000c1");
    assert_eq!(client.alone.waits(1), [again(1, 0), again(1, 2)]);
    assert_eq!(client.alone.waits(1_999), NOTHING, "it waits twice as long each time");
    assert_eq!(client.alone.waits(1), [again(1, 0), again(1, 2)]);
    // Those of an earlier view have to record it anew in the later one.
    assert_eq!(client.is_recorded("1/r0", 0, 3), NOTHING);
    assert_eq!(client.alone.waits(2_000), [format!("2000 ms: c1.1 UNKNOWN: {:?}", [ShardId(1)])]);
    let higher = "2000 ms: 1/r1 ← higher view v3".to_owned();
    assert_eq!(client.alone.waits(2_000), [higher, again(2_000, 1), again(2_000, 2)]);
    assert_eq!(client.is_recorded("1/r1", 0, 3), NOTHING, "its client was told that nobody knows");
    assert_eq!(client.alone.waits(60_000), NOTHING);
}

/// The same value has two versions at most, and the later one stands.
#[test]
fn a_put_that_comes_too_late_is_put_anew() {
    let mut client = Client::new();
    client.begins();
    client.puts("oak", "x");
    client.commits();
    assert_eq!(client.is_late("2/r0", 0, 5_000, 6_000), NOTHING, "of another shard");
    assert_eq!(
        client.is_late("1/r0", 0, 5_000, 6_000),
        ["1/all ← PUT c1#1 oak=x at 6000c1"],
        "by that clock"
    );
    assert_eq!(client.is_late("1/r1", 0, 5_000, 6_000), NOTHING, "that one is gone");
    for from in ["1/r0", "1/r1"] {
        assert_eq!(client.is_recorded(from, 1, 0), NOTHING);
    }
    // It can become complete without this one.
    assert_eq!(
        client.is_late("1/r2", 1, 7_000, 8_000),
        ["c1.1 COMMITTED, not before 6000c1, without some replicas, 1 put anew"]
    );
    client.begins();
    assert_eq!(
        client.puts("oak", "y"),
        ["1/all ← PUT c1#2 oak=y at 6001c1"],
        "its clock is behind by as much"
    );
    // A clock that has leapt is followed half a minute above the refusal, and no further.
    let told = client.is_late("1/r0", 2, 10_000, 900_000_000);
    assert_eq!(told, ["1/all ← PUT c1#3 oak=y at 30010000c1"]);
    // A refusal above all clocks is passed.
    let told = client.is_late("1/r0", 3, 50_000_000, 1);
    assert_eq!(told, ["1/all ← PUT c1#4 oak=y at 50000001c1"]);
}

#[test]
fn puts_of_one_key_follow_each_other() {
    let mut client = Client::new();
    client.begins();
    assert_eq!(client.puts("oak", "1").len(), 1);
    assert_eq!(client.puts("oak", "2"), NOTHING);
    assert_eq!(client.puts("elm", "3"), ["1/all ← PUT c1#1 elm=3 at 1001c1"], "another key does not wait");
    assert_eq!(client.puts("oak", "4"), NOTHING);
    // A put that goes by does not overtake one that waits.
    assert_eq!(client.puts("apple", "5"), ["2/all ← PUT c1#2 apple=5 at 1002c1"]);
    assert_eq!(client.commits(), NOTHING);
    client.is_recorded("1/r0", 0, 0);
    client.is_recorded("1/r1", 0, 0);
    assert_eq!(of_all(client.is_recorded("1/r2", 0, 0)), ["1/all ← PUT c1#3 oak=2 at 1003c1"], "in order");
    for from in ["1/r0", "1/r1", "1/r2"] {
        assert_eq!(client.is_recorded(from, 1, 0), NOTHING);
    }
    for from in ["1/r0", "1/r1", "1/r2"] {
        assert_eq!(client.is_recorded(from, 2, 0), NOTHING, "of another shard");
    }
    for from in ["2/r0", "2/r1", "2/r2"] {
        assert_eq!(client.is_recorded(from, 2, 0), NOTHING);
    }
    client.is_recorded("1/r0", 3, 0);
    client.is_recorded("1/r1", 3, 0);
    assert_eq!(of_all(client.is_recorded("1/r2", 3, 0)), ["1/all ← PUT c1#4 oak=4 at 1004c1"]);
    client.is_recorded("1/r0", 4, 0);
    client.is_recorded("1/r1", 4, 0);
    assert_eq!(client.is_recorded("1/r2", 4, 0), ["c1.1 COMMITTED, not before 1000c1"]);
    // As the paper's client does it, each waits for the one before.
    let mut client = Client::with(|config| config.puts_in_turn = true);
    client.begins();
    assert_eq!(client.puts("oak", "1").len(), 1);
    assert_eq!(client.puts("elm", "2"), NOTHING);
    client.is_recorded("1/r0", 0, 0);
    client.is_recorded("1/r1", 0, 0);
    assert_eq!(of_all(client.is_recorded("1/r2", 0, 0)), ["1/all ← PUT c1#1 elm=2 at 1001c1"]);
    assert_eq!(client.puts("iris", "3"), NOTHING);
    assert_eq!(client.commits(), NOTHING);
    for from in ["1/r0", "1/r1"] {
        assert_eq!(client.is_recorded(from, 1, 0), NOTHING);
    }
    assert_eq!(
        of_all(client.is_recorded("1/r2", 1, 0)),
        ["1/all ← PUT c1#2 iris=3 at 1002c1"],
        "one is left"
    );
    for from in ["1/r0", "1/r1"] {
        assert_eq!(client.is_recorded(from, 2, 0), NOTHING);
    }
    assert_eq!(client.is_recorded("1/r2", 2, 0), ["c1.1 COMMITTED, not before 1000c1"]);
}

/// The time between two attempts doubles, up to eight times the first.
#[test]
fn a_put_that_nobody_records_is_sent_ever_more_seldom() {
    let mut client = Client::with(|config| config.abandon_after = Duration::from_secs(60));
    client.begins();
    client.puts("oak", "x");
    let sent = |told: Vec<String>| told.iter().filter(|line| line.contains("1/r1 ← PUT")).count();
    for (after, what) in
        [(1_000, "once"), (2_000, "twice"), (4_000, "four"), (8_000, "eight"), (8_000, "eight")]
    {
        assert_eq!(sent(client.alone.waits(after - 1)), 0, "{what}");
        assert_eq!(sent(client.alone.waits(1)), 1, "{what}");
    }
}

/// Surely nothing has happened only if all have refused the first and only put.
#[test]
fn a_clock_that_is_ahead_is_told_if_nothing_has_happened() {
    let ahead = |put| Message::ClockAhead { put: txn(1, put), ahead_micros: 70, ahead_max_micros: 60 };
    let mut client = Client::new();
    client.begins();
    client.puts("oak", "x");
    assert_eq!(client.hears("1/r0", ahead(0)), NOTHING);
    assert_eq!(client.hears("1/r0", ahead(0)), NOTHING, "the same again");
    assert_eq!(client.hears("2/r0", ahead(0)), NOTHING, "of another shard");
    assert_eq!(client.hears("1/r1", ahead(0)), NOTHING);
    let told = client.hears("1/r2", ahead(0));
    assert!(told.len() == 1 && told[0].starts_with("c1.1 INVALID"), "{told:?}");
    assert_eq!(client.alone.waits(60_000), NOTHING);
    let all = ["1/r0", "1/r1", "1/r2"];
    // Another one is on its way.
    let mut client = Client::new();
    client.begins();
    client.puts("oak", "x");
    client.puts("elm", "x");
    for from in all {
        assert_eq!(client.hears(from, ahead(0)), NOTHING, "{from}");
    }
    // Another one is complete.
    let mut client = Client::new();
    client.begins();
    client.puts("oak", "x");
    for from in all {
        client.is_recorded(from, 0, 0);
    }
    client.puts("elm", "x");
    for from in all {
        assert_eq!(client.hears(from, ahead(1)), NOTHING, "{from}");
    }
    // It was put before, and may have been recorded somewhere.
    let mut client = Client::new();
    client.begins();
    client.puts("oak", "x");
    client.is_late("1/r0", 0, 5_000, 6_000);
    for from in all {
        assert_eq!(client.hears(from, ahead(1)), NOTHING, "{from}");
    }
    // It does not go by the clock of the replica any more that it had followed.
    client.begins();
    assert_eq!(client.puts("elm", "y"), ["1/all ← PUT c1#2 elm=y at 6001c1"]);
    client.alone.clock = 9_000;
    assert_eq!(client.puts("iris", "y"), ["1/all ← PUT c1#3 iris=y at 9000c1"]);
}

#[test]
fn a_transaction_that_has_put_is_unknown_once_its_client_has_waited_long_enough() {
    let mut client = Client::with(|config| config.abandon_after = Duration::from_secs(4));
    client.begins();
    client.puts("oak", "x");
    client.puts("apple", "x");
    client.gets("elm");
    let shards = [ShardId(1), ShardId(2)];
    let told = client.alone.waits(5_000);
    assert_eq!(told.iter().filter(|line| line.contains("UNKNOWN")).count(), 1, "{told:?}");
    assert!(told.contains(&format!("5000 ms: c1.1 UNKNOWN: {shards:?}")), "{told:?}");
    // Its puts are sent for some time still, and nothing is read.
    let told = client.alone.waits(3_999);
    assert!(told.iter().all(|line| line.contains("PUT")) && !told.is_empty(), "{told:?}");
    assert_eq!(client.alone.waits(60_000), NOTHING, "then it is forgotten");
    assert_eq!(client.is_recorded("1/r0", 0, 0), NOTHING);
    // A put that is complete by then is no longer sent.
    let mut client = Client::new();
    client.begins();
    client.puts("oak", "x");
    for from in ["1/r0", "1/r1", "1/r2"] {
        client.is_recorded(from, 0, 0);
    }
    let told = client.alone.waits(5_000);
    assert_eq!(told, [format!("5000 ms: c1.1 UNKNOWN: {:?}", [ShardId(1)])], "it was not asked to commit");
    assert_eq!(client.alone.waits(60_000), NOTHING);
    // An abort takes nothing back, and sends nothing again.
    client.begins();
    client.puts("oak", "y");
    assert_eq!(client.does(Command::Abort { transaction: txn(1, 2) }), ["c1.2 ABORTED"]);
    assert_eq!(client.alone.waits(60_000), NOTHING);
}
