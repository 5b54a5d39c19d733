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

/// What f + 1 have recorded by the time is not sent again; and who was not heard of is not expected to answer.
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
