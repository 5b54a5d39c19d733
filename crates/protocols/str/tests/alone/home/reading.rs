//! Snapshots are taken and read, by a clock that is compared with those of leaders.

use super::*;

#[test]
fn a_node_begins_nothing_before_it_has_compared_its_clock() {
    let mut home = Home::uncompared(|_| {});
    let told = home.reads(1, 1, vec![key("oak")]);
    let early = ["✗ its node has compared its clock with none yet", "c1 ← c1.1 UNDER-WAY"];
    assert_eq!(told, early);
    assert_eq!(home.commits(1, 1, "oak=x"), early);
    let life = home.life;
    assert_eq!(home.hears("2/r0", Message::Time { life: Life(1), clock: at(9) }), ["✗ said in another life"]);
    assert_eq!(home.hears("2/r0", Message::Time { life, clock: at(1_500) }), NOTHING);
    let told = home.reads(1, 1, vec![key("oak")]);
    assert_eq!(told, ["1/r0 ← READ-AT @1001 oak, number 1"], "by its own clock, which is near");
}

#[test]
fn a_node_asks_for_the_time_until_one_leader_has_told_it() {
    let mut home = Home::uncompared(|_| {});
    assert_eq!(home.alone.waits(999), NOTHING);
    let told = home.alone.waits(1);
    assert_eq!(told, ["1 ms: 1/r1 ← ASK-TIME", "1 ms: 2/r1 ← ASK-TIME"], "the first ones are silent");
    let named = |leader| Message::NotLeading { transaction: None, leader: ReplicaIndex(leader) };
    assert_eq!(home.hears("1/r0", named(2)), ["✗ this is known"], "it was not asked now");
    assert_eq!(home.hears("1/r1", named(2)), ["1/r2 ← ASK-TIME"]);
    assert_eq!(home.hears("1/r2", named(1)), NOTHING, "a name is followed once");
    assert_eq!(home.alone.waits(100), ["100 ms: 1/r1 ← ASK-TIME"], "the latest name, a moment later");
    let life = home.life;
    home.hears("2/r1", Message::Time { life, clock: at(1_001_000) });
    assert_eq!(home.alone.waits(9_900), NOTHING, "one is enough");
    // One that is far from the clock of the node is asked for anew: either of the two is wrong.
    home.hears("2/r1", Message::Time { life, clock: at(9_001_000) });
    assert_eq!(home.alone.waits(500), NOTHING, "by as much as a grant lasts");
    home.hears("2/r1", Message::Time { life, clock: at(19_000_000) });
    assert_eq!(home.alone.waits(500), ["500 ms: 2/r1 ← ASK-TIME"]);
    assert_eq!(home.alone.waits(500), NOTHING);
    assert_eq!(home.alone.waits(500), ["500 ms: 2/r2 ← ASK-TIME"]);
}

/// A clock that is wrong does not keep the node from reading.
#[test]
fn the_time_of_a_node_is_near_those_that_leaders_tell() {
    for (told, snapshot) in [(1_000, 5_001), (9_000_000, 6_500_001), (3_900_000, 1_400_001), (1, 5_001)] {
        let mut home = Home::uncompared(|_| {});
        let life = home.life;
        home.alone.clock = 5_000;
        home.hears("2/r0", Message::Time { life, clock: at(told) });
        let told = home.reads(1, 1, vec![key("oak")]);
        assert_eq!(told, [format!("1/r0 ← READ-AT @{snapshot} oak, number 1")]);
    }
    // A clock that is far ahead is followed for half a grant.
    let mut home = Home::new();
    home.alone.clock = 900_000_000;
    let told = home.reads(1, 1, vec![key("oak")]);
    assert_eq!(told, ["1/r0 ← READ-AT @1001001 oak, number 1"]);
}

#[test]
fn the_first_read_takes_the_snapshot_and_a_replica_answers_it() {
    let mut home = Home::new();
    assert_eq!(home.reads(1, 1, vec![]), ["✗ no coordinator sends this"]);
    assert_eq!(
        home.reads(1, 1, vec![key("oak"); TRANSACTION_ENTRIES_MAX + 1]),
        ["✗ no coordinator sends this"]
    );
    let told = home.reads(1, 1, vec![key("oak"), key("apple"), key("elm")]);
    assert_eq!(told, ["1/r0 ← READ-AT @1001 oak elm, number 1", "2/r0 ← READ-AT @1001 apple, number 2"]);
    assert_eq!(
        home.reads(1, 1, vec![key("oak")]),
        ["c1 ← c1.1 UNDER-WAY"],
        "the client hears that the node lives"
    );
    let open = ["✗ nothing waits under this name"];
    assert_eq!(home.is_told("2/r0", 1, vec![version("oak", "x", 5), version("elm", "", 0)]), open);
    assert_eq!(home.is_told("1/r0", 1, vec![version("oak", "x", 5)]), open, "two were asked for");
    assert_eq!(home.is_told("1/r0", 3, vec![version("oak", "x", 5)]), open);
    let found = vec![version("oak", "x", 5), version("elm", "", 0)];
    assert_eq!(home.is_told("1/r0", 1, found.clone()), NOTHING);
    assert_eq!(home.is_told("1/r0", 1, found), open, "once");
    let told = home.is_told("2/r1", 2, vec![version("apple", "y", 7)]);
    assert_eq!(told, ["c1 ← c1.1 reads oak=x@5 apple=y@7 elm=nothing in @1001"]);
    let late = Message::ReadAtReply { life: Life(1), request: 2, found: vec![], floor: at(0) };
    assert_eq!(home.hears("2/r0", late), ["✗ said in another life"]);
    let foreign = Message::Read {
        transaction: txn(1, 1),
        session: Session::default(),
        snapshot: None,
        request: 2,
        wanted: vec![key("oak")],
    };
    assert_eq!(home.hears("c2", foreign), ["✗ asked in the name of another client"]);
    assert_eq!(home.alone.machine.load(None), 0, "it does not commit");
}

/// Snapshots of a node only go forward, and a session is in order.
#[test]
fn a_snapshot_is_above_what_its_session_and_its_node_have_seen() {
    let mut home = Home::new();
    let told = home.reads_after(1, 1, seen(4_000), vec![key("oak")]);
    assert_eq!(told, ["1/r0 ← READ-AT @4001 oak, number 1"]);
    home.is_told("1/r0", 1, vec![version("oak", "", 0)]);
    let told = home.commits(1, 1, "");
    let over = ["c1 ← c1.1 SHOWN @4001, 1 in its chain", "c1 ← c1.1 committed @4001, snapshot @4001"];
    assert_eq!(told, over, "what has only read is over");
    let told = home.reads(2, 1, vec![key("oak")]);
    assert_eq!(told, ["1/r0 ← READ-AT @4002 oak, number 2"], "above that of what has only read");
    home.commits_locally(3, 1, "elm=x", 7_000);
    let told = home.reads(4, 1, vec![key("oak")]);
    assert_eq!(told, ["1/r0 ← READ-AT @7001 oak, number 3"]);
    // A local commit that has aborted does not count any more.
    let refusal = Message::Refused { transaction: txn(3, 1), refusal: Refusal::Conflict };
    home.hears("1/r0", refusal);
    let told = home.reads(5, 1, vec![key("oak")]);
    assert_eq!(told, ["1/r0 ← READ-AT @4002 oak, number 4"]);
}

/// Nothing on a node comes to lie so far ahead.
#[test]
fn a_session_that_has_seen_the_future_waits_or_is_refused() {
    let mut home = Home::with(|config| config.ahead_max = Duration::from_secs(10));
    let near = seen(2_001_000);
    assert_eq!(home.reads_after(1, 1, near, vec![key("oak")]).len(), 1, "a grant reaches so far");
    let early = ["✗ its session is ahead of clocks", "c2 ← c2.1 UNDER-WAY"];
    assert_eq!(home.reads_after(2, 1, seen(9_000_000), vec![key("oak")]), early);
    let ahead = ["✗ its session is ahead of clocks", "c4 ← c4.1 UNDER-WAY"];
    assert_eq!(home.reads_after(4, 1, seen(2_001_002), vec![key("oak")]), ahead);
    let told = home.reads_after(3, 1, seen(10_001_001), vec![key("oak")]);
    assert_eq!(told.last().unwrap(), "c3 ← c3.1 DOOMED: ahead of @1000", "{told:?}");
    assert_eq!(only(told, "ASK-TIME").len(), 2, "a leader's clock may have been wrong");
    home.alone.waits(1_999);
    assert_eq!(home.reads_after(2, 1, seen(9_000_000), vec![key("oak")]), early);
    home.alone.waits(1);
    let told = home.reads_after(2, 1, seen(9_000_000), vec![key("oak")]);
    assert_eq!(told, ["1/r0 ← READ-AT @9000001 oak, number 2"], "no longer than a grant lasts");
}

#[test]
fn a_silent_replica_is_left_for_the_next_one() {
    let mut home = Home::new();
    home.reads(1, 1, vec![key("oak"), key("apple")]);
    let asked = |told| only(told, "READ-AT");
    assert_eq!(asked(home.alone.waits(999)), NOTHING);
    let second = |index: u8| format!("2/r{index} ← READ-AT @1001 apple, number 2");
    let first = |index: u8| format!("1/r{index} ← READ-AT @1001 oak, number 1");
    let told = asked(home.alone.waits(1));
    assert_eq!(
        told,
        [format!("1 ms: {}", first(0)), format!("1 ms: {}", second(1))],
        "that of the node once more"
    );
    let told = asked(home.alone.waits(1_000));
    assert_eq!(told, [format!("1000 ms: {}", first(2)), format!("1000 ms: {}", second(2))]);
    home.is_told("1/r2", 1, vec![version("oak", "", 0)]);
    let told = asked(home.alone.waits(1_000));
    assert_eq!(told, [format!("1000 ms: {}", second(0))]);
    // The replica on its node has begun another life: it may have forgotten the question.
    home.reads(2, 1, vec![key("elm")]);
    let told = home.hears("1/r0", Message::Hello { life: Life(6), wants: false });
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("READ-AT @") && told[0].ends_with("elm, number 3"), "{told:?}");
}

#[test]
fn a_replica_that_cannot_read_a_snapshot_dooms_its_transaction() {
    let cannot = |home: &Home, request, why| Message::CannotRead { life: home.life, request, why };
    let mut home = Home::new();
    home.reads(1, 1, vec![key("oak")]);
    let message = cannot(&home, 1, Unreadable::TooOld(at(5_000_000)));
    assert_eq!(home.hears("2/r0", message.clone()), ["✗ nothing waits under this name"]);
    assert_eq!(home.hears("1/r0", message.clone()), ["c1 ← c1.1 DOOMED: older than @5000000"]);
    assert_eq!(home.hears("1/r0", message), ["✗ nothing waits under this name"]);
    // It has told what time it is there.
    let told = home.reads(1, 2, vec![key("oak")]);
    assert_eq!(told, ["1/r0 ← READ-AT @12500001 oak, number 2"]);
    let message = cannot(&home, 2, Unreadable::Ahead(at(2_000)));
    assert_eq!(home.hears("1/r0", message), ["c1 ← c1.2 DOOMED: ahead of @2000"]);
    home.alone.clock = 1_000;
    assert_eq!(home.reads(1, 3, vec![key("oak")]), ["1/r0 ← READ-AT @1001 oak, number 3"]);
    assert_eq!(
        home.reads(1, 1, vec![key("oak")]),
        ["c1 ← c1.1 DOOMED: older than @5000000"],
        "it is remembered"
    );
    // Where leaders alone serve, the one is asked that it names; once.
    let mut home = Home::with(|config| config.grants = Grants::Leader);
    assert_eq!(home.reads(1, 1, vec![key("apple")]), ["2/r0 ← READ-AT @1001 apple, number 1"]);
    let message = cannot(&home, 1, Unreadable::NotLeading(ReplicaIndex(2)));
    assert_eq!(home.hears("2/r0", message), ["2/r2 ← READ-AT @1001 apple, number 1"]);
    let message = cannot(&home, 1, Unreadable::NotLeading(ReplicaIndex(2)));
    assert_eq!(home.hears("2/r2", message), NOTHING, "it is about to lead");
    assert_eq!(home.alone.waits(100), ["100 ms: 2/r2 ← READ-AT @1001 apple, number 1"]);
}

#[test]
fn a_range_is_read_of_all_shards_and_of_what_the_node_has() {
    let mut home = Home::new();
    home.commits_locally(1, 1, "elm=e oak=o", 2_000);
    let told = home.reads(2, 1, vec![range("a", "z", 3)]);
    assert_eq!(
        told,
        ["1/r0 ← READ-AT @2001 3 of a..z, number 1", "2/r0 ← READ-AT @2001 3 of a..z, number 2"]
    );
    let page = |words: &[(&str, u64)], next: Option<&str>| {
        let version = |(key, micros): &(&str, u64)| KeyVersion {
            key: Key::from(*key),
            version: Timestamp { micros: *micros, client: ClientId(9) },
            value: Some(Value::from("v")),
        };
        Found::Range { keys: words.iter().map(version).collect(), next: next.map(Key::from) }
    };
    home.is_told("1/r0", 1, vec![page(&[("iris", 5), ("oak", 5)], None)]);
    let told = home.is_told("2/r0", 2, vec![page(&[("apple", 5), ("fig", 5), ("pear", 5)], Some("q"))]);
    assert_eq!(
        told,
        ["c2 ← c2.1 reads [apple=v@5 elm=e@2000 fig=v@5 … iris] in @2001"],
        "no more than are wanted"
    );
    let told = home.reads(3, 1, vec![range("a", "z", 9)]);
    assert_eq!(told.len(), 2);
    home.is_told("1/r0", 3, vec![page(&[("iris", 5)], Some("moss"))]);
    let told = home.is_told("2/r0", 4, vec![page(&[("apple", 5), ("fig", 5)], Some("lime"))]);
    assert_eq!(
        told,
        ["c3 ← c3.1 reads [apple=v@5 elm=e@2000 fig=v@5 iris=v@5 … lime] in @2001"],
        "as far as both cover"
    );
}

#[test]
fn an_empty_range_has_nothing_of_the_node() {
    let mut home = Home::new();
    home.commits_locally(1, 1, "elm=e", 2_000);
    let told = home.reads(2, 1, vec![range("z", "a", 3)]);
    assert_eq!(told.len(), 2, "as any other: {told:?}");
    let nothing = || vec![Found::Range { keys: Vec::new(), next: None }];
    assert_eq!(home.is_told("1/r0", 1, nothing()), NOTHING);
    assert_eq!(home.is_told("2/r0", 2, nothing()), ["c2 ← c2.1 reads [] in @2001"]);
}

/// Section 6.2: an unsafe local commit may conflict with what became final above its snapshot.
#[test]
fn a_reader_of_an_unsafe_local_commit_waits_with_what_is_final_above_that() {
    let mut home = Home::new();
    // It has written to a shard that has no replica here, so it is unsafe from its snapshot on.
    home.commits_locally(1, 1, "apple=a oak=x", 2_000);
    home.reads(2, 1, vec![key("oak")]);
    home.is_told("1/r0", 1, vec![version("oak", "", 0)]);
    let again = |request, word: &str| Message::Read {
        transaction: txn(2, 1),
        session: Session::default(),
        snapshot: Some(at(2_001)),
        request,
        wanted: vec![key(word)],
    };
    home.hears("c2", again(2, "elm"));
    let told = home.is_told("1/r0", 2, vec![version("elm", "e", 1_001)]);
    assert_eq!(told, ["c2 ← c2.1 reads elm=e@1001 in @2001"], "no later than its snapshot");
    home.hears("c2", again(3, "iris"));
    assert_eq!(home.is_told("1/r0", 3, vec![version("iris", "i", 1_002)]), NOTHING, "it waits");
    assert_eq!(home.alone.machine.counts().unwrap().mixed, 1);
    home.is_prepared("1/r0", 1, 1, 2_000, vec![]);
    home.is_prepared("2/r0", 1, 1, 2_000, vec![]);
    let told = home.is_recorded(1, 1, 2_000);
    assert!(told.contains(&"c2 ← c2.1 reads iris=i@1002 in @2001".to_owned()), "{told:?}");
}

#[test]
fn a_reader_waits_for_what_is_being_certified_in_its_snapshot() {
    let mut home = Home::new();
    home.commits(1, 1, "oak=x");
    home.reads_after(2, 1, seen(3_000), vec![key("oak")]);
    assert_eq!(home.is_told("1/r0", 1, vec![version("oak", "", 0)]), NOTHING);
    let told = home.is_voted_here(1, 1, 2_000);
    let expected = ["c1 ← c1.1 SHOWN @3002, 1 in its chain", "c2 ← c2.1 reads oak=nothing in @3001"];
    assert_eq!(told, expected, "it commits above who has read the key");
    // Without speculation it waits until that is final.
    let mut home =
        Home::with(|config| config.variant = Variant { reads_speculatively: false, ..Variant::EXTERNAL });
    home.commits_locally(1, 1, "oak=x", 2_000);
    home.reads(2, 1, vec![key("oak")]);
    assert_eq!(home.is_told("1/r0", 1, vec![version("oak", "", 0)]), NOTHING);
    home.is_prepared("1/r0", 1, 1, 2_001, vec![]);
    let told = home.is_recorded(1, 1, 2_001);
    assert_eq!(told.last().unwrap(), "c2 ← c2.1 reads oak=x@2001 in @2001", "{told:?}");
    let counts = home.alone.machine.counts().unwrap();
    assert_eq!(counts.speculative_reads, 0);
}

/// It was local-committed before the transaction began, and became final above its snapshot: the transaction has missed it.
#[test]
fn a_local_commit_that_was_missed_aborts_its_reader() {
    let mut home = Home::new();
    home.commits_locally(1, 1, "oak=x", 2_000);
    home.reads(2, 1, vec![key("elm")]);
    home.is_told("1/r0", 1, vec![version("elm", "", 0)]);
    home.is_prepared("1/r0", 1, 1, 5_000, vec![]);
    home.is_recorded(1, 1, 5_000);
    let read = Message::Read {
        transaction: txn(2, 1),
        session: Session::default(),
        snapshot: Some(at(2_001)),
        request: 2,
        wanted: vec![key("oak")],
    };
    assert_eq!(home.hears("c2", read), ["1/r0 ← READ-AT @2001 oak, number 2"]);
    let told = home.is_told("1/r0", 2, vec![version("oak", "", 0)]);
    assert_eq!(told, ["c2 ← c2.1 DOOMED: what it depends on has failed it"]);
}

/// The versions of a final transaction stay for as long as one is open that was open then.
#[test]
fn a_commit_that_was_missed_is_remembered_until_the_oldest_reader_has_ended() {
    let mut home = Home::new();
    home.commits_locally(1, 1, "oak=x", 2_000);
    home.reads(2, 1, vec![key("elm")]);
    home.is_told("1/r0", 1, vec![version("elm", "", 0)]);
    home.is_prepared("1/r0", 1, 1, 5_000, vec![]);
    home.is_recorded(1, 1, 5_000);
    // Later ones begin and end.
    home.reads(3, 1, vec![key("elm")]);
    home.commits(4, 1, "iris=i");
    home.is_voted_here(4, 1, 6_000);
    home.is_prepared("1/r0", 4, 1, 6_000, vec![]);
    home.is_recorded(4, 1, 6_000);
    let read = |client, snapshot, request| Message::Read {
        transaction: txn(client, 1),
        session: Session::default(),
        snapshot: Some(at(snapshot)),
        request,
        wanted: vec![key("oak")],
    };
    home.hears("c2", read(2, 2_001, 2));
    let told = home.is_told("1/r0", 3, vec![version("oak", "", 0)]);
    assert_eq!(told, ["c2 ← c2.1 DOOMED: what it depends on has failed it"]);
}

/// The readers that a decision tells the shards of are counted by then.
#[test]
fn a_reader_of_what_is_being_decided_elsewhere_waits_until_that_is_final() {
    let mut home = Home::new();
    home.commits(1, 1, "apple=a");
    home.is_prepared("2/r0", 1, 1, 1_500, vec![]);
    assert_eq!(home.reads_after(2, 1, seen(3_000), vec![key("apple")]), NOTHING);
    let told = home.is_recorded(1, 1, 1_500);
    assert_eq!(
        told.last().unwrap(),
        "2/r0 ← READ-AT @3001 apple, number 1",
        "others may have overwritten it: {told:?}"
    );
    let told = home.is_told("2/r0", 1, vec![version("apple", "b", 2_000)]);
    assert_eq!(told, ["c2 ← c2.1 reads apple=b@2000 in @3001"]);
}

/// Another transaction may begin under the same name, once its ending is forgotten, by a copy of a message that comes late; and want less.
#[test]
fn a_question_of_a_transaction_that_is_over_is_not_asked_again() {
    let mut home = Home::with(|config| config.floor_lag = Duration::from_secs(2));
    home.reads(1, 1, vec![key("oak"), key("elm")]);
    home.hears("c1", Message::Abort { transaction: txn(1, 1) });
    assert_eq!(only(home.alone.waits(7_000), "READ-AT"), NOTHING);
    let told = home.reads(1, 1, vec![key("oak")]);
    assert_eq!(only(told, "READ-AT").len(), 1, "it has begun anew");
    let told = only(home.alone.waits(1_000), "READ-AT");
    assert!(told.len() == 1 && told[0].ends_with("oak, number 2"), "{told:?}");
    assert_eq!(
        home.is_told("1/r0", 1, vec![version("oak", "", 0), version("elm", "", 0)]),
        ["✗ nothing waits under this name"]
    );
    let cannot = Message::CannotRead { life: home.life, request: 1, why: Unreadable::TooOld(at(5)) };
    assert_eq!(home.hears("1/r0", cannot), ["✗ nothing waits under this name"]);
}

/// A reader of the cache whose key has no replica on the node is told to the key's shard with the decision.
#[test]
fn readers_at_the_node_alone_go_along_with_the_decision() {
    let mut home = Home::new();
    home.commits(1, 1, "apple=a");
    let told = home.reads_after(2, 1, seen(3_000), vec![key("apple")]);
    assert_eq!(told, ["c2 ← c2.1 reads apple=a@1002 in @3001"], "nobody else is asked");
    let told = home.is_prepared("2/r0", 1, 1, 1_500, vec![]);
    assert_eq!(told, ["3/r1 ← RECORD c1.1 committed @1500"]);
    let told = home.is_recorded(1, 1, 1_500);
    assert_eq!(only(told, "DECIDE"), ["2/r0 ← DECIDE c1.1 committed @1500, apple read @3001"]);
}
