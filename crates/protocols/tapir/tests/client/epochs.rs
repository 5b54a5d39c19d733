//! Other replicas: which epochs are news, and what a client forgets of those that are members no more.

use super::*;

const IN_THE_PAST: Freshness = Freshness::At(Timestamp { micros: 900, client: CLIENT });

const NOTHING: [&str; 0] = [];

#[test]
fn only_a_later_epoch_has_a_client_ask_anew() {
    let mut client = Client::new(3);
    assert_eq!(client.reads(&["a"], IN_THE_PAST), ["1/r0 1/r1 ← quorum read 1 of a at 900"]);
    assert_eq!(client.learns_of(Epoch::FIRST, &[2, 1, 0]), NOTHING, "the same replicas in another order");
    assert_eq!(client.learns_of(Epoch(3), &[2, 0, 1]), ["1/r2 1/r0 ← quorum read 2 of a at 900"]);
    assert_eq!(client.does(Command::Route(routes(Epoch(2), &[4, 3, 1], None))), NOTHING);
    assert_eq!(client.coordinator.epoch(Address::Replica(replica("1/r0"))), Epoch(3));
    assert_eq!(client.is_told("1/r0", &["5"]), NOTHING);
    assert_eq!(client.is_told("1/r1", &["5"])[0], "a = 5");
    assert_eq!(
        client.reads(&["a"], IN_THE_PAST),
        ["1/r2 1/r0 ← quorum read 1 of a at 900"],
        "the nearest is as it was"
    );
}

/// A client after two changes: in between, the third replica was a member, or was not.
fn after_changes(client: &mut Client, stays: bool) {
    client.learns_of(Epoch(2), if stays { &[0, 1, 2] } else { &[0, 1, 3] });
    client.learns_of(Epoch(3), &[0, 1, 2]);
}

/// True if the third replica is waited for once the others have agreed.
fn waits_for_third(client: &mut Client) -> bool {
    client.writes(&["a"]);
    client.hears_vote("1/r0", Vote::Ok);
    client.hears_vote("1/r1", Vote::Ok).is_empty()
}

#[test]
fn that_a_replica_is_down_is_known_as_long_as_it_is_a_member() {
    for stays in [true, false] {
        let mut client = Client::new(3);
        client.knows("1/r2", false);
        after_changes(&mut client, stays);
        assert_eq!(waits_for_third(&mut client), !stays);
    }
}

#[test]
fn that_a_replica_is_silent_is_known_as_long_as_it_is_a_member() {
    for stays in [true, false] {
        let mut client = Client::new(3);
        assert!(waits_for_third(&mut client));
        assert!(client.waits(5)[0].ends_with("finalize 1 as OK in v0"), "it was waited for in vain");
        for replica in ["1/r0", "1/r1"] {
            client.hears_confirmed(replica, Vote::Ok);
        }
        after_changes(&mut client, stays);
        assert_eq!(waits_for_third(&mut client), !stays);
    }
}

#[test]
fn that_a_replica_answers_single_reads_alone_is_known_as_long_as_it_is_a_member() {
    for (stays, expected) in [(true, "1/r2 1/r2"), (false, "1/r2")] {
        let mut client = Client::new(3);
        client.learns_of(Epoch::FIRST, &[2, 0, 1]);
        client.begins();
        let many = |client: &mut Client| {
            let (transaction, keys) = (client.transaction, vec![named("a"), named("b")]);
            client.does(Command::GetMany { transaction, keys })
        };
        assert_eq!(many(&mut client), ["1/r2 ← read a b"]);
        let told = client.waits(500);
        assert_eq!(told, ["500 ms: 1/r0 ← read a", "500 ms: 1/r0 ← read b"], "it may know no such request");
        client.begins();
        let apart = ["1/r2 ← read a", "1/r2 ← read b"];
        assert_eq!(many(&mut client), apart);
        client.learns_of(Epoch(2), if stays { &[2, 0, 1] } else { &[0, 1, 3] });
        client.learns_of(Epoch(3), &[2, 0, 1]);
        client.begins();
        let told = many(&mut client);
        assert_eq!(told.len(), expected.split(' ').count(), "{told:?}");
    }
}

#[test]
fn what_a_replica_is_to_be_told_is_kept_as_long_as_it_is_a_member() {
    let stale = Freshness::Stale(Duration::from_micros(100));
    for (stays, expected) in
        [(true, "1/r2 ← read validated a, and is told"), (false, "1/r2 ← read validated a")]
    {
        let mut client = Client::new(3);
        client.learns_of(Epoch::FIRST, &[2, 0, 1]);
        client.reads(&["a"], stale);
        client.is_told_validated("1/r2", &[(5, 800)]);
        client.is_told("1/r2", &["5"]);
        assert_eq!(client.is_told("1/r0", &["5"]).len(), 2, "a quorum has answered");
        client.learns_of(Epoch(2), if stays { &[2, 0, 1] } else { &[0, 1, 3] });
        client.learns_of(Epoch(3), &[2, 0, 1]);
        assert_eq!(client.reads(&["a"], stale), [expected]);
    }
}

/// A round is of one membership.
#[test]
fn a_read_of_two_shards_is_begun_anew_in_both() {
    let mut client = Client::new(3);
    client.reads(&["a", "x"], IN_THE_PAST);
    client.is_told("1/r0", &["5"]);
    client.is_told("1/r1", &["5"]);
    let again = ["1/r0 1/r1 ← quorum read 2 of a at 900", "2/r0 2/r1 ← quorum read 2 of x at 900"];
    assert_eq!(client.learns_of(Epoch(2), &[0, 1, 3]), again);
    for replica in ["2/r0", "2/r1", "1/r0"] {
        assert_eq!(client.is_told(replica, &["6"]), NOTHING);
    }
    let told = client.is_told("1/r1", &["6"]);
    assert_eq!((told[0].as_str(), told[1].as_str()), ("a = 6", "x = 6"));
    assert_eq!(told.last().unwrap(), "committed at 900, 1 retries");
}

/// Their clocks are others, too.
#[test]
fn a_replica_that_found_a_timestamp_too_far_ahead_is_counted_once_in_each_epoch() {
    let mut client = Client::new(3);
    client.reads(&["a"], IN_THE_PAST);
    let ahead = |client: &mut Client, from: &str| {
        let transaction = client.transaction;
        client.hears(from, Message::ClockAhead { transaction, ahead_micros: 70, ahead_max_micros: 60 })
    };
    assert_eq!(ahead(&mut client, "1/r0"), ["1/r2 ← quorum read 1 of a at 900"]);
    client.learns_of(Epoch(2), &[0, 1, 3]);
    assert_eq!(ahead(&mut client, "1/r1"), ["1/r3 ← quorum read 2 of a at 900"], "two of three are a quorum");
    assert_eq!(ahead(&mut client, "2/r0"), NOTHING, "a shard that is not read");
    assert!(ahead(&mut client, "1/r0")[0].starts_with("Invalid"));
}
