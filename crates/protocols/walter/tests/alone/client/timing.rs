//! How long a client waits, and of how much it keeps a memory.

use super::*;

fn resolve(sequence: u64) -> Command {
    Command::Resolve {
        transaction: txn(1, sequence),
        participants: vec![ShardId(1)],
        timestamp: Timestamp::ZERO,
        patience: PATIENCE,
    }
}

#[test]
fn a_transaction_ends_with_the_patience_of_its_client() {
    let mut client = Client::new();
    client.begins();
    assert_eq!(client.alone.waits(9_999), NOTHING, "nothing is asked");
    let told = client.alone.waits(1);
    assert_eq!(told.len(), 1);
    assert!(told[0].starts_with("1 ms: c1.1 Unavailable") && told[0].contains("1/r0"), "{told:?}");
    assert_eq!(client.commits(), [told_not_open(1)]);
    // However late a read is asked for, the patience is that of the transaction.
    client.begins();
    client.alone.waits(9_800);
    client.gets(&["oak"]);
    let told = client.alone.waits(200);
    assert!(told.len() == 1 && told[0].starts_with("200 ms: c1.2 Unavailable"), "{told:?}");
    client.begins();
    client.puts("oak", "x");
    client.alone.waits(9_800);
    client.commits();
    assert_eq!(client.alone.waits(200), ["200 ms: c1.3 UNKNOWN"]);
    // An answer of another site is waited for as long.
    client.begins();
    client.gets(&["pear"]);
    let elsewhere = Found::Elsewhere { sites: vec![LocalSite(2)], own: vec![] };
    client.is_told(1, &[3], vec![elsewhere]);
    let told = client.alone.waits(60_000);
    let last = told.last().unwrap();
    assert!(
        last.starts_with("10000 ms: c1.4 Unavailable") && last.contains("3/r"),
        "that one is missing: {told:?}"
    );
    assert!(client.alone.machine.is_idle());
}

/// A read is asked for again half a second after it was sent, however many there are.
#[test]
fn each_read_is_asked_for_again_in_its_time() {
    let mut client = Client::new();
    client.begins();
    client.gets(&["oak"]);
    client.alone.waits(100);
    client.is_told(1, &[3], vec![absent()]);
    client.gets(&["elm"]);
    client.alone.waits(300);
    client.gets(&["iris"]);
    assert_eq!(client.alone.waits(199), NOTHING);
    let read = |key: &str| format!("1 ms: 1/r1 ← READ c1.1 {key} at ⟨3⟩");
    assert_eq!(client.alone.waits(1), [read("elm"), read("iris")], "the oldest is half a second old");
    assert_eq!(client.alone.waits(499), NOTHING);
    assert_eq!(client.alone.waits(1).len(), 2);
    assert_eq!(client.is_told_by("1/r2", 2, &[3], vec![absent()]), ["c1.1 got elm = nothing"]);
    assert_eq!(client.is_told_by("1/r2", 3, &[3], vec![absent()]), ["c1.1 got iris = nothing"]);
    assert_eq!(client.gets(&["sage"]), ["1/r2 ← READ c1.1 sage at ⟨3⟩"], "that one leads");
}

/// A site cannot tell those that it was never asked about from those that it has forgotten.
#[test]
fn a_client_remembers_how_the_latest_transactions_ended_of_which_no_site_knows() {
    let mut client = Client::new();
    for _ in 0..9_999 {
        client.begins();
        client.commits();
    }
    client.begins();
    client.does(Command::Abort { transaction: client.id() });
    assert_eq!(client.does(resolve(1)), ["c1.1 resolved: committed as 0@0"]);
    assert_eq!(client.does(resolve(10_000)), ["c1.10000 resolved: aborted"]);
    client.begins();
    client.commits();
    let asked = client.does(resolve(1));
    assert_eq!(asked, ["1/r0 ← ASK-OUTCOME c1.1, period 0, 0 committed"], "the oldest is forgotten");
    assert_eq!(client.does(resolve(2)), ["c1.2 resolved: committed as 0@0"]);
    assert_eq!(client.does(resolve(10_001)), ["c1.10001 resolved: committed as 0@0"]);
}

#[test]
fn a_client_remembers_of_so_many_unknown_outcomes_with_which_period_they_were_sent() {
    let mut client = Client::new();
    client.begins();
    client.gets(&["oak"]);
    client.is_told(1, &[3], vec![absent()]);
    let begin = |client: &mut Client| {
        client.sequence += 1;
        let transaction = client.id();
        client.does(Command::Begin { transaction, keyspace: KEYSPACE, patience: Duration::from_millis(400) });
        client.puts("oak", "x");
        client.commits();
    };
    for _ in 0..10_001 {
        begin(&mut client);
    }
    let told = client.alone.waits(400);
    assert_eq!(only(told, "UNKNOWN").len(), 10_001);
    let asked = |client: &mut Client, sequence| client.does(resolve(sequence)).remove(0);
    let known = (2..=10_002).filter(|sequence| asked(&mut client, *sequence).contains("period 1")).count();
    assert_eq!(known, 10_000, "of the others it knows no period");
}

/// Only its own site counts its periods, and they do not go back.
#[test]
fn a_period_is_that_of_the_site_at_which_the_client_is() {
    let mut client = Client::new();
    let begins_with = |client: &mut Client| {
        client.begins();
        client.puts("oak", "x");
        let told = client.commits();
        told[0].rsplit(' ').next().unwrap().to_owned()
    };
    let told = |client: &mut Client, from: &str, sequence, period| {
        let message = Message::TooOld {
            transaction: txn(1, sequence),
            refused: None,
            committed: v(&[]),
            period: Period(period),
        };
        client.hears(from, message)
    };
    assert_eq!(begins_with(&mut client), "0");
    told(&mut client, "1/r0", 1, 4);
    assert_eq!(begins_with(&mut client), "4");
    told(&mut client, "1/r0", 2, 3);
    assert_eq!(begins_with(&mut client), "4", "an answer that comes late");
    told(&mut client, "2/r0", 3, 9);
    assert_eq!(begins_with(&mut client), "4", "of another site");
    told(&mut client, "1/r0", 99, 9);
    assert_eq!(begins_with(&mut client), "4", "of no transaction of this client");
    told(&mut client, "1/r0", 4, 5);
    assert_eq!(begins_with(&mut client), "5");
    client.does(Command::Route(routes(&[1, 0, 2])));
    assert_eq!(begins_with(&mut client), "0", "it has turned to the second site");
    told(&mut client, "1/r0", 5, 7);
    assert_eq!(begins_with(&mut client), "0", "of the site at which it was");
    told(&mut client, "2/r0", 7, 3);
    assert_eq!(begins_with(&mut client), "3");
}

/// The state that it has seen names the first group of its keyspace, so that another client can tell the keyspaces apart.
#[test]
fn a_client_says_of_each_keyspace_what_it_has_seen() {
    let mut client = Client::new();
    let other = routes_of(keyspace(KeyspaceId(2), 4, Epoch::FIRST), &[0, 1, 2]);
    client.does(Command::Route(other));
    assert_eq!(client.alone.machine.seen(), quorate_core::seen::Seen::default(), "nothing yet");
    client.begins();
    client.gets(&["oak"]);
    client.is_told(1, &[3, 0, 1], vec![absent()]);
    let seen = client.alone.machine.seen();
    let part = SeenPart { first: ShardId(1), numbers: vec![3, 0, 1] };
    assert_eq!((seen.part(KEYSPACE), seen.part(KeyspaceId(2))), (Some(&part), None));
    assert!(!client.alone.machine.is_idle());
    client.commits();
    assert!(client.alone.machine.is_idle());
}

/// The longer patience of one that asks twice counts, and both milestones are told apart.
#[test]
fn a_milestone_is_waited_for_as_long_as_the_client_says() {
    let mut client = Client::new();
    let wait = |patience, milestone| Command::Await {
        transaction: txn(1, 1),
        participants: vec![ShardId(1)],
        timestamp: Timestamp { micros: 4, client: ClientId(3) },
        milestone,
        patience: Duration::from_millis(patience),
    };
    let asked = client.does(wait(700, Milestone::Durable));
    assert_eq!(asked, ["3/r0 ← ASK-MILESTONE c1.1 s2.4 durable"], "at the site where it has committed");
    client.alone.waits(100);
    client.does(wait(300, Milestone::Durable));
    client.does(wait(300, Milestone::Visible));
    let told = client.alone.waits(600);
    let expected = [
        "300 ms: c1.1 is NOT visible IN TIME, missing shard3",
        "500 ms: 3/r1 ← ASK-MILESTONE c1.1 s2.4 durable",
        "600 ms: c1.1 is NOT durable IN TIME, missing shard3",
    ];
    assert_eq!(told, expected);
    client.does(wait(300, Milestone::Durable));
    client.does(wait(900, Milestone::Durable));
    let told = only(client.alone.waits(2_000), "NOT");
    assert_eq!(told, ["900 ms: c1.1 is NOT durable IN TIME, missing shard3"]);
}

fn elsewhere(sites: &[u16]) -> Found {
    Found::Elsewhere { sites: sites.iter().copied().map(LocalSite).collect(), own: vec![] }
}

fn copy(at: &str, key: &str) -> String {
    format!("{at} ← READ-COPY c1.1 {key} at ⟨3⟩ for s0")
}

#[test]
fn each_question_to_another_site_has_its_own_time() {
    let mut client = Client::new();
    client.begins();
    client.gets(&["pear"]);
    assert_eq!(client.is_told(1, &[3], vec![elsewhere(&[1])]), [copy("2/r0", "pear")]);
    client.alone.waits(200);
    client.gets(&["plum"]);
    assert_eq!(
        client.is_told(3, &[3], vec![elsewhere(&[2])]),
        [copy("3/r0", "plum")],
        "and the first no more"
    );
    assert_eq!(client.alone.waits(299), NOTHING);
    assert_eq!(client.alone.waits(1), [format!("1 ms: {}", copy("2/r1", "pear"))]);
    assert_eq!(client.alone.waits(199), NOTHING);
    assert_eq!(client.alone.waits(1), [format!("1 ms: {}", copy("3/r1", "plum"))]);
    // Its own site is asked beside that.
    client.gets(&["oak"]);
    assert_eq!(client.alone.waits(299), NOTHING);
    assert_eq!(client.alone.waits(1), [format!("1 ms: {}", copy("2/r2", "pear"))]);
    let mut told = client.alone.waits(200);
    told.sort_unstable();
    let expected =
        ["200 ms: 1/r1 ← READ c1.1 oak at ⟨3⟩".to_owned(), format!("200 ms: {}", copy("3/r2", "plum"))];
    assert_eq!(told, expected);
    let unreachable = Command::Reachable { replica: replica("2/r2"), reachable: false };
    assert_eq!(client.does(unreachable), NOTHING);
    let told = client.alone.waits(0);
    assert_eq!(told, [format!("0 ms: {}", copy("2/r0", "pear"))], "no answer can come from there");
}

#[test]
fn all_questions_to_a_replica_that_is_gone_or_silent_go_to_the_next_one() {
    let asks_twice = || {
        let mut client = Client::new();
        client.begins();
        client.gets(&["pear"]);
        assert_eq!(client.is_told(1, &[3], vec![elsewhere(&[1])]), [copy("2/r0", "pear")]);
        client
    };
    let mut client = asks_twice();
    client.alone.waits(200);
    client.gets(&["plum"]);
    assert_eq!(client.is_told(3, &[3], vec![elsewhere(&[1])]), [copy("2/r0", "plum")]);
    let unreachable = Command::Reachable { replica: replica("2/r0"), reachable: false };
    assert_eq!(client.does(unreachable), NOTHING);
    let both = ["pear", "plum"].map(|key| format!("0 ms: {}", copy("2/r1", key)));
    assert_eq!(client.alone.waits(0), both, "no answer can come from there");
    let mut client = asks_twice();
    client.gets(&["plum"]);
    assert_eq!(client.is_told(3, &[3], vec![elsewhere(&[1, 2])]), [copy("2/r0", "plum")]);
    let expected = [copy("2/r1", "pear"), copy("3/r0", "plum")].map(|copy| format!("500 ms: {copy}"));
    assert_eq!(client.alone.waits(500), expected, "none is passed over");
}

/// It has answered for others as well, so it knows what it says.
#[test]
fn a_site_that_is_asked_for_a_copy_may_say_that_the_snapshot_is_no_good() {
    let asked = || {
        let mut client = Client::new();
        client.begins();
        client.gets(&["pear"]);
        client.is_told(1, &[3, 4], vec![elsewhere(&[1])]);
        client
    };
    let transaction = txn(1, 1);
    let too_old = || Message::TooOld { transaction, refused: None, committed: v(&[9]), period: Period(8) };
    let mut client = asked();
    assert_eq!(client.hears("3/r0", too_old()), ["✗ nothing waits under this name"], "it was not asked");
    assert_eq!(client.hears("2/r0", too_old()), ["c1.1 TOO OLD"]);
    client.begins();
    client.puts("oak", "x");
    assert!(client.commits()[0].ends_with("period 1"), "that was another site's period");
    let mut client = asked();
    let last = version(1, 2);
    let never = || Message::NeverCommitted { transaction, last };
    assert_eq!(client.hears("3/r0", never()), ["✗ nothing waits under this name"]);
    assert_eq!(client.hears("2/r0", never()), ["c1.1 has SEEN what s1 never had"]);
    assert_eq!(client.seen(), [3, 2]);
    let mut client = asked();
    assert_eq!(client.hears("2/r2", Message::Abandoned { transaction, last }), ["c1.1 HISTORY ABANDONED"]);
    assert_eq!(client.seen(), [3, 2]);
}

/// One read takes the snapshot, however often it has to be asked for.
#[test]
fn one_read_at_a_time_is_asked_for_as_long_as_there_is_no_snapshot() {
    let mut client = Client::new();
    client.begins();
    assert_eq!(client.gets(&["oak"]).len(), 1);
    assert_eq!(client.gets(&["elm"]), NOTHING);
    assert_eq!(client.gets(&["iris"]), NOTHING);
    assert_eq!(client.alone.waits(1_000).len(), 2, "one each time");
    assert_eq!(client.is_redirected("1/r2", 0), ["1/r0 ← READ c1.1 oak after ⟨⟩"]);
    let told = client.is_told_by("1/r0", 1, &[3], vec![absent()]);
    assert_eq!(told.len(), 3, "the others at once: {told:?}");
}

/// Which replica leads is heard of once, and counts for all that was asked of the one before.
#[test]
fn every_transaction_follows_when_the_leader_changes() {
    let mut client = Client::new();
    for _ in 0..2 {
        client.begins();
        client.gets(&["oak"]);
    }
    let read = |index: u8, sequence: u64| format!("1/r{index} ← READ c1.{sequence} oak after ⟨⟩");
    let named = |sequence, leader| Message::NotLeading {
        transaction: Some(txn(1, sequence)),
        leader: ReplicaIndex(leader),
    };
    assert_eq!(client.hears("1/r0", named(1, 2)), [read(2, 1)]);
    assert_eq!(client.hears("1/r0", named(2, 2)), [read(2, 2)], "that is no news, and it is lost as well");
    assert_eq!(client.hears("1/r0", named(2, 2)), ["✗ known already"], "that one is not asked any more");
    // Two replicas that name each other are asked a few times, and then have a moment.
    assert_eq!(client.hears("1/r2", named(1, 1)), [read(1, 1)]);
    assert_eq!(client.hears("1/r1", named(1, 2)), [read(2, 1)]);
    assert_eq!(client.hears("1/r2", named(1, 1)), NOTHING);
    assert_eq!(client.alone.waits(49), NOTHING);
    assert_eq!(client.alone.waits(1), [format!("1 ms: {}", read(1, 1))], "the one that was named last");
    assert_eq!(client.hears("1/r1", named(1, 0)), [read(0, 1)], "it counts anew");
}

/// The replica that is named is gone: it leads no longer, and another one will be named.
#[test]
fn a_leader_that_cannot_be_reached_is_not_asked_for_a_moment() {
    let mut client = Client::new();
    client.begins();
    client.gets(&["oak"]);
    let unreachable = Command::Reachable { replica: replica("1/r1"), reachable: false };
    assert_eq!(client.does(unreachable), NOTHING);
    assert_eq!(client.alone.waits(1), NOTHING, "that one was not asked");
    assert_eq!(client.is_redirected("1/r0", 1), NOTHING);
    assert_eq!(client.alone.waits(50), ["50 ms: 1/r2 ← READ c1.1 oak after ⟨⟩"]);
}
