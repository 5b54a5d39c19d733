//! From the wish to commit to the outcome: votes, the slow path, and prepares at a higher timestamp.

use quorate_core::command::Invalid;

use super::*;

const NOTHING: [&str; 0] = [];

const ALL: &str = "1/r0 1/r1 1/r2";

fn retry(micros: u64) -> Vote {
    Vote::Retry(at(micros))
}

#[test]
fn a_transaction_commits_in_one_round_trip_if_a_fast_quorum_agrees() {
    let mut client = Client::new(3);
    assert_eq!(client.writes(&["a"]), [format!("{ALL} ← prepare 1 of  at 1000")]);
    assert_eq!(client.hears_vote("1/r0", Vote::Ok), NOTHING);
    assert_eq!(client.hears_vote("1/r1", Vote::Ok), NOTHING);
    assert_eq!(client.hears_vote("2/r2", Vote::Ok), NOTHING, "another shard");
    assert_eq!(client.hears_vote("1/r0", Vote::Ok), NOTHING, "the same replica");
    let told = ["committed at 1000, 0 retries".to_owned(), format!("{ALL} ← commit 1 at 1000")];
    assert_eq!(client.hears_vote("1/r2", Vote::Ok), told);
    assert_eq!(client.hears_vote("1/r2", Vote::Ok), NOTHING, "it is over");

    let mut client = Client::new(3);
    client.writes(&["a", "x"]);
    for replica in ["1/r0", "1/r1", "1/r2", "2/r0", "2/r1"] {
        assert_eq!(client.hears_vote(replica, Vote::Ok), NOTHING, "every shard has to");
    }
    assert_eq!(client.hears_vote("2/r2", Vote::Ok).len(), 2);

    let mut client = Client::new(5);
    client.writes(&["a"]);
    for replica in ["1/r0", "1/r1", "1/r2"] {
        client.hears_vote(replica, Vote::Ok);
    }
    let told = client.hears_vote("1/r4", Vote::Ok);
    let told_all =
        ["1/r0 1/r1 1/r2 ← commit 1 at 1000", "1/r3 ← commit all at 1000", "1/r4 ← commit 1 at 1000"];
    assert_eq!(told[1..], told_all, "one that has not voted may not know the contents");
}

/// As long again as a majority has taken, and as long once more; within bounds.
#[test]
fn a_fast_quorum_is_waited_for_by_what_a_majority_took() {
    for (took, patience) in [(100, 200), (1, 5), (400, 500)] {
        let mut client = Client::new(3);
        client.writes(&["a"]);
        client.hears_vote("1/r0", Vote::Ok);
        assert_eq!(client.waits(took), NOTHING);
        assert_eq!(client.hears_vote("1/r1", Vote::Ok), NOTHING);
        let told = client.waits(patience);
        let expected = [format!("{patience} ms: {ALL} ← finalize 1 as OK in v0")];
        assert_eq!(told, expected, "after {took} ms");
        assert_eq!(client.hears_confirmed("1/r1", Vote::Ok), NOTHING);
        let told = [
            "committed at 1000, 0 retries, slowly",
            "1/r0 1/r1 ← commit 1 at 1000",
            "1/r2 ← commit all at 1000",
        ];
        assert_eq!(client.hears_confirmed("1/r0", Vote::Ok), told);
        // One that was waited for in vain is not waited for again before it has spoken.
        for (speaks, waits) in [(false, false), (true, true)] {
            if speaks {
                client.hears("1/r2", Message::Outdated);
            }
            client.writes(&["a"]);
            client.hears_vote("1/r0", Vote::Ok);
            assert_eq!(client.hears_vote("1/r1", Vote::Ok).is_empty(), waits);
        }
    }
}

#[test]
fn a_replica_that_is_known_to_be_down_is_not_waited_for() {
    let mut client = Client::new(3);
    client.writes(&["a"]);
    client.hears_vote("1/r0", Vote::Ok);
    client.knows("1/r2", false);
    let told = client.hears_vote("1/r1", Vote::Ok);
    assert_eq!(told, [format!("{ALL} ← finalize 1 as OK in v0")]);
    client.knows("1/r1", false);
    let failed = client.writes(&["a"]);
    assert_eq!(failed, ["unavailable: 1/r1 1/r2"], "nothing has left");
    assert_eq!(client.writes(&["x"]).len(), 1);
}

#[test]
fn votes_against_it_end_a_transaction_as_soon_as_nothing_can_turn_it() {
    let mut client = Client::new(3);
    client.writes(&["a"]);
    client.hears_vote("1/r0", Vote::Ok);
    let told = client.hears_vote("1/r1", Vote::Abort);
    assert_eq!(told, [format!("{ALL} ← finalize 1 as ABORT in v0")], "a committed transaction is in the way");
    assert_eq!(client.hears_confirmed("1/r1", Vote::Abort), NOTHING);
    let told = ["Conflict".to_owned(), format!("{ALL} ← abort, last at 1000")];
    assert_eq!(client.hears_confirmed("1/r0", Vote::Abort), told);

    let mut client = Client::new(3);
    client.writes(&["a"]);
    for replica in ["1/r0", "1/r1"] {
        assert_eq!(client.hears_vote(replica, Vote::Abort), NOTHING, "the third may make it fast");
    }
    assert_eq!(client.hears_vote("1/r2", Vote::Abort)[0], "Conflict");

    let mut client = Client::new(3);
    client.writes(&["a"]);
    client.hears_vote("1/r0", Vote::Ok);
    assert_eq!(client.hears_vote("1/r1", Vote::Abstain), NOTHING, "the third may agree");
    let told = client.hears_vote("1/r2", Vote::Abstain);
    assert_eq!(told, [format!("{ALL} ← finalize 1 as ABORT in v0")]);
}

#[test]
fn a_transaction_is_prepared_again_above_what_is_asked_for() {
    let mut client = Client::with(3, |config| config.retry_ahead = Duration::from_micros(100));
    client.writes(&["a", "x"]);
    for replica in ["2/r0", "2/r1", "2/r2"] {
        client.hears_vote(replica, Vote::Ok);
    }
    assert_eq!(client.hears_vote("1/r0", retry(2_000)), NOTHING);
    let again = |number: u32, micros: u64| {
        [
            format!("{ALL} ← prepare {number} of  at {micros}, first 1000"),
            format!("2/r0 2/r1 2/r2 ← prepare {number} of  at {micros}, first 1000"),
        ]
    };
    let mut expected = again(2, 3_101).to_vec();
    let told = client.hears_vote("1/r1", retry(3_000));
    if told.len() == 1 {
        expected = vec![format!("{ALL} 2/r0 2/r1 2/r2 ← prepare 2 of  at 3101, first 1000")];
    }
    assert_eq!(told, expected, "every shard is asked anew");
    client.round = 1;
    assert_eq!(client.hears_vote("1/r2", Vote::Ok), NOTHING, "a vote on the prepare before");
    client.round = 2;
    client.hears_vote("1/r0", retry(4_000));
    let told = client.hears_vote("1/r1", retry(4_000));
    assert!(told.is_empty(), "the third may make it fast: {told:?}");
    let told = client.hears_vote("1/r2", retry(4_000));
    assert!(told[0].contains("prepare 3 of  at 4201, first 1000"), "each time twice as far: {told:?}");
    for shard in ["1", "2"] {
        for replica in ["r0", "r1", "r2"] {
            client.hears_vote(&format!("{shard}/{replica}"), Vote::Ok);
        }
    }
    let told = client.writes(&["a"]);
    assert!(told[0].ends_with("at 4202"), "nothing is proposed below what was: {told:?}");
}

/// Else a client whose clock is far behind would never get above a floor.
#[test]
fn one_further_prepare_is_always_allowed() {
    for (retries_max, allowed) in [(0, 1), (1, 1), (2, 2)] {
        let mut client = Client::with(3, |config| config.retries_max = retries_max);
        client.writes(&["a"]);
        let mut prepared = 0;
        for above in [2_000, 3_000, 4_000] {
            client.hears_vote("1/r0", retry(above));
            let told = client.hears_vote("1/r1", retry(above + 1));
            if told[0].contains("finalize") {
                assert!(told[0].ends_with("as ABORT in v0"), "{told:?}");
                break;
            }
            prepared += 1;
        }
        assert_eq!(prepared, allowed, "of {retries_max}");
    }
}

/// Replicas give no vote so far above the first.
#[test]
fn a_transaction_is_not_prepared_further_above_its_first_timestamp_than_replicas_allow() {
    for (above, again) in [(5_998, true), (6_000, false)] {
        let mut client = Client::with(3, |config| config.retry_span = Duration::from_micros(5_000));
        client.writes(&["a"]);
        client.hears_vote("1/r0", retry(above));
        let told = client.hears_vote("1/r1", retry(above + 1));
        assert_eq!(told[0].contains("prepare 2"), again, "{told:?}");
    }
}

#[test]
fn two_short_round_trips_are_taken_where_they_are_sooner_than_a_long_one() {
    let measured = || {
        let mut client = Client::with(3, |config| config.deadlines = true);
        for (wait, replica) in [(1, "1/r0"), (0, "1/r1"), (261, "1/r2")] {
            client.waits(wait);
            let (sent, arrived) = (client.probed, client.probed);
            client.hears(replica, Message::ClockProbeReply { sent, arrived });
        }
        client.writes(&["a"]);
        assert_eq!(client.hears_vote("1/r0", Vote::Ok), NOTHING);
        client
    };
    let told = measured().hears_vote("1/r1", Vote::Ok);
    assert_eq!(told, [format!("{ALL} ← finalize 1 as OK in v0")]);
    assert_eq!(measured().hears_vote("1/r1", Vote::Abstain), NOTHING, "the third may agree");
    let mut unmeasured = Client::new(3);
    unmeasured.writes(&["a"]);
    unmeasured.hears_vote("1/r0", Vote::Ok);
    assert_eq!(unmeasured.hears_vote("1/r1", Vote::Ok), NOTHING);
}

#[test]
fn what_has_had_no_answer_is_sent_again_at_longer_and_longer_intervals() {
    let mut client = Client::new(3);
    client.writes(&["a"]);
    client.hears_vote("1/r1", Vote::Ok);
    let again = |after: u64| format!("{after} ms: 1/r0 1/r2 ← prepare 1 of  at 1000");
    let expected = [1_000, 3_000, 7_000, 15_000, 23_000, 31_000, 39_000].map(again);
    assert_eq!(client.waits(39_000), expected);
    client.hears_vote("1/r0", Vote::Ok);
    let told = client.waits(500);
    assert!(told[0].ends_with("finalize 1 as OK in v0"), "{told:?}");
    client.hears_confirmed("1/r1", Vote::Ok);
    let told = client.waits(8_000);
    let repeated = ["1/r2 ← prepare 1 of  at 1000", "1/r0 1/r2 ← finalize 1 as OK in v0"];
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().zip(repeated).all(|(line, expected)| line.ends_with(expected)), "{told:?}");
}

#[test]
fn a_replica_of_an_earlier_view_is_told_of_the_later_one() {
    let mut client = Client::new(3);
    client.writes(&["a"]);
    client.hears_vote("1/r0", Vote::Ok);
    client.view = 2;
    assert_eq!(client.hears_vote("1/r1", Vote::Ok), ["1/r0 ← higher view 2"]);
    assert_eq!(client.hears_vote("1/r2", Vote::Ok)[0], "1/r0 ← higher view 2");
    client.view = 2;
    let told = client.hears_vote("1/r0", Vote::Ok);
    assert_eq!(told[0], "committed at 1000, 0 retries");
}

/// If so many find it too far ahead that the others are no quorum, it is this client's clock that is wrong.
#[test]
fn a_timestamp_too_far_ahead_of_the_others_is_given_up_and_settled_by_others() {
    let mut client = Client::new(3);
    client.writes(&["a"]);
    let transaction = client.transaction;
    let ahead = |ahead_micros| Message::ClockAhead { transaction, ahead_micros, ahead_max_micros: 60 };
    assert_eq!(client.hears("1/r0", ahead(70)), NOTHING);
    assert_eq!(client.hears("1/r0", ahead(70)), NOTHING);
    assert_eq!(client.hears("2/r1", ahead(70)), NOTHING);
    let told = client.hears("1/r1", ahead(70));
    assert!(told.len() == 1 && told[0].ends_with("recover what was at 1000"), "{told:?}");
    let aborted = Message::RecoverReply { transaction, outcome: quorate_core::command::Outcome::Aborted };
    let invalid = Invalid::ClockAhead { ahead_micros: 70, ahead_max_micros: 60 };
    assert_eq!(client.hears("1/r0", aborted), [format!("Invalid({invalid:?})")]);

    // One alone is passed over: the others make a quorum.
    let mut client = Client::new(3);
    client.writes(&["a"]);
    let transaction = client.transaction;
    let ahead = Message::ClockAhead { transaction, ahead_micros: 70, ahead_max_micros: 60 };
    client.hears("1/r2", ahead);
    client.hears_vote("1/r0", Vote::Ok);
    assert_eq!(client.hears_vote("1/r1", Vote::Ok), [format!("{ALL} ← finalize 1 as OK in v0")]);
}

#[test]
fn a_name_that_is_in_use_is_not_taken_again() {
    let mut client = Client::new(3);
    client.begins();
    let (transaction, patience) = (client.transaction, Duration::from_secs(1));
    let begin = || Command::Begin { transaction, keyspace: KEYSPACE, patience };
    let in_use = [format!("Invalid({:?})", Invalid::NotOpen(transaction))];
    assert_eq!(client.does(begin()), in_use);
    let keys = vec![named("a")];
    let freshness = Freshness::Strict;
    let read = Command::ReadOnly { transaction, keyspace: KEYSPACE, keys, freshness, patience };
    assert_eq!(client.does(read), in_use);
    assert_eq!(client.gets("a"), ["1/r0 ← read a"], "the first goes on");
}

#[test]
fn others_vote_where_nothing_is_final_once_they_are_the_replicas() {
    let mut client = Client::new(3);
    client.writes(&["a", "x"]);
    for replica in ["1/r0", "1/r1", "1/r2", "2/r0"] {
        client.hears_vote(replica, Vote::Ok);
    }
    assert_eq!(client.learns_of(Epoch(2), &[3, 4, 0]), ["2/r0 2/r3 2/r4 ← prepare 1 of  at 1000"]);
    for replica in ["2/r0", "2/r3"] {
        assert_eq!(client.hears_vote(replica, Vote::Ok), NOTHING);
    }
    let told = client.hears_vote("2/r4", Vote::Ok);
    assert_eq!(told[0], "committed at 1000, 0 retries");

    // Those before the change count no more, whichever they were.
    let mut client = Client::new(3);
    client.learns_of(Epoch(2), &[2, 3, 4]);
    client.writes(&["a"]);
    client.hears_vote("1/r2", Vote::Ok);
    client.hears_vote("1/r3", Vote::Ok);
    assert_eq!(client.learns_of(Epoch(3), &[0, 1, 2]), [format!("{ALL} ← prepare 1 of  at 1000")]);
    client.hears_vote("1/r0", Vote::Ok);
    assert_eq!(client.hears_vote("1/r1", Vote::Ok), NOTHING);
    assert_eq!(client.hears_vote("1/r2", Vote::Ok)[0], "committed at 1000, 0 retries");
}
