//! Transactions depend on others of their node.

use super::*;

#[test]
fn a_refusal_aborts_a_transaction_with_all_that_depends_on_it() {
    let mut home = Home::new();
    home.commits_locally(1, 1, "oak=x", 2_000);
    // One has read from it, one has written over it, one follows it, and one has not to do with it.
    assert_eq!(home.reads(2, 1, vec![key("oak")]), ["1/r0 ← READ-AT @2001 oak, number 1"]);
    let told = home.is_told("1/r0", 1, vec![version("oak", "old", 5)]);
    assert_eq!(told, ["c2 ← c2.1 reads oak=x@2000 in @2001"], "the replica has not got it");
    let told = home.commits(3, 1, "oak=z");
    assert_eq!(told, ["1/r0 ← PREPARE here c3.1 oak=z in @2001 on top of c1.1"]);
    let told = home.reads_after(1, 2, after(1), vec![key("iris")]);
    assert_eq!(told, ["1/r0 ← READ-AT @2001 iris, number 2"]);
    home.commits(4, 1, "elm=e");
    let refusal = Refusal::Overwritten(at(2_500));
    let told = home.hears("1/r0", Message::Refused { transaction: txn(1, 1), refusal });
    let mut told = told;
    told.sort();
    let mut expected = vec![
        "c1 ← c1.1 aborted: overwritten @2500",
        "1/r0 ← DECIDE c1.1 aborted",
        "c2 ← c2.1 DOOMED: what it depends on has failed it",
        "c3 ← c3.1 aborted: what it depends on has failed it",
        "1/r0 ← DECIDE c3.1 aborted",
        "c1 ← c1.2 DOOMED: what it depends on has failed it",
    ];
    expected.sort_unstable();
    assert_eq!(told, expected);
    let counts = home.alone.machine.counts().unwrap();
    assert_eq!((counts.aborts, counts.cascades, counts.apologies, counts.shown), (4, 3, 1, 1));
    assert_eq!((counts.finals, counts.speculative_reads), (0, 1));
    assert_eq!(home.alone.machine.load(None), 1, "the other one goes on");
    // The next snapshot includes what was in the way.
    assert_eq!(home.reads(5, 1, vec![key("elm")])[0], "1/r0 ← READ-AT @2501 elm, number 3");
    let told = home.commits_after(1, 3, after(2), "iris=y");
    assert_eq!(told, ["c1 ← c1.3 aborted: what it depends on has failed it"]);
    let told = home.commits_after(1, 4, after(9), "iris=y");
    assert_eq!(told, ["c1 ← c1.4 aborted: it was lost"], "nobody knows that one");
}

/// A commit that is final above a snapshot is not in it.
#[test]
fn what_is_final_above_the_snapshot_of_its_reader_aborts_that() {
    for (timestamp, is_kept) in [(2_001, true), (2_002, false)] {
        let mut home = Home::new();
        home.commits_locally(1, 1, "oak=x", 2_000);
        home.reads(2, 1, vec![key("oak")]);
        home.is_told("1/r0", 1, vec![version("oak", "", 0)]);
        assert_eq!(home.commits(2, 1, ""), ["c2 ← c2.1 SHOWN @2001, 1 in its chain"], "not yet final");
        let told = home.is_prepared("1/r0", 1, 1, timestamp, vec![]);
        assert_eq!(told, [format!("3/r1 ← RECORD c1.1 committed @{timestamp}")]);
        let told = home.is_recorded(1, 1, timestamp);
        let expected = match is_kept {
            true => "c2 ← c2.1 committed @2001, snapshot @2001",
            false => "c2 ← c2.1 aborted: what it depends on has failed it",
        };
        assert!(told.contains(&expected.to_owned()), "{timestamp}: {told:?}");
    }
}

#[test]
fn a_transaction_is_decided_once_all_that_it_depends_on_is_final() {
    let mut home = Home::new();
    home.commits_locally(1, 1, "oak=x", 2_000);
    home.commits(2, 1, "oak=y");
    let told = home.is_voted_here(2, 1, 2_100);
    assert_eq!(told, ["c2 ← c2.1 SHOWN @2100, 1 in its chain"]);
    let told = home.commits_after(1, 2, after(1), "iris=i");
    assert_eq!(told, ["1/r0 ← PREPARE here c1.2 iris=i in @2101"]);
    let told = home.is_voted_here(1, 2, 2_200);
    assert_eq!(told, ["c1 ← c1.2 SHOWN @2200, 2 in its chain"]);
    assert_eq!(home.is_prepared("1/r0", 2, 1, 2_100, vec![]), NOTHING);
    assert_eq!(home.is_prepared("1/r0", 1, 2, 2_200, vec![]), NOTHING);
    assert_eq!(home.is_prepared("1/r0", 1, 1, 2_000, vec![]), ["3/r1 ← RECORD c1.1 committed @2000"]);
    let told = home.is_recorded(1, 1, 2_000);
    assert_eq!(
        only(told, "RECORD "),
        ["3/r1 ← RECORD c2.1 committed @2100", "3/r1 ← RECORD c1.2 committed @2200"]
    );
}

#[test]
fn a_chain_of_results_is_shown_as_far_as_it_may_be() {
    for (shows, shown) in
        [(Shows::Nothing, 0), (Shows::Result, 1), (Shows::Chain(2), 2), (Shows::Chain(8), 3)]
    {
        let mut home = Home::with(|config| config.variant = Variant { shows, ..Variant::EXTERNAL });
        let mut told = Vec::new();
        for (sequence, words) in [(1, "oak=x"), (2, "elm=x"), (3, "iris=x")] {
            let session = if sequence == 1 { Session::default() } else { after(sequence - 1) };
            home.commits_after(1, sequence, session, words);
            told.extend(home.is_voted_here(1, sequence, 2_000 + sequence));
        }
        assert_eq!(only(told.clone(), "SHOWN").len(), shown, "{shows:?}: {told:?}");
        home.is_prepared("1/r0", 1, 1, 2_001, vec![]);
        let told = home.is_recorded(1, 1, 2_001);
        let more = if shown == 3 || shown == 0 { 0 } else { 1 };
        assert_eq!(only(told.clone(), "SHOWN").len(), more, "the chain is shorter: {shows:?}: {told:?}");
    }
}

/// The message waits until the earlier one has a local timestamp.
#[test]
fn a_transaction_that_follows_another_begins_once_that_has_committed_locally() {
    let mut home = Home::new();
    home.commits(1, 1, "oak=x");
    assert_eq!(home.reads_after(1, 2, after(1), vec![key("oak")]), NOTHING);
    let told = home.is_voted_here(1, 1, 2_000);
    assert_eq!(told, ["c1 ← c1.1 SHOWN @2000, 1 in its chain", "1/r0 ← READ-AT @2001 oak, number 1"]);
    // Or once it has aborted.
    let mut home = Home::new();
    home.commits(1, 1, "oak=x");
    home.reads_after(1, 2, after(1), vec![key("oak")]);
    let told = home.hears("1/r0", Message::GiveWay { transaction: txn(1, 1) });
    let expected = [
        "c1 ← c1.1 aborted: a conflict",
        "1/r0 ← DECIDE c1.1 aborted",
        "c1 ← c1.2 DOOMED: what it depends on has failed it",
    ];
    assert_eq!(told, expected);
    assert_eq!(
        home.hears("1/r1", Message::GiveWay { transaction: txn(1, 1) }),
        ["✗ the sender is on another node"]
    );
    assert_eq!(
        home.hears("1/r0", Message::GiveWay { transaction: txn(1, 1) }),
        ["✗ nothing waits under this name"]
    );
    // Only so many messages wait.
    let mut home = Home::with(|config| config.waiting_max = 1);
    home.commits(1, 1, "oak=x");
    assert_eq!(home.reads_after(1, 2, after(1), vec![key("oak")]), NOTHING);
    assert_eq!(home.reads_after(1, 3, after(1), vec![key("oak")]), ["✗ too many requests wait"]);
    assert_eq!(home.reads(2, 1, vec![key("oak")]), ["c2 ← c2.1 DOOMED: too much to do"]);
}

/// Each of a chain that has only read is over with the one before it, and the next one that has written is decided.
#[test]
fn a_chain_of_readers_is_over_with_the_commit_that_the_first_has_read() {
    let mut home = Home::new();
    home.commits_locally(5, 1, "oak=x", 2_000);
    home.reads(1, 1, vec![key("oak")]);
    home.is_told("1/r0", 1, vec![version("oak", "", 0)]);
    assert_eq!(home.commits(1, 1, ""), ["c1 ← c1.1 SHOWN @2001, 1 in its chain"]);
    let told = home.commits_after(1, 2, after(1), "");
    assert_eq!(told, ["c1 ← c1.2 SHOWN @2002, 2 in its chain"]);
    home.commits_after(1, 3, after(2), "elm=e");
    home.is_voted_here(1, 3, 2_100);
    assert_eq!(home.is_prepared("1/r0", 1, 3, 2_100, vec![]), NOTHING);
    home.is_prepared("1/r0", 5, 1, 2_000, vec![]);
    let told = home.is_recorded(5, 1, 2_000);
    let expected = [
        "c5 ← c5.1 committed @2000, snapshot @1001",
        "1/r0 ← DECIDE c5.1 committed @2000",
        "c1 ← c1.1 committed @2001, snapshot @2001",
        "c1 ← c1.2 committed @2002, snapshot @2002",
        "3/r1 ← RECORD c1.3 committed @2100",
    ];
    assert_eq!(told, expected);
}

#[test]
fn what_is_being_decided_is_not_aborted_with_the_life_of_its_neighbour() {
    let mut home = Home::new();
    home.commits_locally(1, 1, "oak=x", 2_000);
    home.is_prepared("1/r0", 1, 1, 2_000, vec![]);
    let told = home.hears("1/r0", Message::Hello { life: Life(6), wants: false });
    assert_eq!(told, NOTHING);
    assert_eq!(home.is_recorded(1, 1, 2_000)[0], "c1 ← c1.1 committed @2000, snapshot @1001");
}

#[test]
fn a_session_in_order_aborts_what_follows_a_commit_above_its_snapshot() {
    for orders_sessions in [false, true] {
        let mut home = Home::with(|config| config.orders_sessions = orders_sessions);
        home.commits_locally(1, 1, "oak=x", 2_000);
        home.reads_after(1, 2, after(1), vec![key("elm")]);
        home.is_prepared("1/r0", 1, 1, 5_000, vec![]);
        let told = home.is_recorded(1, 1, 5_000);
        assert_eq!(only(told, "DOOMED").len(), usize::from(orders_sessions));
    }
}

/// A later transaction of its name need not follow.
#[test]
fn a_transaction_that_was_dropped_follows_nothing_any_more() {
    let mut home = Home::with(|config| config.floor_lag = Duration::from_secs(1));
    home.commits_locally(1, 1, "oak=x", 2_000);
    home.reads_after(1, 2, after(1), vec![key("elm")]);
    home.hears("c1", Message::Abort { transaction: txn(1, 2) });
    home.alone.waits(3_000);
    assert_eq!(only(home.reads(1, 2, vec![key("elm")]), "READ-AT").len(), 1, "it is forgotten");
    home.is_prepared("1/r0", 1, 1, 2_000, vec![]);
    assert_eq!(home.is_recorded(1, 1, 2_000)[0], "c1 ← c1.1 committed @2000, snapshot @1001");
    assert_eq!(home.alone.machine.left(), [("transactions", 1)], "the other one still reads");
}
