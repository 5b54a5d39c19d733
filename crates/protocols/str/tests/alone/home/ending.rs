//! Transactions end: in what order, who is told, and for how long it is remembered.

use quorate_core::{Groups, Members};

use super::*;

/// The wait for votes begins with the first answer of the leader.
#[test]
fn a_leader_that_answers_again_does_not_postpone_what_passes() {
    let mut home = Home::new();
    home.commits(1, 1, "oak=x");
    home.is_voted_here(1, 1, 2_000);
    assert_eq!(home.is_prepared("1/r0", 1, 1, 2_000, vec![holder(1, 8_000)]), NOTHING);
    home.alone.waits(400);
    assert_eq!(home.is_prepared("1/r0", 1, 1, 2_000, vec![holder(1, 8_000)]), NOTHING);
    assert_eq!(home.alone.waits(100), ["100 ms: 3/r1 ← RECORD c1.1 committed @8001"]);
}

/// A vote may be repeated, and copies come in any order.
#[test]
fn of_the_votes_of_a_replica_the_greatest_counts() {
    let mut home = Home::new();
    home.commits(1, 1, "oak=x");
    home.is_voted_here(1, 1, 2_000);
    for proposal in [4_000, 3_000] {
        let (life, view) = (Life(3), View(0));
        let vote = Message::Vote { transaction: txn(1, 1), life, view, proposal: at(proposal) };
        assert_eq!(home.hears("1/r1", vote), NOTHING);
    }
    let told = home.is_prepared("1/r0", 1, 1, 2_000, vec![holder(1, 8_000)]);
    assert_eq!(told, ["3/r1 ← RECORD c1.1 committed @4000"]);
}

/// A decision names all that the shards and later readers have to know.
#[test]
fn a_decision_has_the_shards_the_snapshot_and_the_readers_of_its_transaction() {
    let mut home = Home::new();
    home.alone.follows(&quorate_str::Entry::Forgotten(at(250)));
    home.commits(1, 1, "apple=a oak=x");
    home.is_voted_here(1, 1, 2_000);
    home.reads_after(2, 1, seen(3_000), vec![key("apple"), key("oak")]);
    home.alone.follows(&quorate_str::Entry::Forgotten(at(260)));
    home.is_prepared("1/r0", 1, 1, 2_000, vec![]);
    home.is_prepared("2/r0", 1, 1, 2_500, vec![]);
    let expected = quorate_str::entry::Decision {
        transaction: txn(1, 1),
        by: ReplicaIndex(0),
        snapshot: at(1_001),
        begun: at(900),
        participants: vec![ShardId(1), ShardId(2)],
        outcome: committed(2_500),
        readers: vec![(Key::from("apple"), at(3_001))],
    };
    assert_eq!(
        home.alone.said,
        [Message::Record { decision: expected, forgotten: Some(at(250)) }],
        "the other key's readers are known there"
    );
}

#[test]
fn a_transaction_that_waits_for_another_one_for_too_long_is_given_up_for_that() {
    let mut home = Home::new();
    home.commits_locally(5, 1, "oak=x", 2_000);
    home.commits(1, 1, "oak=y");
    home.is_voted_here(1, 1, 2_100);
    assert_eq!(home.is_prepared("1/r0", 1, 1, 2_100, vec![]), NOTHING);
    assert_eq!(only(home.alone.waits(9_999), "aborted:"), NOTHING);
    let expected = [
        "1 ms: c1 ← c1.1 aborted: what it depends on has failed it",
        "1 ms: c5 ← c5.1 aborted: shard 1 is silent",
    ];
    assert_eq!(only(home.alone.waits(1), "aborted:"), expected);
}

/// A clock that was wrong there would lead all snapshots of the node as far.
#[test]
fn a_commit_that_was_in_the_way_is_included_next_unless_it_is_far_ahead() {
    for (micros, snapshot) in [(10_001_000, 10_001_001), (10_001_001, 1_001)] {
        let mut home = Home::with(|config| config.ahead_max = Duration::from_secs(10));
        home.commits_locally(1, 1, "oak=x", 2_000);
        let refusal = Refusal::Overwritten(at(micros));
        home.hears("1/r0", Message::Refused { transaction: txn(1, 1), refusal });
        let told = home.reads(2, 1, vec![key("oak")]);
        assert_eq!(told, [format!("1/r0 ← READ-AT @{snapshot} oak, number 1")]);
    }
}

/// The replica of the node has noted it, and the leader holds its keys.
#[test]
fn an_abort_is_told_to_the_replica_of_the_node_and_to_the_leader_that_was_asked() {
    let mut home = Home::new();
    home.commits(1, 1, "oak=x");
    let (transaction, proposal) = (txn(1, 1), at(2_000));
    let told =
        home.hears("1/r0", Message::LocalVote { transaction, life: NEIGHBOUR, proposal, leads: false });
    assert_eq!(told[1..], ["1/r0 ← PREPARE c1.1 oak=x in @1001"]);
    let named = Message::NotLeading { transaction: Some(transaction), leader: ReplicaIndex(1) };
    assert_eq!(home.hears("1/r0", named), ["1/r1 ← PREPARE c1.1 oak=x in @1001"]);
    let told = home.hears("1/r1", Message::Refused { transaction, refusal: Refusal::Conflict });
    let both = ["c1 ← c1.1 aborted: a conflict", "1/r0 ← DECIDE c1.1 aborted", "1/r1 ← DECIDE c1.1 aborted"];
    assert_eq!(told, both);
    // No leader was asked yet.
    home.commits(2, 1, "elm=x");
    let told = home.hears("1/r0", Message::GiveWay { transaction: txn(2, 1) });
    assert_eq!(told, ["c2 ← c2.1 aborted: a conflict", "1/r0 ← DECIDE c2.1 aborted"]);
    // No replica of the node has noted it.
    home.commits(3, 1, "pear=x");
    let told = home.hears("2/r0", Message::Refused { transaction: txn(3, 1), refusal: Refusal::Conflict });
    assert_eq!(told, ["c3 ← c3.1 aborted: a conflict", "2/r0 ← DECIDE c3.1 aborted"]);
}

/// Another machine of the home has decided it, or this one in an earlier life.
#[test]
fn a_commit_that_was_decided_elsewhere_ends_what_a_late_message_has_begun_here() {
    let mut home = Home::new();
    home.reads(1, 1, vec![key("oak")]);
    assert_eq!(home.is_recorded(1, 1, 900), ["c1 ← c1.1 DOOMED: it was lost"]);
    assert_eq!(home.commits(1, 1, "oak=x"), ["c1 ← c1.1 committed @900, snapshot @0"], "it is remembered");
    assert_eq!(home.is_recorded(1, 1, 900), ["✗ nothing waits under this name"]);
}

#[test]
fn a_message_that_waits_for_a_transaction_is_handled_once_that_has_read_all() {
    let mut home = Home::new();
    home.reads(1, 1, vec![key("oak")]);
    assert_eq!(home.reads_after(1, 2, after(1), vec![key("elm")]), NOTHING);
    assert_eq!(home.commits(1, 1, ""), NOTHING, "it still reads");
    let told = home.is_told("1/r0", 1, vec![version("oak", "x", 5)]);
    let expected = [
        "c1 ← c1.1 reads oak=x@5 in @1001",
        "c1 ← c1.1 SHOWN @1001, 1 in its chain",
        "c1 ← c1.1 committed @1001, snapshot @1001",
        "1/r0 ← READ-AT @1002 elm, number 2",
    ];
    assert_eq!(told, expected);
    // Or has been dropped.
    home.reads(3, 1, vec![key("oak")]);
    let follows = Session { seen: at(0), after: Some(txn(3, 1)) };
    assert_eq!(home.reads_after(3, 2, follows, vec![key("elm")]), NOTHING);
    let told = home.hears("c3", Message::Abort { transaction: txn(3, 1) });
    let expected = ["c3 ← c3.1 DOOMED: it was lost", "c3 ← c3.2 DOOMED: what it depends on has failed it"];
    assert_eq!(told, expected);
}

/// An ending is remembered for one period and a part of another: no commit of an earlier one is taken.
#[test]
fn endings_are_remembered_for_as_long_as_their_commits_are_taken() {
    let mut home = Home::with(|config| config.floor_lag = Duration::from_secs(2));
    home.commits(1, 1, "oak=x");
    let aborted = ["c1 ← c1.1 aborted: a conflict"];
    assert_eq!(home.hears("1/r0", Message::GiveWay { transaction: txn(1, 1) })[..1], aborted);
    home.alone.waits(3_999);
    assert_eq!(home.commits(1, 1, "oak=x"), aborted);
    home.alone.waits(1);
    assert_eq!(home.commits(1, 1, "oak=x"), ["c1 ← c1.1 OTHER-PERIOD"]);
    assert_eq!(home.reads(1, 1, vec![key("oak")]).len(), 1, "it begins anew");
}

/// The client has gone elsewhere by then.
#[test]
fn a_session_that_is_ahead_of_clocks_has_waited_only_if_it_asks_again_before_long() {
    for (milliseconds, begins) in [(7_999, true), (8_000, false)] {
        let mut home = Home::new();
        let early = ["✗ its session is ahead of clocks", "c2 ← c2.1 UNDER-WAY"];
        assert_eq!(home.reads_after(2, 1, seen(25_000_000), vec![key("oak")]), early);
        home.alone.waits(milliseconds);
        let told = home.reads_after(2, 1, seen(25_000_000), vec![key("oak")]);
        assert_eq!(told == early, !begins, "{milliseconds}: {told:?}");
    }
}

/// A version that is noted at a replica that is no member any more is protected by nobody.
#[test]
fn a_replica_of_the_node_that_is_no_member_any_more_is_left() {
    let mut home = Home::new();
    let groups = |epochs: &[&[u8]]| {
        let members = |members: &[u8]| Members::new(members.iter().copied().map(ReplicaIndex)).unwrap();
        let first = Groups::new(GroupSize::new(3).unwrap());
        epochs.iter().fold(first, |groups, shard| groups.next([(ShardId(1), members(shard))]))
    };
    home.commits_locally(1, 1, "oak=x", 2_000);
    home.reads(2, 1, vec![key("elm")]);
    let changes =
        |home: &mut Home, epochs: &[&[u8]]| home.alone.does(ReplicaCommand::ChangeGroups(groups(epochs)));
    let told = changes(&mut home, &[&[1, 2, 3]]);
    let expected =
        ["c1 ← c1.1 aborted: a conflict", "1/r0 ← DECIDE c1.1 aborted", "1/r2 ← READ-AT @2001 elm, number 1"];
    assert_eq!(told, expected, "it may lead its shard until the group has gone on");
    assert_eq!(changes(&mut home, &[&[1, 2, 3]]), ["✗ an epoch that is known"]);
    assert_eq!(
        home.hears("1/r0", Message::Hello { life: NEIGHBOUR, wants: false }),
        ["✗ the sender is on another node"]
    );
    let told = home.commits(3, 1, "iris=i");
    assert!(told[0].contains("SHOWN"), "no replica here certifies it: {told:?}");
    // It is one again.
    let told = changes(&mut home, &[&[1, 2, 3], &[0, 1, 2]]);
    assert_eq!(told, ["1/r0 ← HELLO, and who are you?"]);
}
